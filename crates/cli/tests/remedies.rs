//! What a hint says works when it is typed as it stands there.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/remedies.rs"]
mod remedies;
mod support;

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use support::{Stage, keyward, stderr, stdout};

/// Whether a command ends by itself, and leaves nothing running.
fn ends(words: &[String]) -> bool {
    // `init` waits for a person to confirm the change.
    let goes_on = ["-f", "--attack", "session", "run", "redact", "init"];
    !words.iter().any(|word| goes_on.contains(&word.as_str()))
}

#[test]
fn commands_that_hints_name_run_as_they_stand_there() {
    let stage = Stage::user();
    assert!(stage.caged("true").status.success());
    let mut ran = std::collections::BTreeSet::new();
    for told in remedies::told() {
        if told.filled || !ends(&told.words) || !ran.insert(told.words.clone()) {
            continue;
        }
        let output = stage.command(keyward()).args(&told.words[1..]).output().unwrap();
        let code = output.status.code();
        assert!(!matches!(code, Some(120 | 125) | None), "{}: {code:?} {}", told.place, stderr(&output));
    }
    assert!(ran.len() > 10, "{ran:?}");
}

/// The command in backquotes that follows some words.
fn hint(text: &str, after: &str) -> String {
    let rest = text.split(after).nth(1).unwrap_or_else(|| panic!("no {after:?} in {text}"));
    rest.split('`').nth(1).unwrap().to_owned()
}

fn paste(stage: &Stage, line: &str) -> std::process::Output {
    let folder = Path::new(keyward()).parent().unwrap();
    let path = format!("{}:/usr/bin:/bin", folder.display());
    stage.command("sh").args(["-c", line]).env("PATH", path).output().unwrap()
}

#[test]
fn a_file_that_was_imported_can_have_its_values_taken_out_later() {
    let stage = Stage::user();
    let file = stage.project_file(".env", "DEPLOY_TOKEN=canary-value-1\nPORT=80\n");
    stage.command(keyward()).args(["secret", "set", "x", "--identity", "file"]).output().unwrap();
    let first = paste(&stage, "keyward secret import .env");
    assert!(first.status.success(), "{}", stderr(&first));
    let line = hint(&stdout(&first), "still holds them; ");
    let second = paste(&stage, &line);
    assert!(second.status.success(), "{line}: {}", stderr(&second));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "DEPLOY_TOKEN=store://deploy-token\nPORT=80\n");
    // Another value under the same name is not taken for it, and stays.
    stage.project_file(".env", "DEPLOY_TOKEN=canary-value-2\n");
    let other = paste(&stage, "keyward secret import --blank .env");
    assert!(!other.status.success(), "{}", stdout(&other));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "DEPLOY_TOKEN=canary-value-2\n");
}

#[test]
fn hints_for_a_read_only_home_lead_to_a_run() {
    let stage = Stage::user();
    std::fs::set_permissions(stage.home(), PermissionsExt::from_mode(0o555)).unwrap();
    let elsewhere = stage.elsewhere();
    let run = |variables: &[&str]| {
        let mut command = stage.keyward_run(&[], &["true"]);
        command.envs(variables.iter().map(|name| (*name, elsewhere.join(name)))).output().unwrap()
    };
    let (first, second) = (run(&[]), run(&["XDG_STATE_HOME"]));
    assert!(stderr(&first).contains("set XDG_STATE_HOME"), "{}", stderr(&first));
    assert!(stderr(&second).contains("set XDG_CACHE_HOME"), "{}", stderr(&second));
    let third = run(&["XDG_STATE_HOME", "XDG_CACHE_HOME"]);
    assert!(third.status.success(), "{}", stderr(&third));
}
