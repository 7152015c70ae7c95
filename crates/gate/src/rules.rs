//! Rules: data with examples. `data/rules.toml` is built in; a user's own are added to it and can only make verdicts stricter.

mod load;

use crate::paths::Places;
use crate::text::Taint;
use crate::verdict::Language;
use keyward_policy::config::Mistake;
use keyward_policy::words::Verdict;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

/// One rule.
#[derive(Clone, Debug)]
pub struct Rule {
    pub id: String,
    pub class: String,
    pub verdict: Verdict,
    pub reason: String,
    pub language: Language,
    pub when: When,
    /// What it is about stays in the cage: counts only where everything is to be asked for.
    pub contained: bool,
    pub must: Vec<String>,
    pub must_not: Vec<String>,
}

/// When a rule applies: each condition that is there must hold.
#[derive(Clone, Debug, Default)]
pub struct When {
    /// Any of these; any at all if empty.
    pub programs: Vec<String>,
    pub except: Vec<String>,
    /// The first words, each one of its alternatives.
    pub sub: Vec<Vec<String>>,
    /// A word that fits one of these.
    pub any: Vec<String>,
    /// Options: each entry a list of alternatives, of which one is there.
    pub flags: Vec<Vec<Flag>>,
    pub no_flags: Vec<Vec<Flag>>,
    /// An argument of any kind that fits one of these.
    pub args: Vec<String>,
    pub no_args: Vec<String>,
    /// Words in this order in an argument or in the input, whatever stands between them.
    pub words: Vec<Vec<String>>,
    pub no_words: Vec<Vec<String>>,
    /// What one of the paths is, and what the same path is besides.
    pub places: Places,
    pub within: Places,
    /// Paths are the values of these options instead of the words.
    pub options: Vec<String>,
    pub last: bool,
    /// There is no word beyond `sub`.
    pub bare: bool,
    pub writes: Places,
    pub reads: Places,
    /// Words, input, or the values of `options` come from there.
    pub taint: Taint,
    pub fact: Option<String>,
    /// What cannot be seen does not count.
    pub seen_only: bool,
}

#[derive(Clone, Debug)]
pub struct Flag {
    pub name: String,
    pub value: Option<String>,
}

/// How a program reads its arguments.
#[derive(Clone, Debug, Default)]
pub struct Program {
    /// Options that take the next argument.
    pub values: Vec<String>,
    /// `-name` is one option and not five.
    pub single_dash: bool,
    /// `name=value` is an option.
    pub operands: bool,
}

/// A program that starts another one.
#[derive(Clone, Debug, Default)]
pub struct Wrapper {
    pub values: Vec<String>,
    /// With one of these it starts nothing.
    pub only_asks: Vec<String>,
    /// Words before the other program's name.
    pub skip: usize,
    /// The first words are its own command, if they are any of these.
    pub sub: Vec<String>,
    /// What it starts runs in a container: what is forbidden here may be right there.
    pub container: bool,
    /// What follows is one script for a shell, not a list of arguments.
    pub shell: bool,
}

/// A program that runs code.
#[derive(Clone, Debug)]
pub struct Interpreter {
    pub kind: Kind,
    /// Options that are followed by code.
    pub code: Vec<String>,
    pub values: Vec<String>,
    /// Options with which it runs no code of a file.
    pub stops: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    Known(Language),
    /// A language this crate cannot read: code may consist of these words.
    Little(Vec<String>),
}

/// How a function of a language runs something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Runs {
    /// The first argument is a shell line.
    Shell,
    /// The first argument is a list, or a shell line.
    Arguments,
    /// The first argument is a program, the second or the further ones its arguments.
    Program,
    /// The first argument is code.
    Code,
}

/// All rules, ready to be asked.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    pub(crate) rules: Vec<Rule>,
    /// Which rules name a program, a function as `language:name`, or a fact as `fact:name`.
    pub(crate) by_program: HashMap<Vec<u8>, Vec<usize>>,
    /// Those that name none.
    pub(crate) for_all: Vec<usize>,
    pub(crate) programs: HashMap<Vec<u8>, Program>,
    pub(crate) wrappers: HashMap<Vec<u8>, Wrapper>,
    pub(crate) interpreters: HashMap<Vec<u8>, Interpreter>,
    /// Programs, and which of their options hold a shell line.
    pub(crate) shell_options: HashMap<Vec<u8>, Vec<String>>,
    pub(crate) runners: HashMap<Vec<u8>, Runs>,
    /// Programs and functions whose output comes from the network.
    pub(crate) downloads: HashMap<Vec<u8>, ()>,
    pub(crate) asks_for_all: bool,
}

const BUILT_IN: &str = include_str!("../data/rules.toml");

impl Rules {
    /// The rules that come with Keyward.
    pub fn builtin() -> Arc<Rules> {
        static RULES: OnceLock<Arc<Rules>> = OnceLock::new();
        let load = || {
            let mut rules = Rules::default();
            // Its examples are checked by a test; a file that could not be read would leave no rule, and the test too.
            match load::read(&mut rules, "rules.toml", BUILT_IN) {
                Ok(_) => Arc::new(rules),
                Err(_) => Arc::default(),
            }
        };
        Arc::clone(RULES.get_or_init(load))
    }

    /// These rules and those of a file, whose examples must hold. `file` is its name for mistakes.
    pub fn with(&self, file: &str, toml: &str) -> Result<Rules, Vec<Mistake>> {
        let mut rules = self.clone();
        let places = load::read(&mut rules, file, toml)?;
        load::check_examples(&rules, file, toml, &places)?;
        Ok(rules)
    }

    /// The same rules, and those about what stays in the cage: what mode `ask` asks about.
    pub fn asking_for_all(&self) -> Rules {
        Rules { asks_for_all: true, ..self.clone() }
    }

    pub fn len(&self) -> usize {
        self.rules.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The classes that there are, sorted.
    pub fn classes(&self) -> Vec<&str> {
        let mut classes: Vec<&str> = self.rules.iter().map(|rule| rule.class.as_str()).collect();
        classes.sort_unstable();
        classes.dedup();
        classes
    }

    fn add(&mut self, rule: Rule) {
        let number = self.rules.len();
        let mut keys: Vec<Vec<u8>> = Vec::new();
        let prefix = match rule.language {
            Language::Shell => "",
            Language::Python => "python:",
            Language::JavaScript => "js:",
        };
        if let Some(fact) = &rule.when.fact {
            keys.push(format!("fact:{fact}").into_bytes());
        } else {
            keys.extend(rule.when.programs.iter().map(|program| format!("{prefix}{program}").into_bytes()));
        }
        for key in &keys {
            self.by_program.entry(key.clone()).or_default().push(number);
        }
        if keys.is_empty() {
            self.for_all.push(number);
        }
        self.rules.push(rule);
    }
}
