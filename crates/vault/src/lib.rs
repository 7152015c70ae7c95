//! Where secrets come from, and the store that keeps some of them. Runs in `keyward:vault`, with one thread and no value in any message.
#![forbid(unsafe_code)]

pub mod keep;
pub mod process;
pub mod redemption;
pub mod secret;
pub mod source;
pub mod store;
mod terminal;
pub mod token;
