//! The calls that an attacker tries and nobody else here needs, for `keyward doctor --attack`: one call each, with harmless arguments.
//!
//! What a call makes is dropped at once, or ends with the process.

use crate::{Errno, checked};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::process::Pid;
use std::ffi::{CStr, c_int, c_long};

/// A descriptor that the kernel has just made, to be closed again.
fn made(result: c_long) -> Result<OwnedFd, Errno> {
    let number = i32::try_from(checked(result)?).map_err(|_| Errno::BADF)?;
    // SAFETY: the call before made this descriptor for us, and nobody else knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// A user namespace, and with it a mount namespace, for this process.
pub fn unshare_user_and_mounts() -> Result<(), Errno> {
    // SAFETY: flags only; these do not touch the table of descriptors.
    checked(unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) }.into()).map(drop)
}

/// A mount namespace alone, which takes root.
pub fn unshare_mounts() -> Result<(), Errno> {
    // SAFETY: as above.
    checked(unsafe { libc::unshare(libc::CLONE_NEWNS) }.into()).map(drop)
}

/// `clone3` without arguments: a kernel that looks at them says that they are wrong.
pub fn clone3_of_nothing() -> Result<(), Errno> {
    // SAFETY: a size of 0 is refused before the null pointer is read.
    checked(unsafe { libc::syscall(libc::SYS_clone3, std::ptr::null::<u8>(), 0usize) }).map(drop)
}

pub fn io_uring_setup() -> Result<(), Errno> {
    let mut params = [0u64; 15];
    // SAFETY: `struct io_uring_params` has 120 bytes, which `params` has, and the kernel writes only there.
    made(unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, params.as_mut_ptr()) }).map(drop)
}

/// Makes an array map of one element.
pub fn bpf_map() -> Result<(), Errno> {
    const BPF_MAP_CREATE: c_int = 0;
    const BPF_MAP_TYPE_ARRAY: u32 = 2;
    let attributes = [BPF_MAP_TYPE_ARRAY, 4, 4, 1, 0];
    let size = size_of_val(&attributes);
    // SAFETY: the kernel reads `size` bytes of `attributes`.
    made(unsafe { libc::syscall(libc::SYS_bpf, BPF_MAP_CREATE, attributes.as_ptr(), size) }).map(drop)
}

/// Counts this process's own time in user space.
pub fn perf_event() -> Result<(), Errno> {
    const PERF_TYPE_SOFTWARE: u64 = 1;
    const SIZE: u64 = 112;
    const EXCLUDE_KERNEL_AND_HYPERVISOR: u64 = 0b110_0000;
    let mut attributes = [0u64; SIZE as usize / 8];
    attributes[0] = PERF_TYPE_SOFTWARE | SIZE << 32;
    attributes[5] = EXCLUDE_KERNEL_AND_HYPERVISOR;
    // SAFETY: the structure says its own size, 112 bytes, which is what `attributes` has.
    made(unsafe { libc::syscall(libc::SYS_perf_event_open, attributes.as_ptr(), 0, -1, -1, 0) }).map(drop)
}

pub fn userfaultfd() -> Result<(), Errno> {
    const UFFD_USER_MODE_ONLY: c_int = 1;
    // SAFETY: flags only.
    made(unsafe { libc::syscall(libc::SYS_userfaultfd, UFFD_USER_MODE_ONLY) }).map(drop)
}

/// A watch on file systems, of the kind that needs no privilege.
pub fn fanotify() -> Result<(), Errno> {
    // SAFETY: flags only.
    made(unsafe { libc::fanotify_init(libc::FAN_REPORT_FID, 0) }.into()).map(drop)
}

/// Whether two processes share a thing of the kernel's; here this process and itself.
pub fn kcmp() -> Result<(), Errno> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    // SAFETY: numbers only.
    checked(unsafe { libc::syscall(libc::SYS_kcmp, own, own, 0, 0, 0) }).map(drop)
}

/// Memory that can be executed wherever it can be read.
pub fn odd_personality() -> Result<(), Errno> {
    // SAFETY: a number only.
    checked(unsafe { libc::personality(libc::READ_IMPLIES_EXEC as libc::c_ulong) }.into()).map(drop)
}

/// A handle of the root, by which it could be opened again.
pub fn file_handle() -> Result<(), Errno> {
    let mut handle = [0u32; 34];
    handle[0] = 128;
    let mut mount: c_int = 0;
    // SAFETY: the handle says how many bytes follow its head of 8, and has them; `mount` is one int.
    let result = unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            libc::AT_FDCWD,
            c"/".as_ptr(),
            handle.as_mut_ptr(),
            &raw mut mount,
            0,
        )
    };
    checked(result).map(drop)
}

/// The size of the kernel's log.
pub fn kernel_log() -> Result<(), Errno> {
    const SYSLOG_ACTION_SIZE_BUFFER: c_int = 10;
    // SAFETY: this action takes no buffer.
    checked(unsafe { libc::klogctl(SYSLOG_ACTION_SIZE_BUFFER, std::ptr::null_mut(), 0) }.into()).map(drop)
}

/// A module from a descriptor that is not open.
pub fn load_module() -> Result<(), Errno> {
    // SAFETY: descriptor -1 is never open, so nothing is loaded.
    checked(unsafe { libc::syscall(libc::SYS_finit_module, -1, c"".as_ptr(), 0) }).map(drop)
}

/// Another kernel, with flags that none takes.
pub fn load_kernel() -> Result<(), Errno> {
    // SAFETY: no segment is passed; flags that do not exist are refused before anything is done.
    checked(unsafe { libc::syscall(libc::SYS_kexec_load, 0, 0, std::ptr::null::<u8>(), 0xffff) }).map(drop)
}

/// Asks for our own number by the entry for programs of 32 bits.
#[cfg(target_arch = "x86_64")]
pub fn by_32_bit_entry() -> Result<(), Errno> {
    const GETPID: i32 = 20;
    let result: i32;
    // SAFETY: the call takes no argument and touches no memory; the kernel may change the registers that are named.
    unsafe {
        std::arch::asm!("int 0x80", inlateout("eax") GETPID => result, out("r8") _, out("r9") _, out("r10") _, out("r11") _);
    }
    if result > 0 { Ok(()) } else { Err(Errno::from_raw_os_error(-result)) }
}

/// The same by the entry for short pointers.
#[cfg(target_arch = "x86_64")]
pub fn by_x32_entry() -> Result<(), Errno> {
    const X32: c_long = 0x4000_0000;
    // SAFETY: getpid takes no argument.
    checked(unsafe { libc::syscall(X32 + libc::SYS_getpid) }).map(drop)
}

#[cfg(not(target_arch = "x86_64"))]
pub fn by_32_bit_entry() -> Result<(), Errno> {
    Err(Errno::NOSYS)
}

#[cfg(not(target_arch = "x86_64"))]
pub fn by_x32_entry() -> Result<(), Errno> {
    Err(Errno::NOSYS)
}

/// Lets our parent trace us.
pub fn trace_me() -> Result<(), Errno> {
    // SAFETY: PTRACE_TRACEME ignores the other arguments.
    checked(unsafe { libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) }).map(drop)
}

/// Takes hold of another process and lets it go.
pub fn trace(pid: Pid) -> Result<(), Errno> {
    let number = pid.as_raw_nonzero().get();
    // SAFETY: numbers only. The other process is stopped until the last call; the status is not asked for.
    unsafe {
        checked(libc::ptrace(libc::PTRACE_ATTACH, number, 0, 0))?;
        libc::waitpid(number, std::ptr::null_mut(), libc::__WALL);
        checked(libc::ptrace(libc::PTRACE_DETACH, number, 0, 0)).map(drop)
    }
}

/// Reads the memory of another process at an address of its own.
pub fn read_memory(pid: Pid, address: usize, length: usize) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0u8; length];
    let here = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: length };
    let there = libc::iovec { iov_base: std::ptr::without_provenance_mut(address), iov_len: length };
    // SAFETY: `here` describes `bytes`; `there` is an address of the other process, which the kernel checks.
    let result = unsafe {
        libc::process_vm_readv(pid.as_raw_nonzero().get(), &raw const here, 1, &raw const there, 1, 0)
    };
    checked(result as c_long)?;
    Ok(bytes)
}

const SESSION_RING: c_int = -3;
const KIND: &CStr = c"user";

/// Puts a key into the session's ring.
pub fn add_key(name: &CStr, value: &[u8]) -> Result<(), Errno> {
    // SAFETY: both strings end with NUL, and the kernel reads `value.len()` bytes of the value.
    let result = unsafe {
        libc::syscall(
            libc::SYS_add_key,
            KIND.as_ptr(),
            name.as_ptr(),
            value.as_ptr(),
            value.len(),
            SESSION_RING,
        )
    };
    checked(result).map(drop)
}

/// Searches the session's ring for a key and reads it.
pub fn read_key(name: &CStr) -> Result<Vec<u8>, Errno> {
    const KEYCTL_SEARCH: c_int = 10;
    const KEYCTL_READ: c_int = 11;
    let mut value = vec![0u8; 256];
    // SAFETY: both strings end with NUL.
    let key = checked(unsafe {
        libc::syscall(libc::SYS_keyctl, KEYCTL_SEARCH, SESSION_RING, KIND.as_ptr(), name.as_ptr(), 0)
    })?;
    // SAFETY: the kernel writes at most the given length.
    let length = checked(unsafe {
        libc::syscall(libc::SYS_keyctl, KEYCTL_READ, key, value.as_mut_ptr(), value.len())
    })?;
    value.truncate(usize::try_from(length).unwrap_or(0));
    Ok(value)
}

/// System V shared memory that is gone with the value.
pub struct Shared(c_int);

const SHARED_SIZE: usize = 4096;

impl Shared {
    /// Makes a segment under this key, for the same user, with these bytes in it.
    pub fn make(key: i32, bytes: &[u8]) -> Result<Self, Errno> {
        // SAFETY: numbers only.
        let id = unsafe { libc::shmget(key, SHARED_SIZE, libc::IPC_CREAT | libc::IPC_EXCL | 0o600) };
        checked(id.into())?;
        let shared = Shared(id);
        let length = bytes.len().min(SHARED_SIZE);
        // SAFETY: a new segment of SHARED_SIZE bytes is mapped where the kernel likes; no more than that is written, then it is unmapped.
        unsafe {
            let address = libc::shmat(id, std::ptr::null(), 0);
            if address.addr() == usize::MAX {
                return Err(crate::last_errno());
            }
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), address.cast(), length);
            libc::shmdt(address);
        }
        Ok(shared)
    }

    /// Reads the segment that somebody else made under this key.
    pub fn read(key: i32) -> Result<Vec<u8>, Errno> {
        // SAFETY: numbers only; without IPC_CREAT nothing is made.
        let id = unsafe { libc::shmget(key, SHARED_SIZE, 0) };
        checked(id.into())?;
        let mut bytes = vec![0u8; SHARED_SIZE];
        // SAFETY: shmget has refused a segment that is smaller than SHARED_SIZE; it is mapped read-only, copied and unmapped.
        unsafe {
            let address = libc::shmat(id, std::ptr::null(), libc::SHM_RDONLY);
            if address.addr() == usize::MAX {
                return Err(crate::last_errno());
            }
            std::ptr::copy_nonoverlapping(address.cast(), bytes.as_mut_ptr(), SHARED_SIZE);
            libc::shmdt(address);
        }
        Ok(bytes)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: IPC_RMID takes no buffer.
        unsafe { libc::shmctl(self.0, libc::IPC_RMID, std::ptr::null_mut()) };
    }
}

/// A POSIX message queue with one message. It stays until it is removed.
pub fn make_queue(name: &CStr, message: &[u8]) -> Result<(), Errno> {
    let mut attributes: libc::mq_attr = zeroed_attributes();
    attributes.mq_maxmsg = 1;
    attributes.mq_msgsize = 256;
    let flags = libc::O_CREAT | libc::O_EXCL | libc::O_RDWR | libc::O_CLOEXEC;
    // SAFETY: the name ends with NUL, the attributes live until the call returns.
    let queue = made(unsafe { libc::mq_open(name.as_ptr(), flags, 0o600, &raw const attributes) }.into())?;
    // SAFETY: the kernel reads `message.len()` bytes.
    checked(unsafe { libc::mq_send(queue.as_raw_fd(), message.as_ptr().cast(), message.len(), 0) }.into())
        .map(drop)
}

/// Takes a message from a queue and puts it back.
pub fn read_queue(name: &CStr) -> Result<Vec<u8>, Errno> {
    let flags = libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC;
    // SAFETY: the name ends with NUL; without O_CREAT there are no further arguments.
    let queue = made(unsafe { libc::mq_open(name.as_ptr(), flags) }.into())?;
    let mut bytes = vec![0u8; 256];
    // SAFETY: the kernel writes at most the given length.
    let length = checked(unsafe {
        libc::mq_receive(queue.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), std::ptr::null_mut())
    } as c_long)?;
    bytes.truncate(usize::try_from(length).unwrap_or(0));
    // SAFETY: the kernel reads `bytes.len()` bytes.
    unsafe { libc::mq_send(queue.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), 0) };
    Ok(bytes)
}

pub fn remove_queue(name: &CStr) {
    // SAFETY: the name ends with NUL.
    unsafe { libc::mq_unlink(name.as_ptr()) };
}

fn zeroed_attributes() -> libc::mq_attr {
    // SAFETY: a structure of integers.
    unsafe { std::mem::zeroed() }
}

/// Types a byte into a terminal, as if the user had.
pub fn type_into(terminal: impl AsFd, byte: u8) -> Result<(), Errno> {
    // SAFETY: TIOCSTI reads one byte, which lives until the call returns.
    checked(unsafe { libc::ioctl(terminal.as_fd().as_raw_fd(), libc::TIOCSTI as _, &raw const byte) }.into())
        .map(drop)
}

/// Gives a descriptor this number, and lets it pass to what is executed next: the accident of a careless parent.
pub fn leave_open_as(descriptor: BorrowedFd<'_>, number: i32) -> Result<(), Errno> {
    // SAFETY: numbers only; the caller chose a number that nobody here uses.
    checked(unsafe { libc::dup2(descriptor.as_raw_fd(), number) }.into()).map(drop)
}

/// Reads from a descriptor of which only the number is known.
pub fn read_number(number: i32) -> Result<Vec<u8>, Errno> {
    let mut bytes = vec![0u8; 256];
    // SAFETY: the kernel writes at most the given length; a number that is not open gives EBADF.
    let length = checked(unsafe { libc::read(number, bytes.as_mut_ptr().cast(), bytes.len()) } as c_long)?;
    bytes.truncate(usize::try_from(length).unwrap_or(0));
    Ok(bytes)
}
