//! The three streams of a command: as for the standard library, and as descriptors for a session.

use super::error::Error;
use rustix::fs::{Mode, OFlags};
use rustix::pipe::PipeFlags;
use std::fs::File;
use std::io::{IsTerminal, Read, Write};
use std::os::fd::{AsFd, OwnedFd};

/// What a stream of a command is. A [`std::fs::File`] or a descriptor becomes one with `into`.
#[derive(Debug)]
pub enum Stdio {
    /// That of this program.
    Inherit,
    /// Nothing.
    Null,
    /// A pipe to this program.
    Piped,
    /// This descriptor.
    Descriptor(OwnedFd),
}

impl Stdio {
    pub fn inherit() -> Self {
        Stdio::Inherit
    }

    pub fn null() -> Self {
        Stdio::Null
    }

    pub fn piped() -> Self {
        Stdio::Piped
    }
}

impl<D: Into<OwnedFd>> From<D> for Stdio {
    fn from(descriptor: D) -> Self {
        Stdio::Descriptor(descriptor.into())
    }
}

impl Stdio {
    /// For a command of the standard library. It can be given again.
    pub(super) fn of_std(&self) -> Result<std::process::Stdio, Error> {
        Ok(match self {
            Stdio::Inherit => std::process::Stdio::inherit(),
            Stdio::Null => std::process::Stdio::null(),
            Stdio::Piped => std::process::Stdio::piped(),
            Stdio::Descriptor(descriptor) => copy_of(descriptor)?.into(),
        })
    }
}

/// A stream for a session: what is sent there, and our side of a pipe.
pub(super) struct Stream {
    pub(super) sent: OwnedFd,
    pub(super) ours: Option<OwnedFd>,
}

/// Which way a stream goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    In,
    Out,
}

impl Stream {
    /// A terminal is not handed into a cage: input from it is empty, and output is copied to it.
    pub(super) fn new(wanted: &Stdio, own: impl AsFd + IsTerminal, way: Way) -> Result<Self, Error> {
        Ok(match wanted {
            Stdio::Null => Stream { sent: null()?, ours: None },
            Stdio::Descriptor(descriptor) => Stream { sent: copy_of(descriptor)?, ours: None },
            Stdio::Inherit if !own.is_terminal() => Stream { sent: copy_of(own)?, ours: None },
            Stdio::Inherit if way == Way::In => Stream { sent: null()?, ours: None },
            Stdio::Inherit => {
                let (reader, sent) = pipe()?;
                let terminal = File::from(copy_of(own)?);
                relay(File::from(reader), terminal);
                Stream { sent, ours: None }
            }
            Stdio::Piped => {
                let (reader, writer) = pipe()?;
                match way {
                    Way::In => Stream { sent: reader, ours: Some(writer) },
                    Way::Out => Stream { sent: writer, ours: Some(reader) },
                }
            }
        })
    }
}

fn relay(mut from: File, mut to: File) {
    let copy = move || {
        let mut part = [0; 16 << 10];
        while let Ok(length @ 1..) = from.read(&mut part) {
            if to.write_all(&part[..length]).is_err() {
                break;
            }
        }
    };
    // Without a thread there is no reader, and the command is told so when it writes.
    let _ = std::thread::Builder::new().name("keyward-relay".into()).spawn(copy);
}

fn pipe() -> Result<(OwnedFd, OwnedFd), Error> {
    rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
        .map_err(|errno| Error::system("cannot make a pipe", &errno.into()))
}

fn null() -> Result<OwnedFd, Error> {
    rustix::fs::open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| Error::system("cannot open /dev/null", &errno.into()))
}

fn copy_of(descriptor: impl AsFd) -> Result<OwnedFd, Error> {
    rustix::io::fcntl_dupfd_cloexec(descriptor, 3)
        .map_err(|errno| Error::system("cannot copy a descriptor", &errno.into()))
}
