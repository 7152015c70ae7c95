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

/// Milliseconds since 1970 of now.
pub fn milliseconds() -> u64 {
    u64::try_from(since_1970().as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds since 1970 of a date (`2026-01-31`) or a moment of RFC 3339 (`2026-01-31T12:00:00.5+01:00`), not before 1970.
pub fn parse(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    let (year, month, day) = (number(bytes, 0, 4)?, number(bytes, 5, 7)?, number(bytes, 8, 10)?);
    let dashed = bytes.get(4) == Some(&b'-') && bytes.get(7) == Some(&b'-');
    let days = days_since_1970(year, month, day)?;
    if !dashed || civil(days) != (year, month, day) {
        return None;
    }
    let midnight = i64::try_from(days).ok()? * 86_400_000;
    let Some(clock) = bytes.get(10..).filter(|rest| !rest.is_empty()) else {
        return u64::try_from(midnight).ok();
    };
    let (hour, minute, second) = (number(clock, 1, 3)?, number(clock, 4, 6)?, number(clock, 7, 9)?);
    let separated = matches!(clock.first(), Some(b'T' | b't' | b' '))
        && clock.get(3) == Some(&b':')
        && clock.get(6) == Some(&b':');
    if !separated || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let mut rest = clock.get(9..)?;
    let mut thousandths = 0;
    if let Some(fraction) = rest.strip_prefix(b".") {
        let digits = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let mut digit = fraction.get(..digits).filter(|digits| !digits.is_empty())?.iter();
        for weight in [100, 10, 1] {
            thousandths += weight * i64::from(digit.next().map_or(0, |digit| digit - b'0'));
        }
        rest = fraction.get(digits..)?;
    }
    let of_day = i64::try_from(hour * 3_600_000 + minute * 60_000 + second * 1_000).ok()?;
    u64::try_from(midnight + of_day + thousandths - offset(rest)?).ok()
}

/// How far a zone (`Z`, `+01:00`) is ahead, in milliseconds.
fn offset(zone: &[u8]) -> Option<i64> {
    let sign = match zone {
        b"Z" | b"z" => return Some(0),
        [b'+', ..] => 1,
        [b'-', ..] => -1,
        _ => return None,
    };
    let (hours, minutes) = (number(zone, 1, 3)?, number(zone, 4, 6)?);
    let fits = zone.len() == 6 && zone.get(3) == Some(&b':') && hours < 24 && minutes < 60;
    fits.then_some(sign * i64::try_from(hours * 3_600_000 + minutes * 60_000).ok()?)
}

fn number(bytes: &[u8], from: usize, to: usize) -> Option<u64> {
    bytes.get(from..to)?.iter().try_fold(0, |sum, byte| match byte {
        b'0'..=b'9' => Some(sum * 10 + u64::from(byte - b'0')),
        _ => None,
    })
}

/// The inverse of [`civil`].
fn days_since_1970(year: u64, month: u64, day: u64) -> Option<u64> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year = if month <= 2 { year.checked_sub(1)? } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let month_from_march = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    (era * 146_097 + day_of_era).checked_sub(719_468)
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

    #[test]
    fn what_is_written_is_read_back() {
        for seconds in (0..4_200_000_000u64).step_by(86_399 * 3) {
            assert_eq!(parse(&timestamp(seconds, 7)), Some(seconds * 1000 + 7));
        }
    }

    #[test]
    fn dates_zones_and_fractions_are_read_and_nonsense_is_not() {
        assert_eq!(parse("2026-01-01"), parse("2026-01-01T00:00:00Z"));
        assert_eq!(parse("2026-01-01T01:00:00+01:00"), parse("2026-01-01T00:00:00Z"));
        assert_eq!(parse("2025-12-31T23:30:00.25-00:30"), Some(parse("2026-01-01").unwrap() + 250));
        for wrong in [
            "",
            "2026",
            "2026-1-1",
            "2026-02-29",
            "2026-13-01",
            "2026-00-10",
            "2026-01-01T",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:00",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00+1:00",
            "2026-01-01T00:00:00Zx",
            "1969-12-31",
            "1h",
            "2026-01-0é",
        ] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
