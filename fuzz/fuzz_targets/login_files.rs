//! Any bytes as a login file: no panic, no value in what is told of it, and tokens that are written are read again.
#![no_main]

use keyward_policy::login::{self, Tokens};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    for file in login::all() {
        let Ok(skeleton) = file.skeleton(input) else { continue };
        assert_eq!(skeleton.texts.len(), skeleton.fields.len() + 1);
        for field in &skeleton.fields {
            let value = file.find(input, &field.at).expect("what was found is found again");
            let is_told = |text: &String| value.len() >= 6 && text.contains(value.as_ref());
            assert!(!skeleton.texts.iter().any(is_told));
        }
        for grant in 0..file.grants.len() {
            let new = Tokens { access: Some("new-token".into()), ..Tokens::default() };
            if let Some(text) = file.renewed(input, grant, &new, 1)
                && let Some(read) = file.tokens(text.as_bytes(), grant)
            {
                assert!(read.access.is_none_or(|access| access == "new-token"));
            }
        }
    }
});
