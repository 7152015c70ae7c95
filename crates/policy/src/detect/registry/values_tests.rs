//! Values that must be taken for a credential, values that must not, and values made to be slow.

use super::*;

/// Keys are put together from parts, so that no scanner takes this file for a leak.
fn filled(prefix: &str, length: usize) -> String {
    let filling = "aB3dE6gH9jK2mN5pQ8sT1vW4xY7z";
    prefix.chars().chain(filling.chars().cycle().take(length)).collect()
}

fn shape(value: &str) -> Option<&'static str> {
    value_shape(value.as_bytes())
}

#[test]
fn every_prefix_and_literal_of_the_registry_is_found_at_the_start_and_inside() {
    for pattern in PREFIXES.rows.iter().chain(&LITERALS.rows) {
        let text = pattern.text.as_str();
        let value = filled(text, usize::from(pattern.then).max(LONG_RUN));
        assert!(shape(&value).is_some(), "{text}");
        assert!(shape(&format!("FOO=a {value} b")).is_some(), "{text}");
        assert_eq!(shape(text), None, "{text} alone");
    }
}

#[test]
fn the_longest_prefix_gives_the_label() {
    assert_eq!(shape(&filled("sk-ant-", 24)), Some("anthropic token"));
    assert_eq!(shape(&filled("sk-", 24)), Some("openai token"));
    assert_eq!(shape(&filled("--header=Authorization: Bearer sk-", 36)), Some("password in a text"));
    assert_eq!(shape(&filled("see ghp_", 36)), Some("github token"));
}

#[test]
fn credentials_of_every_other_kind_are_found() {
    let pem = |kind: &str| format!("-----BEGIN {kind}-----\nMIIB");
    for (value, label) in [
        ("postgres://me:pw@db.example/x", "url with a password"),
        ("redis://:pw@db", "url with a password"),
        ("see http://u:p@proxy:3128 there", "url with a password"),
        ("postgres://me:p/w@db.example/x", "url with a password"),
        ("postgres://me:p#w@db.example/x", "url with a password"),
        ("https://0123456789abcdef01234567@sentry.example/1", "url with a token"),
        ("Server=db;User Id=me;Password=pw;", "password in a text"),
        ("server=db;pwd=x", "password in a text"),
        ("DefaultEndpointsProtocol=https;AccountKey=abcd+/==", "password in a text"),
        ("Endpoint=sb://x/;SharedAccessKey=abcdefgh", "password in a text"),
        ("https://a.example/c?sv=1&sig=abcdefghijklmnopqrst", "password in a text"),
        ("jdbc:mysql://db/x?user=me&password=pw", "password in a text"),
        (r#"{"user": "me", "password": "pw"}"#, "password in a text"),
        (r#"{"password":"x"}"#, "password in a text"),
        ("//registry.example/:_authToken=abcdefgh", "password in a text"),
        ("X-Api-Key:abcdefgh", "password in a text"),
        ("Bearer abcDEF123456", "bearer header"),
        ("Basic dXNlcjpwYXNz", "basic header"),
        ("me:pw@tcp(127.0.0.1:3306)/db", "database address with a password"),
        ("https://hooks.slack.com/services/T0/B0/abc", "slack webhook"),
        ("https://DISCORD.com/api/webhooks/123/abcdef", "discord webhook"),
        (&pem("RSA PRIVATE KEY"), "private key"),
        (&pem("OPENSSH PRIVATE KEY"), "private key"),
        (&pem("PGP PRIVATE KEY BLOCK"), "private key"),
        (&format!("{}.{}.sig", filled("eyJ", 20), filled("eyJ", 20)), "json web token"),
        (&filled("123456789:AA", 33), "telegram bot token"),
        (&format!("{}.Gabcde.{}", filled("MT", 24), filled("", 30)), "discord bot token"),
    ] {
        assert_eq!(shape(value), Some(label), "{value}");
    }
}

#[test]
fn ordinary_values_are_left_alone() {
    for value in [
        "",
        "xterm-256color",
        "en_US.UTF-8",
        "/usr/local/bin:/usr/bin:/opt/token:/opt/secret:/home/me/.cargo/bin",
        "/usr/lib/jvm/java-21-openjdk-amd64",
        "task-sk-debug",
        "disk-1234567890abcdef1234",
        "/srv/sk-my-long-project-name/bin",
        "task-1234567890abcdefghij",
        "info,hyper=warn,keyward::task=trace",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "123e4567-e89b-12d3-a456-426614174000",
        "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "http://localhost:3000/@scope/package",
        "http://[::1]:8080/a@b",
        "http://[::1]/a@b",
        "https://registry.npmjs.org/@types/node",
        "ssh://git@github.com/org/repo.git",
        "git@github.com:org/repo.git",
        "https://user@example.com/",
        "redis://:@localhost",
        "make PWD=/home/me OLDPWD=/tmp",
        "basic programming tutorial",
        "Basic Programming",
        "the bearer of this",
        "npm_config_user_agent",
        "hf_transfer_enabled_by_default",
        "rs=0:di=01;34:ln=01;36:*.tar=01;31:*.pem=00;32:*.key=00;32",
        "-----BEGIN CERTIFICATE-----\nMIIB",
        "-----BEGIN PUBLIC KEY-----\nMIIB",
        "eyJhbGciOiJub25lIn0",
        "tokens=4096 max-token=100",
        "password=",
        "com.example.application.feature.implementation",
        "12345678:short",
        "SG.UTF-8",
        "\"token\":",
        "\"token\":  ",
        "password:",
        "r8_x",
    ] {
        assert_eq!(shape(value), None, "{value}");
    }
}

#[test]
fn bytes_that_are_no_text_hide_nothing() {
    let mut value = vec![0xff, 0xfe, 0x00];
    value.extend_from_slice(filled("ghp_", 36).as_bytes());
    value.push(0x80);
    assert_eq!(value_shape(&value), Some("github token"));
    assert_eq!(value_shape(&[0xff; 64]), None);
    assert_eq!(value_shape("http://u:pässwort@h".as_bytes()), Some("url with a password"));
}

#[test]
fn a_key_behind_a_long_text_is_found_and_a_hostile_text_comes_to_an_end() {
    for unit in [
        "a",
        "-",
        "-eyJ",
        "://",
        "x://a:",
        "=",
        "password=",
        "sk-",
        ":",
        "\"token\": ",
        "-----BEGIN ",
        ".abcdef.",
    ] {
        // Whatever is found, the pass must come to an end; the quadratic way would take minutes.
        let mut value = unit.repeat((1 << 18) / unit.len());
        value.push_str(&filled(" ghp_", 36));
        assert!(shape(&value).is_some(), "{unit}");
    }
}
