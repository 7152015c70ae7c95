//! An event in one line. Everything in it may come from inside a cage, so nothing of it reaches a terminal unseen.

use keyward_policy::text::{typed_words, visible};
use serde_json::Value;
use std::ffi::OsStr;

/// The whole line.
pub fn line(event: &Value, command: &str) -> String {
    // What was never started has no run that says its command.
    let own = match event["event"].as_str() {
        Some("asked" | "denied") => argv(event),
        _ => command.to_owned(),
    };
    let line = format!("{}  {:<13} {}  {own}", text(event, "time"), text(event, "event"), detail(event));
    line.trim_end().to_owned()
}

/// A field that is a text.
pub fn text(event: &Value, key: &str) -> String {
    visible(OsStr::new(event[key].as_str().unwrap_or_default()))
}

/// Shows a field that should be a number, as JSON writes it.
fn number(event: &Value, key: &str) -> String {
    visible(OsStr::new(&event[key].to_string()))
}

/// The command line of an event.
pub fn argv(event: &Value) -> String {
    let words = event["argv"].as_array().into_iter().flatten().filter_map(Value::as_str);
    typed_words(&words.map(|word| visible(OsStr::new(word))).collect::<Vec<_>>())
}

/// What there is to say beside the command.
pub fn detail(event: &Value) -> String {
    match event["event"].as_str() {
        Some("secret") => format!(
            "{} by {}, {} µs in the vault",
            text(event, "name"),
            text(event, "delivery"),
            number(event, "microseconds")
        ),
        Some("printed") => format!(
            "{} as {}, at byte {} of descriptor {}",
            text(event, "name"),
            text(event, "encoding"),
            number(event, "offset"),
            number(event, "stream")
        ),
        Some("reveal") => format!("{} on a terminal", text(event, "name")),
        Some("spawn") => {
            let one = |given: &Value| format!("{} by {}", text(given, "name"), text(given, "delivery"));
            event["secrets"].as_array().into_iter().flatten().map(one).collect::<Vec<_>>().join(", ")
        }
        Some("end") => format!("code {}", number(event, "exit")),
        Some("job") => format!("{}/{}  {}", text(event, "session"), number(event, "job"), argv(event)),
        Some("job-end") => {
            format!("{}/{}  code {}", text(event, "session"), number(event, "job"), number(event, "exit"))
        }
        Some("call") => format!("{} in {}", text(event, "name"), text(event, "session")),
        Some("refused") => format!("{}: {}", argv(event), text(event, "fact")),
        Some("denied") => match event["rule"].as_str() {
            Some(_) => format!("{} ({})", text(event, "because"), text(event, "rule")),
            None => text(event, "because"),
        },
        Some("net-denied") => {
            let times = event["times"].as_u64().filter(|&times| times > 1);
            let times = times.map(|times| format!(" ({times} times)")).unwrap_or_default();
            let flag =
                event["flag"].as_str().map(|_| format!("; {}", text(event, "flag"))).unwrap_or_default();
            format!("{}{times}{flag}", text(event, "fact"))
        }
        Some("net-connected") => {
            format!("{}:{} by {}", text(event, "host"), number(event, "port"), text(event, "rule"))
        }
        Some("net-unreached") => {
            format!("{}:{}: {}", text(event, "host"), number(event, "port"), text(event, "fact"))
        }
        Some("net-swapped" | "net-echoed" | "net-masked" | "net-renewed") => {
            format!("{} for {}", text(event, "secret"), text(event, "host"))
        }
        Some("net-granted") => {
            let rules = event["rules"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let rules: Vec<String> = rules.map(|rule| visible(OsStr::new(rule))).collect();
            format!("{} in {}", rules.join(", "), text(event, "session"))
        }
        Some("net-allowed") => text(event, "rule"),
        Some("login-allowed") => format!("{} in {}", text(event, "account"), text(event, "file")),
        Some("asked") => format!("question {}", event["question"]),
        Some("answered") => {
            format!("question {}: {} by {}", event["question"], text(event, "answer"), text(event, "by"))
        }
        Some("granted") => {
            let what = match event["class"].as_str() {
                Some(_) => format!("class {}", text(event, "class")),
                None => "the same command".to_owned(),
            };
            let (uses, until) = (&event["uses"], text(event, "until"));
            format!("grant {}: {what}, uses {uses}, until {until}", event["grant"])
        }
        Some("grant-used") => format!("grant {}: uses left {}", event["grant"], event["uses_left"]),
        Some("revoked") => format!("grant {}", event["grant"]),
        Some("recovered") => text(event, "folder"),
        Some("left-out") => {
            let one = |(kind, count): (&String, &Value)| {
                format!("{} {}", visible(OsStr::new(&count.to_string())), visible(OsStr::new(kind)))
            };
            let counts: Vec<String> = event["counts"].as_object().into_iter().flatten().map(one).collect();
            let (session, first, last) = (text(event, "session"), text(event, "first"), text(event, "last"));
            let place = if session.is_empty() { session } else { format!(" in {session}") };
            format!(
                "refused and not recorded one by one{place}: {}, from {first} to {last}",
                counts.join(", ")
            )
        }
        Some("torn") => format!("{} bytes before this line were left half written", number(event, "bytes")),
        Some("ledger-file") => match event["before"]["file"].as_str() {
            Some(file) => format!("goes on from {}", visible(OsStr::new(file))),
            None => "the record begins".to_owned(),
        },
        _ => text(event, "fact"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_the_place_of_a_number_is_not_obeyed_either() {
        for kind in ["secret", "printed", "end", "job", "job-end", "torn", "left-out"] {
            let hostile = "\u{9b}31m\u{202e}";
            let event = serde_json::json!({
                "event": kind, "microseconds": hostile, "offset": hostile, "stream": hostile, "exit": hostile,
                "job": hostile, "bytes": hostile, "counts": { hostile: hostile }
            });
            let line = line(&event, "");
            assert!(!line.contains(['\u{9b}', '\u{202e}']) && line.contains("\\u{9b}"), "{line}");
        }
        assert_eq!(detail(&serde_json::json!({ "event": "end", "exit": 3 })), "code 3");
    }
}
