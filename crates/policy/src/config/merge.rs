//! Laying layers over each other, by the direction of each key.

use super::keys::{Direction, Id, Key, Kind};
use super::mistake::{BeyondCeiling, Mistake, Unfit, listed, quoted};
use super::source::{Report, Source};
use super::units;
use super::value::{self, At, Value, Values};
use crate::net::allowed::Allowed;
use crate::net::narrow::Narrowing;
use crate::words::{NetMode, Origin};
use std::collections::HashSet;
use std::hash::Hash;
use std::path::Path;
use std::time::Duration;

/// Lays a later layer over what the earlier ones said.
pub fn overlay(effective: &mut Values, layer: Values) {
    for (key, value) in layer.into_pairs() {
        let earlier = effective.take(key.id);
        let value = match key.direction {
            Direction::Header | Direction::Choice | Direction::Limit | Direction::OwnSetting => value,
            Direction::Grant
            | Direction::GrantNarrowed
            | Direction::OwnGrant
            | Direction::Hide
            | Direction::Set => join(earlier, value),
        };
        effective.put(key.id, value);
    }
}

/// The union of two lists, or the later map over the earlier one.
fn join(earlier: Option<Value>, later: Value) -> Value {
    match (earlier, later) {
        (Some(Value::Names(earlier)), Value::Names(later)) => Value::Names(union(earlier, later)),
        (Some(Value::Paths(earlier)), Value::Paths(later)) => Value::Paths(union(earlier, later)),
        (Some(Value::Map(earlier)), Value::Map(later)) => Value::Map(over(earlier, later)),
        (None, Value::Names(list)) => Value::Names(each_once(list)),
        (None, Value::Paths(list)) => Value::Paths(each_once(list)),
        (_, later) => later,
    }
}

/// Each entry once, under the place that said it first.
fn union<T: Eq + Hash>(mut earlier: At<Vec<At<T>>>, later: At<Vec<At<T>>>) -> At<Vec<At<T>>> {
    earlier.value.extend(later.value);
    each_once(earlier)
}

/// Lists may have thousands of entries, and mostly none twice: nothing is copied to find that out.
fn each_once<T: Eq + Hash>(mut list: At<Vec<At<T>>>) -> At<Vec<At<T>>> {
    let mut seen = HashSet::with_capacity(list.value.len());
    let first: Vec<bool> = list.value.iter().map(|entry| seen.insert(&entry.value)).collect();
    drop(seen);
    let mut first = first.into_iter();
    list.value.retain(|_| first.next().unwrap_or(true));
    list
}

type Variables = Vec<At<(String, String)>>;

/// The later value of each name.
fn over(mut earlier: At<Variables>, later: At<Variables>) -> At<Variables> {
    let replaced: HashSet<&str> = later.value.iter().map(|entry| entry.value.0.as_str()).collect();
    earlier.value.retain(|entry| !replaced.contains(entry.value.0.as_str()));
    drop(replaced);
    earlier.value.extend(later.value);
    earlier
}

/// Holds what was asked for under the ceiling. The ceiling grants nothing by itself.
pub fn hold(effective: &mut Values, mut ceiling: Values) -> Result<(), Box<BeyondCeiling>> {
    // A ceiling that allows write access to a path also allows read access.
    let writable = match ceiling.get(Id::FilesWrite) {
        Some(Value::Paths(list)) => list.value.clone(),
        _ => Vec::new(),
    };
    if let Some(Value::Paths(mut readable)) = ceiling.take(Id::FilesRead) {
        readable.value.extend(writable);
        ceiling.put(Id::FilesRead, Value::Paths(readable));
    }
    for (key, bound) in ceiling.into_pairs() {
        let asked = effective.take(key.id);
        let held = match key.direction {
            Direction::Header | Direction::OwnSetting => asked,
            Direction::Choice | Direction::Limit => Some(hold_value(key, asked, bound)?),
            Direction::Grant | Direction::GrantNarrowed | Direction::OwnGrant => {
                hold_list(key, asked, &bound)?
            }
            Direction::Hide | Direction::Set => Some(join(asked, bound)),
        };
        if let Some(held) = held {
            effective.put(key.id, held);
        }
    }
    Ok(())
}

/// The requested value if it is strict enough; the ceiling's own if no layer sets it.
fn hold_value(key: &Key, asked: Option<Value>, bound: Value) -> Result<Value, Box<BeyondCeiling>> {
    let Some(asked) = asked else { return Ok(bound) };
    if !weaker(&asked, &bound) {
        return Ok(asked);
    }
    let origin = origin(&asked);
    if *origin == Origin::Builtin {
        return Ok(bound);
    }
    Err(beyond(key, spelled(key, &asked), origin, &bound))
}

/// The list asked for, if the ceiling allows each of its entries.
fn hold_list(key: &Key, asked: Option<Value>, bound: &Value) -> Result<Option<Value>, Box<BeyondCeiling>> {
    let asked = asked.map(|asked| without_defaults_beyond(key, asked, bound));
    match (&asked, bound) {
        // A ceiling may name a whole domain, and a policy one host of it.
        (Some(Value::Names(asked)), Value::Names(allowed)) if key.id == Id::NetAllow => {
            let allowed: Vec<Allowed> =
                allowed.value.iter().filter_map(|entry| Allowed::parse(&entry.value).ok()).collect();
            let within = |text: &str| {
                Allowed::parse(text).is_ok_and(|asked| allowed.iter().any(|own| own.includes(&asked)))
            };
            if let Some(entry) = asked.value.iter().find(|entry| !within(&entry.value)) {
                return Err(beyond(key, format!("[{}]", quoted(&entry.value)), &entry.origin, bound));
            }
        }
        (Some(Value::Names(asked)), Value::Names(allowed)) => {
            let allowed: HashSet<&str> = allowed.value.iter().map(|entry| entry.value.as_str()).collect();
            if let Some(entry) = asked.value.iter().find(|entry| !allowed.contains(entry.value.as_str())) {
                return Err(beyond(key, format!("[{}]", quoted(&entry.value)), &entry.origin, bound));
            }
        }
        (Some(Value::Paths(asked)), Value::Paths(allowed)) => {
            let within = |path: &Path| allowed.value.iter().any(|entry| path.starts_with(&entry.value));
            if let Some(entry) = asked.value.iter().find(|entry| !within(&entry.value)) {
                let path = quoted(&entry.value.to_string_lossy());
                return Err(beyond(key, format!("[{path}]"), &entry.origin, bound));
            }
        }
        _ => {}
    }
    Ok(asked)
}

/// Takes out the hosts and variables of a built-in profile that the ceiling does not allow: no user has asked for them, and none could take
/// them out.
fn without_defaults_beyond(key: &Key, asked: Value, bound: &Value) -> Value {
    let (Value::Names(mut asked), Value::Names(allowed)) = (asked.clone(), bound) else { return asked };
    let within: Box<dyn Fn(&str) -> bool> = match key.id {
        Id::NetAllow => {
            let allowed: Vec<Allowed> =
                allowed.value.iter().filter_map(|entry| Allowed::parse(&entry.value).ok()).collect();
            Box::new(move |text| {
                Allowed::parse(text).is_ok_and(|asked| allowed.iter().any(|own| own.includes(&asked)))
            })
        }
        Id::EnvPass => Box::new(|text| allowed.value.iter().any(|entry| entry.value == text)),
        _ => return Value::Names(asked),
    };
    asked.value.retain(|entry| !matches!(entry.origin, Origin::Profile { .. }) || within(&entry.value));
    Value::Names(asked)
}

fn beyond(key: &Key, asked: String, at: &Origin, bound: &Value) -> Box<BeyondCeiling> {
    Box::new(BeyondCeiling {
        key: key.path,
        asked,
        origin: at.clone(),
        allowed: spelled(key, bound),
        ceiling: origin(bound).clone(),
    })
}

/// Narrows the policy by a project file, which can do nothing else.
///
/// `asked` is what held before any project file. A line that is weaker than that is a mistake. One that is weaker only than another
/// project file is accepted: each was written without the other, and the stricter holds.
pub fn narrow(effective: &mut Values, project: Values, source: &Source<'_>, asked: &Values) -> Vec<Mistake> {
    let mut report = Report::new(source);
    for (key, wish) in project.into_pairs() {
        let now = effective.take(key.id);
        let narrowed = match (key.direction, now) {
            (Direction::Hide, now) => Some(join(now, wish)),
            (Direction::Choice | Direction::Limit, None) => Some(wish),
            (Direction::Choice | Direction::Limit, Some(now)) if weaker(&now, &wish) => Some(wish),
            (Direction::Choice | Direction::Limit, Some(now)) => {
                if let Some(asked) = asked.get(key.id).filter(|asked| weaker(&wish, asked)) {
                    let (wished, holds) = (spelled(key, &wish), spelled(key, asked));
                    let fact = format!(
                        "the project file may only narrow, and {} = {wished} is weaker than {holds} ({})",
                        key.path,
                        origin(asked)
                    );
                    report.add(
                        offset(&wish),
                        Unfit::new(fact, "remove the line, or write it in your own policy file"),
                    );
                }
                Some(now)
            }
            // Its list is kept beside what is granted: what a preset stands for is not known here.
            (Direction::GrantNarrowed, now) => now,
            // Reading has already refused these in a project's file.
            (
                Direction::Header
                | Direction::Grant
                | Direction::OwnGrant
                | Direction::OwnSetting
                | Direction::Set,
                now,
            ) => now,
        };
        if let Some(narrowed) = narrowed {
            effective.put(key.id, narrowed);
        }
    }
    report.into_mistakes()
}

/// The list of hosts of a project file, if it has one. An open network has rules from there on: the list is what is left of everything.
pub fn narrow_hosts(effective: &mut Values, project: &Values) -> Option<Narrowing> {
    let list = project.get(Id::NetAllow)?;
    let narrowing = Narrowing { origin: origin(list).clone(), allow: value::allowed(list.clone()) };
    if let Some(Value::Choice(mode)) = effective.get(Id::NetMode)
        && mode.value == NetMode::Open as usize
    {
        let rules = At { value: NetMode::Rules as usize, origin: origin(list).clone(), offset: offset(list) };
        effective.put(Id::NetMode, Value::Choice(rules));
        effective.put(Id::NetAllow, list.clone());
    }
    Some(narrowing)
}

/// Whether the first is less strict than the second.
fn weaker(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Choice(one), Value::Choice(other)) => one.value < other.value,
        (Value::Number(one), Value::Number(other)) => one.value > other.value,
        _ => false,
    }
}

fn origin(value: &Value) -> &Origin {
    match value {
        Value::Choice(at) => &at.origin,
        Value::Names(at) => &at.origin,
        Value::Paths(at) => &at.origin,
        Value::Map(at) => &at.origin,
        Value::Number(at) => &at.origin,
    }
}

fn offset(value: &Value) -> usize {
    match value {
        Value::Choice(at) => at.offset,
        Value::Names(at) => at.offset,
        Value::Paths(at) => at.offset,
        Value::Map(at) => at.offset,
        Value::Number(at) => at.offset,
    }
}

/// A value as it would be written. Of a map only the names.
fn spelled(key: &Key, value: &Value) -> String {
    match (value, key.kind) {
        (Value::Choice(rank), Kind::Choice(words)) => {
            quoted(words.get(rank.value).copied().unwrap_or_default())
        }
        (Value::Number(at), Kind::Duration) => quoted(&units::spell_duration(Duration::from_nanos(at.value))),
        (Value::Number(at), Kind::Size { .. }) => quoted(&units::spell_size(at.value)),
        (Value::Number(at), _) => at.value.to_string(),
        (Value::Choice(rank), _) => rank.value.to_string(),
        (Value::Names(list), _) => bracketed(list.value.iter().map(|entry| entry.value.clone())),
        (Value::Paths(list), _) => bracketed(list.value.iter().map(|entry| shown(&entry.value))),
        (Value::Map(map), _) => bracketed(map.value.iter().map(|entry| entry.value.0.clone())),
    }
}

fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn bracketed(texts: impl Iterator<Item = String>) -> String {
    format!("[{}]", listed(&texts.collect::<Vec<_>>()))
}
