//! Credentials of systemd: those of the service that we run in, and files that `systemd-creds` decrypts.

use super::program::{Call, PLAIN};
use super::{Surroundings, Why, file, text};
use crate::secret::{LARGEST, Secret};
use keyward_policy::secret::Credential;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Where systemd itself looks for encrypted credentials by name.
const STORES: [&str; 2] = ["/etc/credstore.encrypted", "/run/credstore.encrypted"];

pub(super) fn fetch(credential: &Credential, surroundings: &Surroundings<'_>) -> Result<Secret, Why> {
    let name = match credential {
        Credential::File(place) => return decrypt(&place.path(surroundings.home), surroundings),
        Credential::Named(name) => name,
    };
    if let Some(folder) = surroundings.variable("CREDENTIALS_DIRECTORY") {
        match file::read(&Path::new(folder).join(name), LARGEST) {
            Ok(buffer) => return value(buffer.bytes()),
            Err(Why::NotFound) => {}
            Err(why) => return Err(why),
        }
    }
    let kept: Option<PathBuf> =
        STORES.iter().map(|store| Path::new(store).join(name)).find(|path| path.exists());
    decrypt(&kept.ok_or(Why::NotFound)?, surroundings)
}

fn decrypt(path: &Path, surroundings: &Surroundings<'_>) -> Result<Secret, Why> {
    if !path.exists() {
        return Err(Why::NotFound);
    }
    let call = Call::new(OsStr::new("systemd-creds"), surroundings)?
        .arguments([OsStr::new("decrypt"), path.as_os_str(), OsStr::new("-")])
        .pass(PLAIN, surroundings)
        .set("LC_ALL", "C.UTF-8");
    let answer = call.answer()?;
    if !answer.succeeded() {
        return Err(if answer.said(&["not accessible", "permission denied", "access denied"]) {
            Why::Locked
        } else {
            answer.failure()
        });
    }
    value(answer.out())
}

/// A credential may be any bytes.
fn value(bytes: &[u8]) -> Result<Secret, Why> {
    let value = text::line(bytes);
    text::sized(value)?;
    Ok(Secret::copy_of(value))
}
