//! What is so on this host: facts that `launch::probe` found by doing, and what lies at the paths a plan asks about.

use crate::linux::kernel::KernelFacts;
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What a path is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Directory,
    File,
    /// Device, socket, pipe.
    Special,
    Missing,
    /// It may be there, but the way to it is closed to us.
    Closed,
}

/// One path, looked at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PathFact {
    /// After following links.
    pub kind: Kind,
    /// The target of the link that the path itself is, as written.
    pub link: Option<PathBuf>,
    /// The path with all links followed.
    pub real: PathBuf,
    /// The project that the path stands in and that a link on the way leads out of. A command that ran there may have made the link.
    pub leaves_project: Option<PathBuf>,
    /// Links on the way that do not belong to root and lead out of the directory they stand in, in the order they are met. A command that
    /// could write there may have made one.
    pub strays: Vec<PathBuf>,
    pub device: u64,
    pub inode: u64,
    /// How many names the file has.
    pub names: u64,
    /// When it was last changed, in nanoseconds since 1970.
    pub changed: i64,
}

/// All facts for one plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostFacts {
    pub kernel: KernelFacts,
    pub paths: Paths,
    pub project: Project,
    /// Files in the HOME of this run that we have put there ourselves, for a run that goes on or has died.
    pub placed: HashSet<PathBuf>,
}

/// What the searched trees (the project and every grant) hold that needs care.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Project {
    pub secrets: Vec<SecretFile>,
    pub footholds: Vec<Foothold>,
    /// What makes a directory a repository: a `.git` in it, or the directory itself where it is a bare one.
    pub marks: Vec<Found>,
    /// What those marks lead to.
    pub repositories: Vec<Repository>,
    /// The host's git, where there is one that no cage can change.
    pub git: Option<PathBuf>,
    /// Who commits, as the user's own settings say: name and address.
    pub author: Option<(Vec<u8>, Vec<u8>)>,
    /// The habits in the user's own git settings, as a text that git reads.
    pub habits: Vec<u8>,
    /// Directories that could not be searched: they are closed to the command.
    pub unsearched: Vec<Unsearched>,
    /// Links that lead through a directory that could not be searched, and such directories in which git runs something: it is not known
    /// what they lead to.
    pub unresolved: Vec<PathBuf>,
    /// Marks of repositories around the project, which the command does not see.
    pub marks_around: Vec<Found>,
    /// What git would run if it were there, because a repository around the project names it.
    pub awaited: Vec<PathBuf>,
    /// Directories that a bounded search has left out: they are open to the command.
    pub left_out: Vec<PathBuf>,
    /// Files with secret names that git has committed as they are: its objects show them anyway.
    pub committed: Vec<PathBuf>,
    /// Who the project belongs to, where that is another user than the caller.
    pub other_owner: Option<OtherOwner>,
    /// Directories of a searched tree in which shells and interpreters look for programs.
    pub programs: Vec<PathBuf>,
}

/// The owner of a project that is not the caller's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OtherOwner {
    pub user: u32,
    /// Whether the mode of the directory lets a command in a cage write there all the same.
    pub may_write: bool,
}

/// A file or directory that the command must not read, and what it reads instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretFile {
    /// The real path: no component is a link.
    pub path: PathBuf,
    /// Where the name stands that makes it secret: a link that leads to it, or the path itself.
    pub named: PathBuf,
    pub directory: bool,
    /// What is shown in its place. It has names and clearly operational values only, never a credential.
    pub reads_as: Vec<u8>,
}

/// Why a directory of another user could not be searched.
pub const OF_ANOTHER: &str = "it belongs to another user";

/// A directory that could not be searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsearched {
    pub path: PathBuf,
    pub why: String,
}

/// A foothold that was there at the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foothold {
    pub path: PathBuf,
    pub is: Standing,
}

/// What it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    Thing {
        directory: bool,
        device: u64,
        inode: u64,
    },
    /// A link, with its text. Nothing can be mounted over it.
    Link {
        to: PathBuf,
    },
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub path: PathBuf,
    pub directory: bool,
}

/// A repository of the project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repository {
    /// The `.git` of a folder, or the folder itself where it is a bare one.
    pub mark: PathBuf,
    pub own: Own,
    /// What git on the host runs or reads because the settings name it, as far as it stands in the project.
    pub run_by_git: Vec<Found>,
    /// The same, where nothing stands: it must not appear.
    pub awaited: Vec<PathBuf>,
}

/// Where a repository's own folder is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Own {
    /// At the mark.
    Here(GitFolder),
    /// The mark is a file that leads elsewhere, and what is there leads back.
    Linked(GitFolder),
    /// The mark leads to something that is not this folder's: a file that says so, or a link.
    Stray { why: &'static str },
}

/// A repository's own folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitFolder {
    pub path: PathBuf,
    pub device: u64,
    pub inode: u64,
    /// Why a command cannot write there: it is of a kind that cannot be taken over.
    pub is_beyond_us: Option<&'static str>,
    /// The folder itself first, then its submodules and its further working trees.
    pub parts: Vec<GitPart>,
}

/// A part of a repository's own folder that has a `HEAD` of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GitPart {
    /// Where it is in the folder; empty for the folder itself.
    #[serde(serialize_with = "crate::text::path")]
    pub at: PathBuf,
    /// Whether it is a further working tree, which has no objects of its own.
    pub is_worktree: bool,
    /// Where its objects are: its own first, then those that they borrow from.
    #[serde(serialize_with = "crate::text::paths")]
    pub objects: Vec<PathBuf>,
}

/// What lies where, for the paths that were asked about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Paths(HashMap<OsString, PathFact>);

impl Paths {
    pub fn with_capacity(paths: usize) -> Self {
        Paths(HashMap::with_capacity(paths))
    }

    pub fn insert(&mut self, path: PathBuf, fact: PathFact) {
        self.0.insert(path.into_os_string(), fact);
    }

    pub fn extend(&mut self, more: Paths) {
        self.0.extend(more.0);
    }

    /// The fact, if there is something at this path.
    pub fn existing(&self, path: &Path) -> Option<&PathFact> {
        self.get(path).filter(|fact| !matches!(fact.kind, Kind::Missing | Kind::Closed))
    }

    pub fn get(&self, path: &Path) -> Option<&PathFact> {
        // By its bytes: as a path it would be taken apart for every look.
        self.0.get(path.as_os_str())
    }

    pub fn is_directory(&self, path: &Path) -> bool {
        self.existing(path).is_some_and(|fact| fact.kind == Kind::Directory)
    }
}
