//! The read guard's decision: which file an agent's own tools may show, judged by what was opened and not by the name that was typed.
//!
//! Pure, as all of this crate: what the kernel says about the opened file arrives as [`Opened`]. The table of secret files is
//! [`crate::detect`]'s.

use crate::detect::footholds::guarded;
use crate::detect::secrets::{
    Content, LOGIN, Secret, folded, git_settings, login_of_own_agent, named, secret_file,
};
use crate::detect::{Shows, shows};
use crate::plan::Refusal;
use crate::text::visible;
use crate::trouble::Trouble;
use std::path::{Path, PathBuf};

/// What kind of thing was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Directory,
    /// A device, with its numbers.
    Device {
        block: bool,
        major: u32,
        minor: u32,
    },
    Pipe,
    Socket,
    Other,
}

/// What the kernel says about the file that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened<'a> {
    pub kind: Kind,
    /// The number by which the kernel knows the file system's type.
    pub file_system: u64,
    /// Where the kernel says that it lies.
    pub real: &'a Path,
    /// How many names it has.
    pub names: u64,
}

/// The type of procfs.
pub const PROC: u64 = 0x9fa0;

/// Files of the kernel's that tell about the machine and about no process. `/proc/mounts` and `/proc/net` are not among them: they
/// are links to those of a process. `/proc/cmdline` is not either: people put passwords there.
const OPEN_IN_PROC: &[&str] = &[
    "/proc/buddyinfo",
    "/proc/cgroups",
    "/proc/cpuinfo",
    "/proc/crypto",
    "/proc/devices",
    "/proc/diskstats",
    "/proc/filesystems",
    "/proc/interrupts",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/misc",
    "/proc/modules",
    "/proc/partitions",
    "/proc/softirqs",
    "/proc/stat",
    "/proc/swaps",
    "/proc/uptime",
    "/proc/version",
    "/proc/vmstat",
    "/proc/zoneinfo",
    "/proc/pressure/cpu",
    "/proc/pressure/io",
    "/proc/pressure/memory",
    "/proc/sys/fs/file-max",
    "/proc/sys/fs/inotify/max_user_watches",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/ostype",
    "/proc/sys/kernel/pid_max",
    "/proc/sys/kernel/threads-max",
    "/proc/sys/vm/max_map_count",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/swappiness",
];

/// What programs count processors by.
const OPEN_IN_SYS: &str = "/sys/devices/system/cpu";

/// File systems that hold no files but talk to the kernel, to a service or to a process.
const NO_FILES: &[(u64, &str)] = &[
    (0x6265_6572, "sysfs"),
    (0x6462_6720, "debugfs"),
    (0x7472_6163, "tracefs"),
    (0xcafe_4a11, "bpf"),
    (0x0027_e0eb, "cgroup"),
    (0x6367_7270, "cgroup2"),
    (0x7363_6673, "securityfs"),
    (0x5a3c_69f0, "apparmorfs"),
    (0xf97c_ff8c, "selinuxfs"),
    (0x4341_5d53, "smackfs"),
    (0xde5e_81e4, "efivarfs"),
    (0x6265_6570, "configfs"),
    (0x6165_676c, "pstore"),
    (0x4249_4e4d, "binfmt_misc"),
    (0x1980_0202, "mqueue"),
    (0x0000_1cd1, "devpts"),
    (0x6573_5543, "fusectl"),
    (0x6759_6969, "rpc_pipefs"),
    (0x6e66_7364, "nfsd"),
    (0xabba_1974, "xenfs"),
    (0x0765_5821, "resctrl"),
    (0x6c6f_6f70, "binderfs"),
    (0x0000_9fa1, "openpromfs"),
    (0x0000_9fa2, "usbdevfs"),
    (0x6e73_6673, "nsfs"),
    (0x5049_4446, "pidfs"),
    (0x5345_434d, "secretmem"),
    (0x0904_1934, "anon_inodefs"),
    (0x5049_5045, "pipefs"),
    (0x534f_434b, "sockfs"),
    (0x444d_4142, "dmabuf"),
];

/// `/dev/null`, by its numbers: empty whatever its name is.
const NULL: Kind = Kind::Device { block: false, major: 1, minor: 3 };

/// What the kernel adds to the path of a file that has lost its name.
const DELETED: &str = " (deleted)";

/// Decides about an opened file. `asked` is the path as it was typed; it can only make the answer stricter. A row is given where the content
/// decides: [`judge_content`] is asked next.
pub fn judge(asked: &Path, opened: &Opened<'_>, homes: &[&Path]) -> Result<Option<&'static Secret>, Refusal> {
    let shown = visible(asked.as_os_str());
    let kind = match opened.kind {
        NULL => return Ok(None),
        Kind::File => None,
        Kind::Directory => {
            return Err(Refusal::usage(
                format!("cannot read {shown}: it is a directory"),
                "name a file in it",
            ));
        }
        Kind::Device { .. } => Some("a device"),
        Kind::Pipe => Some("a pipe"),
        Kind::Socket => Some("a socket"),
        Kind::Other => Some("no file"),
    };
    if let Some(kind) = kind {
        return Err(Refusal::policy(
            "kind",
            format!("{shown} is not read: it is {kind}"),
            "only regular files are read; name one",
        ));
    }
    kernel_files(&shown, opened)?;
    if !opened.real.is_absolute() || opened.names == 0 || ends_deleted(opened.real) {
        return Err(changed(asked));
    }
    if let Some(agent) = login_of_own_agent(opened.real, homes) {
        let fact = format!("{} is not read: it is the login of {agent}, as your profile of it says", shown);
        return Err(Refusal::policy("profiles", fact, SECRET_REMEDY));
    }
    let asked_name = asked.file_name().and_then(|name| named(&folded(name)));
    match secret_file(opened.real, homes).or(asked_name) {
        Some(secret) if !matches!(secret.content, Content::Whole | Content::Dotenv) => Ok(Some(secret)),
        Some(secret) => Err(is_secret(asked, opened.real, secret)),
        // If there are two answers, take the one that is sure.
        None => {
            let rows = [opened.real, asked].map(|path| git_settings(path, opened.names));
            let sure = rows.iter().flatten().find(|row| row.content == Content::Git);
            Ok(sure.or(rows.iter().flatten().next()).copied())
        }
    }
}

/// The user's own profiles cannot be read: which files are logins is not known.
pub fn no_profiles(trouble: Trouble) -> Refusal {
    Refusal::policy("profiles", trouble.fact, &trouble.remedy)
}

/// Decides about a file whose name may be secret by what is in it.
pub fn judge_content(
    asked: &Path,
    real: &Path,
    secret: &'static Secret,
    content: &[u8],
) -> Result<(), Refusal> {
    match shows(secret, content, &[]) {
        Shows::Itself => Ok(()),
        Shows::Instead(_) => Err(is_secret(asked, real, secret)),
    }
}

/// What becomes of a file that an agent's own tool wants to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    Fine,
    /// The user of the agent has to say yes: programs outside obey what stands there.
    Ask(Refusal),
    No(Refusal),
}

/// Decides about a file to be written, which lies at `real`. `own` are Keyward's directories.
pub fn judge_write(asked: &Path, real: &Path, own: &[PathBuf], homes: &[&Path]) -> Written {
    let shown = visible(asked.as_os_str());
    if own.iter().any(|own| real.starts_with(own)) {
        return Written::No(Refusal::policy(
            "own",
            format!("{shown} is not written: it belongs to Keyward"),
            "change it yourself, outside of the agent",
        ));
    }
    if let Some(secret) = secret_file(real, homes)
        && matches!(secret.content, Content::Whole | Content::Dotenv)
    {
        return Written::No(Refusal::policy(
            secret.pattern,
            format!("{shown} is not written: it holds {}", secret.holds),
            "change it yourself, outside of the agent",
        ));
    }
    if let Some(agent) = login_of_own_agent(real, homes) {
        return Written::No(Refusal::policy(
            "profiles",
            format!("{shown} is not written: it is the login of {agent}, as your profile of it says"),
            "change it yourself, outside of the agent",
        ));
    }
    let ask = |rule: &str, by: &str| {
        Written::Ask(Refusal::policy(
            rule,
            format!("{shown} is obeyed by {by}, which runs outside the cage"),
            "allow it if you want that change, or make it yourself",
        ))
    };
    for name in real {
        if name == ".git" {
            return ask("git", "git");
        }
        if let Some(by) = guarded(name) {
            return ask("foothold", by);
        }
    }
    Written::Fine
}

/// The file is another name of one of the stores.
pub fn another_name(asked: &Path, store: &Path, homes: &[&Path]) -> Refusal {
    let holds = secret_file(store, homes).map_or(LOGIN, |secret| secret.holds);
    let rule = secret_file(store, homes).map_or("store", |secret| secret.pattern);
    Refusal::policy(
        rule,
        format!(
            "{} is not read: it is another name of {}, and holds {holds}",
            visible(asked.as_os_str()),
            visible(store.as_os_str())
        ),
        SECRET_REMEDY,
    )
}

/// There are more stores than can be looked through, and the file has more than one name.
pub fn too_many_names(asked: &Path) -> Refusal {
    Refusal::policy(
        "hard link",
        format!(
            "{} is not read: it has several names, and HOME holds too many secret files to compare it with",
            visible(asked.as_os_str())
        ),
        "make a copy of it under a name of its own, and read that",
    )
}

/// The file was replaced or removed while it was looked at, so that nothing sure can be said about it.
pub fn changed(asked: &Path) -> Refusal {
    Refusal::policy(
        "changed",
        format!("{} is not read: it was moved or replaced at this moment", visible(asked.as_os_str())),
        "try again",
    )
}

/// The path leads through a link that only the kernel can follow, or in a circle.
pub fn magic_link(asked: &Path) -> Refusal {
    Refusal::policy(
        "magic link",
        format!(
            "{} is not read: it leads through a descriptor or directory of a process, or in a circle",
            visible(asked.as_os_str())
        ),
        "name the file by its own path",
    )
}

/// This kernel, or a filter around us, lacks the call that makes the guard sure.
pub fn no_safe_open(asked: &Path) -> Refusal {
    Refusal::policy(
        "openat2",
        format!(
            "{} is not read: the kernel has no openat2 (Linux 5.6 brings it)",
            visible(asked.as_os_str())
        ),
        "in a cage the guard is not needed: secret files do not exist there, so open the file as usual",
    )
}

/// The file cannot be opened at all.
pub fn cannot_open(asked: &Path, reason: &str) -> Refusal {
    Refusal::usage(
        format!("cannot read {}: {reason}", visible(asked.as_os_str())),
        "name a file that exists and that you may read",
    )
}

const SECRET_REMEDY: &str =
    "a tool has no need to show it; open it yourself, or let the program that needs it read it";

const GIT_REMEDY: &str =
    "keep it in a credential helper of git instead, and the file can be read; or open it yourself";

fn is_secret(asked: &Path, real: &Path, secret: &'static Secret) -> Refusal {
    let shown = visible(asked.as_os_str());
    let lies = if asked == real || !asked.is_absolute() && real.ends_with(asked) {
        "it".to_owned()
    } else {
        format!("it is {}, and", visible(real.as_os_str()))
    };
    let remedy = match secret.content {
        Content::Git | Content::MaybeGit => GIT_REMEDY,
        _ => SECRET_REMEDY,
    };
    Refusal::policy(secret.pattern, format!("{shown} is not read: {lies} holds {}", secret.holds), remedy)
}

fn ends_deleted(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(DELETED.as_bytes())
}

/// procfs and its like are closed but for a few files. What is mounted over such a file is taken for it.
fn kernel_files(shown: &str, opened: &Opened<'_>) -> Result<(), Refusal> {
    let real = opened.real;
    if opened.file_system == PROC || real.starts_with("/proc") {
        if OPEN_IN_PROC.iter().any(|open| real == Path::new(open)) {
            return Ok(());
        }
        return Err(Refusal::policy(
            "procfs",
            format!(
                "{shown} is not read: it is {}, which can tell the secrets of a process",
                visible(real.as_os_str())
            ),
            "files about the machine are open, such as /proc/cpuinfo and /proc/meminfo",
        ));
    }
    let pseudo = NO_FILES.iter().find(|(number, _)| *number == opened.file_system).map(|(_, name)| *name);
    if pseudo.is_none() && !real.starts_with("/sys") || real.starts_with(OPEN_IN_SYS) {
        return Ok(());
    }
    let name = pseudo.unwrap_or("sysfs");
    Err(Refusal::policy(
        name,
        format!("{shown} is not read: it is not a file but a part of {name}"),
        "only files below /sys/devices/system/cpu can be read there",
    ))
}

#[cfg(test)]
mod tests;
