//! Brings both sides of a repository together: what a command did in its private one is taken over by the host's git, part by part, and what
//! the host changed meanwhile is given to the command.
//!
//! The order is such that it can be cut off anywhere and done again: objects first, then what names them. What both sides had in common is
//! written down last.

mod entries;
mod fetched;
mod give;
mod hidden;
mod logs;
mod moves;
mod parts;
mod salvage;
mod settings;
mod shallow;
mod stash;
mod take;

use super::base::{Base, open};
use super::layer::Layer;
use super::place;
use super::refs;
use super::state::{self, State};
use super::transport::{HostGit, Type};
use keyward_policy::outcome::{Repository as Told, RepositoryNews};
use keyward_policy::untrusted::git::config::Config;
use keyward_policy::untrusted::git::refs::{
    Change, Kept, Refs, Side, Taken, Value, changes, judge, judge_head,
};
use keyward_policy::untrusted::git::{Check, Fate, fate};
use rustix::fd::OwnedFd;
use std::collections::{BTreeSet, HashMap};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What one exchange came to.
#[derive(Default)]
pub struct News {
    pub told: Told,
    /// A lock was held, or something was still being written: there is more to do.
    pub is_busy: bool,
    /// Something of the command's could not be taken over and is worth keeping.
    pub is_refused: bool,
}

/// How many refs a run may make. A fetch of a large repository brings tens of thousands.
const MOST_MADE: usize = 100_000;

/// How many refs are kept that stay in the cage because of their names.
const MOST_NAMED: usize = 256;

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    Running,
    /// The cage is gone, and what the command left in the project has not been looked at.
    Settling,
    Ended,
}

/// Brings both sides together.
pub fn exchange(git: &HostGit, layer: &Layer, moment: Moment) -> News {
    let folder = &layer.about.folder;
    let shown = folder.path.strip_prefix(&layer.about.project).unwrap_or(&folder.path);
    let mut exchange = Exchange {
        git,
        layer,
        moment,
        news: News { told: Told::new(shown), ..News::default() },
        holds: false,
    };
    let host = open(&folder.path).ok().filter(|host| {
        rustix::fs::fstat(host).is_ok_and(|stat| (stat.st_dev, stat.st_ino) == (folder.device, folder.inode))
    });
    match host {
        Some(_) => exchange.all_parts(),
        None => {
            exchange.trouble(Path::new(""), "it is not where it was");
            exchange.news.is_refused = true;
        }
    }
    exchange.news
}

/// The stack of stashed work in a repository, the oldest first.
pub(super) fn stash(folder: &OwnedFd, id_length: usize) -> Vec<Vec<u8>> {
    stash::read(folder, id_length).into_iter().map(|line| line.new).collect()
}

/// Where the history of a repository is cut.
pub(super) fn cuts(folder: &OwnedFd) -> shallow::Cuts {
    shallow::read(folder)
}

impl HostGit {
    /// A git that works in a repository of the host's. It reads the settings of that repository alone, and runs nothing for them.
    fn trusted(&self, folder: &Path) -> Command {
        let mut git = Command::new(self.program());
        git.env_clear()
            .envs([("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_CONFIG_GLOBAL", "/dev/null"), ("LC_ALL", "C")])
            .envs([("GIT_NO_REPLACE_OBJECTS", "1"), ("GIT_NO_LAZY_FETCH", "1"), ("GIT_TERMINAL_PROMPT", "0")])
            .envs([("GIT_COMMITTER_NAME", "keyward"), ("GIT_COMMITTER_EMAIL", "keyward@localhost")])
            .envs([("GIT_AUTHOR_NAME", "keyward"), ("GIT_AUTHOR_EMAIL", "keyward@localhost")])
            .env("GIT_DIR", folder)
            .current_dir(folder)
            .args([
                "-c",
                "core.hooksPath=/dev/null",
                "-c",
                "core.fsmonitor=false",
                "-c",
                "core.commitGraph=false",
            ])
            .args([
                "-c",
                "core.alternateRefsCommand=true",
                "-c",
                "gc.auto=0",
                "-c",
                "maintenance.auto=false",
            ]);
        git
    }
}

struct Exchange<'a> {
    git: &'a HostGit,
    layer: &'a Layer,
    moment: Moment,
    news: News,
    /// Whether something of a part stays in the cage for now. It is told at the end, so that it is looked at again.
    holds: bool,
}

/// One part of a repository, open on both sides.
struct Part {
    /// Where it is in the folder.
    at: PathBuf,
    /// The part whose refs and objects it shares: itself, or what a working tree belongs to.
    common: PathBuf,
    is_worktree: bool,
    host: OwnedFd,
    host_path: PathBuf,
    cage: OwnedFd,
    /// Where its base is kept.
    place: PathBuf,
    base: Base,
    id_length: usize,
}

/// What is about to come over.
#[derive(Default)]
struct Wanted {
    refs: Vec<Change>,
    /// Refs that both sides moved: the command's value is kept.
    both: Vec<Change>,
    /// Refs that stay in the cage because of their names, and what is told of them: the command's value is kept.
    named: Vec<(Change, String)>,
    /// Refs whose logs have grown though they say what they said, and `HEAD`; with the objects that they name.
    grown: Vec<(Vec<u8>, Vec<u8>)>,
    head: Option<Value>,
    entries: Option<entries::Changed>,
    state: Vec<(PathBuf, state::Piece)>,
    stash: stash::Changed,
    shallow: shallow::Changed,
}

impl Wanted {
    fn is_empty(&self) -> bool {
        self.refs.is_empty()
            && self.both.is_empty()
            && self.named.is_empty()
            && self.grown.is_empty()
            && self.head.is_none()
            && self.entries.is_none()
            && self.state.is_empty()
            && self.stash.is_empty()
            && self.shallow.is_empty()
    }
}

/// What the host has of the objects that were asked about.
type Types = HashMap<Vec<u8>, Option<Type>>;

impl Exchange<'_> {
    /// Whether nothing works in the private one any more.
    fn has_ended(&self) -> bool {
        self.moment != Moment::Running
    }

    /// One part. What it has in common is written down at the end.
    fn part(&mut self, part: &mut Part) {
        let cage_refs = refs::signature(&part.cage);
        let host_refs = if self.has_ended() { Vec::new() } else { refs::signature(&part.host) };
        if !part.is_worktree {
            self.settings(part, false);
        }
        self.holds = false;
        let (mut wanted, mut given) = (Wanted::default(), Vec::new());
        let host_moved = !self.has_ended() && host_refs != part.base.host_refs;
        if cage_refs != part.base.cage_refs || host_moved {
            let sides = refs::read(&part.host).and_then(|host| Ok((host, refs::read(&part.cage)?)));
            match sides {
                Ok((host, cage)) => {
                    self.expire_kept(part, &host);
                    self.compare(part, &host, &cage, &mut wanted, &mut given);
                    self.bound(part, &mut wanted);
                }
                // The rest is none the worse for it.
                Err(errno) => self.trouble(&part.at.join("refs"), &errno.to_string()),
            }
            self.compare_heads(part, &mut wanted, &mut given);
            wanted.stash = stash::compare(part);
            wanted.shallow = shallow::compare(part);
        }
        wanted.entries = self.compare_entries(part);
        self.compare_state(part, &mut wanted);
        let taken = wanted.is_empty() || self.take(part, wanted);
        if !self.has_ended() {
            self.give(part, &given);
        }
        // As they were before they were read: whatever moved since is looked at the next time.
        if taken && !self.news.is_busy && !self.holds {
            part.base.cage_refs = cage_refs;
            part.base.host_refs = host_refs;
        }
        if self.has_ended() && !part.is_worktree {
            self.settings(part, true);
        }
        // At the end there is no next time.
        if self.moment != Moment::Ended && part.base.write(&part.place).is_err() {
            self.trouble(&part.at, "what was taken over could not be written down");
        }
    }

    /// Which refs come over, and which the command is given.
    fn compare(
        &mut self,
        part: &mut Part,
        host: &Refs,
        cage: &Refs,
        wanted: &mut Wanted,
        given: &mut Vec<Change>,
    ) {
        let is_own = |name: &&Vec<u8>| name.starts_with(b"refs/heads/") && host.get(*name) == cage.get(*name);
        let own = cage
            .keys()
            .filter(is_own)
            .filter_map(|name| Some((name.clone(), cage.get(name)?.id()?.to_vec())));
        let head = match refs::head(&part.cage) {
            Some(Value::Id(id)) => Some(id),
            Some(Value::To(name)) => self.value_of(part, cage, &name),
            None => None,
        };
        let all = own.chain(head.map(|id| (b"HEAD".to_vec(), id)));
        wanted.grown = all.filter(|(name, _)| logs::has_grown(part, name)).collect();
        let remotes = self.remotes(part, host);
        let is_remote = |remote: &[u8]| remotes.contains(remote);
        let all = changes(part.base.refs(&part.place), host, cage);
        let taken = Taken::of(host, &all);
        let mut fetched = self.fetched_from(part);
        for change in all {
            // Entries of the stack are moved one by one, and what is kept is the host's affair.
            if change.name == b"refs/stash" || change.name.starts_with(b"refs/keyward/") {
                continue;
            }
            match change.side() {
                Side::Same => part.note(&change.name, change.host),
                Side::Host => given.push(change),
                Side::Cage => match judge(&change.name, change.cage.as_ref(), &is_remote)
                    .and_then(|()| taken.judge(&change))
                    .and_then(|()| fetched.judge(&change))
                {
                    Ok(()) => wanted.refs.push(change),
                    // The remote may be another repository of this run, and get it now.
                    Err(_)
                        if self.moment == Moment::Settling && change.name.starts_with(b"refs/remotes/") =>
                    {
                        self.holds = true;
                    }
                    Err(why) => self.keep_back_named(part, change, why, host, wanted),
                },
                Side::Both => {
                    // Told once for each value.
                    let value = change.cage.as_ref().map(Value::spelled).unwrap_or_default();
                    let word = [b"both ", change.name.as_slice(), b" ", &value].concat();
                    if part.base.told.insert(std::ffi::OsString::from_vec(word)) {
                        wanted.both.push(change);
                    }
                }
            }
        }
    }

    /// A ref that stays in the cage because of its name. What it says is kept, if no ref of the host's says it.
    fn keep_back_named(
        &mut self,
        part: &mut Part,
        change: Change,
        why: Kept,
        host: &Refs,
        wanted: &mut Wanted,
    ) {
        let told = why.told(&change);
        // What can be fetched again is not work.
        let is_work = change.cage.as_ref().is_some_and(|value| value.id().is_some())
            && !change.name.starts_with(b"refs/remotes/")
            && host.values().all(|value| Some(value) != change.cage.as_ref());
        if !is_work || !self.has_ended() {
            self.keep_back(part, super::base::path(&change.name), &told);
        } else if wanted.named.len() < MOST_NAMED {
            wanted.named.push((change, told));
        } else {
            self.news.is_refused = true;
            self.keep_back(part, Path::new("refs"), "more refs than are kept have names that stay here");
        }
    }

    /// Too many new refs for one run: none of them is taken over.
    fn bound(&mut self, part: &mut Part, wanted: &mut Wanted) {
        let new = wanted.refs.iter().filter(|change| change.base.is_none()).count();
        let all = part.base.made.saturating_add(new);
        if new > 0 && all > MOST_MADE {
            self.news.is_refused = true;
            let why = format!("{all} new refs, and at most {MOST_MADE} of a run are taken over");
            self.keep_back(part, Path::new("refs"), &why);
            wanted.refs.retain(|change| change.base.is_some());
        }
    }

    /// What a branch says in the cage. A working tree has those of the part that it belongs to.
    fn value_of(&self, part: &Part, cage: &Refs, name: &[u8]) -> Option<Vec<u8>> {
        if !part.is_worktree {
            return Some(cage.get(name)?.id()?.to_vec());
        }
        let common = open(&self.layer.git().join(&part.common)).ok()?;
        Some(refs::read(&common).ok()?.get(name)?.id()?.to_vec())
    }

    /// The remotes that the host's settings name, and those that it has refs of.
    fn remotes(&self, part: &Part, host: &Refs) -> BTreeSet<Vec<u8>> {
        let text = place::read(&part.host, Path::new("config"), Check::Text.most()).map(|(text, _)| text);
        let config = text.ok().and_then(|text| Config::read(&text).ok()).unwrap_or_default();
        let named = config.entries.iter().filter(|entry| entry.name.section == "remote");
        let mut all: BTreeSet<Vec<u8>> = named.filter_map(|entry| entry.name.subsection.clone()).collect();
        let of_refs = host.keys().filter_map(|name| name.strip_prefix(b"refs/remotes/"));
        all.extend(of_refs.filter_map(|name| Some(name.split(|&byte| byte == b'/').next()?.to_vec())));
        all
    }

    fn compare_heads(&mut self, part: &mut Part, wanted: &mut Wanted, given: &mut Vec<Change>) {
        let change = Change {
            name: b"HEAD".to_vec(),
            base: part.base.head.clone(),
            host: refs::head(&part.host),
            cage: refs::head(&part.cage),
        };
        match (change.side(), &change.cage) {
            (Side::Same, _) => part.base.head = change.host,
            (Side::Host, _) => given.push(change),
            // Without it this would be no repository.
            (Side::Cage, None) => self.keep_back(part, Path::new("HEAD"), "removed"),
            (Side::Cage, Some(value)) => match judge_head(value) {
                Ok(()) => wanted.head = Some(value.clone()),
                Err(why) => self.keep_back(part, Path::new("HEAD"), &why.told(&change)),
            },
            (Side::Both, _) => self.conflict(part, Path::new("HEAD"), "both sides changed it"),
        }
    }

    fn compare_state(&mut self, part: &mut Part, wanted: &mut Wanted) {
        let (cage, host) = (State::read(&part.cage), State::read(&part.host));
        for name in part.base.state.names(&cage) {
            let is_passing = matches!(fate(&name), Fate::Passing(_));
            if cage.unread.contains(&name) {
                if !is_passing {
                    self.keep_back(part, &name, "too much, or not ordinary files");
                }
                continue;
            }
            let (now, before) = (cage.piece(&name), part.base.state.piece(&name));
            if now == before {
                continue;
            }
            if host.unread.contains(&name) {
                self.conflict(part, &name, "yours cannot be read");
                continue;
            }
            let here = host.piece(&name);
            if here == now {
                part.base.state.set(&name, &now);
            } else if let Err((path, why)) = state::judge(&now, part.id_length) {
                self.keep_back(part, &path, why);
            } else if here != before && !is_passing {
                self.conflict(part, &name, "both sides changed it");
            } else {
                wanted.state.push((name, now));
            }
        }
    }

    fn took(&mut self, part: &mut Part, path: &Path) {
        let path = part.at.join(path);
        let told = RepositoryNews::new(&path, "").path;
        if !self.news.told.taken_over.contains(&told) {
            self.news.told.taken_over.push(told);
        }
    }

    /// What counts is how things stand at the end.
    fn keep_back(&mut self, part: &mut Part, path: &Path, why: &str) {
        self.holds = true;
        if self.has_ended() && part.tells(path, why) {
            self.news.told.kept_back.push(RepositoryNews::new(&part.at.join(path), why));
        }
    }

    /// Something was taken over, or stands in the working tree, that a person has to know before using git there. The path is as they see it.
    fn notice(&mut self, part: &mut Part, path: &Path, why: &str) {
        if part.tells(path, why) {
            self.news.told.notices.push(RepositoryNews::new(path, why));
        }
    }

    /// The same for a ref.
    fn notice_ref(&mut self, part: &mut Part, name: &[u8], why: &str) {
        let path = Path::new(&self.news.told.path).join(&part.at).join(super::base::path(name));
        self.notice(part, &path, why);
    }

    fn conflict(&mut self, part: &mut Part, path: &Path, why: &str) {
        if part.tells(path, why) {
            self.news.told.conflicts.push(RepositoryNews::new(&part.at.join(path), why));
        }
    }

    fn trouble(&mut self, path: &Path, why: &str) {
        let news = RepositoryNews::new(path, why);
        if !self.news.told.troubles.contains(&news) {
            self.news.told.troubles.push(news);
        }
    }
}

impl Part {
    /// Both sides have this now.
    fn note(&mut self, name: &[u8], value: Option<Value>) {
        self.base.set(&self.place, name, value);
    }

    /// Whether the user has not been told yet.
    fn tells(&mut self, path: &Path, why: &str) -> bool {
        self.base.told.insert(format!("{} {why}", path.display()).into())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::layer::{Cage, Run};
    use super::*;
    use keyward_policy::facts::{GitFolder, GitPart};
    use std::os::unix::fs::MetadataExt;

    pub(super) const ONE: &str = "1111111111111111111111111111111111111111";
    pub(super) const TWO: &str = "2222222222222222222222222222222222222222";
    pub(super) const THREE: &str = "3333333333333333333333333333333333333333";

    /// A part with an empty folder on each side.
    pub(super) struct Sides {
        pub(super) folder: tempfile::TempDir,
        pub(super) part: Part,
    }

    impl Sides {
        pub(super) fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let open = |name: &str| {
                std::fs::create_dir(folder.path().join(name)).unwrap();
                OwnedFd::from(std::fs::File::open(folder.path().join(name)).unwrap())
            };
            let part = Part {
                at: PathBuf::new(),
                common: PathBuf::new(),
                is_worktree: false,
                host: open("host"),
                host_path: folder.path().join("host"),
                cage: open("cage"),
                place: folder.path().join("base"),
                base: Base::default(),
                id_length: 20,
            };
            Sides { folder, part }
        }

        pub(super) fn write(&self, below: &str, text: &str) {
            let path = self.folder.path().join(below);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }

        pub(super) fn read(&self, below: &str) -> String {
            std::fs::read_to_string(self.folder.path().join(below)).unwrap_or_default()
        }
    }

    /// A repository with three files in one commit, and the private one of a run in it.
    pub(in crate::git) struct Repository {
        pub(in crate::git) tree: PathBuf,
        pub(in crate::git) run: Run,
        pub(in crate::git) program: HostGit,
        folder: tempfile::TempDir,
    }

    pub(in crate::git) fn repository() -> Repository {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().canonicalize().unwrap().join("project");
        std::fs::create_dir(&tree).unwrap();
        let own = tree.join(".git");
        let begin = "git init -q -b main .; git config user.name a; git config user.email a@b; git config gc.auto 0; \
            for f in a b c; do echo one > $f; done; git add .; git commit -qm first; git branch side; git branch gone";
        git(&tree, &own, begin);
        let stat = std::fs::metadata(&own).unwrap();
        let parts = vec![GitPart { at: "".into(), is_worktree: false, objects: vec![own.join("objects")] }];
        let about = GitFolder { path: own, device: stat.dev(), inode: stat.ino(), is_beyond_us: None, parts };
        let mut run = Run::begin(&folder.path().join("store")).unwrap();
        let cage = Cage { project: &tree, exclude: b"", hidden: &[], has_network: false, is_nameless: false };
        run.add(&about, &cage).unwrap();
        Repository { tree, run, program: HostGit::find("".as_ref()).unwrap(), folder }
    }

    impl Repository {
        /// The host's side.
        pub(in crate::git) fn own(&self) -> PathBuf {
            self.tree.join(".git")
        }

        /// Runs a script with the git of one side.
        pub(in crate::git) fn git(&self, side: &Path, script: &str) -> String {
            git(&self.tree, side, script)
        }

        /// The launcher is no more.
        pub(in crate::git) fn leave(self) -> tempfile::TempDir {
            self.folder
        }

        /// A git of the host's before which something else happens.
        pub(in crate::git) fn program_that(&self, does: &str) -> HostGit {
            use std::os::unix::fs::PermissionsExt;
            let path = self.folder.path().join("git");
            let real = self.program.program().display();
            std::fs::write(&path, format!("#!/bin/sh\n{does}\nexec {real} \"$@\"\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            HostGit::known(path)
        }
    }

    fn git(tree: &Path, side: &Path, script: &str) -> String {
        let script = format!("set -e; export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1; {script}");
        let output = Command::new("bash")
            .current_dir(tree)
            .envs([("GIT_DIR", side), ("GIT_WORK_TREE", tree)])
            // In a cage they are lent by a mount.
            .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", tree.join(".git/objects"))
            .args(["-c", &script])
            .output()
            .unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// A ref that the command has moved.
    pub(super) fn change(name: &str, base: Option<&str>, cage: Option<&str>) -> Change {
        let value = |id: Option<&str>| id.and_then(|id| Value::read(id.as_bytes()));
        Change { name: name.as_bytes().to_vec(), base: value(base), host: value(base), cage: value(cage) }
    }

    /// A line of a log, as git writes it.
    pub(super) fn line(old: &str, new: &str, message: &str) -> String {
        format!("{old} {new} Ada <ada@example.test> 1700000000 +0000\t{message}\n")
    }
}
