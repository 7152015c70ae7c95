//! Scripts and settings for all users of a host that set variables. Programs run them, so only the lines go that set a credential.

use super::registry::{Kind, known, name_shape, value_shape};
use super::text::is_of_name;

/// The text without the lines that set a credential, in whatever form they do.
pub(super) fn without_credentials(content: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(content.len());
    // What ends the value of the line above: this quote, or the first line that does not go on.
    let mut goes_on: Option<Until> = None;
    for line in content.split_inclusive(|&byte| byte == b'\n') {
        if let Some(until) = goes_on {
            goes_on = until.after(line);
            continue;
        }
        match credential(line) {
            Some(value) => goes_on = Until::of(value),
            None => out.extend_from_slice(line),
        }
    }
    out
}

/// What a value on several lines ends with.
#[derive(Clone, Copy)]
enum Until {
    Quote(u8),
    LineThatEnds,
}

impl Until {
    /// Whether a value, which reaches to the end of its line, goes on behind it.
    fn of(value: &[u8]) -> Option<Self> {
        match value.first() {
            Some(&quote @ (b'"' | b'\'')) if !value[1..].contains(&quote) => Some(Until::Quote(quote)),
            _ => Until::LineThatEnds.after(value),
        }
    }

    fn after(self, line: &[u8]) -> Option<Self> {
        let ends = match self {
            Until::Quote(quote) => line.contains(&quote),
            Until::LineThatEnds => !line.trim_ascii_end().ends_with(b"\\"),
        };
        (!ends).then_some(self)
    }
}

/// The value of the first credential that a line sets, with all that follows.
fn credential(line: &[u8]) -> Option<&[u8]> {
    let signs = line.iter().enumerate().filter(|(_, byte)| **byte == b'=').map(|(at, _)| at);
    let by_sign = signs.map(|sign| (name_before(&line[..sign]), line[sign + 1..].trim_ascii_start()));
    let mut set = by_sign.chain(set_by_word(line)).filter(|(name, _)| !name.is_empty());
    let first = set.find(|(name, value)| {
        let upper = name.to_ascii_uppercase();
        let is_credential =
            known(&upper).is_some_and(|entry| entry.kind == Kind::Credential) || name_shape(&upper).is_some();
        is_credential && is_literal(value) && !is_of_keyboard(name)
            || value_shape(first_word(value)).is_some()
    });
    first.map(|(_, value)| value).or_else(|| {
        let mut words = line.split(|byte| byte.is_ascii_whitespace() || b"\"'`=,;()<>".contains(byte));
        words.find(|word| value_shape(word).is_some())
    })
}

/// `HandlePowerKey` and its like: what logind does when someone presses a key.
fn is_of_keyboard(name: &[u8]) -> bool {
    name.strip_prefix(b"Handle").is_some_and(|rest| rest.ends_with(b"Key") || rest.ends_with(b"KeyLongPress"))
}

/// The name before an equals sign. Blanks between them are allowed only where the line begins with the name: elsewhere that is a comparison.
fn name_before(line: &[u8]) -> &[u8] {
    let name = last_name(line);
    if !name.is_empty() {
        return name;
    }
    let line = line.trim_ascii_end();
    let name = last_name(line);
    let before = &line[..line.len() - name.len()];
    let is_start = before.iter().all(|byte| byte.is_ascii_whitespace() || *byte == b'#');
    if is_start { name } else { b"" }
}

fn last_name(line: &[u8]) -> &[u8] {
    let length = line.iter().rev().take_while(|byte| is_of_name(**byte)).count();
    &line[line.len() - length..]
}

/// `setenv NAME VALUE` of csh, and `set -gx NAME VALUE` of fish.
fn set_by_word(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let next = |text: &[u8]| text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
    let mut rest = line.trim_ascii_start();
    while let Some(after) = rest.strip_prefix(b"#") {
        rest = after.trim_ascii_start();
    }
    let (word, mut rest) = rest.split_at(next(rest));
    if word != b"setenv" && word != b"set" {
        return None;
    }
    rest = rest.trim_ascii_start();
    while word == b"set" && rest.starts_with(b"-") {
        rest = rest[next(rest)..].trim_ascii_start();
    }
    let (name, value) = rest.split_at(next(rest));
    Some((name, value.trim_ascii_start()))
}

/// Whether a value stands there itself, and not only the name of another variable, a command that prints it, or a path. Single quotes and
/// anything behind a name, such as what counts where the variable is not set, make it one.
fn is_literal(value: &[u8]) -> bool {
    let word = first_word(value);
    let quotes = 2 * usize::from(value.first().is_some_and(|byte| b"\"'".contains(byte)));
    // Nothing may stand right behind the word: `""canary`, `$NAME'canary'`.
    let behind = value.get(word.len() + quotes);
    let is_whole = behind.is_none_or(|byte| byte.is_ascii_whitespace() || b";\"".contains(byte));
    let name = word.strip_prefix(b"$").filter(|_| !value.starts_with(b"'"));
    let name =
        name.map(|name| name.strip_prefix(b"{").and_then(|name| name.strip_suffix(b"}")).unwrap_or(name));
    let is_reference = name.is_some_and(|name| {
        !name.is_empty()
            && name.iter().all(|&byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
    });
    let is_command = word.starts_with(b"$(") || word.starts_with(b"`");
    if is_command && !value.starts_with(b"'") {
        return false;
    }
    !(is_whole && (word.is_empty() || is_reference || is_path(word)))
}

/// The first word of a value, without its quotes.
fn first_word(value: &[u8]) -> &[u8] {
    let is_quote = |byte: &u8| b"\"'".contains(byte);
    let start = usize::from(value.first().is_some_and(is_quote));
    let quoted = start == 1;
    let value = &value[start..];
    let ends = |byte: &u8| {
        is_quote(byte) || *byte == b'\n' || !quoted && (byte.is_ascii_whitespace() || *byte == b';')
    };
    &value[..value.iter().position(ends).unwrap_or(value.len())]
}

/// Where a credential lies is not the credential. Only what cannot be one passes for a path.
pub(super) fn is_path(word: &[u8]) -> bool {
    let parts = || word[1..].split(|&byte| byte == b'/');
    let is_plain = |part: &[u8]| {
        part.len() <= 24
            && part
                .iter()
                .all(|&byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte))
            && part.iter().filter(|byte| byte.is_ascii_digit()).count() <= 4
    };
    word.starts_with(b"/") && parts().count() >= 2 && parts().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(content: &str) -> String {
        String::from_utf8(without_credentials(content.as_bytes())).unwrap()
    }

    #[test]
    fn lines_that_set_a_credential_go_and_a_script_stays_whole() {
        let script = "# the token is set below\nif [ -z \"$ACME_TOKEN\" ]; then\n  export EDITOR=vi PATH=$PATH:/opt/bin\nfi\n";
        assert_eq!(shown(script), script);
        for line in [
            "export ACME_TOKEN=canary\n",
            "#ACME_TOKEN=canary\n",
            "acme_password='canary one'\n",
            "EDITOR=vi DB_PASSWORD=canary run\n",
            "Environment=\"EDITOR=vi\" \"AWS_SECRET_ACCESS_KEY=canary\"\n",
            "DB_PASSWORD=\"canary\ncanary\"\n",
            "DB_PASSWORD=canary\\\ncanary\n",
            "ACME_TOKEN='$canary'\n",
            "ACME_TOKEN=$'canary'\n",
            "ACME_TOKEN=$A'canary'\n",
            "ACME_TOKEN=${ACME_TOKEN:-canary}\n",
            "ACME_TOKEN=\"\"canary\n",
            "ACME_TOKEN = canary\n",
            "setenv ACME_TOKEN canary\n",
            "set -gx ACME_TOKEN canary\n",
            "DATABASE=postgres://app:canary@db.example/app\n",
            "curl -H 'Authorization: Bearer ghp_0123456789abcdefghijABCDEFGHIJ012345'\n",
        ] {
            assert_eq!(shown(&format!("{script}{line}A=b\n")), format!("{script}A=b\n"), "{line}");
        }
    }

    #[test]
    fn what_holds_no_credential_is_left_as_it_is() {
        for line in [
            "# Set this to TRUE to ask for the password\nNETID_AUTHORITATIVE=FALSE\n",
            "ACME_TOKEN=\nACME_TOKEN=$OTHER\nACME_TOKEN=\"${OTHER}\"\nACME_TOKEN=`pass show acme`\n",
            "PASSWORD_FILE=/etc/acme/password\n",
            "#HandlePowerKey=poweroff\nHandleSuspendKeyLongPress=hibernate\n#HandleSecureAttentionKey=secure-attention-key\n",
            "if [ $ACME_TOKEN = yes ]; then\nset -e\nset -- a b\nfi\n",
        ] {
            assert_eq!(shown(line), line);
        }
    }
}
