//! The ways on which a secret comes: a descriptor, a file, a token, a variable. Each is tried in this order, and what led to the secret is
//! gone afterwards.

use crate::error::of_environment;
use crate::secret::Room;
use crate::{Secret, TakeError};
use keyward_sys::{Errno, environ, memory};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};

/// What lies here was put here for this cage and is nobody's original.
const DELIVERED: &[u8] = b"/run/secrets/";
/// How a token's descriptor begins.
const KEY: [u8; 15] = *b"AGE-SECRET-KEY-";
/// More than a number or a path has.
const LONGEST_LEAD: usize = 4096;

pub(crate) fn take(name: &str) -> Result<Secret, TakeError> {
    type Way = fn(&str) -> Result<Option<Secret>, TakeError>;
    let ways: [(&str, Way); 4] =
        [("_FD", by_descriptor), ("_FILE", by_file), ("_TOKEN_FD", by_token), ("", by_variable)];
    for (suffix, way) in ways {
        let variable = format!("{name}{suffix}");
        if let Some(secret) = way(&variable)? {
            environ::remove_variable(&variable).map_err(of_environment)?;
            return Ok(secret);
        }
    }
    Err(TakeError::NotGiven { name: name.into() })
}

fn by_descriptor(variable: &str) -> Result<Option<Secret>, TakeError> {
    let Some(number) = number_in(variable)? else { return Ok(None) };
    let file =
        memory::take_sealed(number).map_err(|_| TakeError::NoSecretThere { variable: variable.into() })?;
    read(variable, file).map(Some)
}

fn by_file(variable: &str) -> Result<Option<Secret>, TakeError> {
    let Some(path) = lead(variable)? else { return Ok(None) };
    let file = rustix::fs::open(path.as_slice(), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|errno| unreadable(variable, errno))?;
    let secret = read(variable, file)?;
    if path.starts_with(DELIVERED) {
        rustix::fs::unlink(path.as_slice())
            .map_err(|_| TakeError::FileStays { variable: variable.into() })?;
    }
    Ok(Some(secret))
}

fn by_token(variable: &str) -> Result<Option<Secret>, TakeError> {
    match number_in(variable)? {
        Some(number) if holds_a_token(number) => swapped(variable, number).map(Some),
        _ => Ok(None),
    }
}

/// `GH_TOKEN_FD` is also the descriptor of a secret `GH_TOKEN`, when `GH` is asked for. Only what begins with a key is a token.
fn holds_a_token(number: i32) -> bool {
    let mut beginning = [0; KEY.len()];
    let read = keyward_sys::own(number).and_then(|file| read_at_start(file, &mut beginning));
    read.is_ok() && beginning == KEY
}

#[cfg(feature = "token")]
fn swapped(variable: &str, number: i32) -> Result<Secret, TakeError> {
    let file =
        memory::take_sealed(number).map_err(|_| TakeError::NoSecretThere { variable: variable.into() })?;
    read(variable, crate::token::swap(variable, &file)?)
}

#[cfg(not(feature = "token"))]
fn swapped(variable: &str, _number: i32) -> Result<Secret, TakeError> {
    Err(TakeError::NoTokens { variable: variable.into() })
}

fn by_variable(variable: &str) -> Result<Option<Secret>, TakeError> {
    let mut room = Room::new();
    let length = match environ::read_variable(variable, room.all()) {
        Err(Errno::MSGSIZE) => return Err(TakeError::TooLarge { variable: variable.into() }),
        length => length.map_err(of_environment)?,
    };
    match length {
        Some(length) => {
            room.into_secret(length).map(Some).ok_or(TakeError::TooLarge { variable: variable.into() })
        }
        None => Ok(None),
    }
}

/// What a variable says about where the secret is.
fn lead(variable: &str) -> Result<Option<Vec<u8>>, TakeError> {
    let mut text = vec![0; LONGEST_LEAD];
    match environ::read_variable(variable, &mut text) {
        Err(Errno::MSGSIZE) => Err(TakeError::NoSecretThere { variable: variable.into() }),
        Err(errno) => Err(of_environment(errno)),
        Ok(length) => Ok(length.map(|length| {
            text.truncate(length);
            text
        })),
    }
}

fn number_in(variable: &str) -> Result<Option<i32>, TakeError> {
    let Some(text) = lead(variable)? else { return Ok(None) };
    let number = std::str::from_utf8(&text).ok().and_then(|text| text.parse().ok());
    number.map(Some).ok_or(TakeError::NoSecretThere { variable: variable.into() })
}

/// Reads all of it from its beginning, whoever has read it before, and closes it.
fn read(variable: &str, file: OwnedFd) -> Result<Secret, TakeError> {
    let mut room = Room::new();
    let length = read_at_start(&file, room.all()).map_err(|errno| unreadable(variable, errno))?;
    room.into_secret(length).ok_or(TakeError::TooLarge { variable: variable.into() })
}

pub(crate) fn read_at_start(file: impl AsFd, into: &mut [u8]) -> Result<usize, Errno> {
    let mut length = 0;
    while let Some(free) = into.get_mut(length..).filter(|free| !free.is_empty()) {
        match rustix::io::retry_on_intr(|| rustix::io::pread(&file, &mut *free, length as u64))? {
            0 => break,
            read => length += read,
        }
    }
    Ok(length)
}

fn unreadable(variable: &str, errno: Errno) -> TakeError {
    TakeError::Unreadable { variable: variable.into(), cause: errno.kind() }
}
