//! Where a history is cut. A command may fetch less than all of it, or more than there was: its new cuts are taken over where the host lacks what
//! lies behind them, and an old one goes when the host has it.

use super::{Exchange, Part};
use crate::git::place::{self, Thing};
use crate::git::transport::{self, Store};
use keyward_policy::untrusted::git::check::is_id;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

const MOST: usize = 16 << 20;
pub(super) const SHALLOW: &str = "shallow";

/// Names of commits behind which nothing is known.
pub(in crate::git) type Cuts = BTreeSet<Vec<u8>>;

/// What a command changed about them.
#[derive(Default)]
pub(super) struct Changed {
    pub(super) new: Cuts,
    pub(super) gone: Cuts,
    /// All that the command has.
    pub(super) now: Cuts,
}

impl Changed {
    pub(super) fn is_empty(&self) -> bool {
        self.new.is_empty() && self.gone.is_empty()
    }
}

/// The cuts of a repository.
pub(in crate::git) fn read(folder: &OwnedFd) -> Cuts {
    let text = place::read(folder, Path::new(SHALLOW), MOST).map(|(text, _)| text).unwrap_or_default();
    let lines = text.split(|&byte| byte == b'\n').filter(|line| is_id(line));
    lines.map(<[u8]>::to_ascii_lowercase).collect()
}

pub(super) fn compare(part: &Part) -> Changed {
    if part.is_worktree {
        return Changed::default();
    }
    let now = read(&part.cage);
    let new = now.difference(&part.base.shallow).cloned().collect();
    let gone = part.base.shallow.difference(&now).cloned().collect();
    Changed { new, gone, now }
}

/// As git writes them.
pub(super) fn spelled(cuts: &Cuts) -> Vec<u8> {
    cuts.iter().flat_map(|id| [id.as_slice(), b"\n"].concat()).collect()
}

/// The host's cuts with the command's: a new one only where the host lacks what lies behind it. An old one goes when all of that came.
fn settled(
    mut cuts: Cuts,
    changed: &Changed,
    has_parents: impl Fn(&Vec<u8>) -> bool,
) -> Result<Cuts, String> {
    cuts.extend(changed.new.iter().filter(|id| !has_parents(id)).cloned());
    for id in &changed.gone {
        if !has_parents(id) {
            return Err("the history behind an old cut is not all there".into());
        }
        cuts.remove(id);
    }
    Ok(cuts)
}

/// Commits and their parents, one commit in each line.
fn parents_told(text: &[u8]) -> BTreeMap<Vec<u8>, Vec<Vec<u8>>> {
    let line = |line: &[u8]| {
        let mut words = line.split(|&byte| byte == b' ').filter(|word| is_id(word)).map(<[u8]>::to_vec);
        Some((words.next()?, words.collect()))
    };
    text.split(|&byte| byte == b'\n').filter_map(line).collect()
}

impl Exchange<'_> {
    /// The cuts that the host may have, once the command's objects are there: new ones of commits whose parents it lacks, and none of the old ones
    /// whose parents it has.
    pub(super) fn judge_cuts(&self, part: &Part, store: &Store, changed: &Changed) -> Result<Cuts, String> {
        let here = read(&part.host);
        let asked: Vec<Vec<u8>> = changed.new.union(&changed.gone).cloned().collect();
        let parents = self.parents(part, &asked)?;
        let all: Vec<Vec<u8>> = parents.values().flatten().cloned().collect();
        let types = transport::types(self.git, store, &all).map_err(|refused| refused.why)?;
        let there: BTreeSet<&Vec<u8>> =
            all.iter().zip(&types).filter(|(_, kind)| kind.is_some()).map(|(id, _)| id).collect();
        let has_parents =
            |id: &Vec<u8>| parents.get(id).is_some_and(|all| all.iter().all(|id| there.contains(id)));
        settled(here, changed, has_parents)
    }

    /// The parents of commits, whatever cuts there are.
    fn parents(&self, part: &Part, ids: &[Vec<u8>]) -> Result<BTreeMap<Vec<u8>, Vec<Vec<u8>>>, String> {
        let mut git = self.git.trusted(&part.host_path);
        git.env("GIT_SHALLOW_FILE", "/dev/null");
        git.args(["log", "--no-walk=unsorted", "--format=%H %P", "--stdin"]);
        let input: Vec<u8> = ids.iter().flat_map(|id| [id.as_slice(), b"\n"].concat()).collect();
        let text = super::moves::start(git, &input)?.answer()?;
        Ok(parents_told(&text))
    }

    /// Writes the host's cuts. Before refs move: without them their history would seem broken.
    pub(super) fn move_cuts(&mut self, part: &mut Part, cuts: &Cuts, changed: &Changed) -> bool {
        let path = Path::new(SHALLOW);
        let written = match cuts.is_empty() {
            true => place::remove(&part.host, path),
            false => {
                let still = |thing: Option<Thing>| matches!(thing, None | Some(Thing::File(_)));
                place::replace(&part.host, path, &spelled(cuts), still).map(drop)
            }
        };
        match written {
            Ok(()) => {
                part.base.shallow.clone_from(&changed.now);
                self.took(part, path);
                true
            }
            Err(Errno::EXIST) => {
                self.news.is_busy = true;
                false
            }
            Err(errno) => {
                let why = errno.to_string();
                self.trouble(&part.at.join(path), &why);
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{ONE, Sides, THREE, TWO};
    use super::*;

    fn cuts(ids: &[&str]) -> Cuts {
        ids.iter().map(|id| id.as_bytes().to_vec()).collect()
    }

    #[test]
    fn what_a_command_cut_and_what_it_fetched_behind_a_cut_are_told_apart() {
        let mut sides = Sides::new();
        sides.part.base.shallow = cuts(&[ONE, TWO]);
        sides.write("cage/shallow", &format!("{TWO}\n{THREE}\n"));
        let changed = compare(&sides.part);
        assert_eq!((changed.new, changed.gone), (cuts(&[THREE]), cuts(&[ONE])));
        assert_eq!(changed.now, cuts(&[TWO, THREE]));
    }

    #[test]
    fn lines_that_name_no_commit_are_no_cuts_and_capitals_make_no_other_one() {
        let sides = Sides::new();
        let capitals = "ABCDEFABCDEFABCDEFABCDEFABCDEFABCDEFABCD";
        sides.write("cage/shallow", &format!("--upload-pack=x\n\n{ONE}extra\n{capitals}\n"));
        assert_eq!(read(&sides.part.cage), cuts(&[&capitals.to_lowercase()]));
        assert_eq!(spelled(&cuts(&[TWO, ONE])), format!("{ONE}\n{TWO}\n").into_bytes());
    }

    #[test]
    fn a_new_cut_is_taken_only_where_history_is_missing_and_an_old_one_goes_only_where_none_is() {
        let changed =
            |new: &[&str], gone: &[&str]| Changed { new: cuts(new), gone: cuts(gone), now: Cuts::new() };
        let complete = cuts(&[TWO]);
        let has_parents = |id: &Vec<u8>| complete.contains(id);
        assert_eq!(settled(cuts(&[ONE]), &changed(&[TWO, THREE], &[]), has_parents), Ok(cuts(&[ONE, THREE])));
        assert_eq!(settled(cuts(&[ONE, TWO]), &changed(&[], &[TWO]), has_parents), Ok(cuts(&[ONE])));
        assert!(settled(cuts(&[ONE]), &changed(&[], &[ONE]), has_parents).is_err());
    }

    #[test]
    fn a_commit_has_the_parents_that_git_names_behind_it() {
        let text = format!("{ONE} {TWO} {THREE}\n{TWO}\nwarning: odd\n");
        let parents = parents_told(text.as_bytes());
        assert_eq!(parents[ONE.as_bytes()], [TWO.as_bytes(), THREE.as_bytes()]);
        assert_eq!((parents[TWO.as_bytes()].len(), parents.len()), (0, 2));
    }

    #[test]
    fn a_working_tree_has_no_cuts_of_its_own() {
        let mut sides = Sides::new();
        sides.write("cage/shallow", &format!("{ONE}\n"));
        sides.part.is_worktree = true;
        assert!(compare(&sides.part).is_empty());
    }
}
