//! Memory for what must not be seen: sealed files in memory, mappings of them, pages that stay out of the swap.

use crate::{Errno, checked};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{MemfdFlags, SealFlags};
use std::ffi::{CStr, c_char};

/// A file in memory with this content, which nobody can change any more.
pub fn sealed(name: &CStr, parts: &[&[u8]]) -> Result<OwnedFd, Errno> {
    let file = unsealed(name)?;
    let mut at = 0;
    for part in parts {
        let mut rest = *part;
        while !rest.is_empty() {
            // Written at a place and not in a row, so that a reader begins at the beginning.
            let written = rustix::io::retry_on_intr(|| rustix::io::pwrite(&file, rest, at))?;
            at += written as u64;
            rest = rest.get(written..).unwrap_or_default();
        }
    }
    seal(&file)?;
    Ok(file)
}

/// A file in memory that is still empty.
pub fn unsealed(name: &CStr) -> Result<OwnedFd, Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match rustix::fs::memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        // Before Linux 6.3.
        Err(Errno::INVAL) => rustix::fs::memfd_create(name, flags),
        made => made,
    }
}

/// Lets go of what a descriptor leads to, for whoever waits for that; the number stays, and leads to something empty.
pub fn lead_nowhere(descriptor: impl AsFd) -> Result<(), Errno> {
    let nothing = unsealed(c"nothing")?;
    let number = descriptor.as_fd().as_raw_fd();
    // SAFETY: numbers only; the descriptor stays open, as those who have it expect.
    checked(unsafe { libc::dup3(nothing.as_raw_fd(), number, libc::O_CLOEXEC) }.into()).map(drop)
}

/// Ends all changes.
pub fn seal(file: impl AsFd) -> Result<(), Errno> {
    let seals = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    rustix::fs::fcntl_add_seals(file, seals)
}

/// Takes over a sealed file in memory that this process was started with, by its number. Anything else stays with whoever has it: what is
/// not sealed was not put there by a vault.
pub fn take_sealed(number: i32) -> Result<OwnedFd, Errno> {
    let own = crate::own(number)?;
    let kept = SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    if number < FIRST_BEYOND_STANDARD || !rustix::fs::fcntl_get_seals(&own)?.contains(kept) {
        return Err(Errno::INVAL);
    }
    // SAFETY: a number only. It came with the start of the program, so that no value of the program's own stands for it; a sealed file is
    // nothing that a runtime opens for itself.
    unsafe { libc::close(number) };
    Ok(own)
}

const FIRST_BEYOND_STANDARD: i32 = 3;

/// Copies a file in memory into another file, without a copy in ours. Gives the number of bytes.
pub fn copy(from: impl AsFd, to: impl AsFd) -> Result<u64, Errno> {
    let mut at = 0;
    loop {
        match rustix::fs::sendfile(&to, &from, Some(&mut at), 1 << 20) {
            Ok(0) => return Ok(at),
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
}

/// Keeps all pages of this process out of the swap, those that are still to come included. `false` where only so much may be kept that
/// a process could not live with it; then it is up to [`lock`].
pub fn lock_all() -> bool {
    let bounded = rustix::process::getrlimit(rustix::process::Resource::Memlock).current.is_some();
    let flags = libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT;
    // SAFETY: flags only; locking changes no content.
    (!bounded || rustix::process::geteuid().is_root()) && unsafe { libc::mlockall(flags) } == 0
}

/// Keeps the pages of these bytes out of the swap, as far as that is allowed.
pub fn lock(bytes: &[u8]) -> bool {
    // SAFETY: the range of a live slice; locking changes no content.
    unsafe { libc::mlock(bytes.as_ptr().cast(), bytes.len()) == 0 }
}

/// The content of a file in memory, as C strings that exec can be given.
pub struct Mapping {
    start: *mut libc::c_void,
    length: usize,
}

impl Mapping {
    /// Maps a sealed file that ends in a NUL.
    pub fn of(file: impl AsFd) -> Result<Self, Errno> {
        let length = usize::try_from(rustix::fs::fstat(&file)?.st_size).map_err(|_| Errno::FBIG)?;
        if length == 0 || !rustix::fs::fcntl_get_seals(&file)?.contains(SealFlags::WRITE | SealFlags::SHRINK)
        {
            return Err(Errno::INVAL);
        }
        let mut last = [1];
        rustix::io::pread(&file, &mut last, length as u64 - 1)?;
        if last != [0] {
            return Err(Errno::INVAL);
        }
        // SAFETY: a fresh mapping at a place of the kernel's choice; the file is sealed, so that it neither shrinks nor changes under us.
        let start = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                length,
                rustix::mm::ProtFlags::READ,
                rustix::mm::MapFlags::PRIVATE,
                &file,
                0,
            )
        }?;
        Ok(Mapping { start, length })
    }

    pub(crate) fn as_ptr(&self) -> *const c_char {
        self.start.cast_const().cast()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: our own mapping, and nobody has a reference into it that outlives us: `Strings` drops its pointers first.
        let _ = unsafe { rustix::mm::munmap(self.start, self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_is_read_from_its_beginning_and_cannot_be_changed() {
        let file = sealed(c"x", &[b"one ", b"two\0"]).unwrap();
        let mut read = [0; 16];
        assert_eq!(rustix::io::read(&file, &mut read), Ok(8));
        assert_eq!(&read[..8], b"one two\0");
        assert_eq!(rustix::io::pwrite(&file, b"x", 0), Err(Errno::PERM));
        assert_eq!(rustix::fs::ftruncate(&file, 0), Err(Errno::PERM));
        let other = unsealed(c"y").unwrap();
        assert_eq!(copy(&file, &other), Ok(8));
        assert!(Mapping::of(&other).is_err(), "not sealed");
        assert!(Mapping::of(&file).is_ok());
        assert!(Mapping::of(sealed(c"z", &[b"no end"]).unwrap()).is_err());
    }

    #[test]
    fn only_what_is_sealed_is_taken_over_and_its_number_is_free_then() {
        use rustix::fd::IntoRawFd;
        let number = sealed(c"x", &[b"value"]).unwrap().into_raw_fd();
        let taken = take_sealed(number).unwrap();
        let mut read = [0; 8];
        assert_eq!(rustix::io::pread(&taken, &mut read, 0), Ok(5));
        assert_eq!(take_sealed(taken.as_raw_fd()).map(drop), Ok(()));
        std::mem::forget(taken);
        assert_eq!(take_sealed(1_000_000).map(drop), Err(Errno::BADF));
        assert_eq!(take_sealed(-1).map(drop), Err(Errno::BADF));
        let open = unsealed(c"y").unwrap();
        assert_eq!(take_sealed(open.as_raw_fd()).map(drop), Err(Errno::INVAL));
        assert_eq!(rustix::io::pwrite(&open, b"x", 0), Ok(1), "it was left alone");
    }
}
