//! Reads a shell script: POSIX with what bash adds. Works on bytes; what it cannot read is an error, never a guess.

use super::syntax::{Assign, Direction, Kind, List, Node, Piece, Pieces, Redirect, Simple, Target, Word};
use crate::findings::FUEL;
use crate::text::{Bytes, Stands};
use crate::verdict::Span;
use std::cell::OnceCell;
use std::rc::Rc;

/// Why a script could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// At this byte.
    Syntax(usize),
    TooDeep,
}

pub type Read<T> = Result<T, Trouble>;

/// Reads a script. `depth` is how deep it may still nest.
pub fn parse(source: &[u8], stands: Stands, depth: usize) -> Read<List> {
    let mut parser = Parser::new(source, stands, depth);
    let list = parser.list(Stop::End)?;
    parser.read_documents()?;
    if parser.at < source.len() {
        return Err(Trouble::Syntax(parser.at));
    }
    Ok(list)
}

/// Where a list ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stop {
    End,
    Parenthesis,
    Words(&'static [&'static [u8]]),
}

pub(super) struct Parser<'a> {
    pub source: &'a [u8],
    pub at: usize,
    pub depth: usize,
    pub stands: Stands,
    /// Here-documents whose text begins after the line.
    pending: Vec<Pending>,
    /// Words of the commands that are being read: each takes its own when it is complete.
    words: Vec<Word>,
}

struct Pending {
    place: Rc<OnceCell<Word>>,
    delimiter: Vec<u8>,
    expands: bool,
    strips_tabs: bool,
}

const DONE: Stop = Stop::Words(&[b"done"]);

impl<'a> Parser<'a> {
    pub fn new(source: &'a [u8], stands: Stands, depth: usize) -> Self {
        Parser { source, at: 0, depth, stands, pending: Vec::new(), words: Vec::new() }
    }

    pub fn span(&self, start: usize) -> Span {
        self.stands.of(Span::new(start, self.at))
    }

    pub fn peek(&self) -> Option<u8> {
        self.source.get(self.at).copied()
    }

    pub fn peek_at(&self, ahead: usize) -> Option<u8> {
        self.source.get(self.at + ahead).copied()
    }

    pub fn looks_at(&self, text: &[u8]) -> bool {
        self.source[self.at.min(self.source.len())..].starts_with(text)
    }

    pub fn take(&mut self, text: &[u8]) -> bool {
        let there = self.looks_at(text);
        self.at += if there { text.len() } else { 0 };
        there
    }

    pub fn want(&mut self, text: &[u8]) -> Read<()> {
        if self.take(text) { Ok(()) } else { Err(Trouble::Syntax(self.at)) }
    }

    pub fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        self.depth = self.depth.checked_sub(1).ok_or(Trouble::TooDeep)?;
        let result = read(self);
        self.depth += 1;
        result
    }

    /// Blanks, continued lines and comments, within a line.
    pub fn blanks(&mut self) {
        loop {
            match self.peek() {
                Some(b' ' | b'\t' | b'\r') => self.at += 1,
                Some(b'\\') if self.peek_at(1) == Some(b'\n') => self.at += 2,
                Some(b'#') => {
                    let rest = &self.source[self.at..];
                    self.at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
                }
                _ => return,
            }
        }
    }

    /// Blanks and line ends.
    fn gaps(&mut self) -> Read<()> {
        loop {
            self.blanks();
            if self.peek() != Some(b'\n') {
                return Ok(());
            }
            self.at += 1;
            self.read_documents()?;
        }
    }

    /// The reserved word that stands here.
    fn word_here(&self) -> &'a [u8] {
        let rest = &self.source[self.at.min(self.source.len())..];
        let ends = |byte: &u8| {
            matches!(
                byte,
                b' ' | b'\t' | b'\r' | b'\n' | b';' | b'&' | b'|' | b'<' | b'>' | b'(' | b')' | b'#'
            ) || makes_ordinary(byte)
        };
        let end = rest.iter().position(ends).unwrap_or(rest.len());
        if rest.get(end).is_some_and(makes_ordinary) { &[] } else { &rest[..end] }
    }

    fn take_word(&mut self, word: &[u8]) -> bool {
        let there = self.word_here() == word;
        self.at += if there { word.len() } else { 0 };
        there
    }

    fn at_stop(&self, stop: Stop) -> bool {
        match stop {
            Stop::End => false,
            Stop::Parenthesis => self.peek() == Some(b')'),
            Stop::Words(words) => {
                if self.peek() == Some(b';') {
                    let ends = self.looks_at(b";;") || self.looks_at(b";&");
                    return ends && words.contains(&b";;".as_slice());
                }
                let first = self.peek();
                words.iter().any(|word| word.first().copied() == first && self.word_here() == *word)
            }
        }
    }

    pub fn list(&mut self, stop: Stop) -> Read<List> {
        self.deeper(|parser| {
            let mut list = List::new();
            let mut commands = 0;
            loop {
                parser.gaps()?;
                if parser.at >= parser.source.len() || parser.at_stop(stop) {
                    return Ok(list);
                }
                parser.and_or(&mut list)?;
                parser.blanks();
                match parser.peek() {
                    Some(b';') if parser.at_stop(stop) => {}
                    Some(b';') => parser.at += 1,
                    Some(b'&') => {
                        parser.at += 1;
                        if let Some(last) = list.pop() {
                            list.push(Node::Background(Box::new(last)));
                        }
                    }
                    Some(b'\n') | None => {}
                    _ if parser.at_stop(stop) => {}
                    _ => return Err(Trouble::Syntax(parser.at)),
                }
                // Whoever walks through a whole script has nothing left for more; it must only be readable.
                if stop == Stop::End && matches!(list.last(), Some(Node::Simple(_))) {
                    commands += 1;
                    if commands > FUEL + 1 {
                        list.pop();
                    }
                }
            }
        })
    }

    fn and_or(&mut self, list: &mut List) -> Read<()> {
        let first = self.pipeline()?;
        self.blanks();
        if !self.looks_at(b"&&") && !self.looks_at(b"||") {
            list.push(first);
            return Ok(());
        }
        let mut parts = vec![first];
        loop {
            self.blanks();
            if self.take(b"&&") {
                self.gaps()?;
                parts.push(self.pipeline()?);
            } else if self.take(b"||") {
                self.gaps()?;
                let next = self.pipeline()?;
                parts.push(Node::Body { kind: Kind::Branch, parts: vec![next], redirects: Vec::new() });
            } else {
                list.push(Node::Body { kind: Kind::Group, parts, redirects: Vec::new() });
                return Ok(());
            }
        }
    }

    fn pipeline(&mut self) -> Read<Node> {
        loop {
            self.blanks();
            match self.peek() {
                Some(b'!') if self.take_word(b"!") => {}
                Some(b't') if self.take_word(b"time") => {
                    self.blanks();
                    self.take_word(b"-p");
                }
                _ => break,
            }
        }
        let first = self.command()?;
        if !self.takes_pipe() {
            return Ok(first);
        }
        let mut stages = vec![first];
        loop {
            self.gaps()?;
            stages.push(self.command()?);
            if !self.takes_pipe() {
                return Ok(Node::Pipe(stages));
            }
        }
    }

    /// Goes past a `|`, if the next stage of a pipeline follows.
    fn takes_pipe(&mut self) -> bool {
        self.blanks();
        !self.looks_at(b"||") && (self.take(b"|&") || self.take(b"|"))
    }

    fn command(&mut self) -> Read<Node> {
        self.deeper(|parser| {
            parser.blanks();
            if parser.looks_at(b"((")
                && let Some(pieces) = parser.arithmetic_command()?
            {
                return Ok(pieces);
            }
            if parser.take(b"(") {
                let parts = parser.list(Stop::Parenthesis)?;
                parser.want(b")")?;
                return parser.body(Kind::Subshell, parts);
            }
            match parser.word_here() {
                b"{" => parser.group(),
                b"if" => parser.branches(),
                b"while" | b"until" => parser.repeat(),
                b"for" | b"select" => parser.each(),
                b"case" => parser.cases(),
                b"[[" => parser.test(),
                b"function" => {
                    parser.take_word(b"function");
                    parser.blanks();
                    let start = parser.at;
                    let name = Bytes::from(parser.word_here());
                    if name.is_empty() {
                        return Err(Trouble::Syntax(start));
                    }
                    parser.at += name.len();
                    parser.blanks();
                    if parser.take(b"(") {
                        parser.blanks();
                        parser.want(b")")?;
                    }
                    parser.function(name, start)
                }
                b"then" | b"do" | b"done" | b"fi" | b"else" | b"elif" | b"esac" | b"}" | b"in" | b"]]" => {
                    Err(Trouble::Syntax(parser.at))
                }
                _ => parser.simple(),
            }
        })
    }

    fn function(&mut self, name: Bytes, start: usize) -> Read<Node> {
        self.gaps()?;
        let body = Rc::new(self.command()?);
        Ok(Node::Function { name, body, span: self.span(start) })
    }

    /// A compound command, with the redirections that follow it.
    fn body(&mut self, kind: Kind, parts: List) -> Read<Node> {
        let redirects = self.redirects()?;
        Ok(Node::Body { kind, parts, redirects })
    }

    fn redirects(&mut self) -> Read<Vec<Redirect>> {
        let mut redirects = Vec::new();
        loop {
            self.blanks();
            match self.redirect()? {
                Some(redirect) => redirects.push(redirect),
                None => return Ok(redirects),
            }
        }
    }

    fn group(&mut self) -> Read<Node> {
        self.take_word(b"{");
        let parts = self.list(Stop::Words(&[b"}"]))?;
        self.want_word(b"}")?;
        self.body(Kind::Group, parts)
    }

    fn want_word(&mut self, word: &[u8]) -> Read<()> {
        if self.take_word(word) { Ok(()) } else { Err(Trouble::Syntax(self.at)) }
    }

    fn branches(&mut self) -> Read<Node> {
        self.take_word(b"if");
        let mut parts = self.list(Stop::Words(&[b"then"]))?;
        self.want_word(b"then")?;
        loop {
            let branch = self.list(Stop::Words(&[b"elif", b"else", b"fi"]))?;
            parts.push(Node::Body { kind: Kind::Branch, parts: branch, redirects: Vec::new() });
            if self.take_word(b"elif") {
                parts.append(&mut self.list(Stop::Words(&[b"then"]))?);
                self.want_word(b"then")?;
            } else if self.take_word(b"else") {
                continue;
            } else {
                self.want_word(b"fi")?;
                return self.body(Kind::Group, parts);
            }
        }
    }

    fn repeat(&mut self) -> Read<Node> {
        self.at += self.word_here().len();
        let mut parts = self.list(Stop::Words(&[b"do"]))?;
        self.want_word(b"do")?;
        parts.append(&mut self.list(DONE)?);
        self.want_word(b"done")?;
        self.body(Kind::Branch, parts)
    }

    fn each(&mut self) -> Read<Node> {
        self.at += self.word_here().len();
        self.blanks();
        if self.looks_at(b"((") {
            let Some(head) = self.arithmetic_command()? else { return Err(Trouble::Syntax(self.at)) };
            self.blanks();
            self.take(b";");
            self.gaps()?;
            let mut parts = vec![head];
            parts.append(&mut self.loop_body()?);
            return self.body(Kind::Branch, parts);
        }
        let name = Bytes::from(self.word_here());
        self.at += name.len();
        if name.is_empty() {
            return Err(Trouble::Syntax(self.at));
        }
        self.gaps()?;
        let mut words = Vec::new();
        if self.take_word(b"in") {
            loop {
                self.blanks();
                match self.word()? {
                    Some(word) => words.push(word),
                    None => break,
                }
            }
        } else {
            words.push(Word::all_arguments(self.span(self.at)));
        }
        self.blanks();
        self.take(b";");
        self.gaps()?;
        let body = self.loop_body()?;
        let redirects = self.redirects()?;
        Ok(Node::For { name, words, body, redirects })
    }

    fn loop_body(&mut self) -> Read<List> {
        if self.take_word(b"{") {
            let body = self.list(Stop::Words(&[b"}"]))?;
            self.want_word(b"}")?;
            return Ok(body);
        }
        self.want_word(b"do")?;
        let body = self.list(DONE)?;
        self.want_word(b"done")?;
        Ok(body)
    }

    fn cases(&mut self) -> Read<Node> {
        self.take_word(b"case");
        self.blanks();
        let Some(subject) = self.word()? else { return Err(Trouble::Syntax(self.at)) };
        self.gaps()?;
        self.want_word(b"in")?;
        let mut parts = vec![Node::Words(vec![subject])];
        loop {
            self.gaps()?;
            if self.take_word(b"esac") {
                return self.body(Kind::Group, parts);
            }
            self.take(b"(");
            let mut patterns = Vec::new();
            loop {
                self.blanks();
                match self.word()? {
                    Some(word) => patterns.push(word),
                    None if self.take(b"|") => {}
                    None => break,
                }
            }
            self.want(b")")?;
            parts.push(Node::Words(patterns));
            let arm = self.list(Stop::Words(&[b";;", b"esac"]))?;
            parts.push(Node::Body { kind: Kind::Branch, parts: arm, redirects: Vec::new() });
            let _ = self.take(b";;&") || self.take(b";;") || self.take(b";&");
        }
    }

    /// `[[ … ]]`: words and operators; nothing runs but what is substituted.
    fn test(&mut self) -> Read<Node> {
        self.take_word(b"[[");
        let mut words = Vec::new();
        loop {
            self.gaps()?;
            if self.take_word(b"]]") {
                let parts = vec![Node::Words(words)];
                return self.body(Kind::Group, parts);
            }
            match self.word()? {
                Some(word) => words.push(word),
                None if self.peek().is_some_and(|byte| b"()<>&|!".contains(&byte)) => self.at += 1,
                None => return Err(Trouble::Syntax(self.at)),
            }
        }
    }

    fn simple(&mut self) -> Read<Node> {
        let start = self.at;
        let (mut assigns, mut redirects) = (Vec::new(), Vec::new());
        let words = self.words.len();
        let mut end = start;
        loop {
            self.blanks();
            if let Some(redirect) = self.redirect()? {
                redirects.push(redirect);
                end = self.at;
                continue;
            }
            let from = self.at;
            let Some(word) = self.word()? else { break };
            end = self.at;
            if self.words.len() == words {
                self.blanks();
                if self.peek() == Some(b'(')
                    && assigns.is_empty()
                    && let Some(name) = function_name(&self.source[from..end])
                {
                    self.at += 1;
                    self.blanks();
                    self.want(b")")?;
                    return self.function(name.into(), start);
                }
                match word.into_assign() {
                    Ok(assign) => assigns.push(assign),
                    Err(word) => self.words.push(word),
                }
            } else {
                self.words.push(word);
            }
        }
        let words: Vec<Word> = self.words.drain(words..).collect();
        if words.is_empty() && assigns.is_empty() && redirects.is_empty() {
            return Err(Trouble::Syntax(self.at));
        }
        let span = self.stands.of(Span::new(start, end));
        Ok(Node::Simple(Simple { assigns, words, redirects, span }))
    }

    fn redirect(&mut self) -> Read<Option<Redirect>> {
        let start = self.at;
        if !matches!(self.peek(), Some(b'<' | b'>' | b'&' | b'{' | b'0'..=b'9')) {
            return Ok(None);
        }
        if self.take(b"{") {
            // {name}>file
            while self.peek().is_some_and(|byte| byte == b'_' || byte.is_ascii_alphanumeric()) {
                self.at += 1;
            }
            if !(self.at > start + 1 && self.take(b"}")) {
                self.at = start;
            }
        } else {
            while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                self.at += 1;
            }
        }
        let process = self.looks_at(b"<(") || self.looks_at(b">(");
        if process || !self.peek().is_some_and(|byte| b"<>&".contains(&byte)) {
            self.at = start;
            return Ok(None);
        }
        let document = |strip| (Direction::Text, Some(strip));
        let (direction, document) = match () {
            () if self.take(b"&>>") || self.take(b">>") => (Direction::Append, None),
            () if self.take(b"&>") => (Direction::Write, None),
            () if self.peek() == Some(b'&') => {
                self.at = start;
                return Ok(None);
            }
            () if self.take(b"<<<") => (Direction::Text, None),
            () if self.take(b"<<-") => document(true),
            () if self.take(b"<<") => document(false),
            () if self.take(b"<&") || self.take(b">&") => (Direction::Descriptor, None),
            () if self.take(b">|") || self.take(b"<>") || self.take(b">") => (Direction::Write, None),
            () => {
                self.want(b"<")?;
                (Direction::Read, None)
            }
        };
        self.blanks();
        let from = self.at;
        let Some(word) = self.word()? else { return Err(Trouble::Syntax(self.at)) };
        let Some(strip) = document else {
            // `>&file` writes a file; `>&2` does not.
            let raw = &self.source[from..self.at];
            let number = raw.iter().all(|byte| byte.is_ascii_digit() || *byte == b'-');
            let direction = match direction {
                Direction::Descriptor if !number => Direction::Write,
                other => other,
            };
            return Ok(Some(Redirect { direction, target: Target::Word(word) }));
        };
        let raw = &self.source[from..self.at];
        let quoted = raw.iter().any(|byte| b"\"'\\".contains(byte));
        let delimiter: Vec<u8> = raw.iter().copied().filter(|byte| !b"\"'\\".contains(byte)).collect();
        let place = Rc::new(OnceCell::new());
        let target = Target::Document(Rc::clone(&place));
        self.pending.push(Pending { place, delimiter, expands: !quoted, strips_tabs: strip });
        Ok(Some(Redirect { direction, target }))
    }

    /// The here-documents that begin at this line.
    pub fn read_documents(&mut self) -> Read<()> {
        for Pending { place, delimiter, expands, strips_tabs } in std::mem::take(&mut self.pending) {
            let mut body = Vec::new();
            let start = self.at;
            let mut end = start;
            while self.at < self.source.len() {
                let rest = &self.source[self.at..];
                let length = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |at| at + 1);
                let mut line = &rest[..length];
                self.at += length;
                if strips_tabs {
                    line = &line[line.iter().take_while(|byte| **byte == b'\t').count()..];
                }
                let bare = line.strip_suffix(b"\n").unwrap_or(line);
                if bare == delimiter {
                    break;
                }
                body.extend_from_slice(line);
                end = self.at;
            }
            let span = self.stands.of(Span::new(start, end));
            let pieces = if expands {
                // Where it is indented anew, its parts have no place of their own.
                let stands = if strips_tabs { Stands::Within(span) } else { self.stands.further(start) };
                let mut inner = Parser::new(&body, stands, self.depth);
                inner.document_text()?
            } else {
                Pieces::One(Piece::Text { bytes: body.into(), quoted: true })
            };
            // Each place is filled once: it leaves the list here.
            let _ = place.set(Word { pieces, span });
        }
        Ok(())
    }
}

/// A quote or an expansion makes an ordinary word of a reserved one.
fn makes_ordinary(byte: &u8) -> bool {
    matches!(byte, b'"' | b'\'' | b'\\' | b'$' | b'`')
}

/// A word that can be the name of a function in `name()`.
fn function_name(raw: &[u8]) -> Option<&[u8]> {
    let plain =
        |byte: &u8| !makes_ordinary(byte) && !matches!(byte, b'=' | b'<' | b'>' | b'(' | b')' | b'{' | b'}');
    (!raw.is_empty() && raw.iter().all(plain)).then_some(raw)
}

impl Word {
    /// As an assignment, if it is one.
    fn into_assign(mut self) -> Result<Assign, Word> {
        let Some(Piece::Text { bytes, quoted: false }) = self.pieces.as_mut_slice().first_mut() else {
            return Err(self);
        };
        let name_end = bytes.iter().position(|byte| *byte != b'_' && !byte.is_ascii_alphanumeric());
        let Some(name_end) = name_end.filter(|end| *end > 0 && !bytes[0].is_ascii_digit()) else {
            return Err(self);
        };
        let mut value = name_end;
        if bytes[value] == b'[' {
            let Some(close) = bytes.iter().position(|byte| *byte == b']') else { return Err(self) };
            value = close + 1;
        }
        let append = bytes.get(value) == Some(&b'+');
        value += usize::from(append);
        if bytes.get(value) != Some(&b'=') {
            return Err(self);
        }
        let name = Bytes::from(&bytes[..name_end]);
        // An element of an array is added to what is there.
        let append = append || bytes[name_end] == b'[';
        *bytes = bytes.without_first(value + 1);
        Ok(Assign { name, value: self, append })
    }
}
