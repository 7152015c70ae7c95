//! The shell: a script is read, its variables are followed, and every command that it would run is judged.

mod braces;
mod environ;
mod expand;
mod output;
pub mod parse;
mod programs;
mod starts;
mod syntax;
mod variables;
mod walk;
mod word;
mod wrappers;

pub use output::decode_base64;
pub use walk::{Stream, Walker};
