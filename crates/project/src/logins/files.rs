//! Files of logins on both sides: looked at, copied inside the kernel, and put in their places whole. No link is followed on the way: where a
//! command can write, it may have put one.

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// No login is larger.
pub(super) const MOST: i64 = 4 << 20;

/// One state of a file. The time of its last change cannot be set, and another file has another number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) inode: u64,
    pub(super) size: i64,
    pub(super) changed: (i64, i64),
}

impl Stamp {
    pub(super) fn of(stat: &Stat) -> Self {
        Stamp { inode: stat.st_ino, size: stat.st_size, changed: (stat.st_ctime, stat.st_ctime_nsec as i64) }
    }
}

/// A name in a folder that is held open.
pub(super) struct Spot {
    folder: OwnedFd,
    name: OsString,
}

const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);
const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens the folder that is a HOME; not through a link in its own place.
pub(super) fn open_home(path: &Path) -> Result<OwnedFd, Errno> {
    rustix::fs::open(path, FOLDER, Mode::empty())
}

/// Device and inode of a folder.
pub(super) fn identity(folder: impl AsFd) -> Result<(u64, u64), Errno> {
    rustix::fs::fstat(folder).map(|stat| (stat.st_dev, stat.st_ino))
}

impl Spot {
    /// A path of a HOME.
    pub(super) fn inside(home: &OwnedFd, below: &Path) -> Result<Self, Errno> {
        let name = below.file_name().ok_or(Errno::INVAL)?.to_owned();
        let above = below.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
        Ok(Spot { folder: rustix::fs::openat2(home, above, FOLDER, Mode::empty(), BENEATH)?, name })
    }

    /// The same, with the folders above it made.
    pub(super) fn made_inside(home: &OwnedFd, below: &Path) -> Result<Self, Errno> {
        let mut folder = rustix::fs::openat(home, c".", FOLDER, Mode::empty())?;
        for part in below.parent().into_iter().flat_map(Path::iter) {
            match rustix::fs::mkdirat(&folder, part, Mode::RWXU) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(errno),
            }
            folder = rustix::fs::openat2(&folder, part, FOLDER, Mode::empty(), BENEATH)?;
        }
        Ok(Spot { folder, name: below.file_name().ok_or(Errno::INVAL)?.to_owned() })
    }

    /// The same for a place in which a command may have put something else, or that it may have closed: what stands in the way is moved
    /// aside and never removed, and directories are opened to their owner. Gives the new names as well, relative to HOME.
    pub(super) fn cleared_inside(home: &OwnedFd, below: &Path) -> Result<(Self, Vec<PathBuf>), Errno> {
        let mut moved = Vec::new();
        let mut folder = rustix::fs::openat(home, c".", FOLDER, Mode::empty())?;
        let mut way = PathBuf::new();
        let mut clear = |folder: &OwnedFd, way: &Path, name: &OsStr| {
            move_aside(folder, name).map(|aside| moved.extend(aside.map(|aside| way.join(aside))))
        };
        for part in below.parent().into_iter().flat_map(Path::iter) {
            let is_folder = |stat: &Stat| FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            if !rustix::fs::statat(&folder, part, AtFlags::SYMLINK_NOFOLLOW)
                .is_ok_and(|stat| is_folder(&stat))
            {
                clear(&folder, &way, part)?;
                match rustix::fs::mkdirat(&folder, part, Mode::RWXU) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(errno) => return Err(errno),
                }
            }
            folder = open_to_owner(&folder, part)?;
            way.push(part);
        }
        let name = below.file_name().ok_or(Errno::INVAL)?.to_owned();
        let spot = Spot { folder, name };
        if spot.stamp() == Err(Errno::INVAL) {
            clear(&spot.folder, &way, &spot.name)?;
        }
        Ok((spot, moved))
    }

    /// A real file, by the path that it had when all links were followed.
    pub(super) fn outside(real: &Path) -> Result<Self, Errno> {
        let (Some(above), Some(name)) = (real.parent(), real.file_name()) else { return Err(Errno::INVAL) };
        let folder = rustix::fs::openat2(CWD, above, FOLDER, Mode::empty(), ResolveFlags::NO_SYMLINKS)?;
        Ok(Spot { folder, name: name.to_owned() })
    }

    fn stat(&self) -> Result<Stat, Errno> {
        rustix::fs::statat(&self.folder, &self.name, AtFlags::SYMLINK_NOFOLLOW)
    }

    /// The state of the ordinary file that stands there; `None` if nothing does, an error if something else does.
    pub(super) fn stamp(&self) -> Result<Option<Stamp>, Errno> {
        match self.stat() {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => {
                Ok(Some(Stamp::of(&stat)))
            }
            Ok(_) => Err(Errno::INVAL),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno),
        }
    }

    /// Opens the ordinary file that stands there, if it is not too large; with its state.
    pub(super) fn open(&self) -> Result<(OwnedFd, Stamp), Errno> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.folder, &self.name, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&file)?;
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile if stat.st_size > MOST => Err(Errno::FBIG),
            FileType::RegularFile => Ok((file, Stamp::of(&stat))),
            _ => Err(Errno::INVAL),
        }
    }

    /// Whether the file is what was looked at before.
    pub(super) fn is(&self, expect: (u64, u64)) -> bool {
        self.stat().is_ok_and(|stat| (stat.st_dev, stat.st_ino) == expect)
    }

    /// Removes the ordinary file that stands there. A folder of the command's that it has closed is opened again: it is ours.
    pub(super) fn remove(&self) -> Result<(), Errno> {
        let unlink = || match rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            done => done,
        };
        unlink().or_else(|_| rustix::fs::fchmod(&self.folder, Mode::RWXU).and_then(|()| unlink()))
    }

    /// Puts a copy of a file there, readable by its owner alone; gives its state.
    pub(super) fn fill(&self, from: &OwnedFd, stamp: Stamp) -> Result<Stamp, Errno> {
        let beside = self.beside();
        let file = self.write_beside(&beside, from, stamp, Mode::RUSR | Mode::WUSR, |_| Ok(()))?;
        let placed = rustix::fs::renameat(&self.folder, &beside, &self.folder, &self.name);
        self.after(&beside, placed, &file)
    }

    /// Puts a copy of a file in the place of the one that stands there, if that is still the one that is expected. EBUSY means that it is not.
    pub(super) fn replace(&self, expected: Stamp, from: &OwnedFd, stamp: Stamp) -> Result<Stamp, Errno> {
        let before = self.stat()?;
        let beside = self.beside();
        let as_before = |file: &OwnedFd| {
            let (user, group) =
                (rustix::fs::Uid::from_raw(before.st_uid), rustix::fs::Gid::from_raw(before.st_gid));
            // Another's is not ours to give; then it stays with us.
            let _ = rustix::fs::fchown(file, Some(user), Some(group));
            // The real one outlives a power cut.
            rustix::fs::fdatasync(file)
        };
        let mode = Mode::from_raw_mode(before.st_mode & 0o777);
        let file = self.write_beside(&beside, from, stamp, mode, as_before)?;
        let swap = || {
            rustix::fs::renameat_with(&self.folder, &beside, &self.folder, &self.name, RenameFlags::EXCHANGE)
        };
        let placed = match swap() {
            Ok(()) => {
                // What we have got for it must be what we knew: somebody may have written another one meanwhile.
                let got = rustix::fs::statat(&self.folder, &beside, AtFlags::SYMLINK_NOFOLLOW)?;
                let untouched = (got.st_mtime, got.st_mtime_nsec) == (before.st_mtime, before.st_mtime_nsec);
                if got.st_ino == expected.inode && untouched && Stamp::of(&before) == expected {
                    Ok(())
                } else {
                    swap().and(Err(Errno::BUSY))
                }
            }
            // Where names cannot be exchanged, a look right before has to do.
            Err(Errno::INVAL) => match self.stamp()? {
                Some(now) if now == expected => {
                    rustix::fs::renameat(&self.folder, &beside, &self.folder, &self.name)
                }
                _ => Err(Errno::BUSY),
            },
            Err(errno) => Err(errno),
        };
        let after = self.after(&beside, placed, &file);
        let _ = rustix::fs::unlinkat(&self.folder, &beside, AtFlags::empty());
        after
    }

    fn after(&self, beside: &OsStr, placed: Result<(), Errno>, file: &OwnedFd) -> Result<Stamp, Errno> {
        match placed.and_then(|()| rustix::fs::fstat(file)) {
            Ok(stat) => Ok(Stamp::of(&stat)),
            Err(errno) => {
                let _ = rustix::fs::unlinkat(&self.folder, beside, AtFlags::empty());
                Err(errno)
            }
        }
    }

    /// A name that nobody has planted something at.
    fn beside(&self) -> OsString {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let mut beside = OsString::from(format!(".keyward-{:x}-{:x}-", std::process::id(), now.tv_nsec));
        beside.push(&self.name);
        beside
    }

    fn write_beside(
        &self,
        beside: &OsStr,
        from: &OwnedFd,
        stamp: Stamp,
        mode: Mode,
        last: impl FnOnce(&OwnedFd) -> Result<(), Errno>,
    ) -> Result<OwnedFd, Errno> {
        let owner = Mode::RUSR | Mode::WUSR;
        let unnamed = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
        let (file, named) = match rustix::fs::openat(&self.folder, c".", unnamed, owner) {
            Ok(file) => (file, false),
            Err(Errno::OPNOTSUPP) => {
                let flags =
                    OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                (rustix::fs::openat(&self.folder, beside, flags, owner)?, true)
            }
            Err(errno) => return Err(errno),
        };
        let written = copy(&file, from, stamp)
            .and_then(|()| rustix::fs::fchmod(&file, mode))
            .and_then(|()| last(&file));
        let named = match (written, named) {
            (Ok(()), false) => {
                let by_number = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
                rustix::fs::linkat(CWD, &by_number, &self.folder, beside, AtFlags::SYMLINK_FOLLOW)
            }
            (written, _) => written,
        };
        if let Err(errno) = named {
            let _ = rustix::fs::unlinkat(&self.folder, beside, AtFlags::empty());
            return Err(errno);
        }
        Ok(file)
    }
}

/// Opens a directory that may be closed to its owner, and opens it to its owner. It is taken by what it is, and not by its name: a command
/// may swap it for a link at any moment.
fn open_to_owner(above: &OwnedFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let named = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let held = rustix::fs::openat2(above, name, named, Mode::empty(), BENEATH)?;
    let mode = Mode::from_raw_mode(rustix::fs::fstat(&held)?.st_mode);
    let by_number = PathBuf::from(format!("/proc/self/fd/{}", held.as_raw_fd()));
    if !mode.contains(Mode::RWXU) {
        rustix::fs::chmod(&by_number, mode | Mode::RWXU)?;
    }
    rustix::fs::openat(&held, c".", FOLDER, Mode::empty())
}

/// Gives what stands at a name another one, in the same directory; the new name, where something stood there.
fn move_aside(folder: &OwnedFd, name: &OsStr) -> Result<Option<OsString>, Errno> {
    for number in 1..=MOST_ASIDE {
        let mut aside = name.to_owned();
        aside.push(format!(".moved-{number}"));
        match rustix::fs::renameat_with(folder, name, folder, &aside, RenameFlags::NOREPLACE) {
            Ok(()) => return Ok(Some(aside)),
            Err(Errno::NOENT) => return Ok(None),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::EXIST)
}

/// So many things that were moved aside are kept at one place.
const MOST_ASIDE: usize = 1000;

/// Copies inside the kernel: the whole of a file that stays as it is, or EAGAIN.
fn copy(to: &OwnedFd, from: &OwnedFd, stamp: Stamp) -> Result<(), Errno> {
    let mut left = usize::try_from(stamp.size).map_err(|_| Errno::INVAL)?;
    while left > 0 {
        match rustix::fs::sendfile(to, from, None, left) {
            Ok(0) => return Err(Errno::AGAIN),
            Ok(written) => left = left.saturating_sub(written),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    if Stamp::of(&rustix::fs::fstat(from)?) == stamp { Ok(()) } else { Err(Errno::AGAIN) }
}

/// Whether a file of JSON looks whole: what was cut off in the middle of a write does not end like that.
pub(super) fn ends_whole(file: &OwnedFd, stamp: Stamp, path: &Path) -> bool {
    if path.extension() != Some(OsStr::new("json")) {
        return true;
    }
    let mut end = [0; 16];
    let from = u64::try_from(stamp.size.saturating_sub(16)).unwrap_or(0);
    let length = rustix::io::pread(file, &mut end, from).unwrap_or(0);
    end[..length]
        .iter()
        .rev()
        .find(|byte| !byte.is_ascii_whitespace())
        .is_some_and(|byte| b"}]".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{read_to_string, write};
    use std::os::unix::fs::PermissionsExt;

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        (folder, path)
    }

    fn opened(path: &Path) -> (OwnedFd, Stamp) {
        Spot::outside(path).unwrap().open().unwrap()
    }

    fn names(path: &Path) -> Vec<OsString> {
        let mut names: Vec<OsString> =
            std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_that_is_no_longer_the_expected_one_is_not_replaced_and_nothing_is_left_beside_it() {
        let (_folder, path) = folder();
        let (real, new) = (path.join("real"), path.join("new"));
        write(&real, "first").unwrap();
        write(&new, "cage").unwrap();
        let expected = opened(&real).1;
        write(path.join("other"), "mine").unwrap();
        std::fs::rename(path.join("other"), &real).unwrap();
        let (from, stamp) = opened(&new);
        let replaced = Spot::outside(&real).unwrap().replace(expected, &from, stamp);
        assert_eq!(replaced, Err(Errno::BUSY));
        assert_eq!(read_to_string(&real).unwrap(), "mine");
        assert_eq!(names(&path), ["new", "real"]);
    }

    #[test]
    fn what_replaces_a_file_has_its_permissions_and_a_copy_in_the_cage_is_its_owners_alone() {
        let (_folder, path) = folder();
        let (real, new) = (path.join("real"), path.join("new"));
        write(&real, "first").unwrap();
        write(&new, "cage").unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        std::fs::set_permissions(&real, PermissionsExt::from_mode(0o640)).unwrap();
        let ((from, stamp), expected) = (opened(&new), opened(&real).1);
        Spot::outside(&real).unwrap().replace(expected, &from, stamp).unwrap();
        assert_eq!((read_to_string(&real).unwrap().as_str(), mode(&real)), ("cage", 0o640));
        let (from, stamp) = opened(&real);
        Spot::outside(&path.join("copy")).unwrap().fill(&from, stamp).unwrap();
        assert_eq!(
            (read_to_string(path.join("copy")).unwrap().as_str(), mode(&path.join("copy"))),
            ("cage", 0o600)
        );
    }

    #[test]
    fn a_file_that_changes_while_it_is_copied_is_not_a_copy() {
        let (_folder, path) = folder();
        write(path.join("from"), "first").unwrap();
        let (from, stamp) = opened(&path.join("from"));
        write(path.join("from"), "other").unwrap();
        assert_eq!(Spot::outside(&path.join("to")).unwrap().fill(&from, stamp), Err(Errno::AGAIN));
        assert_eq!(names(&path), ["from"]);
    }

    #[test]
    fn no_link_is_followed_on_the_way_and_none_at_its_end() {
        let (_folder, path) = folder();
        std::fs::create_dir(path.join("real")).unwrap();
        write(path.join("real/file"), "x").unwrap();
        std::os::unix::fs::symlink("real", path.join("link")).unwrap();
        std::os::unix::fs::symlink("real/file", path.join("end")).unwrap();
        let home = open_home(&path).unwrap();
        assert!(Spot::inside(&home, Path::new("real/file")).unwrap().open().is_ok());
        assert!(Spot::inside(&home, Path::new("link/file")).is_err());
        assert!(Spot::made_inside(&home, Path::new("link/new")).is_err());
        assert!(Spot::inside(&home, Path::new("../x")).is_err());
        assert!(Spot::outside(&path.join("link/file")).is_err());
        let end = Spot::inside(&home, Path::new("end")).unwrap();
        assert!(end.open().is_err() && end.stamp() == Err(Errno::INVAL));
        assert!(open_home(&path.join("link")).is_err());
    }

    #[test]
    fn only_json_must_end_whole() {
        let (_folder, path) = folder();
        let whole = |name: &str, text: &str| {
            write(path.join(name), text).unwrap();
            let (file, stamp) = opened(&path.join(name));
            ends_whole(&file, stamp, Path::new(name))
        };
        assert!(whole("a.json", "{\"a\": 1}\n \n") && whole("a.json", "[1]"));
        assert!(!whole("a.json", "{\"a\": 1") && !whole("a.json", "") && !whole("a.json", "   "));
        assert!(whole("a.yml", "{"));
    }
}
