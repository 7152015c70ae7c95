//! Agents that stay outside and send their tool calls into a session: what an agent tells its hook, and what it is answered.
//!
//! Pure, as all of this crate. `cli` reads the message, looks at files and sessions, and prints the answer.

mod answer;
mod call;
pub mod diff;
pub mod json;
mod readings;
pub mod servers;
pub mod settings;
pub mod wrapper;

pub use answer::{ABOUT_SESSION, BLOCKS, Decision, Denied, Rendered, refused_command, render};
pub use call::{Agent, Call, Event, Tool, read, session_name};
pub use readings::readings;
