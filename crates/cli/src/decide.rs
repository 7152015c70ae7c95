//! Looks at what a request is about, and has it decided.

use crate::here::Here;
use keyward_launch::look;
use keyward_policy::facts::{HostFacts, KernelFacts, Project};
use keyward_policy::guard::secret_name;
use keyward_policy::plan::{Plan, Refusal, plan};
use keyward_policy::request::Request;
use keyward_policy::settings::Policy;
use keyward_policy::tools::Platform;
use keyward_policy::view;
use keyward_project::search::{self, Search, Seen};
use keyward_project::{git, logins};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The request for this command, here.
pub fn request<'a>(argv: Vec<OsString>, here: &Here, environment: &'a [&'a [u8]]) -> Request<'a> {
    Request {
        argv,
        cwd: here.cwd.clone(),
        project: here.project.clone(),
        environment,
        caller: here.caller.clone(),
        platform: Platform::HERE,
    }
}

/// Looks at what the request is about, and decides.
pub fn decide(
    policy: &Policy,
    request: &Request<'_>,
    kernel: KernelFacts,
    here: &Here,
) -> Result<Plan, Refusal> {
    decide_and_remember(policy, request, kernel, here).map(|decided| decided.plan)
}

/// A plan, and what the search of the project saw: the end of a run is compared with it.
pub struct Decided {
    pub plan: Plan,
    pub project: Project,
    pub seen: Seen,
}

pub fn decide_and_remember(
    policy: &Policy,
    request: &Request<'_>,
    kernel: KernelFacts,
    here: &Here,
) -> Result<Decided, Refusal> {
    let paths = look::look(view::questions(policy, request));
    let (project, seen) =
        if view::can_be_project(request) { search_project(policy, here) } else { Default::default() };
    let placed = view::kept_home(policy, request).map(|kept| logins::placed(&here.state, &kept));
    let facts = HostFacts { kernel, paths, project, placed: placed.unwrap_or_default() };
    plan(policy, request, &facts).map(|plan| Decided { plan, project: facts.project, seen })
}

/// What the project holds that needs care; secret files by our names and by the user's patterns.
fn search_project(policy: &Policy, here: &Here) -> (Project, Seen) {
    let (mut project, seen) = search::search(&Search {
        project: &here.project,
        home: &here.caller.home,
        indexes: &here.state.join("search"),
        patterns: &patterns(policy),
        is_secret: &secret_names(policy),
    });
    project.repositories = git::look::look(&here.project, &here.caller.home, &project.marks);
    if !project.marks.is_empty() {
        project.author = git::look::author(&here.caller.home);
    }
    (project, seen)
}

/// The user's patterns of names.
fn patterns(policy: &Policy) -> Vec<&OsStr> {
    let hide = policy.files.hide.iter().map(|hide| hide.value.as_path());
    hide.filter(|path| view::is_pattern(path)).map(Path::as_os_str).collect()
}

/// Whether a file is secret by its name.
pub fn secret_names(policy: &Policy) -> impl Fn(&OsStr) -> bool {
    let patterns = patterns(policy);
    move |name: &OsStr| {
        secret_name(name).is_some()
            || patterns.iter().any(|pattern| view::fits(name.as_bytes(), pattern.as_bytes()))
    }
}
