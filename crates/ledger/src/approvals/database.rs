//! The file: made, opened and known as ours.

use super::{Trouble, path, trouble};
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long we wait for others that use it. Each does so for some milliseconds.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

/// Looks often: who sleeps longer and longer is overtaken by all others.
fn wait(looks: i32) -> bool {
    const PAUSE: Duration = Duration::from_millis(1);
    std::thread::sleep(PAUSE);
    u32::try_from(looks).is_ok_and(|looks| PAUSE * looks < PATIENCE)
}

/// The same for what SQLite does not wait for: while several begin at once, one of them changes how the file is written.
fn patiently<T>(mut act: impl FnMut() -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    let mut looks = 0;
    loop {
        match act() {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) && wait(looks) => {
                looks += 1;
            }
            other => return other,
        }
    }
}

/// "kwap": what says that a database is ours.
const APPLICATION: i64 = 0x6b77_6170;
const VERSION: i64 = 1;

/// The smallest page there is: a database has one at least.
const SMALLEST: u64 = 512;

/// Questions: what is kept after the answer (`about`) has no texts of scripts. Numbers are never used again. Denials have a table of
/// their own, so that no number of other questions pushes one out.
const TABLES: &str = "
CREATE TABLE question (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'allowed', 'denied', 'used', 'over')),
    digest TEXT NOT NULL,
    session TEXT,
    about TEXT NOT NULL,
    texts TEXT,
    asker TEXT NOT NULL,
    asked INTEGER NOT NULL,
    until INTEGER NOT NULL,
    token BLOB,
    by TEXT,
    because TEXT
) STRICT;
CREATE INDEX question_state ON question (state);
CREATE TABLE granted (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    class TEXT,
    digest TEXT,
    scope TEXT NOT NULL,
    session TEXT,
    made INTEGER NOT NULL,
    seconds INTEGER NOT NULL,
    uses INTEGER NOT NULL,
    uses_left INTEGER NOT NULL CHECK (uses_left BETWEEN 0 AND uses),
    CHECK ((class IS NULL) <> (digest IS NULL))
) STRICT;
CREATE TABLE denied (
    session TEXT NOT NULL,
    what TEXT NOT NULL,
    class TEXT,
    digest TEXT NOT NULL,
    scope TEXT NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (session, what)
) STRICT;
";

/// The state folder, for its owner alone where we make it.
pub(super) fn make_folder(state: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(state)
}

pub(super) fn open(state: &Path) -> Result<(Connection, PathBuf), Trouble> {
    // The way to the folder may lead through links; the file itself may not be one.
    let folder = make_folder(state).and_then(|()| std::fs::canonicalize(state));
    let path = path(&folder.map_err(|cause| unusable_folder(state, &cause))?);
    own_file(&path)?;
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_NOFOLLOW
        | OpenFlags::SQLITE_OPEN_EXRESCODE;
    let told = |error: rusqlite::Error| trouble::of(&error, &path);
    let mut connection = Connection::open_with_flags(&path, flags).map_err(told)?;
    connection.busy_handler(Some(wait)).map_err(told)?;
    // Before anything is changed: what is not ours stays as it is.
    let is_new = identify(&connection, &path)?;
    patiently(|| prepare(&connection)).map_err(told)?;
    if is_new {
        fill(&mut connection).map_err(told)?;
        identify(&connection, &path)?;
    }
    Ok((connection, path))
}

fn unusable_folder(state: &Path, cause: &io::Error) -> Trouble {
    trouble::unusable(state, cause)
}

/// Makes the file with its mode, or looks whether it is a plain one of ours. It is not opened here: closing it would take the locks
/// away that another connection of this process has.
fn own_file(path: &Path) -> Result<(), Trouble> {
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match made {
        Ok(_) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(trouble::unusable(path, &error)),
    }
    let metadata = std::fs::symlink_metadata(path).map_err(|error| trouble::unusable(path, &error))?;
    if metadata.is_symlink() {
        return Err(trouble::not_ours(path, "a link"));
    }
    if !metadata.is_file() {
        return Err(trouble::not_ours(path, "no plain file"));
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(trouble::not_ours(path, "another user's"));
    }
    // SQLite would take it for an empty one, and write over it.
    if (1..SMALLEST).contains(&metadata.len()) {
        return Err(trouble::damaged(path));
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(trouble::not_ours(path, "open to others"));
    }
    Ok(())
}

/// Whether the file is empty. One that is neither empty nor ours is refused.
fn identify(connection: &Connection, path: &Path) -> Result<bool, Trouble> {
    let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    let look = || {
        // All of it at one moment: another may be making it.
        let _one = connection.unchecked_transaction()?;
        let objects = number("SELECT count(*) FROM sqlite_schema")?;
        Ok((number("PRAGMA application_id")?, number("PRAGMA user_version")?, objects))
    };
    match patiently(look).map_err(|error| trouble::of(&error, path))? {
        (0, 0, 0) => Ok(true),
        (APPLICATION, VERSION, _) => whole(connection, path).map(|()| false),
        (APPLICATION, version, _) if version > VERSION => Err(trouble::newer(path, version)),
        (APPLICATION, _, _) => Err(trouble::damaged(path)),
        _ => Err(trouble::not_ours(path, "a database of another program")),
    }
}

/// It is opened when a person is asked, so that there is time to look at all of it.
fn whole(connection: &Connection, path: &Path) -> Result<(), Trouble> {
    let found = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0));
    match found.map_err(|error| trouble::of(&error, path))?.as_str() {
        "ok" => Ok(()),
        _ => Err(trouble::damaged(path)),
    }
}

/// How it is written: a yes that was told is on the disk, and what is dropped is overwritten.
fn prepare(connection: &Connection) -> rusqlite::Result<()> {
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()))?;
    connection.execute_batch(
        "PRAGMA synchronous = FULL;
         PRAGMA secure_delete = ON;
         PRAGMA trusted_schema = OFF;
         PRAGMA cell_size_check = ON;
         PRAGMA temp_store = MEMORY;",
    )
}

/// The tables of a new file. Of several that begin at once, one makes them.
fn fill(connection: &mut Connection) -> rusqlite::Result<()> {
    let change = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let there: i64 = change.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if there == 0 {
        change.execute_batch(TABLES)?;
        change.pragma_update(None, "application_id", APPLICATION)?;
        change.pragma_update(None, "user_version", VERSION)?;
    }
    change.commit()
}
