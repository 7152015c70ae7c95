//! As much of JSON Schema as our own schemas use. A keyword that is not known here fails, so that no rule goes unchecked.

use serde_json::Value;

pub struct Schema(Value);

/// Whether fields that the schema does not name are a failure: what we encode ourselves has to be described.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fields {
    Named,
    Any,
}

type Fits = Result<(), String>;

impl Schema {
    pub fn new(schema: Value) -> Self {
        Schema(schema)
    }

    /// Checks one of our own messages, each field of which has to be named.
    pub fn check(&self, at: &str, value: &Value) -> Fits {
        self.fits(self.find(at)?, value, Fields::Named)
    }

    /// Checks a message as a client would, which ignores further fields.
    pub fn check_open(&self, at: &str, value: &Value) -> Fits {
        self.fits(self.find(at)?, value, Fields::Any)
    }

    fn find(&self, at: &str) -> Result<&Value, String> {
        let place = at.strip_prefix('#').and_then(|pointer| self.0.pointer(pointer));
        place.ok_or_else(|| format!("there is no {at}"))
    }

    fn fits(&self, schema: &Value, value: &Value, fields: Fields) -> Fits {
        let rules = schema.as_object().ok_or("a schema is not an object")?;
        for (keyword, rule) in rules {
            self.obeys(schema, keyword, rule, value, fields).map_err(|why| format!("{why} [{keyword}]"))?;
        }
        Ok(())
    }

    fn obeys(&self, schema: &Value, keyword: &str, rule: &Value, value: &Value, fields: Fields) -> Fits {
        let all = |schemas: &Value| schemas.as_array().cloned().unwrap_or_default();
        let bound = rule.as_i64();
        let fine = match keyword {
            "$schema" | "$id" | "$defs" | "title" | "description" => true,
            "$ref" => return self.fits(self.find(rule.as_str().unwrap_or_default())?, value, fields),
            "const" => rule == value,
            "enum" => all(rule).contains(value),
            "type" => match rule {
                Value::Array(types) => types.iter().any(|one| is(one, value)),
                one => is(one, value),
            },
            "minimum" => value.as_i64().is_none_or(|number| bound.is_some_and(|bound| number >= bound)),
            "maximum" => value.as_i64().is_none_or(|number| bound.is_some_and(|bound| number <= bound)),
            "minLength" => length(value).is_none_or(|length| bound.is_some_and(|bound| length >= bound)),
            "maxLength" => length(value).is_none_or(|length| bound.is_some_and(|bound| length <= bound)),
            "minItems" => items(value).is_none_or(|items| bound.is_some_and(|bound| items >= bound)),
            "maxItems" => items(value).is_none_or(|items| bound.is_some_and(|bound| items <= bound)),
            "items" => {
                for item in value.as_array().into_iter().flatten() {
                    self.fits(rule, item, fields)?;
                }
                true
            }
            "required" => all(rule).iter().all(|name| {
                value.as_object().is_none_or(|object| object.contains_key(name.as_str().unwrap_or_default()))
            }),
            "properties" => {
                for (name, field) in value.as_object().into_iter().flatten() {
                    match rule.get(name) {
                        Some(rule) => {
                            self.fits(rule, field, fields).map_err(|why| format!("{name}: {why}"))?
                        }
                        None if fields == Fields::Named => return Err(format!("{name} is not described")),
                        None => {}
                    }
                }
                true
            }
            "additionalProperties" => {
                for (name, field) in value.as_object().into_iter().flatten() {
                    match (schema.pointer(&format!("/properties/{name}")), rule) {
                        (Some(_), _) => {}
                        (None, Value::Bool(allowed)) if !allowed => return Err(format!("{name} is unknown")),
                        (None, Value::Bool(_)) => {}
                        (None, rule) => self.fits(rule, field, fields)?,
                    }
                }
                true
            }
            "anyOf" | "oneOf" => {
                let tried: Vec<Fits> = all(rule).iter().map(|one| self.fits(one, value, fields)).collect();
                let fitting = tried.iter().filter(|tried| tried.is_ok()).count();
                let why: Vec<String> = tried.into_iter().filter_map(Fits::err).collect();
                match fitting {
                    0 => return Err(why.join("; ")),
                    1 => true,
                    _ => keyword == "anyOf",
                }
            }
            _ => return Err("this keyword is not known to the test".into()),
        };
        if fine { Ok(()) } else { Err(format!("{value} does not fit {rule}")) }
    }
}

fn is(name: &Value, value: &Value) -> bool {
    match name.as_str().unwrap_or_default() {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        _ => false,
    }
}

fn length(value: &Value) -> Option<i64> {
    i64::try_from(value.as_str()?.chars().count()).ok()
}

fn items(value: &Value) -> Option<i64> {
    i64::try_from(value.as_array()?.len()).ok()
}
