//! What git would take away by the words behind `checkout`, `restore` and `clean`.
//!
//! A word may be a branch or a file, and only the repository tells which. Where its state is known, that decides; elsewhere the shape of
//! the words does.

use super::{Call, Hit, Parts, fit};
use crate::findings::Findings;
use crate::rules::tables::{List, Rule, is_option};
use crate::text::{Field, Match, UNKNOWN};
use crate::verdict::{Loss, WrittenOver};

/// What git writes over.
enum Over {
    /// It only switches to another branch, and refuses that if it would lose something.
    Nothing,
    Lost(Loss),
    /// The same in a repository that is named, of which nothing is known: the words count as well.
    Elsewhere(Loss),
    /// It cannot be told.
    Unknown,
}

/// How a rule about git's checkouts fits.
pub(super) fn hits(
    findings: &Findings<'_>,
    number: usize,
    call: &Call<'_>,
    parts: &Parts<'_>,
    found: &mut Vec<Hit>,
) {
    let (tables, mut span) = (findings.tables, call.span);
    let rule = &tables.rules[number];
    let fits = fit(tables, &Rule { args: List::default(), ..*rule }, call, parts, &mut span);
    if fits == Match::No {
        return;
    }
    let over = written_over(call, parts);
    let is_elsewhere = matches!(over, Over::Elsewhere(_));
    let loss = match over {
        Over::Nothing => return,
        Over::Lost(_) if findings.submodules > 0 => Some(Loss::Submodules),
        Over::Lost(loss) | Over::Elsewhere(loss) => Some(loss),
        Over::Unknown => None,
    };
    let loss = loss.filter(|_| findings.knows_work(rule));
    let is_known = || words(parts).iter().all(|word| word.is_known());
    let is_clear = loss.is_some() && findings.submodules == 0 && !is_elsewhere && is_known();
    if !is_clear || findings.asks_for_all() {
        let by_shape = fit(tables, rule, call, parts, &mut span);
        let loss = loss.clone().filter(|_| findings.submodules > 0);
        if by_shape != Match::No {
            found.push(Hit { rule: number, certainty: by_shape, span, loss });
        }
    }
    if fits == Match::Yes && loss.is_some() && findings.submodules == 0 {
        found.push(Hit { rule: number, certainty: fits, span: call.span, loss });
    }
}

/// The words behind the name of git's command.
fn words<'p, 'a>(parts: &'p Parts<'a>) -> &'p [&'a Field] {
    parts.words.get(1..).unwrap_or_default()
}

fn has(parts: &Parts<'_>, names: &[&[u8]]) -> bool {
    parts.options.iter().any(|option| {
        names.iter().any(|name| match option.long {
            true => name.len() > 1 && is_option(name, option.name),
            false => *name == option.name,
        })
    })
}

fn written_over(call: &Call<'_>, parts: &Parts<'_>) -> Over {
    let is_restore = parts.words.first().is_some_and(|word| word.text == b"restore");
    if !is_restore && has(parts, &[b"b", b"B", b"orphan", b"d", b"detach", b"t", b"track"]) {
        return Over::Nothing;
    }
    let behind = call.args.iter().position(|arg| arg.text == b"--");
    // Then all that was changed is lost, which is another rule's.
    if !is_restore && behind.is_none() && has(parts, &[b"f", b"force"]) {
        return Over::Nothing;
    }
    let Some(Led { below, is_named }) = led(call) else { return Over::Unknown };
    let seen = |path: &[u8]| match (below.as_slice(), path) {
        (b"", _) | (_, [b'/' | b'~', ..]) => call.standing.seen_from_start(path),
        (below, b".") => call.standing.seen_from_start(below),
        (below, _) => call.standing.seen_from_start(&[below, b"/", path].concat()),
    };
    // Another repository is not looked at: what stands at the paths decides.
    let directory = if is_named { b"/".to_vec() } else { seen(b".") };
    if directory.contains(&UNKNOWN) {
        return Over::Unknown;
    }
    if is_named && has(parts, &[b"p", b"patch", b"pathspec-from-file"]) {
        return Over::Unknown;
    }
    if has(parts, &[b"p", b"patch", b"pathspec-from-file"]) {
        return Over::Lost(Loss::Changes(directory));
    }
    let words = words(parts);
    let behind = behind.map(|at| words.len().saturating_sub(call.args.len() - at - 1));
    let (commit, first, paths) = match (is_restore, behind) {
        (true, _) if has(parts, &[b"s", b"source"]) => (Some(UNKNOWN_COMMIT.to_vec()), None, words),
        (true, _) if has(parts, &[b"S", b"staged"]) => (Some(b"HEAD".to_vec()), None, words),
        (true, _) => (None, None, words),
        (false, Some(at)) => (words[..at].last().map(|word| word.text.to_vec()), None, &words[at..]),
        (false, None) => (None, words.first().map(|word| word.text.to_vec()), words),
    };
    let known = || paths.iter().filter(|word| word.is_known()).map(|word| word.text.as_slice());
    if known().any(is_magic) {
        return Over::Lost(Loss::Changes(directory));
    }
    let paths: Vec<Vec<u8>> = known().map(seen).collect();
    if paths.is_empty() {
        return if words.iter().all(|word| word.is_known()) { Over::Nothing } else { Over::Unknown };
    }
    let loss = Loss::WrittenOver(WrittenOver { directory, commit, first, paths });
    if is_named { Over::Elsewhere(loss) } else { Over::Lost(loss) }
}

/// A commit of which only is known that it need not be the last one.
const UNKNOWN_COMMIT: &[u8] = b"?";

/// Whether git reads a path in a way of its own: `:/`, `:!x`, `:(top)`.
fn is_magic(path: &[u8]) -> bool {
    path.starts_with(b":")
}

/// Where options before git's command lead it.
struct Led {
    /// The directory below the one it stands in (`-C`); empty where that is the same.
    below: Vec<u8>,
    /// Whether a repository or a working tree is named that need not be the one of that directory.
    is_named: bool,
}

/// None where an option leads to a place that is not known, or out of the directory that it stands in.
fn led(call: &Call<'_>) -> Option<Led> {
    let mut args = call.args.iter();
    let mut led = Led { below: Vec::new(), is_named: false };
    while let Some(arg) = args.next().filter(|arg| !arg.is_known() || arg.text.starts_with(b"-")) {
        if !arg.is_known() {
            return None;
        }
        let equals = arg.text.iter().position(|&byte| byte == b'=');
        let name = &arg.text[..equals.unwrap_or(arg.text.len())];
        let own: &[&[u8]] = match name {
            b"-C" | b"-c" => &[],
            b"--git-dir" => &[b".git", b"./.git", b".git/"],
            b"--work-tree" => &[b".", b"./"],
            _ => continue,
        };
        let value = match equals {
            Some(at) if name.starts_with(b"--") => &arg.text[at + 1..],
            _ => args.next().filter(|value| value.is_known())?.text.as_slice(),
        };
        match name {
            b"-c" => {}
            b"-C" => {
                let leaves = matches!(value.first(), None | Some(b'/' | b'~'))
                    || value.split(|&byte| byte == b'/').any(|part| part == b"..");
                if leaves {
                    return None;
                }
                led.below = match led.below.as_slice() {
                    b"" => value.to_vec(),
                    below => [below, b"/", value].concat(),
                };
            }
            _ => led.is_named |= !own.contains(&value),
        }
    }
    Some(led)
}

/// What `git clean` deletes, in the repository of this directory.
pub(super) fn cleaned(directory: Vec<u8>, call: &Call<'_>, parts: &Parts<'_>) -> Loss {
    let words = words(parts);
    let is_clear = |word: &&Field| word.is_known() && !is_magic(&word.text);
    // Behind `-e` stands a pattern of what stays.
    if words.is_empty() || !words.iter().all(is_clear) || has(parts, &[b"e", b"exclude"]) {
        return Loss::Untracked(directory);
    }
    let paths = words.iter().map(|word| call.standing.seen_from_start(&word.text)).collect();
    Loss::UntrackedAt { directory, paths, added: false }
}
