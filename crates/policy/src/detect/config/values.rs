//! Whether a value is a credential, given what its name says.

use super::names::Class;
use crate::detect::registry::value_shape;
use crate::detect::text::is_of_name;
use crate::detect::variables::is_path;
use std::ops::Range;

/// Whether a value under a name of this class is a credential.
pub(super) fn is_credential(class: Class, text: &[u8]) -> bool {
    let text = text.trim_ascii();
    if class == Class::None || text.len() < 3 || is_reference(text) || is_elsewhere(text) {
        return false;
    }
    if class == Class::Data {
        return true;
    }
    if is_setting(text) || is_placeholder(text) {
        return false;
    }
    if value_shape(text).is_some() {
        return true;
    }
    let has = |is: fn(&u8) -> bool| text.iter().any(is);
    // Words of a person. A phrase of several words is told by its name alone, which only passwords have.
    if has(u8::is_ascii_whitespace) {
        return false;
    }
    let is_mixed = has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic);
    match class {
        Class::Password => text.len() >= 4 && !is_code(text),
        Class::Token => {
            text.len() >= 8 && (is_mixed || text.len() >= LONG) && !is_name(text) && !is_code(text)
        }
        _ => text.len() >= RANDOM && is_mixed && !is_name(text) && !is_code(text),
    }
}

/// Tokens that are made of letters alone are at least so long.
const LONG: usize = 20;
/// What looks random is at least so long.
const RANDOM: usize = 16;

/// Whether it only names another place that holds the value: a variable, a template, a store of secrets, what is encrypted.
pub(super) fn is_reference(text: &[u8]) -> bool {
    const STARTS: &[&str] = &[
        "$",
        "{{",
        "{%",
        "<",
        "%",
        "@",
        "!",
        "*",
        "&",
        "ENC[",
        "ENC(",
        "{cipher}",
        "{env:",
        "{file:",
        "vault:",
        "secret:",
        "secrets.",
        "ssm:",
        "arn:",
        "op://",
        "sm://",
        "keyring:",
        "env:",
        "file:",
        "env.",
        "process.env",
        "os.environ",
        "os.getenv",
        "System.getenv",
        "ENV[",
        "ENV.",
        "env(",
        "getenv(",
        "var.",
        "local.",
        "data.",
        "module.",
        "projects/",
        "ref+",
        "sops:",
        "input:",
    ];
    STARTS.iter().any(|start| text.starts_with(start.as_bytes()))
}

/// What counts where the variable that a value refers to is not set: `${NAME:-value}` of shells, `${NAME:value}` of Spring.
pub(super) fn default_of(text: &[u8]) -> Option<Range<usize>> {
    let inner = text.strip_prefix(b"${")?;
    let end = inner.iter().rposition(|&byte| byte == b'}')?;
    let colon = inner[..end].iter().position(|&byte| byte == b':');
    let dash = inner[..end].iter().position(|&byte| byte == b'-');
    let sign = colon.or(dash)?;
    if !inner[..sign].iter().all(|byte| is_of_name(*byte)) {
        return None;
    }
    // `?` and `+` say what to do, and not what to take.
    let start = match inner.get(sign + 1) {
        Some(b'?' | b'+') => return None,
        Some(b'-' | b'=') if colon == Some(sign) => sign + 2,
        _ => sign + 1,
    };
    (start <= end).then_some(2 + start..2 + end)
}

/// A path or an address. A login in an address is found by its form.
fn is_elsewhere(text: &[u8]) -> bool {
    let is_relative = [b"./".as_slice(), b"../", b"~/"].iter().any(|start| text.starts_with(start));
    is_relative || is_path(text) || text.windows(3).any(|part| part == b"://")
}

/// Words, numbers and dates, which are no credential under any name.
fn is_setting(text: &[u8]) -> bool {
    const WORDS: &[&str] = &[
        "true",
        "false",
        "yes",
        "no",
        "on",
        "off",
        "null",
        "none",
        "nil",
        "undefined",
        "enabled",
        "disabled",
        "auto",
        "always",
        "never",
        "required",
        "optional",
        "string",
        "number",
        "boolean",
        "integer",
        "object",
        "array",
        "bearer",
        "basic",
        "oauth2",
        "hidden",
        "masked",
    ];
    let is_number = text.len() <= 7 && text.iter().all(|byte| byte.is_ascii_digit() || b".-_".contains(byte));
    let is_time = text.len() <= 8
        && text.first().is_some_and(u8::is_ascii_digit)
        && text.iter().skip_while(|byte| byte.is_ascii_digit()).count() <= 2;
    let is_date = text.len() >= 10
        && text.iter().all(|byte| byte.is_ascii_digit() || b"-:.TZ+ ".contains(byte))
        && text.contains(&b'-');
    is_number
        || is_time && text.len() < 6
        || is_date
        || WORDS.iter().any(|word| text.eq_ignore_ascii_case(word.as_bytes()))
}

/// The name of a thing: short words of small letters, with short numbers.
fn is_name(text: &[u8]) -> bool {
    let is_word = |word: &[u8]| {
        let is_number = word.len() <= 2 && word.iter().all(u8::is_ascii_digit);
        let is_version =
            word.len() <= 3 && word.first() == Some(&b'v') && word[1..].iter().all(u8::is_ascii_digit);
        let letters = word.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let is_plain = letters + 1 >= word.len()
            && word.len() <= 14
            && word.iter().all(|byte| !byte.is_ascii_uppercase());
        let is_loud = letters == word.len() && word.len() <= 14;
        word.is_empty() || is_number || is_version || is_plain || is_loud
    };
    let parts = || text.split(|byte| b"-_./:@".contains(byte));
    parts().count() > 1 && parts().all(is_word)
}

/// A call or a path of names in code, which is not the value itself.
fn is_code(text: &[u8]) -> bool {
    let is_of_name = |byte: &u8| byte.is_ascii_alphabetic() || b"_.".contains(byte);
    let has_call = text.windows(2).any(|pair| is_of_name(&pair[0]) && matches!(pair[1], b'(' | b'['))
        && text.ends_with(b")")
        || text.ends_with(b"(")
        || text.ends_with(b"]") && text.contains(&b'[');
    let is_chain = text.contains(&b'.') && text.iter().all(is_of_name);
    has_call || is_chain
}

/// A value that everybody knows, or that asks to be replaced.
pub(super) fn is_placeholder(text: &[u8]) -> bool {
    const ASKS: &[&str] = &[
        "changeme",
        "change-me",
        "change_me",
        "changeit",
        "placeholder",
        "example",
        "your",
        "xxxx",
        "todo",
        "replace",
        "insert",
        "redacted",
        "dummy",
        "sample",
        "****",
        "....",
        "goes-here",
        "goes_here",
        "<",
        "not-a-real",
        "fake",
        "django-insecure-",
    ];
    let lower = text.to_ascii_lowercase();
    let is_one_letter = lower.windows(2).all(|pair| pair[0] == pair[1]);
    let asks = ASKS.iter().any(|ask| lower.windows(ask.len()).any(|part| part == ask.as_bytes()));
    is_one_letter || asks || lower.len() <= MOST_DEFAULT && is_made_of_defaults(&lower)
}

/// No default is longer.
const MOST_DEFAULT: usize = 64;

/// Words that defaults of development are made of.
#[rustfmt::skip]
const DEFAULTS: &[&str] = &[
    "password",
    "passwd",
    "passw0rd",
    "pass",
    "pwd",
    "secret",
    "token",
    "key",
    "admin",
    "administrator",
    "root",
    "user",
    "username",
    "test",
    "testing",
    "tests",
    "tester",
    "dev",
    "develop",
    "development",
    "local",
    "localhost",
    "demo",
    "default",
    "guest",
    "postgres",
    "postgresql",
    "mysql",
    "mariadb",
    "mongo",
    "mongodb",
    "redis",
    "rabbitmq",
    "rabbit",
    "minio",
    "elastic",
    "elasticsearch",
    "kibana",
    "grafana",
    "keycloak",
    "django",
    "rails",
    "laravel",
    "spring",
    "symfony",
    "wordpress",
    "drupal",
    "app",
    "application",
    "apps",
    "db",
    "database",
    "sql",
    "my",
    "the",
    "super",
    "very",
    "strong",
    "not",
    "so",
    "top",
    "is",
    "this",
    "please",
    "change",
    "me",
    "it",
    "in",
    "production",
    "prod",
    "for",
    "only",
    "foo",
    "bar",
    "baz",
    "foobar",
    "hello",
    "world",
    "abc",
    "abcd",
    "qwerty",
    "letmein",
    "welcome",
    "api",
    "service",
    "server",
    "web",
    "sa",
    "system",
    "master",
    "backend",
    "frontend",
    "none",
    "empty",
    "value",
    "jwt",
    "auth",
    "access",
    "client",
    "private",
    "session",
    "cookie",
    "encryption",
    "sign",
    "signing",
    "at",
    "least",
    "of",
    "characters",
    "chars",
    "long",
    "random",
    "some",
    "any",
    "insecure",
    "unsafe",
    "sandbox",
    "docker",
    "compose",
    "and",
    "to",
    "a",
    "pg",
    "rediss",
    "refresh",
    "id",
    "data",
    "use",
    "here",
    "kafka",
    "airflow",
    "superset",
    "sonar",
    "nexus",
    "vault",
];

/// Whether nothing but such words stands there, with signs and a short number between and behind them.
fn is_made_of_defaults(text: &[u8]) -> bool {
    // How much of the beginning is known to be made of them.
    let mut known = vec![false; text.len() + 1];
    known[0] = true;
    let digits = text.iter().filter(|byte| byte.is_ascii_digit()).count();
    for at in 0..text.len() {
        if !known[at] {
            continue;
        }
        let is_count = text[at].is_ascii_digit()
            && (digits <= 4 || b"1234567890".windows(digits).any(|run| text.ends_with(run)));
        if is_count || b"-_. !@#".contains(&text[at]) {
            known[at + 1] = true;
        }
        for word in DEFAULTS.iter().filter(|word| text[at..].starts_with(word.as_bytes())) {
            known[at + word.len()] = true;
        }
    }
    let has_word = text.iter().any(u8::is_ascii_alphabetic) || digits <= 4 || b"1234567890".starts_with(text);
    known[text.len()] && has_word
}
