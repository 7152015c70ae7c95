//! Whose login it is, as the provider says where a program inside has logged in. An approver reads it: names of others are bounded, and hold
//! nothing that cannot be seen.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::fmt;

/// The most characters of a name.
const LONGEST: usize = 96;

/// An account of a provider.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Account {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Its owner chooses the name, so that it proves nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub organisation: Option<String>,
}

/// Where the names stand in an answer, and in the claims of its tokens; the first that is there counts.
const EMAILS: &[&[&str]] = &[
    &["account", "email_address"],
    &["account", "email"],
    &["email"],
    &["https://api.openai.com/profile", "email"],
];
const IDS: &[&[&str]] = &[
    &["account", "uuid"],
    &["account", "id"],
    &["https://api.openai.com/auth", "chatgpt_account_id"],
    &["chatgpt_account_id"],
    &["sub"],
];
const ORGANISATIONS: &[&[&str]] = &[&["organization", "name"], &["organization", "uuid"], &["hd"]];

impl Account {
    /// Reads the answer of a token endpoint. `tokens` are those in it: claims are read from them as they are, because they come from the host
    /// itself.
    pub fn of(answer: &Map<String, Value>, tokens: &[&str]) -> Account {
        let claims: Vec<Map<String, Value>> =
            tokens.iter().filter_map(|token| serde_json::from_str(&super::claims_of(token)?).ok()).collect();
        let all: Vec<&Map<String, Value>> = std::iter::once(answer).chain(&claims).collect();
        let find = |places: &[&[&str]], is_fit: fn(&str) -> bool| {
            let found = places.iter().flat_map(|place| all.iter().filter_map(|fields| at(fields, place)));
            found.map(str::to_owned).find(|text| is_fit(text))
        };
        Account {
            email: find(EMAILS, |text| is_plain(text) && text.contains('@')),
            id: find(IDS, is_plain),
            organisation: find(ORGANISATIONS, |text| (1..=LONGEST).contains(&text.chars().count())),
        }
    }

    /// Whether two logins that read the same are of one account.
    pub const fn is_known(&self) -> bool {
        self.email.is_some() || self.id.is_some()
    }
}

fn at<'a>(fields: &'a Map<String, Value>, place: &[&str]) -> Option<&'a str> {
    let (first, rest) = place.split_first()?;
    rest.iter().try_fold(fields.get(*first)?, |value, name| value.get(*name))?.as_str()
}

/// Whether it is one word that reads as it is.
fn is_plain(text: &str) -> bool {
    (1..=LONGEST).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

impl fmt::Display for Account {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let organisation = self.organisation.as_ref().map(|name| {
            let shown = crate::text::visible(name.as_ref());
            format!("organisation \"{}\"", shown.replace('"', "'"))
        });
        let id = self.id.as_ref().map(|id| format!("account {id}"));
        let (first, rest) = match (&self.email, id) {
            (Some(email), id) => (email.clone(), [id, organisation]),
            (None, Some(id)) => (id, [None, organisation]),
            (None, None) => ("an account without a name".to_owned(), [None, organisation]),
        };
        let rest: Vec<String> = rest.into_iter().flatten().collect();
        match rest.is_empty() {
            true => out.write_str(&first),
            false => write!(out, "{first} ({})", rest.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;
    use serde_json::json;

    fn of(answer: Value, tokens: &[&str]) -> Account {
        Account::of(answer.as_object().unwrap(), tokens)
    }

    fn jwt(claims: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        format!("{}.{}.signature", part(&json!({ "alg": "RS256" })), part(claims))
    }

    #[test]
    fn an_account_is_named_as_each_vendor_names_it() {
        let anthropic = json!({ "access_token": "x", "account": { "uuid": "a-1", "email_address": "ann@example.com" },
            "organization": { "uuid": "o-1", "name": "Acme" } });
        assert_eq!(of(anthropic, &[]).to_string(), "ann@example.com (account a-1, organisation \"Acme\")");
        let openai = jwt(&json!({ "email": "ann@example.com", "sub": "auth0|7",
            "https://api.openai.com/auth": { "chatgpt_account_id": "acc-7" } }));
        assert_eq!(of(json!({}), &[&openai]).to_string(), "ann@example.com (account acc-7)");
        let google =
            jwt(&json!({ "email": "ann@corp.example", "sub": "1234567890123456789", "hd": "corp.example" }));
        assert_eq!(
            of(json!({}), &["opaque", &google]).to_string(),
            "ann@corp.example (account 1234567890123456789, organisation \"corp.example\")"
        );
        assert_eq!(of(json!({ "account": { "uuid": "a-1" } }), &[]).to_string(), "account a-1");
    }

    #[test]
    fn an_account_without_a_name_is_called_so() {
        for answer in [
            json!({}),
            json!({ "account": "ann@example.com" }),
            json!({ "account": { "email_address": "", "uuid": 7 } }),
            json!({ "email": "ann@example.com\u{202e}moc" }),
            json!({ "email": "ann @example.com" }),
            json!({ "account": { "uuid": "x".repeat(LONGEST + 1) } }),
        ] {
            let account = of(answer.clone(), &[]);
            assert!(!account.is_known(), "{answer}");
            assert_eq!(account.to_string(), "an account without a name", "{answer}");
        }
        let named = of(json!({ "organization": { "name": "ann@example.com\" \u{202e}(yours)" } }), &[]);
        assert!(!named.is_known(), "the name of an organisation is its owner's choice");
        assert_eq!(
            named.to_string(),
            "an account without a name (organisation \"ann@example.com' \\u{202e}(yours)\")"
        );
    }
}
