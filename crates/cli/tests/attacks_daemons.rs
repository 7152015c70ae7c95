//! What wants to outlive its cage, or to take all there is.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use rustix::process::{Pid, Signal, kill_process};
use support::{Stage, after_a_sign, eventually, long_time, processes_with, ran, stderr, stdout};

/// Forks twice, leaves session, group and streams behind, and sleeps under a name that can be found.
const DAEMON: &str = r#"
import os, signal, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT): signal.signal(number, signal.SIG_IGN)
        null = os.open("/dev/null", os.O_RDWR)
        for fd in (0, 1, 2): os.dup2(null, fd)
        os.execvp("sleep", ["sleep", sys.argv[1]])
    os._exit(0)
os.wait()
"#;

/// `sleep` itself, not a launcher or shell that was told its time.
fn sleeping(time: &str) -> Vec<u32> {
    let is_sleep = |pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "sleep")
    };
    processes_with(time).into_iter().filter(is_sleep).collect()
}

fn kill(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid.try_into().unwrap()).unwrap();
    let _ = kill_process(pid, signal);
}

fn is_gone(time: &str) -> bool {
    eventually(|| sleeping(time).is_empty())
}

/// The control: without a cage the daemon lives on when its starter has ended.
fn lives_on_outside(stage: &Stage, attack: &str) {
    let time = long_time();
    stage.bare(&format!("{attack} {time}; true"));
    let alive = eventually(|| !sleeping(&time).is_empty());
    for pid in sleeping(&time) {
        kill(pid, Signal::KILL);
    }
    assert!(alive, "the control did not work");
}

/// Starts a daemon in a cage and a command that goes on beside it; gives the launcher when both are there.
fn caged_daemon(stage: &Stage, flags: &[&str], time: &str) -> support::Beside {
    let attack = stage.python("daemon.py", DAEMON);
    lives_on_outside(stage, &attack);
    let other = long_time();
    let launcher = stage.beside(
        &mut stage.keyward_run(flags, &["sh", "-c", &format!("{attack} {time}; exec sleep {other}")]),
    );
    assert!(
        eventually(|| !sleeping(time).is_empty() && !sleeping(&other).is_empty()),
        "the daemon did not start"
    );
    launcher
}

#[test]
fn a_daemon_does_not_outlive_its_time() {
    let stage = Stage::user();
    let time = long_time();
    let mut launcher = caged_daemon(&stage, &["--timeout", "2s"], &time);
    assert_eq!(launcher.0.wait().unwrap().code(), Some(124));
    assert!(is_gone(&time));
}

#[test]
fn a_command_that_ignores_every_signal_ends_with_its_time() {
    let stage = Stage::user();
    let time = long_time();
    let script = format!("trap '' INT TERM HUP QUIT; sleep {time} & while :; do sleep 0.1; done");
    let output = stage.caged_with(&["--timeout", "1s"], &script);
    assert_eq!(output.status.code(), Some(124), "{}", stderr(&output));
    assert!(is_gone(&time));
}

#[test]
fn a_command_that_has_stopped_ends_with_its_time() {
    let stage = Stage::user();
    let output = stage.caged_with(&["--timeout", "1s"], "kill -STOP $$; echo went on");
    assert_eq!(output.status.code(), Some(124), "{}", stderr(&output));
}

#[test]
fn init_cannot_be_ended_from_inside() {
    let stage = Stage::user();
    let output = stage.caged("kill -9 1; kill -STOP 1; kill -TERM 1; sleep 0.2; echo still here");
    assert!(stdout(&output).contains("still here"), "{}", stderr(&output));
}

#[test]
fn nothing_lives_on_after_a_kill_at_any_moment() {
    let stage = Stage::user();
    let time = long_time();
    for moment in 0..60u64 {
        let launcher = stage.beside(&mut stage.keyward_run(&[], &["sleep", &time]));
        std::thread::sleep(std::time::Duration::from_micros(moment * 300));
        kill(launcher.pid(), Signal::KILL);
    }
    assert!(eventually(|| processes_with(&time).is_empty()), "left over: {:?}", processes_with(&time));
    assert!(
        eventually(|| processes_of_cages(&stage).is_empty()),
        "left over: {:?}",
        processes_of_cages(&stage)
    );
}

/// Every init that has the stage's project in its view.
fn processes_of_cages(stage: &Stage) -> Vec<u32> {
    let project = stage.project().to_str().unwrap().replace(' ', "\\040");
    let shows = |pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/mountinfo")).is_ok_and(|text| text.contains(&project))
    };
    processes_with("keyward:init").into_iter().filter(shows).collect()
}

const BOMB: &str = r#"
import os, time
made = 0
try:
    for _ in range(200):
        if os.fork() == 0:
            time.sleep(30); os._exit(0)
        made += 1
except OSError: pass
print("made", made, flush=True)
os.kill(-os.getpgrp(), 9) if made == 200 else None
"#;

#[test]
fn the_limit_of_one_cage_is_not_used_up_by_another() {
    let stage = Stage::user();
    let attack = stage.python("bomb.py", BOMB);
    let _first = stage.beside_and_ready(
        &mut stage.keyward_run(&["--pids", "20"], &["sh", "-c", &format!("{attack}; sleep 30")]),
    );
    let second = stage.caged_with(&["--pids", "20"], "sh -c 'sh -c \"echo fine\"'");
    assert!(stdout(&second).contains("fine"), "{}", stderr(&second));
}

/// More than a limit allows, in each way to get memory.
fn memory_is_bounded(way: &str) {
    let stage = Stage::user();
    let attack = stage.python(
        "hog.py",
        r#"
import mmap, os, sys
way, size = sys.argv[1], 256 << 20
if way == "heap": memory = bytearray(size)
if way == "shared":
    memory = mmap.mmap(-1, size)
    for at in range(0, size, 4096): memory[at] = 1
if way == "file without a name":
    fd = os.memfd_create("hog")
    for _ in range(256): os.write(fd, bytes(1 << 20))
if way in ("/tmp", "/dev/shm"):
    with open(way + "/hog", "wb") as file:
        for _ in range(256): file.write(bytes(1 << 20))
    os.unlink(way + "/hog")
print("WORKED")
"#,
    );
    support::works_only_outside_with(&stage, &["--memory", "64M"], &format!("{attack} '{way}'"));
}

macro_rules! bounded {
    ($($name:ident: $way:literal,)*) => { $(
        #[test]
        fn $name() {
            memory_is_bounded($way);
        }
    )* };
}

bounded! {
    the_private_tmp_is_bounded: "/tmp",
    the_private_shm_is_bounded: "/dev/shm",
}

/// What this costs outside is for `--memory` to bound; the rest of the machine must not fall over.
#[test]
fn the_cages_tmp_is_gone_with_it() {
    let stage = Stage::user();
    let look = "ls -a /tmp /dev/shm /run ~";
    let left = stage.caged(&format!("echo left > /tmp/keyward-left; echo left > /dev/shm/keyward-left; echo left > /run/keyward-left; echo left > ~/keyward-left; {look}"));
    assert_eq!(stdout(&left).matches("keyward-left").count(), 4, "{}{}", stdout(&left), stderr(&left));
    let inside = ran(stage.caged(&after_a_sign(look)));
    assert!(!stdout(&inside).contains("keyward-left"));
    for place in ["/tmp", "/dev/shm", "/run"] {
        assert!(!std::path::Path::new(place).join("keyward-left").exists(), "{place}");
    }
    assert!(!stage.home().join("keyward-left").exists());
}

/// As root the cage's init changes its user on the way, and the kernel then forgets whom it should die with.
#[test]
fn an_init_of_root_that_is_stopped_dies_with_its_launcher() {
    let stage = Stage::root();
    let marker = support::long_time();
    let mut launcher = stage.keyward_run(&[], &["sleep", &marker]).spawn().unwrap();
    let sleeps = |pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "sleep")
    };
    assert!(support::eventually(|| support::processes_with(&marker).iter().any(sleeps)));
    let sleep = support::processes_with(&marker).into_iter().find(sleeps).unwrap();
    let status = std::fs::read_to_string(format!("/proc/{sleep}/status")).unwrap();
    let init: i32 =
        status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim().parse().unwrap();
    let init = rustix::process::Pid::from_raw(init).unwrap();
    rustix::process::kill_process(init, rustix::process::Signal::STOP).unwrap();
    launcher.kill().unwrap();
    launcher.wait().unwrap();
    assert!(support::eventually(|| support::processes_with(&marker).is_empty()), "left alive");
}
