//! What is asked about: a command, a call of a function, a host, a login, a secret or a set of changes; and the question that follows.

use keyward_policy::event::arguments;
use keyward_policy::gate::{Judged, Question, Script, Text};
use keyward_policy::net::asking::NewLogin;
use keyward_policy::secret::Grant;
use keyward_policy::settings::Policy;
use keyward_policy::text::{typed_command, visible};
use keyward_policy::words::NetMode;
use std::ffi::OsString;
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Everything that a question is about.
pub struct Subject<'a> {
    pub what: What<'a>,
    pub policy: &'a Policy,
    pub project: &'a Path,
    /// The run, or the session and the job.
    pub run: &'a str,
    pub session: Option<&'a str>,
    pub from_inside: bool,
    pub judged: &'a Judged,
}

/// What an approval is for. Each kind has a digest of its own; secrets and changes are not asked about today.
#[derive(Clone, Copy, Debug)]
pub enum What<'a> {
    Command(Command<'a>),
    /// A call of a function outside, written as the words `call NAME INPUT`.
    Call(Command<'a>),
    Host(Host<'a>),
    /// A login that replaces the one in the user's file.
    Login(&'a NewLogin),
    /// A secret, and how it would be delivered.
    Secret(&'a Grant),
    /// Changes to the project, as a set.
    Changes(&'a [Change<'a>]),
}

/// A command with the scripts that it starts.
#[derive(Clone, Copy, Debug)]
pub struct Command<'a> {
    pub argv: &'a [OsString],
    pub cwd: &'a Path,
    pub scripts: &'a [Script],
}

/// A host that a cage would reach.
#[derive(Clone, Copy, Debug)]
pub struct Host<'a> {
    /// A name, or an address without brackets.
    pub name: &'a str,
    pub port: u16,
    /// The rule that a yes adds: it may cover another port, or any protocol.
    pub rule: &'a str,
}

/// What would become of one path of the project.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change<'a> {
    /// Below the project.
    pub path: &'a Path,
    pub to: Content<'a>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Content<'a> {
    File { sha256: [u8; 32], executable: bool },
    Link(&'a Path),
    Gone,
}

impl Host<'_> {
    /// One spelling for each host: names in lower case without the dot of the root, addresses as they are printed.
    pub(crate) fn canonical_name(&self) -> String {
        match self.name.parse::<IpAddr>() {
            Ok(address) => address.to_string(),
            Err(_) => self.name.strip_suffix('.').unwrap_or(self.name).to_ascii_lowercase(),
        }
    }

    fn shown(&self) -> String {
        let name = self.canonical_name();
        if name.contains(':') { format!("[{name}]:{}", self.port) } else { format!("{name}:{}", self.port) }
    }
}

impl Change<'_> {
    fn shown(&self) -> String {
        let path = visible(self.path.as_os_str());
        match self.to {
            Content::File { sha256, executable } => {
                let digest: String = sha256.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("{} {path} ({digest})", if executable { "program" } else { "file" })
            }
            Content::Link(target) => format!("link {path} to {}", visible(target.as_os_str())),
            Content::Gone => format!("gone {path}"),
        }
    }
}

impl What<'_> {
    /// The words that the record and lists show, without what looks like a credential.
    pub(crate) fn shown(&self) -> Vec<String> {
        let named = |kind: &str, rest: Vec<String>| std::iter::once(kind.to_owned()).chain(rest).collect();
        match self {
            What::Command(command) | What::Call(command) => arguments(command.argv),
            What::Host(host) => named("host", vec![host.shown()]),
            What::Login(new) => named("login", vec![new.file.clone(), new.account.to_string()]),
            What::Secret(grant) => named("secret", vec![grant.to_string()]),
            What::Changes(changes) => named("changes", changes.iter().map(Change::shown).collect()),
        }
    }

    /// The texts that an approver reads, and the part of the first one that matters.
    fn texts(&self, span: Option<(usize, usize)>) -> (Vec<Text>, Option<(usize, usize)>) {
        let one = |name: &str, text: String| (vec![Text { name: name.into(), text }], None);
        match self {
            What::Command(command) | What::Call(command) => command.texts(span),
            What::Host(host) => one("the host", host.shown()),
            What::Login(new) => one("the account", new.account.to_string()),
            What::Secret(grant) => one("the secret", grant.to_string()),
            What::Changes(changes) => {
                let lines: Vec<String> = changes.iter().map(Change::shown).collect();
                one("the changes", lines.join("\n"))
            }
        }
    }
}

impl Command<'_> {
    fn texts(&self, span: Option<(usize, usize)>) -> (Vec<Text>, Option<(usize, usize)>) {
        let words: Vec<&[u8]> = self.argv.iter().map(|word| word.as_bytes()).collect();
        let (text, span) = typed_command(&words, span);
        let mut texts = vec![Text { name: "the command".into(), text }];
        texts.extend(self.scripts.iter().map(|script| Text {
            name: visible(script.real.as_os_str()),
            text: String::from_utf8_lossy(&script.text).into_owned(),
        }));
        (texts, span)
    }
}

impl Subject<'_> {
    /// Of everything that would happen, and of what it would be given.
    pub fn digest(&self) -> String {
        self.what.digest(self.project, self.policy)
    }

    /// What an approver is asked.
    pub fn question(&self) -> Question {
        let Subject { what, policy, project, judged, .. } = *self;
        let (texts, span) = what.texts(judged.span);
        let cwd = match what {
            What::Command(command) | What::Call(command) => command.cwd,
            What::Host(_) | What::Login(_) | What::Secret(_) | What::Changes(_) => project,
        };
        Question {
            digest: self.digest(),
            run: self.run.to_owned(),
            session: self.session.map(str::to_owned),
            profile: policy.profile.clone(),
            scope: what.scope(project, policy),
            project: visible(project.as_os_str()),
            cwd: visible(cwd.as_os_str()),
            argv: what.shown(),
            rule: judged.rule.clone(),
            class: judged.class.clone(),
            reason: judged.reason.clone(),
            span,
            texts,
            from_inside: self.from_inside,
            given: given(policy),
        }
    }
}

/// Lists in words what the cage gets besides the project.
fn given(policy: &Policy) -> Vec<String> {
    let mut given = Vec::new();
    match policy.net.value {
        NetMode::Open => given.push("the network".into()),
        NetMode::Rules => {
            given.extend(policy.network.allow.iter().map(|allowed| format!("network {}", allowed.value)));
        }
        NetMode::None => {}
    }
    given.extend(policy.secrets.iter().map(|grant| format!("secret {}", grant.value)));
    given.extend(policy.inherit_credentials.iter().map(|name| format!("credential {}", name.value)));
    given.extend(policy.home.tools.iter().map(|tool| format!("login {}", tool.value.name)));
    given.extend(policy.files.write.iter().map(|path| format!("write {}", visible(path.value.as_os_str()))));
    given
}
