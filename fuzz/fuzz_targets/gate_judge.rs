//! Scripts of any bytes in each language, and as arguments: they end in a verdict, and its place lies in the text.
#![no_main]

use keyward_gate::{Language, Rules, judge, judge_argv, underlined};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|source: &[u8]| {
    let rules = Rules::builtin();
    for language in [Language::Shell, Language::Python, Language::JavaScript] {
        let judgement = judge(&rules, language, source);
        assert_eq!(judgement.span.is_some(), judgement.rule.is_some());
        if let Some(span) = judgement.span {
            assert!(span.start <= span.end && span.end <= source.len());
            underlined(source, span);
        }
        assert!(judgement.json().starts_with("{\"v\":1,"));
    }
    let argv: Vec<&[u8]> = source.split(|byte| *byte == b'\n').collect();
    judge_argv(&rules, &argv);
});
