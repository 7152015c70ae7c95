//! The inputs of a decision in the ledger: digests, names and rules, never a value.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use serde_json::Value;
use std::process::Command;
use support::{Stage, keyward, stderr, stdout};

fn spawn(stage: &Stage) -> Value {
    let text = std::fs::read_to_string(stage.state().join("events.jsonl")).unwrap();
    let mut events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    events.rfind(|event| event["event"] == "spawn").unwrap()
}

/// The inputs of a run with these flags.
#[track_caller]
fn inputs(stage: &Stage, flags: &[&str]) -> Value {
    let output = stage.keyward_run(flags, &["true"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    spawn(stage)["inputs"].clone()
}

fn sha256_of(command: &mut Command) -> String {
    let sum = command.output().unwrap();
    assert!(sum.status.success(), "{}", stderr(&sum));
    stdout(&sum).split(' ').next().unwrap().to_owned()
}

fn names(inputs: &Value, rule: &str) -> Vec<String> {
    let names = inputs["env"][rule]["names"].as_array().cloned().unwrap_or_default();
    names.iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_run_records_what_its_decision_was_made_from() {
    let stage = Stage::user();
    let user = stage.home_file(".config/keyward/policy.toml", "version = 1\nenv.pass = [\"MY_LABEL\"]\n");
    stage.project_file(".keyward.toml", "version = 1\nfiles.hide = [\"*.draft\"]\n");
    let own = stage.project_file("sub/.keyward.toml", "version = 1\n");
    // The host has some of its own.
    let others = inputs(&stage, &[])["view"]["secret file"].as_i64().unwrap_or(0);
    for number in 0..300 {
        stage.project_file(&format!("sub/{number}.draft"), "x");
    }
    let mut command = stage.command(keyward());
    command.current_dir(stage.project().join("sub")).env("MY_LABEL", "one").env("OTHER", "two");
    command.env("GITHUB_TOKEN", "three").args(["run", "--gate", "yolo", "--net", "none", "--", "true"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let event = spawn(&stage);
    let inputs = &event["inputs"];
    let files = inputs["policy"]["files"].as_array().unwrap();
    let roles: Vec<&str> = files.iter().map(|file| file["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "ancestor", "project"], "{inputs}");
    assert_eq!(files[0]["file"], user.to_str().unwrap());
    assert_eq!(files[0]["digest"], sha256_of(stage.command("sha256sum").arg(&user)));
    assert_eq!(files[2]["digest"], sha256_of(stage.command("sha256sum").arg(&own)));
    assert_eq!(inputs["policy"]["flags"], serde_json::json!(["net.mode", "gate.mode"]));
    // The same flags give the same text, and its digest.
    let show = "cd sub && \"$0\" policy show --gate yolo --net none | sha256sum";
    let shown = sha256_of(stage.command("sh").args(["-c", show, keyward()]));
    assert_eq!(inputs["policy"]["digest"], shown);
    assert_eq!(names(inputs, "passed"), ["MY_LABEL"]);
    assert_eq!(names(inputs, "not-listed"), ["OTHER"]);
    assert_eq!(names(inputs, "registry"), ["GITHUB_TOKEN"]);
    assert_eq!(inputs["view"]["secret file"], others + 300, "{}", inputs["view"]);
    assert!(inputs["host"]["landlock"].is_i64() && inputs["host"]["refused"].is_array());
    assert_eq!(event["gate"]["verdict"], "allow");
    let size = inputs.to_string().len();
    assert!(size < 2048, "{size} bytes: {inputs}");
}

#[test]
fn no_value_is_in_the_inputs() {
    const PLANTED: &[&str] = &["planted-env-51", "planted-set-52", "planted-argv-53", "planted-token-54"];
    let stage = Stage::user();
    stage.home_file(
        ".config/keyward/policy.toml",
        "version = 1\nenv.pass = [\"MY_LABEL\"]\nenv.set = { OWN = \"planted-set-52\" }\n",
    );
    let mut command = stage.keyward_run(&[], &["echo", "planted-argv-53"]);
    command.env("MY_LABEL", PLANTED[0]).env("OTHER", PLANTED[0]).env("GITHUB_TOKEN", PLANTED[3]);
    let output = command.output().unwrap();
    assert_eq!(stdout(&output), "planted-argv-53\n", "{}", stderr(&output));
    let event = spawn(&stage);
    let inputs = event["inputs"].to_string();
    assert!(PLANTED.iter().all(|planted| !inputs.contains(planted)), "{inputs}");
    assert!(names(&event["inputs"], "set").contains(&"OWN".to_owned()), "{inputs}");
    // The control: what the command is called with is recorded, elsewhere.
    assert!(event["argv"].to_string().contains(PLANTED[2]) && !event.to_string().contains(PLANTED[1]));
}

#[test]
fn the_same_inputs_have_the_same_digest_and_another_policy_has_another() {
    let stage = Stage::user();
    let first = inputs(&stage, &[]);
    assert_eq!(inputs(&stage, &[]), first);
    assert_eq!(first["policy"]["digest"].as_str().unwrap().len(), 64);
    let mut digests = vec![first["policy"]["digest"].clone()];
    digests.push(inputs(&stage, &["--hide", "x"])["policy"]["digest"].clone());
    stage.project_file(".keyward.toml", "version = 1\nlimits.pids = 99\n");
    digests.push(inputs(&stage, &[])["policy"]["digest"].clone());
    stage.home_file(".config/keyward/policy.toml", "version = 1\nlimits.open_files = 99\n");
    digests.push(inputs(&stage, &[])["policy"]["digest"].clone());
    for (at, digest) in digests.iter().enumerate() {
        assert!(!digests[..at].contains(digest), "{digests:?}");
    }
}

#[test]
fn many_variables_with_long_names_make_no_long_line() {
    let stage = Stage::user();
    let mut command = stage.keyward_run(&[], &["true"]);
    for number in 0..2000 {
        command.env(format!("LONG_{number}_{}", "N".repeat(200)), "x");
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let inputs = &spawn(&stage)["inputs"];
    assert!(inputs["env"]["not-listed"]["more"].as_u64().unwrap() > 1900, "{inputs}");
    assert!(inputs.to_string().len() < 6000, "{} bytes", inputs.to_string().len());
}

#[test]
fn a_job_of_a_session_leads_to_the_inputs_of_its_cage() {
    let stage = Stage::user();
    stage.home_file(".config/keyward/policy.toml", "version = 1\nlimits.wall = \"1h\"\n");
    let keyward_with =
        |arguments: &[&str]| stage.command("setsid").arg(keyward()).args(arguments).output().unwrap();
    let started = keyward_with(&["session", "start", "--name", "work"]);
    assert!(started.status.success(), "{}", stderr(&started));
    let ran = keyward_with(&["exec", "work", "--", "true"]);
    assert!(ran.status.success(), "{}", stderr(&ran));
    assert!(keyward_with(&["session", "stop", "work"]).status.success());
    let text = std::fs::read_to_string(stage.state().join("events.jsonl")).unwrap();
    let job = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let job = job.into_iter().find(|event| event["event"] == "job").unwrap();
    assert_eq!(job["policy"], spawn(&stage)["inputs"]["policy"]["digest"]);
}
