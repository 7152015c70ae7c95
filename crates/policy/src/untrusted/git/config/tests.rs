//! What is read, merged and kept back, by example.

use super::*;

mod decisions;

const HOST: &[u8] =
    b"[core]\n\tbare = false\n\tfilemode = true\n[remote \"origin\"]\n\turl = https://example.test/a\n";

fn merged(added: &str) -> Merged {
    let cage = [HOST, added.as_bytes()].concat();
    first_merge(HOST, HOST, &cage).expect("both can be read")
}

/// The first merge of a run that goes on.
fn first_merge(host: &[u8], base: &[u8], cage: &[u8]) -> Result<Merged, Unreadable> {
    merge(&Versions {
        host,
        base,
        seen: base,
        cage,
        gone: &|_| false,
        is_of_submodule: true,
        origin: &|_| None,
        is_nameless: false,
    })
}

fn text(merged: &Merged) -> String {
    String::from_utf8(merged.text.clone().unwrap_or_default()).expect("text")
}

#[test]
fn no_key_that_runs_something_is_taken_over() {
    for (added, name) in [
        ("[remote \"new\"]\ntagOpt = --tags\n", "remote.new.tagopt"),
        ("[core]\nfsmonitor = ./x\n", "core.fsmonitor"),
        ("[core]\nhooksPath = x\n", "core.hookspath"),
        ("[core]\nsshCommand = x\n", "core.sshcommand"),
        ("[core]\npager = x\n", "core.pager"),
        ("[core]\neditor = x\n", "core.editor"),
        ("[core]\naskPass = x\n", "core.askpass"),
        ("[core]\ngitProxy = x\n", "core.gitproxy"),
        ("[core]\nworktree = /\n", "core.worktree"),
        ("[core]\nalternateRefsCommand = x\n", "core.alternaterefscommand"),
        ("[alias]\nst = !x\n", "alias.st"),
        ("[include]\npath = ../x\n", "include.path"),
        ("[includeIf \"gitdir:/\"]\npath = ../x\n", "includeif.gitdir:/.path"),
        ("[filter \"x\"]\nclean = x\n", "filter.x.clean"),
        ("[filter \"x\"]\nprocess = x\n", "filter.x.process"),
        ("[diff]\nexternal = x\n", "diff.external"),
        ("[diff \"x\"]\ntextconv = x\n", "diff.x.textconv"),
        ("[merge \"x\"]\ndriver = x\n", "merge.x.driver"),
        ("[mergetool \"x\"]\ncmd = x\n", "mergetool.x.cmd"),
        ("[credential]\nhelper = !x\n", "credential.helper"),
        ("[gpg]\nprogram = x\n", "gpg.program"),
        ("[gpg \"ssh\"]\nprogram = x\n", "gpg.ssh.program"),
        ("[sequence]\neditor = x\n", "sequence.editor"),
        ("[pager]\nlog = x\n", "pager.log"),
        ("[interactive]\ndiffFilter = x\n", "interactive.difffilter"),
        ("[trailer \"x\"]\ncommand = x\n", "trailer.x.command"),
        (
            "[url \"https://evil.test/\"]\ninsteadOf = https://example.test/\n",
            "url.https://evil.test/.insteadof",
        ),
        ("[protocol \"ext\"]\nallow = always\n", "protocol.ext.allow"),
        ("[remote \"new\"]\nurl = ext::sh -c x\n", "remote.new.url"),
        ("[remote \"new\"]\nurl = /home/ada/private\n", "remote.new.url"),
        ("[remote \"new\"]\nurl = file:///home/ada\n", "remote.new.url"),
        ("[remote \"new\"]\nurl = ssh://-oProxyCommand=x/a\n", "remote.new.url"),
        ("[remote \"new\"]\nurl = -x:y\n", "remote.new.url"),
        ("[remote \"new\"]\nurl = https://ada:pw@example.test/\n", "remote.new.url"),
        ("[remote \"new\"]\nuploadpack = x\n", "remote.new.uploadpack"),
        ("[remote \"new\"]\nreceivepack = x\n", "remote.new.receivepack"),
        ("[remote \"new\"]\nvcs = x\n", "remote.new.vcs"),
        ("[remote \"new\"]\nproxy = x\n", "remote.new.proxy"),
        ("[remote \"new\"]\nmirror = true\n", "remote.new.mirror"),
        ("[branch \"main\"]\nremote = ext::sh -c x\n", "branch.main.remote"),
        ("[branch \"main\"]\nremote = ../private\n", "branch.main.remote"),
        ("[branch \"main\"]\nremote = target/evil\n", "branch.main.remote"),
        ("[branch \"main\"]\nremote = folder\n", "branch.main.remote"),
        ("[branch \"main\"]\npushRemote = origin\n", "branch.main.pushremote"),
        ("[branch \"main\"]\nmergeOptions = -s ../x\n", "branch.main.mergeoptions"),
        ("[submodule \"x\"]\nupdate = !x\n", "submodule.x.update"),
        ("[submodule \"x\"]\nurl = ext::x\n", "submodule.x.url"),
        ("[extensions]\nworktreeConfig = true\n", "extensions.worktreeconfig"),
        ("[uploadpack]\npackObjectsHook = x\n", "uploadpack.packobjectshook"),
        ("[remote \"origin\"]\nurl = https://evil.test/\n", "remote.origin.url"),
        ("[remote \"origin\"]\npushurl = https://evil.test/\n", "remote.origin.pushurl"),
        ("[user]\nsigningKey = x\n", "user.signingkey"),
    ] {
        let merged = merged(added);
        assert_eq!(merged.kept_back, [name], "{added}");
        assert_eq!(merged.text, None, "{added}");
    }
}

#[test]
fn a_committer_is_taken_over_only_where_there_was_none() {
    let of = |host: &[u8], base: &[u8], seen: &[u8], cage: &[u8], is_nameless: bool| {
        let versions = Versions {
            host,
            base,
            seen,
            cage,
            gone: &|_| false,
            is_of_submodule: false,
            origin: &|_| None,
            is_nameless,
        };
        merge(&versions).expect("readable")
    };
    let named = |name: &str| [HOST, b"[user]\n\tname = ", name.as_bytes(), b"\n"].concat();
    let (ada, eve) = (named("Ada L."), named("Eve"));

    let first = of(HOST, HOST, HOST, &ada, true);
    assert!(text(&first).contains("name = \"Ada L.\"") && first.kept_back.is_empty(), "{first:?}");
    // The same run may change its mind, and nothing else may.
    let again = of(&ada, HOST, &ada, &eve, true);
    assert!(text(&again).contains("name = Eve") && !text(&again).contains("Ada"), "{again:?}");
    let why = "user.name: your commits would be made in another name; to set it: git config user.name Eve";
    for kept in [
        of(HOST, HOST, HOST, &eve, false),
        of(&ada, &ada, &ada, &eve, true),
        of(&ada, HOST, HOST, &eve, true),
    ] {
        assert_eq!((kept.text, kept.kept_back), (None, vec![why.to_owned()]));
    }
    let removed = of(&ada, &ada, &ada, HOST, true);
    assert_eq!(removed.kept_back, ["user.name: your commits would be made in another name"]);
    for odd in ["\"a\\nb\"", "\u{1b}[2J", "\u{202e}x"] {
        assert_eq!(of(HOST, HOST, HOST, &named(odd), true).text, None, "{odd}");
    }
}

#[test]
fn what_the_host_changed_meanwhile_stays() {
    let host = [HOST, b"[user]\n\tname = Ada\n"].concat();
    let cage = [HOST, b"[branch \"a\"]\n\tremote = origin\n"].concat();
    let merged = first_merge(&host, HOST, &cage).expect("readable");
    let text = text(&merged);
    assert!(text.contains("name = Ada") && text.contains("[branch \"a\"]"), "{text}");
}

#[test]
fn every_spelling_is_read_as_git_reads_it() {
    let text = b"\xef\xbb\xbf# c\n[CORE] Bare = false ; c\n[Branch.Main]\n x\n[a \"B\\\"c\"]k=\"v ; \" # c\n l = a \\\n b\n";
    let config = Config::read(text).expect("readable");
    let all: Vec<(String, Option<String>)> = config
        .entries
        .iter()
        .map(|entry| {
            let value = entry.value.as_ref().map(|value| String::from_utf8_lossy(value).into_owned());
            (entry.name.to_string(), value)
        })
        .collect();
    let expected = [
        ("core.bare", Some("false")),
        ("branch.main.x", None),
        ("a.B\"c.k", Some("v ; ")),
        ("a.B\"c.l", Some("a  b")),
    ];
    for ((name, value), (expected, text)) in all.iter().zip(expected) {
        assert_eq!((name.as_str(), value.as_deref()), (expected, text));
    }
    assert_eq!(all.len(), expected.len());
}

#[test]
fn an_author_is_written_so_that_it_is_read_as_it_was() {
    for name in ["Ada", "A \"B\" C; # x", "back\\slash\nand line", " blanks "] {
        let config = Config::read(&Config::of_author(name.as_bytes(), b"a@b")).expect("readable");
        assert_eq!(config.last("user", "name"), Some(name.as_bytes()));
        assert_eq!((config.entries.len(), config.last("user", "email")), (2, Some(b"a@b".as_slice())));
    }
}

#[test]
fn what_git_would_not_read_is_not_merged() {
    for text in ["x = 1\n", "[a\nx=1\n", "[a]\nx = \"1\n", "[a]\n=\n", "[a \"b]\n", "[a]\nx = \\q\n", "\0"] {
        assert_eq!(first_merge(HOST, HOST, text.as_bytes()), Err(Unreadable), "{text}");
    }
}

#[test]
fn a_new_repository_keeps_what_it_needs_and_nothing_that_runs() {
    let text = b"[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = ./x\n[alias]\n\tx = !y\n[remote \"origin\"]\n\turl = https://example.test/x\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[core]\n\tworktree = ../../..\n";
    let (kept, out) = of_new_repository(text, &|_| false).expect("readable");
    assert_eq!(out, ["alias.x", "core.fsmonitor", "core.worktree"]);
    assert_eq!(
        String::from_utf8(kept).expect("text"),
        "[core]\n\trepositoryformatversion = 0\n\tbare = false\n[remote \"origin\"]\n\turl = https://example.test/x\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n"
    );
}
