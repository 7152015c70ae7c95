//! What the name of a setting says about its value.

use crate::detect::registry::{Kind, known};

/// How much a name says. The order is by how little its value then has to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// Nothing.
    None,
    /// It may be a credential: only a value that looks random is one.
    Key,
    /// A token: a value that does not name another thing is one.
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

/// Words that only end like one.
const NO_PASSWORDS: &[&str] =
    &["BYPASS", "COMPASS", "ENCOMPASS", "OVERPASS", "SURPASS", "TRESPASS", "UNDERPASS"];

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

/// Whether one of the beginnings of the words that count is in a text, in any case. A quick no: most names and many files have none.
pub(super) fn may_count(text: &[u8]) -> bool {
    text.windows(3).any(|part| {
        let part = [part[0] | 0x20, part[1] | 0x20, part[2] | 0x20];
        matches!(
            &part,
            b"pas"
                | b"psw"
                | b"pwd"
                | b"sec"
                | b"tok"
                | b"key"
                | b"aut"
                | b"cre"
                | b"bea"
                | b"coo"
                | b"jwt"
                | b"hma"
                | b"sal"
                | b"web"
                | b"dsn"
                | b"mne"
                | b"pat"
                | b"otp"
                | b"sas"
                | b"see"
                | b"csr"
                | b"sig"
                | b"log"
                | b"pw_"
                | b"_pw"
                | b"url"
                | b"ses"
                | b"con"
                | b"lic"
                | b"pin"
        )
    }) || text.eq_ignore_ascii_case(b"pw")
        || text.len() > 2 && text[text.len() - 2..].eq_ignore_ascii_case(b"pw")
}

/// The class of a name. `not_secret` are names that the user has cleared.
pub(super) fn class(name: &[u8], not_secret: &[&str]) -> Class {
    // The registry knows some names that say nothing.
    if !may_count(name) && known(name).is_none()
        || not_secret.iter().any(|cleared| cleared.as_bytes() == name)
    {
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
    let is_known = || known(name).is_some_and(|entry| entry.kind == Kind::Credential);
    let ends_with_pass =
        words.iter().any(|word| word.ends_with("PASS") && !NO_PASSWORDS.contains(&word.as_str()));
    if has(PASSWORDS) || within(&["PASSWORD", "PASSWD"]) || ends_with_pass {
        Class::Password
    } else if has(TOKENS) || is_key || within(&["TOKEN", "SECRET", "APIKEY"]) || is_known() {
        Class::Token
    } else if has(WEAK) || within(&["KEY"]) {
        Class::Key
    } else {
        Class::None
    }
}

/// Whether the last word of a name is that of a credential: `DB_PASSWORD`, `secret_key`, and not `PASSWORD_HASHERS`.
pub(super) fn ends_as_credential(name: &[u8]) -> bool {
    let words = words(name);
    let Some((last, before)) = words.split_last() else { return false };
    let is_key = last == "KEY" && before.last().is_some_and(|kind| KINDS_OF_KEYS.contains(&kind.as_str()));
    let is_known = || known(name).is_some_and(|entry| entry.kind == Kind::Credential);
    ["PASSWORD", "PASSWD", "PASSPHRASE", "TOKEN", "SECRET", "APIKEY", "SECRETKEY", "ACCESSKEY"]
        .iter()
        .any(|word| last.ends_with(word))
        || PASSWORDS.contains(&last.as_str())
        || matches!(last.as_str(), "AUTHORIZATION" | "JWT")
        || is_key
        || is_known()
}

/// Whether a name is about a credential, or about the thing that holds it.
pub(super) fn is_about(name: &[u8]) -> bool {
    let words = words(name);
    words.last().is_none_or(|last| {
        ABOUT.contains(&last.as_str())
            || matches!(last.as_str(), "KEY" | "SECURE" | "EXTERNAL" | "ENVIRONMENT" | "VALUE")
    })
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
