//! What Keyward decides, and nothing else.
//!
//! `plan(&Policy, &Request, &HostFacts)` is the one decision function; enforcement, `explain`, `why` and the ledger all read
//! its result. This crate is pure: no files, no processes, no clock, no environment. What it needs arrives as an argument.
#![forbid(unsafe_code)]

pub mod aftermath;
pub mod agent;
pub mod bare;
pub mod beside;
pub mod checkup;
pub mod config;
pub mod detect;
pub mod env;
pub mod event;
pub mod explain;
pub mod facts;
pub mod gate;
pub mod hint;
pub mod hook;
pub mod inputs;
pub mod inventory;
pub mod linux;
pub mod login;
pub mod loss;
pub mod mcp;
pub mod net;
pub mod outcome;
pub mod phantom;
pub mod place;
pub mod plan;
pub mod promise;
pub mod protection;
pub mod provider;
pub mod rendering;
pub mod request;
pub mod secret;
pub mod settings;
pub mod shims;
pub mod suggest;
pub mod text;
pub mod toolchains;
pub mod tools;
pub mod trouble;
pub mod untrusted;
pub mod view;
pub mod why;
pub mod witness;
pub mod words;
