//! What a tool or an agent keeps below HOME. The rules of the fields stand at the head of `data/tools.toml`.

use super::{Read, Wrong, flag, only, path, place, table, tables, text, texts, variable, word};
use toml_edit::{Item, TableLike};

pub const PLATFORMS: [&str; 2] = ["linux", "macos"];
/// What may stand at the tool and at each platform.
const PART: [&str; 7] = ["login", "share", "caches", "services", "keyring_items", "variables", "status"];
const WRITES: [&str; 4] = ["never", "private", "kept", "through"];
const SERVICES: [&str; 7] = [
    "secret-service",
    "keychain",
    "ssh-agent",
    "gpg-agent",
    "docker-socket",
    "podman-socket",
    "1password-app",
];
const ANSWERS: [&str; 3] = ["exit", "text", "output"];
/// The directories of XDG, relative to HOME.
const XDG: [(&str, &str); 4] =
    [(".config/", "config"), (".local/share/", "data"), (".local/state/", "state"), (".cache/", "cache")];

/// What a tool keeps, on Linux and on macOS.
#[derive(Debug)]
pub struct Home {
    /// The variable that moves its directory, and that directory.
    pub root: Option<(String, String)>,
    pub parts: [Part; 2],
}

#[derive(Debug)]
pub struct Part {
    pub login: Vec<Exposed>,
    pub share: Vec<Exposed>,
    pub caches: Vec<String>,
    pub services: Vec<&'static str>,
    pub keyring_items: Vec<String>,
    pub variables: Vec<String>,
    pub status: Option<Asked>,
}

#[derive(Debug)]
pub struct Exposed {
    pub path: String,
    pub folder: bool,
    pub secret: bool,
    pub writes: &'static str,
    pub xdg: Option<&'static str>,
    pub runtime: bool,
    /// Where it stands in the file.
    pub at: Option<usize>,
}

#[derive(Debug)]
pub struct Asked {
    pub run: Vec<String>,
    pub answer: &'static str,
    pub logged_in: Vec<String>,
    pub logged_out: Vec<String>,
    pub network: bool,
}

/// Reads the table of a tool. `besides` are the keys that are not of its HOME.
pub fn read(tool: &dyn TableLike, what: &str, besides: &[&str]) -> Read<Home> {
    only(tool, what, &[besides, &["root"], &PLATFORMS[..], &PART[..]].concat())?;
    let own = |platform: &str| tool.get(platform).and_then(Item::as_table_like);
    if tool.get("login").is_none()
        && PLATFORMS.iter().any(|it| own(it).is_none_or(|own| own.get("login").is_none()))
    {
        let remedy = "write what its login needs; `login = []` if it has none";
        return Err(Wrong::new(None, format!("{what} has no login"), remedy));
    }
    Ok(Home { root: root(tool, what)?, parts: [part(tool, "linux", what)?, part(tool, "macos", what)?] })
}

fn root(tool: &dyn TableLike, what: &str) -> Read<Option<(String, String)>> {
    let Some(item) = tool.get("root") else { return Ok(None) };
    let at = place(tool, "root");
    let mut rows = table(item, "root")?.iter();
    let (Some((name, directory)), None) = (rows.next(), rows.next()) else {
        return Err(Wrong::new(
            at,
            format!("root of {what} has not one variable"),
            "write `root = { NAME = \".directory\" }`",
        ));
    };
    variable(name, "root", at)?;
    let directory = directory.as_str().unwrap_or_default();
    if directory != "." {
        path(directory, "root", at)?;
    }
    Ok(Some((name.to_owned(), directory.to_owned())))
}

/// The common part of a tool and that of the platform, as one.
fn part(tool: &dyn TableLike, platform: &str, what: &str) -> Read<Part> {
    let mut from = vec![tool];
    let shown = format!("{what}.{platform}");
    if let Some(item) = tool.get(platform) {
        let own = table(item, &shown)?;
        only(own, &shown, &PART)?;
        from.push(own);
    }
    let all = |key: &str| -> Read<Vec<String>> {
        let mut out = Vec::new();
        for part in &from {
            out.extend(texts(*part, what, key)?);
        }
        Ok(out)
    };
    let (mut login, mut share): (Vec<Exposed>, Vec<Exposed>) = (Vec::new(), Vec::new());
    for part in &from {
        for (entry, at) in tables(*part, what, "login")? {
            login.push(exposed(entry, at, what)?);
        }
        for (entry, at) in tables(*part, what, "share")? {
            share.push(exposed(entry, at, what)?);
        }
    }
    let mut paths: Vec<&str> = Vec::new();
    for one in login.iter().chain(&share) {
        if paths.contains(&one.path.as_str()) {
            return Err(Wrong::new(one.at, format!("{shown} has {} twice", one.path), "keep one of the two"));
        }
        paths.push(&one.path);
    }
    let (caches, variables, keyring_items) = (all("caches")?, all("variables")?, all("keyring_items")?);
    for cache in &caches {
        path(cache, "caches", place(tool, "caches"))?;
    }
    for name in &variables {
        variable(name, "variables", place(tool, "variables"))?;
    }
    let services = services(all("services")?, &keyring_items, platform, &shown)?;
    let status = match from.iter().rev().find_map(|part| part.get("status")) {
        Some(item) => Some(asked(table(item, "status")?, what)?),
        None => None,
    };
    Ok(Part { login, share, caches, services, keyring_items, variables, status })
}

fn services(named: Vec<String>, items: &[String], platform: &str, what: &str) -> Read<Vec<&'static str>> {
    let mut services = Vec::new();
    for service in &named {
        services.push(word(service, &SERVICES, "services", None)?);
    }
    let elsewhere = if platform == "linux" { "keychain" } else { "secret-service" };
    let wrong = |fact: String| Err(Wrong::new(None, fact, "see the head of data/tools.toml"));
    if services.contains(&elsewhere) {
        return wrong(format!("{what}: there is no {elsewhere} on this platform"));
    }
    let has_keyring = services.iter().any(|service| ["keychain", "secret-service"].contains(service));
    if !items.is_empty() && !has_keyring {
        return wrong(format!("{what}: `keyring_items` needs a keyring"));
    }
    if items.is_empty() && services.contains(&"secret-service") {
        return wrong(format!("{what}: without `keyring_items` the secret-service shows nothing"));
    }
    Ok(services)
}

fn exposed(entry: &dyn TableLike, at: Option<usize>, what: &str) -> Read<Exposed> {
    only(entry, what, &["path", "folder", "secret", "writes", "xdg", "runtime"])?;
    let own = super::required(entry, what, "path")?;
    path(own, what, at)?;
    let writes = word(super::required(entry, own, "writes")?, &WRITES, "writes", at)?;
    let folder = flag(entry, own, "folder", false)?;
    if writes == (if folder { "through" } else { "kept" }) {
        let remedy =
            "a directory is \"never\", \"private\" or \"kept\", a file \"never\", \"private\" or \"through\"";
        return Err(Wrong::new(at, format!("{own} cannot have writes = {writes:?}"), remedy));
    }
    let xdg = match (flag(entry, own, "xdg", false)?, XDG.iter().find(|(below, _)| own.starts_with(below))) {
        (false, _) => None,
        (true, Some((_, name))) => Some(*name),
        (true, None) => {
            let remedy = "it is for what lies in .config, .local/share, .local/state or .cache";
            return Err(Wrong::new(at, format!("{own} is in no directory of XDG"), remedy));
        }
    };
    let (secret, runtime) = (flag(entry, own, "secret", false)?, flag(entry, own, "runtime", false)?);
    Ok(Exposed { path: own.to_owned(), folder, secret, writes, xdg, runtime, at })
}

fn asked(status: &dyn TableLike, what: &str) -> Read<Asked> {
    let shown = format!("status of {what}");
    only(status, &shown, &["run", "answer", "logged_in", "logged_out", "network"])?;
    let run = texts(status, &shown, "run")?;
    let answer = text(status, &shown, "answer")?.unwrap_or_default();
    let answer = word(answer, &ANSWERS, "answer", place(status, "answer"))?;
    let (logged_in, logged_out) = (texts(status, &shown, "logged_in")?, texts(status, &shown, "logged_out")?);
    if run.is_empty() || answer == "text" && logged_in.is_empty() && logged_out.is_empty() {
        let remedy =
            "write `run = [\"program\", \"argument\"]`, and `logged_in` or `logged_out` if a text answers";
        return Err(Wrong::new(place(status, "run"), format!("{shown} cannot be asked"), remedy));
    }
    Ok(Asked { run, answer, logged_in, logged_out, network: flag(status, &shown, "network", false)? })
}
