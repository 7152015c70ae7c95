//! The private repository of a cage: made beside the host's before the command starts, and kept on disk until what was done in it is
//! taken over. It borrows the host's objects and has a copy of everything else that git looks at.
//!
//! In the store each run has a folder with a `lock`, which is held as long as something of the run lives, and a folder for each repository: `git` is
//! what the cage sees at the place of the host's, `base` what both sides last had in common, `about` says whose it is.

use super::base::{self, Base};
use super::place::{self, Stamp};
use super::refs;
use crate::lines;
use keyward_policy::facts::{GitFolder, GitPart};
use keyward_policy::untrusted::git::config::Config;
use keyward_policy::untrusted::git::{credentials, names};
use keyward_sys::file::make_private_folder;
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::{Errno, FdFlags};
use sha2::{Digest, Sha256};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

const HEADER: &str = "keyward repository 1";
/// Where a part of the private repository has the host's objects, and those that they borrow from.
pub const BORROWED: &str = "host";
/// What is copied of names that we know nothing about. Beyond that they stay out.
const MOST_FILES: usize = 4_096;
const MOST_BYTES: u64 = 64 << 20;
/// No settings, and no pointer of git's, are larger.
const MOST_SETTINGS: u64 = 1 << 20;
/// Logs of branches that others have pushed can be many: beyond this they stay out.
const MOST_LOGS: usize = 512;
const DEPTH: usize = 24;

/// The private repositories of one run.
pub struct Run {
    root: PathBuf,
    pub layers: Vec<Layer>,
    /// Held by the launcher, and by the cage as long as one of its processes lives. No other run takes the layers over before it is free.
    lock: OwnedFd,
}

/// The private repository of one run.
pub struct Layer {
    pub root: PathBuf,
    pub about: About,
    /// The state of its index when it was made.
    index: Option<Stamp>,
}

/// Whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    pub folder: GitFolder,
    /// What names are told relative to.
    pub project: PathBuf,
    /// Files of its working trees that the command cannot see.
    pub hidden: Vec<PathBuf>,
    /// Whether the command can reach other machines.
    pub has_network: bool,
    /// Whether the user's own settings say no committer.
    pub is_nameless: bool,
    /// Files that say what git leaves out, above what is hidden; a digest of each, empty if it is not there.
    pub ignores: Vec<(PathBuf, String)>,
    /// The submodules that the working tree names, and where each comes from.
    pub modules: Vec<(Vec<u8>, Vec<u8>)>,
}

/// The cage that a private repository is made for.
pub struct Cage<'a> {
    /// What names are told relative to.
    pub project: &'a Path,
    /// Lines for git's list of what to leave out.
    pub exclude: &'a [u8],
    /// Files of the working trees that the command cannot see.
    pub hidden: &'a [PathBuf],
    pub has_network: bool,
    /// Whether the user's own settings say no committer.
    pub is_nameless: bool,
}

/// What could not be made, and why.
pub type Failed = (PathBuf, Errno);

impl Layer {
    /// What the cage sees.
    pub fn git(&self) -> PathBuf {
        self.root.join("git")
    }

    fn index_now(&self) -> Option<Stamp> {
        place::stamp(base::open(&self.git()).ok()?, Path::new("index"))
    }

    /// Whether its index is another one than at the start.
    pub(super) fn has_new_index(&self) -> bool {
        self.index.is_none() || self.index_now() != self.index
    }

    /// Where a part keeps what both sides last had in common.
    pub(super) fn base(&self, part: &Path) -> PathBuf {
        // Parts lie in each other, and their names may be long; what is kept of them lies side by side.
        let digest = Sha256::digest(part.as_os_str().as_bytes());
        let name: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        self.root.join("base").join(name)
    }

    /// The name of the run, for what is kept because of it.
    pub(super) fn name(&self) -> &OsStr {
        self.root.parent().and_then(Path::file_name).unwrap_or_default()
    }

    /// Whether it was taken up often enough after its run had died. Each time is written down before.
    pub(super) fn is_tried_enough(&self) -> bool {
        const ENOUGH: u64 = 3;
        let tries = self.root.join(TRIES);
        let before = std::fs::metadata(&tries).map_or(0, |stat| stat.len());
        let noted = std::fs::OpenOptions::new().create(true).append(true).open(&tries);
        let noted = noted.and_then(|mut file| std::io::Write::write_all(&mut file, b"."));
        // A full disk has its own end: it is waited for.
        before >= ENOUGH || noted.is_err_and(|error| error.kind() != std::io::ErrorKind::StorageFull)
    }

    /// Something of it could not be taken over: it is kept for 30 days.
    pub fn set_aside(self) {
        let _ = std::fs::rename(self.root.join(ABOUT), self.root.join(REFUSED));
    }

    /// There was no room to take it over: the next run tries again, however often that is.
    pub fn wait_for_room(self) {
        let _ = std::fs::remove_file(self.root.join(TRIES));
        let _ = std::fs::rename(self.root.join(ABOUT), self.root.join(WAITING));
    }

    /// Everything was taken over, or nothing is worth it: it goes with its run.
    pub fn drop_with_run(self) {
        let _ = std::fs::remove_file(self.root.join(ABOUT));
    }
}

impl Run {
    /// A folder in the store, under a lock.
    pub fn begin(store: &Path) -> Result<Self, Failed> {
        let at = |path: &Path| {
            let path = path.to_path_buf();
            move |errno: Errno| (path, errno)
        };
        make_private_folder(store).map_err(at(store))?;
        let root = store.join(name().map_err(at(store))?);
        make_private_folder(&root).map_err(at(&root))?;
        let lock = lock(&root, true).ok_or((root.clone(), Errno::AGAIN))?;
        note_launcher(&lock);
        Ok(Run { root, layers: Vec::new(), lock })
    }

    /// Makes the private repository for a folder of the host's.
    pub fn add(&mut self, folder: &GitFolder, cage: &Cage<'_>) -> Result<&Layer, Failed> {
        let failed = |(path, error): (PathBuf, std::io::Error)| {
            (path, Errno::from_io_error(&error).unwrap_or(Errno::IO))
        };
        let root = self.root.join(self.layers.len().to_string());
        std::fs::create_dir(&root).at(&root).map_err(failed)?;
        let tree = folder.path.parent().filter(|_| folder.path.ends_with(".git"));
        let about = About {
            folder: folder.clone(),
            project: cage.project.into(),
            hidden: cage.hidden.to_vec(),
            has_network: cage.has_network,
            is_nameless: cage.is_nameless,
            ignores: tree.map(|tree| ignores(tree, cage.hidden)).unwrap_or_default(),
            modules: tree.map(modules).unwrap_or_default(),
        };
        let mut layer = Layer { root, about, index: None };
        for part in &folder.parts {
            Copier { files: 0, bytes: 0 }.part(&layer, part, cage.exclude).map_err(failed)?;
        }
        let about = layer.root.join(ABOUT);
        std::fs::write(&about, layer.about.spelled()).at(&about).map_err(failed)?;
        layer.index = layer.index_now();
        self.layers.push(layer);
        self.layers.last().ok_or((self.root.clone(), Errno::IO))
    }

    /// For the cage, whose end is waited for.
    pub fn lock(&self) -> Option<OwnedFd> {
        self.lock.try_clone().ok()
    }

    /// Works with gits of the host's that hold the lock as well. One that outlives us, because we are killed, has ended before another run
    /// looks at what it did.
    pub(super) fn with_lock_lent<T>(&self, work: impl FnOnce() -> T) -> T {
        let _ = rustix::io::fcntl_setfd(&self.lock, FdFlags::empty());
        let done = work();
        let _ = rustix::io::fcntl_setfd(&self.lock, FdFlags::CLOEXEC);
        done
    }

    /// What runs that are no more have left, and what of it a process still works on.
    pub(super) fn left_behind(store: &Path) -> (Vec<Self>, Vec<Held>) {
        let (mut all, mut held) = (Vec::new(), Vec::new());
        let until = Instant::now() + MOST_WAIT;
        for entry in std::fs::read_dir(store).into_iter().flatten().flatten() {
            let root = entry.path();
            let lock = match lock_of_dead(&root, until) {
                Holder::None(lock) => lock,
                Holder::Launcher => continue,
                Holder::Orphan => {
                    held.extend(Held::below(&root));
                    continue;
                }
            };
            let mut run = Run { root, layers: Vec::new(), lock };
            for entry in std::fs::read_dir(&run.root).into_iter().flatten().flatten() {
                let root = entry.path();
                let _ = std::fs::rename(root.join(WAITING), root.join(ABOUT));
                match About::at(&root) {
                    Some(about) => run.layers.push(Layer { root, about, index: None }),
                    None if !root.is_dir() || is_set_aside(&root) => {}
                    // It was never whole, or is long over.
                    None => remove_tree(&root),
                }
            }
            run.layers.sort_by(|one, other| one.root.cmp(&other.root));
            all.push(run);
        }
        all.sort_by(|one, other| one.root.cmp(&other.root));
        held.sort_by(|one, other| one.folder.cmp(&other.folder));
        (all, held)
    }

    /// Removes what is not wanted any more.
    pub(super) fn end(self) {
        remove_unwanted(&self.root);
    }
}

/// All but what was set aside.
fn remove_unwanted(root: &Path) {
    let mut is_empty = true;
    for entry in std::fs::read_dir(root).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && is_set_aside(&path) {
            is_empty = false;
        } else if path.is_dir() {
            remove_tree(&path);
        }
    }
    if is_empty {
        remove_tree(root);
    }
}

const LOCK: &str = "lock";
const ABOUT: &str = "about";
const REFUSED: &str = "refused";
const WAITING: &str = "waiting";
const TRIES: &str = "tries";

/// A command may have closed directories of its own.
fn remove_tree(root: &Path) {
    if std::fs::remove_dir_all(root).is_err() {
        open_up(root, DEPTH);
        let _ = std::fs::remove_dir_all(root);
    }
}

fn open_up(path: &Path, depth: usize) {
    use std::os::unix::fs::PermissionsExt;
    let _ = std::fs::set_permissions(path, PermissionsExt::from_mode(0o700));
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        if depth > 0 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path(), depth - 1);
        }
    }
}

/// Whether it is kept because something of it was not taken over.
fn is_set_aside(root: &Path) -> bool {
    const KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);
    [REFUSED, WAITING].iter().any(|name| {
        let since = std::fs::metadata(root.join(name)).and_then(|stat| stat.modified());
        since.is_ok_and(|since| since.elapsed().is_ok_and(|age| age < KEPT))
    })
}

/// A repository whose private one cannot be taken over yet: its launcher is no more, but a process of its run still works.
pub(super) struct Held {
    /// The host's.
    pub(super) folder: PathBuf,
    /// The file that the process has open.
    pub(super) lock: PathBuf,
}

impl Held {
    /// Those of one run.
    fn below(root: &Path) -> Vec<Self> {
        let all = std::fs::read_dir(root).into_iter().flatten().flatten();
        let about = all.filter_map(|entry| About::at(&entry.path()));
        about.map(|about| Held { folder: about.folder.path, lock: root.join(LOCK) }).collect()
    }
}

/// Which process holds the lock of a run.
enum Holder {
    /// None did: it is ours now.
    None(OwnedFd),
    /// The launcher, or a run that takes over what the launcher left.
    Launcher,
    /// Something that the launcher started, and that outlived it.
    Orphan,
}

/// How long we wait for what dead launchers have started, all of them together. What is left of a cage ends in a moment.
const MOST_WAIT: Duration = Duration::from_secs(2);

/// Takes the lock of a run whose launcher is no more.
fn lock_of_dead(root: &Path, until: Instant) -> Holder {
    const PAUSE: Duration = Duration::from_millis(50);
    loop {
        if let Some(lock) = lock(root, false) {
            // From here on we are the launcher: another run leaves it to us.
            note_launcher(&lock);
            return Holder::None(lock);
        }
        let launcher = std::fs::read_to_string(root.join(LOCK)).ok();
        let launcher = launcher.and_then(|text| rustix::process::Pid::from_raw(text.trim().parse().ok()?));
        let is_dead = |launcher| rustix::process::test_kill_process(launcher) == Err(Errno::SRCH);
        if !launcher.is_some_and(is_dead) {
            return Holder::Launcher;
        }
        if Instant::now() >= until {
            return Holder::Orphan;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Writes down which process takes over what the run leaves. Without it a lock that is held is not waited for.
fn note_launcher(lock: &OwnedFd) {
    let own = rustix::process::getpid().to_string();
    let _ = rustix::fs::ftruncate(lock, 0).and_then(|()| rustix::io::pwrite(lock, own.as_bytes(), 0));
}

fn lock(root: &Path, make: bool) -> Option<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let flags = if make { flags | OFlags::CREATE } else { flags };
    let file = rustix::fs::open(root.join(LOCK), flags, Mode::from_raw_mode(0o600)).ok()?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(file)
}

/// By time, so that what is kept can expire, and by chance.
fn name() -> Result<String, Errno> {
    let mut random = [0; 6];
    keyward_sys::random::fill(&mut random)?;
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime).tv_sec;
    let random: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(format!("{now}-{random}"))
}

impl About {
    fn spelled(&self) -> String {
        let (device, inode) = (self.folder.device.to_string(), self.folder.inode.to_string());
        let mut all = vec![
            ("project", vec![self.project.as_os_str().as_bytes()]),
            ("folder", vec![self.folder.path.as_os_str().as_bytes(), device.as_bytes(), inode.as_bytes()]),
        ];
        all.extend(self.hidden.iter().map(|path| ("hidden", vec![path.as_os_str().as_bytes()])));
        all.extend(self.has_network.then(|| ("network", vec![b"yes".as_slice()])));
        all.extend(self.is_nameless.then(|| ("nameless", vec![b"yes".as_slice()])));
        for (path, digest) in &self.ignores {
            all.push(("ignore", vec![path.as_os_str().as_bytes(), digest.as_bytes()]));
        }
        all.extend(self.modules.iter().map(|(name, url)| ("module", vec![name.as_slice(), url.as_slice()])));
        for part in &self.folder.parts {
            let kind: &[u8] = if part.is_worktree { b"worktree" } else { b"whole" };
            let mut values = vec![part.at.as_os_str().as_bytes(), kind];
            values.extend(part.objects.iter().map(|path| path.as_os_str().as_bytes()));
            all.push(("part", values));
        }
        lines::write(HEADER, all)
    }

    /// That of a private repository.
    fn at(root: &Path) -> Option<Self> {
        Self::read(&std::fs::read(root.join(ABOUT)).ok()?)
    }

    fn read(text: &[u8]) -> Option<Self> {
        let all = lines::read(HEADER, text)?;
        let project = PathBuf::from(lines::first(&all, "project")?.first()?);
        let [path, device, inode] = lines::first(&all, "folder")? else { return None };
        let (device, inode) = (lines::number(device)?, lines::number(inode)?);
        let part = |values: &[std::ffi::OsString]| {
            let [at, kind, objects @ ..] = values else { return None };
            let objects = objects.iter().map(PathBuf::from).collect();
            Some(GitPart { at: at.into(), is_worktree: kind == "worktree", objects })
        };
        let ignore = |values: &[std::ffi::OsString]| {
            let [path, digest] = values else { return None };
            Some((path.into(), digest.to_str()?.to_owned()))
        };
        let module = |values: &[std::ffi::OsString]| {
            let [name, url] = values else { return None };
            Some((name.as_bytes().to_vec(), url.as_bytes().to_vec()))
        };
        let parts: Option<Vec<GitPart>> = lines::all(&all, "part").map(part).collect();
        Some(About {
            folder: GitFolder { path: path.into(), device, inode, is_beyond_us: None, parts: parts? },
            project,
            hidden: lines::all(&all, "hidden").filter_map(|values| Some(values.first()?.into())).collect(),
            has_network: lines::first(&all, "network").is_some(),
            is_nameless: lines::first(&all, "nameless").is_some(),
            ignores: lines::all(&all, "ignore").filter_map(ignore).collect(),
            modules: lines::all(&all, "module").filter_map(module).collect(),
        })
    }
}

/// The files that say what git leaves out, in the directories above what is hidden.
fn ignores(tree: &Path, hidden: &[PathBuf]) -> Vec<(PathBuf, String)> {
    const NAME: &str = ".gitignore";
    let below = hidden.iter().filter(|path| path.starts_with(tree)).flat_map(|path| path.ancestors().skip(1));
    let mut all: Vec<PathBuf> =
        below.filter(|above| above.starts_with(tree)).map(|above| above.join(NAME)).collect();
    all.sort();
    all.dedup();
    all.into_iter().map(|path| (path.clone(), digest_of(&path))).collect()
}

/// The submodules that a working tree names, and their addresses without credentials.
pub(super) fn modules(tree: &Path) -> Vec<(Vec<u8>, Vec<u8>)> {
    let file = super::objects::open(&tree.join(".gitmodules"));
    let text = file.and_then(|file| crate::tree::content(&file, MOST_SETTINGS)).unwrap_or_default();
    let config = Config::read(&credentials::without_credentials(&text)).unwrap_or_default();
    let urls = config
        .entries
        .into_iter()
        .filter(|entry| entry.name.section == "submodule" && entry.name.key == "url");
    urls.filter_map(|entry| Some((entry.name.subsection?, entry.value?))).collect()
}

/// A digest of a file, empty if there is none that git would read.
pub(super) fn digest_of(path: &Path) -> String {
    let content = super::objects::open(path).and_then(|file| crate::tree::content(&file, MOST_SETTINGS));
    let digest = content.map(|content| Sha256::digest(&content));
    digest.iter().flatten().map(|byte| format!("{byte:02x}")).collect()
}

/// Copies what git looks at, within bounds.
struct Copier {
    files: usize,
    bytes: u64,
}

type Io<T> = Result<T, (PathBuf, std::io::Error)>;

/// An error with the path that it is about.
trait At<T> {
    fn at(self, path: &Path) -> Io<T>;
    /// The same for a copy: what keeps it from being written is the target's.
    fn between(self, from: &Path, to: &Path) -> Io<T>;
}

impl<T> At<T> for std::io::Result<T> {
    fn at(self, path: &Path) -> Io<T> {
        self.map_err(|error| (path.into(), error))
    }

    fn between(self, from: &Path, to: &Path) -> Io<T> {
        use std::io::ErrorKind::{QuotaExceeded, ReadOnlyFilesystem, StorageFull};
        self.map_err(|error| match error.kind() {
            QuotaExceeded | ReadOnlyFilesystem | StorageFull => (to.into(), error),
            _ => (from.into(), error),
        })
    }
}

/// Copies an index with its time: a file that is as young as the index may have changed without showing it, and git looks into it.
fn index(from: &Path, to: &Path) -> std::io::Result<()> {
    let changed = std::fs::metadata(from)?.modified()?;
    std::fs::copy(from, to)?;
    std::fs::File::options().write(true).open(to)?.set_modified(changed)
}

impl Copier {
    fn part(&mut self, layer: &Layer, part: &GitPart, exclude: &[u8]) -> Io<()> {
        let from = layer.about.folder.path.join(&part.at);
        let to = layer.git().join(&part.at);
        std::fs::create_dir_all(&to).at(&to)?;
        let mut base = Base::default();
        for entry in std::fs::read_dir(&from).at(&from)? {
            let entry = entry.at(&from)?;
            let name = entry.file_name();
            let (source, target) = (entry.path(), to.join(&name));
            let Ok(kind) = entry.file_type() else { continue };
            match name.as_bytes() {
                _ if is_passing(&name) || names::is_login(&name) => {}
                b"objects" | b"lfs" | b"modules" | b"worktrees" | b"refs" => {}
                _ if names::is_settings(&name) && kind.is_file() => {
                    let text = self.settings(&source, &target)?;
                    if name == "config" {
                        base.config = text;
                    }
                }
                b"packed-refs" if kind.is_file() => {
                    std::fs::copy(&source, &target).map(|_| ()).between(&source, &target)?;
                }
                b"index" if kind.is_file() => index(&source, &target).between(&source, &target)?,
                b"logs" if kind.is_dir() => self.logs(&source, &target, &mut base)?,
                b"hooks" if kind.is_dir() => {
                    let is_needed =
                        |name: &OsStr| !name.as_bytes().ends_with(b".sample") && !names::is_login(name);
                    self.tree(&source, &target, DEPTH, &is_needed)?
                }
                _ => match included_at(&source).filter(|_| kind.is_file()) {
                    Some(shown) => std::fs::write(&target, shown).at(&target)?,
                    None => self.entry(&source, &target, kind, DEPTH, &|name| !names::is_login(name))?,
                },
            }
        }
        if !part.is_worktree {
            self.objects(part, &from, &to)?;
        }
        base.head = base::open(&from).ok().and_then(refs::head);
        let loose = refs::copy(&from, &to).between(&from, &to)?;
        if !exclude.is_empty() && !part.is_worktree && part.at.as_os_str().is_empty() {
            let info = to.join("info");
            std::fs::create_dir_all(&info).at(&info)?;
            let file = info.join("exclude");
            let mut text = std::fs::read(&file).unwrap_or_default();
            // The last line of the user's may have no end.
            text.push(b'\n');
            text.extend_from_slice(exclude);
            std::fs::write(&file, text).at(&file)?;
        }
        base.begin(&layer.base(&part.at), &from, &to, &loose).at(&to)
    }

    /// Objects of the cage's own, and where those of the host are found.
    fn objects(&mut self, part: &GitPart, from: &Path, to: &Path) -> Io<()> {
        let own = to.join("objects");
        let (info, borrowed) = (own.join("info"), to.join(BORROWED));
        for folder in [&info, &own.join("pack"), &borrowed] {
            std::fs::create_dir_all(folder).at(folder)?;
        }
        for number in 0..part.objects.len() {
            let folder = borrowed.join(borrowed_name(number));
            std::fs::create_dir(&folder).at(&folder)?;
        }
        if from.join("lfs").is_dir() {
            let folder = borrowed.join("lfs");
            std::fs::create_dir(&folder).at(&folder)?;
        }
        let alternates = info.join("alternates");
        std::fs::write(&alternates, lenders(from, part)).at(&alternates)
    }

    /// Settings without the credentials in them. What the cage writes need not reach the disk at once.
    fn settings(&mut self, from: &Path, to: &Path) -> Io<Vec<u8>> {
        let text = match std::fs::metadata(from).at(from)?.len() {
            ..=MOST_SETTINGS => std::fs::read(from).at(from)?,
            _ => Vec::new(),
        };
        let text = private_settings(&text);
        std::fs::write(to, &text).at(to)?;
        Ok(text)
    }

    fn logs(&mut self, from: &Path, to: &Path, base: &mut Base) -> Io<()> {
        let mut left = MOST_LOGS;
        copy_logs(from, to, Path::new(""), &mut left, base, DEPTH)
    }

    fn tree(&mut self, from: &Path, to: &Path, depth: usize, wanted: &dyn Fn(&OsStr) -> bool) -> Io<()> {
        std::fs::create_dir_all(to).at(to)?;
        for entry in std::fs::read_dir(from).at(from)? {
            let entry = entry.at(from)?;
            let name = entry.file_name();
            let Ok(kind) = entry.file_type() else { continue };
            if wanted(&name) && !is_passing(&name) {
                self.entry(&entry.path(), &to.join(&name), kind, depth, wanted)?;
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        from: &Path,
        to: &Path,
        kind: std::fs::FileType,
        depth: usize,
        wanted: &dyn Fn(&OsStr) -> bool,
    ) -> Io<()> {
        if self.files >= MOST_FILES {
            return Ok(());
        }
        self.files += 1;
        if kind.is_dir() {
            return if depth > 0 { self.tree(from, to, depth - 1, wanted) } else { Ok(()) };
        }
        if kind.is_symlink() {
            let Ok(target) = std::fs::read_link(from) else { return Ok(()) };
            return std::os::unix::fs::symlink(target, to).at(to);
        }
        let size = std::fs::symlink_metadata(from).map_or(u64::MAX, |stat| stat.len());
        if kind.is_file() && self.bytes.saturating_add(size) <= MOST_BYTES {
            self.bytes += size;
            match std::fs::copy(from, to) {
                // It was there a moment ago.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                copied => copied.map(|_| ()).between(from, to)?,
            }
        }
        Ok(())
    }
}

/// What a cage has of a file beside git's own that the settings may include, and that holds a credential.
pub(super) fn included(name: &OsStr, text: &[u8]) -> Option<Vec<u8>> {
    let holds = names::may_be_included(name, text) && credentials::holds_credentials(text);
    holds.then(|| credentials::without_credentials(text))
}

/// The same of the file at a path.
pub(super) fn included_at(path: &Path) -> Option<Vec<u8>> {
    let text = crate::tree::content(&super::objects::open(path)?, MOST_SETTINGS)?;
    included(path.file_name()?, &text)
}

/// Settings of the host's as a cage has them: without credentials, and what is written there need not reach the disk at once, because the
/// host's git writes it again.
pub(super) fn private_settings(host: &[u8]) -> Vec<u8> {
    let text = credentials::without_credentials(host);
    let end: &[u8] = if text.is_empty() || text.ends_with(b"\n") { b"" } else { b"\n" };
    [&text, end, b"[core]\n\tfsync = none\n"].concat()
}

/// The list of lenders that a private repository begins with, for a part whose folder is `own` on both sides. As whole paths: tools that read
/// objects without git, such as git-lfs, know no others.
pub(super) fn lenders(own: &Path, part: &GitPart) -> Vec<u8> {
    let has_line_end = own.as_os_str().as_bytes().contains(&b'\n');
    let folder = if has_line_end { Path::new("..") } else { own }.join(BORROWED);
    let lines = (0..part.objects.len()).map(|number| {
        let path = folder.join(borrowed_name(number));
        [path.as_os_str().as_bytes(), b"\n"].concat()
    });
    lines.flatten().collect()
}

/// The folder of a private repository in which the host's objects of this number are seen.
pub fn borrowed_name(number: usize) -> String {
    if number == 0 { "objects".into() } else { format!("objects-{number}") }
}

/// What a git of the host's holds while it works, and what is its own affair.
fn is_passing(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.ends_with(b".lock")
        || name.starts_with(b"tmp_")
        || name.starts_with(b"fsmonitor--daemon")
        || name.starts_with(b"keyward-incoming-")
        || matches!(name, b"gc.pid" | b"gc.log")
}

/// Logs grow at their end: their length is what both sides have in common.
fn copy_logs(
    from: &Path,
    to: &Path,
    below: &Path,
    left: &mut usize,
    base: &mut Base,
    depth: usize,
) -> Io<()> {
    std::fs::create_dir_all(to).at(to)?;
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(from).at(from)? {
        let entry = entry.at(from)?;
        match entry.file_type() {
            Ok(kind) if kind.is_file() && !is_passing(&entry.file_name()) => files.push(entry.file_name()),
            Ok(kind) if kind.is_dir() => folders.push(entry.file_name()),
            _ => {}
        }
    }
    for name in files {
        let is_others = below.starts_with("refs/remotes");
        if is_others && *left == 0 {
            continue;
        }
        *left = left.saturating_sub(usize::from(is_others));
        let (source, target) = (from.join(&name), to.join(&name));
        let Ok(log) = std::fs::read(&source) else { continue };
        let log = credentials::log_without_credentials(log);
        std::fs::write(&target, &log).at(&target)?;
        base.logs.insert(below.join(&name).into_os_string(), log.len() as u64);
    }
    for name in folders.iter().filter(|_| depth > 0) {
        copy_logs(&from.join(name), &to.join(name), &below.join(name), left, base, depth - 1)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_it_is_survives_the_disk() {
        let part = |at: &str, is_worktree| GitPart {
            at: at.into(),
            is_worktree,
            objects: vec!["/p/.git/objects".into()],
        };
        let about = About {
            folder: GitFolder {
                path: "/p x/.git".into(),
                device: 7,
                inode: 9,
                is_beyond_us: None,
                parts: vec![part("", false), part("worktrees/a", true)],
            },
            project: "/p x".into(),
            hidden: vec!["/p x/.env".into()],
            has_network: true,
            is_nameless: true,
            ignores: vec![("/p x/.gitignore".into(), String::new()), ("/p x/a".into(), "0f".into())],
            modules: vec![(b"lib".to_vec(), b"https://example.test/lib".to_vec())],
        };
        assert_eq!(About::read(about.spelled().as_bytes()), Some(about));
    }

    #[test]
    fn a_git_that_outlives_its_launcher_keeps_the_lock_until_it_ends() {
        let store = tempfile::tempdir().unwrap();
        let run = Run::begin(store.path()).unwrap();
        let root = run.root.clone();
        let start = || {
            let mut cat = std::process::Command::new("cat");
            cat.stdin(std::process::Stdio::piped()).spawn().unwrap()
        };
        let mut git = run.with_lock_lent(start);
        let mut other = start();
        drop(run);
        assert!(lock(&root, false).is_none());
        drop(git.stdin.take());
        git.wait().unwrap();
        assert!(lock(&root, false).is_some());
        drop(other.stdin.take());
        other.wait().unwrap();
    }
}
