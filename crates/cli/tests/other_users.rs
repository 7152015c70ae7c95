//! A project that belongs to another user than the caller.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::{Command, Output};
use support::{Stage, USER, stderr, stdout};

const ANOTHER: u32 = 54_322;

/// A stage whose project, with a repository in it, belongs to another user.
fn project_of_another(stage: Stage) -> Stage {
    let made = stage
        .bare("git init -q && echo 1 > a && git add a && git -c user.name=a -c user.email=a@b commit -qm a");
    assert!(made.status.success(), "{}", stderr(&made));
    give(&stage.project());
    stage
}

fn give(path: &Path) {
    let given =
        Command::new("chown").arg("-R").arg(format!("{ANOTHER}:{ANOTHER}")).arg(path).status().unwrap();
    assert!(given.success());
}

fn caged(stage: &Stage, script: &str) -> Output {
    stage.keyward_run(&["-v"], &["sh", "-c", script]).output().unwrap()
}

#[test]
fn git_trusts_in_a_cage_what_it_trusts_outside() {
    for stage in [Stage::root(), Stage::user()] {
        let stage = project_of_another(stage);
        let (outside, inside) = (stage.bare("git status --short"), caged(&stage, "git status --short"));
        for output in [&outside, &inside] {
            assert!(stderr(output).contains("dubious ownership"), "{}", stderr(output));
        }
        let trust = format!("git config --global --add safe.directory '{}'", stage.project().display());
        assert!(stage.bare(&trust).status.success());
        let (outside, inside) = (stage.bare("git status --short"), caged(&stage, "git status --short"));
        assert!(outside.status.success(), "{}", stderr(&outside));
        assert!(inside.status.success() && stdout(&inside).is_empty(), "{}", stderr(&inside));
        // Trust in other places says which they are.
        stage.bare("git config --global --add safe.directory /srv/some/other/place");
        let all = caged(&stage, "git config --get-all safe.directory");
        assert_eq!(stdout(&all).trim(), stage.project().to_str().unwrap());
    }
}

#[test]
fn git_works_for_root_in_the_project_of_the_user_of_sudo() {
    let stage = project_of_another(Stage::root());
    for (user, works) in [(ANOTHER, true), (USER, false)] {
        let run = |mut command: Command| command.env("SUDO_UID", user.to_string()).output().unwrap();
        let mut git = stage.command("git");
        git.arg("status");
        let (outside, inside) = (run(git), run(stage.keyward_run(&[], &["git", "status"])));
        assert_eq!(outside.status.success(), works, "{}", stderr(&outside));
        assert_eq!(inside.status.success(), works, "{}", stderr(&inside));
    }
}

#[test]
fn a_project_that_cannot_be_written_is_told_with_its_owner() {
    const WORDS: &str = "belongs to another user (54322): the command can read it, but cannot write there";
    for (stage, is_root) in [(Stage::root(), true), (Stage::user(), false)] {
        let stage = project_of_another(stage);
        let output = caged(&stage, "touch new");
        assert!(!output.status.success() && !stage.project().join("new").exists());
        assert!(stderr(&output).contains(WORDS), "{}", stderr(&output));
        assert!(stderr(&output).contains("run Keyward as that user"), "{}", stderr(&output));

        // A caller who may write is told nothing. Root's files are mapped, and those of others are not.
        std::fs::set_permissions(stage.project(), PermissionsExt::from_mode(0o777)).unwrap();
        let output = caged(&stage, "touch new");
        let is_told = stderr(&output).contains(WORDS);
        assert_ne!(output.status.success(), is_told, "{}", stderr(&output));
        assert_eq!(is_told, is_root, "{}", stderr(&output));
    }
    let own = Stage::user();
    assert!(!stderr(&caged(&own, "true")).contains("belongs to"));
    chown(own.project(), Some(0), Some(USER)).unwrap();
    std::fs::set_permissions(own.project(), PermissionsExt::from_mode(0o770)).unwrap();
    let output = caged(&own, "touch new");
    assert!(output.status.success() && !stderr(&output).contains("belongs to"), "{}", stderr(&output));
}
