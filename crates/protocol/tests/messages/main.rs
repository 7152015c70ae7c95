//! Golden files and the schema: what clients in other languages are tested against.
//!
//! `UPDATE_GOLDEN=1 cargo test -p keyward-protocol --test messages` writes the golden files again; the difference is for review. A message
//! whose golden file changes is another message: clients that are out there know the old one.
#![allow(clippy::unwrap_used, clippy::panic)]
#![allow(clippy::disallowed_methods, reason = "tests look at files")]

mod samples;
mod schema;

use keyward_policy::trouble::Code;
use keyward_protocol::approval::Progress;
use keyward_protocol::link::Link;
use keyward_protocol::proxy::{Order, Report};
use keyward_protocol::session::{Answer, Ask};
use keyward_protocol::spawner::{Errand, News};
use keyward_protocol::vault::Said;
use keyward_protocol::{judge, packet, webhook};
use samples::Sample;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::PathBuf;

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)
}

fn golden(sample: &Sample) -> Value {
    let path = folder("golden").join(sample.file());
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let text = serde_json::to_string_pretty(&sample.encoded).unwrap();
        std::fs::write(&path, format!("{text}\n")).unwrap();
    }
    let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_slice(&text).unwrap()
}

#[test]
fn every_message_is_encoded_as_its_golden_file() {
    for sample in samples::all() {
        assert_eq!(sample.encoded, golden(&sample), "{}", sample.file());
    }
}

#[test]
fn every_kind_of_message_has_a_golden_file_and_no_other_file_is_there() {
    let all = samples::all();
    for (channel, kinds) in samples::KINDS {
        let has: BTreeSet<&str> =
            all.iter().filter(|sample| sample.channel == *channel).map(|sample| sample.kind).collect();
        assert_eq!(has, kinds.iter().copied().collect(), "{channel}");
    }
    let wanted: BTreeSet<String> = all.iter().map(Sample::file).collect();
    assert_eq!(wanted.len(), all.len(), "two messages have the same file");
    let there: BTreeSet<String> = std::fs::read_dir(folder("golden"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(there, wanted);
}

/// Reads the golden files of a channel, and compares the messages with those they were made from.
fn decodes<T: DeserializeOwned + Serialize + PartialEq + Debug>(channel: &str, messages: Vec<T>) {
    let files = samples::all().into_iter().filter(|sample| sample.channel == channel);
    let mut count = 0;
    for (message, sample) in messages.into_iter().zip(files) {
        let bytes = std::fs::read(folder("golden").join(sample.file())).unwrap();
        assert_eq!(packet::read::<T>(&bytes).as_ref(), Some(&message), "{}", sample.file());
        assert_eq!(packet::read::<T>(&packet::write(&message)), Some(message));
        count += 1;
    }
    assert!(count > 0, "{channel}");
}

#[test]
fn every_golden_file_is_decoded_as_its_message() {
    decodes::<Ask>("ask", samples::asks());
    decodes::<Answer>("answer", samples::answers());
    decodes::<Errand>("errand", samples::errands());
    decodes::<News>("news", samples::news());
    decodes::<Link>("link", samples::links());
    decodes::<Progress>("progress", samples::progress());
    decodes::<Said>("vault", samples::said());
    decodes::<Order>("order", samples::orders());
    decodes::<Report>("report", samples::reports());
    let read = |name: &str| std::fs::read(folder("golden").join(name)).unwrap();
    let said: judge::Said = serde_json::from_slice(&read("judge.said.json")).unwrap();
    assert_eq!(said, samples::judge_said());
    let answered: webhook::Answered = serde_json::from_slice(&read("webhook.answered.json")).unwrap();
    assert_eq!(answered, samples::webhook_answered());
}

/// The schema of a public channel, and the definition in it.
const PUBLIC: &[(&str, &str, &str)] = &[
    ("ask", "session", "#/$defs/ask"),
    ("answer", "session", "#/$defs/answer"),
    ("outcome", "outcome", "#"),
    ("event", "event", "#"),
];

fn load(name: &str) -> Value {
    let text = std::fs::read(folder("schema").join(format!("{name}.json"))).unwrap();
    serde_json::from_slice(&text).unwrap()
}

#[test]
fn every_public_message_and_its_golden_file_fit_the_schema() {
    for (channel, file, at) in PUBLIC {
        let schema = schema::Schema::new(load(file));
        for sample in samples::all().into_iter().filter(|sample| sample.channel == *channel) {
            for value in [&sample.encoded, &golden(&sample)] {
                schema.check(at, value).unwrap_or_else(|why| panic!("{}: {why}", sample.file()));
            }
        }
    }
    let question = schema::Schema::new(load("question"));
    for (channel, kind) in
        [("judge", "asked"), ("judge", "said"), ("webhook", "asked"), ("webhook", "answered")]
    {
        let sample = samples::all().into_iter().find(|it| it.channel == channel && it.kind == kind).unwrap();
        question.check(&format!("#/$defs/{channel}-{kind}"), &sample.encoded).unwrap();
    }
    let document = serde_json::to_value(samples::question()).unwrap();
    question.check("#", &document).unwrap();
}

#[test]
fn every_error_has_a_fact_a_remedy_and_a_code() {
    let schema = schema::Schema::new(load("error"));
    let mut count = 0;
    for sample in samples::all() {
        let has_fact = matches!(
            (sample.channel, sample.kind),
            ("answer", "refused") | ("outcome", "limit" | "refused" | "denied" | "fault")
        );
        if has_fact {
            schema.check_open("#", &sample.encoded).unwrap_or_else(|why| panic!("{}: {why}", sample.file()));
            count += 1;
        }
    }
    assert!(count >= 5);
}

#[test]
fn the_schema_lists_every_kind_and_no_other() {
    for (channel, file, at) in PUBLIC {
        let schema = load(file);
        let listed = schema.pointer(&format!("{}/oneOf", &at[1..])).unwrap().as_array().unwrap().iter();
        let listed: BTreeSet<&str> = listed.map(|one| one["title"].as_str().unwrap()).collect();
        let (_, kinds) = samples::KINDS.iter().find(|(name, _)| name == channel).unwrap();
        assert_eq!(listed, kinds.iter().copied().collect(), "{channel}");
    }
}

/// Every list of codes in a schema: an `enum` with one that all of them have.
fn lists_of_codes(value: &Value) -> Vec<&Vec<Value>> {
    match value {
        Value::Array(all) if all.contains(&Value::from("witness-unreached")) => vec![all],
        Value::Array(all) => all.iter().flat_map(lists_of_codes).collect(),
        Value::Object(fields) => fields.values().flat_map(lists_of_codes).collect(),
        _ => Vec::new(),
    }
}

#[test]
fn the_schema_lists_every_code_of_an_error() {
    let codes: Vec<Value> = Code::ALL.iter().map(|code| code.row().name.into()).collect();
    for file in ["error", "outcome", "session"] {
        let schema = load(file);
        let lists = lists_of_codes(&schema);
        assert!(!lists.is_empty(), "{file}");
        lists.into_iter().for_each(|list| assert_eq!(*list, codes, "{file}"));
    }
}

#[test]
fn the_schema_refuses_what_the_session_refuses() {
    let schema = schema::Schema::new(load("session"));
    for refused in [
        r#"{"v":2,"do":"jobs"}"#,
        r#"{"do":"jobs"}"#,
        r#"{"v":1,"do":"open"}"#,
        r#"{"v":1,"do":"kill"}"#,
        r#"{"v":1,"do":"kill","job":-1}"#,
        r#"{"v":1,"do":"kill","job":"1"}"#,
        r#"{"v":1,"do":"jobs","session":"other"}"#,
        r#"{"v":1,"do":"exec","argv":["a",[256]]}"#,
        r#"{"v":1,"do":"exec","argv":["a"],"terminal":{"rows":1,"columns":1,"streams":[true]}}"#,
        r#"{"v":1,"do":"offer","names":["x"],"judged":{"x":{"as":"perl"}}}"#,
    ] {
        let value: Value = serde_json::from_str(refused).unwrap();
        assert!(schema.check("#/$defs/ask", &value).is_err(), "{refused}");
        assert_eq!(packet::read::<Ask>(refused.as_bytes()), None, "{refused}");
    }
    // A later session may say more in an answer.
    let more = serde_json::json!({ "v": 1, "is": "started", "job": 1, "more": 2 });
    assert_eq!(schema.check_open("#/$defs/answer", &more), Ok(()));
    assert!(schema.check("#/$defs/answer", &more).is_err());
}

/// The page for authors of clients shows golden files, so that it cannot say something else than they do.
#[test]
fn the_conversation_of_the_page_is_made_of_golden_files() {
    let page = std::fs::read_to_string(folder("../../docs/protocol.md")).unwrap();
    let rows =
        page.lines().filter(|line| line.starts_with("| client | `") || line.starts_with("| session | `"));
    let mut count = 0;
    for row in rows {
        let cells: Vec<&str> = row.split(" | ").map(|cell| cell.trim_matches(['`', '|', ' '])).collect();
        let golden = std::fs::read(folder("golden").join(format!("{}.json", cells[1]))).unwrap();
        let golden: Value = serde_json::from_slice(&golden).unwrap();
        assert_eq!(serde_json::from_str::<Value>(cells[2]).unwrap(), golden, "{row}");
        count += 1;
    }
    assert!(count >= 8, "the conversation is not there");
}
