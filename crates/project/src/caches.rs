//! Empties Keyward's own caches. What lies there was made by commands in cages: no link is followed, and no depth is too great. Runs in
//! the launcher; plain POSIX.
//!
//! A cage that uses a cache holds a lock on its folder. The folder itself always stays, so that there is one to lock.

use keyward_policy::words::TrustClass;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// One cache: what commands find as `~/.cache`, or a layer over a folder such as `~/.npm`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    pub class: TrustClass,
    pub path: PathBuf,
    pub became: Became,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Became {
    /// Empty, and so many bytes are free again.
    Emptied { bytes: u64 },
    /// A cage is using it.
    InUse,
    /// Some of it could not be removed.
    Failed { bytes: u64, name: OsString, errno: Errno },
}

/// Empties the caches of one class, or of all.
pub fn clean(caches: &Path, class: Option<TrustClass>) -> Vec<Cache> {
    let mut all = Vec::new();
    for &class in TrustClass::ALL.iter().filter(|it| class.is_none_or(|class| class == **it)) {
        let store = caches.join(class.as_str());
        for path in [store.join("cache")].into_iter().chain(folders_in(&store.join("layers"))) {
            match empty(&path) {
                Became::Failed { errno: Errno::NOENT, bytes: 0, .. } => {}
                became => all.push(Cache { class, path, became }),
            }
        }
    }
    all
}

fn folders_in(path: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut all: Vec<PathBuf> = folders.map(|entry| entry.path()).collect();
    all.sort();
    all
}

fn empty(path: &Path) -> Became {
    let failed = |errno| Became::Failed { bytes: 0, name: ".".into(), errno };
    let top = match rustix::fs::open(path, FOLDER, Mode::empty()) {
        Ok(top) => top,
        Err(errno) => return failed(errno),
    };
    match rustix::fs::flock(&top, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(Errno::AGAIN) => return Became::InUse,
        Err(errno) => return failed(errno),
    }
    let mut broom = Broom { top: &top, moved: 0, bytes: 0, failed: None };
    loop {
        let moved = broom.moved;
        broom.sweep(&top, 0);
        // What lay too deep has been brought up, and is swept again.
        if broom.moved == moved || broom.failed.is_some() {
            break;
        }
    }
    match broom.failed {
        Some((name, errno)) => {
            let name = OsStr::from_bytes(name.as_bytes()).to_owned();
            Became::Failed { bytes: broom.bytes, name, errno }
        }
        None => Became::Emptied { bytes: broom.bytes },
    }
}

const FOLDER: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Deeper than this, folders are brought up first: two descriptors are held for each on the way.
const DEEPEST: usize = 24;

struct Broom<'a> {
    top: &'a OwnedFd,
    moved: u64,
    bytes: u64,
    failed: Option<(CString, Errno)>,
}

impl Broom<'_> {
    /// Removes what is in a folder, as far as it can be.
    fn sweep(&mut self, folder: &OwnedFd, depth: usize) {
        let entries = match Dir::read_from(folder) {
            Ok(entries) => entries,
            Err(errno) => return self.fail(c".", errno),
        };
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(errno) => return self.fail(c".", errno),
            };
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            if let Err(errno) = self.remove(folder, name, depth) {
                self.fail(name, errno);
            }
        }
    }

    fn remove(&mut self, folder: &OwnedFd, name: &CStr, depth: usize) -> Result<(), Errno> {
        let stat = rustix::fs::statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let bytes = u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512);
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            rustix::fs::unlinkat(folder, name, AtFlags::empty())?;
            // Another name may still hold it.
            self.bytes = self.bytes.saturating_add(if stat.st_nlink == 1 { bytes } else { 0 });
            return Ok(());
        }
        let inner = open_to_change(folder, name, stat.st_mode)?;
        if depth >= DEEPEST {
            let up = CString::new(format!(".keyward-{}", self.moved)).map_err(|_| Errno::INVAL)?;
            self.moved += 1;
            return rustix::fs::renameat_with(
                folder,
                name,
                self.top,
                &up,
                rustix::fs::RenameFlags::NOREPLACE,
            );
        }
        let known = self.failed.is_some();
        self.sweep(&inner, depth + 1);
        match rustix::fs::unlinkat(folder, name, AtFlags::REMOVEDIR) {
            // The reason is known already.
            Err(Errno::NOTEMPTY) if known || self.failed.is_some() => Ok(()),
            Ok(()) => {
                self.bytes = self.bytes.saturating_add(bytes);
                Ok(())
            }
            Err(errno) => Err(errno),
        }
    }

    fn fail(&mut self, name: &CStr, errno: Errno) {
        self.failed.get_or_insert_with(|| (name.to_owned(), errno));
    }
}

/// A folder whose entries can be removed: module caches are read-only, and the work folder of an overlay is closed altogether.
fn open_to_change(folder: impl AsFd, name: &CStr, mode: u32) -> Result<OwnedFd, Errno> {
    let open = || rustix::fs::openat(&folder, name, FOLDER, Mode::empty());
    if mode & 0o700 == 0o700 {
        return open();
    }
    match open() {
        Ok(inner) => {
            rustix::fs::fchmod(&inner, Mode::RWXU)?;
            Ok(inner)
        }
        Err(Errno::ACCESS) => {
            // By its number: a link that was put in its place meanwhile is not followed.
            let handle = rustix::fs::openat(&folder, name, FOLDER | OFlags::PATH, Mode::empty())?;
            let by_number = PathBuf::from(format!("/proc/self/fd/{}", handle.as_raw_fd()));
            rustix::fs::chmodat(rustix::fs::CWD, &by_number, Mode::RWXU, AtFlags::empty())?;
            open()
        }
        Err(errno) => Err(errno),
    }
}
