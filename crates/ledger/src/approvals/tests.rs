//! What depends on the clock, and what a question, a grant and a denial mean. Processes that race are in `tests/approvals.rs`.

use super::*;
use keyward_policy::gate::Text;
use keyward_policy::trouble::Code;
use std::cell::Cell;

thread_local! {
    static NOW: Cell<u64> = const { Cell::new(1_800_000_000) };
}

fn now() -> u64 {
    NOW.get()
}

fn pass(seconds: i64) {
    NOW.set(NOW.get().saturating_add_signed(seconds));
}

fn open(folder: &tempfile::TempDir) -> Approvals {
    Approvals::with_clock(folder.path(), now).unwrap()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn question(words: &str) -> Question {
    Question {
        digest: format!("digest of {words}"),
        run: "1-1".into(),
        session: Some("s".into()),
        profile: None,
        scope: "scope".into(),
        project: "/p".into(),
        cwd: "/p".into(),
        argv: words.split(' ').map(str::to_owned).collect(),
        rule: Some("git-push-force".into()),
        class: Some("git".into()),
        reason: "it replaces history".into(),
        span: Some((0, 3)),
        texts: vec![Text { name: "the command".into(), text: words.into() }],
        from_inside: false,
        given: Vec::new(),
    }
}

fn unheard(_: What) -> Result<(), Trouble> {
    Ok(())
}

fn of_class(uses: u32, seconds: u64) -> NewGrant {
    NewGrant {
        what: For::Class("git".into()),
        scope: "scope".into(),
        session: Some("s".into()),
        uses,
        seconds,
    }
}

#[test]
fn a_yes_is_taken_once_and_for_its_bytes_alone() {
    let folder = folder();
    let mut approvals = open(&folder);
    let id = approvals.ask(&question("a"), now() + 60, None).unwrap();
    assert_eq!(approvals.state(id).unwrap(), State::Waiting);
    assert!(!approvals.take(id, "digest of a").unwrap());
    assert_eq!(approvals.answer(id, true, By::Approvals, &mut unheard).unwrap(), Answered::Now);
    assert_eq!(approvals.state(id).unwrap(), State::Allowed { by: By::Approvals });
    assert!(!approvals.take(id, "digest of b").unwrap());
    assert!(approvals.take(id, "digest of a").unwrap());
    assert!(!approvals.take(id, "digest of a").unwrap());
    assert_eq!(approvals.state(id).unwrap(), State::Used);
    assert_eq!(
        approvals.answer(id, true, By::Approvals, &mut unheard).unwrap(),
        Answered::Before(State::Used)
    );
    assert_eq!(approvals.answer(77, true, By::Approvals, &mut unheard).unwrap(), Answered::Unknown);
}

#[test]
fn what_could_not_be_recorded_is_not_allowed() {
    let folder = folder();
    let mut approvals = open(&folder);
    let id = approvals.ask(&question("a"), now() + 60, None).unwrap();
    let full = Trouble::new(Code::ApprovalsUnusable, "no room", "make room");
    let mut fails = |_: What| Err(full.clone());
    assert_eq!(approvals.answer(id, true, By::Approvals, &mut fails), Err(full.clone()));
    assert_eq!(approvals.state(id).unwrap(), State::Waiting);
    assert_eq!(approvals.grant(&of_class(1, 60), &mut fails), Err(full.clone()));
    assert_eq!(approvals.grants().unwrap(), []);
    // Of an answer with a grant, neither holds without the other.
    let mut calls = 0;
    let mut fails_later = |_: What| {
        calls += 1;
        if calls == 2 { Err(full.clone()) } else { Ok(()) }
    };
    assert!(approvals.answer_and_grant(id, By::Approvals, &of_class(1, 60), &mut fails_later).is_err());
    assert_eq!((approvals.state(id).unwrap(), approvals.grants().unwrap()), (State::Waiting, vec![]));
}

#[test]
fn the_time_of_a_question_ends_and_a_clock_that_is_set_back_does_not_lengthen_it() {
    let folder = folder();
    let mut approvals = open(&folder);
    let id = approvals.ask(&question("a"), now() + 60, None).unwrap();
    pass(59);
    assert_eq!(approvals.state(id).unwrap(), State::Waiting);
    pass(1);
    assert_eq!(
        approvals.answer(id, true, By::Approvals, &mut unheard).unwrap(),
        Answered::Before(State::Over)
    );
    let id = approvals.ask(&question("a"), now() + 60, None).unwrap();
    pass(-1);
    assert_eq!(approvals.state(id).unwrap(), State::Over);
    assert_eq!(approvals.get(id).unwrap().unwrap().because.as_deref(), Some("timeout"));
}

#[test]
fn a_grant_is_worth_its_uses_within_its_time() {
    let folder = folder();
    let mut approvals = open(&folder);
    let mut events = Vec::new();
    let id = approvals
        .grant(&of_class(2, 60), &mut |what| {
            events.push(what);
            Ok(())
        })
        .unwrap();
    let told = What::Granted {
        grant: id,
        class: Some("git".into()),
        digest: None,
        session: Some("s".into()),
        uses: 2,
        until: crate::time_of(now() + 60),
    };
    assert_eq!(events, [told]);
    let mut take = |question: &Question| approvals.take_grant(question).unwrap();
    let elsewhere = Question { scope: "another".into(), ..question("a") };
    let other_session = Question { session: Some("t".into()), ..question("a") };
    let no_session = Question { session: None, ..question("a") };
    let other_class = Question { class: Some("cloud".into()), ..question("a") };
    let no_class = Question { class: None, ..question("a") };
    for unfit in [elsewhere, other_session, no_session, other_class, no_class] {
        assert_eq!(take(&unfit), None);
    }
    assert_eq!(take(&question("a")), Some(TakenGrant { id, uses_left: 1 }));
    pass(-1);
    assert_eq!(take(&question("a")), None, "before it was made");
    pass(60);
    assert_eq!(take(&question("b")), Some(TakenGrant { id, uses_left: 0 }));
    assert_eq!(take(&question("b")), None, "used up");
    let _ = approvals.grant(&of_class(2, 60), &mut unheard).unwrap();
    pass(60);
    assert_eq!(approvals.take_grant(&question("a")).unwrap(), None, "over");
    assert_eq!(approvals.grants().unwrap(), []);
}

#[test]
fn the_narrowest_grant_is_used_first_and_a_revoked_one_is_worth_nothing() {
    let folder = folder();
    let mut approvals = open(&folder);
    let class = approvals.grant(&of_class(5, 60), &mut unheard).unwrap();
    let bytes = NewGrant { what: For::Digest("digest of a".into()), session: None, ..of_class(1, 3600) };
    let bytes = approvals.grant(&bytes, &mut unheard).unwrap();
    assert_eq!(approvals.take_grant(&question("a")).unwrap().unwrap().id, bytes);
    assert_eq!(approvals.take_grant(&question("a")).unwrap().unwrap().id, class);
    assert!(approvals.revoke(class, &mut unheard).unwrap());
    assert!(!approvals.revoke(class, &mut unheard).unwrap());
    assert_eq!(approvals.take_grant(&question("a")).unwrap(), None);
}

#[test]
fn grants_have_bounds() {
    let folder = folder();
    let mut approvals = open(&folder);
    for (uses, seconds) in [(0, 60), (1001, 60), (1, 0), (1, 30 * 86_400 + 1)] {
        assert!(approvals.grant(&of_class(uses, seconds), &mut unheard).is_err());
    }
    assert!(approvals.grant(&of_class(1000, 30 * 86_400), &mut unheard).is_ok());
}

#[test]
fn a_no_sticks_to_the_rule_in_its_session_until_a_person_grants() {
    let folder = folder();
    let mut approvals = open(&folder);
    let id = approvals.ask(&question("a"), now() + 60, None).unwrap();
    assert!(!approvals.denied_before(&question("a")).unwrap());
    let _ = approvals.answer(id, false, By::Terminal, &mut unheard).unwrap();
    assert!(approvals.denied_before(&question("in other words")).unwrap());
    let other_session = Question { session: Some("t".into()), ..question("a") };
    let other_rule = Question { rule: Some("other".into()), ..question("a") };
    let no_rule = Question { rule: None, ..question("a") };
    for other in [other_session, other_rule, no_rule] {
        assert!(!approvals.denied_before(&other).unwrap());
    }
    // Nor do a thousand other questions make it forgotten.
    for number in 0..1200 {
        let other = Question { rule: None, ..question(&number.to_string()) };
        approvals.refused(&other, "unattended").unwrap();
    }
    assert!(approvals.get(id).unwrap().is_none(), "the control: the question itself is gone");
    assert!(approvals.denied_before(&question("a")).unwrap());
    let _ = approvals.grant(&of_class(1, 60), &mut unheard).unwrap();
    assert!(!approvals.denied_before(&question("a")).unwrap());
}

#[test]
fn never_counts_for_the_scope_until_something_of_the_kind_is_granted() {
    let folder = folder();
    let mut approvals = open(&folder);
    let alone = |text: &str| Question { session: None, ..question(text) };
    let id = approvals.ask(&alone("a"), now() + 60, None).unwrap();
    assert_eq!(
        approvals.answer_reaching(id, false, Reach::Project, By::Terminal, &mut unheard).unwrap(),
        Answered::Now
    );
    assert_eq!(approvals.state(id).unwrap(), State::Denied { by: By::Terminal });
    let other_session = Question { session: Some("t".into()), ..question("b") };
    for denied in [alone("in other words"), question("a"), other_session] {
        assert!(approvals.denied_before(&denied).unwrap());
    }
    let other_scope = Question { scope: "elsewhere".into(), ..alone("a") };
    let other_rule = Question { rule: Some("other".into()), ..alone("a") };
    for other in [&other_scope, &other_rule] {
        assert!(!approvals.denied_before(other).unwrap());
    }
    // The same rule in two places: neither takes the other's place.
    let id = approvals.ask(&other_scope, now() + 60, None).unwrap();
    let _ = approvals.answer_reaching(id, false, Reach::Project, By::Terminal, &mut unheard).unwrap();
    assert!(approvals.denied_before(&alone("a")).unwrap() && approvals.denied_before(&other_scope).unwrap());
    let grant = NewGrant { session: None, ..of_class(1, 60) };
    let _ = approvals.grant(&grant, &mut unheard).unwrap();
    assert!(!approvals.denied_before(&alone("a")).unwrap());
    assert!(approvals.denied_before(&other_scope).unwrap());
    // A plain no without a session is for that one command.
    let id = approvals.ask(&alone("a"), now() + 60, None).unwrap();
    let _ = approvals.answer(id, false, By::Terminal, &mut unheard).unwrap();
    assert!(!approvals.denied_before(&alone("a")).unwrap());
}

#[test]
fn a_yes_reaches_the_very_same_bytes_and_no_further_than_was_said() {
    let asked = question("a");
    assert_eq!(NewGrant::reaching(Reach::Once, &asked), None);
    let alone = Question { session: None, ..question("a") };
    assert_eq!(NewGrant::reaching(Reach::Session, &alone), None);
    let folder = folder();
    let mut approvals = open(&folder);
    let session = NewGrant::reaching(Reach::Session, &asked).unwrap();
    let _ = approvals.grant(&session, &mut unheard).unwrap();
    let other_session = Question { session: Some("t".into()), ..question("a") };
    assert!(approvals.take_grant(&other_session).unwrap().is_none());
    assert!(approvals.take_grant(&Question { digest: "other".into(), ..question("a") }).unwrap().is_none());
    assert!(
        approvals.take_grant(&asked).unwrap().is_some() && approvals.take_grant(&asked).unwrap().is_some()
    );
    let project = NewGrant::reaching(Reach::Project, &alone).unwrap();
    let _ = approvals.grant(&project, &mut unheard).unwrap();
    assert!(approvals.take_grant(&other_session).unwrap().is_some());
    assert!(
        approvals.take_grant(&Question { scope: "elsewhere".into(), ..alone.clone() }).unwrap().is_none()
    );
    pass(3600);
    assert!(approvals.take_grant(&alone).unwrap().is_none(), "the hour is over");
}

#[test]
fn a_time_that_ran_out_is_not_a_persons_no() {
    let folder = folder();
    let mut approvals = open(&folder);
    let id = approvals.ask(&question("a"), now() + 60, None).unwrap();
    approvals.over(id, By::Timeout).unwrap();
    assert_eq!(approvals.state(id).unwrap(), State::Over);
    assert!(!approvals.denied_before(&question("a")).unwrap());
}

#[test]
fn a_token_answers_its_question_once() {
    use sha2::Digest;
    let folder = folder();
    let mut approvals = open(&folder);
    let token = b"0123456789abcdef";
    let digest: [u8; 32] = sha2::Sha256::digest(token).into();
    let other: [u8; 32] = sha2::Sha256::digest(b"other").into();
    let id = approvals.ask(&question("a"), now() + 60, Some(digest)).unwrap();
    let another = approvals.ask(&question("b"), now() + 60, Some(other)).unwrap();
    let mut by = |token: &[u8]| approvals.answer_by_token(token, true, &mut unheard).unwrap();
    assert_eq!(by(b""), Answered::Unknown);
    assert_eq!(by(&digest), Answered::Unknown, "the digest is not the token");
    assert_eq!(by(token), Answered::Now);
    assert_eq!(by(token), Answered::Unknown, "a second time");
    assert_eq!(approvals.state(id).unwrap(), State::Allowed { by: By::Webhook });
    assert_eq!(approvals.state(another).unwrap(), State::Waiting);
}

#[test]
fn what_is_over_is_kept_for_thirty_days_and_a_thousand_at_most() {
    let folder = folder();
    let mut approvals = open(&folder);
    let old = approvals.refused(&question("old"), "unattended").unwrap();
    pass(30 * 86_400);
    approvals.refused(&question("x"), "unattended").unwrap();
    assert!(approvals.get(old).unwrap().is_some());
    pass(1);
    let first = approvals.refused(&question("x"), "unattended").unwrap();
    assert!(approvals.get(old).unwrap().is_none());
    // The same again is the same entry.
    assert_eq!(approvals.refused(&question("x"), "unattended").unwrap(), first);
    for number in 0..1010 {
        let another = Question { session: None, ..question(&format!("x{number}")) };
        approvals.refused(&another, "unattended").unwrap();
    }
    assert!(approvals.get(first).unwrap().is_none());
    assert_eq!(approvals.list(Which::All).unwrap().len(), 1001);
}

#[test]
fn only_so_many_can_wait_at_once() {
    let folder = folder();
    let mut approvals = open(&folder);
    for _ in 0..16 {
        approvals.ask(&question("a"), now() + 60, None).unwrap();
    }
    assert!(approvals.ask(&question("a"), now() + 60, None).unwrap_err().fact.contains("too many"));
    // Others are not held up by it.
    let other = Question { session: Some("t".into()), ..question("a") };
    let id = approvals.ask(&other, now() + 60, None).unwrap();
    approvals.over(id, By::Lost).unwrap();
    pass(60);
    approvals.ask(&question("a"), now() + 60, None).unwrap();
}

#[test]
fn whoever_asks_from_a_cage_and_goes_away_asks_only_so_often() {
    let folder = folder();
    let mut approvals = open(&folder);
    let other = approvals.refused(&question("other"), "unattended").unwrap();
    let inside = Question { session: Some("inside".into()), from_inside: true, ..question("a") };
    let mut asked = 0;
    while approvals.has_room(&inside).unwrap() && asked < 100 {
        let id = approvals.ask(&inside, now() + 60, None).unwrap();
        approvals.over(id, By::Lost).unwrap();
        asked += 1;
    }
    assert_eq!(asked, 60);
    assert!(approvals.ask(&inside, now() + 60, None).unwrap_err().fact.contains("too many"));
    // The controls: others can, and a minute later so can it.
    assert!(approvals.has_room(&Question { from_inside: false, ..inside.clone() }).unwrap());
    assert!(approvals.has_room(&Question { session: Some("another".into()), ..inside.clone() }).unwrap());
    pass(60);
    assert!(approvals.has_room(&inside).unwrap());
    // What it leaves pushes nothing out that others have asked.
    for number in 0..1200 {
        let many = Question { digest: format!("{number}"), ..inside.clone() };
        approvals.refused(&many, "unattended").unwrap();
    }
    assert!(approvals.get(other).unwrap().is_some());
    assert!(approvals.list(Which::All).unwrap().len() <= 202);
}

#[test]
fn the_texts_are_there_while_it_waits_and_then_nowhere() {
    let folder = folder();
    let mut approvals = open(&folder);
    let mut asked = question("x");
    asked.texts[0].text = "printf unmistakable-words".repeat(2000);
    let somewhere = || {
        let files = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        files
            .map(|path| std::fs::read(path).unwrap())
            .any(|bytes| bytes.windows(18).any(|window| window == b"unmistakable-words"))
    };
    for end in [true, false] {
        let id = approvals.ask(&asked, now() + 60, None).unwrap();
        assert_eq!(approvals.get(id).unwrap().unwrap().question.texts, asked.texts);
        assert!(approvals.list(Which::Waiting).unwrap()[0].question.texts.is_empty());
        assert!(somewhere(), "the control: it is found while it waits");
        match end {
            true => drop(approvals.answer(id, true, By::Approvals, &mut unheard).unwrap()),
            false => approvals.over(id, By::Timeout).unwrap(),
        }
        assert!(!somewhere());
        let entry = approvals.get(id).unwrap().unwrap();
        assert!(entry.question.texts.is_empty());
        assert_eq!(entry.sizes, [Size { name: "the command".into(), bytes: 50_000 }]);
    }
}

thread_local! {
    static FILE: std::cell::RefCell<PathBuf> = const { std::cell::RefCell::new(PathBuf::new()) };
}

/// Somebody else asks something at the moment at which the clock is looked at.
fn clock_that_meddles() -> u64 {
    let other = FILE.with_borrow(|file| Connection::open(file).unwrap());
    other.busy_timeout(std::time::Duration::ZERO).unwrap();
    let _ = other.execute_batch(
        "INSERT INTO question (state, digest, about, asker, asked, until)
         SELECT state, digest, about, asker, asked, until FROM question LIMIT 1",
    );
    now()
}

#[test]
fn nothing_is_seen_that_is_younger_than_the_clock() {
    let folder = folder();
    let mut approvals = open(&folder);
    let id = approvals.ask(&question("a"), now() + 60, None).unwrap();
    FILE.set(path(folder.path()));
    let mut meddled = Approvals::with_clock(folder.path(), clock_that_meddles).unwrap();
    assert_eq!(meddled.list(Which::All).unwrap().len(), 1);
    // The control: it was written meanwhile, and while something is changed it cannot be.
    assert_eq!(approvals.list(Which::All).unwrap().len(), 2);
    meddled.over(id, By::Lost).unwrap();
    assert_eq!(approvals.list(Which::All).unwrap().len(), 2);
}
