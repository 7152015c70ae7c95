//! Any bytes as what a judge prints, as a request to the listener, as a response and as an answer: no panic, and nothing is taken without a good signature.
#![no_main]

use keyward_approve::judge;
use keyward_approve::webhook::wire::{self, LONGEST_BODY, Request};
use libfuzzer_sys::fuzz_target;

const KEY: &[u8] = b"the key of the fuzz target";
const NOW: u64 = 1_800_000_000;

fuzz_target!(|input: &[u8]| {
    if let Ok((_, reason)) = judge::opinion(input) {
        assert!(!reason.chars().any(char::is_control), "{reason:?}");
    }
    if let Some(answer) = wire::answer(input) {
        let word = if answer.allow { "allow" } else { "deny" };
        let text = format!(r#"{{"v":1,"token":"{}","answer":"{word}"}}"#, wire::token_text(&answer.token));
        assert_eq!(wire::answer(text.as_bytes()), Some(answer));
    }
    let signed = wire::sign(KEY, NOW, input).expect("every text can be signed");
    assert_eq!(wire::verify(KEY, NOW, Some(signed.as_bytes()), input), Ok(()));
    assert!(wire::verify(KEY, NOW, Some(input), b"another text").is_err());
    match wire::request(input) {
        Request::Whole { signature, body } => {
            assert!(body.len() <= LONGEST_BODY);
            // What is whole stays what it is, whatever comes behind.
            let longer = [input, b"x"].concat();
            assert_eq!(wire::request(&longer), Request::Whole { signature, body });
        }
        Request::Part => assert!(input.len() <= wire::LONGEST_HEAD + LONGEST_BODY),
        Request::Bad(status) => assert!((400..500).contains(&status)),
    }
    if let Some(response) = wire::response(input) {
        assert!(!(100..200).contains(&response.status));
    }
});
