//! The search is complete, or the rest is closed: secrets, footholds and repositories are found wherever the command may read or write, by
//! whatever name they have, and what could not be searched is named and closed. Each attack works outside.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use serde_json::Value;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Output;
use support::{Stage, keyward, stderr, stdout};

const SECRET: &str = "canary-8804";

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

/// Outside the content is there, and in the cage it is not, although the command has started.
#[track_caller]
fn is_hidden(stage: &Stage, flags: &[&str], path: &str) {
    let script = format!("echo started; cat '{path}'");
    assert!(stdout(&stage.bare(&script)).contains(SECRET), "{path}: the control did not work");
    let output = stage.caged_with(flags, &script);
    let (printed, told) = (stdout(&output), stderr(&output));
    assert!(printed.starts_with("started"), "{path}: {told}");
    assert!(!printed.contains(SECRET) && !told.contains(SECRET), "{path}: {printed}{told}");
}

/// What the script writes arrives outside, and in the cage it does not.
#[track_caller]
fn cannot_be_written(stage: &Stage, flags: &[&str], path: &Path) {
    let shown = path.display();
    let before = std::fs::read_to_string(path).unwrap();
    assert!(
        stage.bare(&format!("echo evil >> '{shown}'")).status.success(),
        "{shown}: the control did not work"
    );
    assert_ne!(std::fs::read_to_string(path).unwrap(), before);
    std::fs::write(path, &before).unwrap();
    let output = stage.caged_with(flags, &format!("echo started; echo evil >> '{shown}'"));
    assert!(stdout(&output).starts_with("started"), "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(path).unwrap(), before, "{shown}");
}

/// A setting that makes git run a command stays out of a repository of the host.
#[track_caller]
fn git_runs_nothing(stage: &Stage, flags: &[&str], repository: &Path) {
    let shown = repository.display();
    let output =
        stage.caged_with(flags, &format!("git -C '{shown}' config core.fsmonitor 'echo evil'; echo started"));
    assert!(stdout(&output).contains("started"), "{}", stderr(&output));
    let config = std::fs::read_to_string(repository.join(".git/config")).unwrap();
    assert!(!config.contains("fsmonitor"), "{config}{}", stderr(&output));
    let control = stage.bare(&format!(
        "git -C '{shown}' config core.fsmonitor x && git -C '{shown}' config --unset core.fsmonitor"
    ));
    assert!(control.status.success(), "{}", stderr(&control));
}

fn repository(stage: &Stage, path: &Path) {
    stage.make_folder(path);
    assert!(stage.bare(&format!("git init -q '{}'", path.display())).status.success());
}

fn explain(stage: &Stage) -> String {
    stdout(&stage.command(keyward()).args(["explain", "--", "true"]).output().unwrap())
}

fn project_of(output: &Output) -> Value {
    let told = stderr(output);
    let outcome: Value = serde_json::from_str(told.lines().last().unwrap()).expect(&told);
    outcome["project"].clone()
}

// Closed directories.

#[test]
fn what_a_command_closes_to_its_owner_is_searched_by_the_next_run() {
    for (closed, opens) in [(0o311, false), (0o000, true), (0o300, false), (0o100, false)] {
        let stage = Stage::user();
        stage.project_file("sub/.env", &format!("KEY={SECRET}"));
        stage.project_file("sub/notes.txt", SECRET);
        stage.project_file("sub/deep/.vscode/tasks.json", "{}");
        let key = stage.home_file(".ssh/id_ed25519", SECRET);
        std::fs::hard_link(&key, stage.project().join("sub/harmless")).unwrap();
        repository(&stage, &stage.project().join("sub/repo"));
        let sub = stage.project().join("sub");
        let chmod = stage.keyward_run(&[], &["chmod", &format!("{closed:o}"), "sub"]).output().unwrap();
        assert!(chmod.status.success(), "{}", stderr(&chmod));
        assert_eq!(std::fs::metadata(&sub).unwrap().permissions().mode() & 0o777, closed);
        let flags = ["--hide", "sub/notes.txt"];
        for path in ["sub/.env", "sub/harmless", "sub/notes.txt"] {
            let open = if opens { "chmod 700 sub; " } else { "" };
            let output = stage.caged_with(&flags, &format!("{open}echo started; cat {path}"));
            let printed = stdout(&output);
            assert!(
                printed.starts_with("started") && !printed.contains(SECRET),
                "{closed:o} {path}: {printed}"
            );
        }
        let script = "chmod 700 sub; echo evil > sub/deep/.vscode/tasks.json; git -C sub/repo config core.fsmonitor evil; echo started";
        assert!(stdout(&stage.caged(script)).contains("started"));
        mode(&sub, 0o755);
        assert_eq!(std::fs::read_to_string(sub.join("deep/.vscode/tasks.json")).unwrap(), "{}");
        assert!(!std::fs::read_to_string(sub.join("repo/.git/config")).unwrap().contains("fsmonitor"));
        is_hidden(&stage, &[], "sub/.env");
    }
}

#[test]
fn a_project_whose_root_is_closed_is_searched_all_the_same() {
    let stage = Stage::user();
    stage.project_file(".env", &format!("KEY={SECRET}"));
    stage.project_file("sub/.env", &format!("KEY={SECRET}"));
    assert!(stage.keyward_run(&[], &["chmod", "311", "."]).output().unwrap().status.success());
    is_hidden(&stage, &[], ".env");
    is_hidden(&stage, &[], "sub/.env");
    mode(&stage.project(), 0o755);
}

#[test]
fn a_directory_that_nobody_may_read_for_us_is_closed_and_named() {
    let stage = Stage::user();
    let locked = stage.project().join("locked");
    std::fs::create_dir(&locked).unwrap();
    std::fs::write(locked.join(".env"), SECRET).unwrap();
    mode(&locked, 0o700);
    let output = stage.caged("ls locked; cat locked/.env; echo started");
    assert!(stdout(&output).contains("started") && !stdout(&output).contains(SECRET));
    let told = stderr(&output);
    assert!(
        told.contains("closed to the command, because it could not be searched") && told.contains("locked"),
        "{told}"
    );
    assert!(explain(&stage).contains("not searched"), "{}", explain(&stage));
}

// Depth and number.

#[test]
fn trees_that_tools_fill_are_searched() {
    let stage = Stage::user();
    for tree in
        ["node_modules/x", ".venv/src/y", "target/debug", "build/z", "dist", "vendor/w", ".cache/v", ".tox/u"]
    {
        stage.project_file(&format!("{tree}/.env"), &format!("KEY={SECRET}"));
        repository(&stage, &stage.project().join(tree).join("repo"));
        is_hidden(&stage, &[], &format!("{tree}/.env"));
        git_runs_nothing(&stage, &[], &stage.project().join(tree).join("repo"));
    }
}

#[test]
fn nothing_is_too_far_down_or_too_far_back() {
    let stage = Stage::user();
    for number in 0..600 {
        stage.make_folder(&stage.project().join(format!("d{number:03}/e")));
    }
    let deep = "x/".repeat(80);
    stage.project_file(&format!("{deep}.env"), &format!("KEY={SECRET}"));
    stage.project_file("d599/e/.env", &format!("KEY={SECRET}"));
    repository(&stage, &stage.project().join("d598/e/repo"));
    for _ in 0..2 {
        is_hidden(&stage, &[], &format!("{deep}.env"));
        is_hidden(&stage, &[], "d599/e/.env");
    }
    git_runs_nothing(&stage, &[], &stage.project().join("d598/e/repo"));
}

#[test]
fn a_foothold_among_thousands_of_directories_is_taken() {
    let stage = Stage::user();
    let script = "i=0; while [ $i -lt 4400 ]; do echo d$i; i=$((i+1)); done | xargs mkdir; touch d4399/.envrc; mkdir d4398/.vscode";
    let output = stage.caged_with(&["--json"], script);
    let project = project_of(&output);
    assert_eq!(project["quarantined"].as_array().unwrap().len(), 2, "{project}");
    assert!(
        !stage.project().join("d4399/.envrc").exists() && !stage.project().join("d4398/.vscode").exists()
    );
    // And once all of them are known.
    let output = stage.caged_with(&["--json"], "touch d4000/.envrc");
    assert_eq!(project_of(&output)["quarantined"][0]["path"], "d4000/.envrc");
}

#[test]
fn a_path_that_is_too_long_to_be_searched_is_closed_and_named() {
    let stage = Stage::user();
    let walk = |make: &str, end: &str| {
        format!(
            "python3 -c \"import os\nfor i in range(30):\n {make}\n try: os.chdir('n'*200)\n except OSError: break\n{end}\""
        )
    };
    let make = walk("os.mkdir('n'*200)", &format!("open('.env','w').write('KEY={SECRET}')"));
    assert!(stage.bare(&make).status.success(), "{}", stderr(&stage.bare(&make)));
    let cat = format!("echo started; {}", walk("pass", "print(open('.env').read())"));
    assert!(stdout(&stage.bare(&cat)).contains(SECRET), "the control did not work");
    let output = stage.caged(&cat);
    assert!(stdout(&output).contains("started") && !stdout(&output).contains(SECRET), "{}", stderr(&output));
    assert!(stderr(&output).contains("too deep"), "{}", stderr(&output));
}

// Grants.

#[test]
fn a_directory_that_may_be_written_is_searched_like_the_project() {
    let stage = Stage::user();
    let grant = stage.elsewhere();
    stage.file(&grant.join("a/.env"), &format!("KEY={SECRET}"));
    let tasks = stage.file(&grant.join("a/.vscode/tasks.json"), "{}");
    repository(&stage, &grant.join("repo"));
    let flags = ["--write", grant.to_str().unwrap()];
    is_hidden(&stage, &flags, grant.join("a/.env").to_str().unwrap());
    cannot_be_written(&stage, &flags, &tasks);
    git_runs_nothing(&stage, &flags, &grant.join("repo"));
    let new = grant.join("deep/.envrc");
    let script =
        format!("mkdir -p '{0}' && touch '{0}/.envrc' && echo started", grant.join("deep").display());
    let output = stage.caged_with(&flags, &script);
    assert!(stdout(&output).contains("started") && !new.exists(), "{}", stderr(&output));
    assert!(stderr(&output).contains(&format!("took {} out", new.display())), "{}", stderr(&output));
}

#[test]
fn a_repository_that_is_made_below_a_grant_is_cleaned() {
    let stage = Stage::user();
    let grant = stage.elsewhere();
    let flags = ["--write", grant.to_str().unwrap()];
    let script = format!(
        "git init -q '{0}/new' && git -C '{0}/new' config core.fsmonitor evil && echo started",
        grant.display()
    );
    let output = stage.caged_with(&flags, &script);
    assert!(stdout(&output).contains("started"), "{}", stderr(&output));
    assert!(!std::fs::read_to_string(grant.join("new/.git/config")).unwrap().contains("fsmonitor"));
}

#[test]
fn a_directory_that_may_be_read_is_searched_and_its_secrets_are_hidden() {
    let stage = Stage::user();
    let grant = stage.elsewhere();
    let path = stage.file(&grant.join("a/.env"), &format!("KEY={SECRET}"));
    let flags = ["--read", grant.to_str().unwrap()];
    is_hidden(&stage, &flags, path.to_str().unwrap());
    // One that is named by its own path is meant.
    let output = stage
        .keyward_run(&["--read", path.to_str().unwrap()], &["cat", path.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(stdout(&output).contains(SECRET), "{}", stderr(&output));
}

// Links.

#[test]
fn the_target_of_a_secret_link_is_secret() {
    let stage = Stage::user();
    stage.project_file("conf/app.txt", &format!("KEY={SECRET}"));
    symlink("conf", stage.project().join("way")).unwrap();
    symlink("way/../way/app.txt", stage.project().join(".env")).unwrap();
    is_hidden(&stage, &[], ".env");
    is_hidden(&stage, &[], "conf/app.txt");
    // A command that removes the link, or the link on the way, does not uncover it.
    for script in ["rm .env", "rm way", "ln -sfn /dev/null .env", "rm .env; mkdir .env", "mv .env other"] {
        let output = stage.caged(&format!("{script}; echo started"));
        assert!(stdout(&output).contains("started"), "{}", stderr(&output));
        is_hidden(&stage, &[], "conf/app.txt");
        assert_eq!(
            std::fs::read_link(stage.project().join(".env")).unwrap(),
            Path::new("way/../way/app.txt"),
            "{script}"
        );
    }
}

#[test]
fn a_link_that_is_removed_in_a_session_does_not_uncover_its_target_to_a_further_cage() {
    let stage = Stage::user();
    stage.project_file("conf/app.txt", &format!("KEY={SECRET}"));
    symlink("conf/app.txt", stage.project().join(".env")).unwrap();
    let session = |args: &[&str]| stage.command(keyward()).args(args).output().unwrap();
    let started = session(&["session", "start", "--name", "links", "--gate", "yolo"]);
    assert!(started.status.success(), "{}", stderr(&started));
    let removed = session(&["exec", "links", "--", "sh", "-c", "rm .env; ls -a"]);
    assert!(stdout(&removed).contains("conf") && !stdout(&removed).contains(".env"), "{}", stderr(&removed));
    let read = session(&[
        "exec",
        "links",
        "--",
        keyward(),
        "run",
        "--",
        "sh",
        "-c",
        "echo started; cat conf/app.txt",
    ]);
    let fresh = session(&["exec", "--fresh", "links", "--", "sh", "-c", "echo started; cat conf/app.txt"]);
    session(&["session", "stop", "links"]);
    for output in [&read, &fresh] {
        assert!(!stdout(output).contains(SECRET), "{}", stdout(output));
    }
    assert!(stdout(&fresh).contains("started"), "{}", stderr(&fresh));
    assert!(stage.project().join(".env").symlink_metadata().is_ok());
}

#[test]
fn the_target_of_a_link_in_a_foothold_cannot_be_written() {
    let stage = Stage::user();
    let target = stage.project_file("tools/tasks.json", "{}");
    stage.make_folder(&stage.project().join(".vscode"));
    symlink("../tools/tasks.json", stage.project().join(".vscode/tasks.json")).unwrap();
    cannot_be_written(&stage, &[], &target);
    let output = stage.caged("mv tools away; rm -rf tools; echo started");
    assert!(stdout(&output).contains("started"));
    assert_eq!(std::fs::read_to_string(&target).unwrap(), "{}");
}

#[test]
fn dotfiles_that_lie_in_the_project_are_what_home_makes_of_them() {
    let stage = Stage::user();
    stage.project_file("dot/ssh/work", SECRET);
    stage.project_file("dot/npmrc", &format!("//registry.example.test/:_authToken={SECRET}"));
    stage.project_file("dot/key", SECRET);
    let bashrc = stage.project_file("dot/bashrc", "alias x=y\n");
    let link = |to: &str, at: &str| symlink(stage.project().join(to), stage.home().join(at)).unwrap();
    link("dot/ssh", ".ssh");
    link("dot/npmrc", ".npmrc");
    link("dot/bashrc", ".bashrc");
    stage.make_folder(&stage.home().join(".gnupg"));
    link("dot/key", ".gnupg/secring.gpg");
    for path in ["dot/ssh/work", "dot/npmrc", "dot/key"] {
        is_hidden(&stage, &[], path);
    }
    cannot_be_written(&stage, &[], &bashrc);
}

// Hard links.

#[test]
fn a_second_name_of_a_secret_or_a_foothold_is_what_the_first_one_is() {
    let stage = Stage::user();
    let env = stage.project_file("a/.env", &format!("KEY={SECRET}"));
    let tasks = stage.project_file(".vscode/tasks.json", "{}");
    stage.make_folder(&stage.project().join("b/c"));
    std::fs::hard_link(&env, stage.project().join("b/c/copy.txt")).unwrap();
    std::fs::hard_link(&tasks, stage.project().join("b/c/copy.json")).unwrap();
    for _ in 0..2 {
        is_hidden(&stage, &[], "b/c/copy.txt");
        let output = stage.caged("echo started; echo evil > b/c/copy.json");
        assert!(stdout(&output).contains("started"));
        assert_eq!(std::fs::read_to_string(&tasks).unwrap(), "{}");
    }
    // One that is made between two runs, where no directory of the project changes but its own.
    std::fs::hard_link(&env, stage.elsewhere().join("third")).unwrap();
    is_hidden(
        &stage,
        &["--read", stage.elsewhere().to_str().unwrap()],
        stage.elsewhere().join("third").to_str().unwrap(),
    );
}

// The watch.

/// In a user namespace of its own, so that no other test of this user is left without a watcher.
#[test]
fn without_a_watcher_no_command_starts() {
    let stage = Stage::user();
    stage.project_file(".env", SECRET);
    let run = |limit: &str| {
        let script = format!("{limit} exec '{}' run -- echo started", keyward());
        let mut command = stage.command("unshare");
        command.args(["--user", "--map-current-user", "--keep-caps", "sh", "-c", &script]).output().unwrap()
    };
    let control = run("");
    assert_eq!(stdout(&control), "started\n", "{}", stderr(&control));
    let none = run("echo 0 > /proc/sys/user/max_inotify_instances &&");
    support::refused(none, 122, "cannot watch for secret files that appear");
}

// The user's word.

#[test]
fn a_bounded_search_is_asked_for_by_name_and_told_at_every_run() {
    let stage = Stage::user();
    stage.project_file("node_modules/x/.env", &format!("KEY={SECRET}"));
    stage.project_file(".env", &format!("KEY={SECRET}"));
    stage.home_file(".config/keyward/policy.toml", "version = 1\nfiles.search = \"bounded\"\n");
    let output = stage.caged("cat node_modules/x/.env .env");
    assert_eq!(stdout(&output), format!("KEY={SECRET}KEY=\n"));
    assert!(stderr(&output).contains("not searched, and open to the command"), "{}", stderr(&output));
    assert!(explain(&stage).contains("files.search = \"bounded\""), "{}", explain(&stage));
    // A project cannot ask for less than the user does.
    stage.home_file(".config/keyward/policy.toml", "version = 1\n");
    stage.project_file(".keyward.toml", "version = 1\nfiles.search = \"bounded\"\n");
    support::refused(stage.caged("true"), 120, "may only narrow");
}
