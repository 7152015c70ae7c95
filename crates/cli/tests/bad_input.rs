//! Bad input and bad surroundings: each ends in two lines that say the fact and the way on, the right exit code, and no command run.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Command, Output};
use support::{Stage, keyward, stderr, stdout};

/// Two lines, this exit code, these words, and nothing was run.
#[track_caller]
fn refused(output: &Output, code: i32, words: &str) {
    let told = stderr(output);
    assert_eq!(output.status.code(), Some(code), "{told}");
    assert!(told.contains(words), "{told}");
    assert_eq!(told.lines().count(), 2, "{told}");
    assert_eq!(stdout(output), "");
    assert!(!told.contains("panicked"), "{told}");
}

fn run(stage: &Stage) -> Output {
    stage.keyward_run(&[], &["echo", "ran"]).output().unwrap()
}

fn with_policy(content: &[u8]) -> (Stage, Output) {
    let stage = Stage::user();
    let path = stage.home_file(".config/keyward/policy.toml", "");
    std::fs::write(path, content).unwrap();
    let output = run(&stage);
    (stage, output)
}

#[test]
fn a_policy_of_ten_megabytes_is_refused_before_it_is_read() {
    let (_stage, output) = with_policy(&b"# a comment that goes on\n".repeat(420_000));
    refused(&output, 120, "larger than 1 MiB");
}

#[test]
fn a_policy_with_an_unknown_key_names_the_nearest_one_with_its_place() {
    let (_stage, output) = with_policy(b"version = 1\n\n[limits]\nmemroy = \"1G\"\n");
    refused(&output, 120, "policy.toml:4:1: there is no key \"limits.memroy\"");
    assert!(stderr(&output).contains("did you mean \"limits.memory\""), "{}", stderr(&output));
}

#[test]
fn a_policy_that_is_not_utf8_or_not_toml_says_where() {
    let (_stage, output) = with_policy(b"version = 1\nfloor = \"\xff\"\n");
    refused(&output, 120, "policy.toml:2:10: the file is not UTF-8 from here on");
    let (_stage, output) = with_policy(b"version = 1\nfloor = \n");
    assert_eq!(output.status.code(), Some(120));
    assert!(stderr(&output).contains("policy.toml:2:"), "{}", stderr(&output));
}

/// As an unprivileged user: root's files are everybody's to obey.
#[test]
fn a_policy_that_others_can_change_is_refused() {
    let stage = Stage::user();
    let path = stage.home_file(".config/keyward/policy.toml", "version = 1\n");
    let mode = |mode| std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
    for open in [0o666, 0o602] {
        mode(open);
        refused(&run(&stage), 120, "policy.toml can be changed by other users");
    }
    let told = stderr(&run(&stage));
    let remedy = told.split('`').nth(1).unwrap();
    assert!(remedy.starts_with("chmod go-w "), "{told}");
    assert!(stage.bare(remedy).status.success(), "{remedy}");
    assert!(run(&stage).status.success());
    let secrets = stage.home_file(".config/keyward/secrets.toml", "version = 1\n");
    std::fs::set_permissions(&secrets, PermissionsExt::from_mode(0o666)).unwrap();
    let output = stage.keyward_run(&["--secret", "a=fd"], &["echo", "ran"]).output().unwrap();
    refused(&output, 120, "secrets.toml can be changed by other users");
    // A group of others, and an owner who is neither the caller nor root.
    mode(0o664);
    if support::is_root() {
        std::os::unix::fs::chown(&path, Some(support::USER), Some(100)).unwrap();
        refused(&run(&stage), 120, "policy.toml can be changed by other users");
        std::os::unix::fs::chown(&path, Some(support::USER + 1), Some(0)).unwrap();
        refused(&run(&stage), 120, "policy.toml belongs to another user (54322), who can change it");
        std::os::unix::fs::chown(&path, Some(0), Some(0)).unwrap();
    }
    assert!(run(&stage).status.success());
}

#[test]
fn a_policy_that_cannot_be_read_is_not_taken_for_none() {
    let stage = Stage::user();
    let path = stage.home_file(".config/keyward/policy.toml", "version = 1\n");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o000)).unwrap();
    refused(&run(&stage), 120, "permission denied");
    std::fs::remove_file(&path).unwrap();
    symlink("policy.toml", &path).unwrap();
    refused(&run(&stage), 120, "too many levels of symbolic links");
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    refused(&run(&stage), 120, "not a regular file");
}

#[test]
fn a_pipe_in_the_place_of_a_policy_does_not_hang_the_run() {
    let stage = Stage::user();
    stage.make_folder(&stage.home().join(".config/keyward"));
    let path = stage.home().join(".config/keyward/policy.toml");
    assert!(stage.command("mkfifo").arg(&path).status().unwrap().success());
    refused(&run(&stage), 120, "not a regular file");
}

#[test]
fn a_loop_of_links_in_a_grant_is_an_answer() {
    let stage = Stage::user();
    let link = stage.project().join("loop");
    symlink("loop", &link).unwrap();
    let output = stage.keyward_run(&["--read", "loop"], &["echo", "ran"]).output().unwrap();
    refused(&output, 120, "it does not exist, or is closed to you");
    let output = stage.keyward_run(&["--cwd", "loop"], &["echo", "ran"]).output().unwrap();
    refused(&output, 120, "too many levels of symbolic links");
}

/// A command with the stage's HOME on a small file system of its own, in private mounts: `options` are those of a tmpfs.
fn on_a_disk(stage: &Stage, prepare: &str) -> Output {
    on_a_disk_with(stage, prepare, "run -- echo ran")
}

/// The same with other words for Keyward.
fn on_a_disk_with(stage: &Stage, prepare: &str, words: &str) -> Output {
    assert!(support::is_root(), "this test needs root; run the tests as root, as CI does");
    let script = format!(
        "mount -t tmpfs -o size=64k,mode=0777 none '{home}' && {prepare} && \
         exec setpriv --reuid {user} --regid {user} --clear-groups env HOME='{home}' '{keyward}' {words}",
        home = stage.home().display(),
        user = support::USER,
        keyward = keyward(),
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
    command
        .current_dir(stage.project())
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .output()
        .unwrap()
}

#[test]
fn a_full_disk_means_that_nothing_runs_unrecorded() {
    let stage = Stage::user();
    let home = stage.home().display().to_string();
    let prepare = format!(
        "mkdir -p '{home}/.local/state/keyward' '{home}/.cache/keyward/unknown/cache' && chmod -R 0777 '{home}' && \
         (dd if=/dev/zero of='{home}/full' bs=4k 2>/dev/null; true)"
    );
    refused(&on_a_disk(&stage, &prepare), 125, "no space left on device");
}

#[test]
fn a_full_state_directory_is_named_and_doctor_tells_it() {
    let stage = Stage::user();
    assert!(stage.bare("git init -q .").status.success());
    let home = stage.home().display().to_string();
    let prepare = format!(
        "mkdir -p '{home}/.local/state/keyward' '{home}/.cache/keyward/unknown/cache' && chmod -R 0777 '{home}' && \
         (dd if=/dev/zero of='{home}/full' bs=4k 2>/dev/null; true)"
    );
    let output = on_a_disk(&stage, &prepare);
    refused(&output, 125, "no space left on device");
    let told = stderr(&output);
    assert!(told.contains(&format!("{home}/.local/state/keyward")) && told.contains("make room"), "{told}");
    let doctor = on_a_disk_with(&stage, &prepare, "doctor");
    assert_eq!(doctor.status.code(), Some(125), "{}", stderr(&doctor));
    assert!(stderr(&doctor).contains("no space left on device"), "{}", stderr(&doctor));
}

#[test]
fn a_read_only_disk_means_that_nothing_runs_unrecorded() {
    let stage = Stage::user();
    let home = stage.home().display().to_string();
    let prepare = format!(
        "mkdir -p '{home}/.local/state/keyward' '{home}/.cache/keyward/unknown/cache' && mount -o remount,ro '{home}'"
    );
    refused(&on_a_disk(&stage, &prepare), 125, "read-only file system");
}

#[test]
fn a_disk_that_works_is_the_control() {
    let stage = Stage::user();
    assert_eq!(stdout(&on_a_disk(&stage, "true")), "ran\n");
}
