//! The rules by which a variable passes or not, each with the sentence that `explain` and `why` print.

use crate::secret::Delivery;
use serde::Serialize;
use std::fmt;

/// The rule that decided about a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "rule", content = "detail")]
pub enum Rule {
    /// On the built-in list of what programs need.
    Operational,
    /// The way to a network that is open.
    Proxy,
    /// Named in `env.pass`.
    Passed,
    /// Given by `env.set`.
    Set,
    /// Given by Keyward.
    Ours,
    /// Given by Keyward so that text is UTF-8.
    MadeUtf8,
    NoNetwork,
    /// Named in `inherit_credentials`.
    Inherited,
    /// Says where a secret of the vault is, or holds it.
    Secret(Delivery),
    /// Looks like a credential, and `env.not_secret` says that it is none.
    NotSecretCleared,
    /// A loader variable that `env.dangerous_loader_env` names.
    LoaderAllowed,

    /// The name of a known credential.
    Registry {
        provider: &'static str,
    },
    /// A way to someone who acts for the user.
    Authority {
        provider: &'static str,
    },
    /// Part of the name.
    NameShape(&'static str),
    /// Something in the value, by its label.
    ValueShape(&'static str),
    /// Makes the next program load or run something, by the pattern that says so.
    Loader(&'static str),
    /// No rule passes it.
    NotListed,
    /// Not the first of its name.
    Duplicate,
    /// Not a variable that every program reads alike.
    Malformed(&'static str),
    /// Named in `inherit_credentials`, for a class that gets no credential.
    ClassMayNotInherit,
    /// Longer than the kernel takes.
    TooLong,
    /// A locale that would turn text into something else than UTF-8.
    NotUtf8,
}

impl Rule {
    /// The name of the rule, without what it was about.
    pub const fn id(self) -> &'static str {
        match self {
            Rule::Operational => "operational",
            Rule::Proxy => "proxy",
            Rule::Passed => "passed",
            Rule::Set => "set",
            Rule::Ours => "ours",
            Rule::MadeUtf8 => "made-utf8",
            Rule::NoNetwork => "no-network",
            Rule::Inherited => "inherited",
            Rule::Secret(_) => "secret",
            Rule::NotSecretCleared => "not-secret-cleared",
            Rule::LoaderAllowed => "loader-allowed",
            Rule::Registry { .. } => "registry",
            Rule::Authority { .. } => "authority",
            Rule::NameShape(_) => "name-shape",
            Rule::ValueShape(_) => "value-shape",
            Rule::Loader(_) => "loader",
            Rule::NotListed => "not-listed",
            Rule::Duplicate => "duplicate",
            Rule::Malformed(_) => "malformed",
            Rule::ClassMayNotInherit => "class-may-not-inherit",
            Rule::TooLong => "too-long",
            Rule::NotUtf8 => "not-utf8",
        }
    }

    /// Whether the child gets the variable.
    pub const fn passes(self) -> bool {
        match self {
            Rule::Operational
            | Rule::Proxy
            | Rule::Passed
            | Rule::Set
            | Rule::Ours
            | Rule::MadeUtf8
            | Rule::NoNetwork
            | Rule::Inherited
            | Rule::Secret(_)
            | Rule::NotSecretCleared
            | Rule::LoaderAllowed => true,
            Rule::Registry { .. }
            | Rule::Authority { .. }
            | Rule::NameShape(_)
            | Rule::ValueShape(_)
            | Rule::Loader(_)
            | Rule::NotListed
            | Rule::Duplicate
            | Rule::Malformed(_)
            | Rule::ClassMayNotInherit
            | Rule::TooLong
            | Rule::NotUtf8 => false,
        }
    }

    /// Whether the variable was held back because it looks like a credential or leads to someone's authority.
    pub const fn is_credential(self) -> bool {
        matches!(
            self,
            Rule::Registry { .. }
                | Rule::Authority { .. }
                | Rule::NameShape(_)
                | Rule::ValueShape(_)
                | Rule::ClassMayNotInherit
        )
    }
}

impl Rule {
    /// Whether a person wants to know, unasked, that a variable was held back by this rule. Every terminal sets variables by which
    /// programs steer it, and what runs in a cage does not miss them.
    pub const fn is_worth_telling(self) -> bool {
        match self {
            Rule::Authority { provider } => !matches!(provider.as_bytes(), b"terminal-control"),
            rule => rule.is_credential(),
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::Operational => f.write_str("on the built-in list"),
            Rule::Proxy => f.write_str("a proxy without a login, and the network is open"),
            Rule::Passed => f.write_str("named in env.pass"),
            Rule::Set => f.write_str("given by env.set"),
            Rule::Ours => f.write_str("given by keyward"),
            Rule::MadeUtf8 => f.write_str("given by keyward, so that text is UTF-8"),
            Rule::NoNetwork => f.write_str("given by keyward: retrying is pointless without a network"),
            Rule::Inherited => f.write_str("named in inherit_credentials"),
            Rule::Secret(Delivery::DangerousEnv) => {
                f.write_str("DANGEROUS: holds a secret, and every child inherits it")
            }
            Rule::Secret(Delivery::Proxy) => {
                f.write_str("a phantom, which the proxy replaces on the way to its hosts")
            }
            Rule::Secret(Delivery::File) => f.write_str("the file that a secret is in"),
            Rule::Secret(Delivery::Fd) => f.write_str("the descriptor that a secret is in"),
            Rule::Secret(Delivery::Token) => f.write_str("the descriptor of a token for a secret"),
            Rule::NotSecretCleared => f.write_str("cleared by env.not_secret"),
            Rule::LoaderAllowed => f.write_str("named in env.dangerous_loader_env"),
            Rule::Registry { provider } => write!(f, "a known credential ({provider})"),
            Rule::Authority { provider } => write!(f, "leads to someone else's authority ({provider})"),
            Rule::NameShape(shape) => write!(f, "the name looks like a credential ({shape})"),
            Rule::ValueShape(label) => write!(f, "the value looks like a credential ({label})"),
            Rule::Loader(pattern) => write!(f, "makes the next program load or run something ({pattern})"),
            Rule::NotListed => f.write_str("not listed"),
            Rule::Duplicate => f.write_str("a duplicate; the first one counts"),
            Rule::Malformed(what) => write!(f, "malformed: {what}"),
            Rule::ClassMayNotInherit => {
                f.write_str("named in inherit_credentials, but this class gets no credential")
            }
            Rule::TooLong => f.write_str("longer than the kernel takes"),
            Rule::NotUtf8 => f.write_str("a locale without UTF-8"),
        }
    }
}
