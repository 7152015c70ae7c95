//! Changes to the text of a JSON file of another program that leave everything else in it byte for byte: comments, order, spacing.
//!
//! The reader takes JSON with comments and trailing commas, as agents and editors write it, and says where things stand. The text itself is
//! cut and joined.

use serde_json::Value;
use std::ops::Range;

/// What is wrong with a text, and where: line and column from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    pub line: usize,
    pub column: usize,
    pub what: &'static str,
}

/// A value and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub span: Range<usize>,
    pub kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    Object(Vec<Member>),
    Array(Vec<Node>),
    Text(String),
    /// A number, `true`, `false` or `null`.
    Plain,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Member {
    pub key: String,
    pub start: usize,
    pub value: Node,
}

impl Node {
    /// The value at a path of keys.
    pub fn at(&self, path: &[&str]) -> Option<&Node> {
        path.iter().try_fold(self, |node, key| node.member(key).map(|member| &member.value))
    }

    fn member(&self, key: &str) -> Option<&Member> {
        match &self.kind {
            // Of keys that stand there twice, programs take the last.
            Kind::Object(members) => members.iter().rev().find(|member| member.key == key),
            _ => None,
        }
    }

    pub fn members(&self) -> &[Member] {
        match &self.kind {
            Kind::Object(members) => members,
            _ => &[],
        }
    }

    pub fn elements(&self) -> &[Node] {
        match &self.kind {
            Kind::Array(elements) => elements,
            _ => &[],
        }
    }

    pub fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// Values nest no deeper.
const DEEPEST: usize = 128;

/// Reads a text. An empty one is an empty object.
pub fn parse(text: &str) -> Result<Node, Malformed> {
    let mut reader = Reader { text, at: 0, depth: 0 };
    let value = reader.whole().map_err(|what| {
        let before = text.get(..reader.at.min(text.len())).unwrap_or_default();
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        Malformed { line: before.matches('\n').count() + 1, column, what }
    })?;
    Ok(value)
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    depth: usize,
}

impl Reader<'_> {
    fn whole(&mut self) -> Result<Node, &'static str> {
        if self.text.starts_with('\u{feff}') {
            self.at = '\u{feff}'.len_utf8();
        }
        self.blanks()?;
        if self.rest().is_empty() {
            return Ok(Node { span: self.at..self.at, kind: Kind::Object(Vec::new()) });
        }
        let value = self.value()?;
        self.blanks()?;
        if self.rest().is_empty() { Ok(value) } else { Err("something stands behind the value") }
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn next(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Blanks and comments.
    fn blanks(&mut self) -> Result<(), &'static str> {
        loop {
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start_matches([' ', '\t', '\r', '\n']).len();
            if blank > 0 {
                self.at += blank;
            } else if rest.starts_with("//") {
                self.at += rest.find('\n').unwrap_or(rest.len());
            } else if rest.starts_with("/*") {
                self.at += rest.find("*/").ok_or("a comment does not end")? + 2;
            } else {
                return Ok(());
            }
        }
    }

    fn value(&mut self) -> Result<Node, &'static str> {
        let start = self.at;
        let kind = match self.next() {
            Some(b'{') => self.nested(Self::object)?,
            Some(b'[') => self.nested(Self::array)?,
            Some(b'"') => Kind::Text(self.string()?),
            Some(b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => {
                let is_part = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
                let length = self.rest().find(|c| !is_part(c)).unwrap_or(self.rest().len());
                let word = self.rest().get(..length).unwrap_or_default();
                serde_json::from_str::<Value>(word).map_err(|_| "this is not a value")?;
                self.at += length;
                Kind::Plain
            }
            Some(_) => return Err("this is not a value"),
            None => return Err("the text ends where a value is expected"),
        };
        Ok(Node { span: start..self.at, kind })
    }

    fn nested(
        &mut self,
        inner: impl FnOnce(&mut Self) -> Result<Kind, &'static str>,
    ) -> Result<Kind, &'static str> {
        self.depth += 1;
        self.at += 1;
        if self.depth > DEEPEST {
            return Err("values nest too deep");
        }
        let kind = inner(self)?;
        self.depth -= 1;
        Ok(kind)
    }

    /// Whether a list goes on behind an element; a comma may stand before its end.
    fn goes_on(&mut self, end: u8) -> Result<bool, &'static str> {
        self.blanks()?;
        let comma = self.next() == Some(b',');
        if comma {
            self.at += 1;
            self.blanks()?;
        }
        match self.next() {
            Some(byte) if byte == end => {
                self.at += 1;
                Ok(false)
            }
            Some(_) if comma => Ok(true),
            Some(_) => Err("a comma is missing"),
            None => Err("a bracket is not closed"),
        }
    }

    fn object(&mut self) -> Result<Kind, &'static str> {
        let mut members = Vec::new();
        self.blanks()?;
        if self.next() == Some(b'}') {
            self.at += 1;
            return Ok(Kind::Object(members));
        }
        loop {
            let start = self.at;
            if self.next() != Some(b'"') {
                return Err("a name in quotes is expected");
            }
            let key = self.string()?;
            self.blanks()?;
            if self.next() != Some(b':') {
                return Err("a colon is missing");
            }
            self.at += 1;
            self.blanks()?;
            let value = self.value()?;
            members.push(Member { key, start, value });
            if !self.goes_on(b'}')? {
                return Ok(Kind::Object(members));
            }
        }
    }

    fn array(&mut self) -> Result<Kind, &'static str> {
        let mut elements = Vec::new();
        self.blanks()?;
        if self.next() == Some(b']') {
            self.at += 1;
            return Ok(Kind::Array(elements));
        }
        loop {
            elements.push(self.value()?);
            if !self.goes_on(b']')? {
                return Ok(Kind::Array(elements));
            }
        }
    }

    fn string(&mut self) -> Result<String, &'static str> {
        let mut length = 1;
        let bytes = self.rest().as_bytes();
        loop {
            match bytes.get(length) {
                Some(b'"') => break,
                Some(b'\\') => length += 2,
                Some(b'\n') | None => return Err("a text in quotes does not end"),
                Some(_) => length += 1,
            }
        }
        let quoted = self.rest().get(..=length).ok_or("a text in quotes does not end")?;
        let text = serde_json::from_str(quoted).map_err(|_| "a text in quotes is malformed")?;
        self.at += length + 1;
        Ok(text)
    }
}

/// Writes a member, over the value that it has if there is one. Objects on the way are made. `None` where something else stands in the way.
pub fn set(text: &str, path: &[&str], value: &Value) -> Option<String> {
    let root = parse(text).ok()?;
    if let Some(found) = root.at(path) {
        let indent = line_indent(text, found.span.start);
        return Some(replaced(text, found.span.clone(), &shown(value, &indent, &unit(text))));
    }
    if root.span.is_empty() {
        let whole = path.iter().rev().fold(value.clone(), |inner, key| object(key, inner));
        return Some(format!("{}{}\n", text.get(..root.span.start)?, shown(&whole, "", "  ")));
    }
    let missing = (0..path.len()).rev().find(|length| root.at(&path[..*length]).is_some())?;
    let around = root.at(&path[..missing])?;
    let Kind::Object(members) = &around.kind else { return None };
    let (key, below) = (path.get(missing)?, &path[missing + 1..]);
    let value = below.iter().rev().fold(value.clone(), |inner, key| object(key, inner));
    let last = members.last().map(|member| (member.start, member.value.span.end));
    let key = Value::from(*key).to_string();
    Some(appended(text, around, last, |indent, unit| format!("{key}: {}", shown(&value, indent, unit))))
}

/// Adds an element to the array at a path, which is made if it is not there.
pub fn push(text: &str, path: &[&str], value: &Value) -> Option<String> {
    let root = parse(text).ok()?;
    let Some(around) = root.at(path) else {
        return set(text, path, &Value::Array(vec![value.clone()]));
    };
    let Kind::Array(elements) = &around.kind else { return None };
    let last = elements.last().map(|element| (element.span.start, element.span.end));
    Some(appended(text, around, last, |indent, unit| shown(value, indent, unit)))
}

/// Takes away the member at a path, and the objects above it that are empty then, if `and_above`.
pub fn remove(text: &str, path: &[&str], and_above: bool) -> Option<String> {
    let root = parse(text).ok()?;
    let (key, above) = path.split_last()?;
    let around = root.at(above)?;
    let Kind::Object(members) = &around.kind else { return None };
    let place = members.iter().rposition(|member| member.key == *key)?;
    if and_above && members.len() == 1 && !above.is_empty() {
        return remove(text, above, true);
    }
    let spans: Vec<_> = members.iter().map(|member| member.start..member.value.span.end).collect();
    Some(without(text, around, &spans, place))
}

/// Takes away an element of the array at a path, and the array with the objects above it if they are empty then.
pub fn remove_element(text: &str, path: &[&str], place: usize) -> Option<String> {
    let root = parse(text).ok()?;
    let around = root.at(path)?;
    let Kind::Array(elements) = &around.kind else { return None };
    if elements.len() == 1 && place == 0 {
        return remove(text, path, true);
    }
    let spans: Vec<_> = elements.iter().map(|element| element.span.clone()).collect();
    Some(without(text, around, &spans, place))
}

fn object(key: &str, inner: Value) -> Value {
    Value::Object(serde_json::Map::from_iter([(key.to_owned(), inner)]))
}

/// Puts something behind the last of a list, laid out as that is.
fn appended(
    text: &str,
    around: &Node,
    last: Option<(usize, usize)>,
    shown: impl FnOnce(&str, &str) -> String,
) -> String {
    let unit = unit(text);
    match last {
        Some((start, end)) if stands_first(text, start) => {
            let indent = line_indent(text, start);
            replaced(text, end..end, &format!(",\n{indent}{}", shown(&indent, &unit)))
        }
        Some((start, end)) => {
            let indent = line_indent(text, start);
            replaced(text, end..end, &format!(", {}", shown(&indent, &unit)))
        }
        None => {
            // Comments in an empty list stay.
            let outer = line_indent(text, around.span.start);
            let indent = format!("{outer}{unit}");
            let end = around.span.end - 1;
            let inside = text.get(around.span.start + 1..end).unwrap_or_default().trim_end();
            let from = around.span.start + 1 + inside.len();
            replaced(text, from..end, &format!("\n{indent}{}\n{outer}", shown(&indent, &unit)))
        }
    }
}

/// Cuts one of a list out, with the comma that belongs to it.
fn without(text: &str, around: &Node, spans: &[Range<usize>], place: usize) -> String {
    let Some(own) = spans.get(place) else { return text.to_owned() };
    let cut = match (place.checked_sub(1).and_then(|before| spans.get(before)), spans.get(place + 1)) {
        // The last one: from the end of the one before it.
        (Some(before), None) => before.end..own.end,
        (_, Some(after)) => own.start..after.start,
        (None, None) => around.span.start + 1..around.span.end - 1,
    };
    replaced(text, cut, "")
}

fn replaced(text: &str, range: Range<usize>, with: &str) -> String {
    let (before, after) =
        (text.get(..range.start).unwrap_or_default(), text.get(range.end..).unwrap_or_default());
    format!("{before}{with}{after}")
}

/// The blanks at the beginning of the line in which something stands.
fn line_indent(text: &str, at: usize) -> String {
    let line = text.get(..at).unwrap_or_default().rsplit('\n').next().unwrap_or_default();
    line.chars().take_while(|c| *c == ' ' || *c == '\t').collect()
}

/// Whether nothing but blanks stands before it in its line, and it is not the first line.
fn stands_first(text: &str, at: usize) -> bool {
    let before = text.get(..at).unwrap_or_default();
    before.contains('\n') && before.trim_end_matches([' ', '\t']).ends_with('\n')
}

/// By how much this text indents.
fn unit(text: &str) -> String {
    let indented = text.lines().find_map(|line| {
        let blanks: String = line.chars().take_while(|c| *c == ' ' || *c == '\t').collect();
        (!blanks.is_empty() && blanks.len() < line.len()).then_some(blanks)
    });
    indented.unwrap_or_else(|| "  ".into())
}

/// A value over several lines; the first one has no indent.
fn shown(value: &Value, indent: &str, unit: &str) -> String {
    let inner = format!("{indent}{unit}");
    let list = |open: char, close: char, each: Vec<String>| match each.is_empty() {
        true => format!("{open}{close}"),
        false => format!("{open}\n{inner}{}\n{indent}{close}", each.join(&format!(",\n{inner}"))),
    };
    match value {
        Value::Object(members) => {
            let member = |(key, value): (&String, &Value)| {
                format!("{}: {}", Value::from(key.as_str()), shown(value, &inner, unit))
            };
            list('{', '}', members.iter().map(member).collect())
        }
        Value::Array(elements) if elements.iter().any(|one| one.is_object() || one.is_array()) => {
            list('[', ']', elements.iter().map(|one| shown(one, &inner, unit)).collect())
        }
        Value::Array(elements) => {
            let each: Vec<String> = elements.iter().map(Value::to_string).collect();
            format!("[{}]", each.join(", "))
        }
        plain => plain.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const ODD: &str = "{\n    // mine\n    \"model\" : \"opus\",   /* tight */\n    \"hooks\": {\n        \"PreToolUse\": [\n            { \"matcher\": \"Write\", \"hooks\": [] },\n        ],\n    },\n}\n";

    #[test]
    fn what_is_added_and_taken_away_again_leaves_every_byte() {
        for text in [
            ODD,
            "{}",
            "{ }\n",
            "{\"a\":1}",
            "{\n\t\"hooks\": {}\n}\n",
            "{\n  \"hooks\": {\n    \"Stop\": []\n  }\n}",
        ] {
            let pushed = push(text, &["hooks", "PreToolUse"], &json!({ "x": [1, 2] })).unwrap();
            let root = parse(&pushed).unwrap();
            let list = root.at(&["hooks", "PreToolUse"]).unwrap().elements();
            let place = list.len() - 1;
            let removed = remove_element(&pushed, &["hooks", "PreToolUse"], place).unwrap();
            let clean = |text: &str| text.split_whitespace().collect::<String>();
            // Objects that were empty before and had to hold something are not told from those that were made.
            if !clean(text).contains("\"hooks\":{}") {
                assert_eq!(
                    clean(&removed).replace(",}", "}"),
                    clean(text).replace(",}", "}"),
                    "{text}\n{pushed}\n{removed}"
                );
            }
            assert!(pushed.starts_with(text.split_once("\"PreToolUse\"").map_or("{", |(before, _)| before)));
        }
    }

    #[test]
    fn a_new_element_is_laid_out_like_its_neighbours() {
        insta::assert_snapshot!(
            push(ODD, &["hooks", "PreToolUse"], &json!({ "matcher": "*", "hooks": [{ "type": "command" }] }))
                .unwrap()
        );
        insta::assert_snapshot!(set(ODD, &["env", "A"], &json!("b")).unwrap());
        insta::assert_snapshot!(set("", &["env", "A"], &json!("b")).unwrap());
        insta::assert_snapshot!(set("{\"env\":{\"B\":1}}", &["env", "A"], &json!("b")).unwrap());
    }

    #[test]
    fn a_mistake_has_its_line_and_column() {
        let wrong = |text: &str| parse(text).map(|_| ()).unwrap_err();
        assert_eq!(
            wrong("{\n  \"a\": 1\n  \"b\": 2\n}"),
            Malformed { line: 3, column: 3, what: "a comma is missing" }
        );
        assert_eq!(wrong("{\"a\": }"), Malformed { line: 1, column: 7, what: "this is not a value" });
        assert_eq!(wrong("{\"a\": 1"), Malformed { line: 1, column: 8, what: "a bracket is not closed" });
        assert_eq!(wrong("{} x").what, "something stands behind the value");
        assert_eq!(wrong(&"[".repeat(200)).what, "values nest too deep");
    }

    #[test]
    fn what_is_not_an_object_is_not_written_over() {
        assert_eq!(set("{\"hooks\": 3}", &["hooks", "A"], &json!(1)), None);
        assert_eq!(push("{\"hooks\": {\"A\": {}}}", &["hooks", "A"], &json!(1)), None);
        assert_eq!(set("[]", &["a"], &json!(1)), None);
    }

    proptest! {
        #[test]
        fn what_serde_writes_is_read_with_the_same_places(keys in prop::collection::vec("[a-z\"\\\\é]{0,4}", 0..5)) {
            let value: serde_json::Map<String, Value> = keys.iter().map(|key| (key.clone(), json!([1, {"x": key}]))).collect();
            let text = serde_json::to_string_pretty(&value).unwrap();
            let root = parse(&text).unwrap();
            for member in root.members() {
                let there: Value = serde_json::from_str(&text[member.value.span.clone()]).unwrap();
                prop_assert_eq!(&there, &value[&member.key]);
            }
            let added = set(&text, &["new", "er"], &json!(7)).unwrap();
            let read: Value = serde_json::from_str(&added).unwrap();
            prop_assert_eq!(&read["new"]["er"], &json!(7));
            let back = remove(&added, &["new", "er"], true).unwrap();
            prop_assert_eq!(serde_json::from_str::<Value>(&back).unwrap(), Value::Object(value));
        }

        #[test]
        fn no_text_makes_the_reader_fall_over(text in ".*") {
            let _ = parse(&text);
            let _ = set(&text, &["a", "b"], &json!({}));
            let _ = push(&text, &["a", "b"], &json!({}));
        }
    }
}
