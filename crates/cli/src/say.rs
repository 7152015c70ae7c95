//! Words for people: two lines, the fact and what they can do. The only place that prints.
#![allow(clippy::print_stderr, clippy::print_stdout)]

use std::io::Write;

/// A refusal or a fault, on stderr.
pub fn trouble(fact: &str, remedy: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = writeln!(stderr, "keyward: {fact}\n{remedy}");
}

/// One line on stderr that is not trouble.
pub fn note(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "keyward: {text}");
}

/// What was asked for, on stdout. A reader that has gone away is no trouble.
pub fn answer(text: &str) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes());
    if !text.ends_with('\n') {
        let _ = stdout.write_all(b"\n");
    }
    let _ = stdout.flush();
}

/// Where a long answer goes, piece by piece. Whoever writes it looks whether the reader is still there.
pub fn listing() -> impl Write {
    std::io::BufWriter::with_capacity(64 << 10, std::io::stdout().lock())
}

/// The same as JSON.
pub fn answer_json(value: &impl serde::Serialize) {
    match serde_json::to_string_pretty(value) {
        Ok(text) => answer(&text),
        Err(error) => {
            trouble(&format!("cannot write JSON: {error}"), "this is a fault in keyward; please report it")
        }
    }
}

/// The cause of an I/O error, in lower case and without a number.
pub fn cause(error: &std::io::Error) -> String {
    match rustix::io::Errno::from_io_error(error) {
        Some(errno) => keyward_sys::file::reason(errno),
        None => error.to_string(),
    }
}

/// Text that already has its two lines.
pub fn trouble_as_written(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// The outcome for a program: the last line of stderr.
pub fn outcome(outcome: &keyward_policy::outcome::Outcome<'_>) {
    if let Ok(mut line) = serde_json::to_vec(outcome) {
        line.push(b'\n');
        raw_stderr(&line);
    }
}

/// A line that is complete already.
pub fn raw_stderr(line: &[u8]) {
    let _ = std::io::stderr().lock().write_all(line);
}
