//! An agent outside, its tool calls in a session: `keyward init`, `keyward hook` and the shell that Claude Code is given.
//!
//! The agent here is this test's own process, which sends what the real one sends. `tools/agents/test_hooks.py` has the real ones.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use support::{Stage, eventually, keyward, stderr, stdout};

const KEY: &str = "sk-ant-api03-planted-in-the-environment";
const SECRET: &str = "planted-in-a-file";
const ID: &str = "0f5ae56c-c97c-4ad1-8b97-0d63ffc1a817";

fn stage() -> Stage {
    let stage = Stage::user();
    stage.project_file(".git/HEAD", "ref: refs/heads/main\n");
    stage.project_file(".env", &format!("TOKEN={SECRET}\n"));
    stage.project_file("notes.txt", "nothing to see here\n");
    stage.project_file("sub/file", "");
    stage.home_file(".ssh/id_ed25519", SECRET);
    stage
}

fn init(stage: &Stage, more: &[&str]) -> Output {
    stage.command(keyward()).arg("init").arg("claude-code").args(more).output().unwrap()
}

fn settings(stage: &Stage) -> PathBuf {
    stage.home().join(".claude/settings.json")
}

/// Claude Code after `keyward init`.
struct Claude {
    stage: Stage,
    hook: String,
    prefix: String,
    prefix_as_told: String,
}

impl Claude {
    fn new() -> Self {
        Claude::on(stage())
    }

    fn on(stage: Stage) -> Self {
        let done = init(&stage, &["--yes"]);
        assert!(done.status.success(), "{}", stderr(&done));
        let text = std::fs::read_to_string(settings(&stage)).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let hook = value["hooks"]["PreToolUse"][0]["hooks"][0]["command"].as_str().unwrap().to_owned();
        let prefix = value["env"]["CLAUDE_CODE_SHELL_PREFIX"].as_str().unwrap().to_owned();
        Claude { stage, hook, prefix_as_told: prefix.clone(), prefix }
    }

    fn command(&self, program: &str) -> Command {
        let mut command = self.stage.command(program);
        command
            .env("ANTHROPIC_API_KEY", KEY)
            .env("CLAUDE_CODE_SESSION_ID", ID)
            .env("CLAUDE_CODE_SHELL_PREFIX", &self.prefix_as_told);
        command
    }

    /// The hook as the agent runs it: a shell, the prefix, and the line of the settings.
    fn ask(&self, event: &str, fields: serde_json::Value) -> Output {
        let mut message = serde_json::json!({
            "session_id": ID, "cwd": self.stage.project(), "hook_event_name": event,
        });
        message.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        self.send(message.to_string().as_bytes())
    }

    fn send(&self, message: &[u8]) -> Output {
        let line = format!("'{}' {}", self.prefix, quoted(&self.hook));
        let mut command = self.command("sh");
        let mut child = command
            .args(["-c", &line])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(message).unwrap();
        child.wait_with_output().unwrap()
    }

    fn tool(&self, name: &str, input: serde_json::Value) -> Output {
        self.ask("PreToolUse", serde_json::json!({ "tool_name": name, "tool_input": input }))
    }

    /// `allow`, or the decision with its reason.
    #[track_caller]
    fn decision(&self, name: &str, input: serde_json::Value) -> (String, String) {
        let output = self.tool(name, input);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        if output.stdout.is_empty() {
            return ("pass".into(), String::new());
        }
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let told = &value["hookSpecificOutput"];
        let text = |name: &str| told[name].as_str().unwrap().to_owned();
        assert_eq!(value["systemMessage"].as_str().unwrap().lines().count(), 1);
        (text("permissionDecision"), text("permissionDecisionReason"))
    }

    fn file(&self, name: &str, path: impl AsRef<Path>) -> (String, String) {
        self.decision(name, serde_json::json!({ "file_path": path.as_ref() }))
    }

    /// A command of the Bash tool, as the agent starts it.
    fn bash_in(&self, directory: &Path, command: &str) -> Output {
        let tells = self.stage.elsewhere().join("claude-1-cwd");
        let line = format!(
            "source {}/.claude/shell-snapshots/s.sh 2>/dev/null || true && eval {} < /dev/null && pwd -P >| {}",
            quoted(&self.stage.home().to_string_lossy()),
            quoted(command),
            quoted(&tells.to_string_lossy())
        );
        self.command(&self.prefix).arg(line).current_dir(directory).output().unwrap()
    }

    fn bash(&self, command: &str) -> Output {
        self.bash_in(&self.stage.project(), command)
    }

    /// The directory that the agent was told last.
    fn directory(&self) -> Option<PathBuf> {
        let told = std::fs::read_to_string(self.stage.elsewhere().join("claude-1-cwd")).ok()?;
        Some(PathBuf::from(told.trim_end()))
    }

    fn session(&self) -> String {
        format!("claude-{ID}")
    }

    fn sessions(&self) -> String {
        stdout(&self.stage.command(keyward()).arg("ps").output().unwrap())
    }
}

impl Drop for Claude {
    fn drop(&mut self) {
        let _ = self.stage.command(keyward()).args(["session", "stop", &self.session()]).output();
    }
}

fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r#"'"'"'"#))
}

#[test]
fn init_shows_the_change_first_and_makes_it_only_after_a_yes() {
    let stage = stage();
    let dry = init(&stage, &["--dry-run"]);
    assert!(
        stdout(&dry).contains("+   \"env\": {") || stdout(&dry).contains("+   \"hooks\": {"),
        "{}",
        stdout(&dry)
    );
    assert!(dry.status.success() && !settings(&stage).exists());
    let unasked = init(&stage, &[]);
    assert_eq!(unasked.status.code(), Some(120), "{}", stderr(&unasked));
    assert!(stderr(&unasked).contains("--yes") && !settings(&stage).exists());
    assert!(init(&stage, &["--yes"]).status.success() && settings(&stage).exists());
}

#[test]
fn undo_brings_back_every_byte_and_init_twice_changes_nothing() {
    for text in [
        "{}",
        "{\"a\":1}",
        "{\n\t\"model\" :\"opus\" ,\n\n\t\"hooks\": { \"Stop\": [ ] }\n}",
        "{\r\n  \"a\": [1,2]\r\n}\r\n",
    ] {
        let stage = stage();
        stage.home_file(".claude/settings.json", text);
        assert!(init(&stage, &["--yes"]).status.success());
        let once = std::fs::read_to_string(settings(&stage)).unwrap();
        assert!(once.contains("hook claude-code") && once != text);
        let again = init(&stage, &["--yes"]);
        assert!(stdout(&again).contains("nothing is changed"), "{}", stdout(&again));
        assert_eq!(std::fs::read_to_string(settings(&stage)).unwrap(), once);
        assert!(init(&stage, &["--undo", "--yes"]).status.success());
        assert_eq!(std::fs::read_to_string(settings(&stage)).unwrap(), text);
    }
    // A file that was not there is gone again.
    let stage = stage();
    assert!(init(&stage, &["--yes"]).status.success() && settings(&stage).exists());
    assert!(init(&stage, &["--undo", "--yes"]).status.success() && !settings(&stage).exists());
}

#[test]
fn undo_names_and_keeps_what_the_user_changed_meanwhile() {
    let stage = stage();
    stage.home_file(".claude/settings.json", "{\n  \"model\": \"opus\"\n}\n");
    assert!(init(&stage, &["--yes"]).status.success());
    let now = std::fs::read_to_string(settings(&stage)).unwrap().replace("\"opus\"", "\"sonnet\"");
    std::fs::write(settings(&stage), &now).unwrap();
    let undone = init(&stage, &["--undo", "--yes"]);
    let told = stdout(&undone);
    assert!(
        told.contains("was changed again; that stays") && told.contains("+   \"model\": \"sonnet\""),
        "{told}"
    );
    assert_eq!(std::fs::read_to_string(settings(&stage)).unwrap(), "{\n  \"model\": \"sonnet\"\n}\n");
}

#[test]
fn settings_that_cannot_be_changed_safely_stay_as_they_are_with_the_place_named() {
    for (text, place, words) in [
        ("{\n  \"a\": 1\n  \"b\": 2\n}", ":3:3:", "a comma is missing"),
        ("{\n  // mine\n  \"a\": 1\n}", ":2:3:", "ignore the whole file"),
        ("{\"hooks\": []}", "", "hooks.PreToolUse"),
        (
            "{\"env\": {\"CLAUDE_CODE_SHELL_PREFIX\": \"/usr/bin/mine\"}}",
            "",
            "is set already, to /usr/bin/mine",
        ),
    ] {
        let stage = stage();
        stage.home_file(".claude/settings.json", text);
        let refused = init(&stage, &["--yes"]);
        let told = stderr(&refused);
        assert_eq!(refused.status.code(), Some(125), "{told}");
        assert!(told.contains(place) && told.contains(words), "{told}");
        assert_eq!(told.trim_end().lines().count(), 2, "{told}");
        assert_eq!(std::fs::read_to_string(settings(&stage)).unwrap(), text);
    }
}

#[test]
fn a_linked_file_is_changed_where_it_lies_and_a_read_only_one_is_not_changed() {
    let linked = stage();
    let real = linked.file(&linked.elsewhere().join("dotfiles.json"), "{}\n");
    linked.make_folder(&linked.home().join(".claude"));
    symlink(&real, settings(&linked)).unwrap();
    assert!(init(&linked, &["--yes"]).status.success());
    assert!(settings(&linked).symlink_metadata().unwrap().is_symlink());
    assert!(std::fs::read_to_string(&real).unwrap().contains("hook claude-code"));
    assert!(init(&linked, &["--undo", "--yes"]).status.success());
    assert_eq!(std::fs::read_to_string(&real).unwrap(), "{}\n");

    let closed = stage();
    closed.home_file(".claude/settings.json", "{}\n");
    std::fs::set_permissions(settings(&closed), PermissionsExt::from_mode(0o444)).unwrap();
    let refused = init(&closed, &["--yes"]);
    assert!(stderr(&refused).contains("read-only, and stays as it is"), "{}", stderr(&refused));
    assert_eq!(std::fs::read_to_string(settings(&closed)).unwrap(), "{}\n");
}

#[test]
fn a_projects_settings_are_those_for_this_user_alone() {
    let stage = stage();
    assert!(init(&stage, &["--project", "--yes"]).status.success());
    let local = stage.project().join(".claude/settings.local.json");
    assert!(
        std::fs::read_to_string(&local).unwrap().contains("hook claude-code") && !settings(&stage).exists()
    );
    assert!(init(&stage, &["--project", "--undo", "--yes"]).status.success() && !local.exists());
}

#[test]
fn a_command_of_the_agent_runs_in_the_session_without_its_secrets() {
    let claude = Claude::new();
    let script =
        "echo key=$ANTHROPIC_API_KEY; cat .env; cat ~/.ssh/id_ed25519; tr '\\0' '\\n' < /proc/$PPID/environ";
    let control = claude.command("bash").args(["-c", script]).output().unwrap();
    assert!(stdout(&control).contains(KEY) && stdout(&control).contains(SECRET));
    let inside = claude.bash(&format!("echo started; {script}; echo ended"));
    let (out, err) = (stdout(&inside), stderr(&inside));
    assert!(out.contains("started\nkey=\n") && out.ends_with("ended\n"), "{out}{err}");
    for told in [&out, &err] {
        assert!(!told.contains(KEY) && !told.contains(SECRET), "{told}");
    }
}

#[test]
fn directory_exit_code_and_input_are_as_the_agent_expects_and_variables_do_not_stay() {
    let claude = Claude::new();
    let first = claude.bash("cd sub; export A=1; cat; echo \"it's\" done");
    assert_eq!((first.status.code(), stdout(&first)), (Some(0), "it's done\n".into()), "{}", stderr(&first));
    let sub = claude.stage.project().join("sub");
    assert_eq!(claude.directory(), Some(sub.clone()));
    let second = claude.bash_in(&sub, "pwd; echo A=$A; exit 7");
    assert_eq!((second.status.code(), stdout(&second)), (Some(7), format!("{}\nA=\n", sub.display())));
    // As with the agent's own line, a command that fails leaves the directory as it was.
    assert_eq!(claude.directory(), Some(sub));
}

#[test]
fn a_command_cannot_lead_the_agent_out_of_the_project() {
    let claude = Claude::new();
    let home = claude.stage.home();
    let outside = home.join(".ssh");
    for script in [
        "cd /tmp".to_owned(),
        "cd /".into(),
        format!("printf '%s\\n' '{}' > /proc/$$/fd/0; true", outside.display()),
    ] {
        let output = claude.bash(&script);
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(claude.directory().is_none_or(|told| told.starts_with(claude.stage.project())), "{script}");
    }
    assert!(claude.bash("cd sub").status.success());
    assert_eq!(claude.directory(), Some(claude.stage.project().join("sub")));
}

#[test]
fn file_tools_pass_the_read_guard() {
    let claude = Claude::new();
    let project = claude.stage.project();
    symlink(claude.stage.home().join(".ssh/id_ed25519"), project.join("harmless.txt")).unwrap();
    for path in
        [project.join(".env"), claude.stage.home().join(".ssh/id_ed25519"), project.join("harmless.txt")]
    {
        assert!(std::fs::read_to_string(&path).unwrap().contains(SECRET), "the control");
        for tool in ["Read", "Edit"] {
            let (decision, reason) = claude.file(tool, &path);
            assert_eq!(decision, "deny", "{tool} {}", path.display());
            assert!(
                reason.contains("\"retry\":false")
                    && reason.contains("\"rule\":")
                    && !reason.contains(SECRET)
            );
        }
    }
    for tool in ["Read", "Edit", "Write"] {
        assert_eq!(claude.file(tool, project.join("notes.txt")).0, "pass", "{tool}");
        assert_eq!(claude.file(tool, project.join("not-there.txt")).0, "pass", "{tool}");
    }
    assert_eq!(claude.decision("Grep", serde_json::json!({ "pattern": "TOKEN" })).0, "deny");
    let one = serde_json::json!({ "pattern": "x", "path": project.join("notes.txt") });
    assert_eq!(claude.decision("Grep", one).0, "pass");
}

#[test]
fn file_tools_do_not_write_what_starts_programs_or_belongs_to_keyward() {
    let claude = Claude::new();
    let (home, project) = (claude.stage.home(), claude.stage.project());
    for path in
        [project.join(".env"), home.join(".config/keyward/policy.toml"), home.join(".local/state/keyward/x")]
    {
        assert_eq!(claude.file("Write", &path).0, "deny", "{}", path.display());
    }
    for path in [
        home.join(".bashrc"),
        home.join(".claude/settings.json"),
        project.join(".claude/settings.json"),
        project.join(".git/hooks/pre-commit"),
        project.join(".envrc"),
    ] {
        let (decision, _) = claude.file("Write", &path);
        assert!(["ask", "deny"].contains(&decision.as_str()), "{} {decision}", path.display());
    }
}

#[test]
fn no_spelling_of_a_path_leads_a_file_tool_past_the_guard() {
    let claude = Claude::new();
    let (home, project) = (claude.stage.home(), claude.stage.project());
    for path in [
        project.join("not-there/../.env"),
        PathBuf::from("not-there/../.env"),
        PathBuf::from(" .env"),
        PathBuf::from("~/.ssh/id_ed25519"),
        PathBuf::from(" ~/not-there/../.ssh/id_ed25519 "),
    ] {
        for tool in ["Read", "Edit"] {
            assert_eq!(claude.file(tool, &path).0, "deny", "{tool} {}", path.display());
        }
    }
    // Links that a command of the session may have left: one to a directory, one to what is not there yet.
    symlink(&home, project.join("all")).unwrap();
    symlink(home.join(".config/autostart/evil.desktop"), project.join("new.txt")).unwrap();
    for path in [
        project.join("not-there/../../../..").join(home.strip_prefix("/").unwrap()).join(".bashrc"),
        project.join("all/.config/autostart/evil.desktop"),
        project.join("all/.config/systemd/user/evil.service"),
        project.join("new.txt"),
        PathBuf::from("~/.bashrc"),
    ] {
        let (decision, _) = claude.file("Write", &path);
        assert!(["ask", "deny"].contains(&decision.as_str()), "{} {decision}", path.display());
    }
    for path in [project.join("new/directory/file.txt"), project.join("sub/../notes.txt"), "sub/x".into()] {
        assert_eq!(claude.file("Write", &path).0, "pass", "{}", path.display());
    }
}

#[test]
fn the_agent_does_not_wait_for_what_a_command_leaves_behind() {
    let claude = Claude::new();
    let begun = std::time::Instant::now();
    let left = claude.bash("(exec >/dev/null 2>&1; while sleep 1; do :; done) & exit 0");
    assert!(left.status.success(), "{}", stderr(&left));
    assert!(begun.elapsed() < std::time::Duration::from_secs(20), "{:?}", begun.elapsed());
}

#[test]
fn a_denied_command_has_an_answer_that_the_agent_stops_at() {
    let claude = Claude::new();
    let denied = claude.bash("dd if=/dev/zero of=/dev/sda");
    let told = stderr(&denied);
    assert_eq!(denied.status.code(), Some(123), "{told}");
    let json = told.lines().find(|line| line.starts_with('{')).unwrap();
    let value: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!((value["rule"].as_str(), value["retry"].as_bool()), (Some("write-disk"), Some(false)));
    assert!(value["reason"].as_str().unwrap().contains("writes over a disk") && value["allowed"].is_string());
    assert!(told.contains("Do not retry"), "{told}");
}

#[test]
fn a_hook_that_cannot_answer_denies_the_call() {
    let claude = Claude::new();
    for message in
        [&b""[..], b"garbage", b"{}", b"{\"session_id\":\"../x\",\"hook_event_name\":\"SessionStart\"}"]
    {
        let output = claude.send(message);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains("so the call is denied") && output.stdout.is_empty());
    }
    // Keyward is missing.
    let line = claude.hook.replace("/keyward' hook", "/not-there' hook");
    assert_ne!(line, claude.hook);
    let output = claude.command("sh").args(["-c", &line]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    // And the program before each line is still there.
    let script = std::fs::read_to_string(&claude.prefix).unwrap();
    let gone = script.replace("/keyward'", "/not-there'");
    assert_ne!(script, gone);
    std::fs::write(&claude.prefix, gone).unwrap();
    for line in [claude.hook.as_str(), "echo ran"] {
        let output = claude.command(&claude.prefix).arg(line).output().unwrap();
        assert_eq!((output.status.code(), stdout(&output)), (Some(2), String::new()));
        assert!(stderr(&output).contains("is missing, so this is denied"), "{}", stderr(&output));
    }
}

#[test]
fn a_hook_whose_work_is_killed_denies_the_call() {
    let claude = Claude::new();
    let mut hook = claude
        .command(keyward())
        .args(["hook", "claude-code"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let children = format!("/proc/{0}/task/{0}/children", hook.id());
    let child = || std::fs::read_to_string(&children).unwrap_or_default().trim().parse::<u32>().ok();
    assert!(eventually(|| child().is_some()));
    let killed = Command::new("kill").args(["-9", &child().unwrap().to_string()]).status().unwrap();
    assert!(killed.success());
    let _open = hook.stdin.take();
    let output = hook.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

#[test]
fn a_session_that_has_ended_is_not_replaced_while_the_agent_runs() {
    let claude = Claude::new();
    assert!(claude.bash("true").status.success());
    let stopped =
        claude.stage.command(keyward()).args(["session", "stop", &claude.session()]).output().unwrap();
    assert!(stopped.status.success(), "{}", stderr(&stopped));
    let refused = claude.bash("echo ran");
    assert!(!refused.status.success() && refused.stdout.is_empty());
    assert!(stderr(&refused).contains("has ended, and is not replaced"), "{}", stderr(&refused));
    let (decision, reason) = claude.decision("Bash", serde_json::json!({ "command": "echo ran" }));
    assert!(decision == "deny" && reason.contains("has ended"), "{decision} {reason}");
}

#[test]
fn the_session_begins_and_ends_with_the_agents() {
    let claude = Claude::new();
    let started = claude.ask("SessionStart", serde_json::json!({ "source": "startup" }));
    assert!(
        started.status.success() && stdout(&started).contains("additionalContext"),
        "{}",
        stderr(&started)
    );
    assert!(claude.sessions().contains(&claude.session()));
    let ended = claude.ask("SessionEnd", serde_json::json!({ "reason": "other" }));
    assert!(ended.status.success() && ended.stdout.is_empty());
    assert!(!claude.sessions().contains(&claude.session()), "{}", claude.sessions());
}

#[test]
fn the_session_ends_with_an_agent_that_is_killed() {
    let claude = Claude::new();
    // A process that is not a shell, in the place of the agent.
    let script = format!(
        "import subprocess, sys, time\nsubprocess.run([{:?}, 'true'])\nprint('ready', flush=True)\ntime.sleep(600)",
        claude.prefix
    );
    let mut command = claude.command("python3");
    let mut agent = claude.stage.beside_and_ready(command.args(["-c", &script]));
    assert!(claude.sessions().contains(&claude.session()), "{}", claude.sessions());
    agent.0.kill().unwrap();
    agent.0.wait().unwrap();
    assert!(eventually(|| !claude.sessions().contains(&claude.session())), "{}", claude.sessions());
}

#[test]
fn a_prefix_that_other_settings_have_replaced_denies_commands() {
    let mut claude = Claude::new();
    assert_eq!(claude.decision("Bash", serde_json::json!({ "command": "ls" })).0, "pass");
    for other in ["", "/usr/bin/env"] {
        claude.prefix_as_told = other.into();
        let (decision, reason) = claude.decision("Bash", serde_json::json!({ "command": "ls" }));
        assert!(decision == "deny" && reason.contains("CLAUDE_CODE_SHELL_PREFIX"), "{decision} {reason}");
    }
}

#[test]
fn other_lines_that_the_agent_starts_run_in_the_session_with_their_input() {
    let claude = Claude::new();
    let line = "read -r line; echo got $line; echo key=$ANTHROPIC_API_KEY; cat .env";
    let mut child = claude
        .command(&claude.prefix)
        .arg(line)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"a message\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(stdout(&output).starts_with("got a message\nkey=\n"), "{}{}", stdout(&output), stderr(&output));
    assert!(!stdout(&output).contains(SECRET) && !stdout(&output).contains(KEY));
}

#[test]
fn a_command_in_the_cage_cannot_change_the_settings_that_name_the_hook() {
    let claude = Claude::on(stage());
    assert!(init(&claude.stage, &["--project", "--yes"]).status.success());
    let local = claude.stage.project().join(".claude/settings.local.json");
    let before = (std::fs::read(&local).unwrap(), std::fs::read(settings(&claude.stage)).unwrap());
    let home = claude.stage.home();
    let script = format!(
        "echo started; echo '{{}}' > .claude/settings.local.json; mv .claude gone; rm -rf .claude; echo '{{}}' > '{0}/.claude/settings.json'; rm -f '{0}/.local/share/keyward/agents/keyward-claude-shell'; true",
        home.display()
    );
    let output = claude.bash(&script);
    assert!(stdout(&output).contains("started"), "{}", stderr(&output));
    let after = (std::fs::read(&local).unwrap(), std::fs::read(settings(&claude.stage)).unwrap());
    assert!(before == after && Path::new(&claude.prefix).exists());
}

/// A message to the hook of an agent, and its answer.
fn asked(stage: &Stage, agent: &str, message: &serde_json::Value) -> Output {
    let mut child = stage
        .command(keyward())
        .args(["hook", agent])
        .env("OPENAI_API_KEY", KEY)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(message.to_string().as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn agents_without_a_prefix_are_given_another_command_which_runs_in_the_session() {
    for (agent, event, tool, replaced) in [
        ("codex", "PreToolUse", "Bash", "/hookSpecificOutput/updatedInput"),
        ("gemini", "BeforeTool", "run_shell_command", "/hookSpecificOutput/tool_input"),
        ("opencode", "PreToolUse", "bash", "/args"),
    ] {
        let stage = stage();
        let script = "echo key=$OPENAI_API_KEY; cat .env; cd sub && pwd; echo \"it's\"; exit 5";
        let message = serde_json::json!({
            "session_id": ID, "cwd": stage.project(), "hook_event_name": event, "tool_name": tool,
            "tool_input": { "command": script, "description": "x" },
        });
        let answer = asked(&stage, agent, &message);
        assert_eq!(answer.status.code(), Some(0), "{agent} {}", stderr(&answer));
        let value: serde_json::Value = serde_json::from_slice(&answer.stdout).unwrap();
        let input = value.pointer(replaced).unwrap_or_else(|| panic!("{agent} {value}"));
        assert_eq!(input["description"], "x", "{agent}");
        let line = input["command"].as_str().unwrap();
        let sessions = stdout(&stage.command(keyward()).arg("ps").output().unwrap());
        assert!(sessions.contains(&format!("{agent}-{ID}")), "the session outlives the hook: {sessions}");
        // As the agent runs it, outside.
        let control = stage.command("bash").args(["-c", script]).env("OPENAI_API_KEY", KEY).output().unwrap();
        assert!(stdout(&control).contains(KEY) && stdout(&control).contains(SECRET));
        let ran = stage.command("bash").args(["-lc", line]).env("OPENAI_API_KEY", KEY).output().unwrap();
        let out = stdout(&ran);
        assert_eq!(ran.status.code(), Some(5), "{agent} {}", stderr(&ran));
        assert!(out.starts_with("key=\n") && out.ends_with("/my project/sub\nit's\n"), "{agent} {out}");
        assert!(!out.contains(SECRET) && !out.contains(KEY));
        let name = format!("{agent}-{ID}");
        let _ = stage.command(keyward()).args(["session", "stop", &name]).output();
        let refused = stage.command("bash").args(["-c", line]).output().unwrap();
        assert!(
            !refused.status.success() && refused.stdout.is_empty(),
            "{agent}: without its session it refuses"
        );
    }
}

#[test]
fn file_tools_of_other_agents_pass_the_read_guard() {
    let stage = stage();
    let (secret, notes) = (stage.project().join(".env"), stage.project().join("notes.txt"));
    let patch = |name: &str| format!("*** Begin Patch\n*** Update File: {name}\n@@\n-a\n+b\n*** End Patch");
    for (agent, event, tool, denied, passed) in [
        (
            "gemini",
            "BeforeTool",
            "read_file",
            serde_json::json!({ "file_path": secret }),
            serde_json::json!({ "file_path": notes }),
        ),
        (
            "gemini",
            "BeforeTool",
            "write_file",
            serde_json::json!({ "file_path": secret }),
            serde_json::json!({ "file_path": notes }),
        ),
        (
            "opencode",
            "PreToolUse",
            "read",
            serde_json::json!({ "filePath": secret }),
            serde_json::json!({ "filePath": notes }),
        ),
        (
            "opencode",
            "PreToolUse",
            "edit",
            serde_json::json!({ "filePath": secret }),
            serde_json::json!({ "filePath": notes }),
        ),
        (
            "codex",
            "PreToolUse",
            "apply_patch",
            serde_json::json!({ "command": patch(".env") }),
            serde_json::json!({ "command": patch("notes.txt") }),
        ),
    ] {
        let ask = |input: &serde_json::Value| {
            let message = serde_json::json!({
                "session_id": ID, "cwd": stage.project(), "hook_event_name": event, "tool_name": tool, "tool_input": input,
            });
            let answer = asked(&stage, agent, &message);
            assert_eq!(answer.status.code(), Some(0), "{agent} {tool} {}", stderr(&answer));
            stdout(&answer)
        };
        let told = ask(&denied);
        assert!(told.contains("\"deny\"") && told.contains("Do not retry"), "{agent} {tool} {told}");
        let told = ask(&passed);
        assert!(told.is_empty() || told == "{\"decision\":\"pass\"}\n", "{agent} {tool} {told}");
    }
}

#[test]
fn init_and_undo_leave_the_settings_of_each_agent_as_they_were() {
    for (agent, file, before) in [
        ("codex", ".codex/hooks.json", None),
        ("gemini", ".gemini/settings.json", Some("{\n  // mine\n  \"theme\": \"x\",\n}\n")),
        ("opencode", ".config/opencode/plugin/keyward.js", None),
    ] {
        let stage = stage();
        if let Some(text) = before {
            stage.home_file(file, text);
        }
        let place = stage.home().join(file);
        let init = |more: &[&str]| {
            let output = stage.command(keyward()).args(["init", agent, "--yes"]).args(more).output().unwrap();
            assert!(output.status.success(), "{agent} {}", stderr(&output));
            stdout(&output)
        };
        let told = init(&[]);
        assert_eq!(told.contains("trust the two"), agent == "codex", "{told}");
        assert!(std::fs::read_to_string(&place).unwrap().contains(agent), "{agent}");
        assert!(init(&[]).contains("nothing is changed"), "{agent}");
        init(&["--undo"]);
        assert_eq!(std::fs::read_to_string(&place).ok().as_deref(), before, "{agent}");
    }
}

#[test]
fn settings_that_a_variable_has_moved_are_changed_where_the_agent_reads_them() {
    let stage = stage();
    let moved = stage.elsewhere().join("moved");
    std::fs::create_dir_all(&moved).unwrap();
    stage.own(&moved);
    for (agent, variable, file) in [
        ("claude-code", "CLAUDE_CONFIG_DIR", "settings.json"),
        ("codex", "CODEX_HOME", "hooks.json"),
        ("gemini", "GEMINI_CLI_HOME", ".gemini/settings.json"),
        ("opencode", "XDG_CONFIG_HOME", "opencode/plugin/keyward.js"),
    ] {
        let output =
            stage.command(keyward()).args(["init", agent, "--yes"]).env(variable, &moved).output().unwrap();
        assert!(output.status.success(), "{agent} {}", stderr(&output));
        assert!(std::fs::read_to_string(moved.join(file)).unwrap().contains(agent), "{agent}");
    }
    assert!(!settings(&stage).exists());
}
