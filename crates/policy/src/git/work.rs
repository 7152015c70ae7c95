//! Work that git does not have yet, as `git status --porcelain -z` lists it, and what of it a command would take away.

/// What a working tree has that was not committed. Paths begin at its root.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// The working file differs from what is staged.
    unstaged: Vec<Vec<u8>>,
    /// What is staged differs from the commit.
    staged: bool,
    untracked: Vec<Vec<u8>>,
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
];

impl Work {
    /// Reads the list; `None` if it is invalid.
    pub fn read(list: &[u8]) -> Option<Work> {
        let mut work = Work::default();
        for line in list.split(|byte| *byte == 0).filter(|line| !line.is_empty()) {
            let [staged, unstaged, b' ', path @ ..] = line else { return None };
            match (staged, unstaged) {
                (b'?', b'?') => work.untracked.push(path.to_vec()),
                (b'!', b'!') => {}
                // What is gone from the tree, or only from the next commit, is still in git.
                (b' ' | b'D', b'D' | b' ') => {}
                _ => {
                    work.staged |= *staged != b' ';
                    if !matches!(unstaged, b' ' | b'D') {
                        work.unstaged.push(path.to_vec());
                    }
                }
            }
        }
        Some(work)
    }

    /// Whether something that git knows was changed and not committed.
    pub fn has_changes(&self) -> bool {
        self.staged || !self.unstaged.is_empty()
    }

    /// Whether there are files that git neither knows nor ignores, and that no tool has made.
    pub fn has_untracked(&self) -> bool {
        self.untracked.iter().any(|path| !is_generated(path))
    }

    /// Whether work is lost with what lies at a path; an empty one is the root. A single file that git never knew is not counted: commands
    /// remove what they have made.
    pub fn is_lost_with(&self, path: &[u8]) -> bool {
        let at_or_below = |one: &Vec<u8>| is_below(one, path) || one == path;
        self.unstaged.iter().any(at_or_below)
            || self.untracked.iter().any(|one| is_below(one, path) && !is_generated(one))
    }
}

fn is_below(path: &[u8], directory: &[u8]) -> bool {
    directory.is_empty() || path.strip_prefix(directory).is_some_and(|rest| rest.first() == Some(&b'/'))
}

fn is_generated(path: &[u8]) -> bool {
    let mut names: Vec<&[u8]> = path.split(|byte| *byte == b'/').collect();
    names.pop();
    names.iter().any(|name| GENERATED.contains(name))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn work(list: &str) -> Work {
        Work::read(list.replace('|', "\0").as_bytes()).unwrap()
    }

    #[test]
    fn changed_files_are_lost_with_their_directory_and_staged_ones_are_not() {
        let changed = work(" M src/a.rs|");
        assert!(
            changed.is_lost_with(b"src") && changed.is_lost_with(b"src/a.rs") && changed.is_lost_with(b"")
        );
        assert!(!changed.is_lost_with(b"sr") && !changed.is_lost_with(b"lib"));
        assert!(changed.has_changes() && !changed.has_untracked());
        // The index still has it.
        let staged = work("M  src/a.rs|A  src/b.rs|");
        assert!(!staged.is_lost_with(b"src") && staged.has_changes());
        assert!(work("MM src/a.rs|").is_lost_with(b"src"));
        let gone = work(" D src/a.rs|D  src/b.rs|");
        assert_eq!(gone, Work::default());
    }

    #[test]
    fn new_files_are_lost_with_a_directory_unless_a_tool_makes_them() {
        let new = work("?? src/new.rs|?? notes.txt|?? build/x.o|?? a/node_modules/b/c|");
        assert!(new.is_lost_with(b"src") && new.is_lost_with(b"") && new.has_untracked());
        assert!(!new.is_lost_with(b"notes.txt") && !new.is_lost_with(b"build") && !new.is_lost_with(b"a"));
        assert!(!work("?? target/x|!! .env|").has_untracked());
    }

    #[test]
    fn an_invalid_list_says_nothing() {
        assert_eq!(Work::read(b"fatal: no"), None);
        assert_eq!(Work::read(b"M"), None);
        assert_eq!(Work::read(b""), Some(Work::default()));
    }
}
