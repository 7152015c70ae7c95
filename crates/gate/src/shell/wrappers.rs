//! Programs that start another one, as their table says: where the other command begins, and which of their options hold one.

use super::programs::joined;
use super::starts::is_assignment;
use super::walk::{Started, Stream, Walker};
use crate::rules::tables::{Tables, Wrapper};
use crate::text::{Field, Taint, UNKNOWN};
use crate::verdict::{Language, Span};

/// What a wrapper was told to start.
#[derive(Default)]
struct Inside {
    /// Lines for a shell, each of which it starts.
    lines: Vec<Field>,
    command: Vec<Field>,
    /// Variables that it sets for what it starts.
    assigns: Vec<Field>,
    /// A line if it is one word, as terminals take it.
    line_if_alone: bool,
}

enum Told {
    Nothing,
    Starts(Inside),
    /// From here on nobody knows.
    Unclear(Span),
}

impl Walker<'_> {
    pub(super) fn wrapper(&mut self, wrapper: &Wrapper, started: &Started) -> Option<Stream> {
        let inside = match told(self.findings.tables, wrapper, &started.args[1..]) {
            Told::Nothing => return None,
            Told::Unclear(span) => {
                self.findings.fact("unknown-program", span);
                return Some(Stream::unknown(Taint::NONE));
            }
            Told::Starts(inside) => inside,
        };
        for assign in &inside.assigns {
            if let Some(at) = assign.text.iter().position(|byte| *byte == b'=') {
                self.set_for_programs(&assign.text[..at], &assign.text[at + 1..], assign.span);
            }
        }
        let mut output = None;
        self.findings.containers += usize::from(wrapper.container);
        self.findings.remotes += usize::from(wrapper.remote);
        for line in inside.lines {
            output = Some(self.code(Language::Shell, &line.text, line.span, started.input.clone()));
        }
        if let (Some(first), Some(last)) = (inside.command.first(), inside.command.last()) {
            let alone = inside.line_if_alone && inside.command.len() == 1;
            output = Some(if wrapper.shell || alone {
                let span = Span::new(first.span.start, last.span.end);
                self.code(Language::Shell, &joined(&inside.command), span, started.input.clone())
            } else {
                self.inner(inside.command, started)
            });
        }
        self.findings.remotes -= usize::from(wrapper.remote);
        self.findings.containers -= usize::from(wrapper.container);
        output
    }
}

fn told(tables: &Tables, wrapper: &Wrapper, args: &[Field]) -> Told {
    let mut inside = Inside::default();
    let mut skip = usize::from(wrapper.skip);
    let mut wants_sub = !wrapper.sub.is_empty();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let text = arg.text.as_slice();
        // Nor can be told what an image starts that nobody has named.
        let unnamed = wrapper.container && text == [UNKNOWN];
        if (arg.may_be_option() || unnamed) && !wants_sub && skip > 0 {
            // What follows may be options or the program.
            return Told::Unclear(arg.span);
        }
        if text == b"--" {
            if !wants_sub {
                inside.command.extend(args.skip(if wrapper.container { 0 } else { skip }).cloned());
                break;
            }
            continue;
        }
        if text.len() > 1 && (text[0] == b'-' || text[0] == b'+') {
            if tables.has(wrapper.only_asks, text) {
                return Told::Nothing;
            }
            let option = option(tables, wrapper, arg);
            match option.takes {
                Takes::Nothing => {}
                Takes::Value => {
                    args.next();
                }
                Takes::Pair => {
                    args.nth(1);
                }
                Takes::Line => inside.lines.extend(option.value.or_else(|| args.next().cloned())),
                Takes::Command => {
                    inside.command.extend(option.value);
                    inside.command.extend(args.cloned());
                    inside.line_if_alone = true;
                    break;
                }
            }
            continue;
        }
        if !wrapper.shell && is_assignment(text) {
            inside.assigns.push(arg.clone());
            continue;
        }
        if tables.has(wrapper.before, text) {
            continue;
        }
        if wants_sub {
            if !tables.has(wrapper.sub, text) {
                return Told::Nothing;
            }
            wants_sub = false;
            continue;
        }
        if skip > 0 {
            skip -= 1;
            continue;
        }
        if wrapper.each {
            inside.lines.push(arg.clone());
        } else if wrapper.after.is_empty() {
            inside.command.push(arg.clone());
            inside.command.extend(args.cloned());
            break;
        }
    }
    match inside.lines.is_empty() && inside.command.is_empty() {
        true => Told::Nothing,
        false => Told::Starts(inside),
    }
}

/// What an option of a wrapper is followed by.
enum Takes {
    Nothing,
    /// A value that is no command.
    Value,
    Pair,
    /// A line for a shell.
    Line,
    /// The command, up to the end.
    Command,
}

struct Taken {
    takes: Takes,
    /// What is attached to it.
    value: Option<Field>,
}

fn option(tables: &Tables, wrapper: &Wrapper, arg: &Field) -> Taken {
    let text = arg.text.as_slice();
    let attached = |value: &[u8]| Some(Field { text: value.into(), ..arg.clone() });
    let long = text.strip_prefix(b"--");
    let whole = long.unwrap_or(&text[1..]);
    let equals = whole.iter().position(|byte| *byte == b'=').filter(|_| long.is_some());
    let name = &whole[..equals.unwrap_or(whole.len())];
    let is = |list| if long.is_some() { tables.has_option(list, name) } else { tables.has(list, name) };
    let value = equals.and_then(|at| attached(&whole[at + 1..]));
    if is(wrapper.lines) {
        return Taken { takes: Takes::Line, value };
    }
    if is(wrapper.after) {
        return Taken { takes: Takes::Command, value };
    }
    if value.is_some() {
        return Taken { takes: Takes::Nothing, value: None };
    }
    if is(wrapper.pairs) {
        return Taken { takes: Takes::Pair, value };
    }
    if is(wrapper.values) {
        return Taken { takes: Takes::Value, value };
    }
    // `-u root` takes the next one, `-uroot` does not.
    for (at, letter) in name.iter().enumerate().filter(|_| long.is_none()) {
        let rest = &name[at + 1..];
        if tables.has(wrapper.lines, &[*letter]) {
            return Taken { takes: Takes::Line, value: attached(rest).filter(|_| !rest.is_empty()) };
        }
        if tables.has(wrapper.values, &[*letter]) {
            return Taken { takes: if rest.is_empty() { Takes::Value } else { Takes::Nothing }, value: None };
        }
    }
    Taken { takes: Takes::Nothing, value: None }
}
