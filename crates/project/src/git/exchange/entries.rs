//! The index travels as the entries in which both sides differ, so that what git remembers beside them (the state of files, trees, flags)
//! stays the host's own.

use super::moves::{Working, start};
use super::{Exchange, Moment, Part, Types};
use crate::git::base::open;
use crate::git::place::{self, Stamp, Thing};
use crate::git::transport::Type;
use keyward_policy::detect::footholds::guarded_above;
use keyward_policy::text::visible;
use keyward_policy::untrusted::git::Check;
use keyward_policy::untrusted::git::config::Config;
use keyward_policy::untrusted::git::hidden;
use keyward_policy::untrusted::git::index::{self, Entries, Entry, GITLINK, is_mode};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// A path at which the command has staged something else: what it stages there; nothing if it has the path no more.
type Difference = (Vec<u8>, Vec<Entry>);

/// What a command has staged.
pub(super) struct Changed {
    differences: Vec<Difference>,
    /// The whole index, and its state when it was read.
    content: Vec<u8>,
    stamp: Stamp,
    /// Whether something of it has to wait until the command has ended.
    waits: bool,
}

/// What the host's git is at, and paths that come after it.
pub(super) struct Staging {
    work: Option<Result<Working, String>>,
    meant: Vec<Vec<u8>>,
}

impl Changed {
    /// What is to be staged, by path.
    pub(super) fn entries(&self) -> Entries {
        self.differences.iter().cloned().collect()
    }

    /// The objects that have to be there, in letters.
    pub(super) fn ids(&self) -> impl Iterator<Item = Vec<u8>> {
        let all = self.differences.iter().flat_map(|(_, entries)| entries);
        all.filter(|entry| entry.mode != GITLINK && !entry.is_intent).map(|entry| letters(&entry.id))
    }
}

fn letters(id: &[u8]) -> Vec<u8> {
    let mut text = String::with_capacity(id.len() * 2);
    for byte in id {
        let _ = write!(text, "{byte:02x}");
    }
    text.into_bytes()
}

const INDEX: &str = "index";

impl Exchange<'_> {
    /// What the command has staged since both sides were the same.
    pub(super) fn compare_entries(&mut self, part: &mut Part) -> Option<Changed> {
        let path = Path::new(INDEX);
        let now = place::stamp(&part.cage, path)?;
        if Some(now) == part.base.index_stamp {
            return None;
        }
        let (content, stamp) = match place::read(&part.cage, path, Check::Index.most()) {
            Ok(read) => read,
            Err(Errno::NOENT) => return None,
            Err(errno) => {
                self.keep_back(part, path, &errno.to_string());
                return None;
            }
        };
        let base = part.base_index();
        let paths = index::check(&content, part.id_length)
            .and_then(|()| index::differences(&base, &content, part.id_length));
        let mut paths = match paths {
            Ok(paths) => paths,
            Err(why) => {
                self.keep_back(part, path, why);
                return None;
            }
        };
        // What the host has been given may be something else again.
        paths.extend(part.base.ahead.keys().cloned());
        let more = index::hidden(&content, part.id_length);
        let before = if more.is_empty() { Vec::new() } else { index::hidden(&base, part.id_length) };
        let new: Vec<Vec<u8>> = more.into_iter().filter(|name| !before.contains(name)).collect();
        if self.left_out(part, &new).len() < new.len() {
            self.keep_back(part, path, "it would hide changes from git status");
        }
        if paths.is_empty() {
            part.base.index_stamp = Some(stamp);
            return None;
        }
        let base = index::entries_at(&base, part.id_length, &paths);
        let mut cage = index::entries_at(&content, part.id_length, &paths);
        let all = paths.into_iter().map(|path| {
            let entries = cage.remove(&path).unwrap_or_default();
            (path, entries)
        });
        let all: Vec<Difference> = all.collect();
        let mut waits = false;
        let hidden = self.hidden(part);
        let mut differences = Vec::with_capacity(all.len());
        for (name, entries) in all {
            // Git goes into what an index names as a repository: that is looked at before the host has it.
            let is_link = |entries: &[index::Entry]| entries.iter().any(|entry| entry.mode == GITLINK);
            let was_link = base.get(&name).is_some_and(|entries| is_link(entries));
            let shown = visible(crate::git::base::path(&name).as_os_str());
            if entries.iter().any(|entry| !is_mode(entry.mode)) {
                waits |= !self.has_ended();
                self.keep_back(part, path, &format!("{shown}: of no kind that git stages"));
            } else if let (Some(foothold), false) =
                (guarded_above(crate::git::base::path(&name)), entries.is_empty())
            {
                let foothold = visible(foothold.as_os_str());
                waits |= !self.has_ended();
                self.keep_back(part, path, &format!("{shown}: programs outside obey {foothold}"));
            } else if let (Some(_), false) =
                (hidden::meant(&hidden, &name, is_link(&entries)), entries.is_empty())
            {
                waits |= !self.has_ended();
                let why = format!("{shown}: the command could not see yours, and your git does not track it");
                self.keep_back(part, path, &why);
            } else if is_link(&entries) && !was_link && self.moment != Moment::Ended {
                waits = true;
            } else {
                differences.push((name, entries));
            }
        }
        if differences.is_empty() {
            if !waits {
                let kept = part.base.keep_index(&part.place, &content);
                part.base.index_stamp = kept.is_ok().then_some(stamp);
            }
            return None;
        }
        Some(Changed { differences, content, stamp, waits })
    }

    /// Has the host's git stage what the command has staged.
    pub(super) fn begin_staging(&mut self, part: &mut Part, changed: &Changed, types: &Types) -> Staging {
        let path = Path::new(INDEX);
        let host =
            place::read(&part.host, path, Check::Index.most()).map(|(host, _)| host).unwrap_or_default();
        // An index of the host's that only git can read whole, such as a split one, is not compared.
        let is_known = host.is_empty() || index::check(&host, part.id_length).is_ok();
        let paths: BTreeSet<Vec<u8>> = changed.differences.iter().map(|(path, _)| path.clone()).collect();
        let host = index::entries_at(&host, part.id_length, &paths);
        let base = part.base_entries(&paths);
        let zeros = vec![b'0'; part.id_length * 2];
        let (mut lines, mut meant) = (Vec::new(), Vec::new());
        for (name, entries) in &changed.differences {
            let (here, before) = (host.get(name), base.get(name));
            let shown = visible(crate::git::base::path(name).as_os_str());
            if is_known && here.map(Vec::as_slice).unwrap_or_default() == entries {
                continue;
            }
            // What was only meant to be added was not staged if its file was gone.
            let was_meant = here.is_none() && before.is_some_and(|all| all.iter().all(|one| one.is_intent));
            if is_known && here != before && !was_meant {
                self.conflict(part, path, &format!("both sides staged {shown}"));
                continue;
            }
            let fits = |entry: &index::Entry| {
                entry.mode == GITLINK
                    || entry.is_intent
                    || types.get(&letters(&entry.id)).copied().flatten() == Some(Type::Blob)
            };
            if !entries.iter().all(fits) {
                self.keep_back(part, path, &format!("{shown}: its object is not there"));
                continue;
            }
            // What is there goes first: git would not take the stages of a conflict beside it.
            if here.is_some() || !is_known {
                [b"0 ".as_slice(), &zeros, b"\t", name, b"\0"]
                    .iter()
                    .for_each(|part| lines.extend_from_slice(part));
            }
            for entry in entries {
                if entry.is_intent {
                    meant.push(name.clone());
                    continue;
                }
                let head = format!("{:o} ", entry.mode);
                let stage = format!(" {}\t", entry.stage);
                [head.as_bytes(), &letters(&entry.id), stage.as_bytes(), name, b"\0"]
                    .iter()
                    .for_each(|part| lines.extend_from_slice(part));
            }
        }
        let mut git = self.git.trusted(&part.host_path);
        git.args(["update-index", "-z", "--index-info"]);
        let work = (!lines.is_empty()).then(|| start(git, &lines));
        Staging { work, meant }
    }

    /// Waits until the host's git has done it.
    pub(super) fn end_staging(&mut self, part: &mut Part, changed: &Changed, staging: Staging) {
        let path = Path::new(INDEX);
        let Staging { work, meant } = staging;
        let has_work = work.is_some() || !meant.is_empty();
        let done = match work {
            Some(work) => work.and_then(Working::end),
            None => Ok(()),
        };
        let done = done.and_then(|()| self.stage_meant(part, &meant));
        let gone = match done.and_then(|gone| self.leave_out(part, changed).map(|()| gone)) {
            Ok(gone) => gone,
            Err(why) => {
                self.not_done(part, path, &why);
                part.note_staged(changed);
                return;
            }
        };
        if has_work {
            self.took(part, path);
        }
        part.base.host_index_stamp = place::stamp(&part.host, path);
        if changed.waits {
            part.note_staged(changed);
        }
        // At the end there is no next time.
        if self.moment != Moment::Ended
            && !changed.waits
            && part.base.keep_index(&part.place, &changed.content).is_ok()
        {
            part.base.index_stamp = gone.is_empty().then_some(changed.stamp);
            // The host does not have these, and the file may come back.
            part.base.ahead.extend(gone.into_iter().map(|name| (name, Vec::new())));
        }
    }

    /// Stages paths that are only meant to be added, as far as something stands there. Gives the others.
    fn stage_meant(&self, part: &Part, meant: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, String> {
        let Some(tree) = self.tree_of(part) else { return Ok(Vec::new()) };
        let is_there = |path: &&Vec<u8>| tree.join(crate::git::base::path(path)).symlink_metadata().is_ok();
        let (mut left, mut gone): (Vec<&Vec<u8>>, Vec<&Vec<u8>>) = meant.iter().partition(is_there);
        while !left.is_empty() {
            let mut git = self.git.trusted(&part.host_path);
            git.current_dir(&tree).env("GIT_LITERAL_PATHSPECS", "1").env("GIT_WORK_TREE", &tree);
            git.args(["add", "--intent-to-add", "--force", "--pathspec-from-file=-", "--pathspec-file-nul"]);
            let input: Vec<&[u8]> = left.iter().map(|path| path.as_slice()).collect();
            let Err(why) = super::moves::run(git, &input.join(&b'\0')) else { break };
            // The command may remove a file while git is on its way to it: git then stages none of them.
            let (still, missing): (Vec<&Vec<u8>>, Vec<&Vec<u8>>) = left.into_iter().partition(is_there);
            if missing.is_empty() {
                return Err(why);
            }
            gone.extend(missing);
            left = still;
        }
        Ok(gone.into_iter().cloned().collect())
    }

    /// A sparse checkout leaves files out: those of these paths, as far as the user's own repository has one and nothing stands there.
    fn left_out(&self, part: &Part, paths: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let tree = self.tree_of(part).filter(|_| !paths.is_empty() && self.is_sparse(part));
        let Some(tree) = tree else { return Vec::new() };
        let is_gone = |path: &&Vec<u8>| tree.join(crate::git::base::path(path)).symlink_metadata().is_err();
        paths.iter().filter(is_gone).cloned().collect()
    }

    fn is_sparse(&self, part: &Part) -> bool {
        let common = open(&self.layer.about.folder.path.join(&part.common));
        let says_so = |folder: &OwnedFd, name: &str| {
            let text = place::read(folder, Path::new(name), Check::Text.most()).map(|(text, _)| text);
            let config = text.ok().and_then(|text| Config::read(&text).ok());
            config.is_some_and(|config| {
                config.last("core", "sparsecheckout").is_some_and(|value| value.eq_ignore_ascii_case(b"true"))
            })
        };
        says_so(&part.host, "config.worktree") || common.is_ok_and(|common| says_so(&common, "config"))
    }

    /// What git staged anew of a sparse checkout is still left out.
    fn leave_out(&self, part: &Part, changed: &Changed) -> Result<(), String> {
        let hidden: BTreeSet<Vec<u8>> = index::hidden(&changed.content, part.id_length).into_iter().collect();
        let names = changed.differences.iter().map(|(name, _)| name);
        let paths: Vec<Vec<u8>> = names.filter(|name| hidden.contains(*name)).cloned().collect();
        let paths = self.left_out(part, &paths);
        let Some(tree) = self.tree_of(part).filter(|_| !paths.is_empty()) else { return Ok(()) };
        let mut git = self.git.trusted(&part.host_path);
        git.current_dir(&tree).env("GIT_WORK_TREE", &tree);
        git.args(["update-index", "-z", "--skip-worktree", "--stdin"]);
        super::moves::run(git, &paths.join(&b'\0'))
    }

    /// Where the files of a part are.
    fn tree_of(&self, part: &Part) -> Option<PathBuf> {
        if part.is_worktree {
            let (text, _) = place::read(&part.host, Path::new("gitdir"), Check::Text.most()).ok()?;
            let mark = part.host_path.join(crate::git::base::path(text.trim_ascii_end()));
            return mark.parent().map(Path::to_path_buf);
        }
        let mark = &self.layer.about.folder.path;
        (part.at.as_os_str().is_empty() && mark.ends_with(".git"))
            .then(|| mark.parent().map(Path::to_path_buf))?
    }

    /// Gives the command the host's index, where its own says what it was given.
    pub(super) fn give_entries(&mut self, part: &mut Part) {
        let path = Path::new(INDEX);
        let now = place::stamp(&part.host, path);
        if now == part.base.host_index_stamp {
            return;
        }
        let Ok((content, stamp)) = place::read(&part.host, path, Check::Index.most()) else { return };
        if index::check(&content, part.id_length).is_err() {
            return;
        }
        if index::differences(&part.base_index(), &content, part.id_length)
            .is_ok_and(|paths| paths.is_empty())
        {
            part.base.host_index_stamp = Some(stamp);
            return;
        }
        let given = part.base.index_stamp;
        let still = |thing: Option<Thing>| match thing {
            Some(Thing::File(stamp)) => Some(stamp) == given,
            _ => given.is_none(),
        };
        match place::replace(&part.cage, path, &content, still) {
            Ok(own) => {
                if part.base.keep_index(&part.place, &content).is_ok() {
                    part.base.index_stamp = Some(own);
                    part.base.host_index_stamp = Some(stamp);
                }
            }
            Err(_) => self.news.is_busy = true,
        }
    }
}

impl Part {
    /// What both sides had staged at these paths.
    fn base_entries(&self, paths: &BTreeSet<Vec<u8>>) -> Entries {
        let mut all = index::entries_at(&self.base_index(), self.id_length, paths);
        for (name, entries) in &self.base.ahead {
            match entries.is_empty() {
                true => drop(all.remove(name)),
                false => drop(all.insert(name.clone(), entries.clone())),
            }
        }
        all
    }

    /// Notes what the host was given, where the base cannot be the command's index as a whole: the next exchange must not take it for the
    /// user's.
    fn note_staged(&mut self, changed: &Changed) {
        let host = place::read(&self.host, Path::new(INDEX), Check::Index.most());
        let host = host.map(|(host, _)| host).unwrap_or_default();
        // Only git can read it whole: it is not compared either.
        if !host.is_empty() && index::check(&host, self.id_length).is_err() {
            return;
        }
        let paths: BTreeSet<Vec<u8>> = changed.differences.iter().map(|(path, _)| path.clone()).collect();
        let here = index::entries_at(&host, self.id_length, &paths);
        self.base.note_staged(&here, changed.differences.iter().map(|(name, entries)| (name, entries)));
    }

    /// The index that both sides had.
    fn base_index(&self) -> Vec<u8> {
        self.base.index.as_ref().and_then(|index| std::fs::read(index).ok()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::repository;
    use super::super::{Moment, exchange};

    /// The host's git fails after it has staged the first half of what the command staged. The command goes on.
    #[test]
    fn what_was_staged_before_git_failed_is_not_taken_for_the_users() {
        let all = repository();
        let layer = &all.run.layers[0];
        let (own, cage) = (all.own(), layer.git());
        // A directory that cannot be read: `git add` does not get to what lies in it.
        all.git(
            &cage,
            "echo x > new; mkdir closed; echo n > closed/meant; git add new; git add -N closed/meant",
        );
        std::fs::rename(all.tree.join("closed"), all.tree.join("aside")).unwrap();
        std::os::unix::fs::symlink("aside", all.tree.join("closed")).unwrap();
        let news = exchange(&all.program, layer, Moment::Running);
        assert!(!news.told.troubles.is_empty(), "git did not fail");
        assert_eq!(all.git(&own, "git diff --cached --name-only"), "new\n", "the first half");

        all.git(&cage, "rm closed; mv aside closed; git rm -q --cached new closed/meant");
        let news = exchange(&all.program, layer, Moment::Ended);
        assert_eq!((news.told.conflicts, news.told.troubles), (Vec::new(), Vec::new()));
        assert_eq!(all.git(&own, "git diff --cached --name-only"), "");
    }

    /// A file that was only meant to be added can go while the host's git is on its way to it.
    #[test]
    fn a_file_that_goes_while_it_is_staged_is_no_trouble() {
        let all = repository();
        let layer = &all.run.layers[0];
        all.git(
            &layer.git(),
            "echo x > new; echo n > first; echo n > second; git add new; git add -N first second",
        );
        // A git that removes one of them first.
        let program = all.program_that("case \"$*\" in *--intent-to-add*) /bin/rm -f first;; esac");
        let news = exchange(&program, layer, Moment::Running);
        assert_eq!(news.told.troubles, Vec::new());
        assert_eq!(all.git(&all.own(), "git ls-files new first second"), "new\nsecond\n");
        all.git(&layer.git(), "git rm -q --cached new; git rm -q --cached -f first");
        let news = exchange(&program, layer, Moment::Ended);
        assert_eq!(news.told.conflicts, Vec::new());
        assert_eq!(all.git(&all.own(), "git ls-files new first second"), "second\n");
    }
}
