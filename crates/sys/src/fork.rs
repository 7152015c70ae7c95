//! New processes: a copy of the caller in namespaces of its own, a descriptor that stands for it, and its end.

use crate::{Errno, checked, last_errno};
use rustix::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus};
use std::os::fd::RawFd;

/// Which namespaces the new process gets for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Namespaces {
    pub user: bool,
    pub pid: bool,
    pub mount: bool,
    pub ipc: bool,
    pub uts: bool,
    pub net: bool,
    pub cgroup: bool,
}

impl Namespaces {
    fn flags(self) -> libc::c_int {
        let each = [
            (self.user, libc::CLONE_NEWUSER),
            (self.pid, libc::CLONE_NEWPID),
            (self.mount, libc::CLONE_NEWNS),
            (self.ipc, libc::CLONE_NEWIPC),
            (self.uts, libc::CLONE_NEWUTS),
            (self.net, libc::CLONE_NEWNET),
            (self.cgroup, libc::CLONE_NEWCGROUP),
        ];
        each.iter().filter(|(wanted, _)| *wanted).fold(0, |flags, (_, flag)| flags | flag)
    }
}

/// The two sides of a fork.
pub enum Forked {
    Child,
    Parent(Process),
}

/// A child of ours, by number and by descriptor.
pub struct Process {
    pub pid: Pid,
    pub pidfd: OwnedFd,
}

/// Forks into new namespaces.
///
/// Only the main thread of a single-threaded process may call this: the copy has only the calling thread, and the child's
/// parent-death signal is tied to it. `launch` never starts a thread.
pub fn fork_into(namespaces: Namespaces) -> Result<Forked, Errno> {
    copy(namespaces.flags())
}

/// The same for a process that is not our child but our parent's.
pub(crate) fn fork_for_parent(namespaces: Namespaces) -> Result<Forked, Errno> {
    copy(namespaces.flags() | libc::CLONE_PARENT)
}

fn copy(flags: libc::c_int) -> Result<Forked, Errno> {
    let mut pidfd: RawFd = -1;
    let flags = flags | libc::CLONE_PIDFD | libc::SIGCHLD;
    // SAFETY: a null stack makes the child continue on a copy of this one, as fork does; with CLONE_PIDFD the third argument is
    // where the kernel stores the descriptor, and `pidfd` lives until the call returns. The process is single-threaded (see `fork_into`),
    // so no lock of the C library can be held by a thread that does not exist in the child.
    let result = unsafe {
        libc::syscall(
            libc::SYS_clone,
            flags as libc::c_ulong,
            std::ptr::null_mut::<libc::c_void>(),
            &raw mut pidfd,
            std::ptr::null_mut::<libc::c_void>(),
            0 as libc::c_ulong,
        )
    };
    match checked(result)? {
        0 => Ok(Forked::Child),
        number => {
            let pid = i32::try_from(number).ok().and_then(Pid::from_raw).ok_or(Errno::INVAL)?;
            // SAFETY: the kernel has just made this descriptor for us and nobody else owns it.
            Ok(Forked::Parent(Process { pid, pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) } }))
        }
    }
}

/// A stack for a process that shares our memory.
pub struct Stack(Vec<u128>);

impl Stack {
    /// Room for a debug build; pages that are not touched cost nothing.
    const BYTES: usize = 256 * 1024;
    /// Room for all that a process does in its life.
    const BYTES_FOR_LIFE: usize = 8 * 1024 * 1024;

    pub fn new() -> Self {
        Stack(Vec::with_capacity(Stack::BYTES / size_of::<u128>()))
    }

    pub(crate) fn for_life() -> Self {
        Stack(Vec::with_capacity(Stack::BYTES_FOR_LIFE / size_of::<u128>()))
    }

    /// Gives the stack to somebody whose end is not waited for.
    pub fn leak(self) -> *mut libc::c_void {
        std::mem::ManuallyDrop::new(self).top()
    }

    fn top(&mut self) -> *mut libc::c_void {
        // SAFETY: one past the end of the allocation, 16-byte aligned as the ABI wants it; stacks grow downwards.
        unsafe { self.0.as_mut_ptr().add(self.0.capacity()).cast() }
    }
}

impl Default for Stack {
    fn default() -> Self {
        Stack::new()
    }
}

type Entry = extern "C" fn(*mut libc::c_void) -> libc::c_int;

/// Makes a process on a stack of its own that shares our memory, and what else `flags` say.
///
/// # Safety
///
/// `stack` is the top of a stack that lives as long as the process; `argument` is what `entry` expects, for as long as it uses it. What
/// both sides touch at the same time is for the caller to keep apart.
unsafe fn share_memory(
    flags: libc::c_int,
    stack: *mut libc::c_void,
    entry: Entry,
    argument: *mut libc::c_void,
) -> Result<Process, Errno> {
    let mut pidfd: RawFd = -1;
    let flags = flags | libc::CLONE_VM | libc::CLONE_PIDFD | libc::SIGCHLD;
    // SAFETY: the caller keeps stack and argument; with CLONE_PIDFD the kernel stores the descriptor in `pidfd`.
    let number = unsafe { libc::clone(entry, stack, flags, argument, &raw mut pidfd) };
    if number == -1 {
        return Err(last_errno());
    }
    let pid = Pid::from_raw(number).ok_or(Errno::INVAL)?;
    // SAFETY: the kernel has just made this descriptor for us and nobody else owns it.
    Ok(Process { pid, pidfd: unsafe { OwnedFd::from_raw_fd(pidfd) } })
}

/// Starts a process that works beside us, in the same memory and with the same descriptors.
///
/// # Safety
///
/// `stack` was given away by [`Stack::leak`]. `entry` must not touch anything that we may touch at the same time, the state of the C
/// library included.
pub(crate) unsafe fn beside(stack: *mut libc::c_void, entry: Entry) -> Result<Process, Errno> {
    // SAFETY: the caller's own promise.
    unsafe { share_memory(libc::CLONE_FILES, stack, entry, std::ptr::null_mut()) }
}

/// Starts a process that borrows our memory until it executes another program or ends; we stand still meanwhile.
///
/// Faster than a fork, which copies the tables of all our memory only for them to be thrown away. `act` must not return: it ends in exec
/// or in `exit_now`. What it changes in memory, we see.
pub fn borrow_memory(stack: &mut Stack, act: &mut dyn FnMut()) -> Result<Process, Errno> {
    borrow_memory_as(0, stack, act)
}

/// The same for a process that is not our child but our parent's: a brother that starts where we are.
pub fn borrow_memory_for_parent(stack: &mut Stack, act: &mut dyn FnMut()) -> Result<Process, Errno> {
    borrow_memory_as(libc::CLONE_PARENT, stack, act)
}

/// The same for a process that leaves us what it opens.
pub(crate) fn borrow_memory_and_descriptors(
    stack: &mut Stack,
    act: &mut dyn FnMut(),
) -> Result<Process, Errno> {
    borrow_memory_as(libc::CLONE_FILES, stack, act)
}

fn borrow_memory_as(flags: libc::c_int, stack: &mut Stack, act: &mut dyn FnMut()) -> Result<Process, Errno> {
    extern "C" fn enter(argument: *mut libc::c_void) -> libc::c_int {
        // SAFETY: `argument` is the `act` of the function around us, which stands still until we are done with it.
        let act = unsafe { &mut *argument.cast::<&mut dyn FnMut()>() };
        act();
        exit_now(125)
    }
    let mut act = act;
    // SAFETY: CLONE_VFORK makes us stand still until the process no longer uses our memory, so that stack and argument outlive it and
    // nothing is touched by both sides at the same time.
    unsafe { share_memory(libc::CLONE_VFORK | flags, stack.top(), enter, (&raw mut act).cast()) }
}

/// A plain fork, for a process that shares all namespaces with its parent.
pub fn fork() -> Result<Forked, Errno> {
    fork_into(Namespaces::default())
}

/// Closes descriptors from somebody who wants us to wait: the last close of a socket can take as long as its owner has said (SO_LINGER).
/// That of a process that ends does not, so the last one is a child's.
pub fn let_go(descriptors: Vec<OwnedFd>) -> Result<(), Errno> {
    let (closed, ours) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    match fork()? {
        Forked::Child => {
            // SAFETY: the number is ours and is used no more; the process ends without dropping what stands for it.
            unsafe { libc::close(ours.as_raw_fd()) };
            let _ = rustix::io::retry_on_intr(|| rustix::io::read(&closed, &mut [0; 1]));
            exit_now(0)
        }
        Forked::Parent(child) => {
            drop((descriptors, ours));
            child.wait().map(drop)
        }
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Exited(i32),
    Signalled(i32),
}

/// What `waitid` may report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Ended(End),
    Stopped(i32),
}

fn change_of(status: &WaitIdStatus) -> Option<Change> {
    if let Some(code) = status.exit_status() {
        return Some(Change::Ended(End::Exited(code)));
    }
    if let Some(signal) = status.terminating_signal() {
        return Some(Change::Ended(End::Signalled(signal)));
    }
    status.stopping_signal().map(Change::Stopped)
}

impl Process {
    /// Waits for the end of this process and reaps it.
    pub fn wait(&self) -> Result<End, Errno> {
        loop {
            match rustix::process::waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED) {
                Ok(Some(status)) => match change_of(&status) {
                    Some(Change::Ended(end)) => return Ok(end),
                    _ => continue,
                },
                Ok(None) | Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Sends a signal; one that has already ended is fine.
    pub fn signal(&self, signal: Signal) {
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, signal);
    }
}

/// The next change among all children, without waiting. `None` when there is nothing to tell.
pub fn next_change() -> Option<(Pid, Change)> {
    let options = rustix::process::WaitOptions::NOHANG | rustix::process::WaitOptions::UNTRACED;
    loop {
        match rustix::process::wait(options) {
            Ok(Some((pid, status))) => {
                if let Some(code) = status.exit_status() {
                    return Some((pid, Change::Ended(End::Exited(code))));
                }
                if let Some(signal) = status.terminating_signal() {
                    return Some((pid, Change::Ended(End::Signalled(signal))));
                }
                if let Some(signal) = status.stopping_signal() {
                    return Some((pid, Change::Stopped(signal)));
                }
            }
            Err(Errno::INTR) => {}
            Ok(None) | Err(_) => return None,
        }
    }
}

/// Whether this process still has a child.
pub fn has_children() -> bool {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    !matches!(rustix::process::waitid(WaitId::All, options), Err(Errno::CHILD))
}

/// Ends the process at once: no destructors, no flushing of anything copied from the parent.
pub fn exit_now(code: i32) -> ! {
    // SAFETY: `_exit` takes no pointer and does not return.
    unsafe { libc::_exit(code) }
}
