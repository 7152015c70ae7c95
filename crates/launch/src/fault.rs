//! What can fail in the launcher: a step, the object it was about, and the cause.

use keyward_policy::linux::cage::Step;
use keyward_sys::file::reason;
use rustix::io::Errno;
use std::fmt;

/// A failure of Keyward itself (exit 125), or of a step on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub step: Step,
    /// What the step was about, such as a path.
    pub object: String,
    pub errno: Errno,
}

impl Fault {
    pub fn new(step: Step, object: impl Into<String>, errno: Errno) -> Self {
        Fault { step, object: object.into(), errno }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault { step, object, errno } = self;
        let act = match step {
            Step::Namespaces => "cannot make the namespaces of the cage",
            Step::Identity => "cannot map the user into the cage",
            Step::Session => "cannot start a session",
            Step::Loopback => "cannot bring up the cage's loopback",
            Step::Network => "cannot make the cage's network follow rules",
            Step::Publish => "cannot publish",
            Step::Root => "cannot make the root of the cage",
            Step::View => "cannot show",
            Step::Pivot => "cannot enter the root of the cage",
            Step::Terminal => "cannot make a terminal for the cage",
            Step::Guardian => "cannot start the guardian",
            Step::Secrets => "cannot put the secrets in their places",
            Step::Keyring => "cannot make a session keyring",
            Step::Limits => "cannot set the limits",
            Step::Capabilities => "cannot give up capabilities",
            Step::Warden => "cannot start the warden that strict protection needs",
            Step::Landlock => "cannot enter the Landlock domain",
            Step::Seccomp => "cannot install the seccomp filter",
            Step::Descriptors => "cannot close descriptors",
            Step::Exec => "cannot run",
            Step::Init => "the cage ended by itself",
        };
        f.write_str(act)?;
        if !object.is_empty() {
            write!(f, " {object}")?;
        }
        write!(f, ": {}", reason(*errno))
    }
}
