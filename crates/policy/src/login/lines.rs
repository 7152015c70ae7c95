//! Login files that are read line by line. A line that is not understood is left out, or the file is not shown.

use super::{
    Field, File, Form, Odd, Part, Role, is_secret_name, looks_secret, one_host, provider_of, targets,
};
use crate::detect::{registry, substitute};
use crate::provider;
use std::ops::Range;

fn field(at: String, to: Vec<String>, known: bool, form: Form, provider: Option<&str>) -> Box<Field> {
    Box::new(Field {
        at,
        role: Role::Key,
        to,
        known,
        form,
        user: None,
        claims: None,
        provider: provider.map(str::to_owned),
        row: None,
        grant: 0,
    })
}

/// Each line with its place, without its end.
fn lines(content: &str) -> impl Iterator<Item = (usize, &str)> {
    content.split_inclusive('\n').scan(0, |at, line| {
        let start = *at;
        *at += line.len();
        Some((start, line.trim_end_matches(['\n', '\r'])))
    })
}

/// Where a part of a line stands in the whole.
fn range(start: usize, line: &str, part: &str) -> Range<usize> {
    let from = start + (part.as_ptr() as usize - line.as_ptr() as usize);
    from..from + part.len()
}

/// `name: value` lines, indented by spaces: what `gh` writes of YAML.
pub(super) fn yaml(file: &File, content: &str) -> Result<Vec<Part>, Odd> {
    let mut parts = Vec::new();
    let mut above: Vec<(usize, String)> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for (start, line) in lines(content) {
        let text = line.trim();
        if text.is_empty() || text.starts_with('#') || text == "---" {
            continue;
        }
        let indent = line.len() - line.trim_start_matches(' ').len();
        let (name, value) = text.split_once(':').ok_or(Odd::Malformed)?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if name.is_empty() || !name.chars().all(is_plain) || !value.is_empty() && !value.starts_with(' ') {
            return Err(Odd::Malformed);
        }
        if looks_secret(name, false) {
            return Err(Odd::Elsewhere);
        }
        let value = value.trim();
        above.retain(|(other, _)| *other < indent);
        above.push((indent, name.to_owned()));
        let path: Vec<String> = above.iter().map(|(_, name)| name.clone()).collect();
        if !seen.insert(path.clone()) {
            return Err(Odd::Twice);
        }
        // What goes on over several lines, and what stands for something else.
        if value.starts_with(['|', '>', '&', '*', '!', '[', '{', '%', '@', '`']) || value.contains(" #") {
            return Err(Odd::Malformed);
        }
        parts.push(Part::Text(format!("{}{name}:", " ".repeat(indent))));
        let fits = |row: &super::Row| {
            row.at.len() == path.len()
                && row.at.iter().zip(&path).all(|(known, name)| *known == "*" || known == name)
        };
        match file.rows.iter().enumerate().find(|(_, row)| fits(row)) {
            _ if value.is_empty() => {}
            Some((place, row)) => {
                let (to, known, provider) = targets(&row.to, &path);
                parts.push(Part::Text(" ".into()));
                parts.push(match to.is_empty() {
                    true => Part::Text("\"\"".into()),
                    false => {
                        let field = field(path.join("."), to, known, Form::Text, provider);
                        Part::Field(Box::new(Field { row: Some(place), ..*field }), range(start, line, value))
                    }
                });
            }
            None => {
                let is_known = file.plain.contains(&name) && !looks_secret(value, false);
                let is_secret = !is_known && (is_secret_name(name) || looks_secret(value, true));
                parts.push(Part::Text(format!(" {}", if is_secret { "\"\"" } else { value })));
            }
        }
        parts.push(Part::Text("\n".into()));
    }
    Ok(parts)
}

/// Settings of npm: `//HOST/PATH/:_authToken=…`, and others.
pub(super) fn npmrc(content: &str) -> Result<Vec<Part>, Odd> {
    let mut parts = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for (start, line) in lines(content) {
        let text = line.trim();
        if text.is_empty() || text.starts_with(['#', ';', '[']) {
            continue;
        }
        let Some((name, value)) = text.split_once('=') else { continue };
        let (name, value) = (name.trim(), value.trim());
        if looks_secret(name, false) {
            return Err(Odd::Elsewhere);
        }
        parts.push(Part::Text(format!("{name}=")));
        let what = name.rsplit_once(':').map_or(name, |(_, what)| what);
        let form = match what {
            "_authToken" => Some(Form::Text),
            "_auth" => Some(Form::UserAndPassword),
            "_password" => Some(Form::Base64),
            _ => None,
        };
        let is_reference = value.starts_with("${") && value.ends_with('}') && !value.contains(' ');
        match form {
            _ if is_reference => parts.push(Part::Text(value.to_owned())),
            Some(form) => {
                let place = name.strip_prefix("//").and_then(|rest| rest.rsplit_once(":_"));
                let (host, path) = match place {
                    Some((place, _)) => match place.find('/') {
                        Some(at) => place.split_at(at),
                        None => (place, ""),
                    },
                    None => ("", ""),
                };
                let user = match form {
                    Form::UserAndPassword => {
                        super::from_base64(value).and_then(|both| Some(both.split_once(':')?.0.to_owned()))
                    }
                    _ => None,
                };
                let is_whole = match form {
                    Form::UserAndPassword => user.as_deref().is_some_and(|user| !looks_secret(user, false)),
                    Form::Base64 => super::from_base64(value).is_some(),
                    _ => !value.contains('$'),
                };
                let to = if is_whole { one_host(host, path) } else { Vec::new() };
                // A setting that is repeated: the last one counts, and each is a field.
                let mut at = name.to_owned();
                while !seen.insert(at.clone()) {
                    at.push('\'');
                }
                if !to.is_empty() {
                    let field = field(at, to, false, form, provider_of(host));
                    parts.push(Part::Field(Box::new(Field { user, ..*field }), range(start, line, value)));
                }
            }
            None => {
                let is_secret = is_secret_name(what) && what != "always-auth" || looks_secret(value, true);
                parts.push(Part::Text(if is_secret { String::new() } else { value.to_owned() }));
            }
        }
        parts.push(Part::Text("\n".into()));
    }
    Ok(parts)
}

/// `machine HOST login USER password WORD`, on one line or on several.
pub(super) fn netrc(content: &str) -> Result<Vec<Part>, Odd> {
    let mut words: Vec<(usize, &str)> = Vec::new();
    for (start, line) in lines(content) {
        let mut rest = line;
        loop {
            rest = rest.trim_start();
            // A comment ends with its line.
            if rest.is_empty() || rest.starts_with('#') {
                break;
            }
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            if word.starts_with('"') || word.contains('\\') {
                return Err(Odd::Malformed);
            }
            words.push((range(start, line, word).start, word));
            rest = after;
        }
    }
    let mut parts = Vec::new();
    let mut host: Option<&str> = None;
    let mut seen = std::collections::HashSet::new();
    let mut words = words.into_iter();
    while let Some((_, word)) = words.next() {
        match word {
            "machine" => {
                let (_, name) = words.next().ok_or(Odd::Malformed)?;
                if looks_secret(name, false) {
                    return Err(Odd::Elsewhere);
                }
                host = Some(name);
                parts.push(Part::Text(format!("machine {name}\n")));
            }
            "default" => {
                host = None;
                parts.push(Part::Text("default\n".into()));
            }
            "login" => {
                let (_, user) = words.next().ok_or(Odd::Malformed)?;
                let user = if looks_secret(user, false) { "withheld" } else { user };
                parts.push(Part::Text(format!("\tlogin {user}\n")));
            }
            "password" | "account" => {
                let (start, value) = words.next().ok_or(Odd::Malformed)?;
                parts.push(Part::Text(format!("\t{word} ")));
                let to = host.filter(|_| word == "password").map(|host| one_host(host, ""));
                let to = to.unwrap_or_default();
                let mut at = format!("{}.{word}", host.unwrap_or("default"));
                while !seen.insert(at.clone()) {
                    at.push('\'');
                }
                parts.push(match to.is_empty() {
                    true => Part::Text("withheld".into()),
                    false => {
                        let provider = host.and_then(provider_of);
                        Part::Field(field(at, to, false, Form::Text, provider), start..start + value.len())
                    }
                });
                parts.push(Part::Text("\n".into()));
            }
            // A macro runs commands, and ends where a reader of words does not see it.
            _ => return Err(Odd::Malformed),
        }
    }
    Ok(parts)
}

/// Variables: those of known providers are fields, others show what every hidden file of variables does.
pub(super) fn dotenv(content: &str) -> Result<Vec<Part>, Odd> {
    let mut parts = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for (exported, name, value) in substitute::assignments(content.as_bytes()) {
        let name_text = std::str::from_utf8(name).map_err(|_| Odd::Malformed)?;
        parts.push(Part::Text(format!("{}{name_text}=", if exported { "export " } else { "" })));
        let provider = provider::of_variable(name_text);
        let bound = provider.filter(|provider| !provider.hosts.is_empty() && provider.name != "aws");
        match bound {
            Some(provider) if !value.is_empty() => {
                let mut at = name_text.to_owned();
                while !seen.insert(at.clone()) {
                    at.push('\'');
                }
                let start = value.as_ptr() as usize - content.as_ptr() as usize;
                let to = provider.hosts.iter().map(|host| (*host).to_owned()).collect();
                let field = field(at, to, true, Form::Text, Some(provider.name));
                parts.push(Part::Field(field, start..start + value.len()));
            }
            None if substitute::is_operational(name, value, &[]) => {
                parts.push(Part::Text(String::from_utf8_lossy(value).into_owned()));
            }
            None => parts.extend(setting(name_text, value).map(Part::Text)),
            Some(_) => {}
        }
        parts.push(Part::Text("\n".into()));
    }
    Ok(parts)
}

/// A value that neither its name nor its own look makes a credential, as it is written.
fn setting(name: &str, value: &[u8]) -> Option<String> {
    let value = std::str::from_utf8(value).ok()?;
    let upper = name.to_ascii_uppercase();
    let is_secret = registry::known(upper.as_bytes()).is_some()
        || registry::name_shape(upper.as_bytes()).is_some()
        || is_secret_name(name)
        || looks_secret(value, true)
        || value.contains("://") && value.contains('@');
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.,:/@+=%~".contains(c);
    match value {
        _ if is_secret || value.len() > LONGEST_SETTING => None,
        _ if value.chars().all(is_plain) => Some(value.to_owned()),
        _ if value.chars().any(|c| c.is_control() || "\"\\$`".contains(c)) => None,
        _ => Some(format!("\"{value}\"")),
    }
}

/// No setting of an agent is longer; a credential may be.
const LONGEST_SETTING: usize = 256;

/// `https://USER:PASSWORD@HOST/PATH`, one on a line. Lines that are not like that are left out.
pub(super) fn urls(content: &str) -> Result<Vec<Part>, Odd> {
    let mut parts = Vec::new();
    for (number, (start, line)) in lines(content).enumerate() {
        let read = || {
            let rest = line.trim().strip_prefix("https://")?;
            let (login, place) = rest.split_once('@')?;
            let (user, password) = login.split_once(':')?;
            let host = place.split('/').next()?;
            let is_plain = !place.contains(['@', '?', '#', ' ']) && !looks_secret(user, false);
            (is_plain && !password.is_empty()).then_some((user, password, host, place))
        };
        let Some((user, password, host, place)) = read() else { continue };
        let to = one_host(host, "");
        if to.is_empty() || looks_secret(place, true) {
            continue;
        }
        parts.push(Part::Text(format!("https://{user}:")));
        let at = format!("{host}.{number}");
        let field = field(at, to, false, Form::Encoded, provider_of(host));
        parts.push(Part::Field(field, range(start, line, password)));
        parts.push(Part::Text(format!("@{place}\n")));
    }
    Ok(parts)
}
