//! The durable record: one JSON line per event, appended with one write, readable by its owner alone.
//!
//! Runs in the launcher. Touches its own file and nothing else.
#![forbid(unsafe_code)]

pub mod approvals;

use keyward_policy::event::Event;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The file that events go to.
pub struct Ledger {
    file: File,
    path: PathBuf,
}

/// Why an event could not be recorded.
#[derive(Debug)]
pub struct Unrecorded {
    pub path: PathBuf,
    pub cause: io::Error,
}

/// Where the record is.
pub fn path(state: &Path) -> PathBuf {
    state.join("events.jsonl")
}

impl Ledger {
    /// Opens the ledger in the state folder, making both when they are missing.
    pub fn open(state: &Path) -> Result<Self, Unrecorded> {
        let path = path(state);
        let open = || {
            let mut options = OpenOptions::new();
            // Not through a link: the file is ours, or it is not the ledger.
            options
                .read(true)
                .append(true)
                .create(true)
                .mode(0o600)
                .custom_flags(O_NOFOLLOW | O_CLOEXEC)
                .open(&path)
        };
        let opened = open().or_else(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                std::fs::DirBuilder::new().recursive(true).mode(0o700).create(state)?;
                open()
            }
            _ => Err(error),
        });
        match opened {
            Ok(file) => Ok(Ledger { file, path }),
            Err(cause) => Err(Unrecorded { path, cause }),
        }
    }

    /// Appends one event: one line, one write.
    pub fn append(&mut self, event: &Event) -> Result<(), Unrecorded> {
        let path = self.path.clone();
        let unrecorded = |cause: io::Error| Unrecorded { path: path.clone(), cause };
        // One writer at a time: only then is a line without an end one that was left so.
        self.file.lock().map_err(unrecorded)?;
        let appended = self.append_alone(event).map_err(unrecorded);
        let _ = self.file.unlock();
        appended
    }

    fn append_alone(&mut self, event: &Event) -> io::Result<()> {
        // A writer that was killed, or a disk that was full, left half a line; ours must not be glued to it.
        let mut line = if ends_torn(&self.file) { vec![b'\n'] } else { Vec::new() };
        serde_json::to_writer(&mut line, event)?;
        line.push(b'\n');
        match self.file.write(&line)? {
            written if written == line.len() => Ok(()),
            _ => Err(io::ErrorKind::StorageFull.into()),
        }
    }
}

/// Whether the last line has no end.
fn ends_torn(file: &File) -> bool {
    let mut last = [b'\n'];
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    length > 0 && file.read_at(&mut last, length - 1).is_ok() && last != *b"\n"
}

#[cfg(target_os = "linux")]
const O_NOFOLLOW: i32 = 0o400_000;
#[cfg(target_os = "linux")]
const O_CLOEXEC: i32 = 0o2_000_000;

/// The time, as RFC 3339 in UTC with milliseconds.
pub fn now() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    timestamp(since.as_secs(), since.subsec_millis())
}

/// A name for one run: time and process, unique on this host.
pub fn run_name() -> String {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    format!("{:x}-{:x}", since.as_micros(), std::process::id())
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
    use keyward_policy::event::{End, What};
    use std::os::unix::fs::PermissionsExt;

    fn end(run: &str) -> Event {
        let what = What::End(End { exit: 0, signal: None, limit: None, milliseconds: 3, project: None });
        Event::new("2026-01-01T00:00:00.000Z".into(), run.into(), what)
    }

    #[test]
    fn dates_are_right_around_leap_days_and_centuries() {
        assert_eq!(timestamp(0, 0), "1970-01-01T00:00:00.000Z");
        assert_eq!(timestamp(951_782_400, 7), "2000-02-29T00:00:00.007Z");
        assert_eq!(timestamp(1_709_251_199, 999), "2024-02-29T23:59:59.999Z");
        assert_eq!(timestamp(4_107_542_400, 0), "2100-03-01T00:00:00.000Z");
    }

    #[test]
    fn only_the_owner_can_read_the_ledger() {
        let folder = tempfile::tempdir().unwrap();
        let state = folder.path().join("a/state");
        let mut ledger = Ledger::open(&state).unwrap();
        ledger.append(&end("x")).unwrap();
        let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&state.join("events.jsonl")), 0o600);
        assert_eq!(mode(&state), 0o700);
    }

    #[test]
    fn events_of_many_writers_stay_whole_lines() {
        let folder = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for writer in 0..8 {
                let state = folder.path();
                scope.spawn(move || {
                    let mut ledger = Ledger::open(state).unwrap();
                    for _ in 0..200 {
                        ledger.append(&end(&format!("writer-{writer}"))).unwrap();
                    }
                });
            }
        });
        let text = std::fs::read_to_string(folder.path().join("events.jsonl")).unwrap();
        assert_eq!(text.lines().count(), 1600);
        for line in text.lines() {
            let value: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!((&value["v"], &value["event"]), (&1.into(), &"end".into()));
        }
    }

    #[test]
    fn half_a_line_of_a_killed_writer_does_not_swallow_the_next() {
        let folder = tempfile::tempdir().unwrap();
        Ledger::open(folder.path()).unwrap().append(&end("whole")).unwrap();
        let path = folder.path().join("events.jsonl");
        OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"v\":1,\"ti").unwrap();
        Ledger::open(folder.path()).unwrap().append(&end("next")).unwrap();
        let text = std::fs::read_to_string(path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[1]), (3, "{\"v\":1,\"ti"));
        assert!(lines[2].contains("next") && serde_json::from_str::<serde_json::Value>(lines[2]).is_ok());
    }

    #[test]
    fn a_link_in_the_place_of_the_ledger_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        std::os::unix::fs::symlink(&target, folder.path().join("events.jsonl")).unwrap();
        assert!(Ledger::open(folder.path()).is_err());
        assert!(!target.exists());
    }

    #[test]
    fn a_full_disk_is_an_error_and_not_half_an_event() {
        let full = OpenOptions::new().append(true).open("/dev/full").unwrap();
        let mut ledger = Ledger { file: full, path: "/dev/full".into() };
        assert_eq!(ledger.append(&end("x")).unwrap_err().cause.kind(), io::ErrorKind::StorageFull);
    }
}
