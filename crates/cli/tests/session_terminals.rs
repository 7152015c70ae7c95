//! Commands of a session on terminals: which streams are one, who reads the keyboard, being stopped, being attached to.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/pty.rs"]
mod pty;
#[path = "support/session.rs"]
mod session;
mod support;

use pty::Terminal;
use rustix::termios::LocalModes;
use session::Session;
use support::{USER, Who, eventually, keyward, long_time, processes_with, stderr, stdout};

/// An interactive shell outside of any cage, in which `$K` is keyward.
fn shell(session: &Session) -> Terminal {
    let mut command = session.stage.command("bash");
    command.args(["--norc", "--noprofile", "-i"]).env("PS1", "ready> ").env("K", keyward());
    let mut terminal = Terminal::start(command, USER);
    terminal.wait_for("ready> ");
    terminal
}

/// The clients that run a command with this word in it.
fn clients(mark: &str) -> Vec<u32> {
    let all = processes_with("exec\0work");
    all.into_iter()
        .filter(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains(mark))
        })
        .collect()
}

/// Waits until a client of keyward reads the keyboard. A shell that edits a line still lets the terminal make signals of keys.
#[track_caller]
fn wait_until_raw(terminal: &Terminal) {
    terminal.wait_for_settings("raw", |settings| !settings.local_modes.contains(LocalModes::ISIG));
}

/// Whether a client was passed the session's side of a terminal, as one that is attached is.
fn has_a_terminals_main_side(process: u32) -> bool {
    let descriptors = std::fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
    let mut leads_to = descriptors.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    leads_to.any(|path| path.to_string_lossy().contains("ptmx"))
}

#[test]
fn only_what_is_a_terminal_outside_is_one_inside() {
    let session = Session::new(Who::User, &[]);
    let mut terminal = shell(&session);
    terminal.keys("$K exec work -- sh -c 'for n in 0 1 2; do test -t $n && echo $n; done; echo to-2 >&2' 2>err; echo done-$((1+1))\n");
    let shown = terminal.wait_for("done-2");
    assert!(
        shown.contains("0\r\n1\r\n") && !shown.contains("2\r\n") && !shown.contains("to-2\r\n"),
        "{shown}"
    );
    let err = session.stage.project().join("err");
    assert_eq!(std::fs::read_to_string(err).unwrap(), "to-2\n");
    terminal.keys(
        "$K exec work -- sh -c 'test -t 1 || echo pipe; echo to-2 >&2' | tr a-z A-Z; echo done-$((2+1))\n",
    );
    let shown = terminal.wait_for("done-3");
    assert!(shown.contains("PIPE\r\n") && shown.contains("to-2\r"), "{shown}");
}

/// What a command closes is closed: nobody between keeps it open.
#[test]
fn a_pipe_that_the_command_closes_ends_while_it_runs() {
    let session = Session::new(Who::User, &[]);
    let time = long_time();
    let mut command = session.command(&["exec", "work", "--", "sh", "-c"]);
    command.arg(format!("echo out; exec >&-; sleep {time}"));
    let mut child = command.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut said).unwrap();
    assert_eq!(said, "out\n");
    assert!(child.try_wait().unwrap().is_none(), "it still runs");
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_command_whose_output_is_a_pipe_reads_what_is_typed() {
    let session = Session::new(Who::User, &[]);
    let mut terminal = shell(&session);
    terminal.keys("$K exec work -- cat | (read line; echo \"got $line\"); echo done-$((1+1))\n");
    terminal.wait_for("\n");
    terminal.keys("typed\n");
    terminal.wait_for("got typed");
    // `cat` learns that nobody reads any more when it writes again, once the reader is gone.
    let mut tell = || {
        terminal.keys("again\n");
        terminal.look_for("done-2", std::time::Duration::from_millis(300)).is_some()
    };
    assert!((0..50).any(|_| tell()), "cat was never told");
}

/// Whoever is behind the pipe has the keyboard, unless the command wants it.
#[test]
fn a_command_that_does_not_read_leaves_the_keyboard_to_others() {
    let session = Session::new(Who::User, &[]);
    let mut terminal = shell(&session);
    terminal.keys("$K exec work -- sh -c 'echo out; sleep 1' | (read line; echo \"line $line\"; read key </dev/tty; echo \"key $key\"); echo done-$((1+1))\n");
    terminal.wait_for("line out");
    terminal.keys("mine\n");
    terminal.wait_for("key mine");
    terminal.wait_for("done-2");
}

#[test]
fn a_command_in_the_background_of_a_shell_runs_there() {
    let session = Session::new(Who::User, &[]);
    let mut terminal = shell(&session);
    terminal.keys("$K exec work -- sh -c 'echo begin-$((1+1)); sleep 0.5; echo end-$((1+1))' &\n");
    terminal.wait_for("begin-2");
    terminal.keys("echo typed-$((1+1))\n");
    terminal.wait_for("typed-2");
    terminal.wait_for("end-2");
    terminal.keys("wait; echo code $?\n");
    terminal.wait_for("code 0");
    // One that reads stops, and goes on when it is in front.
    let mark = long_time();
    terminal.keys(format!("$K exec work -- sh -c 'read line; echo \"line $line\"' {mark} &\n"));
    assert!(eventually(|| {
        clients(&mark).iter().any(|pid| {
            std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| stat.contains(") T "))
        })
    }));
    terminal.keys("jobs; echo asked-$((1+1))\n");
    let jobs = terminal.wait_for("asked-2");
    assert!(jobs.contains("Stopped"), "{jobs}");
    terminal.keys("fg\n");
    wait_until_raw(&terminal);
    terminal.keys("for-it\n");
    terminal.wait_for("line for-it");
}

#[test]
fn ctrl_z_stops_a_command_and_fg_lets_it_go_on() {
    let session = Session::new(Who::User, &[]);
    let mut terminal = shell(&session);
    terminal.keys("$K exec work -- sh -c 'echo begin-$((1+1)); read line; echo \"line $line\"; exit 4'\n");
    terminal.wait_for("begin-2");
    terminal.keys("\x1a");
    terminal.wait_for("Stopped");
    terminal.keys("echo outside-$((1+1))\n");
    terminal.wait_for("outside-2");
    terminal.keys("fg\n");
    wait_until_raw(&terminal);
    terminal.keys("after\n");
    terminal.wait_for("line after");
    terminal.wait_for("ready> ");
    terminal.keys("echo code $?\n");
    terminal.wait_for("code 4");
}

#[test]
fn a_fresh_cage_has_a_terminal_too() {
    let session = Session::new(Who::User, &[]);
    let mut terminal = shell(&session);
    terminal
        .keys("$K exec work --fresh -- sh -c 'tty; read line; echo \"line $line\"'; echo done-$((1+1))\n");
    terminal.wait_for("/dev/pts/0");
    terminal.keys("typed\n");
    terminal.wait_for("line typed");
    terminal.wait_for("done-2");
}

#[test]
fn a_signal_for_the_client_is_the_commands_and_the_terminal_is_put_back() {
    let session = Session::new(Who::User, &[]);
    let mut terminal = shell(&session);
    let time = long_time();
    terminal.keys(format!(
        "$K exec work -- sh -c 'trap \"echo caught-$((1+1)); exit 3\" TERM; sleep {time} & wait'; echo code $?\n"
    ));
    assert!(eventually(|| !processes_with(&format!("sleep\0{time}")).is_empty()));
    let client = clients(&time);
    let pid = rustix::process::Pid::from_raw(i32::try_from(client[0]).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    terminal.wait_for("caught-2");
    terminal.wait_for("code 3");
}

#[test]
fn the_output_of_a_background_job_on_a_terminal_is_kept_and_it_can_be_attached_to() {
    let session = Session::new(Who::User, &[]);
    let script = "test -t 0 && test -t 1 && echo on-a-terminal; read line; echo \"line $line\"; exit 4";
    let job = stdout(&session.exec(&["--pty", "--background"], script)).trim().to_owned();
    assert_eq!(job, "work/1");
    assert!(eventually(|| stdout(&session.keyward(&["logs", &job])) == "on-a-terminal\r\n"));
    // Whoever has nothing to type does not end it.
    let nothing = std::fs::File::open("/dev/null").unwrap();
    let mut looking = session.command(&["attach", &job]);
    let mut looking = looking.stdin(nothing).stdout(std::process::Stdio::piped()).spawn().unwrap();
    assert!(eventually(|| has_a_terminals_main_side(looking.id())), "it never attached");
    assert!(looking.try_wait().unwrap().is_none(), "attached, and nothing has ended");
    assert!(stdout(&session.keyward(&["ps"])).contains("runs"));
    let mut terminal = shell(&session);
    terminal.keys(format!("$K attach {job}; echo left-$?\n"));
    terminal.wait_for("attaching to work/1; Ctrl-] leaves it");
    wait_until_raw(&terminal);
    terminal.keys("\x1d");
    terminal.wait_for("left-0");
    terminal.keys(format!("$K attach {job}; echo ended-$?\n"));
    wait_until_raw(&terminal);
    terminal.keys("typed\n");
    terminal.wait_for("line typed");
    terminal.wait_for("ended-4");
    assert_eq!(stdout(&looking.wait_with_output().unwrap()), "typed\r\nline typed\r\n");
    assert_eq!(stdout(&session.keyward(&["logs", &job])), "on-a-terminal\r\ntyped\r\nline typed\r\n");
    let listed = stdout(&session.keyward(&["ps"]));
    assert!(listed.contains("exit 4"), "{listed}");
    let again = session.keyward(&["attach", &job]);
    assert!(!again.status.success(), "{}", stderr(&again));
}
