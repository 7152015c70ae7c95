//! What `why` says about a variable, word for word, and what the printed forms never say.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use keyward_policy::env;
use keyward_policy::settings::Policy;
use keyward_policy::words::{Origin, Ruled, TrustClass};
use std::ffi::OsString;

fn line(name: &str, line: usize) -> Ruled<String> {
    Ruled { value: name.into(), origin: Origin::File { file: "~/.config/keyward/policy.toml".into(), line } }
}

fn policy() -> Policy {
    let mut policy = Policy::default();
    policy.env.pass = vec![line("CI", 4), line("ACME_SECRET", 4), line("RUST_LOG", 4), line("MAX_TOKENS", 4)];
    policy.env.not_secret = vec![line("MAX_TOKENS", 6)];
    policy.env.set = vec![Ruled { value: ("NO_COLOR".into(), "1".into()), origin: line("", 5).origin }];
    policy.inherit_credentials = vec![line("GH_TOKEN", 9)];
    policy
}

const CALLER: &[&[u8]] = &[
    b"CI=true",
    b"ACME_SECRET=hunter2-a",
    b"GH_TOKEN=hunter2-b",
    b"LD_PRELOAD=/tmp/hunter2-c.so",
    b"SSH_AUTH_SOCK=/run/hunter2-d",
    b"PLAIN=hunter2-e",
    b"TERM=xterm",
    b"LINK=https://me:hunter2-f@db.example",
    b"MAX_TOKENS=4096",
    b"BASH_FUNC_f%%=() { hunter2-g; }",
    b"LC_ALL=C",
    b"TERM=again",
];

fn why(trust: TrustClass, name: &str) -> String {
    env::why(&policy(), trust, name, CALLER, &[("HOME", OsString::from("/home/me"))]).to_string()
}

#[test]
fn why_gives_the_rule_the_place_and_the_line_that_would_change_it() {
    let names = [
        "CI",
        "ACME_SECRET",
        "GH_TOKEN",
        "LD_PRELOAD",
        "SSH_AUTH_SOCK",
        "PLAIN",
        "TERM",
        "LINK",
        "MAX_TOKENS",
        "HOME",
        "NO_COLOR",
        "LC_ALL",
        "LANG",
        "BASH_FUNC_f%%",
        "A=B",
        "",
        "RUST_LOG",
        "NEVER_SEEN",
        "OPENAI_API_KEY",
    ];
    let said = |trust: TrustClass| {
        let paragraphs: Vec<String> = names.iter().map(|name| why(trust, name)).collect();
        format!("--- {trust}\n{}", paragraphs.join("\n\n"))
    };
    insta::assert_snapshot!(format!("{}\n\n{}", said(TrustClass::Unknown), said(TrustClass::Executor)));
}

#[test]
fn the_whole_decision_as_json() {
    let ours = [("HOME", OsString::from("/home/me"))];
    insta::assert_json_snapshot!(env::decide(&policy(), TrustClass::Executor, CALLER, &ours));
}

#[test]
fn why_and_decide_agree_about_every_variable() {
    for trust in TrustClass::ALL {
        let decided = env::decide(&policy(), *trust, CALLER, &[]);
        for var in &decided.vars {
            let answer = env::why(&policy(), *trust, &var.name, CALLER, &[]);
            assert_eq!(
                (answer.rule, answer.passes, answer.present, answer.origin),
                (var.rule, true, true, var.origin.clone())
            );
        }
        for dropped in &decided.dropped {
            let answer = env::why(&policy(), *trust, &dropped.name, CALLER, &[]);
            // A duplicate and a replaced locale are about the entry; the name itself passes.
            assert!(answer.passes || answer.rule == dropped.rule, "{}", dropped.name);
        }
    }
}

#[test]
fn no_printed_form_shows_a_value_of_the_callers() {
    for trust in TrustClass::ALL {
        let decided = env::decide(&policy(), *trust, CALLER, &[]);
        let mut printed = format!("{decided:?}") + &serde_json::to_string(&decided).unwrap_or_default();
        for entry in CALLER {
            let name = String::from_utf8_lossy(entry.split(|byte| *byte == b'=').next().unwrap_or_default());
            let answer = env::why(&policy(), *trust, &name, CALLER, &[]);
            printed += &format!("{answer}{answer:?}{}", serde_json::to_string(&answer).unwrap_or_default());
        }
        assert!(printed.contains("GH_TOKEN"));
        assert!(!printed.contains("hunter2"), "{printed}");
    }
}

#[test]
fn an_entry_that_is_a_key_without_a_name_is_not_shown() {
    let key = format!("sk-ant-{}", "a1B2".repeat(9));
    let named = format!("{key}=x");
    let decided = env::decide(&Policy::default(), TrustClass::Tool, &[key.as_bytes(), named.as_bytes()], &[]);
    assert_eq!(decided.dropped.len(), 2);
    assert!(!format!("{decided:?}").contains(&key));
}
