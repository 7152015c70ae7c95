//! What a single name, path, text or number must look like, wherever it was written.
//!
//! Nothing here repeats a variable's value or a text that should have been a name: either may be a secret.

use super::keys::{PathUse, TextUse};
use super::mistake::{Unfit, quoted};
use super::nearest::nearest;
use super::units;
use crate::detect::registry;
use crate::env;
use crate::secret::SecretName;
use std::path::{Component, Path};

/// The longest `NAME=value` with its end that the kernel hands to a program.
const LONGEST_VARIABLE: usize = 128 << 10;

/// A name such as `RUST_LOG`.
pub fn env_name(key: &str, name: &str) -> Result<(), Unfit> {
    if let Some(label) = registry::value_shape(name.as_bytes()) {
        return Err(Unfit::new(
            format!("{key} holds a credential where a name belongs ({label})"),
            "write the variable's name; a policy never holds the credential itself",
        ));
    }
    let mut bytes = name.bytes();
    let starts = bytes.next().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_');
    if starts && bytes.all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return Ok(());
    }
    Err(Unfit::new(
        format!("{key} holds something that is not the name of a variable"),
        "a name has letters, digits and underscores and does not begin with a digit; in lists, write names without values",
    ))
}

/// The name of a tool whose login is known.
pub fn tool(key: &str, name: &str) -> Result<(), Unfit> {
    if crate::tools::tool(name).is_some() {
        return Ok(());
    }
    let remedy = match crate::tools::nearest_tool(name) {
        Some(meant) => format!("did you mean {}", quoted(meant)),
        None => "`keyward home tools` lists those that are known; `files.read` shows single files of others"
            .to_owned(),
    };
    Err(Unfit::new(format!("{key}: unknown tool {}", quoted(name)), remedy))
}

/// A rule of the network, or a preset.
pub fn rule(key: &str, text: &str) -> Result<(), Unfit> {
    crate::net::allowed::Allowed::parse(text).map(|_| ()).map_err(|unfit| {
        let names = crate::net::presets::all().iter().map(|preset| preset.name);
        let remedy = match nearest(text, names).filter(|_| !text.contains('.')) {
            Some(meant) => format!("did you mean the preset {}", quoted(meant)),
            None => unfit.remedy,
        };
        Unfit { fact: format!("{key}: {}", unfit.fact), remedy }
    })
}

/// A port of a loopback.
pub fn port(key: &str, text: &str) -> Result<(), Unfit> {
    match text.parse::<u16>() {
        Ok(1..) => Ok(()),
        _ => Err(Unfit::new(format!("{key} holds an invalid port"), "a port is a number from 1 to 65535")),
    }
}

/// A variable that we set.
pub fn env_value(key: &str, name: &str, value: &str) -> Result<(), Unfit> {
    if value.chars().any(char::is_control) {
        let fact = format!("the value of {key}.{name} holds a control character");
        return Err(Unfit::new(fact, "write it without"));
    }
    if name.len() + "=".len() + value.len() + "\0".len() > LONGEST_VARIABLE {
        let fact = format!("the value of {key}.{name} is too long");
        return Err(Unfit::new(fact, "name and value together may have 128 KiB; put it into a file"));
    }
    Ok(())
}

/// A variable that the command line sets, as `NAME=VALUE`. What is not one may be a secret, and is not repeated.
pub fn env_pair(key: &str, entry: &str) -> Result<(String, String), Unfit> {
    let Some((name, value)) = entry.split_once('=') else {
        return Err(Unfit::new(
            "a variable is set as NAME=VALUE",
            "write both; `--pass NAME` passes on the variable that you have",
        ));
    };
    env_name(key, name)?;
    if crate::plan::OUR_VARIABLES.contains(&name) {
        let fact = format!("{name} cannot be set: Keyward gives every cage its own");
        return Err(Unfit::new(fact, "leave it out; `env NAME=VALUE CMD` as the command sets it inside"));
    }
    env_value(key, name, value)?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Whether a variable that is set looks like a credential. Where a socket or an account leads is the choice of the writer, and not a secret.
pub fn is_credential(name: &str, value: &str) -> bool {
    match env::looks_like_credential(name.as_bytes(), value.as_bytes()) {
        Some(env::Rule::Authority { .. }) => registry::value_shape(value.as_bytes()).is_some(),
        hit => hit.is_some(),
    }
}

/// A text without control characters.
pub fn plain(key: &str, text: &str) -> Result<(), Unfit> {
    if text.chars().any(char::is_control) {
        return Err(Unfit::new(
            format!("{key} holds a control character: {}", quoted(text)),
            "write it without",
        ));
    }
    Ok(())
}

/// Who wrote a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// A ceiling grants nothing: `/` and `~` only say how far a grant may go.
    Ceiling,
    /// A person, who may have meant a pattern.
    File,
    /// A shell, which expands patterns itself: what is left are characters of a name.
    Flag,
}

/// A pattern of names: `*` and `?`, without a folder.
pub fn is_name_pattern(text: &str) -> bool {
    text.contains(['*', '?']) && !text.contains(['/', '['])
}

/// A path as the policy takes it.
pub fn path(key: &str, path: &Path, purpose: PathUse, writer: Writer) -> Result<(), Unfit> {
    let text = path.to_string_lossy();
    plain(key, &text)?;
    // Only for a path that does not fit: there may be thousands that do.
    let shown = || quoted(&text);
    if path.as_os_str().is_empty() {
        return Err(Unfit::new(format!("{key} holds an empty path"), "write a path, or remove the entry"));
    }
    if writer != Writer::Flag
        && text.contains(['*', '?', '['])
        && !(purpose == PathUse::Hide && is_name_pattern(&text))
    {
        let fact = format!("{key} takes paths; patterns are not supported: {}", shown());
        let remedy = match purpose {
            PathUse::Hide => "a pattern is one of names, with `*` and `?` and without `/`, such as `*.key`",
            _ => "name the directory above, or each path",
        };
        return Err(Unfit::new(fact, remedy));
    }
    if path.components().any(|component| component == Component::ParentDir) {
        return Err(Unfit::new(format!("{key} does not accept `..`: {}", shown()), "write the path itself"));
    }
    let first = path.components().next();
    let tilde = matches!(first, Some(Component::Normal(name)) if name.to_string_lossy().starts_with('~'));
    let home = matches!(first, Some(Component::Normal(name)) if name == "~");
    if tilde && !home {
        let remedy = "only your own home has a short form, `~/`; write others from the root";
        return Err(Unfit::new(format!("{key} does not know {}", shown()), remedy));
    }
    if !path.is_absolute() && !home && !matches!(purpose, PathUse::Hide | PathUse::Show) {
        let remedy = "begin it with `/` or `~/`";
        return Err(Unfit::new(format!("{key} does not accept a relative path: {}", shown()), remedy));
    }
    let everything = (path.is_absolute() || home) && path.components().nth(1).is_none();
    if everything && purpose == PathUse::Write && writer != Writer::Ceiling {
        let remedy = "name the directories that need it, such as `~/scratch`";
        return Err(Unfit::new(format!("{key} does not take all of {}", shown()), remedy));
    }
    Ok(())
}

/// A limit in bytes.
/// A text that is for something.
pub fn text(key: &str, text: &str, purpose: TextUse) -> Result<(), Unfit> {
    // What is no address may be a secret, and is not repeated.
    if text.chars().any(|c| c.is_control() || c == ' ') {
        return Err(Unfit::new(format!("{key} holds a blank or a control character"), "write it without"));
    }
    match purpose {
        TextUse::Url => {
            let here = ["http://127.0.0.1", "http://[::1]"]
                .iter()
                .any(|here| text.strip_prefix(here).is_some_and(|rest| rest.starts_with([':', '/'])));
            match text.starts_with("https://") || here {
                true => Ok(()),
                false => Err(Unfit::new(
                    format!("{key} is not a usable address"),
                    "write `https://…`; `http://` is for 127.0.0.1 and [::1] alone",
                )),
            }
        }
        TextUse::Secret => match SecretName::parse(text) {
            Ok(_) => Ok(()),
            Err(_) => Err(Unfit::new(
                format!("{key} is not a valid secret name"),
                "`keyward secret list` shows them",
            )),
        },
        TextUse::Listen => match text.parse::<std::net::SocketAddr>() {
            Ok(address) if address.ip().is_loopback() => Ok(()),
            _ => Err(Unfit::new(
                format!("{key} is not an address of this host itself"),
                "write an address and a port, as in \"127.0.0.1:8765\"",
            )),
        },
    }
}

/// A program that is found without looking.
pub fn program(key: &str, text: &str) -> Result<(), Unfit> {
    if text.starts_with('/') {
        return Ok(());
    }
    Err(Unfit::new(
        format!("{key} does not begin with the absolute path of a program"),
        "write it as in [\"/usr/local/bin/judge\"]",
    ))
}

pub fn size(key: &str, bytes: u64, least: u64) -> Result<u64, Unfit> {
    if bytes >= least {
        return Ok(bytes);
    }
    Err(match least {
        1 => Unfit::new(format!("{key} cannot be 0"), "remove the key to have no limit"),
        _ => Unfit::new(
            format!("{key} cannot be {}, which lets no program start", units::spell_size(bytes)),
            format!("write \"{}\" or more; a number without a unit counts bytes", units::spell_size(least)),
        ),
    })
}

/// A limit that counts things.
pub fn count(key: &str, number: u64) -> Result<u64, Unfit> {
    match number {
        0 => Err(Unfit::new(format!("{key} cannot be 0"), "remove the key to have no limit")),
        _ => Ok(number),
    }
}

/// A profile's name, which also names a directory.
pub fn profile_name(name: &str) -> Result<(), Unfit> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let starts = name.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if starts && name.len() <= 64 && name.bytes().all(fits) {
        return Ok(());
    }
    Err(Unfit::new(
        format!("{} cannot name a profile", quoted(name)),
        "use up to 64 letters, digits, `-`, `_` and `.`, beginning with a letter or digit",
    ))
}
