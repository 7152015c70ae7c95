//! `keyward:proxy` as a process of its own: how far it is confined, what its memory holds, when it ends. What it serves is tested in the crate
//! `proxy`, with threads in its place.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use keyward_policy::net::{Binding, Host, Name, Pattern, Places, Rule, Rules, Scheme};
use keyward_protocol::packet;
use keyward_protocol::proxy::{Listener, Order, Report, Role, Upstream, Value};
use keyward_protocol::services::{Call, Form, Room};
use keyward_sys::channel;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, Stdio};

const SERVICES: &str = env!("CARGO_BIN_EXE_keyward-services");
const HOST: &str = "api.example.test";
const PHANTOM: &str = "sk-phantom-0123456789abcdef";

struct Proxy {
    process: Child,
    control: Option<OwnedFd>,
    vault: OwnedFd,
    cage: Child,
    at: SocketAddr,
}

fn report(socket: impl AsFd) -> Report {
    let mut bytes = vec![0; packet::LONGEST];
    let message = channel::receive(socket, &mut bytes).unwrap();
    packet::read(&bytes[..message.length]).expect("a report")
}

/// A proxy with one cage and one host, which this test serves.
fn start(upstream: SocketAddr) -> Proxy {
    let (control, theirs) = channel::pair().unwrap();
    let launcher = env!("CARGO_BIN_EXE_keyward").into();
    let call = Call { room: Room::Proxy, launcher, form: Form::Words, words: vec![] };
    // The shell puts the socket where the proxy looks for it.
    let process = Command::new("sh")
        .env_clear()
        .args(["-c", r#"exec "$@" 3<&0 </dev/null"#, "sh", SERVICES])
        .args(call.arguments())
        .stdin(Stdio::from(theirs))
        .spawn()
        .unwrap();
    let send = |order: &Order, along: &[BorrowedFd<'_>]| {
        channel::send(&control, &packet::write(order), along).unwrap()
    };
    let rule = Rule::parse(HOST).unwrap();
    let binding = Binding {
        secret: "example".into(),
        phantom: PHANTOM.into(),
        scope: vec![rule.clone()],
        places: Places::default(),
        scheme: Scheme::Replace,
        headers: vec![],
        anonymous: true,
        renewal: None,
    };
    let upstream = Upstream { host: Name::parse(HOST).unwrap(), port: None, address: upstream, ca: None };
    let (bindings, upstreams) = (vec![binding], vec![upstream]);
    send(
        &Order::Setup { certificates: 0, trusted: vec![], upstreams, corporate: None, plain: None, bindings },
        &[],
    );
    assert!(matches!(report(&control), Report::Ready { .. }));
    let (vault, theirs) = channel::pair().unwrap();
    send(&Order::Vault {}, &[theirs.as_fd()]);
    let cage = Command::new("sleep").env_clear().arg("600").spawn().unwrap();
    let id = rustix::process::Pid::from_raw(i32::try_from(cage.id()).unwrap()).unwrap();
    let pidfd = rustix::process::pidfd_open(id, rustix::process::PidfdFlags::empty()).unwrap();
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = socket.local_addr().unwrap();
    let role = Role::Host { host: Pattern::Exact(Host::parse(HOST).unwrap()) };
    let listeners = vec![Listener { at: "198.18.1.0:80".parse().unwrap(), role }];
    let (rules, granted) = (Rules::of([rule]), vec!["example".to_owned()]);
    send(
        &Order::Cage {
            cage: 1,
            rules,
            within: vec![],
            granted,
            asks: false,
            trusts: false,
            listeners,
            last: true,
        },
        &[pidfd.as_fd(), socket.as_fd()],
    );
    Proxy { process, control: Some(control), vault, cage, at }
}

impl Proxy {
    fn give(&self, value: Value<'_>) {
        channel::send(&self.vault, &[value.head().unwrap().as_slice(), value.rest()].concat(), &[]).unwrap();
        let mut answer = [0; 8];
        assert_eq!(channel::receive(&self.vault, &mut answer).unwrap().length, 1);
    }

    /// What is answered to a request with the phantom.
    fn ask(&self) -> String {
        let mut stream = TcpStream::connect(self.at).unwrap();
        let head = format!(
            "GET /x HTTP/1.1\r\nHost: {HOST}\r\nAuthorization: Bearer {PHANTOM}\r\nConnection: close\r\n\r\n"
        );
        stream.write_all(head.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    fn status(&self) -> String {
        std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap()
    }

    /// How often these bytes stand in its memory.
    fn memory_holds(&self, bytes: &[u8]) -> usize {
        let id = self.process.id();
        let maps = std::fs::read_to_string(format!("/proc/{id}/maps")).unwrap();
        let mut memory = std::fs::File::open(format!("/proc/{id}/mem")).expect("this test runs as root");
        let mut times = 0;
        for line in maps.lines().filter(|line| line.contains(" rw")) {
            let (start, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
            let (start, end) =
                (u64::from_str_radix(start, 16).unwrap(), u64::from_str_radix(end, 16).unwrap());
            let mut region = vec![0; usize::try_from(end - start).unwrap()];
            memory.seek(SeekFrom::Start(start)).unwrap();
            if memory.read_exact(&mut region).is_ok() {
                times += region.windows(bytes.len()).filter(|window| *window == bytes).count();
            }
        }
        times
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        for child in [&mut self.process, &mut self.cage] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A host that answers every request, and keeps its connections.
fn host() -> (SocketAddr, std::sync::mpsc::Receiver<String>) {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = server.local_addr().unwrap();
    let (tell, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for stream in server.incoming() {
            let (mut stream, tell) = (stream.unwrap(), tell.clone());
            std::thread::spawn(move || {
                let mut bytes = vec![0; 4096];
                while let Ok(count @ 1..) = stream.read(&mut bytes) {
                    let _ = tell.send(String::from_utf8_lossy(&bytes[..count]).into_owned());
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok");
                }
            });
        }
    });
    (at, heard)
}

#[test]
fn after_revocation_the_memory_of_the_proxy_holds_no_credential() {
    let (at, heard) = host();
    let proxy = start(at);
    // Put together here, so that no constant of this test is meant.
    let value: String = ["sk-real", "98765432109876543210", "end"].join("-");
    proxy.give(Value::Given { secret: "example", value: value.as_bytes() });
    for _ in 0..3 {
        let told = proxy.ask();
        assert!(told.starts_with("HTTP/1.1 200"), "{told}");
        let seen = heard.recv().unwrap();
        assert!(seen.contains(&value), "the host gets the value: {seen}");
    }
    assert!(proxy.memory_holds(value.as_bytes()) > 0, "the control: this search finds it while it is there");
    proxy.give(Value::Revoked { secret: "example" });
    let told = proxy.ask();
    assert!(told.starts_with("HTTP/1.1 502") && told.contains("revoked"), "{told}");
    assert_eq!(proxy.memory_holds(value.as_bytes()), 0);
    assert_eq!(proxy.memory_holds(&value.as_bytes()[..20]), 0, "nor a part of it");
}

#[test]
fn the_proxy_has_no_files_no_programs_and_no_capabilities() {
    let (at, _heard) = host();
    let proxy = start(at);
    proxy.give(Value::Given { secret: "example", value: b"sk-real" });
    assert!(proxy.ask().starts_with("HTTP/1.1 200"), "it serves");
    let status = proxy.status();
    let field =
        |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim().to_owned();
    assert_eq!(field("Name:"), "keyward:proxy");
    assert_eq!(field("Seccomp:"), "2");
    assert_eq!(field("NoNewPrivs:"), "1");
    assert_eq!(field("CapEff:"), "0000000000000000");
    assert_eq!(field("CapPrm:"), "0000000000000000");
    // No descriptor of a file is left: sockets, epoll and the like, and the null device.
    for entry in std::fs::read_dir(format!("/proc/{}/fd", proxy.process.id())).unwrap() {
        let target = std::fs::read_link(entry.unwrap().path()).unwrap();
        let is_file = target.as_os_str().as_bytes().starts_with(b"/");
        assert!(!is_file || target.starts_with("/dev"), "{}", target.display());
    }
}

#[test]
fn the_proxy_ends_with_the_process_that_started_it() {
    let (at, _heard) = host();
    let mut proxy = start(at);
    assert!(proxy.process.try_wait().unwrap().is_none());
    drop(proxy.control.take());
    assert_eq!(proxy.process.wait().unwrap().code(), Some(0));
    assert!(TcpStream::connect(proxy.at).is_err(), "connections fail closed");
}
