//! The child's environment: built up from nothing, never filtered down.
//!
//! [`decide`] is the one place that decides it, for enforcement, `explain` and `why` alike. The result names variables and points
//! into the caller's environment; it holds none of the caller's values, and so cannot show one.

mod name;
mod offline;
mod rule;
mod utf8;
mod why;

pub use name::shown;
pub use rule::Rule;
pub use why::{Decision, Remedy, why};

use crate::detect::registry::{self, Kind};
use crate::secret::{Bound, Delivery, Given, Whereabouts};
use crate::settings::Policy;
use crate::words::{NetMode, Origin, Ruled, TrustClass};
use serde::Serialize;
use std::ffi::OsString;

/// What the kernel takes as one entry at most: 32 pages, with the `=` and the final NUL.
const LONGEST_ENTRY: usize = 131_072;

/// What the child's environment will be, and what became of the rest of the caller's. Both lists are sorted by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Environment {
    pub vars: Vec<Var>,
    pub dropped: Vec<Dropped>,
    /// Named in `inherit_credentials` or `env.pass`, but not in the caller's environment.
    pub missing: Vec<Ruled<String>>,
}

/// A variable the child gets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Var {
    pub name: String,
    pub value: Value,
    pub rule: Rule,
    pub origin: Origin,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Value {
    /// Keyward's own, or the policy's.
    Ours(#[serde(serialize_with = "name::value")] OsString),
    /// The caller's: the index of the entry in the caller's environment.
    Caller(usize),
    /// The vault's, which puts it there past everybody else.
    Vault,
    /// The phantom of a secret of the plan, by its place there, or the part of it that belongs into this one of its variables.
    Phantom { secret: usize, variable: usize },
}

/// A variable of the caller's that the child does not get.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Dropped {
    /// As [`shown`]: safe to print, and not shown where the name itself looks like a credential.
    pub name: String,
    pub rule: Rule,
}

impl Environment {
    /// Adds the variables that say where secrets are. They win over everything else.
    pub(crate) fn announce(&mut self, secrets: &[Given]) {
        for given in secrets {
            let value = match &given.place {
                Whereabouts::Descriptor(number) => Value::Ours(number.to_string().into()),
                Whereabouts::File(path) => Value::Ours(path.clone().into()),
                Whereabouts::Variable => Value::Vault,
            };
            self.vars.retain(|var| var.name != given.variable);
            self.give(given.variable.clone(), value, Rule::Secret(given.delivery), &given.origin);
        }
        self.vars.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    }

    /// Adds the variables that hold phantoms. The caller's own value of such a name is not handed on, and so is no loss worth telling.
    pub(crate) fn hold_phantoms(&mut self, phantoms: &[Bound]) {
        for (secret, bound) in phantoms.iter().enumerate() {
            for (variable, name) in bound.variables.iter().enumerate() {
                self.vars.retain(|var| var.name != *name);
                self.dropped.retain(|dropped| dropped.name != *name);
                let value = Value::Phantom { secret, variable };
                self.give(name.clone(), value, Rule::Secret(Delivery::Proxy), &bound.origin);
            }
            // Leads to the proxy, so that it wins over everything else as well.
            if let Some(led) = &bound.base_url {
                self.vars.retain(|var| var.name != led.variable);
                self.dropped.retain(|dropped| dropped.name != led.variable);
                let value = Value::Ours(led.url().into());
                self.give(led.variable.to_owned(), value, Rule::Secret(Delivery::Proxy), &bound.origin);
            }
        }
        self.vars.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    }
}

/// What is found in the address of a proxy that wants a login.
const PROXY_LOGIN: &str = "proxy with a login";

/// The rule by which this variable is taken for a credential or a way to someone's authority.
pub fn looks_like_credential(name: &[u8], value: &[u8]) -> Option<Rule> {
    if let Some(entry) = registry::known(name) {
        return Some(match entry.kind {
            Kind::Credential => Rule::Registry { provider: entry.provider },
            Kind::Authority => Rule::Authority { provider: entry.provider },
        });
    }
    // A login before a proxy's name needs no scheme.
    if registry::is_proxy(name) && value.contains(&b'@') {
        return Some(Rule::ValueShape(PROXY_LOGIN));
    }
    let shape = || registry::value_shape(value).or_else(|| name::key_as_name(name));
    registry::name_shape(name).map(Rule::NameShape).or_else(|| shape().map(Rule::ValueShape))
}

/// Whether the variable makes the next program load, run or rewrite something.
pub fn is_loader(name: &[u8]) -> bool {
    registry::is_loader(name).is_some()
}

/// Decides the child's environment. `caller` holds raw `NAME=value` entries in the order of `environ`; `ours` wins over
/// everything else.
pub fn decide(
    policy: &Policy,
    trust: TrustClass,
    caller: &[&[u8]],
    ours: &[(&'static str, OsString)],
) -> Environment {
    let mut env = Environment::default();
    let mut entries: Vec<Entry<'_>> = Vec::with_capacity(caller.len());
    for (index, raw) in caller.iter().enumerate() {
        match Entry::parse(index, raw) {
            Ok(entry) => entries.push(entry),
            Err(malformed) => env.dropped.push(malformed),
        }
    }
    // In this order `chunk_by` finds duplicates, and the first of them is the one that `getenv` returns.
    entries.sort_unstable_by(|a, b| a.name.cmp(b.name).then(a.index.cmp(&b.index)));

    for (name, value) in ours {
        env.give((*name).to_owned(), Value::Ours(value.clone()), Rule::Ours, &Origin::Builtin);
    }
    for line in &policy.env.set {
        let (name, value) = &line.value;
        match judge_set(policy, name, value) {
            _ if env.vars.iter().any(|var| var.name == *name) => {}
            Some(rule) => env.dropped.push(dropped(name.as_bytes(), rule)),
            None => env.give(name.clone(), Value::Ours(value.into()), Rule::Set, &line.origin),
        }
    }
    let replaced = |name: &[u8]| {
        let set = || policy.env.set.iter().any(|line| line.value.0.as_bytes() == name);
        ours.iter().any(|(our, _)| our.as_bytes() == name) || set()
    };
    for group in entries.chunk_by(|a, b| a.name == b.name) {
        let [first, later @ ..] = group else { continue };
        if replaced(first.name) {
            continue;
        }
        match judge(policy, trust, group) {
            Ok((rule, origin)) => {
                let name = String::from_utf8_lossy(first.name).into_owned();
                env.give(name, Value::Caller(first.index), rule, origin);
                env.dropped.extend(later.iter().map(|entry| dropped(entry.name, Rule::Duplicate)));
            }
            Err(rule) => env.dropped.extend(group.iter().map(|entry| dropped(entry.name, rule))),
        }
    }
    let absent = |line: &&Ruled<String>| {
        let name = line.value.as_bytes();
        !replaced(name) && entries.binary_search_by(|entry| entry.name.cmp(name)).is_err()
    };
    let refused = if trust.may_inherit_credentials() { &[] } else { policy.inherit_credentials.as_slice() };
    // Named for a class that gets none: a mistake in the policy, whether or not the caller has it.
    let refused =
        refused.iter().filter(absent).map(|line| dropped(line.value.as_bytes(), Rule::ClassMayNotInherit));
    env.dropped.extend(refused);
    let inherited = if trust.may_inherit_credentials() { policy.inherit_credentials.as_slice() } else { &[] };
    // What a built-in profile names is what its agent may know; it is not expected.
    let expected = |line: &&Ruled<String>| !matches!(line.origin, Origin::Profile { .. });
    let named = inherited.iter().chain(&policy.env.pass).filter(expected);
    env.missing = named.filter(absent).cloned().collect();

    utf8::ensure(&mut env, caller);
    if policy.net.value == NetMode::None {
        offline::give_up_at_once(&mut env);
    }
    env.vars.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    env.dropped.sort_by(|a, b| a.name.cmp(&b.name));
    env
}

/// Decides about one name of the caller's. More than one entry means duplicates.
fn judge<'p>(policy: &'p Policy, trust: TrustClass, group: &[Entry<'_>]) -> Result<(Rule, &'p Origin), Rule> {
    let name = group.first().map_or(&[][..], |entry| entry.name);
    // First what no setting can change, so that the user does not look for a line that would not help.
    if group.iter().any(|entry| entry.name.len() + entry.value.len() + 2 > LONGEST_ENTRY) {
        return Err(Rule::TooLong);
    }
    let inherit = named(&policy.inherit_credentials, name);
    if inherit.is_some() && !trust.may_inherit_credentials() {
        return Err(Rule::ClassMayNotInherit);
    }
    // Before the credentials: a loader variable acts, and naming a credential is no consent to that.
    let loader = registry::is_loader(name);
    let loader_line = named(&policy.env.dangerous_loader_env, name);
    if let (Some(pattern), None) = (loader, loader_line) {
        return Err(Rule::Loader(pattern));
    }
    if let Some(line) = inherit {
        return Ok((Rule::Inherited, &line.origin));
    }
    // Every duplicate counts: programs differ in which of them they read.
    let hit = group.iter().find_map(|entry| looks_like_credential(name, entry.value));
    let cleared = named(&policy.env.not_secret, name);
    match (hit, cleared) {
        (Some(rule @ Rule::Authority { .. }), _) | (Some(rule), None) => return Err(rule),
        _ => {}
    }
    let (rule, origin) = match (loader.and(loader_line), named(&policy.env.pass, name)) {
        (Some(line), _) => (Rule::LoaderAllowed, &line.origin),
        (None, Some(line)) => (Rule::Passed, &line.origin),
        (None, None) if registry::is_operational(name) => (Rule::Operational, &Origin::Builtin),
        (None, None) if registry::is_proxy(name) && policy.net.value == NetMode::Open => {
            (Rule::Proxy, &policy.net.origin)
        }
        (None, None) => return Err(Rule::NotListed),
    };
    match (hit, cleared) {
        (Some(_), Some(line)) => Ok((Rule::NotSecretCleared, &line.origin)),
        _ => Ok((rule, origin)),
    }
}

/// Why a line of `env.set` is not followed. A plan is printed and kept, so a credential may not come in through the policy
/// either; where a loader or a socket leads is the operator's own choice, as he wrote the value himself.
fn judge_set(policy: &Policy, name: &str, value: &str) -> Option<Rule> {
    if let Some(what) = name::malformed(name.as_bytes()).or_else(|| name::has_nul(value.as_bytes())) {
        return Some(Rule::Malformed(what));
    }
    if name.len() + value.len() + 2 > LONGEST_ENTRY {
        return Some(Rule::TooLong);
    }
    let hit = looks_like_credential(name.as_bytes(), value.as_bytes())?;
    let free =
        matches!(hit, Rule::Authority { .. }) || named(&policy.env.not_secret, name.as_bytes()).is_some();
    if free { None } else { Some(hit) }
}

impl Environment {
    fn give(&mut self, name: String, value: Value, rule: Rule, origin: &Origin) {
        self.vars.push(Var { name, value, rule, origin: origin.clone() });
    }
}

/// A well-formed entry of the caller's. It holds a value, and so has no Debug.
struct Entry<'a> {
    index: usize,
    name: &'a [u8],
    value: &'a [u8],
}

impl<'a> Entry<'a> {
    fn parse(index: usize, raw: &'a [u8]) -> Result<Self, Dropped> {
        let Some(at) = raw.iter().position(|byte| *byte == b'=') else {
            return Err(dropped(raw, Rule::Malformed("no `=`")));
        };
        let (name, value) = (&raw[..at], &raw[at + 1..]);
        match name::malformed(name).or_else(|| name::has_nul(value)) {
            Some(what) => Err(dropped(name, Rule::Malformed(what))),
            None => Ok(Entry { index, name, value }),
        }
    }
}

fn named<'p>(lines: &'p [Ruled<String>], name: &[u8]) -> Option<&'p Ruled<String>> {
    lines.iter().find(|line| line.value.as_bytes() == name)
}

fn dropped(name: &[u8], rule: Rule) -> Dropped {
    Dropped { name: shown(name), rule }
}
