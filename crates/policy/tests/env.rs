//! What the child's environment becomes: one sentence per promise, on hand-made environments.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use keyward_policy::env::{self, Environment, Rule, Value};
use keyward_policy::settings::Policy;
use keyward_policy::words::{NetMode, Origin, Ruled, TrustClass};
use std::ffi::OsString;

fn lines(names: &[&str]) -> Vec<Ruled<String>> {
    let origin = |line| Origin::File { file: "policy.toml".into(), line };
    names
        .iter()
        .enumerate()
        .map(|(at, name)| Ruled { value: (*name).into(), origin: origin(at + 1) })
        .collect()
}

fn passing(names: &[&str]) -> Policy {
    let mut policy = Policy::default();
    policy.env.pass = lines(names);
    policy
}

fn decide_for(policy: &Policy, trust: TrustClass, caller: &[&str]) -> Environment {
    let caller: Vec<&[u8]> = caller.iter().map(|entry| entry.as_bytes()).collect();
    env::decide(policy, trust, &caller, &[])
}

fn decide(policy: &Policy, caller: &[&str]) -> Environment {
    decide_for(policy, TrustClass::Unknown, caller)
}

fn given(env: &Environment, name: &str) -> Option<Rule> {
    env.vars.iter().find(|var| var.name == name).map(|var| var.rule)
}

fn dropped(env: &Environment, name: &str) -> Vec<Rule> {
    env.dropped.iter().filter(|dropped| dropped.name == name).map(|dropped| dropped.rule).collect()
}

fn key(prefix: &str) -> String {
    format!("{prefix}{}", "a1B2c3D4".repeat(5))
}

#[test]
fn the_child_starts_from_nothing_and_gets_what_programs_need() {
    let env = decide(&Policy::default(), &["TERM=xterm", "LANG=en_US.UTF-8", "EDITOR_THEME=dark", "CI=1"]);
    assert_eq!(given(&env, "TERM"), Some(Rule::Operational));
    assert_eq!(given(&env, "LANG"), Some(Rule::Operational));
    assert_eq!(given(&env, "CI"), Some(Rule::Operational));
    assert_eq!(dropped(&env, "EDITOR_THEME"), [Rule::NotListed]);
}

#[test]
fn a_listed_name_passes_and_a_missing_one_is_named() {
    let env = decide(&passing(&["CI", "RUST_LOG"]), &["CI=1"]);
    assert_eq!(given(&env, "CI"), Some(Rule::Passed));
    assert_eq!(env.missing, lines(&["CI", "RUST_LOG"])[1..]);
}

#[test]
fn a_credential_does_not_pass_by_pass_whether_by_name_or_by_value() {
    let names = ["OPENAI_API_KEY", "ACME_SECRET", "INNOCENT", "SSH_AUTH_SOCK", "EMPTY_TOKEN"];
    let innocent = format!("INNOCENT={}", key("ghp_"));
    let caller = ["OPENAI_API_KEY=x", "ACME_SECRET=x", &innocent, "SSH_AUTH_SOCK=/run/a", "EMPTY_TOKEN="];
    let env = decide(&passing(&names), &caller);
    assert_eq!(dropped(&env, "OPENAI_API_KEY"), [Rule::Registry { provider: "openai" }]);
    assert_eq!(dropped(&env, "ACME_SECRET"), [Rule::NameShape("SECRET")]);
    assert_eq!(dropped(&env, "INNOCENT"), [Rule::ValueShape("github token")]);
    assert_eq!(dropped(&env, "SSH_AUTH_SOCK"), [Rule::Authority { provider: "ssh-agent" }]);
    assert_eq!(dropped(&env, "EMPTY_TOKEN"), [Rule::NameShape("TOKEN")]);
    assert!(names.iter().all(|name| given(&env, name).is_none()));
}

#[test]
fn an_operational_name_with_a_credential_in_it_does_not_pass() {
    let env = decide(&Policy::default(), &[&format!("TERM={}", key("sk-ant-"))]);
    assert_eq!(dropped(&env, "TERM"), [Rule::ValueShape("anthropic token")]);
}

#[test]
fn not_secret_clears_names_and_values_but_neither_authority_nor_loaders() {
    let names = ["MAX_TOKENS", "LINK", "DISPLAY", "LD_PRELOAD", "GITHUB_TOKEN"];
    let mut policy = passing(&names);
    policy.env.not_secret = lines(&names);
    let caller =
        ["MAX_TOKENS=4096", "LINK=http://u:p@h", "DISPLAY=:0", "LD_PRELOAD=/x.so", "GITHUB_TOKEN=none"];
    let env = decide(&policy, &caller);
    for name in ["MAX_TOKENS", "LINK", "GITHUB_TOKEN"] {
        assert_eq!(given(&env, name), Some(Rule::NotSecretCleared), "{name}");
    }
    assert_eq!(dropped(&env, "DISPLAY"), [Rule::Authority { provider: "x11" }]);
    assert_eq!(dropped(&env, "LD_PRELOAD"), [Rule::Loader("LD_*")]);
}

#[test]
fn a_proxy_passes_with_an_open_network_and_never_with_a_login() {
    let caller = ["HTTPS_PROXY=http://p:1", "no_proxy=a,b", "http_proxy=u:p@h:1", "Http_Proxy=http://p:1"];
    let closed = decide(&Policy::default(), &caller);
    assert_eq!(dropped(&closed, "HTTPS_PROXY"), [Rule::NotListed]);
    let policy = Policy { net: Ruled::builtin(NetMode::Open), ..Policy::default() };
    let open = decide(&policy, &caller);
    assert_eq!(given(&open, "HTTPS_PROXY"), Some(Rule::Proxy));
    assert_eq!(given(&open, "no_proxy"), Some(Rule::Proxy));
    assert_eq!(dropped(&open, "http_proxy"), [Rule::ValueShape("proxy with a login")]);
    assert_eq!(dropped(&open, "Http_Proxy"), [Rule::NotListed], "programs read neither case of it");
}

#[test]
fn not_secret_alone_lets_nothing_pass() {
    let mut policy = Policy::default();
    policy.env.not_secret = lines(&["MAX_TOKENS"]);
    assert_eq!(dropped(&decide(&policy, &["MAX_TOKENS=1"]), "MAX_TOKENS"), [Rule::NotListed]);
}

#[test]
fn a_loader_variable_passes_only_through_dangerous_loader_env_and_never_with_a_key_in_it() {
    let names = ["PYTHONPATH", "NODE_OPTIONS", "GIT_SSH_COMMAND"];
    let env = decide(&passing(&names), &["PYTHONPATH=/a", "NODE_OPTIONS=-r x", "GIT_SSH_COMMAND=ssh"]);
    assert!(names.iter().all(|name| matches!(dropped(&env, name)[..], [Rule::Loader(_)])));

    let mut policy = Policy::default();
    policy.env.dangerous_loader_env = lines(&names);
    let options = format!("NODE_OPTIONS=--token={}", key("npm_"));
    let env = decide(&policy, &["PYTHONPATH=/a", &options, "GIT_SSH_COMMAND=ssh"]);
    assert_eq!(given(&env, "PYTHONPATH"), Some(Rule::LoaderAllowed));
    assert_eq!(given(&env, "GIT_SSH_COMMAND"), Some(Rule::LoaderAllowed));
    assert!(matches!(dropped(&env, "NODE_OPTIONS")[..], [Rule::ValueShape(_)]));
}

#[test]
fn a_named_credential_is_inherited_by_the_classes_that_may_and_refused_to_the_others() {
    let policy =
        Policy { inherit_credentials: lines(&["GH_TOKEN", "ABSENT", "LD_PRELOAD"]), ..Policy::default() };
    for trust in TrustClass::ALL {
        let env = decide_for(&policy, *trust, &["GH_TOKEN=x", "LD_PRELOAD=/x.so"]);
        if trust.may_inherit_credentials() {
            assert_eq!(given(&env, "GH_TOKEN"), Some(Rule::Inherited));
            assert_eq!(env.missing, lines(&["GH_TOKEN", "ABSENT"])[1..]);
            assert_eq!(dropped(&env, "LD_PRELOAD"), [Rule::Loader("LD_*")]);
        } else {
            assert_eq!(dropped(&env, "GH_TOKEN"), [Rule::ClassMayNotInherit]);
            assert_eq!(dropped(&env, "ABSENT"), [Rule::ClassMayNotInherit]);
            assert!(env.missing.is_empty());
        }
    }
}

#[test]
fn ours_wins_over_set_and_set_wins_over_the_caller() {
    let mut policy = passing(&["B"]);
    let set = |name: &str| Ruled::builtin((name.to_owned(), "set".to_owned()));
    policy.env.set = vec![set("A"), set("B")];
    let env =
        env::decide(&policy, TrustClass::Tool, &[b"A=caller", b"B=caller"], &[("A", OsString::from("ours"))]);
    let value = |name: &str| env.vars.iter().find(|var| var.name == name).map(|var| var.value.clone());
    assert_eq!(value("A"), Some(Value::Ours("ours".into())));
    assert_eq!(value("B"), Some(Value::Ours("set".into())));
    assert_eq!(env.vars.iter().filter(|var| var.name == "A" || var.name == "B").count(), 2);
    assert!(env.dropped.is_empty());
}

#[test]
fn a_credential_cannot_come_in_through_set() {
    let mut policy = Policy::default();
    policy.env.set =
        vec![Ruled::builtin(("X".into(), key("ghp_"))), Ruled::builtin(("DISPLAY".into(), ":7".into()))];
    let env = decide(&policy, &["X=caller"]);
    assert_eq!(dropped(&env, "X"), [Rule::ValueShape("github token")]);
    assert_eq!((given(&env, "X"), given(&env, "DISPLAY")), (None, Some(Rule::Set)));
}

#[test]
fn the_first_of_duplicates_counts_unless_one_of_them_is_a_credential() {
    let env = decide(&passing(&["CI"]), &["CI=first", "TERM=a", "CI=second"]);
    assert!(env.vars.iter().any(|var| var.name == "CI" && var.value == Value::Caller(0)));
    assert_eq!(dropped(&env, "CI"), [Rule::Duplicate]);

    let secret = format!("CI={}", key("glpat-"));
    for caller in [["CI=1", secret.as_str()], [secret.as_str(), "CI=1"]] {
        let env = decide(&passing(&["CI"]), &caller);
        assert_eq!(given(&env, "CI"), None);
        assert_eq!(dropped(&env, "CI"), [Rule::ValueShape("gitlab token"); 2]);
    }
}

#[test]
fn malformed_entries_are_dropped_and_named() {
    let names = ["NOEQUALS", "BASH_FUNC_x%%", "1A", "A B", "A\nB", "A-B", "(empty)"];
    let caller = ["NOEQUALS", "BASH_FUNC_x%%=() { :; }", "1A=x", "A B=x", "A\nB=x", "A-B=x", "=x"];
    let env = decide(&passing(&names), &caller);
    let seen: Vec<&str> = env.dropped.iter().map(|dropped| dropped.name.as_str()).collect();
    assert_eq!(seen, ["(empty)", "1A", "A B", "A-B", "A\\nB", "BASH_FUNC_x%%", "NOEQUALS"]);
    assert!(env.dropped.iter().all(|dropped| matches!(dropped.rule, Rule::Malformed(_))));
}

#[test]
fn a_value_that_is_no_text_passes_and_a_name_that_is_none_does_not() {
    let env =
        env::decide(&passing(&["CI"]), TrustClass::Tool, &[b"CI=\xff\xfe", b"\xff=x", b"TERM=a\0b"], &[]);
    assert_eq!(given(&env, "CI"), Some(Rule::Passed));
    assert!(matches!(dropped(&env, "\\xff")[..], [Rule::Malformed(_)]));
    assert!(matches!(dropped(&env, "TERM")[..], [Rule::Malformed(_)]));
}

#[test]
fn an_entry_longer_than_the_kernel_takes_is_dropped() {
    let entry = |length: usize| format!("CI={}", "x ".repeat(length).split_at(length - 3).0);
    assert_eq!(given(&decide(&passing(&["CI"]), &[&entry(131_071)]), "CI"), Some(Rule::Passed));
    assert_eq!(dropped(&decide(&passing(&["CI"]), &[&entry(131_072)]), "CI"), [Rule::TooLong]);
}

#[test]
fn text_is_utf8_whatever_locale_the_caller_has() {
    let value = |env: &Environment, name: &str| {
        env.vars.iter().find(|var| var.name == name).map(|var| var.value.clone())
    };
    let plain = Some(Value::Ours("C.UTF-8".into()));
    let env = decide(&Policy::default(), &[]);
    assert_eq!(
        (value(&env, "LANG"), value(&env, "PYTHONUTF8")),
        (plain.clone(), Some(Value::Ours("1".into())))
    );

    let env = decide(&Policy::default(), &["LC_ALL=C", "LC_CTYPE=POSIX", "LANG=de_DE"]);
    assert_eq!(value(&env, "LANG"), plain);
    for name in ["LC_ALL", "LC_CTYPE"] {
        assert_eq!((given(&env, name), dropped(&env, name)), (None, vec![Rule::NotUtf8]));
    }

    let env = decide(&Policy::default(), &["LC_ALL=C", "LANG=de_DE.utf8"]);
    assert_eq!((value(&env, "LANG"), given(&env, "LC_ALL")), (Some(Value::Caller(1)), None));
    let env = decide(&Policy::default(), &["LC_ALL=", "LC_CTYPE=UTF-8", "LANG=C"]);
    assert_eq!(value(&env, "LANG"), Some(Value::Caller(2)));
    assert_eq!(
        given(&decide(&passing(&["PYTHONUTF8"]), &["PYTHONUTF8=0"]), "PYTHONUTF8"),
        Some(Rule::Passed)
    );

    let mut policy = Policy::default();
    policy.env.set = vec![Ruled::builtin(("LC_ALL".into(), "C".into()))];
    assert_eq!(value(&decide(&policy, &["LANG=C"]), "LC_ALL"), Some(Value::Ours("C".into())));
}

#[test]
fn ordinary_variables_pass_untouched() {
    for entry in [
        "PATH=/home/me/.cargo/bin:/opt/token/bin:/usr/local/sbin:/usr/bin",
        "LANG=en_US.UTF-8",
        "TERM=xterm-256color",
        "COLORTERM=truecolor",
        "LS_COLORS=rs=0:di=01;34:*.pem=00;32:*.key=00;32",
        "JAVA_HOME=/usr/lib/jvm/java-21-openjdk-amd64",
        "VIRTUAL_ENV=/home/me/sk-learn/.venv",
        "RUST_LOG=task-sk-debug",
        "GIT_COMMIT=9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
        "BUILD_ID=123e4567-e89b-12d3-a456-426614174000",
        "IMAGE=registry.example/app@sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "SSL_CERT_FILE=/etc/ssl/cert.pem",
        "GIT_SSL_CAINFO=/etc/ssl/cert.pem",
        "PIP_CERT=/etc/ssl/cert.pem",
        "NODE_EXTRA_CA_CERTS=/etc/ssl/cert.pem",
        "HTTPS_PROXY=http://proxy.example:3128",
        "MANPATH=/usr/share/man",
        "GIT_AUTHOR_NAME=A. Uthor",
    ] {
        let name = entry.split('=').next().unwrap_or_default();
        // The commit is in no way a loader, but its name begins like one.
        let mut policy = passing(&[name]);
        policy.env.dangerous_loader_env = lines(&["GIT_COMMIT"]);
        let env = decide(&policy, &[entry]);
        assert!(given(&env, name).is_some(), "{entry}: {:?}", env.dropped);
    }
}

#[test]
fn a_false_hit_is_dropped_until_it_is_cleared() {
    let mut policy = passing(&["MAX_TOKENS", "KEYBOARD_LAYOUT"]);
    let caller = ["MAX_TOKENS=4096", "KEYBOARD_LAYOUT=us"];
    assert_eq!(given(&decide(&policy, &caller), "MAX_TOKENS"), None);
    policy.env.not_secret = lines(&["MAX_TOKENS"]);
    let env = decide(&policy, &caller);
    assert_eq!(
        (given(&env, "MAX_TOKENS"), given(&env, "KEYBOARD_LAYOUT")),
        (Some(Rule::NotSecretCleared), None)
    );
}
