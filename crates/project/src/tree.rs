//! The project's tree, held by a descriptor of its root. Whoever works in it may swap anything for anything meanwhile: folders are
//! opened beneath the root and never through a link, and nothing is found again by its whole path.

use rustix::buffer::spare_capacity;
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat, StatxFlags};
use rustix::io::Errno;
use std::ffi::{CStr, OsString};
use std::io::Read;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use zeroize::Zeroize;

/// Device and inode of a folder, and when it was born: an inode alone may be used again. Where the file system does not remember, 0.
pub(crate) type Identity = (u64, u64, i128);

/// The root of a project.
pub(crate) struct Root {
    pub(crate) path: PathBuf,
    pub(crate) identity: Identity,
    folder: OwnedFd,
}

/// What leads to a repository is a line.
const SMALL: u64 = 4096;

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

    /// What the owner, the group and others may do with the root itself.
    pub(crate) fn mode(&self) -> Result<Mode, Errno> {
        rustix::fs::fstat(&self.folder).map(|stat| Mode::from_raw_mode(stat.st_mode))
    }

    /// Opens the root itself for its owner as long as the value lives. Afterwards its owner may do again what `at_start` let him do.
    pub(crate) fn open_up(&self, at_start: Mode) -> Result<OpenedRoot<'_>, Errno> {
        let stat = rustix::fs::fstat(&self.folder)?;
        let now = Mode::from_raw_mode(stat.st_mode);
        let is_ours = stat.st_uid == rustix::process::geteuid().as_raw();
        if now.contains(Mode::RWXU) || !is_ours {
            return Ok(OpenedRoot { root: self, then: None, was_closed: false });
        }
        set_mode(&self.folder, now | Mode::RWXU)?;
        let then = (now - Mode::RWXU) | (at_start & Mode::RWXU);
        Ok(OpenedRoot { root: self, then: Some(then), was_closed: !now.contains(then) })
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

    /// The same for a path as the kernel takes it, which may be empty for the root itself.
    pub(crate) fn stat_c(&self, relative: &CStr) -> Result<Stat, Errno> {
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
        self.content(relative, SMALL)
    }

    /// The content of a file, if it is one and not larger than `most`.
    pub(crate) fn content(&self, relative: &Path, most: u64) -> Option<Vec<u8>> {
        content(&self.file(relative).ok()?, most)
    }

    /// A file, to read it. A pipe does not keep us waiting.
    pub(crate) fn file(&self, relative: &Path) -> Result<OwnedFd, Errno> {
        self.open_beneath(relative, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)
    }

    /// The first bytes of a file.
    pub(crate) fn beginning(&self, relative: &Path) -> Option<[u8; 8]> {
        let file = self.file(relative).ok()?;
        let mut beginning = [0; 8];
        std::fs::File::from(file).read_exact(&mut beginning).ok()?;
        Some(beginning)
    }

    /// The text of a link, if it is one.
    pub(crate) fn link(&self, relative: &Path) -> Option<PathBuf> {
        let folder = self.folder(relative.parent()?).ok()?;
        let text = rustix::fs::readlinkat(&folder, relative.file_name()?, Vec::new()).ok()?;
        Some(OsString::from_vec(text.into_bytes()).into())
    }
}

/// The content of an open file, if it is a regular one and not larger than `most`.
pub(crate) fn content(file: &OwnedFd, most: u64) -> Option<Vec<u8>> {
    let stat = rustix::fs::fstat(file).ok()?;
    let size = u64::try_from(stat.st_size).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || size > most {
        return None;
    }
    // All at once, so that no half of it stays behind in memory.
    let size = usize::try_from(size).ok()?;
    let mut content = Vec::with_capacity(size);
    while content.len() < size {
        match rustix::io::read(file, spare_capacity(&mut content)) {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => {
                content.zeroize();
                return None;
            }
        }
    }
    Some(content)
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

/// Directories of the user's that are closed even to their owner, open as long as the value lives. Found again by their paths beneath the
/// root, so that their number has no bound; a link that takes the place of one is not followed.
pub(crate) struct OpenedTree<'a> {
    root: &'a Root,
    closed: Vec<(PathBuf, Mode)>,
}

impl<'a> OpenedTree<'a> {
    pub(crate) fn new(root: &'a Root) -> Self {
        OpenedTree { root, closed: Vec::new() }
    }

    pub(crate) fn open(&mut self, relative: &Path) -> Result<(), Errno> {
        let folder = self.root.folder(relative)?;
        let mode = Mode::from_raw_mode(rustix::fs::fstat(&folder)?.st_mode);
        set_mode(&folder, mode | Mode::RWXU)?;
        self.closed.push((relative.into(), mode));
        Ok(())
    }
}

impl Drop for OpenedTree<'_> {
    fn drop(&mut self) {
        // The innermost first, while the way to it is open.
        for (relative, mode) in self.closed.iter().rev() {
            if let Ok(folder) = self.root.folder(relative) {
                let _ = set_mode(&folder, *mode);
            }
        }
    }
}

/// The root of a tree, open for its owner.
pub(crate) struct OpenedRoot<'a> {
    root: &'a Root,
    /// The mode that it gets in the end, if it had to be opened.
    then: Option<Mode>,
    /// Whether its owner could do more with it at the start.
    pub(crate) was_closed: bool,
}

impl Drop for OpenedRoot<'_> {
    fn drop(&mut self) {
        if let Some(mode) = self.then {
            let _ = set_mode(&self.root.folder, mode);
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
