//! Stashed work: a stack whose entries live in a log. Each new one is stored by git, oldest first; one that was dropped is dropped.

use super::{Exchange, Part, moves};
use crate::git::place;
use keyward_policy::git::refs::Line;
use rustix::fd::OwnedFd;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const MOST: usize = 16 << 20;

/// What a command did to the stack.
#[derive(Default)]
pub(super) struct Changed {
    removed: Vec<Vec<u8>>,
    pub(super) added: Vec<Line>,
    /// The command's stack as it is now.
    now: Vec<Vec<u8>>,
}

impl Changed {
    pub(super) fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.added.is_empty()
    }
}

/// The stack of a side, the oldest first.
pub(super) fn read(folder: &OwnedFd, id_length: usize) -> Vec<Line> {
    let text =
        place::read(folder, Path::new("logs/refs/stash"), MOST).map(|(text, _)| text).unwrap_or_default();
    text.split(|&byte| byte == b'\n').filter_map(|line| Line::read(line, id_length)).collect()
}

pub(super) fn compare(part: &Part) -> Changed {
    if part.is_worktree {
        return Changed::default();
    }
    let cage = read(&part.cage, part.id_length);
    let now: Vec<Vec<u8>> = cage.iter().map(|line| line.new.clone()).collect();
    // The same work can be stashed twice, and is then the same object.
    let mut removed = part.base.stash.clone();
    let mut added = Vec::new();
    for line in cage {
        match removed.iter().position(|id| *id == line.new) {
            Some(at) => drop(removed.remove(at)),
            None => added.push(line),
        }
    }
    Changed { removed, added, now }
}

impl Exchange<'_> {
    pub(super) fn move_stash(&mut self, part: &mut Part, changed: &Changed) {
        if changed.is_empty() {
            return;
        }
        let mut here: Vec<Vec<u8>> =
            read(&part.host, part.id_length).into_iter().map(|line| line.new).collect();
        for id in &changed.removed {
            let Some(at) = here.iter().position(|other| other == id) else { continue };
            if let Err(why) = self.keep(part, &[(b"refs/stash".to_vec(), id.clone())]) {
                self.not_done(part, Path::new("refs/stash"), &why);
                return;
            }
            let mut git = self.git.trusted(&part.host_path);
            git.args(["reflog", "delete", "--updateref", "--rewrite"]);
            git.arg(format!("refs/stash@{{{}}}", here.len() - 1 - at));
            if let Err(why) = moves::run(git, b"") {
                self.not_done(part, Path::new("refs/stash"), &why);
                return;
            }
            here.remove(at);
            if here.is_empty() {
                let mut git = self.git.trusted(&part.host_path);
                git.args(["update-ref", "-d", "refs/stash"]);
                let _ = moves::run(git, b"");
            }
        }
        let times = |all: &[Vec<u8>], id: &[u8]| all.iter().filter(|other| *other == id).count();
        for line in &changed.added {
            // It came over before we were cut off.
            if times(&here, &line.new) >= times(&changed.now, &line.new) {
                continue;
            }
            let mut git = self.git.trusted(&part.host_path);
            let date = [b"@".as_slice(), &line.when].concat();
            git.env("GIT_COMMITTER_NAME", OsStr::from_bytes(&line.name))
                .env("GIT_COMMITTER_EMAIL", OsStr::from_bytes(&line.address))
                .env("GIT_COMMITTER_DATE", OsStr::from_bytes(&date));
            git.args(["stash", "store", "-m"]).arg(OsStr::from_bytes(&line.message));
            git.arg(OsStr::from_bytes(&line.new));
            if let Err(why) = moves::run(git, b"") {
                self.not_done(part, Path::new("refs/stash"), &why);
                return;
            }
            here.push(line.new.clone());
        }
        part.base.stash = changed.now.clone();
        self.took(part, Path::new("refs/stash"));
    }
}
