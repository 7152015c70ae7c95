//! Which secret files git has as they are: its objects show them to every command that may read the repository, so that hiding the file
//! would be a wall in front of an open door, and would make git take the empty file for a change.

use keyward_policy::facts::{Own, Repository, SecretFile};
use keyward_policy::git::index;
use sha1::{Digest, Sha1};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use zeroize::Zeroize;

/// A larger index is not looked at: the file stays hidden.
const MOST_INDEX: u64 = 64 << 20;
/// The same for a file.
const MOST_FILE: u64 = 1 << 20;
/// The length of an object's name. Repositories with longer ones are not looked at.
const ID: usize = 20;

/// Takes the files out that are staged or committed as they stand in the working tree, and names them.
pub fn take_out(secrets: &mut Vec<SecretFile>, repositories: &[Repository]) -> Vec<PathBuf> {
    let mut committed = Vec::new();
    for repository in repositories {
        let (Own::Here(own), Some(tree)) = (&repository.own, repository.mark.parent()) else { continue };
        if !repository.mark.ends_with(".git") {
            continue;
        }
        let below = |secret: &SecretFile| secret.path.starts_with(tree) && !secret.directory;
        if !secrets.iter().any(below) {
            continue;
        }
        let Some(index) = content(&own.path.join("index"), MOST_INDEX) else { continue };
        secrets.retain(|secret| {
            let is_committed = below(secret) && is_staged(&index, tree, &secret.path);
            if is_committed {
                committed.push(secret.path.clone());
            }
            !is_committed
        });
    }
    committed
}

fn is_staged(index: &[u8], tree: &Path, path: &Path) -> bool {
    let Ok(relative) = path.strip_prefix(tree) else { return false };
    let Some(staged) = index::object(index, ID, relative.as_os_str().as_bytes()) else { return false };
    let Some(mut content) = content(path, MOST_FILE) else { return false };
    let mut hash = Sha1::new();
    hash.update(format!("blob {}\0", content.len()));
    hash.update(&content);
    content.zeroize();
    hash.finalize().as_slice() == staged
}

/// The content of a regular file that is no link.
fn content(path: &Path, most: u64) -> Option<Vec<u8>> {
    use rustix::fs::{FileType, Mode, OFlags};
    use std::io::Read;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&file).ok()?;
    let size = u64::try_from(stat.st_size).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile || size > most {
        return None;
    }
    let mut content = Vec::with_capacity(usize::try_from(size).ok()? + 1);
    std::fs::File::from(file).take(size).read_to_end(&mut content).ok()?;
    Some(content)
}
