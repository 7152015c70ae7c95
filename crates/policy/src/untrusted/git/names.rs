//! The fixed list: which names of a repository's own folder come out of the cage, and how.

use super::check::Check;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What becomes of a changed name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It replaces the host's if its content passes; it may also be removed.
    Published(Check),
    /// The same, but its removal stays in the cage: without it this would be no repository.
    Lasting(Check),
    /// The same, where the host has one already.
    Existing(Check),
    /// The same, and of no weight: the last writer wins, as without us.
    Passing(Check),
    /// Only safe additions of it.
    Settings,
    /// What was added to the end of it.
    Log,
    /// A ref that is not shared with the host: a working tree's own, or a new submodule's.
    Ref,
    /// A folder whose names are looked up in turn.
    Folder,
    /// A folder that is taken over whole or not at all: half of a rebase is none.
    Whole,
    /// A folder of repositories of the same shape.
    Repositories,
    /// A folder of the working trees beside this one.
    Worktrees,
    /// It stays as the host has it; a change is named.
    Fixed,
    /// It needs no word: locks, temporary files, samples.
    Ignored,
    /// It stays in the cage and is named.
    KeptBack,
}

/// The names in the folder itself.
const NAMES: &[(&str, Fate)] = {
    use Check::{Empty, Head, Ids, Index, PackedRefs, Quoted, Start, Text, Word};
    use Fate::{
        Existing, Folder, Ignored, KeptBack, Lasting, Passing, Published, Repositories, Settings, Whole,
        Worktrees,
    };
    &[
        ("HEAD", Lasting(Head)),
        ("index", Published(Index)),
        ("packed-refs", Lasting(PackedRefs)),
        ("config", Settings),
        ("ORIG_HEAD", Passing(Ids)),
        ("FETCH_HEAD", Passing(Ids)),
        ("MERGE_HEAD", Published(Ids)),
        ("MERGE_AUTOSTASH", Published(Ids)),
        ("AUTO_MERGE", Published(Ids)),
        ("CHERRY_PICK_HEAD", Published(Ids)),
        ("REVERT_HEAD", Published(Ids)),
        ("REBASE_HEAD", Published(Ids)),
        ("shallow", Existing(Ids)),
        ("MERGE_MODE", Published(Word)),
        // It names files whose content git would keep for the next merge.
        ("MERGE_RR", Published(Empty)),
        ("MERGE_MSG", Published(Text)),
        ("SQUASH_MSG", Published(Text)),
        ("COMMIT_EDITMSG", Passing(Text)),
        ("TAG_EDITMSG", Passing(Text)),
        ("NOTES_EDITMSG", Passing(Text)),
        ("BISECT_START", Published(Start)),
        ("BISECT_TERMS", Published(Quoted)),
        ("BISECT_NAMES", Published(Quoted)),
        ("BISECT_EXPECTED_REV", Published(Ids)),
        ("BISECT_ANCESTORS_OK", Published(Word)),
        ("BISECT_LOG", Published(Text)),
        ("rebase-merge", Whole),
        ("rebase-apply", Whole),
        ("sequencer", Whole),
        ("rr-cache", Ignored),
        ("logs", Folder),
        ("hooks", Folder),
        ("info", Folder),
        ("objects", Folder),
        ("refs", Folder),
        ("reftable", Folder),
        ("lfs", Folder),
        ("modules", Repositories),
        ("worktrees", Worktrees),
        ("commondir", KeptBack),
        ("config.worktree", KeptBack),
        ("gitdir", KeptBack),
        ("description", Ignored),
        ("branches", Ignored),
        ("gc.pid", Ignored),
        ("gc.log", Ignored),
        ("fsmonitor--daemon", Ignored),
        ("fsmonitor--daemon.ipc", Ignored),
        ("EDIT_DESCRIPTION", Ignored),
    ]
};

/// The names in a folder that is taken over whole.
const STATE: &[(&str, Check)] = {
    use Check::{
        AuthorScript, Branch, Empty, Head, Ids, PickOptions, Rewritten, Signing, Strategy, StrategyOptions,
        Text, Todo, Word,
    };
    &[
        ("head-name", Branch),
        ("onto", Head),
        ("orig-head", Head),
        ("head", Head),
        ("squash-onto", Head),
        ("end", Word),
        ("msgnum", Word),
        ("next", Word),
        ("last", Word),
        ("done", Text),
        ("git-rebase-todo", Todo),
        ("git-rebase-todo.backup", Todo),
        ("todo", Todo),
        ("opts", PickOptions),
        ("abort-safety", Ids),
        ("author-script", AuthorScript),
        ("apply-opt", Empty),
        ("info", Text),
        ("msg", Text),
        ("message", Text),
        ("message-squash", Text),
        ("message-fixup", Text),
        ("current-fixups", Text),
        ("amend", Ids),
        ("stopped-sha", Word),
        ("rewritten-list", Ids),
        ("rewritten-pending", Ids),
        ("rewritten", Ids),
        ("autostash", Ids),
        ("strategy", Strategy),
        ("strategy_opts", StrategyOptions),
        ("gpg_sign_opt", Signing),
        ("update-refs", Empty),
        ("refs-to-delete", Rewritten),
        ("patch", Text),
        ("final-commit", Text),
        ("original-commit", Ids),
        ("abort-safety", Ids),
    ]
};

/// Files of state that only say yes, no or a word.
const STATE_WORDS: &[&str] = &[
    "quiet",
    "verbose",
    "signoff",
    "interactive",
    "allow_rerere_autoupdate",
    "drop_redundant_commits",
    "keep_redundant_commits",
    "no-reschedule-failed-exec",
    "reschedule-failed-exec",
    "ignore_date",
    "cdate_is_adate",
    "dropped",
    "force-rebase",
    "rebasing",
    "applying",
    "threeway",
    "utf8",
    "keep",
    "scissors",
    "quoted-cr",
    "messageid",
    "sign",
    "abort",
    "no_verify",
    "empty",
];

/// Whether git writes this file of a rebase anew before it reads it, so that nothing depends on what it holds.
pub fn is_made_anew(path: &Path) -> bool {
    path == Path::new("rebase-apply/patch-merge-index")
}

/// Looks a path up that is relative to the repository's own folder.
pub fn fate(path: &Path) -> Fate {
    let mut names = path.iter();
    let Some(first) = names.next() else { return Fate::Folder };
    let rest: Vec<&OsStr> = names.collect();
    if is_temporary(path.file_name().unwrap_or(first)) {
        return Fate::Ignored;
    }
    let text = |name: &OsStr| String::from_utf8_lossy(name.as_bytes()).into_owned();
    let below: Vec<String> = rest.iter().map(|name| text(name)).collect();
    let below: Vec<&str> = below.iter().map(String::as_str).collect();
    match (text(first).as_str(), below.as_slice()) {
        (first, []) => match NAMES.iter().find(|(name, _)| *name == first) {
            Some((_, fate)) => *fate,
            None => Fate::KeptBack,
        },
        ("logs", _) => Fate::Log,
        ("refs", _) => Fate::Ref,
        ("reftable", _) => Fate::Ignored,
        ("hooks", [name]) if name.ends_with(".sample") => Fate::Ignored,
        // What the launcher adds to it is for the cage alone, and what a command adds could hide its own files from the user.
        ("info", ["refs" | "exclude"]) => Fate::Ignored,
        ("objects", ["info"]) | ("objects", ["info", "commit-graphs"]) => Fate::Folder,
        ("objects", ["info", "packs" | "commit-graph"]) => Fate::Published(Check::Data),
        ("objects", ["info", "commit-graphs", name])
            if *name == "commit-graph-chain" || (name.starts_with("graph-") && name.ends_with(".graph")) =>
        {
            Fate::Published(Check::Data)
        }
        ("lfs", ["objects"] | ["objects", _] | ["objects", _, _]) => Fate::Folder,
        ("lfs", ["objects", _, _, name]) if is_hex(name) => Fate::Published(Check::Data),
        ("lfs", _) => Fate::Ignored,
        ("rebase-merge" | "rebase-apply" | "sequencer", [name]) => state(name),
        _ => Fate::KeptBack,
    }
}

fn state(name: &str) -> Fate {
    if let Some((_, check)) = STATE.iter().find(|(other, _)| *other == name) {
        Fate::Published(*check)
    } else if STATE_WORDS.contains(&name) {
        Fate::Published(Check::Word)
    } else if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) {
        // The patches of `git am`, by number.
        Fate::Published(Check::Text)
    } else {
        Fate::KeptBack
    }
}

/// Names of a repository that the command made: its objects are not shared.
pub fn new_fate(path: &Path) -> Fate {
    let text = path.to_str().unwrap_or_default();
    let names: Vec<&str> = text.split('/').collect();
    match names.as_slice() {
        ["objects", folder, name] if folder.len() == 2 && is_hex(&format!("{folder}{name}")) => {
            Fate::Published(Check::Data)
        }
        ["objects", "pack", name] if is_pack(name) => Fate::Published(Check::Data),
        // A template of git's.
        ["info", "exclude"] => Fate::Ignored,
        _ => fate(path),
    }
}

fn is_pack(name: &str) -> bool {
    let ends = ["pack", "idx", "rev", "bitmap", "mtimes", "promisor", "keep"];
    name == "multi-pack-index"
        || name
            .strip_prefix("pack-")
            .and_then(|rest| rest.split_once('.'))
            .is_some_and(|(id, end)| is_hex(id) && ends.contains(&end))
}

/// Names of a further working tree's folder. Where it stands and whose it is are judged by who asks.
pub fn worktree_fate(path: &Path) -> Fate {
    match path.to_str() {
        Some("modules" | "worktrees" | "objects" | "config" | "packed-refs" | "hooks" | "lfs") => {
            Fate::KeptBack
        }
        Some("locked") => Fate::Published(Check::Text),
        // Where it stands and whose it is never changes.
        Some("gitdir" | "commondir") => Fate::Fixed,
        _ => fate(path),
    }
}

/// Whether git on the host runs, or is led elsewhere by, what stands at this path of a repository's own folder.
pub fn git_obeys(path: &Path) -> bool {
    let text = path.to_str().unwrap_or_default();
    let first = text.split('/').next().unwrap_or_default();
    match text {
        "commondir" | "config.worktree" | "gitdir" | "info/attributes" | "info/grafts" => true,
        "objects/info/alternates" | "objects/info/http-alternates" => true,
        // Older ways to say where a remote is.
        _ if first == "remotes" || first == "branches" => text != first,
        _ => first == "hooks" && text != "hooks" && !text.ends_with(".sample"),
    }
}

/// What git itself leaves behind when it is interrupted.
fn is_temporary(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.ends_with(b".lock")
        || name.starts_with(b"tmp_")
        || name.starts_with(b".tmp-")
        || name.ends_with(b".new")
}

fn is_hex(name: &str) -> bool {
    name.len() >= 40 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether a file beside git's own has settings: git's own, those that they include, and copies of either.
pub fn is_settings(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b"config")
}

/// Whether a file beside git's own may be one that the settings include, under any name. Git's own texts are written in capitals, but for
/// one.
pub fn may_be_included(name: &OsStr, text: &[u8]) -> bool {
    let is_gits = name == "description" || !name.as_bytes().iter().any(u8::is_ascii_lowercase);
    let mut lines = text.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with(b"#") && !line.starts_with(b";"));
    !is_gits && first.is_some_and(|line| line.starts_with(b"["))
}

/// Whether a file or directory beside git's own holds a login or a key, by its name.
pub fn is_login(name: &OsStr) -> bool {
    let folded = name.as_bytes().to_ascii_lowercase();
    let says = |word: &&str| folded.windows(word.len()).any(|part| part == word.as_bytes());
    // What git-crypt, transcrypt, git-annex and GitKraken keep beside git's own.
    let is_store = [&b"git-crypt"[..], b"crypt", b"creds", b"gk"].contains(&folded.as_slice());
    is_store
        || ["credential", "token", "passphrase", "password", "secret"].iter().any(says)
        || crate::detect::secret_file(Path::new(name), &[]).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_others_include_are_known_by_their_first_line() {
        let may_be = |name: &str, text: &[u8]| may_be_included(OsStr::new(name), text);
        assert!(may_be("private.inc", b"# mine\n\n [http]\n\textraHeader = x\n"));
        assert!(!may_be("COMMIT_EDITMSG", b"[A-1] correct it\n") && !may_be("description", b"[a]\n"));
        assert!(!may_be("index", b"DIRC[") && !may_be("notes", b"text\n[http]\n") && !may_be("x", b""));
    }

    #[test]
    fn what_git_could_run_stays_in_the_cage() {
        for path in [
            "hooks/post-commit",
            "commondir",
            "config.worktree",
            "info/attributes",
            "objects/info/alternates",
            "objects/info/http-alternates",
            "unheard-of",
            "rebase-merge/unheard-of",
            "lfs2/x",
        ] {
            assert_eq!(fate(Path::new(path)), Fate::KeptBack, "{path}");
        }
    }

    #[test]
    fn the_work_comes_out_of_it() {
        for (path, expected) in [
            ("HEAD", Fate::Lasting(Check::Head)),
            ("index", Fate::Published(Check::Index)),
            ("logs/refs/heads/main", Fate::Log),
            ("rebase-merge/git-rebase-todo", Fate::Published(Check::Todo)),
            ("rebase-apply/0001", Fate::Published(Check::Text)),
            ("objects/info/commit-graphs/commit-graph-chain", Fate::Published(Check::Data)),
            ("index.lock", Fate::Ignored),
            ("hooks/pre-push.sample", Fate::Ignored),
        ] {
            assert_eq!(fate(Path::new(path)), expected, "{path}");
        }
    }

    #[test]
    fn no_name_stands_in_the_table_twice() {
        for (at, (name, _)) in NAMES.iter().enumerate() {
            assert!(!NAMES[..at].iter().any(|(other, _)| other == name), "{name}");
        }
    }
}
