//! Reads the policy files and resolves them with the flags.

use crate::args::PolicyFlags;
use crate::here::Here;
use crate::say;
use keyward_policy::agent::{self, Agent, own};
use keyward_policy::config::{self, Ancestor, Document, Layers, PolicyError};
use keyward_policy::secret::{self, Entry};
use keyward_policy::settings::{FileRole, IgnoredFile, NetPolicy, Policy, PolicyFile, Sources};
use keyward_policy::text::{typed, visible};
use keyward_policy::trouble::{Code, Trouble};
use keyward_policy::view::PROJECT_FILE;
pub use keyward_sys::file::Links;
use keyward_sys::file::read_small;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The administrator's ceiling.
pub const CEILING: &str = "/etc/keyward/policy.toml";

/// The user's own profiles of agents, below the directory of the policy file.
const AGENTS: &str = "profiles";

/// A policy file that could not be read.
pub struct Unreadable {
    pub path: PathBuf,
    pub cause: io::Error,
}

/// The text of a file; `None` when there is none.
pub fn read(path: &Path, links: Links) -> Result<Option<Vec<u8>>, Unreadable> {
    open(path, links).map(|opened| opened.map(|(_, text)| text))
}

/// A file and its text; `None` when there is none.
fn open(path: &Path, links: Links) -> Result<Option<(File, Vec<u8>)>, Unreadable> {
    read_small(path, links).map_err(|cause| Unreadable { path: path.into(), cause })
}

impl From<Unreadable> for Trouble {
    fn from(unreadable: Unreadable) -> Self {
        let path = visible(unreadable.path.as_os_str());
        Trouble::new(
            Code::PolicyUnreadable,
            format!("cannot read {path}: {}", say::cause(&unreadable.cause)),
            "fix the file or its permissions, or move it away; without it the built-in policy applies",
        )
    }
}

/// The text of a file that Keyward obeys; `None` when there is none. A file that others can change is refused: they would decide what a
/// command gets.
fn obeyed(path: &Path, uid: u32) -> Result<Option<Vec<u8>>, Trouble> {
    let Some((file, text)) = open(path, Links::Followed)? else { return Ok(None) };
    let stat =
        rustix::fs::fstat(&file).map_err(|errno| Unreadable { path: path.into(), cause: errno.into() })?;
    match others_who_write(stat.st_mode, (stat.st_uid, stat.st_gid), uid) {
        None => Ok(Some(text)),
        Some(others) => Err(written_by_others(path, others)),
    }
}

/// Who else can change a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    Owner(u32),
    ByMode,
}

/// Who can change a file with this mode, owner and group beside the caller and root. A group with the number of its user is that user's own.
fn others_who_write(mode: u32, (owner, group): (u32, u32), uid: u32) -> Option<Others> {
    const GROUP: u32 = 0o020;
    const ALL: u32 = 0o002;
    let group_is_private = group == 0 || group == owner;
    match () {
        () if owner != uid && owner != 0 => Some(Others::Owner(owner)),
        () if mode & ALL != 0 || mode & GROUP != 0 && !group_is_private => Some(Others::ByMode),
        () => None,
    }
}

fn written_by_others(path: &Path, others: Others) -> Trouble {
    let path = visible(path.as_os_str());
    let word = typed(&path);
    let (fact, remedy) = match others {
        Others::ByMode => (
            format!("{path} can be changed by other users"),
            format!("look at it, then: `chmod go-w {word}`"),
        ),
        Others::Owner(owner) => (
            format!("{path} belongs to another user ({owner}), who can change it"),
            format!("look at it, then make it yours, or move it away: `sudo chown \"$(id -u)\" {word}`"),
        ),
    };
    Trouble::new(Code::PolicyUnreadable, fact, remedy)
}

/// A project file above the project, as it was found.
enum Above {
    Obeyed(Vec<u8>),
    Ignored(IgnoredFile),
}

/// Reads the project file of a directory above the project. Only the caller's and root's count: another user must not be able to keep
/// the caller from working, nor have the caller read what a link leads to.
fn read_above(path: &Path, uid: u32) -> Result<Option<Above>, Unreadable> {
    let ignored = |owner| Ok(Some(Above::Ignored(IgnoredFile { path: path.into(), owner })));
    let owner = match rustix::fs::lstat(path) {
        Ok(stat) => stat.st_uid,
        Err(rustix::io::Errno::ACCESS) => return ignored(None),
        Err(_) => return Ok(None),
    };
    if owner != uid && owner != 0 {
        return ignored(Some(owner));
    }
    let Some((file, text)) = open(path, Links::Refused)? else { return Ok(None) };
    // It may have been replaced since.
    let owner = rustix::fs::fstat(&file).map_or(owner, |stat| stat.st_uid);
    if owner != uid && owner != 0 {
        return ignored(Some(owner));
    }
    Ok(Some(Above::Obeyed(text)))
}

/// Adopts what the user's own profiles say about their agents' files and keys: once in each process, before anything is decided. A profile
/// with a mistake there refuses every run, because what it calls secret would not be known.
pub fn adopt(here: &Here) -> Result<(), Trouble> {
    if own::are_adopted() {
        return Ok(());
    }
    let mut all = own::Own::default();
    for name in own_agents(here) {
        let path = agent_file(&name, here);
        let Some(text) = obeyed(&path, here.caller.uid)? else { continue };
        let document = Document { name: &path.to_string_lossy(), text: &text };
        all.add(&name, &document).map_err(PolicyError::Mistakes)?;
    }
    own::adopt(all);
    Ok(())
}

/// The agent of a profile: from the user's own file of that name, or built in. Profiles of the policy file alone have none.
pub fn agent(profile: &str, here: &Here) -> Result<Option<Agent>, Trouble> {
    if !config::is_profile_name(profile) {
        return Ok(None);
    }
    adopt(here)?;
    let path = agent_file(profile, here);
    let read = match obeyed(&path, here.caller.uid)? {
        Some(text) => Some(agent::read(profile, &Document { name: &path.to_string_lossy(), text: &text })),
        None => agent::builtin_named(profile),
    };
    read.transpose().map_err(|mistakes| PolicyError::Mistakes(mistakes).into())
}

fn agent_file(profile: &str, here: &Here) -> PathBuf {
    here.config.join(AGENTS).join(format!("{profile}.toml"))
}

/// The names of the agents that have a file of the user's.
fn own_agents(here: &Here) -> Vec<String> {
    let files = std::fs::read_dir(here.config.join(AGENTS)).into_iter().flatten().flatten();
    let name = |entry: std::fs::DirEntry| {
        entry.file_name().to_str().and_then(|name| name.strip_suffix(".toml")).map(str::to_owned)
    };
    let mut own: Vec<String> = files.filter_map(name).filter(|name| config::is_profile_name(name)).collect();
    own.sort();
    own
}

/// The names of all agents: those with a file of the user's, then the built-in ones.
pub fn agents(here: &Here) -> Vec<String> {
    let own = own_agents(here);
    let others: Vec<String> =
        agent::builtin().filter(|name| !own.iter().any(|own| own == name)).map(str::to_owned).collect();
    own.into_iter().chain(others).collect()
}

/// The effective policy for these flags here. `environment` is the caller's: the keys of an agent are looked for in it by their names.
pub fn policy(flags: &PolicyFlags, here: &Here, environment: &[&[u8]]) -> Result<Policy, Trouble> {
    adopt(here)?;
    let agent = flags.profile.as_deref().map(|name| agent(name, here)).transpose()?.flatten();
    let known = if agent.is_some() { secrets(here)? } else { Vec::new() };
    let user_file = here.config.join("policy.toml");
    let project_file = here.project.join(PROJECT_FILE);
    let ceiling = obeyed(Path::new(CEILING), here.caller.uid)?;
    let user = obeyed(&user_file, here.caller.uid)?;
    let mut ignored = Vec::new();
    let mut ancestors = Vec::new();
    for directory in &here.above {
        let path = directory.join(PROJECT_FILE);
        match read_above(&path, here.caller.uid)? {
            Some(Above::Obeyed(text)) => ancestors.push((directory, path, Some(text))),
            Some(Above::Ignored(file)) => ignored.push(file),
            None => {}
        }
    }
    let project = read(&project_file, Links::Refused)?;
    let (user_name, project_name) = (user_file.to_string_lossy(), project_file.to_string_lossy());
    let ancestor_names: Vec<_> = ancestors.iter().map(|(_, path, _)| path.to_string_lossy()).collect();
    fn document<'a>(name: &'a str, text: &'a Option<Vec<u8>>) -> Option<Document<'a>> {
        text.as_deref().map(|text| Document { name, text })
    }
    let layers = Layers {
        ceiling: document(CEILING, &ceiling),
        user: document(&user_name, &user),
        project: document(&project_name, &project),
        ancestors: ancestors
            .iter()
            .zip(&ancestor_names)
            .filter_map(|((directory, _, text), name)| {
                document(name, text).map(|document| Ancestor { document, directory })
            })
            .collect(),
        profile: flags.profile.as_deref(),
        agent: agent.as_ref(),
        caller: agent::Caller { environment, secrets: &known },
        flags: flags.layer(&std::env::current_dir().unwrap_or_else(|_| here.cwd.clone())),
    };
    let policy = config::resolve(&layers)?;
    let mut found =
        vec![(FileRole::Ceiling, Path::new(CEILING), &ceiling), (FileRole::User, &user_file, &user)];
    let agent_file =
        agent.iter().filter(|agent| !agent.is_builtin).map(|agent| agent_file(&agent.name, here)).next();
    let agent_text = match &agent_file {
        Some(path) => obeyed(path, here.caller.uid)?,
        None => None,
    };
    found.extend(agent_file.iter().map(|path| (FileRole::Profile, path.as_path(), &agent_text)));
    found.extend(ancestors.iter().map(|(_, path, text)| (FileRole::Ancestor, path.as_path(), text)));
    found.push((FileRole::Project, &project_file, &project));
    let there = found.into_iter().filter(|(.., text)| text.is_some());
    let file = |(role, path, text): (FileRole, &Path, &Option<Vec<u8>>)| PolicyFile {
        role,
        path: path.into(),
        digest: sha256(text.as_deref().unwrap_or_default()),
    };
    let files = there.map(file).collect();
    let mut policy = Policy {
        network: NetPolicy {
            registries: crate::network::followed(&policy, &here.caller.home),
            ..policy.network.clone()
        },
        sources: Sources { files, ignored, flags: layers.flags.keys(), ..Sources::default() },
        ..policy
    };
    policy.sources.digest = digest(&policy);
    if !policy.secrets.is_empty() || policy.gate.webhook_key.is_some() {
        policy.known_secrets.extend(secrets(here)?);
        let more = secret::of_environment(&policy.secrets, &policy.known_secrets, environment);
        policy.known_secrets.extend(more);
        // What a secret is bound to is allowed by giving the secret.
        keyward_policy::secret::reach(&mut policy);
    }
    crate::phantom_logins::look(&mut policy, here, environment)?;
    Ok(policy)
}

/// The digest of an effective policy.
pub fn digest(policy: &Policy) -> String {
    sha256(config::show(policy).as_bytes())
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The file that lists the user's secrets.
pub fn secrets_file(here: &Here) -> PathBuf {
    here.config.join("secrets.toml")
}

/// Which secrets there are.
pub fn secrets(here: &Here) -> Result<Vec<Entry>, Trouble> {
    let path = secrets_file(here);
    let text = obeyed(&path, here.caller.uid)?.unwrap_or_default();
    let name = path.to_string_lossy();
    secret::read(&Document { name: &name, text: &text })
        .map_err(|mistakes| PolicyError::Mistakes(mistakes).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_obeyed_if_only_the_caller_and_root_can_change_it() {
        let mine = (1000, 1000);
        for mode in [0o600, 0o644, 0o664] {
            assert_eq!(others_who_write(mode, mine, 1000), None, "{mode:o}");
        }
        assert_eq!(others_who_write(0o100_644, (0, 0), 1000), None);
        assert_eq!(others_who_write(0o666, mine, 1000), Some(Others::ByMode));
        assert_eq!(others_who_write(0o602, (0, 0), 1000), Some(Others::ByMode));
        // A group of several users.
        assert_eq!(others_who_write(0o664, (1000, 100), 1000), Some(Others::ByMode));
        assert_eq!(others_who_write(0o600, (1001, 1001), 1000), Some(Others::Owner(1001)));
        assert_eq!(others_who_write(0o600, (1001, 1001), 0), Some(Others::Owner(1001)));
    }
}
