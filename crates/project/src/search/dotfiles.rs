//! The user's own secrets and start-up files in HOME. One of them may be a link that leads into a searched tree (a repository of dotfiles),
//! or have a second name there: what stands in the tree is then secret or protected as well.

use super::Search;
use super::leads::{Lead, follow, follow_below};
use keyward_policy::detect::OBEYED;
use keyward_policy::detect::secrets::{
    Store, is_of_store, is_secret_in_home, stores, stores_in, stores_of_own_agents,
};
use rustix::fs::{Dir, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::cell::LazyCell;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A file or directory of HOME that lies in a searched tree.
pub(crate) struct Led {
    /// Where it really is.
    pub(crate) real: PathBuf,
    pub(crate) stat: Stat,
    /// Where programs look for it.
    pub(crate) place: PathBuf,
    /// The links on the way.
    pub(crate) links: Vec<(PathBuf, PathBuf)>,
    /// Whether it must not be read; otherwise it must not be written.
    pub(crate) secret: bool,
}

/// Directories of HOME that many rows of the table lie in.
const CROWDED: [&str; 2] = [".config", ".local/share"];

/// What HOME says about the searched trees.
#[derive(Default)]
pub(crate) struct Dotfiles {
    pub(crate) led: Vec<Led>,
    /// Secret files with more than one name, by device and inode.
    pub(crate) linked: HashSet<(u64, u64)>,
    /// Those that lead through a closed directory.
    pub(crate) unresolved: Vec<PathBuf>,
}

/// Looks through the HOMEs. `is_searched` tells whether a path lies in a searched tree.
pub(crate) fn look(search: &Search<'_>, is_searched: &dyn Fn(&Path) -> bool) -> Dotfiles {
    let found = Dotfiles::default();
    let mut look = Look { search, is_searched, home: None, met: HashSet::new(), found };
    for home in &search.homes {
        look.home = follow(home).end.filter(|(real, _)| real == home).map(|(real, _)| real);
        // Most rows name something that is not there, and one listing answers for all of them.
        let names = list(home);
        let holds = |names: &Option<HashSet<OsString>>, relative: &str| {
            let first = relative.split('/').next().unwrap_or_default();
            names.as_ref().is_none_or(|names| first.is_empty() || names.contains(OsStr::new(first)))
        };
        let crowded =
            CROWDED.map(|directory| (directory, LazyCell::new(move || list(&home.join(directory)))));
        let may_stand = |relative: &str| {
            let below = |directory: &str| relative.strip_prefix(directory)?.strip_prefix('/');
            let mut above = crowded.iter().filter_map(|(directory, names)| Some((below(directory)?, names)));
            holds(&names, relative) && above.all(|(below, names)| holds(names, below))
        };
        let stores: Vec<Store> = match &names {
            Some(names) => {
                let mut names: Vec<&OsString> = names.iter().collect();
                names.sort_unstable();
                let below = names.into_iter().flat_map(|name| stores_in(name)).chain(stores_of_own_agents());
                below.filter(|store| may_stand(store.path)).chain([Store::HOME]).collect()
            }
            None => stores().collect(),
        };
        for Store { path, depth } in stores {
            look.store(&home.join(path), depth, names.as_ref().filter(|_| path.is_empty()));
        }
        for obeyed in OBEYED.iter().filter(|obeyed| may_stand(obeyed.path)) {
            let path = home.join(obeyed.path);
            let lead = look.follow(&path);
            look.unresolved(&lead, &path);
            look.led(lead, &path, false);
        }
    }
    look.found
}

struct Look<'a> {
    search: &'a Search<'a>,
    is_searched: &'a dyn Fn(&Path) -> bool,
    /// The HOME that is looked at, where no link leads to it.
    home: Option<PathBuf>,
    met: HashSet<PathBuf>,
    found: Dotfiles,
}

impl Look<'_> {
    fn follow(&self, path: &Path) -> Lead {
        match &self.home {
            Some(home) => {
                path.strip_prefix(home).map_or_else(|_| follow(path), |below| follow_below(home, below))
            }
            None => follow(path),
        }
    }

    /// A store, and what lies in it. Below HOME itself, and where only some names are secret, the table decides about each.
    fn store(&mut self, path: &Path, depth: usize, listed: Option<&HashSet<OsString>>) {
        // HOME itself: names that are not secret need no look, and there are many.
        if let Some(names) = listed {
            for name in names.iter().filter(|name| is_secret_in_home(name)) {
                self.store(&path.join(name), 0, None);
            }
            return;
        }
        let lead = self.follow(path);
        self.unresolved(&lead, path);
        let Some((real, stat)) = lead.end.clone() else { return };
        let is_secret = |path: &Path| is_of_store(path, &self.search.homes);
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile if is_secret(path) => {
                self.count(&real, &stat);
                self.led(lead, path, true);
            }
            FileType::Directory if depth > 0 => {
                // A store whose every file is secret, and that is a link as a whole.
                let whole = is_secret(&path.join("any")) && is_secret(&path.join("any/any"));
                if whole && (self.is_searched)(&real) {
                    return self.led(lead, path, true);
                }
                // Of Keyward's own files, which become many, only Keyward makes names.
                let names = if real == self.search.state { None } else { list(path) };
                for name in names.into_iter().flatten() {
                    self.store(&path.join(name), depth - 1, None);
                }
            }
            _ => {}
        }
    }

    /// Remembers a link that leads into a searched tree and through a directory that is closed to us.
    fn unresolved(&mut self, lead: &Lead, path: &Path) {
        if lead.closed.as_ref().is_some_and(|closed| (self.is_searched)(closed)) && !lead.links.is_empty() {
            self.found.unresolved.push(path.into());
        }
    }

    fn count(&mut self, real: &Path, stat: &Stat) {
        if self.search.may_have_names(stat) && !(self.is_searched)(real) {
            self.found.linked.insert((stat.st_dev, stat.st_ino));
        }
    }

    fn led(&mut self, lead: Lead, path: &Path, secret: bool) {
        let Lead { links, end: Some((real, stat)), .. } = lead else { return };
        if (self.is_searched)(&real) && !links.is_empty() && self.met.insert(path.into()) {
            self.found.led.push(Led { real, stat, place: path.into(), links, secret });
        }
    }
}

/// The names in a directory, none where no directory is. `None` if they cannot be listed.
fn list(path: &Path) -> Option<HashSet<OsString>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = match rustix::fs::open(path, flags, Mode::empty()) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Some(HashSet::new()),
        open => open.ok()?,
    };
    let entries = Dir::new(open).ok()?.flatten();
    let names = entries.map(|entry| OsStr::from_bytes(entry.file_name().to_bytes()).to_owned());
    Some(names.filter(|name| name != "." && name != "..").collect())
}
