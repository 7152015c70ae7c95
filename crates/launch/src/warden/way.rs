//! The way to a name: the folder it stands in, found once and held by a descriptor, as the kernel would have found it for the caller.

use super::Warden;
use super::caller::Caller;
use keyward_sys::{Errno, confine};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat};
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;

/// The most links that are followed, as by the kernel.
const MOST_LINKS: u32 = 40;
const FOUND: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
/// The root of every procfs has this inode.
const PROC_ROOT: u64 = 1;

/// A folder, and the last part of a path as it was written: with what slashes came behind it.
pub(super) struct Place {
    pub(super) folder: OwnedFd,
    pub(super) name: CString,
    /// Whether the way there is another one for another process.
    pub(super) personal: bool,
}

impl Place {
    /// The name alone.
    pub(super) fn bare_name(&self) -> &OsStr {
        let bytes = self.name.as_bytes();
        let end = bytes.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
        OsStr::from_bytes(&bytes[..end])
    }

    /// Whether something stands there already; a link counts for itself.
    pub(super) fn exists(&self) -> bool {
        rustix::fs::statat(&self.folder, self.bare_name(), AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }
}

/// The links that were followed.
#[derive(Default)]
pub(super) struct Links {
    count: u32,
    /// Whether one of them meant the process that follows it.
    personal: bool,
}

/// Where the last part of a path begins.
fn last_part(path: &[u8]) -> usize {
    let end = path.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    path[..end].iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1)
}

/// What a link leads to.
enum Lead {
    Text(Vec<u8>),
    /// A link of procfs that is no text.
    There(OwnedFd),
}

impl Warden {
    /// The place of a path that the caller wrote, relative to a descriptor of its own.
    pub(super) fn place(&self, caller: &Caller, descriptor: i32, path: &[u8]) -> Result<Place, Errno> {
        if path.is_empty() {
            return Err(Errno::NOENT);
        }
        let base = if path.starts_with(b"/") { None } else { Some(caller.base(descriptor)?) };
        self.place_from(caller, base, path, &mut Links::default())
    }

    /// The place of a path relative to a directory that was found before; `None` for an absolute path.
    pub(super) fn place_from(
        &self,
        caller: &Caller,
        base: Option<OwnedFd>,
        path: &[u8],
        links: &mut Links,
    ) -> Result<Place, Errno> {
        let (above, last) = path.split_at(last_part(path));
        let name = CString::new(last).map_err(|_| Errno::INVAL)?;
        let folder = match (base, above.is_empty()) {
            (Some(base), true) => folder_only(base)?,
            (None, true) => rustix::fs::openat(CWD, c"/", FOUND, Mode::empty())?,
            (base, false) => self.folder(caller, base, above, links)?,
        };
        Ok(Place { folder, name, personal: links.personal })
    }

    fn folder(
        &self,
        caller: &Caller,
        base: Option<OwnedFd>,
        path: &[u8],
        links: &mut Links,
    ) -> Result<OwnedFd, Errno> {
        let start = base.as_ref().map_or(CWD, AsFd::as_fd);
        let flags = FOUND | OFlags::DIRECTORY;
        match rustix::fs::openat2(start, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
            // Where there are links, we go step by step: some mean the process that follows them.
            Err(Errno::LOOP) => folder_only(self.follow(caller, base, path.to_vec(), links)?),
            opened => opened,
        }
    }

    /// Goes a whole path, following every link, and gives what stands at its end.
    fn follow(
        &self,
        caller: &Caller,
        base: Option<OwnedFd>,
        path: Vec<u8>,
        links: &mut Links,
    ) -> Result<OwnedFd, Errno> {
        let root = || rustix::fs::openat(CWD, c"/", FOUND, Mode::empty());
        let mut rest = path;
        let mut here = match base {
            Some(base) if !rest.starts_with(b"/") => base,
            _ => root()?,
        };
        loop {
            let start = rest.iter().position(|&byte| byte != b'/');
            let Some(start) = start else {
                // A slash at the end wants a folder.
                return if rest.is_empty() { Ok(here) } else { folder_only(here) };
            };
            let end =
                rest[start..].iter().position(|&byte| byte == b'/').map_or(rest.len(), |slash| start + slash);
            let (step, later) = (rest[start..end].to_vec(), rest[end..].to_vec());
            let next = rustix::fs::openat(&here, step.as_slice(), FOUND | OFlags::NOFOLLOW, Mode::empty())?;
            let stat = rustix::fs::fstat(&next)?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
                (here, rest) = (next, later);
                continue;
            }
            match self.lead(caller, &here, &step, &next, &stat, links)? {
                Lead::There(found) => (here, rest) = (found, later),
                Lead::Text(mut text) => {
                    if text.starts_with(b"/") {
                        here = root()?;
                    }
                    text.extend_from_slice(&later);
                    rest = text;
                }
            }
        }
    }

    /// Where a link leads, for the caller.
    fn lead(
        &self,
        caller: &Caller,
        folder: &OwnedFd,
        name: &[u8],
        link: &OwnedFd,
        stat: &Stat,
        links: &mut Links,
    ) -> Result<Lead, Errno> {
        links.count += 1;
        if links.count > MOST_LINKS {
            return Err(Errno::LOOP);
        }
        if stat.st_dev != self.proc {
            return rustix::fs::readlinkat(link, c"", Vec::new()).map(|text| Lead::Text(text.into_bytes()));
        }
        links.personal = true;
        if rustix::fs::fstat(folder)?.st_ino != PROC_ROOT {
            return self.lead_of_process(caller, folder, name).map(Lead::There);
        }
        let text = match name {
            b"self" => caller.process()?.to_string().into_bytes(),
            b"thread-self" => format!("{}/task/{}", caller.process()?, caller.thread).into_bytes(),
            _ => rustix::fs::readlinkat(link, c"", Vec::new())?.into_bytes(),
        };
        Ok(Lead::Text(text))
    }

    /// A link such as `/proc/PID/fd/3`. What we may do more than the caller is not done for it.
    fn lead_of_process(&self, caller: &Caller, folder: &OwnedFd, name: &[u8]) -> Result<OwnedFd, Errno> {
        let open = || rustix::fs::openat(folder, name, FOUND, Mode::empty());
        let whose = self.process_of(folder)?;
        if whose == std::process::id() {
            return Err(Errno::ACCESS);
        }
        match open() {
            Err(Errno::ACCESS | Errno::PERM) if whose == caller.process()? => confine::with_ptrace(open),
            opened => opened,
        }
    }

    /// The process that something in /proc is about.
    pub(super) fn process_of(&self, in_proc: &OwnedFd) -> Result<u32, Errno> {
        use rustix::fd::AsRawFd;
        let number = in_proc.as_raw_fd().to_string();
        let path = rustix::fs::readlinkat(&self.descriptors, number, Vec::new())?;
        let number = path.as_bytes().strip_prefix(b"/proc/").and_then(|rest| {
            let digits = rest.split(|&byte| byte == b'/').next()?;
            std::str::from_utf8(digits).ok()?.parse().ok()
        });
        number.ok_or(Errno::ACCESS)
    }

    /// What a path means in the end: the name to be made, or what stands there already. For a call that follows a last link.
    pub(super) fn through_link(
        &self,
        caller: &Caller,
        place: &Place,
        link: &OwnedFd,
        stat: &Stat,
        links: &mut Links,
    ) -> Result<Through, Errno> {
        let name = place.bare_name().as_bytes().to_vec();
        match self.lead(caller, &place.folder, &name, link, stat, links)? {
            Lead::There(found) => Ok(Through::There(found)),
            Lead::Text(text) if text.is_empty() => Err(Errno::NOENT),
            Lead::Text(text) => {
                let base = if text.starts_with(b"/") {
                    None
                } else {
                    Some(place.folder.try_clone().map_err(errno)?)
                };
                self.place_from(caller, base, &text, links).map(Through::Elsewhere)
            }
        }
    }
}

/// What lies behind a last link.
pub(super) enum Through {
    There(OwnedFd),
    Elsewhere(Place),
}

pub(super) fn errno(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

fn folder_only(found: OwnedFd) -> Result<OwnedFd, Errno> {
    match FileType::from_raw_mode(rustix::fs::fstat(&found)?.st_mode) {
        FileType::Directory => Ok(found),
        _ => Err(Errno::NOTDIR),
    }
}

#[cfg(test)]
mod tests {
    use super::last_part;

    #[test]
    fn a_path_is_cut_before_its_last_part() {
        let cut = |path: &'static str| path.split_at(last_part(path.as_bytes()));
        assert_eq!(cut("a"), ("", "a"));
        assert_eq!(cut("a/b"), ("a/", "b"));
        assert_eq!(cut("/a"), ("/", "a"));
        assert_eq!(cut("a//b///"), ("a//", "b///"));
        assert_eq!(cut("a/.."), ("a/", ".."));
        assert_eq!(cut("//"), ("", "//"));
    }
}
