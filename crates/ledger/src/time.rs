//! Moments: RFC 3339 in UTC with milliseconds, and the name of a run.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The time, as RFC 3339 in UTC with milliseconds.
pub fn now() -> String {
    let since = since_1970();
    timestamp(since.as_secs(), since.subsec_millis())
}

/// A name for one run: time and process, unique on this host.
pub fn run_name() -> String {
    format!("{:x}-{:x}", since_1970().as_micros(), std::process::id())
}

/// A moment in whole seconds since 1970, in the same words.
pub fn time_of(seconds: u64) -> String {
    timestamp(seconds, 0)
}

fn timestamp(seconds: u64, milliseconds: u32) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (rest / 3_600, rest / 60 % 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z")
}

/// The date of a day since 1970. The year is counted from March, so that the leap day comes last.
fn civil(days: u64) -> (u64, u64, u64) {
    const DAYS_IN_ERA: u64 = 146_097;
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / DAYS_IN_ERA, shifted % DAYS_IN_ERA);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_right_around_leap_days_and_centuries() {
        assert_eq!(timestamp(0, 0), "1970-01-01T00:00:00.000Z");
        assert_eq!(timestamp(951_782_400, 7), "2000-02-29T00:00:00.007Z");
        assert_eq!(timestamp(1_709_251_199, 999), "2024-02-29T23:59:59.999Z");
        assert_eq!(timestamp(4_107_542_400, 0), "2100-03-01T00:00:00.000Z");
    }
}
