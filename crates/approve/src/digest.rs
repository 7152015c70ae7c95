//! The digest that an approval is for. Each kind of subject has a purpose of its own as the first field, so that the digest of one kind never
//! equals one of another. Stored grants hold these digests: a change of a layout needs a new purpose.

use crate::subject::{Change, Command, Content, Host, What};
use keyward_policy::gate::Script;
use keyward_policy::login::account::Account;
use keyward_policy::net::asking::NewLogin;
use keyward_policy::secret::Grant;
use keyward_policy::settings::Policy;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

impl What<'_> {
    /// The SHA-256, in hex, of what would happen and of what the cage would have.
    pub fn digest(&self, project: &Path, policy: &Policy) -> String {
        let within = Within { project, policy };
        match self {
            What::Command(command) => of_command(b"keyward approval 1", command, within),
            What::Call(call) => of_command(b"keyward approval of a call 1", call, within),
            What::Host(host) => of_host(host, within),
            What::Login(new) => of_login(new, within),
            What::Secret(grant) => of_secret(grant, within),
            What::Changes(changes) => of_changes(changes, within),
        }
    }

    /// What a grant for a class is bound to, as a digest: project, profile and trust class. A class of one kind is none of another, but
    /// calls are judged by the rules of commands, and share their classes.
    pub(crate) fn scope(&self, project: &Path, policy: &Policy) -> String {
        let mut digest = Fields::new(match self {
            What::Command(_) | What::Call(_) => b"keyward scope 1",
            What::Host(_) => b"keyward scope of hosts 1",
            What::Login(_) => b"keyward scope of logins 1",
            What::Secret(_) => b"keyward scope of secrets 1",
            What::Changes(_) => b"keyward scope of changes 1",
        });
        Within { project, policy }.add_scope(&mut digest);
        digest.hex()
    }
}

fn of_command(purpose: &[u8], command: &Command<'_>, within: Within<'_>) -> String {
    let mut digest = Fields::new(purpose);
    digest.list(command.argv.iter().map(|word| word.as_bytes()));
    digest.one(command.cwd.as_os_str().as_bytes());
    within.add_scope(&mut digest);
    within.add_cage(&mut digest);
    for Script { way, text, .. } in command.scripts {
        digest.one(way.as_os_str().as_bytes());
        digest.one(text);
    }
    digest.hex()
}

fn of_host(host: &Host<'_>, within: Within<'_>) -> String {
    let mut digest = Fields::new(b"keyward approval of a host 2");
    digest.one(host.canonical_name());
    digest.one(host.port.to_le_bytes());
    digest.one(host.rule);
    within.add_scope(&mut digest);
    within.add_cage(&mut digest);
    digest.hex()
}

fn of_login(new: &NewLogin, within: Within<'_>) -> String {
    let mut digest = Fields::new(b"keyward approval of a login 1");
    digest.one(&new.file);
    digest.one(new.host.to_string());
    let Account { email, id, organisation } = &new.account;
    digest.list([email, id, organisation].into_iter().map(|name| name.as_deref().unwrap_or_default()));
    digest.one(&new.mark);
    within.add_scope(&mut digest);
    within.add_cage(&mut digest);
    digest.hex()
}

fn of_secret(grant: &Grant, within: Within<'_>) -> String {
    let mut digest = Fields::new(b"keyward approval of a secret 1");
    digest.one(grant.name.as_str());
    digest.one(grant.delivery.as_str());
    within.add_scope(&mut digest);
    within.add_cage(&mut digest);
    digest.hex()
}

/// Of a set: the order in which changes were found says nothing. They happen outside, so that the cage does not matter.
fn of_changes(changes: &[Change<'_>], within: Within<'_>) -> String {
    let mut digest = Fields::new(b"keyward approval of changes 1");
    within.add_scope(&mut digest);
    for Change { path, to } in changes.iter().collect::<BTreeSet<_>>() {
        digest.one(path.as_os_str().as_bytes());
        match to {
            Content::File { sha256, executable } => {
                digest.one(if *executable { "program" } else { "file" });
                digest.one(sha256);
            }
            Content::Link(target) => {
                digest.one("link");
                digest.one(target.as_os_str().as_bytes());
            }
            Content::Gone => digest.one("gone"),
        }
    }
    digest.hex()
}

/// The project and the policy that an approval holds in.
#[derive(Clone, Copy)]
struct Within<'a> {
    project: &'a Path,
    policy: &'a Policy,
}

impl Within<'_> {
    fn add_scope(self, digest: &mut Fields) {
        digest.one(self.project.as_os_str().as_bytes());
        digest.one(self.policy.profile.as_deref().unwrap_or_default());
        digest.one(self.policy.trust.value.as_str());
    }

    /// What the cage has and shows of the machine: a yes is none for the same thing in a wider cage.
    fn add_cage(self, digest: &mut Fields) {
        let Policy { net, secrets, inherit_credentials, files, home, env, .. } = self.policy;
        digest.one(net.value.as_str());
        digest.list(secrets.iter().map(|grant| grant.value.to_string()));
        digest.list(inherit_credentials.iter().map(|name| &name.value));
        for paths in [&files.read, &files.write, &files.hide, &files.show] {
            digest.list(paths.iter().map(|path| path.value.as_os_str().as_bytes()));
        }
        digest.one(home.mode.value.as_str());
        for tools in [&home.tools, &home.share] {
            digest.list(tools.iter().map(|tool| &tool.value.name));
        }
        digest.list(env.pass.iter().map(|name| &name.value));
        digest.list(env.dangerous_loader_env.iter().map(|name| &name.value));
    }
}

/// A digest of fields, each with its length, so that none can reach into the next.
struct Fields(Sha256);

impl Fields {
    fn new(purpose: &[u8]) -> Self {
        let mut fields = Fields(Sha256::new());
        fields.one(purpose);
        fields
    }

    fn one(&mut self, field: impl AsRef<[u8]>) {
        self.0.update((field.as_ref().len() as u64).to_le_bytes());
        self.0.update(field);
    }

    fn list(&mut self, fields: impl ExactSizeIterator<Item = impl AsRef<[u8]>>) {
        self.0.update((fields.len() as u64).to_le_bytes());
        fields.for_each(|field| self.one(field));
    }

    fn hex(self) -> String {
        self.0.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}
