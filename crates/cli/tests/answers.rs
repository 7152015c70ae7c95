//! Answers get out or are said not to, in the form that was asked for, wherever one stands.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::process::Command;
use support::{Stage, keyward, refused, stderr, stdout};

#[test]
fn an_answer_that_cannot_be_written_is_a_fault_and_a_reader_that_is_gone_is_none() {
    let stage = Stage::user();
    assert!(stage.caged("true").status.success());
    for arguments in
        ["log", "log export --jsonl", "log verify", "home tools", "why env HOME", "policy schema"]
    {
        let full = stage.bare(&format!("'{}' {arguments} > /dev/full", keyward()));
        assert_eq!(full.status.code(), Some(125), "{arguments}: {}", stderr(&full));
        assert!(stderr(&full).contains("cannot write the answer"), "{arguments}: {}", stderr(&full));
        let gone = stage.bare(&format!("('{}' {arguments}; echo $? >&2) | :", keyward()));
        assert!(stderr(&gone).ends_with("0\n"), "{arguments}: {}", stderr(&gone));
    }
}

#[test]
fn doctor_and_log_answer_in_a_directory_that_was_deleted() {
    let stage = Stage::user();
    assert!(stage.caged("true").status.success());
    for arguments in ["doctor", "log"] {
        let script = format!("mkdir gone && cd gone && rmdir ../gone && '{}' {arguments}", keyward());
        let output = stage.bare(&script);
        assert!(output.status.success(), "{arguments}: {}{}", stdout(&output), stderr(&output));
    }
}

#[test]
fn doctor_says_when_every_run_would_be_refused() {
    let stage = Stage::user();
    let doctor =
        |arguments: &[&str]| stage.command(keyward()).arg("doctor").args(arguments).output().unwrap();
    assert_eq!(doctor(&[]).status.code(), Some(0), "{}", stderr(&doctor(&[])));
    stage.home_file(".config/keyward/policy.toml", "version = 1\nflor = \"full\"\n");
    let broken = doctor(&[]);
    assert_eq!(broken.status.code(), Some(120));
    assert!(stderr(&broken).contains("every run in this directory is refused"), "{}", stderr(&broken));
    assert!(stderr(&broken).contains("policy.toml:2:1"), "{}", stderr(&broken));
    let answer: serde_json::Value = serde_json::from_slice(&doctor(&["--json"]).stdout).unwrap();
    assert!(answer["refused"]["fact"].as_str().unwrap().contains("flor"), "{answer}");

    // A state directory that cannot be made: what cannot be recorded does not run.
    std::fs::remove_file(stage.home().join(".config/keyward/policy.toml")).unwrap();
    std::fs::remove_dir_all(stage.home().join(".local")).unwrap();
    stage.home_file(".local", "a file in the way");
    let unwritable = doctor(&[]);
    assert_eq!(unwritable.status.code(), Some(125), "{}", stderr(&unwritable));
    assert!(stderr(&unwritable).contains("cannot record this run"), "{}", stderr(&unwritable));
}

#[test]
fn a_time_limit_without_a_unit_is_in_seconds() {
    let stage = Stage::user();
    let quick = stage.keyward_run(&["--timeout", "100"], &["echo", "done"]).output().unwrap();
    assert_eq!(stdout(&quick), "done\n", "{}", stderr(&quick));
    let slow = stage.keyward_run(&["--timeout", "1"], &["sleep", "1000"]).output().unwrap();
    assert_eq!(slow.status.code(), Some(124), "{}", stderr(&slow));
}

#[test]
fn why_says_which_version_its_json_has() {
    let stage = Stage::user();
    for subject in [["env", "HOME"], ["read", "/etc/hosts"], ["exec", "sh"], ["exec", "no-such-program"]] {
        let output = stage.command(keyward()).args(["why", "--json"]).args(subject).output().unwrap();
        let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(answer["v"], 1, "{subject:?}");
    }
}

#[test]
fn why_warns_before_it_names_the_line_that_shows_a_key() {
    let stage = Stage::user();
    let why = |path: &str| stdout(&stage.command(keyward()).args(["why", "read", path]).output().unwrap());
    for path in ["~/.ssh/id_ed25519", "~/.aws/credentials"] {
        stage.home_file(path.trim_start_matches("~/"), "key");
        assert!(why(path).contains("only for a program that you trust with it"), "{}", why(path));
    }
    assert!(!why("~/notes").contains("trust with it"), "{}", why("~/notes"));
}

/// A package of a workspace that lies beside the project, behind a link as package managers make them.
#[test]
fn a_link_out_of_the_project_is_refused_with_the_line_that_allows_it() {
    let stage = Stage::user();
    let sibling = stage.elsewhere().join("sibling");
    stage.file(&sibling.join("index.js"), "found");
    assert!(Command::new("git").arg("init").arg("-q").arg(stage.project()).status().unwrap().success());
    stage.own(&stage.project().join(".git"));
    stage.make_folder(&stage.project().join("node_modules"));
    std::os::unix::fs::symlink(&sibling, stage.project().join("node_modules/sibling")).unwrap();
    let read = |flags: &[&str]| {
        stage.keyward_run(flags, &["cat", "node_modules/sibling/index.js"]).output().unwrap()
    };
    let said = stderr(&refused(read(&["--read", "node_modules/sibling"]), 121, "leads out of the project"));
    let flags = said.split('`').nth(1).unwrap();
    let path = flags.strip_prefix("--read ").unwrap().trim_matches('\'');
    let pasted = read(&["--read", path]);
    assert_eq!(stdout(&pasted), "found", "{flags}: {}", stderr(&pasted));
}

#[test]
fn the_outcome_of_a_command_in_a_session_says_what_held() {
    let stage = Stage::user();
    let outcome = |arguments: &[&str]| -> serde_json::Value {
        let output = stage.command(keyward()).args(arguments).output().unwrap();
        serde_json::from_str(stderr(&output).trim_end().lines().last().unwrap()).unwrap()
    };
    let start = stage.command(keyward()).args(["session", "start", "--name", "work"]).output().unwrap();
    assert!(start.status.success(), "{}", stderr(&start));
    let run = outcome(&["run", "--json", "--", "true"]);
    assert!(run["held"].as_array().is_some_and(|held| held.len() > 5), "{run}");
    for fresh in [&[][..], &["--fresh"]] {
        let exec = outcome(&[&["exec", "work", "--json"], fresh, &["--", "true"]].concat());
        assert_eq!(exec["held"], run["held"], "{fresh:?}");
    }
    stage.command(keyward()).args(["session", "stop", "work"]).output().unwrap();
}

#[test]
fn explain_says_if_the_program_does_not_exist() {
    let stage = Stage::user();
    let explain = |argv: &[&str]| stage.command(keyward()).arg("explain").args(argv).output().unwrap();
    for (argv, words) in [
        (&["nosuch"][..], "keyward: a run would not find nosuch\nno directory of PATH has it"),
        (&["--", "./nosuch"], "keyward: a run would not find ./nosuch\n"),
        (&["--", "ls -la"], "leave out the quotes"),
    ] {
        let output = explain(argv);
        assert_eq!(output.status.code(), Some(0), "{argv:?}");
        assert!(stderr(&output).contains(words), "{argv:?}: {}", stderr(&output));
        assert!(stdout(&output).starts_with("command "), "{argv:?}");
    }
    for argv in [&["ls"][..], &["/bin/ls"], &["--session"], &["--json", "nosuch"]] {
        assert_eq!(stderr(&explain(argv)), "", "{argv:?}");
    }
}

#[test]
fn the_effective_policy_is_there_for_programs() {
    let stage = Stage::user();
    let flags = ["--net", "open", "--read", "/usr/share", "--env", "A=1", "--pids", "7"];
    let output = stage.command(keyward()).args(["policy", "show", "--json"]).args(flags).output().unwrap();
    let shown: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let by = |value: serde_json::Value, flag: &str| serde_json::json!({ "value": value, "origin": { "layer": "flag", "flag": flag } });
    let settings = &shown["settings"];
    assert_eq!(shown["v"], 1);
    assert_eq!(settings["net.mode"], by("open".into(), "--net"));
    assert_eq!(settings["trust"]["origin"], serde_json::json!({ "layer": "builtin" }));
    assert_eq!(settings["files.read"], serde_json::json!([by("/usr/share".into(), "--read")]));
    assert_eq!(settings["env.set"]["A"], by("1".into(), "--env"));
    assert_eq!(settings["limits.pids"], by(7.into(), "--pids"));
    assert!(settings.get("files.write").is_none(), "{settings}");
}
