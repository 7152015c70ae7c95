//! An age plugin, asked with age's protocol: to encrypt the key of a file to its recipient, and to open one with its identity.
//!
//! The library has a client of its own, behind a feature. It waits for ever, starts a thread, hands on the whole environment and prints
//! what is said if a variable asks for it; so this one is ours.

use super::StoreError;
use super::stanza::{self, NoStanza, Stanza};
use crate::secret::{Buffer, Unread};
use crate::source::program::{Call, DISPLAY, PLAIN, Running};
use crate::source::{Surroundings, Why};
use crate::terminal::{self, Echo};
use age::secrecy::ExposeSecret;
use age::{DecryptError, EncryptError};
use age_core::format::{FILE_KEY_BYTES, FileKey, Stanza as Wrapped};
use age_core::primitives::bech32_decode;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::OFlags;
use std::cell::RefCell;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::io::{self, Write};
use std::process::{ChildStdin, ChildStdout};
use std::time::Instant;
use zeroize::Zeroizing;

/// A longer message has no place in the protocol.
const LONGEST: usize = 64 * 1024;
/// A plugin that says more than this in one run talks nonsense.
const MOST_MESSAGES: usize = 256;

/// One identity or one recipient, and the program that knows it.
pub(super) struct Plugin<'a> {
    /// `age-plugin-NAME`.
    program: String,
    /// The identity or the recipient, in its text form. No secret: the key is in the device.
    text: String,
    surroundings: Surroundings<'a>,
    failure: RefCell<Option<StoreError>>,
}

impl<'a> Plugin<'a> {
    /// The plugin of an identity `AGE-PLUGIN-NAME-1…`.
    pub(super) fn of_identity(text: &str, surroundings: &Surroundings<'a>) -> Result<Self, StoreError> {
        let name = |prefix: &str| Some(prefix.strip_prefix("AGE-PLUGIN-")?.strip_suffix('-')?.to_lowercase());
        Plugin::new(text, name, "an identity", surroundings)
    }

    /// The plugin of a recipient `age1NAME1…`.
    pub(super) fn of_recipient(text: &str, surroundings: &Surroundings<'a>) -> Result<Self, StoreError> {
        let name = |prefix: &str| prefix.strip_prefix("age1").map(str::to_owned);
        Plugin::new(text, name, "a recipient", surroundings)
    }

    fn new(
        text: &str,
        name: impl Fn(&str) -> Option<String>,
        what: &'static str,
        surroundings: &Surroundings<'a>,
    ) -> Result<Self, StoreError> {
        let text = text.trim();
        let none = || StoreError::NotOfAPlugin(what);
        let prefix = bech32_decode(text, |_| none(), |_| Ok(()), |prefix, _| Ok(prefix.as_str().to_owned()))?;
        let plain = |name: &String| {
            let mut bytes = name.bytes();
            !name.is_empty()
                && bytes.all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.' | b'_'))
        };
        let name = name(&prefix).filter(plain).ok_or_else(none)?;
        let program = format!("age-plugin-{name}");
        Ok(Plugin {
            program,
            text: text.to_owned(),
            surroundings: *surroundings,
            failure: RefCell::default(),
        })
    }

    /// What went wrong, told once.
    pub(super) fn failure(&self) -> Option<StoreError> {
        self.failure.take()
    }

    fn talk(&self, mode: &str) -> Result<Talk<'a>, StoreError> {
        let call = Call::new(OsStr::new(&self.program), &self.surroundings)?
            .arguments([format!("--age-plugin={mode}")])
            .pass(PLAIN, &self.surroundings)
            .pass(DISPLAY, &self.surroundings)
            // A device may want to be touched, wherever one is.
            .limited(self.surroundings.limits.with_person);
        let mut running = call.converse()?;
        let (to, from) = (running.child.stdin.take(), running.child.stdout.take());
        let (Some(to), Some(from)) = (to, from) else { return Err(self.nonsense("could not be spoken to")) };
        for stream in
            [rustix::fs::fcntl_setfl(&to, OFlags::NONBLOCK), rustix::fs::fcntl_setfl(&from, OFlags::NONBLOCK)]
        {
            stream.map_err(Why::from)?;
        }
        let program = self.program.clone();
        Ok(Talk {
            program,
            running,
            to,
            from,
            incoming: Buffer::new(LONGEST),
            surroundings: self.surroundings,
            refused: false,
        })
    }

    fn nonsense(&self, why: &'static str) -> StoreError {
        StoreError::Plugin { program: self.program.clone(), why }
    }

    /// Opens the key of a file.
    fn unwrap(&self, stanzas: &[Wrapped]) -> Result<FileKey, StoreError> {
        let mut talk = self.talk("identity-v1")?;
        talk.send(&["add-identity", &self.text], b"")?;
        for stanza in stanzas {
            let mut words = vec!["recipient-stanza", "0", &stanza.tag];
            words.extend(stanza.args.iter().map(String::as_str));
            talk.send(&words, &stanza.body)?;
        }
        talk.send(&["done"], b"")?;
        let mut key = None;
        talk.listen(|stanza| match words(stanza).as_slice() {
            ["file-key", "0"] if stanza.body.len() == FILE_KEY_BYTES && key.is_none() => {
                key = Some(FileKey::init_with_mut(|key| key.copy_from_slice(&stanza.body)));
                Some(true)
            }
            ["file-key", ..] => Some(false),
            _ => None,
        })?;
        key.ok_or_else(|| talk.no())
    }

    /// Encrypts the key of a file.
    fn wrap(&self, key: &FileKey) -> Result<(Vec<Wrapped>, HashSet<String>), StoreError> {
        let mut talk = self.talk("recipient-v1")?;
        talk.send(&["add-recipient", &self.text], b"")?;
        talk.send(&["wrap-file-key"], key.expose_secret())?;
        talk.send(&["extension-labels"], b"")?;
        talk.send(&["done"], b"")?;
        let (mut stanzas, mut labels) = (Vec::new(), HashSet::new());
        talk.listen(|stanza| match words(stanza).as_slice() {
            ["recipient-stanza", "0", tag, rest @ ..] => {
                let args = rest.iter().map(|&word| word.to_owned()).collect();
                stanzas.push(Wrapped { tag: (*tag).to_owned(), args, body: stanza.body.to_vec() });
                Some(true)
            }
            ["recipient-stanza", ..] => Some(false),
            ["labels", rest @ ..] => {
                labels.extend(rest.iter().map(|&word| word.to_owned()));
                Some(true)
            }
            _ => None,
        })?;
        if stanzas.is_empty() { Err(talk.no()) } else { Ok((stanzas, labels)) }
    }
}

fn words(stanza: &Stanza) -> Vec<&str> {
    stanza.words.iter().map(String::as_str).collect()
}

impl age::Identity for Plugin<'_> {
    fn unwrap_stanza(&self, stanza: &Wrapped) -> Option<Result<FileKey, DecryptError>> {
        self.unwrap_stanzas(std::slice::from_ref(stanza))
    }

    fn unwrap_stanzas(&self, stanzas: &[Wrapped]) -> Option<Result<FileKey, DecryptError>> {
        Some(self.unwrap(stanzas).map_err(|error| {
            self.failure.replace(Some(error));
            DecryptError::KeyDecryptionFailed
        }))
    }
}

impl age::Recipient for Plugin<'_> {
    fn wrap_file_key(&self, key: &FileKey) -> Result<(Vec<Wrapped>, HashSet<String>), EncryptError> {
        self.wrap(key).map_err(|error| {
            self.failure.replace(Some(error));
            EncryptError::Io(io::ErrorKind::Other.into())
        })
    }
}

/// A conversation with the program.
struct Talk<'a> {
    program: String,
    running: Running<'a>,
    to: ChildStdin,
    from: ChildStdout,
    incoming: Buffer,
    surroundings: Surroundings<'a>,
    /// It wanted to ask, and nobody was there.
    refused: bool,
}

impl Talk<'_> {
    fn nonsense(&self, why: &'static str) -> StoreError {
        StoreError::Plugin { program: self.program.clone(), why }
    }

    /// It ended without what was wanted.
    fn no(&self) -> StoreError {
        if self.refused {
            StoreError::NobodyToAsk
        } else {
            self.nonsense("does not open the key of this file")
        }
    }

    fn send(&mut self, words: &[&str], body: &[u8]) -> Result<(), StoreError> {
        let message = stanza::written(words, body);
        let mut rest = &message[..];
        while !rest.is_empty() {
            self.running.wait(&mut [PollFd::new(&self.to, PollFlags::OUT)])?;
            match self.to.write(rest) {
                Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(_) => return Err(self.nonsense("ended too early")),
            }
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<Stanza, StoreError> {
        loop {
            match stanza::read(self.incoming.bytes()) {
                Ok(Some((stanza, length))) => {
                    self.incoming.consume(length);
                    return Ok(stanza);
                }
                Ok(None) => {}
                Err(NoStanza) => return Err(self.nonsense("does not speak the protocol of age")),
            }
            self.running.wait(&mut [PollFd::new(&self.from, PollFlags::IN)])?;
            match self.incoming.read_once(&mut self.from) {
                Ok(0) => return Err(self.nonsense("ended too early")),
                Ok(_) => {}
                Err(Unread::Io(error))
                    if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
                Err(_) => return Err(self.nonsense("does not speak the protocol of age")),
            }
        }
    }

    /// Hears what it says until it is done. `own` takes what it was asked for: whether it fits, or nothing for what is not its own.
    fn listen(&mut self, mut own: impl FnMut(&Stanza) -> Option<bool>) -> Result<(), StoreError> {
        let mut error = false;
        for _ in 0..MOST_MESSAGES {
            let stanza = self.receive()?;
            match own(&stanza) {
                Some(true) => self.send(&["ok"], b"")?,
                Some(false) => self.send(&["fail"], b"")?,
                None => match words(&stanza).as_slice() {
                    ["done"] if error && !self.refused => return Err(self.nonsense("reports an error")),
                    ["done"] => return Ok(()),
                    ["error", ..] => {
                        error = true;
                        self.send(&["ok"], b"")?;
                    }
                    ["msg"] => {
                        if let Some(terminal) = self.surroundings.terminal {
                            terminal::say(terminal, &String::from_utf8_lossy(&stanza.body));
                        }
                        self.send(&["ok"], b"")?;
                    }
                    ["request-secret"] => self.ask(&stanza, Echo::Hidden)?,
                    ["request-public"] => self.ask(&stanza, Echo::Shown)?,
                    ["confirm", ..] => self.confirm(&stanza)?,
                    _ => self.send(&["unsupported"], b"")?,
                },
            }
        }
        Err(self.nonsense("talks without an end"))
    }

    fn ask(&mut self, stanza: &Stanza, echo: Echo) -> Result<(), StoreError> {
        let Some(terminal) = self.surroundings.terminal else {
            self.refused = true;
            return self.send(&["fail"], b"");
        };
        let left = self.running.deadline().saturating_duration_since(Instant::now());
        let typed = terminal::ask(terminal, &String::from_utf8_lossy(&stanza.body), echo, left)?;
        self.send(&["ok"], typed.bytes())
    }

    fn confirm(&mut self, stanza: &Stanza) -> Result<(), StoreError> {
        let Some(terminal) = self.surroundings.terminal else {
            self.refused = true;
            return self.send(&["fail"], b"");
        };
        let left = self.running.deadline().saturating_duration_since(Instant::now());
        let question = format!("{} (yes or no)", String::from_utf8_lossy(&stanza.body));
        let typed: Zeroizing<Vec<u8>> =
            Zeroizing::new(terminal::ask(terminal, &question, Echo::Shown, left)?.bytes().to_vec());
        let yes = matches!(typed.to_ascii_lowercase().as_slice(), b"y" | b"yes");
        self.send(&["ok", if yes { "yes" } else { "no" }], b"")
    }
}
