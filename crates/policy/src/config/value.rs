//! The values of one layer, each with its place, and the step from merged values to the effective policy.

use super::keys::{Direction, Id, KEYS, Key};
use crate::net::allowed::Allowed;
use crate::net::plan::Upstream;
use crate::secret::Grant;
use crate::settings::Policy;
use crate::tools::{Tool, tool};
use crate::view::is_pattern;
use crate::witness::Witness;
use crate::words::{
    Allowance, Attended, Floor, GateMode, HomeMode, KeyringUse, NetAsk, NetMode, Origin, ProjectGuard,
    Protect, Redact, Ruled, SearchExtent, ToolCage, ToolNet, TrustClass,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Something, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct At<T> {
    pub value: T,
    pub origin: Origin,
    /// In its file; 0 for what comes from no file.
    pub offset: usize,
}

impl<T> At<T> {
    /// Something that comes from no file.
    pub fn outside(value: T, origin: Origin) -> Self {
        At { value, origin, offset: 0 }
    }

    fn into_ruled(self) -> Ruled<T> {
        Ruled { value: self.value, origin: self.origin }
    }
}

/// A value of the type that its key wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// The rank among the key's words: the greater, the stricter.
    Choice(At<usize>),
    Names(At<Vec<At<String>>>),
    Paths(At<Vec<At<PathBuf>>>),
    Map(At<Vec<At<(String, String)>>>),
    /// Nanoseconds, bytes or a count: the smaller, the stricter.
    Number(At<u64>),
}

/// What a layer says of each key, in the order of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Values([Option<Value>; KEYS.len()]);

impl Default for Values {
    fn default() -> Self {
        Values([const { None }; KEYS.len()])
    }
}

impl Values {
    /// The choices of the built-in policy and its one limit. All its lists are empty.
    pub fn builtin() -> Self {
        let policy = Policy::default();
        let mut values = Values::default();
        let mut choose = |id, rank, origin| values.put(id, Value::Choice(At::outside(rank, origin)));
        choose(Id::Trust, policy.trust.value as usize, policy.trust.origin);
        choose(Id::Floor, policy.floor.value as usize, policy.floor.origin);
        choose(Id::Project, policy.project.value as usize, policy.project.origin);
        choose(Id::FilesProtect, policy.protect.value as usize, policy.protect.origin);
        choose(Id::FilesSearch, policy.search.value as usize, policy.search.origin);
        choose(Id::HomeMode, policy.home.mode.value as usize, policy.home.mode.origin);
        choose(Id::HomeKeyring, policy.home.keyring.value as usize, policy.home.keyring.origin);
        choose(Id::ToolsCage, policy.tools.cage.value as usize, policy.tools.cage.origin);
        choose(Id::ToolsNet, policy.tools.net.value as usize, policy.tools.net.origin);
        choose(Id::NetMode, policy.net.value as usize, policy.net.origin);
        choose(Id::NetAsk, policy.network.ask.value as usize, policy.network.ask.origin);
        choose(Id::GateMode, policy.gate.mode.value as usize, policy.gate.mode.origin);
        choose(Id::GateAttended, policy.gate.attended.value as usize, policy.gate.attended.origin);
        choose(Id::Redact, policy.redact.value as usize, policy.redact.origin);
        if let Some(pids) = policy.limits.pids {
            values.put(Id::LimitsPids, Value::Number(At::outside(pids.value, pids.origin)));
        }
        values
    }

    /// A layer that names hosts and no mode means the mode `rules`.
    pub fn imply_rules(&mut self) {
        let said = [Id::NetAllow, Id::NetReach].into_iter().find_map(|id| self.names(id).first());
        if let (Some(first), None) = (said, self.get(Id::NetMode)) {
            let mode =
                At { value: NetMode::Rules as usize, origin: first.origin.clone(), offset: first.offset };
            self.put(Id::NetMode, Value::Choice(mode));
        }
    }

    /// A HOME that the user's profile adopts may lie in the agent's own directory, which the command must not change then: of a built-in
    /// profile no path is granted beside it.
    pub fn adopted_home_stands_alone(&mut self) {
        if self.get(Id::HomePath).is_none() {
            return;
        }
        for id in [Id::FilesRead, Id::FilesWrite] {
            if let Some(Some(Value::Paths(list))) = self.0.get_mut(id as usize) {
                list.value.retain(|path| !matches!(path.origin, Origin::Profile { .. }));
            }
        }
    }

    pub fn get(&self, id: Id) -> Option<&Value> {
        self.0.get(id as usize).and_then(Option::as_ref)
    }

    pub fn take(&mut self, id: Id) -> Option<Value> {
        self.0.get_mut(id as usize).and_then(Option::take)
    }

    pub fn put(&mut self, id: Id, value: Value) {
        if let Some(slot) = self.0.get_mut(id as usize) {
            *slot = Some(value);
        }
    }

    /// The names in the list at this key.
    pub fn names(&self, id: Id) -> &[At<String>] {
        match self.get(id) {
            Some(Value::Names(list)) => &list.value,
            _ => &[],
        }
    }

    /// Makes the relative paths of `files.hide` absolute, below the directory of their file. Patterns of names stay as they are.
    pub fn hide_below(&mut self, directory: &Path) {
        if let Some(Some(Value::Paths(list))) = self.0.get_mut(Id::FilesHide as usize) {
            for entry in &mut list.value {
                if !entry.value.starts_with("~") && !is_pattern(&entry.value) {
                    entry.value = directory.join(&entry.value);
                }
            }
        }
    }

    /// Every value with its key.
    pub fn into_pairs(self) -> impl Iterator<Item = (&'static Key, Value)> {
        KEYS.iter().zip(self.0).filter_map(|(key, value)| Some((key, value?)))
    }

    /// The effective policy.
    pub fn into_policy(self, profile: Option<&str>) -> Policy {
        let mut policy = Policy { profile: profile.map(str::to_owned), ..Policy::default() };
        for (key, value) in self.into_pairs() {
            match key.id {
                Id::Version | Id::Profiles => debug_assert_eq!(key.direction, Direction::Header),
                Id::Trust => choose(&mut policy.trust, value, TrustClass::ALL),
                Id::Floor => choose(&mut policy.floor, value, Floor::ALL),
                Id::Project => choose(&mut policy.project, value, ProjectGuard::ALL),
                Id::FilesProtect => choose(&mut policy.protect, value, Protect::ALL),
                Id::FilesSearch => choose(&mut policy.search, value, SearchExtent::ALL),
                Id::HomeMode => choose(&mut policy.home.mode, value, HomeMode::ALL),
                Id::HomePath => policy.home.path = paths(value).into_iter().next(),
                Id::HomeTools => policy.home.tools = tools(value),
                Id::HomeShare => policy.home.share = tools(value),
                Id::HomeKeyring => choose(&mut policy.home.keyring, value, KeyringUse::ALL),
                Id::ToolsCage => choose(&mut policy.tools.cage, value, ToolCage::ALL),
                Id::ToolsNet => choose(&mut policy.tools.net, value, ToolNet::ALL),
                Id::ToolsRead => policy.tools.read = paths(value),
                Id::ToolsShare => policy.tools.share = paths(value),
                Id::NetMode => choose(&mut policy.net, value, NetMode::ALL),
                Id::NetAllow => policy.network.allow = allowed(value),
                Id::NetAsk => choose(&mut policy.network.ask, value, NetAsk::ALL),
                Id::NetReach => policy.network.reach = parsed(value, |text| text.parse().ok()),
                Id::NetPublish => policy.network.publish = parsed(value, |text| text.parse().ok()),
                Id::NetUpstream => policy.network.upstream = parsed(value, Upstream::parse),
                Id::NetCa => policy.network.ca = paths(value),
                Id::GateMode => choose(&mut policy.gate.mode, value, GateMode::ALL),
                Id::GateAttended => choose(&mut policy.gate.attended, value, Attended::ALL),
                Id::GateWait => policy.gate.wait = number(value, Duration::from_nanos),
                Id::GateRules => policy.gate.rules = paths(value).into_iter().next(),
                Id::GateJudge => policy.gate.judge = names(value),
                Id::GateJudgeWait => policy.gate.judge_wait = number(value, Duration::from_nanos),
                Id::GateWebhook => policy.gate.webhook = names(value).into_iter().next(),
                Id::GateWebhookKey => policy.gate.webhook_key = names(value).into_iter().next(),
                Id::GateWebhookCa => policy.gate.webhook_ca = paths(value).into_iter().next(),
                Id::GateWebhookListen => policy.gate.webhook_listen = names(value).into_iter().next(),
                Id::Allow => policy.allow = allowances(value),
                Id::InheritCredentials => policy.inherit_credentials = names(value),
                Id::Secrets => policy.secrets = grants(value),
                Id::Redact => choose(&mut policy.redact, value, Redact::ALL),
                Id::EnvPass => policy.env.pass = names(value),
                Id::EnvSet => policy.env.set = pairs(value),
                Id::EnvNotSecret => policy.env.not_secret = names(value),
                Id::EnvDangerousLoaderEnv => policy.env.dangerous_loader_env = names(value),
                Id::FilesRead => policy.files.read = paths(value),
                Id::FilesWrite => policy.files.write = paths(value),
                Id::FilesHide => policy.files.hide = paths(value),
                Id::FilesShow => policy.files.show = paths(value),
                Id::LimitsWall => policy.limits.wall = number(value, Duration::from_nanos),
                Id::LimitsCpu => policy.limits.cpu = number(value, Duration::from_nanos),
                Id::LimitsMemory => policy.limits.memory = number(value, u64::from),
                Id::LimitsPids => policy.limits.pids = number(value, u64::from),
                Id::LimitsOpenFiles => policy.limits.open_files = number(value, u64::from),
                Id::LimitsOutput => policy.limits.output = number(value, u64::from),
                Id::LedgerWitness => policy.witness = witnesses(value),
            }
        }
        policy
    }
}

fn choose<T: Copy>(field: &mut Ruled<T>, value: Value, all: &[T]) {
    if let Value::Choice(rank) = value
        && let Some(&word) = all.get(rank.value)
    {
        *field = Ruled { value: word, origin: rank.origin };
    }
}

fn names(value: Value) -> Vec<Ruled<String>> {
    match value {
        Value::Names(list) => list.value.into_iter().map(At::into_ruled).collect(),
        _ => Vec::new(),
    }
}

fn allowances(value: Value) -> Vec<Ruled<Allowance>> {
    let words = names(value).into_iter();
    words
        .filter_map(|word| Some(Ruled { value: Allowance::parse(&word.value)?, origin: word.origin }))
        .collect()
}

fn grants(value: Value) -> Vec<Ruled<Grant>> {
    let all = names(value).into_iter();
    all.filter_map(|text| Some(Ruled { value: Grant::parse(&text.value).ok()?, origin: text.origin }))
        .collect()
}

/// Entries that were checked when they were read.
fn parsed<T>(value: Value, parse: impl Fn(&str) -> Option<T>) -> Vec<Ruled<T>> {
    let entry = |name: Ruled<String>| Some(Ruled { value: parse(&name.value)?, origin: name.origin });
    names(value).into_iter().filter_map(entry).collect()
}

fn witnesses(value: Value) -> Vec<Ruled<Witness>> {
    let all = names(value).into_iter();
    all.filter_map(|text| Some(Ruled { value: Witness::parse(&text.value).ok()?, origin: text.origin }))
        .collect()
}

/// What a list of rules and presets says.
pub(super) fn allowed(value: Value) -> Vec<Ruled<Allowed>> {
    parsed(value, |text| Allowed::parse(text).ok())
}

pub fn tools(value: Value) -> Vec<Ruled<&'static Tool>> {
    let known = names(value).into_iter();
    known.filter_map(|name| Some(Ruled { value: tool(&name.value)?, origin: name.origin })).collect()
}

fn paths(value: Value) -> Vec<Ruled<PathBuf>> {
    match value {
        Value::Paths(list) => list.value.into_iter().map(At::into_ruled).collect(),
        _ => Vec::new(),
    }
}

fn pairs(value: Value) -> Vec<Ruled<(String, String)>> {
    match value {
        Value::Map(map) => map.value.into_iter().map(At::into_ruled).collect(),
        _ => Vec::new(),
    }
}

fn number<T>(value: Value, convert: fn(u64) -> T) -> Option<Ruled<T>> {
    match value {
        Value::Number(at) => Some(Ruled { value: convert(at.value), origin: at.origin }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::keys::Kind;
    use super::*;

    #[test]
    fn every_choice_has_a_built_in_value_that_a_project_can_only_narrow() {
        let builtin = Values::builtin();
        for key in KEYS {
            let chosen = matches!(builtin.get(key.id), Some(Value::Choice(_)));
            assert_eq!(chosen, matches!(key.kind, Kind::Choice(_) | Kind::Switch(_)), "{}", key.path);
        }
    }
}
