//! JSON-RPC 2.0, a message per line: what comes in, and the errors of the protocol. It decides nothing about tools.

use serde::Serialize;
use serde_json::{Value, json};
use std::io::{BufRead, Read};

/// Bytes of one line that are read.
const LONGEST: u64 = 4 << 20;
/// Messages of one array.
const MOST: usize = 64;

/// The name of a request: a string or a whole number.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(untagged)]
pub enum Id {
    Number(i64),
    Text(String),
}

impl Id {
    pub fn of(value: Option<&Value>) -> Option<Id> {
        match value? {
            Value::Number(number) => number.as_i64().map(Id::Number),
            Value::String(text) => Some(Id::Text(text.clone())),
            _ => None,
        }
    }
}

pub struct Request {
    pub id: Id,
    pub method: String,
    pub params: Value,
}

/// One message of the client.
pub enum Incoming {
    Request(Request),
    Notification {
        method: String,
        params: Value,
    },
    /// We ask nothing, so that it answers nothing.
    Response,
    Wrong(Option<Id>, Failure),
}

/// Why a request has no result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    NotJson,
    NotAMessage,
    TooLong,
    UnknownMethod,
    UnknownTool(String),
    NotInitialized,
    SameId,
    TooMany,
}

impl Failure {
    pub fn answer(&self, id: Option<&Id>) -> Value {
        let (code, message) = match self {
            Failure::NotJson => (-32700, "not valid JSON".to_owned()),
            Failure::NotAMessage => (-32600, "not a JSON-RPC 2.0 message".to_owned()),
            Failure::TooLong => (-32600, format!("a message is longer than {LONGEST} bytes")),
            Failure::UnknownMethod => (-32601, "unknown method".to_owned()),
            Failure::UnknownTool(name) => {
                let name: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
                (-32602, format!("unknown tool: {name}; the tools are run, read and why"))
            }
            Failure::NotInitialized => (-32600, "the first request has to be initialize".to_owned()),
            Failure::SameId => (-32600, "a request with this id is not answered yet".to_owned()),
            Failure::TooMany => (-32603, "too many calls at one time; retry when one has ended".to_owned()),
        };
        json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
    }
}

/// Reads one line: a message, or several in an array.
pub fn read(line: &[u8]) -> Vec<Incoming> {
    match serde_json::from_slice(line) {
        Ok(Value::Array(all)) if all.is_empty() || all.len() > MOST => wrong(Failure::NotAMessage),
        Ok(Value::Array(all)) => {
            let mut several: Vec<Incoming> = all.into_iter().map(message).collect();
            // One message in an array is still answered by an array.
            if several.len() == 1 {
                several.push(Incoming::Response);
            }
            several
        }
        Ok(one) => vec![message(one)],
        Err(_) => wrong(Failure::NotJson),
    }
}

fn wrong(failure: Failure) -> Vec<Incoming> {
    vec![Incoming::Wrong(None, failure)]
}

fn message(value: Value) -> Incoming {
    let Value::Object(mut fields) = value else { return Incoming::Wrong(None, Failure::NotAMessage) };
    let id = Id::of(fields.get("id"));
    if fields.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Incoming::Wrong(id, Failure::NotAMessage);
    }
    let has_id = fields.contains_key("id");
    let params = fields.remove("params").unwrap_or(Value::Null);
    let method = match fields.remove("method") {
        Some(Value::String(method)) => method,
        None if fields.contains_key("result") || fields.contains_key("error") => return Incoming::Response,
        _ => return Incoming::Wrong(id, Failure::NotAMessage),
    };
    match (id, has_id) {
        (Some(id), _) => Incoming::Request(Request { id, method, params }),
        (None, false) => Incoming::Notification { method, params },
        (None, true) => Incoming::Wrong(None, Failure::NotAMessage),
    }
}

/// The lines of the input, each up to a bound.
pub struct Lines<R> {
    input: R,
}

pub enum Line {
    Whole(Vec<u8>),
    TooLong,
}

impl<R: BufRead> Lines<R> {
    pub fn new(input: R) -> Self {
        Lines { input }
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = Line;

    fn next(&mut self) -> Option<Line> {
        loop {
            let mut line = Vec::new();
            let read = (&mut self.input).take(LONGEST + 1).read_until(b'\n', &mut line).ok()?;
            if read == 0 {
                return None;
            }
            if line.last() != Some(&b'\n') && read as u64 > LONGEST {
                self.skip_rest()?;
                return Some(Line::TooLong);
            }
            if !line.trim_ascii().is_empty() {
                return Some(Line::Whole(line));
            }
        }
    }
}

impl<R: BufRead> Lines<R> {
    /// Passes over the rest of a line without keeping it.
    fn skip_rest(&mut self) -> Option<()> {
        loop {
            let part = self.input.fill_buf().ok()?;
            if part.is_empty() {
                return Some(());
            }
            let end = part.iter().position(|byte| *byte == b'\n');
            let length = end.map_or(part.len(), |end| end + 1);
            self.input.consume(length);
            if end.is_some() {
                return Some(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(line: &str) -> Incoming {
        let mut all = read(line.as_bytes());
        assert_eq!(all.len(), 1, "{line}");
        all.remove(0)
    }

    #[test]
    fn requests_have_an_id_and_notifications_have_none() {
        assert!(
            matches!(only(r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#), Incoming::Request(r) if r.id == Id::Text("a".into()))
        );
        assert!(matches!(only(r#"{"jsonrpc":"2.0","method":"ping"}"#), Incoming::Notification { .. }));
        assert!(matches!(only(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#), Incoming::Response));
    }

    #[test]
    fn what_is_not_a_message_is_told_with_the_id_that_it_has() {
        for (line, id, failure) in [
            ("{", None, Failure::NotJson),
            ("1", None, Failure::NotAMessage),
            ("[]", None, Failure::NotAMessage),
            (r#"{"id":7,"method":"ping"}"#, Some(Id::Number(7)), Failure::NotAMessage),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, None, Failure::NotAMessage),
            (r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, None, Failure::NotAMessage),
            (r#"{"jsonrpc":"2.0","id":1,"method":2}"#, Some(Id::Number(1)), Failure::NotAMessage),
        ] {
            assert!(matches!(only(line), Incoming::Wrong(i, f) if i == id && f == failure), "{line}");
        }
    }

    #[test]
    fn an_array_of_one_is_still_an_array() {
        assert_eq!(read(br#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#).len(), 2);
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over_and_the_next_is_read() {
        let long = "x".repeat(LONGEST as usize + 5);
        let input = format!("{long}\n\n{{}}\nlast");
        let mut lines = Lines::new(std::io::Cursor::new(input));
        assert!(matches!(lines.next(), Some(Line::TooLong)));
        assert!(matches!(lines.next(), Some(Line::Whole(line)) if line == b"{}\n"));
        assert!(matches!(lines.next(), Some(Line::Whole(line)) if line == b"last"));
        assert!(lines.next().is_none());
    }
}
