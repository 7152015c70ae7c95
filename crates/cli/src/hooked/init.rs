//! `keyward init AGENT`: writes hooks into the settings of an agent that its user starts outside of any cage, and takes them out again.
//!
//! The change is shown first. What the file was before is kept in Keyward's state directory, so that `--undo` brings back every byte.

use super::settings_file::{Done, Settings};
use super::{init_mcp, own_programs, place};
use crate::args::{InitArgs, InitWhat};
use crate::rewrite::{Folder, NotWritten};
use crate::{here, say};
use keyward_policy::hook::Agent;
use keyward_policy::hook::diff::diff;
use keyward_policy::hook::settings::{self, NotChanged, Own};
use keyward_policy::protection::Hooks;
use keyward_policy::text::visible;
use keyward_policy::trouble::{Code, Trouble};
use keyward_sys::environ::Block;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

pub fn init(args: &InitArgs, block: &Block) -> i32 {
    let done = match args.what {
        _ if here::is_cage() => Err(Trouble::new(
            Code::OnlyOutside,
            "the settings of an agent are not changed from inside a cage",
            "run this command in a shell of yours",
        )),
        InitWhat::Mcp => init_mcp::init(args, block),
        InitWhat::Agent(agent) => Place::find(agent, args.project, block)
            .and_then(|place| if args.undo { place.undo(args) } else { place.add(args) }),
    };
    done.unwrap_or_else(|trouble| say::failure(&trouble))
}

/// Whether the hooks of an agent are as `init` writes them, in the user's settings or in those of this project.
pub fn state(agent: Agent, block: &Block) -> Hooks {
    let in_file = |project| {
        let place = Place::find(agent, project, block).ok()?;
        let text = place.settings.read().ok()??;
        Some(match settings::added(agent, &text, &place.own) {
            Ok(after) if after == text => Hooks::Intact,
            Err(NotChanged::Malformed(_)) => Hooks::Unreadable,
            _ => match settings::removed(agent, &text) {
                Ok(without) if without != text => Hooks::Changed,
                _ => Hooks::Missing,
            },
        })
    };
    let found: Vec<Hooks> = [false, true].into_iter().filter_map(in_file).collect();
    let is_found = |wanted: &Hooks| found.contains(wanted);
    let order = [Hooks::Unreadable, Hooks::Intact, Hooks::Changed];
    order.into_iter().find(|wanted| is_found(wanted)).unwrap_or(Hooks::Missing)
}

/// The settings of one agent.
struct Place {
    agent: Agent,
    settings: Settings,
    own: Own,
    shell: PathBuf,
}

impl Place {
    fn find(agent: Agent, project: bool, block: &Block) -> Result<Self, Trouble> {
        let entries = block.entries();
        let (keyward, shell) = own_programs(block)?;
        let text = |path: &Path| {
            path.to_str().map(str::to_owned).ok_or_else(|| {
                let path = visible(path.as_os_str());
                Trouble::new(
                    Code::Usage,
                    format!("{path} is not UTF-8, and settings are"),
                    "install Keyward elsewhere",
                )
            })
        };
        let own = Own { keyward: text(&keyward)?, shell: text(&shell)? };
        let look = here::look(&entries, None).map_err(|refusal| Trouble::from(&refusal))?;
        let below = match (agent, project) {
            (Agent::ClaudeCode, false) => "~/.claude/settings.json",
            // The one that is for this user alone: it names programs by their paths here.
            (Agent::ClaudeCode, true) => ".claude/settings.local.json",
            (Agent::Codex, false) => "~/.codex/hooks.json",
            (Agent::Codex, true) => ".codex/hooks.json",
            (Agent::Gemini, false) => "~/.gemini/settings.json",
            (Agent::Gemini, true) => ".gemini/settings.json",
            (Agent::Hermes, false) => "~/.hermes/plugins/keyward/__init__.py",
            (Agent::Hermes, true) => ".hermes/plugins/keyward/__init__.py",
            (Agent::OpenCode, false) => "~/.config/opencode/plugin/keyward.js",
            (Agent::OpenCode, true) => ".opencode/plugin/keyward.js",
        };
        let file = place(below, agent.short(), &look, &entries);
        Ok(Place { agent, settings: Settings::new(file, "", block), own, shell })
    }

    fn add(&self, args: &InitArgs) -> Result<i32, Trouble> {
        let before = self.settings.read()?;
        let text = before.as_deref().unwrap_or_default();
        let after = settings::added(self.agent, text, &self.own).map_err(|not| self.not_changed(not))?;
        if after == text {
            self.make_shell()?;
            say::answer(&format!(
                "{} has what Keyward needs already; nothing is changed",
                self.settings.shown()
            ));
            return Ok(0);
        }
        if !self.settings.may_go_on(args, text, &after)? {
            return Ok(0);
        }
        // Before the settings name it.
        self.make_shell()?;
        // The oldest text counts, unless the user has changed the file since.
        let kept = self.settings.kept_of().filter(|done| Some(&done.after) == before.as_ref());
        let before = kept.map_or(before, |done| done.before);
        self.settings.keep(&Done { v: 1, path: self.settings.file.clone(), before, after: after.clone() })?;
        self.settings.write(&after)?;
        let name = self.agent.name();
        say::answer(&format!(
            "{name} sends its tool calls to Keyward from its next start on; `keyward init {agent} --undo` takes this back",
            agent = self.agent.word()
        ));
        if self.agent == Agent::Hermes {
            say::answer("Hermes loads only plugins that you have enabled: `hermes plugins enable keyward`");
        }
        if self.agent == Agent::Codex {
            say::answer(
                "Codex runs new hooks only after you have trusted them: start it once, and trust the two of Keyward's",
            );
        }
        Ok(0)
    }

    fn undo(&self, args: &InitArgs) -> Result<i32, Trouble> {
        let now = self.settings.read()?;
        let text = now.clone().unwrap_or_default();
        let done = self.settings.kept_of();
        let (after, changed) = match &done {
            Some(done) if Some(&done.after) == now.as_ref() => (done.before.clone(), None),
            _ => {
                let without = settings::removed(self.agent, &text).map_err(|not| self.not_changed(not))?;
                let changed = done.as_ref().map(|done| diff(&done.after, &text));
                // The plugin is a file of its own.
                let is_file = now.is_some() && !(self.agent.has_plugin() && without.is_empty());
                (is_file.then_some(without), changed)
            }
        };
        if after == now {
            say::answer(&format!("{} has nothing of Keyward's; nothing is changed", self.settings.shown()));
            self.settings.forget();
            return Ok(0);
        }
        if let Some(changed) = changed.filter(|changed| !changed.is_empty()) {
            say::answer(&format!(
                "since Keyward changed it, {} was changed again; that stays:\n{changed}",
                self.settings.shown()
            ));
        }
        if !self.settings.may_go_on(args, &text, after.as_deref().unwrap_or_default())? {
            return Ok(0);
        }
        match &after {
            Some(after) => self.settings.write(after)?,
            None => self.settings.remove()?,
        }
        self.remove_manifest();
        self.settings.forget();
        say::answer(&format!("{} does not send its tool calls to Keyward any more", self.agent.name()));
        Ok(0)
    }

    fn not_changed(&self, not: NotChanged) -> Trouble {
        self.settings.not_changed(not, self.agent.name())
    }

    /// The file by which Hermes knows its plugin, and what stands in it.
    fn manifest(&self) -> Option<(PathBuf, &'static str)> {
        let (name, text) = settings::HERMES_MANIFEST;
        let folder = self.settings.file.parent().filter(|_| self.agent == Agent::Hermes)?;
        Some((folder.join(name), text))
    }

    fn remove_manifest(&self) {
        if let Some((path, text)) = self.manifest()
            && std::fs::read_to_string(&path).is_ok_and(|there| there == text)
        {
            let _ = std::fs::remove_file(&path);
            // What Python has compiled is of no use without it.
            let folder = path.parent().unwrap_or(Path::new("/"));
            let _ = std::fs::remove_dir_all(folder.join("__pycache__"));
            let _ = std::fs::remove_dir(folder);
        }
    }

    /// Makes what has to be there beside the settings: the program that Claude Code puts before each command, or what Hermes knows its plugin by.
    fn make_shell(&self) -> Result<(), Trouble> {
        if let Some((path, text)) = self.manifest() {
            let folder = path.parent().unwrap_or(Path::new("/"));
            return Folder::lock(folder)
                .and_then(|folder| folder.replace(&path, text.as_bytes()))
                .map_err(|NotWritten { cause, .. }| self.settings.unusable("write beside", &cause));
        }
        if self.agent != Agent::ClaudeCode {
            return Ok(());
        }
        let failed = |cause: std::io::Error| {
            let path = visible(self.shell.as_os_str());
            Trouble::new(
                Code::File,
                format!("cannot make {path}: {}", say::cause(&cause)),
                "make room there, or fix its permissions",
            )
        };
        let script = settings::claude_shell(&self.own.keyward);
        if std::fs::read_to_string(&self.shell).is_ok_and(|there| there == script) {
            return Ok(());
        }
        let folder = self.shell.parent().unwrap_or(Path::new("/"));
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        let new = folder.join(format!(".shell-{}", std::process::id()));
        let _ = std::fs::remove_file(&new);
        std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o700)
            .open(&new)
            .and_then(|mut file| file.write_all(script.as_bytes()))
            .and_then(|()| std::fs::rename(&new, &self.shell))
            .map_err(failed)
    }
}
