//! Functions that an embedding program offers to the cages of a session, and calls that wait for an answer.

use keyward_protocol::session::Judging;
use std::collections::BTreeMap;

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
    ) -> bool {
        let taken = |name: &String| self.functions.get(name).is_some_and(|other| *other != provider);
        if names.iter().any(taken) || self.functions.len() + names.len() > MOST_FUNCTIONS {
            return false;
        }
        for name in names {
            self.judged.remove(&name);
            self.functions.insert(name, provider);
        }
        self.judged.extend(judged);
        true
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
        let left =
            self.waiting.values().filter(|call| call.provider == client).map(|call| call.caller).collect();
        self.waiting.retain(|_, call| call.provider != client && call.caller != client);
        left
    }
}
