//! What clients of sessions are told when something is not as they think, and where sessions are found.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/session.rs"]
mod session;
mod support;

use rustix::process::{Pid, Signal, kill_process};
use session::Session;
use std::os::unix::fs::PermissionsExt;
use std::process::Output;
use support::{Stage, Who, eventually, keyward, refused, stderr, stdout};

#[test]
fn what_is_not_there_is_a_mistake_of_the_caller_and_told_in_two_lines() {
    let session = Session::new(Who::User, &[]);
    for (arguments, words) in [
        (&["exec", "other", "--", "true"][..], "there is no session other"),
        (&["session", "stop", "other"], "there is no session other"),
        (&["logs", "work/99"], "there is no job 99"),
        (&["kill", "work/99"], "there is no job 99"),
        (&["interrupt", "work/99"], "there is no job 99"),
        (&["attach", "work/99"], "there is no job 99"),
    ] {
        let output = refused(session.keyward(arguments), 120, words);
        assert_eq!(stderr(&output).lines().count(), 2, "{}", stderr(&output));
        assert!(stderr(&output).contains("`keyward ps`"), "{}", stderr(&output));
    }
}

#[test]
fn what_cannot_be_done_about_a_job_is_told_with_its_reason() {
    let session = Session::new(Who::User, &[]);
    // The command does not say its code, so that only the end of the job does.
    let ended = session.background("exit $((1 + 2))");
    assert!(eventually(|| stdout(&session.keyward(&["ps"])).contains("exit 3")));
    for what in ["kill", "interrupt", "attach"] {
        refused(session.keyward(&[what, &ended]), 120, "job 1: it has ended");
    }
    let running = session.background("sleep 1000");
    refused(session.keyward(&["attach", &running]), 120, "job 2: it has no terminal");
    let mut client = session.command(&["exec", "work", "--", "sleep", "1000"]).spawn().unwrap();
    assert!(eventually(|| stdout(&session.keyward(&["ps"])).contains("work/3")));
    refused(session.keyward(&["logs", "work/3"]), 120, "job 3: it does not run in the background");
    client.kill().unwrap();
    client.wait().unwrap();
}

#[test]
fn a_folder_is_named_from_where_the_caller_stands_in_the_project() {
    let session = Session::new(Who::User, &[]);
    let project = session.stage.project();
    session.stage.make_folder(&project.join("a/b"));
    session.stage.make_folder(&project.join("b"));
    let pwd = |from: &std::path::Path, cwd: &str| {
        let mut command = session.command(&["exec", "work", "--cwd", cwd, "--", "pwd"]);
        command.current_dir(from).output().unwrap()
    };
    let inside = stdout(&pwd(&project.join("a"), "b"));
    assert_eq!(inside, format!("{}\n", project.join("a/b").display()));
    let outside = stdout(&pwd(std::path::Path::new("/"), "b"));
    assert_eq!(outside, format!("{}\n", project.join("b").display()));
    assert_eq!(stdout(&pwd(&project, "/tmp")), "/tmp\n");
    for flags in [&[][..], &["--pty"]] {
        let output =
            session.keyward(&[&["exec", "work", "--cwd", "nowhere"], flags, &["--", "pwd"]].concat());
        let output = refused(output, 120, "nowhere does not exist in the cage");
        assert!(stderr(&output).contains("--cwd"), "{}", stderr(&output));
    }
}

#[test]
fn sessions_are_seen_and_ended_from_a_folder_that_was_deleted() {
    let session = Session::new(Who::User, &[]);
    let script = "mkdir gone; cd gone; rmdir ../gone; \"$0\" ps && \"$0\" exec work -- echo inside && \"$0\" session stop work";
    let output = session.stage.command("sh").args(["-c", script, keyward()]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        stdout(&output).starts_with("work  /") && stdout(&output).ends_with("inside\n"),
        "{}",
        stdout(&output)
    );
}

#[test]
fn a_session_is_found_with_and_without_the_variable_that_moves_it() {
    for starts_with in [true, false] {
        let stage = Stage::user();
        let folder = stage.elsewhere().join("runtime");
        stage.make_folder(&folder);
        let keyward = |with: bool, arguments: &[&str]| -> Output {
            let mut command = stage.command(keyward());
            command.args(arguments);
            if with {
                command.env("XDG_RUNTIME_DIR", &folder);
            }
            command.output().unwrap()
        };
        assert!(keyward(starts_with, &["session", "start", "--name", "work"]).status.success());
        assert!(folder.join("keyward/sessions/work").exists() == starts_with);
        for with in [true, false] {
            let found = format!("work  {}\n", stage.project().display());
            assert_eq!(stdout(&keyward(with, &["ps"])), found);
            assert_eq!(stdout(&keyward(with, &["exec", "work", "--", "echo", "here"])), "here\n");
            refused(
                keyward(with, &["session", "start", "--name", "work"]),
                120,
                "there is a session work already",
            );
        }
        assert!(keyward(!starts_with, &["session", "stop", "work"]).status.success());
        for with in [true, false] {
            refused(keyward(with, &["exec", "work", "--", "true"]), 120, "there is no session work");
        }
        assert_eq!(std::fs::read_dir(stage.state().join("run/elsewhere")).map_or(0, Iterator::count), 0);
    }
}

#[test]
fn a_runtime_folder_that_cannot_be_used_is_told_by_its_variable() {
    let stage = Stage::user();
    let folder = stage.elsewhere().join("closed");
    stage.make_folder(&folder);
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o500)).unwrap();
    let mut command = stage.command(keyward());
    command.args(["session", "start"]).env("XDG_RUNTIME_DIR", &folder);
    refused(command.output().unwrap(), 125, "XDG_RUNTIME_DIR");
}

#[test]
fn a_session_that_was_stopped_keeps_nobody_waiting_for_ever() {
    let session = Session::new(Who::User, &[]);
    let json: serde_json::Value = serde_json::from_str(&stdout(&session.keyward(&["ps", "--json"]))).unwrap();
    let pid = Pid::from_raw(json["sessions"][0]["pid"].as_i64().unwrap() as i32).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let output = refused(session.exec(&[], "true"), 125, "the session does not answer");
    assert_eq!(stderr(&output).lines().count(), 2, "{}", stderr(&output));
    let listed = session.keyward(&["ps"]);
    assert!(stderr(&listed).contains("work: the session does not answer"), "{}", stderr(&listed));
    kill_process(pid, Signal::CONT).unwrap();
    assert_eq!(session.said("echo again"), "again\n");
}

#[test]
fn the_outcome_of_a_command_is_the_last_line_of_stderr() {
    let session = Session::new(Who::User, &[]);
    let outcome = |flags: &[&str], script: &str| -> serde_json::Value {
        let output = session.exec(&[&["--json"], flags].concat(), script);
        serde_json::from_str(stderr(&output).lines().last().unwrap()).unwrap()
    };
    let ended = outcome(&[], "echo said >&2; exit 3");
    assert_eq!((&ended["v"], &ended["exit"], &ended["outcome"]), (&1.into(), &3.into(), &"exited".into()));
    let killed = outcome(&[], "kill -KILL $$");
    assert_eq!((&killed["exit"], &killed["signal"]), (&137.into(), &9.into()));
    let late = outcome(&["--timeout", "200ms"], "sleep 50");
    assert_eq!(
        (&late["exit"], &late["outcome"], &late["limit"]),
        (&124.into(), &"limit".into(), &"wall".into())
    );
    let missing = session.keyward(&["exec", "work", "--json", "--", "no-such-program"]);
    let told: serde_json::Value = serde_json::from_str(&stderr(&missing)).unwrap();
    assert_eq!((&told["exit"], &told["outcome"]), (&127.into(), &"fault".into()));
    let absent = session.keyward(&["session", "stop", "--json", "other"]);
    let told: serde_json::Value = serde_json::from_str(&stderr(&absent)).unwrap();
    assert_eq!((&told["exit"], absent.status.code()), (&120.into(), Some(120)));
    let stopped = session.keyward(&["session", "stop", "--json", "work"]);
    let told: serde_json::Value = serde_json::from_str(&stdout(&stopped)).unwrap();
    assert_eq!(told["session"], "work");
}

#[test]
fn a_job_that_its_time_ended_is_listed_so() {
    let session = Session::new(Who::User, &[]);
    session.exec(&["--background", "--timeout", "200ms"], "sleep 50");
    assert!(eventually(|| stdout(&session.keyward(&["ps"])).contains("exit 124")));
}

#[test]
fn in_a_cage_that_is_no_sessions_the_next_one_is_refused_with_its_reason() {
    for what in [&["run", "--", "true"][..], &["session", "start"]] {
        let stage = Stage::user();
        let folder = stage.elsewhere();
        let program = folder.join("keyward");
        std::fs::copy(keyward(), &program).unwrap();
        stage.own(&program);
        let argv = [&[program.to_str().unwrap()], what].concat();
        let output = stage.keyward_run(&["--read", folder.to_str().unwrap()], &argv).output().unwrap();
        let output = refused(output, 122, "in a cage already");
        assert!(stderr(&output).contains("session"), "{}", stderr(&output));
    }
}

#[test]
fn a_command_of_a_session_that_failed_for_a_reason_of_the_cage_is_told_it() {
    let session = Session::new(Who::User, &[]);
    session.stage.home_file("other/notes", "outside\n");
    session.stage.project_file("plain.txt", "");
    let notes = session.stage.home().join("other/notes");
    let exec =
        |flags: &[&str], argv: &[&str]| session.keyward(&[&["exec", "work"], flags, &["--"], argv].concat());
    for (argv, words) in [
        (&["cat", notes.to_str().unwrap()][..], "/other/notes' is not the one outside"),
        (&["sh", "-c", "strace true"], "keyward: `strace` needs ptrace, which a cage does not give\n"),
        (&["./plain.txt"], "it is there, but cannot be executed in the cage; check its mode"),
        (&["ls -la"], "it is one word with spaces"),
        (&["cd", "src"], "`cd` is a builtin of shells"),
        (&["no-such-program"], "`keyward why exec --session no-such-program`"),
    ] {
        let failed = exec(&[], argv);
        assert!(!failed.status.success() && stderr(&failed).contains(words), "{argv:?}: {}", stderr(&failed));
    }
    let json = exec(&["--json"], &["strace", "true"]);
    let outcome: serde_json::Value = serde_json::from_str(stderr(&json).lines().last().unwrap()).unwrap();
    assert_eq!(outcome["hint"]["fact"], "`strace` needs ptrace, which a cage does not give");
    // A command in a cage learns nothing of what exists outside.
    let line = format!("keyward run -- cat '{}'; true", notes.display());
    let inside = exec(&[], &["sh", "-c", &line]);
    assert!(!stderr(&inside).contains("not the one outside"), "{}", stderr(&inside));
}

/// A command that closes the root of the project does not keep the next one of its session from starting.
#[test]
fn a_project_that_a_command_has_closed_is_open_to_the_next_one() {
    let session = Session::new(Who::User, &[]);
    for mode in ["000", "311", "444"] {
        assert!(session.exec(&[], &format!("chmod {mode} .")).status.success());
        let next = session.exec(&[], "pwd > /dev/null && echo x > made && rm made && echo works");
        assert_eq!(stdout(&next), "works\n", "{mode}: {}", stderr(&next));
    }
}

#[test]
fn a_session_that_is_killed_while_it_starts_leaves_no_exit_code_without_words() {
    for argv in [&["session", "start", "--name", "short"][..], &["run", "--shims", "--", "true"]] {
        let stage = Stage::user();
        let mut command = stage.command(keyward());
        command.args(argv).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        let client = command.spawn().unwrap();
        let children = format!("/proc/{0}/task/{0}/children", client.id());
        let is_session = |child: &&str| {
            std::fs::read_to_string(format!("/proc/{child}/comm"))
                .is_ok_and(|name| name.starts_with("keyward:sess"))
        };
        // Without a pause: its cage takes a few milliseconds.
        let began = std::time::Instant::now();
        while began.elapsed().as_secs() < 20 {
            let now = std::fs::read_to_string(&children).unwrap_or_default();
            if let Some(session) = now.split_whitespace().find(is_session) {
                let session = Pid::from_raw(session.parse().unwrap()).unwrap();
                kill_process(session, Signal::KILL).unwrap();
                break;
            }
        }
        let output = refused(client.wait_with_output().unwrap(), 125, "ended before its cage was ready");
        assert_eq!(stderr(&output).lines().count(), 2, "{}", stderr(&output));
    }
}
