//! Applies the edits of findings to the text of a file, and shows them as a diff. Pure.

use crate::file::{Reading, parse};
use crate::finding::Edit;
use similar::TextDiff;

/// The text with these edits, if it is as sound as it was: no new error in its tree.
pub fn apply(reading: Reading, text: &str, edits: &[&Edit]) -> Option<String> {
    let mut edits: Vec<&Edit> = edits.to_vec();
    edits.sort_by_key(|edit| edit.start);
    // Two edits of the same place are not certain.
    if edits.windows(2).any(|pair| {
        pair[0].end > pair[1].start || pair[0].start == pair[1].start && pair[0].end == pair[1].end
    }) {
        return None;
    }
    let mut changed = String::with_capacity(text.len() + 64);
    let mut from = 0;
    for edit in &edits {
        changed.push_str(text.get(from..edit.start)?);
        changed.push_str(&edit.text);
        from = edit.end;
    }
    changed.push_str(text.get(from..)?);
    if let Some(import) = edits.iter().find_map(|edit| edit.import) {
        changed = with_import(&changed, import);
    }
    let errors = |text: &str| parse(reading, text, None).ok().map(|tree| tree.root_node().has_error());
    match (errors(text), errors(&changed)) {
        (Some(false), Some(false)) => Some(changed),
        _ => None,
    }
}

/// Adds an import where imports stand: before the first one, behind `from __future__`, the docstring and `'use strict'`.
fn with_import(text: &str, import: &str) -> String {
    if text.lines().any(|line| line.trim_end() == import) {
        return text.to_owned();
    }
    let ending = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let at = if import.starts_with("import keyward") { python_place(text) } else { javascript_place(text) };
    format!("{}{import}{ending}{}", &text[..at], &text[at..])
}

/// Before the first import at the top that is not of the future.
fn python_place(text: &str) -> usize {
    let mut at = 0;
    let mut future = false;
    for line in text.split_inclusive('\n') {
        let is_future = line.starts_with("from __future__");
        // The rest of an import of the future with brackets.
        if future && !is_future && (line.starts_with([' ', '\t', ')'])) {
            at += line.len();
            continue;
        }
        future = is_future;
        if !is_future && (line.starts_with("import ") || line.starts_with("from ")) {
            return at;
        }
        at += line.len();
    }
    // No import at the top of the file: behind comments.
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if !line.starts_with('#') {
            break;
        }
        at += line.len();
    }
    at
}

fn javascript_place(text: &str) -> usize {
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let bare = line.trim();
        if line.starts_with("import ")
            || line.starts_with("const ")
            || line.starts_with("var ")
            || line.starts_with("let ")
        {
            return at;
        }
        let opening = line.starts_with("#!")
            || bare.is_empty()
            || bare.starts_with("//")
            || bare.starts_with("'use strict'")
            || bare.starts_with("\"use strict\"")
            || bare.starts_with("/*")
            || bare.starts_with('*');
        if !opening {
            return at;
        }
        at += line.len();
    }
    at
}

pub fn diff(name: &str, before: &str, after: &str) -> String {
    TextDiff::from_lines(before, after)
        .unified_diff()
        .context_radius(2)
        .header(&format!("a/{name}"), &format!("b/{name}"))
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(start: usize, end: usize, text: &str) -> Edit {
        Edit { start, end, text: text.into(), import: Some("import keyward") }
    }

    #[test]
    fn an_import_stands_behind_the_docstring_and_the_future() {
        let text = "\"\"\"Doc.\"\"\"\nfrom __future__ import annotations\n\nimport os\n\nf(1)\n";
        let at = text.find("1)").unwrap() + 1;
        let fixed = apply(Reading::Python, text, &[&edit(at, at, ", 2")]).unwrap();
        assert_eq!(
            fixed,
            "\"\"\"Doc.\"\"\"\nfrom __future__ import annotations\n\nimport keyward\nimport os\n\nf(1, 2)\n"
        );
    }

    #[test]
    fn a_text_that_would_not_parse_is_not_given() {
        assert_eq!(apply(Reading::Python, "import os\nf(1)\n", &[&edit(12, 12, "((")]), None);
        assert_eq!(apply(Reading::Python, "import os\nf(1\n", &[&edit(12, 12, "1")]), None);
    }
}
