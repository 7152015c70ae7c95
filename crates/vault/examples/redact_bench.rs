//! How fast redaction is: `cargo run --release -p keyward-vault --example redact_bench [-- seconds for each figure]`.
//!
//! Prints a table in Markdown: the redactor alone in memory, and a relay from pipe to pipe with and without it, for different numbers of
//! secrets and kinds of text. It judges nothing.
#![allow(clippy::print_stdout)]

use keyward_vault::redact::{Patterns, Redactor, relay};
use rustix::event::{PollFd, PollFlags, poll};
use std::fs::File;
use std::io::{Read, Write, pipe};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

const CHUNK: usize = 64 * 1024;
const TEXT: usize = 1 << 20;

fn main() -> std::io::Result<()> {
    let seconds = std::env::args().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0.5);
    let time = Duration::from_secs_f64(seconds);
    let numbers = [0, 1, 10, 100, 1000];
    let compiled: Vec<Compiled> = numbers.iter().map(|number| Compiled::new(*number)).collect();

    println!("| secrets | forms | made in | {} |", KINDS.map(|kind| kind.0).join(" | "));
    println!("|---|---|---|{}", "---|".repeat(KINDS.len()));
    for one in &compiled {
        let figures: Vec<String> = KINDS
            .iter()
            .map(|(_, text)| format!("{:.2}", in_memory(&one.patterns, &text(&one.secrets), time)))
            .collect();
        let made = one.took.as_secs_f64() * 1e3;
        println!(
            "| {} | {} | {made:.1} ms | {} |",
            one.secrets.len(),
            one.patterns.forms(),
            figures.join(" | ")
        );
    }

    println!(
        "\n| relay, pipe to pipe, log | GB/s | to plain | GB per second of processor time | to plain |\n|---|---|---|---|---|"
    );
    let text = log(&[]);
    // Short runs, one after the other in many rounds, and the best of each: others use this machine too.
    let mut fastest = vec![Speed::default(); compiled.len() + 1];
    let rounds = 20;
    for _ in 0..rounds {
        let time = time.mul_f64(4.0) / rounds;
        fastest[0] = fastest[0].max(through_pipes(&text, time, &plain_relay)?);
        for (one, fastest) in compiled.iter().zip(&mut fastest[1..]) {
            let run = |from: BorrowedFd, to: BorrowedFd| relay(from, to, &one.patterns).map(drop);
            *fastest = fastest.max(through_pipes(&text, time, &run)?);
        }
    }
    let plain = fastest[0];
    println!("| without redaction | {:.2} | 1.00 | {:.2} | 1.00 |", plain.wall, plain.processor);
    for (one, speed) in compiled.iter().zip(&fastest[1..]) {
        let (number, Speed { wall, processor }) = (one.secrets.len(), speed);
        println!(
            "| {number} secrets | {wall:.2} | {:.2} | {processor:.2} | {:.2} |",
            wall / plain.wall,
            processor / plain.processor
        );
    }
    Ok(())
}

/// GB/s by the clock, and by the time that the relay's thread had a processor.
#[derive(Clone, Copy, Default)]
struct Speed {
    wall: f64,
    processor: f64,
}

impl Speed {
    fn max(self, other: Speed) -> Speed {
        Speed { wall: self.wall.max(other.wall), processor: self.processor.max(other.processor) }
    }
}

struct Compiled {
    secrets: Vec<(String, Vec<u8>)>,
    patterns: Patterns,
    took: Duration,
}

impl Compiled {
    fn new(number: usize) -> Self {
        let mut random = Random(7 + number as u64);
        let secrets: Vec<(String, Vec<u8>)> =
            (0..number).map(|at| (format!("secret-{at}"), secret(at, &mut random))).collect();
        let start = Instant::now();
        let (patterns, _) =
            Patterns::new(secrets.iter().map(|(name, value)| (name.as_str(), value.as_slice())));
        Compiled { patterns, took: start.elapsed(), secrets }
    }
}

/// Tokens of vendors, passwords with signs, hexadecimal keys.
fn secret(at: usize, random: &mut Random) -> Vec<u8> {
    let letters: &[u8] = match at % 4 {
        0 | 1 => b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
        2 => b"abcdefghijkmnpqrstuvwxyz23456789!#%&/=?+-_ ",
        _ => b"0123456789abcdef",
    };
    let (prefix, length) = [("sk-ant-", 40), ("ghp_", 36), ("", 20), ("", 64)][at % 4];
    let mut value = prefix.as_bytes().to_vec();
    value.extend((0..length).map(|_| letters[random.below(letters.len())]));
    value
}

type Kind = (&'static str, fn(&[(String, Vec<u8>)]) -> Vec<u8>);

const KINDS: [Kind; 6] = [
    ("log", log),
    ("source", source),
    ("base64", base64),
    ("zeros", |_| vec![0; TEXT]),
    ("near secrets", near_secrets),
    ("near tokens", near_tokens),
];

fn log(_: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut random = Random(1);
    let mut text = Vec::with_capacity(TEXT + 256);
    while text.len() < TEXT {
        let (a, b, c) = (random.below(60), random.below(100_000), random.next());
        let line = match random.below(4) {
            0 => format!(
                "2026-03-14T09:{a:02}:07.{b:06}Z INFO  server::http request finished method=GET path=/api/v1/users/{b} status=200 id={c:016x}\n"
            ),
            1 => format!(
                "   Compiling some-crate-name v{a}.2.{b} (/home/user/project/crates/some-crate-name)\n"
            ),
            2 => format!(
                "10.0.{a}.7 - - [14/Mar/2026:09:{a:02}:07 +0000] \"POST /login HTTP/1.1\" 302 {b} \"-\" \"Mozilla/5.0 (X11; Linux x86_64)\"\n"
            ),
            _ => format!("test module::tests::a_value_that_was_kept_is_found_again_{a} ... ok ({b} ms)\n"),
        };
        text.extend_from_slice(line.as_bytes());
    }
    text
}

fn source(_: &[(String, Vec<u8>)]) -> Vec<u8> {
    let own = [
        include_str!("redact_bench.rs"),
        include_str!("../src/redact/patterns.rs"),
        include_str!("../src/redact/stream.rs"),
    ];
    own.concat().bytes().cycle().take(TEXT).collect()
}

fn base64(_: &[(String, Vec<u8>)]) -> Vec<u8> {
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut random = Random(3);
    (0..TEXT).map(|at| if at % 77 == 76 { b'\n' } else { letters[random.below(64)] }).collect()
}

/// Every value but its last byte, one after the other: each passes the filter, and none is there.
fn near_secrets(secrets: &[(String, Vec<u8>)]) -> Vec<u8> {
    let nearly = secrets.iter().flat_map(|(_, value)| value[..value.len() - 1].iter().chain(b"\n"));
    let mut text: Vec<u8> = nearly.copied().collect();
    if text.is_empty() {
        text = b"nothing to come near to\n".to_vec();
    }
    text.into_iter().cycle().take(TEXT).collect()
}

/// Prefixes of tokens with plain words behind.
fn near_tokens(_: &[(String, Vec<u8>)]) -> Vec<u8> {
    b"sk-learn-and-so-on-and-on pypi-classifiers-list-of-all npm_config_registry_default ghp_short s.encode_to_string_buffer_now "
        .iter()
        .copied()
        .cycle()
        .take(TEXT)
        .collect()
}

/// GB/s of the redactor alone.
fn in_memory(patterns: &Patterns, text: &[u8], time: Duration) -> f64 {
    let (mut out, mut found) = (Vec::with_capacity(2 * CHUNK), Vec::new());
    let mut fastest: f64 = 0.0;
    let end = Instant::now() + time;
    while Instant::now() < end {
        let start = Instant::now();
        let mut redactor = Redactor::new(patterns);
        for piece in text.chunks(CHUNK) {
            redactor.push(piece, &mut out, &mut found);
            out.clear();
        }
        redactor.finish(&mut out, &mut found);
        fastest = fastest.max(text.len() as f64 / start.elapsed().as_secs_f64() / 1e9);
    }
    fastest
}

/// Speed of a relay between a thread that writes and one that reads.
fn through_pipes(
    text: &[u8],
    time: Duration,
    relay: &(dyn Fn(BorrowedFd, BorrowedFd) -> std::io::Result<()> + Sync),
) -> std::io::Result<Speed> {
    let (from_child, mut child) = pipe()?;
    let (mut reader, to_reader) = pipe()?;
    let start = Instant::now();
    let moved = std::thread::scope(|scope| {
        scope.spawn(move || {
            let end = start + time;
            while Instant::now() < end {
                for piece in text.chunks(CHUNK) {
                    if child.write_all(piece).is_err() {
                        return;
                    }
                }
            }
        });
        let counter = scope.spawn(move || {
            let mut buffer = vec![0; CHUNK];
            let mut moved = 0_usize;
            while let Ok(length @ 1..) = reader.read(&mut buffer) {
                moved += length;
            }
            moved
        });
        let before = processor_time();
        relay(from_child.as_fd(), to_reader.as_fd())?;
        let used = processor_time() - before;
        drop(to_reader);
        let moved = counter.join().map_err(|_| std::io::Error::other("the reader failed"))?;
        std::io::Result::Ok((moved as f64, used))
    })?;
    let (moved, used) = moved;
    Ok(Speed { wall: moved / start.elapsed().as_secs_f64() / 1e9, processor: moved / used / 1e9 })
}

fn processor_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The same steps without looking at the bytes.
fn plain_relay(from: BorrowedFd, to: BorrowedFd) -> std::io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    let mut to = File::from(to.try_clone_to_owned()?);
    loop {
        poll(&mut [PollFd::new(&from, PollFlags::IN), PollFd::new(&to, PollFlags::empty())], None)?;
        match rustix::io::read(from, &mut buffer)? {
            0 => return Ok(()),
            length => to.write_all(&buffer[..length])?,
        }
    }
}

/// Numbers that look random and are the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 ^ self.0 >> 33
    }

    fn below(&mut self, most: usize) -> usize {
        (self.next() >> 16) as usize % most
    }
}
