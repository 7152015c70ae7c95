//! Which phantom stands for which secret, and where it is replaced. A binding holds no secret: a phantom is worthless outside its session.

use super::host::{Host, Pattern};
use super::request::Path;
use super::rule::Rule;
use crate::login::Role;
use serde::{Deserialize, Serialize};

/// Where a phantom is looked for beside headers. In any header, also inside `Basic` credentials and cookies, it always is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Places {
    pub query: bool,
    pub path: bool,
    pub body: bool,
}

/// How a secret is used.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "is", deny_unknown_fields)]
pub enum Scheme {
    /// The phantom is replaced by the value.
    #[default]
    Replace,
    /// Requests are signed anew with AWS Signature Version 4, for this service and region only. Phantom and value are `KEY-ID:SECRET-KEY`, with
    /// `:SESSION-TOKEN` behind them for keys that have one.
    AwsV4 { service: String, region: String },
}

/// One phantom.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Binding {
    /// The name of the secret.
    pub secret: String,
    /// At least [`SHORTEST`] characters of printable ASCII, without a space.
    pub phantom: String,
    /// The hosts it is for, with ports, methods and paths if it is for those only.
    pub scope: Vec<Rule>,
    #[serde(default)]
    pub places: Places,
    #[serde(default)]
    pub scheme: Scheme,
    /// Further headers of this provider that carry credentials, in lower case; [`CREDENTIAL_HEADERS`] count everywhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<String>,
    /// Whether its hosts may also be asked without any credential. One with another credential is refused in any case.
    #[serde(default = "yes")]
    pub anonymous: bool,
    /// The login file that it stands in, where its tokens are renewed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renewal: Option<Renewal>,
}

/// A token that is renewed: by which login, and which of its tokens it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Renewal {
    /// The place of the login among those of the plan that are renewed.
    pub login: usize,
    pub role: Role,
    /// Its file, as people are told.
    #[serde(default)]
    pub file: String,
}

const fn yes() -> bool {
    true
}

/// A shorter phantom would be found where it was not meant.
pub const SHORTEST: usize = 16;

/// Headers that carry credentials, for any provider.
pub const CREDENTIAL_HEADERS: &[&str] = &[
    "authorization",
    "proxy-authorization",
    "x-api-key",
    "api-key",
    "x-auth-token",
    "x-access-token",
    "x-goog-api-key",
    "x-amz-security-token",
    "private-token",
    "job-token",
    "deploy-token",
    "x-vault-token",
    "x-figma-token",
    "x-shopify-access-token",
    "dd-api-key",
    "dd-application-key",
    "x-auth-key",
    "x-api-token",
    "x-functions-key",
    "ocp-apim-subscription-key",
];

impl Binding {
    /// Whether connections to this host and port have to be terminated for it.
    pub fn concerns(&self, host: &Host, port: u16) -> bool {
        self.scope.iter().any(|rule| rule.covers(host, port))
    }

    /// Whether it is replaced in this request.
    pub fn is_for(&self, host: &Host, port: u16, method: &str, path: &Path) -> bool {
        self.scope.iter().any(|rule| rule.covers(host, port) && rule.allows(method, path))
    }

    /// Whether it can be used at all.
    pub fn is_sound(&self) -> bool {
        let is_plain = |byte: u8| byte.is_ascii_graphic();
        let all_of_aws = |rule: &Rule| matches!(&rule.host, Pattern::Below(name) if name.as_str().starts_with("amazonaws.com"));
        let is_narrow = self.scheme == Scheme::Replace || !self.scope.iter().any(all_of_aws);
        self.phantom.len() >= SHORTEST
            && self.phantom.bytes().all(is_plain)
            && !self.scope.is_empty()
            && is_narrow
    }

    /// Whether this header, in lower case, carries a credential.
    pub fn is_credential(&self, header: &str) -> bool {
        CREDENTIAL_HEADERS.contains(&header) || self.headers.iter().any(|own| own == header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binding_is_for_its_hosts_methods_and_paths() {
        let binding = Binding {
            secret: "github".into(),
            phantom: "ghp_0123456789abcdef".into(),
            scope: ["api.github.com:443", "GET github.com/o/*"].map(|text| Rule::parse(text).unwrap()).into(),
            places: Places::default(),
            scheme: Scheme::Replace,
            headers: vec!["x-own".into()],
            anonymous: true,
            renewal: None,
        };
        let host = |text| Host::parse(text).unwrap();
        let path = |text| Path::read(text).unwrap();
        assert!(binding.is_sound());
        assert!(binding.concerns(&host("github.com"), 443) && !binding.concerns(&host("api.github.com"), 80));
        assert!(binding.is_for(&host("api.github.com"), 443, "DELETE", &path("/x")));
        assert!(binding.is_for(&host("github.com"), 443, "GET", &path("/o/r")));
        assert!(!binding.is_for(&host("github.com"), 443, "POST", &path("/o/r")));
        assert!(!binding.is_for(&host("github.com"), 443, "GET", &path("/x/r")));
        assert!(binding.is_credential("x-own") && binding.is_credential("authorization"));
        assert!(!Binding { phantom: "short".into(), ..binding }.is_sound());
    }
}
