//! The cage where namespaces are refused: Landlock and seccomp around the command, and a guardian outside the domain.
//!
//! The guardian is a process of its own between launcher and command. It outlives the launcher by the moment it needs to kill every
//! descendant: as their subreaper it becomes the parent of each orphan, and the domain keeps them from signalling it.

use crate::cage::{self, Failure, Pty, at};
use crate::init;
use crate::prepare::Prepared;
use crate::wire::{self, Report};
use keyward_policy::linux::cage::Step;
use keyward_sys::landlock::{self, Domain};
use keyward_sys::signal::Set;
use keyward_sys::{Errno, channel, confine, environ, fork, signal};
use rustix::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

/// The life of the guardian.
pub(crate) fn guard(prepared: &mut Prepared, control: OwnedFd, launcher: OwnedFd, caller_mask: &Set) -> ! {
    drop(launcher);
    signal::block(&Set::all());
    environ::set_title(c"keyward:guard");
    environ::wipe_own();
    let redirected = cage::redirect_counted(prepared);
    let Ok(control) = confine::keep_only(control) else { fork::exit_now(125) };
    if channel::peer_is_gone(&control) {
        fork::exit_now(125);
    }
    let scratch = prepared.scratch.clone().unwrap_or_default();
    let ready = redirected
        .and_then(|()| cage::wait_for_cgroup(prepared, &control))
        .and_then(|()| build(prepared, &scratch));
    let started =
        ready.and_then(|(domain, pty)| cage::start(prepared, &control, None, domain, pty, caller_mask));
    match started {
        Ok(command) => init::live(command, &control, || {
            kill_descendants();
            remove(&scratch);
        }),
        Err((step, index, errno)) => {
            remove(&scratch);
            wire::report(&control, Report::Failed { step, index, errno }, &[]);
            fork::exit_now(125)
        }
    }
}

fn build(prepared: &Prepared, scratch: &Path) -> Result<(Option<Domain>, Pty), Failure> {
    confine::become_subreaper().map_err(at(Step::Guardian))?;
    confine::become_opaque().map_err(at(Step::Guardian))?;
    make_scratch(scratch).map_err(at(Step::Guardian))?;
    confine::new_session().map_err(at(Step::Session))?;
    let pty = cage::open_terminal(prepared, c"/dev/ptmx")?;
    // The command's own terminal, and no other one of the user's.
    let own_terminal = pty.as_ref().and_then(|(main, _)| keyward_sys::terminal::name(main));
    let domain = cage::prepare_domain(prepared, own_terminal.as_deref())?;
    confine::new_session_keyring().map_err(at(Step::Keyring))?;
    confine::drop_capabilities().map_err(at(Step::Capabilities))?;
    confine::no_new_privileges().map_err(at(Step::Capabilities))?;
    // A domain of our own around the command's: from here on our signals reach only our descendants.
    landlock::keep_signals_inside().map_err(|_| (Step::Guardian, 0, Errno::OPNOTSUPP))?;
    Ok((domain, pty))
}

fn make_scratch(scratch: &Path) -> Result<(), Errno> {
    let make = |path: &Path, recursive: bool| {
        let made = std::fs::DirBuilder::new().recursive(recursive).mode(0o700).create(path);
        made.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    };
    make(scratch.parent().unwrap_or(scratch), true)?;
    // Not recursive: a folder that is already there is not ours.
    make(scratch, false)?;
    ["home", "tmp", "run"].iter().try_for_each(|name| make(&scratch.join(name), false))
}

/// Kills until no descendant is left. One call reaches exactly the processes of our domain, which are our descendants; a process that is
/// orphaned by it becomes our child and is reaped here.
fn kill_descendants() {
    while fork::has_children() {
        signal::signal_everybody(signal::KILL.as_raw());
        while fork::next_change().is_some() {}
        std::thread::yield_now();
    }
}

/// Removes the scratch folder, also what the command closed to itself in there. Links are removed, not followed.
fn remove(folder: &Path) {
    if std::fs::remove_dir_all(folder).is_ok() {
        return;
    }
    open_up(folder);
    let _ = std::fs::remove_dir_all(folder);
}

fn open_up(folder: &Path) {
    let _ = std::fs::set_permissions(folder, PermissionsExt::from_mode(0o700));
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            open_up(&entry.path());
        }
    }
}
