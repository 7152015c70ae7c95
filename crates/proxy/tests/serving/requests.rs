//! Requests that are read.

use crate::origin::Origin;
use crate::support::{Cage, Proxy, Setup};
use keyward_policy::net::Reason;
use keyward_protocol::proxy::{Report, Served};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

const HOST: &str = "api.example.test";

fn start(protocols: &[&str]) -> (Origin, Proxy) {
    let origin = Origin::start(HOST, protocols);
    let proxy = Proxy::start(Setup {
        upstreams: vec![origin.upstream(HOST, 0)],
        roots: vec![origin.root.clone()],
        ..Setup::default()
    });
    (origin, proxy)
}

fn url(path: &str) -> String {
    format!("https://{HOST}{path}")
}

#[test]
fn requests_pass_in_any_pair_of_versions() {
    for (protocols, outside) in [(&["h2", "http/1.1"][..], "HTTP/2.0"), (&["http/1.1"][..], "HTTP/1.1")] {
        let (_origin, proxy) = start(protocols);
        let cage = Cage::start(&proxy, 1, &["api.example.test/*"], &[]);
        for (flag, version) in [("--http2", "2"), ("--http1.1", "1.1")] {
            let told = cage.curl(&proxy.ca, &[flag, "-d", "some body", &url("/a%2Fb?c=d")]);
            // A host that is known to speak HTTP/1 only is not offered more.
            let expected = if told.version == "1.1" && flag == "--http2" && outside == "HTTP/1.1" {
                "1.1"
            } else {
                version
            };
            assert_eq!(
                (told.status, told.version.as_str()),
                (403, expected),
                "an encoded slash matches no path: {told:?}"
            );
            let told = cage.curl(&proxy.ca, &[flag, "-d", "some body", &url("/a/b?c=d")]);
            assert_eq!(told.status, 200, "{told:?}");
            let seen = told.json();
            assert_eq!(seen["version"], outside);
            assert_eq!(seen["method"], "POST");
            assert_eq!(seen["target"], "/a/b?c=d");
            assert_eq!(seen["body"], "some body");
            let host = if outside == "HTTP/2.0" { &seen["authority"] } else { &seen["headers"]["host"] };
            assert_eq!(host, HOST);
        }
        let served = proxy.until(|report| match report {
            Report::Connected { served, .. } => Some(*served),
            _ => None,
        });
        assert_eq!(served, Served::Terminated);
    }
}

#[test]
fn a_denied_request_says_what_would_allow_it() {
    let (origin, proxy) = start(&["h2"]);
    let cage = Cage::start(&proxy, 1, &["GET api.example.test/pub/*"], &[]);
    assert_eq!(cage.curl(&proxy.ca, &[&url("/pub/x")]).status, 200, "the control");
    let told = cage.curl(&proxy.ca, &["-X", "DELETE", &url("/pub/x")]);
    assert_eq!(told.status, 403);
    let error = &told.json()["error"];
    assert_eq!(error["flag"], "--allow-net 'DELETE api.example.test/pub/x'");
    assert_eq!(error["reason"], "request");
    assert_eq!(proxy.denied().flag().as_deref(), Some("--allow-net 'DELETE api.example.test/pub/x'"));
    for path in ["/pub/%2e%2e/etc", "/pub/..%2fetc", "/pub/%252e%252e/etc", "/pub/a%00"] {
        let told = cage.curl(&proxy.ca, &["--path-as-is", &url(path)]);
        assert_eq!(told.status, 400, "{path}: {told:?}");
    }
    let told = cage.curl(&proxy.ca, &["-H", "x-http-method-override: DELETE", &url("/pub/x")]);
    assert_eq!(told.status, 400, "{told:?}");
    assert_eq!(origin.lines().len(), 1, "only the control got there: {:?}", origin.lines());
}

/// What is answered to these bytes on a plain connection.
fn raw(cage: &Cage, bytes: &[u8]) -> String {
    let mut stream = cage.connect(HOST, 80);
    stream.write_all(bytes).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    let mut text = Vec::new();
    let _ = stream.read_to_end(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn smuggled_requests_do_not_get_out() {
    let origin = Origin::plain();
    let proxy = Proxy::start(Setup { upstreams: vec![origin.upstream(HOST, 0)], ..Setup::default() });
    let cage = Cage::start(&proxy, 1, &["POST api.example.test/a", "api.example.test:80/a"], &[]);
    let sound = raw(&cage, b"POST /a HTTP/1.1\r\nHost: api.example.test\r\nContent-Length: 2\r\n\r\nhi");
    assert!(sound.starts_with("HTTP/1.1 200"), "{sound}");
    assert_eq!(origin.lines().len(), 1);
    let smuggled = "GET /evil HTTP/1.1\r\nHost: api.example.test\r\n\r\n";
    for head in [
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        "Content-Length: 0\r\nContent-Length: 50\r\n\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
        "Transfer-Encoding: chunked\r\n\r\n0\n\n",
        "X: y\nZ: a\r\n\r\n",
        "X: y\r\n folded\r\n\r\n",
        "Host: other.example\r\n\r\n",
    ] {
        let told =
            raw(&cage, format!("POST /a HTTP/1.1\r\nHost: api.example.test\r\n{head}{smuggled}").as_bytes());
        assert!(told.starts_with("HTTP/1.1 400") || told.is_empty(), "{head:?}: {told}");
    }
    for line in [
        "GET http://other.example/a HTTP/1.1",
        "GET http://api.example.test/a HTTP/1.1",
        "get /a HTTP/1.1",
        "GET //a HTTP/1.1",
    ] {
        let told = raw(&cage, format!("{line}\r\nHost: api.example.test\r\n\r\n").as_bytes());
        assert!(told.starts_with("HTTP/1.1 4"), "{line:?}: {told}");
    }
    let told = raw(&cage, b"GET /a HTTP/1.1\r\nHost: other.example\r\n\r\n");
    assert!(told.starts_with("HTTP/1.1 421"), "{told}");
    assert!(origin.lines().iter().all(|line| !line.contains("evil")), "{:?}", origin.lines());
    let reasons = proxy.heard().into_iter().filter_map(|report| match report {
        Report::Denied { denial, .. } => Some(denial.reason),
        _ => None,
    });
    assert!(reasons.collect::<Vec<_>>().contains(&Reason::Malformed));
}

#[test]
fn host_and_authority_have_to_agree_with_the_greeting() {
    let (origin, proxy) = start(&["h2", "http/1.1"]);
    let cage = Cage::start(&proxy, 1, &["api.example.test/*", "other.example.test/*"], &[]);
    for version in ["--http2", "--http1.1"] {
        let told = cage.curl(&proxy.ca, &[version, "-H", "Host: other.example.test", &url("/x")]);
        assert_eq!(told.status, 421, "{told:?}");
    }
    assert_eq!(proxy.denied().reason, Reason::Mismatch);
    assert_eq!(origin.lines(), [] as [String; 0]);
}

#[test]
fn events_arrive_one_by_one_and_a_vanished_client_ends_them() {
    let (_origin, proxy) = start(&["h2", "http/1.1"]);
    let cage = Cage::start(&proxy, 1, &["api.example.test/*"], &[]);
    let at = cage.place(HOST, 443);
    for version in ["--http1.1", "--http2"] {
        let mut command = Command::new("curl");
        command.env_clear().args([
            "-sSNk",
            version,
            "--connect-to",
            &format!("{HOST}:443:{at}"),
            &url("/events"),
        ]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        // The answer never ends, so that a proxy that waits for its end gives nothing.
        assert_eq!(lines.next().unwrap().unwrap(), "data: 0");
        assert_eq!(lines.nth(1).unwrap().unwrap(), "data: 1");
        child.kill().unwrap();
        child.wait().unwrap();
    }
    for _ in 0..2 {
        proxy.until(|report| matches!(report, Report::Closed { .. }).then_some(()));
    }
}

#[test]
fn bodies_of_any_length_stream_in_both_directions() {
    let (_origin, proxy) = start(&["h2", "http/1.1"]);
    let cage = Cage::start(&proxy, 1, &["api.example.test/*"], &[]);
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(30 << 20).unwrap();
    let data = format!("@{}", file.path().display());
    for flags in [
        &["--http2"][..],
        &["--http1.1"],
        &["--http1.1", "-H", "transfer-encoding: chunked"],
        &["--http1.1", "-H", "expect: 100-continue"],
    ] {
        let upload = url("/upload");
        let all = [flags, &["--data-binary", &data, &upload]].concat();
        let told = cage.curl(&proxy.ca, &all);
        assert_eq!(told.status, 200, "{told:?}");
        assert_eq!(told.json()["length"], 30 << 20, "{flags:?}");
    }
}

#[test]
fn trailers_pass_from_one_http2_to_the_other() {
    let (origin, proxy) = start(&["h2"]);
    let cage = Cage::start(&proxy, 1, &["api.example.test/*"], &[]);
    let arguments = ["-i", "--http2", "-H", "te: trailers", &url("/trailers")];
    let to = format!("{HOST}:443:{}", origin.at);
    let direct = cage.curl(&proxy.ca, &[&["-k", "--connect-to", &to], &arguments[..]].concat());
    let told = cage.curl(&proxy.ca, &arguments);
    for told in [direct, told] {
        assert!(told.body.contains("message") && told.body.contains("grpc-status: 0"), "{told:?}");
    }
}

/// A program with an open WebSocket, whose server sends everything back.
pub struct Socket {
    program: std::process::Child,
    input: std::process::ChildStdin,
    output: BufReader<std::process::ChildStdout>,
}

impl Socket {
    pub fn open(cage: &Cage, headers: &str) -> Socket {
        let mut command = Command::new("openssl");
        let at = cage.place(HOST, 443);
        command.env_clear().args(["s_client", "-quiet", "-servername", HOST, "-connect", &at.to_string()]);
        let mut program =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (input, output) = (program.stdin.take().unwrap(), program.stdout.take().unwrap());
        let mut socket = Socket { program, input, output: BufReader::new(output) };
        let head = format!(
            "GET /ws HTTP/1.1\r\nHost: {HOST}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n{headers}\r\n"
        );
        socket.input.write_all(head.as_bytes()).unwrap();
        let mut line = socket.line();
        assert_eq!(line, "HTTP/1.1 101 Switching Protocols\r\n");
        while line != "\r\n" {
            line = socket.line();
        }
        socket
    }

    /// Empty when the connection has ended.
    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line
    }

    pub fn echo(&mut self, text: &str) -> String {
        self.input.write_all(text.as_bytes()).unwrap();
        self.line()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

#[test]
fn a_websocket_passes() {
    let (_origin, proxy) = start(&["h2", "http/1.1"]);
    let cage = Cage::start(&proxy, 1, &["api.example.test:80/*", "api.example.test/*"], &[]);
    let mut socket = Socket::open(&cage, "");
    for text in ["\u{1}not http\n", "again\n"] {
        assert_eq!(socket.echo(text), text);
    }
}

#[test]
fn an_open_websocket_ends_with_the_rule_that_allowed_it() {
    let (_origin, proxy) = start(&["http/1.1"]);
    let cage = Cage::start(&proxy, 1, &["api.example.test/*", "other.example.test"], &[]);
    let mut socket = Socket::open(&cage, "");
    assert_eq!(socket.echo("before\n"), "before\n");
    let fewer = super::support::rules(&["other.example.test"]);
    proxy.order(&keyward_protocol::proxy::Order::Narrow { cage: Some(1), rules: fewer }, &[]);
    assert_eq!(socket.line(), "", "it has ended");
}

#[test]
fn a_host_that_cannot_be_reached_is_told_to_the_program_and_the_user() {
    let nowhere = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let origin = Origin { at: nowhere, root: String::new(), seen: std::sync::Arc::default() };
    let proxy = Proxy::start(Setup { upstreams: vec![origin.upstream(HOST, 0)], ..Setup::default() });
    let cage = Cage::start(&proxy, 1, &["api.example.test/*"], &[]);
    let told = cage.curl(&proxy.ca, &[&url("/x")]);
    assert_eq!(told.status, 502, "{told:?}");
    assert_eq!(told.json()["error"]["type"], "keyward_unreached");
    proxy.until(|report| matches!(report, Report::Unreached { .. }).then_some(()));
}

#[test]
fn a_certificate_that_is_not_trusted_is_refused() {
    let origin = Origin::start("evil.example.test", &["http/1.1"]);
    let proxy = Proxy::start(Setup {
        upstreams: vec![origin.upstream(HOST, 0)],
        roots: vec![origin.root.clone()],
        ..Setup::default()
    });
    let cage = Cage::start(&proxy, 1, &["api.example.test/*"], &[]);
    let told = cage.curl(&proxy.ca, &[&url("/x")]);
    assert_eq!(told.status, 502, "{told:?}");
    assert!(told.body.contains("certificate"), "{told:?}");
    assert_eq!(origin.lines(), [] as [String; 0]);
}

#[test]
fn a_flood_from_one_cage_leaves_another_working() {
    let (_origin, proxy) = start(&["http/1.1"]);
    let flooding = Cage::start(&proxy, 1, &["api.example.test/*"], &[]);
    let other = Cage::start(&proxy, 2, &["api.example.test/*"], &[]);
    // Connections that say nothing, and some that never end their head.
    let held: Vec<std::net::TcpStream> = (0..400)
        .map(|number| {
            let mut stream = flooding.connect(HOST, 443);
            if number % 2 == 0 {
                stream.write_all(b"\x16\x03\x01").unwrap();
            }
            stream
        })
        .collect();
    let told = other.curl(&proxy.ca, &[&url("/x")]);
    assert_eq!(told.status, 200, "{told:?}");
    assert_eq!(held.len(), 400);
}

/// All cages of a session share one number of connections, so this is a flood from another one.
#[test]
fn connections_that_lead_nowhere_make_room_for_new_ones() {
    let (_origin, proxy) = start(&["http/1.1"]);
    let cage = Cage::start(&proxy, 1, &["api.example.test/*", "api.example.test:80"], &[]);
    let mut used = cage.connect(HOST, 80);
    let mut ask = || {
        used.write_all(b"GET /none HTTP/1.1\r\nHost: api.example.test\r\n\r\n").unwrap();
        let (mut answer, mut piece) = (Vec::new(), [0; 1024]);
        while !answer.ends_with(b"}\n") {
            let length = used.read(&mut piece).unwrap();
            assert!(length > 0, "closed");
            answer.extend_from_slice(&piece[..length]);
        }
    };
    ask();
    // More than a cage may have, in each state in which nothing has been allowed yet.
    let held: Vec<std::net::TcpStream> = (0..2300)
        .map(|number| {
            let mut stream = cage.connect(HOST, 443);
            match number % 3 {
                0 => stream.write_all(b"\x16\x03\x01").unwrap(),
                1 => stream.write_all(b"GET / HTTP/1.1\r\nHost: ").unwrap(),
                _ => {}
            }
            stream
        })
        .collect();
    let told = cage.curl(&proxy.ca, &[&url("/x")]);
    assert_eq!(told.status, 200, "{told:?}");
    assert_eq!(proxy.denied().reason, keyward_policy::net::Reason::TooMany);
    // The oldest have made room, and those that are in use have not.
    let mut first = &held[0];
    assert!(!matches!(first.read(&mut [0]), Ok(1..)), "closed");
    ask();
    drop(held);
}

#[test]
fn two_thousand_connections_are_served_at_once() {
    let origin = Origin::plain();
    let proxy = Proxy::start(Setup { upstreams: vec![origin.upstream(HOST, 0)], ..Setup::default() });
    let cage = Cage::start(&proxy, 1, &["api.example.test:80"], &[]);
    let mut streams: Vec<std::net::TcpStream> = (0..2000)
        .map(|_| {
            let mut stream = cage.connect(HOST, 80);
            stream.write_all(b"GET /x HTTP/1.1\r\nHost: api.example.test\r\n").unwrap();
            stream
        })
        .collect();
    for stream in &mut streams {
        stream.write_all(b"Connection: close\r\n\r\n").unwrap();
    }
    for stream in &mut streams {
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    }
    assert_eq!(origin.lines().len(), 2000);
}

/// The head of a request with so many bytes in one header, as HTTP/2 frames. Programs refuse to send it.
fn long_head_in_frames(bytes: usize) -> Vec<u8> {
    fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
    }
    // A number in HPACK, behind a prefix of seven bits.
    fn number(mut value: usize) -> Vec<u8> {
        if value < 127 {
            return vec![u8::try_from(value).unwrap()];
        }
        let mut out = vec![127];
        value -= 127;
        while value >= 128 {
            out.push(u8::try_from(value % 128 + 128).unwrap());
            value /= 128;
        }
        out.push(u8::try_from(value).unwrap());
        out
    }
    // GET, https, `/`, and the authority.
    let mut block = [&[0x82, 0x87, 0x84, 0x01][..], &number(HOST.len()), HOST.as_bytes()].concat();
    block.extend([&[0x00, 1, b'x'][..], &number(bytes), &vec![b'y'; bytes]].concat());
    let mut out = [b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), frame(4, 0, 0, &[])].concat();
    let parts: Vec<&[u8]> = block.chunks(16_384).collect();
    for (place, part) in parts.iter().enumerate() {
        // HEADERS with the end of the stream, then CONTINUATION; the last one ends the head.
        let (kind, of_kind) = if place == 0 { (1, 0x1) } else { (9, 0) };
        let is_last = place + 1 == parts.len();
        out.extend(frame(kind, of_kind | if is_last { 0x4 } else { 0 }, 1, part));
    }
    out
}

/// The kind of the first frame that is an answer: HEADERS, RST_STREAM or GOAWAY; `None` if the connection ends without one.
fn first_answer(output: &mut impl Read) -> Option<u8> {
    loop {
        let mut head = [0; 9];
        output.read_exact(&mut head).ok()?;
        let length = u64::from(u32::from_be_bytes([0, head[0], head[1], head[2]]));
        std::io::copy(&mut output.by_ref().take(length), &mut std::io::sink()).ok()?;
        if matches!(head[3], 1 | 3 | 7) {
            return Some(head[3]);
        }
    }
}

#[test]
fn a_head_of_300_kb_is_refused_and_the_connections_of_others_go_on() {
    let (origin, proxy) = start(&["h2", "http/1.1"]);
    let cage = Cage::start(&proxy, 1, &["api.example.test/*"], &[]);
    let mut other = Socket::open(&cage, "");
    assert_eq!(other.echo("before\n"), "before\n");
    let served = origin.lines().len();
    // The control: a head of ordinary length.
    for (bytes, passes) in [(10_000, true), (80_000, false), (300_000, false)] {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), format!("x: {}", "y".repeat(bytes))).unwrap();
        let header = format!("@{}", file.path().display());
        let told = cage.curl(&proxy.ca, &["--http1.1", "-H", &header, &url("/x")]);
        assert_eq!(told.status == 200, passes, "{bytes} {told:?}");
        assert!(passes || told.status == 431 && told.body.contains("more than 64 KB"), "{bytes} {told:?}");
        let mut client = Command::new("openssl");
        let at = cage.place(HOST, 443).to_string();
        client.env_clear().args(["s_client", "-quiet", "-alpn", "h2", "-servername", HOST, "-connect", &at]);
        let mut client =
            client.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut input = client.stdin.take().unwrap();
        let _ = input.write_all(&long_head_in_frames(bytes));
        let answer = first_answer(&mut client.stdout.take().unwrap());
        let _ = client.kill();
        let _ = client.wait();
        // More frames than a head of the longest kind has end the connection; what was said before may be lost with it.
        assert!(
            answer == Some(1) || bytes == 300_000 && matches!(answer, Some(3 | 7) | None),
            "{bytes} {answer:?}"
        );
        assert_eq!(other.echo("after\n"), "after\n", "{bytes}");
        let told = cage.curl(&proxy.ca, &["--http2", &url("/y")]);
        assert_eq!(told.status, 200, "{bytes} {told:?}");
    }
    // Of the long heads, only that of the control came through, by both versions.
    let seen = origin.lines().len() - served;
    assert_eq!(seen, 2 + 3, "{:?}", origin.lines());
}
