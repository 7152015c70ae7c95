//! A command in a cage of its own, in the shape of `std::process::Command`. It is started by `keyward run`.

use super::child::{Child, ExitStatus, Output};
use super::error::Error;
use super::executable::executable;
use super::flags::{Flags, flag_methods};
use super::streams::Stdio;
use rustix::fs::MemfdFlags;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What the launcher itself needs of the environment. None of it reaches a command: a cage has its own.
const FOR_THE_LAUNCHER: [&str; 7] = [
    "HOME",
    "PATH",
    "XDG_CONFIG_HOME",
    "XDG_STATE_HOME",
    "XDG_CACHE_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
];

/// A command that runs in a cage of its own. Methods beside those of `std::process::Command` are the flags of `keyward run`.
///
/// The environment of the command is decided by Keyward. `env` sets a variable as `--env` does, and a value that looks like a credential is
/// refused; `env_remove` and `env_clear` keep variables from it.
#[derive(Debug)]
pub struct Command {
    program: OsString,
    args: Vec<OsString>,
    /// Variables that are set, or removed.
    variables: BTreeMap<OsString, Option<OsString>>,
    is_cleared: bool,
    directory: Option<PathBuf>,
    streams: [Option<Stdio>; 3],
    flags: Flags,
}

flag_methods!(Command);

impl Command {
    pub fn new(program: impl AsRef<OsStr>) -> Self {
        Command {
            program: program.as_ref().into(),
            args: Vec::new(),
            variables: BTreeMap::new(),
            is_cleared: false,
            directory: None,
            streams: [None, None, None],
            flags: Flags::default(),
        }
    }

    pub fn arg(&mut self, argument: impl AsRef<OsStr>) -> &mut Self {
        self.args.push(argument.as_ref().into());
        self
    }

    pub fn args(&mut self, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> &mut Self {
        self.args.extend(arguments.into_iter().map(|argument| argument.as_ref().to_owned()));
        self
    }

    /// Sets a variable of the command, as `--env` does.
    pub fn env(&mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> &mut Self {
        self.variables.insert(name.as_ref().into(), Some(value.as_ref().into()));
        self
    }

    pub fn envs(
        &mut self,
        variables: impl IntoIterator<Item = (impl AsRef<OsStr>, impl AsRef<OsStr>)>,
    ) -> &mut Self {
        for (name, value) in variables {
            self.env(name, value);
        }
        self
    }

    pub fn env_remove(&mut self, name: impl AsRef<OsStr>) -> &mut Self {
        self.variables.insert(name.as_ref().into(), None);
        self
    }

    pub fn env_clear(&mut self) -> &mut Self {
        self.variables.clear();
        self.is_cleared = true;
        self
    }

    pub fn current_dir(&mut self, directory: impl AsRef<Path>) -> &mut Self {
        self.directory = Some(directory.as_ref().into());
        self
    }

    pub fn stdin(&mut self, stream: impl Into<Stdio>) -> &mut Self {
        self.streams[0] = Some(stream.into());
        self
    }

    pub fn stdout(&mut self, stream: impl Into<Stdio>) -> &mut Self {
        self.streams[1] = Some(stream.into());
        self
    }

    pub fn stderr(&mut self, stream: impl Into<Stdio>) -> &mut Self {
        self.streams[2] = Some(stream.into());
        self
    }

    /// Starts it, with the streams of this program unless others are named. A denial is told by the first call that sees the end.
    pub fn spawn(&mut self) -> Result<Child, Error> {
        self.start([Stdio::Inherit, Stdio::Inherit, Stdio::Inherit])
    }

    /// Runs it, with the streams of this program unless others are named.
    pub fn status(&mut self) -> Result<ExitStatus, Error> {
        self.spawn()?.wait()
    }

    /// Runs it, without input, and gives what it has printed.
    pub fn output(&mut self) -> Result<Output, Error> {
        self.start([Stdio::Null, Stdio::Piped, Stdio::Piped])?.wait_with_output()
    }

    fn start(&self, otherwise: [Stdio; 3]) -> Result<Child, Error> {
        let outcome = outcome_file()?;
        let mut launcher = std::process::Command::new(executable()?);
        launcher.args(["run", "--quiet", "--outcome-fd", &outcome.as_raw_fd().to_string()]);
        launcher.args(self.flags.words());
        self.environment(&mut launcher)?;
        launcher.arg("--").arg(&self.program).args(&self.args);
        if let Some(directory) = &self.directory {
            launcher.current_dir(directory);
        }
        let stream = |number: usize| self.streams[number].as_ref().unwrap_or(&otherwise[number]).of_std();
        launcher.stdin(stream(0)?).stdout(stream(1)?).stderr(stream(2)?);
        let kept = outcome.try_clone().map_err(|error| Error::system("cannot copy a descriptor", &error))?;
        // The copy may have another number; the one that is named must stay open in the launcher.
        keyward_sys::exec::keep_in(&mut launcher, outcome.into());
        let started = launcher.spawn().map_err(|error| match &self.directory {
            Some(directory) if !directory.is_dir() => Error::usage(
                format!("{} is not a directory", directory.display()),
                "name an existing directory with current_dir",
            ),
            _ => Error::system("cannot start the launcher", &error),
        })?;
        Ok(Child::of_launcher(started, kept))
    }

    /// What is set becomes flags; what is removed is removed for the launcher.
    fn environment(&self, launcher: &mut std::process::Command) -> Result<(), Error> {
        let is_needed = |name: &OsStr| FOR_THE_LAUNCHER.iter().any(|needed| name == *needed);
        if self.is_cleared {
            launcher.env_clear();
            launcher.envs(std::env::vars_os().filter(|(name, _)| is_needed(name)));
        }
        for (name, value) in &self.variables {
            match value {
                None if is_needed(name) => {}
                None => {
                    launcher.env_remove(name);
                }
                // The launcher finds the program by it, and the command gets it as the cage has it.
                Some(value) if name == "PATH" => {
                    launcher.env(name, value);
                }
                Some(value) => {
                    if name.is_empty() || name.as_bytes().contains(&b'=') {
                        let fact = format!("{} is not the name of a variable", name.display());
                        return Err(Error::usage(fact, "a name is not empty, and has no `=`"));
                    }
                    let setting = [name.as_os_str(), value].join(OsStr::new("="));
                    launcher.arg("--env").arg(setting);
                }
            }
        }
        Ok(())
    }
}

/// Memory that the launcher writes the outcome to. Its number is not one of the three streams.
fn outcome_file() -> Result<File, Error> {
    rustix::fs::memfd_create(c"keyward-outcome", MemfdFlags::CLOEXEC)
        .and_then(|made| rustix::io::fcntl_dupfd_cloexec(made, 3))
        .map(File::from)
        .map_err(|errno| Error::system("cannot make room for the outcome", &errno.into()))
}
