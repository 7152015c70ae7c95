//! Logins in a repository that a command sees as it is, such as one in a directory that it may only read: settings and logs that are shown
//! without them. A repository that a command works in needs none of this, because its copy has no logins.

use super::layer::included_at;
use super::objects;
use keyward_policy::facts::SecretFile;
use keyward_policy::untrusted::git::credentials::{
    holds_credentials, log_without_credentials, without_credentials,
};
use keyward_policy::untrusted::git::names;
use std::path::{Path, PathBuf};
use zeroize::Zeroize;

/// A larger file is hidden without a look at it.
const MOST_SETTINGS: u64 = 1 << 20;
const MOST_LOG: u64 = 16 << 20;
/// Logs of more branches than this are hidden as a whole.
const MOST_LOGS: usize = 512;
/// Submodules in submodules, and names with slashes.
const DEPTH: usize = 24;

/// What is hidden of a repository's own folder, and what is shown instead.
pub fn logins(folder: &Path) -> Vec<SecretFile> {
    let mut found = Vec::new();
    look(folder, DEPTH, &mut found);
    found
}

fn look(folder: &Path, depth: usize, found: &mut Vec<SecretFile>) {
    let mut below = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let Ok(kind) = entry.file_type() else { continue };
        match name.as_encoded_bytes() {
            b"modules" | b"worktrees" if kind.is_dir() => below.push(path),
            b"logs" if kind.is_dir() => logs(&path, DEPTH, &mut MOST_LOGS.clone(), found),
            _ if kind.is_dir() => {}
            _ if names::is_settings(&name) => settings(path, found),
            _ if names::is_login(&name) => hide(path, Vec::new(), found),
            _ if kind.is_file() && included_at(&path).is_some() => settings(path, found),
            _ => {}
        }
    }
    for above in below {
        for entry in std::fs::read_dir(above).into_iter().flatten().flatten() {
            if depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                look(&entry.path(), depth - 1, found);
            }
        }
    }
}

fn settings(path: PathBuf, found: &mut Vec<SecretFile>) {
    // Whatever a link leads to: what the command does not see needs no mask.
    let Ok(real) = std::fs::canonicalize(&path) else { return };
    match content(&real, MOST_SETTINGS) {
        Some(mut text) => {
            if holds_credentials(&text) {
                hide(real, without_credentials(&text), found);
            }
            text.zeroize();
        }
        None => hide(real, Vec::new(), found),
    }
}

/// Git writes down addresses as they were typed.
fn logs(folder: &Path, depth: usize, left: &mut usize, found: &mut Vec<SecretFile>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && depth > 0 {
            logs(&entry.path(), depth - 1, left, found);
        } else if kind.is_file() {
            let text = left.checked_sub(1).and_then(|rest| {
                *left = rest;
                content(&entry.path(), MOST_LOG)
            });
            let Some(text) = text else {
                hide(entry.path(), Vec::new(), found);
                continue;
            };
            let shown = log_without_credentials(text.clone());
            if shown != text {
                hide(entry.path(), shown, found);
            }
        }
    }
}

fn content(path: &Path, most: u64) -> Option<Vec<u8>> {
    crate::tree::content(&objects::open(path)?, most)
}

fn hide(path: PathBuf, reads_as: Vec<u8>, found: &mut Vec<SecretFile>) {
    found.push(SecretFile { named: path.clone(), path, directory: false, reads_as });
}
