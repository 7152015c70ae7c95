//! The documents say what is so: their commands run and print what they show, their examples pass, their names exist.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use keyward_ledger::approvals::Approvals;
use keyward_policy::config::{self, Document, KEYS, Kind, Role};
use keyward_policy::gate::{Question, Text};
use keyward_policy::outcome::code;
use keyward_policy::promise::Promise;
use keyward_policy::words::Floor;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use support::{Stage, keyward, stdout};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page(name: &str) -> String {
    std::fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A fenced block: its language, its text, its line, and the line of prose right above it.
struct Block {
    language: String,
    text: String,
    line: usize,
    above: String,
}

fn blocks(page: &str) -> Vec<Block> {
    let mut found = Vec::new();
    let mut open: Option<Block> = None;
    let mut above = "";
    for (number, line) in page.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(language)) => {
                let (language, above) = (language.trim().to_owned(), above.to_owned());
                open = Some(Block { language, text: String::new(), line: number + 1, above });
            }
            (Some(_), Some(_)) => found.extend(open.take()),
            (Some(block), None) => block.text += &format!("{line}\n"),
            (None, None) => above = line,
        }
    }
    assert!(open.is_none(), "a block is not closed");
    found
}

fn blocks_in(page: &str, language: &str) -> Vec<Block> {
    let found: Vec<Block> = blocks(page).into_iter().filter(|block| block.language == language).collect();
    assert!(!found.is_empty(), "there is no block of {language}");
    found
}

/// A command of a transcript and what it prints.
struct Shown {
    command: String,
    prints: String,
}

/// `$ ` begins a command, `>` continues it, everything else is printed.
fn transcript(text: &str) -> Vec<Shown> {
    let mut shown: Vec<Shown> = Vec::new();
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            shown.push(Shown { command: command.into(), prints: String::new() });
        } else {
            let last =
                shown.last_mut().unwrap_or_else(|| panic!("a transcript begins with a command: {line}"));
            match line.strip_prefix('>') {
                Some(more) if last.prints.is_empty() => {
                    last.command += &format!("\n{}", more.strip_prefix(' ').unwrap_or(more))
                }
                _ => last.prints += &format!("{line}\n"),
            }
        }
    }
    shown
}

/// The machine of the documents: what its user has in HOME and in the project.
fn stage() -> Stage {
    let stage = Stage::user();
    stage.home_file(".ssh/id_ed25519", "not a key\n");
    stage.home_file(".config/gh/hosts.yml", "github.com:\n    user: ann\n");
    stage.home_file("datasets/a.csv", "1,2,3\n");
    let login = "github.com:\n    user: ann\n    oauth_token: gho_EXAMPLE0EXAMPLE0EXAMPLE0EXAMPLE0EXAM\n";
    stage.home_file(".config/gh/hosts.yml", login);
    stage.project_file("Makefile", "test:\n\t@echo 3 tests passed\n");
    stage.project_file("notes.txt", "to be kept\n");
    // A stand-in that only works with its credential.
    let claude = "#!/bin/sh\n[ -n \"$ANTHROPIC_API_KEY\" ] && echo '2.1.197 (Claude Code)'\n";
    let claude = stage.home_file(".cargo/bin/claude", claude);
    std::fs::set_permissions(claude, PermissionsExt::from_mode(0o755)).unwrap();
    // Where `cargo install` puts it. The binary itself may lie where the stage's user has no way to.
    let installed = stage.home().join(".cargo/bin/keyward");
    std::fs::copy(keyward(), &installed).unwrap();
    std::fs::copy(env!("CARGO_BIN_EXE_keyward-services"), installed.with_file_name("keyward-services"))
        .unwrap();
    stage.own(&installed);
    stage
}

/// Runs a script on a terminal and gives what is shown. `/home/ann` is the stage's HOME, and the project lies in it.
fn on_a_terminal(stage: &Stage, script: &str) -> String {
    let file = stage.home_file("transcript.sh", script);
    let path = format!("{}:/usr/local/bin:/usr/bin:/bin", stage.home().join(".cargo/bin").display());
    // A keyboard at which nobody types: an end of input would be shown as a sign of its own.
    let (keyboard, _nobody) = std::io::pipe().unwrap();
    let output = stage
        .command("script")
        .stdin(keyboard)
        .args(["--quiet", "--return", "--command", "bash \"$TRANSCRIPT\"", "/dev/null"])
        .env("TRANSCRIPT", file)
        .env("PATH", path)
        .env("SHELL", "/bin/bash")
        .env("USER", "ann")
        .output()
        .unwrap();
    let text = stdout(&output).replace('\r', "");
    text.replace(stage.project().to_str().unwrap(), "/home/ann/my project")
        .replace(stage.home().to_str().unwrap(), "/home/ann")
        // The stage's path has a space and is quoted where one would type it; `/home/ann` needs no quotes.
        .replace("`--read '/home/ann/.ssh/id_ed25519'`", "`--read /home/ann/.ssh/id_ed25519`")
        .replace("keyward: '/home/ann/", "keyward: /home/ann/")
        .replace("' is not the one outside", " is not the one outside")
        .replace("`keyward why read '/home/ann/.ssh'`", "`keyward why read /home/ann/.ssh`")
        .replace("why read '/home/ann/.ssh/id_ed25519'`", "why read /home/ann/.ssh/id_ed25519`")
}

const MARK: &str = "\u{1}next\u{1}";

/// Runs the commands of a block in one shell and compares what each prints.
fn follow(name: &str, block: &Block) {
    follow_on(&stage(), name, block);
}

/// The same on a machine where something has happened before.
fn follow_on(stage: &Stage, name: &str, block: &Block) {
    let shown = transcript(&block.text);
    // Only where it is the subject: that it is hidden is told once a day.
    if block.text.contains(".env") {
        stage.project_file(".env", "TOKEN=example\n");
    }
    let mut script = String::new();
    for step in &shown {
        // The code of a command is still there for the next one to ask for.
        script += &format!("{}\nstatus=$?; printf '{MARK}'; (exit $status)\n", step.command);
    }
    let printed = on_a_terminal(stage, &script);
    let printed: Vec<&str> = printed.split(MARK).collect();
    assert_eq!(printed.len(), shown.len() + 1, "{name}:{}: {printed:?}", block.line);
    for (step, printed) in shown.iter().zip(printed) {
        assert_eq!(printed, step.prints, "{name}:{}: $ {}", block.line, step.command);
    }
}

fn is_not_run(block: &Block) -> bool {
    block.above.starts_with("<!-- not run by the tests: ")
}

#[test]
fn the_readme_shows_what_its_commands_print() {
    for block in blocks_in(&page("README.md"), "console") {
        follow("README.md", &block);
    }
}

#[test]
fn the_recipes_show_what_their_commands_print() {
    for block in blocks_in(&page("docs/recipes.md"), "console") {
        follow("docs/recipes.md", &block);
    }
}

#[test]
fn the_quick_start_shows_what_its_commands_print() {
    for block in blocks_in(&page("docs/quick-start.md"), "console") {
        follow("docs/quick-start.md", &block);
    }
}

#[test]
fn the_page_about_sessions_shows_what_its_commands_print() {
    for block in blocks_in(&page("docs/sessions.md"), "console") {
        follow("docs/sessions.md", &block);
    }
}

#[test]
fn the_page_about_secrets_shows_what_its_commands_print() {
    for block in blocks_in(&page("docs/secrets.md"), "console") {
        follow("docs/secrets.md", &block);
    }
}

#[test]
fn the_page_about_the_gate_shows_what_its_commands_print() {
    for block in blocks_in(&page("docs/gate.md"), "console") {
        follow("docs/gate.md", &block);
    }
}

/// A command of the stage's user was refused, because nobody was there to answer.
fn refuse_a_push(stage: &Stage) {
    let command = "git push --force origin main";
    let question = Question {
        digest: "3f9a1c0e5b7d24680f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a6978".into(),
        run: "1-1".into(),
        session: None,
        profile: None,
        scope: "5c0b".into(),
        project: "/home/ann/my project".into(),
        cwd: "/home/ann/my project".into(),
        argv: command.split(' ').map(str::to_owned).collect(),
        rule: Some("git-push-force".into()),
        class: Some("git".into()),
        reason: "it replaces history that others may already have".into(),
        span: Some((0, 28)),
        texts: vec![Text { name: "the command".into(), text: command.into() }],
        from_inside: false,
        given: Vec::new(),
    };
    let state = stage.state();
    stage.make_folder(&state);
    let mut approvals = Approvals::open(&state).unwrap();
    assert_eq!(approvals.refused(&question, "unattended").unwrap(), 1);
    drop(approvals);
    for file in std::fs::read_dir(&state).unwrap() {
        stage.own(&file.unwrap().path());
    }
}

#[test]
fn the_page_about_approvals_shows_what_its_commands_print() {
    let stage = stage();
    refuse_a_push(&stage);
    for block in blocks_in(&page("docs/approvals.md"), "console") {
        follow_on(&stage, "docs/approvals.md", &block);
    }
}

#[test]
fn the_page_about_the_ledger_shows_what_its_commands_print() {
    for block in blocks_in(&page("docs/ledger.md"), "console") {
        follow("docs/ledger.md", &block);
    }
}

/// The client that the page shows, as it is written there.
#[test]
fn the_client_of_the_page_about_the_door_works() {
    let program = &blocks_in(&page("docs/protocol.md"), "python")[0].text;
    let stage = stage();
    let run = |arguments: &[&str]| stage.command(keyward()).args(arguments).output().unwrap();
    assert!(run(&["session", "start", "--name", "door"]).status.success());
    let door = stage.state().join("run/sessions/door/door");
    let output = stage.command("python3").args(["-c", program]).env("DOOR", door).output().unwrap();
    run(&["session", "stop", "door"]);
    assert_eq!(stdout(&output), "hello\n0\n", "{}", String::from_utf8_lossy(&output.stderr));
}

/// The client that answers questions, as the page shows it: it says yes to what the page says, and no to anything else.
#[test]
fn the_client_of_the_page_about_the_door_answers_questions() {
    let program = &blocks_in(&page("docs/protocol.md"), "python")[1].text;
    let stage = stage();
    let run = |arguments: &[&str]| stage.command(keyward()).args(arguments).output().unwrap();
    assert!(run(&["session", "start", "--name", "door", "--net", "open"]).status.success());
    let door = stage.state().join("run/sessions/door/door");
    // A client that is wrong, and waits for what does not come, ends all the same.
    let mut command = stage.command("timeout");
    command
        .args(["60", "python3", "-u", "-c", program])
        .env("DOOR", door)
        .stdout(std::process::Stdio::piped());
    let mut client = command.spawn().unwrap();
    let mut told = BufReader::new(client.stdout.take().unwrap()).lines();
    let mut next = || told.next().map(Result::unwrap).unwrap_or_default();
    assert_eq!(next(), "done", "it watches");
    let allowed = run(&["exec", "door", "--", "git", "push", "--force", "./no-such-place", "main"]);
    let first = [next(), next(), next()];
    let denied = run(&["exec", "door", "--", "git", "push", "--force", "origin", "main"]);
    let second = [next(), next(), next()];
    client.kill().unwrap();
    client.wait().unwrap();
    run(&["session", "stop", "door"]);
    assert_ne!(allowed.status.code(), Some(code::DENIED), "{}", support::stderr(&allowed));
    assert_eq!(first, ["yes git push --force ./no-such-place main", "done", "settled"]);
    assert_eq!(denied.status.code(), Some(code::DENIED));
    assert!(support::stderr(&denied).contains("denied by the operator"), "{}", support::stderr(&denied));
    assert_eq!(second, ["no git push --force origin main", "done", "settled"]);
}

#[test]
fn the_policy_page_shows_what_its_commands_print() {
    for block in blocks_in(&page("docs/policy.md"), "console") {
        follow("docs/policy.md", &block);
    }
}

#[test]
fn the_page_about_homes_shows_what_its_commands_print() {
    for block in blocks_in(&page("docs/homes.md"), "console") {
        follow("docs/homes.md", &block);
    }
}

#[test]
fn the_page_about_homes_names_commands_that_exist() {
    let stage = Stage::user();
    let page = page("docs/homes.md");
    let spans = page.split('`').skip(1).step_by(2).filter_map(|span| span.strip_prefix("keyward home "));
    let named: BTreeSet<&str> = spans.filter_map(|span| span.split(' ').next()).collect();
    assert!(named.len() >= 8, "{named:?}");
    for name in named {
        let output = stage.command(keyward()).args(["home", name, "--help"]).output().unwrap();
        assert!(output.status.success(), "keyward home {name}");
    }
}

#[test]
fn every_command_of_the_documents_is_run_or_says_why_not() {
    for name in [
        "README.md",
        "docs/quick-start.md",
        "docs/recipes.md",
        "docs/reference.md",
        "docs/packages.md",
        "docs/policy.md",
        "docs/homes.md",
        "docs/sessions.md",
        "docs/secrets.md",
        "docs/gate.md",
        "docs/approvals.md",
        "docs/ledger.md",
    ] {
        for block in blocks(&page(name)) {
            let known = matches!(block.language.as_str(), "console" | "toml" | "text");
            assert!(
                known || is_not_run(&block),
                "{name}:{}: a block of {:?} that nobody runs",
                block.line,
                block.language
            );
        }
    }
}

#[test]
fn the_two_commands_of_the_setup_exist() {
    let setup: Vec<Block> = blocks_in(&page("README.md"), "sh");
    let commands: Vec<&str> = setup.iter().map(|block| block.text.trim()).collect();
    assert_eq!(commands, ["cargo install --locked --path crates/cli && keyward run -- printenv", "./test"]);
    assert!(root().join("crates/cli/Cargo.toml").is_file());
    assert_ne!(std::fs::metadata(root().join("test")).unwrap().permissions().mode() & 0o111, 0);
}

/// Whose file an example is, by its first line.
fn role(text: &str) -> Role {
    match text.lines().next() {
        Some(first) if first.starts_with("# /etc/keyward/policy.toml") => Role::Ceiling,
        Some(first) if first.starts_with("# .keyward.toml") => Role::Project,
        _ => Role::User,
    }
}

#[test]
fn every_policy_example_passes_policy_check() {
    for name in ["README.md", "docs/quick-start.md", "docs/policy.md"] {
        for block in blocks_in(&page(name), "toml") {
            let role = role(&block.text);
            let place = format!("{name}:{}", block.line);
            let checked = config::check(&Document { name: &place, text: block.text.as_bytes() }, role);
            assert_eq!(checked, Ok(()), "{place}");
            if role == Role::Ceiling {
                // The command knows a ceiling by its one path, where a test has no business.
                continue;
            }
            let stage = Stage::user();
            let file = if role == Role::Project { ".keyward.toml" } else { "policy.toml" };
            stage.project_file(file, &block.text);
            let output = stage.command(keyward()).args(["policy", "check", file]).output().unwrap();
            assert!(output.status.success(), "{place}: {}", support::stderr(&output));
        }
    }
}

/// The section of a page that begins with this heading, up to the next of any level.
fn section<'a>(page: &'a str, heading: &str) -> Option<&'a str> {
    let start = page.find(&format!("\n{heading}\n"))? + heading.len() + 2;
    let rest = &page[start..];
    Some(rest.find("\n#").map_or(rest, |end| &rest[..end]))
}

#[test]
fn every_key_has_its_section_with_its_words_and_its_flag() {
    let page = page("docs/policy.md");
    for key in KEYS {
        let section = section(&page, &format!("### `{}`", key.path));
        let section = section.unwrap_or_else(|| panic!("docs/policy.md has no section for {}", key.path));
        for wanted in ["Type:", "Default:", "Layers:"] {
            assert!(section.contains(wanted), "{}: {wanted} is missing", key.path);
        }
        if let Kind::Choice(words) | Kind::Words(words) = key.kind {
            for word in words {
                assert!(section.contains(&format!("`{word}`")), "{}: {word} is missing", key.path);
            }
        }
        if let Some(flag) = key.flag {
            assert!(section.contains(&format!("`{flag}")), "{}: {flag} is missing", key.path);
        }
    }
}

#[test]
fn the_policy_page_names_no_key_that_does_not_exist() {
    let page = page("docs/policy.md");
    let headings = page.lines().filter_map(|line| line.strip_prefix("### `")?.strip_suffix('`'));
    for heading in headings {
        assert!(KEYS.iter().any(|key| key.path == heading), "there is no key {heading}");
    }
}

/// The cells of each row of the table whose header begins with this.
fn table(page: &str, header: &str) -> Vec<Vec<String>> {
    let mut lines = page.lines().skip_while(|line| !line.starts_with(header));
    assert!(lines.next().is_some(), "there is no table {header}");
    let rows = lines.skip(1).take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()).collect()
}

#[test]
fn the_exit_codes_of_the_reference_are_those_of_the_program() {
    let told: BTreeSet<i32> = table(&page("docs/reference.md"), "| code | meaning |")
        .iter()
        .filter_map(|row| row[0].parse().ok())
        .collect();
    let ours = [
        code::USAGE,
        code::REFUSED,
        code::FLOOR,
        code::DENIED,
        code::TIMEOUT,
        code::FAULT,
        code::NOT_EXECUTABLE,
        code::NOT_FOUND,
    ];
    assert_eq!(told, BTreeSet::from(ours));
}

#[test]
fn the_promises_of_the_security_page_are_those_of_the_program() {
    let rows = table(&page("SECURITY.md"), "| promise | ");
    let told: Vec<&str> = rows.iter().map(|row| row[0].trim_matches('`')).collect();
    let ours: Vec<&str> = Promise::ALL.iter().map(|promise| promise.name()).collect();
    assert_eq!(told, ours);
    for (promise, row) in Promise::ALL.iter().zip(&rows) {
        assert_eq!(row[1], promise.text(), "{}", promise.name());
        let least = if *promise == Promise::Footholds { "notice" } else { "wall" };
        assert!(row[2].starts_with(least), "{} at full: {}", promise.name(), row[2]);
        let falls = row[3].starts_with("falls away");
        assert!(falls || row[3].starts_with("wall"), "{} at landlock: {}", promise.name(), row[3]);
        assert_eq!(falls, promise.may_fall(Floor::Landlock), "{} at landlock", promise.name());
    }
}

/// Every function below the crates' sources and tests, and every test that a list inside a macro makes.
fn functions() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let crates = std::fs::read_dir(root().join("crates")).unwrap();
    let mut folders: Vec<PathBuf> = crates
        .flat_map(|entry| ["src", "tests"].map(|name| entry.as_ref().unwrap().path().join(name)))
        .collect();
    folders.push(root().join("sdk/python/tests"));
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "py") {
                names.extend(functions_in(&std::fs::read_to_string(path).unwrap()));
            }
        }
    }
    names
}

fn functions_in(text: &str) -> Vec<String> {
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let mut names = Vec::new();
    let mut in_list = false;
    for line in text.lines() {
        in_list = (in_list || line.strip_suffix("! {").is_some_and(is_name)) && line != "}";
        let line = line.trim_start();
        let function = ["fn ", "def "].iter().find_map(|start| line.strip_prefix(start)?.split_once('('));
        let listed = line.split_once(": ").filter(|(name, _)| in_list && is_name(name));
        names.extend(function.or(listed).map(|(name, _)| name.to_owned()));
    }
    names
}

#[test]
fn every_test_that_the_attacks_page_names_exists() {
    let functions = functions();
    let page = page("docs/known-attacks.md");
    let mut named = 0;
    for row in page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| attack ")) {
        let tests = row.trim_matches('|').rsplit('|').next().unwrap();
        let tests: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!tests.is_empty(), "no test is named: {row}");
        for test in tests {
            assert!(functions.contains(test), "there is no test {test}");
            named += 1;
        }
    }
    assert!(named > 0);
}

#[test]
fn links_between_the_documents_lead_somewhere() {
    let pages = ["README.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/policy.md"];
    for name in pages.into_iter().chain(["docs/ARCHITECTURE.md", "docs/known-attacks.md", "docs/homes.md"]) {
        let text = page(name);
        for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let file = target.split('#').next().unwrap();
            let path = root().join(name).parent().unwrap().join(file);
            assert!(file.is_empty() || path.exists(), "{name}: dead link {target}");
        }
    }
}

#[test]
fn a_transcript_that_is_wrong_is_found() {
    let wrong =
        Block { language: "console".into(), text: "$ echo a\nb\n".into(), line: 1, above: String::new() };
    assert!(std::panic::catch_unwind(|| follow("here", &wrong)).is_err());
    let right = Block { text: "$ echo a\na\n$ false\n$ echo $?\n1\n".into(), ..wrong };
    follow("here", &right);
}
