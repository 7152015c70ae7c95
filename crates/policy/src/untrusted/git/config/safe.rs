//! Which keys and values of a configuration file lead git to nothing that it would run.

use super::{Config, Unreadable};

/// The settings of a repository that the command made itself: the same rules, and what a repository needs to be one. Gives the text to
/// keep and the names that were taken out. `worktree` judges a `core.worktree`.
pub fn of_new_repository(
    text: &[u8],
    worktree: &dyn Fn(&[u8]) -> bool,
) -> Result<(Vec<u8>, Vec<String>), Unreadable> {
    let config = Config::read(text)?;
    let (mut kept, mut out) = (text.to_vec(), Vec::new());
    for (name, values) in config.by_name() {
        let safe = match (name.section.as_str(), &name.subsection) {
            ("core", None) => match name.key.as_str() {
                "worktree" => all(&values, worktree),
                key => core_is_safe(key, &values),
            },
            ("extensions", None) => match name.key.as_str() {
                "objectformat" | "refstorage" | "compatobjectformat" => all(&values, is_plain_word),
                "partialclone" => all(&values, is_remote_name),
                "noop" | "preciousobjects" => all(&values, is_flag),
                _ => false,
            },
            ("submodule", None) => name.key == "active" && all(&values, is_plain_word),
            ("branch", Some(_)) => branch_is_safe(&name.key, &values),
            // A repository that was cloned in part fetches the rest from where it came.
            ("remote", Some(_)) if name.key == "promisor" => all(&values, is_flag),
            ("remote", Some(_)) if name.key == "partialclonefilter" => all(&values, is_plain_word),
            ("remote", Some(_)) => remote_is_safe(&name.key, &values),
            ("submodule", Some(_)) => submodule_is_safe(&name.key, &values),
            // The identity of a committer runs nothing.
            ("user", None) => matches!(name.key.as_str(), "name" | "email" | "useconfigonly"),
            ("init", None) => name.key == "defaultbranch" && all(&values, is_plain_word),
            _ => false,
        };
        if !safe {
            kept = Config::read(&kept)?.without(name);
            out.push(name.to_string());
        }
    }
    Ok((kept, out))
}

fn all(values: &[Option<&[u8]>], fits: impl Fn(&[u8]) -> bool) -> bool {
    values.iter().all(|value| fits(value.unwrap_or(b"true")))
}

pub(super) fn branch_is_safe(key: &str, values: &[Option<&[u8]>]) -> bool {
    match key {
        "remote" => all(values, |value| value == b"." || is_remote_name(value)),
        "merge" => all(values, is_ref),
        "rebase" => all(values, |value| is_flag(value) || [b"merges".as_slice(), b"m"].contains(&value)),
        // Written by hosting tools; read by them alone.
        "gh-merge-base" | "github-pr-owner-number" | "vscode-merge-base" => all(values, is_plain_word),
        _ => false,
    }
}

fn remote_is_safe(key: &str, values: &[Option<&[u8]>]) -> bool {
    match key {
        "url" | "pushurl" => all(values, is_network_url),
        "fetch" | "push" => all(values, is_refspec),
        "tagopt" => all(values, |value| value == b"--no-tags" || value == b"--tags"),
        "prune" | "prunetags" | "skipdefaultupdate" | "skipfetchall" => all(values, is_flag),
        "gh-resolved" => all(values, is_plain_word),
        _ => false,
    }
}

pub(super) fn submodule_is_safe(key: &str, values: &[Option<&[u8]>]) -> bool {
    match key {
        "url" => all(values, is_network_url),
        "active" => all(values, is_flag),
        "update" => {
            all(values, |value| [b"checkout".as_slice(), b"rebase", b"merge", b"none"].contains(&value))
        }
        "branch" => all(values, is_plain_word),
        _ => false,
    }
}

fn core_is_safe(key: &str, values: &[Option<&[u8]>]) -> bool {
    match key {
        "repositoryformatversion" => all(values, |value| value == b"0" || value == b"1"),
        "bare" | "filemode" | "ignorecase" | "precomposeunicode" | "symlinks" | "trustctime" => {
            all(values, is_flag)
        }
        "logallrefupdates" => all(values, |value| is_flag(value) || value == b"always"),
        "autocrlf" | "eol" | "safecrlf" | "quotepath" | "compression" | "bigfilethreshold" => {
            all(values, is_plain_word)
        }
        _ => false,
    }
}

pub(super) fn is_flag(value: &[u8]) -> bool {
    let word = value.to_ascii_lowercase();
    [b"true".as_slice(), b"false", b"yes", b"no", b"on", b"off", b"1", b"0"].contains(&word.as_slice())
}

pub(super) fn is_true(value: &[u8]) -> bool {
    let word = value.to_ascii_lowercase();
    [b"true".as_slice(), b"yes", b"on", b"1"].contains(&word.as_slice())
}

fn is_plain_word(value: &[u8]) -> bool {
    !value.is_empty()
        && !value.starts_with(b"-")
        && value.iter().all(|&byte| byte.is_ascii_alphanumeric() || b"._/#:+-".contains(&byte))
        && !value.windows(2).any(|pair| pair == b"::")
}

/// A name, not a URL or a path: git takes either where a remote is named.
pub(super) fn is_remote_name(value: &[u8]) -> bool {
    is_plain_word(value)
        && !value.contains(&b'/')
        && !value.starts_with(b".")
        && !value.contains(&b':')
        && !value.windows(2).any(|pair| pair == b"..")
}

/// A full name of a ref, by git's own rules.
pub fn is_ref(value: &[u8]) -> bool {
    let forbidden = |&byte: &u8| byte <= b' ' || byte == 0x7f || b"~^:?*[\\".contains(&byte);
    value.starts_with(b"refs/")
        && !value.iter().any(forbidden)
        && !value.windows(2).any(|pair| pair == b".." || pair == b"@{" || pair == b"//")
        && value.split(|&byte| byte == b'/').all(|part| {
            !part.is_empty() && !part.starts_with(b".") && !part.ends_with(b".lock") && !part.ends_with(b".")
        })
}

fn is_refspec(value: &[u8]) -> bool {
    let value = value.strip_prefix(b"+").or_else(|| value.strip_prefix(b"^")).unwrap_or(value);
    value.split(|&byte| byte == b':').all(|side| {
        let named: Vec<u8> = side.iter().map(|&byte| if byte == b'*' { b'x' } else { byte }).collect();
        side.is_empty() || is_ref(&named) || named == b"HEAD"
    })
}

/// Whether what a remote fetches by this is written below its own name, if anywhere.
pub(super) fn fetches_into_own(value: &[u8], remote: &[u8]) -> bool {
    let own = [b"refs/remotes/", remote, b"/"].concat();
    let mut sides = value.splitn(2, |&byte| byte == b':').skip(1);
    let is_own = sides.next().is_none_or(|into| into.is_empty() || into.starts_with(&own));
    is_refspec(value) && is_own && value.iter().filter(|&&byte| byte == b':').count() <= 1
}

/// Over the network by git itself or by ssh: no local path, no `ext::`, no option in disguise.
pub fn is_network_url(value: &[u8]) -> bool {
    let graphic = value.iter().all(|byte| byte.is_ascii_graphic() && !b"'\"`$\\|;&<>(){}".contains(byte));
    if !graphic || value.windows(2).any(|pair| pair == b"::") {
        return false;
    }
    let rest = [b"https://".as_slice(), b"ssh://"].iter().find_map(|scheme| value.strip_prefix(*scheme));
    match rest {
        Some(rest) => {
            let authority = rest.split(|&byte| byte == b'/').next().unwrap_or_default();
            // A password in a URL is a credential.
            let (user, host) = match authority.iter().rposition(|&byte| byte == b'@') {
                Some(at) => (&authority[..at], &authority[at + 1..]),
                None => (&b""[..], authority),
            };
            !host.is_empty() && !host.starts_with(b"-") && !user.starts_with(b"-") && !user.contains(&b':')
        }
        // `git@host:path`, where nothing before the colon is a path.
        None => match value.iter().position(|&byte| byte == b':') {
            Some(colon) => {
                let (before, path) = (&value[..colon], &value[colon + 1..]);
                let host = before.rsplit(|&byte| byte == b'@').next().unwrap_or_default();
                !host.is_empty()
                    && !before.contains(&b'/')
                    && !before.starts_with(b"-")
                    && !host.starts_with(b"-")
                    && !path.is_empty()
                    && !path.starts_with(b"-")
                    && !path.starts_with(b"//")
            }
            None => false,
        },
    }
}
