//! Where secrets come from, and the store that keeps some of them. Runs in `keyward:vault`, with one thread and no value in any message.
#![forbid(unsafe_code)]

pub mod secret;
pub mod source;
