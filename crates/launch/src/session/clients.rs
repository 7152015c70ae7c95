//! The clients of a session's socket: who they are, their requests, their answers. One that is slow or breaks the protocol is
//! let go, and no other one notices.

use super::callers::Caller;
use keyward_protocol::packet::{self, LONGEST};
use keyward_protocol::session::{Answer, Ask, read_ask};
use keyward_sys::{channel, fork};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::SocketFlags;

/// Clients at one time; further ones wait. A client library has a connection for each command that it waits for, so that there are as many
/// as jobs.
const MOST: usize = 256;
/// Clients from inside at one time: each may have a cage beside its own.
const MOST_INSIDE: usize = 16;
/// Clients in the cage of an agent at one time: each is a tool that runs.
const MOST_OF_AGENT: usize = 192;

/// The side that a connection comes from. The socket that accepted it decides, not what the client says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Outside,
    Inside,
    /// In the cage of the agent whose tools the session runs.
    Agent,
}

impl Side {
    /// Whether the client is in a cage.
    pub(super) fn is_caged(self) -> bool {
        self != Side::Outside
    }
}

pub(super) struct Client {
    pub(super) number: u64,
    side: Side,
    pub(super) socket: OwnedFd,
    /// Who has connected, where that counts: inside.
    caller: Option<Caller>,
}

#[derive(Default)]
pub(super) struct Clients {
    all: Vec<Client>,
    next: u64,
    /// Room for a request, kept so that it is not cleared each time.
    room: Vec<u8>,
}

impl Clients {
    pub(super) fn all(&self) -> impl Iterator<Item = &Client> {
        self.all.iter()
    }

    fn count(&self, side: Side) -> usize {
        self.all.iter().filter(|client| client.side == side).count()
    }

    pub(super) fn has_room(&self) -> bool {
        self.count(Side::Outside) < MOST
    }

    /// A cage cannot take the places of those outside.
    pub(super) fn has_room_inside(&self) -> bool {
        self.count(Side::Inside) < MOST_INSIDE
    }

    /// An agent cannot take the places of others.
    pub(super) fn has_room_for_agent(&self) -> bool {
        self.count(Side::Agent) < MOST_OF_AGENT
    }

    /// Whether a client is in a cage.
    pub(super) fn is_caged(&self, number: u64) -> bool {
        self.side(number).is_some_and(Side::is_caged)
    }

    pub(super) fn side(&self, number: u64) -> Option<Side> {
        self.all.iter().find(|client| client.number == number).map(|client| client.side)
    }

    /// The number in the cage of the command that a client inside belongs to.
    pub(super) fn command_of(&self, number: u64) -> Option<u32> {
        self.all.iter().find(|client| client.number == number)?.caller.as_ref()?.command()
    }

    /// Makes a client belong to a command.
    #[cfg(test)]
    pub(super) fn let_belong_to(&mut self, number: u64, command: u32) {
        let client = self.all.iter_mut().find(|client| client.number == number).unwrap();
        client.caller = Some(Caller::Of(command));
    }

    /// Lets one in: from outside only who is the same user.
    pub(super) fn accept(&mut self, listener: impl AsFd, side: Side) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let Ok(socket) = rustix::net::accept_with(listener, flags) else { return };
        let own = rustix::process::geteuid();
        let is_ours = || rustix::net::sockopt::socket_peercred(&socket).is_ok_and(|peer| peer.uid == own);
        if side.is_caged() || is_ours() {
            let caller = (side == Side::Inside).then(|| Caller::of(&socket)).flatten();
            self.next += 1;
            self.all.push(Client { number: self.next, side, socket, caller });
        }
    }

    /// A client with the other end of its connection.
    #[cfg(test)]
    pub(super) fn connect(&mut self, side: Side) -> (u64, OwnedFd) {
        let (socket, theirs) = channel::pair().unwrap();
        rustix::fs::fcntl_setfl(&socket, rustix::fs::OFlags::NONBLOCK).unwrap();
        self.next += 1;
        self.all.push(Client { number: self.next, side, socket, caller: None });
        (self.next, theirs)
    }

    /// What a client says; `None` if it is gone, or says something else than a message.
    pub(super) fn receive(&mut self, number: u64) -> Option<(Ask, Vec<OwnedFd>)> {
        let client = self.all.iter().find(|client| client.number == number)?;
        self.room.resize(LONGEST + 1, 0);
        let message = channel::receive(&client.socket, &mut self.room).ok()?;
        // A process in a cage can make us wait by letting us close a connection.
        if client.side.is_caged() && message.descriptors.iter().any(channel::is_of_a_network) {
            let _ = fork::let_go(message.descriptors);
            return None;
        }
        Some((read_ask(&self.room[..message.length])?, message.descriptors))
    }

    /// Tells a client, if that can be done now.
    pub(super) fn try_tell(&self, number: u64, answer: &Answer) -> bool {
        let packet = packet::write(answer);
        let client = self.all.iter().find(|client| client.number == number);
        packet.len() <= LONGEST
            && client.is_some_and(|client| channel::send(&client.socket, &packet, &[]).is_ok())
    }

    /// Tells a client; one that does not listen is let go.
    pub(super) fn tell(&mut self, number: u64, answer: &Answer, descriptors: &[BorrowedFd<'_>]) {
        let told = self
            .all
            .iter()
            .find(|client| client.number == number)
            .map(|client| channel::send(&client.socket, &packet::write(answer), descriptors));
        if let Some(Err(_)) = told
            && let Some(client) = self.all.iter().find(|client| client.number == number)
        {
            // Reading sees the end, and does what has to be done.
            let _ = rustix::net::shutdown(&client.socket, rustix::net::Shutdown::Both);
        }
    }

    pub(super) fn close(&mut self, number: u64) {
        let Some(place) = self.all.iter().position(|client| client.number == number) else { return };
        let client = self.all.swap_remove(place);
        // What it has sent and we have not taken is closed with it.
        if client.side.is_caged() && channel::is_left_unheard(&client.socket) {
            let _ = fork::let_go(vec![client.socket]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyward_sys::channel;

    fn full(side: Side, count: usize) -> Clients {
        let mut clients = Clients::default();
        (0..count).for_each(|_| drop(clients.connect(side)));
        clients
    }

    #[test]
    fn clients_inside_cannot_take_the_places_of_those_outside() {
        let clients = full(Side::Inside, MOST_INSIDE);
        assert!(!clients.has_room_inside() && clients.has_room());
        let clients = full(Side::Outside, MOST);
        assert!(!clients.has_room() && clients.has_room_inside());
    }

    #[test]
    fn what_is_not_a_message_ends_the_connection() {
        let mut clients = Clients::default();
        let (number, theirs) = clients.connect(Side::Outside);
        channel::send(&theirs, b"not a message", &[]).unwrap();
        assert!(clients.receive(number).is_none());
        channel::send(&theirs, &packet::write(&Ask::Hello {}), &[]).unwrap();
        assert!(matches!(clients.receive(number), Some((Ask::Hello {}, _))));
        drop(theirs);
        assert!(clients.receive(number).is_none());
    }

    #[test]
    fn a_client_inside_cannot_send_a_connection_of_a_network() {
        let mut clients = Clients::default();
        let flags = SocketFlags::CLOEXEC;
        let (inet, stream) = (rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM);
        for (side, is_taken) in [(Side::Outside, true), (Side::Inside, false)] {
            let (number, theirs) = clients.connect(side);
            let connection = rustix::net::socket_with(inet, stream, flags, None).unwrap();
            channel::send(&theirs, &packet::write(&Ask::Hello {}), &[connection.as_fd()]).unwrap();
            assert_eq!(clients.receive(number).is_some(), is_taken, "{side:?}");
        }
    }

    #[test]
    fn one_that_does_not_listen_is_let_go_and_the_next_is_still_told() {
        let mut clients = Clients::default();
        let ((deaf, full), (other, theirs)) =
            (clients.connect(Side::Outside), clients.connect(Side::Outside));
        while clients.try_tell(deaf, &Answer::Done {}) {}
        clients.tell(deaf, &Answer::Done {}, &[]);
        clients.tell(other, &Answer::Done {}, &[]);
        let mut packet = vec![0; LONGEST];
        assert!(channel::receive(&theirs, &mut packet).is_ok_and(|message| message.length > 0));
        // Its own end is what is left for it, once it has read what came before.
        while channel::receive(&full, &mut packet).is_ok_and(|message| message.length > 0) {}
        assert!(clients.receive(deaf).is_none());
    }

    #[test]
    fn a_number_is_never_given_twice() {
        let mut clients = Clients::default();
        let (first, _theirs) = clients.connect(Side::Outside);
        clients.close(first);
        let (second, _theirs) = clients.connect(Side::Inside);
        assert!(first != second && clients.side(first).is_none());
        assert_eq!(clients.side(second), Some(Side::Inside));
    }
}
