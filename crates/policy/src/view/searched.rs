//! Which directories have to be searched for secret files, footholds and repositories.

use super::places::{NEVER_PROJECTS, SYSTEM, SYSTEM_SEARCHED};
use super::{at_or_below, expand, is_shared_place, toolchains};
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

/// A directory that has to be searched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Searched {
    /// Its real path.
    pub path: PathBuf,
    /// Whether the command may write there.
    pub writable: bool,
    pub why: Why,
}

/// Why a directory has to be searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    Project,
    Granted,
    /// PATH leads into it, and it is shown read-only for that.
    Programs,
    /// A toolchain that was installed as a whole. What its authors have published is not the user's: keys in it are test data.
    Toolchain,
    /// Every command sees it, and only an administrator changes it.
    System,
}

/// The directories that have to be searched: the project first, then what is granted, then what PATH leads to, then those of the system.
/// What lies in another one that is searched in the same way is not named again.
pub fn searched(policy: &Policy, request: &Request<'_>, paths: &Paths) -> Vec<Searched> {
    let mut all: Vec<Searched> = Vec::new();
    if can_be_project(request) {
        all.push(Searched { path: request.project.clone(), writable: true, why: Why::Project });
    }
    let first = all.len();
    let home = &request.caller.home;
    let reads = policy.files.read.iter().map(|grant| (grant, false));
    let writes = policy.files.write.iter().map(|grant| (grant, true));
    let granted = writes.chain(reads).filter_map(|(grant, writable)| {
        let fact = paths.existing(&expand(&grant.value, home))?;
        let holds_home = home.starts_with(&fact.real) || fact.real == Path::new("/");
        (fact.kind == Kind::Directory && (writable || !is_of_system(&fact.real)) && !holds_home)
            .then(|| Searched { path: fact.real.clone(), writable, why: Why::Granted })
    });
    add(&mut all, first, granted.collect());
    let first = all.len();
    let led = toolchains::of_search_path(request, paths).into_iter();
    let led = led.filter(|(_, fact, _)| fact.kind == Kind::Directory && !is_of_system(&fact.real));
    let led = led.map(|(_, fact, why)| Searched { path: fact.real.clone(), writable: false, why });
    add(&mut all, first, led.collect());
    let first = all.len();
    let system = SYSTEM_SEARCHED.iter().map(Path::new).filter(|path| {
        paths.existing(path).is_some_and(|fact| fact.kind == Kind::Directory && fact.real == **path)
    });
    let system = system.map(|path| Searched { path: path.into(), writable: false, why: Why::System });
    add(&mut all, first, system.collect());
    all
}

/// Whether every command sees it.
pub fn is_of_system(real: &Path) -> bool {
    SYSTEM.iter().any(|system| real.starts_with(system))
}

/// Adds directories that no other one covers, inner ones first.
fn add(all: &mut Vec<Searched>, first: usize, mut more: Vec<Searched>) {
    // Outer ones first, so that inner ones are found to be covered.
    more.sort_by_key(|one| (one.path.as_os_str().len(), !one.writable));
    for one in more {
        let covers =
            |other: &Searched| at_or_below(&one.path, &other.path) && (other.writable || !one.writable);
        if !all.iter().any(covers) {
            all.push(one);
        }
    }
    all[first..].reverse();
}
