//! `keyward doctor`: what this host can do, found by doing it, which promises hold, and the exact fix.

pub mod agents;
mod asking;
mod network;

use crate::args::{DoctorArgs, PolicyFlags};
use crate::explain::NoPlan;
use crate::files;
use crate::{decide, here, run, say, services};
use keyward_launch::probe;
use keyward_ledger::{Record, Unrecorded};
use keyward_policy::linux::kernel::{Fact, KernelFacts};
use keyward_policy::outcome::code;
use keyward_policy::plan::{Plan, Refusal};
use keyward_policy::promise::Held;
use keyward_policy::settings::Policy;
use keyward_policy::trouble::{Code, Trouble};
use keyward_policy::words::{Floor, Ruled};
use keyward_project as project;
use keyward_project::quarantine::Quarantine;
use keyward_sys::environ::Block;
use keyward_vault::source::{Limits, Surroundings};
use keyward_vault::store::Store;
use serde::Serialize;
use std::path::Path;
use std::process::Command;

#[derive(Serialize)]
struct Findings<'a> {
    v: u32,
    kernel: String,
    facts: &'a KernelFacts,
    floors: Vec<FloorFinding>,
    fixes: &'a [Fix],
    quarantine: &'a Kept,
    gate: &'a asking::Asking,
    services: &'a services::Checked,
    /// Whether a cage whose network follows rules can be made here.
    network_rules: &'a network::Rules,
    /// Why every run in this directory would be refused, whatever the host can do.
    refused: Option<&'a Refused>,
}

/// What is wrong with this user's own files, and what to do about it.
#[derive(Serialize)]
struct Refused(Trouble);

impl Refused {
    /// Looks at what every run needs: a policy that can be read, and a record that can be written.
    fn look(here: &here::Here) -> Option<Self> {
        if let Err(trouble) = files::policy(&PolicyFlags::default(), here, &[]) {
            return Some(Refused(trouble));
        }
        let unrecorded = Record::open(&here.state).err().or_else(|| no_room(&here.state))?;
        Some(Refused(run::tell::unrecorded(&unrecorded)))
    }
}

/// Why the state directory takes nothing more. A run writes more than this at once.
fn no_room(state: &Path) -> Option<Unrecorded> {
    const LITTLE: [u8; 8192] = [0; 8192];
    let path = state.join(format!(".room-{}", std::process::id()));
    let written = std::fs::write(&path, LITTLE);
    let _ = std::fs::remove_file(&path);
    written.err().map(|cause| Unrecorded { path: state.into(), cause })
}

/// What Keyward holds of projects.
#[derive(Serialize)]
struct Kept {
    entries: usize,
    bytes: u64,
    /// Commands that are at work now, by their journals.
    at_work: usize,
    /// Runs that were killed, and finished just now.
    recovered: usize,
}

#[derive(Serialize)]
struct FloorFinding {
    floor: Floor,
    available: bool,
    /// Why not, or what falls away.
    notes: Vec<String>,
}

/// Something a person can do about a fact.
#[derive(Serialize)]
struct Fix {
    problem: &'static str,
    /// Commands, or a line of prose.
    steps: Vec<String>,
    #[serde(skip)]
    apply: Option<Apply>,
}

/// A fix that we can carry out ourselves.
enum Apply {
    AppArmor { profile: String },
}

/// Shows the findings; the exit code says whether the floor `full` is available, and whether a run here would start at all.
pub fn doctor(args: DoctorArgs, block: &Block) -> i32 {
    let environment = block.entries();
    let here = match here::look(&environment, here::instead_of_one_that_is_gone()) {
        Ok(here) => here,
        Err(refusal) => return NoPlan::Refused(refusal).tell(args.json),
    };
    let facts = probe::probe(&here.project, &here.caller.cache);
    let request = decide::request(vec!["true".into()], &here, &environment);
    let at = |floor: Floor| {
        let policy = Policy { floor: Ruled::builtin(floor), ..Policy::default() };
        decide::decide(&policy, &request, facts.clone(), &here)
    };
    let floors = vec![finding(Floor::Full, at(Floor::Full)), finding(Floor::Landlock, at(Floor::Landlock))];
    let full = floors[0].available;
    let fixes = fixes(&facts);
    let kept = kept(&here, args.json);
    let asking = asking::look(&here);
    let services = services::check();
    let network_rules = network::look(&facts, &request, &here);
    let refused = Refused::look(&here);
    if args.json {
        let kernel = kernel();
        let (facts, fixes, quarantine, gate, services) = (&facts, &fixes, &kept, &asking, &services);
        let (network_rules, refused) = (&network_rules, refused.as_ref());
        say::answer_json(&Findings {
            v: 1,
            kernel,
            facts,
            floors,
            fixes,
            quarantine,
            gate,
            services,
            network_rules,
            refused,
        });
    } else {
        say::answer(&report(&facts, &floors, &fixes, args.fix));
        say::answer(&kept.line());
        say::answer(&secrets(&here));
        say::answer(&asking.lines());
        say::answer(&services.line());
        say::answer(&network_rules.line());
        if let Some(Refused(Trouble { fact, remedy, .. })) = &refused {
            say::trouble(&format!("every run in this directory is refused: {fact}"), remedy);
        }
    }
    if args.apply {
        return fixes.iter().filter_map(|fix| fix.apply.as_ref()).map(apply).max().unwrap_or(0);
    }
    match refused {
        _ if !full => code::FLOOR,
        Some(Refused(trouble)) => trouble.exit(),
        None => 0,
    }
}

/// Finishes what killed runs have left, and counts what there is.
fn kept(here: &here::Here, quiet: bool) -> Kept {
    let recovered = project::recover_all(&here.state);
    recovered.iter().for_each(|recovered| run::tell::recovered(here, recovered, quiet));
    let quarantine = Quarantine::new(&here.state);
    Kept {
        entries: quarantine.list().len(),
        bytes: quarantine.size(),
        at_work: project::at_work(&here.state),
        recovered: recovered.len(),
    }
}

/// Which secrets there are, and where the key of the store lies.
fn secrets(here: &here::Here) -> String {
    let known = match files::secrets(here) {
        Ok(known) => known.len(),
        Err(_) => return "secrets: their list cannot be read; `keyward secret list` says why".to_owned(),
    };
    let surroundings = Surroundings {
        home: &here.caller.home,
        store: &here.store,
        variable: &|_| None,
        terminal: None,
        limits: Limits::default(),
    };
    let store = match Store::new(&surroundings).kind() {
        Ok(None) => "no store yet".to_owned(),
        Ok(Some(kind)) => format!("a store whose key is in: {}", kind.word()),
        Err(error) => error.to_string().lines().next().unwrap_or_default().to_owned(),
    };
    format!("secrets: {known} known, {store}")
}

impl Kept {
    fn line(&self) -> String {
        let Kept { entries, bytes, at_work, recovered } = self;
        let noun = if *entries == 1 { "entry" } else { "entries" };
        let held = match entries {
            0 => "empty".to_owned(),
            _ => format!(
                "{entries} {noun} taken out of projects, {bytes} bytes; `keyward quarantine list` shows them"
            ),
        };
        format!(
            "quarantine: {held}\nruns: {at_work} active now; cleaned up just now after a kill: {recovered}"
        )
    }
}

fn kernel() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

fn finding(floor: Floor, decided: Result<Plan, Refusal>) -> FloorFinding {
    match decided {
        Ok(plan) => FloorFinding {
            floor,
            available: true,
            notes: plan
                .promises
                .iter()
                .filter_map(|kept| match &kept.held {
                    Held::Gone { because } => {
                        Some(format!("falls away: {} ({because})", kept.promise.text()))
                    }
                    _ => None,
                })
                .collect(),
        },
        Err(refusal) => FloorFinding { floor, available: false, notes: vec![refusal.fact] },
    }
}

fn report(facts: &KernelFacts, floors: &[FloorFinding], fixes: &[Fix], details: bool) -> String {
    let mut lines = vec![format!("kernel {}", kernel())];
    let landlock = match facts.landlock_abi {
        0 => Fact::Refused { why: "this kernel has none".into() },
        _ => Fact::Holds,
    };
    let rows = [
        ("user namespace", &facts.user_namespace),
        ("mounts", &facts.mounts),
        ("fresh /proc", &facts.fresh_proc),
        ("network namespace", &facts.network_namespace),
        ("landlock", &landlock),
        ("seccomp", &facts.seccomp),
        ("notification", &facts.notification),
        ("overlay", &facts.overlay),
        ("mapped owners", &facts.mapped_owners),
        ("inotify limits", &facts.inotify),
    ];
    for (name, fact) in rows {
        let found = match fact {
            Fact::Holds if name == "landlock" => format!("yes   ABI {}", facts.landlock_abi),
            Fact::Holds => "yes".into(),
            Fact::Refused { why } => format!("no    {why}"),
        };
        lines.push(format!("  {name:<18} {found}"));
    }
    let cgroup = facts.cgroup.as_ref().map_or_else(
        || "no    none with memory and pids is delegated to you; limits are kept by rlimits".into(),
        |cgroup| format!("yes   {}", cgroup.path.display()),
    );
    lines.push(format!("  {:<18} {cgroup}", "cgroup v2"));
    for floor in floors {
        let word = if floor.available { "available" } else { "not available" };
        lines.push(format!("floor {}: {word}", floor.floor));
        lines.extend(floor.notes.iter().map(|note| format!("  {note}")));
    }
    for fix in fixes {
        lines.push(format!("fix: {}", fix.problem));
        lines.extend(fix.steps.iter().map(|step| format!("  {step}")));
        match (&fix.apply, details) {
            (Some(Apply::AppArmor { profile }), true) => {
                lines.push(format!("  {APPARMOR_PROFILE}:"));
                lines.extend(profile.lines().map(|line| format!("    {line}")));
            }
            (Some(_), false) => {
                lines.push("  `keyward doctor --fix` shows it, `--fix --apply` does it".into())
            }
            (None, _) => {}
        }
    }
    lines.join("\n")
}

const APPARMOR_PROFILE: &str = "/etc/apparmor.d/keyward";
/// Where root's programs are: what runs as root is not looked for in the caller's PATH.
const ROOT_PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

fn setting(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

fn fixes(facts: &KernelFacts) -> Vec<Fix> {
    let mut fixes = Vec::new();
    let plain = |problem: &'static str, steps: &[&str]| Fix {
        problem,
        steps: steps.iter().map(|&step| step.to_owned()).collect(),
        apply: None,
    };
    if !facts.user_namespace.holds() || !facts.mounts.holds() {
        if setting("/proc/sys/kernel/apparmor_restrict_unprivileged_userns").as_deref() == Some("1") {
            fixes.push(apparmor());
        } else if setting("/proc/sys/kernel/unprivileged_userns_clone").as_deref() == Some("0") {
            fixes.push(plain(
                "this kernel lets only root make user namespaces",
                &["sudo sysctl -w kernel.unprivileged_userns_clone=1"],
            ));
        } else if setting("/proc/sys/user/max_user_namespaces").as_deref() == Some("0") {
            fixes.push(plain(
                "the number of user namespaces is limited to 0",
                &["sudo sysctl -w user.max_user_namespaces=10000"],
            ));
        } else {
            fixes.push(plain(
                "something around us (a container, a seccomp filter, SELinux) refuses user namespaces",
                &["run keyward outside of it, or allow `unshare` and `mount` there; or accept `--floor landlock`"],
            ));
        }
    } else if !facts.fresh_proc.holds() {
        fixes.push(plain(
            "the container covers parts of /proc, so the kernel refuses a fresh one",
            &[
                "docker run --security-opt systempaths=unconfined …",
                "podman run --security-opt unmask=ALL …",
                "in Kubernetes: securityContext.procMount: Unmasked, with hostUsers: false",
            ],
        ));
    }
    if facts.landlock_abi == 0 {
        fixes.push(plain(
            "Landlock is not active",
            &["add `landlock` to the `lsm=` list of the kernel command line, or use Linux 5.13 or newer built with it"],
        ));
    }
    fixes
}

/// Ubuntu's restriction is lifted for this one program, and not for the machine.
fn apparmor() -> Fix {
    let program = std::env::current_exe().unwrap_or_else(|_| "/usr/local/bin/keyward".into());
    let profile = format!(
        "abi <abi/4.0>,\ninclude <tunables/global>\n\nprofile keyward \"{}\" flags=(unconfined) {{\n  userns,\n}}\n",
        program.display()
    );
    Fix {
        problem: "AppArmor lets only programs with a profile make user namespaces",
        steps: vec![format!("a profile for keyward alone, then: sudo apparmor_parser -r {APPARMOR_PROFILE}")],
        apply: Some(Apply::AppArmor { profile }),
    }
}

fn apply(fix: &Apply) -> i32 {
    let Apply::AppArmor { profile } = fix;
    let folder = Path::new(APPARMOR_PROFILE).parent().unwrap_or(Path::new("/"));
    if !folder.is_dir() {
        return say::failure(&Trouble::new(
            Code::File,
            format!("cannot write {APPARMOR_PROFILE}: there is no AppArmor here"),
            "nothing has to be applied",
        ));
    }
    if let Err(error) = std::fs::write(APPARMOR_PROFILE, profile) {
        return say::failure(&Trouble::new(
            Code::File,
            format!("cannot write {APPARMOR_PROFILE}: {}", say::cause(&error)),
            "run it as root: `sudo keyward doctor --fix --apply`",
        ));
    }
    let mut parser = Command::new("apparmor_parser");
    parser.arg("-r").arg(APPARMOR_PROFILE).env_clear().env("PATH", ROOT_PATH);
    match parser.status() {
        Ok(status) if status.success() => {
            say::note(&format!("wrote and loaded {APPARMOR_PROFILE}"));
            0
        }
        _ => say::failure(&Trouble::new(
            Code::File,
            "apparmor_parser did not take the profile",
            "look at its message above; the profile stays in place",
        )),
    }
}
