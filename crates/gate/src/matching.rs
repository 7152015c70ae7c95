//! Whether a rule fits a call: a program, or a function of a language, with its arguments.

mod checkout;

use crate::findings::Findings;
use crate::paths::{CREDENTIAL, ELSEWHERE, HERE, Places, Seen, Standing, TEMPORARY, look};
use crate::quick::{QuickMap, QuickSet};
use crate::rules::Counts;
use crate::rules::kinds::Needs;
use crate::rules::tables::{Entry, List, Program, Rule, Tables, is_option};
use crate::sight::Sight;
use crate::text::{Bytes, Field, Match, Taint, UNKNOWN, fits};
use crate::verdict::{Loss, Span};
use std::cell::RefCell;
use std::sync::Arc;

/// A program that would start, once its wrappers are taken off; or a function that would be called.
pub struct Call<'a> {
    pub args: &'a [Field],
    /// Named arguments of a function.
    pub named: &'a [(Vec<u8>, Field)],
    pub writes: &'a [Field],
    pub reads: &'a [Field],
    pub input: Option<&'a [u8]>,
    pub input_taint: Taint,
    pub standing: &'a Standing,
    pub looks: &'a Looks,
    pub span: Span,
}

type Paths = QuickMap<Bytes, Seen>;

/// What paths were found to be. Several rules ask for the same ones, and scripts name them often.
#[derive(Default)]
pub struct Looks {
    /// For each place where the shell stood; the last one is where it stood last.
    known: RefCell<Vec<(Standing, Paths)>>,
    sight: Option<Arc<Sight>>,
}

impl Looks {
    /// So many places, and so many paths of each, are kept in mind.
    const STANDINGS: usize = 8;
    const PATHS: usize = 4096;

    pub fn new(sight: Option<Arc<Sight>>) -> Looks {
        Looks { sight, ..Looks::default() }
    }

    /// A path as it is, unless the cage is known to hide what is in it.
    fn seen(&self, path: &[u8], standing: &Standing) -> Seen {
        let mut seen = look(path, standing);
        // The text of a path does not tell that it is the project's.
        let known = self.sight.as_ref().filter(|_| !path.is_empty() && !path.contains(&UNKNOWN));
        if let Some(own) = known.and_then(|sight| sight.in_project(path, standing)) {
            let own = look(&own, &Standing::Project).is;
            seen.is =
                own.and(seen.is.without(if own.meets(HERE) { TEMPORARY } else { ELSEWHERE.and(TEMPORARY) }));
        }
        let hides = |sight: &Arc<Sight>| !path.contains(&UNKNOWN) && sight.hides(path, standing);
        match seen.is.meets(CREDENTIAL) && self.sight.as_ref().is_some_and(hides) {
            true => Seen { is: seen.is.without(CREDENTIAL), ..seen },
            false => seen,
        }
    }

    /// Whether the user has shown a secret file by its name.
    fn shows(&self, path: &[u8], standing: &Standing) -> bool {
        self.sight.as_ref().is_some_and(|sight| !path.contains(&UNKNOWN) && sight.shows(path, standing))
    }

    /// What a path is to a command that writes there.
    fn into(&self, path: &[u8], standing: &Standing) -> Seen {
        let seen = self.look(path, standing);
        // To put something there is what the folder is for; to delete it is not.
        if seen.is.meets(TEMPORARY) {
            return Seen { is: TEMPORARY, ..seen };
        }
        let granted = self.sight.as_ref().filter(|_| !path.contains(&UNKNOWN));
        match granted.and_then(|sight| sight.granted(path, standing)) {
            Some(grant) => seen.granted(look(grant.as_os_str().as_encoded_bytes(), &Standing::Project).is),
            None => seen,
        }
    }

    pub fn look(&self, path: &[u8], standing: &Standing) -> Seen {
        let mut known = self.known.borrow_mut();
        match known.iter().rposition(|(at, _)| at == standing) {
            Some(at) if at + 1 < known.len() => known[at..].rotate_left(1),
            Some(_) => {}
            None => {
                if known.len() == Looks::STANDINGS {
                    known.remove(0);
                }
                known.push((standing.clone(), Paths::default()));
            }
        }
        let Some((_, paths)) = known.last_mut() else { return self.seen(path, standing) };
        if let Some(seen) = paths.get(path) {
            return *seen;
        }
        let seen = self.seen(path, standing);
        if paths.len() >= Looks::PATHS {
            paths.clear();
        }
        paths.insert(path.into(), seen);
        seen
    }
}

/// Calls that the rules were asked about: what a loop or a function repeats word for word has been answered.
#[derive(Default)]
pub struct Asked {
    known: RefCell<QuickSet<Vec<u8>>>,
    key: RefCell<Vec<u8>>,
}

impl Asked {
    /// So many calls, and none that is longer, are kept in mind.
    const CALLS: usize = 4096;
    const LONGEST: usize = 512;

    /// Whether the same was asked before, in the same circumstances.
    pub fn again(&self, findings: &Findings<'_>, entry: Option<&Entry>, call: &Call<'_>) -> bool {
        let mut key = self.key.borrow_mut();
        key.clear();
        // Names without an entry share the rules for all.
        let [a, b, c, d] = entry.map_or(0, |entry| entry.name.0).to_le_bytes();
        let runs = u8::from(findings.containers > 0) | u8::from(findings.remotes > 0) << 1;
        key.extend_from_slice(&[a, b, c, d, runs, call.input_taint.0]);
        // Each part begins with a byte that says what it is, and no length is more than two bytes.
        let mut add = |head: [u8; 2], text: &[u8]| {
            let fits = key.len() + text.len() <= Asked::LONGEST;
            if fits {
                let [low, high] = (text.len() as u16).to_le_bytes();
                key.extend_from_slice(&[head[0], head[1], low, high]);
                key.extend_from_slice(text);
            }
            fits
        };
        let standing = match call.standing {
            Standing::Project => true,
            Standing::In(folder) => add([1, 0], folder),
        };
        let mut fields = [call.args, call.writes, call.reads].into_iter().zip(2..);
        let known = standing
            && fields.all(|(fields, kind)| {
                fields
                    .iter()
                    .all(|field| add([kind, u8::from(field.splits) << 7 | field.taint.0], &field.text))
            })
            && call.input.is_none_or(|input| add([5, 0], input));
        if !known {
            return false;
        }
        let mut known = self.known.borrow_mut();
        if known.contains(key.as_slice()) {
            return true;
        }
        if known.len() < Asked::CALLS {
            known.insert(key.clone());
        }
        false
    }
}

/// An option of a call.
struct Opt<'a> {
    name: &'a [u8],
    /// Written with two dashes, so that a beginning of its name is enough.
    long: bool,
    value: Option<(&'a [u8], &'a Field)>,
}

/// The arguments, told apart.
pub struct Parts<'a> {
    options: Vec<Opt<'a>>,
    words: Vec<&'a Field>,
    /// Somewhere an unknown text may be an option.
    loose: bool,
}

/// A rule that fits, and where.
pub struct Hit {
    pub rule: usize,
    pub certainty: Match,
    pub span: Span,
    /// The work that would be lost, for rules about that; nothing where it cannot be told.
    pub loss: Option<Loss>,
}

/// All rules that fit a call of what is known by this entry.
pub fn hits(
    findings: &Findings<'_>,
    entry: Option<&Entry>,
    is_shell: bool,
    call: &Call<'_>,
    found: &mut Vec<Hit>,
) {
    let tables = findings.tables;
    let (for_program, spared) =
        entry.map_or((&[][..], &[][..]), |entry| (tables.numbers(entry.rules), tables.numbers(entry.spared)));
    let for_all = if is_shell { tables.numbers(tables.for_all) } else { &[] };
    if for_program.is_empty() && for_all.is_empty() {
        return;
    }
    let default = Program::default();
    let program = entry.and_then(|entry| tables.program(entry)).unwrap_or(&default);
    let parts = split(tables, program, call);
    for number in for_program.iter().chain(for_all.iter().filter(|number| !spared.contains(number))) {
        let number = usize::from(*number);
        let rule = &tables.rules[number];
        match findings.counts(rule) {
            Counts::Never => continue,
            Counts::Outside if stays_in_project(call) => continue,
            Counts::Outside | Counts::Always => {}
        }
        if rule.needs == Needs::Checkout {
            checkout::hits(findings, number, call, &parts, found);
            continue;
        }
        let mut span = call.span;
        let certainty = fit(tables, rule, call, &parts, &mut span);
        if certainty == Match::Yes || certainty == Match::Maybe && !rule.seen_only {
            // What is not certain is not weighed.
            let is_weighed =
                certainty == Match::Yes || !matches!(rule.needs, Needs::Content | Needs::Worktree);
            let loss = loss_of(rule, call, &parts).filter(|_| is_weighed);
            found.push(Hit { rule: number, certainty, span, loss });
        }
    }
}

/// What would be lost, by a rule about that.
fn loss_of(rule: &Rule, call: &Call<'_>, parts: &Parts<'_>) -> Option<Loss> {
    let paths = || Some(paths_of(rule, call, parts)).filter(|paths| !paths.is_empty());
    match rule.needs {
        Needs::Work => paths().map(Loss::Paths),
        Needs::Matched => {
            let is_pattern = |path: &Vec<u8>| path.iter().any(|byte| b"*?[".contains(byte));
            let patterns: Vec<Vec<u8>> = paths()?.into_iter().filter(is_pattern).collect();
            (!patterns.is_empty()).then_some(Loss::Matched(patterns))
        }
        Needs::Moved => {
            let to = destination(rule, parts).filter(|to| to.is_known())?;
            Some(Loss::Moved { paths: paths()?, to: call.standing.seen_from_start(&to.text) })
        }
        Needs::Tracked => repository_of(call).and_then(|_| paths()).map(Loss::ChangesAt),
        Needs::Changes => repository_of(call).map(Loss::Changes),
        Needs::Unstaged => repository_of(call).map(Loss::Unstaged),
        Needs::Content => content_of(call, parts).map(Loss::Content),
        Needs::Worktree => {
            let path = parts.words.get(usize::from(rule.sub.length)..).unwrap_or_default();
            let [path] = path else { return None };
            let directory = repository_of(call).filter(|_| path.is_known())?;
            Some(Loss::Worktree { directory, path: path.text.to_vec() })
        }
        Needs::Untracked => repository_of(call).map(|directory| checkout::cleaned(directory, call, parts)),
        _ => None,
    }
}

/// The files that a program of databases may open: all of its words. None where its text opens others.
fn content_of(call: &Call<'_>, parts: &Parts<'_>) -> Option<Vec<Vec<u8>>> {
    const OPENS: [&[u8]; 6] = [b"attach", b".open", b".read", b".restore", b".import", b".archive"];
    let values = parts.options.iter().filter_map(|option| option.value).map(|(text, _)| text);
    let words = parts.words.iter().map(|word| word.text.as_slice());
    let opens = |text: &[u8]| {
        let text = text.to_ascii_lowercase();
        text.contains(&UNKNOWN) || OPENS.iter().any(|open| text.windows(open.len()).any(|part| part == *open))
    };
    let texts = call.args.iter().map(|arg| arg.text.as_slice()).chain(call.input);
    let is_clear = !parts.words.is_empty() && !texts.into_iter().any(opens);
    is_clear.then(|| values.chain(words).map(|path| call.standing.seen_from_start(path)).collect())
}

/// The words that are for certain what the rule is about, seen from where the command starts.
fn paths_of(rule: &Rule, call: &Call<'_>, parts: &Parts<'_>) -> Vec<Vec<u8>> {
    let paths = about(rule, parts).iter().map(|word| word.text.as_slice());
    paths
        .filter(|path| call.looks.look(path_in(path), call.standing).is.meets(rule.places))
        .map(|path| call.standing.seen_from_start(path))
        .collect()
}

/// The words that a rule looks at for places.
fn about<'p, 'a>(rule: &Rule, parts: &'p Parts<'a>) -> &'p [&'a Field] {
    let words = parts.words.get(usize::from(rule.sub.length)..).unwrap_or_default();
    match words {
        [_, ..] if rule.last => &words[words.len() - 1..],
        [sources @ .., _] if rule.sources && target_option(parts).is_none() => sources,
        words => words,
    }
}

/// Where what is moved goes: behind `-t`, or the last word.
fn destination<'a>(rule: &Rule, parts: &Parts<'a>) -> Option<Field> {
    let named = target_option(parts).map(|(text, field)| Field { text: text.into(), ..field.clone() });
    let words = parts.words.get(usize::from(rule.sub.length)..).unwrap_or_default();
    named.or_else(|| words.last().filter(|_| words.len() > 1).map(|word| (*word).clone()))
}

fn target_option<'a>(parts: &Parts<'a>) -> Option<(&'a [u8], &'a Field)> {
    let is =
        |option: &&Opt<'_>| option.name == b"t" || option.long && is_option(b"target-directory", option.name);
    parts.options.iter().find(is).and_then(|option| option.value)
}

/// The directory in which git looks for its repository; none where an option names another one.
fn repository_of(call: &Call<'_>) -> Option<Vec<u8>> {
    const ELSEWHERE: [&[u8]; 3] = [b"-C", b"--git-dir", b"--work-tree"];
    let leads = |arg: &Field| ELSEWHERE.iter().any(|option| arg.text.starts_with(option));
    (!call.args.iter().any(leads)).then(|| call.standing.seen_from_start(b"."))
}

/// Whether nothing in a call leads out of the project, as far as can be seen.
fn stays_in_project(call: &Call<'_>) -> bool {
    let stays = |path: &[u8]| {
        let value = path.iter().position(|byte| *byte == b'=').map_or(path, |at| &path[at + 1..]);
        let seen = call.looks.look(path_in(value), call.standing);
        !seen.is.and(seen.may_be).meets(crate::paths::ELSEWHERE)
    };
    stays(b".") && call.args.iter().all(|arg| stays(&arg.text))
}

fn split<'a>(tables: &Tables, program: &Program, call: &'a Call<'a>) -> Parts<'a> {
    let mut parts = Parts { options: Vec::new(), words: Vec::new(), loose: false };
    let takes_value = |name: &[u8]| tables.has(program.values, name);
    // Without an option behind them, unknown words may be options as well.
    let mut paths_left = if program.paths_first { paths_end(call.args).unwrap_or(0) } else { 0 };
    let mut args = call.args.iter();
    while let Some(arg) = args.next() {
        let text = arg.text.as_slice();
        parts.loose |= arg.may_be_option() && paths_left == 0;
        paths_left = paths_left.saturating_sub(1);
        if text == b"--" {
            parts.words.extend(args);
            break;
        }
        if let Some(long) =
            text.strip_prefix(b"--").or_else(|| text.strip_prefix(b"-").filter(|_| program.single_dash))
        {
            let equals = long.iter().position(|byte| *byte == b'=');
            let (name, value) = match equals {
                Some(at) => (&long[..at], Some((&long[at + 1..], arg))),
                None if takes_value(long) => (long, args.next().map(|next| (next.text.as_slice(), next))),
                None => (long, None),
            };
            parts.options.push(Opt { name, long: text.starts_with(b"--"), value });
        } else if text.len() > 1 && text[0] == b'-' {
            for at in 1..text.len() {
                let name = &text[at..=at];
                if takes_value(name) {
                    let rest = &text[at + 1..];
                    let mut next = || args.next().map(|next| (next.text.as_slice(), next));
                    let value = if rest.is_empty() { next() } else { Some((rest, arg)) };
                    parts.options.push(Opt { name, long: false, value });
                    break;
                }
                parts.options.push(Opt { name, long: false, value: None });
            }
        } else if let Some(at) = text.iter().position(|byte| *byte == b'=').filter(|_| program.operands) {
            parts.options.push(Opt { name: &text[..at], long: false, value: Some((&text[at + 1..], arg)) });
        } else {
            parts.words.push(arg);
        }
    }
    for (name, value) in call.named {
        parts.options.push(Opt { name, long: false, value: Some((value.text.as_slice(), value)) });
    }
    parts
}

/// Where the paths of a program end that takes its options behind them. A few letters may stand before.
fn paths_end(args: &[Field]) -> Option<usize> {
    let ends =
        |arg: &Field| matches!(arg.text.as_slice(), [b'-', rest @ ..] if !matches!(rest, b"L" | b"H" | b"P"));
    args.iter().position(ends)
}

fn fit(tables: &Tables, rule: &Rule, call: &Call<'_>, parts: &Parts<'_>, span: &mut Span) -> Match {
    let mut least = Match::Yes;
    macro_rules! need {
        ($result:expr) => {
            match $result {
                Match::No => return Match::No,
                other => least = least.min(other),
            }
        };
    }
    for (at, alternatives) in tables.texts(rule.sub).enumerate() {
        need!(word_at(parts, at, alternatives));
    }
    if !rule.any.is_empty() {
        need!(any_of(parts.words.iter().copied(), tables, rule.any, span));
    }
    for alternatives in tables.texts(rule.flags) {
        need!(flag(parts, alternatives));
    }
    for alternatives in tables.texts(rule.no_flags) {
        need!(not(flag(parts, alternatives)));
    }
    if !rule.args.is_empty() {
        need!(any_of(call.args.iter(), tables, rule.args, span));
    }
    if !rule.no_args.is_empty() {
        let mut ignored = *span;
        need!(not(any_of(call.args.iter(), tables, rule.no_args, &mut ignored)));
    }
    if !rule.words.is_empty() {
        need!(some_words(call, tables, rule.words));
    }
    if !rule.no_words.is_empty() {
        need!(not(some_words(call, tables, rule.no_words)));
    }
    if rule.bare {
        need!(Match::from(parts.words.len() <= usize::from(rule.sub.length)));
    }
    // What the user has shown may be read; to send it away is another matter.
    let reads = tables.text(rule.class) == "credentials";
    if !rule.places.is_empty() && rule.options.is_empty() {
        let words = about(rule, parts);
        // Only a path that is not a lone option's value is known to be one; an option that is a path counts too.
        need!(some_place(
            words.iter().map(|word| (word.text.as_slice(), *word)),
            call,
            rule.places,
            rule.within,
            rule.last,
            reads,
            span
        ));
    } else if !rule.places.is_empty() {
        need!(some_place(
            values(parts, tables, rule.options),
            call,
            rule.places,
            rule.within,
            true,
            reads,
            span
        ));
    }
    if !rule.writes.is_empty() {
        let targets = call.writes.iter().map(|field| (field.text.as_slice(), field));
        need!(some_place(targets, call, rule.writes, rule.within, true, reads, span));
    }
    if !rule.reads.is_empty() {
        let targets = call.reads.iter().map(|field| (field.text.as_slice(), field));
        need!(some_place(targets, call, rule.reads, rule.within, false, reads, span));
    }
    if rule.taint != Taint::NONE {
        let by_value = values(parts, tables, rule.options).find(|(_, field)| field.taint.has(rule.taint));
        let by_word = parts.words.iter().find(|word| word.taint.has(rule.taint));
        match by_value.map(|(_, field)| field).or(by_word.copied()) {
            Some(field) => *span = field.span,
            None => need!(Match::from(call.input_taint.has(rule.taint))),
        }
    }
    least
}

fn not(result: Match) -> Match {
    match result {
        Match::Yes => Match::No,
        // What may be there may also be missing.
        Match::Maybe | Match::No => Match::Yes,
    }
}

fn word_at(parts: &Parts<'_>, at: usize, alternatives: &str) -> Match {
    // An unknown word that may be several moves all that follow.
    let shifted = parts.words.iter().take(at + 1).any(|word| word.splits && word.text.contains(&UNKNOWN));
    if shifted {
        return Match::Maybe;
    }
    let Some(word) = parts.words.get(at) else { return Match::No };
    alternatives.split('|').map(|wanted| fits(wanted.as_bytes(), &word.text)).max().unwrap_or(Match::No)
}

fn any_of<'a>(
    fields: impl Iterator<Item = &'a Field>,
    tables: &Tables,
    patterns: List,
    span: &mut Span,
) -> Match {
    let mut best = Match::No;
    for (at, field) in fields.enumerate() {
        // A quoted text of which nothing is known is data, unless it stands where the command is named.
        if at > 0 && !field.splits && field.text == [UNKNOWN] {
            continue;
        }
        for pattern in tables.texts(patterns) {
            let mut result = fits(pattern.as_bytes(), &field.text);
            if result == Match::Maybe && pattern.starts_with('*') {
                // Whatever is unknown could end or hold it; that says nothing.
                result = Match::No;
            }
            if result > best {
                best = result;
                *span = field.span;
            }
        }
    }
    best
}

fn flag(parts: &Parts<'_>, alternatives: &str) -> Match {
    let mut best = Match::No;
    for flag in alternatives.split('|') {
        let (name, wanted) = flag.split_once('=').map_or((flag, None), |(name, value)| (name, Some(value)));
        for option in &parts.options {
            // An option may be shortened as long as it is clear; `--forc` is `--force`.
            let shortened = option.long && is_option(name.as_bytes(), option.name);
            let result = if option.name == name.as_bytes() || shortened {
                match (wanted, option.value) {
                    (None, _) => Match::Yes,
                    (Some(wanted), Some((value, _))) => fits(wanted.as_bytes(), value),
                    (Some(_), None) => Match::No,
                }
            } else if option.name.contains(&UNKNOWN) {
                fits(name.as_bytes(), option.name)
            } else {
                Match::No
            };
            best = best.max(result);
        }
    }
    if best == Match::No && parts.loose { Match::Maybe } else { best }
}

/// The values of some options.
fn values<'a>(
    parts: &'a Parts<'a>,
    tables: &'a Tables,
    names: List,
) -> impl Iterator<Item = (&'a [u8], &'a Field)> {
    // `*` stands for whatever there is.
    let all = tables.has(names, b"*");
    let named = move |option: &&Opt<'_>| match option.long {
        _ if all => true,
        true => tables.has_option(names, option.name),
        false => tables.has(names, option.name),
    };
    let words = parts.words.iter().filter(move |_| all).map(|word| (word.text.as_slice(), *word));
    parts.options.iter().filter(named).filter_map(|option| option.value).chain(words)
}

fn some_place<'a>(
    paths: impl Iterator<Item = (&'a [u8], &'a Field)>,
    call: &Call<'_>,
    wanted: Places,
    within: Places,
    into: bool,
    reads: bool,
    span: &mut Span,
) -> Match {
    let mut best = Match::No;
    for (text, field) in paths {
        let mut seen = match into {
            true => call.looks.into(path_in(text), call.standing),
            false => call.looks.look(path_in(text), call.standing),
        };
        if reads && seen.is.meets(CREDENTIAL) && call.looks.shows(path_in(text), call.standing) {
            seen.is = seen.is.without(CREDENTIAL);
        }
        let also = |places: Places| within.is_empty() || places.meets(within);
        let result = if seen.is.meets(wanted) && also(seen.is) {
            Match::Yes
        } else if seen.may_be.meets(wanted) && also(seen.is.and(seen.may_be)) {
            Match::Maybe
        } else {
            Match::No
        };
        if result > best {
            best = result;
            *span = field.span;
        }
    }
    best
}

/// The path in `@path`, `name=@path` and `user@host:path`.
fn path_in(text: &[u8]) -> &[u8] {
    match text.iter().position(|byte| *byte == b'@') {
        Some(0) => &text[1..],
        Some(at) if text[at - 1] == b'=' => &text[at + 1..],
        _ => text,
    }
}

/// Whether one of the sequences stands in an argument or in the input.
fn some_words(call: &Call<'_>, tables: &Tables, sequences: List) -> Match {
    let named = call.named.iter().map(|(_, field)| field.text.as_slice());
    let texts = call.args.iter().map(|field| field.text.as_slice()).chain(named).chain(call.input);
    let mut best = Match::No;
    for text in texts {
        for sequence in tables.texts(sequences) {
            if has_words(text, sequence) {
                return Match::Yes;
            }
        }
        if text == [UNKNOWN] {
            best = Match::Maybe;
        }
    }
    best
}

/// Whether the words follow each other, with nothing but blanks, signs and comments between them.
fn has_words(text: &[u8], sequence: &str) -> bool {
    let sequence: Vec<&[u8]> = sequence.split(' ').map(str::as_bytes).collect();
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || *byte >= 128;
    let mut wanted = 0;
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with(b"/*") {
            let end = text[at + 2..].windows(2).position(|pair| pair == b"*/");
            at = end.map_or(text.len(), |end| at + end + 4);
            continue;
        }
        if !is_word(&text[at]) {
            at += 1;
            continue;
        }
        let length = text[at..].iter().position(|byte| !is_word(byte)).unwrap_or(text.len() - at);
        let word = &text[at..at + length];
        at += length;
        let is = |number: usize| sequence.get(number).is_some_and(|want| want.eq_ignore_ascii_case(word));
        wanted = if is(wanted) { wanted + 1 } else { usize::from(is(0)) };
        if wanted == sequence.len() {
            return true;
        }
    }
    false
}
