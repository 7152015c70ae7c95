//! Any bytes as a reference and as the file of secrets: no panic, one written form, and messages that hold nothing of a value.
#![no_main]

use keyward_policy::config::Document;
use keyward_policy::secret::{Entry, Reference, SecretName, put, read, remove};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let document = Document { name: "f", text: input };
    let lines = input.iter().filter(|byte| **byte == b'\n').count() + 1;
    match read(&document) {
        Ok(entries) => {
            for entry in &entries {
                assert_eq!(Reference::parse(&entry.from.to_string()).as_ref(), Ok(&entry.from));
                // Where it can be done at all, it takes away this one and no other.
                if let Ok(text) = remove(&document, &entry.name) {
                    let left = read(&Document { name: "f", text: text.as_bytes() }).expect("what is written can be read");
                    assert_eq!(left.len() + 1, entries.len());
                }
            }
        }
        Err(mistakes) => {
            assert!(!mistakes.is_empty());
            for mistake in mistakes {
                assert!((1..=lines).contains(&mistake.line) && mistake.column >= 1, "{mistake}");
                assert!(!mistake.to_string().chars().any(|c| c.is_control() && c != '\n'), "{mistake:?}");
            }
        }
    }
    let Ok(text) = std::str::from_utf8(input) else { return };
    let _ = SecretName::parse(text);
    match Reference::parse(text) {
        Ok(reference) => {
            let written = reference.to_string();
            assert_eq!(Reference::parse(&written).as_ref(), Ok(&reference), "{written}");
            let name = SecretName::parse("a").expect("a name");
            let entry = Entry { name, from: reference, to: Vec::new(), places: Vec::new(), aws: None, variable: None, created: None };
            let file = put(&Document { name: "f", text: b"" }, &entry).expect("every reference can be written");
            assert_eq!(read(&Document { name: "f", text: file.as_bytes() }).as_deref(), Ok([entry].as_slice()));
        }
        Err(error) => {
            assert_eq!(error.to_string().lines().count(), 2, "{error}");
            assert!(!error.to_string().chars().any(|c| c.is_control() && c != '\n'), "{error:?}");
        }
    }
});
