//! What the settings of an agent say, so that its tool calls go into a session: added to a text and taken away again.

use super::call::Agent;
use super::json::{self, Kind, Malformed, Node};
use super::wrapper::quoted;
use serde_json::{Value, json};

/// Where Keyward's own programs are, as settings name them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Own {
    pub keyward: String,
    /// The program that Claude Code puts before each command.
    pub shell: String,
}

/// The file name of the program that Claude Code puts before each command.
pub const CLAUDE_SHELL: &str = "keyward-claude-shell";

/// The variable by which Claude Code puts a program before each command.
pub const SHELL_PREFIX: &str = "CLAUDE_CODE_SHELL_PREFIX";

/// Why settings were not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotChanged {
    Malformed(Malformed),
    /// What stands under this name is of another kind than the agent expects.
    InTheWay(String),
    /// The user has a program of their own there.
    Taken {
        name: &'static str,
        value: String,
    },
}

/// The end of a hook's line: every failure to answer denies the call.
const OR_DENY: &str = " || exit 2";

impl Own {
    /// The line that an agent runs as its hook.
    pub fn hook_line(&self, agent: Agent) -> String {
        format!("{} hook {}{OR_DENY}", quoted(&self.keyward), agent.word())
    }
}

/// The program that Claude Code puts before each line. It is a script, so that a Keyward that is gone denies: Claude goes on where a hook
/// ends with any other code than this.
pub fn claude_shell(keyward: &str) -> String {
    let keyward = quoted(keyward);
    format!(
        "#!/bin/sh\n# Keyward: `keyward init claude-code --undo` makes this unused.\n[ -x {keyward} ] && exec {keyward} claude-shell -- \"$*\"\necho {keyward}' is missing, so this is denied; install Keyward again, or take its hooks out of the settings of Claude Code' >&2\nexit 2\n"
    )
}

/// Whether a line is a hook of Keyward's for an agent, wherever the program lies.
pub fn is_hook_line(agent: Agent, line: &str) -> bool {
    let rest = line.strip_suffix(OR_DENY).and_then(super::wrapper::word);
    rest.is_some_and(|(program, rest)| {
        let name = program.rsplit('/').next().unwrap_or_default();
        name == "keyward" && rest.strip_prefix(" hook ") == Some(agent.word())
    })
}

/// The events of an agent that its hook is told, each with the tools it is for.
fn events(agent: Agent) -> &'static [(&'static str, Option<&'static str>)] {
    match agent {
        Agent::ClaudeCode => &[
            ("PreToolUse", Some("Bash|Read|NotebookRead|Edit|MultiEdit|Write|NotebookEdit|Grep")),
            ("SessionStart", None),
            ("SessionEnd", None),
        ],
        Agent::Codex => &[("PreToolUse", Some("Bash|apply_patch")), ("SessionStart", None)],
        Agent::Gemini => &[
            (
                "BeforeTool",
                Some(
                    "run_shell_command|read_file|read_many_files|write_file|replace|search_file_content|grep_search",
                ),
            ),
            ("SessionStart", None),
            ("SessionEnd", None),
        ],
        Agent::Hermes | Agent::OpenCode => &[],
    }
}

/// How long an agent waits for the hook. The hook itself gives up long before, and denies.
fn patience(agent: Agent) -> u64 {
    match agent {
        Agent::ClaudeCode | Agent::Codex | Agent::Hermes | Agent::OpenCode => 120,
        // Milliseconds.
        Agent::Gemini => 120_000,
    }
}

/// The first line of the plugin, by which it is known.
const PLUGIN: &str = "// Keyward: `keyward init opencode --undo` removes this file.\n";
/// The same of the one for Hermes.
const HERMES_PLUGIN: &str = "# Keyward: `keyward init hermes --undo` removes this file.\n";

/// The file by which Hermes knows the plugin, beside it.
pub const HERMES_MANIFEST: (&str, &str) = (
    "plugin.yaml",
    "# Keyward: `keyward init hermes --undo` removes this file.\nname: keyward\nversion: \"1\"\ndescription: Sends tool calls into a session of Keyward\n",
);

/// The plugin of an agent, and its first line.
fn own_plugin(agent: Agent, own: &Own) -> Option<(&'static str, String)> {
    match agent {
        Agent::OpenCode => Some((PLUGIN, plugin(own))),
        Agent::Hermes => Some((HERMES_PLUGIN, hermes_plugin(own))),
        Agent::ClaudeCode | Agent::Codex | Agent::Gemini => None,
    }
}

/// The plugin for Hermes, which goes on where a plugin fails: so nothing here raises. A command is replaced before the tool sees it, and the
/// hook that comes after blocks every command that was not.
fn hermes_plugin(own: &Own) -> String {
    let keyward = Value::from(own.keyward.as_str());
    let patience = patience(Agent::Hermes);
    format!(
        r#"{HERMES_PLUGIN}"""Sends the tool calls of Hermes into a session of Keyward. Whatever goes wrong denies the call."""
import collections
import hashlib
import json
import os
import re
import subprocess

KEYWARD = {keyward}
FILES = {{"read_file", "write_file", "patch", "search_files"}}
TOOLS = FILES | {{"terminal", "execute_code"}}
NAMES = re.compile(r"^(\*\*\* (?:Add File|Update File|Delete File|Move to): )(.+)$")
MOST = 4096
# What was decided about each line that stands in the place of a command.
lines = collections.OrderedDict()


def ask(tool, args, session):
    try:
        message = {{
            "session_id": session or f"p{{os.getpid()}}", "cwd": os.environ.get("TERMINAL_CWD") or os.getcwd(),
            "hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": args,
        }}
        told = subprocess.run(
            [KEYWARD, "hook", "hermes"], input=json.dumps(message).encode(), capture_output=True, timeout={patience}
        )
        answer = json.loads(told.stdout) if told.returncode == 0 else None
        if isinstance(answer, dict) and answer.get("decision") in ("pass", "replace", "ask", "deny"):
            return answer
        why = told.stderr.decode("utf-8", "replace").strip()
    except Exception as error:
        why = str(error)
    return {{"decision": "deny", "reason": f"Keyward's hook did not answer, so the call is denied: {{why}}"}}


def whole(path, task):
    """The path as Hermes means it, so that what is judged is what is opened."""
    try:
        from tools.file_tools import _resolve_path
        return str(_resolve_path(path, task or "default"))
    except Exception:
        return os.path.abspath(os.path.expanduser(path))


def whole_patch(text, task):
    """The same for all files of a patch; nothing where a line is not understood."""
    out = []
    for line in text.splitlines():
        named = NAMES.match(line)
        if named:
            line = named[1] + whole(named[2].strip(), task)
        elif line.lstrip().startswith("***") and line.strip() not in ("*** Begin Patch", "*** End Patch", "*** End of File"):
            return ""
        out.append(line)
    return "\n".join(out) + "\n"


def of_files(args, task):
    args = dict(args)
    if isinstance(args.get("path"), str) and args["path"]:
        args["path"] = whole(args["path"], task)
    if isinstance(args.get("patch"), str) and args["patch"]:
        args["patch"] = whole_patch(args["patch"], task)
    return args


def replace(tool_name="", args=None, session_id="", task_id="", **_):
    args = args if isinstance(args, dict) else {{}}
    if tool_name in FILES:
        return {{"args": of_files(args, task_id)}}
    if tool_name != "terminal":
        return None
    answer = ask(tool_name, args, session_id)
    if answer["decision"] == "replace" and isinstance(answer.get("args"), dict):
        args = {{**args, **answer["args"]}}
    else:
        args = {{**args, "command": "exit 126 # denied by Keyward " + hashlib.sha256(repr(args).encode()).hexdigest()}}
        answer = {{"decision": "deny", "reason": answer.get("reason")}}
    lines[args["command"]] = answer
    while len(lines) > MOST:
        lines.popitem(last=False)
    return {{"args": args}}


def before(tool_name="", args=None, session_id="", task_id="", **_):
    if tool_name not in TOOLS:
        return None
    args = args if isinstance(args, dict) else {{}}
    if tool_name == "terminal":
        answer = lines.get(args.get("command")) or {{"decision": "deny"}}
    elif tool_name in FILES and of_files(args, task_id) != args:
        answer = {{"decision": "deny", "reason": "Keyward cannot tell which files this is about, so it is denied"}}
    else:
        answer = ask(tool_name, args, session_id)
    if answer.get("ask"):
        own = hashlib.sha256(json.dumps([tool_name, args], sort_keys=True, default=str).encode()).hexdigest()
        return {{"action": "approve", "message": answer["ask"], "rule_key": f"keyward:{{own}}"}}
    if answer["decision"] in ("pass", "replace"):
        return None
    return {{"action": "block", "message": answer.get("reason") or "Keyward has not seen this command, so it is denied"}}


def register(ctx):
    ctx.register_middleware("tool_request", replace)
    ctx.register_hook("pre_tool_call", before)
"#
    )
}

/// The plugin for opencode. Everything but an answer of the hook is an error, and an error of a plugin denies the call.
fn plugin(own: &Own) -> String {
    let keyward = Value::from(own.keyward.as_str());
    let patience = patience(Agent::OpenCode) * 1000;
    format!(
        r#"{PLUGIN}import {{ spawnSync }} from "node:child_process"

const keyward = {keyward}

export const Keyward = async ({{ directory }}) => ({{
  "tool.execute.before": async (input, output) => {{
    const message = JSON.stringify({{
      session_id: input.sessionID, cwd: directory, hook_event_name: "PreToolUse", tool_name: input.tool, tool_input: output.args,
    }})
    const told = spawnSync(keyward, ["hook", "opencode"], {{
      input: message, encoding: "utf8", timeout: {patience}, killSignal: "SIGKILL", maxBuffer: 1 << 26,
    }})
    if (told.error || told.status !== 0) throw new Error(`${{told.stderr ?? ""}}Keyward's hook did not answer, so the call is denied`)
    const answer = JSON.parse(told.stdout)
    if (answer.decision === "replace") Object.assign(output.args, answer.args)
    else if (answer.decision !== "pass") throw new Error(answer.reason ?? "Keyward's hook did not answer, so the call is denied")
  }},
}})
"#
    )
}

/// Adds what is missing. The same text comes back where nothing is.
pub fn added(agent: Agent, text: &str, own: &Own) -> Result<String, NotChanged> {
    if let Some((first, plugin)) = own_plugin(agent, own) {
        return match text.is_empty() || text.starts_with(first) {
            true => Ok(plugin),
            false => Err(NotChanged::InTheWay("this file".into())),
        };
    }
    let root = json::parse(text).map_err(NotChanged::Malformed)?;
    if let Some(mistake) = strict_mistake(agent, text) {
        return Err(NotChanged::Malformed(mistake));
    }
    if agent == Agent::ClaudeCode
        && let Some(found) = root.at(&["env", SHELL_PREFIX]).and_then(Node::text)
        && !is_own_shell(found)
    {
        return Err(NotChanged::Taken { name: SHELL_PREFIX, value: found.into() });
    }
    if is_complete(agent, &root, own) {
        return Ok(text.to_owned());
    }
    // Those of an older version, or of one that lay elsewhere.
    let mut text = removed(agent, text)?;
    let in_the_way = |path: &[&str]| NotChanged::InTheWay(path.join("."));
    if agent == Agent::ClaudeCode {
        let path = ["env", SHELL_PREFIX];
        text = json::set(&text, &path, &json!(own.shell)).ok_or_else(|| in_the_way(&path))?;
    }
    for (event, tools) in events(agent) {
        let path = ["hooks", event];
        let entry = entry(agent, *tools, own);
        text = json::push(&text, &path, &entry).ok_or_else(|| in_the_way(&path))?;
    }
    Ok(text)
}

/// Where a text is not JSON in the strict sense. These agents ignore such a file as a whole, and the hooks in it, without a word.
fn strict_mistake(agent: Agent, text: &str) -> Option<Malformed> {
    let reads_comments = match agent {
        Agent::Gemini => true,
        Agent::ClaudeCode | Agent::Codex | Agent::Hermes | Agent::OpenCode => false,
    };
    if reads_comments || text.trim().is_empty() {
        return None;
    }
    let error = serde_json::from_str::<Value>(text).err()?;
    let what =
        "the agent takes neither comments nor a comma before a bracket here, and would ignore the whole file";
    Some(Malformed { line: error.line(), column: error.column(), what })
}

fn entry(agent: Agent, tools: Option<&str>, own: &Own) -> Value {
    let hook = json!({ "type": "command", "command": own.hook_line(agent), "timeout": patience(agent) });
    match tools {
        Some(tools) => json!({ "matcher": tools, "hooks": [hook] }),
        None => json!({ "hooks": [hook] }),
    }
}

fn is_complete(agent: Agent, root: &Node, own: &Own) -> bool {
    let has_shell = agent != Agent::ClaudeCode
        || root.at(&["env", SHELL_PREFIX]).and_then(Node::text) == Some(own.shell.as_str());
    has_shell
        && events(agent).iter().all(|(event, tools)| {
            let entries = root.at(&["hooks", event]).map(Node::elements).unwrap_or_default();
            let same = |entry: &&Node| {
                own_lines(entry, agent).any(|line| line == own.hook_line(agent))
                    && entry.at(&["matcher"]).and_then(Node::text) == *tools
            };
            entries.iter().filter(|entry| own_lines(entry, agent).next().is_some()).count() == 1
                && entries.iter().any(|entry| same(&entry))
        })
}

/// The lines of Keyward's hooks in an entry.
fn own_lines(entry: &Node, agent: Agent) -> impl Iterator<Item = &str> {
    let hooks = entry.at(&["hooks"]).map(Node::elements).unwrap_or_default();
    hooks
        .iter()
        .filter_map(|hook| hook.at(&["command"]).and_then(Node::text))
        .filter(move |line| is_hook_line(agent, line))
}

/// Takes away what is Keyward's. Everything else stays.
pub fn removed(agent: Agent, text: &str) -> Result<String, NotChanged> {
    if agent.has_plugin() {
        let is_own = text.starts_with(PLUGIN) || text.starts_with(HERMES_PLUGIN);
        return Ok(if is_own { String::new() } else { text.to_owned() });
    }
    let mut text = text.to_owned();
    let root = json::parse(&text).map_err(NotChanged::Malformed)?;
    if root.at(&["env", SHELL_PREFIX]).and_then(Node::text).is_some_and(is_own_shell) {
        text = json::remove(&text, &["env", SHELL_PREFIX], true).unwrap_or(text);
    }
    // One at a time: each cut moves what stands behind it.
    while let Some(cut) = without_one(agent, &text)? {
        text = cut;
    }
    Ok(text)
}

fn without_one(agent: Agent, text: &str) -> Result<Option<String>, NotChanged> {
    let root = json::parse(text).map_err(NotChanged::Malformed)?;
    let Some(hooks) = root.at(&["hooks"]) else { return Ok(None) };
    for event in hooks.members() {
        let Kind::Array(entries) = &event.value.kind else { continue };
        for (place, entry) in entries.iter().enumerate() {
            let lines = entry.at(&["hooks"]).map(Node::elements).unwrap_or_default();
            // An entry to which the user has added a hook of their own stays as it is: they have made it theirs.
            if lines.len() == 1 && own_lines(entry, agent).next().is_some() {
                return Ok(json::remove_element(text, &["hooks", &event.key], place));
            }
        }
    }
    Ok(None)
}

fn is_own_shell(path: &str) -> bool {
    path.rsplit('/').next() == Some(CLAUDE_SHELL)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Own {
        Own {
            keyward: "/usr/bin/keyward".into(),
            shell: "/home/u/.local/share/keyward/agents/keyward-claude-shell".into(),
        }
    }

    const USERS: &str = "{\n  \"model\": \"opus\",\n  \"hooks\": {\n    \"PreToolUse\": [\n      { \"matcher\": \"Write\", \"hooks\": [{ \"type\": \"command\", \"command\": \"lint\" }] }\n    ]\n  }\n}\n";

    #[test]
    fn settings_are_added_to_and_everything_else_stays() {
        for text in ["", "{}", USERS] {
            insta::assert_snapshot!(added(Agent::ClaudeCode, text, &own()).unwrap());
        }
        insta::assert_snapshot!(added(Agent::Codex, "", &own()).unwrap());
        insta::assert_snapshot!(added(Agent::Gemini, "{\"theme\": \"x\"}", &own()).unwrap());
    }

    #[test]
    fn adding_twice_changes_nothing_more_and_a_moved_program_is_replaced() {
        for agent in WITH_SETTINGS {
            let once = added(*agent, USERS, &own()).unwrap();
            assert_eq!(added(*agent, &once, &own()).unwrap(), once);
            let moved = Own { keyward: "/opt/a b/keyward".into(), ..own() };
            let again = added(*agent, &once, &moved).unwrap();
            assert_eq!(again, added(*agent, USERS, &moved).unwrap());
        }
    }

    #[test]
    fn what_was_added_is_taken_away_and_what_the_user_added_meanwhile_stays() {
        for agent in WITH_SETTINGS {
            let once = added(*agent, USERS, &own()).unwrap();
            assert_eq!(removed(*agent, &once).unwrap(), USERS, "{once}");
            let changed = once.replace("\"opus\"", "\"sonnet\"");
            assert_eq!(removed(*agent, &changed).unwrap(), USERS.replace("\"opus\"", "\"sonnet\""));
        }
    }

    /// The agents whose hooks stand in a file of JSON.
    const WITH_SETTINGS: &[Agent] = &[Agent::ClaudeCode, Agent::Codex, Agent::Gemini];

    #[test]
    fn the_plugin_is_a_file_of_its_own_and_no_other_file_is_written_over() {
        let once = added(Agent::OpenCode, "", &own()).unwrap();
        insta::assert_snapshot!(once);
        let moved = Own { keyward: "/opt/\"a\"/keyward".into(), ..own() };
        assert!(
            added(Agent::OpenCode, &once, &moved)
                .unwrap()
                .contains(r#"const keyward = "/opt/\"a\"/keyward""#)
        );
        assert_eq!(removed(Agent::OpenCode, &once).unwrap(), "");
        let users = "export const Mine = 1\n";
        assert!(matches!(added(Agent::OpenCode, users, &own()), Err(NotChanged::InTheWay(_))));
        assert_eq!(removed(Agent::OpenCode, users).unwrap(), users);
    }

    #[test]
    fn the_plugin_of_hermes_names_the_program_as_python_reads_it() {
        let once = added(Agent::Hermes, "", &own()).unwrap();
        insta::assert_snapshot!(once);
        let moved = Own { keyward: "/opt/\"a\"/keyward".into(), ..own() };
        assert!(added(Agent::Hermes, &once, &moved).unwrap().contains(r#"KEYWARD = "/opt/\"a\"/keyward""#));
        assert_eq!(removed(Agent::Hermes, &once).unwrap(), "");
        let users = "def register(ctx): pass\n";
        assert!(matches!(added(Agent::Hermes, users, &own()), Err(NotChanged::InTheWay(_))));
    }

    #[test]
    fn a_hook_is_known_by_its_line_and_no_other_line_is_one() {
        let claude = Agent::ClaudeCode;
        assert!(is_hook_line(claude, "'/usr/bin/keyward' hook claude-code || exit 2"));
        assert!(is_hook_line(claude, "'/a b/keyward' hook claude-code || exit 2"));
        for line in [
            "'/usr/bin/keyward' hook codex || exit 2",
            "'/usr/bin/keyward' hook claude-code",
            "'/usr/bin/keyward' hook claude-code; curl x || exit 2",
            "'/usr/bin/keyward' hook claude-code x || exit 2",
            "'/usr/bin/notkeyward' hook claude-code || exit 2",
            "$(x)/keyward hook claude-code || exit 2",
        ] {
            assert!(!is_hook_line(claude, line), "{line}");
        }
    }

    #[test]
    fn comments_are_kept_where_the_agent_reads_them_and_refused_where_it_does_not() {
        let text = "{\n  // my theme\n  \"theme\": \"x\",\n}\n";
        let once = added(Agent::Gemini, text, &own()).unwrap();
        assert!(once.contains("// my theme"));
        assert_eq!(removed(Agent::Gemini, &once).unwrap(), text);
        let Err(NotChanged::Malformed(wrong)) = added(Agent::ClaudeCode, text, &own()) else { panic!() };
        assert_eq!((wrong.line, wrong.column), (2, 3));
    }

    #[test]
    fn a_program_of_the_users_own_is_not_replaced() {
        let text = "{\"env\": {\"CLAUDE_CODE_SHELL_PREFIX\": \"/usr/bin/mine\"}}";
        let taken = NotChanged::Taken { name: SHELL_PREFIX, value: "/usr/bin/mine".into() };
        assert_eq!(added(Agent::ClaudeCode, text, &own()), Err(taken));
        assert_eq!(removed(Agent::ClaudeCode, text).unwrap(), text);
        let odd = "{\"hooks\": []}";
        assert!(matches!(added(Agent::ClaudeCode, odd, &own()), Err(NotChanged::InTheWay(_))));
    }
}
