//! Any secrets, any stream, cut anywhere: what comes out is what the definition says, and nothing is kept back at the end.
//!
//! The input is a line of sizes (how the stream is cut), lines of secrets up to an empty one, and the stream.
#![no_main]

use keyward_vault::redact::definition::by_definition;
use keyward_vault::redact::{Patterns, Redactor};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let mut lines = input.splitn(6, |byte| *byte == b'\n');
    let sizes = lines.next().unwrap_or_default();
    let mut rest: &[u8] = &[];
    let mut secrets: Vec<&[u8]> = Vec::new();
    for line in lines {
        rest = line;
        if line.len() > 64 {
            break;
        }
        secrets.push(line);
    }
    // The last of them is the stream, even if it looks like a secret.
    if secrets.last() == Some(&rest) {
        secrets.pop();
    }
    let stream = &rest[..rest.len().min(2048)];
    let names = ["a", "b", "c", "d"];
    let (patterns, _) = Patterns::new(names.into_iter().zip(secrets));
    let (mut out, mut found) = (Vec::new(), Vec::new());
    let mut redactor = Redactor::new(&patterns);
    let mut left = stream;
    let mut sizes = sizes.iter().cycle();
    while !left.is_empty() {
        let size = sizes.next().map_or(left.len(), |size| usize::from(*size).clamp(1, left.len()));
        let (piece, later) = left.split_at(size);
        redactor.push(piece, &mut out, &mut found);
        assert!(redactor.kept_back() <= stream.len() - later.len());
        left = later;
    }
    redactor.finish(&mut out, &mut found);
    let (expected, told) = by_definition(&patterns, stream);
    assert!(out == expected, "{} is not {}", out.escape_ascii(), expected.escape_ascii());
    assert_eq!(found, told);
});
