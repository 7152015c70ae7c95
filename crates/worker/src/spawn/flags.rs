//! The flags of `keyward run`, one method each, for a command and for a session.

use std::ffi::{OsStr, OsString};

/// The words of flags that were given.
#[derive(Clone, Debug, Default)]
pub(super) struct Flags(Vec<OsString>);

impl Flags {
    pub(super) fn add(&mut self, flag: &str, value: impl AsRef<OsStr>) {
        self.0.extend([OsString::from(flag), value.as_ref().into()]);
    }

    pub(super) fn switch(&mut self, flag: &str) {
        self.0.push(flag.into());
    }

    pub(super) fn words(&self) -> &[OsString] {
        &self.0
    }
}

/// Adds the methods to a type with a field `flags`.
macro_rules! flag_methods {
    ($kind:ty) => {
        impl $kind {
            $crate::spawn::flags::flag_methods! { @text
                profile "--profile" "a profile of the policy file";
                trust "--trust" "how far the command is trusted: internal, executor, tool or unknown";
                floor "--floor" "the promises that must hold: full or landlock";
                allow "--allow" "a part of the kernel surface: ptrace or gpu";
                pass "--pass" "a variable that passes, unless it looks like a credential";
                inherit_credentials "--inherit-credentials" "a credential that is handed over by name";
                redact "--redact" "whether secrets are taken out of what is printed: on or off";
                read "--read" "a file or directory that is shown, read-only";
                write "--write" "a file or directory that is shown, writable";
                hide "--hide" "a file or directory that is hidden";
                show "--show" "a file of the project that looks secret and is not";
                protect "--protect" "new footholds: notice or strict";
                home "--home" "which HOME: real, profile or empty";
                tool_login "--tool" "a tool whose login is shown, such as gh";
                net "--net" "the network: none, rules or open";
                allow_net "--allow-net" "a host that may be reached, as a rule or a preset";
                reach "--reach" "a port of this machine's loopback that may be reached";
                publish "--publish" "a port of the cage that this machine reaches";
                gate "--gate" "what the gate does about risky commands: ask, deny, auto, judge or yolo";
                memory "--memory" "a limit on memory, such as 512M";
            }

            /// `--gpu`: shows the graphics devices.
            pub fn gpu(&mut self) -> &mut Self {
                self.flags.switch("--gpu");
                self
            }

            /// `--shims`: runs the shells and interpreters that an agent starts in a narrower cage.
            pub fn shims(&mut self) -> &mut Self {
                self.flags.switch("--shims");
                self
            }

            /// `--pids`: a limit on processes and threads.
            pub fn pids(&mut self, count: u32) -> &mut Self {
                self.flags.add("--pids", count.to_string());
                self
            }

            /// `--secret NAME=HOW`: a secret of the vault, delivered as `proxy` (a phantom), `fd`, `file`, `token` or `dangerous-env`.
            pub fn secret(&mut self, name: &str, how: &str) -> &mut Self {
                self.flags.add("--secret", format!("{name}={how}"));
                self
            }

            /// `--timeout`: ends a command after this time, with everything that it has started.
            pub fn timeout(&mut self, time: std::time::Duration) -> &mut Self {
                self.flags.add("--timeout", format!("{}ms", time.as_millis().max(1)));
                self
            }
        }
    };
    (@text $($method:ident $flag:literal $does:literal;)*) => {
        $(
            #[doc = concat!("`", $flag, "`: ", $does, ".")]
            pub fn $method(&mut self, value: impl AsRef<std::ffi::OsStr>) -> &mut Self {
                self.flags.add($flag, value);
                self
            }
        )*
    };
}

pub(super) use flag_methods;
