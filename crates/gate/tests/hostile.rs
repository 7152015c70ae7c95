//! Input that is made to break the reader ends in a verdict; a forbidden command stays one, however it is wrapped.

use keyward_gate::{LARGEST, Language, Rules, Verdict, judge, judge_argv};
use proptest::prelude::*;

const LANGUAGES: [Language; 3] = [Language::Shell, Language::Python, Language::JavaScript];

fn verdict(language: Language, source: &[u8]) -> Verdict {
    judge(&Rules::builtin(), language, source).verdict
}

#[test]
fn deep_nesting_is_asked_about() {
    for (open, close) in [
        ("( ", " )"),
        ("{ ", "; }"),
        ("$(", ")"),
        ("\"$(", ")\""),
        ("if true; then ", "; fi"),
        ("${x:-", "}"),
        ("<(", ")"),
    ] {
        let source = format!("{}ls{}", open.repeat(5000), close.repeat(5000));
        assert_eq!(verdict(Language::Shell, source.as_bytes()), Verdict::Ask, "{open}");
        assert!(verdict(Language::Shell, open.repeat(50_000).as_bytes()) >= Verdict::Ask, "{open}");
    }
    for language in [Language::Python, Language::JavaScript] {
        for open in ["(", "[", "{", "f(", "a[", "f'{", "`${"] {
            assert_eq!(
                verdict(language, open.repeat(20_000).as_bytes()),
                Verdict::Ask,
                "{language:?} {open}"
            );
        }
    }
}

#[test]
fn what_is_longer_than_any_script_is_asked_about() {
    for language in LANGUAGES {
        assert_eq!(verdict(language, &vec![b' '; LARGEST + 1]), Verdict::Ask);
    }
    assert_eq!(judge_argv(&Rules::builtin(), &[vec![b'x'; LARGEST + 1]]).verdict, Verdict::Ask);
}

#[test]
fn long_input_of_any_kind_ends_in_a_verdict() {
    let long = |part: &str| part.repeat(200_000 / part.len());
    assert_eq!(verdict(Language::Shell, &vec![b'a'; LARGEST]), Verdict::Allow);
    for part in [
        "a",
        " ",
        "a ",
        ";",
        "\n",
        "\\",
        "'",
        "\"",
        "$x",
        "{a,b}",
        "x=$x$x;",
        "a=\"$a$a\";",
        "| cat ",
        "\0",
        "<<A\n",
        "[",
        "# x\n",
        "f(){ f;};",
    ] {
        verdict(Language::Shell, long(part).as_bytes());
    }
    for part in [
        "a",
        "a.b(",
        "'",
        "x='a'\n",
        "f'{a}'",
        "import os\n",
        "a=a+a\n",
        "(",
        "a[0]",
        "/",
        "`",
        "x.y(z)\n",
        "\\",
    ] {
        verdict(Language::Python, long(part).as_bytes());
        verdict(Language::JavaScript, long(part).as_bytes());
    }
}

#[test]
fn behind_more_commands_than_are_looked_at_a_script_must_still_be_readable() {
    let many = "a;".repeat(70_000);
    let rule = |end: &str| judge(&Rules::builtin(), Language::Shell, format!("{many}{end}").as_bytes()).rule;
    assert_eq!(rule("b").as_deref(), Some("too-much"));
    assert_eq!(rule("b)").as_deref(), Some("unreadable"));
    // What is defined there is still seen, and so is what is kept for a command that comes later.
    assert_eq!(rule("f() { f | f & }").as_deref(), Some("fork-bomb"));
    assert_eq!(rule("{ b; } > /dev/sda").as_deref(), rule("b; { b; } > /dev/sda; b").as_deref());
}

#[test]
fn invalid_utf_8_and_control_bytes_are_read_like_everything_else() {
    for source in
        [&b"rm -rf / \xff\xfe"[..], b"\xff; rm -rf /", b"'\xff' ; rm -rf /", b"x=\x80\x81; rm -rf /"]
    {
        assert_eq!(verdict(Language::Shell, source), Verdict::Forbid, "{source:?}");
    }
    assert_eq!(verdict(Language::Shell, b"r\0m -rf /"), Verdict::Ask);
    assert_eq!(verdict(Language::Python, b"import os\nos.system('rm -rf /') # \xff"), Verdict::Forbid);
}

#[test]
fn values_that_multiply_do_not_take_forever() {
    let doubled = format!("x=a; {} $x", "x=$x$x; ".repeat(64));
    assert_eq!(verdict(Language::Shell, doubled.as_bytes()), Verdict::Ask);
    let loops = format!("{}rm -rf /{}", "for i in a b c; do ".repeat(12), "; done".repeat(12));
    assert_eq!(verdict(Language::Shell, loops.as_bytes()), Verdict::Forbid);
    // A value that doubles at each step, and an assignment that never ends.
    let lists: String = (1..40).map(|n| format!("v{n} = [v{0}, v{0}]\n", n - 1)).collect();
    for language in [Language::Python, Language::JavaScript] {
        verdict(language, format!("v0 = 'a'\n{lists}").as_bytes());
        assert_eq!(verdict(language, "a = ".repeat(50_000).as_bytes()), Verdict::Ask);
    }
    let split = format!("x='{}'; {}", "a ".repeat(30_000), "rm $x;".repeat(2000));
    assert_eq!(verdict(Language::Shell, split.as_bytes()), Verdict::Ask);
    let functions: String = (1..30).map(|n| format!("f{n}() {{ f{0}; f{0}; }}; ", n - 1)).collect();
    assert!(verdict(Language::Shell, format!("f0() {{ ls; }}; {functions} f29").as_bytes()) >= Verdict::Ask);
}

#[test]
fn arguments_are_no_shell_line() {
    let rules = Rules::builtin();
    let argv = |args: &[&str]| judge_argv(&rules, args);
    assert_eq!(argv(&["echo", "x; rm -rf /"]).verdict, Verdict::Allow);
    assert_eq!(argv(&["rm", "-rf", "$HOME"]).verdict, Verdict::Allow);
    assert_eq!(argv(&["rm", "-rf", "/"]).verdict, Verdict::Forbid);
    assert_eq!(argv(&["bash", "-c", "echo x; rm -rf /"]).verdict, Verdict::Forbid);
    assert_eq!(argv(&["sudo", "python3", "-c", "import os; os.system('rm -rf /')"]).verdict, Verdict::Forbid);
    assert_eq!(
        argv(&["node", "-e", "require('fs').rmSync('/', {recursive: true})"]).verdict,
        Verdict::Forbid
    );
    assert_eq!(argv(&[]).verdict, Verdict::Allow);
    assert_eq!(argv(&[""]).verdict, Verdict::Allow);
}

#[test]
fn scripts_that_would_run_are_named() {
    let rules = Rules::builtin();
    let wanted = |args: &[&str]| {
        let scripts = judge_argv(&rules, args).scripts;
        scripts
            .into_iter()
            .map(|script| (String::from_utf8_lossy(&script.path).into_owned(), script.language))
            .collect::<Vec<_>>()
    };
    let one = |path: &str, language| vec![(path.to_owned(), language)];
    assert_eq!(wanted(&["bash", "x.sh", "a"]), one("x.sh", Some(Language::Shell)));
    assert_eq!(wanted(&["env", "A=b", "python3", "-u", "x.py"]), one("x.py", Some(Language::Python)));
    assert_eq!(
        wanted(&["node", "--max-old-space-size=4096", "x.js"]),
        one("x.js", Some(Language::JavaScript))
    );
    assert_eq!(wanted(&["./run"]), one("./run", None));
    assert_eq!(wanted(&["sh", "-c", "cd sub && ./run"]), one("sub/./run", None));
    assert_eq!(wanted(&["sh", "-c", "cd /a; cd b; sh x.sh"]), one("/a/b/x.sh", Some(Language::Shell)));
    assert_eq!(wanted(&["sh", "-c", ". ./env.sh; cat a.py | python3"]).len(), 2);
    assert_eq!(wanted(&["ls", "x.sh"]), []);
    assert_eq!(wanted(&["ssh", "host", "bash x.sh"]), []);
}

#[test]
fn rules_of_a_user_are_checked_and_cannot_lift_the_floor() {
    let builtin = Rules::builtin();
    let rule = |extra: &str| {
        format!(
            "[[rule]]\nid = \"mine\"\nclass = \"own\"\nverdict = \"ask\"\nreason = \"x\"\nprograms = [\"rm\", \"deploy\"]\n{extra}\n"
        )
    };
    let more =
        builtin.with("mine.toml", &rule("must = [\"deploy now\"]\nmust_not = [\"ls\"]")).expect("good rules");
    assert_eq!(judge(&more, Language::Shell, b"deploy x").verdict, Verdict::Ask);
    assert_eq!(judge(&more, Language::Shell, b"rm -rf /").verdict, Verdict::Forbid);
    assert_eq!(judge(&builtin, Language::Shell, b"deploy x").verdict, Verdict::Allow);
    let wrong = |extra: &str| builtin.with("mine.toml", &rule(extra)).expect_err("a mistake").remove(0);
    let mistake = wrong("must = [\"ls\"]");
    assert_eq!((mistake.line, mistake.column), (7, 9), "{mistake}");
    let mistake = wrong("must = [\"deploy\"]\nmust_not = [\"deploy\"]");
    assert_eq!((mistake.line, mistake.column), (8, 13), "{mistake}");
    assert_eq!(wrong("must = [\"deploy\"]\nplases = [\"root\"]").line, 8);
    assert_eq!(wrong("places = [\"rooot\"]\nmust = [\"rm /\"]").line, 7);
    assert!(wrong("").to_string().contains("no examples"));
    assert!(wrong("verdict = \"ask\"\nmust = [\"x\"]").to_string().contains("TOML"));
    let allow = rule("must = [\"deploy\"]").replace("\"ask\"", "\"allow\"");
    assert!(builtin.with("mine.toml", &allow).is_err());
}

#[test]
fn what_stays_in_the_cage_is_asked_about_only_where_all_is() {
    let (auto, all) = (Rules::builtin(), Rules::builtin().asking_for_all());
    for command in ["rm -rf build", "env", "pip install x && chmod 777 y"] {
        assert_eq!(judge(&auto, Language::Shell, command.as_bytes()).verdict, Verdict::Allow, "{command}");
        assert_eq!(judge(&all, Language::Shell, command.as_bytes()).verdict, Verdict::Ask, "{command}");
    }
    assert_eq!(judge(&auto, Language::Shell, b"rm -rf /").verdict, Verdict::Forbid);
}

#[test]
fn a_judgement_is_one_line_of_json() {
    let judgement = judge(&Rules::builtin(), Language::Shell, b"ls; rm -rf /");
    let expected = r#"{"v":1,"verdict":"forbid","rule":"delete-root","class":"deletion","span":[11,12],"reason":"it deletes the whole file system"}"#;
    assert_eq!(judgement.json(), expected);
    let judgement = judge(&Rules::builtin(), Language::Shell, b"bash x.sh");
    assert!(
        judgement.json().ends_with(r#""scripts":[{"path":"x.sh","language":"sh"}]}"#),
        "{}",
        judgement.json()
    );
}

/// A way to write a command that means the same, as text for a shell.
fn wrap(way: usize, command: &str) -> String {
    let single = format!("'{}'", command.replace('\'', "'\\''"));
    let encoded: String = command.bytes().map(|byte| format!("\\x{byte:02x}")).collect();
    match way {
        0 => format!("sudo {command}"),
        1 => format!("env A=b {command}"),
        2 => format!("timeout 5 {command}"),
        3 => format!("nice -n 5 {command}"),
        4 => format!("busybox {command}"),
        5 => format!("sh -c {single}"),
        6 => format!("ssh host {single}"),
        7 => format!("eval {single}"),
        8 => format!("echo {single} | sh"),
        9 => format!("bash <<'END{0}'\n{command}\nEND{0}\n", command.len()),
        10 => format!("f() {{ {command}\n}}; f"),
        11 => format!("({command}\n)"),
        12 => format!("x={single}; eval \"$x\""),
        13 => format!("$(printf '{encoded}' | cat) ; sh -c $'{encoded}'"),
        14 => format!("if true; then {command}\nfi"),
        15 => format!("ls && {command}"),
        16 => format!("echo \"$({command}\n)\""),
        17 => format!("find . -exec sh -c {single} \\;"),
        18 => format!("alias zz={single}\nzz"),
        19 => format!("nohup {command}"),
        20 => format!("xargs {command}"),
        21 => format!("trap {single} EXIT"),
        _ => format!("cat <({command}\n)"),
    }
}

#[test]
fn a_part_in_a_quoted_script_is_found_where_it_stands() {
    for (source, expected) in [
        ("sh -c 'ls; rm -rf /'", "/"),
        ("bash -c \"cd x && rm -rf ~\"", "~"),
        ("ssh host 'ls; rm -rf /etc'", "/etc"),
        ("bash <<'E'\nls\nmkfs.ext4 /dev/sda\nE\n", "/dev/sda"),
        ("python3 -c 'import shutil; shutil.rmtree(\"/\")'", "shutil.rmtree(\"/\")"),
        // With an escape between them there is no such place.
        ("sh -c \"rm -rf \\\"/\\\"\"", "\"rm -rf \\\"/\\\"\""),
    ] {
        let span = judge(&Rules::builtin(), Language::Shell, source.as_bytes()).span.expect("a place");
        assert_eq!(&source[span.start..span.end], expected, "{source}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_forbidden_command_stays_forbidden_in_any_wrapping(
        command in prop::sample::select(vec!["rm -rf /", "rm -fr ~", "mkfs.ext4 /dev/sda", "dd if=x of=/dev/sda", "chmod -R 777 /etc"]),
        ways in prop::collection::vec(0usize..23, 0..4),
    ) {
        // A prefix such as `sudo` takes one command and no list, so that it comes first.
        let (mut prefixes, others): (Vec<usize>, Vec<usize>) = ways.into_iter().partition(|way| *way < 5 || matches!(*way, 19 | 20));
        prefixes.extend(others);
        let wrapped = prefixes.iter().fold(command.to_owned(), |text, way| wrap(*way, &text));
        prop_assert_eq!(verdict(Language::Shell, wrapped.as_bytes()), Verdict::Forbid, "{}", wrapped);
    }

    #[test]
    fn no_place_cuts_through_a_sign(parts in prop::collection::vec(
        prop::sample::select(vec!["é", "€", "🦀", "'", "\"", "$(", ")", " ", "sh -c ", "rm -rf /", "\n", "<<E\n", "E\n", "`", "{é,ü}", ";", "\\", "eval "]),
        0..30,
    )) {
        let source = parts.concat();
        for language in LANGUAGES {
            let span = judge(&Rules::builtin(), language, source.as_bytes()).span;
            prop_assert!(span.is_none_or(|span| source.get(span.start..span.end).is_some()), "{:?}", source);
        }
    }

    #[test]
    fn any_bytes_end_in_a_verdict(source in prop::collection::vec(any::<u8>(), 0..400)) {
        for language in LANGUAGES {
            let judgement = judge(&Rules::builtin(), language, &source);
            prop_assert!(judgement.span.is_none_or(|span| span.end <= source.len()));
        }
    }

    #[test]
    fn any_signs_of_a_shell_end_in_a_verdict(parts in prop::collection::vec(
        prop::sample::select(vec!["(", ")", "{", "}", "$", "`", "'", "\"", "\\", "\n", " ", ";", "&", "|", "<", ">", "#", "!", "[", "]", "*", "~", "=", "x", "if", "fi", "do", "done", "case", "esac", "in", "for", "<<E", "E", "rm", "-rf", "/", "eval", "sh -c"]),
        0..60,
    )) {
        let source = parts.concat();
        for language in LANGUAGES {
            judge(&Rules::builtin(), language, source.as_bytes());
        }
    }
}
