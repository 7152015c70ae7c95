//! Changes to the text of a policy file that leave everything else in it byte for byte: comments, order, line ends.
//!
//! The parser says where things stand; the text itself is cut and joined. Every function takes a text that was read without a mistake and
//! gives the new one, or `None` where it does not know how; the caller checks the result.

use std::ops::Range;
use toml_edit::{Document, InlineTable, Item, Table, TableLike, Value};

/// The groups of tables with names of the user's own.
const NAMED: [&str; 2] = ["profiles", "secrets"];

/// The table of a profile, made if there is none.
pub fn with_profile(text: &str, name: &str) -> Option<String> {
    with_table(text, "profiles", name)
}

/// The table of this name in a group, made if there is none.
pub fn with_table(text: &str, group: &str, name: &str) -> Option<String> {
    let document = Document::parse(text).ok()?;
    match document.get(group) {
        Some(tables) if tables.as_table_like().is_some_and(|table| table.contains_key(name)) => {
            Some(text.to_owned())
        }
        Some(Item::Value(Value::InlineTable(_))) => put(text, &[group, name], "{}"),
        _ => Some(with_header(text, group, name)),
    }
}

/// Takes away a table that was made by [`with_table`] or written in another way, with the comment lines that touch it from above.
pub fn without_table(text: &str, group: &str, name: &str) -> Option<String> {
    let document = Document::parse(text).ok()?;
    let table = match document.get(group)?.as_table_like()?.get(name)? {
        Item::Table(table) => table,
        _ => return remove(text, &[group, name]),
    };
    if table.is_dotted() {
        let keys: Vec<&str> = table.iter().map(|(key, _)| key).collect();
        return keys.iter().try_fold(text.to_owned(), |text, key| remove(&text, &[group, name, key]));
    }
    let header = table.span()?;
    let last = last_value(table).map_or(header.end, |last| last.end.max(header.end));
    let end = text.get(last..)?.find('\n').map_or(text.len(), |newline| last + newline + 1);
    let mut start = line_start(text, header.start);
    while let Some(above) = start.checked_sub(1).map(|newline| line_start(text, newline))
        && text.get(above..start)?.trim_start().starts_with('#')
    {
        start = above;
    }
    // One of the two gaps around it goes as well.
    let gap = text.get(end..)?.split_inclusive('\n').take_while(|line| line.trim().is_empty());
    let end = end + gap.map(str::len).sum::<usize>();
    let rest = replaced(text, start..end, "");
    if end < text.len() {
        Some(rest)
    } else {
        Some(rest.trim_end_matches(['\n', '\r']).to_owned() + line_end(text))
    }
}

/// Writes a key, over the value that it has if there is one.
pub fn set(text: &str, path: &[&str], value: &str) -> Option<String> {
    let document = Document::parse(text).ok()?;
    match item_at(&document, path) {
        Some(item) => Some(replaced(text, item.as_value()?.span()?, value)),
        None => put(text, path, value),
    }
}

/// Writes a key that is not there yet.
pub fn put(text: &str, path: &[&str], value: &str) -> Option<String> {
    let document = Document::parse(text).ok()?;
    let (leaf, above) = path.split_last()?;
    let mut block = Block::Lines(document.as_table());
    let mut table: &dyn TableLike = document.as_table();
    // The keys since the block began, which dots join.
    let mut dotted: Vec<&str> = Vec::new();
    let mut missing = above;
    while let Some((key, rest)) = missing.split_first() {
        let (inner, own_block) = match table.get(key) {
            Some(Item::Table(inner)) if inner.is_dotted() => (inner as &dyn TableLike, None),
            Some(Item::Table(inner)) => (inner as &dyn TableLike, Some(Block::Lines(inner))),
            Some(Item::Value(Value::InlineTable(inner))) if inner.is_dotted() => {
                (inner as &dyn TableLike, None)
            }
            Some(Item::Value(Value::InlineTable(inner))) => {
                (inner as &dyn TableLike, Some(Block::Braces(inner)))
            }
            Some(_) => return None,
            None => break,
        };
        table = inner;
        missing = rest;
        match own_block {
            Some(inner) => {
                block = inner;
                dotted.clear();
            }
            None => dotted.push(key),
        }
    }
    if let (Block::Lines(lines), [group, name, ..]) = (&block, path)
        && NAMED.contains(group)
        && lines.is_implicit()
        && above.len() - missing.len() == 2
    {
        // Only a table below the profile has a header so far.
        return put(&with_header(text, group, name), path, value);
    }
    let keys: Vec<String> = dotted.iter().chain(missing).chain([leaf]).map(|key| spelled(key)).collect();
    let entry = format!("{} = {value}", keys.join("."));
    let last = last_value(table);
    match block {
        Block::Braces(braces) => {
            let braces = braces.span()?;
            Some(match last {
                Some(last) => inserted(text, last.end, &format!(", {entry}")),
                None => inserted(text, braces.start + 1, &format!(" {entry} ")),
            })
        }
        Block::Lines(lines) => Some(match last.or_else(|| lines.span().filter(|_| !lines.is_implicit())) {
            Some(after) => {
                let indent = indent_of(text, after.start);
                line_after(text, after.end, &format!("{indent}{entry}"))
            }
            None => line_after(text, text.len(), &entry),
        }),
    }
}

/// Adds a text to a list, which is made if there is none.
pub fn push(text: &str, path: &[&str], entry: &str) -> Option<String> {
    let document = Document::parse(text).ok()?;
    let entry = format!("\"{entry}\"");
    let Some(item) = item_at(&document, path) else { return put(text, path, &format!("[{entry}]")) };
    let list = item.as_array()?;
    let span = list.span()?;
    let closing = span.end.checked_sub(1)?;
    let Some(last) = list.iter().last().and_then(Value::span) else {
        let inside = span.start + 1..closing;
        return Some(match text.get(inside.clone())? {
            comment if comment.contains('#') => inserted(text, closing, &format!("    {entry}\n")),
            _ => replaced(text, inside, &entry),
        });
    };
    let tail = text.get(last.end..closing)?;
    let Some(line) = tail.find('\n').and_then(|end| tail.get(..end)) else {
        return Some(inserted(text, last.end, &format!(", {entry}")));
    };
    let before_comment = |line: &str| line.split('#').next().unwrap_or_default().contains(',');
    let comma_here = before_comment(line);
    if !comma_here && tail.lines().any(before_comment) {
        return Some(inserted(text, last.end, &format!(", {entry}")));
    }
    // On a line of its own, after the comment of the one before.
    let line = line.strip_suffix('\r').unwrap_or(line);
    let indent = match indent_of(text, last.start) {
        indent if starts_its_line(text, last.start) => indent,
        _ => "    ",
    };
    let comma = if comma_here { "," } else { "" };
    let added = format!("{}{indent}{entry}{comma}", line_end(text));
    let text = inserted(text, last.end + line.len(), &added);
    Some(if comma_here { text } else { inserted(&text, last.end, ",") })
}

/// Takes a text out of a list wherever it stands in it, and the key with the last one.
pub fn pull(text: &str, path: &[&str], entry: &str) -> Option<String> {
    let mut text = text.to_owned();
    loop {
        let document = Document::parse(text.as_str()).ok()?;
        let Some(list) = item_at(&document, path).and_then(Item::as_array) else { return Some(text) };
        let Some(at) = list.iter().position(|value| value.as_str() == Some(entry)) else { return Some(text) };
        if list.iter().all(|value| value.as_str() == Some(entry)) {
            return remove(&text, path);
        }
        let gone = list.get(at)?.span()?;
        let before = match at.checked_sub(1) {
            Some(before) => list.get(before)?.span()?.end,
            None => list.span()?.start + 1,
        };
        let comma = comma_after(&text, gone.end);
        let cut = match (line_of_its_own(&text, &gone), comma) {
            (Some(line), None) => line,
            (Some(line), Some(comma)) if line.contains(&comma) => line,
            (_, Some(comma)) if text.get(gone.end..comma)?.trim() == "," => {
                gone.start..after_blanks(&text, comma)
            }
            // The comma stands behind a comment.
            (_, Some(comma)) => {
                text = replaced(&text, comma - 1..comma, "");
                gone
            }
            (_, None) if text.get(before..gone.start)?.trim() == "," => before..gone.end,
            (_, None) => gone,
        };
        text = replaced(&text, cut, "");
    }
}

/// Takes a key away, and a `home = {}` that it leaves.
pub fn remove(text: &str, path: &[&str]) -> Option<String> {
    let document = Document::parse(text).ok()?;
    let (leaf, above) = path.split_last()?;
    let mut table: &dyn TableLike = document.as_table();
    let mut in_braces = false;
    let mut alone_in_braces = false;
    for key in above {
        let item = table.get(key)?;
        table = item.as_table_like()?;
        in_braces |= item.is_inline_table();
        alone_in_braces = item.as_inline_table().is_some_and(|table| !table.is_dotted() && table.len() == 1);
    }
    if alone_in_braces && above.last() == Some(&"home") {
        return remove(text, above);
    }
    let (key, value) = (table.key(leaf)?.span()?, table.get(leaf)?.span()?);
    let key_char = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '"' | '\'' | ' ' | '\t');
    // The whole of a key with dots.
    let head = text.get(..key.start)?;
    let start = head.trim_end_matches(key_char).len();
    let start = start + text.get(start..)?.len() - text.get(start..)?.trim_start_matches([' ', '\t']).len();
    let cut = if !in_braces {
        line_of_its_own(text, &(start..value.end))?
    } else if let Some(comma) = comma_after(text, value.end) {
        if text.get(value.end..comma)?.trim() != "," {
            return Some(replaced(&replaced(text, comma - 1..comma, ""), start..value.end, ""));
        }
        start..after_blanks(text, comma)
    } else {
        let before = text.get(..start)?.trim_end();
        before.strip_suffix(',').map_or(start, |before| before.trim_end().len())..value.end
    };
    Some(replaced(text, cut, ""))
}

/// Where keys stand.
enum Block<'a> {
    Lines(&'a Table),
    Braces(&'a InlineTable),
}

fn item_at<'a>(document: &'a Document<&str>, path: &[&str]) -> Option<&'a Item> {
    let (leaf, above) = path.split_last()?;
    let mut table: &dyn TableLike = document.as_table();
    for key in above {
        table = table.get(key)?.as_table_like()?;
    }
    table.get(leaf)
}

/// The last value that stands in a table's own lines or braces.
fn last_value(table: &dyn TableLike) -> Option<Range<usize>> {
    let spans = table.iter().filter_map(|(_, item)| match item {
        Item::Table(inner) if inner.is_dotted() => last_value(inner),
        Item::Value(Value::InlineTable(inner)) if inner.is_dotted() => last_value(inner),
        Item::Value(value) => value.span(),
        _ => None,
    });
    spans.max_by_key(|span| span.end)
}

/// The text with a header for a table at its end.
fn with_header(text: &str, group: &str, name: &str) -> String {
    let end = line_end(text);
    let gap = match text {
        "" => "",
        text if text.ends_with('\n') => end,
        _ => &format!("{end}{end}"),
    };
    format!("{text}{gap}[{group}.{}]{end}", spelled(name))
}

/// A key as it is written.
fn spelled(key: &str) -> String {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    if key.bytes().all(bare) { key.to_owned() } else { format!("\"{key}\"") }
}

fn line_end(text: &str) -> &'static str {
    if text.contains("\r\n") { "\r\n" } else { "\n" }
}

/// A new line below the one that holds `at`.
fn line_after(text: &str, at: usize, line: &str) -> String {
    let end = line_end(text);
    match text.get(at..).and_then(|rest| rest.find('\n')) {
        Some(rest) => inserted(text, at + rest + 1, &format!("{line}{end}")),
        None if text.is_empty() || text.ends_with('\n') => format!("{text}{line}{end}"),
        None => format!("{text}{end}{line}{end}"),
    }
}

fn line_start(text: &str, at: usize) -> usize {
    text.get(..at).and_then(|before| before.rfind('\n')).map_or(0, |newline| newline + 1)
}

/// The white space that the line of `at` begins with.
fn indent_of(text: &str, at: usize) -> &str {
    let line = text.get(line_start(text, at)..at).unwrap_or_default();
    line.get(..line.len() - line.trim_start_matches([' ', '\t']).len()).unwrap_or_default()
}

fn starts_its_line(text: &str, at: usize) -> bool {
    text.get(line_start(text, at)..at).is_some_and(|before| before.trim().is_empty())
}

/// The lines that hold a span and nothing else but a comma and a comment.
fn line_of_its_own(text: &str, span: &Range<usize>) -> Option<Range<usize>> {
    let rest = text.get(span.end..)?;
    let line = rest.split_inclusive('\n').next().unwrap_or_default();
    let after = line.split('#').next().unwrap_or_default().trim();
    let alone = starts_its_line(text, span.start) && matches!(after, "" | ",");
    alone.then(|| line_start(text, span.start)..span.end + line.len())
}

/// Where the comma ends that follows, also behind a comment.
fn comma_after(text: &str, at: usize) -> Option<usize> {
    let mut rest = text.get(at..)?.trim_start();
    while rest.starts_with('#') {
        rest = rest.get(rest.find('\n')?..)?.trim_start();
    }
    let rest = rest.strip_prefix(',')?;
    Some(text.len() - rest.len())
}

fn after_blanks(text: &str, at: usize) -> usize {
    text.get(at..).map_or(at, |rest| text.len() - rest.trim_start_matches([' ', '\t']).len())
}

fn inserted(text: &str, at: usize, what: &str) -> String {
    replaced(text, at..at, what)
}

fn replaced(text: &str, span: Range<usize>, what: &str) -> String {
    let (before, after) = (text.get(..span.start), text.get(span.end..));
    [before.unwrap_or_default(), what, after.unwrap_or_default()].concat()
}
