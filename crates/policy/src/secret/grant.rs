//! Which secrets a command gets, and how.

use super::{Entry, Reference, SecretName, Unfit};
use crate::config::mistake::quoted;
use crate::config::nearest;
use crate::plan::Refusal;
use crate::provider;
use crate::words::{Origin, Ruled};
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;

/// How a secret reaches a command, least exposure first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Delivery {
    /// The command holds a phantom; the proxy replaces it on the way to the hosts that the secret is bound to.
    Proxy,
    /// A token that the command swaps for a descriptor, once.
    Token,
    /// A descriptor whose content cannot be changed.
    Fd,
    /// A file in the cage's own memory.
    File,
    /// A variable, which every child of the command inherits.
    DangerousEnv,
}

impl Delivery {
    pub const ALL: [Delivery; 5] =
        [Delivery::Proxy, Delivery::Token, Delivery::Fd, Delivery::File, Delivery::DangerousEnv];

    pub const fn as_str(self) -> &'static str {
        match self {
            Delivery::Proxy => "proxy",
            Delivery::Token => "token",
            Delivery::Fd => "fd",
            Delivery::File => "file",
            Delivery::DangerousEnv => "dangerous-env",
        }
    }

    /// What is put behind the variable's own name.
    const fn suffix(self) -> &'static str {
        match self {
            Delivery::Token => "_TOKEN_FD",
            Delivery::Fd => "_FD",
            Delivery::File => "_FILE",
            Delivery::Proxy | Delivery::DangerousEnv => "",
        }
    }
}

impl fmt::Display for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `NAME=HOW`, as a policy or the command line says it; `NAME` alone for a phantom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub name: SecretName,
    pub delivery: Delivery,
    /// Whether clients are led to the proxy by their base URL: for those that trust only certificates of their own.
    pub base_url: bool,
}

/// The phantom, and beside it the address of the proxy as base URL.
const BASE_URL: &str = "base-url";

impl Grant {
    pub fn parse(text: &str) -> Result<Self, Unfit> {
        let Some((name, how)) = text.split_once('=') else {
            return Ok(Grant { name: named(text)?, delivery: Delivery::Proxy, base_url: false });
        };
        let name = named(name)?;
        if how == BASE_URL {
            return Ok(Grant { name, delivery: Delivery::Proxy, base_url: true });
        }
        match Delivery::ALL.into_iter().find(|delivery| delivery.as_str() == how) {
            Some(delivery) => Ok(Grant { name, delivery, base_url: false }),
            None => {
                let words = [&[BASE_URL][..], &Delivery::ALL.map(Delivery::as_str)].concat();
                let remedy = match nearest(how, words.iter().copied()) {
                    Some(meant) => format!("did you mean {name}={meant}"),
                    None => format!("known here: {}", words.join(", ")),
                };
                Err(Unfit::new(format!("{} is not a way to deliver a secret", quoted(how)), remedy))
            }
        }
    }
}

/// The name of a secret. A variable that clients of a known provider read is one as well, in small letters: `GITHUB_TOKEN` is `github-token`.
fn named(text: &str) -> Result<SecretName, Unfit> {
    match provider::of_variable(text) {
        Some(_) => SecretName::parse(&text.to_ascii_lowercase().replace('_', "-")),
        None => SecretName::parse(text),
    }
}

/// Entries for phantoms that are granted and that no secret of the user's is kept for: the caller's environment has the credential of the
/// provider that the grant names.
pub fn of_environment(grants: &[Ruled<Grant>], known: &[Entry], environment: &[&[u8]]) -> Vec<Entry> {
    let is_set = |variable: &&str| {
        let value =
            environment.iter().find_map(|entry| entry.strip_prefix(variable.as_bytes())?.strip_prefix(b"="));
        value.is_some_and(|value| !value.is_empty())
    };
    let is_kept = |name: &SecretName| known.iter().any(|entry| entry.name == *name);
    let wanted = grants
        .iter()
        .map(|grant| &grant.value)
        .filter(|grant| grant.delivery == Delivery::Proxy && !is_kept(&grant.name));
    wanted
        .filter_map(|Grant { name, .. }| {
            let variable = name.as_str().to_ascii_uppercase().replace('-', "_");
            let of_variable = provider::of_variable(&variable);
            let provider = of_variable.or_else(|| provider::named(name.as_str()))?;
            let is_meant = |own: &&str| of_variable.is_none() || *own == variable;
            let variable = provider.variables.iter().copied().filter(is_meant).find(is_set)?;
            // A key of AWS is two values, and bound to a service.
            if provider.name == "aws" {
                return None;
            }
            Some(Entry {
                name: name.clone(),
                from: Reference::parse(&format!("env://{variable}")).ok()?,
                to: provider.hosts.iter().map(|host| (*host).to_owned()).collect(),
                places: provider.places.to_vec(),
                aws: None,
                variable: Some(variable.to_owned()),
                created: None,
            })
            .filter(|entry| !entry.to.is_empty())
        })
        .collect()
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = if self.base_url { BASE_URL } else { self.delivery.as_str() };
        write!(f, "{}={how}", self.name)
    }
}

/// A secret of a plan: where it comes from and how it arrives. The value is not here, and cannot be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Given {
    #[serde(serialize_with = "shown")]
    pub name: SecretName,
    #[serde(serialize_with = "shown")]
    pub from: Reference,
    pub delivery: Delivery,
    /// The variable that says where it is, or holds it.
    pub variable: String,
    pub place: Place,
    pub origin: Origin,
}

/// Where in the cage a secret is found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    Descriptor(i32),
    File(#[serde(serialize_with = "crate::text::path")] PathBuf),
    Variable,
}

pub(super) fn shown<S: serde::Serializer>(
    value: &impl fmt::Display,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

/// The folder of the cage's own in which secrets are files.
pub const FOLDER: &str = "/run/secrets";
/// Descriptors of secrets begin here.
pub const FIRST_DESCRIPTOR: i32 = 3;
/// The most secrets of one command.
pub const MOST: usize = 64;

/// Decides which secrets a command gets, from those that there are. Phantoms are decided by [`super::bound()`].
pub fn given(grants: &[Ruled<Grant>], known: &[Entry]) -> Result<Vec<Given>, Refusal> {
    let mut out: Vec<Given> = Vec::with_capacity(grants.len());
    let mut descriptors = FIRST_DESCRIPTOR..;
    for grant in grants.iter().filter(|grant| grant.value.delivery != Delivery::Proxy) {
        let Grant { name, delivery, .. } = &grant.value;
        let entry = entry(grant, known)?;
        let base = entry.variable.clone().unwrap_or_else(|| variable_of(name));
        let given = Given {
            name: name.clone(),
            from: entry.from.clone(),
            delivery: *delivery,
            variable: format!("{base}{}", delivery.suffix()),
            place: match delivery {
                Delivery::Fd | Delivery::Token => {
                    Place::Descriptor(descriptors.next().unwrap_or(FIRST_DESCRIPTOR))
                }
                Delivery::File => Place::File([FOLDER, name.as_str()].iter().collect()),
                Delivery::Proxy | Delivery::DangerousEnv => Place::Variable,
            },
            origin: grant.origin.clone(),
        };
        if let Some(other) = out.iter().find(|other| other.variable == given.variable) {
            return Err(Refusal::usage(
                format!("the secrets {} and {name} would both be in {}", other.name, given.variable),
                "give one of them another variable with `keyward secret set NAME --as VAR`",
            ));
        }
        out.push(given);
    }
    if out.len() > MOST {
        return Err(Refusal::usage(
            format!("{} secrets for one command", out.len()),
            "64 is the most; give each command what it needs",
        ));
    }
    Ok(out)
}

/// What is known of a secret that is granted.
pub(super) fn entry<'a>(grant: &Ruled<Grant>, known: &'a [Entry]) -> Result<&'a Entry, Refusal> {
    let name = &grant.value.name;
    known.iter().find(|entry| entry.name == *name).ok_or_else(|| {
        let remedy = match nearest(name.as_str(), known.iter().map(|entry| entry.name.as_str())) {
            Some(meant) => format!("did you mean {meant}; `keyward secret list` shows all"),
            None => format!("`keyward secret set {name}` makes it; `keyward secret list` lists all secrets"),
        };
        Refusal::usage(format!("there is no secret {name} ({})", grant.origin), &remedy)
    })
}

/// The default variable of a secret that has no `as`.
pub(super) fn variable_of(name: &SecretName) -> String {
    let fitting = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    let plain: String = name.as_str().chars().map(fitting).collect();
    if plain.starts_with(|c: char| c.is_ascii_digit()) { format!("_{plain}") } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, variable: Option<&str>) -> Entry {
        Entry {
            name: SecretName::parse(name).unwrap(),
            from: Reference::parse(&format!("store://{name}")).unwrap(),
            to: Vec::new(),
            places: Vec::new(),
            aws: None,
            variable: variable.map(str::to_owned),
            created: None,
        }
    }

    fn decide(grants: &[&str], known: &[Entry]) -> Result<Vec<Given>, Refusal> {
        let grants: Vec<Ruled<Grant>> = grants
            .iter()
            .map(|text| Ruled { value: Grant::parse(text).unwrap(), origin: Origin::Builtin })
            .collect();
        given(&grants, known)
    }

    #[test]
    fn a_grant_says_which_and_how() {
        for text in ["github=fd", "github=file", "github.ci=token", "db_2=dangerous-env"] {
            assert_eq!(Grant::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Grant::parse("github").unwrap().to_string(), "github=proxy");
        for (text, part) in [
            ("github=env", "dangerous-env"),
            ("github=", "known here"),
            ("GitHub=fd", "github"),
            ("=fd", "a name has"),
        ] {
            let unfit = Grant::parse(text).unwrap_err();
            assert!(format!("{unfit:?}").contains(part), "{text}: {unfit:?}");
        }
    }

    #[test]
    fn a_variable_of_a_provider_is_a_secret_that_the_environment_has() {
        assert_eq!(Grant::parse("GITHUB_TOKEN").unwrap().to_string(), "github-token=proxy");
        assert!(Grant::parse("ACME_TOKEN").is_err());
        let found = |grants: &[&str], known: &[Entry], environment: &[&[u8]]| {
            let grants: Vec<Ruled<Grant>> = grants
                .iter()
                .map(|text| Ruled { value: Grant::parse(text).unwrap(), origin: Origin::Builtin })
                .collect();
            let entries = of_environment(&grants, known, environment);
            entries
                .iter()
                .map(|entry| format!("{} {} {}", entry.name, entry.from, entry.variable.as_deref().unwrap()))
                .collect::<Vec<_>>()
        };
        let environment: &[&[u8]] =
            &[b"GITHUB_TOKEN=canary", b"AWS_ACCESS_KEY_ID=canary", b"OPENAI_API_KEY="];
        assert_eq!(
            found(&["github", "openai", "aws", "acme"], &[], environment),
            ["github env://GITHUB_TOKEN GITHUB_TOKEN"]
        );
        // The variable that is named counts, and not another of the same provider.
        let both: &[&[u8]] = &[b"GH_TOKEN=canary", b"GITHUB_TOKEN=canary"];
        assert_eq!(found(&["GITHUB_TOKEN"], &[], both), ["github-token env://GITHUB_TOKEN GITHUB_TOKEN"]);
        assert!(found(&["GITHUB_TOKEN"], &[], &both[..1]).is_empty());
        // One that the user keeps wins, and the value itself is given only of those.
        assert!(found(&["github"], &[entry("github", None)], environment).is_empty());
        assert!(found(&["github=fd"], &[], environment).is_empty());
    }

    #[test]
    fn each_secret_has_a_variable_and_a_place_of_its_own() {
        let known = [entry("github", Some("GH_TOKEN")), entry("a.b-c", None), entry("2fa", None)];
        let given =
            decide(&["github=fd", "a.b-c=token", "2fa=file", "github=dangerous-env"], &known).unwrap();
        let places: Vec<(&str, String)> =
            given.iter().map(|given| (given.variable.as_str(), format!("{:?}", given.place))).collect();
        assert_eq!(
            places,
            [
                ("GH_TOKEN_FD", "Descriptor(3)".to_owned()),
                ("A_B_C_TOKEN_FD", "Descriptor(4)".to_owned()),
                ("_2FA_FILE", "File(\"/run/secrets/2fa\")".to_owned()),
                ("GH_TOKEN", "Variable".to_owned()),
            ]
        );
    }

    #[test]
    fn what_is_not_there_or_meets_another_is_refused() {
        let known = [entry("github", None), entry("git-hub", Some("GITHUB"))];
        let refused = decide(&["githib=fd"], &known).unwrap_err();
        assert!(refused.remedy.contains("did you mean github"), "{refused:?}");
        assert!(decide(&["x=fd"], &[]).unwrap_err().remedy.contains("keyward secret set x"));
        assert!(decide(&["github=fd", "git-hub=fd"], &known).unwrap_err().fact.contains("GITHUB_FD"));
        assert!(decide(&["github=fd", "github=fd"], &known).is_err());
    }
}
