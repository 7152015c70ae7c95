//! The effective policy as TOML, each value with the place it came from.

use super::keys::{Id, KEYS};
use super::units;
use crate::settings::Policy;
use crate::words::{Origin, Ruled};
use std::fmt::Write;
use std::path::PathBuf;

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

/// The lines of one key; none where it says nothing.
fn lines(policy: &Policy, id: Id, leaf: &str) -> String {
    let limits = &policy.limits;
    match id {
        Id::Version | Id::Profiles => String::new(),
        Id::Trust => word(leaf, policy.trust.value.as_str(), &policy.trust.origin),
        Id::Floor => word(leaf, policy.floor.value.as_str(), &policy.floor.origin),
        Id::Project => word(leaf, policy.project.value.as_str(), &policy.project.origin),
        Id::FilesProtect => word(leaf, policy.protect.value.as_str(), &policy.protect.origin),
        Id::FilesSearch => word(leaf, policy.search.value.as_str(), &policy.search.origin),
        Id::HomeMode => word(leaf, policy.home.mode.value.as_str(), &policy.home.mode.origin),
        Id::HomePath => one(leaf, policy.home.path.as_ref(), |path| text(&path.to_string_lossy())),
        Id::HomeTools => list(leaf, &policy.home.tools, |tool| text(tool.name)),
        Id::HomeShare => list(leaf, &policy.home.share, |tool| text(tool.name)),
        Id::HomeKeyring => word(leaf, policy.home.keyring.value.as_str(), &policy.home.keyring.origin),
        Id::NetMode => word(leaf, policy.net.value.as_str(), &policy.net.origin),
        Id::GateMode => word(leaf, policy.gate.mode.value.as_str(), &policy.gate.mode.origin),
        Id::GateAttended => word(leaf, policy.gate.attended.value.as_str(), &policy.gate.attended.origin),
        Id::GateWait => one(leaf, policy.gate.wait.as_ref(), |wait| text(&units::spell_duration(*wait))),
        Id::GateRules => one(leaf, policy.gate.rules.as_ref(), |path| text(&path.to_string_lossy())),
        Id::GateJudge => names(leaf, &policy.gate.judge),
        Id::GateJudgeWait => {
            one(leaf, policy.gate.judge_wait.as_ref(), |wait| text(&units::spell_duration(*wait)))
        }
        Id::GateWebhook => one(leaf, policy.gate.webhook.as_ref(), |url| text(url)),
        Id::GateWebhookKey => one(leaf, policy.gate.webhook_key.as_ref(), |name| text(name)),
        Id::GateWebhookCa => one(leaf, policy.gate.webhook_ca.as_ref(), |path| text(&path.to_string_lossy())),
        Id::GateWebhookListen => one(leaf, policy.gate.webhook_listen.as_ref(), |address| text(address)),
        Id::Allow => list(leaf, &policy.allow, |word| text(word.as_str())),
        Id::InheritCredentials => names(leaf, &policy.inherit_credentials),
        Id::Secrets => list(leaf, &policy.secrets, |grant| text(&grant.to_string())),
        Id::Redact => word(leaf, policy.redact.value.as_str(), &policy.redact.origin),
        Id::EnvPass => names(leaf, &policy.env.pass),
        Id::EnvSet => variables(leaf, &policy.env.set),
        Id::EnvNotSecret => names(leaf, &policy.env.not_secret),
        Id::EnvDangerousLoaderEnv => names(leaf, &policy.env.dangerous_loader_env),
        Id::FilesRead => paths(leaf, &policy.files.read),
        Id::FilesWrite => paths(leaf, &policy.files.write),
        Id::FilesHide => paths(leaf, &policy.files.hide),
        Id::FilesShow => paths(leaf, &policy.files.show),
        Id::LimitsWall => one(leaf, limits.wall.as_ref(), |wall| text(&units::spell_duration(*wall))),
        Id::LimitsCpu => one(leaf, limits.cpu.as_ref(), |cpu| text(&units::spell_duration(*cpu))),
        Id::LimitsMemory => one(leaf, limits.memory.as_ref(), |memory| text(&units::spell_size(*memory))),
        Id::LimitsPids => one(leaf, limits.pids.as_ref(), u64::to_string),
        Id::LimitsOpenFiles => one(leaf, limits.open_files.as_ref(), u64::to_string),
        Id::LimitsOutput => one(leaf, limits.output.as_ref(), |output| text(&units::spell_size(*output))),
        Id::LedgerWitness => list(leaf, &policy.witness, |witness| text(&witness.to_string())),
    }
}

fn line(name: &str, value: &str, origin: &Origin) -> String {
    format!("{name} = {value} # {}\n", comment(origin))
}

fn word(name: &str, value: &str, origin: &Origin) -> String {
    line(name, &text(value), origin)
}

fn one<T>(name: &str, value: Option<&Ruled<T>>, spell: impl Fn(&T) -> String) -> String {
    value.map(|ruled| line(name, &spell(&ruled.value), &ruled.origin)).unwrap_or_default()
}

fn names(name: &str, entries: &[Ruled<String>]) -> String {
    list(name, entries, |entry| text(entry))
}

fn paths(name: &str, entries: &[Ruled<PathBuf>]) -> String {
    list(name, entries, |path| text(&path.to_string_lossy()))
}

fn list<T>(name: &str, entries: &[Ruled<T>], spell: impl Fn(&T) -> String) -> String {
    if entries.is_empty() {
        return String::new();
    }
    let mut out = format!("{name} = [\n");
    for entry in entries {
        let _ = writeln!(out, "    {}, # {}", spell(&entry.value), comment(&entry.origin));
    }
    out.push_str("]\n");
    out
}

fn variables(name: &str, entries: &[Ruled<(String, String)>]) -> String {
    let mut out = String::new();
    for Ruled { value: (variable, value), origin } in entries {
        out.push_str(&line(&format!("{name}.{variable}"), &text(value), origin));
    }
    out
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
