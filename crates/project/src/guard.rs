//! The project and the grants while a command works in them, and afterwards: new footholds are taken out of the tree, changes that a person
//! should know of are named. Runs in the launcher, with the user's own rights, and never in the cage.
//!
//! What was there at the start is protected by mounts, which is a wall. All of this here is a notice.

use crate::carry::Across;
use crate::git::clones;
use crate::git::inspect::{inspect, put_settings};
use crate::journal::{self, Journal, Start};
use crate::quarantine::{Entry, Quarantine};
use crate::search::walk::changed;
use crate::search::{Role, Rules, Search, Seen, skipped};
use crate::secrets::{Masked, Names, Secrets};
use crate::sweep::{Before, Met, Verdict};
use crate::tree::{OpenedRoot, Root};
use crate::watch::{Extent, Place, Watch};
use keyward_policy::aftermath::{Aftermath, Left, Quarantined};
use keyward_policy::detect::footholds;
use keyward_policy::facts::{Project, Standing};
use keyward_policy::text::visible;
use keyward_policy::view::Why;
use keyward_sys::file::reason;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// Taken while the command runs, at the most; one that makes them in a loop is left to the end.
const MOST_AT_ONCE: usize = 32;

/// Names that are told at the most.
const MOST_TOLD: usize = 64;

/// What a guard needs to know before the command starts.
pub struct Begin<'a> {
    pub state: &'a Path,
    /// The name of the run, as the record has it.
    pub run: &'a str,
    /// The command, without what looks like a credential.
    pub argv: Vec<String>,
    pub search: Search<'a>,
    pub found: &'a Project,
    pub seen: Vec<Seen>,
    /// Paths that a grant to write names.
    pub granted: Vec<PathBuf>,
    /// Whether footholds that are there are read-only for the command.
    pub protected: bool,
    /// What is hidden from the command by a mask.
    pub hidden: Rc<[Masked]>,
    pub names: Names<'a>,
}

/// Why a command cannot be watched over, and is not started.
#[derive(Debug)]
pub enum NoGuard {
    /// The directory of a tree.
    Tree(PathBuf, Errno),
    /// The file that says that a command is at work.
    Journal(PathBuf, Errno),
}

/// Watches over the project and the grants from before the command starts until after it has ended.
pub struct Guard<'a> {
    search: Search<'a>,
    trees: Vec<Watched<'a>>,
    quarantine: Quarantine,
    has_started: bool,
    watch: Watch,
    aftermath: Aftermath,
}

/// One tree, and what is known of it.
struct Watched<'a> {
    root: Root,
    start: Start,
    seen: Seen,
    journal: Option<Journal>,
    secrets: Secrets<'a>,
    /// What makes directories repositories, and was not there at the start.
    new_marks: BTreeSet<PathBuf>,
    /// Whether paths are told as they are, and not relative to the project.
    is_grant: bool,
}

impl Watched<'_> {
    fn extent(&self) -> Extent {
        match &self.seen.tree {
            tree if tree.writable => Extent::Written,
            tree if tree.role.is_of_tools() => Extent::Hidden,
            _ => Extent::Read,
        }
    }

    fn shown(&self, relative: &Path) -> String {
        match self.is_grant {
            true => visible(self.root.path.join(relative).as_os_str()),
            false => visible(relative.as_os_str()),
        }
    }
}

/// The journals of running commands.
pub(crate) fn journals(state: &Path) -> PathBuf {
    state.join("journals")
}

impl<'a> Guard<'a> {
    /// Writes down that a command is about to work in these trees.
    pub fn begin(mut begin: Begin<'a>) -> Result<Self, NoGuard> {
        // The clock that files are stamped with; the other one may be ahead of it by a tick.
        let now = clock_gettime(ClockId::RealtimeCoarse);
        let since = i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec);
        let watch = Watch::new();
        let mut trees = Vec::with_capacity(begin.seen.len());
        for (number, seen) in std::mem::take(&mut begin.seen).into_iter().enumerate() {
            let path = seen.tree.path.clone();
            let root = Root::open(&path).map_err(|errno| NoGuard::Tree(path.clone(), errno))?;
            // Before the mode is looked at: a run that opens the root for its look has its journal until it is closed again. Of a tree that the
            // command cannot write to nothing is put right at the end.
            let others = match seen.tree.writable {
                true => journal::living(&journals(begin.state)),
                false => Vec::new(),
            };
            let mut start = begin.start(&root, since).map_err(|errno| NoGuard::Tree(path.clone(), errno))?;
            start.agree_with(others);
            let secrets = Secrets::new(&root, begin.names, &begin.hidden);
            let journal = match seen.tree.writable {
                false => None,
                true => {
                    let run =
                        if number == 0 { begin.run.to_owned() } else { format!("{}.{number}", begin.run) };
                    let folder = journals(begin.state);
                    Some(
                        Journal::write(&folder, &run, &start)
                            .map_err(|errno| NoGuard::Journal(folder, errno))?,
                    )
                }
            };
            let is_grant = seen.tree.role != Role::Seen(Why::Project);
            trees.push(Watched { root, start, seen, journal, secrets, new_marks: BTreeSet::new(), is_grant });
        }
        Ok(Guard {
            search: begin.search,
            trees,
            quarantine: Quarantine::new(begin.state),
            has_started: false,
            watch,
            aftermath: Aftermath::default(),
        })
    }

    /// The command is about to be executed.
    pub fn command_started(&mut self) {
        self.has_started = true;
        self.watch.begin(self.trees.iter().map(Watched::extent).collect());
    }

    /// Looks out for names that appear in a directory of the cage's own. From the first one on there is something to look at.
    pub fn look_after_own(&mut self, directory: BorrowedFd<'_>) -> Result<(), Errno> {
        self.watch.add_own(directory)
    }

    /// Whether there is nothing to do until the descriptor tells of something.
    pub fn is_at_rest(&self) -> bool {
        self.watch.is_at_rest() && self.trees.iter().all(|tree| tree.new_marks.is_empty())
    }

    /// Whether the descriptor tells of every name that a command can leave in the project and the grants.
    pub fn sees_all(&self) -> bool {
        self.is_at_rest() && self.watch.sees_all()
    }

    /// What the launcher waits for beside everything else.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.watch.descriptor()
    }

    /// When there is something to do even if nothing is reported.
    pub fn due(&self) -> Option<Duration> {
        self.watch.due()
    }

    /// Looks at what has appeared.
    pub fn work(&mut self) {
        self.trees.iter_mut().for_each(|tree| tree.secrets.remember(&tree.root));
        let nothing = HashSet::new();
        let trees = self.trees.iter();
        let trees: Vec<(&Root, Rules<'_>)> =
            trees.map(|tree| (&tree.root, Rules::new(&tree.root.path, &self.search, &nothing))).collect();
        let appeared = self.watch.work(&trees, || directories(&self.trees));
        drop(trees);
        for (number, folder) in appeared.watched {
            let tree = &mut self.trees[number];
            tree.secrets.watched(&tree.root, &folder);
        }
        if appeared.lost {
            self.trees.iter_mut().for_each(|tree| tree.secrets.look_at_all(&tree.root));
        }
        for (number, mark) in appeared.repositories {
            let tree = &mut self.trees[number];
            if tree.seen.tree.writable && !tree.start.marks.contains(&mark) {
                tree.new_marks.insert(mark);
            }
        }
        for (number, path) in appeared.names {
            let tree = &mut self.trees[number];
            let rules = Rules::new(&tree.root.path, &self.search, &nothing);
            let is_foothold = rules.is_guarded(&path) || rules.stalls(&tree.root, &path);
            if tree.start.protected {
                tree.secrets.noticed(&tree.root, &path);
            }
            if is_foothold && tree.seen.tree.writable {
                self.take_at_once(number, &path);
            }
        }
        self.hide();
    }

    fn hide(&mut self) {
        for tree in &mut self.trees {
            let (is_grant, root) = (tree.is_grant, &tree.root);
            let shown = |path: &Path| match is_grant {
                true => visible(root.path.join(path).as_os_str()),
                false => visible(path.as_os_str()),
            };
            tree.secrets.hide(root, &shown, &mut self.aftermath);
        }
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
        self.trees.iter().any(|tree| tree.secrets.need_the_way())
    }

    /// The cage's namespaces, from init.
    pub fn take_spaces(&mut self, descriptors: Vec<OwnedFd>) {
        let Ok([user, mounts]) = <[OwnedFd; 2]>::try_from(descriptors) else { return };
        for tree in &mut self.trees {
            if let (Ok(user), Ok(mounts)) = (user.try_clone(), mounts.try_clone()) {
                tree.secrets.take_the_way(user, mounts);
            }
        }
        self.hide();
    }

    fn take_at_once(&mut self, number: usize, relative: &Path) {
        let tree = &self.trees[number];
        let nothing = HashSet::new();
        let rules = Rules::new(&tree.root.path, &self.search, &nothing);
        let before = Before::new(&tree.start, Some(&tree.seen), &rules, Vec::new());
        // A link that has to be put back is left to the end: it could be replaced again and again.
        if self.aftermath.quarantined.len() >= MOST_AT_ONCE
            || before.link(relative).is_some()
            || before.judge(&tree.root, relative) != Verdict::New
        {
            return;
        }
        // What does not work now may work at the end, and is told then.
        if let Ok(Some(id)) = self.quarantine.take(&tree.root, relative, &tree.start.argv, Across::NotNow) {
            self.aftermath.quarantined.push(tree.quarantined(relative, &id));
        }
    }

    /// A command of a session has ended, and others go on: cleans the repositories that were noticed. What comes later is noticed later.
    pub fn clean_new(&mut self) {
        for tree in &mut self.trees {
            let root = &tree.root;
            tree.new_marks.retain(|mark| root.stat(mark).is_ok());
        }
        for tree in &self.trees {
            for mark in &tree.new_marks {
                clean_repository(tree.place(), mark, &self.quarantine, None, &mut self.aftermath);
            }
        }
    }

    /// Looks at what makes directories repositories, wherever they are, before the host's git is led to them. What the user has there is
    /// older than the run and stays.
    pub fn clean_marks(&mut self, marks: &[PathBuf]) {
        for tree in self.trees.iter().filter(|tree| tree.seen.tree.writable) {
            for mark in marks.iter().filter_map(|mark| mark.strip_prefix(&tree.root.path).ok()) {
                if !tree.start.marks.iter().any(|known| known == mark) {
                    let since = Some(tree.start.since);
                    clean_repository(tree.place(), mark, &self.quarantine, since, &mut self.aftermath);
                }
            }
        }
    }

    /// The command has ended: looks through the trees, and says what it found.
    pub fn finish(mut self) -> Aftermath {
        if let Some((count, errno)) = self.watch.unwatched {
            self.aftermath.not_watched = Some(format!("{count} directories: {}", reason(errno)));
        } else if self.watch.lost {
            self.aftermath.not_watched = Some("some events: more than the kernel keeps".into());
        }
        drop(self.watch);
        for tree in &self.trees {
            if self.has_started && tree.seen.tree.writable {
                let nothing = HashSet::new();
                let rules = Rules::new(&tree.root.path, &self.search, &nothing);
                let before = Before::new(
                    &tree.start,
                    Some(&tree.seen),
                    &rules,
                    skipped(&self.search, &tree.root.path),
                );
                let _opened = open_root(tree.place(), &mut self.aftermath);
                let met = sweep_up(tree.place(), &before, &self.quarantine, &mut self.aftermath);
                tree.secrets.tell_appeared(
                    &tree.root,
                    &met.secrets,
                    &|path| tree.shown(path),
                    &mut self.aftermath,
                );
            }
        }
        for tree in self.trees {
            if let Some(journal) = tree.journal {
                journal.close();
            }
        }
        self.aftermath
    }
}

/// All directories that are watched. The roots, and where something is hidden, come first.
fn directories(trees: &[Watched<'_>]) -> Vec<Place> {
    let mut places: Vec<Place> = Vec::new();
    for (number, tree) in trees.iter().enumerate() {
        places.push((number, PathBuf::new()));
        // A directory above may be replaced as well.
        let hidden = tree.secrets.folders().flat_map(Path::ancestors);
        places.extend(hidden.map(|path| (number, path.to_path_buf())));
    }
    for (number, tree) in trees.iter().enumerate().filter(|(_, tree)| tree.seen.tree.writable) {
        let known = &tree.seen.known;
        places.extend((0..known.len()).map(|directory| (number, known.path(directory).to_path_buf())));
    }
    places
}

impl Begin<'_> {
    /// What is known of a tree at the start.
    fn start(&self, root: &Root, since: i128) -> Result<Start, Errno> {
        let below = |path: &Path| {
            path.strip_prefix(&root.path).ok().filter(|path| !path.as_os_str().is_empty()).map(PathBuf::from)
        };
        let (mut known, mut links) = (Vec::new(), Vec::new());
        for foothold in &self.found.footholds {
            match (&foothold.is, below(&foothold.path)) {
                (Standing::Thing { .. }, Some(path)) => known.push(path),
                (Standing::Link { to }, Some(path)) => links.push((path, to.clone())),
                (_, None) => {}
            }
        }
        let files = self.found.marks.iter().filter(|mark| !mark.directory);
        let pointers =
            files.filter_map(|mark| below(&mark.path)).filter(|path| path.components().count() > 1);
        let pointers = pointers.filter_map(|path| root.small_file(&path).map(|text| (path, text))).collect();
        let granted = self.granted.iter().filter_map(|path| below(path));
        let granted = granted.filter_map(|path| footholds::guarded_above(&path).map(PathBuf::from)).collect();
        let led = self.found.secrets.iter().filter(|secret| secret.named != secret.path);
        let awaited = self.found.repositories.iter().flat_map(|one| &one.awaited).chain(&self.found.awaited);
        Ok(Start {
            project: root.path.clone(),
            identity: root.identity,
            mode: root.mode()?,
            since,
            argv: self.argv.clone(),
            known,
            hidden: led.filter_map(|secret| below(&secret.path)).collect(),
            awaited: awaited.filter_map(|path| below(path)).collect(),
            pointers,
            marks: self
                .found
                .marks
                .iter()
                .filter_map(|mark| mark.path.strip_prefix(&root.path).ok())
                .map(PathBuf::from)
                .collect(),
            granted,
            links,
            protected: self.protected,
            left_out: self.found.left_out.iter().filter_map(|path| below(path)).collect(),
            closed: self.found.unsearched.iter().filter_map(|it| below(&it.path)).collect(),
        })
    }
}

/// A tree whose end is looked at, and how its paths are told.
#[derive(Clone, Copy)]
struct Swept<'a> {
    root: &'a Root,
    start: &'a Start,
    is_grant: bool,
}

impl Swept<'_> {
    fn told_path(&self, relative: &Path) -> PathBuf {
        if self.is_grant { self.root.path.join(relative) } else { relative.into() }
    }

    fn shown(&self, relative: &Path) -> String {
        visible(self.told_path(relative).as_os_str())
    }
}

impl Watched<'_> {
    fn place(&self) -> Swept<'_> {
        Swept { root: &self.root, start: &self.start, is_grant: self.is_grant }
    }

    fn quarantined(&self, relative: &Path, id: &str) -> Quarantined {
        Quarantined::new(&self.place().told_path(relative), id)
    }
}

/// Opens the root of a tree for the look at it, and names it if the command has closed it, and with it everything.
fn open_root<'a>(tree: Swept<'a>, aftermath: &mut Aftermath) -> Option<OpenedRoot<'a>> {
    let path = || visible(tree.root.path.as_os_str());
    match tree.root.open_up(tree.start.mode) {
        Ok(opened) => {
            if opened.was_closed {
                aftermath.restored.push(path());
            }
            Some(opened)
        }
        Err(errno) => {
            aftermath.not_walked.push(format!("{} ({})", path(), reason(errno)));
            None
        }
    }
}

/// Takes what is new, and names what is to be told.
fn sweep_up(tree: Swept<'_>, before: &Before<'_>, quarantine: &Quarantine, aftermath: &mut Aftermath) -> Met {
    let Swept { root, start, .. } = tree;
    let (mut met, opened) = crate::sweep::walk(root, before);
    let take = |path: &Path| quarantine.take(root, path, &start.argv, Across::Copied);
    for path in &met.new {
        match take(path) {
            Ok(Some(id)) => aftermath.quarantined.push(Quarantined::new(&tree.told_path(path), &id)),
            Ok(None) => {}
            Err(errno) => aftermath.left.push(Left::new(&tree.told_path(path), cannot_take(errno))),
        }
    }
    for path in start.awaited.iter().filter(|path| root.stat(path).is_ok()) {
        match take(path) {
            Ok(Some(id)) => {
                aftermath.quarantined.push(Quarantined::run_by_git(&tree.told_path(path), &id, Vec::new()));
            }
            Ok(None) => {}
            Err(errno) => aftermath.left.push(Left::run_by_git(&tree.told_path(path), cannot_take(errno))),
        }
    }
    for (path, to) in &start.links {
        put_link_back(tree, path, to, quarantine, aftermath);
    }
    for (path, text) in &start.pointers {
        put_pointer_back(tree, path, text, quarantine, aftermath);
    }
    for mark in &met.repositories {
        clean_repository(tree, mark, quarantine, None, aftermath);
    }
    drop(opened);
    let unsure = if start.protected {
        "it was changed or moved here, and may be older than this run"
    } else {
        "it was changed, and is not protected here"
    };
    let changed = met.changed.iter().map(|path| Left::new(&tree.told_path(path), unsure.into()));
    aftermath.left.extend(changed);
    for (list, paths) in [(&mut aftermath.told, &met.told), (&mut aftermath.programs, &met.programs)] {
        list.extend(paths.iter().take(MOST_TOLD).map(|path| tree.shown(path)));
        aftermath.left_out += paths.len().saturating_sub(MOST_TOLD);
    }
    aftermath.not_walked.append(&mut met.not_walked);
    met
}

/// A `.git` file that leads elsewhere than before is taken out, and the old one stands again. One that is gone is gone.
fn put_pointer_back(
    tree: Swept<'_>,
    path: &Path,
    text: &[u8],
    quarantine: &Quarantine,
    aftermath: &mut Aftermath,
) {
    let root = tree.root;
    if root.stat(path).is_err() || root.small_file(path).as_deref() == Some(text) {
        return;
    }
    match quarantine.take(root, path, &tree.start.argv, Across::Copied) {
        Ok(Some(id)) => {
            aftermath.quarantined.push(Quarantined::run_by_git(&tree.told_path(path), &id, Vec::new()));
            let put = root.listing(Path::new("")).and_then(|base| put_settings(&base, path, text));
            if let Err(errno) = put {
                aftermath.left.push(Left::run_by_git(&tree.told_path(path), cannot_put_back(errno)));
            }
        }
        Ok(None) => {}
        Err(errno) => aftermath.left.push(Left::run_by_git(&tree.told_path(path), cannot_take(errno))),
    }
}

/// A clone of a repository that the command was shown borrows its objects by names that only the cage knows.
fn settle_clone(base: &OwnedFd, root: &Root, mark: &Path, start: &Start) {
    let objects = mark.join("objects");
    let Some(lent) = clones::lenders(base, &objects) else { return };
    let was_shown = |folder: &Path| {
        let inside = folder.strip_prefix(&root.path);
        inside.is_ok_and(|inside| start.marks.iter().any(|known| inside.starts_with(known)))
    };
    // What lies in the project the command could read in any case.
    let is_lender = |folder: &Path, lender: &Path| was_shown(folder) || lender.starts_with(&root.path);
    let at = root.path.join(&objects);
    // What could not be settled is taken out, as something that leads elsewhere.
    let _ = clones::settle(base, &objects, &lent, &at, &is_lender);
}

/// Takes out of a repository that the command made what git would run because of it. The repository stays.
fn clean_repository(
    tree: Swept<'_>,
    mark: &Path,
    quarantine: &Quarantine,
    since: Option<i128>,
    aftermath: &mut Aftermath,
) {
    let Swept { root, start, .. } = tree;
    let base = match root.listing(Path::new("")) {
        Ok(base) => base,
        Err(errno) => return aftermath.not_walked.push(format!("{} ({})", tree.shown(mark), reason(errno))),
    };
    settle_clone(&base, root, mark, start);
    let mut findings =
        inspect(base.as_fd(), mark, &root.path, &|path| start.marks.iter().any(|one| one == path));
    if let Some(since) = since {
        let touched = |path: &Path| root.stat(path).is_ok_and(|stat| i128::from(changed(&stat)) >= since);
        findings.out.retain(|path| touched(path));
        findings.settings.retain(|(path, _, _)| touched(path));
    }
    let mut take =
        |path: &Path, keys: Vec<String>| match quarantine.take(root, path, &start.argv, Across::Copied) {
            Ok(Some(id)) => {
                aftermath.quarantined.push(Quarantined::run_by_git(&tree.told_path(path), &id, keys));
                true
            }
            Ok(None) => false,
            Err(errno) => {
                aftermath.left.push(Left::run_by_git(&tree.told_path(path), cannot_take(errno)));
                false
            }
        };
    for path in &findings.out {
        take(path, Vec::new());
    }
    let mut not_written = Vec::new();
    for (path, kept, keys) in findings.settings {
        if take(&path, keys) && put_settings(&base, &path, &kept).is_err() {
            // Without them it is hardly a repository, and nothing runs.
            let fact = "its settings could not be written again".into();
            not_written.push(Left::run_by_git(&tree.told_path(&path), fact));
        }
    }
    aftermath.left.append(&mut not_written);
}

fn cannot_put_back(errno: Errno) -> String {
    format!("what stood there could not be put back: {}", reason(errno))
}

fn cannot_take(errno: Errno) -> String {
    match errno {
        Errno::FBIG => "it is too large to be copied into the quarantine".into(),
        errno => format!("it could not be taken into the quarantine: {}", reason(errno)),
    }
}

/// Where a link of the user's was replaced or removed, the link stands again: by it the next run knows what it leads to. Nothing is followed,
/// and nothing that stands there is lost.
fn put_link_back(
    tree: Swept<'_>,
    path: &Path,
    to: &Path,
    quarantine: &Quarantine,
    aftermath: &mut Aftermath,
) {
    let root = tree.root;
    if root.link(path).is_some_and(|now| now == to) {
        return;
    }
    if root.stat(path).is_ok() {
        match quarantine.take(root, path, &tree.start.argv, Across::Copied) {
            Ok(Some(id)) => aftermath.quarantined.push(Quarantined::new(&tree.told_path(path), &id)),
            Ok(None) => {}
            Err(errno) => {
                return aftermath.left.push(Left::new(&tree.told_path(path), cannot_take(errno)));
            }
        }
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return };
    match root.folder(parent).and_then(|folder| rustix::fs::symlinkat(to, &folder, name)) {
        Ok(()) => aftermath.restored.push(tree.shown(path)),
        // A process outside was faster.
        Err(Errno::EXIST) => {}
        Err(errno) => aftermath.left.push(Left::new(&tree.told_path(path), cannot_put_back(errno))),
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
    quarantine.finish_interrupted();
    let taken = quarantine.list();
    let mut recovered = Vec::new();
    for (run, journal, start) in abandoned {
        let mut aftermath = Aftermath::default();
        // What was taken while the command ran has not been told, or only to a terminal that went with it.
        let taken = taken.iter().filter(|entry| is_taken_in(entry, &start));
        aftermath.quarantined.extend(taken.map(|entry| Quarantined::new(&entry.about.path, &entry.id)));
        if let Some(root) = Root::open(&start.project).ok().filter(|root| root.identity == start.identity) {
            let nothing = HashSet::new();
            let search = Search::nothing(state);
            let rules = Rules::new(&root.path, &search, &nothing);
            let before = Before::new(&start, None, &rules, Vec::new());
            let tree = Swept { root: &root, start: &start, is_grant: run.contains('.') };
            let _opened = open_root(tree, &mut aftermath);
            sweep_up(tree, &before, &quarantine, &mut aftermath);
        }
        journal.close();
        recovered.push(Recovered { run, project: start.project, aftermath });
    }
    recovered
}

/// Whether something was taken out of this tree while that run was at work.
fn is_taken_in(entry: &Entry, start: &Start) -> bool {
    let since = u64::try_from(start.since / 1_000_000_000).unwrap_or(0);
    entry.about.root == start.identity && entry.about.argv == start.argv && entry.about.time >= since
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
