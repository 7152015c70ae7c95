//! The spawner of a session: a process of the cage, behind all its walls, that starts further commands there when the session asks.
//!
//! It stands where a command would: in the Landlock domain, behind the filter, without a capability. So each command it starts is born
//! behind them, and costs no more than a spawn. Init is above it and ends the cage with it. It is opaque, so that the commands cannot
//! reach into it; one that kills it ends its own session. It holds the command's variables, and while a command starts its streams.
//!
//! Between a command on a terminal and the spawner, a leader process leads the session of that terminal, as init does for a run: so
//! it can be stopped and go on, and can be kept from reading until it gets input.

use crate::init;
use crate::prepare::{Prepared, SHELL, c_string};
use crate::wire::{self, Order, Report};
use keyward_policy::linux::cage::Step;
use keyward_policy::outcome::code::{DENIED, USAGE};
use keyward_protocol::packet::{self, LONGEST};
use keyward_protocol::session::Terminal;
use keyward_protocol::spawner::{Errand, News};
use keyward_sys::confine::Limit;
use keyward_sys::exec::{self, Strings};
use keyward_sys::fork::{self, Change, End, Forked};
use keyward_sys::signal::{self, Inbox, Set};
use keyward_sys::{Errno, channel, confine, environ, terminal};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::OFlags;
use rustix::io::FdFlags;
use rustix::process::{Pid, Signal};
use std::collections::HashMap;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A command that was started.
struct Job {
    number: u32,
    terminal: Option<OnTerminal>,
    /// The processes of the job when it was told to end: each by number and start time, because numbers are reused.
    ending: Vec<(Pid, u64)>,
}

/// What a job on a terminal has besides.
struct OnTerminal {
    /// The session's side of the terminal.
    main: OwnedFd,
    /// The socket to the one who leads the terminal's session.
    leader: OwnedFd,
}

/// Why a command was not started.
#[derive(Clone, Copy)]
enum NotStarted {
    Command(Errno),
    /// The folder that it was to start in.
    Folder(Errno),
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
        let mut polled = vec![PollFd::new(&inbox, PollFlags::IN), PollFd::new(&spawner.door, PollFlags::IN)];
        let leaders: Vec<(&Pid, &OnTerminal)> =
            spawner.jobs.iter().filter_map(|(pid, job)| Some((pid, job.terminal.as_ref()?))).collect();
        polled.extend(leaders.iter().map(|(_, terminal)| PollFd::new(&terminal.leader, PollFlags::IN)));
        match poll(&mut polled, None) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(_) => fork::exit_now(125),
        }
        let asked = !polled[1].revents().is_empty();
        let told = leaders.iter().zip(&polled[2..]).filter(|(_, polled)| !polled.revents().is_empty());
        let told: Vec<Pid> = told.map(|((pid, _), _)| **pid).collect();
        told.into_iter().for_each(|pid| spawner.hear(pid));
        while inbox.next().is_some() {}
        if asked {
            match channel::receive(&spawner.door, &mut packet) {
                Ok(message) if message.length > 0 => {
                    match packet::read::<Errand>(&packet[..message.length]) {
                        Some(errand) => spawner.work(errand, message.descriptors),
                        None => fork::exit_now(125),
                    }
                }
                _ => fork::exit_now(0),
            }
        }
    }
}

/// Whether the scripts that the command will find are those that were judged.
fn are_as_judged(scripts: &OwnedFd) -> Result<(), (i32, String)> {
    match crate::judged::changed(scripts) {
        Ok(None) => Ok(()),
        Ok(Some(changed)) => {
            Err((DENIED, format!("{} is not as the gate has judged it", changed.to_string_lossy())))
        }
        Err(errno) => {
            Err((DENIED, format!("the scripts cannot be compared: {}", keyward_sys::file::reason(errno))))
        }
    }
}

impl Spawner<'_> {
    fn tell(&self, news: &News, descriptors: &[BorrowedFd<'_>]) {
        if channel::send(&self.door, &packet::write(news), descriptors).is_err() {
            fork::exit_now(0);
        }
    }

    fn reap(&mut self) {
        while let Some((pid, change)) = fork::next_change() {
            let Change::Ended(end) = change else { continue };
            let killed_by = self.last_words(pid);
            if let Some(job) = self.jobs.remove(&pid) {
                let (exit, signal) = match (killed_by, end) {
                    (Some(signal), _) | (None, End::Signalled(signal)) => (128 + signal, Some(signal)),
                    (None, End::Exited(code)) => (code, None),
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

    /// What the leader of a terminal says of its command.
    fn hear(&self, pid: Pid) {
        let Some(job) = self.jobs.get(&pid) else { return };
        let Some(terminal) = &job.terminal else { return };
        if let Some((Report::Stopped { signal }, _)) = wire::next_report(&terminal.leader) {
            self.tell(&News::Stopped { job: job.number, signal }, &[]);
        }
    }

    /// The signal that ended the command of a leader that has ended.
    fn last_words(&self, pid: Pid) -> Option<i32> {
        let terminal = self.jobs.get(&pid)?.terminal.as_ref()?;
        let mut killed_by = None;
        while let Some((report, _)) = wire::next_report(&terminal.leader) {
            if let Report::Killed { signal } = report {
                killed_by = Some(signal);
            }
        }
        killed_by
    }

    fn work(&mut self, errand: Errand, descriptors: Vec<OwnedFd>) {
        match errand {
            Errand::Start { job, argv, cwd, terminal, judged, state } => {
                let mut argv: Vec<OsString> = argv.into_iter().map(OsString::from).collect();
                let cwd = cwd.map(OsString::from);
                let mut streams = descriptors;
                let scripts = judged.then(|| streams.pop()).flatten();
                let state = state.then(|| streams.pop()).flatten();
                argv.extend(state.iter().map(|state| state.as_raw_fd().to_string().into()));
                let started = match scripts {
                    Some(scripts) => are_as_judged(&scripts),
                    None => Ok(()),
                };
                let started =
                    started.and_then(|()| self.start(job, &argv, cwd.as_deref(), terminal, (streams, state)));
                if let Err((code, why)) = started {
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
                match self.find(job) {
                    Some((pid, Job { terminal: Some(terminal), .. })) => {
                        match rustix::termios::tcgetpgrp(&terminal.main) {
                            Ok(front) if front != pid => signal::signal_group(front, signal),
                            // No process of the job is in front: use its own group, whose number the leader knows.
                            _ => drop(wire::order(&terminal.leader, Order::Signal { signal }, &[])),
                        }
                    }
                    Some((pid, _)) => signal::signal_group(pid, signal),
                    None => {}
                }
            }
            Errand::Front { job, front } => {
                if let Some((_, Job { terminal: Some(terminal), .. })) = self.find(job) {
                    let order = if front { Order::Foreground } else { Order::Background };
                    let _ = wire::order(&terminal.leader, order, &[]);
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
        wanted: Option<Terminal>,
        (streams, state): (Vec<OwnedFd>, Option<OwnedFd>),
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
            None => self.prepared.acts.cwd.clone(),
        };
        let pty = match wanted {
            Some(wanted) => Some((wanted, open_terminal(wanted).map_err(|errno| (125, reason(errno)))?)),
            None => None,
        };
        let mut others = streams.iter();
        let mut stream = |place: usize| match &pty {
            Some((wanted, (_, peer))) if wanted.streams[place] => Some(peer.as_fd()),
            _ => others.next().map(AsFd::as_fd),
        };
        let (Some(stdin), Some(stdout), Some(stderr)) = (stream(0), stream(1), stream(2)) else {
            return Err((125, "the command came without its streams".into()));
        };
        let (prepared, mask) = (self.prepared, self.mask);
        // The leader of a command on a terminal leads the session; the command has a group of its own there.
        let in_session = || match &pty {
            None => confine::new_session(),
            Some((wanted, (_, peer))) => {
                rustix::process::setpgid(None, None)?;
                if wanted.front {
                    // All signals are still blocked here, or the terminal would stop us for this.
                    terminal::set_foreground(peer, rustix::process::getpid())?;
                }
                Ok(())
            }
        };
        let start = || {
            // Where it failed, as the memory is borrowed.
            let mut failed = None;
            let process = fork::borrow_memory(&mut fork::Stack::new(), &mut || {
                let ready = || -> Result<(), Errno> {
                    in_session()?;
                    // What the command's children leave behind becomes its own, so that it can be ended with it.
                    confine::become_subreaper()?;
                    rustix::stdio::dup2_stdin(stdin)?;
                    rustix::stdio::dup2_stdout(stdout)?;
                    rustix::stdio::dup2_stderr(stderr)?;
                    confine::close_on_exec_from(3)?;
                    if let Some(state) = &state {
                        rustix::io::fcntl_setfd(state, FdFlags::empty())?;
                    }
                    for limit in prepared.limits.iter().filter(|limit| matches!(limit, Limit::CpuSeconds(_)))
                    {
                        limit.set()?;
                    }
                    signal::set_mask(mask);
                    Ok(())
                };
                failed = Some(match (rustix::process::chdir(cwd.as_c_str()), ready()) {
                    (Ok(()), Ok(())) => {
                        NotStarted::Command(execute(&candidates, &words, &scripts, &prepared.envp))
                    }
                    (Err(errno), _) => NotStarted::Folder(errno),
                    (_, Err(errno)) => NotStarted::Command(errno),
                });
                fork::exit_now(127);
            })
            .map_err(NotStarted::Command)?;
            match failed {
                Some(failed) => {
                    let _ = process.wait();
                    Err(failed)
                }
                None => Ok(process),
            }
        };
        let is_limited = prepared.limits.iter().any(|limit| matches!(limit, Limit::Processes(_)));
        let refused = |errno: Errno| match errno {
            Errno::AGAIN if is_limited => (125, "the session reached its limit pids".to_owned()),
            Errno::NOENT => (127, reason(errno)),
            _ => (126, reason(errno)),
        };
        let not_started = |why: NotStarted| match why {
            NotStarted::Command(errno) => refused(errno),
            NotStarted::Folder(errno) => {
                let folder = keyward_policy::text::visible(OsStr::from_bytes(cwd.as_bytes()));
                let why = match errno {
                    Errno::NOENT | Errno::NOTDIR => {
                        format!("the directory {folder} does not exist in the cage")
                    }
                    _ => format!("the directory {folder} cannot be entered in the cage: {}", reason(errno)),
                };
                (USAGE, why)
            }
        };
        if pty.is_none() {
            let process = start().map_err(not_started)?;
            self.jobs.insert(process.pid, Job { number, terminal: None, ending: Vec::new() });
            self.tell(&News::Started { job: number }, &[]);
            return Ok(());
        }
        let (leader, theirs) = channel::pair().map_err(refused)?;
        let process = match fork::fork().map_err(refused)? {
            Forked::Parent(process) => process,
            Forked::Child => {
                environ::set_title(c"keyward:terminal");
                let lead = |peer: &OwnedFd| {
                    confine::new_session().map_err(NotStarted::Command)?;
                    terminal::make_controlling(peer).map_err(NotStarted::Command)?;
                    start()
                };
                let led = match &pty {
                    Some((_, (_, peer))) => lead(peer),
                    None => Err(NotStarted::Command(Errno::NOTTY)),
                };
                match led {
                    Err(why) => {
                        let (step, errno) = match why {
                            NotStarted::Command(errno) => (Step::Exec, errno),
                            NotStarted::Folder(errno) => (Step::View, errno),
                        };
                        wire::report(&theirs, Report::Failed { step, index: 0, errno }, &[]);
                        fork::exit_now(127)
                    }
                    Ok(process) => {
                        // Nothing of the spawner stays here but the way to it.
                        wire::report(&theirs, Report::Started, &[]);
                        self.jobs.clear();
                        self.door = theirs;
                        drop((leader, streams));
                        let terminal = pty.map(|(_, (_, peer))| peer);
                        init::live(init::Command { process, terminal }, &self.door, || {})
                    }
                }
            }
        };
        drop(theirs);
        match wire::next_report(&leader) {
            Some((Report::Started, _)) => {}
            told => {
                let _ = process.wait();
                return Err(match told {
                    Some((Report::Failed { step: Step::View, errno, .. }, _)) => {
                        not_started(NotStarted::Folder(errno))
                    }
                    Some((Report::Failed { errno, .. }, _)) => refused(errno),
                    _ => (125, "the leader of its terminal is gone".into()),
                });
            }
        }
        // One that was stopped must not make us wait.
        rustix::fs::fcntl_setfl(&leader, OFlags::NONBLOCK).map_err(refused)?;
        if let Some((_, (main, _))) = pty {
            self.tell(&News::Started { job: number }, &[main.as_fd()]);
            let terminal = Some(OnTerminal { main, leader });
            self.jobs.insert(process.pid, Job { number, terminal, ending: Vec::new() });
        }
        Ok(())
    }
}

fn reason(errno: Errno) -> String {
    keyward_sys::file::reason(errno)
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

fn open_terminal(size: Terminal) -> Result<(OwnedFd, OwnedFd), Errno> {
    let (main, peer) = terminal::open_pty(c"/dev/pts/ptmx")?;
    terminal::set_window_size(
        &peer,
        terminal::Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 },
    );
    Ok((main, peer))
}

/// Ends a job and all its descendants. It stops them first, so that none starts another meanwhile.
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
