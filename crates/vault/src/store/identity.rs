//! The key to the store: made, kept and opened in one of four ways.

use super::folder::Folder;
use super::plugin::Plugin;
use super::{Kind, Start, StoreError, decrypt, encrypted};
use crate::secret::{Buffer, Secret};
use crate::source::{Surroundings, keyring};
use crate::terminal::{self, Echo};
use age::secrecy::{ExposeSecret, SecretString};
use age::{DecryptError, Encryptor, scrypt, x25519};
use keyward_policy::secret::Attributes;
use std::io::Write;

/// The work of deriving a key from a passphrase: 2^18, about a second and 256 MiB, as the age program does.
const WORK: u8 = 18;
/// An identity that wants more work than this was not made by us.
const MOST_WORK: u8 = 20;
/// The longest file of an identity.
const LONGEST: usize = 16 * 1024;

/// An identity that is open.
pub(super) enum Kept<'a> {
    Own(x25519::Identity),
    Passphrase(scrypt::Identity),
    Plugin(Plugin<'a>),
}

impl Kept<'_> {
    pub(super) fn as_age(&self) -> &dyn age::Identity {
        match self {
            Kept::Own(identity) => identity,
            Kept::Passphrase(identity) => identity,
            Kept::Plugin(plugin) => plugin,
        }
    }

    /// Why it did not open `what`.
    pub(super) fn failure(&self, error: &DecryptError, what: &'static str) -> StoreError {
        match (self, error) {
            (Kept::Plugin(plugin), _) => plugin.failure().unwrap_or(StoreError::Damaged(what)),
            (
                Kept::Passphrase(_),
                DecryptError::DecryptionFailed
                | DecryptError::KeyDecryptionFailed
                | DecryptError::NoMatchingKeys,
            ) => StoreError::WrongPassphrase,
            _ => StoreError::Damaged(what),
        }
    }
}

/// What secrets are encrypted to.
pub(super) enum Recipient<'a> {
    Own(x25519::Recipient),
    Plugin(Plugin<'a>),
}

impl Recipient<'_> {
    pub(super) fn as_age(&self) -> &dyn age::Recipient {
        match self {
            Recipient::Own(recipient) => recipient,
            Recipient::Plugin(plugin) => plugin,
        }
    }

    /// Why it did not encrypt.
    pub(super) fn failure(&self) -> StoreError {
        let told = match self {
            Recipient::Own(_) => None,
            Recipient::Plugin(plugin) => plugin.failure(),
        };
        told.unwrap_or(StoreError::Damaged("recipient"))
    }
}

/// Makes a new identity and keeps it. Gives its recipient.
pub(super) fn make(
    folder: &Folder,
    start: Start<'_>,
    surroundings: &Surroundings<'_>,
) -> Result<String, StoreError> {
    if let Start::Plugin { identity, recipient } = start {
        Plugin::of_identity(identity, surroundings)?;
        Plugin::of_recipient(recipient, surroundings)?;
        folder.write("identity", |file| {
            writeln!(file, "# recipient: {}\n{}", recipient.trim(), identity.trim())
        })?;
        return Ok(recipient.trim().to_owned());
    }
    let identity = x25519::Identity::generate();
    let recipient = identity.to_public().to_string();
    let text = identity.to_string();
    match start {
        Start::Keyring => {
            let value = Secret::copy_of(text.expose_secret().as_bytes());
            keyring::save(&attributes(&recipient)?, "Keyward: the key to the store", &value, surroundings)?;
        }
        Start::Passphrase => {
            let mut sealed = scrypt::Recipient::new(new_passphrase(surroundings)?);
            sealed.set_work_factor(WORK);
            let encryptor = Encryptor::with_recipients(std::iter::once(&sealed as &dyn age::Recipient));
            let encryptor = encryptor.map_err(|_| StoreError::Damaged("identity.sealed"))?;
            let file = encrypted(text.expose_secret().as_bytes(), encryptor);
            let file = file
                .map_err(|error| StoreError::Io { what: "identity.sealed".to_owned(), kind: error.kind() })?;
            folder.write("identity.sealed", |place| place.write_all(&file))?;
        }
        Start::File | Start::Plugin { .. } => folder.write("identity", |file| {
            writeln!(file, "# recipient: {recipient}")?;
            file.write_all(text.expose_secret().as_bytes())?;
            file.write_all(b"\n")
        })?,
    }
    Ok(recipient)
}

/// Opens the identity; a person may be asked.
pub(super) fn open<'a>(
    folder: &Folder,
    kind: Kind,
    surroundings: &Surroundings<'a>,
) -> Result<Kept<'a>, StoreError> {
    match kind {
        Kind::File => own(folder.read("identity", LONGEST)?.bytes()).map(Kept::Own),
        Kind::Keyring => {
            let recipient = line(&folder.read("recipient", LONGEST)?, "recipient")?;
            let secret = keyring::fetch(&attributes(&recipient)?, surroundings)?;
            own(secret.expose()).map(Kept::Own)
        }
        Kind::Passphrase => {
            let file = folder.read("identity.sealed", LONGEST)?;
            let terminal = surroundings.terminal.ok_or(StoreError::NobodyToAsk)?;
            let typed = terminal::ask(
                terminal,
                "Passphrase of the store",
                Echo::Hidden,
                surroundings.limits.with_person,
            )?;
            let mut identity = scrypt::Identity::new(passphrase(&typed)?);
            identity.set_max_work_factor(MOST_WORK);
            let secret = decrypt(file.bytes(), &Kept::Passphrase(identity), "identity.sealed")?;
            own(secret.expose()).map(Kept::Own)
        }
        Kind::Plugin => {
            let identity = line(&folder.read("identity", LONGEST)?, "identity")?;
            Plugin::of_identity(&identity, surroundings).map(Kept::Plugin)
        }
    }
}

/// The recipient, from its file.
pub(super) fn recipient<'a>(
    folder: &Folder,
    kind: Kind,
    surroundings: &Surroundings<'a>,
) -> Result<Recipient<'a>, StoreError> {
    const NAME: &str = "recipient";
    let text = line(&folder.read(NAME, LONGEST)?, NAME)?;
    match kind {
        Kind::Plugin => Plugin::of_recipient(&text, surroundings).map(Recipient::Plugin),
        Kind::File => {
            // The key is at hand, so a recipient that is not its own is noticed.
            let own = own(folder.read("identity", LONGEST)?.bytes())?.to_public();
            if own.to_string() == text { Ok(Recipient::Own(own)) } else { Err(StoreError::Damaged(NAME)) }
        }
        Kind::Keyring | Kind::Passphrase => {
            text.parse().map(Recipient::Own).map_err(|_| StoreError::Damaged(NAME))
        }
    }
}

/// What the item of the keyring is found by; each store has its own.
fn attributes(recipient: &str) -> Result<Attributes, StoreError> {
    let pairs = [("service", "keyward"), ("username", recipient)];
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Attributes::new(pairs).map_err(|_| StoreError::Damaged("recipient"))
}

/// The first line that is no comment; of files that hold no secret.
fn line(buffer: &Buffer, what: &'static str) -> Result<String, StoreError> {
    let text = std::str::from_utf8(buffer.bytes()).map_err(|_| StoreError::Damaged(what))?;
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.next().map(str::to_owned).ok_or(StoreError::Damaged(what))
}

/// An identity of age's own kind, out of its file.
fn own(bytes: &[u8]) -> Result<x25519::Identity, StoreError> {
    let damaged = StoreError::Damaged("identity");
    let Ok(text) = std::str::from_utf8(bytes) else { return Err(damaged) };
    let mut lines = text.lines().map(str::trim);
    let line = lines.find(|line| !line.is_empty() && !line.starts_with('#'));
    line.and_then(|line| line.parse().ok()).ok_or(damaged)
}

/// What was typed, without a copy that stays: the text has its final size from the start.
fn passphrase(typed: &Buffer) -> Result<SecretString, StoreError> {
    let text = std::str::from_utf8(typed.bytes()).map_err(|_| StoreError::NoPassphrase)?;
    if text.is_empty() {
        return Err(StoreError::NoPassphrase);
    }
    Ok(SecretString::from(Box::<str>::from(text)))
}

fn new_passphrase(surroundings: &Surroundings<'_>) -> Result<SecretString, StoreError> {
    let terminal = surroundings.terminal.ok_or(StoreError::NobodyToAsk)?;
    let ask = |question| terminal::ask(terminal, question, Echo::Hidden, surroundings.limits.with_person);
    let first = ask("New passphrase of the store")?;
    let second = ask("The same again")?;
    if first.bytes() != second.bytes() {
        return Err(StoreError::NoPassphrase);
    }
    passphrase(&first)
}
