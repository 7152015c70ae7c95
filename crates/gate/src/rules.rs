//! Rules: data with examples. `data/rules.toml` is built in; a user's own are added to it and can only make verdicts stricter.

mod builtin;
pub mod kinds;
mod make;
mod read;
pub mod tables;

use crate::reach::Cage;
use crate::sight::Sight;
use crate::verdict::Language;
use keyward_policy::config::{Mistake, Unfit};
use keyward_policy::words::Verdict;
use kinds::{Decides, Needs, Tongue};
use read::Example;
use std::sync::Arc;
use tables::{Rule, Tables};

/// All rules, ready to be asked. A copy costs nothing.
#[derive(Clone, Debug)]
pub struct Rules {
    source: Source,
    asks_for_all: bool,
    weighs_losses: bool,
    takes_unclear: bool,
    cage: Cage,
    sight: Option<Arc<Sight>>,
}

#[derive(Clone, Debug)]
enum Source {
    BuiltIn,
    Read(Arc<Tables>),
}

impl Default for Rules {
    /// No rules at all.
    fn default() -> Self {
        Rules {
            source: Source::Read(Arc::default()),
            asks_for_all: false,
            weighs_losses: false,
            takes_unclear: false,
            cage: Cage::OPEN,
            sight: None,
        }
    }
}

impl Rules {
    /// The rules that come with Keyward.
    pub fn builtin() -> Rules {
        Rules { source: Source::BuiltIn, ..Rules::default() }
    }

    /// These rules and those of a file, whose examples must hold. `file` is its name for mistakes.
    pub fn with(&self, file: &str, toml: &str) -> Result<Rules, Vec<Mistake>> {
        let (tables, examples) = read::read(self.tables(), toml).map_err(|wrongs| {
            let all = wrongs.into_iter();
            all.map(|wrong| mistake(file, toml, wrong.at, Unfit::new(wrong.fact, wrong.remedy)))
                .collect::<Vec<_>>()
        })?;
        let rules = Rules { source: Source::Read(Arc::new(tables)), ..self.clone() };
        rules.check(file, toml, &examples)?;
        Ok(rules)
    }

    /// The same rules, and those about what stays in the cage: what mode `ask` asks about, whatever the cage is.
    pub fn asking_for_all(&self) -> Rules {
        Rules { asks_for_all: true, ..self.clone() }
    }

    /// The same rules for a command in this cage: what could do its harm only by reaching further is not asked about.
    /// What is denied or forbidden stays so in every cage.
    pub fn within(&self, cage: Cage) -> Rules {
        Rules { cage, ..self.clone() }
    }

    /// The same rules for a caller that knows what git would lose, and settles that with [`crate::with_scripts`]. Without it, what could lose
    /// something in the project is taken to do so.
    pub fn weighing_losses(&self) -> Rules {
        Rules { weighs_losses: true, ..self.clone() }
    }

    /// The same rules for a text of which only counts what is seen for certain.
    pub(crate) fn seen_only(&self) -> Rules {
        Rules { takes_unclear: true, ..self.clone() }
    }

    /// Whether what cannot be understood is let pass.
    pub(crate) fn takes_unclear(&self) -> bool {
        self.takes_unclear
    }

    /// The same rules for a command of which is known what it will find.
    pub fn seeing(&self, sight: Sight) -> Rules {
        Rules { sight: Some(Arc::new(sight)), ..self.clone() }
    }

    pub(crate) fn sight(&self) -> Option<&Arc<Sight>> {
        self.sight.as_ref()
    }

    /// Whether every rule counts, whatever the cage is.
    pub(crate) fn asks_for_all(&self) -> bool {
        self.asks_for_all
    }

    /// Whether what cannot be understood is asked about: it could reach for something outside.
    pub fn ask_about_unclear(&self) -> bool {
        !self.takes_unclear && (self.asks_for_all || !self.cage.reaches_nothing())
    }

    /// Whether a rule came with Keyward.
    pub(crate) fn is_built_in(&self, number: usize) -> bool {
        number < builtin::BUILT_IN.rules.len()
    }

    /// Whether what this rule finds is weighed by what is there to lose, instead of being taken to be lost.
    pub(crate) fn weighs(&self, rule: &Rule) -> bool {
        match rule.needs {
            needs if needs.known_work() => true,
            Needs::Changes | Needs::Untracked => {
                self.weighs_losses && !self.asks_for_all && self.cage.reaches_nothing()
            }
            Needs::Checkout => self.weighs_losses && self.cage.project,
            Needs::Content | Needs::Worktree => self.weighs_losses && !self.asks_for_all && self.cage.project,
            _ => false,
        }
    }

    pub fn len(&self) -> usize {
        self.tables().rules.len()
    }

    pub fn is_empty(&self) -> bool {
        self.tables().rules.is_empty()
    }

    /// The classes that there are, sorted.
    pub fn classes(&self) -> Vec<&str> {
        let tables = self.tables();
        let mut classes: Vec<&str> = tables.rules.iter().map(|rule| tables.text(rule.class)).collect();
        classes.sort_unstable();
        classes.dedup();
        classes
    }

    pub(crate) fn tables(&self) -> &Tables {
        match &self.source {
            Source::BuiltIn => &builtin::BUILT_IN,
            Source::Read(tables) => tables,
        }
    }

    /// Whether a rule is to be looked at for a command that runs there.
    pub(crate) fn counts(&self, rule: &Rule, runs: Runs) -> Counts {
        // Work elsewhere is not looked at.
        if rule.needs.known_work() && (!self.weighs_losses || runs != Runs::Here || !self.cage.project) {
            return Counts::Never;
        }
        if self.asks_for_all {
            return Counts::Always;
        }
        if rule.contained {
            return Counts::Never;
        }
        let nothing = self.cage.reaches_nothing();
        match (runs, rule.needs) {
            // The hard floor is everywhere.
            _ if rule.decides == Decides::Forbid => Counts::Always,
            // What of the machine is not in the cage cannot be harmed or read there.
            (Runs::Here, Needs::Machine) if !self.cage.machine => Counts::Never,
            (Runs::Here, Needs::Reach | Needs::Kept) if nothing => Counts::Never,
            _ if rule.decides == Decides::Deny => Counts::Always,
            (Runs::Elsewhere, _) if !self.cage.network => Counts::Never,
            // The daemon that starts containers is outside, or on another machine.
            (Runs::Contained, _) if nothing => Counts::Never,
            (Runs::Here, Needs::Network) if !self.cage.network => Counts::Never,
            (
                Runs::Here,
                Needs::Project
                | Needs::Kept
                | Needs::Changes
                | Needs::Untracked
                | Needs::Checkout
                | Needs::Content
                | Needs::Worktree,
            ) if !self.cage.project => {
                if self.cage.machine {
                    Counts::Outside
                } else {
                    Counts::Never
                }
            }
            _ => Counts::Always,
        }
    }

    /// Whether each rule that was just read matches what it must, and nothing that it must not.
    fn check(&self, file: &str, toml: &str, examples: &[Example]) -> Result<(), Vec<Mistake>> {
        let tables = self.tables();
        // An example is there for the rule itself, whatever the cage is.
        let anywhere = self.within(Cage::OPEN).weighing_losses();
        let mut mistakes = Vec::new();
        for example in examples {
            let rule = &tables.rules[example.rule];
            let found = crate::matched_rules(&anywhere, rule.tongue.into(), example.text.as_bytes());
            if found.contains(&example.rule) == example.must {
                continue;
            }
            let (id, text) = (tables.text(rule.id), &example.text);
            let unfit = match example.must {
                true => Unfit::new(
                    format!("rule \"{id}\" does not match its example {text:?}"),
                    "correct the conditions of the rule, or the example",
                ),
                false => Unfit::new(
                    format!("rule \"{id}\" matches {text:?}, which it must not"),
                    "narrow the conditions of the rule, or correct the example",
                ),
            };
            mistakes.push(mistake(file, toml, example.at, unfit));
        }
        if mistakes.is_empty() { Ok(()) } else { Err(mistakes) }
    }
}

/// Where a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    Here,
    /// In a container, which reaches what its own daemon lets it.
    Contained,
    /// On a machine that only the network leads to.
    Elsewhere,
}

/// Whether a rule is to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counts {
    Always,
    /// Only where the command acts outside of the project, which cannot be written.
    Outside,
    Never,
}

fn mistake(file: &str, toml: &str, offset: usize, unfit: Unfit) -> Mistake {
    let before = toml.get(..offset.min(toml.len())).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    Mistake { file: file.to_owned(), line, column, fact: unfit.fact, remedy: unfit.remedy }
}

impl From<Tongue> for Language {
    fn from(tongue: Tongue) -> Language {
        match tongue {
            Tongue::Shell => Language::Shell,
            Tongue::Python => Language::Python,
            Tongue::JavaScript => Language::JavaScript,
        }
    }
}

impl From<Decides> for Verdict {
    fn from(decides: Decides) -> Verdict {
        // The words are the same, and a verdict that had none would be the strictest.
        Verdict::parse(decides.as_str()).unwrap_or(Verdict::Forbid)
    }
}
