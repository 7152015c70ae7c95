//! `keyward home show`: what a HOME is and shows, tool by tool and file by file, read off the plan of a run. And `keyward home tools`:
//! what is known of each tool.

use crate::plan::Plan;
use crate::request::Request;
use crate::settings::Policy;
use crate::text::visible;
use crate::tools::{self, Exposure, Platform, Tool, Writes};
use crate::view::{Entry, Keyring, LOGIN, Mend, Shown, Withheld, place_outside};
use crate::words::{HomeMode, Origin, Ruled, TrustClass};
use serde::Serialize;
use std::ffi::OsStr;
use std::fmt::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The HOME of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Inventory {
    pub v: u32,
    pub profile: Option<String>,
    pub class: Ruled<TrustClass>,
    pub mode: Ruled<HomeMode>,
    pub is: Which,
    /// Where it stands in the cage.
    #[serde(serialize_with = "crate::text::path")]
    pub at: PathBuf,
    /// The folder of the host that it is.
    #[serde(serialize_with = "crate::text::optional_path")]
    pub kept: Option<PathBuf>,
    pub tools: Vec<ToolShown>,
    pub withheld: Vec<Withheld>,
    pub keyring: Option<Keyring>,
    pub mends: Vec<Mend>,
    /// Variables that lead tools to files which are not shown.
    pub moved: Vec<Moved>,
}

/// Which folder it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Which {
    /// Kept from run to run.
    Kept,
    /// Made for each run, and gone with it.
    Empty,
    /// The user's own.
    Real,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ToolShown {
    pub tool: &'static str,
    pub shared: bool,
    pub found: bool,
    pub origin: Origin,
    pub files: Vec<FileShown>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileShown {
    /// Outside.
    #[serde(serialize_with = "crate::text::path")]
    pub path: PathBuf,
    pub folder: bool,
    pub secret: bool,
    pub there: bool,
    pub how: How,
}

/// What becomes of changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    ReadOnly,
    /// Gone with the cage.
    Private,
    /// Kept for the profile, above what is there.
    Kept,
    WrittenThrough,
    /// With phantoms in its secret fields; only what the proxy renews reaches the real one.
    Phantoms,
    /// The HOME has a file of its own there, which is used.
    Own,
    /// There is something else than the tool keeps there.
    NotShown,
}

impl How {
    fn text(self) -> &'static str {
        match self {
            How::ReadOnly => "read-only",
            How::Private => "private",
            How::Kept => "kept for the profile",
            How::WrittenThrough => "written through",
            How::Phantoms => "phantoms in its secret fields",
            How::Own => "this HOME has its own",
            How::NotShown => "not shown: it is not what its tool keeps there",
        }
    }

    fn of(writes: Writes) -> Self {
        match writes {
            Writes::Never => How::ReadOnly,
            Writes::Private => How::Private,
            Writes::Kept => How::Kept,
            Writes::Through => How::WrittenThrough,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Moved {
    pub variable: &'static str,
    pub tool: &'static str,
}

/// Reads it off a plan. `is_there` says whether something stands at a path.
pub fn inventory(
    policy: &Policy,
    request: &Request<'_>,
    plan: &Plan,
    is_there: &dyn Fn(&Path) -> bool,
) -> Inventory {
    let home = &plan.view.home;
    let real = plan.view.entries.iter().any(|entry| entry.rule == "home" && entry.shows_in_place())
        && home.kept.is_none();
    let is = match (&home.kept, real) {
        (Some(_), _) => Which::Kept,
        (None, true) => Which::Real,
        (None, false) => Which::Empty,
    };
    let file = |exposure: &Exposure| {
        let path = place_outside(exposure, request);
        let there = is_there(&path);
        let own = home.kept.as_ref().is_some_and(|kept| is_there(&kept.join(exposure.path)));
        let how = match entry_of(plan, exposure, &path) {
            Some(entry) => how(entry),
            None if is == Which::Real => How::WrittenThrough,
            None if there && own => How::Own,
            None if there => How::NotShown,
            None => How::of(exposure.writes),
        };
        FileShown { path, folder: exposure.folder, secret: exposure.secret, there, how }
    };
    let mut all = Vec::with_capacity(home.logins.len());
    let mut moved = Vec::new();
    for login in &home.logins {
        let Some(tool) = tools::tool(login.tool) else { continue };
        let part = tool.on(request.platform);
        let shared = part.share.iter().filter(|_| login.shared);
        let files: Vec<FileShown> = part.login.iter().chain(shared).map(file).collect();
        let leads_away = |variable: &&&'static str| leads_away(request, variable, &files);
        let variables = part.variables.iter().filter(leads_away);
        moved.extend(variables.map(|variable| Moved { variable, tool: tool.name }));
        all.push(ToolShown {
            tool: tool.name,
            shared: login.shared,
            found: login.found,
            origin: login.origin.clone(),
            files,
        });
    }
    Inventory {
        v: 1,
        profile: plan.profile.clone(),
        class: plan.trust.clone(),
        mode: policy.home.mode.clone(),
        is,
        at: home.at.clone(),
        kept: home.kept.clone(),
        tools: all,
        withheld: home.withheld.clone(),
        keyring: home.keyring.clone(),
        mends: home.mends.clone(),
        moved,
    }
}

/// The place of the view at which something of a tool is shown.
fn entry_of<'a>(plan: &'a Plan, exposure: &Exposure, outside: &Path) -> Option<&'a Entry> {
    let above = if exposure.runtime { Path::new("/run") } else { &plan.view.home.at };
    let inside = above.join(exposure.path);
    let at = |target: &Path| plan.view.entries.iter().find(|it| it.rule == LOGIN && it.target == target);
    let below = || {
        let is_phantom = |entry: &&Entry| matches!(entry.shown, Shown::Login { .. });
        plan.view.entries.iter().filter(is_phantom).find(|entry| entry.target.starts_with(&inside))
    };
    at(&inside).or_else(|| at(outside)).or_else(below)
}

fn how(entry: &Entry) -> How {
    match &entry.shown {
        Shown::Writable(_) | Shown::Copied { through: true, .. } => How::WrittenThrough,
        Shown::Layer(_) | Shown::Copied { through: false, .. } => How::Private,
        Shown::Cache { .. } => How::Kept,
        Shown::Login { .. } => How::Phantoms,
        _ => How::ReadOnly,
    }
}

/// Whether a variable is set and leads elsewhere than to the files that are shown.
fn leads_away(request: &Request<'_>, variable: &str, files: &[FileShown]) -> bool {
    let Some(value) = request.variable(variable).filter(|value| !value.is_empty()) else { return false };
    let path = Path::new(OsStr::from_bytes(value));
    // HOME itself is above every file, and says nothing about any of them.
    let above_all = request.caller.home.starts_with(path);
    !files.is_empty() && (above_all || !files.iter().any(|file| file.path.starts_with(path)))
}

/// A path for people, with `~` for HOME.
fn short(path: &Path, home: &Path) -> String {
    match path.strip_prefix(home) {
        Ok(below) if home != Path::new("/") => format!("~/{}", visible(below.as_os_str())),
        _ => visible(path.as_os_str()),
    }
}

impl Inventory {
    /// For people. `home` is the real one.
    pub fn text(&self, home: &Path) -> String {
        let mut text = String::new();
        let which = match self.is {
            Which::Kept => "kept from run to run",
            Which::Empty => "empty, and gone with the cage",
            Which::Real => "your own",
        };
        let profile = self.profile.as_deref().unwrap_or("none");
        let _ = writeln!(text, "{:<9} {profile}", "profile");
        let _ = writeln!(text, "{:<9} {} ({})", "class", self.class.value, self.class.origin);
        let _ = writeln!(text, "{:<9} {} ({})", "mode", self.mode.value, self.mode.origin);
        let _ = writeln!(text, "{:<9} {} ({which})", "HOME", visible(self.at.as_os_str()));
        if let Some(kept) = &self.kept {
            let _ = writeln!(text, "{:<9} {}", "kept in", visible(kept.as_os_str()));
        }
        self.tools_text(&mut text, home);
        for Withheld { tool, why, origin } in &self.withheld {
            let _ = writeln!(text, "\n{tool} is not shown ({origin})\n  {why}");
        }
        if let Some(keyring) = &self.keyring {
            let _ = writeln!(text, "\nthe keyring: items named {}, read-only", keyring.items.join(", "));
        }
        if !self.mends.is_empty() {
            let _ = writeln!(text, "\nfixed before a run");
        }
        for mend in &self.mends {
            let _ = match mend {
                Mend::DropLink { at } => {
                    writeln!(text, "  {}: a link that leads nowhere is removed", visible(at.as_os_str()))
                }
                Mend::Link { at, to } => {
                    let (at, to) = (visible(at.as_os_str()), visible(to.as_os_str()));
                    writeln!(text, "  {at}: becomes a link to {to}")
                }
            };
        }
        for Moved { variable, tool } in &self.moved {
            let _ = writeln!(
                text,
                "\n{variable} is set and leads {tool} to files elsewhere: those are not shown"
            );
        }
        text
    }

    fn tools_text(&self, text: &mut String, home: &Path) {
        // A login that was not requested and does not exist is not worth a line.
        let worth = |tool: &&ToolShown| tool.found || tool.origin != Origin::Builtin;
        let mut any = false;
        for tool in self.tools.iter().filter(worth) {
            any = true;
            let login = tool.files.iter().any(|file| file.there && file.secret);
            let what = match (tool.found, login, tool.shared) {
                (false, ..) => "nothing of it is there",
                (true, false, _) => "shown, and no login is there",
                (true, true, false) => "its login is shown",
                (true, true, true) => "its login, sessions and settings are shown",
            };
            let _ = writeln!(text, "\n{}: {what} ({})", tool.tool, tool.origin);
            for file in &tool.files {
                let path = short(&file.path, home) + if file.folder { "/" } else { "" };
                let how = if file.there { file.how.text() } else { "not there" };
                let _ = writeln!(text, "  {path:<40} {how}");
            }
        }
        if !any && self.withheld.is_empty() {
            let _ = writeln!(text, "\nno login is shown; `keyward home add TOOL -p PROFILE` shows one");
        }
    }
}

/// What is known of one tool, here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Known {
    pub tool: &'static str,
    pub programs: &'static [&'static str],
    pub login: Vec<Needed>,
    /// What sharing shows besides.
    pub share: Vec<Needed>,
    pub services: Vec<&'static str>,
}

/// Relative to HOME, or to XDG_RUNTIME_DIR.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Needed {
    pub path: &'static str,
    pub folder: bool,
    pub secret: bool,
    pub runtime: bool,
    pub how: How,
}

/// All tools.
pub fn known(platform: Platform) -> Vec<Known> {
    let needed = |all: &'static [Exposure]| all.iter().map(Needed::of).collect();
    let known = |tool: &'static Tool| {
        let part = tool.on(platform);
        let services = part.services.iter().map(|service| service.name()).collect();
        let (login, share) = (needed(part.login), needed(part.share));
        Known { tool: tool.name, programs: tool.programs, login, share, services }
    };
    tools::all().map(known).collect()
}

impl Needed {
    fn of(exposure: &Exposure) -> Self {
        let Exposure { path, folder, secret, runtime, writes, .. } = *exposure;
        Needed { path, folder, secret, runtime, how: How::of(writes) }
    }
}

impl Known {
    /// For people, one line for each file.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut name = self.tool;
        for Needed { path, folder, runtime, how, .. } in &self.login {
            let above = if *runtime { "$XDG_RUNTIME_DIR" } else { "~" };
            let path = format!("{above}/{path}{}", if *folder { "/" } else { "" });
            let _ = writeln!(text, "{name:<10} {path:<42} {}", how.text());
            name = "";
        }
        if !self.services.is_empty() {
            let _ = writeln!(text, "{name:<10} asks {}", self.services.join(", "));
            name = "";
        }
        if !name.is_empty() {
            let _ = writeln!(text, "{name:<10} it has no login");
        }
        text
    }
}
