//! A person at a terminal: keys, job control, sizes and settings behave as if the command had been started without us, and nothing of
//! the user's own terminal is inside.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/pty.rs"]
mod pty;
mod support;

use pty::{BLINK, PATIENCE, Terminal};
use rustix::process::{Pid, Signal};
use rustix::termios::LocalModes;
use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};
use support::{Stage, USER, keyward, stderr, stdout};

const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";
const CTRL_Z: &str = "\x1a";
const CTRL_BACKSLASH: &str = "\x1c";

/// `keyward run -- sh -c SCRIPT` on a terminal of its own.
fn caged(stage: &Stage, script: &str) -> Terminal {
    Terminal::start(stage.keyward_run(&[], &["sh", "-c", script]), USER)
}

/// The same without a cage: the control.
fn bare(stage: &Stage, script: &str) -> Terminal {
    let mut command = stage.command("sh");
    command.args(["-c", script]);
    Terminal::start(command, USER)
}

/// An interactive shell of the user's, in which `$K` is keyward.
fn shell(stage: &Stage) -> Terminal {
    let mut command = stage.command("bash");
    command.args(["--norc", "--noprofile", "--noediting", "-i"]).env("PS1", "ready> ").env("K", keyward());
    let mut terminal = Terminal::start(command, USER);
    terminal.wait_for("ready> ");
    terminal
}

/// `keyward run FLAGS -- sh -c SCRIPT` as a child of a shell that writes the settings of the terminal down before and after.
fn between_settings(stage: &Stage, flags: &[&str], script: &str) -> Terminal {
    let mut command = stage.command("sh");
    command.args([
        "-c",
        r#"echo before-$(stty -g)-; "$@"; echo code-$?-; echo after-$(stty -g)-"#,
        "sh",
        keyward(),
        "run",
    ]);
    command.args(flags).args(["--", "sh", "-c", script]);
    Terminal::start(command, USER)
}

/// Asserts that the settings are as they were.
#[track_caller]
fn settings_came_back(terminal: &mut Terminal, code: i32) {
    terminal.wait_for(&format!("code-{code}-"));
    terminal.end();
    let text = terminal.text();
    let settings = |mark: &str| text.split_once(mark).unwrap().1.split_once('-').unwrap().0.to_owned();
    assert_eq!(settings("before-"), settings("after-"), "{text}");
    assert!(!settings("before-").is_empty());
}

fn only_child_of(pid: u32) -> Pid {
    let end = Instant::now() + PATIENCE;
    loop {
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        if let Some(child) = children.split_whitespace().next() {
            return Pid::from_raw(child.parse().unwrap()).unwrap();
        }
        assert!(Instant::now() < end, "no child");
        std::thread::sleep(BLINK);
    }
}

/// The state letter of a process whose command line holds this text.
fn state_of(marker: &str) -> Option<char> {
    std::fs::read_dir("/proc").unwrap().flatten().find_map(|entry| {
        let command = std::fs::read(entry.path().join("cmdline")).ok()?;
        let starts = command.windows(marker.len()).any(|window| window == marker.as_bytes());
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        (starts && !command.starts_with(keyward().as_bytes()))
            .then(|| stat.rsplit_once(") ").unwrap().1.chars().next().unwrap())
    })
}

#[track_caller]
fn wait_for_state(marker: &str, wanted: char) {
    let end = Instant::now() + PATIENCE;
    while state_of(marker) != Some(wanted) {
        assert!(Instant::now() < end, "never {wanted}, but {:?}", state_of(marker));
        std::thread::sleep(BLINK);
    }
}

/// Asks the shell until its job has stopped.
#[track_caller]
fn wait_until_stopped(terminal: &mut Terminal) {
    let end = Instant::now() + PATIENCE;
    loop {
        terminal.keys("jobs; echo asked-$((3 + 3))\n");
        let stopped = terminal.wait_for("asked-6").contains("Stopped");
        terminal.wait_for("ready> ");
        if stopped {
            return;
        }
        assert!(Instant::now() < end, "never stopped\n{}", terminal.text());
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn all_three_streams_are_terminals_inside() {
    let stage = Stage::user();
    let script = "test -t 0 && test -t 1 && test -t 2 && echo all-$((1 + 2))";
    for mut terminal in [bare(&stage, script), caged(&stage, script)] {
        terminal.wait_for("all-3");
        assert!(terminal.end().success());
    }
}

#[test]
fn a_stream_that_is_no_terminal_stays_what_it_is() {
    let stage = Stage::user();
    let mut terminal = shell(&stage);
    for run in ["", "$K run -- "] {
        terminal.keys(format!("{run}sh -c 'for n in 0 1 2; do if test -t $n; then echo $n tty >&2; else echo $n not >&2; fi; done' </dev/null | cat\n"));
        for line in ["0 not", "1 not", "2 tty"] {
            terminal.wait_for(line);
        }
        terminal.wait_for("ready> ");
    }
}

#[test]
fn the_terminal_inside_has_a_name_that_exists_there() {
    let stage = Stage::user();
    let script = "tty; test -c \"$(tty)\" && echo there; echo by-name > \"$(tty)\"; echo by-alias > /dev/tty";
    let mut control = bare(&stage, script);
    control.wait_for(control.name.clone().to_str().unwrap());
    control.wait_for("by-alias");
    let mut terminal = caged(&stage, script);
    terminal.wait_for("/dev/pts/0\r\nthere\r\nby-name\r\nby-alias\r\n");
    assert!(terminal.end().success());
}

#[test]
fn the_users_own_terminal_is_not_inside() {
    let stage = Stage::user();
    // A number that the cage's own terminals do not reach.
    let many: Vec<Terminal> = (0..8).map(|_| bare(&stage, "sleep 1000")).collect();
    let probe = "stat -Lc 'device-%d-' /dev/pts; for n in 0 1 2; do stat -Lc 'stream-%d-' /proc/self/fd/$n; done; ls /dev/pts";
    let mut control = bare(&stage, probe);
    control.end();
    let mut terminal = caged(&stage, probe);
    terminal.end();
    let devices = |terminal: &Terminal, mark: &str| -> Vec<String> {
        let text = terminal.text();
        text.split(mark).skip(1).map(|rest| rest.split_once('-').unwrap().0.to_owned()).collect()
    };
    let (outside, inside) = (devices(&control, "device-"), devices(&terminal, "device-"));
    assert_eq!(devices(&control, "stream-"), vec![outside[0].clone(); 3]);
    assert_eq!(devices(&terminal, "stream-"), vec![inside[0].clone(); 3], "{}", terminal.text());
    assert_ne!(outside, inside);
    assert!(
        terminal.text().trim_end().ends_with("0\r\nptmx") || terminal.text().trim_end().ends_with("0  ptmx"),
        "{}",
        terminal.text()
    );
    drop(many);
}

#[test]
fn keys_cannot_be_pushed_into_the_users_terminal() {
    let stage = Stage::root();
    let push = "import fcntl, sys, termios\nfor key in b'echo pushed-$((20 + 1))\\n': fcntl.ioctl(0, termios.TIOCSTI, bytes([key]))";
    let file = stage.project_file("push.py", push);
    let bash = |run: &str| {
        let mut command = stage.command("bash");
        command
            .args(["--norc", "--noprofile", "--noediting", "-i"])
            .env("PS1", "ready> ")
            .env("K", keyward());
        let mut terminal = Terminal::start(command, 0);
        terminal.wait_for("ready> ");
        terminal.keys(format!("{run} python3 '{}'\n", file.display()));
        terminal
    };
    // Root outside may do it, whatever `dev.tty.legacy_tiocsti` says.
    bash("").wait_for("pushed-21");
    let mut terminal = bash("$K run --");
    terminal.wait_for("Error");
    terminal.wait_for("ready> ");
    terminal.keys("echo nothing-$((1 + 1))\n");
    terminal.wait_for("nothing-2");
    assert!(!terminal.text().contains("pushed-21"));
}

#[test]
fn the_window_has_the_users_size_at_the_start_and_after_each_change() {
    let stage = Stage::user();
    let script = "stty size; trap 'stty size' WINCH; echo waiting; while :; do sleep 0.05; done";
    for mut terminal in [bare(&stage, script), caged(&stage, script)] {
        terminal.wait_for("24 80");
        terminal.wait_for("waiting");
        for (rows, columns) in [(50, 132), (7, 33)] {
            terminal.resize(rows, columns);
            terminal.wait_for(&format!("{rows} {columns}"));
        }
        terminal.keys(CTRL_C);
        terminal.end();
    }
}

#[test]
fn a_change_of_size_while_stopped_is_seen_afterwards() {
    let stage = Stage::user();
    let mut terminal = shell(&stage);
    for run in ["", "$K run -- "] {
        terminal.resize(24, 80);
        terminal.keys(format!("{run}sh -c 'echo started-$((1 + 1)); read line; stty size'\n"));
        terminal.wait_for("started-2");
        terminal.keys(CTRL_Z);
        terminal.wait_for("Stopped");
        terminal.wait_for("ready> ");
        terminal.resize(41, 101);
        terminal.keys("fg\n");
        terminal.wait_for("stty size'");
        terminal.keys("line\n");
        terminal.wait_for("41 101");
        terminal.wait_for("ready> ");
    }
}

#[test]
fn ctrl_c_ends_the_command_and_the_code_says_so() {
    let stage = Stage::user();
    for (key, signal) in [(CTRL_C, 2), (CTRL_BACKSLASH, 3)] {
        let script = "echo up; exec sleep 1000";
        let mut control = bare(&stage, script);
        control.wait_for("up");
        control.keys(key);
        assert_eq!(control.end().signal(), Some(signal));
        let mut terminal = caged(&stage, script);
        terminal.wait_for("up");
        terminal.keys(key);
        assert_eq!(terminal.end().code(), Some(128 + signal), "{}", terminal.text());
    }
}

#[test]
fn ctrl_c_goes_to_a_command_that_catches_it() {
    let stage = Stage::user();
    let script = "trap 'echo caught; exit 7' INT; echo up; while :; do sleep 0.05; done";
    for mut terminal in [bare(&stage, script), caged(&stage, script)] {
        terminal.wait_for("up");
        terminal.keys(CTRL_C);
        terminal.wait_for("caught");
        assert_eq!(terminal.end().code(), Some(7));
    }
}

#[test]
fn ctrl_z_stops_the_job_and_fg_goes_on() {
    let stage = Stage::user();
    let mut terminal = shell(&stage);
    for run in ["", "$K run -- "] {
        terminal.keys(format!("{run}sh -c 'echo started-$((1 + 1)); exec cat'\n"));
        terminal.wait_for("started-2");
        terminal.keys("one\n");
        // Once by the terminal's echo, once by cat.
        terminal.wait_for("one\r\none\r\n");
        terminal.keys(CTRL_Z);
        terminal.wait_for("Stopped");
        terminal.wait_for("ready> ");
        terminal.keys("jobs; echo shell-$((2 + 3))\n");
        terminal.wait_for("[1]+  Stopped");
        terminal.wait_for("shell-5");
        terminal.wait_for("ready> ");
        terminal.keys("fg\n");
        terminal.wait_for("exec cat'");
        terminal.keys("two\n");
        terminal.wait_for("two\r\ntwo\r\n");
        terminal.keys(CTRL_Z);
        terminal.wait_for("Stopped");
        terminal.wait_for("ready> ");
        terminal.keys("fg\n");
        terminal.wait_for("exec cat'");
        terminal.keys("three\n");
        terminal.wait_for("three\r\nthree\r\n");
        terminal.keys(CTRL_D);
        terminal.wait_for("ready> ");
        terminal.keys("echo code-$?\n");
        terminal.wait_for("code-0");
        terminal.wait_for("ready> ");
    }
}

#[test]
fn a_job_that_went_on_in_the_background_reads_again_in_front() {
    let stage = Stage::user();
    let mut terminal = shell(&stage);
    for run in ["", "$K run -- "] {
        terminal.keys(format!("{run}sh -c 'echo started-$((1 + 1)); exec cat'\n"));
        terminal.wait_for("started-2");
        terminal.keys(CTRL_Z);
        terminal.wait_for("Stopped");
        terminal.wait_for("ready> ");
        terminal.keys("bg; echo mine-$((5 + 5))\n");
        terminal.wait_for("mine-10");
        // It reads there, and waits for its turn.
        wait_until_stopped(&mut terminal);
        terminal.keys("fg\n");
        terminal.wait_for("exec cat'");
        terminal.keys("front\n");
        terminal.wait_for("front\r\nfront\r\n");
        terminal.keys(CTRL_D);
        terminal.wait_for("ready> ");
    }
}

#[test]
fn a_pager_keeps_its_keys_after_the_pipeline_was_stopped() {
    let stage = Stage::user();
    let mut terminal = shell(&stage);
    for run in ["", "$K run -- "] {
        terminal.keys(format!("{run}sh -c 'echo x; exec sleep 1000' | sh -c 'read l; echo r-$l-y; read k </dev/tty; echo got-$k; kill 0'\n"));
        terminal.wait_for("r-x-y");
        terminal.keys(CTRL_Z);
        terminal.wait_for("Stopped");
        terminal.wait_for("ready> ");
        terminal.keys("fg\n");
        terminal.wait_for("kill 0'");
        terminal.keys("hello\n");
        terminal.wait_for("got-hello");
        terminal.wait_for("ready> ");
    }
}

#[test]
fn ctrl_z_stops_what_is_inside_as_well() {
    let stage = Stage::user();
    let mut terminal = shell(&stage);
    let marker = format!("1000.{:06}", std::process::id());
    terminal.keys(format!("$K run -- sleep {marker}\n"));
    wait_for_state(&format!("sleep\0{marker}"), 'S');
    terminal.wait_for_settings("raw", |settings| !settings.local_modes.contains(LocalModes::ICANON));
    terminal.keys(CTRL_Z);
    terminal.wait_for("Stopped");
    wait_for_state(&format!("sleep\0{marker}"), 'T');
    terminal.keys("bg; echo in-$((1 + 1))\n");
    terminal.wait_for("in-2");
    wait_for_state(&format!("sleep\0{marker}"), 'S');
    terminal.keys("kill %1; wait %1; echo code-$?\n");
    terminal.wait_for("code-143");
}

#[test]
fn a_stop_sent_to_the_launcher_stops_the_command_and_a_continue_wakes_both() {
    let stage = Stage::user();
    let mut terminal = shell(&stage);
    let marker = format!("1000.{:06}1", std::process::id());
    terminal.keys(format!("$K run -- sleep {marker}\n"));
    let asleep = format!("sleep\0{marker}");
    wait_for_state(&asleep, 'S');
    let launcher = only_child_of(terminal.child.id());
    rustix::process::kill_process(launcher, Signal::TSTP).unwrap();
    terminal.wait_for("Stopped");
    terminal.wait_for("ready> ");
    wait_for_state(&asleep, 'T');
    terminal.keys("fg\n");
    wait_for_state(&asleep, 'S');
    terminal.wait_for_settings("raw", |settings| !settings.local_modes.contains(LocalModes::ICANON));
    terminal.keys(CTRL_C);
    terminal.wait_for("ready> ");
    terminal.keys("echo code-$?\n");
    terminal.wait_for("code-130");
}

#[test]
fn a_shell_inside_has_job_control_of_its_own() {
    let stage = Stage::user();
    let mut command = stage.keyward_run(&[], &["bash", "--norc", "--noprofile", "--noediting", "-i"]);
    // PS1 is no variable that passes, so the shell's own prompt is set by hand.
    command.env("TERM", "dumb");
    let mut terminal = Terminal::start(command, USER);
    terminal.keys("PS1='in''side> '\n");
    terminal.wait_for("inside> ");
    terminal.keys("sh -c 'echo up-$((1 + 1)); exec sleep 1000'\n");
    terminal.wait_for("up-2");
    terminal.keys(CTRL_C);
    terminal.wait_for("inside> ");
    terminal.keys("sh -c 'echo up-$((1 + 2)); exec sleep 1000'\n");
    terminal.wait_for("up-3");
    terminal.keys(CTRL_Z);
    terminal.wait_for("Stopped");
    terminal.wait_for("inside> ");
    terminal.keys("fg\n");
    terminal.wait_for("exec sleep 1000");
    // The shell says so before it hands the keyboard over: a key that comes too early is its own, as it would be without a cage.
    let handed_over = (0..20).any(|_| {
        terminal.keys(CTRL_C);
        terminal.look_for("inside> ", Duration::from_secs(1)).is_some()
    });
    assert!(handed_over, "{}", terminal.text());
    terminal.keys("exit 9\n");
    assert_eq!(terminal.end().code(), Some(9));
}

#[test]
fn a_password_is_not_shown_while_it_is_typed() {
    let stage = Stage::user();
    let script = "stty -echo; printf 'password: '; read p; stty echo; echo; echo got-$p-end";
    for mut terminal in [bare(&stage, script), caged(&stage, script)] {
        terminal.wait_for("password: ");
        terminal.keys("hunter2\n");
        terminal.wait_for("got-hunter2-end");
        terminal.end();
        assert_eq!(terminal.text().matches("hunter2").count(), 1, "{}", terminal.text());
    }
}

#[test]
fn an_editor_works() {
    let stage = Stage::user();
    let mut terminal = Terminal::start(stage.keyward_run(&[], &["vi", "-u", "NONE", "note.txt"]), USER);
    terminal.wait_for("note.txt");
    terminal.keys("ifirst line\rsecond\x1b:wq\r");
    assert!(terminal.end().success(), "{}", terminal.text());
    assert_eq!(std::fs::read_to_string(stage.project().join("note.txt")).unwrap(), "first line\nsecond\n");
}

#[test]
fn a_pager_works() {
    let stage = Stage::user();
    let lines: String = (1..=500).map(|number| format!("line {number}\n")).collect();
    stage.project_file("long.txt", &lines);
    let mut terminal = Terminal::start(stage.keyward_run(&[], &["less", "long.txt"]), USER);
    terminal.wait_for("line 20");
    assert!(!terminal.text().contains("line 500"));
    terminal.keys("G");
    terminal.wait_for("line 500");
    terminal.keys("q");
    assert!(terminal.end().success());
}

#[test]
fn a_full_screen_program_reads_single_keys() {
    let stage = Stage::user();
    let program = "import curses\ndef main(s):\n s.addstr(1, 1, 'press'); s.refresh()\n k = s.getch(); return (k, s.getmaxyx())\n\
                   print('got', curses.wrapper(main))\n";
    stage.project_file("screen.py", program);
    let mut command = stage.keyward_run(&[], &["python3", "screen.py"]);
    command.env("TERM", "xterm");
    let mut terminal = Terminal::start(command, USER);
    terminal.wait_for("press");
    terminal.keys("x");
    terminal.wait_for("got (120, (24, 80))");
    assert!(terminal.end().success());
}

#[test]
fn settings_come_back_after_a_command_that_changed_them() {
    let stage = Stage::user();
    let mut terminal = between_settings(&stage, &[], "stty raw -echo; echo raw; exit 3");
    settings_came_back(&mut terminal, 3);
}

#[test]
fn settings_come_back_after_a_timeout() {
    let stage = Stage::user();
    let mut terminal = between_settings(
        &stage,
        &["--timeout", "1s"],
        "stty raw -echo; trap '' INT TERM; while :; do sleep 1; done",
    );
    settings_came_back(&mut terminal, 124);
    assert!(
        terminal.text().contains("keyward: the command was ended: it reached the limit wall = 1s"),
        "{}",
        terminal.text()
    );
}

#[test]
fn settings_come_back_after_a_signal_to_the_launcher() {
    let stage = Stage::user();
    for signal in [Signal::TERM, Signal::HUP] {
        let mut terminal = between_settings(&stage, &[], "stty raw -echo; echo up; exec sleep 1000");
        terminal.wait_for("up");
        let launcher = only_child_of(terminal.child.id());
        rustix::process::kill_process(launcher, signal).unwrap();
        settings_came_back(&mut terminal, 128 + signal.as_raw());
    }
}

#[test]
fn settings_come_back_after_a_command_that_is_not_there() {
    let stage = Stage::user();
    let mut command = stage.command("sh");
    let script =
        r#"echo before-$(stty -g)-; "$1" run -- no-such-command; echo code-$?-; echo after-$(stty -g)-"#;
    command.args(["-c", script, "sh", keyward()]);
    let mut terminal = Terminal::start(command, USER);
    settings_came_back(&mut terminal, 127);
    // What we say is not staircase-shaped: every line begins at the left.
    assert!(
        terminal.text().contains("not found\r\n") || terminal.text().contains("directory\r\n"),
        "{}",
        terminal.text()
    );
}

#[test]
fn our_words_after_the_command_begin_at_the_left() {
    let stage = Stage::user();
    let mut terminal = between_settings(&stage, &["--timeout", "1s"], "exec sleep 1000");
    settings_came_back(&mut terminal, 124);
    let text = terminal.text();
    let line = text.split_inclusive('\n').find(|line| line.contains("it reached the limit wall")).unwrap();
    assert!(line.starts_with("keyward: ") && line.ends_with("\r\n"), "{line:?}");
}

#[test]
fn another_program_of_the_pipeline_keeps_its_keys() {
    let stage = Stage::user();
    let mut terminal = shell(&stage);
    for run in ["", "$K run -- "] {
        // The first lives on while the second reads the keyboard, as a pager does.
        terminal.keys(format!("{run}sh -c 'echo x; exec sleep 1000' | sh -c 'read l; echo r-$l-y; read k </dev/tty; echo got-$k; kill 0'\n"));
        terminal.wait_for("r-x-y");
        terminal.keys("hello\n");
        terminal.wait_for("got-hello");
        terminal.wait_for("ready> ");
        terminal.keys(format!(
            "{run}printf 'x\\n' | sh -c 'cat; echo then-$((1 + 1)); read k </dev/tty; echo got-$k-end'\n"
        ));
        terminal.wait_for("then-2");
        terminal.keys("again\n");
        terminal.wait_for("got-again-end");
        terminal.wait_for("ready> ");
    }
}

#[test]
fn git_log_into_a_pager_works() {
    let stage = Stage::user();
    let script = "git init -q . && for n in 1 2 3 4 5 6 7 8 9 10 11 12; do git -c user.name=A -c user.email=a@b.c commit -q \
                  --allow-empty -m commit-$n; done";
    assert!(stage.bare(script).status.success());
    let mut terminal = shell(&stage);
    terminal.keys("$K run -- git log | less\n");
    terminal.wait_for("commit-12");
    terminal.keys("G");
    terminal.wait_for("commit-1\r\n");
    terminal.keys("q");
    terminal.wait_for("ready> ");
    terminal.keys("echo codes-${PIPESTATUS[*]}\n");
    terminal.wait_for("codes-0 0");
}

#[test]
fn a_command_in_a_pipeline_reads_the_terminal_when_it_asks() {
    let stage = Stage::user();
    let mut terminal = shell(&stage);
    for run in ["", "$K run -- "] {
        terminal.keys(format!("{run}sh -c 'echo want-$((1 + 1)) >&2; read a; echo got-$a-end' | cat\n"));
        terminal.wait_for("want-2");
        terminal.keys("first\n");
        terminal.wait_for("got-first-end");
        terminal.wait_for("ready> ");
        terminal.keys(format!(
            "printf x | {run}sh -c 'cat; echo -$((1 + 2)); read a </dev/tty; echo got-$a-end'\n"
        ));
        terminal.wait_for("x-3");
        terminal.keys("second\n");
        terminal.wait_for("got-second-end");
        terminal.wait_for("ready> ");
    }
}

#[test]
fn ctrl_c_reaches_every_part_of_a_pipeline() {
    let stage = Stage::user();
    let mut terminal = shell(&stage);
    for run in ["", "$K run -- "] {
        terminal.keys(format!("{run}sh -c 'echo up-$((1 + 1)) >&2; exec sleep 1000' | cat\n"));
        terminal.wait_for("up-2");
        terminal.keys(CTRL_C);
        terminal.wait_for("ready> ");
        terminal.keys("echo codes-${PIPESTATUS[*]}-\n");
        terminal.wait_for("codes-130 130-");
        terminal.wait_for("ready> ");
    }
}

#[test]
fn a_background_job_that_does_not_read_is_not_stopped() {
    let stage = Stage::user();
    let mut terminal = shell(&stage);
    for run in ["", "$K run -- "] {
        terminal.keys(format!(
            "{run}sh -c 'echo from-$((40 + 2)); sleep 0.3; exit 5' & wait $!; echo code-$?-\n"
        ));
        terminal.wait_for("from-42");
        terminal.wait_for("code-5-");
        terminal.wait_for("ready> ");
        assert!(!terminal.text().contains("Stopped"), "{}", terminal.text());
    }
}

#[test]
fn a_background_job_that_reads_is_stopped_until_it_comes_to_the_front() {
    let stage = Stage::user();
    let mut terminal = shell(&stage);
    for run in ["", "$K run -- "] {
        terminal.keys(format!("{run}sh -c 'read a; echo got-$a-end; exec cat' &\n"));
        terminal.wait_for("ready> ");
        wait_until_stopped(&mut terminal);
        // Nothing was stolen from the shell; now the job has the keyboard.
        terminal.keys("fg\n");
        terminal.wait_for("exec cat'");
        terminal.keys("front\n");
        terminal.wait_for("got-front-end");
        terminal.keys("more\n");
        terminal.wait_for("more\r\nmore\r\n");
        terminal.keys(CTRL_D);
        terminal.wait_for("ready> ");
        terminal.keys("echo code-$?-\n");
        terminal.wait_for("code-0-");
        terminal.wait_for("ready> ");
    }
}

#[test]
fn a_large_paste_arrives_whole() {
    let stage = Stage::user();
    let paste: String = (0..1_000).map(|line| format!("{line:>98}\n")).collect();
    for (name, mut terminal) in [
        ("bare.txt", bare(&stage, "stty -echo; echo up; cat > bare.txt")),
        ("caged.txt", caged(&stage, "stty -echo; echo up; cat > caged.txt")),
    ] {
        terminal.wait_for("up");
        terminal.keys(&paste);
        terminal.keys(CTRL_D);
        assert!(terminal.end().success());
        let arrived = std::fs::read_to_string(stage.project().join(name)).unwrap();
        assert!(arrived == paste, "{name}: {} of {} bytes", arrived.len(), paste.len());
    }
}

#[test]
fn a_lot_of_output_arrives_whole() {
    let stage = Stage::user();
    let script = "seq 1 2500000; echo the end";
    let mut control = bare(&stage, script);
    control.end();
    let mut terminal = caged(&stage, script);
    assert!(terminal.end().success());
    let (wanted, shown) = (control.shown(), terminal.shown());
    assert!(wanted.len() > 20_000_000);
    assert!(wanted == shown, "{} bytes instead of {}", shown.len(), wanted.len());
}

#[test]
fn the_last_words_of_a_command_that_ends_at_once_are_shown() {
    let stage = Stage::user();
    for number in 0..20 {
        let mut terminal = caged(&stage, &format!("seq 1 300; printf last-{number}-words"));
        assert!(terminal.end().success());
        assert!(terminal.text().ends_with(&format!("300\r\nlast-{number}-words")), "{}", terminal.text());
    }
}

#[test]
fn keys_typed_before_the_command_was_there_are_not_lost() {
    let stage = Stage::user();
    let mut terminal = shell(&stage);
    for run in ["", "$K run -- "] {
        terminal.keys(format!("sleep 0.5; {run}sh -c 'read a; echo got-$a-end'\n"));
        terminal.keys("early\n");
        terminal.wait_for("got-early-end");
        terminal.wait_for("ready> ");
    }
}

#[test]
fn a_terminal_that_goes_away_takes_the_command_with_it() {
    let stage = Stage::user();
    let marker = format!("1000.{:06}2", std::process::id());
    let mut terminal = caged(&stage, &format!("echo up; exec sleep {marker}"));
    let asleep = format!("sleep\0{marker}");
    wait_for_state(&asleep, 'S');
    terminal.hang_up();
    let end = Instant::now() + PATIENCE;
    while state_of(&asleep).is_some() {
        assert!(Instant::now() < end, "still there");
        std::thread::sleep(BLINK);
    }
}

/// Runs a script of Python's as the stage's user, which plays a terminal for `keyward`, its first argument.
fn played(stage: &Stage, script: &str) -> String {
    let output = stage.command("python3").args(["-c", script, keyward()]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output)
}

/// As under `su -c`: a terminal, but not the one that controls the session.
#[test]
fn a_terminal_that_controls_nobody_can_be_read_from() {
    let script = "import os, pty, subprocess, sys
main, peer = pty.openpty()
run = subprocess.Popen([sys.argv[1], 'run', '--', 'sh', '-c', 'read x; echo got-$x'], stdin=peer, stdout=peer, stderr=peer, start_new_session=True)
os.close(peer)
os.write(main, b'hello\\n')
seen = b''
while b'got-hello' not in seen:
    seen += os.read(main, 4096)
print('read', run.wait())";
    assert_eq!(played(&Stage::user(), script), "read 0\n");
}

#[test]
fn a_launcher_that_outlives_its_terminal_waits_without_work() {
    let script = "import os, pty, signal, subprocess, sys, time
main, peer = pty.openpty()
quiet = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
run = subprocess.Popen([sys.argv[1], 'run', '--', 'sleep', '30'], stdin=peer, stdout=peer, stderr=peer, start_new_session=True, preexec_fn=quiet)
os.close(peer)
time.sleep(0.5)
os.close(main)
time.sleep(0.2)
ticks = lambda: sum(int(field) for field in open(f'/proc/{run.pid}/stat').read().rsplit(')', 1)[1].split()[11:13])
before = ticks()
time.sleep(1)
print('busy' if ticks() - before > 30 else 'waits')
run.kill()";
    assert_eq!(played(&Stage::user(), script), "waits\n");
}
