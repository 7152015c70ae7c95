//! Keyward's own files where package managers install them. A program of the user's runs them outside of every cage: what a command
//! would put there would run with the user's rights.
//!
//! What lies elsewhere is the work: sources of Keyward that are checked out, linked (`npm link`) or installed as they are (`pip install -e`).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Part of the digest of the tables: a search by other rules is not used.
pub(super) const RULES: &str = "node_modules, site-packages, dist-packages, programs: 1";

/// Whether this name, in a directory of this name, is a part of Keyward that a package manager has installed.
pub fn is_package(above: &OsStr, name: &OsStr) -> bool {
    let name = name.as_bytes();
    match above.as_bytes() {
        b"node_modules" => matches!(name, b"keyward" | b"@keyward"),
        b"site-packages" | b"dist-packages" => is_module(name),
        _ => false,
    }
}

/// The package, what the installer knows of it, and what leads to one that is installed as it is.
fn is_module(name: &[u8]) -> bool {
    let versioned = |start: &[u8], endings: &[&[u8]]| {
        name.starts_with(start) && endings.iter().any(|ending| name.ends_with(ending))
    };
    name == b"keyward"
        || name == b"keyward.egg-link"
        || versioned(b"keyward-", &[b".dist-info", b".egg-info"])
        || versioned(b"__editable__.keyward-", &[b".pth"])
        || versioned(b"__editable___keyward_", &[b"_finder.py"])
}

/// Whether this is the name of one of the two programs. It counts where shells look for programs.
pub fn is_program(name: &OsStr) -> bool {
    matches!(name.as_bytes(), b"keyward" | b"keyward-services" | b"keyward-shim")
}

/// Whether a path that was found is a part of Keyward by its last names.
pub fn is_own(path: &Path) -> bool {
    let mut names = path.iter().rev();
    let (Some(name), Some(above)) = (names.next(), names.next()) else { return false };
    is_package(above, name) || is_program(name)
}

/// Whether a directory is, or lies in, a part of Keyward that a package manager has installed.
pub fn is_in_package(directory: &Path) -> bool {
    let names: Vec<&OsStr> = directory.iter().collect();
    names.windows(2).any(|pair| is_package(pair[0], pair[1]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_package_managers_install_is_known_wherever_the_environment_is() {
        for path in [
            "/p/.venv/lib/python3.11/site-packages/keyward",
            "/p/.venv/lib64/python3.14/site-packages/keyward-0.1.0.dist-info",
            "/p/x/env/lib/python3/dist-packages/keyward-1.egg-info",
            "/p/.venv/lib/python3.11/site-packages/__editable__.keyward-0.1.0.pth",
            "/p/node_modules/keyward",
            "/p/node_modules/@keyward",
            "/p/node_modules/.pnpm/keyward@0.1.0/node_modules/keyward",
            "/p/node_modules/agent/node_modules/keyward",
            "/p/.venv/bin/keyward",
            "/p/node_modules/.bin/keyward-services",
        ] {
            assert!(is_own(Path::new(path)), "{path}");
        }
        assert!(is_in_package(Path::new("/p/node_modules/keyward/lib")));
        assert!(is_in_package(Path::new("/p/node_modules/@keyward")));
    }

    #[test]
    fn sources_and_packages_of_others_are_the_work() {
        for path in [
            "/p/sdk/python/src/keyward/__init__.py",
            "/p/keyward-sdk",
            "/p/node_modules/keyward-other",
            "/p/.venv/lib/python3.11/site-packages/keyward_plugin",
            "/p/.venv/lib/python3.11/site-packages/keyward_plugin-1.dist-info",
            "keyward",
        ] {
            assert!(!is_own(Path::new(path)), "{path}");
        }
        for path in ["/p/src/keyward", "/p/node_modules", "/p/node_modules/other/keyward"] {
            assert!(!is_in_package(Path::new(path)), "{path}");
        }
    }
}
