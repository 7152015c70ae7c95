//! Asks a confined git what a working tree has that is not committed. It reads a repository of our own that borrows the host's objects: no
//! setting of the host's or of a command's counts, no filter runs, and nothing is written beside that repository.

use super::incoming::{self, Incoming};
use super::process::{Running, Wall, failure, wait_for};
use super::{HostGit, Limits, Refused, Store, git, readable, stores_of};
use rustix::fd::AsFd;
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A working tree, and what git has to know about it.
pub struct Tree<'a> {
    pub root: &'a Path,
    pub index: &'a Path,
    /// The commit, in letters; `None` where there is none yet.
    pub head: Option<&'a [u8]>,
    /// The content of `info/exclude`.
    pub exclude: &'a [u8],
    /// The user's own list of what to leave out.
    pub ignore: Option<&'a Path>,
    /// Whether the file system keeps who may execute a file.
    pub has_modes: bool,
    /// Only what lies at these, below the root; all of it where there are none.
    pub paths: &'a [PathBuf],
}

/// More than a person would wait for before a command starts.
const TIME: Duration = Duration::from_secs(20);
/// More names than this say nothing new.
const MOST: usize = 64 << 20;

/// What `git status --porcelain -z` says. Scratch directories of processes that have died are removed on the way.
pub fn status(program: &HostGit, store: &Store, tree: &Tree<'_>) -> Result<Vec<u8>, Refused> {
    let failed = |error: std::io::Error| Refused::error("write a file", &error);
    incoming::remove_stale_directories(&store.scratch);
    let incoming = Incoming::new(store, None)?;
    if let Some(head) = tree.head {
        std::fs::write(incoming.path().join("HEAD"), [head, b"\n"].concat()).map_err(failed)?;
    }
    std::fs::create_dir(incoming.path().join("info")).map_err(failed)?;
    std::fs::write(incoming.path().join("info/exclude"), tree.exclude).map_err(failed)?;
    let mut read = readable(store, &incoming);
    read.extend([tree.root.to_owned(), tree.index.to_owned()]);
    read.extend(tree.ignore.map(Path::to_owned));
    let limits = Limits { time: TIME, ..Limits::default() };
    let wall = Wall::new(program.program(), &read, None, &limits)?;
    let mut environment = stores_of(store, &incoming);
    let named = |name: &str, path: &Path| [name.as_bytes(), path.as_os_str().as_bytes()].concat();
    environment.push(named("GIT_INDEX_FILE=", tree.index));
    environment.extend([b"GIT_OPTIONAL_LOCKS=0".to_vec(), b"GIT_LITERAL_PATHSPECS=1".to_vec()]);
    let input = File::open("/dev/null").map_err(failed)?;
    let mut command = git(program, &incoming, &[], environment, input.as_fd());
    let ignore = tree.ignore.map_or_else(|| PathBuf::from("/dev/null"), Path::to_owned);
    for setting in [
        b"core.untrackedCache=false".to_vec(),
        b"core.preloadIndex=false".to_vec(),
        format!("core.fileMode={}", tree.has_modes).into_bytes(),
        named("core.excludesFile=", &ignore),
    ] {
        command.arguments.extend([b"-c".to_vec(), setting]);
    }
    command.arguments.push(named("--work-tree=", tree.root));
    command.arguments.extend(
        [
            "status",
            "--porcelain",
            "-z",
            "--no-renames",
            "--untracked-files=all",
            // A directory that is ignored as a whole is one line.
            "--ignored=matching",
            "--ignore-submodules=all",
        ]
        .map(|argument| argument.as_bytes().to_vec()),
    );
    command.arguments.push(b"--".to_vec());
    command.arguments.extend(tree.paths.iter().map(|path| tree.root.join(path).into_os_string().into_vec()));
    let mut running = Running::start(command, &wall)?;
    let mut said = Vec::new();
    let mut take = |bytes: &[u8]| {
        let room = MOST.saturating_sub(said.len());
        said.extend_from_slice(&bytes[..bytes.len().min(room)]);
        Ok(())
    };
    wait_for(&mut [&mut running], Instant::now() + TIME, &mut take)?;
    failure(&running, &[incoming.path(), &store.objects]).map_or(Ok(()), Err)?;
    Ok(said)
}
