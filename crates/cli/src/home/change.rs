//! `keyward home add`, `share` and `remove`: one change of the user's policy file, written whole or not at all.

use crate::args::ToolArgs;
use crate::explain::NoPlan;
use crate::files::{self, Links};
use crate::here::{self, Here};
use crate::rewrite::{Folder, NotWritten};
use crate::{decide, say};
use keyward_policy::config::{self, Change, Document, Edited, NotEdited, PolicyError, Wish};
use keyward_policy::outcome::code;
use keyward_policy::request::Request;
use keyward_policy::text::visible;
use keyward_policy::tools::{self, Exposure, Platform};
use keyward_policy::trouble::{Code, Trouble};
use keyward_policy::view::place_outside;
use keyward_sys::environ::Block;
use std::path::Path;

/// Why nothing was written.
enum Failed {
    Mistakes(PolicyError),
    Told(Trouble),
}

impl From<NotEdited> for Failed {
    fn from(not_edited: NotEdited) -> Self {
        match not_edited {
            NotEdited::Policy(error @ PolicyError::Mistakes(_)) => Failed::Mistakes(error),
            NotEdited::Policy(error) => Failed::Told(error.into()),
            NotEdited::Unfit { fact, remedy } => Failed::Told(Trouble::new(Code::Usage, fact, remedy)),
        }
    }
}

impl From<files::Unreadable> for Failed {
    fn from(unreadable: files::Unreadable) -> Self {
        Failed::Told(unreadable.into())
    }
}

impl From<NotWritten> for Failed {
    fn from(NotWritten { path, cause }: NotWritten) -> Self {
        Failed::Told(Trouble::new(
            Code::File,
            format!("cannot write {}: {}", visible(path.as_os_str()), say::cause(&cause)),
            "nothing was changed; check the permissions there, and whether another program manages this file",
        ))
    }
}

pub fn change(change: Change, args: &ToolArgs, block: &Block) -> i32 {
    let environment = block.entries();
    let here = match here::look(&environment, None) {
        Ok(here) => here,
        Err(refusal) => return NoPlan::Refused(refusal).tell(false),
    };
    if let Err(trouble) = files::adopt(&here) {
        return NoPlan::Policy(trouble).tell(false);
    }
    let file = short(&here.config.join("policy.toml"), &here.caller.home);
    let wish = Wish { change, tools: &args.tools, file: &file, profile: args.profile.as_deref() };
    match write(&wish, &here) {
        Ok(edited) => {
            tell(&edited, &wish, &decide::request(Vec::new(), &here, &environment));
            0
        }
        Err(Failed::Mistakes(error)) => {
            say::trouble_as_written(&error.to_string());
            code::USAGE
        }
        Err(Failed::Told(no_policy)) => NoPlan::Policy(no_policy).tell(false),
    }
}

/// Reads, changes and writes the file under a lock.
fn write(wish: &Wish<'_>, here: &Here) -> Result<Edited, Failed> {
    let file = here.config.join("policy.toml");
    let name = file.to_string_lossy();
    let ceiling = files::read(Path::new(files::CEILING), Links::Followed)?;
    let ceiling = ceiling.as_deref().map(|text| Document { name: files::CEILING, text });
    let edit = |text: Option<&[u8]>| config::edit(&name, text, ceiling, wish);
    // What is refused leaves no folder behind.
    edit(files::read(&file, Links::Followed)?.as_deref())?;
    let folder = Folder::lock(&here.config)?;
    let edited = edit(files::read(&file, Links::Followed)?.as_deref())?;
    if let Some(text) = &edited.text {
        folder.replace(&file, text.as_bytes())?;
    }
    Ok(edited)
}

fn tell(edited: &Edited, wish: &Wish<'_>, request: &Request<'_>) {
    for line in edited.done.iter().chain(&edited.notes) {
        say::answer(line);
    }
    if wish.change != Change::Remove {
        let mut told: Vec<&str> = Vec::new();
        for name in wish.tools {
            if !told.contains(&name.as_str()) {
                told.push(name);
                say::answer(&found(name, request));
            }
        }
    }
}

/// What of a tool's login is there.
fn found(name: &str, request: &Request<'_>) -> String {
    let Some(tool) = tools::tool(name) else { return String::new() };
    let part = tool.on(Platform::HERE);
    if part.login.is_empty() && part.services.is_empty() {
        return format!("{name}: it has no login");
    }
    let there: Vec<&Exposure> = part
        .login
        .iter()
        .filter(|exposure| place_outside(exposure, request).symlink_metadata().is_ok())
        .collect();
    let paths: Vec<String> =
        there.iter().map(|exposure| short(&place_outside(exposure, request), &request.caller.home)).collect();
    match (paths.is_empty(), there.iter().any(|exposure| exposure.secret)) {
        (true, _) => format!("{name}: nothing of its login is there yet; log in outside, with {name} itself"),
        (false, true) => format!("{name}: {} found", paths.join(", ")),
        (false, false) => format!(
            "{name}: {} found, and no login yet; log in outside, with {name} itself",
            paths.join(", ")
        ),
    }
}

/// A path with `~` for HOME.
fn short(path: &Path, home: &Path) -> String {
    match path.strip_prefix(home) {
        Ok(below) if home != Path::new("/") => format!("~/{}", visible(below.as_os_str())),
        _ => visible(path.as_os_str()),
    }
}
