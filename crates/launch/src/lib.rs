//! Looks at the host, builds the cage, runs the command, tells how it ended.
//!
//! Single-threaded, synchronous and small, because it forks. The launcher's own side is here and in [`supervise`]; what runs inside a
//! cage is in `cage` and `init`.
#![forbid(unsafe_code)]

mod arm;
mod cage;
pub mod cgroup;
pub mod fault;
mod guardian;
mod init;
pub mod judged;
mod keyring;
pub mod look;
mod lookups;
pub mod outside;
mod passing;
pub mod prepare;
pub mod probe;
pub mod proxy;
mod publish;
mod relay;
pub mod secrets;
pub mod session;
mod sources;
mod spawner;
pub mod supervise;
mod warden;
mod wire;

use arm::{Armed, Tree};
use fault::Fault;
use keyward_policy::linux::cage::{Identity, Step};
use keyward_policy::plan::{LimitKind, Plan};
use keyward_project::git::publisher::Publisher;
use keyward_project::git::transport::HostGit;
use keyward_project::logins::Logins;
use keyward_sys::fork::{self, Forked, Process};
use keyward_sys::signal::{self, Inbox};
use keyward_sys::spaces::Spaces;
use keyward_sys::{Errno, mount, terminal};
use prepare::{Prepared, TerminalSetup};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags};
use std::time::Duration;
pub use supervise::standard;
use supervise::{Finished, Screen, Served, Watch};
use wire::Order;

/// Runs a prepared plan. Returns when nothing of the cage is left. For a session, the socket to its spawner is sent there.
pub fn run(
    plan: &Plan,
    mut prepared: Prepared,
    mut guard: Option<&mut keyward_project::Guard<'_>>,
    logins: &mut Logins,
    role: session::Role<'_>,
    mut vault: Option<&mut secrets::Vault>,
    mut served: Option<Served<'_>>,
) -> Result<Finished, Fault> {
    let (session, tools) = match role {
        session::Role::Command => (None, None),
        session::Role::Member(session) => (Some(session), None),
        session::Role::Agent(tools) => (None, Some(tools)),
    };
    let wanted = supervise::signals();
    let caller_mask = signal::block(&wanted);
    let fault = |step: Step| move |errno: Errno| Fault::new(step, "", errno);
    let cgroup = cgroup::Own::make(plan).map_err(|(path, errno)| {
        Fault::new(Step::Limits, format!("by the cgroup {}", path.display()), errno)
    })?;
    prepared.waits_for_cgroup = cgroup.is_some();
    prepared.session = session.is_some();
    if logins.waits_for_home() {
        prepared.home = Some(prepare::c_string(Step::View, plan.view.home.at.as_os_str())?);
    }
    let (ours, theirs) = keyward_sys::channel::pair().map_err(fault(Step::Session))?;
    let inbox = Inbox::new(&wanted).map_err(fault(Step::Session))?;
    let counted =
        count_output(plan, &mut prepared, vault.as_deref_mut()).map_err(fault(Step::Descriptors))?;
    let joined = session.and_then(|session| session.spaces.as_ref());
    prepared.common_network = joined.is_some();
    let spaces = joined.or(tools.map(|tools| &tools.spaces));
    let common = match spaces {
        Some(spaces) => Some(take_common(plan, &mut prepared, spaces).map_err(fault(Step::Namespaces))?),
        None => None,
    };
    let published = if joined.is_none() { publish::listen(&plan.publish) } else { Ok(Vec::new()) };
    let published = published
        .map_err(|(port, errno)| Fault::new(Step::Publish, format!("port {port} of this machine"), errno))?;
    let mut ends = Some((theirs, ours));
    // In the new process only; here both ends stay.
    let mut live = |prepared: &mut Prepared| -> Process {
        let Some((theirs, ours)) = ends.take() else { fork::exit_now(125) };
        match prepared.scratch {
            Some(_) => guardian::guard(prepared, theirs, ours, &caller_mask),
            None => cage::inhabit(prepared, theirs, ours, &caller_mask),
        }
    };
    let born = match spaces {
        Some(spaces) => spaces.fork_within(prepared.namespaces, &mut || drop(live(&mut prepared))),
        None => fork::fork_into(prepared.namespaces).map(|forked| match forked {
            Forked::Child => live(&mut prepared),
            Forked::Parent(cage) => cage,
        }),
    };
    let cage = born.map_err(|errno| {
        signal::set_mask(&caller_mask);
        Fault::new(Step::Namespaces, "", errno)
    })?;
    let Some((theirs, ours)) = ends else { return Err(fault(Step::Session)(Errno::PIPE)) };
    drop(theirs);
    // What the vault sends goes past us.
    prepared.secrets = None;
    prepared.envp.wipe();
    prepared.counted = [None, None];
    if let Err(fault) = hand_over(&cage, &prepared, &ours, cgroup.as_ref(), common.as_deref()) {
        return Err(give_up(&cage, &caller_mask, fault));
    }
    let screen = prepared.terminal.take().map(screen);
    let foreground = screen.as_ref().is_some_and(|(_, foreground)| *foreground);
    let git = prepared.acts.git.take().map(HostGit::known);
    let mut publisher = Publisher::new(git, prepared.acts.run.take());
    let describe = |step: Step, index: u16| object(plan, &prepared, step, index);
    let served = served.as_mut().map(|served| Served {
        network: served.network,
        proxy: &mut *served.proxy,
        record: &mut *served.record,
        decides: served.decides.as_deref_mut().map(|decides| decides as &mut dyn supervise::Decides),
    });
    let finished = supervise::watch(Watch {
        cage: &cage,
        control: ours,
        inbox: &inbox,
        screen: screen.map(|(screen, _)| screen),
        wall: wall(plan),
        output: output(plan),
        counted,
        foreground,
        asked_to_stop: false,
        guarded: prepared.scratch.is_some(),
        publisher: &mut publisher,
        logins,
        keyring: plan.view.home.keyring.as_ref(),
        outlets: keyward_policy::linux::acts::outlets(plan),
        has_cgroup: cgroup.is_some(),
        session,
        tools: tools.map(|tools| &tools.link),
        describe: &describe,
        vault,
        served,
        published,
        guard: guard.as_deref_mut(),
        view: &plan.view,
    });
    publisher.settle();
    if let Some(guard) = guard {
        guard.clean_marks(&publisher.gitlinks());
    }
    let repositories = publisher.finish();
    let logins = logins.finish();
    signal::set_mask(&caller_mask);
    let reached = cgroup.as_ref().and_then(cgroup::Own::reached);
    finished.map(|finished| Finished { reached, repositories, logins, ..finished })
}

/// What a further cage of a session shares with the first one: the network, unless it is an agent's, and `/tmp` where that may be.
fn take_common(plan: &Plan, prepared: &mut Prepared, spaces: &Spaces) -> Result<Vec<OwnedFd>, Errno> {
    prepared.common = true;
    prepared.namespaces.user = false;
    let mut common = Vec::new();
    if prepared.common_network {
        common.push(spaces.network.try_clone().map_err(|_| Errno::MFILE)?);
    }
    let own_tmp = prepared
        .acts
        .init
        .iter_mut()
        .find(|act| matches!(act, Armed::Own { at, .. } if at.as_c_str() == c"tmp"));
    if let Some(act) = own_tmp
        && plan.view.may_share_tmp()
    {
        common.push(spaces.folder(c"/tmp")?);
        let tree = Tree::Passed(prepared.acts.passed.len());
        *act = Armed::Bind { tree, at: c"tmp".to_owned(), attributes: None, expect: None, foreign: false };
    }
    Ok(common)
}

/// Does what init waits for, in the order in which it does: its cgroup, what it shares with the session's first cage, its user and trees.
fn hand_over(
    cage: &Process,
    prepared: &Prepared,
    control: &OwnedFd,
    cgroup: Option<&cgroup::Own>,
    common: Option<&[OwnedFd]>,
) -> Result<(), Fault> {
    if let Some(own) = cgroup {
        own.take(cage.pid)
            .and_then(|()| wire::order(control, Order::Counted, &[]))
            .map_err(|errno| Fault::new(Step::Limits, "by a cgroup", errno))?;
    }
    if let Some(common) = common {
        let all: Vec<BorrowedFd<'_>> = common.iter().map(AsFd::as_fd).collect();
        wire::order(control, Order::Common, &all).map_err(|errno| Fault::new(Step::Namespaces, "", errno))?;
    }
    match prepared.identity {
        Identity::MappedRoot { .. } => map_for(cage, prepared, control),
        _ => Ok(()),
    }
}

/// Ends a cage that could not be set up.
fn give_up(cage: &Process, caller_mask: &signal::Set, fault: Fault) -> Fault {
    cage.signal(signal::KILL);
    let _ = cage.wait();
    signal::set_mask(caller_mask);
    fault
}

fn wall(plan: &Plan) -> Option<Duration> {
    plan.limits.iter().find_map(|limit| match limit.what {
        LimitKind::Wall(time) => Some(time),
        _ => None,
    })
}

fn output(plan: &Plan) -> Option<u64> {
    plan.limits.iter().find_map(|limit| match limit.what {
        LimitKind::Output(bytes) => Some(bytes),
        _ => None,
    })
}

/// Where output is limited, it runs through the launcher; otherwise the command has the caller's own descriptors. A terminal
/// that the cage has no other one for is never among them.
fn count_output(
    plan: &Plan,
    prepared: &mut Prepared,
    vault: Option<&mut secrets::Vault>,
) -> Result<Vec<(OwnedFd, BorrowedFd<'static>)>, Errno> {
    let mut reading = Vec::new();
    if let Some(vault) = vault.filter(|_| plan.redacts()) {
        // It goes through the vault first.
        for (from, number) in vault.to_count.iter_mut().zip([1, 2, display(plan.terminal)]) {
            reading.extend(from.take().map(|from| (from, supervise::standard(number))));
        }
    } else {
        for (place, number) in [(0, 1), (1, 2)] {
            let is_terminal = || terminal::is_terminal(supervise::standard(number));
            if !plan.terminal[number] && (output(plan).is_some() || is_terminal()) {
                let (from, to) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
                prepared.counted[place] = Some(to);
                reading.push((from, supervise::standard(number)));
            }
        }
    }
    Ok(reading)
}

/// The user's terminal, if one of descriptors 0 to 2 is one.
pub fn terminal_setup(which: [bool; 3]) -> Option<TerminalSetup> {
    let number = which.iter().position(|&is| is)?;
    let keyboard = supervise::standard(number);
    let settings = terminal::settings(keyboard).ok()?;
    // In a pipeline another program may want the keyboard: then the command shows first that it reads.
    let foreground = which[0] && which[1] && terminal::are_we_in_foreground(keyboard);
    Some(TerminalSetup { replaces: which, settings, size: terminal::window_size(keyboard), foreground })
}

fn screen(setup: TerminalSetup) -> (Screen, bool) {
    let keyboard = (0..3).find(|&number| setup.replaces[number]).unwrap_or(2);
    let screen = Screen {
        keyboard: supervise::standard(keyboard),
        display: supervise::standard(display(setup.replaces)),
        settings: setup.settings,
        raw: false,
    };
    (screen, setup.foreground)
}

/// For a caller who is root: maps the cage's user and passes on the trees that only root can open, shown under that user.
fn map_for(cage: &Process, prepared: &Prepared, control: &OwnedFd) -> Result<(), Fault> {
    let pid = cage.pid.as_raw_nonzero();
    let identity = |errno: Errno| Fault::new(Step::Identity, "", errno);
    // The namespace of the session's first cage has its mapping.
    let missing = if prepared.common { &[][..] } else { &[("uid_map", 0), ("gid_map", 1)] };
    for &(file, which) in missing {
        let line = &prepared.maps[which];
        let path = format!("/proc/{pid}/{file}");
        let file =
            rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()).map_err(identity)?;
        rustix::io::write(&file, line).map_err(identity)?;
    }
    let namespace =
        rustix::fs::open(format!("/proc/{pid}/ns/user"), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
            .map_err(identity)?;
    let mut trees = Vec::with_capacity(prepared.acts.passed.len());
    for passed in &prepared.acts.passed {
        let about = |errno: Errno| Fault::new(Step::Identity, passed.path.to_string_lossy(), errno);
        let tree = mount::open_tree(&passed.path).map_err(about)?;
        if let Some(expect) = passed.expect {
            let found = rustix::fs::statat(&tree, c"", rustix::fs::AtFlags::EMPTY_PATH).map_err(about)?;
            if (found.st_dev, found.st_ino) != expect {
                return Err(about(Errno::STALE));
            }
        }
        mount::map_owners(&tree, &namespace).map_err(about)?;
        trees.push(tree);
    }
    // At least one message goes even without a tree: it says that the mapping is there.
    let mut rest = trees.as_slice();
    loop {
        let (now, later) = rest.split_at(rest.len().min(keyward_sys::channel::MOST_DESCRIPTORS));
        let borrowed: Vec<BorrowedFd<'_>> = now.iter().map(AsFd::as_fd).collect();
        wire::order(control, Order::Mapped, &borrowed).map_err(identity)?;
        rest = later;
        if rest.is_empty() {
            return Ok(());
        }
    }
}

/// What a failed step was about, for the reader.
fn object(plan: &Plan, prepared: &Prepared, step: Step, index: u16) -> String {
    match step {
        Step::View => {
            let at = match prepared.acts.init.get(usize::from(index)) {
                Some(
                    Armed::Directory { at, .. }
                    | Armed::KeptDirectory { name: at, .. }
                    | Armed::KeptFile { name: at, .. }
                    | Armed::KeptLink { name: at, .. }
                    | Armed::File { at }
                    | Armed::Text { at, .. }
                    | Armed::Login { at, .. }
                    | Armed::Judged { at, .. }
                    | Armed::Link { at, .. }
                    | Armed::Bind { at, .. }
                    | Armed::Own { at, .. }
                    | Armed::Pin { at }
                    | Armed::FreshProc { at }
                    | Armed::Terminals { at }
                    | Armed::Queues { at }
                    | Armed::Overlay { at, .. },
                ) => at.to_string_lossy(),
                Some(Armed::Mask { above, at, .. }) => {
                    format!("{}/{}", above.to_string_lossy(), at.to_string_lossy()).into()
                }
                _ => "the view".into(),
            };
            format!("/{}", keyward_policy::text::visible(at.as_ref().as_ref()))
        }
        Step::Exec => keyward_policy::text::visible(&plan.argv[0]),
        _ => String::new(),
    }
}

/// Of descriptors 0 to 2 that are terminals, the one that is written to.
pub fn display(terminals: [bool; 3]) -> usize {
    [1, 2, 0].into_iter().find(|&number| terminals[number]).unwrap_or(2)
}

/// Which of descriptors 0 to 2 are terminals.
pub fn terminals() -> [bool; 3] {
    [0, 1, 2].map(|number| terminal::is_terminal(supervise::standard(number)))
}

/// The first of descriptors 0 to 2 that is a folder: through it a command could reach what lies around it.
pub fn folder_among_streams() -> Option<usize> {
    (0..3).find(|&number| {
        rustix::fs::fstat(supervise::standard(number)).is_ok_and(|stat| {
            rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory
        })
    })
}

/// The version of Landlock here; the one kernel fact that costs nothing to ask.
pub fn landlock_abi() -> i32 {
    keyward_sys::landlock::abi()
}

/// Whether a path is a directory that can be entered.
pub fn is_directory(path: &std::path::Path) -> bool {
    rustix::fs::statat(CWD, path, rustix::fs::AtFlags::empty()).is_ok_and(|stat| {
        rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory
    })
}
