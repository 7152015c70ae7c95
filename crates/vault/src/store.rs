//! Keyward's own store: one age file per secret, so that fetching one never decrypts another.
//!
//! ```text
//! store/               0700
//!   store.toml         version = 1, and where the identity is: file, keyring, passphrase or plugin
//!   recipient          the public key that secrets are encrypted to
//!   identity           0600: the private key itself (file), or the line that names a key of a plugin (plugin)
//!   identity.sealed    0600: the private key, encrypted with a passphrase (passphrase)
//!   NAME.age           0600: one secret
//!   lock               held by the process that writes
//! ```
//!
//! These are plain age files: `age -d -i identity NAME.age` opens them without us. A file is replaced as a whole (written beside, brought to
//! the disk, renamed), so that a full disk or a kill leaves the old value. What is decrypted goes straight into the place of the secret.
//! When a value is encrypted, the age library keeps it in a buffer that it does not wipe; the caller of [`Store::set`] ends its process soon.

mod error;
mod folder;
mod identity;
mod plugin;
mod stanza;

pub use error::StoreError;

use crate::secret::{Buffer, LARGEST, Secret, Unread};
use crate::source::Surroundings;
use age::{Decryptor, Encryptor};
use folder::Folder;
use identity::Kept;
use keyward_policy::secret::SecretName;
use std::io::Write;
use std::path::Path;
use zeroize::Zeroizing;

/// An age file is larger than its content: a header, and 16 bytes for each 64 KiB.
const LARGEST_FILE: usize = LARGEST + 64 * 1024;

/// Where the identity of a store is, that is the private key that opens it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// In a file that only its owner can read. The root of the chain is the account.
    File,
    /// In the Secret Service. The root is the login, which unlocks it.
    Keyring,
    /// In a file that a passphrase opens. The root is in somebody's head.
    Passphrase,
    /// Behind an age plugin, such as for a TPM or a YubiKey. The root is the device.
    Plugin,
}

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::File, Kind::Keyring, Kind::Passphrase, Kind::Plugin];

    pub fn word(self) -> &'static str {
        match self {
            Kind::File => "file",
            Kind::Keyring => "keyring",
            Kind::Passphrase => "passphrase",
            Kind::Plugin => "plugin",
        }
    }

    pub fn from_word(word: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.word() == word)
    }
}

/// How a store is begun.
#[derive(Clone, Copy, Debug)]
pub enum Start<'a> {
    File,
    Keyring,
    Passphrase,
    /// An identity `AGE-PLUGIN-…` and its recipient `age1…`, as the plugin's own program has made them.
    Plugin {
        identity: &'a str,
        recipient: &'a str,
    },
}

impl Start<'_> {
    fn kind(&self) -> Kind {
        match self {
            Start::File => Kind::File,
            Start::Keyring => Kind::Keyring,
            Start::Passphrase => Kind::Passphrase,
            Start::Plugin { .. } => Kind::Plugin,
        }
    }
}

/// A store in its folder, which is that of the surroundings.
pub struct Store<'a> {
    surroundings: Surroundings<'a>,
}

impl<'a> Store<'a> {
    pub fn new(surroundings: &Surroundings<'a>) -> Self {
        Store { surroundings: *surroundings }
    }

    fn path(&self) -> &Path {
        self.surroundings.store
    }

    /// Makes the store, with a new identity.
    pub fn init(&self, start: Start<'_>) -> Result<(), StoreError> {
        let folder = Folder::make(self.path())?;
        let _lock = folder.lock(self.surroundings.limits.alone)?;
        if folder.kind()?.is_some() {
            return Err(StoreError::Exists);
        }
        // An identity without a store.toml is what a killed start has left. With secrets beside it, it is the key to them.
        if !folder.names()?.is_empty() {
            return Err(StoreError::Damaged("store.toml"));
        }
        let recipient = identity::make(&folder, start, &self.surroundings)?;
        folder.write("recipient", |file| writeln!(file, "{recipient}"))?;
        // Last: with it the store is there.
        let word = start.kind().word();
        folder.write("store.toml", |file| write!(file, "version = 1\nidentity = \"{word}\"\n"))
    }

    /// Where the identity is; `None` if there is no store yet.
    pub fn kind(&self) -> Result<Option<Kind>, StoreError> {
        match Folder::open(self.path()) {
            Ok(folder) => folder.kind(),
            Err(StoreError::Missing) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Keeps a value under a name, in the place of one that is there.
    pub fn set(&self, name: &SecretName, value: &Secret) -> Result<(), StoreError> {
        if value.length() == 0 {
            return Err(StoreError::Empty);
        }
        let (folder, kind) = self.open()?;
        let _lock = folder.lock(self.surroundings.limits.alone)?;
        let recipient = identity::recipient(&folder, kind, &self.surroundings)?;
        let encryptor = Encryptor::with_recipients(std::iter::once(recipient.as_age()));
        let encryptor = encryptor.map_err(|_| recipient.failure())?;
        folder.write(&file_of(name), |file| {
            let mut writer = encryptor.wrap_output(file)?;
            writer.write_all(value.expose())?;
            writer.finish().map(drop)
        })
    }

    /// Opens one secret, and no other.
    pub fn get(&self, name: &SecretName) -> Result<Secret, StoreError> {
        let (folder, kind) = self.open()?;
        let file = folder.read(&file_of(name), LARGEST_FILE).map_err(|error| match error {
            StoreError::Gone(_) => StoreError::NoSecret(name.clone()),
            error => error,
        })?;
        let identity = identity::open(&folder, kind, &self.surroundings)?;
        decrypt(file.bytes(), &identity, "the secret")
    }

    /// Forgets one.
    pub fn remove(&self, name: &SecretName) -> Result<(), StoreError> {
        let (folder, _) = self.open()?;
        let _lock = folder.lock(self.surroundings.limits.alone)?;
        folder.remove(&file_of(name)).map_err(|error| match error {
            StoreError::Gone(_) => StoreError::NoSecret(name.clone()),
            error => error,
        })
    }

    /// The names of all, in order. Nothing is decrypted for it.
    pub fn list(&self) -> Result<Vec<SecretName>, StoreError> {
        match Folder::open(self.path()) {
            Ok(folder) => folder.names(),
            Err(StoreError::Missing) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    fn open(&self) -> Result<(Folder, Kind), StoreError> {
        let folder = Folder::open(self.path())?;
        let kind = folder.kind()?.ok_or(StoreError::Missing)?;
        Ok((folder, kind))
    }
}

fn file_of(name: &SecretName) -> String {
    format!("{name}.age")
}

/// Decrypts into the place of a secret.
fn decrypt(file: &[u8], identity: &Kept<'_>, what: &'static str) -> Result<Secret, StoreError> {
    let decryptor = Decryptor::new_buffered(file).map_err(|_| StoreError::Damaged(what))?;
    let reader = decryptor.decrypt(std::iter::once(identity.as_age()));
    let mut reader = reader.map_err(|error| identity.failure(&error, what))?;
    let mut buffer = Buffer::new(LARGEST);
    match buffer.fill(&mut reader) {
        Ok(()) => Ok(buffer.into_secret()),
        Err(Unread::TooLarge | Unread::Io(_)) => Err(StoreError::Damaged(what)),
    }
}

/// Encrypts a short text into memory.
fn encrypted(text: &[u8], encryptor: Encryptor) -> std::io::Result<Zeroizing<Vec<u8>>> {
    let mut file = Zeroizing::new(Vec::new());
    let mut writer = encryptor.wrap_output(&mut *file)?;
    writer.write_all(text)?;
    writer.finish()?;
    Ok(file)
}
