//! Settings: safe additions of the command's come over, and the host's go to the command.

use super::{Exchange, Part};
use crate::git::base;
use crate::git::layer::private_settings;
use crate::git::place::{self, Thing};
use crate::git::refs;
use keyward_policy::outcome::{NewRemote, RepositoryNews};
use keyward_policy::untrusted::git::Check;
use keyward_policy::untrusted::git::config::{self, Config, Name, Versions};
use rustix::io::Errno;
use std::path::Path;

impl Exchange<'_> {
    /// Only what is safe, and added to what the host has now. What a branch followed goes with it, once it is known to be gone.
    pub(super) fn settings(&mut self, part: &mut Part, is_last: bool) {
        let (path, most) = (Path::new("config"), Check::Text.most());
        let cage = match place::read(&part.cage, path, most) {
            Ok((cage, _)) => cage,
            // A repository without settings of its own: the command has not made any.
            Err(Errno::NOENT) if place::read(&part.host, path, most).err() == Some(Errno::NOENT) => return,
            Err(_) => return self.keep_back(part, path, "it cannot be read"),
        };
        if cage == part.base.config && part.base.merged_config.is_none() {
            return;
        }
        let has_moved = self.has_ended() && self.moved_module(part, &cage);
        let host = match place::read(&part.host, path, most) {
            Ok((host, _)) => host,
            Err(Errno::NOENT) => Vec::new(),
            Err(_) => return self.keep_back(part, path, "yours is a link, or cannot be read"),
        };
        let refs = if is_last { refs::read(&part.host).ok() } else { None };
        let gone = |branch: &[u8]| {
            refs.as_ref().is_some_and(|refs| !refs.contains_key(&[b"refs/heads/", branch].concat()))
        };
        let seen = part.base.merged_config.as_ref().unwrap_or(&part.base.config);
        let origin = |module: &[u8]| origin(part, module);
        let versions = Versions {
            host: &host,
            base: &part.base.config,
            seen,
            cage: &cage,
            gone: &gone,
            is_of_submodule: part.at.iter().any(|name| name == "modules"),
            origin: &origin,
        };
        let Ok(merged) = config::merge(&versions) else {
            return self.keep_back(part, path, "git could not read it");
        };
        let seen = config::seen_after(&versions, merged.text.as_ref().unwrap_or(&host));
        for name in merged.kept_back.iter().filter(|_| is_last) {
            if !(has_moved && name.starts_with("core.worktree")) {
                self.keep_back(part, path, name);
            }
        }
        if let Some(text) = merged.text {
            let unchanged = |_: Option<Thing>| {
                place::read(&part.host, path, most).map(|(now, _)| now).unwrap_or_default() == host
            };
            match place::replace(&part.host, path, &text, unchanged) {
                Ok(_) => self.took(part, path),
                Err(Errno::EXIST | Errno::STALE) => {
                    self.news.is_busy = true;
                    return;
                }
                Err(errno) => return self.trouble(&part.at.join(path), &errno.to_string()),
            }
        }
        part.base.merged_config = Some(seen);
        let path = RepositoryNews::new(&part.at.join(path), "").path;
        self.news.told.new_remotes.retain(|remote| remote.path != path);
        let new =
            merged.new_remotes.into_iter().map(|(name, url)| NewRemote { path: path.clone(), name, url });
        self.news.told.new_remotes.extend(new);
    }

    pub(super) fn give_settings(&mut self, part: &mut Part) {
        let (path, most) = (Path::new("config"), Check::Text.most());
        let Ok((host, _)) = place::read(&part.host, path, most) else { return };
        let text = private_settings(&host);
        // What was taken over last is not what the command began with: the host may have what the command takes back this moment.
        if part.base.merged_config.as_ref().is_some_and(|merged| *merged != part.base.config) {
            return;
        }
        let unchanged = |_: Option<Thing>| {
            place::read(&part.cage, path, most).is_ok_and(|(now, _)| now == part.base.config)
        };
        if text != part.base.config
            && unchanged(None)
            && place::replace(&part.cage, path, &text, unchanged).is_ok()
        {
            part.base.config = text;
            part.base.merged_config = None;
        }
    }
}

/// Where a submodule of the host's was cloned from, without credentials.
fn origin(part: &Part, module: &[u8]) -> Option<Vec<u8>> {
    let path = Path::new("modules").join(base::path(module)).join("config");
    let (text, _) = place::read(&part.host, &path, Check::Text.most()).ok()?;
    let config = Config::read(&private_settings(&text)).ok()?;
    let url = Name { section: "remote".into(), subsection: Some(b"origin".to_vec()), key: "url".into() };
    config.values(&url).last().cloned().flatten()
}

#[cfg(test)]
mod tests {
    use super::super::tests::repository;
    use super::super::{Moment, exchange};

    /// The command removes a branch, and what it follows, after the host has got both: the host's settings are not given to it as the user's.
    #[test]
    fn settings_that_the_command_takes_back_do_not_come_back_to_it() {
        let all = repository();
        let layer = &all.run.layers[0];
        let (cage, own) = (layer.git(), all.own());
        let (config, before) = (cage.join("config"), all.tree.join("before"));
        std::fs::copy(&config, &before).unwrap();
        all.git(&cage, "git branch -q --track new main");
        let back = format!(
            "case \"$*\" in *update-ref*) /bin/cp '{}' '{}';; esac",
            before.display(),
            config.display()
        );
        exchange(&all.program_that(&back), layer, Moment::Running);
        assert_eq!(all.git(&own, "git config branch.new.merge"), "refs/heads/main\n", "it was taken over");
        let now = std::fs::read_to_string(&config).unwrap();
        assert_eq!(now, std::fs::read_to_string(&before).unwrap());

        all.git(&cage, "git branch -qD new");
        exchange(&all.program, layer, Moment::Running);
        assert_eq!(all.git(&own, "git config branch.new.merge || echo none"), "none\n");
        // What the user changes after that, the command sees.
        all.git(&own, "git config core.abbrev 9");
        exchange(&all.program, layer, Moment::Running);
        assert_eq!(
            all.git(&cage, "git config core.abbrev; git config branch.new.merge || echo none"),
            "9\nnone\n"
        );
    }

    /// A value that stays in the cage does not make the one before it the user's.
    #[test]
    fn what_a_branch_follows_goes_also_after_a_value_that_is_not_safe() {
        let all = repository();
        let layer = &all.run.layers[0];
        let (cage, own) = (layer.git(), all.own());
        let asked = "git config branch.main.merge || echo none";
        let step = |script: &str| {
            all.git(&cage, script);
            exchange(&all.program, layer, Moment::Running);
            all.git(&own, asked)
        };
        assert_eq!(step("git branch -q --set-upstream-to side main"), "refs/heads/side\n");
        assert_eq!(
            step("git config branch.main.merge foo; git config branch.main.remote foo"),
            "refs/heads/side\n"
        );
        assert_eq!(step("git branch --unset-upstream main"), "none\n");
        assert_eq!(step("git branch -q --set-upstream-to gone main"), "refs/heads/gone\n");
    }
}
