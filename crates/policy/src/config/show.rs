//! The effective policy as TOML, each value with the place it came from.

use super::keys::{Id, KEYS};
use super::units;
use crate::net::narrow::Narrowing;
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
        out.push_str(" with the profile ");
        write_text(&mut out, profile);
    }
    for ignored in &policy.sources.ignored {
        let _ = write!(out, "\n# {}", ignored.sentence());
    }
    for list in &policy.network.narrowed {
        let hosts: Vec<String> = list.allow.iter().map(|allowed| allowed.value.to_string()).collect();
        let hosts = if hosts.is_empty() { "nothing".to_owned() } else { hosts.join(", ") };
        let _ = write!(out, "\n# net.allow is narrowed by {} to {hosts}", list.origin);
    }
    out.push_str("\nversion = 1\n");
    let mut group = None;
    for key in KEYS.iter().filter(|key| !key.is_header()) {
        let says = says(policy, key.id);
        if matches!(says, Says::Nothing) {
            continue;
        }
        if key.group() != group {
            group = key.group();
            let _ = write!(out, "\n[{}]\n", group.unwrap_or_default());
        }
        write_lines(&mut out, key.leaf(), &says);
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
    let mut all = json!({ "v": 1, "profile": policy.profile, "settings": settings, "ignored": ignored });
    if !policy.network.narrowed.is_empty() {
        let list = |list: &Narrowing| {
            let hosts: Vec<String> = list.allow.iter().map(|allowed| allowed.value.to_string()).collect();
            json!({ "hosts": hosts, "origin": list.origin })
        };
        all["narrowed"] = policy.network.narrowed.iter().map(list).collect();
    }
    all
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

/// The lines of one key. Every run writes them for the digest of its policy, so that a list of a thousand paths is written in place.
fn write_lines(out: &mut String, leaf: &str, says: &Says<'_>) {
    match says {
        Says::Nothing => {}
        Says::One(set) => {
            let _ = write!(out, "{leaf} = ");
            write_value(out, set, "");
        }
        Says::List(list) => {
            let _ = writeln!(out, "{leaf} = [");
            for set in list {
                out.push_str("    ");
                write_value(out, set, ",");
            }
            out.push_str("]\n");
        }
        Says::Table(rows) => {
            for (name, set) in rows {
                let _ = write!(out, "{leaf}.{name} = ");
                write_value(out, set, "");
            }
        }
    }
}

/// A value, what stands behind it, and where it came from.
fn write_value(out: &mut String, set: &Set<'_>, behind: &str) {
    match &set.value {
        Spelled::Text(value) => write_text(out, value),
        Spelled::Number(number) => {
            let _ = write!(out, "{number}");
        }
        Spelled::Switch(on) => {
            let _ = write!(out, "{on}");
        }
    }
    out.push_str(behind);
    out.push_str(" # ");
    write_comment(out, set.origin);
    out.push('\n');
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
        Id::ToolsCage => chosen(policy.tools.cage.value.as_str(), &policy.tools.cage.origin),
        Id::ToolsNet => chosen(policy.tools.net.value.as_str(), &policy.tools.net.origin),
        Id::ToolsRead => paths(&policy.tools.read),
        Id::ToolsShare => paths(&policy.tools.share),
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

/// A choice that is left out where it is the built-in one.
fn chosen<'a>(value: &str, origin: &'a Origin) -> Says<'a> {
    if *origin == Origin::Builtin { Says::Nothing } else { word(value, origin) }
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
fn write_comment(out: &mut String, origin: &Origin) {
    let begin = out.len();
    let _ = write!(out, "{origin}");
    if !is_plain(&out[begin..]) {
        let written = out.split_off(begin);
        out.extend(written.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }));
    }
}

/// A TOML string.
fn write_text(out: &mut String, value: &str) {
    out.push('"');
    if is_plain(value) && !value.contains(['"', '\\']) {
        out.push_str(value);
    } else {
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
    }
    out.push('"');
}

/// Whether a text is ASCII without control characters, as most are.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| (b' '..=b'~').contains(&byte))
}
