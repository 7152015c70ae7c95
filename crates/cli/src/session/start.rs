//! `keyward session start`: makes the door, has a launcher build the cage, and stays behind as the session.

use crate::args::{RunArgs, SessionStartArgs};
use crate::explain::NoPlan;
use crate::here::{self, Here};
use crate::supply::{self, Phantoms};
use crate::{decide, files, run, say, told};
use keyward_approve::gate::{BadRules, Gate};
use keyward_approve::permit;
use keyward_approve::session::{SessionGate, SessionRecord};
use keyward_client::{Runtime, address, is_name, open_folder};
use keyward_gate::{Cage, Sight};
use keyward_launch::session::{
    Agent, Directory, Launcher, MakeCages, Membership, Session, Syncs, Tools, Words, serve,
};
use keyward_policy::explain;
use keyward_policy::linux::kernel::KernelFacts;
use keyward_policy::outcome::code;
use keyward_policy::settings::Policy;
use keyward_policy::shims;
use keyward_policy::trouble::{Code, Trouble};
use keyward_policy::view::View;
use keyward_policy::words::NetMode;
use keyward_protocol::link::{self, Link};
use keyward_protocol::packet;
use keyward_sys::environ::{self, Block};
use keyward_sys::fork::{self, End, Forked, Process};
use keyward_sys::spaces::Spaces;
use keyward_sys::{Errno, channel, confine};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::ffi::OsString;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;

pub fn start(args: SessionStartArgs, block: &mut Block) -> i32 {
    let here = match here::look(&block.entries(), args.policy.cwd.as_deref()) {
        Ok(here) => here,
        Err(refusal) => return NoPlan::Refused(refusal).tell(args.json),
    };
    // Decided once: what is written into a policy file later is for other sessions.
    let policy = match files::policy(&args.policy, &here, &block.entries()) {
        Ok(policy) => policy,
        Err(no_policy) => return NoPlan::Policy(no_policy).tell(args.json),
    };
    let name = args.name.clone().unwrap_or_else(|| format!("s{}", std::process::id()));
    let made = make_directory(&here::runtime(&block.entries()), &name)
        .and_then(|directory| listen(directory.path()).map(|listener| (directory, listener)));
    let (directory, listener) = match made {
        Ok(made) => made,
        Err(trouble) => return say::failure(&trouble),
    };
    match begin(args, (&here, &policy), &name, directory, listener, block) {
        Ok(exit) => exit,
        Err(errno) => say::failure(&Trouble::new(
            Code::SessionFailed,
            format!("cannot start a session: {}", keyward_sys::file::reason(errno)),
            "`keyward doctor` shows what this host can do",
        )),
    }
}

/// A session that runs the tools of an agent, from the side of the launcher of the agent's cage.
pub struct ToolSession {
    /// The way to it, and the namespaces of its cage.
    pub tools: Tools,
    process: Process,
    words: Words,
    /// What it has said at its start.
    pub said: String,
}

impl ToolSession {
    /// Ends the session with everything in it. Gives what it has to tell the user.
    pub fn end(self) -> String {
        let ToolSession { tools, process, mut words, .. } = self;
        // Also where a process that we have started still has it.
        let _ = rustix::net::shutdown(&tools.link, rustix::net::Shutdown::Both);
        let _ = process.wait();
        words.take()
    }
}

/// Starts the session that runs the tools of an agent, and waits until its cage is there.
pub fn for_tools(
    args: &RunArgs,
    here: &Here,
    policy: &Policy,
    block: &mut Block,
) -> Result<ToolSession, i32> {
    let mut tools = shims::of_tools(policy);
    tools.sources.digest = files::digest(&tools);
    let program = args.command.first().map(Path::new).and_then(Path::file_name);
    let agent = policy.profile.clone().or_else(|| program.map(|name| name.to_string_lossy().into_owned()));
    let own = format!("s{}", std::process::id());
    let name = agent.map(|agent| format!("{agent}-{}", std::process::id()));
    let name = name.filter(|name| is_name(name)).unwrap_or(own);
    let args = SessionStartArgs {
        name: None,
        shell: false,
        json: false,
        owned_within: None,
        ends_with: None,
        quiet: args.quiet || args.json,
        policy: args.policy.clone(),
    };
    let broken = |errno: Errno| {
        say::failure(&Trouble::new(
            Code::SessionFailed,
            format!("cannot start a session for the tools: {}", keyward_sys::file::reason(errno)),
            "`keyward doctor` shows what this host can do",
        ))
    };
    let made = make_directory(&here::runtime(&block.entries()), &name)
        .and_then(|directory| listen(directory.path()).map(|listener| (directory, listener)));
    let (directory, listener) = made.map_err(|trouble| say::failure(&trouble))?;
    let (ours, theirs) = channel::pair().map_err(broken)?;
    let words = Words::new().map_err(broken)?;
    let agent = Agent { link: theirs, door: None, words: words.writer().map_err(broken)? };
    let agent = Some((agent, ours.as_fd()));
    let begun = fork_session(&args, (here, &tools), &name, directory, listener, agent, block);
    let Begun { process, status, words: said } = begun.map_err(broken)?;
    let (exit, said) = wait_until_ready(&status, &said);
    if exit != 0 {
        let _ = process.wait();
        return Err(exit);
    }
    let sent = channel::receive(&ours, &mut [0; link::ROOM]).map_err(broken)?;
    let spaces = Spaces::from_descriptors(sent.descriptors).ok_or(Errno::PIPE).map_err(broken)?;
    Ok(ToolSession { tools: Tools { link: ours, spaces }, process, words, said })
}

/// Makes a directory for this session alone.
fn make_directory(runtime: &Runtime, name: &str) -> Result<Directory, Trouble> {
    if !is_name(name) {
        return Err(Trouble::new(
            Code::Usage,
            "invalid session name",
            "use letters, digits, `-`, `_` and `.`, beginning with a letter or a digit",
        ));
    }
    let folder = runtime.folder(name);
    let broken = |errno: Errno| {
        let path = keyward_policy::text::visible(folder.as_os_str());
        Trouble::new(
            Code::SessionFailed,
            format!("cannot make {path}: {}", keyward_sys::file::reason(errno)),
            match runtime.by_variable {
                Some(_) => {
                    "XDG_RUNTIME_DIR leads there: fix its permissions, set it to a directory of yours, or unset it"
                }
                None => "make room or fix the permissions there",
            },
        )
    };
    let io = |error: std::io::Error| broken(Errno::from_io_error(&error).unwrap_or(Errno::IO));
    runtime.clean();
    let taken = || {
        Trouble::new(
            Code::SessionTaken,
            format!("there is a session {name} already"),
            format!(
                "use it with `keyward exec {name} -- CMD`, end it with `keyward session stop {name}`, or take another name"
            ),
        )
    };
    if runtime.exists(name) {
        return Err(taken());
    }
    // A process that cleans up may take a directory that is being made for an abandoned one.
    let mut tries = 0;
    let lock = loop {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(io)?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::open(folder.join("lock"), flags, Mode::RUSR | Mode::WUSR);
        tries += 1;
        let lock = match opened {
            Err(Errno::NOENT) if tries < 10 => continue,
            opened => opened.map_err(broken)?,
        };
        let is_ours = rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
        // A lock on a file that was removed meanwhile is not the one that others meet.
        let number = |stat: rustix::fs::Stat| (stat.st_dev, stat.st_ino);
        let (held, there) =
            (rustix::fs::fstat(&lock).map(number), rustix::fs::lstat(folder.join("lock")).map(number));
        if is_ours && held != there && tries < 10 {
            continue;
        }
        break (lock, is_ours && held == there);
    };
    let (lock, is_ours) = lock;
    if !is_ours {
        return Err(taken());
    }
    // One that was killed has left these.
    let _ = rustix::fs::unlink(folder.join("door"));
    let _ = std::fs::remove_dir_all(folder.join("jobs"));
    // Without it the session is found by those who have the same variable.
    let pointer = runtime.by_variable.as_ref().and_then(|_| {
        let pointer = runtime.pointer(name);
        let parent = pointer.parent()?;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(parent).ok()?;
        let _ = std::fs::remove_file(&pointer);
        std::os::unix::fs::symlink(&folder, &pointer).ok().map(|()| pointer)
    });
    Ok(Directory::new(folder, pointer, lock))
}

fn listen(folder: &Path) -> Result<OwnedFd, Trouble> {
    let listen = || {
        let folder = open_folder(folder)?;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        rustix::net::bind(&socket, &address(&folder)?)?;
        rustix::net::listen(&socket, 64)?;
        Ok(socket)
    };
    listen().map_err(|errno: Errno| {
        Trouble::new(
            Code::SessionFailed,
            format!("cannot open the session socket: {}", keyward_sys::file::reason(errno)),
            "set XDG_RUNTIME_DIR to a directory of yours",
        )
    })
}

fn begin(
    args: SessionStartArgs,
    decided: (&Here, &Policy),
    name: &str,
    directory: Directory,
    listener: OwnedFd,
    block: &mut Block,
) -> Result<i32, Errno> {
    let Begun { process, status, words } =
        fork_session(&args, decided, name, directory, listener, None, block)?;
    let (exit, _) = wait_until_ready(&status, &words);
    match exit {
        // The agent reads our stdout.
        0 if args.ends_with.is_some() => {}
        0 if args.json => say::answer_json(&serde_json::json!({ "v": 1, "session": name })),
        0 => say::answer(name),
        // Its name is free when we say that there is none.
        _ => drop(process.wait()),
    }
    Ok(exit)
}

/// A session that was forked: where it says whether it is there, and what it says meanwhile.
struct Begun {
    process: Process,
    status: OwnedFd,
    words: OwnedFd,
}

fn fork_session(
    args: &SessionStartArgs,
    decided: (&Here, &Policy),
    name: &str,
    directory: Directory,
    listener: OwnedFd,
    agent: Option<(Agent, BorrowedFd<'_>)>,
    block: &mut Block,
) -> Result<Begun, Errno> {
    let (status, to_status) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    let (words, to_words) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    match fork::fork()? {
        Forked::Child => {
            drop((status, words));
            // The session must see when the launcher lets go of its end.
            let agent = agent.map(|(agent, launchers)| {
                let _ = keyward_sys::memory::lead_nowhere(launchers);
                agent
            });
            let beginning = Beginning { directory, listener, agent, to_status, to_words };
            let exit = be_session(args, decided, name, beginning, block);
            block.wipe();
            std::process::exit(exit)
        }
        Forked::Parent(process) => {
            drop((to_status, to_words, listener, agent));
            // The directory is the session's from here on.
            std::mem::forget(directory);
            Ok(Begun { process, status, words })
        }
    }
}

/// Waits until the session says that it is there, or is gone; passes on what it says meanwhile. Gives the exit code, and what was said.
fn wait_until_ready(status: &OwnedFd, words: &OwnedFd) -> (i32, String) {
    let (mut code, mut said) = (Vec::new(), Vec::new());
    let (mut status_open, mut words_open) = (true, true);
    while status_open {
        let mut polled = vec![PollFd::new(status, PollFlags::IN)];
        if words_open {
            polled.push(PollFd::new(words, PollFlags::IN));
        }
        let _ = poll(&mut polled, None);
        let ready: Vec<bool> = polled.iter().map(|polled| !polled.revents().is_empty()).collect();
        drop(polled);
        let mut part = [0; 4096];
        if ready.get(1) == Some(&true) {
            match rustix::io::read(words, &mut part) {
                Ok(length) if length > 0 => {
                    said.extend_from_slice(&part[..length]);
                    say::raw_stderr(&part[..length]);
                }
                _ => words_open = false,
            }
        } else if ready[0] {
            match rustix::io::read(status, &mut part) {
                Ok(length) if length > 0 => code.extend_from_slice(&part[..length]),
                _ => status_open = false,
            }
        }
    }
    let exit = std::str::from_utf8(&code).ok().and_then(|text| text.trim().parse().ok());
    let exit = match exit.unwrap_or(code::FAULT) {
        // It was killed, or had no place for its words: an exit code alone helps no one.
        code::FAULT if said.is_empty() => say::failure(&Trouble::new(
            Code::SessionFailed,
            "the session ended before its cage was ready, and did not say why",
            "try again; `keyward doctor` shows what this host can do",
        )),
        exit => exit,
    };
    (exit, String::from_utf8_lossy(&said).into_owned())
}

/// What a session begins with: its directory, its door, and where it says whether it is there.
struct Beginning {
    directory: Directory,
    listener: OwnedFd,
    /// The agent whose tools it runs.
    agent: Option<Agent>,
    to_status: OwnedFd,
    to_words: OwnedFd,
}

/// The life of the session.
fn be_session(
    args: &SessionStartArgs,
    (here, policy): (&Here, &Policy),
    name: &str,
    beginning: Beginning,
    block: &mut Block,
) -> i32 {
    let Beginning { directory, listener, agent, to_status, to_words } = beginning;
    let tell = |status: OwnedFd, exit: i32| {
        let _ = rustix::io::write(&status, format!("{exit}\n").as_bytes());
    };
    if confine::new_session().and_then(|()| become_background(&to_words)).is_err() {
        tell(to_status, code::FAULT);
        return code::FAULT;
    }
    environ::set_title(c"keyward:session");
    let phantoms = match Phantoms::make(policy) {
        Ok(phantoms) => phantoms,
        Err(errno) => {
            let trouble = supply::no_phantoms(errno);
            say::trouble(&trouble.fact, &trouble.remedy);
            tell(to_status, code::FAULT);
            return code::FAULT;
        }
    };
    // Looked at once, as the policy is: further cages are for the same project.
    let decided = (&here.without_terminals(), policy);
    let first = make_cage(args, decided, name, block, &phantoms, None);
    let Ok(Launcher { process: launcher, link: ours, words }) = first else {
        tell(to_status, code::FAULT);
        return code::FAULT;
    };
    let environment = permit::plain_environment(policy, &block.entries());
    // The cage has its copy; a session holds no credential while it waits, and none afterwards.
    run::keep_for_fresh_cages(policy, block);
    let Some((spawner, cage_door, spaces, syncs)) = wait_for_cage(&ours, &launcher) else {
        let exit = match launcher.wait() {
            Ok(End::Exited(exit)) if exit != 0 => exit,
            _ => code::FAULT,
        };
        tell(to_status, exit);
        return exit;
    };
    let name_of_all = format!("{name}#{}", keyward_ledger::run_name());
    let gate = match session_gate(here, policy, name_of_all, &spaces, environment) {
        Ok(gate) => gate,
        Err(bad) => {
            say::trouble(&bad.fact, &bad.remedy);
            tell(to_status, code::USAGE);
            return code::USAGE;
        }
    };
    let note = gate.announcement(agent.is_some()).filter(|_| !args.quiet);
    if let Some(note) =
        note.filter(|note| told::is_due(&here.state, &here.project, std::slice::from_ref(note)))
    {
        say::note(&note);
    }
    if let Some(agent) = &agent {
        let _ = channel::send(&agent.link, &packet::write(&Link::Join {}), &spaces.descriptors());
    }
    tell(to_status, 0);
    drop(to_words);
    let _ = nothing().and_then(|nothing| rustix::stdio::dup2_stderr(&nothing));
    let session = Session {
        name: name.into(),
        profile: args.policy.profile.clone(),
        policy: policy.sources.digest.clone(),
        shell: args.shell,
        directory,
        project: here.project.clone(),
        project_mode: keyward_project::home::mode_of(&here.project),
        cwd: here.cwd.clone(),
        listener,
        spawner,
        cage_door,
        agent,
        launcher,
        link: ours,
        words,
        syncs: syncs.beside_rules(policy.net.value == NetMode::Rules),
        wall: policy.limits.wall.as_ref().map(|wall| wall.value),
        limits_cpu: policy.limits.cpu.is_some(),
        owned_within: args.owned_within,
        ends_with: args.ends_with.as_ref().and_then(|agent| agent.try_clone().ok()),
        cages: FurtherCages { args, decided, name, block, phantoms: &phantoms, first: &spaces },
        gate,
        record: SessionRecord::open(&here.state),
    };
    match serve(session) {
        Ok(End::Exited(exit)) => exit,
        Ok(End::Signalled(signal)) => 128 + signal,
        Err(_) => code::FAULT,
    }
}

/// What judges the commands of the session.
fn session_gate<'a>(
    here: &'a Here,
    policy: &'a Policy,
    name: String,
    spaces: &'a Spaces,
    environment: Vec<(OsString, OsString)>,
) -> Result<SessionGate<'a>, BadRules> {
    let mut inside = Gate::new(policy, &here.caller.home, Cage::of(policy, true))?;
    // What the cage shows is the same for all commands; where it cannot be told, nothing of it is taken to be known.
    let request = decide::request(vec!["sh".into()], here, &[]);
    let kernel = KernelFacts::hopeful(keyward_launch::landlock_abi());
    let (mut view, mut silent_limits) = (View::default(), Vec::new());
    if let Ok(plan) = decide::decide(policy, &request, kernel, here) {
        inside = inside.seeing(Sight::of(policy, &plan));
        silent_limits = explain::silent_limits(&plan.limits);
        view = plan.view;
    }
    let outside = Gate::new(policy, &here.caller.home, Cage::OPEN)?;
    let site = here.site();
    Ok(SessionGate { policy, site, view, silent_limits, inside, outside, name, spaces, environment })
}

/// No stream of the caller's stays with us but the words of the beginning.
fn become_background(words: &OwnedFd) -> Result<(), Errno> {
    let nothing = nothing()?;
    rustix::stdio::dup2_stdin(&nothing)?;
    rustix::stdio::dup2_stdout(&nothing)?;
    rustix::stdio::dup2_stderr(words)
}

fn nothing() -> Result<OwnedFd, Errno> {
    rustix::fs::open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
}

/// The sockets to the spawner and of the door in the cage, and its namespaces, once it is there; `None` if it never will be.
fn wait_for_cage(socket: &OwnedFd, launcher: &Process) -> Option<(OwnedFd, OwnedFd, Spaces, Syncs)> {
    loop {
        let mut polled = [PollFd::new(socket, PollFlags::IN), PollFd::new(&launcher.pidfd, PollFlags::IN)];
        if let Err(errno) = poll(&mut polled, None)
            && errno != Errno::INTR
        {
            return None;
        }
        if !polled[0].revents().is_empty() {
            let mut told = [0; link::ROOM];
            let message = channel::receive(socket, &mut told).ok()?;
            let ready: Link = packet::read(told.get(..message.length)?)?;
            let mut each = message.descriptors.into_iter();
            let (spawner, door) = (each.next()?, each.next()?);
            let syncs = Syncs::read(ready, &mut each)?;
            return Some((spawner, door, Spaces::from_descriptors(each)?, syncs));
        }
        if !polled[1].revents().is_empty() {
            return None;
        }
    }
}

fn run_args(args: &SessionStartArgs, command: Vec<OsString>) -> RunArgs {
    RunArgs { policy: args.policy.clone(), quiet: args.quiet, ..RunArgs::plain(None, command) }
}

/// Makes the further cages of a session, as the first one was made.
struct FurtherCages<'a> {
    args: &'a SessionStartArgs,
    decided: (&'a Here, &'a Policy),
    name: &'a str,
    block: &'a mut Block,
    phantoms: &'a Phantoms,
    first: &'a Spaces,
}

impl MakeCages for FurtherCages<'_> {
    fn make(&mut self) -> Result<Launcher, Errno> {
        make_cage(self.args, self.decided, self.name, self.block, self.phantoms, Some(self.first))
    }
}

/// A launcher of the usual kind, which builds a cage and looks after it. It has nothing of ours open but where it sends the socket to the
/// spawner.
fn make_cage(
    args: &SessionStartArgs,
    (here, policy): (&Here, &Policy),
    name: &str,
    block: &mut Block,
    phantoms: &Phantoms,
    first: Option<&Spaces>,
) -> Result<Launcher, Errno> {
    let (ours, theirs) = channel::pair()?;
    let words = Words::new()?;
    let first = first.map(Spaces::descriptors);
    // Sent ahead, as everything else of ours is closed there.
    let writer = words.writer()?;
    let mut sent = vec![writer.as_fd()];
    sent.extend(first.iter().flatten());
    channel::send(&ours, &packet::write(&Link::Join {}), &sent)?;
    match fork::fork()? {
        Forked::Parent(process) => Ok(Launcher { process, link: ours, words }),
        Forked::Child => {
            let tied = confine::die_with_parent();
            drop(ours);
            if tied.is_err() || channel::peer_is_gone(&theirs) {
                fork::exit_now(code::FAULT);
            }
            let Ok(theirs) = confine::keep_only(theirs) else { fork::exit_now(code::FAULT) };
            let sent = channel::receive(&theirs, &mut [0; link::ROOM]).map(|message| message.descriptors);
            let mut sent = sent.unwrap_or_default().into_iter();
            let (Some(words), spaces) = (sent.next(), Spaces::from_descriptors(sent)) else {
                fork::exit_now(code::FAULT)
            };
            if first.is_some() != spaces.is_some() {
                fork::exit_now(code::FAULT);
            }
            let command = vec!["session".into(), name.into()];
            let membership = Membership { link: theirs, spaces, words };
            let args = run_args(args, command);
            let decided = (here.clone(), policy.clone());
            let exit = run::run_for_session(args, decided, block, membership, phantoms.clone());
            block.wipe();
            fork::exit_now(exit)
        }
    }
}
