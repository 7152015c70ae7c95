//! `net.ask`: a host that no rule allows becomes a question, the program waits, and goes on or is refused. The server is on the host's loopback,
//! reached through the upstream override of the user's policy.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/pty.rs"]
mod pty;
#[path = "support/session.rs"]
mod session;
mod support;
#[path = "support/upstream.rs"]
mod upstream;

use pty::Terminal;
use session::Session;
use std::process::{Child, Command, Output, Stdio};
use support::{Stage, eventually, keyward, stderr, stdout};
use upstream::Upstream;

/// A TLS server for a few hosts; each answer says the host.
const SERVER: &str = r#"
import http.server, ssl, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        text = ("%s\n" % self.headers["Host"]).encode()
        open(sys.argv[1] + "/seen", "a").write(text.decode())
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)
    def log_message(self, *_): pass
tls = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(sys.argv[1] + "/server.pem", sys.argv[1] + "/server.key")
tls.socket = context.wrap_socket(tls.socket, server_side=True)
open(sys.argv[1] + "/port", "w").write(str(tls.server_address[1]))
print("ready", flush=True)
tls.serve_forever()
"#;

const HOSTS: &[&str] = &["first.example.test", "second.example.test", "api.example.test"];
/// Trusts the server's certificate, which is passed on as it is.
const CURL: &str = "curl -sS --max-time 60 --cacert ca.pem";

fn upstream() -> Upstream {
    Upstream::new(SERVER, HOSTS)
}

/// A user whose policy asks about hosts, and says more.
fn asking(upstream: &Upstream, more: &str) -> Stage {
    let stage = upstream.stage();
    let policy = std::fs::read_to_string(stage.home().join(".config/keyward/policy.toml")).unwrap();
    let policy = policy.replacen("version = 1\n", &format!("version = 1\nnet.ask = true\n{more}\n"), 1);
    stage.home_file(".config/keyward/policy.toml", &policy);
    stage.project_file("ca.pem", &upstream.said("authority.pem"));
    stage
}

const ATTENDED: &str = "gate.attended = \"always\"";

fn start(stage: &Stage, script: &str) -> Child {
    start_as(stage, "auto", script)
}

fn start_as(stage: &Stage, mode: &str, script: &str) -> Child {
    let mut command = stage.keyward_run(&["--gate", mode, "--net", "rules"], &["sh", "-c", script]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn run(stage: &Stage, arguments: &[&str]) -> Output {
    stage.command(keyward()).args(arguments).output().unwrap()
}

/// The number of the question that waits, once there is one about this.
fn question(stage: &Stage, about: &str) -> String {
    let mut found = None;
    let is_there = eventually(|| {
        let listed = stdout(&run(stage, &["approvals"]));
        let line = listed.lines().find(|line| line.contains(about) && line.contains("waits"));
        found = line.and_then(|line| line.split_whitespace().next().map(str::to_owned));
        found.is_some()
    });
    assert!(is_there, "{about}: {}", stdout(&run(stage, &["approvals", "--all"])));
    found.unwrap()
}

fn answer(stage: &Stage, about: &str, word: &str) {
    let answered = run(stage, &["approvals", word, &question(stage, about)]);
    assert!(answered.status.success(), "{}", stderr(&answered));
}

fn events(stage: &Stage, name: &str) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(stage.state().join("events.jsonl")).unwrap_or_default();
    let events = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    events.filter(|event| event["event"] == name).collect()
}

#[test]
fn a_program_waits_for_the_answer_and_goes_on_or_is_refused() {
    let upstream = upstream();
    let stage = asking(&upstream, ATTENDED);
    let script = format!(
        "{CURL} https://first.example.test/; {CURL} https://first.example.test/again; \
         {CURL} https://second.example.test/; echo $?; {CURL} https://second.example.test/; echo $?"
    );
    let child = start(&stage, &script);
    answer(&stage, "host first.example.test:443", "allow");
    answer(&stage, "host second.example.test:443", "deny");
    let output = child.wait_with_output().unwrap();
    let said = stdout(&output);
    assert!(said.starts_with("first.example.test\nfirst.example.test\n"), "{said} {}", stderr(&output));
    assert_eq!(said.lines().count(), 4, "{said}");
    assert!(!said.lines().skip(2).any(|code| code == "0"), "{said}");
    assert!(stderr(&output).contains("the approver denied it"), "{}", stderr(&output));
    assert!(stderr(&output).contains("--allow-net second.example.test"), "{}", stderr(&output));
    assert_eq!(
        upstream.said("seen"),
        "first.example.test\nfirst.example.test\n",
        "nothing of the other came through"
    );
    assert_eq!(events(&stage, "asked").len(), 2, "each host is asked about once");
    let allowed = events(&stage, "net-allowed");
    assert_eq!(allowed.len(), 1);
    assert_eq!(
        (&allowed[0]["rule"], &allowed[0]["gate"]["because"]),
        (&"first.example.test".into(), &"operator".into())
    );
}

#[test]
fn without_an_approver_a_host_is_denied_at_once_and_can_be_allowed_for_the_next_try() {
    let upstream = upstream();
    let stage = asking(&upstream, "");
    let script = format!("{CURL} https://first.example.test/");
    let output = start(&stage, &script).wait_with_output().unwrap();
    assert_eq!(stdout(&output), "");
    let told = stderr(&output);
    assert!(told.contains("no approver is available"), "{told}");
    let id = told.split("approvals allow ").nth(1).unwrap().split('`').next().unwrap().to_owned();
    let allowed = run(&stage, &["approvals", "allow", &id]);
    assert!(allowed.status.success(), "{}", stderr(&allowed));
    let output = start(&stage, &script).wait_with_output().unwrap();
    assert_eq!(stdout(&output), "first.example.test\n", "{}", stderr(&output));
    let output = start(&stage, &script).wait_with_output().unwrap();
    assert_eq!(stdout(&output), "", "it was allowed once");
}

#[test]
fn a_question_that_is_not_answered_in_time_is_a_no() {
    let upstream = upstream();
    let stage = asking(&upstream, "gate.attended = \"always\"\ngate.wait = \"1s\"");
    let output = start(&stage, &format!("{CURL} https://first.example.test/")).wait_with_output().unwrap();
    assert_eq!(stdout(&output), "");
    assert!(stderr(&output).contains("no approver answered in time"), "{}", stderr(&output));
    assert_eq!(upstream.said("seen"), "");
}

#[test]
fn a_person_is_asked_on_the_terminal_while_the_program_waits() {
    let upstream = upstream();
    let stage = asking(&upstream, "");
    for (keys, expected) in [("y\r", "first.example.test"), ("n\r", "the approver denied it")] {
        let script = format!("echo before; {CURL} https://first.example.test/; echo after");
        let command = stage.keyward_run(&["--gate", "auto", "--net", "rules"], &["sh", "-c", &script]);
        let mut pty = Terminal::start(command, support::USER);
        pty.wait_for("allow first.example.test:443 while this command runs?");
        pty.wait_for("[n] ");
        std::thread::sleep(std::time::Duration::from_millis(600));
        pty.keys(keys);
        pty.wait_for("after");
        let _ = pty.end();
        let shown = pty.text();
        assert!(shown.contains(expected), "{shown}");
    }
    assert_eq!(upstream.said("seen"), "first.example.test\n");
}

#[test]
fn the_judge_and_the_modes_hold_for_hosts() {
    let upstream = upstream();
    let script = format!("{CURL} https://first.example.test/");
    let stage = asking(
        &upstream,
        "gate.mode = \"judge\"\ngate.judge = [\"/usr/bin/python3\", \"/srv/keyward-no-such-judge\"]",
    );
    let judge = stage.file(
        &stage.elsewhere().join("judge.py"),
        "import json, sys\nasked = json.load(sys.stdin)\nhost = 'first.example.test' in json.dumps(asked)\nprint(json.dumps({'v': 1, 'opinion': 'allow' if host else 'deny', 'reason': 'r'}))\n",
    );
    let path = stage.home().join(".config/keyward/policy.toml");
    let policy = std::fs::read_to_string(&path).unwrap();
    stage.home_file(
        ".config/keyward/policy.toml",
        &policy.replace("/srv/keyward-no-such-judge", judge.to_str().unwrap()),
    );
    let output = start_as(&stage, "judge", &script).wait_with_output().unwrap();
    assert_eq!(stdout(&output), "first.example.test\n", "{}", stderr(&output));
    let output = start_as(&stage, "judge", &format!("{CURL} https://second.example.test/"))
        .wait_with_output()
        .unwrap();
    assert!(stderr(&output).contains("the judge denied it"), "{}", stderr(&output));
    for (mode, why) in [("yolo", "never allowed unasked"), ("deny", "the gate mode is deny")] {
        let stage = asking(&upstream, "");
        let output = stage.caged_with(&["--net", "rules", "--gate", mode], &script);
        assert_eq!(stdout(&output), "", "{mode}");
        assert!(stderr(&output).contains(why), "{mode}: {}", stderr(&output));
    }
}

#[test]
fn in_a_session_a_yes_holds_for_all_of_its_commands_and_so_does_a_no() {
    let upstream = upstream();
    let session = Session { stage: asking(&upstream, ATTENDED), name: "work".into() };
    session.start(&["--gate", "auto", "--net", "rules"]);
    let asked = |host: &str, word: &str| {
        let script = format!("{CURL} https://{host}/");
        let child = session
            .command(&["exec", "work", "--", "sh", "-c", &script])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        answer(&session.stage, &format!("host {host}:443"), word);
        child.wait_with_output().unwrap()
    };
    assert_eq!(stdout(&asked("first.example.test", "allow")), "first.example.test\n");
    let denied = asked("second.example.test", "deny");
    assert_eq!(stdout(&denied), "");
    let again = session.exec(&["--fresh"], &format!("{CURL} https://first.example.test/"));
    assert_eq!(stdout(&again), "first.example.test\n", "{}", stderr(&again));
    let again = session.exec(&[], &format!("{CURL} https://second.example.test/"));
    assert_eq!(stdout(&again), "");
    assert_eq!(events(&session.stage, "asked").len(), 2);
}

#[test]
fn a_flood_of_names_neither_tires_the_approver_nor_leaves_the_cage() {
    let upstream = upstream();
    let stage = asking(&upstream, "");
    let script = format!(
        "for n in $(seq 40); do {CURL} https://data$n.evil.example/ https://evil$n.example/ 2>/dev/null; done; \
         {CURL} -o /dev/null https://{}.xn--80ak6aa92e.com/ 2>/dev/null; true",
        "a".repeat(63)
    );
    let output = start(&stage, &script).wait_with_output().unwrap();
    let questions = stdout(&run(&stage, &["approvals", "--all"]));
    let about_hosts = questions.lines().filter(|line| line.contains("host ")).count();
    assert!((1..=8).contains(&about_hosts), "{questions}");
    let of_site = questions.lines().filter(|line| line.contains("host data")).count();
    assert!(of_site <= 3, "{questions}");
    let told = stderr(&output);
    assert!(told.contains("were denied without a question"), "{told}");
    assert!(told.lines().count() < 120, "{told}");
    assert_eq!(upstream.said("seen"), "");
}

#[test]
fn why_and_explain_say_that_a_host_is_asked_about() {
    let upstream = upstream();
    let stage = asking(&upstream, "");
    let why = run(&stage, &["why", "net", "--net", "rules", "registry.npmjs.org"]);
    assert!(stdout(&why).contains("an approver is asked"), "{}{}", stdout(&why), stderr(&why));
    let explained = run(&stage, &["explain", "--net", "rules", "--", "true"]);
    assert!(stdout(&explained).contains("every other host is asked about"), "{}", stdout(&explained));
    // The control: without the key nothing is asked.
    let output =
        upstream.stage().caged_with(&["--net", "rules"], &format!("{CURL} https://first.example.test/"));
    assert!(!stderr(&output).contains("approver"), "{}", stderr(&output));
}

#[test]
fn the_processes_that_ask_end_with_the_run() {
    let upstream = upstream();
    let stage = asking(&upstream, ATTENDED);
    let mut child = start(&stage, &format!("{CURL} https://first.example.test/"));
    question(&stage, "host first.example.test:443");
    assert!(Command::new("kill").args(["-9", &child.id().to_string()]).status().unwrap().success());
    let _ = child.wait();
    assert!(eventually(|| stdout(&run(&stage, &["approvals"])).contains("no question waits")));
}
