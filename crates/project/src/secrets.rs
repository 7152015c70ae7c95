//! Secret files that are replaced or appear while the command runs. What was hidden is hidden again, and so is what the user named; what
//! only looks secret is named at the end, because it may be the command's own.

use crate::mask::{self, Spaces};
use crate::search::walk::changed;
use crate::tree::Root;
use keyward_policy::aftermath::Aftermath;
use keyward_policy::facts::PathFact;
use rustix::fd::OwnedFd;
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Names that are told at the most.
const MOST_TOLD: usize = 64;

/// What a name tells about a file.
#[derive(Clone, Copy)]
pub struct Names<'a> {
    /// The user wrote that what stands at this path is to be hidden, also if the command makes it.
    pub is_to_be_hidden: &'a dyn Fn(&Path) -> bool,
    /// The user wrote that what stands at this path is no secret.
    pub is_shown: &'a dyn Fn(&Path) -> bool,
}

/// Device, inode and change time: an inode alone may be used again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    inode: u64,
    changed: i64,
}

impl Identity {
    /// The identity of what stood at a path when the plan asked about it.
    pub fn of(fact: &PathFact) -> Self {
        Identity { device: fact.device, inode: fact.inode, changed: fact.changed }
    }
}

fn identity(root: &Root, relative: &Path) -> Option<Identity> {
    let stat = root.stat(relative).ok()?;
    Some(Identity { device: stat.st_dev, inode: stat.st_ino, changed: changed(&stat) })
}

/// What is hidden by a mask from the start.
pub struct Masked {
    pub path: PathBuf,
    /// What the command reads instead; `None` where it can open nothing.
    pub reads_as: Option<Vec<u8>>,
    /// What stood there, if that is known already.
    pub stood: Option<Identity>,
}

/// What is hidden at a path.
struct Hidden {
    /// What stood there when we last looked.
    identity: Option<Identity>,
    /// What the command sees instead; `None` where it can open nothing.
    reads_as: Option<Vec<u8>>,
}

/// The secrets of one tree.
pub(crate) struct Secrets<'a> {
    names: Names<'a>,
    /// What is hidden from the start, relative to the tree.
    // By their bytes: as paths they would be taken apart for every look.
    hidden: HashMap<OsString, Hidden>,
    /// What has to be added to `hidden` before it is asked. Most commands end before that, and there may be thousands.
    later: Option<Rc<[Masked]>>,
    spaces: Option<Spaces>,
    /// What has to be hidden as soon as we have the way into the cage.
    waiting: Vec<PathBuf>,
}

impl<'a> Secrets<'a> {
    pub(crate) fn new(root: &Root, names: Names<'a>, masked: &Rc<[Masked]>) -> Self {
        // What stood at the others is known already.
        let unknown = masked.iter().filter(|one| one.stood.is_none());
        let hidden = unknown.filter_map(|one| {
            let path = one.path.strip_prefix(&root.path).ok()?;
            Some((path.into(), Hidden { identity: identity(root, path), reads_as: one.reads_as.clone() }))
        });
        let (hidden, later) = (hidden.collect(), Some(masked.clone()));
        Secrets { names, hidden, later, spaces: None, waiting: Vec::new() }
    }

    /// Prepares for questions about what is hidden.
    pub(crate) fn remember(&mut self, root: &Root) {
        for one in self.later.take().iter().flat_map(|later| later.iter()) {
            if let (Some(identity), Ok(path)) = (one.stood, one.path.strip_prefix(&root.path)) {
                let hidden = Hidden { identity: Some(identity), reads_as: one.reads_as.clone() };
                self.hidden.insert(path.into(), hidden);
            }
        }
    }

    /// The folders in which something is hidden.
    pub(crate) fn folders(&self) -> impl Iterator<Item = &Path> {
        self.hidden.keys().filter_map(|path| Path::new(path).parent())
    }

    /// A name has appeared. The command cannot have replaced what is hidden from it, so a process outside has.
    pub(crate) fn noticed(&mut self, root: &Root, relative: &Path) {
        let is_new = match self.hidden.get_mut(relative.as_os_str()) {
            Some(hidden) => {
                let now = identity(root, relative);
                std::mem::replace(&mut hidden.identity, now) != now
            }
            None => (self.names.is_to_be_hidden)(&root.path.join(relative)),
        };
        if is_new {
            self.waiting.push(relative.into());
        }
    }

    /// A folder is watched from now on: what is hidden there may have been replaced before.
    pub(crate) fn watched(&mut self, root: &Root, folder: &Path) {
        let here = self.hidden.keys().map(Path::new).filter(|path| path.parent() == Some(folder));
        let here: Vec<PathBuf> = here.map(PathBuf::from).collect();
        here.iter().for_each(|path| self.noticed(root, path));
    }

    /// Some of what happened was lost: whatever is hidden may have been replaced.
    pub(crate) fn look_at_all(&mut self, root: &Root) {
        let all: Vec<PathBuf> = self.hidden.keys().map(PathBuf::from).collect();
        all.iter().for_each(|path| self.noticed(root, path));
    }

    /// Whether the launcher has to ask for the way into the cage.
    pub(crate) fn need_the_way(&self) -> bool {
        self.spaces.is_none() && !self.waiting.is_empty()
    }

    /// The way into the cage, from init.
    pub(crate) fn take_the_way(&mut self, user: OwnedFd, mounts: OwnedFd) {
        self.spaces = Some(Spaces { user, mounts });
    }

    /// Hides what waits for it. `shown` is how a path is told.
    pub(crate) fn hide(&mut self, root: &Root, shown: &dyn Fn(&Path) -> String, aftermath: &mut Aftermath) {
        let Some(spaces) = &self.spaces else { return };
        for path in std::mem::take(&mut self.waiting) {
            let empty = Some(Vec::new());
            let reads_as = self.hidden.get(path.as_os_str()).map_or(&empty, |hidden| &hidden.reads_as);
            match mask::hide(spaces, root, &path, reads_as.as_deref()) {
                Ok(mask::Hidden::Now) => tell(&mut aftermath.hidden_later, shown(&path)),
                Ok(mask::Hidden::Already) => {}
                Err(_) => tell(&mut aftermath.not_hidden, shown(&path)),
            }
        }
    }

    /// Names what looks secret and was not there at the start.
    pub(crate) fn tell_appeared(
        &self,
        root: &Root,
        found: &[PathBuf],
        shown: &dyn Fn(&Path) -> String,
        aftermath: &mut Aftermath,
    ) {
        for path in found {
            let place = root.path.join(path);
            let is_masked = |later: &Rc<[Masked]>| later.iter().any(|one| one.path == place);
            let known = self.hidden.contains_key(path.as_os_str())
                || self.later.as_ref().is_some_and(is_masked)
                || (self.names.is_shown)(&place);
            if !known && !aftermath.hidden_later.contains(&shown(path)) {
                tell(&mut aftermath.appeared, shown(path));
            }
        }
    }
}

fn tell(list: &mut Vec<String>, path: String) {
    if list.len() < MOST_TOLD && !list.contains(&path) {
        list.push(path);
    }
}
