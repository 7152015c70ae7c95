//! `keyward log verify` and `keyward log head`.

use crate::args::{LogVerifyArgs, PolicyFlags};
use crate::here::Here;
use crate::{files, say, witness};
use keyward_ledger::{AsideState, Head, Kept, Known, Report, Wrong};
use keyward_policy::text::visible;
use keyward_policy::trouble::{Code, Trouble};
use serde_json::json;
use std::io;

/// The exit code if the chain is not whole.
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

/// Heads that were kept elsewhere, and where.
struct Elsewhere {
    place: String,
    heads: Vec<Kept>,
}

/// What became of the heads of one place.
struct Judged<'a> {
    place: &'a str,
    asked: usize,
    /// The newest that is in the chain.
    found: Option<u64>,
    missing: Vec<&'a Kept>,
}

pub fn verify(args: &LogVerifyArgs, here: &Here) -> io::Result<i32> {
    let mut elsewhere = vec![Elsewhere { place: "--head".into(), heads: args.head.clone() }];
    if let Some(path) = &args.head_file {
        let place = visible(path.as_os_str());
        let Some(heads) = std::fs::read_to_string(path).ok().and_then(|text| read_heads(&text, here)) else {
            return Ok(say::failure(&Trouble::new(
                Code::Usage,
                format!("cannot find heads in {place}"),
                "name a file whose lines `keyward log head` has printed, or a witness has written",
            )));
        };
        elsewhere.push(Elsewhere { place, heads });
    }
    // Before the ledger: whatever they know by now has to be in it.
    let unasked = ask_witnesses(here, &mut elsewhere);
    elsewhere.retain(|place| !place.heads.is_empty());
    let kept: Vec<Kept> = elsewhere.iter().flat_map(|place| place.heads.iter().copied()).collect();
    let report = keyward_ledger::verify(&here.state, &kept)?;
    let judged = judge(&elsewhere, &report);
    match args.json {
        true => say::answer_json(&as_json(&report, &judged, &unasked)),
        false => tell(&report, &judged, &unasked),
    }
    Ok(if report.is_good() { 0 } else { NOT_WHOLE })
}

/// Asks those that the policy names; gives the ones that cannot be asked.
fn ask_witnesses(here: &Here, elsewhere: &mut Vec<Elsewhere>) -> Vec<String> {
    let policy = match files::policy(&PolicyFlags::default(), here, &[]) {
        Ok(policy) => policy,
        Err(no_policy) => return vec![format!("those of the policy ({})", no_policy.fact)],
    };
    let mut unasked = Vec::new();
    for named in &policy.witness {
        let place = witness::shown(&named.value);
        match keyward_ledger::witness::ask(&named.value, &here.state) {
            Some(heads) if !heads.is_empty() => elsewhere.push(Elsewhere { place, heads }),
            Some(_) => unasked.push(format!("{place} (it knows nothing of this record)")),
            None => unasked.push(place),
        }
    }
    unasked
}

fn judge<'a>(elsewhere: &'a [Elsewhere], report: &Report) -> Vec<Judged<'a>> {
    let mut known = report.kept.iter();
    let mut judged = Vec::new();
    for Elsewhere { place, heads } in elsewhere {
        let mut one = Judged { place, asked: heads.len(), found: None, missing: Vec::new() };
        for (head, known) in heads.iter().zip(known.by_ref()) {
            match known {
                Known::Found(seq) => one.found = one.found.max(Some(*seq)),
                Known::Missing => one.missing.push(head),
                Known::Older => {}
            }
        }
        judged.push(one);
    }
    judged
}

/// Lines with a head each; nothing where one is something else.
fn read_heads(text: &str, here: &Here) -> Option<Vec<Kept>> {
    let told = keyward_ledger::witness::from_lines(text.as_bytes(), &here.state);
    if !told.is_empty() {
        return Some(told);
    }
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.map(Kept::read).collect::<Option<Vec<_>>>().filter(|heads| !heads.is_empty())
}

fn as_json(report: &Report, judged: &[Judged<'_>], unasked: &[String]) -> serde_json::Value {
    let heads = judged.iter().map(|one| {
        let missing = one.missing.iter().map(|head| json!({ "seq": head.seq, "digest": head.digest.to_string() }));
        json!({ "from": one.place, "asked": one.asked, "found": one.found, "missing": missing.collect::<Vec<_>>() })
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
        "heads": heads.collect::<Vec<_>>(),
        "not_asked": unasked,
    })
}

fn tell(report: &Report, judged: &[Judged<'_>], unasked: &[String]) {
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
    for Judged { place, found, missing, .. } in judged {
        match (missing.first(), found) {
            (Some(head), _) => {
                let event = head.seq.map(|seq| format!(", event {seq},")).unwrap_or_default();
                say::trouble(
                    &format!(
                        "the head from {place}{event} is not in the chain: its end was cut off, or it was made anew"
                    ),
                    "keep the files as they are, and compare them with a copy",
                );
            }
            (None, Some(seq)) => {
                say::answer(&format!("what {place} knows is in the chain, up to event {seq}"))
            }
            (None, None) => say::answer(&format!("what {place} knows is older than what is here")),
        }
    }
    for place in unasked {
        say::answer(&format!("not asked: {place}"));
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
            "everything before that line is as it was written; keep the files as they are, and compare them with a copy",
        );
    }
}
