//! Inside the cage: what init does between clone and the start of the command, in this order. Runs as PID 1 of the cage.
//!
//! Everything used here was prepared by the launcher before the fork. A failing step goes home through the channel with its name, and
//! the command is not started.

use crate::arm::{Armed, Last, Substitute, Tree};
use crate::prepare::{MASKS, Prepared, SHELL};
use crate::wire::{self, Order, Report};
use crate::{init, lookups, passing, proxy, secrets, spawner, warden};
use keyward_policy::linux::acts::To;
use keyward_policy::linux::cage::{Identity, Step};
use keyward_project::git::layer::Run;
use keyward_protocol::session::CAGE_DOOR;
use keyward_sys::confine::Limit;
use keyward_sys::landlock::{self, Below, Domain};
use keyward_sys::mount::{self, Attributes};
use keyward_sys::signal::Set;
use keyward_sys::spaces::{self, Spaces};
use keyward_sys::{Errno, channel, confine, environ, exec, fork, network, routes, signal, terminal};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::ffi::CStr;
use std::path::Path;

/// A step that did not work, and where in its list.
pub(crate) type Failure = (Step, u16, Errno);

pub(crate) fn at(step: Step) -> impl Fn(Errno) -> Failure {
    move |errno| (step, 0, errno)
}

/// The new root is built on top of this folder, which every Linux has and from which nothing is bound afterwards.
const BUILDING_SITE: &CStr = c"/proc";

/// The life of init. `launcher` is the other side of the channel, to be closed before anything is asked of it.
pub(crate) fn inhabit(prepared: &mut Prepared, control: OwnedFd, launcher: OwnedFd, caller_mask: &Set) -> ! {
    // First of all: if the launcher dies from here on, so do we.
    let tied = confine::die_with_parent();
    drop(launcher);
    // It may have died before that; then its side of the channel is closed.
    if channel::peer_is_gone(&control) {
        fork::exit_now(125);
    }
    // Init is told of signals through a descriptor; none interrupts it.
    signal::block(&Set::all());
    environ::set_title(c"keyward:init");
    // The command gets its own copy; init does not need what the launcher kept for it.
    environ::wipe_own();
    let ready = redirect_counted(prepared).and(tied.map_err(at(Step::Namespaces)));
    // What the launcher had open is not for the cage.
    let vault = prepared.secrets.as_mut().and_then(|wanted| wanted.vault.take());
    // Private repositories are taken over when no process works in them any more: as long as init lives, one may.
    let kept = match (vault, prepared.acts.run.as_ref().and_then(Run::lock)) {
        (None, None) => confine::keep_only(control).map(|control| (control, None, None)),
        (Some(vault), None) => {
            confine::keep([control, vault]).map(|[control, vault]| (control, Some(vault), None))
        }
        (None, Some(lock)) => {
            confine::keep([control, lock]).map(|[control, lock]| (control, None, Some(lock)))
        }
        (Some(vault), Some(lock)) => confine::keep([control, vault, lock])
            .map(|[control, vault, lock]| (control, Some(vault), Some(lock))),
    };
    let Ok((control, vault, _lock)) = kept else { fork::exit_now(125) };
    let ready = ready.and_then(|()| build(prepared, &control));
    let started =
        ready.and_then(|(domain, pty)| start(prepared, &control, vault.as_ref(), domain, pty, caller_mask));
    match started {
        // The kernel ends the rest of the cage with us, and the vault sees its socket closed.
        Ok(command) => init::live(command, &control, || ()),
        Err((step, index, errno)) => {
            wire::report(&control, Report::Failed { step, index, errno }, &[]);
            fork::exit_now(125)
        }
    }
}

/// Output that has to be counted goes through the launcher; from here on these are the standard streams.
pub(crate) fn redirect_counted(prepared: &Prepared) -> Result<(), Failure> {
    let [stdout, stderr] = &prepared.counted;
    if let Some(stdout) = stdout {
        rustix::stdio::dup2_stdout(stdout).map_err(at(Step::Descriptors))?;
    }
    if let Some(stderr) = stderr {
        rustix::stdio::dup2_stderr(stderr).map_err(at(Step::Descriptors))?;
    }
    Ok(())
}

/// The cage's terminal: the side the launcher relays, and the side of the command.
pub(crate) type Pty = Option<(OwnedFd, OwnedFd)>;

/// A cage while it is built.
#[derive(Default)]
struct Building<'a> {
    /// Trees that the launcher has passed on.
    trees: Vec<OwnedFd>,
    /// The network that cages of one session share.
    common_network: Option<OwnedFd>,
    own_network: Option<network::Pending>,
    /// The host's /proc, where it is shown.
    shared_proc: Option<OwnedFd>,
    /// The directory in which masks are put, where init stands meanwhile.
    masked: Option<Masked<'a>>,
    domain: Option<Domain>,
    pty: Pty,
}

/// A directory in which masks are put.
struct Masked<'a> {
    path: &'a CStr,
    directory: OwnedFd,
    /// The building site, where the paths of all other acts begin.
    site: OwnedFd,
    /// The file system of the masks.
    device: u64,
}

/// Does one act of the plan after the other.
fn build(prepared: &Prepared, control: &OwnedFd) -> Result<(Option<Domain>, Pty), Failure> {
    let mut building = Building::default();
    for (index, act) in prepared.acts.init.iter().enumerate() {
        let failed = |errno| (Step::View, u16::try_from(index).unwrap_or(u16::MAX), errno);
        if !matches!(act, Armed::Mask { .. }) {
            building.end_masks().map_err(failed)?;
        }
        match act {
            Armed::Cgroup => wait_for_cgroup(prepared, control)?,
            Armed::Identity => building.become_user(prepared, control)?,
            Armed::InotifyLimits => limit_inotify(prepared)?,
            Armed::Session => confine::new_session().map_err(at(Step::Session))?,
            // Further cages of a session have the first one's.
            Armed::OwnNetwork if prepared.common_network => {}
            Armed::OwnNetwork => {
                building.own_network = Some(network::begin().map_err(at(Step::Loopback))?);
            }
            Armed::Root => building.begin_view(prepared)?,
            Armed::Mask { above, at, by } => building.mask(above, at, by).map_err(failed)?,
            Armed::Pivot => {
                mount::read_only_here(c".").map_err(at(Step::Root))?;
                mount::pivot_here().map_err(at(Step::Pivot))?;
                building.trees.clear();
                have_home_filled(prepared, control)?;
                show_passing(prepared, control);
            }
            // The network of a session has the first cage's.
            Armed::Outlet { to: To::Lookups | To::Proxy | To::Publish, .. } if prepared.common_network => {}
            Armed::Outlet { number, to: To::Publish, .. } => {
                let own = Spaces::own().map_err(at(Step::Publish))?;
                let ways = [own.user.as_fd(), own.network.as_fd()];
                wire::report(control, Report::Outlet { number: *number, more: false }, &ways);
            }
            Armed::Outlet { number, to: To::Proxy, .. } => {
                proxy::open_sockets(&prepared.sockets, *number, control).map_err(at(Step::Network))?;
            }
            Armed::Outlet { number, to, at } => open_outlet(*number, *to, at, control)?,
            // Listing and following what is forbidden to the child is init's own right, so it stays outside the domain it prepares.
            Armed::Landlock => building.domain = prepare_domain(prepared, None)?,
            Armed::Terminal => building.pty = open_terminal(prepared, c"/dev/pts/ptmx")?,
            Armed::Keyring => confine::new_session_keyring().map_err(at(Step::Keyring))?,
            Armed::EnterNetwork => building.enter_network()?,
            Armed::Routes if prepared.common_network => {}
            Armed::Routes => {
                routes::everywhere(keyward_policy::net::plan::resolver()).map_err(at(Step::Network))?;
            }
            Armed::Capabilities => give_up_capabilities(prepared)?,
            act => put(act, &building.trees, building.shared_proc.as_ref()).map_err(failed)?,
        }
    }
    Ok((building.domain, building.pty))
}

impl<'a> Building<'a> {
    /// Puts a mask over a name. Init goes to the directory once for all masks that follow each other in it: `mount` with a short name is
    /// the cheapest way to place one.
    fn mask(&mut self, above: &'a CStr, name: &CStr, by: &CStr) -> Result<(), Errno> {
        if self.masked.as_ref().is_some_and(|masked| masked.path != above) {
            self.end_masks()?;
        }
        let masked = match &mut self.masked {
            Some(masked) => masked,
            none => {
                let (site, device) = (mount::place(c".")?, rustix::fs::stat(MASKS)?.st_dev);
                let entered = mount::place(above).and_then(|directory| {
                    rustix::process::fchdir(&directory)?;
                    Ok(directory)
                });
                // Init has every right that the command has, and more: what is closed to init is closed to the command.
                let directory = match entered {
                    Err(Errno::ACCESS) => return Ok(()),
                    entered => entered?,
                };
                none.insert(Masked { path: above, directory, site, device })
            }
        };
        mount::bind_alone(by, name)?;
        // That would follow a link. If one was put there meanwhile, what it leads to is masked, and the name itself is not.
        let there = rustix::fs::statat(&masked.directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if there.st_dev == masked.device { Ok(()) } else { Err(Errno::STALE) }
    }

    /// Goes back to the building site. A further mount may stand over the directory from now on.
    fn end_masks(&mut self) -> Result<(), Errno> {
        self.masked.take().map_or(Ok(()), |masked| rustix::process::fchdir(&masked.site))
    }

    fn become_user(&mut self, prepared: &Prepared, control: &OwnedFd) -> Result<(), Failure> {
        let Common { network, tmp } = wait_for_common(prepared, control)?;
        self.common_network = network;
        self.trees = take_identity(prepared, control).map_err(at(Step::Identity))?;
        self.trees.extend(tmp);
        Ok(())
    }

    /// An empty root, in which init stands while the view is built.
    fn begin_view(&mut self, prepared: &Prepared) -> Result<(), Failure> {
        mount::make_all_private().map_err(at(Step::Root))?;
        // The building site hides /proc; where the host's own is shown, it is taken out first.
        if prepared.acts.init.iter().any(binds_proc) {
            self.shared_proc = Some(mount::open_tree(BUILDING_SITE).map_err(at(Step::View))?);
        }
        mount::tmpfs(BUILDING_SITE, &prepared.acts.root_options).map_err(at(Step::Root))?;
        rustix::process::chdir(BUILDING_SITE).map_err(at(Step::Root))?;
        // Modes of the directories we make are as written.
        rustix::process::umask(Mode::empty());
        Ok(())
    }

    fn enter_network(&mut self) -> Result<(), Failure> {
        if let Some(network) = self.own_network.take() {
            network.enter().map_err(at(Step::Loopback))?;
        }
        if let Some(network) = self.common_network.take() {
            spaces::enter_network(network).map_err(at(Step::Loopback))?;
        }
        Ok(())
    }
}

fn give_up_capabilities(prepared: &Prepared) -> Result<(), Failure> {
    match prepared.acts.warden {
        Some(_) => confine::drop_capabilities_but_ptrace(),
        None => confine::drop_capabilities(),
    }
    .and_then(|()| confine::no_new_privileges())
    .map_err(at(Step::Capabilities))
}

/// Leaves the user outside a part of what the kernel counts for the cage and the user together. Done here, because it needs a capability
/// in the new user namespace and the host's `/proc`, which the view hides. Further cages of a session have the first one's namespace.
fn limit_inotify(prepared: &Prepared) -> Result<(), Failure> {
    if prepared.common {
        return Ok(());
    }
    prepared.inotify.iter().try_for_each(|(file, limit)| write_file(file, limit)).map_err(at(Step::Limits))
}

/// Nothing is started before it counts.
pub(crate) fn wait_for_cgroup(prepared: &Prepared, control: &OwnedFd) -> Result<(), Failure> {
    match prepared.waits_for_cgroup.then(|| wire::next_order(control)) {
        None | Some(Some((Order::Counted, _))) => Ok(()),
        Some(_) => Err((Step::Limits, 0, Errno::PIPE)),
    }
}

/// What the first cage of the session has for all of them: its network, and its `/tmp` where that may be shared.
fn wait_for_common(prepared: &Prepared, control: &OwnedFd) -> Result<Common, Failure> {
    if !prepared.common {
        return Ok(Common::default());
    }
    let (Order::Common, descriptors) = wire::next_order(control).ok_or((Step::Namespaces, 0, Errno::PIPE))?
    else {
        return Err((Step::Namespaces, 0, Errno::PIPE));
    };
    let mut each = descriptors.into_iter();
    let network = match prepared.common_network {
        true => Some(each.next().ok_or((Step::Namespaces, 0, Errno::BADF))?),
        false => None,
    };
    Ok(Common { network, tmp: each.next() })
}

/// The network and the `/tmp` that cages of one session share.
#[derive(Default)]
struct Common {
    network: Option<OwnedFd>,
    tmp: Option<OwnedFd>,
}

/// What the launcher has to put into a HOME of the cage's own is there before the command starts.
fn have_home_filled(prepared: &Prepared, control: &OwnedFd) -> Result<(), Failure> {
    let Some(path) = &prepared.home else { return Ok(()) };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let home = rustix::fs::open(path.as_c_str(), flags, Mode::empty()).map_err(at(Step::View))?;
    wire::report(control, Report::Home, &[home.as_fd()]);
    match wire::next_order(control) {
        Some((Order::Filled, _)) => Ok(()),
        _ => Err((Step::View, 0, Errno::PIPE)),
    }
}

/// What the command leaves in these is looked at by the launcher when the cage has ended. Without it only the notice is missing.
fn show_passing(prepared: &Prepared, control: &OwnedFd) {
    let opened: Option<Vec<OwnedFd>> = prepared.passing.iter().map(|path| passing::open(path)).collect();
    if let Some(opened) = opened.filter(|opened| !opened.is_empty()) {
        let all: Vec<BorrowedFd<'_>> = opened.iter().map(AsFd::as_fd).collect();
        wire::report(control, Report::Passing, &all);
    }
}

/// Opens a socket of the cage's own, and sends it to the process outside that answers there.
fn open_outlet(number: u16, to: To, place: &str, control: &OwnedFd) -> Result<(), Failure> {
    let socket = match to {
        To::Keyring => listen(place, SocketType::STREAM).map_err(at(Step::View))?,
        To::Session => listen(place, SocketType::SEQPACKET).map_err(at(Step::View))?,
        // Without it a lookup fails as well, and only the notice is missing.
        To::Lookups => match lookups::listen() {
            Ok(socket) => socket,
            Err(_) => return Ok(()),
        },
        To::Proxy | To::Publish => return Ok(()),
    };
    wire::report(control, Report::Outlet { number, more: false }, &[socket.as_fd()]);
    Ok(())
}

/// Makes a socket in the cage at which a process outside answers.
pub(crate) fn listen(path: &str, kind: SocketType) -> Result<OwnedFd, Errno> {
    let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, 8)?;
    Ok(socket)
}

/// The domain of the plan, and the command's own terminal where that is one of the host's.
pub(crate) fn prepare_domain(
    prepared: &Prepared,
    own_terminal: Option<&Path>,
) -> Result<Option<Domain>, Failure> {
    let acts = &prepared.acts;
    let rules = acts.landlock_rules.iter().map(|(path, below)| (path.as_path(), *below));
    let rules = rules.chain(own_terminal.map(|path| (path, Below::Use)));
    match landlock::prepare(acts.landlock_abi, rules, acts.scopes) {
        Ok(domain) => Ok(Some(domain)),
        Err(_) => Err((Step::Landlock, 0, Errno::OPNOTSUPP)),
    }
}

/// Becomes the user the plan names. A caller maps itself; for root the launcher does it and passes the trees on that only it can open.
fn take_identity(prepared: &Prepared, control: &OwnedFd) -> Result<Vec<OwnedFd>, Errno> {
    let mut trees = Vec::new();
    match prepared.identity {
        // The mapping is that of the session's first cage.
        Identity::Caller | Identity::BareRoot if prepared.common => {}
        Identity::Caller | Identity::BareRoot => {
            // The files below /proc/self belong to root as long as we are opaque.
            confine::become_transparent()?;
            write_file(c"/proc/self/setgroups", b"deny")?;
            write_file(c"/proc/self/uid_map", &prepared.maps[0])?;
            write_file(c"/proc/self/gid_map", &prepared.maps[1])?;
        }
        Identity::MappedRoot { .. } => {
            while trees.len() < prepared.acts.passed.len() || prepared.acts.passed.is_empty() {
                match wire::next_order(control) {
                    Some((Order::Mapped, more)) => trees.extend(more),
                    _ => return Err(Errno::PIPE),
                }
                if prepared.acts.passed.is_empty() {
                    break;
                }
            }
            confine::become_namespace_root()?;
            // The kernel forgets the tie to the launcher when the user changes, and the launcher may have died meanwhile.
            confine::die_with_parent()?;
            if channel::peer_is_gone(control) {
                return Err(Errno::PIPE);
            }
        }
    }
    confine::become_opaque()?;
    Ok(trees)
}

pub(crate) fn write_file(path: &CStr, content: &[u8]) -> Result<(), Errno> {
    let file = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::io::write(&file, content).map(drop)
}

fn binds_proc(act: &Armed) -> bool {
    matches!(act, Armed::Bind { tree: Tree::Path(path), .. } if path.as_c_str() == BUILDING_SITE)
}

/// Puts something into the view.
fn put(act: &Armed, trees: &[OwnedFd], shared_proc: Option<&OwnedFd>) -> Result<(), Errno> {
    match act {
        // In a kept cache it may be there from an earlier run.
        Armed::Directory { at, mode } => {
            there_already(rustix::fs::mkdir(at.as_c_str(), Mode::from_raw_mode(*mode)))
        }
        Armed::KeptDirectory { above, name } => {
            let above = mount::place(above)?;
            there_already(rustix::fs::mkdirat(above, name.as_c_str(), Mode::from_raw_mode(0o755)))
        }
        Armed::File { at } => {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            there_already(rustix::fs::open(at.as_c_str(), flags, Mode::empty()).map(drop))
        }
        Armed::KeptFile { above, name } => {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode(0o600);
            there_already(rustix::fs::openat(mount::place(above)?, name.as_c_str(), flags, mode).map(drop))
        }
        Armed::Text { at, text } => {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            let file = rustix::fs::open(at.as_c_str(), flags, Mode::from_raw_mode(0o644))?;
            keyward_sys::file::write_all(file, text)
        }
        Armed::Login { at, beside, text } => {
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            let made = beside.as_ref().unwrap_or(at);
            let file = rustix::fs::open(made.as_c_str(), flags, Mode::from_raw_mode(0o600))?;
            keyward_sys::file::write_all(file, text)?;
            match beside {
                Some(beside) => {
                    mount::attach_onto(mount::open_tree(beside)?, mount::place(at)?)?;
                    // From here on it is found where it stands, and nowhere else.
                    rustix::fs::unlink(beside.as_c_str())
                }
                None => Ok(()),
            }
        }
        Armed::Judged { way, at, text, pinned } => judged(way, at, text, *pinned),
        Armed::Link { at, to } => rustix::fs::symlink(to.as_c_str(), at.as_c_str()),
        Armed::KeptLink { above, name, to } => kept_link(&mount::place(above)?, name, to),
        Armed::Bind { tree, at, attributes, expect, foreign: true } => {
            let opened;
            let tree = match tree {
                Tree::Path(path) => {
                    opened = mount::open_tree(path)?;
                    &opened
                }
                Tree::Passed(place) => trees.get(*place).ok_or(Errno::BADF)?,
            };
            if let Some(expect) = expect {
                is_as_looked_at(&rustix::fs::fstat(tree)?, *expect)?;
            }
            if let Some(attributes) = attributes {
                mount::restrict_tree(tree, *attributes)?;
            }
            mount::attach_onto(tree, mount::place(at)?)
        }
        Armed::Bind { tree, at, attributes, expect, foreign: false } => {
            match (tree, shared_proc) {
                (Tree::Path(path), Some(proc)) if path.as_c_str() == BUILDING_SITE => {
                    mount::attach(proc, at)?
                }
                (Tree::Path(path), _) => mount::bind(path, at)?,
                (Tree::Passed(place), _) => mount::attach(trees.get(*place).ok_or(Errno::BADF)?, at)?,
            }
            if let Some(attributes) = attributes {
                mount::restrict(at, *attributes)?;
            }
            match expect {
                Some(expect) => is_what_was_looked_at(at, *expect),
                None => Ok(()),
            }
        }
        Armed::Own { from, at } => mount::bind(from, at),
        Armed::Pin { at } => {
            let place = mount::place(at)?;
            mount::attach_onto(mount::tree_at(&place)?, &place)
        }
        Armed::FreshProc { at } => mount::proc(at),
        Armed::Terminals { at } => mount::devpts(at),
        // A kernel without message queues has none to show.
        Armed::Queues { at } => match mount::message_queues(at) {
            Err(Errno::NODEV) => Ok(()),
            mounted => mounted,
        },
        Armed::Overlay { at, beside, options, layers } => {
            for (place, at) in layers.iter().flatten().filter(|(place, _)| *place != usize::MAX) {
                mount::attach(trees.get(*place).ok_or(Errno::BADF)?, at)?;
            }
            mount::overlay(beside, options)?;
            mount::move_onto(beside, mount::place(at)?)?;
            for (_, at) in layers.iter().flatten().filter(|(place, _)| *place != usize::MAX) {
                mount::detach(at)?;
            }
            Ok(())
        }
        Armed::Masks { substitutes } => make_masks(substitutes),
        // Done by the one who goes through the list.
        _ => Ok(()),
    }
}

/// Puts a link into a tree that is kept. A link of an earlier run gives way, and so does an empty directory; anything else is the
/// profile's own and stays.
fn kept_link(above: &OwnedFd, name: &CStr, to: &CStr) -> Result<(), Errno> {
    let put = || rustix::fs::symlinkat(to, above, name);
    match put() {
        Err(Errno::EXIST) => {}
        done => return done,
    }
    let mut buffer = [0; 4096];
    let cleared = match rustix::fs::readlinkat_raw(above, name, &mut buffer) {
        Ok(length) if buffer.get(..length) == Some(to.to_bytes()) => return Ok(()),
        Ok(_) => rustix::fs::unlinkat(above, name, AtFlags::empty()),
        Err(_) => rustix::fs::unlinkat(above, name, AtFlags::REMOVEDIR),
    };
    match cleared {
        Ok(()) => put(),
        Err(_) => Ok(()),
    }
}

/// Makes what masks show, on a mount of its own. It is read-only from then on, and so is every copy of a part of it.
fn make_masks(substitutes: &[Substitute]) -> Result<(), Errno> {
    mount::tmpfs(MASKS, c"mode=0755")?;
    for Substitute { at, directory, text } in substitutes {
        if *directory {
            let mode = if text.is_some() { 0o555 } else { 0 };
            rustix::fs::mkdir(at.as_c_str(), Mode::from_raw_mode(mode))?;
        } else {
            let mode = if text.is_some() { 0o444 } else { 0 };
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            let file = rustix::fs::open(at.as_c_str(), flags, Mode::from_raw_mode(mode))?;
            keyward_sys::file::write_all(file, text.as_deref().unwrap_or_default())?;
        }
    }
    mount::restrict(MASKS, Attributes { read_only: true, no_dev: true, no_exec: true })
}

/// Checks that the command will find the script that was judged. If it was approved (`pinned`), the cage gets a copy of its own,
/// which no process can change.
fn judged(way: &CStr, at: &CStr, text: &[u8], pinned: bool) -> Result<(), Errno> {
    const BESIDE: &CStr = c".judged-script";
    let found = |way: &CStr| {
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        rustix::fs::openat2(CWD, way, OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty(), resolve)
            .map_err(not_any_more)
    };
    let script = found(way)?;
    if !pinned {
        return if crate::judged::holds(&script, text)? { Ok(()) } else { Err(Errno::STALE) };
    }
    let mode = Mode::from_raw_mode(rustix::fs::fstat(&script)?.st_mode & 0o555 | 0o400);
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
    let copy = rustix::fs::open(BESIDE, flags, mode)?;
    keyward_sys::file::write_all(&copy, text)?;
    let tree = mount::open_tree(BESIDE)?;
    mount::restrict_tree(&tree, Attributes { read_only: true, no_dev: true, no_exec: false })?;
    mount::attach_onto(tree, mount::place(at).map_err(not_any_more)?)?;
    rustix::fs::unlink(BESIDE)?;
    // The command's path must now lead to the copy.
    let copy = rustix::fs::fstat(&copy)?;
    is_as_looked_at(&rustix::fs::fstat(found(way)?)?, (copy.st_dev, copy.st_ino))
}

/// Maps errors to STALE: the script is gone or a link leads elsewhere since it was judged. No other plan helps.
fn not_any_more(errno: Errno) -> Errno {
    match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV | Errno::ACCESS => Errno::STALE,
        other => other,
    }
}

fn there_already(made: Result<(), Errno>) -> Result<(), Errno> {
    if made == Err(Errno::EXIST) { Ok(()) } else { made }
}

/// Compares device and inode with what the plan was made for.
fn is_what_was_looked_at(at: &CStr, expect: (u64, u64)) -> Result<(), Errno> {
    is_as_looked_at(&rustix::fs::statat(CWD, at, rustix::fs::AtFlags::SYMLINK_NOFOLLOW)?, expect)
}

fn is_as_looked_at(found: &rustix::fs::Stat, expect: (u64, u64)) -> Result<(), Errno> {
    if (found.st_dev, found.st_ino) == expect { Ok(()) } else { Err(Errno::STALE) }
}

/// A PTY from the devpts instance at `ptmx`, set as the user's terminal is, as the controlling terminal of our session.
pub(crate) fn open_terminal(prepared: &Prepared, ptmx: &CStr) -> Result<Pty, Failure> {
    let Some(setup) = &prepared.terminal else { return Ok(None) };
    let open = || {
        let (main, peer) = terminal::open_pty(ptmx)?;
        terminal::apply(&peer, &setup.settings);
        if let Some(size) = setup.size {
            terminal::set_window_size(&peer, size);
        }
        terminal::make_controlling(&peer)?;
        Ok((main, peer))
    };
    open().map(Some).map_err(at(Step::Terminal))
}

/// Starts the command and gives up everything that only it needs.
pub(crate) fn start(
    prepared: &mut Prepared,
    control: &OwnedFd,
    vault: Option<&OwnedFd>,
    domain: Option<Domain>,
    pty: Pty,
    caller_mask: &Set,
) -> Result<init::Command, Failure> {
    let given = match vault {
        Some(vault) => {
            let terminal = pty.as_ref().map(|(main, _)| main.as_fd());
            secrets::take(prepared, control, vault, terminal)?
        }
        None => Vec::new(),
    };
    if prepared.session {
        return start_spawner(prepared, control, domain, caller_mask);
    }
    let mut domain = domain;
    let wards = prepared.acts.warden.take();
    // The warden enters the domain itself, and the command is born in it.
    let domain_of_warden = if wards.is_some() { domain.take() } else { None };
    let mut command = |listens: Option<&OwnedFd>| {
        let (step, index, errno) =
            become_command(prepared, control, domain.take(), pty.as_ref(), caller_mask, listens, &given);
        wire::report(control, Report::Failed { step, index, errno }, &[]);
        fork::exit_now(if errno == Errno::NOENT { 127 } else { 126 });
    };
    let side = match &wards {
        Some(_) => warden::start(domain_of_warden, &mut |listens| command(Some(listens)))?,
        None => fork::borrow_memory(&mut fork::Stack::new(), &mut || command(None))
            .map(warden::Side::Init)
            .map_err(at(Step::Exec))?,
    };
    prepared.envp.wipe();
    // The command has them; neither init nor the warden keeps one.
    drop(given);
    let process = match (side, wards) {
        (warden::Side::Warden(listener), Some(wards)) => warden::live(listener, wards),
        (warden::Side::Warden(_), None) => fork::exit_now(125),
        (warden::Side::Init(process), _) => process,
    };
    // Both sides do it, so that it is done whichever runs first.
    let _ = rustix::process::setpgid(Some(process.pid), Some(process.pid));
    let peer = match pty {
        Some((main, peer)) => {
            wire::report(control, Report::Terminal, &[main.as_fd()]);
            Some(peer)
        }
        None => None,
    };
    Ok(init::Command { process, terminal: peer })
}

/// In a session a spawner stands where the command would. Its side of the socket between it and the session goes out.
fn start_spawner(
    prepared: &mut Prepared,
    control: &OwnedFd,
    domain: Option<Domain>,
    caller_mask: &Set,
) -> Result<init::Command, Failure> {
    let (ours, theirs) = channel::pair().map_err(at(Step::Session))?;
    let door = listen(CAGE_DOOR, SocketType::SEQPACKET).map_err(at(Step::Session))?;
    match fork::fork().map_err(at(Step::Exec))? {
        fork::Forked::Child => {
            drop(ours);
            if let Err((step, index, errno)) = give_up_the_rest(prepared, domain, None, caller_mask, None) {
                wire::report(control, Report::Failed { step, index, errno }, &[]);
                fork::exit_now(125);
            }
            signal::block(&Set::all());
            wire::report(control, Report::Started, &[]);
            match confine::keep_only(theirs) {
                Ok(door) => spawner::live(prepared, door, caller_mask),
                Err(_) => fork::exit_now(125),
            }
        }
        fork::Forked::Parent(process) => {
            drop(theirs);
            prepared.envp.wipe();
            let _ = rustix::process::setpgid(Some(process.pid), Some(process.pid));
            let spaces = Spaces::own().map_err(at(Step::Session))?;
            let [user, mounts, network] = spaces.descriptors();
            wire::report(control, Report::Door, &[ours.as_fd(), door.as_fd(), user, mounts, network]);
            Ok(init::Command { process, terminal: None })
        }
    }
}

/// In the command's own process: the last things given up, then exec. Returns only what went wrong.
fn become_command(
    prepared: &Prepared,
    control: &OwnedFd,
    domain: Option<Domain>,
    pty: Option<&(OwnedFd, OwnedFd)>,
    caller_mask: &Set,
    listens: Option<&OwnedFd>,
    given: &[OwnedFd],
) -> Failure {
    let given_up = give_up_the_rest(prepared, domain, pty, caller_mask, listens);
    match given_up.and_then(|()| place_secrets(control, given)) {
        Ok(elsewhere) => {
            let control = elsewhere.as_ref().unwrap_or(control);
            wire::report(control, Report::Started, &[]);
            let (step, index, errno) = execute(prepared);
            if elsewhere.is_some() {
                wire::report(control, Report::Failed { step, index, errno }, &[]);
                fork::exit_now(if errno == Errno::NOENT { 127 } else { 126 });
            }
            (step, index, errno)
        }
        Err(failure) => failure,
    }
}

/// Puts what was given at the numbers that the plan has said. What is told to the launcher is told from another one then.
fn place_secrets(control: &OwnedFd, given: &[OwnedFd]) -> Result<Option<OwnedFd>, Failure> {
    if given.is_empty() {
        return Ok(None);
    }
    let end = secrets::FIRST_DESCRIPTOR + i32::try_from(given.len()).unwrap_or(i32::MAX);
    let control = rustix::io::fcntl_dupfd_cloexec(control, end).map_err(at(Step::Secrets))?;
    confine::place(secrets::FIRST_DESCRIPTOR, &secrets::borrowed(given)).map_err(at(Step::Secrets))?;
    Ok(Some(control))
}

fn give_up_the_rest(
    prepared: &Prepared,
    domain: Option<Domain>,
    pty: Option<&(OwnedFd, OwnedFd)>,
    caller_mask: &Set,
    listens: Option<&OwnedFd>,
) -> Result<(), Failure> {
    let _ = rustix::process::setpgid(None, None);
    if let (Some((_, peer)), Some(setup)) = (pty, &prepared.terminal) {
        if setup.foreground {
            // Init ignores nothing, but the terminal would stop us for this; all signals are still blocked here.
            terminal::set_foreground(peer, rustix::process::getpid()).map_err(at(Step::Terminal))?;
        }
        let [stdin, stdout, stderr] = setup.replaces;
        if stdin {
            rustix::stdio::dup2_stdin(peer).map_err(at(Step::Terminal))?;
        }
        if stdout {
            rustix::stdio::dup2_stdout(peer).map_err(at(Step::Terminal))?;
        }
        if stderr {
            rustix::stdio::dup2_stderr(peer).map_err(at(Step::Terminal))?;
        }
    }
    let mut domain = domain;
    for last in &prepared.acts.last {
        match last {
            Last::Limits => set_limits(prepared)?,
            // A directory that is not there any more must not leave the command somewhere else.
            Last::WorkIn => rustix::process::chdir(prepared.acts.cwd.as_c_str()).map_err(at(Step::Exec))?,
            Last::EnterDomain => {
                if let Some(domain) = domain.take() {
                    domain.enter().map_err(|_| (Step::Landlock, 0, Errno::OPNOTSUPP))?;
                }
            }
            // By exec itself, so that a failing exec can still be told.
            Last::CloseDescriptors => confine::close_on_exec_from(3).map_err(at(Step::Descriptors))?,
            Last::Seccomp => {
                rustix::process::umask(prepared.umask);
                signal::restore_sigpipe();
                signal::set_mask(caller_mask);
                match listens {
                    None => prepared.filter.install().map_err(at(Step::Seccomp))?,
                    Some(warden) => warden::install(&prepared.filter, warden).map_err(at(Step::Warden))?,
                }
            }
        }
    }
    Ok(())
}

fn set_limits(prepared: &Prepared) -> Result<(), Failure> {
    for limit in &prepared.limits {
        // The spawner of a session lives long: processor time is counted for each of its commands.
        if !(prepared.session && matches!(limit, Limit::CpuSeconds(_))) {
            limit.set().map_err(at(Step::Limits))?;
        }
    }
    Ok(())
}

/// Tries the candidates as the shell would: the first that can be executed wins; one that exists but cannot be is what we tell.
fn execute(prepared: &Prepared) -> Failure {
    let mut told = (Step::Exec, 0, Errno::NOENT);
    for (index, program) in prepared.acts.programs.iter().enumerate() {
        let errno = exec::execve(program, &prepared.argv, &prepared.envp);
        let index16 = u16::try_from(index).unwrap_or(u16::MAX);
        match errno {
            Errno::NOENT | Errno::NOTDIR => {}
            Errno::ACCESS => told = (Step::Exec, index16, errno),
            Errno::NOEXEC => {
                // A script without `#!` is for the shell.
                if let Some(argv) = prepared.shell_argv.get(index) {
                    exec::execve(SHELL, argv, &prepared.envp);
                }
                return (Step::Exec, index16, errno);
            }
            _ => return (Step::Exec, index16, errno),
        }
    }
    told
}
