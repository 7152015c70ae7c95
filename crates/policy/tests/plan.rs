//! Plans: policy, request and facts in, the whole plan compared. No privilege, no disk.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod case;

use case::{Case, fact, flag, refused};
use keyward_policy::explain::explain;
use keyward_policy::facts::{
    Foothold, Found, GitFolder, GitPart, HostFacts, Kind, OF_ANOTHER, OtherOwner, Own, PathFact, Paths,
    Project, Repository, SecretFile, Standing, Unsearched,
};
use keyward_policy::linux::acts::{self, acts};
use keyward_policy::linux::cage::{Cage, Identity};
use keyward_policy::linux::kernel::{Cgroup, KernelFacts};
use keyward_policy::plan::{LimitKind, Plan, RefusalKind, plan};
use keyward_policy::promise::{Held, Kept, Promise};
use keyward_policy::request::{Caller, Purpose, Request};
use keyward_policy::secret::{Entry, Grant, Reference, SecretName};
use keyward_policy::tools::{Platform, all, tool};
use keyward_policy::view::{self, LOGIN, Mend, OWN_PROGRAM, Shown};
use keyward_policy::why::{Act, why};
use keyward_policy::words::{
    Allowance, Floor, HomeMode, KeyringUse, NetMode, Origin, ProjectGuard, Protect, Ruled, SearchExtent,
    TrustClass,
};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn gone(plan: &Plan) -> Vec<&'static str> {
    let gone = plan.promises.iter().filter(|kept| matches!(kept.held, Held::Gone { .. }));
    gone.map(|kept| kept.promise.name()).collect()
}

fn shown<'a>(plan: &'a Plan, path: &str) -> Option<&'a Shown> {
    plan.view.entries.iter().rev().find(|entry| entry.target == Path::new(path)).map(|entry| &entry.shown)
}

#[test]
fn the_default_plan_for_a_user() {
    insta::assert_snapshot!(explain(&Case::new().plan(), true));
}

#[test]
fn the_default_plan_as_json_holds_no_value_of_the_callers() {
    let json = serde_json::to_string_pretty(&Case::new().plan()).unwrap();
    assert!(!json.contains("sk-not-a-real-one") && !json.contains("de_DE"));
    insta::assert_snapshot!(json);
}

#[test]
fn root_is_an_unprivileged_user_outside_where_owners_can_be_mapped() {
    let plan = Case::root().plan();
    assert_eq!(plan.identity, Identity::MappedRoot { outside: 1_900_000_000 });
    assert!(plan.surface.root);
}

#[test]
fn root_stays_uid_0_without_capabilities_where_owners_cannot_be_mapped() {
    let mut case = Case::root();
    case.kernel.mapped_owners = refused("operation not permitted");
    let plan = case.plan();
    assert_eq!(plan.identity, Identity::BareRoot);
    assert_eq!(shown(&plan, "/etc/shadow"), Some(&Shown::Hidden { directory: false, reads_as: None }));
    assert!(explain(&plan, false).contains("uid 0 without capabilities (owners cannot be mapped here)"));
}

#[test]
fn without_a_fresh_proc_the_floor_full_is_refused_in_two_lines() {
    let mut case = Case::new();
    case.kernel.fresh_proc = refused("operation not permitted");
    let refusal = case.refusal();
    assert_eq!(refusal.kind, RefusalKind::Floor);
    insta::assert_snapshot!(format!("{}\n{}", refusal.fact, refusal.remedy));
}

#[test]
fn without_a_fresh_proc_the_floor_landlock_keeps_the_mounts_and_loses_only_command_lines() {
    let mut case = Case::new();
    case.kernel.fresh_proc = refused("operation not permitted");
    case.policy.floor = flag(Floor::Landlock, "--floor");
    let plan = case.plan();
    assert_eq!(plan.cage, Cage::SharedProc);
    assert_eq!(gone(&plan), ["command-lines"]);
    assert_eq!(shown(&plan, "/proc"), Some(&Shown::SharedProc));
}

#[test]
fn without_namespaces_the_floor_landlock_has_a_fixed_printed_list_of_what_falls_away() {
    let mut case = Case::new();
    case.kernel.user_namespace = refused("operation not permitted");
    case.policy.floor = flag(Floor::Landlock, "--floor");
    let plan = case.plan();
    assert_eq!(plan.cage, Cage::Landlock);
    assert_eq!(gone(&plan), ["command-lines", "project", "private-tmp", "ipc", "second-wall"]);
    insta::assert_snapshot!(explain(&plan, false));
}

#[test]
fn without_namespaces_the_project_is_read_only_unless_named_unprotected() {
    let mut case = Case::new();
    case.kernel.user_namespace = refused("operation not permitted");
    case.policy.floor = flag(Floor::Landlock, "--floor");
    assert!(matches!(shown(&case.plan(), "/home/ada/work"), Some(Shown::ReadOnly(_))));
    case.policy.project = flag(ProjectGuard::Unprotected, "--project");
    assert!(matches!(shown(&case.plan(), "/home/ada/work"), Some(Shown::Writable(_))));
}

#[test]
fn without_namespaces_and_scopes_even_the_weaker_floor_is_refused() {
    let mut case = Case::new();
    case.kernel.user_namespace = refused("operation not permitted");
    case.kernel.landlock_abi = 5;
    case.policy.floor = flag(Floor::Landlock, "--floor");
    let refusal = case.refusal();
    assert_eq!(refusal.kind, RefusalKind::Floor);
    insta::assert_snapshot!(format!("{}\n{}", refusal.fact, refusal.remedy));
}

#[test]
fn without_landlock_nothing_runs_at_floor_full() {
    let mut case = Case::new();
    case.kernel.landlock_abi = 0;
    let refusal = case.refusal();
    insta::assert_snapshot!(format!("{}\n{}", refusal.fact, refusal.remedy));
}

#[test]
fn without_a_network_namespace_no_network_means_no_inet_socket() {
    let mut case = Case::new();
    case.kernel.network_namespace = refused("no space left on device");
    let plan = case.plan();
    assert!(plan.surface.no_inet && !plan.own_network);
    assert!(plan.landlock.scope_abstract_sockets);
}

#[test]
fn rules_need_a_network_namespace_and_make_every_host_a_socket() {
    let mut case = Case::new();
    case.policy.net = flag(NetMode::Rules, "--allow-net");
    let api = keyward_policy::net::allowed::Allowed::parse("GET api.example.com/v1/*").unwrap();
    case.policy.network.allow = vec![flag(api, "--allow-net")];
    let plan = case.plan();
    assert!(plan.own_network && !plan.surface.no_inet);
    assert!(plan.network.as_ref().is_some_and(|network| network.sockets.len() == 10));
    assert!(explain(&plan, false).contains("network    GET api.example.com/v1/*  (--allow-net)"));
    case.kernel.network_namespace = refused("no space left on device");
    let refusal = case.refusal();
    assert_eq!(refusal.kind, RefusalKind::Floor);
    assert!(refusal.fact.contains("refuses a network namespace") && refusal.remedy.contains("--net none"));
}

#[test]
fn an_open_network_is_loud_and_still_closes_abstract_sockets() {
    let mut case = Case::new();
    case.policy.net = flag(NetMode::Open, "--net");
    let plan = case.plan();
    assert!(!plan.own_network && !plan.surface.no_inet && plan.landlock.scope_abstract_sockets);
    assert!(explain(&plan, false).contains("OPEN  network"));
}

#[test]
fn an_open_network_without_scopes_is_refused_because_abstract_sockets_would_be_open() {
    let mut case = Case::new();
    case.policy.net = flag(NetMode::Open, "--net");
    case.kernel.landlock_abi = 5;
    assert_eq!(case.refusal().kind, RefusalKind::Floor);
}

#[test]
fn credentials_are_inherited_by_name_and_by_class() {
    let mut case = Case::new();
    case.policy.inherit_credentials = vec![flag("OPENAI_API_KEY".into(), "--inherit-credentials")];
    let refusal = case.refusal();
    assert_eq!(refusal.kind, RefusalKind::Policy);
    insta::assert_snapshot!(format!("{}\n{}", refusal.fact, refusal.remedy));
    for class in [TrustClass::Internal, TrustClass::Executor] {
        case.policy.trust = flag(class, "--trust");
        assert!(case.plan().environment.vars.iter().any(|variable| variable.name == "OPENAI_API_KEY"));
    }
    case.policy.trust = flag(TrustClass::Tool, "--trust");
    assert_eq!(case.refusal().kind, RefusalKind::Policy);
}

#[test]
fn home_and_shared_places_are_not_projects() {
    for place in ["/home/ada", "/home", "/", "/tmp", "/etc/cron.d", "/usr"] {
        let plan = Case::new().standing_in(place).plan();
        assert_eq!(plan.view.project, None, "{place}");
        assert_eq!(plan.view.warnings.len(), 1, "{place}");
        let writable: Vec<_> =
            plan.writable().filter(|path| path.starts_with(place) && *path == Path::new(place)).collect();
        assert!(
            writable.iter().all(|path| *path == Path::new("/home/ada") || *path == Path::new("/tmp")),
            "{place}"
        );
    }
}

#[test]
fn a_folder_that_holds_home_cannot_be_granted() {
    for path in ["/home/ada", "/home", "/"] {
        let mut case = Case::new();
        case.folder(path);
        case.policy.files.read = vec![flag(path.into(), "--read")];
        let refusal = case.refusal();
        assert_eq!(refusal.kind, RefusalKind::Policy, "{path}");
        assert!(refusal.fact.contains("holds your HOME"), "{}", refusal.fact);
    }
}

#[test]
fn a_granted_path_that_is_missing_is_an_error_in_a_flag_and_a_note_in_a_file() {
    let mut case = Case::new();
    case.policy.files.read = vec![flag("/srv/data".into(), "--read")];
    assert_eq!(case.refusal().kind, RefusalKind::Usage);
    let origin = Origin::File { file: "policy.toml".into(), line: 4 };
    case.policy.files.read = vec![Ruled { value: "/srv/data".into(), origin }];
    assert_eq!(case.plan().view.notes, ["/srv/data (policy.toml:4) does not exist on this host"]);
}

#[test]
fn a_grant_through_a_link_shows_the_target_and_the_link() {
    let mut case = Case::new();
    let link = PathFact {
        link: Some("/srv/data".into()),
        real: "/srv/data".into(),
        ..fact("/home/ada/data", Kind::Directory)
    };
    case.paths.push(("/home/ada/data".into(), link));
    case.policy.files.read = vec![flag("~/data".into(), "--read")];
    let plan = case.plan();
    assert!(matches!(shown(&plan, "/srv/data"), Some(Shown::ReadOnly(_))));
    assert_eq!(shown(&plan, "/home/ada/data"), Some(&Shown::Link { to: "/srv/data".into() }));
}

#[test]
fn a_project_below_var_tmp_stands_in_a_folder_of_the_cages_own() {
    assert_eq!(shown(&Case::new().plan(), "/var/tmp"), Some(&Shown::Link { to: "/tmp".into() }));
    let plan = Case::new().standing_in("/var/tmp/work").plan();
    assert_eq!(shown(&plan, "/var/tmp"), Some(&Shown::Private { mode: 0o1777 }));
}

#[test]
fn toolchains_on_the_path_appear_read_only_and_nothing_else_of_home_does() {
    let mut case = Case::new();
    for folder in
        ["/home/ada/.cargo/bin", "/home/ada/.rustup", "/home/ada/.nvm", "/home/ada/bin", "/home/ada/.ssh"]
    {
        case.folder(folder);
    }
    case.environment[0] =
        b"PATH=/home/ada/.cargo/bin:/home/ada/.nvm/versions/node/v20/bin:/home/ada/bin:relative:/usr/bin";
    let plan = case.plan();
    for path in ["/home/ada/.cargo/bin", "/home/ada/.rustup", "/home/ada/.nvm", "/home/ada/bin"] {
        assert!(matches!(shown(&plan, path), Some(Shown::ReadOnly(_))), "{path}");
    }
    assert_eq!(shown(&plan, "/home/ada/.ssh"), None);
    assert_eq!(plan.view.notes, ["1 entry of PATH was left out: relative, or not in the view"]);

    // A HOME that is kept stands in the place of the user's and shows the same of it.
    case.policy.profile = Some("builder".into());
    case.found.author = Some((b"Ada".to_vec(), b"ada@example.test".to_vec()));
    case.found.habits = b"[init]\n\tdefaultbranch = main\n".to_vec();
    let kept = case.plan();
    for path in ["/home/ada/.cargo/bin", "/home/ada/.rustup", "/home/ada/.nvm", "/home/ada/bin"] {
        assert_eq!(shown(&kept, path), shown(&plan, path), "{path}");
    }
    assert_eq!(shown(&kept, "/home/ada/.gitconfig"), None);
    let settings = b"[user]\n\tname = Ada\n\temail = ada@example.test\n[init]\n\tdefaultbranch = main\n[include]\n\tpath = /etc/gitconfig\n";
    assert_eq!(shown(&kept, "/run/gitconfig"), Some(&Shown::Text { text: settings.to_vec() }));
    // And so does a cage whose working directory is HOME.
    let at_home = Case { project: "/home/ada".into(), ..case }.plan();
    assert_eq!(shown(&at_home, "/home/ada/.cargo/bin"), shown(&plan, "/home/ada/.cargo/bin"));
}

#[test]
fn a_command_that_is_a_link_brings_what_it_was_installed_with() {
    let led = |place: &str, real: &str| PathFact {
        link: Some(real.into()),
        real: real.into(),
        ..fact(place, Kind::File)
    };
    let with = |real: &str, root: &str| {
        let mut case = Case::new();
        case.environment[0] = b"PATH=/usr/bin:/home/ada/.local/bin:/home/ada/work/bin";
        case.argv = vec!["tool".into()];
        case.folder("/home/ada/.local/bin").folder(root);
        case.paths.push(("/home/ada/.local/bin/tool".into(), led("/home/ada/.local/bin/tool", real)));
        case
    };
    for (real, root) in [
        ("/home/ada/.local/share/agents/tool/1.2/tool", "/home/ada/.local/share/agents/tool/1.2"),
        ("/home/ada/.venvs/tool/bin/tool", "/home/ada/.venvs/tool"),
        ("/home/ada/n/lib/node_modules/tool/bin/t.js", "/home/ada/n/lib/node_modules"),
        ("/srv/tools/tool/bin/tool", "/srv/tools/tool"),
    ] {
        let plan = with(real, root).plan();
        assert!(matches!(shown(&plan, root), Some(Shown::ReadOnly(_))), "{root}");
    }
    // As an installer that keeps several versions leaves it.
    let mut case = with("/home/ada/apps/tool/2/bin/tool", "/home/ada/apps/tool/2");
    case.paths.last_mut().unwrap().1.link = Some("../../apps/tool/current/bin/tool".into());
    let plan = case.plan();
    let link = Shown::Link { to: "/home/ada/apps/tool/2".into() };
    assert_eq!(shown(&plan, "/home/ada/apps/tool/current"), Some(&link));
    // Where the directory would show more than a tool, the program alone.
    let mut case = with("/home/ada/Downloads/tool", "/home/ada/Downloads");
    case.file("/home/ada/Downloads/tool");
    let plan = case.plan();
    assert_eq!(shown(&plan, "/home/ada/Downloads"), None);
    assert!(matches!(shown(&plan, "/home/ada/Downloads/tool"), Some(Shown::ReadOnly(_))));
    // Not a store of credentials, and not what a command may have put into a project.
    let plan = with("/home/ada/.ssh/bin/tool", "/home/ada/.ssh").plan();
    assert_eq!(shown(&plan, "/home/ada/.ssh"), None);
    let mut case = Case::new();
    case.environment[0] = b"PATH=/home/ada/work/bin:/home/ada/other/bin";
    case.argv = vec!["tool".into()];
    case.folder("/home/ada/.secret/place");
    let planted = led("/home/ada/work/bin/tool", "/home/ada/.secret/place/tool");
    case.paths.push(("/home/ada/work/bin/tool".into(), planted));
    assert_eq!(shown(&case.plan(), "/home/ada/.secret/place"), None);
    let mut case = with("/home/ada/.secret/place/tool", "/home/ada/.secret/place");
    case.paths.last_mut().unwrap().1.leaves_project = Some("/home/ada/.local".into());
    assert_eq!(shown(&case.plan(), "/home/ada/.secret/place"), None);
    // Not where a further link on the way leads elsewhere: a command that worked there may have put it.
    let mut case = with("/home/ada/private/bin/tool", "/home/ada/private");
    let strays = ["/home/ada/.local/bin/tool", "/home/ada/other/tools/bin"].map(PathBuf::from);
    case.paths.last_mut().unwrap().1.strays = strays.to_vec();
    assert_eq!(shown(&case.plan(), "/home/ada/private/bin/tool"), None);
    case.paths.last_mut().unwrap().1.strays.pop();
    case.file("/home/ada/private/bin/tool");
    assert!(shown(&case.plan(), "/home/ada/private/bin/tool").is_some());
    case.argv = vec!["/home/ada/.local/bin/tool".into()];
    assert_eq!(
        shown(&case.plan(), "/home/ada/private/bin/tool"),
        None,
        "a path may lead to what a command made"
    );
    // A program of the system that comes first is the one that runs.
    let mut case = with("/home/ada/.venvs/tool/bin/tool", "/home/ada/.venvs/tool");
    case.file("/usr/bin/tool");
    assert_eq!(shown(&case.plan(), "/home/ada/.venvs/tool"), None);
}

#[test]
fn a_link_in_a_writable_grant_decides_no_other_grant() {
    let granted = |real: &str, stray: &str| {
        let mut case = Case::new();
        case.folder("/srv/scratch");
        let fact = PathFact {
            link: Some(real.into()),
            real: real.into(),
            strays: vec![stray.into()],
            ..fact("/srv/scratch/data", Kind::Directory)
        };
        case.paths.push(("/srv/scratch/data".into(), fact));
        case.policy.files.write = vec![flag("/srv/scratch".into(), "--write")];
        case.policy.files.read = vec![flag("/srv/scratch/data".into(), "--read")];
        case
    };
    let refusal = granted("/home/ada/documents", "/srv/scratch/data").refusal();
    assert_eq!(
        refusal.fact,
        "/srv/scratch/data (--read) leads out of the writable directory /srv/scratch to /home/ada/documents"
    );
    assert!(refusal.remedy.ends_with("use `--read /home/ada/documents`"), "{}", refusal.remedy);
    // A link above the directory is not a command's, and one that stays inside gives nothing more.
    granted("/home/ada/documents", "/srv").plan();
    granted("/srv/scratch/real", "/srv/scratch/data").plan();
}

#[test]
fn an_entry_of_path_that_a_command_may_have_led_elsewhere_shows_nothing() {
    let led = |real: &str, stray: &str| {
        let mut case = Case::new();
        case.environment[0] = b"PATH=/home/ada/other/.venv/bin:/usr/bin";
        let entry = "/home/ada/other/.venv/bin";
        let fact = PathFact {
            link: Some(real.into()),
            real: real.into(),
            strays: vec![stray.into()],
            ..fact(entry, Kind::Directory)
        };
        case.paths.push((entry.into(), fact));
        case
    };
    for real in ["/home/ada", "/home", "/", "/home/ada/Documents", "/home/ada/.ssh", "/tmp", "/var"] {
        let plan = led(real, "/home/ada/other/.venv/bin").plan();
        assert!(!plan.view.entries.iter().any(|entry| entry.rule == "search path"), "{real}");
        let warning = plan.view.warnings.iter().find(|warning| warning.fact.contains(".venv/bin"));
        assert!(warning.is_some_and(|warning| warning.remedy.contains(&format!("--read {real}"))), "{real}");
    }
    // What stands directly in HOME only the user can have put there; even that does not show HOME.
    let own = led("/srv/tools", "/home/ada/other");
    assert!(shown(&own.plan(), "/srv/tools").is_some());
    assert_eq!(shown(&led("/home/ada", "/home/ada/other").plan(), "/home/ada/.ssh"), None);
    let at_home = led("/home/ada", "/home/ada/other").plan();
    assert!(!at_home.view.entries.iter().any(|entry| entry.rule == "search path"));
}

#[test]
fn parts_of_a_cache_that_are_no_downloads_are_the_cages_own() {
    let mut case = Case::new();
    for directory in ["/home/ada/.npm", "/home/ada/.npm/_npx", "/home/ada/go/pkg/mod/cache/vcs"] {
        case.folder(directory);
    }
    let plan = case.plan();
    let Some(Shown::Writable(own)) = shown(&plan, "/home/ada/.npm/_npx") else { panic!("not its own") };
    assert!(own.path.starts_with("/home/ada/.cache/keyward"), "{own:?}");
    assert_eq!(
        shown(&plan, "/home/ada/go/pkg/mod/cache/vcs"),
        None,
        "without its cache it is not there at all"
    );
}

#[test]
fn caches_are_keywards_own_with_the_users_below() {
    let mut case = Case::new();
    case.folder("/home/ada/.cargo/registry");
    let plan = case.plan();
    let Some(Shown::Cache { store, below }) = shown(&plan, "/home/ada/.cargo/registry") else {
        panic!("no cache")
    };
    assert_eq!(below.path, Path::new("/home/ada/.cargo/registry"));
    assert_eq!(store.path, Path::new("/home/ada/.cache/keyward/unknown/layers/.cargo-registry"));
    case.kernel.overlay = refused("operation not permitted");
    assert!(matches!(shown(&case.plan(), "/home/ada/.cargo/registry"), Some(Shown::ReadOnly(_))));
}

#[test]
fn no_project_and_no_grant_holds_keywards_own_folders() {
    for place in ["/home/ada/.config", "/home/ada/.config/keyward", "/home/ada/.local"] {
        let refusal = Case::new().standing_in(place).refusal();
        assert_eq!(refusal.kind, RefusalKind::Policy);
        assert!(refusal.fact.contains("holds keyward's own"), "{}", refusal.fact);
        let mut case = Case::new();
        case.folder(place);
        case.policy.files.write = vec![flag(place.into(), "--write")];
        assert_eq!(case.refusal().kind, RefusalKind::Policy);
    }
}

#[test]
fn a_grant_to_read_around_keywards_own_folders_hides_them() {
    let mut case = Case::new();
    case.folder("/home/ada/.config").folder("/home/ada/.config/keyward");
    case.policy.files.read = vec![flag("/home/ada/.config".into(), "--read")];
    assert_eq!(
        shown(&case.plan(), "/home/ada/.config/keyward"),
        Some(&Shown::Hidden { directory: true, reads_as: None })
    );
}

#[test]
fn a_cache_or_toolchain_that_leads_elsewhere_is_not_followed() {
    let mut case = Case::new();
    case.environment[0] = b"PATH=/home/ada/.cargo/bin:/usr/bin";
    for (path, real) in
        [("/home/ada/go/pkg/mod", "/home/ada/.ssh/mod"), ("/home/ada/.cargo/bin", "/home/ada/.aws")]
    {
        let link = (path == "/home/ada/.cargo/bin").then(|| "../.aws".into());
        case.paths.push((path.into(), PathFact { link, real: real.into(), ..fact(path, Kind::Directory) }));
    }
    let plan = case.plan();
    for path in ["/home/ada/go/pkg/mod", "/home/ada/.ssh/mod", "/home/ada/.cargo/bin", "/home/ada/.aws"] {
        assert_eq!(shown(&plan, path), None, "{path}");
    }
}

#[test]
fn the_home_of_the_account_is_no_project_whatever_the_variable_says() {
    let mut case = Case::new().standing_in("/home/real");
    case.account_home = Some("/home/real".into());
    assert_eq!(case.plan().view.project, None);
}

#[test]
fn the_projects_mark_is_pinned_and_its_policy_read_only() {
    let mut case = Case::new();
    case.folder("/home/ada/work/.hg").file("/home/ada/work/.keyward.toml");
    let plan = case.plan();
    assert!(matches!(shown(&plan, "/home/ada/work/.hg"), Some(Shown::Writable(_))));
    assert!(matches!(shown(&plan, "/home/ada/work/.keyward.toml"), Some(Shown::ReadOnly(_))));
}

fn git_part(path: &str) -> GitPart {
    let objects = vec![Path::new(path).join("objects")];
    GitPart { at: PathBuf::new(), is_worktree: false, objects }
}

fn git_folder(path: &str) -> GitFolder {
    GitFolder { path: path.into(), device: 1, inode: 2, is_beyond_us: None, parts: vec![git_part(path)] }
}

fn repository(mark: &str, own: Own) -> Repository {
    Repository { mark: mark.into(), own, run_by_git: Vec::new(), awaited: Vec::new() }
}

#[test]
fn a_repositorys_own_folder_is_a_private_one_and_what_its_settings_name_is_read_only() {
    let mut case = Case::new();
    case.folder("/home/ada/work/.git");
    let mut own = repository("/home/ada/work/.git", Own::Here(git_folder("/home/ada/work/.git")));
    own.run_by_git.push(Found { path: "/home/ada/work/ci/hooks".into(), directory: true });
    case.found.repositories.push(own);
    let plan = case.plan();
    let Some(Shown::Repository { parts, git, .. }) = shown(&plan, "/home/ada/work/.git") else {
        panic!("{plan:?}")
    };
    assert_eq!((parts.len(), git.as_path()), (1, Path::new("/usr/bin/git")));
    assert!(matches!(shown(&plan, "/home/ada/work/ci/hooks"), Some(Shown::ReadOnly(_))));
}

#[test]
fn a_repository_that_was_not_looked_at_or_cannot_be_taken_over_is_read_only() {
    let mut case = Case::new();
    case.folder("/home/ada/work/.git");
    assert!(matches!(shown(&case.plan(), "/home/ada/work/.git"), Some(Shown::ReadOnly(_))));
    let own = repository("/home/ada/work/.git", Own::Here(git_folder("/home/ada/work/.git")));
    case.found.repositories.push(own);
    assert!(matches!(shown(&case.plan(), "/home/ada/work/.git"), Some(Shown::Repository { .. })));
    let is_read_only = |case: &Case, why: &str| {
        let plan = case.plan();
        assert!(matches!(shown(&plan, "/home/ada/work/.git"), Some(Shown::ReadOnly(_))));
        assert!(plan.view.notes.iter().any(|note| note.contains(why)), "{:?}", plan.view.notes);
    };
    case.found.git = None;
    is_read_only(&case, "no git was found");
}

#[test]
fn a_mark_that_leads_elsewhere_is_read_only_and_shows_only_what_leads_back() {
    let mut case = Case::new();
    let mark = "/home/ada/work/.git";
    case.file(mark);
    case.found.repositories = vec![repository(mark, Own::Linked(git_folder("/home/ada/main/.git")))];
    let plan = case.plan();
    assert!(matches!(shown(&plan, mark), Some(Shown::ReadOnly(_))));
    assert!(matches!(shown(&plan, "/home/ada/main/.git"), Some(Shown::Repository { .. })));
    case.found.repositories = vec![repository(mark, Own::Stray { why: "it leads to nothing" })];
    let plan = case.plan();
    assert!(matches!(shown(&plan, mark), Some(Shown::ReadOnly(_))));
    assert_eq!(shown(&plan, "/home/ada/main/.git"), None);
}

#[test]
fn a_submodule_belongs_to_the_repository_around_it_in_whatever_order_they_were_found() {
    let mut case = Case::new();
    case.folder("/home/ada/work/.git").file("/home/ada/work/mod/.git");
    let around = repository("/home/ada/work/.git", Own::Here(git_folder("/home/ada/work/.git")));
    let module = git_folder("/home/ada/work/.git/modules/mod");
    let inside = repository("/home/ada/work/mod/.git", Own::Linked(module));
    for order in [[around.clone(), inside.clone()], [inside, around]] {
        case.found.repositories = order.to_vec();
        let plan = case.plan();
        let private =
            plan.view.entries.iter().filter(|entry| matches!(entry.shown, Shown::Repository { .. }));
        assert_eq!(private.count(), 1);
    }
}

#[test]
fn a_profile_has_a_home_of_its_own_for_each_class_and_without_one_it_is_empty() {
    let mut case = Case::new();
    assert_eq!(shown(&case.plan(), "/home/ada"), Some(&Shown::Private { mode: 0o700 }));
    case.policy.profile = Some("builder".into());
    let plan = case.plan();
    let Some(Shown::Writable(source)) = shown(&plan, "/home/ada") else { panic!("{plan:?}") };
    assert!(source.path.ends_with("homes/builder/unknown") && source.make, "{source:?}");
    case.policy.home.mode = Ruled::builtin(HomeMode::Empty);
    assert_eq!(shown(&case.plan(), "/home/ada"), Some(&Shown::Private { mode: 0o700 }));
}

#[test]
fn the_real_home_is_for_the_class_that_is_trusted_with_it() {
    let mut case = Case::new();
    case.policy.home.mode = Ruled::builtin(HomeMode::Real);
    for class in [TrustClass::Unknown, TrustClass::Tool, TrustClass::Executor] {
        case.policy.trust = Ruled::builtin(class);
        assert_eq!(case.refusal().rule, "home.mode", "{class}");
    }
    case.policy.trust = Ruled::builtin(TrustClass::Internal);
    let plan = case.plan();
    let Some(Shown::Writable(source)) = shown(&plan, "/home/ada") else { panic!("{plan:?}") };
    assert_eq!(source.path, std::path::Path::new("/home/ada"));
}

fn with_tools(tools: &[&str]) -> Case {
    let mut case = Case::new();
    case.policy.trust = Ruled::builtin(TrustClass::Executor);
    case.policy.home.tools = tools.iter().map(|name| flag(tool(name).unwrap(), "--tool")).collect();
    case
}

const KEPT: &str = "/home/ada/.local/state/keyward/homes/builder/executor";

#[test]
fn what_a_login_needs_is_shown_by_what_may_become_of_changes() {
    let mut case = with_tools(&["gh", "claude", "aws", "npm"]);
    for file in ["/home/ada/.claude/.credentials.json", "/home/ada/.claude.json", "/home/ada/.npmrc"] {
        case.file(file);
    }
    for folder in ["/home/ada/.config/gh", "/home/ada/.aws"] {
        case.folder(folder);
    }
    let plan = case.plan();
    assert!(matches!(shown(&plan, "/home/ada/.config/gh"), Some(Shown::Layer(_))));
    assert!(matches!(shown(&plan, "/home/ada/.aws"), Some(Shown::Layer(_))));
    assert!(matches!(shown(&plan, "/home/ada/.npmrc"), Some(Shown::ReadOnly(_))));
    let through = |path| match shown(&plan, path) {
        Some(Shown::Copied { through, .. }) => Some(*through),
        _ => None,
    };
    assert_eq!(through("/home/ada/.claude/.credentials.json"), Some(true));
    assert_eq!(through("/home/ada/.claude.json"), Some(false));
    insta::assert_snapshot!(explain(&plan, false));

    case.kernel.overlay = refused("not here");
    assert_eq!(shown(&case.plan(), "/home/ada/.config/gh"), None, "read-only, its sockets could be reached");
}

#[test]
fn no_class_that_may_have_none_is_shown_a_login() {
    let mut case = with_tools(&["gh"]);
    case.folder("/home/ada/.config/gh");
    for class in [TrustClass::Tool, TrustClass::Unknown] {
        case.policy.trust = Ruled::builtin(class);
        case.policy.home.tools = vec![flag(tool("gh").unwrap(), "--tool")];
        assert!(case.refusal().fact.contains("gh (--tool)"), "{class}");
        case.policy.home.tools = vec![Ruled::builtin(tool("gh").unwrap())];
        let plan = case.plan();
        assert!(plan.view.home.logins.is_empty() && plan.view.home.withheld.len() == 1, "{class}");
        assert!(!plan.view.entries.iter().any(|entry| entry.rule == LOGIN), "{class}");
    }
}

#[test]
fn what_xdg_variables_moved_is_found_where_it_is_and_shown_where_its_tool_looks() {
    let mut case = with_tools(&["gh"]);
    case.environment.push(b"XDG_CONFIG_HOME=/srv/conf");
    case.folder("/srv/conf/gh");
    let plan = case.plan();
    let Some(Shown::Layer(source)) = shown(&plan, "/home/ada/.config/gh") else { panic!("{plan:?}") };
    assert_eq!(source.path, Path::new("/srv/conf/gh"));
}

#[test]
fn a_file_of_the_profiles_own_stays_and_a_copy_of_ours_does_not_count_as_one() {
    let mut case = with_tools(&["git"]);
    case.file("/home/ada/.gitconfig").file(&format!("{KEPT}/.gitconfig"));
    case.policy.profile = Some("builder".into());
    let plan = case.plan();
    assert_eq!(shown(&plan, "/home/ada/.gitconfig"), None);
    assert!(plan.view.notes.iter().any(|note| note.contains("its own .gitconfig")), "{:?}", plan.view.notes);
    case.placed.insert(format!("{KEPT}/.gitconfig").into());
    assert!(matches!(shown(&case.plan(), "/home/ada/.gitconfig"), Some(Shown::Copied { .. })));
}

#[test]
fn a_link_in_a_kept_home_is_mended_where_it_leads_nowhere_and_refused_otherwise() {
    let mut case = with_tools(&["gh"]);
    case.policy.profile = Some("builder".into());
    case.folder("/home/ada/.config/gh");
    let at = format!("{KEPT}/.config/gh");
    let link =
        |kind: Kind, real: &str| PathFact { link: Some("/x".into()), real: real.into(), ..fact(&at, kind) };
    case.paths.push((at.clone().into(), link(Kind::Missing, &at)));
    assert_eq!(case.plan().view.home.mends, [Mend::DropLink { at: at.clone().into() }]);
    for real in ["/etc", "/home/ada/.config/gh"] {
        *case.paths.last_mut().unwrap() = (at.clone().into(), link(Kind::Directory, real));
        assert_eq!(case.refusal().rule, "home.tools", "{real}");
    }
}

fn adopted(path: &str) -> Case {
    let mut case = with_tools(&["gh"]);
    case.folder("/home/ada/.config/gh");
    case.policy.profile = Some("hermes".into());
    case.policy.home.path = Some(Ruled::builtin(path.into()));
    case
}

#[test]
fn the_home_of_another_program_is_used_where_it_is() {
    let mut case = adopted("~/.hermes/home");
    case.folder("/home/ada/.hermes/home");
    let plan = case.plan();
    assert!(matches!(shown(&plan, "/home/ada/.hermes/home"), Some(Shown::Writable(_))));
    assert!(matches!(shown(&plan, "/home/ada/.hermes/home/.config/gh"), Some(Shown::Layer(_))));
    assert!(shown(&plan, "/home/ada").is_none());
    let home = plan.environment.vars.iter().find(|var| var.name == "HOME").unwrap();
    assert!(format!("{:?}", home.value).contains("/home/ada/.hermes/home"), "{home:?}");
    // The other program has linked the real one: what is shown stands where the link leads.
    let at = "/home/ada/.hermes/home/.config/gh";
    let real = PathBuf::from("/home/ada/.config/gh");
    let link = PathFact { link: Some(real.clone()), real, ..fact(at, Kind::Directory) };
    case.paths.push((at.into(), link));
    let plan = case.plan();
    assert!(matches!(shown(&plan, "/home/ada/.config/gh"), Some(Shown::Layer(_))));
    assert!(shown(&plan, at).is_none());
}

#[test]
fn not_every_folder_can_be_the_home_of_another_program() {
    for path in
        ["/home/ada", "/home", "/", "/home/ada/.ssh", "/tmp", "/home/ada/.local/state/keyward/homes/x"]
    {
        let mut case = adopted(path);
        case.folder(path);
        assert_eq!(case.refusal().rule, "home.path", "{path}");
    }
    let mut case = adopted("/srv/link");
    let link =
        PathFact { link: Some("/etc".into()), real: "/etc".into(), ..fact("/srv/link", Kind::Directory) };
    case.paths.push(("/srv/link".into(), link));
    assert_eq!(case.refusal().rule, "home.path");
    // What one class leaves there must not be run by another.
    let mut case = adopted("/srv/home");
    case.policy.trust = flag(TrustClass::Executor, "--trust");
    assert_eq!(case.refusal().rule, "home.path");
}

fn on_a_mac() -> Case {
    let mut case = Case::new();
    case.platform = Platform::Macos;
    case.policy.profile = Some("builder".into());
    case.policy.trust = Ruled::builtin(TrustClass::Executor);
    case.folder("/home/ada/Library/Keychains");
    case
}

#[test]
fn on_macos_the_keychain_leads_to_the_real_one_for_classes_that_may_have_logins() {
    let link = |class: &str| Mend::Link {
        at: format!("/home/ada/.local/state/keyward/homes/builder/{class}/Library/Keychains").into(),
        to: "/home/ada/Library/Keychains".into(),
    };
    let mut case = on_a_mac();
    for class in [TrustClass::Internal, TrustClass::Executor] {
        case.policy.trust = Ruled::builtin(class);
        assert_eq!(case.plan().view.home.mends, [link(class.as_str())], "{class}");
        case.policy.home.keyring = Ruled::builtin(KeyringUse::Never);
        assert!(case.plan().view.home.mends.is_empty(), "{class}");
        case.policy.home.keyring = Ruled::builtin(KeyringUse::Trusted);
    }
    for class in [TrustClass::Tool, TrustClass::Unknown] {
        case.policy.trust = Ruled::builtin(class);
        case.policy.home.keyring = Ruled::builtin(KeyringUse::Trusted);
        assert!(case.plan().view.home.mends.is_empty(), "{class}");
        case.policy.home.keyring = Ruled::builtin(KeyringUse::Always);
        assert_eq!(case.plan().view.home.mends, [link(class.as_str())], "{class}");
    }
}

#[test]
fn a_keychain_that_is_the_profiles_own_or_leads_elsewhere_is_left_and_flagged() {
    let at = format!("{KEPT}/Library/Keychains");
    let real = PathBuf::from("/home/ada/Library/Keychains");
    let there =
        |link: Option<&str>, kind: Kind| PathFact { link: link.map(PathBuf::from), ..fact(&at, kind) };
    for (standing, mended, flagged) in [
        (there(Some("/home/ada/Library/Keychains"), Kind::Directory), false, false),
        (there(Some("/nowhere"), Kind::Missing), true, false),
        (there(Some("/elsewhere"), Kind::Directory), false, true),
        (there(None, Kind::Directory), false, true),
    ] {
        let mut case = on_a_mac();
        let about = format!("{standing:?}");
        case.paths.push((at.clone().into(), standing));
        let home = case.plan().view;
        let flag = home.notes.iter().any(|note| note.contains("Library/Keychains"));
        assert_eq!((!home.home.mends.is_empty(), flag), (mended, flagged), "{about}");
        assert!(home.home.mends.iter().all(|mend| matches!(mend, Mend::Link { to, .. } if *to == real)));
    }
    let mut case = on_a_mac();
    case.paths.retain(|(path, _)| *path != real);
    assert!(case.plan().view.notes.iter().any(|note| note.contains("no login keychain")));
}

#[test]
fn in_the_real_home_secrets_of_tools_that_are_not_named_are_hidden() {
    for platform in Platform::ALL {
        for other in all().filter(|tool| tool.name != "gh") {
            let mut case = with_tools(&["gh"]);
            case.platform = platform;
            case.policy.trust = Ruled::builtin(TrustClass::Internal);
            case.policy.home.mode = Ruled::builtin(HomeMode::Real);
            case.folder("/home/ada/.config/gh");
            let part = other.on(platform);
            let secrets: Vec<_> =
                part.login.iter().chain(part.share).filter(|it| it.secret && !it.runtime).collect();
            for secret in &secrets {
                let path = format!("/home/ada/{}", secret.path);
                let kind = if secret.folder { Kind::Directory } else { Kind::File };
                case.paths.push((path.clone().into(), fact(&path, kind)));
            }
            let plan = case.plan();
            assert!(shown(&plan, "/home/ada/.config/gh").is_none(), "it is there with HOME");
            for secret in secrets {
                let path = PathBuf::from(format!("/home/ada/{}", secret.path));
                let hidden = plan.view.entries.iter().any(|entry| {
                    matches!(entry.shown, Shown::Hidden { .. }) && path.starts_with(&entry.target)
                });
                assert!(hidden, "{} on {platform:?}: {}", other.name, secret.path);
            }
        }
    }
}

#[test]
fn an_argument_that_looks_like_a_credential_is_not_shown() {
    let mut case = Case::new();
    case.argv = vec!["curl".into(), "ghp_abcdefghijklmnopqrstuvwxyz0123456789".into()];
    let plan = case.plan();
    let texts = [explain(&plan, true), serde_json::to_string(&plan).unwrap()];
    assert!(texts.iter().all(|text| !text.contains("ghp_abcdef")), "{texts:?}");
}

#[test]
fn hidden_paths_need_a_mask_only_where_they_can_be_seen() {
    let mut case = Case::new();
    case.file("/home/ada/work/.env").file("/home/ada/.netrc");
    case.policy.files.hide = vec![flag(".env".into(), "--hide"), flag("~/.netrc".into(), "--hide")];
    let plan = case.plan();
    assert_eq!(shown(&plan, "/home/ada/work/.env"), Some(&blank()));
    assert_eq!(shown(&plan, "/home/ada/.netrc"), None);
}

fn blank() -> Shown {
    Shown::Hidden { directory: false, reads_as: Some(Vec::new()) }
}

fn secret(path: &str) -> SecretFile {
    SecretFile { path: path.into(), named: path.into(), directory: false, reads_as: Vec::new() }
}

#[test]
fn a_secret_that_a_link_names_is_shown_by_either_name() {
    for named in [".env", "conf/app.txt"] {
        let mut case = Case::new();
        let secret =
            SecretFile { named: "/home/ada/work/.env".into(), ..secret("/home/ada/work/conf/app.txt") };
        case.found.secrets.push(secret);
        assert_eq!(shown(&case.plan(), "/home/ada/work/conf/app.txt"), Some(&blank()));
        case.policy.files.show = vec![flag(named.into(), "--show")];
        assert_eq!(shown(&case.plan(), "/home/ada/work/conf/app.txt"), None, "{named}");
    }
}

#[test]
fn secret_files_of_the_project_are_hidden_unless_shown_by_name() {
    let mut case = Case::new();
    for path in
        ["/home/ada/work/.env", "/home/ada/work/tests/keys/server.key", "/home/ada/work/tests/client.key"]
    {
        case.found.secrets.push(secret(path));
    }
    case.policy.files.show = vec![flag("tests/keys".into(), "--show")];
    let plan = case.plan();
    let blank = blank();
    let hidden = Some(&blank);
    assert_eq!(shown(&plan, "/home/ada/work/.env"), hidden);
    assert_eq!(shown(&plan, "/home/ada/work/tests/client.key"), hidden);
    assert_eq!(shown(&plan, "/home/ada/work/tests/keys/server.key"), None);
    insta::assert_snapshot!(why(&plan, Act::Read, Path::new("/home/ada/work/.env")).to_string());
}

#[test]
fn a_place_is_masked_once_and_nothing_below_a_hidden_folder() {
    let mut case = Case::new();
    case.folder("/home/ada/work/keys").file("/home/ada/work/.env");
    case.policy.files.hide = vec![flag(".env".into(), "--hide"), flag("keys".into(), "--hide")];
    for path in ["/home/ada/work/.env", "/home/ada/work/keys/a.key", "/home/ada/work/keys-b.key"] {
        case.found.secrets.push(secret(path));
    }
    let plan = case.plan();
    let masks = plan.view.entries.iter().filter(|entry| matches!(entry.shown, Shown::Hidden { .. }));
    let masks: Vec<(&str, &str)> = masks.map(|mask| (mask.target.to_str().unwrap(), mask.rule)).collect();
    let expected = [
        ("/home/ada/work/.env", "files.hide"),
        ("/home/ada/work/keys", "files.hide"),
        ("/home/ada/work/keys-b.key", "secret file"),
    ];
    assert_eq!(masks, expected);
}

#[test]
fn what_could_not_be_searched_is_closed_and_told() {
    let mut case = Case::new();
    let path: PathBuf = "/home/ada/work/locked".into();
    case.found.unsearched = vec![Unsearched { path, why: "permission denied".into() }];
    let plan = case.plan();
    let closed = Shown::Hidden { directory: true, reads_as: None };
    assert_eq!(shown(&plan, "/home/ada/work/locked"), Some(&closed));
    insta::assert_snapshot!(format!("{:#?}", plan.view.warnings));
}

#[test]
fn no_caller_is_told_to_open_what_belongs_to_others() {
    let mut case = Case::new();
    let closed = |path: &str, why: &str| Unsearched { path: path.into(), why: why.into() };
    let theirs = closed("/home/ada/work/theirs", OF_ANOTHER);
    let remedy = |case: &Case| case.plan().view.warnings[0].remedy.clone();
    case.found.unsearched = vec![theirs.clone()];
    assert!(!remedy(&case).contains("chmod"), "{}", remedy(&case));
    case.found.unsearched = vec![theirs, closed("/home/ada/work/mine", "permission denied")];
    assert!(remedy(&case).starts_with("open what is yours with `chmod u+rwx`"), "{}", remedy(&case));
}

#[test]
fn a_project_of_another_user_that_cannot_be_written_is_told() {
    let told = |mut case: Case, may_write: bool| {
        case.found.other_owner = Some(OtherOwner { user: 1234, may_write });
        case.plan().view.warnings.first().map(|warning| warning.fact.clone())
    };
    let fact =
        "/home/ada/work belongs to another user (1234): the command can read it, but cannot write there";
    assert_eq!(told(Case::new(), false).as_deref(), Some(fact));
    assert_eq!(told(Case::new(), true), None);
    // Root's files are mapped; those of others are not, and no process of the cage can write there.
    assert_eq!(told(Case::root(), true).as_deref(), Some(fact));
}

#[test]
fn a_project_that_cannot_be_searched_is_a_refusal() {
    let mut case = Case::new();
    case.found.unsearched =
        vec![Unsearched { path: "/home/ada/work".into(), why: "permission denied".into() }];
    let refusal = case.refusal();
    assert_eq!(refusal.kind, RefusalKind::Floor);
    insta::assert_snapshot!(format!("{}\n{}", refusal.fact, refusal.remedy));
}

#[test]
fn a_bounded_search_is_told_with_its_origin() {
    let mut case = Case::new();
    case.policy.search = flag(SearchExtent::Bounded, "policy.toml");
    case.found.left_out = vec!["/home/ada/work/node_modules".into()];
    insta::assert_snapshot!(format!("{:#?}", case.plan().view.warnings));
}

#[test]
fn more_secret_files_than_can_be_hidden_are_a_refusal() {
    let mut case = Case::new();
    case.found.secrets = (0..20_001).map(|number| secret(&format!("/home/ada/work/{number}.key"))).collect();
    let refusal = case.refusal();
    assert_eq!(refusal.kind, RefusalKind::Policy);
    assert!(refusal.fact.contains("can be hidden"), "{}", refusal.fact);
}

#[test]
fn repositories_beyond_the_limit_are_read_only_and_told() {
    let mut case = Case::new();
    for number in 0..300 {
        let path = PathBuf::from(format!("/home/ada/work/{number:03}/.git"));
        let own = Own::Here(GitFolder {
            path: path.clone(),
            device: 1,
            inode: 2,
            is_beyond_us: None,
            parts: Vec::new(),
        });
        case.found.repositories.push(Repository {
            mark: path,
            own,
            run_by_git: Vec::new(),
            awaited: Vec::new(),
        });
    }
    let plan = case.plan();
    assert!(matches!(shown(&plan, "/home/ada/work/000/.git"), Some(Shown::Repository { .. })));
    assert!(matches!(shown(&plan, "/home/ada/work/299/.git"), Some(Shown::ReadOnly(_))));
    assert!(
        plan.view.warnings[0].fact.starts_with("44 repositories are read-only"),
        "{:?}",
        plan.view.warnings
    );
}

#[test]
fn limits_say_who_keeps_them() {
    let mut case = Case::new();
    case.policy.limits.wall = Some(flag(Duration::from_secs(30), "--timeout"));
    case.policy.limits.memory = Some(flag(2 << 30, "--memory"));
    case.policy.limits.pids = Some(flag(200, "--pids"));
    case.policy.limits.output = Some(flag(1 << 20, "limits.output"));
    let text = explain(&case.plan(), false);
    let limits = text.split("\nlimits\n").nth(1).unwrap();
    insta::assert_snapshot!(limits);
    let mut root = Case::root();
    root.kernel.mapped_owners = refused("operation not permitted");
    root.policy.limits.pids = case.policy.limits.pids.clone();
    assert!(explain(&root.plan(), false).contains("not enforced: the kernel exempts root here"));
}

/// The one line about processes that `explain` has.
fn about_pids(case: &Case) -> String {
    let text = explain(&case.plan(), false);
    let line = text.lines().find(|line| line.starts_with("  pids")).unwrap();
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn processes_are_limited_by_default_and_explain_says_by_whom() {
    let cgroup = Cgroup { path: "/sys/fs/cgroup/user".into(), memory: true, pids: true };
    let mut case = Case::new();
    let of_cage = "pids 4096 for the whole cage, by an rlimit of its user namespace (built in)";
    assert_eq!(about_pids(&case), of_cage);
    assert_eq!(about_pids(&Case::root()), of_cage);
    // A run does not look for a cgroup for it, so explain must not promise one.
    case.kernel.cgroup = Some(cgroup.clone());
    assert_eq!((about_pids(&case).as_str(), case.plan().cgroup), (of_cage, None));
    case.policy.limits.pids = Some(flag(5000, "--pids"));
    assert_eq!(about_pids(&case), "pids 5000 for the whole cage, by a cgroup (--pids)");

    let mut weak = Case::new();
    weak.kernel.user_namespace = refused("operation not permitted");
    weak.policy.floor = flag(Floor::Landlock, "--floor");
    assert!(
        about_pids(&weak).starts_with("pids 4096 not enforced: without a user namespace all your processes")
    );
    weak.kernel.cgroup = Some(cgroup.clone());
    assert_eq!(about_pids(&weak), "pids 4096 for the whole cage, by a cgroup (built in)");

    let mut bare = Case::root();
    bare.kernel.mapped_owners = refused("operation not permitted");
    assert!(about_pids(&bare).starts_with("pids 4096 not enforced: the kernel exempts root here"));
    bare.kernel.cgroup = Some(cgroup);
    assert_eq!(about_pids(&bare), "pids 4096 for the whole cage, by a cgroup (built in)");
}

#[test]
fn half_of_what_is_counted_with_the_user_is_kept_from_a_cage() {
    let lines = |case: &Case| {
        let text = explain(&case.plan(), false);
        let about = |line: &&str| line.starts_with("  inotify") || line.starts_with("  queues");
        text.lines().filter(about).map(str::to_owned).collect::<Vec<_>>()
    };
    let mut refusing = Case::new();
    refusing.kernel.inotify = refused("read-only file system");
    let mut weak = Case::new();
    weak.kernel.user_namespace = refused("operation not permitted");
    weak.policy.floor = flag(Floor::Landlock, "--floor");
    let all: Vec<String> = [Case::new(), Case::root(), refusing, weak].iter().flat_map(lines).collect();
    insta::assert_snapshot!(all.join("\n"));
}

#[test]
fn why_points_to_the_rule_and_the_line_that_would_change_it() {
    let mut case = Case::new();
    case.file("/home/ada/work/.env");
    case.policy.files.hide = vec![flag(".env".into(), "--hide")];
    let plan = case.plan();
    let asked = [
        (Act::Read, "/home/ada/work/src/main.rs"),
        (Act::Read, "/home/ada/work/.env"),
        (Act::Read, "/home/ada/.aws/credentials"),
        (Act::Write, "/home/ada/.bashrc"),
        (Act::Write, "/usr/bin/ls"),
        (Act::Exec, "/usr/bin/ls"),
        (Act::Write, "/proc/sys/kernel/core_pattern"),
        (Act::Read, "/var/log/syslog"),
    ];
    let answers: Vec<String> =
        asked.iter().map(|(act, path)| why(&plan, *act, Path::new(path)).to_string()).collect();
    insta::assert_snapshot!(answers.join("\n\n"));
}

#[test]
fn strict_protection_is_a_wall_with_a_warden() {
    let mut case = Case::new();
    assert_eq!(case.plan().own_processes(), 1);
    case.policy.protect = flag(Protect::Strict, "--protect");
    let plan = case.plan();
    let kept = plan.promises.iter().find(|kept| kept.promise == Promise::Footholds).unwrap();
    assert!(matches!(kept.held, Held::Wall { .. }), "{kept:?}");
    let is_warden = |act: &acts::Act| matches!(act, acts::Act::Warden { .. });
    assert!(acts(&plan).iter().any(is_warden) && plan.surface.strict);
    assert_eq!(plan.own_processes(), 2);
    assert!(explain(&plan, false).contains("wall  footholds"));
}

#[test]
fn strict_protection_is_there_or_the_run_is_refused() {
    let cases: [fn(&mut KernelFacts); 3] = [
        |kernel| kernel.notification = refused("device or resource busy"),
        |kernel| kernel.user_namespace = refused("operation not permitted"),
        |kernel| kernel.fresh_proc = refused("operation not permitted"),
    ];
    for weaken in cases {
        for floor in [Floor::Full, Floor::Landlock] {
            let mut case = Case::new();
            weaken(&mut case.kernel);
            case.policy.floor = flag(floor, "--floor");
            case.policy.protect = flag(Protect::Strict, "--protect");
            let refusal = case.decide().unwrap_err();
            assert_eq!(refusal.kind, RefusalKind::Floor);
            assert!(refusal.fact.starts_with("cannot keep new footholds from being made"), "{refusal:?}");
            assert!(refusal.rule.contains("--protect"), "{refusal:?}");
        }
    }
}

#[test]
fn why_knows_what_becomes_of_a_foothold() {
    let mut case = Case::new();
    let asked = [
        "/home/ada/work/.envrc",
        "/home/ada/work/sub/.vscode/tasks.json",
        "/tmp/.envrc",
        "/home/ada/work/Makefile",
    ];
    let mut answers = Vec::new();
    for protect in [Protect::Notice, Protect::Strict] {
        case.policy.protect = flag(protect, "--protect");
        let plan = case.plan();
        answers.extend(asked.iter().map(|path| why(&plan, Act::Write, Path::new(path)).to_string()));
    }
    insta::assert_snapshot!(answers.join("\n\n"));
}

#[test]
fn every_promise_holds_by_default_and_is_told() {
    let plan = Case::new().plan();
    assert_eq!(plan.promises.len(), Promise::ALL.len());
    let weaker: Vec<_> =
        plan.promises.iter().filter(|kept| !matches!(kept.held, Held::Wall { .. })).collect();
    assert_eq!(weaker.len(), 1, "{weaker:?}");
    assert!(
        matches!(weaker[0], Kept { promise: Promise::Footholds, held: Held::Notice { .. } }),
        "{weaker:?}"
    );
}

#[test]
fn a_command_without_a_name_is_refused() {
    let case = Case::new();
    let caller = Caller {
        programs: Vec::new(),
        uid: 1000,
        gid: 1000,
        home: "/home/ada".into(),
        account_home: None,
        cache: "/c".into(),
        homes: "/home/ada/.local/state/keyward/homes".into(),
        repositories: "/home/ada/.local/state/keyward/repositories".into(),
        own: vec![],
        scratch: "/s".into(),
        terminals: [false; 3],
    };
    for argv in [vec![], vec!["".into()]] {
        let project: PathBuf = "/home/ada/work".into();
        let request = Request {
            argv,
            cwd: project.clone(),
            project,
            environment: &[],
            caller: caller.clone(),
            platform: Platform::Linux,
            purpose: Purpose::Command,
        };
        let facts = HostFacts {
            kernel: case.kernel.clone(),
            paths: Paths::default(),
            project: Project::default(),
            placed: HashSet::new(),
        };
        assert_eq!(plan(&case.policy, &request, &facts).unwrap_err().kind, RefusalKind::Usage);
    }
}

fn foothold(path: &str, directory: bool) -> Foothold {
    Foothold { path: path.into(), is: Standing::Thing { directory, device: 1, inode: 7 } }
}

#[test]
fn footholds_that_are_there_are_read_only_and_a_grant_that_names_one_wins() {
    let mut case = Case::new();
    let project = case.project.display().to_string();
    let at = |name: &str| format!("{project}/{name}");
    case.found.footholds = vec![
        foothold(&at(".vscode"), true),
        foothold(&at(".vscode/.claude"), true),
        foothold(&at("sub/.envrc"), false),
        Foothold { path: at(".exrc").into(), is: Standing::Link { to: "x".into() } },
    ];
    let plan = case.plan();
    for name in [".vscode", "sub/.envrc"] {
        assert!(
            matches!(shown(&plan, &at(name)), Some(Shown::ReadOnly(source)) if source.expect == Some((1, 7))),
            "{name}"
        );
    }
    // Covered by the one above it; and nothing can be mounted over a link.
    assert_eq!((shown(&plan, &at(".vscode/.claude")), shown(&plan, &at(".exrc"))), (None, None));
    let decision = why(&plan, Act::Write, Path::new(&at(".vscode/tasks.json")));
    assert!(!decision.allowed && decision.rule == "foothold");
    assert_eq!(
        decision.remedy.unwrap(),
        format!("`--write {0}`, or `files.write = [\"{0}\"]`", at(".vscode"))
    );

    case.folder(&at(".vscode"));
    case.policy.files.write = vec![flag(at(".vscode").into(), "--write")];
    assert!(matches!(shown(&case.plan(), &at(".vscode")), Some(Shown::Writable(_))));
}

#[test]
fn without_mounts_footholds_are_not_claimed_to_be_protected() {
    let mut case = Case::new();
    let path = format!("{}/.envrc", case.project.display());
    case.found.footholds = vec![foothold(&path, false)];
    case.kernel.user_namespace = refused("operation not permitted");
    case.policy.floor = flag(Floor::Landlock, "--floor");
    case.policy.project = flag(ProjectGuard::Unprotected, "project");
    let plan = case.plan();
    assert_eq!(shown(&plan, &path), None);
    assert!(!plan.protects_footholds() && plan.writable_project().is_some());
    assert!(explain(&plan, false).contains("those that are there are not protected"));
}

#[test]
fn what_is_opened_of_the_kernel_is_named_and_so_is_what_keeps_it_useless() {
    let surface = |plan: &Plan| {
        let kept = plan.promises.iter().find(|kept| kept.promise.name() == "kernel-surface");
        kept.map(|kept| format!("{:?}", kept.held)).unwrap_or_default()
    };
    let mut case = Case::new();
    assert!(!surface(&case.plan()).contains("open"));
    case.policy.allow = vec![flag(Allowance::Ptrace, "--allow")];
    let plan = case.plan();
    assert!(surface(&plan).contains("ptrace is open for the cage's own processes (--allow)"));
    assert_eq!(plan.view.warnings, []);
    case.kernel.tracing = refused("kernel.yama.ptrace_scope is 2");
    let warnings = case.plan().view.warnings;
    assert_eq!(warnings[0].fact, "debuggers cannot work here: kernel.yama.ptrace_scope is 2");
    // Where nobody wants to debug, that is no news.
    case.policy.allow.clear();
    assert_eq!(case.plan().view.warnings, []);
}

fn for_a_session() -> Case {
    Case { purpose: Purpose::Session, ..Case::new() }
}

/// What a session is refused, by its fact, although a single command is given it.
#[track_caller]
fn refused_to_a_session(change: impl Fn(&mut Case), fact: &str) {
    let (mut command, mut session) = (Case::new(), for_a_session());
    change(&mut command);
    change(&mut session);
    command.plan();
    let refusal = session.decide().unwrap_err();
    assert_eq!((refusal.kind, refusal.rule.as_str()), (RefusalKind::Policy, "session"));
    assert!(refusal.fact.starts_with(fact), "{}", refusal.fact);
}

#[test]
fn a_session_is_refused_what_its_shared_cage_cannot_keep() {
    refused_to_a_session(
        |case| {
            case.kernel.user_namespace = refused("operation not permitted");
            case.policy.floor = flag(Floor::Landlock, "--floor");
        },
        "a session needs namespaces",
    );
    refused_to_a_session(
        |case| case.policy.protect = flag(Protect::Strict, "--protect"),
        "a session cannot prevent new footholds",
    );
    refused_to_a_session(
        |case| {
            let from = Reference::parse("store://github").unwrap();
            let name = SecretName::parse("github").unwrap();
            case.policy.known_secrets = vec![Entry {
                name,
                from,
                to: Vec::new(),
                places: Vec::new(),
                aws: None,
                variable: None,
                created: None,
            }];
            case.policy.secrets = vec![flag(Grant::parse("github=fd").unwrap(), "--secret")];
        },
        "secrets are delivered only to single-command cages",
    );
    refused_to_a_session(
        |case| case.policy.limits.output = Some(flag(1 << 20, "limits.output")),
        "a session cannot limit the output of its commands",
    );
}

#[test]
fn the_time_of_a_session_is_that_of_each_command_and_no_limit_of_its_cage() {
    let mut case = for_a_session();
    case.policy.limits.wall = Some(flag(Duration::from_secs(30), "--timeout"));
    case.policy.limits.cpu = Some(flag(Duration::from_secs(9), "--cpu"));
    let kinds: Vec<LimitKind> = case.plan().limits.iter().map(|limit| limit.what).collect();
    assert!(!kinds.iter().any(|kind| matches!(kind, LimitKind::Wall(_))), "{kinds:?}");
    assert!(kinds.contains(&LimitKind::Cpu(Duration::from_secs(9))), "{kinds:?}");
    case.purpose = Purpose::Command;
    assert!(case.plan().limits.iter().any(|limit| matches!(limit.what, LimitKind::Wall(_))));
}

#[test]
fn apart_from_that_a_session_gets_the_cage_of_a_command() {
    let mut plan = for_a_session().plan();
    // Any of its commands may be an interactive shell, which says in its prompt that it is in a cage.
    let (shells, others): (Vec<view::Entry>, Vec<view::Entry>) =
        plan.view.entries.into_iter().partition(|entry| ["bash", "zsh"].contains(&entry.rule));
    let names: Vec<&Path> = shells.iter().map(|entry| entry.target.as_path()).collect();
    assert_eq!(names, [Path::new("/home/ada/.bashrc"), Path::new("/home/ada/.zshrc")]);
    plan.view.entries = others;
    assert_eq!(plan, Case::new().plan());
}

#[test]
fn without_mounts_a_copy_of_ours_that_can_be_written_is_a_refusal() {
    let mut case = Case::new();
    case.kernel.user_namespace = refused("operation not permitted");
    case.policy.floor = flag(Floor::Landlock, "--floor");
    case.policy.project = flag(ProjectGuard::Unprotected, "--project");
    assert!(case.decide().is_ok(), "control");
    case.found.footholds = vec![foothold("/home/ada/work/node_modules/keyward", true)];
    let refusal = case.decide().unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::Floor);
    assert!(refusal.fact.contains("could replace /home/ada/work/node_modules/keyward"), "{}", refusal.fact);
}

#[test]
fn the_launcher_that_runs_is_read_only_in_the_project_and_its_directory_cannot_be_moved() {
    let mut case = Case::new();
    case.programs = vec!["/home/ada/work/tools/keyward".into()];
    case.file("/home/ada/work/tools/keyward");
    let plan = case.decide().unwrap();
    let entry = plan.view.entries.iter().find(|entry| entry.rule == OWN_PROGRAM).unwrap();
    assert_eq!(entry.target, Path::new("/home/ada/work/tools/keyward"));
    let acts = acts(&plan);
    let pinned =
        |act: &acts::Act| matches!(act, acts::Act::Pin { at } if at == Path::new("/home/ada/work/tools"));
    assert!(acts.iter().any(pinned), "{acts:?}");
}
