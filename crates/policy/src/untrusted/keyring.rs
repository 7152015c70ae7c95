//! What a caged program may say to the user's keyring (the Secret Service on the D-Bus session bus), and what it may hear.
//!
//! `message` reads and writes single messages, `filter` decides about each one of a connection, `rule` knows which signals the program
//! asked for, `address` reads where the bus is. Names and interfaces are not enough for this: a client that may search the keyring may find
//! every password of the user. So the filter reads each search, lets pass only those for the program's own items, and remembers
//! which items their answers named; nothing else can be read. All of it is pure; the sockets are in `launch::keyring`.

pub mod address;
pub mod filter;
pub mod message;
mod pattern;
mod rule;

pub use address::BusAddress;
pub use filter::{Filter, Verdict};
pub use message::Message;
pub use pattern::{KEYS, Pattern, PatternError};
