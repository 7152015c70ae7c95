//! Moves one stream from a descriptor to another, without its secrets.
//!
//! Nothing here blocks for long: it reads when there is something, writes as much as the reader takes, and otherwise waits in `poll`. A reader
//! that has stopped stops this stream, and through it the child that writes, and nobody else. The descriptors' own settings, which other
//! processes may share, are not changed.

use super::patterns::Patterns;
use super::stream::{Found, Redactor, Show};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::BorrowedFd;
use rustix::fs::{FileType, OFlags, fcntl_getfl, fstat};
use rustix::io::{Errno, IoSlice, ReadWriteFlags};
use std::io;
use std::time::{Duration, Instant};

/// How long a stream has to be silent before what was kept back may be shown: short for somebody who waits for a prompt, long for a
/// program that writes a line in two pieces.
pub const REST: Duration = Duration::from_millis(20);

/// What a pipe holds by default, so that one read empties it.
const CHUNK: usize = 64 * 1024;
/// POSIX: a pipe that is ready takes this many bytes without blocking.
const SURE: usize = 4096;

/// One stream, for whoever waits for many: ask what it [`wants`](Self::wants), wait, let it [`work`](Self::work), until it is
/// [`done`](Self::is_done).
pub struct Stream<'a> {
    input: BorrowedFd<'a>,
    output: Output<'a>,
    /// Gone when the input has ended.
    redactor: Option<Redactor<'a>>,
    last_input: Instant,
    found: Vec<Found>,
}

/// The descriptor that is written to, and what it has not taken yet.
struct Output<'a> {
    descriptor: BorrowedFd<'a>,
    writes: Writes,
    waiting: Vec<u8>,
    /// How much of `waiting` has been written.
    sent: usize,
    gone: bool,
    fault: Option<Errno>,
}

/// How one writes without blocking.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writes {
    /// The descriptor does not block.
    Plain,
    /// The call says that it must not.
    NoWait,
    /// Neither: little by little.
    Small,
}

/// What a stream waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wants {
    pub read: bool,
    pub write: bool,
    /// After this time it wants to work, whether anything is ready or not.
    pub within: Option<Duration>,
}

impl<'a> Stream<'a> {
    pub fn new(input: BorrowedFd<'a>, output: BorrowedFd<'a>, patterns: &'a Patterns) -> Self {
        let redactor = Some(Redactor::new(patterns));
        Stream { input, output: Output::new(output), redactor, last_input: Instant::now(), found: Vec::new() }
    }

    pub fn wants(&self) -> Wants {
        let write = self.output.is_waiting();
        let held = self.redactor.as_ref().is_some_and(|redactor| redactor.kept_back() > 0);
        let within = (held && !write).then(|| REST.saturating_sub(self.last_input.elapsed()));
        // What has passed the rest and is still kept back waits for input alone.
        let within = within.filter(|left| !left.is_zero());
        Wants { read: !write && self.redactor.is_some(), write, within }
    }

    /// Everything was written, or the reader is gone. The input should then be closed, so that the writer learns it.
    pub fn is_done(&self) -> bool {
        self.output.gone || (self.redactor.is_none() && !self.output.is_waiting())
    }

    /// What it reads from, and what it writes to.
    pub fn descriptors(&self) -> (BorrowedFd<'a>, BorrowedFd<'a>) {
        (self.input, self.output.descriptor)
    }

    /// Ends the stream, because the reader is gone.
    pub fn give_up(&mut self) {
        self.output.gone = true;
    }

    /// What was found since the last call.
    pub fn take_found(&mut self) -> Vec<Found> {
        std::mem::take(&mut self.found)
    }

    /// Does what can be done now, given what `poll` said about both descriptors.
    pub fn work(&mut self, input: PollFlags, output: PollFlags) -> io::Result<()> {
        self.output.gone |= output.intersects(PollFlags::ERR | PollFlags::NVAL);
        if !self.output.gone && self.wants().read {
            if input.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                self.read()?;
            } else if self.last_input.elapsed() >= REST
                && let Some(redactor) = &mut self.redactor
            {
                redactor.rest(&mut self.output);
            }
        }
        self.output.write_waiting();
        self.output.fault.take().map_or(Ok(()), |fault| Err(fault.into()))
    }

    fn read(&mut self) -> io::Result<()> {
        let Some(redactor) = &mut self.redactor else { return Ok(()) };
        let input = self.input;
        let read = |room: &mut [u8]| rustix::io::read(input, room);
        match redactor.push_from(CHUNK, read, &mut self.output, &mut self.found) {
            Ok(1..) => {}
            // The end; or the other side of a terminal is gone.
            Ok(0) | Err(Errno::IO) => {
                if let Some(redactor) = self.redactor.take() {
                    redactor.finish(&mut self.output, &mut self.found);
                }
            }
            Err(Errno::INTR | Errno::AGAIN) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        self.last_input = Instant::now();
        Ok(())
    }
}

impl<'a> Output<'a> {
    fn new(descriptor: BorrowedFd<'a>) -> Self {
        // A file is always ready, and never blocks because of another process.
        let file = fstat(descriptor).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_file());
        let plain = file || fcntl_getfl(descriptor).is_ok_and(|flags| flags.contains(OFlags::NONBLOCK));
        let writes = if plain { Writes::Plain } else { Writes::NoWait };
        Output { descriptor, writes, waiting: Vec::new(), sent: 0, gone: false, fault: None }
    }

    fn is_waiting(&self) -> bool {
        self.sent < self.waiting.len()
    }

    fn write_waiting(&mut self) {
        let waiting = std::mem::take(&mut self.waiting);
        self.sent += self.write(&waiting[self.sent..]);
        self.waiting = waiting;
        if self.sent == self.waiting.len() {
            self.waiting.clear();
            self.sent = 0;
        }
    }

    /// Writes what is taken at once; says how much that was.
    fn write(&mut self, bytes: &[u8]) -> usize {
        if bytes.is_empty() || self.gone || self.fault.is_some() {
            return 0;
        }
        let written = match self.writes {
            Writes::Plain => rustix::io::write(self.descriptor, bytes),
            // An offset of -1 is the place where the descriptor is.
            Writes::NoWait => rustix::io::pwritev2(
                self.descriptor,
                &[IoSlice::new(bytes)],
                u64::MAX,
                ReadWriteFlags::NOWAIT,
            ),
            Writes::Small => {
                let mut polled = [PollFd::new(&self.descriptor, PollFlags::OUT)];
                match poll(&mut polled, Some(&Timespec::default())) {
                    Ok(1..) => rustix::io::write(self.descriptor, &bytes[..bytes.len().min(SURE)]),
                    Ok(0) => Err(Errno::AGAIN),
                    Err(error) => Err(error),
                }
            }
        };
        match written {
            Ok(written) => return written,
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) if self.writes == Writes::NoWait => {
                self.writes = Writes::Small;
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(Errno::PIPE | Errno::CONNRESET) => self.gone = true,
            Err(error) => self.fault = Some(error),
        }
        0
    }
}

impl Show for Output<'_> {
    /// Much is written at once, from where it lies; little is collected.
    fn show(&mut self, bytes: &[u8]) {
        let much = bytes.len() >= SURE && !self.is_waiting();
        let written = if much { self.write(bytes) } else { 0 };
        self.waiting.extend_from_slice(&bytes[written..]);
    }
}

/// Moves the stream until it ends, or until its reader is gone, and reports what was found.
pub fn relay(input: BorrowedFd<'_>, output: BorrowedFd<'_>, patterns: &Patterns) -> io::Result<Vec<Found>> {
    let mut stream = Stream::new(input, output, patterns);
    while !stream.is_done() {
        let wants = stream.wants();
        let reads = if wants.read { PollFlags::IN } else { PollFlags::empty() };
        let writes = if wants.write { PollFlags::OUT } else { PollFlags::empty() };
        // An input that has ended would say so for ever while the reader takes its time; one that is not asked for is left out.
        let mut polled = [PollFd::new(&output, writes), PollFd::new(&input, reads)];
        let asked = if wants.read { 2 } else { 1 };
        let within = wants.within.map(|time| Timespec { tv_sec: 0, tv_nsec: time.subsec_nanos().into() });
        match poll(&mut polled[..asked], within.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let ready = |place: usize| if place < asked { polled[place].revents() } else { PollFlags::empty() };
        stream.work(ready(1), ready(0))?;
    }
    Ok(stream.take_found())
}
