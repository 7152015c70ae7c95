//! A policy file's text: from bytes to a parsed document, and from byte offsets back to lines and columns.

use super::mistake::{Mistake, Unfit};
use crate::words::Origin;

/// No policy is this long; a file that is was not meant to be one.
const LARGEST: usize = 1 << 20;

/// So many mistakes are shown of one file.
const SHOWN: usize = 100;

/// The text of one file under its name.
pub struct Source<'a> {
    name: &'a str,
    text: &'a str,
    /// The offset at which each line begins.
    lines: Vec<usize>,
    /// The built-in profile that it is.
    profile: Option<&'static str>,
}

impl<'a> Source<'a> {
    /// Checks size and encoding.
    pub fn new(name: &'a str, bytes: &'a [u8]) -> Result<Self, Mistake> {
        if bytes.len() > LARGEST {
            let unfit =
                Unfit::new("the file is larger than 1 MiB", "a policy is a page of text; check the path");
            return Err(Source::over(name, "").mistake(0, unfit));
        }
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Source::over(name, text)),
            Err(error) => {
                let valid = bytes.get(..error.valid_up_to()).unwrap_or_default();
                let text = std::str::from_utf8(valid).unwrap_or_default();
                let unfit = Unfit::new("the file is not UTF-8 from here on", "save it as UTF-8");
                Err(Source::over(name, text).mistake(text.len(), unfit))
            }
        }
    }

    fn over(name: &'a str, text: &'a str) -> Self {
        let mut lines = vec![0];
        lines.extend(text.bytes().enumerate().filter(|&(_, byte)| byte == b'\n').map(|(at, _)| at + 1));
        Source { name, text, lines, profile: None }
    }

    /// The text of a built-in profile, whose values have it as their origin.
    pub fn of_profile(self, profile: &'static str) -> Self {
        Source { profile: Some(profile), ..self }
    }

    /// Reads the text as TOML. The parser stops at its first error, and bounds how deeply tables and lists may nest.
    pub fn parse(&self) -> Result<toml_edit::Document<&'a str>, Mistake> {
        toml_edit::Document::parse(self.text).map_err(|error| {
            let message = error.message();
            let remedy = if message.contains("duplicate key") {
                "keep one of the two"
            } else if message.contains("recursion") {
                "a policy needs no such nesting; make it flat"
            } else {
                "correct this line: texts stand in \"quotes\", lists in [brackets], tables in {braces}"
            };
            let offset = error.span().map_or(self.text.len(), |span| span.start);
            self.mistake(offset, Unfit::new(format!("this is not valid TOML: {message}"), remedy))
        })
    }

    /// Whether it says nothing: no key and no table.
    pub fn is_empty(&self) -> bool {
        self.parse().is_ok_and(|toml| toml.is_empty())
    }

    /// The line of an offset, from 1.
    fn line(&self, offset: usize) -> usize {
        self.lines.partition_point(|&start| start <= offset)
    }

    /// The place of an offset, as an origin.
    pub fn origin(&self, offset: usize) -> Origin {
        match self.profile {
            Some(profile) => Origin::Profile { profile },
            None => Origin::File { file: self.name.to_owned(), line: self.line(offset) },
        }
    }

    /// A mistake at an offset.
    pub fn mistake(&self, offset: usize, unfit: Unfit) -> Mistake {
        let line = self.line(offset);
        let start = self.lines.get(line.saturating_sub(1)).copied().unwrap_or_default();
        let before = self.text.get(start..offset.min(self.text.len())).unwrap_or_default();
        let column = before.chars().count() + 1;
        Mistake { file: self.name.to_owned(), line, column, fact: unfit.fact, remedy: unfit.remedy }
    }
}

/// The mistakes found in one file so far.
pub struct Report<'s, 'a> {
    pub source: &'s Source<'a>,
    mistakes: Vec<Mistake>,
}

impl<'s, 'a> Report<'s, 'a> {
    pub fn new(source: &'s Source<'a>) -> Self {
        Report { source, mistakes: Vec::new() }
    }

    /// Whether there is no use in looking for more.
    pub fn is_full(&self) -> bool {
        self.mistakes.len() >= SHOWN
    }

    pub fn add(&mut self, offset: usize, unfit: Unfit) {
        if !self.is_full() {
            self.mistakes.push(self.source.mistake(offset, unfit));
        }
    }

    /// All of them, in the order of the file.
    pub fn into_mistakes(mut self) -> Vec<Mistake> {
        self.mistakes.sort_by_key(|mistake| (mistake.line, mistake.column));
        self.mistakes
    }
}
