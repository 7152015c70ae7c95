//! The words of a judgement.

use keyward_policy::words::Verdict;
use serde::Serialize;

/// In which language a script is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Language {
    #[serde(rename = "sh")]
    Shell,
    #[serde(rename = "python")]
    Python,
    #[serde(rename = "js")]
    JavaScript,
}

impl Language {
    /// As it is written in rules and on the command line.
    pub fn from_word(word: &str) -> Option<Self> {
        match word {
            "sh" => Some(Language::Shell),
            "python" => Some(Language::Python),
            "js" => Some(Language::JavaScript),
            _ => None,
        }
    }
}

/// Bytes of the source, the end not included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub start: usize,
    pub end: usize,
}

impl Span {
    pub fn new(start: usize, end: usize) -> Self {
        Span { start, end: end.max(start) }
    }
}

impl Serialize for Span {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (self.start, self.end).serialize(serializer)
    }
}

/// A file that the command would run, and that nobody has looked at yet: whoever can read it has it judged too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ScriptWanted {
    /// As it is written. `~` stands for HOME; what is relative begins where the command starts.
    #[serde(serialize_with = "lossy")]
    pub path: Vec<u8>,
    /// Absent where only its first line tells.
    pub language: Option<Language>,
}

fn lossy<S: serde::Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&String::from_utf8_lossy(bytes))
}

/// The verdict on a script, and the part that caused it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Judgement {
    pub verdict: Verdict,
    /// The rule that decided; absent where everything is allowed.
    pub rule: Option<String>,
    pub class: Option<String>,
    /// Where in the source. For arguments: in the arguments, joined with single spaces.
    pub span: Option<Span>,
    /// A sentence for the user.
    pub reason: String,
    /// Scripts that this one starts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scripts: Vec<ScriptWanted>,
}

impl Judgement {
    /// One line of JSON, with its version.
    pub fn json(&self) -> String {
        #[derive(Serialize)]
        struct Versioned<'a> {
            v: u8,
            #[serde(flatten)]
            judgement: &'a Judgement,
        }
        // Strings and numbers alone: there is nothing that cannot be written.
        serde_json::to_string(&Versioned { v: 1, judgement: self }).unwrap_or_default()
    }
}
