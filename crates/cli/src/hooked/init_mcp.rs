//! `keyward init mcp`: puts `keyward mcp` before the MCP servers in the settings of all agents that Keyward knows, and takes it away again.

use super::settings_file::{Done, Settings, confirmed};
use super::{own_programs, place};
use crate::args::InitArgs;
use crate::here::Here;
use crate::{files, here, say};
use keyward_policy::agent::{Format, Spot};
use keyward_policy::hook::servers::{self, Server, Shown, What};
use keyward_policy::text::visible;
use keyward_policy::trouble::{Code, Trouble};
use keyward_sys::environ::Block;
use std::path::{Path, PathBuf};

/// A settings file, and the places in it that list servers.
struct Listing {
    settings: Settings,
    spots: Vec<Spot>,
}

pub fn init(args: &InitArgs, block: &Block) -> Result<i32, Trouble> {
    let here = here::look(&block.entries(), None).map_err(|refusal| Trouble::from(&refusal))?;
    let mut is_changed = false;
    for listing in listings(args, &here, block)? {
        is_changed |= match args.undo {
            true => listing.undo(args)?,
            false => listing.add(args, &here, block)?,
        };
    }
    if !is_changed && !args.undo {
        say::answer(
            "no MCP server in the settings of your agents is left without a cage; nothing is changed",
        );
    }
    if !is_changed && args.undo {
        say::answer("no MCP server has a cage of `keyward init mcp`; nothing is changed");
    }
    Ok(0)
}

/// The settings files that are there: the user's own, or those of this project.
fn listings(args: &InitArgs, here: &Here, block: &Block) -> Result<Vec<Listing>, Trouble> {
    let mut all: Vec<Listing> = Vec::new();
    for name in files::agents(here) {
        let Some(agent) = files::agent(&name, here)? else { continue };
        for spot in agent.mcp {
            let path = place(&spot.path, &name, here, &block.entries());
            if spot.path.starts_with("~/") == args.project || !path.is_file() {
                continue;
            }
            if spot.format == Format::Yaml {
                say::note(&format!(
                    "{} is YAML, and stays as it is; start the servers in it as `keyward mcp -- COMMAND`",
                    visible(path.as_os_str())
                ));
                continue;
            }
            match all.iter_mut().find(|listing| listing.settings.file == path) {
                Some(listing) => listing.spots.push(spot),
                None => {
                    all.push(Listing { settings: Settings::new(path, "%mcp", block), spots: vec![spot] });
                }
            }
        }
    }
    Ok(all)
}

impl Listing {
    fn add(&self, args: &InitArgs, here: &Here, block: &Block) -> Result<bool, Trouble> {
        let keyward = program(args, block)?;
        let Some(before) = self.settings.read()? else { return Ok(false) };
        let (mut after, mut done) = (before.clone(), Vec::new());
        for spot in &self.spots {
            let look = |path: &str| look(Path::new(path), args.project, here);
            let (text, more) = servers::caged(spot, &after, &keyward, &look).map_err(|not| self.not(not))?;
            after = text;
            done.extend(more);
        }
        if done.is_empty() {
            return Ok(false);
        }
        let mut lines = vec![format!("{}:", self.settings.shown())];
        lines.extend(done.iter().flat_map(told));
        say::answer(&lines.join("\n"));
        if after == before || !confirmed(args)? {
            return Ok(true);
        }
        // The oldest text counts, unless the user has changed the file since.
        let kept = self.settings.kept_of().filter(|done| done.after == before);
        let oldest = kept.map_or(Some(before), |done| done.before);
        let path = self.settings.file.clone();
        self.settings.keep(&Done { v: 1, path, before: oldest, after: after.clone() })?;
        self.settings.write(&after)?;
        say::answer(
            "these servers start in cages from the next start of their agent on; `keyward init mcp --undo` takes this back",
        );
        Ok(true)
    }

    fn undo(&self, args: &InitArgs) -> Result<bool, Trouble> {
        let Some(now) = self.settings.read()? else { return Ok(false) };
        let done = self.settings.kept_of();
        let after = match &done {
            Some(done) if done.after == now => done.before.clone().unwrap_or_default(),
            _ => {
                let before = done.as_ref().and_then(|done| done.before.as_deref());
                let mut text = now.clone();
                for spot in &self.spots {
                    // Those that had a cage before `keyward init mcp` keep it.
                    let old =
                        before.and_then(|before| servers::servers(spot, before).ok()).unwrap_or_default();
                    let is_meant =
                        |server: &Server| !old.iter().any(|other| other.at == server.at && other.is_caged());
                    text = servers::uncaged(spot, &text, &is_meant).map_err(|not| self.not(not))?;
                }
                text
            }
        };
        if after == now {
            return Ok(false);
        }
        let mut lines = vec![format!("{}:", self.settings.shown())];
        for spot in &self.spots {
            let old = servers::servers(spot, &after).unwrap_or_default();
            let caged = servers::servers(spot, &now).unwrap_or_default();
            let is_freed = |server: &&Server| {
                server.is_caged() && old.iter().any(|other| other.at == server.at && !other.is_caged())
            };
            lines.extend(
                caged
                    .iter()
                    .filter(is_freed)
                    .map(|server| format!("  {}: without a cage again", visible(server.name().as_ref()))),
            );
        }
        say::answer(&lines.join("\n"));
        if confirmed(args)? {
            self.settings.write(&after)?;
            self.settings.forget();
        }
        Ok(true)
    }

    fn not(&self, not: keyward_policy::hook::settings::NotChanged) -> Trouble {
        self.settings.not_changed(not, "an agent")
    }
}

/// How settings name Keyward: by its path here, and by its name in the files of a project, which others share.
fn program(args: &InitArgs, block: &Block) -> Result<String, Trouble> {
    if args.project {
        return Ok("keyward".into());
    }
    let (keyward, _) = own_programs(block)?;
    keyward.to_str().map(str::to_owned).ok_or_else(|| {
        let path = visible(keyward.as_os_str());
        Trouble::new(
            Code::Usage,
            format!("{path} is not UTF-8, and settings are"),
            "install Keyward elsewhere",
        )
    })
}

/// The lines about one server.
fn told(done: &servers::Done) -> Vec<String> {
    let name = visible(done.server.as_ref());
    let mut lines = Vec::new();
    match &done.what {
        What::Left(why) => lines.push(format!("  {name}: stays as it is: {why}")),
        What::Caged { phantoms, kept_back, paths } => {
            lines.push(format!("  {name}: {}", visible(done.shown.as_ref())));
            if !phantoms.is_empty() {
                lines.push(format!("    gets a phantom of {}", phantoms.join(", ")));
            }
            for variable in kept_back {
                lines.push(format!(
                    "    does not get {variable}, because its host is not known: `keyward secret set NAME --to HOST --as {variable}`, and `--secret NAME` before `--`"
                ));
            }
            for Shown { path, writable } in paths {
                let may = if *writable { "may read and write" } else { "may read" };
                lines.push(format!("    {may} {}", visible(path.as_ref())));
            }
        }
    }
    lines
}

/// Files that stand at the top of a program's own directory.
const TOPS: &[&str] =
    &["package.json", "pyproject.toml", "setup.py", "Cargo.toml", "go.mod", "deno.json", ".git"];

/// What of a path in a server's arguments it is shown: a directory to work in, or the directory of the program that a file belongs to.
/// The server of a project finds the project itself.
fn look(path: &Path, of_project: bool, here: &Here) -> Option<Shown> {
    let real = std::fs::canonicalize(path).ok()?;
    let is_system =
        ["/usr", "/bin", "/lib", "/lib64", "/etc", "/sbin"].iter().any(|top| real.starts_with(top));
    if is_system || of_project && real.starts_with(&here.project) || here.caller.home.starts_with(&real) {
        return None;
    }
    let shown = |path: &Path, writable| path.to_str().map(|path| Shown { path: path.to_owned(), writable });
    if real.is_dir() {
        return shown(path, true);
    }
    let is_below_home = |directory: &&Path| !here.caller.home.starts_with(directory);
    let above: Vec<PathBuf> = real.ancestors().skip(1).take_while(is_below_home).map(PathBuf::from).collect();
    let top = above.iter().find(|directory| TOPS.iter().any(|name| directory.join(name).exists()));
    shown(top.unwrap_or(&real), false)
}
