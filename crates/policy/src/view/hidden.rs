//! What is hidden of that which is shown: secrets of the system and of toolchains, logins that are not shown, Keyward's own folders, what the
//! user names, and files of the project that look secret.

use super::places::{KEYS_FILE, SYSTEM_SECRETS};
use super::{
    Builder, Entry, Home, OTHER_LOGIN, SECRET_FILE, Shown, UNSEARCHED, Warning, at_or_below, covering,
    expand, home,
};
use crate::facts::{HostFacts, Kind, SecretFile};
use crate::plan::Refusal;
use crate::request::Request;
use crate::settings::Policy;
use crate::text::{typed, visible};
use crate::toolchains::TOOLCHAINS;
use crate::untrusted::git::names;
use crate::words::Origin;
use std::cell::RefCell;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Whether an entry of `files.hide` is a pattern of names and not a path.
pub fn is_pattern(path: &Path) -> bool {
    let text = path.as_os_str().as_bytes();
    !text.contains(&b'/') && text.iter().any(|byte| b"*?".contains(byte))
}

/// Whether a name fits a pattern of `*` (any bytes) and `?` (one byte).
pub fn fits(name: &[u8], pattern: &[u8]) -> bool {
    // The last star that was met, and where its text may go on: enough, because a later star never has to give back.
    let (mut at, mut in_pattern, mut star) = (0, 0, None);
    while at < name.len() {
        match pattern.get(in_pattern) {
            Some(b'*') => {
                star = Some((in_pattern, at));
                in_pattern += 1;
            }
            Some(&byte) if byte == b'?' || byte.eq_ignore_ascii_case(&name[at]) => {
                at += 1;
                in_pattern += 1;
            }
            _ => match star {
                Some((place, taken)) => {
                    star = Some((place, taken + 1));
                    (in_pattern, at) = (place + 1, taken + 1);
                }
                None => return false,
            },
        }
    }
    pattern[in_pattern..].iter().all(|&byte| byte == b'*')
}

/// The paths that the user hides, each with the place that says so.
pub(super) fn targets<'a>(
    policy: &'a Policy,
    request: &'a Request<'_>,
) -> impl Iterator<Item = (PathBuf, &'a Origin)> {
    policy
        .files
        .hide
        .iter()
        .filter(|hide| !is_pattern(&hide.value))
        .map(|hide| (request.project.join(expand(&hide.value, &request.caller.home)), &hide.origin))
}

/// The same paths, without their origins.
pub fn hidden_paths(policy: &Policy, request: &Request<'_>) -> Vec<PathBuf> {
    targets(policy, request).map(|(path, _)| path).collect()
}

/// Whether the user wrote that what stands at a path of the project is no secret.
pub fn is_shown_by_name(policy: &Policy, project: &Path, home: &Path, path: &Path) -> bool {
    policy.files.show.iter().any(|shown| at_or_below(path, &project.join(expand(&shown.value, home))))
}

/// Whether the user wrote that what stands at a path of the project is to be hidden, by a path or by a pattern.
pub fn is_hidden_by_name(policy: &Policy, project: &Path, home: &Path, path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().as_bytes();
    let hides = |hide: &PathBuf| match is_pattern(hide) {
        true => fits(name, hide.as_os_str().as_bytes()),
        false => path == project.join(expand(hide, home)),
    };
    policy.files.hide.iter().any(|hide| hides(&hide.value)) && !is_shown_by_name(policy, project, home, path)
}

pub(super) fn hide(
    builder: &mut Builder<'_>,
    policy: &Policy,
    request: &Request<'_>,
    facts: &HostFacts,
    own_home: &Home,
) -> Result<(), Refusal> {
    let home = &request.caller.home;
    let system = SYSTEM_SECRETS.iter().map(|path| (PathBuf::from(path), "system secret", &Origin::Builtin));
    let secrets = TOOLCHAINS.iter().flat_map(|toolchain| toolchain.secrets);
    let toolchains = secrets.map(|path| (home.join(path), "toolchain secret", &Origin::Builtin));
    let toolchains = toolchains.filter(|(path, ..)| !home::is_login(&builder.entries, path));
    let others = home::other_logins(policy, request, own_home);
    let others = others.chain(home::granted_logins(policy, request));
    let others = others.map(|path| (path, OTHER_LOGIN, &Origin::Builtin));
    let others = others.filter(|(path, ..)| !home::is_login(&builder.entries, path));
    let own = request.caller.own.iter().map(|path| (path.clone(), "keyward's own", &Origin::Builtin));
    let mask = |target: PathBuf, shown: Shown, rule: &'static str, origin: &Origin| Entry {
        target,
        shown,
        rule,
        origin: origin.clone(),
    };
    let closed = |directory: bool| Shown::Hidden { directory, reads_as: None };
    // What is not in the view needs no mask.
    let seen = Seen::new(&builder.entries);
    let is_seen = |path: &Path| seen.shows(path);

    let mut masks = Vec::new();
    if facts.paths.existing(Path::new(KEYS_FILE)).is_some() {
        masks.push(mask(KEYS_FILE.into(), closed(false), "system secret", &Origin::Builtin));
    }
    for (path, rule, origin) in system.chain(toolchains).chain(others).chain(own) {
        if let Some(fact) = facts.paths.existing(&path).filter(|fact| is_seen(&fact.real)) {
            masks.push(mask(fact.real.clone(), closed(fact.kind == Kind::Directory), rule, origin));
        }
    }
    for (path, origin) in targets(policy, request) {
        if let Some(fact) = facts.paths.existing(&path).filter(|fact| is_seen(&fact.real)) {
            let directory = fact.kind == Kind::Directory;
            let shown = Shown::Hidden { directory, reads_as: Some(Vec::new()) };
            masks.push(mask(fact.real.clone(), shown, "files.hide", origin));
        }
    }
    for unsearched in facts.project.unsearched.iter().filter(|unsearched| is_seen(&unsearched.path)) {
        masks.push(mask(unsearched.path.clone(), closed(true), UNSEARCHED, &Origin::Builtin));
    }
    let granted = policy.files.read.iter().chain(&policy.files.write);
    let granted: Vec<PathBuf> = granted.map(|grant| expand(&grant.value, home)).collect();
    // A grant opens the secret file that it names. One of a directory is for the rest of what is in it.
    let is_open = |path: &Path, directory: bool| {
        is_shown_by_name(policy, &request.project, home, path)
            || !directory && granted.iter().any(|grant| grant == path)
    };
    // There may be many files, and mostly no repository in which one of them lies.
    let has_copies = builder.entries.iter().any(|entry| matches!(entry.shown, Shown::Repository { .. }));
    for SecretFile { path, named, directory, reads_as } in &facts.project.secrets {
        let is_copied = || has_copies && is_copied_without_logins(&builder.entries, path);
        let is_open = is_open(path, *directory) || is_open(named, *directory);
        if !is_open && is_seen(path) && !is_copied() {
            let shown = Shown::Hidden { directory: *directory, reads_as: Some(reads_as.clone()) };
            masks.push(mask(path.clone(), shown, SECRET_FILE, &Origin::Builtin));
        }
    }
    let masks = without_repeats(masks);
    if masks.len() > MOST {
        return Err(Refusal::policy(
            SECRET_FILE,
            format!("{} files look secret, and at most {MOST} can be hidden", masks.len()),
            "hide the directories that hold them with `--hide DIR`, or show them with `--show DIR`",
        ));
    }
    builder.entries.extend(masks);
    Ok(())
}

/// Names each `--hide` of this command line that fits nothing: it may be misspelt. A policy file is for many projects.
pub(super) fn warnings(policy: &Policy, request: &Request<'_>, facts: &HostFacts) -> Vec<Warning> {
    let fits_something = |hide: &Path| match is_pattern(hide) {
        true => {
            let is_hidden = |path: &Path| {
                path.file_name().is_some_and(|name| fits(name.as_bytes(), hide.as_os_str().as_bytes()))
            };
            facts.project.secrets.iter().any(|secret| is_hidden(&secret.named) || is_hidden(&secret.path))
        }
        false => {
            let path = request.project.join(expand(hide, &request.caller.home));
            facts.paths.existing(&path).is_some()
        }
    };
    let by_flag = policy.files.hide.iter().filter(|hide| matches!(hide.origin, Origin::Flag { .. }));
    by_flag
        .filter(|hide| !fits_something(&hide.value))
        .map(|hide| Warning {
            fact: format!("`--hide {}` fits nothing that is there", typed(&visible(hide.value.as_os_str()))),
            remedy:
                "check the spelling; what appears in the project later is hidden as soon as it is noticed"
                    .into(),
            lasting: false,
        })
        .collect()
}

/// Whether a file is one of those of a repository that the command has a copy of without logins.
fn is_copied_without_logins(entries: &[Entry], path: &Path) -> bool {
    let Some(Entry { shown: Shown::Repository { source, .. }, .. }) = covering(entries, path) else {
        return false;
    };
    let is_log = path.strip_prefix(&source.path).is_ok_and(|path| path.iter().any(|name| name == "logs"));
    is_log || path.file_name().is_some_and(|name| names::is_settings(name) || names::is_login(name))
}

/// Answers for many paths whether they are seen. Those in one directory mostly have one answer.
struct Seen<'a> {
    entries: &'a [Entry],
    targets: HashSet<&'a OsStr>,
    last: RefCell<(OsString, bool)>,
}

impl<'a> Seen<'a> {
    fn new(entries: &'a [Entry]) -> Self {
        let targets = entries.iter().map(|entry| entry.target.as_os_str()).collect();
        Seen { entries, targets, last: RefCell::new((OsString::new(), false)) }
    }

    fn shows(&self, path: &Path) -> bool {
        let covered = |path: &Path| covering(self.entries, path).is_some_and(Entry::shows_in_place);
        let Some(above) = path.parent().filter(|_| !self.targets.contains(path.as_os_str())) else {
            return covered(path);
        };
        let mut last = self.last.borrow_mut();
        if last.0 != above.as_os_str() {
            *last = (above.into(), covered(above));
        }
        last.1
    }
}

/// Each mask is a mount, and the kernel has room for so many only.
const MOST: usize = 20_000;

/// Each place once, and nothing below a folder that is hidden already: under a mask there is nothing to mask.
fn without_repeats(masks: Vec<Entry>) -> Vec<Entry> {
    let folders: HashSet<OsString> = masks
        .iter()
        .filter(|mask| matches!(mask.shown, Shown::Hidden { directory: true, .. }))
        .map(|mask| mask.target.clone().into_os_string())
        .collect();
    let mut seen = HashSet::with_capacity(masks.len());
    let mut keep = |mask: &Entry| {
        seen.insert(mask.target.clone().into_os_string())
            && !mask.target.ancestors().skip(1).any(|above| folders.contains(above.as_os_str()))
    };
    masks.into_iter().filter(|mask| keep(mask)).collect()
}

#[cfg(test)]
mod tests {
    use super::fits;

    #[test]
    fn a_pattern_fits_as_a_shell_would() {
        for (name, pattern, expected) in [
            ("a.key", "*.key", true),
            ("A.KEY", "*.key", true),
            ("key", "*.key", false),
            ("aXbXc", "a*b*c", true),
            ("abc", "a?c", true),
            ("ac", "a?c", false),
            ("", "*", true),
            ("aaaaaaaaaaaaaaaaaaaaaaaaaaaab", "*a*a*a*a*c", false),
        ] {
            assert_eq!(fits(name.as_bytes(), pattern.as_bytes()), expected, "{name} {pattern}");
        }
    }
}
