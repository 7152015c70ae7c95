//! Turns what a walk has noted into facts: what a name stands for, where a link leads, what a hidden file shows instead.

use super::dotfiles::Dotfiles;
use super::index::{Kind, Note, mark};
use super::leads::{Lead, follow};
use super::{Linked, Looked, Role, Rules, Search, close, named_in};
use crate::git::logins::logins;
use crate::journal;
use crate::tree::Root;
use keyward_policy::detect::secrets::OWN_RECORD;
use keyward_policy::detect::strict::programs::is_run_at_start;
use keyward_policy::detect::{Directory, Secret, Shows, is_kept_repository, own};
use keyward_policy::facts::{Foothold, Found, Project, SecretFile, Standing};
use keyward_policy::view::Why;
use rustix::fs::{Access, AtFlags, CWD, FileType, Stat};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// Turns notes into facts.
pub(super) struct Tell<'a> {
    search: &'a Search<'a>,
    needed: &'a HashMap<(u64, u64), Linked>,
    is_searched: &'a dyn Fn(&Path) -> bool,
    pub(super) project: Project,
    /// Secrets that are among the facts already.
    met: HashSet<OsString>,
    /// Files that direnv runs.
    envrc: Vec<PathBuf>,
}

/// A link that stands for a directory of stores is looked through this deep.
const STORE_DEPTH: usize = 4;

impl<'a> Tell<'a> {
    pub(super) fn new(
        search: &'a Search<'a>,
        needed: &'a HashMap<(u64, u64), Linked>,
        is_searched: &'a dyn Fn(&Path) -> bool,
        project: Project,
    ) -> Self {
        Tell { search, needed, is_searched, project, met: HashSet::new(), envrc: Vec::new() }
    }

    pub(super) fn tree(&mut self, looked: &Looked) {
        let tree = &looked.tree;
        let rules = Rules::new(&tree.path, self.search, &looked.linked);
        // The names of a directory come one after the other.
        let mut here: Option<(&Path, Directory)> = None;
        for (directory, note) in looked.notes() {
            let path = if note.name.is_empty() {
                tree.path.join(directory)
            } else {
                tree.path.join(directory).join(note.name)
            };
            if note.has(mark::REPOSITORY) && tree.role == Role::Around {
                self.project
                    .marks_around
                    .push(Found { path: path.clone(), directory: note.kind == Kind::Directory });
            }
            if note.has(mark::REPOSITORY) && tree.writable {
                self.project
                    .marks
                    .push(Found { path: path.clone(), directory: note.kind == Kind::Directory });
            }
            // One in a tree that the command writes to is its own copy, or is looked at when that is decided.
            if note.has(mark::REPOSITORY) && matches!(tree.role, Role::Seen(_)) && !tree.writable {
                for SecretFile { path, named, directory, reads_as } in logins(&path) {
                    self.hide(path, named, directory, reads_as);
                }
            }
            if note.has(mark::GUARDED | mark::LEADS) && (tree.writable || tree.role == Role::Around) {
                self.foothold(&path, note);
            }
            if note.has(mark::PROGRAM) && tree.writable && own::is_own(&path) {
                self.own(&path, note);
            }
            if note.has(mark::STORE) {
                self.store(looked, &path);
            }
            if note.has(mark::SECRET) {
                let known = here.take().filter(|(known, _)| *known == directory);
                let (_, names) = here.insert(known.unwrap_or_else(|| (directory, rules.place(directory))));
                let row = names.secret(note.name).filter(|_| !rules.fits_pattern(note.name));
                self.secret(looked, row, directory, note, &path);
            }
            if note.has(mark::LINKED)
                && let Ok(stat) = looked.root.stat(&directory.join(note.name))
            {
                match self.needed.get(&(stat.st_dev, stat.st_ino)) {
                    Some(Linked::Secret) => self.hide(path.clone(), path, false, Vec::new()),
                    Some(Linked::Foothold) => {
                        self.project.footholds.push(Foothold { is: thing(&stat), path })
                    }
                    None => {}
                }
            }
        }
        if tree.writable {
            self.programs(looked);
        }
        self.project.unsearched.extend(looked.closed());
        self.project.left_out.extend(looked.walked.left_out.iter().map(|path| tree.path.join(path)));
    }

    /// Whether what lies beyond a closed directory may be something that the command sees.
    fn matters(&self, closed: &Path) -> bool {
        (self.is_searched)(closed) || self.search.trees.iter().any(|tree| tree.path == closed)
    }

    /// Where a link leads to something that counts. One that leads through a closed directory is not resolved.
    fn follow(&mut self, link: &Path) -> Lead {
        let lead = follow(link);
        if lead.closed.as_deref().is_some_and(|closed| self.matters(closed)) {
            self.project.unresolved.push(link.into());
        }
        lead
    }

    /// Directories of the tree in which programs are looked for; of those of modules, the files that python runs at every start.
    fn programs(&mut self, looked: &Looked) {
        let root = &looked.tree.path;
        let known = &looked.walked.known;
        // A package of ours makes no directory of programs of the one that it lies in.
        let holds = |number: &usize| {
            known.has_notes(*number)
                && !known.path(*number).ends_with("node_modules")
                && known.notes(*number).any(|note| note.has(mark::PROGRAM))
        };
        let found = (0..known.len()).filter(holds).map(|number| (number, root.join(known.path(number))));
        let named =
            self.search.programs.iter().filter(|path| path.starts_with(root) && path.is_dir()).cloned();
        let is_modules = |path: &Path| path.ends_with("site-packages") || path.ends_with("dist-packages");
        let run_at_start = found.clone().flat_map(|(number, path)| {
            let files = known.notes(number).filter(|note| note.has(mark::PROGRAM) && note.kind == Kind::File);
            files.map(move |note| path.join(note.name)).filter(|path| is_run_at_start(path))
        });
        // One with nothing else than such files is not a directory of programs.
        let holds_others = |number: usize, path: &Path| {
            let mut programs = known.notes(number).filter(|note| note.has(mark::PROGRAM));
            programs.any(|note| !is_run_at_start(&path.join(note.name)))
        };
        let directories = found.clone().filter(|(number, path)| holds_others(*number, path));
        let directories = directories.map(|(_, path)| path).chain(named);
        let programs = &mut self.project.programs;
        programs.extend(directories.filter(|path| path != root && !is_modules(path)));
        programs.extend(run_at_start);
        programs.sort();
        programs.dedup();
    }

    fn hide(&mut self, path: PathBuf, named: PathBuf, directory: bool, reads_as: Vec<u8>) {
        if self.met.insert(path.clone().into_os_string()) {
            self.project.secrets.push(SecretFile { path, named, directory, reads_as });
        }
    }

    /// A file with a secret name, or a link that leads to one. `row` is the row of the table by which it is secret; none where a pattern
    /// of the user's says so.
    fn secret(
        &mut self,
        looked: &Looked,
        row: Option<&'static Secret>,
        directory: &Path,
        note: Note<'_>,
        path: &Path,
    ) {
        // What a command left and a remedy of ours shows. Keys in it are other rows.
        if looked.tree.role == Role::Seen(Why::Granted)
            && row.is_some_and(|row| row.holds == OWN_RECORD)
            && is_kept_repository(&looked.tree.path)
        {
            return;
        }
        // What the command does not see needs no mask.
        if note.kind != Kind::Link && looked.tree.role == Role::Around {
            return;
        }
        // A pipe or a socket may hand a secret out as well.
        if note.kind == Kind::Other {
            return self.hide(path.into(), path.into(), false, Vec::new());
        }
        if note.kind == Kind::File {
            // No command can open what lies in a tree of tools: what this user cannot read there needs no mask.
            if looked.tree.role.is_of_tools() && !is_readable(path) {
                return;
            }
            let shown = row.map_or(Shows::Instead(Vec::new()), |row| {
                looked.shown(&looked.root, row, &directory.join(note.name), self.search)
            });
            if let Shows::Instead(text) = shown {
                self.hide(path.into(), path.into(), false, text);
            }
            return;
        }
        if note.kind != Kind::Link {
            return;
        }
        let lead = self.follow(path);
        // Without the links the file would have no secret name in the next run, also if it is made later.
        if lead.end.as_ref().is_none_or(|(real, _)| (self.is_searched)(real)) {
            self.links(&lead.links);
        }
        let Some((real, stat)) = lead.end.filter(|(real, _)| (self.is_searched)(real)) else { return };
        let kind = FileType::from_raw_mode(stat.st_mode);
        let shown = match (kind, row) {
            (FileType::RegularFile, Some(row)) => match Root::open(real.parent().unwrap_or(&real)) {
                Ok(above) => {
                    looked.shown(&above, row, Path::new(real.file_name().unwrap_or_default()), self.search)
                }
                Err(_) => Shows::Instead(Vec::new()),
            },
            (FileType::RegularFile, None) => Shows::Instead(Vec::new()),
            _ => return,
        };
        if let Shows::Instead(text) = shown {
            self.hide(real, path.into(), false, text);
        }
    }

    fn links(&mut self, links: &[(PathBuf, PathBuf)]) {
        let inside = links.iter().filter(|(link, _)| (self.is_searched)(link));
        let links =
            inside.map(|(link, to)| Foothold { path: link.clone(), is: Standing::Link { to: to.clone() } });
        self.project.footholds.extend(links);
    }

    /// A foothold as it stands; of a link also what it leads to.
    fn foothold(&mut self, path: &Path, note: Note<'_>) {
        if note.kind != Kind::Link {
            if path.ends_with(".envrc") {
                self.envrc.push(path.into());
            }
            if note.has(mark::GUARDED)
                && (self.is_searched)(path)
                && let Ok(stat) = rustix::fs::lstat(path)
            {
                self.project.footholds.push(Foothold { is: thing(&stat), path: path.into() });
            }
            return;
        }
        let lead = self.follow(path);
        if lead.links.is_empty() {
            return;
        }
        let holds_git = |real: &Path| real.iter().any(|name| name == ".git");
        if let Some((real, stat)) = lead.end.filter(|(real, _)| (self.is_searched)(real) && !holds_git(real))
        {
            self.project.footholds.push(Foothold { is: thing(&stat), path: real });
        }
        // One in a foothold is read-only with it.
        if note.has(mark::GUARDED) {
            self.links(&lead.links);
        } else {
            self.links(&lead.links[1..]);
        }
    }

    /// A part of Keyward as it stands. Of a link only the link: what it leads to counts where it lies, and is the work elsewhere.
    fn own(&mut self, path: &Path, note: Note<'_>) {
        if note.kind == Kind::Link {
            let lead = self.follow(path);
            self.links(&lead.links);
        } else if let Ok(stat) = rustix::fs::lstat(path) {
            self.project.footholds.push(Foothold { is: thing(&stat), path: path.into() });
        }
    }

    /// A link that stands where a directory of stores would: what it leads to is judged as if it stood there.
    fn store(&mut self, looked: &Looked, link: &Path) {
        let lead = self.follow(link);
        let Some((real, stat)) = lead.end.filter(|(real, _)| (self.is_searched)(real)) else { return };
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory
            && self.store_below(looked, &real, link, STORE_DEPTH)
        {
            self.links(&lead.links);
        }
    }

    /// Whether something in it is secret by the place that the link gives it.
    fn store_below(&mut self, looked: &Looked, real: &Path, place: &Path, depth: usize) -> bool {
        let directory = Directory::new(place, &self.search.homes);
        if directory.is_store() {
            self.hide(real.into(), place.into(), true, Vec::new());
            return true;
        }
        let mut found = false;
        for entry in std::fs::read_dir(real).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Ok(path) = std::fs::canonicalize(entry.path()) else { continue };
            if !(self.is_searched)(&path) {
                continue;
            }
            if path.is_dir() {
                found |= depth > 0 && self.store_below(looked, &path, &place.join(&name), depth - 1);
            } else if let Some(Shows::Instead(text)) = self.shown_by_place(looked, &directory, &name, &path) {
                self.hide(path, place.join(&name), false, text);
                found = true;
            }
        }
        found
    }

    /// What a file shows that would be secret by the place that a link gives it; nothing where that says nothing.
    fn shown_by_place(
        &self,
        looked: &Looked,
        directory: &Directory,
        name: &OsStr,
        real: &Path,
    ) -> Option<Shows> {
        let row = directory.secret_by_place(name)?;
        // Of settings the credentials count. The rest is secret as a whole: nothing but the link says what it is.
        if !row.is_of_projects() {
            return Some(Shows::Instead(Vec::new()));
        }
        let above = Root::open(real.parent()?).ok()?;
        Some(looked.shown(&above, row, Path::new(real.file_name()?), self.search))
    }

    /// Paths that the user hides: the plan hides what they lead to, and the links must stay.
    pub(super) fn hidden(&mut self, leads: &[Lead]) {
        for lead in leads {
            self.links(&lead.links);
            let closed = lead.closed.as_deref().filter(|closed| self.matters(closed)).and(lead.links.first());
            self.project.unresolved.extend(closed.map(|(link, _)| link.clone()));
        }
    }

    /// Files of HOME that lie in a searched tree.
    pub(super) fn dotfiles(&mut self, dotfiles: &Dotfiles) {
        self.project.unresolved.extend(dotfiles.unresolved.iter().cloned());
        for led in &dotfiles.led {
            self.links(&led.links);
            let directory = FileType::from_raw_mode(led.stat.st_mode) == FileType::Directory;
            if led.secret {
                self.hide(led.real.clone(), led.place.clone(), directory, Vec::new());
            } else {
                self.project.footholds.push(Foothold { is: thing(&led.stat), path: led.real.clone() });
            }
        }
    }

    /// What is hidden or protected because of a link, in runs that are at work here now: a command of theirs may have removed the link.
    pub(super) fn other_runs(&mut self) {
        for start in journal::living(&crate::guard::journals(self.search.state)) {
            let here = |relative: &PathBuf| {
                let path = start.project.join(relative);
                let stat = rustix::fs::lstat(&path).ok().filter(|_| (self.is_searched)(&path))?;
                Some((path, stat))
            };
            let hidden: Vec<(PathBuf, Stat)> = start.hidden.iter().filter_map(here).collect();
            let known: Vec<(PathBuf, Stat)> = start.known.iter().filter_map(here).collect();
            for (path, stat) in hidden {
                let directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
                self.hide(path.clone(), path, directory, Vec::new());
            }
            let is_thing = |foothold: &&Foothold| matches!(foothold.is, Standing::Thing { .. });
            let already: HashSet<OsString> =
                self.project.footholds.iter().filter(is_thing).map(|it| it.path.clone().into()).collect();
            let fresh = known.into_iter().filter(|(path, _)| !already.contains(path.as_os_str()));
            let fresh = fresh.map(|(path, stat)| Foothold { is: thing(&stat), path });
            self.project.footholds.extend(fresh);
        }
    }

    /// Scripts that a `.envrc` of the user's names: direnv runs them with it.
    pub(super) fn scripts(&mut self) {
        for file in std::mem::take(&mut self.envrc) {
            let named = named_in(&file, file.parent().unwrap_or(Path::new("/")), self.is_searched);
            let found = named.scripts.into_iter().map(|(path, stat)| Foothold { is: thing(&stat), path });
            self.project.footholds.extend(found);
            self.links(&named.links);
            named.closed.into_iter().for_each(|closed| close(&mut self.project, closed));
        }
    }
}

/// Whether this process can read a file. Root can, whatever its mode is.
fn is_readable(path: &Path) -> bool {
    rustix::fs::accessat(CWD, path, Access::READ_OK, AtFlags::EACCESS) != Err(Errno::ACCESS)
}

pub(super) fn thing(stat: &Stat) -> Standing {
    Standing::Thing {
        directory: FileType::from_raw_mode(stat.st_mode) == FileType::Directory,
        device: stat.st_dev,
        inode: stat.st_ino,
    }
}
