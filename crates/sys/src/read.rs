//! Opening a file so that what was judged is what is read. Runs in whoever reads for an agent; decides nothing itself.
//!
//! The path is resolved once, to a handle that touches nothing: no device is started, no writer of a pipe wakes up. The rules see what
//! the kernel says about the handle, and the file is then opened through the handle, so that no name is followed a second time.

use crate::Errno;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, Stat};
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// What the kernel says about an opened file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub kind: FileType,
    /// Device and inode.
    pub identity: (u64, u64),
    /// The numbers of a device.
    pub device: (u32, u32),
    /// The type of its file system.
    pub file_system: u64,
    /// How many names it has.
    pub names: u64,
    /// Where it lies. Not absolute if it cannot be reached from our root.
    pub real: PathBuf,
}

/// Why there is no file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotOpened<R> {
    /// By the rules.
    Refused(R),
    /// It lost or gained a name while it was judged.
    Changed,
    /// The path leads through a link of procfs that the kernel follows without a name, or in a circle.
    MagicLink,
    /// openat2 is not there.
    NoSafeOpen,
    Failed(Errno),
}

impl<R> From<Errno> for NotOpened<R> {
    fn from(errno: Errno) -> Self {
        NotOpened::Failed(errno)
    }
}

/// The type of procfs.
const PROC_SUPER_MAGIC: u64 = 0x9fa0;

/// Opens a file for reading if the rules allow it. They are asked once, about the very file that is then given out.
pub fn open_guarded<R>(
    path: &Path,
    rules: impl FnOnce(&Found) -> Result<(), R>,
) -> Result<File, NotOpened<R>> {
    let handle = resolve(path)?;
    let descriptors = own_descriptors()?;
    let before = rustix::fs::fstat(&handle)?;
    let found = look(handle.as_fd(), &before, descriptors.as_fd())?;
    rules(&found).map_err(NotOpened::Refused)?;
    // Through the handle. Not waiting, and taking no terminal, in case the rules let something else than a file pass.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = rustix::fs::openat(&descriptors, name_of(handle.as_fd()), flags, Mode::empty())?;
    let after = rustix::fs::fstat(&file)?;
    let same = |stat: &Stat| (stat.st_dev, stat.st_ino, stat.st_mode & libc::S_IFMT, stat.st_nlink);
    if same(&before) != same(&after) {
        return Err(NotOpened::Changed);
    }
    Ok(File::from(file))
}

fn resolve<R>(path: &Path) -> Result<OwnedFd, NotOpened<R>> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS).map_err(|errno| {
        match errno {
            Errno::NOSYS => NotOpened::NoSafeOpen,
            Errno::LOOP => NotOpened::MagicLink,
            errno => NotOpened::Failed(errno),
        }
    })
}

/// The folder in which the kernel tells about our descriptors; nothing else may stand in its place.
fn own_descriptors() -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    // Of this thread, which may have descriptors of its own.
    let folder =
        rustix::fs::openat2(CWD, "/proc/thread-self/fd", flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS)?;
    if file_system(folder.as_fd())? == PROC_SUPER_MAGIC { Ok(folder) } else { Err(Errno::NODEV) }
}

fn name_of(handle: BorrowedFd<'_>) -> String {
    handle.as_raw_fd().to_string()
}

fn file_system(handle: BorrowedFd<'_>) -> Result<u64, Errno> {
    // The number has 32 bits, and is sign-extended on some machines.
    Ok(rustix::fs::fstatfs(handle)?.f_type as u64 & 0xffff_ffff)
}

fn look(handle: BorrowedFd<'_>, stat: &Stat, descriptors: BorrowedFd<'_>) -> Result<Found, Errno> {
    let real = rustix::fs::readlinkat(descriptors, name_of(handle), Vec::new())?;
    Ok(Found {
        kind: FileType::from_raw_mode(stat.st_mode),
        identity: (stat.st_dev, stat.st_ino),
        device: (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev)),
        file_system: file_system(handle)?,
        names: stat.st_nlink,
        real: OsString::from_vec(real.into_bytes()).into(),
    })
}

/// Whether a file is known under another name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Twin {
    None,
    /// This one.
    Is(PathBuf),
    /// There were more files than anybody wants to wait for.
    TooMany,
}

/// How many files are compared.
const MOST_FILES: usize = 20_000;

/// Looks for the same file (by device and inode, whatever its name) at these places: files, or folders with a number of levels that
/// belong to them. `counts` says whether a name found there is one that matters. The file has to be held open meanwhile, or its number
/// could be given to another.
pub fn find_twin(
    identity: (u64, u64),
    places: impl Iterator<Item = (PathBuf, usize)>,
    counts: impl Fn(&Path) -> bool,
) -> Twin {
    let mut looked_at = 0;
    // The last of a list of folders is looked into next. A place may be a link (people keep their settings elsewhere); what lies in it is
    // followed only to files, so that nothing goes in circles.
    let mut folders: Vec<(PathBuf, usize)> = Vec::new();
    for (place, depth) in places {
        match rustix::fs::stat(&place) {
            Ok(stat) if depth == 0 => {
                if (stat.st_dev, stat.st_ino) == identity && counts(&place) {
                    return Twin::Is(place);
                }
            }
            Ok(_) => folders.push((place, depth)),
            Err(_) => {}
        }
    }
    while let Some((folder, depth)) = folders.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            looked_at += 1;
            if looked_at > MOST_FILES {
                return Twin::TooMany;
            }
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if depth > 1 {
                    folders.push((path, depth - 1));
                }
                continue;
            }
            let same = rustix::fs::stat(&path).is_ok_and(|stat| (stat.st_dev, stat.st_ino) == identity);
            if same && counts(&path) {
                return Twin::Is(path);
            }
        }
    }
    Twin::None
}
