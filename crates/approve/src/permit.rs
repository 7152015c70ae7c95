//! Decides whether something may happen, with [`keyward_policy::gate::decide`], and asks the approvers that it needs.
//!
//! If the verdict alone decides, no database is opened and no approver is asked. Every failure means no.

mod asking;
mod words;

use crate::judge;
use crate::site::Site;
use crate::subject::Subject;
use crate::terminal::Terminal;
use keyward_ledger::Record;
use keyward_ledger::approvals::{self, Approvals, Closed, Kept, Trouble};
use keyward_policy::event::{Denied, Gate, What};
use keyward_policy::gate::{Because, Opinion, Question, Situation, Step, decide};
use keyward_policy::settings::Policy;
use keyward_policy::words::{Attended, GateMode};
use rustix::fd::OwnedFd;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use words::Reader;

/// Approval channels available for this subject, in addition to those configured in the policy.
pub struct Ways<'a, T> {
    pub site: Site<'a>,
    /// The terminal of the command, or [`crate::terminal::NoTerminal`].
    pub terminal: T,
    /// The session that the command is for, and whether a client of its socket can answer.
    pub session: Option<(&'a OwnedFd, bool)>,
    /// What a judge is started with, and where the key of a webhook is looked for.
    pub environment: Vec<(OsString, OsString)>,
}

impl<T: Terminal> Ways<'_, T> {
    /// Adds the terminal and the session's clients to the approvers that the policy names.
    fn present(&self, named: Present) -> Present {
        Present {
            terminal: self.terminal.can_ask(),
            door: self.session.is_some_and(|(_, at_the_door)| at_the_door),
            ..named
        }
    }
}

/// A no: two lines, and what is written down.
pub struct Denial {
    pub fact: String,
    pub remedy: String,
    pub gate: Gate,
    /// The approval that can be given for the next time.
    pub question: Option<u64>,
}

impl Denial {
    /// Whether the same may be allowed later: an approver can still say yes, or is to be asked when there are fewer questions.
    pub fn may_be_allowed_later(&self) -> bool {
        self.question.is_some() || self.gate.because == Because::Crowded
    }
}

/// Approvers that are available now, besides `keyward approvals -f`.
#[derive(Clone, Copy)]
pub struct Present {
    terminal: bool,
    door: bool,
    webhook: bool,
}

impl Present {
    /// The approvers that the policy names.
    pub fn named_by(policy: &Policy) -> Self {
        Present { terminal: false, door: false, webhook: policy.gate.webhook.is_some() }
    }
}

/// Whether an approver is available now.
pub fn is_attended(policy: &Policy, state: &Path, present: Present) -> bool {
    let Present { terminal, door, webhook } = present;
    match policy.gate.attended.value {
        Attended::Always => true,
        Attended::Never => false,
        Attended::Auto => terminal || door || webhook || approvals::is_watched(state),
    }
}

/// Returns the decision if the verdict and the mode suffice, which needs neither a digest of everything nor a database.
pub fn at_once(subject: &Subject<'_>) -> Option<Result<Gate, Box<Denial>>> {
    match decide(&situation(subject)) {
        Step::Go(because) => {
            let digest = (because != Because::Harmless).then(|| subject.digest());
            Some(Ok(said(subject, because, digest)))
        }
        Step::Refuse(because) => Some(Err(Box::new(refusal(subject, because)))),
        Step::AskJudge | Step::AskOperator => None,
    }
}

/// Builds the denial of a subject that no approver was asked about.
pub fn refusal(subject: &Subject<'_>, because: Because) -> Denial {
    let (fact, remedy) = words::of(subject, because, None, Reader::Agent);
    Denial { fact, remedy, gate: said(subject, because, None), question: None }
}

/// The situation before any approver is asked.
fn situation(subject: &Subject<'_>) -> Situation {
    Situation {
        mode: subject.policy.gate.mode.value,
        verdict: subject.judged.verdict,
        denied_before: false,
        granted: false,
        attended: true,
        opinion: None,
        answer: None,
    }
}

fn said(subject: &Subject<'_>, because: Because, digest: Option<String>) -> Gate {
    Gate {
        mode: subject.policy.gate.mode.value,
        verdict: subject.judged.verdict,
        rule: subject.judged.rule.clone(),
        class: subject.judged.class.clone(),
        digest,
        because,
    }
}

/// Decides whether something may happen and records every question and answer. On approval the caller records the decision with what it
/// starts.
pub fn permit<T: Terminal>(
    subject: &Subject<'_>,
    ways: &Ways<'_, T>,
    record: &mut Record,
) -> Result<Gate, Box<Denial>> {
    if let Some(decided) = at_once(subject) {
        return decided.inspect_err(|denial| write_down(subject, denial, record));
    }
    let mut situation = situation(subject);
    let question = subject.question();
    let deny = |because: Because, id: Option<u64>, trouble: Option<Trouble>, record: &mut Record| {
        let (fact, remedy) = match trouble {
            Some(trouble) => (format!("denied: {}", trouble.fact), trouble.remedy),
            None => words::of(subject, because, id, Reader::at(&ways.terminal)),
        };
        let gate = said(subject, because, Some(question.digest.clone()));
        let denial = Box::new(Denial { fact, remedy, gate, question: id });
        write_down(subject, &denial, record);
        Err(denial)
    };
    let mut approvals = Kept::new(ways.site.state);
    match approvals.get().and_then(|approvals| look_up(approvals, &question, record)) {
        Ok(Standing { granted, denied_before }) => {
            (situation.granted, situation.denied_before) = (granted, denied_before);
        }
        Err(trouble) => return deny(Because::Lost, None, Some(trouble), record),
    }
    let present = ways.present(Present::named_by(subject.policy));
    situation.attended = is_attended(subject.policy, ways.site.state, present);
    let mut id = None;
    loop {
        match decide(&situation) {
            Step::Go(because) => return Ok(said(subject, because, Some(question.digest.clone()))),
            Step::Refuse(because) => {
                // Record a request that was denied without being asked, so that it can be approved for a retry.
                let repeats = because == Because::DeniedBefore && question.session.is_some();
                if id.is_none() && !repeats && because != Because::Crowded {
                    let refused = |approvals: &mut Approvals| approvals.refused(&question, because.as_str());
                    id = approvals.get().and_then(refused).ok();
                }
                return deny(because, id, None, record);
            }
            Step::AskJudge => {
                situation.opinion = Some(ask_judge(subject, &question, ways, &approvals.closed()))
            }
            Step::AskOperator => match asking::ask(subject, &question, ways, &mut approvals, record, &mut id)
            {
                Ok(answer) => situation.answer = Some(answer),
                Err(trouble) => return deny(Because::Lost, id, Some(trouble), record),
            },
        }
    }
}

/// What an approver has said about a subject before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    pub granted: bool,
    pub denied_before: bool,
}

/// Looks whether the subject of a question was granted, which uses up a use, or was denied before.
pub fn look_up(
    approvals: &mut Approvals,
    question: &Question,
    record: &mut Record,
) -> Result<Standing, Trouble> {
    if let Some(taken) = approvals.take_grant(question)? {
        let digest = question.digest.clone();
        writes(record, What::GrantUsed { grant: taken.id, digest, uses_left: taken.uses_left })?;
        return Ok(Standing { granted: true, denied_before: false });
    }
    approvals.denied_before(question).map(|denied_before| Standing { granted: false, denied_before })
}

/// Writes something down for good; what cannot be written down does not happen.
fn writes(record: &mut Record, what: What) -> Result<(), Trouble> {
    record.write(what).map_err(Trouble::from)
}

/// A no that cannot be written down is a no all the same.
pub fn write_down(subject: &Subject<'_>, denial: &Denial, record: &mut Record) {
    let _ = record.write(What::Denied(Box::new(Denied {
        question: denial.question,
        session: subject.session.map(str::to_owned),
        argv: keyward_policy::event::bounded(&subject.what.shown(), 4096),
        from_inside: subject.from_inside,
        gate: denial.gate.clone(),
    })));
}

/// Asks the judge; a judge that fails leaves the decision to other approvers.
fn ask_judge<T: Terminal>(
    subject: &Subject<'_>,
    question: &Question,
    ways: &Ways<'_, T>,
    closed: &Closed<'_>,
) -> Opinion {
    let gate = &subject.policy.gate;
    let program: Vec<OsString> = gate.judge.iter().map(|word| OsString::from(&word.value)).collect();
    match judge::judge(&program, question, gate.judge_waits(), &ways.environment, closed) {
        Ok((opinion, _)) => opinion,
        Err(why) => {
            ways.terminal.note(&format!("the judge failed: {why}"));
            Opinion::Ask
        }
    }
}

/// What a judge is started with, and where the key of a webhook is looked for: nothing that could be a credential.
pub fn plain_environment(policy: &Policy, entries: &[&[u8]]) -> Vec<(OsString, OsString)> {
    if policy.gate.mode.value != GateMode::Judge && policy.gate.webhook.is_none() {
        return Vec::new();
    }
    const PASSED: &[&str] = &[
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "LANG",
        "LC_ALL",
        "TZ",
        "XDG_CONFIG_HOME",
        "XDG_STATE_HOME",
        "XDG_RUNTIME_DIR",
        "DBUS_SESSION_BUS_ADDRESS",
        "GNUPGHOME",
        "PASSWORD_STORE_DIR",
    ];
    let pairs = entries.iter().filter_map(|entry| {
        let at = entry.iter().position(|byte| *byte == b'=')?;
        Some((OsStr::from_bytes(&entry[..at]), OsStr::from_bytes(&entry[at + 1..])))
    });
    pairs
        .filter(|(name, _)| PASSED.iter().any(|passed| name == passed))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}
