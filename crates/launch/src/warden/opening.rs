//! Opening a file that may have to be made: made if the name is free, opened if something stands there, its last link followed.

use super::caller::Caller;
use super::calls::own_name;
use super::way::{Links, Place, Through};
use super::{Answer, Warden, own_descriptors};
use keyward_policy::detect::strict::programs::Made;
use keyward_sys::fork::{self, Forked};
use keyward_sys::notify::{self, Call};
use keyward_sys::{Errno, confine, creation, signal};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use std::ffi::CString;
use std::time::Duration;

const CREATE: i32 = OFlags::CREATE.bits().cast_signed();
const EXCLUSIVE: i32 = OFlags::EXCL.bits().cast_signed();
const NO_FOLLOW: i32 = OFlags::NOFOLLOW.bits().cast_signed();
const CLOSE_ON_EXEC: i32 = OFlags::CLOEXEC.bits().cast_signed();
const NO_TERMINAL: i32 = OFlags::NOCTTY.bits().cast_signed();

/// The most retries that a process can cause by removing and making a name again and again.
const PATIENCE: u32 = 64;
/// How often a wait looks whether it is still wanted.
const LOOK_UP: Duration = Duration::from_millis(50);

impl Warden {
    pub(super) fn open(
        &mut self,
        call: &Call,
        caller: &Caller,
        (at, path): (i32, &[u8]),
        flags: i32,
        mode: u32,
    ) -> Result<Answer, Errno> {
        let mut place = match self.place(caller, at, path) {
            // Flags that make no sense are told before the path is looked at.
            Err(_) if creation::open_at(CWD, c"", flags, mode).is_err_and(|errno| errno == Errno::INVAL) => {
                return Err(Errno::INVAL);
            }
            place => place?,
        };
        self.take_umask(caller)?;
        self.still_waits(call)?;
        let close_on_exec = flags & CLOSE_ON_EXEC != 0;
        let mut links = Links::default();
        for _ in 0..PATIENCE {
            let forbidden = self.is_forbidden(&place, &Made::New)?;
            if !forbidden {
                // A new file cannot be a link, a pipe or a device, so that nothing is followed or waited for.
                match creation::open_at(&place.folder, &place.name, flags | EXCLUSIVE, mode) {
                    Ok(descriptor) => return Ok(Answer::Made { descriptor, close_on_exec, place }),
                    Err(Errno::EXIST) if flags & EXCLUSIVE == 0 => {}
                    Err(errno) => return Err(errno),
                }
            }
            let only_found = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let found = match rustix::fs::openat(&place.folder, &place.name, only_found, Mode::empty()) {
                Ok(_) if flags & EXCLUSIVE != 0 => return Err(Errno::EXIST),
                Ok(found) => found,
                Err(Errno::NOENT) if forbidden => return Err(Errno::PERM),
                // It was there a moment ago.
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(errno),
            };
            let stat = rustix::fs::fstat(&found)?;
            let (found, stat) = if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
                (found, stat)
            } else if flags & NO_FOLLOW != 0 {
                return Err(Errno::LOOP);
            } else {
                match self.through_link(caller, &place, &found, &stat, &mut links)? {
                    Through::Elsewhere(next) => {
                        place = next;
                        continue;
                    }
                    Through::There(found) => {
                        let stat = rustix::fs::fstat(&found)?;
                        (found, stat)
                    }
                }
            };
            return self.open_found(call, caller, found, &stat, flags);
        }
        Err(Errno::AGAIN)
    }

    /// Opens for good what was found.
    fn open_found(
        &self,
        call: &Call,
        caller: &Caller,
        found: OwnedFd,
        stat: &Stat,
        flags: i32,
    ) -> Result<Answer, Errno> {
        const TERMINAL_OF_CALLER: (u32, u32) = (5, 0);
        let close_on_exec = flags & CLOSE_ON_EXEC != 0;
        let number = own_name(&found)?;
        let flags = (flags & !(CREATE | EXCLUSIVE | NO_FOLLOW)) | NO_TERMINAL;
        let device = (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
        let opened = match FileType::from_raw_mode(stat.st_mode) {
            FileType::Directory => Err(Errno::ISDIR),
            FileType::Socket => Err(Errno::NXIO),
            FileType::Fifo => return self.open_in_time(call, caller, &number, flags),
            FileType::CharacterDevice if device == TERMINAL_OF_CALLER => open_terminal(caller, flags),
            // What we are is closed to everybody.
            _ if stat.st_dev == self.proc && self.process_of(&found) == Ok(std::process::id()) => {
                Err(Errno::ACCESS)
            }
            _ => creation::open_at(&self.descriptors, &number, flags, 0),
        };
        opened.map(|descriptor| Answer::Opened { descriptor, close_on_exec })
    }

    /// A pipe with a name opens when its other side does. A helper waits for that, and gives up when the caller does.
    fn open_in_time(
        &self,
        call: &Call,
        caller: &Caller,
        number: &CString,
        flags: i32,
    ) -> Result<Answer, Errno> {
        match fork::fork()? {
            Forked::Parent(_) => Ok(Answer::Later),
            Forked::Child => {
                let opened = self.wait_and_open(call, caller, number, flags);
                // Interrupted while it hands a descriptor over, the kernel answers 0 in its place.
                signal::block(&signal::Set::all());
                match opened {
                    Ok(opened) => {
                        let close_on_exec = flags & CLOSE_ON_EXEC != 0;
                        self.listener.answer_descriptor(call, opened.as_fd(), close_on_exec);
                    }
                    Err(errno) => self.listener.answer(call, Err(errno)),
                }
                fork::exit_now(0)
            }
        }
    }

    fn wait_and_open(
        &self,
        call: &Call,
        caller: &Caller,
        number: &CString,
        flags: i32,
    ) -> Result<OwnedFd, Errno> {
        confine::die_with_parent()?;
        let descriptors = own_descriptors()?;
        signal::interrupt_waiting_every(LOOK_UP)?;
        loop {
            match creation::open_at(&descriptors, number, flags, 0) {
                Err(Errno::INTR) if !self.listener.is_waiting(call) => fork::exit_now(0),
                Err(Errno::INTR) if caller.has_signal() => return Err(notify::RESTART),
                Err(Errno::INTR) => {}
                opened => return opened,
            }
        }
    }
}

/// Removes what was made for a caller that could not take it: a call that fails leaves nothing behind.
pub(super) fn unmake(place: &Place, descriptor: &OwnedFd) {
    let there = rustix::fs::statat(&place.folder, &place.name, AtFlags::SYMLINK_NOFOLLOW);
    if let (Ok(there), Ok(made)) = (there, rustix::fs::fstat(descriptor))
        && (there.st_dev, there.st_ino) == (made.st_dev, made.st_ino)
    {
        let _ = rustix::fs::unlinkat(&place.folder, &place.name, AtFlags::empty());
    }
}

/// `/dev/tty` is another one for each session; ours is init's.
fn open_terminal(caller: &Caller, flags: i32) -> Result<OwnedFd, Errno> {
    let path = CString::new(format!("/dev/pts/{}", caller.terminal()?)).map_err(|_| Errno::INVAL)?;
    creation::open_at(CWD, &path, flags, 0)
}
