//! How the spawner starts a command: what it needs is made first, then one process becomes the command. A command on a terminal gets a leader
//! in between.

use super::{Job, OnTerminal, Spawner};
use crate::fault::Fault;
use crate::init;
use crate::prepare::{Prepared, SHELL, c_string};
use crate::session::restoring;
use crate::wire::{self, Report};
use keyward_policy::linux::cage::Step;
use keyward_policy::outcome::code::{DENIED, USAGE};
use keyward_protocol::session::{Surroundings, Terminal, Word};
use keyward_sys::confine::Limit;
use keyward_sys::exec::{self, Strings};
use keyward_sys::file::reason;
use keyward_sys::fork::{self, Forked, Process};
use keyward_sys::signal::{self, Set};
use keyward_sys::{Errno, channel, confine, environ, terminal};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::FdFlags;
use rustix::process::Pid;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// What the session is told of a command that was not started.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) code: i32,
    pub(super) why: String,
}

impl Refused {
    fn new(code: i32, why: impl Into<String>) -> Self {
        Refused { code, why: why.into() }
    }
}

/// Why a command was not started, once everything for it was there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NotStarted {
    Command(Errno),
    /// The directory that it was to start in.
    Directory(Errno),
    /// There are not enough streams for it.
    Streams,
    /// The leader of its terminal has said nothing.
    LeaderGone,
}

impl NotStarted {
    /// How the leader of a terminal says it.
    fn report(self) -> Report {
        let (step, errno) = match self {
            NotStarted::Command(errno) => (Step::Exec, errno),
            NotStarted::Directory(errno) => (Step::View, errno),
            NotStarted::Streams | NotStarted::LeaderGone => (Step::Exec, Errno::PIPE),
        };
        Report::Failed { step, index: 0, errno }
    }

    /// What the session is told. `is_limited` says whether the number of processes is.
    fn refused(self, cwd: &CStr, is_limited: bool) -> Refused {
        let directory = || keyward_policy::text::visible(OsStr::from_bytes(cwd.to_bytes()));
        match self {
            NotStarted::Command(Errno::AGAIN) if is_limited => {
                Refused::new(125, "the session reached its limit pids")
            }
            NotStarted::Command(errno @ Errno::NOENT) => Refused::new(127, reason(errno)),
            NotStarted::Command(errno) => Refused::new(126, reason(errno)),
            NotStarted::Directory(Errno::NOENT | Errno::NOTDIR) => {
                Refused::new(USAGE, format!("the directory {} does not exist in the cage", directory()))
            }
            NotStarted::Directory(errno) => {
                let (directory, reason) = (directory(), reason(errno));
                Refused::new(
                    USAGE,
                    format!("the directory {directory} cannot be entered in the cage: {reason}"),
                )
            }
            NotStarted::Streams => Refused::new(125, "the command came without its streams"),
            NotStarted::LeaderGone => Refused::new(125, "the leader of its terminal is gone"),
        }
    }
}

/// What the session wants started.
pub(super) struct Wanted {
    argv: Vec<OsString>,
    cwd: Option<OsString>,
    terminal: Option<Terminal>,
    /// The streams that are not the terminal.
    streams: Vec<OwnedFd>,
    /// The state that a shell restores.
    state: Option<OwnedFd>,
    /// The scripts that the gate has judged.
    scripts: Option<OwnedFd>,
    /// What a tool has of the process that has started it.
    surroundings: Option<Surroundings>,
}

impl Wanted {
    /// Sorts the descriptors: the streams come first, then the state, then the scripts. Where there is a state, a shell restores it first.
    pub(super) fn new(
        (argv, cwd, terminal): (Vec<Word>, Option<Word>, Option<Terminal>),
        descriptors: Vec<OwnedFd>,
        judged: bool,
        state: bool,
    ) -> Self {
        let mut streams = descriptors;
        let scripts = judged.then(|| streams.pop()).flatten();
        let state = state.then(|| streams.pop()).flatten();
        let argv: Vec<OsString> = argv.into_iter().map(OsString::from).collect();
        let cwd = cwd.map(OsString::from);
        let argv = match &state {
            Some(state) => restoring(argv, cwd.as_deref(), state.as_raw_fd()),
            None => argv,
        };
        Wanted { argv, cwd, terminal, streams, state, scripts, surroundings: None }
    }

    /// Adds what a tool has of the process that has started it.
    pub(super) fn within(self, surroundings: Option<Surroundings>) -> Self {
        Wanted { surroundings, ..self }
    }

    /// Whether the scripts that the command will find are those that were judged.
    fn check_scripts(&self) -> Result<(), Refused> {
        let Some(scripts) = &self.scripts else { return Ok(()) };
        let why = match crate::judged::changed(scripts) {
            Ok(None) => return Ok(()),
            Ok(Some(changed)) => format!("{} is not as the gate has judged it", changed.to_string_lossy()),
            Err(errno) => format!("the scripts cannot be compared: {}", reason(errno)),
        };
        Err(Refused::new(DENIED, why))
    }
}

/// Everything that becoming a command needs, made before there is a process for it: that one allocates nothing.
struct Call {
    candidates: Vec<CString>,
    words: Strings,
    /// The words with which the shell runs a candidate that is a script without an interpreter.
    scripts: Vec<Strings>,
    cwd: CString,
    /// The variables, where they are not those of every command.
    envp: Option<Strings>,
    umask: Option<Mode>,
}

impl Call {
    fn new(wanted: &Wanted, search: &[PathBuf], default_cwd: &CStr, envp: &Strings) -> Result<Self, Refused> {
        let bad = |_| Refused::new(125, "a word of the command holds a zero byte");
        let program = wanted.argv.first().filter(|program| !program.is_empty());
        let program = program.ok_or_else(|| Refused::new(127, "there is no command"))?;
        let around = wanted.surroundings.as_ref();
        let own_search = around.and_then(changed_search);
        let candidates = candidates(program, own_search.as_deref().unwrap_or(search)).map_err(bad)?;
        let words = wanted.argv.iter().map(|word| c_string(Step::Exec, word));
        let mut words: Vec<CString> = words.collect::<Result<_, _>>().map_err(bad)?;
        if let (Some(name), Some(first)) = (around.and_then(|it| it.name.clone()), words.first_mut()) {
            *first = c_string(Step::Exec, &OsString::from(name)).map_err(bad)?;
        }
        let script = |candidate: &CString| {
            let shell = [SHELL.to_owned(), candidate.clone()];
            Strings::new(shell.into_iter().chain(words.iter().skip(1).cloned()).collect())
        };
        let scripts = candidates.iter().map(script).collect();
        let cwd = match &wanted.cwd {
            Some(cwd) => c_string(Step::Exec, cwd).map_err(bad)?,
            None => default_cwd.to_owned(),
        };
        let variables = around.map(|around| changed_variables(envp, around)).transpose().map_err(bad)?;
        let umask = around.map(|around| Mode::from_raw_mode(around.umask & 0o777));
        Ok(Call { candidates, words: Strings::new(words), scripts, cwd, envp: variables.flatten(), umask })
    }

    /// Tries the candidates as the shell would.
    fn execute(&self, envp: &Strings) -> Errno {
        let mut told = Errno::NOENT;
        for (candidate, script) in self.candidates.iter().zip(&self.scripts) {
            match exec::execve(candidate, &self.words, envp) {
                Errno::NOENT | Errno::NOTDIR => {}
                Errno::ACCESS => told = Errno::ACCESS,
                Errno::NOEXEC => return exec::execve(SHELL, script, envp),
                errno => return errno,
            }
        }
        told
    }
}

fn candidates(program: &OsStr, search: &[PathBuf]) -> Result<Vec<CString>, crate::fault::Fault> {
    if program.as_bytes().contains(&b'/') {
        return Ok(vec![c_string(Step::Exec, program)?]);
    }
    search.iter().map(|folder| c_string(Step::Exec, folder.join(program).as_os_str())).collect()
}

/// A terminal that was made for a command.
struct Pty {
    /// The session's side.
    main: OwnedFd,
    /// The command's side.
    peer: OwnedFd,
    wanted: Terminal,
}

impl Pty {
    fn open(wanted: Terminal) -> Result<Self, Refused> {
        let opened = terminal::open_pty(c"/dev/pts/ptmx");
        let (main, peer) = opened.map_err(|errno| Refused::new(125, reason(errno)))?;
        terminal::set_window_size(
            &peer,
            terminal::Winsize { ws_row: wanted.rows, ws_col: wanted.columns, ws_xpixel: 0, ws_ypixel: 0 },
        );
        Ok(Pty { main, peer, wanted })
    }
}

/// The streams of a command: each is its terminal, or the next of those that were sent.
fn streams<'f>(sent: &'f [OwnedFd], pty: Option<&'f Pty>) -> Option<[BorrowedFd<'f>; 3]> {
    let mut others = sent.iter().map(AsFd::as_fd);
    let mut stream = |place: usize| match pty {
        Some(pty) if pty.wanted.streams[place] => Some(pty.peer.as_fd()),
        _ => others.next(),
    };
    Some([stream(0)?, stream(1)?, stream(2)?])
}

/// A command that has all it needs.
struct Command<'c> {
    call: &'c Call,
    streams: [BorrowedFd<'c>; 3],
    state: Option<&'c OwnedFd>,
    pty: Option<&'c Pty>,
    prepared: &'c Prepared,
    mask: &'c Set,
}

impl Command<'_> {
    /// Leads the session of a terminal, and starts the command there.
    fn lead(&self, pty: &Pty) -> Result<Process, NotStarted> {
        confine::new_session().map_err(NotStarted::Command)?;
        terminal::make_controlling(&pty.peer).map_err(NotStarted::Command)?;
        self.spawn()
    }

    /// Starts the process that becomes the command.
    fn spawn(&self) -> Result<Process, NotStarted> {
        // Where it failed, as the memory is borrowed.
        let mut failed = None;
        let process = fork::borrow_memory(&mut fork::Stack::new(), &mut || {
            failed = Some(self.become_it());
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
    }

    /// Becomes the command; returns only if that fails.
    fn become_it(&self) -> NotStarted {
        if let Err(errno) = rustix::process::chdir(self.call.cwd.as_c_str()) {
            return NotStarted::Directory(errno);
        }
        NotStarted::Command(match self.get_ready() {
            Ok(()) => self.call.execute(self.call.envp.as_ref().unwrap_or(&self.prepared.envp)),
            Err(errno) => errno,
        })
    }

    fn get_ready(&self) -> Result<(), Errno> {
        self.stand_apart()?;
        // What the command's children leave behind becomes its own, so that it can be ended with it.
        confine::become_subreaper()?;
        let [stdin, stdout, stderr] = self.streams;
        rustix::stdio::dup2_stdin(stdin)?;
        rustix::stdio::dup2_stdout(stdout)?;
        rustix::stdio::dup2_stderr(stderr)?;
        confine::close_on_exec_from(3)?;
        if let Some(state) = self.state {
            rustix::io::fcntl_setfd(state, FdFlags::empty())?;
        }
        for limit in self.prepared.limits.iter().filter(|limit| matches!(limit, Limit::CpuSeconds(_))) {
            limit.set()?;
        }
        if let Some(umask) = self.call.umask {
            rustix::process::umask(umask);
        }
        signal::set_mask(self.mask);
        Ok(())
    }

    /// A command has a session of its own. The leader of one on a terminal leads that; the command has a group of its own there.
    fn stand_apart(&self) -> Result<(), Errno> {
        let Some(pty) = self.pty else { return confine::new_session() };
        rustix::process::setpgid(None, None)?;
        if pty.wanted.front {
            // All signals are still blocked here, or the terminal would stop us for this.
            terminal::set_foreground(&pty.peer, rustix::process::getpid())?;
        }
        Ok(())
    }
}

impl Spawner<'_> {
    /// Starts a command, and gives its process.
    pub(super) fn start(&mut self, number: u32, wanted: Wanted) -> Result<Pid, Refused> {
        wanted.check_scripts()?;
        let call = Call::new(&wanted, &self.search, &self.prepared.acts.cwd, &self.prepared.envp)?;
        let started = match wanted.terminal.map(Pty::open).transpose()? {
            None => self.start_plain(&wanted, &call).map(|process| (process, None)),
            Some(pty) => self
                .start_on_terminal(wanted, &call, pty)
                .map(|(process, terminal)| (process, Some(terminal))),
        };
        let (process, terminal) = started.map_err(|why| self.refused(why, &call))?;
        self.jobs.insert(process.pid, Job { number, terminal, ending: Vec::new() });
        Ok(process.pid)
    }

    fn start_plain(&self, wanted: &Wanted, call: &Call) -> Result<Process, NotStarted> {
        self.command(wanted, call, None)?.spawn()
    }

    /// Starts the leader of a terminal, and waits until that has started the command.
    fn start_on_terminal(
        &mut self,
        wanted: Wanted,
        call: &Call,
        pty: Pty,
    ) -> Result<(Process, OnTerminal), NotStarted> {
        let command = self.command(&wanted, call, Some(&pty))?;
        let (leader, to_spawner) = channel::pair().map_err(NotStarted::Command)?;
        let process = match fork::fork().map_err(NotStarted::Command)? {
            Forked::Parent(process) => process,
            Forked::Child => {
                environ::set_title(c"keyward:terminal");
                let led = command.lead(&pty);
                drop((leader, wanted));
                self.live_as_leader(led, pty.peer, to_spawner)
            }
        };
        drop(to_spawner);
        if let Err(why) = hear_of_start(&leader) {
            let _ = process.wait();
            return Err(why);
        }
        // One that was stopped must not make us wait.
        rustix::fs::fcntl_setfl(&leader, OFlags::NONBLOCK).map_err(NotStarted::Command)?;
        Ok((process, OnTerminal { main: pty.main, leader }))
    }

    /// The life of a leader, once it has started its command.
    fn live_as_leader(
        &mut self,
        led: Result<Process, NotStarted>,
        terminal: OwnedFd,
        to_spawner: OwnedFd,
    ) -> ! {
        let process = match led {
            Ok(process) => process,
            Err(why) => {
                wire::report(&to_spawner, why.report(), &[]);
                fork::exit_now(127)
            }
        };
        wire::report(&to_spawner, Report::Started, &[]);
        // Nothing of the spawner stays here but the way to it.
        self.jobs.clear();
        self.door = to_spawner;
        init::live(init::Command { process, terminal: Some(terminal) }, &self.door, || {})
    }

    fn command<'c>(
        &'c self,
        wanted: &'c Wanted,
        call: &'c Call,
        pty: Option<&'c Pty>,
    ) -> Result<Command<'c>, NotStarted> {
        let streams = streams(&wanted.streams, pty).ok_or(NotStarted::Streams)?;
        let (prepared, mask) = (self.prepared, self.mask);
        Ok(Command { call, streams, state: wanted.state.as_ref(), pty, prepared, mask })
    }

    fn refused(&self, why: NotStarted, call: &Call) -> Refused {
        let is_limited = self.prepared.limits.iter().any(|limit| matches!(limit, Limit::Processes(_)));
        why.refused(&call.cwd, is_limited)
    }
}

/// Where programs are looked for, where that was changed for this command.
fn changed_search(around: &Surroundings) -> Option<Vec<PathBuf>> {
    let entries = around.set.iter().map(|entry| OsString::from(entry.clone()));
    let path = entries.rev().find_map(|entry| entry.as_bytes().strip_prefix(b"PATH=").map(<[u8]>::to_vec))?;
    let entries = path.split(|&byte| byte == b':').map(|entry| PathBuf::from(OsStr::from_bytes(entry)));
    Some(entries.filter(|entry| entry.is_absolute()).collect())
}

/// The variables of every command, with what was changed for this one; `None` where that is nothing.
fn changed_variables(envp: &Strings, around: &Surroundings) -> Result<Option<Strings>, Fault> {
    if around.set.is_empty() && around.unset.is_empty() {
        return Ok(None);
    }
    let text = |word: &Word| c_string(Step::Exec, &OsString::from(word.clone()));
    let set: Vec<CString> = around.set.iter().map(text).collect::<Result<_, _>>()?;
    let unset: Vec<CString> = around.unset.iter().map(text).collect::<Result<_, _>>()?;
    let name =
        |entry: &CStr| entry.to_bytes().split(|&byte| byte == b'=').next().unwrap_or_default().to_vec();
    let changed: Vec<Vec<u8>> = set.iter().chain(&unset).map(|entry| name(entry)).collect();
    let kept = envp.all().iter().filter(|entry| !changed.contains(&name(entry))).cloned();
    Ok(Some(Strings::new(kept.chain(set.iter().cloned()).collect())))
}

/// What a leader says of the start of its command.
fn hear_of_start(leader: &OwnedFd) -> Result<(), NotStarted> {
    match wire::next_report(leader) {
        Some((Report::Started, _)) => Ok(()),
        Some((Report::Failed { step: Step::View, errno, .. }, _)) => Err(NotStarted::Directory(errno)),
        Some((Report::Failed { errno, .. }, _)) => Err(NotStarted::Command(errno)),
        _ => Err(NotStarted::LeaderGone),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::RawFd;

    fn wanted(argv: &[&str], cwd: Option<&str>) -> Wanted {
        let words = argv.iter().map(|word| Word::from(OsStr::new(word))).collect();
        Wanted::new((words, cwd.map(|cwd| OsStr::new(cwd).into()), None), Vec::new(), false, false)
    }

    fn pipes(count: usize) -> Vec<OwnedFd> {
        (0..count).map(|_| channel::pair().unwrap().0).collect()
    }

    fn numbers(descriptors: &[OwnedFd]) -> Vec<RawFd> {
        descriptors.iter().map(AsRawFd::as_raw_fd).collect()
    }

    fn pty(streams: [bool; 3]) -> Pty {
        let (main, peer) = channel::pair().unwrap();
        Pty { main, peer, wanted: Terminal { rows: 24, columns: 80, streams, front: true } }
    }

    fn call(argv: &[&str], cwd: Option<&str>) -> Result<Call, Refused> {
        let search = ["/usr/bin".into(), "/bin".into()];
        Call::new(&wanted(argv, cwd), &search, c"/work", &Strings::new(Vec::new()))
    }

    #[test]
    fn behind_the_streams_come_the_state_and_then_the_scripts() {
        let sent = pipes(5);
        let expected = numbers(&sent);
        let wanted = Wanted::new((vec![OsStr::new("bash").into()], None, None), sent, true, true);
        assert_eq!(numbers(&wanted.streams), expected[..3]);
        assert_eq!(wanted.state.as_ref().map(AsRawFd::as_raw_fd), Some(expected[3]));
        assert_eq!(wanted.scripts.as_ref().map(AsRawFd::as_raw_fd), Some(expected[4]));
        assert_eq!(wanted.argv.last(), Some(&OsString::from(expected[3].to_string())));
    }

    #[test]
    fn without_state_and_scripts_all_that_came_are_streams() {
        let wanted = Wanted::new((vec![OsStr::new("true").into()], None, None), pipes(3), false, false);
        assert_eq!((wanted.streams.len(), wanted.argv.len()), (3, 1));
        assert!(wanted.state.is_none() && wanted.scripts.is_none());
    }

    #[test]
    fn a_terminal_stands_for_its_streams_and_the_others_keep_their_order() {
        let (pty, sent) = (pty([true, false, true]), pipes(1));
        let found = streams(&sent, Some(&pty)).unwrap().map(|stream| stream.as_raw_fd());
        let peer = pty.peer.as_raw_fd();
        assert_eq!(found, [peer, sent[0].as_raw_fd(), peer]);
    }

    #[test]
    fn a_command_does_not_start_with_fewer_than_three_streams() {
        assert!(streams(&pipes(2), None).is_none());
        assert!(streams(&[], Some(&pty([true, true, false]))).is_none());
        assert_eq!(NotStarted::Streams.refused(c"/", false).code, 125);
    }

    #[test]
    fn a_name_is_looked_for_in_each_directory_and_a_path_is_taken_as_it_is() {
        assert_eq!(call(&["ls", "-l"], None).unwrap().candidates, [c"/usr/bin/ls", c"/bin/ls"]);
        assert_eq!(call(&["./ls"], None).unwrap().candidates, [c"./ls"]);
    }

    #[test]
    fn a_command_starts_where_it_says_or_where_the_session_began() {
        assert_eq!(call(&["ls"], Some("/elsewhere")).unwrap().cwd.as_c_str(), c"/elsewhere");
        assert_eq!(call(&["ls"], None).unwrap().cwd.as_c_str(), c"/work");
    }

    #[test]
    fn words_that_no_program_could_get_are_refused() {
        let code = |argv: &[&str], cwd| call(argv, cwd).err().map(|refused| refused.code);
        assert_eq!(code(&[], None), Some(127));
        assert_eq!(code(&["", "x"], None), Some(127));
        assert_eq!(code(&["a\0b"], None), Some(125));
        assert_eq!(code(&["ls", "a\0b"], None), Some(125));
        assert_eq!(code(&["ls"], Some("/a\0b")), Some(125));
    }

    #[test]
    fn what_is_missing_is_127_what_cannot_be_run_126_and_a_bad_directory_is_the_callers_mistake() {
        let code = |why: NotStarted| why.refused(c"/gone", false).code;
        assert_eq!(code(NotStarted::Command(Errno::NOENT)), 127);
        assert_eq!(code(NotStarted::Command(Errno::ACCESS)), 126);
        assert_eq!(code(NotStarted::Directory(Errno::NOENT)), USAGE);
        assert_eq!(code(NotStarted::LeaderGone), 125);
        let why = NotStarted::Directory(Errno::ACCESS).refused(c"/gone", false).why;
        assert!(why.starts_with("the directory /gone cannot be entered in the cage: "), "{why}");
    }

    #[test]
    fn too_many_processes_are_a_limit_only_where_there_is_one() {
        let refused = |is_limited| NotStarted::Command(Errno::AGAIN).refused(c"/", is_limited);
        assert_eq!(refused(true), Refused::new(125, "the session reached its limit pids"));
        assert_eq!(refused(false).code, 126);
    }

    #[test]
    fn the_spawner_hears_from_a_leader_what_that_one_saw() {
        let heard = |report: Option<Report>| {
            let (ours, theirs) = channel::pair().unwrap();
            report.into_iter().for_each(|report| wire::report(&theirs, report, &[]));
            drop(theirs);
            hear_of_start(&ours)
        };
        assert_eq!(heard(Some(Report::Started)), Ok(()));
        for why in [NotStarted::Command(Errno::ACCESS), NotStarted::Directory(Errno::NOENT)] {
            assert_eq!(heard(Some(why.report())), Err(why));
        }
        assert_eq!(heard(None), Err(NotStarted::LeaderGone));
    }
}
