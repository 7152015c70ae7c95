//! A table of commands and their verdicts: what hides an act from a reader, and what only looks like one.

use keyward_gate::{Language, Rules, Verdict, judge};

const CORPUS: &str = include_str!("corpus.tsv");
const EVERYDAY: &str = include_str!("corpus-everyday.tsv");
const DANGER: &str = include_str!("corpus-danger.tsv");

/// The lines of a table that are no comments, with their line ends.
fn table(text: &'static str) -> impl Iterator<Item = String> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.replace("\\n", "\n"))
}

fn lines() -> impl Iterator<Item = (&'static str, String)> {
    let lines = CORPUS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| {
        let (verdict, command) = line.split_once('\t').unwrap_or_default();
        (verdict, command.replace("\\n", "\n"))
    })
}

#[test]
fn every_command_of_the_corpus_has_its_verdict() {
    let rules = Rules::builtin();
    let mut wrong = Vec::new();
    for (verdict, command) in lines() {
        let found = judge(&rules, Language::Shell, command.as_bytes());
        if found.verdict.as_str() != verdict {
            wrong.push(format!("{verdict} expected, {} by {:?}: {command:?}", found.verdict, found.rule));
        }
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_corpus_is_large_and_has_every_verdict() {
    assert!(lines().count() >= 200);
    for verdict in ["forbid", "deny", "ask", "allow"] {
        assert!(lines().filter(|(one, _)| *one == verdict).count() >= 20, "{verdict}");
    }
}

#[test]
fn the_part_that_caused_a_verdict_lies_in_the_source() {
    let rules = Rules::builtin();
    for (_, command) in lines() {
        let found = judge(&rules, Language::Shell, command.as_bytes());
        assert_eq!(found.span.is_some(), found.rule.is_some(), "{command:?}");
        assert!(
            found.span.is_none_or(|span| span.start <= span.end && span.end <= command.len()),
            "{command:?}"
        );
    }
}

#[test]
fn what_agents_type_all_day_is_allowed() {
    let rules = Rules::builtin();
    assert!(table(EVERYDAY).count() >= 300);
    let mut asked = Vec::new();
    for command in table(EVERYDAY) {
        let found = judge(&rules, Language::Shell, command.as_bytes());
        if found.verdict != Verdict::Allow {
            asked.push(format!("{} by {:?}: {command:?}", found.verdict, found.rule));
        }
    }
    assert!(asked.is_empty(), "{} asked\n{}", asked.len(), asked.join("\n"));
}

#[test]
fn what_is_dangerous_is_asked_about_however_it_hides() {
    let rules = Rules::builtin();
    assert!(table(DANGER).count() >= 300);
    let mut kinds: Vec<String> = Vec::new();
    let mut missed = Vec::new();
    for line in table(DANGER) {
        let (kind, command) = line.split_once('\t').unwrap_or_default();
        kinds.push(kind.to_owned());
        if judge(&rules, Language::Shell, command.as_bytes()).verdict == Verdict::Allow {
            missed.push(line.clone());
        }
    }
    assert!(missed.is_empty(), "{} missed\n{}", missed.len(), missed.join("\n"));
    kinds.dedup();
    assert!(kinds.len() >= 12, "{kinds:?}");
}
