//! Decides whether a command may run, with [`keyward_policy::gate::decide`], and asks the approvers that it needs.
//!
//! If the verdict alone decides, no database is opened and no approver is asked. Every failure means no.

use crate::gate::Subject;
use crate::here::Here;
use crate::question::{self, Reply};
use crate::record::Record;
use crate::say;
use keyward_ledger::approvals::{self, Answered, Approvals, State, Trouble};
use keyward_operator::judge;
use keyward_operator::webhook::{self, Handle, Heard, Webhook};
use keyward_policy::door::{self, Asked};
use keyward_policy::event::{By, Denied, Gate, What};
use keyward_policy::gate::{Answer, Because, Opinion, Progress, Question, Reach, Situation, Step, decide};
use keyward_policy::secret::SecretName;
use keyward_policy::settings::Policy;
use keyward_policy::text::typed_words;
use keyward_policy::view;
use keyward_policy::words::{Attended, GateMode};
use keyward_sys::{channel, memory, random};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use sha2::{Digest, Sha256};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, SystemTime};

/// Poll interval for answer sources that cannot wake us (the approvals database).
const LOOK: Duration = Duration::from_millis(100);
/// The most of a command that is shown where there is little room.
const SHOWN: usize = 400;

/// Approval channels available for this command, in addition to those configured in the policy.
pub struct Ways<'a> {
    /// The terminal of the command, if it has one.
    pub terminal: bool,
    /// The session that the command is for, and whether a client of its socket can answer.
    pub session: Option<(&'a OwnedFd, bool)>,
    /// Whether waiting is told on standard error.
    pub tells: bool,
    /// What a judge is started with, and where the key of a webhook is looked for.
    pub environment: Vec<(OsString, OsString)>,
}

/// The reader of a denial.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    /// At the terminal of the command.
    Person,
    /// A program that wants to go on, and must not look for another way.
    Agent,
}

impl Ways<'_> {
    fn reader(&self, here: &Here) -> Reader {
        let is_person = self.terminal && self.tells && here.caller.terminals[2];
        if is_person { Reader::Person } else { Reader::Agent }
    }

    /// Adds the terminal and the session's clients to the approvers that the policy names.
    fn present(&self, named: Present) -> Present {
        Present {
            terminal: self.terminal && question::has_terminal(),
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
pub fn is_attended(policy: &Policy, here: &Here, present: Present) -> bool {
    let Present { terminal, door, webhook } = present;
    match policy.gate.attended.value {
        Attended::Always => true,
        Attended::Never => false,
        Attended::Auto => terminal || door || webhook || approvals::is_watched(&here.state),
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

/// Builds the denial of a command that no approver was asked about.
pub fn refusal(subject: &Subject<'_>, because: Because) -> Denial {
    let (fact, remedy) = words(subject, because, None, Reader::Agent);
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

/// Decides whether a command may run and records every question and answer. On approval the caller records the decision with the spawn event.
pub fn permit(subject: &Subject<'_>, ways: &Ways<'_>, record: &mut Record) -> Result<Gate, Box<Denial>> {
    if let Some(decided) = at_once(subject) {
        return decided.inspect_err(|denial| write_down(subject, denial, record));
    }
    let mut situation = situation(subject);
    let question = subject.question();
    let deny = |because: Because, id: Option<u64>, trouble: Option<Trouble>, record: &mut Record| {
        let (fact, remedy) = match trouble {
            Some(trouble) => (format!("denied: {}", trouble.fact), trouble.remedy),
            None => words(subject, because, id, ways.reader(subject.here)),
        };
        let gate = said(subject, because, Some(question.digest.clone()));
        let denial = Box::new(Denial { fact, remedy, gate, question: id });
        write_down(subject, &denial, record);
        Err(denial)
    };
    let mut approvals = match Approvals::open(&subject.here.state) {
        Ok(approvals) => approvals,
        Err(trouble) => return deny(Because::Lost, None, Some(trouble), record),
    };
    let looked = look_up(&mut approvals, &question, record);
    match looked {
        Ok((granted, denied_before)) => {
            (situation.granted, situation.denied_before) = (granted, denied_before);
        }
        Err(trouble) => return deny(Because::Lost, None, Some(trouble), record),
    }
    let present = ways.present(Present::named_by(subject.policy));
    situation.attended = is_attended(subject.policy, subject.here, present);
    let mut id = None;
    loop {
        match decide(&situation) {
            Step::Go(because) => return Ok(said(subject, because, Some(question.digest.clone()))),
            Step::Refuse(because) => {
                // Record a request that was denied without being asked, so that it can be approved for a retry.
                let repeats = because == Because::DeniedBefore && question.session.is_some();
                if id.is_none() && !repeats && because != Because::Crowded {
                    id = approvals.refused(&question, because.as_str()).ok();
                }
                return deny(because, id, None, record);
            }
            Step::AskJudge => situation.opinion = Some(ask_judge(subject, &question, ways)),
            Step::AskOperator => match ask(subject, &question, ways, &mut approvals, record, &mut id) {
                Ok(answer) => situation.answer = Some(answer),
                Err(trouble) => return deny(Because::Lost, id, Some(trouble), record),
            },
        }
    }
}

/// Whether it was granted, which uses up a use, and whether it was denied before.
fn look_up(
    approvals: &mut Approvals,
    question: &Question,
    record: &mut Record,
) -> Result<(bool, bool), Trouble> {
    if let Some(taken) = approvals.take_grant(question)? {
        let digest = question.digest.clone();
        writes(record, What::GrantUsed { grant: taken.id, digest, uses_left: taken.uses_left })?;
        return Ok((true, false));
    }
    approvals.denied_before(question).map(|denied| (false, denied))
}

/// Writes something down for good; what cannot be written down does not happen.
pub fn writes(record: &mut Record, what: What) -> Result<(), Trouble> {
    record.write(what).map_err(Trouble::from)
}

/// A no that cannot be written down is a no all the same.
pub fn write_down(subject: &Subject<'_>, denial: &Denial, record: &mut Record) {
    let _ = record.write(What::Denied(Box::new(Denied {
        question: denial.question,
        session: subject.session.map(str::to_owned),
        argv: keyward_policy::event::bounded(&keyward_policy::event::arguments(subject.argv), 4096),
        from_inside: subject.from_inside,
        gate: denial.gate.clone(),
    })));
}

/// The two lines of a denial: the fact, and what the reader can do.
fn words(subject: &Subject<'_>, because: Because, id: Option<u64>, reader: Reader) -> (String, String) {
    let judged = subject.judged;
    let rule = judged.rule.as_ref().map_or_else(String::new, |rule| format!(" ({rule})"));
    let place = judged.script.as_ref().map_or_else(String::new, |script| format!(" in {script}"));
    let what = format!("{}{place}{rule}", judged.reason);
    let later = match id {
        Some(id) => format!("`keyward approvals allow {id}`, outside, lets it run once; then try again"),
        None => "to do it anyway, run the command outside Keyward".to_owned(),
    };
    let mode = &subject.policy.gate.mode;
    match because {
        Because::Forbidden => (
            format!("forbidden: {what}"),
            "this rule cannot be overridden; to do it anyway, run the command outside Keyward".into(),
        ),
        Because::Rule => (
            format!("denied: {what}"),
            "a rule denies it; to do it anyway, run the command outside Keyward".into(),
        ),
        Because::Mode => (
            format!("denied: {what}: the gate mode is {} ({})", mode.value, mode.origin),
            "`--gate auto` asks instead".into(),
        ),
        Because::Judge => (format!("denied by the judge: {what}"), later),
        Because::Operator if reader == Reader::Person => (
            format!("not run, as you said: {what}"),
            match id {
                Some(id) => format!(
                    "run it again to be asked again; after a `never`, first: `keyward approvals forget {id}`"
                ),
                None => "run it again to be asked again".into(),
            },
        ),
        Because::Operator => {
            (format!("denied by the operator: {what}"), "do not try another way; ask your user".into())
        }
        Because::DeniedBefore if reader == Reader::Person => (
            format!("not run: {what}: you answered `never` to this in this project"),
            match id {
                Some(id) => format!(
                    "`keyward approvals allow {id}` lets it run once; `keyward approvals forget {id}` revokes the `never`"
                ),
                None => later,
            },
        ),
        Because::DeniedBefore => (
            format!("denied: {what}: the same request was denied before"),
            "do not try another way; ask your user to allow it: `keyward approvals list --all`".into(),
        ),
        Because::Unattended => {
            (format!("denied: {what}: approval is required and no approver is available"), later)
        }
        Because::Timeout => {
            (format!("denied: {what}: approval is required and no approver answered in time"), later)
        }
        Because::Lost => (format!("denied: {what}: approval is required and the approver is gone"), later),
        Because::Crowded => (
            format!("denied: {what}: approval is required and too many questions are pending"),
            "list them with `keyward approvals` outside the cage; try again when they are answered".into(),
        ),
        Because::Harmless | Because::Yolo | Because::Grant => (what, String::new()),
    }
}

/// Asks the judge; a judge that fails leaves the decision to other approvers.
fn ask_judge(subject: &Subject<'_>, question: &Question, ways: &Ways<'_>) -> Opinion {
    let gate = &subject.policy.gate;
    let program: Vec<OsString> = gate.judge.iter().map(|word| OsString::from(&word.value)).collect();
    match judge::judge(&program, question, gate.judge_waits(), &ways.environment) {
        Ok((opinion, _)) => opinion,
        Err(why) => {
            if ways.tells {
                say::note(&format!("the judge failed: {why}"));
            }
            Opinion::Ask
        }
    }
}

/// One question while it waits.
struct Asking<'a> {
    subject: &'a Subject<'a>,
    ways: &'a Ways<'a>,
    approvals: &'a mut Approvals,
    record: &'a mut Record,
    id: u64,
    until: SystemTime,
    webhook: Option<Handle>,
    present: Present,
    /// The session is gone, or none of its clients waits any more.
    left: bool,
}

fn ask(
    subject: &Subject<'_>,
    question: &Question,
    ways: &Ways<'_>,
    approvals: &mut Approvals,
    record: &mut Record,
    number: &mut Option<u64>,
) -> Result<Answer, Trouble> {
    if !approvals.has_room(question)? {
        return Ok(Answer::Crowded);
    }
    let until = SystemTime::now() + subject.policy.gate.waits();
    // Whole seconds, and not before our own time is over: then the end is known as what it is.
    let seconds = until.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs() + 1);
    let token = subject.policy.gate.webhook.as_ref().map(|_| token()).transpose()?;
    let id = approvals.ask(question, seconds, token.map(|token| Sha256::digest(token).into()))?;
    *number = Some(id);
    writes(
        record,
        What::Asked {
            question: id,
            digest: question.digest.clone(),
            session: question.session.clone(),
            argv: keyward_policy::event::bounded(&question.argv, 4096),
            rule: question.rule.clone(),
            class: question.class.clone(),
        },
    )?;
    let webhook = token.and_then(|token| {
        match start_webhook(subject, question, id, &token, until, &ways.environment) {
            Ok(handle) => Some(handle),
            Err(why) => {
                if ways.tells {
                    say::trouble_as_written(&format!("keyward: {why}"));
                }
                None
            }
        }
    });
    if let Some((session, _)) = ways.session {
        tell_session(session, id, question);
    }
    let present = ways.present(Present::named_by(subject.policy));
    let mut asking = Asking { subject, ways, approvals, record, id, until, webhook, present, left: false };
    let answer = match present.terminal.then(question::own_terminal).flatten() {
        Some(terminal) => asking.on_terminal(question, terminal)?,
        None => asking.wait(question)?,
    };
    if answer == Answer::Yes && !asking.approvals.take(id, &question.digest)? {
        return Ok(Answer::Lost);
    }
    Ok(answer)
}

/// Worth one answer.
fn token() -> Result<[u8; 32], Trouble> {
    let mut token = [0; 32];
    random::fill(&mut token).map(|()| token).map_err(|errno| Trouble {
        fact: format!("no token can be made: {}", keyward_sys::file::reason(errno)),
        remedy: "try again".into(),
    })
}

fn start_webhook(
    subject: &Subject<'_>,
    question: &Question,
    id: u64,
    token: &[u8; 32],
    until: SystemTime,
    environment: &[(OsString, OsString)],
) -> Result<Handle, String> {
    let gate = &subject.policy.gate;
    let url = gate.webhook.as_ref().map_or("", |url| url.value.as_str());
    let key = gate.webhook_key.as_ref().ok_or("the webhook has no key\nname one with gate.webhook_key")?;
    let name = SecretName::parse(&key.value).map_err(|unfit| format!("{}\n{}", unfit.fact, unfit.remedy))?;
    let listen = gate.webhook_listen.as_ref().map(|listen| listen.value.as_str());
    let ca = gate.webhook_ca.as_ref().map(|ca| view::expand(&ca.value, &subject.here.caller.home));
    let webhook = Webhook::parse(url, name, listen, ca)?;
    webhook::start(&webhook, question, id, token, until, || {
        crate::vault::key(subject.policy, subject.here, &key.value, environment)
    })
}

/// The session shows it to those at its door.
fn tell_session(session: &OwnedFd, id: u64, question: &Question) {
    let asked = Progress::Asked(Asked {
        question: id,
        digest: question.digest.clone(),
        rule: question.rule.clone(),
        class: question.class.clone(),
        reason: question.reason.clone(),
        argv: keyward_policy::event::bounded(&question.argv, SHOWN),
        from_inside: question.from_inside,
    });
    let text = serde_json::to_vec(question).unwrap_or_default();
    let document = memory::sealed(c"keyward-question", &[&text]).ok();
    let document: Vec<BorrowedFd<'_>> = document.iter().map(AsFd::as_fd).collect();
    let _ = channel::send(session, &door::write(&asked), &document);
}

impl Asking<'_> {
    /// Asks the person at the terminal, unless another approver is faster.
    fn on_terminal(&mut self, question: &Question, terminal: std::fs::File) -> Result<Answer, Trouble> {
        let mut trouble = None;
        let mut settled = None;
        let (id, until) = (self.id, self.until);
        let reply = question::ask(question, id, terminal, until, &mut || match self.look() {
            Ok(None) => None,
            Ok(Some(answer)) => {
                settled = Some(answer);
                Some(answer == Answer::Yes)
            }
            Err(error) => {
                trouble = Some(error);
                Some(false)
            }
        });
        if let Some(trouble) = trouble {
            return Err(trouble);
        }
        match reply {
            Reply::Allow(_) | Reply::Deny | Reply::Never => {
                let (allow, reach) = reply.said().unwrap_or((false, Reach::Once));
                self.answered(allow, reach, By::Terminal)
            }
            Reply::Timeout => self.over(By::Timeout, Answer::Timeout),
            Reply::Gone => self.over(By::Lost, Answer::Lost),
            Reply::Elsewhere(_) => Ok(settled.unwrap_or(Answer::Lost)),
        }
    }

    /// Waits for an approver that is not at this terminal.
    fn wait(&mut self, question: &Question) -> Result<Answer, Trouble> {
        if self.ways.tells {
            let command = typed_words(&keyward_policy::event::bounded(&question.argv, SHOWN));
            say::note(&format!("waits for an answer: {} ({command})", question.reason));
            say::note(&format!(
                "`keyward approvals show {0}`, then `keyward approvals allow {0}` or `deny {0}`",
                self.id
            ));
        }
        loop {
            if let Some(answer) = self.look()? {
                return Ok(answer);
            }
            if SystemTime::now() >= self.until {
                return self.over(By::Timeout, Answer::Timeout);
            }
            let mut polled: Vec<PollFd<'_>> = Vec::new();
            if let Some((session, _)) = self.ways.session {
                polled.push(PollFd::new(session, PollFlags::IN));
            }
            if let Some(webhook) = &self.webhook {
                polled.push(PollFd::from_borrowed_fd(webhook.as_fd(), PollFlags::IN));
            }
            let _ = poll(&mut polled, Timespec::try_from(LOOK).ok().as_ref());
        }
    }

    /// The answer of another approver; `None` while the question is pending and an approver may still answer.
    fn look(&mut self) -> Result<Option<Answer>, Trouble> {
        self.hear_webhook()?;
        self.hear_session()?;
        match self.approvals.state(self.id)? {
            State::Waiting => {}
            State::Allowed { .. } => return Ok(Some(Answer::Yes)),
            State::Denied { .. } => return Ok(Some(Answer::No)),
            // A process that was stopped may look only now.
            State::Over if SystemTime::now() >= self.until => {
                return self.over(By::Timeout, Answer::Timeout).map(Some);
            }
            State::Used | State::Over => return Ok(Some(Answer::Lost)),
        }
        self.present.webhook = self.webhook.is_some();
        if self.left || !is_attended(self.subject.policy, self.subject.here, self.present) {
            return self.over(By::Lost, Answer::Lost).map(Some);
        }
        Ok(None)
    }

    fn hear_webhook(&mut self) -> Result<(), Trouble> {
        while let Some(webhook) = &mut self.webhook {
            let mut polled = [PollFd::from_borrowed_fd(webhook.as_fd(), PollFlags::IN)];
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            if !matches!(poll(&mut polled, Some(&at_once)), Ok(1)) {
                return Ok(());
            }
            match webhook.hear() {
                Some(Heard::Answer { token, allow }) => {
                    let record = &mut *self.record;
                    let _ =
                        self.approvals.answer_by_token(&token, allow, &mut |what| writes(record, what))?;
                }
                Some(Heard::Refused(_)) => {}
                Some(Heard::Failed(why)) => {
                    if self.ways.tells {
                        say::trouble_as_written(&format!("keyward: {why}"));
                    }
                    self.webhook = None;
                }
                None => self.webhook = None,
            }
        }
        Ok(())
    }

    fn hear_session(&mut self) -> Result<(), Trouble> {
        let Some((session, _)) = self.ways.session else { return Ok(()) };
        loop {
            let mut polled = [PollFd::new(session, PollFlags::IN)];
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            if self.left || !matches!(poll(&mut polled, Some(&at_once)), Ok(1)) {
                return Ok(());
            }
            let mut packet = [0; 256];
            let heard = channel::receive(session, &mut packet)
                .ok()
                .and_then(|message| door::read::<Progress>(packet.get(..message.length)?));
            match heard {
                Some(Progress::Decided { allow, reach }) => {
                    self.answered(allow, reach, By::Door)?;
                }
                Some(Progress::Left {}) => self.present.door = false,
                _ => self.left = true,
            }
        }
    }

    /// Writes an answer down; the first one counts.
    fn answered(&mut self, allow: bool, reach: Reach, by: By) -> Result<Answer, Trouble> {
        let (id, record) = (self.id, &mut *self.record);
        match self.approvals.answer_reaching(id, allow, reach, by, &mut |what| writes(record, what))? {
            Answered::Now => Ok(if allow { Answer::Yes } else { Answer::No }),
            _ => Ok(match self.approvals.state(self.id)? {
                State::Allowed { .. } => Answer::Yes,
                State::Denied { .. } => Answer::No,
                State::Waiting | State::Used | State::Over => Answer::Lost,
            }),
        }
    }

    fn over(&mut self, by: By, answer: Answer) -> Result<Answer, Trouble> {
        self.approvals.over(self.id, by)?;
        let (question, allow) = (self.id, false);
        let digest = self.subject.digest();
        let session = self.subject.session.map(str::to_owned);
        writes(self.record, What::Answered { question, digest, session, allow, by })?;
        Ok(answer)
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
