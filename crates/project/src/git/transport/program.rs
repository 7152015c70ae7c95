//! Finds the host's git where no cage can write.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The host's git, found where no cage can write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostGit {
    program: PathBuf,
}

/// Searched after the caller's `PATH`.
const USUAL: &str = "/usr/local/bin:/usr/bin:/bin";

impl HostGit {
    /// The first `git` of these directories, then of the usual ones, that only root can change: the file that the name
    /// leads to, and every directory above it.
    pub fn find(path: &OsStr) -> Option<HostGit> {
        std::env::split_paths(path)
            .chain(std::env::split_paths(USUAL))
            .filter(|directory| directory.is_absolute())
            .filter_map(|directory| std::fs::canonicalize(directory.join("git")).ok())
            .find(|program| is_program_of_root(program))
            .map(|program| HostGit { program })
    }

    /// One that was found before.
    pub fn known(program: PathBuf) -> HostGit {
        HostGit { program }
    }

    pub fn program(&self) -> &Path {
        &self.program
    }
}

fn is_program_of_root(program: &Path) -> bool {
    let is_program = std::fs::symlink_metadata(program)
        .is_ok_and(|data| data.is_file() && data.mode() & 0o111 != 0 && data.mode() & 0o6000 == 0);
    is_program && program.ancestors().all(is_closed)
}

/// Whether only root can change this. A sticky directory counts as open: other users can make names in it.
fn is_closed(path: &Path) -> bool {
    // The store of Nix is open to its build users. It is sticky, and its entries belong to root.
    let open = if path == Path::new("/nix/store") { 0o002 } else { 0o022 };
    std::fs::symlink_metadata(path)
        .is_ok_and(|data| data.uid() == 0 && data.mode() & open == 0 && !data.is_symlink())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_git_that_others_can_replace_is_passed_over() {
        let open = tempfile::tempdir().unwrap();
        let fake = open.path().join("git");
        std::fs::write(&fake, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&fake, std::fs::Permissions::from_mode(0o755)).unwrap();
        let found = HostGit::find(open.path().as_os_str()).unwrap();
        assert_ne!(found.program(), fake);
        assert!(found.program().starts_with("/usr") || found.program().starts_with("/nix"), "{found:?}");
        // The name may lie anywhere; what it leads to is what counts and what is run.
        let linked = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink(found.program(), linked.path().join("git")).unwrap();
        assert_eq!(HostGit::find(linked.path().as_os_str()), Some(found));
    }
}
