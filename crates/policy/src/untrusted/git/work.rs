//! Work that git does not have yet, as `git status --porcelain -z` lists it, and what of it a command would take away.

/// What a working tree has that was not committed. Paths begin at its root; those of directories end with a slash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// The working file differs from what is staged.
    unstaged: Vec<Vec<u8>>,
    /// What is staged differs from the commit.
    staged: Vec<Vec<u8>>,
    /// Staged, and in no commit.
    added: Vec<Vec<u8>>,
    untracked: Vec<Vec<u8>>,
    ignored: Vec<Vec<u8>>,
}

/// What is known of the work in a project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// No repository of its own: nothing brings its files back, and git can lose none.
    NoRepository(Work),
    Work(Work),
    /// It has one that could not be looked at.
    Unknown,
}

/// Directories that tools fill. What git does not know in them is made again.
const GENERATED: &[&[u8]] = &[
    b"node_modules",
    b"target",
    b"build",
    b"dist",
    b"out",
    b"tmp",
    b"temp",
    b"coverage",
    b"venv",
    b".venv",
    b"__pycache__",
    b".pytest_cache",
    b".mypy_cache",
    b".ruff_cache",
    b".tox",
    b".cache",
    b".gradle",
    b".next",
    b".nuxt",
    b".turbo",
    b".parcel-cache",
    b".nyc_output",
    b".eggs",
    b".hypothesis",
    b".nox",
    b"htmlcov",
    b"DerivedData",
    b"_build",
    b"cmake-build-debug",
    b"cmake-build-release",
    b"bower_components",
    b".terraform",
    b".dart_tool",
    b".stack-work",
];

/// How files end that compilers and editors make, and make again.
const GENERATED_ENDS: &[&[u8]] = &[
    b".pyc",
    b".pyo",
    b".o",
    b".obj",
    b".class",
    b".a",
    b".so",
    b".swp",
    b"~",
    b".tsbuildinfo",
    b".egg-info",
];

impl Work {
    /// Reads the list; `None` if it is invalid.
    pub fn read(list: &[u8]) -> Option<Work> {
        let mut work = Work::default();
        for line in list.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
            let [staged, unstaged, b' ', path @ ..] = line else { return None };
            match (staged, unstaged) {
                (b'?', b'?') => work.untracked.push(path.to_vec()),
                (b'!', b'!') => work.ignored.push(path.to_vec()),
                // What is gone from the tree, or only from the next commit, is still in git.
                (b' ' | b'D', b'D' | b' ') => {}
                _ => {
                    if *staged != b' ' {
                        work.staged.push(path.to_vec());
                    }
                    if *staged == b'A' {
                        work.added.push(path.to_vec());
                    }
                    if !matches!(unstaged, b' ' | b'D') {
                        work.unstaged.push(path.to_vec());
                    }
                }
            }
        }
        Some(work)
    }

    /// Files that no git knows.
    pub fn of_files(files: Vec<Vec<u8>>) -> Work {
        Work { untracked: files, ..Work::default() }
    }

    /// Whether something that git knows was changed and not committed.
    pub fn has_changes(&self) -> bool {
        !self.staged.is_empty() || !self.unstaged.is_empty()
    }

    /// Whether a working file differs from what is staged.
    pub fn has_unstaged(&self) -> bool {
        !self.unstaged.is_empty()
    }

    /// Whether there are files that git neither knows nor ignores, and that no tool has made. With `added`, files count that are staged and
    /// in no commit: they are unknown once nothing is staged.
    pub fn has_untracked(&self, added: bool) -> bool {
        self.untracked_or_added(added).next().is_some()
    }

    /// The same, by name.
    pub fn untracked_or_added(&self, added: bool) -> impl Iterator<Item = &[u8]> {
        let added = if added { self.added.as_slice() } else { &[] };
        self.untracked.iter().chain(added).filter(|path| !is_generated(path)).map(Vec::as_slice)
    }

    /// Whether git ignores something that no tool has made: settings, databases.
    pub fn has_ignored(&self) -> bool {
        self.ignored.iter().any(|path| !is_generated(path))
    }

    /// What git knows and what was changed since the last commit.
    pub fn changed(&self) -> impl Iterator<Item = &[u8]> {
        self.staged.iter().chain(&self.unstaged).map(Vec::as_slice)
    }

    /// What is lost with its file: changes that are not staged.
    pub fn unstaged(&self) -> impl Iterator<Item = &[u8]> {
        self.unstaged.iter().map(Vec::as_slice)
    }

    /// The same for files that git neither knows nor ignores, and that no tool has made.
    pub fn untracked(&self) -> impl Iterator<Item = &[u8]> {
        self.untracked.iter().filter(|path| !is_generated(path)).map(Vec::as_slice)
    }

    /// The same for those that git ignores.
    pub fn ignored(&self) -> impl Iterator<Item = &[u8]> {
        self.ignored.iter().filter(|path| !is_generated(path)).map(Vec::as_slice)
    }
}

/// Whether a path lies in a directory that tools fill, is one, or is a file that they make again.
pub fn is_generated(path: &[u8]) -> bool {
    let is_directory = path.ends_with(b"/");
    let mut names: Vec<&[u8]> = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
    let last = names.last().copied().unwrap_or_default();
    if !is_directory {
        names.pop();
    }
    names.iter().any(|name| GENERATED.contains(name)) || GENERATED_ENDS.iter().any(|end| last.ends_with(end))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn work(list: &str) -> Work {
        Work::read(list.replace('|', "\0").as_bytes()).unwrap()
    }

    #[test]
    fn what_is_staged_is_changed_and_not_lost_with_its_file() {
        let changed = work(" M src/a.rs|");
        assert!(changed.has_changes() && changed.has_unstaged() && !changed.has_untracked(true));
        let staged = work("M  src/a.rs|A  src/b.rs|");
        assert!(staged.has_changes() && !staged.has_unstaged());
        // Once nothing is staged, the new one is unknown to git.
        assert!(!staged.has_untracked(false) && staged.has_untracked(true));
        assert!(work("MM src/a.rs|").has_unstaged());
        assert_eq!(work(" D src/a.rs|D  src/b.rs|"), Work::default());
    }

    #[test]
    fn what_tools_make_is_not_work() {
        assert!(work("?? src/new.rs|").has_untracked(false));
        assert!(!work("?? target/x|?? a/node_modules/b/c|?? m.pyc|!! .env|").has_untracked(false));
        assert!(work("!! .env|").has_ignored() && work("!! data/|").has_ignored());
        assert!(!work("!! build/|!! a/__pycache__/|!! x.o|").has_ignored());
    }

    #[test]
    fn an_invalid_list_says_nothing() {
        assert_eq!(Work::read(b"fatal: no"), None);
        assert_eq!(Work::read(b"M"), None);
        assert_eq!(Work::read(b""), Some(Work::default()));
    }
}
