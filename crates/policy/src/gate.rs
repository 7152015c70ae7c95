//! What becomes of a verdict, and what a person is asked.
//!
//! [`decide`] is the one function of modes, denials, grants and operators; `docs/gate.md` shows its whole table, and a test
//! compares the two.

use crate::words::{GateMode, Ruled, Verdict};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// How far an answer to a question reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reach {
    /// The command that waits; a no in a session counts there for all of its rule.
    #[default]
    Once,
    /// The very same command, as long as its session lives.
    Session,
    /// The project: yes for an hour to the very same command, no for good to everything of the same rule.
    Project,
}

impl Reach {
    pub fn is_once(&self) -> bool {
        *self == Reach::Once
    }
}

/// Everything that the decision needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Situation {
    pub mode: GateMode,
    pub verdict: Verdict,
    /// A person has said no to the same kind of thing in this session, or never in this project.
    pub denied_before: bool,
    /// A person has said yes beforehand: to the very same bytes, or to the class.
    pub granted: bool,
    /// An approver is available.
    pub attended: bool,
    /// What the judge has said; `None` where it was not asked, or has failed.
    pub opinion: Option<Opinion>,
    /// What came of asking; `None` before.
    pub answer: Option<Answer>,
}

/// What an external judge says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Opinion {
    Allow,
    /// Another approver has to decide. A judge that fails counts as this.
    Ask,
    Deny,
}

/// The answer of an approver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Yes,
    No,
    /// No approver answered in time.
    Timeout,
    /// The one who was asked is gone.
    Lost,
    /// No approver was asked: too many questions are pending.
    Crowded,
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step {
    Go(Because),
    AskJudge,
    AskOperator,
    Refuse(Because),
}

/// Why something goes on, or does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Because {
    /// Nothing in it reaches past the cage.
    Harmless,
    /// The hard floor.
    Forbidden,
    /// A rule denies it.
    Rule,
    /// The mode asks nothing.
    Yolo,
    /// The mode refuses what would be asked.
    Mode,
    Grant,
    Judge,
    Operator,
    DeniedBefore,
    Unattended,
    Timeout,
    Lost,
    Crowded,
}

impl Because {
    pub const fn as_str(self) -> &'static str {
        match self {
            Because::Harmless => "harmless",
            Because::Forbidden => "forbidden",
            Because::Rule => "rule",
            Because::Yolo => "yolo",
            Because::Mode => "mode",
            Because::Grant => "grant",
            Because::Judge => "judge",
            Because::Operator => "operator",
            Because::DeniedBefore => "denied-before",
            Because::Unattended => "unattended",
            Because::Timeout => "timeout",
            Because::Lost => "lost",
            Because::Crowded => "crowded",
        }
    }
}

/// The whole decision. What is missing to decide is asked for by the step it gives.
pub fn decide(situation: &Situation) -> Step {
    let Situation { mode, verdict, denied_before, granted, attended, opinion, answer } = *situation;
    match (verdict, mode) {
        (Verdict::Forbid, _) => return Step::Refuse(Because::Forbidden),
        (Verdict::Allow, _) => return Step::Go(Because::Harmless),
        (_, GateMode::Yolo) => return Step::Go(Because::Yolo),
        (Verdict::Deny, _) => return Step::Refuse(Because::Rule),
        (Verdict::Ask, GateMode::Deny) => return Step::Refuse(Because::Mode),
        (Verdict::Ask, GateMode::Auto | GateMode::Ask | GateMode::Judge) => {}
    }
    if granted {
        return Step::Go(Because::Grant);
    }
    if denied_before {
        return Step::Refuse(Because::DeniedBefore);
    }
    if mode == GateMode::Judge {
        match opinion {
            None => return Step::AskJudge,
            Some(Opinion::Allow) => return Step::Go(Because::Judge),
            Some(Opinion::Deny) => return Step::Refuse(Because::Judge),
            Some(Opinion::Ask) => {}
        }
    }
    match (attended, answer) {
        (_, Some(Answer::Yes)) => Step::Go(Because::Operator),
        (_, Some(Answer::No)) => Step::Refuse(Because::Operator),
        (_, Some(Answer::Timeout)) => Step::Refuse(Because::Timeout),
        (_, Some(Answer::Lost)) => Step::Refuse(Because::Lost),
        (_, Some(Answer::Crowded)) => Step::Refuse(Because::Crowded),
        (false, None) => Step::Refuse(Because::Unattended),
        (true, None) => Step::AskOperator,
    }
}

/// What the gate makes of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GatePlan {
    pub mode: Ruled<GateMode>,
    /// What it says of the command; `None` until it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judged: Option<Judged>,
    /// The scripts that were judged with it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scripts: Vec<Script>,
}

/// What the gate says of a command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Judged {
    pub verdict: Verdict,
    pub rule: Option<String>,
    pub class: Option<String>,
    /// A sentence that says what it does.
    pub reason: String,
    /// Bytes of the words, joined by single blanks.
    pub span: Option<(usize, usize)>,
    /// The script in which it was found, if it was.
    pub script: Option<String>,
}

/// A script that a command starts. It runs as it was judged, or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Script {
    /// The way by which the command comes to it, absolute.
    #[serde(serialize_with = "crate::text::path")]
    pub way: PathBuf,
    /// Where it really lies.
    #[serde(serialize_with = "crate::text::path")]
    pub real: PathBuf,
    #[serde(skip)]
    pub text: Vec<u8>,
    /// The cage has its own copy of an approved script, which cannot be changed any more.
    pub pinned: bool,
}

impl AsRef<[u8]> for Script {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

impl Judged {
    /// One line: the verdict, why, and by which rule.
    pub fn sentence(&self) -> String {
        let rule = self.rule.as_ref().map_or_else(String::new, |rule| format!(" ({rule})"));
        let place = self.script.as_ref().map_or_else(String::new, |script| format!(" in {script}"));
        format!("{}{place}: {}{rule}", self.verdict, self.reason)
    }
}

/// A question to an approver, with everything that is needed to decide. Texts are as they would run: the code that
/// shows them makes invisible characters visible.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// The SHA-256, in hex, of everything that would run: an approval is for these bytes.
    pub digest: String,
    /// The run or the job that waits.
    pub run: String,
    pub session: Option<String>,
    pub profile: Option<String>,
    /// What a grant is bound to besides its class: project, profile and trust class, as a digest in hex.
    pub scope: String,
    pub project: String,
    pub cwd: String,
    /// The command, without what looks like a credential.
    pub argv: Vec<String>,
    pub rule: Option<String>,
    pub class: Option<String>,
    /// A sentence that says what it does.
    pub reason: String,
    /// The part of the first text that caused the question: bytes, the end not included.
    pub span: Option<(usize, usize)>,
    /// The command as it was judged, and each script that it starts.
    pub texts: Vec<Text>,
    /// Whether code in a cage has asked for it.
    pub from_inside: bool,
    /// What it gets besides the project, in words: the network, secrets, folders.
    #[serde(default)]
    pub given: Vec<String>,
}

impl Question {
    /// Whether it is about a host that a program waits for. No rule of the gate has such a name.
    pub fn is_about_a_host(&self) -> bool {
        self.rule.as_deref().is_some_and(|rule| rule.starts_with(HOST_RULE))
    }

    /// Whether it is about a login that would replace the user's. No rule of the gate has such a name.
    pub fn is_about_a_login(&self) -> bool {
        self.rule.as_deref().is_some_and(|rule| rule.starts_with(LOGIN_RULE))
    }

    /// What an approver is asked, in one line.
    pub fn headline(&self) -> String {
        if self.is_about_a_login() {
            let account = self.argv.get(2).map_or("another account", String::as_str);
            return format!(
                "be logged in as {} from now on?",
                crate::rendering::inline_up_to(account, LONGEST_HOST)
            );
        }
        if !self.is_about_a_host() {
            return "may this run?".to_owned();
        }
        let host = self.argv.get(1).map_or("the host", String::as_str);
        let time = if self.session.is_some() { "for this session" } else { "while this command runs" };
        format!("allow {} {time}?", crate::rendering::inline_up_to(host, LONGEST_HOST))
    }
}

/// How the rule of a question about a host begins; the rule of the network that a yes adds stands behind it.
pub const HOST_RULE: &str = "net.ask ";
/// How the rule of a question about a login begins; the account stands behind it.
pub const LOGIN_RULE: &str = "login as ";
/// The most characters of a host or an account in a headline. Names of the DNS are no longer than 253.
const LONGEST_HOST: usize = 260;

/// A text that would run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Text {
    /// `the command`, or the path of a script.
    pub name: String,
    /// Lossy where it is no UTF-8.
    pub text: String,
}
