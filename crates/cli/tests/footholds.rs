//! Footholds: what is there cannot be changed, what is new is taken out of the tree, what is also work is named.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod support;

use serde_json::Value;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Output;
use support::{Stage, after_a_sign, keyward, ran, stderr, stdout, works_only_outside};

const CONTENT: &str = "of the user";

/// The part of the outcome that is about the project, of a script in the cage.
fn aftermath(stage: &Stage, script: &str) -> Value {
    let output = stage.caged_with(&["--json"], script);
    let told = stderr(&output);
    let outcome: Value = serde_json::from_str(told.lines().last().unwrap()).expect(&told);
    assert_eq!(outcome["exit"], 0, "{told}");
    outcome["project"].clone()
}

/// The paths in one of its lists.
fn paths(aftermath: &Value, list: &str) -> Vec<String> {
    let path = |entry: &Value| entry.as_str().or_else(|| entry["path"].as_str()).unwrap().to_owned();
    let mut paths: Vec<String> = aftermath[list].as_array().unwrap().iter().map(path).collect();
    paths.sort();
    paths
}

fn quarantine(stage: &Stage, args: &[&str]) -> Output {
    stage.command(keyward()).arg("quarantine").args(args).output().unwrap()
}

fn entries(stage: &Stage) -> Vec<Value> {
    let output = quarantine(stage, &["list", "--json"]);
    let listed: Value = serde_json::from_str(&stdout(&output)).unwrap();
    listed["entries"].as_array().unwrap().clone()
}

/// Whether something stands there, be it a link to nothing.
fn stands(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

fn cannot_be_changed(stage: &Stage) {
    stage.project_file(".envrc", CONTENT);
    stage.project_file("sub/.vscode/tasks.json", CONTENT);
    stage.project_file("sub/deep/.Claude/settings.json", CONTENT);
    for script in [
        "echo evil >> .envrc && echo WORKED",
        "echo evil >> sub/.vscode/tasks.json && echo WORKED",
        "echo evil >> sub/deep/.Claude/settings.json && echo WORKED",
        "touch sub/.vscode/extensions.json && rm sub/.vscode/extensions.json && echo WORKED",
        "mv .envrc away && mv away .envrc && echo WORKED",
        "mv sub/.vscode away && mv away sub/.vscode && echo WORKED",
        "mv sub away && mv away sub && echo WORKED",
        "mv sub/deep away && mv away sub/deep && echo WORKED",
        "echo x > other && mv other .envrc && echo WORKED",
        "chmod 777 .envrc && echo WORKED",
        "rm -r sub/deep && mkdir -p sub/deep/.Claude && echo WORKED",
    ] {
        works_only_outside(stage, script);
        // Out of a pinned folder `mv` makes a copy before it fails.
        assert!(stage.bare("rm -rf away other").status.success());
    }
}

#[test]
fn an_existing_foothold_cannot_be_changed_or_moved() {
    cannot_be_changed(&Stage::user());
}

#[test]
fn an_existing_foothold_of_roots_cannot_be_changed_or_moved() {
    cannot_be_changed(&Stage::root());
}

#[test]
fn a_foothold_in_a_foothold_is_covered_by_it() {
    let stage = Stage::user();
    stage.project_file(".vscode/.claude/x", CONTENT);
    works_only_outside(&stage, "echo evil > .vscode/.claude/x && echo WORKED");
}

#[test]
fn a_grant_that_names_a_foothold_makes_it_writable() {
    let stage = Stage::user();
    stage.project_file(".vscode/tasks.json", CONTENT);
    let script = "echo mine > .vscode/tasks.json && touch .vscode/new && echo WORKED";
    assert!(!stdout(&ran(stage.caged(&after_a_sign(script)))).contains("WORKED"));
    let output = stage.caged_with(&["--write", ".vscode"], script);
    assert!(stdout(&output).contains("WORKED"), "{}", stderr(&output));
    assert!(
        stage.project().join(".vscode/new").exists() && stderr(&output).is_empty(),
        "{}",
        stderr(&output)
    );
    // A grant of the folder around it does not name it.
    let output = ran(stage.caged_with(&["--write", "."], &after_a_sign(script)));
    assert!(!stdout(&output).contains("WORKED"));
}

#[test]
fn a_foothold_that_a_policy_names_is_not_taken() {
    let stage = Stage::user();
    let path = stage.project().join(".envrc");
    let policy = format!("version = 1\nfiles.write = [\"{}\"]\n", path.display());
    stage.home_file(".config/keyward/policy.toml", &policy);
    let output = stage.caged("echo mine > .envrc; echo x > .exrc");
    assert!(path.exists() && !stage.project().join(".exrc").exists(), "{}", stderr(&output));
}

#[test]
fn a_foothold_that_is_not_there_yet_can_be_granted_by_name() {
    let stage = Stage::user();
    let script = "mkdir .claude && echo '{}' > .claude/settings.json";
    for flag in [".claude", ".claude/settings.json"] {
        let output = stage.caged_with(&["--write", flag], script);
        assert!(output.status.success() && stderr(&output).is_empty(), "{}", stderr(&output));
        assert!(stage.project().join(".claude/settings.json").exists(), "{flag}");
        std::fs::remove_dir_all(stage.project().join(".claude")).unwrap();
    }
    // In one that is there and read-only nothing can be made, unless it is granted as a whole.
    stage.project_file(".idea/x", CONTENT);
    support::refused(stage.caged_with(&["--write", ".idea/new"], "true"), 120, "cannot grant");
    // Anything else has to be there, and another foothold is not meant.
    support::refused(stage.caged_with(&["--write", "nothing"], "true"), 120, "cannot grant");
    assert!(stderr(&stage.caged_with(&["--write", ".claude"], "mkdir .vscode")).contains("took .vscode out"));
}

#[test]
fn why_and_explain_name_the_rule_and_the_line_that_changes_it() {
    let stage = Stage::user();
    stage.project_file(".vscode/tasks.json", CONTENT);
    let ask = |args: &[&str]| stdout(&stage.command(keyward()).args(args).output().unwrap());
    let why = ask(&["why", "write", ".vscode/tasks.json"]);
    assert!(why.contains("read-only, because it is read by Visual Studio Code"), "{why}");
    assert!(why.contains("rule: foothold") && why.contains("--write '"), "{why}");
    assert!(!why.contains("tasks.json'`"), "the grant is for the foothold as a whole: {why}");
    assert!(ask(&["why", "read", ".vscode/tasks.json"]).contains("can be read"));
    let explained = ask(&["explain", "--", "true"]);
    assert!(explained.contains("wall    1 that are there cannot be changed"), "{explained}");
    assert!(explained.contains("notice  a new one is taken out of the project"), "{explained}");
}

#[test]
fn a_new_foothold_is_taken_out_told_and_restored_as_it_was() {
    let stage = Stage::user();
    // Made elsewhere and put in place at once, so that it is whole when it is taken.
    let script = "umask 022; mkdir -p a/v; echo evil > a/v/tasks.json; chmod 640 a/v/tasks.json; echo evil > e; chmod 751 e; \
                  mv a/v a/.vscode; mv e .envrc; ln -s /etc/passwd .exrc; touch 'normal file'";
    // The control.
    assert!(stage.bare(script).status.success());
    for path in ["a/.vscode/tasks.json", ".envrc", ".exrc"] {
        assert!(stands(&stage.project().join(path)));
    }
    let stage = Stage::user();
    let left = aftermath(&stage, script);
    assert_eq!(paths(&left, "quarantined"), [".envrc", ".exrc", "a/.vscode"]);
    for path in ["a/.vscode", ".envrc", ".exrc"] {
        assert!(!stands(&stage.project().join(path)), "{path}");
    }
    assert!(stage.project().join("normal file").exists() && stage.project().join("a").exists());
    let entries = entries(&stage);
    assert_eq!(entries.len(), 3);
    let envrc = entries.iter().find(|entry| entry["path"] == ".envrc").unwrap();
    assert_eq!((&envrc["by"], &envrc["is"]), (&"direnv".into(), &"file".into()));
    assert!(envrc["argv"][2].as_str().unwrap().contains("mv e .envrc"));
    let mode = |path: &Path| std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&stage.state().join("quarantine")), 0o700);
    // And back.
    for entry in &entries {
        let restore = entry["restore"].as_str().unwrap().split(' ').skip(2);
        let output = quarantine(&stage, &restore.collect::<Vec<_>>());
        assert!(output.status.success(), "{}", stderr(&output));
    }
    let project = stage.project();
    assert_eq!(std::fs::read(project.join("a/.vscode/tasks.json")).unwrap(), b"evil\n");
    assert_eq!(mode(&project.join("a/.vscode/tasks.json")), 0o640);
    assert_eq!(mode(&project.join(".envrc")), 0o751);
    assert_eq!(std::fs::read_link(project.join(".exrc")).unwrap(), Path::new("/etc/passwd"));
    assert!(self::entries(&stage).is_empty());
}

#[test]
fn people_are_told_in_two_lines_and_the_exit_code_is_the_commands() {
    let stage = Stage::user();
    let output = stage.caged("echo evil > .envrc; exit 7");
    assert_eq!(output.status.code(), Some(7));
    let told = stderr(&output);
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines[0], "keyward: took .envrc out of the project: direnv would run or obey it");
    assert!(lines[1].starts_with("`keyward quarantine restore ") && lines.len() == 2, "{told}");
    let record = std::fs::read_to_string(stage.state().join("events.jsonl")).unwrap();
    let end: Value = serde_json::from_str(record.lines().last().unwrap()).unwrap();
    assert_eq!((&end["event"], &end["project"]["quarantined"][0]["path"]), (&"end".into(), &".envrc".into()));
    // A run that leaves nothing says nothing.
    assert_eq!(stderr(&stage.caged("touch x")), "");
}

#[test]
fn a_new_foothold_is_taken_at_once_when_it_is_noticed() {
    let stage = Stage::user();
    stage.make_folder(&stage.project().join("a/b"));
    let gone = |path: &str| {
        format!(
            "i=0; while [ -e {path} ] && [ $i -lt 400 ]; do sleep 0.025; i=$((i+1)); done; [ -e {path} ] || echo GONE {path};"
        )
    };
    let script = format!(
        "echo evil > .envrc; {} mkdir a/b/.vscode; {} mkdir -p new/folder; sleep 0.1; echo x > new/folder/.exrc; {}",
        gone(".envrc"),
        gone("a/b/.vscode"),
        gone("new/folder/.exrc"),
    );
    let output = stage.caged(&script);
    let expected = "GONE .envrc\nGONE a/b/.vscode\nGONE new/folder/.exrc\n";
    assert_eq!(stdout(&output), expected, "{}", stderr(&output));
}

#[test]
fn one_that_makes_footholds_in_a_loop_does_not_fill_the_quarantine() {
    let stage = Stage::user();
    let script = "i=0; while [ $i -lt 3000 ]; do mkdir .vscode 2>/dev/null; i=$((i+1)); done; sleep 0.2";
    let output = stage.caged(script);
    assert!(output.status.success() && !stage.project().join(".vscode").exists());
    let count = entries(&stage).len();
    assert!((1..=40).contains(&count), "{count}");
}

/// Swaps a foothold for links, folders and files as fast as it can. What the links lead to is never touched.
#[test]
fn what_a_foothold_becomes_while_it_is_taken_is_never_followed() {
    let stage = Stage::user();
    let outside = stage.file(&stage.elsewhere().join("precious/.envrc"), CONTENT);
    let folder = outside.parent().unwrap().to_path_buf();
    let user_owned = stage.project_file("src/main.c", CONTENT);
    stage.make_folder(&stage.project().join("way"));
    let race = stage.python(
        "race.py",
        &format!(
            r#"
import os, shutil, time
def gone(path):
    try:
        if os.path.isdir(path) and not os.path.islink(path): shutil.rmtree(path)
        else: os.unlink(path)
    except OSError: pass
def tries(*acts):
    for act in acts:
        try: act()
        except OSError: pass
time.sleep(0.5)
end = time.time() + 1.5
while time.time() < end:
    # The folder is watched; when its foothold is looked for, a link stands in its place.
    tries(lambda: open('way/.envrc', 'w').close(), lambda: os.rename('way', 'way2'), lambda: os.symlink({folder:?}, 'way'),
        lambda: time.sleep(0.001), lambda: os.unlink('way'), lambda: os.rename('way2', 'way'), lambda: gone('way/.envrc'))
    # The foothold itself is one thing after the other.
    tries(lambda: os.symlink({outside:?}, '.envrc'), lambda: gone('.envrc'), lambda: os.mkdir('.envrc'), lambda: gone('.envrc'),
        lambda: os.symlink({folder:?}, '.vscode'), lambda: gone('.vscode'))
tries(lambda: os.rename('way', 'way2'), lambda: os.symlink({folder:?}, 'way'), lambda: os.symlink({outside:?}, '.exrc'))
open('way2/.envrc', 'w').close()
"#
        ),
    );
    let output = stage.caged(&race);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), CONTENT);
    assert_eq!(std::fs::read_to_string(&user_owned).unwrap(), CONTENT);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
    for name in [".envrc", ".vscode", ".exrc", "way/.envrc", "way2/.envrc"] {
        // The folder that `way` leads to is the user's, and so is what lies in it.
        assert_eq!(stands(&stage.project().join(name)), name == "way/.envrc", "{name}: {}", stderr(&output));
    }
}

#[test]
fn closing_folders_to_their_owner_does_not_keep_a_foothold_in() {
    for stage in [Stage::user(), Stage::root()] {
        stage.make_folder(&stage.project().join("old"));
        let script = "mkdir .vscode && touch .vscode/x && chmod 0555 .vscode; mkdir -p a/b/.claude; chmod 0 a/b/.claude; chmod 0311 a/b; chmod 0 a; \
                      echo x > old/.envrc; chmod 0555 old";
        let left = aftermath(&stage, script);
        assert_eq!(paths(&left, "quarantined"), [".vscode", "a/b/.claude", "old/.envrc"], "{left}");
        let mode = |path: &str| std::fs::metadata(stage.project().join(path)).unwrap().mode() & 0o7777;
        // The folders themselves are as the command left them.
        assert_eq!((mode("a"), mode("old")), (0, 0o555));
        let ids: Vec<String> =
            entries(&stage).iter().map(|entry| entry["id"].as_str().unwrap().into()).collect();
        assert!(ids.iter().all(|id| quarantine(&stage, &["drop", id]).status.success()));
        assert!(entries(&stage).is_empty());
        let opened = stage.bare("chmod 700 a a/b old");
        assert!(opened.status.success());
    }
}

#[test]
fn a_file_that_gets_the_name_is_new_however_old_it_is() {
    let stage = Stage::user();
    stage.project_file("config.sh", "echo config");
    stage.project_file("dir/tasks.json", "{}");
    stage.project_file("other.txt", "set secure");
    let left =
        aftermath(&stage, "mv config.sh .envrc; mkdir other; mv dir other/.vscode; ln other.txt .exrc");
    assert_eq!(paths(&left, "quarantined"), [".envrc", ".exrc", "other/.vscode"], "{left}");
}

#[test]
fn what_was_there_is_never_taken_also_among_many_directories() {
    let stage = Stage::user();
    for number in 0..300 {
        stage.make_folder(&stage.project().join(format!("d{number}")));
        stage.project_file(&format!("d{number}/deep/.envrc"), CONTENT);
    }
    let left = aftermath(
        &stage,
        "for n in 1 77 150 299; do echo evil > d$n/deep/.exrc; done; mkdir -p d5/deep/new/.vscode; touch d9/deep/other",
    );
    assert_eq!(
        paths(&left, "quarantined"),
        ["d1/deep/.exrc", "d150/deep/.exrc", "d299/deep/.exrc", "d5/deep/new/.vscode", "d77/deep/.exrc"],
        "{left}"
    );
    // None of them can be changed, however many there are.
    aftermath(&stage, "for n in $(seq 0 299); do echo evil >> d$n/deep/.envrc; done 2>/dev/null; true");
    for number in 0..300 {
        let path = stage.project().join(format!("d{number}/deep/.envrc"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), CONTENT, "{number}");
    }
}

#[test]
fn trees_of_other_peoples_packages_are_left_alone_even_when_they_are_moved() {
    let stage = Stage::user();
    stage.project_file("node_modules/pkg/.vscode/settings.json", CONTENT);
    stage.project_file("node_modules/pkg/test/server.pem", "-----BEGIN PRIVATE KEY-----\n");
    std::thread::sleep(std::time::Duration::from_millis(50));
    let left = aftermath(&stage, "mkdir -p node_modules/new/.vscode; echo x > node_modules/new/AGENTS.md");
    assert!(paths(&left, "quarantined").is_empty() && paths(&left, "told").is_empty(), "{left}");
    // A package manager can replace them.
    aftermath(
        &stage,
        "cp -a node_modules old && rm -r node_modules && mv old node_modules && rm -r node_modules/new",
    );
    let left = aftermath(&stage, "mv node_modules elsewhere");
    assert!(stage.project().join("elsewhere/pkg/.vscode/settings.json").exists(), "{left}");
    // Where it is now it counts, so it is named.
    assert_eq!(paths(&left, "left"), ["elsewhere/pkg/.vscode"], "{left}");
    // Other trees that tools fill are searched like the rest.
    let left = aftermath(&stage, "mkdir -p target/x/.idea build/.vscode");
    assert_eq!(paths(&left, "quarantined"), ["build/.vscode", "target/x/.idea"], "{left}");
}

#[test]
fn what_one_run_makes_in_a_package_and_the_next_one_moves_out_is_named() {
    let stage = Stage::user();
    let made = aftermath(
        &stage,
        "mkdir -p node_modules/e/.vscode node_modules/e/.github/workflows; cd node_modules/e; echo x > .vscode/tasks.json; echo x > AGENTS.md; echo x > .github/workflows/w.yml",
    );
    assert!(paths(&made, "left").is_empty() && paths(&made, "told").is_empty(), "{made}");
    std::thread::sleep(std::time::Duration::from_millis(50));
    let moved = aftermath(&stage, "mv node_modules/e newapp");
    assert_eq!(paths(&moved, "left"), ["newapp/.vscode"], "{moved}");
    assert_eq!(paths(&moved, "told"), ["newapp/.github/workflows/w.yml", "newapp/AGENTS.md"], "{moved}");
    // The control: at once, it is taken.
    let taken = aftermath(&stage, "mkdir -p other/.vscode");
    assert_eq!(paths(&taken, "quarantined"), ["other/.vscode"], "{taken}");
    // And it is named once.
    let later = aftermath(&stage, "true");
    assert!(paths(&later, "left").is_empty() && paths(&later, "told").is_empty(), "{later}");
}

#[test]
fn a_link_of_the_users_is_put_back_and_what_it_leads_to_is_protected() {
    let stage = Stage::user();
    let target = stage.project_file("conf/envrc", CONTENT);
    symlink("conf/envrc", stage.project().join(".envrc")).unwrap();
    works_only_outside(&stage, "cp conf/envrc x; echo evil >> conf/envrc && cp x conf/envrc && echo WORKED");
    works_only_outside(&stage, "mv conf/envrc x && mv x conf/envrc && echo WORKED");
    let left = aftermath(&stage, "rm .envrc; echo evil > .envrc; sleep 0.1");
    assert_eq!(paths(&left, "quarantined"), [".envrc"], "{left}");
    assert_eq!(std::fs::read_link(stage.project().join(".envrc")).unwrap(), Path::new("conf/envrc"));
    let left = aftermath(&stage, "ln -sf /tmp/evil .envrc");
    assert_eq!(paths(&left, "quarantined"), [".envrc"], "{left}");
    assert_eq!(std::fs::read_link(stage.project().join(".envrc")).unwrap(), Path::new("conf/envrc"));
    assert_eq!(std::fs::read_to_string(target).unwrap(), CONTENT);
    // One that is as it was is left alone.
    assert!(paths(&aftermath(&stage, "true"), "quarantined").is_empty());
}

#[test]
fn instructions_and_workflows_that_change_are_named_and_stay() {
    let stage = Stage::user();
    stage.project_file("AGENTS.md", CONTENT);
    stage.project_file("sub/CLAUDE.md", CONTENT);
    stage.project_file(".github/workflows/old.yml", CONTENT);
    stage.project_file(".github/workflows/ci.yml", CONTENT);
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert!(paths(&aftermath(&stage, "cat AGENTS.md sub/CLAUDE.md"), "told").is_empty());
    let script = "echo obey >> AGENTS.md; echo x >> .github/workflows/ci.yml; mkdir n; touch n/GEMINI.md .gitlab-ci.yml; \
                  echo obey > x; touch -d 2001-01-01 x; mv x sub/CLAUDE.md";
    let left = aftermath(&stage, script);
    let expected =
        [".github/workflows/ci.yml", ".gitlab-ci.yml", "AGENTS.md", "n/GEMINI.md", "sub/CLAUDE.md"];
    assert_eq!(paths(&left, "told"), expected, "{left}");
    assert!(paths(&left, "quarantined").is_empty());
    assert!(stage.project().join("n/GEMINI.md").exists());
}

#[test]
fn a_quarantine_that_cannot_be_written_leaves_the_foothold_and_says_so() {
    let stage = Stage::user();
    assert!(stage.caged("true").status.success());
    stage.file(&stage.state().join("quarantine"), "in the way");
    let output = stage.caged("echo evil > .envrc; exit 3");
    assert_eq!(output.status.code(), Some(3));
    let told = stderr(&output);
    assert!(told.contains("keyward: .envrc is still in the project: it could not be taken"), "{told}");
    assert!(told.contains("before you work there without keyward: direnv would"), "{told}");
    assert!(stage.project().join(".envrc").exists());
}

/// A state folder on another file system than the project.
fn state_elsewhere(stage: &Stage) -> (tempfile::TempDir, String) {
    let folder = tempfile::Builder::new().prefix("keyward test ").tempdir_in("/dev/shm").unwrap();
    stage.own(folder.path());
    let device = |path: &Path| std::fs::metadata(path).unwrap().dev();
    assert_ne!(
        device(folder.path()),
        device(&stage.project()),
        "this test needs a second file system at /dev/shm"
    );
    let path = folder.path().to_str().unwrap().to_owned();
    (folder, path)
}

#[test]
fn on_another_file_system_it_is_copied_and_comes_back_the_same() {
    let stage = Stage::user();
    let (_folder, state) = state_elsewhere(&stage);
    let outside = stage.file(&stage.elsewhere().join("precious"), CONTENT);
    let script = format!(
        "mkdir -p .vscode/a/b; echo one > .vscode/a/b/f; chmod 751 .vscode/a/b/f; ln -s '{}' .vscode/link; mkfifo .vscode/pipe; chmod 0500 .vscode/a; touch -d 2001-02-03 .vscode/a/b/f",
        outside.display()
    );
    let output =
        stage.keyward_run(&[], &["sh", "-c", &script]).env("XDG_STATE_HOME", &state).output().unwrap();
    assert!(stderr(&output).contains("took .vscode out"), "{}", stderr(&output));
    assert!(!stands(&stage.project().join(".vscode")));
    assert_eq!(std::fs::read_to_string(&outside).unwrap(), CONTENT);
    let id = stderr(&output).split("restore ").nth(1).unwrap()[..6].to_owned();
    let back =
        stage.command(keyward()).args(["quarantine", "restore", &id]).env("XDG_STATE_HOME", &state).output();
    assert!(back.as_ref().unwrap().status.success(), "{}", stderr(&back.unwrap()));
    let file = stage.project().join(".vscode/a/b/f");
    let found = std::fs::metadata(&file).unwrap();
    assert_eq!((found.mode() & 0o777, found.mtime()), (0o751, 981_158_400));
    assert_eq!(std::fs::read(&file).unwrap(), b"one\n");
    assert!(stage.project().join(".vscode/link").is_symlink());
    // Nothing of ours stays beside it.
    let names = std::fs::read_dir(stage.project()).unwrap().count();
    assert_eq!(names, 1);
}

#[test]
fn what_is_too_large_to_be_copied_is_left_and_told() {
    let stage = Stage::user();
    let (_folder, state) = state_elsewhere(&stage);
    let run = stage
        .keyward_run(&[], &["sh", "-c", "head -c 300M /dev/zero > .envrc"])
        .env("XDG_STATE_HOME", &state)
        .output()
        .unwrap();
    assert!(stderr(&run).contains(".envrc is still in the project: it is too large"), "{}", stderr(&run));
    assert!(stage.project().join(".envrc").exists());
    let kept = std::fs::read_dir(Path::new(&state).join("keyward/quarantine")).unwrap().count();
    assert_eq!(kept, 0);
}

#[test]
fn without_mounts_a_new_foothold_is_taken_and_a_changed_one_is_named() {
    let stage = Stage::user();
    stage.home_file(
        ".config/keyward/policy.toml",
        "version = 1\nfloor = \"landlock\"\nproject = \"unprotected\"\n",
    );
    stage.project_file(".vscode/tasks.json", CONTENT);
    stage.project_file(".idea/x", CONTENT);
    std::thread::sleep(std::time::Duration::from_millis(50));
    let mut command = stage.command("bwrap");
    command.args([
        "--dev-bind",
        "/",
        "/",
        "--unshare-user",
        "--disable-userns",
        "--",
        keyward(),
        "run",
        "--json",
        "--",
    ]);
    let output =
        command.args(["sh", "-c", "echo evil > .envrc; echo evil >> .vscode/tasks.json"]).output().unwrap();
    let told = stderr(&output);
    let outcome: Value = serde_json::from_str(told.lines().last().unwrap()).expect(&told);
    assert_eq!(paths(&outcome["project"], "quarantined"), [".envrc"], "{told}");
    assert_eq!(paths(&outcome["project"], "left"), [".vscode"], "{told}");
    assert!(!stage.project().join(".envrc").exists());
}

/// Takes one foothold out, and gives its id.
fn one_taken(stage: &Stage) -> String {
    let left = aftermath(stage, "mkdir -p sub; echo evil > sub/.envrc");
    left["quarantined"][0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn restoring_never_replaces_what_stands_there_unless_forced_and_then_keeps_it() {
    let stage = Stage::user();
    let id = one_taken(&stage);
    let path = stage.project_file("sub/.envrc", CONTENT);
    let output = quarantine(&stage, &["restore", &id]);
    assert_eq!(output.status.code(), Some(125));
    assert!(
        stderr(&output).contains("sub/.envrc exists in") && stderr(&output).contains("--force"),
        "{}",
        stderr(&output)
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), CONTENT);
    let output = quarantine(&stage, &["restore", &id, "--force"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "evil\n");
    let kept = entries(&stage);
    assert_eq!((kept.len(), &kept[0]["path"]), (1, &"sub/.envrc".into()));
    let other = kept[0]["id"].as_str().unwrap();
    assert!(quarantine(&stage, &["restore", other, "--force"]).status.success());
    assert_eq!(std::fs::read_to_string(&path).unwrap(), CONTENT);
}

#[test]
fn restoring_does_not_go_through_a_planted_link() {
    let stage = Stage::user();
    let id = one_taken(&stage);
    let outside = stage.elsewhere();
    std::fs::remove_dir(stage.project().join("sub")).unwrap();
    symlink(&outside, stage.project().join("sub")).unwrap();
    let output = quarantine(&stage, &["restore", &id, "--force"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(stderr(&output).contains("a link or a file is in the way"), "{}", stderr(&output));
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    // Another folder in the place of the project.
    std::fs::rename(stage.project(), stage.project().with_file_name("moved")).unwrap();
    stage.make_folder(&stage.project().join("sub"));
    let output = quarantine(&stage, &["restore", &id]);
    assert_eq!(output.status.code(), Some(125));
    assert!(
        stderr(&output).contains("is not the directory that sub/.envrc was taken from"),
        "{}",
        stderr(&output)
    );
    assert!(!stage.project().join("sub/.envrc").exists());
}

#[test]
fn dropping_removes_one_or_all_and_nothing_else() {
    let stage = Stage::user();
    let outside = stage.file(&stage.elsewhere().join("precious"), CONTENT);
    let script = format!(
        "mkdir .vscode; ln -s '{}' .vscode/link; chmod 0 .vscode; echo x > .envrc",
        outside.display()
    );
    aftermath(&stage, &script);
    let id = entries(&stage)[0]["id"].as_str().unwrap().to_owned();
    assert!(quarantine(&stage, &["drop", &id]).status.success());
    assert_eq!(entries(&stage).len(), 1);
    assert_eq!(stdout(&quarantine(&stage, &["drop", "--all"])), "removed 1 from the quarantine\n");
    assert!(entries(&stage).is_empty());
    assert_eq!(std::fs::read_to_string(outside).unwrap(), CONTENT);
    for id in ["000000", "../..", "x", ""] {
        for command in ["restore", "drop"] {
            let output = quarantine(&stage, &[command, id]);
            assert_eq!(output.status.code(), Some(120), "{command} {id}");
            assert!(
                stderr(&output).contains("`keyward quarantine list` shows what is there"),
                "{}",
                stderr(&output)
            );
        }
    }
    assert_eq!(stdout(&quarantine(&stage, &["list"])), "the quarantine is empty\n");
}

#[test]
fn control_characters_in_names_do_not_reach_the_terminal() {
    let stage = Stage::user();
    let script = "d=$(printf 'x\\033]0;owned\\007\\n'); mkdir \"$d\"; echo evil > \"$d/.envrc\"";
    let output = stage.caged(script);
    let listed = quarantine(&stage, &["list"]);
    for text in [stderr(&output), stdout(&listed)] {
        assert!(text.contains(".envrc") && !text.contains(['\u{1b}', '\u{7}']), "{text:?}");
    }
    assert_eq!(entries(&stage).len(), 1);
    let id = entries(&stage)[0]["id"].as_str().unwrap().to_owned();
    let output = quarantine(&stage, &["restore", &id]);
    assert!(output.status.success() && !stdout(&output).contains('\u{1b}'), "{}", stderr(&output));
}

#[test]
fn doctor_tells_what_is_kept() {
    let stage = Stage::user();
    one_taken(&stage);
    let output = stage.command(keyward()).arg("doctor").output().unwrap();
    assert!(stdout(&output).contains("quarantine: 1 entry taken out of projects, "), "{}", stdout(&output));
    let output = stage.command(keyward()).args(["doctor", "--json"]).output().unwrap();
    let findings: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(
        (&findings["quarantine"]["entries"], &findings["quarantine"]["at_work"]),
        (&1.into(), &0.into())
    );
}

/// A pipe at a name that programs open by themselves makes them wait: git status would never end.
#[test]
fn a_pipe_where_git_and_other_tools_read_is_taken_out() {
    let stage = Stage::user();
    assert!(stage.bare("git init -q . && mkdir sub").status.success());
    let make = "mkfifo .gitignore sub/.gitattributes package.json AGENTS.md own.pipe; echo x > README.md";
    let output = stage.caged(make);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        stderr(&output).contains(".gitignore") && stderr(&output).contains("would wait"),
        "{}",
        stderr(&output)
    );
    for gone in [".gitignore", "sub/.gitattributes", "package.json", "AGENTS.md"] {
        assert!(!stands(&stage.project().join(gone)), "{gone}");
    }
    // What no program opens by itself is the command's own, and so is an ordinary file.
    assert!(stands(&stage.project().join("own.pipe")) && stands(&stage.project().join("README.md")));
    let status = "timeout 5 git status > /dev/null; echo $?";
    assert_eq!(stdout(&stage.bare(status)), "0\n");
    assert_eq!(stdout(&stage.bare(&format!("mkfifo .gitignore; {status}"))), "124\n", "the control");
}

/// A grant of an agent's state, or of a directory of HOME, is not a grant to change in silence what programs outside run or obey.
#[test]
fn what_programs_obey_in_a_directory_of_home_is_protected_or_named_when_that_is_granted() {
    let stage = Stage::user();
    stage.home_file(".claude/settings.json", "{}");
    stage.home_file(".codex/config.toml", "model = \"x\"\n");
    stage.home_file(".ssh/config", "Host a\n");
    stage.home_file(".config/nvim/init.lua", "x = 1\n");
    let home = stage.home();
    let grants =
        [".claude", ".codex", ".ssh", ".config/nvim"].map(|name| home.join(name).display().to_string());
    let flags: Vec<&str> = grants.iter().flat_map(|grant| ["--write", grant]).collect();
    let flags = [flags.as_slice(), &["--gate", "yolo"]].concat();
    let script = "cd ~; mkdir -p .claude/hooks .claude/projects; echo evil >> .claude/settings.json; echo evil > .claude/hooks/x.sh; \
         echo data > .claude/projects/a.jsonl; echo evil > .codex/hooks.json; echo evil >> .config/nvim/init.lua; \
         echo evil > .ssh/authorized_keys; echo evil >> .ssh/config || echo CLOSED; echo a > .ssh/known_hosts";
    let bare = stage.bare(script);
    assert!(!stdout(&bare).contains("CLOSED"), "the control: {}", stderr(&bare));
    assert!(
        stage
            .bare("cd ~; rm -r .claude/hooks .ssh/authorized_keys .codex/hooks.json; echo > .ssh/config")
            .status
            .success()
    );
    let output = stage.caged_with(&flags, script);
    let told = stderr(&output);
    assert!(stdout(&output).contains("CLOSED"), "{}{told}", stdout(&output));
    for named in [
        ".claude/settings.json",
        ".claude/hooks/x.sh",
        ".codex/hooks.json",
        ".config/nvim/init.lua",
        ".ssh/authorized_keys",
    ] {
        assert!(told.contains(named), "{named}: {told}");
    }
    assert!(!told.contains("a.jsonl") && !told.contains("known_hosts"), "{told}");
    assert!(!stands(&home.join(".ssh/authorized_keys")), "it was taken out");
    assert!(stands(&home.join(".ssh/known_hosts")) && stands(&home.join(".claude/projects/a.jsonl")));
}

#[test]
fn a_change_deep_in_a_directory_of_instructions_is_named() {
    let stage = Stage::user();
    for old in [".husky/_/h", ".direnv/python-3/bin/python", ".mvn/wrapper/x/y", "moved/skill/SKILL.md"] {
        stage.project_file(old, CONTENT);
    }
    for number in 0..300 {
        stage.project_file(&format!(".circleci/many/{number}"), CONTENT);
    }
    std::thread::sleep(std::time::Duration::from_millis(50));
    let script = "echo x >> .husky/_/h; echo x > .direnv/python-3/bin/ls; echo x >> .mvn/wrapper/x/y; \
                  echo x >> .circleci/many/299; mkdir -p .github/skills; mv moved .github/skills/";
    let left = aftermath(&stage, script);
    let expected = [
        ".circleci/many/299",
        ".direnv/python-3/bin/ls",
        ".github/skills/moved/skill/SKILL.md",
        ".husky/_/h",
        ".mvn/wrapper/x/y",
    ];
    assert_eq!(paths(&left, "told"), expected, "{left}");
}

#[test]
fn more_changes_than_are_named_are_told_by_their_directory() {
    let stage = Stage::user();
    stage.project_file(".github/workflows/old.yml", CONTENT);
    let left = aftermath(
        &stage,
        "cd .github/workflows; i=0; while [ $i -lt 300 ]; do echo x > $i; i=$((i + 1)); done",
    );
    assert!(paths(&left, "told").iter().any(|path| path == ".github/workflows"), "{left}");
    assert!(left["left_out"].as_u64().is_some_and(|count| count > 0), "{left}");
}

#[test]
fn a_grant_below_the_settings_of_an_agent_is_told_as_the_settings_are() {
    let stage = Stage::user();
    stage.home_file(".claude/hooks/old.sh", "true\n");
    stage.home_file(".claude/projects/a.jsonl", "{}\n");
    let home = stage.home();
    let grants = [".claude/hooks", ".claude/projects"].map(|name| home.join(name).display().to_string());
    let flags = ["--write", &grants[0], "--write", &grants[1], "--gate", "yolo"];
    let script =
        "cd ~/.claude; echo evil >> hooks/old.sh; echo evil > hooks/new.sh; echo data >> projects/a.jsonl";
    let output = stage.caged_with(&flags, script);
    let told = stderr(&output);
    assert!(output.status.success(), "{told}");
    assert!(told.contains(".claude/hooks/old.sh") && told.contains(".claude/hooks/new.sh"), "{told}");
    assert!(!told.contains("a.jsonl"), "{told}");
}
