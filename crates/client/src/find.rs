//! Where sessions are: a directory for each, with its lock and its socket.

use keyward_sys::Errno;
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::net::SocketAddrUnix;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Where sessions are looked for. It does not depend on the current directory, which may be gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runtime {
    /// The directory that `XDG_RUNTIME_DIR` names, where it does.
    pub by_variable: Option<PathBuf>,
    /// The directory below the state directory, which every shell finds.
    pub by_state: PathBuf,
}

impl Runtime {
    /// Where the command line looks, from the environment: `XDG_RUNTIME_DIR`, and the state directory below this HOME.
    pub fn new(runtime_directory: Option<PathBuf>, state_home: Option<PathBuf>, home: &Path) -> Self {
        let absolute = |path: Option<PathBuf>| path.filter(|path| path.is_absolute());
        let state = absolute(state_home).unwrap_or_else(|| home.join(".local/state"));
        Runtime {
            by_variable: absolute(runtime_directory).map(|path| path.join("keyward")),
            by_state: state.join("keyward/run"),
        }
    }

    /// The directory for a session that is started now.
    pub fn own(&self) -> &Path {
        self.by_variable.as_ref().unwrap_or(&self.by_state)
    }

    /// The directory of a session that is started now.
    pub fn folder(&self, name: &str) -> PathBuf {
        self.own().join("sessions").join(name)
    }

    /// Where every shell finds a session that is not in the state directory itself: a link to its directory.
    pub fn pointer(&self, name: &str) -> PathBuf {
        self.by_state.join("elsewhere").join(name)
    }

    /// The directories that a session of this name can have.
    pub fn folders(&self, name: &str) -> Vec<PathBuf> {
        let mut all = vec![self.folder(name), self.by_state.join("sessions").join(name)];
        all.extend(std::fs::read_link(self.pointer(name)));
        all.dedup();
        all
    }

    /// The names of the sessions that exist.
    pub fn names(&self) -> Vec<String> {
        let places =
            [self.own().join("sessions"), self.by_state.join("sessions"), self.by_state.join("elsewhere")];
        let entries =
            places.iter().flat_map(|place| std::fs::read_dir(place).into_iter().flatten().flatten());
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Removes what killed sessions have left: no process holds their locks any more.
    pub fn clean(&self) {
        for name in self.names() {
            let folders = self.folders(&name);
            folders.iter().for_each(|folder| clean_folder(folder));
            if !folders.iter().any(|folder| folder.join("lock").exists()) {
                let _ = std::fs::remove_file(self.pointer(&name));
            }
        }
    }

    /// Whether a process holds the lock of a session of this name.
    pub fn exists(&self, name: &str) -> bool {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        self.folders(name).iter().any(|folder| {
            let lock = rustix::fs::open(folder.join("lock"), flags, Mode::empty());
            lock.is_ok_and(|lock| {
                rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK)
            })
        })
    }
}

fn clean_folder(folder: &Path) {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(lock) = rustix::fs::open(folder.join("lock"), flags, Mode::empty()) else {
        // Empty, or being made.
        let _ = std::fs::remove_dir(folder);
        return;
    };
    if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
        let _ = std::fs::remove_dir_all(folder);
    }
}

/// Whether this can be the name of a session, which is the name of its directory as well.
pub fn is_name(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=64).contains(&name.len()) && name.as_bytes()[0].is_ascii_alphanumeric() && name.bytes().all(fits)
}

/// The address of the socket of a session, which may lie deeper than an address is long: by the descriptor of its directory.
pub fn address(folder: &OwnedFd) -> Result<SocketAddrUnix, Errno> {
    SocketAddrUnix::new(Path::new(&format!("/proc/self/fd/{}/door", folder.as_raw_fd())))
}

/// Opens the directory of a session.
pub fn open_folder(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_found_by_its_lock_and_what_a_killed_one_left_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let runtime =
            Runtime { by_variable: Some(place.path().join("runtime")), by_state: place.path().join("state") };
        let folder = runtime.folder("work");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::create_dir_all(runtime.pointer("work").parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(&folder, runtime.pointer("work")).unwrap();
        let lock = std::fs::File::create(folder.join("lock")).unwrap();
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        let elsewhere = Runtime { by_variable: None, by_state: place.path().join("state") };
        runtime.clean();
        assert!(runtime.exists("work") && elsewhere.exists("work"));
        assert_eq!((runtime.names(), elsewhere.names()), (vec!["work".into()], vec!["work".to_owned()]));
        drop(lock);
        runtime.clean();
        assert!(!runtime.exists("work") && runtime.names().is_empty());
    }

    #[test]
    fn a_name_is_one_of_a_directory_below_this_one() {
        assert!(["work", "s1", "a.b-c_d", &"x".repeat(64)].into_iter().all(is_name));
        assert!(
            ["", ".", "..", "-a", "a/b", "a b", "\u{e4}", &"x".repeat(65)]
                .into_iter()
                .all(|name| !is_name(name))
        );
    }
}
