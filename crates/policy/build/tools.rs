//! `data/tools.toml` as the table that `tools` offers. The rules of the fields stand at the head of the data file.

use crate::reader::{check, only, strings};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use toml_edit::{DocumentMut, Item, TableLike, Value};

const PLATFORMS: [&str; 2] = ["linux", "macos"];
/// What may stand at the tool and at each platform.
const PART: [&str; 7] = ["login", "share", "caches", "services", "keyring_items", "variables", "status"];
/// The folders of XDG, relative to HOME.
const XDG: [(&str, &str); 4] =
    [(".config/", "Config"), (".local/share/", "Data"), (".local/state/", "State"), (".cache/", "Cache")];
const WRITES: [(&str, &str); 4] =
    [("never", "Never"), ("private", "Private"), ("kept", "Kept"), ("through", "Through")];
const SERVICES: [(&str, &str); 7] = [
    ("secret-service", "SecretService"),
    ("keychain", "Keychain"),
    ("ssh-agent", "SshAgent"),
    ("gpg-agent", "GpgAgent"),
    ("docker-socket", "DockerSocket"),
    ("podman-socket", "PodmanSocket"),
    ("1password-app", "OnePasswordApp"),
];

pub fn generate(text: &str) -> Result<String, String> {
    let doc: DocumentMut = text.parse().map_err(|e: toml_edit::TomlError| e.to_string())?;
    let mut rows = String::new();
    for (name, item) in doc.iter() {
        let at = format!("[{name}]");
        check(name, &at, |c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')?;
        let tool = item.as_table_like().ok_or(format!("{at}: expected a table"))?;
        only(tool, &at, &[&["programs", "root"], &PLATFORMS[..], &PART[..]].concat())?;
        if tool.get("login").is_none() && PLATFORMS.iter().any(|platform| !has_login(tool, platform)) {
            return Err(format!("{at}: `login` is missing; where nobody logs in it is an empty list"));
        }
        let programs = strings(tool, &at, "programs")?;
        let root = root(tool, &at)?;
        let parts = [part(tool, "linux", &at, &root)?, part(tool, "macos", &at, &root)?];
        // Writing to a string does not fail.
        let _ = writeln!(
            rows,
            "    Tool {{ name: {name:?}, programs: &{programs:?}, linux: {}, macos: {} }},",
            parts[0], parts[1]
        );
    }
    Ok(format!("pub(super) static TOOLS: &[Tool] = &[\n{rows}];\n"))
}

fn has_login(tool: &dyn TableLike, platform: &str) -> bool {
    let part = tool.get(platform).and_then(Item::as_table_like);
    part.is_some_and(|part| part.get("login").is_some())
}

/// The variable that moves the tool's directory, and the directory.
fn root(tool: &dyn TableLike, at: &str) -> Result<String, String> {
    let Some(item) = tool.get("root") else { return Ok("None".to_owned()) };
    let table = item.as_table_like().ok_or(format!("{at}: `root` must be a table"))?;
    let mut rows = table.iter();
    let (Some((variable, folder)), None) = (rows.next(), rows.next()) else {
        return Err(format!("{at}: `root` has one variable"));
    };
    check(variable, at, |c| c.is_ascii_uppercase() || c == '_')?;
    let folder = folder.as_str().ok_or(format!("{at}: the directory of `root` is a string"))?;
    if folder != "." {
        check_path(folder, at)?;
    }
    Ok(format!("Some(({variable:?}, {folder:?}))"))
}

/// The common part of a tool and that of the platform, as one.
fn part(tool: &dyn TableLike, platform: &str, at: &str, root: &str) -> Result<String, String> {
    let at_platform = format!("[{}.{platform}]", at.trim_matches(['[', ']']));
    let mut from = vec![(tool, at)];
    if let Some(own) = tool.get(platform) {
        let own = own.as_table_like().ok_or(format!("{at_platform}: expected a table"))?;
        only(own, &at_platform, &PART)?;
        from.push((own, &at_platform));
    }
    let mut seen = BTreeSet::new();
    let [mut login, mut share] = [String::new(), String::new()];
    for (list, rows) in [("login", &mut login), ("share", &mut share)] {
        for (place, exposure) in listed(&from, list)? {
            let (path, row) = read_exposure(exposure, place, root)?;
            if !seen.insert(path.clone()) {
                return Err(format!("{place}: {path} is already there"));
            }
            *rows += &row;
        }
    }
    let texts = |key: &str, rule: fn(&str, &str) -> Result<(), String>| {
        let mut found = Vec::new();
        for (place, value) in listed(&from, key)? {
            let text = value.as_str().ok_or(format!("{place}: {value:?} is not a string"))?;
            rule(text, place)?;
            if found.contains(&text) {
                return Err(format!("{place}: {text} is already there"));
            }
            found.push(text);
        }
        Ok(found)
    };
    let caches = texts("caches", check_path)?;
    let variables = texts("variables", |name, at| {
        check(name, at, |c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
    })?;
    let items = texts("keyring_items", |name, at| check(name, at, |c| c.is_ascii_graphic() || c == ' '))?;
    let services = texts("services", |_, _| Ok(()))?;
    let elsewhere = if platform == "linux" { "keychain" } else { "secret-service" };
    if services.contains(&elsewhere) {
        return Err(format!("{at_platform}: {elsewhere} is not there on this platform"));
    }
    let keyring = services.iter().any(|service| ["keychain", "secret-service"].contains(service));
    if !items.is_empty() && !keyring {
        return Err(format!("{at_platform}: `keyring_items` needs a keyring"));
    }
    if items.is_empty() && services.contains(&"secret-service") {
        return Err(format!("{at_platform}: without `keyring_items` the secret-service shows nothing"));
    }
    let mut service_rows = String::new();
    for service in services {
        service_rows += &format!("Service::{}, ", variant(service, &SERVICES, &at_platform)?);
    }
    let status = match from.iter().rev().find_map(|(part, place)| Some((part.get("status")?, place))) {
        Some((status, place)) => format!("Some({})", read_status(status, place)?),
        None => "None".to_owned(),
    };
    Ok(format!(
        "Part {{ login: &[{login}], share: &[{share}], caches: &{caches:?}, services: &[{service_rows}], \
         keyring_items: &{items:?}, variables: &{variables:?}, status: {status} }}"
    ))
}

/// What the lists of this key hold, each with the place it is from.
fn listed<'a>(from: &[(&'a dyn TableLike, &'a str)], key: &str) -> Result<Vec<(&'a str, &'a Value)>, String> {
    let mut all = Vec::new();
    for (part, at) in from {
        let Some(item) = part.get(key) else { continue };
        let array = item.as_array().ok_or(format!("{at}: `{key}` must be a list"))?;
        all.extend(array.iter().map(|value| (*at, value)));
    }
    Ok(all)
}

fn read_exposure(value: &Value, at: &str, root: &str) -> Result<(String, String), String> {
    let entry = value.as_inline_table().ok_or(format!("{at}: expected {{ path = … }}, not {value:?}"))?;
    let path = entry.get("path").and_then(Value::as_str).ok_or(format!("{at}: `path` is missing"))?;
    let at = &format!("{at} {path}");
    only(entry, at, &["path", "folder", "secret", "writes", "xdg", "runtime"])?;
    check_path(path, at)?;
    let flag = |key: &str| match entry.get(key) {
        None => Ok(false),
        Some(value) => value.as_bool().ok_or(format!("{at}: `{key}` is true or false")),
    };
    let writes = entry.get("writes").and_then(Value::as_str).ok_or(format!("{at}: `writes` is missing"))?;
    let writes = variant(writes, &WRITES, at)?;
    let folder = flag("folder")?;
    if writes == (if folder { "Through" } else { "Kept" }) {
        return Err(format!("{at}: a folder is not written through, and a file is not kept"));
    }
    let xdg = match (flag("xdg")?, XDG.iter().find(|(folder, _)| path.starts_with(folder))) {
        (false, _) => "None".to_owned(),
        (true, Some((_, name))) => format!("Some(Xdg::{name})"),
        (true, None) => return Err(format!("{at}: `xdg` is for what lies in a folder of XDG")),
    };
    let (secret, runtime) = (flag("secret")?, flag("runtime")?);
    let row = format!(
        "Exposure {{ path: {path:?}, folder: {folder}, secret: {secret}, writes: Writes::{writes}, \
         xdg: {xdg}, root: {root}, runtime: {runtime} }}, "
    );
    Ok((path.to_owned(), row))
}

fn read_status(item: &Item, at: &str) -> Result<String, String> {
    let status = item.as_table_like().ok_or(format!("{at}: `status` must be a table"))?;
    let at = &format!("{at} status");
    only(status, at, &["run", "answer", "logged_in", "logged_out", "network"])?;
    let run = strings(status, at, "run")?;
    let answer = status.get("answer").and_then(Item::as_str).ok_or(format!("{at}: `answer` is missing"))?;
    let texts = |key: &str| if status.get(key).is_some() { strings(status, at, key) } else { Ok(Vec::new()) };
    let (logged_in, logged_out) = (texts("logged_in")?, texts("logged_out")?);
    if answer == "text" && logged_in.is_empty() && logged_out.is_empty() {
        return Err(format!("{at}: the answer is a text, and none is given"));
    }
    let answer = variant(answer, &[("exit", "Exit"), ("text", "Text"), ("output", "Output")], at)?;
    let network = match status.get("network") {
        None => false,
        Some(item) => item.as_bool().ok_or(format!("{at}: `network` is true or false"))?,
    };
    Ok(format!(
        "Status {{ run: &{run:?}, answer: Answer::{answer}, logged_in: &{logged_in:?}, \
         logged_out: &{logged_out:?}, network: {network} }}"
    ))
}

fn variant<'a>(word: &str, words: &[(&str, &'a str)], at: &str) -> Result<&'a str, String> {
    words.iter().find(|(known, _)| *known == word).map(|(_, variant)| *variant).ok_or_else(|| {
        let known: Vec<&str> = words.iter().map(|(known, _)| *known).collect();
        format!("{at}: {word:?} is none of {}", known.join(", "))
    })
}

fn check_path(path: &str, at: &str) -> Result<(), String> {
    check(path, at, |c| c.is_ascii_graphic() && c != '*' && c != '\\' || c == ' ')?;
    match path.split('/').find(|part| ["", ".", "..", "~"].contains(part)) {
        Some(_) => Err(format!("{at}: {path:?} must be relative to HOME, without empty, `.` or `..` parts")),
        None => Ok(()),
    }
}
