//! Commands and calls that wait for the gate. A separate process asks the approvers; this module keeps what waits, and which clients of the
//! session socket are shown the question. A client in a cage is shown nothing, and cannot answer.

use super::asks::Wish;
use super::cages::MakeCages;
use super::command::{Command, Permitted};
use super::{Record, Server};
use keyward_policy::event::Gate;
use keyward_policy::gate::Reach;
use keyward_policy::hint::Hint;
use keyward_policy::net::asking::Awaited;
use keyward_protocol::approval::Progress;
use keyward_protocol::link::Link;
use keyward_protocol::packet::{self, LONGEST};
use keyward_protocol::session::{Answer, Asked, Judging, Value};
use keyward_sys::channel;
use rustix::fd::{AsFd, OwnedFd};
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

/// The most pending questions at one time, so that approvers are not worn out.
const MOST: usize = 32;
/// The most pending questions from inside cages: they cannot take the places of those from outside.
const MOST_FROM_INSIDE: usize = 8;

/// A client's request, and the side that it comes from.
pub struct Request<'r> {
    pub what: Thing<'r>,
    pub from_inside: bool,
    /// Whether a client of the session socket can answer.
    pub at_the_door: bool,
    /// Whether one more may wait for an answer.
    pub has_room: bool,
}

pub enum Thing<'r> {
    Command(&'r Command),
    Call { name: &'r str, input: &'r Value, judging: Option<&'r Judging> },
}

/// The answer of the gate.
pub enum Passage {
    /// It may go on, with what was judged besides its words.
    Go(Gate, Kept),
    /// An approver has to be asked, or a file to be read. The result comes through this socket, as [`Progress`].
    Wait(OwnedFd),
    Refuse {
        fact: String,
        remedy: String,
        rule: Option<String>,
        /// Whether the same may be allowed later.
        retry: bool,
    },
}

/// What was judged besides the words of a command.
#[derive(Default)]
pub struct Kept {
    /// Scripts, which must be the same when the command starts.
    pub scripts: Option<OwnedFd>,
    /// The state that a shell restores: these bytes, whatever the cage has by then. Always there for a shell that remembers.
    pub state: Option<OwnedFd>,
}

/// The gate of a session. It lets nothing pass before everything is written down.
pub trait Judge {
    fn judge(&self, request: &Request<'_>) -> Passage;

    /// Decides about what a program of the session's cage waits for. A refusal says why in a few words.
    fn judge_awaited(&self, about: &Awaited, at_the_door: bool, has_room: bool) -> Passage;

    /// Why a command of these words may have failed in its cage. `cwd` is the directory that it named.
    fn hint(&self, _argv: &[OsString], _cwd: Option<&Path>) -> Option<Hint> {
        None
    }
}

/// What to do when the gate allows it.
pub(super) enum Then {
    Command {
        command: Command,
        wish: Wish,
        timeout: Option<Duration>,
    },
    Call {
        name: String,
        input: Value,
    },
    /// A program waits for this, and the launcher for the answer to its question.
    Awaited {
        question: u64,
        about: Awaited,
    },
}

struct Waiting {
    number: u64,
    /// The client that is told what becomes of it; a program that waits is none.
    client: Option<u64>,
    then: Then,
    /// To the process that asks; it ends when this does.
    socket: OwnedFd,
    /// The question and its full text, once there is one.
    question: Option<(Asked, Option<OwnedFd>)>,
    /// The clients that were shown it and may answer.
    shown_to: Vec<u64>,
}

impl Waiting {
    fn asks(&self, number: u64) -> bool {
        self.question.as_ref().is_some_and(|(asked, _)| asked.question == number)
    }
}

#[derive(Default)]
pub(super) struct Questions {
    waiting: Vec<Waiting>,
    last: u64,
    /// The clients that are shown every question.
    watchers: Vec<u64>,
    /// How many commands of an agent were denied, and why the last one was.
    denied: (u64, String),
}

impl Questions {
    /// What the user is told in one line about commands of an agent that were denied. Agents do not always say.
    pub(super) fn denials(&mut self) -> String {
        let (count, last) = std::mem::take(&mut self.denied);
        let last = keyward_policy::text::visible(last.as_ref());
        match count {
            0 => String::new(),
            1 => format!("keyward: a command of the agent was {last}; `keyward log --denied` shows it\n"),
            _ => format!(
                "keyward: {count} commands of the agent were denied, the last one: {last}; `keyward log --denied` shows them\n"
            ),
        }
    }

    /// Where news come from.
    pub(super) fn sources(&self) -> impl Iterator<Item = (u64, &OwnedFd)> {
        self.waiting.iter().map(|waiting| (waiting.number, &waiting.socket))
    }
}

fn fact_of(denied: &Answer) -> String {
    match denied {
        Answer::Refused { trouble, .. } => trouble.fact.clone(),
        _ => String::new(),
    }
}

impl<J: Judge, R: Record, M: MakeCages> Server<J, R, M> {
    /// Has something judged, and does it if nothing speaks against it.
    pub(super) fn pass_gate(&mut self, client: u64, then: Then, judging: Option<&Judging>, answers: bool) {
        self.pass(Some(client), then, judging, answers);
    }

    /// A program of the session's cage waits for an approver.
    pub(super) fn ask_about(&mut self, question: u64, about: Awaited) {
        self.pass(None, Then::Awaited { question, about }, None, false);
    }

    fn pass(&mut self, client: Option<u64>, then: Then, judging: Option<&Judging>, answers: bool) {
        let from_inside = client.is_none_or(|client| self.clients.is_caged(client));
        let at_the_door = (answers && !from_inside) || !self.questions.watchers.is_empty();
        let has_room = self.questions.waiting.len() < MOST
            && (!from_inside || self.waiting_from_inside() < MOST_FROM_INSIDE);
        let judge = |what| self.session.gate.judge(&Request { what, from_inside, at_the_door, has_room });
        let passage = match &then {
            Then::Command { command, .. } => judge(Thing::Command(command)),
            Then::Call { name, input } => judge(Thing::Call { name, input, judging }),
            Then::Awaited { about, .. } => self.session.gate.judge_awaited(about, at_the_door, has_room),
        };
        match passage {
            Passage::Go(gate, kept) => self.go(client, then, gate, kept),
            Passage::Refuse { fact, remedy, rule, retry } => {
                self.deny(client, &then, &Answer::denied(&fact, &remedy, rule, retry), &fact);
            }
            Passage::Wait(socket) => {
                self.questions.last += 1;
                let number = self.questions.last;
                let shown_to = client.filter(|_| answers && !from_inside).into_iter().collect();
                self.questions.waiting.push(Waiting {
                    number,
                    client,
                    then,
                    socket,
                    question: None,
                    shown_to,
                });
            }
        }
    }

    fn waiting_from_inside(&self) -> usize {
        let is_inside =
            |waiting: &&Waiting| waiting.client.is_none_or(|client| self.clients.is_caged(client));
        self.questions.waiting.iter().filter(is_inside).count()
    }

    fn deny(&mut self, client: Option<u64>, then: &Then, denied: &Answer, why: &str) {
        if let Then::Awaited { question, .. } = then {
            return self.answer_awaited(*question, Some(why.to_owned()));
        }
        if let Some(client) = client {
            if self.session.agent.is_some() && self.clients.is_caged(client) {
                self.questions.denied.0 += 1;
                self.questions.denied.1 = fact_of(denied);
            }
            self.clients.tell(client, denied, &[]);
        }
    }

    /// Tells the launcher whether it is allowed: why not, or none for a yes.
    fn answer_awaited(&mut self, question: u64, why: Option<String>) {
        let answer = Link::Answer { question, allowed: why.is_none(), why };
        // Without the launcher there is no proxy, and nothing waits.
        let _ = channel::send(&self.session.link, &packet::write(&answer), &[]);
    }

    fn go(&mut self, client: Option<u64>, then: Then, gate: Gate, kept: Kept) {
        let Some(client) = client else {
            if let Then::Awaited { question, .. } = then {
                self.answer_awaited(question, None);
            }
            return;
        };
        match then {
            Then::Awaited { question, .. } => self.answer_awaited(question, None),
            Then::Command { command, wish, timeout } => {
                let started = Permitted::new(command, gate, kept)
                    .and_then(|permitted| self.exec(client, permitted, wish, timeout));
                if let Err((fact, remedy)) = started {
                    self.refuse(Some(client), &fact, &remedy);
                }
            }
            Then::Call { name, input } => self.call(client, name, input, Some(gate)),
        }
    }

    /// What the process that asks has to say.
    pub(super) fn hear_gate(&mut self, number: u64) {
        let Some(place) = self.questions.waiting.iter().position(|waiting| waiting.number == number) else {
            return;
        };
        let mut packet = vec![0; LONGEST];
        let heard = channel::receive(&self.questions.waiting[place].socket, &mut packet);
        let (progress, mut descriptors) = match heard {
            Ok(message) => {
                (packet::read::<Progress>(&packet[..message.length]), message.descriptors.into_iter())
            }
            Err(_) => (None, Vec::new().into_iter()),
        };
        match progress {
            Some(Progress::Asked(asked)) => {
                let watchers = self.questions.watchers.clone();
                let waiting = &mut self.questions.waiting[place];
                waiting.question = Some((asked, descriptors.next()));
                waiting.shown_to.extend(watchers);
                waiting.shown_to.sort_unstable();
                waiting.shown_to.dedup();
                // A client that could answer when the command was judged may be gone before it was shown the question.
                if waiting.shown_to.is_empty() {
                    let _ = channel::send(&waiting.socket, &packet::write(&Progress::Left {}), &[]);
                }
                let to = waiting.shown_to.clone();
                self.show(place, &to);
            }
            Some(Progress::Go { gate }) => {
                let waiting = self.settle(place);
                let remembers = matches!(&waiting.then, Then::Command { command, .. } if command.remembers());
                let state = remembers.then(|| descriptors.next()).flatten();
                let kept = Kept { state, scripts: descriptors.next() };
                self.go(waiting.client, waiting.then, gate, kept);
            }
            Some(Progress::Refuse { fact, remedy, rule, retry }) => {
                let waiting = self.settle(place);
                let denied = Answer::denied(&fact, &remedy, rule, retry);
                self.deny(waiting.client, &waiting.then, &denied, &fact);
            }
            // The process that asks is gone, and no approver has said yes.
            Some(Progress::Decided { .. } | Progress::Left {}) | None => {
                let waiting = self.settle(place);
                let fact = "denied: the process that asks about this command is gone";
                let denied = Answer::denied(fact, "try again", None, true);
                self.deny(waiting.client, &waiting.then, &denied, "the process that asks is gone");
            }
        }
    }

    fn show(&mut self, place: usize, to: &[u64]) {
        let Some((asked, document)) = &self.questions.waiting[place].question else { return };
        let document: Vec<_> = document.iter().map(AsFd::as_fd).collect();
        for client in to {
            self.clients.tell(*client, &Answer::Question(asked.clone()), &document);
        }
    }

    /// Removes a pending question, and tells the clients that were shown it.
    fn settle(&mut self, place: usize) -> Waiting {
        let waiting = self.questions.waiting.remove(place);
        if let Some((asked, _)) = &waiting.question {
            for client in &waiting.shown_to {
                self.clients.tell(*client, &Answer::Settled { question: asked.question }, &[]);
            }
        }
        waiting
    }

    /// Shows a client outside all questions: those that are pending, and those that come.
    pub(super) fn watch(&mut self, client: u64) {
        if !self.questions.watchers.contains(&client) {
            self.questions.watchers.push(client);
        }
        self.clients.tell(client, &Answer::Done {}, &[]);
        for place in 0..self.questions.waiting.len() {
            let waiting = &mut self.questions.waiting[place];
            if waiting.question.is_some() && !waiting.shown_to.contains(&client) {
                waiting.shown_to.push(client);
                self.show(place, &[client]);
            }
        }
    }

    /// Passes on the answer of a client outside.
    pub(super) fn decide(&mut self, client: u64, question: u64, allow: bool, reach: Reach) {
        let asked = self.questions.waiting.iter().find(|waiting| waiting.asks(question));
        let sent = asked.is_some_and(|waiting| {
            channel::send(&waiting.socket, &packet::write(&Progress::Decided { allow, reach }), &[]).is_ok()
        });
        match sent {
            true => self.clients.tell(client, &Answer::Done {}, &[]),
            false => self.refuse(Some(client), "no such question waits", "it may have been answered already"),
        }
    }

    /// A client is gone: what it waited for is not asked about any more, and it answers nothing.
    pub(super) fn forget_questions_of(&mut self, client: u64) {
        self.questions.watchers.retain(|watcher| *watcher != client);
        while let Some(place) =
            self.questions.waiting.iter().position(|waiting| waiting.client == Some(client))
        {
            self.settle(place);
        }
        for waiting in &mut self.questions.waiting {
            let before = waiting.shown_to.len();
            waiting.shown_to.retain(|other| *other != client);
            if waiting.shown_to.is_empty() && before > 0 && waiting.question.is_some() {
                let _ = channel::send(&waiting.socket, &packet::write(&Progress::Left {}), &[]);
            }
        }
    }
}
