//! What Keyward's texts tell a person to type is what its command line understands.

#[path = "../../tests/support/remedies.rs"]
mod remedies;

use super::parse_from;
use std::ffi::OsString;

#[test]
fn every_command_that_a_text_tells_a_person_to_run_is_understood() {
    let told = remedies::told();
    assert!(told.len() > 50, "{}", told.len());
    let is_wrong = |told: &remedies::Told| parse_from(told.words.iter().map(OsString::from)).is_err();
    let wrong: Vec<String> = told.into_iter().filter(is_wrong).map(|told| told.place).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
