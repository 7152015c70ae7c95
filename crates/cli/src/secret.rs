//! `keyward secret`: which secrets there are. Values pass between the terminal, a file or a pipe and the vault; never through here.

use crate::args::{SecretArgs, SecretCommand, SecretSetArgs};
use crate::explain::NoPlan;
use crate::files::{self, Links};
use crate::here::{self, Here};
use crate::rewrite::Folder;
use crate::{say, vault};
use keyward_ledger::Record;
use keyward_policy::config::Document;
use keyward_policy::event::What;
use keyward_policy::secret::{self, Entry, Reference, SecretName};
use keyward_policy::trouble::{Code, Trouble};
use keyward_protocol::vault::Said;
use keyward_sys::environ::Block;
use keyward_vault::keep::{self, Imported};
use keyward_vault::process::Variables;
use keyward_vault::source::Surroundings;
use keyward_vault::store::Start;
use std::path::Path;

pub fn secret(args: SecretArgs, block: &mut Block) -> i32 {
    let here = match here::look(&block.entries(), None) {
        Ok(here) => here,
        Err(refusal) => return NoPlan::Refused(refusal).tell(false),
    };
    let done = match args.command {
        SecretCommand::Set(args) => set(&args, &here, block),
        SecretCommand::List { json } => list(&here, json),
        SecretCommand::Show { name, reveal, json } => match reveal {
            true => show_value(&name, &here, block),
            false => show(&name, &here, json),
        },
        SecretCommand::Rm { name } => remove(&name, &here, block),
        SecretCommand::Import { file, blank } => import(&file, blank, &here, block),
    };
    match done {
        Ok(()) => 0,
        Err(trouble) => say::failure(&trouble),
    }
}

fn set(args: &SecretSetArgs, here: &Here, block: &mut Block) -> Result<(), Trouble> {
    let name = SecretName::parse(&args.name)?;
    let from = match &args.from {
        Some(text) => Reference::parse(text)?,
        None => Reference::Store(name.clone()),
    };
    let to = args.to.iter().map(|text| secret::target(text)).collect::<Result<Vec<String>, _>>()?;
    let places = args.places.iter().map(|word| secret::place(word)).collect::<Result<Vec<_>, _>>()?;
    let aws = args.aws.as_deref().map(secret::aws).transpose()?;
    let created = Some(keyward_ledger::now());
    let entry = Entry { name, from, to, places, aws, variable: args.variable.clone(), created };
    secret::can_be_bound(&entry)?;
    // What is refused asks for no value first.
    let known = files::secrets(here)?;
    edited(here, |document| secret::put(document, &entry))?;
    if args.from.is_none() {
        let start = start_of(args)?;
        let keep = |surroundings: &Surroundings<'_>, tell: &dyn Fn(&Said)| {
            if let Some(identity) = keep::begin(surroundings, start.as_ref().map(Begin::start))? {
                tell(&Said::Began { identity: identity.into() });
            }
            keep::set(surroundings, &entry.name, rustix::stdio::stdin())
        };
        for said in vault::ask(here, block, &Variables::All, keep)? {
            if let Said::Began { identity } = said {
                say::note(&began(&identity, args.identity.is_some(), here));
            }
        }
    }
    change(here, |document| secret::put(document, &entry))?;
    if let Some(before) = known.iter().find(|known| known.name == entry.name) {
        drop_value(before, Some(&entry), here, block)?;
    }
    let verb = if known.iter().any(|known| known.name == entry.name) { "changed" } else { "added" };
    say::answer(&format!("{verb} {}: {}", entry.name, entry.from));
    Ok(())
}

/// How a store is begun, with the texts of its own.
enum Begin {
    File,
    Keyring,
    Passphrase,
    Plugin { identity: String, recipient: String },
}

impl Begin {
    fn start(&self) -> Start<'_> {
        match self {
            Begin::File => Start::File,
            Begin::Keyring => Start::Keyring,
            Begin::Passphrase => Start::Passphrase,
            Begin::Plugin { identity, recipient } => Start::Plugin { identity, recipient },
        }
    }
}

fn start_of(args: &SecretSetArgs) -> Result<Option<Begin>, Trouble> {
    let unfit = |fact: String| {
        let remedy = "known here: file, keyring, passphrase, or the file that an age plugin has written";
        Trouble::new(Code::Usage, fact, remedy)
    };
    Ok(match args.identity.as_deref() {
        None => None,
        Some("file") => Some(Begin::File),
        Some("keyring") => Some(Begin::Keyring),
        Some("passphrase") => Some(Begin::Passphrase),
        Some(file) => {
            let shown = keyward_policy::text::visible(file.as_ref());
            let text =
                std::fs::read_to_string(file).map_err(|_| unfit(format!("there is no identity {shown}")))?;
            // The plugin's programs write the recipient as a comment above.
            let identity = text.lines().find(|line| line.starts_with("AGE-PLUGIN-"));
            let recipient =
                text.lines().find_map(|line| line.split_whitespace().find(|word| word.starts_with("age1")));
            match (identity, recipient) {
                (Some(identity), Some(recipient)) => {
                    Some(Begin::Plugin { identity: identity.trim().into(), recipient: recipient.into() })
                }
                _ => {
                    return Err(unfit(format!(
                        "{shown} holds no identity of an age plugin with its recipient"
                    )));
                }
            }
        }
    })
}

/// The chain down to its root is said when it is made.
fn began(identity: &str, was_chosen: bool, here: &Here) -> String {
    let store = keyward_policy::text::visible(here.store.as_os_str());
    match identity {
        "keyring" => format!("made a store in {store}; its key is in your keyring"),
        "passphrase" => format!("made a store in {store}; its key is behind your passphrase"),
        "plugin" => format!("made a store in {store}; its key is behind the plugin"),
        _ => {
            let why = if was_chosen { ", as you asked" } else { ", because no keyring could be used" };
            format!(
                "made a store in {store}; its key is a file beside it{why}: every program that can read your files can read it"
            )
        }
    }
}

type Edit = Result<String, secret::NotWritten>;

fn edited(here: &Here, edit: impl Fn(&Document<'_>) -> Edit) -> Result<String, Trouble> {
    let path = files::secrets_file(here);
    let text = files::read(&path, Links::Followed)?.unwrap_or_default();
    let name = path.to_string_lossy();
    edit(&Document { name: &name, text: &text }).map_err(Trouble::from)
}

/// Changes the list under a lock.
fn change(here: &Here, edit: impl Fn(&Document<'_>) -> Edit) -> Result<(), Trouble> {
    let unwritten = |error: crate::rewrite::NotWritten| {
        let path = keyward_policy::text::visible(error.path.as_os_str());
        Trouble::new(
            Code::File,
            format!("cannot write {path}: {}", say::cause(&error.cause)),
            "make room or fix the permissions there, and run the command again",
        )
    };
    let folder = Folder::lock(&here.config).map_err(unwritten)?;
    let text = edited(here, edit)?;
    folder.replace(&files::secrets_file(here), text.as_bytes()).map_err(unwritten)
}

fn as_json(entry: &Entry) -> serde_json::Value {
    serde_json::json!({
        "name": entry.name.as_str(),
        "from": entry.from.to_string(),
        "to": entry.to,
        "in": entry.places,
        "as": entry.variable,
        "phantom": phantom_json(entry),
        "created": entry.created,
    })
}

/// What `--secret NAME` means for this one; `null` where it is bound to no host.
fn phantom_json(entry: &Entry) -> serde_json::Value {
    match secret::binding_of(entry) {
        Some(bound) => serde_json::json!({
            "variables": bound.variables,
            "hosts": bound.to,
            "provider": bound.provider,
        }),
        None => serde_json::Value::Null,
    }
}

fn list(here: &Here, json: bool) -> Result<(), Trouble> {
    let known = files::secrets(here)?;
    if json {
        let all: Vec<serde_json::Value> = known.iter().map(as_json).collect();
        say::answer_json(&serde_json::json!({ "v": 1, "secrets": all }));
    } else if known.is_empty() {
        say::answer("no secrets yet; `keyward secret set NAME` adds one");
    } else {
        let width = known.iter().map(|entry| entry.name.as_str().len()).max().unwrap_or(0);
        for entry in &known {
            let bound = secret::binding_of(entry);
            let to = bound.as_ref().map_or_else(String::new, |bound| match bound.to.as_slice() {
                [first, more @ ..] if more.len() > 2 => format!("  to {first} and {} more", more.len()),
                _ => format!("  to {}", bound.hosts()),
            });
            let variables = match (&bound, &entry.variable) {
                (Some(bound), _) => format!("  as {}", bound.variables.join(", ")),
                (None, Some(name)) => format!("  as {name}"),
                (None, None) => String::new(),
            };
            say::answer(&format!("{:<width$}  {}{to}{variables}", entry.name.as_str(), entry.from));
        }
    }
    Ok(())
}

fn find(here: &Here, name: &str) -> Result<Entry, Trouble> {
    let name = SecretName::parse(name)?;
    let known = files::secrets(here)?;
    known.into_iter().find(|entry| entry.name == name).ok_or_else(|| unknown(name.as_str()))
}

/// There is no secret of this name.
pub fn unknown(name: &str) -> Trouble {
    let fact = format!("there is no secret {}", keyward_policy::text::visible(name.as_ref()));
    Trouble::new(Code::UnknownSecret, fact, "`keyward secret list` lists all secrets")
}

fn show(name: &str, here: &Here, json: bool) -> Result<(), Trouble> {
    let entry = find(here, name)?;
    if json {
        let mut fields = as_json(&entry);
        fields["v"] = 1.into();
        say::answer_json(&fields);
        return Ok(());
    }
    say::answer(&format!("name     {}", entry.name));
    say::answer(&format!("from     {}", entry.from));
    let bound = secret::binding_of(&entry);
    for rule in bound.iter().flat_map(|bound| &bound.to) {
        say::answer(&format!("to       {rule}"));
    }
    let variables = bound.map_or_else(|| entry.variable.iter().cloned().collect(), |bound| bound.variables);
    for variable in variables {
        say::answer(&format!("as       {variable}"));
    }
    if let Some(created) = &entry.created {
        say::answer(&format!("created  {created}"));
    }
    Ok(())
}

/// The value itself: for a person at a terminal, who says so again, and it is written down before.
fn show_value(name: &str, here: &Here, block: &mut Block) -> Result<(), Trouble> {
    let entry = find(here, name)?;
    if here.caller.terminals != [true; 3] {
        return Err(Trouble::new(
            Code::Refused,
            format!("the value of {} is shown on a terminal only", entry.name),
            format!("to hand it to a program: `keyward run --secret {}=fd -- CMD`", entry.name),
        ));
    }
    let recorded = Record::open(&here.state)
        .and_then(|mut record| record.write(What::Reveal { name: entry.name.to_string() }));
    if recorded.is_err() {
        return Err(Trouble::new(
            Code::Unrecorded,
            "this cannot be recorded, so it is not done",
            "make room in Keyward's state directory, or fix its permissions",
        ));
    }
    let reveal = |surroundings: &Surroundings<'_>, _: &dyn Fn(&Said)| {
        keep::reveal(surroundings, &entry.name, &entry.from, rustix::stdio::stdin())
    };
    vault::ask(here, block, &Variables::All, reveal)?;
    Ok(())
}

fn remove(name: &str, here: &Here, block: &mut Block) -> Result<(), Trouble> {
    let entry = find(here, name)?;
    drop_value(&entry, None, here, block)?;
    change(here, |document| secret::remove(document, &entry.name))?;
    say::answer(&format!("removed {}", entry.name));
    Ok(())
}

/// Removes the value of an entry from the store, unless another one uses it.
fn drop_value(entry: &Entry, instead: Option<&Entry>, here: &Here, block: &mut Block) -> Result<(), Trouble> {
    let Reference::Store(kept) = &entry.from else { return Ok(()) };
    let others = files::secrets(here)?;
    let is_used = others
        .iter()
        .filter(|other| other.name != entry.name)
        .chain(instead)
        .any(|other| other.from == entry.from);
    if !is_used {
        vault::ask(here, block, &Variables::These(Vec::new()), |surroundings, _| {
            keep::remove(surroundings, kept)
        })?;
    }
    Ok(())
}

fn import(file: &Path, blank: bool, here: &Here, block: &mut Block) -> Result<(), Trouble> {
    let known = files::secrets(here)?;
    let file = here::absolute(&here.cwd, file);
    let bring = |surroundings: &Surroundings<'_>, tell: &dyn Fn(&Said)| {
        if let Some(identity) = keep::begin(surroundings, None)? {
            tell(&Said::Began { identity: identity.into() });
        }
        for imported in keep::import(surroundings, &file, &known)? {
            tell(&Said::Kept { name: imported.name.to_string(), variable: imported.variable });
        }
        Ok(())
    };
    let mut imported = Vec::new();
    for said in vault::ask(here, block, &Variables::All, bring)? {
        match said {
            Said::Began { identity } => say::note(&began(&identity, false, here)),
            Said::Kept { name, variable } => {
                let name = SecretName::parse(&name)?;
                if known.iter().any(|entry| entry.name == name) {
                    say::answer(&format!("{name} is there already, with the same value"));
                    imported.push(Imported { variable, name });
                    continue;
                }
                let entry = Entry {
                    from: Reference::Store(name.clone()),
                    name: name.clone(),
                    to: Vec::new(),
                    places: Vec::new(),
                    aws: None,
                    variable: Some(variable.clone()),
                    created: Some(keyward_ledger::now()),
                };
                change(here, |document| secret::put(document, &entry))?;
                say::answer(&format!("added {}: {}", entry.name, entry.from));
                imported.push(Imported { variable, name });
            }
            _ => {}
        }
    }
    let shown = keyward_policy::text::visible(file.as_os_str());
    match (imported.is_empty(), blank) {
        (true, _) => say::answer(&format!("nothing in {shown} looks like a credential")),
        (false, true) => {
            // Last: what is taken out of the file is found again by its entry.
            vault::ask(here, block, &Variables::All, |surroundings, _| {
                keep::blank(surroundings, &file, &imported)
            })?;
            say::answer(&format!("{shown} has references in their places"));
        }
        (false, false) => {
            say::answer(&format!(
                "{shown} still holds them; `keyward secret import --blank {}` leaves references in their places",
                keyward_policy::text::typed(&shown)
            ));
        }
    }
    Ok(())
}
