//! What a hidden file shows instead of its content, so that programs go on: names without values, or nothing.
//!
//! A line is kept only if it is certain to be harmless. The input is hostile: nothing here may fail on it.

use super::config;
use super::secrets::LOGIN_WORDS;
use super::secrets::{Content, Secret};
use super::text::{closing, contains, find, is_of_name, unquoted, without_comment};
use super::variables;
use crate::detect::registry::{known, name_shape, value_shape};
use crate::login::json::without_credentials as without_credentials_in_json;
use crate::untrusted::git::credentials::{holds_credentials, is_git_config, without_credentials};

/// What a command sees of a file whose name is secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shows {
    /// The file itself: nothing in it is secret.
    Itself,
    /// This text in its place.
    Instead(Vec<u8>),
}

/// Decides by the content of a file. `not_secret` are names that the user has cleared.
pub fn shows(secret: &Secret, content: &[u8], not_secret: &[&str]) -> Shows {
    match secret.content {
        Content::Whole => Shows::Instead(Vec::new()),
        Content::Dotenv => itself_or(dotenv(content, not_secret), content),
        Content::Settings => itself_or(settings(content), content),
        Content::Saying(words) if says(content, words) => Shows::Instead(Vec::new()),
        Content::SettingsSaying(words) if says(content, words) => Shows::Instead(settings(content)),
        Content::Saying(_) | Content::SettingsSaying(_) => Shows::Itself,
        Content::Variables => itself_or(variables::without_credentials(content), content),
        Content::Xml(words) => {
            let bare = without_comments(content);
            if says(&bare, words) {
                Shows::Instead(b"<settings/>\n".to_vec())
            } else if says(content, words) {
                Shows::Instead(bare)
            } else {
                Shows::Itself
            }
        }
        Content::Json => json(content),
        // Texts of wider letters, which no line of ours would fit.
        Content::Config | Content::SayingOrConfig(_) if content.contains(&0) => {
            match says(content, LOGIN_WORDS) {
                true => Shows::Instead(Vec::new()),
                false => Shows::Itself,
            }
        }
        Content::SayingOrConfig(words) if says(content, words) => Shows::Instead(Vec::new()),
        Content::Config | Content::SayingOrConfig(_) => config(content, config::Kind::Settings, not_secret),
        Content::Source => config(content, config::Kind::Source, not_secret),
        Content::Pem if has_private_key(content) => Shows::Instead(Vec::new()),
        Content::Pem => Shows::Itself,
        Content::MaybeGit if !is_git_config(content) => Shows::Itself,
        Content::Git | Content::MaybeGit if holds_credentials(content) => {
            Shows::Instead(without_credentials(content))
        }
        Content::Git | Content::MaybeGit => Shows::Itself,
    }
}

/// Decides about a working copy of which git has another state: it may be seen as it is if git shows every credential in it. So settings
/// with a credential that was committed can still be worked on.
pub fn shows_beside(secret: &Secret, content: &[u8], committed: &[u8], not_secret: &[&str]) -> bool {
    let is_committed = |value: &[u8]| contains(committed, value);
    let kind = if secret.content == Content::Source { config::Kind::Source } else { config::Kind::Settings };
    secret.is_of_projects()
        && !content.contains(&0)
        && config::credentials(content, kind, not_secret).into_iter().all(|span| is_committed(&content[span]))
}

fn config(content: &[u8], kind: config::Kind, not_secret: &[&str]) -> Shows {
    match config::may_hold_credentials(content) {
        true => itself_or(config::without_credentials(content, kind, not_secret), content),
        false => Shows::Itself,
    }
}

/// JSON that cannot be read is read as any other settings: some programs allow a comma before a bracket, and take one of two values with
/// the same name. It is an empty object if that leaves a credential in it.
fn json(content: &[u8]) -> Shows {
    let shown = std::str::from_utf8(content).ok().and_then(without_credentials_in_json);
    if let Some(shown) = shown {
        return itself_or(shown.into_bytes(), content);
    }
    let shown = config(content, config::Kind::Settings, &[]);
    let is_left = match &shown {
        Shows::Itself => value_shape(content).is_some(),
        Shows::Instead(text) => value_shape(text).is_some(),
    };
    if is_left { Shows::Instead(b"{}\n".to_vec()) } else { shown }
}

/// Whether one of the words, which are in lower case, is in it. Zero bytes do not count: they are in texts of wider letters.
fn says(content: &[u8], words: &[&str]) -> bool {
    let begins = |text: &[u8], word: &str| {
        let mut letters = text.iter().filter(|&&byte| byte != 0).map(u8::to_ascii_lowercase);
        word.bytes().all(|letter| letters.next() == Some(letter))
    };
    (0..content.len()).any(|start| words.iter().any(|word| begins(&content[start..], word)))
}

/// XML without its comments. One that does not end reaches to the end of the file.
fn without_comments(content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len());
    let mut rest = content;
    while let Some(start) = find(rest, b"<!--") {
        out.extend_from_slice(&rest[..start]);
        rest = find(&rest[start + 4..], b"-->").map_or(&[], |end| &rest[start + 4 + end + 3..]);
    }
    out.extend_from_slice(rest);
    out
}

/// What is left is the whole file, if nothing had to go: a copy that a command made of what it saw is not secret to the next one.
fn itself_or(kept: Vec<u8>, content: &[u8]) -> Shows {
    if kept == content { Shows::Itself } else { Shows::Instead(kept) }
}

/// A private key says so in its first line; what is not text at all may be one in another form.
fn has_private_key(content: &[u8]) -> bool {
    // A bundle of certificates is long, and hardly a place in it begins such a word.
    let says = |text: &[u8]| {
        let first = text.first().map_or(0, u8::to_ascii_lowercase);
        let mut places = content.windows(text.len());
        places.any(|part| part[0].to_ascii_lowercase() == first && part.eq_ignore_ascii_case(text))
    };
    let certificate = says(b"-----BEGIN CERTIFICATE") || says(b"-----BEGIN TRUSTED CERTIFICATE");
    let public = says(b"-----BEGIN PUBLIC KEY") || says(b"-----BEGIN RSA PUBLIC KEY");
    // Each block must end. Beside them stands what a tool or a person wrote about the certificates.
    let mut inside = false;
    let mut stray = false;
    for line in content.split(|&byte| byte == b'\n') {
        let line = line.trim_ascii();
        if line.starts_with(b"-----BEGIN ") {
            stray |= std::mem::replace(&mut inside, true);
        } else if line.starts_with(b"-----END ") {
            inside = false;
        } else if !inside {
            stray |= !is_remark(line);
        }
    }
    let stray = stray || inside;
    says(b"PRIVATE") || says(b"ENCRYPTED") || !(certificate || public) || stray
}

/// Whether a line is a remark about certificates: text that names no secret and has no word that only a machine would make, but for digests.
fn is_remark(line: &[u8]) -> bool {
    let is_of_digest = says(line, &["sha", "md5", "fingerprint", "serial"]);
    let is_made = |word: &[u8]| {
        let is_digest = is_of_digest && word.iter().all(u8::is_ascii_hexdigit);
        let kind = |byte: &u8| (byte.is_ascii_digit(), byte.is_ascii_uppercase());
        let changes = word.windows(2).filter(|pair| kind(&pair[0]) != kind(&pair[1])).count();
        let numbers = word.split(|byte| !byte.is_ascii_digit()).filter(|number| !number.is_empty()).count();
        word.len() >= 20 && numbers > 1 && changes > 5 && !is_digest
    };
    let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"+=_".contains(byte);
    std::str::from_utf8(line)
        .is_ok_and(|text| !text.contains(|letter: char| letter.is_control() && letter != '\t'))
        && !says(line, &["pass", "secret", "token", "credential"])
        && !line.split(|byte| !is_of_word(byte)).any(is_made)
        && value_shape(line).is_none()
}

/// The names of a dotenv file, each with an empty value unless the value is clearly operational.
fn dotenv(content: &[u8], not_secret: &[&str]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len() / 4);
    for (exported, name, value) in assignments(content) {
        if exported {
            out.extend_from_slice(b"export ");
        }
        out.extend_from_slice(name);
        out.push(b'=');
        if is_operational(name, value, not_secret) {
            out.extend_from_slice(value);
        }
        out.push(b'\n');
    }
    out
}

/// The assignments of a dotenv file: whether it is exported, its name, and its value without quotes.
pub(crate) fn assignments(content: &[u8]) -> Vec<(bool, &[u8], &[u8])> {
    let mut all = Vec::new();
    let mut rest = content;
    while !rest.is_empty() {
        let (line, after) = split_line(rest);
        rest = after;
        let Some((exported, name, value)) = assignment(line) else { continue };
        // A quoted value may go on for many lines.
        let value = match value.first() {
            Some(&quote @ (b'"' | b'\'' | b'`')) => {
                let start = value.as_ptr() as usize - content.as_ptr() as usize;
                match closing(&content[start + 1..], quote) {
                    Some(end) => {
                        rest = split_line(&content[start + 1 + end..]).1;
                        &content[start + 1..start + 1 + end]
                    }
                    None => value,
                }
            }
            _ => without_comment(value),
        };
        all.push((exported, name, value));
    }
    all
}

fn split_line(text: &[u8]) -> (&[u8], &[u8]) {
    match text.iter().position(|&byte| byte == b'\n') {
        Some(end) => (&text[..end], &text[end + 1..]),
        None => (text, &[]),
    }
}

/// Whether it is exported, the name, and the rest of the line.
fn assignment(line: &[u8]) -> Option<(bool, &[u8], &[u8])> {
    let line = line.trim_ascii();
    let (exported, line) = match line.strip_prefix(b"export ") {
        Some(rest) => (true, rest.trim_ascii_start()),
        None => (false, line),
    };
    let end = line.iter().position(|&byte| !is_of_name(byte))?;
    let (name, rest) = line.split_at(end);
    let first = *name.first()?;
    let value = rest.trim_ascii_start();
    let value = value.strip_prefix(b"=").or_else(|| value.strip_prefix(b":"))?;
    let value = value.trim_ascii_start();
    // The last line of a key in base64 ends like an assignment, and a token may stand where a name does.
    let is_rest_of_key = value.iter().all(|&byte| byte == b'=')
        && !name.contains(&b'_')
        && name.iter().any(u8::is_ascii_lowercase)
        && name.iter().any(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
    let is_name =
        (first.is_ascii_alphabetic() || first == b'_') && name.len() <= 64 && value_shape(name).is_none();
    (is_name && !is_rest_of_key).then_some((exported, name, value))
}

/// Words that settings are made of and credentials are not.
const WORDS: &[&str] = &[
    "true",
    "false",
    "yes",
    "no",
    "on",
    "off",
    "enabled",
    "disabled",
    "none",
    "null",
    "debug",
    "info",
    "warn",
    "warning",
    "error",
    "trace",
    "fatal",
    "critical",
    "silent",
    "verbose",
    "notice",
    "development",
    "production",
    "staging",
    "test",
    "testing",
    "local",
    "dev",
    "prod",
    "localhost",
    "127.0.0.1",
    "0.0.0.0",
    "utf-8",
    "json",
    "text",
    "utc",
];

/// Names whose numbers are settings.
const COUNTED: &[&str] = &[
    "PORT",
    "TIMEOUT",
    "LIMIT",
    "SIZE",
    "COUNT",
    "WORKERS",
    "THREADS",
    "CONCURRENCY",
    "INTERVAL",
    "TTL",
    "RETRIES",
    "LEVEL",
    "VERSION",
    "MAX",
    "MIN",
    "DELAY",
    "DAYS",
    "HOURS",
    "MINUTES",
    "SECONDS",
    "DEBUG",
];

pub(crate) fn is_operational(name: &[u8], value: &[u8], not_secret: &[&str]) -> bool {
    if value.is_empty() || value.len() > 64 || value_shape(value).is_some() {
        return false;
    }
    let upper = name.to_ascii_uppercase();
    let cleared = not_secret.iter().any(|cleared| cleared.as_bytes() == name);
    if cleared {
        return value.iter().all(|&byte| byte.is_ascii_graphic() && !b"\"'`\\$#".contains(&byte));
    }
    if known(&upper).is_some() || name_shape(&upper).is_some() {
        return false;
    }
    let is_word = WORDS.iter().any(|word| value.eq_ignore_ascii_case(word.as_bytes()));
    let is_bit = matches!(value, b"0" | b"1");
    let is_number = value.len() <= 7 && value.iter().all(u8::is_ascii_digit);
    let is_counted =
        upper.split(|&byte| byte == b'_').any(|part| COUNTED.iter().any(|word| part == word.as_bytes()));
    is_word || is_bit || is_number && is_counted
}

/// Settings, one on a line, without what is, or may be, a credential. A line stays only if it is certain to hold none.
fn settings(content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len());
    // How far the last key was indented that may have its value on the following lines.
    let mut goes_on: Option<usize> = None;
    for line in content.split_inclusive(|&byte| byte == b'\n') {
        let indent = line.iter().take_while(|byte| byte.is_ascii_whitespace() && **byte != b'\n').count();
        if goes_on.is_some_and(|above| indent > above && !line.trim_ascii().is_empty()) {
            continue;
        }
        let key = sign_in(line).map(|sign| line[..sign].trim_ascii());
        goes_on = key.filter(|key| is_credential_key(key)).map(|_| indent);
        let end = if line.ends_with(b"\n") { b"\n".as_slice() } else { b"" };
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        match shown_of(text) {
            Some(length) if length == text.len() => out.extend_from_slice(line),
            Some(length) => {
                out.extend_from_slice(&text[..length]);
                out.extend_from_slice(end);
            }
            None => {}
        }
    }
    out
}

/// How much of a line may be seen; `None` for nothing of it.
fn shown_of(line: &[u8]) -> Option<usize> {
    let text = line.trim_ascii();
    if text.is_empty() || is_header(text) {
        return Some(line.len());
    }
    if text.starts_with(b"#") || text.starts_with(b";") {
        return text.split(|&byte| !is_word(byte)).all(|word| word.len() < LONG_WORD).then_some(line.len());
    }
    if let Some(item) = text.strip_prefix(b"- ") {
        return is_harmless_value(item.trim_ascii()).then_some(line.len());
    }
    let sign = sign_in(line)?;
    let (key, value) = (line[..sign].trim_ascii(), line[sign + 1..].trim_ascii());
    let is_short = key.split(|&byte| !is_word(byte)).all(|word| word.len() < 2 * LONG_WORD);
    let is_harmless = || {
        is_reference(value)
            || (!is_credential_key(key) || leads_elsewhere(key, value)) && is_harmless_value(value)
    };
    if is_short && is_plain_key(key) && (value.is_empty() || is_harmless()) {
        return Some(line.len());
    }
    // A key that is long may be a token that stands in the wrong place.
    (is_short && is_plain_key(key)).then_some(sign + 1)
}

/// The name of a section, in short words. Without it programs refuse the lines that follow.
fn is_header(text: &[u8]) -> bool {
    let name = text.strip_prefix(b"[").and_then(|text| text.strip_suffix(b"]"));
    name.is_some_and(|name| {
        name.len() <= 64
            && value_shape(name).is_none()
            && name.iter().all(|&byte| is_word(byte) || b". \"/:@".contains(&byte))
            && name.split(|&byte| !is_word(byte)).all(|word| word.len() < LONG_WORD)
    })
}

/// A key and not the end of a token: a name, or an address with one behind it.
fn is_plain_key(key: &[u8]) -> bool {
    let is_name = key.iter().all(|&byte| is_word(byte) || b".\"@:[] ".contains(&byte));
    let mixed = key.iter().any(u8::is_ascii_digit) && key.iter().any(u8::is_ascii_uppercase);
    key.starts_with(b"//") || is_name && !(mixed && key.len() >= LONG_WORD)
}

/// The sign between key and value: a colon after a plain word as in YAML, an equals sign, or a colon.
fn sign_in(line: &[u8]) -> Option<usize> {
    let start = line.iter().position(|byte| !byte.is_ascii_whitespace())?;
    let plain = line[start..]
        .iter()
        .position(|&byte| !(is_word(byte) || b"\".".contains(&byte)))
        .map(|end| start + end);
    let is_yaml = |at: &usize| line[*at] == b':' && line.get(at + 1).is_none_or(u8::is_ascii_whitespace);
    plain
        .filter(is_yaml)
        .or_else(|| line.iter().position(|&byte| byte == b'='))
        .or_else(|| line.iter().position(|&byte| byte == b':'))
}

/// Words of comments are shorter; tokens are not.
const LONG_WORD: usize = 16;

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-".contains(&byte)
}

/// `${NAME}` and nothing else.
fn is_reference(value: &[u8]) -> bool {
    let name = value.strip_prefix(b"${").and_then(|value| value.strip_suffix(b"}"));
    name.is_some_and(|name| {
        !name.is_empty() && name.iter().all(|&byte| byte.is_ascii_alphanumeric() || byte == b'_')
    })
}

/// The path of a file, which is judged by itself, or the address of a proxy without a login.
fn leads_elsewhere(key: &[u8], value: &[u8]) -> bool {
    let ends = |words: &[&str]| {
        words.iter().any(|word| {
            key.len() >= word.len() && key[key.len() - word.len()..].eq_ignore_ascii_case(word.as_bytes())
        })
    };
    let is_path = value.starts_with(b"/") || value.starts_with(b"~/");
    let is_address = value.starts_with(b"http://") || value.starts_with(b"https://");
    is_path && ends(&["cert", "file", "path"]) || is_address && ends(&["proxy"])
}

fn is_credential_key(key: &[u8]) -> bool {
    let mut name: Vec<u8> = Vec::with_capacity(key.len() + 8);
    for &byte in key {
        name.push(if byte.is_ascii_alphanumeric() { byte.to_ascii_uppercase() } else { b'_' });
    }
    let says = |word: &str| name.windows(word.len()).any(|part| part == word.as_bytes());
    let harmless = ["ALWAYS_AUTH"].iter().any(|word| name.ends_with(word.as_bytes()));
    !harmless
        && (name.ends_with(b"PW")
            || name_shape(&name).is_some()
            || CREDENTIAL_KEYS.iter().any(|word| says(word)))
}

const CREDENTIAL_KEYS: &[&str] =
    &["AUTH", "PASS", "TOKEN", "SECRET", "USER", "CERT", "KEY", "CRED", "LOGIN", "PROXY", "PWD", "IDENT"];

/// Further words that package managers know.
const SETTINGS: &[&str] = &[
    "node-modules",
    "pnp",
    "pnpm",
    "isolated",
    "hoisted",
    "bash",
    "sh",
    "latest",
    "next",
    "mixed",
    "throw",
    "silly",
    "http",
    "copy",
    "clone",
    "hardlink",
    "auto",
    "always",
    "never",
    "explicit",
    "symlink",
    "junctions",
    "workspaces",
    "dependencies",
    "highest",
];

/// A value that settings have and credentials do not: a known word, a small number, a version, an address or a path of short plain parts.
fn is_harmless_value(value: &[u8]) -> bool {
    let value = unquoted(value);
    if value_shape(value).is_some() || value.len() > 200 {
        return false;
    }
    let is_word = WORDS.iter().any(|word| value.eq_ignore_ascii_case(word.as_bytes()));
    let is_number = value.len() <= 7 && value.iter().all(u8::is_ascii_digit);
    let is_version = value.len() <= 16
        && value.first().is_some_and(|byte| byte.is_ascii_digit() || b"^~v>=".contains(byte))
        && value.iter().all(|&byte| byte.is_ascii_digit() || b".^~v>=<-".contains(&byte));
    let address = value.strip_prefix(b"https://").or_else(|| value.strip_prefix(b"http://"));
    // Parts of a path or an address, and words of settings, are written in small letters: no capital and digit side by side, none long.
    let is_plain = |part: &[u8]| {
        part.len() <= 24
            && part.iter().all(|&byte| byte.is_ascii_alphanumeric() || b"._-@*~:".contains(&byte))
            && !(part.len() >= 8
                && part.iter().any(u8::is_ascii_digit)
                && part.iter().any(u8::is_ascii_uppercase))
            && part.iter().filter(|byte| byte.is_ascii_digit()).count() <= 6
    };
    let is_address =
        address.is_some_and(|rest| !rest.contains(&b'@') && rest.split(|&byte| byte == b'/').all(is_plain));
    let is_path = value.contains(&b'/')
        && !value.contains(&b'@')
        && !value.contains(&b':')
        && value.split(|&byte| byte == b'/').all(is_plain);
    let is_setting = SETTINGS.iter().any(|word| value == word.as_bytes());
    is_word || is_number || is_version || is_address || is_path || is_setting
}

#[cfg(test)]
mod tests {
    use super::super::secrets::SECRETS;
    use super::*;
    use proptest::prelude::*;

    fn row(pattern: &str) -> &'static Secret {
        SECRETS.iter().find(|row| row.pattern == pattern).unwrap()
    }

    fn shown(pattern: &str, content: &str) -> String {
        match shows(row(pattern), content.as_bytes(), &["MAX_TOKENS"]) {
            Shows::Itself => "itself".into(),
            Shows::Instead(text) => String::from_utf8(text).unwrap(),
        }
    }

    #[test]
    fn a_dotenv_file_shows_its_names_and_what_is_operational() {
        let content = "# the key was sk-old\n\nAPI_KEY=sk-123\nexport DB_URL='postgres://u:p@h/d'\nPORT=8080\nDEBUG=true\nLOG_LEVEL = info # loud\n\
                       PIN=1234\nMAX_TOKENS=4096\nMULTI=\"one\ntwo=2\n\"\nLAST=x\nsk-live-abcdef0123456789=1\nNAME\nPASSWORD=true\n";
        let expected = "API_KEY=\nexport DB_URL=\nPORT=8080\nDEBUG=true\nLOG_LEVEL=info\nPIN=\nMAX_TOKENS=4096\nMULTI=\nLAST=\nPASSWORD=\n";
        assert_eq!(shown(".env", content), expected);
    }

    #[test]
    fn a_dotenv_file_without_a_secret_is_shown() {
        assert_eq!(shown(".env", "PORT=80\nAPI_KEY=\n"), "itself");
        assert_eq!(shown(".env", ""), "itself");
        assert_eq!(shown(".env", "# sk-123\nPORT=80\n"), "PORT=80\n");
    }

    #[test]
    fn an_unfinished_quote_hides_its_line_and_not_the_next() {
        assert_eq!(shown(".env", "A=\"secret\nB=2"), "A=\nB=\n");
        assert_eq!(shown(".env", "A='it\nPORT=80\n"), "A=\nPORT=80\n");
    }

    #[test]
    fn settings_without_a_credential_are_shown() {
        let harmless = "# for the team\nregistry=https://registry.example.test/\nsave-exact=true\nalways-auth=true\n@scope:registry=https://npm.example.test/x/\n\
                        //npm.example.test/:_authToken=${NPM_TOKEN}\nengine-strict = true\n";
        assert_eq!(shown(".npmrc", harmless), "itself");
        let yarn = "nodeLinker: node-modules\nyarnPath: .yarn/releases/yarn-4.1.0.cjs\nplugins:\n  - path: .yarn/plugins/x.cjs\n    spec: \"@yarnpkg/x\"\n";
        assert!(shown(".yarnrc.yml", yarn).contains("yarn-4.1.0.cjs"), "{}", shown(".yarnrc.yml", yarn));
        assert_eq!(shown(".yarnrc.yml", "nodeLinker: node-modules\nenableTelemetry: false\n"), "itself");
    }

    #[test]
    fn a_path_and_a_proxy_without_a_login_are_shown() {
        let harmless =
            "[global]\ncert = /etc/ssl/certs/ca-certificates.crt\nproxy = http://proxy.example.test:3128\n";
        assert_eq!(shown("pip.conf", harmless), "itself");
        assert_eq!(
            shown("pip.conf", "[global]\nindex-url = https://u:canary@h/\n"),
            "[global]\nindex-url =\n"
        );
        assert_eq!(shown("pip.conf", "[canary-canary-canary]\n"), "");
        assert_eq!(shown(".npmrc", "cafile=/etc/ssl/certs/ca.pem\n"), "itself");
        assert_eq!(shown(".npmrc", "_password=/etc/ssl\n"), "_password=\n");
    }

    #[test]
    fn xml_loses_comments_with_a_password_and_all_of_it_with_a_real_one() {
        let example = "<settings><!-- <password>example</password> --><offline>true</offline></settings>\n";
        assert_eq!(shown("settings.xml", example), "<settings><offline>true</offline></settings>\n");
        let real = "<settings><!-- x --><server><password>canary</password></server></settings>";
        assert_eq!(shown("settings.xml", real), "<settings/>\n");
        assert_eq!(shown("settings.xml", "<a><!-- <password>canary"), "<a>");
        assert_eq!(shown("settings.xml", "<a><!-- plain --></a>"), "itself");
    }

    #[test]
    fn settings_in_json_lose_credentials_and_nothing_else() {
        let harmless = "{ // servers\n \"mcpServers\": {\"g\": {\"command\": \"npx\", \"args\": [\"-y\", \"x\"], \"env\": {\"GITHUB_TOKEN\": \"${GITHUB_TOKEN}\", \"API_KEY\": \"$KEY\", \"DEBUG\": \"1\", \"HOST\": \"a.test\"}}}}";
        assert_eq!(shown(".mcp.json", harmless), "itself");
        assert_eq!(
            shown(".mcp.json", "{ \"trailing\": 1, }"),
            "itself",
            "what cannot be read, without a credential"
        );
        let secret = harmless
            .replace("${GITHUB_TOKEN}", "canary1canary1")
            .replace("\"1\"", "\"ghp_canary1canary1canary1canary1canary1AA\"");
        let seen = shown(".mcp.json", &secret);
        assert!(
            !seen.contains("canary1") && seen.contains("\"command\": \"npx\"") && seen.contains("a.test"),
            "{seen}"
        );
        serde_json::from_str::<serde_json::Value>(&seen).unwrap();
        assert_eq!(
            shown(".mcp.json", "{ \"a\": \"ghp_canary1canary1canary1canary1canary1AA\", }"),
            "{ \"a\": \"\", }"
        );
        // What a program may read although the rules of JSON forbid it.
        for odd in [
            "{\"authToken\": \"canary1canary1\", }",
            "{\"authToken\": \"canary1canary1\", \"b\": 1, \"b\": 2}",
        ] {
            let seen = shown(".zed/settings.json", odd);
            assert!(seen != "itself" && !seen.contains("canary1"), "{odd}: {seen}");
        }
        assert!(!shown(".mcp.json", "{\"API_KEY\": \"${T:-canary1}\"}").contains("canary1"));
    }

    #[test]
    fn settings_with_a_credential_lose_it() {
        let content = "save-exact=true\n//npm.example.test/:_authToken=abcdef\n_auth=dTpw\nproxy=http://u:pw@proxy:80\n";
        let expected = "save-exact=true\n//npm.example.test/:_authToken=\n_auth=\nproxy=\n";
        assert_eq!(shown(".npmrc", content), expected);
        assert_eq!(shown(".yarnrc.yml", "npmAuthToken: \"x1\"\nnpmScopes:\n"), "npmAuthToken:\nnpmScopes:\n");
    }

    #[test]
    fn no_form_of_a_setting_shows_a_credential() {
        for (pattern, content) in [
            (".yarnrc.yml", "npmAuthIdent: \"dXNlcjpjYW5hcnkx=\""),
            (".yarnrc.yml", "npmAuthToken:\n  canary1\n"),
            (".yarnrc.yml", "npmAuthToken: >-\n  canary1\n"),
            (".yarnrc.yml", "npmAuthToken: \"${T:-canary1}\""),
            (".npmrc", "_authToken=${T:-canary1}"),
            (".npmrc", "; npm_canary1AAAAAAAAAAAAAAAAAAAAAA"),
            (".npmrc", "canary1"),
            (".config/pip/pip.conf", "index-url = https://canary1@host/simple"),
            (".config/pip/pip.conf", "proxy = user:canary1@h:80"),
            (".gradle/gradle.properties", "nexusPassword:canary1"),
            (".gradle/gradle.properties", "nexusPassword canary1"),
            (".gradle/gradle.properties", "nexusPassword=\\\n canary1"),
            (".gradle/gradle.properties", "ossrhPw=canary1"),
            (".gradle/gradle.properties", "ossrhPwd=canary1"),
            (".gradle/gradle.properties", "nexusUser=canary1"),
            (".yarnrc.yml", "npmAuthToken: |\n  dXNlcjpjYW5hcnkx==\n"),
            (".yarnrc.yml", "npmAuthIdent: >-\n  bob:canary1/abc\nx: true"),
            (".npmrc", "//r.io/=canary1"),
        ] {
            let seen = shown(pattern, content);
            assert!(
                seen != "itself" && !seen.contains("canary1") && !seen.contains("dXNl"),
                "{content}: {seen}"
            );
        }
    }

    #[test]
    fn a_certificate_is_shown_and_a_key_is_not() {
        let certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
        assert_eq!(shown("*.pem", certificate), "itself");
        assert_eq!(shown("*.pem", &format!("{certificate}-----BEGIN RSA PRIVATE KEY-----\n")), "");
        assert_eq!(shown("*.pem", "canary"), "");
        assert_eq!(shown("*.pem", &format!("{certificate}passphrase: x\n")), "");
        assert_eq!(shown("*.pem", "-----BEGIN CERTIFICATE-----\nMIIB\n{\"d\":\"x\"}\n"), "");
        let remarks = [
            "# Issuer: CN=Entrust Root Certification Authority - G2 O=Entrust, Inc.\n# SHA256 Fingerprint: 43:df:57:74",
            "## SHA256: 34a54d5191775c1bd37be6cfd3f09e831e072555dc3a2e51f4a2c4b0f8ada5cc\n=======",
            "Aliasname: verisignclass3publicprimarycertificationauthorityg3 [jdk]\nAffirmTrustPremiumECC2021Root",
            "Certificate:\n    Data:\n        Modulus:\n            00:b4:31:98:0a:c4:bc:62:c1:88:aa:dc:b0:c8:bb\nhttps://a.test/file/default/nss",
        ];
        for remark in remarks {
            assert_eq!(shown("*.pem", &format!("{remark}\n{certificate}{remark}\n")), "itself", "{remark}");
        }
        let others = [
            "5Kb8kLf9zgWQnogidDA76MzPL6TsZZY36hWXMssSzNydYXYB9KF",
            "{\"kty\":\"EC\",\"d\":\"870MB6gfuTJ4HtUnUvYMyJpr5eUZNP4Bk43bVdj3eAE\"}",
            "the key: 34a54d5191775c1bd37be6cfd3f09e831e072555dc3a2e51f4a2c4b0f8ada5cc",
            "# ghp_0123456789abcdefghijABCDEFGHIJ012345",
            "\u{1}\u{2}",
        ];
        for other in others {
            assert_eq!(shown("*.pem", &format!("{certificate}{other}\n")), "", "{other}");
        }
        assert_eq!(shown("*.key", certificate), "");
    }

    #[test]
    fn the_end_of_a_key_does_not_pass_for_a_name() {
        assert_eq!(shown(".env", "KEY=-----BEGIN\nMIIEow3xQ\nqL9xTz0Q==\nQm9vaw=\n"), "KEY=\n");
    }

    proptest! {
        #[test]
        fn what_is_shown_instead_only_shrinks(content in proptest::collection::vec(
            prop_oneof![any::<u8>(), proptest::sample::select(b"\n\n=:\"'# ${}-AaKEYtoken_.".to_vec())], 0..200)) {
            for pattern in [".env", ".npmrc", "*.pem"] {
                if let Shows::Instead(text) = shows(row(pattern), &content, &[]) {
                    prop_assert!(text.len() <= content.len() + 1, "{pattern}: {text:?}");
                    // A name whose value is gone may look like the end of a key, and go as well; nothing comes back.
                    if let Shows::Instead(again) = shows(row(pattern), &text, &[]) {
                        prop_assert!(again.len() <= text.len(), "{pattern}: {again:?} {text:?}");
                    }
                }
            }
        }

        #[test]
        fn no_value_that_is_not_operational_is_shown(name in "[A-Z_]{1,12}", value in "[a-zA-Z0-9+/]{8,40}", quote in "[\"'` ]?") {
            prop_assume!(!WORDS.iter().any(|word| value.eq_ignore_ascii_case(word)));
            let text = format!("{name}={quote}{value}{quote}\n{name} = {value}\nexport {name}:{value}\n");
            prop_assert!(!shown(".env", &text).contains(&value));
        }
    }
}
