//! The providers whose credentials can be phantoms: where a credential may go, how it travels, what it looks like.
//!
//! The facts stand in `data/providers.toml`; `build/providers.rs` turns them into the table here. One table serves the variables that a
//! phantom is put into, the hosts that the proxy swaps it for, and the requests that it refuses. Pure: nothing is looked up.

use crate::agent::described::provider::Provider as Described;
use crate::agent::described::shape::Piece;
use crate::agent::own::{self, leak, leak_text, leak_texts};
use serde::{Deserialize, Serialize};
use std::fmt;

/// One provider.
#[derive(Debug)]
pub struct Provider {
    /// As a secret is called that needs no `--to`.
    pub name: &'static str,
    pub aliases: &'static [&'static str],
    /// The variables that clients read; each holds the same phantom.
    pub variables: &'static [&'static str],
    /// Where the credential may go; none where each account has a host of its own.
    pub hosts: &'static [&'static str],
    /// The headers that carry it, in small letters.
    pub headers: &'static [&'static str],
    /// The parts of a request in which the phantom is replaced.
    pub places: &'static [Place],
    pub shape: Shape,
    /// The variable that points clients to another address.
    pub base_url: Option<&'static str>,
    /// What follows the host in the address that clients have without it.
    pub base_path: &'static str,
    /// The forge whose repositories the credential opens.
    pub git: Option<Forge>,
    /// Requests that answer with a new credential.
    pub mints: &'static [Mint],
    pub reason: &'static str,
}

/// A part of a request in which a phantom is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// Any header, as it is.
    Header,
    /// The user name or the password of `Authorization: Basic`.
    Basic,
    Query,
    Path,
    Body,
}

impl Place {
    pub const ALL: [Place; 5] = [Place::Header, Place::Basic, Place::Query, Place::Path, Place::Body];
    /// Where a phantom is replaced if no rule says otherwise.
    pub const USUAL: [Place; 2] = [Place::Header, Place::Basic];

    pub const fn as_str(self) -> &'static str {
        match self {
            Place::Header => "header",
            Place::Basic => "basic",
            Place::Query => "query",
            Place::Path => "path",
            Place::Body => "body",
        }
    }

    /// The place of this name.
    pub fn named(word: &str) -> Option<Place> {
        Place::ALL.into_iter().find(|place| place.as_str() == word)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A host with git repositories, and the user name that goes with a token there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forge {
    pub host: &'static str,
    pub user: &'static str,
}

/// A request that answers with a new credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mint {
    /// `*` for any.
    pub method: &'static str,
    /// `*` for any host that a credential is bound to.
    pub host: &'static str,
    /// Begins with `/`. A part `*` stands for one part, a last part `**` for all further ones, also for none.
    pub path: &'static str,
}

impl Mint {
    /// Whether a request to a bound host is this one. The path is normalised and has no query.
    pub fn is(&self, method: &str, host: &str, path: &str) -> bool {
        let fits = |pattern: &str, text: &str| pattern == "*" || pattern.eq_ignore_ascii_case(text);
        fits(self.method, method) && fits(self.host, host) && path_fits(self.path, path)
    }
}

fn path_fits(pattern: &str, path: &str) -> bool {
    // Servers answer with and without a last slash alike.
    let mut parts = path.strip_suffix('/').unwrap_or(path).split('/');
    for expected in pattern.split('/') {
        match (expected, parts.next()) {
            ("**", _) => return true,
            ("*", Some(part)) if !part.is_empty() => {}
            (expected, Some(part)) if expected.eq_ignore_ascii_case(part) => {}
            _ => return false,
        }
    }
    parts.next().is_none()
}

/// The alphabet of a random part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alphabet {
    Alnum,
    Base64,
    Base64Url,
    Base32,
    Hex,
    Lower,
    Digits,
    /// What base64 makes of digits, character by character: the text decodes to a number.
    Digits64,
}

/// A part of a shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Text(&'static str),
    Random(Alphabet, u8),
    Uuid,
    /// Six digits of base 62: the CRC-32 of the random characters before it.
    Crc32,
    /// Three parts that a client can decode, with a time of expiry that is far away.
    Jwt,
}

/// What a provider's credential looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape(pub &'static [Part]);

impl Shape {
    /// The shape of a credential of an agent of the user's own.
    pub(crate) fn described(pieces: &[Piece]) -> Shape {
        let part = |piece: &Piece| match piece {
            Piece::Text(text) => Part::Text(leak_text(text)),
            Piece::Random(alphabet, length) => Part::Random(Alphabet::named(alphabet), *length),
            Piece::Uuid => Part::Uuid,
            Piece::Crc32 => Part::Crc32,
            Piece::Jwt => Part::Jwt,
        };
        Shape(leak(pieces.iter().map(part).collect()))
    }
}

impl Alphabet {
    fn named(word: &str) -> Alphabet {
        match word {
            "base64" => Alphabet::Base64,
            "base64url" => Alphabet::Base64Url,
            "base32" => Alphabet::Base32,
            "hex" => Alphabet::Hex,
            "lower" => Alphabet::Lower,
            "digits" => Alphabet::Digits,
            "digits64" => Alphabet::Digits64,
            _ => Alphabet::Alnum,
        }
    }
}

impl Provider {
    /// A provider of the user's own profiles.
    pub(crate) fn described(provider: &Described) -> Provider {
        let places = provider.places.iter().filter_map(|place| Place::named(place));
        let mints = provider.mints.iter().map(|mint| Mint {
            method: leak_text(&mint.method),
            host: leak_text(&mint.host),
            path: leak_text(&mint.path),
        });
        Provider {
            name: leak_text(&provider.name),
            aliases: leak_texts(&provider.aliases),
            variables: leak_texts(&provider.variables),
            hosts: leak_texts(&provider.hosts),
            headers: leak_texts(&provider.headers),
            places: leak(places.collect()),
            shape: Shape::described(&provider.shape),
            base_url: provider.base_url.as_deref().map(leak_text),
            base_path: leak_text(&provider.base_path),
            git: provider
                .git
                .as_ref()
                .map(|(host, user)| Forge { host: leak_text(host), user: leak_text(user) }),
            mints: leak(mints.collect()),
            reason: leak_text(&provider.reason),
        }
    }
}

mod table {
    use super::{Alphabet, Forge, Mint, Part, Place, Provider, Shape};
    include!(concat!(env!("OUT_DIR"), "/providers.rs"));
}

/// All providers, in the order of the file, then those of the user's own profiles.
pub fn all() -> impl Iterator<Item = &'static Provider> + Clone {
    builtin().iter().chain(own::providers())
}

/// Those that are compiled in.
pub fn builtin() -> &'static [Provider] {
    table::PROVIDERS
}

/// The provider of this name or alias.
pub fn named(name: &str) -> Option<&'static Provider> {
    all().find(|provider| provider.name == name || provider.aliases.contains(&name))
}

/// The provider whose clients read this variable.
pub fn of_variable(variable: &str) -> Option<&'static Provider> {
    all().find(|provider| provider.variables.contains(&variable))
}

/// Whether anyone can have a host below this domain.
pub fn is_shared(domain: &str) -> bool {
    let is_in = |shared: &&str| {
        domain.strip_suffix(*shared).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    table::SHARED.iter().any(is_in)
}

/// The request of the table that this one is, if it answers with a new credential. The host is one that a credential is bound to.
pub fn mint(method: &str, host: &str, path: &str) -> Option<&'static Mint> {
    let own = all().flat_map(|provider| provider.mints);
    own.chain(table::MINTS).find(|mint| mint.is(method, host, path))
}

/// The forge at this host, if the registry knows one.
pub fn forge(host: &str) -> Option<Forge> {
    all().filter_map(|provider| provider.git).find(|forge| forge.host == host)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::registry::{self, Kind};

    #[test]
    fn every_variable_is_registered_as_a_credential_so_that_no_child_inherits_it() {
        assert!(builtin().len() >= 25, "{}", builtin().len());
        for provider in builtin() {
            for variable in provider.variables {
                let known = registry::known(variable.as_bytes());
                assert!(
                    known.is_some_and(|entry| entry.kind == Kind::Credential),
                    "{}: {variable} is not in registry.toml",
                    provider.name
                );
            }
            if let Some(base_url) = provider.base_url {
                assert!(registry::known(base_url.as_bytes()).is_none(), "{base_url}");
            }
        }
    }

    #[test]
    fn no_variable_belongs_to_two_providers() {
        for provider in all() {
            for variable in provider.variables {
                assert_eq!(of_variable(variable).map(|found| found.name), Some(provider.name), "{variable}");
            }
        }
    }

    #[test]
    fn calls_that_answer_with_credentials_are_known_and_others_are_not() {
        for (method, host, path) in [
            ("POST", "api.github.com", "/app/installations/42/access_tokens"),
            ("post", "API.github.com", "/App/installations/42/access_tokens/"),
            ("POST", "api.github.com", "/repos/a/b/actions/runners/registration-token"),
            ("POST", "login.example.org", "/oauth2/token"),
            ("POST", "login.example.org", "/realms/main/protocol/openid-connect/token"),
            ("GET", "api.anthropic.com", "/v1/organizations/api_keys"),
            ("POST", "api.anthropic.com", "/v1/organizations/api_keys/apikey_1"),
            ("POST", "project.supabase.co", "/auth/v1/token"),
        ] {
            assert!(mint(method, host, path).is_some(), "{method} {host}{path}");
        }
        for (method, host, path) in [
            ("GET", "api.github.com", "/app/installations/42"),
            ("POST", "api.github.com", "/app/installations/42/access_tokens/more"),
            ("POST", "api.github.com", "/app/installations//access_tokens"),
            ("POST", "api.anthropic.com", "/v1/messages"),
            ("POST", "api.openai.com", "/v1/chat/completions"),
            ("GET", "login.example.org", "/oauth2/token"),
        ] {
            assert!(mint(method, host, path).is_none(), "{method} {host}{path}");
        }
    }

    #[test]
    fn a_provider_is_found_by_its_name_and_by_each_alias() {
        assert_eq!(named("github").map(|found| found.variables[0]), Some("GH_TOKEN"));
        assert_eq!(named("gemini").map(|found| found.name), Some("google-ai"));
        assert!(named("acme").is_none());
        for shared in ["amazonaws.com", "s3.eu-central-1.amazonaws.com", "vercel.app"] {
            assert!(is_shared(shared), "{shared}");
        }
        assert!(!is_shared("anthropic.com") && !is_shared("notamazonaws.com"));
        assert_eq!(forge("github.com").map(|forge| forge.user), Some("x-access-token"));
    }
}
