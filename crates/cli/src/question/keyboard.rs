//! The terminal while it is ours: lines are typed on it, signals wait, and everything is put back at the end.

use keyward_approve::terminal::Reply;
use keyward_sys::signal::{self, Inbox, Set};
use keyward_sys::terminal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Signal;
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, OutputModes, QueueSelector, SpecialCodeIndex, Termios, tcflush,
    tcgetattr, tcsetattr,
};
use std::fs::File;
use std::io::Write;
use std::time::{Duration, Instant, SystemTime};

/// Ctrl-C.
const INTERRUPT: u8 = 3;
/// More than a line of a terminal can hold.
const LONGEST: usize = 8192;
/// How often others are looked at.
const PAUSE: Duration = Duration::from_millis(100);

/// What was typed, or why nothing more will be.
pub enum Typed {
    Line(String),
    End(Reply),
}

pub struct Keyboard {
    tty: File,
    before: Termios,
    until: SystemTime,
    inbox: Inbox,
    mask: Set,
}

impl Keyboard {
    /// Takes the terminal over. `None` where it is not ours to ask on.
    pub fn take(tty: File, until: SystemTime) -> Option<Self> {
        if !terminal::are_we_in_foreground(&tty) {
            return None;
        }
        let before = tcgetattr(&tty).ok()?;
        // They wait while the terminal is not as it was, and come when it is.
        let ours = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT].map(Signal::as_raw);
        let inbox = Inbox::new(&Set::of(&ours)).ok()?;
        let stops = [Signal::TSTP, Signal::TTOU, Signal::TTIN].map(Signal::as_raw);
        let mask = signal::block(&Set::of(&[&ours[..], &stops].concat()));
        let keyboard = Keyboard { tty, before, until, inbox, mask };
        // Flush: what was typed before is no answer.
        tcsetattr(&keyboard.tty, OptionalActions::Flush, &lines(&keyboard.before)).ok()?;
        Some(keyboard)
    }

    pub fn say(&mut self, text: &str) {
        let _ = self.tty.write_all(text.as_bytes());
    }

    /// Rows and columns.
    pub fn size(&self) -> (usize, usize) {
        match terminal::window_size(&self.tty) {
            Some(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row.into(), size.ws_col.into()),
            _ => (24, 80),
        }
    }

    /// Whether it obeys no sequences.
    pub fn is_dumb(&self) -> bool {
        std::env::var_os("TERM").is_none_or(|name| name == "dumb")
    }

    /// Waits, and throws away what is typed meanwhile.
    pub fn pause(&mut self, time: Duration, elsewhere: &mut dyn FnMut() -> Option<bool>) -> Option<Reply> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            // The terminal itself is left out: what is typed does not shorten it.
            let step = end.saturating_duration_since(Instant::now()).min(PAUSE);
            if let Some(reply) = self.wait(PollFlags::empty(), step, elsewhere).err() {
                return Some(reply);
            }
        }
        let _ = tcflush(&self.tty, QueueSelector::IFlush);
        None
    }

    /// The next line.
    pub fn line(&mut self, elsewhere: &mut dyn FnMut() -> Option<bool>) -> Typed {
        loop {
            match self.wait(PollFlags::IN, PAUSE, elsewhere) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(reply) => return Typed::End(reply),
            }
            let mut bytes = [0; LONGEST];
            match rustix::io::read(&self.tty, &mut bytes) {
                // The end of input, on a line of its own.
                Ok(0) => return Typed::End(Reply::Deny),
                Ok(length) => {
                    let typed = bytes.get(..length).unwrap_or_default();
                    if typed.contains(&INTERRUPT) {
                        return Typed::End(Reply::Deny);
                    }
                    return Typed::Line(String::from_utf8_lossy(typed).to_lowercase());
                }
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(_) => return Typed::End(Reply::Gone),
            }
        }
    }

    /// Whether there is something to read; otherwise why waiting is pointless.
    fn wait(
        &self,
        wanted: PollFlags,
        time: Duration,
        elsewhere: &mut dyn FnMut() -> Option<bool>,
    ) -> Result<bool, Reply> {
        if let Some(answer) = elsewhere() {
            return Err(Reply::Elsewhere(answer));
        }
        let Ok(left) = self.until.duration_since(SystemTime::now()) else { return Err(Reply::Timeout) };
        let time = Timespec::try_from(time.min(left)).map_err(|_| Reply::Timeout)?;
        let mut both = [PollFd::new(&self.tty, wanted), PollFd::new(&self.inbox, PollFlags::IN)];
        match poll(&mut both, Some(&time)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return Err(Reply::Gone),
        }
        let [tty, inbox] = both.map(|polled| polled.revents());
        // A signal stays where it is: it comes when everything is put back.
        if tty.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) || !inbox.is_empty() {
            return Err(Reply::Gone);
        }
        Ok(tty.contains(PollFlags::IN))
    }
}

/// Lines that can be seen and mended while they are typed, whatever a program before us has set.
fn lines(before: &Termios) -> Termios {
    let mut mode = before.clone();
    mode.input_modes.insert(InputModes::ICRNL);
    mode.input_modes.remove(InputModes::INLCR | InputModes::IGNCR);
    mode.output_modes.insert(OutputModes::OPOST | OutputModes::ONLCR);
    mode.local_modes.insert(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ECHOE);
    // Ctrl-C comes as a character that ends the line: it is an answer.
    mode.local_modes.remove(LocalModes::ISIG);
    mode.special_codes[SpecialCodeIndex::VEOL] = INTERRUPT;
    mode
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        // Flush: half an answer shall not become the input of the next program.
        let _ = tcsetattr(&self.tty, OptionalActions::Flush, &self.before);
        signal::set_mask(&self.mask);
    }
}
