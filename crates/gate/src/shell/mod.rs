//! The shell: a script is read, its variables are followed, and every command that it would run is judged.

mod braces;
mod consoles;
mod environ;
mod expand;
mod find;
mod git_settings;
mod output;
pub mod parse;
mod programs;
mod sed;
mod starts;
mod syntax;
mod variables;
mod walk;
mod word;
mod wrappers;

pub use output::decode_base64;
pub use walk::{Stream, Walker};
