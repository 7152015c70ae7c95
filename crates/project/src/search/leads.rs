//! Follows a link step by step, so that every link on the way is known: each of them decides what stands at the end.

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// As many links as the kernel follows.
const MOST_LINKS: usize = 40;

/// Where a path leads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lead {
    /// The links on the way, each with its text.
    pub(crate) links: Vec<(PathBuf, PathBuf)>,
    /// What stands at the end, at its real path.
    pub(crate) end: Option<(PathBuf, Stat)>,
    /// The directory beyond which we cannot look.
    pub(crate) closed: Option<PathBuf>,
}

/// Follows an absolute path.
pub(crate) fn follow(path: &Path) -> Lead {
    follow_below(Path::new("/"), path)
}

/// Follows a path below a directory that is known by its real path.
pub(crate) fn follow_below(base: &Path, path: &Path) -> Lead {
    let mut lead = Lead::default();
    let mut at = base.to_path_buf();
    let mut rest: VecDeque<OsString> = parts(path);
    let mut last = None;
    while let Some(part) = rest.pop_front() {
        if part == ".." {
            at.pop();
            last = None;
            continue;
        }
        let next = at.join(&part);
        let stat = match rustix::fs::lstat(&next) {
            Ok(stat) => stat,
            Err(Errno::ACCESS) => {
                lead.closed = Some(at);
                return lead;
            }
            Err(_) => return lead,
        };
        if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
            at = next;
            last = Some(stat);
            continue;
        }
        let Ok(text) = std::fs::read_link(&next) else { return lead };
        if lead.links.len() == MOST_LINKS {
            return lead;
        }
        if text.is_absolute() {
            at = PathBuf::from("/");
        }
        for part in parts(&text).into_iter().rev() {
            rest.push_front(part);
        }
        lead.links.push((next, text));
        last = None;
    }
    let end = last.map_or_else(|| rustix::fs::lstat(&at), Ok);
    lead.end = end.ok().map(|stat| (at, stat));
    lead
}

/// The names of a path, and `..`.
fn parts(path: &Path) -> VecDeque<OsString> {
    path.components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name.to_owned()),
            Component::ParentDir => Some("..".into()),
            _ => None,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn every_link_on_the_way_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(folder.path()).unwrap();
        std::fs::create_dir_all(root.join("real/deep")).unwrap();
        std::fs::write(root.join("real/deep/app.txt"), "x").unwrap();
        symlink("real", root.join("way")).unwrap();
        symlink("./way/../way/deep/app.txt", root.join(".env")).unwrap();
        let lead = follow(&root.join(".env"));
        assert_eq!(lead.end.unwrap().0, root.join("real/deep/app.txt"));
        let links: Vec<&Path> = lead.links.iter().map(|(link, _)| link.as_path()).collect();
        assert_eq!(links, [root.join(".env"), root.join("way"), root.join("way")]);
    }

    #[test]
    fn a_circle_and_a_link_to_nothing_have_no_end() {
        let folder = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(folder.path()).unwrap();
        symlink("b", root.join("a")).unwrap();
        symlink("a", root.join("b")).unwrap();
        symlink("/nowhere/at/all", root.join("c")).unwrap();
        assert!(follow(&root.join("a")).end.is_none());
        assert!(follow(&root.join("c")).end.is_none());
    }
}
