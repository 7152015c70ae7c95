//! The processes of a job, as /proc has them, and their end.

use keyward_sys::signal;
use rustix::process::{Pid, Signal};
use std::path::{Path, PathBuf};

/// Ends a job and all its descendants. It stops them first, so that none starts another meanwhile.
pub(super) fn end_with_descendants(job: Pid) {
    let mut stopped: Vec<Pid> = Vec::new();
    // Each round stops those that were started before the last round stopped their parents.
    for _ in 0..1_000 {
        let found: Vec<Pid> = family(job).into_iter().filter(|pid| !stopped.contains(pid)).collect();
        if found.is_empty() {
            break;
        }
        for pid in found {
            signal::signal_process(pid, Signal::STOP.as_raw());
            stopped.push(pid);
        }
    }
    for pid in stopped {
        signal::signal_process(pid, Signal::KILL.as_raw());
    }
    signal::signal_process(job, Signal::KILL.as_raw());
}

/// A process and its descendants, as /proc has them. What they orphan becomes the job's own child.
pub(super) fn family(job: Pid) -> Vec<Pid> {
    let mut parents: Vec<(Pid, Pid)> = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let number = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        let Some(pid) = number.and_then(Pid::from_raw) else { continue };
        if let Some(parent) = parent_of(&entry.path()) {
            parents.push((pid, parent));
        }
    }
    let mut family = vec![job];
    let mut place = 0;
    while place < family.len() {
        let above = family[place];
        family.extend(parents.iter().filter(|(_, parent)| *parent == above).map(|(pid, _)| *pid));
        place += 1;
    }
    family
}

/// What /proc says of a process behind its name, which may hold anything; `None` for one that is gone, or dead and not waited for.
fn facts(process: &Path) -> Option<Vec<u64>> {
    let stat = std::fs::read(process.join("stat")).ok()?;
    let after = stat.iter().rposition(|&byte| byte == b')')?;
    let text = String::from_utf8_lossy(&stat[after + 1..]).into_owned();
    let mut fields = text.split_whitespace();
    if fields.next()? == "Z" {
        return None;
    }
    Some(fields.map(|field| field.parse().unwrap_or(0)).collect())
}

fn parent_of(process: &Path) -> Option<Pid> {
    Pid::from_raw(i32::try_from(*facts(process)?.first()?).ok()?)
}

/// When a process was born, in ticks of the clock.
pub(super) fn born_at(pid: Pid) -> Option<u64> {
    // The 22nd field; number, name and state stand before these.
    facts(&PathBuf::from(format!("/proc/{}", pid.as_raw_nonzero())))?.get(18).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Child, Command, Stdio};

    /// A shell, and the process that it has started and told us of.
    fn shell_with_a_child() -> (Child, Pid) {
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 1000 & echo $!; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        (shell, Pid::from_raw(line.trim().parse().unwrap()).unwrap())
    }

    #[test]
    fn a_family_is_a_process_and_what_it_has_started_and_nothing_else() {
        let ((mut job, child), (mut other, stranger)) = (shell_with_a_child(), shell_with_a_child());
        let found = family(Pid::from_child(&job));
        assert_eq!(found, [Pid::from_child(&job), child]);
        assert!(!found.contains(&stranger));
        for shell in [&mut job, &mut other] {
            end_with_descendants(Pid::from_child(shell));
            shell.wait().unwrap();
        }
    }

    #[test]
    fn with_a_job_its_descendants_end() {
        let (mut job, child) = shell_with_a_child();
        end_with_descendants(Pid::from_child(&job));
        use std::os::unix::process::ExitStatusExt;
        assert_eq!(job.wait().unwrap().signal(), Some(9));
        // The child is dead, or about to be: it has the same signal.
        while born_at(child).is_some() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_process_keeps_its_birth_and_one_that_is_gone_has_none() {
        let own = rustix::process::getpid();
        assert!(born_at(own).is_some_and(|born| born > 0 && Some(born) == born_at(own)));
        let mut child = Command::new("true").spawn().unwrap();
        let pid = Pid::from_child(&child);
        child.wait().unwrap();
        assert_eq!(born_at(pid), None);
    }

    #[test]
    fn a_dead_process_that_was_not_waited_for_is_no_parent_and_has_no_birth() {
        let mut child = Command::new("true").stdout(Stdio::piped()).spawn().unwrap();
        let pid = Pid::from_child(&child);
        let dead = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        rustix::process::waitid(rustix::process::WaitId::Pid(pid), dead).unwrap();
        assert_eq!(born_at(pid), None);
        child.wait().unwrap();
    }

    #[test]
    fn a_name_with_brackets_and_blanks_does_not_shift_what_stands_behind_it() {
        let folder = std::env::temp_dir().join(format!("keyward-family-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("stat"), "7 (a) R 1 (b) S 42 7 7").unwrap();
        assert_eq!(parent_of(&folder), Pid::from_raw(42));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
