//! What a command or a script would do, judged by its text before it starts.
//!
//! Pure: no files, no processes, no clock. A shell script is read by a parser of its own, its variables are followed, wrappers are looked
//! through, and every command that it would run is compared with rules; Python and JavaScript are read for the calls that start, delete, send or
//! open something. What cannot be understood is [`Verdict::Ask`], never [`Verdict::Allow`].
//!
//! All of this is a notice. A hostile program can do what no rule knows; what holds against it is the cage.
#![forbid(unsafe_code)]

mod bytes;
mod code;
mod findings;
mod little;
mod matching;
mod paths;
mod quick;
mod reach;
mod rules;
mod scripts;
mod shell;
mod show;
mod sight;
mod text;
mod verdict;

pub use keyward_policy::config::Mistake;
pub use keyward_policy::words::Verdict;
pub use reach::Cage;
pub use rules::Rules;
pub use scripts::{Found, Snapshots, Whole, with_scripts};
pub use show::underlined;
pub use sight::Sight;
pub use verdict::{Judgement, Language, Loss, Lost, ScriptWanted, Span, Weighed, WrittenOver};

use findings::Findings;
use shell::{Stream, Walker};
use text::{Field, Stands};

/// No script is this long; one that is, is not understood.
pub const LARGEST: usize = 4 << 20;
/// How deep commands, substitutions and scripts in scripts may nest, counted together.
const DEEPEST: usize = 64;

/// Judges a script.
pub fn judge(rules: &Rules, language: Language, source: &[u8]) -> Judgement {
    if rules.is_empty() {
        return without_rules();
    }
    look_at(rules, language, source).judgement()
}

/// Judges a program and its arguments, as they would be given to exec: no shell reads them, unless one is among them.
pub fn judge_argv<A: AsRef<[u8]>>(rules: &Rules, argv: &[A]) -> Judgement {
    judge_after(rules, None, argv)
}

/// Judges a line as a person types it: what `bash -c LINE` would do. Places are places in the line.
pub fn judge_typed(rules: &Rules, line: &[u8]) -> Judgement {
    const BEFORE: &[&[u8]] = &[b"bash", b"-c"];
    let offset: usize = BEFORE.iter().map(|word| word.len() + 1).sum();
    let judged = judge_argv(rules, &[BEFORE, &[line]].concat());
    let within = |span: Span| Span::new(span.start.saturating_sub(offset), span.end.saturating_sub(offset));
    let losses = judged.losses.into_iter().map(|loss| Weighed { span: within(loss.span), ..loss }).collect();
    Judgement { span: judged.span.map(within), losses, ..judged }
}

/// What a shell restores before it runs a line.
#[derive(Clone, Copy, Debug)]
pub struct State<'s> {
    /// Definitions, as bash reads them.
    pub text: &'s [u8],
    /// The directory in which the shell starts. Relative paths of the line begin there, unless the state leads elsewhere.
    pub start: &'s [u8],
    /// The line has a directory of its own: the one of the state does not count.
    pub elsewhere: bool,
}

/// Judges a line that bash runs after it has restored a state. `argv` is `bash -c LINE`.
///
/// What the state runs by itself counts. Its functions and aliases count where the line uses them. Without a span, the part that decided
/// stands in the state.
pub fn judge_line<A: AsRef<[u8]>>(rules: &Rules, state: State<'_>, argv: &[A]) -> Judgement {
    let judgement = judge_after(rules, Some(state), argv);
    let span = judgement.span.filter(|span| *span != Span::default());
    Judgement { span, ..judgement }
}

fn judge_after<A: AsRef<[u8]>>(rules: &Rules, state: Option<State<'_>>, argv: &[A]) -> Judgement {
    if rules.is_empty() {
        return without_rules();
    }
    let joined = argv.iter().map(AsRef::as_ref).collect::<Vec<&[u8]>>().join(&b' ');
    let mut walker = Walker::new(Findings::new(rules, &joined), DEEPEST);
    let mut at = 0;
    let mut args = Vec::with_capacity(argv.len());
    for arg in argv {
        let bytes = arg.as_ref();
        args.push(Field::known(bytes, Span::new(at, at + bytes.len())));
        at += bytes.len() + 1;
    }
    let whole = Span::new(0, at.saturating_sub(1));
    if whole.end + state.map_or(0, |state| state.text.len()) > LARGEST {
        walker.findings.fact("too-large", whole);
    } else {
        if let Some(state) = state {
            walker.restore(state);
        }
        // One word with blanks in it is a line that was quoted as a whole.
        let line = match argv {
            [only] if only.as_ref().iter().any(u8::is_ascii_whitespace) => Some(only.as_ref()),
            _ => None,
        };
        walker.start(args, whole);
        if let Some(line) = line {
            walker.script(line, Stands::At(0), Stream::default());
        }
        walker.finish();
    }
    walker.findings.judgement()
}

/// Without rules nothing is known to be harmless.
fn without_rules() -> Judgement {
    Judgement {
        verdict: Verdict::Ask,
        rule: None,
        class: None,
        span: None,
        reason: "there are no rules to judge by".into(),
        scripts: Vec::new(),
        losses: Vec::new(),
    }
}

/// The numbers of all rules that fit for certain.
fn matched_rules(rules: &Rules, language: Language, source: &[u8]) -> Vec<usize> {
    look_at(rules, language, source).matched
}

fn look_at<'r>(rules: &'r Rules, language: Language, source: &'r [u8]) -> Findings<'r> {
    let mut walker = Walker::new(Findings::new(rules, source), DEEPEST);
    if source.len() > LARGEST {
        walker.findings.fact("too-large", Span::new(0, source.len()));
        return walker.findings;
    }
    match language {
        Language::Shell => {
            walker.script(source, Stands::At(0), Stream::default());
        }
        Language::Python | Language::JavaScript => code::judge(&mut walker, language, source, Stands::At(0)),
    }
    walker.finish();
    walker.findings
}
