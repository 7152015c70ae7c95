//! Rules as they are searched: flat tables of numbers over one text.
//!
//! The tables of the built-in rules are made by the build and lie in the program as they are. They hold places instead of pointers, because
//! a pointer would have to be relocated at every start, and nothing in them is read before a command asks for it.

use super::kinds::{Decides, Needs, Places, Runs, Taint, Tongue};
use std::borrow::Cow;

/// A part of the one text: where it begins, and in the low bits how long it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Text(pub u32);

impl Text {
    const LENGTH_BITS: u32 = 12;

    /// None where the tables are full.
    pub fn new(start: usize, length: usize) -> Option<Text> {
        let start = u32::try_from(start).ok().filter(|start| *start < 1 << (32 - Text::LENGTH_BITS))?;
        let length = u32::try_from(length).ok().filter(|length| *length < 1 << Text::LENGTH_BITS)?;
        Some(Text(start << Text::LENGTH_BITS | length))
    }
}

/// Some texts, or some numbers of rules, that follow each other in their table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct List {
    pub start: u16,
    pub length: u16,
}

impl List {
    pub fn is_empty(self) -> bool {
        self.length == 0
    }

    fn of<T>(self, table: &[T]) -> &[T] {
        let start = usize::from(self.start);
        table.get(start..start + usize::from(self.length)).unwrap_or_default()
    }
}

/// One rule: a verdict, and conditions of which each that is there must hold. Alternatives in a text are divided by `|`.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    pub id: Text,
    pub class: Text,
    pub reason: Text,
    pub decides: Decides,
    pub tongue: Tongue,
    pub needs: Needs,
    /// What it is about stays in the cage: counts only where everything is to be asked for.
    pub contained: bool,
    /// The first words, each one of its alternatives.
    pub sub: List,
    /// A word that fits one of these.
    pub any: List,
    /// Options, as `name` or `name=pattern`: of each entry one alternative is there.
    pub flags: List,
    pub no_flags: List,
    /// An argument of any kind that fits one of these.
    pub args: List,
    pub no_args: List,
    /// Words in this order, divided by blanks, in an argument or in the input, whatever stands between them.
    pub words: List,
    pub no_words: List,
    /// What one of the paths is, and what the same path is besides.
    pub places: Places,
    pub within: Places,
    /// Paths are the values of these options instead of the words.
    pub options: List,
    pub last: bool,
    /// There is no word beyond `sub`.
    pub bare: bool,
    /// The last word is where the others go, and does not count as a path.
    pub sources: bool,
    pub writes: Places,
    pub reads: Places,
    /// Words, input, or the values of `options` come from there.
    pub taint: Taint,
    /// What cannot be seen does not count.
    pub seen_only: bool,
}

/// How a program reads its arguments.
#[derive(Clone, Copy, Debug, Default)]
pub struct Program {
    /// Options that take the next argument.
    pub values: List,
    /// `-name` is one option and not five.
    pub single_dash: bool,
    /// `name=value` is an option.
    pub operands: bool,
    /// What stands before the first option is a path, also if it is unknown.
    pub paths_first: bool,
}

/// A program that starts another one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wrapper {
    pub values: List,
    /// With one of these it starts nothing.
    pub only_asks: List,
    /// Options that take the next two.
    pub pairs: List,
    /// Options whose value is a line for a shell.
    pub lines: List,
    /// Options behind which the other command stands. Where there are any, it stands nowhere else, except behind `--`.
    pub after: List,
    /// Words before the other program's name.
    pub skip: u8,
    /// Words that may stand before those of `sub`, or before the other program's name.
    pub before: List,
    /// The first words are its own command, if they are any of these.
    pub sub: List,
    /// What it starts runs in a container: what is forbidden here may be right there.
    pub container: bool,
    /// What follows is one script for a shell, not a list of arguments.
    pub shell: bool,
    /// Each word is such a script.
    pub each: bool,
    /// What it starts runs on another machine.
    pub remote: bool,
}

/// A program that runs code.
#[derive(Clone, Copy, Debug)]
pub struct Interpreter {
    /// None where this crate cannot read the language: code may consist of `words` then.
    pub tongue: Option<Tongue>,
    pub words: List,
    /// Options that are followed by code.
    pub code: List,
    pub values: List,
    /// Those of them whose value is a file that runs first.
    pub loads: List,
    /// Options with which it runs no code of a file.
    pub stops: List,
}

/// All that is known by a name: of a program, of a function as `language:name`, of a fact as `fact:name`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entry {
    pub name: Text,
    /// Numbers of the rules that name it.
    pub rules: List,
    /// Numbers of the rules for all that leave it out.
    pub spared: List,
    /// Rows of the other tables, counted from one.
    pub program: u16,
    pub wrapper: u16,
    pub interpreter: u16,
    /// Options that hold a shell line.
    pub shell_options: List,
    pub runs: Option<Runs>,
    /// Its output comes from the network.
    pub download: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Tables {
    pub text: Cow<'static, str>,
    pub texts: Cow<'static, [Text]>,
    pub numbers: Cow<'static, [u16]>,
    pub rules: Cow<'static, [Rule]>,
    /// Numbers of the rules that name no program.
    pub for_all: List,
    pub programs: Cow<'static, [Program]>,
    pub wrappers: Cow<'static, [Wrapper]>,
    pub interpreters: Cow<'static, [Interpreter]>,
    pub entries: Cow<'static, [Entry]>,
    /// Where a name is looked for: at the number that it spreads to, and then one further. A row of the entries, counted from one.
    pub slots: Cow<'static, [u16]>,
}

impl Tables {
    pub fn text(&self, text: Text) -> &str {
        let start = (text.0 >> Text::LENGTH_BITS) as usize;
        let length = (text.0 & ((1 << Text::LENGTH_BITS) - 1)) as usize;
        self.text.get(start..start + length).unwrap_or_default()
    }

    pub fn texts(&self, list: List) -> impl DoubleEndedIterator<Item = &str> + Clone {
        list.of(&self.texts).iter().map(|text| self.text(*text))
    }

    pub fn has(&self, list: List, wanted: &[u8]) -> bool {
        self.texts(list).any(|text| text.as_bytes() == wanted)
    }

    /// The same for a long option, of which the beginning is enough.
    pub fn has_option(&self, list: List, wanted: &[u8]) -> bool {
        self.texts(list).any(|text| is_option(text.as_bytes(), wanted))
    }

    pub fn numbers(&self, list: List) -> &[u16] {
        list.of(&self.numbers)
    }

    /// What is known by a name that stands behind a prefix.
    pub fn find(&self, prefix: &str, name: &[u8]) -> Option<&Entry> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut slot = spread(prefix.as_bytes(), name) as usize & mask;
        loop {
            let row = usize::from(*self.slots.get(slot)?).checked_sub(1)?;
            let entry = self.entries.get(row)?;
            let same = self.text(entry.name).as_bytes().strip_prefix(prefix.as_bytes());
            if same == Some(name) {
                return Some(entry);
            }
            slot = (slot + 1) & mask;
        }
    }

    pub fn program(&self, entry: &Entry) -> Option<&Program> {
        self.programs.get(usize::from(entry.program).checked_sub(1)?)
    }

    pub fn wrapper(&self, entry: &Entry) -> Option<&Wrapper> {
        self.wrappers.get(usize::from(entry.wrapper).checked_sub(1)?)
    }

    pub fn interpreter(&self, entry: &Entry) -> Option<&Interpreter> {
        self.interpreters.get(usize::from(entry.interpreter).checked_sub(1)?)
    }
}

/// Whether a long option is written like this. Tools take the beginning of a name as long as it is clear; one that is not clear
/// is no option at all, so that nothing is lost by taking it for one.
pub fn is_option(name: &[u8], written: &[u8]) -> bool {
    name == written
        || written.len() > 1 && name.len() > written.len() && name.starts_with(written) && written != b"no"
}

/// The number of a name, from which its slot is counted.
pub fn spread(prefix: &[u8], name: &[u8]) -> u32 {
    let mix = |sum: u32, byte: &u8| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    let sum = prefix.iter().chain(name).fold(0x811c_9dc5, mix);
    sum ^ sum >> 15
}
