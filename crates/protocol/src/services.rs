//! How the launcher starts a room of the second executable: by exec, with these arguments.
//!
//! `keyward-services VERSION ROOM LAUNCHER FORM WORD…`. The version comes first and is compared first, so that no other build reads what
//! follows.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

/// The file beside the launcher.
pub const EXECUTABLE: &str = "keyward-services";

/// Both executables are built and installed together.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What can be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    /// The attack on one's own cage, `keyward doctor --attack`.
    Attack,
    /// The tools of an agent, `keyward mcp-server`.
    Mcp,
    /// The proxy of cages with network rules. [`crate::proxy`] says how it is spoken to.
    Proxy,
    /// The audit of a code base, `keyward scan`.
    Scan,
}

impl Room {
    pub const ALL: &'static [Room] = &[Room::Attack, Room::Mcp, Room::Proxy, Room::Scan];

    pub const fn word(self) -> &'static str {
        match self {
            Room::Attack => "attack",
            Room::Mcp => "mcp",
            Room::Proxy => "proxy",
            Room::Scan => "scan",
        }
    }

    /// Whether it is given the caller's variables, because it starts the launcher again for the same caller.
    pub const fn acts_for_the_caller(self) -> bool {
        match self {
            Room::Attack | Room::Proxy | Room::Scan => false,
            Room::Mcp => true,
        }
    }

    fn named(word: &OsStr) -> Option<Room> {
        Room::ALL.iter().copied().find(|room| word == room.word())
    }
}

/// How answers and failures are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Words,
    Json,
}

impl Form {
    const fn word(self) -> &'static str {
        match self {
            Form::Words => "words",
            Form::Json => "json",
        }
    }

    fn named(word: &OsStr) -> Option<Form> {
        [Form::Words, Form::Json].into_iter().find(|form| word == form.word())
    }
}

/// What a room is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub room: Room,
    /// The launcher that asks. A room that starts commands starts them by it.
    pub launcher: PathBuf,
    pub form: Form,
    /// What the room reads itself.
    pub words: Vec<OsString>,
}

/// Why arguments are not a call for this build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// The launcher is of another version.
    OtherVersion(String),
    /// No launcher wrote them.
    NotACall,
}

impl Call {
    /// The arguments, without the name of the program.
    pub fn arguments(&self) -> Vec<OsString> {
        let head =
            [VERSION.into(), self.room.word().into(), self.launcher.clone().into(), self.form.word().into()];
        head.into_iter().chain(self.words.iter().cloned()).collect()
    }

    /// Reads what `arguments` wrote.
    pub fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Call, Unfit> {
        let mut arguments = arguments.into_iter();
        let version = arguments.next().ok_or(Unfit::NotACall)?;
        if version != VERSION {
            let is_version =
                version.to_str().filter(|text| text.starts_with(|first: char| first.is_ascii_digit()));
            return Err(is_version.map_or(Unfit::NotACall, |text| Unfit::OtherVersion(text.into())));
        }
        let room = arguments.next().and_then(|word| Room::named(&word)).ok_or(Unfit::NotACall)?;
        let launcher =
            arguments.next().map(PathBuf::from).filter(|path| path.is_absolute()).ok_or(Unfit::NotACall)?;
        let form = arguments.next().and_then(|word| Form::named(&word)).ok_or(Unfit::NotACall)?;
        Ok(Call { room, launcher, form, words: arguments.collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call() -> Call {
        let words = vec!["a word".into(), "".into()];
        Call { room: Room::Attack, launcher: "/a folder/keyward".into(), form: Form::Json, words }
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(Call::read(call().arguments()), Ok(call()));
    }

    #[test]
    fn another_version_is_noticed_before_anything_else() {
        let mut arguments = call().arguments();
        arguments[0] = "0.0.9".into();
        arguments[1] = "a room that we do not have".into();
        assert_eq!(Call::read(arguments), Err(Unfit::OtherVersion("0.0.9".into())));
    }

    #[test]
    fn what_no_launcher_writes_is_no_call() {
        let whole = call().arguments();
        for length in 0..4 {
            assert_eq!(Call::read(whole[..length].to_vec()), Err(Unfit::NotACall), "{length}");
        }
        for (at, word) in [(0, "--help"), (1, "kitchen"), (2, "keyward"), (3, "yaml")] {
            let mut arguments = whole.clone();
            arguments[at] = word.into();
            assert_eq!(Call::read(arguments), Err(Unfit::NotACall), "{word}");
        }
    }
}
