//! Reads rules from TOML. What is wrong is said with its line and column.

use super::{Flag, Interpreter, Kind, Program, Rule, Rules, Runs, When, Wrapper};
use crate::paths::{NAMES, Places};
use crate::text::Taint;
use crate::verdict::Language;
use keyward_policy::config::{Mistake, Unfit};
use keyward_policy::words::Verdict;
use std::ops::Range;
use toml_edit::{Document, Item, Table, Value};

/// Number of each rule that was read, and where its examples stand: offset, whether it must match, number of the example.
pub type Examples = Vec<(usize, Vec<Range<usize>>, Vec<Range<usize>>)>;

const RULE_KEYS: &[&str] = &[
    "id",
    "class",
    "verdict",
    "reason",
    "language",
    "programs",
    "except",
    "sub",
    "any",
    "flags",
    "no_flags",
    "args",
    "no_args",
    "words",
    "no_words",
    "places",
    "within",
    "options",
    "last",
    "bare",
    "writes",
    "reads",
    "taint",
    "fact",
    "seen_only",
    "contained",
    "must",
    "must_not",
];

/// Reads a file into the rules.
pub fn read(rules: &mut Rules, file: &str, toml: &str) -> Result<Examples, Vec<Mistake>> {
    let document = match Document::parse(toml) {
        Ok(document) => document,
        Err(error) => {
            let offset = error.span().map_or(toml.len(), |span| span.start);
            let fact = format!("this is not valid TOML: {}", error.message());
            let remedy = "correct this line: texts stand in \"quotes\", lists in [brackets]";
            return Err(vec![mistake(file, toml, offset, Unfit::new(fact, remedy))]);
        }
    };
    let mut reader = Reader { file, toml, mistakes: Vec::new() };
    let mut places = Examples::new();
    for (section, item) in document.iter() {
        let Some(tables) = item.as_array_of_tables() else {
            reader.wrong(item.span(), format!("`{section}` is no list of tables"), "write `[[rule]]`");
            continue;
        };
        for table in tables {
            match section {
                "rule" => {
                    if let Some(rule) = reader.rule(table, rules) {
                        let spans = |key| reader.example_spans(table, key);
                        places.push((rules.rules.len(), spans("must"), spans("must_not")));
                        rules.add(rule);
                    }
                }
                "program" => reader.program(table, rules),
                "wrapper" => reader.wrapper(table, rules),
                "interpreter" => reader.interpreter(table, rules),
                "shell_option" => {
                    reader.keys(table, &["programs", "options"]);
                    let options = reader.texts(table, "options");
                    for name in reader.texts(table, "programs") {
                        rules.shell_options.insert(name.into_bytes(), options.clone());
                    }
                }
                "runner" => reader.runner(table, rules),
                "download" => {
                    reader.keys(table, &["programs"]);
                    for name in reader.texts(table, "programs") {
                        rules.downloads.insert(name.into_bytes(), ());
                    }
                }
                _ => {
                    let known =
                        "a section is rule, program, wrapper, interpreter, shell_option, runner or download";
                    reader.wrong(table.span(), format!("there is no section `{section}`"), known);
                }
            }
        }
    }
    if reader.mistakes.is_empty() { Ok(places) } else { Err(reader.mistakes) }
}

/// Whether each rule that was just read matches what it must, and nothing that it must not.
pub fn check_examples(rules: &Rules, file: &str, toml: &str, places: &Examples) -> Result<(), Vec<Mistake>> {
    let mut mistakes = Vec::new();
    for (number, must, must_not) in places {
        let rule = &rules.rules[*number];
        let found =
            |example: &str| crate::matched_rules(rules, rule.language, example.as_bytes()).contains(number);
        for (example, span) in rule.must.iter().zip(must).filter(|(example, _)| !found(example)) {
            let fact = format!("rule \"{}\" does not match its example {example:?}", rule.id);
            let unfit = Unfit::new(fact, "correct the conditions of the rule, or the example");
            mistakes.push(mistake(file, toml, span.start, unfit));
        }
        for (example, span) in rule.must_not.iter().zip(must_not).filter(|(example, _)| found(example)) {
            let fact = format!("rule \"{}\" matches {example:?}, which it must not", rule.id);
            let unfit = Unfit::new(fact, "narrow the conditions of the rule, or correct the example");
            mistakes.push(mistake(file, toml, span.start, unfit));
        }
    }
    if mistakes.is_empty() { Ok(()) } else { Err(mistakes) }
}

fn mistake(file: &str, toml: &str, offset: usize, unfit: Unfit) -> Mistake {
    let before = toml.get(..offset.min(toml.len())).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    Mistake { file: file.to_owned(), line, column, fact: unfit.fact, remedy: unfit.remedy }
}

struct Reader<'a> {
    file: &'a str,
    toml: &'a str,
    mistakes: Vec<Mistake>,
}

impl Reader<'_> {
    fn wrong(&mut self, span: Option<Range<usize>>, fact: impl Into<String>, remedy: impl Into<String>) {
        let offset = span.map_or(0, |span| span.start);
        self.mistakes.push(mistake(self.file, self.toml, offset, Unfit::new(fact, remedy)));
    }

    fn keys(&mut self, table: &Table, known: &[&str]) {
        for (key, item) in table.iter() {
            if !known.contains(&key) {
                let span = table.key(key).and_then(|key| key.span()).or(item.span());
                self.wrong(
                    span,
                    format!("there is no key `{key}`"),
                    format!("a key is {}", known.join(", ")),
                );
            }
        }
    }

    fn text(&mut self, table: &Table, key: &str) -> Option<String> {
        let item = table.get(key)?;
        if item.as_str().is_none() {
            self.wrong(item.span(), format!("`{key}` is no text"), "write it in \"quotes\"");
        }
        item.as_str().map(str::to_owned)
    }

    fn wanted(&mut self, table: &Table, key: &str) -> Option<String> {
        if table.get(key).is_none() {
            self.wrong(table.span(), format!("`{key}` is missing"), format!("add `{key} = \"…\"`"));
        }
        self.text(table, key)
    }

    fn flag(&mut self, table: &Table, key: &str) -> bool {
        let Some(item) = table.get(key) else { return false };
        item.as_bool().unwrap_or_else(|| {
            self.wrong(item.span(), format!("`{key}` is neither true nor false"), "write one of the two");
            false
        })
    }

    fn texts(&mut self, table: &Table, key: &str) -> Vec<String> {
        let Some(item) = table.get(key) else { return Vec::new() };
        let texts =
            item.as_array().map(|array| array.iter().map(Value::as_str).collect::<Option<Vec<&str>>>());
        match texts {
            Some(Some(texts)) => texts.into_iter().map(str::to_owned).collect(),
            _ => {
                self.wrong(item.span(), format!("`{key}` is no list of texts"), "write [\"…\", \"…\"]");
                Vec::new()
            }
        }
    }

    /// Where each text of a list stands.
    fn example_spans(&self, table: &Table, key: &str) -> Vec<Range<usize>> {
        let array = table.get(key).and_then(Item::as_array);
        array.into_iter().flatten().map(|value| value.span().unwrap_or_default()).collect()
    }

    fn places(&mut self, table: &Table, key: &str) -> Places {
        let mut places = Places::NONE;
        for word in self.texts(table, key) {
            match Places::from_word(&word) {
                Some(place) => places = places.and(place),
                None => {
                    let span = table.get(key).and_then(Item::span);
                    let known = format!("a place is {}", NAMES.join(", "));
                    self.wrong(span, format!("there is no place {word:?}"), known);
                }
            }
        }
        places
    }

    fn flags(&mut self, table: &Table, key: &str) -> Vec<Vec<Flag>> {
        let one = |text: &str| match text.split_once('=') {
            Some((name, value)) => Flag { name: name.to_owned(), value: Some(value.to_owned()) },
            None => Flag { name: text.to_owned(), value: None },
        };
        self.texts(table, key).iter().map(|entry| entry.split('|').map(one).collect()).collect()
    }

    fn rule(&mut self, table: &Table, rules: &Rules) -> Option<Rule> {
        let before = self.mistakes.len();
        self.keys(table, RULE_KEYS);
        let id = self.wanted(table, "id");
        let class = self.wanted(table, "class");
        let reason = self.wanted(table, "reason");
        let word = self.wanted(table, "verdict");
        let verdict = word.and_then(|word| {
            let verdict = Verdict::parse(&word).filter(|verdict| *verdict != Verdict::Allow);
            if verdict.is_none() {
                let span = table.get("verdict").and_then(Item::span);
                self.wrong(
                    span,
                    format!("there is no verdict {word:?} of a rule"),
                    "write ask, deny or forbid",
                );
            }
            verdict
        });
        let language = match self.text(table, "language") {
            None => Language::Shell,
            Some(word) => Language::from_word(&word).unwrap_or_else(|| {
                let span = table.get("language").and_then(Item::span);
                self.wrong(span, format!("there is no language {word:?}"), "write sh, python or js");
                Language::Shell
            }),
        };
        let taint = self.text(table, "taint").map_or(Taint::NONE, |word| {
            Taint::from_word(&word).unwrap_or_else(|| {
                let span = table.get("taint").and_then(Item::span);
                self.wrong(span, format!("there is no taint {word:?}"), "write download, secret or decoded");
                Taint::NONE
            })
        });
        let split = |texts: Vec<String>, at: char| -> Vec<Vec<String>> {
            texts.iter().map(|text| text.split(at).map(str::to_owned).collect()).collect()
        };
        let when = When {
            programs: self.texts(table, "programs"),
            except: self.texts(table, "except"),
            sub: split(self.texts(table, "sub"), '|'),
            any: self.texts(table, "any"),
            flags: self.flags(table, "flags"),
            no_flags: self.flags(table, "no_flags"),
            args: self.texts(table, "args"),
            no_args: self.texts(table, "no_args"),
            words: split(self.texts(table, "words"), ' '),
            no_words: split(self.texts(table, "no_words"), ' '),
            places: self.places(table, "places"),
            within: self.places(table, "within"),
            options: self.texts(table, "options"),
            last: self.flag(table, "last"),
            bare: self.flag(table, "bare"),
            writes: self.places(table, "writes"),
            reads: self.places(table, "reads"),
            taint,
            fact: self.text(table, "fact"),
            seen_only: self.flag(table, "seen_only"),
        };
        let contained = self.flag(table, "contained");
        let (must, must_not) = (self.texts(table, "must"), self.texts(table, "must_not"));
        if must.is_empty() && must_not.is_empty() {
            let remedy = "add `must = [\"a command\"]` and `must_not = [\"another\"]`";
            self.wrong(table.span(), "the rule has no examples", remedy);
        }
        if let Some(id) = &id
            && rules.rules.iter().any(|rule| rule.id == *id)
        {
            let span = table.get("id").and_then(Item::span);
            self.wrong(span, format!("there is a rule {id:?} already"), "give it another name");
        }
        if self.mistakes.len() > before {
            return None;
        }
        let (id, class, reason, verdict) = (id?, class?, reason?, verdict?);
        Some(Rule { id, class, verdict, reason, language, when, contained, must, must_not })
    }

    fn program(&mut self, table: &Table, rules: &mut Rules) {
        self.keys(table, &["programs", "values", "single_dash", "operands"]);
        let program = Program {
            values: self.texts(table, "values"),
            single_dash: self.flag(table, "single_dash"),
            operands: self.flag(table, "operands"),
        };
        for name in self.texts(table, "programs") {
            rules.programs.insert(name.into_bytes(), program.clone());
        }
    }

    fn wrapper(&mut self, table: &Table, rules: &mut Rules) {
        self.keys(table, &["programs", "values", "only_asks", "skip", "sub", "container", "shell"]);
        let skip = table.get("skip").and_then(Item::as_integer).unwrap_or(0);
        let wrapper = Wrapper {
            values: self.texts(table, "values"),
            only_asks: self.texts(table, "only_asks"),
            skip: usize::try_from(skip).unwrap_or(0),
            sub: self.texts(table, "sub"),
            container: self.flag(table, "container"),
            shell: self.flag(table, "shell"),
        };
        for name in self.texts(table, "programs") {
            rules.wrappers.insert(name.into_bytes(), wrapper.clone());
        }
    }

    fn interpreter(&mut self, table: &Table, rules: &mut Rules) {
        self.keys(table, &["programs", "language", "code", "values", "stops", "words"]);
        let language = self.text(table, "language");
        let kind = match language.as_deref().and_then(Language::from_word) {
            Some(language) => Kind::Known(language),
            None => {
                let lists = self.texts(table, "words");
                Kind::Little(lists.iter().flat_map(|words| words.split(' ')).map(str::to_owned).collect())
            }
        };
        let interpreter = Interpreter {
            kind,
            code: self.texts(table, "code"),
            values: self.texts(table, "values"),
            stops: self.texts(table, "stops"),
        };
        for name in self.texts(table, "programs") {
            rules.interpreters.insert(name.into_bytes(), interpreter.clone());
        }
    }

    fn runner(&mut self, table: &Table, rules: &mut Rules) {
        self.keys(table, &["language", "calls", "runs"]);
        let language = self.text(table, "language").unwrap_or_default();
        let runs = match self.text(table, "runs").as_deref() {
            Some("shell") => Runs::Shell,
            Some("arguments") => Runs::Arguments,
            Some("program") => Runs::Program,
            Some("code") => Runs::Code,
            _ => {
                return self.wrong(
                    table.span(),
                    "`runs` is missing",
                    "write shell, arguments, program or code",
                );
            }
        };
        for name in self.texts(table, "calls") {
            rules.runners.insert(format!("{language}:{name}").into_bytes(), runs);
        }
    }
}
