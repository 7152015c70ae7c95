//! Calls that answer with new credentials. On a host with a bound credential they are refused: the answer would put a real credential into the
//! cage. The table is data with a reason per row.

use super::host::Host;
use super::request::Path;

/// One kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mint {
    /// `None` for any host with a bound credential.
    pub host: Option<&'static str>,
    /// Without one, any method.
    pub method: Option<&'static str>,
    /// Segments, of which `*` stands for any one, and a last `**` for any rest.
    pub path: &'static str,
    /// How a parameter of the query begins (`Action=AssumeRole`), the name of one without a value, or how the call in `X-Amz-Target` begins, if the path
    /// alone does not say it.
    pub action: Option<&'static str>,
    pub why: &'static str,
}

const fn row(
    host: Option<&'static str>,
    method: &'static str,
    path: &'static str,
    action: Option<&'static str>,
    why: &'static str,
) -> Mint {
    Mint { host, method: Some(method), path, action, why }
}

/// A call of AWS whose name stands in the header `X-Amz-Target`, behind the last dot.
const fn target(call: &'static str, why: &'static str) -> Mint {
    Mint { host: Some("*.amazonaws.com"), method: None, path: "/**", action: Some(call), why }
}

pub const TABLE: &[Mint] = &[
    row(Some("api.github.com"), "POST", "/app/installations/*/access_tokens", None, "installation token"),
    row(Some("api.github.com"), "POST", "/applications/*/token/scoped", None, "scoped token"),
    row(Some("api.github.com"), "PATCH", "/applications/*/token", None, "new token of an application"),
    row(
        Some("api.github.com"),
        "POST",
        "/app-manifests/*/conversions",
        None,
        "private key of an application",
    ),
    row(
        Some("api.github.com"),
        "POST",
        "/repos/*/*/actions/runners/registration-token",
        None,
        "token of a runner",
    ),
    row(Some("api.github.com"), "POST", "/repos/*/*/actions/runners/remove-token", None, "token of a runner"),
    row(
        Some("api.github.com"),
        "POST",
        "/orgs/*/actions/runners/registration-token",
        None,
        "token of a runner",
    ),
    row(
        Some("api.github.com"),
        "POST",
        "/repos/*/*/actions/runners/generate-jitconfig",
        None,
        "token of a runner",
    ),
    row(
        Some("api.github.com"),
        "POST",
        "/orgs/*/actions/runners/generate-jitconfig",
        None,
        "token of a runner",
    ),
    row(Some("api.github.com"), "POST", "/repos/*/*/keys", None, "a key that stays"),
    row(Some("api.github.com"), "POST", "/user/keys", None, "a key that stays"),
    row(Some("api.github.com"), "POST", "/user/gpg_keys", None, "a key that stays"),
    row(Some("api.github.com"), "POST", "/user/codespaces/**", None, "a codespace holds credentials"),
    row(Some("github.com"), "POST", "/login/oauth/access_token", None, "token endpoint"),
    row(Some("github.com"), "POST", "/login/device/code", None, "token endpoint"),
    row(Some("gitlab.com"), "POST", "/api/v4/personal_access_tokens/**", None, "new personal token"),
    row(Some("gitlab.com"), "POST", "/api/v4/user/personal_access_tokens", None, "new personal token"),
    row(Some("gitlab.com"), "POST", "/api/v4/projects/*/access_tokens/**", None, "new project token"),
    row(Some("gitlab.com"), "POST", "/api/v4/groups/*/access_tokens/**", None, "new group token"),
    row(Some("gitlab.com"), "POST", "/api/v4/projects/*/deploy_tokens", None, "new deploy token"),
    row(Some("gitlab.com"), "POST", "/api/v4/projects/*/triggers", None, "new trigger token"),
    row(Some("gitlab.com"), "POST", "/api/v4/user/runners", None, "token of a runner"),
    row(Some("gitlab.com"), "POST", "/api/v4/user/keys", None, "a key that stays"),
    row(Some("registry.npmjs.org"), "POST", "/-/npm/v1/tokens", None, "new token"),
    row(Some("registry.npmjs.org"), "PUT", "/-/user/**", None, "a login answers with a token"),
    row(Some("registry.npmjs.org"), "POST", "/-/v1/login", None, "a login answers with a token"),
    row(Some("pypi.org"), "POST", "/_/oidc/**", None, "upload token"),
    row(Some("upload.pypi.org"), "POST", "/_/oidc/**", None, "upload token"),
    row(Some("crates.io"), "PUT", "/api/v1/me/tokens", None, "new token"),
    row(Some("crates.io"), "PUT", "/api/v1/trusted_publishing/tokens", None, "new token"),
    row(Some("auth.docker.io"), "GET", "/token", None, "token of a registry"),
    row(Some("auth.docker.io"), "POST", "/token", None, "token of a registry"),
    row(Some("ghcr.io"), "GET", "/token", None, "token of a registry"),
    row(Some("quay.io"), "GET", "/v2/auth", None, "token of a registry"),
    row(None, "GET", "/jwt/auth", None, "token of a registry"),
    row(None, "GET", "/service/token", None, "token of a registry"),
    row(Some("hub.docker.com"), "POST", "/v2/users/login", None, "a login answers with a token"),
    row(Some("hub.docker.com"), "POST", "/v2/auth/token", None, "a login answers with a token"),
    row(Some("hub.docker.com"), "POST", "/v2/access-tokens", None, "new token"),
    row(Some("huggingface.co"), "POST", "/oauth/token", None, "token endpoint"),
    row(Some("api.anthropic.com"), "POST", "/v1/organizations/api_keys/**", None, "key of the organisation"),
    row(Some("api.anthropic.com"), "POST", "/api/oauth/claude_cli/create_api_key", None, "new key"),
    row(Some("api.openai.com"), "POST", "/v1/organization/admin_api_keys", None, "key of the organisation"),
    row(
        Some("api.openai.com"),
        "POST",
        "/v1/organization/projects/*/service_accounts",
        None,
        "key of a project",
    ),
    row(Some("api.openai.com"), "POST", "/v1/realtime/sessions", None, "ephemeral key"),
    row(Some("api.openai.com"), "POST", "/v1/realtime/transcription_sessions", None, "ephemeral key"),
    row(Some("api.openai.com"), "POST", "/v1/realtime/client_secrets", None, "ephemeral key"),
    row(Some("openrouter.ai"), "POST", "/api/v1/keys", None, "new key"),
    row(Some("api.stripe.com"), "POST", "/v1/ephemeral_keys", None, "ephemeral key"),
    row(Some("slack.com"), "POST", "/api/oauth.v2.access", None, "token endpoint"),
    row(Some("slack.com"), "POST", "/api/tooling.tokens.rotate", None, "token endpoint"),
    row(Some("api.cloudflare.com"), "POST", "/client/v4/user/tokens", None, "new token"),
    row(Some("api.cloudflare.com"), "PUT", "/client/v4/user/tokens/*/value", None, "new token"),
    row(Some("api.digitalocean.com"), "POST", "/v2/tokens", None, "new token"),
    row(Some("api.vercel.com"), "POST", "/v3/user/tokens", None, "new token"),
    row(Some("iamcredentials.googleapis.com"), "POST", "/**", None, "tokens of service accounts"),
    row(Some("sts.googleapis.com"), "POST", "/**", None, "token exchange"),
    row(Some("oauth2.googleapis.com"), "POST", "/token", None, "token endpoint"),
    row(Some("login.microsoftonline.com"), "POST", "/**", None, "token endpoint"),
    Mint { host: Some("sts.amazonaws.com"), method: None, path: "/**", action: None, why: "temporary keys" },
    Mint {
        host: Some("*.amazonaws.com"),
        method: None,
        path: "/**",
        action: Some("action=assumerole"),
        why: "temporary keys",
    },
    Mint {
        host: Some("*.amazonaws.com"),
        method: None,
        path: "/**",
        action: Some("action=getsessiontoken"),
        why: "temporary keys",
    },
    Mint {
        host: Some("*.amazonaws.com"),
        method: None,
        path: "/**",
        action: Some("action=getfederationtoken"),
        why: "temporary keys",
    },
    Mint {
        host: Some("*.amazonaws.com"),
        method: None,
        path: "/**",
        action: Some("action=createaccesskey"),
        why: "new key",
    },
    // The action stands in the body, which is not read for this.
    row(Some("iam.amazonaws.com"), "POST", "/**", None, "new key"),
    row(Some("*.amazonaws.com"), "POST", "/v1/authorization-token", None, "new token"),
    // S3 Express One Zone: temporary keys of a bucket.
    row(Some("*.amazonaws.com"), "GET", "/**", Some("session"), "temporary keys"),
    // IAM Identity Center.
    row(Some("*.amazonaws.com"), "GET", "/federation/credentials", None, "temporary keys"),
    row(Some("*.amazonaws.com"), "POST", "/token", None, "token endpoint"),
    // IAM Roles Anywhere, and the credentials of things.
    row(Some("*.amazonaws.com"), "POST", "/sessions", None, "temporary keys"),
    row(Some("*.amazonaws.com"), "GET", "/role-aliases/*/credentials", None, "temporary keys"),
    target("getauthorizationtoken", "login of a registry"),
    target("getcredentialsforidentity", "temporary keys"),
    target("getopenidtoken", "identity token"),
    target("initiateauth", "tokens of a user"),
    target("getcredentials", "login of a database"),
    target("getclustercredentials", "login of a database"),
    target("createaccesskey", "new key"),
    target("assumerole", "temporary keys"),
    target("getsessiontoken", "temporary keys"),
    target("getfederationtoken", "temporary keys"),
    target("createtoken", "new token"),
    target("action=getclustercredentials", "login of a database"),
    target("action=createservicespecificcredential", "new password"),
    row(None, "POST", "/oauth/token", None, "token endpoint"),
    row(None, "POST", "/oauth2/token", None, "token endpoint"),
    row(None, "POST", "/oauth/v2/token", None, "token endpoint"),
    row(None, "POST", "/oauth2/v1/token", None, "token endpoint"),
    row(None, "POST", "/v1/oauth/token", None, "token endpoint"),
    row(None, "POST", "/connect/token", None, "token endpoint"),
    row(None, "POST", "/.well-known/oauth/token", None, "token endpoint"),
    row(None, "POST", "/v1/auth/token/create/**", None, "new token of a vault"),
];

/// The kind of a call that would answer with a new credential.
/// `target` is the header `X-Amz-Target`.
pub fn mints(
    host: &Host,
    method: &str,
    path: &Path,
    query: Option<&str>,
    target: Option<&str>,
) -> Option<&'static Mint> {
    let folded = path.folded();
    let name = host.to_string();
    // Every request to a bound host is looked up here, so texts are compared as they are, and nothing is parsed.
    let query = decoded(query.unwrap_or_default()).to_ascii_lowercase();
    let call = target.unwrap_or_default().rsplit('.').next().unwrap_or_default().trim().to_ascii_lowercase();
    let is_called = |action: &str| match action.contains('=') {
        true => query.contains(action),
        false => {
            let names_it = |part: &str| part.split('=').next() == Some(action);
            query.split('&').any(names_it) || call.starts_with(action)
        }
    };
    let own = TABLE.iter().find(|mint| {
        let is_method = mint.method.is_none_or(|own| own == method);
        // Regional endpoints of one service have names of their own: `sts.eu-west-1.amazonaws.com`.
        let is_host = || mint.host.is_none_or(|own| is_name(own, &name) || is_regional(own, host));
        let is_action = || mint.action.is_none_or(is_called);
        is_method && is_host() && is_action() && follows(mint.path, &folded)
    });
    // The registry of providers says the same of further ones.
    own.or_else(|| crate::provider::mint(method, &name, &folded).map(|_| &OF_REGISTRY))
}

/// What the registry of providers knows, as a row of this table.
static OF_REGISTRY: Mint = Mint {
    host: None,
    method: None,
    path: "/**",
    action: None,
    why: "the call answers with a new credential",
};

/// Whether a host of the table is this one, or with `*.` above it.
fn is_name(own: &str, name: &str) -> bool {
    match own.strip_prefix("*.") {
        Some(above) => name.strip_suffix(above).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
        None => own == name,
    }
}

/// A query without percent-encoding. What cannot be read as text is left out.
fn decoded(query: &str) -> String {
    let mut bytes = query.as_bytes().iter();
    let mut plain = Vec::with_capacity(query.len());
    while let Some(&byte) = bytes.next() {
        let rest = bytes.as_slice();
        let pair = (byte == b'%').then(|| rest.get(..2)).flatten();
        let value = pair.and_then(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
        plain.push(value.unwrap_or(byte));
        if value.is_some() {
            bytes.nth(1);
        }
    }
    String::from_utf8_lossy(&plain).into_owned()
}

fn is_regional(own: &str, host: &Host) -> bool {
    let (Some(name), Some((service, domain))) = (host.name(), own.split_once('.')) else { return false };
    let rest = name.as_str().strip_prefix(service).and_then(|rest| rest.strip_suffix(domain));
    service == "sts" && rest.is_some_and(|rest| rest.starts_with('.') && rest.ends_with('.'))
}

fn follows(pattern: &str, path: &str) -> bool {
    let mut segments = path.split('/');
    for part in pattern.split('/') {
        match (part, segments.next()) {
            ("**", _) => return true,
            ("*", Some(_)) => {}
            (part, Some(segment)) if part == segment => {}
            _ => return false,
        }
    }
    segments.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::Pattern;

    #[test]
    fn hosts_of_the_table_are_compared_as_patterns_of_rules_are() {
        let hosts: Vec<&str> = TABLE.iter().filter_map(|mint| mint.host).collect();
        let near = |own: &str| {
            let name = own.trim_start_matches("*.");
            [
                name.to_owned(),
                format!("a.{name}"),
                format!("a.b.{name}"),
                format!("x{name}"),
                format!("{name}.a"),
            ]
        };
        for own in &hosts {
            let pattern = Pattern::parse(own).unwrap();
            for name in hosts.iter().flat_map(|other| near(other)) {
                let host = Host::parse(&name).unwrap();
                assert_eq!(is_name(own, &name), pattern.covers(&host), "{own}, {name}");
            }
        }
    }

    fn why(host: &str, method: &str, target: &str) -> Option<&'static str> {
        let (path, query) = super::super::request::target(target).unwrap();
        mints(&Host::parse(host).unwrap(), method, &path, query, None).map(|mint| mint.why)
    }

    #[test]
    fn calls_that_answer_with_credentials_are_known_in_any_spelling() {
        for (host, method, target) in [
            ("api.github.com", "POST", "/app/installations/7/access_tokens"),
            ("api.github.com", "POST", "/App//installations/7/access_tokens/"),
            ("api.github.com", "POST", "/app%2finstallations/7/access_tokens"),
            ("sts.amazonaws.com", "GET", "/?Action=AssumeRole"),
            ("sts.eu-west-1.amazonaws.com", "POST", "/"),
            ("iam.amazonaws.com", "GET", "/?Version=1&Action=CreateAccessKey"),
            ("iam.amazonaws.com", "POST", "/"),
            ("codeartifact.eu-west-1.amazonaws.com", "POST", "/v1/authorization-token?domain=a"),
            ("anything.example", "POST", "/oauth/token"),
            ("api.elevenlabs.io", "POST", "/v1/single-use-token/x"),
            ("api.resend.com", "POST", "/api-keys"),
        ] {
            assert!(why(host, method, target).is_some(), "{host} {target}");
        }
        for (host, method, target) in [
            ("api.github.com", "GET", "/app/installations/7/access_tokens"),
            ("api.github.com", "POST", "/app/installations/7/repositories"),
            ("s3.eu-west-1.amazonaws.com", "GET", "/?list-type=2"),
            ("stsx.amazonaws.com.example", "POST", "/"),
        ] {
            assert_eq!(why(host, method, target), None, "{host} {target}");
        }
    }

    #[test]
    fn calls_of_aws_are_known_by_their_header_and_by_their_query() {
        let called = |host: &str, target: &str, header: &str| {
            let (path, query) = super::super::request::target(target).unwrap();
            mints(&Host::parse(host).unwrap(), "POST", &path, query, Some(header)).is_some()
        };
        for (host, header) in [
            ("api.ecr.eu-west-1.amazonaws.com", "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken"),
            ("api.ecr-public.us-east-1.amazonaws.com", "SpencerFrontendService.getauthorizationtoken"),
            (
                "cognito-identity.eu-west-1.amazonaws.com",
                "AWSCognitoIdentityService.GetCredentialsForIdentity",
            ),
            ("redshift-serverless.eu-west-1.amazonaws.com", "RedshiftServerless.GetCredentials"),
        ] {
            assert!(called(host, "/", header), "{header}");
        }
        assert!(!called(
            "api.ecr.eu-west-1.amazonaws.com",
            "/",
            "AmazonEC2ContainerRegistry_V20150921.ListImages"
        ));
        assert!(!called("api.example.com", "/", "X.GetAuthorizationToken"));
        let bucket = "b--eun1-az1--x-s3.s3express-eun1-az1.eu-north-1.amazonaws.com";
        for target in ["/?session", "/?session=", "/?list-type=2&session", "/?%73ession", "/?SESSION"] {
            assert!(why(bucket, "GET", target).is_some(), "{target}");
        }
        for target in ["/?list-type=2", "/object?versionId=session", "/session", "/?x-session=1"] {
            assert_eq!(why(bucket, "GET", target), None, "{target}");
        }
        assert!(
            why("portal.sso.eu-west-1.amazonaws.com", "GET", "/federation/credentials?role_name=x").is_some()
        );
        assert!(why("oidc.eu-west-1.amazonaws.com", "POST", "/token").is_some());
        assert!(why("redshift.eu-west-1.amazonaws.com", "GET", "/?%41ction=GetClusterCredentials").is_some());
    }

    #[test]
    fn every_host_of_the_table_is_one() {
        for mint in TABLE {
            assert!(mint.host.is_none_or(|host| Pattern::parse(host).is_ok()), "{mint:?}");
            assert!(mint.path == mint.path.to_ascii_lowercase() && mint.path.starts_with('/'), "{mint:?}");
            assert!(mint.action.is_none_or(|action| action == action.to_ascii_lowercase()), "{mint:?}");
        }
    }
}
