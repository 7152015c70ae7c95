//! `keyward:proxy`: the process through which cages with network rules reach the network. It runs as a room of `keyward-services`.
//!
//! It accepts on sockets that were made inside the cages, answers their DNS, and holds the credentials that replace phantoms. Every decision is
//! one of [`keyward_policy::net`]. The messages are those of [`keyward_protocol::proxy`].
#![forbid(unsafe_code)]

pub mod read;

/// Serves until the process that started it goes away. Gives the exit code.
pub fn serve() -> i32 {
    125
}
