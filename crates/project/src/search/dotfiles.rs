//! The user's own secrets and start-up files in HOME. One of them may be a link that leads into a searched tree (a repository of dotfiles),
//! or have a second name there: what stands in the tree is then secret or protected as well.

use super::leads::{Lead, follow};
use keyward_policy::detect::{OBEYED, secret_file, stores_of};
use rustix::fs::{Dir, FileType, Mode, OFlags, Stat};
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A file or directory of HOME that lies in a searched tree.
pub(crate) struct Led {
    /// Where it really is.
    pub(crate) real: PathBuf,
    pub(crate) stat: Stat,
    /// The links on the way.
    pub(crate) links: Vec<(PathBuf, PathBuf)>,
    /// Whether it must not be read; otherwise it must not be written.
    pub(crate) secret: bool,
}

/// What HOME says about the searched trees.
#[derive(Default)]
pub(crate) struct Dotfiles {
    pub(crate) led: Vec<Led>,
    /// Secret files with more than one name, by device and inode.
    pub(crate) linked: HashSet<(u64, u64)>,
}

/// Looks through the HOMEs. `is_searched` tells whether a path lies in a searched tree.
pub(crate) fn look(homes: &[&Path], is_searched: &dyn Fn(&Path) -> bool) -> Dotfiles {
    let mut look =
        Look { homes, is_searched, names: Names::default(), met: HashSet::new(), found: Dotfiles::default() };
    for (store, depth) in stores_of(homes) {
        if look.names.holds(homes, &store) {
            look.store(&store, depth);
        }
    }
    for home in homes {
        for obeyed in OBEYED {
            let path = home.join(obeyed.path);
            if look.names.holds(homes, &path) {
                look.led(follow(&path), &path, false);
            }
        }
    }
    look.found
}

struct Look<'a> {
    homes: &'a [&'a Path],
    is_searched: &'a dyn Fn(&Path) -> bool,
    names: Names,
    met: HashSet<PathBuf>,
    found: Dotfiles,
}

impl Look<'_> {
    /// A store, and what lies in it. Below HOME itself, and where only some names are secret, the table decides about each.
    fn store(&mut self, path: &Path, depth: usize) {
        let lead = follow(path);
        let Some((real, stat)) = lead.end.clone() else { return };
        let is_secret = |path: &Path| secret_file(path, self.homes).is_some();
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
                for name in self.names.of(path) {
                    self.store(&path.join(name), depth - 1);
                }
            }
            _ => {}
        }
    }

    fn count(&mut self, real: &Path, stat: &Stat) {
        if stat.st_nlink > 1 && !(self.is_searched)(real) {
            self.found.linked.insert((stat.st_dev, stat.st_ino));
        }
    }

    fn led(&mut self, lead: Lead, path: &Path, secret: bool) {
        let Lead { links, end: Some((real, stat)), .. } = lead else { return };
        if (self.is_searched)(&real) && !links.is_empty() && self.met.insert(path.into()) {
            self.found.led.push(Led { real, stat, links, secret });
        }
    }
}

/// Which names the directories of a HOME hold: most rows name something that is not there, and one listing answers for all of them.
#[derive(Default)]
struct Names {
    /// `None` for a directory that cannot be listed: then each name is looked up.
    listed: HashMap<PathBuf, Option<HashSet<OsString>>>,
}

impl Names {
    fn listing(&mut self, directory: &Path) -> &Option<HashSet<OsString>> {
        self.listed.entry(directory.into()).or_insert_with_key(|directory| list(directory))
    }

    /// The names in a directory.
    fn of(&mut self, directory: &Path) -> Vec<OsString> {
        self.listing(directory).iter().flatten().cloned().collect()
    }

    /// Whether something may stand at a path below one of the HOMEs.
    fn holds(&mut self, homes: &[&Path], path: &Path) -> bool {
        let Some(home) = homes.iter().find(|home| path.starts_with(home)) else { return true };
        let mut above = home.to_path_buf();
        for part in path.strip_prefix(home).into_iter().flatten() {
            match self.listing(&above) {
                Some(names) if !names.contains(part) => return false,
                None => return true,
                Some(_) => above.push(part),
            }
        }
        true
    }
}

fn list(path: &Path) -> Option<HashSet<OsString>> {
    let open =
        rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let entries = Dir::read_from(&open).ok()?.flatten();
    let names = entries.map(|entry| OsStr::from_bytes(entry.file_name().to_bytes()).to_owned());
    Some(names.filter(|name| name != "." && name != "..").collect())
}
