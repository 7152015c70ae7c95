//! Credentials in files: the stores below HOME, the project's own secrets, copies in shared places, by every road to them.

use crate::probe::{Answer, Probe};
use crate::target::read_all;
use keyward_policy::promise::Promise;
use keyward_sys::attempt;
use rustix::mount::{MountPropagationFlags, UnmountFlags};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Places of canaries; those of stores are their paths below HOME.
pub const PROJECT: &str = "the project's .env";
pub const ABOVE: &str = "the .env above the project";
pub const LED: &str = "a file that a link named .env leads to";
pub const PACKAGE: &str = "the .env of a package";
pub const CLOSED: &str = "the .env in a closed directory";
pub const STORE: &str = "a store behind a link";
pub const RUNTIME: &str = "the runtime directory";
pub const COPY: &str = "copies in shared places";

const AGENTS: &[&str] = &[
    ".hermes/.env",
    ".hermes/auth.json",
    ".claude/.credentials.json",
    ".claude.json",
    ".codex/auth.json",
    ".config/anthropic/key",
];
const KEYS: &[&str] = &[
    ".ssh/id_ed25519",
    ".ssh/config",
    ".gnupg/private-keys-v1.d/a.key",
    ".local/share/keyrings/login.keyring",
    ".password-store/a.gpg",
    ".config/op/config",
];
const CLOUDS: &[&str] = &[
    ".aws/credentials",
    ".config/gcloud/application_default_credentials.json",
    ".azure/accessTokens.json",
    ".kube/config",
    ".docker/config.json",
    ".terraform.d/credentials.tfrc.json",
    ".config/rclone/rclone.conf",
];
const FORGES: &[&str] = &[
    ".config/gh/hosts.yml",
    ".git-credentials",
    ".config/git/credentials",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".cargo/credentials.toml",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
    ".local/share/uv/credentials/a.toml",
];
const TRACES: &[&str] = &[
    ".mozilla/firefox/x.default/logins.json",
    ".config/google-chrome/Default/Login Data",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".env",
];

/// Every store that is laid out below HOME.
pub fn stores() -> impl Iterator<Item = &'static str> {
    [AGENTS, KEYS, CLOUDS, FORGES, TRACES].into_iter().flatten().copied()
}

const AWS: &[&str] = &[".aws/credentials"];

pub const PROBES: &[Probe] = &[
    Probe::steals(
        "no_store_of_an_agent_can_be_read",
        "read the credentials of agents (Claude, Codex, Hermes …)",
        Promise::Home,
        AGENTS,
        |at| at.read_in_home(AGENTS),
    ),
    Probe::steals(
        "no_store_of_keys_can_be_read",
        "read ssh and gpg keys, keyrings and password stores",
        Promise::Home,
        KEYS,
        |at| at.read_in_home(KEYS),
    ),
    Probe::steals(
        "no_store_of_a_cloud_can_be_read",
        "read the credentials of clouds and clusters",
        Promise::Home,
        CLOUDS,
        |at| at.read_in_home(CLOUDS),
    ),
    Probe::steals(
        "no_store_of_a_forge_or_registry_can_be_read",
        "read the tokens of forges and package registries",
        Promise::Home,
        FORGES,
        |at| at.read_in_home(FORGES),
    ),
    Probe::steals(
        "no_browser_and_no_history_can_be_read",
        "read browser profiles and shell histories",
        Promise::Home,
        TRACES,
        |at| at.read_in_home(TRACES),
    ),
    Probe::steals("dots_lead_to_no_secret", "reach HOME from the project by ..", Promise::Home, AWS, |_| {
        read_all(["../home/.aws/credentials", "./../home/.aws/../.aws/credentials"].map(PathBuf::from))
    }),
    Probe::steals(
        "another_spelling_leads_to_no_secret",
        "spell a path with //, /./ and /../",
        Promise::Home,
        AWS,
        |at| {
            let home = at.home();
            let home = home.display();
            read_all(
                [
                    format!("/{home}//.aws///credentials"),
                    format!("{home}/./.aws/./credentials"),
                    format!("{home}/.ssh/../.aws/credentials"),
                ]
                .map(PathBuf::from),
            )
        },
    ),
    Probe::steals(
        "a_link_in_the_project_leads_to_no_secret",
        "make a symbolic link to a secret",
        Promise::Home,
        AWS,
        |_| through("made-link", |link| symlink("../home/.aws/credentials", link)),
    ),
    Probe::steals(
        "a_link_that_was_there_before_leads_to_no_secret",
        "follow a symbolic link that was there before",
        Promise::Home,
        &[".ssh/id_ed25519"],
        |_| std::fs::read("key"),
    ),
    Probe::steals(
        "a_hard_link_made_inside_leads_to_no_secret",
        "make a hard link to a secret",
        Promise::Home,
        AWS,
        |_| through("made-hard-link", |link| std::fs::hard_link("../home/.aws/credentials", link)),
    ),
    Probe::steals(
        "a_hard_link_made_earlier_leads_to_no_secret",
        "read a secret by a hard link that was made earlier",
        Promise::Files,
        AWS,
        |_| std::fs::read("notes.txt"),
    ),
    Probe::steals(
        "a_rename_leads_to_no_secret",
        "move a directory of secrets into the project",
        Promise::Home,
        AWS,
        |at| {
            let aws = at.home().join(".aws");
            std::fs::rename(&aws, "moved")?;
            let found = std::fs::read("moved/credentials");
            std::fs::rename("moved", aws)?;
            found
        },
    ),
    Probe::steals(
        "the_root_of_a_process_leads_to_no_secret",
        "go through /proc/PID/root",
        Promise::Home,
        AWS,
        |at| by_every_process(|process| below(&process.join("root"), &at.home().join(".aws/credentials"))),
    ),
    Probe::steals(
        "the_directory_of_a_process_leads_to_no_secret",
        "go through /proc/PID/cwd",
        Promise::Home,
        AWS,
        |_| by_every_process(|process| process.join("cwd/../home/.aws/credentials")),
    ),
    Probe::steals(
        "a_descriptor_of_a_process_leads_to_no_secret",
        "go through /proc/PID/fd of an open directory",
        Promise::Home,
        AWS,
        |_| {
            let folder = std::fs::File::open(".")?;
            let number = std::os::fd::AsRawFd::as_raw_fd(&folder);
            by_every_process(|process| process.join(format!("fd/{number}/../home/.aws/credentials")))
        },
    ),
    Probe::steals(
        "a_device_name_leads_to_no_secret",
        "go through /dev/fd of an open directory",
        Promise::Home,
        AWS,
        |_| {
            let folder = std::fs::File::open(".")?;
            let number = std::os::fd::AsRawFd::as_raw_fd(&folder);
            std::fs::read(format!("/dev/fd/{number}/../home/.aws/credentials"))
        },
    ),
    Probe::steals(
        "a_copy_leads_to_no_secret",
        "let the kernel copy a secret into the project",
        Promise::Home,
        AWS,
        |_| through("copied", |copy| std::fs::copy("../home/.aws/credentials", copy).map(drop)),
    ),
    Probe::steals(
        "a_bind_leads_to_no_secret",
        "bind HOME into the project in a namespace of its own",
        Promise::KernelSurface,
        AWS,
        |at| {
            std::fs::create_dir_all("bound")?;
            mounts_of_our_own()?;
            rustix::mount::mount_bind_recursive(at.home(), "bound")?;
            std::fs::read("bound/.aws/credentials")
        },
    ),
    Probe::steals(
        "searching_everything_finds_no_secret",
        "search every file above the project",
        Promise::Files,
        &[".netrc", ABOVE, RUNTIME],
        |at| {
            let mut found = Vec::new();
            search(&at.stage, &mut found);
            Ok(found)
        },
    ),
    Probe::steals(
        "the_env_file_of_the_project_cannot_be_read",
        "read .env in the project",
        Promise::Files,
        &[PROJECT],
        |_| read_all([".env", "./.git/../.env", "/proc/self/cwd/.env"].map(PathBuf::from)),
    ),
    Probe::steals(
        "what_a_link_named_env_leads_to_cannot_be_read",
        "read the file that a link named .env leads to",
        Promise::Files,
        &[LED],
        |_| read_all(["conf/app.txt", "deploy/.env"].map(PathBuf::from)),
    ),
    Probe::steals(
        "another_name_of_the_env_file_cannot_be_read",
        "read .env by a hard link in the project",
        Promise::Files,
        &[PROJECT],
        |_| std::fs::read("conf/copy.txt"),
    ),
    Probe::steals(
        "the_env_file_of_a_package_cannot_be_read",
        "read .env in node_modules",
        Promise::Files,
        &[PACKAGE],
        |_| std::fs::read("node_modules/dep/.env"),
    ),
    Probe::steals(
        "a_closed_directory_hands_out_no_secret",
        "open a closed directory, then read .env in it",
        Promise::Files,
        &[CLOSED],
        |_| {
            use std::os::unix::fs::PermissionsExt;
            let _ = std::fs::set_permissions("locked", PermissionsExt::from_mode(0o755));
            std::fs::read("locked/.env")
        },
    ),
    Probe::steals(
        "a_store_behind_a_link_cannot_be_read",
        "read a store of the project that a link leads to",
        Promise::Files,
        &[STORE],
        |_| read_all([".kube/config", "kube/config"].map(PathBuf::from)),
    ),
    Probe::steals(
        "the_env_file_of_the_project_cannot_be_unmasked",
        "unmount what hides .env, then read it",
        Promise::Files,
        &[PROJECT],
        |_| {
            let _ = rustix::mount::unmount(".env", UnmountFlags::DETACH);
            std::fs::read(".env")
        },
    ),
    Probe::steals(
        "the_env_file_of_the_project_cannot_be_moved_or_linked",
        "move or link .env, then read it",
        Promise::Files,
        &[PROJECT],
        |_| {
            let linked = through("linked", |link| std::fs::hard_link(".env", link));
            if linked.is_ok() {
                return linked;
            }
            std::fs::rename(".env", "moved.txt")?;
            std::fs::read("moved.txt")
        },
    ),
    Probe::steals(
        "the_env_file_above_the_project_cannot_be_read",
        "read .env in the directory above the project",
        Promise::Files,
        &[ABOVE],
        |_| std::fs::read("../.env"),
    ),
    Probe::steals(
        "copies_in_shared_places_are_not_seen",
        "read copies in /tmp, /dev/shm, /var/tmp and /run/user",
        Promise::PrivateTmp,
        &[COPY],
        |at| read_all(at.copies.iter().cloned()),
    ),
    Probe::steals(
        "the_runtime_folder_of_the_user_is_not_seen",
        "read a secret in XDG_RUNTIME_DIR",
        Promise::Files,
        &[RUNTIME],
        |at| std::fs::read(at.stage.join("runtime/secret")),
    ),
    Probe::is_granted(
        "root_cannot_read_the_shadow_file",
        "read /etc/shadow, as root",
        Promise::Files,
        |_| std::fs::read("/etc/shadow").map(|_| Vec::new()),
    ),
];

/// Makes a way to a secret, reads by it, and takes it away.
fn through(link: &str, make: impl FnOnce(&Path) -> io::Result<()>) -> Answer {
    make(Path::new(link))?;
    let found = std::fs::read(link);
    std::fs::remove_file(link)?;
    found
}

/// Tries a path for every process that can be seen.
fn by_every_process(path: impl Fn(&Path) -> PathBuf) -> Answer {
    let processes = std::fs::read_dir("/proc")?.flatten().map(|entry| entry.path());
    read_all(processes.map(|process| path(&process)))
}

fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Mounts that nobody else sees: root can have them alone, others with a user namespace.
pub fn mounts_of_our_own() -> io::Result<()> {
    attempt::unshare_mounts().or_else(|_| attempt::unshare_user_and_mounts())?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    Ok(rustix::mount::mount_change("/", private)?)
}

/// Everything in every file below, as far as it can be opened.
fn search(folder: &Path, found: &mut Vec<u8>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => search(&entry.path(), found),
            Ok(kind) if kind.is_file() => found.extend(std::fs::read(entry.path()).unwrap_or_default()),
            _ => {}
        }
    }
}
