//! `keyward why read|write|exec PATH`: which entry of the view decides about a path, where it comes from, and what would change it.

use crate::detect::Directory;
use crate::detect::footholds::{guarded, guarded_above};
use crate::detect::secrets::secret_file;
use crate::detect::strict;
use crate::plan::Plan;
use crate::text::{typed, visible};
use crate::view::{Entry, FOOTHOLD, INSTALL_ELSEWHERE, OWN_PROGRAM, SECRET_FILE, Shown, covering};
use crate::words::{Origin, Protect};
use serde::Serialize;
use std::fmt;
use std::path::Path;

/// What the question is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Act {
    Read,
    Write,
    Exec,
}

/// The decision about one path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Decision {
    pub act: Act,
    pub path: String,
    pub allowed: bool,
    /// What stands at the path in the cage.
    pub because: String,
    pub rule: &'static str,
    pub origin: Origin,
    /// The flag, and the line of policy, that would change it.
    pub remedy: Option<String>,
}

/// Decides about a path whose links have been followed.
pub fn why(plan: &Plan, act: Act, path: &Path) -> Decision {
    let entry = decisive(plan, path);
    if let (Act::Write, Some(Entry { target, shown: Shown::Writable(_), .. })) = (act, entry)
        && let Ok(below) = path.strip_prefix(target)
        && below.iter().any(strict::is_forbidden)
    {
        return foothold(plan, path);
    }
    let (allowed, because) = match entry.map(|entry| &entry.shown) {
        None => (false, "it does not exist in the cage"),
        Some(Shown::Hidden { reads_as: None, .. }) => (false, "it is hidden"),
        Some(Shown::Hidden { directory: true, .. }) => {
            (false, "it is hidden: an empty directory is in its place")
        }
        Some(Shown::Hidden { reads_as: Some(text), .. }) if text.is_empty() => {
            (false, "it is hidden: an empty file is in its place, read-only")
        }
        Some(Shown::Hidden { .. }) => {
            (false, "it is hidden: its text without the credentials is in its place, read-only")
        }
        Some(Shown::ReadOnly(_)) => (act != Act::Write, "it is there, read-only"),
        Some(Shown::Writable(_)) => (true, "it is there, writable"),
        Some(Shown::Repository { .. }) => (
            true,
            "it belongs to a repository: of what is written there, only what git runs nothing for reaches the host",
        ),
        Some(Shown::Layer(_)) => (true, "it is there; what is changed is gone with the cage"),
        Some(Shown::Copied { through: true, .. }) => {
            (true, "it is there; what is changed reaches the real one")
        }
        Some(Shown::Copied { through: false, .. }) => {
            (true, "a copy of it is there; what is changed is gone with the cage")
        }
        Some(Shown::Login { .. }) => (
            true,
            "it is there with phantoms in its secret fields, which the proxy replaces; what is written there is gone with the cage",
        ),
        Some(Shown::Text { .. }) => (true, "it is a file of the cage's own, gone with the cage"),
        Some(Shown::Cache { .. }) => (true, "it is a cache of keyward's, writable"),
        Some(Shown::Private { .. }) if entry.is_some_and(|entry| entry.target == path) => {
            (true, "it is a directory of the cage's own, empty at the start and gone with the cage")
        }
        Some(Shown::Private { .. }) if act == Act::Write => (
            true,
            "the host's file is not there; the place is the cage's own, empty at the start and gone with the cage",
        ),
        Some(Shown::Private { .. }) => {
            (false, "the host's file is not there; the place is the cage's own, empty at the start")
        }
        Some(Shown::FreshProc | Shown::SharedProc) => (act == Act::Read, "/proc is read-only"),
        Some(Shown::Device) => (act != Act::Exec, "it is a device"),
        Some(Shown::Terminals) => (act != Act::Exec, "it holds the cage's own terminals"),
        Some(Shown::Queues) => (act != Act::Exec, "it holds the cage's own message queues"),
        Some(Shown::Link { .. }) => (act != Act::Write, "it is a link of the cage's own"),
    };
    let because = match entry {
        Some(entry) if entry.rule == FOOTHOLD => format!("{because}{}", obeyed(entry)),
        Some(entry) if entry.rule == OWN_PROGRAM => {
            format!("{because}, because what replaces it would run outside of every cage")
        }
        _ => format!("{because}{}", hidden_below(plan, path)),
    };
    let remedy = (!allowed).then(|| remedy(plan, entry, act, path)).flatten();
    Decision {
        act,
        path: visible(path.as_os_str()),
        allowed,
        because,
        rule: entry.map_or("not granted", |entry| entry.rule),
        origin: entry.map_or(Origin::Builtin, |entry| entry.origin.clone()),
        remedy,
    }
}

/// About a path in a HOME that is kept, which does not have it.
pub fn absent(plan: &Plan, act: Act, path: &Path) -> Decision {
    let entry = decisive(plan, path);
    Decision {
        act,
        path: visible(path.as_os_str()),
        allowed: false,
        because: "the HOME of this run does not have it, and yours is not shown".into(),
        rule: entry.map_or("not granted", |entry| entry.rule),
        origin: entry.map_or(Origin::Builtin, |entry| entry.origin.clone()),
        remedy: remedy(plan, entry, act, path),
    }
}

/// About a name that is, or leads through, a foothold in a writable folder of the host.
fn foothold(plan: &Plan, path: &Path) -> Decision {
    let granted = plan
        .view
        .project
        .as_ref()
        .and_then(|project| Some(project.join(guarded_above(path.strip_prefix(project).ok()?)?)));
    let (because, remedy) = match plan.protect.value {
        Protect::Strict => (
            "nothing new of this name can be made there",
            Some(format!("`--protect {0}`, or `files.protect = \"{0}\"`", Protect::Notice)),
        ),
        Protect::Notice => (
            "it is there, writable; but a new one of this name is taken away when it is noticed",
            granted.map(|foothold| grant_to_write(&foothold)),
        ),
    };
    Decision {
        act: Act::Write,
        path: visible(path.as_os_str()),
        allowed: plan.protect.value == Protect::Notice,
        because: because.into(),
        rule: "foothold, by files.protect",
        origin: plan.protect.origin.clone(),
        remedy,
    }
}

/// The last mask above the path, or else the nearest entry.
fn decisive<'a>(plan: &'a Plan, path: &Path) -> Option<&'a Entry> {
    let masked = plan
        .view
        .entries
        .iter()
        .rev()
        .find(|entry| matches!(entry.shown, Shown::Hidden { .. }) && path.starts_with(&entry.target));
    masked.or_else(|| covering(&plan.view.entries, path))
}

/// What a grant of a directory does not show.
fn hidden_below(plan: &Plan, path: &Path) -> String {
    let is_below =
        |entry: &&Entry| entry.rule == SECRET_FILE && entry.target != path && entry.target.starts_with(path);
    match plan.view.entries.iter().filter(is_below).count() {
        0 => String::new(),
        1 => "; 1 secret file in it is hidden".into(),
        count => format!("; {count} secret files in it are hidden"),
    }
}

/// Why a foothold is kept as it is. One that is only what a link leads to has no name of its own that tells.
fn obeyed(foothold: &Entry) -> String {
    match foothold.target.file_name().and_then(guarded) {
        Some(by) => format!(", because it is read by {by} outside the cage"),
        None => ", because a link makes programs outside the cage read it".into(),
    }
}

fn remedy(plan: &Plan, entry: Option<&Entry>, act: Act, path: &Path) -> Option<String> {
    let secret = secret_file(path, &[&plan.view.home.at]);
    let in_directory = Directory::new(path, &[&plan.view.home.at]).holds();
    // A foothold is granted as a whole, so that what is not there yet can be made in it.
    let granted = entry.filter(|entry| entry.rule == FOOTHOLD).map_or(path, |entry| &entry.target);
    let path = visible(granted.as_os_str());
    let flag = typed(&path);
    match entry {
        Some(entry) if matches!(entry.shown, Shown::Hidden { .. }) => match &entry.origin {
            Origin::Builtin if entry.rule == SECRET_FILE => {
                Some(format!("if it is not a secret, `--show {flag}`, or `files.show = [\"{path}\"]`"))
            }
            Origin::Builtin => None,
            origin => Some(format!("remove it from files.hide ({origin})")),
        },
        Some(Entry {
            shown: Shown::FreshProc | Shown::SharedProc | Shown::Device | Shown::Terminals | Shown::Queues,
            ..
        }) => None,
        Some(Entry { rule: OWN_PROGRAM, .. }) if act == Act::Write => Some(INSTALL_ELSEWHERE.into()),
        _ if act == Act::Write => Some(grant_to_write(granted)),
        _ => {
            let grant = format!("`--read {flag}`, or `files.read = [\"{path}\"]`");
            Some(match (secret, in_directory) {
                (Some(secret), _) => {
                    format!("it holds {}: only for a program that you trust with it, {grant}", secret.holds)
                }
                (None, Some(holds)) => {
                    format!("{grant}; it holds {holds}, which stay hidden unless you name a file itself")
                }
                (None, None) => grant,
            })
        }
    }
}

fn grant_to_write(path: &Path) -> String {
    let path = visible(path.as_os_str());
    format!("`--write {}`, or `files.write = [\"{path}\"]`", typed(&path))
}

/// Corrects what would change a decision: a grant is for what exists. `nearest` is what exists outside, at the path or above it.
pub fn among_what_exists(plan: &Plan, decision: Decision, path: &Path, nearest: &Path) -> Decision {
    let entry = decisive(plan, path);
    let is_private = entry.is_some_and(|entry| matches!(entry.shown, Shown::Private { .. }));
    let writes_in_vain =
        decision.act == Act::Write && is_private && entry.is_some_and(|it| it.target != path);
    let is_granted_by_name = decision.rule.contains("foothold");
    if is_granted_by_name || !writes_in_vain && (decision.remedy.is_none() || nearest == path) {
        return decision;
    }
    let can_be_granted = |place: &Path| {
        !plan.view.home.at.starts_with(place) && !entry.is_some_and(|it| is_private && it.target == place)
    };
    let remedy = match decision.act {
        Act::Write if can_be_granted(nearest) => grant_to_write(nearest),
        Act::Write => "grant a directory of your own: `--write DIR`, or `files.write = [\"DIR\"]`".into(),
        Act::Read | Act::Exec => "nothing is there outside either; a grant is for what exists".into(),
    };
    Decision { remedy: Some(remedy), ..decision }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = match self.act {
            Act::Read => "read",
            Act::Write => "written",
            Act::Exec => "executed",
        };
        let can = if self.allowed { "can" } else { "cannot" };
        writeln!(f, "{} {can} be {verb}: {}", self.path, self.because)?;
        write!(f, "rule: {} ({})", self.rule, self.origin)?;
        match (&self.remedy, self.allowed) {
            (Some(remedy), _) => write!(f, "\nto change it: {remedy}"),
            (None, false) => write!(f, "\nnothing in a policy changes this"),
            (None, true) => Ok(()),
        }
    }
}
