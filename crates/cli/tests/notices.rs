//! What a run says where all went well, what the command finds in its environment, and a shell that just starts.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/pty.rs"]
mod pty;
mod support;

use pty::Terminal;
use std::path::Path;
use std::time::{Duration, SystemTime};
use support::{Stage, USER, keyward, stderr, stdout};

const TOKEN: &str = "ghp_EXAMPLE0EXAMPLE0EXAMPLE0EXAMPLE0EXAM";

/// What a terminal shows of `keyward` with these arguments, started in this directory with a credential in the environment.
fn shown(stage: &Stage, directory: &Path, credentials: &[&str], arguments: &[&str]) -> String {
    let mut command = stage.command(keyward());
    command.current_dir(directory).args(arguments);
    command.envs(credentials.iter().map(|name| (name, TOKEN)));
    let mut terminal = Terminal::start(command, USER);
    terminal.end();
    terminal.text().replace('\r', "")
}

#[test]
fn what_was_kept_back_is_told_once_a_day_for_each_project() {
    let stage = Stage::user();
    let project = stage.project();
    let run = |credentials: &[&str], flags: &[&str]| {
        let arguments = [&["run"], flags, &["echo", "ran"]].concat();
        shown(&stage, &project, credentials, &arguments)
    };
    let told = "keyward: kept back GITHUB_TOKEN\nran\n";
    assert_eq!(run(&["GITHUB_TOKEN"], &["--quiet"]), "ran\n");
    assert_eq!(run(&["GITHUB_TOKEN"], &[]), told);
    assert_eq!(run(&["GITHUB_TOKEN"], &[]), "ran\n");
    assert!(run(&["GITHUB_TOKEN"], &["-v"]).starts_with("keyward: kept back GITHUB_TOKEN\n"));
    // Another credential is news, and so is another project.
    assert_eq!(run(&["GITHUB_TOKEN", "NPM_TOKEN"], &[]), "keyward: kept back GITHUB_TOKEN, NPM_TOKEN\nran\n");
    let other = stage.elsewhere();
    assert_eq!(shown(&stage, &other, &["GITHUB_TOKEN"], &["run", "echo", "ran"]), told);
    // A day later it is told again, and what was remembered before is gone.
    let marks = || std::fs::read_dir(stage.state().join("told")).unwrap().map(|entry| entry.unwrap().path());
    assert_eq!(marks().count(), 3);
    let yesterday = SystemTime::now() - Duration::from_secs(86_401);
    for mark in marks() {
        std::fs::File::options().write(true).open(mark).unwrap().set_modified(yesterday).unwrap();
    }
    assert_eq!(run(&["GITHUB_TOKEN"], &[]), told);
    assert_eq!((run(&["GITHUB_TOKEN"], &[]).as_str(), marks().count()), ("ran\n", 1));
}

#[test]
fn variables_of_a_terminal_are_dropped_and_told_only_when_asked() {
    let stage = Stage::user();
    let steering = ["TMUX", "TMUX_PANE", "STY", "GITHUB_TOKEN"];
    let script = ["sh", "-c", "echo ran ${TMUX-none} ${TMUX_PANE-none} ${STY-none}"];
    let run =
        |flags: &[&str]| shown(&stage, &stage.project(), &steering, &[&["run"], flags, &script].concat());
    assert_eq!(run(&[]), "keyward: kept back GITHUB_TOKEN\nran none none none\n");
    let verbose = run(&["-v"]);
    assert!(verbose.starts_with("keyward: kept back GITHUB_TOKEN, STY, TMUX, TMUX_PANE\n"), "{verbose}");
}

#[test]
fn hidden_files_are_told_once_a_day_on_a_terminal() {
    let stage = Stage::user();
    stage.project_file(".env", "GREETING=hello\n");
    let run = || shown(&stage, &stage.project(), &[], &["run", "cat", ".env"]);
    assert_eq!(run(), "keyward: hid what is in .env; `--show .env` shows it\nGREETING=\n");
    assert_eq!(run(), "GREETING=\n");
    // Control: nothing is said where the user shows it.
    stage.project_file("further/.env", "GREETING=hello\n");
    let flags = ["run", "--show", ".env", "--show", "further/.env"];
    assert_eq!(shown(&stage, &stage.project(), &[], &[&flags[..], &["echo", "ran"]].concat()), "ran\n");
    let both = shown(&stage, &stage.project(), &[], &["run", "echo", "ran"]);
    assert_eq!(both, "keyward: hid what is in .env, further/.env; `--show .env` shows it\nran\n");
}

#[test]
fn a_command_that_failed_for_a_reason_of_the_cage_is_told_it() {
    let stage = Stage::user();
    stage.home_file("other/notes", "outside\n");
    let cases: &[(&[&str], &str)] = &[
        (
            &["strace", "true"],
            "keyward: `strace` needs ptrace, which a cage does not give\nadd `--allow ptrace`",
        ),
        (&["sh", "-c", "cd . && unshare -r true"], "keyward: `unshare` needs namespaces"),
        (&["docker", "ps"], "keyward: `docker` needs the socket of a container engine"),
        (&["sh", "-c", "cat ~/other/notes"], "/other/notes' is not the one outside"),
        (&["cat", "../home/other/notes"], "/other/notes' is not the one outside"),
        (
            &["sh", "-c", "cd . && cat /tmp/left"],
            "keyward: /tmp/left is not in this cage: each run has a /tmp",
        ),
        (&["sh", "-c", "cp /etc/passwd ~/other/"], "names the rule, and what would allow it"),
        (&["touch", "/etc/foo"], "keyward: /etc/foo is read-only in the cage\n`keyward why write /etc/foo`"),
        (&["sh", "-c", "echo x > /usr/foo"], "keyward: /usr/foo is read-only in the cage\n"),
        (&["sh", "-c", "apt-get install x 2>/dev/null || exit 100"], "`apt-get` needs to change the system"),
    ];
    for (argv, words) in cases {
        // At each failure: the next reader is another one.
        for _ in 0..2 {
            let failed = stage.keyward_run(&[], argv).output().unwrap();
            let said = stderr(&failed);
            assert!(!failed.status.success() && said.contains(words), "{argv:?}: {said}");
        }
    }
    // What succeeds, fails for another reason, or has what it needs is told nothing of it.
    for (flags, argv) in [
        (&[][..], &["sh", "-c", "unshare -r true; true"][..]),
        (&[], &["sh", "-c", "test -f none"]),
        (&[], &["cat", "/etc/no-such-file"]),
        (&[], &["sh", "-c", "cat ~/no-such-file ../no-such-file"]),
        (&[], &["sh", "-c", "make x > /tmp/out 2>&1 || { tail -1 /tmp/out; exit 2; }"]),
        (&[], &["sh", "-c", "mkdir /tmp/made; cat /tmp/made/none"]),
        (&[], &["git", "nosuch", "--output", "/tmp/out"]),
        (&["-q"], &["strace", "true"]),
        (&["--allow", "ptrace"], &["strace", "false"]),
    ] {
        let output = stage.keyward_run(flags, argv).output().unwrap();
        let said = stderr(&output);
        assert!(
            ["needs", "not the one", "not in the cage", "not in this cage"]
                .iter()
                .all(|it| !said.contains(it)),
            "{argv:?}: {said}"
        );
    }
}

#[test]
fn a_program_is_told_why_a_command_failed_in_its_cage() {
    let stage = Stage::user();
    let failed = stage.keyward_run(&["--json"], &["strace", "true"]).output().unwrap();
    let said = stderr(&failed);
    let outcome: serde_json::Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!(outcome["hint"]["fact"], "`strace` needs ptrace, which a cage does not give", "{said}");
    assert!(outcome["hint"]["remedy"].as_str().unwrap().starts_with("add `--allow ptrace`"), "{said}");
    let fine = stage.keyward_run(&["--json"], &["true"]).output().unwrap();
    assert!(!stderr(&fine).contains("hint"), "{}", stderr(&fine));
}

#[test]
fn a_server_of_the_host_that_was_not_reached_is_named() {
    let stage = Stage::user();
    let server = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = server.local_addr().unwrap().port();
    let address = format!("http://127.0.0.1:{port}/");
    let said = stderr(&stage.keyward_run(&[], &["curl", "-s", &address]).output().unwrap());
    assert!(said.contains(&format!("what listens on port {port} of this machine")), "{said}");
    drop(server);
    let said = stderr(&stage.keyward_run(&[], &["curl", "-s", &address]).output().unwrap());
    assert!(!said.contains("loopback"), "{said}");
}

#[test]
fn what_is_no_program_is_told_so() {
    let stage = Stage::user();
    for (argv, words) in [
        (&["ls -la"][..], "it is one word with spaces: leave out the quotes, or run `sh -c 'ls -la'`"),
        (&["cd", "src"], "`cd` is a builtin of shells and no program"),
        (&["no-such-program"], "no directory of PATH has it"),
    ] {
        let said = stderr(&stage.keyward_run(&[], argv).output().unwrap());
        assert!(said.contains(words), "{argv:?}: {said}");
    }
}

#[test]
fn strict_protection_is_told_where_it_forbids_a_name() {
    let stage = Stage::user();
    let failed = stage.keyward_run(&["--protect", "strict"], &["mkdir", ".vscode"]).output().unwrap();
    let said = stderr(&failed);
    assert!(said.contains("cannot be made in the cage: `files.protect` is `strict`"), "{said}");
}

#[test]
fn why_offers_only_what_can_be_granted() {
    let stage = Stage::user();
    stage.home_file("data/notes", "");
    let home = stage.home();
    let why = |act: &str, path: &str| {
        let command = stage.command(support::keyward()).args(["why", act, path]).output().unwrap();
        stdout(&command)
    };
    let missing = why("read", home.join("no-such-file").to_str().unwrap());
    assert!(missing.contains("nothing is there outside either") && !missing.contains("--read"), "{missing}");
    let data = home.join("data");
    let write = why("write", data.join("new").to_str().unwrap());
    assert!(write.contains("gone with the cage") && write.contains("--write"), "{write}");
    assert!(write.contains("/data'") && !write.contains("/data/new'`"), "{write}");
    let system = why("write", "/etc/foo");
    assert!(system.contains("`--write /etc`"), "{system}");
    let foothold = why("write", ".vscode");
    assert!(foothold.contains("--write") && !foothold.contains("--protect"), "{foothold}");
}

#[test]
fn quiet_says_nothing_on_success_and_still_tells_refusals_and_losses() {
    let stage = Stage::user();
    let project = stage.project();
    let run = |arguments: &[&str]| shown(&stage, &project, &["GITHUB_TOKEN"], arguments);
    // Throwing work away is a question, which this mode does not ask: a notice.
    assert!(stage.command("git").args(["init", "--quiet"]).status().unwrap().success());
    let clear = ["git", "clean", "-fdx", "old"];
    let loud = run(&[&["run", "--gate", "yolo"], &clear[..]].concat());
    assert!(loud.contains("the gate asks nothing"), "{loud}");
    let quiet = run(&[&["run", "-q", "--gate", "yolo"], &clear[..]].concat());
    assert!(!quiet.contains("keyward:"), "{quiet}");
    let lost = run(&["run", "-q", "sh", "-c", "echo x > .envrc"]);
    assert!(lost.contains("took .envrc out of the project"), "{lost}");
    let refused = run(&["run", "-q", "--inherit-credentials", "NPM_TOKEN", "true"]);
    assert!(refused.contains("is not handed to a child of class"), "{refused}");
    let over = run(&["run", "-q", "--timeout", "100ms", "sleep", "60"]);
    assert!(over.contains("it reached the limit wall"), "{over}");
}

#[test]
fn a_variable_is_set_for_the_command_and_its_value_is_not_recorded() {
    let stage = Stage::user();
    let flags = ["--env", "GREETING=hello there", "--env", "EMPTY="];
    let script = "echo \"$GREETING/${EMPTY-unset}/$KEYWARD\"";
    let output = stage.caged_with(&flags, script);
    assert_eq!(stdout(&output), "hello there//1\n", "{}", stderr(&output));
    // Control: outside there is none of it.
    assert_eq!(stdout(&stage.bare(script)), "/unset/\n");
    let record = std::fs::read_to_string(stage.state().join("events.jsonl")).unwrap();
    assert!(record.contains("GREETING") && !record.contains("hello there"), "{record}");
}

#[test]
fn what_looks_like_a_credential_or_loads_code_is_not_set_and_not_shown() {
    let stage = Stage::user();
    let pairs = [format!("GITHUB_TOKEN={TOKEN}"), format!("HARMLESS={TOKEN}"), TOKEN.into()];
    for pair in &pairs {
        let output = stage.caged_with(&["--env", pair], "echo ran");
        assert_eq!((stdout(&output).as_str(), output.status.code()), ("", Some(120)), "{}", stderr(&output));
        assert!(!stderr(&output).contains("EXAMPLE"), "{}", stderr(&output));
    }
    let output = stage.caged_with(&["--env", "LD_PRELOAD=/tmp/x.so"], "echo ran");
    assert_eq!((stdout(&output).as_str(), output.status.code()), ("", Some(120)));
    assert!(!stage.state().join("events.jsonl").exists());
    // The user's own file clears a false hit, as for every other way.
    let policy =
        "version = 1\nenv.not_secret = [\"MAX_TOKENS\"]\nenv.dangerous_loader_env = [\"PYTHONPATH\"]\n";
    stage.home_file(".config/keyward/policy.toml", policy);
    let flags = ["--env", "MAX_TOKENS=100", "--env", "PYTHONPATH=lib"];
    let output = stage.caged_with(&flags, "echo $MAX_TOKENS $PYTHONPATH");
    assert_eq!(stdout(&output), "100 lib\n", "{}", stderr(&output));
}

#[test]
fn a_shell_starts_without_questions_to_a_new_user() {
    let stage = Stage::user();
    let asks = "This is the Z Shell configuration function for new users";
    // Control: outside, in a HOME without settings, it asks.
    let mut command = stage.command("/usr/bin/zsh");
    let empty = stage.elsewhere();
    command.env("HOME", &empty).current_dir(&empty);
    let mut terminal = Terminal::start(command, USER);
    terminal.wait_for(asks);
    drop(terminal);
    let mut command = stage.command(keyward());
    command.arg("shell").env("SHELL", "/usr/bin/zsh");
    let mut terminal = Terminal::start(command, USER);
    terminal.keys("echo $((40+2)) shell\n");
    let before = terminal.wait_for("42 shell");
    assert!(!before.contains(asks), "{before}");
    terminal.keys("exit\n");
    assert_eq!(terminal.end().code(), Some(0));
}

#[test]
fn the_prompt_of_a_shell_says_that_it_is_in_a_cage() {
    let stage = Stage::user();
    for (shell, own) in [("/bin/bash", ".bashrc"), ("/usr/bin/zsh", ".zshrc")] {
        let mark = "(keyward) ";
        stage.home_file(own, "PS1='outside '\n");
        // Control: outside, the user's own settings make the prompt.
        let mut command = stage.command(shell);
        command.env("SHELL", shell);
        let mut terminal = Terminal::start(command, USER);
        let before = terminal.wait_for("outside ");
        assert!(!before.contains(mark), "{shell}: {before}");
        drop(terminal);
        let mut command = stage.command(keyward());
        command.arg("shell").env("SHELL", shell);
        let mut terminal = Terminal::start(command, USER);
        terminal.wait_for(mark);
        terminal.keys("exit\n");
        assert_eq!(terminal.end().code(), Some(0));
        assert_eq!(std::fs::read_to_string(stage.home().join(own)).unwrap(), "PS1='outside '\n");
    }
}

#[test]
fn a_directory_that_is_not_a_project_is_told_with_where_the_command_starts() {
    let stage = Stage::user();
    let home = stage.home();
    for (place, words) in [
        (
            Path::new("/etc"),
            "/etc is shared by many programs and is not a project: the command sees it read-only",
        ),
        (
            Path::new("/tmp"),
            "/tmp is shared by many programs and is not a project: the command starts in the cage's own HOME",
        ),
        (
            home.as_path(),
            "is, or holds, your HOME and is not a project: the command starts in the cage's own HOME",
        ),
    ] {
        let output = stage.keyward_run(&[], &["pwd"]).current_dir(place).output().unwrap();
        let said = stderr(&output);
        assert!(said.contains(words) && said.contains("\ngo to a directory of your own first"), "{said}");
    }
}
