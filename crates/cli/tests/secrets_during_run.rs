//! Secret files that somebody outside replaces or makes while a command runs. A notice and not a wall: what is tested is that it is
//! noticed, not how fast.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use support::{Stage, after_a_sign, eventually, keyward, ran, stdout};

const OLD: &str = "canary-old-7781";
const NEW: &str = "canary-new-7782";

/// A command that says that it is up, waits for a file called `go`, and reads `path` until there is no secret in it any more, or for long.
fn reader(path: &str) -> String {
    format!(
        "echo up; while [ ! -e go ]; do sleep 0.02; done; \
         i=0; while grep -q canary {path} 2>/dev/null && [ $i -lt 400 ]; do sleep 0.025; i=$((i+1)); done; echo read; cat {path} 2>&1"
    )
}

/// Starts a command and waits until it is up.
fn started(mut command: Command) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert_eq!(line, "up\n");
    (child, out)
}

/// What it printed after that, on both streams.
fn ended((mut child, mut out): (Child, BufReader<std::process::ChildStdout>)) -> (String, String) {
    let (mut printed, mut told) = (String::new(), String::new());
    out.read_to_string(&mut printed).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    child.wait().unwrap();
    (printed, told)
}

/// As an editor saves: a new file beside, then a rename over the old one.
fn save(stage: &Stage, path: &Path, content: &str) {
    let beside = path.with_extension("tmp");
    stage.file(&beside, content);
    std::fs::rename(&beside, path).unwrap();
}

fn outcome(told: &str) -> Value {
    serde_json::from_str(told.lines().last().unwrap()).expect("no outcome")
}

/// The control: with a bind mount alone the mask falls off, and the new secret is there for good.
#[test]
fn a_mask_that_is_only_a_mount_falls_off_when_the_file_is_replaced() {
    let stage = Stage::user();
    let path = stage.project_file(".env", OLD);
    let script =
        "mount --bind /dev/null .env && echo up; while [ ! -e go ]; do sleep 0.02; done; sleep 0.3; cat .env";
    let mut command = stage.command("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", script]);
    let running = started(command);
    save(&stage, &path, NEW);
    stage.project_file("go", "");
    let (printed, told) = ended(running);
    assert_eq!(printed, NEW, "{told}");
}

fn is_hidden_again(stage: &Stage) {
    let path = stage.project_file("deploy/.env", OLD);
    let running = started(stage.keyward_run(&["--json"], &["sh", "-c", &reader("deploy/.env")]));
    save(stage, &path, NEW);
    stage.project_file("go", "");
    let (printed, told) = ended(running);
    assert!(printed.contains("read\n") && !printed.contains("canary"), "{printed}{told}");
    assert_eq!(outcome(&told)["project"]["hidden_later"], serde_json::json!(["deploy/.env"]), "{told}");
    // Outside it is what the editor saved.
    assert_eq!(std::fs::read_to_string(&path).unwrap(), NEW);
}

#[test]
fn a_secret_that_an_editor_saves_is_hidden_again() {
    is_hidden_again(&Stage::user());
}

#[test]
fn a_secret_of_roots_that_an_editor_saves_is_hidden_again() {
    is_hidden_again(&Stage::root());
}

#[test]
fn a_secret_that_is_saved_again_and_again_stays_hidden_at_the_end() {
    let stage = Stage::user();
    let path = stage.project_file(".env", OLD);
    let running = started(stage.keyward_run(&[], &["sh", "-c", &reader(".env")]));
    for _ in 0..50 {
        save(&stage, &path, NEW);
    }
    std::fs::remove_file(&path).unwrap();
    stage.file(&path, NEW);
    stage.project_file("go", "");
    let (printed, told) = ended(running);
    assert!(printed.contains("read\n") && !printed.contains("canary"), "{printed}{told}");
    assert!(told.contains("a secret file was replaced or appeared, and is hidden since: .env"), "{told}");
}

#[test]
fn a_hidden_folder_that_is_swapped_is_hidden_again() {
    let stage = Stage::user();
    stage.project_file("private/notes", OLD);
    stage.project_file("other/notes", NEW);
    let running = started(stage.keyward_run(&["--hide", "private"], &["sh", "-c", &reader("private/notes")]));
    std::fs::rename(stage.project().join("private"), stage.project().join("elsewhere")).unwrap();
    std::fs::rename(stage.project().join("other"), stage.project().join("private")).unwrap();
    stage.project_file("go", "");
    let (printed, told) = ended(running);
    assert!(printed.contains("read\n") && !printed.contains("canary"), "{printed}{told}");
}

#[test]
fn what_the_user_named_is_hidden_when_it_appears_whoever_made_it() {
    let stage = Stage::user();
    stage.home_file(".config/keyward/policy.toml", "version = 1\nfiles.hide = [\"*.sekret\"]\n");
    let running = started(stage.keyward_run(&[], &["sh", "-c", &reader("new.sekret")]));
    stage.project_file("new.sekret", NEW);
    stage.project_file("go", "");
    let (printed, told) = ended(running);
    assert!(printed.contains("read\n") && !printed.contains("canary"), "{printed}{told}");
}

/// `cp .env.example .env && npm start` has to work: a name that only looks secret to us may be the command's own.
#[test]
fn what_the_command_makes_itself_under_a_secret_name_stays_readable_and_is_told() {
    let stage = Stage::user();
    stage.project_file(".env.example", NEW);
    let output = stage.caged_with(&["--json"], "sleep 0.1; cp .env.example .env; sleep 0.3; cat .env");
    assert_eq!(stdout(&output), NEW);
    let told = support::stderr(&output);
    assert_eq!(outcome(&told)["project"]["appeared"], serde_json::json!([".env"]), "{told}");
    // The next run hides it, as it hides whatever is there.
    assert!(!stdout(&ran(stage.caged(&after_a_sign("cat .env")))).contains(NEW));
    // And what is no secret by the user's word is not told.
    let output = stage.caged_with(&["--json", "--show", "keys"], "mkdir keys; touch keys/a.key b.key");
    assert_eq!(outcome(&support::stderr(&output))["project"]["appeared"], serde_json::json!(["b.key"]));
}

/// A link that the command puts on the way to a hidden file must not make us mask something else.
#[test]
fn hiding_again_follows_no_link_of_the_commands() {
    let stage = Stage::user();
    stage.home_file(".config/keyward/policy.toml", "version = 1\nfiles.hide = [\"*.sekret\"]\n");
    stage.project_file("target/plain", OLD);
    let script = "echo up; while [ ! -e go ]; do ln -sfn /etc d; rm -rf d; mkdir d; touch d/a.sekret; done; sleep 0.1; cat target/plain; \
                  cat /etc/hostname >/dev/null && ls /etc >/dev/null && echo fine";
    let running = started(stage.keyward_run(&[], &["sh", "-c", script]));
    std::thread::sleep(std::time::Duration::from_millis(500));
    stage.project_file("go", "");
    let (printed, told) = ended(running);
    assert!(printed.contains(OLD) && printed.contains("fine"), "{printed}{told}");
}

#[test]
fn nobody_is_left_of_those_who_enter_the_cage() {
    let stage = Stage::user();
    let path = stage.project_file(".env", OLD);
    let running = started(stage.keyward_run(&[], &["sh", "-c", &reader(".env")]));
    for _ in 0..20 {
        save(&stage, &path, NEW);
    }
    stage.project_file("go", "");
    let pid = running.0.id();
    let children = || std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    assert!(eventually(|| children().split_whitespace().count() <= 1), "{}", children());
    ended(running);
    assert!(support::processes_with(keyward()).iter().all(|&other| other != pid));
}
