//! A command of a session on a terminal of its cage's own, relayed to ours: keys, what is shown, sizes, and being stopped.

use crate::connection::{Client, Person};
use crate::error::Error;
use crate::exec::{Ended, copy};
use keyward_protocol::session::{Answer, Ask, Terminal};
use keyward_sys::signal::{self, Inbox};
use keyward_sys::{Errno, terminal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::process::Signal;

/// Ctrl-] leaves a terminal that one is attached to.
const DETACH: u8 = 0x1d;
/// Ctrl-D is the end of what is typed.
const END_OF_INPUT: u8 = 4;

/// Our own terminal, or what stands for it.
pub struct Screen {
    keyboard: BorrowedFd<'static>,
    display: BorrowedFd<'static>,
    /// The settings of the keyboard's terminal before we changed them, if it is a terminal.
    settings: Option<terminal::Settings>,
    raw: bool,
    /// Whether the command reads the keyboard: from the start, or since it showed that it wants to.
    reads: bool,
}

impl Screen {
    /// For the streams of ours that the command has on its terminal.
    pub fn new(streams: [bool; 3]) -> Self {
        let own = [rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()];
        let first = |order: [usize; 3]| order.into_iter().find(|&number| streams[number]).unwrap_or(2);
        let keyboard = own[first([0, 1, 2])];
        let settings = terminal::is_terminal(keyboard).then(|| terminal::settings(keyboard).ok()).flatten();
        // In a pipeline another program may want the keyboard: then the command shows first that it reads.
        let reads = streams[0] && streams[1] && terminal::are_we_in_foreground(keyboard);
        Screen { keyboard, display: own[first([1, 2, 0])], settings, raw: false, reads }
    }

    /// The terminal to request in the cage: the size of ours, and the streams that are one.
    pub fn wish(&self, streams: [bool; 3]) -> Terminal {
        let size = self.size().filter(|size| size.ws_row > 0 && size.ws_col > 0);
        let (rows, columns) = size.map_or((24, 80), |size| (size.ws_row, size.ws_col));
        Terminal { rows, columns, streams, front: self.reads }
    }

    fn size(&self) -> Option<terminal::Winsize> {
        terminal::window_size(self.display).or_else(|| terminal::window_size(self.keyboard))
    }

    /// Whether what is typed is for the command now.
    fn listens(&self) -> bool {
        self.reads && (self.raw || self.settings.is_none())
    }

    fn is_in_front(&self) -> bool {
        self.settings.is_some() && terminal::are_we_in_foreground(self.keyboard)
    }

    fn enter_raw(&mut self) {
        if let Some(settings) = &self.settings {
            // Also when it is raw already: the shell may have had it in between.
            terminal::apply(self.keyboard, &terminal::raw(settings));
            self.raw = true;
        }
    }

    fn leave_raw(&mut self) {
        if let (true, Some(settings)) = (self.raw, &self.settings) {
            terminal::apply(self.keyboard, settings);
            self.raw = false;
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.leave_raw();
    }
}

/// The relation of this client to the job.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The job runs for this client.
    Owner,
    /// The job runs by itself; this client is attached and may leave.
    Guest,
}

/// The relay between both terminals.
pub struct Relay<'a, P> {
    pub client: &'a mut Client<P>,
    pub job: u32,
    pub inbox: &'a Inbox,
    pub screen: Screen,
    pub role: Role,
    /// Where keys are written to, and what has a size.
    pub main: OwnedFd,
    /// Where that comes from which is shown, if not from there.
    pub shown: Option<OwnedFd>,
}

enum Source {
    Signals,
    Session,
    Shown,
    Keyboard,
    Main,
}

impl<P: Person> Relay<'_, P> {
    /// Relays until the job ends, or one leaves it. `None` if one has left.
    pub fn run(mut self) -> Result<Option<Ended>, Error> {
        let _ = rustix::fs::fcntl_setfl(&self.main, OFlags::NONBLOCK | OFlags::RDWR);
        self.take_size();
        if self.screen.reads && self.screen.is_in_front() {
            self.screen.enter_raw();
        }
        let (mut keyboard_open, mut shown_open) = (true, true);
        let (mut suspend_typed, mut asked_to_stop) = (false, false);
        let (mut pending, mut ended) = (Vec::new(), None);
        loop {
            let mut sources = vec![Source::Signals];
            let mut polled = vec![PollFd::new(self.inbox, PollFlags::IN)];
            if shown_open {
                sources.push(Source::Shown);
                let shown = self.shown.as_ref().unwrap_or(&self.main);
                polled.push(PollFd::new(shown, PollFlags::IN));
            }
            if ended.is_none() {
                sources.push(Source::Session);
                polled.push(PollFd::new(&*self.client, PollFlags::IN));
            }
            if keyboard_open && pending.is_empty() && self.screen.listens() {
                sources.push(Source::Keyboard);
                polled.push(PollFd::from_borrowed_fd(self.screen.keyboard, PollFlags::IN));
            }
            if !pending.is_empty() {
                sources.push(Source::Main);
                polled.push(PollFd::new(&self.main, PollFlags::OUT));
            }
            // What the command has printed is still shown; what it left running may print for ever.
            let rest = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
            let found = poll(&mut polled, ended.is_some().then_some(&rest));
            let ready: Vec<Source> = sources
                .into_iter()
                .zip(&polled)
                .filter(|(_, polled)| !polled.revents().is_empty())
                .map(|(source, _)| source)
                .collect();
            drop(polled);
            let silent = matches!(found, Ok(0));
            for source in ready {
                match source {
                    Source::Signals => {
                        while let Some(received) = self.inbox.next() {
                            asked_to_stop |= received.signal == Signal::TSTP.as_raw();
                            self.pass_on(received.signal)?;
                        }
                    }
                    Source::Shown => {
                        shown_open = copy(self.shown.as_ref().unwrap_or(&self.main), self.screen.display);
                    }
                    Source::Session => match self.client.next_answer()?.0 {
                        Answer::Ended { job, exit, signal, limit, hint } if job == self.job => {
                            ended = Some(Ended { exit, signal, limit, hint });
                        }
                        Answer::Stopped { job, signal } if job == self.job => {
                            self.stopped(signal, std::mem::take(&mut suspend_typed), &mut asked_to_stop)?;
                        }
                        _ => {}
                    },
                    Source::Keyboard => {
                        let mut keys = [0; 4096];
                        match rustix::io::read(self.screen.keyboard, &mut keys) {
                            Ok(length) if length > 0 => {
                                let keys = &keys[..length];
                                if self.role == Role::Guest && keys.contains(&DETACH) {
                                    self.screen.leave_raw();
                                    return Ok(None);
                                }
                                let suspends = self.screen.settings.as_ref().map(|own| own.suspend_key());
                                suspend_typed |= suspends.is_some_and(|key| keys.contains(&key));
                                pending.extend_from_slice(keys);
                            }
                            Err(Errno::INTR | Errno::AGAIN) => {}
                            // The input has ended. For a command that runs for us this is the end of its input.
                            _ => {
                                keyboard_open = false;
                                if self.role == Role::Owner {
                                    pending.push(END_OF_INPUT);
                                }
                            }
                        }
                    }
                    Source::Main => {}
                }
            }
            match rustix::io::write(&self.main, &pending) {
                Ok(written) => drop(pending.drain(..written)),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(_) => pending.clear(),
            }
            if let Some(ended) = ended.take_if(|_| silent || !shown_open) {
                self.screen.leave_raw();
                return Ok(Some(ended));
            }
        }
    }

    fn take_size(&self) {
        if let Some(size) = self.screen.size() {
            terminal::set_window_size(&self.main, size);
        }
    }

    fn tell(&mut self, signal: Signal) -> Result<(), Error> {
        self.client.ask(&Ask::Signal { job: self.job, signal: signal.as_raw() }, &[])
    }

    fn pass_on(&mut self, number: i32) -> Result<(), Error> {
        if number == Signal::WINCH.as_raw() {
            self.take_size();
            Ok(())
        } else if number == Signal::CONT.as_raw() {
            self.go_on()
        } else if self.role == Role::Guest && number != Signal::TSTP.as_raw() {
            // A signal that ends this client is not meant for the job.
            self.screen.leave_raw();
            Err(Error::Detached { job: self.job })
        } else {
            self.client.ask(&Ask::Signal { job: self.job, signal: number }, &[])
        }
    }

    /// The command was stopped, and so are we, as any job of the shell, unless it only waits for the keyboard and we have it to give.
    fn stopped(&mut self, signal: i32, typed: bool, asked_to_stop: &mut bool) -> Result<(), Error> {
        if self.screen.settings.is_none() {
            // There is no shell that could let us go on.
            return Ok(());
        }
        let wants_keyboard = signal == Signal::TTIN.as_raw() || signal == Signal::TTOU.as_raw();
        self.screen.reads |= wants_keyboard;
        if !(wants_keyboard && self.screen.is_in_front()) {
            let asked = typed || std::mem::take(asked_to_stop);
            self.screen.leave_raw();
            match (wants_keyboard, asked) {
                (true, _) => signal::stop_own_group(signal),
                // Ctrl-Z stops the whole job, as it would without us.
                (false, true) => signal::stop_own_group(Signal::TSTP.as_raw()),
                // A command that stops itself stops no process around us; the shell still gets its terminal back.
                (false, false) => signal::stop_self(Signal::STOP.as_raw()),
            }
        }
        self.go_on()
    }

    /// The command goes on; it reads the keyboard if it did before and if we have it.
    fn go_on(&mut self) -> Result<(), Error> {
        self.take_size();
        let (in_front, was_raw) = (self.screen.is_in_front(), self.screen.raw);
        if self.screen.reads && in_front {
            self.screen.enter_raw();
        }
        match (self.role, self.screen.reads && self.screen.settings.is_some(), in_front, was_raw) {
            // Which of its jobs is in front is the command's own affair.
            (Role::Guest, ..) | (_, false, ..) | (_, true, true, true) => self.tell(Signal::CONT),
            (_, true, front, _) => self.client.ask(&Ask::Front { job: self.job, front }, &[]),
        }
    }
}

impl<P: Person> Client<P> {
    /// Attaches this process's terminal to a background job, until the job ends or the person leaves it; `None` if they left.
    pub fn attach(&mut self, job: u32, inbox: &Inbox) -> Result<Option<Ended>, Error> {
        let (_, descriptors) = self.request_with(&Ask::Attach { job })?;
        let Ok([main, shown]) = <[OwnedFd; 2]>::try_from(descriptors) else { return Err(Error::Ended) };
        let mut screen = Screen::new([true, true, false]);
        screen.reads = true;
        let relay = Relay { client: self, job, inbox, screen, role: Role::Guest, main, shown: Some(shown) };
        relay.run()
    }
}
