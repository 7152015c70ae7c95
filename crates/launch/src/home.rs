//! Mends a HOME that is kept, before a run: nothing in it is overwritten, and no link in it is followed. Plain POSIX, for every platform.

use keyward_policy::view::Mend;
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// Does what the plan says is to be mended.
pub fn mend(mends: &[Mend]) -> Result<(), (PathBuf, Errno)> {
    for mend in mends {
        let (at, done) = match mend {
            Mend::DropLink { at } => (at, drop_dangling(at)),
            Mend::Link { at, to } => (at, link(at, to)),
        };
        done.map_err(|errno| (at.clone(), errno))?;
    }
    Ok(())
}

/// Removes a link that leads nowhere; anything else stays.
fn drop_dangling(at: &Path) -> Result<(), Errno> {
    if rustix::fs::readlink(at, Vec::new()).is_ok() && rustix::fs::stat(at).is_err() {
        return rustix::fs::unlink(at);
    }
    Ok(())
}

/// A link to what the platform's programs look for. The folder above it is made where it is missing, and no link leads there.
fn link(at: &Path, to: &Path) -> Result<(), Errno> {
    if let Some(above) = at.parent() {
        match rustix::fs::mkdir(above, rustix::fs::Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
        if rustix::fs::readlink(above, Vec::new()).is_ok() {
            return Err(Errno::LOOP);
        }
    }
    drop_dangling(at)?;
    match rustix::fs::symlink(to, at) {
        // Somebody was faster; what stands there stays.
        Err(Errno::EXIST) => Ok(()),
        done => done,
    }
}
