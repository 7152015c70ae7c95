//! The process that made a call: its memory, its directories, its descriptors, its umask.
//!
//! Everything goes through a descriptor of its folder in /proc. When the thread ends and another one gets its number, that descriptor is
//! dead and does not lead to the other one.

use keyward_sys::{Errno, confine, notify};
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::pread;
use std::rc::Rc;

const PATH_MAX: usize = 4096;
const PAGE: u64 = 4096;

/// One thread.
pub(super) struct Caller {
    pub(super) thread: u32,
    folder: OwnedFd,
    status: OwnedFd,
}

/// The callers of late. Most calls come from a few.
#[derive(Default)]
pub(super) struct Callers {
    known: Vec<Rc<Caller>>,
    next: usize,
}

const KNOWN: usize = 8;

impl Callers {
    pub(super) fn get(&mut self, thread: u32) -> Result<Rc<Caller>, Errno> {
        if let Some(place) = self.known.iter().position(|caller| caller.thread == thread) {
            if self.known[place].lives() {
                return Ok(self.known[place].clone());
            }
            self.known.swap_remove(place);
        }
        let caller = Rc::new(Caller::find(thread)?);
        if self.known.len() < KNOWN {
            self.known.push(caller.clone());
        } else {
            self.next = (self.next + 1) % KNOWN;
            self.known[self.next] = caller.clone();
        }
        Ok(caller)
    }
}

/// Tries as an ordinary process, and with the right to look into closed ones only where that is refused.
fn looking<T>(look: impl Fn() -> Result<T, Errno>) -> Result<T, Errno> {
    match look() {
        Err(Errno::PERM | Errno::ACCESS) => confine::with_ptrace(look),
        looked => looked,
    }
}

impl Caller {
    fn find(thread: u32) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(CWD, format!("/proc/{thread}"), flags, Mode::empty())?;
        let status = rustix::fs::openat(&folder, c"status", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Caller { thread, folder, status })
    }

    fn lives(&self) -> bool {
        rustix::fs::accessat(
            &self.folder,
            c"status",
            rustix::fs::Access::EXISTS,
            rustix::fs::AtFlags::empty(),
        )
        .is_ok()
    }

    /// A path or another text out of its memory, without the end mark.
    pub(super) fn text(&self, address: u64) -> Result<Vec<u8>, Errno> {
        let mut text = vec![0; PATH_MAX];
        let mut length = 0;
        while length < PATH_MAX {
            let from = address.wrapping_add(length as u64);
            // Not beyond the page, because the next one may not be there.
            let end = PATH_MAX.min(length + (PAGE - from % PAGE) as usize);
            let piece = &mut text[length..end];
            let read = self.memory(from, piece)?;
            if let Some(end) = piece[..read].iter().position(|&byte| byte == 0) {
                text.truncate(length + end);
                return Ok(text);
            }
            if read < piece.len() {
                return Err(Errno::FAULT);
            }
            length = end;
        }
        Err(Errno::NAMETOOLONG)
    }

    /// Bytes out of its memory, all or none.
    pub(super) fn bytes(&self, address: u64, length: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; length];
        let read = if length == 0 { 0 } else { self.memory(address, &mut bytes)? };
        if read == length { Ok(bytes) } else { Err(Errno::FAULT) }
    }

    fn memory(&self, address: u64, buffer: &mut [u8]) -> Result<usize, Errno> {
        let buffer = std::cell::RefCell::new(buffer);
        looking(|| notify::read_memory(self.thread, address, &mut buffer.borrow_mut()))
    }

    /// The folder that a relative path starts in.
    pub(super) fn base(&self, descriptor: i32) -> Result<OwnedFd, Errno> {
        if descriptor == libc_at::FDCWD {
            return self.open_link("cwd");
        }
        self.descriptor_path(descriptor)
    }

    /// What a descriptor of the caller's stands for, without the right to use it.
    fn descriptor_path(&self, descriptor: i32) -> Result<OwnedFd, Errno> {
        if descriptor < 0 {
            return Err(Errno::BADF);
        }
        match self.open_link(&format!("fd/{descriptor}")) {
            Err(Errno::NOENT) => Err(Errno::BADF),
            // The list of a process that closed itself is closed as well.
            Err(Errno::ACCESS) => self.descriptor(descriptor),
            opened => opened,
        }
    }

    fn open_link(&self, name: &str) -> Result<OwnedFd, Errno> {
        looking(|| rustix::fs::openat(&self.folder, name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()))
    }

    /// A descriptor of the caller's itself.
    pub(super) fn descriptor(&self, number: i32) -> Result<OwnedFd, Errno> {
        use rustix::fd::AsFd;
        let thread = notify::open_thread(self.thread, self.process()?)?;
        looking(|| notify::descriptor_of(thread.as_fd(), number))
    }

    pub(super) fn umask(&self) -> Result<u32, Errno> {
        // The second line; the whole file is made anew for each look.
        let mut start = [0; 128];
        let read = pread(&self.status, &mut start, 0)?;
        field(&start[..read], b"Umask:")
            .and_then(|digits| u32::from_str_radix(digits, 8).ok())
            .ok_or(Errno::IO)
    }

    /// The process that the thread belongs to.
    pub(super) fn process(&self) -> Result<u32, Errno> {
        let status = self.status()?;
        field(&status, b"Tgid:").and_then(|digits| digits.parse().ok()).ok_or(Errno::IO)
    }

    /// Whether a signal waits for it that it does not hold back.
    pub(super) fn has_signal(&self) -> bool {
        let Ok(status) = self.status() else { return true };
        let set =
            |name: &[u8]| field(&status, name).and_then(|set| u64::from_str_radix(set, 16).ok()).unwrap_or(0);
        (set(b"SigPnd:") | set(b"ShdPnd:")) & !set(b"SigBlk:") != 0
    }

    fn status(&self) -> Result<Vec<u8>, Errno> {
        let mut status = vec![0; 4096];
        let read = pread(&self.status, &mut status, 0)?;
        status.truncate(read);
        Ok(status)
    }

    /// The number of its controlling terminal among the cage's own.
    pub(super) fn terminal(&self) -> Result<u32, Errno> {
        const FIRST_PTS: u32 = 136;
        let file =
            rustix::fs::openat(&self.folder, c"stat", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut text = vec![0; 1024];
        let read = pread(&file, &mut text, 0)?;
        // Behind the name in brackets, which may hold anything: state, parent, group, session, terminal.
        let behind = text[..read].iter().rposition(|&byte| byte == b')').ok_or(Errno::IO)?;
        let number = std::str::from_utf8(&text[behind + 1..read])
            .ok()
            .and_then(|rest| rest.split_ascii_whitespace().nth(4)?.parse::<i32>().ok())
            .ok_or(Errno::IO)?
            .cast_unsigned();
        let (major, minor) = ((number >> 8) & 0xfff, (number & 0xff) | ((number >> 12) & 0xf_ff00));
        match major.checked_sub(FIRST_PTS) {
            Some(block) if block < 8 => Ok(block * 256 + minor),
            _ => Err(Errno::NXIO),
        }
    }
}

/// The value of a line of `status`.
fn field<'a>(status: &'a [u8], name: &[u8]) -> Option<&'a str> {
    let line = status.split(|&byte| byte == b'\n').find(|line| line.starts_with(name))?;
    std::str::from_utf8(&line[name.len()..]).ok().map(str::trim)
}

/// Numbers by name.
pub(super) mod libc_at {
    pub(in crate::warden) const FDCWD: i32 = -100;
    pub(in crate::warden) const SYMLINK_FOLLOW: u32 = 0x400;
    pub(in crate::warden) const EMPTY_PATH: u32 = 0x1000;
}
