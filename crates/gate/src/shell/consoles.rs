//! Consoles of databases: lines that they hand to a shell, and files that they write, among those that they hand to the database.

use super::walk::{Started, Stream, Walker};
use crate::text::Field;
use crate::verdict::{Language, Span};

/// More lines than these are not looked at.
const MOST: usize = 4096;

impl Walker<'_> {
    pub(super) fn console(&mut self, started: &Started) {
        for arg in &started.args[1..] {
            self.lines_of_console(&arg.text, arg.span);
        }
        if let Some(text) = started.input.text.clone() {
            self.lines_of_console(&text, started.input.place.unwrap_or(started.span));
        }
    }

    fn lines_of_console(&mut self, text: &[u8], span: Span) {
        for line in text.split(|byte| *byte == b'\n').take(MOST) {
            match led_to(line.trim_ascii()) {
                Leads::Nowhere => {}
                Leads::ToShell(command) => {
                    self.code(Language::Shell, command, span, Stream::default());
                }
                Leads::ToFile(path) => {
                    let file = Field::known(path, span);
                    self.judge_call(None, &[], &[file], &[], &Stream::default(), span);
                }
            }
        }
    }
}

enum Leads<'a> {
    Nowhere,
    ToShell(&'a [u8]),
    ToFile(&'a [u8]),
}

/// Where a line of a console leads.
fn led_to(line: &[u8]) -> Leads<'_> {
    if let Some(command) = line.strip_prefix(b"\\!") {
        return Leads::ToShell(command);
    }
    let word = line.iter().position(u8::is_ascii_whitespace).unwrap_or(line.len());
    let rest = line[word..].trim_ascii();
    match &line[..word] {
        _ if rest.is_empty() => Leads::Nowhere,
        b".shell" | b".system" | b"system" => Leads::ToShell(rest),
        b"\\o" | b"\\g" | b"\\w" | b".output" | b".once" | b".log" => match rest.strip_prefix(b"|") {
            Some(command) => Leads::ToShell(command),
            None => Leads::ToFile(rest),
        },
        _ => Leads::Nowhere,
    }
}
