//! The policy files: from their text to the effective policy.
//!
//! Pure, as the whole crate: the caller has already read the files. The way through is [`resolve`]: read each file in its
//! role, lay the layers over each other, hold the result under the ceiling, narrow it by the project files.

pub(crate) mod checks;
mod edit;
mod flags;
mod keys;
mod merge;
pub(crate) mod mistake;
mod nearest;
pub(crate) mod read;
mod schema;
mod show;
pub(crate) mod source;
pub(crate) mod splice;
pub(crate) mod typed;
mod units;
pub(crate) mod value;

pub use edit::{Change, Edited, NotEdited, Wish, edit};
pub use flags::Flags;
pub use keys::{Direction, Id, KEYS, Key, Kind, PathUse};
pub use mistake::{BeyondCeiling, Mistake, PolicyError, Unfit};
pub use nearest::nearest;
pub use schema::schema;
pub use show::{show, show_json};
pub use typed::no_namespaces;
pub use units::{parse_duration, parse_size};

use crate::agent::{self, Agent};
use crate::settings::Policy;
use crate::tools;
use crate::words::{Ruled, TrustClass};
use read::File;
use std::path::{Path, PathBuf};
use value::{Value, Values};

/// A file's text under the name that messages show.
#[derive(Clone, Copy, Debug)]
pub struct Document<'a> {
    pub name: &'a str,
    pub text: &'a [u8],
}

/// What a file may say depends on whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The administrator's: nothing below can lift it, and it grants nothing.
    Ceiling,
    /// The user's own, with profiles.
    User,
    /// The project's: its author may be a stranger, so it may only narrow.
    Project,
}

/// A `.keyward.toml` in a directory above the project. It narrows as the project's own file does.
#[derive(Clone, Copy, Debug)]
pub struct Ancestor<'a> {
    pub document: Document<'a>,
    /// The directory that holds it: its relative paths begin there.
    pub directory: &'a Path,
}

/// Everything that is said about one run.
#[derive(Clone, Default)]
pub struct Layers<'a> {
    pub ceiling: Option<Document<'a>>,
    pub user: Option<Document<'a>>,
    pub project: Option<Document<'a>>,
    /// The project files of the directories above the project, outermost first.
    pub ancestors: Vec<Ancestor<'a>>,
    /// The chosen profile: of the user's file, of a file of its own, or built in.
    pub profile: Option<&'a str>,
    /// What a profile with a file of its own says. It lies below the user's file, whose profile of the same name changes single keys.
    pub agent: Option<&'a Agent>,
    /// What the caller has of the agent's keys.
    pub caller: agent::Caller<'a>,
    pub flags: Flags,
}

/// The effective policy: built in < agent < user < profile < flags, held under the ceiling, narrowed by the files above the project and by its own.
pub fn resolve(layers: &Layers<'_>) -> Result<Policy, PolicyError> {
    let mut mistakes = Vec::new();
    let ceiling = gather(read(layers.ceiling.as_ref(), Role::Ceiling), &mut mistakes);
    let user = gather(read(layers.user.as_ref(), Role::User), &mut mistakes);
    let mut narrowing = Vec::new();
    for Ancestor { document, directory } in &layers.ancestors {
        if let Some(mut file) = gather(read(Some(document), Role::Project), &mut mistakes) {
            file.values.hide_below(directory);
            narrowing.push(file);
        }
    }
    narrowing.extend(gather(read(layers.project.as_ref(), Role::Project), &mut mistakes));
    let flags = gather(flags::layer(&layers.flags).map(Some), &mut mistakes);
    if !mistakes.is_empty() {
        return Err(PolicyError::Mistakes(mistakes));
    }
    let profile_homes = user.as_ref().map(homes_of_profiles).unwrap_or_default();
    let profile = layers.profile.map(|name| chosen(name, user.as_ref(), layers)).transpose()?;

    let mut effective = Values::builtin();
    let agent = layers.agent.map(|agent| agent.values.clone());
    for mut layer in [agent, user.map(|file| file.values), profile, flags].into_iter().flatten() {
        layer.imply_rules();
        merge::overlay(&mut effective, layer);
    }
    effective.adopted_home_stands_alone();
    mistakes.extend(flags::check_set(&effective));
    if !mistakes.is_empty() {
        return Err(PolicyError::Mistakes(mistakes));
    }
    let supplied = layers.agent.map(|agent| agent::supply(&mut effective, agent, &layers.caller));
    let supplied = supplied.transpose().map_err(PolicyError::Refused)?.unwrap_or_default();
    // The ceiling comes before the project, so that a project cannot be blamed for what the user asked.
    let (mut most_tools, mut most_hosts) = (None, None);
    if let Some(ceiling) = ceiling {
        most_tools = ceiling.values.get(Id::HomeTools).cloned();
        most_hosts = ceiling.values.get(Id::NetAllow).cloned();
        merge::hold(&mut effective, ceiling.values).map_err(PolicyError::Beyond)?;
    }
    let asked = effective.clone();
    let mut narrowed = Vec::new();
    for File { source, values, .. } in narrowing {
        let project = values.clone();
        mistakes.extend(merge::narrow(&mut effective, values, &source, &asked));
        narrowed.extend(merge::narrow_hosts(&mut effective, &project));
    }
    if !mistakes.is_empty() {
        return Err(PolicyError::Mistakes(mistakes));
    }
    let agent = layers.agent.map(Agent::command);
    let mut policy = Policy { profile_homes, agent, ..effective.into_policy(layers.profile) };
    // Hosts that secrets are bound to are held under it as well; which these are is not known yet.
    policy.network.most = most_hosts.map(value::allowed);
    policy.network.narrowed = narrowed;
    policy.network.gateways = supplied.gateways;
    policy.known_secrets = supplied.secrets;
    Ok(with_all_logins(policy, most_tools))
}

fn homes_of_profiles(user: &File<'_>) -> Vec<(String, PathBuf)> {
    let home = |values: &Values| match values.get(Id::HomePath) {
        Some(Value::Paths(list)) => list.value.first().map(|path| path.value.clone()),
        _ => None,
    };
    user.profiles.iter().filter_map(|(name, values)| Some((name.clone(), home(values)?))).collect()
}

/// The agent's own workers find every login unless the policy names some; never more than the ceiling allows.
fn with_all_logins(mut policy: Policy, ceiling: Option<Value>) -> Policy {
    let named = !policy.home.tools.is_empty() || !policy.home.share.is_empty();
    if policy.trust.value == TrustClass::Internal && !named {
        policy.home.tools = match ceiling {
            Some(most) => value::tools(most),
            None => tools::all().map(Ruled::builtin).collect(),
        };
    }
    policy
}

/// The names of the profiles in the user's own file; none where it has mistakes.
pub fn profiles(user: &Document<'_>) -> Vec<String> {
    let file = File::read(user, Role::User);
    file.map(|file| file.profiles.into_iter().map(|(name, _)| name).collect()).unwrap_or_default()
}

/// Whether a profile can have this name, which also names a file.
pub fn is_profile_name(name: &str) -> bool {
    checks::profile_name(name).is_ok()
}

/// Whether a file is fine in its role, as far as it alone can show.
pub fn check(document: &Document<'_>, role: Role) -> Result<(), Vec<Mistake>> {
    File::read(document, role).map(|_| ())
}

fn read<'a>(document: Option<&Document<'a>>, role: Role) -> Result<Option<File<'a>>, Vec<Mistake>> {
    document.map(|document| File::read(document, role)).transpose()
}

/// What was read, or nothing and its mistakes.
fn gather<T>(outcome: Result<Option<T>, Vec<Mistake>>, mistakes: &mut Vec<Mistake>) -> Option<T> {
    outcome.unwrap_or_else(|found| {
        mistakes.extend(found);
        None
    })
}

/// The values of the chosen profile.
fn chosen(name: &str, user: Option<&File<'_>>, layers: &Layers<'_>) -> Result<Values, PolicyError> {
    let profiles = user.map(|file| file.profiles.as_slice()).unwrap_or_default();
    if let Some((_, values)) = profiles.iter().find(|(known, _)| known == name) {
        return Ok(values.clone());
    }
    // An editor of the file does not read the agent's own.
    if layers.agent.is_some() || agent::builtin().any(|agent| agent == name) {
        return Ok(Values::default());
    }
    let mut known: Vec<String> = profiles.iter().map(|(known, _)| known.clone()).collect();
    let more: Vec<String> =
        agent::builtin().filter(|name| !known.iter().any(|own| own == name)).map(str::to_owned).collect();
    known.extend(more);
    Err(PolicyError::UnknownProfile {
        name: name.to_owned(),
        nearest: nearest::nearest(name, known.iter().map(String::as_str)).map(str::to_owned),
        known,
        file: layers.user.map(|document| document.name.to_owned()),
    })
}
