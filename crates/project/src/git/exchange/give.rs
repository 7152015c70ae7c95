//! Gives the command what the host has changed.

use super::{Exchange, Part};
use crate::git::base;
use crate::git::place::{self, Thing};
use keyward_policy::untrusted::git::refs::{Change, Value};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use std::path::Path;

impl Exchange<'_> {
    /// Gives the command what the host has changed, where it has not changed the same itself.
    pub(super) fn give(&mut self, part: &mut Part, given: &[Change]) {
        // What is gone first: a folder may stand where a file was.
        let (gone, set): (Vec<&Change>, Vec<&Change>) =
            given.iter().partition(|change| change.host.is_none());
        for change in gone.into_iter().chain(set) {
            let path = base::path(&change.name);
            let done = match &change.host {
                Some(value) => {
                    let still = |_: Option<Thing>| {
                        let now = place::read(&part.cage, path, 1_024).ok();
                        let now = now.and_then(|(content, _)| Value::read(&content));
                        now.is_none() || now == change.cage
                    };
                    place::replace(&part.cage, path, &value.spelled(), still).map(drop)
                }
                None => forget(&part.cage, &change.name),
            };
            match done {
                Ok(()) if change.name == b"HEAD" => part.base.head = change.host.clone(),
                Ok(()) => part.note(&change.name, change.host.clone()),
                Err(Errno::EXIST | Errno::STALE) => self.news.is_busy = true,
                // The command then sees what was there when it started.
                Err(_) => {}
            }
        }
        self.give_entries(part);
        if !part.is_worktree {
            self.give_settings(part);
        }
    }
}

/// Removes a ref from a repository in which it may be a file of its own, or packed, or both.
fn forget(folder: &OwnedFd, name: &[u8]) -> Result<(), Errno> {
    let packed_refs = Path::new("packed-refs");
    if let Ok((text, _)) = place::read(folder, packed_refs, 1 << 30) {
        let mut rest = Vec::with_capacity(text.len());
        let mut skips = false;
        for line in text.split_inclusive(|&byte| byte == b'\n') {
            let is_own =
                line.trim_ascii_end().strip_suffix(name).is_some_and(|before| before.ends_with(b" "));
            skips = is_own || (skips && line.starts_with(b"^"));
            if !skips {
                rest.extend_from_slice(line);
            }
        }
        if rest != text {
            let unchanged = |_: Option<Thing>| {
                place::read(folder, packed_refs, 1 << 30).is_ok_and(|(now, _)| now == text)
            };
            place::replace(folder, packed_refs, &rest, unchanged)?;
        }
    }
    let path = base::path(name);
    place::remove(folder, path)?;
    // A branch of the name of the folder may follow.
    for above in path.ancestors().skip(1).take_while(|above| above.components().count() > 2) {
        if place::remove_folder(folder, above).is_err() {
            break;
        }
    }
    Ok(())
}
