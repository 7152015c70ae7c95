//! Tokens between a vault, its cage, and everybody in between: the supervisor that starts both and carries what is sealed.
#![allow(clippy::unwrap_used, clippy::panic)]

use keyward_policy::secret::{Entry, Given, Grant, Reference, SecretName, given};
use keyward_policy::words::{Origin, Ruled};
use keyward_protocol::packet;
use keyward_protocol::vault::{Hello, ROOM_FOR_REDEEMED, Redeemed, Said};
use keyward_sys::channel;
use keyward_vault::process::{Errand, serve};
use keyward_vault::source::{Limits, Surroundings};
use keyward_vault::token;
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Barrier;

const CANARY: &str = "canary-51fe09bb7c";

/// A vault that serves in a thread, and the cage that the test plays.
struct Play {
    folder: tempfile::TempDir,
    cage: OwnedFd,
    /// What passes the supervisor, as it came.
    recorded: Vec<Vec<u8>>,
    reports: OwnedFd,
    private: String,
}

fn plan() -> Vec<Given> {
    let name = SecretName::parse("api").unwrap();
    let entry = Entry {
        name: name.clone(),
        from: Reference::parse("env://CANARY").unwrap(),
        to: Vec::new(),
        places: Vec::new(),
        aws: None,
        variable: None,
        created: None,
    };
    let grant = Ruled { value: Grant::parse("api=token").unwrap(), origin: Origin::Builtin };
    given(&[grant], &[entry]).unwrap()
}

fn seqpacket() -> OwnedFd {
    rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
}

impl Play {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (cage, in_vault) = channel::pair().unwrap();
        let (reports, to_reports) = channel::pair().unwrap();
        std::thread::spawn(move || {
            let given = plan();
            let variable = |name: &str| (name == "CANARY").then(|| OsStr::new(CANARY));
            let surroundings = Surroundings {
                home: Path::new("/"),
                store: Path::new("/"),
                variable: &variable,
                terminal: None,
                limits: Limits::default(),
            };
            let errand =
                Errand { given: &given, surroundings, redacts: false, printed: Vec::new(), terminal: None };
            serve(&in_vault, &to_reports, &errand)
        });
        let door = seqpacket();
        rustix::net::bind(&door, &SocketAddrUnix::new(folder.path().join("door")).unwrap()).unwrap();
        rustix::net::listen(&door, 4096).unwrap();
        let (public, private) = token::key_pair().unwrap();
        let mut text = String::new();
        std::fs::File::from(private).read_to_string(&mut text).unwrap();
        let hello = Hello { terminal: false, tokens: Some(&public) };
        channel::send(&cage, &hello.encode(), &[door.as_fd()]).unwrap();
        Play { folder, cage, recorded: Vec::new(), reports, private: text }
    }

    /// The next thing that the supervisor hears, and writes down.
    fn hear(&mut self) -> Said {
        let mut packet = vec![0; packet::LONGEST];
        let message = channel::receive(&self.reports, &mut packet).unwrap();
        assert!(message.descriptors.is_empty(), "a descriptor came to the supervisor");
        packet.truncate(message.length);
        self.recorded.push(packet.clone());
        packet::read(&packet).unwrap()
    }

    fn token(&mut self) -> Vec<u8> {
        let Said::Sealed { token: sealed, .. } = self.hear() else { panic!("no token") };
        token::open(&format!("{}{sealed}", self.private)).unwrap().to_vec()
    }

    fn offer(&self, token: &[u8]) -> Option<String> {
        offer(&self.folder.path().join("door"), token)
    }
}

fn offer(door: &PathBuf, token: &[u8]) -> Option<String> {
    let socket = seqpacket();
    rustix::net::connect(&socket, &SocketAddrUnix::new(door).unwrap()).unwrap();
    channel::send(&socket, token, &[]).unwrap();
    let mut word = [0; ROOM_FOR_REDEEMED];
    let answer = channel::receive(&socket, &mut word).unwrap();
    let value = answer.descriptors.into_iter().next().map(|value| {
        let mut text = String::new();
        std::fs::File::from(value).read_to_string(&mut text).unwrap();
        text
    });
    let expected = if value.is_some() { Redeemed::Taken } else { Redeemed::Worthless };
    assert_eq!(Redeemed::decode(&word[..answer.length]), Some(expected));
    value
}

#[test]
fn of_a_thousand_at_the_same_moment_one_wins() {
    let mut play = Play::new();
    let token = play.token();
    let door = play.folder.path().join("door");
    let start = Barrier::new(1000);
    let won = std::thread::scope(|scope| {
        let tries: Vec<_> = (0..1000)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    offer(&door, &token)
                })
            })
            .collect();
        tries.into_iter().filter_map(|one| one.join().unwrap()).collect::<Vec<String>>()
    });
    assert_eq!(won, [CANARY]);
    drop(play.cage);
}

#[test]
fn what_is_worth_nothing_gets_the_same_answer_whatever_it_is() {
    let mut play = Play::new();
    let token = play.token();
    let mut other = Play::new();
    let foreign = other.token();
    for offered in [&foreign[..], &token[..31], &[&token[..], b"x"].concat(), &[0; 32], b"x", &[7; 20_000]] {
        assert_eq!(play.offer(offered), None);
    }
    assert_eq!(play.offer(&token).as_deref(), Some(CANARY));
    assert_eq!(play.offer(&token), None, "a second time");
}

#[test]
fn a_supervisor_that_writes_down_everything_has_neither_the_token_nor_the_secret() {
    let mut play = Play::new();
    let token = play.token();
    assert_eq!(play.offer(&token).as_deref(), Some(CANARY));
    assert!(matches!(play.hear(), Said::Redeemed { secret: 0, .. }));
    let all = play.recorded.concat();
    let hex: String = token.iter().map(|byte| format!("{byte:02x}")).collect();
    for needle in [CANARY.as_bytes(), &token, hex.as_bytes()] {
        assert!(!all.windows(needle.len()).any(|window| window == needle));
    }
    // What it has is sealed to a key that it never saw.
    let Some(Said::Sealed { token: sealed, .. }) = packet::read(&play.recorded[0]) else { panic!() };
    let (_, own) = token::key_pair().unwrap();
    let mut own_text = String::new();
    std::fs::File::from(own).read_to_string(&mut own_text).unwrap();
    assert!(token::open(&format!("{own_text}{sealed}")).is_none());
}

#[test]
fn those_who_connect_and_say_nothing_keep_nobody_waiting() {
    let mut play = Play::new();
    let token = play.token();
    let door = play.folder.path().join("door");
    let silent: Vec<OwnedFd> = (0..100)
        .map(|_| {
            let socket = seqpacket();
            rustix::net::connect(&socket, &SocketAddrUnix::new(&door).unwrap()).unwrap();
            socket
        })
        .collect();
    assert_eq!(play.offer(&token).as_deref(), Some(CANARY));
    drop(silent);
}
