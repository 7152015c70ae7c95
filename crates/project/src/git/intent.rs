//! What an exchange is about to do to the host's side, written down before. A launcher may be killed before it has written down what both
//! sides have in common: what the host then has as it is written here was our own doing, and not the user's.

use super::base::Base;
use super::place;
use super::refs;
use super::state::{Piece, State};
use crate::lines;
use keyward_policy::untrusted::git::Check;
use keyward_policy::untrusted::git::index::{self, Entries, Entry};
use keyward_policy::untrusted::git::refs::{Line, Value};
use rustix::fd::OwnedFd;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

const HEADER: &str = "keyward intent 1";
const FILE: &str = "intent";
/// Larger logs are not read.
const MOST_LOG: usize = 64 << 20;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Intent {
    /// What refs are to say; `None` for those that go.
    pub(super) refs: Vec<(Vec<u8>, Option<Value>)>,
    pub(super) head: Option<Value>,
    /// What is to be staged at each path.
    pub(super) entries: Entries,
    /// Digests of what git is to keep by a name.
    pub(super) state: Vec<(PathBuf, String)>,
    /// Stashed work that is to be added.
    pub(super) stash: Vec<Vec<u8>>,
    /// How long logs of the host's are before.
    pub(super) logs: Vec<(Vec<u8>, u64)>,
}

impl Intent {
    pub(super) fn write(&self, place: &Path) -> std::io::Result<()> {
        let refs = self.refs.iter().map(|(name, value)| {
            let value = value.as_ref().map(Value::spelled);
            ("ref", std::iter::once(name.clone()).chain(value).collect::<Vec<_>>())
        });
        let head = self.head.iter().map(|head| ("head", vec![head.spelled()]));
        let entries = self.entries.iter().map(|(name, entries)| {
            let entries = entries.iter().map(Entry::spelled);
            ("entry", std::iter::once(name.clone()).chain(entries).collect())
        });
        let state = self.state.iter().map(|(name, digest)| {
            ("state", vec![name.as_os_str().as_bytes().to_vec(), digest.clone().into_bytes()])
        });
        let stash = self.stash.iter().map(|id| ("stash", vec![id.clone()]));
        let logs = self
            .logs
            .iter()
            .map(|(name, length)| ("log", vec![name.clone(), length.to_string().into_bytes()]));
        let all: Vec<(&str, Vec<Vec<u8>>)> =
            refs.chain(head).chain(entries).chain(state).chain(stash).chain(logs).collect();
        let all = all.iter().map(|(name, values)| (*name, values.iter().map(Vec::as_slice).collect()));
        super::base::replace(&place.join(FILE), lines::write(HEADER, all).as_bytes())
    }

    pub(super) fn read(place: &Path) -> Option<Self> {
        let all = lines::read(HEADER, &std::fs::read(place.join(FILE)).ok()?)?;
        let mut intent = Intent::default();
        for (name, values) in all {
            let mut values = values.into_iter().map(OsString::into_vec);
            let first = values.next()?;
            match name.as_str() {
                "ref" => intent.refs.push((first, values.next().and_then(|value| Value::read(&value)))),
                "head" => intent.head = Value::read(&first),
                "entry" => {
                    let entries: Option<Vec<Entry>> = values.map(|text| Entry::read(&text)).collect();
                    intent.entries.insert(first, entries?);
                }
                "state" => {
                    let digest = String::from_utf8(values.next()?).ok()?;
                    intent.state.push((OsString::from_vec(first).into(), digest));
                }
                "stash" => intent.stash.push(first),
                "log" => intent.logs.push((first, lines::number(&OsString::from_vec(values.next()?))?)),
                _ => return None,
            }
        }
        Some(intent)
    }

    /// What both sides have in common is written down.
    pub(super) fn remove(place: &Path) {
        let _ = std::fs::remove_file(place.join(FILE));
    }

    /// Notes what the host has of this as what both sides have in common.
    pub(super) fn settle(
        self,
        base: &mut Base,
        place: &Path,
        host: &OwnedFd,
        cage: &OwnedFd,
        id_length: usize,
    ) {
        let here = refs::read(host).unwrap_or_default();
        for (name, value) in self.refs {
            if here.get(&name) == value.as_ref() {
                if value.is_none() {
                    base.logs.remove(std::ffi::OsStr::from_bytes(&name));
                }
                base.set(place, &name, value);
            }
        }
        if self.head.is_some() && refs::head(host) == self.head {
            base.head = self.head;
        }
        if !self.entries.is_empty() {
            let content = place::read(host, Path::new("index"), Check::Index.most());
            let content = content.map(|(content, _)| content).unwrap_or_default();
            let paths: BTreeSet<Vec<u8>> = self.entries.keys().cloned().collect();
            let here = index::entries_at(&content, id_length, &paths);
            base.note_staged(&here, self.entries.iter());
        }
        if !self.state.is_empty() {
            let here = State::read(host);
            for (name, intended) in &self.state {
                let piece = here.piece(name);
                if digest(&piece) == *intended && !here.unread.contains(name) {
                    base.state.set(name, &piece);
                }
            }
        }
        let stash = super::exchange::stash(host, id_length);
        for id in self.stash {
            let times = |all: &[Vec<u8>]| all.iter().filter(|other| **other == id).count();
            if times(&stash) > times(&base.stash) {
                base.stash.push(id);
            }
        }
        for (name, length) in self.logs {
            settle_log(base, &name, length, host, cage, id_length);
        }
    }
}

/// A log of the host's may have some of the command's lines already: those are not added again.
fn settle_log(base: &mut Base, name: &[u8], length: u64, host: &OwnedFd, cage: &OwnedFd, id_length: usize) {
    let path = Path::new("logs").join(super::base::path(name));
    let after = |side: &OwnedFd, length: u64| {
        let text = place::read(side, &path, MOST_LOG).map(|(text, _)| text).unwrap_or_default();
        usize::try_from(length).ok().and_then(|length| text.get(length..).map(<[u8]>::to_vec))
    };
    let name = OsString::from_vec(name.to_vec());
    let known = base.logs.get(&name).copied().unwrap_or(0);
    let (Some(here), Some(there)) = (after(host, length), after(cage, known)) else { return };
    let line = |text: &[u8]| {
        // Git writes what the ref was on this side as the old value, and for HEAD the words of the branch.
        Line::read(text.trim_ascii_end(), id_length).map(|line| (line.new, line.when))
    };
    let here: Vec<_> = here.split_inclusive(|&byte| byte == b'\n').filter_map(line).collect();
    let (mut rest, mut end, mut at) = (here.as_slice(), 0, 0);
    for text in there.split_inclusive(|&byte| byte == b'\n') {
        at += text.len();
        if let Some(place) = line(text).and_then(|line| rest.iter().position(|other| *other == line)) {
            rest = &rest[place + 1..];
            end = at;
        }
    }
    if end > 0 {
        base.logs.insert(name, known + end as u64);
    }
}

/// What tells one piece from another.
pub(super) fn digest(piece: &Piece) -> String {
    let mut hash = Sha256::new();
    for (path, content) in piece {
        for bytes in [path.as_os_str().as_bytes(), content] {
            hash.update(bytes.len().to_be_bytes());
            hash.update(bytes);
        }
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::super::exchange::tests::repository;
    use super::super::exchange::{Moment, exchange};
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let place = tempfile::tempdir().unwrap();
        let id = || b"0123456789abcdef0123456789abcdef01234567".to_vec();
        let entry = Entry { mode: 0o100_644, id: vec![7; 20], stage: 0, is_intent: false };
        let intent = Intent {
            refs: vec![(b"refs/heads/a".to_vec(), Some(Value::Id(id()))), (b"refs/heads/b".to_vec(), None)],
            head: Some(Value::To(b"refs/heads/a".to_vec())),
            entries: [(b"a b".to_vec(), vec![entry]), (b"gone".to_vec(), Vec::new())].into(),
            state: vec![("MERGE_HEAD".into(), "x".into())],
            stash: vec![id()],
            logs: vec![(b"HEAD".to_vec(), 7)],
        };
        intent.write(place.path()).unwrap();
        assert_eq!(Intent::read(place.path()), Some(intent));
        Intent::remove(place.path());
        assert_eq!(Intent::read(place.path()), None);
    }

    /// The launcher is killed after the host's side has changed, and before that was written down. Meanwhile the command goes on.
    #[test]
    fn what_we_did_before_we_were_killed_is_not_taken_for_the_users() {
        let all = repository();
        let layer = &all.run.layers[0];
        let (own, cage, program) = (all.own(), layer.git(), &all.program);

        // What both sides have in common cannot be written down: as if there were no time for it.
        let place = layer.base(Path::new(""));
        for name in ["rest.new", "refs.new", "index.new"] {
            std::fs::create_dir(place.join(name)).unwrap();
        }
        let first = "git commit -q --allow-empty -m zero; echo two > a; git add a; git commit -qm second; echo two > b; git add b; echo two > c; git stash push -q c; \
            git branch -f side HEAD; git branch -D gone; git symbolic-ref HEAD refs/heads/side; git rev-parse HEAD > \"$GIT_DIR/CHERRY_PICK_HEAD\"";
        all.git(&cage, first);
        let news = exchange(program, layer, Moment::Running);
        assert!(!news.told.troubles.is_empty(), "it could be written down");
        assert_eq!(
            all.git(&own, "git diff --cached --name-only; git log -1 --format=%s; git stash list | wc -l"),
            "b\nsecond\n1\n"
        );
        for name in ["rest.new", "refs.new", "index.new"] {
            std::fs::remove_dir(place.join(name)).unwrap();
        }

        let then = "rm $GIT_DIR/CHERRY_PICK_HEAD; echo three > b; git add b; git commit -q --amend -m third; echo four > a; git add a; git branch -f main HEAD~1; git branch gone; \
            git stash drop -q; git rev-parse main > \"$GIT_DIR/CHERRY_PICK_HEAD\"";
        all.git(&cage, then);
        let news = exchange(program, layer, Moment::Ended);
        assert_eq!(news.told.conflicts, Vec::new());
        assert_eq!(news.told.troubles, Vec::new());
        let account = "cat $GIT_DIR/HEAD $GIT_DIR/CHERRY_PICK_HEAD; git for-each-ref refs/heads; git ls-files -s; git stash list; \
            git reflog --all --format='%gD %H %gs'";
        assert_eq!(all.git(&own, account), all.git(&cage, account));
    }
}
