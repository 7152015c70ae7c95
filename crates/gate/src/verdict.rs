//! The words of a judgement.

pub use keyward_policy::loss::{Loss, Lost, WrittenOver};
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

/// A loss, and what is said of the command if the work is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weighed {
    pub loss: Loss,
    pub verdict: Verdict,
    pub rule: String,
    pub class: String,
    pub reason: String,
    pub span: Span,
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
    /// What is not in the verdict yet, because it depends on the work that is there.
    #[serde(skip)]
    pub losses: Vec<Weighed>,
}

impl Judgement {
    /// One line of JSON, with its version.
    pub fn json(&self) -> String {
        self.json_beside(None)
    }

    /// The same, with the stricter verdict of a cage that reaches further.
    pub fn json_beside(&self, elsewhere: Option<&Judgement>) -> String {
        #[derive(Serialize)]
        struct Versioned<'a> {
            v: u8,
            #[serde(flatten)]
            judgement: &'a Judgement,
            #[serde(skip_serializing_if = "Option::is_none")]
            elsewhere: Option<&'a Judgement>,
        }
        // Strings and numbers alone: there is nothing that cannot be written.
        serde_json::to_string(&Versioned { v: 1, judgement: self, elsewhere }).unwrap_or_default()
    }

    /// The judgement once it is known which losses there are.
    pub fn settled(mut self, mut lost: impl FnMut(&Loss) -> Lost) -> Judgement {
        for Weighed { loss, verdict, rule, class, reason, span } in std::mem::take(&mut self.losses) {
            let is_stricter = verdict > self.verdict;
            if let Some(lost) = is_stricter.then(|| lost(&loss)).filter(|lost| *lost != Lost::Nothing) {
                let reason = lost.sentence().map_or(reason, str::to_owned);
                let (rule, class, span) = (Some(rule), Some(class), Some(span));
                self = Judgement { verdict, rule, class, reason, span, ..self };
            }
        }
        self
    }
}
