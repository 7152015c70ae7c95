//! Files of a repository that a hostile command wrote: no panic, and nothing that git runs is ever taken over.
#![no_main]

use keyward_policy::untrusted::git::config::{Config, Versions, merge, of_new_repository};
use keyward_policy::untrusted::git::credentials::{holds_credentials, without_credentials};
use keyward_policy::untrusted::git::refs::{Line, Value, changes, judge, packed};
use keyward_policy::untrusted::git::{Check, index};
use libfuzzer_sys::fuzz_target;

const HOST: &[u8] = b"[core]\n\tbare = false\n[remote \"origin\"]\n\turl = https://example.test/a\n[branch \"main\"]\n\tremote = origin\n";

/// Keys that a merge may bring, and no others.
fn is_harmless(config: &Config) -> bool {
    config.entries.iter().all(|entry| {
        let is_identity = entry.name.section == "user" && matches!(entry.name.key.as_str(), "name" | "email");
        (is_identity || matches!(entry.name.section.as_str(), "branch" | "remote" | "submodule" | "core"))
            && !matches!(
                entry.name.key.as_str(),
                "fsmonitor" | "hookspath" | "sshcommand" | "uploadpack" | "receivepack" | "vcs" | "proxy" | "mergeoptions"
            )
            && !entry.value.as_ref().is_some_and(|value| value.windows(5).any(|part| part == b"ext::"))
    })
}

/// The user's branch and remote are as they were, and every other remote is marked and followed by no branch.
fn leads_nowhere_else(config: &Config) -> bool {
    let of = |section: &str, key: &str| {
        let fits = move |entry: &&keyward_policy::untrusted::git::config::Entry| {
            entry.name.section == section && entry.name.key == key
        };
        let entries: Vec<_> = config.entries.iter().filter(fits).cloned().collect();
        entries
    };
    let marked = of("remote", "keyward");
    let is_marked = |name: &Option<Vec<u8>>| marked.iter().any(|entry| entry.name.subsection == *name);
    of("remote", "url").iter().all(|url| {
        let is_users = url.name.subsection.as_deref() == Some(b"origin");
        is_users && url.value.as_deref() == Some(b"https://example.test/a") || is_marked(&url.name.subsection)
    }) && of("branch", "remote").iter().all(|branch| {
        let follows = branch.value.as_deref();
        follows == Some(b"origin") || follows == Some(b".") && branch.name.subsection.as_deref() != Some(b"main")
    })
}

fuzz_target!(|text: &[u8]| {
    let versions = Versions {
        host: HOST,
        base: HOST,
        seen: HOST,
        cage: text,
        gone: &|_| false,
        is_of_submodule: text.len() % 2 == 1,
        is_nameless: text.len() % 3 == 1,
        origin: &|name| (name == b"lib").then(|| b"https://example.test/lib".to_vec()),
    };
    if let Ok(merged) = merge(&versions)
        && let Some(text) = merged.text
    {
        let config = Config::read(&text).expect("what is written can be read");
        assert!(is_harmless(&config), "{}", String::from_utf8_lossy(&text));
        assert_eq!(config.last("core", "bare"), Some(b"false".as_slice()));
        assert!(leads_nowhere_else(&config), "{}", String::from_utf8_lossy(&text));
    }
    let left = without_credentials(text);
    assert!(Config::read(&left).is_ok());
    assert_eq!(without_credentials(&left), left);
    assert!(!holds_credentials(&left), "{}", String::from_utf8_lossy(&left));
    if let Ok((kept, _)) = of_new_repository(text, &|_| false) {
        let (again, out) = of_new_repository(&kept, &|_| false).expect("what is kept can be read");
        assert_eq!((again, out), (kept, Vec::new()));
    }
    for length in [20, 32] {
        if let (Ok(()), Ok(paths)) = (index::check(text, length), index::differences(b"", text, length)) {
            assert_eq!(index::entries_at(text, length, &paths).len(), paths.len());
            assert!(index::differences(text, text, length).is_ok_and(|paths| paths.is_empty()));
        }
        let _ = (index::hidden(text, length), index::gitlinks(text, length), index::objects(text, length));
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
    let (one, other) = (packed(one), packed(other));
    for change in changes(&one, &one, &other) {
        if judge(&change.name, change.cage.as_ref(), &|_| false).is_ok() {
            assert!(!change.name.starts_with(b"refs/replace/") && !change.name.contains(&0));
        }
    }
    if let Some(value) = Value::read(text) {
        assert_eq!(Value::read(&value.spelled()), Some(value));
    }
    if let Some(line) = Line::read(text, 20) {
        assert_eq!(line.spelled().iter().filter(|&&byte| byte == b'\n').count(), 1);
    }
});
