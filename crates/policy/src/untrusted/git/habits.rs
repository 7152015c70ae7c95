//! Which of the user's own git settings a cage repeats: habits that say how git does something, and by which it neither runs nor reads
//! anything else. Without them `git init` makes another branch inside, and `git pull` asks what the user has answered long ago.

use super::config::Config;
use std::collections::BTreeMap;

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
