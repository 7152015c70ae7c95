//! Text of others for the eyes of a person who has to decide: everything that is there can be seen, in the order in which it runs, and
//! nothing of it looks like words of ours.
//!
//! What does not show itself as one character at its place is written as `\u{…}`: control characters and escape sequences, marks
//! that turn the direction of writing and letters that do so by themselves, what has no width, blanks that are not the plain one, and
//! signs that have no fixed shape. A letter keeps two combining marks. Each row begins with a bar; a row that goes on with a line has
//! another.

use std::iter::Peekable;
use std::str::CharIndices;
use unicode_width::UnicodeWidthChar;

/// What a row begins with: of a new line, and of the rest of one.
pub const LINE: &str = "│ ";
pub const REST: &str = "┆ ";
/// The cells that they take.
pub const MARGIN: usize = 2;

/// Marks on one letter that are shown; a pile of them would cover the lines above.
const MARKS: usize = 2;
/// Narrower than this no escape fits.
const NARROWEST: usize = 12;

/// How one character is shown.
enum Shape {
    /// As it is, in so many cells.
    Plain(usize),
    /// As it is, on the letter before.
    Mark,
    Escaped,
}

fn shape(c: char) -> Shape {
    match c {
        ' '..='~' => Shape::Plain(1),
        _ if c.is_control() || c.is_whitespace() || is_unseen(c) || turns(c) => Shape::Escaped,
        _ => match c.width() {
            Some(0) => Shape::Mark,
            Some(cells) => Shape::Plain(cells),
            None => Shape::Escaped,
        },
    }
}

/// What leaves no trace, or one that depends on the font: fillers, joiners, selectors, tags, blanks in the shape of letters, private
/// and unassigned planes, and the replacement for what was no text.
fn is_unseen(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}'
        | '\u{e000}'..='\u{f8ff}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{ffff}'
        | '\u{13430}'..='\u{1345f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{40000}'..='\u{10ffff}')
}

/// Scripts that are written from right to left: beside one of their letters a terminal shows the others in another order.
fn turns(c: char) -> bool {
    matches!(c, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefe}' | '\u{10800}'..='\u{10fff}' | '\u{1e800}'..='\u{1efff}')
}

fn escape(c: char, out: &mut String) {
    match c {
        '\t' => out.push_str("\\t"),
        '\r' => out.push_str("\\r"),
        '\n' => out.push_str("\\n"),
        _ => out.extend(c.escape_unicode()),
    }
}

/// Text that stands inside of a line of ours.
pub fn inline(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut marks = Marks::default();
    for c in text.chars() {
        marks.put(c, &mut out);
    }
    out
}

/// The same, cut after so many characters of the text; what is left out is counted.
pub fn inline_up_to(text: &str, most: usize) -> String {
    let cut = text.char_indices().nth(most).map_or(text.len(), |(place, _)| place);
    let (shown, left) = text.split_at(cut);
    match left.chars().count() {
        0 => inline(shown),
        left => format!("{}… {} more characters", inline(shown), grouped(left)),
    }
}

/// JSON that is safe on a terminal as well. It means the same: what is escaped can only stand in its strings.
pub fn json(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\n' || matches!(shape(c), Shape::Plain(_)) {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    out
}

/// A number as people read it: 3,120.
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// How many more marks the last letter takes.
#[derive(Default)]
struct Marks(usize);

impl Marks {
    /// Adds a character as it is shown; gives the cells that it takes.
    fn put(&mut self, c: char, out: &mut String) -> usize {
        match shape(c) {
            Shape::Plain(cells) => {
                out.push(c);
                self.0 = if c.is_alphanumeric() { MARKS } else { 0 };
                cells
            }
            Shape::Mark if self.0 > 0 => {
                out.push(c);
                self.0 -= 1;
                0
            }
            Shape::Mark | Shape::Escaped => {
                let before = out.len();
                escape(c, out);
                self.0 = 0;
                out.len() - before
            }
        }
    }
}

/// One row on a screen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// With its bar.
    pub text: String,
    /// A row of its own below, where part of this one is to be pointed at.
    pub pointer: Option<String>,
    /// Where the row ends in the text.
    pub end: usize,
}

/// The rows of a text on a screen of so many columns, one after the other. Nothing is left out. `span` is pointed at.
pub fn rows(text: &str, columns: usize, span: Option<(usize, usize)>) -> Rows<'_> {
    let width = columns.saturating_sub(MARGIN).max(NARROWEST);
    Rows { text, rest: text.char_indices().peekable(), width, span, begins: true, over: text.is_empty() }
}

pub struct Rows<'a> {
    text: &'a str,
    rest: Peekable<CharIndices<'a>>,
    width: usize,
    span: Option<(usize, usize)>,
    /// Whether a line begins.
    begins: bool,
    over: bool,
}

impl Iterator for Rows<'_> {
    type Item = Row;

    fn next(&mut self) -> Option<Row> {
        if self.over {
            return None;
        }
        let bar = if self.begins { LINE } else { REST };
        let mut row = Row { text: bar.into(), pointer: None, end: self.text.len() };
        let (mut used, mut marks) = (0, Marks::default());
        let mut pointer = String::new();
        loop {
            let Some(&(place, c)) = self.rest.peek() else {
                self.over = true;
                break;
            };
            if c == '\n' {
                self.rest.next();
                self.begins = true;
                // A text that ends with its line has no empty one behind it.
                self.over = self.rest.peek().is_none();
                row.end = place + 1;
                break;
            }
            let before = row.text.len();
            let cells = marks.put(c, &mut row.text);
            if used + cells > self.width {
                row.text.truncate(before);
                self.begins = false;
                row.end = place;
                break;
            }
            self.rest.next();
            let pointed = self.span.is_some_and(|(start, end)| (start..end).contains(&place));
            if pointed && cells > 0 {
                pointer.extend(std::iter::repeat_n(' ', used.saturating_sub(pointer.len())));
                pointer.extend(std::iter::repeat_n('^', cells));
            }
            used += cells;
        }
        row.pointer = (!pointer.is_empty()).then(|| format!("{REST}{pointer}"));
        Some(row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shown(text: &str, columns: usize) -> Vec<String> {
        rows(text, columns, None).map(|row| row.text).collect()
    }

    #[test]
    fn what_cannot_be_seen_is_written_out() {
        for (text, seen) in [
            ("ls\u{1b}[2Jok\u{7}", "ls\\u{1b}[2Jok\\u{7}"),
            ("a\tb\rc", "a\\tb\\rc"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("rm \u{202e}fr- \u{2066}x\u{2069}", "rm \\u{202e}fr- \\u{2066}x\\u{2069}"),
            ("a\u{200b}b\u{feff}c\u{ad}d\u{2060}", "a\\u{200b}b\\u{feff}c\\u{ad}d\\u{2060}"),
            ("a\u{a0}b\u{2003}c\u{3000}d\u{2800}", "a\\u{a0}b\\u{2003}c\\u{3000}d\\u{2800}"),
            ("x\u{3164}\u{115f}\u{ffa0}", "x\\u{3164}\\u{115f}\\u{ffa0}"),
            ("a\u{e0041}b\u{fe0f}\u{e123}", "a\\u{e0041}b\\u{fe0f}\\u{e123}"),
            ("lossy \u{fffd}", "lossy \\u{fffd}"),
            ("שלום", "\\u{5e9}\\u{5dc}\\u{5d5}\\u{5dd}"),
            ("é e\u{301}e\u{301}\u{302}\u{303}", "é e\u{301}e\u{301}\u{302}\\u{303}"),
            (" \u{301}", " \\u{301}"),
            ("日本 naïve 😀", "日本 naïve 😀"),
            ("1\n2", "1\\n2"),
        ] {
            assert_eq!(inline(text), seen);
        }
    }

    #[test]
    fn every_row_has_its_bar_and_long_lines_go_on_visibly() {
        assert_eq!(shown("one\n\ntwo\n", 40), ["│ one", "│ ", "│ two"]);
        assert_eq!(shown("", 40), [""; 0]);
        assert_eq!(shown("\n", 40), ["│ "]);
        assert_eq!(shown("0123456789abcdef", 14), ["│ 0123456789ab", "┆ cdef"]);
        // A wide letter is not cut in two, and an escape neither.
        assert_eq!(shown("0123456789a日x", 14), ["│ 0123456789a", "┆ 日x"]);
        assert_eq!(shown("0123456789\u{202e}", 14), ["│ 0123456789", "┆ \\u{202e}"]);
        assert_eq!(shown("│ keyward: allowed\nAllow? y", 40), ["│ │ keyward: allowed", "│ Allow? y"]);
    }

    #[test]
    fn the_cause_is_pointed_at_where_it_stands() {
        let pointers = |text, columns, span| {
            rows(text, columns, Some(span)).map(|row| row.pointer.unwrap_or_default()).collect::<Vec<_>>()
        };
        assert_eq!(pointers("ls; rm x", 40, (4, 8)), ["┆     ^^^^"]);
        assert_eq!(pointers("\u{1b}日rm", 40, (4, 6)), ["┆         ^^"]);
        assert_eq!(pointers("a\nbc\nd", 40, (2, 4)), ["", "┆ ^^", ""]);
        assert_eq!(pointers("0123456789abcdef", 14, (10, 14)), ["┆           ^^", "┆ ^^"]);
        assert_eq!(pointers("abc", 40, (7, 900)), [""]);
        assert_eq!(pointers("abc", 40, (2, 1)), [""]);
    }

    #[test]
    fn what_is_cut_is_counted() {
        assert_eq!(inline_up_to("abc", 3), "abc");
        assert_eq!(inline_up_to(&"x".repeat(3123), 3), "xxx… 3,120 more characters");
        assert_eq!(
            (grouped(0), grouped(999), grouped(1_234_567)),
            ("0".into(), "999".into(), "1,234,567".into())
        );
    }

    proptest! {
        #[test]
        fn json_means_the_same_and_is_safe(text in any_text()) {
            let written = json(&serde_json::to_string(&text).unwrap());
            prop_assert!(written.chars().all(is_safe), "{}", written);
            prop_assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
        }
    }

    /// What a terminal obeys, or what has no place of its own.
    fn is_safe(c: char) -> bool {
        !c.is_control() && !turns(c) && !is_unseen(c) && (c == ' ' || !c.is_whitespace())
    }

    /// Reads what was shown back. Only a text without backslashes can be read in one way.
    fn read_back(seen: &str) -> String {
        let mut out = String::new();
        let mut rest = seen;
        while let Some((plain, escaped)) = rest.split_once('\\') {
            out.push_str(plain);
            let (c, after) = match escaped.split_at(1) {
                ("t", after) => ('\t', after),
                ("r", after) => ('\r', after),
                ("n", after) => ('\n', after),
                _ => {
                    let (digits, after) = escaped.strip_prefix("u{").unwrap().split_once('}').unwrap();
                    (char::from_u32(u32::from_str_radix(digits, 16).unwrap()).unwrap(), after)
                }
            };
            out.push(c);
            rest = after;
        }
        out + rest
    }

    fn cells(text: &str) -> usize {
        text.chars().map(|c| c.width().unwrap_or(0)).sum()
    }

    fn any_text() -> impl Strategy<Value = String> {
        let odd = prop::sample::select(vec![
            '\u{1b}',
            '\n',
            '\r',
            '\t',
            '\u{202e}',
            '\u{200b}',
            '\u{301}',
            '\u{3164}',
            '日',
            'א',
            '│',
            '\u{e0020}',
            ' ',
            'y',
        ]);
        prop::collection::vec(prop_oneof![any::<char>(), odd, prop::char::range(' ', '~')], 0..200)
            .prop_map(|all| all.into_iter().filter(|&c| c != '\\').collect())
    }

    proptest! {
        #[test]
        fn whatever_the_text_nothing_of_it_is_lost_or_obeyed(text in any_text(), columns in 0usize..60) {
            let rows: Vec<Row> = rows(&text, columns, Some((3, 30))).collect();
            let mut read = String::new();
            for (number, row) in rows.iter().enumerate() {
                prop_assert!(row.text.chars().all(is_safe));
                prop_assert!(cells(&row.text) <= columns.max(NARROWEST + MARGIN));
                let begins = row.text.starts_with(LINE);
                prop_assert!(begins || row.text.starts_with(REST));
                if begins && number > 0 {
                    read.push('\n');
                }
                read += &read_back(&row.text[LINE.len()..]);
                if let Some(pointer) = &row.pointer {
                    prop_assert!(cells(pointer) <= cells(&row.text));
                }
            }
            prop_assert_eq!(read.as_str(), text.strip_suffix('\n').unwrap_or(&text));
            prop_assert_eq!(read_back(&inline(&text)), text);
        }

        #[test]
        fn no_letter_carries_more_than_two_marks(text in "[a\u{300}-\u{36f}]{0,60}") {
            let mut marks = 0;
            for c in inline(&text).chars() {
                marks = if c.width() == Some(0) { marks + 1 } else { 0 };
                prop_assert!(marks <= MARKS);
            }
        }
    }
}
