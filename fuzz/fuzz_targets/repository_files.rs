//! Files of a repository that a hostile command wrote: no panic, and nothing that git runs is ever taken over.
#![no_main]

use keyward_policy::git::config::{Config, merge, of_new_repository};
use keyward_policy::git::{Check, index, join};
use libfuzzer_sys::fuzz_target;

const HOST: &[u8] = b"[core]\n\tbare = false\n[remote \"origin\"]\n\turl = https://example.test/a\n[branch \"main\"]\n\tremote = origin\n";

/// Keys that a merge may bring, and no others.
fn is_harmless(config: &Config) -> bool {
    config.entries.iter().all(|entry| {
        matches!(entry.name.section.as_str(), "branch" | "remote" | "submodule" | "core")
            && !matches!(
                entry.name.key.as_str(),
                "fsmonitor" | "hookspath" | "sshcommand" | "uploadpack" | "receivepack" | "vcs" | "proxy" | "mergeoptions"
            )
            && !entry.value.as_ref().is_some_and(|value| value.windows(5).any(|part| part == b"ext::"))
    })
}

fuzz_target!(|text: &[u8]| {
    if let Ok(merged) = merge(HOST, HOST, text)
        && let Some(text) = merged.text
    {
        let config = Config::read(&text).expect("what is written can be read");
        assert!(is_harmless(&config), "{}", String::from_utf8_lossy(&text));
        assert_eq!(config.last("core", "bare"), Some(b"false".as_slice()));
    }
    if let Ok((kept, _)) = of_new_repository(text, &|_| false) {
        let (again, out) = of_new_repository(&kept, &|_| false).expect("what is kept can be read");
        assert_eq!((again, out), (kept, Vec::new()));
    }
    for length in [20, 32] {
        let _ = index::check(text, length);
        assert!(!index::same(text, b"", length));
    }
    for check in [
        Check::Head,
        Check::Ids,
        Check::PackedRefs,
        Check::Text,
        Check::Word,
        Check::Todo,
        Check::AuthorScript,
        Check::Strategy,
        Check::StrategyOptions,
        Check::Signing,
        Check::PickOptions,
        Check::Quoted,
    ] {
        let _ = check.judge(text, 20);
    }
    let (one, other) = text.split_at(text.len() / 2);
    let joined = join::logs(one, other);
    assert!(joined.starts_with(one) && joined.ends_with(&other[other.len() - joined.len().saturating_sub(one.len())..]));
    let _ = join::packed_refs(one, other, &|_| false);
});
