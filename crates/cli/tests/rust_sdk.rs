//! The Rust SDK against the built executable: `keyward::Command` and `keyward::Session`, as a program of a user has them.
//!
//! Each test starts itself again, as the user of a stage and with an environment of its own, because the library takes both from its process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "rust_sdk/example.rs"]
mod example;
mod support;

use keyward::{Command, Error, ErrorKind, Judged, Session, Stdio, Value};
use std::io::{Read, Write};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;
use support::{Stage, stderr, stdout};

const INSIDE: &str = "KEYWARD_RUST_SDK_TEST";

/// Runs this test again as a program of a user, with these further variables. There it goes on, and gives `true`.
fn as_a_user(test: &str, variables: &[(&str, &str)]) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let stage = Stage::user();
    let own = std::env::current_exe().unwrap();
    let mut command = stage.command(own);
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(INSIDE, "1");
    command.env("KEYWARD_EXECUTABLE", support::keyward()).envs(variables.iter().copied());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    assert!(stdout(&output).contains("1 passed"), "{}", stdout(&output));
    false
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn sh(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn the_example_of_the_page_is_compiled_and_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/rust.md")).unwrap();
    let source = std::fs::read_to_string(root.join("crates/cli/tests/rust_sdk/example.rs")).unwrap();
    assert!(page.contains(&format!("```rust\n{source}```\n")), "docs/rust.md does not show the example");
    if as_a_user("the_example_of_the_page_is_compiled_and_runs", &[]) {
        example::example().unwrap();
    }
}

#[test]
fn a_command_has_the_shape_of_the_standard_librarys() {
    if !as_a_user(
        "a_command_has_the_shape_of_the_standard_librarys",
        &[("TERM", "dumb"), ("LANG", "C.UTF-8")],
    ) {
        return;
    }
    assert_eq!(sh("exit 7").status().unwrap().code(), Some(7));
    let output = sh("echo out; echo err >&2; exit 3").output().unwrap();
    assert_eq!(
        (output.status.code(), output.stdout, output.stderr),
        (Some(3), b"out\n".to_vec(), b"err\n".to_vec())
    );
    let killed = sh("kill -TERM $$").status().unwrap();
    assert_eq!(
        (killed.code(), killed.signal(), killed.to_string()),
        (None, Some(15), "signal: 15".to_owned())
    );
    assert_eq!(printed(sh("echo $A-$TERM").env("A", "b c").env_remove("TERM")), "b c-\n");
    assert_eq!(printed(sh("echo ${TERM:-gone}").env_clear()), "gone\n");
    std::fs::create_dir("below").unwrap();
    assert!(printed(sh("pwd").current_dir("below")).ends_with("/below\n"));
    let file = std::fs::File::create("file").unwrap();
    assert!(sh("echo to a file").stdout(file).status().unwrap().success());
    assert_eq!(std::fs::read_to_string("file").unwrap(), "to a file\n");
    let file = std::fs::File::open("file").unwrap();
    assert_eq!(printed(Command::new("cat").stdin(file)), "to a file\n");
    // More than two pipes hold, on both at once.
    let output = sh("head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2").output().unwrap();
    assert_eq!((output.stdout.len(), output.stderr.len()), (300_000, 300_000));
    let over = sh("sleep 1000").timeout(Duration::from_millis(300)).status().unwrap();
    assert_eq!((over.code(), over.limit(), over.success()), (Some(124), Some("wall"), false));
    let mut child = sh("echo ready; sleep 1000").stdout(Stdio::piped()).spawn().unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0; 6]).unwrap();
    assert_eq!(child.try_wait().unwrap(), None);
    child.signal(15).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(15));
    let mut child = sh("sleep 1000").spawn().unwrap();
    child.kill().unwrap();
    assert!(!child.wait().unwrap().success());
    assert!(printed(&mut sh("cat /proc/1/comm")).starts_with("keyward:init"), "it runs in a cage");
}

#[test]
fn no_credential_reaches_a_command_and_none_can_be_set() {
    let token = ("ACME_API_TOKEN", "not-for-children");
    if !as_a_user("no_credential_reaches_a_command_and_none_can_be_set", &[token]) {
        return;
    }
    let plain = std::process::Command::new("sh").args(["-c", "echo $ACME_API_TOKEN"]).output().unwrap();
    assert_eq!(text(&plain.stdout), "not-for-children\n", "control");
    assert_eq!(printed(&mut sh("echo $ACME_API_TOKEN")), "\n");
    let session = Session::open().unwrap();
    let output = session.command("sh").args(["-c", "echo $ACME_API_TOKEN"]).output().unwrap();
    assert_eq!(text(&output.stdout), "\n");
    let refused = [
        sh("touch ran").env("GH_TOKEN", "x").status().unwrap_err(),
        session.command("touch").arg("ran").env("GH_TOKEN", "x").status().unwrap_err(),
    ];
    for error in refused {
        assert_eq!(error.kind(), ErrorKind::Refused, "{error}");
        assert!(error.fact().contains("looks like a credential") && !error.remedy().is_empty(), "{error}");
    }
    assert!(!Path::new("ran").exists());
}

#[test]
fn what_does_not_run_is_an_error_with_rule_reason_remedy_and_whether_to_try_again() {
    if !as_a_user("what_does_not_run_is_an_error_with_rule_reason_remedy_and_whether_to_try_again", &[]) {
        return;
    }
    let session = Session::options().net("open").gate("deny").open().unwrap();
    for denied in [
        Command::new("git").args(["push", "--force"]).net("open").gate("deny").status().unwrap_err(),
        session.command("git").args(["push", "--force"]).status().unwrap_err(),
    ] {
        assert_eq!((denied.kind(), denied.rule()), (ErrorKind::Denied, Some("git-push-force")), "{denied:?}");
        assert_eq!((denied.code(), denied.to_string().lines().count()), ("denied", 2), "{denied:?}");
        assert!(!denied.reason().starts_with("denied") && !denied.remedy().is_empty(), "{denied:?}");
    }
    for missing in [
        Command::new("nosuch-program").status().unwrap_err(),
        session.command("nosuch-program").status().unwrap_err(),
    ] {
        assert_eq!(missing.kind(), ErrorKind::NotFound, "{missing}");
        assert_eq!(std::io::Error::from(missing).kind(), std::io::ErrorKind::NotFound);
    }
    for refused in [
        Command::new("true").net("sideways").stderr(Stdio::null()).status().unwrap_err(),
        Session::options().net("sideways").open().unwrap_err(),
    ] {
        assert_eq!((refused.kind(), refused.code()), (ErrorKind::Refused, "usage"), "{refused}");
    }
    assert_eq!(Session::options().profile("nobody").open().unwrap_err().kind(), ErrorKind::Refused);
    let nowhere = Command::new("true").current_dir("/nonexistent").status().unwrap_err();
    assert!(nowhere.fact().contains("/nonexistent is not a directory"), "{nowhere}");
    let file = std::fs::File::open("/").unwrap();
    let out = session.command("true").stdin(file).status().unwrap_err();
    assert_eq!((out.kind(), out.retryable()), (ErrorKind::Refused, false), "{out}");
}

/// Neither a command nor a session starts anything.
fn starts_nothing(kind: ErrorKind) {
    let mut touch = Command::new("touch");
    for error in [touch.arg("ran").status().unwrap_err(), Session::open().unwrap_err()] {
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.remedy().contains("cargo install --locked --path crates/cli"), "{error}");
    }
    assert!(!Path::new("ran").exists());
}

#[test]
fn without_the_executable_nothing_is_started() {
    if as_a_user(
        "without_the_executable_nothing_is_started",
        &[("KEYWARD_EXECUTABLE", "/nonexistent/keyward")],
    ) {
        starts_nothing(ErrorKind::NotInstalled);
    }
}

#[test]
fn with_an_executable_of_another_protocol_nothing_is_started() {
    let stage = tempfile::tempdir().unwrap();
    let other = stage.path().join("keyward");
    std::fs::write(&other, "#!/bin/sh\necho '{\"v\":1,\"protocol\":2}'\ntouch ran\n").unwrap();
    use std::os::unix::fs::PermissionsExt;
    for path in [stage.path(), &other] {
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }
    let other = ("KEYWARD_EXECUTABLE", other.to_str().unwrap());
    if as_a_user("with_an_executable_of_another_protocol_nothing_is_started", &[other]) {
        let error = Session::open().unwrap_err();
        assert!(error.fact().contains("speaks version 2 of the protocol"), "{error}");
        std::fs::remove_file("ran").unwrap();
        let error = Command::new("true").status().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::VersionMismatch);
        assert!(error.remedy().contains("cargo install"), "{error}");
    }
}

#[test]
fn commands_of_a_session_share_its_cage_and_it_ends_with_the_value() {
    if !as_a_user("commands_of_a_session_share_its_cage_and_it_ends_with_the_value", &[]) {
        return;
    }
    let session = Session::options().name("mine").net("none").open().unwrap();
    assert_eq!(session.name(), "mine");
    assert!(session.run(["sh", "-c", "echo kept > /tmp/file"]).unwrap().success());
    let output = session.command("cat").arg("/tmp/file").output().unwrap();
    assert_eq!(text(&output.stdout), "kept\n");
    let fresh = session.command("cat").arg("/tmp/nosuch").fresh().output().unwrap();
    assert_eq!(fresh.status.code(), Some(1));
    session.shell("mkdir -p sub; cd sub; WORD=it").unwrap();
    assert!(text(&session.shell("pwd; echo $WORD").unwrap().stdout).ends_with("/sub\nit\n"));
    let mut cat = session.command("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    cat.stdin.take().unwrap().write_all(b"through").unwrap();
    assert_eq!(cat.wait_with_output().unwrap().stdout, b"through");
    let over = session.command("sleep").arg("1000").timeout(Duration::from_millis(300)).status().unwrap();
    assert_eq!((over.code(), over.limit()), (Some(124), Some("wall")));
    let set =
        session.command("sh").args(["-c", "echo $A-${LANG:-gone}"]).env("A", "b").env_remove("LANG").output();
    assert_eq!(text(&set.unwrap().stdout), "b-gone\n");

    let job = session.command("sh").args(["-c", "echo ready; read line"]).background().unwrap();
    assert_eq!(job.wait(Duration::from_secs(60)).unwrap().unwrap().code(), Some(1), "its input is empty");
    assert_eq!(job.output().unwrap(), b"ready\n");
    let job = session.command("sleep").arg("1000").background().unwrap();
    assert_eq!(job.try_wait().unwrap(), None);
    job.kill().unwrap();
    assert_eq!(job.wait(Duration::from_secs(60)).unwrap().unwrap().code(), Some(137));

    let mut left = session.command("sleep").arg("1000").spawn().unwrap();
    drop(session);
    assert_eq!(left.wait().unwrap_err().kind(), ErrorKind::SessionLost);
    let listed = std::process::Command::new(support::keyward()).arg("ps").output().unwrap();
    assert!(!text(&listed.stdout).contains("mine"), "{}", text(&listed.stdout));
}

/// The descriptors of this process that are connections to a session.
fn connections() -> usize {
    let listed = std::fs::read_dir("/proc/self/fd").unwrap().filter_map(Result::ok);
    let targets = listed.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    targets.filter(|target| target.to_string_lossy().starts_with("socket:")).count()
}

#[test]
fn commands_one_after_the_other_share_a_connection_and_none_is_left_by_those_that_failed() {
    if !as_a_user(
        "commands_one_after_the_other_share_a_connection_and_none_is_left_by_those_that_failed",
        &[],
    ) {
        return;
    }
    let before = connections();
    let session = Session::open().unwrap();
    session.run(["true"]).unwrap();
    let with_one = connections();
    assert_eq!(with_one, before + 2, "its owner's, and that of the command");
    for _ in 0..3 {
        assert_eq!(session.run(["sh", "-c", "exit 3"]).unwrap().code(), Some(3));
        assert_eq!(session.run(["nosuch-program"]).unwrap_err().kind(), ErrorKind::NotFound);
        let job = session.command("sh").args(["-c", "exit 5"]).background().unwrap();
        assert_eq!(job.wait(Duration::from_secs(60)).unwrap().unwrap().code(), Some(5));
    }
    assert_eq!(connections(), with_one);
    // What was signalled has answers under way: its connection is not used again.
    let mut child = session.command("sleep").arg("1000").spawn().unwrap();
    child.signal(15).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(15));
    assert_eq!(session.run(["sh", "-c", "exit 4"]).unwrap().code(), Some(4));
    drop(child);
    assert_eq!(connections(), with_one);
    drop(session);
    assert_eq!(connections(), before);
}

#[test]
fn the_methods_are_the_flags_of_keyward_run_each_of_them() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../worker/src/spawn");
    let sources = ["flags.rs", "session.rs"].map(|name| std::fs::read_to_string(root.join(name)).unwrap());
    // keyward: allow-spawn the launcher itself, asked for its flags
    let help = std::process::Command::new(support::keyward()).args(["run", "--help"]).output().unwrap();
    let help = text(&help.stdout);
    let flags = help.lines().filter_map(|line| line.split("--").nth(1).filter(|_| line.starts_with("  ")));
    let names = flags.map(|rest| rest.split([' ', '<', '=']).next().unwrap_or_default().to_owned());
    let own = ["json", "outcome-fd", "verbose", "quiet", "help", "cwd", ""];
    let missing: Vec<String> = names
        .filter(|name| !own.contains(&name.as_str()))
        .filter(|name| !sources.iter().any(|source| source.contains(&format!("\"--{name}\""))))
        .collect();
    assert_eq!(missing, Vec::<String>::new());
    assert!(help.contains("--allow-net"), "the help is not there");
}

#[test]
fn a_thread_acts_for_the_session_that_it_was_handed_and_for_no_other() {
    fn may_be_handed_on<T: Send + Sync>() {}
    may_be_handed_on::<Session>();
    fn may_be_moved<T: Send>() {}
    may_be_moved::<keyward::Child>();
    if !as_a_user("a_thread_acts_for_the_session_that_it_was_handed_and_for_no_other", &[]) {
        return;
    }
    let sessions = [
        Session::options().env("WHO", "one").open().unwrap(),
        Session::options().env("WHO", "two").open().unwrap(),
    ];
    std::thread::scope(|scope| {
        for number in 0..8 {
            let session = &sessions[number % 2];
            scope.spawn(move || {
                for _ in 0..3 {
                    let output = session.command("sh").args(["-c", "echo $WHO"]).output().unwrap();
                    assert_eq!(text(&output.stdout), ["one\n", "two\n"][number % 2]);
                }
            });
        }
    });
    // A pattern that gets lost: another thread has another value, and starts without a session.
    thread_local!(static AMBIENT: std::cell::Cell<Option<&'static str>> = const { std::cell::Cell::new(None) });
    AMBIENT.set(Some("a session"));
    assert_eq!(std::thread::spawn(|| AMBIENT.get()).join().unwrap(), None, "control");
    // A session can be moved into a thread, and ends there.
    let [one, two] = sessions;
    let name = std::thread::spawn(move || one.name().to_owned()).join().unwrap();
    let listed = std::process::Command::new(support::keyward()).arg("ps").output().unwrap();
    assert!(!text(&listed.stdout).contains(&name) && text(&listed.stdout).contains(two.name()));
}

#[test]
fn a_session_whose_process_dies_turns_every_later_call_into_an_error() {
    if !as_a_user("a_session_whose_process_dies_turns_every_later_call_into_an_error", &[]) {
        return;
    }
    let session = Session::open().unwrap();
    let mut running = session.command("sleep").arg("1000").spawn().unwrap();
    let listed = std::process::Command::new(support::keyward()).args(["ps", "--json"]).output().unwrap();
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let pid = find_pid(&listed).unwrap_or_else(|| panic!("{listed}"));
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let lost: [Error; 4] = [
        running.wait().unwrap_err(),
        session.command("touch").arg("ran").status().unwrap_err(),
        session.shell("touch ran").unwrap_err(),
        session.tool("x", None, Ok).unwrap_err(),
    ];
    for error in lost {
        assert_eq!(error.kind(), ErrorKind::SessionLost, "{error}");
    }
    assert!(!Path::new("ran").exists());
}

fn find_pid(value: &serde_json::Value) -> Option<i32> {
    match value {
        serde_json::Value::Object(fields) => match fields.get("pid").and_then(serde_json::Value::as_i64) {
            Some(pid) => i32::try_from(pid).ok(),
            None => fields.values().find_map(find_pid),
        },
        serde_json::Value::Array(all) => all.iter().find_map(find_pid),
        _ => None,
    }
}

#[test]
fn only_a_clear_yes_in_time_is_an_approval() {
    if !as_a_user("only_a_clear_yes_in_time_is_an_approval", &[]) {
        return;
    }
    let asks = |session: &Session| session.command("git").args(["push", "--force"]).output();
    let (seen, questions) = mpsc::channel();
    let seen = std::sync::Mutex::new(seen);
    let mut options = Session::options();
    options.gate("ask").approval_timeout(Duration::from_millis(300));
    let yes = options
        .clone()
        .on_approval(move |question| {
            seen.lock().unwrap().send((question.argv.clone(), question.rule.clone())).unwrap();
            true
        })
        .open()
        .unwrap();
    // It runs, and git itself fails: there is no repository.
    assert_eq!(asks(&yes).unwrap().status.code(), Some(128));
    let question = questions.recv_timeout(Duration::from_secs(30)).unwrap();
    assert_eq!(
        question,
        (vec!["git".into(), "push".into(), "--force".into()], Some("git-push-force".into()))
    );
    let no: [keyward::Options; 4] = [
        options.clone(),
        options.clone().on_approval(|_| false).clone(),
        options.clone().on_approval(|_| panic!("an approver that breaks")).clone(),
        options
            .clone()
            .on_approval(|_| {
                std::thread::sleep(Duration::from_secs(3));
                true
            })
            .clone(),
    ];
    for options in no {
        let session = options.open().unwrap();
        assert_eq!(asks(&session).unwrap_err().kind(), ErrorKind::Denied);
    }
}

#[test]
fn a_command_calls_a_function_that_was_named_for_it_and_no_other_does() {
    let executable = std::fs::canonicalize(support::keyward()).unwrap();
    if !as_a_user("a_command_calls_a_function_that_was_named_for_it_and_no_other_does", &[]) {
        return;
    }
    let session = Session::options().read(&executable).open().unwrap();
    let schema = serde_json::json!({ "type": "object", "required": ["a"], "properties": { "a": { "type": "integer" } } });
    let key = format!("ghp_{}", "a1B2".repeat(9));
    let leaks = key.clone();
    session.tool("next", Some(schema), move |input| {
        Ok(serde_json::json!({ "next": input["a"].as_i64().unwrap() + 1, "log": format!("with {leaks}") }))
    }).unwrap();
    let call = |tools: &[&str], input: &str| {
        let mut command = session.command(&executable);
        for tool in tools {
            command.tool(*tool);
        }
        command.args(["call", "next", input]).output().unwrap()
    };
    let told = call(&["next"], r#"{"a": 4}"#);
    let told: serde_json::Value =
        serde_json::from_slice(&told.stdout).unwrap_or_else(|_| panic!("{}", text(&told.stderr)));
    assert_eq!(told["next"], 5);
    assert!(!told["log"].as_str().unwrap().contains(&key), "{told}");
    assert!(text(&call(&["next"], r#"{"a": "x"}"#).stderr).contains("the input does not fit"));
    assert!(text(&call(&[], r#"{"a": 4}"#).stderr).contains("not named for the command that calls it"));
    let beside = session.command("sleep").arg("1000").tool("next").background().unwrap();
    assert!(text(&call(&[], r#"{"a": 4}"#).stderr).contains("not named for the command that calls it"));
    beside.kill().unwrap();
    assert_eq!(session.tool("a b", None, Ok).unwrap_err().kind(), ErrorKind::Refused);
    let ran = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let runs = ran.clone();
    session
        .judged_tool("shell", None, Judged::sh().field("command"), move |_| {
            runs.store(true, std::sync::atomic::Ordering::SeqCst);
            Ok(Value::Null)
        })
        .unwrap();
    let shell = |line: &str| {
        let input = serde_json::json!({ "command": line }).to_string();
        session.command(&executable).tool("shell").args(["call", "shell", &input]).output().unwrap()
    };
    let denied = shell("git push --force");
    assert!(!denied.status.success() && !ran.load(std::sync::atomic::Ordering::SeqCst), "{denied:?}");
    assert!(shell("ls").status.success() && ran.load(std::sync::atomic::Ordering::SeqCst), "control");
    let unknown = serde_json::json!({ "pattern": "x" });
    assert!(session.tool("ok", Some(unknown), Ok).unwrap_err().fact().contains("pattern is not checked"));
}
