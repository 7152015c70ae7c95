//! Approvals and grants: who waits for a yes, what was answered, and what a person has allowed beforehand. One SQLite file in the
//! state folder.
//!
//! Runs in the launcher, in sessions and in `keyward approvals`, never in a cage. Nothing is opened unless something has to be
//! asked. A yes takes effect in one order: the event is durable in the record, then the database says yes. So whatever says yes
//! takes a [`Record`], and calls it inside of the transaction: what is lost by a crash in between is the yes.

mod asker;
mod database;
mod grants;
mod kept;
mod questions;
mod trouble;
mod watch;

pub use grants::{For, Grant, NewGrant, TakenGrant};
pub use kept::{Closed, Kept};
pub use keyward_policy::trouble::Trouble;
pub use questions::{Answered, Entry, Size, State, Which};
pub use watch::{Watch, is_watched, watch};

use keyward_policy::event::{By, What};
use keyward_policy::gate::{Question, Reach};
use rusqlite::{Connection, Transaction, TransactionBehavior};
use std::path::{Path, PathBuf};

/// Records an event durably. The approver's process calls it before a yes takes effect.
pub type Record<'a> = &'a mut dyn FnMut(What) -> Result<(), Trouble>;

/// The open database. It is not for two processes: a process that forks holds it as [`Kept`].
pub struct Approvals {
    connection: Connection,
    path: PathBuf,
    clock: fn() -> u64,
}

/// Where approvals and grants are kept.
pub fn path(state: &Path) -> PathBuf {
    state.join("approvals.db")
}

/// Seconds since 1970.
pub fn clock() -> u64 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl Approvals {
    /// Opens the database in the state folder, making both when they are missing.
    pub fn open(state: &Path) -> Result<Self, Trouble> {
        let (connection, path) = database::open(state)?;
        Ok(Approvals { connection, path, clock })
    }

    /// The same with a clock of one's own.
    #[cfg(test)]
    fn with_clock(state: &Path, clock: fn() -> u64) -> Result<Self, Trouble> {
        Ok(Approvals { clock, ..Approvals::open(state)? })
    }

    /// A question that somebody waits for: this process. `until` is in seconds since 1970; `token` the SHA-256 of a token that can
    /// answer it once.
    pub fn ask(&mut self, question: &Question, until: u64, token: Option<[u8; 32]>) -> Result<u64, Trouble> {
        self.change(|now, change| questions::ask(change, now, question, until, token))
    }

    /// Whether one more question can be asked.
    pub fn has_room(&mut self, question: &Question) -> Result<bool, Trouble> {
        self.look(|now, look| questions::has_room(look, now, question))
    }

    /// One that was refused without asking anybody, so that a person can allow it for the next time.
    pub fn refused(&mut self, question: &Question, because: &str) -> Result<u64, Trouble> {
        self.change(|now, change| questions::refused(change, now, question, because))
    }

    /// What became of a question.
    pub fn state(&mut self, id: u64) -> Result<State, Trouble> {
        self.look(|now, look| questions::state(look, now, id))
    }

    /// Answers a question. The first answer wins, and only one that a living process waits for can be answered.
    pub fn answer(&mut self, id: u64, allow: bool, by: By, record: Record<'_>) -> Result<Answered, Trouble> {
        self.answer_reaching(id, allow, Reach::Once, by, record)
    }

    /// The same, and how far it reaches: a yes grants the very same bytes again, a no for the project counts for all of its rule.
    pub fn answer_reaching(
        &mut self,
        id: u64,
        allow: bool,
        reach: Reach,
        by: By,
        record: Record<'_>,
    ) -> Result<Answered, Trouble> {
        let said = (allow, reach);
        let answered = self.change(|now, change| questions::answer(change, now, id, said, by, record));
        self.forget_texts();
        answered
    }

    /// Answers the question that a token belongs to. A token is valid for one answer.
    pub fn answer_by_token(
        &mut self,
        token: &[u8],
        allow: bool,
        record: Record<'_>,
    ) -> Result<Answered, Trouble> {
        let answered = self.change(|now, change| match questions::by_token(change, token)? {
            Some(id) => questions::answer(change, now, id, (allow, Reach::Once), By::Webhook, record),
            None => Ok(Answered::Unknown),
        });
        self.forget_texts();
        answered
    }

    /// The asker takes the yes: once, for these bytes, and only the process that has asked.
    pub fn take(&mut self, id: u64, digest: &str) -> Result<bool, Trouble> {
        self.change(|_, change| questions::take(change, id, digest))
    }

    /// Ends a question without an answer: the time is over, the approver is gone, or the requester has withdrawn it.
    pub fn over(&mut self, id: u64, by: By) -> Result<(), Trouble> {
        let over = self.change(|now, change| questions::over(change, now, id, by));
        self.forget_texts();
        over
    }

    /// A person says yes beforehand. Gives the number of the grant.
    pub fn grant(&mut self, new: &NewGrant, record: Record<'_>) -> Result<u64, Trouble> {
        self.change(|now, change| grants::grant(change, now, new, record))
    }

    /// Answers yes and grants, both or neither.
    pub fn answer_and_grant(
        &mut self,
        id: u64,
        by: By,
        new: &NewGrant,
        record: Record<'_>,
    ) -> Result<(Answered, Option<u64>), Trouble> {
        let done = self.change(|now, change| {
            let answered = questions::answer(change, now, id, (true, Reach::Once), by, &mut *record)?;
            match answered {
                Answered::Now => Ok((answered, Some(grants::grant(change, now, new, record)?))),
                _ => Ok((answered, None)),
            }
        });
        self.forget_texts();
        done
    }

    /// Uses up one use of a grant that fits this question.
    pub fn take_grant(&mut self, question: &Question) -> Result<Option<TakenGrant>, Trouble> {
        self.change(|now, change| grants::take(change, now, question))
    }

    /// Whether a person has said no to the same rule in the same session, or never in this scope (the same bytes, where there is no
    /// rule), and has granted nothing of the kind since.
    pub fn denied_before(&mut self, question: &Question) -> Result<bool, Trouble> {
        self.look(|_, look| grants::denied_before(look, question))
    }

    /// Takes a no back that sticks to the rule of this question, in every session of its scope. Whether there was one.
    pub fn forget(&mut self, question: &Question) -> Result<bool, Trouble> {
        self.change(|_, change| grants::forget(change, question)).map(|forgotten| forgotten > 0)
    }

    /// The questions, the newest last.
    pub fn list(&mut self, which: Which) -> Result<Vec<Entry>, Trouble> {
        self.look(|now, look| questions::list(look, now, which))
    }

    /// One question, with its texts while it waits.
    pub fn get(&mut self, id: u64) -> Result<Option<Entry>, Trouble> {
        self.look(|now, look| questions::get(look, now, id))
    }

    /// The grants that are still worth something.
    pub fn grants(&mut self) -> Result<Vec<Grant>, Trouble> {
        self.look(|now, look| grants::list(look, now))
    }

    /// Takes a grant back. Whether there was one.
    pub fn revoke(&mut self, id: u64, record: Record<'_>) -> Result<bool, Trouble> {
        self.change(|now, change| grants::revoke(change, now, id, record))
    }

    /// One transaction that has the write lock from its beginning: what it looks at is what it changes.
    fn change<T>(
        &mut self,
        act: impl FnOnce(u64, &Transaction<'_>) -> Result<T, Failure>,
    ) -> Result<T, Trouble> {
        self.transact(TransactionBehavior::Immediate, act)
    }

    /// Runs a transaction that only reads, and so waits for no other process.
    fn look<T>(
        &mut self,
        act: impl FnOnce(u64, &Transaction<'_>) -> Result<T, Failure>,
    ) -> Result<T, Trouble> {
        self.transact(TransactionBehavior::Deferred, act)
    }

    fn transact<T>(
        &mut self,
        behaviour: TransactionBehavior,
        act: impl FnOnce(u64, &Transaction<'_>) -> Result<T, Failure>,
    ) -> Result<T, Trouble> {
        let (connection, clock) = (&mut self.connection, self.clock);
        let done = (|| {
            let transaction = connection.transaction_with_behavior(behaviour)?;
            // What it will look at is fixed by its first look. Only then the clock: it is never behind what others have written.
            transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))?;
            let value = act(clock(), &transaction)?;
            transaction.commit()?;
            Ok(value)
        })();
        done.map_err(|failure| match failure {
            Failure::Database(error) => trouble::of(&error, &self.path),
            Failure::Told(trouble) => trouble,
        })
    }

    /// Texts that are no longer in the database shall not stand in its journal either. Where others use it, the last one does this.
    fn forget_texts(&mut self) {
        let _ = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
    }
}

/// Why a transaction is given up.
enum Failure {
    Database(rusqlite::Error),
    Told(Trouble),
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Failure::Database(error)
    }
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Self {
        Failure::Told(trouble)
    }
}

/// Numbers as SQLite keeps them.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

#[cfg(test)]
mod tests;
