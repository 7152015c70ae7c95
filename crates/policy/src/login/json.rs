//! Login files of JSON: every text in them is looked at where it stands, so that all other bytes stay.

use super::{Field, File, Format, Odd, Part, Role, Row, is_secret_name, looks_secret, targets};
use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

/// Below these names stand variables and headers of programs and servers, under names of anyone's choice.
const OF_OTHERS: &[&str] = &["env", "headers", "environment", "httpheaders"];

pub(super) fn parts(file: &File, content: &str, guesses: bool) -> Result<Vec<Part>, Odd> {
    serde_json::from_str::<serde::de::IgnoredAny>(content).map_err(|_| Odd::Malformed)?;
    let mut walk = Walk { file, content, at: 0, path: Vec::new(), parts: Vec::new(), copied: 0, guesses };
    walk.value()?;
    let rest = content.get(walk.copied..).unwrap_or_default().to_owned();
    walk.parts.push(Part::Text(rest));
    Ok(walk.parts)
}

/// Settings in JSON of any program, in which what holds a credential is empty; `None` where they cannot be read. Comments go only with one.
pub(crate) fn without_credentials(content: &str) -> Option<String> {
    let parts = settings(&ANY, content).ok()?;
    let is_changed = parts.len() > 1;
    let text = |part: Part| match part {
        Part::Text(text) => text,
        _ => String::new(),
    };
    let shown: String = parts.into_iter().map(text).collect();
    Some(if is_changed { shown } else { content.to_owned() })
}

/// Settings with unknown fields.
static ANY: File =
    File { name: "any", path: "", format: Format::Settings, rows: &[], plain: &[], grants: &[], beside: &[] };

/// Settings of an agent. Blanks take the place of comments, so that what follows stands where it stood.
pub(super) fn settings(file: &File, content: &str) -> Result<Vec<Part>, Odd> {
    parts(file, &without_comments(content), false)
}

fn without_comments(content: &str) -> String {
    let mut out = String::with_capacity(content.len());
    let (mut rest, mut in_string) = (content, false);
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '/' if !in_string && rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if !in_string && rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |at| at + 2),
            _ => 0,
        };
        if end > 0 {
            out.extend(rest.bytes().take(end).map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
            rest = rest.get(end..).unwrap_or_default();
            continue;
        }
        let mut taken = first.len_utf8();
        match first {
            '"' => in_string = !in_string,
            '\\' if in_string => {
                taken += rest.get(1..).and_then(|rest| rest.chars().next()).map_or(0, char::len_utf8)
            }
            _ => {}
        }
        out += rest.get(..taken).unwrap_or_default();
        rest = rest.get(taken..).unwrap_or_default();
    }
    out
}

/// Whether a text under the name of a credential may be one.
fn may_be_credential(text: &str) -> bool {
    let has = |is: fn(&u8) -> bool| text.as_bytes().iter().any(is);
    text.len() >= 8
        && has(u8::is_ascii_digit)
        && has(u8::is_ascii_alphabetic)
        && !has(u8::is_ascii_whitespace)
}

/// What settings are made of and credentials are not.
fn is_plain_setting(text: &str) -> bool {
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || "_:.-".contains(c));
    // `${NAME}`, `$NAME`, `{env:NAME}`, `${input:NAME}`.
    let reference =
        text.strip_prefix("${").or(text.strip_prefix("{env:")).and_then(|rest| rest.strip_suffix('}'));
    let reference =
        reference.or(text.strip_prefix('$')).is_some_and(|name| name.len() <= 64 && is_name(name));
    let is_number = text.len() <= 8 && text.bytes().all(|byte| byte.is_ascii_digit());
    matches!(text, "true" | "false") || is_number || reference && !looks_secret(text, false)
}

/// The text of a string with its quotes.
pub(super) fn string(raw: &str) -> Option<Cow<'_, str>> {
    let inner = raw.strip_prefix('"')?.strip_suffix('"')?;
    match inner.contains('\\') {
        false => Some(Cow::Borrowed(inner)),
        true => serde_json::from_str(raw).ok().map(Cow::Owned),
    }
}

/// Goes through text that is valid JSON.
struct Walk<'a> {
    file: &'a File,
    content: &'a str,
    at: usize,
    path: Vec<String>,
    parts: Vec<Part>,
    /// Up to where the text is in the parts.
    copied: usize,
    guesses: bool,
}

impl Walk<'_> {
    fn peek(&mut self) -> Option<u8> {
        let bytes = self.content.as_bytes();
        while bytes.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        bytes.get(self.at).copied()
    }

    /// Where a string stands, with its quotes.
    fn string(&mut self) -> Result<Range<usize>, Odd> {
        let start = self.at;
        let mut escaped = false;
        for (place, byte) in self.content.bytes().enumerate().skip(start + 1) {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => {
                    self.at = place + 1;
                    return Ok(start..self.at);
                }
                _ => {}
            }
        }
        Err(Odd::Malformed)
    }

    fn value(&mut self) -> Result<(), Odd> {
        match self.peek().ok_or(Odd::Malformed)? {
            b'{' => self.object(),
            b'[' => self.array(),
            b'"' => {
                let range = self.string()?;
                self.text(range)
            }
            _ => {
                let start = self.at;
                let rest = self.content.as_bytes().get(start..).unwrap_or_default();
                let is_end = |byte: &u8| b",]} \t\r\n".contains(byte);
                self.at += rest.iter().position(is_end).unwrap_or(rest.len());
                self.number(start..self.at);
                Ok(())
            }
        }
    }

    fn object(&mut self) -> Result<(), Odd> {
        self.at += 1;
        let mut names = HashSet::new();
        while let Some(byte) = self.peek() {
            match byte {
                b'}' => {
                    self.at += 1;
                    return Ok(());
                }
                b',' => self.at += 1,
                _ => {
                    let range = self.string()?;
                    let name = string(self.content.get(range).unwrap_or_default()).ok_or(Odd::Malformed)?;
                    if crate::detect::registry::value_shape(name.as_bytes()).is_some() {
                        return Err(Odd::Elsewhere);
                    }
                    let name = name.into_owned();
                    if !names.insert(name.clone()) {
                        return Err(Odd::Twice);
                    }
                    self.peek();
                    self.at += 1;
                    self.path.push(name);
                    self.value()?;
                    self.path.pop();
                }
            }
        }
        Err(Odd::Malformed)
    }

    fn array(&mut self) -> Result<(), Odd> {
        self.at += 1;
        while let Some(byte) = self.peek() {
            match byte {
                b']' => {
                    self.at += 1;
                    return Ok(());
                }
                b',' => self.at += 1,
                _ => self.value()?,
            }
        }
        Err(Odd::Malformed)
    }

    fn row(&self) -> Option<(usize, &'static Row)> {
        let fits = |row: &Row| {
            row.at.len() == self.path.len()
                && row.at.iter().zip(&self.path).all(|(known, name)| *known == "*" || known == name)
        };
        // The narrower rows stand behind the wider ones.
        self.file.rows.iter().enumerate().rev().find(|(_, row)| fits(row))
    }

    fn take(&mut self, range: &Range<usize>) {
        let before = self.content.get(self.copied..range.start).unwrap_or_default().to_owned();
        self.parts.push(Part::Text(before));
        self.copied = range.end;
    }

    fn number(&mut self, range: Range<usize>) {
        if let Some((_, Row { role: role @ Role::Ends(_), grant, .. })) = self.row() {
            self.take(&range);
            self.parts.push(Part::Plain(*role, *grant, range));
        }
    }

    fn text(&mut self, range: Range<usize>) -> Result<(), Odd> {
        let raw = self.content.get(range.clone()).unwrap_or_default();
        let text = string(raw).ok_or(Odd::Malformed)?;
        if text.is_empty() {
            return Ok(());
        }
        match self.row() {
            Some((_, Row { role: role @ Role::Renewed, grant, .. })) if super::is_date(&text) => {
                self.take(&range);
                self.parts.push(Part::Plain(*role, *grant, range));
                return Ok(());
            }
            Some((_, Row { role: role @ Role::Account, grant, .. })) if !looks_secret(&text, false) => {
                self.take(&range);
                self.parts.push(Part::Plain(*role, *grant, range));
                return Ok(());
            }
            Some((place, row)) if !matches!(row.role, Role::Ends(_) | Role::Renewed | Role::Account) => {
                let (to, known, provider) = targets(&row.to, &self.path);
                let user = match row.form {
                    super::Form::UserAndPassword => {
                        let both = super::from_base64(&text).unwrap_or_default();
                        both.split_once(':').map(|(user, _)| user.to_owned())
                    }
                    _ => None,
                };
                let is_whole = row.form != super::Form::UserAndPassword
                    || user.as_deref().is_some_and(|user| !looks_secret(user, false));
                let at = self.path.join(".");
                let field = Field {
                    at,
                    role: row.role,
                    to,
                    known,
                    form: row.form,
                    user,
                    claims: None,
                    provider: provider.map(str::to_owned),
                    row: Some(place),
                    grant: row.grant,
                };
                self.take(&range);
                let is_bound = is_whole && !field.to.is_empty();
                self.parts.push(match is_bound {
                    true => Part::Field(Box::new(field), range),
                    false => Part::Text("\"\"".into()),
                });
                return Ok(());
            }
            _ => {}
        }
        let name = self.path.last().map(String::as_str).unwrap_or_default();
        let is_settings = self.file.format == Format::Settings;
        let is_plain = self.file.plain.contains(&name) && !looks_secret(&text, false)
            || is_settings && is_plain_setting(&text);
        // The variables of the agent itself are judged one by one.
        let of_servers =
            self.file.name != ANY.name && self.path.first().is_some_and(|first| first == "mcpServers");
        let of_others = !is_settings || of_servers;
        let is_of_others = self
            .path
            .iter()
            .rev()
            .skip(1)
            .any(|above| OF_OTHERS.contains(&above.to_ascii_lowercase().as_str()));
        // Of unknown settings the names alone say little.
        let is_named = is_secret_name(name) && (self.file.name != ANY.name || may_be_credential(&text));
        if !is_plain && (of_others && is_of_others || is_named || looks_secret(&text, self.guesses)) {
            self.take(&range);
            self.parts.push(Part::Text("\"\"".into()));
        }
        Ok(())
    }
}
