//! What the child is told: where everything is. It is told no canary. It lies in the project, where it can be read on both sides.

use crate::probe::Answer;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};

/// The file, in the project.
pub const FILE: &str = "target.json";

/// What a child leaves where it should not write.
pub const MARK: &str = "# planted by the child\n";

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Target {
    /// The folder around everything below.
    pub stage: PathBuf,
    /// A socket and copies of a secret in places that all programs share.
    pub shared_socket: PathBuf,
    pub copies: Vec<PathBuf>,
    pub neighbour: Neighbour,
    /// The process that started the command.
    #[serde(skip)]
    pub agent: i32,
    /// The child's own environment, as the kernel handed it over.
    #[serde(skip)]
    pub environment: Vec<Vec<u8>>,
}

/// Another program of the user's, and its doors.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Neighbour {
    pub pid: i32,
    /// Where its secret lies in its memory; an attacker may have learnt that elsewhere.
    pub address: usize,
    pub tcp: u16,
    /// Not every host has the newer protocol.
    pub tcp6: Option<u16>,
    pub udp: u16,
    /// The name of its abstract socket.
    pub name: String,
    /// The key of its System V segment.
    pub segment: i32,
    /// The name of its message queue.
    pub queue: String,
}

/// The descriptor under which the neighbour has a secret file open.
pub const NEIGHBOURS_FILE: i32 = 19;

/// What the agent leaves open by accident.
pub const LEFT_FILE: i32 = 17;
pub const LEFT_FOLDER: i32 = 18;
pub const LEFT_SOCKET: i32 = 19;

/// The key in the agent's session keyring.
pub const KEY: &std::ffi::CStr = c"keyward-attack";

/// Locked by the daemon as long as it lives.
pub const DAEMON: &str = "project/daemon.lock";
/// What the neighbour notes: signals and datagrams that reached it.
pub const NOTED: &str = "noted";
/// What somebody typed into the agent's terminal.
pub const TYPED: &str = "typed";

impl Target {
    pub fn home(&self) -> PathBuf {
        self.stage.join("home")
    }

    pub fn project(&self) -> PathBuf {
        self.stage.join("project")
    }

    /// The contents of files below HOME; those that can be read count.
    pub fn read_in_home(&self, files: &[&str]) -> Answer {
        read_all(files.iter().map(|file| self.home().join(file)))
    }

    /// The values of these variables.
    pub fn variables(&self, names: &[&str]) -> Answer {
        let of = |entry: &&Vec<u8>| names.iter().any(|name| entry.starts_with(format!("{name}=").as_bytes()));
        let found: Vec<u8> = self.environment.iter().filter(of).flatten().copied().collect();
        if found.is_empty() { Err(io::Error::other("not in the environment")) } else { Ok(found) }
    }
}

/// Reads all of these files that can be read; the last reason where none can.
pub fn read_all(files: impl IntoIterator<Item = PathBuf>) -> Answer {
    let mut found = Vec::new();
    let mut reason = None;
    for file in files {
        match std::fs::read(&file) {
            Ok(bytes) => found.extend(bytes),
            Err(error) => reason = Some(error),
        }
    }
    match reason {
        Some(reason) if found.is_empty() => Err(reason),
        _ => Ok(found),
    }
}

/// Adds the mark to a file, with the folders above it.
pub fn plant(path: &Path) -> Answer {
    use std::io::Write;
    if let Some(above) = path.parent() {
        std::fs::create_dir_all(above)?;
    }
    std::fs::OpenOptions::new().append(true).create(true).open(path)?.write_all(MARK.as_bytes())?;
    Ok(Vec::new())
}
