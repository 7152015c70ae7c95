//! Programs that speak more than one request and one answer, through the rules of a cage: git, WebSocket, a stream of events, PostgreSQL
//! and ssh. Each works where a rule allows it, and is refused beside it. All servers are real ones, on the host's loopback.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;
#[path = "support/upstream.rs"]
mod upstream;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use support::{Beside, Stage, eventually, is_root, stderr, stdout};
use upstream::Upstream;

/// As a token of no vendor: only the value itself is known.
const REAL: &str = "canary-5d0e7b19c3a2f648";

/// A forge: git's own `http-backend` behind TLS, for those who know the password. Each login is kept in `seen`.
const FORGE: &str = r#"
import base64, http.server, os, ssl, subprocess, sys
at, password = sys.argv[1], open(sys.argv[1] + "/password").read()
backend = subprocess.check_output(["git", "--exec-path"], text=True).strip() + "/git-http-backend"
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def body(self):
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        whole = b""
        while size := int(self.rfile.readline(), 16):
            whole += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return whole
    def answer(self):
        body, login = self.body(), self.headers.get("Authorization") or ""
        login = base64.b64decode(login[6:]).decode() if login.startswith("Basic ") else login
        open(at + "/seen", "a").write(login + "\n")
        if login != "x-access-token:" + password:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="forge"')
            self.send_header("Content-Length", "0")
            return self.end_headers()
        path, _, query = self.path.partition("?")
        given = {"PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": at, "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path, "QUERY_STRING": query,
            "REQUEST_METHOD": self.command, "CONTENT_TYPE": self.headers.get("Content-Type") or "", "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding") or "", "REMOTE_USER": "ann", "REMOTE_ADDR": "127.0.0.1",
            "GIT_PROTOCOL": self.headers.get("Git-Protocol") or ""}
        head, _, rest = subprocess.run([backend], input=body, stdout=subprocess.PIPE, env=given).stdout.partition(b"\r\n\r\n")
        lines = [line.split(": ", 1) for line in head.decode().split("\r\n")]
        self.send_response(int(dict(lines).get("Status", "200").split()[0]))
        for name, value in lines:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        self.wfile.write(rest)
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

/// Runs a program of the host's to its end.
#[track_caller]
fn done(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}{}", stdout(&output), stderr(&output));
    stdout(&output)
}

/// A repository with one commit, which can be pushed to.
fn repository(at: &Path) {
    std::fs::write(at.join("password"), REAL).unwrap();
    let script = "git init -q --bare -b main team/app.git && git -C team/app.git config http.receivepack true && \
        git init -q -b main first && cd first && echo one > file && git add file && \
        git -c user.name=A -c user.email=a@example.test commit -qm one && git push -q ../team/app.git main";
    done(Command::new("sh").args(["-c", script]).current_dir(at).env("HOME", at));
}

#[test]
fn git_clones_and_pushes_with_a_phantom_where_ssh_was_meant() {
    let upstream = Upstream::prepared(FORGE, &["github.com", "other.example.test"], repository);
    let stage = upstream.stage();
    stage.home_file("private/value", REAL);
    let secrets = "version = 1\n[secrets.github]\nfrom = \"file://~/private/value\"\n";
    stage.home_file(".config/keyward/secrets.toml", secrets);
    let commit = "git -c user.name=B -c user.email=b@example.test commit -qam two";
    let script = format!(
        "git clone -q git@github.com:team/app.git && cd app && cat file && echo two > file && {commit} && \
         git push -q origin main && git rev-parse HEAD; env; cat .git/config"
    );
    let output = stage.caged_with(&["--secret", "github"], &script);
    let (said, told) = (stdout(&output), stderr(&output));
    let hub = |what: &[&str]| {
        let folder = upstream.folder.path().join("team/app.git");
        done(Command::new("git").arg("-C").arg(folder).args(what)).trim().to_owned()
    };
    let head = hub(&["rev-parse", "main"]);
    assert!(said.starts_with(&format!("one\n{head}\n")), "{said}{told}");
    assert_eq!(hub(&["show", "main:file"]), "two");
    // The server has seen the password, and the cage never has.
    assert!(upstream.said("seen").contains(&format!("x-access-token:{REAL}\n")), "{}", upstream.said("seen"));
    assert!(!said.contains(REAL) && said.contains("GH_TOKEN=ghp_"), "{said}");
    // The host alone is not enough: without the secret nobody has a password, and nothing is pushed.
    let attempt = "cd app && GIT_TERMINAL_PROMPT=0 git push -q https://github.com/team/app.git main:stolen 2>&1; echo $?";
    let output = stage.caged_with(&["--allow-net", "github.com/*"], attempt);
    assert!(stdout(&output).ends_with("128\n"), "{}{}", stdout(&output), stderr(&output));
    // Another account is not reached by way of the bound host, and another host is not reached at all.
    let before = upstream.said("seen");
    for attempt in [
        "cd app && git push -q https://eve:hers@github.com/team/app.git main:stolen 2>&1; echo $?",
        "cd app && git push -q https://other.example.test/team/app.git main:stolen 2>&1; echo $?",
        "cd app && git push -q git@other.example.test:team/app.git main:stolen 2>&1; echo $?",
    ] {
        let output = stage.caged_with(&["--secret", "github"], attempt);
        assert!(stdout(&output).ends_with("128\n"), "{attempt}: {}", stdout(&output));
    }
    let since = upstream.said("seen").replacen(&before, "", 1);
    assert!(!since.contains("eve"), "{since}");
    assert_eq!(hub(&["branch", "--list", "stolen"]), "");
}

/// Echoes what comes by WebSocket, and streams events: the first at once, the last when `/go` was asked for.
const STREAMS: &str = r#"
import base64, hashlib, http.server, ssl, sys, threading
at, go = sys.argv[1], threading.Event()
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        open(at + "/seen", "a").write(self.path + "\n")
        {"/echo": self.echo, "/events": self.events}.get(self.path, self.go)()
    def go(self):
        go.set()
        self.send_response(204)
        self.end_headers()
    def event(self, text):
        self.wfile.write(b"%x\r\ndata: %s\n\n\r\n" % (len(text) + 8, text))
        self.wfile.flush()
    def events(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.event(b"first")
        self.event(b"last" if go.wait(60) else b"nobody has seen the first")
        self.wfile.write(b"0\r\n\r\n")
    def echo(self):
        self.close_connection = True
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Upgrade", "websocket")
        self.send_header("Connection", "Upgrade")
        self.send_header("Sec-WebSocket-Accept", base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        while True:
            first, length = self.rfile.read(2)
            length &= 127
            if length == 126:
                length = int.from_bytes(self.rfile.read(2), "big")
            mask, text = self.rfile.read(4), self.rfile.read(length)
            text = bytes(byte ^ mask[i % 4] for i, byte in enumerate(text))
            size = bytes([length]) if length < 126 else b"\x7e" + length.to_bytes(2, "big")
            self.wfile.write(bytes([first]) + size + text)
            if first & 15 == 8:
                return
    def log_message(self, *_): pass
tls = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(at + "/server.pem", at + "/server.key")
tls.socket = context.wrap_socket(tls.socket, server_side=True)
open(at + "/port", "w").write(str(tls.server_address[1]))
print("ready", flush=True)
tls.serve_forever()
"#;

const HOSTS: &[&str] = &["api.example.test", "other.example.test"];

#[test]
fn a_websocket_is_passed_on_in_both_directions() {
    let upstream = Upstream::new(STREAMS, HOSTS);
    let stage = upstream.stage();
    let client = r#"
const socket = new WebSocket(process.argv[2]), long = "x".repeat(5000);
socket.onopen = () => socket.send("hello");
socket.onmessage = ({ data }) => {
  console.log(data === long ? "long" : data);
  data === long ? socket.close() : socket.send(long);
};
socket.onerror = () => console.log("failed");
socket.onclose = ({ code }) => console.log("closed", code);
"#;
    stage.project_file("client.js", client);
    let talk = |url: &str| {
        let script = format!("node --no-warnings --experimental-websocket client.js {url}");
        let output = stage.caged_with(&["--allow-net", "GET api.example.test/echo"], &script);
        (stdout(&output), stderr(&output))
    };
    let (said, told) = talk("wss://api.example.test/echo");
    assert_eq!(said, "hello\nlong\nclosed 1005\n", "{told}");
    for (url, flag) in [
        ("wss://api.example.test/other", "--allow-net 'GET api.example.test/other'"),
        ("wss://other.example.test/echo", "--allow-net other.example.test"),
    ] {
        let (said, told) = talk(url);
        assert!(said.starts_with("failed\n") && told.contains(flag), "{url}: {said}{told}");
    }
    assert_eq!(upstream.said("seen"), "/echo\n");
}

/// Asks for `/go` only when it has the first event, and the stream ends well only then.
#[test]
fn the_first_event_of_a_stream_arrives_before_the_server_ends() {
    let upstream = Upstream::new(STREAMS, HOSTS);
    let stage = upstream.stage();
    let client = "import sys, urllib.request as u\n\
        events = u.urlopen(sys.argv[1] + '/events')\n\
        print(events.readline().decode(), end='', flush=True)\n\
        u.urlopen(sys.argv[1] + '/go')\n\
        print(events.read().decode(), end='')\n";
    stage.python("client.py", client);
    let flags = ["--allow-net", "GET api.example.test/*"];
    let output = stage.caged_with(&flags, "python3 client.py https://api.example.test");
    assert_eq!(stdout(&output), "data: first\n\ndata: last\n\n", "{}", stderr(&output));
    let before = upstream.said("seen");
    let output = stage.caged_with(&flags, "python3 client.py https://other.example.test");
    assert_eq!((stdout(&output).as_str(), upstream.said("seen")), ("", before));
    assert!(stderr(&output).contains("--allow-net other.example.test"), "{}", stderr(&output));
}

/// Servers that want a user with a name: that of the tests has none.
struct Servant {
    name: String,
    folder: tempfile::TempDir,
}

impl Servant {
    fn new() -> Self {
        let place = if is_root() { "/srv" } else { "/var/tmp" };
        let folder = tempfile::Builder::new().prefix("keyward-servant").tempdir_in(place).unwrap();
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let name =
            if is_root() { "postgres".into() } else { done(Command::new("id").arg("-un")).trim().into() };
        if is_root() {
            done(Command::new("chown").arg(&name).arg(folder.path()));
        }
        Servant { name, folder }
    }

    fn at(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    /// A program as this user. It ends with what has started it, also if that is killed.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("setpriv");
        if is_root() {
            command.args(["--reuid", &self.name, "--regid", &self.name, "--clear-groups"]);
        }
        command.args(["--pdeathsig", "INT", "--"]).arg(program).current_dir(self.folder.path());
        command
    }
}

fn free_port() -> String {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string()
}

/// A server that is asked to end, so that it leaves nothing behind.
struct Ended(Beside);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-INT", &self.0.pid().to_string()]).status();
        let _ = self.0.0.wait();
    }
}

fn is_listening(port: &str) -> bool {
    std::net::TcpStream::connect(format!("127.0.0.1:{port}")).is_ok()
}

/// The policy leads both hosts to the same server, so that only a rule makes a difference.
fn lead(stage: &Stage, hosts: &[&str], port: &str) {
    let host = |host: &&str| format!("[net.upstream.\"{host}\"]\naddress = \"127.0.0.1:{port}\"\n");
    let hosts: String = hosts.iter().map(host).collect();
    stage.home_file(".config/keyward/policy.toml", &format!("version = 1\n{hosts}"));
}

#[test]
fn psql_reaches_the_database_that_a_rule_names() {
    let (servant, port) = (Servant::new(), free_port());
    let programs = done(Command::new("sh").args(["-c", "ls -d /usr/lib/postgresql/*/bin | tail -n 1"]));
    let program = |name: &str| Path::new(programs.trim()).join(name);
    std::fs::write(servant.at("password"), "a password").unwrap();
    let mut initdb = servant.command(program("initdb"));
    initdb.args(["-N", "-U", "ann", "-A", "scram-sha-256", "-E", "UTF8", "--no-locale"]);
    done(initdb.arg("--pwfile").arg(servant.at("password")).arg("-D").arg(servant.at("data")));
    let mut postgres = servant.command(program("postgres"));
    postgres.arg("-D").arg(servant.at("data")).args(["-p", &port, "-c", "listen_addresses=127.0.0.1"]);
    postgres.args(["-c", "unix_socket_directories=", "-c", "fsync=off"]);
    let stage = Stage::user();
    lead(&stage, &["db.example.test", "other.example.test"], &port);
    let _server = Ended(stage.beside(&mut postgres));
    let ready = || {
        let mut asked = Command::new(program("pg_isready"));
        asked.args(["-q", "-h", "127.0.0.1", "-p", &port]).status().unwrap().success()
    };
    assert!(eventually(ready));
    let ask = |host: &str, port: &str| {
        let script = format!(
            "PGPASSWORD='a password' psql -h {host} -p {port} -U ann -Atc 'select count(*) from generate_series(1, 100000)' postgres"
        );
        stage.caged_with(&["--allow-net", "tcp://db.example.test:5432"], &script)
    };
    let output = ask("db.example.test", "5432");
    assert_eq!(stdout(&output), "100000\n", "{}", stderr(&output));
    for (host, port, words) in [
        ("db.example.test", "5433", "Connection refused"),
        ("other.example.test", "5432", "could not translate host name"),
        ("127.0.0.1", port.as_str(), "Connection refused"),
    ] {
        let output = ask(host, port);
        assert_eq!(stdout(&output), "", "{host}:{port}");
        assert!(stderr(&output).contains(words), "{host}:{port} {}", stderr(&output));
    }
}

#[test]
fn ssh_reaches_the_host_that_a_rule_names() {
    let (servant, port) = (Servant::new(), free_port());
    // The client, too, wants a user with a name.
    let stage = if is_root() { Stage::root() } else { Stage::user() };
    lead(&stage, &["box.example.test", "other.example.test"], &port);
    let key = |path: &Path| {
        done(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-C", "", "-f"]).arg(path));
        std::fs::read_to_string(path.with_extension("pub")).unwrap()
    };
    let own = key(&servant.at("host"));
    let login = key(&stage.project().join("login"));
    stage.own(&stage.project().join("login"));
    std::fs::write(servant.at("allowed"), login).unwrap();
    if is_root() {
        done(Command::new("chown").arg(&servant.name).args([servant.at("host"), servant.at("allowed")]));
    }
    let mut sshd = servant.command("/usr/sbin/sshd");
    sshd.args(["-D", "-f", "/dev/null", "-p", &port, "-h"]).arg(servant.at("host"));
    for option in [
        "ListenAddress=127.0.0.1",
        "PidFile=none",
        "UsePAM=no",
        "StrictModes=no",
        "PasswordAuthentication=no",
        &format!("AuthorizedKeysFile={}", servant.at("allowed").display()),
    ] {
        sshd.args(["-o", option]);
    }
    let _server = Ended(stage.beside(&mut sshd));
    assert!(eventually(|| is_listening(&port)));
    stage.project_file("known", &format!("box.example.test,other.example.test,127.0.0.1 {own}"));
    let name = &servant.name;
    let ask = |host: &str, port: &str| {
        let script = format!(
            "ssh -F none -i login -o UserKnownHostsFile=known -o BatchMode=yes -p {port} {name}@{host} 'cat; id -un' < known"
        );
        stage.caged_with(&["--allow-net", "tcp://box.example.test:22"], &script)
    };
    let output = ask("box.example.test", "22");
    assert!(stdout(&output).ends_with(&format!("{own}{name}\n")), "{}{}", stdout(&output), stderr(&output));
    for (host, port, words) in [
        ("box.example.test", "2222", "Connection refused"),
        ("other.example.test", "22", "Could not resolve hostname"),
        ("127.0.0.1", port.as_str(), "Connection refused"),
    ] {
        let output = ask(host, port);
        assert_eq!(stdout(&output), "", "{host}:{port}");
        assert!(stderr(&output).contains(words), "{host}:{port} {}", stderr(&output));
    }
}
