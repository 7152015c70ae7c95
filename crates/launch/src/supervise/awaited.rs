//! What programs of the cage wait for: hosts (`net.ask`), and logins that would replace the user's. Each is a question, one after the other. In a
//! session the session asks; else a process of its own does, which may have the user's terminal meanwhile.

use super::Supervisor;
use crate::proxy::Question;
use crate::session::{Membership, Passage};
use keyward_policy::net::asking::Awaited;
use keyward_protocol::approval::Progress;
use keyward_protocol::link::{self, Link};
use keyward_protocol::packet::{self, LONGEST};
use keyward_sys::{channel, terminal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::VecDeque;

/// How long the process that asks may take to give the terminal back.
const GIVES_BACK_WITHIN: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };
/// Told where the process that asks has ended without an answer.
const GONE: &str = "the process that asks is gone";

/// Decides about what a program of a run waits for.
pub trait Decides {
    /// `on_terminal` says whether the user's terminal is free for a question.
    fn judge(&mut self, about: &Awaited, on_terminal: bool) -> Passage;
}

/// What programs wait for.
#[derive(Default)]
pub(super) struct Pending {
    /// Not asked about yet; in a session, not answered yet.
    waiting: VecDeque<Question>,
    asked: Option<Asked>,
}

/// The question that is asked now.
struct Asked {
    question: Question,
    /// To the process that asks; it ends when this does.
    socket: OwnedFd,
    /// Whether the command read the keyboard until then; `None` if it has its terminal still.
    had_keyboard: Option<bool>,
}

impl Pending {
    pub(super) fn asker(&self) -> Option<BorrowedFd<'_>> {
        self.asked.as_ref().map(|asked| asked.socket.as_fd())
    }
}

impl Supervisor<'_, '_> {
    /// Takes what the proxy asks, and has it answered.
    pub(super) fn ask_what_is_awaited(&mut self) {
        let Some(served) = &mut self.watch.served else { return };
        let new = served.proxy.questions();
        match self.watch.session {
            Some(Membership { link: session, .. }) => {
                for question in new {
                    let asked = Link::Question { question: question.number, about: question.about.clone() };
                    let packet = packet::write(&asked);
                    let sent = packet.len() <= link::ROOM && channel::send(session, &packet, &[]).is_ok();
                    match sent {
                        true => self.pending.waiting.push_back(question),
                        false => served.proxy.answer(&question, Some(GONE.into())),
                    }
                }
            }
            None => {
                self.pending.waiting.extend(new);
                self.ask_next();
            }
        }
    }

    /// The session has an answer: why not, or none for a yes.
    pub(super) fn take_answer(&mut self, number: u64, why_not: Option<String>) {
        let waiting = &mut self.pending.waiting;
        let asked = waiting.iter().position(|question| question.number == number);
        if let (Some(served), Some(question)) =
            (&mut self.watch.served, asked.and_then(|place| waiting.remove(place)))
        {
            served.proxy.answer(&question, why_not);
        }
    }

    /// Asks the next question, if no other one is asked.
    fn ask_next(&mut self) {
        while self.pending.asked.is_none() {
            let Some(question) = self.pending.waiting.pop_front() else { return };
            let on_terminal =
                self.watch.screen.as_ref().is_none_or(|screen| {
                    self.relay.shows() && terminal::are_we_in_foreground(screen.keyboard)
                });
            // Before the process that asks looks at the terminal.
            let had_keyboard = on_terminal.then(|| self.pause_terminal()).flatten();
            let Some(served) = &mut self.watch.served else { return };
            let passage = match &mut served.decides {
                Some(decides) => decides.judge(&question.about, on_terminal),
                None => Passage::Refuse { fact: GONE.into(), remedy: String::new(), rule: None, retry: true },
            };
            let why_not = match passage {
                Passage::Wait(socket) => {
                    self.pending.asked = Some(Asked { question, socket, had_keyboard });
                    return;
                }
                Passage::Go(..) => None,
                Passage::Refuse { fact, .. } => Some(fact),
            };
            served.proxy.answer(&question, why_not);
            self.give_terminal_back(had_keyboard);
        }
    }

    /// Hears the process that asks.
    pub(super) fn hear_asker(&mut self) {
        let Some(asked) = &self.pending.asked else { return };
        let mut packet = vec![0; LONGEST];
        let heard = channel::receive(&asked.socket, &mut packet)
            .ok()
            .and_then(|message| packet::read::<Progress>(packet.get(..message.length)?));
        let why_not = match heard {
            Some(Progress::Asked(_)) => return,
            Some(Progress::Go { .. }) => None,
            Some(Progress::Refuse { fact, .. }) => Some(fact),
            Some(Progress::Decided { .. } | Progress::Left {}) | None => Some(GONE.into()),
        };
        if let (Some(asked), Some(served)) = (self.pending.asked.take(), &mut self.watch.served) {
            served.proxy.answer(&asked.question, why_not);
            self.end_asker(&asked);
        }
        self.ask_next();
    }

    /// The cage has ended: nothing waits for an answer any more.
    pub(super) fn leave_questions(&mut self) {
        self.pending.waiting.clear();
        if let Some(asked) = self.pending.asked.take() {
            self.end_asker(&asked);
        }
    }

    /// Waits until the process that asks has put the terminal back.
    fn end_asker(&mut self, asked: &Asked) {
        let _ = rustix::net::shutdown(&asked.socket, rustix::net::Shutdown::Write);
        let mut polled = [PollFd::new(&asked.socket, PollFlags::HUP)];
        while poll(&mut polled, Some(&GIVES_BACK_WITHIN)) == Err(rustix::io::Errno::INTR) {}
        self.give_terminal_back(asked.had_keyboard);
    }

    fn pause_terminal(&mut self) -> Option<bool> {
        let screen = self.watch.screen.as_mut()?;
        let had_keyboard = screen.raw;
        screen.leave_raw();
        self.relay.pause(true);
        Some(had_keyboard)
    }

    fn give_terminal_back(&mut self, had_keyboard: Option<bool>) {
        let (Some(had_keyboard), Some(screen)) = (had_keyboard, &mut self.watch.screen) else { return };
        self.relay.pause(false);
        if had_keyboard {
            screen.enter_raw();
        }
    }
}
