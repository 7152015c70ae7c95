//! docs/secrets.md says what is so.
#![allow(clippy::unwrap_used, clippy::panic)]

use keyward_policy::config::Document;
use keyward_policy::secret::{Reference, SCHEMES, read};
use std::collections::BTreeSet;

fn page() -> String {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/secrets.md");
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn every_reference_of_the_page_is_one_in_its_written_form() {
    let page = page();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` |"));
    let references: Vec<&str> = rows
        .map(|(first, _)| first)
        .filter(|first| first.contains("://") && !first.ends_with("://") && !first.contains('`'))
        .collect();
    assert!(references.len() >= 13, "{references:?}");
    let mut schemes = BTreeSet::new();
    for text in references {
        let reference = Reference::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(reference.to_string(), text);
        schemes.insert(reference.scheme());
    }
    assert_eq!(schemes, SCHEMES.into_iter().collect());
}

#[test]
fn the_file_of_the_page_is_read() {
    let page = page();
    let text = page.split("```toml\n").nth(1).unwrap().split("```").next().unwrap();
    assert_eq!(read(&Document { name: "page", text: text.as_bytes() }).unwrap().len(), 2);
}
