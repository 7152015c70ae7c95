//! What the user grants by name, and why a grant is refused.

use super::{Builder, FOOTHOLD, expand, home, is_store, own_places_stay_closed};
use crate::detect::footholds::guarded_above;
use crate::facts::PathFact;
use crate::plan::Refusal;
use crate::request::Request;
use crate::settings::Policy;
use crate::text::{typed, visible};
use crate::words::Origin;
use std::path::{Path, PathBuf};

/// Adds what files and flags grant.
pub(super) fn grants(
    builder: &mut Builder<'_>,
    policy: &Policy,
    request: &Request<'_>,
    homes: &[PathBuf],
) -> Result<(), Refusal> {
    let home = &request.caller.home;
    let reads = policy.files.read.iter().map(|grant| (grant, false));
    let writes = policy.files.write.iter().map(|grant| (grant, true));
    let written = writes.clone().filter_map(|(grant, _)| builder.paths.existing(&expand(&grant.value, home)));
    let written: Vec<PathBuf> = written.map(|fact| fact.real.clone()).collect();
    for (grant, writable) in reads.chain(writes) {
        let path = expand(&grant.value, home);
        let rule = if writable { "files.write" } else { "files.read" };
        let Some(fact) = builder.paths.existing(&path).cloned() else {
            if writable && names_new_foothold(builder, request, &path) {
                builder.notes.push(format!(
                    "{} ({}) may be made by the command",
                    path.display(),
                    grant.origin
                ));
                continue;
            }
            if matches!(grant.origin, Origin::Flag { .. }) {
                return Err(Refusal::usage(
                    format!("cannot grant {}: it does not exist, or is closed to you", path.display()),
                    "name a file or directory that exists",
                ));
            }
            builder.notes.push(format!("{} ({}) does not exist on this host", path.display(), grant.origin));
            continue;
        };
        not_by_a_planted_link(&path, &fact, &written, homes, rule, &grant.origin)?;
        if homes.iter().any(|home| home.starts_with(&fact.real)) {
            return Err(Refusal::policy(
                rule,
                format!("{} ({}) holds your HOME, and with it your keys", path.display(), grant.origin),
                "name the directory in it that the command needs",
            ));
        }
        if ["/proc", "/sys", "/dev"].iter().any(|place| fact.real == Path::new(place)) {
            return Err(Refusal::policy(
                rule,
                format!("{} ({}) leads past the cage", path.display(), grant.origin),
                "name the single file in it that the command needs",
            ));
        }
        if let Some(profile) = home::of_a_profile(policy, request, &fact.real) {
            return Err(Refusal::policy(
                rule,
                format!(
                    "{} ({}) is, or holds, the HOME of the profile {profile}",
                    path.display(),
                    grant.origin
                ),
                "its logins are for its own commands: name another directory",
            ));
        }
        if writable {
            own_places_stay_closed(request, &fact.real, rule, &grant.origin)?;
        }
        builder.grant(&path, &fact, writable, rule, &grant.origin);
    }
    Ok(())
}

/// Whether a path of the project is a foothold that is not there yet, or lies in one: granting it lets the command make it.
fn names_new_foothold(builder: &Builder<'_>, request: &Request<'_>, path: &Path) -> bool {
    let relative = path.strip_prefix(&request.project).ok();
    let foothold = relative.and_then(guarded_above).map(|relative| request.project.join(relative));
    let is_there = |foothold: &PathBuf| {
        builder.entries.iter().any(|entry| entry.rule == FOOTHOLD && entry.target == *foothold)
    };
    foothold.is_some_and(|foothold| !is_there(&foothold))
}

/// A link in a project, or in a directory that is granted for writing, may have been put there by a command: it must not decide what the
/// next one is granted.
fn not_by_a_planted_link(
    path: &Path,
    fact: &PathFact,
    written: &[PathBuf],
    homes: &[PathBuf],
    rule: &str,
    origin: &Origin,
) -> Result<(), Refusal> {
    let store = path != fact.real && is_store(&fact.real, homes);
    let holds = |directory: &&PathBuf| {
        // Where all of it stays in the directory, no link gives more than that.
        let is_in = |link: &PathBuf| link != *directory && link.starts_with(directory);
        !fact.real.starts_with(directory) && fact.strays.iter().any(is_in)
    };
    let project = fact.leaves_project.as_ref().map(|project| ("the project", project));
    let granted = written.iter().find(holds).map(|directory| ("the writable directory", directory));
    match project.or(granted) {
        Some((what, left)) => Err(Refusal::policy(
            rule,
            format!(
                "{} ({origin}) leads out of {what} {} to {}",
                path.display(),
                left.display(),
                fact.real.display()
            ),
            &format!(
                "a command that ran there may have made the link; if its target is what you mean, use `{} {}`",
                if rule == "files.write" { "--write" } else { "--read" },
                typed(&visible(fact.real.as_os_str()))
            ),
        )),
        None if store => Err(Refusal::policy(
            rule,
            format!(
                "{} ({origin}) leads to {}, which holds credentials",
                path.display(),
                fact.real.display()
            ),
            "name the file in it that the command needs, by its own path",
        )),
        None => Ok(()),
    }
}
