//! Whether something may happen: what is approved and its digest, what the gate says of it, grants and earlier answers, and the approvers.
//!
//! Runs in the launcher, and for sessions in the session process and its `keyward:gate`, never in a cage. Judge and webhook work in a process
//! of their own beside those, which hear a bounded answer or why there is none. Nothing says yes by failing: a judge that fails has no opinion,
//! a webhook that fails is lost, and what cannot be looked up or recorded is denied. The terminal is the caller's ([`terminal::Terminal`]).
#![forbid(unsafe_code)]

mod aside;
pub mod awaited;
mod digest;
pub mod gate;
pub mod judge;
pub mod losses;
pub mod permit;
pub mod session;
mod site;
pub mod subject;
pub mod terminal;
pub mod webhook;

pub use site::Site;

use keyward_policy::text;

/// The most that is shown of what others say, in characters.
const SHOWN: usize = 500;

/// What others say, for people: bounded, and without what cannot be seen.
fn shown(said: &str) -> String {
    let said = said.trim();
    let end = said.char_indices().nth(SHOWN).map_or(said.len(), |(place, _)| place);
    let cut = if end < said.len() { " …" } else { "" };
    format!("{}{cut}", text::visible(said.get(..end).unwrap_or_default().as_ref()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_say_is_short_and_holds_nothing_that_cannot_be_seen() {
        assert_eq!(shown(" fine \n"), "fine");
        assert_eq!(shown("a\x1b[2Jb\u{202e}c\nd"), "a\\u{1b}[2Jb\\u{202e}c\\u{a}d");
        let long = shown(&"ä".repeat(SHOWN + 1));
        assert_eq!(long, format!("{} …", "ä".repeat(SHOWN)));
    }
}
