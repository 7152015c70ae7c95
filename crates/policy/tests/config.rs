//! The policy files: layers in, whole policy or exact message out.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use insta::{assert_json_snapshot, assert_snapshot};
use keyward_policy::config::{Document, Flags, Layers, PolicyError, Role, check, resolve, schema, show};
use keyward_policy::settings::Policy;
use keyward_policy::words::{Floor, GateMode, NetMode, Protect, Redact, TrustClass};
use std::time::Duration;

fn document<'a>(name: &'a str, text: &'a str) -> Document<'a> {
    Document { name, text: text.as_bytes() }
}

/// The three files; an empty text means that there is no file.
fn layers<'a>(ceiling: &'a str, user: &'a str, project: &'a str) -> Layers<'a> {
    let some = |name, text: &'a str| if text.is_empty() { None } else { Some(document(name, text)) };
    Layers {
        ceiling: some("/etc/keyward/policy.toml", ceiling),
        user: some("policy.toml", user),
        project: some(".keyward.toml", project),
        ..Layers::default()
    }
}

/// The policy as shown, or the message.
fn outcome(layers: &Layers<'_>) -> String {
    match resolve(layers) {
        Ok(policy) => show(&policy),
        Err(error) => error.to_string(),
    }
}

/// The message about a user's file that begins with its version.
fn complaint(text: &str) -> String {
    outcome(&layers("", &format!("version = 1\n{text}"), ""))
}

const FULL: &str = r#"version = 1
floor = "landlock"
trust = "tool"
project = "unprotected"
allow = ["ptrace"]
inherit_credentials = ["GH_TOKEN"]

[env]
pass = ["CI", "RUST_LOG", "CI"]
set = { NO_COLOR = "1", MAX_TOKENS = "100" }
not_secret = ["MAX_TOKENS"]
dangerous_loader_env = ["PYTHONPATH"]

[files]
read = ["/srv/data", "~"]
write = ["~/scratch"]
hide = ["~/scratch/private", "notes"]
protect = "strict"

[net]
mode = "open"

[gate]
mode = "judge"
attended = "always"
wait = "10m"
rules = "~/rules.toml"
judge = ["/usr/local/bin/judge", "--fast"]
judge_wait = "5s"
webhook = "https://example.com/ask"
webhook_key = "ask-key"
webhook_listen = "127.0.0.1:8765"
webhook_ca = "~/ca.pem"

[limits]
wall = "10m"
cpu = "90s"
memory = "4G"
pids = 512
open_files = 1024
output = "64MiB"

[ledger]
witness = ["journald", "/mnt/heads", "!logger -t heads"]

[profiles.claude]
trust = "executor"
inherit_credentials = ["ANTHROPIC_API_KEY"]
env.set.NO_COLOR = "0"
env.set.PYTHONPATH = "/srv/py"
files.read = ["/opt/claude"]
limits = { wall = "1h" }
"#;

#[test]
fn nothing_said_is_the_built_in_policy() {
    assert_eq!(resolve(&Layers::default()), Ok(Policy::default()));
    assert_eq!(resolve(&layers("", "# only a remark\n", "")), Ok(Policy::default()));
}

#[test]
fn every_key_of_a_users_file_arrives_with_its_line() {
    assert_snapshot!(outcome(&layers("", FULL, "")));
}

#[test]
fn a_profile_lies_over_the_file_and_flags_over_both() {
    let flags = Flags {
        secrets: vec!["github=fd".into()],
        redact: Some(Redact::Off),
        trust: Some(TrustClass::Internal),
        floor: Some(Floor::Full),
        allow: Vec::new(),
        display: false,
        pass: vec!["CI".into(), "LANG".into()],
        env: vec!["RUST_LOG=debug".into()],
        inherit_credentials: vec!["OPENAI_API_KEY".into()],
        read: vec!["/srv/[id]".into()],
        write: vec!["/tmp/out".into()],
        hide: vec!["keys".into()],
        show: vec![],
        protect: Some(Protect::Strict),
        home: None,
        tools: Vec::new(),
        shims: true,
        net: Some(NetMode::None),
        allow_net: Vec::new(),
        reach: Vec::new(),
        publish: Vec::new(),
        gate: Some(GateMode::Ask),
        wall: Some(Duration::from_millis(1500)),
        memory: Some(1 << 30),
        pids: Some(9),
    };
    assert_snapshot!(outcome(&Layers { profile: Some("claude"), flags, ..layers("", FULL, "") }));
}

#[test]
fn the_ceiling_decides_where_nobody_asked_and_grants_nothing() {
    let ceiling = r#"version = 1
floor = "landlock"
allow = ["ptrace"]
env = { pass = ["CI", "LANG"], set = { NO_COLOR = "1", SITE = "here" } }
files = { read = ["/srv"], write = ["~"], hide = ["/srv/private"] }
limits = { memory = "8G", pids = 100 }
"#;
    let user = r#"version = 1
env = { pass = ["CI"], set = { NO_COLOR = "0", MINE = "1" } }
files = { read = ["/srv/data", "~/notes"], write = ["~/scratch"], hide = ["~/scratch/x"] }
limits.memory = "2G"
"#;
    assert_snapshot!(outcome(&layers(ceiling, user, "")));
}

#[test]
fn the_project_narrows() {
    let user =
        "version = 1\nfloor = 'landlock'\nnet.mode = 'open'\nlimits = { wall = '10m', memory = '4G' }\n";
    let project = r#"version = 1
floor = "full"
trust = "unknown"
files.hide = ["fixtures/keys"]
net.mode = "none"
limits = { wall = "10m", memory = "1G", output = "1M" }
"#;
    assert_snapshot!(outcome(&layers("", user, project)));
}

#[test]
fn what_is_shown_reads_back_as_the_same_policy() {
    let first = resolve(&Layers { profile: Some("claude"), ..layers("", FULL, "") }).expect("a good file");
    let text = show(&first);
    let second = resolve(&layers("", &text, "")).expect("what is shown is a policy file");
    let values = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split('#').next().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(values(&show(&second)), values(&text));
}

#[test]
fn whoever_asks_for_more_than_the_ceiling_is_refused_with_both_places() {
    let ceiling = r#"version = 1
trust = "tool"
floor = "full"
allow = []
inherit_credentials = ["GH_TOKEN"]
env.pass = ["CI"]
env.dangerous_loader_env = []
files.read = ["/srv/data"]
files.write = ["/srv/out", "~/scratch"]
net.mode = "none"
limits = { wall = "10m", memory = "4G", pids = 64 }
"#;
    let beyond = [
        "trust = 'executor'",
        "floor = 'landlock'",
        "allow = ['ptrace']",
        "inherit_credentials = ['GH_TOKEN', 'NPM_TOKEN']",
        "env.pass = ['CI', 'LANG']",
        "env.dangerous_loader_env = ['LD_PRELOAD']",
        "files.read = ['/srv/database']",
        "files.write = ['/srv/data']",
        "files.write = ['/srv/out', '~/scratches']",
        "net.mode = 'open'",
        "limits.wall = '11m'",
        "limits.memory = '5G'",
        "limits.pids = 65",
    ];
    let mut seen = String::new();
    for line in beyond {
        let text = format!("version = 1\n{line}\n");
        let asked = layers(ceiling, &text, "");
        assert!(matches!(resolve(&asked), Err(PolicyError::Beyond(_))), "{line}");
        seen += &format!("--- {line}\n{}\n", outcome(&asked));
    }
    let flags = Flags { write: vec!["/home/me".into()], ..Flags::default() };
    seen += &format!("--- --write /home/me\n{}\n", outcome(&Layers { flags, ..layers(ceiling, "", "") }));
    assert_snapshot!(seen);
    let within = "version = 1\nfiles.read = ['/srv/data', '/srv/./data//x', '/srv/out/log', '~/scratch']\n";
    assert!(resolve(&layers(ceiling, within, "")).is_ok());
}

#[test]
fn a_later_layer_within_the_ceiling_repairs_an_earlier_one_beyond_it() {
    let flags = Flags { pids: Some(10), ..Flags::default() };
    let asked =
        Layers { flags, ..layers("version = 1\nlimits.pids = 64", "version = 1\nlimits.pids = 100", "") };
    assert_eq!(resolve(&asked).map(|policy| policy.limits.pids.map(|pids| pids.value)), Ok(Some(10)));
}

#[test]
fn the_built_in_limit_of_processes_is_raised_by_the_user_and_only_lowered_by_the_project() {
    let pids = |ceiling: &str, user: &str, project: &str| {
        let text =
            |line: &str| if line.is_empty() { String::new() } else { format!("version = 1\n{line}\n") };
        let (ceiling, user, project) = (text(ceiling), text(user), text(project));
        let policy = resolve(&layers(&ceiling, &user, &project));
        policy.map(|policy| policy.limits.pids.map(|pids| (pids.value, pids.origin.to_string())))
    };
    let number =
        |found: Result<Option<(u64, String)>, PolicyError>| found.ok().flatten().map(|(value, _)| value);
    assert_eq!(pids("", "", ""), Ok(Some((4096, "built in".into()))));
    assert_eq!(number(pids("", "limits.pids = 20000", "")), Some(20000));
    assert_eq!(number(pids("", "", "limits.pids = 300")), Some(300));
    assert_eq!(number(pids("", "limits.pids = 20000", "limits.pids = 9000")), Some(9000));
    assert!(pids("", "", "limits.pids = 5000").is_err());
    // A ceiling lowers the default; it does not raise it.
    assert_eq!(number(pids("limits.pids = 100", "", "")), Some(100));
    assert_eq!(number(pids("limits.pids = 10000", "", "")), Some(4096));
    assert!(pids("limits.pids = 10000", "limits.pids = 20000", "").is_err());
}

#[test]
fn mistakes_of_every_kind_say_what_to_do() {
    let cases = [
        "flor = 'full'",
        "memory = '4G'",
        "env.pas = ['CI']",
        "[evn]\npass = []",
        "banana = 1",
        "files.banana = 1",
        "'env.pass' = ['CI']",
        "floor = 'ful'",
        "floor = 'everything'",
        "floor = 3",
        "allow = ['mount']",
        "env = 3",
        "[[env]]\npass = ['CI']",
        "env.pass = 'CI'",
        "env.pass = ['CI', 3]",
        "env.pass = ['FOO=1']",
        "inherit_credentials = ['not a name']",
        "env.set = ['X']",
        "env.set.X = 3",
        "env.set.'A B' = '1'",
        "env.set.API_TOKEN = '1'",
        "env.set.LD_PRELOAD = '/x.so'",
        "env.set.X = \"a\\u0007\"",
        "files.read = ['data']",
        "files.read = ['~root/x']",
        "files.read = ['/srv/*.txt']",
        "files.read = ['/srv/../etc']",
        "files.read = ['']",
        "files.read = [\"/srv/\\u0000\"]",
        "files.write = ['/']",
        "files.write = ['~/.']",
        "limits.wall = 10",
        "limits.wall = '10'",
        "limits.wall = '0s'",
        "limits.wall = '99999999999999999999h'",
        "limits.memory = 512",
        "limits.memory = '4GX'",
        "limits.memory = -1",
        "limits.output = 0",
        "limits.pids = '5'",
        "limits.pids = 0",
        "limits.pids = 1.5",
        "profiles = 1",
        "profiles.x = 1",
        "profiles.'../x' = {}",
        "[profiles.x]\nversion = 1",
        "[profiles.x]\nprofiles = {}",
        "[profiles.x]\nflor = 'full'",
        "[profiles.x]\nenv.set.X = 1",
        "floor = full",
        "floor = 'full'\nfloor = 'full'",
        "floor = 'full",
    ];
    let mut seen = String::new();
    for case in cases {
        seen += &format!("--- {case}\n{}\n", complaint(case));
    }
    assert_snapshot!(seen);
}

#[test]
fn no_message_repeats_the_value_of_a_variable() {
    let secret = "hunter2";
    let attempts = [
        format!("env.set.API_TOKEN = '{secret}'"),
        format!("env.set.X = ['{secret}']"),
        format!("env.set.X = {{ '{secret}' = 1 }}"),
        format!("env.set.X = \"{secret}\\u0001\""),
        format!("env.set.X = {secret}"),
        format!("env.set.LD_PRELOAD = '{secret}'"),
        format!("env.set.X = '{}'", secret.repeat(20_000)),
        format!("env.pass = ['X={secret}']"),
        format!("env.pass = [\"X={secret}\\u0001\"]"),
    ];
    for attempt in attempts {
        let said = complaint(&attempt);
        assert!(said.starts_with("policy.toml:2:") && !said.contains(secret), "{said}");
    }
    let key = ["gh", "p_", &"a1B2".repeat(9)].concat();
    for place in [
        "env.pass = ['@']",
        "env.set.@ = '1'",
        "env.set.X = '@'",
        "env.set.SSH_AUTH_SOCK = '@'",
        "floor = '@'",
        "@ = 1",
        "files.read = ['@']",
    ] {
        let said = complaint(&place.replace('@', &key));
        assert!(said.starts_with("policy.toml:2:") && !said.contains(&key), "{said}");
    }
    let fine = complaint("env.set.SSH_AUTH_SOCK = '/run/agent'");
    assert!(fine.contains("set.SSH_AUTH_SOCK"), "{fine}");
}

#[test]
fn a_version_is_wanted_and_is_one() {
    let seen = ["floor = 'full'", "version = 2", "version = '1'"].map(|text| outcome(&layers("", text, "")));
    assert_snapshot!(seen.join("\n"));
}

#[test]
fn all_mistakes_of_all_files_come_at_once_in_line_order() {
    let ceiling = "version = 1\nflor = 1\n[profiles.x]\n";
    let user = "[limits]\npids = 0\n[env]\nset = { X = 1 }\npass = [1, 'b c']\n";
    assert_snapshot!(outcome(&layers(ceiling, user, "version = 1\nenv.pass = []\n")));
}

#[test]
fn flags_are_held_to_the_same_rules() {
    let flags = Flags {
        pass: vec!["A=1".into()],
        read: vec!["data".into()],
        write: vec!["/".into()],
        hide: vec!["../up".into()],
        wall: Some(Duration::ZERO),
        memory: Some(1),
        pids: Some(0),
        ..Flags::default()
    };
    assert_snapshot!(outcome(&Layers { flags, ..Layers::default() }));
}

#[test]
fn a_variable_of_a_flag_is_cleared_by_the_users_own_file_alone() {
    let ask = |user, pair: &str| {
        let flags = Flags { env: vec![pair.into()], ..Flags::default() };
        outcome(&Layers { flags, ..layers("", user, "") })
    };
    let cleared =
        "version = 1\nenv.not_secret = [\"MAX_TOKENS\"]\nenv.dangerous_loader_env = [\"PYTHONPATH\"]\n";
    let seen = [
        ask("", "MAX_TOKENS=100"),
        ask("", "PLAIN=ghp_EXAMPLE0EXAMPLE0EXAMPLE0EXAMPLE0EXAM"),
        ask("", "PYTHONPATH=lib"),
    ];
    assert_snapshot!(seen.join("\n"));
    for pair in ["MAX_TOKENS=100", "PYTHONPATH=lib", "DOCKER_HOST=unix:///run/x.sock"] {
        assert!(ask(cleared, pair).contains(pair.split_once('=').unwrap().1), "{pair}");
    }
}

#[test]
fn a_profile_that_does_not_exist_names_the_nearest() {
    let user = "version = 1\n[profiles.claude]\n[profiles.codex]\n";
    let ask = |profile, user| outcome(&Layers { profile: Some(profile), ..layers("", user, "") });
    let seen = [ask("cluade", user), ask("gopher", user), ask("x", "version = 1"), ask("x", "")];
    assert_snapshot!(seen.join("\n"));
}

#[test]
fn keys_that_do_not_belong_to_a_role_are_named() {
    let cases = [
        (Role::Ceiling, "env.not_secret = ['MAX_TOKENS']"),
        (Role::Ceiling, "[profiles.x]"),
        (Role::Project, "[profiles.x]"),
        (Role::Project, "env.not_secret = ['MAX_TOKENS']"),
        (Role::Project, "env.set.X = '1'"),
    ];
    let mut seen = String::new();
    for (role, line) in cases {
        let text = format!("version = 1\n{line}\n");
        let found = check(&document("f", &text), role).expect_err("it does not belong");
        seen += &format!("--- {role:?}: {line}\n{}\n", PolicyError::Mistakes(found));
    }
    assert_snapshot!(seen);
}

#[test]
fn bytes_that_are_no_policy_are_refused_at_their_place() {
    let said = |text: &[u8]| match check(&Document { name: "f", text }, Role::User) {
        Ok(()) => "fine".to_owned(),
        Err(mistakes) => PolicyError::Mistakes(mistakes).to_string(),
    };
    assert_eq!(said(b""), "fine");
    assert_eq!(said(b"\xef\xbb\xbfversion = 1\n"), "fine");
    assert_eq!(said(b"version = 1\r\nfloor = 'full'\r\n"), "fine");
    let encoding = [&b"version = 1\n# "[..], "é".as_bytes(), b"\xff\n"].concat();
    assert_eq!(said(&encoding), "f:2:4: the file is not UTF-8 from here on\nsave it as UTF-8");
    let large = vec![b'#'; (1 << 20) + 1];
    assert_eq!(
        said(&large),
        "f:1:1: the file is larger than 1 MiB\na policy is a page of text; check the path"
    );
    let columns = said("version = 1\nenv.pass = ['é', 'ü']\n".as_bytes());
    assert!(columns.contains("f:2:13: ") && columns.contains("f:2:18: "), "{columns}");
}

#[test]
fn deep_nesting_is_a_mistake_and_no_crash() {
    let many = 200_000;
    let shapes = [
        format!("version = 1\nfloor = {}", "[".repeat(many)),
        format!("version = 1\nfloor = {}{}", "[".repeat(many), "]".repeat(many)),
        format!("version = 1\nfloor = {}", "{a=".repeat(many)),
        format!("version = 1\n[{}a]", "a.".repeat(many)),
        format!("version = 1\n{}a = 1", "a.".repeat(many)),
        format!("version = 1\n{}", "[env]\n".repeat(many / 2)),
    ];
    for text in shapes {
        let found = check(&document("f", &text), Role::User).expect_err("nested too deeply");
        assert!(!found.is_empty() && found.len() <= 100);
    }
}

#[test]
fn a_flood_of_mistakes_is_cut() {
    let text = (0..40_000).map(|number| format!("flor{number} = 1\n")).collect::<String>();
    let found = check(&document("f", &text), Role::User).expect_err("forty thousand unknown keys");
    assert_eq!(found.len(), 100);
}

#[test]
fn the_schema_says_what_the_table_says() {
    assert_json_snapshot!(schema());
}
