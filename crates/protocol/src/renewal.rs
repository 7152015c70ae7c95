//! Between the proxy and its vault, on a socket of its own: tokens of a login are renewed by the proxy, and written into the real file by the
//! vault, before the command is answered.
//!
//! The proxy says [`Ask::Begin`]; the vault locks the file, makes room for a new one, and answers with the tokens that are in it now. Then the
//! proxy says [`Ask::Renewed`] with those that it got, or [`Ask::Leave`]. Fixed bytes and no JSON, so that no parser copies a value.

use zeroize::Zeroizing;

/// The most bytes of one token.
pub const LONGEST_TOKEN: usize = 16 << 10;
/// More bytes than any packet has.
pub const ROOM: usize = 5 * LONGEST_TOKEN + 256;

const BEGIN: u8 = 1;
const RENEWED: u8 = 2;
const LEAVE: u8 = 3;
const TOKENS: u8 = 4;
const DONE: u8 = 5;
const FAILED: u8 = 6;

/// The tokens of a login. Wiped when they are dropped.
#[derive(Default)]
pub struct Tokens {
    pub access: Option<Zeroizing<String>>,
    pub refresh: Option<Zeroizing<String>>,
    pub id: Option<Zeroizing<String>>,
    /// When the access token ends, in seconds since 1970.
    pub ends: Option<u64>,
    /// The account, where these replace the tokens of another one.
    pub account: Option<Zeroizing<String>>,
}

impl Tokens {
    fn write(&self, out: &mut Vec<u8>) {
        for token in [&self.access, &self.refresh, &self.id, &self.account] {
            let bytes = token.as_ref().map(|token| token.as_bytes()).unwrap_or_default();
            out.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(0).to_le_bytes());
            out.extend_from_slice(bytes);
        }
        out.extend_from_slice(&self.ends.unwrap_or(0).to_le_bytes());
    }

    fn read(mut bytes: &[u8]) -> Option<Tokens> {
        let mut token = || {
            let (length, rest) = bytes.split_first_chunk::<4>()?;
            let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
            let (text, rest) = rest.split_at_checked(length).filter(|_| length <= LONGEST_TOKEN)?;
            bytes = rest;
            let text = std::str::from_utf8(text).ok()?;
            Some((!text.is_empty()).then(|| Zeroizing::new(text.to_owned())))
        };
        let (access, refresh, id, account) = (token()?, token()?, token()?, token()?);
        let ends = u64::from_le_bytes(bytes.try_into().ok()?);
        Some(Tokens { access, refresh, id, ends: (ends != 0).then_some(ends), account })
    }
}

/// From the proxy. The number is the place of the login among those of the plan that are renewed.
pub enum Ask {
    Begin {
        login: u16,
    },
    /// These are in the place of the old ones from now on.
    Renewed {
        login: u16,
        tokens: Tokens,
    },
    /// Nothing was renewed.
    Leave {
        login: u16,
    },
}

impl Ask {
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        let (kind, login) = match self {
            Ask::Begin { login } => (BEGIN, login),
            Ask::Renewed { login, .. } => (RENEWED, login),
            Ask::Leave { login } => (LEAVE, login),
        };
        let mut out = Zeroizing::new(Vec::with_capacity(ROOM));
        out.push(kind);
        out.extend_from_slice(&login.to_le_bytes());
        if let Ask::Renewed { tokens, .. } = self {
            tokens.write(&mut out);
        }
        out
    }

    /// Reads a packet; `None` for anything else.
    pub fn decode(packet: &[u8]) -> Option<Ask> {
        let (&kind, rest) = packet.split_first()?;
        let (login, rest) = rest.split_first_chunk::<2>()?;
        let login = u16::from_le_bytes(*login);
        match kind {
            BEGIN if rest.is_empty() => Some(Ask::Begin { login }),
            LEAVE if rest.is_empty() => Some(Ask::Leave { login }),
            RENEWED => Some(Ask::Renewed { login, tokens: Tokens::read(rest)? }),
            _ => None,
        }
    }
}

/// From the vault: one answer to each.
pub enum Told {
    /// What is in the file now. To [`Ask::Renewed`] it means that the file has got another login meanwhile, which stays.
    Tokens(Tokens),
    Done,
    /// The fact, for people.
    Failed(String),
}

impl Told {
    pub fn encode(&self) -> Zeroizing<Vec<u8>> {
        let mut out = Zeroizing::new(Vec::with_capacity(ROOM));
        match self {
            Told::Tokens(tokens) => {
                out.push(TOKENS);
                tokens.write(&mut out);
            }
            Told::Done => out.push(DONE),
            Told::Failed(fact) => {
                out.push(FAILED);
                out.extend_from_slice(fact.as_bytes());
            }
        }
        out
    }

    /// Reads a packet; `None` for anything else.
    pub fn decode(packet: &[u8]) -> Option<Told> {
        let (&kind, rest) = packet.split_first()?;
        match kind {
            TOKENS => Some(Told::Tokens(Tokens::read(rest)?)),
            DONE if rest.is_empty() => Some(Told::Done),
            FAILED => Some(Told::Failed(std::str::from_utf8(rest).ok()?.to_owned())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens() -> Tokens {
        let token = |text: &str| Some(Zeroizing::new(text.to_owned()));
        Tokens {
            access: token("access"),
            refresh: token("refresh"),
            id: None,
            ends: Some(7),
            account: token("acc-1"),
        }
    }

    fn texts(tokens: &Tokens) -> [Option<&str>; 4] {
        [&tokens.access, &tokens.refresh, &tokens.id, &tokens.account]
            .map(|token| token.as_ref().map(|token| token.as_str()))
    }

    #[test]
    fn tokens_are_read_as_they_were_written() {
        let Some(Ask::Renewed { login: 3, tokens: read }) =
            Ask::decode(&Ask::Renewed { login: 3, tokens: tokens() }.encode())
        else {
            panic!()
        };
        assert_eq!(
            (texts(&read), read.ends),
            ([Some("access"), Some("refresh"), None, Some("acc-1")], Some(7))
        );
        let Some(Told::Tokens(read)) = Told::decode(&Told::Tokens(tokens()).encode()) else { panic!() };
        assert_eq!(texts(&read), [Some("access"), Some("refresh"), None, Some("acc-1")]);
        assert!(matches!(Ask::decode(&Ask::Begin { login: 1 }.encode()), Some(Ask::Begin { login: 1 })));
        assert!(matches!(Ask::decode(&Ask::Leave { login: 2 }.encode()), Some(Ask::Leave { login: 2 })));
        assert!(matches!(Told::decode(&Told::Done.encode()), Some(Told::Done)));
        let failed = Told::Failed("no room".into()).encode();
        assert!(matches!(Told::decode(&failed), Some(Told::Failed(fact)) if fact == "no room"));
    }

    #[test]
    fn anything_else_is_refused() {
        let whole = Ask::Renewed { login: 3, tokens: tokens() }.encode();
        for end in 0..whole.len() {
            assert!(Ask::decode(&whole[..end]).is_none(), "{end}");
        }
        assert!(Ask::decode(&[&whole[..], b"x"].concat()).is_none());
        assert!(Ask::decode(b"\x01\0\0x").is_none() && Ask::decode(b"\x09\0\0").is_none());
        assert!(Told::decode(b"").is_none() && Told::decode(b"\x05x").is_none());
    }
}
