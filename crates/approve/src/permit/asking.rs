//! One question, from asking to its answer: the row in the database, the webhook, the session's clients and the terminal.

use super::{Present, Ways, is_attended, writes};
use crate::subject::Subject;
use crate::terminal::{Reply, Terminal};
use crate::webhook::{self, Handle, Heard, Webhook};
use keyward_ledger::Record;
use keyward_ledger::approvals::{Answered, Closed, Kept, State, Trouble};
use keyward_policy::event::{By, What};
use keyward_policy::gate::{Answer, Question, Reach};
use keyward_policy::secret::SecretName;
use keyward_policy::text::typed_words;
use keyward_policy::trouble::Code;
use keyward_policy::view;
use keyward_protocol::approval::Progress;
use keyward_protocol::packet;
use keyward_protocol::session::Asked;
use keyward_sys::{channel, memory, random};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use sha2::{Digest, Sha256};
use std::time::{Duration, SystemTime};

/// Poll interval for answer sources that cannot wake us (the approvals database).
const LOOK: Duration = Duration::from_millis(100);
/// The most of a command that is shown where there is little room.
const SHOWN: usize = 400;

/// One question while it waits.
struct Asking<'a, T> {
    subject: &'a Subject<'a>,
    question: &'a Question,
    ways: &'a Ways<'a, T>,
    approvals: &'a mut Kept,
    record: &'a mut Record,
    id: u64,
    until: SystemTime,
    webhook: Option<Handle>,
    present: Present,
    /// The session is gone, or none of its clients waits any more.
    left: bool,
}

/// Asks every approver that is there, and waits for the first answer.
pub(super) fn ask<T: Terminal>(
    subject: &Subject<'_>,
    question: &Question,
    ways: &Ways<'_, T>,
    approvals: &mut Kept,
    record: &mut Record,
    number: &mut Option<u64>,
) -> Result<Answer, Trouble> {
    if !approvals.get()?.has_room(question)? {
        return Ok(Answer::Crowded);
    }
    let until = SystemTime::now() + subject.policy.gate.waits();
    // Whole seconds, and not before our own time is over: then the end is known as what it is.
    let seconds = until.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs() + 1);
    let token = subject.policy.gate.webhook.as_ref().map(|_| token()).transpose()?;
    let id = approvals.get()?.ask(question, seconds, token.map(|token| Sha256::digest(token).into()))?;
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
        start_webhook(subject, question, id, &token, until, ways, &approvals.closed())
            .map_err(|why| ways.terminal.trouble(&why))
            .ok()
    });
    if let Some((session, _)) = ways.session {
        tell_session(session, id, question);
    }
    let present = ways.present(Present::named_by(subject.policy));
    let mut asking =
        Asking { subject, question, ways, approvals, record, id, until, webhook, present, left: false };
    let on_terminal = if present.terminal { asking.on_terminal()? } else { None };
    let answer = match on_terminal {
        Some(answer) => answer,
        None => asking.wait()?,
    };
    if answer == Answer::Yes && !asking.approvals.get()?.take(id, &question.digest)? {
        return Ok(Answer::Lost);
    }
    Ok(answer)
}

/// Worth one answer.
fn token() -> Result<[u8; 32], Trouble> {
    let mut token = [0; 32];
    random::fill(&mut token).map(|()| token).map_err(|errno| {
        let fact = format!("no token can be made: {}", keyward_sys::file::reason(errno));
        Trouble::new(Code::Internal, fact, "try again")
    })
}

fn start_webhook<T>(
    subject: &Subject<'_>,
    question: &Question,
    id: u64,
    token: &[u8; 32],
    until: SystemTime,
    ways: &Ways<'_, T>,
    closed: &Closed<'_>,
) -> Result<Handle, String> {
    let gate = &subject.policy.gate;
    let url = gate.webhook.as_ref().map_or("", |url| url.value.as_str());
    let key = gate.webhook_key.as_ref().ok_or("the webhook has no key\nname one with gate.webhook_key")?;
    let name = SecretName::parse(&key.value).map_err(|unfit| format!("{}\n{}", unfit.fact, unfit.remedy))?;
    let listen = gate.webhook_listen.as_ref().map(|listen| listen.value.as_str());
    let ca = gate.webhook_ca.as_ref().map(|ca| view::expand(&ca.value, ways.site.home));
    let webhook = Webhook::parse(url, name, listen, ca)?;
    webhook::start(&webhook, question, id, token, until, closed, || {
        webhook::key(&subject.policy.known_secrets, &key.value, ways.site, &ways.environment)
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
    let _ = channel::send(session, &packet::write(&asked), &document);
}

impl<T: Terminal> Asking<'_, T> {
    /// Asks the person at the terminal, unless another approver is faster. `None` if there is no terminal any more.
    fn on_terminal(&mut self) -> Result<Option<Answer>, Trouble> {
        let mut trouble = None;
        let mut settled = None;
        let (id, until, ways, question) = (self.id, self.until, self.ways, self.question);
        let reply = ways.terminal.ask(question, id, until, &mut || match self.look() {
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
        let Some(reply) = reply else { return Ok(None) };
        let answer = match reply {
            Reply::Allow(_) | Reply::Deny | Reply::Never => {
                let (allow, reach) = reply.said().unwrap_or((false, Reach::Once));
                self.answered(allow, reach, By::Terminal)
            }
            Reply::Timeout => self.over(By::Timeout, Answer::Timeout),
            Reply::Gone => self.over(By::Lost, Answer::Lost),
            Reply::Elsewhere(_) => Ok(settled.unwrap_or(Answer::Lost)),
        };
        answer.map(Some)
    }

    /// Waits for an approver that is not at this terminal.
    fn wait(&mut self) -> Result<Answer, Trouble> {
        let (question, terminal) = (self.question, &self.ways.terminal);
        let command = typed_words(&keyward_policy::event::bounded(&question.argv, SHOWN));
        terminal.note(&format!("waits for an answer: {} ({command})", question.reason));
        terminal.note(&format!(
            "`keyward approvals show {0}`, then `keyward approvals allow {0}` or `deny {0}`",
            self.id
        ));
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
        match self.approvals.get()?.state(self.id)? {
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
        if self.left || !is_attended(self.subject.policy, self.ways.site.state, self.present) {
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
                    let _ = self
                        .approvals
                        .get()?
                        .answer_by_token(&token, allow, &mut |what| writes(record, what))?;
                }
                Some(Heard::Refused(_)) => {}
                Some(Heard::Failed(why)) => {
                    self.ways.terminal.trouble(&why);
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
                .and_then(|message| packet::read::<Progress>(packet.get(..message.length)?));
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
        match self.approvals.get()?.answer_reaching(id, allow, reach, by, &mut |what| writes(record, what))? {
            Answered::Now => Ok(if allow { Answer::Yes } else { Answer::No }),
            _ => Ok(match self.approvals.get()?.state(self.id)? {
                State::Allowed { .. } => Answer::Yes,
                State::Denied { .. } => Answer::No,
                State::Waiting | State::Used | State::Over => Answer::Lost,
            }),
        }
    }

    fn over(&mut self, by: By, answer: Answer) -> Result<Answer, Trouble> {
        self.approvals.get()?.over(self.id, by)?;
        let (question, allow) = (self.id, false);
        let (digest, session) = (self.question.digest.clone(), self.question.session.clone());
        writes(self.record, What::Answered { question, digest, session, allow, by })?;
        Ok(answer)
    }
}
