//! The durable record: one JSON line per event, each chained to the one before by its digest, readable by its owner alone.
//!
//! Appending runs in the launcher and in sessions, reading in the command line. Touches its own files and nothing else.
#![forbid(unsafe_code)]

mod append;
pub mod approvals;
mod chain;
mod files;
mod gist;
mod index;
mod lock;
mod mend;
mod query;
mod record;
mod time;
mod verify;
pub mod witness;

pub use append::{Bounds, Ledger, Unrecorded};
pub use chain::{Digest, Head};
pub use files::path;
pub use gist::Filter;
pub use query::{Found, Reader};
pub use record::Record;
pub use time::{milliseconds, now, parse, run_name, time_of};
pub use verify::{Aside, AsideState, Bad, Kept, Known, Report, TornPlace, Wrong, head, verify};
