//! Every message between Keyward's processes, and with its clients, with its codec.
//!
//! This crate touches memory only. Sockets and the descriptors that travel beside a message belong to the processes that speak.
#![forbid(unsafe_code)]

pub mod approval;
pub mod packet;
pub mod session;
pub mod spawner;
