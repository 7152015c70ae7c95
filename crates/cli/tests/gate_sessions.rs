//! The gate of a session, by real commands: from outside, from inside its cages, by calls, with people and programs who answer, and
//! with those who are gone.
//!
//! A command that was started prints `RAN`. What it does then would be asked about in any cage, and harms nothing here.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/pty.rs"]
mod pty;
#[path = "support/session.rs"]
mod session;
mod support;

use pty::Terminal;
use session::Session;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use support::{Beside, Stage, USER, eventually, keyward, stderr, stdout};

/// Somebody has to say yes to it: class git.
const RESET: &str = "echo RAN; git worktree remove --force /gone; true";
/// The same rule in other words.
const REPHRASED: &str = "cd . && echo RAN && git -c color.ui=never worktree remove /gone --force; true";
/// The same class by another rule.
const CLEAN: &str = "echo RAN; git clean -fdx; true";
/// The hard floor. `rm` itself would refuse it as well.
const FORBIDDEN: &str = "echo RAN; rm -rf /";

/// `keyward` where nobody is at a terminal, wherever the tests are run.
fn alone(session: &Session, arguments: &[&str]) -> Command {
    let mut command = session.stage.command("setsid");
    command.arg(keyward()).args(arguments);
    command
}

fn exec(session: &Session, script: &str) -> Output {
    alone(session, &["exec", "work", "--", "sh", "-c", script]).output().unwrap()
}

/// A session with a copy of `keyward` in its cage, started where nobody is; how it is called inside, and what was said at the start.
fn session(gate: &str) -> (Session, String, String) {
    let stage = Stage::user();
    let folder = stage.elsewhere();
    let program = folder.join("keyward");
    std::fs::copy(keyward(), &program).unwrap();
    stage.own(&program);
    let session = Session { stage, name: "work".into() };
    let said = start(&session, gate);
    (session, format!("'{}'", program.display()), said)
}

fn start(session: &Session, gate: &str) -> String {
    let folder = session.stage.elsewhere();
    let read = folder.to_str().unwrap();
    let output = alone(session, &["session", "start", "--name", "work", "--gate", gate, "--read", read])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    stderr(&output)
}

#[track_caller]
fn works(session: &Session, arguments: &[&str]) -> String {
    let output = alone(session, arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    stdout(&output)
}

#[track_caller]
fn ran(output: &Output, case: &str) {
    assert!(output.status.success() && stdout(output).starts_with("RAN\n"), "{case}: {}", stderr(output));
}

#[track_caller]
fn denied(output: &Output, words: &str, case: &str) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(123), "{case}: {}{said}", stdout(output));
    assert!(stdout(output).is_empty() && said.contains(words), "{case}: {}{said}", stdout(output));
    assert_eq!(said.lines().count(), 2, "{case}: {said}");
}

/// The number of the approval that a refusal names.
#[track_caller]
fn approval(output: &Output) -> String {
    let said = stderr(output);
    let after = said.split("keyward approvals allow ").nth(1).unwrap_or_else(|| panic!("no number: {said}"));
    after.chars().take_while(char::is_ascii_digit).collect()
}

fn events(session: &Session, name: &str) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(session.stage.state().join("events.jsonl")).unwrap_or_default();
    let events = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    events.filter(|event| event["event"] == name).collect()
}

/// A program at the door that sees every question, and writes down what it is told.
const WATCHER: &str = r#"
import json, os, socket, sys
door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
door.connect(sys.argv[1])
act, told = sys.argv[2], open(sys.argv[3], "a")
def say(message): door.send(json.dumps({"v": 1, **message}).encode())
say({"do": "watch"})
print(json.loads(door.recv(131072))["is"], flush=True)
while True:
    packet, descriptors, _, _ = socket.recv_fds(door, 131072, 4)
    if not packet: break
    message = json.loads(packet)
    if message["is"] == "question":
        message["document"] = json.loads(os.pread(descriptors[0], 1 << 20, 0))
        if act in ("yes", "no"): say({"do": "decide", "question": message["question"], "allow": act == "yes"})
    if message["is"] == "settled" and act == "late":
        say({"do": "decide", "question": message["question"], "allow": False})
    print(json.dumps(message), file=told, flush=True)
    if message["is"] == "question" and act == "crash": os.abort()
"#;

/// Starts one; what it was told is in the file.
fn watcher(session: &Session, act: &str) -> (Beside, PathBuf) {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let told = session.stage.file(&session.stage.home().join(format!("told-{number}")), "");
    let mut command = session.stage.command("python3");
    command.args(["-c", WATCHER]).arg(session.folder().join("door")).args([act]).arg(&told);
    (session.stage.beside_and_ready(&mut command), told)
}

fn told(file: &PathBuf) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(file).unwrap();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn waits(session: &Session, script: &str) -> Child {
    let mut command = alone(session, &["exec", "work", "--", "sh", "-c", script]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_session_says_once_that_nobody_answers_and_denies() {
    let (session, _, said) = session("auto");
    assert_eq!(
        said.matches("without a terminal it denies until `keyward approvals -f`").count(),
        1,
        "{said}"
    );
    let output = exec(&session, RESET);
    denied(&output, "no approver is available", "unattended");
    ran(&exec(&session, "echo RAN"), "the control");
    works(&session, &["approvals", "allow", &approval(&output)]);
    ran(&exec(&session, RESET), "allowed for the next time");
    denied(&exec(&session, RESET), "no approver is available", "once");
    let told = events(&session, "denied");
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told.iter().all(|event| event["session"].as_str().unwrap().starts_with("work")), "{told:?}");
}

#[test]
fn the_hard_floor_holds_in_every_session_from_inside_and_by_calls() {
    for gate in ["auto", "yolo"] {
        let (session, inside, said) = session(gate);
        let _offers = offers(&session);
        assert_eq!(said.contains("the gate asks nothing"), gate == "yolo", "{said}");
        denied(&exec(&session, FORBIDDEN), "forbidden", gate);
        // Make passes the gate: what it starts meets it again.
        session.stage.project_file(
            "Makefile",
            &format!(
                "floor:\n\t@{inside} run -- sh -c '{FORBIDDEN}'\ncontrol:\n\t@{inside} run -- echo RAN\n\
                      call:\n\t@{inside} call sh '{{\"line\": \"rm -rf /\"}}'\n"
            ),
        );
        let make =
            |target: &str| alone(&session, &["exec", "work", "--", "make", "-s", target]).output().unwrap();
        ran(&make("control"), gate);
        for target in ["floor", "call"] {
            let output = make(target);
            assert!(
                stdout(&output).is_empty() && stderr(&output).contains("forbidden: it deletes"),
                "{output:?}"
            );
        }
        assert_eq!(called(&session), "", "no function was called");
    }
}

#[test]
fn a_denial_as_json_names_its_rule_and_whether_a_retry_can_help() {
    let (session, ..) = session("auto");
    for (script, retry) in [(RESET, true), (FORBIDDEN, false)] {
        let output = alone(&session, &["exec", "--json", "work", "--", "sh", "-c", script]).output().unwrap();
        assert_eq!(output.status.code(), Some(123), "{script}: {}", stderr(&output));
        let said = stderr(&output);
        let outcome: serde_json::Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
        assert_eq!(outcome["retry"], retry, "{script}: {outcome}");
        let rule = outcome["rule"].as_str().unwrap();
        assert_ne!(rule, "gate", "{script}: {outcome}");
    }
}

#[test]
fn a_program_at_the_door_answers_and_one_that_crashes_has_said_no() {
    for (act, words) in [("yes", None), ("no", Some("denied by the operator")), ("crash", Some("is gone"))] {
        let (session, ..) = session("auto");
        let (_watcher, file) = watcher(&session, act);
        let output = exec(&session, RESET);
        match words {
            None => ran(&output, act),
            Some(words) => denied(&output, words, act),
        }
        let question = told(&file).into_iter().find(|message| message["is"] == "question").unwrap();
        assert_eq!(question["argv"], serde_json::json!(["sh", "-c", RESET]));
        assert_eq!(question["document"]["texts"][0]["text"], format!("sh -c '{RESET}'"));
        assert_eq!(question["document"]["digest"], question["digest"]);
        assert_eq!(question["from_inside"], false);
    }
}

#[test]
fn of_two_programs_at_the_door_the_first_answer_counts() {
    let (session, ..) = session("auto");
    let (_late, late) = watcher(&session, "late");
    let (_silent, silent) = watcher(&session, "silent");
    let (first, _) = watcher(&session, "yes");
    ran(&exec(&session, RESET), "the first says yes");
    let is = |file: &PathBuf, what: &str| told(file).iter().any(|message| message["is"] == what);
    assert!(
        eventually(|| is(&late, "refused") && is(&silent, "settled")),
        "{:?}{:?}",
        told(&late),
        told(&silent)
    );
    drop(first);
    // One of those who are left goes, and the other can still answer.
    let child = waits(&session, CLEAN);
    let asked = || told(&silent).iter().filter(|message| message["is"] == "question").count();
    assert!(eventually(|| asked() == 2));
    drop(_late);
    let listed = works(&session, &["approvals"]);
    assert!(listed.contains("  waits"), "{listed}");
    // And the last one: whoever waits is told.
    drop(_silent);
    denied(&child.wait_with_output().unwrap(), "is gone", "nobody is left");
}

#[test]
fn whoever_waits_and_goes_takes_the_question_along() {
    let (session, ..) = session("auto");
    let (_watcher, file) = watcher(&session, "silent");
    let mut child = waits(&session, RESET);
    let is = |what: &str| told(&file).iter().any(|message| message["is"] == what);
    assert!(eventually(|| is("question")));
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(eventually(|| is("settled")));
    assert!(eventually(|| works(&session, &["approvals"]).contains("no question waits")));
    assert!(events(&session, "job").is_empty(), "nothing has run");
    ran(&exec(&session, "echo RAN"), "the control");
}

#[test]
fn exec_on_a_terminal_asks_there() {
    let (session, ..) = session("auto");
    let started = session.stage.project().join("started");
    for (keys, runs) in [("n\r", false), ("y\r", true)] {
        let script = if runs {
            "touch started; git clean -fdx; true"
        } else {
            "touch started; git worktree remove --force /gone; true"
        };
        let mut command = session.stage.command(keyward());
        command.args(["exec", "work", "--", "sh", "-c", script]);
        let mut terminal = Terminal::start(command, USER);
        terminal.wait_for("(help) [n] ");
        terminal.keys(keys);
        assert_eq!(terminal.end().code(), Some(if runs { 0 } else { 123 }), "{}", terminal.text());
        assert_eq!(started.exists(), runs);
        assert_eq!(terminal.text().contains("`keyward approvals allow"), !runs, "{}", terminal.text());
        assert!(!terminal.text().contains("ask your user"), "{}", terminal.text());
    }
}

#[test]
fn a_yes_for_the_session_is_for_the_very_same_command_there() {
    let (session, ..) = session("auto");
    let exec_on_terminal = |script: &str| {
        let mut command = session.stage.command(keyward());
        command.args(["exec", "work", "sh", "-c", script]);
        Terminal::start(command, USER)
    };
    let mut terminal = exec_on_terminal(RESET);
    terminal.wait_for("Allow it? y, s (session), p (1h), n, never, ");
    terminal.keys("s\n");
    assert!(terminal.end().code().is_some() && terminal.text().contains("RAN"), "{}", terminal.text());
    for _ in 0..2 {
        ran(&exec(&session, RESET), "granted for this session");
    }
    // Control: other words are another command.
    let mut terminal = exec_on_terminal(REPHRASED);
    terminal.wait_for("Allow it?");
    terminal.keys("n\n");
    assert_eq!(terminal.end().code(), Some(123));
}

#[test]
fn a_no_sticks_to_its_rule_in_this_session_until_somebody_grants_it() {
    let (session, ..) = session("auto");
    let (no, _) = watcher(&session, "no");
    let first = exec(&session, RESET);
    denied(&first, "denied by the operator", "the no");
    drop(no);
    let (yes, file) = watcher(&session, "yes");
    for script in [RESET, REPHRASED, "echo RAN; bash -c 'git worktree remove -f /gone'"] {
        denied(&exec(&session, script), "the same request was denied before", script);
    }
    assert!(told(&file).is_empty(), "nobody was asked again: {:?}", told(&file));
    ran(&exec(&session, CLEAN), "the control: another rule is asked about");
    drop(yes);
    // Another session of the same name knows nothing of it.
    works(&session, &["session", "stop", "work"]);
    start(&session, "auto");
    let (yes, _) = watcher(&session, "yes");
    ran(&exec(&session, RESET), "a new session");
    drop(yes);
    // Here somebody says no, and then changes their mind.
    let (no, _) = watcher(&session, "no");
    let child = exec(&session, RESET);
    denied(&child, "denied by the operator", "a no in the new session");
    drop(no);
    denied(&exec(&session, REPHRASED), "the same request was denied before", "it sticks there too");
    let all = works(&session, &["approvals", "--all"]);
    let numbers = all.lines().filter_map(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    let id = numbers.max().unwrap().to_string();
    works(&session, &["approvals", "allow", &id, "--class", "git", "--uses", "5"]);
    ran(&exec(&session, REPHRASED), "granted");
    ran(&exec(&session, RESET), "granted");
}

#[test]
fn from_inside_every_command_meets_the_gate_with_its_session() {
    let (session, inside, _) = session("auto");
    // Make passes the gate: what it starts is asked for from inside.
    let targets: String = (0..8)
        .map(|number| format!("t{number}:\n\t@{inside} run -- sh -c '{RESET}'; echo code $$?\n"))
        .collect();
    let names: Vec<String> = (0..8).map(|number| format!("t{number}")).collect();
    let makefile = format!(
        "all: {}\n{targets}deep:\n\t@{inside} run -- make -s t0\ndeeper:\n\t@{inside} run -- make -s control\ncontrol:\n\t@{inside} run -- echo RAN\n",
        names.join(" ")
    );
    session.stage.project_file("Makefile", &makefile);
    let make = |arguments: &[&str]| {
        alone(&session, &[&["exec", "work", "--", "make", "-s"], arguments].concat()).output().unwrap()
    };
    let output = make(&["-j8", "all"]);
    assert_eq!(stdout(&output), "code 123\n".repeat(8), "{}", stderr(&output));
    assert_eq!(stderr(&output).matches("no approver is available").count(), 8, "{}", stderr(&output));
    ran(&make(&["control"]), "what is harmless runs");
    // From a cage beside the session's no door leads on: nothing at all is started there.
    for target in ["deep", "deeper"] {
        let output = make(&[target]);
        assert!(!stdout(&output).contains("RAN") && !stderr(&output).is_empty(), "{target}: {output:?}");
    }
    let told = events(&session, "denied");
    assert_eq!(told.len(), 8, "{told:?}");
    for event in told {
        let of_session = event["session"].as_str().is_some_and(|name| name.starts_with("work"));
        assert!(of_session && event["from_inside"] == true, "{event}");
    }
    // Whoever answers sees where it comes from.
    let (_watcher, file) = watcher(&session, "yes");
    let output = make(&["-j8", "all"]);
    assert_eq!(stdout(&output).matches("RAN\n").count(), 8, "{}", stderr(&output));
    let asked: Vec<_> = told_questions(&file);
    assert!(asked.len() == 8 && asked.iter().all(|question| question["from_inside"] == true), "{asked:?}");
}

fn told_questions(file: &PathBuf) -> Vec<serde_json::Value> {
    told(file).into_iter().filter(|message| message["is"] == "question").collect()
}

#[test]
fn whoever_is_inside_can_neither_watch_nor_decide_nor_change_the_mode() {
    let (session, inside, _) = session("auto");
    session.stage.project_file(
        "ask.py",
        r#"
import json, os, socket, sys
null = os.open("/dev/null", os.O_RDWR)
for ask in [{"do": "watch"}] + [{"do": "decide", "question": n, "allow": True} for n in range(1, 9)] + [{"do": "offer", "names": ["sh"]}]:
    door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    door.connect(sys.argv[1])
    door.send(json.dumps({"v": 1, **ask}).encode())
    print(json.loads(door.recv(131072))["is"])
"#,
    );
    session.stage.project_file(
        "pose.py",
        r#"
import json, os, socket, sys
null = os.open("/dev/null", os.O_RDWR)
door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
door.connect("/run/keyward-door")
ask = {"v": 1, "do": "exec", "argv": ["git", "worktree", "remove", "-f", "/gone"], "fresh": True, "answers": True}
socket.send_fds(door, [json.dumps(ask).encode()], [null] * 3)
answer = json.loads(door.recv(131072))
print(answer["is"], answer.get("exit"))
"#,
    );
    session.stage.project_file(
        "Makefile",
        &format!(
            "ask:\n\t@python3 ask.py /run/keyward-door\npose:\n\t@python3 pose.py\n\
             allow:\n\t@{inside} approvals allow 1; echo code $$?\nlist:\n\t@{inside} approvals; echo code $$?\n\
             grants:\n\t@{inside} grants revoke --all; echo code $$?\nfollow:\n\t@{inside} approvals -f; echo code $$?\n\
             yolo:\n\t@{inside} run --gate yolo -- sh -c '{RESET}'; echo code $$?\n"
        ),
    );
    let make = |target: &str| {
        let output = alone(&session, &["exec", "work", "--", "make", "-s", target]).output().unwrap();
        (stdout(&output), stderr(&output))
    };
    let (_watcher, _file) = watcher(&session, "silent");
    let mut child = waits(&session, RESET);
    assert!(eventually(|| works(&session, &["approvals"]).contains("  waits")));
    assert_eq!(make("ask").0, "refused\n".repeat(10));
    for target in ["allow", "list", "grants", "follow"] {
        let (out, err) = make(target);
        assert!(out == "code 121\n" && err.contains("only outside the cage"), "{target}: {out}{err}");
    }
    let (out, err) = make("yolo");
    assert!(out == "code 120\n" && err.contains("flags cannot change it"), "{out}{err}");
    assert!(child.try_wait().unwrap().is_none(), "it waits as before");
    // The control: outside the same is taken.
    let door = session.folder().join("door");
    let outside = session.stage.command("python3").arg("ask.py").arg(&door).output().unwrap();
    assert_eq!(stdout(&outside).matches("done").count(), 3, "{}{}", stdout(&outside), stderr(&outside));
    ran(&child.wait_with_output().unwrap(), "decided outside");
    // Saying that one can answer oneself makes nobody of it who is asked.
    drop(_watcher);
    assert_eq!(make("pose").0, "refused 123\n");
}

/// A program that embeds a session and offers functions, each with what the gate is to judge. It writes down who was called.
const OFFERS: &str = r#"
import json, socket, sys
door = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
door.connect(sys.argv[1])
def say(message): door.send(json.dumps({"v": 1, **message}).encode())
judged = {"sh": {"as": "sh", "field": "line"}, "python": {"as": "python", "field": "code"}, "argv": {"as": "argv"}, "ask": {"as": "ask"}}
say({"do": "offer", "names": ["sh", "python", "argv", "ask", "free"], "judged": judged})
print(json.loads(door.recv(131072))["is"], flush=True)
called = open(sys.argv[2], "a")
while True:
    packet = door.recv(131072)
    if not packet: break
    call = json.loads(packet)
    if call["is"] != "called": continue
    print(call["name"], file=called, flush=True)
    say({"do": "return", "call": call["call"], "output": "CALLED"})
"#;

/// What is long is judged by a process of its own, so that the session need not wait: with the same verdicts.
#[test]
fn what_is_long_is_judged_aside_as_anything_else_is() {
    let (session, _, _) = session("auto");
    // No argument may have 128 KiB.
    let long = "true;".repeat(20_000);
    for (name, first, last) in
        [("harmless.sh", "echo RAN", "true"), ("risky.sh", RESET, "true"), ("floor.sh", "true", FORBIDDEN)]
    {
        session.stage.project_file(name, &format!("{first}\n{long}\n{last}\n"));
    }
    session.stage.project_file("short.sh", "echo RAN\nsh harmless.sh\n");
    ran(&exec(&session, "sh ./harmless.sh"), "long and harmless");
    ran(&exec(&session, "sh ./short.sh"), "by way of a short one");
    ran(&exec(&session, &format!("echo RAN; {long}")), "typed");
    denied(&exec(&session, "sh ./floor.sh"), "forbidden", "long and forbidden");
    denied(&exec(&session, &format!("{long}{FORBIDDEN}")), "forbidden", "typed and forbidden");
    let refused = exec(&session, "sh ./risky.sh");
    denied(&refused, "no approver is available", "long and risky");
    works(&session, &["approvals", "allow", &approval(&refused)]);
    ran(&exec(&session, "sh ./risky.sh"), "allowed");
    let reasons: Vec<_> =
        events(&session, "denied").into_iter().map(|event| event["because"].clone()).collect();
    assert_eq!(reasons, ["forbidden", "forbidden", "unattended"]);
}

fn offers(session: &Session) -> Beside {
    let called = session.stage.file(&session.stage.home().join("called"), "");
    let mut command = session.stage.command("python3");
    command.args(["-c", OFFERS]).arg(session.folder().join("door")).arg(called);
    session.stage.beside_and_ready(&mut command)
}

fn called(session: &Session) -> String {
    std::fs::read_to_string(session.stage.home().join("called")).unwrap()
}

#[test]
fn calls_from_inside_are_judged_as_their_owner_has_said() {
    let (session, inside, _) = session("auto");
    let _offers = offers(&session);
    let cases: &[(&str, &str, Option<&str>)] = &[
        ("sh", r#"{"line": "echo hello"}"#, None),
        ("sh", r#"{"line": "git push --force origin main"}"#, Some("git-push-force")),
        ("sh", r#"{"line": "rm -rf /"}"#, Some("forbidden")),
        ("sh", r#"{"line": "sh deploy.sh"}"#, Some("a script outside the cage that was not read")),
        ("sh", r#"{"text": "echo hello"}"#, Some("does not match what the function's owner declared")),
        ("sh", r#"{"line": ["echo", "hello"]}"#, Some("does not match what the function's owner declared")),
        ("sh", r#""echo hello""#, Some("does not match what the function's owner declared")),
        ("python", r#"{"code": "print(1)"}"#, None),
        ("python", r#"{"code": "import os; os.system(\"rm -rf /\")"}"#, Some("forbidden")),
        ("argv", r#"["echo", "hello"]"#, None),
        ("argv", r#"["git", "push", "--force", "origin", "main"]"#, Some("git-push-force")),
        ("argv", r#"["rm", "-rf", "/"]"#, Some("forbidden")),
        ("argv", r#"["echo", 1]"#, Some("does not match what the function's owner declared")),
        ("argv", r#"{"argv": ["echo"]}"#, Some("does not match what the function's owner declared")),
        ("ask", "null", Some("it calls the function ask outside")),
        ("free", r#""rm -rf /""#, None),
    ];
    for (name, input, words) in cases {
        session.stage.home_file("called", "");
        session.stage.project_file("input", input);
        let output = exec(&session, &format!("{inside} call {name} \"$(cat input)\""));
        let case = format!("{name} {input}");
        match words {
            None => assert_eq!(stdout(&output), "\"CALLED\"\n", "{case}: {}", stderr(&output)),
            Some(words) => denied(&output, words, &case),
        }
        assert_eq!(called(&session).is_empty(), words.is_some(), "{case}");
    }
    // Somebody who is there can say yes to what is asked about, and to nothing that is forbidden.
    let (_watcher, file) = watcher(&session, "yes");
    let call = |name: &str, input: &str| {
        session.stage.project_file("input", input);
        exec(&session, &format!("{inside} call {name} \"$(cat input)\""))
    };
    assert_eq!(stdout(&call("ask", "1")), "\"CALLED\"\n");
    denied(&call("sh", r#"{"line": "rm -rf /"}"#), "forbidden", "nobody is asked about it");
    assert_eq!(told_questions(&file).len(), 1);
    let gates: Vec<_> = events(&session, "call").into_iter().map(|event| event["because"].clone()).collect();
    assert!(
        gates.contains(&"operator".into())
            || events(&session, "call").iter().any(|event| event["gate"]["because"] == "operator"),
        "{:?}",
        events(&session, "call")
    );
}

#[test]
fn a_script_that_is_swapped_while_a_sessions_question_waits_never_runs() {
    let (session, ..) = session("auto");
    let (_watcher, _file) = watcher(&session, "silent");
    let text = "echo RAN; git worktree remove --force /gone; true";
    for (case, swap) in [("control", None), ("in place", Some(false)), ("by another file", Some(true))] {
        let script = session.stage.project_file("deploy.sh", text);
        let mut command = alone(&session, &["exec", "work", "--", "sh", "deploy.sh"]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let list = || works(&session, &["approvals"]);
        assert!(eventually(|| list().contains("  waits")));
        match swap {
            None => {}
            Some(false) => std::fs::write(&script, "echo SWAPPED").unwrap(),
            Some(true) => {
                let new = session.stage.project_file("new", "echo SWAPPED");
                std::fs::rename(new, &script).unwrap();
            }
        }
        works(&session, &["approvals", "allow", list().split_whitespace().next().unwrap()]);
        let output = child.wait_with_output().unwrap();
        match swap {
            None => ran(&output, case),
            Some(_) => {
                assert!(
                    !output.status.success() && stdout(&output).is_empty(),
                    "{case}: {}",
                    stdout(&output)
                );
                assert!(stderr(&output).contains("deploy.sh"), "{case}: {}", stderr(&output));
            }
        }
    }
}

/// A session whose shell remembers, in a repository, without an approver.
fn shell_session() -> Session {
    shell_session_with(&[])
}

fn shell_session_with(flags: &[&str]) -> Session {
    let session = Session { stage: Stage::user(), name: "work".into() };
    let made = session
        .stage
        .bare("git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x");
    assert!(made.status.success(), "{}", stderr(&made));
    let start = [&["session", "start", "--name", "work", "--shell"], flags].concat();
    let output = alone(&session, &start).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    session
}

fn line(session: &Session, line: &str) -> Output {
    alone(session, &["exec", "work", "--", line]).output().unwrap()
}

#[track_caller]
fn passes(session: &Session, text: &str) -> String {
    let output = line(session, text);
    assert!(output.status.success(), "{text}: {}{}", stdout(&output), stderr(&output));
    assert!(!stderr(&output).contains("denied"), "{text}: {}", stderr(&output));
    stdout(&output)
}

#[track_caller]
fn stopped(session: &Session, text: &str) {
    let output = line(session, text);
    assert_eq!(output.status.code(), Some(123), "{text}: {}{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).is_empty(), "{text}: {}", stdout(&output));
}

#[test]
fn a_line_is_judged_with_what_the_lines_before_it_have_left_in_the_shell() {
    for (defines, uses) in [
        (&["shopt -s expand_aliases", "alias st=\"git worktree remove -f /gone\""][..], "st"),
        (&["WHAT='worktree remove -f /gone'"], "git $WHAT"),
        (&["export WHAT=worktree THEN=remove"], "git \"$WHAT\" \"$THEN\" -f /gone"),
        (&["WORDS=(worktree remove -f /gone)"], "git \"${WORDS[@]}\""),
        (
            &[
                "echo \"shopt -s expand_aliases; alias st='git worktree remove -f /gone'\" > defs.sh",
                "source ./defs.sh",
            ],
            "st",
        ),
        (&["mkdir -p sub; echo 'git worktree remove -f /gone' > sub/run.sh", "cd sub"], "sh ./run.sh"),
    ] {
        let session = shell_session();
        for text in defines {
            passes(&session, text);
        }
        stopped(&session, uses);
        assert_eq!(passes(&session, "echo RAN"), "RAN\n", "{uses}: the control");
    }
}

#[test]
fn an_alias_that_an_earlier_line_has_made_does_not_clear_the_stash() {
    // Without a network, stashed work is kept, and no rule asks about it.
    let session = shell_session_with(&["--net", "open"]);
    let made = session.stage.bare("echo x > f; git add f; git -c user.name=a -c user.email=a@b stash -q");
    assert!(made.status.success(), "{}", stderr(&made));
    stopped(&session, "git stash clear");
    passes(&session, "shopt -s expand_aliases; alias st=\"git stash clear\"");
    stopped(&session, "st");
    let kept = session.stage.bare("git stash list");
    assert!(stdout(&kept).contains("stash@{0}"), "{}{}", stdout(&kept), stderr(&kept));
    assert_eq!(passes(&session, "echo RAN"), "RAN\n", "the control");
}

#[test]
fn whatever_the_cage_has_written_into_the_state_is_judged() {
    for (state, uses) in [
        ("ls() { git worktree remove -f /gone; }\n", "ls"),
        ("git() { command git worktree remove -f /gone; }\n", "git status"),
        ("eval() { git worktree remove -f /gone; }\n", "true"),
        ("builtin() { git worktree remove -f /gone; }\n", "true"),
        ("command_not_found_handle() { git worktree remove -f /gone; }\n", "true"),
        (
            "shopt -s expand_aliases\nalias if='git worktree remove -f /gone; if'\n",
            "if true; then echo RAN; fi",
        ),
        ("trap 'git worktree remove -f /gone' DEBUG\n", "ls"),
        ("git worktree remove -f /gone\n", "ls"),
        ("IFS=:\nWHAT=worktree:remove:-f:/gone\n", "git $WHAT"),
        ("declare -a W=([0]=\"worktree\" [1]=\"remove\")\n", "git \"${W[@]}\" -f /gone"),
        ("cd -- /\n", "rm -rf etc"),
    ] {
        let session = shell_session();
        session.stage.project_file("state", state);
        // Another program in the place of the shell: what it writes stays.
        passes(&session, "exec cp state /run/keyward-shell");
        stopped(&session, uses);
    }
    let session = shell_session();
    session.stage.project_file("state", "A=1\nls() { echo RAN; }\n");
    passes(&session, "exec cp state /run/keyward-shell");
    assert_eq!(passes(&session, "ls $A"), "RAN\n", "the control");
}

#[test]
fn what_the_lines_before_have_left_and_a_line_does_not_use_is_not_asked_about() {
    let session = shell_session();
    let session = &session;
    // To define it is asked about; to have it is not.
    let output = line(session, "g() { git worktree remove -f /gone; }");
    denied(&output, "git-worktree-remove", "a function");
    works(session, &["approvals", "allow", &approval(&output)]);
    passes(session, "g() { git worktree remove -f /gone; }");
    for text in [
        "mkdir -p sub build",
        "cd sub",
        "export CI=1 GREETING='hello you'",
        "shopt -s expand_aliases; alias ll='ls -l'; alias st='git worktree remove -f /gone'",
        "declare -A MAP=([a]=1 [b]='x y'); LIST=(1 2 3); N=$'a\\nb'",
        "set -o pipefail; shopt -s extglob nullglob",
        "export PATH=$PWD/node_modules/.bin:$PATH",
        "trap 'echo bye' EXIT",
        "cd ..",
        "ls > /dev/null",
        "git status --short > /dev/null",
        "rm -rf build",
        "ll > /dev/null",
    ] {
        passes(session, text);
    }
    assert_eq!(passes(session, "echo $GREETING ${MAP[b]} ${LIST[2]} $N"), "hello you x y 3 a b\n");
    // The control: it is there.
    stopped(session, "g");
    stopped(session, "st");
    assert_eq!(passes(session, "unset -f g; unalias st; echo RAN"), "RAN\n");
    // One line may have another directory; what it removes there is seen.
    let output = alone(session, &["exec", "work", "--cwd", "sub", "--", "pwd"]).output().unwrap();
    assert!(stdout(&output).ends_with("/sub\n"), "{}{}", stdout(&output), stderr(&output));
}

#[test]
fn a_state_that_cannot_be_judged_is_asked_about() {
    for breaks in [
        "import os\nos.mkfifo('/run/x')\nos.rename('/run/x', '/run/keyward-shell')",
        "open('/run/keyward-shell', 'w').write('A=' + 'x' * (5 << 20))",
    ] {
        let session = shell_session();
        // Make passes the gate.
        session.stage.project_file("breaks.py", breaks);
        session.stage.project_file("Makefile", "breaks:\n\t@python3 breaks.py\n");
        passes(&session, "A=1");
        passes(&session, "exec make -s breaks");
        let output = line(&session, "echo RAN");
        denied(&output, "the state of the shell", breaks);
        // If it is allowed, the line runs without that state and leaves a new one.
        works(&session, &["approvals", "allow", &approval(&output)]);
        assert_eq!(passes(&session, "echo RAN"), "RAN\n", "{breaks}");
        assert_eq!(passes(&session, "echo RAN$A"), "RAN\n", "{breaks}");
    }
}

#[test]
fn a_job_that_swaps_the_state_does_not_change_what_was_judged() {
    let session = shell_session();
    passes(&session, "ok() { echo RAN; }");
    // As fast as it can, between one that is harmless and one that is not.
    session.stage.project_file(
        "swap.py",
        "import os\nbad = 'ok() { echo BAD; git worktree remove -f /gone; }\\n'\nprint('on', flush=True)\n\
         while True:\n  for text in ('ok() { echo RAN; }\\n', bad):\n    open('/run/n', 'w').write(text)\n    os.rename('/run/n', '/run/keyward-shell')\n",
    );
    session.stage.project_file("Makefile", "swap:\n\t@python3 swap.py\n");
    let mut command = alone(&session, &["exec", "work", "--", "exec make -s swap"]);
    let _swaps = session.stage.beside_and_ready(&mut command);
    let (mut ran, mut denied) = (0, 0);
    for _ in 0..40 {
        let output = line(&session, "ok");
        assert!(!stdout(&output).contains("BAD"), "the other state was run: {}", stderr(&output));
        match output.status.code() {
            Some(0) => ran += 1,
            Some(123) => denied += 1,
            code => panic!("{code:?}: {}", stderr(&output)),
        }
    }
    assert!(ran > 0 && denied > 0, "the state was swapped: {ran} ran, {denied} were denied");
}

#[test]
fn a_shell_of_root_and_one_on_a_terminal_restore_the_state_that_was_judged() {
    let session = Session { stage: Stage::root(), name: "work".into() };
    let output = alone(&session, &["session", "start", "--name", "work", "--shell"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    passes(&session, "ok() { echo RAN; }; alias st='git worktree remove -f /gone'; shopt -s expand_aliases");
    assert_eq!(passes(&session, "ok; ls /proc/self/fd | wc -l"), "RAN\n4\n", "no descriptor is left open");
    stopped(&session, "st");
    let on_terminal = alone(&session, &["exec", "work", "--pty", "--", "ok"]).output().unwrap();
    assert_eq!(stdout(&on_terminal).trim_end(), "RAN", "{}", stderr(&on_terminal));
}

#[test]
fn where_questions_are_asked_is_told_once_a_day_in_each_project() {
    let stage = Stage::user();
    let start = |name: &str| {
        let output = stage.command(keyward()).args(["session", "start", "--name", name]).output().unwrap();
        let stopped = stage.command(keyward()).args(["session", "stop", name]).output().unwrap();
        assert!(stopped.status.success(), "{}", stderr(&stopped));
        stderr(&output)
    };
    assert!(start("one").contains("the gate asks on the terminal of a command"));
    assert_eq!(start("two"), "");
}
