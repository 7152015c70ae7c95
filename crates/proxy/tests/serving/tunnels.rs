//! Connections that are passed on as they are, or refused.

use crate::origin::Origin;
use crate::support::{Cage, PATIENCE, Proxy, Setup, rules};
use keyward_policy::net::Reason;
use keyward_policy::net::asking::Awaited;
use keyward_protocol::proxy::{Corporate, Order, Report, Served};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener};

fn tls(name: &str) -> (Origin, Proxy) {
    let origin = Origin::start(name, &["h2", "http/1.1"]);
    let setup = Setup {
        upstreams: vec![origin.upstream(name, 0)],
        roots: vec![origin.root.clone()],
        ..Setup::default()
    };
    let proxy = Proxy::start(setup);
    (origin, proxy)
}

#[test]
fn tls_is_passed_on_untouched_and_told() {
    let (origin, proxy) = tls("api.example.test");
    let cage = Cage::start(&proxy, 1, &["api.example.test"], &[]);
    let root = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(root.path(), &origin.root).unwrap();
    // The certificate is the host's own, so that nothing was terminated.
    let told =
        cage.curl(&proxy.ca, &["https://api.example.test/x", "--cacert", root.path().to_str().unwrap()]);
    assert_eq!((told.status, told.version.as_str()), (200, "2"), "{told:?}");
    let (connection, served, rule) = proxy.until(|report| match report {
        Report::Connected { connection, served, rule, .. } => Some((*connection, *served, rule.clone())),
        _ => None,
    });
    assert_eq!((served, rule.as_str()), (Served::Tunnelled, "api.example.test"));
    let received = proxy.until(|report| match report {
        Report::Closed { connection: own, received, .. } if *own == connection => Some(*received),
        _ => None,
    });
    assert!(received > 100);
}

#[test]
fn a_greeting_for_another_host_or_for_none_is_refused() {
    let (_origin, proxy) = tls("api.example.test");
    let cage = Cage::start(&proxy, 1, &["api.example.test", "other.example.test"], &[]);
    let at = cage.place("api.example.test", 443);
    let to = |name: &str| format!("{name}:443:{}:{}", at.ip(), at.port());
    // Domain fronting: the connection is for one host, the name for another one that is allowed as well.
    let told =
        cage.curl(&proxy.ca, &["--connect-to", &to("other.example.test"), "https://other.example.test/"]);
    assert_ne!(told.code, 0);
    // The first --connect-to wins, so that the address is given by hand.
    let output = std::process::Command::new("openssl")
        .env_clear()
        .args(["s_client", "-connect", &at.to_string(), "-servername", "other.example.test"])
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("access denied"), "{output:?}");
    assert_eq!(
        proxy.until(|report| match report {
            Report::Denied { denial, .. } => (denial.reason == Reason::Mismatch).then_some(denial.reason),
            _ => None,
        }),
        Reason::Mismatch
    );
    let output = std::process::Command::new("openssl")
        .env_clear()
        .args(["s_client", "-connect", &at.to_string(), "-noservername"])
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert_eq!(proxy.denied().reason, Reason::NoName);
}

#[test]
fn plain_tcp_passes_only_with_a_rule_of_its_own_and_keeps_half_closed() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = server.local_addr().unwrap();
    let upstream = |name: &str| keyward_protocol::proxy::Upstream {
        host: keyward_policy::net::Name::parse(name).unwrap(),
        port: None,
        address: at,
        ca: None,
    };
    let proxy = Proxy::start(Setup { upstreams: vec![upstream("db.example.test")], ..Setup::default() });
    let cage = Cage::start(&proxy, 1, &["tcp://db.example.test:5432", "db.example.test:8080"], &[]);
    let served = std::thread::spawn(move || {
        let (mut stream, _) = server.accept().unwrap();
        stream.write_all(b"server first\n").unwrap();
        let mut text = Vec::new();
        stream.read_to_end(&mut text).unwrap();
        // The program has closed its half, and still reads.
        stream.write_all(&text).unwrap();
        text.len()
    });
    let mut stream = cage.connect("db.example.test", 5432);
    let mut greeting = [0; 13];
    stream.read_exact(&mut greeting).unwrap();
    assert_eq!(&greeting, b"server first\n");
    // More than is copied before the kernel moves it.
    let sent: Vec<u8> = (0..3_000_000_u32).flat_map(|number| number.to_le_bytes()).collect();
    let mut writing = stream.try_clone().unwrap();
    let copy = sent.clone();
    let writer = std::thread::spawn(move || {
        writing.write_all(&copy).unwrap();
        writing.shutdown(Shutdown::Write).unwrap();
    });
    writer.join().unwrap();
    let mut back = Vec::new();
    stream.read_to_end(&mut back).unwrap();
    assert!(back == sent, "{} bytes of {}", back.len(), sent.len());
    assert_eq!(served.join().unwrap(), sent.len());
    // The same bytes on a port that is for TLS and HTTP.
    let mut stream = cage.connect("db.example.test", 8080);
    stream.write_all(b"\x00\x01\x02\x03").unwrap();
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert_eq!(rest, b"");
    let denial = proxy.denied();
    assert_eq!(denial.flag().as_deref(), Some("--allow-net tcp://db.example.test:8080"));
}

#[test]
fn the_proxy_of_the_host_is_used_by_connect() {
    let (origin, _) = tls("api.example.test");
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let at = origin.at;
    let served = std::thread::spawn(move || {
        let (mut stream, _) = server.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").unwrap();
        let mut outside = std::net::TcpStream::connect(at).unwrap();
        let (mut back, mut forth) = (stream.try_clone().unwrap(), outside.try_clone().unwrap());
        std::thread::spawn(move || std::io::copy(&mut stream, &mut forth));
        let _ = std::io::copy(&mut outside, &mut back);
        String::from_utf8(head).unwrap()
    });
    let corporate = Corporate {
        host: keyward_policy::net::Host::parse("127.0.0.1").unwrap(),
        port,
        secret: Some("corporate".into()),
        except: vec![],
    };
    let proxy = Proxy::start(Setup { corporate: Some(corporate), ..Setup::default() });
    proxy.give("corporate", "user:password");
    let cage = Cage::start(&proxy, 1, &["api.example.test"], &[]);
    let told =
        cage.curl(&proxy.ca, &["-k", "--http1.1", "-H", "connection: close", "https://api.example.test/"]);
    assert_eq!(told.status, 200, "{told:?}");
    drop((cage, proxy));
    let head = served.join().unwrap();
    assert!(head.starts_with("CONNECT api.example.test:443 HTTP/1.1\r\n"), "{head}");
    assert!(head.contains("Proxy-Authorization: Basic dXNlcjpwYXNzd29yZA==\r\n"), "{head}");
}

#[test]
fn a_program_that_insists_on_a_proxy_has_one_with_the_same_rules() {
    let (_origin, proxy) = tls("api.example.test");
    let cage = Cage::start(&proxy, 1, &["GET api.example.test/a"], &[]);
    let through = format!("http://{}", cage.proxy);
    let told = cage.curl(&proxy.ca, &["-x", &through, "https://api.example.test/a"]);
    assert_eq!(told.status, 200, "{told:?}");
    let told = cage.curl(&proxy.ca, &["-x", &through, "https://api.example.test/b"]);
    assert_eq!(told.status, 403, "{told:?}");
    let told = cage.curl(&proxy.ca, &["-x", &through, "https://other.example.test/"]);
    assert!(told.said.contains("403"), "{told:?}");
    let mut stream = std::net::TcpStream::connect(cage.proxy).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    assert!(text.contains("--allow-net evil.example"), "{text}");
}

#[test]
fn a_grant_while_the_cage_runs_gets_a_spare_place_and_can_be_taken_back() {
    let (_origin, proxy) = tls("late.example.test");
    let cage = Cage::start_with(&proxy, 1, &["api.example.test"], &[], false, 2);
    let question = |name: &str| {
        let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let name = keyward_policy::net::Name::parse(name).unwrap();
        socket.send_to(&keyward_proxy::read::dns::ask(7, &name, 1), cage.names_udp).unwrap();
        let mut bytes = [0; 512];
        let length = socket.recv(&mut bytes).unwrap();
        keyward_proxy::read::dns::found(&bytes[..length], 7, &name, 1).unwrap()
    };
    use keyward_proxy::read::dns::Found;
    assert_eq!(question("late.example.test"), Found::NoName);
    proxy.order(&Order::Widen { cage: None, rules: rules(&["late.example.test"]) }, &[]);
    // The order and the question come by different ways, and nothing says which is read first.
    let until = std::time::Instant::now() + PATIENCE;
    let found = loop {
        match question("late.example.test") {
            Found::Addresses(found, 5) => break found,
            other => assert!(std::time::Instant::now() < until, "{other:?}"),
        }
    };
    assert_eq!(found, ["198.18.1.1".parse::<std::net::IpAddr>().unwrap()]);
    let at = cage.place("spare 1", 443);
    let to = format!("late.example.test:443:{}:{}", at.ip(), at.port());
    let told = cage.curl(&proxy.ca, &["-k", "--connect-to", &to, "https://late.example.test/"]);
    assert_eq!(told.status, 200, "{told:?}");
    proxy.order(&Order::Narrow { cage: Some(1), rules: rules(&["api.example.test"]) }, &[]);
    let told = cage.curl(&proxy.ca, &["-k", "--connect-to", &to, "https://late.example.test/"]);
    assert_ne!(told.code, 0, "{told:?}");
}

#[test]
fn a_host_without_a_rule_is_asked_about_while_its_program_waits() {
    let (_origin, proxy) = tls("asked.example.test");
    let cage = Cage::start_with(&proxy, 1, &[], &[], true, 1);
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let name = keyward_policy::net::Name::parse("asked.example.test").unwrap();
    socket.send_to(&keyward_proxy::read::dns::ask(7, &name, 1), cage.names_udp).unwrap();
    assert!(socket.recv(&mut [0; 512]).unwrap() > 0);
    let at = cage.place("spare 0", 443);
    let to = format!("asked.example.test:443:{}:{}", at.ip(), at.port());
    for allowed in [true, false] {
        let ca = &proxy.ca;
        let told = std::thread::scope(|scope| {
            let waiting =
                scope.spawn(|| cage.curl(ca, &["-k", "--connect-to", &to, "https://asked.example.test/"]));
            let question = loop {
                match proxy.next() {
                    Report::Question { question, about: Awaited::Host(denial), .. } => {
                        assert_eq!(denial.flag().as_deref(), Some("--allow-net asked.example.test"));
                        break question;
                    }
                    _ => continue,
                }
            };
            if allowed {
                proxy.order(&Order::Widen { cage: Some(1), rules: rules(&["asked.example.test"]) }, &[]);
            }
            let why = (!allowed).then(|| "no approver is available".to_owned());
            proxy.order(&Order::Answer { question, allowed, why }, &[]);
            waiting.join().unwrap()
        });
        assert_eq!(told.status == 200, allowed, "{told:?}");
        proxy.order(&Order::Narrow { cage: Some(1), rules: rules(&[]) }, &[]);
    }
    let told = cage.curl(&proxy.ca, &["-k", "--connect-to", &to, "https://asked.example.test/"]);
    assert_ne!(told.code, 0, "a denial holds: {told:?}");
    assert!(!proxy.heard().iter().any(|report| matches!(report, Report::Question { .. })));
}

/// A greeting of TLS 1.3 with an extension that may hide a name, as browsers send it.
fn greeting_with_noise(name: &str) -> Vec<u8> {
    fn long(bytes: &[u8]) -> Vec<u8> {
        [&u16::try_from(bytes.len()).unwrap().to_be_bytes()[..], bytes].concat()
    }
    let extension = |kind: u16, data: &[u8]| [&kind.to_be_bytes()[..], &long(data)].concat();
    let key = [&[0, 0x1d][..], &long(&[9; 32])].concat();
    let noise = [&[0, 0, 1, 0, 1, 7][..], &long(&[5; 32]), &long(&[6; 144])].concat();
    let extensions = [
        extension(0, &long(&[&[0][..], &long(name.as_bytes())].concat())),
        extension(10, &long(&[0, 0x1d])),
        extension(13, &long(&[4, 3, 8, 4, 8, 7])),
        extension(43, &[2, 3, 4]),
        extension(51, &long(&key)),
        extension(0xfe0d, &noise),
    ];
    let body = [
        &[3, 3][..],
        &[1; 32],
        &[32],
        &[2; 32],
        &long(&[0x13, 1, 0x13, 2, 0x13, 3]),
        &[1, 0],
        &long(&extensions.concat()),
    ]
    .concat();
    let message = [&[1, 0][..], &long(&body)].concat();
    [&[22, 3, 1][..], &long(&message)].concat()
}

#[test]
fn a_greeting_with_an_encrypted_part_is_read_or_refused() {
    let (_origin, proxy) = tls("api.example.test");
    // The first cage trusts our certificate, and the second does not.
    for (cage, trusts, expected) in [(1, true, 22), (2, false, 21)] {
        let cage = Cage::start_with(&proxy, cage, &["api.example.test"], &[], trusts, 0);
        let mut stream = cage.connect("api.example.test", 443);
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(&greeting_with_noise("api.example.test")).unwrap();
        let mut first = [0; 7];
        stream.read_exact(&mut first).unwrap();
        assert_eq!(first[0], expected, "{first:?}");
    }
    let denial = proxy.denied();
    assert_eq!(denial.reason, Reason::NoName);
    assert_eq!(denial.flag().as_deref(), Some("--allow-net 'api.example.test/*'"));
}

#[test]
fn every_order_is_answered_in_its_turn() {
    let (_origin, proxy) = tls("api.example.test");
    let _cage = Cage::start(&proxy, 1, &["api.example.test"], &[]);
    proxy.order(&Order::Widen { cage: None, rules: rules(&["late.example.test"]) }, &[]);
    proxy.order(&Order::Listen { cage: 77, listeners: vec![], last: true }, &[]);
    let failed = proxy.until(|report| match report {
        Report::Obeyed { order, trouble } => trouble.as_ref().map(|trouble| (*order, trouble.fact.clone())),
        _ => None,
    });
    assert!(failed.0 >= 3 && failed.1.contains("there is no such cage"), "{failed:?}");
}
