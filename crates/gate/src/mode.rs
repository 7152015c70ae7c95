//! What a mode makes of a verdict.

use crate::verdict::Verdict;

/// How a session treats verdicts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Ask only for what reaches past the cage.
    #[default]
    Auto,
    /// Ask also for what stays in it: the rules are [`crate::Rules::asking_for_all`].
    Ask,
    /// What would be asked is refused.
    Deny,
    /// A program outside may answer what would be asked.
    Judge,
    /// Nothing is asked. Set from outside only; the floor holds.
    Yolo,
}

/// What happens next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Step {
    Go,
    AskOperator,
    /// The program may say yes; otherwise the operator is asked.
    AskJudge,
    Refuse,
}

impl Mode {
    pub fn from_word(word: &str) -> Option<Mode> {
        match word {
            "auto" => Some(Mode::Auto),
            "ask" => Some(Mode::Ask),
            "deny" => Some(Mode::Deny),
            "judge" => Some(Mode::Judge),
            "yolo" => Some(Mode::Yolo),
            _ => None,
        }
    }

    pub fn step(self, verdict: Verdict) -> Step {
        match (verdict, self) {
            (Verdict::Forbid, _) => Step::Refuse,
            (Verdict::Allow, _) | (_, Mode::Yolo) => Step::Go,
            (Verdict::Deny, _) | (Verdict::Ask, Mode::Deny) => Step::Refuse,
            (Verdict::Ask, Mode::Judge) => Step::AskJudge,
            (Verdict::Ask, Mode::Auto | Mode::Ask) => Step::AskOperator,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODES: [Mode; 5] = [Mode::Auto, Mode::Ask, Mode::Deny, Mode::Judge, Mode::Yolo];

    #[test]
    fn no_mode_lifts_the_floor() {
        assert!(MODES.into_iter().all(|mode| mode.step(Verdict::Forbid) == Step::Refuse));
    }

    #[test]
    fn only_yolo_goes_past_what_would_be_asked_or_denied() {
        for mode in MODES {
            let goes = [Verdict::Ask, Verdict::Deny].map(|verdict| mode.step(verdict) == Step::Go);
            assert_eq!(goes, [mode == Mode::Yolo; 2], "{mode:?}");
            assert_eq!(mode.step(Verdict::Allow), Step::Go);
        }
        assert_eq!(Mode::Judge.step(Verdict::Ask), Step::AskJudge);
        assert_eq!(Mode::Deny.step(Verdict::Ask), Step::Refuse);
    }

    #[test]
    fn a_mode_is_known_by_its_word() {
        assert_eq!(Mode::from_word("judge"), Some(Mode::Judge));
        assert_eq!(Mode::from_word("Auto"), None);
    }
}
