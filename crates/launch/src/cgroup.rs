//! A cgroup of the cage's own, where one is delegated to the caller: limits that hold for the whole cage.
//!
//! Runs in the launcher. The folder is made beside the caller's own cgroup (a cgroup with processes cannot have children with
//! controllers), and removed when the cage has ended; what a killed launcher left behind is removed by the next one.

use keyward_policy::linux::kernel::Cgroup;
use keyward_policy::plan::{Keeper, LimitKind, Plan};
use rustix::io::Errno;
use rustix::process::Pid;
use std::io;
use std::path::{Path, PathBuf};

/// Where cgroup v2 is mounted: alone, or beside the old hierarchies.
const MOUNTS: &[&str] = &["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
const PREFIX: &str = "keyward-";

/// The folder in which we may make cgroups, found by making one.
pub fn find() -> Option<Cgroup> {
    let mount = MOUNTS.iter().map(Path::new).find(|mount| mount.join("cgroup.controllers").exists())?;
    find_below(mount, &std::fs::read_to_string("/proc/self/cgroup").ok()?)
}

fn find_below(mount: &Path, own: &str) -> Option<Cgroup> {
    let own = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let own = mount.join(own.trim_start_matches('/'));
    let parent = if own == mount { mount } else { own.parent()? };
    let enabled = std::fs::read_to_string(parent.join("cgroup.subtree_control")).ok()?;
    let has = |name: &str| enabled.split_whitespace().any(|controller| controller == name);
    let found = Cgroup { path: parent.into(), memory: has("memory"), pids: has("pids") };
    if !found.memory && !found.pids {
        return None;
    }
    let trial = parent.join(format!("{PREFIX}probe-{}", std::process::id()));
    std::fs::create_dir(&trial).ok()?;
    let _ = std::fs::remove_dir(&trial);
    Some(found)
}

/// The cgroup of one cage.
pub struct Own {
    path: PathBuf,
}

/// Which limit of a cgroup was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    Memory,
    Pids,
}

impl Own {
    /// Makes the cgroup a plan asks for; `None` when no limit of it is kept by one.
    pub fn make(plan: &Plan) -> Result<Option<Self>, (PathBuf, Errno)> {
        let Some(cgroup) = &plan.cgroup else { return Ok(None) };
        remove_leftovers(cgroup);
        let path = cgroup.join(format!("{PREFIX}{}", std::process::id()));
        let own = Own { path };
        let done = own.set_up(plan);
        done.map_err(|error| (own.path.clone(), Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
        Ok(Some(own))
    }

    fn set_up(&self, plan: &Plan) -> io::Result<()> {
        std::fs::create_dir(&self.path)?;
        for limit in plan.limits.iter().filter(|limit| limit.keeper == Keeper::Cgroup) {
            match limit.what {
                LimitKind::Memory(bytes) => {
                    self.write("memory.max", bytes)?;
                    // What does not fit must not go to the swap instead. Not every kernel counts swap.
                    let _ = self.write("memory.swap.max", 0);
                }
                LimitKind::Pids(count) => {
                    self.write("pids.max", count.saturating_add(plan.own_processes()))?
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn write(&self, file: &str, value: u64) -> io::Result<()> {
        std::fs::write(self.path.join(file), value.to_string())
    }

    /// Moves a process into it; what it starts from then on is in it as well.
    pub fn take(&self, pid: Pid) -> Result<(), Errno> {
        let number = pid.as_raw_nonzero().to_string();
        let written = std::fs::write(self.path.join("cgroup.procs"), number);
        written.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }

    /// The limit that stopped something in the cage, if any did.
    pub fn reached(&self) -> Option<Reached> {
        if self.counted("memory.events", "oom_kill") {
            return Some(Reached::Memory);
        }
        self.counted("pids.events", "max").then_some(Reached::Pids)
    }

    fn counted(&self, file: &str, name: &str) -> bool {
        let events = std::fs::read_to_string(self.path.join(file)).unwrap_or_default();
        events.lines().any(|line| line.strip_prefix(name).is_some_and(|count| count.trim() != "0"))
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // The last process may still be on its way out.
        for _ in 0..50 {
            match std::fs::remove_dir(&self.path) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                _ => return,
            }
        }
    }
}

/// Cgroups of launchers that were killed: empty ones with our name. A cage that is alive keeps its own.
fn remove_leftovers(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX));
        let empty = || {
            let events = std::fs::read_to_string(entry.path().join("cgroup.events")).unwrap_or_default();
            events.lines().any(|line| line == "populated 0")
        };
        if ours && empty() && !launcher_lives(&entry.file_name().to_string_lossy()) {
            let _ = std::fs::remove_dir(entry.path());
        }
    }
}

/// Whether the launcher of a cgroup lives. A cgroup that has just been made is empty as well, for a moment.
fn launcher_lives(name: &str) -> bool {
    let number = name.rsplit('-').next().unwrap_or_default();
    Path::new("/proc").join(number).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A double of a delegated hierarchy: plain folders and files. The kernel's part of it is not shown by this.
    fn double(controllers: &str) -> tempfile::TempDir {
        let mount = tempfile::tempdir().unwrap();
        let app = mount.path().join("user.slice/app.slice");
        std::fs::create_dir_all(app.join("own.scope")).unwrap();
        std::fs::write(app.join("cgroup.subtree_control"), controllers).unwrap();
        mount
    }

    #[test]
    fn a_delegated_cgroup_is_found_beside_our_own() {
        let mount = double("cpu memory pids\n");
        let found =
            find_below(mount.path(), "1:name=systemd:/x\n0::/user.slice/app.slice/own.scope\n").unwrap();
        assert_eq!(
            found,
            Cgroup { path: mount.path().join("user.slice/app.slice"), memory: true, pids: true }
        );
    }

    #[test]
    fn without_a_controller_there_is_none() {
        let mount = double("cpu io\n");
        assert_eq!(find_below(mount.path(), "0::/user.slice/app.slice/own.scope\n"), None);
        assert_eq!(find_below(mount.path(), "3:memory:/\n"), None);
    }
}
