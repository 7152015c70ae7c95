//! Any bytes as the content of a hidden file: no panic, and what is shown instead only shrinks.
#![no_main]

use keyward_policy::detect::secrets::SECRETS;
use keyward_policy::detect::{Content, Shows, shows};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    for content in [Content::Dotenv, Content::Settings, Content::Pem, Content::Whole, Content::Config] {
        let Some(row) = SECRETS.iter().find(|row| row.content == content) else { continue };
        if let Shows::Instead(text) = shows(row, input, &["CLEARED"]) {
            assert!(text.len() <= input.len() + 1);
            if let Shows::Instead(again) = shows(row, &text, &["CLEARED"]) {
                assert!(again.len() <= text.len());
            }
        }
    }
});
