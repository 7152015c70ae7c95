//! What a program of the user's prints.

use super::program::{Call, DISPLAY, PLAIN};
use super::{Surroundings, Why, text};
use crate::secret::Secret;
use std::ffi::OsStr;

/// What password managers and cloud tools need besides: their own places, their terminal, their language.
const TOOLS: &[&str] = &[
    "SHELL",
    "TERM",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_CACHE_HOME",
    "XDG_STATE_HOME",
    "GNUPGHOME",
    "SSH_AUTH_SOCK",
];

pub(super) fn fetch(
    program: &str,
    arguments: &[String],
    surroundings: &Surroundings<'_>,
) -> Result<Secret, Why> {
    let mut call = Call::new(OsStr::new(program), surroundings)?.arguments(arguments);
    for names in [PLAIN, DISPLAY, TOOLS] {
        call = call.pass(names, surroundings);
    }
    let answer = call.may_ask(surroundings).answer()?;
    if !answer.succeeded() {
        return Err(answer.failure());
    }
    text::checked(answer.out()).map(Secret::copy_of)
}
