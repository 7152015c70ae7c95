//! Login files: their skeletons, which hold no secret, and the values of their fields.

use super::{Why, file, text};
use crate::secret::{Buffer, Secret};
use keyward_policy::login::{self, File, LONGEST, Odd, Skeleton};
use std::path::Path;

/// Reads what of a file is not secret.
pub fn skeleton(path: &Path, known: &File) -> Result<Skeleton, Odd> {
    let content = read(path).map_err(|why| match why {
        Why::TooLarge | Why::Malformed("the file has more than 1 MiB") => Odd::TooLong,
        _ => Odd::Unreadable,
    })?;
    known.skeleton(content.bytes())
}

pub(super) fn fetch(path: &Path, name: &str, field: &str) -> Result<Secret, Why> {
    let known = login::named(name).ok_or(Why::NoSuchPart)?;
    let content = read(path)?;
    let value = known.find(content.bytes(), field).ok_or(Why::NoSuchPart)?;
    text::sized(value.as_bytes())?;
    Ok(Secret::copy_of(value.as_bytes()))
}

pub(crate) fn read(path: &Path) -> Result<Buffer, Why> {
    file::read(path, LONGEST)
}
