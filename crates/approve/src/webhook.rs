//! A service that is asked by HTTPS, and whatever person or program answers behind it.
//!
//! `keyward:webhook` alone fetches the key, signs the question, has curl send it, and listens for the answer: in the response, or at an address
//! of this machine. Every answer is signed with the same key, wherever it comes from, and names the token of the question. The launcher
//! hears answers and failures, and never has the key.

mod listener;
mod process;
pub mod wire;

use crate::aside::{self, Aside};
use crate::site::Site;
use keyward_ledger::approvals::Closed;
use keyward_policy::gate::Question;
use keyward_policy::secret::{Entry, SecretName};
use keyward_sys::Errno;
use keyward_vault::secret::Secret;
use keyward_vault::source::{self, Limits, Surroundings};
pub use process::curl_is_there;
use rustix::fd::{AsFd, BorrowedFd};
use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::SystemTime;

/// The longest address that is taken.
const LONGEST_URL: usize = 2048;

/// The service, as the user has named it. Parsed once: what is in here can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    url: String,
    host: String,
    encrypted: bool,
    key_name: SecretName,
    listen: Option<SocketAddr>,
    ca: Option<PathBuf>,
}

/// What the launcher hears.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Heard {
    /// A signed answer to the question of this token: ours, or another one of this machine.
    Answer { token: [u8; 32], allow: bool },
    /// Something without the key, too old or malformed came to the listener. It goes on listening.
    Refused(String),
    /// The service is lost: the fact, and on a second line what can be done.
    Failed(String),
}

impl Webhook {
    /// The values of `gate.webhook`, `gate.webhook_key`, `gate.webhook_listen` and `gate.webhook_ca`. An error has two lines: the fact, then
    /// what can be done.
    pub fn parse(
        url: &str,
        key_name: SecretName,
        listen: Option<&str>,
        ca: Option<PathBuf>,
    ) -> Result<Self, String> {
        let (host, encrypted) = host(url).map_err(|fact| {
            format!(
                "{fact}\nwrite https://HOST/PATH, or http://127.0.0.1:PORT/PATH for a service of this machine"
            )
        })?;
        let listen = match listen {
            None => None,
            Some(text) => match text.parse::<SocketAddr>() {
                Ok(address) if address.ip().is_loopback() && address.port() != 0 => Some(address),
                _ => {
                    return Err("the webhook can only be answered at an address of this machine itself\n\
                        write 127.0.0.1:PORT or [::1]:PORT; let a server with TLS pass on what comes from elsewhere"
                        .into());
                }
            },
        };
        if ca.as_ref().is_some_and(|path| !path.is_absolute() || !is_plain(&path.to_string_lossy())) {
            return Err(
                "the CA of the webhook is not named by an absolute path\nwrite /PATH/OF/ca.pem".into()
            );
        }
        Ok(Webhook { url: url.into(), host: host.into(), encrypted, key_name, listen, ca })
    }

    /// Which secret signs.
    pub fn key_name(&self) -> &SecretName {
        &self.key_name
    }

    /// Where the question goes, without its path, which may be a secret of its own.
    pub fn host(&self) -> &str {
        &self.host
    }
}

/// Printable ASCII without what has a meaning in curl's configuration.
fn is_plain(text: &str) -> bool {
    text.bytes()
        .all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\' | b'<' | b'>' | b'^' | b'`'))
}

/// The host of an address that may be used, and whether the way there is encrypted.
fn host(url: &str) -> Result<(&str, bool), &'static str> {
    if url.len() > LONGEST_URL || !is_plain(url) || url.contains('#') {
        return Err("invalid webhook address");
    }
    let (encrypted, rest) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
        (Some(rest), _) => (true, rest),
        (_, Some(rest)) => (false, rest),
        _ => return Err("invalid webhook address: Keyward speaks only https, and http on this machine"),
    };
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err("invalid webhook address: it holds a name or a password");
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(inside) => inside.split_once(']').ok_or("invalid webhook address")?,
        None => authority.find(':').map_or((authority, ""), |place| authority.split_at(place)),
    };
    let is_port = |text: &str| text.parse::<u16>().is_ok_and(|port| port != 0) && !text.starts_with('+');
    if !(port.is_empty() || port.strip_prefix(':').is_some_and(is_port)) {
        return Err("invalid webhook address: the port is not valid");
    }
    let address: Option<IpAddr> = host.parse().ok();
    let is_name = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'));
    if host.is_empty() || !(is_name || address.is_some()) || (authority.starts_with('[') && address.is_none())
    {
        return Err("invalid webhook address: it has no host");
    }
    if !encrypted && !address.is_some_and(|address| address.is_loopback()) {
        return Err("the webhook would be asked without encryption");
    }
    Ok((host, encrypted))
}

/// A question that is on its way. Dropped, it ends the process and curl.
pub struct Handle {
    aside: Aside,
    over: bool,
}

/// Asks. `fetch` runs in the new process, and there alone: it gives the key.
pub fn start(
    webhook: &Webhook,
    question: &Question,
    id: u64,
    token: &[u8; 32],
    until: SystemTime,
    closed: &Closed<'_>,
    fetch: impl FnOnce() -> Result<Secret, String>,
) -> Result<Handle, String> {
    let asked = process::Asked { question, id, token, until };
    let aside = aside::start(c"keyward:webhook", closed, |desk| process::serve(desk, webhook, &asked, fetch));
    let remedy = "`keyward doctor` shows what this host can do";
    let aside = aside.map_err(|errno: Errno| format!("the webhook cannot be asked: {errno}\n{remedy}"))?;
    Ok(Handle { aside, over: false })
}

/// The value of the secret that signs, from the secrets that the user has. For a process that is there for nothing else.
pub(crate) fn key(
    known: &[Entry],
    name: &str,
    site: Site<'_>,
    environment: &[(OsString, OsString)],
) -> Result<Secret, String> {
    let Some(entry) = known.iter().find(|entry| entry.name.as_str() == name) else {
        return Err(format!("there is no secret {name}\nmake it with `keyward secret set {name}`"));
    };
    let variable = |name: &str| -> Option<&OsStr> {
        environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_os_str())
    };
    let surroundings = Surroundings {
        home: site.home,
        store: site.store,
        variable: &variable,
        terminal: None,
        limits: Limits::default(),
    };
    source::fetch(&entry.from, &surroundings).map_err(|error| error.to_string())
}

impl Handle {
    /// The next thing, waited for; wait for the descriptor first not to be kept. `None` after a failure.
    pub fn hear(&mut self) -> Option<Heard> {
        if self.over {
            return None;
        }
        let ended = || Heard::Failed("the process that asks the webhook has ended\ntry again".into());
        let heard = self.aside.hear().unwrap_or_else(ended);
        self.over = matches!(heard, Heard::Failed(_));
        Some(heard)
    }
}

impl AsFd for Handle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.aside.descriptor()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str, listen: Option<&str>) -> Result<Webhook, String> {
        Webhook::parse(url, SecretName::parse("hook").unwrap(), listen, None)
    }

    #[test]
    fn an_address_is_encrypted_or_of_this_machine() {
        let fine = [
            ("https://example.com/hook?a=b", "example.com"),
            ("https://example.com:8443", "example.com"),
            ("https://[2001:db8::1]/x", "2001:db8::1"),
            ("https://192.0.2.1/", "192.0.2.1"),
            ("http://127.0.0.1:9000/x", "127.0.0.1"),
            ("http://[::1]:9000/x", "::1"),
        ];
        for (url, host) in fine {
            assert_eq!(parse(url, None).map(|webhook| webhook.host), Ok(host.to_owned()), "{url}");
        }
        let others = [
            "",
            "example.com",
            "ftp://example.com/",
            "file:///etc/passwd",
            "http://example.com/",
            "http://localhost/",
            "http://127.0.0.1.example.com/",
            "http://192.168.0.1/",
            "https://",
            "https:///x",
            "https://user:pw@example.com/",
            "http://127.0.0.1@example.com/",
            "https://example.com:0/",
            "https://example.com:99999/",
            "https://example.com:+1/",
            "https://exa mple.com/",
            "https://example.com/\n-o x",
            "https://example.com/\"",
            "https://example.com/\\",
            "https://[example.com]/",
            "https://[::1/",
            "https://exämple.com/",
            "https://a,b/",
            "https://example.com/#x",
            "HTTP://example.com/",
        ];
        for url in others {
            let error = parse(url, None).unwrap_err();
            assert_eq!(error.lines().count(), 2, "{error}");
        }
        assert!(parse(&format!("https://example.com/{}", "x".repeat(LONGEST_URL)), None).is_err());
    }

    #[test]
    fn answers_are_heard_on_this_machine_alone() {
        let parse = |listen| parse("https://example.com/", Some(listen));
        assert!(parse("127.0.0.1:8765").is_ok() && parse("[::1]:8765").is_ok());
        for listen in
            ["0.0.0.0:8765", "192.0.2.1:8765", "[::]:8765", "localhost:8765", "127.0.0.1", "127.0.0.1:0", ""]
        {
            assert_eq!(parse(listen).unwrap_err().lines().count(), 2, "{listen}");
        }
    }
}
