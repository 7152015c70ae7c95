//! Takes secrets out of what a child prints. A notice, not a wall: whoever wants to hide a value from it can.
//!
//! Lives in the process that holds the values anyway. [`Patterns`] are made once for a session, a [`Redactor`] once for each stream, and
//! [`relay`] moves one stream from a descriptor to another. Bytes that are not part of a secret pass as they are, whatever they are.
//! Nothing here writes a value anywhere but into memory that is wiped.

#[doc(hidden)]
pub mod definition;
mod encodings;
mod patterns;
mod refuse;
mod relay;
mod shapes;
mod stream;
#[cfg(test)]
mod tests;
mod wiped;

pub use encodings::Encoding;
pub use patterns::Patterns;
pub use refuse::{Reason, Refused};
pub use relay::{REST, Stream, Wants, relay};
pub use stream::{Found, Redactor, Show};
