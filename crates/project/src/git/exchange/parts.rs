//! The parts of a repository: the folder itself, its submodules and its further working trees; those that were there, and those that the
//! command has made or removed.

use super::{Exchange, Moment, Part};
use crate::git::base::{Base, open};
use crate::git::clones;
use crate::git::inspect::id_length;
use crate::git::intent::Intent;
use crate::git::layer::{BORROWED, included, lenders, private_settings};
use crate::git::place::{self, Thing};
use keyward_policy::untrusted::git::config::Config;
use keyward_policy::untrusted::git::names::{is_settings, new_fate};
use keyward_policy::untrusted::git::refs::Value;
use keyward_policy::untrusted::git::{Check, Fate, config, fate};
use keyward_sys::file::plain;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use std::ffi::{OsStr, OsString};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Submodules in submodules, and names of them with slashes.
const DEPTH: usize = 24;

/// Says why git must not remove a working tree.
const LOCKED: &str = "locked";
const MOST_REASON: usize = 4_096;

impl Exchange<'_> {
    pub(super) fn all_parts(&mut self) {
        self.whole(Path::new(""), 0);
    }

    /// A part with objects, then what belongs to it.
    fn whole(&mut self, at: &Path, depth: usize) {
        let Some(mut part) = self.open(at, at, false) else { return };
        self.part(&mut part);
        self.large_files(&mut part);
        self.worktrees(&mut part);
        if self.has_ended() {
            self.tell_rest(&mut part);
            self.tell_uncovered(&mut part);
            self.tell_modules(&mut part);
            if self.moment != Moment::Ended {
                let _ = part.base.write(&part.place);
            }
        }
        self.modules(&at.join("modules"), depth);
    }

    fn open(&mut self, at: &Path, common: &Path, is_worktree: bool) -> Option<Part> {
        let (host_root, cage_root) = (self.layer.about.folder.path.clone(), self.layer.git());
        let both = || -> Result<(OwnedFd, OwnedFd, OwnedFd), Errno> {
            let host = open(&host_root).map_err(|_| Errno::NOENT)?;
            let cage = open(&cage_root).map_err(|_| Errno::NOENT)?;
            Ok((place::folder(&host, at)?, place::folder(&host, common)?, place::folder(&cage, at)?))
        };
        let (host, owner, cage) = match both() {
            Ok(both) => both,
            // The command is about to remove it.
            Err(Errno::NOENT) if is_worktree && !self.has_ended() => {
                self.news.is_busy = true;
                return None;
            }
            Err(errno) => {
                self.trouble(at, &errno.to_string());
                return None;
            }
        };
        let place = self.layer.base(at);
        let mut base = Base::read(&place).unwrap_or_default();
        let id_length = id_length(&owner);
        if let Some(intent) = Intent::read(&place) {
            intent.settle(&mut base, &place, &host, &cage, id_length);
        }
        Some(Part {
            at: at.into(),
            common: common.into(),
            is_worktree,
            host,
            host_path: host_root.join(at),
            cage,
            place,
            base,
            id_length,
        })
    }

    fn cage_root(&self) -> Option<OwnedFd> {
        open(&self.layer.git()).ok()
    }

    fn host_root(&self) -> Option<OwnedFd> {
        open(&self.layer.about.folder.path).ok()
    }

    /// Submodules: those that the host has, and new ones.
    fn modules(&mut self, below: &Path, depth: usize) {
        let (Some(cage), Some(host)) = (self.cage_root(), self.host_root()) else { return };
        let Ok(folder) = place::folder(&cage, below) else { return };
        for name in place::names(&folder) {
            let at = below.join(&name);
            if place::thing_in(&folder, &name) != Some(Thing::Folder) || depth > DEPTH {
                continue;
            }
            let has_head = |root: &OwnedFd| place::thing(root, &at.join("HEAD")).is_some();
            match (has_head(&cage), has_head(&host)) {
                (true, true) => self.whole(&at, depth + 1),
                // While the command runs, it may still be in the making.
                (true, false) if self.has_ended() => {
                    if self.new_module(&host, &cage, &at) {
                        self.whole(&at, depth + 1);
                    }
                }
                (true, false) => {}
                (false, _) => self.modules(&at, depth + 1),
            }
        }
    }

    /// Makes the host's side of a submodule that the command has cloned. Its history comes with the exchange.
    fn new_module(&mut self, host: &OwnedFd, cage: &OwnedFd, at: &Path) -> bool {
        let own = self.layer.about.folder.path.join(at);
        let project = self.layer.about.project.clone();
        let in_project = |value: &[u8]| is_in_project(&own.join(OsStr::from_bytes(value)), &project, false);
        let made = || -> Result<(Vec<u8>, Vec<String>), Errno> {
            let (text, _) = place::read(cage, &at.join("config"), Check::Text.most())?;
            let (kept, out) = config::of_new_repository(&text, &in_project).map_err(|_| Errno::INVAL)?;
            for folder in ["objects/info", "objects/pack", "refs/heads", "refs/tags"] {
                place::made_folder(host, &at.join(folder))?;
            }
            if let Some(lent) = clones::lenders(cage, &at.join("objects")) {
                let known = &self.layer.about.folder;
                let shown = |folder: &Path, lender: &Path| {
                    folder.starts_with(&known.path) || lender.starts_with(&project)
                };
                clones::settle(host, &at.join("objects"), &lent, &own.join("objects"), &shown)?;
            }
            place::replace(host, &at.join("config"), &kept, |now| now.is_none())?;
            place::replace(host, &at.join("HEAD"), b"ref: refs/heads/main\n", |now| now.is_none())?;
            Ok((text, out))
        };
        match made() {
            Ok((text, out)) => {
                let mut base =
                    Base { config: text, head: Value::read(b"ref: refs/heads/main\n"), ..Base::default() };
                let written = base.write(&self.layer.base(at));
                if let (Ok(()), Some(mut part)) = (written, self.open(at, at, false)) {
                    for name in out {
                        self.keep_back(&mut part, Path::new("config"), &name);
                    }
                    let _ = part.base.write(&part.place);
                    return true;
                }
                false
            }
            Err(errno) => {
                self.trouble(at, &errno.to_string());
                false
            }
        }
    }

    /// Further working trees of a part.
    fn worktrees(&mut self, part: &mut Part) {
        let (Some(cage), Some(host)) = (self.cage_root(), self.host_root()) else { return };
        let below = part.at.join("worktrees");
        let all = |root: &OwnedFd| -> Vec<OsString> {
            place::folder(root, &below).map(place::names).unwrap_or_default()
        };
        let (inside, outside) = (all(&cage), all(&host));
        for name in &inside {
            let at = below.join(name);
            let is_whole = ["HEAD", "index", "gitdir", "commondir"]
                .iter()
                .all(|name| place::stamp(&cage, &at.join(name)).is_some())
                && place::thing(&cage, &at.join("index.lock")).is_none();
            let is_there = outside.contains(name) && place::thing(&host, &at.join("HEAD")).is_some();
            if !is_there && !((self.has_ended() || is_whole) && self.new_worktree(part, &host, &cage, &at)) {
                continue;
            }
            if is_there {
                self.moved_worktree(part, &host, &cage, &at);
            }
            self.locked_worktree(part, &host, &cage, &at);
            if let Some(mut tree) = self.open(&at, &part.at.clone(), true) {
                self.part(&mut tree);
            }
        }
        for name in outside.iter().filter(|name| !inside.contains(name)) {
            let at = below.join(name);
            // Only what the command had and has removed.
            if self.layer.base(&at).exists() {
                self.remove_worktree(part, &host, &at);
            }
        }
        if outside.iter().all(|name| place::thing(&host, &below.join(name)).is_none()) {
            let _ = place::remove_folder(&host, &below);
        }
    }

    /// A working tree that the command has moved to another place in the project.
    fn moved_worktree(&mut self, part: &mut Part, host: &OwnedFd, cage: &OwnedFd, at: &Path) {
        let pointer = at.join("gitdir");
        let text =
            |root: &OwnedFd| place::read(root, &pointer, Check::Text.most()).map(|(text, _)| text).ok();
        let (here, there) = (text(host), text(cage));
        if there.is_none() || here == there {
            return;
        }
        let inside = pointer.strip_prefix(&part.at).unwrap_or(&pointer).to_path_buf();
        let moved =
            self.of_project(cage, at, false).and_then(|new| place::replace(host, &pointer, &new, |_| true));
        match moved {
            Ok(_) => self.took(part, &inside),
            Err(Errno::INVAL) => self.keep_back(part, &inside, "it is not a working tree in the project"),
            Err(errno) => self.trouble(&pointer, &errno.to_string()),
        }
    }

    /// A working tree that the command has locked, or whose lock of the command's own it has taken away: `git worktree add` holds one. A lock
    /// of the user's stays.
    fn locked_worktree(&mut self, part: &mut Part, host: &OwnedFd, cage: &OwnedFd, at: &Path) {
        let path = at.join(LOCKED);
        let reason = |root: &OwnedFd| place::read(root, &path, MOST_REASON).map(|(text, _)| text).ok();
        let (own, there) = (self.own_lock(at), reason(cage));
        let here = match (reason(host), place::thing(host, &path)) {
            (None, Some(_)) => Lock::Unread,
            (reason, _) => Lock::Says(reason),
        };
        if !may_lock(&own, &there, &here) {
            return;
        }
        let record = self.layer.base(at).join(LOCKED);
        // Written down first: a lock that is not known as the command's would never go.
        let done = match &there {
            Some(reason) => std::fs::write(&record, reason)
                .map_err(|_| Errno::IO)
                .and_then(|()| place::replace(host, &path, reason, |_| true).map(drop)),
            None => place::remove(host, &path).inspect(|()| drop(std::fs::remove_file(&record))),
        };
        match done {
            Ok(()) => self.took(part, path.strip_prefix(&part.at).unwrap_or(&path)),
            Err(errno) => self.trouble(&path, &errno.to_string()),
        }
    }

    /// The lock that a command has put on a working tree.
    fn own_lock(&self, at: &Path) -> Option<Vec<u8>> {
        std::fs::read(self.layer.base(at).join(LOCKED)).ok()
    }

    /// A submodule that the command has moved to another place in the project: its settings name the folder, and the folder leads back.
    pub(super) fn moved_module(&mut self, part: &Part, cage: &[u8]) -> bool {
        let value = |text: &[u8]| {
            let config = Config::read(text).ok()?;
            config.last("core", "worktree").map(<[u8]>::to_vec)
        };
        let Some(new) = value(cage) else { return false };
        if value(&part.base.config).as_ref() == Some(&new) || !part.at.starts_with("modules") {
            return false;
        }
        let tree = part.host_path.join(OsStr::from_bytes(&new));
        let project = &self.layer.about.project;
        let leads_back = plain(&tree).and_then(|tree| {
            // Whatever stands there: only an ordinary file is read.
            let mark = tree.strip_prefix(project).ok()?.join(".git");
            let (text, _) = place::read(open(project).ok()?, &mark, Check::Text.most()).ok()?;
            let target = text.strip_prefix(b"gitdir: ")?.trim_ascii_end();
            std::fs::canonicalize(tree.join(OsStr::from_bytes(target))).ok()
        });
        let own = std::fs::canonicalize(&part.host_path).ok();
        if !is_in_project(&tree, project, false) || leads_back.is_none() || leads_back != own {
            return false;
        }
        let mut git = self.git.trusted(&part.host_path);
        // As a repository it cannot be entered before it knows where its files are.
        git.env_remove("GIT_DIR")
            .current_dir("/")
            .arg("config")
            .arg("--file")
            .arg(part.host_path.join("config"));
        git.arg("core.worktree").arg(OsStr::from_bytes(&new));
        super::moves::run(git, b"").is_ok()
    }

    /// Makes the host's side of a working tree that the command has added in the project.
    fn new_worktree(&mut self, part: &mut Part, host: &OwnedFd, cage: &OwnedFd, at: &Path) -> bool {
        let inside = at.strip_prefix(&part.at).unwrap_or(at).to_path_buf();
        let made = || -> Result<(), Errno> {
            let gitdir = self.of_project(cage, at, false)?;
            let (commondir, _) = place::read(cage, &at.join("commondir"), 16)?;
            if commondir != b"../..\n" {
                return Err(Errno::INVAL);
            }
            place::made_folder(host, at)?;
            place::replace(host, &at.join("gitdir"), &gitdir, |now| now.is_none())?;
            place::replace(host, &at.join("commondir"), &commondir, |now| now.is_none())?;
            let zeros = [vec![b'0'; part.id_length * 2], b"\n".to_vec()].concat();
            place::replace(host, &at.join("HEAD"), &zeros, |now| now.is_none()).map(drop)
        };
        match made() {
            Ok(()) => {
                let mut base = Base { head: crate::git::refs::head_in(host, at), ..Base::default() };
                let _ = base.write(&self.layer.base(at));
                self.took(part, &inside);
                true
            }
            Err(Errno::INVAL | Errno::NOENT) => {
                self.keep_back(part, &inside, "it is not a working tree in the project");
                false
            }
            Err(errno) => {
                self.trouble(at, &errno.to_string());
                false
            }
        }
    }

    /// Removes the folder of a working tree that the command removed.
    fn remove_worktree(&mut self, part: &mut Part, host: &OwnedFd, at: &Path) {
        let inside = at.strip_prefix(&part.at).unwrap_or(at).to_path_buf();
        let lock = place::read(host, &at.join(LOCKED), MOST_REASON).map(|(text, _)| text).ok();
        let is_own = lock.is_some() && lock == self.own_lock(at);
        if !is_own && place::thing(host, &at.join(LOCKED)).is_some() {
            return self.keep_back(part, &inside, "you have locked it");
        }
        if let Some(Value::Id(id)) = crate::git::refs::head_in(host, at) {
            let name = [b"worktree-".as_slice(), at.file_name().unwrap_or_default().as_bytes()].concat();
            if let Err(why) = self.keep(part, &[(name, id)]) {
                self.not_done(part, &inside, &why);
                return;
            }
        }
        let removed = || -> Result<(), Errno> {
            self.of_project(host, at, true)?;
            let mut folders = vec![at.to_path_buf()];
            for file in place::files_below(host.as_fd(), at, DEPTH)? {
                place::remove(host, &at.join(&file))?;
                let above = file.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
                folders.extend(above.map(|above| at.join(above)));
            }
            for name in ["logs", "refs", "refs/bisect", "refs/worktree", "refs/rewritten"] {
                folders.push(at.join(name));
            }
            folders.sort_by_key(|folder| std::cmp::Reverse(folder.components().count()));
            folders.dedup();
            for folder in folders {
                let _ = place::remove_folder(host, &folder);
            }
            if place::thing(host, at).is_none() { Ok(()) } else { Err(Errno::NOTEMPTY) }
        };
        match removed() {
            Ok(()) => {
                let _ = std::fs::remove_dir_all(self.layer.base(at));
                self.took(part, &inside);
            }
            // In the cage it looked as if it were gone: it stands where the cage does not reach.
            Err(Errno::INVAL) => self.keep_back(part, &inside, "its working tree is not in the project"),
            Err(errno) => self.trouble(at, &errno.to_string()),
        }
    }

    /// The pointer of a working tree's folder, if it leads to one in the project.
    fn of_project(&self, base: &OwnedFd, at: &Path, gone: bool) -> Result<Vec<u8>, Errno> {
        let (text, _) = place::read(base, &at.join("gitdir"), Check::Text.most())?;
        let own = self.layer.about.folder.path.join(at);
        leads_to_tree(&text, &own, &self.layer.about.project, gone).then_some(text).ok_or(Errno::INVAL)
    }

    /// What the command has put where git would run it or be led by it, and what else is not taken over.
    fn tell_rest(&mut self, part: &mut Part) {
        let alternates = Path::new("objects/info/alternates");
        let lent = place::read(&part.cage, alternates, Check::Text.most()).map(|(text, _)| text);
        let known = self.layer.about.folder.parts.iter().find(|known| known.at == part.at);
        if known.is_some_and(|known| lent.is_ok_and(|lent| lent != lenders(&part.host_path, known))) {
            self.keep_back(part, alternates, "");
        }
        for name in place::names(&part.cage) {
            let path = Path::new(&name);
            if name == BORROWED {
                continue;
            }
            let folders = ["hooks", "info", "logs", "objects/info"];
            match (fate(path), place::thing_in(&part.cage, &name)) {
                (Fate::Ignored | Fate::Repositories | Fate::Worktrees | Fate::Whole, _) => {}
                (Fate::Folder, Some(Thing::Folder)) => {
                    for folder in folders.iter().filter(|folder| Path::new(folder).starts_with(path)) {
                        self.tell_below(part, Path::new(folder), DEPTH);
                    }
                }
                (Fate::KeptBack, Some(_)) => self.tell_if_changed(part, path),
                // Told where they are compared.
                (Fate::Settings, _) => {}
                (Fate::Published(check) | Fate::Passing(check), _) if check != Check::Index => {}
                (fate, Some(Thing::Other)) if fate != Fate::Ignored => self.keep_back(part, path, ""),
                _ => {}
            }
        }
    }

    fn tell_below(&mut self, part: &mut Part, folder: &Path, depth: usize) {
        let Ok(open) = place::folder(&part.cage, folder) else { return };
        for name in place::names(&open) {
            let path = folder.join(&name);
            match (new_fate(&path), place::thing_in(&open, &name)) {
                (_, Some(Thing::Folder)) if depth > 0 => self.tell_below(part, &path, depth - 1),
                (Fate::Log, Some(Thing::Other)) => {
                    self.keep_back(part, &path, "a link, or something else that is not a file")
                }
                (Fate::KeptBack, Some(_)) if path != Path::new("objects/info/alternates") => {
                    self.tell_if_changed(part, &path);
                }
                _ => {}
            }
        }
    }

    fn tell_if_changed(&mut self, part: &mut Part, path: &Path) {
        let most = Check::Text.most();
        let content = |root: &OwnedFd| place::read(root, path, most).map(|(content, _)| content).ok();
        let shown = |host: Vec<u8>| match is_settings(path.as_os_str()) {
            true => private_settings(&host),
            false => included(path.as_os_str(), &host).unwrap_or(host),
        };
        let link = |root: &OwnedFd| rustix::fs::readlinkat(root, path, Vec::new()).ok();
        let is_same = match place::thing(&part.cage, path) {
            Some(Thing::File(_)) => content(&part.cage) == content(&part.host).map(shown),
            Some(Thing::Other) => link(&part.cage).is_some() && link(&part.cage) == link(&part.host),
            Some(Thing::Folder) => place::thing(&part.host, path) == Some(Thing::Folder),
            _ => true,
        };
        if !is_same {
            self.keep_back(part, path, "");
        }
    }

    /// Large files that git-lfs keeps beside the objects: those whose content has the digest that is their name.
    fn large_files(&mut self, part: &mut Part) {
        let all = Path::new("lfs/objects");
        if place::thing(&part.cage, all) != Some(Thing::Folder) {
            return;
        }
        let files = place::files_below(part.cage.as_fd(), all, 2).unwrap_or_default();
        for file in files {
            let path = all.join(&file);
            let name = file.file_name().and_then(OsStr::to_str).unwrap_or_default().to_owned();
            let is_name = name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
            if !is_name || file.components().count() != 3 || place::thing(&part.host, &path).is_some() {
                continue;
            }
            match copy_large(part, &path, &name) {
                Ok(true) => self.took(part, &path),
                Ok(false) => self.keep_back(part, &path, "its content is not what its name says"),
                Err(errno) => self.trouble(&part.at.join(&path), &errno.to_string()),
            }
        }
    }
}

/// The lock of a working tree on the host.
enum Lock {
    Says(Option<Vec<u8>>),
    /// It is there, and cannot be read.
    Unread,
}

/// Whether a lock follows the command's: it has changed, and the host's is the one that a command put there, or there was none.
fn may_lock(own: &Option<Vec<u8>>, there: &Option<Vec<u8>>, here: &Lock) -> bool {
    there != own && matches!(here, Lock::Says(here) if here == own)
}

/// Whether the pointer of a working tree's own folder leads to one in the project: as an absolute path, or relative to the folder.
fn leads_to_tree(text: &[u8], own: &Path, project: &Path, gone: bool) -> bool {
    let line = text.strip_suffix(b"\n").unwrap_or(text);
    let mark = own.join(OsStr::from_bytes(line));
    !line.contains(&b'\n')
        && mark.ends_with(".git")
        && mark.parent().is_some_and(|tree| is_in_project(tree, project, gone))
}

/// A large file is no larger than what may come over at once.
const MOST_LARGE: u64 = 8 << 30;
/// What a file system may keep elsewhere than in blocks.
const SLACK: u64 = 4 << 10;

/// Copies a file whose name is its digest. Whether it was so.
fn copy_large(part: &Part, path: &Path, name: &str) -> Result<bool, Errno> {
    let from = place::open_file(&part.cage, path)?;
    let stat = rustix::fs::fstat(&from)?;
    // One with holes takes no room in the cage, and all of it here.
    let (size, blocks) =
        (u64::try_from(stat.st_size).unwrap_or(0), u64::try_from(stat.st_blocks).unwrap_or(0));
    if size > MOST_LARGE || blocks.saturating_mul(512).saturating_add(SLACK) < size {
        return Err(Errno::FBIG);
    }
    let folder = place::made_folder(&part.host, path.parent().unwrap_or(Path::new("")))?;
    let beside = format!(".keyward-{name}");
    let _ = rustix::fs::unlinkat(&folder, &beside, rustix::fs::AtFlags::empty());
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let to = rustix::fs::openat(&folder, &beside, flags, Mode::from_raw_mode(0o644))?;
    let (mut from, mut to) = (std::fs::File::from(from), std::fs::File::from(to));
    let mut digest = Sha256::new();
    let mut part = vec![0; 1 << 16];
    let copied = loop {
        match from.read(&mut part) {
            Ok(0) => break Ok(()),
            Ok(length) => {
                digest.update(&part[..length]);
                if let Err(error) = to.write_all(&part[..length]) {
                    break Err(error);
                }
            }
            Err(error) => break Err(error),
        }
    };
    let found: String = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    let fits = copied.is_ok() && found == name.to_ascii_lowercase();
    let placed = match fits {
        true => rustix::fs::renameat(&folder, &beside, &folder, name),
        false => rustix::fs::unlinkat(&folder, &beside, rustix::fs::AtFlags::empty()),
    };
    copied.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    placed.map(|()| fits)
}

/// Whether a path leads to a folder of the project, by its letters and for the kernel, and into no repository's own folder. Where `gone` is true
/// the folder need not be there any more.
fn is_in_project(path: &Path, project: &Path, gone: bool) -> bool {
    if !is_the_same_by_letters(path, project) {
        return false;
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(root) = rustix::fs::open(project, flags, Mode::empty()) else { return false };
    let Some(path) = plain(path) else { return false };
    path.strip_prefix(project).is_ok_and(|rest| {
        let there = match place::folder(&root, rest) {
            Ok(_) => true,
            Err(errno) => gone && errno == Errno::NOENT,
        };
        there
            && rest.components().next().is_some()
            && !rest.iter().any(|name| name.eq_ignore_ascii_case(".git"))
    })
}

/// Whether no `..` comes after a name that may be a link: the kernel would go elsewhere than the letters say.
fn is_the_same_by_letters(path: &Path, project: &Path) -> bool {
    let mut here = std::path::PathBuf::new();
    for part in path.components() {
        if part == std::path::Component::ParentDir && here.starts_with(project) && here != project {
            let is_link = here.symlink_metadata().is_ok_and(|stat| stat.file_type().is_symlink());
            let is_own = here.iter().any(|name| name.eq_ignore_ascii_case(".git"));
            if is_link || !is_own {
                return false;
            }
        }
        match part {
            std::path::Component::ParentDir => drop(here.pop()),
            part => here.push(part),
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_of_the_project_is_in_it_by_its_letters_and_for_the_kernel() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let project = root.join("project");
        for path in ["project/sub/deep", "project/.git/modules", "elsewhere/x"] {
            std::fs::create_dir_all(root.join(path)).unwrap();
        }
        std::os::unix::fs::symlink(root.join("elsewhere"), project.join("link")).unwrap();
        let is_in = |below: &str| is_in_project(&project.join(below), &project, false);
        assert!(is_in("sub") && is_in("sub/deep"));
        assert!(is_in(".git/modules/../../sub"), "as git writes it");
        assert!(!is_in(""), "the project itself");
        assert!(!is_in("missing") && !is_in("../elsewhere"));
        assert!(!is_in("link/x"), "the kernel would leave the project");
        assert!(!is_in("link/../sub"), "the letters say another place than the kernel");
        assert!(!is_in(".git/modules") && !is_in("sub/.GIT"), "a repository's own");
        assert!(is_in_project(&project.join("missing"), &project, true));
        assert!(!is_in_project(&project.join("link/missing"), &project, true));
    }

    #[test]
    fn the_pointer_of_a_working_tree_is_one_line_to_a_mark_in_the_project() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().canonicalize().unwrap().join("project");
        let own = project.join(".git/worktrees/w");
        std::fs::create_dir_all(&own).unwrap();
        std::fs::create_dir_all(project.join("w")).unwrap();
        let leads = |text: String| leads_to_tree(text.as_bytes(), &own, &project, false);
        let absolute = project.join("w/.git").display().to_string();
        assert!(leads(format!("{absolute}\n")) && leads("../../../w/.git\n".into()));
        assert!(!leads(format!("{absolute}\n/etc/.git\n")), "two lines");
        assert!(!leads(format!("{}\n", project.join("w").display())), "the tree itself");
        assert!(!leads("/etc/.git\n".into()) && !leads(String::new()));
        let missing = format!("{}\n", project.join("gone/.git").display());
        assert!(!leads(missing.clone()) && leads_to_tree(missing.as_bytes(), &own, &project, true));
    }

    #[test]
    fn a_lock_of_the_users_stays() {
        let says = |word: &str| Some(word.as_bytes().to_vec());
        let may = |own: Option<Vec<u8>>, there: Option<Vec<u8>>, here: Option<Vec<u8>>| {
            may_lock(&own, &there, &Lock::Says(here))
        };
        assert!(may(None, says("command"), None), "a new one");
        assert!(may(says("command"), None, says("command")), "the command's own goes");
        assert!(!may(None, says("command"), says("user")), "the user has one");
        assert!(!may(says("command"), None, says("user")), "the user has changed it");
        assert!(!may(says("command"), says("command"), None), "nothing new");
        assert!(!may_lock(&None, &says("command"), &Lock::Unread), "it cannot be read");
    }

    #[test]
    fn a_large_file_comes_if_its_name_is_its_digest() {
        use super::super::tests::Sides;
        let sides = Sides::new();
        let name: String = Sha256::digest(b"large").iter().map(|byte| format!("{byte:02x}")).collect();
        let path = format!("lfs/objects/aa/bb/{name}");
        let copy = || copy_large(&sides.part, Path::new(&path), &name);
        sides.write(&format!("cage/{path}"), "forged");
        assert_eq!((copy(), sides.read(&format!("host/{path}"))), (Ok(false), String::new()));
        sides.write(&format!("cage/{path}"), "large");
        assert_eq!((copy(), sides.read(&format!("host/{path}"))), (Ok(true), "large".into()));
        let beside = std::fs::read_dir(sides.folder.path().join("host/lfs/objects/aa/bb")).unwrap().count();
        assert_eq!(beside, 1, "nothing is left beside it");
    }

    #[test]
    fn a_file_with_holes_is_not_copied() {
        use super::super::tests::Sides;
        let sides = Sides::new();
        sides.write("cage/lfs/objects/x", "");
        let file = std::fs::File::options()
            .write(true)
            .open(sides.folder.path().join("cage/lfs/objects/x"))
            .unwrap();
        file.set_len(1 << 30).unwrap();
        assert_eq!(copy_large(&sides.part, Path::new("lfs/objects/x"), "x"), Err(Errno::FBIG));
    }
}
