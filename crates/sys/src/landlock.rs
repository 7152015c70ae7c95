//! The Landlock domain: a second wall that repeats the file and scope rules of the view.

use crate::Errno;
use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};
use std::path::Path;

/// The version of Landlock that this kernel offers; 0 means none.
pub fn abi() -> i32 {
    const LANDLOCK_CREATE_RULESET_VERSION: libc::c_uint = 1;
    // SAFETY: with this flag the kernel takes a null attribute of size 0 and answers with its version.
    let version = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0usize,
            LANDLOCK_CREATE_RULESET_VERSION,
        )
    };
    i32::try_from(version).map_or(0, |version| version.max(0))
}

/// What may be done below a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Below {
    /// See the names of what is there.
    List,
    /// Read and execute.
    Read,
    /// Everything.
    Write,
    /// Read and write what is there (devices), make nothing.
    Use,
}

/// A domain that is ready to be entered.
pub struct Domain(RulesetCreated);

/// Which scopes close what lies outside the domain; needs ABI 6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scopes {
    pub signals: bool,
    pub abstract_sockets: bool,
}

fn known(abi: i32) -> ABI {
    match abi {
        ..=0 => ABI::Unsupported,
        1 => ABI::V1,
        2 => ABI::V2,
        3 => ABI::V3,
        4 => ABI::V4,
        5 => ABI::V5,
        _ => ABI::V6,
    }
}

/// Prepares a domain for an `abi` that was asked for before; a right that this ABI lacks is an error, not a gap.
pub fn prepare<'a>(
    abi: i32,
    rules: impl Iterator<Item = (&'a Path, Below)>,
    scopes: Scopes,
) -> Result<Domain, RulesetError> {
    let abi = known(abi);
    let all = AccessFs::from_all(abi);
    let read = AccessFs::from_read(abi);
    let mut ruleset =
        Ruleset::default().set_compatibility(CompatLevel::HardRequirement).handle_access(all)?;
    let mut scope: BitFlags<Scope> = BitFlags::EMPTY;
    if scopes.signals {
        scope |= Scope::Signal;
    }
    if scopes.abstract_sockets {
        scope |= Scope::AbstractUnixSocket;
    }
    if !scope.is_empty() {
        ruleset = ruleset.scope(scope)?;
    }
    let mut created = ruleset.create()?;
    for (path, below) in rules {
        // A path that is not there needs no rule.
        let Ok(file) = PathFd::new(path) else { continue };
        let access = match below {
            Below::List => AccessFs::ReadDir.into(),
            Below::Read => read,
            Below::Write => all,
            Below::Use => (read | AccessFs::from_file(abi)) & !BitFlags::from(AccessFs::Execute),
        };
        let access = if path_is_directory(&file) { access } else { access & AccessFs::from_file(abi) };
        created = created.add_rule(PathBeneath::new(file, access))?;
    }
    Ok(Domain(created))
}

/// Enters a domain that keeps nothing but our signals inside: they reach this process's descendants and nobody else.
pub fn keep_signals_inside() -> Result<(), RulesetError> {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement).scope(Scope::Signal)?;
    ruleset.create()?.restrict_self().map(drop)
}

fn path_is_directory(file: &PathFd) -> bool {
    use rustix::fd::AsFd;
    rustix::fs::fstat(file.as_fd()).is_ok_and(|stat| {
        rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory
    })
}

impl Domain {
    /// Enters the domain, for good.
    pub fn enter(self) -> Result<(), RulesetError> {
        self.0.restrict_self().map(drop)
    }

    /// Enters the domain, for good, and keeps the value. For a process that borrows its parent's memory: what it closes
    /// there stays open in the parent.
    pub fn enter_copy(&self) -> Result<(), Errno> {
        let copy = self.0.try_clone().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        copy.restrict_self().map(drop).map_err(|_| Errno::PERM)
    }
}
