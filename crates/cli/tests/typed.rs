//! What people type first: a command without `--`, without `run`, with a profile's name, with a slip of the finger.
#![allow(clippy::unwrap_used)]

mod support;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;
use support::{Stage, keyward, stderr, stdout};

/// `keyward` with these arguments, and directories before the usual PATH.
fn typed(stage: &Stage, path: &[&Path], arguments: &[&str]) -> Output {
    let usual = [Path::new("/usr/bin"), Path::new("/bin")];
    let path = std::env::join_paths(path.iter().chain(&usual)).unwrap();
    stage.command(keyward()).env("PATH", path).args(arguments).output().unwrap()
}

/// A script that says which one it is.
fn script(stage: &Stage, path: &Path) -> PathBuf {
    stage.file(path, "#!/bin/sh\necho \"$0 ran with $*\"\n");
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    path.parent().unwrap().into()
}

fn profiles(stage: &Stage, text: &str) {
    stage.home_file(".config/keyward/policy.toml", &format!("version = 1\n{text}"));
}

#[test]
fn without_dashes_a_flag_behind_the_command_is_the_commands() {
    let stage = Stage::user();
    let output = typed(&stage, &[], &["run", "--net", "none", "echo", "--net", "open", "--", "-h", "--json"]);
    assert_eq!(stdout(&output), "--net open -- -h --json\n", "{}", stderr(&output));
    let output = typed(&stage, &[], &["run", "--json", "sh", "-c", "exit 3"]);
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("\"outcome\":\"exited\""), "{}", stderr(&output));
    let output = typed(&stage, &[], &["explain", "--json", "echo", "--json"]);
    assert!(stdout(&output).contains("\"--json\""), "{}", stderr(&output));
    let output = typed(&stage, &[], &["check", "rm", "-rf", "/"]);
    assert!(stdout(&output).starts_with("forbid: "), "{}", stdout(&output));
}

#[test]
fn a_program_runs_without_the_word_run_and_with_the_profile_of_its_name() {
    let stage = Stage::user();
    profiles(&stage, "[profiles.printenv]\nenv.set = { FROM = \"the profile\" }\n");
    for arguments in [&["printenv", "FROM"][..], &["--", "printenv", "FROM"]] {
        let output = typed(&stage, &[], arguments);
        assert_eq!(stdout(&output), "the profile\n", "{arguments:?}: {}", stderr(&output));
    }
    // Control: without the name of the profile there is no such variable.
    let output = typed(&stage, &[], &["--", "/usr/bin/printenv", "FROM"]);
    assert_eq!((stdout(&output).as_str(), output.status.code()), ("", Some(1)), "{}", stderr(&output));
    // It is a cage: HOME is another one.
    stage.home_file("private", "");
    let output = typed(&stage, &[], &["ls", "-A", stage.home().to_str().unwrap()]);
    assert!(output.status.success() && !stdout(&output).contains("private"), "{}", stderr(&output));
}

#[test]
fn a_subcommand_wins_over_a_program_and_a_profile_of_its_name() {
    let stage = Stage::user();
    profiles(&stage, "[profiles.ps]\n");
    let elsewhere = script(&stage, &stage.elsewhere().join("ps"));
    let output = typed(&stage, &[&elsewhere], &["ps"]);
    assert!(stdout(&output).starts_with("no session"), "{}", stdout(&output));
    // Behind dashes it is a command.
    let flags = ["--", "ps", "-o", "comm=", "-p", "1"];
    let output = typed(&stage, &[], &flags);
    assert_eq!(stdout(&output), "keyward:init\n", "{}", stderr(&output));
}

#[test]
fn a_slip_of_the_finger_runs_no_program_of_the_project() {
    let stage = Stage::user();
    stage.make_folder(&stage.project().join(".git"));
    let project = stage.project();
    let below = script(&stage, &project.join("tools/bin/sesion"));
    script(&stage, &project.join("sesion"));
    let outside = script(&stage, &stage.elsewhere().join("sesion"));
    let link = stage.elsewhere().join("link");
    std::os::unix::fs::symlink(&below, &link).unwrap();
    let found = [
        vec![below.as_path()],
        vec![project.as_path()],
        vec![link.as_path()],
        // A program elsewhere does not hide one of the project: the cage may show only the latter.
        vec![outside.as_path(), below.as_path()],
    ];
    for path in found {
        let output = typed(&stage, &path, &["sesion", "start"]);
        assert_eq!((stdout(&output).as_str(), output.status.code()), ("", Some(120)), "{path:?}");
        assert!(stderr(&output).contains("belongs to this directory"), "{path:?}: {}", stderr(&output));
    }
    // A file of PATH may itself be a link into the project.
    let beside = stage.elsewhere().join("beside");
    stage.make_folder(&beside);
    std::os::unix::fs::symlink(below.join("sesion"), beside.join("sesion")).unwrap();
    let output = typed(&stage, &[&beside], &["sesion", "start"]);
    assert_eq!((stdout(&output).as_str(), output.status.code()), ("", Some(120)), "{}", stderr(&output));
    // A repository in the project is a project of its own, and a command can make one.
    stage.make_folder(&project.join("vendor/lib/.git"));
    let nested = project.join("vendor/lib");
    let path = format!("{}:/usr/bin:/bin", below.display());
    let mut command = stage.command(keyward());
    let output = command.current_dir(nested).env("PATH", path).args(["sesion", "start"]).output().unwrap();
    assert_eq!((stdout(&output).as_str(), output.status.code()), ("", Some(120)), "{}", stderr(&output));
    // Relative entries of PATH mean the current directory.
    for path in [Path::new(""), Path::new("."), Path::new("tools/bin")] {
        let output = typed(&stage, &[path], &["sesion", "start"]);
        assert_eq!((stdout(&output).as_str(), output.status.code()), ("", Some(120)), "{path:?}");
        assert!(stderr(&output).contains("`keyward session` is the nearest"), "{}", stderr(&output));
    }
    let output = typed(&stage, &[], &["./sesion"]);
    assert_eq!((stdout(&output).as_str(), output.status.code()), ("", Some(120)));
    // Control: with `run` it is what was asked for.
    let output = typed(&stage, &[&below], &["run", "sesion", "start"]);
    assert!(stdout(&output).contains("ran with start"), "{}", stderr(&output));
}

#[test]
fn in_a_home_the_programs_of_the_user_are_run() {
    let stage = Stage::user();
    let own = script(&stage, &stage.home().join(".cargo/bin/mine"));
    let mut command = stage.command(keyward());
    command.current_dir(stage.home()).env("PATH", std::env::join_paths([own, "/usr/bin".into()]).unwrap());
    let output = command.args(["mine", "x"]).output().unwrap();
    assert!(!stderr(&output).contains("belongs to this directory"), "{}", stderr(&output));
}

#[test]
fn a_name_that_is_not_text_is_told_and_not_run() {
    let stage = Stage::user();
    let name = OsStr::from_bytes(b"ses\xff\x1b[2J");
    let output = stage.command(keyward()).arg(name).output().unwrap();
    assert_eq!(output.status.code(), Some(120));
    assert!(stderr(&output).contains("is not a subcommand") && !stderr(&output).contains('\x1b'));
}
