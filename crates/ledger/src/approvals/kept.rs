//! Approvals that are opened when they are needed, and closed for a fork.

use super::{Approvals, Trouble};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

/// The approvals of a state directory. A copy of this process must not share the open database: SQLite's locks belong to one process.
/// So a fork takes a [`Closed`], which exists only while the database is closed.
pub struct Kept {
    state: PathBuf,
    open: Option<Approvals>,
}

/// Proves that the database is closed for as long as it is borrowed.
pub struct Closed<'k>(PhantomData<&'k mut Approvals>);

impl Kept {
    /// Opens nothing yet.
    pub fn new(state: &Path) -> Self {
        Kept { state: state.into(), open: None }
    }

    /// Opens the database, unless it is open.
    pub fn get(&mut self) -> Result<&mut Approvals, Trouble> {
        match &mut self.open {
            Some(approvals) => Ok(approvals),
            none => Ok(none.insert(Approvals::open(&self.state)?)),
        }
    }

    /// Closes the database. It can be opened again once the proof is gone.
    pub fn closed(&mut self) -> Closed<'_> {
        self.open = None;
        Closed(PhantomData)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_database_is_closed_while_the_proof_lives_and_opens_again_after_it() {
        let state = tempfile::tempdir().unwrap();
        // SQLite removes the file when the last connection closes.
        let journal = state.path().join("approvals.db-wal");
        let mut kept = Kept::new(state.path());
        assert!(!super::super::path(state.path()).exists(), "nothing is opened before it is needed");
        kept.get().unwrap();
        assert!(journal.exists());
        {
            let _closed = kept.closed();
            assert!(!journal.exists());
        }
        kept.get().unwrap();
        assert!(journal.exists());
    }
}
