//! Applies the edits of findings to the text of a file, and shows them as a diff. Pure.

use crate::file::{Reading, parse};
use crate::finding::Edit;
use similar::TextDiff;
use tree_sitter::Node;

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
        changed = with_import(reading, &changed, import)?;
    }
    let errors = |text: &str| parse(reading, text, None).ok().map(|tree| tree.root_node().has_error());
    match (errors(text), errors(&changed)) {
        (Some(false), Some(false)) => Some(changed),
        _ => None,
    }
}

/// Adds an import where imports stand: before the first one, behind `from __future__`, the docstring and `'use strict'`. The place is
/// found in the tree, because a text can hold lines that look like imports.
fn with_import(reading: Reading, text: &str, import: &str) -> Option<String> {
    let tree = parse(reading, text, None).ok()?;
    let root = tree.root_node();
    let mut cursor = root.walk();
    let statements: Vec<Node<'_>> = root.named_children(&mut cursor).collect();
    let written = |node: &Node<'_>| text.get(node.byte_range()).unwrap_or("").trim();
    if statements
        .iter()
        .any(|statement| written(statement).trim_end_matches(';') == import.trim_end_matches(';'))
    {
        return Some(text.to_owned());
    }
    let is_opening = |node: &Node<'_>| match node.kind() {
        "comment" | "hash_bang_line" | "future_import_statement" => true,
        "expression_statement" => {
            written(node).trim_start_matches(['r', 'R', 'u', 'U']).starts_with(['"', '\''])
        }
        _ => false,
    };
    let ending = if text.contains("\r\n") { "\r\n" } else { "\n" };
    let opening = statements.iter().take_while(|statement| is_opening(statement)).count();
    // Comments in front of the first statement belong to it, unless the file begins with them.
    let behind = statements[..opening].iter().rposition(|statement| statement.kind() != "comment");
    let is_import = |node: &Node<'_>| matches!(node.kind(), "import_statement" | "import_from_statement");
    let first = statements.get(opening);
    let at = match (first, behind) {
        // A whole line: what stands before a statement on its line is the end of another one.
        (Some(first), _) if is_import(first) || behind.is_none() => first.start_byte(),
        (_, Some(last)) => {
            let end = statements[last].end_byte();
            text[end..].find('\n').map_or(text.len(), |at| end + at + 1)
        }
        (Some(first), None) => first.start_byte(),
        (None, None) => return None,
    };
    let at_line_start = at == 0 || text[..at].ends_with('\n');
    at_line_start.then(|| format!("{}{import}{ending}{}", &text[..at], &text[at..]))
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
    fn an_import_is_never_put_into_a_text_or_before_the_future() {
        for (text, expected) in [
            (
                "\"\"\"Doc\nimport os\n\"\"\"\ndef f():\n    g(1)\n",
                "\"\"\"Doc\nimport os\n\"\"\"\nimport keyward\n",
            ),
            (
                "# x\n\"\"\"Doc\"\"\"\nfrom __future__ import (\n  a)\ng(1)\n",
                "# x\n\"\"\"Doc\"\"\"\nfrom __future__ import (\n  a)\nimport keyward\n",
            ),
            (
                "try:\n    import x\nexcept E:\n    pass\nt = \"\"\"\nimport os\n\"\"\"\ng(1)\n",
                "import keyward\ntry:\n",
            ),
            (
                "#!/usr/bin/python\n# coding: utf-8\n\nimport os\ng(1)\n",
                "#!/usr/bin/python\n# coding: utf-8\n\nimport keyward\nimport os\n",
            ),
        ] {
            let at = text.find("1)").unwrap() + 1;
            let fixed = apply(Reading::Python, text, &[&edit(at, at, ", 2")]).unwrap();
            assert!(fixed.starts_with(expected), "{fixed}");
        }
    }

    #[test]
    fn a_text_that_would_not_parse_is_not_given() {
        assert_eq!(apply(Reading::Python, "import os\nf(1)\n", &[&edit(12, 12, "((")]), None);
        assert_eq!(apply(Reading::Python, "import os\nf(1\n", &[&edit(12, 12, "1")]), None);
    }
}
