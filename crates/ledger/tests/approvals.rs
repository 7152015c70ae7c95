//! The store of approvals among processes: races, deaths at any moment, and files that are not what they should be.
//!
//! A test starts this same program again to play the others (`a_part`).
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use keyward_ledger::approvals::{
    Answered, Approvals, For, NewGrant, State, Trouble, Which, clock, is_watched, path, watch,
};
use keyward_policy::event::{By, What};
use keyward_policy::gate::{Question, Text};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

fn question(session: &str) -> Question {
    Question {
        digest: "d1".into(),
        run: "1-1".into(),
        session: Some(session.into()),
        profile: None,
        scope: "scope".into(),
        project: "/p".into(),
        cwd: "/p".into(),
        argv: vec!["git".into(), "push".into(), "--force".into()],
        rule: Some("git-push-force".into()),
        class: Some("git".into()),
        reason: "it replaces history".into(),
        span: None,
        texts: vec![Text { name: "the command".into(), text: "git push --force".into() }],
        from_inside: false,
        given: Vec::new(),
    }
}

fn unheard(_: What) -> Result<(), Trouble> {
    Ok(())
}

fn grant(uses: u32) -> NewGrant {
    NewGrant { what: For::Class("git".into()), scope: "scope".into(), session: None, uses, seconds: 3600 }
}

/// On a slow disk those who are many wait longer than the store does. Then it has said no, and one tries again.
#[track_caller]
fn patiently<T>(mut act: impl FnMut() -> Result<T, Trouble>) -> T {
    loop {
        match act() {
            Err(trouble) if trouble.fact.contains("locked for 20 s") => {}
            done => return done.unwrap(),
        }
    }
}

/// Another process that does what `play` says.
fn part(state: &Path, what: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["a_part", "--exact", "--ignored", "--nocapture", "--test-threads=1"])
        .env("PART", what)
        .env("STATE", state)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    command
}

/// The lines that a part prints: each begins with `> `.
fn lines(child: &mut Child) -> impl Iterator<Item = String> + use<> {
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    lines.map_while(Result::ok).filter_map(|line| Some(line.split_once("> ")?.1.to_owned()))
}

fn say(words: impl std::fmt::Display) {
    println!("\n> {words}");
    std::io::stdout().flush().unwrap();
}

fn wait_for_the_start() {
    std::io::stdin().read_line(&mut String::new()).unwrap();
}

/// All begin at the same moment; what each has said last.
fn all_at_once(mut parts: Vec<Child>) -> Vec<String> {
    let mut said: Vec<_> = parts.iter_mut().map(lines).collect();
    for lines in &mut said {
        assert_eq!(lines.next().unwrap(), "ready");
    }
    for part in &mut parts {
        drop(part.stdin.take());
    }
    let last = said.into_iter().map(|lines| lines.last().unwrap()).collect();
    for part in &mut parts {
        part.wait().unwrap();
    }
    last
}

#[test]
#[ignore = "a part that other tests start"]
fn a_part() {
    let state = std::path::PathBuf::from(std::env::var_os("STATE").unwrap());
    let part = std::env::var("PART").unwrap();
    let (part, argument) = part.split_once(' ').unwrap_or((&part, ""));
    let number = || argument.parse::<u64>().unwrap();
    match part {
        "use-up" => {
            let mut approvals = Approvals::open(&state).unwrap();
            say("ready");
            wait_for_the_start();
            let mut taken = 0;
            while patiently(|| approvals.take_grant(&question("s"))).is_some() {
                taken += 1;
            }
            say(taken);
        }
        "answer-yes" | "answer-no" => {
            let mut approvals = Approvals::open(&state).unwrap();
            say("ready");
            wait_for_the_start();
            let mut record = |_: What| {
                let log = std::fs::OpenOptions::new().append(true).create(true).open(state.join("log"));
                writeln!(log.unwrap(), "answered").unwrap();
                Ok(())
            };
            let answered =
                patiently(|| approvals.answer(number(), part == "answer-yes", By::Approvals, &mut record));
            say(format!("{answered:?}"));
        }
        "open" => {
            say("ready");
            wait_for_the_start();
            say(Approvals::open(&state).map_or_else(|trouble| trouble.fact, |_| "opened".into()));
        }
        "take" => say(Approvals::open(&state).unwrap().take(number(), "d1").unwrap()),
        "ask" => {
            let mut approvals = Approvals::open(&state).unwrap();
            say(approvals.ask(&question("s"), clock() + 3600, None).unwrap());
            wait_for_the_start();
        }
        "ask-again-and-again" => {
            let mut approvals = patiently(|| Approvals::open(&state));
            say("ready");
            loop {
                let id = patiently(|| approvals.ask(&question("s"), clock() + 3600, None));
                patiently(|| approvals.over(id, By::Timeout));
            }
        }
        "answer-again-and-again" => {
            let mut approvals = patiently(|| Approvals::open(&state));
            say("ready");
            loop {
                for entry in patiently(|| approvals.list(Which::Waiting)) {
                    let log = state.join(format!("yes-{}", entry.id));
                    let mut record = |_: What| {
                        std::fs::write(&log, "").unwrap();
                        Ok(())
                    };
                    let _ = patiently(|| approvals.answer(entry.id, true, By::Approvals, &mut record));
                }
            }
        }
        "lock" => {
            let connection = rusqlite::Connection::open(path(&state)).unwrap();
            connection.execute_batch("BEGIN EXCLUSIVE").unwrap();
            say("locked");
            wait_for_the_start();
        }
        "watch" => {
            let watch = watch(&state).unwrap();
            say("watches");
            wait_for_the_start();
            drop(watch);
        }
        "try-everything" => {
            let tried = Approvals::open(&state).and_then(|mut approvals| {
                for _ in 0..10_000 {
                    approvals.ask(&question(""), clock() + 3600, None)?;
                    let waiting = approvals.list(Which::Waiting)?;
                    approvals.over(waiting[0].id, By::Lost)?;
                    approvals.grant(&grant(1), &mut unheard)?;
                }
                Ok(())
            });
            let Trouble { fact, remedy, .. } = tried.unwrap_err();
            say(format!("{fact} / {remedy}"));
        }
        other => panic!("no part {other}"),
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn first_line(mut child: Child) -> (String, Child) {
    let line = lines(&mut child).next().unwrap();
    (line, child)
}

#[test]
fn eight_processes_use_up_a_grant_of_a_hundred_uses_and_not_one_more() {
    let folder = folder();
    let mut approvals = Approvals::open(folder.path()).unwrap();
    approvals.grant(&grant(100), &mut unheard).unwrap();
    let parts = (0..8).map(|_| part(folder.path(), "use-up").spawn().unwrap()).collect();
    let taken: Vec<u32> = all_at_once(parts).iter().map(|taken| taken.parse().unwrap()).collect();
    assert_eq!(taken.iter().sum::<u32>(), 100, "{taken:?}");
}

#[test]
fn of_answers_at_once_one_wins_and_only_that_is_recorded() {
    for _ in 0..5 {
        let folder = folder();
        let mut approvals = Approvals::open(folder.path()).unwrap();
        let id = approvals.ask(&question("s"), clock() + 3600, None).unwrap();
        let say = |number| if number % 2 == 0 { "answer-yes" } else { "answer-no" };
        let parts =
            (0..4).map(|number| part(folder.path(), &format!("{} {id}", say(number))).spawn().unwrap());
        let said = all_at_once(parts.collect());
        assert_eq!(said.iter().filter(|said| *said == "Now").count(), 1, "{said:?}");
        assert_eq!(std::fs::read_to_string(folder.path().join("log")).unwrap(), "answered\n");
        let won = said.iter().position(|said| said == "Now").unwrap();
        let (yes, no) = (State::Allowed { by: By::Approvals }, State::Denied { by: By::Approvals });
        assert_eq!(approvals.state(id).unwrap(), if won % 2 == 0 { yes } else { no });
        assert_eq!(approvals.take(id, "d1").unwrap(), won % 2 == 0);
    }
}

#[test]
fn many_that_begin_at_once_make_one_database() {
    for _ in 0..20 {
        let folder = folder();
        let parts = (0..8).map(|_| part(folder.path(), "open").spawn().unwrap()).collect();
        assert_eq!(all_at_once(parts), ["opened"; 8]);
    }
}

#[test]
fn another_process_cannot_take_the_yes() {
    let folder = folder();
    let mut approvals = Approvals::open(folder.path()).unwrap();
    let id = approvals.ask(&question("s"), clock() + 3600, None).unwrap();
    assert_eq!(approvals.answer(id, true, By::Approvals, &mut unheard), Ok(Answered::Now));
    let (taken, mut other) = first_line(part(folder.path(), &format!("take {id}")).spawn().unwrap());
    other.wait().unwrap();
    assert_eq!(taken, "false");
    assert!(approvals.take(id, "d1").unwrap(), "the control");
}

#[test]
fn nobody_waits_for_an_asker_that_was_killed() {
    let folder = folder();
    let mut approvals = Approvals::open(folder.path()).unwrap();
    let (id, mut asker) = first_line(part(folder.path(), "ask").spawn().unwrap());
    let id = id.parse().unwrap();
    assert_eq!(approvals.state(id).unwrap(), State::Waiting);
    assert_eq!(approvals.list(Which::Waiting).unwrap().len(), 1);
    asker.kill().unwrap();
    asker.wait().unwrap();
    assert_eq!(approvals.list(Which::Waiting).unwrap(), []);
    assert_eq!(approvals.answer(id, true, By::Approvals, &mut unheard), Ok(Answered::Before(State::Over)));
    let entry = approvals.get(id).unwrap().unwrap();
    assert_eq!((entry.because.as_deref(), entry.question.texts.len()), (Some("lost"), 0));
}

/// Whoever is killed at any moment leaves a database that works, and no yes that is not recorded.
#[test]
fn a_kill_at_any_moment_loses_at_most_the_yes() {
    let folder = folder();
    let mut seed = std::process::id();
    for _ in 0..30 {
        let mut parts = [
            part(folder.path(), "ask-again-and-again").spawn().unwrap(),
            part(folder.path(), "answer-again-and-again").spawn().unwrap(),
        ];
        for part in &mut parts {
            assert_eq!(lines(part).next().unwrap(), "ready");
        }
        let mut approvals = patiently(|| Approvals::open(folder.path()));
        let id = patiently(|| approvals.ask(&question("mine"), clock() + 3600, None));
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        std::thread::sleep(std::time::Duration::from_micros(u64::from(seed >> 17)));
        for part in &mut parts {
            part.kill().unwrap();
            part.wait().unwrap();
        }
        if let State::Allowed { .. } = approvals.state(id).unwrap() {
            assert!(folder.path().join(format!("yes-{id}")).exists(), "a yes that is not recorded");
            assert!(approvals.take(id, "d1").unwrap());
        } else {
            approvals.over(id, By::Lost).unwrap();
        }
    }
    // The control: one that is not killed answers.
    let mut approvals = patiently(|| Approvals::open(folder.path()));
    let id = patiently(|| approvals.ask(&question("mine"), clock() + 3600, None));
    let mut answerer = part(folder.path(), "answer-again-and-again").spawn().unwrap();
    while approvals.state(id).unwrap() == State::Waiting {
        std::thread::yield_now();
    }
    answerer.kill().unwrap();
    answerer.wait().unwrap();
    assert!(approvals.take(id, "d1").unwrap());
    let check = rusqlite::Connection::open(path(folder.path())).unwrap();
    let found: String = check.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(found, "ok");
}

#[test]
fn a_watcher_is_known_while_it_lives() {
    let folder = folder();
    let state = folder.path().join("not there yet");
    assert!(!is_watched(&state));
    let (_, mut one) = first_line(part(&state, "watch").spawn().unwrap());
    let (_, mut other) = first_line(part(&state, "watch").spawn().unwrap());
    assert!(is_watched(&state));
    one.kill().unwrap();
    one.wait().unwrap();
    assert!(is_watched(&state));
    other.kill().unwrap();
    other.wait().unwrap();
    assert!(!is_watched(&state));
}

#[track_caller]
fn refused(state: &Path, fact: &str, remedy: &str) {
    let trouble =
        Approvals::open(state).and_then(|mut approvals| approvals.take_grant(&question("s"))).unwrap_err();
    assert!(trouble.fact.contains(fact) && trouble.remedy.contains(remedy), "{trouble:?}");
}

/// A database with a grant in it, closed.
fn filled() -> tempfile::TempDir {
    let folder = folder();
    let mut approvals = Approvals::open(folder.path()).unwrap();
    approvals.grant(&grant(5), &mut unheard).unwrap();
    assert!(approvals.take_grant(&question("s")).unwrap().is_some(), "the control");
    folder
}

#[test]
fn only_the_owner_can_read_it() {
    let folder = folder();
    let state = folder.path().join("a/state");
    let _approvals = Approvals::open(&state).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&state), 0o700);
    let files: Vec<_> = std::fs::read_dir(&state).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 3, "{files:?}");
    files.iter().for_each(|file| assert_eq!(mode(file), 0o600, "{file:?}"));
}

#[test]
fn what_is_damaged_says_no_and_how_to_mend_it() {
    let noise: Vec<u8> = (0..60_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let folder = filled();
    let file = path(folder.path());
    let good = std::fs::read(&file).unwrap();
    let mut half = good.clone();
    half[4096..].copy_from_slice(&noise[4096..good.len()]);
    for bytes in [&noise[..], &good[..good.len() / 2], &good[..1000], b"x", &half] {
        std::fs::write(&file, bytes).unwrap();
        refused(folder.path(), "damaged", "mv ");
        assert_eq!(std::fs::read(&file).unwrap(), bytes, "what is damaged is left as it is");
    }
    // The remedy, as it is told.
    let tried = Approvals::open(folder.path()).and_then(|mut approvals| approvals.take_grant(&question("s")));
    let remedy = tried.unwrap_err().remedy;
    let command = remedy.split('`').nth(1).unwrap();
    assert!(Command::new("sh").args(["-c", command]).status().unwrap().success());
    assert!(Approvals::open(folder.path()).unwrap().grants().unwrap().is_empty());
}

#[test]
fn an_empty_file_is_a_new_one_and_grants_nothing() {
    let folder = filled();
    std::fs::write(path(folder.path()), b"").unwrap();
    let mut approvals = Approvals::open(folder.path()).unwrap();
    assert_eq!(approvals.take_grant(&question("s")).unwrap(), None);
}

#[test]
fn a_journal_that_is_lost_loses_only_what_stood_in_it() {
    let folder = filled();
    let (id, mut asker) = first_line(part(folder.path(), "ask").spawn().unwrap());
    asker.kill().unwrap();
    asker.wait().unwrap();
    let journal = folder.path().join("approvals.db-wal");
    assert!(std::fs::metadata(&journal).unwrap().len() > 0, "the control: a killed process leaves one");
    std::fs::remove_file(&journal).unwrap();
    let mut approvals = Approvals::open(folder.path()).unwrap();
    assert_eq!(approvals.state(id.parse().unwrap()).unwrap(), State::Over);
    assert!(approvals.take_grant(&question("s")).unwrap().is_some());
}

#[test]
fn what_is_not_ours_is_refused_and_left_alone() {
    let folder = folder();
    let file = path(folder.path());
    let target = folder.path().join("target");
    std::os::unix::fs::symlink(&target, &file).unwrap();
    refused(folder.path(), "is a link", "mv ");
    assert!(!target.exists());
    std::fs::remove_file(&file).unwrap();
    std::fs::create_dir(&file).unwrap();
    refused(folder.path(), "no plain file", "mv ");
    std::fs::remove_dir(&file).unwrap();

    let other = rusqlite::Connection::open(&file).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o600)).unwrap();
    other.execute_batch("CREATE TABLE theirs (x)").unwrap();
    drop(other);
    let before = std::fs::read(&file).unwrap();
    refused(folder.path(), "a database of another program", "mv ");
    assert_eq!(std::fs::read(&file).unwrap(), before);
    std::fs::remove_file(&file).unwrap();

    drop(Approvals::open(folder.path()).unwrap());
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    refused(folder.path(), "open to others", "mv ");
}

#[test]
fn a_database_of_a_newer_version_is_refused() {
    let folder = filled();
    let connection = rusqlite::Connection::open(path(folder.path())).unwrap();
    connection.execute_batch("PRAGMA user_version = 7").unwrap();
    drop(connection);
    refused(folder.path(), "newer keyward (version 7)", "use that one");
}

#[test]
fn a_lock_that_another_never_gives_back_is_a_no() {
    let folder = filled();
    let (_, mut other) = first_line(part(folder.path(), "lock").spawn().unwrap());
    refused(folder.path(), "locked for 20 s", "fuser ");
    other.kill().unwrap();
    other.wait().unwrap();
    assert!(Approvals::open(folder.path()).unwrap().take_grant(&question("s")).unwrap().is_some());
}

/// A part in a mount namespace that is thrown away, with a file system of its own at the state folder.
fn on_a_mount(state: &Path, mount: &str, what: &str) -> String {
    let inner = part(state, what);
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c"]);
    command.arg(format!("{mount} && exec \"$@\"")).arg("sh");
    command.arg(inner.get_program()).args(inner.get_args());
    command.env("PART", what).env("STATE", state).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let said = lines(&mut child).last();
    assert!(child.wait().unwrap().success());
    said.unwrap()
}

#[test]
fn a_full_disk_is_a_no() {
    let folder = folder();
    for room in ["16k", "64k", "100k", "200k"] {
        let mount = format!("mount -t tmpfs -o size={room},mode=700 none \"$STATE\"");
        let said = on_a_mount(folder.path(), &mount, "try-everything");
        assert!(said.contains("make room"), "{room}: {said}");
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_a_no() {
    let folder = folder();
    let mount = "mount -t tmpfs -o ro none \"$STATE\"";
    let said = on_a_mount(folder.path(), mount, "try-everything");
    assert!(said.contains("fix the permissions"), "{said}");
    drop(Approvals::open(folder.path()).unwrap());
    let mount = "mount --bind \"$STATE\" \"$STATE\" && mount -o remount,bind,ro \"$STATE\"";
    let said = on_a_mount(folder.path(), mount, "try-everything");
    assert!(said.contains("fix the permissions"), "{said}");
}
