//! One writer at a time, and no process waits for ever: the holder may have been stopped.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

/// A holder needs some microseconds, so the first looks follow each other closely.
const LOOKS_WITHOUT_SLEEP: u32 = 50;
const SHORTEST_SLEEP: Duration = Duration::from_micros(50);
const LONGEST_SLEEP: Duration = Duration::from_millis(2);

/// Locks the file, or gives up after this time.
pub fn lock(file: &File, patience: Duration) -> io::Result<()> {
    let mut looks = 0;
    let mut sleep = SHORTEST_SLEEP;
    let mut since = None;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) => {}
        }
        let since = *since.get_or_insert_with(Instant::now);
        looks += 1;
        if looks <= LOOKS_WITHOUT_SLEEP {
            std::thread::yield_now();
        } else if since.elapsed() >= patience {
            return Err(io::Error::new(io::ErrorKind::TimedOut, held(file, patience)));
        } else {
            std::thread::sleep(sleep);
            sleep = (sleep * 2).min(LONGEST_SLEEP);
        }
    }
}

fn held(file: &File, patience: Duration) -> String {
    let seconds = patience.as_secs_f32();
    match holder(file) {
        Some(pid) => format!("process {pid} has kept it locked for {seconds} s"),
        None => format!("another process has kept it locked for {seconds} s"),
    }
}

/// Who holds the lock, as the kernel lists it.
fn holder(file: &File) -> Option<u32> {
    let inode = format!(":{}", file.metadata().ok()?.ino());
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (kind, pid, place) = (words.get(1)?, words.get(4)?, words.get(5)?);
        (*kind == "FLOCK" && place.ends_with(&inode)).then(|| pid.parse().ok())?
    })
}
