//! Which signals a client asked for.
//!
//! The bus never sees a client's match rules: with them it could ask for the letters of others, or take back what the filter itself needs to
//! hear. The filter asks the bus for all it may pass on, and these rules say which of that the client wants.

use super::filter::SECRETS;
use super::message::{Head, Kind};

/// One match rule. Conditions that only narrow further (`arg0` and the like) are not kept: a client looks at its signals again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    text: String,
    conditions: Vec<(Field, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Sender,
    Interface,
    Member,
    Path,
    PathNamespace,
}

/// No real client writes longer ones.
const LONGEST: usize = 2048;

impl Rule {
    /// `None` for what is no rule, and for one that wants anything but signals meant for everyone.
    pub(super) fn parse(text: &str) -> Option<Rule> {
        if text.len() > LONGEST {
            return None;
        }
        let mut conditions = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (key, after) = rest.split_once('=')?;
            let (value, after) = value(after)?;
            rest = after;
            let field = match key.trim() {
                "sender" => Field::Sender,
                "interface" => Field::Interface,
                "member" => Field::Member,
                "path" => Field::Path,
                "path_namespace" => Field::PathNamespace,
                "type" if value == "signal" => continue,
                key if key.starts_with("arg") => continue,
                _ => return None,
            };
            conditions.push((field, value));
        }
        Some(Rule { text: text.to_owned(), conditions })
    }

    pub(super) fn is(&self, text: &str) -> bool {
        self.text == text
    }

    /// Whether the client wants this signal. `owner` is who owns the keyring's name.
    pub(super) fn wants(&self, head: &Head<'_>, owner: Option<&str>) -> bool {
        let holds = |(field, value): &(Field, String)| match field {
            Field::Sender => value == head.sender || (value == SECRETS && owner == Some(head.sender)),
            Field::Interface => value == head.interface,
            Field::Member => value == head.member,
            Field::Path => value == head.path,
            Field::PathNamespace => {
                value == "/"
                    || head
                        .path
                        .strip_prefix(value.as_str())
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
        };
        head.kind == Kind::Signal && self.conditions.iter().all(holds)
    }
}

/// One value up to its comma: quotes hold commas, and outside of them `\'` is a quote itself.
fn value(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut quoted = false;
    let mut letters = text.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\'' => quoted = !quoted,
            ',' if !quoted => return Some((value, &text[at + 1..])),
            '\\' if !quoted && letters.peek().is_some_and(|(_, next)| *next == '\'') => {
                letters.next();
                value.push('\'');
            }
            _ => value.push(letter),
        }
    }
    if quoted { None } else { Some((value, "")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIGNAL: Head<'static> = Head {
        kind: Kind::Signal,
        flags: 0,
        serial: 1,
        path: "/org/freedesktop/secrets/prompt/p1",
        interface: "org.freedesktop.Secret.Prompt",
        member: "Completed",
        error_name: "",
        reply_serial: 0,
        destination: "",
        sender: ":1.1",
        signature: "",
        has_descriptors: false,
    };

    #[test]
    fn a_rule_wants_what_all_its_conditions_hold_for() {
        let cases = [
            ("", true),
            ("type='signal'", true),
            ("type='signal',sender='org.freedesktop.secrets',member='Completed'", true),
            ("sender=:1.1,interface='org.freedesktop.Secret.Prompt'", true),
            ("path_namespace='/org/freedesktop/secrets'", true),
            ("path_namespace='/org/freedesktop/secret'", false),
            ("member='Completed',arg0='elsewhere'", true),
            ("member='Dismissed'", false),
            ("sender=':1.2'", false),
            ("path='/org/freedesktop/secrets'", false),
        ];
        for (text, expected) in cases {
            assert_eq!(Rule::parse(text).unwrap().wants(&SIGNAL, Some(":1.1")), expected, "{text}");
        }
    }

    #[test]
    fn a_rule_for_the_letters_of_others_is_none() {
        for text in ["eavesdrop='true'", "type='method_call'", "destination=':1.7'", "member='open", "word"] {
            assert_eq!(Rule::parse(text), None, "{text}");
        }
    }
}
