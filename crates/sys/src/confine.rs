//! Restricting oneself: everything a process gives up before it runs code it does not trust.

use crate::{Errno, checked, last_errno};
use rustix::fd::{AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd};
use rustix::process::{DumpableBehavior, Resource, Rlimit};
use rustix::thread::CapabilitySet;

/// From now on this process's memory, environment and descriptors are closed to others of the same user, and it leaves no core file.
pub fn become_opaque() -> Result<(), Errno> {
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
}

/// The opposite, for the moment in which a process writes its own `uid_map`: the files belong to root otherwise.
pub fn become_transparent() -> Result<(), Errno> {
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)
}

/// The kernel kills this process when its parent thread ends.
pub fn die_with_parent() -> Result<(), Errno> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
}

/// Orphans below this process become its children.
pub fn become_subreaper() -> Result<(), Errno> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
}

/// No program started from here gains a privilege by being executed.
pub fn no_new_privileges() -> Result<(), Errno> {
    rustix::thread::set_no_new_privs(true)
}

/// A session keyring of its own; the caller's keys are not in it.
pub fn new_session_keyring() -> Result<(), Errno> {
    const KEYCTL_JOIN_SESSION_KEYRING: libc::c_int = 1;
    // SAFETY: a null name asks for an anonymous keyring; no memory is passed.
    let result =
        unsafe { libc::syscall(libc::SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, std::ptr::null::<u8>()) };
    match checked(result) {
        // A kernel without keyrings has nothing to leak through them.
        Ok(_) | Err(Errno::NOSYS) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Gives up every capability, for this process and for whatever it executes.
pub fn drop_capabilities() -> Result<(), Errno> {
    keep_capabilities(CapabilitySet::empty())
}

/// Gives up every capability but the right to look into processes that closed themselves. It is kept back, to be taken up for a moment
/// with [`with_ptrace`]; nothing that is executed gets it.
pub fn drop_capabilities_but_ptrace() -> Result<(), Errno> {
    keep_capabilities(CapabilitySet::SYS_PTRACE)
}

/// Gives up every capability but the right to read files of the user and group that this user namespace maps.
pub fn drop_capabilities_but_reading() -> Result<(), Errno> {
    let reading = CapabilitySet::DAC_READ_SEARCH;
    keep_capabilities(reading)?;
    let sets = rustix::thread::CapabilitySets {
        effective: reading,
        permitted: reading,
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, sets)
}

/// Does something with the right that [`drop_capabilities_but_ptrace`] has kept back.
pub fn with_ptrace<T>(act: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    let (kept, none) = (CapabilitySet::SYS_PTRACE, CapabilitySet::empty());
    let set = |effective| {
        let sets = rustix::thread::CapabilitySets { effective, permitted: kept, inheritable: none };
        rustix::thread::set_capabilities(None, sets)
    };
    set(kept)?;
    let done = act();
    set(none)?;
    done
}

fn keep_capabilities(kept: CapabilitySet) -> Result<(), Errno> {
    let _ = rustix::thread::clear_ambient_capability_set();
    // Bounding set first: it needs CAP_SETPCAP, which the next step gives up. The loop ends at the kernel's last capability.
    for number in 0..64u64 {
        // SAFETY: PR_CAPBSET_DROP takes a number and no pointer.
        let result = unsafe { libc::prctl(libc::PR_CAPBSET_DROP, number, 0, 0, 0) };
        if result == -1 {
            match last_errno() {
                Errno::INVAL => break,
                // Without CAP_SETPCAP the set cannot be cut; no_new_privs keeps it from ever being used.
                Errno::PERM => break,
                errno => return Err(errno),
            }
        }
    }
    let none = CapabilitySet::empty();
    let sets = rustix::thread::CapabilitySets { effective: none, permitted: kept, inheritable: none };
    rustix::thread::set_capabilities(None, sets)
}

/// Becomes user and group 0 of the user namespace we are in, without supplementary groups.
pub fn become_namespace_root() -> Result<(), Errno> {
    // SAFETY: the raw calls take numbers only; with count 0 the group list pointer is not read. Raw, because the process has one thread
    // and the C library's versions would signal others.
    unsafe {
        checked(libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()))?;
        checked(libc::syscall(libc::SYS_setresgid, 0, 0, 0))?;
        checked(libc::syscall(libc::SYS_setresuid, 0, 0, 0))?;
    }
    Ok(())
}

/// A limit of the kernel on this process and what it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    CpuSeconds(u64),
    DataBytes(u64),
    Processes(u64),
    OpenFiles(u64),
    CoreBytes(u64),
    FileBytes(u64),
    AddressBytes(u64),
    QueueBytes(u64),
    PendingSignals(u64),
}

impl Limit {
    /// Sets it, soft and hard. A hard limit that is already lower stays.
    pub fn set(self) -> Result<(), Errno> {
        let (resource, value, grace) = match self {
            // One second between SIGXCPU, which a program may catch, and SIGKILL.
            Limit::CpuSeconds(value) => (Resource::Cpu, value, 1),
            Limit::DataBytes(value) => (Resource::Data, value, 0),
            Limit::Processes(value) => (Resource::Nproc, value, 0),
            Limit::OpenFiles(value) => (Resource::Nofile, value, 0),
            Limit::CoreBytes(value) => (Resource::Core, value, 0),
            Limit::FileBytes(value) => (Resource::Fsize, value, 0),
            Limit::AddressBytes(value) => (Resource::As, value, 0),
            Limit::QueueBytes(value) => (Resource::Msgqueue, value, 0),
            Limit::PendingSignals(value) => (Resource::Sigpending, value, 0),
        };
        let ceiling = rustix::process::getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let maximum = value.saturating_add(grace).min(ceiling);
        let limit = Rlimit { current: Some(value.min(maximum)), maximum: Some(maximum) };
        rustix::process::setrlimit(resource, limit)
    }
}

/// Keeps one descriptor beside 0, 1 and 2, as number 3, and closes all others.
///
/// For a freshly forked process only: Rust values that stand for the closed ones must never be dropped in it, and they are not, because
/// it ends in exec or `_exit`.
pub fn keep_only(descriptor: OwnedFd) -> Result<OwnedFd, Errno> {
    let [kept] = keep([descriptor])?;
    Ok(kept)
}

/// The same for several, as numbers 3 and above in this order.
pub fn keep<const N: usize>(descriptors: [OwnedFd; N]) -> Result<[OwnedFd; N], Errno> {
    keep_all(descriptors.into()).and_then(|kept| kept.try_into().map_err(|_| Errno::MFILE))
}

/// The same for as many as there are.
pub fn keep_all(descriptors: Vec<OwnedFd>) -> Result<Vec<OwnedFd>, Errno> {
    const FIRST: libc::c_int = 3;
    let end = FIRST + libc::c_int::try_from(descriptors.len()).map_err(|_| Errno::MFILE)?;
    let numbers: Vec<libc::c_int> = descriptors.into_iter().map(IntoRawFd::into_raw_fd).collect();
    let mut beyond = Vec::with_capacity(numbers.len());
    // SAFETY: numbers only; what stood at place 3 and above belongs to this process, which gives it up (see above).
    unsafe {
        for number in numbers {
            // Out of the way first: one may stand where another goes.
            let free = libc::fcntl(number, libc::F_DUPFD_CLOEXEC, end);
            checked(free.into())?;
            beyond.push(free);
        }
        for (place, number) in (FIRST..end).zip(beyond) {
            checked(libc::dup3(number, place, libc::O_CLOEXEC).into())?;
        }
        checked(libc::syscall(libc::SYS_close_range, end, u32::MAX, 0))?;
        Ok((FIRST..end).map(|place| OwnedFd::from_raw_fd(place)).collect())
    }
}

/// Gives descriptors the numbers from `first` on, in this order, open for the program that comes next. For a process that is about to become
/// it: what stood there is gone, and so must not be used.
pub fn place(first: i32, descriptors: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let end = first + i32::try_from(descriptors.len()).map_err(|_| Errno::MFILE)?;
    let mut beyond = Vec::with_capacity(descriptors.len());
    for descriptor in descriptors {
        beyond.push(rustix::io::fcntl_dupfd_cloexec(descriptor, end)?);
    }
    for (number, descriptor) in (first..end).zip(beyond) {
        // SAFETY: numbers only; whoever calls gives up what stood there.
        checked(unsafe { libc::dup2(descriptor.as_raw_fd(), number) }.into())?;
        // Closed by exec.
        std::mem::forget(descriptor);
    }
    Ok(())
}

/// Marks every descriptor from `first` on to be closed by exec.
pub fn close_on_exec_from(first: u32) -> Result<(), Errno> {
    // SAFETY: only flags of the descriptors change; nobody loses one.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    checked(result).map(drop)
}

/// Closes every descriptor from `first` on, for a freshly forked process that has no Rust value left that stands for one.
pub fn close_all_from(first: u32) -> Result<(), Errno> {
    // SAFETY: numbers only; what is closed belongs to this process, which gives it up (see above).
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) };
    checked(result).map(drop)
}

/// Closes descriptors 0, 1 and 2. Whatever is opened next may get these numbers, so this is for a process that opens little and prints
/// nothing: init.
pub fn close_standard_streams() {
    // SAFETY: init owns its table, and no Rust value stands for these three.
    unsafe { libc::syscall(libc::SYS_close_range, 0, 2, 0) };
}

/// A session of its own: no controlling terminal, no process group shared with the caller.
pub fn new_session() -> Result<(), Errno> {
    rustix::process::setsid().map(drop)
}
