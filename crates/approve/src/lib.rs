//! Who is asked besides a person at a terminal: an external judge, and a service behind a webhook.
//!
//! Both work in a process of their own beside the launcher, which hears a bounded answer or why there is none. Neither ever says yes by
//! failing: a judge that fails has no opinion, and a webhook that fails is lost.
#![forbid(unsafe_code)]

mod aside;
pub mod judge;
pub mod webhook;

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
