//! The project while a command works in it, and afterwards: new footholds are taken out of the tree, changes that somebody should know
//! of are named. Runs in the launcher, with the user's own rights, and never in the cage.
//!
//! What was there at the start is protected by mounts, which is a wall. All of this here is a notice.

use crate::carry::Across;
use crate::git::inspect::{inspect, put_settings};
use crate::journal::{Journal, Start};
use crate::quarantine::Quarantine;
use crate::search::{Seen, changed};
use crate::secrets::{Names, Secrets};
use crate::sweep::{Before, Met, Verdict};
use crate::tree::Root;
use crate::watch::Watch;
use keyward_policy::aftermath::{Aftermath, Left, Quarantined};
use keyward_policy::facts::{Project, Standing};
use keyward_policy::footholds;
use keyward_policy::text::visible;
use keyward_sys::file::reason;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Taken while the command runs, at the most; one that makes them in a loop is left to the end.
const MOST_AT_ONCE: usize = 32;

/// Names that are told at the most.
const MOST_TOLD: usize = 64;

/// What a guard needs to know before the command starts.
pub struct Begin<'a> {
    pub project: &'a Path,
    pub state: &'a Path,
    /// The name of the run, as the record has it.
    pub run: &'a str,
    /// The command, without what looks like a credential.
    pub argv: Vec<String>,
    pub found: &'a Project,
    pub seen: Seen,
    /// Paths that a grant to write names.
    pub granted: Vec<PathBuf>,
    /// Whether footholds that are there are read-only for the command.
    pub protected: bool,
    /// What is hidden from the command by a mask.
    pub hidden: Vec<PathBuf>,
    pub names: Names<'a>,
}

/// Watches over a project from before the command starts until after it has ended.
pub struct Guard<'a> {
    root: Root,
    start: Start,
    seen: Seen,
    quarantine: Quarantine,
    journal: Option<Journal>,
    secrets: Secrets<'a>,
    has_started: bool,
    watch: Option<Watch>,
    aftermath: Aftermath,
}

/// The journals of running commands.
fn journals(state: &Path) -> PathBuf {
    state.join("journals")
}

impl<'a> Guard<'a> {
    /// Writes down that a command is about to work in the project.
    pub fn begin(begin: Begin<'a>) -> Result<Self, Errno> {
        let root = Root::open(begin.project)?;
        let below = |path: &Path| path.strip_prefix(begin.project).ok().map(PathBuf::from);
        let (mut known, mut links) = (Vec::new(), Vec::new());
        for foothold in &begin.found.footholds {
            match (&foothold.is, below(&foothold.path)) {
                (Standing::Thing { .. }, Some(path)) => known.push(path),
                (Standing::Link { to }, Some(path)) => links.push((path, to.clone())),
                (_, None) => {}
            }
        }
        let files = begin.found.marks.iter().filter(|mark| !mark.directory);
        let pointers =
            files.filter_map(|mark| below(&mark.path)).filter(|path| path.components().count() > 1);
        let pointers = pointers.filter_map(|path| root.small_file(&path).map(|text| (path, text))).collect();
        let granted = begin.granted.iter().filter_map(|path| below(path));
        let granted = granted.filter_map(|path| footholds::guarded_above(&path).map(PathBuf::from)).collect();
        // The clock that files are stamped with; the other one may be ahead of it by a tick.
        let now = clock_gettime(ClockId::RealtimeCoarse);
        let start = Start {
            project: begin.project.into(),
            identity: root.identity,
            since: i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec),
            argv: begin.argv,
            known,
            awaited: begin
                .found
                .repositories
                .iter()
                .flat_map(|one| &one.awaited)
                .filter_map(|path| below(path))
                .collect(),
            pointers,
            marks: begin.found.marks.iter().filter_map(|mark| below(&mark.path)).collect(),
            granted,
            links,
            protected: begin.protected,
            searched: begin.found.searched.clone(),
        };
        let secrets = Secrets::new(&root, begin.names, begin.hidden.iter().filter_map(|path| below(path)));
        // Without a journal the end of the run is looked at all the same, unless we are killed before.
        let journal = Journal::write(&journals(begin.state), begin.run, &start).ok();
        Ok(Guard {
            root,
            start,
            seen: begin.seen,
            quarantine: Quarantine::new(begin.state),
            journal,
            secrets,
            has_started: false,
            watch: None,
            aftermath: Aftermath::default(),
        })
    }

    /// The command is about to be executed.
    pub fn command_started(&mut self) {
        self.has_started = true;
        let seen = self.seen.0.iter().map(|(path, _)| path.as_path());
        // The root, and where something is hidden, come first.
        let mut met = HashSet::new();
        let folders = [Path::new("")].into_iter().chain(self.secrets.folders()).chain(seen);
        let folders = folders.filter(|path| met.insert(path.as_os_str()));
        self.watch = Some(Watch::new(folders.map(PathBuf::from)));
    }

    /// What the launcher waits for beside everything else.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.watch.as_ref().and_then(Watch::descriptor)
    }

    /// When there is something to do even if nothing is reported.
    pub fn due(&self) -> Option<Duration> {
        self.watch.as_ref().and_then(Watch::due)
    }

    /// Looks at what has appeared.
    pub fn work(&mut self) {
        let Some(watch) = &mut self.watch else { return };
        let Some(appeared) = watch.work(&self.root, self.secrets.names.is_secret) else {
            self.watch = None;
            return;
        };
        for folder in appeared.watched {
            self.secrets.watched(&self.root, &folder);
        }
        for path in appeared.names {
            if path.file_name().and_then(footholds::guarded).is_some() {
                self.take_at_once(&path);
            } else if self.start.protected {
                self.secrets.noticed(&self.root, &path);
            }
        }
        self.secrets.hide(&self.root, &mut self.aftermath);
    }

    /// What was taken out since this was last asked, as a person is told of it.
    pub fn news(&mut self) -> Vec<(String, String)> {
        let told = self.aftermath.already_told;
        let fresh = self.aftermath.quarantined.get(told..).unwrap_or_default().to_vec();
        self.aftermath.already_told += fresh.len();
        Aftermath { quarantined: fresh, ..Aftermath::default() }.lines(false)
    }

    /// Whether the launcher has to ask init for the cage's namespaces.
    pub fn needs_spaces(&self) -> bool {
        self.secrets.need_the_way()
    }

    /// The cage's namespaces, from init.
    pub fn take_spaces(&mut self, descriptors: Vec<OwnedFd>) {
        self.secrets.take_the_way(descriptors);
        self.secrets.hide(&self.root, &mut self.aftermath);
    }

    fn take_at_once(&mut self, relative: &Path) {
        let before = Before::new(&self.start, &self.seen, self.secrets.names.is_secret);
        // A link that has to be put back is left to the end: it could be replaced again and again.
        if self.aftermath.quarantined.len() >= MOST_AT_ONCE
            || before.link(relative).is_some()
            || before.judge(&self.root, relative) != Verdict::New
        {
            return;
        }
        // What does not work now may work at the end, and is told then.
        if let Ok(Some(id)) = self.quarantine.take(&self.root, relative, &self.start.argv, Across::NotNow) {
            self.aftermath.quarantined.push(Quarantined::new(relative, &id));
        }
    }

    /// Looks at what makes folders repositories, wherever they are, before the host's git is led to them. What the user has there is older than the
    /// run and stays.
    pub fn clean_marks(&mut self, marks: &[PathBuf]) {
        for mark in marks.iter().filter_map(|mark| mark.strip_prefix(&self.root.path).ok()) {
            if !self.start.marks.iter().any(|known| known == mark) {
                let since = Some(self.start.since);
                let Start { marks, argv, .. } = &self.start;
                clean_repository(&self.root, mark, marks, &self.quarantine, argv, since, &mut self.aftermath);
            }
        }
    }

    /// Keeps what a command had made of a file that somebody outside changed as well. The name of its entry.
    pub fn keep(&self, path: &Path, content: &[u8]) -> Option<String> {
        let elsewhere;
        let root = match path.starts_with(&self.root.path) {
            true => &self.root,
            false => {
                elsewhere = Root::open(path.parent()?).ok()?;
                &elsewhere
            }
        };
        let relative = path.strip_prefix(&root.path).ok()?;
        self.quarantine.keep(root, relative, content, &self.start.argv).ok()
    }

    /// The command has ended: looks through the project, and says what it found.
    pub fn finish(mut self) -> Aftermath {
        self.watch = None;
        if self.has_started {
            let before = Before::new(&self.start, &self.seen, self.secrets.names.is_secret);
            let met = sweep_up(&self.root, &before, &self.quarantine, &mut self.aftermath);
            self.secrets.tell_appeared(&self.root, &met.secrets, &mut self.aftermath);
        }
        if let Some(journal) = self.journal {
            journal.close();
        }
        self.aftermath
    }
}

/// Takes what is new, and names what is to be told.
fn sweep_up(root: &Root, before: &Before<'_>, quarantine: &Quarantine, aftermath: &mut Aftermath) -> Met {
    let start = before.start;
    let (mut met, opened) = crate::sweep::walk(root, before);
    for path in &met.new {
        match quarantine.take(root, path, &start.argv, Across::Copied) {
            Ok(Some(id)) => {
                aftermath.quarantined.push(Quarantined::new(path, &id));
                if let Some(to) = before.link(path) {
                    put_link_back(root, path, to);
                }
            }
            Ok(None) => {}
            Err(errno) => aftermath.left.push(Left::new(path, cannot_take(errno))),
        }
    }
    for path in start.awaited.iter().filter(|path| root.stat(path).is_ok()) {
        match quarantine.take(root, path, &start.argv, Across::Copied) {
            Ok(Some(id)) => aftermath.quarantined.push(Quarantined::run_by_git(path, &id, Vec::new())),
            Ok(None) => {}
            Err(errno) => aftermath.left.push(Left::run_by_git(path, cannot_take(errno))),
        }
    }
    for (path, text) in &start.pointers {
        put_pointer_back(root, path, text, quarantine, &start.argv, aftermath);
    }
    for mark in &met.repositories {
        clean_repository(root, mark, &start.marks, quarantine, &start.argv, None, aftermath);
    }
    drop(opened);
    let unsure = if start.protected {
        "it was changed, and may be older than this run"
    } else {
        "it was changed, and is not protected here"
    };
    aftermath.left.extend(met.changed.iter().map(|path| Left::new(path, unsure.into())));
    aftermath.told.extend(met.told.iter().take(MOST_TOLD).map(|path| visible(path.as_os_str())));
    aftermath.not_walked = std::mem::take(&mut met.not_walked);
    met
}

/// A `.git` file that leads elsewhere than before is taken out, and the old one stands again. One that is gone is gone.
fn put_pointer_back(
    root: &Root,
    path: &Path,
    text: &[u8],
    quarantine: &Quarantine,
    argv: &[String],
    aftermath: &mut Aftermath,
) {
    if root.stat(path).is_err() || root.small_file(path).as_deref() == Some(text) {
        return;
    }
    match quarantine.take(root, path, argv, Across::Copied) {
        Ok(Some(id)) => {
            aftermath.quarantined.push(Quarantined::run_by_git(path, &id, Vec::new()));
            if let Ok(base) = root.listing(Path::new("")) {
                let _ = put_settings(&base, path, text);
            }
        }
        Ok(None) => {}
        Err(errno) => aftermath.left.push(Left::run_by_git(path, cannot_take(errno))),
    }
}

/// Takes out of a repository that the command made what git would run because of it. The repository stays.
fn clean_repository(
    root: &Root,
    mark: &Path,
    known: &[PathBuf],
    quarantine: &Quarantine,
    argv: &[String],
    since: Option<i128>,
    aftermath: &mut Aftermath,
) {
    let Ok(base) = root.listing(Path::new("")) else { return };
    let mut findings = inspect(base.as_fd(), mark, &root.path, &|path| known.iter().any(|one| one == path));
    if let Some(since) = since {
        let touched = |path: &Path| root.stat(path).is_ok_and(|stat| changed(&stat) >= since);
        findings.out.retain(|path| touched(path));
        findings.settings.retain(|(path, _, _)| touched(path));
    }
    let mut take = |path: &Path, keys: Vec<String>| match quarantine.take(root, path, argv, Across::Copied) {
        Ok(Some(id)) => {
            aftermath.quarantined.push(Quarantined::run_by_git(path, &id, keys));
            true
        }
        Ok(None) => false,
        Err(errno) => {
            aftermath.left.push(Left::run_by_git(path, cannot_take(errno)));
            false
        }
    };
    for path in &findings.out {
        take(path, Vec::new());
    }
    for (path, kept, keys) in findings.settings {
        if take(&path, keys) && put_settings(&base, &path, &kept).is_err() {
            // Without them it is hardly a repository, and nothing runs.
            aftermath
                .not_walked
                .push(format!("{} (its settings could not be written again)", path.display()));
        }
    }
}

fn cannot_take(errno: Errno) -> String {
    match errno {
        Errno::FBIG => "it is too large to be copied into the quarantine".into(),
        errno => format!("it could not be taken into the quarantine: {}", reason(errno)),
    }
}

/// Where a link of the user's was replaced, the link stands again. Nothing is followed, and nothing that stands there is replaced.
fn put_link_back(root: &Root, relative: &Path, to: &Path) {
    if let (Some(parent), Some(name)) = (relative.parent(), relative.file_name())
        && let Ok(folder) = root.folder(parent)
    {
        let _ = rustix::fs::symlinkat(to, &folder, name);
    }
}

/// What was finished for a run that was killed before its end.
pub struct Recovered {
    pub run: String,
    pub project: PathBuf,
    pub aftermath: Aftermath,
}

/// Finishes what runs that were killed have left: half-done moves, and projects that nobody looked at.
pub fn recover(state: &Path) -> Vec<Recovered> {
    let abandoned = crate::journal::abandoned(&journals(state));
    if abandoned.is_empty() {
        return Vec::new();
    }
    let quarantine = Quarantine::new(state);
    let interrupted = quarantine.finish_interrupted();
    let mut recovered = Vec::new();
    for (run, journal, start) in abandoned {
        let mut aftermath = Aftermath::default();
        let finished = interrupted.iter().filter(|entry| entry.about.project == start.project);
        aftermath.quarantined.extend(finished.map(|entry| Quarantined::new(&entry.about.path, &entry.id)));
        if let Some(root) = Root::open(&start.project).ok().filter(|root| root.identity == start.identity) {
            let seen = Seen::default();
            sweep_up(&root, &Before::new(&start, &seen, &|_| false), &quarantine, &mut aftermath);
        }
        journal.close();
        recovered.push(Recovered { run, project: start.project, aftermath });
    }
    recovered
}

/// The same, and also moves that were interrupted outside a run.
pub fn recover_all(state: &Path) -> Vec<Recovered> {
    let recovered = recover(state);
    Quarantine::new(state).finish_interrupted();
    recovered
}

/// How many commands are at work, by their journals.
pub fn at_work(state: &Path) -> usize {
    crate::journal::count(&journals(state))
}
