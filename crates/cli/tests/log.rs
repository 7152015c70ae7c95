//! The record as a whole: what is asked, what is found, what a cage can do to it, what is in it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Output, Stdio};
use support::{Stage, keyward, leaks_only_outside, stderr, stdout, works_only_outside};

fn log(stage: &Stage, arguments: &[&str]) -> Output {
    stage.command(keyward()).arg("log").args(arguments).output().unwrap()
}

fn record(stage: &Stage) -> PathBuf {
    stage.state().join("events.jsonl")
}

/// A command that ran, and one that was refused.
fn with_events() -> Stage {
    let stage = Stage::user();
    assert!(stage.caged("exit 0").status.success());
    let refused = stage.keyward_run(&["--inherit-credentials", "GH_TOKEN"], &["true"]).output().unwrap();
    assert_eq!(refused.status.code(), Some(121), "{}", stderr(&refused));
    stage
}

fn events(output: &Output) -> Vec<Value> {
    assert!(output.status.success(), "{}", stderr(output));
    stdout(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn names(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["event"].as_str().unwrap()).collect()
}

#[test]
fn every_event_is_numbered_and_what_was_denied_can_be_asked_for() {
    let stage = with_events();
    let all = events(&log(&stage, &["--json"]));
    assert_eq!(names(&all), ["ledger-file", "spawn", "end", "refused"]);
    let numbers: Vec<u64> = all.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, [1, 2, 3, 4]);
    assert_eq!(names(&events(&log(&stage, &["--json", "--denied"]))), ["refused"]);
    assert_eq!(names(&events(&log(&stage, &["--json", "--since", "1h"]))).len(), 4);
    assert_eq!(names(&events(&log(&stage, &["--json", "--since", "2199-01-01"]))).len(), 0);
    assert_eq!(names(&events(&log(&stage, &["--json", "--session", "none"]))).len(), 0);
    let wrong = log(&stage, &["--since", "yesterday"]);
    assert_eq!(wrong.status.code(), Some(120));
    assert!(stderr(&wrong).contains("such as 1h, 2026-01-31"), "{}", stderr(&wrong));
}

#[test]
fn the_last_events_can_be_asked_for() {
    let stage = with_events();
    assert_eq!(names(&events(&log(&stage, &["--json", "-n", "2"]))), ["end", "refused"]);
    assert_eq!(names(&events(&log(&stage, &["--json", "-n", "9"]))).len(), 4);
    assert_eq!(names(&events(&log(&stage, &["--json", "-n", "1", "--since", "1h"]))), ["refused"]);
    let last = log(&stage, &["-n", "1"]);
    assert_eq!(stdout(&last).lines().count(), 1, "{}", stdout(&last));
    assert!(stdout(&last).contains("refused") && stderr(&last).is_empty(), "{}", stderr(&last));
    // Piped, all of them.
    assert_eq!(stdout(&log(&stage, &[])).lines().count(), 4);
}

/// A refused command, an answer for the next time, and that it was used.
#[test]
fn what_the_gate_did_can_be_read_in_one_line_each() {
    let stage = Stage::user();
    let run = |words: &[&str]| stage.command(keyward()).args(words).output().unwrap();
    let push =
        || run(&["run", "--gate", "auto", "--net", "open", "--", "git", "push", "--force", "origin", "main"]);
    assert_eq!(push().status.code(), Some(123));
    assert!(run(&["approvals", "allow", "1"]).status.success());
    assert_ne!(push().status.code(), Some(123), "it was granted");
    assert!(run(&["approvals", "allow", "1", "--class", "git", "--uses", "2"]).status.success());
    assert!(run(&["grants", "revoke", "2"]).status.success());
    let told = stdout(&log(&stage, &[]));
    for wanted in [
        "denied        unattended (git-push-force)  git push --force origin main\n",
        "granted       grant 1: the same command, uses 1, until 2",
        "grant-used    grant 1: uses left 0\n",
        "granted       grant 2: class git, uses 2, until 2",
        "revoked       grant 2\n",
    ] {
        assert!(told.contains(wanted), "{wanted:?} is not in {told}");
    }
}

#[test]
fn nothing_recorded_is_an_answer() {
    let stage = Stage::user();
    assert_eq!(stdout(&log(&stage, &[])), "nothing is recorded yet\n");
    assert_eq!(stdout(&log(&stage, &["verify"])), "nothing is recorded yet\n");
    assert_eq!(log(&stage, &["head"]).status.code(), Some(1));
}

#[test]
fn verify_is_quiet_about_a_whole_chain_and_names_the_line_of_any_other() {
    let stage = with_events();
    let good = log(&stage, &["verify"]);
    assert!(good.status.success(), "{}", stderr(&good));
    assert!(
        stdout(&good).starts_with("the chain is whole: events 1 to 4 in 1 file\nhead 4 "),
        "{}",
        stdout(&good)
    );
    let lines: Vec<String> =
        std::fs::read_to_string(record(&stage)).unwrap().lines().map(str::to_owned).collect();
    let with = |lines: &[String]| {
        std::fs::write(record(&stage), lines.join("\n") + "\n").unwrap();
        let output = log(&stage, &["verify"]);
        assert_eq!(output.status.code(), Some(1));
        let told = stderr(&output);
        assert_eq!(told.lines().count(), 2, "{told}");
        let json: Value = serde_json::from_slice(&log(&stage, &["verify", "--json"]).stdout).unwrap();
        assert_eq!((&json["good"], &json["v"]), (&false.into(), &1.into()));
        told
    };
    let mut changed = lines.clone();
    changed[1] = changed[1].replace("\"trust\":\"unknown\"", "\"trust\":\"tool\"");
    assert!(with(&changed).starts_with("keyward: events.jsonl:2: changed: "));
    let mut cut = lines.clone();
    cut.remove(2);
    assert!(with(&cut).starts_with("keyward: events.jsonl:3: cut: event 3 is missing"));
    let mut inserted = lines.clone();
    inserted.insert(2, lines[1].clone());
    assert!(with(&inserted).starts_with("keyward: events.jsonl:3: inserted: "));
    let mut swapped = lines.clone();
    swapped.swap(1, 2);
    assert!(with(&swapped).starts_with("keyward: events.jsonl:2: out of order: "));
}

#[test]
fn a_head_kept_elsewhere_finds_an_end_that_was_cut_off() {
    let stage = with_events();
    let head = stdout(&log(&stage, &["head"]));
    let digest = head.trim().split_once(' ').unwrap().1.to_owned();
    let file = stage.project_file("heads", &head);
    let file = file.to_str().unwrap();
    let good = log(&stage, &["verify", "--head", &digest, "--head-file", file]);
    assert!(
        good.status.success() && stdout(&good).contains("what --head knows is in the chain, up to event 4"),
        "{}",
        stdout(&good)
    );
    let text = std::fs::read_to_string(record(&stage)).unwrap();
    let shorter: Vec<&str> = text.lines().take(3).collect();
    std::fs::write(record(&stage), shorter.join("\n") + "\n").unwrap();
    assert!(log(&stage, &["verify"]).status.success(), "the chain alone cannot know");
    for arguments in [["--head", &digest], ["--head-file", file]] {
        let output = log(&stage, &[&["verify"][..], &arguments].concat());
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("is not in the chain"), "{}", stderr(&output));
    }
    assert_eq!(log(&stage, &["verify", "--head", "12"]).status.code(), Some(120));
    assert_eq!(log(&stage, &["verify", "--head-file", "/nonexistent"]).status.code(), Some(120));
}

#[test]
fn a_witness_hears_the_head_of_every_run_and_finds_a_record_that_was_made_anew() {
    let stage = Stage::user();
    let heads = stage.elsewhere().join("heads");
    let policy = format!("version = 1\nledger.witness = ['{}', '!grep -q digest']\n", heads.display());
    stage.home_file(".config/keyward/policy.toml", &policy);
    assert!(stage.caged("exit 0").status.success());
    assert!(stage.caged("exit 0").status.success());
    let told = std::fs::read_to_string(&heads).unwrap();
    let told: Vec<Value> = told.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((told.len(), &told[0]["seq"], &told[1]["seq"]), (2, &3.into(), &5.into()));
    let verified = log(&stage, &["verify"]);
    assert!(verified.status.success(), "{}", stderr(&verified));
    assert!(
        stdout(&verified).contains("heads knows is in the chain, up to event 5"),
        "{}",
        stdout(&verified)
    );
    assert!(stdout(&verified).contains("not asked: !grep -q digest"), "{}", stdout(&verified));
    // The whole record, made anew by another program of the user.
    std::fs::remove_file(record(&stage)).unwrap();
    std::fs::remove_file(stage.home().join(".config/keyward/policy.toml")).unwrap();
    assert!(stage.caged("exit 0").status.success());
    assert!(log(&stage, &["verify"]).status.success(), "the chain alone cannot know");
    stage.home_file(".config/keyward/policy.toml", &policy);
    let verified = log(&stage, &["verify"]);
    assert_eq!(verified.status.code(), Some(1));
    assert!(stderr(&verified).contains("event 3, is not in the chain"), "{}", stderr(&verified));
}

#[test]
fn a_witness_that_cannot_be_told_is_a_word_and_not_a_failure() {
    let stage = Stage::user();
    let policy = "version = 1\nledger.witness = ['/nonexistent/heads', '!false', '!nonexistent-program']\n";
    stage.home_file(".config/keyward/policy.toml", policy);
    let output = stage.caged("exit 3");
    assert_eq!(output.status.code(), Some(3));
    let told = stderr(&output);
    for witness in ["/nonexistent/heads", "!false", "!nonexistent-program"] {
        assert!(
            told.contains(&format!("the witness {witness} of the record could not be notified: ")),
            "{told}"
        );
    }
    assert_eq!(told.lines().count(), 6, "{told}");
}

#[test]
fn hostile_text_in_an_event_reaches_no_terminal_and_no_spreadsheet() {
    let stage = Stage::user();
    let word = "=cmd|'x'!A1 \u{1b}]0;title\u{7} \u{202e}evil \u{9b}31m \"q\",\nnext";
    stage.keyward_run(&["--inherit-credentials", "GH_TOKEN"], &[word]).output().unwrap();
    for arguments in [&[][..], &["--json"], &["export", "--jsonl"], &["export", "--csv"]] {
        let text = stdout(&log(&stage, arguments));
        assert!(text.contains("evil"), "{arguments:?}: {text}");
        let bad = text.chars().find(|c| (c.is_control() && *c != '\n') || *c == '\u{202e}');
        assert_eq!(bad, None, "{arguments:?}: {text:?}");
        assert_eq!(text.lines().count(), if arguments == ["export", "--csv"] { 3 } else { 2 }, "{text}");
    }
    let csv = stdout(&log(&stage, &["export", "--csv"]));
    assert!(csv.starts_with("seq,time,run,event,denied,session,secret,exit,command,detail\n"));
    assert!(csv.contains("\"'=cmd|") && !csv.contains("\"=cmd|"), "{csv}");
    assert_eq!(events(&log(&stage, &["--json", "--denied"])).len(), 1);
    assert_eq!(log(&stage, &["export"]).status.code(), Some(120));
}

#[test]
fn what_is_recorded_later_is_followed() {
    let stage = with_events();
    let mut follower =
        stage.command(keyward()).args(["log", "-f", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines().map(Result::unwrap);
    for _ in 0..4 {
        lines.next().unwrap();
    }
    stage.caged("exit 7");
    let spawn: Value = serde_json::from_str(&lines.next().unwrap()).unwrap();
    let end: Value = serde_json::from_str(&lines.next().unwrap()).unwrap();
    assert_eq!((&spawn["event"], &end["exit"]), (&"spawn".into(), &7.into()));
    // When its reader goes away, it ends by itself and without a word.
    drop(lines);
    let output = follower.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty());
}

#[test]
fn a_reader_that_leaves_ends_the_list_without_a_word() {
    let stage = with_events();
    let line = std::fs::read_to_string(record(&stage)).unwrap().lines().nth(1).unwrap().to_owned() + "\n";
    let mut many = std::fs::read_to_string(record(&stage)).unwrap();
    many.extend(std::iter::repeat_n(line.as_str(), 5000));
    std::fs::write(record(&stage), many).unwrap();
    for arguments in ["log", "log --json", "log export --csv", "log export --jsonl"] {
        let output = stage.bare(&format!("{} {arguments} | head -n 1", keyward()));
        assert_eq!((stdout(&output).lines().count(), stderr(&output)), (1, String::new()), "{arguments}");
    }
}

#[test]
fn a_record_of_an_earlier_version_is_kept_and_told() {
    let stage = Stage::user();
    let old =
        "{\"v\":1,\"time\":\"2026-01-01T00:00:00.000Z\",\"run\":\"a-1\",\"event\":\"end\",\"exit\":3}\n";
    stage.file(&record(&stage), old);
    assert!(stage.caged("exit 0").status.success());
    let verified = log(&stage, &["verify"]);
    assert!(verified.status.success(), "{}", stderr(&verified));
    assert!(stdout(&verified).contains("events-unchained-1.jsonl has no chain, and is as it was"));
    assert!(stdout(&log(&stage, &[])).contains("code 3"), "old events are still shown");
}

#[test]
fn a_writer_that_was_stopped_does_not_hang_a_run_for_ever() {
    let stage = with_events();
    let holder = std::fs::File::open(record(&stage)).unwrap();
    holder.lock().unwrap();
    let output = stage.keyward_run(&[], &["echo", "ran"]).output().unwrap();
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(125), ""));
    let told = stderr(&output);
    assert!(told.contains("has kept it locked for 10 s") && told.contains("kill -CONT"), "{told}");
    assert_eq!(told.lines().count(), 2, "{told}");
}

#[test]
fn a_cage_can_neither_read_change_nor_cut_the_ledger() {
    let stage = with_events();
    let inside = stage.keyward_run(&["--read", keyward()], &[keyward(), "log", "verify"]).output().unwrap();
    assert_eq!(inside.status.code(), Some(121), "{}", stderr(&inside));
    assert!(stderr(&inside).contains("the record is outside the cage"), "{}", stderr(&inside));
    let path = record(&stage).to_str().unwrap().to_owned();
    leaks_only_outside(&stage, &format!("cat '{path}'"), "\"event\":\"spawn\"");
    let before = std::fs::read(record(&stage)).unwrap();
    works_only_outside(&stage, &format!("printf x >> '{path}' && echo WORKED"));
    works_only_outside(
        &stage,
        &format!("test -s '{path}' && : > '{path}' && ! test -s '{path}' && echo WORKED; true"),
    );
    let after = std::fs::read(record(&stage)).unwrap();
    assert!(!after.starts_with(&before), "the control did not work");
    // What the controls did outside is gone with the file; from here on only a cage tries.
    std::fs::remove_file(record(&stage)).unwrap();
    assert!(stage.caged("exit 0").status.success());
    let script = format!(
        "echo tried; rm -f '{path}'; mv '{path}' x; printf x >> '{path}'; truncate -s 5 '{path}'; ln -sf /dev/null '{path}'; true"
    );
    assert!(stdout(&stage.caged(&script)).contains("tried"));
    let verified = log(&stage, &["verify"]);
    assert!(
        verified.status.success() && stdout(&verified).contains("events 1 to 5"),
        "{}",
        stdout(&verified)
    );
}

#[test]
fn no_secret_and_no_value_of_a_variable_is_in_any_file_of_the_ledger() {
    let stage = Stage::user();
    let value = "ghp_ThisIsTheValue0123456789abcdefghijkl";
    let mut run = stage.keyward_run(&["--pass", "PLAIN"], &["sh", "-c", "exit 0"]);
    let output = run.env("GH_TOKEN", value).env("PLAIN", "plain-value-of-a-variable").output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    stage.keyward_run(&[], &["echo", value]).output().unwrap();
    log(&stage, &["--denied"]);
    let mut looked = 0;
    for entry in std::fs::read_dir(stage.state()).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            let text = String::from_utf8_lossy(&std::fs::read(&path).unwrap()).into_owned();
            assert!(
                !text.contains("ThisIsTheValue") && !text.contains("plain-value-of"),
                "{}",
                path.display()
            );
            looked += usize::from(text.contains("GH_TOKEN"));
        }
    }
    assert!(looked > 0, "the names are recorded, so the right file was looked at");
}
