//! Which of the user's own git settings a cage repeats: habits that say how git does something, and by which it neither runs nor reads
//! anything else. Without them `git init` makes another branch inside, and `git pull` asks what the user has answered long ago.

use super::config::Config;
use crate::view::expand;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Section and key, as git compares them.
const HABITS: &[(&str, &str)] = &[
    ("branch", "autosetupmerge"),
    ("branch", "autosetuprebase"),
    ("branch", "sort"),
    ("color", "ui"),
    ("column", "ui"),
    ("commit", "status"),
    ("commit", "verbose"),
    ("core", "abbrev"),
    ("core", "autocrlf"),
    ("core", "eol"),
    ("core", "quotepath"),
    ("core", "safecrlf"),
    ("diff", "algorithm"),
    ("diff", "colormoved"),
    ("diff", "mnemonicprefix"),
    ("diff", "noprefix"),
    ("diff", "renames"),
    ("fetch", "prune"),
    ("init", "defaultbranch"),
    ("log", "abbrevcommit"),
    ("log", "date"),
    ("log", "decorate"),
    ("log", "follow"),
    ("merge", "conflictstyle"),
    ("merge", "ff"),
    ("pull", "ff"),
    ("pull", "rebase"),
    ("push", "autosetupremote"),
    ("push", "default"),
    ("push", "followtags"),
    ("rebase", "autosquash"),
    ("rebase", "autostash"),
    ("rebase", "updaterefs"),
    ("rerere", "autoupdate"),
    ("rerere", "enabled"),
    ("status", "branch"),
    ("status", "short"),
    ("status", "showuntrackedfiles"),
    ("tag", "sort"),
];
/// Messages that a user has read often enough.
const ADVICE: &str = "advice";
const LONGEST: usize = 64;

/// The habits in these settings, of which later ones win, as a text that git reads. Values are words and numbers.
pub fn habits(settings: &[Config]) -> Vec<u8> {
    let mut found: BTreeMap<(&str, &str), &[u8]> = BTreeMap::new();
    for entry in settings.iter().flat_map(Config::plain) {
        let (section, key, value) = entry;
        if (section == ADVICE || HABITS.contains(&(section, key))) && is_plain(value) {
            found.insert((section, key), value);
        }
    }
    let lines = found.iter().map(|((section, key), value)| {
        [b"[", section.as_bytes(), b"]\n\t", key.as_bytes(), b" = ", value, b"\n"].concat()
    });
    lines.flatten().collect()
}

/// The `safe.directory` settings that are about a project: git works there although another user owns it, as outside. Others would say
/// which projects there are.
pub fn trusted(settings: &[Config], home: &Path, project: &Path) -> Vec<u8> {
    let mut lines = Vec::new();
    for (section, key, value) in settings.iter().flat_map(Config::plain) {
        if (section, key) != ("safe", "directory") {
            continue;
        }
        if value.is_empty() {
            // As in git: what stood before does not count.
            lines.clear();
        }
        let path = expand(Path::new(OsStr::from_bytes(value)), home);
        let is_about = |path: &Path| path.starts_with(project) || project.starts_with(path);
        if value == b"*" {
            lines.push(value.to_vec());
        } else if path.is_absolute() && is_about(all_below(&path).unwrap_or(&path)) {
            lines.push(path.as_os_str().as_bytes().to_vec());
        }
    }
    lines.iter().flat_map(|value| Config::of_trusted(value)).collect()
}

/// The directory that a setting such as `/srv/*` is about.
fn all_below(path: &Path) -> Option<&Path> {
    path.parent().filter(|_| path.file_name() == Some(OsStr::new("*")))
}

/// The setting by which git works in a directory that another user owns.
pub fn trusting(directory: &Path) -> Vec<u8> {
    Config::of_trusted(directory.as_os_str().as_bytes())
}

/// A branch may have a slash in its name, and a sort order a minus before it.
fn is_plain(value: &[u8]) -> bool {
    let fits = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_./:".contains(byte);
    !value.is_empty()
        && value.len() <= LONGEST
        && value.iter().all(fits)
        && crate::detect::registry::value_shape(value).is_none()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn of(texts: &[&str]) -> String {
        let settings: Vec<Config> = texts.iter().map(|text| Config::read(text.as_bytes()).unwrap()).collect();
        String::from_utf8(habits(&settings)).unwrap()
    }

    #[test]
    fn habits_are_repeated_and_later_ones_win() {
        let first = "[init]\n\tdefaultBranch = master\n[pull]\n\trebase\n[advice]\n\tdetachedHead = false\n";
        let second = "[init] defaultBranch = team/main\n[diff]\n\talgorithm = \"histogram\"\n";
        let text = "[advice]\n\tdetachedhead = false\n[diff]\n\talgorithm = histogram\n\
                    [init]\n\tdefaultbranch = team/main\n[pull]\n\trebase = true\n";
        assert_eq!(of(&[first, second]), text);
        assert!(Config::read(text.as_bytes()).is_ok());
    }

    #[test]
    fn only_trust_in_this_project_is_repeated() {
        let of = |text: &str| {
            let settings = [Config::read(text.as_bytes()).unwrap()];
            String::from_utf8(trusted(&settings, Path::new("/home/ada"), Path::new("/home/ada/my work")))
                .unwrap()
        };
        assert_eq!(of("[safe]\n\tdirectory = *\n"), "[safe]\n\tdirectory = *\n");
        let spelled = "[safe]\n\tdirectory = \"/home/ada/my work\"\n";
        assert_eq!(of("[safe]\n\tdirectory = ~/my work\n\tdirectory = /srv/other\n"), spelled);
        assert_eq!(of("[safe]\n\tdirectory = /home/*\n"), "[safe]\n\tdirectory = /home/*\n");
        assert_eq!(of("[safe]\n\tdirectory = *\n\tdirectory =\n"), "");
        for other in
            ["directory = /home/ada/my", "directory = my work", "directory = .", "bareRepository = all"]
        {
            assert_eq!(of(&format!("[safe]\n\t{other}\n")), "", "{other}");
        }
        let odd = trusting(Path::new("/srv/a\"b\n[core]"));
        assert_eq!(Config::read(&odd).unwrap().last("safe", "directory"), Some(&b"/srv/a\"b\n[core]"[..]));
        assert_eq!(Config::read(&odd).unwrap().entries.len(), 1);
    }

    #[test]
    fn nothing_that_runs_reads_or_reveals_is_repeated() {
        for text in [
            "[core]\n\teditor = vi\n\tpager = less\n\thooksPath = h\n\tfsmonitor = x\n\tsshCommand = ssh\n\texcludesFile = ~/x",
            "[alias]\n\tst = !rm -rf /",
            "[credential]\n\thelper = store",
            "[include]\n\tpath = other",
            "[url \"https://token@example.test/\"]\n\tinsteadOf = x:",
            "[diff \"x\"]\n\talgorithm = patience",
            "[diff]\n\texternal = prog",
            "[user]\n\tsigningKey = ABC",
            "[init]\n\ttemplateDir = /tmp/x",
            "[init]\n\tdefaultBranch = \"a\\n[core]\\n\\teditor = x\"",
            "[init]\n\tdefaultBranch = $(id)",
            "[init]\n\tdefaultBranch = ghp_EXAMPLE0EXAMPLE0EXAMPLE0EXAMPLE0EXAM",
        ] {
            assert_eq!(of(&[text]), "", "{text}");
        }
    }
}
