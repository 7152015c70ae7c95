//! The HOME of the cage: which folder it is, what of the real one stands in it, and what has to be mended in it before a run.

use super::{
    Builder, Entry, Shown, Source, at_or_below, expand, is_shared_place, is_store, own_places_stay_closed,
};
use crate::facts::{HostFacts, Kind, PathFact, Project};
use crate::linux::cage::Cage;
use crate::login;
use crate::plan::Refusal;
use crate::request::{Purpose, Request};
use crate::secret;
use crate::settings::Policy;
use crate::tools::{self, Exposure, Platform, Service, Tool, Writes};
use crate::untrusted::git::config::Config;
use crate::words::{HomeMode, KeyringUse, Origin, Ruled, TrustClass};
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The rule by which something of the real HOME is shown because a tool's login needs it.
pub const LOGIN: &str = "login";

/// The rule by which something of the real HOME is hidden because its tool is not shown.
pub const OTHER_LOGIN: &str = "login of a tool that is not shown";

/// The rule by which git knows who commits.
const GIT_SETTINGS_RULE: &str = "git settings";

/// The HOME of a run, as decided.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Home {
    /// Where it stands in the cage.
    #[serde(serialize_with = "crate::text::path")]
    pub at: PathBuf,
    /// The folder of the host that it is, where it is kept from run to run.
    #[serde(serialize_with = "crate::text::optional_path")]
    pub kept: Option<PathBuf>,
    /// What is mended in that folder before the run.
    pub mends: Vec<Mend>,
    pub logins: Vec<Login>,
    /// Logins that were asked for and are not shown.
    pub withheld: Vec<Withheld>,
    pub keyring: Option<Keyring>,
}

/// A tool whose login is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Login {
    pub tool: &'static str,
    /// Whether its sessions, settings and the like are shown besides.
    pub shared: bool,
    /// Whether anything of it was found.
    pub found: bool,
    pub origin: Origin,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Withheld {
    pub tool: &'static str,
    pub why: String,
    pub origin: Origin,
}

/// The keyring of the desktop, of which a cage sees the items of its tools.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Keyring {
    /// Names of items, with at most one `*`.
    pub items: Vec<&'static str>,
    /// Where the session bus is.
    #[serde(serialize_with = "crate::text::string")]
    pub bus: OsString,
}

/// Something that is done to a HOME that is kept, before a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "do")]
pub enum Mend {
    /// A link that leads nowhere is taken away, so that something can stand in its place.
    DropLink {
        #[serde(serialize_with = "crate::text::path")]
        at: PathBuf,
    },
    /// A link to the real one is put where nothing stands, or one that leads nowhere.
    Link {
        #[serde(serialize_with = "crate::text::path")]
        at: PathBuf,
        #[serde(serialize_with = "crate::text::path")]
        to: PathBuf,
    },
}

/// Where the socket of the keyring stands in the cage.
pub const KEYRING_SOCKET: &str = "/run/keyring";

/// Where the HOME of a profile is kept.
pub fn profile_home(homes: &Path, profile: &str, class: TrustClass) -> PathBuf {
    homes.join(profile).join(class.as_str())
}

/// The folder of the host that is the HOME of this run and is kept, and whether another program's was adopted.
fn kept(policy: &Policy, request: &Request<'_>) -> Option<(PathBuf, bool)> {
    let profile = policy.profile.as_ref().filter(|_| policy.home.mode.value == HomeMode::Profile)?;
    Some(match &policy.home.path {
        Some(path) => (expand(&path.value, &request.caller.home), true),
        // Of each class its own: what a stranger leaves in a HOME must not be run by a program that holds a credential.
        None => (profile_home(&request.caller.homes, profile, policy.trust.value), false),
    })
}

/// The folder of the host that is the HOME of this run, where it is one that is kept.
pub fn kept_home(policy: &Policy, request: &Request<'_>) -> Option<PathBuf> {
    kept(policy, request).map(|(path, _)| path)
}

/// Where HOME stands in the cage. Paths mean the same inside and outside: a HOME of ours stands where the real one does, that of
/// another program where it is.
pub(super) fn place(policy: &Policy, request: &Request<'_>) -> PathBuf {
    match kept(policy, request) {
        Some((path, true)) => path,
        _ => request.caller.home.clone(),
    }
}

/// The tools that are asked for, each with whether it is shared as a whole.
pub fn asked_for(policy: &Policy) -> Vec<(Ruled<&'static Tool>, bool)> {
    let home = &policy.home;
    let shared = home.share.iter().map(|tool| (tool.clone(), true));
    let only_shown =
        home.tools.iter().filter(|tool| !home.share.iter().any(|other| other.value == tool.value));
    shared.chain(only_shown.map(|tool| (tool.clone(), false))).collect()
}

/// What of a tool is shown.
fn exposures(
    tool: &'static Tool,
    shared: bool,
    platform: Platform,
) -> impl Iterator<Item = &'static Exposure> {
    let part = tool.on(platform);
    part.login.iter().chain(part.share.iter().filter(move |_| shared))
}

/// Where something of a tool is on the host: variables of the caller may have moved it.
pub fn place_outside(exposure: &Exposure, request: &Request<'_>) -> PathBuf {
    let folder = |variable: &str| {
        let value = Path::new(OsStr::from_bytes(request.variable(variable)?));
        value.is_absolute().then(|| value.to_path_buf())
    };
    if exposure.runtime {
        let runtime = folder("XDG_RUNTIME_DIR")
            .unwrap_or_else(|| PathBuf::from(format!("/run/user/{}", request.caller.uid)));
        return runtime.join(exposure.path);
    }
    match exposure.moved_by().and_then(|(variable, rest)| Some(folder(variable)?.join(rest))) {
        Some(moved) => moved,
        None => request.caller.home.join(exposure.path),
    }
}

fn bus_of_session(request: &Request<'_>) -> PathBuf {
    format!("/run/user/{}/bus", request.caller.uid).into()
}

/// A login file of a tool that is asked for, whose secret fields are known.
#[derive(Clone, Debug)]
pub struct LoginFile {
    pub file: &'static login::File,
    pub outside: PathBuf,
    /// Where a HOME that is kept would have its own, which is used instead.
    pub own: Option<PathBuf>,
    /// Whether it lies in a directory that the command can write.
    pub is_granted: bool,
    pub origin: Origin,
}

/// The login files that are shown with phantoms, if they are there.
pub fn login_files(policy: &Policy, request: &Request<'_>) -> Vec<LoginFile> {
    let mut all: Vec<LoginFile> = Vec::new();
    if !login::are_phantoms(policy) {
        return all;
    }
    let kept = kept_home(policy, request);
    for (tool, shared) in asked_for(policy) {
        for exposure in exposures(tool.value, shared, request.platform).filter(|it| has_known_fields(it)) {
            for (file, outside) in known_files(exposure, request) {
                let is_granted = is_granted(policy, request, &outside);
                let is_used = !exposure.runtime && exposure.writes != Writes::Never && !is_granted;
                let own = kept.as_ref().filter(|_| is_used).map(|kept| kept.join(file.path));
                if !all.iter().any(|other| other.outside == outside) {
                    all.push(LoginFile { file, outside, own, is_granted, origin: tool.origin.clone() });
                }
            }
        }
    }
    all
}

/// Whether something that a tool keeps is, or holds, a file whose secret fields are known. Settings are such a file by themselves alone.
fn has_known_fields(exposure: &Exposure) -> bool {
    exposure.secret || !exposure.folder && login::file(exposure.path).is_some()
}

/// The known login files at or below something that a tool keeps, and where they are on the host.
fn known_files(exposure: &Exposure, request: &Request<'_>) -> Vec<(&'static login::File, PathBuf)> {
    let at = place_outside(exposure, request);
    match exposure.folder {
        false => login::file(exposure.path).map(|file| (file, at)).into_iter().collect(),
        true => login::files_below(exposure.path)
            .map(|file| (file, at.join(file.path.get(exposure.path.len() + 1..).unwrap_or_default())))
            .collect(),
    }
}

/// What must be looked at for a HOME.
pub(super) fn questions(policy: &Policy, request: &Request<'_>) -> Vec<PathBuf> {
    let kept = kept_home(policy, request);
    let mut paths: Vec<PathBuf> = kept.iter().cloned().collect();
    if policy.trust.value.may_have_logins() {
        for (tool, shared) in asked_for(policy) {
            for exposure in exposures(tool.value, shared, request.platform) {
                paths.push(place_outside(exposure, request));
                for (file, outside) in known_files(exposure, request).into_iter().filter(|_| exposure.folder)
                {
                    let beside = file.beside.iter().map(|beside| beside_of(file, &outside, beside));
                    paths.extend(beside);
                    paths.push(outside);
                }
                paths.extend(kept.iter().map(|home| home.join(exposure.path)));
            }
        }
        paths.push(bus_of_session(request));
    }
    if policy.home.mode.value == HomeMode::Real {
        for tool in tools::all() {
            let secrets = exposures(tool, true, request.platform).filter(|it| it.secret);
            paths.extend(secrets.map(|exposure| place_outside(exposure, request)));
        }
    }
    paths.extend(granted_logins(policy, request));
    if let (Some(kept), Platform::Macos) = (kept, request.platform) {
        paths.push(kept.join(KEYCHAINS));
        paths.push(request.caller.home.join(KEYCHAINS));
    }
    paths
}

/// Puts the HOME itself into the view.
pub(super) fn own_home(
    builder: &mut Builder<'_>,
    policy: &Policy,
    request: &Request<'_>,
    homes: &[PathBuf],
    cage: Cage,
) -> Result<Home, Refusal> {
    let real = &request.caller.home;
    let class = policy.trust.value;
    let mode = &policy.home.mode;
    if mode.value == HomeMode::Real && class != TrustClass::Internal {
        return Err(Refusal::policy(
            "home.mode",
            format!("your own HOME ({}) is not shown to a child of class `{class}`", mode.origin),
            "it holds your keys: `-p NAME` gives the child a HOME of its profile's; a program that you trust with all of yours is `--trust internal`",
        ));
    }
    let kept = kept(policy, request);
    if let (Some((path, true)), Some(ruled)) = (&kept, &policy.home.path) {
        adoptable(builder, policy, request, homes, path, &ruled.origin)?;
    }
    let at = place(policy, request);
    if cage == Cage::Landlock {
        return Ok(Home { at: request.caller.scratch.join("home"), ..Home::default() });
    }
    let home = Home { at: at.clone(), kept: kept.map(|(path, _)| path), ..Home::default() };
    if at == Path::new("/") {
        return Ok(home);
    }
    let shown = match (mode.value, &home.kept, builder.paths.existing(real)) {
        (HomeMode::Real, _, Some(fact)) => Shown::Writable(Source::callers(fact)),
        (_, Some(kept), _) => {
            let found = builder.paths.existing(kept).map(|fact| (fact.device, fact.inode));
            Shown::Writable(Source { expect: found, ..Source::kept(kept.clone()) })
        }
        _ => Shown::Private { mode: 0o700 },
    };
    builder.put(at, shown, "home", &mode.origin);
    Ok(home)
}

/// Whether a folder can be a HOME that another program has made.
fn adoptable(
    builder: &Builder<'_>,
    policy: &Policy,
    request: &Request<'_>,
    homes: &[PathBuf],
    path: &Path,
    origin: &Origin,
) -> Result<(), Refusal> {
    let refuse = |fact: String, remedy: &str| Err(Refusal::policy("home.path", fact, remedy));
    if let Origin::Flag { .. } = policy.trust.origin {
        return refuse(
            format!("the HOME {} ({origin}) is of one trust class, that of its profile", path.display()),
            "what a command of one class leaves there must not be run by another: take `--trust` away, or use another profile",
        );
    }
    let fact = builder.paths.get(path);
    let found = fact.map_or(path, |fact| &fact.real);
    if homes.iter().any(|home| at_or_below(home, found)) || is_shared_place(found) || is_store(found, homes) {
        return refuse(
            format!(
                "{} ({origin}) is not a HOME for a child: it holds your own, or credentials",
                path.display()
            ),
            "name a directory that is for this profile alone",
        );
    }
    if fact.is_some_and(|fact| fact.link.is_some() || fact.leaves_project.is_some() || fact.real != path) {
        return refuse(
            format!("{} ({origin}) is reached through a link", path.display()),
            "another program may have made the link; if its target is what you mean, write that path",
        );
    }
    if fact.is_some_and(|fact| !matches!(fact.kind, Kind::Directory | Kind::Missing)) {
        return refuse(format!("{} ({origin}) is not a directory", path.display()), "name a directory");
    }
    let writes = policy.files.write.iter().chain(&policy.files.read);
    let grants = writes.map(|grant| expand(&grant.value, &request.caller.home));
    let project = super::can_be_project(request).then(|| request.project.clone());
    if let Some(place) = grants.chain(project).find(|place| nested(place, found)) {
        return refuse(
            format!("{} ({origin}) lies in {}, or holds it", path.display(), place.display()),
            "a command that works there could replace it: name a directory beside it, or work elsewhere",
        );
    }
    let own = policy.profile.as_deref();
    let others = policy.profile_homes.iter().filter(|(profile, _)| Some(profile.as_str()) != own);
    let mut others = others.map(|(profile, path)| (profile, expand(path, &request.caller.home)));
    if let Some((profile, _)) = others.find(|(_, other)| nested(other, found)) {
        return refuse(
            format!("{} ({origin}) is also the HOME of the profile {profile}", path.display()),
            "each profile has a HOME for itself alone: name another directory",
        );
    }
    own_places_stay_closed(request, found, "home.path", origin)
}

/// Whether one is the other, or lies in it.
fn nested(one: &Path, other: &Path) -> bool {
    at_or_below(one, other) || at_or_below(other, one)
}

/// The HOME of a profile is for its commands: no project and no grant of another run opens it.
pub(super) fn of_a_profile(policy: &Policy, request: &Request<'_>, real: &Path) -> Option<String> {
    let kept = kept_home(policy, request);
    let homes =
        policy.profile_homes.iter().map(|(profile, path)| (profile, expand(path, &request.caller.home)));
    let mut others = homes.filter(|(_, path)| kept.as_ref() != Some(path));
    others.find(|(_, path)| nested(path, real)).map(|(profile, _)| profile.clone())
}

/// How the note begins that a HOME has a file of a tool itself.
pub const OWN_LOGIN: &str = "this HOME has its own";

/// Where git finds the settings of the system, where a HOME that is kept has settings of its own, or where a forge is reached by a phantom.
pub const GIT_SETTINGS: &str = "/run/gitconfig";

/// The identity of a committer is not secret, and git needs it; how the user's git does things is not either. A HOME of the cage's says
/// what the user's own does. In one that is kept the settings of its own win, so that this stands with those of the system.
pub(super) fn git_settings(builder: &mut Builder<'_>, policy: &Policy, home: &Home, found: &Project) {
    let looks_secret = |value: &[u8]| crate::detect::registry::value_shape(value).is_some();
    let author =
        found.author.as_ref().filter(|(name, address)| !looks_secret(name) && !looks_secret(address));
    let author = author.map(|(name, address)| Config::of_author(name, address)).unwrap_or_default();
    let mut settings = [author, found.habits.clone()].concat();
    let mut of_system = forge_settings(policy);
    if settings.is_empty() && of_system.is_empty() {
        return;
    }
    if is_empty(builder, &home.at) && !settings.is_empty() {
        builder.builtin(home.at.join(".gitconfig"), Shown::Text { text: settings }, GIT_SETTINGS_RULE);
    } else if home.kept.is_some() {
        of_system.append(&mut settings);
    }
    if !of_system.is_empty() {
        of_system.extend_from_slice(b"[include]\n\tpath = /etc/gitconfig\n");
        builder.builtin(GIT_SETTINGS, Shown::Text { text: of_system }, GIT_SETTINGS_RULE);
    }
}

/// Leads git to https on forges whose credential is a phantom, because ssh has no key in a cage, and gives it the phantom. Helpers that
/// stand elsewhere are not asked for these hosts: they would ask a person, or keep the phantom.
fn forge_settings(policy: &Policy) -> Vec<u8> {
    let given = secret::given(&policy.secrets, &policy.known_secrets).unwrap_or_default();
    let mut text = String::new();
    for bound in secret::bound(policy, &given).unwrap_or_default() {
        let Some(variable) = bound.variables.first() else { continue };
        for (host, user) in &bound.git {
            text += &format!(
                "[url \"https://{host}/\"]\n\tinsteadOf = git@{host}:\n\tinsteadOf = ssh://git@{host}/\n\
                 \tinsteadOf = ssh://git@{host}:22/\n\tinsteadOf = git://{host}/\n\
                 [credential \"https://{host}\"]\n\thelper =\n\
                 \thelper = \"!f() {{ test \\\"$1\\\" != get || \
                 printf 'username=%s\\\\npassword=%s\\\\n' '{user}' \\\"${variable}\\\"; }}; f\"\n"
            );
        }
    }
    text.into_bytes()
}

/// The rule by which a login shell keeps the PATH of the cage.
const LOGIN_SHELL: &str = "login shell";

/// What stands before the prompt of a shell in a cage.
const ZSH_SETTINGS: &[u8] = b"# zsh has no settings in an empty HOME\nPS1=\"(keyward) $PS1\"\n";
/// Some systems leave it to this file to read theirs, which sets the prompt.
const BASH_SETTINGS: &[u8] = b"[ ! -r /etc/bashrc ] || . /etc/bashrc\nPS1=\"(keyward) $PS1\"\n";

/// In a HOME without settings zsh asks a new user many questions before it starts, and no prompt says that it is one of a cage.
pub(super) fn shell_settings(builder: &mut Builder<'_>, home: &Path, request: &Request<'_>) {
    let Some((program, arguments)) = request.argv.split_first() else { return };
    let (zsh, bash) = ((".zshrc", ZSH_SETTINGS, "zsh"), (".bashrc", BASH_SETTINGS, "bash"));
    let settings = match Path::new(program).file_name().and_then(|name| name.to_str()) {
        // Any of its commands may be a shell.
        _ if request.purpose == Purpose::Session => vec![zsh, bash],
        Some("zsh") => vec![zsh],
        // With arguments it is a script or a line, for which an empty HOME stays empty.
        Some("bash") if arguments.is_empty() => vec![bash],
        _ => return,
    };
    if !is_empty(builder, home) {
        return;
    }
    for (name, text, rule) in settings {
        builder.builtin(home.join(name), Shown::Text { text: text.to_vec() }, rule);
    }
}

/// Login shells read the files of the system first, which set PATH anew, and then these. In an empty HOME none would set it back.
pub(super) fn login_settings(entries: &mut [Entry], search: &[PathBuf]) {
    let path = search.iter().map(|path| path.as_os_str().as_bytes()).collect::<Vec<_>>().join(&b':');
    let quoted = path.split(|&byte| byte == b'\'').collect::<Vec<_>>().join(&b"'\\''"[..]);
    let text = [b"export PATH='", &quoted[..], b"'\n"].concat();
    for entry in entries.iter_mut().filter(|entry| entry.rule == LOGIN_SHELL) {
        entry.shown = Shown::Text { text: text.clone() };
    }
}

/// Makes room for the settings of login shells. What they say is known when the view is.
pub(super) fn place_login_settings(builder: &mut Builder<'_>, home: &Path, request: &Request<'_>) {
    let is_zsh = |name: &[u8]| name.ends_with(b"zsh");
    let starts_zsh = request.argv.first().is_some_and(|program| is_zsh(program.as_bytes()));
    let has_zsh = starts_zsh || request.variable("SHELL").is_some_and(is_zsh);
    let names = [Some(".profile"), has_zsh.then_some(".zprofile")];
    if !is_empty(builder, home) {
        return;
    }
    for name in names.into_iter().flatten() {
        builder.builtin(home.join(name), Shown::Text { text: Vec::new() }, LOGIN_SHELL);
    }
}

/// Whether HOME is the cage's own, made for this run.
fn is_empty(builder: &Builder<'_>, home: &Path) -> bool {
    builder.entries.iter().any(|entry| {
        entry.target == home && entry.rule == "home" && matches!(entry.shown, Shown::Private { .. })
    })
}

/// Shows the logins that are asked for, if the class may have any.
pub(super) fn logins(
    builder: &mut Builder<'_>,
    policy: &Policy,
    request: &Request<'_>,
    facts: &HostFacts,
    cage: Cage,
    home: &mut Home,
) -> Result<(), Refusal> {
    let class = policy.trust.value;
    let why = match cage {
        _ if !class.may_have_logins() => Some((
            format!("a child of class `{class}` gets no login"),
            "`--trust executor` is for programs you trust with one",
        )),
        Cage::Landlock => Some((
            "a cage without mounts cannot show a part of your HOME".to_owned(),
            "`--read` grants a single file by its path",
        )),
        _ => None,
    };
    for (tool, shared) in asked_for(policy) {
        let Ruled { value: tool, origin } = tool;
        match (&why, &origin) {
            (None, _) => {}
            (Some((fact, remedy)), Origin::Flag { .. }) => {
                let fact = format!("the login of {} ({origin}) is not shown: {fact}", tool.name);
                return Err(Refusal::policy("home.tools", fact, remedy));
            }
            (Some((fact, remedy)), _) => {
                let why = format!("{fact}; {remedy}");
                home.withheld.push(Withheld { tool: tool.name, why, origin });
                continue;
            }
        }
        let mut found = false;
        for exposure in exposures(tool, shared, request.platform) {
            found |= expose(builder, policy, request, facts, home, exposure, &origin)?;
        }
        home.logins.push(Login { tool: tool.name, shared, found, origin });
    }
    home.keyring = keyring(policy, request, facts, home);
    Ok(())
}

/// Where something beside a login file is on the host.
fn beside_of(file: &login::File, outside: &Path, beside: &str) -> PathBuf {
    let directory = |path: &str| Path::new(path).parent().map(Path::to_path_buf).unwrap_or_default();
    let rest =
        Path::new(beside).strip_prefix(directory(file.path)).unwrap_or(Path::new(beside)).to_path_buf();
    outside.parent().unwrap_or(Path::new("/")).join(rest)
}

/// Shows the known files of a directory with phantoms in them, and nothing else of it but what the table names.
fn expose_files(
    builder: &mut Builder<'_>,
    policy: &Policy,
    request: &Request<'_>,
    facts: &HostFacts,
    home: &Home,
    exposure: &Exposure,
    origin: &Origin,
) -> bool {
    let mut is_there = false;
    for (file, outside) in known_files(exposure, request) {
        for beside in file.beside {
            let path = beside_of(file, &outside, beside);
            let found = facts.paths.existing(&path).filter(|fact| fact.kind == Kind::File);
            if let Some(fact) = found.filter(|fact| !is_written(policy, request, &fact.real)) {
                let shown = Shown::Copied { from: Source::callers(fact), through: false };
                builder.put(home.at.join(beside), shown, LOGIN, origin);
                is_there = true;
            }
        }
        is_there |= show_login(builder, policy, request, facts, home, &outside, file, origin);
    }
    is_there
}

/// Shows a login file with phantoms; `false` if there is none.
#[allow(clippy::too_many_arguments)]
fn show_login(
    builder: &mut Builder<'_>,
    policy: &Policy,
    request: &Request<'_>,
    facts: &HostFacts,
    home: &Home,
    outside: &Path,
    file: &'static login::File,
    origin: &Origin,
) -> bool {
    let Some(fact) = facts.paths.existing(outside) else { return false };
    let found = login::found(policy, outside);
    // The agent's own directory, which is granted as a whole: the file is shown where it stands.
    let is_granted = is_granted(policy, request, &fact.real);
    let is_plain = fact.real == outside && fact.link.is_none() && fact.names == 1;
    let why = match found.map(|found| (found, &found.skeleton)) {
        None => "it was not there when logins were looked at",
        Some((_, Err(odd))) => odd.words(),
        // A command may have put a link there, to have another file read.
        Some(_) if is_granted && !is_plain => "it is a link in a directory that the command can write",
        Some(_) if !is_granted && is_written(policy, request, &fact.real) => {
            "it lies where the command can write"
        }
        Some((found, _)) if fact.real != found.path => "it was replaced while it was looked at",
        Some(_) => {
            let shown = Shown::Login {
                from: Source::callers(fact),
                file: file.name,
                in_place: is_granted,
                text: Vec::new(),
            };
            let target = if is_granted { fact.real.clone() } else { home.at.join(file.path) };
            builder.put(target, shown, LOGIN, origin);
            return true;
        }
    };
    builder.notes.push(format!("the login {} is not shown: {why}", outside.display()));
    false
}

/// Whether a file lies where the command can write.
fn is_written(policy: &Policy, request: &Request<'_>, real: &Path) -> bool {
    writable_places(policy, request).any(|place| at_or_below(real, &place))
}

/// Whether a file lies in a directory that is granted for writing, and not in the project or in the HOME of the profile.
fn is_granted(policy: &Policy, request: &Request<'_>, real: &Path) -> bool {
    let grants = policy.files.write.iter().map(|grant| expand(&grant.value, &request.caller.home));
    let is_below = |place: &PathBuf| place != real && at_or_below(real, place);
    let project = super::can_be_project(request).then(|| request.project.clone());
    let others = project.into_iter().chain(kept_home(policy, request));
    grants.into_iter().any(|grant| is_below(&grant))
        && !others.into_iter().any(|other| at_or_below(real, &other))
}

/// Shows one thing of a tool; `false` if there is none.
fn expose(
    builder: &mut Builder<'_>,
    policy: &Policy,
    request: &Request<'_>,
    facts: &HostFacts,
    home: &mut Home,
    exposure: &'static Exposure,
    origin: &Origin,
) -> Result<bool, Refusal> {
    let outside = place_outside(exposure, request);
    let Some(fact) = facts.paths.existing(&outside) else { return Ok(false) };
    let expected = if exposure.folder { Kind::Directory } else { Kind::File };
    if fact.kind != expected || at_or_below(&request.caller.home, &fact.real) {
        builder
            .notes
            .push(format!("{} is not shown: it is not what its tool keeps there", outside.display()));
        return Ok(false);
    }
    let is_granted = is_granted(policy, request, &fact.real);
    // The grant shows it, and lets the command write it.
    if is_granted && !exposure.secret {
        return Ok(true);
    }
    let mut target = match exposure.runtime {
        true => Path::new("/run").join(exposure.path),
        false if is_granted => fact.real.clone(),
        false => home.at.join(exposure.path),
    };
    let is_in_home = !exposure.runtime && !is_granted;
    let in_home = home.kept.as_ref().filter(|_| is_in_home).map(|kept| kept.join(exposure.path));
    let standing = in_home.as_ref().and_then(|path| facts.paths.get(path));
    match standing {
        Some(PathFact { link: Some(_), kind: Kind::Missing, .. }) => {
            home.mends.extend(in_home.map(|at| Mend::DropLink { at }));
        }
        // The other program has put the very link: what it leads to is shown where it leads.
        Some(standing) if standing.link.is_some() && standing.real == fact.real => {
            if at_or_below(&fact.real, &home.at) {
                return Err(planted(&outside, standing, origin));
            }
            target = fact.real.clone();
        }
        Some(standing) if standing.link.is_some() => return Err(planted(&outside, standing, origin)),
        Some(PathFact { kind: Kind::File, .. })
            if exposure.writes != Writes::Never
                && in_home.as_ref().is_some_and(|path| !facts.placed.contains(path)) =>
        {
            builder.notes.push(format!("{OWN_LOGIN} {}, which is used", exposure.path));
            return Ok(true);
        }
        _ => {}
    }
    // Everything is there already where HOME is the real one.
    if builder
        .entries
        .iter()
        .any(|entry| entry.rule == "home" && entry.shows_in_place() && entry.target == request.caller.home)
    {
        return Ok(true);
    }
    if login::are_phantoms(policy) && has_known_fields(exposure) {
        match exposure.folder {
            true if login::files_below(exposure.path).next().is_some() => {
                return Ok(expose_files(builder, policy, request, facts, home, exposure, origin));
            }
            false => {
                if let Some(file) = login::file(exposure.path) {
                    return Ok(show_login(builder, policy, request, facts, home, &outside, file, origin));
                }
            }
            true => {}
        }
    }
    let source = Source::callers(fact);
    let shown = match (exposure.folder, exposure.writes) {
        // What the command can change anyway must not lead us: what stands there now is shown, or nothing.
        _ if writable_places(policy, request).any(|place| at_or_below(&fact.real, &place)) => {
            builder
                .notes
                .push(format!("{} is read-only: it lies where the command can write", target.display()));
            Shown::ReadOnly(source)
        }
        (_, Writes::Never) => Shown::ReadOnly(source),
        // Read-only, its sockets could be reached.
        (true, _) if !facts.kernel.overlay.holds() => {
            builder.notes.push(format!(
                "{} is not shown: that needs an overlay, which is refused here",
                target.display()
            ));
            return Ok(false);
        }
        (true, Writes::Kept) => match layers(policy, request) {
            Some(layers) => Shown::Cache {
                store: Source::kept(layers.join(exposure.path.replace('/', "-"))),
                below: source,
            },
            None => Shown::Layer(source),
        },
        (true, Writes::Private | Writes::Through) => Shown::Layer(source),
        (false, writes) => Shown::Copied { from: source, through: writes == Writes::Through },
    };
    builder.put(target, shown, LOGIN, origin);
    Ok(true)
}

/// Where the command can write on the host, its HOME aside.
fn writable_places<'a>(policy: &'a Policy, request: &'a Request<'_>) -> impl Iterator<Item = PathBuf> + 'a {
    let project = super::can_be_project(request).then(|| request.project.clone());
    let granted = policy.files.write.iter().map(|grant| expand(&grant.value, &request.caller.home));
    project.into_iter().chain(granted).chain(kept_home(policy, request))
}

/// Where a profile keeps what it adds to folders that are shared with it.
fn layers(policy: &Policy, request: &Request<'_>) -> Option<PathBuf> {
    let profile = policy.profile.as_ref().filter(|_| policy.home.mode.value == HomeMode::Profile)?;
    let state = request.caller.homes.parent()?;
    Some(state.join("layers").join(profile).join(policy.trust.value.as_str()))
}

fn planted(outside: &Path, standing: &PathFact, origin: &Origin) -> Refusal {
    let link = standing.link.as_deref().unwrap_or(Path::new("?"));
    Refusal::policy(
        "home.tools",
        format!(
            "{} ({origin}) cannot be shown: in the HOME of this run a link to {} is in its place",
            outside.display(),
            link.display()
        ),
        "a command of an earlier run may have left it; `keyward home path` with the same flags leads there: remove the link",
    )
}

/// The keyring, if a tool that is shown keeps its login there.
fn keyring(policy: &Policy, request: &Request<'_>, facts: &HostFacts, home: &Home) -> Option<Keyring> {
    if policy.home.keyring.value == KeyringUse::Never || request.platform != Platform::Linux {
        return None;
    }
    let shown = home.logins.iter().filter_map(|login| tools::tool(login.tool));
    let parts = shown.map(|tool| tool.on(Platform::Linux));
    let asking = parts.filter(|part| part.services.contains(&Service::SecretService));
    let mut items: Vec<&'static str> = asking.flat_map(|part| part.keyring_items).copied().collect();
    items.dedup();
    let bus = match request.variable("DBUS_SESSION_BUS_ADDRESS").filter(|address| !address.is_empty()) {
        Some(address) => OsStr::from_bytes(address).to_owned(),
        None => {
            let bus = bus_of_session(request);
            let fact = facts.paths.existing(&bus)?;
            (fact.kind == Kind::Special).then(|| {
                let mut address = OsString::from("unix:path=");
                address.push(bus);
                address
            })?
        }
    };
    let can_be_reached = crate::untrusted::keyring::BusAddress::parse(bus.as_bytes()).is_some();
    (!items.is_empty() && can_be_reached).then_some(Keyring { items, bus })
}

/// The login keychain of macOS, below HOME.
const KEYCHAINS: &str = "Library/Keychains";

/// On macOS programs look for the login keychain below HOME: in the HOME of a class that may have logins a link leads to the real one.
pub(super) fn keychain(
    policy: &Policy,
    request: &Request<'_>,
    facts: &HostFacts,
    home: &mut Home,
) -> Vec<String> {
    let wanted = match policy.home.keyring.value {
        KeyringUse::Always => true,
        KeyringUse::Trusted => policy.trust.value.may_have_logins(),
        KeyringUse::Never => false,
    };
    let Some(kept) = home.kept.as_ref().filter(|_| wanted && request.platform == Platform::Macos) else {
        return Vec::new();
    };
    let (at, to) = (kept.join(KEYCHAINS), request.caller.home.join(KEYCHAINS));
    if facts.paths.existing(&to).is_none() {
        return vec![format!("there is no login keychain at {}", to.display())];
    }
    match facts.paths.get(&at) {
        None | Some(PathFact { kind: Kind::Missing, .. }) => {
            home.mends.push(Mend::Link { at, to });
            Vec::new()
        }
        Some(fact) if fact.link.as_ref() == Some(&to) => Vec::new(),
        Some(PathFact { link: Some(link), .. }) => {
            vec![format!(
                "{} leads to {} and not to your keychain; it is left as it is",
                at.display(),
                link.display()
            )]
        }
        Some(_) => {
            vec![format!("{} holds keychains of its own; your login keychain is not there", at.display())]
        }
    }
}

/// Secrets of tools that stand in a project or in what is granted.
pub(super) fn granted_logins<'a>(
    policy: &'a Policy,
    request: &'a Request<'_>,
) -> impl Iterator<Item = PathBuf> + 'a {
    let grants = policy.files.read.iter().chain(&policy.files.write);
    let grants = grants.map(|grant| expand(&grant.value, &request.caller.home));
    let places: Vec<PathBuf> = grants.chain([request.project.clone()]).collect();
    let real = policy.home.mode.value == HomeMode::Real;
    tools::all()
        .filter(move |_| !real)
        .flat_map(|tool| exposures(tool, true, request.platform).filter(|it| it.secret))
        .map(|exposure| place_outside(exposure, request))
        // One that is named by its own path is meant.
        .filter(move |path| places.iter().any(|place| place != path && at_or_below(path, place)))
}

/// What has to be hidden of a real HOME: the secrets of tools that are not shown.
pub(super) fn other_logins<'a>(
    policy: &'a Policy,
    request: &'a Request<'_>,
    home: &'a Home,
) -> impl Iterator<Item = PathBuf> + 'a {
    let real = policy.home.mode.value == HomeMode::Real;
    let is_shown = |tool: &Tool| home.logins.iter().any(|login| login.tool == tool.name);
    let shown: Vec<PathBuf> = home
        .logins
        .iter()
        .filter_map(|login| tools::tool(login.tool))
        .flat_map(|tool| exposures(tool, true, request.platform))
        .map(|exposure| place_outside(exposure, request))
        .collect();
    tools::all()
        .filter(move |tool| real && !is_shown(tool))
        .flat_map(|tool| exposures(tool, true, request.platform).filter(|it| it.secret))
        .map(|exposure| place_outside(exposure, request))
        .filter(move |path| !shown.contains(path))
}

/// Whether a login is shown at this path.
pub(super) fn is_login(entries: &[Entry], path: &Path) -> bool {
    entries.iter().any(|entry| entry.rule == LOGIN && entry.target == path)
}
