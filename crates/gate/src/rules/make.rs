//! Makes tables: of the built-in rules when the program is built, and of a user's own when they are read.

use super::kinds::Runs;
use super::tables::{Entry, Interpreter, List, Program, Rule, Tables, Text, Wrapper, spread};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

/// The tables have no room for more.
#[derive(Debug)]
pub struct Full;

/// Tables to which something is added.
pub struct Maker {
    tables: Tables,
    known: HashMap<String, Text>,
    lists: HashMap<Vec<Text>, List>,
    names: BTreeMap<String, Named>,
    for_all: Vec<u16>,
}

/// What is known by a name, before it has its place.
#[derive(Clone, Default)]
pub struct Named {
    rules: Vec<u16>,
    spared: Vec<u16>,
    program: u16,
    wrapper: u16,
    interpreter: u16,
    shell_options: List,
    runs: Option<Runs>,
    download: bool,
}

impl Maker {
    /// Goes on where other tables end.
    pub fn after(tables: &Tables) -> Maker {
        let mut names = BTreeMap::new();
        for entry in tables.entries.iter() {
            let named = Named {
                rules: tables.numbers(entry.rules).to_vec(),
                spared: tables.numbers(entry.spared).to_vec(),
                program: entry.program,
                wrapper: entry.wrapper,
                interpreter: entry.interpreter,
                shell_options: entry.shell_options,
                runs: entry.runs,
                download: entry.download,
            };
            names.insert(tables.text(entry.name).to_owned(), named);
        }
        let for_all = tables.numbers(tables.for_all).to_vec();
        Maker { tables: tables.clone(), known: HashMap::new(), lists: HashMap::new(), names, for_all }
    }

    pub fn text(&mut self, text: &str) -> Result<Text, Full> {
        if let Some(known) = self.known.get(text) {
            return Ok(*known);
        }
        let whole = self.tables.text.to_mut();
        let place = Text::new(whole.len(), text.len()).ok_or(Full)?;
        whole.push_str(text);
        self.known.insert(text.to_owned(), place);
        Ok(place)
    }

    pub fn list<T: AsRef<str>>(&mut self, texts: &[T]) -> Result<List, Full> {
        if texts.is_empty() {
            return Ok(List::default());
        }
        let texts = texts.iter().map(|text| self.text(text.as_ref())).collect::<Result<Vec<Text>, Full>>()?;
        if let Some(known) = self.lists.get(&texts) {
            return Ok(*known);
        }
        let list = append(self.tables.texts.to_mut(), &texts)?;
        self.lists.insert(texts, list);
        Ok(list)
    }

    pub fn has_rule(&self, id: &str) -> bool {
        self.tables.rules.iter().any(|rule| self.tables.text(rule.id) == id)
    }

    /// The number that the next rule gets.
    pub fn next_rule(&self) -> usize {
        self.tables.rules.len()
    }

    /// Adds a rule for some names, or for all except others.
    pub fn rule(&mut self, rule: Rule, names: &[String], except: &[String]) -> Result<(), Full> {
        let number = u16::try_from(self.next_rule()).map_err(|_| Full)?;
        self.tables.rules.to_mut().push(rule);
        for name in names {
            self.named(name).rules.push(number);
        }
        for name in except {
            self.named(name).spared.push(number);
        }
        if names.is_empty() {
            self.for_all.push(number);
        }
        Ok(())
    }

    pub fn program(&mut self, row: Program, names: &[String]) -> Result<(), Full> {
        let number = add(&mut self.tables.programs, row)?;
        names.iter().for_each(|name| self.named(name).program = number);
        Ok(())
    }

    pub fn wrapper(&mut self, row: Wrapper, names: &[String]) -> Result<(), Full> {
        let number = add(&mut self.tables.wrappers, row)?;
        names.iter().for_each(|name| self.named(name).wrapper = number);
        Ok(())
    }

    pub fn interpreter(&mut self, row: Interpreter, names: &[String]) -> Result<(), Full> {
        let number = add(&mut self.tables.interpreters, row)?;
        names.iter().for_each(|name| self.named(name).interpreter = number);
        Ok(())
    }

    pub fn shell_options(&mut self, options: List, names: &[String]) {
        names.iter().for_each(|name| self.named(name).shell_options = options);
    }

    pub fn runs(&mut self, runs: Runs, names: &[String]) {
        names.iter().for_each(|name| self.named(name).runs = Some(runs));
    }

    pub fn download(&mut self, names: &[String]) {
        names.iter().for_each(|name| self.named(name).download = true);
    }

    fn named(&mut self, name: &str) -> &mut Named {
        self.names.entry(name.to_owned()).or_default()
    }

    /// The tables, with an index of all names.
    pub fn finish(mut self) -> Result<Tables, Full> {
        let mut numbers = Vec::new();
        let mut entries = Vec::with_capacity(self.names.len());
        let for_all = append(&mut numbers, &self.for_all)?;
        for (name, named) in std::mem::take(&mut self.names) {
            entries.push(Entry {
                name: self.text(&name)?,
                rules: append(&mut numbers, &named.rules)?,
                spared: append(&mut numbers, &named.spared)?,
                program: named.program,
                wrapper: named.wrapper,
                interpreter: named.interpreter,
                shell_options: named.shell_options,
                runs: named.runs,
                download: named.download,
            });
        }
        // Half of the slots stay empty, so that a name that is not there is soon missed.
        let mut slots = vec![0u16; (entries.len() * 2 + 2).next_power_of_two()];
        let mask = slots.len() - 1;
        for (row, entry) in entries.iter().enumerate() {
            let mut slot = spread(b"", self.tables.text(entry.name).as_bytes()) as usize & mask;
            while slots[slot] != 0 {
                slot = (slot + 1) & mask;
            }
            slots[slot] = u16::try_from(row + 1).map_err(|_| Full)?;
        }
        Ok(Tables {
            numbers: Cow::Owned(numbers),
            for_all,
            entries: Cow::Owned(entries),
            slots: Cow::Owned(slots),
            ..self.tables
        })
    }
}

/// Puts a row at the end of a table; its number, counted from one.
fn add<T: Clone>(table: &mut Cow<'static, [T]>, row: T) -> Result<u16, Full> {
    let table = table.to_mut();
    table.push(row);
    u16::try_from(table.len()).map_err(|_| Full)
}

fn append<T: Copy>(table: &mut Vec<T>, rows: &[T]) -> Result<List, Full> {
    if rows.is_empty() {
        return Ok(List::default());
    }
    let start = u16::try_from(table.len()).map_err(|_| Full)?;
    let length = u16::try_from(rows.len()).map_err(|_| Full)?;
    table.extend_from_slice(rows);
    Ok(List { start, length })
}
