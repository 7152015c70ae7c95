//! What `keyward secret` does with values, in a process of the vault: keep, show, bring over, remove. Whoever asked learns names and
//! reasons, and never a value.

use crate::redact::{Patterns, Refused, relay};
use crate::secret::Secret;
use crate::source::{self, SourceError, Surroundings, Why, dotenv};
use crate::store::{Start, Store, StoreError};
use crate::terminal::{self, Echo};
use keyward_policy::env::looks_like_credential;
use keyward_policy::secret::{Entry, Part, Place, Reference, SecretName};
use keyward_policy::trouble::{Code, Trouble};
use rustix::fd::BorrowedFd;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;
use zeroize::Zeroizing;

/// How long a person may take to type a value.
const PATIENCE: Duration = Duration::from_secs(300);
/// The largest file that values are brought over from.
const LARGEST_FILE: usize = 1 << 20;

/// Makes a store if there is none: as is said, else with its identity in the keyring, else in a private file. Gives the word for it if it was
/// made now.
pub fn begin(
    surroundings: &Surroundings<'_>,
    start: Option<Start<'_>>,
) -> Result<Option<&'static str>, Trouble> {
    let store = Store::new(surroundings);
    let known = store.kind().map_err(Trouble::from)?;
    match (known, start) {
        (Some(_), Some(start)) => store.init(start).map(|()| None).map_err(Trouble::from),
        (Some(_), None) => Ok(None),
        (None, Some(start)) => {
            store.init(start).map_err(Trouble::from)?;
            made(&store)
        }
        (None, None) => match store.init(Start::Keyring) {
            Ok(()) => made(&store),
            // Without a keyring, or with one that stays closed.
            Err(_) => {
                store.init(Start::File).map_err(Trouble::from)?;
                made(&store)
            }
        },
    }
}

fn made(store: &Store<'_>) -> Result<Option<&'static str>, Trouble> {
    store.kind().map(|kind| kind.map(crate::store::Kind::word)).map_err(Trouble::from)
}

/// Keeps a value that is typed, or that comes from a pipe or a file.
pub fn set(surroundings: &Surroundings<'_>, name: &SecretName, input: BorrowedFd<'_>) -> Result<(), Trouble> {
    let value = match rustix::termios::isatty(input) {
        true => typed(input, name)?,
        false => read(input)?,
    };
    Store::new(surroundings).set(name, &value).map_err(Trouble::from)
}

fn typed(terminal: BorrowedFd<'_>, name: &SecretName) -> Result<Secret, Trouble> {
    let question = format!("Value of {name} (it is not shown)");
    let typed = terminal::ask(terminal, &question, Echo::Hidden, PATIENCE).map_err(|_| {
        Trouble::new(
            Code::SecretLocked,
            format!("nothing was typed for {name}"),
            "type the value, or pipe it in: `keyward secret set NAME < file`",
        )
    })?;
    Ok(typed.into_secret())
}

fn read(input: BorrowedFd<'_>) -> Result<Secret, Trouble> {
    struct Input<'a>(BorrowedFd<'a>);
    impl std::io::Read for Input<'_> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            Ok(rustix::io::read(self.0, into)?)
        }
    }
    let value = Secret::read(Input(input)).map_err(|_| {
        Trouble::new(
            Code::NoSecret,
            "the value could not be read, or has more than 64 KiB",
            "pipe in the value and nothing else",
        )
    })?;
    // As an editor or `echo` leaves it.
    Ok(value.without_last_newline())
}

/// Shows a value on a terminal, if the person there confirms it.
pub fn reveal(
    surroundings: &Surroundings<'_>,
    name: &SecretName,
    from: &Reference,
    terminal: BorrowedFd<'_>,
) -> Result<(), Trouble> {
    let question =
        format!("Show the value of {name} here, for everybody who sees this screen? Type its name to go on");
    let typed = terminal::ask(terminal, &question, Echo::Shown, PATIENCE).ok();
    if typed.is_none_or(|typed| typed.bytes() != name.as_str().as_bytes()) {
        return Err(Trouble::new(
            Code::SecretLocked,
            format!("the value of {name} was not shown"),
            "type the name of the secret to see it",
        ));
    }
    let value = source::fetch(from, surroundings).map_err(Trouble::from)?;
    let shown = rustix::io::write(terminal, value.expose()).and_then(|_| rustix::io::write(terminal, b"\n"));
    shown.map(drop).map_err(|_| Trouble::new(Code::File, "the terminal is gone", "open another one"))
}

/// Passes a stream on without the values of these secrets.
pub fn filter(
    surroundings: &Surroundings<'_>,
    secrets: &[Entry],
    input: BorrowedFd<'_>,
    output: BorrowedFd<'_>,
    note: &dyn Fn(&Refused),
) -> Result<(), Trouble> {
    let mut values = Vec::with_capacity(secrets.len());
    for entry in secrets {
        values.push(source::fetch(&entry.from, surroundings).map_err(Trouble::from)?);
    }
    let named = secrets.iter().zip(&values).map(|(entry, value)| (entry.name.as_str(), value.expose()));
    let (patterns, refused) = Patterns::new(named);
    drop(values);
    for refused in refused {
        note(&refused);
    }
    relay(input, output, &patterns).map(drop).map_err(|error| {
        Trouble::new(
            Code::File,
            format!("the stream broke off: {}", error.kind()),
            "look at where it comes from and where it goes",
        )
    })
}

/// Removes a value from the store; one that is not there is fine.
pub fn remove(surroundings: &Surroundings<'_>, name: &SecretName) -> Result<(), Trouble> {
    match Store::new(surroundings).remove(name) {
        Ok(()) | Err(StoreError::NoSecret(_) | StoreError::Missing) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A variable of a file that was brought over, and what its secret is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    pub variable: String,
    pub name: SecretName,
}

/// Brings the credentials of a `.env` file into the store. The file stays as it is. One that the store has already, with the same value,
/// counts as brought over.
pub fn import(
    surroundings: &Surroundings<'_>,
    file: &Path,
    known: &[Entry],
) -> Result<Vec<Imported>, Trouble> {
    let unread = unread(file);
    let text = source::file::read(file, LARGEST_FILE).map_err(&unread)?;
    let entries = dotenv::entries(text.bytes()).map_err(&unread)?;
    let store = Store::new(surroundings);
    let kept = store.list().map_err(Trouble::from)?;
    let mut imported: Vec<Imported> = Vec::new();
    let looks_secret = |entry: &&dotenv::Entry<'_>| {
        let written = entry.written;
        let is_value = !written.is_empty() && !is_reference(written);
        is_value && looks_like_credential(entry.name.as_bytes(), written).is_some()
    };
    let nothing_was_changed = |fact: String, remedy: String| Err(Trouble::new(Code::Usage, fact, remedy));
    for entry in entries.iter().filter(looks_secret) {
        let variable = entry.name;
        // Of two values one would be lost.
        if entries.iter().any(|other| other.name == variable && other.written != entry.written) {
            return nothing_was_changed(
                format!("{variable} is in the file more than once, with different values"),
                "leave the one that counts; nothing was changed".into(),
            );
        }
        if imported.iter().any(|known| known.variable == variable) {
            continue;
        }
        let name = SecretName::parse(&variable.to_lowercase().replace('_', "-")).map_err(Trouble::from)?;
        if let Some(other) = imported.iter().find(|known| known.name == name) {
            return nothing_was_changed(
                format!("{} and {variable} would both be called {name}", other.variable),
                "keep one of them with `keyward secret set NAME`, and remove it from the file; nothing was changed".into(),
            );
        }
        let is_known = known.iter().any(|entry| entry.name == name);
        let is_here = |entry: &Entry| entry.name == name && entry.from == Reference::Store(name.clone());
        let same = match kept.contains(&name) && known.iter().any(is_here) {
            true => {
                let value = dotenv::find(text.bytes(), variable).map_err(&unread)?;
                let kept = store.get(&name).map_err(Trouble::from)?;
                value.expose() == kept.expose()
            }
            false => false,
        };
        if !same && (is_known || kept.contains(&name)) {
            return nothing_was_changed(
                format!("there is a secret {name} already, with another value or from another source"),
                format!("`keyward secret rm {name}` removes it first; nothing was changed"),
            );
        }
        imported.push(Imported { variable: variable.to_owned(), name });
    }
    for Imported { variable, name } in imported.iter().filter(|new| !kept.contains(&new.name)) {
        let value = dotenv::find(text.bytes(), variable).map_err(&unread)?;
        store.set(name, &value).map_err(Trouble::from)?;
    }
    Ok(imported)
}

/// Puts references in the places of values that were brought over, once their entries are there.
pub fn blank(surroundings: &Surroundings<'_>, file: &Path, imported: &[Imported]) -> Result<(), Trouble> {
    let unread = unread(file);
    let text = source::file::read(file, LARGEST_FILE).map_err(&unread)?;
    let store = Store::new(surroundings);
    for Imported { variable, name } in imported {
        // What is taken out of the file has to be in the store, as it is there now.
        let value = dotenv::find(text.bytes(), variable).map_err(&unread)?;
        let kept = store.get(name).map_err(Trouble::from)?;
        if value.expose() != kept.expose() {
            return Err(Trouble::new(
                Code::Changed,
                format!("{variable} has changed meanwhile"),
                "the file is as it was; import it again",
            ));
        }
    }
    let reference = |variable: &str| {
        let known = imported.iter().find(|known| known.variable == variable)?;
        Some(Reference::Store(known.name.clone()).to_string())
    };
    let blanked = Zeroizing::new(dotenv::replaced(text.bytes(), &reference).map_err(&unread)?);
    replace(file, &blanked).map_err(|error| {
        Trouble::new(
            Code::File,
            format!(
                "{} could not be written: {}",
                keyward_policy::text::visible(file.as_os_str()),
                error.kind()
            ),
            "its values are in the store anyway; remove them from the file by hand",
        )
    })
}

/// Why a file of variables could not be read.
fn unread(file: &Path) -> impl Fn(Why) -> Trouble {
    let path = Place::Absolute(keyward_policy::text::visible(file.as_os_str()));
    let reference = Reference::File { path, part: Part::Whole };
    move |why| SourceError::new(&reference, why).into()
}

/// What an earlier one has left in the place of a value.
fn is_reference(written: &[u8]) -> bool {
    std::str::from_utf8(written).is_ok_and(|text| matches!(Reference::parse(text), Ok(Reference::Store(_))))
}

/// Puts a text in the place of a file as a whole, with the same rights.
fn replace(file: &Path, text: &[u8]) -> std::io::Result<()> {
    let real = std::fs::canonicalize(file)?;
    let folder = real.parent().ok_or(std::io::ErrorKind::InvalidInput)?;
    let beside = folder.join(format!(".keyward-import-{}", std::process::id()));
    let written = (|| {
        let mut new = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        let before = std::fs::metadata(&real)?;
        std::os::unix::fs::fchown(&new, Some(before.uid()), Some(before.gid()))?;
        new.set_permissions(before.permissions())?;
        new.write_all(text)?;
        new.sync_all()?;
        std::fs::rename(&beside, &real)
    })();
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    written
}
