//! The terminal of a command, as far as approving knows of it. The program that has one draws the question and chooses the words.

use keyward_policy::gate::{Question, Reach};
use std::time::SystemTime;

/// Where a person may be asked and told.
pub trait Terminal {
    /// Whether a person can be asked there now.
    fn can_ask(&self) -> bool;

    /// Asks the person; `None` if there is no terminal any more. Polls `elsewhere` about ten times a second: `Some` when another approver has
    /// answered.
    fn ask(
        &self,
        question: &Question,
        id: u64,
        until: SystemTime,
        elsewhere: &mut dyn FnMut() -> Option<bool>,
    ) -> Option<Reply>;

    /// Whether a person reads there what becomes of the command.
    fn is_read(&self) -> bool;

    /// Tells something in one line.
    fn note(&self, text: &str);

    /// Tells what went wrong: the fact, and on a second line what can be done.
    fn trouble(&self, text: &str);
}

impl<T: Terminal> Terminal for &T {
    fn can_ask(&self) -> bool {
        (**self).can_ask()
    }

    fn ask(
        &self,
        question: &Question,
        id: u64,
        until: SystemTime,
        elsewhere: &mut dyn FnMut() -> Option<bool>,
    ) -> Option<Reply> {
        (**self).ask(question, id, until, elsewhere)
    }

    fn is_read(&self) -> bool {
        (**self).is_read()
    }

    fn note(&self, text: &str) {
        (**self).note(text);
    }

    fn trouble(&self, text: &str) {
        (**self).trouble(text);
    }
}

/// No person is asked or told here.
pub struct NoTerminal;

impl Terminal for NoTerminal {
    fn can_ask(&self) -> bool {
        false
    }

    fn ask(
        &self,
        _question: &Question,
        _id: u64,
        _until: SystemTime,
        _elsewhere: &mut dyn FnMut() -> Option<bool>,
    ) -> Option<Reply> {
        None
    }

    fn is_read(&self) -> bool {
        false
    }

    fn note(&self, _text: &str) {}

    fn trouble(&self, _text: &str) {}
}

/// The result of asking a person on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Reply {
    Allow(Reach),
    Deny,
    /// No, and not asked again.
    Never,
    /// No answer came in time.
    Timeout,
    /// The terminal is gone, or was never ours, or we were told to end.
    Gone,
    /// Another approver has answered, or the question is no longer pending.
    Elsewhere(bool),
}

impl Reply {
    /// What a person has said, and how far it reaches.
    pub const fn said(self) -> Option<(bool, Reach)> {
        match self {
            Reply::Allow(reach) => Some((true, reach)),
            Reply::Deny => Some((false, Reach::Once)),
            Reply::Never => Some((false, Reach::Project)),
            Reply::Timeout | Reply::Gone | Reply::Elsewhere(_) => None,
        }
    }
}
