//! The outcome: what a run tells its caller, as an exit code and as one JSON object.

use crate::aftermath::Aftermath;
use crate::event::{Gate, kept_back};
use crate::hint::Hint;
use crate::plan::{Plan, Refusal, VERSION};
use crate::promise::Kept;
use crate::secret::Delivery;
use crate::text::{typed, visible};
use crate::trouble::Trouble;
use crate::view::Gone;
use serde::Serialize;
use std::path::Path;

/// Our own exit codes; everything else is the command's.
pub mod code {
    /// Bad usage, or a mistake in a policy file.
    pub const USAGE: i32 = 120;
    /// Refused by policy.
    pub const REFUSED: i32 = 121;
    /// The floor is not available here.
    pub const FLOOR: i32 = 122;
    /// The gate said no, or no approver said yes.
    pub const DENIED: i32 = 123;
    /// A limit on time was hit.
    pub const TIMEOUT: i32 = 124;
    /// A fault in Keyward.
    pub const FAULT: i32 = 125;
    /// The command was found but could not be run.
    pub const NOT_EXECUTABLE: i32 = 126;
    /// The command was not found.
    pub const NOT_FOUND: i32 = 127;
}

/// One JSON object, the last line of stderr with `--json`, or on `--outcome-fd`.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome<'a> {
    pub v: u32,
    pub exit: i32,
    #[serde(flatten)]
    pub result: Conclusion<'a>,
    /// What held, promise by promise; empty when nothing was started.
    pub held: Promises<'a>,
    /// Names of variables that were kept back because they look like credentials.
    pub kept_back: Vec<String>,
    /// What the command left in the project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<&'a Aftermath>,
    /// Repositories of the project in which something changed.
    pub repositories: &'a [Repository],
    /// Logins that the command has changed.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub logins: &'a [LoginNews],
    /// Secrets that the command was given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<SecretNews>,
    /// Hosts that the command looked for, in a cage without a network.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub wanted_hosts: &'a [String],
    /// What the rules of the network denied, and whether they could be kept to the end.
    #[serde(skip_serializing_if = "NetworkNews::is_quiet")]
    pub network: &'a NetworkNews,
    /// What the command left in directories of the cage's own.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    pub gone: &'a [Gone],
    /// Why the command may have failed in a cage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<Hint>,
}

/// What the proxy of a cage with rules reported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct NetworkNews {
    /// What was denied, each once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub denied: Vec<Denied>,
    /// How much more was denied than is listed.
    #[serde(skip_serializing_if = "is_zero")]
    pub further: u64,
    /// Secrets that a host sent back, and which host: the command was given the phantom instead.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub echoed: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub troubles: Vec<Trouble>,
    /// Whether the proxy ended before the command: from then on every connection failed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub lost: bool,
}

/// Something that the rules of the network denied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Denied {
    pub host: String,
    pub fact: String,
    pub remedy: String,
    /// The flag that would allow it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flag: Option<String>,
    pub times: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl NetworkNews {
    /// Nothing happened.
    pub const QUIET: &NetworkNews = &NetworkNews {
        denied: Vec::new(),
        further: 0,
        echoed: Vec::new(),
        troubles: Vec::new(),
        lost: false,
    };

    pub fn is_quiet(&self) -> bool {
        self == NetworkNews::QUIET
    }

    /// What the user is told: each fact, and what can be done.
    pub fn lines(&self) -> Vec<(String, String)> {
        let mut lines: Vec<(String, String)> =
            self.denied.iter().map(|denied| (denied.fact.clone(), denied.remedy.clone())).collect();
        if self.further > 0 {
            lines.push((
                format!("network: denied {} more", self.further),
                "`keyward log --net --denied` lists them".into(),
            ));
        }
        lines.extend(self.echoed.iter().map(|echoed| {
            let fact =
                format!("network: a host sent a secret back ({echoed}); the command was shown the phantom");
            (fact, "if that host is not yours, replace the secret: `keyward secret set NAME`".into())
        }));
        lines.extend(self.troubles.iter().map(|trouble| (trouble.fact.clone(), trouble.remedy.clone())));
        if self.lost {
            lines.push((
                "network: the proxy has ended, and every later connection of the command failed".into(),
                "run the command again; if it happens again, please report it".into(),
            ));
        }
        lines
    }
}

/// Promises of a plan, or what the launcher of a session has written of them.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Promises<'a> {
    Of(&'a [Kept]),
    Written(serde_json::Value),
}

/// What became of a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SecretNews {
    pub name: String,
    pub delivery: Delivery,
    /// How long its value was in the vault on its way; nothing if it was not asked for.
    pub microseconds: Option<u64>,
    /// How often it was taken out of what the command printed.
    pub printed: u64,
}

/// What became of a repository of the project.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Repository {
    /// Its own folder, relative to the project where it lies in it.
    pub path: String,
    /// Names that the host has now as the command made them.
    pub taken_over: Vec<String>,
    /// What stays in the cage, because git on the host would run it or be led by it.
    pub kept_back: Vec<RepositoryNews>,
    /// What both sides changed; the host's is as it was.
    pub conflicts: Vec<RepositoryNews>,
    /// What could not be written.
    pub troubles: Vec<RepositoryNews>,
    /// What git goes by now and what a person has to know before using it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<RepositoryNews>,
    /// Remotes that the command added.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub new_remotes: Vec<NewRemote>,
    /// Where the command's own repository is kept, because something of it could not be taken over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_in: Option<String>,
}

/// One name of a repository, and what is to be said of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RepositoryNews {
    pub path: String,
    pub why: String,
    /// The entry of the quarantine that has the command's version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<String>,
}

impl RepositoryNews {
    /// Whether it is about who commits, by which git runs nothing.
    pub fn is_of_identity(&self) -> bool {
        ["user.name:", "user.email:"].iter().any(|key| self.why.starts_with(key))
    }
}

/// A remote that a command added: git skips it until it is named, and no command can make a branch follow it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NewRemote {
    /// The configuration file, relative to the repository.
    pub path: String,
    pub name: String,
    pub url: String,
}

impl Repository {
    pub fn new(path: &Path) -> Self {
        Repository { path: visible(path.as_os_str()), ..Repository::default() }
    }

    pub fn says_something(&self) -> bool {
        !(self.taken_over.is_empty()
            && self.kept_back.is_empty()
            && self.conflicts.is_empty()
            && self.troubles.is_empty()
            && self.notices.is_empty()
            && self.new_remotes.is_empty()
            && self.kept_in.is_none())
    }

    /// Where what was not taken over is kept: the fact, and what the user can do. Its settings are the command's, so that only a git in a
    /// cage may look at it.
    pub fn kept_lines(&self) -> Option<(String, String)> {
        let kept = self.kept_in.as_ref()?;
        let git = format!("{kept}/git");
        let fact = format!("what the command had in {} is kept for 30 days: {kept}", self.path);
        let look = format!("keyward run --read {} -- git --git-dir={} log --all", typed(kept), typed(&git));
        Some((fact, format!("to look at it: `{look}`")))
    }

    /// Whether something was not taken over because there was no room for it.
    pub fn needs_room(&self) -> bool {
        self.troubles.iter().any(|news| is_for_want_of_room(&news.why))
    }

    /// Each remote that the command added: the fact, and what the user can do.
    pub fn remote_lines(&self) -> impl Iterator<Item = (String, String)> {
        self.new_remotes.iter().map(|NewRemote { path, name, url }| {
            let (mark, name) = (format!("remote.{name}.keyward"), typed(name));
            let fact = format!("the command added a remote to {}/{path}: {name} ({url})", self.path);
            let keep = format!("git config --unset {}", typed(&mark));
            let remedy = format!("git uses it only where you name it; `{keep}` makes it yours, `git remote remove {name}` removes it");
            (fact, remedy)
        })
    }
}

/// A repository to which what a command did has still to come: its launcher was killed, and this run could not take it over either.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotYet {
    /// Its own folder.
    pub path: String,
    pub why: Obstacle,
}

/// What stands in the way of taking over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// A process of the killed run still works. It has this file open.
    Held { lock: String },
    /// There is no git on the host that only root can change.
    NoGit,
}

impl NotYet {
    /// The fact, and what the user can do.
    pub fn lines(&self) -> (String, String) {
        const LATER: &str = "takes over what the command did";
        let fact =
            format!("not taken over yet, after a run was killed: what its command had in {}", self.path);
        match &self.why {
            Obstacle::Held { lock } => (
                format!("{fact}: a process of that run still works"),
                format!(
                    "once it has ended, `keyward run -- true`, in any directory, {LATER}; `fuser -v {}` names it",
                    typed(lock)
                ),
            ),
            Obstacle::NoGit => (
                format!("{fact}: there is no git that only root can change"),
                format!("install git for the system; then `keyward run -- true`, in any directory, {LATER}"),
            ),
        }
    }
}

/// Whether a reason is that the disk is full. Git writes it in its own way.
pub fn is_for_want_of_room(why: &str) -> bool {
    let why = why.to_ascii_lowercase();
    ["no space left on device", "disk quota exceeded"].iter().any(|words| why.contains(words))
}

impl RepositoryNews {
    pub fn new(path: &Path, why: &str) -> Self {
        RepositoryNews { path: visible(path.as_os_str()), why: visible(why.as_ref()), kept: None }
    }
}

/// What became of a login file that the command had a copy of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LoginNews {
    pub path: String,
    pub what: LoginWhat,
    pub why: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoginWhat {
    /// The command has changed it, and so the real one has changed.
    WrittenThrough,
    /// Both sides have changed; the real one stays.
    Conflict,
    /// What the command has made of it is no login.
    NotTaken,
}

/// How it went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "outcome")]
pub enum Conclusion<'a> {
    Exited,
    Signalled {
        signal: i32,
    },
    /// The launcher ended it.
    Limit {
        limit: &'static str,
        #[serde(flatten)]
        trouble: Trouble,
    },
    Refused {
        rule: &'a str,
        #[serde(flatten)]
        trouble: Trouble,
        /// Whether the same call may go through later.
        retry: bool,
    },
    /// The gate said no, or no approver said yes.
    Denied {
        #[serde(flatten)]
        trouble: Trouble,
        #[serde(flatten)]
        gate: Gate,
        /// The approval that can be given outside for the next time.
        approval: Option<u64>,
        /// Whether the same call may go through once it is given.
        retry: bool,
    },
    Fault {
        #[serde(flatten)]
        trouble: Trouble,
        retry: bool,
    },
}

impl Conclusion<'_> {
    pub fn fault(trouble: Trouble) -> Self {
        let retry = trouble.retry();
        Conclusion::Fault { trouble, retry }
    }
}

impl<'a> Outcome<'a> {
    pub fn of_run(
        plan: &'a Plan,
        exit: i32,
        result: Conclusion<'a>,
        project: Option<&'a Aftermath>,
        repositories: &'a [Repository],
        logins: &'a [LoginNews],
    ) -> Self {
        let kept_back = kept_back(&plan.environment);
        Outcome {
            v: VERSION,
            exit,
            result,
            held: Promises::Of(&plan.promises),
            kept_back,
            project,
            repositories,
            logins,
            secrets: Vec::new(),
            wanted_hosts: &[],
            network: NetworkNews::QUIET,
            gone: &[],
            hint: None,
        }
    }

    pub fn of_refusal(refusal: &'a Refusal) -> Self {
        let trouble = Trouble::from(refusal);
        let exit = trouble.exit();
        Outcome::without_run(exit, Conclusion::Refused { rule: &refusal.rule, trouble, retry: false })
    }

    pub fn of_trouble(trouble: Trouble) -> Self {
        Outcome::without_run(trouble.exit(), Conclusion::fault(trouble))
    }

    pub fn without_run(exit: i32, result: Conclusion<'a>) -> Self {
        let (project, repositories, logins) = (None, [].as_slice(), [].as_slice());
        Outcome {
            v: VERSION,
            exit,
            result,
            held: Promises::Of(&[]),
            kept_back: Vec::new(),
            project,
            repositories,
            logins,
            secrets: Vec::new(),
            wanted_hosts: &[],
            network: NetworkNews::QUIET,
            gone: &[],
            hint: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_taken_over_yet_is_told_in_two_lines() {
        let told = |why| NotYet { path: "/p/.git".into(), why }.lines();
        let (fact, remedy) = told(Obstacle::Held { lock: "/s/1 2/lock".into() });
        assert_eq!(
            fact,
            "not taken over yet, after a run was killed: what its command had in /p/.git: a process of that run still works"
        );
        assert_eq!(
            remedy,
            "once it has ended, `keyward run -- true`, in any directory, takes over what the command did; \
             `fuser -v '/s/1 2/lock'` names it"
        );
        let (fact, remedy) = told(Obstacle::NoGit);
        assert!(fact.ends_with("there is no git that only root can change"), "{fact}");
        assert!(remedy.starts_with("install git for the system"), "{remedy}");
    }
}
