//! Reads rules from TOML. What is wrong is said with the place where it stands.

use super::kinds::{Decides, Needs, PLACES, Places, Runs, Taint, Tongue};
use super::make::{Full, Maker};
use super::tables::{Interpreter, List, Program, Rule, Tables, Text, Wrapper};
use std::ops::Range;
use toml_edit::{Document, Item, Table, Value};

/// A mistake in a file of rules: at which byte, the fact, and what to do.
#[derive(Debug)]
pub struct Wrong {
    pub at: usize,
    pub fact: String,
    pub remedy: String,
}

/// A command that a rule must match, or must not, and where it stands.
pub struct Example {
    /// The number of the rule.
    pub rule: usize,
    pub text: String,
    pub must: bool,
    pub at: usize,
}

const RULE_KEYS: &[&str] = &[
    "id",
    "class",
    "verdict",
    "reason",
    "language",
    "needs",
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
    "sources",
    "writes",
    "reads",
    "taint",
    "fact",
    "seen_only",
    "contained",
    "must",
    "must_not",
];

/// The tables with what stands in a file, and the examples of its rules.
pub fn read(tables: &Tables, toml: &str) -> Result<(Tables, Vec<Example>), Vec<Wrong>> {
    let document = Document::parse(toml).map_err(|error| {
        let at = error.span().map_or(toml.len(), |span| span.start);
        let fact = format!("this is not valid TOML: {}", error.message());
        let remedy = "correct this line: texts stand in \"quotes\", lists in [brackets]".to_owned();
        vec![Wrong { at, fact, remedy }]
    })?;
    let mut reader =
        Reader { maker: Maker::after(tables), wrongs: Vec::new(), examples: Vec::new(), full: false };
    for (section, item) in document.iter() {
        let Some(tables) = item.as_array_of_tables() else {
            reader.wrong(item.span(), format!("`{section}` is not a list of tables"), "write `[[rule]]`");
            continue;
        };
        for table in tables {
            let added = match section {
                "rule" => reader.rule(table),
                "program" => reader.program(table),
                "wrapper" => reader.wrapper(table),
                "interpreter" => reader.interpreter(table),
                "shell_option" => reader.shell_option(table),
                "runner" => reader.runner(table),
                "download" => reader.download(table),
                _ => {
                    let known =
                        "a section is rule, program, wrapper, interpreter, shell_option, runner or download";
                    reader.wrong(table.span(), format!("there is no section `{section}`"), known);
                    Ok(())
                }
            };
            if added.is_err() {
                return Err(vec![too_many(table)]);
            }
        }
    }
    if !reader.wrongs.is_empty() {
        return Err(reader.wrongs);
    }
    let full = |_| vec![Wrong { at: toml.len(), fact: TOO_MANY.into(), remedy: FEWER.into() }];
    Ok((reader.maker.finish().map_err(full)?, reader.examples))
}

const TOO_MANY: &str = "there are more rules, or longer ones, than can be held";
const FEWER: &str = "write fewer rules, or shorter lists";

fn too_many(table: &Table) -> Wrong {
    let at = table.span().map_or(0, |span| span.start);
    Wrong { at, fact: TOO_MANY.into(), remedy: FEWER.into() }
}

struct Reader {
    maker: Maker,
    wrongs: Vec<Wrong>,
    examples: Vec<Example>,
    full: bool,
}

impl Reader {
    fn wrong(&mut self, span: Option<Range<usize>>, fact: impl Into<String>, remedy: impl Into<String>) {
        let at = span.map_or(0, |span| span.start);
        self.wrongs.push(Wrong { at, fact: fact.into(), remedy: remedy.into() });
    }

    fn keys(&mut self, table: &Table, known: &[&str]) {
        for (key, item) in table.iter() {
            if !known.contains(&key) {
                let span = table.key(key).and_then(|key| key.span()).or(item.span());
                let remedy = format!("a key is {}", known.join(", "));
                self.wrong(span, format!("there is no key `{key}`"), remedy);
            }
        }
    }

    fn string(&mut self, table: &Table, key: &str) -> Option<String> {
        let item = table.get(key)?;
        if item.as_str().is_none() {
            self.wrong(item.span(), format!("`{key}` is not a string"), "write it in \"quotes\"");
        }
        item.as_str().map(str::to_owned)
    }

    fn wanted(&mut self, table: &Table, key: &str) -> String {
        if table.get(key).is_none() {
            self.wrong(table.span(), format!("`{key}` is missing"), format!("add `{key} = \"…\"`"));
        }
        self.string(table, key).unwrap_or_default()
    }

    /// A word of a fixed set; none if it is not there, or wrong.
    fn word<T>(
        &mut self,
        table: &Table,
        key: &str,
        read: impl Fn(&str) -> Option<T>,
        known: &str,
    ) -> Option<T> {
        let word = self.string(table, key)?;
        let value = read(&word);
        if value.is_none() {
            let span = table.get(key).and_then(Item::span);
            self.wrong(span, format!("there is no {key} {word:?}"), format!("write {known}"));
        }
        value
    }

    fn flag(&mut self, table: &Table, key: &str) -> bool {
        let Some(item) = table.get(key) else { return false };
        item.as_bool().unwrap_or_else(|| {
            self.wrong(item.span(), format!("`{key}` is neither true nor false"), "write one of the two");
            false
        })
    }

    fn strings(&mut self, table: &Table, key: &str) -> Vec<String> {
        let Some(item) = table.get(key) else { return Vec::new() };
        let texts =
            item.as_array().map(|array| array.iter().map(Value::as_str).collect::<Option<Vec<&str>>>());
        match texts {
            Some(Some(texts)) => texts.into_iter().map(str::to_owned).collect(),
            _ => {
                self.wrong(item.span(), format!("`{key}` is not a list of strings"), "write [\"…\", \"…\"]");
                Vec::new()
            }
        }
    }

    fn list(&mut self, table: &Table, key: &str) -> List {
        let texts = self.strings(table, key);
        self.kept(|maker| maker.list(&texts))
    }

    fn text(&mut self, text: &str) -> Text {
        self.kept(|maker| maker.text(text))
    }

    /// What the maker gives. That it is full is told once, at the end of the table.
    fn kept<T: Default>(&mut self, make: impl FnOnce(&mut Maker) -> Result<T, Full>) -> T {
        make(&mut self.maker).unwrap_or_else(|_| {
            self.full = true;
            T::default()
        })
    }

    fn places(&mut self, table: &Table, key: &str) -> Places {
        let mut places = Places::NONE;
        for word in self.strings(table, key) {
            match Places::from_word(&word) {
                Some(place) => places = places.and(place),
                None => {
                    let span = table.get(key).and_then(Item::span);
                    let known = format!("a place is {}", PLACES.join(", "));
                    self.wrong(span, format!("there is no place {word:?}"), known);
                }
            }
        }
        places
    }

    fn rule(&mut self, table: &Table) -> Result<(), Full> {
        let before = self.wrongs.len();
        self.keys(table, RULE_KEYS);
        let (id, class, reason) =
            (self.wanted(table, "id"), self.wanted(table, "class"), self.wanted(table, "reason"));
        if table.get("verdict").is_none() {
            self.wrong(table.span(), "`verdict` is missing", "add `verdict = \"ask\"`");
        }
        let decides = self.word(table, "verdict", Decides::from_word, "ask, deny or forbid");
        let tongue = self.word(table, "language", Tongue::from_word, "sh, python or js").unwrap_or_default();
        let known = "network, project, machine, reach, kept, changes, untracked or work";
        let needs = self.word(table, "needs", Needs::from_word, known).unwrap_or_default();
        let taint = self.word(table, "taint", Taint::from_word, "download, secret or decoded");
        let rule = Rule {
            id: self.text(&id),
            class: self.text(&class),
            reason: self.text(&reason),
            decides: decides.unwrap_or(Decides::Ask),
            tongue,
            needs,
            contained: self.flag(table, "contained"),
            sub: self.list(table, "sub"),
            any: self.list(table, "any"),
            flags: self.list(table, "flags"),
            no_flags: self.list(table, "no_flags"),
            args: self.list(table, "args"),
            no_args: self.list(table, "no_args"),
            words: self.list(table, "words"),
            no_words: self.list(table, "no_words"),
            places: self.places(table, "places"),
            within: self.places(table, "within"),
            options: self.list(table, "options"),
            last: self.flag(table, "last"),
            bare: self.flag(table, "bare"),
            sources: self.flag(table, "sources"),
            writes: self.places(table, "writes"),
            reads: self.places(table, "reads"),
            taint: taint.unwrap_or(Taint::NONE),
            seen_only: self.flag(table, "seen_only"),
        };
        let mut names: Vec<String> = Vec::new();
        match self.string(table, "fact") {
            Some(fact) => names.push(format!("fact:{fact}")),
            None => {
                let programs = self.strings(table, "programs");
                names.extend(programs.into_iter().map(|name| format!("{}{name}", tongue.prefix())));
            }
        }
        let except = self.strings(table, "except");
        if self.maker.has_rule(&id) {
            let span = table.get("id").and_then(Item::span);
            self.wrong(span, format!("there is a rule {id:?} already"), "give it another name");
        }
        let examples = self.examples(table, "must", true) + self.examples(table, "must_not", false);
        if examples == 0 {
            let remedy = "add `must = [\"a command\"]` and `must_not = [\"another\"]`";
            self.wrong(table.span(), "the rule has no examples", remedy);
        }
        if self.wrongs.len() > before {
            Ok(())
        } else {
            self.added(|maker| maker.rule(rule, &names, &except))
        }
    }

    /// Keeps the examples of the rule that comes next; how many there are.
    fn examples(&mut self, table: &Table, key: &str, must: bool) -> usize {
        let rule = self.maker.next_rule();
        let array = table.get(key).and_then(Item::as_array);
        let places = array.into_iter().flatten().map(|value| value.span().map_or(0, |span| span.start));
        let texts = self.strings(table, key);
        let count = texts.len();
        let examples = texts.into_iter().zip(places).map(|(text, at)| Example { rule, text, must, at });
        self.examples.extend(examples);
        count
    }

    fn added(&mut self, add: impl FnOnce(&mut Maker) -> Result<(), Full>) -> Result<(), Full> {
        if self.full { Err(Full) } else { add(&mut self.maker) }
    }

    fn program(&mut self, table: &Table) -> Result<(), Full> {
        self.keys(table, &["programs", "values", "single_dash", "operands", "paths_first"]);
        let program = Program {
            values: self.list(table, "values"),
            single_dash: self.flag(table, "single_dash"),
            operands: self.flag(table, "operands"),
            paths_first: self.flag(table, "paths_first"),
        };
        let names = self.strings(table, "programs");
        self.added(|maker| maker.program(program, &names))
    }

    fn wrapper(&mut self, table: &Table) -> Result<(), Full> {
        let known = [
            "programs",
            "values",
            "only_asks",
            "pairs",
            "lines",
            "after",
            "skip",
            "before",
            "sub",
            "container",
            "shell",
            "each",
            "remote",
        ];
        self.keys(table, &known);
        let skip = table.get("skip").and_then(Item::as_integer).unwrap_or(0);
        let wrapper = Wrapper {
            values: self.list(table, "values"),
            only_asks: self.list(table, "only_asks"),
            pairs: self.list(table, "pairs"),
            lines: self.list(table, "lines"),
            after: self.list(table, "after"),
            skip: u8::try_from(skip).unwrap_or(0),
            before: self.list(table, "before"),
            sub: self.list(table, "sub"),
            container: self.flag(table, "container"),
            shell: self.flag(table, "shell"),
            each: self.flag(table, "each"),
            remote: self.flag(table, "remote"),
        };
        let names = self.strings(table, "programs");
        self.added(|maker| maker.wrapper(wrapper, &names))
    }

    fn interpreter(&mut self, table: &Table) -> Result<(), Full> {
        self.keys(table, &["programs", "language", "code", "values", "loads", "stops", "words"]);
        let lists = self.strings(table, "words");
        let words: Vec<&str> = lists.iter().flat_map(|words| words.split(' ')).collect();
        let interpreter = Interpreter {
            tongue: self.word(table, "language", Tongue::from_word, "sh, python or js"),
            words: self.kept(|maker| maker.list(&words)),
            code: self.list(table, "code"),
            values: self.list(table, "values"),
            loads: self.list(table, "loads"),
            stops: self.list(table, "stops"),
        };
        let names = self.strings(table, "programs");
        self.added(|maker| maker.interpreter(interpreter, &names))
    }

    fn shell_option(&mut self, table: &Table) -> Result<(), Full> {
        self.keys(table, &["programs", "options"]);
        let (options, names) = (self.list(table, "options"), self.strings(table, "programs"));
        self.added(|maker| {
            maker.shell_options(options, &names);
            Ok(())
        })
    }

    fn runner(&mut self, table: &Table) -> Result<(), Full> {
        self.keys(table, &["language", "calls", "runs"]);
        let tongue = self.word(table, "language", Tongue::from_word, "python or js").unwrap_or_default();
        let known = "shell, arguments, program or code";
        let Some(runs) = self.word(table, "runs", Runs::from_word, known) else {
            if table.get("runs").is_none() {
                self.wrong(table.span(), "`runs` is missing", format!("write {known}"));
            }
            return Ok(());
        };
        let calls = self.strings(table, "calls");
        let names: Vec<String> = calls.iter().map(|name| format!("{}{name}", tongue.prefix())).collect();
        self.maker.runs(runs, &names);
        Ok(())
    }

    fn download(&mut self, table: &Table) -> Result<(), Full> {
        self.keys(table, &["programs"]);
        let names = self.strings(table, "programs");
        self.maker.download(&names);
        Ok(())
    }
}
