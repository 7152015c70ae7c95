//! What variables are known to hold, at each moment of a script.

use crate::text::{Field, LONGEST, Taint, UNKNOWN};
use std::collections::HashMap;
use std::rc::Rc;

/// More values than these are as good as any.
const ALTERNATIVES: usize = 6;

/// The same for a loop over words that are written down.
const LOOPED: usize = 32;

/// A text and where it comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    pub bytes: Vec<u8>,
    pub taint: Taint,
}

impl Text {
    pub fn known(bytes: &[u8]) -> Text {
        Text { bytes: bytes.to_vec(), taint: Taint::NONE }
    }

    pub fn unknown() -> Text {
        Text::known(&[UNKNOWN])
    }
}

/// The elements of a variable; one, if it is no array.
pub type Value = Rc<Vec<Text>>;

/// A name, and what it stood for before.
type Replaced = (Vec<u8>, Option<Vec<Value>>);

#[derive(Default)]
pub struct Variables {
    values: HashMap<Vec<u8>, Vec<Value>>,
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
        self.values.get(name).map(Vec::as_slice)
    }

    /// How much a variable holds, all that it may be taken together.
    pub fn size(&self, name: &[u8]) -> usize {
        let texts = self.get(name).unwrap_or_default().iter().flat_map(|value| value.iter());
        texts.map(|text| text.bytes.len() + 32).sum()
    }

    pub fn assign(&mut self, name: &[u8], value: Vec<Text>, append: bool) {
        let short = |text: Text| {
            if text.bytes.len() > LONGEST { Text { bytes: vec![UNKNOWN], ..text } } else { text }
        };
        let value: Vec<Text> = value.into_iter().take(256).map(short).collect();
        let old = self.values.get(name).cloned();
        let mut values = match &old {
            Some(old) if append => {
                let longer = |before: &Value| {
                    let mut after = before.to_vec();
                    if let ([one], [more]) = (after.as_mut_slice(), value.as_slice()) {
                        one.bytes.extend_from_slice(&more.bytes);
                        one.taint = one.taint.and(more.taint);
                    } else {
                        after.extend(value.iter().cloned());
                    }
                    after.truncate(256);
                    let after: Vec<Text> = after.into_iter().map(short).collect();
                    Rc::new(after)
                };
                old.iter().map(longer).collect()
            }
            // What was there before the script is unknown.
            None if append => vec![Rc::new(vec![Text::unknown()])],
            _ => vec![Rc::new(value)],
        };
        if let Some(old) = &old
            && self.branches > 0
        {
            for before in old {
                if !values.contains(before) {
                    values.push(Rc::clone(before));
                }
            }
            if values.len() > ALTERNATIVES {
                let taint = values
                    .iter()
                    .flat_map(|value| value.iter())
                    .fold(Taint::NONE, |t, text| t.and(text.taint));
                values = vec![Rc::new(vec![Text { bytes: vec![UNKNOWN], taint }])];
            }
        }
        self.values.insert(name.to_vec(), values);
        self.journal.push((name.to_vec(), old));
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
        let old = self.values.insert(name.to_vec(), vec![Rc::new(vec![value])]);
        frame.push((name.to_vec(), old.clone()));
        self.journal.push((name.to_vec(), old));
    }

    /// One of several values: those of a loop.
    pub fn assign_one_of(&mut self, name: &[u8], texts: Vec<Text>) {
        let old = self.values.get(name).cloned();
        let mut values: Vec<Value> = texts.into_iter().map(|text| Rc::new(vec![text])).collect();
        if values.len() > LOOPED {
            let taint =
                values.iter().flat_map(|value| value.iter()).fold(Taint::NONE, |t, text| t.and(text.taint));
            values = vec![Rc::new(vec![Text { bytes: vec![UNKNOWN], taint }])];
        }
        self.values.insert(name.to_vec(), values);
        self.journal.push((name.to_vec(), old));
    }

    /// Variables that had a value and were assigned since then, except one: the next round of a loop starts with others. They may be
    /// anything from now on. Whether there are any.
    pub fn loosen_since(&mut self, mark: usize, except: &[u8]) -> bool {
        let mut names: Vec<Vec<u8>> = Vec::new();
        for (name, old) in self.journal.get(mark..).unwrap_or_default() {
            if names.len() < 64 && old.is_some() && name != except && !names.contains(name) {
                names.push(name.clone());
            }
        }
        for name in &names {
            let unknown = Rc::new(vec![Text::unknown()]);
            let old = self.values.get(name).cloned();
            if let Some(values) = self.values.get_mut(name)
                && !values.contains(&unknown)
            {
                values.push(unknown);
            }
            self.journal.push((name.clone(), old));
        }
        !names.is_empty()
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
