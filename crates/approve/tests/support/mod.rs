//! What the tests of both have in common: a question, and processes beside the test.
#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use keyward_policy::gate::{Question, Text};
use std::process::Command;

pub fn question(text: &str) -> Question {
    Question {
        digest: "d".repeat(64),
        run: "run-1".into(),
        session: None,
        profile: Some("builder".into()),
        scope: "s".repeat(64),
        project: "/srv/project".into(),
        cwd: "/srv/project".into(),
        argv: vec!["git".into(), "push".into()],
        rule: Some("git-push".into()),
        class: Some("publishing".into()),
        reason: "publishes \"refs\" \\ to others".into(),
        span: Some((0, 8)),
        texts: vec![Text { name: "the command".into(), text: text.into() }],
        from_inside: false,
        given: Vec::new(),
    }
}

/// The other half of a test: an ignored test of the same program, in a process that has one thread.
pub fn other_half(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--ignored", "--nocapture", "--test-threads=1"]);
    command
}

/// A process that ends with the value.
pub struct Beside(pub std::process::Child);

impl Drop for Beside {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits until something holds, for as long as a slow machine may need.
pub fn eventually(what: impl Fn() -> bool) -> bool {
    for _ in 0..400 {
        if what() {
            return true;
        }
        std::thread::sleep(std::time::Duration::from_millis(25));
    }
    false
}

/// The processes of this host whose command line holds a text. Those that have ended but were not waited for have none.
pub fn processes_with(text: &str) -> Vec<u32> {
    let numbers = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    let holds = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text)
    };
    numbers.filter(holds).collect()
}

/// A number that no other test uses, for `sleep`: it names a process and lets it live long enough.
pub fn long_time() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{}.{:03}9", 100_000 + std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}
