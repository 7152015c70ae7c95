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
    let loss = match written_over(call, parts) {
        Over::Nothing => return,
        Over::Lost(_) if findings.submodules > 0 => Some(Loss::Submodules),
        Over::Lost(loss) => Some(loss),
        Over::Unknown => None,
    };
    let loss = loss.filter(|_| findings.knows_work(rule));
    let is_clear =
        loss.is_some() && findings.submodules == 0 && words(parts).iter().all(|word| word.is_known());
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
    let Some(below) = led_below(call) else { return Over::Unknown };
    let seen = |path: &[u8]| match (below.as_slice(), path) {
        (b"", _) | (_, [b'/' | b'~', ..]) => call.standing.seen_from_start(path),
        (below, b".") => call.standing.seen_from_start(below),
        (below, _) => call.standing.seen_from_start(&[below, b"/", path].concat()),
    };
    let directory = seen(b".");
    if directory.contains(&UNKNOWN) {
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
    Over::Lost(Loss::WrittenOver(WrittenOver { directory, commit, first, paths }))
}

/// A commit of which only is known that it need not be the last one.
const UNKNOWN_COMMIT: &[u8] = b"?";

/// Whether git reads a path in a way of its own: `:/`, `:!x`, `:(top)`.
fn is_magic(path: &[u8]) -> bool {
    path.starts_with(b":")
}

/// The directory below the one it stands in that git goes to first (`-C`). None where an option before its command leads out of that one, to
/// another repository, or to a place that is not known.
fn led_below(call: &Call<'_>) -> Option<Vec<u8>> {
    const REPOSITORY: [&[u8]; 2] = [b"--git-dir", b"--work-tree"];
    let mut args = call.args.iter();
    let mut below = Vec::new();
    while let Some(arg) = args.next().filter(|arg| !arg.is_known() || arg.text.starts_with(b"-")) {
        if !arg.is_known() || REPOSITORY.iter().any(|option| arg.text.starts_with(option)) {
            return None;
        }
        let value = match arg.text.as_slice() {
            b"-C" | b"-c" => args.next()?,
            _ => continue,
        };
        if arg.text == b"-c" {
            continue;
        }
        let leaves = matches!(value.text.first(), None | Some(b'/' | b'~'))
            || value.text.split(|&byte| byte == b'/').any(|part| part == b"..");
        if leaves || !value.is_known() {
            return None;
        }
        below = if below.is_empty() { value.text.to_vec() } else { [&below[..], b"/", &value.text].concat() };
    }
    Some(below)
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
