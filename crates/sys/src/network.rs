//! The cage's own network: a namespace made beside everything else, and its loopback.
//!
//! A network namespace is the dearest part of a cage. A helper makes it while init builds the view, and init moves in when both are done.

use crate::Errno;
use crate::fork::{self, Stack};
use rustix::fd::{AsFd, FromRawFd, IntoRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::ioctl::{Opcode, Setter};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, futex};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering};

fn any_socket() -> Result<OwnedFd, Errno> {
    rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
}

/// Brings `lo` up in the network namespace we are in.
pub fn loopback_up() -> Result<(), Errno> {
    loopback_up_by(&any_socket()?)
}

fn loopback_up_by(socket: &OwnedFd) -> Result<(), Errno> {
    const SIOCSIFFLAGS: Opcode = 0x8914;
    // SAFETY: an all-zero ifreq is a valid value of this plain C struct.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (slot, byte) in request.ifr_name.iter_mut().zip(b"lo") {
        *slot = byte.cast_signed();
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: SIOCSIFFLAGS reads one ifreq and nothing else.
    unsafe { rustix::ioctl::ioctl(socket, Setter::<SIOCSIFFLAGS, libc::ifreq>::new(request)) }
}

/// The namespace a socket belongs to, as a descriptor; found without /proc, which init is about to cover.
struct NamespaceOf;

// SAFETY: SIOCGSKNS takes no argument and gives a new descriptor as its result.
unsafe impl rustix::ioctl::Ioctl for NamespaceOf {
    type Output = OwnedFd;
    const IS_MUTATING: bool = false;

    fn opcode(&self) -> Opcode {
        0x894c
    }

    fn as_ptr(&mut self) -> *mut libc::c_void {
        std::ptr::null_mut()
    }

    unsafe fn output_from_ptr(
        result: rustix::ioctl::IoctlOutput,
        _: *mut libc::c_void,
    ) -> Result<OwnedFd, Errno> {
        // SAFETY: the kernel has just made this descriptor for us.
        Ok(unsafe { OwnedFd::from_raw_fd(result) })
    }
}

/// What the helper has to say: nothing yet, a descriptor, or an errno.
static NEWS: AtomicU32 = AtomicU32::new(WORKING);
const WORKING: u32 = u32::MAX;
const FAILED: u32 = 1 << 30;
const PATIENCE: rustix::fs::Timespec = rustix::fs::Timespec { tv_sec: 30, tv_nsec: 0 };

/// A network namespace that is being made.
pub struct Pending(());

/// The kernel's settings, for the helper: /proc may be covered before it gets to them. Negative if they cannot be opened.
static SETTINGS: AtomicI32 = AtomicI32::new(-1);

/// Starts to make a network namespace with its loopback up, and all of its ports open to servers. Once in a process's life: there is one place
/// for the news.
pub fn begin() -> Result<Pending, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    if let Ok(settings) = rustix::fs::open(c"/proc/sys", flags, Mode::empty()) {
        SETTINGS.store(settings.into_raw_fd(), Ordering::Relaxed);
    }
    // SAFETY: the helper uses only direct syscalls of rustix, a static and its own stack: nothing of the C library's state, which it shares
    // with us. The stack is given away for good, because nobody waits for the helper's end.
    unsafe { fork::beside(Stack::new().leak(), make) }.map(|_| Pending(()))
}

/// In the helper, which shares init's memory and descriptors, and ends when it is done: the descriptor keeps the namespace.
extern "C" fn make(_: *mut libc::c_void) -> libc::c_int {
    // SAFETY: only this process moves; memory and descriptors stay as they are.
    let made = unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }.and_then(|()| {
        let socket = any_socket()?;
        loopback_up_by(&socket)?;
        open_low_ports();
        // SAFETY: as for the type.
        unsafe { rustix::ioctl::ioctl(&socket, NamespaceOf) }
    });
    let news = match made {
        Ok(namespace) => namespace.into_raw_fd().cast_unsigned(),
        Err(errno) => FAILED | errno.raw_os_error().cast_unsigned(),
    };
    NEWS.store(news, Ordering::Release);
    let _ = futex::wake(&NEWS, futex::Flags::PRIVATE, 1);
    0
}

/// The network is the cage's own, so servers of the cage may have its ports below 1024 as well. In containers that show /proc/sys read-only they stay
/// closed, as on the host.
fn open_low_ports() {
    let settings = SETTINGS.swap(-1, Ordering::Relaxed);
    if settings < 0 {
        return;
    }
    // SAFETY: `begin` has given this descriptor away.
    let settings = unsafe { OwnedFd::from_raw_fd(settings) };
    let flags = OFlags::WRONLY | OFlags::CLOEXEC;
    // The kernel shows those of the network that we are in.
    let file = rustix::fs::openat(&settings, c"net/ipv4/ip_unprivileged_port_start", flags, Mode::empty());
    if let Ok(file) = file {
        let _ = rustix::io::write(&file, b"0");
    }
}

impl Pending {
    /// Waits until the namespace is there, and moves in.
    pub fn enter(self) -> Result<(), Errno> {
        let news = loop {
            match NEWS.load(Ordering::Acquire) {
                // A helper that was killed tells nothing.
                WORKING => match futex::wait(&NEWS, futex::Flags::PRIVATE, WORKING, Some(&PATIENCE)) {
                    Err(Errno::TIMEDOUT) => return Err(Errno::TIMEDOUT),
                    _ => continue,
                },
                news => break news.cast_signed(),
            }
        };
        if news.cast_unsigned() & FAILED != 0 {
            return Err(Errno::from_raw_os_error(news ^ FAILED.cast_signed()));
        }
        // SAFETY: the helper has given this descriptor away.
        let namespace = unsafe { OwnedFd::from_raw_fd(news) };
        rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
    }
}
