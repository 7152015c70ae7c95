//! An entry of pass, the standard Unix password manager: decrypted by gpg, which may ask for the passphrase of its key.

use super::program::{Call, DISPLAY, PLAIN};
use super::{Surroundings, Why, text};
use crate::secret::Secret;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// Where pass and gpg keep their things, and how gpg asks.
const OWN: &[&str] =
    &["PASSWORD_STORE_DIR", "PASSWORD_STORE_GPG_OPTS", "GNUPGHOME", "GPG_TTY", "TERM", "PINENTRY_USER_DATA"];

pub(super) fn fetch(path: &str, field: Option<&str>, surroundings: &Surroundings<'_>) -> Result<Secret, Why> {
    let mut call = Call::new(OsStr::new("pass"), surroundings)?.arguments(["show", path]);
    // Of a folder pass prints a list, as if that were an answer.
    let entries = surroundings.variable("PASSWORD_STORE_DIR");
    let entries = entries.map_or_else(|| surroundings.home.join(".password-store"), PathBuf::from);
    if !entries.join(format!("{path}.gpg")).is_file() {
        return Err(Why::NotFound);
    }
    for names in [PLAIN, DISPLAY, OWN] {
        call = call.pass(names, surroundings);
    }
    // Words that we recognise, in a language that has every letter.
    call = call.set("LC_ALL", "C.UTF-8");
    call = match surroundings.terminal {
        Some(terminal) => match rustix::termios::ttyname(terminal, Vec::new()) {
            Ok(name) => call.set("GPG_TTY", OsStr::new(name.to_string_lossy().as_ref())),
            Err(_) => call,
        },
        None if surroundings.can_ask() => call,
        // A locked key is reported at once, and no prompt waits where no person can see it.
        None => {
            let mut options: OsString =
                surroundings.variable("PASSWORD_STORE_GPG_OPTS").unwrap_or_default().into();
            options.push(" --batch --no-tty --pinentry-mode=error");
            call.set("PASSWORD_STORE_GPG_OPTS", options)
        }
    };
    let answer = call.may_ask(surroundings).answer()?;
    if !answer.succeeded() {
        return Err(
            if answer.said(&["pinentry", "passphrase", "cancelled", "canceled", "no secret key", "ioctl"]) {
                Why::Locked
            } else if answer.said(&["gpg: command not found", "gpg2: command not found"]) {
                Why::NotInstalled("gpg".to_owned())
            } else {
                answer.failure()
            },
        );
    }
    let value = match field {
        None => answer.out().split(|byte| *byte == b'\n').next().unwrap_or_default(),
        Some(field) => line_of(answer.out(), field).ok_or(Why::NoSuchPart)?,
    };
    text::checked(value.strip_suffix(b"\r").unwrap_or(value)).map(Secret::copy_of)
}

/// What stands behind `FIELD:`, in small or capital letters, below the first line.
fn line_of<'a>(entry: &'a [u8], field: &str) -> Option<&'a [u8]> {
    entry.split(|byte| *byte == b'\n').skip(1).find_map(|line| {
        let (name, value) = line.split_at_checked(field.len())?;
        let value = value.strip_prefix(b":")?;
        name.eq_ignore_ascii_case(field.as_bytes()).then(|| value.trim_ascii())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_a_line_below_the_first() {
        let entry = b"user: first\nUser: ann\nuser name: x\nurl: https://x.org:1\nempty:\n".as_slice();
        for (field, value) in [
            ("user", Some("ann")),
            ("url", Some("https://x.org:1")),
            ("empty", Some("")),
            ("name", None),
            ("user name", Some("x")),
        ] {
            assert_eq!(line_of(entry, field), value.map(str::as_bytes), "{field}");
        }
    }
}
