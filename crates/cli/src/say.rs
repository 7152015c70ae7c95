//! Words for people: two lines, the fact and what they can do. The only place that prints.
//!
//! The command writes to the same standard error, and may leave a line unfinished there. What we say after it begins a new one.
#![allow(clippy::print_stderr, clippy::print_stdout)]

pub mod streams;

use keyward_policy::outcome::Outcome;
use keyward_policy::trouble::{Code, Trouble};
use keyward_sys::Errno;
pub use keyward_sys::file::cause;
use rustix::fs::{FileType, Mode, OFlags};
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether failures are told as JSON.
static AS_JSON: AtomicBool = AtomicBool::new(false);

/// Where the command has left standard error, until we have said something there.
static LEFT_AT: Mutex<Left> = Mutex::new(Left::LineStart);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    LineStart,
    WithinLine,
    Unknown,
}

/// The reader of our messages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reader {
    Person,
    Program,
}

/// A command has had our streams. `within_a_line` is what the relay of a terminal knows.
pub fn after_command(within_a_line: Option<bool>) {
    streams::share();
    streams::restore();
    if let Ok(mut left_at) = LEFT_AT.lock() {
        *left_at = match within_a_line {
            _ if !keyward_sys::terminal::is_terminal(rustix::stdio::stderr()) => Left::Unknown,
            None => Left::Unknown,
            Some(true) => Left::WithinLine,
            Some(false) => Left::LineStart,
        };
    }
}

/// Writes to stderr, beginning a new line where the command has left one unfinished. A pipe does not tell. A program
/// that looks for its line must find it there, and gets an empty line too many; a person is spared that.
fn write_stderr(reader: Reader, text: &[u8]) -> Result<(), Errno> {
    // First, so that we look where we write.
    streams::restore();
    let left_at =
        LEFT_AT.lock().map_or(Left::LineStart, |mut left| std::mem::replace(&mut *left, Left::LineStart));
    let left_at = match left_at {
        Left::Unknown => where_file_ends().unwrap_or(Left::Unknown),
        known => known,
    };
    let begins = match left_at {
        Left::LineStart => false,
        Left::WithinLine => true,
        Left::Unknown => reader == Reader::Program,
    };
    let whole = if begins { [b"\n", text].concat() } else { text.to_vec() };
    let _alone = std::io::stderr().lock();
    streams::write(rustix::stdio::stderr(), &whole)
}

/// Looks at the last byte of what stderr is, if it is a file that we may read.
fn where_file_ends() -> Option<Left> {
    let stderr = rustix::stdio::stderr();
    let found = rustix::fs::fstat(stderr).ok()?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return None;
    }
    // After a command it is written at its end.
    let Some(before) = u64::try_from(found.st_size).ok()?.checked_sub(1) else {
        return Some(Left::LineStart);
    };
    // It was opened for writing only, as a rule.
    let file = rustix::fs::open(c"/proc/self/fd/2", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let mut last = [0];
    match rustix::io::pread(&file, &mut last, before).ok()? {
        1 if last == *b"\n" => Some(Left::LineStart),
        1 => Some(Left::WithinLine),
        _ => None,
    }
}

/// A refusal or a fault, on stderr.
pub fn trouble(fact: &str, remedy: &str) {
    trouble_as_written(&format!("keyward: {fact}\n{remedy}"));
}

/// What did not go as asked, in two lines, or with `--json` as one object. Gives the exit code.
pub fn failure(trouble: &Trouble) -> i32 {
    if AS_JSON.load(Ordering::Relaxed) {
        outcome(&Outcome::of_trouble(trouble.clone()));
    } else {
        self::trouble(&trouble.fact, &trouble.remedy);
    }
    trouble.exit()
}

/// From now on failures are told as JSON.
pub fn failures_as_json() {
    AS_JSON.store(true, Ordering::Relaxed);
}

/// One line on stderr that is not trouble.
pub fn note(text: &str) {
    let _ = write_stderr(Reader::Person, format!("keyward: {text}\n").as_bytes());
}

/// Whether a person at a terminal is what standard input waits for, and can read what is said.
pub fn waits_for_a_person() -> bool {
    use keyward_sys::terminal::is_terminal;
    is_terminal(rustix::stdio::stdin()) && is_terminal(rustix::stdio::stderr())
}

/// Tells a person what is waited for: the first search of a large tree, on a disk that has to be read.
pub fn searching(tree: &Path) {
    if !keyward_sys::terminal::is_terminal(rustix::stdio::stderr()) {
        return;
    }
    let tree = keyward_policy::text::visible(tree.as_os_str());
    note(&format!("searching {tree} for secret files; the first search of a tree takes longest"));
}

/// Lines for a person that another process of ours has written.
pub fn words(text: &str) {
    noted(write_stderr(Reader::Person, text.as_bytes()));
}

/// Why an answer, or words that have to be read, did not get out. A reader that has gone away is not an error.
static UNSAID: Mutex<Option<String>> = Mutex::new(None);

fn noted(result: Result<(), Errno>) {
    let _ = Answers::noted(result.map_err(std::io::Error::from));
}

/// The standard output, which remembers what it could not write.
struct Answers(std::io::StdoutLock<'static>);

impl Answers {
    fn noted<T>(result: std::io::Result<T>) -> std::io::Result<T> {
        if let (Err(error), Ok(mut unsaid)) = (&result, UNSAID.lock())
            && error.kind() != std::io::ErrorKind::BrokenPipe
        {
            *unsaid = Some(cause(error));
        }
        result
    }
}

impl Write for Answers {
    fn write(&mut self, text: &[u8]) -> std::io::Result<usize> {
        Answers::noted(self.0.write(text))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Answers::noted(self.0.flush())
    }
}

/// Writes the answer to stdout.
pub fn answer(text: &str) {
    let mut stdout = Answers(std::io::stdout().lock());
    let _ = stdout.write_all(text.as_bytes());
    if !text.ends_with('\n') {
        let _ = stdout.write_all(b"\n");
    }
    let _ = stdout.flush();
}

/// Returns a writer for a long answer. The caller checks whether the reader is still there.
pub fn listing() -> impl Write {
    std::io::BufWriter::with_capacity(64 << 10, Answers(std::io::stdout().lock()))
}

/// The exit code, once all was said: an answer that did not get out is none. What the caller's streams were, they are again.
pub fn settle(exit: i32) -> i32 {
    streams::restore();
    let unsaid = UNSAID.lock().ok().and_then(|mut unsaid| unsaid.take());
    match unsaid {
        Some(why) if exit == 0 => failure(&Trouble::new(
            Code::Unanswered,
            format!("cannot write the answer: {why}"),
            "make room where the output goes, and ask again; `keyward log` has what a run found",
        )),
        _ => exit,
    }
}

/// Writes the answer to stdout as JSON.
pub fn answer_json(value: &impl serde::Serialize) {
    match serde_json::to_string_pretty(value) {
        Ok(text) => answer(&text),
        Err(error) => {
            trouble(&format!("cannot write JSON: {error}"), "this is a fault in keyward; please report it")
        }
    }
}

/// Text that already has its two lines.
pub fn trouble_as_written(text: &str) {
    noted(write_stderr(Reader::Person, format!("{text}\n").as_bytes()));
}

/// The outcome for a program: the last line of stderr.
pub fn outcome(outcome: &Outcome<'_>) {
    if let Ok(mut line) = serde_json::to_vec(outcome) {
        line.push(b'\n');
        noted(write_stderr(Reader::Program, &line));
    }
}

/// The outcome for a program, on a descriptor that it named. The number stays open: it is the caller's.
pub fn outcome_to(number: i32, line: &[u8]) {
    let written = keyward_sys::own(number).and_then(|descriptor| streams::write(descriptor, line));
    if written.is_err() {
        outcome_has_no_place(number);
        noted(written);
    }
}

/// Whether a descriptor that a caller named is open for writing.
pub fn can_write_to(number: i32) -> bool {
    let flags = keyward_sys::own(number).and_then(|descriptor| rustix::fs::fcntl_getfl(&descriptor));
    flags.is_ok_and(|flags| flags.intersects(OFlags::WRONLY | OFlags::RDWR))
}

pub fn outcome_has_no_place(number: i32) {
    trouble(
        &format!("cannot write the outcome to descriptor {number}"),
        "open it for writing in the caller, as in `keyward run --outcome-fd 3 -- CMD 3>outcome.json`",
    );
}

/// A line that is complete already.
pub fn raw_stderr(line: &[u8]) {
    noted(streams::write(rustix::stdio::stderr(), line));
}
