//! Scripts for `sed`: the few of its commands that start something or write a file.

use super::walk::{Started, Stream, Walker};
use crate::text::Field;
use crate::verdict::Language;

/// What a command of a script does.
#[derive(Debug, PartialEq, Eq)]
enum Does {
    Runs(Vec<u8>),
    /// It runs what it has made of a line.
    RunsLine(Vec<u8>),
    Writes(Vec<u8>),
}

impl Walker<'_> {
    pub(super) fn stream_editor(&mut self, started: &Started) {
        let mut scripts: Vec<Field> = Vec::new();
        let mut first: Option<&Field> = None;
        let mut named = false;
        let mut args = started.args[1..].iter();
        while let Some(arg) = args.next() {
            let text = arg.text.as_slice();
            let attached = |value: &[u8]| Field { text: value.into(), ..arg.clone() };
            match text {
                b"-f" | b"--file" => {
                    named = true;
                    args.next();
                }
                b"-l" | b"--line-length" => {
                    args.next();
                }
                _ if text.starts_with(b"--e") => match text.iter().position(|byte| *byte == b'=') {
                    Some(at) => scripts.push(attached(&text[at + 1..])),
                    None => scripts.extend(args.next().cloned()),
                },
                _ if text.starts_with(b"--") || text == b"-" => {}
                // Of the letters only `-i` takes the rest for itself.
                _ if text.first() == Some(&b'-') => match text.iter().position(|byte| b"ei".contains(byte)) {
                    Some(at) if text[at] == b'e' && at + 1 == text.len() => {
                        scripts.extend(args.next().cloned())
                    }
                    Some(at) if text[at] == b'e' => scripts.push(attached(&text[at + 1..])),
                    _ => {}
                },
                _ => first = first.or(Some(arg)),
            }
        }
        if scripts.is_empty() && !named {
            scripts.extend(first.cloned());
        }
        for script in scripts {
            for deed in read(&script.text) {
                match deed {
                    Does::Runs(line) => {
                        self.code(Language::Shell, &line, script.span, Stream::default());
                    }
                    Does::RunsLine(line) => {
                        self.findings.fact("sed-run", script.span);
                        self.code(Language::Shell, &line, script.span, Stream::default());
                    }
                    Does::Writes(file) => {
                        let file = Field { text: file.into(), ..script.clone() };
                        self.judge_call(None, &[], &[file], &[], &Stream::default(), script.span);
                    }
                }
            }
        }
    }
}

/// Reads a script up to its end, or up to what is no command.
fn read(script: &[u8]) -> Vec<Does> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < script.len() {
        let Some(next) = command(script, at, &mut found) else { break };
        at = next;
    }
    found
}

fn command(script: &[u8], start: usize, found: &mut Vec<Does>) -> Option<usize> {
    let mut at = start;
    let skip = |at: usize, bytes: &[u8]| {
        at + script[at.min(script.len())..].iter().take_while(|byte| bytes.contains(byte)).count()
    };
    at = skip(at, b" \t\n;{}");
    at = address(script, at)?;
    at = skip(at, b" \t!");
    let Some(letter) = script.get(at) else { return Some(script.len()) };
    at += 1;
    let line_end = |at: usize| {
        script[at..].iter().position(|byte| *byte == b'\n').map_or(script.len(), |length| at + length)
    };
    let rest = |at: usize| script[at..line_end(at)].trim_ascii().to_vec();
    match letter {
        b's' | b'y' => {
            let mark = *script.get(at)?;
            let second = part_end(script, at + 1, mark)?;
            let end = part_end(script, second, mark)?;
            if *letter == b'y' {
                return Some(end);
            }
            at = end;
            while let Some(flag) = script.get(at).filter(|flag| flag.is_ascii_alphanumeric()) {
                match flag {
                    b'e' => found.push(Does::RunsLine(script[second..end - 1].to_vec())),
                    b'w' => {
                        found.push(Does::Writes(rest(at + 1)));
                        return Some(line_end(at));
                    }
                    _ => {}
                }
                at += 1;
            }
            Some(at)
        }
        b'e' => {
            let line = rest(at);
            found.push(if line.is_empty() { Does::RunsLine(line) } else { Does::Runs(line) });
            Some(line_end(at))
        }
        b'w' | b'W' => {
            found.push(Does::Writes(rest(at)));
            Some(line_end(at))
        }
        b'a' | b'i' | b'c' => {
            // A line that ends in a backslash goes on.
            let mut end = line_end(at);
            while end < script.len() && script[..end].ends_with(b"\\") {
                end = line_end(end + 1);
            }
            Some(end)
        }
        b'r' | b'R' | b'#' => Some(line_end(at)),
        b':' | b'b' | b't' | b'T' => {
            let label = script[at..].iter().take_while(|byte| !b"\n;}".contains(byte)).count();
            Some(at + label)
        }
        b'q' | b'Q' | b'l' | b'L' => Some(skip(at, b" 0123456789")),
        b'=' | b'd' | b'D' | b'g' | b'G' | b'h' | b'H' | b'n' | b'N' | b'p' | b'P' | b'x' | b'z' | b'F' => {
            Some(at)
        }
        _ => None,
    }
}

/// Where the lines end for which a command is: `1,3`, `$`, `/from/,+2`.
fn address(script: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    while let Some(byte) = script.get(at) {
        at = match byte {
            b'0'..=b'9' | b'$' | b',' | b'+' | b'~' | b' ' | b'\t' => at + 1,
            b'/' => pattern_end(script, at + 1, b'/')?,
            b'\\' => pattern_end(script, at + 2, *script.get(at + 1)?)?,
            _ => break,
        };
    }
    Some(at)
}

fn pattern_end(script: &[u8], start: usize, mark: u8) -> Option<usize> {
    let end = part_end(script, start, mark)?;
    Some(end + script[end..].iter().take_while(|byte| b"IM".contains(byte)).count())
}

/// Behind the next mark that no backslash stands before.
fn part_end(script: &[u8], start: usize, mark: u8) -> Option<usize> {
    let mut at = start;
    while let Some(byte) = script.get(at) {
        match byte {
            b'\\' => at += 2,
            byte if *byte == mark => return Some(at + 1),
            _ => at += 1,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_script_runs_or_writes_is_found_among_what_it_only_changes() {
        let runs = |line: &str| Does::Runs(line.as_bytes().to_vec());
        let line = |line: &str| Does::RunsLine(line.as_bytes().to_vec());
        let writes = |file: &str| Does::Writes(file.as_bytes().to_vec());
        for (script, expected) in [
            ("s/a/b/g", vec![]),
            ("s/e/w x/", vec![]),
            ("/start/,/e/p;$d", vec![]),
            ("1,3!{s|/e|e|;p}", vec![]),
            ("3a e rm", vec![]),
            ("y/we/ab/;s/x/y/2", vec![]),
            ("\\,e x,d", vec![]),
            ("1e ls", vec![runs("ls")]),
            ("s/a/b/;$!e rm x\np", vec![runs("rm x")]),
            ("s/.*/ls/ge", vec![line("ls")]),
            ("e", vec![line("")]),
            ("s/a\\/b/c/w /etc/x", vec![writes("/etc/x")]),
            ("/x/I w out", vec![writes("out")]),
            ("s/a", vec![]),
        ] {
            assert_eq!(read(script.as_bytes()), expected, "{script}");
        }
    }
}
