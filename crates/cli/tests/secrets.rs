//! Secrets: how they reach a command, who else sees them, and what is said of them. Sources and the store have tests of their own in the vault.
#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "support/pty.rs"]
mod pty;
mod support;

use pty::Terminal;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use support::{Stage, USER, Who, eventually, keyward, long_time, processes_with, refused, stderr, stdout};

/// As a token of no vendor: only the value itself is known.
const CANARY: &str = "canary-7d0e5b31aa94c2f8";
const BOTH: [Who; 2] = [Who::User, Who::Root];

/// A stage whose secret `api` comes from each source in turn.
fn staged(who: Who, from: &str) -> Stage {
    let stage = Stage::new(who);
    let secret = stage.home_file("private/value", CANARY);
    std::fs::set_permissions(&secret, PermissionsExt::from_mode(0o600)).unwrap();
    let from = from.replace("FILE", secret.to_str().unwrap());
    let entry = format!("version = 1\n[secrets.api]\nfrom = \"{from}\"\nas = \"API_KEY\"\n");
    stage.home_file(".config/keyward/secrets.toml", &entry);
    stage
}

/// A stage with the secret in a store whose identity is a file.
fn stored(who: Who) -> Stage {
    let stage = Stage::new(who);
    let set = with_input(
        stage.command(keyward()).args(["secret", "set", "api", "--as", "API_KEY", "--identity", "file"]),
        CANARY,
    );
    assert!(set.status.success(), "{}", stderr(&set));
    assert!(stderr(&set).contains("its key is a file beside it, as you asked:"), "{}", stderr(&set));
    stage
}

fn with_input(command: &mut Command, input: &str) -> Output {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // One that does not read is fine.
    let _ = std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes());
    child.wait_with_output().unwrap()
}

fn run(stage: &Stage, flags: &[&str], script: &str) -> Output {
    stage.keyward_run(flags, &["sh", "-c", script]).env("CALLERS_KEY", CANARY).output().unwrap()
}

const READ: [(&str, &str); 3] = [
    ("api=fd", "cat /dev/fd/$API_KEY_FD"),
    ("api=file", "cat $API_KEY_FILE"),
    ("api=dangerous-env", "printf %s \"$API_KEY\""),
];

#[test]
fn a_secret_reaches_the_command_in_each_way_and_from_each_source() {
    for who in BOTH {
        for from in ["file://FILE", "env://CALLERS_KEY", "cmd://cat 'FILE'", "file://~/private/value"] {
            let stage = staged(who, from);
            for (grant, read) in READ {
                let output = run(&stage, &["--secret", grant, "--redact", "off"], read);
                assert_eq!(stdout(&output), CANARY, "{who:?} {from} {grant}: {}", stderr(&output));
            }
        }
        let stage = stored(who);
        let output = run(&stage, &["--secret", "api=fd", "--redact", "off"], READ[0].1);
        assert_eq!(stdout(&output), CANARY, "{who:?}: {}", stderr(&output));
    }
}

#[test]
fn what_is_given_cannot_be_changed_and_is_closed_to_others() {
    let stage = staged(Who::User, "file://FILE");
    let script = "stat -c %a $API_KEY_FILE $(dirname $API_KEY_FILE); (echo x > $API_KEY_FILE) 2>&1; id -u > /dev/null; \
        env | grep -c canary; tr '\\0' '\\n' < /proc/1/environ 2>/dev/null | grep -c canary; ls /proc/1/fd 2>&1 | wc -l";
    let output = run(&stage, &["--secret", "api=file", "--redact", "off"], script);
    let said = stdout(&output);
    assert!(said.starts_with("400\n700\n") && said.contains("ermission denied"), "{said}{}", stderr(&output));
    assert!(said.ends_with("0\n0\n1\n"), "{said}");
    let seals = "import fcntl, os\nprint(fcntl.fcntl(int(os.environ['API_KEY_FD']), fcntl.F_GET_SEALS))\ntry: os.pwrite(3, b'x', 0)\nexcept OSError as e: print(e.strerror)\n";
    stage.project_file("seals.py", seals);
    let output = run(&stage, &["--secret", "api=fd"], "/usr/bin/python3 seals.py");
    // Seal, shrink, grow and write; execution as well where the kernel has it.
    assert!(
        ["15\n", "31\n", "47\n", "63\n"]
            .iter()
            .any(|seals| stdout(&output) == format!("{seals}Operation not permitted\n")),
        "{}",
        stdout(&output)
    );
}

#[test]
fn a_source_that_fails_starts_nothing_and_says_why_in_two_lines() {
    let stage = Stage::user();
    let entries = "version = 1\n[secrets.gone]\nfrom = \"file:///nowhere/at-all\"\n[secrets.fails]\nfrom = \"cmd://sh -c 'echo canary-of-stderr >&2; exit 3'\"\n\
        [secrets.unset]\nfrom = \"env://NOT_SET_ANYWHERE\"\n[secrets.empty]\nfrom = \"cmd://true\"\n[secrets.kept]\nfrom = \"store://kept\"\n";
    stage.home_file(".config/keyward/secrets.toml", entries);
    for name in ["gone", "fails", "unset", "empty", "kept"] {
        let output = run(&stage, &["--secret", &format!("{name}=fd")], "touch started; echo started");
        let said = stderr(&output);
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(125), ""), "{name}: {said}");
        assert!(
            said.contains(&format!("the secret {name}: ")) && said.lines().count() == 2,
            "{name}: {said}"
        );
        assert!(!said.contains("canary") && !stage.project().join("started").exists(), "{name}: {said}");
    }
    refused(run(&stage, &["--secret", "gine=fd"], "true"), 120, "did you mean gone");
    refused(run(&stage, &["--secret", "gone"], "true"), 120, "keyward secret set gone --to HOST");
}

/// Everything a process has in memory, read as root.
fn memory(pid: u32) -> Vec<u8> {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let Ok(file) = std::fs::File::open(format!("/proc/{pid}/mem")) else { return Vec::new() };
    let mut all = Vec::new();
    for line in
        maps.lines().filter(|line| line.split(' ').nth(1).is_some_and(|rights| rights.starts_with('r')))
    {
        let (start, end) = line.split_once(' ').unwrap().0.split_once('-').unwrap();
        let (start, end) = (u64::from_str_radix(start, 16).unwrap(), u64::from_str_radix(end, 16).unwrap());
        let mut part = vec![0; usize::try_from(end - start).unwrap().min(64 << 20)];
        if let Ok(length) = file.read_at(&mut part, start) {
            all.extend_from_slice(&part[..length]);
        }
    }
    all
}

fn holds(pid: u32) -> bool {
    memory(pid).windows(CANARY.len()).any(|window| window == CANARY.as_bytes())
}

fn named(name: &str, below: u32) -> Option<u32> {
    processes_with(name).into_iter().find(|pid| parent(*pid) == Some(below))
}

fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Whether one of a process's descriptors leads to a file in memory.
fn has_memory_file(pid: u32) -> bool {
    let folder = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    folder
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .any(|to| to.to_string_lossy().contains("keyward-secret"))
}

#[test]
fn neither_launcher_nor_init_ever_has_the_value() {
    for (from, grant) in [
        ("env://CALLERS_KEY", "api=fd"),
        ("file://FILE", "api=file"),
        ("file://FILE", "api=dangerous-env"),
        ("cmd://cat 'FILE'", "api=fd"),
        ("file://FILE", "api=token"),
        ("store://api", "api=fd"),
        ("store://api", "api=token"),
    ] {
        let stage = if from.starts_with("store") { stored(Who::User) } else { staged(Who::User, from) };
        let time = long_time();
        let program = stage.elsewhere().join("keyward");
        std::fs::copy(keyward(), &program).unwrap();
        let script = format!(
            "if [ -n \"$API_KEY_TOKEN_FD\" ]; then '{}' redeem --fd $API_KEY_TOKEN_FD > /tmp/v; fi; \
            v=$(cat /dev/fd/${{API_KEY_FD:-9}} $API_KEY_FILE /tmp/v 2>/dev/null)$API_KEY; echo ready; read x; sleep {time}",
            program.display()
        );
        let read = stage.elsewhere();
        let flags = ["--secret", grant, "--read", read.to_str().unwrap()];
        let mut launcher = stage
            .keyward_run(&flags, &["sh", "-c", &script])
            .env("CALLERS_KEY", CANARY)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let pid = launcher.id();
        let mut line = [0; 6];
        std::io::Read::read_exact(launcher.stdout.as_mut().unwrap(), &mut line).unwrap();
        let init = named("keyward:init", pid).unwrap();
        let vault = named("keyward:vault", pid).unwrap();
        let command = processes_with(&time).into_iter().find(|other| parent(*other) == Some(init)).unwrap();
        assert!(holds(command), "the control did not work: {from} {grant}");
        assert!(holds(vault), "the control did not work: what is looked for is in the vault");
        for (who, other) in [("launcher", pid), ("init", init)] {
            assert!(!holds(other), "the {who} has the value: {from} {grant}");
            assert!(!has_memory_file(other), "the {who} has a descriptor of it: {from} {grant}");
            let environ = std::fs::read(format!("/proc/{other}/environ")).unwrap();
            assert!(!String::from_utf8_lossy(&environ).contains(CANARY), "{who} {from} {grant}");
        }
        let _ = launcher.kill();
        let _ = launcher.wait();
        assert!(
            eventually(
                || !PathBuf::from(format!("/proc/{vault}/mem")).exists() && processes_with(&time).is_empty()
            ),
            "something outlived the launcher"
        );
    }
}

/// The value that is kept goes from the pipe to the vault, and the command line that was typed never has it.
#[test]
fn whoever_keeps_a_secret_never_has_it_but_the_vault() {
    let stage = Stage::user();
    let mut command = stage.command(keyward());
    command.args(["secret", "set", "api", "--identity", "file"]);
    let mut typed =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let mut pipe = typed.stdin.take().unwrap();
    std::io::Write::write_all(&mut pipe, CANARY.as_bytes()).unwrap();
    // It waits for the end of the value, which does not come yet.
    assert!(eventually(|| named("keyward:vault", typed.id()).is_some_and(holds)), "the control did not work");
    assert!(!holds(typed.id()) && !has_memory_file(typed.id()));
    drop(pipe);
    assert!(typed.wait().unwrap().success());
}

#[test]
fn without_redaction_the_vault_is_gone_when_it_has_delivered() {
    let stage = staged(Who::User, "file://FILE");
    let mut launcher = stage
        .keyward_run(&["--secret", "api=fd", "--redact", "off"], &["sh", "-c", "echo ready; read x"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = [0; 6];
    std::io::Read::read_exact(launcher.stdout.as_mut().unwrap(), &mut line).unwrap();
    assert!(eventually(|| named("keyward:vault", launcher.id()).is_none()));
    drop(launcher.stdin.take());
    launcher.wait().unwrap();
}

#[test]
fn a_token_is_swapped_once_and_only_in_its_cage() {
    for who in BOTH {
        let stage = staged(who, "file://FILE");
        let program = stage.elsewhere().join("keyward");
        std::fs::copy(keyward(), &program).unwrap();
        let keyward = format!("'{}'", program.display());
        let read = stage.elsewhere();
        let flags = ["--secret", "api=token", "--redact", "off", "--read", read.to_str().unwrap()];
        let script = format!(
            "cp /dev/fd/$API_KEY_TOKEN_FD stolen; {keyward} redeem --fd 3 | cat; echo; {keyward} redeem --fd 3; echo $?; \
            {keyward} redeem --fd 9; echo $?"
        );
        let output = run(&stage, &flags, &script);
        assert_eq!(stdout(&output), format!("{CANARY}\n125\n125\n"), "{who:?}: {}", stderr(&output));
        let said = stderr(&output);
        assert!(
            said.contains("this token is invalid") && said.contains("no token in this descriptor"),
            "{said}"
        );
        // What was carried out of the cage is worth nothing in another one: its token is another vault's.
        let output = run(&stage, &flags, &format!("exec 3< stolen; {keyward} redeem --fd 3; echo $?"));
        assert_eq!(stdout(&output), "125\n", "{}", stderr(&output));
        let output =
            run(&stage, &flags, &format!("{keyward} redeem --fd 3 -- sh -c 'env | grep ^API_KEY; cat <&3'"));
        assert_eq!(stdout(&output), format!("API_KEY_FD=3\n{CANARY}"), "{}", stderr(&output));
    }
}

#[test]
fn what_a_command_prints_goes_without_its_secrets_and_everything_else_as_it_is() {
    let stage = staged(Who::User, "file://FILE");
    let script = "printf 'before '; cat /dev/fd/3; printf ' after\\n'; base64 < /dev/fd/3; xxd -p < /dev/fd/3; cat /dev/fd/3 >&2; exit 9";
    let output = run(&stage, &["--secret", "api=fd"], script);
    assert_eq!(output.status.code(), Some(9));
    assert_eq!(stdout(&output), "before [keyward:api] after\n[keyward:api]\n[keyward:api]\n");
    let said = stderr(&output);
    assert!(said.starts_with("[keyward:api]") && said.contains("printed the secret api 4 times"), "{said}");
    let json = stderr(&run(&stage, &["--json", "--secret", "api=fd"], "cat /dev/fd/3"));
    let outcome: serde_json::Value = serde_json::from_str(json.lines().last().unwrap()).unwrap();
    let news = &outcome["secrets"][0];
    assert_eq!(
        (&news["name"], &news["delivery"], &news["printed"]),
        (&"api".into(), &"fd".into(), &1.into()),
        "{json}"
    );
    assert!(news["microseconds"].as_u64().is_some(), "{json}");
    let log = stdout(&stage.command(keyward()).args(["log", "--secret", "api"]).output().unwrap());
    assert!(
        log.contains("api by fd") && log.contains("api as base64") && log.contains("of descriptor 2"),
        "{log}"
    );
    // Much of it, binary: the same bytes.
    stage.project_file("noise.py", "import random, sys\nrandom.seed(7)\nfor _ in range(80): sys.stdout.buffer.write(random.randbytes(1 << 16))\n");
    let plain = run(&stage, &["--secret", "api=fd", "--redact", "off"], "/usr/bin/python3 noise.py");
    let passed = run(&stage, &["--secret", "api=fd"], "/usr/bin/python3 noise.py");
    assert_eq!(plain.stdout.len(), 80 << 16);
    assert!(plain.stdout == passed.stdout, "other bytes were changed");
}

#[test]
fn a_prompt_appears_at_once_and_a_reader_that_leaves_is_noticed() {
    let stage = staged(Who::User, "file://FILE");
    let mut command = stage.keyward_run(
        &["--secret", "api=fd"],
        &["sh", "-c", "printf 'name? '; read name; cat /dev/fd/3; echo \" $name\"; tty; exit 3"],
    );
    command.stdin(Stdio::inherit());
    let mut terminal = Terminal::start(command, USER);
    terminal.wait_for("name? ");
    terminal.keys("ann\r");
    terminal.wait_for("[keyward:api] ann");
    terminal.wait_for("/dev/pts/");
    assert_eq!(terminal.end().code(), Some(3));
    assert!(!terminal.text().contains(CANARY));
    let started = std::time::Instant::now();
    let output = stage.bare(&format!("'{}' run --secret api=fd -- yes | head -1", keyward()));
    assert_eq!(stdout(&output), "y\n");
    assert!(started.elapsed().as_secs() < 60, "nobody told the command that its reader had left");
}

#[test]
fn a_secret_that_cannot_be_looked_for_is_told() {
    let stage = staged(Who::User, "file://FILE");
    stage.home_file("private/value", "password");
    let output = run(&stage, &["--secret", "api=fd"], "cat /dev/fd/3");
    assert_eq!(stdout(&output), "password");
    assert!(stderr(&output).contains("api is not taken out of output"), "{}", stderr(&output));
}

#[test]
fn secrets_are_kept_listed_brought_over_and_removed() {
    for who in BOTH {
        let stage = Stage::new(who);
        let keyward =
            |arguments: &[&str], input: &str| with_input(stage.command(keyward()).args(arguments), input);
        let set = keyward(
            &["secret", "set", "github", "--to", "api.github.com", "--as", "GH_TOKEN", "--identity", "file"],
            &format!("{CANARY}\n"),
        );
        assert_eq!(stdout(&set), "added github: store://github\n", "{}", stderr(&set));
        assert!(stderr(&set).contains("its key is a file beside it"), "{}", stderr(&set));
        assert_eq!(
            stdout(&keyward(&["secret", "set", "ci", "--from", "pass://work/ci"], "")),
            "added ci: pass://work/ci\n"
        );
        let env = format!("# mine\nPLAIN=1\nexport OPENAI_API_KEY=\"{CANARY}-2\"\n");
        let file = stage.project_file(".env", &env);
        let import = keyward(&["secret", "import", ".env", "--blank"], "");
        assert!(
            stdout(&import).starts_with("added openai-api-key: store://openai-api-key\n"),
            "{}",
            stderr(&import)
        );
        assert_eq!(
            std::fs::read_to_string(&file).unwrap(),
            "# mine\nPLAIN=1\nexport OPENAI_API_KEY=store://openai-api-key\n"
        );
        let list = stdout(&keyward(&["secret", "list"], ""));
        let names: Vec<&str> = list.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
        assert_eq!(names, ["github", "ci", "openai-api-key"], "{list}");
        let json: serde_json::Value =
            serde_json::from_str(&stdout(&keyward(&["secret", "list", "--json"], ""))).unwrap();
        assert_eq!((json["v"].as_i64(), &json["secrets"][0]["as"]), (Some(1), &"GH_TOKEN".into()));
        let output = run(
            &stage,
            &["--secret", "github=dangerous-env", "--secret", "openai-api-key=fd", "--redact", "off"],
            "printf '%s ' $GH_TOKEN; cat <&3",
        );
        assert_eq!(stdout(&output), format!("{CANARY} {CANARY}-2"), "{}", stderr(&output));
        let shown = keyward(&["secret", "show", "github", "--reveal"], "github\n");
        assert_eq!((shown.status.code(), stdout(&shown).as_str()), (Some(121), ""), "only on a terminal");
        assert_eq!(stdout(&keyward(&["secret", "rm", "github"], "")), "removed github\n");
        assert!(!stage.home().join(".local/share/keyward/store/github.age").exists());
        assert_eq!(keyward(&["secret", "show", "github"], "").status.code(), Some(120));
        // A grant cannot open the store.
        let store = stage.home().join(".local/share/keyward");
        let opened = run(&stage, &["--read", store.to_str().unwrap()], "cat \"$0\"/store/identity");
        assert!(!stdout(&opened).contains("AGE-SECRET"), "{}", stdout(&opened));
    }
}

#[test]
fn a_value_is_typed_without_being_seen_and_shown_only_when_asked_again() {
    let stage = Stage::user();
    let start = |arguments: &[&str]| {
        let mut command = stage.command(keyward());
        command.args(arguments).stdin(Stdio::inherit());
        Terminal::start(command, USER)
    };
    let mut terminal = start(&["secret", "set", "api", "--identity", "file"]);
    terminal.wait_for("it is not shown");
    terminal.keys(format!("{CANARY}\r"));
    assert!(terminal.end().success());
    assert!(!terminal.text().contains(CANARY), "{}", terminal.text());
    let mut terminal = start(&["secret", "show", "api", "--reveal"]);
    terminal.wait_for("Type its name");
    terminal.keys("no\r");
    assert_eq!(terminal.end().code(), Some(125));
    assert!(!terminal.text().contains(CANARY));
    let mut terminal = start(&["secret", "show", "api", "--reveal"]);
    terminal.wait_for("Type its name");
    terminal.keys("api\r");
    terminal.wait_for(CANARY);
    assert!(terminal.end().success());
    let record = std::fs::read_to_string(stage.state().join("events.jsonl")).unwrap();
    assert_eq!(record.matches("\"event\":\"reveal\"").count(), 2, "{record}");
}

/// The value is in no text of any command: outcome, explanation, record, list, error.
#[test]
fn no_text_of_any_command_holds_a_value() {
    let stage = stored(Who::User);
    let program = |arguments: &[&str]| {
        let output = stage.command(keyward()).args(arguments).env("CALLERS_KEY", CANARY).output().unwrap();
        stdout(&output) + &stderr(&output)
    };
    let mut all = String::new();
    for grant in [
        "api=fd",
        "api=file",
        "api=token",
        "api=dangerous-env",
        "api=x",
        "api",
        "sk-ant-REDACTME0123456789abcdef=fd",
    ] {
        for flags in [&["run", "-v"][..], &["run", "--json"], &["explain", "-v"], &["explain", "--json"]] {
            all += &program(&[flags, &["--secret", grant, "--", "true"]].concat());
        }
        all += &program(&["policy", "show", "--secret", grant]);
    }
    for arguments in [
        &["secret", "list"][..],
        &["secret", "list", "--json"],
        &["secret", "show", "api"],
        &["secret", "show", "api", "--json"],
        &["secret", "show", "api", "--reveal"],
        &["secret", "rm", "none"],
        &["secret", "import", "none"],
        &["redeem", "--fd", "7"],
        &["log"],
        &["log", "--json"],
        &["log", "--secret", "api"],
        &["doctor"],
        &["why", "env", "API_KEY"],
        &["secret", "set", "x", "--from", CANARY],
        &["secret", "set", "sk-ant-REDACTME0123456789abcdef", "--from", "env://X"],
    ] {
        all += &program(arguments);
    }
    assert!(all.contains("store://api"), "nothing was said");
    let record = std::fs::read_to_string(stage.state().join("events.jsonl")).unwrap();
    for text in [&all, &record] {
        let held: Vec<&str> =
            text.lines().filter(|line| line.contains(CANARY) || line.contains("REDACTME")).collect();
        assert!(held.is_empty(), "{held:?}");
    }
}

#[test]
fn nobody_but_the_user_grants_a_secret() {
    let stage = stored(Who::User);
    stage.project_file(".keyward.toml", "version = 1\nsecrets = [\"api=fd\"]\n");
    refused(run(&stage, &[], "true"), 120, "secrets");
    std::fs::remove_file(stage.project().join(".keyward.toml")).unwrap();
    // A session's cage is shared.
    let output = stage.command(keyward()).args(["session", "start", "--secret", "api=fd"]).output().unwrap();
    assert_eq!(output.status.code(), Some(121), "{}", stderr(&output));
    let policy = "version = 1\n[profiles.release]\nsecrets = [\"api=fd\"]\n";
    stage.home_file(".config/keyward/policy.toml", policy);
    let output = run(&stage, &["-p", "release", "--redact", "off"], "cat <&3");
    assert_eq!(stdout(&output), CANARY, "{}", stderr(&output));
    let explained =
        stdout(&stage.command(keyward()).args(["explain", "-p", "release", "--", "true"]).output().unwrap());
    assert!(
        explained.contains("secrets: 1 of the vault")
            && explained.contains("API_KEY_FD")
            && explained.contains("policy.toml"),
        "{explained}"
    );
}

#[test]
fn a_stream_goes_without_secrets_on_its_own() {
    let stage = stored(Who::User);
    let filter = |arguments: &[&str], input: &str| {
        with_input(stage.command(keyward()).arg("redact").args(arguments), input)
    };
    let output = filter(&["--secret", "api"], &format!("a {CANARY} b\n"));
    assert_eq!(stdout(&output), "a [keyward:api] b\n", "{}", stderr(&output));
    assert_eq!(stdout(&filter(&[], &format!("{CANARY}{CANARY}"))), "[keyward:api][keyward:api]");
    assert_eq!(filter(&["--secret", "none"], "x").status.code(), Some(120));
}

/// Of two values one would be lost; and nothing is taken out of a file that is not kept elsewhere first.
#[test]
fn an_import_loses_no_value() {
    let stage = Stage::user();
    let import = |text: &str| {
        stage.project_file(".env", text);
        let output = stage.command(keyward()).args(["secret", "import", ".env", "--blank"]).output().unwrap();
        (
            output.status.code(),
            stderr(&output),
            std::fs::read_to_string(stage.project().join(".env")).unwrap(),
        )
    };
    for (text, words) in [
        (format!("API_KEY={CANARY}1\napi_key={CANARY}2\n"), "would both be called api-key"),
        (format!("API_KEY={CANARY}1\nAPI_KEY={CANARY}2\n"), "more than once"),
        (format!("API_KEY={CANARY}\nAPI_KEY=store://api-key\n"), "more than once"),
    ] {
        let (code, said, after) = import(&text);
        assert!(code == Some(120) && said.contains(words) && after == text, "{said}{after}");
        assert!(!said.contains(CANARY));
    }
    let (code, said, after) = import(&format!("API_KEY='{CANARY}'"));
    assert_eq!((code, after.as_str()), (Some(0), "API_KEY=store://api-key"), "{said}");
    // A value that an entry of another name uses stays.
    let keyward = |arguments: &[&str]| stage.command(keyward()).args(arguments).output().unwrap();
    assert!(keyward(&["secret", "set", "other", "--from", "store://api-key"]).status.success());
    assert!(keyward(&["secret", "rm", "other"]).status.success());
    assert_eq!(stdout(&run(&stage, &["--secret", "api-key=fd", "--redact", "off"], "cat <&3")), CANARY);
    assert!(keyward(&["secret", "set", "api-key", "--from", "env://X"]).status.success());
    assert!(
        !stage.home().join(".local/share/keyward/store/api-key.age").exists(),
        "nobody could find it any more"
    );
}

#[test]
fn the_end_of_the_vault_is_not_silent() {
    let stage = staged(Who::User, "file://FILE");
    let mut launcher = stage
        .keyward_run(&["--secret", "api=fd"], &["sh", "-c", "echo ready; sleep 1000; echo lost"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = [0; 6];
    std::io::Read::read_exact(launcher.stdout.as_mut().unwrap(), &mut line).unwrap();
    let vault = named("keyward:vault", launcher.id()).unwrap();
    let vault = rustix::process::Pid::from_raw(vault as i32).unwrap();
    rustix::process::kill_process(vault, rustix::process::Signal::KILL).unwrap();
    let output = launcher.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(125), "{}", stderr(&output));
    assert!(stderr(&output).contains("secrets"), "{}", stderr(&output));
}

/// A signal for the whole group is the command's to answer, and what it says then is passed on.
#[test]
fn what_a_command_says_while_it_is_interrupted_is_passed_on() {
    let stage = staged(Who::User, "file://FILE");
    let mut command = stage.keyward_run(
        &["--secret", "api=fd"],
        &["sh", "-c", "trap 'echo cleaning up; exit 7' INT; echo ready; while :; do sleep 0.1; done"],
    );
    command.stdout(Stdio::piped());
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut launcher = command.spawn().unwrap();
    let mut line = [0; 6];
    std::io::Read::read_exact(launcher.stdout.as_mut().unwrap(), &mut line).unwrap();
    let group = rustix::process::Pid::from_raw(launcher.id() as i32).unwrap();
    rustix::process::kill_process_group(group, rustix::process::Signal::INT).unwrap();
    let output = launcher.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(7), "cleaning up\n"));
}

#[test]
fn neither_a_reader_that_stops_nor_a_slow_source_keeps_a_run_from_its_end() {
    let stage = staged(Who::User, "file://FILE");
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = stage.keyward_run(&["--secret", "api=fd", "--timeout", "500ms"], &["yes"]);
    let status = command.stdout(writer).status().unwrap();
    assert_eq!(status.code(), Some(124));
    drop(reader);
    let slow = staged(Who::User, "cmd://sleep 9");
    let started = std::time::Instant::now();
    let output = slow.keyward_run(&["--secret", "api=fd", "--timeout", "500ms"], &["true"]).output().unwrap();
    assert!(!output.status.success() && started.elapsed().as_secs() < 8, "{}", stderr(&output));
}

#[test]
fn both_streams_to_one_place_keep_their_order_and_counts_are_right() {
    let stage = staged(Who::User, "file://FILE");
    let script = format!(
        "'{}' run --secret api=fd -- sh -c 'for n in 1 2 3 4; do echo o$n; echo e$n >&2; done' > both 2>&1; cat both",
        keyward()
    );
    assert_eq!(stdout(&stage.bare(&script)), "o1\ne1\no2\ne2\no3\ne3\no4\ne4\n");
    let output = run(&stage, &["--secret", "api=fd"], "for n in $(seq 250); do cat /dev/fd/3; done");
    assert!(stderr(&output).contains("printed the secret api 250 times"), "{}", stderr(&output));
}

/// A socket whose close takes as long as its owner wants, handed to the vault.
#[test]
fn nobody_in_the_cage_makes_the_vault_wait() {
    let stage = staged(Who::User, "file://FILE");
    let slow = r#"
import socket, struct, os
server = socket.create_server(("127.0.0.1", 0))
one = socket.create_connection(server.getsockname())
one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 3000))
other = server.accept()[0]
one.setblocking(False)
try:
    while True: one.send(b"x" * 65536)
except BlockingIOError: pass
keep = [socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(3)]
# However that goes: an orderly end would close `one` here, and wait itself.
try:
    for door in keep:
        door.connect("/run/keyward-vault")
        socket.send_fds(door, [b"x"], [one.fileno()])
        socket.send_fds(door, [b"y"], [one.fileno(), other.fileno()])
finally:
    os._exit(0)
"#;
    stage.project_file("slow.py", slow);
    let started = std::time::Instant::now();
    let output = run(&stage, &["--secret", "api=token"], "/usr/bin/python3 slow.py; echo over");
    assert_eq!(stdout(&output), "over\n", "{}", stderr(&output));
    assert!(started.elapsed().as_secs() < 60);
}

/// A source that fails when a token is brought is told once, and says nothing about whether the vault is still there.
#[test]
fn a_token_whose_secret_cannot_be_had_is_told_once_and_stays_worth_it() {
    let stage = staged(Who::User, "file:///nowhere/at-all");
    let program = stage.elsewhere().join("keyward");
    std::fs::copy(keyward(), &program).unwrap();
    let read = stage.elsewhere();
    let flags = ["--secret", "api=token", "--redact", "off", "--read", read.to_str().unwrap()];
    let script =
        format!("for n in 1 2 3; do '{}' redeem --fd 3 2>/dev/null; done; echo code $?", program.display());
    let output = run(&stage, &flags, &script);
    let said = stderr(&output);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(0), "code 125\n"), "{said}");
    assert_eq!(said.matches("is not there").count(), 1, "{said}");
}

/// A line that is none is left out, and the rest of the record is shown.
#[test]
fn the_record_is_shown_whatever_stands_in_it() {
    let stage = stored(Who::User);
    run(&stage, &["--secret", "api=fd"], "true");
    let record = stage.state().join("events.jsonl");
    let mut bytes = std::fs::read(&record).unwrap();
    bytes.splice(0..0, *b"\xff\xfe torn\n");
    std::fs::write(&record, bytes).unwrap();
    let log = stage.command(keyward()).args(["log", "--secret", "api"]).output().unwrap();
    assert!(stdout(&log).contains("api by fd"), "{}{}", stdout(&log), stderr(&log));
}

/// The lines of the page, with doubles for the programs: they insist on the words and on the surroundings that the real ones need.
#[test]
fn password_managers_are_asked_as_the_page_says() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/secrets.md")).unwrap();
    let lines = page.split("## Password managers").nth(1).unwrap();
    let entries = lines.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    let stage = Stage::user();
    stage.home_file(".config/keyward/secrets.toml", entries);
    stage.home_file(".vault-token", "hvs.example");
    let double = |name: &str, text: &str| {
        let file = stage.home_file(&format!("bin/{name}"), &format!("#!/bin/sh\n{text}\n"));
        std::fs::set_permissions(file, PermissionsExt::from_mode(0o755)).unwrap();
    };
    double("op", "[ \"$*\" = 'read --no-newline op://work/deploy/credential' ] && printf canary-of-op");
    double(
        "vault",
        "[ \"$*\" = 'kv get -mount=secret -field=token deploy' ] && [ \"$VAULT_ADDR\" = https://vault.example.org ] && [ -r ~/.vault-token ] && echo canary-of-vault",
    );
    double("bw-unlocked", "[ \"$*\" = 'get password deploy' ] && echo canary-of-bw");
    let path = format!("{}:/usr/bin:/bin", stage.home().join("bin").display());
    for name in ["op", "vault", "bw"] {
        let grant = format!("{name}-example=fd");
        let variable = format!("{}_EXAMPLE_FD", name.to_uppercase());
        let read = format!("cat /dev/fd/${variable}");
        let mut command = stage.keyward_run(&["--secret", &grant, "--redact", "off"], &["sh", "-c", &read]);
        let output = command.env("PATH", &path).output().unwrap();
        assert_eq!(stdout(&output), format!("canary-of-{name}"), "{}", stderr(&output));
    }
}
