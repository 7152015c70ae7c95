//! The project's file may come from a stranger: it only ever narrows.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use keyward_policy::config::{Document, KEYS, Layers, PolicyError, resolve};
use keyward_policy::net::Rule;
use keyward_policy::net::allowed::Allowed;
use keyward_policy::net::plan::rules;
use keyward_policy::settings::Policy;
use keyward_policy::words::{NetMode, Ruled};
use proptest::prelude::*;

/// The strictest user's file there is, so that any looser word of the project is an attempt to widen.
const STRICT: &str = r#"version = 1
trust = "unknown"
floor = "full"
project = "protected"
files.protect = "strict"
net.mode = "none"
[gate]
mode = "deny"
attended = "never"
wait = "10m"
judge_wait = "10m"
[limits]
wall = "10m"
cpu = "10m"
memory = "1G"
pids = 10
open_files = 10
output = "1M"
[tools]
cage = "shims"
"#;

/// How a project would try to widen with each key; `None` where more of it is always stricter.
const ATTEMPTS: &[(&str, Option<&str>)] = &[
    ("version", Some("version = 2")),
    ("trust", Some("trust = 'internal'")),
    ("floor", Some("floor = 'landlock'")),
    ("project", Some("project = 'unprotected'")),
    ("allow", Some("allow = ['ptrace']")),
    ("inherit_credentials", Some("inherit_credentials = ['GH_TOKEN']")),
    ("secrets", Some("secrets = ['github=fd']")),
    ("redact", Some("redact = 'off'")),
    ("env.pass", Some("env.pass = ['CI']")),
    ("env.set", Some("env.set.GIT_PAGER = 'x'")),
    ("env.not_secret", Some("env.not_secret = ['GH_TOKEN']")),
    ("env.dangerous_loader_env", Some("env.dangerous_loader_env = ['LD_PRELOAD']")),
    ("files.read", Some("files.read = ['/etc/shadow']")),
    ("files.write", Some("files.write = ['~/.ssh']")),
    ("files.hide", None),
    ("files.show", Some("files.show = ['.env']")),
    ("files.protect", Some("files.protect = 'notice'")),
    ("files.search", Some("files.search = 'bounded'")),
    ("home.mode", Some("home.mode = 'real'")),
    ("home.path", Some("home.path = '/srv/home'")),
    ("home.tools", Some("home.tools = ['gh']")),
    ("home.share", Some("home.share = ['claude']")),
    ("home.keyring", Some("home.keyring = 'always'")),
    ("tools.cage", Some("tools.cage = 'same'")),
    ("tools.net", Some("tools.net = 'same'")),
    ("tools.read", Some("tools.read = ['~/.ssh']")),
    ("tools.share", Some("tools.share = ['~/.ssh']")),
    ("net.mode", Some("net.mode = 'open'")),
    ("net.allow", None),
    ("net.ask", Some("net.ask = true")),
    ("net.reach", Some("net.reach = [11434]")),
    ("net.publish", Some("net.publish = [3000]")),
    ("net.upstream", Some("net.upstream.'a.example' = { address = '127.0.0.1:1' }")),
    ("net.ca", Some("net.ca = ['/srv/ca.pem']")),
    ("gate.mode", Some("gate.mode = 'yolo'")),
    ("gate.attended", Some("gate.attended = 'always'")),
    ("gate.wait", Some("gate.wait = '11m'")),
    ("gate.rules", Some("gate.rules = '/srv/rules.toml'")),
    ("gate.judge", Some("gate.judge = ['/bin/true']")),
    ("gate.judge_wait", Some("gate.judge_wait = '11m'")),
    ("gate.webhook", Some("gate.webhook = 'https://example.com'")),
    ("gate.webhook_key", Some("gate.webhook_key = 'github'")),
    ("gate.webhook_listen", Some("gate.webhook_listen = '127.0.0.1:8765'")),
    ("gate.webhook_ca", Some("gate.webhook_ca = '/srv/ca.pem'")),
    ("limits.wall", Some("limits.wall = '11m'")),
    ("limits.cpu", Some("limits.cpu = '11m'")),
    ("limits.memory", Some("limits.memory = '2G'")),
    ("limits.pids", Some("limits.pids = 11")),
    ("limits.open_files", Some("limits.open_files = 11")),
    ("limits.output", Some("limits.output = '2M'")),
    ("ledger.witness", Some("ledger.witness = ['journald']")),
    ("profiles", Some("profiles.default.net.mode = 'open'")),
];

fn alone(user: &str) -> Layers<'_> {
    Layers { user: Some(Document { name: "policy.toml", text: user.as_bytes() }), ..Layers::default() }
}

fn with_project<'a>(user: &'a str, project: &'a [u8]) -> Layers<'a> {
    Layers { project: Some(Document { name: ".keyward.toml", text: project }), ..alone(user) }
}

#[test]
fn no_key_of_the_table_lets_a_project_widen() {
    let tried: Vec<&str> = ATTEMPTS.iter().map(|(path, _)| *path).collect();
    let known: Vec<&str> = KEYS.iter().map(|key| key.path).collect();
    assert_eq!(tried, known, "each key of the table needs an attempt to widen with it");
    let before = resolve(&alone(STRICT)).expect("a good file");
    for (path, attempt) in ATTEMPTS {
        let Some(line) = attempt else {
            let text = format!("version = 1\n{path} = ['a.example']\n");
            let after = resolve(&with_project(STRICT, text.as_bytes())).expect("more of it is narrower");
            assert!(no_weaker(&before, &after) && before != after, "{path}");
            continue;
        };
        let (text, at) = match *path {
            "version" => (format!("{line}\n"), 1),
            _ => (format!("version = 1\n{line}\n"), 2),
        };
        let outcome = resolve(&with_project(STRICT, text.as_bytes()));
        let Err(PolicyError::Mistakes(mistakes)) = outcome else {
            panic!("{path}: the project got through with {line}: {outcome:?}");
        };
        let places: Vec<(&str, usize)> =
            mistakes.iter().map(|found| (found.file.as_str(), found.line)).collect();
        assert_eq!(places, [(".keyward.toml", at)], "{path}: {mistakes:?}");
    }
}

#[test]
fn a_widening_project_is_told_what_holds() {
    let text = b"version = 1\n  limits.memory = '2G'\nnet.mode = 'open'\n";
    let said = resolve(&with_project(STRICT, text)).expect_err("both lines widen").to_string();
    assert_eq!(
        said,
        ".keyward.toml:2:19: the project file may only narrow, and limits.memory = \"2G\" is weaker than \"1G\" \
         (policy.toml:15)\nremove the line, or write it in your own policy file\n\
         .keyward.toml:3:12: the project file may only narrow, and net.mode = \"open\" is weaker than \"none\" \
         (policy.toml:6)\nremove the line, or write it in your own policy file"
    );
}

/// What is reached with rules.
fn reached(policy: &Policy) -> Vec<Rule> {
    match policy.net.value {
        NetMode::Rules => rules(&policy.network).iter().cloned().collect(),
        NetMode::Open | NetMode::None => Vec::new(),
    }
}

fn includes(policy: &Policy, rule: &Rule) -> bool {
    let asked = Allowed::Rule(rule.clone());
    reached(policy).into_iter().any(|own| Allowed::Rule(own).includes(&asked))
}

/// Whether the second grants nothing that the first does not.
fn no_weaker(before: &Policy, after: &Policy) -> bool {
    fn limit<T: Ord>(before: &Option<Ruled<T>>, after: &Option<Ruled<T>>) -> bool {
        match (before, after) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(before), Some(after)) => after.value <= before.value,
        }
    }
    let (was, is) = (&before.limits, &after.limits);
    after.trust.value >= before.trust.value
        && after.floor.value >= before.floor.value
        && after.project.value >= before.project.value
        && after.protect.value >= before.protect.value
        && after.search.value >= before.search.value
        && after.home.mode.value >= before.home.mode.value
        && after.home.keyring.value >= before.home.keyring.value
        && after.redact.value >= before.redact.value
        && after.home.path == before.home.path
        && after.home.tools.iter().all(|tool| before.home.tools.contains(tool))
        && after.home.share == before.home.share
        && after.tools.cage.value >= before.tools.cage.value
        && after.tools.net.value >= before.tools.net.value
        && after.tools.read == before.tools.read
        && after.tools.share == before.tools.share
        && after.net.value >= before.net.value
        && reached(after).iter().all(|rule| before.net.value == NetMode::Open || includes(before, rule))
        && after.gate.mode.value >= before.gate.mode.value
        && after.gate.attended.value >= before.gate.attended.value
        && limit(&before.gate.wait, &after.gate.wait)
        && limit(&before.gate.judge_wait, &after.gate.judge_wait)
        && after.gate.rules == before.gate.rules
        && after.gate.judge == before.gate.judge
        && after.gate.webhook == before.gate.webhook
        && after.gate.webhook_key == before.gate.webhook_key
        && after.gate.webhook_listen == before.gate.webhook_listen
        && after.gate.webhook_ca == before.gate.webhook_ca
        && after.allow == before.allow
        && after.inherit_credentials == before.inherit_credentials
        && after.env == before.env
        && after.files.read == before.files.read
        && after.files.write == before.files.write
        && after.files.show == before.files.show
        && before.files.hide.iter().all(|path| after.files.hide.contains(path))
        && after.witness == before.witness
        && limit(&was.wall, &is.wall)
        && limit(&was.cpu, &is.cpu)
        && limit(&was.memory, &is.memory)
        && limit(&was.pids, &is.pids)
        && limit(&was.open_files, &is.open_files)
        && limit(&was.output, &is.output)
}

/// A line that any file may hold.
fn narrow_line() -> impl Strategy<Value = String> {
    let choice = |key: &'static str, words: &'static [&'static str]| {
        proptest::sample::select(words).prop_map(move |word| format!("{key} = '{word}'")).boxed()
    };
    prop_oneof![
        choice("trust", &["internal", "executor", "tool", "unknown"]),
        choice("floor", &["landlock", "full"]),
        choice("project", &["unprotected", "protected"]),
        choice("files.protect", &["notice", "strict"]),
        choice("files.search", &["bounded", "complete"]),
        choice("home.mode", &["real", "profile", "empty"]),
        choice("net.mode", &["open", "rules", "none"]),
        choice("limits.wall", &["1ms", "5m", "1h"]),
        choice("limits.cpu", &["1ms", "5m", "1h"]),
        choice("limits.memory", &["16M", "1G", "4G"]),
        choice("limits.output", &["1", "1M", "4G"]),
        (1u32..40).prop_map(|number| format!("limits.pids = {number}")),
        (1u32..40).prop_map(|number| format!("limits.open_files = {number}")),
        list("files.hide", &["a", "/etc", "~/x"]),
        list("net.allow", &["npm", "api.example.com", "GET api.example.com/v1/*", "registry.npmjs.org"]),
    ]
}

fn list(key: &'static str, words: &'static [&'static str]) -> BoxedStrategy<String> {
    let entries = proptest::collection::vec(proptest::sample::select(words), 0..3);
    entries.prop_map(move |entries| format!("{key} = {entries:?}")).boxed()
}

/// A line that grants, or does not fit.
fn wide_line() -> impl Strategy<Value = String> {
    prop_oneof![
        list("files.read", &["/srv", "~/x"]),
        list("files.write", &["/srv", "~/x"]),
        list("files.hide", &["../up"]),
        list("env.pass", &["CI", "LANG"]),
        list("allow", &["ptrace"]),
        list("net.allow", &["npm", "api.example.com"]),
        Just("env.set.X = '1'".to_owned()),
    ]
}

fn file(line: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    let lines = proptest::collection::vec(line, 0..4);
    lines.prop_map(|lines| format!("version = 1\n{}\n", lines.join("\n")))
}

const SEED: &str = "version = 1\nfloor = 'full'\nenv.pass = ['CI']\nenv.set = { X = '1' }\n[files]\nread = ['~/a']\n\
                    hide = ['b']\n[limits]\nwall = '1h'\nmemory = '4G'\npids = 3\n[profiles.p]\ntrust = 'tool'\n";

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_project_never_yields_a_weaker_policy(
        user in file(prop_oneof![narrow_line(), wide_line()]),
        project in prop_oneof![4 => file(narrow_line()).boxed(), 1 => file(wide_line()).boxed()],
    ) {
        if let Ok(before) = resolve(&alone(&user))
            && let Ok(after) = resolve(&with_project(&user, project.as_bytes()))
        {
            prop_assert!(no_weaker(&before, &after), "{user}\n{project}\n{before:?}\n{after:?}");
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let document = Some(Document { name: "f", text: &bytes });
        let layers = Layers { ceiling: document, user: document, project: document, ..Layers::default() };
        let _ = resolve(&Layers { profile: Some("p"), ..layers });
    }

    #[test]
    fn a_mutated_file_never_panics_and_mistakes_point_into_it(
        edits in proptest::collection::vec((0..SEED.len(), any::<u8>(), 0..3u8), 1..6)
    ) {
        let mut bytes = SEED.as_bytes().to_vec();
        for (at, byte, how) in edits {
            let at = at.min(bytes.len() - 1);
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                _ => drop(bytes.remove(at)),
            }
        }
        let document = Some(Document { name: "f", text: &bytes });
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count() + 1;
        let roles = [
            Layers { ceiling: document, ..Layers::default() },
            Layers { user: document, profile: Some("p"), ..Layers::default() },
            Layers { project: document, ..Layers::default() },
        ];
        for layers in roles {
            if let Err(PolicyError::Mistakes(mistakes)) = resolve(&layers) {
                prop_assert!(!mistakes.is_empty());
                for mistake in mistakes {
                    prop_assert!((1..=lines).contains(&mistake.line) && mistake.column >= 1, "{mistake}");
                }
            }
        }
    }
}
