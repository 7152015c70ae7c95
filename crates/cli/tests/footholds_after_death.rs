//! A launcher that is killed, at whatever moment, leaves no foothold for good: the next one finishes what it had to do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use support::{Stage, eventually, keyward, stderr, stdout};

const CONTENT: &str = "of the user";

/// Numbers without a pattern; the seed is printed when a test fails, as all output is.
struct Dice(u64);

impl Dice {
    fn new() -> Self {
        let seed =
            u64::from(std::process::id()) << 20 ^ Instant::now().elapsed().as_nanos() as u64 ^ 0x9e37_79b9;
        println!("seed {seed}");
        Dice(seed)
    }

    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

fn names(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn stands(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Makes footholds of each kind, over and over.
const BUSY: &str = "while :; do echo evil > .envrc; mkdir -p sub/.vscode n/.claude; echo evil > sub/.vscode/x; ln -s /x .exrc; sleep 0.01; done 2>/dev/null";

/// What the command may have made.
const MADE: [&str; 4] = [".envrc", "sub/.vscode", "n/.claude", ".exrc"];

fn killed_at_random_moments(stage: &Stage, rounds: usize, state: Option<&Path>) {
    stage.project_file("own/.idea/workspace.xml", CONTENT);
    stage.project_file("sub/main.c", CONTENT);
    let other = stage.elsewhere();
    let state_home = state.map_or_else(|| stage.home().join(".local/state"), PathBuf::from);
    let kept = state_home.join("keyward");
    // Other stages are busy with the same.
    let busy = format!("{BUSY} # {}", stage.project().display());
    let mut dice = Dice::new();
    let (mut seen, mut finished) = (0, 0);
    for round in 0..rounds {
        let mut child = stage
            .keyward_run(&[], &["sh", "-c", &busy])
            .env("XDG_STATE_HOME", &state_home)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Most of what can go wrong is at the beginning; some of it later.
        let most = [5_000, 20_000, 60_000, 150_000][round % 4];
        std::thread::sleep(Duration::from_micros(dice.below(most)));
        child.kill().unwrap();
        child.wait().unwrap();
        // The cage ends with it; what it was just doing is done in a moment.
        assert!(eventually(|| support::processes_with(&busy).is_empty()), "the command lives");
        seen += usize::from(MADE.iter().any(|path| stands(&stage.project().join(path))));
        // Whoever starts next, wherever that is.
        let next = match round % 3 {
            0 => vec!["run", "--", "true"],
            1 => vec!["quarantine", "list"],
            _ => vec!["doctor"],
        };
        let mut told = String::new();
        // What a process of the run has that is just dying is left alone: then the one after that.
        let recovered = eventually(|| {
            let mut command = stage.command(keyward());
            command.args(&next).current_dir(&other).env("XDG_STATE_HOME", &state_home);
            let output = command.output().unwrap();
            assert!(output.status.success(), "{next:?}: {}", stderr(&output));
            told += &stderr(&output);
            names(&kept.join("journals")).is_empty()
        });
        assert!(recovered, "round {round}: {:?}", names(&kept.join("journals")));
        finished += usize::from(told.contains("was killed before it ended"));
        for path in MADE {
            assert!(!stands(&stage.project().join(path)), "round {round}: {path} after {next:?}: {told}");
        }
        for entry in names(&kept.join("quarantine")) {
            let inside: Vec<_> =
                names(&entry).into_iter().map(|path| path.file_name().unwrap().to_owned()).collect();
            assert!(
                inside.len() == 2 && stands(&entry.join("about")) && stands(&entry.join("thing")),
                "{inside:?}"
            );
        }
        assert_eq!(
            std::fs::read_to_string(stage.project().join("own/.idea/workspace.xml")).unwrap(),
            CONTENT
        );
        assert_eq!(std::fs::read_to_string(stage.project().join("sub/main.c")).unwrap(), CONTENT);
    }
    println!("{seen} of {rounds} left a foothold, {finished} were finished");
    // Otherwise nothing was tested.
    assert!(seen > rounds / 10 && finished > rounds / 10, "{seen} {finished}");
    let listed = stage
        .command(keyward())
        .args(["quarantine", "list", "--json"])
        .env("XDG_STATE_HOME", &state_home)
        .output()
        .unwrap();
    let listed: Value = serde_json::from_str(&stdout(&listed)).unwrap();
    assert!(!listed["entries"].as_array().unwrap().is_empty());
    let recorded = std::fs::read_to_string(kept.join("events.jsonl")).unwrap();
    assert!(recorded.lines().any(|line| line.contains("\"event\":\"recovered\"") && line.contains(".envrc")));
}

#[test]
fn a_sigkill_at_any_moment_leaves_no_foothold_for_good() {
    killed_at_random_moments(&Stage::user(), 140, None);
}

#[test]
fn a_sigkill_at_any_moment_leaves_no_foothold_of_roots_for_good() {
    killed_at_random_moments(&Stage::root(), 60, None);
}

#[test]
fn a_sigkill_at_any_moment_leaves_no_foothold_where_it_has_to_be_copied() {
    let stage = Stage::user();
    let folder = tempfile::Builder::new().prefix("keyward test ").tempdir_in("/dev/shm").unwrap();
    stage.own(folder.path());
    killed_at_random_moments(&stage, 60, Some(folder.path()));
}

#[test]
fn the_journal_of_a_run_that_is_alive_is_left_alone() {
    let stage = Stage::user();
    let mut child = stage
        .keyward_run(&[], &["sh", "-c", "mkdir new; echo up; read line; sleep 0.3"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    assert!(eventually(|| stage.project().join("new").exists()));
    let journals = || names(&stage.state().join("journals")).len();
    assert_eq!(journals(), 1);
    // Made by somebody outside while the command runs, in a folder that is not watched: only the end of that run looks at it.
    for args in [&["run", "--", "true"][..], &["quarantine", "list"], &["doctor"]] {
        let output = stage.command(keyward()).args(args).current_dir(stage.elsewhere()).output().unwrap();
        assert!(output.status.success() && !stderr(&output).contains("was killed"), "{}", stderr(&output));
        assert_eq!(journals(), 1, "{args:?}");
    }
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());
    assert_eq!(journals(), 0);
}

#[test]
fn a_project_that_is_gone_or_another_one_is_not_swept() {
    for (removed, replaced) in [(false, false), (false, true), (true, true)] {
        let stage = Stage::user();
        let mut child = stage
            .keyward_run(&[], &["sh", "-c", "touch up; sleep 60"])
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        assert!(eventually(|| stage.project().join("up").exists()));
        child.kill().unwrap();
        child.wait().unwrap();
        let other = stage.elsewhere();
        if removed {
            // The next folder may well get the same inode.
            std::fs::remove_dir_all(stage.project()).unwrap();
        } else {
            std::fs::rename(stage.project(), stage.project().with_file_name("moved")).unwrap();
        }
        if replaced {
            stage.project_file(".envrc", CONTENT);
        }
        let output =
            stage.command(keyward()).args(["run", "--", "true"]).current_dir(other).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        assert_eq!(stage.project().join(".envrc").exists(), replaced, "{removed}");
        assert_eq!(names(&stage.state().join("journals")).len(), 0);
    }
}

#[test]
fn torn_journals_and_entries_are_survived() {
    let stage = Stage::user();
    assert!(stage.caged("echo evil > .envrc").status.success());
    let about = names(&stage.state().join("quarantine"))[0].join("about");
    let whole = std::fs::read(&about).unwrap();
    for length in [0, 1, whole.len() / 2, whole.len() - 1] {
        std::fs::write(&about, &whole[..length]).unwrap();
        stage.file(&stage.state().join("journals/1-a"), "keyward journal 1\nproject /");
        stage.file(&stage.state().join("journals/.new-1-b"), "");
        let output = stage.command(keyward()).args(["quarantine", "list"]).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(stderr(&output).contains("cannot be read\nlook at "), "{}", stderr(&output));
        assert!(stage.caged("true").status.success());
        assert_eq!(names(&stage.state().join("journals")).len(), 0);
        // The thing itself is not thrown away.
        assert!(about.with_file_name("thing").exists());
    }
    std::fs::write(&about, &whole).unwrap();
    let output = stage.command(keyward()).args(["quarantine", "list"]).output().unwrap();
    assert!(stdout(&output).contains(".envrc"));
}

/// What is taken while the command runs is told by the next run as well, with the command that puts it back.
#[test]
fn what_a_killed_run_had_taken_out_is_told() {
    let stage = Stage::user();
    let mut child = stage
        .keyward_run(&[], &["sh", "-c", "sleep 0.5; echo evil > .envrc; sleep 60"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let quarantine = stage.state().join("quarantine");
    assert!(eventually(|| names(&quarantine).iter().any(|entry| stands(&entry.join("thing")))));
    child.kill().unwrap();
    child.wait().unwrap();
    let next = || {
        let mut command = stage.command(keyward());
        stderr(&command.args(["run", "--", "true"]).current_dir(stage.elsewhere()).output().unwrap())
    };
    let told = next();
    assert!(told.contains("was killed before it ended") && told.contains("took .envrc out"), "{told}");
    let remedy = told.lines().last().unwrap().split('`').nth(1).unwrap();
    assert!(remedy.starts_with("keyward quarantine restore "), "{told}");
    let words: Vec<&str> = remedy.split(' ').skip(1).collect();
    assert!(stage.command(keyward()).args(words).output().unwrap().status.success(), "{told}");
    assert!(stands(&stage.project().join(".envrc")));
    // Once is enough.
    assert_eq!(next(), "");
}

#[test]
fn what_a_killed_run_moved_out_of_a_package_is_named() {
    let stage = Stage::user();
    assert!(
        stage
            .caged("mkdir -p node_modules/e/.vscode; echo x > node_modules/e/.vscode/tasks.json")
            .status
            .success()
    );
    std::thread::sleep(std::time::Duration::from_millis(50));
    let mut child = stage
        .keyward_run(&[], &["sh", "-c", "mv node_modules/e newapp; touch up; sleep 60"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    assert!(eventually(|| stage.project().join("up").exists()));
    child.kill().unwrap();
    child.wait().unwrap();
    let output =
        stage.command(keyward()).args(["run", "--", "true"]).current_dir(stage.elsewhere()).output().unwrap();
    assert!(stderr(&output).contains("newapp/.vscode"), "{}", stderr(&output));
}
