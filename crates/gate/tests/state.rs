//! Lines of a shell that restores a state first: what the state runs counts, what it defines counts where it is used.
#![allow(clippy::unwrap_used)]

use keyward_gate::{Judgement, Rules, State, Verdict, judge_line};

fn judged(state: &str, line: &str) -> Judgement {
    let state = State { text: state.as_bytes(), start: b"/srv/my project", elsewhere: false };
    judge_line(&Rules::builtin(), state, &["bash", "-c", line])
}

#[test]
fn a_definition_counts_where_it_is_used_and_not_where_it_is_not() {
    for (state, line) in [
        ("alias st='git stash clear'", "st"),
        ("ls() { git stash clear; }", "ls"),
        ("W='stash clear'", "git $W"),
        ("declare -x W=\"stash clear\"", "git $W"),
        ("declare -a W=([0]=\"stash\" [1]=\"clear\")", "git \"${W[@]}\""),
        ("declare -a W=(stash clear)", "git \"${W[@]}\""),
        ("IFS=x; W=stashxclear", "git $W"),
    ] {
        assert_eq!(judged(state, line).verdict, Verdict::Ask, "{state}; {line}");
        assert_eq!(judged(state, "echo hello").verdict, Verdict::Allow, "{state}");
    }
}

#[test]
fn what_runs_although_the_line_does_not_name_it_counts_and_has_no_place_in_the_line() {
    for state in [
        "git stash clear",
        "trap 'git stash clear' DEBUG",
        "eval() { git stash clear; }",
        "builtin() { git stash clear; }",
        "cd() { git stash clear; }",
        "command_not_found_handle() { git stash clear; }",
        "alias if='git stash clear; if'",
        "alias {='git stash clear; {'",
        "ls( {",
    ] {
        let found = judged(state, "echo hello");
        assert_eq!((found.verdict, found.span), (Verdict::Ask, None), "{state}");
    }
    let own = judged("A=1", "git stash clear");
    assert_eq!((own.verdict, own.span.is_some()), (Verdict::Ask, true));
}

#[test]
fn the_directory_of_the_state_is_where_relative_paths_begin() {
    assert_eq!(judged("cd -- /", "rm -rf etc").verdict, Verdict::Forbid);
    assert_eq!(judged("cd -- '/srv/my project'", "rm -rf build").verdict, Verdict::Allow);
    assert_eq!(judged("cd -- /srv/my\\ project/sub", "rm -rf build").verdict, Verdict::Allow);
    assert_eq!(judged("cd -- '/srv/my projects'", "rm -rf build").verdict, Verdict::Ask, "another one");
    let wanted = judged("cd -- '/srv/my project/sub'", "sh ./run.sh").scripts;
    assert_eq!(wanted[0].path, b"sub/./run.sh", "{wanted:?}");
    let elsewhere = State { text: b"cd -- /", start: b"/srv/my project", elsewhere: true };
    let found = judge_line(&Rules::builtin(), elsewhere, &["bash", "-c", "rm -rf etc"]);
    assert_eq!(found.verdict, Verdict::Allow, "the line has a directory of its own");
}
