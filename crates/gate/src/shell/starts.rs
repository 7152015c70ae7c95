//! Programs that start others: wrappers, shells, interpreters, `find`, `xargs`.

use super::output::picks;
use super::programs::{joined, last_name};
use super::variables::Text;
use super::walk::{Started, Stream, Walker};
use crate::little;
use crate::paths::{HERE, look};
use crate::rules::kinds::Tongue;
use crate::rules::tables::{Entry, Interpreter, List, Tables, Wrapper};
use crate::text::{Bytes, Field, Taint, UNKNOWN};
use crate::verdict::{Language, Span};

/// What an interpreter is told to run.
enum Told {
    Code(Vec<Field>),
    File(Field),
    Input,
    Nothing,
}

impl Walker<'_> {
    /// Judges what the program starts, if it starts anything; its output then.
    pub(super) fn starts_another(
        &mut self,
        name: &[u8],
        entry: Option<&Entry>,
        started: &mut Started,
    ) -> Option<Stream> {
        let tables = self.findings.tables;
        if let Some(entry) = entry.filter(|entry| !entry.shell_options.is_empty()) {
            for code in option_values(&started.args[1..], tables, entry.shell_options) {
                self.code(Language::Shell, &code.text, code.span, Stream::default());
            }
        }
        if let Some(interpreter) = entry.and_then(|entry| tables.interpreter(entry)) {
            return Some(self.interpreter(name, interpreter, started));
        }
        match name {
            b"env" => return Some(self.environment(started)),
            b"xargs" | b"parallel" => return Some(self.for_each_line(started)),
            b"find" | b"fd" | b"fdfind" => self.found_files(started),
            // A line editor runs what stands behind `!`.
            b"ed" | b"ex" | b"red"
                if started.input.fed
                    && started.input.text.as_ref().is_none_or(|text| text.contains(&b'!')) =>
            {
                self.findings.fact("other-language", started.span);
            }
            _ => {}
        }
        let wrapper = tables.wrapper(entry?)?;
        self.wrapper(wrapper, started)
    }

    fn inner(&mut self, args: Vec<Field>, started: &Started) -> Stream {
        let input = started.input.clone();
        let inner = Started { args, writes: Vec::new(), reads: Vec::new(), input, span: started.span };
        self.command(inner)
    }

    fn wrapper(&mut self, wrapper: &Wrapper, started: &mut Started) -> Option<Stream> {
        let mut args = started.args[1..].iter().peekable();
        let tables = self.findings.tables;
        let mut skip = usize::from(wrapper.skip);
        let mut wants_sub = !wrapper.sub.is_empty();
        let takes_value = |name: &[u8]| tables.has(wrapper.values, name);
        let mut rest: Vec<Field> = Vec::new();
        while let Some(arg) = args.next() {
            let text = arg.text.as_slice();
            // Nor can be told what an image starts that nobody has named.
            let unnamed = wrapper.container && text == [UNKNOWN];
            if (arg.may_be_option() || unnamed) && !wants_sub && skip > 0 {
                // What follows may be options or the program.
                self.findings.fact("unknown-program", arg.span);
                return Some(Stream::unknown(Taint::NONE));
            }
            if text == b"--" {
                if !wants_sub {
                    rest.extend(args.skip(if wrapper.container { 0 } else { skip }).cloned());
                    break;
                }
                continue;
            }
            if text.len() > 1 && (text[0] == b'-' || text[0] == b'+') {
                if tables.has(wrapper.only_asks, text) {
                    return None;
                }
                let long = text.strip_prefix(b"--");
                let name = long.unwrap_or(&text[1..]);
                // `-u root` takes the next one, `-uroot` and `--user=root` do not.
                let takes = match long {
                    Some(name) => takes_value(name),
                    None => {
                        name.iter()
                            .position(|letter| takes_value(&[*letter]))
                            .is_some_and(|at| at + 1 == name.len())
                            || takes_value(name)
                    }
                };
                if takes {
                    args.next();
                }
                continue;
            }
            if !wrapper.shell && is_assignment(text) {
                continue;
            }
            if wants_sub {
                if !tables.has(wrapper.sub, text) {
                    return None;
                }
                wants_sub = false;
                continue;
            }
            if skip > 0 {
                skip -= 1;
                continue;
            }
            rest.push(arg.clone());
            rest.extend(args.cloned());
            break;
        }
        if rest.is_empty() {
            return None;
        }
        self.findings.containers += usize::from(wrapper.container);
        let output = if wrapper.shell {
            self.findings.remotes += usize::from(wrapper.remote);
            let span = Span::new(rest[0].span.start, rest[rest.len() - 1].span.end);
            let output = self.code(Language::Shell, &joined(&rest), span, started.input.clone());
            self.findings.remotes -= usize::from(wrapper.remote);
            output
        } else {
            self.inner(rest, started)
        };
        self.findings.containers -= usize::from(wrapper.container);
        Some(output)
    }

    fn environment(&mut self, started: &mut Started) -> Stream {
        let mut args = started.args[1..].iter();
        while let Some(arg) = args.next() {
            let text = arg.text.as_slice();
            match text {
                b"-u" | b"-C" | b"--unset" | b"--chdir" => {
                    args.next();
                }
                b"-S" | b"--split-string" => {
                    let line: Vec<Field> = args.cloned().collect();
                    return self.code(Language::Shell, &joined(&line), arg.span, started.input.clone());
                }
                _ if text.starts_with(b"-S") || text.starts_with(b"--split-string=") => {
                    let prefix = if text.starts_with(b"-S") { 2 } else { 15 };
                    let mut line = vec![Field { text: text[prefix..].into(), ..arg.clone() }];
                    line.extend(args.cloned());
                    return self.code(Language::Shell, &joined(&line), arg.span, started.input.clone());
                }
                _ if text.first() == Some(&b'-') => {}
                _ if is_assignment(text) => {
                    let at = text.iter().position(|byte| *byte == b'=').unwrap_or(0);
                    let value = super::variables::Text { bytes: text[at + 1..].into(), taint: arg.taint };
                    self.set_for_programs(&text[..at], &value.bytes, arg.span);
                    self.variables.assign(&text[..at], vec![value], false);
                }
                _ => {
                    let mut rest = vec![arg.clone()];
                    rest.extend(args.cloned());
                    return self.inner(rest, started);
                }
            }
        }
        // It prints all there are.
        Stream::unknown(Taint::SECRET)
    }

    fn for_each_line(&mut self, started: &mut Started) -> Stream {
        const VALUES: [&[u8]; 16] = [
            b"-n",
            b"-P",
            b"-L",
            b"-s",
            b"-d",
            b"-a",
            b"-E",
            b"-j",
            b"-N",
            b"--max-args",
            b"--max-procs",
            b"--max-lines",
            b"--delimiter",
            b"--arg-file",
            b"--jobs",
            b"--colsep",
        ];
        let mut replaced: Option<Bytes> = None;
        let mut args = started.args[1..].iter();
        let mut rest: Vec<Field> = Vec::new();
        while let Some(arg) = args.next() {
            match arg.text.as_slice() {
                b"-I" | b"--replace" => replaced = args.next().map(|next| next.text.clone()),
                b"-i" => replaced = Some((*b"{}").into()),
                text if text.starts_with(b"-I") => replaced = Some(text[2..].into()),
                text if VALUES.contains(&text) => {
                    args.next();
                }
                text if text.len() > 1 && text[0] == b'-' => {}
                _ => {
                    rest.push(arg.clone());
                    rest.extend(args.cloned());
                    break;
                }
            }
        }
        if rest.is_empty() {
            // Lines are commands for `parallel`; `xargs` echoes them.
            if started.args[0].text.ends_with(b"parallel") {
                return self.stream_as_code(&started.input.clone(), Language::Shell, started.span);
            }
            return Stream::unknown(started.input.taint);
        }
        if rest.iter().any(|arg| arg.text.windows(2).any(|pair| pair == b"{}")) && replaced.is_none() {
            replaced = Some((*b"{}").into());
        }
        let span = started.span;
        if started.input.names_all && deletes(&rest[0].text) {
            self.findings.fact("delete-found", span);
        }
        let taint = started.input.taint;
        let mut lines: Vec<Field> = match &started.input.text {
            Some(text) => {
                let parts = text.split(|byte| b" \t\n".contains(byte)).filter(|part| !part.is_empty());
                parts.take(64).map(|part| Field { taint, ..Field::known(part, span) }).collect()
            }
            None => vec![Field { taint, splits: true, ..Field::unknown(span) }],
        };
        let cut = started.input.text.as_ref().is_some_and(|_| lines.len() == 64);
        if cut || taint.has(Taint::DOWNLOAD) {
            lines.push(Field { taint, splits: true, ..Field::unknown(span) });
        }
        let alone = Started {
            args: Vec::new(),
            writes: Vec::new(),
            reads: Vec::new(),
            input: Stream::unknown(Taint::NONE),
            span,
        };
        // `parallel` hands a line to a shell.
        let line_of_code = started.args[0].text.ends_with(b"parallel");
        match replaced.filter(|mark| !mark.is_empty()) {
            Some(mark) => {
                let mut output = Stream::unknown(taint);
                for line in lines.iter().take(16) {
                    let args: Vec<Field> = rest.iter().map(|arg| substitute(arg, &mark, line)).collect();
                    output = match line_of_code {
                        true => self.code(Language::Shell, &joined(&args), span, Stream::default()),
                        false => self.inner(args, &alone),
                    };
                }
                output
            }
            None => {
                rest.append(&mut lines);
                if line_of_code {
                    return self.code(Language::Shell, &joined(&rest), span, Stream::default());
                }
                self.inner(rest, &alone)
            }
        }
    }

    fn found_files(&mut self, started: &mut Started) {
        let args = &started.args[1..];
        let roots: Vec<Field> = args
            .iter()
            .take_while(|arg| !matches!(arg.text.first(), Some(b'-' | b'(' | b'!')))
            .cloned()
            .collect();
        let roots = if roots.is_empty() { vec![Field::known(b".", started.span)] } else { roots };
        const RUN: [&[u8]; 8] =
            [b"-exec", b"-execdir", b"-ok", b"-okdir", b"-x", b"--exec", b"-X", b"--exec-batch"];
        let mut commands: Vec<Vec<Field>> = Vec::new();
        let mut at = 0;
        while at < args.len() {
            if RUN.contains(&args[at].text.as_slice()) {
                let end = args[at + 1..].iter().position(|arg| matches!(arg.text.as_slice(), b";" | b"+"));
                let end = end.map_or(args.len(), |end| at + 1 + end);
                commands.push(args[at + 1..end].to_vec());
                at = end;
            }
            at += 1;
        }
        let all = !args.iter().any(|arg| picks(&arg.text));
        let here = roots.iter().any(|root| look(&root.text, &self.standing).is.meets(HERE));
        if all && here && commands.iter().any(|command| command.first().is_some_and(|arg| deletes(&arg.text)))
        {
            self.findings.fact("delete-found", started.span);
        }
        for command in commands {
            for root in roots.iter().take(4) {
                // Something below the root, or the root itself where that is all there is to say.
                let whole = matches!(root.text.as_slice(), b"/" | b"~" | b"~/");
                let mut text = root.text.clone();
                if !whole {
                    text.extend_from_slice(b"/found");
                }
                let found = Field { text, ..root.clone() };
                let args: Vec<Field> = command.iter().map(|arg| substitute(arg, b"{}", &found)).collect();
                if !args.is_empty() {
                    self.inner(args, started);
                }
            }
        }
    }

    fn interpreter(&mut self, name: &[u8], interpreter: &Interpreter, started: &mut Started) -> Stream {
        let tables = self.findings.tables;
        let is_shell = interpreter.tongue == Some(Tongue::Shell);
        let told = told(tables, interpreter, &started.args[1..], is_shell);
        let span = started.span;
        match (told, interpreter.tongue.map(Language::from)) {
            (Told::Nothing, _) => Stream::unknown(Taint::NONE),
            (Told::Code(codes), Some(language)) => {
                let mut output = Stream::text(b"");
                for code in codes {
                    if code.taint.has(Taint::DOWNLOAD) {
                        self.findings.fact("downloaded-code", code.span);
                    } else if code.taint.has(Taint::DECODED) {
                        self.findings.fact("decoded-code", code.span);
                    }
                    let mark = self.variables.mark();
                    if is_shell {
                        let (zero, arguments) = arguments_after(&started.args, &code);
                        let zero = zero.map_or_else(
                            || Text::known(b"sh"),
                            |field| Text { bytes: field.text.clone(), taint: field.taint },
                        );
                        self.variables.assign(b"0", vec![zero], false);
                        self.variables.arguments.push(arguments);
                    }
                    output = self.code(language, &code.text, code.span, started.input.clone());
                    if is_shell {
                        self.variables.arguments.pop();
                        self.variables.back_to(mark);
                    }
                }
                output
            }
            (Told::Code(codes), None) => {
                let taint = codes.iter().fold(started.input.taint, |taint, code| taint.and(code.taint));
                let known = |word: &[u8]| tables.has(interpreter.words, word);
                if codes.iter().any(|code| !code.is_known() || !little::is_harmless(name, &code.text, known))
                {
                    self.findings.fact("other-language", codes.first().map_or(span, |code| code.span));
                }
                Stream::unknown(taint)
            }
            (Told::File(file), Some(language)) => {
                let input = started.input.clone();
                self.file_as_code(&file.text, language, file.span, &input)
            }
            (Told::File(file), None) => {
                match self.written(&file.text) {
                    Some(stream) if stream.taint.has(Taint::DOWNLOAD) => {
                        self.findings.fact("downloaded-code", file.span);
                    }
                    Some(_) => self.findings.fact("other-language", file.span),
                    None if file.is_known() => self.want(&file.text, None),
                    None => self.findings.fact("unseen-code", file.span),
                }
                Stream::unknown(started.input.taint)
            }
            (Told::Input, language) if started.input.fed => match language {
                Some(language) => self.stream_as_code(&started.input.clone(), language, span),
                None => {
                    let downloaded = started.input.taint.has(Taint::DOWNLOAD);
                    let key = if downloaded { "downloaded-code" } else { "other-language" };
                    self.findings.fact(key, span);
                    Stream::unknown(Taint::NONE)
                }
            },
            // A person types.
            (Told::Input, _) => Stream::unknown(Taint::NONE),
        }
    }
}

fn told(tables: &Tables, interpreter: &Interpreter, args: &[Field], is_shell: bool) -> Told {
    let is_in = |list: List, name: &[u8]| tables.has(list, name);
    let mut codes: Vec<Field> = Vec::new();
    let mut wants_code = false;
    let mut reads_input = false;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let text = arg.text.as_slice();
        if arg.may_be_option() {
            // An option or a file: nobody knows what runs.
            return Told::File(arg.clone());
        }
        if text == b"--" {
            break;
        }
        if let Some(long) = text.strip_prefix(b"--") {
            let at = long.iter().position(|byte| *byte == b'=');
            let (name, value) = (&long[..at.unwrap_or(long.len())], at.map(|at| &long[at + 1..]));
            if is_in(interpreter.code, name) {
                match value {
                    Some(value) => codes.push(Field { text: value.into(), ..arg.clone() }),
                    None => codes.extend(args.next().cloned()),
                }
            } else if is_in(interpreter.stops, name) {
                return Told::Nothing;
            } else if value.is_none() && is_in(interpreter.values, name) {
                args.next();
            }
            continue;
        }
        if text == b"-" {
            reads_input = true;
            break;
        }
        if text.len() > 1 && (text[0] == b'-' || text[0] == b'+' && is_shell) {
            for at in 1..text.len() {
                let letter = &text[at..=at];
                let attached = &text[at + 1..];
                if is_in(interpreter.stops, letter) {
                    return Told::Nothing;
                }
                if is_in(interpreter.code, letter) {
                    if is_shell {
                        wants_code = true;
                        continue;
                    }
                    match attached.is_empty() {
                        true => codes.extend(args.next().cloned()),
                        false => codes.push(Field { text: attached.into(), ..arg.clone() }),
                    }
                    break;
                }
                if is_in(interpreter.values, letter) {
                    if attached.is_empty() {
                        args.next();
                    }
                    break;
                }
                reads_input |= is_shell && letter == b"s";
            }
            continue;
        }
        if wants_code || is_in(interpreter.code, b"first") && codes.is_empty() {
            return Told::Code(vec![arg.clone()]);
        }
        if codes.is_empty() && !reads_input && !is_in(interpreter.stops, text) {
            return Told::File(arg.clone());
        }
        break;
    }
    if codes.is_empty() {
        let next = args.next();
        match next {
            Some(file) if !reads_input && !wants_code => return Told::File(file.clone()),
            Some(code) if wants_code => return Told::Code(vec![code.clone()]),
            _ => return Told::Input,
        }
    }
    Told::Code(codes)
}

/// What follows the code: `$0`, and then `$1` and so on.
fn arguments_after<'a>(args: &'a [Field], code: &Field) -> (Option<&'a Field>, Vec<Field>) {
    let at = args.iter().position(|arg| arg.span == code.span && arg.text == code.text);
    let after = at.and_then(|at| args.get(at + 1..)).unwrap_or_default();
    (after.first(), after.get(1..).unwrap_or_default().to_vec())
}

/// Whether a program does nothing but delete.
fn deletes(program: &[u8]) -> bool {
    matches!(last_name(program), b"rm" | b"unlink" | b"shred" | b"srm" | b"rimraf" | b"truncate")
}

/// The values of some options, wherever they stand.
fn option_values(args: &[Field], tables: &Tables, options: List) -> Vec<Field> {
    let mut values = Vec::new();
    for (at, arg) in args.iter().enumerate() {
        for option in tables.texts(options) {
            let dashed = if option.len() == 1 { format!("-{option}") } else { format!("--{option}") };
            // `-qc line` and `-c line`.
            let cluster = option.len() == 1
                && arg.text.len() > 2
                && arg.text[0] == b'-'
                && arg.text.ends_with(option.as_bytes())
                && arg.text[1..].iter().all(u8::is_ascii_alphabetic);
            if arg.text == dashed.as_bytes() || cluster {
                values.extend(args.get(at + 1).cloned());
            } else if let Some(value) = arg.text.strip_prefix(format!("{dashed}=").as_bytes()) {
                values.push(Field { text: value.into(), ..arg.clone() });
            } else if option.contains('=')
                && let Some(value) = arg.text.strip_prefix(dashed.as_bytes())
            {
                values.push(Field { text: value.into(), ..arg.clone() });
            }
        }
    }
    values
}

fn substitute(arg: &Field, mark: &[u8], value: &Field) -> Field {
    let Some(at) = arg.text.windows(mark.len()).position(|window| window == mark) else { return arg.clone() };
    let text = [&arg.text[..at], &value.text, &arg.text[at + mark.len()..]].concat();
    Field { text: text.into(), span: arg.span, splits: arg.splits, taint: arg.taint.and(value.taint) }
}

/// `NAME=value`.
fn is_assignment(text: &[u8]) -> bool {
    let Some(at) = text.iter().position(|byte| *byte == b'=') else { return false };
    let name = &text[..at];
    !name.is_empty()
        && !name[0].is_ascii_digit()
        && name.iter().all(|byte| *byte == b'_' || byte.is_ascii_alphanumeric())
        && !name.contains(&UNKNOWN)
}
