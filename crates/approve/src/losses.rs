//! Looks at what the decision about lost work has to know. The repository is looked at only for a command that would take work away.

use crate::site::Site;
use keyward_gate::Loss;
use keyward_policy::loss::{self, Look, Lost, Stands, Start};
use keyward_policy::untrusted::git::work::Known;
use keyward_policy::view::{View, is_gone_with_the_cage};
use keyward_project::git::work;
use std::path::{Path, PathBuf};

/// So many times only a part of the project is looked at; after that, all of it, once.
const PARTS: usize = 4;
/// So many further working trees are looked at; of more, none counts as clean.
const INNER: usize = 16;

/// The work in the project of a command that starts in a directory.
pub struct Losses<'a> {
    cwd: &'a Path,
    seen: Seen<'a>,
}

struct Seen<'a> {
    site: Site<'a>,
    view: &'a View,
    parts: usize,
    inner: usize,
    whole: Option<Known>,
}

impl<'a> Losses<'a> {
    pub fn new(site: Site<'a>, view: &'a View, cwd: &'a Path) -> Self {
        Losses { cwd, seen: Seen { site, view, parts: 0, inner: 0, whole: None } }
    }

    pub fn lost(&mut self, loss: &Loss) -> Lost {
        let Seen { site, view, .. } = self.seen;
        let start = Start { project: site.project, cwd: self.cwd, home: &view.home.at };
        loss::lost(loss, start, &mut self.seen)
    }
}

impl Look for Seen<'_> {
    fn work(&mut self, paths: &[PathBuf]) -> Known {
        let Site { project, state, search, home, .. } = self.site;
        let look = |paths: &[PathBuf]| work::look(project, home, state, search, paths);
        let is_part = !paths.is_empty() && paths.iter().all(|path| !path.as_os_str().is_empty());
        if self.whole.is_none() && is_part && self.parts < PARTS {
            self.parts += 1;
            return look(paths);
        }
        self.whole.get_or_insert_with(|| look(&[])).clone()
    }

    fn stands(&self, path: &Path) -> Stands {
        let path = self.site.project.join(path);
        match std::fs::symlink_metadata(&path) {
            Ok(found) if found.is_dir() => match std::fs::symlink_metadata(path.join(".git")) {
                Ok(_) => Stands::Repository,
                Err(_) => Stands::Directory,
            },
            Ok(_) => Stands::Other,
            Err(_) => Stands::Nothing,
        }
    }

    fn is_branch(&self, name: &[u8]) -> bool {
        work::is_branch(self.site.project, name)
    }

    fn inner(&mut self, path: &Path) -> Lost {
        let Site { project, state, search, home, .. } = self.site;
        if self.inner == INNER {
            return Lost::Work;
        }
        self.inner += 1;
        work::inner(project, home, state, search, path)
    }

    fn is_worktree(&self, end: &Path) -> bool {
        work::is_worktree(self.site.project, end)
    }

    fn is_gone_with_the_cage(&self, path: &Path) -> bool {
        is_gone_with_the_cage(self.view, path)
    }
}
