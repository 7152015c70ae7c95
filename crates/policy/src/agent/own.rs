//! The agents of the user's own profiles: their files join the tables of tools, login files and providers.
//!
//! What a profile says about its agent's files holds for every run and not only for that agent's: its login is hidden from the others. So a
//! process adopts all profiles once, before it decides anything; processes that it forks have them too. The texts live as long as the process.
//!
//! A profile of the user's can do what a built-in one does, except where that would reach beyond its agent: it describes no file, no variable
//! and no provider that Keyward knows already, none that other programs obey, none of Keyward's own, and nothing of the keyring.

use super::described::home::{self, Exposed, Home};
use super::described::logins::{self, LoginFile, To};
use super::described::{Wrong, provider as providers_of};
use crate::config::mistake::quoted;
use crate::config::source::Source;
use crate::config::{Document, Mistake, Unfit};
use crate::detect::OBEYED;
use crate::detect::registry;
use crate::login::{self, File};
use crate::provider::{self, Provider};
use crate::tools::{self, Tool};
use crate::view::STORES;
use std::sync::OnceLock;
use toml_edit::{Item, Table};

/// What profiles add to the tables.
#[derive(Debug, Default)]
pub struct Own {
    tools: Vec<Tool>,
    files: Vec<File>,
    providers: Vec<Provider>,
}

static OWN: OnceLock<Own> = OnceLock::new();

/// Adds what profiles say to the tables of this process. Only the first call counts.
pub fn adopt(own: Own) {
    let _ = OWN.set(own);
}

/// Whether this process has adopted the user's profiles.
pub fn are_adopted() -> bool {
    OWN.get().is_some()
}

/// The agents of the user's profiles.
pub fn tools() -> &'static [Tool] {
    OWN.get().map_or(&[], |own| &own.tools)
}

pub(crate) fn files() -> &'static [File] {
    OWN.get().map_or(&[], |own| &own.files)
}

pub(crate) fn providers() -> &'static [Provider] {
    OWN.get().map_or(&[], |own| &own.providers)
}

pub(crate) fn leak<T>(list: Vec<T>) -> &'static [T] {
    Box::leak(list.into_boxed_slice())
}

pub(crate) fn leak_text(text: &str) -> &'static str {
    Box::leak(text.to_owned().into_boxed_str())
}

pub(crate) fn leak_texts(texts: &[String]) -> &'static [&'static str] {
    leak(texts.iter().map(|text| leak_text(text)).collect())
}

impl Own {
    /// Adds the profile of this name, or tells what is wrong with what it says about its agent's files and keys.
    pub fn add(&mut self, name: &str, document: &Document<'_>) -> Result<(), Vec<Mistake>> {
        let source = Source::new(document.name, document.text).map_err(|mistake| vec![mistake])?;
        let toml = source.parse().map_err(|mistake| vec![mistake])?;
        let mut tables = Tables::read(name, toml.as_table());
        let keys = tables.keys();
        let twice = keys.into_iter().filter(|(key, own, _)| self.has(key, own)).map(|(key, own, at)| {
            let fact = format!("another profile of yours has the {key} {}", quoted(own));
            (at, Unfit::new(fact, "keep one of the two"))
        });
        let twice: Vec<(usize, Unfit)> = twice.collect();
        tables.wrong.extend(twice);
        if !tables.wrong.is_empty() {
            return Err(tables.wrong.into_iter().map(|(at, unfit)| source.mistake(at, unfit)).collect());
        }
        let programs = texts_of(toml.as_table().get("programs"));
        self.tools.extend(tables.home.iter().map(|home| Tool::described(name, &programs, home)));
        self.files.extend(tables.logins.iter().map(File::described));
        self.providers.extend(tables.providers.iter().map(Provider::described));
        Ok(())
    }

    fn has(&self, key: &str, own: &str) -> bool {
        match key {
            "provider" => self.providers.iter().any(|it| it.name == own || it.aliases.contains(&own)),
            "variable" => self.providers.iter().any(|it| it.variables.contains(&own)),
            _ => self.files.iter().any(|it| it.path == own),
        }
    }
}

/// What is wrong with what a profile says about its agent's files and keys, and where.
pub(super) fn mistakes(name: &str, toml: &Table) -> Vec<(usize, Unfit)> {
    Tables::read(name, toml).wrong
}

fn texts_of(item: Option<&Item>) -> Vec<String> {
    let array = item.and_then(Item::as_array).into_iter().flatten();
    array.filter_map(|value| value.as_str().map(str::to_owned)).collect()
}

/// The tables of one profile.
struct Tables {
    home: Option<Home>,
    logins: Vec<LoginFile>,
    providers: Vec<providers_of::Provider>,
    wrong: Vec<(usize, Unfit)>,
}

impl Tables {
    fn read(name: &str, toml: &Table) -> Tables {
        let mut tables = Tables { home: None, logins: Vec::new(), providers: Vec::new(), wrong: Vec::new() };
        let at = |item: &Item| item.span().map_or(0, |span| span.start);
        if let Some(item) = toml.get("home") {
            let read = match item.as_table_like() {
                Some(table) => home::read(table, "home", &[]),
                None => Err(Wrong::new(None, "home is not a table", "write its keys below `[home]`")),
            };
            tables.home = tables.take(read, at(item));
        }
        if let Some(item) = toml.get("login") {
            tables.logins = tables.take(logins::read(item, name), at(item)).unwrap_or_default();
        }
        let table = toml.get("provider").and_then(Item::as_table_like);
        for (own, item) in table.into_iter().flat_map(|table| table.iter()) {
            let read = match item.as_table_like() {
                Some(table) => providers_of::read(own, table),
                None => {
                    Err(Wrong::new(None, "provider is not a table", "write its keys below `[provider.NAME]`"))
                }
            };
            let read = tables.take(read, at(item));
            tables.providers.extend(read);
        }
        let programs = texts_of(toml.get("programs"));
        if tables.wrong.is_empty() {
            tables.look(name, &programs);
        }
        tables
    }

    fn take<T>(&mut self, read: Result<T, Wrong>, around: usize) -> Option<T> {
        match read {
            Ok(read) => Some(read),
            Err(Wrong { at, fact, remedy }) => {
                self.wrong.push((at.unwrap_or(around), Unfit::new(fact, remedy)));
                None
            }
        }
    }

    /// What no two profiles may both have.
    fn keys(&self) -> Vec<(&'static str, &str, usize)> {
        let files = self.logins.iter().map(|it| ("login file", it.path.as_str(), it.at.unwrap_or(0)));
        let mut all: Vec<(&'static str, &str, usize)> = files.collect();
        for provider in &self.providers {
            let at = provider.at.unwrap_or(0);
            all.extend(
                provider.aliases.iter().chain([&provider.name]).map(|it| ("provider", it.as_str(), at)),
            );
            all.extend(provider.variables.iter().map(|it| ("variable", it.as_str(), at)));
        }
        all
    }

    /// Looks for what reaches beyond the agent.
    fn look(&mut self, name: &str, programs: &[String]) {
        let mut wrong: Vec<(Option<usize>, Unfit)> = Vec::new();
        if self.home.is_some() && tools::builtin().iter().any(|tool| tool.name == name) {
            let remedy =
                "leave `[home]` and `[[login]]` out: they hold for this profile too; or give it another name";
            wrong.push((None, Unfit::new(format!("the files of {name} are built in"), remedy)));
        }
        let parts = self.home.iter().flat_map(|home| &home.parts);
        for part in parts.clone() {
            if !part.services.is_empty() || !part.keyring_items.is_empty() {
                let fact = "a profile of yours cannot open the keyring or another service to its agent";
                let remedy = "leave `services` and `keyring_items` out; a key of the keyring becomes a phantom with `keyward secret set NAME`";
                wrong.push((None, Unfit::new(fact, remedy)));
            }
            let asks_another = |run: &[String]| run.first().is_none_or(|first| !programs.contains(first));
            if part.status.as_ref().is_some_and(|status| asks_another(&status.run)) {
                let fact = "status.run starts a program that is not the agent's";
                wrong.push((None, Unfit::new(fact, "begin it with one of `programs`")));
            }
            for one in part.login.iter().chain(&part.share) {
                wrong.extend(beyond(one).map(|unfit| (one.at, unfit)));
            }
            for cache in part
                .caches
                .iter()
                .filter(|cache| !cache.starts_with(".cache/") && !cache.starts_with("Library/Caches/"))
            {
                let fact = format!("{cache} is not a cache");
                wrong.push((None, Unfit::new(fact, "name a directory in .cache")));
            }
        }
        let shown = |path: &str| {
            let mut all = parts.clone().flat_map(|part| part.login.iter().chain(&part.share));
            all.any(|one| one.path == path || one.folder && one.secret && is_below(path, &one.path))
        };
        for file in &self.logins {
            if !shown(&file.path) {
                let fact = format!("{} is not in `home.login` or `home.share`", file.path);
                wrong.push((file.at, Unfit::new(fact, "add it there: that says who sees it")));
            }
            if login::builtin().any(|known| known.path == file.path || known.name == file.name) {
                let fact = format!("the fields of {} are built in", file.path);
                wrong.push((file.at, Unfit::new(fact, "leave it out")));
            }
            let rules = file.fields.iter().filter_map(|field| match &field.to {
                To::Rules(rules) => Some(rules),
                To::Named(_) | To::Provider(_) => None,
            });
            for rule in rules.flatten().chain(file.grants.iter().flat_map(|grant| &grant.tokens)) {
                wrong.extend(crate::secret::target(rule).err().map(|unfit| (file.at, unfit)));
            }
        }
        for provider in &self.providers {
            wrong.extend(known_provider(provider).map(|unfit| (provider.at, unfit)));
        }
        self.wrong.extend(wrong.into_iter().map(|(at, unfit)| (at.unwrap_or(0), unfit)));
    }
}

fn is_below(path: &str, directory: &str) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Where Keyward's own files are, if no variable moves them.
const KEYWARD: [&str; 4] =
    [".config/keyward", ".local/share/keyward", ".local/state/keyward", ".cache/keyward"];

/// Why a file is not the agent's own.
fn beyond(one: &Exposed) -> Option<Unfit> {
    let touches = |other: &str| is_below(&one.path, other) || is_below(other, &one.path);
    let parts = tools::builtin()
        .iter()
        .flat_map(|tool| tools::Platform::ALL.map(|platform| (tool.name, tool.on(platform))));
    let of_tools =
        parts.flat_map(|(tool, part)| part.login.iter().chain(part.share).map(move |it| (tool, it.path)));
    let owner = of_tools.filter(|(_, path)| touches(path)).map(|(tool, _)| tool.to_owned()).next();
    let obeyed = || OBEYED.iter().find(|obeyed| touches(obeyed.path)).map(|obeyed| obeyed.by.to_owned());
    let store = || STORES.iter().find(|store| touches(store)).map(|_| "another program".to_owned());
    let keyward = || KEYWARD.iter().find(|own| touches(own)).map(|_| "Keyward".to_owned());
    let owner = owner.or_else(obeyed).or_else(store).or_else(keyward);
    if let Some(owner) = owner {
        let fact = format!("{} belongs to {owner}, and not to this agent alone", one.path);
        return Some(Unfit::new(fact, "name files and directories of the agent's own"));
    }
    if one.writes == "through" && !one.secret {
        let fact = format!("changes of {} would reach your real file", one.path);
        return Some(Unfit::new(
            fact,
            "write `writes = \"private\"`; only a login (`secret = true`) is written through",
        ));
    }
    (!one.path.contains('/') && !one.path.starts_with('.')).then(|| {
        Unfit::new(
            format!("{} is a file or directory of yours in HOME", one.path),
            "name what the agent keeps, such as \".my-agent/auth.json\"",
        )
    })
}

/// Why a provider is not the profile's own.
fn known_provider(own: &providers_of::Provider) -> Option<Unfit> {
    let names = own.aliases.iter().chain([&own.name]);
    if let Some(name) = names.into_iter().find(|name| {
        provider::builtin().iter().any(|it| it.name == **name || it.aliases.contains(&name.as_str()))
    }) {
        let fact = format!("the provider {} is built in", quoted(name));
        return Some(Unfit::new(fact, "leave it out, and name it in `keys`; or choose another name"));
    }
    for variable in &own.variables {
        let name = variable.as_bytes();
        let of_other = provider::builtin().iter().find(|it| it.variables.contains(&variable.as_str()));
        if let Some(other) = of_other {
            let fact = format!("{variable} is a variable of {}", other.name);
            return Some(Unfit::new(fact, format!("write `keys = [\"{}\"]` instead", other.name)));
        }
        if registry::is_operational(name) || registry::is_loader(name).is_some() {
            let fact = format!("{variable} is not a variable for a key");
            return Some(Unfit::new(
                fact,
                "other programs read it; name the variable that holds the agent's key",
            ));
        }
    }
    let base_url = own.base_url.as_ref().filter(|name| {
        let name = name.as_bytes();
        registry::is_operational(name)
            || registry::is_loader(name).is_some()
            || registry::known(name).is_some()
    });
    if let Some(base_url) = base_url {
        return Some(Unfit::new(
            format!("{base_url} is not a variable for an address"),
            "name the one that the agent reads",
        ));
    }
    own.hosts.iter().find_map(|host| crate::secret::target(host).err())
}
