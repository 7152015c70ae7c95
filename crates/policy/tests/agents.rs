//! Profiles of agents: what each built-in one comes to, and that no key of its agent reaches a cage in any other form than a phantom.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod case;

use case::Case;
use keyward_policy::agent::{self, Agent, Caller};
use keyward_policy::config::{self, Document, Layers, PolicyError, resolve};
use keyward_policy::env::Value;
use keyward_policy::login;
use keyward_policy::net::{self, Ask, Decision, Host, Own, Seen};
use keyward_policy::phantom;
use keyward_policy::plan::Plan;
use keyward_policy::provider;
use keyward_policy::secret::{self, Entry, Reference, SecretName};
use keyward_policy::settings::Policy;
use keyward_policy::tools::{Platform, Writes};
use keyward_policy::trouble::Trouble;
use keyward_policy::words::Origin;
use std::path::Path;

fn builtin(name: &str) -> Agent {
    agent::builtin_named(name).unwrap().unwrap_or_else(|mistakes| panic!("{mistakes:?}"))
}

/// The policy of `-p NAME` with these variables and this policy file of the user's.
fn policy(agent: &Agent, environment: &[&[u8]], user: &str) -> Result<Policy, PolicyError> {
    with_secrets(agent, environment, user, &[])
}

fn with_secrets(
    agent: &Agent,
    environment: &[&[u8]],
    user: &str,
    secrets: &[Entry],
) -> Result<Policy, PolicyError> {
    let user = (!user.is_empty()).then_some(Document { name: "policy.toml", text: user.as_bytes() });
    let caller = Caller { environment, secrets };
    let layers = Layers { user, profile: Some(&agent.name), agent: Some(agent), caller, ..Layers::default() };
    let mut policy = resolve(&layers)?;
    policy.known_secrets.extend(secrets.iter().cloned());
    secret::reach(&mut policy);
    Ok(policy)
}

fn two_lines(error: PolicyError) -> String {
    let Trouble { fact, remedy, .. } = error.into();
    format!("{fact}\n{remedy}")
}

/// A caller who has a value in each of the agent's variables.
fn with_all_keys(agent: &Agent) -> Vec<&'static [u8]> {
    let variables = agent.keys.iter().flat_map(|provider| provider.variables);
    variables.map(|name| format!("{name}=canary-of-{name}").leak().as_bytes()).collect()
}

/// A host on which the agent has everything that its tool may have.
fn plan_of(agent: &Agent, policy: Policy, environment: Vec<&'static [u8]>) -> Plan {
    let mut case = Case::new();
    for tool in policy.home.share.iter().map(|tool| tool.value) {
        let part = tool.on(Platform::Linux);
        for exposure in part.login.iter().chain(part.share) {
            let path = format!("/home/ada/{}", exposure.path);
            if exposure.folder {
                case.folder(&path)
            } else {
                case.file(&path)
            };
        }
    }
    case.argv = vec![agent.programs[0].clone().into(), "--version".into()];
    case.environment.extend(environment);
    case.policy = policy;
    case.plan()
}

fn reaches(plan: &Plan, host: &str, port: u16) -> bool {
    let ask = Ask::connection(Host::parse(host).unwrap(), port, Seen::Tls);
    let network = plan.network.as_ref().unwrap();
    matches!(net::decide(&network.rules, &ask), Decision::Allow { .. })
}

#[test]
fn each_built_in_profile_with_all_keys_of_its_agent() {
    for name in agent::builtin() {
        let agent = builtin(name);
        let policy = policy(&agent, &with_all_keys(&agent), "").unwrap();
        insta::assert_snapshot!(format!("profile_{name}"), config::show(&policy));
    }
}

#[test]
fn without_its_profile_an_agent_has_neither_its_keys_nor_its_files() {
    for name in agent::builtin() {
        let agent = builtin(name);
        let shared = policy(&agent, &[], "").unwrap();
        let plan = plan_of(&agent, Policy::default(), with_all_keys(&agent));
        for variable in agent.keys.iter().flat_map(|provider| provider.variables) {
            assert!(plan.environment.vars.iter().all(|var| var.name != *variable), "{name}: {variable}");
            assert!(plan.environment.dropped.iter().any(|var| var.name == *variable), "{name}: {variable}");
        }
        for tool in &shared.home.share {
            for exposure in tool.value.on(Platform::Linux).login {
                let path = Path::new("/home/ada").join(exposure.path);
                assert!(plan.view.entries.iter().all(|entry| entry.target != path), "{name}: {path:?}");
            }
        }
    }
}

#[test]
fn with_its_profile_an_agent_holds_phantoms_of_its_providers_shape_for_its_providers_hosts() {
    for name in agent::builtin() {
        let agent = builtin(name);
        let environment = with_all_keys(&agent);
        let policy = policy(&agent, &environment, "").unwrap();
        let plan = plan_of(&agent, policy, environment);
        let mut next = 0_u8;
        let mut random = |bytes: &mut [u8]| {
            for byte in bytes {
                next = next.wrapping_mul(5).wrapping_add(17);
                *byte = next;
            }
        };
        for provider in &agent.keys {
            for variable in provider.variables {
                let hand = agent.hands.iter().find(|hand| hand.provider == provider.name);
                let held = hand.map_or(*variable, |hand| &hand.variable);
                let var = plan.environment.vars.iter().find(|var| var.name == held).unwrap();
                let Value::Phantom { secret, .. } = var.value else { panic!("{name}: {variable} {var:?}") };
                let bound = &plan.phantoms[secret];
                assert!(phantom::fits(provider.shape, &bound.phantom(&mut random)), "{name}: {variable}");
                assert_eq!(bound.from.to_string(), format!("env://{variable}"));
                assert_eq!(bound.to.iter().map(ToString::to_string).collect::<Vec<_>>(), provider.hosts);
                for host in provider.hosts {
                    assert!(reaches(&plan, host, 443), "{name}: {host}");
                }
            }
        }
        assert!(!reaches(&plan, "attacker.example", 443), "{name}");
        // Nothing of the caller's is in what is printed.
        assert!(!serde_json::to_string(&plan).unwrap().contains("canary-of-"), "{name}");
        // What programs outside obey is not written through.
        for tool in plan.view.home.logins.iter().filter_map(|login| keyward_policy::tools::tool(login.tool)) {
            let part = tool.on(Platform::Linux);
            let through = part.share.iter().filter(|exposure| exposure.writes == Writes::Through);
            assert_eq!(through.count(), 0, "{name}");
        }
    }
}

#[test]
fn without_a_key_there_is_no_phantom_and_no_refusal() {
    for name in agent::builtin() {
        let agent = builtin(name);
        let policy = policy(&agent, &[b"ANTHROPIC_API_KEY="], "").unwrap();
        assert!(policy.secrets.is_empty() && policy.known_secrets.is_empty(), "{name}");
        let plan = plan_of(&agent, policy, Vec::new());
        assert!(plan.phantoms.is_empty(), "{name}");
    }
}

#[test]
fn an_agent_with_nothing_to_log_in_with_is_told_how_outside() {
    let agent = builtin("claude");
    let said = |environment: &[&'static [u8]], argv: &[&str]| {
        let mut case = Case::new();
        case.argv = argv.iter().map(Into::into).collect();
        case.environment.extend(environment);
        case.policy = policy(&agent, environment, "").unwrap();
        let warnings = case.plan().view.warnings;
        warnings.iter().map(|warning| format!("{}\n{}", warning.fact, warning.remedy)).collect::<String>()
    };
    assert_eq!(
        said(&[], &["claude", "-p", "hi"]),
        "claude has neither a key nor a login in this cage\nlog in outside with `claude auth login`, or set ANTHROPIC_API_KEY"
    );
    assert_eq!(said(&[], &["sh"]), "");
    assert_eq!(said(&[b"ANTHROPIC_API_KEY=canary-1"], &["claude"]), "");
    assert_eq!(said(&[b"ANTHROPIC_BASE_URL=http://127.0.0.1:4000"], &["claude"]), "");
}

#[test]
fn the_agents_own_sandbox_is_switched_off_where_the_command_is_the_agent() {
    let agent = builtin("claude");
    let plan = plan_of(&agent, policy(&agent, &[], "").unwrap(), Vec::new());
    assert_eq!(
        plan.argv[1..],
        ["--settings", r#"{"sandbox":{"enabled":false}}"#, "--version"].map(std::ffi::OsString::from)
    );
    let command = agent.command();
    let argv = ["/usr/bin/claude", "x"].map(std::ffi::OsString::from);
    assert_eq!(command.start(&argv, &mut []).len(), 4);
    let argv = ["sh", "-c", "claude"].map(std::ffi::OsString::from);
    assert_eq!(command.start(&argv, &mut []), argv);
}

#[test]
fn claude_is_not_asked_about_a_phantom_that_is_new_in_each_run() {
    let agent = builtin("claude");
    let environment: Vec<&'static [u8]> = vec![b"ANTHROPIC_API_KEY=canary-1"];
    let plan = |argv: &[&str]| {
        let policy = policy(&agent, &environment, "").unwrap();
        let mut case = Case::new();
        case.argv = argv.iter().map(Into::into).collect();
        case.environment.extend(environment.clone());
        case.policy = policy;
        case.plan()
    };
    let holds = |plan: &Plan, name: &str| {
        let var = plan.environment.vars.iter().find(|var| var.name == name);
        var.is_some_and(|var| matches!(var.value, Value::Phantom { .. }))
    };
    let of_agent = plan(&["claude", "-p", "x"]);
    assert!(holds(&of_agent, "KEYWARD_ANTHROPIC_KEY") && !holds(&of_agent, "ANTHROPIC_API_KEY"));
    assert!(of_agent.environment.vars.iter().all(|var| var.name != "ANTHROPIC_API_KEY"));
    assert!(of_agent.argv[2].to_str().unwrap().contains("apiKeyHelper"));
    // Other commands find the phantom where programs look for it; so does an agent whose user has settings of the same kind.
    for argv in [&["sh"][..], &["claude", "--settings", "mine.json"], &["claude", "--settings=mine.json"]] {
        let plan = plan(argv);
        assert!(holds(&plan, "ANTHROPIC_API_KEY") && !holds(&plan, "KEYWARD_ANTHROPIC_KEY"), "{argv:?}");
    }
}

#[test]
fn single_keys_of_a_built_in_profile_are_changed_by_the_users_file() {
    let agent = builtin("claude");
    let user =
        "version = 1\n[profiles.claude]\nnet.allow = [\"npm\"]\nenv.set = { DISABLE_TELEMETRY = \"0\" }\n";
    let policy = policy(&agent, &[], user).unwrap();
    let shown = config::show(&policy);
    for line in [
        "trust = \"executor\" # built-in profile claude",
        "    \"anthropic\", # built-in profile claude",
        "    \"npm\", # policy.toml:3",
        "set.DISABLE_TELEMETRY = \"0\" # policy.toml:4",
        "set.DISABLE_AUTOUPDATER = \"1\" # built-in profile claude",
    ] {
        assert!(shown.contains(line), "{line}\n{shown}");
    }
}

fn vault_entry(name: &str, to: &[&str], variable: Option<&str>) -> Entry {
    Entry {
        name: SecretName::parse(name).unwrap(),
        from: Reference::parse(&format!("store://{name}")).unwrap(),
        to: to.iter().map(|&to| to.to_owned()).collect(),
        places: Vec::new(),
        aws: None,
        variable: variable.map(str::to_owned),
        created: None,
    }
}

#[test]
fn what_the_user_has_said_about_a_key_wins() {
    let agent = builtin("claude");
    let environment: &[&[u8]] = &[b"ANTHROPIC_API_KEY=canary-1"];
    let sources = |policy: &Policy| {
        let bound = secret::bound(policy, &[]).unwrap();
        bound
            .iter()
            .map(|bound| format!("{} {} {}", bound.name, bound.from, bound.hosts()))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        sources(&policy(&agent, environment, "").unwrap()),
        ["anthropic env://ANTHROPIC_API_KEY api.anthropic.com"]
    );
    // A secret of the vault with the name of the provider, also if nothing is in the environment.
    for environment in [environment, &[]] {
        let own = [vault_entry("anthropic", &[], None)];
        let policy = with_secrets(&agent, environment, "", &own).unwrap();
        assert_eq!(sources(&policy), ["anthropic store://anthropic api.anthropic.com"]);
    }
    // One of another name for the same variable.
    let user = "version = 1\n[profiles.claude]\nsecrets = [\"work\"]\n";
    let own = [vault_entry("work", &["gateway.example"], Some("ANTHROPIC_API_KEY"))];
    let policy_ = with_secrets(&agent, environment, user, &own).unwrap();
    assert_eq!(sources(&policy_), ["work store://work gateway.example"]);
    // The value itself, by name.
    let user = "version = 1\n[profiles.claude]\ninherit_credentials = [\"ANTHROPIC_API_KEY\"]\n";
    let policy = policy(&agent, environment, user).unwrap();
    assert!(sources(&policy).is_empty());
    let plan = plan_of(&agent, policy, environment.to_vec());
    let var = plan.environment.vars.iter().find(|var| var.name == "ANTHROPIC_API_KEY").unwrap();
    assert!(matches!(var.value, Value::Caller(_)) && matches!(var.origin, Origin::File { .. }));
}

#[test]
fn two_variables_of_one_provider_are_two_phantoms() {
    let agent = builtin("gemini");
    let policy = policy(&agent, &[b"GOOGLE_API_KEY=canary-1", b"GEMINI_API_KEY=canary-2"], "").unwrap();
    let bound = secret::bound(&policy, &[]).unwrap();
    let all: Vec<String> =
        bound.iter().map(|one| format!("{} {}", one.name, one.variables.join(","))).collect();
    assert_eq!(all, ["google-ai GEMINI_API_KEY", "google-api-key GOOGLE_API_KEY"]);
}

#[test]
fn a_key_is_bound_to_the_base_url_of_the_users_environment_and_to_nothing_else() {
    let agent = builtin("claude");
    for (url, bound_to, own) in [
        ("https://gateway.example/anthropic", "gateway.example:443", Some(Own::Tls)),
        ("HTTPS://Gateway.Example:8443", "gateway.example:8443", Some(Own::Tls)),
        ("http://10.1.2.3:4000", "10.1.2.3:4000", Some(Own::Plain)),
        ("http://litellm:4000/v1", "litellm:4000", Some(Own::Plain)),
        ("http://100.100.1.2", "100.100.1.2:80", Some(Own::Plain)),
        ("https://192.168.0.9:8443", "192.168.0.9:8443", Some(Own::Tls)),
        ("http://127.0.0.1:4000", "host.keyward.internal:4000", None),
        ("http://localhost:4000/x", "host.keyward.internal:4000", None),
        ("http://[::1]:4000", "host.keyward.internal:4000", None),
    ] {
        let base = format!("ANTHROPIC_BASE_URL={url}").leak();
        let environment: &[&[u8]] = &[b"ANTHROPIC_API_KEY=canary-1", base.as_bytes()];
        let policy = policy(&agent, environment, "").unwrap();
        let plan = plan_of(&agent, policy, environment.to_vec());
        let [bound] = plan.phantoms.as_slice() else { panic!("{url}") };
        assert_eq!(bound.hosts(), bound_to, "{url}");
        let network = plan.network.as_ref().unwrap();
        let rule = &bound.to[0];
        let net::Pattern::Exact(host) = &rule.host else { panic!("{url}") };
        assert_eq!(network.rules.own(host, rule.port.unwrap()), own, "{url}");
        assert!(reaches(&plan, &host.to_string(), rule.port.unwrap()), "{url}");
        // The variable itself passes, and the provider's own host stays what the profile says: reached, without a credential.
        assert!(plan.environment.vars.iter().any(|var| var.name == "ANTHROPIC_BASE_URL"), "{url}");
        let entry = network.rules.0.iter().find(|entry| entry.rule == *rule).unwrap();
        if own.is_some() {
            assert_eq!(entry.origin, "ANTHROPIC_BASE_URL of your environment");
        }
    }
}

#[test]
fn the_policy_file_can_name_the_base_url_as_well() {
    let agent = builtin("claude");
    let user =
        "version = 1\n[profiles.claude]\nenv.set = { ANTHROPIC_BASE_URL = \"http://127.0.0.1:4000\" }\n";
    let environment: &[&[u8]] = &[b"ANTHROPIC_API_KEY=canary-1", b"ANTHROPIC_BASE_URL=https://other.example"];
    let policy = policy(&agent, environment, user).unwrap();
    let bound = secret::bound(&policy, &[]).unwrap();
    assert_eq!(bound[0].hosts(), "host.keyward.internal:4000");
}

#[test]
fn a_base_url_that_no_key_can_be_bound_to_refuses_the_run() {
    let agent = builtin("claude");
    let mut said = String::new();
    for url in [
        "gateway.example",
        "ftp://gateway.example",
        "https://user:canary-2@gateway.example",
        "https://gateway.example@attacker.example",
        "https://gateway.example\\@attacker.example",
        "https://127.0.0.1:8443",
        "http://gateway.example",
        "http://1.2.3.4:80",
        "http://0x7f.1:80",
        "https://gateway.example:0",
        "http://169.254.169.254",
    ] {
        let base = format!("ANTHROPIC_BASE_URL={url}").leak();
        let refused = policy(&agent, &[b"ANTHROPIC_API_KEY=canary-1", base.as_bytes()], "");
        let lines = two_lines(refused.expect_err(url));
        assert!(!lines.contains("canary"), "{lines}");
        said += &format!("{}\n{lines}\n\n", url.replace("canary-2", "…"));
        // Without a key there is nothing to bind.
        assert!(policy(&agent, &[base.as_bytes()], "").is_ok(), "{url}");
    }
    insta::assert_snapshot!(said);
}

#[test]
fn a_secret_of_the_vault_goes_where_it_was_bound_to_and_not_to_a_base_url() {
    let agent = builtin("claude");
    let environment: &[&[u8]] = &[b"ANTHROPIC_BASE_URL=https://gateway.example"];
    let own = [vault_entry("anthropic", &[], None)];
    let policy = with_secrets(&agent, environment, "", &own).unwrap();
    assert_eq!(secret::bound(&policy, &[]).unwrap()[0].hosts(), "api.anthropic.com");
}

#[test]
fn the_ceiling_holds_what_a_profile_and_the_environment_ask_for() {
    let agent = builtin("claude");
    let beyond = |ceiling: &str, environment: &[&[u8]]| {
        let ceiling = Some(Document { name: "/etc/keyward/policy.toml", text: ceiling.as_bytes() });
        let caller = Caller { environment, secrets: &[] };
        let layers =
            Layers { ceiling, profile: Some("claude"), agent: Some(&agent), caller, ..Layers::default() };
        resolve(&layers).map(drop).map_err(two_lines)
    };
    let key: &[u8] = b"ANTHROPIC_API_KEY=canary-1";
    let url: &[u8] = b"ANTHROPIC_BASE_URL=https://gateway.example";
    let refused = [
        beyond("version = 1\ntrust = \"tool\"\n", &[]),
        beyond("version = 1\nnet.mode = \"none\"\n", &[]),
        beyond("version = 1\nsecrets = [\"github\"]\n", &[key]),
        beyond("version = 1\nnet.allow = [\"api.anthropic.com\"]\n", &[key, url]),
    ];
    // What no user has asked for is left out instead.
    let ceiling = "version = 1\nnet.allow = [\"api.anthropic.com\"]\nenv.pass = [\"ANTHROPIC_MODEL\"]\nsecrets = [\"anthropic\"]\n";
    assert_eq!(beyond(ceiling, &[key]), Ok(()));
    let said: Vec<String> = refused.into_iter().map(|refused| refused.expect_err("beyond")).collect();
    insta::assert_snapshot!(said.join("\n\n"));
}

const OWN: &str = "version = 1\nabout = \"mine\"\nprograms = [\"mine\"]\nkeys = [\"openai\"]\npaths = { MINE_HOME = \"write\" }\n\n[policy]\ntrust = \"executor\"\n\n[[mcp]]\npath = \"~/.mine.json\"\nformat = \"json\"\nkey = \"servers\"\n";

#[test]
fn an_agent_of_the_users_own_has_the_same_format() {
    let agent = agent::read("mine", &Document { name: "mine.toml", text: OWN.as_bytes() }).unwrap();
    assert!(!agent.is_builtin && agent.mcp[0].key == "servers");
    let environment: &[&[u8]] = &[b"OPENAI_API_KEY=canary-1", b"MINE_HOME=/srv/mine"];
    let policy = policy(&agent, environment, "").unwrap();
    let shown = config::show(&policy);
    for line in [
        "trust = \"executor\" # mine.toml:8",
        "    \"openai=proxy\", # mine.toml:4",
        "    \"/srv/mine\", # MINE_HOME of your environment",
        "    \"MINE_HOME\", # mine.toml:4",
    ] {
        assert!(shown.contains(line), "{line}\n{shown}");
    }
    for value in ["relative", "/", "/srv/../etc", "~other"] {
        let variable = format!("MINE_HOME={value}");
        let refused = two_lines(policy_of(&agent, &[variable.as_bytes()]).expect_err(value));
        assert!(refused.starts_with("MINE_HOME "), "{refused}");
    }
}

fn policy_of(agent: &Agent, environment: &[&[u8]]) -> Result<Policy, PolicyError> {
    policy(agent, environment, "")
}

#[test]
fn mistakes_in_a_profile_have_a_place_and_a_remedy() {
    let text = "about = 1\nprogram = [\"x\"]\nkeys = [\"antropic\", 7]\npaths = { A = \"exec\" }\ninstall = [\"a\"]\ntrust = \"executor\"\n\n\
                [policy]\nverson = 1\nnet.alow = []\nenv.pass = [\"A=b\"]\n\n[[mcp]]\npath = \"a\"\nformat = \"xml\"\nkay = \"x\"\n";
    let mistakes = agent::read("bad", &Document { name: "bad.toml", text: text.as_bytes() }).unwrap_err();
    let said: Vec<String> = mistakes.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(said.join("\n\n"));
    assert!(agent::read("../x", &Document { name: "x", text: OWN.as_bytes() }).is_err());
}

#[test]
fn a_variable_that_moves_an_agents_state_is_followed_outside_and_not_needed_inside() {
    for (name, variable, outside, inside) in [
        ("claude", "CLAUDE_CONFIG_DIR=/srv/work", "/srv/work/.credentials.json", ".claude/.credentials.json"),
        ("claude", "CLAUDE_CONFIG_DIR=/srv/work", "/srv/work/.claude.json", ".claude.json"),
        ("codex", "CODEX_HOME=/srv/work", "/srv/work/sessions", ".codex/sessions"),
        ("gemini", "GEMINI_CLI_HOME=/srv/work", "/srv/work/.gemini/settings.json", ".gemini/settings.json"),
    ] {
        let agent = builtin(name);
        let mut case = Case::new();
        if inside.ends_with("json") {
            case.file(outside)
        } else {
            case.folder(outside)
        };
        case.environment.push(variable.as_bytes());
        case.policy = policy(&agent, &[variable.as_bytes()], "").unwrap();
        case.policy.logins.extend(login::file(inside).map(|file| login::Found {
            file: file.name,
            path: outside.into(),
            outside: outside.into(),
            skeleton: file.skeleton(b"{}"),
            origin: keyward_policy::words::Origin::Builtin,
        }));
        let plan = case.plan();
        let entry =
            plan.view.entries.iter().find(|entry| entry.target == Path::new("/home/ada").join(inside));
        assert!(format!("{:?}", entry.unwrap().shown).contains(outside), "{name} {outside}");
        let moved = variable.split('=').next().unwrap();
        assert!(plan.environment.vars.iter().all(|var| var.name != moved), "{name}");
    }
}

#[test]
fn a_home_that_the_user_adopts_stands_alone() {
    let agent = builtin("hermes");
    let granted = |user: &str| {
        let policy = policy(&agent, &[], user).unwrap();
        policy.files.write.iter().map(|path| path.value.display().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(granted(""), ["~/.hermes"]);
    let user = "version = 1\n[profiles.hermes]\nhome.path = \"/home/ada/.hermes/profiles/work/home\"\n";
    assert!(granted(user).is_empty());
    assert_eq!(granted(&format!("{user}files.write = [\"/srv/mine\"]\n")), ["/srv/mine"]);
}

#[test]
fn every_provider_of_a_profile_is_one_of_the_registry() {
    let used: Vec<&str> =
        agent::builtin().flat_map(|name| builtin(name).keys).map(|provider| provider.name).collect();
    assert!(used.iter().all(|name| provider::named(name).is_some()));
}
