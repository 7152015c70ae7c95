//! `keyward log export`: events for another program.

use super::words;
use crate::args::LogExportArgs;
use crate::here::Here;
use crate::say;
use keyward_ledger::Reader;
use keyward_policy::event::is_denial;
use keyward_policy::text::{visible, visible_json};
use serde_json::Value;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::ops::ControlFlow;

const COLUMNS: &str = "seq,time,run,event,denied,session,secret,exit,command,detail";

pub fn export(args: &LogExportArgs, here: &Here) -> io::Result<i32> {
    let filter = args.filter.filter();
    let mut out = say::listing();
    if args.csv && writeln!(out, "{COLUMNS}").is_err() {
        return Ok(0);
    }
    let _ = Reader::open(&here.state, &filter)?.each(&filter, |found| {
        let text = String::from_utf8_lossy(found.line);
        let written = match args.csv {
            false => writeln!(out, "{}", visible_json(&text)),
            true => match serde_json::from_str(&text) {
                Ok(event) => writeln!(out, "{}", row(&event)),
                Err(_) => Ok(()),
            },
        };
        if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    // A reader that has gone away is no trouble.
    let _ = out.flush();
    Ok(0)
}

fn row(event: &Value) -> String {
    let plain = |key: &str| match &event[key] {
        Value::Number(number) => number.to_string(),
        Value::String(text) => text.clone(),
        _ => String::new(),
    };
    let secrets = || {
        let given =
            event["secrets"].as_array().into_iter().flatten().filter_map(|given| given["name"].as_str());
        given.collect::<Vec<_>>().join(" ")
    };
    let secret = match event["event"].as_str() {
        Some("secret" | "printed" | "reveal") => plain("name"),
        _ => secrets(),
    };
    let denied = is_denial(&plain("event"), event["answer"].as_str()).to_string();
    let cells = [
        plain("seq"),
        plain("time"),
        plain("run"),
        plain("event"),
        denied,
        plain("session"),
        secret,
        plain("exit"),
        words::argv(event),
        words::detail(event),
    ];
    cells.iter().map(|text| cell(text)).collect::<Vec<_>>().join(",")
}

/// A cell that is a text to every spreadsheet, and one line: what begins like a formula gets a mark before it.
fn cell(text: &str) -> String {
    let text = visible(OsStr::new(text));
    let is_number = text.parse::<i64>().is_ok();
    let first = text.trim_start().chars().next();
    let mark = match first {
        Some('=' | '+' | '-' | '@' | '|' | '%' | '＝' | '＋' | '－' | '＠') if !is_number => "'",
        _ => "",
    };
    format!("\"{mark}{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_is_a_formula_or_leaves_its_place() {
        assert_eq!(cell("=HYPERLINK(\"x\")"), "\"'=HYPERLINK(\"\"x\"\")\"");
        for formula in ["+1+1", "-1+1", "@SUM(A1)", " =1", "|cmd", "＝1"] {
            assert!(cell(formula).starts_with("\"'"), "{formula}");
        }
        assert_eq!(cell("-5"), "\"-5\"");
        assert_eq!(cell("a\",b\n\t=1"), "\"a\"\",b\\u{a}\\u{9}=1\"");
        assert_eq!(cell("ls -la"), "\"ls -la\"");
    }
}
