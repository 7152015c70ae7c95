//! Agents that one command protects: `keyward claude` is `keyward run -p claude -- claude`, and nothing has to be written first.
//!
//! Each agent is one file: `profiles/NAME.toml` of the repository, which `build/agents.rs` compiles in, or a user's own
//! `$XDG_CONFIG_HOME/keyward/profiles/NAME.toml` in the same format. One reader ([`read`]) reads both. Its `[policy]` table is a layer below
//! the user's policy file; what depends on the caller's environment is added by `keys`. What it says about the agent's own files and keys
//! (`described`) holds for every run: it is compiled in, or adopted at the start of the process (`own`). Pure: the caller has read the files.

mod base_url;
pub(crate) mod described;
mod keys;
pub mod own;
mod read;

pub use base_url::{BaseUrl, Unusable};
pub(crate) use keys::supply;
pub use read::read;

use crate::config::value::Values;
use crate::config::{Document, Mistake};
use crate::provider::{self, Provider};
use crate::request::Request;
use crate::secret::{Bound, Entry};
use crate::settings::Policy;
use crate::view::{OWN_LOGIN, View, Warning};
use crate::words::Origin;
use std::ffi::{OsStr, OsString};
use std::path::Path;

/// An agent, as its file describes it.
#[derive(Clone, Debug)]
pub struct Agent {
    /// The name of its profile.
    pub name: String,
    /// One line for people.
    pub about: String,
    /// What it is called on PATH.
    pub programs: Vec<String>,
    /// The command that installs it.
    pub install: Option<String>,
    /// The command that logs it in, outside.
    pub log_in: Option<String>,
    /// The providers whose credentials, where the caller has one, it holds as phantoms.
    pub keys: Vec<&'static Provider>,
    /// Variables of the caller's that name a file or directory it needs.
    pub paths: Vec<(String, Access)>,
    /// Arguments that switch its own sandbox off inside ours. They stand directly behind the program.
    pub arguments: Vec<String>,
    /// Keys that are handed over in another way than in their own variable.
    pub hands: Vec<Hand>,
    /// Where it finds the MCP servers that it starts.
    pub mcp: Vec<Spot>,
    /// Where it finds commands that it runs around its tool calls.
    pub hooks: Vec<Spot>,
    /// Whether it is compiled in.
    pub is_builtin: bool,
    /// Where `keys` and `paths` stand.
    pub origin: Origin,
    pub(crate) values: Values,
}

/// What the caller has.
#[derive(Clone, Copy, Default)]
pub struct Caller<'a> {
    /// Raw `NAME=value` entries.
    pub environment: &'a [&'a [u8]],
    /// The user's secrets.
    pub secrets: &'a [Entry],
}

/// What a path that a variable names is granted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Read,
    Write,
}

/// How the phantom of a provider's key is handed to the agent itself, if its own variable does not do: an agent may ask about each key that
/// it has not seen, and a phantom is new in each run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hand {
    pub provider: &'static str,
    /// The variable that holds the phantom instead.
    pub variable: String,
    /// The arguments that lead the agent there. They take the place of the usual ones.
    pub arguments: Vec<String>,
}

/// A part of a settings file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    /// Begins with `~/` for the user's own; otherwise it is relative to the project.
    pub path: String,
    pub format: Format,
    /// The key below which it stands, with dots.
    pub key: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Json,
    Toml,
    Yaml,
}

/// How the agent of a policy is started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Command {
    pub programs: Vec<String>,
    pub arguments: Vec<String>,
    pub hands: Vec<Hand>,
    pub log_in: Option<String>,
    /// The variable of the first of its keys.
    pub variable: Option<&'static str>,
}

impl Agent {
    /// How it is started.
    pub fn command(&self) -> Command {
        Command {
            programs: self.programs.clone(),
            arguments: self.arguments.clone(),
            hands: self.hands.clone(),
            log_in: self.log_in.clone(),
            variable: self.keys.first().and_then(|provider| provider.variables.first().copied()),
        }
    }
}

impl Command {
    /// Whether a command is the agent itself.
    pub fn is_started_by(&self, argv: &[OsString]) -> bool {
        let name = argv.first().map(|program| Path::new(program).file_name().unwrap_or(program));
        self.programs.iter().any(|own| Some(OsStr::new(own)) == name)
    }

    /// The arguments of a command with those that switch the agent's own sandbox off, if the command is the agent. They stand before the
    /// user's, which therefore win. Phantoms that the agent would not take from their own variable are put where it does.
    pub fn start(&self, argv: &[OsString], phantoms: &mut [Bound]) -> Vec<OsString> {
        let Some((program, rest)) = argv.split_first().filter(|_| self.is_started_by(argv)) else {
            return argv.to_vec();
        };
        let mut arguments = &self.arguments;
        for hand in self.hands.iter().filter(|hand| !hand.is_taken(rest)) {
            if let Some(bound) = phantoms.iter_mut().find(|bound| hand.is_for(bound)) {
                bound.variables = vec![hand.variable.clone()];
                arguments = &hand.arguments;
            }
        }
        let own = arguments.iter().map(OsString::from);
        [program.clone()].into_iter().chain(own).chain(rest.iter().cloned()).collect()
    }
}

impl Hand {
    /// Whether the user's own arguments have the option that this one needs: theirs would win, and the agent would find no key.
    fn is_taken(&self, rest: &[OsString]) -> bool {
        let Some(option) = self.arguments.first() else { return false };
        let is_option = |word: &OsString| {
            let after = word.as_encoded_bytes().strip_prefix(option.as_bytes());
            after.is_some_and(|after| after.is_empty() || after.starts_with(b"="))
        };
        rest.iter().any(is_option)
    }

    /// Whether this is the phantom of its provider, in a variable of the provider's.
    fn is_for(&self, bound: &Bound) -> bool {
        let Some(provider) = provider::named(self.provider) else { return false };
        let has = |variable: &String| provider.variables.contains(&variable.as_str());
        bound.provider == Some(provider.name) && bound.variables.iter().all(has)
    }
}

/// An agent with nothing to log in with: what it advises itself does not work in a cage.
pub(crate) fn nothing_to_log_in_with(
    policy: &Policy,
    request: &Request<'_>,
    view: &View,
    phantoms: &[Bound],
) -> Option<Warning> {
    let agent = policy.agent.as_ref().filter(|agent| agent.is_started_by(&request.argv))?;
    let (log_in, name) = (agent.log_in.as_ref()?, agent.programs.first()?);
    let has_something = !phantoms.is_empty()
        || !policy.inherit_credentials.is_empty()
        || !policy.network.gateways.is_empty()
        || view.notes.iter().any(|note| note.starts_with(OWN_LOGIN));
    (!has_something).then(|| Warning {
        fact: format!("{name} has neither a key nor a login in this cage"),
        remedy: match agent.variable {
            Some(variable) => format!("log in outside with `{log_in}`, or set {variable}"),
            None => format!("log in outside with `{log_in}`"),
        },
        lasting: true,
    })
}

mod table {
    include!(concat!(env!("OUT_DIR"), "/agents.rs"));
}

/// The names of the built-in profiles, in the order of the alphabet.
pub fn builtin() -> impl Iterator<Item = &'static str> {
    table::FILES.iter().map(|(name, _)| *name)
}

/// The built-in profile of this name.
pub fn builtin_named(name: &str) -> Option<Result<Agent, Vec<Mistake>>> {
    let (name, text) = table::FILES.iter().find(|(known, _)| *known == name)?;
    let document = Document { name: "built-in profile", text: text.as_bytes() };
    Some(read::read_as(name, &document, Some(name)))
}

#[cfg(test)]
mod tests;
