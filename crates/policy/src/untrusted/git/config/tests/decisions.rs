//! Where git pushes to and fetches from stays the user's decision.

use super::*;

const FORK: &str =
    "[remote \"fork\"]\n\turl = git@example.test:me/a.git\n\tfetch = +refs/heads/*:refs/remotes/fork/*\n";
const TAKEN: &str = "[remote \"fork\"]\n\turl = git@example.test:me/a.git\n\
    \tfetch = +refs/heads/*:refs/remotes/fork/*\n\tskipFetchAll = true\n\tkeyward = added\n";
const PUBLIC: &str = "[remote \"public\"]\n\turl = https://example.test/public\n";
const FOLLOWS: &str = "[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n";

fn with(parts: &[&str]) -> Vec<u8> {
    [HOST, parts.concat().as_bytes()].concat()
}

fn told(name: &str, url: &str) -> (String, String) {
    (name.into(), url.into())
}

/// A merge of a command that began with the host's own file.
fn of_host(host: &[u8], cage: &[u8]) -> Merged {
    first_merge(host, host, cage).expect("readable")
}

fn is_kept_back(merged: &Merged, names: &[&str]) {
    assert_eq!(merged.kept_back, names);
    assert_eq!(merged.text.as_deref().map(String::from_utf8_lossy), None);
}

#[test]
fn a_new_remote_is_taken_over_with_a_mark_and_told() {
    let merged = of_host(HOST, &with(&[FORK]));
    assert_eq!(merged.text, Some(with(&[TAKEN])));
    assert_eq!(merged.kept_back, Vec::<String>::new());
    assert_eq!(merged.new_remotes, [told("fork", "git@example.test:me/a.git")]);
}

#[test]
fn no_command_chooses_its_own_mark() {
    for added in ["\tkeyward = mine\n", "\tskipFetchAll = true\n", "\tskipDefaultUpdate\n"] {
        let merged = of_host(HOST, &with(&[FORK, added]));
        assert_eq!((merged.text, merged.kept_back), (Some(with(&[TAKEN])), vec![]), "{added}");
    }
    for (added, name) in [
        ("\tskipFetchAll = false\n", "remote.fork.skipfetchall"),
        ("\tskipDefaultUpdate = false\n", "remote.fork.skipdefaultupdate"),
        ("\tskipFetchAll = true\n\tskipFetchAll = no\n", "remote.fork.skipfetchall"),
    ] {
        let merged = of_host(HOST, &with(&[FORK, added]));
        assert_eq!((merged.text, merged.kept_back), (Some(with(&[TAKEN])), vec![name.into()]), "{added}");
    }
}

#[test]
fn an_existing_branch_keeps_what_it_follows() {
    let host = with(&[PUBLIC, FOLLOWS]);
    for (section, names) in [
        ("[branch \"main\"]\n\tremote = public\n\tmerge = refs/heads/main\n", &["branch.main.remote"][..]),
        ("[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/x\n", &["branch.main.merge"]),
        ("[branch \"main\"]\n\tremote = .\n\tmerge = refs/heads/main\n", &["branch.main.remote"]),
        ("[branch \"main\"]\n\tmerge = refs/heads/main\n", &["branch.main.remote"]),
        ("", &["branch.main.merge", "branch.main.remote"]),
        (
            "[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n\tpushRemote = public\n",
            &["branch.main.pushremote"],
        ),
    ] {
        is_kept_back(&of_host(&host, &with(&[PUBLIC, section])), names);
    }
    // Half an upstream is one as well.
    let half = with(&[PUBLIC, "[branch \"main\"]\n\tremote = origin\n"]);
    let cage = with(&[PUBLIC, "[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/x\n"]);
    is_kept_back(&of_host(&half, &cage), &["branch.main.merge"]);
    let cage = with(&[PUBLIC, FOLLOWS, "\trebase = true\n"]);
    assert_eq!(of_host(&host, &cage).text, Some(cage));
}

#[test]
fn a_branch_without_upstream_follows_only_remotes_of_the_users() {
    let host = with(&[TAKEN, PUBLIC, "[branch \"main\"]\n\trebase = true\n"]);
    for branch in ["main", "new"] {
        let section =
            |remote: &str, to: &str| format!("[branch \"{branch}\"]\n\tremote = {remote}\n\tmerge = {to}\n");
        for remote in ["origin", "public", "."] {
            let cage = [&host[..], section(remote, "refs/heads/x").as_bytes()].concat();
            let merged = of_host(&host, &cage);
            assert_eq!(merged.kept_back, Vec::<String>::new(), "{remote}");
            let text = text(&merged);
            assert!(text.contains(&format!("remote = {remote}\n")) && text.contains("merge = refs/heads/x"));
        }
        for (remote, why) in [
            ("fork", ": a command added fork; to allow it: git config --unset remote.fork.keyward"),
            ("missing", ""),
            ("https://evil.test/x", ""),
            ("../public", ""),
        ] {
            let cage = [&host[..], section(remote, "refs/heads/x").as_bytes()].concat();
            let merged = of_host(&host, &cage);
            assert_eq!(merged.kept_back, [format!("branch.{branch}.remote{why}")]);
            assert!(!text(&merged).contains(&format!("remote = {remote}\n")));
        }
        let cage = [&host[..], section("origin", "refs/tags/x").as_bytes()].concat();
        assert_eq!(of_host(&host, &cage).kept_back, [format!("branch.{branch}.merge")]);
    }
}

#[test]
fn a_remote_added_in_a_run_is_followed_in_none_until_the_user_says_so() {
    let follows = "[branch \"new\"]\n\tremote = fork\n\tmerge = refs/heads/new\n";
    let first = of_host(HOST, &with(&[FORK, follows]));
    assert_eq!(first.kept_back.len(), 1);
    let host = first.text.expect("the remote");
    assert!(!String::from_utf8_lossy(&host).contains("remote = fork"));
    let cage = [&host[..], b"\tremote = fork\n"].concat();
    assert_eq!(of_host(&host, &cage).kept_back.len(), 1);
    // Nor is the mark the command's to remove.
    let unmarked = with(&[FORK, follows]);
    let merged = of_host(&host, &unmarked);
    assert!(merged.kept_back.contains(&"remote.fork.keyward".into()), "{:?}", merged.kept_back);
    assert!(!text(&merged).contains("remote = fork"));
    // The control: the user removed it.
    let host = with(&[FORK]);
    let merged = of_host(&host, &unmarked);
    assert!(text(&merged).contains("remote = fork") && merged.kept_back.is_empty());
}

#[test]
fn a_remote_that_git_would_push_to_by_default_is_not_taken_over() {
    let none = b"[core]\n\tbare = false\n";
    for (host, name) in [(&none[..], "origin"), (none, "fork"), (none, "Origin")] {
        let added = format!("[remote \"{name}\"]\n\turl = https://example.test/a\n");
        let merged = of_host(host, &[host, added.as_bytes()].concat());
        let why = "git would push to it by default; to add it: git remote add";
        is_kept_back(&merged, &[&format!("remote.{name}: {why} {name} https://example.test/a")]);
    }
    // A remote that a command added before does not make another one harmless: it can be removed again.
    let host = [none, TAKEN.as_bytes()].concat();
    let cage = [&host[..], b"[remote \"b\"]\n\turl = https://example.test/b\n"].concat();
    assert_eq!(of_host(&host, &cage).text, None);
    // Nothing but a checked address is offered for a shell.
    let host = [&none[..], PUBLIC.as_bytes()].concat();
    for url in ["https://e.test/$(x)", "https://ada:pw@e.test/", "ext::x", "-x:y", "https://e.test/`x`"] {
        let cage = [&host[..], format!("[remote \"origin\"]\n\turl = \"{url}\"\n").as_bytes()].concat();
        is_kept_back(&of_host(&host, &cage), &["remote.origin: git would push to it by default"]);
    }
    let cage = [&host[..], b"[remote \"origin\"]\n\turl = https://e.test/~a?b*\n"].concat();
    let offered = "git remote add origin 'https://e.test/~a?b*'";
    assert!(of_host(&host, &cage).kept_back[0].ends_with(offered));
}

#[test]
fn a_remote_with_a_misleading_name_is_not_taken_over() {
    let host = with(&[PUBLIC]);
    for (name, why) in [
        (
            "Public",
            "it differs from a remote of yours only in case; to add it: git remote add Public https://e.test/",
        ),
        ("origin/main", "not a plain name"),
        ("..", "not a plain name"),
        ("-x", "not a plain name"),
    ] {
        let cage = with(&[PUBLIC, &format!("[remote \"{name}\"]\n\turl = https://e.test/\n")]);
        is_kept_back(&of_host(&host, &cage), &[&format!("remote.{name}: {why}")]);
    }
}

#[test]
fn a_new_remote_fetches_only_into_its_own_name() {
    let url = "[remote \"new\"]\n\turl = https://example.test/new\n";
    for fetch in [
        "+refs/heads/*:refs/remotes/new/*",
        "refs/heads/main:refs/remotes/new/main",
        "^refs/heads/secret",
        "refs/heads/main",
        "HEAD:refs/remotes/new/x",
        "+refs/pull/*/head:refs/remotes/new/pull/*",
    ] {
        let merged = of_host(HOST, &with(&[url, &format!("\tfetch = {fetch}\n")]));
        assert_eq!(merged.kept_back, Vec::<String>::new(), "{fetch}");
        assert!(text(&merged).contains(fetch), "{fetch}");
    }
    for fetch in [
        "+refs/heads/*:refs/remotes/origin/*",
        "+refs/heads/*:refs/remotes/newer/*",
        "+refs/heads/*:refs/remotes/new",
        "+refs/heads/*:refs/heads/*",
        "+refs/*:refs/*",
        "+refs/tags/*:refs/tags/*",
        "+refs/heads/*:refs/remotes/new/../origin/*",
        "refs/heads/a:refs/remotes/new/a:refs/heads/main",
        "+refs/heads/*:refs/remotes/new/*\n\tfetch = +refs/heads/*:refs/remotes/origin/*",
    ] {
        let merged = of_host(HOST, &with(&[url, &format!("\tfetch = {fetch}\n")]));
        assert_eq!(merged.kept_back, ["remote.new.fetch"], "{fetch}");
        assert!(!text(&merged).contains("fetch ="), "{fetch}");
    }
    for (added, name) in [
        ("tagOpt = --tags", "remote.new.tagopt"),
        ("pruneTags = true", "remote.new.prunetags"),
        ("push = refs/heads/*:refs/heads/*", "remote.new.push"),
        ("gh-resolved = base", "remote.new.gh-resolved"),
    ] {
        let merged = of_host(HOST, &with(&[url, &format!("\t{added}\n")]));
        assert_eq!(merged.kept_back, [name]);
        assert!(!text(&merged).contains(added));
    }
}

#[test]
fn where_missing_objects_come_from_does_not_change() {
    let why = "git would fetch missing objects from there";
    let url = "[remote \"new\"]\n\turl = https://example.test/new\n";
    for (added, name) in [
        ("[extensions]\n\tpartialClone = origin\n", "extensions.partialclone"),
        (&format!("{url}\tpromisor = true\n"), "remote.new.promisor"),
        (&format!("{url}\tpartialCloneFilter = blob:none\n"), "remote.new.partialclonefilter"),
    ] {
        let merged = of_host(HOST, &with(&[added]));
        assert_eq!(merged.kept_back, [format!("{name}: {why}")]);
    }
    is_kept_back(
        &of_host(HOST, &with(&["[remote \"origin\"]\n\tpromisor = true\n"])),
        &["remote.origin.promisor"],
    );
    let host = with(&[
        "\tpromisor = true\n\tpartialclonefilter = blob:none\n[extensions]\n\tpartialclone = origin\n",
    ]);
    is_kept_back(&of_host(&host, &host), &[]);
}

#[test]
fn a_marked_remote_changes_no_more_and_can_only_go_as_a_whole() {
    let host = with(&[TAKEN]);
    for (section, name) in [
        (TAKEN.replace("me/a.git", "you/a.git"), "remote.fork.url"),
        (TAKEN.replace("skipFetchAll = true", "skipFetchAll = false"), "remote.fork.skipfetchall"),
        (TAKEN.replace("\tkeyward = added\n", ""), "remote.fork.keyward"),
        (TAKEN.replace("keyward = added", "keyward = no"), "remote.fork.keyward"),
        (format!("{TAKEN}\tpushurl = https://evil.test/\n"), "remote.fork.pushurl"),
        (format!("{TAKEN}\tskipDefaultUpdate = false\n"), "remote.fork.skipdefaultupdate"),
    ] {
        is_kept_back(&of_host(&host, &with(&[&section])), &[name]);
    }
    let merged = of_host(&host, HOST);
    assert_eq!((merged.text, merged.kept_back), (Some(HOST.to_vec()), vec![]));
    // Where the user's branch follows it, git would take its name for a path.
    for follows in [
        "[branch \"main\"]\n\tremote = fork\n",
        "[branch \"main\"]\n\tpushRemote = fork\n",
        "[remote]\n\tpushDefault = fork\n",
    ] {
        let (host, cage) = (with(&[TAKEN, follows]), with(&[follows]));
        is_kept_back(&of_host(&host, &cage), &["remote.fork: a branch of yours follows it"]);
    }
    // A remote of the user's cannot go.
    is_kept_back(&of_host(&with(&[PUBLIC]), HOST), &["remote.public.url"]);
}

#[test]
fn a_branch_goes_with_its_settings_once_it_is_gone_for_good() {
    let host =
        with(&["[branch \"old\"]\n\tremote = origin\n\tmerge = refs/heads/old\n\tpushRemote = origin\n"]);
    let mut versions = Versions {
        host: &host,
        base: &host,
        seen: &host,
        cage: HOST,
        gone: &|_| false,
        is_of_submodule: true,
        origin: &|_| None,
        is_nameless: false,
    };
    let names = ["branch.old.merge", "branch.old.pushremote", "branch.old.remote"];
    is_kept_back(&merge(&versions).expect("readable"), &names);
    versions.gone = &|branch| branch == b"old";
    let merged = merge(&versions).expect("readable");
    assert_eq!((merged.text, merged.kept_back), (Some(HOST.to_vec()), vec![]));
}

/// A run whose changes are taken over several times.
struct Run {
    host: Vec<u8>,
    base: Vec<u8>,
    seen: Vec<u8>,
}

impl Run {
    fn new(base: &[u8]) -> Self {
        Run { host: base.to_vec(), base: base.to_vec(), seen: base.to_vec() }
    }

    fn step(&mut self, cage: &[u8]) -> Merged {
        let versions = Versions {
            host: &self.host,
            base: &self.base,
            seen: &self.seen,
            cage,
            gone: &|_| false,
            is_of_submodule: true,
            origin: &|_| None,
            is_nameless: false,
        };
        let merged = merge(&versions).expect("readable");
        if let Some(text) = &merged.text {
            self.host.clone_from(text);
        }
        self.seen = cage.to_vec();
        merged
    }
}

#[test]
fn a_remote_can_come_in_two_steps_and_change_until_the_run_ends() {
    let url = FORK.split_inclusive("\n").take(2).collect::<String>();
    let mut run = Run::new(HOST);
    run.step(&with(&[&url]));
    let merged = run.step(&with(&[FORK]));
    assert_eq!((&run.host, merged.kept_back), (&with(&[TAKEN]), vec![]));
    assert_eq!(run.step(&with(&[FORK])).text, None);
    let merged = run.step(&with(&[&FORK.replace("me/a", "me/b")]));
    assert_eq!((&run.host, merged.kept_back), (&with(&[&TAKEN.replace("me/a", "me/b")]), vec![]));
    assert_eq!(merged.new_remotes, [told("fork", "git@example.test:me/b.git")]);
    // Only what the run itself added: the user's own remote of this name stays.
    run.host = with(&["[remote \"fork\"]\n\turl = https://example.test/of-the-host\n"]);
    let merged = run.step(&with(&[FORK]));
    is_kept_back(&merged, &["remote.fork.fetch", "remote.fork.url"]);
    assert_eq!(merged.new_remotes, []);
}

#[test]
fn a_remote_added_and_removed_in_one_run_is_gone() {
    let mut run = Run::new(HOST);
    assert_eq!(run.step(&with(&[FORK])).new_remotes.len(), 1);
    let merged = run.step(HOST);
    assert_eq!((&run.host[..], merged.new_remotes, merged.kept_back), (HOST, vec![], vec![]));
    // A remote that another run added meanwhile is not this run's to remove.
    run.host = with(&[TAKEN]);
    is_kept_back(&run.step(HOST), &[]);
}

#[test]
fn a_new_branch_can_change_its_mind_while_the_run_goes_on() {
    let follows = |remote: &str, to: &str| {
        with(&[PUBLIC, &format!("[branch \"new\"]\n\tmerge = refs/heads/{to}\n\tremote = {remote}\n")])
    };
    let mut run = Run::new(&with(&[PUBLIC]));
    for cage in [follows(".", "other"), with(&[PUBLIC]), follows(".", "main"), follows("origin", "x")] {
        let merged = run.step(&cage);
        assert_eq!((&run.host, merged.kept_back), (&cage, vec![]));
    }
    // What the user decides meanwhile counts.
    run.host = follows("public", "x");
    is_kept_back(&run.step(&follows("origin", "y")), &["branch.new.merge", "branch.new.remote"]);
}

#[test]
fn a_credential_that_the_command_was_not_shown_is_no_change() {
    let secret = "[remote \"work\"]\n\turl = https://token@example.test/w\n[http]\n\textraHeader = x\n\
        [branch \"main\"]\n\tremote = https://token@example.test/a\n\tmerge = refs/heads/main\n\
        [url \"https://token@example.test/\"]\n\tinsteadOf = https://example.test/\n\
        [remote \"gone\"]\n\turl = https://ghp_0@example.test/\n";
    let shown = "[remote \"work\"]\n\turl = https://example.test/w\n\
        [branch \"main\"]\n\tremote = https://example.test/a\n\tmerge = refs/heads/main\n";
    let (host, base) = (with(&[secret]), with(&[shown]));
    is_kept_back(&first_merge(&host, &base, &base).expect("readable"), &[]);
    let follows = "[branch \"new\"]\n\tmerge = refs/heads/new\n\tremote = work\n";
    let merged = first_merge(&host, &base, &with(&[shown, follows])).expect("readable");
    assert_eq!((merged.text, merged.kept_back), (Some(with(&[secret, follows])), vec![]));
    // What was not shown counts as there all the same.
    let cage = with(&[shown, "[remote \"gone\"]\n\turl = https://evil.test/\n"]);
    is_kept_back(&first_merge(&host, &base, &cage).expect("readable"), &["remote.gone.url"]);
    let cage = with(&["[remote \"work\"]\n\turl = https://evil.test/w\n"]);
    let names = ["branch.main.merge", "branch.main.remote", "remote.work.url"];
    is_kept_back(&first_merge(&host, &base, &cage).expect("readable"), &names);
}
