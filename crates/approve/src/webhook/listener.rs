//! Where answers arrive by themselves: `POST /answer` at an address of this machine.
//!
//! Any process that reaches the address may try. One request per connection, each bounded in size and time, a few connections at once; what comes
//! without the key is refused, and nothing that comes ends the listening.

use super::wire::{self, Answer, LONGEST_BODY, LONGEST_HEAD, Request};
use keyward_vault::secret::Secret;
use rustix::event::{PollFd, PollFlags};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// How long one client may take, from its first byte to its last.
const PATIENCE: Duration = Duration::from_secs(5);
/// How soon the address is tried again while another process has it.
const AGAIN: Duration = Duration::from_millis(500);
/// The most connections at once; when one more comes, the oldest has to go.
const MOST_CLIENTS: usize = 16;
/// So many tokens are remembered.
const MOST_TOKENS: usize = 256;

pub(super) struct Listener {
    address: SocketAddr,
    /// `None` while another process has the address: a question that was asked before ours, whose process passes our answer on.
    socket: Option<TcpListener>,
    tried: Instant,
    clients: VecDeque<Client>,
    answered: VecDeque<[u8; 32]>,
}

struct Client {
    stream: TcpStream,
    since: Instant,
    bytes: Vec<u8>,
    /// What is said to it, and how much of that is gone.
    reply: Option<(Vec<u8>, usize)>,
}

/// What has come.
pub(super) enum Came {
    Answer(Answer),
    Refused(&'static str),
}

impl Listener {
    pub(super) fn new(address: SocketAddr) -> io::Result<Self> {
        let mut listener = Listener {
            address,
            socket: None,
            tried: Instant::now(),
            clients: VecDeque::new(),
            answered: VecDeque::new(),
        };
        listener.open()?;
        Ok(listener)
    }

    fn open(&mut self) -> io::Result<()> {
        self.tried = Instant::now();
        match TcpListener::bind(self.address) {
            Ok(socket) => {
                socket.set_nonblocking(true)?;
                self.socket = Some(socket);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// What to wait for, besides [`Listener::due`].
    pub(super) fn ask<'b>(&'b self, polled: &mut Vec<PollFd<'b>>) {
        polled.extend(self.socket.as_ref().map(|socket| PollFd::new(socket, PollFlags::IN)));
        for client in &self.clients {
            let wants = if client.reply.is_some() { PollFlags::OUT } else { PollFlags::IN };
            polled.push(PollFd::new(&client.stream, wants));
        }
    }

    /// When there is something to do even if nothing comes.
    pub(super) fn due(&self) -> Option<Duration> {
        let again = self.socket.is_none().then_some(AGAIN.saturating_sub(self.tried.elapsed()));
        let oldest = self.clients.front().map(|client| PATIENCE.saturating_sub(client.since.elapsed()));
        again.into_iter().chain(oldest).min()
    }

    /// Does what can be done without waiting.
    pub(super) fn work(&mut self, key: &Secret, now: u64) -> Vec<Came> {
        if self.socket.is_none() && self.tried.elapsed() >= AGAIN {
            let _ = self.open();
        }
        let mut came = Vec::new();
        // Those who are there first: one who has said all is not pushed out by one who has said nothing.
        self.serve(key, now, &mut came);
        for _ in 0..MOST_CLIENTS {
            let Some(Ok((stream, _))) = self.socket.as_ref().map(TcpListener::accept) else { break };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            if self.clients.len() >= MOST_CLIENTS {
                self.clients.pop_front();
            }
            self.clients.push_back(Client { stream, since: Instant::now(), bytes: Vec::new(), reply: None });
        }
        self.serve(key, now, &mut came);
        came
    }

    fn serve(&mut self, key: &Secret, now: u64, came: &mut Vec<Came>) {
        let answered = &mut self.answered;
        self.clients.retain_mut(|client| {
            let stays = client.work(|request| {
                let (status, what) = hear(request, key, now, answered);
                came.extend(what);
                status
            });
            stays && client.since.elapsed() < PATIENCE
        });
    }
}

/// What is replied to a whole request, and what has come by it.
fn hear(
    request: &Request<'_>,
    key: &Secret,
    now: u64,
    answered: &mut VecDeque<[u8; 32]>,
) -> (u16, Option<Came>) {
    let (signature, body) = match request {
        Request::Whole { signature, body } => (*signature, *body),
        Request::Bad(status) => return (*status, Some(Came::Refused("it is not a POST /answer request"))),
        Request::Part => return (400, Some(Came::Refused("it ended too early"))),
    };
    if let Err(unsigned) = wire::verify(key.expose(), now, signature, body) {
        return (401, Some(Came::Refused(unsigned.as_str())));
    }
    let Some(answer) = wire::answer(body) else { return (422, Some(Came::Refused("it holds no answer"))) };
    if answered.contains(&answer.token) {
        return (409, Some(Came::Refused("its token was used before")));
    }
    if answered.len() >= MOST_TOKENS {
        answered.pop_front();
    }
    answered.push_back(answer.token);
    (200, Some(Came::Answer(answer)))
}

impl Client {
    /// Reads and writes what there is. False when it is done.
    fn work(&mut self, mut hear: impl FnMut(&Request<'_>) -> u16) -> bool {
        while self.reply.is_none() {
            let mut place = [0; 4096];
            let ended = match self.stream.read(&mut place) {
                Ok(0) => true,
                Ok(read) => {
                    self.bytes.extend_from_slice(place.get(..read).unwrap_or_default());
                    false
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return false,
            };
            if ended && self.bytes.is_empty() {
                return false;
            }
            let request = wire::request(&self.bytes);
            if request != Request::Part || ended || self.bytes.len() > LONGEST_HEAD + LONGEST_BODY {
                self.reply = Some((reply(hear(&request)), 0));
            }
        }
        while let Some((text, gone)) = &mut self.reply {
            match self.stream.write(text.get(*gone..).unwrap_or_default()) {
                Ok(0) => break,
                Ok(written) => *gone += written,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        let _ = self.stream.shutdown(Shutdown::Write);
        false
    }
}

fn reply(status: u16) -> Vec<u8> {
    let (words, body) = match status {
        200 => ("OK", "{\"v\":1,\"taken\":true}\n"),
        _ => ("Refused", "{\"v\":1,\"taken\":false}\n"),
    };
    let length = body.len();
    format!("HTTP/1.1 {status} {words}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
        .into_bytes()
}
