//! What is typed behind an argument, turned into its final type.

use super::InitWhat;
use clap::Arg;
use clap::builder::{PossibleValue, TypedValueParser};
use keyward_gate::Language;
use keyward_ledger::Kept;
use keyward_policy::config::{no_namespaces, parse_duration, parse_size};
use keyward_policy::hook::Agent;
use keyward_policy::words::{Allowance, Floor, GateMode, HomeMode, NetMode, Protect, Redact, TrustClass};
use std::ffi::OsStr;
use std::time::Duration;

/// One of a few words, which a shell can offer.
#[derive(Clone)]
pub struct OneOf<T: 'static> {
    all: &'static [&'static str],
    parse: fn(&str) -> Option<T>,
}

impl<T: Clone + Send + Sync> TypedValueParser for OneOf<T> {
    type Value = T;

    fn parse_ref(&self, command: &clap::Command, arg: Option<&Arg>, value: &OsStr) -> Result<T, clap::Error> {
        let (all, parse) = (self.all, self.parse);
        let word = move |text: &str| {
            parse(text)
                .ok_or_else(|| refused(all, text).unwrap_or(format!("expected one of: {}", all.join(", "))))
        };
        TypedValueParser::parse_ref(&word, command, arg, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.all.iter().map(PossibleValue::new)))
    }
}

/// Why a word that one may expect is refused.
fn refused(all: &[&str], text: &str) -> Option<String> {
    let is_allowance = all.contains(&Allowance::Ptrace.as_str());
    (is_allowance && text == "userns").then(|| {
        let unfit = no_namespaces();
        format!("{}; {}", unfit.fact, unfit.remedy)
    })
}

pub const ALLOW: OneOf<Allowance> = OneOf { all: &["ptrace", "gpu"], parse: Allowance::parse };
pub const AGENT: OneOf<Agent> =
    OneOf { all: &["claude-code", "codex", "gemini", "hermes", "opencode"], parse: Agent::of_word };
pub const INIT: OneOf<InitWhat> =
    OneOf { all: &["claude-code", "codex", "gemini", "hermes", "opencode", "mcp"], parse: InitWhat::of_word };
pub const TRUST: OneOf<TrustClass> =
    OneOf { all: &["internal", "executor", "tool", "unknown"], parse: TrustClass::parse };
pub const FLOOR: OneOf<Floor> = OneOf { all: &["full", "landlock"], parse: Floor::parse };
pub const HOME: OneOf<HomeMode> = OneOf { all: &["real", "profile", "empty"], parse: HomeMode::parse };
pub const PROTECT: OneOf<Protect> = OneOf { all: &["notice", "strict"], parse: Protect::parse };
pub const LANGUAGE: OneOf<Language> = OneOf { all: &["sh", "python", "js"], parse: Language::from_word };
pub const REDACT: OneOf<Redact> = OneOf { all: &["off", "on"], parse: Redact::parse };
pub const GATE: OneOf<GateMode> =
    OneOf { all: &["ask", "deny", "auto", "judge", "yolo"], parse: GateMode::parse };
pub const NET: OneOf<NetMode> = OneOf { all: &["none", "rules", "open"], parse: NetMode::parse };

/// A duration on the command line. A number alone means seconds, as it does to `timeout` and `sleep`; in a file the unit has to be written.
pub fn duration(text: &str) -> Result<Duration, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { parse_duration(&format!("{text}s")) } else { parse_duration(text) }
}

/// How long a grant may hold.
pub fn grant_time(text: &str) -> Result<Duration, String> {
    const DAY: Duration = Duration::from_secs(86_400);
    let time = parse_duration(text)?;
    if (Duration::from_secs(1)..=30 * DAY).contains(&time) {
        return Ok(time);
    }
    Err("a grant lasts 1s to 30d; make a new one when it has expired".into())
}

/// A moment, as milliseconds since 1970: so long ago, or a date.
pub fn since(text: &str) -> Result<u64, String> {
    if let Ok(ago) = parse_duration(text) {
        let ago = u64::try_from(ago.as_millis()).unwrap_or(u64::MAX);
        return Ok(keyward_ledger::milliseconds().saturating_sub(ago));
    }
    keyward_ledger::parse(text)
        .ok_or_else(|| "expected a time such as 1h, 2026-01-31 or 2026-01-31T12:00:00Z".to_owned())
}

pub fn head(text: &str) -> Result<Kept, String> {
    Kept::read(text).ok_or_else(|| "expected the 64 digits that `keyward log head` prints".to_owned())
}

pub fn size(text: &str) -> Result<u64, String> {
    parse_size(text)
}
