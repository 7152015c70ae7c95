//! The clock of a command with a limit of wall time: asks it to end, then tells it, then ends it.

use rustix::process::Signal;
use std::time::{Duration, Instant};

/// Between asking and insisting.
const GRACE: Duration = Duration::from_secs(1);

pub(super) struct Clock {
    next: Option<Instant>,
    rung: u8,
}

/// What the clock wants done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Send(Signal),
    EndAll,
}

impl Clock {
    pub(super) fn new(wall: Option<Duration>, now: Instant) -> Self {
        Clock { next: wall.and_then(|wall| now.checked_add(wall)), rung: 0 }
    }

    pub(super) fn timeout(&self, now: Instant) -> Option<Duration> {
        Some(self.next?.saturating_duration_since(now))
    }

    /// The step that is due now, if any.
    pub(super) fn due(&mut self, now: Instant) -> Option<Due> {
        if now < self.next? {
            return None;
        }
        self.rung += 1;
        self.next = now.checked_add(GRACE);
        match self.rung {
            1 => Some(Due::Send(Signal::INT)),
            2 => Some(Due::Send(Signal::TERM)),
            _ => {
                self.next = None;
                Some(Due::EndAll)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_asks_then_tells_then_ends_and_then_is_quiet() {
        let start = Instant::now();
        let wall = Duration::from_secs(5);
        let mut clock = Clock::new(Some(wall), start);
        assert_eq!(clock.timeout(start), Some(wall));
        assert_eq!(clock.due(start), None);
        let over = start + wall;
        assert_eq!(clock.due(over), Some(Due::Send(Signal::INT)));
        assert_eq!(clock.due(over), None, "there is time to end by itself");
        assert_eq!(clock.due(over + GRACE), Some(Due::Send(Signal::TERM)));
        assert_eq!(clock.due(over + 2 * GRACE), Some(Due::EndAll));
        assert_eq!((clock.due(over + 9 * GRACE), clock.timeout(over)), (None, None));
    }

    #[test]
    fn a_command_woken_late_still_gets_its_time_between_the_steps() {
        let start = Instant::now();
        let late = start + Duration::from_secs(60);
        let mut clock = Clock::new(Some(Duration::from_secs(1)), start);
        assert_eq!(clock.due(late), Some(Due::Send(Signal::INT)));
        assert_eq!(clock.timeout(late), Some(GRACE));
    }

    #[test]
    fn without_a_limit_there_is_nothing_to_wait_for() {
        let now = Instant::now();
        let mut clock = Clock::new(None, now);
        assert_eq!((clock.timeout(now), clock.due(now + Duration::from_secs(1 << 30))), (None, None));
    }
}
