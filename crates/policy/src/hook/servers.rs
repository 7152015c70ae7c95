//! MCP servers in the settings of agents: `keyward mcp` is put before the command of each, and taken away again.

use super::json::{self, Kind, Node};
use super::settings::NotChanged;
use crate::agent::{Format, Spot};
use crate::config::checks;
use crate::detect::registry;
use crate::protection::{from_toml, is_caged};
use crate::{env, provider};
use serde_json::Value;
use toml_edit::{Document, Item, TableLike};

/// A server that a settings file starts as a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// The keys that lead to it; the last one is its name.
    pub at: Vec<String>,
    /// Its program and arguments.
    words: Vec<String>,
    /// Whether both stand in one list.
    is_list: bool,
    /// The variables that the file gives it.
    variables: Vec<(String, String)>,
}

/// What is done about a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    pub server: String,
    /// Its words from now on, for people: without what looks like a credential.
    pub shown: String,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// It stays as it is.
    Left(&'static str),
    Caged {
        /// Variables that hold a phantom instead.
        phantoms: Vec<String>,
        /// Variables that look like credentials, and that no host is known for.
        kept_back: Vec<String>,
        /// Paths of its arguments that it is shown.
        paths: Vec<Shown>,
    },
}

/// A path that a server is shown because its arguments name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    pub path: String,
    /// Whether it may write there.
    pub writable: bool,
}

/// Programs that start a container.
const ENGINES: &[&str] = &["docker", "podman", "nerdctl", "finch"];

impl Server {
    pub fn name(&self) -> &str {
        self.at.last().map(String::as_str).unwrap_or_default()
    }

    pub fn is_caged(&self) -> bool {
        is_caged(&self.words)
    }

    fn is_container(&self) -> bool {
        let program = self.words.first().and_then(|program| program.rsplit('/').next());
        program.is_some_and(|program| ENGINES.contains(&program))
    }

    /// The paths that its words name.
    fn paths(&self) -> impl Iterator<Item = &str> {
        let path = |word: &'_ String| word.starts_with('/').then_some(0).or(word.find("=/").map(|at| at + 1));
        self.words.iter().filter_map(move |word| word.get(path(word)?..))
    }

    /// The words that start it in a cage, and what that means for it.
    fn caged(&self, keyward: &str, look: &dyn Fn(&str) -> Option<Shown>) -> (Vec<String>, What) {
        let mut words = vec![keyward.to_owned(), "mcp".to_owned()];
        let mut flag = |flag: &str, value: &str| words.extend([flag.to_owned(), value.to_owned()]);
        let (mut phantoms, mut kept_back) = (Vec::new(), Vec::new());
        for (name, value) in &self.variables {
            let has_host = provider::of_variable(name)
                .is_some_and(|provider| provider.name != "aws" && !provider.hosts.is_empty());
            if checks::env_name("env", name).is_err() {
                continue;
            } else if has_host {
                flag("--secret", name);
                phantoms.push(name.clone());
            } else if env::looks_like_credential(name.as_bytes(), value.as_bytes()).is_some() {
                kept_back.push(name.clone());
            } else if !env::is_loader(name.as_bytes()) {
                flag("--pass", name);
            }
        }
        let mut paths: Vec<Shown> = Vec::new();
        for shown in self.paths().filter_map(look) {
            if !paths.iter().any(|known| known.path == shown.path) {
                flag(if shown.writable { "--write" } else { "--read" }, &shown.path);
                paths.push(shown);
            }
        }
        words.push("--".to_owned());
        words.extend(self.words.iter().cloned());
        (words, What::Caged { phantoms, kept_back, paths })
    }

    /// The words without Keyward's.
    fn bare(&self) -> Option<Vec<String>> {
        let is_own = self.is_caged() && self.words.get(1).is_some_and(|word| word == "mcp");
        let end = self.words.iter().position(|word| word == "--").filter(|_| is_own)?;
        self.words.get(end + 1..).filter(|words| !words.is_empty()).map(<[String]>::to_vec)
    }
}

/// The servers of a settings file that start a program.
pub fn servers(spot: &Spot, text: &str) -> Result<Vec<Server>, NotChanged> {
    let root = match spot.format {
        Format::Json => {
            let root = json::parse(text).map_err(NotChanged::Malformed)?;
            value_of(&root)
        }
        Format::Toml => from_toml(document(text)?.as_item()),
        Format::Yaml => return Err(NotChanged::InTheWay("YAML".into())),
    };
    let mut found = Vec::new();
    for above in places(&root, &spot.key) {
        let listed = at(&root, &above).and_then(Value::as_object).into_iter().flatten();
        found.extend(listed.filter_map(|(name, entry)| server(&above, name, entry)));
    }
    Ok(found)
}

/// Puts Keyward before each server that is not in a cage yet. `look` says what a path of its arguments is.
pub fn caged(
    spot: &Spot,
    text: &str,
    keyward: &str,
    look: &dyn Fn(&str) -> Option<Shown>,
) -> Result<(String, Vec<Done>), NotChanged> {
    let (mut text, mut all) = (text.to_owned(), Vec::new());
    for server in servers(spot, &text)?.into_iter().filter(|server| !server.is_caged()) {
        let (words, what) = match server.is_container() {
            true => {
                let why = "it starts a container, and a cage reaches no container engine";
                (server.words.clone(), What::Left(why))
            }
            false => server.caged(keyward, look),
        };
        if words != server.words {
            text = written(spot, &text, &server, &words)?;
        }
        all.push(Done { server: server.name().to_owned(), shown: shown(&words), what });
    }
    Ok((text, all))
}

/// Words as a person reads them.
fn shown(words: &[String]) -> String {
    let word = |word: &String| match registry::value_shape(word.as_bytes()) {
        Some(_) => "…".to_owned(),
        None if word.contains([' ', '\'', '"']) || word.is_empty() => super::wrapper::quoted(word),
        None => word.clone(),
    };
    words.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Takes Keyward away from the servers that `is_meant` names.
pub fn uncaged(spot: &Spot, text: &str, is_meant: &dyn Fn(&Server) -> bool) -> Result<String, NotChanged> {
    let mut text = text.to_owned();
    for server in servers(spot, &text)?.into_iter().filter(|server| is_meant(server)) {
        if let Some(words) = server.bare() {
            text = written(spot, &text, &server, &words)?;
        }
    }
    Ok(text)
}

/// The places that a key with `*` in it names.
pub(crate) fn places(root: &Value, key: &str) -> Vec<Vec<String>> {
    let mut paths: Vec<Vec<String>> = vec![Vec::new()];
    for part in key.split('.') {
        let mut longer = Vec::new();
        for path in paths {
            let members = at(root, &path).and_then(Value::as_object).into_iter().flatten();
            for (name, _) in members.filter(|(name, _)| part == "*" || *name == part) {
                longer.push([path.as_slice(), std::slice::from_ref(name)].concat());
            }
        }
        paths = longer;
    }
    paths
}

fn at<'v>(root: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(root, |value, key| value.get(key))
}

fn server(above: &[String], name: &str, entry: &Value) -> Option<Server> {
    let texts = |value: &Value| -> Option<Vec<String>> {
        value.as_array()?.iter().map(|word| word.as_str().map(str::to_owned)).collect()
    };
    let command = entry.get("command")?;
    let is_list = command.is_array();
    let mut words = if is_list { texts(command)? } else { vec![command.as_str()?.to_owned()] };
    if let Some(arguments) = entry.get("args").filter(|_| !is_list) {
        words.extend(texts(arguments)?);
    }
    let given = ["env", "environment"].iter().filter_map(|key| entry.get(key)?.as_object());
    let variables = given
        .flatten()
        .map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned()))
        .collect();
    let at = [above, &[name.to_owned()]].concat();
    (!words.first()?.is_empty()).then_some(Server { at, words, is_list, variables })
}

/// The text with other words for a server.
fn written(spot: &Spot, text: &str, server: &Server, words: &[String]) -> Result<String, NotChanged> {
    let in_the_way = || NotChanged::InTheWay(server.at.join("."));
    let (program, rest) = words.split_first().ok_or_else(in_the_way)?;
    match spot.format {
        Format::Json => {
            let key = |name: &'static str| -> Vec<&str> {
                server.at.iter().map(String::as_str).chain([name]).collect()
            };
            let set = |text: &str, name, value: Value| json::set(text, &key(name), &value);
            let changed = match server.is_list {
                true => set(text, "command", words.into()),
                false => set(text, "command", program.as_str().into())
                    .and_then(|text| set(&text, "args", rest.into())),
            };
            changed.ok_or_else(in_the_way)
        }
        Format::Toml => {
            let document = document(text)?;
            let found = server.at.iter().try_fold(document.as_item(), |item, key| item.get(key));
            let table = found.and_then(Item::as_table_like).ok_or_else(in_the_way)?;
            let changed = match server.is_list {
                true => replaced(text, table, &[("command", list(words))]),
                false => replaced(text, table, &[("command", quoted(program)), ("args", list(rest))]),
            };
            changed.ok_or_else(in_the_way)
        }
        Format::Yaml => Err(in_the_way()),
    }
}

/// The text with other values in a table of TOML, each where it stands or behind the one before it.
fn replaced(text: &str, table: &dyn TableLike, values: &[(&str, String)]) -> Option<String> {
    let (mut out, mut copied) = (String::new(), 0);
    let mut behind = 0;
    let mut changes: Vec<(std::ops::Range<usize>, String)> = Vec::new();
    for (key, value) in values {
        match table.get(key) {
            Some(there) => {
                let span = there.span()?;
                behind = span.end;
                changes.push((span, value.clone()));
            }
            None => {
                let before = if text.get(behind..)?.trim_start_matches([' ', '\t']).starts_with(['}', ',']) {
                    ", "
                } else {
                    "\n"
                };
                changes.push((behind..behind, format!("{before}{key} = {value}")));
            }
        }
    }
    changes.sort_by_key(|(range, _)| range.start);
    for (range, value) in changes {
        out += text.get(copied..range.start)?;
        out += &value;
        copied = range.end;
    }
    Some(out + text.get(copied..)?)
}

/// A basic string of TOML, which is written as one of JSON.
fn quoted(word: &str) -> String {
    Value::from(word).to_string()
}

fn list(words: &[String]) -> String {
    format!("[{}]", words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(", "))
}

fn document(text: &str) -> Result<Document<&str>, NotChanged> {
    Document::parse(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let before = text.get(..start).unwrap_or_default();
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let line = before.matches('\n').count() + 1;
        NotChanged::Malformed(json::Malformed { line, column, what: "this is not TOML" })
    })
}

/// As far as lists of servers go: objects, lists and texts.
fn value_of(node: &Node) -> Value {
    match &node.kind {
        Kind::Object(members) => {
            members.iter().map(|member| (member.key.clone(), value_of(&member.value))).collect()
        }
        Kind::Array(elements) => elements.iter().map(value_of).collect(),
        Kind::Text(text) => text.as_str().into(),
        Kind::Plain => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spot(format: Format, key: &str) -> Spot {
        Spot { path: "~/x".into(), format, key: key.into() }
    }

    fn look(path: &str) -> Option<Shown> {
        match path {
            "/srv/docs" => Some(Shown { path: path.into(), writable: true }),
            "/srv/tool/dist/main.js" => Some(Shown { path: "/srv/tool".into(), writable: false }),
            _ => None,
        }
    }

    const JSON: &str = r#"{
  "theme": "dark", // mine
  "mcpServers": {
    "github": {
      "command": "npx",
      "args": ["-y", "server-github"],
      "env": { "GITHUB_TOKEN": "ghp_x", "ACME_API_KEY": "x", "MODE": "fast", "LD_PRELOAD": "/x.so" }
    },
    "files": { "command": "node", "args": ["/srv/tool/dist/main.js", "--root=/srv/docs", "/none"] },
    "plain": { "command": "my-server" },
    "box": { "command": "/usr/bin/docker", "args": ["run", "-i", "x"] },
    "done": { "command": "keyward", "args": ["mcp", "--", "npx", "y"] },
    "far": { "type": "http", "url": "https://example.com/mcp" }
  }
}
"#;

    #[test]
    fn each_server_gets_a_cage_with_what_its_settings_give_it() {
        let spot = spot(Format::Json, "mcpServers");
        let (text, done) = caged(&spot, JSON, "/usr/bin/keyward", &look).unwrap();
        insta::assert_snapshot!(text);
        insta::assert_debug_snapshot!(done);
        // Once more changes nothing, and what the user has put into a cage stays there.
        assert_eq!(caged(&spot, &text, "/usr/bin/keyward", &look).unwrap().0, text);
        let before = servers(&spot, JSON).unwrap();
        let was_bare =
            |server: &Server| before.iter().any(|other| other.at == server.at && !other.is_caged());
        let back = uncaged(&spot, &text, &was_bare).unwrap();
        let read = |text: &str| value_of(&json::parse(text).unwrap());
        let (mut back, before) = (read(&back), read(JSON));
        // A server without arguments has none in the end, and does not say so.
        back["mcpServers"]["plain"].as_object_mut().unwrap().remove("args");
        assert_eq!(back, before);
    }

    #[test]
    fn servers_of_single_projects_and_lists_of_words_are_found() {
        let local = r#"{"projects": {"/srv/a.b": {"mcpServers": {"x": {"command": "npx", "args": ["x"]}}}, "/srv/c": {}}}"#;
        let (text, done) =
            caged(&spot(Format::Json, "projects.*.mcpServers"), local, "keyward", &look).unwrap();
        assert_eq!(done.len(), 1);
        let changed = r#""x": {"command": "keyward", "args": ["mcp", "--", "npx", "x"]}"#;
        assert!(text.contains(changed), "{text}");
        let list =
            r#"{"mcp": {"x": {"type": "local", "command": ["npx", "y"], "environment": {"MODE": "a"}}}}"#;
        let (text, _) = caged(&spot(Format::Json, "mcp"), list, "keyward", &look).unwrap();
        assert!(text.contains(r#"["keyward", "mcp", "--pass", "MODE", "--", "npx", "y"]"#), "{text}");
        assert_eq!(uncaged(&spot(Format::Json, "mcp"), &text, &|_| true).unwrap(), list);
    }

    #[test]
    fn toml_keeps_its_comments() {
        let spot = spot(Format::Toml, "mcp_servers");
        let toml = "model = \"x\" # mine\n\n[mcp_servers.a]\ncommand = \"uvx\" # runner\nargs = [\"y\"]\n\n[mcp_servers.a.env]\nOPENAI_API_KEY = \"sk\"\n";
        let (text, _) = caged(&spot, toml, "/usr/bin/keyward", &look).unwrap();
        insta::assert_snapshot!(text, @r#"
        model = "x" # mine

        [mcp_servers.a]
        command = "/usr/bin/keyward" # runner
        args = ["mcp", "--secret", "OPENAI_API_KEY", "--", "uvx", "y"]

        [mcp_servers.a.env]
        OPENAI_API_KEY = "sk"
        "#);
        assert_eq!(uncaged(&spot, &text, &|_| true).unwrap(), toml);
        let wrong = caged(&spot, "a = 1\nb = = 2\n", "keyward", &look).unwrap_err();
        assert!(matches!(wrong, NotChanged::Malformed(json::Malformed { line: 2, .. })), "{wrong:?}");
    }
}
