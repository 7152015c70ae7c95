//! Credentials in memory and process state: what a child tries, with the same act outside as the control.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::process::Command;
use support::{Beside, Stage, after_a_sign, long_time, ran, stderr, stdout};

const CANARY: &str = "canary-4f1c7a20b9";

/// Everything that procfs shows of every process, in every spelling of it.
const SWEEP: &str = r#"
for p in /proc/[0-9]* /proc/self /proc/thread-self /proc/[0-9]*/task/[0-9]*; do
  cat $p/environ $p/cmdline $p/maps $p/auxv $p/comm; ls -l $p/fd $p/cwd $p/root $p/exe
done 2>/dev/null | tr '\0' '\n'
"#;

/// A process of the same user that holds the canary in its environment, its command line and an open file.
fn neighbour(stage: &Stage) -> Beside {
    let secret = stage.home_file("held-open", CANARY);
    let mut command = stage.command("sh");
    command.args(["-c", "exec 9<\"$0\"; echo ready; exec sleep 1000", secret.to_str().unwrap()]);
    let beside = stage.beside_and_ready(command.env("NEIGHBOUR_TOKEN", CANARY));
    // Only then do addresses and descriptors stay as they are.
    let name = format!("/proc/{}/comm", beside.pid());
    assert!(support::eventually(|| std::fs::read_to_string(&name).is_ok_and(|name| name.trim() == "sleep")));
    beside
}

fn shell_quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[test]
fn the_launchers_own_arguments_are_not_visible_inside() {
    let stage = Stage::user();
    let output = stage
        .keyward_run(&["--pass", "CANARY_NAME", "-v"], &["sh", "-c", &after_a_sign(SWEEP)])
        .output()
        .unwrap();
    let output = ran(output);
    assert!(!stdout(&output).contains("CANARY_NAME"), "{}", stdout(&output));
}

#[test]
fn init_shows_its_name_and_nothing_else() {
    let stage = Stage::user();
    let script = "tr '\\0' '\\n' < /proc/1/cmdline; echo ---; cat /proc/1/comm";
    let output = stage.keyward_run(&["--pass", "CANARY_NAME"], &["sh", "-c", script]).output().unwrap();
    let text = stdout(&output);
    let words: Vec<&str> = text.split_whitespace().collect();
    assert_eq!(words, ["keyward:init", "---", "keyward:init"], "{}", stderr(&output));
}

#[test]
fn the_length_of_inits_command_line_says_nothing_about_the_caller() {
    let stage = Stage::user();
    let length = |argument: &str| {
        let output = stage
            .keyward_run(&["--pass", argument], &["sh", "-c", "wc -c < /proc/1/cmdline"])
            .output()
            .unwrap();
        stdout(&output)
    };
    assert_eq!(length("A"), length(&"A".repeat(300)));
}

/// What of PID 1 can be opened. The control is PID 1 of a plain PID namespace of the same user.
fn opens_only_in_a_plain_namespace(file: &str) {
    let stage = Stage::user();
    let script = format!(
        "if cat /proc/1/{file} > /dev/null || ls /proc/1/{file}/. ; then echo WORKED; fi 2>/dev/null"
    );
    let plain = stage
        .command("unshare")
        .args([
            "--user",
            "--map-current-user",
            "--pid",
            "--fork",
            "--mount-proc",
            "sh",
            "-c",
            &format!("sh -c {}; true", shell_quote(&script)),
        ])
        .output()
        .unwrap();
    assert!(stdout(&plain).contains("WORKED"), "the control did not work: {}", stderr(&plain));
    let inside = ran(stage.caged(&after_a_sign(&script)));
    assert!(!stdout(&inside).contains("WORKED"), "/proc/1/{file}");
}

macro_rules! closed_of_init {
    ($($name:ident: $file:literal,)*) => { $(
        #[test]
        fn $name() {
            opens_only_in_a_plain_namespace($file);
        }
    )* };
}

closed_of_init! {
    the_environ_of_init_is_closed: "environ",
    the_auxv_of_init_is_closed: "auxv",
    the_maps_of_init_are_closed: "maps",
    the_descriptors_of_init_are_closed: "fd",
    the_descriptor_details_of_init_are_closed: "fdinfo/0",
    the_root_of_init_is_closed: "root",
    the_directory_of_init_is_closed: "cwd",
    the_environ_of_inits_thread_is_closed: "task/1/environ",
    the_mapped_files_of_init_are_closed: "map_files",
}

/// Reads a neighbour's memory: finds its stack in `maps` and looks for the canary there.
const READ_MEMORY: &str = r#"
import sys
for line in open(f"/proc/{sys.argv[1]}/maps"):
    if "[stack]" in line:
        start, end = (int(x, 16) for x in line.split()[0].split("-"))
        memory = open(f"/proc/{sys.argv[1]}/mem", "rb", 0)
        memory.seek(start)
        print(memory.read(end - start).replace(b"\0", b" ").decode("latin-1"))
"#;

#[test]
fn the_memory_of_the_launcher_cannot_be_read_even_outside() {
    let stage = Stage::user();
    let attack = stage.python("memory.py", READ_MEMORY);
    let neighbour = neighbour(&stage);
    let plain =
        stdout(&stage.bare(&format!("{attack} {}; cat /proc/{}/environ", neighbour.pid(), neighbour.pid())));
    assert!(plain.contains(CANARY), "the control did not work");
    let mut command = stage.keyward_run(&[], &["sh", "-c", "echo ready; exec sleep 1000"]);
    let launcher = stage.beside_and_ready(command.env("AGENT_TOKEN", CANARY));
    let pid = launcher.pid();
    let look = format!("{attack} {pid}; cat /proc/{pid}/environ; ls -l /proc/{pid}/fd; ls -d /proc/{pid}");
    let seen = stage.bare(&look);
    assert!(stdout(&seen).contains(&format!("/proc/{pid}\n")), "the launcher is gone: {}", stderr(&seen));
    assert!(!stdout(&seen).contains(CANARY));
    assert!(!stdout(&seen).contains("socket:"), "the launcher's descriptors are listed");
}

/// Also root, who can look past that, finds nothing that the child was not given.
#[test]
fn the_environ_of_the_launcher_is_wiped_also_for_root() {
    let stage = Stage::user();
    assert!(support::is_root(), "this test needs root");
    let mut command = stage.keyward_run(&[], &["sh", "-c", "echo ready; exec sleep 1000"]);
    let launcher = stage.beside_and_ready(command.env("AGENT_TOKEN", CANARY).env("EDITOR", "an-editor"));
    let environ = std::fs::read(format!("/proc/{}/environ", launcher.pid())).unwrap();
    let text = String::from_utf8_lossy(&environ);
    assert!(!text.contains(CANARY), "{text}");
    let memory = Command::new("python3")
        .args(["-c", WHOLE_MEMORY, &launcher.pid().to_string(), CANARY])
        .output()
        .unwrap();
    assert_eq!(stdout(&memory).trim(), "0", "copies in the launcher's memory; {}", stderr(&memory));
}

const WHOLE_MEMORY: &str = r#"
import sys
found = 0
memory = open(f"/proc/{sys.argv[1]}/mem", "rb", 0)
for line in open(f"/proc/{sys.argv[1]}/maps"):
    parts = line.split()
    if "r" not in parts[1] or "[v" in line: continue
    start, end = (int(x, 16) for x in parts[0].split("-"))
    memory.seek(start)
    found += memory.read(end - start).count(sys.argv[2].encode())
print(found)
"#;

const PRELUDE: &str = r#"
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
    return result if result != -1 else errno.errorcode.get(ctypes.get_errno())
"#;

#[test]
fn a_descriptor_cannot_be_taken_from_init_even_where_tracing_is_allowed() {
    let stage = Stage::user();
    stage.home_file(".config/keyward/policy.toml", "version = 1\nallow = [\"ptrace\"]\n");
    let attack = stage.python(
        "init.py",
        &format!(
            r#"{PRELUDE}
target = int(sys.argv[1])
pidfd = call(434, target, 0)
taken = [fd for fd in range(16) if isinstance(call(438, pidfd, fd, 0), int)]
traced = call(101, 16, target, 0, 0)
print("WORKED" if taken or traced == 0 else traced)
"#
        ),
    );
    let control = ran(stage.caged(&after_a_sign(&format!("sleep 9 & {attack} $!"))));
    assert!(stdout(&control).contains("WORKED"), "the policy did not allow it: {}", stderr(&control));
    let inside =
        ran(stage
            .caged(&after_a_sign(&format!("{attack} 1; cat /proc/1/environ /proc/1/maps && echo WORKED"))));
    assert!(!stdout(&inside).contains("WORKED"), "{}", stdout(&inside));
}

/// Only 0, 1 and 2 are passed on, and a folder in their place leads nowhere either.
fn with_a_folder_as_stdin(
    stage: &Stage,
    caged: bool,
    flags: &[&str],
    folder: &std::path::Path,
    script: &str,
) -> String {
    let script = after_a_sign(script);
    let mut command = if caged {
        stage.keyward_run(flags, &["bash", "-c", &script])
    } else {
        let mut command = stage.command("bash");
        command.args(["-c", &script]);
        command
    };
    let output = command.stdin(std::fs::File::open(folder).unwrap()).output().unwrap();
    // Not even the opened folder may stay: a mask, a mode or a socket could be reached through it.
    stdout(&if caged {
        support::refused(output, 120, "descriptor 0 is an open directory")
    } else {
        ran(output)
    })
}

#[test]
fn a_folder_as_standard_input_does_not_lead_to_files_outside() {
    let stage = Stage::user();
    stage.home_file("secret", CANARY);
    let script = "cat /proc/self/fd/0/secret; cd /proc/self/fd/0 && cat secret";
    assert!(with_a_folder_as_stdin(&stage, false, &[], &stage.home(), script).contains(CANARY));
    assert!(!with_a_folder_as_stdin(&stage, true, &[], &stage.home(), script).contains(CANARY));
}

#[test]
fn a_folder_as_standard_input_does_not_lead_past_a_mask() {
    let stage = Stage::user();
    stage.project_file("hidden", CANARY);
    let script = "cat /proc/self/fd/0/hidden";
    assert!(with_a_folder_as_stdin(&stage, false, &[], &stage.project(), script).contains(CANARY));
    assert!(
        !with_a_folder_as_stdin(&stage, true, &["--hide", "hidden"], &stage.project(), script)
            .contains(CANARY)
    );
}

#[test]
fn a_folder_as_standard_input_does_not_lead_to_sockets_outside() {
    let stage = Stage::user();
    let socket = stage.elsewhere().join("agent.sock");
    let server = "import socket, sys\ns = socket.socket(socket.AF_UNIX)\ns.bind(sys.argv[1])\ns.listen()\nprint('ready', flush=True)\nwhile True: s.accept()";
    let _server = stage.beside_and_ready(stage.command("python3").args(["-c", server]).arg(&socket));
    let attack = stage.python(
        "connect.py",
        "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect('/proc/self/fd/9/agent.sock')\nprint('WORKED')\n",
    );
    let script = format!("{attack} 9<&0 0</dev/null");
    assert!(with_a_folder_as_stdin(&stage, false, &[], &stage.elsewhere(), &script).contains("WORKED"));
    assert!(!with_a_folder_as_stdin(&stage, true, &[], &stage.elsewhere(), &script).contains("WORKED"));
}

#[test]
fn a_folder_as_standard_input_does_not_let_modes_outside_be_changed() {
    let stage = Stage::user();
    stage.home_file("secret", CANARY);
    let script = "chmod 666 /proc/self/fd/0/secret && echo WORKED";
    assert!(with_a_folder_as_stdin(&stage, false, &[], &stage.home(), script).contains("WORKED"));
    assert!(!with_a_folder_as_stdin(&stage, true, &[], &stage.home(), script).contains("WORKED"));
}

#[test]
fn what_standard_output_was_redirected_to_cannot_be_read_back() {
    let stage = Stage::user();
    let log = stage.home_file("agent.log", &format!("{CANARY}\n"));
    let script = "cat /proc/self/fd/1 >&2; head -c 99 <> /dev/stdout >&2";
    let run = |mut command: Command| {
        let output =
            command.stdout(std::fs::OpenOptions::new().append(true).open(&log).unwrap()).output().unwrap();
        stderr(&output)
    };
    let mut bare = stage.command("sh");
    bare.args(["-c", script]);
    assert!(run(bare).contains(CANARY));
    let inside = run(stage.keyward_run(&[], &["sh", "-c", &format!("echo started >&2; {script}")]));
    assert!(inside.contains("started") && !inside.contains(CANARY), "{inside}");
}

#[test]
fn the_outcome_descriptor_is_not_the_childs() {
    let stage = Stage::user();
    let outcome = stage.home_file("outcome", "");
    let line = format!(
        "'{}' run --outcome-fd 7 -- sh -c 'echo forged >&7; exit 3' 7>'{}' ; cat '{}'",
        support::keyward(),
        outcome.display(),
        outcome.display()
    );
    let text = stdout(&stage.bare(&line));
    assert!(text.contains("\"exit\":") && !text.contains("forged"), "{text}");
}

#[test]
fn a_crash_leaves_no_core_file() {
    let stage = Stage::user();
    let script = "ulimit -c unlimited; sh -c 'kill -SEGV $$'; ls";
    let outside = stdout(&stage.bare(script));
    assert!(
        outside.contains("core"),
        "the control left no core file; is core_pattern a pipe here? {outside}"
    );
    stage.bare("rm -f core*");
    let inside = ran(stage.caged(&after_a_sign(script)));
    assert!(!stdout(&inside).contains("core"), "{}", stdout(&inside));
}

#[test]
fn no_value_of_a_variable_appears_in_anything_we_print() {
    let stage = Stage::user();
    let canaries: Vec<(String, String)> = (0..30)
        .map(|number| {
            let name = ["API_KEY", "TOKEN", "PASSWORD", "NOTE", "LD_PRELOAD"][number % 5];
            let value = ["", "ghp_", "sk-ant-api03-", "postgres://u:", "line\nbreak "][number % 5];
            (format!("{name}_{number}"), format!("{value}{CANARY}-{number}-abcdefghijklmnopqrstuvwxyz"))
        })
        .collect();
    let run = |arguments: &[&str]| {
        let mut command = stage.command(support::keyward());
        let output = command.args(arguments).envs(canaries.iter().cloned()).output().unwrap();
        stdout(&output) + &stderr(&output)
    };
    let mut printed = String::new();
    for arguments in [
        &["run", "--json", "--", "true"][..],
        &["run", "-v", "--", "true"],
        &["run", "-v", "--pass", "NOTE_3", "--", "true"],
        &["run", "--json", "--", "/does/not/exist"],
        &["run", "--inherit-credentials", "TOKEN_1", "--", "true"],
        &["run", "--trust", "executor", "--inherit-credentials", "TOKEN_1", "--json", "-v", "--", "true"],
        &["run", "--read", "/does/not/exist", "--", "true"],
        &["run", "--floor", "nonsense", "--", "true"],
        &["explain", "--", "true"],
        &["explain", "-v", "--trust", "executor", "--inherit-credentials", "TOKEN_1", "--", "true"],
        &["explain", "--json", "--trust", "executor", "--inherit-credentials", "TOKEN_1", "--", "true"],
        &["why", "env", "API_KEY_0"],
        &["why", "env", "TOKEN_1", "--json"],
        &["why", "env", "NOTE_3", "--json"],
        &["why", "read", "~/.ssh"],
        &["policy", "show"],
        &["doctor"],
        &["doctor", "--json"],
    ] {
        printed += &run(arguments);
    }
    printed += &std::fs::read_to_string(stage.state().join("events.jsonl")).unwrap();
    assert!(printed.contains("API_KEY_0"), "names are told");
    let leak = printed
        .find(CANARY)
        .map(|at| printed[at.saturating_sub(200)..].chars().take(300).collect::<String>());
    assert_eq!(leak, None);
}

/// An argument that holds a credential is left out of what is recorded and told.
fn is_left_out(argument: &str) {
    let stage = Stage::user();
    let output = stage.keyward_run(&["--json"], &["true", argument]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let told = stderr(&output) + &std::fs::read_to_string(stage.state().join("events.jsonl")).unwrap();
    assert!(!told.contains("c4n4ryValue7Qx"), "{told}");
}

#[test]
fn a_vendors_token_as_an_argument_is_not_explained() {
    let stage = Stage::user();
    for flags in [&["explain"][..], &["explain", "--json"], &["explain", "-v"]] {
        let argument = "ghp_c4n4ryValue7Qxabcdefghijklmnopqrstuv";
        let output =
            stage.command(support::keyward()).args(flags).args(["--", "true", argument]).output().unwrap();
        assert!(output.status.success() && !stdout(&output).contains("c4n4ryValue7Qx"), "{flags:?}");
    }
}

macro_rules! left_out {
    ($($name:ident: $argument:expr,)*) => { $(
        #[test]
        fn $name() {
            is_left_out($argument);
        }
    )* };
}

left_out! {
    a_vendors_token_as_an_argument_is_left_out: "ghp_c4n4ryValue7Qxabcdefghijklmnopqrstuv",
    a_url_with_a_password_as_an_argument_is_left_out: "postgres://app:c4n4ryValue7Qx@db/app",
    a_bearer_header_as_an_argument_is_left_out: "Authorization: Bearer c4n4ryValue7Qxabcdefghijklmnop",
    a_token_behind_an_equals_sign_is_left_out: "--token=ghp_c4n4ryValue7Qxabcdefghijklmnopqrstuv",
    a_password_behind_an_equals_sign_is_left_out: "--password=c4n4ryValue7Qx",
    a_token_inside_a_script_is_left_out: "curl -H 'X-Key: ghp_c4n4ryValue7Qxabcdefghijklmnopqrstuv' https://x",
    an_assignment_inside_a_script_is_left_out: "API_KEY=c4n4ryValue7Qx make deploy",
}

/// Everything readable in the memory of a process, as root sees it.
fn memory_of(pid: u32) -> Vec<u8> {
    use std::io::{Read, Seek, SeekFrom};
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
    let mut memory = std::fs::File::open(format!("/proc/{pid}/mem")).unwrap();
    let mut all = Vec::new();
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let (from, to) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let (from, to) = (u64::from_str_radix(from, 16).unwrap(), u64::from_str_radix(to, 16).unwrap());
        let mut part = Vec::new();
        if memory.seek(SeekFrom::Start(from)).is_ok() {
            let _ = memory.by_ref().take(to - from).read_to_end(&mut part);
        }
        all.extend(part);
    }
    all
}

#[test]
fn an_inherited_credential_is_in_nobodys_memory_but_the_commands() {
    let stage = Stage::user();
    let marker = support::long_time();
    let secret = "ghp_canaryCanaryCanaryCanaryCanaryCan7";
    let mut command = stage.keyward_run(
        &["--trust", "executor", "--inherit-credentials", "GH_TOKEN"],
        &["sh", "-c", &format!("test \"$GH_TOKEN\" && sleep {marker}")],
    );
    let mut launcher = command.env("GH_TOKEN", secret).spawn().unwrap();
    let sleeps = |pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "sleep")
    };
    assert!(support::eventually(|| support::processes_with(&marker).iter().any(sleeps)), "it did not start");
    let sleep = support::processes_with(&marker).into_iter().find(sleeps).unwrap();
    let holds = |pid: u32| memory_of(pid).windows(secret.len()).any(|part| part == secret.as_bytes());
    let parent = |pid: u32| -> u32 {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim().parse().unwrap()
    };
    let init = parent(parent(sleep));
    let name = std::fs::read_to_string(format!("/proc/{init}/comm")).unwrap();
    let (command_has_it, init_has_it, launcher_has_it) = (holds(sleep), holds(init), holds(launcher.id()));
    launcher.kill().unwrap();
    launcher.wait().unwrap();
    assert_eq!(name.trim(), "keyward:init");
    assert!(command_has_it, "the control did not work");
    assert!(!init_has_it, "init still holds it");
    assert!(!launcher_has_it, "the launcher still holds it");
}

/// `make NAME` makes a message queue, puts a word in it and says so; `read NAME` prints the word; `remove NAME` removes the queue.
const QUEUE: &str = r#"
#include <fcntl.h>
#include <mqueue.h>
#include <stdio.h>
#include <string.h>
int main(int count, char **words) {
    struct mq_attr small = { 0, 1, 64 };
    char text[65] = { 0 };
    if (!strcmp(words[1], "remove")) return mq_unlink(words[2]) != 0;
    int makes = !strcmp(words[1], "make");
    mqd_t queue = makes ? mq_open(words[2], O_CREAT | O_EXCL | O_RDWR, 0600, &small)
                        : mq_open(words[2], O_RDWR | O_NONBLOCK);
    if (queue < 0) return perror("mq_open"), 1;
    if (makes) return mq_send(queue, "a word in a queue", 17, 0) ? 1 : (puts("made"), 0);
    if (mq_receive(queue, text, 64, 0) < 0) return perror("mq_receive"), 1;
    puts(text);
}"#;

#[test]
fn message_queues_of_a_cage_work_and_are_its_own() {
    for stage in [Stage::user(), Stage::root()] {
        let queue = stage.program("queue", QUEUE);
        let name = format!("/keyward-{}", long_time());
        let (make, read, remove) = (
            format!("{queue} make {name}"),
            format!("{queue} read {name}"),
            format!("{queue} remove {name}"),
        );
        for flags in [&[][..], &["--protect", "strict"]] {
            let all = format!("{make} && ls /dev/mqueue && {read} && {remove}");
            let inside = stage.caged_with(flags, &all);
            let wanted = format!("made\n{}\na word in a queue\n", &name[1..]);
            assert_eq!(stdout(&inside), wanted, "{}", stderr(&inside));
        }
        // One of the host's is not there inside.
        assert_eq!(stdout(&stage.bare(&make)), "made\n", "the control did not work");
        let inside = ran(stage.caged(&after_a_sign(&format!("{read}; {remove}"))));
        assert!(stderr(&inside).contains("No such file"), "{}{}", stdout(&inside), stderr(&inside));
        assert_eq!(stdout(&stage.bare(&read)), "a word in a queue\n", "the control did not work");
        assert!(stage.bare(&remove).status.success());
        // And one of the cage's is not there outside, as long as the cage lives.
        let cage =
            stage.beside_and_ready(&mut stage.keyward_run(&[], &["sh", "-c", &format!("{make}; sleep 60")]));
        let outside = stage.bare(&read);
        assert!(stderr(&outside).contains("No such file"), "{}{}", stdout(&outside), stderr(&outside));
        drop(cage);
    }
}
