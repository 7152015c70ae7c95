//! The JSON Schema of the user's policy file, made from the table of keys.

use super::keys::{KEYS, Key, Kind, PathUse, TextUse};
use serde_json::{Map, Value, json};

const NAME: &str = "^[A-Za-z_][A-Za-z0-9_]*$";

/// JSON Schema (draft 2020-12) of the user's policy file.
pub fn schema() -> Value {
    let mut root = object(KEYS.iter());
    root.insert("$schema".into(), json!("https://json-schema.org/draft/2020-12/schema"));
    root.insert("title".into(), json!("Keyward policy"));
    root.insert("required".into(), json!(["version"]));
    root.insert("$defs".into(), json!({ "profile": object(KEYS.iter().filter(|key| !key.is_header())) }));
    Value::Object(root)
}

/// An object with these keys and no others.
fn object<'k>(keys: impl Iterator<Item = &'k Key>) -> Map<String, Value> {
    let mut properties = Map::new();
    let mut groups: Map<String, Value> = Map::new();
    for key in keys {
        let property = property(key);
        match key.group() {
            None => {
                properties.insert(key.path.to_owned(), property);
            }
            Some(group) => {
                let members = groups.entry(group).or_insert_with(|| json!({}));
                if let Some(members) = members.as_object_mut() {
                    members.insert(key.leaf().to_owned(), property);
                }
            }
        }
    }
    for (group, members) in groups {
        properties.insert(group, closed(members));
    }
    match closed(Value::Object(properties)) {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

fn closed(properties: Value) -> Value {
    json!({ "type": "object", "properties": properties, "additionalProperties": false })
}

/// What one key takes.
fn property(key: &Key) -> Value {
    let mut property = match key.kind {
        Kind::Version => json!({ "const": 1 }),
        Kind::Choice(words) => json!({ "enum": words }),
        Kind::Switch(_) => json!({ "type": "boolean" }),
        Kind::Rules => list(json!({ "type": "string", "pattern": "^([A-Z]+ )?[^ ]+$" })),
        Kind::Ports => list(json!({ "type": "integer", "minimum": 1, "maximum": 65535 })),
        Kind::Upstreams => json!({
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "properties": {
                    "address": { "type": "string", "pattern": "^.+:[0-9]+$" },
                    "ca": { "type": "string", "pattern": "^/" },
                },
                "required": ["address"],
                "additionalProperties": false,
            },
        }),
        Kind::Words(words) => list(json!({ "enum": words })),
        Kind::Tools => {
            let names: Vec<&str> = crate::tools::all().map(|tool| tool.name).collect();
            list(json!({ "enum": names }))
        }
        Kind::Secrets => list(json!({
            "type": "string",
            "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}(=(proxy|base-url|token|fd|file|dangerous-env))?$",
        })),
        Kind::Witnesses => list(json!({ "type": "string", "pattern": "^(journald|/.*[^/]|!.+)$" })),
        Kind::Folder => json!({ "type": "string", "pattern": "^~?/[^*?\\[]+$" }),
        Kind::Text(TextUse::Url) => json!({ "type": "string", "pattern": "^https?://[^ ]+$" }),
        Kind::Text(TextUse::Secret) => json!({ "type": "string", "pattern": "^[a-z0-9][a-z0-9._-]{0,63}$" }),
        Kind::Text(TextUse::Listen) => json!({ "type": "string", "pattern": "^.+:[0-9]+$" }),
        Kind::Command => json!({ "type": "array", "minItems": 1, "items": { "type": "string" } }),
        Kind::Names => list(json!({ "type": "string", "pattern": NAME })),
        Kind::Paths(PathUse::Hide) => list(json!({ "type": "string", "pattern": "^([^*?\\[]+|[^/\\[]+)$" })),
        Kind::Paths(PathUse::Show) => list(json!({ "type": "string", "pattern": "^[^*?\\[]+$" })),
        Kind::Paths(PathUse::Read) => list(json!({ "type": "string", "pattern": "^(~|~?/[^*?\\[]*)$" })),
        Kind::Paths(PathUse::Write) => list(json!({ "type": "string", "pattern": "^~?/[^*?\\[]+$" })),
        Kind::Map => json!({
            "type": "object",
            "propertyNames": { "pattern": NAME },
            "additionalProperties": { "type": "string" },
        }),
        Kind::Duration => {
            json!({ "type": "string", "pattern": "^[0-9]+ ?(ms|msec|s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)$" })
        }
        Kind::Size { least } => json!({ "anyOf": [
            { "type": "integer", "minimum": least },
            { "type": "string", "pattern": "^[0-9]+( ?([KMGTkmgt]([Ii]?[Bb])?|[Bb]))?$" },
        ] }),
        Kind::Count => json!({ "type": "integer", "minimum": 1 }),
        Kind::Profiles => json!({
            "type": "object",
            "propertyNames": { "pattern": "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$" },
            "additionalProperties": { "$ref": "#/$defs/profile" },
        }),
    };
    if let Some(object) = property.as_object_mut() {
        object.insert("description".into(), json!(key.doc));
    }
    property
}

fn list(items: Value) -> Value {
    json!({ "type": "array", "items": items })
}
