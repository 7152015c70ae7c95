//! Whether a command would take work away that git does not have. The repository is looked at only for such a command.

use crate::here::Here;
use keyward_gate::Loss;
use keyward_policy::git::work::Work;
use keyward_project::git::work::{self, Known};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// So many times only a part of the project is looked at; after that, all of it, once.
const PARTS: usize = 4;

/// The work in the project of a command that starts in a directory.
pub struct Losses<'a> {
    here: &'a Here,
    cwd: &'a Path,
    parts: usize,
    whole: Option<Known>,
}

impl<'a> Losses<'a> {
    pub fn new(here: &'a Here, cwd: &'a Path) -> Self {
        Losses { here, cwd, parts: 0, whole: None }
    }

    /// What cannot be looked at counts as lost where it always was a question, and as kept where it never was.
    pub fn is_lost(&mut self, loss: &Loss) -> bool {
        match loss {
            Loss::Paths(written) => self.are_lost(written),
            Loss::Changes(directory) => self.is_lost_of(directory, Work::has_changes),
            Loss::Untracked(directory) => self.is_lost_of(directory, Work::has_untracked),
        }
    }

    fn are_lost(&mut self, written: &[Vec<u8>]) -> bool {
        let project = &self.here.project;
        let paths = written.iter().filter_map(|path| in_project(path, self.cwd, project));
        // What is not there cannot be lost, and needs no look at the repository.
        let paths: Vec<PathBuf> = paths.filter(|path| project.join(path).is_dir()).collect();
        // A repository of its own, with work that the project's does not know.
        if paths.iter().any(|path| !path.as_os_str().is_empty() && is_marked(&project.join(path))) {
            return true;
        }
        let is_lost = |work: &Work| paths.iter().any(|path| work.is_lost_with(path.as_os_str().as_bytes()));
        match paths.is_empty() {
            true => false,
            false => matches!(self.look(&paths), Known::Work(work) if is_lost(&work)),
        }
    }

    fn is_lost_of(&mut self, directory: &[u8], has: fn(&Work) -> bool) -> bool {
        let project = &self.here.project;
        let Some(directory) = in_project(directory, self.cwd, project) else { return true };
        let mut between = directory.ancestors().filter(|path| !path.as_os_str().is_empty());
        if between.any(|path| is_marked(&project.join(path))) {
            return true;
        }
        match self.look(&[]) {
            Known::NoRepository => false,
            Known::Work(work) => has(&work),
            Known::Unknown => true,
        }
    }

    /// The work at some paths, or all of it.
    fn look(&mut self, paths: &[PathBuf]) -> Known {
        let Here { project, state, search, caller, .. } = self.here;
        let look = |paths: &[PathBuf]| work::look(project, &caller.home, state, search, paths);
        if self.whole.is_none() && !paths.is_empty() && self.parts < PARTS {
            self.parts += 1;
            return look(paths);
        }
        self.whole.get_or_insert_with(|| look(&[])).clone()
    }
}

fn is_marked(directory: &Path) -> bool {
    std::fs::symlink_metadata(directory.join(".git")).is_ok()
}

/// A path as a command writes it, below the project's root; up to the first part that is a pattern.
fn in_project(written: &[u8], cwd: &Path, project: &Path) -> Option<PathBuf> {
    let written = Path::new(OsStr::from_bytes(written));
    if written.starts_with("~") {
        return None;
    }
    let mut path = PathBuf::new();
    for part in cwd.join(written).components() {
        match part {
            Component::ParentDir => {
                path.pop();
            }
            Component::Normal(name) if name.as_bytes().iter().any(|byte| b"*?[".contains(byte)) => break,
            part => path.push(part),
        }
    }
    path.strip_prefix(project).ok().map(Path::to_path_buf)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_found_below_the_project() {
        let of = |written: &str| in_project(written.as_bytes(), Path::new("/p/sub"), Path::new("/p"));
        for (written, expected) in
            [("src", "sub/src"), ("./a/../b/", "sub/b"), ("../lib/*", "lib"), ("/p/x", "x"), ("..", "")]
        {
            assert_eq!(of(written).unwrap(), Path::new(expected), "{written}");
        }
        for written in ["~/x", "/tmp/x", "../../q"] {
            assert_eq!(of(written), None, "{written}");
        }
    }
}
