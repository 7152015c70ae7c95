//! Streams, codes, arguments, environment and signals: what a caller sees of a command is what it would have seen without us.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod support;

use std::ffi::{CString, OsStr, OsString};
use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use support::{Stage, keyward, stderr, stdout};

/// Bytes of every value, without a pattern that a buffer's size could hide.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

fn fed(mut command: Command, input: Vec<u8>) -> Output {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    output
}

/// The script in the cage and the same script bare, by a shell that sets the scene around both; `"$@"` is the command.
fn staged(stage: &Stage, scene: &str, script: &str) -> [Output; 2] {
    let bare = stage.command("bash").args(["-c", scene, "bash", "sh", "-c", script]).output().unwrap();
    let caged = stage
        .command("bash")
        .args(["-c", scene, "bash", keyward(), "run", "--", "sh", "-c", script])
        .output()
        .unwrap();
    [bare, caged]
}

#[track_caller]
fn same(outputs: &[Output; 2]) {
    let [bare, caged] = outputs;
    assert_eq!(
        (bare.status, stdout(bare), stderr(bare)),
        (caged.status, stdout(caged), stderr(caged)),
        "left bare, right in the cage"
    );
}

/// Waits for a child, but not for ever.
#[track_caller]
fn end_of(child: &mut Child) -> std::process::ExitStatus {
    let end = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > end {
            let _ = child.kill();
            panic!("does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn json(line: &str) -> serde_json::Value {
    serde_json::from_str(line).unwrap_or_else(|error| panic!("no JSON ({error}): {line:?}"))
}

#[test]
fn fifty_megabytes_pass_both_ways_unchanged() {
    let stage = Stage::user();
    let input = noise(50_000_000);
    let output = fed(stage.keyward_run(&[], &["cat"]), input.clone());
    assert!(output.status.success());
    assert!(output.stdout == input, "{} of {} bytes", output.stdout.len(), input.len());
    assert!(output.stderr.is_empty(), "{}", stderr(&output));
}

#[test]
fn bytes_on_stderr_pass_unchanged() {
    let stage = Stage::user();
    let input = noise(1_000_000);
    let output = fed(stage.keyward_run(&[], &["sh", "-c", "cat >&2"]), input.clone());
    assert!(output.stderr == input && output.stdout.is_empty());
}

#[test]
fn a_file_as_a_stream_is_that_very_file() {
    let stage = Stage::user();
    stage.project_file("input", "first\nsecond\n");
    // The offset is shared: what the command did not read is there for the next one.
    let scene = r#"{ "$@"; echo "then $(cat)"; } < input"#;
    let outputs = staged(&stage, scene, "read line; echo got $line");
    same(&outputs);
    let appended = staged(&stage, r#"rm -f out; echo one >> out; "$@" >> out; cat out"#, "echo two");
    same(&appended);
    assert_eq!(stdout(&appended[1]), "one\ntwo\n");
}

#[test]
fn a_closed_stream_is_nothing_and_never_something_of_ours() {
    let stage = Stage::user();
    for (scene, number) in [(r#""$@" <&-"#, 0), (r#""$@" 2>&-"#, 2)] {
        let [_, caged] = staged(&stage, scene, &format!("readlink /proc/self/fd/{number}; exit 4"));
        assert_eq!(caged.status.code(), Some(4), "{}", stderr(&caged));
        assert_eq!(stdout(&caged), "/dev/null\n");
    }
    let [_, caged] = staged(&stage, r#""$@" >&-"#, "exec 3>&1; readlink /proc/$$/fd/3 >&2; exit 4");
    assert_eq!((caged.status.code(), stderr(&caged).as_str()), (Some(4), "/dev/null\n"));
    let [_, caged] = staged(&stage, r#""$@" <&- >&- 2>&-"#, "exit 4");
    assert_eq!(caged.status.code(), Some(4));
}

#[test]
fn a_reader_that_leaves_ends_the_command_by_sigpipe() {
    let stage = Stage::user();
    same(&staged(&stage, r#""$@" | head -n 2; echo codes ${PIPESTATUS[*]}"#, "exec yes"));
    let [_, caged] = staged(&stage, r#""$@" | head -n 2; echo codes ${PIPESTATUS[*]}"#, "exec yes");
    assert_eq!(stdout(&caged), "y\ny\ncodes 141 0\n");
}

#[test]
fn a_caller_that_ignores_sigpipe_does_not_change_the_command() {
    let stage = Stage::user();
    // Rust programs ignore it themselves; the command must not inherit that from us.
    let [bare, caged] = staged(&stage, r#""$@""#, "grep SigIgn /proc/self/status");
    assert_eq!(stdout(&bare), stdout(&caged));
}

#[test]
fn a_command_that_closes_its_output_is_seen_to_do_so() {
    let stage = Stage::user();
    let script = "echo said; exec >&-; exec sleep 1000";
    let mut bare = stage.command("sh");
    bare.args(["-c", script]);
    for mut command in [bare, stage.keyward_run(&[], &["sh", "-c", script])] {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut pipe = child.stdout.take().unwrap();
        let reader = std::thread::spawn(move || {
            let mut said = String::new();
            pipe.read_to_string(&mut said).unwrap();
            said
        });
        let end = Instant::now() + Duration::from_secs(20);
        while !reader.is_finished() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        let (saw_end, alive) = (reader.is_finished(), child.try_wait().unwrap().is_none());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(saw_end, "the end of the output was not seen while the command lived");
        assert!(alive);
        assert_eq!(reader.join().unwrap(), "said\n");
    }
}

#[test]
fn a_command_that_closes_its_input_is_seen_to_do_so() {
    let stage = Stage::user();
    let script = "exec <&-; echo closed; exec sleep 1000";
    let mut bare = stage.command("sh");
    bare.args(["-c", script]);
    for mut command in [bare, stage.keyward_run(&[], &["sh", "-c", script])] {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut said = [0; 7];
        child.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let end = Instant::now() + Duration::from_secs(20);
        let broken = loop {
            match stdin.write_all(b"x") {
                Err(error) => break error.kind() == std::io::ErrorKind::BrokenPipe,
                Ok(()) if Instant::now() > end => break false,
                Ok(()) => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(broken, "writing to a command that closed its input goes on");
    }
}

#[test]
fn every_exit_code_passes_through() {
    let stage = Stage::user();
    for code in 0..=255 {
        let status = stage.keyward_run(&[], &["sh", "-c", &format!("exit {code}")]).status().unwrap();
        assert_eq!(status.code(), Some(code));
    }
}

#[test]
fn death_by_a_signal_is_128_and_its_number() {
    let stage = Stage::user();
    for signal in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 24, 25, 26, 27, 29, 30, 31, 34, 64]
    {
        // Not by a shell, which would catch some of them itself.
        let script = format!(
            "import os, signal, time\nif {signal} != 9: signal.signal({signal}, signal.SIG_DFL)\nos.kill(os.getpid(), {signal})\ntime.sleep(2)"
        );
        let bare = stage.command("python3").args(["-c", &script]).output().unwrap();
        assert_eq!(bare.status.signal(), Some(signal));
        let caged = stage.keyward_run(&[], &["python3", "-c", &script]).output().unwrap();
        assert_eq!(caged.status.code(), Some(128 + signal), "{}", stderr(&caged));
        assert_eq!(stderr(&caged), "", "signal {signal}");
    }
}

#[test]
fn a_command_that_is_not_there_is_127_in_two_lines() {
    let stage = Stage::user();
    for name in ["no-such-command", "./no-such-command", "/no/such/command"] {
        let output = stage.keyward_run(&[], &[name]).output().unwrap();
        assert_eq!(output.status.code(), Some(127));
        let text = stderr(&output);
        assert_eq!(text.lines().count(), 2, "{text}");
        assert!(
            text.starts_with(&format!("keyward: cannot run {name}: no such file or directory\n")),
            "{text}"
        );
    }
}

#[test]
fn a_file_that_cannot_be_executed_is_126() {
    let stage = Stage::user();
    stage.project_file("plain", "text");
    for name in ["./plain", ".", "/etc"] {
        let output = stage.keyward_run(&[], &[name]).output().unwrap();
        assert_eq!(output.status.code(), Some(126), "{name}: {}", stderr(&output));
        assert_eq!(stderr(&output).lines().count(), 2, "{}", stderr(&output));
    }
}

#[test]
fn a_script_without_a_first_line_is_for_the_shell() {
    let stage = Stage::user();
    let script = stage.project_file("script", "echo \"$1 by ${0##*/}\"\nexit 3\n");
    std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
    let [bare, caged] = staged(&stage, r#""$@""#, "./script said");
    assert_eq!((bare.status.code(), stdout(&bare)), (caged.status.code(), stdout(&caged)));
    let direct = stage.keyward_run(&[], &["./script", "said"]).output().unwrap();
    assert_eq!(
        (direct.status.code(), stdout(&direct).as_str()),
        (Some(3), "said by script\n"),
        "{}",
        stderr(&direct)
    );
}

#[test]
fn arguments_pass_byte_for_byte() {
    let stage = Stage::user();
    let long = "x".repeat(120_000);
    let odd: Vec<OsString> = vec![
        OsString::from_vec(b"\xff\xfe not utf-8 \x80".to_vec()),
        "".into(),
        "-n".into(),
        "--".into(),
        "two words".into(),
        "line\nbreak".into(),
        "*".into(),
        "'\"$(echo no)`".into(),
        long.into(),
        "".into(),
    ];
    let print = r#"for a; do printf '[%s]' "$a"; done"#;
    let bare = stage.command("sh").args(["-c", print, "sh"]).args(&odd).output().unwrap();
    let caged = stage.keyward_run(&[], &["sh", "-c", print, "sh"]).args(&odd).output().unwrap();
    assert!(bare.stdout.len() > 120_000);
    assert!(bare.stdout == caged.stdout, "{}", stderr(&caged));
}

/// Starts keyward with exactly these entries as its environment, also those that no library would let through.
fn with_raw_environment(stage: &Stage, flags: &[&str], argv: &[&str], entries: &[&[u8]]) -> Output {
    let strings =
        |all: &[&[u8]]| -> Vec<CString> { all.iter().map(|text| CString::new(*text).unwrap()).collect() };
    let mut arguments: Vec<&[u8]> = vec![b"keyward", b"run"];
    arguments.extend(flags.iter().map(|flag| flag.as_bytes()));
    arguments.push(b"--");
    arguments.extend(argv.iter().map(|argument| argument.as_bytes()));
    let (program, arguments, entries) =
        (CString::new(keyward()).unwrap(), strings(&arguments), strings(entries));
    let mut command = stage.command("true");
    // SAFETY: everything the closure uses was made before the fork; it allocates two small arrays in a process whose only other
    // threads, if any, were not holding the allocator's lock for longer than a moment (glibc resets it in the child).
    unsafe {
        command.pre_exec(move || {
            let pointers = |all: &[CString]| -> Vec<*const libc::c_char> {
                all.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
            };
            let (argv, envp) = (pointers(&arguments), pointers(&entries));
            libc::execve(program.as_ptr(), argv.as_ptr(), envp.as_ptr());
            Err(std::io::Error::last_os_error())
        })
    };
    command.output().unwrap()
}

#[test]
fn an_odd_environment_neither_harms_nor_leaks() {
    let stage = Stage::user();
    let home = [b"HOME=", stage.home().as_os_str().as_bytes()].concat();
    let path: &[u8] = b"PATH=/usr/bin:/bin";
    let entries: Vec<&[u8]> = vec![
        path,
        &home,
        b"ODD=\xff\xfe\x80",
        b"\xff\xfe=value",
        b"no equals sign",
        b"=starts with it",
        b"",
        b"TWICE=first",
        b"TWICE=second",
        b"API_TOKEN=hunter2-first",
        b"API_TOKEN=hunter2-second",
        b"LD_PRELOAD=/no/such/library.so",
    ];
    stage.home_file(".config/keyward/policy.toml", "version = 1\nenv.pass = [\"API_TOKEN\"]\n");
    let flags = ["--pass", "ODD", "--pass", "TWICE"];
    let output = with_raw_environment(&stage, &flags, &["cat", "/proc/self/environ"], &entries);
    assert!(output.status.success(), "{}", stderr(&output));
    let seen: Vec<&[u8]> = output.stdout.split(|&byte| byte == 0).collect();
    assert!(seen.contains(&b"ODD=\xff\xfe\x80".as_slice()), "{}", stdout(&output));
    assert_eq!(seen.iter().filter(|entry| entry.starts_with(b"TWICE=")).count(), 1, "{}", stdout(&output));
    for forbidden in ["hunter2", "no equals sign", "starts with it", "LD_PRELOAD"] {
        assert!(!stdout(&output).contains(forbidden), "{forbidden}: {}", stdout(&output));
    }
}

#[test]
fn an_empty_environment_is_enough() {
    let stage = Stage::root();
    let output = with_raw_environment(&stage, &[], &["sh", "-c", "echo $HOME $PATH"], &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output), "/root /usr/local/bin:/usr/bin:/bin\n");
}

#[test]
fn the_outcome_is_the_last_line_of_stderr() {
    let stage = Stage::user();
    let last = |flags: &[&str], argv: &[&str]| {
        let output = stage.keyward_run(&[&["--json"], flags].concat(), argv).output().unwrap();
        let text = stderr(&output);
        assert!(text.ends_with('\n'));
        (output.status.code().unwrap(), json(text.lines().last().unwrap()), text)
    };
    let (code, value, text) = last(&[], &["sh", "-c", "echo own words >&2; exit 3"]);
    assert_eq!(
        (code, &value["v"], &value["exit"], &value["outcome"]),
        (3, &1.into(), &3.into(), &"exited".into())
    );
    assert!(text.starts_with("own words\n\n{") && text.lines().count() == 3, "{text}");
    assert!(!value["held"].as_array().unwrap().is_empty());

    let (code, value, _) = last(&[], &["sh", "-c", "kill -9 $$"]);
    assert_eq!(
        (code, &value["exit"], &value["outcome"], &value["signal"]),
        (137, &137.into(), &"signalled".into(), &9.into())
    );

    let (code, value, text) = last(&["--timeout", "1s"], &["sleep", "1000"]);
    assert_eq!(
        (code, &value["exit"], &value["outcome"], &value["limit"]),
        (124, &124.into(), &"limit".into(), &"wall".into())
    );
    assert!(value["fact"].as_str().unwrap().contains("wall = 1s (--timeout)"), "{text}");
    assert!(!value["remedy"].as_str().unwrap().is_empty());
    assert!(text.starts_with("\n{") && text.lines().count() == 2, "{text}");

    let (code, value, text) = last(&["--inherit-credentials", "API_TOKEN"], &["true"]);
    assert_eq!(
        (code, &value["exit"], &value["outcome"], &value["retry"]),
        (121, &121.into(), &"refused".into(), &false.into())
    );
    for field in ["rule", "fact", "remedy"] {
        assert!(!value[field].as_str().unwrap().is_empty(), "{field}");
    }
    assert_eq!(text.lines().count(), 1, "{text}");

    let (code, value, _) = last(&[], &["no-such-command"]);
    assert_eq!((code, &value["exit"], &value["outcome"]), (127, &127.into(), &"fault".into()));
}

#[test]
fn words_without_a_line_end_do_not_spoil_the_outcome() {
    let stage = Stage::user();
    let output = stage.keyward_run(&["--json"], &["sh", "-c", "printf 'no line end' >&2"]).output().unwrap();
    let text = stderr(&output);
    assert!(text.starts_with("no line end"));
    json(&text[text.find('{').unwrap()..]);
}

#[test]
fn the_outcome_goes_to_a_descriptor_that_the_command_does_not_have() {
    let stage = Stage::user();
    let scene = r#""$KEYWARD" run --outcome-fd 3 -- sh -c 'for n in 0 1 2 3 4 5 6 7 8 9; do [ -e /proc/$$/fd/$n ] && printf "%s " $n; done; echo evil >&3; exit 6' 3>outcome"#;
    let output = stage.command("bash").args(["-c", scene]).env("KEYWARD", keyward()).output().unwrap();
    assert_eq!(output.status.code(), Some(6), "{}", stderr(&output));
    assert!(stdout(&output).starts_with("0 1 2 "), "{}", stdout(&output));
    assert!(!stdout(&output).contains('3'), "{}", stdout(&output));
    let text = std::fs::read_to_string(stage.project().join("outcome")).unwrap();
    assert_eq!(text.lines().count(), 1);
    assert_eq!((&json(&text)["exit"], &json(&text)["v"]), (&6.into(), &1.into()));
    assert!(!text.contains("evil"));
}

#[test]
fn no_descriptor_of_the_caller_is_inherited() {
    let stage = Stage::user();
    stage.project_file("kept", "secret words");
    let scene = r#"exec 5<kept 9<>kept; "$@""#;
    let [bare, caged] = staged(
        &stage,
        scene,
        "cat <&5 2>/dev/null; for n in 0 1 2 3 4 5 6 7 8 9 10; do [ -e /proc/$$/fd/$n ] && printf '%s ' $n; done",
    );
    assert!(stdout(&bare).starts_with("secret words") && stdout(&bare).contains('9'), "{}", stdout(&bare));
    assert_eq!(stdout(&caged).trim(), "0 1 2", "{}", stderr(&caged));
}

#[test]
fn a_mistake_in_the_flags_is_120() {
    let stage = Stage::user();
    for flags in
        [&["--no-such-flag"][..], &["--timeout", "soon"], &["--trust", "everybody"], &["--outcome-fd", "1"]]
    {
        let output = stage.keyward_run(flags, &["touch", "ran"]).output().unwrap();
        assert_eq!(output.status.code(), Some(120), "{flags:?}: {}", stderr(&output));
    }
    let nothing = stage.command(keyward()).arg("run").output().unwrap();
    assert_eq!(nothing.status.code(), Some(120));
    assert!(!stage.project().join("ran").exists());
}

#[test]
fn a_mistake_in_a_policy_file_is_120_and_nothing_runs() {
    let stage = Stage::user();
    stage.home_file(".config/keyward/policy.toml", "version = 1\n[limitz]\nwall = \"1s\"\n");
    let output = stage.keyward_run(&[], &["touch", "ran"]).output().unwrap();
    assert_eq!(output.status.code(), Some(120));
    let text = stderr(&output);
    assert!(text.contains("policy.toml:2") && text.contains("limits"), "{text}");
    assert!(!stage.project().join("ran").exists());
}

#[test]
fn a_credential_for_an_unknown_child_is_121() {
    let stage = Stage::user();
    let mut command = stage.keyward_run(&["--inherit-credentials", "API_TOKEN"], &["touch", "ran"]);
    let output = command.env("API_TOKEN", "hunter2").output().unwrap();
    assert_eq!(output.status.code(), Some(121), "{}", stderr(&output));
    assert_eq!(stderr(&output).lines().count(), 2);
    assert!(!stderr(&output).contains("hunter2"));
    assert!(!stage.project().join("ran").exists());
}

#[test]
fn a_directory_that_cannot_be_used_is_120_in_two_lines() {
    let stage = Stage::user();
    let closed = stage.project().join("closed");
    stage.make_folder(&closed);
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o000)).unwrap();
    for cwd in ["no/such/folder", "closed/inner"] {
        let output = stage.keyward_run(&["--cwd", cwd], &["true"]).output().unwrap();
        assert_eq!(output.status.code(), Some(120), "{cwd}: {}", stderr(&output));
        assert_eq!(stderr(&output).lines().count(), 2, "{}", stderr(&output));
    }
    let scene = "mkdir gone && cd gone && rmdir ../gone && exec \"$0\" run -- true";
    let output = stage.command("bash").args(["-c", scene, keyward()]).output().unwrap();
    assert_eq!(output.status.code(), Some(120), "{}", stderr(&output));
    assert!(stderr(&output).starts_with("keyward: cannot find the current directory"), "{}", stderr(&output));
    std::fs::set_permissions(&closed, PermissionsExt::from_mode(0o755)).unwrap();
}

#[test]
fn mask_priority_and_directory_are_kept() {
    let stage = Stage::user();
    stage.make_folder(&stage.project().join("below"));
    let outputs = staged(
        &stage,
        r#"umask 027; cd below; exec nice -n 7 "$@""#,
        "umask; nice; pwd; touch made; stat -c %a made",
    );
    same(&outputs);
    // The tests may run under `nice` themselves.
    let own: i32 = stdout(&stage.bare("nice")).trim().parse().unwrap();
    let expected = format!("0027\n{}\n", (own + 7).min(19));
    assert!(stdout(&outputs[1]).contains(&expected), "{}", stdout(&outputs[1]));
}

#[test]
fn limits_of_the_caller_are_kept() {
    let stage = Stage::user();
    same(&staged(&stage, r#"ulimit -n 333; ulimit -s 4096; exec "$@""#, "ulimit -n; ulimit -s"));
}

#[test]
fn signals_to_the_launcher_reach_the_command() {
    let stage = Stage::user();
    for name in ["INT", "TERM", "HUP", "QUIT", "USR1", "USR2", "ALRM", "WINCH", "CONT"] {
        let script = format!("trap 'echo caught; exit 9' {name}; echo up; while :; do sleep 0.05; done");
        let mut bare = stage.command("bash");
        bare.args(["-c", &script]);
        for mut command in [bare, stage.keyward_run(&[], &["bash", "-c", &script])] {
            let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
            let mut up = [0; 3];
            child.stdout.as_mut().unwrap().read_exact(&mut up).unwrap();
            let number =
                Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status().unwrap();
            assert!(number.success());
            let status = end_of(&mut child);
            let mut rest = String::new();
            child.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
            assert_eq!((status.code(), rest.as_str()), (Some(9), "caught\n"), "{name}");
        }
    }
}

#[test]
fn a_stop_asked_of_the_launcher_is_seen_by_the_caller() {
    let stage = Stage::user();
    // A job of its own group in the caller's session, as a shell starts it; whoever waits for it sees the stop, and lets it go on.
    let script = "echo up; touch up; while ! test -e go; do sleep 0.05; done; echo again; exit 5";
    let wait = "import os, sys\npid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, setpgroup=0)\n\
                import time\nwhile not os.path.exists('up'): time.sleep(0.05)\nos.unlink('up')\nos.kill(pid, 20)\n\
                _, status = os.waitpid(pid, os.WUNTRACED)\nprint('stopped', os.WIFSTOPPED(status), flush=True)\nopen('go', 'w')\n\
                os.kill(pid, 18)\n_, status = os.waitpid(pid, 0)\nprint('code', os.WEXITSTATUS(status))\nos.unlink('go')\n";
    let run = |argv: &[&str]| {
        stage.command("timeout").args(["30", "python3", "-c", wait]).args(argv).output().unwrap()
    };
    let bare = run(&["sh", "-c", script]);
    let caged = run(&[keyward(), "run", "--", "sh", "-c", script]);
    assert_eq!(stdout(&bare), "up\nstopped True\nagain\ncode 5\n");
    assert_eq!(stdout(&bare), stdout(&caged), "{}", stderr(&caged));
}

#[test]
fn a_command_that_stops_itself_does_not_stop_the_clock() {
    let stage = Stage::user();
    let mut command = stage
        .keyward_run(&["--timeout", "1s"], &["sh", "-c", "setsid sleep 1000 & kill -STOP $$; sleep 1000"]);
    assert_eq!(end_of(&mut command.spawn().unwrap()).code(), Some(124));
}

#[test]
fn what_the_caller_ignores_or_blocks_the_command_finds_the_same() {
    let stage = Stage::user();
    let ask = "grep -E '^Sig(Blk|Ign)' /proc/self/status";
    for scene in [r#"exec nohup "$@""#, r#"trap '' INT USR1; exec "$@""#, r#"exec "$@""#] {
        let [bare, caged] = staged(&stage, scene, ask);
        assert_eq!(stdout(&bare), stdout(&caged), "{scene}");
    }
    // SIGPIPE is the one exception: it is always as a fresh program expects it, also under a caller such as Python that ignores it.
    let blocked = "import os, signal, sys\nsignal.signal(signal.SIGPIPE, signal.SIG_DFL)\nsignal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGUSR2])\nos.execvp(sys.argv[1], sys.argv[1:])";
    let run = |argv: &[&str]| stage.command("python3").args(["-c", blocked]).args(argv).output().unwrap();
    // Not by a shell, which clears the mask.
    let ask = ["grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status"];
    let bare = run(&ask);
    let caged = run(&[&[keyward(), "run", "--"], &ask[..]].concat());
    assert!(stdout(&bare).contains("SigBlk:\t0000000000004800"), "{}", stdout(&bare));
    assert_eq!(stdout(&bare), stdout(&caged));
}

#[test]
fn nohup_keeps_the_command_alive() {
    let stage = Stage::user();
    let mut child = stage
        .command("nohup")
        .args([keyward(), "run", "--", "sh", "-c", "echo up; sleep 1; echo survived"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = [0; 3];
    child.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::HUP)
        .unwrap();
    assert!(end_of(&mut child).success());
    let mut rest = String::new();
    child.stdout.take().unwrap().read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "survived\n");
}

#[test]
fn background_work_of_the_command_ends_with_it_and_frees_its_pipes() {
    let stage = Stage::user();
    let started = Instant::now();
    let output = stage.caged("sleep 1000 & setsid sleep 1000 & echo done");
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "done\n"));
    assert!(started.elapsed() < Duration::from_secs(500), "the pipe was held by what stayed behind");
}

#[test]
fn a_name_that_is_not_text_works_as_a_command() {
    let stage = Stage::user();
    let name = stage.project().join(OsStr::from_bytes(b"odd \xff name"));
    std::fs::write(&name, "#!/bin/sh\necho ran\n").unwrap();
    stage.own(&name);
    std::fs::set_permissions(&name, PermissionsExt::from_mode(0o755)).unwrap();
    let output = stage.keyward_run(&[], &[]).arg(&name).output().unwrap();
    assert_eq!(stdout(&output), "ran\n", "{}", stderr(&output));
}
