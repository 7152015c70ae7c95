//! Reads words: quotes, expansions, substitutions.

use super::parse::{Parser, Read, Stop, Trouble};
use super::syntax::{Change, Kind, Node, Piece, Pieces, Word};
use crate::text::{Bytes, Stands};
use crate::verdict::Span;
use std::rc::Rc;

impl Word {
    /// `"$@"`.
    pub fn all_arguments(span: Span) -> Word {
        let piece = Piece::Variable { name: b"@".as_slice().into(), change: Change::None, quoted: true };
        Word { pieces: Pieces::One(piece), span }
    }
}

/// Where a run of word characters ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Until {
    /// At a metacharacter.
    Meta,
    /// At `}`.
    Brace,
    /// At the end of the text: here-documents, arithmetic.
    End,
}

impl Parser<'_> {
    pub fn word(&mut self) -> Read<Option<Word>> {
        let start = self.at;
        let pieces = self.pieces(Until::Meta)?;
        if self.at == start {
            return Ok(None);
        }
        Ok(Some(Word { pieces, span: self.span(start) }))
    }

    /// The text of a here-document: as in double quotes, but quotes are text.
    pub fn document_text(&mut self) -> Read<Pieces> {
        let mut pieces = Pieces::None;
        self.double_quoted(None, &mut pieces)?;
        Ok(pieces)
    }

    fn pieces(&mut self, until: Until) -> Read<Pieces> {
        let mut pieces = Pieces::None;
        while let Some(byte) = self.peek() {
            match byte {
                b'\\' if self.peek_at(1) == Some(b'\n') => self.at += 2,
                b'\\' => {
                    let escaped = self.peek_at(1).unwrap_or(b'\\');
                    push(&mut pieces, &[escaped], true);
                    self.at = (self.at + 2).min(self.source.len());
                }
                b'\'' => {
                    let from = self.at + 1;
                    let Some(length) = self.source[from..].iter().position(|byte| *byte == b'\'') else {
                        return Err(Trouble::Syntax(self.at));
                    };
                    push(&mut pieces, &self.source[from..from + length], true);
                    self.at = from + length + 1;
                }
                b'"' => {
                    self.at += 1;
                    push(&mut pieces, b"", true);
                    self.double_quoted(Some(b'"'), &mut pieces)?;
                }
                b'$' => self.dollar(false, &mut pieces)?,
                b'`' => self.backticks(false, &mut pieces)?,
                b'}' if until == Until::Brace => break,
                b'<' | b'>'
                    if until == Until::Meta
                        && matches!(pieces, Pieces::None)
                        && self.peek_at(1) == Some(b'(') =>
                {
                    self.at += 2;
                    let body = self.list(Stop::Parenthesis)?;
                    self.want(b")")?;
                    pieces.push(Piece::Process { body: Rc::new(body) });
                }
                b'(' if until == Until::Meta && is_assignment(pieces.as_slice()) => {
                    self.at += 1;
                    pieces.push(Piece::Array(self.array()?));
                }
                b'(' if until == Until::Meta && self.is_pattern_group(pieces.as_slice()) => {
                    self.pattern_group(&mut pieces)?;
                }
                b' ' | b'\t' | b'\n' | b'\r' | b';' | b'&' | b'|' | b'<' | b'>' | b'(' | b')'
                    if until == Until::Meta =>
                {
                    break;
                }
                _ => {
                    // Whatever stands here is text, and so is what means nothing anywhere.
                    let rest = &self.source[self.at..];
                    let length = rest.iter().skip(1).take_while(|byte| is_plain(**byte)).count() + 1;
                    push(&mut pieces, &rest[..length], false);
                    self.at += length;
                }
            }
        }
        Ok(pieces)
    }

    fn array(&mut self) -> Read<Vec<Word>> {
        self.deeper(|parser| {
            let mut words = Vec::new();
            loop {
                parser.blanks();
                if parser.take(b"\n") {
                    continue;
                }
                if parser.take(b")") {
                    return Ok(words);
                }
                match parser.word()? {
                    Some(word) => words.push(without_key(word)),
                    None => return Err(Trouble::Syntax(parser.at)),
                }
            }
        })
    }

    /// `+(a|b)` and its like within a word.
    fn is_pattern_group(&self, pieces: &[Piece]) -> bool {
        let before = self.at.checked_sub(1).and_then(|at| self.source.get(at));
        !pieces.is_empty() && before.is_some_and(|byte| b"?*+@!".contains(byte))
    }

    fn pattern_group(&mut self, pieces: &mut Pieces) -> Read<()> {
        let start = self.at;
        let mut open = 0usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'(' => open += 1,
                b')' => open -= 1,
                // Nothing that could run may hide in it.
                b'$' | b'`' | b'\\' | b'\'' | b'"' | b'\n' => return Err(Trouble::Syntax(self.at)),
                _ => {}
            }
            self.at += 1;
            if open == 0 {
                push(pieces, &self.source[start..self.at], false);
                return Ok(());
            }
        }
        Err(Trouble::Syntax(start))
    }

    fn double_quoted(&mut self, end: Option<u8>, pieces: &mut Pieces) -> Read<()> {
        loop {
            match self.peek() {
                None if end.is_none() => return Ok(()),
                None => return Err(Trouble::Syntax(self.at)),
                Some(byte) if Some(byte) == end => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => match self.peek_at(1) {
                    Some(b'\n') => self.at += 2,
                    Some(next) if b"$`\\".contains(&next) || Some(next) == end => {
                        push(pieces, &[next], true);
                        self.at += 2;
                    }
                    _ => {
                        push(pieces, b"\\", true);
                        self.at += 1;
                    }
                },
                Some(b'$') => self.dollar(true, pieces)?,
                Some(b'`') => self.backticks(true, pieces)?,
                Some(_) => {
                    let rest = &self.source[self.at..];
                    let stop = |byte: &u8| matches!(byte, b'\\' | b'$' | b'`') || Some(*byte) == end;
                    let length = rest.iter().position(stop).unwrap_or(rest.len());
                    push(pieces, &rest[..length], true);
                    self.at += length;
                }
            }
        }
    }

    /// Backticks: the text between them is a script of its own, once its backslashes are taken off.
    fn backticks(&mut self, quoted: bool, pieces: &mut Pieces) -> Read<()> {
        let start = self.at;
        self.at += 1;
        let mut text = Vec::new();
        loop {
            match self.peek() {
                None => return Err(Trouble::Syntax(start)),
                Some(b'`') => break,
                Some(b'\\') if self.peek_at(1).is_some_and(|next| b"`\\$".contains(&next)) => {
                    text.extend(self.peek_at(1));
                    self.at += 2;
                }
                Some(byte) => {
                    text.push(byte);
                    self.at += 1;
                }
            }
        }
        self.at += 1;
        let span = self.span(start);
        let body = self.deeper(|parser| {
            let mut inner = Parser::new(&text, Stands::Within(span), parser.depth);
            let body = inner.list(Stop::End)?;
            inner.read_documents()?;
            if inner.at == text.len() { Ok(body) } else { Err(Trouble::Syntax(span.start)) }
        })?;
        pieces.push(Piece::Output { body: Rc::new(body), quoted });
        Ok(())
    }

    fn dollar(&mut self, quoted: bool, pieces: &mut Pieces) -> Read<()> {
        let variable = |name: &[u8]| Piece::Variable { name: name.into(), change: Change::None, quoted };
        match self.peek_at(1) {
            Some(b'(') => {
                if self.peek_at(2) == Some(b'(') {
                    let start = self.at;
                    self.at += 1;
                    if let Some(inner) = self.arithmetic()? {
                        pieces.push(Piece::Number(Box::new(inner)));
                        return Ok(());
                    }
                    self.at = start;
                }
                self.at += 2;
                let body = self.list(Stop::Parenthesis)?;
                self.want(b")")?;
                pieces.push(Piece::Output { body: Rc::new(body), quoted });
            }
            Some(b'{') => {
                self.at += 2;
                let piece = self.deeper(|parser| parser.parameter(quoted))?;
                pieces.push(piece);
            }
            Some(b'[') => {
                let rest = &self.source[self.at..];
                let Some(end) = rest.iter().position(|byte| *byte == b']') else {
                    return Err(Trouble::Syntax(self.at));
                };
                let inner = self.inner_pieces(self.at + 2, self.at + end)?;
                pieces.push(Piece::Number(Box::new(inner)));
                self.at += end + 1;
            }
            Some(b'\'') if !quoted => {
                self.at += 2;
                let bytes = self.ansi_quoted()?;
                push(pieces, &bytes, true);
            }
            Some(b'"') if !quoted => self.at += 1,
            Some(byte) if byte == b'_' || byte.is_ascii_alphabetic() => {
                self.at += 1;
                let name = self.name();
                pieces.push(variable(&name));
            }
            Some(byte) if byte.is_ascii_digit() || b"@*#?-$!".contains(&byte) => {
                self.at += 2;
                pieces.push(variable(&[byte]));
            }
            _ => {
                push(pieces, b"$", quoted);
                self.at += 1;
            }
        }
        Ok(())
    }

    fn name(&mut self) -> Bytes {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte == b'_' || byte.is_ascii_alphanumeric()) {
            self.at += 1;
        }
        self.source[start..self.at].into()
    }

    /// What follows `${`.
    fn parameter(&mut self, quoted: bool) -> Read<Piece> {
        let start = self.at;
        let mut change = Change::None;
        if self.peek() == Some(b'#') && self.peek_at(1) != Some(b'}') {
            change = Change::Length;
            self.at += 1;
        } else if self.peek() == Some(b'!') && self.peek_at(1) != Some(b'}') {
            change = Change::Indirect;
            self.at += 1;
        }
        let mut name = self.name();
        if name.is_empty() {
            match self.peek() {
                Some(byte) if b"@*#?-$!".contains(&byte) => name.push(byte),
                _ => return Err(Trouble::Syntax(start)),
            }
            self.at += 1;
        }
        if self.peek() == Some(b'[') {
            let rest = &self.source[self.at..];
            let Some(end) = rest.iter().position(|byte| *byte == b']') else {
                return Err(Trouble::Syntax(self.at));
            };
            let subscript = &rest[1..end];
            // An element by number is kept in the name; an element by a word runs what the word runs, which is not followed.
            if subscript.iter().any(|byte| b"$`(".contains(byte)) {
                return Err(Trouble::Syntax(self.at));
            }
            name.push(b'[');
            name.extend_from_slice(subscript);
            self.at += end + 1;
        }
        let colon = self.peek() == Some(b':');
        let operator = if colon { self.peek_at(1) } else { self.peek() };
        let (skip, kind) = match (colon, operator) {
            (false, Some(b'}')) => (0, None),
            (_, Some(sign)) if b"-=+?".contains(&sign) => (1 + usize::from(colon), Some(sign)),
            (true, _) => (1, Some(b':')),
            (false, Some(sign)) if b"#%".contains(&sign) => {
                let twice = self.peek_at(1) == Some(sign);
                (1 + usize::from(twice), Some(sign))
            }
            (false, Some(sign)) if b"/^,@".contains(&sign) => (1, Some(sign)),
            _ => return Err(Trouble::Syntax(self.at)),
        };
        self.at += skip;
        let from = self.at;
        let mut pieces = Pieces::None;
        if quoted {
            // A single quote is text here.
            self.double_quoted(Some(b'}'), &mut pieces)?;
        } else {
            pieces = self.pieces(Until::Brace)?;
            self.want(b"}")?;
        }
        let word = Box::new(Word { pieces, span: self.span(from) });
        let bare = matches!(change, Change::None);
        let change = match kind {
            None => change,
            Some(_) if !bare => Change::Other(word),
            Some(b':') => Change::Slice(word),
            Some(sign) if b"-=+?".contains(&sign) => Change::Default(sign, word),
            Some(sign) if b"#%".contains(&sign) => Change::Trim(sign, word),
            Some(b'/') => Change::Replace(word),
            Some(b'^') => Change::Upper,
            Some(b',') => Change::Lower,
            Some(_) => Change::Other(word),
        };
        Ok(Piece::Variable { name, change, quoted })
    }

    /// The expansions between two places.
    fn inner_pieces(&mut self, from: usize, to: usize) -> Read<Pieces> {
        let stands = self.stands.further(from);
        let text = self.source.get(from..to).unwrap_or_default();
        self.deeper(|parser| {
            let mut inner = Parser::new(text, stands, parser.depth);
            inner.pieces(Until::End)
        })
    }

    /// `((…))`, if both closing parentheses stand together.
    fn arithmetic(&mut self) -> Read<Option<Pieces>> {
        let start = self.at;
        let mut open = 0usize;
        let mut at = start;
        while let Some(byte) = self.source.get(at) {
            match byte {
                b'(' => open += 1,
                b')' => open -= 1,
                _ => {}
            }
            // Only the outermost pair is left.
            if open == 1 && at > start + 1 {
                break;
            }
            at += 1;
        }
        if self.source.get(at) != Some(&b')') || self.source.get(at + 1) != Some(&b')') {
            return Ok(None);
        }
        let inner = self.inner_pieces(start + 2, at)?;
        self.at = at + 2;
        Ok(Some(inner))
    }

    pub fn arithmetic_command(&mut self) -> Read<Option<Node>> {
        let start = self.at;
        let Some(pieces) = self.arithmetic()? else { return Ok(None) };
        let word = Word { pieces: Pieces::One(Piece::Number(Box::new(pieces))), span: self.span(start) };
        let parts = vec![Node::Words(vec![word])];
        Ok(Some(Node::Body { kind: Kind::Group, parts, redirects: Vec::new() }))
    }

    /// The text of `$'…'`, up to and with the closing quote.
    fn ansi_quoted(&mut self) -> Read<Vec<u8>> {
        let start = self.at;
        let rest = &self.source[start..];
        let mut length = 0;
        while rest.get(length).is_some_and(|byte| *byte != b'\'') {
            length += if rest[length] == b'\\' { 2 } else { 1 };
        }
        if length >= rest.len() {
            return Err(Trouble::Syntax(start));
        }
        self.at = start + length + 1;
        Ok(unescape(&rest[..length]))
    }
}

/// What backslashes mean in `$'…'`, in `printf` and in `echo -e`.
pub fn unescape(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        if text[at] != b'\\' || at + 1 == text.len() {
            out.push(text[at]);
            at += 1;
            continue;
        }
        let code = text[at + 1];
        at += 2;
        let mut number = |radix: u32, most: usize| {
            let digits =
                text[at..].iter().take(most).take_while(|byte| char::from(**byte).is_digit(radix)).count();
            let value = text[at..at + digits]
                .iter()
                .fold(0u32, |sum, byte| sum * radix + char::from(*byte).to_digit(radix).unwrap_or(0));
            at += digits;
            (digits > 0).then_some(value)
        };
        match code {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'a' => out.push(7),
            b'b' => out.push(8),
            b'e' | b'E' => out.push(27),
            b'f' => out.push(12),
            b'v' => out.push(11),
            b'x' => out.extend(number(16, 2).map(|value| value as u8)),
            b'u' | b'U' => {
                let value = number(16, if code == b'u' { 4 } else { 8 }).and_then(char::from_u32);
                out.extend(value.unwrap_or('\u{fffd}').to_string().as_bytes());
            }
            b'c' => {
                out.extend(text.get(at).map(|byte| byte & 31));
                at += 1;
            }
            b'0'..=b'7' => {
                at -= 1;
                let digits = if code == b'0' { 4 } else { 3 };
                let value = text[at..].iter().take(digits).take_while(|byte| (b'0'..=b'7').contains(byte));
                let (count, sum) =
                    value.fold((0, 0u32), |(n, sum), byte| (n + 1, sum * 8 + u32::from(byte - b'0')));
                at += count;
                out.push(sum as u8);
            }
            other => out.extend(if b"\\'\"?".contains(&other) { vec![other] } else { vec![b'\\', other] }),
        }
    }
    out
}

/// Whether a byte is text wherever a word may stand.
fn is_plain(byte: u8) -> bool {
    !matches!(
        byte,
        b'\\'
            | b'\''
            | b'"'
            | b'$'
            | b'`'
            | b'}'
            | b' '
            | b'\t'
            | b'\n'
            | b'\r'
            | b';'
            | b'&'
            | b'|'
            | b'<'
            | b'>'
            | b'('
            | b')'
    )
}

fn push(pieces: &mut Pieces, more: &[u8], is_quoted: bool) {
    match pieces.as_mut_slice().last_mut() {
        Some(Piece::Text { bytes, quoted }) if *quoted == is_quoted => bytes.extend_from_slice(more),
        _ => pieces.push(Piece::Text { bytes: more.into(), quoted: is_quoted }),
    }
}

/// Whether the word so far is `name=` or `name+=`.
fn is_assignment(pieces: &[Piece]) -> bool {
    let [Piece::Text { bytes, quoted: false }] = pieces else { return false };
    let Some(name) = bytes.strip_suffix(b"=") else { return false };
    let name = name.strip_suffix(b"+").unwrap_or(name);
    !name.is_empty() && name.iter().all(|byte| *byte == b'_' || byte.is_ascii_alphanumeric())
}

/// The value of `[key]=value`, as an element of an array is written when the shell prints it.
fn without_key(word: Word) -> Word {
    let is_key = matches!(word.pieces.as_slice().first(), Some(Piece::Text { bytes, quoted: false }) if bytes.first() == Some(&b'['));
    if !is_key {
        return word;
    }
    let end = word.pieces.as_slice().iter().enumerate().find_map(|(at, piece)| match piece {
        Piece::Text { bytes, quoted: false } => {
            bytes.windows(2).position(|pair| pair == b"]=").map(|end| (at, bytes.without_first(end + 2)))
        }
        _ => None,
    });
    let Some((at, rest)) = end else { return word };
    let mut pieces = Pieces::None;
    // Also where nothing follows: an element that is empty is one.
    push(&mut pieces, &rest, rest.is_empty());
    for piece in word.pieces.as_slice().iter().skip(at + 1) {
        pieces.push(piece.clone());
    }
    Word { pieces, span: word.span }
}
