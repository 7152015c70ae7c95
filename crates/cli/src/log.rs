//! `keyward log`: what the record says.

use crate::args::LogArgs;
use crate::explain::NoPlan;
use crate::{here, say};
use keyward_policy::outcome::code;
use keyward_sys::environ::Block;
use serde_json::Value;
use std::collections::HashMap;
use std::io::{BufRead, BufReader};

pub fn log(args: &LogArgs, block: &Block) -> i32 {
    let here = match here::look(&block.entries(), None) {
        Ok(here) => here,
        Err(refusal) => return NoPlan::Refused(refusal).tell(false),
    };
    let path = keyward_ledger::path(&here.state);
    let file = match std::fs::File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            say::answer("nothing is recorded yet");
            return 0;
        }
        Err(error) => {
            let shown = keyward_policy::text::visible(path.as_os_str());
            say::trouble(
                &format!("cannot read {shown}: {}", say::cause(&error)),
                "mend the permissions there",
            );
            return code::FAULT;
        }
    };
    // Which command a run was: what happens to a secret is told later than that.
    let mut commands: HashMap<String, String> = HashMap::new();
    for line in BufReader::new(file).split(b'\n').map_while(Result::ok) {
        // One that a killed writer has left torn.
        let Ok(event) = serde_json::from_slice::<Value>(&line) else { continue };
        let run = text(&event, "run");
        if text(&event, "event") == "spawn" {
            let words = event["argv"].as_array().into_iter().flatten().filter_map(Value::as_str);
            commands.insert(run.clone(), words.collect::<Vec<_>>().join(" "));
        }
        if !args.secret.as_ref().is_none_or(|name| is_about(&event, name)) {
            continue;
        }
        if args.json {
            say::answer(&String::from_utf8_lossy(&line));
        } else {
            let command = commands.get(&run).map_or("", String::as_str);
            say::answer(&format!(
                "{}  {:<13} {}  {command}",
                text(&event, "time"),
                text(&event, "event"),
                detail(&event)
            ));
        }
    }
    0
}

fn text(event: &Value, key: &str) -> String {
    event[key].as_str().unwrap_or_default().to_owned()
}

/// Whether an event says who could read a secret, or what became of it.
fn is_about(event: &Value, name: &str) -> bool {
    match event["event"].as_str() {
        Some("secret" | "printed" | "reveal") => event["name"] == name,
        Some("spawn") => {
            let given = event["secrets"].as_array();
            given.is_some_and(|given| given.iter().any(|given| given["name"] == name))
        }
        _ => false,
    }
}

fn detail(event: &Value) -> String {
    match event["event"].as_str() {
        Some("secret") => {
            format!(
                "{} by {}, {} µs in the vault",
                text(event, "name"),
                text(event, "delivery"),
                event["microseconds"]
            )
        }
        Some("printed") => format!(
            "{} as {}, at byte {} of descriptor {}",
            text(event, "name"),
            text(event, "encoding"),
            event["offset"],
            event["stream"]
        ),
        Some("reveal") => format!("{} on a terminal", text(event, "name")),
        Some("spawn") => {
            let one = |given: &Value| format!("{} by {}", text(given, "name"), text(given, "delivery"));
            event["secrets"].as_array().into_iter().flatten().map(one).collect::<Vec<_>>().join(", ")
        }
        Some("end" | "job-end") => format!("code {}", event["exit"]),
        Some("refused" | "fault") => text(event, "fact"),
        _ => String::new(),
    }
}
