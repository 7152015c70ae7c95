//! How a judgement is shown to a person: the line that caused it, with the part underlined.

use crate::verdict::Span;

/// So much of a line is shown on each side of the part.
const AROUND: usize = 60;

/// The line in which the part begins, and a line of marks below it. What could change how a terminal shows it is made visible.
pub fn underlined(source: &[u8], span: Span) -> String {
    let start = span.start.min(source.len());
    let end = span.end.clamp(start, source.len());
    let line_start = source[..start].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let line_end =
        source[start..].iter().position(|byte| *byte == b'\n').map_or(source.len(), |at| start + at);
    let end = end.min(line_end).max(start);
    let from = line_start.max(start.saturating_sub(AROUND));
    let to = line_end.min(end.saturating_add(AROUND)).min(start.saturating_add(4 * AROUND));
    let end = end.min(to);
    let before = visible(&source[from..start]);
    let part = visible(&source[start..end]);
    let after = visible(&source[end..to]);
    let cut = |yes: bool| if yes { "…" } else { "" };
    let (left, right) = (cut(from > line_start), cut(to < line_end));
    let width = left.chars().count() + before.chars().count();
    let marks = "^".repeat(part.chars().count().max(1));
    format!("{left}{before}{part}{after}{right}\n{}{marks}", " ".repeat(width))
}

fn visible(bytes: &[u8]) -> String {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    keyward_policy::text::visible(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_part_is_underlined_in_its_line() {
        let source = b"ls\nrm -rf / && ls\n";
        assert_eq!(underlined(source, Span::new(3, 11)), "rm -rf / && ls\n^^^^^^^^");
        assert_eq!(underlined(source, Span::new(10, 11)), "rm -rf / && ls\n       ^");
    }

    #[test]
    fn nothing_in_the_text_moves_the_cursor() {
        let shown = underlined(b"a \x1b[2J\xe2\x80\xaeb\r rm", Span::new(0, 40));
        assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown}");
        assert!(!shown.contains('\u{202e}'));
    }

    #[test]
    fn a_place_outside_of_the_text_is_none() {
        assert_eq!(underlined(b"", Span::new(5, 9)), "\n^");
        assert_eq!(underlined(b"ls", Span::new(9, 3)), "ls\n  ^");
        let long = [b'x'; 5000];
        assert!(underlined(&long, Span::new(100, 4000)).len() < 1000);
    }
}
