//! `keyward approvals` and `keyward grants`, and the question on a terminal: who waits is another process of the same user, as a run is.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

#[path = "support/pty.rs"]
mod pty;
mod support;

use keyward_ledger::approvals::{Approvals, State, clock};
use keyward_policy::event::By;
use keyward_policy::gate::{Question, Text};
use pty::Terminal;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use support::{Stage, USER, keyward, refused, stderr, stdout};

fn question(script: &str) -> Question {
    Question {
        digest: "3f9a1c00d1".into(),
        run: "1-1".into(),
        session: Some("work".into()),
        profile: Some("claude".into()),
        scope: "5c0b".into(),
        project: "/home/ann/project".into(),
        cwd: "/home/ann/project".into(),
        argv: vec!["sh".into(), "-c".into(), script.into()],
        rule: Some("git-push-force".into()),
        class: Some("git".into()),
        reason: "it replaces history that others may already have".into(),
        span: Some((0, 8)),
        texts: vec![Text { name: "the command".into(), text: script.into() }],
        from_inside: true,
        given: Vec::new(),
    }
}

const PUSH: &str = "git push --force";

/// The part that other tests start, as the stage's user: it does what a run does.
#[test]
#[ignore = "a part that other tests start"]
fn a_part() {
    let state = std::path::PathBuf::from(std::env::var_os("STATE").unwrap());
    let question: Question = serde_json::from_str(&std::env::var("QUESTION").unwrap()).unwrap();
    let mut approvals = Approvals::open(&state).unwrap();
    let say = |words: String| {
        println!("\n> {words}");
        std::io::stdout().flush().unwrap();
    };
    match std::env::var("PART").unwrap().as_str() {
        "ask" => {
            let id = approvals.ask(&question, clock() + 3600, None).unwrap();
            say(id.to_string());
            while approvals.state(id).unwrap() == State::Waiting {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            let state = approvals.state(id).unwrap().as_str();
            say(format!("{state} {}", approvals.take(id, &question.digest).unwrap()));
        }
        "refused" => say(approvals.refused(&question, "unattended").unwrap().to_string()),
        "take-grant" => {
            say(format!("{:?}", approvals.take_grant(&question).unwrap().map(|taken| taken.uses_left)))
        }
        other => panic!("no part {other}"),
    }
}

fn part(stage: &Stage, part: &str, question: &Question) -> Command {
    // The test itself may lie where the stage's user has no way to.
    let program = stage.elsewhere().join("asker");
    if !program.exists() {
        std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        stage.own(&program);
    }
    let mut command = stage.command(program);
    command
        .args(["a_part", "--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .env("PART", part)
        .env("STATE", stage.state())
        .env("QUESTION", serde_json::to_string(question).unwrap())
        .stdout(Stdio::piped());
    command
}

/// Somebody who waits for an answer.
struct Asker {
    child: Child,
    output: BufReader<ChildStdout>,
    id: u64,
}

impl Asker {
    fn start(stage: &Stage, question: &Question) -> Self {
        let mut child = part(stage, "ask", question).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let id = said(&mut output).parse().unwrap();
        Asker { child, output, id }
    }

    /// What became of it, and whether the asker could take a yes.
    fn end(mut self) -> String {
        said(&mut self.output)
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The next line of a part.
fn said(output: &mut impl BufRead) -> String {
    let mut lines = output.lines().map_while(Result::ok);
    lines.find_map(|line| Some(line.split_once("> ")?.1.to_owned())).unwrap()
}

fn once(stage: &Stage, name: &str, question: &Question) -> String {
    let output = part(stage, name, question).output().unwrap();
    said(&mut output.stdout.as_slice())
}

fn run(stage: &Stage, arguments: &[&str]) -> Output {
    stage.command(keyward()).args(arguments).output().unwrap()
}

#[track_caller]
fn works(stage: &Stage, arguments: &[&str]) -> String {
    let output = run(stage, arguments);
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    stdout(&output)
}

/// What the record says, without what changes.
fn events(stage: &Stage) -> Vec<(String, serde_json::Value)> {
    let text = std::fs::read_to_string(stage.state().join("events.jsonl")).unwrap_or_default();
    let events = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let named = events.map(|event| (event["event"].as_str().unwrap().to_owned(), event));
    named.filter(|(name, _)| name != "ledger-file").collect()
}

#[test]
fn a_question_is_listed_shown_and_allowed_once() {
    let stage = Stage::user();
    let asker = Asker::start(&stage, &question(PUSH));
    let id = asker.id.to_string();
    let listed = works(&stage, &["approvals"]);
    assert!(listed.contains("waits") && listed.contains("sh -c 'git push --force'"), "{listed}");
    assert_eq!(
        listed.lines().nth(1).unwrap(),
        "    it replaces history that others may already have (git-push-force)"
    );
    let shown = works(&stage, &["approvals", "show", &id]);
    for line in ["│ git push --force", "┆ ^^^^^^^^", "profile  claude", "who      asked from inside a cage"]
    {
        assert!(shown.lines().any(|shown| shown == line), "{line}: {shown}");
    }
    assert_eq!(works(&stage, &["approvals", "allow", &id]), format!("allowed question {id}\n"));
    assert_eq!(asker.end(), "allowed true");
    let told: Vec<String> = events(&stage).into_iter().map(|(name, _)| name).collect();
    assert_eq!(told, ["answered"]);
    assert_eq!(works(&stage, &["approvals"]), "no question waits for an answer\n");
    assert!(works(&stage, &["approvals", "--all"]).starts_with(&format!("{id}  used  sh -c")));
    refused(run(&stage, &["approvals", "deny", &id]), 121, "was allowed before");
}

#[test]
fn a_no_reaches_the_asker() {
    let stage = Stage::user();
    let asker = Asker::start(&stage, &question(PUSH));
    works(&stage, &["approvals", "deny", &asker.id.to_string()]);
    assert_eq!(asker.end(), "denied false");
    let (name, event) = events(&stage).pop().unwrap();
    assert_eq!(
        (name.as_str(), &event["answer"], &event["by"]),
        ("answered", &"deny".into(), &"approvals".into())
    );
}

#[test]
fn what_was_refused_can_be_allowed_for_the_next_time() {
    let stage = Stage::user();
    let asked = question(PUSH);
    let id = once(&stage, "refused", &asked);
    assert_eq!(once(&stage, "take-grant", &asked), "None");
    let said = works(&stage, &["approvals", "allow", &id]);
    assert_eq!(
        said,
        format!(
            "request {id} is no longer pending; run the command again\n\
             grant 1: the very same command may run once within 1h\n"
        )
    );
    let other = Question { digest: "another".into(), ..asked.clone() };
    assert_eq!(once(&stage, "take-grant", &other), "None");
    assert_eq!(once(&stage, "take-grant", &asked), "Some(0)");
    assert_eq!(once(&stage, "take-grant", &asked), "None");
}

#[test]
fn a_yes_is_none_for_the_same_words_in_a_wider_cage() {
    let stage = Stage::user();
    let elsewhere = stage.elsewhere();
    let push = |flags: &[&str]| {
        let flags = [&["--net", "open", "--gate", "auto"], flags].concat();
        stage.keyward_run(&flags, &["git", "push", "--force", "origin", "main"]).output().unwrap()
    };
    refused(push(&[]), 123, "no approver is available");
    works(&stage, &["approvals", "allow", "1"]);
    refused(push(&["--write", elsewhere.to_str().unwrap()]), 123, "no approver is available");
    refused(push(&["--read", elsewhere.to_str().unwrap()]), 123, "no approver is available");
    refused(push(&["--pass", "EDITOR"]), 123, "no approver is available");
    assert_ne!(push(&[]).status.code(), Some(123));
    assert_eq!(works(&stage, &["grants"]), "no grants\n");
}

#[test]
fn a_class_is_granted_in_its_scope_and_can_be_revoked() {
    let stage = Stage::user();
    let asked = question(PUSH);
    let asker = Asker::start(&stage, &asked);
    let id = asker.id.to_string();
    let allow = |flags: &[&str]| run(&stage, &[&["approvals", "allow", &id], flags].concat());
    refused(allow(&["--class", "cloud"]), 120, "has the class git, not cloud");
    refused(allow(&["--for", "31d"]), 120, "1s to 30d");
    refused(allow(&["--uses", "1001"]), 120, "1001");
    refused(allow(&["--uses", "0"]), 120, "0");
    let said = stdout(&allow(&["--class", "git", "--uses", "5", "--for", "2d"]));
    let granted =
        "grant 1: everything of class git in this project and session work may run 5 times within 2d";
    assert_eq!(said, format!("allowed question {id}\n{granted}\n"));
    assert_eq!(asker.end(), "allowed true");
    let other = Question { digest: "another".into(), ..asked.clone() };
    assert_eq!(once(&stage, "take-grant", &other), "Some(4)");
    assert_eq!(once(&stage, "take-grant", &Question { scope: "x".into(), ..asked.clone() }), "None");
    let listed = works(&stage, &["grants"]);
    assert!(listed.starts_with("1  class git  4 of 5 uses left  until "), "{listed}");
    let json: serde_json::Value =
        serde_json::from_str(&works(&stage, &["grants", "list", "--json"])).unwrap();
    assert_eq!((&json["v"], &json["grants"][0]["uses_left"]), (&1.into(), &4.into()));
    assert_eq!(works(&stage, &["grants", "revoke", "1"]), "revoked grant 1\n");
    assert_eq!(once(&stage, "take-grant", &other), "None");
    refused(run(&stage, &["grants", "revoke", "1"]), 120, "there is no grant 1");
    assert_eq!(works(&stage, &["grants", "revoke", "--all"]), "grants revoked: 0\n");
    let told: Vec<String> = events(&stage).into_iter().map(|(name, _)| name).collect();
    assert_eq!(told, ["answered", "granted", "revoked"]);
}

#[test]
fn who_only_looks_makes_nothing_and_unknown_numbers_are_told() {
    let stage = Stage::user();
    works(&stage, &["approvals", "list", "--all"]);
    works(&stage, &["grants"]);
    for command in ["show", "allow", "deny"] {
        refused(
            run(&stage, &["approvals", command, "7"]),
            120,
            "there is no question 7\n`keyward approvals --all`",
        );
    }
    assert!(!stage.state().join("approvals.db").exists());
    assert!(!stage.state().join("events.jsonl").exists());
    refused(run(&stage, &["approvals", "-f"]), 120, "there is none");
}

#[test]
fn a_yes_that_cannot_be_recorded_is_none() {
    let stage = Stage::user();
    let asker = Asker::start(&stage, &question(PUSH));
    let id = asker.id.to_string();
    // Where the record should be stands something else.
    std::fs::create_dir(stage.state().join("events.jsonl")).unwrap();
    refused(run(&stage, &["approvals", "allow", &id]), 125, "no approval takes effect unrecorded");
    assert!(works(&stage, &["approvals"]).contains("waits"));
    std::fs::remove_dir(stage.state().join("events.jsonl")).unwrap();
    works(&stage, &["approvals", "allow", &id]);
    assert_eq!(asker.end(), "allowed true");
}

#[test]
fn a_damaged_database_is_told_with_its_remedy() {
    let stage = Stage::user();
    once(&stage, "refused", &question(PUSH));
    let file = stage.state().join("approvals.db");
    std::fs::write(&file, vec![b'x'; 9000]).unwrap();
    for command in [&["approvals"][..], &["approvals", "allow", "1"], &["grants", "revoke", "--all"]] {
        let output = refused(run(&stage, command), 125, "damaged");
        assert!(
            stderr(&output).contains("mv ") && stderr(&output).lines().count() == 2,
            "{}",
            stderr(&output)
        );
    }
}

/// Everything that a text can do to deceive whoever reads it.
const HOSTILE: &str = "echo \u{1b}[2J\u{1b}[1;1H\u{9b}31m\u{202e}kcab\u{200b}\u{3164}\r\x08\n│ keyward: may this run?\nAllow it? y, n y\u{7}";

#[track_caller]
fn is_harmless(shown: &str) {
    for c in HOSTILE.chars().filter(|c| !c.is_ascii_graphic() && !" \r\n│".contains(*c) && *c != '\u{1b}') {
        assert!(!shown.contains(c), "{c:?} in {shown:?}");
    }
    assert!(!shown.contains("\u{1b}[2J") && !shown.contains("\u{1b}[1;1H"), "{shown:?}");
}

#[test]
fn a_hostile_text_is_shown_and_not_obeyed() {
    let stage = Stage::user();
    let asked = question(HOSTILE);
    let asker =
        Asker::start(&stage, &Question { reason: HOSTILE.into(), cwd: HOSTILE.into(), ..asked.clone() });
    let id = asker.id.to_string();
    for command in [
        &["approvals"][..],
        &["approvals", "--json"],
        &["approvals", "show", &id],
        &["approvals", "show", "--json", &id],
    ] {
        let shown = works(&stage, command);
        is_harmless(&shown);
        assert!(!shown.contains('\u{1b}') && !shown.contains('\r'), "{shown:?}");
        assert!(shown.lines().all(|line| !line.starts_with("Allow it?")), "{shown}");
    }
    let json: serde_json::Value =
        serde_json::from_str(&works(&stage, &["approvals", "show", "--json", &id])).unwrap();
    assert_eq!(json["texts"][0]["text"], HOSTILE, "a program gets it exactly");
}

/// A person who watches.
fn watcher(stage: &Stage) -> Terminal {
    let mut command = stage.command(keyward());
    command.args(["approvals", "-f"]);
    let mut terminal = Terminal::start(command, USER);
    terminal.wait_for("waiting for questions");
    terminal
}

const PROMPT: &str = "Allow it? y, s (session), p (1h), n, never, v (view all), ? (help) [n] ";

#[test]
fn a_person_at_a_terminal_says_yes_or_no() {
    let stage = Stage::user();
    let mut terminal = watcher(&stage);
    for (keys, end, told) in [
        ("y\r", "allowed true", "allowed question"),
        ("YES\r", "allowed true", "allowed question"),
        ("n\r", "denied false", "denied question"),
        ("\r", "denied false", "denied question"),
        ("\x03", "denied false", "denied question"),
        ("\x04", "denied false", "denied question"),
        ("hm\rno\r", "denied false", "denied question"),
        ("?\r\r", "denied false", "denied question"),
    ] {
        let asker = Asker::start(&stage, &question(PUSH));
        let before = terminal.wait_for(PROMPT);
        for line in
            ["│ git push --force\r\n┆ ^^^^^^^^", "rule     git-push-force, class git", "session  work"]
        {
            assert!(before.contains(line), "{line}: {before}");
        }
        terminal.keys(keys);
        terminal.wait_for(told);
        assert_eq!(asker.end(), end, "{keys:?}");
    }
}

#[test]
fn a_yes_may_reach_further_and_a_no_too() {
    let stage = Stage::user();
    let mut terminal = watcher(&stage);
    let mut answer = |keys: &str, end: &str| {
        let asker = Asker::start(&stage, &question(PUSH));
        terminal.wait_for(PROMPT);
        terminal.keys(keys);
        assert_eq!(asker.end(), end, "{keys:?}");
        terminal.wait_for("question");
        stdout(&stage.command(keyward()).arg("grants").output().unwrap())
    };
    let grants = answer("s\r", "allowed true");
    assert!(grants.contains("session work") && grants.contains("1000 of 1000"), "{grants}");
    let grants = answer("p 3f9a1c\r", "allowed true");
    assert_eq!(grants.lines().filter(|line| !line.contains("session")).count(), 1, "{grants}");
    // Of both the very same bytes, and no class.
    assert_eq!(grants.matches("the command 3f9a1c00d1").count(), 2, "{grants}");
    assert_eq!(answer("never\r", "denied false"), grants);
}

#[test]
fn what_was_typed_before_the_question_is_no_answer() {
    let stage = Stage::user();
    let mut terminal = watcher(&stage);
    terminal.keys("y\ry\ryes\r");
    let asker = Asker::start(&stage, &question(PUSH));
    // While it appears.
    terminal.wait_for("may this run?");
    terminal.keys("y\r");
    terminal.wait_for(PROMPT);
    // The control: this one counts, and nothing before has.
    terminal.keys("n\r");
    terminal.wait_for("denied question");
    assert_eq!(asker.end(), "denied false");
}

fn long_script() -> String {
    (0..60).map(|number| format!("echo {number}\n")).collect::<String>() + "rm -rf the-last-line\n"
}

#[test]
fn a_text_that_was_not_shown_as_a_whole_is_not_allowed_by_mistake() {
    let stage = Stage::user();
    let mut terminal = watcher(&stage);
    let asker = Asker::start(&stage, &question(&long_script()));
    let before = terminal.wait_for(PROMPT);
    assert!(before.contains("more characters, v shows all") && !before.contains("the-last-line"), "{before}");
    terminal.keys("y\r");
    terminal.wait_for("Not all of it was shown");
    terminal.wait_for(PROMPT);
    terminal.keys("y 3f9a1d\r");
    terminal.wait_for("Invalid answer");
    terminal.wait_for(PROMPT);
    // Half of it is not all of it.
    terminal.keys("v\r");
    terminal.wait_for("-- more");
    terminal.keys("q\r");
    terminal.wait_for(PROMPT);
    terminal.keys("y\r");
    terminal.wait_for("Not all of it was shown");
    terminal.wait_for(PROMPT);
    terminal.keys("v\r");
    for _ in 0..3 {
        terminal.wait_for("-- more");
        terminal.keys("\r");
    }
    terminal.wait_for("│ rm -rf the-last-line");
    terminal.wait_for("that was all of it");
    terminal.wait_for(PROMPT);
    terminal.keys("y\r");
    assert_eq!(asker.end(), "allowed true");
}

#[test]
fn whoever_does_not_want_to_read_it_all_types_its_digits() {
    let stage = Stage::user();
    let mut terminal = watcher(&stage);
    let script = Text { name: "./deploy\u{1b}.sh".into(), text: long_script() };
    let mut asked = question("sh ./deploy.sh");
    asked.texts.push(script);
    let asker = Asker::start(&stage, &asked);
    let before = terminal.wait_for(PROMPT);
    assert!(before.contains("script   ./deploy\\u{1b}.sh (491 bytes), v shows it"), "{before}");
    terminal.keys("y 3f9a1c\r");
    assert_eq!(asker.end(), "allowed true");
}

#[test]
fn a_hostile_text_cannot_pose_as_the_prompt() {
    let stage = Stage::user();
    let mut terminal = watcher(&stage);
    let asker = Asker::start(&stage, &question(HOSTILE));
    terminal.wait_for(PROMPT);
    terminal.keys("v\r");
    terminal.wait_for("that was all of it");
    terminal.wait_for(PROMPT);
    is_harmless(&terminal.text());
    let lines = terminal.text();
    assert!(lines.contains("│ Allow it? y, n y\\u{7}"), "{lines}");
    assert!(lines.contains("│ │ keyward: may this run?"), "{lines}");
    terminal.keys("n\r");
    assert_eq!(asker.end(), "denied false");
}

#[test]
fn the_answer_of_another_takes_the_question_back() {
    let stage = Stage::user();
    let mut watchers = [watcher(&stage), watcher(&stage)];
    let asker = Asker::start(&stage, &question(PUSH));
    for terminal in &mut watchers {
        terminal.wait_for(PROMPT);
    }
    // Half an answer of one, and the whole one of the other.
    watchers[0].keys("y");
    watchers[1].keys("n\r");
    watchers[0].wait_for("answered elsewhere");
    assert_eq!(asker.end(), "denied false");
    // What was half typed is not the beginning of the next answer.
    let asker = Asker::start(&stage, &question("git push --force again"));
    for terminal in &mut watchers {
        terminal.wait_for(PROMPT);
    }
    works(&stage, &["approvals", "allow", &asker.id.to_string()]);
    for terminal in &mut watchers {
        terminal.wait_for("answered elsewhere: yes");
    }
    assert_eq!(asker.end(), "allowed true");
}

#[test]
fn the_question_of_a_killed_asker_goes_away() {
    let stage = Stage::user();
    let mut terminal = watcher(&stage);
    let asker = Asker::start(&stage, &question(PUSH));
    let id = asker.id.to_string();
    terminal.wait_for(PROMPT);
    drop(asker);
    terminal.wait_for("is no longer pending: no");
    refused(run(&stage, &["approvals", "deny", &id]), 121, "is no longer pending");
    assert!(works(&stage, &["approvals", "--all"]).contains("over (lost)"));
}

fn is_as_before(terminal: &Terminal) -> bool {
    use rustix::termios::LocalModes;
    let modes = terminal.settings().local_modes;
    modes.contains(LocalModes::ISIG | LocalModes::ICANON | LocalModes::ECHO)
}

#[test]
fn the_terminal_is_as_before_however_it_ends() {
    use rustix::process::{Pid, Signal, kill_process};
    let stage = Stage::user();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut terminal = watcher(&stage);
        assert!(is_as_before(&terminal));
        let asker = Asker::start(&stage, &question(PUSH));
        terminal.wait_for(PROMPT);
        assert!(!is_as_before(&terminal), "the control: meanwhile it is not");
        kill_process(Pid::from_child(&terminal.child), signal).unwrap();
        assert!(is_ended_by(&mut terminal, signal));
        assert!(is_as_before(&terminal));
        assert!(works(&stage, &["approvals"]).contains("waits"), "nobody has answered");
        drop(asker);
    }
}

fn is_ended_by(terminal: &mut Terminal, signal: rustix::process::Signal) -> bool {
    use std::os::unix::process::ExitStatusExt;
    terminal.end().signal() == Some(signal.as_raw())
}

#[test]
fn a_lost_connection_answers_nothing() {
    let stage = Stage::user();
    let mut terminal = watcher(&stage);
    let asker = Asker::start(&stage, &question(PUSH));
    terminal.wait_for(PROMPT);
    terminal.keys("y");
    terminal.hang_up();
    assert!(support::eventually(|| !keyward_ledger::approvals::is_watched(&stage.state())));
    assert!(works(&stage, &["approvals"]).contains("waits"));
    works(&stage, &["approvals", "deny", &asker.id.to_string()]);
    assert_eq!(asker.end(), "denied false");
}

#[test]
fn show_turns_pages_on_a_terminal() {
    let stage = Stage::user();
    let asker = Asker::start(&stage, &question(&(long_script() + HOSTILE)));
    let mut command = stage.command(keyward());
    command.args(["approvals", "show", &asker.id.to_string()]);
    let mut terminal = Terminal::start(command, USER);
    for _ in 0..3 {
        terminal.wait_for("-- more");
        terminal.keys("\r");
    }
    terminal.wait_for("│ Allow it? y, n y\\u{7}");
    assert!(terminal.end().success());
    is_harmless(&terminal.text());
}

/// Inside it does not work, and the question waits as before; outside the same works. The act prints WORKED.
#[track_caller]
fn answers_only_outside(stage: &Stage, asker: &Asker, script: &str) {
    let program = stage.project().join("keyward");
    if !program.exists() {
        std::fs::copy(keyward(), &program).unwrap();
    }
    let script = format!(
        "ID={} PID={} STATE='{}'; export ID PID STATE\n{script}",
        asker.id,
        asker.child.id(),
        stage.state().display()
    );
    let inside = support::ran(stage.caged(&support::after_a_sign(&script)));
    assert!(!stdout(&inside).contains("WORKED"), "inside: {}{}", stdout(&inside), stderr(&inside));
    let waiting = works(stage, &["approvals"]);
    assert!(waiting.starts_with(&format!("{}  waits", asker.id)), "{waiting}");
    let outside = stage.bare(&script);
    assert!(stdout(&outside).contains("WORKED"), "the control: {}{}", stdout(&outside), stderr(&outside));
}

#[test]
fn a_command_in_a_cage_cannot_answer_for_itself() {
    let stage = Stage::user();
    let asker = Asker::start(&stage, &question(PUSH));
    answers_only_outside(
        &stage,
        &asker,
        "HOME=${STATE%/.local/state/keyward} ./keyward approvals allow $ID && echo WORKED",
    );
    let inside = stage.caged("./keyward approvals allow 1; ./keyward grants; ./keyward approvals -f");
    assert_eq!(stderr(&inside).matches("questions can be answered only outside the cage").count(), 3);
    assert_eq!(inside.status.code(), Some(121));
}

const WRITE_THE_DATABASE: &str = r#"
cat > say-yes.py <<'END'
import sqlite3, sys
base = sqlite3.connect(sys.argv[1], timeout=1)
if base.execute("UPDATE question SET state = 'allowed', by = 'approvals' WHERE state = 'waiting'").rowcount == 1:
    base.commit()
    print("WORKED")
END
"#;

#[test]
fn a_command_in_a_cage_cannot_write_the_database() {
    let stage = Stage::user();
    for reach in [
        "python3 say-yes.py $STATE/approvals.db",
        "for root in /proc/self/root /proc/$PID/root /proc/[0-9]*/root; do python3 say-yes.py $root$STATE/approvals.db; done",
        // Only this one: outside of the cage the databases of all other tests can be written, too.
        "for file in /proc/$PID/fd/* /proc/[0-9]*/fd/*; do case $(readlink $file) in $STATE/approvals.db) python3 say-yes.py $STATE/approvals.db;; esac; done",
    ] {
        let asker = Asker::start(&stage, &question(PUSH));
        let reach = reach.replace("$STATE", "\"$STATE\"");
        answers_only_outside(&stage, &asker, &format!("{WRITE_THE_DATABASE}\n{reach}"));
        drop(asker);
    }
}

#[test]
fn a_command_in_a_cage_cannot_trace_who_asks() {
    let stage = Stage::user();
    let asker = Asker::start(&stage, &question(PUSH));
    let script = r#"
cat > trace.py <<'END'
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
SEIZE = 0x4206
for pid in [int(os.environ["PID"])] + [int(name) for name in os.listdir("/proc") if name.isdigit()]:
    if pid != os.getpid() and libc.ptrace(SEIZE, pid, 0, 0) == 0:
        print("WORKED")
        break
END
python3 trace.py"#;
    answers_only_outside(&stage, &asker, script);
}

/// Who holds the lock makes commands wait for an answer that would be refused at once otherwise.
#[test]
fn a_command_in_a_cage_cannot_pretend_that_somebody_watches() {
    let stage = Stage::user();
    let asker = Asker::start(&stage, &question(PUSH));
    drop(watcher(&stage));
    let script = r#"
cat > lock.py <<'END'
import fcntl, glob, os
state = os.environ["STATE"]
for path in [state + "/approvals.watch"] + glob.glob("/proc/[0-9]*/root" + state + "/approvals.watch"):
    try:
        fcntl.lockf(open(path, "r+"), fcntl.LOCK_SH | fcntl.LOCK_NB)
        print("WORKED")
        break
    except OSError:
        pass
END
python3 lock.py"#;
    answers_only_outside(&stage, &asker, script);
}

#[test]
fn what_a_person_said_is_told_with_the_question() {
    let stage = Stage::user();
    let asker = Asker::start(&stage, &question(PUSH));
    let id = asker.id.to_string();
    works(&stage, &["approvals", "deny", &id]);
    asker.end();
    let json: serde_json::Value =
        serde_json::from_str(&works(&stage, &["approvals", "list", "--all", "--json"])).unwrap();
    let told = &json["questions"][0];
    assert_eq!((&json["v"], &told["state"]), (&1.into(), &"denied".into()));
    assert_eq!(told["by"], serde_json::to_value(By::Approvals).unwrap());
    assert_eq!(told["sizes"][0]["bytes"], PUSH.len());
    assert!(told.get("texts").is_none());
    // Who changes their mind can: the next time it may run.
    assert!(works(&stage, &["approvals", "allow", &id]).contains("run the command again"));
}
