//! A host that reaches the Internet through the proxy of a company, which wants a login. The proxy is a double: it demands Basic
//! credentials, and knows where every host is. `tools/try-clients` does the same with squid.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/session.rs"]
mod session;
mod support;
#[path = "support/upstream.rs"]
mod upstream;

use session::Session;
use std::process::Output;
use support::{Stage, Who, keyward, processes_with, stderr, stdout};
use upstream::Upstream;

/// The login as the variable has it, and as the proxy knows it (`ada:p@ss-canary`).
const LOGIN: &str = "ada:p%40ss-canary";
const BASIC: &str = "YWRhOnBAc3MtY2FuYXJ5";

/// A TLS server behind a proxy; `port` is the proxy's. What the proxy was told is in `seen`.
const PROXY: &str = r#"
import http.server, socket, ssl, sys, threading
at = sys.argv[1]
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        text = ("%s %s\n" % (self.headers["Host"], self.path)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def log_message(self, *_): pass
tls = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(at + "/server.pem", at + "/server.key")
tls.socket = context.wrap_socket(tls.socket, server_side=True)
threading.Thread(target=tls.serve_forever, daemon=True).start()
def copy(one, other):
    try:
        while data := one.recv(65536): other.sendall(data)
    except OSError: pass
    try: other.shutdown(socket.SHUT_WR)
    except OSError: pass
def serve(client):
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = client.recv(1)
        if not byte: return
        head += byte
    text = head.decode()
    open(at + "/seen", "a").write(text)
    if "proxy-authorization: basic YWRhOnBAc3MtY2FuYXJ5\r\n".lower() not in text.lower():
        return client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n")
    if text.startswith("CONNECT "):
        server = socket.create_connection(tls.server_address)
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        threading.Thread(target=copy, args=(client, server), daemon=True).start()
        copy(server, client)
    else:
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nplain\n")
    client.close()
proxy = socket.create_server(("127.0.0.1", 0))
open(at + "/port", "w").write(str(proxy.getsockname()[1]))
print("ready", flush=True)
while True:
    threading.Thread(target=serve, args=(proxy.accept()[0],), daemon=True).start()
"#;

struct Company {
    proxy: Upstream,
    stage: Stage,
}

impl Company {
    fn new() -> Company {
        let proxy = Upstream::new(PROXY, &["api.company.test"]);
        let stage = Stage::new(Who::User);
        let ca = proxy.folder.path().join("authority.pem");
        stage.home_file(
            ".config/keyward/policy.toml",
            &format!("version = 1\nnet.ca = [{:?}]\n", ca.display()),
        );
        Company { proxy, stage }
    }

    fn url(&self, login: &str) -> String {
        format!("http://{login}@127.0.0.1:{}", self.proxy.port)
    }

    fn run(&self, flags: &[&str], variables: &[(&str, &str)], script: &str) -> Output {
        let mut run = self.stage.keyward_run(flags, &["sh", "-c", script]);
        run.envs(variables.iter().copied()).output().unwrap()
    }
}

#[test]
fn a_proxy_with_a_login_is_used_and_the_login_stays_outside() {
    let company = Company::new();
    let url = company.url(LOGIN);
    let variables = [("HTTPS_PROXY", url.as_str()), ("HTTP_PROXY", &url)];
    let flags = ["--json", "--allow-net", "api.company.test/*", "--allow-net", "tunnel.company.test"];
    let read = company.run(&flags, &variables, "curl -sS https://api.company.test/a");
    assert_eq!(stdout(&read), "api.company.test /a\n", "{}", stderr(&read));
    let tunnelled = company.run(&flags, &variables, "curl -sSk https://tunnel.company.test/a");
    assert_eq!(stdout(&tunnelled), "tunnel.company.test /a\n", "{}", stderr(&tunnelled));
    let plain = company.run(&flags, &variables, "curl -sS http://api.company.test/b");
    assert_eq!(stdout(&plain), "plain\n", "{}", stderr(&plain));
    let seen = company.proxy.said("seen");
    assert!(seen.contains("CONNECT api.company.test:443 "), "{seen}");
    assert!(seen.contains("CONNECT tunnel.company.test:443 "), "{seen}");
    assert!(seen.contains("GET http://api.company.test/b "), "{seen}");
    // The control: a program outside has the login.
    let look = "env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null; curl -sS http://api.company.test/b -v 2>&1; echo done";
    let outside = company.stage.command("sh").args(["-c", "env"]).env("HTTPS_PROXY", &url).output().unwrap();
    assert!(stdout(&outside).contains("ss-canary"));
    let inside = company.run(&flags, &variables, look);
    let mut explain = company.stage.command(keyward());
    explain.args(["explain", "--allow-net", "api.company.test", "--", "true"]).envs(variables);
    let explain = explain.output().unwrap();
    assert!(stdout(&explain).contains("(HTTPS_PROXY, with the login in it"), "{}", stdout(&explain));
    let record = std::fs::read_to_string(company.stage.state().join("events.jsonl")).unwrap();
    assert!(stdout(&inside).contains("done"), "{}", stderr(&inside));
    for text in [stdout(&inside), stderr(&inside), stdout(&explain), stderr(&explain), record] {
        assert!(!text.contains("canary") && !text.contains(BASIC), "{text}");
    }
}

/// The session process has no credential; the login goes from the variable to the vault and to the proxy when it starts.
#[test]
fn a_session_uses_the_login_in_all_its_commands() {
    let Company { proxy, stage } = Company::new();
    let url = format!("http://{LOGIN}@127.0.0.1:{}", proxy.port);
    let session = Session { stage, name: "company".into() };
    session.start_with(&["--allow-net", "api.company.test/*"], &[("HTTPS_PROXY", &url)]);
    for _ in 0..2 {
        assert_eq!(session.said("curl -sS https://api.company.test/a"), "api.company.test /a\n");
    }
    assert!(!session.said("env; cat /proc/*/environ 2>/dev/null; true").contains("canary"));
    let of_session = processes_with("company");
    for process in of_session {
        let environ = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        assert!(!environ.windows(9).any(|part| part == b"ss-canary"), "process {process} has the login");
    }
}

#[test]
fn a_login_that_is_refused_is_told_without_its_value() {
    let company = Company::new();
    let url = company.url("ada:wrong-canary");
    let flags = ["--allow-net", "api.company.test/*"];
    let variables = [("ALL_PROXY", url.as_str())];
    for script in ["curl -sS https://api.company.test/a", "curl -sS http://api.company.test/a"] {
        let output = company.run(&flags, &variables, script);
        let told = format!("{}{}", stdout(&output), stderr(&output));
        assert!(told.contains("it does not accept the login in ALL_PROXY"), "{told}");
        assert!(!told.contains("canary"), "{told}");
    }
    let without = format!("http://127.0.0.1:{}", company.proxy.port);
    let output = company.run(&flags, &[("HTTPS_PROXY", &without)], "curl -sS https://api.company.test/a");
    assert!(stdout(&output).contains("it wants a login"), "{}{}", stdout(&output), stderr(&output));
}

/// The name does not exist outside the company, so a direct connection fails and the proxy sees nothing.
#[test]
fn hosts_of_no_proxy_are_reached_directly() {
    let company = Company::new();
    let url = company.url(LOGIN);
    let flags = ["--allow-net", "api.company.test/*"];
    for exception in ["company.test", ".company.test", "api.company.test:443", "*"] {
        let variables = [("HTTPS_PROXY", url.as_str()), ("NO_PROXY", exception)];
        let output = company.run(&flags, &variables, "curl -sS https://api.company.test/a");
        assert_ne!(stdout(&output), "api.company.test /a\n", "{exception}");
        assert_eq!(company.proxy.said("seen"), "", "{exception}");
    }
    let variables = [("HTTPS_PROXY", url.as_str()), ("NO_PROXY", "other.test,api.company.test:8443")];
    let output = company.run(&flags, &variables, "curl -sS https://api.company.test/a");
    assert_eq!(stdout(&output), "api.company.test /a\n", "{}", stderr(&output));
}
