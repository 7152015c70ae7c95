//! The search is complete, or the rest is closed: secrets, footholds and repositories are found wherever the command may read or write, by
//! whatever name they have, and what could not be searched is named and closed. Each attack works outside.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use serde_json::Value;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Output;
use support::{Stage, after_a_sign, eventually, keyward, ran, stderr, stdout};

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
fn what_a_command_closes_to_its_owner_is_closed_to_the_next_run() {
    for closed in [0o311, 0o000, 0o300, 0o100, 0o444, 0o600] {
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
            let output = stage.caged_with(&flags, &format!("chmod 700 sub; echo started; cat {path}"));
            let printed = stdout(&output);
            assert!(
                printed.starts_with("started") && !printed.contains(SECRET),
                "{closed:o} {path}: {printed}"
            );
            assert!(stderr(&output).contains("closed to the command"), "{}", stderr(&output));
        }
        let script = "chmod 700 sub; echo evil > sub/deep/.vscode/tasks.json; git -C sub/repo config core.fsmonitor evil; echo started";
        assert!(stdout(&stage.caged(script)).contains("started"));
        mode(&sub, 0o755);
        assert_eq!(std::fs::read_to_string(sub.join("deep/.vscode/tasks.json")).unwrap(), "{}");
        assert!(!std::fs::read_to_string(sub.join("repo/.git/config")).unwrap().contains("fsmonitor"));
        is_hidden(&stage, &[], "sub/.env");
    }
}

/// What lies in a closed directory, or is reached through it, may be what makes something elsewhere count.
#[test]
fn closing_a_directory_does_not_make_the_next_run_forget_what_it_leads_to() {
    let stage = Stage::user();
    for path in ["by-link.txt", "by-hard-link.txt", "through.txt", "d/netrc"] {
        stage.project_file(path, &format!("KEY={SECRET}"));
    }
    let at = |path: &str| stage.project().join(path);
    stage.make_folder(&at("d/e"));
    symlink("../by-link.txt", at("d/.env")).unwrap();
    std::fs::hard_link(at("by-hard-link.txt"), at("d/server.key")).unwrap();
    symlink("d/e/../../through.txt", at(".env")).unwrap();
    symlink(at("d/netrc"), stage.home().join(".netrc")).unwrap();
    let tasks = stage.project_file("tasks.txt", "{}");
    symlink("../tasks.txt", at("d/.envrc")).unwrap();
    let vimrc = stage.project_file("d/vimrc", "set x\n");
    symlink(&vimrc, stage.home().join(".vimrc")).unwrap();
    for closed in ["000", "444", "311"] {
        assert!(stage.keyward_run(&[], &["chmod", closed, "d"]).output().unwrap().status.success());
        for path in ["by-link.txt", "by-hard-link.txt", "through.txt", "d/netrc"] {
            let output = stage.caged(&format!("echo started; chmod 755 d; cat {path}"));
            assert!(
                stdout(&output).starts_with("started") && !stdout(&output).contains(SECRET),
                "{closed} {path}"
            );
        }
        let script = "echo started; chmod 755 d; for f in tasks.txt d/vimrc; do echo evil >> $f; done";
        assert!(stdout(&stage.caged(script)).contains("started"));
        mode(&at("d"), 0o755);
        for path in [&tasks, &vimrc] {
            assert!(!std::fs::read_to_string(path).unwrap().contains("evil"), "{closed} {}", path.display());
        }
    }
}

#[test]
fn a_closed_directory_in_which_nothing_counts_is_the_commands_to_open_and_remove() {
    let stage = Stage::user();
    stage.project_file("left/by/a/test.txt", "x");
    assert!(stage.bare("chmod 000 left/by; chmod 000 left").status.success());
    let output = stage.caged("chmod 700 left && chmod 700 left/by && touch left/by/.envrc && echo started");
    assert!(stdout(&output).contains("started"), "{}", stderr(&output));
    assert!(!stage.project().join("left/by/.envrc").exists(), "{}", stderr(&output));
    assert!(stage.bare("chmod 000 left").status.success());
    assert!(stdout(&stage.caged("chmod 700 left && rm -r left && echo gone")).contains("gone"));
}

#[test]
fn a_root_that_a_command_closes_is_opened_again_and_swept() {
    let stage = Stage::user();
    stage.project_file("plain.txt", &format!("KEY={SECRET}"));
    symlink("plain.txt", stage.project().join(".env")).unwrap();
    let script = "mkdir .vscode n; git init -q n; git -C n config core.fsmonitor evil; rm .env; chmod 600 .; echo started";
    let output = stage.caged(script);
    assert!(stdout(&output).contains("started"), "{}", stderr(&output));
    assert_eq!(std::fs::metadata(stage.project()).unwrap().permissions().mode() & 0o700, 0o700);
    assert!(!stage.project().join(".vscode").exists(), "{}", stderr(&output));
    assert!(!std::fs::read_to_string(stage.project().join("n/.git/config")).unwrap().contains("fsmonitor"));
    is_hidden(&stage, &[], "plain.txt");
}

fn mode_of(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn a_root_that_the_user_has_closed_keeps_its_mode() {
    for closed in [0o555, 0o500] {
        let stage = Stage::user();
        stage.project_file("plain.txt", &format!("KEY={SECRET}"));
        symlink("plain.txt", stage.project().join(".env")).unwrap();
        mode(&stage.project(), closed);
        let output = stage.caged("true");
        assert!(output.status.success() && stderr(&output).is_empty(), "{}", stderr(&output));
        assert_eq!(mode_of(&stage.project()), closed);
        // A command can open it, and closes it behind itself, or closes it further.
        for script in ["chmod 555 .", "chmod 100 ."] {
            let script = format!("chmod 700 .; mkdir .vscode; rm .env; {script}; echo started");
            let output = stage.caged(&script);
            assert!(stdout(&output).contains("started"), "{}", stderr(&output));
            assert!(!stage.project().join(".vscode").exists(), "{}", stderr(&output));
            assert!(stage.project().join(".env").is_symlink(), "{}", stderr(&output));
            assert_eq!(mode_of(&stage.project()) & 0o700, 0o500, "{}", stderr(&output));
        }
    }
}

#[test]
fn a_root_has_the_mode_of_the_start_also_after_a_kill() {
    for closed in [0o755, 0o555] {
        let stage = Stage::user();
        stage.project_file("up", "");
        mode(&stage.project(), closed);
        let script = "chmod 700 .; echo evil > .envrc; chmod 311 .; echo up >> up; sleep 60";
        let mut child = stage.keyward_run(&[], &["sh", "-c", script]).spawn().unwrap();
        assert!(eventually(|| std::fs::read_to_string(stage.project().join("up")).unwrap() == "up\n"));
        child.kill().unwrap();
        child.wait().unwrap();
        let next =
            stage.command(keyward()).args(["run", "--", "true"]).current_dir(stage.elsewhere()).output();
        assert!(!stage.project().join(".envrc").exists());
        assert_eq!(mode_of(&stage.project()) & 0o700, closed & 0o700, "{}", stderr(&next.unwrap()));
    }
}

#[test]
fn hundreds_of_closed_directories_keep_no_foothold() {
    let stage = Stage::user();
    let script = "for i in $(seq 400); do mkdir -p d$i/.vscode; git init -q d$i; git -C d$i config core.fsmonitor evil; chmod 0 d$i; done; echo started";
    let output = stage.caged_with(&["--json"], script);
    assert!(stdout(&output).contains("started"));
    assert!(stage.bare("chmod 755 d*").status.success());
    let left =
        stdout(&stage.bare(
            "ls -d d*/.vscode 2>/dev/null | wc -l; grep -l fsmonitor d*/.git/config 2>/dev/null | wc -l",
        ));
    assert_eq!(left, "0\n0\n");
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

#[test]
fn the_directory_of_a_secret_link_cannot_be_removed_or_moved() {
    let stage = Stage::user();
    stage.project_file("plain.txt", &format!("KEY={SECRET}"));
    stage.project_file("d/x/keep", "");
    symlink("../../plain.txt", stage.project().join("d/x/.env")).unwrap();
    for script in ["rm -rf d", "mv d e", "mv d/x y", "mkdir -p z; mv d z/d", "rm -rf d/x; touch d/x"] {
        assert!(
            stage
                .bare(&format!(
                    "cp -a . /tmp/copy-$$ && cd /tmp/copy-$$ && {{ {script}; }}; rm -rf /tmp/copy-$$"
                ))
                .status
                .success()
        );
        let output = stage.caged(&format!("{script}; echo started"));
        assert!(stdout(&output).contains("started"), "{}", stderr(&output));
        is_hidden(&stage, &[], "plain.txt");
    }
}

#[test]
fn a_link_in_the_place_of_a_store_makes_what_it_leads_to_a_store() {
    let stage = Stage::user();
    for (link, to, file) in [
        (".aws", "a", "credentials"),
        (".kube", "k", "config"),
        (".docker", "dk", "config.json"),
        (".ssh", "s", "work"),
        (".config", "c", "gh/hosts.yml"),
    ] {
        stage.project_file(&format!("{to}/{file}"), SECRET);
        symlink(to, stage.project().join(link)).unwrap();
        is_hidden(&stage, &[], &format!("{link}/{file}"));
        is_hidden(&stage, &[], &format!("{to}/{file}"));
    }
    assert_eq!(stdout(&stage.caged("echo x > a/other && cat a/other")), "x\n");
}

#[test]
fn a_pipe_with_a_secret_name_hands_out_nothing() {
    let stage = Stage::user();
    assert!(stage.bare("mkfifo .env").status.success());
    let writer = format!("timeout 5 sh -c 'echo {SECRET} > .env'");
    let outside = stage.bare(&format!("{writer} & cat .env"));
    assert!(stdout(&outside).contains(SECRET), "the control did not work");
    let mut command = stage.command("sh");
    let beside = stage.beside(command.args(["-c", &writer]));
    let output = stage.caged("echo started; cat .env");
    drop(beside);
    assert_eq!(stdout(&output), "started\n", "{}", stderr(&output));
}

#[test]
fn a_part_of_a_project_that_becomes_one_of_its_own_keeps_what_the_whole_makes_of_it() {
    let stage = Stage::user();
    stage.project_file("sub/plain.txt", &format!("KEY={SECRET}"));
    let hook = stage.project_file("sub/hooks/pre-commit", "#!/bin/sh\n");
    symlink("sub/plain.txt", stage.project().join(".env")).unwrap();
    assert!(stage.bare("git init -q . && git config core.hooksPath sub/hooks").status.success());
    let sub = stage.project().join("sub");
    let flags = ["--cwd", sub.to_str().unwrap()];
    for mark in [".hg", ".jj", "x/.git"] {
        let made = stage.caged_with(&flags, &format!("mkdir -p {mark}; echo started"));
        assert!(stdout(&made).contains("started"), "{}", stderr(&made));
        let output = stage.caged_with(&flags, "echo started; cat plain.txt; echo evil >> hooks/pre-commit");
        assert!(
            stdout(&output).contains("started") && !stdout(&output).contains(SECRET),
            "{mark}: {}",
            stdout(&output)
        );
        assert_eq!(std::fs::read_to_string(&hook).unwrap(), "#!/bin/sh\n", "{mark}");
    }
}

#[test]
fn what_the_user_hides_stays_hidden_under_its_other_names() {
    let stage = Stage::user();
    let notes = stage.project_file("notes.txt", SECRET);
    stage.project_file("private/diary.txt", SECRET);
    stage.make_folder(&stage.project().join("x"));
    std::fs::hard_link(&notes, stage.project().join("x/other.txt")).unwrap();
    std::fs::hard_link(stage.project().join("private/diary.txt"), stage.project().join("x/copy.txt"))
        .unwrap();
    symlink("notes.txt", stage.project().join("link")).unwrap();
    let flags = ["--hide", "link", "--hide", "private"];
    for path in ["link", "notes.txt", "x/other.txt", "private/diary.txt", "x/copy.txt"] {
        is_hidden(&stage, &flags, path);
    }
    assert!(stdout(&stage.caged_with(&flags, "rm link; echo started")).contains("started"));
    is_hidden(&stage, &flags, "notes.txt");
    // A pattern works as a flag, too.
    is_hidden(&stage, &["--hide", "n*.txt"], "notes.txt");
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
    let settings = stage.project_file(".claude/settings.json", "{}");
    std::fs::hard_link(&settings, stage.project().join("b/c/other.json")).unwrap();
    for _ in 0..2 {
        is_hidden(&stage, &[], "b/c/copy.txt");
        let output = stage.caged("echo started; echo evil > b/c/copy.json; echo evil > b/c/other.json");
        assert!(stdout(&output).contains("started"));
        assert_eq!(std::fs::read_to_string(&settings).unwrap(), "{}");
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

// Runs at the same time.

/// One run changes what the next one would go by, and that one starts before the first has put it right.
#[test]
fn a_run_that_starts_beside_another_does_not_take_its_work_for_the_users() {
    let stage = Stage::user();
    stage.project_file("data/app.conf", &format!("KEY={SECRET}"));
    symlink("data/app.conf", stage.project().join(".env")).unwrap();
    let first = "rm .env; git init -q evil; echo true > .exrc; touch up; while [ ! -e go ]; do sleep 0.02; done; rm -rf evil";
    let mut command = stage.keyward_run(&[], &["sh", "-c", first]);
    let mut first =
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
    assert!(support::eventually(|| stage.project().join("up").exists()));
    let second = "touch up2; while [ ! -e go2 ]; do sleep 0.02; done; rm -f .env; echo EVIL > .exrc; git init -q evil; git -C evil config core.fsmonitor evil; echo started";
    let mut command = stage.keyward_run(&[], &["sh", "-c", second]);
    let second =
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    assert!(support::eventually(|| stage.project().join("up2").exists()));
    stage.project_file("go", "");
    first.wait().unwrap();
    stage.project_file("go2", "");
    let output = second.wait_with_output().unwrap();
    assert!(stdout(&output).contains("started"), "{}", stderr(&output));
    assert_eq!(std::fs::read_link(stage.project().join(".env")).unwrap(), Path::new("data/app.conf"));
    assert!(!stage.project().join(".exrc").exists(), "{}", stderr(&output));
    assert!(
        !std::fs::read_to_string(stage.project().join("evil/.git/config")).unwrap().contains("fsmonitor")
    );
    is_hidden(&stage, &[], "data/app.conf");
}

// What git runs.

#[test]
fn what_git_runs_is_found_through_links_closed_directories_and_home() {
    let stage = Stage::user();
    let hook = stage.project_file("t/hooks/pre-commit", "#!/bin/sh\nsh $HERE/scripts/check.sh\n");
    mode(&hook, 0o755);
    let check = stage.project_file("s/check.sh", "true\n");
    let extra = stage.project_file("conf/gitextra", "[alias]\n");
    symlink("t", stage.project().join("tools")).unwrap();
    symlink("s", stage.project().join("scripts")).unwrap();
    symlink(stage.project(), stage.home().join("dot")).unwrap();
    stage.home_file(".gitconfig", "[include]\n\tpath = ~/dot/conf/gitextra\n");
    assert!(stage.bare("git init -q . && git config core.hooksPath tools/hooks").status.success());
    let unchanged = |what: &str| {
        assert!(!std::fs::read_to_string(&hook).unwrap().contains("evil"), "{what}: hook");
        assert!(!std::fs::read_to_string(&check).unwrap().contains("evil"), "{what}: script");
        assert!(!std::fs::read_to_string(&extra).unwrap().contains("evil"), "{what}: settings");
        assert_eq!(std::fs::read_link(stage.project().join("tools")).unwrap(), Path::new("t"), "{what}");
        assert_eq!(std::fs::read_link(stage.project().join("scripts")).unwrap(), Path::new("s"), "{what}");
    };
    let attack = "echo started; chmod 755 t s conf; for f in t/hooks/pre-commit s/check.sh conf/gitextra; do echo evil >> $f; done; \
                  rm tools scripts; mkdir -p tools/hooks scripts; echo evil > tools/hooks/pre-commit; echo evil > scripts/check.sh";
    let output = stage.caged(attack);
    assert!(stdout(&output).contains("started"), "{}", stderr(&output));
    unchanged("open");
    assert!(stdout(&stage.caged("chmod 000 t s conf; echo started")).contains("started"));
    // What a closed hook runs cannot be known.
    support::refused(stage.caged(attack), 122, "closed to you");
    for directory in ["t", "s", "conf"] {
        mode(&stage.project().join(directory), 0o755);
    }
    unchanged("closed");
}

#[test]
fn a_link_below_a_store_leads_to_a_store() {
    let stage = Stage::user();
    stage.project_file("ghreal/hosts.yml", SECRET);
    stage.project_file("deep/a/b/c/d/e/f/work", SECRET);
    stage.make_folder(&stage.project().join(".config"));
    symlink("../ghreal", stage.project().join(".config/gh")).unwrap();
    symlink("deep", stage.project().join(".ssh")).unwrap();
    is_hidden(&stage, &[], "ghreal/hosts.yml");
    is_hidden(&stage, &[], "deep/a/b/c/d/e/f/work");
}

/// In namespaces of its own, where an ordinary user may mount.
#[test]
fn what_is_mounted_under_another_name_is_what_it_was() {
    let stage = Stage::user();
    stage.project_file(".env", &format!("KEY={SECRET}"));
    stage.project_file(".vimrc", "set nu\n");
    for name in ["plain", "other", "notes", "dir/x"] {
        stage.project_file(name, "harmless\n");
    }
    stage.home_file(".ssh/work", SECRET);
    let home = stage.home().display().to_string();
    let run = |command: &str| {
        let key = format!("{home}/.ssh/work");
        let keys = format!("{home}/.ssh");
        let mounts = [(&*key, "plain"), (".env", "other"), (".vimrc", "notes"), (&*keys, "dir")];
        let mounts = mounts.map(|(from, to)| format!("mount --bind '{from}' {to} && "));
        let script = format!("{} {command}", mounts.concat());
        let mut unshare = stage.command("unshare");
        unshare
            .args(["--user", "--map-current-user", "--keep-caps", "--mount", "sh", "-c", &script])
            .output()
            .unwrap()
    };
    let act = "sh -c 'cat plain; cat other; cat dir/work; echo evil >> notes'";
    // A search without mounts comes first: a mount changes no directory.
    assert!(stage.caged("true").status.success());
    let caged = run(&format!("exec '{}' run -- {act}", keyward()));
    assert!(!stdout(&caged).contains(SECRET), "{}{}", stdout(&caged), stderr(&caged));
    assert!(stderr(&caged).contains("cannot create notes"), "{}", stderr(&caged));
    let vimrc = || std::fs::read_to_string(stage.project().join(".vimrc")).unwrap();
    assert_eq!(vimrc(), "set nu\n", "{}", stderr(&caged));
    let control = run(act);
    assert_eq!(stdout(&control).matches(SECRET).count(), 3, "{}", stderr(&control));
    assert_eq!(vimrc(), "set nu\nevil\n", "the control");
}

// The watch.

/// In a user namespace of its own, so that no other test of this user is left without a watcher.
#[test]
fn without_a_watcher_of_the_kernels_we_look_ourselves() {
    let stage = Stage::user();
    stage.project_file(".env", SECRET);
    let run = |limit: &str, script: &str| {
        let script = format!("{limit} exec '{}' run -- sh -c '{script}'", keyward());
        let mut command = stage.command("unshare");
        command.args(["--user", "--map-current-user", "--keep-caps", "sh", "-c", &script]).output().unwrap()
    };
    let none = "echo 0 > /proc/sys/user/max_inotify_instances &&";
    // A foothold that appears is taken away while the command runs, in a directory that appears with it.
    let script = "mkdir new; touch new/.envrc; for n in $(seq 60); do sleep 0.1; ls -A new; done | sort | uniq -c | sort -n; ls -A new";
    for limit in ["", none] {
        let output = run(limit, script);
        assert!(stdout(&output).lines().count() == 1, "{limit}: {}{}", stdout(&output), stderr(&output));
        assert!(!stage.project().join("new/.envrc").exists());
    }
    // The control: the limit holds.
    let held = run(none, "true");
    assert!(held.status.success(), "{}", stderr(&held));
    let control = stage
        .command("unshare")
        .args(["--user", "--map-current-user", "--keep-caps", "sh", "-c"])
        .arg(format!("{none} python3 -c 'import ctypes; print(ctypes.CDLL(None).inotify_init1(0))'"))
        .output()
        .unwrap();
    assert_eq!(stdout(&control), "-1\n", "{}", stderr(&control));
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

/// Working in an inner tree first must not make the outer one forget it.
#[test]
fn a_tree_in_another_is_searched_again_with_the_outer_one() {
    let secret = "S=inner-secret-77";
    let prepared = || {
        let stage = Stage::user();
        for file in [".env", "sub/.env", "sub/deep/.env"] {
            stage.project_file(file, &format!("{secret}\n"));
        }
        stage.make_folder(&stage.project().join("sub/.hg"));
        stage.project_file("sub/.vscode/tasks.json", "{}");
        std::thread::sleep(std::time::Duration::from_millis(2_100));
        stage
    };
    let at = |stage: &Stage, directory: &Path, flags: &[&str], script: &str| {
        let mut run = stage.keyward_run(flags, &["sh", "-c", &after_a_sign(script)]);
        ran(run.current_dir(directory).output().unwrap())
    };
    let everything = "cat .env sub/.env sub/deep/.env; echo evil > sub/.vscode/tasks.json";
    // The project is a part of a marked directory.
    let stage = prepared();
    let (project, sub) = (stage.project(), stage.project().join("sub"));
    assert!(stage.bare("git init -q .").status.success());
    assert_eq!(stdout(&stage.bare(everything)).matches(secret).count(), 3, "the control did not work");
    stage.project_file("sub/.vscode/tasks.json", "{}");
    at(&stage, &sub, &[], "true");
    for _ in 0..2 {
        let outer = at(&stage, &project, &[], everything);
        assert!(!stdout(&outer).contains(secret), "{}", stdout(&outer));
        at(&stage, &sub, &[], "true");
    }
    assert_eq!(std::fs::read_to_string(sub.join(".vscode/tasks.json")).unwrap(), "{}");
    // One is granted in another.
    let stage = prepared();
    let (granted, other) = (stage.project(), stage.elsewhere());
    let (outer, deep) = (granted.to_str().unwrap(), granted.join("sub/deep"));
    at(&stage, &other, &["--read", outer, "--write", deep.to_str().unwrap()], "true");
    let read = format!("cd '{outer}' && cat .env sub/.env sub/deep/.env");
    let alone = at(&stage, &other, &["--read", outer], &read);
    assert!(!stdout(&alone).contains(secret), "{}", stdout(&alone));
}

#[test]
fn a_repository_in_another_stays_protected_after_work_in_it() {
    let stage = Stage::user();
    let inner = stage.project().join("svc");
    stage.make_folder(&inner);
    let set_up = "git init -q . && echo svc/ > .gitignore && cd svc && git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m a";
    assert!(stage.bare(set_up).status.success());
    std::thread::sleep(std::time::Duration::from_millis(2_100));
    assert!(stage.keyward_run(&[], &["true"]).current_dir(&inner).output().unwrap().status.success());
    git_runs_nothing(&stage, &[], &inner);
}
