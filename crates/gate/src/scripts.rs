//! Scripts that a command starts: judged with it, by whoever can read them.

use crate::LARGEST;
use crate::rules::Rules;
use crate::verdict::{Judgement, Language, Loss, Lost, ScriptWanted};
use keyward_policy::words::Verdict;

/// How far scripts that start scripts are followed.
const DEEPEST: usize = 8;
/// How many of them are read for one command.
const MOST: usize = 64;

/// What stands where a script is wanted; `T` is its text, or what holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found<T = Vec<u8>> {
    Text(T),
    /// A program that was compiled: nothing of it can be read.
    Program,
    /// Nothing is there yet.
    Missing,
    /// It cannot be read, or is not what the command will find.
    Unreadable,
}

impl<T> Found<T> {
    /// The same with something else made of the text.
    pub fn map<U>(self, make: impl FnOnce(T) -> U) -> Found<U> {
        match self {
            Found::Text(text) => Found::Text(make(text)),
            Found::Program => Found::Program,
            Found::Missing => Found::Missing,
            Found::Unreadable => Found::Unreadable,
        }
    }
}

/// What is known about snapshots of the user's shell that agents read before each command. Their names are for anyone to choose, so that a
/// name alone spares nothing.
#[derive(Clone, Copy)]
pub struct Snapshots<'a> {
    /// Whether the command can neither make nor change what stands at this path.
    pub is_out_of_reach: &'a dyn Fn(&[u8]) -> bool,
    /// The words of the command.
    pub argv: &'a [&'a [u8]],
}

impl Snapshots<'_> {
    /// Where nothing is known: no file is spared.
    pub const NONE: Snapshots<'static> = Snapshots { is_out_of_reach: &|_| false, argv: &[] };

    /// Whether what is unclear in this file says nothing about the command.
    fn spares(&self, path: &[u8]) -> bool {
        is_snapshot(path) && (self.is_out_of_reach)(path)
    }

    /// The same for a file that does not exist. The agent made it outside, and goes on where it is not there. In a place that the command
    /// can write to, that holds only if it is read before anything else: later, the command could have made it.
    fn spares_missing(&self, path: &[u8]) -> bool {
        is_snapshot(path)
            && ((self.is_out_of_reach)(path) || self.argv.iter().any(|word| is_read_first(word, path)))
    }
}

/// Whether a line reads a file before it runs anything: only assignments of variables, or a program that gets the rest as its argument, may
/// stand before it.
fn is_read_first(line: &[u8], path: &[u8]) -> bool {
    let Some(at) = line.windows(path.len().max(1)).position(|part| part == path) else { return false };
    let mut before = &line[..at];
    before = before.strip_suffix(b"'").or_else(|| before.strip_suffix(b"\"")).unwrap_or(before);
    let Some(rest) = before.strip_suffix(b"source ").or_else(|| before.strip_suffix(b". ")) else {
        return false;
    };
    let rest = rest.strip_suffix(b"if ").unwrap_or(rest);
    let is_of_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let is_quiet = |line: &[u8]| {
        let name = line.iter().take_while(|byte| is_of_name(byte)).count();
        let value = &line[name..];
        let is_assignment = name > 0 && value.starts_with(b"=\"") && value.ends_with(b"\"");
        !line.iter().any(|byte| b"`;&|<>()".contains(byte)) && is_assignment
    };
    let is_program = |line: &[u8]| {
        let word = line.trim_ascii_end().split(|byte| byte.is_ascii_whitespace());
        line.iter().all(|byte| byte.is_ascii_alphanumeric() || b"/._- '\"".contains(byte))
            && word.count() <= 2
    };
    let mut lines = rest.split(|&byte| byte == b'\n');
    let last = lines.next_back().unwrap_or_default();
    lines.all(|line| line.trim_ascii().is_empty() || is_quiet(line.trim_ascii()))
        && (last.trim_ascii().is_empty() || is_program(last))
}

/// A command with all that it starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whole<T = Vec<u8>> {
    /// The strictest of all; without a place if that was found in a script.
    pub judgement: Judgement,
    /// The script in which it was found, as it is written.
    pub from: Option<Vec<u8>>,
    /// Every script that was read.
    pub scripts: Vec<T>,
}

/// Judges what a command starts, and what that starts. `read` is asked for each script once; `lost` says what is lost of the work that a
/// command would take away.
pub fn with_scripts<T: AsRef<[u8]>>(
    rules: &Rules,
    own: Judgement,
    snapshots: Snapshots<'_>,
    mut read: impl FnMut(&[u8]) -> Found<T>,
    mut lost: impl FnMut(&Loss) -> Lost,
) -> Whole<T> {
    let mut whole = Whole { judgement: own.settled(&mut lost), from: None, scripts: Vec::new() };
    let mut waiting: Vec<(ScriptWanted, usize)> =
        whole.judgement.scripts.iter().map(|wanted| (wanted.clone(), 1)).collect();
    let mut known: Vec<Vec<u8>> = Vec::new();
    // All of them together may be as long as one: whoever waits for the verdict waits no longer for many.
    let mut room = LARGEST;
    while let Some((wanted, depth)) = waiting.pop() {
        if known.contains(&wanted.path) {
            continue;
        }
        known.push(wanted.path.clone());
        let found = if depth > DEEPEST || known.len() > MOST || room == 0 {
            Found::Unreadable
        } else {
            read(&wanted.path)
        };
        let judged = match found {
            Found::Text(text) if text.as_ref().len() > room => {
                room = 0;
                whole.scripts.push(text);
                if !rules.ask_about_unclear() {
                    continue;
                }
                unclear("starts more scripts than can be read for one command")
            }
            Found::Text(text) => {
                room -= text.as_ref().len();
                let judged = match snapshots.spares(&wanted.path) {
                    true => judge_text(&rules.seen_only(), wanted.language, text.as_ref()),
                    false => judge_text(rules, wanted.language, text.as_ref()),
                };
                whole.scripts.push(text);
                judged
            }
            Found::Program => continue,
            // What the command itself makes is a program like any other that it builds.
            Found::Missing if wanted.language.is_none() => continue,
            Found::Missing if snapshots.spares_missing(&wanted.path) => continue,
            Found::Unreadable if snapshots.spares(&wanted.path) => continue,
            // If it is still not there, the interpreter says so.
            Found::Missing | Found::Unreadable if !rules.ask_about_unclear() => continue,
            Found::Missing | Found::Unreadable => unclear("is a script that cannot be read here"),
        };
        let mut judged = judged.settled(&mut lost);
        waiting.extend(judged.scripts.drain(..).map(|wanted| (wanted, depth + 1)));
        if judged.verdict > whole.judgement.verdict {
            let scripts = std::mem::take(&mut whole.judgement.scripts);
            // A place in another file is none in this one.
            whole.judgement = Judgement { span: None, scripts, ..judged };
            whole.from = Some(wanted.path);
        }
    }
    whole
}

/// Whether this is a snapshot of the user's shell, which agents read before each command: functions, aliases and options. They call programs
/// of the agent's by variables, so that what is unclear in them says nothing about the command; what is known to be destructive does.
fn is_snapshot(path: &[u8]) -> bool {
    if !path.starts_with(b"/") && !path.starts_with(b"~/") {
        return false;
    }
    let mut names = path.rsplit(|byte| *byte == b'/');
    let (name, directory, above) = (
        names.next().unwrap_or_default(),
        names.next().unwrap_or_default(),
        names.next().unwrap_or_default(),
    );
    let of_agent = match (above, directory) {
        (b".claude", b"shell-snapshots") => name.starts_with(b"snapshot-"),
        (b".codex", b"shell_snapshots") => true,
        _ => name.starts_with(b"hermes-snap-"),
    };
    of_agent && name.ends_with(b".sh")
}

/// Judges a file by what its first line and its name say it is.
fn judge_text(rules: &Rules, language: Option<Language>, text: &[u8]) -> Judgement {
    let (language, second) = match (language, first_line(text)) {
        (_, FirstLine::Unknown) => {
            let what = "is written in a language that is not read";
            return if rules.ask_about_unclear() { unclear(what) } else { harmless() };
        }
        (Some(named), FirstLine::Says(said)) if said != named => (named, Some(said)),
        (Some(one), _) | (None, FirstLine::Says(one)) => (one, None),
        // The kernel leaves such a file to the shell.
        (None, FirstLine::Nothing) => (Language::Shell, None),
    };
    let judged = crate::judge(rules, language, text);
    match second.map(|language| crate::judge(rules, language, text)) {
        Some(other) if other.verdict > judged.verdict => other,
        _ => judged,
    }
}

enum FirstLine {
    Nothing,
    Says(Language),
    Unknown,
}

/// Which interpreter `#!` names.
fn first_line(text: &[u8]) -> FirstLine {
    let Some(rest) = text.strip_prefix(b"#!") else { return FirstLine::Nothing };
    let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_whitespace().map(|word| word.rsplit('/').next().unwrap_or(word));
    let mut program = words.next().unwrap_or_default();
    if program == "env" {
        program = words.find(|word| !word.starts_with('-') && !word.contains('=')).unwrap_or_default();
    }
    let name = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    match name {
        "sh" | "bash" | "dash" | "zsh" | "ksh" | "ash" => FirstLine::Says(Language::Shell),
        "python" | "pypy" => FirstLine::Says(Language::Python),
        "node" | "nodejs" | "bun" | "deno" => FirstLine::Says(Language::JavaScript),
        _ => FirstLine::Unknown,
    }
}

/// Where what cannot be read can do no harm.
fn harmless() -> Judgement {
    let reason = "nothing in it reaches past the cage".into();
    Judgement { verdict: Verdict::Allow, rule: None, class: None, reason, ..unclear("") }
}

fn unclear(what: &str) -> Judgement {
    Judgement {
        verdict: Verdict::Ask,
        rule: Some("script".into()),
        class: Some("unclear".into()),
        span: None,
        reason: format!("it {what}"),
        scripts: Vec::new(),
        losses: Vec::new(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{Rules, judge_argv};
    use std::collections::HashMap;

    fn whole(command: &[&str], files: &[(&str, &str)]) -> Whole {
        let files: HashMap<&[u8], &str> = files.iter().map(|(name, text)| (name.as_bytes(), *text)).collect();
        let rules = Rules::builtin();
        let own = judge_argv(&rules, command);
        with_scripts(
            &rules,
            own,
            Snapshots::NONE,
            |path| match files.get(path) {
                Some(&"?") => Found::Unreadable,
                Some(text) if text.starts_with('\x7f') => Found::Program,
                Some(text) => Found::Text(text.as_bytes().to_vec()),
                None => Found::Missing,
            },
            |_| Lost::Work,
        )
    }

    #[test]
    fn the_strictest_of_a_command_and_its_scripts_decides_and_says_where() {
        let files = [
            ("a.sh", "echo 1; ./b.py"),
            ("./b.py", "#!/usr/bin/env python3\nimport shutil\nshutil.rmtree('/')"),
        ];
        let found = whole(&["sh", "a.sh"], &files);
        assert_eq!(found.judgement.verdict, Verdict::Forbid, "{found:?}");
        assert_eq!((found.from.as_deref(), found.scripts.len()), (Some(&b"./b.py"[..]), 2));
        assert_eq!(found.judgement.span, None);
        assert_eq!(whole(&["sh", "a.sh"], &[("a.sh", "echo 1")]).judgement.verdict, Verdict::Allow);
    }

    #[test]
    fn what_cannot_be_read_is_asked_about_and_what_is_built_is_not() {
        assert_eq!(whole(&["sh", "a.sh"], &[]).judgement.verdict, Verdict::Ask);
        assert_eq!(whole(&["sh", "a.sh"], &[("a.sh", "?")]).judgement.verdict, Verdict::Ask);
        assert_eq!(whole(&["./tool"], &[("./tool", "?")]).judgement.verdict, Verdict::Ask);
        assert_eq!(whole(&["./tool"], &[("./tool", "#!/usr/bin/perl\n1")]).judgement.verdict, Verdict::Ask);
        assert_eq!(whole(&["sh", "-c", "make && ./a.out"], &[]).judgement.verdict, Verdict::Allow);
        assert_eq!(whole(&["./tool"], &[("./tool", "\x7fELF rm -rf /")]).judgement.verdict, Verdict::Allow);
        assert_eq!(whole(&["./tool"], &[("./tool", "rm -rf /")]).judgement.verdict, Verdict::Forbid);
    }

    #[test]
    fn a_name_does_not_hide_what_the_first_line_says() {
        let lies = [("./a.py", "#!/bin/sh\nrm -rf /")];
        assert_eq!(whole(&["./a.py"], &lies).judgement.verdict, Verdict::Forbid);
    }

    #[test]
    fn many_scripts_are_no_longer_than_one_may_be() {
        let half = format!("# {}", "x".repeat(LARGEST / 2 - 10));
        let four = [("a.sh", half.as_str()), ("b.sh", &half), ("c.sh", &half), ("d.sh", &half)];
        let of = |command: &str| whole(&["sh", "-c", command], &four);
        assert_eq!(of("sh a.sh; sh b.sh").judgement.verdict, Verdict::Allow);
        let found = of("sh a.sh; sh b.sh; sh c.sh; sh d.sh");
        assert_eq!(found.judgement.verdict, Verdict::Ask, "{:?}", found.judgement);
        // The one that was too much is there to be shown; the next is not read.
        assert_eq!(found.scripts.len(), 3);
    }

    #[test]
    fn scripts_that_start_each_other_come_to_an_end() {
        let circle = [("a.sh", "sh b.sh"), ("b.sh", "sh a.sh")];
        assert_eq!(whole(&["sh", "a.sh"], &circle).scripts.len(), 2);
        let long: Vec<(String, String)> =
            (0..20).map(|n| (format!("{n}.sh"), format!("sh {}.sh", n + 1))).collect();
        let long: Vec<(&str, &str)> =
            long.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        assert_eq!(whole(&["sh", "0.sh"], &long).judgement.verdict, Verdict::Ask);
    }
}
