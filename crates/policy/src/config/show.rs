//! The effective policy as TOML, each value with the place it came from.

use super::keys::{Id, KEYS};
use super::units;
use crate::settings::Policy;
use crate::words::{NetAsk, Origin, Ruled};
use serde_json::json;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The effective policy as a user's policy file would say it. Empty lists and absent limits are left out.
pub fn show(policy: &Policy) -> String {
    let mut out = String::from("# the effective policy");
    if let Some(profile) = &policy.profile {
        let _ = write!(out, " with the profile {}", text(profile));
    }
    for ignored in &policy.sources.ignored {
        let _ = write!(out, "\n# {}", ignored.sentence());
    }
    out.push_str("\nversion = 1\n");
    let mut group = None;
    for key in KEYS.iter().filter(|key| !key.is_header()) {
        let lines = lines(policy, key.id, key.leaf());
        if lines.is_empty() {
            continue;
        }
        if key.group() != group {
            group = key.group();
            let _ = write!(out, "\n[{}]\n", group.unwrap_or_default());
        }
        out.push_str(&lines);
    }
    out
}

/// The same for programs: each key that says something, with its value and the place it came from.
pub fn show_json(policy: &Policy) -> serde_json::Value {
    let one = |Set { value, origin }: &Set<'_>| {
        let value = match value {
            Spelled::Text(text) => json!(text),
            Spelled::Number(number) => json!(number),
            Spelled::Switch(on) => json!(on),
        };
        json!({ "value": value, "origin": origin })
    };
    let mut settings = serde_json::Map::new();
    for key in KEYS.iter().filter(|key| !key.is_header()) {
        let value = match says(policy, key.id) {
            Says::Nothing => continue,
            Says::One(set) => one(&set),
            Says::List(list) => list.iter().map(one).collect(),
            Says::Table(rows) => {
                let rows = rows.iter().map(|(name, set)| ((*name).to_owned(), one(set)));
                serde_json::Value::Object(rows.collect())
            }
        };
        let name =
            key.group().map_or_else(|| key.leaf().to_owned(), |group| format!("{group}.{}", key.leaf()));
        settings.insert(name, value);
    }
    let ignored: Vec<String> = policy.sources.ignored.iter().map(|file| file.sentence()).collect();
    json!({ "v": 1, "profile": policy.profile, "settings": settings, "ignored": ignored })
}

/// What a policy says of one key.
enum Says<'a> {
    Nothing,
    One(Set<'a>),
    List(Vec<Set<'a>>),
    /// By names of its own.
    Table(Vec<(&'a str, Set<'a>)>),
}

/// A value, and where it came from.
struct Set<'a> {
    value: Spelled,
    origin: &'a Origin,
}

/// A value as a file says it.
enum Spelled {
    Text(String),
    Number(u64),
    Switch(bool),
}

/// The lines of one key; none where it says nothing.
fn lines(policy: &Policy, id: Id, leaf: &str) -> String {
    match says(policy, id) {
        Says::Nothing => String::new(),
        Says::One(set) => line(leaf, &set),
        Says::List(list) => {
            let mut out = format!("{leaf} = [\n");
            for set in list {
                let _ = writeln!(out, "    {}, # {}", set.value.toml(), comment(set.origin));
            }
            out.push_str("]\n");
            out
        }
        Says::Table(rows) => rows.iter().map(|(name, set)| line(&format!("{leaf}.{name}"), set)).collect(),
    }
}

fn line(name: &str, set: &Set<'_>) -> String {
    format!("{name} = {} # {}\n", set.value.toml(), comment(set.origin))
}

impl Spelled {
    fn toml(&self) -> String {
        match self {
            Spelled::Text(value) => text(value),
            Spelled::Number(number) => number.to_string(),
            Spelled::Switch(on) => on.to_string(),
        }
    }
}

/// What it says of this one.
fn says(policy: &Policy, id: Id) -> Says<'_> {
    let limits = &policy.limits;
    match id {
        Id::Version | Id::Profiles => Says::Nothing,
        Id::Trust => word(policy.trust.value.as_str(), &policy.trust.origin),
        Id::Floor => word(policy.floor.value.as_str(), &policy.floor.origin),
        Id::Project => word(policy.project.value.as_str(), &policy.project.origin),
        Id::FilesProtect => word(policy.protect.value.as_str(), &policy.protect.origin),
        Id::FilesSearch => word(policy.search.value.as_str(), &policy.search.origin),
        Id::HomeMode => word(policy.home.mode.value.as_str(), &policy.home.mode.origin),
        Id::HomePath => one(policy.home.path.as_ref(), |path| path_text(path)),
        Id::HomeTools => list(&policy.home.tools, |tool| Spelled::Text(tool.name.into())),
        Id::HomeShare => list(&policy.home.share, |tool| Spelled::Text(tool.name.into())),
        Id::HomeKeyring => word(policy.home.keyring.value.as_str(), &policy.home.keyring.origin),
        Id::NetMode => word(policy.net.value.as_str(), &policy.net.origin),
        Id::NetAllow => list(&policy.network.allow, |allowed| Spelled::Text(allowed.to_string())),
        Id::NetAsk => Says::One(Set {
            value: Spelled::Switch(policy.network.ask.value == NetAsk::Yes),
            origin: &policy.network.ask.origin,
        }),
        Id::NetReach => list(&policy.network.reach, |port| Spelled::Number((*port).into())),
        Id::NetPublish => list(&policy.network.publish, |port| Spelled::Number((*port).into())),
        Id::NetUpstream => list(&policy.network.upstream, |upstream| Spelled::Text(upstream.to_string())),
        Id::NetCa => paths(&policy.network.ca),
        Id::GateMode => word(policy.gate.mode.value.as_str(), &policy.gate.mode.origin),
        Id::GateAttended => word(policy.gate.attended.value.as_str(), &policy.gate.attended.origin),
        Id::GateWait => one(policy.gate.wait.as_ref(), time),
        Id::GateRules => one(policy.gate.rules.as_ref(), |path| path_text(path)),
        Id::GateJudge => names(&policy.gate.judge),
        Id::GateJudgeWait => one(policy.gate.judge_wait.as_ref(), time),
        Id::GateWebhook => one(policy.gate.webhook.as_ref(), |url| Spelled::Text(url.clone())),
        Id::GateWebhookKey => one(policy.gate.webhook_key.as_ref(), |name| Spelled::Text(name.clone())),
        Id::GateWebhookCa => one(policy.gate.webhook_ca.as_ref(), |path| path_text(path)),
        Id::GateWebhookListen => {
            one(policy.gate.webhook_listen.as_ref(), |address| Spelled::Text(address.clone()))
        }
        Id::Allow => list(&policy.allow, |word| Spelled::Text(word.as_str().into())),
        Id::InheritCredentials => names(&policy.inherit_credentials),
        Id::Secrets => list(&policy.secrets, |grant| Spelled::Text(grant.to_string())),
        Id::Redact => word(policy.redact.value.as_str(), &policy.redact.origin),
        Id::EnvPass => names(&policy.env.pass),
        Id::EnvSet => variables(&policy.env.set),
        Id::EnvNotSecret => names(&policy.env.not_secret),
        Id::EnvDangerousLoaderEnv => names(&policy.env.dangerous_loader_env),
        Id::FilesRead => paths(&policy.files.read),
        Id::FilesWrite => paths(&policy.files.write),
        Id::FilesHide => paths(&policy.files.hide),
        Id::FilesShow => paths(&policy.files.show),
        Id::LimitsWall => one(limits.wall.as_ref(), time),
        Id::LimitsCpu => one(limits.cpu.as_ref(), time),
        Id::LimitsMemory => one(limits.memory.as_ref(), size),
        Id::LimitsPids => one(limits.pids.as_ref(), |count| Spelled::Number(*count)),
        Id::LimitsOpenFiles => one(limits.open_files.as_ref(), |count| Spelled::Number(*count)),
        Id::LimitsOutput => one(limits.output.as_ref(), size),
        Id::LedgerWitness => list(&policy.witness, |witness| Spelled::Text(witness.to_string())),
    }
}

fn word<'a>(value: &str, origin: &'a Origin) -> Says<'a> {
    Says::One(Set { value: Spelled::Text(value.into()), origin })
}

fn one<T>(value: Option<&Ruled<T>>, spell: impl Fn(&T) -> Spelled) -> Says<'_> {
    value.map_or(Says::Nothing, |ruled| Says::One(Set { value: spell(&ruled.value), origin: &ruled.origin }))
}

fn names(entries: &[Ruled<String>]) -> Says<'_> {
    list(entries, |entry| Spelled::Text(entry.clone()))
}

fn paths(entries: &[Ruled<PathBuf>]) -> Says<'_> {
    list(entries, |path| path_text(path))
}

fn path_text(path: &Path) -> Spelled {
    Spelled::Text(path.to_string_lossy().into_owned())
}

fn time(time: &Duration) -> Spelled {
    Spelled::Text(units::spell_duration(*time))
}

fn size(bytes: &u64) -> Spelled {
    Spelled::Text(units::spell_size(*bytes))
}

fn list<T>(entries: &[Ruled<T>], spell: impl Fn(&T) -> Spelled) -> Says<'_> {
    if entries.is_empty() {
        return Says::Nothing;
    }
    Says::List(
        entries.iter().map(|entry| Set { value: spell(&entry.value), origin: &entry.origin }).collect(),
    )
}

fn variables(entries: &[Ruled<(String, String)>]) -> Says<'_> {
    if entries.is_empty() {
        return Says::Nothing;
    }
    let rows = entries.iter().map(|Ruled { value: (name, value), origin }| {
        (name.as_str(), Set { value: Spelled::Text(value.clone()), origin })
    });
    Says::Table(rows.collect())
}

/// An origin on one line, whatever the file's name holds.
fn comment(origin: &Origin) -> String {
    origin.to_string().chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// A TOML string.
fn text(value: &str) -> String {
    let mut out = String::from("\"");
    for character in value.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
