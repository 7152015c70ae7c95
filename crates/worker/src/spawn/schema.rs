//! The part of JSON Schema that inputs of host tools are checked by. A keyword that is not checked is a mistake, and not passed over.

use keyward_protocol::session::Value;

const KEYWORDS: [&str; 20] = [
    "$schema",
    "title",
    "description",
    "default",
    "examples",
    "type",
    "enum",
    "const",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "anyOf",
    "$comment",
];
const TYPES: [&str; 7] = ["null", "boolean", "integer", "number", "string", "array", "object"];

/// What a schema says that cannot be checked.
pub(super) fn mistake(schema: &Value) -> Option<String> {
    if schema.is_boolean() {
        return None;
    }
    let Some(fields) = schema.as_object() else { return Some("a schema is an object".into()) };
    if let Some(unknown) = fields.keys().find(|name| !KEYWORDS.contains(&name.as_str())) {
        return Some(format!("the keyword {unknown} is not checked"));
    }
    let types = fields.get("type").map(listed).unwrap_or_default();
    if types.iter().any(|kind| !kind.as_str().is_some_and(|kind| TYPES.contains(&kind))) {
        return Some("type is not one that JSON has".into());
    }
    let below = fields.get("properties").and_then(Value::as_object).into_iter().flat_map(|all| all.values());
    let further = ["items", "additionalProperties"].iter().filter_map(|name| fields.get(*name));
    let any = fields.get("anyOf").and_then(Value::as_array).into_iter().flatten();
    below.chain(further).chain(any).find_map(mistake)
}

fn listed(value: &Value) -> Vec<&Value> {
    value.as_array().map_or_else(|| vec![value], |all| all.iter().collect())
}

/// Why a value does not fit.
pub(super) fn fault(schema: &Value, value: &Value) -> Option<String> {
    check(schema, value, "the input")
}

fn check(schema: &Value, value: &Value, at: &str) -> Option<String> {
    if schema == &Value::Bool(false) {
        return Some(format!("{at} is not allowed"));
    }
    let fields = schema.as_object()?;
    let get = |name: &str| fields.get(name);
    if get("type").is_some_and(|types| !listed(types).iter().any(|kind| is_of(kind, value))) {
        return Some(format!("{at} is not of the type that is wanted"));
    }
    if get("enum").and_then(Value::as_array).is_some_and(|all| !all.contains(value))
        || get("const").is_some_and(|wanted| wanted != value)
    {
        return Some(format!("{at} is not one of the values that are allowed"));
    }
    if get("anyOf")
        .and_then(Value::as_array)
        .is_some_and(|all| all.iter().all(|one| check(one, value, at).is_some()))
    {
        return Some(format!("{at} fits none of what is allowed"));
    }
    let bound = |name: &str| get(name).and_then(Value::as_f64);
    let outside = |size: f64, least: &str, most: &str| {
        bound(least).is_some_and(|least| size < least) || bound(most).is_some_and(|most| size > most)
    };
    #[allow(clippy::cast_precision_loss)]
    let is_outside = match value {
        Value::Number(number) => number.as_f64().is_none_or(|number| outside(number, "minimum", "maximum")),
        Value::String(text) => outside(text.chars().count() as f64, "minLength", "maxLength"),
        Value::Array(all) => outside(all.len() as f64, "minItems", "maxItems"),
        _ => false,
    };
    if is_outside {
        return Some(format!("{at} is too small or too large"));
    }
    if let (Some(items), Some(all)) = (get("items"), value.as_array()) {
        return all
            .iter()
            .enumerate()
            .find_map(|(number, one)| check(items, one, &format!("{at}[{number}]")));
    }
    let object = value.as_object()?;
    let required = get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
    if let Some(missing) = required.into_iter().find(|name| !object.contains_key(*name)) {
        return Some(format!("{at}.{missing} is missing"));
    }
    let known = get("properties").and_then(Value::as_object);
    object.iter().find_map(|(name, one)| {
        let at = format!("{at}.{name}");
        match (known.and_then(|known| known.get(name)), get("additionalProperties")) {
            (Some(schema), _) | (None, Some(schema)) => check(schema, one, &at),
            (None, None) => None,
        }
    })
}

fn is_of(kind: &Value, value: &Value) -> bool {
    match (kind.as_str(), value) {
        (Some("integer"), Value::Number(number)) => number.is_i64() || number.is_u64(),
        (Some("number"), Value::Number(_))
        | (Some("null"), Value::Null)
        | (Some("boolean"), Value::Bool(_))
        | (Some("string"), Value::String(_))
        | (Some("array"), Value::Array(_))
        | (Some("object"), Value::Object(_)) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_fit_or_do_not() {
        for (schema, value, fits) in [
            (json!({ "type": "integer" }), json!(1), true),
            (json!({ "type": "integer" }), json!(true), false),
            (json!({ "type": "integer" }), json!(1.5), false),
            (json!({ "type": ["string", "null"] }), json!(null), true),
            (json!({ "enum": [1, "a"] }), json!("a"), true),
            (json!({ "enum": [1] }), json!(true), false),
            (json!({ "const": 1 }), json!(2), false),
            (json!({ "type": "array", "items": { "type": "string" }, "maxItems": 1 }), json!(["a"]), true),
            (
                json!({ "type": "array", "items": { "type": "string" }, "maxItems": 1 }),
                json!(["a", "b"]),
                false,
            ),
            (json!({ "type": "array", "items": { "type": "string" } }), json!([1]), false),
            (json!({ "type": "string", "minLength": 2 }), json!("a"), false),
            (json!({ "anyOf": [{ "type": "string" }, { "type": "null" }] }), json!(1), false),
            (json!({ "additionalProperties": { "type": "string" } }), json!({ "a": 1 }), false),
            (json!({ "properties": { "a": {} }, "additionalProperties": false }), json!({ "b": 1 }), false),
            (json!({ "required": ["a"] }), json!({}), false),
            (json!({ "maximum": 3 }), json!(4), false),
            (json!({ "maximum": 3 }), json!(3), true),
        ] {
            assert_eq!(mistake(&schema), None, "{schema}");
            assert_eq!(fault(&schema, &value).is_none(), fits, "{schema} {value}");
        }
    }

    #[test]
    fn a_keyword_that_is_not_checked_is_a_mistake() {
        for schema in [
            json!({ "$ref": "#" }),
            json!({ "type": "thing" }),
            json!({ "items": { "format": "uri" } }),
            json!({ "properties": { "a": { "pattern": "x" } } }),
            json!([]),
        ] {
            assert!(mistake(&schema).is_some(), "{schema}");
        }
    }
}
