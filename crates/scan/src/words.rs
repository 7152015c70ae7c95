//! Words of commands: which program is a shell, how far a program is to be trusted, and what looks like a secret. Pure. Names and values
//! of credentials are decided by the registry that the environment and the redactor use.

use crate::finding::Trust;
use keyward_policy::detect::registry::{Token, known, name_shape, token_at, value_shape};

/// The name of a program without its directory.
pub fn base(program: &str) -> &str {
    program.rsplit(['/', '\\']).next().unwrap_or(program)
}

pub fn is_shell(program: &str) -> bool {
    matches!(
        base(program),
        "sh" | "bash"
            | "zsh"
            | "dash"
            | "ksh"
            | "fish"
            | "ash"
            | "cmd"
            | "cmd.exe"
            | "powershell"
            | "powershell.exe"
            | "pwsh"
    )
}

/// Programs that need a credential of their own.
const EXECUTORS: &[&str] = &[
    "claude",
    "codex",
    "gemini",
    "aider",
    "hermes",
    "opencode",
    "goose",
    "amp",
    "cursor-agent",
    "copilot",
    "qwen",
    "gh",
    "glab",
    "aws",
    "gcloud",
    "az",
    "kubectl",
    "helm",
    "terraform",
    "tofu",
    "vercel",
    "netlify",
    "flyctl",
    "fly",
    "heroku",
    "doctl",
    "wrangler",
    "firebase",
    "op",
    "vault",
    "bw",
    "ssh",
    "scp",
    "sftp",
    "rsync",
    "stripe",
    "twine",
];

/// Programs that run code which is written elsewhere.
pub const INTERPRETERS: &[&str] = &[
    "python",
    "python2",
    "python3",
    "node",
    "nodejs",
    "deno",
    "bun",
    "ruby",
    "perl",
    "php",
    "lua",
    "Rscript",
    "java",
    "npx",
    "pnpx",
    "bunx",
    "uvx",
    "pipx",
    "tsx",
    "ts-node",
    "osascript",
    "ipython",
    "julia",
    "groovy",
    "dotnet",
    "tclsh",
    "awk",
];

pub fn trust(program: Option<&str>, built: bool, own: bool) -> Trust {
    match program.map(base) {
        _ if own => Trust::Internal,
        _ if built => Trust::Unknown,
        None => Trust::Unknown,
        Some(program) if EXECUTORS.contains(&program) => Trust::Executor,
        Some(program) if is_shell(program) || matches!(program, "eval" | "xargs" | "env") => Trust::Unknown,
        Some(_) => Trust::Tool,
    }
}

/// Whether an environment variable of this name holds a credential.
pub fn is_credential_variable(name: &str) -> bool {
    let name = name.as_bytes();
    known(name).is_some_and(|entry| entry.kind == keyward_policy::detect::registry::Kind::Credential)
        || name_shape(name).is_some() && !is_about(&String::from_utf8_lossy(name))
}

/// Names that are about a secret and do not hold one: where it lies, how many there are.
fn is_about(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    [
        "path",
        "file",
        "dir",
        "name",
        "_id",
        "count",
        "max",
        "limit",
        "type",
        "url",
        "len",
        "size",
        "tokens",
        "keys",
        "field",
        "prompt",
        "tokenizer",
        "public",
        "pub_key",
        "pubkey",
        "key_id",
        "header",
        "regex",
        "pattern",
        "format",
        "index",
        "length",
        "policy",
        "scope",
        "arn",
        "expir",
        "ttl",
        "keyword",
        "keyboard",
        "keymap",
        "hotkey",
        "keystroke",
        "fingerprint",
        "keyward",
    ]
    .iter()
    .any(|word| lower.contains(word))
}

/// Whether a variable of the program has a name that holds a secret.
pub fn is_secret_name(name: &str) -> bool {
    let lower = name.trim_start_matches('_').to_ascii_lowercase();
    if is_about(&lower) {
        return false;
    }
    let flat = lower.replace('_', "");
    const ENDS: &[&str] = &[
        "password",
        "passwd",
        "secret",
        "apikey",
        "accesskey",
        "secretkey",
        "authtoken",
        "accesstoken",
        "passphrase",
        "privatekey",
        "bearertoken",
        "apitoken",
        "authkey",
        "githubtoken",
        "dbpass",
    ];
    flat == "token"
        || lower.ends_with("_token")
        || name.ends_with("Token")
        || ENDS.iter().any(|end| flat.ends_with(end))
}

/// The kind of the first secret that a text holds.
pub fn secret_in_text(text: &str) -> Option<String> {
    secret_at(text).map(|(_, kind)| kind.to_owned())
}

/// The kind of the secret in a line of a file: a token that is long and random enough to be one, or a private key.
pub fn secret_in_line(line: &str) -> Option<String> {
    if line.contains("-----BEGIN ")
        && line.contains("PRIVATE KEY-----")
        && !line.contains("...")
        && line.trim().len() < 60
    {
        return Some("private key".to_owned());
    }
    // Lines of data have thousands of characters, and words of code are short.
    if line.len() < 20 || line.len() > 2_000 {
        return None;
    }
    secret_at(line).map(|(_, kind)| kind.to_owned())
}

/// Where a secret begins in a text, and its kind.
pub fn secret_at(text: &str) -> Option<(usize, &'static str)> {
    let bytes = text.as_bytes();
    let mut before = b' ';
    for (at, byte) in bytes.iter().enumerate() {
        if !before.is_ascii_alphanumeric()
            && let Token::Begins { label, prefix, .. } = token_at(&bytes[at..], true)
            && !is_example(&text[at..], prefix)
        {
            return Some((at, label));
        }
        before = *byte;
    }
    url_with_password(text).map(|at| (at, "url with a password"))
}

/// `scheme://user:password@host`, where the password is written out.
fn url_with_password(text: &str) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = text.get(from..)?.find("://").map(|at| at + from) {
        let rest = &text[at + 3..];
        let end = rest
            .find(|c: char| c.is_whitespace() || matches!(c, '/' | '"' | '\'' | '`' | '>' | '<' | '?' | ')'))
            .unwrap_or(rest.len());
        let authority = &rest[..end];
        if let Some((login, host)) = authority.rsplit_once('@')
            && let Some((user, password)) = login.split_once(':')
            && !user.is_empty()
            && !host.is_empty()
            && !is_placeholder(password)
            && value_shape(&text.as_bytes()[at.saturating_sub(8)..at + 3 + end])
                .is_some_and(|_| password.len() > 3)
        {
            return Some(at);
        }
        from = at + 3;
    }
    None
}

/// A token in an example: `sk-ant-xxxxxxxx`, `ghp_EXAMPLE…`.
fn is_example(token: &str, prefix: usize) -> bool {
    let end = token
        .find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '-' | '_' | '.'))
        .unwrap_or(token.len());
    let body = token.get(prefix.min(end)..end).unwrap_or("");
    let mut seen = [false; 128];
    body.bytes().filter(u8::is_ascii).for_each(|byte| seen[usize::from(byte)] = true);
    let lower = body.to_ascii_lowercase();
    seen.iter().filter(|seen| **seen).count() < 6
        || ["example", "xxxx", "your", "placeholder", "test", "dummy", "fake", "0000", "1234567", "abcdef"]
            .iter()
            .any(|word| lower.contains(word))
}

/// A value that stands for another: `${TOKEN}`, `<token>`, `changeme`, nothing.
pub fn is_placeholder(value: &str) -> bool {
    let value = value.trim().trim_matches(['"', '\'']);
    let lower = value.to_ascii_lowercase();
    value.is_empty()
        || value.starts_with(['$', '<', '{', '%', '[', '('])
        || value.contains("${")
        || value.contains("{{")
        || value.contains("$(")
        || value.starts_with("keyward:")
        || value.contains("://") && !value.contains('@')
        || [
            "xxx",
            "changeme",
            "change_me",
            "change-me",
            "your",
            "example",
            "placeholder",
            "todo",
            "replace",
            "dummy",
            "none",
            "null",
            "true",
            "false",
            "...",
            "****",
            "redacted",
            "insert",
        ]
        .iter()
        .any(|word| {
            lower == *word
                || lower.starts_with(word)
                || lower.contains(&format!("_{word}"))
                || lower.contains(&format!("-{word}"))
        })
        || value.bytes().all(|byte| byte.is_ascii_digit()) && value.len() < 6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_about_a_secret_are_not_secrets() {
        for name in ["token_path", "max_tokens", "keys", "api_key_name", "tokenizer", "public_key", "hotkey"]
        {
            assert!(!is_secret_name(name), "{name}");
        }
        for name in [
            "token",
            "api_key",
            "password",
            "GITHUB_TOKEN",
            "apiKey",
            "accessToken",
            "_secret",
            "db_password",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn a_token_is_found_by_its_kind_and_an_example_is_not() {
        let token = ["ghp", "_Ab3dE6gH9jK2mN5pQ8sT1vW4xY7zAb3dE6gH"].concat();
        assert_eq!(secret_in_text(&format!("Authorization: {token}")).as_deref(), Some("github token"));
        assert_eq!(secret_in_text("ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"), None);
        assert_eq!(secret_in_text("postgres://user:${PASSWORD}@host/db"), None);
        let url = ["postgres://app:hunter2", "secret@db.internal/x"].concat();
        assert!(secret_in_text(&url).is_some());
    }
}
