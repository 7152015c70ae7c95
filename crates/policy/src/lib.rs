//! What Keyward decides, and nothing else.
//!
//! `plan(&Policy, &Request, &HostFacts)` is the one decision function; enforcement, `explain`, `why` and the ledger all read
//! its result. This crate is pure: no files, no processes, no clock, no environment. What it needs arrives as an argument.
#![forbid(unsafe_code)]

pub mod settings;
pub mod words;
