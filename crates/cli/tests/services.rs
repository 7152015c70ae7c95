//! The second executable: found beside the launcher, trusted as far as the launcher, and told by name if it is not there.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;
use support::{Stage, USER, eventually, refused, stderr, stdout};

const SERVICES: &str = env!("CARGO_BIN_EXE_keyward-services");

/// A quick attack that works outside on every host.
const ONE: [&str; 4] = ["doctor", "--attack", "--only", "a_child_cannot_read_its_parents_environ"];

/// Both programs in a directory of their own, as a package leaves them.
fn installed(stage: &Stage) -> (PathBuf, PathBuf) {
    let folder = stage.elsewhere();
    let (launcher, services) = (folder.join("keyward"), folder.join("keyward-services"));
    for (from, to) in [(support::keyward(), &launcher), (SERVICES, &services)] {
        fs::copy(from, to).unwrap();
        set_mode(to, 0o755);
    }
    (launcher, services)
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

fn attack(stage: &Stage, launcher: &Path) -> Command {
    let mut command = stage.command(launcher);
    command.args(ONE);
    command
}

#[test]
fn both_programs_work_from_any_directory() {
    let stage = Stage::user();
    let (launcher, _) = installed(&stage);
    let output = attack(&stage, &launcher).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stdout(&output).contains("1 attack: 1 worked outside, 0 inside"), "{}", stdout(&output));
}

#[test]
fn a_launcher_alone_says_what_is_missing_and_still_runs_commands() {
    let stage = Stage::user();
    let (launcher, services) = installed(&stage);
    fs::remove_file(&services).unwrap();
    let output =
        refused(attack(&stage, &launcher).output().unwrap(), 125, "there is no such file beside keyward");
    assert!(stderr(&output).contains("cargo install --locked --path crates/cli"), "{}", stderr(&output));
    let output = stage.command(&launcher).args(["run", "--", "echo", "ran"]).output().unwrap();
    assert_eq!(stdout(&output), "ran\n", "{}", stderr(&output));
    let output = stage.command(&launcher).arg("doctor").output().unwrap();
    assert!(stdout(&output).contains("services: cannot start "), "{}", stdout(&output));
    assert_eq!(output.status.code(), Some(0), "a run needs no second program");
}

#[test]
fn what_others_can_replace_is_not_started() {
    let stage = Stage::user();
    let (launcher, services) = installed(&stage);
    set_mode(&services, 0o757);
    refused(attack(&stage, &launcher).output().unwrap(), 125, "more users may write to it than to keyward");
    set_mode(&services, 0o755);
    if support::is_root() {
        chown(&launcher, Some(USER), Some(USER)).unwrap();
        chown(&services, Some(USER + 1), Some(USER)).unwrap();
        refused(
            attack(&stage, &launcher).output().unwrap(),
            125,
            "it belongs to another user than keyward does",
        );
    }
    fs::remove_file(&services).unwrap();
    fs::create_dir(&services).unwrap();
    refused(attack(&stage, &launcher).output().unwrap(), 125, "it is not a regular file");
}

#[test]
fn another_version_is_refused_by_both_sides() {
    let stage = Stage::user();
    let output =
        stage.command(SERVICES).args(["0.0.9", "attack", "/usr/bin/keyward", "words"]).output().unwrap();
    refused(output, 125, "keyward is version 0.0.9, and keyward-services beside it is version 0.1.0");
    let (launcher, services) = installed(&stage);
    let output = stage.command(&launcher).arg("doctor").output().unwrap();
    assert!(stdout(&output).contains("services: keyward-services 0.1.0"), "{}", stdout(&output));
    fs::copy("/bin/echo", &services).unwrap();
    let output = stage.command(&launcher).args(["doctor", "--json"]).output().unwrap();
    let found: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(found["services"]["available"], false, "{found}");
    assert_eq!(found["services"]["trouble"]["code"], "services-unusable", "{found}");
}

#[test]
fn a_person_who_types_it_is_led_to_the_commands() {
    let stage = Stage::user();
    for arguments in [&[][..], &["--help"], &["attack"]] {
        let output = stage.command(SERVICES).args(arguments).output().unwrap();
        refused(output, 120, "keyward-services is not a command of its own: keyward starts it");
    }
}

#[test]
fn no_variable_of_the_callers_reaches_it() {
    let stage = Stage::user();
    let mut command = stage.command(support::keyward());
    command
        .args(["doctor", "--attack"])
        .env("CANARY_API_KEY", "sk-canary-0123456789abcdef")
        .env("TMPDIR", "/var/tmp");
    let mut running = command.stdout(std::process::Stdio::null()).spawn().unwrap();
    let read = |name: &str| fs::read(format!("/proc/{}/{name}", running.id())).unwrap_or_default();
    let became = eventually(|| read("cmdline").starts_with(b"keyward-services\0"));
    let environment = read("environ");
    running.kill().unwrap();
    running.wait().unwrap();
    assert!(became, "the launcher's process goes on as the second program");
    assert_eq!(String::from_utf8_lossy(&environment), "TMPDIR=/var/tmp\0");
}

#[test]
fn an_unknown_attack_is_told_in_the_form_that_was_asked_for() {
    let stage = Stage::user();
    let ask = |more: &[&str]| {
        let mut command = stage.command(support::keyward());
        command.args(["doctor", "--attack", "--only", "nosuch"]).args(more).output().unwrap()
    };
    refused(ask(&[]), 120, "no attack has the name nosuch");
    let told: serde_json::Value = serde_json::from_str(stderr(&ask(&["--json"])).trim_end()).unwrap();
    assert_eq!(told["code"], "usage", "{told}");
}

#[test]
fn a_full_disk_is_no_success() {
    let stage = Stage::user();
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = attack(&stage, Path::new(support::keyward())).stdout(full).output().unwrap();
    refused(output, 125, "cannot write the answer: no space left on device");
}
