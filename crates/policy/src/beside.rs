//! Whether the second executable is as hard to replace as the launcher that is about to start it.

/// What the file system says about a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Program {
    pub is_file: bool,
    pub owner: u32,
    pub mode: u32,
}

impl Program {
    /// The bits by which users other than its owner may write to it.
    const fn writable_by_others(self) -> u32 {
        self.mode & 0o022
    }
}

/// Why the program beside the launcher is not started.
pub fn distrust(launcher: Program, beside: Program) -> Option<&'static str> {
    const ROOT: u32 = 0;
    if !beside.is_file {
        Some("it is not a regular file")
    } else if beside.owner != launcher.owner && beside.owner != ROOT {
        Some("it belongs to another user than keyward does")
    } else if beside.writable_by_others() & !launcher.writable_by_others() != 0 {
        Some("more users may write to it than to keyward")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(owner: u32, mode: u32) -> Program {
        Program { is_file: true, owner, mode }
    }

    #[test]
    fn what_is_as_hard_to_replace_as_the_launcher_is_started() {
        let launcher = program(1000, 0o755);
        for beside in [program(1000, 0o755), program(0, 0o755), program(1000, 0o700)] {
            assert_eq!(distrust(launcher, beside), None);
        }
        let shared = program(1000, 0o775);
        assert_eq!(distrust(shared, shared), None, "a group of one's own, as umask 002 leaves it");
        let folder = Program { is_file: false, ..launcher };
        for beside in [program(1001, 0o755), program(1000, 0o775), program(1000, 0o757), folder] {
            assert!(distrust(launcher, beside).is_some());
        }
    }
}
