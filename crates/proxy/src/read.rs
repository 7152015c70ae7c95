//! Readers of hostile bytes: DNS messages, TLS greetings, heads of requests. Each is pure and fuzzed.

pub mod dns;
pub mod head;
pub mod hello;
