//! Variables, files and commands as sources, well-behaved and not.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use keyward_vault::source::Why;
use support::{CANARY, Stage, eventually, long_time, processes_with};

#[test]
fn a_variable_is_taken_as_it_stands() {
    let stage = Stage::new().with("A_KEY", format!(" {CANARY}\n")).with("NONE", "");
    assert_eq!(stage.value("env://A_KEY"), format!(" {CANARY}\n"));
    assert_eq!(
        stage.error("env://OTHER"),
        "env://OTHER is not there\nset OTHER where keyward is started, or keep the value in store://"
    );
    assert_eq!(stage.fetch("env://NONE").err().unwrap().why, Why::Empty);
    let large = Stage::new().with("BIG", CANARY.repeat(10_000));
    assert_eq!(large.fetch("env://BIG").err().unwrap().why, Why::TooLarge);
    large.error("env://BIG");
}

#[test]
fn a_whole_file_loses_one_line_end_and_only_that() {
    let stage = Stage::new();
    stage.file("token", format!("{CANARY}\n"));
    stage.file("key.pem", format!("-----BEGIN\n{CANARY}\n-----END\n"));
    stage.file("binary", [0, 1, 255, 10, 0]);
    assert_eq!(stage.value("file://~/token"), CANARY);
    assert_eq!(stage.value("file://~/key.pem"), format!("-----BEGIN\n{CANARY}\n-----END\n"));
    assert_eq!(stage.fetch("file://~/binary").ok().unwrap().expose(), [0, 1, 255, 10, 0]);
    let absolute = format!("file://{}", stage.home().join("token").display());
    assert_eq!(stage.value(&absolute), CANARY);
}

#[test]
fn a_part_of_a_file_is_found() {
    let stage = Stage::new();
    stage.file(".env", format!("# x\nexport A_KEY='{CANARY}'\nOTHER=1\n"));
    stage.file("auth.json", format!("{{\"accounts\": [{{\"token\": \"{CANARY}\\n\"}}], \"x\": {{}}}}"));
    assert_eq!(stage.value("file://~/.env#dotenv:A_KEY"), CANARY);
    assert_eq!(stage.value("file://~/auth.json#json:/accounts/0/token"), format!("{CANARY}\n"));
    assert_eq!(
        stage.error("file://~/.env#dotenv:MISSING"),
        "file://~/.env#dotenv:MISSING: it is there, but not this part of it\nthe file needs a line NAME=value with this name"
    );
    assert_eq!(
        stage.error("file://~/auth.json#json:/x"),
        "file://~/auth.json#json:/x: it is there, but not this part of it\nthe pointer must lead to a text or a number in the file"
    );
    assert!(stage.error("file://~/.env#json:/x").contains("the file is not valid JSON"));
    // Larger than a secret, and no problem.
    let padding = "x".repeat(200_000);
    stage.file("large.json", format!("{{\"padding\": \"{padding}\", \"token\": \"{CANARY}\"}}"));
    assert_eq!(stage.value("file://~/large.json#json:/token"), CANARY);
    assert_eq!(stage.fetch("file://~/large.json#json:/padding").err().unwrap().why, Why::TooLarge);
}

#[test]
fn what_is_no_file_does_not_keep_us() {
    let stage = Stage::new();
    stage.shell("mkfifo pipe && mkdir folder && printf '' > empty && ln -s missing link");
    stage.file("flood", CANARY.repeat(1_000_000));
    for (name, why) in [
        ("pipe", Why::Malformed("it is not an ordinary file")),
        ("folder", Why::Malformed("it is not an ordinary file")),
        ("empty", Why::Empty),
        ("link", Why::NotFound),
        ("missing", Why::NotFound),
        ("token/x", Why::NotFound),
        ("flood", Why::TooLarge),
    ] {
        let reference = format!("file://~/{name}");
        assert_eq!(stage.fetch(&reference).err().unwrap().why, why, "{name}");
        stage.error(&reference);
    }
    assert_eq!(
        stage.fetch("file:///dev/zero").err().unwrap().why,
        Why::Malformed("it is not an ordinary file")
    );
    assert!(stage.error("file://~/flood#json:/a").contains("more than 1 MiB"));
}

#[test]
fn a_command_prints_the_value() {
    let stage = Stage::new();
    stage.program("bin/give", &format!("#!/bin/sh\nprintf '%s:%s\\n' {CANARY} \"$1\"; echo {CANARY} >&2\n"));
    assert_eq!(stage.value("cmd://~/bin/give 'two words'"), format!("{CANARY}:two words"));
    assert_eq!(stage.value("cmd://printf %s value"), "value");
    let path = format!("{}:{}", stage.home().join("bin").display(), std::env::var("PATH").unwrap());
    let stage = stage.with("PATH", path);
    assert_eq!(stage.value("cmd://give '$HOME'"), format!("{CANARY}:$HOME"));
}

#[test]
fn a_command_gets_no_input_no_variable_and_no_current_folder_of_ours() {
    let stage = Stage::new().with("API_TOKEN", CANARY).with("LANG", "C.UTF-8").with("LD_PRELOAD", "/x");
    assert_eq!(stage.value("cmd://sh -c 'cat; echo end'"), "end");
    assert_eq!(stage.value("cmd://pwd"), "/");
    let names = stage.value("cmd://sh -c 'env | cut -d= -f1 | sort'");
    let mut names: Vec<&str> = names.split_whitespace().collect();
    // What the shell itself sets.
    names.retain(|name| !matches!(*name, "PWD" | "_" | "SHLVL" | "OLDPWD"));
    assert_eq!(names, ["HOME", "LANG", "PATH"]);
    // A program of the project is not found through a PATH that depends on where one stands.
    let stage = stage.with("PATH", ".:bin::/usr/bin:/bin");
    stage.program("bin/odd", "#!/bin/sh\necho wrong");
    assert!(matches!(stage.fetch("cmd://odd").err().unwrap().why, Why::NotInstalled(_)));
}

#[test]
fn a_command_that_fails_is_told_without_its_words() {
    let stage = Stage::new();
    stage.program("bin/fail", &format!("#!/bin/sh\necho {CANARY}; echo {CANARY} >&2; exit 3\n"));
    stage.program("bin/die", &format!("#!/bin/sh\necho {CANARY}; kill -9 $$\n"));
    stage.file("bin/plain", "no program");
    assert_eq!(
        stage.error("cmd://~/bin/fail --password x"),
        "cmd://~/bin/fail: ~/bin/fail failed with code 3\nrun it by hand to see what it says; it is not shown here, as it may hold the value"
    );
    assert!(stage.error("cmd://~/bin/die").starts_with("cmd://~/bin/die: ~/bin/die was killed\n"));
    assert_eq!(
        stage.error("cmd://no-such-program x"),
        "cmd://no-such-program needs the program no-such-program, which is not installed\n\
         install no-such-program, or keep the value elsewhere, such as in store://"
    );
    assert!(stage.error("cmd://~/bin/plain").contains("not installed"));
}

#[test]
fn garbage_a_flood_and_nothing_are_refused() {
    let stage = Stage::new();
    for (script, why) in [
        ("exit 0", Why::Empty),
        ("echo", Why::Empty),
        ("head -c 10000000 /dev/zero", Why::TooLarge),
        ("yes cAnArY-7f3a", Why::TooLarge),
        ("head -c 100 /dev/urandom; printf '\\377\\0'", Why::Garbage),
        ("printf '\\033[31mcAnArY-7f3a\\033[0m'", Why::Garbage),
        ("yes cAnArY-7f3a | head -c 10000000 >&2", Why::Empty),
    ] {
        let reference = format!("cmd://sh -c '{}'", script.replace('\'', "'\\''"));
        let error = stage.fetch(&reference).err().unwrap();
        assert_eq!(error.why, why, "{script}");
        support::two_lines(&error);
    }
    // The most that there may be, and much on stderr, is fine.
    assert_eq!(
        stage
            .value("cmd://sh -c 'yes noise | head -c 300000 >&2; head -c 65536 /dev/zero | tr \"\\\\0\" a'")
            .len(),
        65536
    );
}

#[test]
fn a_command_that_hangs_ends_with_all_it_has_started() {
    let stage = Stage::new().hurried();
    let time = long_time();
    stage.program("bin/hang", &format!("#!/bin/sh\necho {CANARY}\nsleep {time} &\n(setsid sleep {time} &)\nsetsid sh -c 'sleep {time}; :' &\nsleep {time}\n"));
    let waits = std::thread::scope(|scope| {
        let looks = scope.spawn(|| eventually(|| processes_with(&time).len() >= 4));
        let error = stage.error("cmd://~/bin/hang");
        assert_eq!(
            error,
            "cmd://~/bin/hang gave no answer within 1 seconds\n\
             a program gets no input unless you are at a terminal; run it by hand to see what it waits for"
        );
        looks.join().unwrap()
    });
    assert!(waits, "the control: they were there");
    // One that left its group, its session and its parent is an orphan, and only a subreaper sees it (tests/orphans.rs).
    assert!(eventually(|| processes_with(&time).len() <= 1), "{:?}", processes_with(&time));
    for number in processes_with(&time) {
        std::process::Command::new("kill").arg(number.to_string()).status().unwrap();
    }
}

#[test]
fn a_command_that_leaves_somebody_with_its_output_has_answered() {
    let stage = Stage::new();
    let time = long_time();
    stage.program("bin/fork", &format!("#!/bin/sh\necho {CANARY}\nsleep {time} &\n"));
    assert_eq!(stage.value("cmd://~/bin/fork"), CANARY);
    assert!(eventually(|| processes_with(&time).is_empty()), "who stayed in the group ends with it");
    stage.program("bin/daemon", &format!("#!/bin/sh\necho {CANARY}\n(setsid sleep {time} &)\nsleep 0.5\n"));
    assert_eq!(stage.value("cmd://~/bin/daemon"), CANARY);
    assert!(eventually(|| processes_with(&time).len() == 1), "a daemon is its own master");
    for number in processes_with(&time) {
        std::process::Command::new("kill").arg(number.to_string()).status().unwrap();
    }
}
