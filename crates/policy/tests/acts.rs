//! What is done to build a cage: plans in, whole lists of acts compared. The launcher does these and nothing else.
#![allow(clippy::unwrap_used, clippy::panic)]

mod case;

use case::{Case, flag, refused};
use keyward_policy::explain::steps;
use keyward_policy::facts::{Foothold, Kind, PathFact, SecretFile, Standing};
use keyward_policy::linux::acts::{Act, To, acts, outlets};
use keyward_policy::words::{Floor, NetMode, Origin, ProjectGuard, Protect, Ruled};
use std::path::{Path, PathBuf};

fn list(case: &Case) -> String {
    steps(&acts(&case.plan()))
}

fn place(acts: &[Act], is: impl Fn(&Act) -> bool) -> usize {
    acts.iter().position(is).unwrap_or_else(|| panic!("no such act in {acts:#?}"))
}

#[test]
fn the_acts_of_a_plain_run() {
    insta::assert_snapshot!(list(&Case::new()));
}

#[test]
fn the_acts_of_a_run_as_root() {
    insta::assert_snapshot!(list(&Case::root()));
}

#[test]
fn the_acts_where_a_fresh_proc_is_refused() {
    let mut case = Case::new();
    case.kernel.fresh_proc = refused("operation not permitted");
    case.policy.floor = flag(Floor::Landlock, "--floor");
    insta::assert_snapshot!(list(&case));
}

#[test]
fn the_acts_without_namespaces_close_what_is_hidden_one_by_one() {
    let mut case = Case::new();
    case.kernel.user_namespace = refused("operation not permitted");
    case.policy.floor = flag(Floor::Landlock, "--floor");
    case.policy.project = flag(ProjectGuard::Unprotected, "--project");
    case.folder("/srv/data").folder("/srv/data/keys");
    case.policy.files.read = vec![flag("/srv/data".into(), "--read")];
    case.policy.files.hide = vec![flag("/srv/data/keys".into(), "--hide")];
    insta::assert_snapshot!(list(&case));
}

#[test]
fn the_acts_with_an_open_network_and_a_terminal() {
    let mut case = Case::new();
    case.policy.net = flag(NetMode::Open, "--net");
    case.terminals = [true, true, false];
    insta::assert_snapshot!(list(&case));
}

#[test]
fn the_acts_with_strict_protection() {
    let mut case = Case::new();
    case.policy.protect = flag(Protect::Strict, "--protect");
    insta::assert_snapshot!(list(&case));
}

/// A secret file, and a foothold in a directory of the project.
fn with_something_to_protect() -> Case {
    let mut case = Case::new();
    let secret = PathBuf::from("/home/ada/work/deep/down/.env");
    case.found.secrets = vec![SecretFile {
        named: secret.clone(),
        path: secret,
        directory: false,
        reads_as: b"TOKEN=\n".to_vec(),
    }];
    case.found.footholds = vec![Foothold {
        path: "/home/ada/work/sub/.envrc".into(),
        is: Standing::Thing { directory: false, device: 1, inode: 7 },
    }];
    case
}

#[test]
fn the_acts_that_protect_a_project() {
    insta::assert_snapshot!(list(&with_something_to_protect()));
}

#[test]
fn directories_above_a_mask_are_pinned_before_it_and_masks_come_last() {
    let acts = acts(&with_something_to_protect().plan());
    let at = |path: &str| PathBuf::from(path);
    let pinned = |path: &'static str| place(&acts, move |act| *act == Act::Pin { at: at(path) });
    let mask = place(&acts, |act| matches!(act, Act::Mask { .. }));
    assert!(pinned("/home/ada/work/deep") < pinned("/home/ada/work/deep/down"));
    assert!(pinned("/home/ada/work/deep/down") < mask);
    let last_bind = acts.iter().rposition(|act| matches!(act, Act::Bind(_))).unwrap();
    let pivot = place(&acts, |act| *act == Act::Pivot);
    assert!(last_bind < mask && mask < pivot);
}

#[test]
fn the_order_of_the_walls_is_the_same_in_every_cage() {
    let mut strict = Case::new();
    strict.policy.protect = flag(Protect::Strict, "--protect");
    for case in [Case::new(), Case::root(), with_something_to_protect(), strict] {
        let acts = acts(&case.plan());
        let order = [
            place(&acts, |act| *act == Act::Namespaces),
            place(&acts, |act| matches!(act, Act::Identity { .. })),
            place(&acts, |act| matches!(act, Act::Root { .. })),
            place(&acts, |act| *act == Act::Pivot),
            // A domain that was entered would forbid the pivot; made before it, its paths would be those of the old root.
            place(&acts, |act| matches!(act, Act::Landlock(_))),
            place(&acts, |act| *act == Act::Capabilities),
            place(&acts, |act| matches!(act, Act::Limits { .. })),
            place(&acts, |act| *act == Act::EnterDomain),
            place(&acts, |act| *act == Act::CloseDescriptors),
            place(&acts, |act| matches!(act, Act::Seccomp { .. })),
            place(&acts, |act| matches!(act, Act::Execute { .. })),
        ];
        assert!(order.is_sorted(), "{order:?}");
        assert_eq!(order.last(), Some(&(acts.len() - 1)));
    }
}

#[test]
fn what_is_put_into_a_tree_of_the_host_follows_no_link() {
    let mut case = with_something_to_protect();
    case.folder("/home/ada/work/data");
    case.policy.files.write = vec![flag("/home/ada/work/data".into(), "--write")];
    let binds = acts(&case.plan());
    let binds = binds.iter().filter_map(|act| match act {
        Act::Bind(bind) => Some(bind),
        _ => None,
    });
    for bind in binds {
        let inside = bind.at.starts_with("/home/ada/work") && bind.at != Path::new("/home/ada/work");
        assert_eq!(bind.foreign, inside, "{bind}");
    }
}

#[test]
fn an_outlet_is_a_row_of_the_plan_and_an_act() {
    let plan = Case::new().plan();
    let to: Vec<To> = outlets(&plan).iter().map(|outlet| outlet.to).collect();
    assert_eq!(to, [To::Lookups]);
    let acts = acts(&plan);
    let entered = place(&acts, |act| *act == Act::EnterNetwork);
    assert!(
        entered < place(&acts, |act| matches!(act, Act::Outlet(_))),
        "it listens in the cage's own network"
    );
    let mut open = Case::new();
    open.policy.net = flag(NetMode::Open, "--net");
    assert!(outlets(&open.plan()).is_empty());
}

#[test]
fn a_link_in_the_callers_way_is_a_link_in_the_cage() {
    let mut case = Case::new();
    let link = PathFact {
        link: Some("/srv/data".into()),
        real: "/srv/data".into(),
        ..case::fact("/home/ada/data", Kind::Directory)
    };
    case.paths.push(("/home/ada/data".into(), link));
    case.policy.files.read = vec![Ruled { value: "~/data".into(), origin: Origin::Flag { flag: "--read" } }];
    let acts = acts(&case.plan());
    let link = Act::Link { at: "/home/ada/data".into(), to: "/srv/data".into() };
    let bind = place(&acts, |act| matches!(act, Act::Bind(bind) if bind.at == Path::new("/srv/data")));
    assert!(acts.contains(&link) && bind > 0);
}
