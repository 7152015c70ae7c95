//! Durations and sizes, as people write them.

use super::mistake::{Unfit, quoted};
use std::time::Duration;

/// Reads `500ms`, `90s`, `90sec`, `10m`, `10min`, `1h` or `7d`. The error is one line: what is wrong, and what to write instead.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    duration(text).map(Duration::from_nanos).map_err(one_line)
}

/// Reads `512K`, `2G`, `4GB`, `4GiB` or a plain number of bytes. The error is one line: what is wrong, and what to write instead.
pub fn parse_size(text: &str) -> Result<u64, String> {
    size(text).map_err(one_line)
}

fn one_line(unfit: Unfit) -> String {
    format!("{}; {}", unfit.fact, unfit.remedy)
}

/// A duration above zero in nanoseconds, which last for 584 years.
pub(super) fn duration(text: &str) -> Result<u64, Unfit> {
    let (number, unit) = split(text);
    let nanoseconds = match unit {
        "ms" | "msec" => 1_000_000,
        "s" | "sec" | "secs" | "second" | "seconds" => 1_000_000_000,
        "m" | "min" | "mins" | "minute" | "minutes" => 60_000_000_000,
        "h" | "hr" | "hrs" | "hour" | "hours" => 3_600_000_000_000,
        "d" | "day" | "days" => 86_400_000_000_000,
        "" if !number.is_empty() => {
            let remedy = format!("write \"{number}s\", \"{number}m\" or \"{number}h\"");
            return Err(Unfit::new(format!("the duration {} has no unit", quoted(text)), remedy));
        }
        _ => {
            let remedy = "write a whole number and ms, s, m, h or d, such as \"10m\"";
            return Err(Unfit::new(format!("{} is not a duration", quoted(text)), remedy));
        }
    };
    let value = whole(number, nanoseconds, text, "is not a duration", "write such as \"10m\"")?;
    if value == 0 {
        return Err(Unfit::new("a duration of zero lets nothing run", "remove the key to have no limit"));
    }
    Ok(value)
}

/// A size in bytes. All units count by 1024, as memory does.
pub(super) fn size(text: &str) -> Result<u64, Unfit> {
    let (number, unit) = split(text);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => {
            let remedy = "write a whole number and K, M, G or T, such as \"4G\"; they count by 1024";
            return Err(Unfit::new(format!("{} is not a size", quoted(text)), remedy));
        }
    };
    whole(number, 1 << shift, text, "is not a size", "write such as \"4G\"")
}

/// The digits at the front, and the rest; a blank may stand between them.
fn split(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    (number, unit.strip_prefix(' ').filter(|unit| !unit.is_empty()).unwrap_or(unit))
}

fn whole(number: &str, factor: u64, text: &str, not: &str, write: &str) -> Result<u64, Unfit> {
    if number.is_empty() {
        return Err(Unfit::new(format!("{} {not}", quoted(text)), write));
    }
    let value = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    value.ok_or_else(|| {
        Unfit::new(format!("{} is too large", quoted(text)), "remove the key to have no limit")
    })
}

/// The shortest exact spelling; parts of a millisecond are rounded up.
pub(super) fn spell_duration(duration: Duration) -> String {
    let milliseconds = duration.as_nanos().div_ceil(1_000_000);
    for (unit, length) in [("h", 3_600_000), ("m", 60_000), ("s", 1000)] {
        if milliseconds >= length && milliseconds.is_multiple_of(length) {
            return format!("{}{unit}", milliseconds / length);
        }
    }
    format!("{milliseconds}ms")
}

/// The shortest exact spelling.
pub(super) fn spell_size(bytes: u64) -> String {
    for (unit, shift) in [("T", 40), ("G", 30), ("M", 20), ("K", 10)] {
        if bytes > 0 && bytes.is_multiple_of(1 << shift) {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_with_their_unit_and_refused_without() {
        let read = |text| parse_duration(text);
        assert_eq!(read("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(read("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(read("10m"), Ok(Duration::from_secs(600)));
        assert_eq!(read("1h"), Ok(Duration::from_secs(3600)));
        for (text, seconds) in
            [("90sec", 90), ("1min", 60), ("2 minutes", 120), ("1hour", 3600), ("7d", 604_800)]
        {
            assert_eq!(read(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        let refused = [
            ("10", "the duration \"10\" has no unit; write \"10s\", \"10m\" or \"10h\""),
            ("0s", "a duration of zero lets nothing run; remove the key to have no limit"),
            ("", "\"\" is not a duration; write a whole number and ms, s, m, h or d, such as \"10m\""),
            ("m", "\"m\" is not a duration; write such as \"10m\""),
            (
                "1.5h",
                "\"1.5h\" is not a duration; write a whole number and ms, s, m, h or d, such as \"10m\"",
            ),
            ("-1s", "\"-1s\" is not a duration; write a whole number and ms, s, m, h or d, such as \"10m\""),
            ("99999999999h", "\"99999999999h\" is too large; remove the key to have no limit"),
        ];
        for (text, words) in refused {
            assert_eq!(read(text), Err(words.to_owned()));
        }
    }

    #[test]
    fn sizes_count_by_1024_however_their_unit_is_written() {
        let read = |text| parse_size(text);
        assert_eq!(read("4096"), Ok(4096));
        assert_eq!(read("512K"), Ok(512 << 10));
        assert_eq!(read("2G"), Ok(2 << 30));
        for text in ["4GiB", "4GB", "4gb", "4 GB", "4g", "4096MB", "4294967296B"] {
            assert_eq!(read(text), Ok(4 << 30), "{text}");
        }
        let refused = [
            (
                "4GX",
                "\"4GX\" is not a size; write a whole number and K, M, G or T, such as \"4G\"; they count by 1024",
            ),
            (
                "4.5G",
                "\"4.5G\" is not a size; write a whole number and K, M, G or T, such as \"4G\"; they count by 1024",
            ),
            ("G", "\"G\" is not a size; write such as \"4G\""),
            ("99999999T", "\"99999999T\" is too large; remove the key to have no limit"),
        ];
        for (text, words) in refused {
            assert_eq!(read(text), Err(words.to_owned()));
        }
    }

    #[test]
    fn a_spelling_reads_back_as_itself() {
        for milliseconds in [1, 999, 1000, 60_000, 61_000, 3_600_000, 5_400_000] {
            let duration = Duration::from_millis(milliseconds);
            assert_eq!(parse_duration(&spell_duration(duration)), Ok(duration));
        }
        for bytes in [0, 1, 1000, 1024, 4 << 30, (4 << 30) + 1, 3 << 40, u64::MAX] {
            assert_eq!(parse_size(&spell_size(bytes)), Ok(bytes));
        }
    }
}
