//! Parts of the kernel surface that a user opens: debuggers, the GPU; and a display, which no cage gets.
#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;
use std::process::Output;
use support::{Stage, keyward, stderr, stdout};

fn run(stage: &Stage, flags: &[&str], argv: &[&str]) -> Output {
    stage.keyward_run(flags, argv).output().unwrap()
}

#[test]
fn debuggers_work_on_their_own_children_where_ptrace_is_allowed() {
    let stage = Stage::user();
    let source = "volatile int answer; __attribute__((noipa)) int stop(void) { return answer; }
        int main(void) { answer = 41; return stop() - 41; }";
    let program = stage.program("victim", source);
    let strace = ["strace", "-f", "-e", "trace=execve", "true"];
    let gdb = ["gdb", "-batch", "-ex", "break stop", "-ex", "run", "-ex", "print (int)answer", &program];
    // Control: without the flag the filter refuses both.
    let output = run(&stage, &[], &strace);
    assert!(!output.status.success() && !stderr(&output).contains("execve("), "{}", stderr(&output));
    assert!(!stdout(&run(&stage, &[], &gdb)).contains("$1 = 41"));
    let output = run(&stage, &["--allow", "ptrace"], &strace);
    assert!(output.status.success() && stderr(&output).contains("execve("), "{}", stderr(&output));
    let output = run(&stage, &["--allow", "ptrace"], &gdb);
    assert!(stdout(&output).contains("$1 = 41"), "{}{}", stdout(&output), stderr(&output));
}

#[test]
fn a_debugger_reaches_no_process_outside_and_not_the_first_one() {
    let stage = Stage::user();
    let neighbour = stage.beside(stage.command("sleep").arg("600"));
    let pid = neighbour.0.id().to_string();
    // Outside a debugger of the same user may attach; root's tests have a neighbour without privileges.
    let attach = ["timeout", "10", "strace", "-o", "trace", "-p", &pid];
    let outside = stage.command("sh").args(["-c", "timeout 1 strace -p $0", &pid]).output().unwrap();
    assert!(stderr(&outside).contains("attached"), "{}", stderr(&outside));
    let output = run(&stage, &["--allow", "ptrace"], &attach);
    assert!(stderr(&output).contains("No such process"), "{}", stderr(&output));
    let output = run(&stage, &["--allow", "ptrace"], &["timeout", "10", "strace", "-p", "1"]);
    assert!(stderr(&output).contains("Operation not permitted"), "{}", stderr(&output));
}

#[test]
fn what_is_opened_is_said_by_explain() {
    let stage = Stage::user();
    let output = stage.command(keyward()).args(["explain", "--allow", "ptrace", "true"]).output().unwrap();
    assert!(stdout(&output).contains("ptrace is open for the cage's own processes (--allow)"));
}

#[test]
fn a_gpu_is_shown_where_there_is_one_and_refused_with_the_fact_where_there_is_none() {
    let stage = Stage::user();
    let devices = ["/dev/dri/renderD128", "/dev/nvidiactl", "/dev/kfd"];
    let list = [&["ls", "-d"][..], &devices].concat();
    assert!(stdout(&run(&stage, &[], &list)).is_empty());
    let output = run(&stage, &["--gpu"], &list);
    let here: Vec<&str> = devices.into_iter().filter(|path| Path::new(path).exists()).collect();
    if here.is_empty() {
        assert_eq!(output.status.code(), Some(120), "{}", stderr(&output));
        assert!(stderr(&output).contains("there is no GPU to open"), "{}", stderr(&output));
    } else {
        assert_eq!(stdout(&output).lines().collect::<Vec<_>>(), here, "{}", stderr(&output));
    }
}

#[test]
fn a_display_is_refused_with_the_reason_and_one_of_the_cages_own_works() {
    let stage = Stage::user();
    let output = run(&stage, &["--display"], &["echo", "ran"]);
    assert_eq!((stdout(&output).as_str(), output.status.code()), ("", Some(120)));
    assert!(stderr(&output).contains("can read what you type"), "{}", stderr(&output));
    let output = run(&stage, &[], &["xvfb-run", "-a", "xdpyinfo"]);
    assert!(stdout(&output).contains("name of display"), "{}", stderr(&output));
}
