//! Values that cannot be taken out of a text without taking out much else: too short, or too common.

use keyward_protocol::vault::Said;

/// A shorter value would be found in innocent text.
pub(super) const SHORTEST: usize = 8;
/// A longer one is a file, not a credential; its encodings would fill the memory.
const LONGEST: usize = 64 * 1024;

/// A value that is not looked for. The value itself is not in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub name: String,
    pub reason: Reason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    Short,
    Long,
    /// One or two characters over and over.
    Repetitive,
    /// A word, or a number, that stands in many texts.
    Common,
}

impl Refused {
    /// As the vault tells it.
    pub fn said(&self) -> Said {
        let (fact, remedy) = self.lines();
        Said::Note { fact, remedy: remedy.into() }
    }

    /// The fact, and what can be done.
    pub fn lines(&self) -> (String, &'static str) {
        let reason = match self.reason {
            Reason::Short => "it has fewer than 8 bytes",
            Reason::Long => "it has more than 64 KiB",
            Reason::Repetitive => "it repeats the same characters",
            Reason::Common => "it is a common word or number",
        };
        let remedy = match self.reason {
            Reason::Long => "the output of commands that get it is shown as it is",
            _ => "choose a longer, random value; until then it is shown as it is printed",
        };
        (format!("{} is not taken out of output: {reason}", self.name), remedy)
    }
}

/// Why this value is not looked for.
pub(super) fn refusal(value: &[u8]) -> Option<Reason> {
    if value.len() < SHORTEST {
        return Some(Reason::Short);
    }
    if value.len() > LONGEST {
        return Some(Reason::Long);
    }
    let (first, last) = (value[0], value[value.len() - 1]);
    if value.iter().all(|byte| *byte == first || *byte == last) {
        return Some(Reason::Repetitive);
    }
    is_common(value).then_some(Reason::Common)
}

/// A word of the list in any case, also with digits or signs before or behind it (`Password123!`); a date or another short number.
fn is_common(value: &[u8]) -> bool {
    let digits = value.iter().filter(|byte| byte.is_ascii_digit()).count();
    let punctuation = value.iter().all(|byte| byte.is_ascii_digit() || b"-:./ ,_+".contains(byte));
    if punctuation && digits <= 10 {
        return true;
    }
    let Some(start) = value.iter().position(u8::is_ascii_alphabetic) else { return false };
    let end = value.iter().rposition(u8::is_ascii_alphabetic).unwrap_or(start);
    let word = &value[start..=end];
    // More around the word than a short number makes it something of its own.
    value.len() - word.len() <= 4
        && WORDS.split_ascii_whitespace().any(|known| word.eq_ignore_ascii_case(known.as_bytes()))
}

/// Words of eight letters and more that stand in logs, sources and settings, and words that people take for a password. A list, because
/// a rule ("looks like a word") would also refuse good passphrases. Shorter words are refused as short, or hold here
/// because of the digits behind them.
const WORDS: &str = include_str!("common-words.txt");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_common_and_repetitive_values_are_refused() {
        for (value, reason) in [
            ("", Reason::Short),
            ("hunter2", Reason::Short),
            ("aaaaaaaaaaaa", Reason::Repetitive),
            ("xyxyxyxyxy", Reason::Repetitive),
            ("********", Reason::Repetitive),
            ("password", Reason::Common),
            ("Password123!", Reason::Common),
            ("LOCALHOST", Reason::Common),
            ("production", Reason::Common),
            ("12345678", Reason::Common),
            ("2024-06-15", Reason::Common),
            ("127.0.0.1", Reason::Common),
        ] {
            assert_eq!(refusal(value.as_bytes()), Some(reason), "{value}");
        }
        assert_eq!(refusal(&vec![b'x'; LONGEST + 1]), Some(Reason::Long));
    }

    #[test]
    fn values_that_are_somebodys_secret_are_not() {
        for value in
            ["hunter22x", "correct horse", "f81d4fae", "4111 1111 1111 1111", "Tr0ub4dor&3", "database-7f31c"]
        {
            assert_eq!(refusal(value.as_bytes()), None, "{value}");
        }
    }

    #[test]
    fn a_refusal_tells_name_and_reason_and_what_to_do() {
        let refused = Refused { name: "db".into(), reason: Reason::Common };
        let (fact, remedy) = refused.lines();
        assert_eq!(fact, "db is not taken out of output: it is a common word or number");
        assert_eq!(remedy, "choose a longer, random value; until then it is shown as it is printed");
    }
}
