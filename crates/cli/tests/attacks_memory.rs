//! Credentials in memory and process state: what a child tries, with the same act outside as the control.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::process::Command;
use support::{Beside, Stage, after_a_sign, leaks_only_outside, ran, stderr, stdout, works_only_outside};

const CANARY: &str = "canary-4f1c7a20b9";

/// Everything that procfs shows of every process, in every spelling of it.
const SWEEP: &str = r#"
for p in /proc/[0-9]* /proc/self /proc/thread-self /proc/[0-9]*/task/[0-9]*; do
  cat $p/environ $p/cmdline $p/maps $p/auxv $p/comm; ls -l $p/fd $p/cwd $p/root $p/exe
done 2>/dev/null | tr '\0' '\n'
"#;

/// Runs a script with this environment variable in the caller's environment.
fn with_variable(stage: &Stage, caged: bool, name: &str, value: &str, script: &str) -> String {
    let mut command = if caged {
        stage.keyward_run(&[], &["sh", "-c", &after_a_sign(script)])
    } else {
        let mut command = stage.command("sh");
        command.args(["-c", &after_a_sign(script)]);
        command
    };
    let output = ran(command.env(name, value).output().unwrap());
    stdout(&output) + &stderr(&output)
}

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

#[test]
fn a_child_does_not_get_a_credential_by_name() {
    let stage = Stage::user();
    for name in ["OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "DB_PASSWORD", "SSH_AUTH_SOCK"] {
        assert!(with_variable(&stage, false, name, CANARY, "env").contains(CANARY));
        assert!(!with_variable(&stage, true, name, CANARY, "env").contains(CANARY), "{name}");
    }
}

#[test]
fn a_child_does_not_get_a_credential_under_an_innocent_name() {
    let stage = Stage::user();
    let values =
        ["ghp_abcdefghijklmnopqrstuvwxyz0123456789", "postgres://app:hunter2@db.internal/app", CANARY];
    for (name, value) in ["EDITOR", "ACME_CONN", "FOO"].into_iter().zip(values) {
        assert!(with_variable(&stage, false, name, value, "env").contains(value));
        assert!(!with_variable(&stage, true, name, value, "env").contains(value), "{name}={value}");
    }
}

#[test]
fn a_credential_in_an_operational_variable_does_not_pass() {
    let stage = Stage::user();
    let value = "ghp_abcdefghijklmnopqrstuvwxyz0123456789";
    for name in ["TERM", "LANG", "TZ", "LC_ALL", "COLORTERM", "USER"] {
        assert!(with_variable(&stage, false, name, value, "env").contains(value));
        assert!(!with_variable(&stage, true, name, value, "env").contains(value), "{name}");
    }
}

#[test]
fn a_child_cannot_read_its_parents_environ() {
    let stage = Stage::user();
    let script = "tr '\\0' '\\n' < /proc/$PPID/environ; cat /proc/1/environ";
    // The control has a shell in between, as an agent has.
    let nested = format!("sh -c {}", shell_quote(&format!("{script}; true")));
    assert!(with_variable(&stage, false, "AGENT_TOKEN", CANARY, &nested).contains(CANARY));
    assert!(!with_variable(&stage, true, "AGENT_TOKEN", CANARY, &nested).contains(CANARY));
}

fn shell_quote(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[test]
fn a_sweep_of_procfs_finds_no_variable_of_the_caller() {
    let stage = Stage::user();
    assert!(with_variable(&stage, false, "AGENT_NOTE", CANARY, SWEEP).contains(CANARY));
    assert!(!with_variable(&stage, true, "AGENT_NOTE", CANARY, SWEEP).contains(CANARY));
}

#[test]
fn a_sweep_of_procfs_finds_no_variable_of_a_caller_who_is_root() {
    let stage = Stage::root();
    assert!(with_variable(&stage, false, "AGENT_NOTE", CANARY, SWEEP).contains(CANARY));
    assert!(!with_variable(&stage, true, "AGENT_NOTE", CANARY, SWEEP).contains(CANARY));
}

#[test]
fn a_sweep_of_procfs_finds_nothing_of_a_neighbour() {
    let stage = Stage::user();
    let _neighbour = neighbour(&stage);
    leaks_only_outside(&stage, SWEEP, CANARY);
    leaks_only_outside(&stage, SWEEP, "held-open");
}

#[test]
fn a_sweep_of_procfs_as_root_finds_nothing_of_a_neighbour() {
    let stage = Stage::root();
    let _neighbour = neighbour(&stage);
    leaks_only_outside(&stage, SWEEP, CANARY);
}

#[test]
fn the_command_line_of_a_neighbour_is_not_visible() {
    let stage = Stage::user();
    let mut command = stage.command("python3");
    let _neighbour = stage.beside_and_ready(command.args([
        "-c",
        "import time; print(1, flush=True); time.sleep(1000)",
        CANARY,
    ]));
    leaks_only_outside(&stage, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '; ps axwwww 2>/dev/null", CANARY);
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
fn the_memory_of_a_neighbour_cannot_be_read() {
    let stage = Stage::user();
    let neighbour = neighbour(&stage);
    let attack = stage.python("memory.py", READ_MEMORY);
    leaks_only_outside(&stage, &format!("{attack} {}", neighbour.pid()), CANARY);
}

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
    let seen = stage.bare(&format!("{attack} {pid}; cat /proc/{pid}/environ; ls -l /proc/{pid}/fd"));
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

#[test]
fn a_neighbour_cannot_be_traced() {
    let stage = Stage::user();
    let neighbour = neighbour(&stage);
    let attack = stage.program(
        "trace",
        r#"
        #include <stdio.h>
        #include <stdlib.h>
        #include <sys/ptrace.h>
        #include <sys/wait.h>
        int main(int n, char **a) {
            int pid = atoi(a[1]);
            if (ptrace(PTRACE_ATTACH, pid, 0, 0) == 0) { waitpid(pid, 0, __WALL); ptrace(PTRACE_DETACH, pid, 0, 0); puts("WORKED"); }
            else perror("ptrace");
        }"#,
    );
    works_only_outside(&stage, &format!("{attack} {}", neighbour.pid()));
}

const PRELUDE: &str = r#"
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments])
    return result if result != -1 else errno.errorcode.get(ctypes.get_errno())
"#;

#[test]
fn process_vm_readv_does_not_reach_a_neighbour() {
    let stage = Stage::user();
    let neighbour = neighbour(&stage);
    // The child may know the address from elsewhere, so it is given here.
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", neighbour.pid())).unwrap();
    let stack = maps.lines().find(|line| line.contains("[stack]")).unwrap();
    let start = stack.split('-').next().unwrap();
    let attack = stage.python(
        "vm.py",
        &format!(
            r#"{PRELUDE}
class Vector(ctypes.Structure): _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
buffer = ctypes.create_string_buffer(1)
here, there = Vector(ctypes.addressof(buffer), 1), Vector(0x{start}, 1)
result = call(310, {pid}, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
print("WORKED" if result == 1 else result)
"#,
            pid = neighbour.pid()
        ),
    );
    works_only_outside(&stage, &attack);
}

#[test]
fn a_descriptor_cannot_be_taken_from_a_neighbour() {
    let stage = Stage::user();
    let neighbour = neighbour(&stage);
    let attack = stage.python(
        "getfd.py",
        &format!(
            "{PRELUDE}\nfd = call(438, call(434, {}, 0), 9, 0)\nprint(os.pread(fd, 99, 0).decode())\n",
            neighbour.pid()
        ),
    );
    leaks_only_outside(&stage, &attack, CANARY);
}

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

/// Hands descriptors to the command as an agent does by accident: `opens` is shell that opens them.
fn with_descriptors(stage: &Stage, caged: bool, opens: &str, script: &str) -> String {
    let script = after_a_sign(script);
    let mut command = stage.command("bash");
    command.args(["-c", &format!("{opens}\nexec \"$@\""), "bash"]);
    if caged {
        command.args([support::keyward(), "run", "--"]);
    }
    let output = ran(command.args(["bash", "-c", &script]).output().unwrap());
    stdout(&output)
}

#[test]
fn an_inherited_file_is_closed() {
    let stage = Stage::user();
    let secret = stage.home_file("secret", CANARY);
    let opens = format!("exec 7<'{0}' 19<'{0}' 255<'{0}'", secret.display());
    let script = "cat <&7; cat <&19; cat /proc/self/fd/7 /dev/fd/19; cat <&255";
    assert!(with_descriptors(&stage, false, &opens, script).contains(CANARY));
    assert!(!with_descriptors(&stage, true, &opens, script).contains(CANARY));
}

#[test]
fn an_inherited_directory_that_leads_out_is_closed() {
    let stage = Stage::user();
    stage.home_file("secret", CANARY);
    let opens = format!("exec 7<'{}'", stage.home().display());
    let script = "cat /proc/self/fd/7/secret /dev/fd/7/secret; cd /proc/self/fd/7 && cat secret";
    assert!(with_descriptors(&stage, false, &opens, script).contains(CANARY));
    assert!(!with_descriptors(&stage, true, &opens, script).contains(CANARY));
}

#[test]
fn an_inherited_socket_is_closed() {
    let stage = Stage::user();
    let attack = stage.python(
        "socket_user.py",
        &format!(
            "import socket, sys\nprint(socket.socket(fileno=int(sys.argv[1])).recv(99).decode())\n#{CANARY}"
        ),
    );
    let giver = r#"
import os, socket, sys
ours, theirs = socket.socketpair()
ours.send(os.environ.pop("PAYLOAD").encode())
os.dup2(theirs.fileno(), 9)
os.execvp(sys.argv[1], sys.argv[1:])
"#;
    let run = |caged: bool| {
        let mut command = stage.command("python3");
        command.args(["-c", giver]).env("PAYLOAD", CANARY);
        if caged {
            command.args([support::keyward(), "run", "--"]);
        }
        stdout(&ran(command.args(["sh", "-c", &after_a_sign(&format!("{attack} 9"))]).output().unwrap()))
    };
    assert!(run(false).contains(CANARY));
    assert!(!run(true).contains(CANARY));
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
    stdout(&if caged { support::refused(output, 120, "descriptor 0 is a folder") } else { ran(output) })
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

/// Puts the canary into a new session keyring and into the user keyring, then becomes another program.
const WITH_KEYS: &str = r#"
call(250, 1, 0)
assert isinstance(call(248, b"user", b"keyward-test", sys.argv[1].encode(), len(sys.argv[1]), -3), int)
assert isinstance(call(248, b"user", b"keyward-test-user", sys.argv[1].encode(), len(sys.argv[1]), -4), int)
os.execvp(sys.argv[2], sys.argv[2:])
"#;

const READ_KEYS: &str = r#"
for ring, name in ((-3, b"keyward-test"), (-4, b"keyward-test-user"), (-5, b"keyward-test-user")):
    key = call(250, 10, ring, b"user", name, 0)
    buffer = ctypes.create_string_buffer(99)
    print(ring, key, call(250, 11, key, buffer, 99) if isinstance(key, int) else key, buffer.value.decode())
"#;

/// What the attack prints for a caller who has keys.
fn with_keys(stage: &Stage, caged: bool, attack: &str) -> String {
    let giver = stage.project_file("giver.py", &format!("{PRELUDE}{WITH_KEYS}"));
    let mut command = stage.command("python3");
    command.arg(&giver).arg(CANARY);
    if caged {
        command.args([support::keyward(), "run", "--"]);
    }
    stdout(&ran(command.args(["sh", "-c", &after_a_sign(attack)]).output().unwrap()))
}

#[test]
fn keys_of_the_caller_cannot_be_read() {
    let stage = Stage::user();
    let attack = stage.python("keys.py", &format!("{PRELUDE}{READ_KEYS}"));
    assert!(with_keys(&stage, false, &attack).contains(CANARY));
    assert!(!with_keys(&stage, true, &attack).contains(CANARY));
}

#[test]
fn keys_of_the_caller_are_not_listed() {
    let stage = Stage::user();
    assert!(with_keys(&stage, false, "cat /proc/keys").contains("keyward-test"));
    assert!(!with_keys(&stage, true, "cat /proc/keys").contains("keyward-test"));
}

#[test]
fn system_v_shared_memory_of_others_is_not_there() {
    let stage = Stage::user();
    let key = 0x4b45_0000u32 + std::process::id() % 0xffff;
    let holder = format!(
        r#"{PRELUDE}
import signal, time
id = call(29, {key}, 4096, 0o1600)
libc.shmat.restype = ctypes.c_void_p
address = libc.shmat(id, None, 0)
ctypes.memmove(address, b"{CANARY}", {length})
# Gone as soon as nobody is attached; it can still be found by its key until then.
print("ready", id, flush=True)
time.sleep(1000)
"#,
        length = CANARY.len()
    );
    let _holder = stage.beside_and_ready(stage.command("python3").args(["-c", &holder]));
    let attack = stage.python(
        "shm.py",
        &format!(
            r#"{PRELUDE}
print(open("/proc/sysvipc/shm").read())
id = call(29, {key}, 4096, 0)
libc.shmat.restype = ctypes.c_void_p
address = libc.shmat(id, None, 0o10000)
print(ctypes.string_at(address, {length}).decode())
"#,
            length = CANARY.len()
        ),
    );
    let told = [stage.bare(&attack), ran(stage.caged(&after_a_sign(&attack)))];
    // Before anything is judged: the segment outlives whoever made it.
    stage
        .command("python3")
        .args(["-c", &format!("{PRELUDE}\ncall(31, call(29, {key}, 4096, 0), 0, 0)")])
        .output()
        .unwrap();
    assert!(stdout(&told[0]).contains(CANARY), "the control did not work: {}", stderr(&told[0]));
    assert!(!stdout(&told[1]).contains(CANARY));
}

#[test]
fn posix_shared_memory_of_others_is_not_there() {
    let stage = Stage::user();
    let file = tempfile::Builder::new().prefix("keyward-test-").tempfile_in("/dev/shm").unwrap();
    std::fs::write(file.path(), CANARY).unwrap();
    stage.own(file.path());
    leaks_only_outside(&stage, &format!("cat {0}; cat /dev/shm/*", file.path().display()), CANARY);
}

#[test]
fn posix_message_queues_of_others_are_not_there() {
    let stage = Stage::user();
    let name = format!("keyward-test-{}", std::process::id());
    let open = |flags: &str| {
        format!(
            "{PRELUDE}\nqueue = call(240, b\"{name}\", {flags}, 0o600, None)\nprint(\"WORKED\" if isinstance(queue, int) else queue)"
        )
    };
    let made = stage.command("python3").args(["-c", &open("0o102")]).output().unwrap();
    assert!(stdout(&made).contains("WORKED"));
    let attack = stage.python("queue.py", &open("0o2"));
    works_only_outside(&stage, &attack);
    stage.command("python3").args(["-c", &format!("{PRELUDE}\ncall(241, b\"{name}\")")]).output().unwrap();
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
    let inside = stage.caged(script);
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
