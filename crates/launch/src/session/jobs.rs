//! The jobs of a session: what runs, for whom, until when, and what of its output is kept.

use super::Pending;
use super::cages::Cage;
use crate::supervise::CutShort;
use keyward_protocol::session;
use keyward_sys::Errno;
use keyward_sys::file::{make_private_folder, write_all};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::pipe::PipeFlags;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Jobs that run at one time.
const MOST: usize = 256;
/// Jobs that have ended and are still known.
const MOST_ENDED: usize = 64;
/// Bytes of one job's output that are kept.
const MOST_OUTPUT: u64 = 16 << 20;

/// Where a job runs.
pub(super) enum Place {
    /// In the session's cage.
    Cage,
    /// In a cage of its own; as long as that is being made, the command waits.
    Beside { cage: Cage, pending: Option<Pending> },
    /// Its own cage has ended.
    Gone,
}

/// What happens next to a job whose time is over.
#[derive(Clone, Copy)]
pub(super) enum Clock {
    None,
    Interrupt(Instant),
    Terminate(Instant),
    Kill(Instant),
}

impl Clock {
    pub(super) fn due(self) -> Option<Instant> {
        match self {
            Clock::None => None,
            Clock::Interrupt(at) | Clock::Terminate(at) | Clock::Kill(at) => Some(at),
        }
    }
}

pub(super) struct Job {
    /// For people: without what looks like a credential.
    pub(super) argv: Vec<String>,
    /// The directory that the request names.
    pub(super) cwd: Option<PathBuf>,
    pub(super) background: bool,
    pub(super) has_terminal: bool,
    /// The client that waits for it; if that client goes, the job is ended.
    pub(super) client: Option<u64>,
    /// Further clients that are told of its end.
    pub(super) watchers: Vec<u64>,
    pub(super) fresh: bool,
    /// The number of its process in its cage, once it has started.
    pub(super) pid: Option<u32>,
    /// Whether its client is not told of the start.
    pub(super) quiet: bool,
    /// Functions that it may call.
    pub(super) tools: Vec<String>,
    /// Whether we have ended it.
    pub(super) killed: bool,
    pub(super) started: Instant,
    pub(super) clock: Clock,
    pub(super) cut_short: Option<CutShort>,
    pub(super) place: Place,
    pub(super) output: Option<Output>,
    /// Our side of its terminal.
    pub(super) terminal: Option<OwnedFd>,
    pub(super) ended: Option<i32>,
}

impl Job {
    fn runs_in_the_session(&self) -> bool {
        self.ended.is_none() && !self.fresh
    }

    pub(super) fn tell(&self, number: u32) -> session::Job {
        session::Job {
            job: number,
            argv: keyward_policy::event::bounded(&self.argv, 400),
            background: self.background,
            terminal: self.has_terminal,
            fresh: self.fresh,
            seconds: self.started.elapsed().as_secs(),
            exit: self.ended,
            output: self.output.as_ref().map_or(0, |output| output.kept),
        }
    }
}

#[derive(Default)]
pub(super) struct Jobs {
    all: BTreeMap<u32, Job>,
    last: u32,
}

impl Jobs {
    pub(super) fn next_number(&mut self) -> u32 {
        self.last += 1;
        self.last
    }

    pub(super) fn add(&mut self, number: u32, job: Job) {
        self.all.insert(number, job);
    }

    pub(super) fn all(&self) -> impl Iterator<Item = (&u32, &Job)> {
        self.all.iter()
    }

    pub(super) fn get(&self, number: u32) -> Option<&Job> {
        self.all.get(&number)
    }

    pub(super) fn get_mut(&mut self, number: u32) -> Option<&mut Job> {
        self.all.get_mut(&number)
    }

    /// Returns a job that has not ended.
    pub(super) fn running(&mut self, number: u32) -> Option<&mut Job> {
        self.all.get_mut(&number).filter(|job| job.ended.is_none())
    }

    /// Whether the job of this process in the session's own cage names a function.
    pub(super) fn names(&self, pid: u32, function: &str) -> bool {
        let is_it = |job: &&Job| job.pid == Some(pid) && job.runs_in_the_session();
        self.all.values().find(is_it).is_some_and(|job| job.tools.iter().any(|tool| tool == function))
    }

    /// Whether a command that names functions was handed over, and its process is not known yet.
    pub(super) fn awaits_a_start(&self) -> bool {
        self.all.values().any(|job| job.pid.is_none() && !job.tools.is_empty() && job.runs_in_the_session())
    }

    pub(super) fn has_room(&self) -> bool {
        self.all.values().filter(|job| job.ended.is_none()).count() < MOST
    }

    pub(super) fn of_client(&self, client: u64) -> Vec<u32> {
        let waits = |job: &Job| job.client == Some(client) && job.ended.is_none();
        self.all.iter().filter(|(_, job)| waits(job)).map(|(number, _)| *number).collect()
    }

    /// The cages of jobs that have not ended.
    pub(super) fn take_cages(&mut self) -> Vec<Cage> {
        let places = self.all.values_mut().map(|job| std::mem::replace(&mut job.place, Place::Gone));
        let cages = places.filter_map(|place| match place {
            Place::Beside { cage, .. } => Some(cage),
            Place::Cage | Place::Gone => None,
        });
        cages.collect()
    }

    /// Lets go of the oldest that have ended, those without output at once.
    pub(super) fn forget_old(&mut self) {
        self.all.retain(|_, job| job.ended.is_none() || job.output.is_some());
        while self.all.values().filter(|job| job.ended.is_some()).count() > MOST_ENDED {
            let oldest = self.all.iter().find(|(_, job)| job.ended.is_some()).map(|(number, _)| *number);
            let Some(job) = oldest.and_then(|number| self.all.remove(&number)) else { break };
            if let Some(output) = job.output {
                let _ = rustix::fs::unlink(&output.path);
            }
        }
    }
}

/// The output of a background job: a pipe or a terminal that it writes to, and a file that we fill from it, up to a bound.
pub(super) struct Output {
    path: PathBuf,
    file: OwnedFd,
    from: Option<OwnedFd>,
    kept: u64,
    /// Whether something was left out.
    cut: bool,
    /// Pipes of the clients that are attached to the terminal; they get the output as it comes.
    pub(super) listeners: Vec<OwnedFd>,
}

/// The most clients that may be attached to one terminal.
const MOST_LISTENERS: usize = 16;

impl Output {
    pub(super) fn new(folder: &Path, number: u32) -> Result<Self, Errno> {
        let folder = folder.join("jobs");
        make_private_folder(&folder)?;
        let path = folder.join(format!("{number}.log"));
        let flags = OFlags::WRONLY
            | OFlags::APPEND
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC;
        let file = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR)?;
        Ok(Output { path, file, from: None, kept: 0, cut: false, listeners: Vec::new() })
    }

    /// The streams of a job that has no terminal.
    pub(super) fn streams(&mut self) -> Result<Vec<OwnedFd>, Errno> {
        let (from, to) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        rustix::fs::fcntl_setfl(&from, OFlags::NONBLOCK)?;
        let again = rustix::io::fcntl_dupfd_cloexec(&to, 3)?;
        let nothing = rustix::fs::open(c"/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        self.from = Some(from);
        Ok(vec![nothing, to, again])
    }

    /// The job has this terminal.
    pub(super) fn read_terminal(&mut self, main: &OwnedFd) {
        let _ = rustix::fs::fcntl_setfl(main, OFlags::NONBLOCK | OFlags::RDWR);
        self.from = rustix::io::fcntl_dupfd_cloexec(main, 3).ok();
    }

    /// Adds a listener for further output; `None` if there are too many.
    pub(super) fn listen(&mut self) -> Option<OwnedFd> {
        if self.listeners.len() >= MOST_LISTENERS {
            return None;
        }
        let (from, to) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).ok()?;
        rustix::fs::fcntl_setfl(&to, OFlags::NONBLOCK).ok()?;
        self.listeners.push(to);
        Some(from)
    }

    /// The source of output, as long as a process can write to it.
    pub(super) fn source(&self) -> Option<BorrowedFd<'_>> {
        self.from.as_ref().map(AsFd::as_fd)
    }

    /// The file, to be read.
    pub(super) fn reader(&self) -> Option<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::open(&self.path, flags, Mode::empty()).ok()
    }

    /// Keeps what has come; `false` when there is nothing for now.
    pub(super) fn take(&mut self) -> bool {
        let Some(from) = &self.from else { return false };
        let mut part = [0; 64 << 10];
        match rustix::io::read(from, &mut part) {
            Ok(0) => {
                self.from = None;
                false
            }
            Ok(length) => {
                self.keep(length, &part);
                true
            }
            Err(Errno::INTR) => true,
            Err(Errno::AGAIN) => false,
            Err(_) => {
                self.from = None;
                false
            }
        }
    }

    fn keep(&mut self, length: usize, part: &[u8]) {
        // A listener that does not keep up misses output, and blocks no other.
        let gone =
            |to: &OwnedFd| !matches!(rustix::io::write(to, &part[..length]), Ok(_) | Err(Errno::AGAIN));
        self.listeners.retain(|to| !gone(to));
        let room = usize::try_from(MOST_OUTPUT - self.kept).unwrap_or(0).min(length);
        if room > 0 && write_all(&self.file, &part[..room]).is_ok() {
            self.kept += room as u64;
        }
        if room < length && !self.cut {
            // The job goes on; what it prints from here on is read and not kept.
            self.cut = true;
            let _ = write_all(&self.file, b"\n[keyward: the output is longer than what is kept of it]\n");
        }
    }

    /// Keeps what is still in the pipe when the job has ended. A process that the job left behind may go on writing.
    pub(super) fn drain(&mut self) {
        for _ in 0..256 {
            if !self.take() {
                break;
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    pub(in super::super) fn job(client: Option<u64>) -> Job {
        Job {
            argv: vec!["make".into()],
            cwd: None,
            background: client.is_none(),
            has_terminal: false,
            client,
            watchers: Vec::new(),
            fresh: false,
            pid: None,
            quiet: false,
            tools: Vec::new(),
            killed: false,
            started: Instant::now(),
            clock: Clock::None,
            cut_short: None,
            place: Place::Cage,
            output: None,
            terminal: None,
            ended: None,
        }
    }

    fn add(jobs: &mut Jobs, job: Job) -> u32 {
        let number = jobs.next_number();
        jobs.add(number, job);
        number
    }

    fn printed(output: &Output) -> String {
        std::fs::read_to_string(&output.path).unwrap()
    }

    #[test]
    fn those_that_have_ended_are_not_running_and_belong_to_no_client() {
        let mut jobs = Jobs::default();
        let (first, second) = (add(&mut jobs, job(Some(7))), add(&mut jobs, job(Some(7))));
        add(&mut jobs, job(Some(8)));
        assert_eq!(jobs.of_client(7), [first, second]);
        jobs.get_mut(first).unwrap().ended = Some(0);
        assert_eq!(jobs.of_client(7), [second]);
        assert!(jobs.running(first).is_none() && jobs.get(first).is_some());
    }

    #[test]
    fn only_those_that_run_fill_the_session() {
        let mut jobs = Jobs::default();
        let last = (0..MOST).map(|_| add(&mut jobs, job(None))).last().unwrap();
        assert!(!jobs.has_room());
        jobs.get_mut(last).unwrap().ended = Some(1);
        assert!(jobs.has_room());
    }

    #[test]
    fn what_has_ended_is_forgotten_at_once_without_output_and_the_oldest_first_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let mut jobs = Jobs::default();
        let without = add(&mut jobs, Job { ended: Some(0), ..job(None) });
        jobs.forget_old();
        assert!(jobs.get(without).is_none());
        let mut kept = Vec::new();
        for _ in 0..=MOST_ENDED {
            let number = jobs.next_number();
            let output = Some(Output::new(folder.path(), number).unwrap());
            jobs.add(number, Job { ended: Some(0), output, ..job(None) });
            kept.push(number);
        }
        jobs.forget_old();
        assert!(jobs.get(kept[0]).is_none());
        assert!(kept[1..].iter().all(|number| jobs.get(*number).is_some()));
        assert!(!folder.path().join(format!("jobs/{}.log", kept[0])).exists());
        assert!(folder.path().join(format!("jobs/{}.log", kept[1])).exists());
    }

    #[test]
    fn output_is_kept_for_the_user_alone_and_a_file_that_is_there_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let output = Output::new(folder.path(), 1).unwrap();
        let mode = std::fs::metadata(&output.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0);
        assert_eq!(Output::new(folder.path(), 1).err(), Some(Errno::EXIST));
    }

    #[test]
    fn what_a_job_prints_is_kept_to_its_end_and_its_input_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        let mut output = Output::new(folder.path(), 1).unwrap();
        let streams = output.streams().unwrap();
        assert_eq!(rustix::io::read(&streams[0], &mut [0; 8]), Ok(0));
        rustix::io::write(&streams[1], b"out ").unwrap();
        rustix::io::write(&streams[2], b"err").unwrap();
        assert!(output.take() && !output.take(), "there is nothing for now");
        assert!(output.source().is_some());
        drop(streams);
        output.drain();
        assert!(output.source().is_none());
        assert_eq!((printed(&output).as_str(), output.kept), ("out err", 7));
    }

    #[test]
    fn what_is_longer_than_the_bound_is_cut_once_and_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let mut output = Output::new(folder.path(), 1).unwrap();
        output.kept = MOST_OUTPUT - 2;
        output.keep(5, b"12345");
        output.keep(5, b"67890");
        assert_eq!(printed(&output), "12\n[keyward: the output is longer than what is kept of it]\n");
        assert_eq!(output.kept, MOST_OUTPUT);
    }

    #[test]
    fn a_listener_that_is_gone_or_slow_keeps_no_other_from_hearing() {
        let folder = tempfile::tempdir().unwrap();
        let mut output = Output::new(folder.path(), 1).unwrap();
        let (gone, slow, quick) =
            (output.listen().unwrap(), output.listen().unwrap(), output.listen().unwrap());
        drop(gone);
        let part = [b'x'; 4096];
        let mut heard = vec![0; 4096];
        for _ in 0..100 {
            output.keep(part.len(), &part);
            assert_eq!(rustix::io::read(&quick, &mut heard), Ok(part.len()));
        }
        assert_eq!(output.listeners.len(), 2, "the slow one missed something, and is still there");
        drop(slow);
        assert_eq!(output.kept, 100 * 4096);
    }

    #[test]
    fn so_many_listen_and_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let mut output = Output::new(folder.path(), 1).unwrap();
        let listening: Vec<_> = std::iter::from_fn(|| output.listen()).take(100).collect();
        assert_eq!(listening.len(), MOST_LISTENERS);
    }
}
