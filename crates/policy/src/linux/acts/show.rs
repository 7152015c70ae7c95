//! Acts as lines for a person, each with what it is about.

use super::{Act, Allows, Bind, Domain, Outlet, Rule, To};
use crate::linux::cage::Identity;
use crate::text::visible;
use std::fmt;
use std::path::Path;

fn path(path: &Path) -> String {
    visible(path.as_os_str())
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Act::Namespaces => write!(f, "fork into new namespaces: user, pid, mount, ipc, uts, cgroup"),
            Act::Guardian { scratch } => {
                write!(f, "start a guardian, with {} for HOME and TMPDIR", path(scratch))
            }
            Act::Cgroup { path: at } => {
                write!(f, "wait until the launcher has made a cgroup in {}", path(at))
            }
            Act::Identity { identity } => match identity {
                Identity::Caller => write!(f, "map the caller's own user"),
                Identity::MappedRoot { outside } => write!(f, "map root to the unprivileged user {outside}"),
                Identity::BareRoot => write!(f, "map root to itself; it has no capability"),
            },
            Act::InotifyLimits => write!(f, "limit inotify to half of the user's"),
            Act::Session => write!(f, "begin a session without a terminal"),
            Act::OwnNetwork => write!(f, "begin a network namespace, beside what follows"),
            Act::Root { bytes: Some(bytes) } => write!(f, "make an empty root of at most {bytes} bytes"),
            Act::Root { bytes: None } => write!(f, "make an empty root"),
            Act::Directory { at, mode } => write!(f, "make the directory {} ({mode:04o})", path(at)),
            Act::KeptDirectory { at } => write!(f, "make the directory {}, if it is missing", path(at)),
            Act::File { at } => write!(f, "make the empty file {}", path(at)),
            Act::KeptFile { at } => write!(f, "make the empty file {}, if it is missing", path(at)),
            Act::Text { at, text } => write!(f, "write {} ({} bytes)", path(at), text.len()),
            Act::Login { at, .. } => write!(f, "write {} with phantoms", path(at)),
            Act::Judged { at, pinned: true, .. } => write!(f, "put a copy over {}", path(at)),
            Act::Judged { at, pinned: false, .. } => write!(f, "compare {} with what was judged", path(at)),
            Act::Link { at, to } | Act::KeptLink { at, to } => {
                write!(f, "link {} to {}", path(at), path(to))
            }
            Act::Bind(bind) => bind.fmt(f),
            Act::Own { at, .. } => write!(f, "make {} a writable mount of the cage's own", path(at)),
            Act::Pin { at } => write!(f, "pin {}", path(at)),
            Act::FreshProc { at } => write!(f, "mount a new /proc at {}, read-only", path(at)),
            Act::Terminals { at } => write!(f, "mount new terminals at {}", path(at)),
            Act::Queues { at } => write!(f, "mount new message queues at {}", path(at)),
            Act::Layer { at, store: Some(store), below } => write!(
                f,
                "mount an overlay at {}: {} above {}",
                path(at),
                path(&store.path),
                path(&below.path)
            ),
            Act::Layer { at, store: None, below } => {
                write!(
                    f,
                    "mount an overlay at {}: a layer that is gone with the cage above {}",
                    path(at),
                    path(&below.path)
                )
            }
            Act::Repository { at, .. } => write!(f, "bind a private repository at {}", path(at)),
            Act::Masks { substitutes } => {
                write!(f, "make {} substitutes for what is hidden", substitutes.len())
            }
            Act::Mask { at, by } => write!(f, "mask {} with substitute {by}", path(at)),
            Act::Pivot => write!(f, "make the root read-only, and leave the old one"),
            Act::Outlet(outlet) => write!(f, "open the outlet {outlet}"),
            Act::Landlock(domain) => domain.fmt(f),
            Act::Terminal { replaces } => {
                let numbers = (0..3).filter(|&number| replaces[number]).map(|number| number.to_string());
                write!(f, "open a terminal for descriptors {}", numbers.collect::<Vec<_>>().join(", "))
            }
            Act::Keyring => write!(f, "join a new session keyring"),
            Act::EnterNetwork => write!(f, "enter the network namespace"),
            Act::Routes => {
                write!(f, "route every address to the cage itself, for TCP and its resolver alone")
            }
            Act::Capabilities => write!(f, "drop all capabilities, set no_new_privs"),
            Act::Secrets { names } => write!(f, "take from the vault: {}", names.join(", ")),
            Act::Warden { .. } => write!(f, "start the process that makes every new name"),
            Act::Limits { limits } => write!(f, "set {} limits", limits.len()),
            Act::WorkIn { directory } => write!(f, "change to {}", path(directory)),
            Act::EnterDomain => write!(f, "enter the Landlock domain"),
            Act::CloseDescriptors => write!(f, "close every descriptor but 0, 1 and 2"),
            Act::Seccomp { rules } => write!(f, "install the seccomp filter ({rules} rules)"),
            Act::Execute { candidates } => {
                let names: Vec<String> = candidates.iter().map(|program| path(program)).collect();
                write!(f, "execute the first that exists: {}", names.join(", "))
            }
        }
    }
}

impl fmt::Display for Bind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "bind {}", path(&self.at))?;
        if self.source.path != self.at {
            write!(f, " from {}", path(&self.source.path))?;
        }
        write!(f, ", {}", if self.read_only { "read-only" } else { "writable" })
    }
}

impl fmt::Display for Outlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let to = match self.to {
            To::Session => "the session of this agent, which runs its tools in a narrower cage",
            To::Keyring => "the keyring: items of the tools that are shown",
            To::Lookups => "the launcher, which answers lookups of hosts: none is found",
            To::Publish => "programs of this machine, which reach the ports that are published",
            To::Proxy => "keyward:proxy, which keeps the rules of the network",
        };
        write!(f, "{} to {to}", self.at)
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "prepare a Landlock domain (ABI {})", self.abi)?;
        for Rule { path: at, allows, except } in &self.rules {
            let allows = match allows {
                Allows::Read => "read",
                Allows::Use => "use",
                Allows::Write => "write",
            };
            write!(f, "\n    {allows} {}", path(at))?;
            if !except.is_empty() {
                write!(f, ", but not {} places below it", except.len())?;
            }
        }
        Ok(())
    }
}
