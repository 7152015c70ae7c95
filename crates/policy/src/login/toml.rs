//! Settings in TOML with what is a credential taken out. Nothing is bound: of such a file only what is not secret is shown.

use super::{Odd, Part, is_secret_name, looks_secret};

/// Tables of variables and headers for servers: all that stands there is theirs.
const OF_OTHERS: &[&str] = &["env", "headers", "http_headers"];
/// Ends of names that say in which variable a credential is, how to log in, or where the login is kept.
const PLAIN: &[&str] =
    &["env_var", "env_vars", "env_key", "auth_method", "login_method", "credentials_store", "key_env"];

pub(super) fn parts(content: &str) -> Result<Vec<Part>, Odd> {
    let mut out = String::with_capacity(content.len());
    let mut is_of_others = false;
    // What ends a text over several lines, or how many brackets of a list are open.
    let (mut text_until, mut open) = (None, 0);
    for line in content.lines() {
        if let Some(mark) = text_until {
            if line.contains(mark) {
                text_until = None;
            }
            out += whole(line)?;
        } else if open > 0 {
            open += brackets(line);
            out += whole(line)?;
        } else {
            let text = line.trim();
            let is_comment = text.starts_with('#');
            if text.starts_with('[') {
                let names = text.trim_start_matches('[').split(']').next().unwrap_or_default();
                is_of_others = names.split('.').any(|name| OF_OTHERS.contains(&bare(name)));
                out += whole(line)?;
            } else if !text.is_empty() && !is_comment {
                let (name, value) = text.split_once('=').ok_or(Odd::Malformed)?;
                let (name, value) = (name.trim(), value.trim());
                let marks = ["\"\"\"", "\'\'\'"];
                text_until = marks.into_iter().find(|mark| value.matches(mark).count() == 1);
                open = if value.starts_with('[') { brackets(value) } else { 0 };
                out += whole(name)?;
                out += " = ";
                out += setting(name, value, is_of_others, text_until.is_some() || open > 0)?;
            }
        }
        out.push('\n');
    }
    match text_until.is_some() || open != 0 {
        true => Err(Odd::Malformed),
        false => Ok(vec![Part::Text(out)]),
    }
}

/// A value, or what stands in the place of a secret one.
fn setting<'v>(name: &str, value: &'v str, is_of_others: bool, goes_on: bool) -> Result<&'v str, Odd> {
    let last = bare(name.rsplit('.').next().unwrap_or(name));
    let is_table = name.split('.').any(|name| OF_OTHERS.contains(&bare(name)));
    let is_plain = PLAIN.iter().any(|end| last.ends_with(end));
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit()) || matches!(value, "true" | "false");
    let is_secret = is_of_others
        || is_table
        || !is_number && !is_plain && is_secret_name(last)
        || looks_secret(value, false)
        || value.starts_with('{') && OF_OTHERS.iter().any(|other| value.contains(other));
    match is_secret {
        false => Ok(value),
        // What follows would have to go as well.
        true if goes_on => Err(Odd::Elsewhere),
        true if value.starts_with('{') => Ok("{}"),
        true if value.starts_with('[') => Ok("[]"),
        true => Ok("\"\""),
    }
}

/// A line that is shown as it stands.
fn whole(line: &str) -> Result<&str, Odd> {
    if looks_secret(line, false) { Err(Odd::Elsewhere) } else { Ok(line) }
}

fn bare(name: &str) -> &str {
    name.trim().trim_matches(['"', '\''])
}

/// How many more brackets a line opens than it closes, outside of texts.
fn brackets(line: &str) -> i32 {
    let mut quote = None;
    let mut open = 0;
    for c in line.chars() {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(own), c) if own == c => quote = None,
            (None, '[') => open += 1,
            (None, ']') => open -= 1,
            (None, '#') => break,
            _ => {}
        }
    }
    open
}
