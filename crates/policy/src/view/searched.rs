//! Which directories have to be searched for secret files, footholds and repositories.

use super::places::{NEVER_PROJECTS, SYSTEM};
use super::{at_or_below, expand, is_shared_place};
use crate::facts::{Kind, Paths};
use crate::request::Request;
use crate::settings::Policy;
use std::path::{Path, PathBuf};

/// Whether the folder of a request can be a project at all, as far as its path tells.
pub fn can_be_project(request: &Request<'_>) -> bool {
    let project = &request.project;
    let mut homes = request.caller.account_home.iter().chain([&request.caller.home]);
    !homes.any(|home| at_or_below(home, project))
        && !is_shared_place(project)
        && !NEVER_PROJECTS.iter().any(|place| project.starts_with(place))
}

/// The directories that have to be searched, each with whether the command may write there: the project first, then what is granted. What
/// lies in another one that is searched in the same way is not named again.
pub fn searched(policy: &Policy, request: &Request<'_>, paths: &Paths) -> Vec<(PathBuf, bool)> {
    let mut all: Vec<(PathBuf, bool)> = Vec::new();
    if can_be_project(request) {
        all.push((request.project.clone(), true));
    }
    let home = &request.caller.home;
    let reads = policy.files.read.iter().map(|grant| (grant, false));
    let writes = policy.files.write.iter().map(|grant| (grant, true));
    let granted = writes.chain(reads).filter_map(|(grant, writable)| {
        let fact = paths.existing(&expand(&grant.value, home))?;
        // What every command sees of the system is not the user's.
        let system = !writable && SYSTEM.iter().any(|system| fact.real.starts_with(system));
        let holds_home = home.starts_with(&fact.real) || fact.real == Path::new("/");
        (fact.kind == Kind::Directory && !system && !holds_home).then(|| (fact.real.clone(), writable))
    });
    let mut granted: Vec<(PathBuf, bool)> = granted.collect();
    // Outer ones first, so that inner ones are found to be covered.
    granted.sort_by_key(|(path, writable)| (path.as_os_str().len(), !writable));
    for (path, writable) in granted {
        let covers = |(other, other_writable): &(PathBuf, bool)| {
            at_or_below(&path, other) && (*other_writable || !writable)
        };
        if !all.iter().any(covers) {
            all.push((path, writable));
        }
    }
    let grants = usize::from(can_be_project(request));
    all[grants..].reverse();
    all
}
