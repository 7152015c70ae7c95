//! The one table of keys: what may stand in a policy file, of which type, and in which direction layers move it.
//!
//! Reading, merging, the ceiling, the project's narrowing and the schema all walk this table. A key that is not here does not
//! exist; a key that is added here is merged by its direction without further code.

use crate::words::{
    Allowance, Attended, Floor, GateMode, HomeMode, KeyringUse, NetAsk, NetMode, ProjectGuard, Protect,
    Redact, SearchExtent, ToolCage, ToolNet, TrustClass,
};

/// A key's name inside the program. The order is the order of [`KEYS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Id {
    Version,
    Trust,
    Floor,
    Project,
    Allow,
    InheritCredentials,
    Secrets,
    Redact,
    EnvPass,
    EnvSet,
    EnvNotSecret,
    EnvDangerousLoaderEnv,
    FilesRead,
    FilesWrite,
    FilesHide,
    FilesShow,
    FilesProtect,
    FilesSearch,
    HomeMode,
    HomePath,
    HomeTools,
    HomeShare,
    HomeKeyring,
    ToolsCage,
    ToolsNet,
    ToolsRead,
    ToolsShare,
    NetMode,
    NetAllow,
    NetAsk,
    NetReach,
    NetPublish,
    NetUpstream,
    NetCa,
    GateMode,
    GateAttended,
    GateWait,
    GateRules,
    GateJudge,
    GateJudgeWait,
    GateWebhook,
    GateWebhookKey,
    GateWebhookListen,
    GateWebhookCa,
    LimitsWall,
    LimitsCpu,
    LimitsMemory,
    LimitsPids,
    LimitsOpenFiles,
    LimitsOutput,
    LedgerWitness,
    Profiles,
}

/// What a path is named for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathUse {
    Read,
    Write,
    Hide,
    /// Not hidden after all.
    Show,
}

/// What a text is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextUse {
    /// An address of the web.
    Url,
    /// The name of a secret of the vault.
    Secret,
    /// An address of this host and a port.
    Listen,
}

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The number 1.
    Version,
    /// One of these words, weakest first.
    Choice(&'static [&'static str]),
    /// Yes or no, the weaker one first.
    Switch(&'static [&'static str]),
    /// A list of rules of the network, or of presets.
    Rules,
    /// A list of ports.
    Ports,
    /// A table from hosts to where they are.
    Upstreams,
    /// A list of these words.
    Words(&'static [&'static str]),
    /// A list of names of environment variables.
    Names,
    /// A list of names of tools whose logins are known.
    Tools,
    /// A list of secrets and how each is given.
    Secrets,
    /// A list of those who are told the head of the ledger.
    Witnesses,
    /// A list of paths.
    Paths(PathUse),
    /// One path.
    Folder,
    /// One text.
    Text(TextUse),
    /// A program by its path, and its arguments.
    Command,
    /// A table from names of environment variables to their values.
    Map,
    /// A text such as `10m`.
    Duration,
    /// A text such as `4G`, or a number of bytes.
    Size { least: u64 },
    /// A number from 1.
    Count,
    /// A table of named policies.
    Profiles,
}

/// How a value moves through the layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Says something about the file itself and is not merged.
    Header,
    /// The later layer decides; never weaker than the ceiling; the project may choose the stricter.
    Choice,
    /// The union of what was granted, all of it within the ceiling; nothing for the project.
    Grant,
    /// As a grant; the list of a project file grants nothing, and leaves only what it names.
    GrantNarrowed,
    /// As a grant, and only the user's own file may say it.
    OwnGrant,
    /// The later layer decides; only the user's own file may say it.
    OwnSetting,
    /// The later layer decides for each name, the ceiling over all; nothing for the project.
    Set,
    /// The union of all layers: more of it is stricter.
    Hide,
    /// The later layer decides; never above the ceiling; the project may lower it.
    Limit,
}

/// One line of the table.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    pub id: Id,
    /// As written in the file, with dots.
    pub path: &'static str,
    pub kind: Kind,
    pub direction: Direction,
    /// The flag of the command line that says the same.
    pub flag: Option<&'static str>,
    /// One sentence for the reader of the schema.
    pub doc: &'static str,
}

/// The spellings of a choice, weakest first.
macro_rules! spellings {
    ($choice:ty) => {{
        const COUNT: usize = <$choice>::ALL.len();
        const SPELLINGS: [&str; COUNT] = {
            let mut out = [""; COUNT];
            let mut at = 0;
            while at < COUNT {
                out[at] = <$choice>::ALL[at].as_str();
                at += 1;
            }
            out
        };
        &SPELLINGS
    }};
}

/// Less than this and hardly any program starts; a missing unit (`512` for `512M`) is the usual reason.
pub const LEAST_MEMORY: u64 = 16 << 20;

/// Every key there is.
#[rustfmt::skip]
pub const KEYS: &[Key] = {
    use Direction::{Choice, Grant, GrantNarrowed, Header, Hide, Limit, OwnGrant, OwnSetting, Set};
    &[
    Key { id: Id::Version, path: "version", kind: Kind::Version, direction: Header, flag: None,
        doc: "The version of this file's language, always 1." },
    Key { id: Id::Trust, path: "trust", kind: Kind::Choice(spellings!(TrustClass)), direction: Choice, flag: Some("--trust"),
        doc: "How far you trust the child; `unknown` and `tool` never receive a credential." },
    Key { id: Id::Floor, path: "floor", kind: Kind::Choice(spellings!(Floor)), direction: Choice, flag: Some("--floor"),
        doc: "The promises without which nothing runs." },
    Key { id: Id::Project, path: "project", kind: Kind::Choice(spellings!(ProjectGuard)), direction: Choice, flag: None,
        doc: "Whether the project may be writable where mounts cannot protect what is inside." },
    Key { id: Id::Allow, path: "allow", kind: Kind::Words(spellings!(Allowance)), direction: Grant, flag: Some("--allow"),
        doc: "Parts of the kernel surface that are opened again." },
    Key { id: Id::InheritCredentials, path: "inherit_credentials", kind: Kind::Names, direction: Grant,
        flag: Some("--inherit-credentials"),
        doc: "Names of credentials that the child receives from the caller's environment." },
    Key { id: Id::Secrets, path: "secrets", kind: Kind::Secrets, direction: Grant, flag: Some("--secret"),
        doc: "Secrets of the vault: `NAME` for a phantom that the proxy replaces, `NAME=HOW` for the value itself." },
    Key { id: Id::Redact, path: "redact", kind: Kind::Choice(spellings!(Redact)), direction: Choice, flag: Some("--redact"),
        doc: "Whether secrets that the child receives are taken out of what it prints." },
    Key { id: Id::EnvPass, path: "env.pass", kind: Kind::Names, direction: Grant, flag: Some("--pass"),
        doc: "Further variables that pass, as long as neither name nor value looks like a credential." },
    Key { id: Id::EnvSet, path: "env.set", kind: Kind::Map, direction: Set, flag: Some("--env"),
        doc: "Variables that are set for the child, never credentials." },
    Key { id: Id::EnvNotSecret, path: "env.not_secret", kind: Kind::Names, direction: OwnGrant, flag: None,
        doc: "Names that look like a credential and are none." },
    Key { id: Id::EnvDangerousLoaderEnv, path: "env.dangerous_loader_env", kind: Kind::Names, direction: Grant, flag: None,
        doc: "Loader and interpreter variables that pass anyway." },
    Key { id: Id::FilesRead, path: "files.read", kind: Kind::Paths(PathUse::Read), direction: Grant, flag: Some("--read"),
        doc: "Paths the child may read." },
    Key { id: Id::FilesWrite, path: "files.write", kind: Kind::Paths(PathUse::Write), direction: Grant, flag: Some("--write"),
        doc: "Paths the child may read and change." },
    Key { id: Id::FilesHide, path: "files.hide", kind: Kind::Paths(PathUse::Hide), direction: Hide, flag: Some("--hide"),
        doc: "Paths that the child cannot read, also relative to the project, and patterns of names in the project such as `*.key`." },
    Key { id: Id::FilesShow, path: "files.show", kind: Kind::Paths(PathUse::Show), direction: Grant, flag: Some("--show"),
        doc: "Files and directories of the project that look secret and are not, such as test keys; relative to the project or absolute." },
    Key { id: Id::FilesProtect, path: "files.protect", kind: Kind::Choice(spellings!(Protect)), direction: Choice, flag: Some("--protect"),
        doc: "Whether new footholds in the project, such as `.envrc`, are taken away when noticed or cannot be made at all." },
    Key { id: Id::FilesSearch, path: "files.search", kind: Kind::Choice(spellings!(SearchExtent)), direction: Choice, flag: None,
        doc: "How much is searched for secret files, footholds and repositories: everything, or (open to the child and told at every run) not the trees that tools fill." },
    Key { id: Id::HomeMode, path: "home.mode", kind: Kind::Choice(spellings!(HomeMode)), direction: Choice, flag: Some("--home"),
        doc: "Which HOME the child has: yours, the one of its profile, or an empty one." },
    Key { id: Id::HomePath, path: "home.path", kind: Kind::Folder, direction: OwnSetting, flag: None,
        doc: "A directory that is the HOME of the profile, also one that another program has made; without it Keyward keeps one." },
    Key { id: Id::HomeTools, path: "home.tools", kind: Kind::Tools, direction: Grant, flag: Some("--tool"),
        doc: "Tools whose logins the child finds in its HOME, such as `gh`." },
    Key { id: Id::HomeShare, path: "home.share", kind: Kind::Tools, direction: Grant, flag: None,
        doc: "Tools that are shared as a whole: the login, and sessions, settings and the like." },
    Key { id: Id::HomeKeyring, path: "home.keyring", kind: Kind::Choice(spellings!(KeyringUse)), direction: Choice, flag: None,
        doc: "Which classes reach the keyring of the desktop when a tool of theirs keeps its login there." },
    Key { id: Id::ToolsCage, path: "tools.cage", kind: Kind::Choice(spellings!(ToolCage)), direction: Choice, flag: Some("--shims"),
        doc: "Where the shells and interpreters run that an agent starts: in its own cage, or through shims in a narrower one of the same session." },
    Key { id: Id::ToolsNet, path: "tools.net", kind: Kind::Choice(spellings!(ToolNet)), direction: Choice, flag: None,
        doc: "What that narrower cage may reach: what the agent reaches, or nothing but what flags of the command line allow." },
    Key { id: Id::ToolsRead, path: "tools.read", kind: Kind::Paths(PathUse::Read), direction: Grant, flag: None,
        doc: "Paths of the agent's that the narrower cage may read as well, such as scripts that the agent is told to run." },
    Key { id: Id::ToolsShare, path: "tools.share", kind: Kind::Paths(PathUse::Write), direction: Grant, flag: None,
        doc: "Paths of the agent's that the narrower cage may read and change as well." },
    Key { id: Id::NetMode, path: "net.mode", kind: Kind::Choice(spellings!(NetMode)), direction: Choice, flag: Some("--net"),
        doc: "What the child may reach: nothing, what net.allow names, or everything that the host reaches." },
    Key { id: Id::NetAllow, path: "net.allow", kind: Kind::Rules, direction: GrantNarrowed, flag: Some("--allow-net"),
        doc: "Hosts that the child may reach, such as `api.github.com`, `*.example.com`, `GET host/path/*`, `tcp://db.example:5432` or a preset such as `npm`; in a project file, what is left of them." },
    Key { id: Id::NetAsk, path: "net.ask", kind: Kind::Switch(spellings!(NetAsk)), direction: Choice, flag: None,
        doc: "Whether an approver is asked about hosts that no rule allows, while the program waits." },
    Key { id: Id::NetReach, path: "net.reach", kind: Kind::Ports, direction: Grant, flag: Some("--reach"),
        doc: "Ports of this machine's loopback that the child reaches, at the same port of its own loopback." },
    Key { id: Id::NetPublish, path: "net.publish", kind: Kind::Ports, direction: Grant, flag: Some("--publish"),
        doc: "Ports of the cage's loopback that programs outside reach, at the same port of this machine's loopback." },
    Key { id: Id::NetUpstream, path: "net.upstream", kind: Kind::Upstreams, direction: OwnSetting, flag: None,
        doc: "Hosts that are reached at another address, each with its `address` and, if it has a certificate of your own, `ca`." },
    Key { id: Id::NetCa, path: "net.ca", kind: Kind::Paths(PathUse::Read), direction: OwnSetting, flag: None,
        doc: "Files with certificates of authorities that are trusted beside the system's, such as a company's." },
    Key { id: Id::GateMode, path: "gate.mode", kind: Kind::Choice(spellings!(GateMode)), direction: Choice, flag: Some("--gate"),
        doc: "What happens to commands that the gate would ask about." },
    Key { id: Id::GateAttended, path: "gate.attended", kind: Kind::Choice(spellings!(Attended)), direction: Choice, flag: None,
        doc: "Whether an approver is available for questions of the gate." },
    Key { id: Id::GateWait, path: "gate.wait", kind: Kind::Duration, direction: Limit, flag: None,
        doc: "How long a question waits for its answer; no answer is a no." },
    Key { id: Id::GateRules, path: "gate.rules", kind: Kind::Folder, direction: OwnSetting, flag: None,
        doc: "A file with rules of your own for the gate, which can only make it stricter." },
    Key { id: Id::GateJudge, path: "gate.judge", kind: Kind::Command, direction: OwnSetting, flag: None,
        doc: "A program of your own that may answer questions of the gate in the mode `judge`." },
    Key { id: Id::GateJudgeWait, path: "gate.judge_wait", kind: Kind::Duration, direction: Limit, flag: None,
        doc: "How long that program may take; afterwards another approver is asked." },
    Key { id: Id::GateWebhook, path: "gate.webhook", kind: Kind::Text(TextUse::Url), direction: OwnSetting, flag: None,
        doc: "An address that questions of the gate are sent to." },
    Key { id: Id::GateWebhookKey, path: "gate.webhook_key", kind: Kind::Text(TextUse::Secret), direction: OwnSetting, flag: None,
        doc: "The secret of the vault that these messages are signed with." },
    Key { id: Id::GateWebhookListen, path: "gate.webhook_listen", kind: Kind::Text(TextUse::Listen), direction: OwnSetting, flag: None,
        doc: "Where answers to these messages may come in later, as `127.0.0.1:8765`." },
    Key { id: Id::GateWebhookCa, path: "gate.webhook_ca", kind: Kind::Folder, direction: OwnSetting, flag: None,
        doc: "The certificate of the authority that vouches for the webhook, where the system does not know it." },
    Key { id: Id::LimitsWall, path: "limits.wall", kind: Kind::Duration, direction: Limit, flag: Some("--timeout"),
        doc: "How long the command may take." },
    Key { id: Id::LimitsCpu, path: "limits.cpu", kind: Kind::Duration, direction: Limit, flag: None,
        doc: "How much processor time each process may use." },
    Key { id: Id::LimitsMemory, path: "limits.memory", kind: Kind::Size { least: LEAST_MEMORY }, direction: Limit,
        flag: Some("--memory"),
        doc: "How much memory the child may use." },
    Key { id: Id::LimitsPids, path: "limits.pids", kind: Kind::Count, direction: Limit, flag: Some("--pids"),
        doc: "How many processes and threads may exist at a time." },
    Key { id: Id::LimitsOpenFiles, path: "limits.open_files", kind: Kind::Count, direction: Limit, flag: None,
        doc: "How many descriptors each process may hold open." },
    Key { id: Id::LimitsOutput, path: "limits.output", kind: Kind::Size { least: 1 }, direction: Limit, flag: None,
        doc: "How much the command may print." },
    Key { id: Id::LedgerWitness, path: "ledger.witness", kind: Kind::Witnesses, direction: OwnSetting, flag: None,
        doc: "Witnesses that are sent the head of the record: `journald`, a file, or a program as `!program argument`." },
    Key { id: Id::Profiles, path: "profiles", kind: Kind::Profiles, direction: Header, flag: None,
        doc: "Named policies that are laid over this one when they are chosen." },
    ]
};

impl Key {
    /// Whether the key belongs to the file and not to the policy in it.
    pub const fn is_header(&self) -> bool {
        matches!(self.direction, Direction::Header)
    }

    /// The part after the last dot.
    pub fn leaf(&self) -> &'static str {
        self.path.rsplit('.').next().unwrap_or(self.path)
    }

    /// The part before the dot, if there is one.
    pub fn group(&self) -> Option<&'static str> {
        self.path.split_once('.').map(|(group, _)| group)
    }
}

impl Id {
    /// The line of the table.
    pub fn key(self) -> &'static Key {
        &KEYS[self as usize]
    }
}

/// What stands at a path.
pub enum Found {
    Key(&'static Key),
    /// A table that holds keys, such as `env`.
    Group,
    Nothing,
}

/// Looks a path up.
pub fn find(path: &str) -> Found {
    if let Some(key) = KEYS.iter().find(|key| key.path == path) {
        return Found::Key(key);
    }
    if KEYS.iter().any(|key| key.group() == Some(path)) { Found::Group } else { Found::Nothing }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_stands_in_the_order_of_its_ids() {
        for (at, key) in KEYS.iter().enumerate() {
            assert_eq!(key.id as usize, at, "{}", key.path);
        }
        assert_eq!(Id::Profiles as usize + 1, KEYS.len());
    }

    #[test]
    fn every_key_is_documented_in_one_sentence() {
        for key in KEYS {
            assert!(key.doc.ends_with('.') && !key.doc.trim_end_matches('.').contains(". "), "{}", key.path);
        }
    }
}
