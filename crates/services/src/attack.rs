//! `keyward doctor --attack`: the words for what the attack found. The attack itself is in the crate `attack`.

use crate::tell::Teller;
use keyward_attack::{Fault, Row, Summary, Verdict, conduct, summary};
use keyward_policy::text::visible;
use keyward_policy::trouble::{Code, Trouble};
use keyward_protocol::services::{Call, Form};
use keyward_sys::file::cause;
use serde::Serialize;
use std::ffi::OsStr;
use std::io;

/// At least one attack worked inside.
const LEAKED: i32 = 1;

#[derive(Serialize)]
struct Report<'a> {
    v: u32,
    attacks: &'a [Row],
    summary: Summary,
}

/// Tries every attack, or the one that the call names.
pub fn attack(call: &Call) -> i32 {
    let teller = Teller(call.form);
    let only = match call.words.first().map(|word| (word, known(word))) {
        None => None,
        Some((_, Some(name))) => Some(name),
        Some((word, None)) => return teller.failure(&unknown(word)),
    };
    let attacked =
        std::env::current_exe().map_err(Fault::Stage).and_then(|own| conduct(&own, &call.launcher, only));
    let rows = match attacked {
        Ok(rows) => rows,
        Err(Fault::Interrupted(signal)) => return 128 + signal,
        Err(Fault::Stage(error)) => return teller.failure(&no_stage(&error)),
        Err(Fault::NoCage(said)) => return teller.failure(&no_cage(&said)),
    };
    let summary = summary(rows.iter().map(|row| &row.verdict));
    let told = match call.form {
        Form::Json => teller.answer_json(&Report { v: 1, attacks: &rows, summary }),
        Form::Words => teller.answer(&table(&rows, summary)),
    };
    told.max(exit_code(summary))
}

fn known(word: &OsStr) -> Option<&'static str> {
    keyward_attack::names().find(|name| word == *name)
}

fn unknown(word: &OsStr) -> Trouble {
    Trouble::new(
        Code::Usage,
        format!("no attack has the name {}", visible(word)),
        "`keyward doctor --attack --json` lists them",
    )
}

fn no_stage(error: &io::Error) -> Trouble {
    Trouble::new(
        Code::File,
        format!("cannot set the stage for the attack: {}", cause(error)),
        "it needs room below /var/tmp or TMPDIR, and a loopback interface",
    )
}

fn no_cage(said: &str) -> Trouble {
    let said = said.lines().rfind(|line| line.starts_with("keyward: ")).unwrap_or("keyward: no word");
    Trouble::new(
        Code::Cage,
        format!("no cage to attack: {}", said.trim_start_matches("keyward: ")),
        "`keyward doctor` shows what this host can do",
    )
}

fn exit_code(summary: Summary) -> i32 {
    if summary.succeed_inside == 0 { 0 } else { LEAKED }
}

/// As wide as a terminal of 100 columns takes it.
fn table(rows: &[Row], summary: Summary) -> String {
    let mut lines = Vec::new();
    let mut class = "";
    for row in rows {
        if row.class != class {
            if !class.is_empty() {
                lines.push(String::new());
            }
            lines.push(format!("{:<58}  {:<8}  {:<6}  {}", row.class, "outside", "inside", "kept by"));
            class = row.class;
        }
        lines.push(line(row));
    }
    lines.push(String::new());
    lines.push(last_line(summary));
    lines.join("\n")
}

fn line(row: &Row) -> String {
    let found = match &row.verdict {
        Verdict::Held(_) => format!("{:<8}  {:<6}  {}: {}", "works", "fails", row.kind, row.kept_by),
        Verdict::Leaked => format!("{:<8}  {:<6}  LEAK: {}", "works", "WORKS", row.kept_by),
        Verdict::NotTried(why) => format!("not tried here: {why}"),
    };
    let line = format!("  {:<56}  {found}", row.tries);
    if line.chars().count() <= WIDTH { line } else { line.chars().take(WIDTH - 1).chain(['…']).collect() }
}

const WIDTH: usize = 100;

fn last_line(summary: Summary) -> String {
    let Summary { attacks, succeed_outside, succeed_inside, not_tried } = summary;
    let noun = if attacks == 1 { "attack" } else { "attacks" };
    format!(
        "{attacks} {noun}: {succeed_outside} worked outside, {succeed_inside} inside; {not_tried} not tried here"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(verdict: Verdict) -> Row {
        let (outside, inside) = verdict.sides();
        let (kept_by, kind) = ("memory", "wall");
        Row { class: "a class", name: "a_name", tries: "try it", kept_by, kind, outside, inside, verdict }
    }

    #[test]
    fn one_leak_is_enough_for_a_code_of_its_own_and_what_was_not_tried_is_none() {
        let held = Summary { attacks: 9, succeed_outside: 9, succeed_inside: 0, not_tried: 4 };
        assert_eq!(exit_code(held), 0);
        assert_eq!(exit_code(Summary { succeed_inside: 1, ..held }), LEAKED);
    }

    #[test]
    fn the_table_tells_walls_leaks_and_what_was_not_tried_apart() {
        let rows = [
            row(Verdict::Held("closed".into())),
            row(Verdict::Leaked),
            row(Verdict::NotTried("operation not permitted".into())),
        ];
        let text = table(&rows, summary(rows.iter().map(|row| &row.verdict)));
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("a class ") && lines[0].ends_with("outside   inside  kept by"));
        assert!(lines[1].contains("works     fails   wall: memory"), "{}", lines[1]);
        assert!(lines[2].contains("works     WORKS   LEAK: memory"), "{}", lines[2]);
        assert!(lines[3].ends_with("not tried here: operation not permitted"), "{}", lines[3]);
        assert_eq!(lines[5], "2 attacks: 2 worked outside, 1 inside; 1 not tried here");
    }

    #[test]
    fn no_line_is_wider_than_a_terminal() {
        let long = row(Verdict::NotTried("why ".repeat(40)));
        assert_eq!(line(&long).chars().count(), WIDTH);
    }
}
