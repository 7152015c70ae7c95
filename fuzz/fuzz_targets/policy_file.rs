//! A policy file of any bytes, in each role: no panic, mistakes that point into the file, and no project that widens.
#![no_main]

use keyward_policy::config::{Document, Layers, PolicyError, Role, check, resolve, show};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &[u8]| {
    let document = Document { name: "f", text };
    let lines = text.iter().filter(|byte| **byte == b'\n').count() + 1;
    for role in [Role::Ceiling, Role::User, Role::Project] {
        if let Err(mistakes) = check(&document, role) {
            assert!(!mistakes.is_empty());
            for mistake in mistakes {
                assert!((1..=lines).contains(&mistake.line) && mistake.column >= 1, "{mistake}");
                assert!(!mistake.to_string().chars().any(|c| c.is_control() && c != '\n'), "{mistake:?}");
            }
        }
    }
    let none = Layers::default();
    let user = resolve(&Layers { user: Some(document), profile: Some("p"), ..none.clone() });
    for layers in [
        Layers { ceiling: Some(document), ..none.clone() },
        Layers { user: Some(document), ..none.clone() },
        Layers { project: Some(document), ..none.clone() },
        Layers { ceiling: Some(document), user: Some(document), ..none.clone() },
        Layers { user: Some(document), project: Some(document), ..none.clone() },
    ] {
        let outcome = resolve(&layers);
        // The built-in policy grants nothing, so a project over it grants nothing either.
        if let (Ok(policy), None) = (&outcome, layers.user) {
            assert!(
                policy.allow.is_empty()
                    && policy.inherit_credentials.is_empty()
                    && policy.env.pass.is_empty()
            );
            assert!(policy.files.read.is_empty() && policy.files.write.is_empty());
        }
    }
    match user {
        Ok(policy) => {
            let shown = show(&policy);
            let again = Document { name: "shown", text: shown.as_bytes() };
            // What is shown is longer than what was read, so only the size may speak against it.
            if shown.len() <= 1 << 20 {
                assert_eq!(check(&again, Role::User), Ok(()), "{shown}");
            }
        }
        Err(PolicyError::Mistakes(mistakes)) => assert!(!mistakes.is_empty()),
        Err(PolicyError::Beyond(_) | PolicyError::Refused(_) | PolicyError::UnknownProfile { .. }) => {}
    }
});
