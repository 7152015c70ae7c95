//! Starting commands in cages: without a session by the executable, in one by a message to its socket.
//!
//! It runs in the program that links it, and starts no process but the launcher. Whatever is missing is an error: there is no ordinary
//! spawn to fall back to.

mod approvals;
mod child;
mod command;
mod error;
mod executable;
mod flags;
mod schema;
mod session;
mod streams;
mod tools;

pub use approvals::Question;
pub use child::{Child, ExitStatus, Output};
pub use command::Command;
pub use error::{Error, ErrorKind};
pub use keyward_protocol::session::Value;
pub use session::{Background, Judged, Options, Session, SessionCommand};
pub use streams::Stdio;
