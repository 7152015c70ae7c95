//! Secrets: where they come from, how they reach a child, and what is taken out of its output. Runs in `keyward:vault`, with one thread and no value
//! in any message.
#![forbid(unsafe_code)]

pub mod keep;
pub mod logins;
pub mod process;
pub mod redact;
mod redemption;
pub mod renew;
pub mod secret;
pub mod source;
pub mod store;
pub mod supply;
mod terminal;
pub mod token;
