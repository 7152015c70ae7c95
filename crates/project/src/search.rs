//! Searches the project for secret files, footholds and repositories: bounded, and remembered outside the tree. Runs in the launcher, touches only its own index.
//!
//! The index keeps, for each folder, when it last changed and what of it counts. Its change time, not its modification time: that one can
//! be set back by whoever may write there.

use keyward_policy::facts::{Foothold, Found, Project, Searched, Standing};
use keyward_policy::footholds::{Care, foothold_in};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirEntryExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// No more folders than this are looked at in one run; what lies beyond is told.
const MOST_FOLDERS: usize = 256;
/// Folders with something in them that needs care are all looked at; a project with more of them is refused, because hiding a part would
/// uncover the rest.
const MOST_WITH_CARE: usize = 4_096;
/// A twin of a hard-linked secret is searched among this many files; a project with more of them is refused.
const MOST_FILES: usize = 2_000_000;
/// Trees that tools fill and git ignores.
pub(crate) const SKIPPED: &[&str] = &[
    ".git",
    "node_modules",
    "target",
    ".venv",
    "venv",
    "__pycache__",
    ".tox",
    "dist",
    "build",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
    ".gradle",
    ".next",
    ".cache",
    ".terraform",
];
/// A folder that changed so recently may change again within the same tick of the clock.
const SETTLED: i64 = 2;
/// The first line of an index that we understand.
const HEADER: &str = "keyward search 3";
/// Secret files of a HOME that may have a second name in the project.
const KNOWN: &[&str] = &[
    ".ssh/id_rsa",
    ".ssh/id_ed25519",
    ".ssh/id_ecdsa",
    ".ssh/id_dsa",
    ".aws/credentials",
    ".netrc",
    ".git-credentials",
    ".docker/config.json",
    ".npmrc",
    ".pypirc",
    ".kube/config",
    ".config/gh/hosts.yml",
    ".hermes/.env",
    ".hermes/auth.json",
    ".claude/.credentials.json",
    ".codex/auth.json",
    ".cargo/credentials.toml",
    ".config/gcloud/credentials.db",
    ".pgpass",
];

/// What to search, and by which rule a name counts: a rule of ours, or the place of a pattern in the policy.
pub struct Search<'a> {
    pub project: &'a Path,
    pub home: &'a Path,
    /// Where indexes are kept.
    pub indexes: &'a Path,
    /// The user's patterns, as written; they belong to the index.
    pub patterns: &'a [&'a OsStr],
    pub is_secret: &'a dyn Fn(&OsStr) -> bool,
}

/// One folder, as the index knows it.
#[derive(Clone, Default)]
pub(crate) struct Folder {
    pub(crate) changed: i128,
    pub(crate) secrets: Vec<OsString>,
    /// Guarded footholds that are files, those that are folders, and those that are links.
    pub(crate) footholds: [Vec<OsString>; 3],
    /// Footholds that are only told about.
    pub(crate) told: Vec<OsString>,
    /// A `.git` that is a file or a folder; an empty name where the folder itself is a bare repository.
    pub(crate) repositories: [Vec<OsString>; 2],
    pub(crate) folders: Vec<OsString>,
    pub(crate) skipped: Vec<OsString>,
}

/// What a name in a folder is, as far as a search cares.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Is {
    File,
    Folder,
    Link,
    Other,
}

/// What the search saw, folder by folder in the order of the walk: what has not changed needs no second look at the end.
#[derive(Default)]
pub struct Seen(pub(crate) Vec<(PathBuf, Folder)>);

/// Searches.
pub fn search(search: &Search<'_>) -> (Project, Seen) {
    let Ok(root) = rustix::fs::lstat(search.project) else { return Default::default() };
    let file = search.indexes.join(format!("{:x}-{:x}", root.st_dev, root.st_ino));
    let mut known = read_index(&file, search.patterns);
    let remembered = known.len();
    let Ok(base) =
        rustix::fs::open(search.project, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
    else {
        return Default::default();
    };
    let mut seen: Vec<(PathBuf, Folder)> = Vec::with_capacity(known.len());
    let mut waiting = std::collections::VecDeque::from([PathBuf::new()]);
    let mut project = Project::default();
    let mut fresh = false;
    let mut all = true;
    // Where something was found before comes first and does not count: a command may have made so many folders that the walk no
    // longer gets there.
    let before = known.iter().filter(|(_, folder)| folder.needs_care());
    let mut again: Vec<PathBuf> = before.map(|(relative, _)| PathBuf::from(relative)).collect();
    let mut walked = 0;
    let mut visited = HashSet::new();
    while let Some(relative) = again.pop().or_else(|| waiting.pop_front()) {
        if !visited.insert(relative.clone().into_os_string()) {
            continue;
        }
        if walked == MOST_FOLDERS {
            let more = waiting.len() + 1;
            project.not_searched.push(format!("{more} folders or more beyond the first {MOST_FOLDERS}"));
            all = false;
            break;
        }
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
        let Ok(stat) = rustix::fs::statat(&base, &relative, flags) else { continue };
        let folder = match known.remove(relative.as_os_str()) {
            Some(folder) if folder.changed == changed(&stat) => folder,
            _ => {
                fresh = true;
                match read_folder(search, &relative, &stat) {
                    Some(folder) => folder,
                    None => {
                        // One that is closed now may be open at the end.
                        all = false;
                        continue;
                    }
                }
            }
        };
        folder.tell(&search.project.join(&relative), search, &mut project);
        project
            .not_searched
            .extend(folder.skipped.iter().map(|name| relative.join(name).display().to_string()));
        waiting.extend(folder.folders.iter().map(|name| relative.join(name)));
        if !folder.needs_care() {
            walked += 1;
        } else if seen.len() - walked == MOST_WITH_CARE {
            project.too_many = true;
            break;
        }
        seen.push((relative, folder));
    }
    if fresh || seen.len() != remembered {
        write_index(&file, search.patterns, &seen);
    }
    if !all {
        project.searched = Searched::Only(seen.iter().map(|(relative, _)| relative.clone()).collect());
    }
    twins(search, &root, &mut project);
    (project, Seen(seen))
}

impl Folder {
    fn needs_care(&self) -> bool {
        let names = self.footholds.iter().chain(&self.repositories).chain([&self.secrets]);
        names.flatten().next().is_some()
    }

    fn tell(&self, path: &Path, search: &Search<'_>, project: &mut Project) {
        project.secrets.extend(self.secrets.iter().map(|name| path.join(name)));
        for (names, directory) in self.repositories.iter().zip([false, true]) {
            project.marks.extend(names.iter().map(|name| Found { path: path.join(name), directory }));
        }
        for name in self.footholds.iter().flatten() {
            project.footholds.extend(standing(path.join(name), search.project));
        }
    }

    /// Puts a name where it belongs. `above` is the last name of the folder itself.
    pub(crate) fn add(
        &mut self,
        above: Option<&OsStr>,
        name: OsString,
        is: Is,
        is_secret: &dyn Fn(&OsStr) -> bool,
    ) {
        if name == ".git" {
            self.repositories[usize::from(is == Is::Folder)].push(name);
            return;
        }
        match foothold_in(above, &name) {
            Some((Care::Guarded, _)) => {
                let place = match is {
                    Is::Folder => 1,
                    Is::Link => 2,
                    Is::File | Is::Other => 0,
                };
                self.footholds[place].push(name.clone());
            }
            Some((Care::Told, _)) => self.told.push(name.clone()),
            None => {}
        }
        if is == Is::Folder {
            let skipped = SKIPPED.iter().any(|skipped| name == *skipped);
            if skipped { &mut self.skipped } else { &mut self.folders }.push(name);
        } else if is == Is::File && is_secret(&name) {
            self.secrets.push(name);
        }
    }
}

/// A foothold as it stands, and what a link leads to, if that lies in the project.
fn standing(path: PathBuf, project: &Path) -> Vec<Foothold> {
    let Ok(stat) = rustix::fs::lstat(&path) else { return Vec::new() };
    let thing = |stat: &Stat| Standing::Thing {
        directory: FileType::from_raw_mode(stat.st_mode) == FileType::Directory,
        device: stat.st_dev,
        inode: stat.st_ino,
    };
    if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
        return vec![Foothold { is: thing(&stat), path }];
    }
    let Ok(to) = std::fs::read_link(&path) else { return Vec::new() };
    let mut all = Vec::new();
    if let Ok(real) = std::fs::canonicalize(&path)
        && let Ok(below) = real.strip_prefix(project)
        // Not the project as a whole, and not what is kept in another way.
        && !below.as_os_str().is_empty()
        && !below.iter().any(|name| name == ".git")
        && let Ok(stat) = rustix::fs::lstat(&real)
    {
        all.push(Foothold { is: thing(&stat), path: real });
    }
    all.push(Foothold { is: Standing::Link { to }, path });
    all
}

/// The change time of a file, in nanoseconds.
pub(crate) fn changed(stat: &Stat) -> i128 {
    i128::from(stat.st_ctime) * 1_000_000_000 + i128::from(stat.st_ctime_nsec)
}

fn read_folder(search: &Search<'_>, relative: &Path, stat: &Stat) -> Option<Folder> {
    let mut folder = Folder { changed: changed(stat), ..Folder::default() };
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |now| i64::try_from(now.as_secs()).unwrap_or(0));
    if now - stat.st_ctime < SETTLED {
        folder.changed = 0;
    }
    let mut marks = 0;
    for entry in std::fs::read_dir(search.project.join(relative)).ok()?.flatten() {
        let Ok(kind) = entry.file_type() else { continue };
        let name = entry.file_name();
        marks |= mark(&name);
        let is = match () {
            () if kind.is_dir() => Is::Folder,
            () if kind.is_file() => Is::File,
            () if kind.is_symlink() => Is::Link,
            () => Is::Other,
        };
        folder.add(relative.file_name(), name, is, search.is_secret);
    }
    if is_repository(marks) {
        folder.repositories[1].push(OsString::new());
    }
    Some(folder)
}

/// Names that make a folder a repository without a `.git`, a bit for each.
const MARKS: [&str; 4] = ["HEAD", "objects", "refs", "commondir"];

/// The bit of a name.
pub(crate) fn mark(name: &OsStr) -> u8 {
    MARKS.iter().position(|mark| name == *mark).map_or(0, |place| 1 << place)
}

/// Whether these names together do: objects and refs may be another folder's, which one of them leads to.
pub(crate) const fn is_repository(marks: u8) -> bool {
    marks & 0b0111 == 0b0111 || marks & 0b1001 == 0b1001
}

/// Files of HOME that are known to be secret and have a second name: it may stand in the project, under any name.
fn twins(search: &Search<'_>, root: &Stat, project: &mut Project) {
    let linked: Vec<u64> = KNOWN
        .iter()
        .filter_map(|name| rustix::fs::lstat(search.home.join(name)).ok())
        .filter(|stat| {
            FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
                && stat.st_nlink > 1
                && stat.st_dev == root.st_dev
        })
        .map(|stat| stat.st_ino)
        .collect();
    if linked.is_empty() {
        return;
    }
    let mut left = MOST_FILES;
    let mut waiting = vec![search.project.to_path_buf()];
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            left = match left.checked_sub(1) {
                Some(left) => left,
                None => {
                    project.twin_not_found = true;
                    return;
                }
            };
            if linked.contains(&entry.ino()) {
                project.secrets.push(entry.path());
            } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                waiting.push(entry.path());
            }
        }
    }
}

/// Names with bytes that would break a line are not remembered; their folder is read anew each time.
fn is_plain(name: &OsStr) -> bool {
    !name.as_bytes().iter().any(|&byte| byte < b' ')
}

fn read_index(file: &Path, patterns: &[&OsStr]) -> HashMap<OsString, Folder> {
    let mut folders = HashMap::new();
    let Ok(text) = std::fs::read(file) else { return folders };
    let mut lines = text.split(|&byte| byte == b'\n');
    if lines.next() != Some(header(patterns).as_bytes()) {
        return folders;
    }
    let mut current: Option<(OsString, Folder)> = None;
    for line in lines {
        let Some((&kind, rest)) = line.split_first() else { continue };
        let name = || OsString::from_vec(rest.to_vec());
        match (kind, &mut current) {
            (b'd', _) => {
                folders.extend(current.take());
                let mut parts = rest.splitn(2, |&byte| byte == b' ');
                let changed = parts.next().and_then(|number| std::str::from_utf8(number).ok()?.parse().ok());
                let path = parts.next().unwrap_or_default();
                current = changed.map(|changed| {
                    (OsString::from_vec(path.to_vec()), Folder { changed, ..Folder::default() })
                });
            }
            (b's', Some((_, folder))) => folder.secrets.push(name()),
            (b'h', Some((_, folder))) => folder.footholds[0].push(name()),
            (b'H', Some((_, folder))) => folder.footholds[1].push(name()),
            (b'l', Some((_, folder))) => folder.footholds[2].push(name()),
            (b't', Some((_, folder))) => folder.told.push(name()),
            (b'g', Some((_, folder))) => folder.repositories[0].push(name()),
            (b'G', Some((_, folder))) => folder.repositories[1].push(name()),
            (b'f', Some((_, folder))) => folder.folders.push(name()),
            (b'k', Some((_, folder))) => folder.skipped.push(name()),
            _ => return HashMap::new(),
        }
    }
    folders.extend(current);
    folders
}

fn header(patterns: &[&OsStr]) -> String {
    let shown: Vec<String> =
        patterns.iter().map(|pattern| pattern.to_string_lossy().replace('\n', " ")).collect();
    format!("{HEADER} {}", shown.join(" "))
}

/// Written beside and put in its place, so that half an index is never read. It is a cache: if it cannot be written, nothing is lost.
fn write_index(file: &Path, patterns: &[&OsStr], seen: &[(PathBuf, Folder)]) {
    let mut text = header(patterns).into_bytes();
    text.push(b'\n');
    for (path, folder) in seen {
        let groups = [
            (b's', &folder.secrets),
            (b'h', &folder.footholds[0]),
            (b'H', &folder.footholds[1]),
            (b'l', &folder.footholds[2]),
            (b't', &folder.told),
            (b'g', &folder.repositories[0]),
            (b'G', &folder.repositories[1]),
            (b'f', &folder.folders),
            (b'k', &folder.skipped),
        ];
        let plain = is_plain(path.as_os_str())
            && groups.iter().all(|(_, names)| names.iter().all(|name| is_plain(name)));
        if !plain {
            continue;
        }
        text.extend_from_slice(format!("d{} ", folder.changed).as_bytes());
        text.extend_from_slice(path.as_os_str().as_bytes());
        text.push(b'\n');
        for (kind, names) in groups {
            for name in names {
                text.push(kind);
                text.extend_from_slice(name.as_bytes());
                text.push(b'\n');
            }
        }
    }
    let Some(folder) = file.parent() else { return };
    let made = std::os::unix::fs::DirBuilderExt::mode(std::fs::DirBuilder::new().recursive(true), 0o700)
        .create(folder);
    let beside = file.with_extension(format!("{}", std::process::id()));
    let written = made.and_then(|()| {
        use std::io::Write;
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true).mode(0o600).open(&beside)?.write_all(&text)
    });
    match written {
        Ok(()) => drop(std::fs::rename(&beside, file)),
        Err(_) => drop(std::fs::remove_file(&beside)),
    }
}
