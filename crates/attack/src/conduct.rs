//! The controller: sets the stage, lets the child try each probe on both sides, and judges by what can be seen from outside.
//!
//! It runs in `keyward doctor --attack`. A signal that asks it to end is heeded between and during attempts, so that nothing stays.

use crate::agent::Side;
use crate::child::Told;
use crate::classes;
use crate::neighbour;
use crate::probe::{Prize, Probe};
use crate::seen::{self, Seen};
use crate::stage::Stage;
use crate::target::DAEMON;
use crate::verdict::{Row, Tried, Verdict, verdict};
use keyward_sys::signal::{Inbox, Set, block};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::FlockOperation;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Why there are no verdicts.
#[derive(Debug)]
pub enum Fault {
    /// The stage could not be set.
    Stage(io::Error),
    /// A cage did not start; what the launcher said.
    NoCage(String),
    /// Somebody asked us to end.
    Interrupted(i32),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Fault::Stage(error)
    }
}

impl From<rustix::io::Errno> for Fault {
    fn from(errno: rustix::io::Errno) -> Self {
        Fault::Stage(errno.into())
    }
}

const SIGHUP: i32 = 1;
const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;

/// Tries every probe, or only the one of this name. `program` plays the parts, `launcher` makes the cages.
pub fn conduct(program: &Path, launcher: &Path, only: Option<&str>) -> Result<Vec<Row>, Fault> {
    let ends_us = Set::of(&[SIGHUP, SIGINT, SIGTERM]);
    block(&ends_us);
    let inbox = Inbox::new(&ends_us)?;
    // Daemons that the controls leave behind become ours, and are waited for.
    keyward_sys::confine::become_subreaper()?;
    let stage = Stage::new()?;
    let neighbour = neighbour::Running::start(
        program,
        stage.folder(),
        stage.shared_socket(),
        stage.number(),
        &stage.canary(classes::memory::NEIGHBOUR),
        &stage.canary(classes::memory::COMMAND_LINE),
    )?;
    let attack = Attack { program, launcher, stage, neighbour, inbox };
    attack.lay()?;
    let mut rows = Vec::new();
    for class in classes::ALL {
        for probe in class.probes.iter().filter(|probe| only.is_none_or(|name| name == probe.name)) {
            let outside = attack.attempt(probe, Side::Outside)?;
            let inside = match &outside {
                Tried::Succeeded => attack.attempt(probe, Side::Inside)?,
                Tried::Failed { why } => Tried::Failed { why: why.clone() },
            };
            let verdict = verdict(&outside, &inside);
            let (outside, inside) = verdict.sides();
            rows.push(Row {
                class: class.title,
                name: probe.name,
                tries: probe.tries,
                kept_by: probe.keeper.name(),
                kind: if probe.keeper.is_notice() { "notice" } else { "wall" },
                outside,
                inside,
                verdict,
            });
        }
    }
    drop(attack);
    reap();
    if only.is_none() && rows.iter().all(|row| matches!(row.verdict, Verdict::NotTried(_))) {
        return Err(Fault::Stage(io::Error::other("nothing works outside either")));
    }
    Ok(rows)
}

/// Daemons see that their file is gone, and end.
fn reap() {
    let until = Instant::now() + Duration::from_secs(2);
    while keyward_sys::fork::has_children() && Instant::now() < until {
        while keyward_sys::fork::next_change().is_some() {}
        std::thread::sleep(Duration::from_millis(5));
    }
}

struct Attack<'a> {
    program: &'a Path,
    launcher: &'a Path,
    // Before the stage, so that it ends before its folder goes.
    neighbour: neighbour::Running,
    stage: Stage,
    inbox: Inbox,
}

impl Attack<'_> {
    fn lay(&self) -> Result<(), Fault> {
        self.stage.lay()?;
        self.stage.write_target(&self.neighbour.described)?;
        Ok(())
    }

    /// One run of one probe on one side.
    fn attempt(&self, probe: &Probe, side: Side) -> Result<Tried, Fault> {
        let before = self.watched(probe);
        let mut agent = self.start_agent(probe, side)?;
        self.wait(&mut agent)?;
        let tried = self.judge(probe, side, &before)?;
        if !matches!(probe.prize, Prize::Canaries(_) | Prize::Granted) {
            // Whatever was planted or changed must not help or hinder the next attempt.
            self.lay()?;
        }
        Ok(tried)
    }

    /// The files at which success would be seen, as they are now.
    fn watched(&self, probe: &Probe) -> Vec<Option<Seen>> {
        match probe.prize {
            Prize::Change(paths) | Prize::ChangeByGit(paths) => {
                paths.iter().map(|path| seen::at(&self.stage.below(path))).collect()
            }
            Prize::Canaries(_) | Prize::Granted | Prize::Daemon => Vec::new(),
        }
    }

    fn start_agent(&self, probe: &Probe, side: Side) -> io::Result<Child> {
        Command::new(self.program)
            .args([crate::PART_COMMAND, "agent", side.name(), probe.name])
            .arg(self.launcher)
            .env_clear()
            .envs(self.stage.environment())
            .current_dir(self.stage.below("project"))
            // Out of reach of Ctrl-C, and not the first of its group, so that it can begin a session.
            .process_group(self.neighbour.described.pid)
            .stdin(Stdio::piped())
            .stdout(File::create(self.stage.below("out"))?)
            .stderr(File::create(self.stage.below("err"))?)
            .spawn()
    }

    /// Waits for the agent; when we are asked to end, the agent sees us go and ends its child.
    fn wait(&self, agent: &mut Child) -> Result<(), Fault> {
        let stays = agent.stdin.take();
        let pid = i32::try_from(agent.id()).ok().and_then(Pid::from_raw).ok_or(rustix::io::Errno::SRCH)?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty())?;
        let mut doors = [
            PollFd::from_borrowed_fd(pidfd.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.inbox.as_fd(), PollFlags::IN),
        ];
        poll(&mut doors, None)?;
        let asked = self.inbox.next();
        if asked.is_some() {
            drop(stays);
        }
        agent.wait()?;
        asked.map_or(Ok(()), |received| Err(Fault::Interrupted(received.signal)))
    }

    /// A control has to work in full; inside, each part that works is a leak.
    fn judge(&self, probe: &Probe, side: Side, before: &[Option<Seen>]) -> Result<Tried, Fault> {
        let out = fs::read_to_string(self.stage.below("out"))?;
        let told: Vec<Told> = out.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        if !matches!(told.first(), Some(Told::Started)) {
            return match side {
                Side::Inside => Err(Fault::NoCage(fs::read_to_string(self.stage.below("err"))?)),
                Side::Outside => Ok(Tried::Failed { why: "the child could not be started".into() }),
            };
        }
        let answer = told.into_iter().nth(1);
        let mut why = match &answer {
            Some(Told::Refused(why)) => why.clone(),
            Some(_) => "nothing was gained".into(),
            None => "ended before it could answer".into(),
        };
        if matches!(probe.prize, Prize::ChangeByGit(_)) && !self.look_with_git() {
            why = "git cannot be run".into();
        }
        let after = self.watched(probe);
        let succeeded = match probe.prize {
            Prize::Granted => matches!(answer, Some(Told::Got(_))),
            Prize::Daemon => self.daemon_lives(side),
            Prize::Canaries(places) => {
                let found = if let Some(Told::Got(found)) = answer { found } else { Vec::new() };
                match side {
                    Side::Outside => places.iter().all(|place| found.contains(&self.stage.canary(place))),
                    // Every canary is a secret, also one that this probe was not after.
                    Side::Inside => !found.is_empty(),
                }
            }
            Prize::Change(_) | Prize::ChangeByGit(_) => {
                let mut changed =
                    before.iter().zip(&after).map(|(b, a)| seen::was_changed(b.as_ref(), a.as_ref()));
                match side {
                    Side::Outside => changed.all(|changed| changed),
                    Side::Inside => changed.any(|changed| changed),
                }
            }
        };
        Ok(if succeeded { Tried::Succeeded } else { Tried::Failed { why } })
    }

    /// What a person does next in the project.
    fn look_with_git(&self) -> bool {
        Command::new("git")
            .arg("status")
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.stage.folder())
            .current_dir(self.stage.below("project"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok()
    }

    /// Whether somebody still holds the daemon's lock. Outside a moment is enough to see it live on; inside it gets time to die.
    fn daemon_lives(&self, side: Side) -> bool {
        let patience = Duration::from_millis(match side {
            Side::Outside => 200,
            Side::Inside => 3000,
        });
        let until = Instant::now() + patience;
        let Ok(file) = File::open(self.stage.below(DAEMON)) else { return false };
        while rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared).is_err() {
            if Instant::now() > until {
                return true;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }
}
