//! What a process holds, seen from outside by root: its memory, its environment, its arguments, its descriptors.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use std::io::Read;
use std::os::unix::fs::FileExt;

/// A value that is in no program text and in no other test.
pub struct Canary(String);

const HALF: usize = 16;

impl Canary {
    pub fn new() -> Self {
        let mut random = [0; 2 * HALF];
        std::fs::File::open("/dev/urandom").unwrap().read_exact(&mut random).unwrap();
        Canary(random.iter().map(|byte| char::from(b'a' + byte % 26)).collect())
    }

    pub fn text(&self) -> &str {
        &self.0
    }

    /// How often it is in here, or one of its halves if that is more often: what is overwritten in part counts too.
    pub fn count(&self, bytes: &[u8]) -> usize {
        let (first, second) = self.0.as_bytes().split_at(HALF);
        occurrences(bytes, first).max(occurrences(bytes, second))
    }

    /// How often it is in the memory of a process. The pages of files that nobody can change are not looked at.
    pub fn copies_in(&self, process: u32) -> usize {
        let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).unwrap();
        assert!(!maps.is_empty(), "{process} has no memory any more");
        let memory = std::fs::File::open(format!("/proc/{process}/mem")).unwrap();
        let (mut found, mut seen) = (0, 0);
        for line in maps.lines().filter(|line| !line.contains("[v")) {
            let mut fields = line.split_ascii_whitespace();
            let (range, rights, file) = (fields.next().unwrap(), fields.next().unwrap(), fields.nth(3));
            let is_of_a_file = file.is_some_and(|name| name.starts_with('/'));
            if !rights.starts_with('r') || (is_of_a_file && !rights.contains('w')) {
                continue;
            }
            let (start, end) = range.split_once('-').unwrap();
            let [start, end] = [start, end].map(|number| u64::from_str_radix(number, 16).unwrap());
            let mut bytes = Vec::new();
            let mut page = vec![0; 1 << 20];
            let mut at = start;
            // What goes away meanwhile is skipped; the rest is not.
            while at < end {
                let length = page.len().min(usize::try_from(end - at).unwrap());
                match memory.read_at(&mut page[..length], at) {
                    Ok(read) if read > 0 => {
                        bytes.extend_from_slice(&page[..read]);
                        at += read as u64;
                    }
                    _ => at += 4096,
                }
            }
            seen += bytes.len();
            found += self.count(&bytes);
        }
        assert!(seen > 0, "nothing of {process} could be read");
        found
    }
}

fn occurrences(bytes: &[u8], wanted: &[u8]) -> usize {
    let mut found = 0;
    let mut rest = bytes;
    while let Some(place) = rest.iter().position(|byte| *byte == wanted[0]) {
        found += usize::from(rest[place..].starts_with(wanted));
        rest = &rest[place + 1..];
    }
    found
}

fn file(process: u32, name: &str) -> Vec<u8> {
    std::fs::read(format!("/proc/{process}/{name}")).unwrap()
}

pub fn environment(process: u32) -> Vec<u8> {
    file(process, "environ")
}

pub fn arguments(process: u32) -> String {
    String::from_utf8_lossy(&file(process, "cmdline")).into_owned()
}

/// What its descriptors lead to, by number.
pub fn descriptors(process: u32) -> Vec<(u32, String)> {
    let entries = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().map(Result::unwrap);
    let mut found: Vec<(u32, String)> = entries
        .map(|entry| {
            let number = entry.file_name().to_str().unwrap().parse().unwrap();
            (number, std::fs::read_link(entry.path()).unwrap_or_default().display().to_string())
        })
        .collect();
    found.sort();
    found
}

/// Those that a process has started and that still run.
pub fn children(process: u32) -> Vec<u32> {
    let numbers = std::fs::read_dir("/proc").unwrap();
    let numbers = numbers.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    let is_below = |number: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        let mut fields = after_name.split_ascii_whitespace();
        let runs = fields.next().is_some_and(|state| state != "Z");
        runs && fields.next() == Some(&process.to_string())
    };
    numbers.filter(is_below).collect()
}

/// The child of a process whose command line begins so, once it is there.
#[track_caller]
pub fn child_that_is(process: u32, beginning: &str) -> u32 {
    let found = std::cell::Cell::new(None);
    let is_it = |child: &u32| {
        let line = std::fs::read(format!("/proc/{child}/cmdline")).unwrap_or_default();
        line.starts_with(beginning.as_bytes())
    };
    let look = || {
        found.set(children(process).into_iter().find(is_it));
        found.get().is_some()
    };
    assert!(super::support::eventually(look), "no child of {process} is {beginning:?}");
    found.get().unwrap()
}
