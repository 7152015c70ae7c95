//! The gate in front of `keyward run`, by real runs: what is refused in every way, what a yes is for, who can give it, and that what runs
//! is what was judged.
//!
//! A command that was started prints `RAN`. What it does then would be asked about in any cage, and harms nothing here.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/pty.rs"]
mod pty;
mod support;

use keyward_ledger::approvals::{Approvals, For, NewGrant, Which};
use pty::Terminal;
use sha2::{Digest, Sha256};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use support::{Beside, Stage, USER, Who, eventually, is_root, keyward, stderr, stdout};

/// Somebody has to say yes to it: class git.
const RESET: &str = "echo RAN; git worktree remove --force /gone; true";
/// The same class by another rule.
const CLEAN: &str = "echo RAN; git clean -fdx; true";
/// The hard floor. `rm` itself would refuse it as well.
const FORBIDDEN: &str = "echo RAN; rm -rf /";
/// Its control.
const HARMLESS: &str = "echo RAN; rm -rf ./nothing";

/// `keyward` where nobody is at a terminal, wherever the tests are run.
fn alone(stage: &Stage, arguments: &[&str]) -> Command {
    let mut command = stage.command("setsid");
    command.arg(keyward()).args(arguments);
    command
}

fn run(stage: &Stage, flags: &[&str], argv: &[&str]) -> Output {
    alone(stage, &[&["run"], flags, &["--"], argv].concat()).output().unwrap()
}

fn sh(stage: &Stage, flags: &[&str], script: &str) -> Output {
    run(stage, flags, &["sh", "-c", script])
}

fn policy(stage: &Stage, text: &str) -> PathBuf {
    stage.home_file(".config/keyward/policy.toml", &format!("version = 1\n{text}"))
}

#[track_caller]
fn works(stage: &Stage, arguments: &[&str]) -> String {
    let output = alone(stage, arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", stderr(&output));
    stdout(&output)
}

#[track_caller]
fn ran(output: &Output, case: &str) {
    assert!(output.status.success() && stdout(output).starts_with("RAN\n"), "{case}: {}", stderr(output));
}

/// Refused by the gate: nothing has started, and there are two lines.
#[track_caller]
fn denied(output: &Output, words: &str, case: &str) {
    let said = stderr(output);
    assert_eq!(output.status.code(), Some(123), "{case}: {}{said}", stdout(output));
    assert!(stdout(output).is_empty() && said.contains(words), "{case}: {}{said}", stdout(output));
    // Before them it may say that it waits.
    let ours = |line: &&str| line.starts_with("keyward: denied") || line.starts_with("keyward: forbidden");
    assert!(said.lines().rev().nth(1).filter(ours).is_some(), "{case}: {said}");
}

/// The number of the approval that a refusal names.
#[track_caller]
fn approval(output: &Output) -> String {
    let said = stderr(output);
    let after = said.split("keyward approvals allow ").nth(1).unwrap_or_else(|| panic!("no number: {said}"));
    after.chars().take_while(char::is_ascii_digit).collect()
}

fn events(stage: &Stage, name: &str) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(stage.state().join("events.jsonl")).unwrap_or_default();
    let events = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    events.filter(|event| event["event"] == name).collect()
}

/// A run that waits for an answer, and the number of its question.
struct Waits {
    child: Option<Child>,
    id: String,
}

impl Waits {
    /// The policy must have `gate.attended = "always"`, and no other question must wait.
    fn start(stage: &Stage, flags: &[&str], argv: &[&str]) -> Self {
        Self::start_and_see(stage, flags, argv, || true)
    }

    /// Looks for the question only when something else has been seen: looking opens the approvals.
    fn start_and_see(stage: &Stage, flags: &[&str], argv: &[&str], seen: impl Fn() -> bool) -> Self {
        let mut command = alone(stage, &[&["run"], flags, &["--"], argv].concat());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut waits = Waits { child: Some(child), id: String::new() };
        assert!(eventually(seen), "it was not seen");
        waits.id = question_of(stage);
        waits
    }

    fn end(mut self) -> Output {
        self.child.take().unwrap().wait_with_output().unwrap()
    }
}

impl Drop for Waits {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The number of the one question that waits.
#[track_caller]
fn question_of(stage: &Stage) -> String {
    let list = || works(stage, &["approvals"]);
    assert!(eventually(|| list().contains("  waits")), "no question waits");
    list().split_whitespace().next().unwrap().to_owned()
}

/// Allows a judge of the user's everything, or does whatever else it is told.
const JUDGE: &str = r#"#!/usr/bin/env python3
import json, os, signal, sys, time
text = sys.stdin.read()
open(os.path.expanduser("~/asked.json"), "w").write(text)
act = open(os.path.expanduser("~/act")).read()
if act == "hang": time.sleep(1000)
if act == "crash": os.kill(os.getpid(), signal.SIGKILL)
if act == "nonsense": print("allow"); sys.exit(0)
json.dump({"v": 1, "opinion": act, "reason": "because"}, sys.stdout)
"#;

/// A judge in HOME, and the lines of the policy that name it.
fn judge(stage: &Stage, act: &str) -> String {
    let path = stage.home_file("judge", JUDGE);
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    stage.home_file("act", act);
    format!("gate.mode = \"judge\"\ngate.judge = [\"{}\"]\ngate.judge_wait = \"2s\"\n", path.display())
}

/// What an approval is for, made here a second time: a grant for a forbidden command is made by nobody but this test.
fn digest(stage: &Stage, argv: &[&str]) -> String {
    let project = std::fs::canonicalize(stage.project()).unwrap();
    let project = project.to_str().unwrap();
    let mut all = Sha256::new();
    let one = |all: &mut Sha256, field: &str| {
        all.update((field.len() as u64).to_le_bytes());
        all.update(field);
    };
    one(&mut all, "keyward approval 1");
    all.update((argv.len() as u64).to_le_bytes());
    for word in argv {
        one(&mut all, word);
    }
    // Folder, project, profile, trust class, network.
    for field in [project, project, "", "unknown", "none"] {
        one(&mut all, field);
    }
    // No secret, no credential; nothing of the machine but a HOME of the profile's: four lists of paths, two of tools, two of names.
    all.update([0; 16]);
    all.update([0; 32]);
    one(&mut all, "profile");
    all.update([0; 32]);
    all.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Grants everything of a class and these bytes, as many times as can be.
fn grant(stage: &Stage, class: &str, digest: &str) {
    let mut approvals = Approvals::open(&stage.state()).unwrap();
    let scope = approvals.list(Which::All).unwrap().first().unwrap().question.scope.clone();
    for what in [For::Class(class.into()), For::Digest(digest.into())] {
        let new = NewGrant { what, scope: scope.clone(), session: None, uses: 1000, seconds: 3600 };
        approvals.grant(&new, &mut |_| Ok(())).unwrap();
    }
}

#[test]
fn the_hard_floor_holds_in_every_mode_with_every_policy_and_every_grant() {
    let stage = Stage::root();
    stage.project_file("forbidden.sh", FORBIDDEN);
    stage.project_file("harmless.sh", HARMLESS);
    let forbidden: &[&[&str]] = &[
        &["rm", "-rf", "/"],
        &["sh", "-c", FORBIDDEN],
        &["sh", "forbidden.sh"],
        &["python3", "-c", "print('RAN', flush=True); import os; os.system('rm -rf /')"],
    ];
    let judged = judge(&stage, "allow");
    let elsewhere = stage.elsewhere();
    let elsewhere = elsewhere.to_str().unwrap();
    // What the grants are worth is seen by a command of the same class that would be asked about.
    denied(&run(&stage, &[], &["sh", "-c", RESET]), "no approver is available", "before the grant");
    for argv in forbidden {
        grant(&stage, "deletion", &digest(&stage, argv));
    }
    grant(&stage, "git", &digest(&stage, &["sh", "-c", RESET]));
    ran(&sh(&stage, &[], RESET), "the control of the grants");
    ran(&sh(&stage, &[], CLEAN), "the control of the class");
    let settings: &[(&str, &[&str], &str)] = &[
        ("nothing", &[], ""),
        ("auto", &["--gate", "auto"], ""),
        ("ask", &["--gate", "ask"], "gate.attended = \"never\""),
        ("deny", &["--gate", "deny"], ""),
        ("yolo", &["--gate", "yolo"], ""),
        ("judge", &[], &judged),
        ("the user's file", &[], "gate.mode = \"yolo\""),
        ("a profile", &["-p", "free"], "[profiles.free]\ngate.mode = \"yolo\""),
        ("always attended", &[], "gate.attended = \"always\""),
        ("a network and a folder", &["--gate", "yolo", "--net", "open", "--write", elsewhere], ""),
    ];
    for (case, flags, text) in settings {
        policy(&stage, text);
        for argv in forbidden {
            denied(&run(&stage, flags, argv), "keyward: forbidden: it deletes", case);
        }
        // Mode `ask` asks about that as well.
        if *case != "ask" {
            ran(&run(&stage, flags, &["sh", "harmless.sh"]), case);
        }
    }
    policy(&stage, "");
    stage.project_file(".keyward.toml", "version = 1\ngate.mode = \"deny\"\n");
    denied(&sh(&stage, &[], FORBIDDEN), "forbidden", "the project's file");
    assert!(!stage.home().join("asked.json").exists(), "a judge is not asked about it");
    let told = events(&stage, "denied");
    assert!(told.iter().filter(|event| event["because"] == "forbidden").count() > 40, "{:?}", told.last());
}

/// A run of root's under a ceiling of the administrator's.
fn below_ceiling(stage: &Stage, ceiling: &str, flags: &[&str], script: &str) -> Output {
    let prepare = "mount -t tmpfs none /etc && mkdir /etc/keyward && printf '%s' \"$0\" > /etc/keyward/policy.toml && exec \"$@\"";
    let mut command = stage.command("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", prepare]);
    command.arg(format!("version = 1\n{ceiling}")).args(["setsid", keyward(), "run"]).args(flags);
    command.args(["--", "sh", "-c", script]).output().unwrap()
}

#[test]
fn yolo_runs_and_is_recorded_and_only_the_user_within_the_ceiling_can_set_it() {
    let stage = Stage::root();
    denied(&sh(&stage, &[], RESET), "no approver is available", "the control");
    ran(&sh(&stage, &["--gate", "yolo"], RESET), "yolo");
    let spawn = events(&stage, "spawn").pop().unwrap();
    assert_eq!((&spawn["gate"]["mode"], &spawn["gate"]["because"]), (&"yolo".into(), &"yolo".into()));
    assert_eq!(spawn["gate"]["digest"], digest(&stage, &["sh", "-c", RESET]), "{spawn}");

    let ceiling = "gate.mode = \"auto\"";
    let output = below_ceiling(&stage, ceiling, &["--gate", "yolo"], RESET);
    support::refused(output, 121, "gate.mode");
    denied(&below_ceiling(&stage, ceiling, &[], RESET), "no approver is available", "the ceiling's own");
    ran(&below_ceiling(&stage, ceiling, &[], HARMLESS), "below the ceiling");
    let output = below_ceiling(&stage, "gate.mode = \"yolo\"", &["--gate", "yolo"], FORBIDDEN);
    denied(&output, "forbidden", "a ceiling does not lift the floor");
    ran(&below_ceiling(&stage, "gate.mode = \"yolo\"", &["--gate", "yolo"], RESET), "a high ceiling");

    stage.project_file(".keyward.toml", "version = 1\ngate.mode = \"yolo\"\n");
    support::refused(sh(&stage, &[], RESET), 120, "gate.mode");
    stage.project_file(".keyward.toml", "version = 1\ngate.mode = \"deny\"\n");
    denied(&sh(&stage, &[], RESET), "the gate mode is deny", "a project may narrow");
}

#[test]
fn a_yes_is_for_the_very_same_bytes_and_once() {
    let stage = Stage::user();
    policy(&stage, "[profiles.other]\n");
    stage.make_folder(&stage.project().join("sub"));
    stage.project_file("sub/deploy.sh", RESET);
    let script = stage.project_file("deploy.sh", RESET);
    let deploy: &[&str] = &["sh", "deploy.sh"];
    let first = run(&stage, &[], deploy);
    denied(&first, "no approver is available", "the first time");
    works(&stage, &["approvals", "allow", &approval(&first)]);
    for (case, flags, argv) in [
        ("another argument", &[][..], &["sh", "deploy.sh", ""][..]),
        ("another way", &[], &["sh", "./deploy.sh"]),
        ("another shell", &[], &["bash", "deploy.sh"]),
        ("another folder", &["--cwd", "sub"], deploy),
        ("another profile", &["-p", "other"], deploy),
        ("another network", &["--net", "open"], deploy),
        ("another class", &["--trust", "tool"], deploy),
    ] {
        denied(&run(&stage, flags, argv), "no approver is available", case);
    }
    std::fs::write(&script, format!("{RESET} # one byte more")).unwrap();
    denied(&run(&stage, &[], deploy), "no approver is available", "another script");
    std::fs::write(&script, RESET).unwrap();
    ran(&run(&stage, &[], deploy), "the same again");
    denied(&run(&stage, &[], deploy), "no approver is available", "the second time");
    let told = events(&stage, "grant-used");
    assert_eq!(told.len(), 1, "{told:?}");
}

#[test]
fn a_grant_for_a_class_holds_in_its_project_and_profile() {
    let stage = Stage::user();
    policy(&stage, "[profiles.other]\n");
    let first = sh(&stage, &[], RESET);
    works(&stage, &["approvals", "allow", &approval(&first), "--class", "git", "--uses", "2"]);
    let elsewhere = stage.elsewhere();
    let in_another =
        alone(&stage, &["run", "--", "sh", "-c", CLEAN]).current_dir(&elsewhere).output().unwrap();
    denied(&in_another, "no approver is available", "another project");
    denied(&sh(&stage, &["-p", "other"], CLEAN), "no approver is available", "another profile");
    denied(&sh(&stage, &[], "echo RAN; rm -rf ."), "no approver is available", "another class");
    denied(&sh(&stage, &["--gate", "deny"], CLEAN), "the gate mode is deny", "a mode that refuses");
    ran(&sh(&stage, &[], CLEAN), "another rule of the class");
    ran(&sh(&stage, &[], RESET), "the second use");
    denied(&sh(&stage, &[], RESET), "no approver is available", "used up");
}

#[test]
fn an_answer_from_elsewhere_lets_it_run_or_not_and_the_time_ends() {
    let stage = Stage::user();
    policy(&stage, "gate.attended = \"always\"\n");
    let waits = Waits::start(&stage, &[], &["sh", "-c", RESET]);
    works(&stage, &["approvals", "allow", &waits.id]);
    ran(&waits.end(), "allowed");
    let waits = Waits::start(&stage, &[], &["sh", "-c", RESET]);
    works(&stage, &["approvals", "deny", &waits.id]);
    denied(&waits.end(), "denied by the operator", "denied");
    policy(&stage, "gate.attended = \"always\"\ngate.wait = \"1s\"\n");
    denied(&sh(&stage, &[], RESET), "no approver answered in time", "the time");
    policy(&stage, "gate.attended = \"never\"\n");
    denied(&sh(&stage, &[], RESET), "no approver is available", "never attended");
}

#[test]
fn a_judge_answers_as_the_table_says() {
    let stage = Stage::user();
    for (act, words) in [
        ("allow", None),
        ("deny", Some("denied by the judge")),
        ("ask", Some("no approver is available")),
        ("hang", Some("no approver is available")),
        ("crash", Some("no approver is available")),
        ("nonsense", Some("no approver is available")),
    ] {
        policy(&stage, &judge(&stage, act));
        let output = sh(&stage, &[], RESET);
        match words {
            None => ran(&output, act),
            Some(words) => {
                assert_eq!(output.status.code(), Some(123), "{act}: {}", stderr(&output));
                assert!(stderr(&output).contains(words) && stdout(&output).is_empty(), "{act}: {output:?}");
            }
        }
        let failed = ["hang", "crash", "nonsense"].contains(&act);
        assert_eq!(stderr(&output).contains("the judge failed"), failed, "{act}: {}", stderr(&output));
    }
    let asked: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(stage.home().join("asked.json")).unwrap()).unwrap();
    let project = std::fs::canonicalize(stage.project()).unwrap();
    assert_eq!(asked["argv"], serde_json::json!(["sh", "-c", RESET]));
    assert_eq!((&asked["v"], &asked["limit_ms"]), (&1.into(), &2000.into()));
    assert_eq!((&asked["cwd"], &asked["class"]), (&project.to_str().unwrap().into(), &"git".into()));
    assert_eq!(asked["texts"][0]["text"], format!("sh -c '{RESET}'"));
    assert_eq!((&asked["from_inside"], &asked["session"]), (&false.into(), &serde_json::Value::Null));
    assert_eq!(asked["digest"], digest(&stage, &["sh", "-c", RESET]));
    // A judge that leaves it to others: one is there now.
    policy(&stage, &(judge(&stage, "ask") + "gate.attended = \"always\"\n"));
    let waits = Waits::start(&stage, &[], &["sh", "-c", RESET]);
    works(&stage, &["approvals", "allow", &waits.id]);
    ran(&waits.end(), "left to a person");
}

const PROMPT: &str = "(help) [n] ";

/// A mask is put by a name. If a link stands there by then, what the link leads to would be masked, and not the name.
#[test]
fn a_hidden_file_that_becomes_a_link_while_the_question_waits_stops_the_run() {
    let stage = Stage::user();
    let hide = ["--hide", "keys.txt"];
    policy(&stage, "gate.attended = \"always\"\n");
    for is_swapped in [false, true] {
        stage.project_file("keys.txt", "value-of-a-key");
        stage.project_file("other.txt", "other");
        let script = format!("{RESET}; cat keys.txt");
        let waits = Waits::start(&stage, &hide, &["sh", "-c", &script]);
        if is_swapped {
            std::fs::rename(stage.project().join("keys.txt"), stage.project().join("moved.txt")).unwrap();
            std::os::unix::fs::symlink("other.txt", stage.project().join("keys.txt")).unwrap();
        }
        works(&stage, &["approvals", "allow", &waits.id]);
        let output = waits.end();
        assert!(!stdout(&output).contains("value-of-a-key"), "{output:?}");
        match is_swapped {
            false => ran(&output, "the control"),
            true => {
                assert_eq!(output.status.code(), Some(125), "{output:?}");
                assert!(stdout(&output).is_empty() && stderr(&output).contains("keys.txt"), "{output:?}");
            }
        }
    }
}

/// A copy of the launcher that asks a judge must not share its database. SQLite keeps the journal beside an open one, and removes it with
/// the last connection.
#[test]
fn a_judge_is_asked_while_the_approvals_are_closed() {
    let stage = Stage::user();
    let script = format!(
        "#!/bin/sh\nls '{}' >~/seeing\nmv ~/seeing ~/seen\ncat >/dev/null\necho '{{\"v\":1,\"opinion\":\"ask\",\"reason\":\"x\"}}'\n",
        stage.state().display()
    );
    let path = stage.home_file("judge", &script);
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    policy(
        &stage,
        &format!(
            "gate.mode = \"judge\"\ngate.judge = [\"{}\"]\ngate.attended = \"always\"\n",
            path.display()
        ),
    );
    let seen = stage.home().join("seen");
    let waits = Waits::start_and_see(&stage, &[], &["sh", "-c", RESET], || seen.exists());
    let seen = std::fs::read_to_string(seen).unwrap();
    let names: Vec<&str> = seen.lines().collect();
    assert!(names.contains(&"approvals.db") && !names.contains(&"approvals.db-wal"), "{names:?}");
    // The control: while the launcher waits for a person, it has them open.
    assert!(eventually(|| stage.state().join("approvals.db-wal").exists()));
    works(&stage, &["approvals", "allow", &waits.id]);
    ran(&waits.end(), "allowed");
}

fn on_a_terminal(stage: &Stage) -> Terminal {
    let mut command = stage.command(keyward());
    command.args([
        "run",
        "--",
        "sh",
        "-c",
        "touch started; echo R''AN; git worktree remove --force /gone; true",
    ]);
    let mut terminal = Terminal::start(command, USER);
    terminal.wait_for(PROMPT);
    terminal
}

#[test]
fn whoever_sits_at_the_terminal_is_asked_and_only_a_yes_is_one() {
    let stage = Stage::user();
    let started = stage.project().join("started");
    for keys in ["n\r", "\r", "\x03", "\x04"] {
        let mut terminal = on_a_terminal(&stage);
        terminal.keys(keys);
        terminal.wait_for("not run, as you said");
        assert_eq!(terminal.end().code(), Some(123), "{keys:?}");
    }
    let mut terminal = on_a_terminal(&stage);
    works(&stage, &["approvals", "deny", &question_of(&stage)]);
    terminal.wait_for("answered elsewhere");
    assert_eq!(terminal.end().code(), Some(123));
    let mut terminal = on_a_terminal(&stage);
    terminal.keys("y");
    terminal.hang_up();
    let code = terminal.child.wait().unwrap().code();
    assert!(code.is_none_or(|code| code == 123), "{code:?}");
    policy(&stage, "gate.wait = \"1s\"\n");
    let mut terminal = on_a_terminal(&stage);
    terminal.wait_for("no approver answered in time");
    assert_eq!(terminal.end().code(), Some(123));
    assert!(!started.exists(), "none of them has run");

    policy(&stage, "");
    let mut terminal = on_a_terminal(&stage);
    works(&stage, &["approvals", "allow", &question_of(&stage)]);
    terminal.wait_for("RAN");
    assert!(terminal.end().success() && started.exists());
    std::fs::remove_file(&started).unwrap();
    let mut terminal = on_a_terminal(&stage);
    terminal.keys("y\r");
    terminal.wait_for("RAN");
    assert!(terminal.end().success() && started.exists());
}

/// Makes another script of it; what is judged prints JUDGED.
type Swap = fn(&Path);

const SWAPPED: &str = "echo SWAPPED";

fn swaps() -> Vec<(&'static str, Swap)> {
    vec![
        ("in place", |run| std::fs::write(run.join("deploy.sh"), SWAPPED).unwrap()),
        ("by another file", |run| {
            std::fs::write(run.join("new"), SWAPPED).unwrap();
            std::fs::rename(run.join("new"), run.join("deploy.sh")).unwrap();
        }),
        ("the folder above", |run| {
            let other = run.with_file_name("other");
            std::fs::create_dir(&other).unwrap();
            std::fs::write(other.join("deploy.sh"), SWAPPED).unwrap();
            std::fs::rename(run, run.with_file_name("old")).unwrap();
            std::fs::rename(&other, run).unwrap();
        }),
        ("the link", |run| {
            std::fs::write(run.join("b.sh"), SWAPPED).unwrap();
            std::fs::remove_file(run.join("deploy.sh")).unwrap();
            symlink("b.sh", run.join("deploy.sh")).unwrap();
        }),
        ("the folder by a link", |run| {
            let other = run.with_file_name("other");
            std::fs::create_dir(&other).unwrap();
            std::fs::write(other.join("deploy.sh"), SWAPPED).unwrap();
            std::fs::rename(run, run.with_file_name("old")).unwrap();
            symlink("other", run).unwrap();
        }),
    ]
}

#[test]
fn a_script_that_is_swapped_while_the_question_waits_never_runs() {
    for who in [Who::User, Who::Root] {
        for linked in [false, true] {
            for (case, swap) in swaps() {
                let stage = Stage::new(who);
                policy(&stage, "gate.attended = \"always\"\n");
                let text = "echo JUDGED; git worktree remove --force /gone; true";
                if linked {
                    stage.project_file("run/a.sh", text);
                    symlink("a.sh", stage.project().join("run/deploy.sh")).unwrap();
                } else {
                    stage.project_file("run/deploy.sh", text);
                }
                let waits = Waits::start(&stage, &[], &["sh", "run/deploy.sh"]);
                swap(&stage.project().join("run"));
                works(&stage, &["approvals", "allow", &waits.id]);
                let output = waits.end();
                let said = stdout(&output);
                assert!(!said.contains("SWAPPED"), "{case}: {said}");
                let held = said.starts_with("JUDGED\n") || (said.is_empty() && !output.status.success());
                assert!(held, "{case}: {said}{}", stderr(&output));
                // The control: whoever comes after the swap runs the other one.
                let after = run(&stage, &["--gate", "yolo"], &["sh", "run/deploy.sh"]);
                assert_eq!(stdout(&after), "SWAPPED\n", "{case}: {}", stderr(&after));
            }
        }
    }
}

#[test]
fn a_script_that_was_said_yes_to_cannot_be_changed_while_it_runs() {
    let stage = Stage::user();
    policy(&stage, "gate.attended = \"always\"\n");
    let go = stage.project().join("go");
    // A shell reads its script line by line: what is written behind runs too, where nothing holds it.
    let text =
        "echo RAN\nwhile [ ! -e go ]; do sleep 0.1; done\ngit worktree remove --force /gone\necho over\n";
    let script = stage.project_file("deploy.sh", text);
    let append = |child: Child, out: &Path| {
        assert!(eventually(|| std::fs::read_to_string(out).is_ok_and(|said| said.contains("RAN"))));
        std::fs::write(&script, text.replace("echo over", "echo SWAPPED")).unwrap();
        std::fs::write(&go, "").unwrap();
        child.wait_with_output().unwrap();
        std::fs::remove_file(&go).unwrap();
        std::fs::write(&script, text).unwrap();
        std::fs::read_to_string(out).unwrap()
    };
    let out = |name: &str| {
        let path = stage.elsewhere().join(name);
        (std::fs::File::create(&path).unwrap(), path)
    };
    let (file, path) = out("inside");
    let mut command = alone(&stage, &["run", "--", "bash", "deploy.sh"]);
    let child = command.stdout(file).stderr(Stdio::null()).spawn().unwrap();
    works(&stage, &["approvals", "allow", &question_of(&stage)]);
    let inside = append(child, &path);
    assert!(inside.contains("over") && !inside.contains("SWAPPED"), "{inside}");
    let (file, path) = out("outside");
    let child = stage.command("bash").arg("deploy.sh").stdout(file).stderr(Stdio::null()).spawn().unwrap();
    let outside = append(child, &path);
    assert!(outside.contains("SWAPPED"), "the control: {outside}");
}

#[test]
fn a_link_to_what_the_cage_does_not_show_is_not_read() {
    let stage = Stage::user();
    let canary = "canary-4c1f77";
    let outside = stage.file(
        &stage.elsewhere().join("outside.sh"),
        &format!("echo {canary}; git worktree remove --force /gone"),
    );
    symlink(&outside, stage.project().join("link.sh")).unwrap();
    let judge = judge(&stage, "deny");
    let everything = |stage: &Stage| {
        let mut bytes = std::fs::read(stage.home().join("asked.json")).unwrap();
        for entry in std::fs::read_dir(stage.state()).unwrap() {
            bytes.extend(std::fs::read(entry.unwrap().path()).unwrap_or_default());
        }
        String::from_utf8_lossy(&bytes).into_owned()
    };
    policy(&stage, &judge);
    denied(
        &run(&stage, &["--net", "open"], &["sh", "link.sh"]),
        "denied by the judge",
        "what cannot be read is asked about",
    );
    assert!(!everything(&stage).contains(canary));
    policy(&stage, "gate.attended = \"always\"\n");
    let waits = Waits::start(&stage, &["--net", "open"], &["sh", "link.sh"]);
    assert!(!works(&stage, &["approvals", "show", &waits.id]).contains(canary));
    assert!(!everything(&stage).contains(canary));
    drop(waits);
    // The control: what is shown to the cage is read, and shown to whoever answers.
    policy(&stage, &judge);
    let read = ["--read", outside.to_str().unwrap()];
    denied(&run(&stage, &read, &["sh", "link.sh"]), "denied by the judge", "the control");
    assert!(everything(&stage).contains(canary));
}

#[test]
fn without_the_approvals_nothing_is_allowed_and_the_reason_is_told() {
    let stage = Stage::user();
    ran(&sh(&stage, &[], HARMLESS), "the state folder is there now");
    let database = stage.state().join("approvals.db");
    policy(&stage, "gate.attended = \"always\"\ngate.wait = \"1s\"\n");
    let with_mode = |text: &str, mode| {
        stage.file(&database, text);
        std::fs::set_permissions(&database, PermissionsExt::from_mode(mode)).unwrap();
    };
    let breaks: &[(&str, &dyn Fn(), &str)] = &[
        ("open to others", &|| with_mode(&"garbage ".repeat(900), 0o666), "open to others"),
        ("garbage", &|| with_mode(&"garbage ".repeat(900), 0o600), "damaged"),
        ("a folder", &|| stage.make_folder(&database), "no plain file"),
        ("a link", &|| symlink("elsewhere.db", &database).unwrap(), "is a link"),
    ];
    for (case, broken, words) in breaks {
        broken();
        let output = sh(&stage, &[], RESET);
        denied(&output, "keyward: denied: ", case);
        let said = stderr(&output);
        assert!(said.contains(words) && said.contains("put it aside: `mv "), "{case}: {said}");
        ran(&sh(&stage, &[], HARMLESS), "what nobody has to be asked about needs none");
        let away = if database.is_dir() { std::fs::remove_dir } else { std::fs::remove_file };
        away(&database).unwrap();
    }
    denied(&sh(&stage, &[], RESET), "no approver answered in time", "the control");
    // Somebody who keeps it locked.
    let lock = "import sqlite3, sys, time\nbase = sqlite3.connect(sys.argv[1], isolation_level=None)\nbase.execute('BEGIN EXCLUSIVE')\nprint('locked', flush=True)\ntime.sleep(1000)";
    let mut command = stage.command("python3");
    command.args(["-c", lock]).arg(&database);
    let locked: Beside = stage.beside_and_ready(&mut command);
    denied(&sh(&stage, &[], RESET), "locked", "locked");
    drop(locked);
    denied(&sh(&stage, &[], RESET), "no approver answered in time", "the control");
}

/// A run with Keyward's state on a small disk of its own, in private mounts; `prepare` is done with it first.
fn on_a_disk(stage: &Stage, prepare: &str, arguments: &[&str]) -> Output {
    assert!(is_root(), "this test needs root; run the tests as root, as CI does");
    let as_user = format!("setpriv --reuid {USER} --regid {USER} --clear-groups");
    let script = format!(
        "mount -t tmpfs -o size=1m,mode=0700,uid={USER},gid={USER} none \"$HOME/.local/state/keyward\" && \
         {as_user} \"$0\" run -- true && cd \"$HOME/.local/state/keyward\" && ({prepare}) && cd - >&2 && exec {as_user} \"$0\" run \"$@\""
    );
    let mut command = Command::new("setsid");
    command.args(["unshare", "--mount", "--propagation", "private", "sh", "-c", &script, keyward()]);
    command.args(arguments).current_dir(stage.project()).env_clear();
    command.env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin").env("HOME", stage.home()).output().unwrap()
}

#[test]
fn a_full_disk_allows_nothing_and_gives_no_secret() {
    let stage = Stage::user();
    policy(&stage, "gate.attended = \"always\"\ngate.wait = \"1s\"\n");
    let fetched = stage.elsewhere().join("fetched");
    let fetch = format!("echo a-secret-of-mine; echo > '{}'", fetched.display());
    let fetch = stage.file(&stage.elsewhere().join("fetch"), &fetch);
    let secrets = format!("version = 1\n[secrets.key]\nfrom = \"cmd://sh '{}'\"\n", fetch.display());
    stage.home_file(".config/keyward/secrets.toml", &secrets);
    ran(&sh(&stage, &[], HARMLESS), "the state folder is there now");
    // Also the rest of the page in which the record ends.
    let full = format!(
        "dd if=/dev/zero of=full bs=1k 2>/dev/null; cd \"$OLDPWD\"; while setpriv --reuid {USER} --regid {USER} --clear-groups \"$0\" run -- true 2>/dev/null; do :; done"
    );
    let ask: &[&str] = &["--", "sh", "-c", RESET];
    let secret: &[&str] = &["--gate", "yolo", "--secret", "key=fd", "--", "echo", "RAN"];

    let output = on_a_disk(&stage, "true", ask);
    assert!(stderr(&output).contains("no approver answered in time"), "the control: {}", stderr(&output));
    let output = on_a_disk(&stage, &full, ask);
    assert!(!output.status.success() && stdout(&output).is_empty(), "{}{}", stdout(&output), stderr(&output));
    assert!(stderr(&output).contains("no space left") || stderr(&output).contains("no room"), "{output:?}");

    let output = on_a_disk(&stage, &full, secret);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(125), ""), "{}", stderr(&output));
    assert!(!fetched.exists(), "nobody has even asked for it");
    ran(&on_a_disk(&stage, "true", secret), "the control");
    assert!(fetched.exists(), "the control");
}

#[test]
fn nothing_in_a_cage_becomes_another_user_and_that_is_said_in_two_lines() {
    assert!(Path::new("/usr/bin/sudo").exists(), "this test needs sudo: tools/install-test-tools");
    for who in [Who::User, Who::Root] {
        let stage = Stage::new(who);
        stage.project_file("install.sh", "echo begun; sudo -n id -u && echo WORKED");
        for argv in [
            &["sudo", "-n", "id", "-u"][..],
            &["/usr/bin/sudo", "id", "-u"],
            &["sh", "-c", "sudo -n id -u && echo WORKED"],
            &["sh", "install.sh"],
            &["env", "sudo", "true"],
        ] {
            let output = run(&stage, &["--gate", "yolo"], argv);
            assert_eq!(output.status.code(), Some(1), "{argv:?}: {}", stderr(&output));
            assert!(!stdout(&output).contains("WORKED") && !stdout(&output).contains('0'), "{argv:?}");
            let said = stderr(&output);
            let lines: Vec<&str> = said.lines().filter(|line| !line.starts_with("keyward: note:")).collect();
            assert_eq!(lines.len(), 2, "{argv:?}: {said}");
            assert!(lines[0].starts_with("keyward: sudo cannot work in a cage"), "{said}");
        }
    }
    // The control: outside it is the real one, which asks for a password or works.
    let outside = Stage::root().bare("sudo -n id -u");
    assert!(!stderr(&outside).contains("keyward"), "{outside:?}");
    assert_eq!(stdout(&outside), "0\n");
}

/// The service of the page about the webhook, as it is written there, is asked by a real run.
#[test]
fn a_service_behind_a_webhook_answers_a_run_and_is_recorded() {
    const KEY: &str = "hook-EXAMPLE-0123456789";
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/webhook.md");
    let page = std::fs::read_to_string(page).unwrap();
    let program = page.split("```python\n").nth(1).unwrap().split("```").next().unwrap();
    let stage = Stage::user();
    let (service, key) = (stage.home_file("service.py", program), stage.home_file("hook.key", KEY));
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let mut command = stage.command("python3");
    let _service = stage.beside(command.arg(service).arg(&key).arg(&port));
    let there = || std::net::TcpStream::connect(format!("127.0.0.1:{port}")).is_ok();
    assert!(eventually(there), "the service does not start");
    let mut set = alone(&stage, &["secret", "set", "hook", "--identity", "file"]);
    set.stdin(std::fs::File::open(&key).unwrap());
    assert!(set.output().unwrap().status.success());
    policy(
        &stage,
        &format!(
            "[gate]\nwebhook = \"http://127.0.0.1:{port}/ask\"\nwebhook_key = \"hook\"\nwait = \"30s\"\n\
             [profiles.builder]\nnet.mode = \"open\"\n"
        ),
    );
    // The service says yes to pushes of this profile alone. There is nowhere to push to: git itself fails, and not with our code.
    let push = ["git", "push", "--force", "nowhere", "main"];
    let yes = run(&stage, &["-p", "builder"], &push);
    assert_eq!(yes.status.code(), Some(128), "{}", stderr(&yes));
    let no = run(&stage, &["--net", "open"], &push);
    assert_eq!(no.status.code(), Some(123), "{}", stderr(&no));
    assert!(stderr(&no).contains("denied by the operator"), "{}", stderr(&no));
    let told = works(&stage, &["log"]);
    assert!(told.contains("allow by webhook") && told.contains("deny by webhook"), "{told}");
    let record = std::fs::read_to_string(stage.state().join("events.jsonl")).unwrap();
    assert!(!record.contains(KEY) && !stderr(&yes).contains(KEY));
}
