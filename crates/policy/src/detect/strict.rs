//! `files.protect = "strict"`: which names cannot be made in the user's folders, and which calls are asked about because they make one.
//!
//! The calls are rules of the kernel surface like all others; the names are checked by the warden (`launch::warden`), which does each of
//! these calls in the caller's place.

pub mod programs;

use crate::detect::footholds;
use crate::linux::surface::{Answer, Only, Rule, Test};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Whether a name cannot be made: a foothold that is guarded, or what makes a folder a repository.
pub fn is_forbidden(name: &OsStr) -> bool {
    is_listed(name) || footholds::taken_for(name).is_some_and(|taken| is_listed(OsStr::new(&taken)))
}

/// Whether a directory that is moved leaves a tree of packages. Footholds in there can be changed, so that a package can be replaced:
/// outside they would count. Such a move has to be done by copying, name by name.
pub fn leaves_packages(from: &Path, to: &Path) -> bool {
    footholds::is_in_package(from) && !footholds::is_in_package(to)
}

fn is_listed(name: &OsStr) -> bool {
    footholds::guarded(name).is_some() || name.as_bytes().eq_ignore_ascii_case(b".git")
}

const O_CREAT: u32 = 0o100;
/// With it the kernel does not look at O_CREAT.
const O_PATH: u32 = 0o10_000_000;
const NEW_LISTENER: u32 = 1 << 3;

const fn strict(
    syscalls: &'static [&'static str],
    when: &'static [Test],
    answer: Answer,
    reason: &'static str,
) -> Rule {
    Rule { syscalls, when, answer, reason, lifted_by: None, only: Some(Only::Strict) }
}

/// An ioctl that makes a name; its number carries the size of its argument.
const fn making(number: &'static [Test], file_system: &'static str) -> Rule {
    strict(&["ioctl"], number, Answer::Perm, file_system)
}

/// The rules. They stand behind all others, so that what those refuse is not asked about.
pub const RULES: &[Rule] = &[
    strict(
        &["open"],
        &[Test::Has { arg: 1, bits: O_CREAT }, Test::Lacks { arg: 1, bits: O_PATH }],
        Answer::Warden,
        "may make a file",
    ),
    strict(
        &["openat"],
        &[Test::Has { arg: 2, bits: O_CREAT }, Test::Lacks { arg: 2, bits: O_PATH }],
        Answer::Warden,
        "may make a file",
    ),
    strict(
        &[
            "creat",
            "mkdir",
            "mkdirat",
            "mknod",
            "mknodat",
            "rename",
            "renameat",
            "renameat2",
            "link",
            "linkat",
            "symlink",
            "symlinkat",
        ],
        &[],
        Answer::Warden,
        "makes a name",
    ),
    strict(&["bind"], &[], Answer::Warden, "makes a name, if the socket is a Unix socket"),
    strict(
        &["seccomp"],
        &[Test::Has { arg: 1, bits: NEW_LISTENER }],
        Answer::Perm,
        "of two listeners the younger one is asked: once the warden is gone, a child could let its own calls through",
    ),
    strict(
        &["landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"],
        &[],
        Answer::NoSys,
        "the warden would act outside a domain that the child makes for itself; without one, programs know that they have none",
    ),
    making(&[Test::Is { arg: 1, value: 0x5000_9401 }], "a snapshot of btrfs with a name"),
    making(&[Test::Is { arg: 1, value: 0x5000_940e }], "a subvolume of btrfs with a name"),
    making(&[Test::Is { arg: 1, value: 0x5000_9417 }], "a snapshot of btrfs with a name"),
    making(&[Test::Is { arg: 1, value: 0x5000_9418 }], "a subvolume of btrfs with a name"),
    making(&[Test::Is { arg: 1, value: 0x4018_6f04 }], "a copy on ocfs2 with a name"),
    making(&[Test::Is { arg: 1, value: 0x4020_bc10 }], "a subvolume of bcachefs with a name"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn footholds_and_repositories_cannot_be_made_in_any_spelling() {
        let names = [
            ".envrc",
            ".ENVRC",
            ".Git",
            ".git",
            ".vscode",
            ".vſcode",
            ".ﬂeet",
            ".\u{200c}git",
            ".git.",
            ".git . .",
            ".git::$INDEX_ALLOCATION",
            ".nvim.lua ",
            ".dev\u{ad}container.json",
        ];
        for name in names {
            assert!(is_forbidden(OsStr::new(name)), "{name:?}");
        }
    }

    #[test]
    fn the_work_can_be_made() {
        let names = [
            "",
            ".",
            "..",
            "...",
            ".gitignore",
            ".github",
            "git",
            "envrc",
            ".envrc.example",
            "a:b",
            "Straße",
            "main.rs",
            ".env",
        ];
        for name in names {
            assert!(!is_forbidden(OsStr::new(name)), "{name:?}");
        }
        assert!(!is_forbidden(OsStr::from_bytes(b"\xff\xfe")));
    }
}
