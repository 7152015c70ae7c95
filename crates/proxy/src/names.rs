//! The DNS of a cage. Allowed names get the addresses that stand for them inside; nothing is asked outside. Other names do not exist, and the
//! user is told once.

use crate::read::dns::{self, Answer, Question};
use crate::state::{Cage, State};
use keyward_policy::net::{Ask, Decision, Host, Name};
use keyward_sys::datagram;
use rustix::fd::OwnedFd;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Places for hosts of rules do not change while a cage runs.
const LASTING: u32 = 60;
/// A spare place may get another host.
const PASSING: u32 = 5;
/// Longer questions are not ones of a host.
const LONGEST: usize = 1024;
/// The most questions of one connection, and how long it may think between them.
const MOST: usize = 256;
const PATIENCE: Duration = Duration::from_secs(10);
/// So many datagrams are answered before others have their turn, and so many are read: one that is not answered costs little.
const TURN: usize = 32;
const READ: usize = 512;
/// As many questions wait as the host allows; what comes beyond is lost.
const QUEUE: usize = 1 << 20;

/// Answers by UDP until the cage ends.
pub async fn serve_udp(state: Rc<State>, cage: Rc<Cage>, socket: OwnedFd) {
    let _ = datagram::tell_destination(&socket);
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size(&socket, QUEUE);
    let Ok(socket) = crate::stream::ready(socket) else { return };
    let mut bytes = [0; LONGEST];
    let mut shares = Shares::default();
    cage.begun().await;
    loop {
        let Ok(mut ready) = socket.readable().await else { return };
        shares.look(Instant::now());
        let mut answered = 0;
        for _ in 0..READ {
            let arrived = match datagram::receive(socket.get_ref(), &mut bytes) {
                Ok(arrived) => arrived,
                Err(keyward_sys::Errno::AGAIN) => {
                    ready.clear_ready();
                    break;
                }
                Err(_) => break,
            };
            if !shares.take(arrived.from.port()) {
                continue;
            }
            let Some(question) = bytes.get(..arrived.length).and_then(dns::question) else { continue };
            let answer = answer(&state, &cage, &question);
            let _ = datagram::send(socket.get_ref(), &answer, arrived.from, arrived.to);
            answered += 1;
            if answered == TURN {
                break;
            }
        }
        tokio::task::yield_now().await;
    }
}

/// Which questions are answered in a flood. All programs of a session ask one resolver, so each of their sockets has a share of its time. What is not
/// answered is asked again by its program.
#[derive(Default)]
struct Shares {
    since: Option<Instant>,
    /// Questions of each port within [`Shares::WINDOW`].
    asked: HashMap<u16, u32>,
    all: u32,
}

impl Shares {
    const WINDOW: Duration = Duration::from_millis(100);
    /// Questions of one socket that are answered within the time. A library that keeps its socket asks fewer.
    const MOST: u32 = 128;
    /// From so many questions on there is a flood, and each socket has as many answers as one name needs.
    const FLOOD: u32 = 2048;
    const FEWEST: u32 = 4;

    fn look(&mut self, now: Instant) {
        if self.since.is_none_or(|since| now.duration_since(since) >= Self::WINDOW) {
            self.since = Some(now);
            self.asked.clear();
            self.all = 0;
        }
    }

    /// Whether a question from this port is answered.
    fn take(&mut self, port: u16) -> bool {
        self.all = self.all.saturating_add(1);
        let asked = self.asked.entry(port).or_default();
        *asked = asked.saturating_add(1);
        *asked <= if self.all > Self::FLOOD { Self::FEWEST } else { Self::MOST }
    }
}

/// Answers by TCP until the cage ends.
pub async fn serve_tcp(state: Rc<State>, cage: Rc<Cage>, listener: TcpListener) {
    cage.begun().await;
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let counted = crate::state::Counted::new(&cage, state.most_connections);
        let Some((counted, crowded_out)) = counted else { continue };
        let (state, own) = (Rc::clone(&state), Rc::clone(&cage));
        cage.spawn(async move {
            let _counted = counted;
            tokio::select! {
                _ = serve_stream(&state, &own, stream) => {}
                () = crowded_out => {}
            }
        });
    }
}

async fn serve_stream(state: &State, cage: &Cage, mut stream: TcpStream) -> std::io::Result<()> {
    let mut bytes = [0; LONGEST];
    for _ in 0..MOST {
        let read = async {
            let length = usize::from(stream.read_u16().await?);
            let place = bytes.get_mut(..length).ok_or(std::io::ErrorKind::InvalidData)?;
            stream.read_exact(place).await
        };
        let length = tokio::time::timeout(PATIENCE, read).await??;
        let Some(question) = bytes.get(..length).and_then(dns::question) else { return Ok(()) };
        let answer = answer(state, cage, &question);
        let head = u16::try_from(answer.len()).unwrap_or(0).to_be_bytes();
        stream.write_all(&[&head[..], &answer].concat()).await?;
    }
    Ok(())
}

fn answer(state: &State, cage: &Cage, question: &Question) -> Vec<u8> {
    let Some(name) = &question.name else { return dns::answer(question, Answer::NoName) };
    if name.is_localhost() {
        let own: [IpAddr; 2] = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        return dns::answer(question, Answer::Addresses(&own, LASTING));
    }
    match cage.addresses(name) {
        Some((addresses, is_spare)) => {
            let seconds = if is_spare { PASSING } else { LASTING };
            dns::answer(question, Answer::Addresses(&addresses, seconds))
        }
        None => {
            deny(state, cage, name, question.kind);
            dns::answer(question, Answer::NoName)
        }
    }
}

/// Tells the user, if a program wanted to reach the host. Lookups of other kinds, and of addresses by number, come from libraries.
fn deny(state: &State, cage: &Cage, name: &Name, kind: u16) {
    let is_of_interest = matches!(kind, dns::A | dns::AAAA) && !name.as_str().ends_with(".arpa");
    let ask = Ask::name(Host::Name(name.clone()));
    if is_of_interest && let Decision::Deny(denial) = cage.decide(&ask) {
        state.reporter.deny(cage.id, &denial);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_questions_leaves_answers_for_other_sockets() {
        let (mut shares, begun) = (Shares::default(), Instant::now());
        shares.look(begun);
        let flood = (0..20_000).filter(|_| shares.take(5000)).count();
        assert_eq!(flood, 128, "one socket");
        assert!((0..4).all(|_| shares.take(6000)) && !shares.take(6000), "a name takes two to four");
        // From a thousand sockets, one after the other.
        let flood = (0..20_000).filter(|number| shares.take(10_000 + number % 1000)).count();
        assert_eq!(flood, 4000);
        assert!(shares.take(6001));
        shares.look(begun + Shares::WINDOW);
        assert!(shares.take(5000), "all are served again");
    }
}
