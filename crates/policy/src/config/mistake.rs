//! What can be wrong with a policy, in two lines each: the fact, then what to do.

use crate::detect::registry;
use crate::plan::Refusal;
use crate::trouble::{Code, Trouble};
use crate::words::Origin;
use serde::Serialize;
use std::fmt;

/// A policy that could not be resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyError {
    /// What is written cannot be read as a policy. A usage error.
    Mistakes(Vec<Mistake>),
    /// What is asked for is more than the administrator allows. A refusal.
    Beyond(Box<BeyondCeiling>),
    /// What the agent's profile finds in the caller's environment cannot be used. A refusal.
    Refused(Refusal),
    /// The chosen profile does not exist. A usage error.
    UnknownProfile {
        name: String,
        nearest: Option<String>,
        known: Vec<String>,
        /// The user's policy file, if there is one.
        file: Option<String>,
    },
}

/// One mistake at one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mistake {
    /// The file, or the flag.
    pub file: String,
    /// From 1; 0 where `file` is a flag.
    pub line: usize,
    /// In characters, from 1; 0 where `file` is a flag.
    pub column: usize,
    pub fact: String,
    pub remedy: String,
}

/// A value that the ceiling does not allow, and both places.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BeyondCeiling {
    pub key: &'static str,
    /// The value asked for, as it would be written.
    pub asked: String,
    pub origin: Origin,
    /// What the ceiling says of this key, as it would be written.
    pub allowed: String,
    pub ceiling: Origin,
}

/// Why a value does not fit, before its place is known: the fact, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    pub fact: String,
    pub remedy: String,
}

impl Unfit {
    pub fn new(fact: impl Into<String>, remedy: impl Into<String>) -> Self {
        Unfit { fact: fact.into(), remedy: remedy.into() }
    }

    /// As a mistake in a flag of the command line.
    pub fn in_flag(self, flag: &str) -> Mistake {
        Mistake { file: flag.to_owned(), line: 0, column: 0, fact: self.fact, remedy: self.remedy }
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n{}", self.fact, self.remedy)
    }
}

impl std::error::Error for Unfit {}

impl Mistake {
    /// The place with the fact, and what to do.
    fn lines(&self) -> (String, &str) {
        let Mistake { file, line, column, fact, remedy } = self;
        match line {
            0 => (format!("{file}: {fact}"), remedy),
            _ => (format!("{file}:{line}:{column}: {fact}"), remedy),
        }
    }

    /// All mistakes of a file as one: the first, and below its remedy the others.
    pub fn trouble(mistakes: &[Mistake]) -> Trouble {
        let all: Vec<(String, &str)> = mistakes.iter().map(Mistake::lines).collect();
        let (first, others) =
            all.split_first().map_or(("", &[][..]), |(first, others)| (first.0.as_str(), others));
        let mut remedy = all.first().map_or("", |(_, remedy)| *remedy).to_owned();
        for (fact, next) in others {
            remedy += &format!("\n{fact}\n{next}");
        }
        Trouble::new(Code::PolicyMistake, first, remedy)
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (fact, remedy) = self.lines();
        write!(f, "{fact}\n{remedy}")
    }
}

impl BeyondCeiling {
    fn fact(&self) -> String {
        let BeyondCeiling { key, asked, origin, allowed, ceiling } = self;
        format!("{key} = {asked} ({origin}) is beyond the ceiling: {key} = {allowed} ({ceiling})")
    }
}

impl From<PolicyError> for Trouble {
    fn from(error: PolicyError) -> Self {
        match error {
            PolicyError::Mistakes(mistakes) => Mistake::trouble(&mistakes),
            PolicyError::Beyond(beyond) => Trouble::new(
                Code::BeyondCeiling,
                beyond.fact(),
                "ask for no more than the ceiling allows; only the administrator can raise it",
            ),
            PolicyError::Refused(refusal) => (&refusal).into(),
            PolicyError::UnknownProfile { name, nearest, known, file } => {
                let name = quoted(&name);
                let fact = match &file {
                    None => format!("there is no profile {name}"),
                    Some(file) => format!("{file} has no profile {name}"),
                };
                let remedy = match (file, nearest, known.as_slice()) {
                    (_, Some(nearest), _) => format!("did you mean {}", quoted(&nearest)),
                    (_, None, []) => {
                        "add it under `[profiles.NAME]` of your policy file; `keyward policy schema` describes it"
                            .to_owned()
                    }
                    (None, None, known) => format!(
                        "choose one of {}, or write your own: `keyward policy schema` describes the file",
                        listed(known)
                    ),
                    (Some(_), None, known) => {
                        format!("choose one of {}, or add it under `[profiles.NAME]`", listed(known))
                    }
                };
                Trouble::new(Code::UnknownProfile, fact, remedy)
            }
        }
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Trouble { fact, remedy, .. } = Trouble::from(self.clone());
        write!(f, "{fact}\n{remedy}")
    }
}

impl std::error::Error for PolicyError {}

impl From<Unfit> for Trouble {
    fn from(Unfit { fact, remedy }: Unfit) -> Self {
        Trouble { code: Code::Usage, fact, remedy }
    }
}

/// Text from outside, made safe for a terminal and short enough for a line. What looks like a credential is not shown.
pub fn quoted(text: &str) -> String {
    const SHOWN: usize = 60;
    if let Some(label) = registry::value_shape(text.as_bytes()) {
        return format!("(not shown: {label})");
    }
    let mut out = String::from("\"");
    for (at, character) in text.chars().enumerate() {
        if at == SHOWN {
            out.push('…');
            break;
        }
        match character {
            '\'' => out.push('\''),
            other => out.extend(other.escape_debug()),
        }
    }
    out.push('"');
    out
}

/// Several of them in a row.
pub fn listed<T: AsRef<str>>(texts: &[T]) -> String {
    const SHOWN: usize = 12;
    let mut out: Vec<String> = texts.iter().take(SHOWN).map(|text| quoted(text.as_ref())).collect();
    if texts.len() > SHOWN {
        out.push("…".to_owned());
    }
    out.join(", ")
}
