//! The spawner of a session: a process of the cage, behind all its walls, that starts further commands there when the session asks.
//!
//! It stands where a command would: in the Landlock domain, behind the filter, without a capability. So each command it starts is born
//! behind them, and costs no more than a spawn. Init is above it and ends the cage with it. It is opaque, so that the commands cannot
//! reach into it; one that kills it ends its own session. It holds the command's variables, and while a command starts its streams.

use crate::prepare::{Prepared, SHELL, c_string};
use keyward_policy::door::{self, Errand, LONGEST, News, Size};
use keyward_policy::plan::Step;
use keyward_sys::confine::Limit;
use keyward_sys::exec::{self, Strings};
use keyward_sys::fork::{self, Change, End};
use keyward_sys::signal::{self, Inbox, Set};
use keyward_sys::{Errno, channel, confine, environ, terminal};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::process::{Pid, Signal};
use std::collections::HashMap;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A command that was started.
struct Job {
    number: u32,
    /// The cage's side of its terminal.
    terminal: Option<OwnedFd>,
    /// Who belonged to it when it was told to end: each by number and birth, because numbers come again.
    ending: Vec<(Pid, u64)>,
}

struct Spawner<'a> {
    door: OwnedFd,
    prepared: &'a Prepared,
    /// Where programs are looked for.
    search: Vec<PathBuf>,
    jobs: HashMap<Pid, Job>,
    mask: &'a Set,
}

/// Lives until the session is gone.
pub(crate) fn live(prepared: &Prepared, door: OwnedFd, mask: &Set) -> ! {
    environ::set_title(c"keyward:spawner");
    let ready = confine::become_opaque().and_then(|()| confine::become_subreaper());
    let inbox = Inbox::new(&Set::of(&[Signal::CHILD.as_raw()]));
    let (Ok(()), Ok(inbox)) = (ready, inbox) else { fork::exit_now(125) };
    let mut spawner = Spawner { door, prepared, search: prepared.search.clone(), jobs: HashMap::new(), mask };
    let mut packet = vec![0; LONGEST];
    loop {
        spawner.reap();
        let mut polled = [PollFd::new(&inbox, PollFlags::IN), PollFd::new(&spawner.door, PollFlags::IN)];
        match poll(&mut polled, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(_) => fork::exit_now(125),
        }
        let asked = !polled[1].revents().is_empty();
        while inbox.next().is_some() {}
        if asked {
            match channel::receive(&spawner.door, &mut packet) {
                Ok(message) if message.length > 0 => match door::read::<Errand>(&packet[..message.length]) {
                    Some(errand) => spawner.work(errand, message.descriptors),
                    None => fork::exit_now(125),
                },
                _ => fork::exit_now(0),
            }
        }
    }
}

impl Spawner<'_> {
    fn tell(&self, news: &News, descriptors: &[BorrowedFd<'_>]) {
        if channel::send(&self.door, &door::write(news), descriptors).is_err() {
            fork::exit_now(0);
        }
    }

    fn reap(&mut self) {
        while let Some((pid, change)) = fork::next_change() {
            let Change::Ended(end) = change else { continue };
            if let Some(job) = self.jobs.remove(&pid) {
                let (exit, signal) = match end {
                    End::Exited(code) => (code, None),
                    End::Signalled(signal) => (128 + signal, Some(signal)),
                };
                for (pid, born) in job.ending {
                    if born_at(pid) == Some(born) {
                        end_with_descendants(pid);
                    }
                }
                self.tell(&News::Ended { job: job.number, exit, signal }, &[]);
            }
        }
    }

    fn work(&mut self, errand: Errand, descriptors: Vec<OwnedFd>) {
        match errand {
            Errand::Start { job, argv, cwd, terminal } => {
                let argv: Vec<OsString> = argv.into_iter().map(OsString::from).collect();
                let cwd = cwd.map(OsString::from);
                if let Err((code, why)) = self.start(job, &argv, cwd.as_deref(), terminal, &descriptors) {
                    self.tell(&News::Failed { job, code, why }, &[]);
                }
            }
            Errand::Signal { job, signal, ending } => {
                if ending && let Some((pid, _)) = self.find(job) {
                    let family = family(pid).into_iter().filter(|other| *other != pid);
                    let family: Vec<(Pid, u64)> =
                        family.filter_map(|pid| Some((pid, born_at(pid)?))).collect();
                    self.jobs.entry(pid).and_modify(|job| job.ending.extend(family));
                }
                if let Some((pid, job)) = self.find(job) {
                    let front =
                        job.terminal.as_ref().and_then(|terminal| rustix::termios::tcgetpgrp(terminal).ok());
                    signal::signal_group(front.unwrap_or(pid), signal);
                }
            }
            Errand::Kill { job } => {
                if let Some((pid, _)) = self.find(job) {
                    end_with_descendants(pid);
                }
            }
        }
    }

    fn find(&self, number: u32) -> Option<(Pid, &Job)> {
        self.jobs.iter().find(|(_, job)| job.number == number).map(|(pid, job)| (*pid, job))
    }

    fn start(
        &mut self,
        number: u32,
        argv: &[OsString],
        cwd: Option<&OsStr>,
        size: Option<Size>,
        streams: &[OwnedFd],
    ) -> Result<(), (i32, String)> {
        let program = argv
            .first()
            .filter(|program| !program.is_empty())
            .ok_or((127, "there is no command".to_owned()))?;
        let bad = |_| (125, "a word of the command holds a zero byte".to_owned());
        let candidates = candidates(program, &self.search).map_err(bad)?;
        let words: Vec<CString> =
            argv.iter().map(|word| c_string(Step::Exec, word)).collect::<Result<_, _>>().map_err(bad)?;
        let mut scripts = Vec::with_capacity(candidates.len());
        for candidate in &candidates {
            let mut words_of_shell = vec![SHELL.to_owned(), candidate.clone()];
            words_of_shell.extend(words.iter().skip(1).cloned());
            scripts.push(Strings::new(words_of_shell));
        }
        let words = Strings::new(words);
        let cwd = match cwd {
            Some(cwd) => c_string(Step::Exec, cwd).map_err(bad)?,
            None => self.prepared.cwd.clone(),
        };
        let pty = match size {
            Some(size) => Some(open_terminal(size).map_err(|errno| (125, reason(errno)))?),
            None => None,
        };
        let [stdin, stdout, stderr] = match (&pty, streams) {
            (Some((_, peer)), _) => [peer.as_fd(); 3],
            (None, [stdin, stdout, stderr]) => [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()],
            _ => return Err((125, "the command came without its streams".into())),
        };
        let (prepared, mask) = (self.prepared, self.mask);
        // Where it failed, as the memory is borrowed.
        let mut failed = None;
        let process = fork::borrow_memory(&mut fork::Stack::new(), &mut || {
            let ready = || -> Result<(), Errno> {
                confine::new_session()?;
                // What the command's children leave behind becomes its own, so that it can be ended with it.
                confine::become_subreaper()?;
                if let Some((_, peer)) = &pty {
                    terminal::make_controlling(peer)?;
                }
                rustix::stdio::dup2_stdin(stdin)?;
                rustix::stdio::dup2_stdout(stdout)?;
                rustix::stdio::dup2_stderr(stderr)?;
                rustix::process::chdir(cwd.as_c_str())?;
                confine::close_on_exec_from(3)?;
                for limit in prepared.limits.iter().filter(|limit| matches!(limit, Limit::CpuSeconds(_))) {
                    limit.set()?;
                }
                signal::set_mask(mask);
                Ok(())
            };
            failed = Some(match ready() {
                Ok(()) => execute(&candidates, &words, &scripts, &prepared.envp),
                Err(errno) => errno,
            });
            fork::exit_now(127);
        });
        let is_limited = prepared.limits.iter().any(|limit| matches!(limit, Limit::Processes(_)));
        let process = process.map_err(|errno| match errno {
            Errno::AGAIN if is_limited => (125, "the session reached its limit pids".to_owned()),
            errno => (125, reason(errno)),
        })?;
        if let Some(errno) = failed {
            let _ = process.wait();
            let code = if errno == Errno::NOENT { 127 } else { 126 };
            return Err((code, reason(errno)));
        }
        match pty {
            Some((main, peer)) => {
                self.jobs.insert(process.pid, Job { number, terminal: Some(peer), ending: Vec::new() });
                self.tell(&News::Started { job: number }, &[main.as_fd()]);
            }
            None => {
                self.jobs.insert(process.pid, Job { number, terminal: None, ending: Vec::new() });
                self.tell(&News::Started { job: number }, &[]);
            }
        }
        Ok(())
    }
}

fn reason(errno: Errno) -> String {
    crate::fault::reason(errno)
}

fn candidates(program: &OsStr, search: &[PathBuf]) -> Result<Vec<CString>, crate::fault::Fault> {
    if program.as_bytes().contains(&b'/') {
        return Ok(vec![c_string(Step::Exec, program)?]);
    }
    search.iter().map(|folder| c_string(Step::Exec, folder.join(program).as_os_str())).collect()
}

/// Tries the candidates as the shell would.
fn execute(candidates: &[CString], words: &Strings, scripts: &[Strings], envp: &Strings) -> Errno {
    let mut told = Errno::NOENT;
    for (candidate, script) in candidates.iter().zip(scripts) {
        match exec::execve(candidate, words, envp) {
            Errno::NOENT | Errno::NOTDIR => {}
            Errno::ACCESS => told = Errno::ACCESS,
            Errno::NOEXEC => return exec::execve(SHELL, script, envp),
            errno => return errno,
        }
    }
    told
}

fn open_terminal(size: Size) -> Result<(OwnedFd, OwnedFd), Errno> {
    let (main, peer) = terminal::open_pty(c"/dev/pts/ptmx")?;
    terminal::set_window_size(
        &peer,
        terminal::Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 },
    );
    Ok((main, peer))
}

/// Ends a job and everything below it: stopped first, so that nobody starts another meanwhile.
fn end_with_descendants(job: Pid) {
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
fn family(job: Pid) -> Vec<Pid> {
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
fn born_at(pid: Pid) -> Option<u64> {
    // The 22nd field; number, name and state stand before these.
    facts(&PathBuf::from(format!("/proc/{}", pid.as_raw_nonzero())))?.get(18).copied()
}
