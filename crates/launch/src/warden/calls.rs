//! The calls the warden does in the place of others: what they ask for, whether the name can be made, and the act itself.

use super::caller::{Caller, libc_at};
use super::way::{Links, Place, Through};
use super::{Answer, Warden, mount_of};
use keyward_policy::detect::strict;
use keyward_policy::detect::strict::programs::{self, ENVIRONMENT, Made, Site};
use keyward_sys::notify::Call;
use keyward_sys::{Errno, creation, seccomp};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

/// A call by its meaning, whichever of its forms was used. Numbers that point into memory are the caller's addresses.
enum Asked {
    Open { at: i32, path: u64, flags: i32, mode: u32 },
    Folder { at: i32, path: u64, mode: u32 },
    Node { at: i32, path: u64, mode: u32, device: u32 },
    Symlink { target: u64, at: i32, path: u64 },
    Link { from: (i32, u64), to: (i32, u64), flags: u32 },
    Rename { from: (i32, u64), to: (i32, u64), flags: u32 },
    Bind { socket: i32, address: u64, length: i32 },
}

const RENAME_EXCHANGE: u32 = 2;
const CREAT_MEANS: i32 = 0o1 | 0o100 | 0o1000; // O_WRONLY | O_CREAT | O_TRUNC

/// Which number is which call; asked once, because names are compared for it.
struct Numbers {
    open: Option<u32>,
    openat: Option<u32>,
    creat: Option<u32>,
    mkdir: Option<u32>,
    mkdirat: Option<u32>,
    mknod: Option<u32>,
    mknodat: Option<u32>,
    symlink: Option<u32>,
    symlinkat: Option<u32>,
    link: Option<u32>,
    linkat: Option<u32>,
    rename: Option<u32>,
    renameat: Option<u32>,
    renameat2: Option<u32>,
    bind: Option<u32>,
}

static NUMBERS: std::sync::LazyLock<Numbers> = std::sync::LazyLock::new(|| Numbers {
    open: seccomp::number("open"),
    openat: seccomp::number("openat"),
    creat: seccomp::number("creat"),
    mkdir: seccomp::number("mkdir"),
    mkdirat: seccomp::number("mkdirat"),
    mknod: seccomp::number("mknod"),
    mknodat: seccomp::number("mknodat"),
    symlink: seccomp::number("symlink"),
    symlinkat: seccomp::number("symlinkat"),
    link: seccomp::number("link"),
    linkat: seccomp::number("linkat"),
    rename: seccomp::number("rename"),
    renameat: seccomp::number("renameat"),
    renameat2: seccomp::number("renameat2"),
    bind: seccomp::number("bind"),
});

fn asked(call: &Call) -> Option<Asked> {
    // The kernel looks at the lower half of such arguments only.
    let word = |place: usize| call.arguments[place] as u32;
    let fd = |place: usize| word(place).cast_signed();
    let at = |place: usize| call.arguments[place];
    let cwd = libc_at::FDCWD;
    let (is, numbers) = (Some(call.number), &*NUMBERS);
    Some(if is == numbers.openat {
        Asked::Open { at: fd(0), path: at(1), flags: fd(2), mode: word(3) }
    } else if is == numbers.open {
        Asked::Open { at: cwd, path: at(0), flags: fd(1), mode: word(2) }
    } else if is == numbers.creat {
        Asked::Open { at: cwd, path: at(0), flags: CREAT_MEANS, mode: word(1) }
    } else if is == numbers.mkdir {
        Asked::Folder { at: cwd, path: at(0), mode: word(1) }
    } else if is == numbers.mkdirat {
        Asked::Folder { at: fd(0), path: at(1), mode: word(2) }
    } else if is == numbers.rename {
        Asked::Rename { from: (cwd, at(0)), to: (cwd, at(1)), flags: 0 }
    } else if is == numbers.renameat {
        Asked::Rename { from: (fd(0), at(1)), to: (fd(2), at(3)), flags: 0 }
    } else if is == numbers.renameat2 {
        Asked::Rename { from: (fd(0), at(1)), to: (fd(2), at(3)), flags: word(4) }
    } else if is == numbers.link {
        Asked::Link { from: (cwd, at(0)), to: (cwd, at(1)), flags: 0 }
    } else if is == numbers.linkat {
        Asked::Link { from: (fd(0), at(1)), to: (fd(2), at(3)), flags: word(4) }
    } else if is == numbers.symlink {
        Asked::Symlink { target: at(0), at: cwd, path: at(1) }
    } else if is == numbers.symlinkat {
        Asked::Symlink { target: at(0), at: fd(1), path: at(2) }
    } else if is == numbers.mknod {
        Asked::Node { at: cwd, path: at(0), mode: word(1), device: word(2) }
    } else if is == numbers.mknodat {
        Asked::Node { at: fd(0), path: at(1), mode: word(2), device: word(3) }
    } else if is == numbers.bind {
        Asked::Bind { socket: fd(0), address: at(1), length: fd(2) }
    } else {
        return None;
    })
}

impl Warden {
    pub(super) fn act(&mut self, call: &Call, caller: &Caller) -> Result<Answer, Errno> {
        match asked(call).ok_or(Errno::NOSYS)? {
            Asked::Open { at, path, flags, mode } => {
                let path = caller.text(path)?;
                self.open(call, caller, (at, &path), flags, mode)
            }
            Asked::Folder { at, path, mode } => {
                let place = self.new_place(call, caller, at, path, &Made::New)?;
                creation::make_folder_at(&place.folder, &place.name, mode).map(|()| Answer::Done)
            }
            Asked::Node { at, path, mode, device } => {
                let place = self.new_place(call, caller, at, path, &Made::New)?;
                creation::make_node_at(&place.folder, &place.name, mode, device).map(|()| Answer::Done)
            }
            Asked::Symlink { target, at, path } => {
                let target = CString::new(caller.text(target)?).map_err(|_| Errno::INVAL)?;
                let place = self.new_place(call, caller, at, path, &Made::Link)?;
                creation::make_symlink_at(&target, &place.folder, &place.name).map(|()| Answer::Done)
            }
            Asked::Link { from, to, flags } => self.link(call, caller, from, to, flags),
            Asked::Rename { from, to, flags } => self.rename(call, caller, from, to, flags),
            Asked::Bind { socket, address, length } => self.bind(call, caller, socket, address, length),
        }
    }

    /// Whether a name cannot be made in this place. What is gone with the cage may have any name.
    pub(super) fn is_forbidden(&self, place: &Place, made: &Made<'_>) -> Result<bool, Errno> {
        let is_forbidden = strict::is_forbidden(place.bare_name()) || self.is_for_programs(place, made)?;
        Ok(is_forbidden && !self.own_places.contains(&mount_of(&place.folder, c"")?))
    }

    /// The path of the directory that a name stands in.
    fn path_of_folder(&self, place: &Place) -> Result<PathBuf, Errno> {
        let path = rustix::fs::readlinkat(&self.descriptors, own_name(&place.folder)?, Vec::new())?;
        Ok(OsString::from_vec(path.into_bytes()).into())
    }

    fn path(&self, place: &Place) -> Result<PathBuf, Errno> {
        Ok(self.path_of_folder(place)?.join(place.bare_name()))
    }

    /// Whether programs, or python, look there. No directory moves meanwhile: only we move what the command has moved.
    fn is_for_programs(&self, place: &Place, made: &Made<'_>) -> Result<bool, Errno> {
        let folder = self.path_of_folder(place)?;
        // What cannot be looked at may be there.
        let may_have = |name: String| {
            let stat = rustix::fs::statat(&place.folder, name, AtFlags::SYMLINK_NOFOLLOW);
            !matches!(stat, Err(Errno::NOENT | Errno::NOTDIR))
        };
        let site = Site {
            folder: &folder,
            is_environment: &|| may_have(ENVIRONMENT.into()),
            is_in_environment: &|| may_have(format!("../{ENVIRONMENT}")),
            search: &self.programs,
        };
        Ok(programs::is_forbidden(&site, place.bare_name(), made))
    }

    /// The place of a name that is to be made and is not there yet.
    fn new_place(
        &mut self,
        call: &Call,
        caller: &Caller,
        at: i32,
        path: u64,
        made: &Made<'_>,
    ) -> Result<Place, Errno> {
        let path = caller.text(path)?;
        let place = self.place(caller, at, &path)?;
        self.take_umask(caller)?;
        self.still_waits(call)?;
        match self.is_forbidden(&place, made)? {
            true if place.exists() => Err(Errno::EXIST),
            true => Err(Errno::PERM),
            false => Ok(place),
        }
    }

    fn rename(
        &self,
        call: &Call,
        caller: &Caller,
        from: (i32, u64),
        to: (i32, u64),
        flags: u32,
    ) -> Result<Answer, Errno> {
        let (from_path, to_path) = (caller.text(from.1)?, caller.text(to.1)?);
        let from = self.place(caller, from.0, &from_path)?;
        let to = self.place(caller, to.0, &to_path)?;
        self.still_waits(call)?;
        // Exchanged, each takes the name of the other.
        let moved = |to: &Place, from: &Place| self.is_forbidden(to, &Made::Moved(&|| names_in(from)));
        if moved(&to, &from)? || (flags & RENAME_EXCHANGE != 0 && moved(&from, &to)?) {
            return Err(Errno::PERM);
        }
        let leaves = |from: &Place, to: &Place| {
            Ok(is_directory(from) && strict::leaves_packages(&self.path(from)?, &self.path(to)?))
        };
        if leaves(&from, &to)? || (flags & RENAME_EXCHANGE != 0 && leaves(&to, &from)?) {
            return Err(Errno::XDEV);
        }
        creation::rename_at(&from.folder, &from.name, &to.folder, &to.name, flags).map(|()| Answer::Done)
    }

    fn link(
        &self,
        call: &Call,
        caller: &Caller,
        from: (i32, u64),
        to: (i32, u64),
        flags: u32,
    ) -> Result<Answer, Errno> {
        let (from_path, to_path) = (caller.text(from.1)?, caller.text(to.1)?);
        let empty = from_path.is_empty() && flags & libc_at::EMPTY_PATH != 0;
        let found = match flags & libc_at::SYMLINK_FOLLOW != 0 {
            _ if empty => Some(caller.base(from.0)?),
            true => Some(self.existing(caller, from.0, &from_path)?),
            false => None,
        };
        let to = self.place(caller, to.0, &to_path)?;
        self.still_waits(call)?;
        // The second name may be one of a link.
        if self.is_forbidden(&to, &Made::Link)? {
            return Err(if to.exists() { Errno::EXIST } else { Errno::PERM });
        }
        let made = match found {
            Some(found) => {
                let number = own_name(&found)?;
                let flags = (flags & !libc_at::EMPTY_PATH) | libc_at::SYMLINK_FOLLOW;
                creation::link_at(&self.descriptors, &number, &to.folder, &to.name, flags)
            }
            None => {
                let from = self.place(caller, from.0, &from_path)?;
                creation::link_at(&from.folder, &from.name, &to.folder, &to.name, flags)
            }
        };
        made.map(|()| Answer::Done)
    }

    /// What stands at a path, with its last link followed.
    fn existing(&self, caller: &Caller, at: i32, path: &[u8]) -> Result<OwnedFd, Errno> {
        if path.is_empty() {
            return Err(Errno::NOENT);
        }
        let mut links = Links::default();
        let mut place = self.place(caller, at, path)?;
        loop {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let found = rustix::fs::openat(&place.folder, &place.name, flags, Mode::empty())?;
            let stat = rustix::fs::fstat(&found)?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
                return Ok(found);
            }
            match self.through_link(caller, &place, &found, &stat, &mut links)? {
                Through::There(found) => return Ok(found),
                Through::Elsewhere(next) => place = next,
            }
        }
    }

    fn bind(
        &mut self,
        call: &Call,
        caller: &Caller,
        socket: i32,
        address: u64,
        length: i32,
    ) -> Result<Answer, Errno> {
        const MOST: usize = 128; // sizeof(struct sockaddr_storage)
        const AF_UNIX: [u8; 2] = 1u16.to_ne_bytes();
        let socket = caller.descriptor(socket)?;
        rustix::net::sockopt::socket_type(&socket)?;
        let length = usize::try_from(length).ok().filter(|&length| length <= MOST).ok_or(Errno::INVAL)?;
        let address = caller.bytes(address, length)?;
        let path = match address.split_at_checked(2) {
            Some((family, path)) if family == AF_UNIX => {
                path.split(|&byte| byte == 0).next().unwrap_or_default()
            }
            _ => &[],
        };
        self.take_umask(caller)?;
        if path.is_empty() {
            self.still_waits(call)?;
            return creation::bind(&socket, &address).map(|()| Answer::Done);
        }
        let place = self.place(caller, libc_at::FDCWD, path)?;
        let cwd = caller.base(libc_at::FDCWD)?;
        self.still_waits(call)?;
        let forbidden = strict::is_forbidden(place.bare_name());
        if self.is_forbidden(&place, &Made::New)? {
            return Err(if place.exists() { Errno::ADDRINUSE } else { Errno::PERM });
        }
        // The address is kept as it was written, for those who ask the socket for it, unless the way has to be the one we found.
        if !place.personal && !forbidden {
            rustix::process::fchdir(&cwd)?;
            return creation::bind(&socket, &address).map(|()| Answer::Done);
        }
        rustix::process::fchdir(&place.folder)?;
        let found = [&AF_UNIX, place.name.as_bytes_with_nul()].concat();
        creation::bind(&socket, &found).map(|()| Answer::Done)
    }
}

/// Whether a directory stands there. What cannot be looked at may be one.
fn is_directory(place: &Place) -> bool {
    let stat = rustix::fs::statat(&place.folder, place.bare_name(), AtFlags::SYMLINK_NOFOLLOW);
    stat.map_or_else(
        |error| error != Errno::NOENT,
        |stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory,
    )
}

/// The names in what is moved; `None` if they cannot be read. A link leads anywhere.
fn names_in(place: &Place) -> Option<Vec<OsString>> {
    let stat = rustix::fs::statat(&place.folder, place.bare_name(), AtFlags::SYMLINK_NOFOLLOW);
    match stat.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
        Ok(FileType::Directory) => {}
        Ok(FileType::Symlink) => return None,
        // What is not there is not moved, and the call says so.
        Ok(_) | Err(Errno::NOENT) => return Some(Vec::new()),
        Err(_) => return None,
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = rustix::fs::openat(&place.folder, place.bare_name(), flags, Mode::empty()).ok()?;
    let entries = Dir::read_from(&open).ok()?;
    let name = |entry: rustix::fs::DirEntry| OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
    entries.map(|entry| entry.ok().map(name)).collect()
}

/// The name of a descriptor of ours in the folder of them.
pub(super) fn own_name(descriptor: &OwnedFd) -> Result<CString, Errno> {
    CString::new(descriptor.as_raw_fd().to_string()).map_err(|_| Errno::INVAL)
}
