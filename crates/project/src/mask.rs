//! Hides a file in a cage that is already running. A short-lived child of the launcher enters the cage's namespaces for it; nothing of the
//! cage is executed, and no link is followed.

use crate::tree::Root;
use keyward_sys::fork::{self, End, Forked};
use keyward_sys::{confine, mount};
use rustix::fd::OwnedFd;
use rustix::fs::FileType;
use rustix::io::Errno;
use std::path::Path;

/// The namespaces of a cage.
pub(crate) struct Spaces {
    pub(crate) user: OwnedFd,
    pub(crate) mounts: OwnedFd,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hidden {
    Now,
    /// Something else stands over it already, or it is gone.
    Already,
}

const DONE: i32 = 0;
const NOTHING_TO_DO: i32 = 1;
const FAILED: i32 = 2;

/// Hides what stands at a path of a tree, if the cage shows the same file that stands there outside. `reads_as` is what is seen instead;
/// without it nothing can be opened.
pub(crate) fn hide(
    spaces: &Spaces,
    root: &Root,
    relative: &Path,
    reads_as: Option<&[u8]>,
) -> Result<Hidden, Errno> {
    let Ok(stat) = root.stat(relative) else { return Ok(Hidden::Already) };
    let directory = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => false,
        FileType::Directory => true,
        // A link leads to what has a mask of its own, or to nothing that is shown.
        _ => return Ok(Hidden::Already),
    };
    let inside = || {
        mount::enter(&spaces.user, &spaces.mounts)?;
        // Root is nobody in there, and nobody can make files; a user stays who they are and may not do this.
        let _ = confine::become_namespace_root();
        let root = Root::open(&root.path)?;
        let target = root.thing(relative)?;
        let found = rustix::fs::fstat(&target)?;
        if (found.st_dev, found.st_ino) != (stat.st_dev, stat.st_ino) {
            return Ok(Hidden::Already);
        }
        mount::mask(&target, directory, reads_as)?;
        Ok(Hidden::Now)
    };
    match fork::fork()? {
        Forked::Child => fork::exit_now(match inside() {
            Ok(Hidden::Now) => DONE,
            Ok(Hidden::Already) | Err(Errno::NOENT) => NOTHING_TO_DO,
            Err(_) => FAILED,
        }),
        Forked::Parent(child) => match child.wait()? {
            End::Exited(DONE) => Ok(Hidden::Now),
            End::Exited(NOTHING_TO_DO) => Ok(Hidden::Already),
            _ => Err(Errno::PERM),
        },
    }
}
