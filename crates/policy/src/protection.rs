//! How an agent is protected on this host, and what is still exposed: what `keyward doctor --agents` has found, judged and put into
//! words. Pure: the caller has looked, outside and inside, and read the files.
//!
//! What is looked for is named and never shown. Both sides are compared by salted digests.

use crate::agent::{Format, Spot};
use crate::env;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// What is looked for, on both sides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Stands before each value that is digested, so that a digest says nothing about a value elsewhere.
    pub salt: String,
    pub variables: Vec<String>,
    pub files: Vec<String>,
}

/// The digests of what was found; what is missing or closed is not listed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    pub variables: BTreeMap<String, String>,
    pub files: BTreeMap<String, String>,
}

/// What a process in the cage gets of what is there outside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Exposure {
    /// As it is outside.
    pub readable: Vec<String>,
    /// Something else under its name: a phantom, or a file without the secret.
    pub replaced: Vec<String>,
    pub hidden: Vec<String>,
}

impl Exposure {
    /// Compares what was found outside, the control, with what was found inside.
    pub fn of(outside: &Found, inside: &Found) -> Self {
        let mut exposure = Exposure::default();
        let sides = [(&outside.variables, &inside.variables), (&outside.files, &inside.files)];
        for (outside, inside) in sides {
            for (name, digest) in outside {
                match inside.get(name) {
                    Some(same) if same == digest => exposure.readable.push(name.clone()),
                    Some(_) => exposure.replaced.push(name.clone()),
                    None => exposure.hidden.push(name.clone()),
                }
            }
        }
        exposure
    }
}

impl Found {
    /// Everything that was found, by name.
    pub fn names(&self) -> Vec<String> {
        self.variables.keys().chain(self.files.keys()).cloned().collect()
    }
}

/// How an MCP server is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// Through Keyward.
    Caged,
    /// As a program of the agent's own.
    Bare,
    /// It is reached by a URL, and does not run here.
    Remote,
}

/// An MCP server in the settings of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Server {
    pub name: String,
    /// The file that names it.
    pub file: String,
    pub start: Start,
    /// Variables in that file that look like credentials, with a value.
    pub keys: Vec<String>,
}

/// The MCP servers that a settings file names; `None` if it cannot be read as what it is.
pub fn servers(spot: &Spot, text: &str) -> Option<Vec<Server>> {
    let root: Value = match spot.format {
        Format::Json if text.trim().is_empty() => return Some(Vec::new()),
        Format::Json => serde_json::from_str(text).ok()?,
        Format::Toml => from_toml(text.parse::<toml_edit::DocumentMut>().ok()?.as_item()),
        Format::Yaml => return None,
    };
    let places = crate::hook::servers::places(&root, &spot.key);
    let listed = places.iter().filter_map(|path| path.iter().try_fold(&root, |value, key| value.get(key)));
    let listed = listed.filter_map(Value::as_object).flatten();
    Some(listed.filter_map(|(name, entry)| server(name, entry, &spot.path)).collect())
}

/// As far as lists of servers go: tables, lists and texts.
pub(crate) fn from_toml(item: &toml_edit::Item) -> Value {
    if let Some(table) = item.as_table_like() {
        return Value::Object(table.iter().map(|(key, item)| (key.to_owned(), from_toml(item))).collect());
    }
    let text = |value: &toml_edit::Value| value.as_str().map_or(Value::Null, Value::from);
    match item.as_value() {
        Some(toml_edit::Value::Array(words)) => Value::Array(words.iter().map(text).collect()),
        Some(value) => text(value),
        None => Value::Null,
    }
}

fn server(name: &str, entry: &Value, file: &str) -> Option<Server> {
    let words = |value: &Value| match value {
        Value::String(word) => vec![word.clone()],
        Value::Array(words) => words.iter().filter_map(|word| word.as_str().map(str::to_owned)).collect(),
        _ => Vec::new(),
    };
    let mut argv = entry.get("command").map(words).unwrap_or_default();
    argv.extend(entry.get("args").map(words).unwrap_or_default());
    let has_url = ["url", "httpUrl", "serverUrl"].iter().any(|key| entry.get(key).is_some());
    let start = match argv.as_slice() {
        [] if has_url => Start::Remote,
        [] => return None,
        argv if is_caged(argv) => Start::Caged,
        _ => Start::Bare,
    };
    let variables = ["env", "environment"].iter().filter_map(|key| entry.get(key)?.as_object());
    let holds = |(name, value): (&String, &Value)| {
        let value = value.as_str()?;
        // `${NAME}` is a reference, and no value.
        let is_key = !value.is_empty()
            && !value.contains("${")
            && env::looks_like_credential(name.as_bytes(), value.as_bytes()).is_some();
        is_key.then(|| name.clone())
    };
    Some(Server {
        name: name.into(),
        file: file.into(),
        start,
        keys: variables.flatten().filter_map(holds).collect(),
    })
}

/// Whether a command begins with Keyward's own.
pub(crate) fn is_caged(argv: &[String]) -> bool {
    let program = argv.first().and_then(|program| program.rsplit('/').next());
    let word = argv.get(1).map(String::as_str);
    program == Some("keyward") && matches!(word, Some("mcp" | "run" | "exec" | "mcp-server"))
}

/// Whether the hooks of `keyward init` are in an agent's settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Hooks {
    /// As `keyward init` writes them.
    Intact,
    /// Some of them, or for a program that lies elsewhere.
    Changed,
    Missing,
    /// The settings cannot be read by the agent, so that none counts.
    Unreadable,
    /// There is no `keyward init` for this agent.
    Unknown,
}

/// What is known of one agent.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    pub agent: String,
    pub about: String,
    pub program: String,
    /// Whether its profile is compiled in.
    pub builtin: bool,
    /// What its tools can read in the cage of its profile, or why that could not be tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cage: Option<Exposure>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_tried: Option<String>,
    /// What they can read if it is started without Keyward: the control.
    pub bare: Vec<String>,
    pub hooks: Hooks,
    /// The word behind `keyward init`.
    #[serde(skip)]
    pub init: Option<&'static str>,
    pub servers: Vec<Server>,
    /// Settings that could not be read.
    pub unread: Vec<String>,
}

impl Report {
    /// Whether something is readable in the cage that should not be, or nothing could be tried.
    pub fn is_trouble(&self) -> bool {
        self.cage.as_ref().is_none_or(|cage| !cage.readable.is_empty())
    }

    /// The lines for a person.
    pub fn lines(&self) -> Vec<String> {
        let name = &self.agent;
        let profile = if self.builtin { "built-in profile" } else { "your profile" };
        let mut lines = vec![format!("{name}: {}, {}", self.about, self.program)];
        match (&self.cage, &self.not_tried) {
            (Some(cage), _) => {
                let all = cage.readable.len() + cage.replaced.len() + cage.hidden.len();
                lines.push(match cage.readable.len() {
                    0 => format!("  in a cage ({profile}), tried: its tools can read none of {all} secrets"),
                    some => format!(
                        "  in a cage ({profile}), tried: its tools can read {some} of {all} secrets: {}",
                        listed(&cage.readable)
                    ),
                });
                if !cage.replaced.is_empty() {
                    lines.push(format!(
                        "    they see a phantom or an empty file for {}",
                        listed(&cage.replaced)
                    ));
                }
            }
            (None, why) => {
                let why = why.as_deref().unwrap_or("unknown");
                lines.push(format!("  in a cage ({profile}): could not be tried: {why}"));
            }
        }
        lines.push(match self.bare.as_slice() {
            [] => "  started without Keyward: no secret that Keyward knows is there".into(),
            bare => format!("  started without Keyward: its tools can read {}: {}", bare.len(), listed(bare)),
        });
        let hooks = match self.hooks {
            Hooks::Intact => Some("  hooks of Keyward: in place; its commands run in a session"),
            Hooks::Changed => Some("  hooks of Keyward: changed since, so that some calls may pass by them"),
            Hooks::Missing => Some("  hooks of Keyward: none"),
            Hooks::Unreadable => {
                Some("  hooks of Keyward: its settings hold a mistake, and the agent ignores them")
            }
            Hooks::Unknown => None,
        };
        lines.extend(hooks.map(str::to_owned));
        for server in &self.servers {
            let how = match server.start {
                Start::Caged => "in a cage",
                Start::Bare => "without a cage of its own",
                Start::Remote => "elsewhere, by a URL",
            };
            let keys = match server.keys.as_slice() {
                [] => String::new(),
                keys => format!("; the file holds {}", listed(keys)),
            };
            lines.push(format!("  MCP server {} ({}): {how}{keys}", server.name, server.file));
        }
        lines.extend(self.unread.iter().map(|file| format!("  {file}: could not be read")));
        lines.extend(self.remedies().into_iter().map(|remedy| format!("  {remedy}")));
        lines
    }

    /// What can be done, each with a command that works when it is pasted.
    fn remedies(&self) -> Vec<String> {
        let name = &self.agent;
        let mut remedies = Vec::new();
        if self.cage.is_some() {
            remedies.push(format!("to start it in a cage: `keyward {name}`"));
        }
        if let (Hooks::Missing | Hooks::Changed, Some(agent)) = (self.hooks, self.init) {
            remedies.push(format!(
                "to start it as before, with its commands in a session: `keyward init {agent}`"
            ));
        }
        if self.servers.iter().any(|server| server.start == Start::Bare) {
            remedies.push("to give its MCP servers a cage of their own: `keyward init mcp`".into());
        }
        if self.cage.as_ref().is_some_and(|cage| !cage.readable.is_empty()) {
            remedies.push(format!("to see why it is readable: `keyward explain -p {name} -v -- {name}`"));
        }
        remedies
    }
}

/// The first names, and how many more there are.
fn listed(names: &[String]) -> String {
    const SHOWN: usize = 6;
    let more = names.len().saturating_sub(SHOWN);
    let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{tail}", names[..names.len() - more].join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(pairs: &[(&str, &str)]) -> Found {
        let variables = pairs.iter().map(|(name, digest)| ((*name).into(), (*digest).into())).collect();
        Found { variables, ..Found::default() }
    }

    #[test]
    fn what_is_the_same_inside_is_readable_and_the_rest_is_replaced_or_hidden() {
        let exposure = Exposure::of(
            &found(&[("A", "1"), ("B", "2"), ("C", "3")]),
            &found(&[("A", "1"), ("B", "9"), ("D", "4")]),
        );
        let names = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            exposure,
            Exposure { readable: names(&["A"]), replaced: names(&["B"]), hidden: names(&["C"]) }
        );
    }

    #[test]
    fn servers_are_found_with_how_they_start_and_which_keys_the_file_holds() {
        let spot = |format, key: &str| Spot { path: "~/x".into(), format, key: key.into() };
        let json = r#"{"mcpServers": {
            "a": {"command": "npx", "args": ["-y", "s"], "env": {"GITHUB_TOKEN": "ghp_0123456789abcdef0123456789abcdef0123", "EMPTY_TOKEN": "", "REF_TOKEN": "${X}", "MODE": "fast"}},
            "b": {"command": "/usr/bin/keyward", "args": ["mcp", "--", "npx", "s"]},
            "c": {"type": "http", "url": "https://example.com/mcp"},
            "d": {}
        }}"#;
        let all = servers(&spot(Format::Json, "mcpServers"), json).unwrap();
        let short: Vec<_> =
            all.iter().map(|one| (one.name.as_str(), one.start, one.keys.join(","))).collect();
        assert_eq!(
            short,
            [
                ("a", Start::Bare, "GITHUB_TOKEN".into()),
                ("b", Start::Caged, String::new()),
                ("c", Start::Remote, String::new())
            ]
        );
        let toml = "[mcp_servers.x]\ncommand = \"keyward\"\nargs = [\"mcp\", \"--\", \"uvx\", \"y\"]\n";
        assert_eq!(servers(&spot(Format::Toml, "mcp_servers"), toml).unwrap()[0].start, Start::Caged);
        let list = r#"{"mcp": {"x": {"type": "local", "command": ["npx", "y"]}}}"#;
        assert_eq!(servers(&spot(Format::Json, "mcp"), list).unwrap()[0].start, Start::Bare);
        let local = r#"{"projects": {"/srv/a.b": {"mcpServers": {"x": {"command": "npx"}}}, "/srv/c": {}}}"#;
        assert_eq!(servers(&spot(Format::Json, "projects.*.mcpServers"), local).unwrap().len(), 1);
        assert_eq!(servers(&spot(Format::Json, "mcp"), "{ not json"), None);
        assert_eq!(servers(&spot(Format::Json, "mcp"), ""), Some(Vec::new()));
    }

    #[test]
    fn an_agent_with_something_readable_in_its_cage_is_trouble() {
        let cage = Exposure { readable: vec!["A".into()], ..Exposure::default() };
        let report = Report {
            agent: "claude".into(),
            about: "an agent".into(),
            program: "/usr/bin/claude".into(),
            builtin: true,
            cage: Some(cage),
            not_tried: None,
            bare: vec!["A".into(), "B".into()],
            hooks: Hooks::Missing,
            init: Some("claude-code"),
            servers: Vec::new(),
            unread: Vec::new(),
        };
        assert!(report.is_trouble());
        let fine = Report { cage: Some(Exposure::default()), ..report.clone() };
        assert!(!fine.is_trouble());
        insta::assert_snapshot!([report.lines(), fine.lines()].concat().join("\n"), @r"
        claude: an agent, /usr/bin/claude
          in a cage (built-in profile), tried: its tools can read 1 of 1 secrets: A
          started without Keyward: its tools can read 2: A, B
          hooks of Keyward: none
          to start it in a cage: `keyward claude`
          to start it as before, with its commands in a session: `keyward init claude-code`
          to see why it is readable: `keyward explain -p claude -v -- claude`
        claude: an agent, /usr/bin/claude
          in a cage (built-in profile), tried: its tools can read none of 0 secrets
          started without Keyward: its tools can read 2: A, B
          hooks of Keyward: none
          to start it in a cage: `keyward claude`
          to start it as before, with its commands in a session: `keyward init claude-code`
        ");
    }
}
