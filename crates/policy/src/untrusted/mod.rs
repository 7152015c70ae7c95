//! Readers of what a command in a cage wrote: repositories, messages to the keyring, questions to a resolver. Whatever the bytes are, a
//! reader ends, and says what it did not understand. All of them are fuzzed.

pub mod git;
pub mod keyring;
pub mod lookup;
