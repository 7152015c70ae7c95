//! The repositories of one run, seen from the launcher: notices when one of their sides changes, and has a helper process bring both together,
//! so that a large import does not delay the command.

use super::base::open;
use super::exchange::{Moment, News, exchange};
use super::layer::{Layer, Run};
use super::place;
use super::refs;
use super::transport::{self, HostGit, Store};
use crate::lines;
use keyward_policy::outcome::{NewRemote, NotYet, Obstacle, Repository as Told, RepositoryNews};
use keyward_policy::text::visible;
use keyward_policy::untrusted::git::{Check, index};
use keyward_sys::confine;
use keyward_sys::file::write_all;
use keyward_sys::fork::{self, Forked, Namespaces, Process};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::inotify;
use std::ffi::OsStr;
use std::io::Read;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Changes are taken over at once, but not more often than this.
const PAUSE: Duration = Duration::from_millis(150);
/// A command that is done by then is not watched: the kernel takes milliseconds to end a watch.
const WATCHED_AFTER: Duration = Duration::from_millis(200);
/// Where a watch cannot be set up, both sides are looked at this often.
const UNWATCHED: Duration = Duration::from_millis(500);
/// How often, and how long, we wait at the end for a lock.
const TRIES: usize = 40;
const WAIT: Duration = Duration::from_millis(50);
const HEADER: &str = "keyward exchange 1";

/// The repositories of one run.
pub struct Publisher {
    git: Option<HostGit>,
    run: Option<Run>,
    layers: Vec<Layer>,
    told: Vec<Told>,
    inbox: Option<OwnedFd>,
    due: Option<Instant>,
    worked: Option<Instant>,
    helper: Option<Helper>,
    has_started: bool,
}

/// A process that brings both sides together, and where it tells what came of it.
struct Helper {
    process: Process,
    answer: OwnedFd,
}

impl Publisher {
    pub fn new(git: Option<HostGit>, mut run: Option<Run>) -> Self {
        let layers = run.as_mut().map(|run| std::mem::take(&mut run.layers)).unwrap_or_default();
        let told = layers.iter().map(|_| Told::default()).collect();
        Publisher {
            git,
            run,
            layers,
            told,
            inbox: None,
            due: None,
            worked: None,
            helper: None,
            has_started: false,
        }
    }

    /// The command runs: from here on both sides may change.
    pub fn start(&mut self) {
        self.has_started = true;
        if !self.layers.is_empty() {
            self.due = Some(Instant::now() + WATCHED_AFTER);
        }
    }

    /// From here on we are told of changes. Folders that are watched already stay watched.
    fn watch(&mut self) {
        if self.inbox.is_none() {
            let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
            self.inbox = inotify::init(flags).ok();
        }
        let Some(inbox) = &self.inbox else { return };
        let changes = inotify::WatchFlags::MOVED_TO
            | inotify::WatchFlags::CREATE
            | inotify::WatchFlags::DELETE
            | inotify::WatchFlags::CLOSE_WRITE;
        let mut complete = true;
        for layer in &self.layers {
            for part in &layer.about.folder.parts {
                for side in [layer.git().join(&part.at), layer.about.folder.path.join(&part.at)] {
                    let Ok(folder) = open(&side) else { continue };
                    let Some(below) = refs::folders(&folder) else {
                        complete = false;
                        continue;
                    };
                    for path in below.into_iter().map(|below| side.join(below)).chain([side.clone()]) {
                        complete &= inotify::add_watch(inbox, path, changes).is_ok();
                    }
                }
            }
        }
        if !complete {
            self.inbox = None;
        }
    }

    /// What is to be waited for: an answer, or a change.
    pub fn inbox(&self) -> Option<BorrowedFd<'_>> {
        match &self.helper {
            Some(helper) => Some(helper.answer.as_fd()),
            None => self.inbox.as_ref().map(AsFd::as_fd),
        }
    }

    /// How long the next work can wait.
    pub fn due_in(&self) -> Option<Duration> {
        let due = self.due.filter(|_| self.helper.is_none());
        due.map(|due| due.saturating_duration_since(Instant::now()))
    }

    /// Something has changed, or the pause is over, or the helper is done.
    pub fn work(&mut self, told: bool) {
        if self.helper.is_some() {
            if told {
                self.collect();
            }
            return;
        }
        if told && let Some(inbox) = &self.inbox {
            let mut space = [MaybeUninit::uninit(); 4096];
            let mut events = inotify::Reader::new(inbox, &mut space);
            // What counts is put in its place under the name of a lock first.
            let mut counts = false;
            while let Ok(event) = events.next() {
                counts |= event.file_name().is_none_or(|name| !name.to_bytes().ends_with(b".lock"));
            }
            if counts {
                let now = Instant::now();
                let next = self.worked.map_or(now, |worked| now.max(worked + PAUSE));
                self.due.get_or_insert(next);
            }
        }
        if self.due.is_some_and(|due| due <= Instant::now()) {
            self.due = None;
            self.watch();
            self.worked = Some(Instant::now());
            self.send_helper();
        }
    }

    fn send_helper(&mut self) {
        let Some(git) = &self.git else { return };
        let Ok((answer, to)) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC) else { return };
        let parent = rustix::process::getpid();
        match fork::fork_into(Namespaces::default()) {
            Ok(Forked::Child) => {
                drop(answer);
                // Set first, then looked at: a parent that is killed in between is seen.
                let is_tied =
                    confine::die_with_parent().is_ok() && rustix::process::getppid() == Some(parent);
                let told = is_tied
                    .then(|| spelled(&exchange_all(git, self.run.as_ref(), &self.layers, Moment::Running)));
                let sent = told.is_some_and(|text| write_all(&to, text.as_bytes()).is_ok());
                fork::exit_now(i32::from(!sent))
            }
            Ok(Forked::Parent(process)) => self.helper = Some(Helper { process, answer }),
            // The end of the run is then when changes are taken over.
            Err(_) => {}
        }
    }

    /// Waits for the helper, and remembers what it has to say.
    fn collect(&mut self) {
        let Some(Helper { process, answer }) = self.helper.take() else { return };
        let mut text = Vec::new();
        let read = std::fs::File::from(answer).read_to_end(&mut text);
        let _ = process.wait();
        let mut is_busy = true;
        if let (Ok(_), Some(all)) = (read, news(&text)) {
            is_busy = all.iter().any(|news| news.is_busy);
            self.remember(all);
        }
        if is_busy {
            self.due = Some(Instant::now() + PAUSE);
        } else if self.inbox.is_none() {
            self.due = Some(Instant::now() + UNWATCHED);
        }
    }

    fn remember(&mut self, all: Vec<News>) {
        for (told, news) in self.told.iter_mut().zip(all) {
            join(told, news.told);
        }
    }

    /// Brings both sides together now, as far as that can be done while commands run.
    pub fn sync(&mut self) {
        self.collect();
        let Some(git) = &self.git else { return };
        let all = exchange_all(git, self.run.as_ref(), &self.layers, Moment::Running);
        self.remember(all);
        self.worked = Some(Instant::now());
    }

    /// The cage is gone. What stands in the project may belong to a submodule or a working tree that the command has made: the host has those
    /// before they are read.
    pub fn settle(&mut self) {
        self.collect();
        let Some(git) = &self.git else { return };
        // One repository may be the remote of another: what was pushed there is there before it is asked for.
        if self.has_started && (self.layers.len() > 1 || !self.gitlinks().is_empty()) {
            let all = exchange_all(git, self.run.as_ref(), &self.layers, Moment::Settling);
            self.remember(all);
        }
    }

    pub fn has_repositories(&self) -> bool {
        !self.layers.is_empty()
    }

    /// The `.git` of every folder that an index of the command's or the host's names as a repository.
    pub fn gitlinks(&self) -> Vec<PathBuf> {
        let mut all = Vec::new();
        for layer in &self.layers {
            let folder = &layer.about.folder.path;
            let Some(tree) = folder.parent().filter(|_| folder.ends_with(".git")) else { continue };
            if !layer.has_new_index() && !layer.git().join("modules").exists() {
                continue;
            }
            for side in [&layer.git(), folder] {
                let Ok(side) = open(side) else { continue };
                let id_length = super::inspect::id_length(&side);
                let Ok((content, _)) = place::read(&side, Path::new("index"), Check::Index.most()) else {
                    continue;
                };
                let links = index::gitlinks(&content, id_length);
                all.extend(links.iter().map(|link| tree.join(OsStr::from_bytes(link)).join(".git")));
            }
        }
        all.sort();
        all.dedup();
        all
    }

    /// The cage is gone: what is left to take over, and what is to be told.
    pub fn finish(mut self) -> Vec<Told> {
        self.collect();
        let layers = std::mem::take(&mut self.layers);
        if !self.has_started {
            layers.into_iter().for_each(Layer::drop_with_run);
        } else {
            for (layer, told) in layers.into_iter().zip(&mut self.told) {
                if let Some(git) = &self.git {
                    let concluded = conclude(git, self.run.as_ref(), layer);
                    told.new_remotes.clone_from(&concluded.new_remotes);
                    join(told, concluded);
                }
            }
        }
        if let Some(run) = self.run {
            run.end();
        }
        self.told.into_iter().filter(Told::says_something).collect()
    }
}

/// Brings both sides of several repositories together.
fn exchange_all(git: &HostGit, run: Option<&Run>, layers: &[Layer], moment: Moment) -> Vec<News> {
    let work = || layers.iter().map(|layer| exchange(git, layer, moment)).collect();
    match run {
        Some(run) => run.with_lock_lent(work),
        None => work(),
    }
}

/// Takes over what is left, and puts the private repository away.
fn conclude(git: &HostGit, run: Option<&Run>, layer: Layer) -> Told {
    let mut told = Told::default();
    let mut tries = 0;
    let is_refused = loop {
        let all = exchange_all(git, run, std::slice::from_ref(&layer), Moment::Ended);
        let Some(news) = all.into_iter().next() else { return told };
        // What counts is how things stand at the end.
        told.new_remotes.clone_from(&news.told.new_remotes);
        join(&mut told, news.told);
        if !news.is_busy || tries == TRIES {
            break news.is_refused || news.is_busy || !told.troubles.is_empty();
        }
        tries += 1;
        std::thread::sleep(WAIT);
    };
    if told.needs_room() {
        layer.wait_for_room();
    } else if is_refused {
        join(&mut told, set_aside(layer, ""));
    } else {
        layer.drop_with_run();
    }
    told
}

/// Says where a private repository is kept.
fn set_aside(layer: Layer, why: &str) -> Told {
    let folder = &layer.about.folder.path;
    let mut told = Told::new(folder.strip_prefix(&layer.about.project).unwrap_or(folder));
    told.troubles.extend((!why.is_empty()).then(|| RepositoryNews::new(Path::new(""), why)));
    told.kept_in = Some(layer.root.display().to_string());
    layer.set_aside();
    told
}

/// What became of what killed launchers had still to take over.
#[derive(Default)]
pub struct Recovered {
    pub repositories: Vec<Told>,
    /// What a later run takes over.
    pub not_yet: Vec<NotYet>,
}

/// Finishes what launchers that were killed had still to take over.
pub fn recover(store: &Path, path: &OsStr) -> Recovered {
    let (runs, held) = Run::left_behind(store);
    let not_yet = |folder: &Path, why| NotYet { path: visible(folder.as_os_str()), why };
    let mut recovered = Recovered::default();
    recovered.not_yet.extend(held.iter().map(|held| {
        let lock = held.lock.display().to_string();
        not_yet(&held.folder, Obstacle::Held { lock })
    }));
    // Looked for when there is something to do.
    let mut git = None;
    for mut run in runs {
        let layers = std::mem::take(&mut run.layers);
        if !layers.is_empty() {
            let Some(git) = git.get_or_insert_with(|| HostGit::find(path)) else {
                let folders = layers.iter().map(|layer| &layer.about.folder.path);
                recovered.not_yet.extend(folders.map(|folder| not_yet(folder, Obstacle::NoGit)));
                continue;
            };
            let run = Some(&run);
            recovered.repositories.extend(layers.into_iter().map(|layer| {
                remove_stale(&layer);
                match layer.is_tried_enough() {
                    true => set_aside(layer, "three runs could not take it over"),
                    false => conclude(git, run, layer),
                }
            }));
        }
        run.end();
    }
    recovered.repositories.retain(Told::says_something);
    recovered
}

/// Removes objects that were being checked when their launcher was killed.
fn remove_stale(layer: &Layer) {
    for part in layer.about.folder.parts.iter().filter(|part| !part.is_worktree) {
        let Some((objects, lent)) = part.objects.split_first() else { continue };
        transport::remove_stale(&Store {
            objects: objects.clone(),
            alternates: lent.to_vec(),
            scratch: layer.about.folder.path.join(&part.at),
            id_length: 20,
            is_partial: false,
        });
    }
}

fn join(told: &mut Told, more: Told) {
    if told.path.is_empty() {
        told.path = more.path;
    }
    let add = |all: &mut Vec<RepositoryNews>, more: Vec<RepositoryNews>| {
        for news in more {
            if !all.contains(&news) {
                all.push(news);
            }
        }
    };
    for name in more.taken_over {
        if !told.taken_over.contains(&name) {
            told.taken_over.push(name);
        }
    }
    add(&mut told.kept_back, more.kept_back);
    add(&mut told.conflicts, more.conflicts);
    add(&mut told.troubles, more.troubles);
    add(&mut told.notices, more.notices);
    told.kept_in = more.kept_in.or(told.kept_in.take());
}

/// For the way out of the helper.
fn spelled(all: &[News]) -> String {
    let mut lines: Vec<(&str, Vec<&[u8]>)> = Vec::new();
    for news in all {
        let busy: &[u8] = if news.is_busy { b"busy" } else { b"done" };
        lines.push(("repository", vec![news.told.path.as_bytes(), busy]));
        lines.extend(news.told.taken_over.iter().map(|name| ("taken", vec![name.as_bytes()])));
        lines.extend(news.told.new_remotes.iter().map(|remote| {
            ("remote", vec![remote.path.as_bytes(), remote.name.as_bytes(), remote.url.as_bytes()])
        }));
        let lists = [
            ("kept", &news.told.kept_back),
            ("conflict", &news.told.conflicts),
            ("trouble", &news.told.troubles),
            ("notice", &news.told.notices),
        ];
        for (name, list) in lists {
            lines.extend(list.iter().map(|news| (name, vec![news.path.as_bytes(), news.why.as_bytes()])));
        }
    }
    lines::write(HEADER, lines)
}

fn news(text: &[u8]) -> Option<Vec<News>> {
    let mut all: Vec<News> = Vec::new();
    for (name, values) in lines::read(HEADER, text)? {
        let text = |at: usize| values.get(at).map(|value| value.to_string_lossy().into_owned());
        let first = text(0)?;
        if name == "repository" {
            let mut news = News::default();
            news.told.path = first;
            news.is_busy = text(1)? == "busy";
            all.push(news);
            continue;
        }
        let told = &mut all.last_mut()?.told;
        match name.as_str() {
            "taken" => told.taken_over.push(first),
            "remote" => {
                told.new_remotes.push(NewRemote { path: first, name: text(1)?, url: text(2)? });
            }
            other => {
                let news = RepositoryNews { path: first, why: text(1)?, kept: None };
                match other {
                    "kept" => told.kept_back.push(news),
                    "conflict" => told.conflicts.push(news),
                    "trouble" => told.troubles.push(news),
                    "notice" => told.notices.push(news),
                    _ => return None,
                }
            }
        }
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::super::exchange::tests::repository;
    use super::*;

    #[test]
    fn what_the_helper_tells_survives_the_way_out() {
        let mut one = News { is_busy: true, ..News::default() };
        one.told.path = ".git".into();
        one.told.taken_over.push("refs/heads/a b".into());
        one.told.conflicts.push(RepositoryNews::new(Path::new("index"), "both sides changed it"));
        let text = spelled(&[one, News::default()]);
        let back = news(text.as_bytes()).expect("readable");
        assert_eq!((back.len(), back[0].is_busy, back[1].is_busy), (2, true, false));
        assert_eq!(back[0].told.taken_over, ["refs/heads/a b"]);
        assert_eq!(back[0].told.conflicts[0].why, "both sides changed it");
    }

    /// A git of the host's can outlive its launcher, and holds the lock as long as it works.
    #[test]
    fn what_an_orphan_works_on_is_named_and_taken_over_later() {
        let all = repository();
        let (tree, store) = (all.tree.clone(), all.tree.with_file_name("store"));
        all.git(&all.run.layers[0].git(), "echo two > a; git commit -qam second");
        let mut sleep = std::process::Command::new("sleep");
        let mut orphan = all.run.with_lock_lent(|| sleep.arg("600").spawn().unwrap());
        // A launcher that is no more.
        let mut gone = std::process::Command::new("true").spawn().unwrap();
        gone.wait().unwrap();
        let lock = all.run.layers[0].root.with_file_name("lock");
        std::fs::write(&lock, gone.id().to_string()).unwrap();
        let folder = all.leave();
        let subject = || {
            let log = ["log", "-1", "--format=%s"];
            let output = std::process::Command::new("git").arg("-C").arg(&tree).args(log).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };

        let first = recover(&store, OsStr::new(""));
        let lock = lock.display().to_string();
        let held = NotYet { path: tree.join(".git").display().to_string(), why: Obstacle::Held { lock } };
        assert_eq!((first.not_yet, first.repositories), (vec![held], Vec::new()));
        assert_eq!(subject(), "first\n");

        orphan.kill().unwrap();
        orphan.wait().unwrap();
        let second = recover(&store, OsStr::new(""));
        assert_eq!(second.not_yet, Vec::new());
        assert!(second.repositories[0].taken_over.contains(&"refs/heads/main".to_owned()));
        assert_eq!(subject(), "second\n");
        drop(folder);
    }
}
