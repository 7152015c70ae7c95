//! What a hidden file shows instead, for any content: a command may have written it.

use keyward_policy::detect::secrets::SECRETS;
use keyward_policy::detect::{Secret, Shows, shows};
use proptest::prelude::*;

/// One row for each way of looking at a content.
fn rows() -> Vec<&'static Secret> {
    let mut rows: Vec<&'static Secret> = Vec::new();
    for row in SECRETS {
        if !rows.iter().any(|known| known.content == row.content) {
            rows.push(row);
        }
    }
    rows
}

/// Parts of which settings are made, and any bytes between them.
fn content() -> impl Strategy<Value = Vec<u8>> {
    let parts = prop::sample::select(vec![
        "password",
        "token: ",
        "api_key = ",
        "\"secret\": ",
        "<password>",
        "</password>",
        "<!--",
        "-->",
        "${",
        "}",
        ":-",
        "{{",
        "}}",
        "\n",
        "\n  ",
        "\t",
        "\r\n",
        ": ",
        "=",
        "\"",
        "'",
        "\"\"\"",
        "'''",
        "|\n",
        ">-\n",
        "- ",
        "# ",
        "//",
        "/*",
        "*/",
        "[",
        "]",
        "{",
        ",",
        "\\",
        "\\\"",
        "&a",
        "*a",
        "!!binary ",
        "sk-proj-1234567890abcdefghij",
        "postgres://u:hunter2secret@h/d",
        "changeme",
        "null",
        "é",
        "-----BEGIN RSA PRIVATE KEY-----",
        "-----END RSA PRIVATE KEY-----",
        "export ",
        "${TOKEN:-hunter2secret}",
        "?",
    ]);
    let piece = prop_oneof![
        8 => parts.prop_map(|part| part.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..6),
    ];
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn any_content_is_looked_at_without_a_panic_and_what_is_shown_only_shrinks(content in content()) {
        for row in rows() {
            if let Shows::Instead(text) = shows(row, &content, &["CLEARED"]) {
                // An empty document of XML is longer than nothing.
                prop_assert!(text.len() <= (content.len() + 1).max(b"<settings/>\n".len()), "{:?}", row.content);
                if let Shows::Instead(again) = shows(row, &text, &["CLEARED"]) {
                    prop_assert!(again.len() <= text.len(), "{:?}", row.content);
                }
            }
        }
    }
}
