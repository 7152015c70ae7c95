//! Which items of the keyring are a program's own.

/// Attributes by which items may be named, and who finds its items by them. The first one is meant where a pattern names none.
pub const KEYS: &[(&str, &str)] = &[
    ("service", "gh and other users of go-keyring, codex and other users of keyring-rs, python's keyring"),
    ("server", "docker-credential-secretservice, git-credential-libsecret"),
    ("label", "docker-credential-secretservice, where it lists"),
    ("application", "programs built on Electron or Chromium"),
    ("xdg:schema", "users of libsecret that have a schema of their own"),
];

/// A value of an attribute, with at most one `*` that stands for any text: `gh:*`, `server=https://index.docker.io/*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    key: &'static str,
    start: String,
    /// What follows the star, if there is one.
    end: Option<String>,
}

/// Why a text is no pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternError {
    /// It names nothing, or everything.
    NamesNothing,
    /// It has more than one star.
    TwoStars,
}

impl Pattern {
    pub fn parse(text: &str) -> Result<Pattern, PatternError> {
        let named = text.split_once('=').and_then(|(name, value)| {
            KEYS.iter().find(|(key, _)| *key == name).map(|(key, _)| (*key, value))
        });
        let (key, value) = named.unwrap_or((KEYS[0].0, text));
        let (start, end) = match value.split_once('*') {
            Some((_, end)) if end.contains('*') => return Err(PatternError::TwoStars),
            Some((start, end)) => (start, Some(end)),
            None => (value, None),
        };
        if start.is_empty() && end.unwrap_or_default().is_empty() {
            return Err(PatternError::NamesNothing);
        }
        Ok(Pattern { key, start: start.to_owned(), end: end.map(str::to_owned) })
    }

    /// Whether a search for items with this attribute finds only items that the pattern names.
    pub fn fits(&self, key: &str, value: &str) -> bool {
        let fits_value = match &self.end {
            None => value == self.start,
            Some(end) => {
                value.strip_prefix(self.start.as_str()).is_some_and(|rest| rest.ends_with(end.as_str()))
            }
        };
        key == self.key && fits_value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_fits_its_own_values_and_no_others() {
        let cases = [
            ("gh:*", "service", "gh:github.com", true),
            ("gh:*", "service", "gh:", true),
            ("gh:*", "service", "gh", false),
            ("gh:*", "service", "xgh:github.com", false),
            ("gh:*", "server", "gh:github.com", false),
            ("gh:github.com", "service", "gh:github.com", true),
            ("gh:github.com", "service", "gh:github.com2", false),
            ("a*a", "service", "aa", true),
            ("a*a", "service", "a", false),
            ("server=https://*", "server", "https://index.docker.io/v1/", true),
            ("server=https://*", "service", "https://index.docker.io/v1/", false),
            ("service=server=x", "service", "server=x", true),
            ("unknown=x", "service", "unknown=x", true),
        ];
        for (text, key, value, expected) in cases {
            assert_eq!(Pattern::parse(text).unwrap().fits(key, value), expected, "{text} {key} {value}");
        }
    }

    #[test]
    fn a_pattern_that_names_everything_or_nothing_is_none() {
        for text in ["", "*", "service=*", "server="] {
            assert_eq!(Pattern::parse(text), Err(PatternError::NamesNothing), "{text}");
        }
        assert_eq!(Pattern::parse("a*b*"), Err(PatternError::TwoStars));
    }
}
