//! Looks at what a request is about, and has it decided.

use crate::here::Here;
use crate::say;
use keyward_launch::look;
use keyward_policy::facts::{HostFacts, Kind, Paths, Project};
use keyward_policy::linux::kernel::KernelFacts;
use keyward_policy::plan::{Plan, Refusal, plan};
use keyward_policy::request::{Purpose, Request};
use keyward_policy::settings::Policy;
use keyward_policy::tools::Platform;
use keyward_policy::view::{self, Searched};
use keyward_policy::words::SearchExtent;
use keyward_project::search::{self, Role, Search, Seen, Tree};
use keyward_project::{git, habits, logins};
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The request for this command, here.
pub fn request<'a>(argv: Vec<OsString>, here: &Here, environment: &'a [&'a [u8]]) -> Request<'a> {
    Request {
        argv,
        cwd: here.cwd.clone(),
        project: here.project.clone(),
        environment,
        caller: here.caller.clone(),
        platform: Platform::HERE,
        purpose: Purpose::Command,
    }
}

/// Looks at what the request is about, and decides.
pub fn decide(
    policy: &Policy,
    request: &Request<'_>,
    kernel: KernelFacts,
    here: &Here,
) -> Result<Plan, Refusal> {
    decide_and_remember(policy, request, kernel, here, say::searching).map(|decided| decided.plan)
}

/// A plan, and what the search saw: the end of a run is compared with it.
pub struct Decided<'a> {
    pub plan: Plan,
    pub project: Project,
    pub search: Search<'a>,
    pub seen: Vec<Seen>,
    /// The paths that the plan asked about, as they were.
    pub paths: Paths,
}

pub fn decide_and_remember<'a>(
    policy: &'a Policy,
    request: &Request<'_>,
    kernel: KernelFacts,
    here: &'a Here,
    slow: fn(&Path),
) -> Result<Decided<'a>, Refusal> {
    let mut paths = look::look(view::questions(policy, request));
    paths.extend(look::look(view::further_questions(request, &paths)));
    let search = Search { slow, ..search_of(policy, request, &paths, here) };
    let (mut project, seen) = search::search(&search);
    let looked = git::look::look(&here.project, &here.caller.home, &project.marks);
    project.repositories = looked.repositories;
    project.footholds.extend(looked.links);
    // What git runs in a closed directory may lead anywhere.
    project.unresolved.extend(looked.closed);
    run_from_around(&mut project, here);
    let home = &here.caller.home;
    let is_forced = |path: &Path| view::is_hidden_by_name(policy, &here.project, home, path);
    project.committed = git::committed::show(&mut project.secrets, &project.repositories, &is_forced);
    // Also where no repository is: the command may make one.
    project.author = git::look::author(&here.caller.home);
    project.other_owner = look::other_owner(&here.project);
    project.habits = habits::of_home(&here.caller.home, &here.project);
    if project.other_owner.is_some_and(|owner| acts_for(request, owner.user)) {
        project.habits.extend(habits::trusting(&here.project));
    }
    if !project.marks.is_empty() {
        project.git =
            git::transport::HostGit::find(here.search.as_os_str()).map(|git| git.program().to_path_buf());
    }
    let placed = view::kept_home(policy, request).map(|kept| logins::placed(&here.state, &kept));
    let mut facts = HostFacts { kernel, paths, project, placed: placed.unwrap_or_default() };
    for folder in view::read_only_repositories(&facts) {
        facts.project.secrets.extend(git::logins::logins(&folder));
    }
    let plan = plan(policy, request, &facts)?;
    Ok(Decided { plan, project: facts.project, search, seen, paths: facts.paths })
}

/// Whether root was asked by this user (`sudo`), whose repositories git trusts then.
fn acts_for(request: &Request<'_>, user: u32) -> bool {
    request.caller.uid == 0 && request.variable("SUDO_UID") == Some(user.to_string().as_bytes())
}

/// What has to be searched: the project, and every directory that is granted.
fn search_of<'a>(policy: &'a Policy, request: &Request<'_>, paths: &Paths, here: &'a Here) -> Search<'a> {
    let trees = trees(policy, request, paths, here);
    let mounts = search::mounts_in(&trees);
    // What lies behind a closed directory may be a link.
    let (mut hidden, mut hidden_by_link) = (Vec::new(), Vec::new());
    for path in view::hidden_paths(policy, request) {
        match paths.get(&path) {
            Some(fact) if fact.kind == Kind::Missing => {}
            Some(fact) if fact.kind != Kind::Closed && fact.real == path => {
                if fact.kind == Kind::Directory || fact.names > 1 || !mounts.is_empty() {
                    hidden.push(path);
                }
            }
            fact => {
                hidden.extend(fact.map(|fact| fact.real.clone()));
                hidden_by_link.push(path);
            }
        }
    }
    Search {
        trees,
        hidden,
        hidden_by_link,
        mounts,
        homes: [Some(&here.caller.home), here.caller.account_home.as_ref()]
            .into_iter()
            .flatten()
            .map(PathBuf::as_path)
            .filter(|home| *home != Path::new("/"))
            .collect(),
        state: &here.state,
        patterns: patterns(policy),
        not_secret: policy.env.not_secret.iter().map(|name| name.value.as_str()).collect(),
        programs: programs(request),
        bounded: policy.search.value == SearchExtent::Bounded,
        slow: |_| {},
    }
}

/// What the command sees of the user's files, and the outermost marked directory around the project.
fn trees(policy: &Policy, request: &Request<'_>, paths: &Paths, here: &Here) -> Vec<Tree> {
    let searched = view::searched(policy, request, paths).into_iter();
    let mut trees: Vec<Tree> = searched
        .map(|Searched { path, writable, why }| Tree { path, writable, role: Role::Seen(why) })
        .collect();
    if let Some(around) =
        here.around.as_ref().filter(|around| !trees.iter().any(|tree| around.starts_with(&tree.path)))
    {
        trees.push(Tree { path: around.clone(), writable: false, role: Role::Around });
    }
    trees
}

/// What git runs in the project because a repository around it says so.
fn run_from_around(project: &mut Project, here: &Here) {
    let is_inside = |path: &Path| path.starts_with(&here.project) && path != here.project;
    let looked = git::look::look(&here.project, &here.caller.home, &project.marks_around);
    project.footholds.extend(looked.links.into_iter().filter(|link| is_inside(&link.path)));
    project.unresolved.extend(looked.closed.into_iter().filter(|path| is_inside(path)));
    for repository in looked.repositories {
        let found = repository.run_by_git.into_iter().filter(|found| is_inside(&found.path));
        project.footholds.extend(found.filter_map(|found| search::foothold(&found.path)));
        project.awaited.extend(repository.awaited.into_iter().filter(|path| is_inside(path)));
    }
}

/// Where the caller's shell looks for programs, by real paths: also what PATH names relative to the current directory, or by a link.
fn programs(request: &Request<'_>) -> Vec<PathBuf> {
    let in_reach = request.programs().into_iter().filter(|path| !view::is_of_system(path));
    let mut all: Vec<PathBuf> = in_reach.map(|path| std::fs::canonicalize(&path).unwrap_or(path)).collect();
    all.sort();
    all.dedup();
    all
}

/// The user's patterns of names.
fn patterns(policy: &Policy) -> Vec<&OsStr> {
    let hide = policy.files.hide.iter().map(|hide| hide.value.as_path());
    hide.filter(|path| view::is_pattern(path)).map(Path::as_os_str).collect()
}
