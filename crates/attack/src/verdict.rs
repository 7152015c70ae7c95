//! From two attempts to a verdict. Nothing here touches anything.

use serde::Serialize;

/// How one attempt went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tried {
    Succeeded,
    Failed { why: String },
}

/// What the two attempts of a probe say together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "verdict", content = "why")]
pub enum Verdict {
    /// It works outside and not inside.
    Held(String),
    /// It works on both sides.
    Leaked,
    /// It does not work outside either, so that a failure inside would say nothing.
    NotTried(String),
}

impl Verdict {
    /// What became of it outside and inside, in a word each.
    pub const fn sides(&self) -> (&'static str, &'static str) {
        match self {
            Verdict::Held(_) => ("works", "fails"),
            Verdict::Leaked => ("works", "works"),
            Verdict::NotTried(_) => ("fails", "not tried"),
        }
    }
}

/// One probe, judged.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub class: &'static str,
    pub name: &'static str,
    pub tries: &'static str,
    /// The promise that it runs against.
    pub kept_by: &'static str,
    /// Whether that is a wall, or a notice that takes away what it finds.
    pub kind: &'static str,
    pub outside: &'static str,
    pub inside: &'static str,
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// The last line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    pub attacks: usize,
    pub succeed_outside: usize,
    pub succeed_inside: usize,
    pub not_tried: usize,
}

/// Only a probe that works outside can be held inside.
pub fn verdict(outside: &Tried, inside: &Tried) -> Verdict {
    match (outside, inside) {
        (Tried::Failed { why }, _) => Verdict::NotTried(why.clone()),
        (Tried::Succeeded, Tried::Succeeded) => Verdict::Leaked,
        (Tried::Succeeded, Tried::Failed { why }) => Verdict::Held(why.clone()),
    }
}

/// Counts; what was not tried is no attack.
pub fn summary<'a>(verdicts: impl Iterator<Item = &'a Verdict>) -> Summary {
    let mut summary = Summary { attacks: 0, succeed_outside: 0, succeed_inside: 0, not_tried: 0 };
    for verdict in verdicts {
        match verdict {
            Verdict::NotTried(_) => summary.not_tried += 1,
            Verdict::Held(_) | Verdict::Leaked => {
                summary.attacks += 1;
                summary.succeed_outside += 1;
                summary.succeed_inside += usize::from(*verdict == Verdict::Leaked);
            }
        }
    }
    summary
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(why: &str) -> Tried {
        Tried::Failed { why: why.into() }
    }

    #[test]
    fn only_what_works_outside_and_fails_inside_is_held() {
        assert_eq!(verdict(&Tried::Succeeded, &failed("closed")), Verdict::Held("closed".into()));
        assert_eq!(verdict(&Tried::Succeeded, &Tried::Succeeded), Verdict::Leaked);
        assert_eq!(verdict(&failed("no such file"), &failed("")), Verdict::NotTried("no such file".into()));
        assert_eq!(verdict(&failed("refused"), &Tried::Succeeded), Verdict::NotTried("refused".into()));
    }

    #[test]
    fn what_was_not_tried_counts_neither_as_an_attack_nor_as_held() {
        let verdicts = [
            Verdict::Held("closed".into()),
            Verdict::Leaked,
            Verdict::NotTried("refused".into()),
            Verdict::Held("closed".into()),
        ];
        let expected = Summary { attacks: 3, succeed_outside: 3, succeed_inside: 1, not_tried: 1 };
        assert_eq!(summary(verdicts.iter()), expected);
    }
}
