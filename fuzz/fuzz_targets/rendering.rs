//! Texts of any bytes, shown to a person: nothing is obeyed by a terminal, nothing stands without its bar, nothing is left out.
#![no_main]

use keyward_policy::rendering::{LINE, REST, inline, json, rows};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&columns, bytes)) = bytes.split_first() else { return };
    let text = String::from_utf8_lossy(bytes);
    let span = Some((usize::from(columns), bytes.len() / 2));
    let mut end = 0;
    for row in rows(&text, columns.into(), span) {
        assert!(row.text.starts_with(LINE) || row.text.starts_with(REST));
        assert!(!row.text.chars().any(char::is_control));
        assert!(row.end > end || text.is_empty());
        end = row.end;
    }
    assert_eq!(end, text.len());
    assert!(!inline(&text).chars().any(char::is_control));
    assert!(!json(&text.replace('\n', " ")).chars().any(char::is_control));
});
