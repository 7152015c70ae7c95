//! The proxy with real sockets on loopback: the test takes the part of the launcher, of the vault and of the program in the cage; hosts are
//! servers of its own. The whole system, with cages, is tested in `crates/cli/tests`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod attacks;
mod credentials;
mod names;
mod origin;
mod renewals;
mod requests;
mod support;
mod tunnels;
