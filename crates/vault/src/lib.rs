//! Secrets: where they come from, how they reach a child, and what is taken out of its output.
#![forbid(unsafe_code)]

pub mod redact;
