//! How far a merge, a rebase or a search has come: small files of a fixed list, compared and taken over as a whole.

use super::place::{self, Thing};
use keyward_policy::untrusted::git::names::is_made_anew;
use keyward_policy::untrusted::git::{Check, Fate, fate};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A rebase has a few dozen files, and `git am` one for each patch.
const MOST_FILES: usize = 10_000;
const MOST_BYTES: usize = 64 << 20;

/// The files of one side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct State {
    files: BTreeMap<PathBuf, Vec<u8>>,
    /// Names at the top of which not everything could be read: too much, or not ordinary files. Nothing follows from what was read.
    pub(super) unread: BTreeSet<PathBuf>,
}

/// What belongs together: a file, or a folder with all that is in it.
pub(super) type Piece = BTreeMap<PathBuf, Vec<u8>>;

impl State {
    /// Reads what git keeps by these names.
    pub(super) fn read(folder: &OwnedFd) -> Self {
        let (mut state, mut bytes) = (State::default(), 0);
        for name in place::names(folder) {
            let path = Path::new(&name);
            let thing = place::thing_in(folder, &name);
            let files = match (fate(path), thing) {
                (Fate::Published(check) | Fate::Passing(check), Some(_)) if check != Check::Index => {
                    Ok(vec![path.to_path_buf()])
                }
                (Fate::Whole, Some(Thing::Folder)) => {
                    // An empty one says something, too.
                    state.files.insert(path.to_path_buf(), Vec::new());
                    place::files_below(folder.as_fd(), path, 1)
                        .map(|files| files.into_iter().map(|file| path.join(file)))
                        .map(|files| files.filter(|file| !is_made_anew(file)).collect())
                }
                (Fate::Whole, Some(_)) => Err(Errno::NOTDIR),
                _ => continue,
            };
            let mut is_whole = files.as_ref().is_ok_and(|files: &Vec<PathBuf>| files.len() <= MOST_FILES);
            for file in files.unwrap_or_default().into_iter().take(MOST_FILES) {
                let left = MOST_BYTES.saturating_sub(bytes);
                match place::read(folder, &file, Check::Text.most().min(left)) {
                    Ok((content, _)) => {
                        bytes += content.len();
                        state.files.insert(file, content);
                    }
                    // It is gone again.
                    Err(Errno::NOENT) => {}
                    Err(_) => is_whole = false,
                }
            }
            if !is_whole {
                state.unread.insert(path.to_path_buf());
            }
        }
        state
    }

    pub(super) fn of(files: impl Iterator<Item = (PathBuf, Vec<u8>)>) -> Self {
        State { files: files.collect(), ..State::default() }
    }

    pub(super) fn files(&self) -> impl Iterator<Item = (&PathBuf, &[u8])> {
        self.files.iter().map(|(path, content)| (path, content.as_slice()))
    }

    /// The names at the top, of either.
    pub(super) fn names(&self, other: &State) -> Vec<PathBuf> {
        let both = self.files.keys().chain(other.files.keys()).chain(&other.unread);
        let mut all: Vec<PathBuf> =
            both.filter_map(|path| Some(PathBuf::from(path.iter().next()?))).collect();
        all.sort();
        all.dedup();
        all
    }

    /// What is kept by a name at the top.
    pub(super) fn piece(&self, name: &Path) -> Piece {
        let own = self.files.iter().filter(|(path, _)| path.starts_with(name));
        own.map(|(path, content)| (path.clone(), content.clone())).collect()
    }

    pub(super) fn set(&mut self, name: &Path, piece: &Piece) {
        self.files.retain(|path, _| !path.starts_with(name));
        self.files.extend(piece.iter().map(|(path, content)| (path.clone(), content.clone())));
    }
}

/// Why a piece stays in the cage, and which file of it.
pub(super) fn judge(piece: &Piece, id_length: usize) -> Result<(), (PathBuf, &'static str)> {
    for (path, content) in piece.iter().filter(|(path, _)| fate(path) != Fate::Whole) {
        let (Fate::Published(check) | Fate::Passing(check)) = fate(path) else {
            return Err((path.clone(), ""));
        };
        check.judge(content, id_length).map_err(|why| (path.clone(), why))?;
    }
    Ok(())
}

/// Makes the host's side say the same.
pub(super) fn put(host: &OwnedFd, name: &Path, piece: &Piece) -> Result<(), Errno> {
    for (path, content) in piece {
        if fate(path) == Fate::Whole {
            place::made_folder(host, name)?;
        } else if place::read(host, path, content.len()).is_ok_and(|(now, _)| now == *content) {
            // It says so already.
        } else {
            place::replace(host, path, content, |now| !matches!(now, Some(Thing::Folder | Thing::Other)))?;
        }
    }
    match place::thing(host, name) {
        Some(Thing::Folder) => {
            for file in place::files_below(host.as_fd(), name, 1)? {
                if !piece.contains_key(&name.join(&file)) {
                    place::remove(host, &name.join(file))?;
                }
            }
            if piece.is_empty() {
                for below in place::names(place::folder(host, name)?) {
                    let _ = place::remove_folder(host, &name.join(below));
                }
                place::remove_folder(host, name)?;
            }
            Ok(())
        }
        Some(_) if piece.is_empty() => place::remove(host, name),
        _ => Ok(()),
    }
}

/// Work that an operation has stashed aside, and brings back when it ends.
pub(super) fn stashed(piece: &Piece) -> Vec<Vec<u8>> {
    named(piece, &["autostash", "MERGE_AUTOSTASH"])
}

/// Objects that git looks for because of what these files say: without them the host's git would stop.
pub(super) fn ids(piece: &Piece) -> Vec<Vec<u8>> {
    const HEADS: &[&str] =
        &["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "REBASE_HEAD", "MERGE_AUTOSTASH"];
    const OF_A_REBASE: &[&str] = &["onto", "orig-head", "squash-onto", "autostash"];
    named(piece, &[HEADS, OF_A_REBASE].concat())
}

/// The ids in files of these names.
fn named(piece: &Piece, names: &[&str]) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for (path, content) in piece {
        if path.file_name().and_then(|name| name.to_str()).is_some_and(|name| names.contains(&name)) {
            let lines = content.split(|&byte| byte == b'\n');
            let words = lines.filter_map(|line| line.split(|byte| b" \t".contains(byte)).next());
            all.extend(
                words.filter(|word| keyward_policy::untrusted::git::check::is_id(word)).map(<[u8]>::to_vec),
            );
        }
    }
    all
}
