//! One connection of the cage and its counterpart to the bus.

use super::buffer::{Arrived, Buffer};
use super::handshake::{self, Server, Step};
use keyward_policy::untrusted::keyring::message::LONGEST;
use keyward_policy::untrusted::keyring::{Filter, Message, Verdict};
use rustix::event::PollFlags;
use rustix::fd::OwnedFd;

/// When so much waits to be written, nothing more is read that could add to it.
const ENOUGH: usize = 256 * 1024;

pub(super) struct Connection {
    pub(super) client: OwnedFd,
    pub(super) bus: OwnedFd,
    stage: Stage,
    filter: Filter,
    from_client: Buffer,
    to_bus: Buffer,
    from_bus: Buffer,
    to_client: Buffer,
    /// The bus has ended the connection; the client still gets what came before.
    bus_gone: bool,
}

enum Stage {
    /// The bus has not taken us yet; the client is not heard before.
    Bus,
    /// The client's first byte, which is zero.
    Zero(Server),
    Client(Server),
    Messages,
}

/// What is wanted of the two sockets, or what they are ready for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ready {
    pub(super) client: PollFlags,
    pub(super) bus: PollFlags,
}

impl Default for Ready {
    fn default() -> Self {
        Ready { client: PollFlags::empty(), bus: PollFlags::empty() }
    }
}

/// The connection has ended.
#[derive(Debug)]
pub(super) struct Ended;

impl Connection {
    pub(super) fn new(client: OwnedFd, bus: OwnedFd, items: Vec<String>) -> Self {
        let mut to_bus = Buffer::default();
        to_bus.push(&handshake::to_bus(rustix::process::geteuid().as_raw()));
        Connection {
            client,
            bus,
            stage: Stage::Bus,
            filter: Filter::new(items),
            from_client: Buffer::default(),
            to_bus,
            from_bus: Buffer::default(),
            to_client: Buffer::default(),
            bus_gone: false,
        }
    }

    /// An answer to the client may come from either side, so both wait for it to read.
    fn hears_client(&self) -> bool {
        !matches!(self.stage, Stage::Bus)
            && !self.bus_gone
            && self.to_bus.len() < ENOUGH
            && self.to_client.len() < ENOUGH
    }

    fn hears_bus(&self) -> bool {
        !self.bus_gone && self.to_client.len() < ENOUGH && self.from_bus.len() < LONGEST
    }

    pub(super) fn wants(&self) -> Ready {
        let wants = |reads: bool, writes: bool| {
            let read = if reads { PollFlags::IN } else { PollFlags::empty() };
            read | if writes { PollFlags::OUT } else { PollFlags::empty() }
        };
        Ready {
            client: wants(self.hears_client(), !self.to_client.is_empty()),
            bus: wants(self.hears_bus(), !self.to_bus.is_empty() && !self.bus_gone),
        }
    }

    /// Does what the sockets are ready for.
    pub(super) fn work(&mut self, ready: Ready) -> Result<(), Ended> {
        // What is not `OUT` is something to read: bytes, an end or an error, and reading tells which.
        let can_read = |flags: PollFlags| !flags.difference(PollFlags::OUT).is_empty();
        if can_read(ready.bus) && self.hears_bus() && self.from_bus.read(&self.bus) == Arrived::End {
            self.bus_gone = true;
        }
        if can_read(ready.client)
            && self.hears_client()
            && self.from_client.read(&self.client) == Arrived::End
        {
            return Err(Ended);
        }
        loop {
            let moved = self.advance()?;
            self.to_client.write(&self.client).map_err(|_| Ended)?;
            if !self.bus_gone && self.to_bus.write(&self.bus).is_err() {
                self.bus_gone = true;
            }
            if !moved {
                break;
            }
        }
        if self.bus_gone && self.to_client.is_empty() { Err(Ended) } else { Ok(()) }
    }

    /// Moves on what has arrived as a whole; false if that is nothing.
    fn advance(&mut self) -> Result<bool, Ended> {
        match &mut self.stage {
            Stage::Bus => {
                let Some(line) = whole_line(&self.from_bus)? else { return Ok(false) };
                let bus = handshake::taken_by_bus(line).ok_or(Ended)?;
                let length = line.len() + 2;
                self.from_bus.consume(length);
                self.to_bus.push(b"BEGIN\r\n");
                self.stage = Stage::Zero(Server::new(bus));
                Ok(true)
            }
            Stage::Zero(server) => match self.from_client.content().first() {
                None => Ok(false),
                Some(0) => {
                    self.from_client.consume(1);
                    let server = std::mem::replace(server, Server::new(Vec::new()));
                    self.stage = Stage::Client(server);
                    Ok(true)
                }
                Some(_) => Err(Ended),
            },
            Stage::Client(server) => {
                let Some(line) = whole_line(&self.from_client)? else { return Ok(false) };
                let length = line.len() + 2;
                let step = server.hear(line);
                self.from_client.consume(length);
                match step {
                    Step::Say(text) => self.to_client.push(&text),
                    Step::Begin => self.stage = Stage::Messages,
                    Step::Close => return Err(Ended),
                }
                Ok(true)
            }
            Stage::Messages => Ok(self.move_from_client()? | self.move_from_bus()?),
        }
    }

    fn move_from_client(&mut self) -> Result<bool, Ended> {
        let mut moved = false;
        while self.hears_client()
            && let Some(length) = whole_message(&self.from_client)?
        {
            let message = &self.from_client.content()[..length];
            match self.filter.from_client(message) {
                Verdict::Pass => self.to_bus.push(message),
                Verdict::PassThen(more) => {
                    self.to_bus.push(message);
                    self.to_bus.push(&more);
                }
                Verdict::Answer(answer) => self.to_client.push(&answer),
                Verdict::Drop => {}
                Verdict::Close => return Err(Ended),
            }
            self.from_client.consume(length);
            moved = true;
        }
        Ok(moved)
    }

    fn move_from_bus(&mut self) -> Result<bool, Ended> {
        let mut moved = false;
        // What came before the bus left is still told.
        while self.to_client.len() < ENOUGH
            && let Some(length) = whole_message(&self.from_bus)?
        {
            let message = &self.from_bus.content()[..length];
            match self.filter.from_bus(message) {
                Verdict::Pass => self.to_client.push(message),
                Verdict::Answer(answer) => self.to_client.push(&answer),
                Verdict::Drop => {}
                Verdict::PassThen(_) | Verdict::Close => return Err(Ended),
            }
            self.from_bus.consume(length);
            moved = true;
        }
        Ok(moved)
    }
}

/// The first line, once it is there as a whole.
fn whole_line(buffer: &Buffer) -> Result<Option<&[u8]>, Ended> {
    match handshake::line(buffer.content()) {
        Some(line) if line.len() <= handshake::LONGEST => Ok(Some(line)),
        None if buffer.len() <= handshake::LONGEST => Ok(None),
        _ => Err(Ended),
    }
}

/// The length of the first message, once it is there as a whole.
fn whole_message(buffer: &Buffer) -> Result<Option<usize>, Ended> {
    let length = Message::length(buffer.content()).map_err(|_| Ended)?;
    Ok(length.filter(|length| *length <= buffer.len()))
}
