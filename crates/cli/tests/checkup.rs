//! `keyward doctor -p`: the tool itself is asked, in the cage, and what is missing is told apart.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::process::Output;
use support::{Stage, keyward, stderr, stdout};

const POLICY: &str = "version = 1
[profiles.builder]
trust = \"executor\"
home.tools = [\"gpg\"]
[profiles.stranger]
home.tools = [\"gpg\"]
[profiles.nobody]
trust = \"executor\"
";

fn stage() -> Stage {
    let stage = Stage::user();
    stage.home_file(".config/keyward/policy.toml", POLICY);
    stage
}

/// A key of gpg's, as its login.
fn with_key(stage: &Stage, folder: &str) {
    let home = stage.home().join(folder);
    stage.make_folder(&home);
    std::fs::set_permissions(&home, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let make = "gpg --batch --passphrase '' --quick-gen-key ann@example.test default default never; gpgconf --kill all";
    let made = stage.command("sh").args(["-c", make]).env("GNUPGHOME", &home).output().unwrap();
    assert!(made.status.success(), "{}", stderr(&made));
}

fn doctor(stage: &Stage, profile: &str) -> Output {
    stage.command(keyward()).args(["doctor", "-p", profile]).output().unwrap()
}

#[track_caller]
fn says(output: &Output, code: i32, words: &[&str]) {
    let said = stdout(output);
    assert_eq!(output.status.code(), Some(code), "{said}{}", stderr(output));
    for word in words {
        assert!(said.contains(word), "{word}: {said}");
    }
}

#[test]
fn a_login_that_works_in_the_cage_is_said_to() {
    let stage = stage();
    with_key(&stage, ".gnupg");
    says(&doctor(&stage, "builder"), 0, &["profile builder, class executor", "gpg        works"]);
}

#[test]
fn a_tool_that_is_not_logged_in_anywhere_is_told_from_one_that_is_not_shown() {
    let stage = stage();
    says(&doctor(&stage, "builder"), 1, &["gpg        not logged in", "log in outside"]);
    assert!(!stage.home().join(".gnupg").exists(), "asking must not make files");
    with_key(&stage, ".gnupg");
    says(&doctor(&stage, "nobody"), 0, &["login not exposed: ", "gpg", "keyward home add"]);
    says(
        &doctor(&stage, "stranger"),
        1,
        &["gpg        login not exposed", "profiles.stranger.trust = \"executor\""],
    );
}

#[test]
fn a_tool_that_nobody_logs_in_with_is_shown_and_no_line_takes_a_tool_away() {
    let stage = Stage::user();
    stage.home_file(
        ".config/keyward/policy.toml",
        "version = 1\n[profiles.rust]\ntrust = \"executor\"\nhome.tools = [\"rustup\"]\n[profiles.low]\nhome.tools = [\"gpg\"]\n",
    );
    says(&doctor(&stage, "rust"), 0, &["rustup     shown  (it has no login)"]);
    stage.home_file(".netrc", "machine example.test login a password b\n");
    // What is withheld is still named.
    says(&doctor(&stage, "low"), 1, &["home.tools = [\"gpg\", "]);
}

#[test]
fn a_login_that_is_shown_and_not_found_is_told_so() {
    let stage = stage();
    with_key(&stage, "elsewhere");
    stage.make_folder(&stage.home().join(".gnupg"));
    let output = stage
        .command(keyward())
        .args(["doctor", "-p", "builder"])
        .env("GNUPGHOME", stage.home().join("elsewhere"))
        .output()
        .unwrap();
    says(&output, 1, &["gpg        exposed but not found", "keyward home show -p builder"]);
}

#[test]
fn the_answer_as_json_has_the_line_to_add() {
    let stage = stage();
    with_key(&stage, ".gnupg");
    let output = stage.command(keyward()).args(["doctor", "-p", "nobody", "--json"]).output().unwrap();
    let value: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let tools = value["tools"].as_array().unwrap();
    let gpg = tools.iter().find(|row| row["tool"] == "gpg").unwrap();
    assert_eq!((&value["v"], &gpg["verdict"]), (&1.into(), &"login-not-exposed".into()));
    assert!(gpg["remedy"].as_str().unwrap().starts_with("profiles.nobody.home.tools = [\"gpg\"]"), "{gpg}");
}

/// A stand-in for a tool that waits for somebody.
#[test]
fn a_tool_that_does_not_answer_is_not_waited_for_for_ever() {
    let stage = stage();
    let folder = stage.elsewhere();
    let tool = stage.file(&folder.join("gpg"), "#!/bin/sh\nsleep 1000\n");
    std::fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    stage.home_file(".gnupg/pubring.kbx", "x");
    let output = stage
        .command(keyward())
        .args(["doctor", "-p", "builder"])
        .env("PATH", format!("{}:/usr/bin:/bin", folder.display()))
        .output()
        .unwrap();
    says(&output, 1, &["gpg        no answer"]);
}

#[test]
fn an_unknown_profile_is_named() {
    let output = doctor(&stage(), "bulider");
    assert_eq!(output.status.code(), Some(120));
    assert!(stderr(&output).contains("builder"), "{}", stderr(&output));
}
