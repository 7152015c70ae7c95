//! The registry for SDKs, `sdk/registry.json`: the tables of `data` in a form that any language reads, without a parser of its own.
//!
//! The committed file must be what the sources give. `tools/make-registry` writes it. The cases in `sdk/cases/environment.json` are read
//! here and by the tests of every SDK: all of them must decide alike.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::disallowed_methods, reason = "the test compares files")]

use keyward_policy::env::{self, Environment};
use keyward_policy::settings::Policy;
use keyward_policy::tools::{self, Platform};
use keyward_policy::words::{NetMode, Origin, Ruled, TrustClass};
use serde_json::{Value as Json, json};
use std::path::PathBuf;
use toml_edit::{DocumentMut, Item, TableLike, Value};

fn sdk(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../sdk").join(name)
}

fn data(name: &str) -> DocumentMut {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("data").join(name);
    std::fs::read_to_string(path).unwrap().parse().unwrap()
}

fn strings(table: &dyn TableLike, key: &str) -> Vec<String> {
    let list = table.get(key).and_then(Item::as_array).unwrap_or_else(|| panic!("{key}"));
    list.iter().map(|value| value.as_str().unwrap().to_owned()).collect()
}

fn upper(names: Vec<String>) -> Vec<String> {
    names.iter().map(|name| name.to_ascii_uppercase()).collect()
}

fn section<'a>(doc: &'a DocumentMut, name: &str) -> &'a dyn TableLike {
    doc.get(name).and_then(Item::as_table_like).unwrap()
}

/// What a token is made of (`registry::values::is_token`).
const TOKEN: &str = "[A-Za-z0-9_-]";
/// What may stand in a word of a longer text (`is_visible`).
const VISIBLE: &str = "[^\\x00-\\x20\"'`\\x7f]";
/// Where a word begins.
const BOUNDARY: &str = "(?<![A-Za-z0-9])";

/// A text as a pattern, as it is or in any case.
fn quoted(text: &str, any_case: bool) -> String {
    let one = |c: char| match c {
        c if any_case && c.is_ascii_alphabetic() => {
            format!("[{}{}]", c.to_ascii_uppercase(), c.to_ascii_lowercase())
        }
        '.' | '^' | '$' | '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}' | '|' | '/' | '\\' => {
            format!("\\{c}")
        }
        c => c.to_string(),
    };
    text.chars().map(one).collect()
}

/// How a value begins that is a credential: the text, what follows it and, for a weak one, that this is not made of plain words.
fn begins(entry: &Value, label: Option<&str>, kind: &str, any_case: bool) -> Json {
    let table = entry.as_inline_table();
    let field = |key: &str| table.and_then(|table| table.get(key));
    let text = entry.as_str().or_else(|| field("text").and_then(Value::as_str)).unwrap();
    let then = field("then").map_or(10, |then| then.as_integer().unwrap());
    let weak = field("weak").is_some_and(|weak| weak.as_bool().unwrap());
    let label = label.map_or_else(|| field("label").unwrap().as_str().unwrap().to_owned(), str::to_owned);
    assert!(!weak || then <= 64, "{text}: a weak text is looked at 64 characters far");
    let unlike_words = format!(
        "(?:(?={kind}{{0,63}}[0-9])|(?={kind}{{0,48}}[A-Za-z0-9]{{16}})|(?={kind}{{1,63}}[A-Z])(?={kind}{{1,63}}[a-z]))"
    );
    let boundary =
        if !any_case || text.starts_with(|c: char| c.is_ascii_alphanumeric()) { BOUNDARY } else { "" };
    let weak = if weak { unlike_words.as_str() } else { "" };
    json!([label, format!("{boundary}{}{weak}{kind}{{{then}}}", quoted(text, any_case))])
}

/// `password=…`, `"password": …`, `authorization: …`, by what must follow each word.
fn assignments(words: &[String]) -> Vec<Json> {
    let label = "password in a text";
    let sign = "(?:=|[\"']: {0,256}[\"']?|: {1,256}[\"']?)";
    let row = |word: &String| {
        let text = quoted(word, true);
        let pattern = match word.as_str() {
            "password" | "passwd" | "passphrase" => format!("{text}{sign}{VISIBLE}"),
            "pwd" => format!("{BOUNDARY}{text}{sign}(?!\\/){VISIBLE}"),
            "sig" => format!("{BOUNDARY}{text}{sign}{VISIBLE}{{16}}"),
            _ => format!("{text}{sign}{VISIBLE}{{4}}"),
        };
        json!([label, pattern])
    };
    let header = format!("{}:[\"']?{VISIBLE}{{4}}", quoted("x-api-key", true));
    words.iter().map(row).chain([json!([label, header])]).collect()
}

/// The shapes that `registry/values.rs` writes out.
fn written_out() -> Vec<Json> {
    let authority = "[^\\x00-\\x20\"'`\\x7f\\/?#]";
    let user = "[^\\x00-\\x20\"'`\\x7f\\/?#:]";
    let plain = "[^\\x00-\\x20\"'`\\x7f\\/?#:@\\]]";
    let port = "[^\\x00-\\x20\"'`\\x7f\\/?#@\\]]";
    let odd = "[^\\x00-\\x20\"'`\\x7f\\/?#@\\]0-9]";
    vec![
        // Begins where a run of token characters does, and looks for its end first: otherwise each `-eyJ` in a long run would read
        // the rest of it again.
        json!([
            "json web token",
            format!("(?<!{TOKEN})(?={TOKEN}*\\.)(?:{TOKEN}*[_-])?eyJ{TOKEN}{{10,}}\\.")
        ]),
        json!(["telegram bot token", format!("(?<![0-9])[0-9]{{8,10}}:{TOKEN}{{30}}")]),
        json!(["url with a password", format!(":\\/\\/{user}*:{authority}+@")]),
        json!(["url with a token", format!(":\\/\\/{TOKEN}{{20}}{authority}*@")]),
        json!([
            "url with a password",
            format!(":\\/\\/{plain}*:(?![${{])(?=[0-9]*{odd}){port}*[\\/?#]{VISIBLE}{{0,254}}@")
        ]),
        json!(["private key", "(?<!-)-----BEGIN [\\x00-\\xff]{0,53}PRIVATE KEY"]),
        json!([
            "discord bot token",
            format!("(?<!{TOKEN})[MNO]{TOKEN}{{23,27}}\\.{TOKEN}{{6}}\\.{TOKEN}{{27}}")
        ]),
    ]
}

fn registry() -> Json {
    let doc = data("registry.toml");
    let mut known = Vec::new();
    let mut values = Vec::new();
    for (name, kind) in [("providers", "credential"), ("authority", "authority")] {
        for (provider, item) in section(&doc, name).iter() {
            let entry = item.as_table_like().unwrap();
            known
                .extend(upper(strings(entry, "names")).into_iter().map(|name| json!([name, kind, provider])));
            let label = format!("{provider} token");
            let prefixes = entry.get("prefixes").and_then(Item::as_array).into_iter().flatten();
            values.extend(prefixes.map(|prefix| begins(prefix, Some(&label), TOKEN, false)));
        }
    }
    let shapes = section(&doc, "values");
    let list = |key: &str| shapes.get(key).and_then(Item::as_array).unwrap().iter();
    values.extend(list("prefixes").map(|prefix| begins(prefix, None, TOKEN, false)));
    values.extend(list("literals").map(|literal| begins(literal, None, VISIBLE, true)));
    values.extend(assignments(&strings(shapes, "assignments")));
    values.extend(written_out());
    let platforms = section(&doc, "platforms");
    let tools: serde_json::Map<String, Json> =
        tools::all().map(|tool| (tool.name.into(), one_tool(tool))).collect();
    json!({
        "about": "Generated by tools/make-registry from crates/policy/data. Do not edit.",
        "v": 1,
        "longest_entry": 131_072,
        "known": known,
        "substrings": strings(section(&doc, "shapes"), "substrings"),
        "words": strings(section(&doc, "shapes"), "words"),
        "values": values,
        "operational": strings(section(&doc, "operational"), "names"),
        "platforms": {
            "linux": { "operational": [], "locale": "C.UTF-8" },
            "macos": { "operational": strings(platforms, "macos"), "locale": "en_US.UTF-8" },
            "windows": { "operational": upper(strings(platforms, "windows")), "locale": null },
        },
        "loader": upper(strings(section(&doc, "loader"), "names")),
        "loader_except": upper(strings(section(&doc, "loader"), "except")),
        "proxies": ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"],
        "without_network": {
            "CARGO_NET_RETRY": "0", "PIP_RETRIES": "0", "UV_HTTP_RETRIES": "0", "npm_config_fetch_retries": "0",
            "npm_config_update_notifier": "false",
        },
        "classes_that_may_inherit": ["executor", "internal"],
        "tools": tools,
    })
}

fn one_tool(tool: &tools::Tool) -> Json {
    let exposure = |exposure: &tools::Exposure| {
        json!({
            "path": exposure.path,
            "folder": exposure.folder,
            "secret": exposure.secret,
            "moved_by": exposure.xdg.map(tools::Xdg::variable),
            "runtime": exposure.runtime,
        })
    };
    let part = |platform: Platform| {
        let part = tool.on(platform);
        json!({
            "login": part.login.iter().map(exposure).collect::<Vec<_>>(),
            "share": part.share.iter().map(exposure).collect::<Vec<_>>(),
            "services": part.services.iter().map(|service| service.name()).collect::<Vec<_>>(),
            "folders": part.services.iter().filter_map(|service| service.folder()).collect::<Vec<_>>(),
            "variables": part.variables,
        })
    };
    json!({ "programs": tool.programs, "linux": part(Platform::Linux), "macos": part(Platform::Macos) })
}

/// One line per entry, so that a change is one line in a diff.
fn written(registry: &Json) -> String {
    let mut text = String::from("{\n");
    let fields = registry.as_object().unwrap();
    for (at, (name, value)) in fields.iter().enumerate() {
        let end = if at + 1 < fields.len() { ",\n" } else { "\n" };
        let lines = |rows: Vec<String>| format!("\n  {}\n ", rows.join(",\n  "));
        let shown = match value {
            Json::Array(rows) => format!("[{}]", lines(rows.iter().map(Json::to_string).collect())),
            Json::Object(rows) => {
                format!(
                    "{{{}}}",
                    lines(rows.iter().map(|(key, row)| format!("{}: {row}", json!(key))).collect())
                )
            }
            other => other.to_string(),
        };
        text += &format!(" {}: {shown}{end}", json!(name));
    }
    text + "}\n"
}

#[test]
fn the_registry_of_the_sdks_is_what_the_sources_give() {
    let made = written(&registry());
    let path = sdk("registry.json");
    if std::env::var_os("KEYWARD_WRITE_REGISTRY").is_some() {
        std::fs::write(&path, &made).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(made == committed, "sdk/registry.json is not what the sources give; run tools/make-registry");
}

fn lines(case: &Json, key: &str) -> Vec<Ruled<String>> {
    let names = case.get(key).and_then(Json::as_array).into_iter().flatten();
    names.map(|name| Ruled::builtin(name.as_str().unwrap().to_owned())).collect()
}

fn decided(case: &Json) -> Environment {
    let mut policy = Policy { inherit_credentials: lines(case, "inherit_credentials"), ..Policy::default() };
    policy.env.pass = lines(case, "pass");
    policy.env.not_secret = lines(case, "not_secret");
    policy.env.dangerous_loader_env = lines(case, "dangerous_loader_env");
    let set = case.get("set").and_then(Json::as_object).into_iter().flatten();
    let set = set.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()));
    policy.env.set = set.map(|line| Ruled { value: line, origin: Origin::Builtin }).collect();
    policy.net = Ruled::builtin(match case["net"].as_str() {
        Some("none") => NetMode::None,
        Some("open") => NetMode::Open,
        other => panic!("{other:?}"),
    });
    let trust = match case["trust"].as_str() {
        Some("executor") => TrustClass::Executor,
        Some("internal") => TrustClass::Internal,
        Some("tool") => TrustClass::Tool,
        Some("unknown") => TrustClass::Unknown,
        other => panic!("{other:?}"),
    };
    let entries: Vec<Vec<u8>> = case["environment"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| match entry {
            // Each character is one byte.
            Json::String(text) => text.chars().map(|c| u8::try_from(c).unwrap()).collect(),
            other => panic!("{other}"),
        })
        .collect();
    let entries: Vec<&[u8]> = entries.iter().map(Vec::as_slice).collect();
    env::decide(&policy, trust, &entries, &[])
}

#[test]
fn the_cases_of_the_sdks_are_decided_as_by_the_launcher() {
    let text = std::fs::read_to_string(sdk("cases/environment.json")).unwrap();
    let cases: Json = serde_json::from_str(&text).unwrap();
    let cases = cases["cases"].as_array().unwrap();
    let (here, elsewhere): (Vec<&Json>, Vec<&Json>) =
        cases.iter().partition(|case| case["platform"] == "linux");
    assert!(here.len() >= 20 && elsewhere.len() >= 4, "{} and {}", here.len(), elsewhere.len());
    // The launcher decides for Linux; other systems are the SDKs' alone.
    assert!(elsewhere.iter().all(|case| case["platform"] == "macos" || case["platform"] == "windows"));
    for case in here {
        let decided = decided(case);
        let passed: Vec<Json> = decided.vars.iter().map(|var| json!([var.name, var.rule.id()])).collect();
        let dropped: Vec<Json> =
            decided.dropped.iter().map(|dropped| json!([dropped.name, dropped.rule.id()])).collect();
        let missing: Vec<Json> = decided.missing.iter().map(|line| json!(line.value)).collect();
        assert_eq!(json!(passed), case["passed"], "{}", case["name"]);
        assert_eq!(json!(dropped), case["dropped"], "{}", case["name"]);
        assert_eq!(json!(missing), case["missing"], "{}", case["name"]);
    }
}
