//! Programs that start others: wrappers, shells, interpreters, `find`, `xargs`.

use super::find::{self, Fate};
use super::output::picks;
use super::programs::{joined, last_name};
use super::variables::Text;
use super::walk::{Started, Stream, Walker};
use crate::little;
use crate::paths::{HERE, look};
use crate::rules::kinds::Tongue;
use crate::rules::tables::{Entry, Interpreter, List, Tables, Wrapper};
use crate::text::{Bytes, Field, Taint, UNKNOWN};
use crate::verdict::{Language, Loss};

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
        let wrapper = entry.and_then(|entry| tables.wrapper(entry));
        if let Some(interpreter) = entry.and_then(|entry| tables.interpreter(entry)) {
            // `bun x` starts another program, `bun x.js` runs a file.
            if let Some(output) = wrapper.and_then(|wrapper| self.wrapper(wrapper, started)) {
                return Some(output);
            }
            return Some(self.interpreter(name, interpreter, started));
        }
        match name {
            b"env" => return Some(self.environment(started)),
            b"xargs" | b"parallel" => return Some(self.for_each_line(started)),
            b"find" | b"fd" | b"fdfind" => self.found_files(started),
            b"git" => {
                self.settings_of_git(started);
                self.submodules(started);
            }
            b"command" | b"builtin" | b"exec" => return self.past_functions(wrapper?, started),
            b"sed" | b"gsed" => self.stream_editor(started),
            b"psql" | b"mysql" | b"mariadb" | b"sqlite3" | b"duckdb" | b"usql" => self.console(started),
            // A line editor runs what stands behind `!`.
            b"ed" | b"ex" | b"red"
                if started.input.fed
                    && started.input.text.as_ref().is_none_or(|text| text.contains(&b'!')) =>
            {
                self.findings.fact("other-language", started.span);
            }
            _ => {}
        }
        self.wrapper(wrapper?, started)
    }

    /// Starts a program although a function has its name.
    fn past_functions(&mut self, wrapper: &Wrapper, started: &Started) -> Option<Stream> {
        let named = started.args[1..].iter().find(|arg| arg.text.first() != Some(&b'-'));
        let hidden = named.and_then(|named| self.functions.remove_entry(&named.text));
        let output = self.wrapper(wrapper, started);
        if let Some((name, function)) = hidden {
            self.functions.entry(name).or_insert(function);
        }
        output
    }

    /// The arguments of an interpreter without code that is judged by itself: as a whole it is neither a path nor a word.
    pub(super) fn without_code(&self, entry: &Entry, args: &[Field]) -> Option<Vec<Field>> {
        let tables = self.findings.tables;
        let interpreter = tables.interpreter(entry)?;
        let is_shell = interpreter.tongue? == Tongue::Shell;
        let Told::Code(codes) = told(tables, interpreter, args, is_shell) else { return None };
        let is_code = |arg: &Field| codes.iter().any(|code| code.span == arg.span && code.text == arg.text);
        let emptied = |arg: &Field| Field { text: Bytes::default(), ..arg.clone() };
        Some(args.iter().map(|arg| if is_code(arg) { emptied(arg) } else { arg.clone() }).collect())
    }

    pub(super) fn inner(&mut self, args: Vec<Field>, started: &Started) -> Stream {
        let input = started.input.clone();
        let inner = Started { args, writes: Vec::new(), reads: Vec::new(), input, span: started.span };
        self.command(inner)
    }

    fn environment(&mut self, started: &mut Started) -> Stream {
        let mut args = started.args[1..].iter();
        while let Some(arg) = args.next() {
            let text = arg.text.as_slice();
            match text {
                b"-u" | b"-C" => {
                    args.next();
                }
                _ if (text.starts_with(b"--u") || text.starts_with(b"--c")) && !text.contains(&b'=') => {
                    args.next();
                }
                // No other long option of it begins so.
                _ if text.starts_with(b"-S") || text.starts_with(b"--s") => {
                    let equals = text.iter().position(|byte| *byte == b'=').map_or(text.len(), |at| at + 1);
                    let prefix = if text.starts_with(b"-S") { 2 } else { equals };
                    let attached = Field { text: text[prefix..].into(), ..arg.clone() };
                    let line: Vec<Field> = [attached].into_iter().chain(args.cloned()).collect();
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
        let (mut replaced, mut rest) = without_options(&started.args[1..]);
        // `parallel` takes what stands behind `:::` for lines.
        let listed = rest.iter().position(|arg| arg.text == b":::").map(|at| rest.split_off(at));
        if let (Some(listed), true) = (&listed, rest.is_empty()) {
            let mut output = Stream::unknown(Taint::NONE);
            for line in listed.iter().skip(1).take(64) {
                output = self.code(Language::Shell, &line.text, line.span, Stream::default());
            }
            return output;
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
        } else if let Some(names) = started.input.names.clone()
            && let Some(loss) =
                find::fate(&rest).and_then(|fate| find::with_fate(&names, fate, &self.standing))
        {
            self.findings.lost("delete-search", span, loss);
        }
        let taint = started.input.taint;
        let mut lines: Vec<Field> = match (&listed, &started.input.text) {
            (Some(listed), _) => listed.iter().filter(|line| line.text != b":::").take(64).cloned().collect(),
            (None, Some(text)) => {
                let parts = text.split(|byte| b" \t\n".contains(byte)).filter(|part| !part.is_empty());
                parts.take(64).map(|part| Field { taint, ..Field::known(part, span) }).collect()
            }
            (None, None) => vec![Field { taint, splits: true, ..Field::unknown(span) }],
        };
        let cut = listed.is_some() && lines.len() == 64
            || started.input.text.as_ref().is_some_and(|_| lines.len() == 64);
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
        let is_find = last_name(&started.args[0].text) == b"find";
        let (roots, filtered) = match is_find {
            true => {
                let args = args.iter().skip_while(|arg| matches!(arg.text.as_slice(), b"-L" | b"-H" | b"-P"));
                let roots = args.take_while(|arg| !matches!(arg.text.first(), Some(b'-' | b'(' | b'!')));
                (roots.cloned().collect(), args_pick(&started.args[1..]))
            }
            false => pattern_and_roots(args),
        };
        let roots = if roots.is_empty() { vec![Field::known(b".", started.span)] } else { roots };
        const RUN: [&[u8]; 8] =
            [b"-exec", b"-execdir", b"-ok", b"-okdir", b"-x", b"--exec", b"-X", b"--exec-batch"];
        let mut commands: Vec<Vec<Field>> = Vec::new();
        let mut at = 0;
        while at < args.len() {
            let text = args[at].text.as_slice();
            let equals = text.iter().position(|byte| *byte == b'=').unwrap_or(text.len());
            if RUN.contains(&&text[..equals]) {
                let attached =
                    text.get(equals + 1..).map(|text| Field { text: text.into(), ..args[at].clone() });
                let end = args[at + 1..].iter().position(|arg| matches!(arg.text.as_slice(), b";" | b"+"));
                let end = end.map_or(args.len(), |end| at + 1 + end);
                commands.push(attached.into_iter().chain(args[at + 1..end].iter().cloned()).collect());
                at = end;
            }
            at += 1;
        }
        let all = !filtered;
        let here = roots.iter().any(|root| look(&root.text, &self.standing).is.meets(HERE));
        if all && here && commands.iter().any(|command| command.first().is_some_and(|arg| deletes(&arg.text)))
        {
            self.findings.fact("delete-found", started.span);
        } else if is_find {
            self.found_and_lost(started);
        }
        for mut command in commands {
            let Some(first) = command.first().cloned() else { continue };
            // `fd` puts what it finds at the end, if no other place is named.
            if !is_find && !command.iter().any(|arg| arg.text.contains(&b'{')) {
                command.push(Field { text: (*b"{}").into(), ..first.clone() });
            }
            // Whoever deletes all files one by one deletes the whole.
            if all && deletes(&first.text) {
                command.insert(1, Field { text: (*b"-r").into(), ..first });
            }
            for root in roots.iter().take(4) {
                // Something below the root, or the root itself where that is all there is to say.
                let whole = matches!(root.text.as_slice(), b"/" | b"~" | b"~/");
                let mut text = root.text.clone();
                if !whole {
                    text.extend_from_slice(b"/found");
                }
                let found = Field { text, ..root.clone() };
                let args: Vec<Field> = command.iter().map(|arg| substitute(arg, b"{}", &found)).collect();
                self.inner(args, started);
            }
        }
    }

    /// Work that `find` deletes or moves.
    fn found_and_lost(&mut self, started: &Started) {
        let args = &started.args[1..];
        let action = |action: &[Field]| match action {
            [delete] if delete.text == b"-delete" => Some(Fate::Deleted { recursive: false }),
            [exec, command @ .., _] if exec.text.starts_with(b"-e") => find::fate(command),
            _ => None,
        };
        let mut fates: Vec<Fate> = Vec::new();
        for at in 0..args.len() {
            let end = args[at..].iter().position(|arg| matches!(arg.text.as_slice(), b";" | b"+" | b"\\;"));
            let end = if args[at].text == b"-delete" { Some(0) } else { end };
            let found = end.and_then(|end| action(&args[at..=at + end]));
            fates.extend(found.filter(|fate| !fates.contains(fate)));
        }
        for fate in fates {
            let search = self.search(args, |taken| action(taken).as_ref() == Some(&fate));
            let loss = search.and_then(|search| find::with_fate(&Loss::Found(search), fate, &self.standing));
            if let Some(loss) = loss {
                self.findings.lost("delete-search", started.span, loss);
            }
        }
    }

    fn interpreter(&mut self, name: &[u8], interpreter: &Interpreter, started: &mut Started) -> Stream {
        let tables = self.findings.tables;
        let is_shell = interpreter.tongue == Some(Tongue::Shell);
        let told = told(tables, interpreter, &started.args[1..], is_shell);
        let span = started.span;
        if let Some(language) = interpreter.tongue.map(Language::from) {
            for file in loaded(tables, interpreter, &started.args[1..]) {
                self.file_as_code(&file.text, language, file.span, &Stream::default());
            }
        }
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
                    let defined = is_shell.then(|| self.defined());
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
                    if let Some(defined) = defined {
                        self.finish_since(&defined);
                        self.variables.arguments.pop();
                        self.variables.back_to(mark);
                    }
                }
                output
            }
            (Told::Code(codes), None) => {
                let taint = codes.iter().fold(started.input.taint, |taint, code| taint.and(code.taint));
                let known = |word: &[u8]| tables.has(interpreter.words, word);
                for code in &codes {
                    for path in little::written_files(name, &code.text) {
                        let file = Field { text: path.into(), ..code.clone() };
                        self.judge_call(None, &[], &[file], &[], &Stream::default(), code.span);
                    }
                }
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
        if codes.is_empty() && !reads_input {
            match text {
                // `deno run FILE`.
                b"run" if is_in(interpreter.stops, text) => continue,
                _ if is_in(interpreter.stops, text) => return Told::Nothing,
                _ => return Told::File(arg.clone()),
            }
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

/// Files that run before the code: values of options, where they are paths. What is no path is a package.
fn loaded(tables: &Tables, interpreter: &Interpreter, args: &[Field]) -> Vec<Field> {
    let mut files = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next().filter(|arg| arg.text.first() == Some(&b'-')) {
        let text = arg.text.as_slice();
        let long = text.strip_prefix(b"--");
        let whole = long.unwrap_or(&text[1..]);
        let at = whole.iter().position(|byte| *byte == b'=').filter(|_| long.is_some());
        let name = &whole[..at.unwrap_or(whole.len())];
        if !tables.has(interpreter.loads, name) {
            continue;
        }
        match at {
            Some(at) => files.push(Field { text: whole[at + 1..].into(), ..arg.clone() }),
            None => files.extend(args.next().cloned()),
        }
    }
    files.retain(|file| matches!(file.text.first(), Some(b'.' | b'/' | b'~')));
    files
}

/// What follows the code: `$0`, and then `$1` and so on.
fn arguments_after<'a>(args: &'a [Field], code: &Field) -> (Option<&'a Field>, Vec<Field>) {
    let at = args.iter().position(|arg| arg.span == code.span && arg.text == code.text);
    let after = at.and_then(|at| args.get(at + 1..)).unwrap_or_default();
    (after.first(), after.get(1..).unwrap_or_default().to_vec())
}

/// Whether `find` leaves some files out.
fn args_pick(args: &[Field]) -> bool {
    args.iter().any(|arg| picks(&arg.text))
}

/// Where `fd` searches, and whether it leaves some files out: the first word is a pattern, the others are folders.
fn pattern_and_roots(args: &[Field]) -> (Vec<Field>, bool) {
    const VALUES: &[&[u8]] = &[
        b"-t",
        b"--type",
        b"-d",
        b"--max-depth",
        b"-j",
        b"--threads",
        b"-c",
        b"--color",
        b"--base-directory",
    ];
    const PICKING: &[&[u8]] =
        &[b"-e", b"--extension", b"-S", b"--size", b"-E", b"--exclude", b"-o", b"--owner"];
    let mut words = Vec::new();
    let mut filtered = false;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.text.as_slice() {
            b"-x" | b"-X" => break,
            text if text.starts_with(b"--exec") => break,
            text if VALUES.contains(&text) => {
                args.next();
            }
            text if PICKING.contains(&text) => {
                args.next();
                filtered = true;
            }
            text if text.first() == Some(&b'-') => {}
            _ => words.push(arg.clone()),
        }
    }
    let pattern = if words.is_empty() { None } else { Some(words.remove(0)) };
    filtered |= pattern.is_some_and(|pattern| !matches!(pattern.text.as_slice(), b"." | b"" | b".*"));
    (words, filtered)
}

/// Whether an argument is this option, or a beginning of it that is long enough to be one.
fn is_written(arg: &[u8], option: &[u8]) -> bool {
    arg == option || arg.len() > 4 && arg.starts_with(b"--") && option.starts_with(arg)
}

/// Whether a program does nothing but delete.
fn deletes(program: &[u8]) -> bool {
    matches!(last_name(program), b"rm" | b"unlink" | b"shred" | b"srm" | b"rimraf" | b"truncate")
}

/// The values of some options, wherever they stand. An option that is written with its dash in the table has one dash and a whole name.
fn option_values(args: &[Field], tables: &Tables, options: List) -> Vec<Field> {
    let mut values = Vec::new();
    for (at, arg) in args.iter().enumerate().filter(|(_, arg)| arg.text.first() == Some(&b'-')) {
        let attached = |value: &[u8]| Field { text: value.into(), ..arg.clone() };
        let text = arg.text.as_slice();
        let equals = text.iter().position(|byte| *byte == b'=');
        let (name, value) = (&text[..equals.unwrap_or(text.len())], equals.map(|at| &text[at + 1..]));
        for option in tables.texts(options).map(str::as_bytes) {
            // `exec=` at the end is the beginning of a value.
            let (option, start) = match option.iter().position(|byte| *byte == b'=') {
                Some(at) => (&option[..at], &option[at + 1..]),
                None => (option, &b""[..]),
            };
            let next = || args.get(at + 1).map(|next| (next.text.as_slice(), next));
            let found = if option.len() == 1 {
                // `-qc line` and `-c line`, `-cline` only if it cannot be other letters.
                let letters = text.get(1..).unwrap_or_default();
                let alone = letters == option;
                let cluster = letters.len() > 1
                    && letters.ends_with(option)
                    && letters.iter().all(u8::is_ascii_alphabetic);
                match letters.strip_prefix(option) {
                    _ if alone || cluster => next(),
                    Some(line) if line.iter().any(u8::is_ascii_whitespace) => Some((line, arg)),
                    _ => None,
                }
            } else {
                let whole = name.strip_prefix(b"--").unwrap_or_default();
                let long = whole == option || whole.len() > 1 && option.starts_with(whole);
                if option[0] == b'-' && name == option || option[0] != b'-' && long {
                    value.map(|value| (value, arg)).or_else(next)
                } else {
                    None
                }
            };
            if let Some((line, field)) = found
                && let Some(line) = line.strip_prefix(start)
            {
                let line = if std::ptr::eq(field, arg) {
                    attached(line)
                } else {
                    Field { text: line.into(), ..field.clone() }
                };
                values.push(line);
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
pub(super) fn is_assignment(text: &[u8]) -> bool {
    let Some(at) = text.iter().position(|byte| *byte == b'=') else { return false };
    let name = &text[..at];
    !name.is_empty()
        && !name[0].is_ascii_digit()
        && name.iter().all(|byte| *byte == b'_' || byte.is_ascii_alphanumeric())
        && !name.contains(&UNKNOWN)
}

/// What `xargs` or `parallel` replaces by a line, and the words behind its options.
fn without_options(args: &[Field]) -> (Option<Bytes>, Vec<Field>) {
    /// Options whose value is the next word.
    const VALUES: [&[u8]; 17] = [
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
        b"--max-chars",
    ];
    let mut replaced: Option<Bytes> = None;
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.text.as_slice() {
            b"-I" => replaced = args.next().map(|next| next.text.clone()),
            b"-i" => replaced = Some((*b"{}").into()),
            text if text.starts_with(b"-I") || text.starts_with(b"-i") => replaced = Some(text[2..].into()),
            text if text.starts_with(b"--rep") => {
                let at = text.iter().position(|byte| *byte == b'=');
                replaced = Some(at.map_or_else(|| (*b"{}").into(), |at| text[at + 1..].into()));
            }
            text if VALUES.iter().any(|option| is_written(text, option)) => {
                args.next();
            }
            text if text.len() > 1 && text[0] == b'-' => {}
            _ => return (replaced, std::iter::once(arg).chain(args).cloned().collect()),
        }
    }
    (replaced, Vec::new())
}
