//! Host tools: functions of this program that commands of a session call, with JSON.
//!
//! Only a command that names a tool may call it. The input is checked against the schema and capped; what the function gives is passed on
//! without what looks like a credential.

use super::schema;
use super::session::Notices;
use keyward_client::{Client, Sender};
use keyward_policy::detect::registry::{Token, is_token_byte, known, name_shape, token_at, value_shape};
use keyward_protocol::session::{Answer, Ask, Value};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Inputs and results are longer than this in no message.
const LONGEST: usize = 120_000;
/// The longest error that is passed on.
const LONGEST_ERROR: usize = 2_000;

const REMOVED: &str = "(removed: looks like a credential)";

pub(super) struct Tool {
    pub(super) schema: Option<Value>,
    pub(super) function: Box<dyn Fn(Value) -> Result<Value, String> + Send + Sync>,
}

/// Serves calls on threads of their own, as long as the session lives. The tool was offered on this connection.
pub(super) fn serve(mut client: Client<Notices>, sender: Sender, tool: Tool) -> std::io::Result<()> {
    let (sender, tool) = (Arc::new(sender), Arc::new(tool));
    let listen = move || {
        loop {
            match client.next_answer() {
                Ok((Answer::Called { call, input, .. }, _)) => {
                    let (sender, tool) = (sender.clone(), tool.clone());
                    let serve = move || {
                        let (output, error) = match result(&tool, input) {
                            Ok(output) => (Some(output), None),
                            Err(error) => (None, Some(error)),
                        };
                        // A caller that is gone gets no answer.
                        let _ = sender.ask(&Ask::Return { call, output, error });
                    };
                    if std::thread::Builder::new().name("keyward-call".into()).spawn(serve).is_err() {
                        return;
                    }
                }
                // The caller of a result is gone.
                Ok(_) | Err(keyward_client::Error::Refused { .. }) => {}
                Err(_) => return,
            }
        }
    };
    std::thread::Builder::new().name("keyward-tool".into()).spawn(listen).map(drop)
}

fn result(tool: &Tool, input: Value) -> Result<Value, String> {
    if input.to_string().len() > LONGEST {
        return Err(format!("the input is longer than {LONGEST} bytes"));
    }
    if let Some(wrong) = tool.schema.as_ref().and_then(|schema| schema::fault(schema, &input)) {
        return Err(format!("the input does not fit: {wrong}"));
    }
    let called = catch_unwind(AssertUnwindSafe(|| (tool.function)(input)));
    let output = called.unwrap_or_else(|_| Err("the function panicked".into())).map_err(|error| {
        let error = redacted(&error);
        error.chars().take(LONGEST_ERROR).collect::<String>()
    })?;
    let output = clean(output);
    if output.to_string().len() > LONGEST {
        return Err(format!("the result is longer than {LONGEST} bytes"));
    }
    Ok(output)
}

/// A value of JSON without credentials, in its keys as well.
fn clean(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(redacted(&text)),
        Value::Array(all) => all.into_iter().map(clean).collect(),
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| {
                let gives_away = name_shape(name.to_ascii_uppercase().as_bytes()).is_some();
                let is_text = value.as_str().is_some_and(|text| !text.is_empty());
                let value = if gives_away && is_text { Value::String(REMOVED.into()) } else { clean(value) };
                (redacted(&name), value)
            });
            Value::Object(fields.collect())
        }
        other => other,
    }
}

/// The text without the credentials of this process's own environment, and without what looks like one. A notice and not a wall: a function
/// that encodes a secret passes it on.
pub(super) fn redacted(text: &str) -> String {
    let mut text = text.to_owned();
    for (name, value) in std::env::vars_os() {
        let is_credential = known(name.as_bytes()).is_some()
            || name_shape(name.as_bytes()).is_some()
            || value_shape(value.as_bytes()).is_some();
        if let (true, Ok(value)) = (is_credential && value.len() >= 8, String::from_utf8(value.into_vec())) {
            text = text.replace(&value, REMOVED);
        }
    }
    without_tokens(&text)
}

fn without_tokens(text: &str) -> String {
    let bytes = text.as_bytes();
    let (mut kept, mut at, mut start) = (String::new(), 0, 0);
    while at < bytes.len() {
        let begins = at == 0 || !bytes[at - 1].is_ascii_alphanumeric();
        match if begins { token_at(&bytes[at..], true) } else { Token::No } {
            Token::Begins { prefix, dotted, .. } => {
                let is_of_token = |byte: &u8| is_token_byte(*byte) || dotted && *byte == b'.';
                let rest = &bytes[at + prefix..];
                let end = at + prefix + rest.iter().position(|byte| !is_of_token(byte)).unwrap_or(rest.len());
                kept.push_str(&text[start..at]);
                kept.push_str(REMOVED);
                (at, start) = (end, end);
            }
            Token::No | Token::Undecided => at += 1,
        }
    }
    kept.push_str(&text[start..]);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn tool(schema: Option<Value>, function: fn(Value) -> Result<Value, String>) -> Tool {
        Tool { schema, function: Box::new(function) }
    }

    #[test]
    fn credentials_are_taken_out_of_results_and_of_errors() {
        let key = format!("ghp_{}", "a1B2".repeat(9));
        let echo = tool(None, Ok);
        let given =
            json!({ "a": [format!("x {key} y")], "password": "hunter2", "n": 5, "fine": "h\u{e9}llo" });
        let told = result(&echo, given).unwrap();
        assert_eq!(
            told,
            json!({ "a": [format!("x {REMOVED} y")], "password": REMOVED, "n": 5, "fine": "h\u{e9}llo" })
        );
        let broken = tool(None, |input| Err(format!("cannot log in with {}", input.as_str().unwrap())));
        assert_eq!(result(&broken, json!(key)), Err(format!("cannot log in with {REMOVED}")));
    }

    #[test]
    fn what_does_not_fit_or_is_too_long_is_not_called_and_a_panic_is_an_error() {
        let schema = json!({ "type": "object", "required": ["text"], "additionalProperties": false,
            "properties": { "text": { "type": "string", "maxLength": 3 } } });
        let strict = tool(Some(schema), |_| panic!("called"));
        assert!(result(&strict, json!({})).unwrap_err().starts_with("the input does not fit"));
        assert!(
            result(&strict, json!({ "text": "long" })).unwrap_err().starts_with("the input does not fit")
        );
        assert_eq!(result(&strict, json!({ "text": "x" })), Err("the function panicked".into()));
        let echo = tool(None, Ok);
        assert!(result(&echo, "x".repeat(LONGEST).into()).unwrap_err().contains("longer than"));
        let much = tool(None, |_| Ok("x".repeat(LONGEST).into()));
        assert!(result(&much, Value::Null).unwrap_err().contains("the result is longer than"));
    }

    #[test]
    fn ordinary_text_is_left_alone() {
        for text in ["hello world", "a=b", "https://example.org/x", "caf\u{e9} \u{1f600}", &"x".repeat(5000)]
        {
            assert_eq!(redacted(text), text);
        }
    }
}
