//! The file of an agent: a strict reader with file, line and column in its mistakes.
//!
//! ```toml
//! version = 1
//! about = "Claude Code"
//! programs = ["claude"]
//! install = "npm install -g @anthropic-ai/claude-code"
//! keys = ["anthropic", "claude"]
//! paths = { MY_AGENT_CONFIG = "read" }
//! arguments = ["--settings", '{"sandbox":{"enabled":false}}']
//!
//! [policy]
//! trust = "executor"
//! net.allow = ["anthropic"]
//!
//! [[mcp]]
//! path = "~/.claude.json"
//! format = "json"
//! key = "mcpServers"
//! ```

use super::{Access, Agent, Format, Hand, Spot, own};
use crate::config::mistake::{listed, quoted};
use crate::config::read::{offset_of, policy_table};
use crate::config::source::{Report, Source};
use crate::config::typed::{kind_of, place};
use crate::config::value::Values;
use crate::config::{Document, Mistake, Unfit, checks, nearest};
use crate::provider::{self, Provider};
use toml_edit::{Item, TableLike};

const KEYS: [&str; 15] = [
    "version",
    "about",
    "programs",
    "install",
    "log_in",
    "keys",
    "hand",
    "paths",
    "arguments",
    "policy",
    "mcp",
    "hooks",
    "home",
    "login",
    "provider",
];

/// Reads the profile of this name: the agent, or all mistakes of the file.
pub fn read(name: &str, document: &Document<'_>) -> Result<Agent, Vec<Mistake>> {
    read_as(name, document, None)
}

/// The same; a built-in one is the origin of its values.
pub(super) fn read_as(
    name: &str,
    document: &Document<'_>,
    builtin: Option<&'static str>,
) -> Result<Agent, Vec<Mistake>> {
    let mut source = Source::new(document.name, document.text).map_err(|mistake| vec![mistake])?;
    if let Some(profile) = builtin {
        source = source.of_profile(profile);
    }
    let toml = source.parse().map_err(|mistake| vec![mistake])?;
    let mut agent = Agent {
        name: name.to_owned(),
        about: String::new(),
        programs: Vec::new(),
        install: None,
        log_in: None,
        keys: Vec::new(),
        paths: Vec::new(),
        arguments: Vec::new(),
        hands: Vec::new(),
        mcp: Vec::new(),
        hooks: Vec::new(),
        is_builtin: builtin.is_some(),
        origin: source.origin(0),
        values: Values::default(),
    };
    let mut reading = Reading { report: Report::new(&source) };
    if let Err(unfit) = checks::profile_name(name) {
        reading.report.add(0, unfit);
    }
    for required in ["version", "programs"] {
        if !toml.contains_key(required) {
            let remedy = match required {
                "version" => "begin it with `version = 1`".to_owned(),
                _ => format!("name its program: `programs = [\"{name}\"]`"),
            };
            reading.report.add(0, Unfit::new(format!("the profile has no {required}"), remedy));
        }
    }
    for (key, item) in toml.iter() {
        let offset = offset_of(toml.as_table(), key, item);
        if key == "keys" {
            agent.origin = source.origin(offset);
        }
        match key {
            "version" if item.as_integer() == Some(1) => {}
            "version" => {
                let unfit = Unfit::new("there is no such version", "write `version = 1`");
                reading.report.add(place(item, offset), unfit);
            }
            "about" => agent.about = reading.text(key, item, offset).unwrap_or_default(),
            "install" => agent.install = reading.text(key, item, offset),
            "log_in" => agent.log_in = reading.text(key, item, offset),
            "programs" => agent.programs = reading.list(key, item, offset, program),
            "arguments" => agent.arguments = reading.list(key, item, offset, |text| Ok(text.to_owned())),
            "keys" => agent.keys = reading.list(key, item, offset, provider_named),
            "hand" => agent.hands = reading.hands(item, offset),
            "paths" => agent.paths = reading.paths(item, offset),
            "mcp" => agent.mcp = reading.spots(key, item, offset),
            "hooks" => agent.hooks = reading.spots(key, item, offset),
            "policy" => match item.as_table_like() {
                Some(table) => {
                    let (report, values) = policy_table(reading.report, table, "policy.");
                    (reading.report, agent.values) = (report, values);
                }
                None => reading.wrong("policy", "a table", item, offset, "write its keys below `[policy]`"),
            },
            "home" | "login" | "provider" => {}
            other => reading.report.add(offset, unknown(other, &KEYS)),
        }
    }
    // Those of a built-in profile are compiled in.
    if builtin.is_none() {
        for (offset, unfit) in own::mistakes(name, toml.as_table()) {
            reading.report.add(offset, unfit);
        }
    }
    let mistakes = reading.report.into_mistakes();
    if mistakes.is_empty() { Ok(agent) } else { Err(mistakes) }
}

/// A program is found in PATH by its name.
fn program(text: &str) -> Result<String, Unfit> {
    match text.is_empty() || text.contains('/') || text.chars().any(char::is_control) {
        true => Err(Unfit::new(
            format!("{} is not the name of a program", quoted(text)),
            "write it without a path",
        )),
        false => Ok(text.to_owned()),
    }
}

fn provider_named(text: &str) -> Result<&'static Provider, Unfit> {
    provider::named(text).ok_or_else(|| {
        let names = provider::all().map(|provider| provider.name);
        let remedy = match nearest(text, names) {
            Some(meant) => format!("did you mean {}", quoted(meant)),
            None => "a key of another provider is kept with `keyward secret set NAME --to HOST --as VAR` and named in \
                     `policy.secrets`"
                .to_owned(),
        };
        Unfit::new(format!("keys: unknown provider {}", quoted(text)), remedy)
    })
}

fn unknown(key: &str, known: &[&'static str]) -> Unfit {
    let fact = format!("there is no key {}", quoted(key));
    // What is missing most often is the table around it.
    let of_policy = crate::config::KEYS.iter().any(|own| own.path == key || own.group() == Some(key));
    match nearest(key, known.iter().copied()) {
        Some(meant) => Unfit::new(fact, format!("did you mean {}", quoted(meant))),
        None if of_policy => Unfit::new(fact, format!("write it below `[policy]`, as `policy.{key}`")),
        None => Unfit::new(fact, format!("known here: {}", listed(known))),
    }
}

struct Reading<'s, 'a> {
    report: Report<'s, 'a>,
}

impl Reading<'_, '_> {
    fn wrong(&mut self, key: &str, wanted: &str, item: &Item, offset: usize, remedy: &str) {
        let fact = format!("{key} wants {wanted}, found {}", kind_of(item));
        self.report.add(place(item, offset), Unfit::new(fact, remedy));
    }

    fn text(&mut self, key: &str, item: &Item, offset: usize) -> Option<String> {
        match item.as_str() {
            Some(text) => match checks::plain(key, text) {
                Ok(()) => return Some(text.to_owned()),
                Err(unfit) => self.report.add(place(item, offset), unfit),
            },
            None => self.wrong(key, "a string", item, offset, "write it in \"quotes\""),
        }
        None
    }

    fn list<T>(
        &mut self,
        key: &str,
        item: &Item,
        offset: usize,
        read: impl Fn(&str) -> Result<T, Unfit>,
    ) -> Vec<T> {
        let Some(array) = item.as_array() else {
            self.wrong(key, "a list of strings", item, offset, "write it as [\"one\", \"another\"]");
            return Vec::new();
        };
        let mut out = Vec::new();
        for value in array {
            let at = value.span().map_or(offset, |span| span.start);
            let read = match value.as_str() {
                Some(text) => checks::plain(key, text).and_then(|()| read(text)),
                None => Err(Unfit::new(format!("{key} wants strings"), "write each in \"quotes\"")),
            };
            match read {
                Ok(one) => out.push(one),
                Err(unfit) => self.report.add(at, unfit),
            }
        }
        out
    }

    fn paths(&mut self, item: &Item, offset: usize) -> Vec<(String, Access)> {
        let Some(table) = item.as_table_like() else {
            let remedy = "write it as { VARIABLE = \"read\" }";
            self.wrong("paths", "a table", item, offset, remedy);
            return Vec::new();
        };
        let mut out = Vec::new();
        for (name, item) in table.iter() {
            let offset = offset_of(table, name, item);
            if let Err(unfit) = checks::env_name("paths", name) {
                self.report.add(offset, unfit);
                continue;
            }
            match item.as_str() {
                Some("read") => out.push((name.to_owned(), Access::Read)),
                Some("write") => out.push((name.to_owned(), Access::Write)),
                _ => {
                    let fact = format!("paths.{name} is neither \"read\" nor \"write\"");
                    let remedy = "say whether the agent may change what the variable names";
                    self.report.add(place(item, offset), Unfit::new(fact, remedy));
                }
            }
        }
        out
    }

    fn hands(&mut self, item: &Item, offset: usize) -> Vec<Hand> {
        let Some(table) = item.as_table_like() else {
            self.wrong("hand", "a table", item, offset, "write each below `[hand.PROVIDER]`");
            return Vec::new();
        };
        let mut out = Vec::new();
        for (name, item) in table.iter() {
            let offset = offset_of(table, name, item);
            let provider = match provider_named(name) {
                Ok(provider) => provider.name,
                Err(unfit) => {
                    self.report.add(offset, unfit);
                    continue;
                }
            };
            let (mut variable, mut arguments) = (None, Vec::new());
            for (key, item) in item.as_table_like().into_iter().flat_map(TableLike::iter) {
                match key {
                    "variable" => variable = self.text("hand.variable", item, offset),
                    "arguments" => {
                        arguments = self.list("hand.arguments", item, offset, |text| Ok(text.to_owned()));
                    }
                    other => self.report.add(offset, unknown(other, &["variable", "arguments"])),
                }
            }
            let named = variable.filter(|name| checks::env_name("hand.variable", name).is_ok());
            match named {
                Some(variable) => out.push(Hand { provider, variable, arguments }),
                None => {
                    let fact = format!("hand.{name} names no variable");
                    let remedy = "write `variable = \"NAME\"`, the one that the arguments lead the agent to";
                    self.report.add(offset, Unfit::new(fact, remedy));
                }
            }
        }
        out
    }

    fn spots(&mut self, key: &str, item: &Item, offset: usize) -> Vec<Spot> {
        let Some(tables) = item.as_array_of_tables() else {
            self.wrong(key, "tables", item, offset, &format!("write each below `[[{key}]]`"));
            return Vec::new();
        };
        let mut out = Vec::new();
        for table in tables {
            let offset = table.span().map_or(offset, |span| span.start);
            out.extend(self.spot(key, table, offset));
        }
        out
    }

    fn spot(&mut self, key: &str, table: &dyn TableLike, offset: usize) -> Option<Spot> {
        for (name, item) in table.iter().filter(|(name, _)| !["path", "format", "key"].contains(name)) {
            self.report.add(offset_of(table, name, item), unknown(name, &["path", "format", "key"]));
        }
        let mut text = |name: &str| match table.get(name) {
            Some(item) => self.text(&format!("{key}.{name}"), item, offset),
            None => {
                let remedy = format!("write path, format and key below `[[{key}]]`");
                self.report.add(offset, Unfit::new(format!("{key} has no {name}"), remedy));
                None
            }
        };
        let (path, format, below) = (text("path"), text("format"), text("key"));
        let format = match format?.as_str() {
            "json" => Format::Json,
            "toml" => Format::Toml,
            "yaml" => Format::Yaml,
            other => {
                let fact = format!("{key}.format does not know {}", quoted(other));
                self.report.add(offset, Unfit::new(fact, "choose one of \"json\", \"toml\", \"yaml\""));
                return None;
            }
        };
        Some(Spot { path: path?, format, key: below? })
    }
}
