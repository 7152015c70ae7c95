//! The project's tree, held by a descriptor of its root. Whoever works in it may swap anything for anything meanwhile: folders are
//! opened beneath the root and never through a link, and nothing is found again by its whole path.

use crate::search::{Folder, Is, changed, is_repository, mark};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, StatxFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Device and inode of a folder, and when it was born: an inode alone may be used again. Where the file system does not remember, 0.
pub(crate) type Identity = (u64, u64, i128);

/// The root of a project.
pub(crate) struct Root {
    pub(crate) path: PathBuf,
    pub(crate) identity: Identity,
    folder: OwnedFd,
}

/// What leads to a repository is a line.
const SMALL: i64 = 4096;

/// So many bytes of a path are handed to the kernel at a time; it takes 4095.
const LONGEST_PATH: usize = 4000;

const NO_LINKS: ResolveFlags = ResolveFlags::NO_SYMLINKS.union(ResolveFlags::NO_MAGICLINKS);

impl Root {
    /// Opens a root by its real path.
    pub(crate) fn open(path: &Path) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::openat2(CWD, path, flags, Mode::empty(), NO_LINKS)?;
        let stat = rustix::fs::fstat(&folder)?;
        let mut root = Root { path: path.into(), identity: (stat.st_dev, stat.st_ino, 0), folder };
        root.identity.2 = root.born(Path::new("")).unwrap_or(0);
        Ok(root)
    }

    fn open_beneath(&self, relative: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let (mut from, mut rest) = (None, relative);
        // A path may be longer than what the kernel takes at a time.
        while rest.as_os_str().len() > LONGEST_PATH {
            let (first, last) = split(rest);
            let on_the_way = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            from = Some(open_below(from.as_ref().unwrap_or(&self.folder), &first, on_the_way)?);
            rest = last;
        }
        open_below(from.as_ref().unwrap_or(&self.folder), rest, flags)
    }

    /// A folder, to find names in.
    pub(crate) fn folder(&self, relative: &Path) -> Result<OwnedFd, Errno> {
        self.open_beneath(relative, OFlags::PATH | OFlags::DIRECTORY)
    }

    /// Anything, to put something over it.
    pub(crate) fn thing(&self, relative: &Path) -> Result<OwnedFd, Errno> {
        self.open_beneath(relative, OFlags::PATH)
    }

    /// A folder, to list it.
    pub(crate) fn listing(&self, relative: &Path) -> Result<OwnedFd, Errno> {
        self.open_beneath(relative, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// What stands at a path, if its last name is a link the link itself. For a look only: folders on the way are not checked.
    pub(crate) fn stat(&self, relative: &Path) -> Result<Stat, Errno> {
        if relative.as_os_str().len() > LONGEST_PATH {
            return rustix::fs::fstat(self.thing(relative)?);
        }
        rustix::fs::statat(&self.folder, relative, AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH)
    }

    /// When something was born, in nanoseconds, where the file system remembers.
    pub(crate) fn born(&self, relative: &Path) -> Option<i128> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
        let found = rustix::fs::statx(&self.folder, relative, flags, StatxFlags::BTIME).ok()?;
        let born = found.stx_btime;
        StatxFlags::from_bits_retain(found.stx_mask)
            .contains(StatxFlags::BTIME)
            .then(|| i128::from(born.tv_sec) * 1_000_000_000 + i128::from(born.tv_nsec))
    }

    /// The content of a small file, if it is one.
    pub(crate) fn small_file(&self, relative: &Path) -> Option<Vec<u8>> {
        let file = self.open_beneath(relative, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY).ok()?;
        let stat = rustix::fs::fstat(&file).ok()?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || stat.st_size > SMALL {
            return None;
        }
        let mut content = Vec::new();
        std::io::Read::read_to_end(&mut std::fs::File::from(file).take(SMALL.unsigned_abs()), &mut content)
            .ok()?;
        Some(content)
    }

    /// The text of a link, if it is one.
    pub(crate) fn link(&self, relative: &Path) -> Option<PathBuf> {
        let folder = self.folder(relative.parent()?).ok()?;
        let text = rustix::fs::readlinkat(&folder, relative.file_name()?, Vec::new()).ok()?;
        Some(OsString::from_vec(text.into_bytes()).into())
    }
}

/// Opens what lies below a directory, through no link.
fn open_below(folder: &OwnedFd, relative: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let path = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
    let mut tries = 0;
    loop {
        let resolve = NO_LINKS | ResolveFlags::BENEATH;
        match rustix::fs::openat2(folder, path, flags, Mode::empty(), resolve) {
            // Something on the way was renamed meanwhile.
            Err(Errno::AGAIN | Errno::INTR) if tries < 100 => tries += 1,
            other => return other,
        }
    }
}

/// The names at the beginning of a path that fit into one call, and those after them.
fn split(path: &Path) -> (PathBuf, &Path) {
    let (mut first, mut rest) = (PathBuf::new(), path.components());
    while let Some(next) = rest.clone().next() {
        if !first.as_os_str().is_empty() && first.as_os_str().len() + next.as_os_str().len() >= LONGEST_PATH {
            break;
        }
        first.push(next);
        rest.next();
    }
    (first, rest.as_path())
}

/// The names in an open folder that a search cares for.
pub(crate) fn list(
    folder: impl AsFd,
    relative: &Path,
    is_secret: &dyn Fn(&OsStr) -> bool,
) -> Result<Folder, Errno> {
    let mut found = Folder { changed: changed(&rustix::fs::fstat(&folder)?), ..Folder::default() };
    let mut marks = 0;
    for entry in Dir::read_from(&folder)?.flatten() {
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        let kind = match entry.file_type() {
            FileType::Unknown => rustix::fs::statat(&folder, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
                .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
            kind => kind,
        };
        let name = OsStr::from_bytes(name);
        marks |= mark(name);
        found.add(relative.file_name(), name.into(), kind.into(), is_secret);
    }
    if is_repository(marks) {
        found.repositories[1].push(OsString::new());
    }
    Ok(found)
}

impl From<FileType> for Is {
    fn from(kind: FileType) -> Self {
        match kind {
            FileType::Directory => Is::Folder,
            FileType::RegularFile => Is::File,
            FileType::Symlink => Is::Link,
            _ => Is::Other,
        }
    }
}

/// A folder of the user's that is closed even to its owner, opened until the value is dropped. By its descriptor: a link that takes its
/// place is not followed.
pub(crate) struct OpenedUp {
    folder: OwnedFd,
    mode: Mode,
}

impl OpenedUp {
    pub(crate) fn new(folder: OwnedFd) -> Result<Self, Errno> {
        let mode = Mode::from_raw_mode(rustix::fs::fstat(&folder)?.st_mode);
        set_mode(&folder, mode | Mode::RWXU)?;
        Ok(OpenedUp { folder, mode })
    }
}

impl Drop for OpenedUp {
    fn drop(&mut self) {
        let _ = set_mode(&self.folder, self.mode);
    }
}

/// Sets the mode of what a descriptor stands for, also of one that is only a path.
pub(crate) fn set_mode(thing: impl AsFd, mode: Mode) -> Result<(), Errno> {
    rustix::fs::chmod(by_number(thing), mode)
}

/// The way to an open thing for calls that take a path.
pub(crate) fn by_number(thing: impl AsFd) -> String {
    format!("/proc/self/fd/{}", thing.as_fd().as_raw_fd())
}
