//! What holds for every environment, every policy and every entry of the registry.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use keyward_policy::detect::registry;
use keyward_policy::env::{self, Rule, Value};
use keyward_policy::settings::Policy;
use keyward_policy::words::{Ruled, TrustClass};
use proptest::prelude::*;
use std::collections::HashSet;
use std::ffi::OsString;
use toml_edit::{DocumentMut, Item};

const DATA: &str = include_str!("../data/registry.toml");

/// Every name under [providers] and [authority]; a star is filled in.
fn registry_names() -> Vec<String> {
    let Ok(doc) = DATA.parse::<DocumentMut>() else { return Vec::new() };
    let entries = ["providers", "authority"].into_iter().filter_map(|section| doc.get(section)?.as_table());
    let names =
        entries.flat_map(|table| table.iter()).filter_map(|(_, entry)| entry.as_table_like()?.get("names"));
    let names = names.filter_map(Item::as_array).flatten().filter_map(|name| name.as_str());
    names.map(|name| name.replace('*', "FILLED")).collect()
}

fn lines(names: &[String]) -> Vec<Ruled<String>> {
    names.iter().map(|name| Ruled::builtin(name.clone())).collect()
}

#[test]
fn every_name_of_the_registry_is_known() {
    let names = registry_names();
    assert!(names.len() >= 450, "only {} names", names.len());
    for name in &names {
        assert!(registry::known(name.as_bytes()).is_some(), "{name}");
        assert!(registry::known(name.to_ascii_lowercase().as_bytes()).is_some(), "{name}");
    }
}

#[test]
fn every_name_of_the_registry_is_dropped_for_every_class_even_when_listed() {
    let names = registry_names();
    let entries: Vec<String> = names.iter().map(|name| format!("{name}=plain")).collect();
    let caller: Vec<&[u8]> = entries.iter().map(|entry| entry.as_bytes()).collect();
    let mut policy = Policy::default();
    policy.env.pass = lines(&names);
    policy.env.dangerous_loader_env = lines(&names);
    for trust in TrustClass::ALL {
        let decided = env::decide(&policy, *trust, &caller, &[]);
        let passed: Vec<_> =
            decided.vars.iter().filter(|var| matches!(var.value, Value::Caller(_))).collect();
        assert!(passed.is_empty(), "{trust}: {passed:?}");
        assert_eq!(decided.dropped.len(), names.len());
        assert!(decided.dropped.iter().all(|dropped| dropped.rule.is_credential()));
    }
}

const OFTEN: &[&str] = &[
    "CI",
    "TERM",
    "LANG",
    "LC_ALL",
    "GH_TOKEN",
    "MAX_TOKENS",
    "LD_PRELOAD",
    "PYTHONPATH",
    "DISPLAY",
    "A",
    "HOME",
];

/// Names that meet often, so that lists and duplicates have something to do.
fn name() -> impl Strategy<Value = String> {
    prop_oneof![4 => prop::sample::select(OFTEN).prop_map(str::to_owned), 1 => "[A-Z_]{1,12}"]
}

fn names() -> impl Strategy<Value = Vec<Ruled<String>>> {
    prop::collection::vec(name(), 0..5).prop_map(|names| lines(&names))
}

/// Each value is unique (`\u{1}index`), so that it can be recognised.
fn caller() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let value = prop_oneof![
        Just(String::new()),
        Just("C.UTF-8".into()),
        Just("ghp_a1B2c3D4a1B2c3D4".into()),
        "[ -~]{0,20}"
    ];
    let entry = prop_oneof![
        8 => (name(), value).prop_map(|(name, value)| format!("{name}={value} ").into_bytes()),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ];
    prop::collection::vec(entry, 0..30).prop_map(|mut entries| {
        for (index, entry) in entries.iter_mut().enumerate() {
            entry.extend_from_slice(format!("\u{1}{index}\u{1}").as_bytes());
        }
        entries
    })
}

prop_compose! {
    fn policy()(pass in names(), not_secret in names(), loader in names(), inherit in names(),
                set in prop::collection::vec((name(), "[a-z]{0,4}"), 0..3)) -> Policy {
        let mut policy = Policy { inherit_credentials: inherit, ..Policy::default() };
        policy.env.pass = pass;
        policy.env.not_secret = not_secret;
        policy.env.dangerous_loader_env = loader;
        policy.env.set = set.into_iter().map(Ruled::builtin).collect();
        policy
    }
}

fn split(entry: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = entry.iter().position(|byte| *byte == b'=')?;
    Some((&entry[..at], &entry[at + 1..]))
}

proptest! {
    #[test]
    fn what_passes_was_asked_for_and_what_was_dropped_does_not_pass(
        policy in policy(), entries in caller(), trust in prop::sample::select(TrustClass::ALL),
    ) {
        let caller: Vec<&[u8]> = entries.iter().map(Vec::as_slice).collect();
        let ours = [("HOME", OsString::from("/home/me"))];
        let decided = env::decide(&policy, trust, &caller, &ours);
        let has = |list: &[Ruled<String>], name: &str| list.iter().any(|line| line.value == name);

        let mut seen = HashSet::new();
        let mut used = HashSet::new();
        for var in &decided.vars {
            prop_assert!(var.rule.passes());
            prop_assert!(seen.insert(var.name.clone()), "{} is given twice", var.name);
            let name = var.name.as_str();
            let Value::Caller(index) = var.value else {
                let by_policy = policy.env.set.iter().any(|line| line.value.0 == name);
                prop_assert!(by_policy || name == "HOME" || matches!(var.rule, Rule::MadeUtf8 | Rule::NoNetwork));
                continue;
            };
            used.insert(index);
            // The first of its name is the one that counts.
            let first = caller.iter().position(|entry| split(entry).is_some_and(|(found, _)| found == name.as_bytes()));
            prop_assert_eq!(first, Some(index));
            let inherited = trust.may_inherit_credentials() && has(&policy.inherit_credentials, name);
            let loader = has(&policy.env.dangerous_loader_env, name);
            prop_assert!(registry::is_operational(name.as_bytes()) || has(&policy.env.pass, name) || inherited || loader);
            prop_assert!(loader || !env::is_loader(name.as_bytes()));
            let hit = split(caller[index]).and_then(|(name, value)| env::looks_like_credential(name, value));
            prop_assert!(hit.is_none() || inherited || has(&policy.env.not_secret, name));
        }
        for dropped in &decided.dropped {
            prop_assert!(!dropped.rule.passes());
            prop_assert!(dropped.name.chars().count() <= 128);
            prop_assert!(dropped.name.chars().all(|c| !c.is_control()));
        }
        // Every entry is passed, replaced by a value of ours, or named as dropped.
        let replaced = |name: &[u8]| name == b"HOME" || policy.env.set.iter().any(|line| line.value.0.as_bytes() == name);
        for (index, entry) in caller.iter().enumerate() {
            let name = split(entry).map_or(*entry, |(name, _)| name);
            let named = decided.dropped.iter().any(|dropped| dropped.name == env::shown(name));
            prop_assert!(used.contains(&index) || replaced(name) || named);
        }
        // No value shows in any printed form: each ends with its own mark.
        let printed = format!("{decided:?}{}", serde_json::to_string(&decided).unwrap_or_default());
        for entry in &caller {
            if let Some((_, value)) = split(entry) {
                prop_assert!(!printed.contains(&*String::from_utf8_lossy(value)));
            }
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(name in prop::collection::vec(any::<u8>(), 0..64), value in prop::collection::vec(any::<u8>(), 0..512)) {
        let _ = (registry::known(&name), registry::name_shape(&name), registry::is_loader(&name));
        let _ = (registry::is_operational(&name), registry::value_shape(&value), env::looks_like_credential(&name, &value));
    }

    #[test]
    fn text_near_the_shapes_never_panics_and_an_appended_key_is_always_found(text in "[ -~]{0,40}(://|=|:|eyJ|-----BEGIN |\\.|\"token\": )?[ -~]{0,40}") {
        let _ = registry::value_shape(text.as_bytes());
        let key = format!("{text} ghp_{}", "a1B2".repeat(9));
        prop_assert!(registry::value_shape(key.as_bytes()).is_some());
    }
}
