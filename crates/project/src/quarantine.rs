//! The quarantine: a folder outside every project for footholds that were taken out of one. Each entry has a folder of its own with what
//! is known about it, and the thing itself.
//!
//! What is known is on the disk before the thing is moved, so that whoever is killed in between leaves enough to finish.

pub use crate::carry::NotRemoved;
use crate::carry::{self, Across, At, PARTIAL, carry};
use crate::lines;
use crate::search::index::Kind as Is;
use crate::search::walk::changed;
use crate::tree::Root;
use keyward_sys::file::make_private_folder;
use keyward_sys::file::write_all;
use keyward_sys::random;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{CWD, FileType, FlockOperation, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const HEADER: &str = "keyward quarantine 1";
const ABOUT: &str = "about";
const THING: &str = "thing";

/// The quarantine of a user.
pub struct Quarantine {
    folder: PathBuf,
}

/// What is known about an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    /// Seconds since 1970.
    pub time: u64,
    pub project: PathBuf,
    /// Device and inode of the project's root, and when it was born.
    pub root: (u64, u64, i128),
    /// Where it stood, relative to the project.
    pub path: PathBuf,
    pub is: String,
    /// Device, inode and change time of the thing, where it stood: an inode alone may be used again for a file of the user's.
    pub identity: (u64, u64, i128),
    /// The command that made it, without what looks like a credential.
    pub argv: Vec<String>,
}

/// An entry of the quarantine.
pub struct Entry {
    pub id: String,
    pub about: About,
}

/// Why an entry was not put back.
pub enum NotRestored {
    /// There is no such entry.
    Unknown,
    /// It lies where it lay.
    Kept { about: Box<About>, at: PathBuf, why: Why },
}

/// Why an entry was not removed.
pub enum NotDropped {
    /// There is no such entry.
    Unknown,
    Failed(NotRemoved),
}

/// What stands in the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// The project is gone, or another folder stands in its place.
    OtherProject,
    /// Something stands there.
    Taken,
    Failed(Errno),
}

impl About {
    fn text(&self) -> String {
        let three = |(a, b, c): (u64, u64, i128)| [a.to_string(), b.to_string(), c.to_string()];
        let (time, root, identity) = (self.time.to_string(), three(self.root), three(self.identity));
        let lines: [(&str, Vec<&[u8]>); 7] = [
            ("time", vec![time.as_bytes()]),
            ("project", vec![self.project.as_os_str().as_bytes()]),
            ("root", root.iter().map(String::as_bytes).collect()),
            ("path", vec![self.path.as_os_str().as_bytes()]),
            ("is", vec![self.is.as_bytes()]),
            ("identity", identity.iter().map(String::as_bytes).collect()),
            ("argv", self.argv.iter().map(|argument| argument.as_bytes()).collect()),
        ];
        lines::write(HEADER, lines)
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let lines = lines::read(HEADER, text)?;
        let one = |name| lines::first(&lines, name);
        let three = |name| match one(name)? {
            [a, b, c] => Some((lines::number(a)?, lines::number(b)?, lines::number(c)?)),
            _ => None,
        };
        Some(About {
            time: lines::number(one("time")?.first()?)?,
            project: one("project")?.first()?.into(),
            root: three("root")?,
            path: one("path")?.first()?.into(),
            is: one("is")?.first()?.to_string_lossy().into_owned(),
            identity: three("identity")?,
            argv: one("argv")?.iter().map(|argument| argument.to_string_lossy().into_owned()).collect(),
        })
    }
}

fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

/// What a thing is, in a word.
fn word(is: Is) -> &'static str {
    match is {
        Is::File => "file",
        Is::Directory => "folder",
        Is::Link => "link",
        Is::Other => "special file",
    }
}

impl Quarantine {
    pub fn new(state: &Path) -> Self {
        Quarantine { folder: state.join("quarantine") }
    }

    /// Takes something out of a project. `None` when it is not there any more.
    pub(crate) fn take(
        &self,
        root: &Root,
        relative: &Path,
        argv: &[String],
        across: Across,
    ) -> Result<Option<String>, Errno> {
        let (Some(parent), Some(name)) = (relative.parent(), relative.file_name()) else {
            return Err(Errno::INVAL);
        };
        let parent = match root.folder(parent) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            other => other?,
        };
        let from = At { folder: parent.as_fd(), name };
        let found = match carry::stat(from) {
            Err(Errno::NOENT) => return Ok(None),
            other => other?,
        };
        let about = About {
            time: now(),
            project: root.path.clone(),
            root: root.identity,
            path: relative.into(),
            is: word(FileType::from_raw_mode(found.st_mode).into()).into(),
            identity: identity(&found),
            argv: argv.to_vec(),
        };
        let (id, folder) = self.new_entry(&about)?;
        match carry(from, At { folder: folder.as_fd(), name: OsStr::new(THING) }, across) {
            Ok(()) => Ok(Some(id)),
            Err(errno) => {
                if !has(&folder, THING) {
                    let _ = self.remove(&id);
                }
                if errno == Errno::NOENT { Ok(None) } else { Err(errno) }
            }
        }
    }

    /// An entry that says what is about to happen. It is locked while the descriptor is open.
    fn new_entry(&self, about: &About) -> Result<(String, OwnedFd), Errno> {
        make_private_folder(&self.folder)?;
        for _ in 0..20 {
            let mut bytes = [0; 3];
            random::fill(&mut bytes)?;
            let id: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            match rustix::fs::mkdir(self.folder.join(&id), Mode::RWXU) {
                Err(Errno::EXIST) => continue,
                other => other?,
            }
            let written = self.open_entry(&id).and_then(|folder| {
                rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive)?;
                write_about(&folder, about)?;
                Ok(folder)
            });
            match written {
                Ok(folder) => return Ok((id, folder)),
                // Somebody who cleans up took it for a left-over.
                Err(Errno::NOENT | Errno::WOULDBLOCK) => continue,
                Err(errno) => {
                    let _ = self.remove(&id);
                    return Err(errno);
                }
            }
        }
        Err(Errno::BUSY)
    }

    fn open_entry(&self, id: &str) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::open(self.folder.join(id), flags, Mode::empty())
    }

    /// The names of all entries. Anything else in the folder is not ours.
    fn ids(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut ids: Vec<String> =
            entries.filter_map(|entry| entry.file_name().into_string().ok()).filter(|id| is_id(id)).collect();
        ids.sort();
        ids
    }

    fn entry(&self, id: &str) -> Option<Entry> {
        let about = std::fs::read(self.folder.join(id).join(ABOUT)).ok()?;
        Some(Entry { id: id.into(), about: About::parse(&about)? })
    }

    /// All entries, the oldest first.
    pub fn list(&self) -> Vec<Entry> {
        let mut entries: Vec<Entry> = self.ids().iter().filter_map(|id| self.entry(id)).collect();
        entries.sort_by_key(|entry| entry.about.time);
        entries
    }

    /// Entries about which nothing can be read, although their thing is there.
    pub fn unreadable(&self) -> Vec<String> {
        let ids = self.ids().into_iter();
        ids.filter(|id| self.entry(id).is_none() && self.place(id).symlink_metadata().is_ok()).collect()
    }

    /// Where the thing of an entry lies.
    pub fn place(&self, id: &str) -> PathBuf {
        self.folder.join(id).join(THING)
    }

    /// How many bytes all entries hold.
    pub fn size(&self) -> u64 {
        carry::size(At { folder: CWD, name: self.folder.as_os_str() })
    }

    /// Puts an entry back. What stands there is kept in the quarantine if `replace` says so; its id is given back.
    pub fn restore(&self, id: &str, replace: bool) -> Result<(Entry, Option<String>), NotRestored> {
        let entry = Some(id).filter(|id| is_id(id)).and_then(|id| self.entry(id));
        let entry = entry.ok_or(NotRestored::Unknown)?;
        match self.put_back(id, &entry.about, replace) {
            Ok(replaced) => {
                let _ = self.remove(id);
                Ok((entry, replaced))
            }
            Err(why) => Err(NotRestored::Kept { about: Box::new(entry.about), at: self.place(id), why }),
        }
    }

    fn put_back(&self, id: &str, about: &About, replace: bool) -> Result<Option<String>, Why> {
        let root = Root::open(&about.project).ok().filter(|root| root.identity == about.root);
        let root = root.ok_or(Why::OtherProject)?;
        let folder = self.open_entry(id).map_err(Why::Failed)?;
        rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive).map_err(Why::Failed)?;
        let (Some(above), Some(name)) = (about.path.parent(), about.path.file_name()) else {
            return Err(Why::Failed(Errno::INVAL));
        };
        let above = root.folder(above).map_err(Why::Failed)?;
        let target = At { folder: above.as_fd(), name };
        let mut replaced = None;
        if carry::stat(target).is_ok() {
            if !replace {
                return Err(Why::Taken);
            }
            let argv = ["keyward", "quarantine", "restore", "--force", id].map(String::from);
            replaced = self.take(&root, &about.path, &argv, Across::Copied).map_err(Why::Failed)?;
        }
        let thing = At { folder: folder.as_fd(), name: OsStr::new(THING) };
        match carry(thing, target, Across::Copied) {
            Ok(()) => Ok(replaced),
            Err(Errno::EXIST) => Err(Why::Taken),
            Err(errno) => Err(Why::Failed(errno)),
        }
    }

    /// Removes an entry for good.
    pub fn drop_entry(&self, id: &str) -> Result<(), NotDropped> {
        if !is_id(id) || self.folder.join(id).symlink_metadata().is_err() {
            return Err(NotDropped::Unknown);
        }
        self.remove(id).map_err(NotDropped::Failed)
    }

    /// Removes all entries: how many are gone, and which could not be removed.
    pub fn drop_all(&self) -> (usize, Vec<(String, NotRemoved)>) {
        let (mut gone, mut left) = (0, Vec::new());
        for id in self.ids() {
            match self.remove(&id) {
                Ok(()) => gone += 1,
                Err(not_removed) => left.push((id, not_removed)),
            }
        }
        (gone, left)
    }

    fn remove(&self, id: &str) -> Result<(), NotRemoved> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder =
            rustix::fs::openat2(CWD, &self.folder, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS)?;
        match carry::remove(At { folder: folder.as_fd(), name: OsStr::new(id) }) {
            // Another process has removed it meanwhile.
            Err(NotRemoved { errno: Errno::NOENT, path }) if path.as_os_str().is_empty() => Ok(()),
            other => other,
        }
    }

    /// Finishes what somebody who was killed had begun: what is still in the project is taken, an entry of nothing is dropped.
    pub(crate) fn finish_interrupted(&self) -> Vec<Entry> {
        let mut finished = Vec::new();
        for id in self.ids() {
            let Ok(folder) = self.open_entry(&id) else { continue };
            if rustix::fs::flock(&folder, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue;
            }
            match self.entry(&id) {
                Some(entry) => {
                    if self.finish(&folder, &entry) {
                        finished.push(entry);
                    }
                }
                None if has(&folder, THING) => {}
                None => {
                    let _ = self.remove(&id);
                }
            }
        }
        finished
    }

    /// Whether there was something to finish, and it is in the quarantine now.
    fn finish(&self, folder: &OwnedFd, entry: &Entry) -> bool {
        let about = &entry.about;
        let whole = has(folder, THING);
        let _ = carry::remove(At { folder: folder.as_fd(), name: OsStr::new(PARTIAL) });
        let root = Root::open(&about.project).ok().filter(|root| root.identity == about.root);
        let above = root.and_then(|root| root.folder(about.path.parent()?).ok());
        let (Some(above), Some(name)) = (above, about.path.file_name()) else {
            if !whole {
                let _ = self.remove(&entry.id);
            }
            return false;
        };
        let from = At { folder: above.as_fd(), name };
        let is_the_one = carry::stat(from).is_ok_and(|found| identity(&found) == about.identity);
        match (whole, is_the_one) {
            // It was copied, and not yet removed.
            (true, true) => carry::remove(from).is_ok(),
            (true, false) => false,
            (false, true) => {
                let to = At { folder: folder.as_fd(), name: OsStr::new(THING) };
                carry(from, to, Across::Copied).is_ok()
            }
            (false, false) => {
                let _ = self.remove(&entry.id);
                false
            }
        }
    }
}

fn identity(stat: &Stat) -> (u64, u64, i128) {
    (stat.st_dev, stat.st_ino, changed(stat).into())
}

/// As `new_entry` makes them.
fn is_id(id: &str) -> bool {
    id.len() == 6 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn has(folder: &OwnedFd, name: &str) -> bool {
    carry::stat(At { folder: folder.as_fd(), name: OsStr::new(name) }).is_ok()
}

/// On the disk, whole, before anything is moved.
fn write_about(folder: &OwnedFd, about: &About) -> Result<(), Errno> {
    const BESIDE: &str = "about.new";
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = rustix::fs::openat(folder, BESIDE, flags, Mode::RUSR | Mode::WUSR)?;
    write_all(&file, about.text().as_bytes())?;
    rustix::fs::fsync(&file)?;
    rustix::fs::renameat(folder, BESIDE, folder, ABOUT)?;
    rustix::fs::fsync(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn about() -> About {
        About {
            time: 1_700_000_000,
            project: "/srv/my project".into(),
            root: (1, 2, 3),
            path: "a/\u{1b}[2J/.envrc".into(),
            is: "file".into(),
            identity: (3, 4, 5),
            argv: vec!["sh".into(), "-c".into(), "echo x > .envrc".into()],
        }
    }

    #[test]
    fn what_is_known_survives_the_way() {
        assert_eq!(About::parse(about().text().as_bytes()), Some(about()));
    }

    proptest! {
        #[test]
        fn a_torn_entry_is_none(cut: usize) {
            let text = about().text();
            let cut = cut % text.len();
            prop_assert_eq!(About::parse(&text.as_bytes()[..cut]), None);
        }
    }

    fn project() -> (tempfile::TempDir, Root, Quarantine) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap().join("project");
        std::fs::create_dir(&path).unwrap();
        let root = Root::open(&path).unwrap();
        let quarantine = Quarantine::new(&folder.path().join("state"));
        (folder, root, quarantine)
    }

    #[test]
    fn what_an_intent_names_is_finished_and_what_is_gone_is_dropped() {
        let (_folder, root, quarantine) = project();
        std::fs::write(root.path.join(".envrc"), "evil").unwrap();
        let found = root.stat(Path::new(".envrc")).unwrap();
        let intent = About {
            project: root.path.clone(),
            root: root.identity,
            path: ".envrc".into(),
            identity: identity(&found),
            ..about()
        };
        let (id, lock) = quarantine.new_entry(&intent).unwrap();
        // Its owner lives.
        assert!(quarantine.finish_interrupted().is_empty() && root.path.join(".envrc").exists());
        drop(lock);
        assert_eq!(quarantine.finish_interrupted().len(), 1);
        assert!(!root.path.join(".envrc").exists());
        assert_eq!(std::fs::read(quarantine.place(&id)).unwrap(), b"evil");
        // An intent about something that is gone.
        drop(quarantine.new_entry(&About { path: ".exrc".into(), ..intent }).unwrap());
        assert!(quarantine.finish_interrupted().is_empty());
        assert_eq!(quarantine.list().len(), 1);
    }

    #[test]
    fn what_was_copied_and_not_yet_removed_is_removed_and_nothing_that_came_later() {
        let (_folder, root, quarantine) = project();
        let path = root.path.join(".envrc");
        std::fs::write(&path, "evil").unwrap();
        let found = root.stat(Path::new(".envrc")).unwrap();
        let intent = About {
            project: root.path.clone(),
            root: root.identity,
            path: ".envrc".into(),
            identity: identity(&found),
            ..about()
        };
        let (id, lock) = quarantine.new_entry(&intent).unwrap();
        std::fs::write(quarantine.place(&id), "evil").unwrap();
        drop(lock);
        assert_eq!(quarantine.finish_interrupted().len(), 1);
        assert!(!path.exists());
        // The inode may be the same; it is another file all the same.
        std::thread::sleep(std::time::Duration::from_millis(20));
        std::fs::write(&path, "of the user").unwrap();
        assert!(quarantine.finish_interrupted().is_empty());
        assert!(path.exists());
    }

    #[test]
    fn an_intent_does_not_take_another_thing_of_the_same_name() {
        let (_folder, root, quarantine) = project();
        std::fs::write(root.path.join(".envrc"), "of the user").unwrap();
        let intent = About {
            project: root.path.clone(),
            root: root.identity,
            path: ".envrc".into(),
            identity: (0, 0, 0),
            ..about()
        };
        drop(quarantine.new_entry(&intent).unwrap());
        assert!(quarantine.finish_interrupted().is_empty());
        assert!(root.path.join(".envrc").exists() && quarantine.list().is_empty());
    }

    #[test]
    fn what_lies_deeper_than_a_path_can_name_is_taken_and_put_back() {
        let (folder, root, quarantine) = project();
        let name = "n".repeat(200);
        let mut path = PathBuf::new();
        let mut here = rustix::fs::open(&root.path, OFlags::RDONLY, Mode::empty()).unwrap();
        for _ in 0..60 {
            rustix::fs::mkdirat(&here, name.as_str(), Mode::RWXU).unwrap();
            here = rustix::fs::openat(&here, name.as_str(), OFlags::RDONLY, Mode::empty()).unwrap();
            path.push(&name);
        }
        let write =
            |name| rustix::fs::openat(&here, name, OFlags::WRONLY | OFlags::CREATE, Mode::RWXU).unwrap();
        drop(write(".envrc"));
        let foothold = path.join(".envrc");
        assert!(foothold.as_os_str().len() > 12_000 && root.stat(&foothold).is_ok());
        let id = quarantine.take(&root, &foothold, &[], Across::Copied).unwrap().unwrap();
        assert_eq!(root.stat(&foothold).err(), Some(Errno::NOENT));
        assert!(quarantine.restore(&id, false).is_ok() && root.stat(&foothold).is_ok());
        // A link on the way is not followed there either.
        std::os::unix::fs::symlink(folder.path(), root.path.join("way")).unwrap();
        let around = Path::new("way/project").join(&foothold);
        assert_eq!(quarantine.take(&root, &around, &[], Across::Copied), Ok(None));
    }

    #[test]
    fn a_link_on_the_way_is_not_followed() {
        let (folder, root, quarantine) = project();
        let outside = folder.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join(".envrc"), "of the user").unwrap();
        std::os::unix::fs::symlink(&outside, root.path.join("way")).unwrap();
        let taken = quarantine.take(&root, Path::new("way/.envrc"), &[], Across::Copied);
        assert_eq!(taken, Ok(None));
        assert!(outside.join(".envrc").exists());
        // The link itself, under a name that counts, is moved as a link.
        std::os::unix::fs::symlink(outside.join(".envrc"), root.path.join(".envrc")).unwrap();
        let id = quarantine.take(&root, Path::new(".envrc"), &[], Across::Copied).unwrap().unwrap();
        assert!(quarantine.place(&id).is_symlink() && outside.join(".envrc").exists());
    }
}
