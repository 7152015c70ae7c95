//! The tools whose logins can be shown in a cage: what each needs from the real HOME, and how one asks whether its login works.
//!
//! The facts stand in `data/tools.toml` and, for agents, in `profiles/*.toml`; `build/tools.rs` turns them into the table here. Agents of the
//! user's own profiles join it (`agent::own`). Pure: nothing is looked up and nothing is run.

use crate::agent::described::home::{Asked, Exposed, Home, Part as Described};
use crate::agent::own::{self, leak, leak_text, leak_texts};
use crate::config::nearest;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    Linux,
    Macos,
}

impl Platform {
    pub const ALL: [Platform; 2] = [Platform::Linux, Platform::Macos];
    /// The one we were built for.
    pub const HERE: Platform = if cfg!(target_os = "macos") { Platform::Macos } else { Platform::Linux };
}

pub struct Tool {
    /// As it stands in `home.tools`.
    pub name: &'static str,
    /// What it is called on PATH; without any of them the tool is not there.
    pub programs: &'static [&'static str],
    linux: Part,
    macos: Part,
}

/// What a tool needs on one platform.
#[derive(Debug)]
pub struct Part {
    /// What the login needs, and no more.
    pub login: &'static [Exposure],
    /// What `home.share` shows besides.
    pub share: &'static [Exposure],
    /// Folders relative to HOME that can be filled again and hold no credential.
    pub caches: &'static [&'static str],
    pub services: &'static [Service],
    /// Names of its items in the keyring; one `*` may stand for a host or an account.
    pub keyring_items: &'static [&'static str],
    /// Variables that move its files elsewhere, besides those of [`Xdg`].
    pub variables: &'static [&'static str],
    /// Without one, its files are all there is to look at.
    pub status: Option<Status>,
}

/// A file or folder of the real HOME that the tool sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exposure {
    /// Relative to HOME, or to XDG_RUNTIME_DIR if `runtime` is set.
    pub path: &'static str,
    /// Belongs to this tool alone and is shown as a whole.
    pub folder: bool,
    pub secret: bool,
    pub writes: Writes,
    /// With which folder of XDG it moves.
    pub xdg: Option<Xdg>,
    /// The variable that moves the tool's directory, and that directory; `.` for HOME itself.
    pub root: Option<(&'static str, &'static str)>,
    pub runtime: bool,
}

/// What becomes of changes that are made inside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writes {
    /// There are none: it is shown read-only.
    Never,
    /// They are gone with the cage: some program outside would obey them.
    Private,
    /// They are kept for the profile, above the real folder, which stays as it is.
    Kept,
    /// They reach the real one: data that no program obeys, such as a token that was refreshed.
    Through,
}

/// A base folder that a variable can move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Xdg {
    Config,
    Data,
    State,
    Cache,
}

impl Xdg {
    pub fn variable(self) -> &'static str {
        match self {
            Xdg::Config => "XDG_CONFIG_HOME",
            Xdg::Data => "XDG_DATA_HOME",
            Xdg::State => "XDG_STATE_HOME",
            Xdg::Cache => "XDG_CACHE_HOME",
        }
    }

    /// Where it is if the variable is not set, relative to HOME.
    pub fn folder(self) -> &'static str {
        match self {
            Xdg::Config => ".config",
            Xdg::Data => ".local/share",
            Xdg::State => ".local/state",
            Xdg::Cache => ".cache",
        }
    }
}

impl Exposure {
    /// The variable that moves it, and what follows the variable's value.
    pub fn moved_by(&self) -> Option<(&'static str, &'static str)> {
        if let Some((variable, root)) = self.root {
            let below = self.path.strip_prefix(root).and_then(|rest| rest.strip_prefix('/'));
            return Some((variable, below.unwrap_or(self.path)));
        }
        let xdg = self.xdg?;
        let rest = self.path.strip_prefix(xdg.folder())?.strip_prefix('/')?;
        Some((xdg.variable(), rest))
    }
}

/// A service that acts for the user, and that the tool asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// The keyring of the desktop, over D-Bus.
    SecretService,
    /// The login keychain of macOS.
    Keychain,
    SshAgent,
    GpgAgent,
    DockerSocket,
    PodmanSocket,
    /// The 1Password application, which asks the person at the screen.
    OnePasswordApp,
}

impl Service {
    /// As it stands in the data file.
    pub fn name(self) -> &'static str {
        match self {
            Service::SecretService => "secret-service",
            Service::Keychain => "keychain",
            Service::SshAgent => "ssh-agent",
            Service::GpgAgent => "gpg-agent",
            Service::DockerSocket => "docker-socket",
            Service::PodmanSocket => "podman-socket",
            Service::OnePasswordApp => "1password-app",
        }
    }

    /// The folder below HOME that it needs to be reached.
    pub fn folder(self) -> Option<&'static str> {
        (self == Service::Keychain).then_some("Library/Keychains")
    }
}

/// The question whether a tool is logged in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    pub run: &'static [&'static str],
    pub answer: Answer,
    /// Texts that decide before the exit code does, those of `logged_out` first.
    pub logged_in: &'static [&'static str],
    pub logged_out: &'static [&'static str],
    /// Asks a server: without a network the answer means nothing.
    pub network: bool,
}

/// How the answer is read where no text has decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// 0 is yes, another code is no.
    Exit,
    /// 0 is yes if there was no text to wait for; another code says nothing.
    Text,
    /// Any output on stdout is yes, none is no; a code other than 0 says nothing.
    Output,
}

/// What an answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Login {
    In,
    Out,
    Unknown,
}

impl Status {
    /// Reads the answer. `code` is `None` if a signal ended the program.
    pub fn read(&self, code: Option<i32>, stdout: &str, stderr: &str) -> Login {
        // The program could not be started, so there is no answer.
        let Some(code) = code.filter(|code| !matches!(code, 126 | 127)) else { return Login::Unknown };
        let said = |texts: &[&str]| texts.iter().any(|text| says(stdout, text) || says(stderr, text));
        if said(self.logged_out) {
            return Login::Out;
        }
        if said(self.logged_in) {
            return Login::In;
        }
        match (self.answer, code) {
            (Answer::Exit, 0) => Login::In,
            (Answer::Exit, _) => Login::Out,
            (Answer::Text, 0) if self.logged_in.is_empty() => Login::In,
            (Answer::Text, 0) if self.logged_out.is_empty() => Login::Out,
            (Answer::Output, 0) if stdout.trim().is_empty() => Login::Out,
            (Answer::Output, 0) => Login::In,
            (Answer::Text | Answer::Output, _) => Login::Unknown,
        }
    }
}

/// Whether the text is there, and not as the end of a longer word or number: "10 credentials" does not say "0 credentials".
fn says(output: &str, text: &str) -> bool {
    let cuts_a_word = |at: usize| output[..at].ends_with(char::is_alphanumeric);
    output.match_indices(text).any(|(at, _)| !cuts_a_word(at))
}

mod table {
    use super::{Answer, Exposure, Part, Service, Status, Tool, Writes, Xdg};
    include!(concat!(env!("OUT_DIR"), "/tools.rs"));
}

/// All tools: agents, the others in the order of the data file, then the agents of the user's own profiles.
pub fn all() -> impl Iterator<Item = &'static Tool> + Clone {
    builtin().iter().chain(own::tools())
}

/// Those that are compiled in.
pub fn builtin() -> &'static [Tool] {
    table::TOOLS
}

/// The tool of this name.
pub fn tool(name: &str) -> Option<&'static Tool> {
    all().find(|tool| tool.name == name)
}

/// The directory of a tool, below HOME, that this variable moves elsewhere.
pub(crate) fn folder_of(variable: &str) -> Option<&'static str> {
    let parts = all().map(|tool| tool.on(Platform::HERE));
    let roots = parts.flat_map(|part| part.login).filter_map(|exposure| exposure.root);
    roots.filter(|(_, folder)| *folder != ".").find(|(own, _)| *own == variable).map(|(_, folder)| folder)
}

/// The tool that was probably meant by a name that is none: a program of the tool, or a misspelling.
pub fn nearest_tool(name: &str) -> Option<&'static str> {
    let by_program = all().find(|tool| tool.programs.contains(&name));
    by_program.map(|tool| tool.name).or_else(|| nearest(name, all().map(|tool| tool.name)))
}

impl std::fmt::Debug for Tool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

impl PartialEq for Tool {
    fn eq(&self, other: &Tool) -> bool {
        self.name == other.name
    }
}

impl Eq for Tool {}

impl Tool {
    /// An agent of the user's own.
    pub(crate) fn described(name: &str, programs: &[String], home: &Home) -> Tool {
        let [linux, macos] = &home.parts;
        let root =
            home.root.as_ref().map(|(variable, directory)| (leak_text(variable), leak_text(directory)));
        Tool {
            name: leak_text(name),
            programs: leak_texts(programs),
            linux: Part::described(linux, root),
            macos: Part::described(macos, root),
        }
    }

    pub fn on(&self, platform: Platform) -> &Part {
        match platform {
            Platform::Linux => &self.linux,
            Platform::Macos => &self.macos,
        }
    }
}

impl Part {
    fn described(part: &Described, root: Option<(&'static str, &'static str)>) -> Part {
        let all = |list: &[Exposed]| leak(list.iter().map(|one| Exposure::described(one, root)).collect());
        Part {
            login: all(&part.login),
            share: all(&part.share),
            caches: leak_texts(&part.caches),
            // A profile of the user's has none: see `agent::own`.
            services: &[],
            keyring_items: &[],
            variables: leak_texts(&part.variables),
            status: part.status.as_ref().map(Status::described),
        }
    }
}

impl Exposure {
    fn described(one: &Exposed, root: Option<(&'static str, &'static str)>) -> Exposure {
        Exposure {
            path: leak_text(&one.path),
            folder: one.folder,
            secret: one.secret,
            writes: match one.writes {
                "private" => Writes::Private,
                "kept" => Writes::Kept,
                "through" => Writes::Through,
                _ => Writes::Never,
            },
            xdg: one.xdg.map(|xdg| match xdg {
                "config" => Xdg::Config,
                "data" => Xdg::Data,
                "state" => Xdg::State,
                _ => Xdg::Cache,
            }),
            root,
            runtime: one.runtime,
        }
    }
}

impl Status {
    fn described(asked: &Asked) -> Status {
        Status {
            run: leak_texts(&asked.run),
            answer: match asked.answer {
                "text" => Answer::Text,
                "output" => Answer::Output,
                _ => Answer::Exit,
            },
            logged_in: leak_texts(&asked.logged_in),
            logged_out: leak_texts(&asked.logged_out),
            network: asked.network,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(
        answer: Answer,
        logged_in: &'static [&'static str],
        logged_out: &'static [&'static str],
    ) -> Status {
        Status { run: &["x"], answer, logged_in, logged_out, network: false }
    }

    #[test]
    fn an_answer_is_read_by_its_texts_first_then_by_its_code() {
        let exit = ask(Answer::Exit, &[], &["Not logged in"]);
        assert_eq!(exit.read(Some(0), "", ""), Login::In);
        assert_eq!(exit.read(Some(0), "", "Not logged in"), Login::Out);
        assert_eq!(exit.read(Some(1), "", ""), Login::Out);

        let one_text = ask(Answer::Text, &[], &["0 credentials"]);
        assert_eq!(one_text.read(Some(0), "└  0 credentials", ""), Login::Out);
        assert_eq!(one_text.read(Some(0), "└  10 credentials", ""), Login::In);
        assert_eq!(one_text.read(Some(1), "", "database is locked"), Login::Unknown);

        let two_texts = ask(Answer::Text, &["yes"], &["no"]);
        assert_eq!(two_texts.read(Some(3), "yes", ""), Login::In);
        assert_eq!(two_texts.read(Some(0), "perhaps", ""), Login::Unknown);

        let output = ask(Answer::Output, &[], &[]);
        assert_eq!(output.read(Some(0), "ann@example.com\n", ""), Login::In);
        assert_eq!(output.read(Some(0), "\n", "a warning"), Login::Out);
        assert_eq!(output.read(Some(2), "", ""), Login::Unknown);
    }

    #[test]
    fn a_program_that_did_not_start_or_was_killed_has_not_answered() {
        for answer in [Answer::Exit, Answer::Text, Answer::Output] {
            for code in [None, Some(126), Some(127)] {
                assert_eq!(ask(answer, &["yes"], &[]).read(code, "yes", ""), Login::Unknown);
            }
        }
    }
}
