//! Paths of the keyring's objects: what they stand for, and which of them answers named.

use super::{Asked, MOST_KNOWN, NOT_OWN, ROOT, Refused};
use crate::untrusted::keyring::message::is_path;
use std::collections::VecDeque;

/// Paths that answers named, the newest last.
#[derive(Debug, Default)]
pub(super) struct Known(VecDeque<String>);

impl Known {
    pub(super) fn has(&self, path: &str) -> bool {
        self.0.iter().any(|known| known == path)
    }

    /// A call about these items, if all of them are known.
    pub(super) fn all<'a>(&self, paths: impl IntoIterator<Item = &'a str>) -> Result<Asked, Refused> {
        let known = |path: &'a str| if self.has(path) { Ok(path.to_owned()) } else { Err(NOT_OWN) };
        Ok(Asked::Items(paths.into_iter().map(known).collect::<Result<_, _>>()?))
    }

    pub(super) fn learn<'a>(&mut self, paths: impl IntoIterator<Item = &'a str>) {
        for path in paths {
            self.0.retain(|known| known != path);
            self.0.push_back(path.to_owned());
            if self.0.len() > MOST_KNOWN {
                self.0.pop_front();
            }
        }
    }

    pub(super) fn forget(&mut self, which: impl Fn(&str) -> bool) {
        self.0.retain(|known| !which(known));
    }
}

/// The parts of a path below the service, if it is one.
fn below(path: &str) -> Option<Vec<&str>> {
    let rest = path.strip_prefix(ROOT)?.strip_prefix('/')?;
    if is_path(path) { Some(rest.split('/').collect()) } else { None }
}

pub(super) fn is_collection(path: &str) -> bool {
    matches!(below(path).as_deref(), Some(["collection" | "aliases", _]))
}

pub(super) fn is_item(path: &str) -> bool {
    matches!(below(path).as_deref(), Some(["collection" | "aliases", _, _]))
}

pub(super) fn is_below(path: &str, kind: &str) -> bool {
    matches!(below(path).as_deref(), Some([first, _, ..]) if *first == kind)
}
