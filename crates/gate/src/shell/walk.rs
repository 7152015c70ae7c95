//! Walks through a script in the order in which it would run, and hands every command on.

use super::expand::Choices;
use super::output::MADE;
use super::parse::{Trouble, parse};
use super::syntax::{Direction, Kind, List, Node, Piece, Redirect, Simple, Target, Word};
use super::variables::{Text, Variables};
use crate::State;
use crate::findings::Findings;
use crate::paths::Standing;
use crate::quick::QuickMap;
use crate::text::{Bytes, Field, LONGEST, Stands, Taint, UNKNOWN};
use crate::verdict::{Language, Loss, Span};
use std::rc::Rc;

/// So many combinations of values of one command are looked at.
const COMBINATIONS: usize = 64;

/// Functions of these names run although a line does not name them: those of builtins when the state is restored and kept, and the one
/// that bash itself calls.
const RUN_UNASKED: &[&[u8]] = &[
    b".",
    b":",
    b"[",
    b"alias",
    b"builtin",
    b"cd",
    b"command",
    b"command_not_found_handle",
    b"compgen",
    b"declare",
    b"eval",
    b"exec",
    b"exit",
    b"export",
    b"local",
    b"printf",
    b"return",
    b"set",
    b"shift",
    b"shopt",
    b"source",
    b"test",
    b"trap",
    b"type",
    b"unset",
];

/// Words of the grammar: an alias of that name changes how a line is read.
const RESERVED: &[&[u8]] = &[
    b"!",
    b"[[",
    b"]]",
    b"case",
    b"coproc",
    b"do",
    b"done",
    b"elif",
    b"else",
    b"esac",
    b"fi",
    b"for",
    b"function",
    b"if",
    b"in",
    b"select",
    b"then",
    b"time",
    b"until",
    b"while",
    b"{",
    b"}",
];

/// Builtins whose arguments may be arrays.
const DECLARES: &[&[u8]] = &[b"declare", b"export", b"local", b"readonly", b"typeset"];

/// What flows into a command or out of it.
#[derive(Clone, Debug, Default)]
pub struct Stream {
    /// The whole text, if it is known; its unknown parts are marked.
    pub text: Option<Bytes>,
    pub taint: Taint,
    /// Where a document stands that it comes from.
    pub place: Option<Span>,
    /// It names every file of the project, with nothing left out.
    pub names_all: bool,
    /// It names files, and nothing else: what is lost if they are deleted.
    pub names: Option<Rc<Loss>>,
    /// It is the content of this file.
    pub file: Option<Bytes>,
    /// Somebody feeds it: it is not the caller's terminal.
    pub fed: bool,
}

impl Stream {
    pub fn text(text: &[u8]) -> Stream {
        Stream { text: Some(text.into()), fed: true, ..Stream::default() }
    }

    pub fn unknown(taint: Taint) -> Stream {
        Stream { taint, fed: true, ..Stream::default() }
    }

    fn nothing() -> Stream {
        Stream::text(b"")
    }

    /// One after the other.
    fn then(mut self, other: Stream) -> Stream {
        let is_first = self.text.as_ref().is_some_and(|text| text.is_empty());
        self.names = if is_first { other.names } else { None };
        self.text = match (self.text, other.text) {
            (Some(one), Some(two)) if one.is_empty() && two.len() <= LONGEST => Some(two),
            (Some(mut one), Some(two)) if one.len() + two.len() <= LONGEST => {
                one.extend_from_slice(&two);
                Some(one)
            }
            _ => None,
        };
        self.taint = self.taint.and(other.taint);
        self.file = self.file.or(other.file);
        self
    }
}

/// A command on its way to a program.
pub struct Started {
    pub args: Vec<Field>,
    pub writes: Vec<Field>,
    pub reads: Vec<Field>,
    pub input: Stream,
    pub span: Span,
}

pub struct Walker<'r> {
    pub findings: Findings<'r>,
    pub(super) variables: Variables,
    pub(super) functions: QuickMap<Bytes, (Rc<Node>, bool)>,
    pub(super) aliases: QuickMap<Bytes, Bytes>,
    /// What the script itself has written into files, and what stands behind process substitutions.
    pub(super) files: QuickMap<Bytes, Stream>,
    pub(super) standing: Standing,
    /// What names the last substitution gave, and those over which loops run: unknown words in them are such names.
    pub(super) substituted: Option<Rc<Loss>>,
    pub(super) loops: Vec<Rc<Loss>>,
    /// What `trap` keeps for the end.
    pub(super) traps: Vec<(Bytes, Span)>,
    /// How deep it may still go.
    pub(super) depth: usize,
}

/// The first of several commands, and those that run if it fails; nothing if there are others between them.
fn alternatives(parts: &[Node]) -> Option<(&Node, &[Node])> {
    let (first, others) = parts.split_first()?;
    let is_other = |node: &Node| matches!(node, Node::Body { kind: Kind::Branch, redirects, .. } if redirects.is_empty());
    (!others.is_empty() && !is_other(first) && others.iter().all(is_other)).then_some((first, others))
}

/// Functions and traps of the shells around one.
#[derive(Default)]
pub(super) struct Defined {
    functions: Vec<Bytes>,
    traps: usize,
}

impl<'r> Walker<'r> {
    pub fn new(findings: Findings<'r>, depth: usize) -> Self {
        let mut variables = Variables::default();
        for (name, value) in findings.rules.sight().iter().flat_map(|sight| &sight.variables) {
            variables.assign(name, vec![Text::known(value)], false);
        }
        Walker {
            findings,
            variables,
            functions: QuickMap::default(),
            aliases: QuickMap::default(),
            files: QuickMap::default(),
            standing: Standing::Project,
            substituted: None,
            loops: Vec::new(),
            traps: Vec::new(),
            depth,
        }
    }

    /// Reads and walks a script.
    pub fn script(&mut self, source: &[u8], stands: Stands, input: Stream) -> Stream {
        let whole = stands.of(Span::new(0, source.len()));
        if !self.findings.pay(1 + source.len() / 256, whole) {
            return Stream::unknown(Taint::NONE);
        }
        let list = match parse(source, stands, self.depth) {
            Ok(list) => list,
            Err(Trouble::Syntax(offset)) => {
                let offset = offset.min(source.len());
                let place = stands.of(Span::new(offset, source.len().min(offset + 1)));
                self.findings.fact("unreadable", place);
                self.before_mistake(&source[..offset], stands);
                return Stream::unknown(Taint::NONE);
            }
            Err(Trouble::TooDeep) => {
                self.findings.fact("too-deep", whole);
                return Stream::unknown(Taint::NONE);
            }
        };
        self.list(&list, &input)
    }

    /// Walks what stands before a mistake: a shell runs it before it notices.
    fn before_mistake(&mut self, source: &[u8], stands: Stands) {
        // A mistake may be noticed long after it began.
        const TRIES: usize = 8;
        let ends = source.iter().enumerate().rev().filter(|(_, byte)| b";&\n".contains(byte));
        for (end, _) in ends.take(TRIES) {
            if !self.findings.pay(1 + end / 256, stands.of(Span::new(0, end))) {
                return;
            }
            if let Ok(list) = parse(&source[..end], stands, self.depth) {
                self.list(&list, &Stream::default());
                return;
            }
        }
    }

    /// Walks what a shell restores before a line. Its functions wait until the line calls them, except those that run unasked.
    pub fn restore(&mut self, state: State<'_>) {
        self.script(state.text, Stands::Within(Span::default()), Stream::default());
        for (name, (_, called)) in &mut self.functions {
            *called = !RUN_UNASKED.contains(&name.as_slice());
        }
        // The parser of a line does not look for aliases where it expects a reserved word.
        let aliases: Vec<Bytes> = self
            .aliases
            .iter()
            .filter(|(name, _)| RESERVED.contains(&name.as_slice()))
            .map(|(_, text)| text.clone())
            .collect();
        for text in aliases {
            self.script(&text, Stands::Within(Span::default()), Stream::default());
        }
        self.standing = match std::mem::take(&mut self.standing) {
            _ if state.elsewhere => Standing::Project,
            Standing::In(directory) => match directory.strip_prefix(state.start) {
                Some(b"" | b"/") => Standing::Project,
                Some([b'/', below @ ..]) => Standing::In(below.to_vec()),
                _ => Standing::In(directory),
            },
            Standing::Project => Standing::Project,
        };
    }

    /// A program with its arguments, started without a shell.
    pub fn start(&mut self, args: Vec<Field>, span: Span) -> Stream {
        let input = Stream::default();
        self.command(Started { args, writes: Vec::new(), reads: Vec::new(), input, span })
    }

    /// A line that some program gives to a shell.
    pub fn line_of_code(&mut self, text: &[u8], span: Span) {
        self.code(Language::Shell, text, span, Stream::default());
    }

    /// Code in code.
    pub fn nested(&mut self, language: Language, text: &[u8], span: Span) {
        self.code(language, text, span, Stream::default());
    }

    /// Where the shell stands.
    pub fn stands(&self) -> &Standing {
        &self.standing
    }

    pub fn remaining_depth(&self) -> usize {
        self.depth
    }

    /// What runs after the last command: functions that nobody has called, because whoever reads the script may, and traps.
    pub fn finish(&mut self) {
        self.finish_since(&Defined::default());
    }

    /// What a shell has defined up to here.
    pub(super) fn defined(&self) -> Defined {
        Defined { functions: self.functions.keys().cloned().collect(), traps: self.traps.len() }
    }

    /// The same for a shell that ends here: it knows its own variables, and takes its traps with it.
    pub(super) fn finish_since(&mut self, before: &Defined) {
        let mut waiting: Vec<(Bytes, Rc<Node>)> = Vec::new();
        for (name, (body, called)) in &self.functions {
            if !called && !before.functions.contains(name) {
                waiting.push((name.clone(), Rc::clone(body)));
            }
        }
        waiting.sort_by(|one, two| one.0.as_slice().cmp(two.0.as_slice()));
        for (_, body) in waiting {
            let any = Field { splits: true, ..Field::unknown(Span::default()) };
            self.variables.arguments.push(vec![any]);
            self.node(&body, &Stream::default());
            self.variables.arguments.pop();
        }
        // A trap may set another one; each costs a step.
        while self.traps.len() > before.traps
            && let Some((code, span)) = self.traps.pop()
        {
            self.code(Language::Shell, &code, span, Stream::default());
        }
    }

    pub(super) fn deeper<T>(&mut self, span: Span, walk: impl FnOnce(&mut Self) -> T) -> Option<T> {
        match self.depth.checked_sub(1) {
            Some(depth) => {
                self.depth = depth;
                let result = walk(self);
                self.depth += 1;
                Some(result)
            }
            None => {
                self.findings.fact("too-deep", span);
                None
            }
        }
    }

    pub(super) fn list(&mut self, list: &List, input: &Stream) -> Stream {
        let mut output = Stream::nothing();
        for node in list {
            output = output.then(self.node(node, input));
        }
        output
    }

    /// As in a process of its own: what it assigns is gone afterwards.
    pub(super) fn apart(&mut self, list: &List) -> Stream {
        let (mark, standing) = (self.variables.mark(), self.standing.clone());
        let output = self.deeper(Span::default(), |walker| walker.list(list, &Stream::default()));
        self.variables.back_to(mark);
        self.standing = standing;
        output.unwrap_or_else(|| Stream::unknown(Taint::NONE))
    }

    fn node(&mut self, node: &Node, input: &Stream) -> Stream {
        let unknown = || Stream::unknown(Taint::NONE);
        match node {
            Node::Simple(simple) => self.simple(simple, input),
            _ => self.deeper(Span::default(), |walker| walker.compound(node, input)).unwrap_or_else(unknown),
        }
    }

    fn compound(&mut self, node: &Node, input: &Stream) -> Stream {
        match node {
            Node::Simple(simple) => self.simple(simple, input),
            Node::Pipe(stages) => {
                let mut stream = input.clone();
                for stage in stages {
                    stream = self.node(stage, &stream);
                }
                stream
            }
            Node::Background(inner) => self.node(inner, input),
            Node::Words(words) => {
                self.expand_words(words, &mut Choices::default());
                Stream::nothing()
            }
            Node::Function { name, body, span } => {
                if runs_itself(body, name) {
                    self.findings.fact("fork-bomb", *span);
                }
                self.functions.insert(name.clone(), (Rc::clone(body), false));
                Stream::nothing()
            }
            Node::Body { kind, parts, redirects } => {
                self.redirected(redirects, input, |walker, input| match kind {
                    Kind::Group => match alternatives(parts) {
                        Some((first, others)) => walker.first_of(first, others, input),
                        None => walker.list(parts, input),
                    },
                    Kind::Subshell => {
                        let (mark, standing) = (walker.variables.mark(), walker.standing.clone());
                        let output = walker.list(parts, input);
                        walker.variables.back_to(mark);
                        walker.standing = standing;
                        output
                    }
                    Kind::Branch => walker.over_names(input.names.clone(), |walker| {
                        walker.rounds(b"", |walker| walker.list(parts, input))
                    }),
                })
            }
            Node::For { name, words, body, redirects } => {
                self.redirected(redirects, input, |walker, input| {
                    walker.substituted = None;
                    let fields = walker.expand_words(words, &mut Choices::default());
                    let names = walker.substituted.take();
                    let texts =
                        fields.into_iter().map(|field| Text { bytes: field.text, taint: field.taint });
                    walker.variables.assign_one_of(name, texts.collect());
                    walker.over_names(names, |walker| walker.rounds(name, |walker| walker.list(body, input)))
                })
            }
        }
    }

    /// `first || other || …`. Where the first prints the name of a file that it has made, another one prints at most one other text: that one
    /// counts, because a new file is the least of what it can name.
    fn first_of(&mut self, first: &Node, others: &[Node], input: &Stream) -> Stream {
        let mut output = self.node(first, input);
        let mut other_text: Option<Bytes> = None;
        let mut is_known = output.text.as_deref() == Some(MADE);
        for other in others {
            let Node::Body { parts, .. } = other else { continue };
            let mut printed = None;
            let stream = self.over_names(input.names.clone(), |walker| {
                walker.rounds_telling(b"", &mut printed, |walker| walker.list(parts, input))
            });
            match printed.map(|text: Bytes| text.strip_suffix(b"\n").map_or(text.clone(), Into::into)) {
                Some(text) if text.as_slice() == MADE => {}
                Some(text) if other_text.as_ref().is_none_or(|known| *known == text) => {
                    other_text = Some(text)
                }
                _ => is_known = false,
            }
            output = output.then(stream);
        }
        match is_known {
            true => Stream { text: Some(other_text.unwrap_or_else(|| MADE.into())), ..output },
            false => output,
        }
    }

    /// A loop over names, if there are any.
    fn over_names<T>(&mut self, names: Option<Rc<Loss>>, walk: impl FnOnce(&mut Self) -> T) -> T {
        let before = self.loops.len();
        self.loops.extend(names);
        let result = walk(self);
        self.loops.truncate(before);
        result
    }

    /// A branch or a loop: what it assigns may be there afterwards, and at its next round.
    fn rounds(&mut self, counter: &[u8], walk: impl Fn(&mut Self) -> Stream) -> Stream {
        self.rounds_telling(counter, &mut None, walk)
    }

    /// The same; `printed` is what one round prints.
    fn rounds_telling(
        &mut self,
        counter: &[u8],
        printed: &mut Option<Bytes>,
        walk: impl Fn(&mut Self) -> Stream,
    ) -> Stream {
        self.variables.branches += 1;
        let mark = self.variables.mark();
        let mut output = walk(self);
        if self.variables.mark() > mark && self.variables.loosen_since(mark, counter) {
            output = walk(self);
        }
        self.variables.branches -= 1;
        printed.clone_from(&output.text);
        // How often it runs is not known.
        Stream { text: None, ..output }
    }

    /// A compound command with its redirections.
    fn redirected(
        &mut self,
        redirects: &[Redirect],
        input: &Stream,
        walk: impl FnOnce(&mut Self, &Stream) -> Stream,
    ) -> Stream {
        if redirects.is_empty() {
            return walk(self, input);
        }
        let streams = self.redirections(redirects, input.clone(), &mut Choices::default());
        let output = walk(self, &streams.input);
        self.touch(&streams);
        self.keep_output(&streams.writes, output)
    }

    fn simple(&mut self, simple: &Simple, input: &Stream) -> Stream {
        let mut choices = Choices::default();
        let mut output = Stream::nothing();
        let mut alternatives_of: Vec<Vec<Vec<Text>>> = Vec::new();
        for round in 0.. {
            if round == COMBINATIONS {
                self.findings.fact("too-much", simple.span);
                break;
            }
            if !self.findings.pay(1, simple.span) {
                return Stream::unknown(Taint::NONE);
            }
            let values: Vec<Vec<Text>> =
                simple.assigns.iter().map(|assign| self.value_of(&assign.value, &mut choices)).collect();
            self.substituted = None;
            let args = self.expand_words(&simple.words, &mut choices);
            let names = self.substituted.take();
            // What is long costs more, also where it is added to what is there.
            let mut size: usize = args.iter().map(|arg| arg.text.len() + 64).sum();
            for (assign, value) in simple.assigns.iter().zip(&values) {
                size += value.iter().map(|text| text.bytes.len() + 32).sum::<usize>();
                size += if assign.append { self.variables.size(&assign.name) } else { 0 };
            }
            let cost = size / 512;
            if cost > 0 && !self.findings.pay(cost, simple.span) {
                return Stream::unknown(Taint::NONE);
            }
            let streams = self.redirections(&simple.redirects, input.clone(), &mut choices);
            if simple.words.is_empty() {
                self.touch(&streams);
                self.keep_output(&streams.writes, Stream::nothing());
                for (assign, value) in simple.assigns.iter().zip(&values) {
                    // Only the search path is handed on without being exported.
                    if let (b"PATH", Some(first)) = (assign.name.as_slice(), value.first()) {
                        self.set_for_programs(b"PATH", &first.bytes, simple.span);
                    }
                }
                alternatives_of.push(values);
            } else {
                let mark = self.variables.mark();
                let keeps = args.first().is_some_and(|arg| arg.text == b"export" || arg.text == b":");
                for (assign, value) in simple.assigns.iter().zip(values) {
                    if let Some(first) = value.first() {
                        self.set_for_programs(&assign.name, &first.bytes, simple.span);
                    }
                    self.variables.assign(&assign.name, value, assign.append);
                }
                let before = self.variables.mark();
                let Streams { input, writes, reads } = streams;
                let targets = writes.iter().map(|(field, _)| field.clone()).collect();
                let declares = args.first().is_some_and(|arg| DECLARES.contains(&arg.text.as_slice()));
                let started = Started { args, writes: targets, reads, input, span: simple.span };
                let result = self.over_names(names, |walker| walker.command(started));
                if declares {
                    self.declare_arrays(&simple.words, &mut choices);
                }
                // Only if nothing else was assigned since, it is taken back: the command may be `read` or `cd`.
                if !keeps && !simple.assigns.is_empty() && self.variables.mark() == before {
                    self.variables.back_to(mark);
                }
                output = self.keep_output(&writes, result);
            }
            if !choices.advance() {
                break;
            }
        }
        for (at, assign) in simple.assigns.iter().enumerate().filter(|_| simple.words.is_empty()) {
            let mut alternatives: Vec<Vec<Text>> = Vec::new();
            for values in alternatives_of.iter().filter_map(|values| values.get(at)) {
                if !alternatives.contains(values) {
                    alternatives.push(values.clone());
                }
            }
            match alternatives.len() {
                0 => {}
                1 => self.variables.assign(&assign.name, alternatives.remove(0), assign.append),
                _ => {
                    let texts = alternatives.into_iter().filter_map(|texts| texts.into_iter().next());
                    self.variables.assign_one_of(&assign.name, texts.collect());
                }
            }
        }
        output
    }

    /// Assigns what stands in brackets behind `declare` and its like.
    fn declare_arrays(&mut self, words: &[Word], choices: &mut Choices) {
        for word in words {
            if let [Piece::Text { bytes, quoted: false }, Piece::Array(_)] = word.pieces.as_slice() {
                let name = bytes.strip_suffix(b"=").unwrap_or(bytes);
                let (name, append) = name.strip_suffix(b"+").map_or((name, false), |name| (name, true));
                let value = self.value_of(word, choices);
                self.variables.assign(name, value, append);
            }
        }
    }

    /// A command with its arguments: an alias, a function or a program.
    pub(super) fn command(&mut self, mut started: Started) -> Stream {
        let span = started.span;
        // Each wrapper hands all arguments on.
        if started.args.len() > 64 && !self.findings.pay(started.args.len() / 64, span) {
            return Stream::unknown(Taint::NONE);
        }
        let Some(first) = started.args.first() else {
            // All of it was empty, or unknown and empty.
            return Stream::nothing();
        };
        if !self.aliases.is_empty()
            && let Some(text) = self.aliases.remove(&first.text)
        {
            let words = parse(&text, Stands::Within(first.span), self.depth).ok();
            let expanded = match words.as_deref() {
                Some([Node::Simple(simple)]) if simple.redirects.is_empty() && simple.assigns.is_empty() => {
                    Some(self.expand_words(&simple.words, &mut Choices::default()))
                }
                _ => None,
            };
            let name = started.args[0].text.clone();
            let output = match expanded {
                Some(mut args) => {
                    args.extend(started.args.drain(1..));
                    started.args = args;
                    self.deeper(span, |walker| walker.command(started))
                }
                None => {
                    self.deeper(span, |walker| walker.script(&text, Stands::Within(span), Stream::default()))
                }
            };
            self.aliases.insert(name, text);
            return output.unwrap_or_else(|| Stream::unknown(Taint::NONE));
        }
        if let Some((body, called)) = self.functions.get_mut(&first.text) {
            *called = true;
            let body = Rc::clone(body);
            self.variables.enter_function(started.args.split_off(1));
            let output = self.deeper(span, |walker| walker.node(&body, &started.input));
            self.variables.leave_function();
            return output.unwrap_or_else(|| Stream::unknown(Taint::NONE));
        }
        self.deeper(span, |walker| walker.program(&mut started))
            .unwrap_or_else(|| Stream::unknown(Taint::NONE))
    }

    fn redirections(&mut self, redirects: &[Redirect], input: Stream, choices: &mut Choices) -> Streams {
        let mut streams = Streams { input, writes: Vec::new(), reads: Vec::new() };
        for redirect in redirects {
            let word = match &redirect.target {
                Target::Word(word) => word,
                Target::Document(place) => match place.get() {
                    Some(word) => word,
                    None => continue,
                },
            };
            let text = self.text_of(word, choices);
            let field = Field { text: text.bytes, span: word.span, splits: false, taint: text.taint };
            match redirect.direction {
                Direction::Read => {
                    streams.input = self.file_stream(&field.text);
                    streams.reads.push(field);
                }
                Direction::Write => streams.writes.push((field, false)),
                Direction::Append => streams.writes.push((field, true)),
                Direction::Text => {
                    let mut bytes = field.text;
                    if matches!(redirect.target, Target::Word(_)) {
                        bytes.push(b'\n');
                    }
                    streams.input =
                        Stream { taint: field.taint, place: Some(field.span), ..Stream::text(&bytes) };
                }
                Direction::Descriptor => {}
            }
        }
        streams
    }

    /// What is in a file, as far as the script has written it.
    pub(super) fn file_stream(&self, path: &[u8]) -> Stream {
        match self.written(path) {
            Some(stream) => stream.clone(),
            None => {
                let seen = self.findings.looks.look(path, &self.standing);
                let secret = seen.is.meets(crate::paths::CREDENTIAL);
                let taint = if secret { Taint::SECRET } else { Taint::NONE };
                let file = (!path.contains(&UNKNOWN) && path != b"/dev/stdin").then(|| path.into());
                Stream { file, ..Stream::unknown(taint) }
            }
        }
    }

    /// What the script has written into a file, whether it says `./` or not.
    pub(super) fn written(&self, path: &[u8]) -> Option<&Stream> {
        self.files.get(plain_path(path))
    }

    pub(super) fn write(&mut self, path: &[u8], stream: Stream) {
        self.files.insert(plain_path(path).into(), stream);
    }

    pub(super) fn remember_stream(&mut self, stream: Stream) -> Bytes {
        let name = Bytes::from(format!("/dev/fd/{}", 63 + self.files.len()).into_bytes());
        self.files.insert(name.clone(), stream);
        name
    }

    /// Judges redirections that stand alone or around a compound command.
    fn touch(&mut self, streams: &Streams) {
        if streams.writes.is_empty() && streams.reads.is_empty() {
            return;
        }
        let span = streams
            .writes
            .first()
            .map(|(field, _)| field.span)
            .or(streams.reads.first().map(|field| field.span));
        let writes: Vec<Field> = streams.writes.iter().map(|(field, _)| field.clone()).collect();
        self.judge_call(None, &[], &writes, &streams.reads, &streams.input, span.unwrap_or_default());
    }

    /// Output that goes into a file does not go further.
    fn keep_output(&mut self, writes: &[(Field, bool)], output: Stream) -> Stream {
        let mut kept = false;
        for (field, append) in writes.iter().filter(|(field, _)| field.is_known()) {
            if matches!(field.text.as_slice(), b"/dev/stdout" | b"/dev/stderr" | b"/dev/tty" | b"/dev/null") {
                continue;
            }
            let before = self.files.remove(plain_path(&field.text)).filter(|_| *append);
            let stream = match before {
                Some(before) => before.then(output.clone()),
                None => output.clone(),
            };
            self.write(&field.text, stream);
            kept = true;
        }
        if kept { Stream { taint: Taint::NONE, ..Stream::nothing() } } else { output }
    }

    /// Judges a text as code of a language, in the place where a word stands.
    pub(super) fn code(&mut self, language: Language, text: &[u8], span: Span, input: Stream) -> Stream {
        if text.contains(&UNKNOWN) {
            self.findings.fact("unseen-code", span);
        }
        let stands = self.findings.literal(text, span);
        let output = self.deeper(span, |walker| match language {
            Language::Shell => walker.script(text, stands, input),
            Language::Python | Language::JavaScript => {
                crate::code::judge(walker, language, text, stands);
                Stream::unknown(Taint::NONE)
            }
        });
        output.unwrap_or_else(|| Stream::unknown(Taint::NONE))
    }

    /// Judges what flows in as code of a language.
    pub(super) fn stream_as_code(&mut self, stream: &Stream, language: Language, span: Span) -> Stream {
        if stream.taint.has(Taint::DOWNLOAD) {
            self.findings.fact("downloaded-code", span);
        } else if stream.taint.has(Taint::DECODED) {
            self.findings.fact("decoded-code", span);
        } else if let (None, Some(file)) = (&stream.text, &stream.file) {
            self.want(file, Some(language));
            return Stream::unknown(Taint::NONE);
        } else if stream.text.is_none() {
            self.findings.fact("unseen-code", span);
        }
        match &stream.text {
            Some(text) => {
                let literal = |place: &Span| matches!(self.findings.literal(text, *place), Stands::At(_));
                let span = stream.place.filter(literal).unwrap_or(span);
                self.code(language, text, span, Stream::default())
            }
            None => Stream::unknown(Taint::NONE),
        }
    }
}

/// The redirections of a command, expanded.
struct Streams {
    input: Stream,
    /// And whether the text is added to what is there.
    writes: Vec<(Field, bool)>,
    reads: Vec<Field>,
}

/// Without `./` at its beginning.
fn plain_path(mut path: &[u8]) -> &[u8] {
    while let Some(rest) = path.strip_prefix(b"./") {
        path = rest;
    }
    path
}

/// Whether a function starts itself twice, beside itself and without a condition: each call makes two.
fn runs_itself(node: &Node, name: &[u8]) -> bool {
    calls_beside(node, name, false) > 1
}

fn calls_beside(node: &Node, name: &[u8], beside: bool) -> usize {
    let all = |list: &List, beside| list.iter().map(|node| calls_beside(node, name, beside)).sum();
    match node {
        Node::Simple(simple) => {
            let first = simple.words.first().map(|word| word.pieces.as_slice());
            let same = matches!(first, Some([Piece::Text { bytes, .. }]) if bytes == name);
            usize::from(same && beside)
        }
        Node::Pipe(stages) => all(stages, true),
        Node::Background(inner) => calls_beside(inner, name, true),
        Node::Body { kind: Kind::Group | Kind::Subshell, parts, .. } => all(parts, beside),
        Node::Body { .. } | Node::For { .. } | Node::Function { .. } | Node::Words(_) => 0,
    }
}
