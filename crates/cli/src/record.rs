//! The record, open for one run.

use crate::here::Here;
use keyward_ledger::{Ledger, Unrecorded};
use keyward_policy::event::{Event, What};

/// What one run writes down.
pub struct Record {
    pub ledger: Ledger,
    /// Its name in the record.
    pub run: String,
}

impl Record {
    pub fn open(here: &Here) -> Result<Self, Unrecorded> {
        let ledger = Ledger::open(&here.state)?;
        Ok(Record { ledger, run: keyward_ledger::run_name() })
    }

    pub fn write(&mut self, what: What) -> Result<(), Unrecorded> {
        self.ledger.append(&Event::new(keyward_ledger::now(), self.run.clone(), what))
    }
}
