//! How much of what its cages do a session writes down and tells people. A command in a cage can ask, and be refused, thousands of
//! times a second; neither the record nor a person has to bear that. What is over the budget is counted, and summed up.
//!
//! Nothing runs unrecorded: a request from inside that the record has no room for is refused. Requests from outside have no budget.

use keyward_policy::event::LeftOut;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Requests from inside at once. A build that runs each of its steps in a cage beside its own has hundreds of steps. One leaves
/// about 1.5 kB in the record, so many less than 1 MB.
const REQUESTS: u32 = 512;
/// One more after this time: four a second write 6 kB, where a loop writes 150 kB, and fill a file of the record in three hours.
const PER_REQUEST: Duration = Duration::from_millis(250);
/// A request costs one, and one more for each of these bytes of its words: so many are written down at the most.
const LENGTH: usize = 1024;
const LONGEST: usize = 4096;

/// Tools of an agent at once, and one more after each such time. An agent that works calls a few a second, and its script may call hundreds;
/// so many leave about 6 MB in the record, and a loop adds 30 kB a second.
const TOOLS: u32 = 4096;
const PER_TOOL: Duration = Duration::from_millis(50);

/// Notices at once, as many as a person may still read; then one every ten seconds.
const NOTICES: u32 = 64;
const PER_NOTICE: Duration = Duration::from_secs(10);

/// What was left out is summed up after this time at the latest, so that little is lost if the session is killed.
const SUMMARY: Duration = Duration::from_secs(60);

/// A token bucket.
struct Bucket {
    burst: u32,
    per: Duration,
    left: u32,
    /// When the last token that was added was due.
    since: Instant,
}

impl Bucket {
    fn new(burst: u32, per: Duration, now: Instant) -> Self {
        Bucket { burst, per, left: burst, since: now }
    }

    fn take(&mut self, cost: u32, now: Instant) -> bool {
        let due = now.saturating_duration_since(self.since).as_nanos() / self.per.as_nanos().max(1);
        let due = u32::try_from(due).unwrap_or(u32::MAX);
        if due >= self.burst - self.left {
            (self.left, self.since) = (self.burst, now);
        } else {
            self.left += due;
            self.since += self.per * due;
        }
        let enough = self.left >= cost;
        if enough {
            self.left -= cost;
        }
        enough
    }
}

/// The budget of one session.
pub(super) struct Budget {
    requests: Bucket,
    tools: Bucket,
    notices: Bucket,
    /// Requests that were refused and not written down, and since when.
    refused: Option<(Instant, LeftOut)>,
    /// Notices that were not told.
    untold: Option<(Instant, LeftOut)>,
}

impl Budget {
    pub(super) fn new(now: Instant) -> Self {
        Budget {
            requests: Bucket::new(REQUESTS, PER_REQUEST, now),
            tools: Bucket::new(TOOLS, PER_TOOL, now),
            notices: Bucket::new(NOTICES, PER_NOTICE, now),
            refused: None,
            untold: None,
        }
    }

    /// Whether a request from inside may be written down.
    pub(super) fn allows_request(&mut self, length: usize, now: Instant) -> bool {
        let more = u32::try_from(length.min(LONGEST) / LENGTH).unwrap_or(0);
        self.requests.take(1 + more, now)
    }

    /// Whether a tool of an agent may be written down.
    pub(super) fn allows_tool(&mut self, length: usize, now: Instant) -> bool {
        let more = u32::try_from(length.min(LONGEST) / LENGTH).unwrap_or(0);
        self.tools.take(1 + more, now)
    }

    pub(super) fn allows_notice(&mut self, now: Instant) -> bool {
        self.notices.take(1, now)
    }

    /// Counts a request that was refused because of the budget.
    pub(super) fn refuse(&mut self, session: &str, kind: &'static str, now: Instant, time: String) {
        count(&mut self.refused, session, kind, now, time);
    }

    /// Counts a notice that is not told.
    pub(super) fn leave_untold(&mut self, session: &str, now: Instant, time: String) {
        count(&mut self.untold, session, "notices", now, time);
    }

    /// When refused requests have to be summed up.
    pub(super) fn due(&self) -> Option<Instant> {
        self.refused.as_ref().map(|(since, _)| *since + SUMMARY)
    }

    /// The requests that were left out: now if it is time, or at once.
    pub(super) fn take_refused(&mut self, now: Option<Instant>) -> Option<LeftOut> {
        take(&mut self.refused, now)
    }

    pub(super) fn take_untold(&mut self, now: Option<Instant>) -> Option<LeftOut> {
        take(&mut self.untold, now)
    }

    /// What could not be written down is not forgotten.
    pub(super) fn keep_refused(&mut self, left_out: LeftOut, now: Instant) {
        self.refused = Some((now, left_out));
    }
}

fn count(to: &mut Option<(Instant, LeftOut)>, session: &str, kind: &'static str, now: Instant, time: String) {
    let (_, left_out) = to.get_or_insert_with(|| {
        let (first, last) = (time.clone(), time.clone());
        (now, LeftOut { session: Some(session.to_owned()), counts: BTreeMap::new(), first, last })
    });
    left_out.count(kind, time);
}

fn take(from: &mut Option<(Instant, LeftOut)>, now: Option<Instant>) -> Option<LeftOut> {
    from.take_if(|(since, _)| now.is_none_or(|now| now.saturating_duration_since(*since) >= SUMMARY))
        .map(|(_, left_out)| left_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_the_burst_there_is_one_each_time_and_never_more_than_the_burst() {
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let mut budget = Budget::new(start);
        let mut allowed =
            |from: u64, to: u64| (from..to).filter(|time| budget.allows_request(0, at(*time))).count();
        // A hostile loop: one request a millisecond.
        assert_eq!(allowed(0, 10_000), 512 + 39);
        // A pause of a day does not save up for a longer burst.
        assert_eq!(allowed(86_400_000, 86_400_600), 512 + 2);
    }

    #[test]
    fn who_asks_slowly_is_never_refused() {
        let start = Instant::now();
        let mut budget = Budget::new(start);
        assert!((0..5_000).all(|n| budget.allows_request(0, start + PER_REQUEST * n)));
    }

    #[test]
    fn long_requests_cost_more_up_to_what_is_written_of_them() {
        let start = Instant::now();
        let mut budget = Budget::new(start);
        assert_eq!((0..1_000).filter(|_| budget.allows_request(1 << 20, start)).count(), 512 / 5);
    }

    #[test]
    fn what_is_left_out_is_summed_up_with_its_first_and_last_time() {
        let start = Instant::now();
        let mut budget = Budget::new(start);
        for (kind, time) in [("commands", "1"), ("calls", "2"), ("commands", "3")] {
            budget.refuse("work", kind, start, time.into());
        }
        assert_eq!(budget.take_refused(Some(start + SUMMARY / 2)), None);
        let left_out = budget.take_refused(Some(start + SUMMARY)).unwrap();
        assert_eq!(left_out.counts, BTreeMap::from([("calls", 1), ("commands", 2)]));
        assert_eq!((left_out.first.as_str(), left_out.last.as_str()), ("1", "3"));
        assert_eq!((budget.take_refused(None), budget.due()), (None, None));
    }
}
