//! A foothold: what would run later, outside, in the user's name. Files below HOME and beside the project, set-uid bits, daemons.

use crate::probe::{Answer, Ending, Probe};
use crate::target::{DAEMON, Target, plant};
use keyward_policy::promise::Promise;
use keyward_sys::confine;
use keyward_sys::fork::{Forked, exit_now, fork};
use keyward_sys::signal::{Set, block};
use rustix::fs::{Access, FlockOperation, Mode, OFlags, ResolveFlags};
use std::fs::{File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

/// Files below HOME that the child adds its mark to.
macro_rules! plants {
    ($name:literal, $tries:literal, $($path:literal),+) => {
        Probe::changes($name, $tries, Promise::Home, &[$(concat!("home/", $path)),+], |at| {
            $(plant(&at.home().join($path))?;)+
            Ok(Vec::new())
        })
    };
}

const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;

pub const PROBES: &[Probe] = &[
    plants!(
        "startup_files_of_shells_cannot_be_written",
        "write to ~/.bashrc, .profile, .zshrc and fish's config",
        ".bashrc",
        ".profile",
        ".zshrc",
        ".config/fish/config.fish"
    ),
    plants!("no_key_can_be_authorized", "plant ~/.ssh/authorized_keys", ".ssh/authorized_keys"),
    plants!("no_program_can_be_shadowed", "plant a git in ~/.local/bin", ".local/bin/git"),
    plants!(
        "units_and_autostarts_cannot_be_planted",
        "plant a systemd user unit and an autostart entry",
        ".config/systemd/user/x.service",
        ".config/autostart/x.desktop"
    ),
    plants!(
        "the_users_git_config_cannot_be_planted",
        "plant ~/.gitconfig and ~/.config/git/config",
        ".gitconfig",
        ".config/git/config"
    ),
    plants!(
        "settings_of_agents_in_home_cannot_be_planted",
        "plant settings of agents (Claude, Codex, Hermes)",
        ".claude/settings.json",
        ".codex/config.toml",
        ".hermes/config.yaml"
    ),
    plants!(
        "settings_of_tools_in_home_cannot_be_planted",
        "plant settings of cargo, npm and vim",
        ".cargo/config.toml",
        ".npmrc",
        ".vimrc"
    ),
    Probe::changes(
        "an_existing_foothold_cannot_be_changed_or_removed",
        "remove ~/.bashrc and open up ~/.ssh/config",
        Promise::Home,
        &["home/.bashrc", "home/.ssh/config"],
        |at| {
            std::fs::remove_file(at.home().join(".bashrc"))?;
            std::fs::set_permissions(at.home().join(".ssh/config"), Permissions::from_mode(0o777))?;
            Ok(Vec::new())
        },
    ),
    Probe::changes(
        "the_users_caches_cannot_be_poisoned",
        "poison the user's cargo cache",
        Promise::Home,
        &["home/.cargo/registry/src/lib.rs"],
        |at| plant(&at.home().join(".cargo/registry/src/lib.rs")),
    ),
    Probe::changes(
        "nothing_beside_the_project_can_be_written",
        "write to a file beside the project",
        Promise::Files,
        &["beside/file"],
        |_| plant("../beside/file".as_ref()),
    ),
    Probe::is_granted(
        "the_project_cannot_be_moved_away",
        "move the project away to put another in its place",
        Promise::Project,
        |at| {
            let aside = at.stage.join("moved project");
            std::fs::rename(at.project(), &aside)?;
            std::fs::rename(aside, at.project())?;
            Ok(Vec::new())
        },
    ),
    Probe::changes(
        "chmod_makes_no_set_uid_file",
        "chmod a program of the project to set-uid",
        Promise::KernelSurface,
        &["project/tool"],
        |_| {
            std::fs::set_permissions("tool", Permissions::from_mode(0o4755))?;
            Ok(Vec::new())
        },
    ),
    Probe::changes(
        "fchmod_makes_no_set_uid_file",
        "the same by fchmod",
        Promise::KernelSurface,
        &["project/tool"],
        |_| {
            File::open("tool")?.set_permissions(Permissions::from_mode(0o4755))?;
            Ok(Vec::new())
        },
    ),
    Probe::changes(
        "openat_makes_no_set_uid_file",
        "create a file with the set-uid bit",
        Promise::KernelSurface,
        &["project/new-tool"],
        |_| {
            rustix::process::umask(Mode::empty());
            std::fs::OpenOptions::new().mode(0o4755).write(true).create_new(true).open("new-tool")?;
            Ok(Vec::new())
        },
    ),
    Probe::changes(
        "openat2_makes_no_set_uid_file",
        "the same by openat2, which no filter can look into",
        Promise::KernelSurface,
        &["project/new-tool"],
        |_| {
            rustix::process::umask(Mode::empty());
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
            let mode = Mode::from_raw_mode(0o4755);
            rustix::fs::openat2(rustix::fs::CWD, "new-tool", flags, mode, ResolveFlags::empty())?;
            Ok(Vec::new())
        },
    ),
    Probe::is_granted(
        "the_system_is_not_open_for_writing",
        "open /etc and /usr for writing, as root",
        Promise::Files,
        // Only asked for: nothing is written to the system, not even by the control.
        |_| {
            for place in ["/etc", "/usr", "/usr/bin"] {
                rustix::fs::access(place, Access::WRITE_OK)?;
            }
            Ok(Vec::new())
        },
    ),
    Probe::outlives(
        "a_daemon_does_not_outlive_its_command",
        "leave a daemon behind when the command ends",
        Ending::ByItself,
        |at| start_daemon(at).map(|()| Vec::new()),
    ),
    Probe::outlives(
        "a_daemon_does_not_outlive_a_launcher_that_is_asked_to_end",
        "leave a daemon behind when the launcher gets SIGTERM",
        Ending::Signal(SIGTERM),
        start_daemon_and_stay,
    ),
    Probe::outlives(
        "a_daemon_does_not_outlive_a_launcher_that_is_killed",
        "leave a daemon behind when the launcher gets SIGKILL",
        Ending::Signal(SIGKILL),
        start_daemon_and_stay,
    ),
];

/// Forks twice, leaves the session and heeds no signal; returns when the daemon is there.
fn start_daemon(at: &Target) -> io::Result<()> {
    let lock = at.stage.join(DAEMON);
    if let Forked::Child = fork()? {
        let _ = confine::new_session();
        if let Ok(Forked::Child) = fork() {
            block(&Set::all());
            let _ = live_on(&lock);
        }
        exit_now(0)
    }
    while std::fs::metadata(&lock).map_or(0, |data| data.len()) == 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Holds the lock, by which it is seen to live, until the file is taken away.
fn live_on(lock: &Path) -> io::Result<()> {
    let mut file = File::create(lock)?;
    rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
    file.write_all(b"here")?;
    for _ in 0..LONGEST_LIFE {
        if file.metadata()?.nlink() == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// One minute, should nobody take the file away.
const LONGEST_LIFE: u32 = 3000;

fn start_daemon_and_stay(at: &Target) -> Answer {
    start_daemon(at)?;
    std::thread::sleep(Duration::from_secs(60));
    Ok(Vec::new())
}
