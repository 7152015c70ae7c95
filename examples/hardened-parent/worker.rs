//! A worker in Rust: takes its key, and signs each line of its input with it (HMAC-SHA256).
//!
//! Build it with `cargo build -p keyward-worker --no-default-features --features token --example hardened-worker`.
#![allow(clippy::print_stderr)]

use sha2::{Digest, Sha256};
use std::io::{BufRead, Write};
use std::process::ExitCode;
use zeroize::Zeroizing;

const BLOCK: usize = 64;

fn main() -> ExitCode {
    match work() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("{why}");
            ExitCode::FAILURE
        }
    }
}

fn work() -> Result<(), Box<dyn std::error::Error>> {
    let mut lines = std::io::stdin().lock().lines();
    let mut out = std::io::stdout().lock();
    // Work may take its time to come. Until then there is no key in this process.
    let Some(first) = lines.next() else { return Ok(()) };
    let key = keyward::take("SIGNING_KEY")?;
    keyward::forget_arguments()?;
    for line in std::iter::once(first).chain(lines) {
        let line = line?;
        if line.is_empty() {
            break;
        }
        writeln!(out, "{}", signature(key.expose(), line.as_bytes()))?;
    }
    drop(key);
    // Nor does anything tell how this process was started.
    keyward::forget_environment()?;
    // From here on the key is in no process but those that had it before us.
    writeln!(out, "done")?;
    // Ends when whoever gives the work has heard it.
    std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink())?;
    Ok(())
}

/// HMAC-SHA256 in hexadecimal. By hand, so that each copy of the key is one that we overwrite; it is for keys of up to 64 bytes.
fn signature(key: &[u8], text: &[u8]) -> String {
    let pad = |with: u8| {
        let mut pad = Zeroizing::new([with; BLOCK]);
        pad.iter_mut().zip(key).for_each(|(place, byte)| *place ^= byte);
        pad
    };
    let inner = Sha256::new().chain_update(pad(0x36).as_slice()).chain_update(text).finalize();
    let outer = Sha256::new().chain_update(pad(0x5c).as_slice()).chain_update(inner).finalize();
    outer.iter().map(|byte| format!("{byte:02x}")).collect()
}
