//! Turns words into the arguments that a program would get, as far as they can be known.

use super::braces;
use super::syntax::{Change, Piece, Word};
use super::variables::{Text, Value, only};
use super::walk::Walker;
use crate::text::{Bytes, Field, LONGEST, Taint, UNKNOWN};
use crate::verdict::Span;
use keyward_policy::detect::registry;
use std::rc::Rc;

/// Which of several possible values is taken: a counter that runs through all of them.
#[derive(Default)]
pub struct Choices {
    picks: Vec<usize>,
    sizes: Vec<usize>,
    next: usize,
}

impl Choices {
    fn pick(&mut self, size: usize) -> usize {
        if self.next == self.picks.len() {
            self.picks.push(0);
            self.sizes.push(size);
        }
        self.next += 1;
        self.picks[self.next - 1].min(size - 1)
    }

    /// Goes on to the next combination; false when all were taken.
    pub fn advance(&mut self) -> bool {
        self.picks.truncate(self.next);
        self.sizes.truncate(self.next);
        self.next = 0;
        while let (Some(pick), Some(size)) = (self.picks.last_mut(), self.sizes.last()) {
            *pick += 1;
            if *pick < *size {
                return true;
            }
            self.picks.pop();
            self.sizes.pop();
        }
        false
    }
}

/// The fields of one word while they are put together.
struct Builder {
    fields: Vec<Field>,
    current: Option<Field>,
    span: Span,
}

impl Builder {
    fn field(&mut self) -> &mut Field {
        let span = self.span;
        self.current.get_or_insert_with(|| Field { span, ..Field::default() })
    }

    fn push(&mut self, bytes: &[u8], taint: Taint) {
        let field = self.field();
        field.text.extend_from_slice(bytes);
        field.taint = field.taint.and(taint);
        if field.text.len() > LONGEST {
            field.text = [UNKNOWN].into();
            field.splits = true;
        }
    }

    fn finish_field(&mut self) {
        self.fields.extend(self.current.take());
    }

    /// A text that is split where a separator stands.
    fn push_split(&mut self, text: &Text, separators: &[u8]) {
        let mut first = true;
        for part in text.bytes.split(|byte| separators.contains(byte)) {
            if !first {
                self.finish_field();
            }
            first = false;
            if !part.is_empty() {
                self.push(part, text.taint);
                self.field().splits |= part.contains(&UNKNOWN);
            }
        }
    }
}

impl Walker<'_> {
    pub(super) fn expand_words(&mut self, words: &[Word], choices: &mut Choices) -> Vec<Field> {
        let mut fields = Vec::with_capacity(words.len());
        for word in words {
            self.expand_word(word, choices, &mut fields);
        }
        fields
    }

    fn expand_word(&mut self, word: &Word, choices: &mut Choices, fields: &mut Vec<Field>) {
        if let [Piece::Text { bytes, .. }] = word.pieces.as_slice()
            && !bytes.iter().any(|byte| matches!(*byte, b'{' | UNKNOWN))
        {
            return fields.push(Field { text: bytes.clone(), span: word.span, ..Field::default() });
        }
        if braces::has_braces(word) {
            match braces::expand(word) {
                Some(words) => {
                    for word in words {
                        self.add_fields_of(&word, choices, fields);
                    }
                }
                None => fields.push(Field { splits: true, ..Field::unknown(word.span) }),
            }
            return;
        }
        self.add_fields_of(word, choices, fields);
    }

    fn fields_of(&mut self, word: &Word, choices: &mut Choices) -> Vec<Field> {
        let mut fields = Vec::new();
        self.add_fields_of(word, choices, &mut fields);
        fields
    }

    fn add_fields_of(&mut self, word: &Word, choices: &mut Choices, fields: &mut Vec<Field>) {
        let mut builder = Builder { fields: std::mem::take(fields), current: None, span: word.span };
        for piece in &word.pieces {
            self.piece(piece, choices, &mut builder);
        }
        builder.finish_field();
        *fields = builder.fields;
    }

    /// A word that is never split: an assignment, a redirection, a here-document.
    pub(super) fn text_of(&mut self, word: &Word, choices: &mut Choices) -> Text {
        let mut text = Text::default();
        for (at, field) in self.fields_of(word, choices).into_iter().enumerate() {
            if at > 0 {
                text.bytes.push(b' ');
            }
            text.bytes.extend_from_slice(&field.text);
            text.taint = text.taint.and(field.taint);
        }
        text
    }

    /// The elements of an assigned word.
    pub(super) fn value_of(&mut self, word: &Word, choices: &mut Choices) -> Vec<Text> {
        match word.pieces.iter().find(|piece| matches!(piece, Piece::Array(_))) {
            Some(Piece::Array(words)) => {
                let fields = self.expand_words(words, choices);
                fields.into_iter().map(|field| Text { bytes: field.text, taint: field.taint }).collect()
            }
            _ => vec![self.unsplit_text(word, choices)],
        }
    }

    /// As in an assignment: blanks of a value stay what they are.
    fn unsplit_text(&mut self, word: &Word, choices: &mut Choices) -> Text {
        let mut text = Text::default();
        for piece in &word.pieces {
            let part = match piece {
                Piece::Text { bytes, .. } => Text::known(bytes),
                Piece::Variable { name, change, .. } => {
                    join(&self.variable(name, change, choices, word.span))
                }
                Piece::Output { body, .. } => self.substituted(body),
                other => {
                    let mut builder = Builder { fields: Vec::new(), current: None, span: word.span };
                    self.piece(other, choices, &mut builder);
                    builder.finish_field();
                    let texts = builder.fields.into_iter();
                    join(
                        &texts
                            .map(|field| Text { bytes: field.text, taint: field.taint })
                            .collect::<Vec<_>>(),
                    )
                }
            };
            // Unknown beside unknown is no more than unknown.
            if part.bytes != [UNKNOWN] || text.bytes.last() != Some(&UNKNOWN) {
                text.bytes.extend_from_slice(&part.bytes);
            }
            text.taint = text.taint.and(part.taint);
            if text.bytes.len() > LONGEST {
                text.bytes = [UNKNOWN].into();
            }
        }
        text
    }

    fn piece(&mut self, piece: &Piece, choices: &mut Choices, builder: &mut Builder) {
        match piece {
            Piece::Text { bytes, quoted } => {
                builder.push(bytes, Taint::NONE);
                builder.field().splits |= !quoted && bytes.contains(&UNKNOWN);
            }
            Piece::Variable { name, change, quoted } => {
                let texts = self.variable(name, change, choices, builder.span);
                let whole_list = name == b"@" || name.ends_with(b"[@");
                match (quoted, whole_list) {
                    (true, true) => {
                        for (at, text) in texts.iter().enumerate() {
                            if at > 0 {
                                builder.finish_field();
                            }
                            builder.push(&text.bytes, text.taint);
                            // All arguments at once may be several.
                            builder.field().splits |= text.bytes == [UNKNOWN];
                        }
                    }
                    (true, false) => match texts.as_ref() {
                        [text] => builder.push(&text.bytes, text.taint),
                        _ => {
                            let text = join(&texts);
                            builder.push(&text.bytes, text.taint);
                        }
                    },
                    (false, _) => {
                        let separators = self.separators();
                        for (at, text) in texts.iter().enumerate() {
                            if at > 0 {
                                builder.finish_field();
                            }
                            builder.push_split(text, &separators);
                        }
                    }
                }
            }
            Piece::Output { body, quoted } => {
                let text = self.substituted(body);
                if *quoted {
                    builder.push(&text.bytes, text.taint);
                } else {
                    let separators = self.separators();
                    builder.push_split(&text, &separators);
                }
            }
            Piece::Process { body } => {
                let stream = self.apart(body);
                let name = self.remember_stream(stream);
                builder.push(&name, Taint::NONE);
            }
            Piece::Number(inner) => {
                for piece in inner.as_ref() {
                    let mut ignored = Builder { fields: Vec::new(), current: None, span: builder.span };
                    self.piece(piece, choices, &mut ignored);
                }
                builder.push(b"1", Taint::NONE);
            }
            Piece::Array(words) => {
                for field in self.expand_words(words, choices) {
                    builder.push(&field.text, field.taint);
                    builder.finish_field();
                }
            }
        }
    }

    fn separators(&self) -> Bytes {
        match self.variables.get(b"IFS").and_then(|values| values.first()).and_then(|value| value.first()) {
            Some(text) if !text.bytes.contains(&UNKNOWN) => text.bytes.clone(),
            _ => (*b" \t\n").into(),
        }
    }

    /// The elements of a variable, changed as its expansion says.
    fn variable(&mut self, name: &[u8], change: &Change, choices: &mut Choices, span: Span) -> Value {
        let texts = match change {
            Change::None => return self.plain_variable(name, choices, span),
            Change::Default(sign, word) => return self.with_default(name, *sign, word, choices, span),
            Change::Indirect => {
                let target = join(&self.plain_variable(name, choices, span));
                if target.bytes.contains(&UNKNOWN) {
                    return only(Text::unknown());
                }
                return self.plain_variable(&target.bytes, choices, span);
            }
            Change::Length => return only(Text::known(b"1")),
            _ => self.plain_variable(name, choices, span),
        };
        let mut text = join(&texts);
        let argument = match change {
            Change::Slice(word) | Change::Trim(_, word) | Change::Replace(word) | Change::Other(word) => {
                self.unsplit_text(word, choices).bytes
            }
            _ => Bytes::new(),
        };
        let unclear = argument.contains(&UNKNOWN) || argument.iter().any(|byte| b"*?[".contains(byte));
        let changed = match change {
            _ if text.bytes.contains(&UNKNOWN) => None,
            Change::Upper => Some(text.bytes.to_ascii_uppercase()),
            Change::Lower => Some(text.bytes.to_ascii_lowercase()),
            Change::Slice(_) => slice(&text.bytes, &argument),
            Change::Trim(b'#', _) if !unclear => {
                Some(text.bytes.strip_prefix(argument.as_slice()).unwrap_or(&text.bytes).to_vec())
            }
            Change::Trim(_, _) if !unclear => {
                Some(text.bytes.strip_suffix(argument.as_slice()).unwrap_or(&text.bytes).to_vec())
            }
            Change::Replace(_) if !unclear => replace(&text.bytes, &argument),
            _ => None,
        };
        text.bytes = changed.unwrap_or_else(|| vec![UNKNOWN]).into();
        only(text)
    }

    fn with_default(
        &mut self,
        name: &[u8],
        sign: u8,
        word: &Word,
        choices: &mut Choices,
        span: Span,
    ) -> Value {
        let known = self.variables.get(name).is_some() || is_special(name);
        let default: Value = self.value_of(word, choices).into();
        match (sign, known) {
            (b'+', true) => default,
            // Set from outside or not: both can be.
            (b'+', false) => {
                if choices.pick(2) == 0 {
                    default
                } else {
                    only(Text::default())
                }
            }
            (b'?', _) => self.plain_variable(name, choices, span),
            (_, true) => {
                let texts = self.plain_variable(name, choices, span);
                if texts.iter().all(|text| text.bytes.is_empty()) { default } else { texts }
            }
            (_, false) => {
                if sign == b'=' {
                    self.variables.assign(name, default.to_vec(), false);
                }
                let outside = self.plain_variable(name, choices, span);
                if choices.pick(2) == 0 { default } else { outside }
            }
        }
    }

    fn plain_variable(&mut self, name: &[u8], choices: &mut Choices, span: Span) -> Value {
        let (name, subscript) = match name.iter().position(|byte| *byte == b'[') {
            Some(at) => (&name[..at], Some(&name[at + 1..])),
            None => (name, None),
        };
        if let Some(texts) = self.positional(name, span) {
            return texts;
        }
        let Some(values) = self.variables.get(name) else { return only(from_outside(name)) };
        let at = if values.len() > 1 { choices.pick(values.len()) } else { 0 };
        let Some(value) = values.get(at) else { return only(Text::unknown()) };
        match subscript {
            Some(b"@" | b"*") => Rc::clone(value),
            Some(number) => {
                let number = std::str::from_utf8(number).ok().and_then(|number| number.parse::<usize>().ok());
                // An element by name is one of them.
                only(number.and_then(|number| value.get(number)).cloned().unwrap_or_else(Text::unknown))
            }
            None if value.len() == 1 => Rc::clone(value),
            None => only(value.first().cloned().unwrap_or_default()),
        }
    }

    /// `$1`, `$@` and their like.
    fn positional(&self, name: &[u8], _span: Span) -> Option<Value> {
        if !matches!(name.first(), Some(b'@' | b'*' | b'0'..=b'9')) {
            return None;
        }
        let arguments = self.variables.arguments.last();
        let text = |field: &Field| Text { bytes: field.text.clone(), taint: field.taint };
        match (name, arguments) {
            (b"@" | b"*", Some(arguments)) => Some(arguments.iter().map(text).collect()),
            (b"@" | b"*", None) => Some(only(Text::unknown())),
            (number, arguments) if !number.is_empty() && number.iter().all(u8::is_ascii_digit) => {
                let number: usize = std::str::from_utf8(number).ok()?.parse().ok()?;
                let text = match (number, arguments) {
                    (0, _) => match self.variables.get(b"0").and_then(|values| values.first()) {
                        Some(value) => value.first().cloned().unwrap_or_default(),
                        None => Text::known(b"sh"),
                    },
                    (_, None) => Text::unknown(),
                    (_, Some(arguments)) => arguments.get(number - 1).map(text).unwrap_or_else(|| {
                        // Beyond an argument that may be several, anything may stand.
                        if arguments.iter().any(|field| field.splits) {
                            Text::unknown()
                        } else {
                            Text::default()
                        }
                    }),
                };
                Some(only(text))
            }
            _ => None,
        }
    }

    /// What a command substitution would put in its place.
    pub(super) fn substituted(&mut self, body: &super::syntax::List) -> Text {
        let stream = self.apart(body);
        self.substituted = stream.names;
        let mut bytes = stream.text.unwrap_or_else(|| [UNKNOWN].into());
        while bytes.last() == Some(&b'\n') {
            bytes.pop();
        }
        Text { bytes, taint: stream.taint }
    }
}

fn is_special(name: &[u8]) -> bool {
    matches!(
        name,
        b"HOME" | b"PWD" | b"IFS" | b"SHELL" | b"BASH" | b"@" | b"*" | b"#" | b"?" | b"$" | b"!" | b"-"
    )
}

/// A variable that the script has not set.
fn from_outside(name: &[u8]) -> Text {
    match name {
        b"HOME" => Text::known(b"~"),
        b"PWD" | b"OLDPWD" => Text::known(b"."),
        b"IFS" => Text::known(b" \t\n"),
        b"SHELL" | b"BASH" => Text::known(b"/bin/bash"),
        b"#" | b"?" | b"UID" | b"EUID" | b"RANDOM" | b"SECONDS" | b"LINENO" => Text::known(b"1"),
        // A process, and never the first one.
        b"$" | b"!" | b"PPID" | b"BASHPID" => Text::known(b"4242"),
        b"-" => Text::known(b"hB"),
        name => {
            let secret = registry::known(name).is_some_and(|entry| entry.kind == registry::Kind::Credential)
                || registry::name_shape(name).is_some();
            Text { bytes: [UNKNOWN].into(), taint: if secret { Taint::SECRET } else { Taint::NONE } }
        }
    }
}

fn join(texts: &[Text]) -> Text {
    if let [only] = texts {
        return only.clone();
    }
    let mut whole = Text::default();
    for (at, text) in texts.iter().enumerate() {
        if at > 0 {
            whole.bytes.push(b' ');
        }
        whole.bytes.extend_from_slice(&text.bytes);
        whole.taint = whole.taint.and(text.taint);
    }
    whole
}

/// `offset` or `offset:length`.
fn slice(text: &[u8], range: &[u8]) -> Option<Vec<u8>> {
    let range = std::str::from_utf8(range).ok()?;
    let (offset, length) = range.split_once(':').unwrap_or((range, ""));
    let offset: i64 = offset.trim().parse().ok()?;
    let size = i64::try_from(text.len()).ok()?;
    let from = if offset < 0 { (size + offset).max(0) } else { offset.min(size) };
    let to = match length.trim() {
        "" => size,
        length => {
            let length: i64 = length.parse().ok()?;
            if length < 0 { size + length } else { from.saturating_add(length).min(size) }
        }
    };
    text.get(usize::try_from(from).ok()?..usize::try_from(to).ok()?).map(<[u8]>::to_vec)
}

/// `pattern/text`, or `/pattern/text` for all.
fn replace(text: &[u8], argument: &[u8]) -> Option<Vec<u8>> {
    let (all, argument) = match argument.strip_prefix(b"/") {
        Some(rest) => (true, rest),
        None => (false, argument),
    };
    let at = argument.iter().position(|byte| *byte == b'/').unwrap_or(argument.len());
    let (pattern, with) = (&argument[..at], argument.get(at + 1..).unwrap_or_default());
    // An anchored pattern means something else.
    if pattern.is_empty() || matches!(pattern[0], b'#' | b'%') {
        return None;
    }
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(found) = rest.windows(pattern.len()).position(|window| window == pattern) {
        out.extend_from_slice(&rest[..found]);
        out.extend_from_slice(with);
        rest = &rest[found + pattern.len()..];
        if !all {
            break;
        }
    }
    out.extend_from_slice(rest);
    Some(out)
}
