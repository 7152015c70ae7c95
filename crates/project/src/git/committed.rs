//! Which secret files git has as they are: its objects show them to every command that may read the repository, so that hiding the file
//! would be a wall in front of an open door, and would make git take the empty file for a change. A working copy that differs stays hidden.

use super::objects;
use keyward_policy::detect::{Directory, shows_beside};
use keyward_policy::facts::{Own, Repository, SecretFile};
use keyward_policy::untrusted::git::index;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use zeroize::Zeroize;

/// A larger index is not looked at: the file stays hidden.
const MOST_INDEX: u64 = 64 << 20;
/// The same for a file.
const MOST_FILE: u64 = 1 << 20;
/// The length of an object's name. Repositories with longer ones are not looked at.
const ID: usize = 20;

/// Shows files as git has them: one that is staged or committed as it stands is no longer hidden, and one that differs shows what is staged.
/// Names both. `is_forced` tells what the user hides whatever git has.
pub fn show(
    secrets: &mut Vec<SecretFile>,
    repositories: &[Repository],
    is_forced: &dyn Fn(&Path) -> bool,
) -> Vec<PathBuf> {
    let mut committed = Vec::new();
    for repository in repositories {
        let (Own::Here(own), Some(tree)) = (&repository.own, repository.mark.parent()) else { continue };
        if !repository.mark.ends_with(".git") {
            continue;
        }
        let below = |secret: &SecretFile| {
            secret.path.starts_with(tree) && !secret.directory && !is_forced(&secret.path)
        };
        if !secrets.iter().any(below) {
            continue;
        }
        let Some(index) = content(&own.path.join("index"), MOST_INDEX) else { continue };
        let staged = index::objects(&index, ID);
        secrets.retain_mut(|secret| {
            let relative = secret.path.strip_prefix(tree).ok().filter(|_| below(secret));
            let Some(id) = relative.and_then(|path| staged.get(path.as_os_str().as_bytes())) else {
                return true;
            };
            // An index may name an object that is not there: a command could have guessed it.
            let Some(object) = objects::blob(&own.path.join("objects"), id) else { return true };
            committed.push(secret.path.clone());
            let is_seen = is_object(&secret.path, id) || is_seen_beside(secret, &object);
            secret.reads_as = object;
            !is_seen
        });
    }
    committed
}

fn is_object(path: &Path, id: &[u8]) -> bool {
    let Some(mut content) = content(path, MOST_FILE) else { return false };
    let is_same = objects::id_of(&content) == *id;
    content.zeroize();
    is_same
}

/// Whether a working copy that differs shows no credential that git does not show. Settings of projects are worked on, also those with a
/// credential that was committed.
fn is_seen_beside(secret: &SecretFile, object: &[u8]) -> bool {
    let (Some(above), Some(name)) = (secret.path.parent(), secret.path.file_name()) else { return false };
    let row = Directory::new(above, &[]).secret(name);
    let Some(row) = row.filter(|row| row.is_of_projects() && secret.named == secret.path) else {
        return false;
    };
    let Some(mut content) = content(&secret.path, MOST_FILE) else { return false };
    let is_seen = shows_beside(row, &content, object, &[]);
    content.zeroize();
    is_seen
}

/// The content of a regular file that is not a link.
fn content(path: &Path, most: u64) -> Option<Vec<u8>> {
    crate::tree::content(&objects::open(path)?, most)
}
