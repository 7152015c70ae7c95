//! The DNS of a cage.

use crate::support::{Cage, PATIENCE, Proxy, Setup};
use keyward_policy::net::{Name, Reason};
use keyward_protocol::proxy::Report;
use keyward_proxy::read::dns::{self, A, AAAA, Found};
use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};

fn ask(cage: &Cage, name: &str, kind: u16) -> Option<Found> {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let name = Name::parse(name).unwrap();
    socket.send_to(&dns::ask(7, &name, kind), cage.names_udp).unwrap();
    let mut bytes = [0; 512];
    let length = socket.recv(&mut bytes).unwrap();
    dns::found(&bytes[..length], 7, &name, kind)
}

#[test]
fn allowed_names_have_addresses_of_the_pool_and_others_do_not_exist() {
    let proxy = Proxy::start(Setup::default());
    let cage = Cage::start(&proxy, 1, &["api.example.com", "*.npm.example"], &[]);
    let addresses =
        |texts: &[&str]| Found::Addresses(texts.iter().map(|text| text.parse().unwrap()).collect(), 60);
    assert_eq!(ask(&cage, "api.example.com", A), Some(addresses(&["198.18.1.0"])));
    assert_eq!(ask(&cage, "deep.a.npm.example", A), Some(addresses(&["198.18.1.1"])));
    assert_eq!(ask(&cage, "localhost", A), Some(addresses(&["127.0.0.1"])));
    for kind in [65, 64, 16, AAAA] {
        let Some(Found::Addresses(none, _)) = ask(&cage, "api.example.com", kind) else { panic!("{kind}") };
        assert_eq!(none, [] as [std::net::IpAddr; 0], "{kind}");
    }
    for _ in 0..3 {
        assert_eq!(ask(&cage, "secret-data.evil.example", A), Some(Found::NoName));
    }
    let denial = proxy.denied();
    assert_eq!(denial.reason, Reason::Host);
    assert_eq!(denial.flag().as_deref(), Some("--allow-net secret-data.evil.example"));
    assert_eq!(ask(&cage, "7.1.18.198.in-addr.arpa", 12), Some(Found::NoName));
    assert_eq!(proxy.heard(), [], "one report for one name");
}

#[test]
fn names_are_asked_for_by_tcp_too_and_noise_is_ignored() {
    let proxy = Proxy::start(Setup::default());
    let cage = Cage::start(&proxy, 1, &["api.example.com"], &[]);
    let noise = UdpSocket::bind("127.0.0.1:0").unwrap();
    for bytes in [&b""[..], b"x", &[0xff; 600], b"\0\x07\x01\0\0\x01\0\0\0\0\0\0\xc0\x0c\0\x01\0\x01"] {
        noise.send_to(bytes, cage.names_udp).unwrap();
    }
    let mut stream = TcpStream::connect(cage.names_tcp).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let name = Name::parse("api.example.com").unwrap();
    for _ in 0..2 {
        let question = dns::ask(9, &name, A);
        stream.write_all(&u16::try_from(question.len()).unwrap().to_be_bytes()).unwrap();
        stream.write_all(&question).unwrap();
        let mut length = [0; 2];
        stream.read_exact(&mut length).unwrap();
        let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
        stream.read_exact(&mut answer).unwrap();
        assert!(
            matches!(dns::found(&answer, 9, &name, A), Some(Found::Addresses(found, _)) if found.len() == 1)
        );
    }
    assert!(matches!(ask(&cage, "api.example.com", A), Some(Found::Addresses(..))), "it still serves");
}

#[test]
fn a_cage_that_ends_loses_its_sockets() {
    let proxy = Proxy::start(Setup::default());
    let mut cage = Cage::start(&proxy, 4, &["api.example.com"], &[]);
    assert!(TcpStream::connect(cage.place("api.example.com", 443)).is_ok(), "the control");
    cage.end();
    proxy.until(|report| (*report == Report::Dropped { cage: 4 }).then_some(()));
    // The task that held the socket ends in its next turn.
    let is_closed = (0..200).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(5));
        TcpStream::connect(cage.place("api.example.com", 443)).is_err()
    });
    assert!(is_closed);
}
