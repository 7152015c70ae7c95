//! The acts that build the view on an empty root: parents before what lies in them, masks last.

use super::{Act, Bind, Repository, Substitute};
use crate::gate::Script;
use crate::plan::Plan;
use crate::view::{CACHE, Entry, FOOTHOLD, OWN_PROGRAM, Shown, Source, covering};
use crate::words::NetMode;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Adds the acts for all entries of the view.
pub(super) fn build(plan: &Plan, acts: &mut Vec<Act>) {
    let mut view = View {
        shown: plan.view.shown(),
        has_network: plan.net.value != NetMode::None,
        acts,
        made: HashSet::new(),
        pinned: OsString::new(),
        masks: None,
        substitutes: HashMap::new(),
    };
    plan.view.entries.iter().for_each(|entry| view.entry(entry));
    plan.view.links.iter().for_each(|link| view.pin_above(link));
    plan.gate.scripts.iter().for_each(|script| view.judged(script));
}

struct View<'a> {
    shown: &'a [Entry],
    has_network: bool,
    acts: &'a mut Vec<Act>,
    /// Directories that are there already.
    made: HashSet<OsString>,
    /// The last directory that was pinned with those above it.
    pinned: OsString,
    /// The act that makes what masks show, and which of them there are.
    masks: Option<usize>,
    substitutes: HashMap<Substitute, usize>,
}

impl View<'_> {
    fn entry(&mut self, entry: &Entry) {
        let target = entry.target.as_path();
        let at = || entry.target.clone();
        match &entry.shown {
            Shown::ReadOnly(source) => {
                if [FOOTHOLD, OWN_PROGRAM].contains(&entry.rule) {
                    self.pin_above(target);
                }
                self.bind(target, source, true, false);
            }
            Shown::Writable(source) => self.bind(target, source, false, entry.rule == CACHE),
            Shown::Private { mode } => {
                // Where the host is shown already, the cage's own directory stands beside and is put on top.
                let from = match self.is_shown(target) {
                    true => PathBuf::from(format!("/.private-{}", self.acts.len())),
                    false => at(),
                };
                self.directory(&from, *mode);
                self.acts.push(Act::Own { from, at: at() });
            }
            // Over a file of the host.
            Shown::Text { text } if self.is_shown(target) => {
                self.acts.push(Act::Judged { way: at(), at: at(), text: text.clone(), pinned: true });
            }
            Shown::Text { text } => {
                self.parents(target);
                self.acts.push(Act::Text { at: at(), text: text.clone() });
            }
            Shown::Link { to } => {
                self.parents(target);
                let to = to.clone();
                self.acts.push(match self.is_foreign(target) {
                    true => Act::KeptLink { at: at(), to },
                    false => Act::Link { at: at(), to },
                });
            }
            Shown::Device => {
                self.parents(target);
                self.acts.push(Act::File { at: at() });
                // Read-only keeps its mode and owner from being changed; a device is written to all the same.
                self.same_as_outside(target, false);
            }
            Shown::FreshProc => {
                self.directory(target, 0o555);
                self.acts.push(Act::FreshProc { at: at() });
            }
            Shown::SharedProc => {
                self.directory(target, 0o555);
                self.same_as_outside(target, true);
            }
            Shown::Terminals => {
                self.directory(target, 0o755);
                self.acts.push(Act::Terminals { at: at() });
            }
            Shown::Queues => {
                self.directory(target, 0o755);
                self.acts.push(Act::Queues { at: at() });
            }
            Shown::Repository { source, parts, store, git, exclude, hidden, is_nameless } => {
                self.place_for(target, true);
                let from = Repository {
                    parts: parts.clone(),
                    store: store.clone(),
                    git: git.clone(),
                    exclude: exclude.clone(),
                    hidden: hidden.clone(),
                    has_network: self.has_network,
                    is_nameless: *is_nameless,
                };
                self.acts.push(Act::Repository { at: at(), source: source.clone(), from });
            }
            Shown::Cache { store, below } => self.layer(target, Some(store), below),
            Shown::Layer(below) => self.layer(target, None, below),
            // The launcher puts it there.
            Shown::Copied { .. } => {}
            Shown::Login { text, .. } => {
                // In a HOME that is kept it stands over an empty file, for this cage alone.
                let over = self.is_foreign(target);
                match over {
                    true => self.place_for(target, false),
                    false => self.parents(target),
                }
                self.acts.push(Act::Login { at: at(), text: text.clone(), over });
            }
            Shown::Hidden { directory, reads_as } => {
                self.pin_above(target);
                let by = self.substitute(Substitute { directory: *directory, text: reads_as.clone() });
                self.acts.push(Act::Mask { at: at(), by });
            }
        }
    }

    /// Makes the directories above a target, as far as they are on our own root.
    fn parents(&mut self, target: &Path) {
        if let Some(parent) = target.parent() {
            self.directory(parent, 0o755);
        }
    }

    fn directory(&mut self, path: &Path, mode: u32) {
        if path == Path::new("/") || self.made.contains(path.as_os_str()) || self.is_shown(path) {
            return;
        }
        self.parents(path);
        self.made.insert(path.into());
        self.acts.push(match self.is_foreign(path) {
            true => Act::KeptDirectory { at: path.into() },
            false => Act::Directory { at: path.into(), mode },
        });
    }

    /// Whether a path lies in a tree of the host, where others may write or have written.
    fn is_foreign(&self, path: &Path) -> bool {
        path.parent().is_some_and(|above| covering(self.shown, above).is_some_and(Entry::shows_host))
    }

    /// Whether the host's files are shown at this path, so that nothing has to be made.
    fn is_shown(&self, path: &Path) -> bool {
        // Strictly above or at the path, not the entry that is being made there.
        path.parent().is_some_and(|above| covering(self.shown, above).is_some_and(Entry::shows_in_place))
    }

    fn bind(&mut self, target: &Path, source: &Source, read_only: bool, lock: bool) {
        if self.is_shown(target) && source.path == target {
            self.pin_above(target);
        } else {
            self.place_for(target, source.directory);
        }
        let foreign = self.is_foreign(target);
        let (at, source) = (target.to_path_buf(), source.clone());
        self.acts.push(Act::Bind(Bind {
            at,
            source,
            read_only,
            no_dev: true,
            no_exec: false,
            foreign,
            lock,
        }));
    }

    /// Makes what something can be put over that comes from elsewhere.
    fn place_for(&mut self, target: &Path, directory: bool) {
        if self.is_shown(target) {
            self.pin_above(target);
        }
        self.place(target, directory);
    }

    /// Something of the host at the place it has outside, on our own root.
    fn same_as_outside(&mut self, target: &Path, no_dev: bool) {
        let source =
            Source { path: target.into(), expect: None, callers_own: false, directory: no_dev, make: false };
        self.acts.push(Act::Bind(Bind {
            at: target.into(),
            source,
            read_only: true,
            no_dev,
            no_exec: true,
            foreign: false,
            lock: false,
        }));
    }

    /// Makes what something can be put over.
    fn place(&mut self, target: &Path, directory: bool) {
        match target.parent().filter(|_| self.is_foreign(target)) {
            Some(above) => {
                // The directories above may be missing as well.
                if !self.is_foreign(above) || !self.made.contains(above.as_os_str()) {
                    self.place_above(above);
                }
                self.made.insert(target.into());
                self.acts.push(match directory {
                    true => Act::KeptDirectory { at: target.into() },
                    false => Act::KeptFile { at: target.into() },
                });
            }
            None if directory => self.directory(target, 0o755),
            None => {
                self.parents(target);
                self.acts.push(Act::File { at: target.into() });
            }
        }
    }

    /// Makes the directories above a place in a tree that is kept.
    fn place_above(&mut self, above: &Path) {
        if !self.shown.iter().any(|entry| entry.target == above) && !self.made.contains(above.as_os_str()) {
            self.place(above, true);
        }
    }

    fn layer(&mut self, target: &Path, store: Option<&Source>, below: &Source) {
        if !(self.is_shown(target) && below.path == target) {
            self.place(target, true);
        }
        self.acts.push(Act::Layer { at: target.into(), store: store.cloned(), below: below.clone() });
    }

    /// What masks show, each once. Those of a view stand together at its end.
    fn substitute(&mut self, wanted: Substitute) -> usize {
        let place = match self.masks {
            Some(place) => place,
            None => {
                self.acts.push(Act::Masks { substitutes: Vec::new() });
                *self.masks.insert(self.acts.len() - 1)
            }
        };
        if let Some(&number) = self.substitutes.get(&wanted) {
            return number;
        }
        let Some(Act::Masks { substitutes: all }) = self.acts.get_mut(place) else { return 0 };
        let number = all.len();
        self.substitutes.insert(wanted.clone(), number);
        all.push(wanted);
        number
    }

    /// A script that was judged stands there as it was then.
    fn judged(&mut self, script: &Script) {
        if script.pinned {
            self.pin_above(&script.real);
        }
        self.acts.push(Act::Judged {
            way: script.way.clone(),
            at: script.real.clone(),
            text: script.text.clone(),
            pinned: script.pinned,
        });
    }

    /// Pins the directories above a mask: a process that may write there could move the directory and put another in its place,
    /// for the next run or for programs outside. A mount cannot be moved.
    fn pin_above(&mut self, path: &Path) {
        // Many masks stand beside each other.
        let parent = path.parent().map(Path::as_os_str).unwrap_or_default();
        if self.pinned == parent {
            return;
        }
        self.pinned = parent.into();
        let above = path.parent().and_then(|directory| covering(self.shown, directory));
        let Some(Entry { target, shown: Shown::Writable(_), .. }) = above else { return };
        let directories: Vec<&Path> = path.ancestors().skip(1).take_while(|it| it != target).collect();
        for directory in directories.into_iter().rev() {
            if self.made.insert(directory.into()) {
                self.acts.push(Act::Pin { at: directory.into() });
            }
        }
    }
}
