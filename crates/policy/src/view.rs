//! The view: what of the file system exists for the child, entry by entry, each with the rule that put it there.
//!
//! The root is an empty tmpfs. Parents come before what lies in them; what is hidden comes last.

mod gone;
mod gpu;
mod grants;
mod hidden;
mod home;
mod inside;
mod own_programs;
mod places;
mod searched;
mod toolchains;

pub use gone::{
    GIT_SETTINGS_FILE, Gone, Passing, is_gone_with_the_cage, is_missed, passing_directories,
    planned_git_settings,
};
pub use hidden::{fits, hidden_paths, is_hidden_by_name, is_pattern, is_shown_by_name};
pub use home::{
    GIT_SETTINGS, Home, KEYRING_SOCKET, Keyring, LOGIN, Login, LoginFile, Mend, OTHER_LOGIN, OWN_LOGIN,
    Withheld, asked_for, kept_home, login_files, place_outside, profile_home,
};
pub(crate) use inside::cannot_take_over;
pub use inside::read_only_repositories;
pub use own_programs::{INSTALL_ELSEWHERE, own_programs};
pub use places::{PINNED, PROJECT_FILE};
pub use searched::{Searched, Why, can_be_project, is_of_system, searched};
pub use toolchains::joined;

use crate::facts::{GitFolder, GitPart, HostFacts, Kind, PathFact, Paths, Project};
use crate::linux::cage::Cage;
use crate::net::bundle::{self, Bundle};
use crate::net::plan::needs_certificate;
use crate::plan::{Refusal, RefusalKind};
use crate::request::Request;
use crate::settings::{IgnoredFile, Policy};
use crate::text::visible;
use crate::toolchains::{CACHES, OWN_PARTS};
use crate::tools::{self, Exposure, Platform};
use crate::words::{NetMode, Origin, ProjectGuard};
pub(crate) use places::STORES;
use places::{
    DEVICE_LINKS, DEVICES, KEYS_FILE, NEVER_PROJECTS, OTHER_USERS, SHARED_PLACES, SYSTEM, SYSTEM_SEARCHED,
    SYSTEM_SECRETS,
};
use serde::Serialize;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The rule by which programs of Keyward cannot be replaced.
pub const OWN_PROGRAM: &str = "keyward's own program";

/// The rule by which Keyward's own caches stand in a HOME.
pub const CACHE: &str = "cache";

/// One place in the child's file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    #[serde(serialize_with = "crate::text::path")]
    pub target: PathBuf,
    pub shown: Shown,
    /// Which rule put it there.
    pub rule: &'static str,
    pub origin: Origin,
}

impl Entry {
    /// Whether files of the host can be seen through it at the paths they have outside. Keyward's own store does not stand where it lies.
    pub fn shows_in_place(&self) -> bool {
        match &self.shown {
            Shown::ReadOnly(source) | Shown::Writable(source) => source.path == self.target,
            Shown::Cache { below, .. } => below.path == self.target,
            Shown::Repository { source, .. } | Shown::Layer(source) => source.path == self.target,
            _ => false,
        }
    }

    /// Whether files of the host can be seen through it.
    pub const fn shows_host(&self) -> bool {
        matches!(
            self.shown,
            Shown::ReadOnly(_)
                | Shown::Writable(_)
                | Shown::Cache { .. }
                | Shown::Repository { .. }
                | Shown::Layer(_)
        )
    }
}

/// What stands there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "as")]
pub enum Shown {
    /// A tree of the host, read-only.
    ReadOnly(Source),
    /// A tree of the host, writable.
    Writable(Source),
    /// A folder of the cage's own, writable, gone with the cage.
    Private { mode: u32 },
    /// A symbolic link.
    Link {
        #[serde(serialize_with = "crate::text::path")]
        to: PathBuf,
    },
    /// A device node of the host.
    Device,
    /// A procfs of the cage's own, read-only.
    FreshProc,
    /// The host's procfs, read-only; Landlock closes what is in it.
    SharedProc,
    /// A devpts of the cage's own.
    Terminals,
    /// The message queues of the cage's own IPC namespace.
    Queues,
    /// Keyward's own cache, writable, kept; the user's shines through from below.
    Cache { store: Source, below: Source },
    /// A repository's own folder: the command has a private one in its place, which borrows the host's objects. What it does there is
    /// taken over by the host's git.
    Repository {
        source: Source,
        parts: Vec<GitPart>,
        /// Where the private one is made.
        #[serde(skip)]
        store: PathBuf,
        /// The host's git, which takes over what was done.
        #[serde(serialize_with = "crate::text::path")]
        git: PathBuf,
        /// Lines for git's own list of what to leave out: files that are hidden must not be added as they look to the command.
        #[serde(skip)]
        exclude: Vec<u8>,
        /// Those files, by their whole paths: git must not begin to track them because a command says so.
        #[serde(skip)]
        hidden: Vec<PathBuf>,
        /// Whether the user's own settings say no committer.
        #[serde(skip)]
        is_nameless: bool,
    },
    /// A tree of the host under a layer of the cage's own: what the command changes there is gone with the cage.
    Layer(Source),
    /// A copy of a file of the host, which follows it while the command runs. What the command changes reaches the host, or stays.
    Copied { from: Source, through: bool },
    /// A login file with phantoms in its secret fields, of the cage's own. What the command writes there never reaches the real one.
    Login {
        from: Source,
        /// Which of the known files it is.
        file: &'static str,
        /// Whether it stands over the file itself, in a directory that is granted, and not in the HOME of the cage.
        #[serde(skip)]
        in_place: bool,
        /// Known when there are phantoms.
        #[serde(skip)]
        text: Vec<u8>,
    },
    /// A file of the cage's own with this text.
    Text {
        #[serde(skip)]
        text: Vec<u8>,
    },
    /// Something else stands in its place, read-only. These come last in a view.
    Hidden {
        directory: bool,
        /// What a file shows; a directory is empty. Without it nothing can be read or listed.
        #[serde(skip)]
        reads_as: Option<Vec<u8>>,
    },
}

/// A tree of the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Source {
    #[serde(serialize_with = "crate::text::path")]
    pub path: PathBuf,
    /// Device and inode that were looked at; another thing found there later is refused.
    pub expect: Option<(u64, u64)>,
    /// Whether it belongs to the caller (rather than to the system), so that root's files are shown under the child's own user.
    pub callers_own: bool,
    pub directory: bool,
    /// A folder that the launcher makes when it is missing.
    pub make: bool,
}

impl Source {
    fn system(path: impl Into<PathBuf>) -> Self {
        Source { path: path.into(), expect: None, callers_own: false, directory: true, make: false }
    }

    fn callers(fact: &PathFact) -> Self {
        Source {
            path: fact.real.clone(),
            expect: Some((fact.device, fact.inode)),
            callers_own: true,
            directory: fact.kind == Kind::Directory,
            make: false,
        }
    }

    fn git(folder: &GitFolder) -> Self {
        Source {
            path: folder.path.clone(),
            expect: Some((folder.device, folder.inode)),
            callers_own: true,
            directory: true,
            make: false,
        }
    }

    /// Something of the project that was found by a search, and not looked at closer.
    fn found(path: PathBuf, directory: bool) -> Self {
        Source { path, expect: None, callers_own: true, directory, make: false }
    }

    fn kept(path: PathBuf) -> Self {
        Source { path, expect: None, callers_own: true, directory: true, make: true }
    }
}

/// The entries, and what a person should know about how they came about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct View {
    pub entries: Vec<Entry>,
    /// The project's root, if the current directory is one that can be shown.
    #[serde(serialize_with = "crate::text::optional_path")]
    pub project: Option<PathBuf>,
    #[serde(serialize_with = "crate::text::path")]
    pub cwd: PathBuf,
    pub home: Home,
    pub notes: Vec<String>,
    /// Links that must stay where they are: the directories above them cannot be moved or removed.
    #[serde(skip)]
    pub links: Vec<PathBuf>,
    /// What a person has to know in any case: what is closed because it could not be searched, or open although it was not.
    pub warnings: Vec<Warning>,
}

/// What a person has to know before the command starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Warning {
    pub fact: String,
    pub remedy: String,
    /// Whether it is the same at every run: without a terminal it is told once a day.
    pub lasting: bool,
}

/// The rule by which a file of the project is hidden that looks secret.
pub const SECRET_FILE: &str = "secret file";

/// The rule by which a directory is closed because it could not be searched.
pub const UNSEARCHED: &str = "not searched";

/// The rule by which something of the project is read-only that programs outside run or obey.
pub const FOOTHOLD: &str = "foothold";

/// The rule by which a directory is read-only in which the user's shell looks for programs.
pub const PROGRAMS: &str = "programs on the search path";

/// A path the plan wants to know about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    pub path: PathBuf,
    pub about: About,
}

/// What has to be known about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// Everything.
    All,
    /// Only what stands there itself: a system folder, a link, a device.
    Itself,
    /// Everything, but only if the caller could read it.
    Secret,
}

/// `~/x` below the real HOME; everything else as it is.
pub fn expand(path: &Path, home: &Path) -> PathBuf {
    match path.strip_prefix("~") {
        Ok(rest) => home.join(rest),
        Err(_) => path.to_path_buf(),
    }
}

/// Where the caller's PATH leads, absolute entries only.
fn search_path<'a>(request: &'a Request<'_>) -> impl Iterator<Item = &'a Path> {
    let value = request.variable("PATH").unwrap_or(b"/usr/local/bin:/usr/bin:/bin");
    value
        .split(|&byte| byte == b':')
        .map(|entry| Path::new(std::ffi::OsStr::from_bytes(entry)))
        .filter(|path| path.is_absolute())
}

/// Everything that must be looked at before this request can be planned.
pub fn questions(policy: &Policy, request: &Request<'_>) -> Vec<Question> {
    let home = &request.caller.home;
    let mut questions: Vec<Question> = Vec::with_capacity(128);
    let mut ask = |path: PathBuf, about: About| questions.push(Question { path, about });
    let searched = SYSTEM_SEARCHED.iter().filter(|path| !SYSTEM.contains(path));
    for path in SYSTEM.iter().chain(searched).chain(DEVICES) {
        ask(path.into(), About::Itself);
    }
    for path in SYSTEM_SECRETS.iter().chain([&KEYS_FILE]) {
        ask(path.into(), About::Secret);
    }
    for path in OTHER_USERS {
        ask(path.into(), About::All);
    }
    ask(home.clone(), About::All);
    for path in request.caller.account_home.iter().chain([&request.project]) {
        ask(path.clone(), About::All);
    }
    for name in PINNED.iter().chain([&PROJECT_FILE]) {
        ask(request.project.join(name), About::All);
    }
    for file in policy.sources.ancestors() {
        ask(file.into(), About::All);
    }
    for entry in search_path(request) {
        if let Some(toolchain) = toolchains::toolchain_of(entry, home) {
            for shown in toolchain.shows.iter().chain(toolchain.secrets) {
                ask(home.join(shown), About::All);
            }
        }
        if !SYSTEM.iter().any(|system| entry.starts_with(system)) {
            ask(entry.to_path_buf(), About::All);
        }
    }
    for place in toolchains::places_of_program(request) {
        ask(place, About::All);
    }
    for cache in CACHES.iter().chain(OWN_PARTS) {
        ask(home.join(cache), About::All);
    }
    for grant in policy.files.read.iter().chain(&policy.files.write) {
        ask(expand(&grant.value, home), About::All);
    }
    for (path, _) in hidden::targets(policy, request) {
        ask(path, About::All);
    }
    let own = request.caller.own.iter().chain(&request.caller.programs).cloned();
    for path in own.chain(home::questions(policy, request)) {
        ask(path, About::All);
    }
    ask("/etc/resolv.conf".into(), About::All);
    if policy.net.value == NetMode::Rules && needs_certificate(&policy.network, request.purpose) {
        for (path, _) in bundle::places(request) {
            ask(path, About::All);
        }
    }
    questions.extend(gpu::questions(policy));
    let shims = crate::shims::questions(policy, request).into_iter();
    questions.extend(shims.map(|path| Question { path, about: About::All }));
    questions
}

/// What the answers lead to, and must be looked at as well.
pub fn further_questions(request: &Request<'_>, paths: &Paths) -> Vec<Question> {
    let root = toolchains::program(request, paths).map(|program| program.root);
    let root = root.filter(|root| paths.get(root).is_none());
    root.map(|path| Question { path, about: About::All }).into_iter().collect()
}

/// Collects entries; the same target asked for twice stays one entry.
struct Builder<'a> {
    paths: &'a Paths,
    entries: Vec<Entry>,
    notes: Vec<String>,
}

impl Builder<'_> {
    fn put(&mut self, target: impl Into<PathBuf>, shown: Shown, rule: &'static str, origin: &Origin) {
        let entry = Entry { target: target.into(), shown, rule, origin: origin.clone() };
        match self.entries.iter_mut().find(|other| other.target.as_os_str() == entry.target.as_os_str()) {
            Some(other) => *other = entry,
            None => self.entries.push(entry),
        }
    }

    fn builtin(&mut self, target: impl Into<PathBuf>, shown: Shown, rule: &'static str) {
        self.put(target, shown, rule, &Origin::Builtin);
    }

    /// Whether something of the host can be seen at this path so far.
    fn shows_host(&self, path: &Path) -> bool {
        covering(&self.entries, path).is_some_and(Entry::shows_host)
    }

    /// Whether the host's own file is seen at this path so far. A HOME that is kept stands where the user's does and shows another.
    fn shows_in_place(&self, path: &Path) -> bool {
        covering(&self.entries, path).is_some_and(Entry::shows_in_place)
    }

    /// Shows a tree at its real path, and a link where the caller spelled it differently.
    fn grant(&mut self, path: &Path, fact: &PathFact, writable: bool, rule: &'static str, origin: &Origin) {
        let source = Source::callers(fact);
        let shown = if writable { Shown::Writable(source) } else { Shown::ReadOnly(source) };
        self.put(fact.real.clone(), shown, rule, origin);
        if fact.real != path && !self.shows_in_place(path) {
            self.put(path, Shown::Link { to: fact.real.clone() }, rule, origin);
        }
    }
}

impl View {
    /// The entries that show something, without the masks behind them.
    pub fn shown(&self) -> &[Entry] {
        let masks =
            self.entries.iter().rev().take_while(|entry| matches!(entry.shown, Shown::Hidden { .. })).count();
        &self.entries[..self.entries.len() - masks]
    }

    /// Whether cages of one session may have one `/tmp`. Where something else is shown below it, a command of one cage could move the
    /// folders on the way there while another cage is being made.
    pub fn may_share_tmp(&self) -> bool {
        let tmp = Path::new("/tmp");
        self.entries.iter().all(|entry| entry.target == tmp || !at_or_below(&entry.target, tmp))
    }
}

/// Whether `path` is `above` or lies below it. Both are absolute and plain, so that bytes are enough.
fn at_or_below(path: &Path, above: &Path) -> bool {
    let (path, above) = (path.as_os_str().as_bytes(), above.as_os_str().as_bytes());
    above == b"/" || path.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

/// The entry that decides about a path.
pub fn covering<'a>(entries: &'a [Entry], path: &Path) -> Option<&'a Entry> {
    entries
        .iter()
        .filter(|entry| at_or_below(path, &entry.target))
        // Of several at the same place the last one put wins, as with mounts.
        .max_by_key(|entry| entry.target.as_os_str().len())
}

/// Where the host has what a cage shows at a path, where it is something of the host.
pub fn outside(view: &View, path: &Path) -> Option<PathBuf> {
    let entry = covering(&view.entries, path)?;
    let source = match &entry.shown {
        Shown::ReadOnly(source) | Shown::Writable(source) | Shown::Layer(source) => source,
        Shown::Cache { below: source, .. } | Shown::Repository { source, .. } => source,
        _ => return None,
    };
    let rest = path.strip_prefix(&entry.target).ok()?;
    Some(if rest.as_os_str().is_empty() { source.path.clone() } else { source.path.join(rest) })
}

/// Builds the view.
pub fn view(policy: &Policy, request: &Request<'_>, facts: &HostFacts, cage: Cage) -> Result<View, Refusal> {
    let home = &request.caller.home;
    let homes: Vec<PathBuf> = [Some(home), request.caller.account_home.as_ref()]
        .into_iter()
        .flatten()
        .map(|home| facts.paths.get(home).map_or_else(|| home.clone(), |fact| fact.real.clone()))
        .collect();
    let mut builder = Builder { paths: &facts.paths, entries: Vec::with_capacity(64), notes: Vec::new() };

    system(&mut builder);
    if cage != Cage::Landlock {
        other_users(&mut builder);
    }
    private_places(&mut builder, request, cage);
    gpu::show(&mut builder, policy)?;
    let mut own = home::own_home(&mut builder, policy, request, &homes, cage)?;
    home::git_settings(&mut builder, policy, &own, &facts.project);
    home::shell_settings(&mut builder, &own.at, request);
    home::place_login_settings(&mut builder, &own.at, request);
    match policy.net.value {
        NetMode::Open => resolver(&mut builder),
        NetMode::Rules => {
            own_resolver(&mut builder, RULES_RESOLVER);
            for Bundle { path, .. } in bundles(policy, request, &facts.paths) {
                builder.builtin(path, Shown::Text { text: Vec::new() }, "certificates");
            }
        }
        NetMode::None if cage != Cage::Landlock => own_resolver(&mut builder, LOOPBACK_RESOLVER),
        NetMode::None => {}
    }
    toolchains::show(&mut builder, request);
    toolchains::caches(&mut builder, request, &own.at, cage, facts, policy.trust.value);
    home::logins(&mut builder, policy, request, facts, cage, &mut own)?;
    let notes = home::keychain(policy, request, facts, &mut own);
    builder.notes.extend(notes);
    let project = project(&mut builder, policy, request, &homes, cage, &facts.project)?;
    if cage != Cage::Landlock {
        inside::footholds(&mut builder, request, &facts.project.footholds)?;
        inside::programs(&mut builder, policy, &facts.project.programs);
        inside::repositories(&mut builder, policy, request, facts);
    }
    grants::grants(&mut builder, policy, request, &homes)?;
    files_above(&mut builder, policy, cage);
    own_programs::protect(&mut builder, &request.caller.programs, &facts.project.footholds, cage)?;

    if cage != Cage::Landlock {
        builder.entries.extend(crate::shims::entries(policy, request, &facts.paths));
    }
    inside::only_where_writable(&mut builder.entries);
    links_with_something_below(&mut builder.entries);
    // Parents before what lies in them: a parent is the beginning of its child's path.
    builder.entries.sort_by(|a, b| a.target.as_os_str().cmp(b.target.as_os_str()));
    hidden::hide(&mut builder, policy, request, facts, &own)?;
    inside::exclude(&mut builder.entries, &facts.project.repositories);
    let mut warnings = inside::warnings(policy, project.as_deref(), &facts.project);
    warnings.extend(hidden::warnings(policy, request, facts));
    warnings.extend(project.as_deref().and_then(|project| inside::of_another(project, request, facts)));
    warnings.extend(toolchains::warnings(request, &facts.paths, |entry| builder.shows_in_place(entry)));
    let links = inside::links(&facts.project.footholds);

    let cwd = if builder.shows_host(&request.cwd) {
        request.cwd.clone()
    } else if let Some(project) = &project {
        project.clone()
    } else {
        own.at.clone()
    };
    if project.is_none() {
        warnings.push(no_project(request, &homes, &cwd, &own.at));
    }
    let (search, _) = child_path(&builder.entries, request);
    home::login_settings(&mut builder.entries, &search);
    Ok(View { entries: builder.entries, project, cwd, home: own, notes: builder.notes, links, warnings })
}

/// A link cannot hold anything: where something is granted below `/var/tmp`, it is a folder of the cage's own instead.
fn links_with_something_below(entries: &mut [Entry]) {
    for place in 0..entries.len() {
        let target = entries[place].target.clone();
        let holds = |entry: &Entry| entry.target != target && at_or_below(&entry.target, &target);
        if entries[place].rule == "private"
            && matches!(entries[place].shown, Shown::Link { .. })
            && entries.iter().any(holds)
        {
            entries[place].shown = Shown::Private { mode: 0o1777 };
        }
    }
}

fn system(builder: &mut Builder<'_>) {
    for path in SYSTEM {
        let Some(fact) = builder.paths.existing(Path::new(path)) else { continue };
        match fact.link.clone() {
            Some(to) => builder.builtin(*path, Shown::Link { to }, "system"),
            None => builder.builtin(*path, Shown::ReadOnly(Source::system(*path)), "system"),
        }
    }
}

/// Instead of a puzzling refusal of their own, these say why they cannot work.
fn other_users(builder: &mut Builder<'_>) {
    for path in OTHER_USERS {
        let Some(fact) = builder.paths.existing(Path::new(path)).filter(|fact| fact.kind == Kind::File)
        else {
            continue;
        };
        let (real, name) = (fact.real.clone(), path.rsplit('/').next().unwrap_or(path));
        if builder.shows_host(&real) {
            builder.builtin(real, Shown::Text { text: refusal_of(name).into_bytes() }, "no other user");
        }
    }
}

fn refusal_of(name: &str) -> String {
    format!(
        "#!/bin/sh\necho 'keyward: {name} cannot work in a cage: nothing in it can become another user\n\
         do without it, or ask your user to run it outside; packages can be installed into the project' >&2\nexit 1\n"
    )
}

fn private_places(builder: &mut Builder<'_>, request: &Request<'_>, cage: Cage) {
    for device in DEVICES {
        if builder.paths.existing(Path::new(device)).is_some() {
            builder.builtin(*device, Shown::Device, "device");
        }
    }
    let proc = if cage == Cage::Full { Shown::FreshProc } else { Shown::SharedProc };
    builder.builtin("/proc", proc, "proc");
    if cage == Cage::Landlock {
        // Without mounts nothing can stand in another's place: there is one folder for HOME, TMPDIR and the rest.
        builder.builtin(request.caller.scratch.clone(), Shown::Private { mode: 0o700 }, "private");
        return;
    }
    builder.builtin("/tmp", Shown::Private { mode: 0o1777 }, "private");
    // 0700, because it is also the XDG_RUNTIME_DIR.
    builder.builtin("/run", Shown::Private { mode: 0o700 }, "private");
    builder.builtin("/dev/shm", Shown::Private { mode: 0o1777 }, "private");
    builder.builtin("/var/tmp", Shown::Link { to: "/tmp".into() }, "private");
    builder.builtin("/var/run", Shown::Link { to: "/run".into() }, "private");
    for (link, to) in DEVICE_LINKS {
        builder.builtin(*link, Shown::Link { to: to.into() }, "device");
    }
    builder.builtin("/dev/pts", Shown::Terminals, "device");
    // Landlock takes a queue for a file, also where it is opened by `mq_open`, so that its rule needs a place.
    builder.builtin("/dev/mqueue", Shown::Queues, "device");
}

/// With an open network, names are resolved as on the host; `/etc/resolv.conf` often leads into `/run`. The file alone: what lies beside
/// it may be a socket.
fn resolver(builder: &mut Builder<'_>) {
    let Some(fact) = builder.paths.existing(Path::new("/etc/resolv.conf")) else { return };
    let real = fact.real.clone();
    if fact.kind == Kind::File && !builder.shows_host(&real) {
        let source = Source { directory: false, ..Source::system(real.clone()) };
        builder.builtin(real, Shown::ReadOnly(source), "resolver");
    }
}

/// What a cage finds as `/etc/resolv.conf`. Without a network the launcher answers lookups, at the cage's own loopback: at once, and it knows
/// which host was wanted.
const LOOPBACK_RESOLVER: &str =
    "# The launcher of this cage answers.\nnameserver 127.0.0.1\noptions timeout:1 attempts:1\n";
/// With rules the proxy answers, at addresses that stand for the hosts. A question that is lost, because another program floods the resolver, is asked
/// again after a second.
const RULES_RESOLVER: &str =
    "# keyward:proxy answers for this cage.\nnameserver 198.18.0.1\noptions timeout:1 attempts:5\n";

fn own_resolver(builder: &mut Builder<'_>, text: &str) {
    let Some(fact) = builder.paths.existing(Path::new("/etc/resolv.conf")) else { return };
    let real = fact.real.clone();
    if fact.kind == Kind::File {
        builder.builtin(real, Shown::Text { text: text.into() }, "resolver");
    }
}

/// The host's files with certificates that a cage has with one more. Their text is known when the proxy has begun.
pub fn bundles(policy: &Policy, request: &Request<'_>, paths: &Paths) -> Vec<Bundle> {
    if policy.net.value != NetMode::Rules || !needs_certificate(&policy.network, request.purpose) {
        return Vec::new();
    }
    let mut found: Vec<Bundle> = Vec::new();
    for (path, form) in bundle::places(request) {
        if let Some(fact) = paths.existing(&path).filter(|fact| fact.kind == Kind::File)
            && !found.iter().any(|known| known.path == fact.real)
        {
            found.push(Bundle { path: fact.real.clone(), form });
        }
    }
    found
}

fn is_shared_place(path: &Path) -> bool {
    SHARED_PLACES.iter().any(|place| path == Path::new(place))
}

fn project(
    builder: &mut Builder<'_>,
    policy: &Policy,
    request: &Request<'_>,
    homes: &[PathBuf],
    cage: Cage,
    found: &Project,
) -> Result<Option<PathBuf>, Refusal> {
    let project = &request.project;
    if homes.iter().any(|home| home.starts_with(project))
        || is_shared_place(project)
        || NEVER_PROJECTS.iter().any(|place| project.starts_with(place))
    {
        return Ok(None);
    }
    if let Some(link) = found.unresolved.first() {
        return Err(Refusal {
            kind: RefusalKind::Floor,
            rule: UNSEARCHED.into(),
            fact: format!(
                "{}: it leads into a directory that is closed to you, so that what is there cannot be protected",
                link.display()
            ),
            remedy: "open the directory for yourself, as with `chmod u+rwx`, or remove the link".into(),
        });
    }
    if found.unsearched.iter().any(|unsearched| unsearched.path == *project) {
        return Err(Refusal {
            kind: RefusalKind::Floor,
            rule: UNSEARCHED.into(),
            fact: format!("{} cannot be searched for secret files and footholds", project.display()),
            remedy: "open it for yourself: `chmod u+rwx .` in that directory".into(),
        });
    }
    let Some(fact) = builder.paths.existing(project).cloned() else {
        return Err(Refusal::usage(
            format!("cannot use the current directory {}: it does not exist", project.display()),
            "go to a directory that exists, or name one with `--cwd`",
        ));
    };
    if is_store(&fact.real, homes) {
        return Err(Refusal::policy(
            "project",
            format!("{} holds credentials and is not a project", fact.real.display()),
            "go to the directory that the command works on; `--read` grants a single file by its path",
        ));
    }
    if let Some(profile) = home::of_a_profile(policy, request, &fact.real) {
        return Err(Refusal::policy(
            "project",
            format!("{} is, or holds, the HOME of the profile {profile}", fact.real.display()),
            "programs of that profile would find what the command leaves there: go to another directory",
        ));
    }
    let writable = cage != Cage::Landlock || policy.project.value == ProjectGuard::Unprotected;
    if writable {
        own_places_stay_closed(request, &fact.real, "project", &policy.project.origin)?;
    }
    builder.grant(project, &fact, writable, "project", &policy.project.origin);
    for name in PINNED {
        let path = project.join(name);
        if let (true, Some(mark)) =
            (writable, builder.paths.existing(&path).filter(|mark| mark.link.is_none()))
        {
            // A mount of its own cannot be moved or replaced. What git runs is not written unless it was looked at closer.
            let source = Source::callers(mark);
            let shown = if *name == ".git" { Shown::ReadOnly(source) } else { Shown::Writable(source) };
            builder.put(path, shown, "project mark", &policy.project.origin);
        }
    }
    let narrowing = project.join(PROJECT_FILE);
    if let Some(file) =
        builder.paths.existing(&narrowing).filter(|file| file.link.is_none() && file.kind == Kind::File)
    {
        let source = Source::callers(file);
        builder.put(narrowing, Shown::ReadOnly(source), "project policy", &policy.project.origin);
    }
    Ok(Some(fact.real))
}

/// Says where the command starts instead, if the directory is not a project.
fn no_project(request: &Request<'_>, homes: &[PathBuf], cwd: &Path, home: &Path) -> Warning {
    let place = visible(request.project.as_os_str());
    let why = match homes.iter().any(|home| home.starts_with(&request.project)) {
        true => format!("{place} is, or holds, your HOME and is not a project"),
        false => format!("{place} is shared by many programs and is not a project"),
    };
    let instead = match cwd == home {
        true => "the command starts in the cage's own HOME",
        false => "the command sees it read-only",
    };
    Warning {
        fact: format!("{why}: {instead}"),
        remedy: "go to a directory of your own first, as with `mkdir -p ~/project && cd ~/project`".into(),
        lasting: true,
    }
}

/// Makes the project files above the project read-only where a grant shows them: the next run here is to be narrowed by them as well.
fn files_above(builder: &mut Builder<'_>, policy: &Policy, cage: Cage) {
    for file in policy.sources.ancestors() {
        let fact = builder.paths.existing(file).filter(|fact| fact.link.is_none() && fact.kind == Kind::File);
        let granted =
            covering(&builder.entries, file).filter(|entry| matches!(entry.shown, Shown::Writable(_)));
        if let (true, Some(fact), Some(origin)) =
            (cage != Cage::Landlock, fact, granted.map(|entry| entry.origin.clone()))
        {
            let source = Source::callers(fact);
            builder.put(file, Shown::ReadOnly(source), "project policy", &origin);
        }
    }
    builder.notes.extend(policy.sources.ignored.iter().map(IgnoredFile::sentence));
}

fn is_store(real: &Path, homes: &[PathBuf]) -> bool {
    let secret = |exposure: &&Exposure| exposure.secret && exposure.folder && !exposure.runtime;
    let parts = tools::all().map(|tool| tool.on(Platform::HERE));
    let folders: Vec<&str> = parts.flat_map(|part| part.login).filter(secret).map(|it| it.path).collect();
    let holds = |home: &PathBuf, store: &&str| at_or_below(real, &home.join(store));
    homes.iter().any(|home| STORES.iter().chain(&folders).any(|store| holds(home, store)))
}

/// A command that may write to the folder above our policy, our record or our caches could put others in their place.
fn own_places_stay_closed(
    request: &Request<'_>,
    real: &Path,
    rule: &str,
    origin: &Origin,
) -> Result<(), Refusal> {
    match request.caller.own.iter().find(|own| own.starts_with(real) || real.starts_with(own)) {
        None => Ok(()),
        Some(own) => Err(Refusal::policy(
            rule,
            format!("{} ({origin}) holds keyward's own {}", real.display(), own.display()),
            "a command that can write there could change the rules; work in a directory below it, or beside it",
        )),
    }
}

/// PATH as the child gets it: absolute entries that exist in the view, each once.
pub fn child_path(entries: &[Entry], request: &Request<'_>) -> (Vec<PathBuf>, usize) {
    let mut kept: Vec<PathBuf> = Vec::new();
    let mut left_out = 0;
    let relative = request
        .variable("PATH")
        .unwrap_or(b"")
        .split(|&byte| byte == b':')
        .filter(|entry| !entry.starts_with(b"/") && !entry.is_empty())
        .count();
    for entry in search_path(request) {
        let seen = covering(entries, entry)
            .is_some_and(|entry| !matches!(entry.shown, Shown::Private { .. } | Shown::Hidden { .. }));
        if !seen {
            left_out += 1;
        } else if !kept.iter().any(|other| other == entry) {
            kept.push(entry.to_path_buf());
        }
    }
    if kept.is_empty() {
        kept.extend(["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from));
    }
    (kept, left_out + relative)
}
