//! Project files above the project: what a command writes into its project does not make the next run forget them.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::os::unix::fs::chown;
use std::path::Path;
use std::process::Output;
use support::{Stage, USER, is_root, keyward, stderr, stdout};

const PARENT: &str = "version = 1\nfiles.hide = [\"sub/plan.txt\", \"*.draft\"]\nfiles.protect = \"strict\"\nlimits.pids = 99\n";

fn stage() -> Stage {
    let stage = Stage::user();
    stage.project_file(".keyward.toml", PARENT);
    stage.project_file("sub/plan.txt", "PLAN\n");
    stage.project_file("sub/a.draft", "DRAFT\n");
    stage.project_file("sub/open.txt", "OPEN\n");
    stage
}

/// `keyward` in a directory below the project.
fn below(stage: &Stage, directory: &str, arguments: &[&str]) -> Output {
    let mut command = stage.command(keyward());
    command.current_dir(stage.project().join(directory)).args(arguments).output().unwrap()
}

const READ: &[&str] = &["run", "--gate", "yolo", "--", "sh", "-c", "cat open.txt plan.txt a.draft"];

#[track_caller]
fn still_hidden(stage: &Stage, case: &str) {
    let output = below(stage, "sub", READ);
    assert!(stdout(&output).starts_with("OPEN\n"), "{case}: the cage did not start: {}", stderr(&output));
    assert_eq!(stdout(&output), "OPEN\n", "{case}: {}", stderr(&output));
    let shown = stdout(&below(stage, "sub", &["policy", "show"]));
    let parent = stage.project().join(".keyward.toml").display().to_string();
    for line in [
        format!("protect = \"strict\" # {parent}:3\n"),
        format!("pids = 99 # {parent}:4\n"),
        format!("\"*.draft\", # {parent}:2\n"),
    ] {
        assert!(shown.contains(&line), "{case}: {line} is not in\n{shown}");
    }
}

#[test]
fn a_mark_that_a_command_makes_below_does_not_lose_what_the_parent_says() {
    // The control: without the parent's file, all of it can be read there.
    let control = stage();
    std::fs::remove_file(control.project().join(".keyward.toml")).unwrap();
    assert_eq!(stdout(&below(&control, "sub", READ)), "OPEN\nPLAN\nDRAFT\n");
    for (case, makes) in [
        ("nothing", "true"),
        (".hg", "mkdir sub/.hg"),
        (".jj", "mkdir sub/.jj"),
        (".git", "mkdir sub/.git"),
        ("an empty policy", ": > sub/.keyward.toml"),
        ("a policy", "echo 'version = 1' > sub/.keyward.toml"),
        ("a policy that is looser", "printf 'version = 1\\nlimits.pids = 500\\n' > sub/.keyward.toml"),
    ] {
        let stage = stage();
        // Notice, so that the mark can be made at all.
        std::fs::write(stage.project().join(".keyward.toml"), PARENT.replace("strict", "notice")).unwrap();
        let made = stage.caged(makes);
        assert!(made.status.success(), "{case}: {}", stderr(&made));
        std::fs::write(stage.project().join(".keyward.toml"), PARENT).unwrap();
        still_hidden(&stage, case);
        // Also where it stays, whatever the end of a run takes out of the tree.
        let outside = stage.bare(makes);
        assert!(outside.status.success() || makes.starts_with("mkdir"), "{case}: {}", stderr(&outside));
        still_hidden(&stage, case);
    }
}

#[test]
fn every_way_to_a_directory_finds_the_files_above_it() {
    let stage = stage();
    std::fs::create_dir(stage.project().join("sub/.hg")).unwrap();
    let by_flag = below(
        &stage,
        ".",
        &["run", "--gate", "yolo", "--cwd", "sub", "--", "sh", "-c", "cat open.txt plan.txt a.draft"],
    );
    assert_eq!(stdout(&by_flag), "OPEN\n", "{}", stderr(&by_flag));
    let link = stage.elsewhere().join("way");
    std::os::unix::fs::symlink(stage.project().join("sub"), &link).unwrap();
    let mut by_link = stage.command(keyward());
    let by_link = by_link.current_dir(&link).env("PWD", &link).args(READ).output().unwrap();
    assert_eq!(stdout(&by_link), "OPEN\n", "{}", stderr(&by_link));
    let explained = stdout(&below(&stage, "sub", &["explain", "-v", "--", "true"]));
    let parent = stage.project().join(".keyward.toml").display().to_string();
    assert!(explained.contains(&format!("{parent}:2")), "{explained}");
    let why = below(&stage, "sub", &["why", "read", "plan.txt"]);
    assert!(stdout(&why).contains(&format!("{parent}:2")), "{}{}", stdout(&why), stderr(&why));
    // A session does not take strict protection, also not from a file above.
    let refused = below(&stage, "sub", &["session", "start", "--name", "w"]);
    assert!(!refused.status.success() && stderr(&refused).contains("strict"), "{}", stderr(&refused));
    std::fs::write(stage.project().join(".keyward.toml"), PARENT.replace("strict", "notice")).unwrap();
    let started = below(&stage, "sub", &["session", "start", "--name", "w"]);
    assert!(started.status.success(), "{}", stderr(&started));
    let read = below(&stage, "sub", &["exec", "w", "--", "sh", "-c", "cat open.txt plan.txt a.draft; true"]);
    below(&stage, "sub", &["session", "stop", "w"]);
    assert_eq!(stdout(&read), "OPEN\n", "{}", stderr(&read));
}

#[test]
fn a_mistake_above_is_an_error_with_its_line() {
    let stage = stage();
    std::fs::create_dir(stage.project().join("sub/.hg")).unwrap();
    let parent = stage.project_file(".keyward.toml", "version = 1\nnet.mode = \"opne\"\n");
    for arguments in [
        &["run", "--", "true"][..],
        &["explain", "--", "true"],
        &["policy", "show"],
        &["why", "read", "x"],
        &["doctor", "--profile", "x"],
    ] {
        let output = below(&stage, "sub", arguments);
        assert_eq!(output.status.code(), Some(120), "{arguments:?}: {}", stderr(&output));
        let at = format!("{}:2:12:", parent.display());
        if arguments[0] != "doctor" {
            assert!(stderr(&output).contains(&at), "{arguments:?}: {}", stderr(&output));
        }
    }
    // A link is not followed, so that what it leads to is not quoted.
    std::fs::remove_file(&parent).unwrap();
    let secret = stage.home_file("secret.toml", "password-of-ann = 1\n");
    std::os::unix::fs::symlink(secret, &parent).unwrap();
    let output = below(&stage, "sub", &["run", "--", "true"]);
    assert_eq!(output.status.code(), Some(120), "{}", stderr(&output));
    assert!(!stderr(&output).contains("password-of-ann"), "{}", stderr(&output));
}

#[test]
fn a_file_of_another_user_above_is_named_and_not_obeyed() {
    assert!(
        is_root(),
        "this test needs root to make a file of another user; run the tests as root, as CI does"
    );
    let stage = stage();
    std::fs::create_dir(stage.project().join("sub/.hg")).unwrap();
    let parent = stage.project().join(".keyward.toml");
    chown(&parent, Some(USER + 1), Some(USER + 1)).unwrap();
    assert_eq!(stdout(&below(&stage, "sub", READ)), "OPEN\nPLAN\nDRAFT\n");
    let note = format!("{} is not obeyed: it belongs to another user ({})", parent.display(), USER + 1);
    for arguments in [&["explain", "--", "true"][..], &["policy", "show"]] {
        let said = stdout(&below(&stage, "sub", arguments));
        assert!(said.contains(&note), "{arguments:?}: {said}");
    }
    // Nor can a link of another user make the run fail.
    std::fs::remove_file(&parent).unwrap();
    std::os::unix::fs::symlink("/etc/shadow", &parent).unwrap();
    std::os::unix::fs::lchown(&parent, Some(USER + 1), Some(USER + 1)).unwrap();
    assert_eq!(stdout(&below(&stage, "sub", READ)), "OPEN\nPLAN\nDRAFT\n");
    // Root's is obeyed.
    std::fs::remove_file(&parent).unwrap();
    std::fs::write(&parent, PARENT).unwrap();
    still_hidden(&stage, "of root");
}

#[test]
fn a_file_in_home_or_above_it_does_not_count() {
    let stage = stage();
    let hide = "version = 1\nfiles.hide = [\"*.txt\"]\n";
    stage.home_file(".keyward.toml", hide);
    let top = stage.home().parent().unwrap().join(".keyward.toml");
    stage.file(&top, hide);
    stage.home_file("work/open.txt", "OPEN\n");
    let mut command = stage.command(keyward());
    let output = command
        .current_dir(stage.home().join("work"))
        .args(["run", "--", "cat", "open.txt"])
        .output()
        .unwrap();
    assert_eq!(stdout(&output), "OPEN\n", "{}", stderr(&output));
    // The control: beside HOME the same file holds HOME, and does not count there either.
    let beside = stage.keyward_run(&[], &["cat", "sub/open.txt"]).output().unwrap();
    assert_eq!(stdout(&beside), "OPEN\n", "{}", stderr(&beside));
    // The control: one directory below it counts.
    stage.home_file("work/.keyward.toml", hide);
    stage.home_file("work/deep/.hg/x", "");
    stage.home_file("work/deep/open.txt", "OPEN\n");
    let mut command = stage.command(keyward());
    let output = command
        .current_dir(stage.home().join("work/deep"))
        .args(["run", "--", "cat", "open.txt"])
        .output()
        .unwrap();
    assert_eq!(stdout(&output), "", "{}", stderr(&output));
}

#[test]
fn a_grant_above_does_not_let_a_command_change_the_files_there() {
    let stage = stage();
    std::fs::write(stage.project().join(".keyward.toml"), PARENT.replace("strict", "notice")).unwrap();
    std::fs::create_dir(stage.project().join("sub/.hg")).unwrap();
    let parent = stage.project();
    let arguments = |script: &'static str| {
        let write = parent.to_str().unwrap().to_owned();
        ["run", "--gate", "yolo", "--write", &write, "--", "sh", "-c", script].map(String::from)
    };
    let attack = "echo made > ../made; rm -f ../.keyward.toml; mv ../.keyward.toml ../x; echo 'version = 1' > ../.keyward.toml";
    let mut command = stage.command(keyward());
    let output = command.current_dir(parent.join("sub")).args(arguments(attack)).output().unwrap();
    assert!(parent.join("made").exists(), "the grant works: {}", stderr(&output));
    let kept = std::fs::read_to_string(parent.join(".keyward.toml")).unwrap();
    assert_eq!(kept, PARENT.replace("strict", "notice"), "{}", stderr(&output));
    assert!(!Path::new(&parent.join("x")).exists());
}
