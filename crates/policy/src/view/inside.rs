//! What stands in the project and is not the command's to change: footholds, repositories and what git runs because of their settings.

use super::{Builder, Entry, FOOTHOLD, Shown, Source, covering};
use crate::facts::{Foothold, GitFolder, HostFacts, Own, Repository, Standing};
use crate::request::Request;
use crate::settings::Policy;
use crate::words::{Origin, Protect};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::path::Path;

/// Footholds that are there become mounts of their own, read-only. Grants come later, so that one that names a foothold wins.
pub(super) fn footholds(builder: &mut Builder<'_>, footholds: &[Foothold]) {
    let is_folder = |foothold: &&Foothold| matches!(foothold.is, Standing::Thing { directory: true, .. });
    let folders: HashSet<&OsStr> =
        footholds.iter().filter(is_folder).map(|foothold| foothold.path.as_os_str()).collect();
    let mut seen = HashSet::with_capacity(footholds.len());
    for Foothold { path, is } in footholds {
        let Standing::Thing { directory, device, inode } = *is else { continue };
        // Below one that is read-only everything is.
        let covered = path.ancestors().skip(1).any(|above| folders.contains(above.as_os_str()));
        if !covered && seen.insert(path.as_os_str()) {
            let source = Source {
                path: path.clone(),
                expect: Some((device, inode)),
                callers_own: true,
                directory,
                make: false,
            };
            builder.entries.push(Entry {
                target: path.clone(),
                shown: Shown::ReadOnly(source),
                rule: FOOTHOLD,
                origin: Origin::Builtin,
            });
        }
    }
}

/// Git runs programs for what stands in a repository's own folder and for what its settings name: none of that is the command's to change.
pub(super) fn repositories(
    builder: &mut Builder<'_>,
    policy: &Policy,
    request: &Request<'_>,
    facts: &HostFacts,
) {
    let origin = &policy.project.origin;
    // Those that are where their mark is come first: what a mark leads to may lie in one of them.
    let mut all: Vec<&Repository> = facts.project.repositories.iter().collect();
    all.sort_by_key(|repository| (!matches!(repository.own, Own::Here(_)), repository.mark.as_os_str()));
    for repository in all {
        let mark = &repository.mark;
        match &repository.own {
            Own::Here(folder) => own_folder(builder, folder, facts, origin),
            Own::Linked(folder) => {
                if is_wall(policy, request, mark) {
                    builder.put(mark, Shown::ReadOnly(Source::found(mark.clone(), false)), "git", origin);
                }
                let within = covering(&builder.entries, &folder.path);
                if !within.is_some_and(|entry| matches!(entry.shown, Shown::Repository { .. })) {
                    own_folder(builder, folder, facts, origin);
                }
            }
            Own::Stray { why } => {
                builder.notes.push(format!("{} is not used as a repository: {why}", mark.display()));
                let is_link = builder.paths.existing(mark).is_some_and(|fact| fact.link.is_some());
                if !is_link && is_wall(policy, request, mark) {
                    builder.put(mark, Shown::ReadOnly(Source::found(mark.clone(), false)), "git", origin);
                }
            }
        }
        for named in &repository.run_by_git {
            let source = Source::found(named.path.clone(), named.directory);
            builder.put(&named.path, Shown::ReadOnly(source), "run by git", origin);
        }
    }
}

/// Whether a file that leads to a repository is a mount. In a folder below it is not, because a working tree or a submodule could then not be
/// removed; it is compared when the command has ended.
fn is_wall(policy: &Policy, request: &Request<'_>, mark: &Path) -> bool {
    policy.protect.value == Protect::Strict || mark.parent() == Some(&request.project)
}

fn own_folder(builder: &mut Builder<'_>, folder: &GitFolder, facts: &HostFacts, origin: &Origin) {
    let source = Source::git(folder);
    let shown = if facts.kernel.overlay.holds() {
        Shown::Repository { source, shared: folder.shared.clone() }
    } else {
        builder.notes.push(format!(
            "{} is read-only: without an overlay it cannot be written safely",
            folder.path.display()
        ));
        Shown::ReadOnly(source)
    };
    builder.put(&folder.path, shown, "git", origin);
}
