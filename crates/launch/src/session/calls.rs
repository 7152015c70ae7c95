//! Functions that an embedding program offers to the cages of a session, and calls that wait for an answer.

use keyward_protocol::session::Judging;
use std::collections::{BTreeMap, BTreeSet};

/// Functions of one session.
const MOST_FUNCTIONS: usize = 256;
/// Calls that wait at one time, and those of one client.
const MOST_CALLS: usize = 256;
const MOST_OF_ONE: usize = 16;

struct Call {
    caller: u64,
    provider: u64,
}

#[derive(Default)]
pub(super) struct Calls {
    /// The client that offers each function.
    functions: BTreeMap<String, u64>,
    /// What the gate judges of a call.
    judged: BTreeMap<String, Judging>,
    /// Those that a cage may call only as long as a command runs that names them.
    named: BTreeSet<String>,
    waiting: BTreeMap<u64, Call>,
    last: u64,
}

impl Calls {
    /// Offers functions; all of them or none. A client cannot take over a name that another offers.
    pub(super) fn offer(
        &mut self,
        provider: u64,
        names: Vec<String>,
        judged: BTreeMap<String, Judging>,
        named: bool,
    ) -> bool {
        let taken = |name: &String| self.functions.get(name).is_some_and(|other| *other != provider);
        if names.iter().any(taken) || self.functions.len() + names.len() > MOST_FUNCTIONS {
            return false;
        }
        for name in names {
            self.judged.remove(&name);
            match named {
                true => self.named.insert(name.clone()),
                false => self.named.remove(&name),
            };
            self.functions.insert(name, provider);
        }
        self.judged.extend(judged);
        true
    }

    /// Whether a command has to name it before a cage may call it.
    pub(super) fn needs_naming(&self, name: &str) -> bool {
        self.named.contains(name)
    }

    pub(super) fn judging(&self, name: &str) -> Option<&Judging> {
        self.judged.get(name)
    }

    /// A call begins: whom it goes to, and its number.
    pub(super) fn begin(&mut self, caller: u64, name: &str) -> Option<(u64, u64)> {
        let provider = *self.functions.get(name)?;
        let own = self.waiting.values().filter(|call| call.caller == caller).count();
        if self.waiting.len() >= MOST_CALLS || own >= MOST_OF_ONE {
            return None;
        }
        self.last += 1;
        self.waiting.insert(self.last, Call { caller, provider });
        Some((provider, self.last))
    }

    /// Removes a pending call of this provider, and returns the client that waits for it.
    pub(super) fn take(&mut self, provider: u64, number: u64) -> Option<u64> {
        if self.waiting.get(&number)?.provider != provider {
            return None;
        }
        self.waiting.remove(&number).map(|call| call.caller)
    }

    /// A client is gone: its functions are, and its calls. Gives those who waited for it.
    pub(super) fn forget(&mut self, client: u64) -> Vec<u64> {
        self.functions.retain(|_, provider| *provider != client);
        self.judged.retain(|name, _| self.functions.contains_key(name));
        self.named.retain(|name| self.functions.contains_key(name));
        let left =
            self.waiting.values().filter(|call| call.provider == client).map(|call| call.caller).collect();
        self.waiting.retain(|_, call| call.provider != client && call.caller != client);
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROVIDER: u64 = 1;
    const CALLER: u64 = 2;
    const OTHER: u64 = 3;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn offering(offered: &[&str]) -> Calls {
        let mut calls = Calls::default();
        assert!(calls.offer(PROVIDER, names(offered), BTreeMap::new(), false));
        calls
    }

    #[test]
    fn functions_are_offered_all_or_none_and_none_is_taken_over() {
        let mut calls = offering(&["add"]);
        assert!(!calls.offer(OTHER, names(&["new", "add"]), BTreeMap::new(), false));
        assert_eq!(calls.begin(CALLER, "new"), None, "the new one was not offered either");
        assert_eq!(calls.begin(CALLER, "add").map(|(to, _)| to), Some(PROVIDER));
        assert!(calls.offer(PROVIDER, names(&["add"]), BTreeMap::new(), false), "its own, again");
    }

    #[test]
    fn only_the_client_that_was_called_answers_and_only_once() {
        let mut calls = offering(&["add"]);
        let (_, number) = calls.begin(CALLER, "add").unwrap();
        assert_eq!(calls.take(OTHER, number), None);
        assert_eq!(calls.take(PROVIDER, number), Some(CALLER));
        assert_eq!(calls.take(PROVIDER, number), None);
    }

    #[test]
    fn one_caller_cannot_take_the_places_of_the_others() {
        let mut calls = offering(&["add"]);
        assert_eq!((0..100).filter(|_| calls.begin(CALLER, "add").is_some()).count(), MOST_OF_ONE);
        assert!(calls.begin(OTHER, "add").is_some());
    }

    #[test]
    fn with_a_client_go_its_functions_and_its_calls_and_its_callers_are_told() {
        let mut calls = offering(&["add"]);
        calls.begin(CALLER, "add").unwrap();
        assert_eq!(calls.forget(PROVIDER), [CALLER]);
        assert_eq!(calls.begin(CALLER, "add"), None);
        // A caller that is gone is waited for by no client.
        let mut calls = offering(&["add"]);
        let (_, number) = calls.begin(CALLER, "add").unwrap();
        assert_eq!(calls.forget(CALLER), Vec::<u64>::new());
        assert_eq!(calls.take(PROVIDER, number), None);
    }

    #[test]
    fn a_function_that_is_offered_again_is_judged_as_it_says_now() {
        let mut calls = Calls::default();
        let judging = Judging { kind: keyward_protocol::session::JudgedAs::Sh, field: None };
        assert!(calls.offer(PROVIDER, names(&["run"]), BTreeMap::from([("run".to_owned(), judging)]), false));
        assert!(calls.judging("run").is_some());
        assert!(calls.offer(PROVIDER, names(&["run"]), BTreeMap::new(), false));
        assert!(calls.judging("run").is_none());
    }

    #[test]
    fn what_is_offered_by_name_needs_a_command_that_names_it_until_it_is_offered_otherwise() {
        let mut calls = Calls::default();
        assert!(calls.offer(PROVIDER, names(&["run"]), BTreeMap::new(), true));
        assert!(calls.needs_naming("run") && !calls.needs_naming("other"));
        assert!(calls.offer(PROVIDER, names(&["run"]), BTreeMap::new(), false));
        assert!(!calls.needs_naming("run"));
    }
}
