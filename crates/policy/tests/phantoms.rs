//! Secrets that are bound to hosts: what a plan says of them, and what is refused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "a test asks git itself")]

mod case;

use case::{Case, flag, refused};
use keyward_policy::config::Document;
use keyward_policy::detect::registry;
use keyward_policy::env::Value;
use keyward_policy::explain::explain;
use keyward_policy::login;
use keyward_policy::net::allowed::Allowed;
use keyward_policy::net::narrow::Narrowing;
use keyward_policy::net::{self, Scheme};
use keyward_policy::plan::Plan;
use keyward_policy::provider;
use keyward_policy::request::Purpose;
use keyward_policy::secret::{self, Grant};
use keyward_policy::settings::Policy;
use keyward_policy::view::Shown;
use keyward_policy::words::{NetMode, Origin, Ruled, TrustClass};

/// A case whose user has these secrets, and gives them to the command.
fn given(secrets: &str, grants: &[&'static str]) -> Case {
    let mut case = Case::new();
    let text = format!("version = 1\n{secrets}");
    case.policy.known_secrets =
        secret::read(&Document { name: "secrets.toml", text: text.as_bytes() }).unwrap();
    case.policy.secrets = grants.iter().map(|text| flag(Grant::parse(text).unwrap(), "--secret")).collect();
    secret::reach(&mut case.policy);
    case
}

const ANTHROPIC: &str = "[secrets.anthropic]\nfrom = \"store://anthropic\"\n";

fn held(plan: &Plan) -> Vec<&str> {
    let is_phantom = |value: &Value| matches!(value, Value::Phantom { .. });
    plan.environment.vars.iter().filter(|var| is_phantom(&var.value)).map(|var| &*var.name).collect()
}

#[test]
fn a_secret_named_after_a_provider_needs_no_host_and_no_variable() {
    let plan = given(ANTHROPIC, &["anthropic"]).plan();
    assert_eq!(held(&plan), ["ANTHROPIC_API_KEY"]);
    assert_eq!(plan.phantoms[0].hosts(), "api.anthropic.com");
    let network = plan.network.as_ref().unwrap();
    assert_eq!(network.rules.iter().map(ToString::to_string).collect::<Vec<_>>(), ["api.anthropic.com"]);
    assert_eq!(network.granted, ["anthropic"]);
    let needs =
        net::plan::needs_certificate(&given(ANTHROPIC, &["anthropic"]).policy.network, Purpose::Command);
    assert!(needs, "programs have to trust the certificate of the proxy");
    assert!(plan.secrets.is_empty() && !plan.redacts(), "the vault delivers nothing into the cage");
    let text = explain(&plan, false);
    assert!(
        text.contains("ANTHROPIC_API_KEY: replaced by the proxy for api.anthropic.com")
            && text.contains("a phantom, which the proxy replaces"),
        "{text}"
    );
    let json = serde_json::to_value(&plan).unwrap();
    assert_eq!(json["phantoms"][0]["to"][0], "api.anthropic.com");
    assert_eq!(json["phantoms"][0]["variables"][0], "ANTHROPIC_API_KEY");
}

#[test]
fn a_user_narrows_the_hosts_and_names_the_variable() {
    let secrets = "[secrets.github]\nfrom = \"env://GH\"\nto = [\"GET api.github.com/repos/*\"]\nas = \"MY_TOKEN\"\n\
                   [secrets.internal]\nfrom = \"pass://internal\"\nto = [\"api.corp.example:8443\"]\nin = [\"query\", \"body\"]\n";
    let plan = given(secrets, &["github", "internal=proxy"]).plan();
    assert_eq!(held(&plan), ["INTERNAL", "MY_TOKEN"]);
    let [github, internal] = plan.phantoms.as_slice() else { panic!() };
    assert_eq!((github.hosts().as_str(), github.provider), ("GET api.github.com/repos/*", Some("github")));
    assert!(internal.places.query && internal.places.body && !internal.places.path);
    assert_eq!(internal.provider, None);
    let binding = internal.binding("kwp_0123456789abcdef".into(), &[]);
    assert!(binding.is_sound() && binding.secret == "internal");
}

#[test]
fn a_secret_for_a_known_variable_has_the_shape_that_its_clients_expect() {
    let secrets =
        "[secrets.work]\nfrom = \"store://work\"\nto = [\"git.corp.example\"]\nas = \"GITLAB_TOKEN\"\n";
    let plan = given(secrets, &["work"]).plan();
    let bound = &plan.phantoms[0];
    let mut counter = 0;
    let phantom = bound.phantom(&mut |bytes: &mut [u8]| {
        for byte in bytes {
            counter = (counter + 7) % 251;
            *byte = counter;
        }
    });
    assert!(phantom.starts_with("glpat-"), "{phantom}");
    assert_eq!(bound.git, [("git.corp.example".to_owned(), "oauth2")]);
}

#[test]
fn a_phantom_replaces_what_the_caller_has_under_that_name() {
    let mut case = given(ANTHROPIC, &["anthropic"]);
    case.environment.push(b"ANTHROPIC_API_KEY=sk-ant-the-callers-own");
    let plan = case.plan();
    assert_eq!(held(&plan), ["ANTHROPIC_API_KEY"]);
    assert!(!plan.environment.dropped.iter().any(|dropped| dropped.name == "ANTHROPIC_API_KEY"));
}

#[test]
fn a_session_holds_phantoms() {
    let mut case = given(ANTHROPIC, &["anthropic"]);
    case.purpose = Purpose::Session;
    case.terminals = [false; 3];
    assert_eq!(held(&case.plan()), ["ANTHROPIC_API_KEY"]);
    let mut case = given(ANTHROPIC, &["anthropic=fd"]);
    case.purpose = Purpose::Session;
    assert!(case.refusal().remedy.contains("--secret NAME"), "{:?}", case.refusal());
}

#[test]
fn what_cannot_be_is_refused_with_a_remedy() {
    let refuses = |case: &Case, part: &str| {
        let refusal = case.refusal();
        let text = format!("{}\n{}", refusal.fact, refusal.remedy);
        assert!(text.contains(part), "{part}: {text}");
    };
    let acme = "[secrets.acme]\nfrom = \"store://acme\"\n";
    refuses(&given(acme, &["acme"]), "keyward secret set acme --to HOST");
    refuses(&given(acme, &["acme"]), "--secret acme=fd");
    refuses(&given("", &["acme"]), "there is no secret acme");
    refuses(&given("[secrets.atlassian]\nfrom = \"store://a\"\n", &["atlassian"]), "host of its own");
    let twice = "[secrets.one]\nfrom = \"store://a\"\nto = [\"a.org\"]\nas = \"X_KEY\"\n\
                 [secrets.two]\nfrom = \"store://b\"\nto = [\"b.org\"]\nas = \"X_KEY\"\n";
    refuses(&given(twice, &["one", "two"]), "would both be in X_KEY");
    refuses(&given(twice, &["one", "two=dangerous-env"]), "would both be in X_KEY");
    let mut inherits = given(ANTHROPIC, &["anthropic"]);
    inherits.policy.trust = flag(TrustClass::Executor, "--trust");
    inherits.policy.inherit_credentials = vec![flag("ANTHROPIC_API_KEY".into(), "--inherit-credentials")];
    inherits.environment.push(b"ANTHROPIC_API_KEY=sk-ant-the-callers-own");
    refuses(&inherits, "remove ANTHROPIC_API_KEY from --inherit-credentials");
    let mut set = given(ANTHROPIC, &["anthropic"]);
    set.policy.env.set = vec![flag(("ANTHROPIC_API_KEY".into(), "x".into()), "--env")];
    refuses(&set, "env.set");
    let mut open = given(ANTHROPIC, &["anthropic"]);
    open.policy.net = flag(NetMode::Open, "--net");
    refuses(&open, "no proxy replaces it");
    let mut closed = Case::new();
    closed.policy = Policy { net: flag(NetMode::None, "--net"), ..given(ANTHROPIC, &["anthropic"]).policy };
    secret::reach(&mut closed.policy);
    refuses(&closed, "the network is closed (--net)");
    let mut below = given(ANTHROPIC, &["anthropic"]);
    below.policy.network.most = Some(vec![flag(Allowed::parse("*.example.com").unwrap(), "/etc")]);
    refuses(&below, "is beyond the ceiling (/etc)");
    below.policy.network.most = Some(vec![flag(Allowed::parse("*.anthropic.com").unwrap(), "/etc")]);
    assert_eq!(held(&below.plan()), ["ANTHROPIC_API_KEY"]);
    let mut bare = given(ANTHROPIC, &["anthropic"]);
    bare.kernel.user_namespace = refused("operation not permitted");
    bare.policy.floor = flag(keyward_policy::words::Floor::Landlock, "--floor");
    refuses(&bare, "this host refuses a network namespace");
}

#[test]
fn aws_is_bound_to_one_service_and_region() {
    let aws = |to: &str| format!("[secrets.aws]\nfrom = \"store://aws\"\nto = [{to}]\n");
    let of =
        |secrets: &str| secret::bound(&given(secrets, &["aws"]).policy, &[]).map(|mut all| all.remove(0));
    let v4 = |service: &str, region: &str| Scheme::AwsV4 { service: service.into(), region: region.into() };
    let secrets = aws("\"yours.s3.eu-central-1.amazonaws.com\", \"s3.eu-central-1.amazonaws.com/yours/*\"");
    let bound = of(&secrets).unwrap();
    assert_eq!(bound.scheme, v4("s3", "eu-central-1"));
    assert_eq!(bound.variables, ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]);
    let phantom = bound.phantom(&mut |bytes: &mut [u8]| bytes.fill(7));
    assert!(bound.value(0, &phantom).starts_with("AKIA"), "{phantom}");
    assert_eq!(bound.value(1, &phantom).len(), 40);
    for vague in ["\"s3.eu-central-1.amazonaws.com\", \"sqs.eu-central-1.amazonaws.com\"", "\"moto.test\""] {
        let refusal = of(&aws(vague)).unwrap_err();
        assert!(refusal.remedy.contains("--aws s3/eu-central-1"), "{refusal:?}");
    }
    let named = "[secrets.aws]\nfrom = \"store://aws\"\nto = [\"moto.test\"]\naws = \"sqs/us-east-1\"\n";
    assert_eq!(of(named).unwrap().scheme, v4("sqs", "us-east-1"));
    assert_eq!(held(&given(&secrets, &["aws"]).plan()), ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"]);
}

#[test]
fn every_host_of_the_registry_is_one_that_a_user_could_name() {
    for provider in provider::all() {
        for host in provider.hosts {
            assert_eq!(secret::target(host).as_deref(), Ok(*host), "{}", provider.name);
        }
    }
}

#[test]
fn no_variable_of_the_registry_reaches_a_child_by_itself() {
    let mut case = Case::new();
    for provider in provider::all() {
        for variable in provider.variables {
            let entry: &'static str = Box::leak(format!("{variable}=plainword").into_boxed_str());
            case.environment.push(entry.as_bytes());
        }
    }
    let plan = case.plan();
    for provider in provider::all() {
        for variable in provider.variables {
            assert!(registry::known(variable.as_bytes()).is_some());
            assert!(!plan.environment.vars.iter().any(|var| var.name == *variable), "{variable}");
            assert!(plan.environment.dropped.iter().any(|dropped| dropped.name == *variable), "{variable}");
        }
    }
}

/// What git finds with the settings of the system.
fn git_settings(plan: &Plan) -> Option<String> {
    let path = std::path::Path::new(keyward_policy::view::GIT_SETTINGS);
    let entry = plan.view.entries.iter().find(|entry| entry.target == path)?;
    match &entry.shown {
        Shown::Text { text } => Some(String::from_utf8(text.clone()).unwrap()),
        _ => None,
    }
}

#[test]
fn git_reaches_a_bound_forge_by_https_with_the_phantom() {
    let plan = given("[secrets.github]\nfrom = \"store://github\"\n", &["github"]).plan();
    let text = git_settings(&plan).unwrap();
    assert!(text.contains("insteadOf = git@github.com:"), "{text}");
    assert!(!text.contains("api.github.com"), "{text}");
    let variable = plan.environment.vars.iter().find(|var| var.name == "GIT_CONFIG_SYSTEM").unwrap();
    assert_eq!(variable.value, Value::Ours("/run/gitconfig".into()));
    // The control: without a forge there is nothing to lead.
    assert_eq!(git_settings(&given(ANTHROPIC, &["anthropic"]).plan()), None);
    // What git itself makes of it.
    let folder = std::env::temp_dir().join(format!("keyward-forge-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("gitconfig");
    std::fs::write(&file, text.replace("path = /etc/gitconfig", "path = /nonexistent")).unwrap();
    let git = |arguments: &[&str], input: &str| {
        use std::io::Write as _;
        use std::process::{Command, Stdio};
        let mut child = Command::new("git")
            .args(arguments)
            .env_clear()
            .envs([
                ("PATH", "/usr/local/bin:/usr/bin:/bin"),
                ("HOME", "/nonexistent"),
                ("GH_TOKEN", "ghp_phantom"),
            ])
            .env("GIT_CONFIG_SYSTEM", &file)
            .current_dir(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap()
    };
    for address in ["git@github.com:a/b.git", "ssh://git@github.com/a/b.git", "git://github.com/a/b.git"] {
        assert_eq!(git(&["ls-remote", "--get-url", address], "").trim(), "https://github.com/a/b.git");
    }
    assert_eq!(
        git(&["ls-remote", "--get-url", "git@gitlab.com:a/b.git"], "").trim(),
        "git@gitlab.com:a/b.git"
    );
    let filled = git(&["credential", "fill"], "protocol=https\nhost=github.com\n\n");
    assert!(filled.contains("username=x-access-token\npassword=ghp_phantom\n"), "{filled}");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A case whose tools are shown, with the network by rules, and whose login files were read as these.
fn logged_in(tools: &[&str], files: &[(&'static str, &str, &str)]) -> Case {
    let mut case = Case::new();
    case.policy.trust = flag(TrustClass::Executor, "--trust");
    case.policy.net = flag(NetMode::Rules, "--allow-net");
    let tool = |name: &&str| flag(keyward_policy::tools::tool(name).unwrap(), "--tool");
    case.policy.home.tools = tools.iter().map(tool).collect();
    for (name, path, content) in files {
        let file = login::named(name).unwrap();
        let path = format!("/home/ada/{path}");
        case.file(&path);
        case.policy.logins.push(login::Found {
            file: file.name,
            path: path.clone().into(),
            outside: path.into(),
            skeleton: file.skeleton(content.as_bytes()),
            origin: keyward_policy::words::Origin::Builtin,
        });
    }
    secret::reach(&mut case.policy);
    case
}

const CLAUDE: &str = r#"{"claudeAiOauth":{"accessToken":"sk-ant-oat01-real","refreshToken":"sk-ant-ort01-real","expiresAt":1}}"#;

#[test]
fn with_rules_a_login_file_has_phantoms_and_its_hosts_are_allowed() {
    let case = logged_in(&["claude"], &[("claude", ".claude/.credentials.json", CLAUDE)]);
    let mut plan = case.plan();
    let entry = |plan: &Plan| {
        let at = std::path::Path::new("/home/ada/.claude/.credentials.json");
        plan.view.entries.iter().find(|entry| entry.target == at).map(|entry| entry.shown.clone())
    };
    assert!(matches!(entry(&plan), Some(Shown::Login { file: "claude", .. })), "{:?}", entry(&plan));
    let names: Vec<&str> = plan.phantoms.iter().map(|bound| bound.name.as_str()).collect();
    assert_eq!(names, ["claude-login.access", "claude-login.refresh"]);
    assert!(held(&plan).is_empty(), "no variable holds one");
    let rules: Vec<String> = plan.network.as_ref().unwrap().rules.iter().map(ToString::to_string).collect();
    assert!(rules.contains(&"api.anthropic.com".to_owned()), "{rules:?}");
    assert!(rules.contains(&"POST platform.claude.com/v1/oauth/token".to_owned()), "{rules:?}");
    assert_eq!(secret::renewals(&plan.phantoms).len(), 1);
    let text = explain(&plan, false);
    assert!(
        text.contains("claudeAiOauth.accessToken: replaced by the proxy for api.anthropic.com"),
        "{text}"
    );
    assert!(!text.contains("the real login"), "{text}");
    login::hold(&mut plan, &case.policy, &["phantom-one".into(), "phantom-two".into()]);
    let Some(Shown::Login { text, .. }) = entry(&plan) else { panic!() };
    let shown =
        CLAUDE.replace("sk-ant-oat01-real", "phantom-one").replace("sk-ant-ort01-real", "phantom-two");
    assert_eq!(String::from_utf8(text).unwrap(), shown);
    assert!(!serde_json::to_string(&plan).unwrap().contains("phantom-one"), "a plan holds no phantom");
}

#[test]
fn a_host_that_a_file_names_is_not_allowed_by_it_and_a_ceiling_holds() {
    let case = logged_in(&["npm"], &[("npm", ".npmrc", "//npm.corp.example/:_authToken=real-token\n")]);
    let plan = case.plan();
    assert_eq!(plan.phantoms[0].hosts(), "npm.corp.example");
    assert_eq!(plan.network.as_ref().unwrap().rules.iter().count(), 0);
    let mut case = logged_in(&["claude"], &[]);
    case.policy.network.most = Some(vec![flag(Allowed::parse("api.anthropic.com").unwrap(), "net.allow")]);
    let found = logged_in(&["claude"], &[("claude", ".claude/.credentials.json", CLAUDE)]).policy.logins;
    case.file("/home/ada/.claude/.credentials.json");
    case.policy.logins = found;
    secret::reach(&mut case.policy);
    let rules = case.plan().network.unwrap().rules;
    let rules: Vec<String> = rules.iter().map(ToString::to_string).collect();
    assert_eq!(rules, ["api.anthropic.com", "POST api.anthropic.com/v1/oauth/token"], "no other host");
}

#[test]
fn an_odd_login_file_is_not_shown_and_one_without_a_proxy_is_the_real_one() {
    let odd = logged_in(&["claude"], &[("claude", ".claude/.credentials.json", "{")]).plan();
    assert!(!odd.view.entries.iter().any(|entry| entry.target.ends_with(".credentials.json")));
    assert!(
        odd.view.notes.iter().any(|note| note.contains("is not shown: it is not written")),
        "{:?}",
        odd.view.notes
    );
    let mut open = logged_in(&["claude"], &[("claude", ".claude/.credentials.json", CLAUDE)]);
    open.policy.net = flag(NetMode::Open, "--net");
    let plan = open.plan();
    assert!(plan.phantoms.is_empty());
    assert!(explain(&plan, false).contains("the real login is shown"));
}

/// The same, in a project whose file names these hosts.
fn in_project(secrets: &str, grants: &[&'static str], hosts: &[&str]) -> Case {
    let mut case = given(secrets, grants);
    let origin = Origin::File { file: "/p/.keyward.toml".into(), line: 2 };
    let entry = |text: &&str| Ruled { value: Allowed::parse(text).unwrap(), origin: origin.clone() };
    let allow = hosts.iter().map(entry).collect();
    case.policy.network.narrowed = vec![Narrowing { origin: origin.clone(), allow }];
    case
}

const TWO: &str = "[secrets.github]\nfrom = \"env://GH\"\nto = [\"api.github.com\", \"github.com\"]\n";

#[test]
fn a_project_file_narrows_the_hosts_of_a_bound_secret() {
    let plan = in_project(TWO, &["github"], &["GET api.github.com/repos/*", "npm"]).plan();
    let network = plan.network.as_ref().unwrap();
    let rules: Vec<String> = network.rules.iter().map(ToString::to_string).collect();
    assert_eq!(rules, ["GET api.github.com/repos/*"]);
    assert_eq!(plan.phantoms[0].hosts(), "GET api.github.com/repos/*");
    assert_eq!(plan.phantoms[0].git, Vec::<(String, &str)>::new(), "github.com is not reached");
    let text = explain(&plan, false);
    assert!(
        text.contains(
            "network    github.com  (--secret) only as far as the project file names it (/p/.keyward.toml:2)"
        ),
        "{text}"
    );
    let answer = net::why::why(&plan, "github.com").unwrap();
    assert!(
        !answer.allowed && answer.rule == "net.allow" && answer.origin == "/p/.keyward.toml:2",
        "{answer}"
    );
    assert!(net::why::why(&plan, "GET api.github.com/repos/a").unwrap().allowed);
    // The control: without the list both hosts are reached.
    let plan = given(TWO, &["github"]).plan();
    assert!(net::why::why(&plan, "github.com").unwrap().allowed);
    assert!(net::why::why(&plan, "DELETE api.github.com/repos/a").unwrap().allowed);
}

#[test]
fn a_secret_without_any_host_left_is_refused_with_the_file() {
    for hosts in [&["npm"][..], &[]] {
        let refusal = in_project(TWO, &["github"], hosts).refusal();
        assert_eq!(refusal.rule, "net.allow");
        assert!(refusal.fact.contains("github (--secret)") && refusal.fact.contains("/p/.keyward.toml:2"));
    }
}

#[test]
fn a_base_url_leads_to_the_proxy_and_stands_for_one_host() {
    let secrets = "[secrets.anthropic]\nfrom = \"store://a\"\n[secrets.openai]\nfrom = \"store://o\"\n\
                   [secrets.codex]\nfrom = \"store://c\"\n";
    let plan = given(secrets, &["anthropic=base-url", "openai=base-url", "codex=base-url"]).plan();
    let value = |name: &str| {
        let var = plan.environment.vars.iter().find(|var| var.name == name).unwrap();
        let Value::Ours(text) = &var.value else { panic!("{name}") };
        text.to_str().unwrap().to_owned()
    };
    assert_eq!(value("ANTHROPIC_BASE_URL"), "http://198.18.0.16");
    assert_eq!(value("OPENAI_BASE_URL"), "http://198.18.0.17/v1");
    let network = plan.network.as_ref().unwrap();
    let bases: Vec<String> = network
        .sockets
        .iter()
        .filter_map(|socket| match &socket.stands {
            net::plan::Stands::Base { host, port } => Some(format!("{} {host}:{port}", socket.at)),
            _ => None,
        })
        .collect();
    // Two keys of one host share its address.
    assert_eq!(bases, ["198.18.0.16:80 api.anthropic.com:443", "198.18.0.17:80 api.openai.com:443"]);
    let refusal =
        given("[secrets.own]\nfrom = \"store://o\"\nto = [\"a.example\"]\n", &["own=base-url"]).refusal();
    assert!(refusal.fact.contains("no variable with a base URL is known"), "{}", refusal.fact);
    let mut case = given(ANTHROPIC, &["anthropic=base-url"]);
    case.policy.env.set = vec![flag(("ANTHROPIC_BASE_URL".into(), "https://x.example".into()), "--env")];
    assert!(case.refusal().fact.contains("ANTHROPIC_BASE_URL"), "two addresses for one client");
}
