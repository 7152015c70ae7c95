//! Asks the same question about many things, with the help of a second process where that is worth it.
//!
//! A process and not a thread: the launcher forks, and must have one thread only. The helper has a copy of our memory, answers through a
//! pipe, and is gone before we go on.

use keyward_sys::fork::{self, Forked};
use rustix::fd::OwnedFd;
use rustix::io::Errno;

/// Below this many questions a second process costs more than it saves.
const WORTH_IT: usize = 1_500;

/// The answers to `ask`, for all numbers below `count`.
pub(crate) fn each(count: usize, ask: impl Fn(usize) -> bool) -> Vec<bool> {
    if count >= WORTH_IT
        && has_second_processor()
        && let Some(answers) = in_halves(count, &ask)
    {
        return answers;
    }
    (0..count).map(ask).collect()
}

fn has_second_processor() -> bool {
    rustix::thread::sched_getaffinity(None).is_ok_and(|processors| processors.count() > 1)
}

fn in_halves(count: usize, ask: &impl Fn(usize) -> bool) -> Option<Vec<bool>> {
    let (from, to) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).ok()?;
    let half = count / 2;
    match fork::fork().ok()? {
        Forked::Child => {
            drop(from);
            let answers: Vec<u8> = (half..count).map(|number| u8::from(ask(number))).collect();
            let written = keyward_sys::file::write_all(&to, &answers);
            fork::exit_now(i32::from(written.is_err()))
        }
        Forked::Parent(helper) => {
            drop(to);
            let mut answers: Vec<bool> = (0..half).map(ask).collect();
            let rest = read_all(&from, count - half);
            let _ = helper.wait();
            // A helper that was killed has answered less: then we ask ourselves.
            match rest {
                Ok(rest) if rest.len() == count - half => {
                    answers.extend(rest.iter().map(|&answer| answer == 1))
                }
                _ => answers.extend((half..count).map(ask)),
            }
            Some(answers)
        }
    }
}

fn read_all(from: &OwnedFd, expected: usize) -> Result<Vec<u8>, Errno> {
    let mut all = vec![0; expected];
    let mut filled = 0;
    while filled < expected {
        match rustix::io::read(from, &mut all[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    all.truncate(filled);
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_processes_answer_as_one_does() {
        for count in [0, 1, 7, WORTH_IT, WORTH_IT * 20 + 1] {
            let answers = each(count, |number| number % 3 == 0);
            assert!(answers.iter().enumerate().all(|(number, &answer)| answer == (number % 3 == 0)));
            assert_eq!(answers.len(), count);
        }
    }
}
