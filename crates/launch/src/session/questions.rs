//! Commands and calls that wait for the gate. A process of its own asks whoever can be asked; here is what waits meanwhile, and who at the
//! door is shown the question. Whoever is in a cage is shown nothing, and answers nothing.

use super::Server;
use super::asks::Wish;
use super::clients::Side;
use keyward_policy::door::{self, Answer, Judging, LONGEST, Value};
use keyward_policy::event::Gate;
use keyward_policy::gate::Progress;
use keyward_policy::outcome::code::DENIED;
use keyward_sys::channel;
use rustix::fd::{AsFd, OwnedFd};
use std::ffi::{OsStr, OsString};
use std::time::Duration;

/// Questions that wait at one time: nobody is to be worn out.
const MOST: usize = 32;
/// Of those who ask from inside a cage: they cannot take the places of those outside.
const MOST_FROM_INSIDE: usize = 8;

/// What somebody wants, and from where.
pub struct Request<'r> {
    pub what: Thing<'r>,
    pub from_inside: bool,
    /// Whether somebody at the door can be asked.
    pub at_the_door: bool,
    /// Whether one more may wait for an answer.
    pub has_room: bool,
}

pub enum Thing<'r> {
    Command { argv: &'r [OsString], cwd: Option<&'r OsStr> },
    Call { name: &'r str, input: &'r Value, judging: Option<&'r Judging> },
}

/// What the gate says.
pub enum Passage {
    /// It may go on; beside it, scripts that were judged.
    Go(Gate, Option<OwnedFd>),
    /// Somebody has to be asked, or something to be read: what comes of that is told through this socket, as [`Progress`].
    Wait(OwnedFd),
    Refuse {
        fact: String,
        remedy: String,
    },
}

/// Judges; gives nothing away before everything is written down.
pub type Judge<'a> = dyn FnMut(&Request<'_>) -> Passage + 'a;

/// What is done when the gate lets it.
pub(super) enum Then {
    Command { wish: Wish, timeout: Option<Duration> },
    Call { name: String, input: Value },
}

struct Waiting {
    number: u64,
    client: u64,
    then: Then,
    /// To the process that asks; it ends when this does.
    socket: OwnedFd,
    question: Option<Shown>,
}

/// A question that was shown to some.
struct Shown {
    answer: Answer,
    number: u64,
    document: Option<OwnedFd>,
    to: Vec<u64>,
}

#[derive(Default)]
pub(super) struct Questions {
    waiting: Vec<Waiting>,
    last: u64,
    /// Who wants to see every question.
    watchers: Vec<u64>,
}

impl Questions {
    /// Where news come from.
    pub(super) fn sources(&self) -> impl Iterator<Item = (u64, &OwnedFd)> {
        self.waiting.iter().map(|waiting| (waiting.number, &waiting.socket))
    }
}

impl Server<'_> {
    /// Has something judged, and does it if nothing speaks against it.
    pub(super) fn pass_gate(&mut self, client: u64, then: Then, judging: Option<&Judging>, answers: bool) {
        let from_inside = self.clients.side(client) == Some(Side::Inside);
        let whole;
        let what = match &then {
            Then::Command { wish, .. } => {
                whole = match self.session.shell {
                    true => vec!["bash".into(), "-c".into(), wish.argv.join(OsStr::new(" "))],
                    false => wish.argv.clone(),
                };
                Thing::Command { argv: &whole, cwd: wish.cwd.as_deref() }
            }
            Then::Call { name, input } => Thing::Call { name, input, judging },
        };
        let at_the_door = (answers && !from_inside) || !self.questions.watchers.is_empty();
        let has_room = self.questions.waiting.len() < MOST
            && (!from_inside || self.waiting_from_inside() < MOST_FROM_INSIDE);
        match (self.session.gate)(&Request { what, from_inside, at_the_door, has_room }) {
            Passage::Go(gate, scripts) => self.go(client, then, gate, scripts),
            Passage::Refuse { fact, remedy } => {
                self.refuse_with(Some(client), Some(DENIED), &fact, &remedy);
            }
            Passage::Wait(socket) => {
                self.questions.last += 1;
                let number = self.questions.last;
                let shown_to = if answers && !from_inside { vec![client] } else { Vec::new() };
                let question = Shown { answer: Answer::Done {}, number: 0, document: None, to: shown_to };
                let question = Some(question);
                self.questions.waiting.push(Waiting { number, client, then, socket, question });
            }
        }
    }

    fn waiting_from_inside(&self) -> usize {
        let is_inside = |waiting: &&Waiting| self.clients.side(waiting.client) == Some(Side::Inside);
        self.questions.waiting.iter().filter(is_inside).count()
    }

    fn go(&mut self, client: u64, then: Then, gate: Gate, scripts: Option<OwnedFd>) {
        match then {
            Then::Command { wish, timeout } => {
                if let Err((fact, remedy)) = self.exec(client, wish, timeout, gate, scripts) {
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
                (door::read::<Progress>(&packet[..message.length]), message.descriptors.into_iter())
            }
            Err(_) => (None, Vec::new().into_iter()),
        };
        match progress {
            Some(Progress::Asked { question, digest, rule, class, reason, argv, from_inside }) => {
                let answer = Answer::Question { question, digest, rule, class, reason, argv, from_inside };
                let waiting = &mut self.questions.waiting[place];
                let own = waiting.question.take().map(|shown| shown.to).unwrap_or_default();
                let mut to = self.questions.watchers.clone();
                to.extend(own.iter().filter(|client| !self.questions.watchers.contains(client)));
                let document = descriptors.next();
                let shown = Shown { answer, number: question, document, to };
                self.show(&shown, &shown.to);
                // Whoever was at the door when it was judged may have gone before it could be shown.
                if shown.to.is_empty() {
                    let socket = &self.questions.waiting[place].socket;
                    let _ = channel::send(socket, &door::write(&Progress::Left {}), &[]);
                }
                self.questions.waiting[place].question = Some(shown);
            }
            Some(Progress::Go { gate }) => {
                let waiting = self.settle(place);
                self.go(waiting.client, waiting.then, gate, descriptors.next());
            }
            Some(Progress::Refuse { fact, remedy }) => {
                let waiting = self.settle(place);
                self.refuse_with(Some(waiting.client), Some(DENIED), &fact, &remedy);
            }
            // Whoever asks is gone, and nobody has said yes.
            Some(Progress::Decided { .. } | Progress::Left {}) | None => {
                let waiting = self.settle(place);
                let fact = "denied: the process that asks about this command is gone";
                self.refuse_with(Some(waiting.client), Some(DENIED), fact, "try again");
            }
        }
    }

    fn show(&mut self, shown: &Shown, to: &[u64]) {
        for client in to {
            let document: Vec<_> = shown.document.iter().map(AsFd::as_fd).collect();
            self.clients.tell(*client, &shown.answer, &document);
        }
    }

    /// It waits no more: whoever was shown the question need not answer.
    fn settle(&mut self, place: usize) -> Waiting {
        let waiting = self.questions.waiting.remove(place);
        if let Some(shown) = waiting.question.as_ref().filter(|shown| shown.number != 0) {
            for client in &shown.to {
                self.clients.tell(*client, &Answer::Settled { question: shown.number }, &[]);
            }
        }
        waiting
    }

    /// Somebody outside wants to see the questions: those that wait, and those that come.
    pub(super) fn watch(&mut self, client: u64) {
        if !self.questions.watchers.contains(&client) {
            self.questions.watchers.push(client);
        }
        self.clients.tell(client, &Answer::Done {}, &[]);
        for place in 0..self.questions.waiting.len() {
            let Some(mut shown) = self.questions.waiting[place].question.take() else { continue };
            if shown.number != 0 && !shown.to.contains(&client) {
                self.show(&shown, &[client]);
                shown.to.push(client);
            }
            self.questions.waiting[place].question = Some(shown);
        }
    }

    /// Somebody outside answers.
    pub(super) fn decide(&mut self, client: u64, question: u64, allow: bool) {
        let asked = |waiting: &&Waiting| {
            waiting.question.as_ref().is_some_and(|shown| shown.number == question && question != 0)
        };
        let sent = self.questions.waiting.iter().find(asked).is_some_and(|waiting| {
            channel::send(&waiting.socket, &door::write(&Progress::Decided { allow }), &[]).is_ok()
        });
        match sent {
            true => self.clients.tell(client, &Answer::Done {}, &[]),
            false => self.refuse(Some(client), "no such question waits", "it may have been answered already"),
        }
    }

    /// A client is gone: what it waited for is not asked about any more, and it answers nothing.
    pub(super) fn forget_questions_of(&mut self, client: u64) {
        self.questions.watchers.retain(|watcher| *watcher != client);
        while let Some(place) = self.questions.waiting.iter().position(|waiting| waiting.client == client) {
            self.settle(place);
        }
        for waiting in &mut self.questions.waiting {
            let Some(shown) = waiting.question.as_mut().filter(|shown| shown.to.contains(&client)) else {
                continue;
            };
            shown.to.retain(|other| *other != client);
            if shown.to.is_empty() {
                let _ = channel::send(&waiting.socket, &door::write(&Progress::Left {}), &[]);
            }
        }
    }
}
