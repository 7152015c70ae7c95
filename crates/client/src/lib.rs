//! The client of a session: finds its socket, connects, runs commands there, and relays streams, signals and terminals.
//!
//! The command line, shims in a cage and tests use it. It prints nothing of its own and chooses no exit code: errors are an enum, and
//! [`Person`] stands for the one who reads notices and answers questions. It runs in the client's process and touches the session socket,
//! the directories that sessions are found in, and the streams of its process.
#![forbid(unsafe_code)]

mod bridge;
mod connection;
mod error;
mod exec;
mod find;
mod screen;

pub use bridge::{AtEnd, bridge};
pub use connection::{Client, Decision, Person, Sender, Unattended};
pub use error::Error;
pub use exec::{Begun, Command, Ended, Finished, Tool, inbox};
pub use find::{Runtime, address, is_name, open_folder};
pub use screen::{Relay, Role, Screen};
