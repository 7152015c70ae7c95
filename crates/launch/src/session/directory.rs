//! The directory of a session: its socket, the output of its jobs, and the lock that says that it lives.

use rustix::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// The directory of a session; dropping it removes the directory.
pub struct Directory {
    path: PathBuf,
    /// Symlink that lets shells with a different `XDG_RUNTIME_DIR` find this session.
    pointer: Option<PathBuf>,
    /// Held as long as the directory is this session's.
    lock: Option<OwnedFd>,
}

impl Directory {
    pub fn new(path: PathBuf, pointer: Option<PathBuf>, lock: OwnedFd) -> Self {
        Directory { path, pointer, lock: Some(lock) }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the directory, once: afterwards the name may be another session's.
    pub(super) fn remove(&mut self) {
        let Some(lock) = self.lock.take() else { return };
        let _ = std::fs::remove_dir_all(&self.path);
        if let Some(pointer) = &self.pointer {
            let _ = std::fs::remove_file(pointer);
        }
        drop(lock);
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        self.remove();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_removed_once() {
        let above = tempfile::tempdir().unwrap();
        let path = above.path().join("work");
        std::fs::create_dir(&path).unwrap();
        let lock = std::fs::File::create(path.join("lock")).unwrap().into();
        let mut directory = Directory::new(path.clone(), None, lock);
        directory.remove();
        assert!(!path.exists());
        // Another session takes the name before this value is gone.
        std::fs::create_dir(&path).unwrap();
        drop(directory);
        assert!(path.exists());
    }
}
