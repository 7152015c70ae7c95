//! A program and its arguments: what the shell does itself, what starts something else, and what the rules say.

use super::variables::Text;
use super::walk::{Started, Stream, Walker};
use crate::matching::{Call, Hit, hits};
use crate::paths::Standing;
use crate::rules::tables::Entry;
use crate::text::{Bytes, Field, Taint, UNKNOWN};
use crate::verdict::{Language, Span};

impl Walker<'_> {
    pub(super) fn program(&mut self, started: &mut Started) -> Stream {
        let span = started.span;
        let first = &started.args[0];
        let is_usual = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if (first.text.is_empty() || !first.text.iter().all(is_usual))
            && let Some(output) = self.unusual_name(first)
        {
            return output;
        }
        let name = Bytes::from(last_name(&first.text));
        let name = canonical(&name);
        let entry = self.findings.tables.find("", name);
        let without_code = entry.and_then(|entry| self.without_code(entry, &started.args[1..]));
        let args = without_code.as_deref().unwrap_or(&started.args[1..]);
        self.judge_call(entry, args, &started.writes, &started.reads, &started.input, span);
        self.each_of_a_loop(started);
        if let Some(output) = self.builtin(name, started) {
            return output;
        }
        if let Some(output) = self.starts_another(name, entry, started) {
            return output;
        }
        self.output(name, entry, started)
    }

    /// What is known by a name alone that is not of letters and digits; an output, if nothing else is to be looked at.
    fn unusual_name(&mut self, first: &Field) -> Option<Stream> {
        let name = last_name(&first.text);
        if name.is_empty() {
            return Some(Stream::text(b""));
        }
        if name.contains(&UNKNOWN) {
            let key = if first.taint.has(Taint::DOWNLOAD) { "downloaded-code" } else { "unknown-program" };
            self.findings.fact(key, first.span);
            return Some(Stream::unknown(Taint::NONE));
        }
        if !name.is_ascii() || name.iter().any(u8::is_ascii_control) {
            self.findings.fact("odd-name", first.span);
            return Some(Stream::unknown(Taint::NONE));
        }
        // A pattern as the name of a program runs whatever it finds.
        if first.text.iter().any(|byte| b"*?[".contains(byte)) && name != b"[" && name != b"[[" {
            self.findings.fact("unknown-program", first.span);
            return Some(Stream::unknown(Taint::NONE));
        }
        if first.text.contains(&b'/') {
            self.script_by_path(&first.text, first.span);
        }
        None
    }

    /// Asks the rules.
    pub(super) fn judge_call(
        &mut self,
        entry: Option<&Entry>,
        args: &[Field],
        writes: &[Field],
        reads: &[Field],
        input: &Stream,
        span: Span,
    ) {
        let call = Call {
            args,
            named: &[],
            writes,
            reads,
            input: input.text.as_deref(),
            input_taint: input.taint,
            standing: &self.standing,
            looks: &self.findings.looks,
            span,
        };
        if self.findings.asked.again(&self.findings, entry, &call) {
            return;
        }
        let mut found: Vec<Hit> = Vec::new();
        hits(&self.findings, entry, true, &call, &mut found);
        for hit in &found {
            self.findings.hit(hit);
        }
    }

    /// A program that is named by a path may be a script, and may be one that this script has written.
    fn script_by_path(&mut self, path: &[u8], span: Span) {
        if let Some(stream) = self.written(path) {
            let stream = stream.clone();
            let language = language_of(path).or(stream.text.as_deref().and_then(first_line_language));
            self.stream_as_code(&stream, language.unwrap_or(Language::Shell), span);
            return;
        }
        const SYSTEM: [&[u8]; 6] = [b"/bin/", b"/usr/", b"/sbin/", b"/opt/", b"/nix/", b"/snap/"];
        if !path.contains(&UNKNOWN) && !SYSTEM.iter().any(|folder| path.starts_with(folder)) {
            self.want(path, language_of(path));
        }
    }

    /// A script that somebody has to read, by its path from where the command starts.
    pub(super) fn want(&mut self, path: &[u8], language: Option<Language>) {
        let path = self.standing.seen_from_start(path);
        self.findings.want(&path, language);
    }

    /// What the shell does itself.
    fn builtin(&mut self, name: &[u8], started: &mut Started) -> Option<Stream> {
        let span = started.span;
        let args = &started.args[1..];
        let nothing = || Some(Stream::text(b""));
        match name {
            b"eval" => {
                let text = joined(args);
                let taint = args.iter().fold(Taint::NONE, |taint, arg| taint.and(arg.taint));
                if taint.has(Taint::DOWNLOAD) {
                    self.findings.fact("downloaded-code", span);
                } else if taint.has(Taint::DECODED) {
                    self.findings.fact("decoded-code", span);
                }
                Some(self.code(Language::Shell, &text, span, started.input.clone()))
            }
            b"source" | b"." => {
                let Some(file) = args.first() else { return nothing() };
                let (path, span) = (file.text.clone(), file.span);
                Some(self.file_as_code(&path, Language::Shell, span, &started.input.clone()))
            }
            b"trap" => {
                let code = args.iter().find(|arg| !arg.text.starts_with(b"-"));
                // A number or a name alone asks for no code.
                if let Some(code) = code.filter(|_| args.len() > 1) {
                    // It runs later, with what the variables hold then.
                    self.traps.push((code.text.clone(), code.span));
                }
                nothing()
            }
            b"alias" => {
                for arg in args {
                    if let Some(at) = arg.text.iter().position(|byte| *byte == b'=') {
                        self.aliases.insert(arg.text[..at].into(), arg.text[at + 1..].into());
                    }
                }
                nothing()
            }
            b"unalias" => {
                for arg in args {
                    self.aliases.remove(&arg.text);
                }
                nothing()
            }
            b"export" | b"declare" | b"local" | b"readonly" | b"typeset" => {
                if args.iter().all(|arg| arg.text.starts_with(b"-")) {
                    // It lists all there are.
                    return Some(Stream::unknown(Taint::SECRET));
                }
                self.declare(name, args);
                nothing()
            }
            b"read" | b"mapfile" | b"readarray" | b"getopts" => {
                let taint = started.input.taint;
                for arg in args.iter().filter(|arg| !arg.text.starts_with(b"-")) {
                    self.variables.assign(&arg.text, vec![Text { bytes: [UNKNOWN].into(), taint }], false);
                }
                if name == b"read" && args.is_empty() {
                    self.variables.forget(b"REPLY");
                }
                nothing()
            }
            b"unset" => {
                for arg in args.iter().filter(|arg| !arg.text.starts_with(b"-")) {
                    self.variables.assign(&arg.text, vec![Text::default()], false);
                }
                nothing()
            }
            b"set" => {
                if args.is_empty() {
                    return Some(Stream::unknown(Taint::SECRET));
                }
                let end = args.iter().position(|arg| arg.text == b"--");
                if let Some(at) =
                    end.map(|at| at + 1).or(args.iter().position(|arg| !arg.text.starts_with(b"-")))
                {
                    let arguments = args[at..].to_vec();
                    self.variables.arguments.pop();
                    self.variables.arguments.push(arguments);
                }
                nothing()
            }
            b"shift" => {
                if let Some(arguments) = self.variables.arguments.last_mut()
                    && !arguments.is_empty()
                    && !arguments[0].splits
                {
                    arguments.remove(0);
                }
                nothing()
            }
            b"cd" | b"pushd" => {
                self.standing = self.standing_after(args);
                nothing()
            }
            b"popd" => {
                self.standing = Standing::Project;
                nothing()
            }
            _ => None,
        }
    }

    /// Sets the variables that a declaration names.
    fn declare(&mut self, name: &[u8], args: &[Field]) {
        let exports = args.iter().any(|arg| arg.text.starts_with(b"-") && arg.text.contains(&b'x'));
        for arg in args.iter().filter(|arg| !arg.text.starts_with(b"-")) {
            match arg.text.iter().position(|byte| *byte == b'=') {
                Some(at) => {
                    let value = Text { bytes: arg.text.without_first(at + 1), taint: arg.taint };
                    if name == b"export" || exports {
                        self.set_for_programs(&arg.text[..at], &value.bytes, arg.span);
                    }
                    match name {
                        b"local" => self.variables.assign_local(&arg.text[..at], value),
                        _ => self.variables.assign(&arg.text[..at], vec![value], false),
                    }
                }
                None if name == b"local" => self.variables.assign_local(&arg.text, Text::default()),
                None => {}
            }
        }
    }

    /// Where a shell stands after `cd`.
    fn standing_after(&self, args: &[Field]) -> Standing {
        let target = args.iter().find(|arg| !arg.text.starts_with(b"-"));
        match target.map(|arg| arg.text.as_slice()) {
            None => Standing::In(b"~".to_vec()),
            Some(path) if path.contains(&UNKNOWN) => Standing::Project,
            Some(path) => match &self.standing {
                Standing::In(folder) if !matches!(path.first(), Some(b'/' | b'~')) && folder.len() < 4096 => {
                    Standing::In([folder.as_slice(), b"/", path].concat())
                }
                _ => Standing::In(path.to_vec()),
            },
        }
    }

    /// A file that runs as code.
    pub(super) fn file_as_code(
        &mut self,
        path: &[u8],
        language: Language,
        span: Span,
        input: &Stream,
    ) -> Stream {
        if matches!(path, b"/dev/stdin" | b"/dev/fd/0" | b"-" | b"/proc/self/fd/0") {
            return self.stream_as_code(input, language, span);
        }
        if let Some(stream) = self.written(path) {
            let stream = stream.clone();
            return self.stream_as_code(&stream, language, span);
        }
        let descriptor = path.starts_with(b"/dev/fd/") || path.starts_with(b"/proc/");
        if path.contains(&UNKNOWN) || descriptor {
            self.findings.fact("unseen-code", span);
        } else {
            self.want(path, Some(language));
        }
        Stream::unknown(Taint::NONE)
    }
}

/// Arguments with one blank between them.
pub(super) fn joined(args: &[Field]) -> Vec<u8> {
    let texts: Vec<&[u8]> = args.iter().map(|arg| arg.text.as_slice()).collect();
    texts.join(&b' ')
}

/// The last name of a path.
pub(super) fn last_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

/// The name under which rules know a program: `python3.11` is `python`.
pub fn canonical(name: &[u8]) -> &[u8] {
    let name = name.strip_suffix(b".exe").unwrap_or(name);
    for base in [&b"python"[..], b"pypy", b"perl", b"ruby", b"php", b"lua", b"node", b"pip", b"bash", b"ksh"]
    {
        if let Some(version) = name.strip_prefix(base)
            && version.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.' || *byte == b'-')
        {
            return base;
        }
    }
    if name.starts_with(b"mkfs.") { b"mkfs" } else { name }
}

fn language_of(path: &[u8]) -> Option<Language> {
    let name = last_name(path);
    let ending = name.rsplit(|byte| *byte == b'.').next().filter(|ending| ending.len() < name.len())?;
    match ending {
        b"sh" | b"bash" | b"zsh" | b"ksh" => Some(Language::Shell),
        b"py" => Some(Language::Python),
        b"js" | b"mjs" | b"cjs" => Some(Language::JavaScript),
        _ => None,
    }
}

/// The language that `#!` names.
pub fn first_line_language(text: &[u8]) -> Option<Language> {
    let line = text.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line);
    let mut words = line.split([' ', '\t', '/']).filter(|word| !word.is_empty() && !word.starts_with('-'));
    let last = words.rfind(|word| !matches!(*word, "env" | "usr" | "bin"))?;
    match canonical(last.as_bytes()) {
        b"sh" | b"bash" | b"dash" | b"zsh" | b"ksh" | b"ash" => Some(Language::Shell),
        b"python" | b"pypy" => Some(Language::Python),
        b"node" | b"bun" | b"deno" => Some(Language::JavaScript),
        _ => None,
    }
}
