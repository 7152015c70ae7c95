//! What a question can be about: the few fields of a line by which events are picked.

use crate::time;
use keyward_policy::event::{is_denial, session_name};
use serde::Deserialize;
use std::borrow::Cow;

/// The fields, borrowed from the line where they hold nothing that is escaped.
#[derive(Deserialize)]
pub struct Gist<'a> {
    #[serde(borrow, default)]
    time: Cow<'a, str>,
    #[serde(borrow, default)]
    pub run: Cow<'a, str>,
    #[serde(borrow, default)]
    event: Cow<'a, str>,
    #[serde(borrow, default)]
    session: Cow<'a, str>,
    #[serde(borrow, default)]
    name: Cow<'a, str>,
    #[serde(borrow, default)]
    secret: Cow<'a, str>,
    #[serde(borrow, default)]
    answer: Cow<'a, str>,
    #[serde(borrow, default)]
    secrets: Vec<Given<'a>>,
}

#[derive(Deserialize)]
struct Given<'a> {
    #[serde(borrow, default)]
    name: Cow<'a, str>,
}

impl<'a> Gist<'a> {
    /// Reads a line; one that is no event has no gist.
    pub fn read(line: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }

    /// Milliseconds since 1970; 0 for what is no time.
    pub fn time(&self) -> u64 {
        time::parse(&self.time).unwrap_or(0)
    }

    pub fn is_denial(&self) -> bool {
        is_denial(&self.event, Some(&*self.answer).filter(|answer| !answer.is_empty()))
    }

    pub fn is_of_the_network(&self) -> bool {
        self.event.starts_with("net-")
    }

    pub fn session(&self) -> Option<&str> {
        Some(session_name(&self.session)).filter(|name| !name.is_empty())
    }

    /// Secrets that a process could read because of this event, or whose fate it reports.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        let named = match &*self.event {
            "secret" | "printed" | "reveal" => &*self.name,
            _ => &*self.secret,
        };
        let given = self.secrets.iter().map(|given| &*given.name);
        given.chain(Some(named)).filter(|name| !name.is_empty())
    }

    /// Whether this is where a run says which command it is.
    pub fn is_spawn(&self) -> bool {
        self.event == "spawn"
    }
}

/// Which events are asked for. Everything that is said has to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub denied: bool,
    /// Only events of the network.
    pub net: bool,
    pub session: Option<String>,
    pub secret: Option<String>,
    /// Milliseconds since 1970.
    pub since: Option<u64>,
}

impl Filter {
    pub fn takes(&self, gist: &Gist<'_>) -> bool {
        (!self.denied || gist.is_denial())
            && (!self.net || gist.is_of_the_network())
            && self.session.as_deref().is_none_or(|name| gist.session() == Some(name))
            && self.secret.as_deref().is_none_or(|name| gist.secrets().any(|secret| secret == name))
            && self.since.is_none_or(|since| gist.time() >= since)
    }

    pub fn takes_all(&self) -> bool {
        *self == Filter::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn takes(filter: Filter, line: &str) -> bool {
        filter.takes(&Gist::read(line.as_bytes()).unwrap())
    }

    #[test]
    fn events_are_picked_by_what_they_are_about() {
        let secret = || Filter { secret: Some("a".into()), ..Filter::default() };
        assert!(takes(secret(), r#"{"event":"reveal","name":"a"}"#));
        assert!(takes(secret(), r#"{"event":"spawn","secrets":[{"name":"b"},{"name":"\u0061"}]}"#));
        // The name of a function is no secret's.
        assert!(!takes(secret(), r#"{"event":"call","name":"a"}"#));
        let session = || Filter { session: Some("s".into()), ..Filter::default() };
        assert!(takes(session(), r#"{"event":"job","session":"s"}"#));
        assert!(takes(session(), r##"{"event":"denied","session":"s#1-2"}"##));
        assert!(!takes(session(), r#"{"event":"job","session":"s2"}"#) && !takes(session(), "{}"));
        let denied = || Filter { denied: true, ..Filter::default() };
        assert!(takes(denied(), r#"{"event":"refused"}"#) && !takes(denied(), r#"{"event":"spawn"}"#));
        assert!(takes(denied(), r#"{"event":"answered","answer":"deny"}"#));
        let since = || Filter { since: Some(1_000), ..Filter::default() };
        assert!(takes(since(), r#"{"time":"1970-01-01T00:00:01.000Z"}"#));
        assert!(!takes(since(), r#"{"time":"1970-01-01T00:00:00.999Z"}"#));
    }
}
