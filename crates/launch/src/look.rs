//! Looks at the paths that a plan asks about, each once. Runs in the launcher, touches nothing.

use keyward_policy::facts::{Kind, OtherOwner, PathFact, Paths};
use keyward_policy::view::{About, PINNED, Question, is_of_system};
use keyward_project::search::changed;
use rustix::fs::{Access, AtFlags, CWD, FileType, Stat};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Answers the questions.
pub fn look(questions: Vec<Question>) -> Paths {
    let mut paths = Paths::with_capacity(questions.len());
    let mut folders = HashMap::new();
    for question in questions {
        let fact = match question.about {
            About::Secret if !is_readable(&question.path) => continue,
            About::Itself => look_at_itself(&question.path),
            About::Secret | About::All => look_at(&question.path, &mut folders),
        };
        let leaves_project = leaves_project(&question.path, &fact.real);
        let strays = if fact.real == question.path { Vec::new() } else { strays(&question.path) };
        let fact = PathFact { leaves_project, strays, ..fact };
        paths.insert(question.path, fact);
    }
    paths
}

/// The marked project that a path stands in, if what it leads to lies outside of it.
pub fn leaves_project(path: &Path, real: &Path) -> Option<PathBuf> {
    if path == real {
        return None;
    }
    let marked = |folder: &&Path| PINNED.iter().any(|mark| rustix::fs::lstat(folder.join(mark)).is_ok());
    let project = path.ancestors().skip(1).find(marked)?;
    let root = std::fs::canonicalize(project).ok()?;
    (!real.starts_with(&root)).then_some(root)
}

/// Links on the way to a path that lead out of the directory they stand in. What root has put there is the system's; for a caller who is
/// root, only what stands in the system's places, because commands of that caller make files of root's too.
fn strays(path: &Path) -> Vec<PathBuf> {
    let is_root = rustix::process::geteuid().is_root();
    let strays = |link: &Path, text: &Path| {
        let Some(directory) = link.parent() else { return false };
        let stays = std::fs::canonicalize(directory.join(text)).is_ok_and(|real| real.starts_with(directory));
        let is_systems = directory == Path::new("/") || is_of_system(link);
        let is_roots = || rustix::fs::lstat(link).is_ok_and(|stat| stat.st_uid == 0);
        !stays && !(is_roots() && (!is_root || is_systems))
    };
    let links = keyward_project::search::links_on_the_way(path).into_iter();
    links.filter(|(link, text)| strays(link, text)).map(|(link, _)| link).collect()
}

/// Who a directory belongs to, if not to us.
pub fn other_owner(directory: &Path) -> Option<OtherOwner> {
    const GROUP: u32 = 0o030;
    const OTHERS: u32 = 0o003;
    let (us, group) = (rustix::process::geteuid(), rustix::process::getegid());
    let stat = rustix::fs::stat(directory).ok().filter(|stat| stat.st_uid != us.as_raw())?;
    let gives = |rights| stat.st_mode & rights == rights;
    let may_write = match us.is_root() {
        // A command in a cage of root's has none of root's capabilities.
        true => gives(OTHERS) || (stat.st_gid == group.as_raw() && gives(GROUP)),
        false => {
            let access = Access::WRITE_OK | Access::EXEC_OK;
            rustix::fs::accessat(CWD, directory, access, AtFlags::EACCESS).is_ok()
        }
    };
    Some(OtherOwner { user: stat.st_uid, may_write })
}

fn is_readable(path: &Path) -> bool {
    let may = |access| rustix::fs::accessat(CWD, path, access, AtFlags::EACCESS);
    match may(Access::READ_OK) {
        Ok(()) => true,
        // A folder that can only be entered still gives away what is in it by name.
        Err(Errno::ACCESS) => may(Access::EXEC_OK).is_ok(),
        Err(_) => false,
    }
}

fn nothing(path: &Path, kind: Kind) -> PathFact {
    PathFact {
        kind,
        link: None,
        real: path.into(),
        leaves_project: None,
        strays: Vec::new(),
        device: 0,
        inode: 0,
        names: 0,
        changed: 0,
    }
}

fn fact(stat: &Stat, real: PathBuf, link: Option<PathBuf>) -> PathFact {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Kind::Directory,
        FileType::RegularFile => Kind::File,
        _ => Kind::Special,
    };
    PathFact {
        kind,
        link,
        real,
        leaves_project: None,
        strays: Vec::new(),
        device: stat.st_dev,
        inode: stat.st_ino,
        names: stat.st_nlink,
        changed: changed(stat),
    }
}

/// A path that is its own real path, or a link of which only the text counts.
fn look_at_itself(path: &Path) -> PathFact {
    match rustix::fs::lstat(path) {
        Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink => {
            let link = std::fs::read_link(path).ok();
            PathFact { link, ..nothing(path, Kind::Special) }
        }
        Ok(stat) => fact(&stat, path.into(), None),
        Err(_) => nothing(path, Kind::Missing),
    }
}

/// One path. `folders` remembers parents whose links have been followed already.
fn look_at(path: &Path, folders: &mut HashMap<OsString, Option<PathBuf>>) -> PathFact {
    let stat = match rustix::fs::lstat(path) {
        Ok(stat) => stat,
        Err(Errno::NOENT | Errno::NOTDIR) => return nothing(path, Kind::Missing),
        Err(_) => return nothing(path, Kind::Closed),
    };
    if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
        let link = std::fs::read_link(path).ok();
        return match (std::fs::canonicalize(path), rustix::fs::stat(path)) {
            (Ok(real), Ok(stat)) => fact(&stat, real, link),
            _ => PathFact { link, ..nothing(path, Kind::Missing) },
        };
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return fact(&stat, path.into(), None);
    };
    let folder = match folders.get(parent.as_os_str()) {
        Some(folder) => folder.clone(),
        None => {
            let real = std::fs::canonicalize(parent).ok();
            folders.insert(parent.into(), real.clone());
            real
        }
    };
    match folder {
        Some(folder) => fact(&stat, folder.join(name), None),
        None => nothing(path, Kind::Closed),
    }
}
