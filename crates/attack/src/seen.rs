//! A file as the controller saw it, before and after an attempt.

use crate::target::MARK;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The bits that make a program run as its owner.
const SET_ID: u32 = 0o6000;

#[derive(Clone, PartialEq, Eq)]
pub struct Seen {
    content: Vec<u8>,
    mode: u32,
}

/// What is there, if anything.
pub fn at(path: &Path) -> Option<Seen> {
    let mode = fs::symlink_metadata(path).ok()?.permissions().mode();
    Some(Seen { content: fs::read(path).unwrap_or_default(), mode })
}

/// Whether the child was at this file: its mark or a set-uid bit is there, or what there was is gone, rewritten or open in another way.
///
/// Lines that others add are no change of the child's: Keyward itself adds to its record meanwhile.
pub fn was_changed(before: Option<&Seen>, after: Option<&Seen>) -> bool {
    let marks =
        |seen: &Seen| seen.content.windows(MARK.len()).filter(|part| part == &MARK.as_bytes()).count();
    match (before, after) {
        (None, None) => false,
        (Some(_), None) => true,
        (None, Some(after)) => marks(after) > 0 || after.mode & SET_ID != 0,
        (Some(before), Some(after)) => {
            !after.content.starts_with(&before.content)
                || after.mode != before.mode
                || marks(after) > marks(before)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(content: &str, mode: u32) -> Option<Seen> {
        Some(Seen { content: content.into(), mode })
    }

    #[test]
    fn a_mark_a_loss_another_text_and_another_mode_are_changes_and_a_line_of_others_is_none() {
        let before = seen("a\n", 0o644);
        let changed = |after: Option<Seen>| was_changed(before.as_ref(), after.as_ref());
        assert!(changed(None) && changed(seen("b\n", 0o644)) && changed(seen("a\n", 0o4755)));
        assert!(changed(seen(&format!("a\n{MARK}"), 0o644)));
        assert!(!changed(before.clone()) && !changed(seen("a\nb\n", 0o644)));
        assert!(!was_changed(None, seen("b\n", 0o644).as_ref()) && !was_changed(None, None));
        assert!(was_changed(seen(MARK, 0o644).as_ref(), seen(&MARK.repeat(2), 0o644).as_ref()));
        assert!(was_changed(None, seen(MARK, 0o644).as_ref()));
        assert!(was_changed(None, seen("", 0o4755).as_ref()));
    }
}
