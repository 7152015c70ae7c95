//! The record, open for one run.

use crate::{Ledger, Unrecorded};
use keyward_policy::event::{Event, What};
use std::path::Path;

/// What one run writes down.
pub struct Record {
    pub ledger: Ledger,
    /// Its name in the record.
    pub run: String,
}

impl Record {
    /// Opens the record in the state directory.
    pub fn open(state: &Path) -> Result<Self, Unrecorded> {
        Ok(Record { ledger: Ledger::open(state)?, run: crate::run_name() })
    }

    pub fn write(&mut self, what: What) -> Result<(), Unrecorded> {
        self.ledger.append(&Event::new(crate::now(), self.run.clone(), what))
    }
}
