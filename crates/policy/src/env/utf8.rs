//! Makes sure that text is UTF-8 for the child, so that output does not depend on what locale the caller happened to have.

use super::{Dropped, Environment, Rule, Value, Var};
use crate::words::Origin;
use std::ffi::OsStr;

/// The locale that every C library of the last decade has, and that changes nothing but the encoding.
const PLAIN: &str = "C.UTF-8";

/// Completes the environment. What the policy or the plan set by hand stays: a user who writes `LANG = "C"` means it.
pub(super) fn ensure(env: &mut Environment, caller: &[&[u8]]) {
    // Python decides by itself and earlier than the C library; without this, `LANG=C` inside a script would turn it to ASCII.
    if !env.vars.iter().any(|var| var.name == "PYTHONUTF8") {
        give(env, "PYTHONUTF8", "1");
    }
    // In the order of effect: the first that is set and not empty decides.
    for name in ["LC_ALL", "LC_CTYPE", "LANG"] {
        let Some(at) = env.vars.iter().position(|var| var.name == name) else { continue };
        let Some(utf8) = names_utf8(&env.vars[at], caller) else { continue };
        if utf8 || matches!(env.vars[at].value, Value::Ours(_)) {
            return;
        }
        env.vars.swap_remove(at);
        env.dropped.push(Dropped { name: name.to_owned(), rule: Rule::NotUtf8 });
    }
    // What is left of LANG is empty.
    env.vars.retain(|var| var.name != "LANG");
    give(env, "LANG", PLAIN);
}

fn give(env: &mut Environment, name: &str, value: &str) {
    let value = Value::Ours(value.into());
    env.vars.push(Var { name: name.to_owned(), value, rule: Rule::MadeUtf8, origin: Origin::Builtin });
}

/// Whether the variable's locale names UTF-8; nothing if it is empty, and so has no effect.
fn names_utf8(var: &Var, caller: &[&[u8]]) -> Option<bool> {
    let locale = match &var.value {
        Value::Ours(value) => OsStr::as_encoded_bytes(value),
        Value::Vault | Value::Phantom { .. } => return None,
        Value::Caller(index) => caller.get(*index)?.get(var.name.len() + 1..)?,
    };
    if locale.is_empty() { None } else { Some(is_utf8(locale)) }
}

/// `language_COUNTRY.charset@modifier`, or the charset alone.
fn is_utf8(locale: &[u8]) -> bool {
    let locale = locale.split(|byte| *byte == b'@').next().unwrap_or_default();
    let charset = locale.split(|byte| *byte == b'.').next_back().unwrap_or_default();
    charset.eq_ignore_ascii_case(b"utf-8") || charset.eq_ignore_ascii_case(b"utf8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locale_is_utf8_when_its_charset_says_so() {
        for locale in ["en_US.UTF-8", "C.UTF-8", "C.utf8", "de_DE.UTF-8@euro", "UTF-8"] {
            assert!(is_utf8(locale.as_bytes()), "{locale}");
        }
        for locale in ["C", "POSIX", "en_US", "de_DE@euro", "de_DE.ISO-8859-1", "x.UTF-16", ""] {
            assert!(!is_utf8(locale.as_bytes()), "{locale}");
        }
    }
}
