//! A connection to a session: requests, answers, and the wait for both.

use crate::error::Error;
use crate::find::{Runtime, address, is_name, open_folder};
use keyward_policy::gate::Reach;
use keyward_protocol::packet::{self, LONGEST, VERSION};
use keyward_protocol::session::{Answer, Ask, CAGE_DOOR};
use keyward_sys::signal::{self, Inbox};
use keyward_sys::{Errno, channel};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::Signal;
use std::path::{Path, PathBuf};

/// How long a client waits before it checks whether the session still answers, and then for that answer.
const PATIENCE: Timespec = Timespec { tv_sec: 5, tv_nsec: 0 };

/// The person behind a client, or the program that stands for one.
pub trait Person {
    /// Shows lines about what was found in the project.
    fn hear(&mut self, text: &str);

    /// Decides a question of the gate, whose full text is in `document`; `None` leaves it to other approvers. Once `is_settled`, another one
    /// was faster.
    fn decide(
        &mut self,
        question: u64,
        document: Option<OwnedFd>,
        is_settled: &mut dyn FnMut() -> bool,
    ) -> Option<Decision>;
}

/// An answer to a question of the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    pub allow: bool,
    pub reach: Reach,
}

/// Drops notices, and leaves every question to other approvers.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unattended;

impl Person for Unattended {
    fn hear(&mut self, _: &str) {}

    fn decide(&mut self, _: u64, _: Option<OwnedFd>, _: &mut dyn FnMut() -> bool) -> Option<Decision> {
        None
    }
}

/// A connection to a session.
pub struct Client<P = Unattended> {
    socket: OwnedFd,
    /// The directory of the session; from inside a cage it is not known.
    folder: Option<PathBuf>,
    pub person: P,
}

/// What ends the wait for an answer: the answer itself, or a signal.
pub(crate) enum First {
    Answer(Answer, Vec<OwnedFd>),
    Signal(i32),
}

impl<P> AsFd for Client<P> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn seqpacket() -> Result<OwnedFd, Errno> {
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
}

pub(crate) fn connect(folder: &Path) -> Result<OwnedFd, Errno> {
    let folder = open_folder(folder)?;
    let socket = seqpacket()?;
    // Do not block on a session that has stopped accepting connections.
    let patience = std::time::Duration::from_secs(PATIENCE.tv_sec.unsigned_abs());
    rustix::net::sockopt::set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Send, Some(patience))?;
    rustix::net::connect(&socket, &address(&folder)?)?;
    Ok(socket)
}

impl<P: Person> Client<P> {
    /// Connects to the session of this name.
    pub fn open(runtime: &Runtime, name: &str, person: P) -> Result<Self, Error> {
        let absent = || Error::NoSession { name: name.into() };
        if !is_name(name) {
            return Err(absent());
        }
        for folder in runtime.folders(name) {
            match connect(&folder) {
                Ok(socket) => return Ok(Client { socket, folder: Some(folder), person }),
                // It has stopped accepting connections.
                Err(Errno::AGAIN) => return Err(Error::NoAnswer),
                Err(_) => {}
            }
        }
        Err(absent())
    }

    /// Connects to the session whose cage this process is in; `None` where it is not in one.
    pub fn inside(person: P) -> Option<Self> {
        rustix::fs::lstat(CAGE_DOOR).ok()?;
        let socket = seqpacket().ok()?;
        rustix::net::connect(&socket, &SocketAddrUnix::new(CAGE_DOOR).ok()?).ok()?;
        Some(Client { socket, folder: None, person })
    }

    /// The directory of the session; `None` from inside a cage.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// Sends a request with descriptors, and does not wait for its answer.
    pub fn ask(&mut self, ask: &Ask, descriptors: &[BorrowedFd<'_>]) -> Result<(), Error> {
        send(&self.socket, ask, descriptors)
    }

    /// Something that sends requests on this connection while another thread waits for what it brings.
    pub fn sender(&self) -> Result<Sender, Error> {
        self.socket.try_clone().map(Sender).map_err(|_| Error::NoDescriptors)
    }

    /// Waits for the next answer with its descriptors. Notices go to the person, and a refusal is an error.
    pub fn next_answer(&mut self) -> Result<(Answer, Vec<OwnedFd>), Error> {
        loop {
            let mut packet = vec![0; LONGEST];
            let message = channel::receive(&self.socket, &mut packet).map_err(|_| Error::Ended)?;
            packet.truncate(message.length);
            match read(&packet)? {
                Answer::Said { text } => self.person.hear(&text),
                Answer::Refused { exit, trouble, rule, retry } => {
                    return Err(Error::Refused { exit, trouble, rule, retry });
                }
                answer => return Ok((answer, message.descriptors)),
            }
        }
    }

    /// Compares the versions, and tests whether the session answers.
    pub fn hello(&mut self) -> Result<(), Error> {
        match self.request(&Ask::Hello {})? {
            Answer::Hello { protocol, .. } if protocol != VERSION => Err(Error::OtherVersion { protocol }),
            _ => Ok(()),
        }
    }

    /// Sends a request and waits for its answer.
    pub fn request(&mut self, ask: &Ask) -> Result<Answer, Error> {
        self.request_with(ask).map(|(answer, _)| answer)
    }

    /// Sends a request and waits for its answer, with the descriptors beside it.
    pub fn request_with(&mut self, ask: &Ask) -> Result<(Answer, Vec<OwnedFd>), Error> {
        self.ask(ask, &[])?;
        loop {
            let mut polled = [PollFd::new(&self.socket, PollFlags::IN)];
            if poll(&mut polled, Some(&PATIENCE)) == Ok(0) {
                if self.is_deaf() {
                    return Err(Error::NoAnswer);
                }
                continue;
            }
            return self.next_answer();
        }
    }

    /// Sends a request and returns its answer, but does not wait longer than two seconds.
    pub fn request_soon(&mut self, ask: &Ask) -> Result<Answer, Error> {
        self.ask(ask, &[])?;
        let mut polled = [PollFd::new(&self.socket, PollFlags::IN)];
        match poll(&mut polled, Some(&Timespec { tv_sec: 2, tv_nsec: 0 })) {
            Ok(1) => self.next_answer().map(|(answer, _)| answer),
            _ => Err(Error::NoAnswer),
        }
    }

    /// Waits for the first answer to a command, or for a signal that ends the wait. Questions about the command go to the person.
    pub(crate) fn first(&mut self, inbox: &Inbox) -> Result<First, Error> {
        loop {
            let mut polled = [PollFd::new(&self.socket, PollFlags::IN), PollFd::new(inbox, PollFlags::IN)];
            if poll(&mut polled, Some(&PATIENCE)) == Ok(0) && self.is_deaf() {
                return Err(Error::NoAnswer);
            }
            if !polled[0].revents().is_empty() {
                match self.next_answer()? {
                    (Answer::Question(asked), descriptors) => {
                        self.answer_question(asked.question, descriptors.into_iter().next())?;
                    }
                    // It was answered, here or elsewhere.
                    (Answer::Settled { .. } | Answer::Done {}, _) => {}
                    (answer, descriptors) => return Ok(First::Answer(answer, descriptors)),
                }
                continue;
            }
            match inbox.next().map(|received| received.signal) {
                Some(signal) if signal == Signal::TSTP.as_raw() => signal::stop_self(signal),
                Some(signal) if signal == Signal::WINCH.as_raw() || signal == Signal::CONT.as_raw() => {}
                Some(signal) => return Ok(First::Signal(signal)),
                None => {}
            }
        }
    }

    /// Asks the person, unless another approver is faster.
    fn answer_question(&mut self, question: u64, document: Option<OwnedFd>) -> Result<(), Error> {
        let socket = &self.socket;
        let decision = self.person.decide(question, document, &mut || {
            let mut polled = [PollFd::new(socket, PollFlags::IN)];
            let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
            matches!(poll(&mut polled, Some(&at_once)), Ok(1))
        });
        let Some(Decision { allow, reach }) = decision else { return Ok(()) };
        self.ask(&Ask::Decide { question, allow, reach }, &[])
    }

    /// Whether the session has stopped answering, tested with a new connection. Only the first answer of a command may take long.
    fn is_deaf(&self) -> bool {
        let Some(folder) = &self.folder else { return false };
        let Ok(second) = connect(folder) else { return true };
        if send(&second, &Ask::Hello {}, &[]).is_err() {
            return true;
        }
        let mut polled = [PollFd::new(&second, PollFlags::IN)];
        matches!(poll(&mut polled, Some(&PATIENCE)), Ok(0))
    }
}

/// Sends requests on a connection that another thread listens on.
pub struct Sender(OwnedFd);

impl Sender {
    /// Sends a request, and does not wait for its answer.
    pub fn ask(&self, ask: &Ask) -> Result<(), Error> {
        send(&self.0, ask, &[])
    }
}

fn send(socket: &OwnedFd, ask: &Ask, descriptors: &[BorrowedFd<'_>]) -> Result<(), Error> {
    let packet = packet::write(ask);
    let sent = if packet.len() > LONGEST {
        Err(Errno::MSGSIZE)
    } else {
        channel::send(socket, &packet, descriptors)
    };
    sent.map_err(|errno| match errno {
        Errno::MSGSIZE => Error::TooLong,
        Errno::AGAIN => Error::NoAnswer,
        _ => Error::Ended,
    })
}

fn read(packet: &[u8]) -> Result<Answer, Error> {
    packet::read(packet).ok_or_else(|| match packet::version(packet) {
        Some(protocol) if protocol != VERSION => Error::OtherVersion { protocol },
        _ => Error::Ended,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyward_policy::trouble::{Code, Trouble};

    /// A client and the other side of its connection, which the test plays.
    fn connected<P: Person>(person: P) -> (Client<P>, OwnedFd) {
        let (socket, session) = channel::pair().unwrap();
        (Client { socket, folder: None, person }, session)
    }

    fn tell(session: &OwnedFd, answer: &Answer) {
        channel::send(session, &packet::write(answer), &[]).unwrap();
    }

    struct Listener(Vec<String>);

    impl Person for Listener {
        fn hear(&mut self, text: &str) {
            self.0.push(text.into());
        }

        fn decide(
            &mut self,
            question: u64,
            _: Option<OwnedFd>,
            _: &mut dyn FnMut() -> bool,
        ) -> Option<Decision> {
            Some(Decision { allow: question == 7, reach: Reach::Once })
        }
    }

    #[test]
    fn notices_go_to_the_person_and_a_refusal_is_an_error() {
        let (mut client, session) = connected(Listener(Vec::new()));
        tell(&session, &Answer::Said { text: "a notice".into() });
        tell(&session, &Answer::Started { job: 3 });
        assert_eq!(client.next_answer().unwrap().0, Answer::Started { job: 3 });
        assert_eq!(client.person.0, ["a notice"]);
        let (fact, remedy) = ("no".to_owned(), "ask".to_owned());
        tell(&session, &Answer::refused(Some(123), &fact, &remedy).for_now());
        let (trouble, rule) = (Trouble::new(Code::Denied, fact, remedy), None);
        let refused = Error::Refused { exit: Some(123), trouble, rule, retry: true };
        assert_eq!(client.next_answer().unwrap_err(), refused);
        drop(session);
        assert_eq!(client.next_answer().unwrap_err(), Error::Ended);
    }

    #[test]
    fn versions_are_compared() {
        let (mut client, session) = connected(Unattended);
        tell(&session, &Answer::hello());
        assert_eq!(client.hello(), Ok(()));
        tell(&session, &Answer::Hello { protocol: 2, keyward: "9.0.0".into() });
        assert_eq!(client.hello(), Err(Error::OtherVersion { protocol: 2 }));
        channel::send(&session, br#"{"v":3,"is":"greeting"}"#, &[]).unwrap();
        assert_eq!(client.hello(), Err(Error::OtherVersion { protocol: 3 }));
        channel::send(&session, b"garbage", &[]).unwrap();
        assert_eq!(client.hello(), Err(Error::Ended));
    }

    #[test]
    fn a_question_is_answered_as_the_person_decides() {
        let (mut client, session) = connected(Listener(Vec::new()));
        let mut bytes = vec![0; LONGEST];
        for question in [7, 8] {
            client.answer_question(question, None).unwrap();
            let length = channel::receive(&session, &mut bytes).unwrap().length;
            let decided = Ask::Decide { question, allow: question == 7, reach: Reach::Once };
            assert_eq!(packet::read::<Ask>(&bytes[..length]), Some(decided));
        }
    }

    #[test]
    fn a_request_that_is_longer_than_a_packet_is_not_sent() {
        let (mut client, _session) = connected(Unattended);
        let long = Ask::Call { name: "x".into(), input: "y".repeat(LONGEST).into() };
        assert_eq!(client.request(&long).unwrap_err(), Error::TooLong);
    }
}
