//! Shims: the shells and interpreters that a caged agent starts run in a narrower cage of its session, as if they ran where they were
//! started, and reach nothing of the agent.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/pty.rs"]
mod pty;
mod support;

use pty::Terminal;
use std::process::{Output, Stdio};
use support::{Stage, USER, Who, eventually, keyward, long_time, processes_with, refused, stderr, stdout};

const BOTH: [Who; 2] = [Who::User, Who::Root];

/// What an agent does: a script whose `bash`, `python3` and the like are shims.
fn agent(stage: &Stage, script: &str) -> Output {
    agent_with(stage, &[], script)
}

fn agent_with(stage: &Stage, flags: &[&str], script: &str) -> Output {
    stage.caged_with(&[&["--shims"], flags].concat(), script)
}

#[track_caller]
fn said(output: Output) -> String {
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    stdout(&output)
}

/// Each of these prints and ends in the same way with the program itself and with its shim.
const ALIKE: &[(&str, &str)] = &[
    ("words", "bash -c 'echo \"$0|$1|$2|$#\"' name 'a b' ''; sh -c 'echo $*' x '*' y"),
    ("exit codes", "for i in 0 1 2 77 125 126 127 128 255; do bash -c \"exit $i\"; echo $?; done"),
    (
        "ended by signals",
        "for s in 1 2 3 6 9 10 13 14 15; do bash -c \"kill -$s \\$\\$\"; echo $?; done 2>/dev/null",
    ),
    ("login", "bash -lc 'shopt login_shell'; bash -lic 'echo $-' 2>/dev/null"),
    (
        "script on stdin",
        "echo 'echo from stdin $1 $#' | bash -s x y; echo 'echo plain; exit 4' | bash; echo $?",
    ),
    (
        "script in a file",
        "printf 'echo script $1; exit 3' > s.sh; bash s.sh here; echo $?; bash missing.sh 2>/dev/null; echo $?",
    ),
    ("streams", "bash -c 'echo out; echo err >&2' 2>err; cat err; bash -c 'echo one >&2' 2>&1 | cat"),
    ("nothing on stdin", "bash -c 'read x; echo \"[$x]$?\"' </dev/null; bash -c 'cat; echo $?' </dev/null"),
    ("closed stdin", "bash -c 'read x 2>/dev/null; echo \"[$x]\"' <&-"),
    ("much input", "head -c 3000000 /dev/zero | bash -c 'wc -c'"),
    ("much output", "bash -c 'head -c 3000000 /dev/zero' | wc -c"),
    ("a reader that leaves", "bash -c 'while :; do echo y; done' 2>/dev/null | head -n 1"),
    (
        "the rest of a file",
        "printf '1\\n2\\n3\\n' > f; { bash -c 'read x; echo $x'; cat; } < f | sort | head -n 1",
    ),
    (
        "environment",
        "FOO=1 bash -c 'echo $FOO'; env -u LANG bash -c 'echo ${LANG-none}'; FOO= bash -c 'echo ${FOO-unset}.'",
    ),
    (
        "a changed PATH",
        "mkdir -p d; printf '#!/bin/sh\\necho mine' > d/own; chmod +x d/own; PATH=\"$PWD/d:$PATH\" bash -c own",
    ),
    ("directory", "mkdir -p 'a dir'; cd 'a dir'; bash -c 'basename \"$PWD\"'; cd /tmp; bash -c pwd"),
    ("umask", "umask 027; bash -c 'umask; umask 077'; umask"),
    (
        "python",
        "echo in | python3 -c 'import sys; print(sys.argv, sys.stdin.read())' a b; echo 'print(1 + 1)' | python3 -",
    ),
    (
        "called by another name",
        "/usr/bin/perl -e 'exec { \"bash\" } \"-bash\", \"-c\", q(echo $0; shopt login_shell)'; /usr/bin/perl -e 'exec { \"bash\" } \"other\", \"-c\", q(echo $0)'",
    ),
    (
        "arguments of all kinds",
        "bash -c 'printf \"<%s>\" \"$@\"' x '' ' ' '\\' '\"' \"'\" '$(id)' '*' -- -x 'a\nb'; seq 2000 | xargs bash -c 'echo $#' x",
    ),
    (
        "options",
        "bash --norc -e -c 'false; echo no'; echo $?; bash -o pipefail -c 'false | true'; echo $?; bash --posix -c 'shopt -qo posix; echo $?'",
    ),
    (
        "a script with a shim as its interpreter",
        "printf '#!/usr/bin/env bash\necho \"$0 $1 $#\"; exit 9' > s; chmod +x s; ./s a b; echo $?",
    ),
    (
        "many at the same time",
        "for i in $(seq 100); do bash -c \"sleep 0.2; echo $i\" & done | sort -n | tail -n 1; wait",
    ),
    (
        "a pipeline of shims",
        "bash -c 'seq 100000' | sh -c 'cat' | python3 -c 'import sys; print(sum(map(int, sys.stdin)))'",
    ),
    (
        "streams that are files",
        "echo in > i; bash -c 'cat; echo err >&2' < i > o 2> e; cat o e; bash -c 'echo more' >> o; cat o",
    ),
    (
        "stopped and continued",
        "bash -c 'sleep 0.3; echo went on' & p=$!; sleep 0.1; kill -STOP $p; kill -CONT $p; wait $p; echo $?",
    ),
    ("nested", "bash -c 'bash -c \"sh -c \\\"echo nested; exit 6\\\"\"'; echo $?"),
    (
        "left in the background",
        "bash -c 'sleep 0.1 & echo started'; bash -c 'sleep 5 >/dev/null 2>&1 & echo $! > pid'; bash -c 'kill $(cat pid) && echo ended'",
    ),
    (
        "not UTF-8",
        "bash -c \"$(printf 'printf \"\\\\351\" | od -An -tx1')\"; bash -c 'printf %s \"$1\" | od -An -tx1' x \"$(printf '\\351')\"",
    ),
];

#[test]
fn a_shim_prints_and_ends_as_the_program_it_stands_for() {
    for who in BOTH {
        for (what, script) in ALIKE {
            let (bare, shimmed) = (Stage::new(who), Stage::new(who));
            let (bare, shimmed) = (bare.bare(script), agent(&shimmed, script));
            assert_eq!(stdout(&shimmed), stdout(&bare), "{what}: {}", stderr(&shimmed));
            assert_eq!(shimmed.status.code(), bare.status.code(), "{what}: {}", stderr(&shimmed));
        }
    }
}

#[test]
fn every_exit_code_passes_through_a_shim() {
    let all = "i=0; while [ $i -lt 256 ]; do bash -c \"exit $i\"; [ $? = $i ] || echo wrong $i; i=$((i + 1)); done; echo $i";
    assert_eq!(said(agent(&Stage::user(), all)), "256\n");
}

#[test]
fn a_signal_reaches_the_tool_and_a_killed_shim_ends_it() {
    let stage = Stage::user();
    let time = long_time();
    let script = format!(
        "bash -c 'trap \"echo heard; exit 3\" TERM; touch ready; while :; do sleep 0.05; done' & pid=$!
         while [ ! -e ready ]; do /bin/sleep 0.05; done; kill -TERM $pid; wait $pid; echo $?
         bash -c 'touch again; exec sleep {time}' & pid=$!
         while [ ! -e again ]; do /bin/sleep 0.05; done; kill -KILL $pid; wait $pid 2>/dev/null
         while bash -c 'pgrep -f \"sleep [{}]{}\" >/dev/null'; do /bin/sleep 0.05; done; echo gone",
        &time[..1],
        &time[1..],
    );
    assert_eq!(said(agent(&stage, &script)), "heard\n3\ngone\n");
}

#[test]
fn tools_of_one_agent_share_a_cage_and_the_agents_tmp() {
    let stage = Stage::user();
    let script = "echo agent > /tmp/both; bash -c 'cat /tmp/both; echo tool > /tmp/both'; cat /tmp/both
        bash -c 'python3 -m http.server 8123 --bind 127.0.0.1 >/dev/null 2>&1 &'
        bash -c 'for i in $(seq 200); do (exec 3<>/dev/tcp/127.0.0.1/8123) 2>/dev/null && echo reached && exit; sleep 0.05; done'
        bash -c 'echo project > from-tool'; cat from-tool";
    assert_eq!(said(agent(&stage, script)), "agent\ntool\nreached\nproject\n");
    assert!(stage.project().join("from-tool").exists());
}

#[test]
fn a_tool_has_no_credential_of_its_agent_under_any_name() {
    for who in BOTH {
        let stage = Stage::new(who);
        let run = |script: &str| {
            let flags = ["--shims", "--trust", "executor", "--inherit-credentials", "OPENAI_API_KEY"];
            stage
                .keyward_run(&flags, &["sh", "-c", script])
                .env("OPENAI_API_KEY", "sk-canary-0123456789")
                .output()
        };
        let own = said(run("echo $OPENAI_API_KEY").unwrap());
        assert_eq!(own, "sk-canary-0123456789\n", "the agent has it");
        let look = "env; cat /proc/*/environ; cat /keyward-shims/.environment";
        let tool = said(run(&format!("COPY=\"x $OPENAI_API_KEY\" bash -c '{look}; true'")).unwrap());
        assert!(tool.contains("PATH=") && !tool.contains("canary"), "{tool}");
    }
}

#[test]
fn a_tool_has_no_secret_of_its_agents_environment_under_any_name() {
    for who in BOTH {
        let stage = Stage::new(who);
        let set = ["secret", "set", "mine", "--from", "env://FROM_HERE", "--as", "MINE"];
        assert!(stage.command(keyward()).args(set).output().unwrap().status.success());
        let run = |script: &str| {
            let flags = ["--shims", "--trust", "executor", "--secret", "mine=dangerous-env"];
            let mut command = stage.keyward_run(&flags, &["sh", "-c", script]);
            said(command.env("FROM_HERE", "canary-0123456789").output().unwrap())
        };
        assert_eq!(run("echo ${#MINE}"), "17\n", "the agent has it");
        let look = "env; cat /proc/*/environ; cat /keyward-shims/.environment";
        let tool = run(&format!(
            "COPY=\"x $MINE\" bash -c '{look}; true'; export COPY=\"$MINE\"; unset MINE; bash -c '{look}; true'"
        ));
        // What is printed of a secret is replaced by its name.
        assert!(
            tool.contains("PATH=") && !tool.contains("canary") && !tool.contains("keyward:mine"),
            "{tool}"
        );
    }
}

#[test]
fn a_tool_sees_neither_state_nor_home_of_its_agent() {
    for who in BOTH {
        let stage = Stage::new(who);
        stage.home_file(
            ".config/keyward/policy.toml",
            "version = 1\n[profiles.agent]\ntrust = \"executor\"\nfiles.write = [\"~/.agent\"]\ntools.cage = \"shims\"\n",
        );
        stage.home_file(".agent/auth.json", "state-canary");
        let script = "cat ~/.agent/auth.json; echo; echo home-canary > ~/note; bash -c 'cat ~/.agent/auth.json ~/note; ls ~/.agent; true' 2>/dev/null; echo -; cat ~/note";
        let output = stage.keyward_run(&["-p", "agent"], &["sh", "-c", script]).output().unwrap();
        assert_eq!(said(output), "state-canary\n-\nhome-canary\n", "the agent sees both");
        let shared = "version = 1\n[profiles.agent]\ntrust = \"executor\"\nfiles.write = [\"~/.agent\"]\ntools = { cage = \"shims\", share = [\"~/.agent/shared\"] }\n";
        stage.home_file(".config/keyward/policy.toml", shared);
        stage.home_file(".agent/shared/snapshot", "shared");
        let script = "bash -c 'cat ~/.agent/shared/snapshot; ls -A ~/.agent; echo more >> ~/.agent/shared/snapshot'; cat ~/.agent/shared/snapshot";
        let output = stage.keyward_run(&["-p", "agent"], &["sh", "-c", script]).output().unwrap();
        assert_eq!(said(output), "sharedshared\nsharedmore\n");
    }
}

#[test]
fn a_tool_has_no_network_of_its_agent_but_what_a_flag_allows() {
    let stage = Stage::user();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let profile = format!(
        "version = 1\n[profiles.agent]\nnet.reach = [{port}]\ntools.cage = \"shims\"\n[profiles.same]\nnet.reach = [{port}]\ntools = {{ cage = \"shims\", net = \"same\" }}\n"
    );
    stage.home_file(".config/keyward/policy.toml", &profile);
    let connect = format!("(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && echo reached || echo closed");
    // The agent's own bash is not a shim by its path.
    let script = format!("/bin/bash -c '{connect}'; bash -c '{connect}'");
    let run = |flags: &[&str]| said(stage.keyward_run(flags, &["sh", "-c", &script]).output().unwrap());
    assert_eq!(run(&["-p", "agent"]), "reached\nclosed\n");
    assert_eq!(run(&["-p", "same"]), "reached\nreached\n");
    assert_eq!(run(&["--shims", "--reach", &port.to_string()]), "reached\nreached\n");
}

#[test]
fn a_tool_cannot_reach_the_processes_of_its_agent() {
    for who in BOTH {
        let stage = Stage::new(who);
        let time = long_time();
        // The pattern does not match itself.
        let look = format!(
            "grep -qas 'sleep.[{}]{}' /proc/[0-9]*/cmdline && echo seen || echo unseen",
            &time[..1],
            &time[1..]
        );
        // The control: what stands in the agent's own cage sees it.
        let script = format!(
            "/bin/sleep {time} & pid=$!; /bin/bash -c \"{look}\"; bash -c \"{look}; kill -9 $pid 2>/dev/null; kill -9 -1 2>/dev/null\"
             kill -0 $pid && echo lives; bash -c 'kill -STOP 1; cat /proc/1/environ' 2>/dev/null | wc -c; bash -c 'echo still'"
        );
        assert_eq!(said(agent(&stage, &script)), "seen\nunseen\nlives\n0\nstill\n");
    }
}

#[test]
fn a_tool_finds_no_shim_and_cannot_replace_one() {
    let stage = Stage::user();
    let script = "command -v bash; bash -c 'command -v bash; ls /keyward-shims 2>&1 | head -c 0; echo $SHELL'
        for act in 'echo x > /keyward-shims/bin/bash' 'rm /keyward-shims/bin/bash' 'mv /keyward-shims /tmp/x' 'touch /keyward-shims/bin/perl'; do
            bash -c \"mkdir -p /keyward-shims/bin; $act\" && echo tool did: $act; /bin/bash -c \"$act\" && echo agent did: $act; done
        bash -c 'echo still a shim; command -v sh'";
    let output =
        stage.keyward_run(&["--shims"], &["sh", "-c", script]).env("SHELL", "/bin/bash").output().unwrap();
    assert_eq!(
        stdout(&output),
        "/keyward-shims/bin/bash\n/usr/bin/bash\n/bin/bash\nstill a shim\n/usr/bin/sh\n"
    );
    assert_eq!(
        said(stage.caged("command -v bash; ls / | grep -c keyward-shims || true")),
        "/usr/bin/bash\n0\n"
    );
}

#[test]
fn an_agent_that_is_a_script_is_not_a_tool_of_its_own() {
    let stage = Stage::user();
    stage.home_file(
        ".config/keyward/policy.toml",
        "version = 1\n[profiles.agent]\nfiles.write = [\"~/.agent\"]\ntools.cage = \"shims\"\n",
    );
    stage.home_file(".agent/state", "own state");
    let source = "#!/usr/bin/env python3\nimport os, subprocess\nstate = os.path.expanduser('~/.agent/state')\nprint(open(state).read())\nprint(subprocess.run(['python3', '-c', 'print(open(' + repr(state) + ').read())'], capture_output=True).returncode)\n";
    let script = stage.project_file("agent.py", source);
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let output = stage.keyward_run(&["-p", "agent"], &["./agent.py"]).output().unwrap();
    assert_eq!(said(output), "own state\n1\n");
}

#[test]
fn a_shim_whose_session_was_killed_refuses_and_runs_nothing() {
    let stage = Stage::user();
    let script = "touch ready; while [ ! -e go ]; do sleep 0.05; done; bash -c 'touch ran'; echo $?";
    let child = stage
        .keyward_run(&["--shims"], &["sh", "-c", script])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    assert!(eventually(|| stage.project().join("ready").exists()));
    let listed = stage.command(keyward()).args(["ps", "--json"]).output().unwrap();
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let session = listed["sessions"][0]["pid"].as_u64().unwrap();
    assert!(stage.command("kill").args(["-9", &session.to_string()]).status().unwrap().success());
    stage.project_file("go", "");
    let output = child.wait_with_output().unwrap();
    assert_eq!(stdout(&output), "125\n", "{}", stderr(&output));
    let words = stderr(&output);
    assert!(
        words.contains("keyward: cannot run bash: the session of this agent is gone\nstart the agent again"),
        "{words}"
    );
    assert!(!stage.project().join("ran").exists());
}

#[test]
fn nothing_of_a_session_outlives_its_agent() {
    for kill in [false, true] {
        let stage = Stage::user();
        let time = long_time();
        let ends = if kill { "/bin/sleep 600" } else { "true" };
        let script = format!("bash -c 'sleep {time} >/dev/null 2>&1 & touch ready'; {ends}");
        let mut child = stage.keyward_run(&["--shims"], &["sh", "-c", &script]).spawn().unwrap();
        assert!(eventually(|| stage.project().join("ready").exists()));
        if kill {
            child.kill().unwrap();
        }
        child.wait().unwrap();
        assert!(eventually(|| processes_with(&format!("sleep\0{time}")).is_empty()), "killed: {kill}");
        let listed = || stage.command(keyward()).arg("ps").output().unwrap();
        assert!(eventually(|| stdout(&listed()).starts_with("no session")), "killed: {kill}");
    }
}

#[test]
fn a_tool_on_a_terminal_of_its_agent_has_job_control_and_follows_its_size() {
    let stage = Stage::user();
    // The terminal is the cage's own; the agent leaves it to its shell.
    let command = stage
        .keyward_run(&["--shims"], &["sh", "-c", "PS1='ready> ' bash --norc --noprofile -i; echo code=$?"]);
    let mut terminal = Terminal::start(command, USER);
    terminal.wait_for("ready> ");
    terminal.resize(31, 97);
    terminal.keys("stty size; test -t 0 && test -t 2 && echo on a terminal\r");
    terminal.wait_for("31 97");
    terminal.wait_for("on a terminal");
    terminal.keys("sleep 1000\r");
    terminal.wait_for("sleep 1000");
    std::thread::sleep(std::time::Duration::from_millis(300));
    terminal.keys("\x03");
    terminal.keys("echo after $?\r");
    terminal.wait_for("after 130");
    terminal.keys("exit 5\r");
    terminal.wait_for("code=5");
    assert!(terminal.end().success());
}

#[test]
fn tools_that_cannot_have_a_cage_of_their_own_are_refused() {
    let stage = Stage::user();
    let strict = stage.keyward_run(&["--shims", "--protect", "strict"], &["true"]).output().unwrap();
    refused(strict, 121, "cannot prevent new footholds");
}

/// An agent that runs what a file says, so that it is not in its own words.
const RUNS_A_FILE: &str = r#"
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    char text[999] = {0};
    int status = 0;
    fread(text, 1, 998, fopen("task", "r"));
    if (fork() == 0) return execlp("bash", "bash", "-c", text, (char *)0);
    wait(&status);
    return WEXITSTATUS(status);
}
"#;

#[test]
fn the_gate_judges_what_an_agent_gives_to_a_shim() {
    let stage = Stage::user();
    let agent = stage.program("agent", RUNS_A_FILE);
    let repository = "git init -q && git config user.name n && git config user.email n@example.test && echo 1 > f && git add f && git commit -qm one && echo 2 > f && git stash -q";
    assert!(stage.bare(repository).status.success());
    let run = |task: &str| {
        stage.project_file("task", task);
        stage.keyward_run(&["--shims", "--gate", "auto", "--net", "open"], &[&agent]).output().unwrap()
    };
    let denied = run("git stash clear && touch ran");
    assert_eq!(denied.status.code(), Some(123), "{}{}", stdout(&denied), stderr(&denied));
    assert!(stderr(&denied).contains("git-stash-drop"), "{}", stderr(&denied));
    assert!(!stage.project().join("ran").exists());
    // The agent reads one object that it stops at, and the user one line when the agent has ended.
    let told = stderr(&denied);
    let object = told.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{told}"));
    let object: serde_json::Value = serde_json::from_str(object).unwrap();
    assert_eq!(object["keyward"], "denied", "{told}");
    assert_eq!(object["rule"], "git-stash-drop", "{told}");
    assert_eq!(object["retry"], false, "{told}");
    for key in ["reason", "allowed", "remedy_for_the_user"] {
        assert!(object[key].as_str().is_some_and(|text| !text.is_empty()), "{key}: {told}");
    }
    assert!(told.contains("Do not retry this call"), "{told}");
    let lines: Vec<&str> =
        told.lines().filter(|line| line.contains("command of the agent was denied")).collect();
    assert!(lines.len() == 1 && told.ends_with(&format!("{}\n", lines[0])), "{told}");
    let harmless = run("git stash list | wc -l && touch ran");
    assert!(!stderr(&harmless).contains("denied"), "{}", stderr(&harmless));
    assert_eq!(said(harmless), "1\n", "the control");
    assert!(stage.project().join("ran").exists());
}

#[test]
fn a_shim_in_a_directory_that_was_deleted_runs_nothing_elsewhere() {
    let stage = Stage::user();
    stage.project_file("kept", "");
    let script = "mkdir gone && cd gone && rmdir ../gone; bash -c 'rm -rf ./* ../*'; echo $?; cd ..; ls kept";
    let output = agent(&stage, script);
    assert_eq!(stdout(&output), "125\nkept\n", "{}", stderr(&output));
    assert!(
        stderr(&output).contains("cannot run bash: its directory was deleted or is closed to it"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_tool_whose_session_is_killed_ends_and_its_shim_says_so() {
    let stage = Stage::user();
    let time = long_time();
    let script = format!("bash -c 'touch ready; exec sleep {time}'; echo $?");
    let child = stage
        .keyward_run(&["--shims"], &["sh", "-c", &script])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    assert!(eventually(|| stage.project().join("ready").exists()));
    let listed = stage.command(keyward()).args(["ps", "--json"]).output().unwrap();
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let session = listed["sessions"][0]["pid"].as_u64().unwrap();
    assert!(stage.command("kill").args(["-9", &session.to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(stdout(&output), "125\n", "{}", stderr(&output));
    assert!(
        stderr(&output)
            .contains("keyward: bash was ended: the session of this agent is gone\nstart the agent again"),
        "{}",
        stderr(&output)
    );
    assert!(eventually(|| processes_with(&format!("sleep\0{time}")).is_empty()));
}

#[test]
fn a_tool_stops_and_goes_on_with_its_shim() {
    let stage = Stage::user();
    // A shell with job control stops its own group; what runs in the cage of the tools must stand still as well.
    let script = "bash -c 'while :; do echo . >> ticks; sleep 0.02; done' & p=$!
        while [ ! -s ticks ]; do /bin/sleep 0.02; done; kill -TSTP $p; /bin/sleep 0.3
        a=$(wc -l < ticks); /bin/sleep 0.5; b=$(wc -l < ticks); [ $a = $b ] && echo stood still
        kill -CONT $p; /bin/sleep 0.5; [ $(wc -l < ticks) -gt $b ] && echo went on; kill $p; wait $p 2>/dev/null; echo $?";
    assert_eq!(said(agent(&stage, script)), "stood still\nwent on\n143\n");
}

/// The cage of the agent and that of its tools are both made for one command: what is true of both is told once.
#[test]
fn what_is_told_at_the_start_is_told_once() {
    let stage = Stage::new(Who::User);
    let run = |flags: &[&str]| {
        let mut command = stage.command(keyward());
        command.current_dir(stage.home()).env("PATH", "relative:/usr/bin:/bin");
        command.args(["run", "--gate", "yolo"]).args(flags);
        let output = command.args(["--", "sh", "-c", "bash -c 'echo tool'"]).output().unwrap();
        assert_eq!(stdout(&output), "tool\n", "{}", stderr(&output));
        stderr(&output)
    };
    // The control: without shims it is told as well.
    let plain = run(&[]);
    assert!(plain.contains("is not a project"), "{plain}");
    for flags in [&["--shims"][..], &["--shims", "-v"]] {
        let told = run(flags);
        let mut lines: Vec<&str> = told.lines().collect();
        lines.sort_unstable();
        let all = lines.len();
        lines.dedup();
        assert_eq!(lines.len(), all, "{told}");
        assert!(told.contains("entry of PATH was left out"), "{told}");
    }
}
