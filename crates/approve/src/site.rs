//! The caller's directories, as far as approving needs them.

use std::ffi::OsStr;
use std::path::Path;

/// Where something is asked about, and where approvals are kept.
#[derive(Clone, Copy)]
pub struct Site<'a> {
    /// Where commands start that name no directory.
    pub cwd: &'a Path,
    pub project: &'a Path,
    pub home: &'a Path,
    /// Where the record and the approvals are.
    pub state: &'a Path,
    /// Where the values of secrets are.
    pub store: &'a Path,
    /// The caller's PATH, where git is looked for.
    pub search: &'a OsStr,
}
