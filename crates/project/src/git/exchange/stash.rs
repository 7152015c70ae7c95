//! Stashed work: a stack whose entries live in a log. Each new one is stored by git, oldest first; one that was dropped is dropped.

use super::{Exchange, Part, moves};
use crate::git::state::{self, Piece};
use crate::git::{base, place};
use keyward_policy::detect::footholds::guarded_above;
use keyward_policy::text::visible;
use keyward_policy::untrusted::git::refs::Line;
use rustix::fd::OwnedFd;
use std::collections::BTreeMap;
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

    /// Whether work came over before we were cut off: a stack has it as often as the command's.
    fn has_come(&self, here: &[Vec<u8>], line: &Line) -> bool {
        let times = |all: &[Vec<u8>]| all.iter().filter(|other| **other == line.new).count();
        times(here) >= times(&self.now)
    }

    /// Leaves out work that is broken; why, if some is.
    pub(super) fn leave(&mut self, broken: &BTreeMap<Vec<u8>, String>) -> Option<String> {
        let why = self.added.iter().find_map(|line| broken.get(&line.new)).cloned();
        self.added.retain(|line| !broken.contains_key(&line.new));
        self.now.retain(|id| !broken.contains_key(id));
        why
    }
}

/// The stack of a side, the oldest first.
pub(super) fn read(folder: &OwnedFd, id_length: usize) -> Vec<Line> {
    let text =
        place::read(folder, Path::new("logs/refs/stash"), MOST).map(|(text, _)| text).unwrap_or_default();
    text.split(|&byte| byte == b'\n').filter_map(|line| Line::read(line, id_length)).collect()
}

/// Where work is in a stack, and the number by which git knows it: the newest is 0.
fn entry_of(stack: &[Vec<u8>], id: &[u8]) -> Option<(usize, usize)> {
    let at = stack.iter().position(|other| other == id)?;
    Some((at, stack.len() - 1 - at))
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
    /// A merge or a rebase stashes work aside and brings it back when it ends: why that must not happen on the host, where it has a file that
    /// programs outside obey. The work is kept.
    pub(super) fn judge_stashed(&mut self, part: &mut Part, piece: &Piece) -> Result<(), String> {
        for id in state::stashed(piece) {
            let work = String::from_utf8_lossy(&id).into_owned();
            let mut names =
                self.names_of(part, &["diff-tree", "--no-renames", &format!("{work}^1"), &work])?;
            // Most have nothing untracked.
            names.extend(
                self.names_of(part, &["ls-tree", "--full-tree", &format!("{work}^3")]).unwrap_or_default(),
            );
            let foothold = names.split(|&byte| byte == 0).find_map(|name| guarded_above(base::path(name)));
            if let Some(foothold) = foothold {
                let foothold = visible(foothold.as_os_str());
                let kept = self.keep(part, &[(b"refs/autostash".to_vec(), id)])?;
                return Err(format!(
                    "what it has stashed brings back {foothold}, which programs outside obey; the work is {}",
                    kept.concat()
                ));
            }
        }
        Ok(())
    }

    /// The names of files that a git command lists.
    fn names_of(&self, part: &Part, words: &[&str]) -> Result<Vec<u8>, String> {
        let mut git = self.git.trusted(&part.host_path);
        git.arg(words[0]).args(["-r", "-z", "--name-only"]).args(&words[1..]);
        moves::start(git, b"").and_then(moves::Working::answer)
    }

    pub(super) fn move_stash(&mut self, part: &mut Part, changed: &Changed) {
        if changed.is_empty() {
            return;
        }
        let mut here: Vec<Vec<u8>> =
            read(&part.host, part.id_length).into_iter().map(|line| line.new).collect();
        for id in &changed.removed {
            let Some((at, number)) = entry_of(&here, id) else { continue };
            if let Err(why) = self.keep(part, &[(b"refs/stash".to_vec(), id.clone())]) {
                self.not_done(part, Path::new("refs/stash"), &why);
                return;
            }
            let mut git = self.git.trusted(&part.host_path);
            git.args(["reflog", "delete", "--updateref", "--rewrite"]);
            git.arg(format!("refs/stash@{{{number}}}"));
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
        for line in &changed.added {
            if changed.has_come(&here, line) {
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

#[cfg(test)]
mod tests {
    use super::super::tests::{ONE, Sides, THREE, TWO, line};
    use super::*;

    const STACK: &str = "cage/logs/refs/stash";

    fn ids(lines: &[Line]) -> Vec<&[u8]> {
        lines.iter().map(|line| line.new.as_slice()).collect()
    }

    fn compared(before: &[&str], now: &[&str]) -> Changed {
        let mut sides = Sides::new();
        sides.part.base.stash = before.iter().map(|id| id.as_bytes().to_vec()).collect();
        let text: String = now.iter().map(|id| line(ONE, id, "WIP")).collect();
        sides.write(STACK, &text);
        compare(&sides.part)
    }

    #[test]
    fn what_was_pushed_is_added_and_what_was_dropped_is_removed() {
        let changed = compared(&[ONE, TWO], &[ONE, THREE]);
        assert_eq!(ids(&changed.added), [THREE.as_bytes()]);
        assert_eq!(changed.removed, [TWO.as_bytes()]);
        assert!(compared(&[ONE, TWO], &[ONE, TWO]).is_empty());
    }

    #[test]
    fn the_same_work_stashed_twice_counts_twice() {
        let changed = compared(&[ONE], &[ONE, ONE]);
        assert_eq!((ids(&changed.added), changed.removed.len()), (vec![ONE.as_bytes()], 0));
        let changed = compared(&[ONE, ONE], &[ONE]);
        assert_eq!((changed.added.len(), changed.removed), (0, vec![ONE.as_bytes().to_vec()]));
    }

    #[test]
    fn lines_that_are_none_of_git_are_no_work() {
        let sides = Sides::new();
        sides.write(STACK, &format!("nonsense\n{}", line(ONE, TWO, "WIP")));
        assert_eq!(ids(&read(&sides.part.cage, 20)), [TWO.as_bytes()]);
    }

    #[test]
    fn work_that_is_broken_is_left_out_and_says_why() {
        let mut changed = compared(&[], &[ONE, TWO]);
        let broken = BTreeMap::from([(TWO.as_bytes().to_vec(), "an object is missing".to_owned())]);
        assert_eq!(changed.leave(&broken).as_deref(), Some("an object is missing"));
        assert_eq!((ids(&changed.added), changed.now.len()), (vec![ONE.as_bytes()], 1));
    }

    #[test]
    fn git_counts_from_the_newest_and_the_oldest_of_equal_work_goes_first() {
        let stack: Vec<Vec<u8>> = [ONE, TWO, ONE].iter().map(|id| id.as_bytes().to_vec()).collect();
        assert_eq!(entry_of(&stack, TWO.as_bytes()), Some((1, 1)));
        assert_eq!(entry_of(&stack, ONE.as_bytes()), Some((0, 2)));
        assert_eq!(entry_of(&stack, THREE.as_bytes()), None);
    }

    #[test]
    fn work_has_come_if_the_host_has_it_as_often_as_the_command() {
        let changed = compared(&[], &[ONE, ONE]);
        let once = vec![ONE.as_bytes().to_vec()];
        assert!(!changed.has_come(&[], &changed.added[0]));
        assert!(!changed.has_come(&once, &changed.added[0]));
        assert!(changed.has_come(&[once.clone(), once.clone()].concat(), &changed.added[0]));
    }

    #[test]
    fn a_working_tree_has_no_stack_of_its_own() {
        let mut sides = Sides::new();
        sides.write(STACK, &line(ONE, TWO, "WIP"));
        sides.part.is_worktree = true;
        assert!(compare(&sides.part).is_empty());
    }
}
