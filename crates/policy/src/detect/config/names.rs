//! What the name of a setting says about its value.

use crate::detect::registry::{Kind, known};

/// How much a name says. The order is by how little its value then has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// Nothing.
    None,
    /// It may be a credential: only a value that looks random is one.
    Key,
    /// A token: a value that is no name of another thing is one.
    Token,
    /// A password: any value that stands there itself is one, unless it is a default of development.
    Password,
    /// A field of a secret of Kubernetes: every value.
    Data,
}

impl Class {
    /// Whether a text of several lines under such a name is a credential.
    pub(super) fn counts(self) -> bool {
        self >= Class::Token
    }
}

/// What a name is to the names beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Its value is the name of what a `value` beside it holds.
    Name,
    Value,
    Other,
}

/// `name: DB_PASSWORD` with `value: …` beside it.
pub(super) fn role(name: &[u8]) -> Role {
    let is = |words: &[&str]| words.iter().any(|word| name.eq_ignore_ascii_case(word.as_bytes()));
    if is(&["name", "key"]) {
        Role::Name
    } else if is(&["value", "default", "defaultvalue"]) {
        Role::Value
    } else {
        Role::Other
    }
}

/// What follows these words at the end of a name is not a credential: it is about one.
#[rustfmt::skip]
const ABOUT: &[&str] = &[
    "NAME",
    "NAMES",
    "REF",
    "FILE",
    "FILES",
    "PATH",
    "DIR",
    "URL",
    "URI",
    "ENDPOINT",
    "HOST",
    "PORT",
    "ID",
    "IDS",
    "TYPE",
    "KIND",
    "LENGTH",
    "SIZE",
    "COUNT",
    "LIMIT",
    "EXPIRY",
    "EXPIRES",
    "EXPIRE",
    "EXPIRATION",
    "TTL",
    "TIMEOUT",
    "LIFETIME",
    "ENABLED",
    "DISABLED",
    "REQUIRED",
    "HEADER",
    "FIELD",
    "PREFIX",
    "SUFFIX",
    "POLICY",
    "ALGORITHM",
    "ALG",
    "FORMAT",
    "MODE",
    "PROVIDER",
    "SERVICE",
    "CLASS",
    "STRATEGY",
    "METHOD",
    "USER",
    "USERNAME",
    "EMAIL",
    "SELECTOR",
    "VERSION",
    "HINT",
    "PROMPT",
    "LABEL",
    "TITLE",
    "TEXT",
    "MESSAGE",
    "DESCRIPTION",
    "PLACEHOLDER",
    "PATTERN",
    "REGEX",
    "VALIDATION",
    "MIN",
    "MAX",
    "ENV",
    "VAR",
    "SCOPE",
    "SCOPES",
    "ISSUER",
    "AUDIENCE",
    "INTERVAL",
    "ROTATION",
    "MANAGER",
    "STORE",
    "ENCODING",
    "ENCODER",
    "HASHER",
    "COLUMN",
    "INDEX",
    "ORDER",
    "BINDING",
    "LOCATION",
    "COMMAND",
    "CMD",
    "HELPER",
    "CLAIM",
    "PARAM",
    "COST",
    "ROUNDS",
    "ITERATIONS",
    "USAGE",
    "REGION",
    "ACCOUNT",
    "LIST",
    "SERVER",
    "CERT",
    "CERTIFICATE",
    "CA",
    "CRT",
    "PUB",
];

#[rustfmt::skip]
const PASSWORDS: &[&str] = &[
    "PASSWORD",
    "PASSWD",
    "PASSWRD",
    "PWD",
    "PASS",
    "PASSPHRASE",
    "PASSCODE",
    "PSWD",
    "PW",
    "REQUIREPASS",
    "MASTERAUTH",
    "MNEMONIC",
    "SSHPASS",
    "PGPASS",
];

#[rustfmt::skip]
const TOKENS: &[&str] = &[
    "TOKEN",
    "TOKENS",
    "SECRET",
    "SECRETS",
    "APIKEY",
    "APIKEYS",
    "ACCESSKEY",
    "SECRETKEY",
    "AUTHTOKEN",
    "CREDENTIAL",
    "CREDENTIALS",
    "BEARER",
    "AUTHORIZATION",
    "COOKIE",
    "JWT",
    "HMAC",
    "SALT",
    "WEBHOOK",
    "DSN",
];

/// Words before `KEY` that make it one.
#[rustfmt::skip]
const KINDS_OF_KEYS: &[&str] = &[
    "API",
    "ACCESS",
    "SECRET",
    "PRIVATE",
    "AUTH",
    "ACCOUNT",
    "MASTER",
    "ENCRYPTION",
    "SIGNING",
    "SHARED",
    "LICENSE",
    "APP",
    "APPLICATION",
    "SESSION",
    "JWT",
    "SERVICE",
    "ADMIN",
    "CLIENT",
    "DEPLOY",
    "STORAGE",
    "HMAC",
    "WRITE",
    "SERVER",
];

/// Words that only a random value makes a credential.
#[rustfmt::skip]
const WEAK: &[&str] = &[
    "KEY",
    "KEYS",
    "AUTH",
    "PAT",
    "CRED",
    "CREDS",
    "OTP",
    "TOTP",
    "SAS",
    "SEED",
    "CSRF",
    "SIGNATURE",
    "LOGIN",
];

/// The class of a name. `not_secret` are names that the user has cleared.
pub(super) fn class(name: &[u8], not_secret: &[&str]) -> Class {
    if name.is_empty() || not_secret.iter().any(|cleared| cleared.as_bytes() == name) {
        return Class::None;
    }
    let words = words(name);
    let Some(last) = words.last() else { return Class::None };
    let is_public = words.iter().any(|word| matches!(word.as_str(), "PUBLIC" | "PUBLISHABLE"));
    if is_public || words.len() > 1 && ABOUT.contains(&last.as_str()) {
        return Class::None;
    }
    let has = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    let within = |texts: &[&str]| words.iter().any(|word| texts.iter().any(|text| word.contains(text)));
    let is_key =
        words.windows(2).any(|pair| pair[1].starts_with("KEY") && KINDS_OF_KEYS.contains(&pair[0].as_str()));
    let is_known = || known(&name.to_ascii_uppercase()).is_some_and(|entry| entry.kind == Kind::Credential);
    if has(PASSWORDS) || within(&["PASSWORD", "PASSWD"]) {
        Class::Password
    } else if has(TOKENS) || is_key || within(&["TOKEN", "SECRET", "APIKEY"]) || is_known() {
        Class::Token
    } else if has(WEAK) || within(&["KEY"]) {
        Class::Key
    } else {
        Class::None
    }
}

/// The words of a name in capitals: `dbPassword`, `db-password` and `DB_PASSWORD` have the same.
fn words(name: &[u8]) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = 0_u8;
    for &byte in name {
        let begins = byte.is_ascii_uppercase() && before.is_ascii_lowercase();
        if (begins || !byte.is_ascii_alphanumeric()) && words.last().is_some_and(|word| !word.is_empty()) {
            words.push(String::new());
        }
        if byte.is_ascii_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.push(char::from(byte.to_ascii_uppercase()));
        }
        before = byte;
    }
    words.retain(|word| !word.is_empty());
    words
}
