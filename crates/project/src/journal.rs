//! Journals: while a command works in a project, a file in our state folder says so. One whose writer is dead means that nobody looked
//! at the project when the command ended; whoever starts next does.
//!
//! The writer holds a lock on its journal as long as it lives, so that the dead can be told from the living.

use crate::lines::{self, Line};
use crate::tree::Identity;
use keyward_sys::file::{make_private_folder, write_all};
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const HEADER: &str = "keyward journal 5";

/// What is known of the start of a run in one tree: the project, or a grant. Paths are relative to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Start {
    pub(crate) project: PathBuf,
    pub(crate) identity: Identity,
    /// What its owner could do with the root.
    pub(crate) mode: Mode,
    /// Nanoseconds since 1970, by the clock that files are stamped with.
    pub(crate) since: i128,
    pub(crate) argv: Vec<String>,
    /// Footholds that were there.
    pub(crate) known: Vec<PathBuf>,
    /// What was hidden, and has its secret name elsewhere: a link leads to it.
    pub(crate) hidden: Vec<PathBuf>,
    /// What made folders repositories: `.git` in them, or a bare one itself.
    pub(crate) marks: Vec<PathBuf>,
    /// What git would run if it were there.
    pub(crate) awaited: Vec<PathBuf>,
    /// `.git` files in folders below the root, with what they said.
    pub(crate) pointers: Vec<(PathBuf, Vec<u8>)>,
    /// Footholds that a grant names.
    pub(crate) granted: Vec<PathBuf>,
    /// Footholds that were links, with their texts.
    pub(crate) links: Vec<(PathBuf, PathBuf)>,
    /// Whether footholds that were there are read-only for the command.
    pub(crate) protected: bool,
    /// Directories that were not searched.
    pub(crate) left_out: Vec<PathBuf>,
    /// Directories that were closed to the command, so that it cannot have changed anything there.
    pub(crate) closed: Vec<PathBuf>,
}

impl Start {
    /// Takes over what other runs that are at work in the same tree know of its state before them: what they or we find now may be the work
    /// of their commands.
    pub(crate) fn agree_with(&mut self, others: Vec<Start>) {
        for other in others.into_iter().filter(|other| other.identity == self.identity) {
            self.mode = other.mode;
            if other.protected {
                self.known.retain(|path| other.known.contains(path));
                self.marks.retain(|path| other.marks.contains(path));
            }
            self.links.retain(|(path, _)| !other.links.iter().any(|(known, _)| known == path));
            self.links.extend(other.links);
            self.pointers.retain(|(path, _)| !other.pointers.iter().any(|(known, _)| known == path));
            self.pointers.extend(other.pointers);
            self.awaited.extend(
                other.awaited.into_iter().filter(|path| !self.awaited.contains(path)).collect::<Vec<_>>(),
            );
            self.hidden.extend(
                other.hidden.into_iter().filter(|path| !self.hidden.contains(path)).collect::<Vec<_>>(),
            );
        }
    }

    fn text(&self) -> String {
        let (device, inode, born) = self.identity;
        let number = |text: String| text.into_bytes();
        let bytes = |path: &'_ PathBuf| -> Vec<u8> { path.as_os_str().as_bytes().to_vec() };
        let mut all: Vec<(&str, Vec<Vec<u8>>)> = vec![
            ("project", vec![bytes(&self.project)]),
            (
                "identity",
                vec![number(device.to_string()), number(inode.to_string()), number(born.to_string())],
            ),
            ("mode", vec![number(self.mode.bits().to_string())]),
            ("since", vec![number(self.since.to_string())]),
            ("argv", self.argv.iter().map(|argument| argument.clone().into()).collect()),
        ];
        all.extend(self.known.iter().map(|path| ("known", vec![bytes(path)])));
        all.extend(self.hidden.iter().map(|path| ("hidden", vec![bytes(path)])));
        all.extend(self.marks.iter().map(|path| ("mark", vec![bytes(path)])));
        all.extend(self.awaited.iter().map(|path| ("awaited", vec![bytes(path)])));
        all.extend(self.pointers.iter().map(|(path, text)| ("pointer", vec![bytes(path), text.clone()])));
        all.extend(self.granted.iter().map(|path| ("granted", vec![bytes(path)])));
        all.extend(self.links.iter().map(|(path, to)| ("link", vec![bytes(path), bytes(to)])));
        if self.protected {
            all.push(("protected", Vec::new()));
        }
        all.extend(self.left_out.iter().map(|path| ("left-out", vec![bytes(path)])));
        all.extend(self.closed.iter().map(|path| ("closed", vec![bytes(path)])));
        let borrowed = all.iter().map(|(name, values)| (*name, values.iter().map(Vec::as_slice).collect()));
        lines::write(HEADER, borrowed)
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let lines = lines::read(HEADER, text)?;
        let one = |name| lines::first(&lines, name);
        let [project] = one("project")? else { return None };
        let [device, inode, born] = one("identity")? else { return None };
        let [since] = one("since")? else { return None };
        // Older journals do not say it.
        let mode = match one("mode") {
            Some([mode]) => Mode::from_bits_retain(lines::number(mode)?),
            Some(_) => return None,
            None => Mode::RWXU,
        };
        let mut links = Vec::new();
        for values in lines::all(&lines, "link") {
            let [path, to] = values else { return None };
            links.push((path.into(), to.into()));
        }
        let mut pointers = Vec::new();
        for values in lines::all(&lines, "pointer") {
            let [path, text] = values else { return None };
            pointers.push((path.into(), text.as_bytes().to_vec()));
        }
        Some(Start {
            project: project.into(),
            identity: (lines::number(device)?, lines::number(inode)?, lines::number(born)?),
            mode,
            since: lines::number(since)?,
            argv: one("argv")?.iter().map(|argument| argument.to_string_lossy().into_owned()).collect(),
            known: paths(&lines, "known"),
            hidden: paths(&lines, "hidden"),
            marks: paths(&lines, "mark"),
            awaited: paths(&lines, "awaited"),
            pointers,
            granted: paths(&lines, "granted"),
            links,
            protected: one("protected").is_some(),
            left_out: paths(&lines, "left-out"),
            closed: paths(&lines, "closed"),
        })
    }
}

fn paths(lines: &[Line], name: &str) -> Vec<PathBuf> {
    lines::all(lines, name).filter_map(|values| values.first()).map(PathBuf::from).collect()
}

/// A journal that we hold.
pub(crate) struct Journal {
    path: PathBuf,
    _lock: OwnedFd,
}

/// A name that is not a journal yet.
const UNFINISHED: &[u8] = b".new-";

impl Journal {
    /// Writes a journal, under a lock from its first moment on.
    pub(crate) fn write(folder: &Path, run: &str, start: &Start) -> Result<Self, Errno> {
        let beside = folder.join(format!(".new-{run}"));
        let path = folder.join(run);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || rustix::fs::open(&beside, flags, Mode::RUSR | Mode::WUSR);
        // Somebody who cleans up may take the unlocked file for a left-over.
        for _ in 0..10 {
            let file = match open() {
                Err(Errno::NOENT) => {
                    make_private_folder(folder)?;
                    open()?
                }
                other => other?,
            };
            rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
            if is_gone(&file) {
                continue;
            }
            write_all(&file, start.text().as_bytes())?;
            match rustix::fs::rename(&beside, &path) {
                Ok(()) => return Ok(Journal { path, _lock: file }),
                Err(Errno::NOENT) => continue,
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::BUSY)
    }

    /// Nothing is left to be done for this run.
    pub(crate) fn close(self) {
        let _ = rustix::fs::unlink(&self.path);
    }
}

/// Journals whose writers are dead, each locked by us now; those that say nothing are gone.
pub(crate) fn abandoned(folder: &Path) -> Vec<(String, Journal, Start)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(file) = rustix::fs::open(&path, flags, Mode::empty()) else { continue };
        if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() || is_gone(&file) {
            continue;
        }
        let start = match name.as_bytes().starts_with(UNFINISHED) {
            true => None,
            false => std::fs::read(&path).ok().and_then(|text| Start::parse(&text)),
        };
        let journal = Journal { path, _lock: file };
        match start {
            Some(start) => found.push((name.to_string_lossy().into_owned(), journal, start)),
            // The command starts only after its journal is whole.
            None => journal.close(),
        }
    }
    found
}

/// What other runs that are at work have said at their start.
pub(crate) fn living(folder: &Path) -> Vec<Start> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if !entry.file_name().as_bytes().starts_with(UNFINISHED) {
            found.extend(std::fs::read(entry.path()).ok().and_then(|text| Start::parse(&text)));
        }
    }
    found
}

/// How many journals there are, of the living and of the dead.
pub(crate) fn count(folder: &Path) -> usize {
    std::fs::read_dir(folder).into_iter().flatten().count()
}

/// Whether somebody else has finished with it before we got the lock.
fn is_gone(file: &OwnedFd) -> bool {
    rustix::fs::fstat(file).is_ok_and(|stat| stat.st_nlink == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn start(known: &[&str], only: Option<&[&str]>) -> Start {
        Start {
            project: "/srv/my project".into(),
            identity: (7, 9, 11),
            mode: Mode::from_bits_retain(0o550),
            since: 1_700_000_000_123_456_789,
            argv: vec!["sh".into(), "-c".into(), "a b\nc".into(), String::new()],
            known: known.iter().map(PathBuf::from).collect(),
            hidden: vec!["conf/app.txt".into()],
            marks: vec![".git".into(), "bare".into()],
            awaited: vec![".githooks".into()],
            pointers: vec![("mod/.git".into(), b"gitdir: ../.git/modules/mod\n".to_vec())],
            granted: vec![".vscode".into()],
            links: vec![("x/.envrc".into(), "../shared envrc".into())],
            protected: only.is_none(),
            left_out: only.unwrap_or_default().iter().map(PathBuf::from).collect(),
            closed: vec!["locked".into()],
        }
    }

    #[test]
    fn a_start_survives_the_way() {
        for start in [start(&[], None), start(&[".envrc", "a b/.claude"], Some(&["", "a b"]))] {
            assert_eq!(Start::parse(start.text().as_bytes()), Some(start));
        }
    }

    proptest! {
        #[test]
        fn a_torn_journal_is_none(cut: usize) {
            let text = start(&[".envrc"], Some(&["", "src"])).text();
            let cut = cut % text.len();
            prop_assert_eq!(Start::parse(&text.as_bytes()[..cut]), None);
        }

        #[test]
        fn a_journal_with_a_wrong_byte_does_not_make_us_fall_over(place: usize, byte: u8) {
            let mut text = start(&[".envrc"], Some(&["", "src"])).text().into_bytes();
            let place = place % text.len();
            text[place] = byte;
            let _ = Start::parse(&text);
        }
    }

    #[test]
    fn the_journal_of_a_living_writer_is_left_alone_and_that_of_a_dead_one_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let start = start(&[], None);
        let living = Journal::write(folder.path(), "1-a", &start).unwrap();
        assert!(abandoned(folder.path()).is_empty());
        drop(living);
        let found = abandoned(folder.path());
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].0.as_str(), &found[0].2), ("1-a", &start));
        // While we hold it, it is nobody else's.
        assert!(abandoned(folder.path()).is_empty());
        found.into_iter().for_each(|(_, journal, _)| journal.close());
        assert_eq!(count(folder.path()), 0);
    }

    #[test]
    fn what_a_killed_writer_left_half_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let text = start(&[], None).text();
        std::fs::write(folder.path().join(".new-1-a"), &text).unwrap();
        std::fs::write(folder.path().join("1-b"), &text[..text.len() / 2]).unwrap();
        assert!(abandoned(folder.path()).is_empty());
        assert_eq!(count(folder.path()), 0);
    }
}
