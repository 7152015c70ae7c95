//! What the proxy tells the process that started it. Reports wait in a queue of bounded length; a flood of denials is counted, not told one by
//! one.

use keyward_policy::net::{Denial, Host, Reason};
use keyward_protocol::packet;
use keyward_protocol::proxy::Report;
use rustix::fd::OwnedFd;
use rustix::net::SendFlags;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::io::unix::AsyncFd;
use tokio::sync::Notify;

/// The most reports that wait. A reader that is slower loses the newest.
const MOST_WAITING: usize = 4096;
/// The most kinds of denial that are told apart in one [`WINDOW`], for one cage.
const MOST_KINDS: usize = 64;
/// Denials of one kind within this time are one report.
const WINDOW: Duration = Duration::from_secs(30);

/// The queue.
#[derive(Default)]
pub struct Reporter {
    waiting: RefCell<VecDeque<Report>>,
    wake: Notify,
    denials: RefCell<HashMap<u64, Denials>>,
}

#[derive(Default)]
struct Denials {
    since: Option<Instant>,
    kinds: HashMap<(Host, u16, Reason), u64>,
    /// Those of kinds that had no room any more, and the last of them.
    rest: Cell<u64>,
}

impl Reporter {
    /// Adds a report.
    pub fn tell(&self, report: Report) {
        let mut waiting = self.waiting.borrow_mut();
        if waiting.len() < MOST_WAITING {
            waiting.push_back(report);
            self.wake.notify_one();
        }
    }

    /// Adds a report that a process waits for, before all others. There are few of them, so that none is lost in a flood.
    pub fn tell_first(&self, report: Report) {
        let mut waiting = self.waiting.borrow_mut();
        let before = waiting.iter().take_while(|other| is_awaited(other)).count();
        waiting.insert(before, report);
        self.wake.notify_one();
    }

    /// Reports a denial, unless one of its kind was reported a moment ago.
    pub fn deny(&self, cage: u64, denial: &Denial) {
        let mut all = self.denials.borrow_mut();
        let own = all.entry(cage).or_default();
        let is_new = own.since.is_none_or(|since| since.elapsed() > WINDOW);
        let mut before = 0;
        let key = (denial.ask.host.clone(), denial.ask.port, denial.reason);
        if is_new {
            own.since = Some(Instant::now());
            before = own.kinds.remove(&key).map_or(0, |times| times - 1);
            own.kinds.clear();
            own.rest.set(0);
        }
        if let Some(times) = own.kinds.get_mut(&key) {
            *times += 1;
        } else if own.kinds.len() < MOST_KINDS {
            own.kinds.insert(key, 1);
            drop(all);
            self.tell(Report::Denied { cage, denial: denial.clone(), times: before + 1 });
        } else {
            own.rest.set(own.rest.get() + 1);
        }
    }

    /// Tells how often what was reported once has happened since, when a cage ends.
    pub fn settle(&self, cage: u64) {
        let Some(own) = self.denials.borrow_mut().remove(&cage) else { return };
        let rest = own.rest.get();
        if rest > 0 {
            let fact = format!("network: {rest} more connections of this command were denied");
            let remedy = "`keyward log --net --denied` lists those that were told apart";
            let code = keyward_policy::trouble::Code::Denied;
            self.tell(Report::Trouble(keyward_policy::trouble::Trouble::new(code, fact, remedy)));
        }
    }

    /// Sends reports until the reader is gone.
    pub async fn send_all(self: Rc<Self>, socket: Rc<AsyncFd<OwnedFd>>) {
        loop {
            let next = self.waiting.borrow_mut().pop_front();
            let Some(report) = next else {
                self.wake.notified().await;
                continue;
            };
            let packet = packet::write(&report);
            let sent = socket
                .async_io(tokio::io::Interest::WRITABLE, |socket| {
                    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
                    Ok(rustix::net::send(socket, &packet, flags)?)
                })
                .await;
            if sent.is_err() {
                return;
            }
        }
    }
}

/// Whether something goes on only when this report was read.
const fn is_awaited(report: &Report) -> bool {
    matches!(report, Report::Obeyed { .. } | Report::Question { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use keyward_policy::net::Ask;

    #[test]
    fn what_is_waited_for_comes_first_in_its_order_and_is_not_lost() {
        let reporter = Reporter::default();
        (0..2 * MOST_WAITING).for_each(|_| reporter.tell(Report::Dropped { cage: 1 }));
        (1..=2).for_each(|order| reporter.tell_first(Report::Obeyed { order, trouble: None }));
        let first: Vec<Report> = reporter.waiting.borrow().iter().take(2).cloned().collect();
        assert_eq!(first, [1, 2].map(|order| Report::Obeyed { order, trouble: None }));
        assert_eq!(reporter.waiting.borrow().len(), MOST_WAITING + 2);
    }

    #[test]
    fn a_flood_of_denials_is_counted() {
        let reporter = Reporter::default();
        let denial = |name: &str| Denial::new(Ask::name(Host::parse(name).unwrap()), Reason::Host);
        for _ in 0..1000 {
            reporter.deny(1, &denial("a.example"));
        }
        for number in 0..1000 {
            reporter.deny(1, &denial(&format!("x{number}.example")));
        }
        reporter.deny(2, &denial("a.example"));
        assert_eq!(reporter.waiting.borrow().len(), MOST_KINDS + 1, "the other cage is told apart");
        reporter.settle(1);
        assert!(matches!(reporter.waiting.borrow().back(), Some(Report::Trouble(_))));
    }
}
