//! Limits, each hit for real: what the command sees, what the user reads, and the code.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::process::{Command, Output};
use std::time::{Duration, Instant};
use support::{Stage, after_a_sign, ran, stderr, stdout};

const RAISE: &str = "raise the limit if the command needs more\n";

/// A stage whose user's policy has these limits.
fn limited(mut stage: Stage, limits: &str) -> Stage {
    put_limits(&mut stage, limits);
    stage
}

fn put_limits(stage: &mut Stage, limits: &str) {
    stage.home_file(".config/keyward/policy.toml", &format!("version = 1\n\n[limits]\n{limits}\n"));
}

/// The output, or a failure if the run does not end at all.
#[track_caller]
fn ends(mut command: Command) -> Output {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || drop(sender.send(command.output().unwrap())));
    receiver.recv_timeout(Duration::from_secs(60)).expect("the limit did not end the command")
}

fn explained(stage: &Stage, flags: &[&str]) -> String {
    let mut command = stage.command(support::keyward());
    stdout(&command.arg("explain").args(flags).args(["--", "true"]).output().unwrap())
}

#[test]
fn a_timeout_ends_a_command_that_ignores_every_request_and_its_daemons() {
    for stage in [Stage::user(), Stage::root()] {
        let marker = format!("1000.{}7", std::process::id());
        let script = format!(
            "trap '' INT TERM HUP; (trap '' INT TERM; setsid sleep {marker} &); setsid sh -c 'trap \"\" INT TERM; while :; do sleep 1; done' & \
             while :; do sleep 1; done"
        );
        let started = Instant::now();
        let output = ends(stage.keyward_run(&["--timeout", "1s"], &["sh", "-c", &script]));
        assert_eq!(output.status.code(), Some(124));
        assert!(started.elapsed() >= Duration::from_secs(1));
        let wanted =
            format!("keyward: the command was ended: it reached the limit wall = 1s (--timeout)\n{RAISE}");
        assert_eq!(stderr(&output), wanted);
        let left = Command::new("pgrep").args(["-f", &format!("sleep {marker}")]).output().unwrap();
        assert_eq!(stdout(&left), "", "something outlived the timeout");
    }
}

#[test]
fn a_timeout_asks_before_it_insists() {
    let stage = Stage::user();
    let output = ends(stage.keyward_run(
        &["--timeout", "500ms"],
        &["bash", "-c", "trap 'echo tidied; exit 0' INT; while :; do sleep 0.05; done"],
    ));
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(124), "tidied\n"));
}

#[test]
fn a_command_that_is_done_in_time_is_not_touched() {
    let stage = Stage::user();
    let output = stage.keyward_run(&["--timeout", "1h"], &["sh", "-c", "exit 3"]).output().unwrap();
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(3), ""));
}

#[test]
fn a_wall_limit_of_the_policy_file_names_its_line() {
    let stage = limited(Stage::user(), "wall = \"1s\"");
    let output = ends(stage.keyward_run(&[], &["sleep", "1000"]));
    assert_eq!(output.status.code(), Some(124));
    let text = stderr(&output);
    assert!(
        text.starts_with("keyward: the command was ended: it reached the limit wall = 1s (")
            && text.contains("policy.toml:4)"),
        "{text}"
    );
}

#[test]
fn memory_beyond_the_limit_is_refused() {
    let eat = "python3 -c 'x = bytearray(600 << 20); print(\"ATE\", len(x))'";
    for stage in [Stage::user(), Stage::root()] {
        assert!(stdout(&stage.bare(eat)).contains("ATE"));
        assert!(stdout(&stage.caged(eat)).contains("ATE"));
        let output = ends(stage.keyward_run(&["--memory", "200M"], &["sh", "-c", eat]));
        assert!(!stdout(&output).contains("ATE"), "the limit does not hold");
        assert!(!output.status.success());
        assert!(stderr(&output).contains("the limit memory = 200 MiB (--memory)"), "{}", stderr(&output));
        // An honest program that needs less runs.
        let small = ends(stage.keyward_run(&["--memory", "200M"], &["python3", "-c", "print('fits')"]));
        assert_eq!(stdout(&small), "fits\n", "{}", stderr(&small));
        assert!(explained(&stage, &["--memory", "200M"]).contains("memory"));
    }
}

#[test]
fn the_private_folders_count_as_memory() {
    let stage = Stage::user();
    let fill = "head -c 100M /dev/zero > /tmp/big && echo FITS";
    assert!(stdout(&stage.caged(fill)).contains("FITS"));
    let output = ran(ends(stage.keyward_run(&["--memory", "32M"], &["sh", "-c", &after_a_sign(fill)])));
    assert!(!stdout(&output).contains("FITS"), "{}", stdout(&output));
}

#[test]
fn processes_beyond_the_limit_are_refused() {
    let many = "import os, time\nmade = 0\ntry:\n while made < 64:\n  if os.fork() == 0: time.sleep(1000)\n  made += 1\nexcept OSError as e: print(e.strerror)\nprint('made', made, flush=True)\nos._exit(0)\n";
    for stage in [Stage::user(), Stage::root()] {
        stage.project_file("many.py", many);
        let free = ends(stage.keyward_run(&[], &["python3", "many.py"]));
        assert_eq!(stdout(&free), "made 64\n", "{}", stderr(&free));
        let output = ends(stage.keyward_run(&["--pids", "10"], &["python3", "many.py"]));
        // The program itself is one of the ten.
        assert_eq!(
            stdout(&output),
            "Resource temporarily unavailable\nmade 9\n",
            "{}",
            explained(&stage, &["--pids", "10"])
        );
    }
}

/// A fork bomb that stops at 6000 children. It says how many it got, takes what becomes free later, and ends with its input. Its
/// children end with it.
const BOUNDED_BOMB: &str = r#"
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>
static int held;
static int more(void) {
    int pid = held < 6000 ? fork() : -1;
    if (pid == 0) { prctl(PR_SET_PDEATHSIG, SIGKILL); close(0); close(1); close(2); pause(); _exit(0); }
    if (pid > 0) held++;
    return pid > 0;
}
int main(void) {
    while (more());
    printf("held %d\n", held);
    fflush(stdout);
    struct pollfd input = { 0, POLLIN };
    while (poll(&input, 1, 0) == 0) more();
}"#;

/// Starts the bomb, and says how many children it got and what `meanwhile` found while it held them.
fn while_a_bomb_holds<T>(mut command: Command, meanwhile: impl FnOnce() -> T) -> (String, T) {
    let mut bomb =
        command.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(bomb.stdout.as_mut().unwrap()), &mut line)
        .unwrap();
    let found = meanwhile();
    drop(bomb.stdin.take());
    bomb.wait().unwrap();
    (line, found)
}

#[test]
fn by_default_a_fork_bomb_leaves_the_user_room_for_processes() {
    let stage = Stage::user();
    let bomb = stage.program("bomb", BOUNDED_BOMB);
    // A user with fewer processes than this machine allows, so that the control can take them all.
    let as_user = |script: &str| {
        let mut command = stage.command("prlimit");
        command.args(["--nproc=5000", "sh", "-c", script]);
        command
    };
    let can_fork =
        || stdout(&as_user("sh -c 'true; echo forked'; echo done").output().unwrap()) == "forked\ndone\n";
    let caged = format!("exec \"{}\" run -- {bomb}", support::keyward());
    let (inside, forked) = while_a_bomb_holds(as_user(&caged), can_fork);
    // The bomb itself is one of 4096.
    assert_eq!((inside.as_str(), forked), ("held 4095\n", true));
    // Each cage has its own count.
    let (_, second) =
        while_a_bomb_holds(as_user(&caged), || stdout(&stage.caged("sh -c 'true; echo forked'")));
    assert_eq!(second, "forked\n");
    assert!(explained(&stage, &[]).contains("by an rlimit of its user namespace (built in)"));
    // The control comes last, because its children take a moment to end.
    let (outside, forked) =
        while_a_bomb_holds(as_user(&format!("exec {bomb}")), || !support::eventually(|| !can_fork()));
    assert!(outside.starts_with("held 4") && !forked, "the control did not work: {outside}{forked}");
}

#[test]
fn by_default_a_fork_bomb_of_root_is_bounded_and_the_limit_can_be_raised() {
    let stage = Stage::root();
    let bomb = stage.program("bomb", BOUNDED_BOMB);
    let held = |flags: &[&str]| {
        while_a_bomb_holds(stage.keyward_run(flags, &["sh", "-c", &format!("exec {bomb}")]), || ()).0
    };
    let mut bare = stage.command("sh");
    bare.args(["-c", &format!("exec {bomb}")]);
    assert_eq!(while_a_bomb_holds(bare, || ()).0, "held 6000\n", "the control did not work");
    assert_eq!(held(&[]), "held 4095\n");
    assert_eq!(held(&["--pids", "5000"]), "held 4999\n");
}

#[test]
fn a_fork_bomb_is_over_when_its_time_is() {
    let stage = Stage::user();
    let output = ends(
        stage.keyward_run(&["--pids", "50", "--timeout", "1s"], &["perl", "-e", "fork while 1; sleep 1000"]),
    );
    assert_eq!(output.status.code(), Some(124));
}

#[test]
fn two_runs_do_not_share_one_count_of_processes() {
    let stage = Stage::user();
    let mut first = stage
        .keyward_run(
            &["--pids", "10"],
            &["sh", "-c", "for n in 1 2 3 4 5 6 7 8; do sleep 1000 & done; echo up; wait"],
        )
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut up = [0; 3];
    std::io::Read::read_exact(first.stdout.as_mut().unwrap(), &mut up).unwrap();
    let second = ends(stage.keyward_run(
        &["--pids", "10"],
        &["sh", "-c", "for n in 1 2 3 4 5 6 7 8; do sleep 0.1 & done; wait; echo ran"],
    ));
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(stdout(&second), "ran\n", "{}", stderr(&second));
}

#[test]
fn processor_time_beyond_the_limit_ends_the_command_and_says_so() {
    let stage = limited(Stage::user(), "cpu = \"1s\"");
    let output = ends(stage.keyward_run(&[], &["sh", "-c", "while :; do :; done"]));
    assert_eq!(output.status.code(), Some(128 + 24));
    let text = stderr(&output);
    assert!(
        text.starts_with("keyward: the command was ended: it reached the limit cpu = 1s (")
            && text.contains("policy.toml:4)"),
        "{text}"
    );
    assert!(text.ends_with(RAISE), "{text}");
}

#[test]
fn processor_time_cannot_be_had_by_ignoring_the_signal() {
    let stage = limited(Stage::user(), "cpu = \"1s\"");
    let output = ends(stage.keyward_run(&[], &["bash", "-c", "trap '' XCPU; while :; do :; done"]));
    assert_ne!(output.status.code(), Some(0));
}

#[test]
fn a_command_that_ends_by_that_signal_without_a_limit_is_not_blamed_on_one() {
    let stage = Stage::user();
    let output = stage.caged("kill -XCPU $$");
    assert_eq!(output.status.code(), Some(128 + 24));
    assert_eq!(stderr(&output), "");
}

#[test]
fn open_files_beyond_the_limit_are_refused() {
    let many = "import os\nopened = 0\ntry:\n while opened < 200:\n  os.open('/dev/null', 0); opened += 1\nexcept OSError as e: print(e.strerror)\nprint('opened', opened)\n";
    let mut stage = Stage::user();
    stage.project_file("many.py", many);
    assert_eq!(stdout(&stage.caged("python3 many.py")), "opened 200\n");
    put_limits(&mut stage, "open_files = 50");
    let output = stage.caged("python3 many.py");
    assert_eq!(stdout(&output), "Too many open files\nopened 47\n", "{}", stderr(&output));
}

#[test]
fn output_beyond_the_limit_ends_the_command_and_says_so() {
    let stage = limited(Stage::user(), "output = \"10K\"");
    let output = ends(stage.keyward_run(&[], &["sh", "-c", "trap '' PIPE TERM; yes 2>/dev/null"]));
    assert_eq!(output.stdout.len(), 10 * 1024);
    assert_eq!(output.status.code(), Some(137));
    let text = stderr(&output);
    assert!(
        text.starts_with("keyward: the command was ended: it reached the limit output = 10 KiB (")
            && text.contains("policy.toml:4)"),
        "{text}"
    );
    assert!(text.ends_with(RAISE), "{text}");
}

#[test]
fn output_up_to_the_limit_passes_whole() {
    let stage = limited(Stage::user(), "output = \"10K\"");
    let output = ends(
        stage.keyward_run(&[], &["sh", "-c", "head -c 5120 /dev/zero; head -c 5120 /dev/zero >&2; exit 4"]),
    );
    assert_eq!((output.stdout.len(), output.stderr.len(), output.status.code()), (5120, 5120, Some(4)));
    let over =
        ends(stage.keyward_run(
            &[],
            &["sh", "-c", "head -c 5120 /dev/zero; head -c 5121 /dev/zero >&2; sleep 1000"],
        ));
    assert_eq!(over.status.code(), Some(137));
    assert!(String::from_utf8_lossy(&over.stderr).contains("it reached the limit output"));
}

#[test]
fn a_reader_that_leaves_is_noticed_also_where_output_is_counted() {
    let stage = limited(Stage::user(), "output = \"1G\"");
    let mut command = stage.command("bash");
    command.args(["-c", "\"$0\" run -- yes | head -n 1; echo codes ${PIPESTATUS[*]}", support::keyward()]);
    assert_eq!(stdout(&ends(command)), "y\ncodes 141 0\n");
}

#[test]
fn the_outcome_names_the_limit() {
    let stage = limited(Stage::user(), "output = \"1K\"");
    let output = ends(stage.keyward_run(&["--json"], &["yes"]));
    let value: serde_json::Value = serde_json::from_str(stderr(&output).lines().last().unwrap()).unwrap();
    assert_eq!(
        (&value["outcome"], &value["limit"], &value["exit"]),
        (&"limit".into(), &"output".into(), &137.into())
    );
}
