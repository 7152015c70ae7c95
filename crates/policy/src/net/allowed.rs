//! What a policy allows of the network: a rule, or a preset by its name.

use super::presets::{self, Preset};
use super::rule::{Protocol, Rule};
use crate::config::Unfit;
use std::fmt;

/// One entry of `net.allow`, or of `--allow-net`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowed {
    Rule(Rule),
    Preset(&'static Preset),
}

impl Allowed {
    /// Reads an entry. A preset is a word without a dot, so that no host of the Internet is taken for one.
    pub fn parse(text: &str) -> Result<Allowed, Unfit> {
        match presets::named(text) {
            Some(preset) => Ok(Allowed::Preset(preset)),
            None => Rule::parse(text).map(Allowed::Rule),
        }
    }

    /// Whether everything that `other` allows is allowed by this entry as well.
    pub fn includes(&self, other: &Allowed) -> bool {
        match (self, other) {
            (own, other) if own == other => true,
            (Allowed::Rule(own), Allowed::Rule(other)) => includes(own, other),
            (Allowed::Preset(own), Allowed::Rule(other)) => {
                own.rules(&presets::Registries::default()).iter().any(|(own, _)| includes(own, other))
            }
            (own @ Allowed::Rule(_), Allowed::Preset(other)) => {
                let rules = other.rules(&presets::Registries::default());
                rules.into_iter().all(|(rule, _)| own.includes(&Allowed::Rule(rule)))
            }
            (Allowed::Preset(_), Allowed::Preset(_)) => false,
        }
    }
}

/// Whether everything that the second allows is allowed by the first.
fn includes(own: &Rule, other: &Rule) -> bool {
    let path = match (&own.path, &other.path) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(own), Some(other)) => own.includes(other),
    };
    let protocol =
        own.protocol == other.protocol || (own.protocol == Protocol::Tcp && own.port == other.port);
    path && protocol
        && own.host.includes(&other.host)
        && own.method.as_ref().is_none_or(|method| Some(method) == other.method.as_ref())
        && other.ports().all(|port| own.ports().any(|own| own == port))
}

impl fmt::Display for Allowed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Allowed::Rule(rule) => rule.fmt(formatter),
            Allowed::Preset(preset) => formatter.write_str(preset.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ceiling_includes_what_is_narrower() {
        let read = |text: &str| Allowed::parse(text).unwrap();
        for (ceiling, asked, included) in [
            ("*.github.com", "api.github.com", true),
            ("*.github.com", "github.com", false),
            ("api.example.com", "GET api.example.com/v1/*", true),
            ("GET api.example.com/v1/*", "GET api.example.com/v1/models", true),
            ("GET api.example.com/v1/*", "api.example.com/v1/models", false),
            ("GET api.example.com/*/x", "GET api.example.com/a/x", true),
            ("GET api.example.com/*/x", "GET api.example.com/a/*", false),
            ("api.example.com:443", "api.example.com", false),
            ("api.example.com", "api.example.com:443", true),
            ("api.example.com", "tcp://api.example.com:443", false),
            ("tcp://db.example:5432", "db.example:5432", true),
            ("npm", "npm", true),
            ("npm", "registry.npmjs.org", true),
            ("npm", "pypi", false),
            ("*.gitlab.com", "gitlab", false),
        ] {
            assert_eq!(read(ceiling).includes(&read(asked)), included, "{ceiling} {asked}");
        }
    }
}
