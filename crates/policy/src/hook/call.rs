//! What an agent tells its hook before it uses a tool: JSON, in the words of each agent.

use serde_json::{Map, Value};
use std::path::PathBuf;

/// An agent whose settings can name a hook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agent {
    ClaudeCode,
    Codex,
    Gemini,
    Hermes,
    OpenCode,
}

impl Agent {
    pub const ALL: &'static [Agent] =
        &[Agent::ClaudeCode, Agent::Codex, Agent::Gemini, Agent::Hermes, Agent::OpenCode];

    /// The word on the command line.
    pub const fn word(self) -> &'static str {
        match self {
            Agent::ClaudeCode => "claude-code",
            Agent::Codex => "codex",
            Agent::Gemini => "gemini",
            Agent::Hermes => "hermes",
            Agent::OpenCode => "opencode",
        }
    }

    /// The name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Agent::ClaudeCode => "Claude Code",
            Agent::Codex => "Codex",
            Agent::Gemini => "Gemini CLI",
            Agent::Hermes => "Hermes",
            Agent::OpenCode => "opencode",
        }
    }

    /// The beginning of the names of its sessions, and of the profile that they use.
    pub const fn short(self) -> &'static str {
        match self {
            Agent::ClaudeCode => "claude",
            Agent::Codex => "codex",
            Agent::Gemini => "gemini",
            Agent::Hermes => "hermes",
            Agent::OpenCode => "opencode",
        }
    }

    /// Whether its hook is a plugin of Keyward's, a file of its own.
    pub const fn has_plugin(self) -> bool {
        matches!(self, Agent::Hermes | Agent::OpenCode)
    }

    pub fn of_word(word: &str) -> Option<Agent> {
        Agent::ALL.iter().copied().find(|agent| agent.word() == word)
    }
}

/// One message of an agent.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// The agent's own name for its session.
    pub session: String,
    /// Where the agent stands.
    pub cwd: Option<PathBuf>,
    pub event: Event,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    Started,
    Ended,
    Tool(Tool),
    /// Not about a tool, or about one that touches neither files nor processes.
    Other,
}

/// The tools that a hook decides about.
#[derive(Clone, Debug, PartialEq)]
pub enum Tool {
    /// A command for a shell. `input` is all that the tool was given.
    Shell {
        command: String,
        input: Map<String, Value>,
    },
    /// A program in another language, which the agent would run itself.
    Code,
    Read(PathBuf),
    /// A new file, or a whole new content.
    Write(PathBuf),
    /// The result shows a part of what was in the file before.
    Edit(PathBuf),
    /// Shows lines of all files below a directory, or of one file.
    Search(Option<PathBuf>),
    /// Changes several files, whose names stand in a text that only the agent reads in full.
    Patch(Vec<PathBuf>),
}

/// Reads a message. What cannot be read is an error, so that the call is denied.
pub fn read(agent: Agent, message: &[u8]) -> Result<Call, &'static str> {
    let value: Value = serde_json::from_slice(message).map_err(|_| "it is not JSON")?;
    let Value::Object(fields) = value else { return Err("it is not an object") };
    let text = |name: &str| fields.get(name).and_then(Value::as_str);
    let session = text("session_id").ok_or("it has no session_id")?.to_owned();
    let cwd = text("cwd").map(PathBuf::from);
    let event = match text("hook_event_name").ok_or("it has no hook_event_name")? {
        "SessionStart" => Event::Started,
        "SessionEnd" => Event::Ended,
        "PreToolUse" | "BeforeTool" => {
            let name = text("tool_name").ok_or("it has no tool_name")?;
            let input = match fields.get("tool_input") {
                Some(Value::Object(input)) => input.clone(),
                None | Some(Value::Null) => Map::new(),
                // Codex gives a patch as it is.
                Some(Value::String(text)) => {
                    Map::from_iter([("command".into(), Value::String(text.clone()))])
                }
                Some(_) => return Err("its tool_input is not an object"),
            };
            match tool(agent, name, input)? {
                Some(tool) => Event::Tool(tool),
                None => Event::Other,
            }
        }
        _ => Event::Other,
    };
    Ok(Call { session, cwd, event })
}

fn tool(agent: Agent, name: &str, input: Map<String, Value>) -> Result<Option<Tool>, &'static str> {
    let path = |names: &[&str]| {
        let mut found = names.iter().filter_map(|name| input.get(*name).and_then(Value::as_str));
        let first = found.next().ok_or("it names no file")?;
        // Which of them counts depends on the version of the agent.
        found.all(|other| other == first).then(|| PathBuf::from(first)).ok_or("it names several files")
    };
    let directory = |name: &str| input.get(name).and_then(Value::as_str).map(PathBuf::from);
    Ok(Some(match (agent, name) {
        (Agent::ClaudeCode | Agent::Codex, "Bash")
        | (Agent::Gemini, "run_shell_command")
        | (Agent::Hermes, "terminal")
        | (Agent::OpenCode, "bash") => {
            let command = match input.get("command") {
                Some(Value::String(command)) => command.clone(),
                _ => return Err("its command is not a text"),
            };
            Tool::Shell { command, input }
        }
        (Agent::ClaudeCode, "Read" | "NotebookRead") => Tool::Read(path(&["file_path", "notebook_path"])?),
        (Agent::ClaudeCode, "Edit" | "MultiEdit" | "NotebookEdit") => {
            Tool::Edit(path(&["file_path", "notebook_path"])?)
        }
        (Agent::ClaudeCode, "Write") => Tool::Write(path(&["file_path"])?),
        (Agent::ClaudeCode, "Grep") => Tool::Search(directory("path")),
        (Agent::Codex, "apply_patch") => Tool::Patch(match input.get("command").or(input.get("input")) {
            Some(Value::String(patch)) => patched(patch)?,
            _ => return Err("its patch is not a text"),
        }),
        (Agent::Gemini, "read_file") => Tool::Read(path(&["file_path", "absolute_path", "path"])?),
        (Agent::Gemini, "read_many_files") => Tool::Search(None),
        (Agent::Gemini, "replace") => Tool::Edit(path(&["file_path", "absolute_path", "path"])?),
        (Agent::Gemini, "write_file") => Tool::Write(path(&["file_path", "absolute_path", "path"])?),
        (Agent::Gemini, "search_file_content" | "grep_search") => {
            Tool::Search(directory("path").or(directory("dir_path")))
        }
        (Agent::Hermes, "execute_code") => Tool::Code,
        (Agent::Hermes, "read_file") => Tool::Read(path(&["path"])?),
        (Agent::Hermes, "write_file") => Tool::Write(path(&["path"])?),
        (Agent::Hermes, "patch") => match input.get("patch").and_then(Value::as_str) {
            Some(patch) => Tool::Patch(patched(patch)?),
            None => Tool::Edit(path(&["path"])?),
        },
        (Agent::Hermes, "search_files") => Tool::Search(directory("path")),
        (Agent::OpenCode, "read") => Tool::Read(path(&["filePath"])?),
        (Agent::OpenCode, "edit" | "multiedit") => Tool::Edit(path(&["filePath"])?),
        (Agent::OpenCode, "write") => Tool::Write(path(&["filePath"])?),
        (Agent::OpenCode, "grep") => Tool::Search(directory("path")),
        (Agent::OpenCode, "patch" | "apply_patch") => {
            let text = ["patchText", "patch", "input"]
                .iter()
                .find_map(|name| input.get(*name).and_then(Value::as_str));
            Tool::Patch(patched(text.ok_or("its patch is not a text")?)?)
        }
        _ => return Ok(None),
    }))
}

/// The files that a patch of Codex names. Its readers take heads that are indented, or without a blank behind the colon.
fn patched(patch: &str) -> Result<Vec<PathBuf>, &'static str> {
    const HEADS: &[&str] = &["*** Add File:", "*** Update File:", "*** Delete File:", "*** Move to:"];
    let name = |line: &str| {
        let line = line.trim_start();
        HEADS.iter().find_map(|head| line.strip_prefix(head)).map(|name| name.trim().into())
    };
    let names: Vec<PathBuf> = patch.lines().filter_map(name).collect();
    if names.is_empty() { Err("its patch names no file") } else { Ok(names) }
}

/// The name of Keyward's session for a session of an agent; `None` where the agent's own name is not fit for one.
pub fn session_name(agent: Agent, own: &str) -> Option<String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let name = format!("{}-{own}", agent.short());
    (!own.is_empty() && own.bytes().all(fits) && name.len() <= 64).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(agent: Agent, message: &str) -> Result<Event, &'static str> {
        read(agent, message.as_bytes()).map(|call| call.event)
    }

    #[test]
    fn a_command_is_read_with_all_that_the_tool_was_given() {
        let message = r#"{"session_id":"a-1","cwd":"/p","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls","timeout":5}}"#;
        let call = read(Agent::ClaudeCode, message.as_bytes()).unwrap();
        assert_eq!((call.session.as_str(), call.cwd), ("a-1", Some("/p".into())));
        let Event::Tool(Tool::Shell { command, input }) = call.event else { panic!("{:?}", call.event) };
        assert_eq!((command.as_str(), input["timeout"].as_u64()), ("ls", Some(5)));
    }

    #[test]
    fn a_message_that_cannot_be_read_is_an_error_and_not_a_pass() {
        for message in [
            "",
            "[]",
            "{}",
            r#"{"session_id":"a"}"#,
            r#"{"session_id":"a","hook_event_name":"PreToolUse"}"#,
            r#"{"session_id":"a","hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":["ls"]}}"#,
            r#"{"session_id":"a","hook_event_name":"PreToolUse","tool_name":"Read","tool_input":{}}"#,
            r#"{"session_id":"a","hook_event_name":"PreToolUse","tool_name":"Read","tool_input":7}"#,
        ] {
            assert!(event(Agent::ClaudeCode, message).is_err(), "{message}");
        }
    }

    #[test]
    fn each_file_tool_names_its_file() {
        let tool = |agent, name: &str, input: &str| {
            let message = format!(
                r#"{{"session_id":"a","hook_event_name":"PreToolUse","tool_name":"{name}","tool_input":{input}}}"#
            );
            event(agent, &message).unwrap()
        };
        let claude = Agent::ClaudeCode;
        assert_eq!(tool(claude, "Read", r#"{"file_path":"/a"}"#), Event::Tool(Tool::Read("/a".into())));
        assert_eq!(tool(claude, "Edit", r#"{"file_path":"/a"}"#), Event::Tool(Tool::Edit("/a".into())));
        assert_eq!(tool(claude, "Write", r#"{"file_path":"/a"}"#), Event::Tool(Tool::Write("/a".into())));
        assert_eq!(
            tool(claude, "NotebookEdit", r#"{"notebook_path":"/a"}"#),
            Event::Tool(Tool::Edit("/a".into()))
        );
        assert_eq!(tool(claude, "Grep", r#"{"pattern":"x"}"#), Event::Tool(Tool::Search(None)));
        assert_eq!(tool(claude, "WebFetch", r#"{"url":"x"}"#), Event::Other);
        assert_eq!(
            tool(Agent::Gemini, "read_file", r#"{"file_path":"/a"}"#),
            Event::Tool(Tool::Read("/a".into()))
        );
        let hermes = Agent::Hermes;
        assert_eq!(tool(hermes, "write_file", r#"{"path":"a"}"#), Event::Tool(Tool::Write("a".into())));
        assert_eq!(tool(hermes, "patch", r#"{"path":"a"}"#), Event::Tool(Tool::Edit("a".into())));
        let many = r#"{"mode":"patch","patch":"*** Update File: a\n*** Delete File: b"}"#;
        assert_eq!(tool(hermes, "patch", many), Event::Tool(Tool::Patch(vec!["a".into(), "b".into()])));
        assert_eq!(tool(hermes, "execute_code", r#"{"code":"x"}"#), Event::Tool(Tool::Code));
        let patch = r#"{"command":"*** Begin Patch\n*** Update File: a b.rs\n@@\n-x\n+y\n*** Move to: c.rs\n*** End Patch"}"#;
        let patched = Tool::Patch(vec!["a b.rs".into(), "c.rs".into()]);
        assert_eq!(tool(Agent::Codex, "apply_patch", patch), Event::Tool(patched));
    }

    #[test]
    fn a_call_that_agents_read_differently_is_an_error() {
        let tool = |agent, name: &str, input: &str| {
            let message = format!(
                r#"{{"session_id":"a","hook_event_name":"BeforeTool","tool_name":"{name}","tool_input":{input}}}"#
            );
            event(agent, &message)
        };
        let two = r#"{"file_path":"/a","absolute_path":"/b"}"#;
        assert!(tool(Agent::Gemini, "read_file", two).is_err());
        assert!(tool(Agent::Gemini, "read_file", &two.replace("/b", "/a")).is_ok());
        assert!(
            tool(Agent::ClaudeCode, "NotebookEdit", r#"{"file_path":"/a","notebook_path":"/b"}"#).is_err()
        );
        assert!(
            tool(Agent::Codex, "apply_patch", r#"{"command":"*** Begin Patch\n*** End Patch"}"#).is_err()
        );
        for head in ["*** Add File: x", "  *** Add File: x", "*** Add File:x", "\\t*** Update File:  x  "] {
            let patch = format!(r#"{{"command":"*** Begin Patch\n{head}\n+y\n*** End Patch"}}"#);
            let expected = Event::Tool(Tool::Patch(vec!["x".into()]));
            assert_eq!(tool(Agent::Codex, "apply_patch", &patch), Ok(expected), "{head}");
        }
    }

    #[test]
    fn a_session_is_named_after_the_agents_own() {
        let uuid = "f82bb1a6-f0f4-4336-b65d-e355ecfc1628";
        assert_eq!(session_name(Agent::ClaudeCode, uuid), Some(format!("claude-{uuid}")));
        for own in ["", "a/b", "..", "a b", "a\n", &"x".repeat(60)] {
            assert_eq!(session_name(Agent::ClaudeCode, own), None, "{own}");
        }
    }
}
