//! What an agent's profile adds because of the caller's environment: keys that become phantoms, the base URLs they are bound to, and paths.
//!
//! It is decided before the ceiling is, which therefore holds it as well. A key is named by its variable (`env://NAME`); its value is taken by
//! the vault, and is not looked at here.

use super::{Access, Agent, BaseUrl, Caller};
use crate::config::checks::{self, Writer};
use crate::config::value::{At, Value, Values};
use crate::config::{Id, PathUse, Unfit};
use crate::net::plan::THIS_MACHINE;
use crate::plan::Refusal;
use crate::provider::{self, Provider};
use crate::secret::{Entry, Grant, Reference, SecretName};
use crate::tools;
use crate::words::Origin;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What is not a key of the policy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Supplied {
    /// Secrets that stand in the caller's environment.
    pub secrets: Vec<Entry>,
    /// Servers that the user's base URLs name.
    pub gateways: Vec<BaseUrl>,
}

/// Adds to a policy what the agent's keys and paths come to here.
pub(crate) fn supply(
    effective: &mut Values,
    agent: &Agent,
    caller: &Caller<'_>,
) -> Result<Supplied, Refusal> {
    let mut supply = Supply { effective, agent, caller, out: Supplied::default() };
    for provider in &agent.keys {
        supply.provider(provider)?;
    }
    for (variable, access) in &agent.paths {
        supply.path(variable, *access)?;
    }
    Ok(supply.out)
}

struct Supply<'e, 'a> {
    effective: &'e mut Values,
    agent: &'a Agent,
    caller: &'a Caller<'a>,
    out: Supplied,
}

impl<'a> Supply<'_, 'a> {
    fn provider(&mut self, provider: &'static Provider) -> Result<(), Refusal> {
        let base = match provider.base_url {
            Some(variable) => self.base_url(variable)?.map(|read| (variable, read)),
            None => None,
        };
        let to = match &base {
            Some((variable, Ok(url))) => Some(self.gateway(variable, url)),
            _ => None,
        };
        if self.is_given(provider) {
            return Ok(());
        }
        let own = |entry: &&Entry| {
            provider::named(entry.name.as_str()).is_some_and(|named| named.name == provider.name)
        };
        if let Some(entry) = self.caller.secrets.iter().find(own) {
            // One that is bound to no host has no phantom.
            if !entry.to.is_empty() || !provider.hosts.is_empty() {
                self.grant(&entry.name);
            }
            return Ok(());
        }
        let set: Vec<&'static str> =
            provider.variables.iter().copied().filter(|name| self.variable(name).is_some()).collect();
        for (at, variable) in set.into_iter().enumerate() {
            if let Some((base, Err(unusable))) = &base {
                let (fact, remedy) = unusable.words();
                let fact =
                    format!("{base} {fact}, so {variable} ({}) cannot be bound to it", self.agent.origin);
                return Err(Refusal::policy("keys", fact, remedy));
            }
            if to.is_none() && provider.hosts.is_empty() {
                continue;
            }
            let name = if at == 0 {
                provider.name.to_owned()
            } else {
                variable.to_ascii_lowercase().replace('_', "-")
            };
            let (Ok(name), Ok(from)) =
                (SecretName::parse(&name), Reference::parse(&format!("env://{variable}")))
            else {
                continue;
            };
            self.grant(&name);
            self.out.secrets.push(Entry {
                name,
                from,
                to: match &to {
                    Some(to) => vec![to.clone()],
                    None => provider.hosts.iter().map(|host| (*host).to_owned()).collect(),
                },
                places: provider.places.to_vec(),
                aws: None,
                variable: Some(variable.to_owned()),
                created: None,
            });
        }
        Ok(())
    }

    /// Whether the user has already said how the agent gets this credential: a secret by name, or the value itself.
    fn is_given(&self, provider: &Provider) -> bool {
        let has = |variable: &str| provider.variables.contains(&variable);
        let inherited = self.effective.names(Id::InheritCredentials).iter().any(|name| has(&name.value));
        let granted = self.effective.names(Id::Secrets).iter().any(|text| {
            let Ok(Grant { name, .. }) = Grant::parse(&text.value) else { return false };
            let known = self.caller.secrets.iter().find(|entry| entry.name == name);
            let by_variable = known.and_then(|entry| entry.variable.as_deref()).is_some_and(has);
            by_variable || provider::named(name.as_str()).is_some_and(|named| named.name == provider.name)
        });
        inherited || granted
    }

    /// What a variable says inside: the policy's word, or the caller's.
    fn base_url(
        &mut self,
        variable: &'static str,
    ) -> Result<Option<Result<BaseUrl, super::Unusable>>, Refusal> {
        let set = match self.effective.get(Id::EnvSet) {
            Some(Value::Map(map)) => map.value.iter().find(|line| line.value.0 == variable),
            _ => None,
        };
        if let Some(line) = set {
            return Ok(Some(BaseUrl::parse(&line.value.1)));
        }
        let Some(value) = self.variable(variable) else { return Ok(None) };
        let read = std::str::from_utf8(value).map_err(|_| super::Unusable::NotAUrl).and_then(BaseUrl::parse);
        self.add(Id::EnvPass, variable.to_owned(), self.agent.origin.clone());
        Ok(Some(read))
    }

    /// Lets the agent reach a base URL. The rule that its key is bound to.
    fn gateway(&mut self, variable: &'static str, url: &BaseUrl) -> String {
        let origin = Origin::Variable { variable: variable.to_owned() };
        if !self.out.gateways.contains(url) {
            self.out.gateways.push(url.clone());
        }
        match url.rule() {
            Some(rule) => {
                self.add(Id::NetAllow, rule.to_string(), origin);
                rule.to_string()
            }
            None => {
                self.add(Id::NetReach, url.port.to_string(), origin);
                format!("{THIS_MACHINE}:{}", url.port)
            }
        }
    }

    fn path(&mut self, variable: &str, access: Access) -> Result<(), Refusal> {
        let Some(value) = self.variable(variable) else { return Ok(()) };
        let path = PathBuf::from(OsStr::from_bytes(value));
        let (id, purpose) = match access {
            Access::Read => (Id::FilesRead, PathUse::Read),
            Access::Write => (Id::FilesWrite, PathUse::Write),
        };
        checks::path(variable, &path, purpose, Writer::Flag)
            .map_err(|Unfit { fact, remedy }| Refusal::policy("paths", fact, &remedy))?;
        let origin = Origin::Variable { variable: variable.to_owned() };
        let mut list = match self.effective.take(id) {
            Some(Value::Paths(list)) => list,
            _ => At::outside(Vec::new(), origin.clone()),
        };
        if !list.value.iter().any(|known| known.value == path) {
            list.value.push(At::outside(path, origin));
        }
        self.effective.put(id, Value::Paths(list));
        self.add(Id::EnvPass, variable.to_owned(), self.agent.origin.clone());
        self.move_tools(variable, OsStr::from_bytes(value));
        Ok(())
    }

    /// What the tools have of the directory that a variable moves, they have of the one that it names as well.
    fn move_tools(&mut self, variable: &str, to: &OsStr) {
        let Some(folder) = tools::folder_of(variable) else { return };
        for id in [Id::ToolsRead, Id::ToolsShare] {
            let Some(Value::Paths(mut list)) = self.effective.take(id) else { continue };
            let below = |path: &At<PathBuf>| {
                Some(path.value.strip_prefix("~").ok()?.strip_prefix(folder).ok()?.to_owned())
            };
            let moved: Vec<PathBuf> = list.value.iter().filter_map(below).collect();
            for rest in moved {
                let origin = Origin::Variable { variable: variable.to_owned() };
                list.value.push(At::outside(Path::new(to).join(rest), origin));
            }
            self.effective.put(id, Value::Paths(list));
        }
    }

    fn grant(&mut self, name: &SecretName) {
        self.add(Id::Secrets, name.to_string(), self.agent.origin.clone());
    }

    /// Adds to a list what it does not have yet.
    fn add(&mut self, id: Id, text: String, origin: Origin) {
        let mut list = match self.effective.take(id) {
            Some(Value::Names(list)) => list,
            _ => At::outside(Vec::new(), origin.clone()),
        };
        if !list.value.iter().any(|known| known.value == text) {
            list.value.push(At::outside(text, origin));
        }
        self.effective.put(id, Value::Names(list));
    }

    /// The caller's value of a variable, unless it is empty. As `getenv`, the first one counts.
    fn variable(&self, name: &str) -> Option<&'a [u8]> {
        let mut entries = self.caller.environment.iter();
        let value = entries.find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
        (!value.is_empty()).then_some(value)
    }
}
