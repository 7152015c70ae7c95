//! Events: what the ledger records. No value of any environment variable, and nothing in an argument that looks like a credential.

use crate::aftermath::Aftermath;
use crate::detect::registry;
use crate::env::{Environment, Rule};
use crate::gate::Because;
use crate::inputs::Inputs;
use crate::linux::cage::Cage;
use crate::plan::{Plan, Refusal, VERSION};
use crate::promise::{Held, Kept};
use crate::secret::Delivery;
use crate::text::visible;
use crate::words::{Floor, GateMode, NetMode, TrustClass, Verdict};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// One line of the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Event {
    pub v: u32,
    /// RFC 3339, UTC.
    pub time: String,
    /// The same for all events of one run.
    pub run: String,
    #[serde(flatten)]
    pub what: What,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub enum What {
    Spawn(Box<Spawn>),
    End(End),
    Refused {
        argv: Vec<String>,
        rule: String,
        fact: String,
    },
    /// The launcher of this run was killed; what it had still to do in the project was done by a later one.
    Recovered {
        folder: String,
        project: Aftermath,
    },
    /// The command was not started, or the launcher failed.
    Fault {
        fact: String,
    },
    /// A command is about to start in a session.
    Job(Job),
    JobEnd(JobEnd),
    /// A secret has reached a command, or was swapped for its token; how long its value was in the vault.
    Secret {
        name: String,
        delivery: Delivery,
        microseconds: u64,
    },
    /// A secret, or what looks like a vendor's token, stood in what the command printed, and was taken out.
    Printed {
        name: String,
        encoding: String,
        stream: u8,
        offset: u64,
    },
    /// What was looked for in the output is gone from the vault's memory.
    Forgotten {
        microseconds: u64,
    },
    /// A process used an invalid or already used token.
    TokenRefused {},
    /// The rules of the network denied something.
    NetDenied {
        host: String,
        port: u16,
        #[serde(skip_serializing_if = "Option::is_none")]
        method: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        fact: String,
        /// The flag that would allow it.
        #[serde(skip_serializing_if = "Option::is_none")]
        flag: Option<String>,
        times: u64,
    },
    /// A connection to a host was made.
    NetConnected {
        host: String,
        port: u16,
        /// Where it leads; absent for one through the proxy of the host.
        #[serde(skip_serializing_if = "Option::is_none")]
        address: Option<String>,
        rule: String,
    },
    /// A host that is allowed could not be reached.
    NetUnreached {
        host: String,
        port: u16,
        fact: String,
    },
    /// A secret was put in for its phantom, the first time for this host.
    NetSwapped {
        secret: String,
        host: String,
    },
    /// A host sent a secret back, and the command was given the phantom.
    NetEchoed {
        secret: String,
        host: String,
    },
    /// A phantom stood in the body of a request, and was taken out; the request went on without it.
    NetMasked {
        secret: String,
        host: String,
    },
    /// The tokens of a login were renewed through the proxy, and are in its file.
    NetRenewed {
        secret: String,
        host: String,
    },
    /// A running session was allowed to reach more.
    NetGranted {
        session: String,
        rules: Vec<String>,
        seconds: u64,
    },
    /// A host that no rule allows was asked about (`net.ask`), and allowed as long as the run or session lasts.
    NetAllowed {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
        rule: String,
        gate: Gate,
    },
    /// A program inside has logged in, and an approver has allowed that this login replaces the user's.
    LoginAllowed {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<String>,
        /// The file of the login.
        file: String,
        host: String,
        account: String,
        gate: Gate,
    },
    /// A person is about to be shown the value of a secret.
    Reveal {
        name: String,
    },
    /// The gate has refused a command, before it started.
    Denied(Box<Denied>),
    /// An approver is asked whether a command may run.
    Asked {
        /// The number of the approval.
        question: u64,
        digest: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        session: Option<String>,
        argv: Vec<String>,
        rule: Option<String>,
        class: Option<String>,
    },
    /// What came of asking. A yes is on the disk before the command starts.
    Answered {
        question: u64,
        digest: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        session: Option<String>,
        #[serde(rename = "answer", serialize_with = "answer")]
        allow: bool,
        by: By,
    },
    /// A person has said yes beforehand.
    Granted {
        grant: u64,
        /// Everything of this class; absent where it is for the very same bytes.
        #[serde(skip_serializing_if = "Option::is_none")]
        class: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        digest: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        session: Option<String>,
        uses: u32,
        /// RFC 3339, UTC.
        until: String,
    },
    /// A grant was used: this is on the disk before the command starts.
    GrantUsed {
        grant: u64,
        digest: String,
        uses_left: u32,
    },
    Revoked {
        grant: u64,
    },
    /// A function of an embedding program was called in a session; what was said is not written down.
    Call {
        session: String,
        name: String,
        from_inside: bool,
        #[serde(skip_serializing_if = "Option::is_none")]
        gate: Option<Gate>,
    },
    /// Events that were not written one by one, because a cage caused more of them than it may.
    LeftOut(LeftOut),
    /// A file of the ledger begins: what it goes on from, and what lies beside it without a chain.
    LedgerFile {
        before: Option<Before>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        unchained: Vec<Unchained>,
    },
    /// A writer was killed, or the host went down: what it left half written stands right before this line, and is not part of the chain.
    Torn {
        bytes: u64,
        digest: String,
    },
}

/// The end of the file of the ledger that came before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Before {
    pub file: String,
    pub seq: u64,
    pub digest: String,
}

/// A file without a chain: the record of an earlier version, or one whose first line was cut off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unchained {
    pub file: String,
    pub bytes: u64,
    pub digest: String,
}

impl What {
    /// Whether this has to be on the disk before anything else happens: an event that hands out a credential, or shows one.
    pub fn must_last(&self) -> bool {
        match self {
            What::Spawn(spawn) => !spawn.secrets.is_empty() || !spawn.inherited.is_empty(),
            What::Reveal { .. }
            | What::Answered { allow: true, .. }
            | What::Granted { .. }
            | What::GrantUsed { .. }
            | What::Revoked { .. } => true,
            _ => false,
        }
    }
}

/// Whether an event says that something was not allowed, by its name and, if an approver was asked, by the answer.
pub fn is_denial(event: &str, answer: Option<&str>) -> bool {
    match event {
        "refused" | "denied" | "token-refused" | "left-out" | "net-denied" => true,
        "answered" => answer == Some("deny"),
        _ => false,
    }
}

fn answer<S: serde::Serializer>(allow: &bool, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(if *allow { "allow" } else { "deny" })
}

/// What was left out of the record: each was refused, and nothing has run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// How many of which kind.
    pub counts: BTreeMap<&'static str, u64>,
    /// RFC 3339, UTC.
    pub first: String,
    pub last: String,
}

impl LeftOut {
    /// Adds one.
    pub fn count(&mut self, kind: &'static str, now: String) {
        *self.counts.entry(kind).or_default() += 1;
        self.last = now;
    }
}

/// A command that the gate has refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Denied {
    /// Where it can be allowed for the next time: the number of the approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    pub argv: Vec<String>,
    pub from_inside: bool,
    #[serde(flatten)]
    pub gate: Gate,
}

/// What the gate has said of a command, and why it went on or did not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    pub mode: GateMode,
    pub verdict: Verdict,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The SHA-256 of what runs; absent where nothing had to be decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    pub because: Because,
}

/// Who has answered a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// The terminal of the command.
    Terminal,
    /// `keyward approvals`.
    Approvals,
    Webhook,
    /// A program that embeds the session.
    Door,
    /// No approver answered in time.
    Timeout,
    /// The approver is gone.
    Lost,
}

/// The name by which a person knows a session. Questions, grants and their events carry more: behind `#` stands what no other session of that
/// name has.
pub fn session_name(session: &str) -> &str {
    session.split_once('#').map_or(session, |(name, _)| name)
}

/// The first of these words, up to so many characters: a client inside a cage does not decide how much is recorded.
pub fn bounded(words: &[String], most: usize) -> Vec<String> {
    let mut left = most;
    let mut out = Vec::new();
    for word in words {
        if left == 0 {
            out.push("…".into());
            break;
        }
        let cut: String = word.chars().take(left).collect();
        left -= cut.chars().count().max(1).min(left);
        out.push(if cut.len() < word.len() { format!("{cut}…") } else { cut });
    }
    out
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Job {
    pub session: String,
    pub job: u32,
    pub argv: Vec<String>,
    pub background: bool,
    /// In a cage of its own, whose run has events of its own as well.
    pub fresh: bool,
    /// Whether the request came from inside a cage of the session.
    pub from_inside: bool,
    pub gate: Gate,
    /// The digest of the session's policy: the other inputs are those of the spawn event with the same digest.
    pub policy: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct JobEnd {
    pub session: String,
    pub job: u32,
    pub exit: i32,
    pub signal: Option<i32>,
    pub limit: Option<String>,
    pub milliseconds: u64,
}

/// A command is about to start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Spawn {
    pub argv: Vec<String>,
    pub cwd: String,
    pub profile: Option<String>,
    pub trust: TrustClass,
    pub floor: Floor,
    pub cage: Cage,
    pub net: NetMode,
    /// Names of what the child's environment holds.
    pub env: Vec<String>,
    /// Names of credentials it was given on purpose.
    pub inherited: Vec<String>,
    /// Secrets that it is given, each with the way.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<GivenSecret>,
    /// Tools whose logins it was shown.
    pub logins: Vec<&'static str>,
    /// Names of what was kept back because it looks like a credential.
    pub kept_back: Vec<String>,
    /// Promises that do not hold, or were waived.
    pub not_held: Vec<&'static str>,
    /// What the gate has said; nothing for the cage of a session, whose commands are judged one by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gate: Option<Gate>,
    /// What the decision was made from.
    pub inputs: Inputs,
}

/// A secret and how it is given.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct GivenSecret {
    pub name: String,
    pub delivery: Delivery,
}

/// A command has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct End {
    pub exit: i32,
    pub signal: Option<i32>,
    /// The limit that ended it.
    pub limit: Option<&'static str>,
    pub milliseconds: u64,
    /// What it left in the project; nothing where there is nothing to tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<Aftermath>,
}

impl Event {
    pub fn new(time: String, run: String, what: What) -> Self {
        Event { v: VERSION, time, run, what }
    }
}

impl Spawn {
    pub fn of(plan: &Plan, gate: Option<Gate>, inputs: Inputs) -> Self {
        Spawn {
            argv: arguments(&plan.argv),
            cwd: visible(plan.view.cwd.as_os_str()),
            profile: plan.profile.clone(),
            trust: plan.trust.value,
            floor: plan.floor.value,
            cage: plan.cage,
            net: plan.net.value,
            env: plan.environment.vars.iter().map(|variable| variable.name.clone()).collect(),
            inherited: inherited(&plan.environment),
            secrets: given_secrets(plan),
            logins: plan
                .view
                .home
                .logins
                .iter()
                .filter(|login| login.found)
                .map(|login| login.tool)
                .collect(),
            kept_back: kept_back(&plan.environment),
            not_held: not_held(&plan.promises),
            gate,
            inputs,
        }
    }
}

fn given_secrets(plan: &Plan) -> Vec<GivenSecret> {
    let given = plan.secrets.iter().map(|given| (&given.name, given.delivery));
    let held = plan.phantoms.iter().map(|bound| (&bound.name, Delivery::Proxy));
    let all = given.chain(held);
    all.map(|(name, delivery)| GivenSecret { name: name.to_string(), delivery }).collect()
}

/// A refusal, as an event.
pub fn refused(argv: &[OsString], refusal: &Refusal) -> What {
    What::Refused { argv: arguments(argv), rule: refusal.rule.clone(), fact: refusal.fact.clone() }
}

/// The command line for people and records. An argument that looks like a credential is left out.
pub fn arguments(argv: &[OsString]) -> Vec<String> {
    argv.iter()
        .map(|argument| match registry::value_shape(&without_substitutions(argument.as_bytes())) {
            Some(shape) => format!("(left out: {shape})"),
            None => visible(argument),
        })
        .collect()
}

/// What a shell puts in the place of `$(…)` is not in the text: each begins a text of its own.
fn without_substitutions(argument: &[u8]) -> Vec<u8> {
    let mut text = argument.to_vec();
    let starts: Vec<usize> =
        text.windows(2).enumerate().filter(|(_, two)| two == b"$(").map(|(at, _)| at).collect();
    for at in starts {
        text[at..at + 2].copy_from_slice(b"\n\n");
    }
    text
}

pub fn inherited(environment: &Environment) -> Vec<String> {
    let granted = environment.vars.iter().filter(|variable| variable.rule == Rule::Inherited);
    granted.map(|variable| variable.name.clone()).collect()
}

/// Names of dropped variables that a person would want to hear of: credentials, and ways to someone else's authority.
pub fn kept_back(environment: &Environment) -> Vec<String> {
    let told = environment.dropped.iter().filter(|dropped| dropped.rule.is_credential());
    told.map(|dropped| dropped.name.clone()).collect()
}

/// The same, without those that no program in a cage misses: for the line on a terminal.
pub fn kept_back_and_missed(environment: &Environment) -> Vec<String> {
    let told = environment.dropped.iter().filter(|dropped| dropped.rule.is_worth_telling());
    told.map(|dropped| dropped.name.clone()).collect()
}

fn not_held(promises: &[Kept]) -> Vec<&'static str> {
    let gone = promises.iter().filter(|kept| !matches!(kept.held, Held::Wall { .. } | Held::Notice { .. }));
    gone.map(|kept| kept.promise.name()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_is_left_out_for_what_is_in_it_and_not_for_what_a_shell_puts_there() {
        let recorded = |argument: &str| arguments(&[argument.into()]).remove(0);
        for harmless in [r#"echo "token: $(cat /dev/fd/$X)""#, "PASSWORD=$(pass show db) psql"] {
            assert_eq!(recorded(harmless), harmless);
        }
        for secret in [
            "token: hunter2x",
            r#"echo "$(curl -H 'Authorization: Bearer abcDEF123456' x)""#,
            "echo token: $(psql password=hunter2)",
        ] {
            assert!(recorded(secret).starts_with("(left out"), "{secret}");
        }
    }

    #[test]
    fn what_shows_a_credential_must_last_and_what_ends_need_not() {
        assert!(What::Reveal { name: "github".into() }.must_last());
        let answered = |allow| What::Answered {
            question: 1,
            digest: String::new(),
            session: None,
            allow,
            by: By::Terminal,
        };
        assert!(answered(true).must_last() && !answered(false).must_last());
        assert!(!What::TokenRefused {}.must_last());
        assert!(!What::Fault { fact: String::new() }.must_last());
    }

    #[test]
    fn a_denial_is_known_by_its_name_or_by_the_answer() {
        assert!(
            ["refused", "denied", "token-refused", "left-out"].iter().all(|event| is_denial(event, None))
        );
        assert!(is_denial("answered", Some("deny")));
        assert!(!is_denial("answered", Some("allow")) && !is_denial("answered", None));
        assert!(!is_denial("spawn", Some("deny")));
    }
}
