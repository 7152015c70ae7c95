//! Asking a person on the terminal that was handed over.

use crate::secret::{Buffer, Unread};
use crate::source::Why;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr};
use std::ffi::OsStr;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Ctrl-C.
const INTERRUPT: u8 = 3;
/// The longest line that is typed.
const LONGEST: usize = 1024;

/// Whether what is typed can be seen.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Echo {
    Shown,
    Hidden,
}

/// Says something in a line of its own. Text of others cannot move the cursor.
pub(crate) fn say(terminal: BorrowedFd<'_>, text: &str) {
    let line = format!("{}\n", keyward_policy::text::visible(OsStr::new(text)));
    let _ = rustix::io::write(terminal, line.as_bytes());
}

/// Asks, and gives what was typed up to the end of the line. Ctrl-C and Ctrl-D are a no.
pub(crate) fn ask(
    terminal: BorrowedFd<'_>,
    question: &str,
    echo: Echo,
    limit: Duration,
) -> Result<Buffer, Why> {
    let mode = Mode::set(terminal, echo)?;
    let question = format!("{}: ", keyward_policy::text::visible(OsStr::new(question)));
    rustix::io::write(terminal, question.as_bytes())?;
    let typed = line(terminal, limit);
    if echo == Echo::Hidden {
        let _ = rustix::io::write(terminal, b"\n");
    }
    drop(mode);
    typed
}

fn line(terminal: BorrowedFd<'_>, limit: Duration) -> Result<Buffer, Why> {
    let deadline = Instant::now() + limit;
    let mut typed = Buffer::new(LONGEST);
    let mut byte = [0u8; 1];
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).map_err(|_| Why::TimedOut(limit.as_secs()))?;
        match poll(&mut [PollFd::new(&terminal, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Err(Why::TimedOut(limit.as_secs())),
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(errno.into()),
        }
        match rustix::io::read(terminal, &mut byte) {
            Ok(0) | Err(Errno::IO) => return Err(Why::Locked),
            Ok(_) => {}
            Err(Errno::INTR | Errno::AGAIN) => continue,
            Err(errno) => return Err(errno.into()),
        }
        match byte {
            [b'\n' | b'\r'] => return Ok(typed),
            [INTERRUPT] => return Err(Why::Locked),
            [one] => typed.push(one).map_err(|_: Unread| Why::TooLarge)?,
        }
        byte = [0];
    }
}

/// The terminal's mode while it is asked; put back at the end.
struct Mode<'a> {
    terminal: BorrowedFd<'a>,
    before: Termios,
}

impl<'a> Mode<'a> {
    fn set(terminal: BorrowedFd<'a>, echo: Echo) -> Result<Self, Why> {
        let before = tcgetattr(terminal).map_err(|_| Why::Locked)?;
        let mut mode = before.clone();
        mode.local_modes.insert(LocalModes::ICANON);
        mode.local_modes.set(LocalModes::ECHO, echo == Echo::Shown);
        // Ctrl-C comes as a character that ends the line, so that nobody is killed while the echo is off.
        mode.local_modes.remove(LocalModes::ISIG);
        mode.special_codes[SpecialCodeIndex::VEOL] = INTERRUPT;
        tcsetattr(terminal, OptionalActions::Flush, &mode)?;
        Ok(Mode { terminal, before })
    }
}

impl Drop for Mode<'_> {
    fn drop(&mut self) {
        let _ = tcsetattr(self.terminal, OptionalActions::Drain, &self.before);
    }
}
