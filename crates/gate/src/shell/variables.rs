//! What variables are known to hold, at each moment of a script.

use crate::quick::QuickMap;
use crate::text::{Bytes, Field, LONGEST, Taint, UNKNOWN};
use std::rc::Rc;

/// More values than these are as good as any.
const ALTERNATIVES: usize = 6;

/// The same for a loop over words that are written down.
const LOOPED: usize = 32;

/// A text and where it comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    pub bytes: Bytes,
    pub taint: Taint,
}

impl Text {
    pub fn known(bytes: &[u8]) -> Text {
        Text { bytes: bytes.into(), taint: Taint::NONE }
    }

    pub fn unknown() -> Text {
        Text::known(&[UNKNOWN])
    }
}

/// The elements of a variable; one, if it is no array.
pub type Value = Rc<[Text]>;

/// All that a variable may hold; a copy costs nothing.
type Alternatives = Rc<[Value]>;

/// A name, and what it stood for before.
type Replaced = (Bytes, Option<Alternatives>);

/// The value of a variable that is no array.
pub fn only(text: Text) -> Value {
    Rc::new([text])
}

#[derive(Default)]
pub struct Variables {
    values: QuickMap<Bytes, Alternatives>,
    /// What assignments have replaced, so that a subshell can be left.
    journal: Vec<Replaced>,
    /// Inside branches: an assignment may not have happened.
    pub branches: usize,
    /// `$1` and following of the function that runs; absent for those of the script.
    pub arguments: Vec<Vec<Field>>,
    /// What the local variables of each running function have hidden.
    locals: Vec<Vec<Replaced>>,
}

impl Variables {
    pub fn get(&self, name: &[u8]) -> Option<&[Value]> {
        self.values.get(name).map(AsRef::as_ref)
    }

    /// How much a variable holds, all that it may be taken together.
    pub fn size(&self, name: &[u8]) -> usize {
        let texts = self.get(name).unwrap_or_default().iter().flat_map(|value| value.iter());
        texts.map(|text| text.bytes.len() + 32).sum()
    }

    pub fn assign(&mut self, name: &[u8], value: Vec<Text>, append: bool) {
        let short = |text: Text| {
            if text.bytes.len() > LONGEST { Text { bytes: [UNKNOWN].into(), ..text } } else { text }
        };
        let value: Value = value.into_iter().take(256).map(short).collect();
        let old = self.values.get(name).cloned();
        let mut values: Alternatives = match &old {
            Some(old) if append => {
                let longer = |before: &Value| {
                    let mut after = before.to_vec();
                    if let ([one], [more]) = (after.as_mut_slice(), value.as_ref()) {
                        one.bytes.extend_from_slice(&more.bytes);
                        one.taint = one.taint.and(more.taint);
                    } else {
                        after.extend(value.iter().cloned());
                    }
                    after.into_iter().take(256).map(short).collect()
                };
                old.iter().map(longer).collect()
            }
            // What was there before the script is unknown.
            None if append => Rc::new([only(Text::unknown())]),
            _ => Rc::new([value]),
        };
        if let Some(old) = &old
            && self.branches > 0
        {
            let more: Vec<&Value> = old.iter().filter(|before| !values.contains(before)).collect();
            if !more.is_empty() {
                values = values.iter().chain(more).cloned().collect();
            }
            if values.len() > ALTERNATIVES {
                let taint = values
                    .iter()
                    .flat_map(|value| value.iter())
                    .fold(Taint::NONE, |t, text| t.and(text.taint));
                values = Rc::new([only(Text { bytes: [UNKNOWN].into(), taint })]);
            }
        }
        self.replace(name.into(), values);
    }

    pub fn enter_function(&mut self, arguments: Vec<Field>) {
        self.arguments.push(arguments);
        self.locals.push(Vec::new());
    }

    /// What was hidden is there again.
    pub fn leave_function(&mut self) {
        self.arguments.pop();
        for (name, old) in self.locals.pop().unwrap_or_default().into_iter().rev() {
            let current = match old {
                Some(old) => self.values.insert(name.clone(), old),
                None => self.values.remove(&name),
            };
            self.journal.push((name, current));
        }
    }

    /// A variable of the function that runs: whatever branch the call stands in, here it has this value.
    pub fn assign_local(&mut self, name: &[u8], value: Text) {
        let Some(frame) = self.locals.last_mut() else { return self.assign(name, vec![value], false) };
        let name = Bytes::from(name);
        frame.push((name.clone(), self.values.get(&*name).cloned()));
        self.replace(name, Rc::new([only(value)]));
    }

    /// One of several values: those of a loop.
    pub fn assign_one_of(&mut self, name: &[u8], texts: Vec<Text>) {
        let mut values: Alternatives = texts.into_iter().map(only).collect();
        if values.len() > LOOPED {
            let taint =
                values.iter().flat_map(|value| value.iter()).fold(Taint::NONE, |t, text| t.and(text.taint));
            values = Rc::new([only(Text { bytes: [UNKNOWN].into(), taint })]);
        }
        self.replace(name.into(), values);
    }

    /// Puts values in the place of others, and writes down which.
    fn replace(&mut self, name: Bytes, values: Alternatives) {
        let old = self.values.insert(name.clone(), values);
        self.journal.push((name, old));
    }

    /// Variables that had a value and were assigned since then, except one: the next round of a loop starts with others. They may be
    /// anything from now on. Whether there are any.
    pub fn loosen_since(&mut self, mark: usize, except: &[u8]) -> bool {
        let mut names: Vec<Bytes> = Vec::new();
        for (name, old) in self.journal.get(mark..).unwrap_or_default() {
            if names.len() < 64 && old.is_some() && *name != *except && !names.contains(name) {
                names.push(name.clone());
            }
        }
        let any = !names.is_empty();
        for name in names {
            let old = self.values.get(&name).cloned();
            let unknown = only(Text::unknown());
            if let Some(values) = &old
                && !values.contains(&unknown)
            {
                let looser = values.iter().cloned().chain([unknown]).collect();
                self.values.insert(name.clone(), looser);
            }
            self.journal.push((name, old));
        }
        any
    }

    pub fn forget(&mut self, name: &[u8]) {
        self.assign(name, vec![Text::unknown()], false);
    }

    /// A moment to come back to.
    pub fn mark(&self) -> usize {
        self.journal.len()
    }

    pub fn back_to(&mut self, mark: usize) {
        while self.journal.len() > mark {
            match self.journal.pop() {
                Some((name, Some(old))) => self.values.insert(name, old),
                Some((name, None)) => self.values.remove(&name),
                None => return,
            };
        }
    }
}
