//! `keyward log verify` and `keyward log head`.

use crate::args::LogVerifyArgs;
use crate::here::Here;
use crate::say;
use keyward_ledger::{AsideState, Head, Kept, Known, Report, Wrong};
use keyward_policy::outcome::code;
use keyward_policy::text::visible;
use serde_json::json;
use std::io;

/// What was asked for is not so.
const NOT_WHOLE: i32 = 1;

pub fn head(here: &Here) -> io::Result<i32> {
    match keyward_ledger::head(&here.state)? {
        Some(Head { seq, digest }) => {
            say::answer(&format!("{seq} {digest}"));
            Ok(0)
        }
        None => {
            say::note("nothing is recorded yet");
            Ok(NOT_WHOLE)
        }
    }
}

/// A head that was kept elsewhere, and where.
struct From {
    place: String,
    kept: Kept,
}

pub fn verify(args: &LogVerifyArgs, here: &Here) -> io::Result<i32> {
    let mut heads: Vec<From> =
        args.head.iter().map(|kept| From { place: "--head".into(), kept: *kept }).collect();
    if let Some(path) = &args.head_file {
        let place = visible(path.as_os_str());
        let Some(kept) = std::fs::read_to_string(path).ok().and_then(|text| read_heads(&text)) else {
            say::trouble(
                &format!("cannot find heads in {place}"),
                "name a file whose lines `keyward log head` has printed",
            );
            return Ok(code::USAGE);
        };
        heads.extend(kept.into_iter().map(|kept| From { place: place.clone(), kept }));
    }
    let kept: Vec<Kept> = heads.iter().map(|head| head.kept).collect();
    let report = keyward_ledger::verify(&here.state, &kept)?;
    match args.json {
        true => say::answer_json(&as_json(&report, &heads)),
        false => tell(&report, &heads),
    }
    Ok(if report.is_good() { 0 } else { NOT_WHOLE })
}

/// Lines with a head each; nothing where one is something else.
fn read_heads(text: &str) -> Option<Vec<Kept>> {
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.map(Kept::read).collect::<Option<Vec<_>>>().filter(|heads| !heads.is_empty())
}

fn as_json(report: &Report, heads: &[From]) -> serde_json::Value {
    let kept = heads.iter().zip(&report.kept).map(|(head, known)| {
        json!({
            "from": head.place,
            "seq": head.kept.seq,
            "digest": head.kept.digest.to_string(),
            "known": match known { Known::Found(_) => "found", Known::Missing => "missing", Known::Older => "older" },
        })
    });
    json!({
        "v": 1,
        "good": report.is_good(),
        "events": report.lines,
        "files": report.files,
        "bytes": report.bytes,
        "first": report.first,
        "head": report.head.map(|head| json!({ "seq": head.seq, "digest": head.digest.to_string() })),
        "bad": report.bad,
        "torn": report.torn,
        "unchained": report.aside,
        "heads": kept.collect::<Vec<_>>(),
    })
}

fn tell(report: &Report, heads: &[From]) {
    if let (None, Some(head)) = (&report.bad, report.head) {
        let first = report.first.unwrap_or(1);
        let files = if report.files == 1 { "1 file".into() } else { format!("{} files", report.files) };
        say::answer(&format!("the chain is whole: events {first} to {} in {files}", head.seq));
        say::answer(&format!("head {} {}", head.seq, head.digest));
        if first > 1 {
            say::answer(&format!("it begins at event {first}: older files are not here"));
        }
    } else if report.bad.is_none() {
        say::answer("nothing is recorded yet");
    }
    for torn in &report.torn {
        let told = if torn.told { "the next one says so" } else { "the next event will say so" };
        say::answer(&format!(
            "{}:{}: {} bytes were left half written by a writer that was killed; {told}",
            torn.file, torn.line, torn.bytes
        ));
    }
    for aside in &report.aside {
        let file = visible(aside.file.as_ref());
        match aside.state {
            AsideState::Unchanged => {
                say::answer(&format!("{file} has no chain, and is as it was when it was put aside"));
            }
            AsideState::Gone => say::answer(&format!("{file}, which has no chain, is not here any more")),
            AsideState::Unknown => say::answer(&format!("{file} has no chain, and no event knows it yet")),
            AsideState::Changed => say::trouble(
                &format!("{file} has no chain, and was changed since it was put aside"),
                "compare it with a copy; the chain itself is not concerned",
            ),
        }
    }
    for (head, known) in heads.iter().zip(&report.kept) {
        let place = &head.place;
        match known {
            Known::Found(seq) => say::answer(&format!("the head from {place} is event {seq}")),
            Known::Older => say::answer(&format!("the head from {place} is older than what is here")),
            Known::Missing => say::trouble(
                &format!(
                    "the head from {place} is not in the chain: its end was cut off, or it was made anew"
                ),
                "keep the files as they are, and compare them with a copy",
            ),
        }
    }
    if let Some(bad) = &report.bad {
        let wrong = match bad.wrong {
            Wrong::Changed => "changed",
            Wrong::Cut => "cut",
            Wrong::Inserted => "inserted",
            Wrong::Reordered => "out of order",
        };
        say::trouble(
            &format!("{}:{}: {wrong}: {}", bad.file, bad.line, bad.fact),
            "what stands before that line is as it was written; keep the files as they are, and compare them with a copy",
        );
    }
}
