use super::*;
use proptest::prelude::*;

/// A sequence that looks random and is the same in every run.
fn numbers(seed: u64) -> impl FnMut(&mut [u8]) {
    let mut state = seed;
    move |bytes: &mut [u8]| {
        for byte in bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *byte = (state >> 56) as u8;
        }
    }
}

/// What the cage sees of a file, with `<FIELD>` for each phantom.
fn seen(name: &str, content: &str) -> Result<String, Odd> {
    let file = named(name).unwrap();
    let skeleton = file.skeleton(content.as_bytes())?;
    let marks: Vec<String> = skeleton.fields.iter().map(|field| format!("<{}>", field.at)).collect();
    Ok(file.shown(&skeleton, &marks.iter().map(String::as_str).collect::<Vec<_>>()))
}

fn fields(name: &str, content: &str) -> Vec<Field> {
    named(name).unwrap().skeleton(content.as_bytes()).unwrap().fields
}

fn token(claims: &str) -> String {
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    format!("{}.{}.{}", part(r#"{"alg":"RS256","typ":"JWT"}"#), part(claims), part("a signature of theirs"))
}

const CLAUDE: &str = r#"{"claudeAiOauth":{"accessToken":"sk-ant-oat01-REAL-access","refreshToken":"sk-ant-ort01-REAL-refresh",
  "expiresAt": 1763430000000,"scopes":["user:inference","user:profile"],"subscriptionType":"max","rateLimitTier":"default_claude_max_20x"},
  "organizationUuid":"6a1f4e2c-0d3b-4c55-9e17-2b8f0a9c7d11",
  "mcpOAuth":{"linear|9f":{"serverUrl":"https://mcp.linear.app/sse","accessToken":"lin-opaque","clientSecret":"x1","expiresAt":1}}}
"#;

#[test]
fn the_login_of_claude_has_phantoms_in_its_two_tokens_and_nothing_of_other_servers() {
    assert_eq!(
        seen("claude", CLAUDE).unwrap(),
        CLAUDE
            .replace("sk-ant-oat01-REAL-access", "<claudeAiOauth.accessToken>")
            .replace("sk-ant-ort01-REAL-refresh", "<claudeAiOauth.refreshToken>")
            .replace("lin-opaque", "")
            .replace("\"x1\"", "\"\"")
    );
    let file = named("claude").unwrap();
    let own = fields("claude", CLAUDE);
    assert_eq!(own.iter().map(|field| field.role).collect::<Vec<_>>(), [Role::Access, Role::Refresh]);
    assert!(own[0].phantom(file, &mut numbers(1)).starts_with("sk-ant-oat01-"));
    assert!(own[1].phantom(file, &mut numbers(1)).starts_with("sk-ant-ort01-"));
    assert_eq!(own[0].to[0], "api.anthropic.com");
    assert!(own[1].to.iter().all(|rule| rule.starts_with("POST ") && rule.ends_with("/oauth/token")));
    assert_eq!(
        file.find(CLAUDE.as_bytes(), "claudeAiOauth.accessToken").unwrap(),
        "sk-ant-oat01-REAL-access"
    );
    assert_eq!(file.find(CLAUDE.as_bytes(), "claudeAiOauth.other"), None);
}

#[test]
fn renewed_tokens_stand_in_the_file_and_every_other_byte_stays() {
    let file = named("claude").unwrap();
    let text = |text: &'static str| Some(Cow::Borrowed(text));
    let new = Tokens {
        access: text("new\"a"),
        refresh: text("new-r"),
        id: None,
        ends: Some(1_763_500_000),
        ..Tokens::default()
    };
    let renewed = file.renewed(CLAUDE.as_bytes(), 0, &new, 1_763_400_000).unwrap();
    assert_eq!(
        renewed,
        CLAUDE
            .replace("sk-ant-oat01-REAL-access", "new\\\"a")
            .replace("sk-ant-ort01-REAL-refresh", "new-r")
            .replace("1763430000000", "1763500000000")
    );
    let read = file.tokens(renewed.as_bytes(), 0).unwrap();
    assert_eq!((read.access.as_deref(), read.ends), (Some("new\"a"), Some(1_763_500_000)));
    // A host that gives no new refresh token means the old one.
    let new = Tokens { access: text("new-a"), ..Tokens::default() };
    let renewed = file.renewed(CLAUDE.as_bytes(), 0, &new, 0).unwrap();
    assert!(renewed.contains("sk-ant-ort01-REAL-refresh") && renewed.contains("1763430000000"));
    assert_eq!(file.renewed(b"{}", 0, &new, 0), None);
    assert_eq!(date(1_763_400_000), "2025-11-17T17:20:00.000000Z");
    assert_eq!(date(951_782_400), "2000-02-29T00:00:00.000000Z");
}

#[test]
fn the_tokens_of_codex_keep_the_claims_that_it_reads_and_get_another_signature() {
    let claims = r#"{"exp":1763430000,"email":"ann@example.com","jti":"secret-session","https://api.openai.com/auth":{"chatgpt_account_id":"acc-1","chatgpt_plan_type":"pro","internal":"x"}}"#;
    let (id, access) = (token(claims), token(r#"{"exp":1763430001,"session_id":"authsess_1"}"#));
    let content = format!(
        "{{\"OPENAI_API_KEY\": null, \"auth_mode\": \"chatgpt\", \"tokens\": {{\n  \"id_token\": \"{id}\", \"access_token\": \"{access}\",\n  \
         \"refresh_token\": \"rt_REALrealREALreal\", \"account_id\": \"acc-1\"}}, \"last_refresh\": \"2026-11-10T01:02:03.123456Z\"}}"
    );
    let shown = seen("codex", &content).unwrap();
    assert_eq!(
        shown,
        content
            .replace(&id, "<tokens.id_token>")
            .replace(&access, "<tokens.access_token>")
            .replace("rt_REALrealREALreal", "<tokens.refresh_token>")
    );
    let file = named("codex").unwrap();
    let phantom = fields("codex", &content)[0].phantom(file, &mut numbers(5));
    let read = claims_of(&phantom).unwrap();
    assert!(
        read.contains("ann@example.com") && read.contains("acc-1") && read.contains("1763430000"),
        "{read}"
    );
    assert!(!read.contains("secret-session") && !read.contains("internal"), "{read}");
    let signature = id.rsplit('.').next().unwrap();
    assert!(!phantom.contains(signature) && phantom != id);
    let new = Tokens { access: Some("new".into()), ..Tokens::default() };
    let renewed = file.renewed(content.as_bytes(), 0, &new, 1_763_400_000).unwrap();
    assert!(renewed.contains("\"last_refresh\": \"2025-11-17T17:20:00.000000Z\""), "{renewed}");
    assert!(renewed.contains("\"account_id\": \"acc-1\""), "{renewed}");
    // Another account has logged in.
    let new = Tokens { account: Some("acc-\"2".into()), ..new };
    let renewed = file.renewed(content.as_bytes(), 0, &new, 1_763_400_000).unwrap();
    assert!(renewed.contains("\"account_id\": \"acc-\\\"2\""), "{renewed}");
}

#[test]
fn a_key_is_bound_to_the_hosts_of_its_provider_and_one_without_a_known_host_reads_as_empty() {
    let content = r#"{"openrouter":{"type":"api","key":"sk-or-v1-REALREAL"},"acme":{"type":"api","key":"acme-REALREAL"},
      "anthropic":{"type":"oauth","refresh":"sk-ant-ort01-R","access":"sk-ant-oat01-A","expires":5}}"#;
    assert_eq!(
        seen("opencode", content).unwrap(),
        content
            .replace("sk-or-v1-REALREAL", "<openrouter.key>")
            .replace("acme-REALREAL", "")
            .replace("sk-ant-ort01-R", "<anthropic.refresh>")
            .replace("sk-ant-oat01-A", "<anthropic.access>")
    );
    assert_eq!(fields("opencode", content)[0].to, ["openrouter.ai"]);
    let env = "# ANTHROPIC_API_KEY=sk-ant-old\nexport ANTHROPIC_API_KEY=\"sk-ant-api03-REAL\"\nACME_TOKEN=abc\nDEBUG=1\n";
    assert_eq!(
        seen("hermes-env", env).unwrap(),
        "export ANTHROPIC_API_KEY=<ANTHROPIC_API_KEY>\nACME_TOKEN=\nDEBUG=1\n"
    );
}

#[test]
fn settings_beside_keys_stay_and_what_may_be_a_credential_does_not() {
    let env = "TELEGRAM_ALLOWED_USERS=123456,789\nOPENROUTER_API_KEY=sk-or-v1-REALREAL\nMESSAGING_CWD=\"/home/ann/my work\"\n\
               ACME_CONN=acme://u:pw@h\nSOMETHING=f3a9c1d07b6e48f2a5c0d9e1\nSMTP_PW=hunter2\nODD='a\"b'\n";
    assert_eq!(
        seen("hermes-env", env).unwrap(),
        "TELEGRAM_ALLOWED_USERS=123456,789\nOPENROUTER_API_KEY=<OPENROUTER_API_KEY>\nMESSAGING_CWD=\"/home/ann/my work\"\n\
         ACME_CONN=\nSOMETHING=\nSMTP_PW=\nODD=\n"
    );
}

#[test]
fn keys_of_the_pool_of_hermes_are_phantoms_and_without_renewal_no_token_is_spent() {
    let access = token(r#"{"exp":1763430001}"#);
    let content = format!(
        r#"{{"version": 1, "providers": {{"openai-codex": {{"tokens": {{"access_token": "{access}", "refresh_token": "rt_REALrealREAL"}}}}}},
            "credential_pool": {{"openrouter": [{{"id": "a1b2c3", "label": "work", "access_token": "sk-or-v1-REALREAL"}}],
                                 "acme": [{{"access_token": "acme-REALREAL"}}]}}}}"#
    );
    let file = named("hermes").unwrap();
    let skeleton = file.skeleton(content.as_bytes()).unwrap().without_renewal();
    let marks: Vec<String> = skeleton.fields.iter().map(|field| format!("<{}>", field.at)).collect();
    let shown = file.shown(&skeleton, &marks.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(
        shown,
        content
            .replace(&access, "<providers.openai-codex.tokens.access_token>")
            .replace("rt_REALrealREAL", "withheld")
            .replace("sk-or-v1-REALREAL", "<credential_pool.openrouter.access_token>")
            .replace("acme-REALREAL", "")
    );
    assert!(skeleton.fields.iter().all(|field| !matches!(field.role, Role::Refresh | Role::Id)));
}

#[test]
fn gh_npm_netrc_docker_and_git_name_the_hosts_themselves() {
    let hosts = "github.com:\n    git_protocol: https\n    users:\n        ann:\n            oauth_token: gho_REALREALREAL\n    \
                 user: ann\n    oauth_token: gho_REALREALREAL\nghe.corp.example:\n    oauth_token: \"ghe-REAL\"\n    user: ann\n";
    assert_eq!(
        seen("gh", hosts).unwrap(),
        hosts
            .replacen("gho_REALREALREAL", "<github.com.users.ann.oauth_token>", 1)
            .replacen("gho_REALREALREAL", "<github.com.oauth_token>", 1)
            .replace("\"ghe-REAL\"", "<ghe.corp.example.oauth_token>")
    );
    let own = fields("gh", hosts);
    assert!(own[0].to.contains(&"api.github.com".to_owned()) && own[2].to == ["ghe.corp.example"], "{own:?}");

    let npmrc = "; //old.example/:_authToken=npm_old\nregistry=https://npm.corp.example/\n//registry.npmjs.org/:_authToken=npm_REAL\n\
                 //npm.corp.example/team/:_authToken = corp-REAL\n//npm.corp.example/:_auth=YW5uOnB3LVJFQUw=\n_authToken=lost\n\
                 //a.example/:_authToken=${NPM_TOKEN}\n//b.example/:_password=cHctUkVBTA==\nsave-exact=true\n";
    assert_eq!(
        seen("npm", npmrc).unwrap(),
        "registry=https://npm.corp.example/\n//registry.npmjs.org/:_authToken=<//registry.npmjs.org/:_authToken>\n\
         //npm.corp.example/team/:_authToken=<//npm.corp.example/team/:_authToken>\n//npm.corp.example/:_auth=".to_owned()
            + &STANDARD.encode("ann:<//npm.corp.example/:_auth>")
            + "\n_authToken=\n//a.example/:_authToken=${NPM_TOKEN}\n//b.example/:_password="
            + &STANDARD.encode("<//b.example/:_password>")
            + "\nsave-exact=true\n"
    );
    let own = fields("npm", npmrc);
    assert_eq!(own[1].to, ["npm.corp.example/team/*"]);
    assert_eq!(named("npm").unwrap().find(npmrc.as_bytes(), "//npm.corp.example/:_auth").unwrap(), "pw-REAL");

    let netrc = "# machine old password old-REAL\nmachine api.example.com login ann password pw-REAL\nmachine b.example\n  login b\n  \
                 password other-REAL account acc-REAL\ndefault login anonymous password def-REAL\n";
    assert_eq!(
        seen("netrc", netrc).unwrap(),
        "machine api.example.com\n\tlogin ann\n\tpassword <api.example.com.password>\nmachine b.example\n\tlogin b\n\t\
         password <b.example.password>\n\taccount withheld\ndefault\n\tlogin anonymous\n\tpassword withheld\n"
    );

    let auth = STANDARD.encode("ann:pw-REAL");
    let docker = format!(
        r#"{{"auths":{{"ghcr.io":{{"auth":"{auth}"}},"https://index.docker.io/v1/":{{"auth":"{auth}","identitytoken":"it-REAL"}}}},"credsStore":"desktop","HttpHeaders":{{"X-Meta":"v-REAL"}}}}"#
    );
    let shown = seen("docker", &docker).unwrap();
    assert!(shown.contains(&STANDARD.encode("ann:<auths.ghcr.io.auth>")), "{shown}");
    assert!(shown.contains(r#""identitytoken":"""#) && !shown.contains("REAL"), "{shown}");

    let urls = "https://ann:pw%2DREAL@git.example.com\nhttps://ghp_REALREALREALREALREALREALREALREALREAL@github.com\nnonsense\n";
    assert_eq!(seen("git", urls).unwrap(), "https://ann:%3Cgit.example.com.0%3E@git.example.com\n");
    assert_eq!(named("git").unwrap().find(urls.as_bytes(), "git.example.com.0").unwrap(), "pw-REAL");
}

#[test]
fn settings_of_agents_keep_everything_but_credentials() {
    let claude = r#"{"model":"opus","apiKeyHelper":"~/bin/key","env":{"ANTHROPIC_API_KEY":"sk-ant-api03-REAL","FOO":"bar",
 "MAX_THINKING_TOKENS":"4096","MY_TOKEN":"opaque","X":"ghp_REALREALREALREALREALREALREALREAL1234","ANTHROPIC_BASE_URL":"https://api.anthropic.com"},
 "permissions":{"allow":["Bash(git status:*)"]},"mcpServers":{"x":{"command":"npx","env":{"A":"b"}}}}"#;
    assert_eq!(
        seen("claude-variables", claude).unwrap(),
        claude
            .replace("sk-ant-api03-REAL", "<env.ANTHROPIC_API_KEY>")
            .replace("opaque", "")
            .replace("ghp_REALREALREALREALREALREALREALREAL1234", "")
            .replace("\"A\":\"b\"", "\"A\":\"\"")
    );
    let gemini = "{ // the team's \"key\" is xyz\n \"ui\":{\"theme\":\"a // b\"}, /* \" */ \"security\":{\"auth\":{\"selectedType\":\"oauth-personal\"}},\"mcpServers\":{\"m\":{\"headers\":{\"Authorization\":\"Bearer REAL\"}}}}";
    let seen_of_it = seen("gemini-settings", gemini).unwrap();
    assert!(!seen_of_it.contains("REAL") && !seen_of_it.contains("xyz"), "{seen_of_it}");
    assert!(seen_of_it.contains("a // b") && seen_of_it.contains("oauth-personal"), "{seen_of_it}");
}

#[test]
fn settings_of_codex_keep_everything_but_credentials() {
    let codex = "model = \"gpt-5\"\npreferred_auth_method = \"apikey\"\ncli_auth_credentials_store = \"file\"\nnotify = [\n  \"a\",\n]\ntext = \"\"\"\n[env]\n\"\"\"\n\n[model_providers.x]\nbase_url = \"http://127.0.0.1:1/v1\"\nenv_key = \"OPENAI_API_KEY\"\nexperimental_bearer_token = \"REAL\"\nhttp_headers = { \"X\" = \"REAL\" }\nstream_max_retries = 3\n\n[mcp_servers.y]\ncommand = \"npx\"\nargs = [\"-y\", \"--token=ghp_REALREALREALREALREALREALREALREAL1234\"]\nenv = { TOK = \"REAL\" }\n[mcp_servers.z.env]\nTOK = \"REAL\"\n[mcp_servers.w]\nenv.TOK = \"REAL\"\nbearer_token_env_var = \"TOK\"\n";
    let expected = codex
        .replace("bearer_token = \"REAL\"", "bearer_token = \"\"")
        .replace("{ \"X\" = \"REAL\" }", "{}")
        .replace("[\"-y\", \"--token=ghp_REALREALREALREALREALREALREALREAL1234\"]", "[]")
        .replace("{ TOK = \"REAL\" }", "{}")
        .replace("TOK = \"REAL\"", "TOK = \"\"");
    assert_eq!(seen("codex-settings", codex).unwrap(), expected);
    for odd in [
        "a = [\n \"x\"\n",
        "a = \"\"\"\nx",
        "api_key = \"\"\"\nREAL\n\"\"\"\n",
        "secrets = [\n\"REAL\",\n]\n",
        "what",
    ] {
        assert!(seen("codex-settings", odd).is_err(), "{odd}");
    }
    assert_eq!(seen("codex-settings", "# a comment with REAL\na = 1\n").unwrap(), "\na = 1\n");
}

#[test]
fn a_file_that_is_not_understood_is_not_shown() {
    for (name, content, odd) in [
        ("claude", "{\"claudeAiOauth\":", Odd::Malformed),
        ("claude", "", Odd::Empty),
        ("claude", "{\"a\":\"sk-ant-oat01-x\",\"a\":\"y\"}", Odd::Twice),
        // The same token where no field is known.
        (
            "claude",
            r#"{"claudeAiOauth":{"accessToken":"abcdefghij"},"note":"it was abcdefghij"}"#,
            Odd::Elsewhere,
        ),
        ("gh", "github.com: &anchor\n  oauth_token: x\n", Odd::Malformed),
        ("gh", "github.com:\n  oauth_token: |\n    gho_REAL\n", Odd::Malformed),
        ("gh", "github.com:\n  user: a\n  user: b\n", Odd::Twice),
        ("netrc", "machine a.example login x password y\nmacdef init\ncd /\n", Odd::Malformed),
        ("netrc", "machine a.example password", Odd::Malformed),
        ("netrc", "machine a.example password \"two words\"", Odd::Malformed),
    ] {
        assert_eq!(seen(name, content), Err(odd), "{name}: {content}");
    }
    assert_eq!(named("claude").unwrap().skeleton(b"\xff\xfe{}"), Err(Odd::Malformed));
    assert_eq!(named("claude").unwrap().skeleton(&vec![b' '; LONGEST + 1]), Err(Odd::TooLong));
}

#[test]
fn every_row_leads_to_hosts_that_a_phantom_may_go_to() {
    for file in all() {
        assert!(named(file.name).is_some_and(|own| own.path == file.path), "{}", file.name);
        for row in file.rows {
            if let To::Rules(rules) = row.to {
                for rule in rules {
                    assert!(crate::secret::target(rule).is_ok(), "{}: {rule}", file.name);
                }
            }
            assert!(file.grants.len() > row.grant || row.role == Role::Key, "{}", file.name);
        }
        for grant in file.grants {
            assert!(!grant.tokens.is_empty() && !grant.account.is_empty());
        }
    }
    // Each is a file of a tool that can be shown, or in a directory of one.
    let tools = crate::tools::all().map(|tool| tool.on(crate::tools::Platform::Linux));
    let exposures = tools.flat_map(|part| part.login.iter().chain(part.share));
    let paths: Vec<&str> = exposures.map(|exposure| exposure.path).collect();
    for file in all() {
        let is_below = |path: &&str| {
            file.path.strip_prefix(*path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        assert!(paths.iter().any(is_below), "{}", file.path);
    }
}

/// Tokens of no vendor, which only their names or their length give away.
fn secret() -> impl Strategy<Value = String> {
    "[A-Za-z0-9_-]{24,60}".prop_filter("mixed", |text| {
        text.bytes().any(|byte| byte.is_ascii_digit()) && text.bytes().any(|byte| byte.is_ascii_alphabetic())
    })
}

proptest! {
    #[test]
    fn nothing_secret_is_left_of_a_file_that_is_shown(one in secret(), two in secret(), three in secret(), which in 0usize..7) {
        let base = STANDARD.encode(format!("ann:{one}"));
        let (name, content) = match which {
            0 => ("claude", format!(r#"{{"claudeAiOauth":{{"accessToken":"{one}","refreshToken":"{two}","expiresAt":1}},"x":["{three}"],"y":{{"deep":"{three}"}}}}"#)),
            1 => ("opencode", format!(r#"{{"openai":{{"type":"api","key":"{one}"}},"other":{{"key":"{two}","note":"{three}"}}}}"#)),
            2 => ("gh", format!("github.com:\n    oauth_token: {one}\n    other: {two}\n    session_token: {three}\n")),
            3 => ("npm", format!("//r.example/:_authToken={one}\n_password={two}\nextra={three}\n")),
            4 => ("netrc", format!("machine a.example login u password {one}\nmachine b.example login v password {two} account {three}\n")),
            5 => ("docker", format!(r#"{{"auths":{{"r.example":{{"auth":"{base}","identitytoken":"{two}"}}}},"HttpHeaders":{{"Authorization":"{three}"}}}}"#)),
            _ => ("hermes-env", format!("OPENAI_API_KEY={one}\nACME={two}\n#{three}\n")),
        };
        let file = named(name).unwrap();
        if let Ok(skeleton) = file.skeleton(content.as_bytes()) {
            let mut random = numbers(9);
            let phantoms: Vec<String> = skeleton.fields.iter().map(|field| field.phantom(file, &mut random)).collect();
            let shown = file.shown(&skeleton, &phantoms.iter().map(String::as_str).collect::<Vec<_>>());
            let told = serde_json::to_string(&skeleton).unwrap();
            for secret in [&one, &two, &three, &base] {
                prop_assert!(!shown.contains(secret.as_str()), "{} in {}", secret, shown);
                prop_assert!(!told.contains(secret.as_str()), "{} in {}", secret, told);
            }
        }
    }

    #[test]
    fn no_file_makes_a_reader_fail(bytes in proptest::collection::vec(any::<u8>(), 0..400), text in "[{}\\[\\]\":,a-z_/.=#\n \\\\-]{0,200}") {
        for file in all() {
            let _ = file.skeleton(&bytes);
            let _ = file.tokens(text.as_bytes(), 0);
            if let Ok(skeleton) = file.skeleton(text.as_bytes()) {
                prop_assert_eq!(skeleton.texts.len(), skeleton.fields.len() + 1);
            }
        }
    }
}
