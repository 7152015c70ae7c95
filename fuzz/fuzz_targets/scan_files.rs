//! Any bytes as a file that the scan reads: source code of each language, and each kind of configuration. The first byte chooses. No panic,
//! every place is one of the text, no secret is told, and what a fix makes is read again without that site.
#![no_main]

use keyward_scan::{Baseline, baseline, fixes, new_baseline, report, sarif, scan_text, table};
use libfuzzer_sys::fuzz_target;

const NAMES: &[&str] = &[
    "a.py",
    "a.js",
    "a.ts",
    "a.tsx",
    "a.rs",
    "a.go",
    "a.sh",
    ".envrc",
    ".env",
    "package.json",
    ".mcp.json",
    ".claude/settings.json",
    ".codex/config.toml",
    ".github/workflows/a.yml",
    "docker-compose.yml",
    "Dockerfile",
    "a.service",
    "a.ipynb",
];

fuzz_target!(|input: &[u8]| {
    let Some((which, text)) = input.split_first() else { return };
    let text = String::from_utf8_lossy(text);
    let name = NAMES[usize::from(*which) % NAMES.len()];
    let scanned = scan_text(name, &text);
    let lines = text.lines().count().max(1);
    for finding in &scanned.findings {
        assert!((1..=lines).contains(&finding.line), "line {} of {lines}", finding.line);
        assert!(finding.column > 0 && !finding.call.is_empty());
    }
    for secret in &scanned.secrets {
        assert!((1..=lines).contains(&secret.line));
    }
    let mut found = report(scanned, &Baseline::new(), None);
    for fixed in fixes(&mut found, &|_| Ok(text.clone().into_owned())) {
        let again = report(scan_text(name, &fixed.after), &Baseline::new(), None);
        assert!(again.summary.keyward >= fixed.sites);
    }
    // What was found is known afterwards, so nothing is new.
    let known = baseline(&new_baseline(&found)).expect("a baseline can be read");
    let again = report(scan_text(name, &text), &known, Some(keyward_scan::Environment::Keyward));
    assert_eq!(again.summary.denied, 0);
    let _ = (table(&found, true), sarif(&found, "0"));
});
