//! Moves bytes between the user's terminal and the cage's, and counts output where a limit is set.

use crate::sources::Sources;
use crate::supervise::Screen;
use rustix::event::{PollFd, PollFlags};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;

const CHUNK: usize = 16 * 1024;

/// Counts what the command prints.
pub(crate) struct Counter {
    left: Option<u64>,
    exceeded: bool,
}

impl Counter {
    pub(crate) fn new(limit: Option<u64>) -> Self {
        Counter { left: limit, exceeded: false }
    }

    /// How many of these bytes may still be shown.
    fn take(&mut self, bytes: usize) -> usize {
        let Some(left) = &mut self.left else { return bytes };
        let shown = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes);
        *left -= shown as u64;
        self.exceeded |= shown < bytes;
        shown
    }
}

/// What a relay waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// The user's terminal.
    Keyboard,
    /// The cage's terminal.
    Terminal,
    /// A counted stream, by its place.
    Counted(usize),
}

/// All streams that run through the launcher.
pub(crate) struct Relay {
    counter: Counter,
    /// The cage's terminal, our side.
    main: Option<OwnedFd>,
    /// Keys that the cage's terminal has not taken yet.
    pending: Vec<u8>,
    keyboard_open: bool,
    /// The user's terminal is no longer there.
    keyboard_gone: bool,
    /// The user has typed Ctrl-Z (or what stands for it) since the command was last stopped.
    suspend_typed: bool,
    counted: Vec<(Option<OwnedFd>, BorrowedFd<'static>)>,
    /// Whether it is we who show what the cage's terminal has.
    shows: bool,
    /// The last byte that the user's terminal was shown.
    last_shown: Option<u8>,
    /// Whether the user's terminal belongs to a question for the time being.
    paused: bool,
}

impl Relay {
    pub(crate) fn new(counter: Counter, counted: Vec<(OwnedFd, BorrowedFd<'static>)>, shows: bool) -> Self {
        let counted = counted.into_iter().map(|(from, to)| (Some(from), to)).collect();
        Relay {
            counter,
            main: None,
            pending: Vec::new(),
            keyboard_open: true,
            keyboard_gone: false,
            suspend_typed: false,
            counted,
            shows,
            last_shown: None,
            paused: false,
        }
    }

    pub(crate) fn set_terminal(&mut self, main: OwnedFd) {
        // Only our own side: a full terminal must not block the launcher.
        let _ = rustix::fs::fcntl_setfl(&main, rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::RDWR);
        self.main = Some(main);
    }

    pub(crate) fn terminal(&self) -> Option<BorrowedFd<'_>> {
        self.main.as_ref().map(AsFd::as_fd)
    }

    /// Whether it is we who show what the cage's terminal has.
    pub(crate) const fn shows(&self) -> bool {
        self.shows
    }

    /// Leaves the user's terminal alone, or goes on with it. The command neither draws nor reads there meanwhile.
    pub(crate) const fn pause(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// Whether the user's terminal stands within a line; `None` where another process shows it what the command prints.
    pub(crate) fn within_a_line(&self) -> Option<bool> {
        self.shows.then(|| self.last_shown.is_some_and(|byte| byte != b'\n'))
    }

    /// Whether a stop of the command was the user's wish.
    pub(crate) fn take_suspend_typed(&mut self) -> bool {
        std::mem::take(&mut self.suspend_typed)
    }

    pub(crate) fn exceeded(&self) -> bool {
        self.counter.exceeded
    }

    /// Whether a counted stream is passed on into this descriptor.
    pub(crate) fn has_counted_into(&self, to: BorrowedFd<'_>) -> bool {
        self.counted.iter().any(|(_, other)| other.as_raw_fd() == to.as_raw_fd())
    }

    /// Adds what this relay waits for, each under the token that `named` makes of its own.
    pub(crate) fn ask<'a, T>(
        &'a self,
        sources: &mut Sources<'a, T>,
        named: impl Fn(Token) -> T,
        screen: Option<&'a Screen>,
    ) {
        if let (Some(main), Some(screen), false) = (&self.main, screen, self.paused) {
            // One that has gone away would say so for ever.
            if !self.keyboard_gone {
                let reads = screen.raw && self.keyboard_open && self.pending.is_empty();
                let events = if reads { PollFlags::IN } else { PollFlags::empty() };
                sources.add_for(named(Token::Keyboard), screen.keyboard, events);
            }
            let writes = if self.pending.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            let reads = if self.shows { PollFlags::IN } else { PollFlags::empty() };
            sources.add_for(named(Token::Terminal), main.as_fd(), reads | writes);
        }
        for (place, (from, _)) in self.counted.iter().enumerate() {
            sources.add_if(named(Token::Counted(place)), from.as_ref().map(AsFd::as_fd));
        }
    }

    /// Does what a token of `ask` stands for.
    pub(crate) fn work(&mut self, token: Token, flags: PollFlags, screen: Option<&Screen>) {
        match (token, screen) {
            (Token::Keyboard, Some(screen)) => self.work_keyboard(flags, screen),
            (Token::Terminal, Some(screen)) => self.work_terminal(flags, screen),
            (Token::Counted(place), _) => drop(self.count(place)),
            (Token::Keyboard | Token::Terminal, None) => {}
        }
    }

    fn work_keyboard(&mut self, flags: PollFlags, screen: &Screen) {
        if flags.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            self.keyboard_gone = !flags.contains(PollFlags::IN);
        }
        if !self.keyboard_gone && screen.raw {
            self.read_keyboard(screen);
        }
    }

    fn work_terminal(&mut self, flags: PollFlags, screen: &Screen) {
        if flags.contains(PollFlags::OUT) || !self.pending.is_empty() {
            self.write_pending();
        }
        if self.shows && flags.intersects(PollFlags::IN | PollFlags::HUP) {
            self.show(screen);
        }
    }

    fn read_keyboard(&mut self, screen: &Screen) {
        let mut buffer = [0; 4096];
        match rustix::io::read(screen.keyboard, &mut buffer) {
            Ok(0) | Err(Errno::IO) => self.keyboard_open = false,
            Ok(length) => {
                self.suspend_typed |= buffer[..length].contains(&screen.settings.suspend_key());
                self.pending.extend_from_slice(&buffer[..length]);
            }
            Err(_) => {}
        }
        self.write_pending();
    }

    fn write_pending(&mut self) {
        let Some(main) = &self.main else { return };
        if let Ok(written) = rustix::io::write(main, &self.pending) {
            self.pending.drain(..written);
        }
    }

    /// Shows what the cage's terminal has; false when there is no more.
    fn show(&mut self, screen: &Screen) -> bool {
        let Some(main) = &self.main else { return false };
        let mut buffer = [0; CHUNK];
        match rustix::io::read(main, &mut buffer) {
            Ok(length) if length > 0 => {
                let shown = self.counter.take(length);
                write_all(screen.display, &buffer[..shown]);
                self.last_shown = buffer[..shown].last().copied().or(self.last_shown);
                true
            }
            Err(Errno::INTR) => true,
            _ => false,
        }
    }

    fn count(&mut self, place: usize) -> bool {
        let (Some(from), to) = &self.counted[place] else { return false };
        let mut buffer = [0; CHUNK];
        match rustix::io::read(from, &mut buffer) {
            Ok(0) => {
                self.counted[place].0 = None;
                false
            }
            Ok(length) => {
                let shown = self.counter.take(length);
                if !write_all(*to, &buffer[..shown]) {
                    // The reader of our output is gone; the command learns it by its own closed pipe.
                    self.counted[place].0 = None;
                }
                true
            }
            Err(Errno::INTR) => true,
            Err(_) => false,
        }
    }

    /// After the cage has ended: what is still on its way.
    pub(crate) fn finish(&mut self, screen: Option<&Screen>) {
        if let (Some(screen), true) = (screen, self.shows) {
            while self.show(screen) {}
        }
        for place in 0..self.counted.len() {
            while self.counted[place].0.is_some() && self.count(place) {}
        }
    }
}

fn write_all(to: BorrowedFd<'_>, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match rustix::io::write(to, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let mut polled = [PollFd::new(&to, PollFlags::OUT)];
                let _ = rustix::event::poll(&mut polled, None);
            }
            Err(_) => return false,
        }
    }
    true
}
