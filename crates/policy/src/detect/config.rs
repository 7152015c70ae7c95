//! Settings of projects in any syntax (YAML, TOML, JSON, properties, INI, XML, code), of which only the values that are credentials go.
//! Sources (`settings.py`, `*.tf`) are read more narrowly: a value has to stand there itself, under a name that means nothing else.
//!
//! Tools need these files, and people and agents edit them. So a value counts only if its name and its form say that it is a credential:
//! references, paths, defaults of development (`postgres`, `changeme`) and names of other things stay. The input is hostile: nothing here may
//! fail on it, and every pass is linear.

mod commands;
mod names;
mod values;

use super::registry::{Token, is_token_byte, token_at, value_shape};
use super::text::{MOST_NAME, closing, contains, find, is_of_name, name_length, unquoted, without_comment};
use names::Class;
use std::borrow::Cow;
use std::ops::Range;
use values::{is_credential, is_placeholder, is_reference};

/// What a text is read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Settings,
    Source,
}

/// The text without the credentials in it; everything else stays as it is. `not_secret` are names that the user has cleared.
pub(super) fn without_credentials(content: &[u8], kind: Kind, not_secret: &[&str]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len());
    let mut copied = 0;
    for span in credentials(content, kind, not_secret) {
        out.extend_from_slice(&content[copied..span.start]);
        copied = span.end;
    }
    out.extend_from_slice(&content[copied..]);
    out
}

/// A quick no for texts, some of them large, in which no word and no form tells of a credential.
pub(super) fn may_hold_credentials(content: &[u8]) -> bool {
    // Names may have escapes in them, and a password among options has none.
    names::may_count(content)
        || contains(content, b"Secret")
        || content.contains(&b'\\')
        || commands::may_hold_logins(content)
        || value_shape(content).is_some()
}

/// Where the credentials of a text stand, in order; none of them overlaps another.
pub(super) fn credentials(content: &[u8], kind: Kind, not_secret: &[&str]) -> Vec<Range<usize>> {
    let mut look = Look {
        content,
        kind,
        not_secret,
        state: State::Plain,
        named: None,
        asked: None,
        command: commands::Reader::default(),
        data: None,
        section: None,
        is_secret: false,
        spans: Vec::new(),
    };
    let mut at = 0;
    let mut starts = true;
    let has_kinds = contains(content, b"kind") && contains(content, b"Secret");
    for line in content.split_inclusive(|&byte| byte == b'\n') {
        let end = at + line.len() - usize::from(line.ends_with(b"\n"));
        if has_kinds && (starts || line.trim_ascii() == b"---") {
            look.document(at);
            starts = false;
        }
        look.line(at..end);
        at += line.len();
    }
    merged(look.spans)
}

fn merged(mut spans: Vec<Range<usize>>) -> Vec<Range<usize>> {
    spans.sort_by_key(|span| span.start);
    let mut all: Vec<Range<usize>> = Vec::with_capacity(spans.len());
    for span in spans.into_iter().filter(|span| !span.is_empty()) {
        match all.last_mut() {
            Some(last) if span.start <= last.end => last.end = last.end.max(span.end),
            _ => all.push(span),
        }
    }
    all
}

/// What the lines above have begun.
#[derive(Clone, Copy)]
enum State<'a> {
    Plain,
    /// Deeper lines are the text of a credential.
    Block {
        indent: usize,
    },
    /// Deeper lines may be values of this name: a list, or one value on a line of its own.
    Below {
        indent: usize,
        class: Class,
    },
    /// A text with this sign at its end.
    Until {
        sign: &'a [u8],
    },
    /// A private key, up to its last line.
    Key,
}

struct Look<'a> {
    content: &'a [u8],
    kind: Kind,
    not_secret: &'a [&'a str],
    state: State<'a>,
    /// The value of the last `name:` or `key:`, which a `value:` behind it belongs to.
    named: Option<Class>,
    /// The class of a name of YAML behind a question mark, and how far it is indented: its value stands on the next line.
    asked: Option<(usize, Class)>,
    /// The command whose options stand on this line.
    command: commands::Reader,
    /// How far the `data:` of a secret of Kubernetes is indented.
    data: Option<usize>,
    /// How far a name is indented that says of everything below it what it is, such as `secrets:`; nothing for the head of a section.
    section: Option<Option<usize>>,
    /// Whether this document is such a secret.
    is_secret: bool,
    spans: Vec<Range<usize>>,
}

/// A name, the sign behind it and where the value begins.
struct Pair {
    name: Range<usize>,
    value: usize,
}

impl<'a> Look<'a> {
    /// Begins a document of YAML; other files have one.
    fn document(&mut self, at: usize) {
        let rest = &self.content[at..];
        let lines = rest.split(|&byte| byte == b'\n').skip(1);
        let own = lines.take_while(|line| line.trim_ascii() != b"---");
        let first = rest.split(|&byte| byte == b'\n').next();
        let is_kind = |line: &[u8]| {
            let line = line.trim_ascii().trim_ascii_end();
            let line = line.strip_suffix(b",").unwrap_or(line);
            matches!(line, b"kind: Secret" | b"kind: \"Secret\"" | b"\"kind\": \"Secret\"")
        };
        self.is_secret = first.into_iter().chain(own).any(is_kind);
        self.data = None;
        self.named = None;
    }

    fn text(&self, range: &Range<usize>) -> &'a [u8] {
        self.content.get(range.clone()).unwrap_or_default()
    }

    fn line(&mut self, line: Range<usize>) {
        let text = self.text(&line);
        let indent = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        let is_blank = text.trim_ascii().is_empty();
        match self.state {
            State::Until { sign } => return self.until(line, sign),
            State::Key => {
                self.spans.push(line.start + indent..line.end);
                if contains(text, b"-----END ") {
                    self.state = State::Plain;
                }
                return;
            }
            State::Block { .. } | State::Below { .. } if is_blank => return,
            State::Block { indent: above } if indent > above => {
                self.spans.push(line.start + indent..line.end);
                return;
            }
            State::Below { indent: above, class } if self.is_item(text, indent, above) => {
                self.item(line.start + indent..line.end, class);
                return;
            }
            _ => self.state = State::Plain,
        }
        if self.data.is_some_and(|above| indent <= above && !is_blank) {
            self.data = None;
        }
        if self.section.flatten().is_some_and(|above| indent <= above && !is_blank) {
            self.section = None;
        }
        match self.kind {
            Kind::Settings => {
                let head = text.trim_ascii().strip_prefix(b"[").and_then(|head| head.strip_suffix(b"]"));
                if let Some(head) = head {
                    let is_one = names::class(head, self.not_secret) >= Class::Token;
                    self.section = is_one.then_some(None);
                }
                self.asked(&line, indent);
                for found in self.command.logins(text) {
                    self.judge(Class::Password, line.start + found.start..line.start + found.end);
                }
            }
            Kind::Source => self.block(text.trim_ascii()),
        }
        self.pairs(&line, indent);
        self.words(&line);
    }

    /// A name of YAML on one line, and its value on the next: `? name` and `: value`.
    fn asked(&mut self, line: &Range<usize>, indent: usize) {
        let mut start = line.start + indent;
        while self.text(&(start..line.end)).starts_with(b"- ") {
            start += 2;
        }
        let text = self.text(&(start..line.end)).trim_ascii_end();
        let column = start - line.start;
        match (self.asked, text) {
            (Some(_), [] | [b'#', ..]) => return,
            (Some((above, class)), [b':', rest @ ..]) if above == column => {
                let blanks = rest.len() - rest.trim_ascii_start().len();
                let pair = Pair { name: start..start, value: start + 1 + blanks };
                self.give(line, column, &pair, class);
            }
            _ => {}
        }
        let name = text.strip_prefix(b"? ").map(|name| unescaped(unquoted(name.trim_ascii())));
        self.asked = name.map(|name| (column, names::class(&name, self.not_secret)));
    }

    /// A block of Terraform that is a variable gives its name to the `default` in it.
    fn block(&mut self, text: &[u8]) {
        if let Some(variable) = text.strip_prefix(b"variable ") {
            let name = variable.strip_suffix(b"{").unwrap_or(variable).trim_ascii();
            self.named = Some(self.class_alone(unquoted(name)));
        } else if text.starts_with(b"}") {
            self.named = None;
        }
    }

    /// The class of a name in a source. Nothing may stand behind the word that says it: `PASSWORD_RESET_FORM` is another thing.
    fn class_alone(&self, name: &[u8]) -> Class {
        match names::class(name, self.not_secret) {
            class if class.counts() && names::ends_as_credential(name) => class,
            _ => Class::None,
        }
    }

    /// Whether a line below a name is its value, and not a name of its own.
    fn is_item(&self, text: &[u8], indent: usize, above: usize) -> bool {
        let bare = text.trim_ascii();
        if self.kind == Kind::Source {
            return bare.first().is_some_and(|byte| b"\"'".contains(byte));
        }
        let is_list = bare.starts_with(b"- ") || bare.starts_with(b"\"") || bare.starts_with(b"'");
        let item = bare.strip_prefix(b"- ").unwrap_or(bare);
        let has_name =
            item.windows(2).any(|pair| pair == b": ") || item.ends_with(b":") || item.contains(&b'=');
        (indent > above || is_list && indent == above)
            && !has_name
            && !bare.starts_with(b"]")
            && !bare.starts_with(b"#")
    }

    /// The value on a line of its own.
    fn item(&mut self, line: Range<usize>, class: Class) {
        let text = self.text(&line);
        if let (Kind::Source, [quote, rest @ ..]) = (self.kind, text) {
            let end = closing(rest, *quote).unwrap_or(rest.len());
            self.judge(class, line.start + 1..line.start + 1 + end);
            return;
        }
        let skipped = if text.starts_with(b"- ") { 2 } else { 0 };
        let text = text[skipped..].trim_ascii_end();
        let text = text.strip_suffix(b",").unwrap_or(text);
        let start = line.start + skipped;
        self.judge(class, start..start + text.len());
    }

    fn until(&mut self, line: Range<usize>, sign: &'a [u8]) {
        match find(self.text(&line), sign) {
            Some(end) => {
                self.spans.push(line.start..line.start + end);
                self.state = State::Plain;
            }
            None => self.spans.push(line),
        }
    }

    /// Every name with a value on the line.
    fn pairs(&mut self, line: &Range<usize>, indent: usize) {
        let mut at = line.start + indent;
        while let Some(pair) = self.next_pair(line, at) {
            at = self.pair(line, indent, &pair).max(pair.value);
        }
    }

    /// The next name with a sign behind it, from `at` on.
    fn next_pair(&self, line: &Range<usize>, at: usize) -> Option<Pair> {
        let content = self.content;
        let byte = |place: usize| content.get(place).copied().filter(|_| place < line.end);
        for sign in at..line.end {
            let name = match content[sign] {
                b'=' if matches!(byte(sign + 1), Some(b'=' | b'~'))
                    || sign > at && matches!(content[sign - 1], b'=' | b'!' | b'<' | b'>' | b'~') =>
                {
                    continue;
                }
                b'=' if self.kind == Kind::Source => {
                    self.name_with_type(line.start..sign).or_else(|| self.name_before(at..sign))
                }
                b'=' | b':' => self.name_before(at..sign),
                b'>' | b' ' | b'\t' if self.kind == Kind::Source => continue,
                b'>' => self.name_of_element(line.start..sign),
                b' ' | b'\t' => self.option_before(line, at..sign),
                b'"' | b'\'' if byte(sign + 1) == Some(b',') => match self.kind {
                    Kind::Settings => self.option_before(line, at..sign),
                    Kind::Source => self.argument_before(at..sign),
                },
                _ => continue,
            };
            let Some(name) = name.filter(|name| !name.is_empty()) else { continue };
            if content[sign] == b':' && !self.is_sign(line, byte(sign + 1), sign, &name) {
                continue;
            }
            let mut value = sign + 1;
            // `=>` of Ruby and PHP, `:=` and `+=`.
            if matches!(byte(value), Some(b'>' | b'=')) {
                value += 1;
            }
            let blanks =
                |from: usize| (from..line.end).take_while(|&at| matches!(content[at], b' ' | b'\t')).count();
            value += blanks(value);
            // The type and the name of a value in YAML.
            while byte(value) == Some(b'&') || byte(value) == Some(b'!') && byte(value + 1) == Some(b'!') {
                let length = (value..line.end).take_while(|&at| !content[at].is_ascii_whitespace()).count();
                if value + length >= line.end {
                    break;
                }
                value += length + blanks(value + length);
            }
            // A list of words: `"--token", "value"`.
            if matches!(content[sign], b'"' | b'\'') && byte(value) == Some(b',') {
                value += 1 + blanks(value + 1);
            }
            return Some(Pair { name, value });
        }
        None
    }

    /// Whether a colon stands between a name and a value: not in an address, an image or a time.
    fn is_sign(&self, line: &Range<usize>, next: Option<u8>, sign: usize, name: &Range<usize>) -> bool {
        let is_quoted = name.end < sign && b"\"'".contains(&self.content[name.end]);
        match next {
            None | Some(b' ' | b'\t' | b'\r' | b'"' | b'\'' | b'=' | b'[' | b'{') => true,
            Some(b'/' | b':') => false,
            Some(_) => is_quoted || self.leads(line, name),
        }
    }

    /// Whether nothing but a dash, a quote or a word of shells stands before a name.
    fn leads(&self, line: &Range<usize>, name: &Range<usize>) -> bool {
        if name.start - line.start > MOST_INDENT {
            return false;
        }
        let before = self.text(&(line.start..name.start)).trim_ascii();
        matches!(
            before,
            b"" | b"-" | b"\"" | b"'" | b"- \"" | b"- '" | b"export" | b"ENV" | b"ARG" | b"#" | b"//"
        )
    }

    /// The name that ends before a sign, without its quotes.
    fn name_before(&self, range: Range<usize>) -> Option<Range<usize>> {
        let text = self.text(&range);
        let text = text.trim_ascii_end();
        let quoted = text.last().copied().filter(|byte| b"\"'`".contains(byte));
        let end = range.start + text.len() - usize::from(quoted.is_some());
        let inner = self.text(&(range.start..end));
        let mut length = name_length(inner);
        // Letters of a name may be written as escapes.
        if inner[..inner.len() - length].ends_with(b"\\") {
            let is_of_escapes = |byte: &&u8| is_of_name(**byte) || **byte == b'\\';
            length = inner.iter().rev().take(MOST_ESCAPED).take_while(is_of_escapes).count();
        }
        Some(end - length..end)
    }

    /// The name at the beginning of a line, with its type behind it: `name: str = `.
    fn name_with_type(&self, range: Range<usize>) -> Option<Range<usize>> {
        let text = self.text(&(range.start..range.end.min(range.start + MOST_ELEMENT)));
        let indent = text.len() - text.trim_ascii_start().len();
        let length = text[indent..].iter().take_while(|byte| is_of_name(**byte)).count();
        let is_typed = text[indent + length..].trim_ascii_start().strip_prefix(b":").is_some_and(|rest| {
            rest.iter().all(|byte| is_of_name(*byte) || b" []|,".contains(byte))
                && !rest.trim_ascii().is_empty()
        });
        is_typed.then_some(range.start + indent..range.start + indent + length)
    }

    /// The name of an element of XML, before the `>` of its start: that of a `name`, or its own.
    fn name_of_element(&self, range: Range<usize>) -> Option<Range<usize>> {
        let range = range.start.max(range.end.saturating_sub(MOST_ELEMENT))..range.end;
        let text = self.text(&range);
        let start = text.iter().rposition(|&byte| byte == b'<')?;
        let element = &text[start + 1..];
        if element.starts_with(b"/") || element.ends_with(b"/") || element.starts_with(b"!") {
            return None;
        }
        let named =
            find(element, b"name=\"").map(|at| at + 6).or_else(|| find(element, b"key=\"").map(|at| at + 5));
        let from = named.unwrap_or(0);
        let length = element[from..].iter().take(MOST_NAME).take_while(|byte| is_of_name(**byte)).count();
        let start = range.start + start + 1 + from;
        Some(start..start + length)
    }

    /// The name of a variable that a source asks for, before the value that counts where it is not set: `getenv("NAME", "value")`.
    fn argument_before(&self, range: Range<usize>) -> Option<Range<usize>> {
        let text = self.text(&range);
        let length = name_length(text);
        let before = text[..text.len() - length].strip_suffix(&[*self.content.get(range.end)?])?;
        let called = before.trim_ascii_end().strip_suffix(b"(")?;
        let called = &called[called.len() - name_length(called)..];
        let mut parts = called.rsplit(|&byte| byte == b'.');
        let is = |part: Option<&[u8]>, names: &[&str]| {
            part.is_some_and(|part| names.iter().any(|name| part == name.as_bytes()))
        };
        let last = parts.next();
        let asks = is(last, ASKING) || is(last, GETTING) && is(parts.next(), VARIABLES);
        asks.then_some(range.end - length..range.end)
    }

    /// An option of a command (`--token VALUE`) or a word of a server's settings, before the blank behind it.
    fn option_before(&self, line: &Range<usize>, range: Range<usize>) -> Option<Range<usize>> {
        let text = self.text(&range);
        let length = name_length(text);
        let name = &text[text.len() - length..];
        let place = range.end - length..range.end;
        let is_option = name.starts_with(b"--") && name.len() > 2;
        let is_first = || {
            let is_near = place.start - line.start <= MOST_INDENT;
            is_near && self.text(&(line.start..place.start)).trim_ascii().is_empty()
        };
        let is_word = (WORDS_OF_SERVERS.iter().any(|word| name.eq_ignore_ascii_case(word.as_bytes()))
            || name.contains(&b'.'))
            && is_first();
        (is_option || is_word).then_some(place)
    }

    /// Judges one pair; gives where to go on.
    fn pair(&mut self, line: &Range<usize>, indent: usize, pair: &Pair) -> usize {
        let written = self.text(&pair.name);
        let name: &[u8] = &unescaped(written);
        if self.kind == Kind::Source {
            return self.literal(line, indent, pair, name);
        }
        let mut class = names::class(name, self.not_secret).max(names::class(written, self.not_secret));
        match names::role(name) {
            names::Role::Name => {
                let value = self.value(line, pair);
                self.named = Some(names::class(self.text(&value), self.not_secret));
            }
            names::Role::Value => class = self.named.take().unwrap_or(class).max(class),
            names::Role::Other => {}
        }
        if self.is_secret && (name == b"data" || name == b"stringData") && self.value(line, pair).is_empty() {
            self.data = Some(indent);
            return pair.value;
        }
        if self.data.is_some_and(|above| indent > above) && self.leads(line, &pair.name) {
            class = Class::Data;
        }
        let in_section = self.section.is_some_and(|above| above.is_none_or(|above| indent > above));
        if in_section && class == Class::None && !names::is_about(name) && self.leads(line, &pair.name) {
            class = Class::Token;
        }
        self.give(line, indent, pair, class)
    }

    /// Judges one pair of a source: its value has to be a text.
    fn literal(&mut self, line: &Range<usize>, indent: usize, pair: &Pair, name: &[u8]) -> usize {
        let mut class = self.class_alone(name);
        match names::role(name) {
            names::Role::Name => {
                let value = self.value(line, pair);
                self.named = Some(self.class_alone(self.text(&value)));
            }
            names::Role::Value => class = self.named.take().unwrap_or(class).max(class),
            names::Role::Other => {}
        }
        if class == Class::None {
            return pair.value;
        }
        let rest = self.text(&(pair.value..line.end));
        if rest.trim_ascii() == b"(" {
            self.state = State::Below { indent, class };
            return line.end;
        }
        // What counts where the value is not set elsewhere.
        let start = match ["default=", "default ="].iter().find(|word| rest.starts_with(word.as_bytes())) {
            Some(word) => word.len() + rest[word.len()..].iter().take_while(|byte| **byte == b' ').count(),
            None => ELSE.iter().filter_map(|word| Some(find(rest, word)? + word.len())).max().unwrap_or(0),
        };
        // Texts of Python may have letters before them. Behind an `f` stands a text that is put together.
        let letters = rest[start..].iter().take_while(|byte| b"bBrRuU".contains(byte)).count();
        let start = start + letters;
        let is_literal = letters <= 2 && rest.get(start).is_some_and(|byte| b"\"'".contains(byte));
        if !is_literal {
            return pair.value;
        }
        let value = Pair { name: pair.name.clone(), value: pair.value + start };
        let text = self.text(&self.value(line, &value));
        // A part of it comes from elsewhere.
        if contains(text, b"${") || contains(text, b"%{") {
            return pair.value;
        }
        self.give(line, indent, &value, class)
    }

    /// Takes the value of a name of this class; gives where to go on.
    fn give(&mut self, line: &Range<usize>, indent: usize, pair: &Pair, class: Class) -> usize {
        if class == Class::None {
            return pair.value;
        }
        if self.opens(line, indent, pair.value, class) {
            return line.end;
        }
        if self.content.get(pair.value) == Some(&b'[') {
            return self.list(line, pair.value + 1, class);
        }
        let value = self.value(line, pair);
        if self.judge(class, value.clone()) { value.end } else { pair.value }
    }

    /// The values of a list on one line; gives where it ends.
    fn list(&mut self, line: &Range<usize>, start: usize, class: Class) -> usize {
        let rest = self.text(&(start..line.end));
        let rest = &rest[..rest.iter().position(|&byte| byte == b']').unwrap_or(rest.len())];
        let mut at = start;
        for item in rest.split(|&byte| byte == b',') {
            let blanks = item.len() - item.trim_ascii_start().len();
            self.judge(class, at + blanks..at + blanks + item.trim_ascii().len());
            at += item.len() + 1;
        }
        start + rest.len()
    }

    /// Whether the value goes on in the lines below.
    fn opens(&mut self, line: &Range<usize>, indent: usize, start: usize, class: Class) -> bool {
        let rest = self.text(&(start..line.end)).trim_ascii();
        let is_block = rest.first().is_some_and(|byte| b"|>".contains(byte))
            && rest[1..].iter().take_while(|byte| **byte != b'#').all(|byte| b"+-0123456789 ".contains(byte));
        for sign in [b"\"\"\"".as_slice(), b"'''"] {
            let Some(text) = rest.strip_prefix(sign).filter(|_| class.counts()) else { continue };
            match find(text, sign) {
                Some(end) => drop(self.judge(class, start + 3..start + 3 + end)),
                None => {
                    self.spans.push(start + 3..line.end);
                    self.state = State::Until { sign };
                }
            }
            return true;
        }
        if is_block && class.counts() {
            self.state = State::Block { indent };
            return true;
        }
        let is_open = rest.is_empty() || rest.starts_with(b"#") || rest == b"[";
        if is_open {
            self.state = State::Below { indent, class };
        }
        if class >= Class::Token && (is_open || rest == b"{") {
            self.section.get_or_insert(Some(indent));
        }
        is_open
    }

    /// Where a value stands, without its quotes.
    fn value(&self, line: &Range<usize>, pair: &Pair) -> Range<usize> {
        let rest = self.text(&(pair.value..line.end));
        if let Some(quote @ (b'"' | b'\'' | b'`')) = rest.first().copied() {
            let end = closing(&rest[1..], quote).unwrap_or(rest.len() - 1);
            return pair.value + 1..pair.value + 1 + end;
        }
        if rest.starts_with(b"[") || rest.starts_with(b"{") && !rest.starts_with(b"{{") {
            return pair.value..pair.value;
        }
        // A name in quotes with a value in them: `"NAME=value"`.
        let before = pair.name.start.checked_sub(1).and_then(|at| self.content.get(at)).copied();
        let in_quotes = before.filter(|byte| b"\"'".contains(byte)).and_then(|quote| {
            let is_open = self.content.get(pair.name.end) != Some(&quote);
            rest.iter().take(MOST_QUOTED).position(|&byte| byte == quote).filter(|_| is_open)
        });
        let end = match in_quotes {
            Some(end) => end,
            // The value of the first name of a line reaches to its end.
            None if self.leads(line, &pair.name) => end_of_line(rest),
            None => {
                let ends = |byte: &u8| byte.is_ascii_whitespace() || b"\"'`,;&}])<".contains(byte);
                // A reference has brackets of its own.
                let own = if is_reference(rest) {
                    rest.iter().position(|&byte| byte == b'}').map_or(0, |at| at + 1)
                } else {
                    0
                };
                own + rest[own..].iter().position(ends).unwrap_or(rest.len() - own)
            }
        };
        pair.value..pair.value + end
    }

    /// Takes a value out if it is a credential of its class; tells whether it was one.
    fn judge(&mut self, class: Class, value: Range<usize>) -> bool {
        let text = self.text(&value);
        let quote = text.first().copied().filter(|byte| b"\"'`".contains(byte));
        if let Some(quote) = quote
            && text.len() > 1
            && text.ends_with(&[quote])
        {
            return self.judge(class, value.start + 1..value.end - 1);
        }
        // What counts where the variable is not set.
        if let Some(default) = values::default_of(text) {
            let default = value.start + default.start..value.start + default.end;
            let is_one = !self.text(&default).is_empty() && is_credential(class, self.text(&default));
            if is_one {
                self.spans.push(default);
            }
            return is_one;
        }
        // The scheme of a header stays.
        let scheme = text
            .iter()
            .position(|byte| *byte == b' ')
            .filter(|&end| is_scheme(&text[..end]))
            .map_or(0, |end| end + 1);
        let is_one = is_credential(class, &text[scheme..]);
        if is_one {
            self.spans.push(value.start + scheme..value.end);
        }
        is_one
    }

    /// What is a credential by its form, whatever its name: tokens of vendors, logins in addresses, keys.
    fn words(&mut self, line: &Range<usize>) {
        let text = self.text(line);
        if let Some(at) = find(text, b"-----BEGIN ").filter(|&at| contains(&text[at..], b"PRIVATE KEY")) {
            self.spans.push(line.start + at..line.end);
            if !contains(text, b"-----END ") {
                self.state = State::Key;
            }
            return;
        }
        // By far the most lines.
        if value_shape(text).is_none() {
            return;
        }
        let mut boundary = true;
        let mut at = 0;
        while at < text.len() {
            let rest = &text[at..];
            let found = if boundary { token(rest).or_else(|| header(rest)) } else { None };
            if let Some(found) = found.or_else(|| login(rest)) {
                if !is_placeholder(&rest[found.start..found.end.min(found.start + MOST_NAME)]) {
                    self.spans.push(line.start + at + found.start..line.start + at + found.end);
                }
                at += found.end.max(1);
                boundary = false;
                continue;
            }
            boundary = !text[at].is_ascii_alphanumeric();
            at += 1;
        }
        let is_sign = |byte: &u8| byte.is_ascii_whitespace() || b"\"'`,<>".contains(byte);
        let mut start = line.start;
        for word in text.split(is_sign) {
            if value_shape(word).is_some_and(|label| BY_WORD.contains(&label)) && !is_placeholder(word) {
                self.spans.push(start..start + word.len());
            }
            start += word.len() + 1;
        }
    }
}

/// No name with escapes is longer.
const MOST_ESCAPED: usize = 6 * MOST_NAME;
/// No line is indented more.
const MOST_INDENT: usize = 256;
/// No start of an element is longer.
const MOST_ELEMENT: usize = 512;
/// No value with quotes around it and its name is longer.
const MOST_QUOTED: usize = 4096;

/// Settings of servers that have a blank between name and value.
const WORDS_OF_SERVERS: &[&str] =
    &["requirepass", "masterauth", "password", "auth_pass", "authtoken", "secret"];

/// Calls that ask for a variable, with what counts where it is not set; and those that do so of these things alone.
const ASKING: &[&str] = &["getenv", "env", "config"];
const GETTING: &[&str] = &["get", "str", "setdefault"];
const VARIABLES: &[&str] = &["environ", "env", "config", "settings", "secrets"];

/// What stands before a value that counts where the one before is not set.
const ELSE: &[&[u8]] = &[b" or ", b" || ", b" ?? ", b" else "];

/// Shapes that are one word: addresses which are themselves the secret.
const BY_WORD: &[&str] = &[
    "slack webhook",
    "discord webhook",
    "teams webhook",
    "telegram bot url",
    "telegram bot token",
    "discord bot token",
];

/// A name without its escapes: `pass\u0077ord` is `password`.
fn unescaped(name: &[u8]) -> Cow<'_, [u8]> {
    if !name.contains(&b'\\') {
        return Cow::Borrowed(name);
    }
    let mut plain = Vec::with_capacity(name.len());
    let mut rest = name;
    while let [byte, after @ ..] = rest {
        rest = after;
        if *byte != b'\\' {
            plain.push(*byte);
            continue;
        }
        let digits = match after.first() {
            Some(b'u') => 4,
            Some(b'x') => 2,
            Some(b'U') => 8,
            _ => continue,
        };
        let number = after.get(1..=digits).and_then(|text| std::str::from_utf8(text).ok());
        if let Some(number) = number.and_then(|text| u32::from_str_radix(text, 16).ok()) {
            plain.extend(u8::try_from(number));
            rest = &after[1 + digits..];
        }
    }
    Cow::Owned(plain)
}

/// The end of a value that reaches to the end of its line, without a comment and the sign that ends a statement.
fn end_of_line(rest: &[u8]) -> usize {
    let text = without_comment(rest);
    let text = text.strip_suffix(b",").or_else(|| text.strip_suffix(b";")).unwrap_or(text);
    text.len()
}

/// A token of a vendor that begins here.
fn token(rest: &[u8]) -> Option<Range<usize>> {
    let Token::Begins { dotted, .. } = token_at(rest, true) else { return None };
    let is_own = |byte: &u8| is_token_byte(*byte) || b"+/=%$".contains(byte) || dotted && *byte == b'.';
    let length = rest.iter().take_while(|byte| is_own(byte)).count();
    Some(0..length)
}

fn is_scheme(word: &[u8]) -> bool {
    ["bearer", "basic", "token", "apikey", "api-key", "digest"]
        .iter()
        .any(|scheme| word.eq_ignore_ascii_case(scheme.as_bytes()))
}

/// What stands behind `Bearer` or `Basic`.
fn header(rest: &[u8]) -> Option<Range<usize>> {
    let start = [b"bearer ".as_slice(), b"basic "]
        .iter()
        .find(|word| rest.get(..word.len()).is_some_and(|text| text.eq_ignore_ascii_case(word)))?
        .len();
    let text = &rest[start..];
    let length =
        text.iter().take_while(|byte| !byte.is_ascii_whitespace() && !b"\"'`,".contains(byte)).count();
    is_credential(Class::Token, &text[..length]).then_some(start..start + length)
}

/// The password, or the token in its place, of an address whose `://` begins here.
fn login(rest: &[u8]) -> Option<Range<usize>> {
    let address = rest.strip_prefix(b"://")?;
    let is_own = |byte: &u8| *byte > b' ' && !b"\"'`,<>".contains(byte);
    let whole = &address[..address.iter().take(MOST_ADDRESS).take_while(|byte| is_own(byte)).count()];
    let authority = &whole[..whole.iter().position(|byte| b"/?#".contains(byte)).unwrap_or(whole.len())];
    // An unescaped sign in the password ends the authority early.
    let at = authority.iter().rposition(|&byte| byte == b'@').or_else(|| {
        let odd = authority.iter().position(|&byte| byte == b':')?;
        let is_port = authority[odd + 1..].iter().all(u8::is_ascii_digit);
        whole.iter().rposition(|&byte| byte == b'@').filter(|_| !is_port)
    })?;
    let (user, password) = match whole[..at].iter().position(|&byte| byte == b':') {
        Some(colon) => (&whole[..colon], colon + 1..at),
        None => (&whole[..0], 0..at),
    };
    let text = &whole[password.clone()];
    let class = if password.start == 0 { Class::Key } else { Class::Password };
    let is_one = text != user && is_credential(class, text);
    is_one.then_some(3 + password.start..3 + password.end)
}

/// No address with a login is longer.
const MOST_ADDRESS: usize = 1024;

#[cfg(test)]
mod tests;
