//! What waits for the gate: who is shown a question, whose answer counts, and what becomes of it when one side leaves.

use super::*;
use keyward_policy::gate::Reach;
use keyward_protocol::approval::Progress;
use keyward_protocol::session::{Asked, Value};

/// The number of a process that asks, from 1.
const FIRST: u64 = 1;

impl Stage {
    /// A session whose gate asks approvers.
    fn that_asks() -> Self {
        let stage = Stage::new();
        stage.asks.set(true);
        stage
    }

    /// The process that asks says something.
    fn asker_says(&mut self, number: u64, progress: &Progress) {
        let place = usize::try_from(number - FIRST).unwrap();
        channel::send(&self.askers.borrow()[place], &packet::write(progress), &[]).unwrap();
        self.server.hear_gate(number);
    }

    /// What the process that asks has heard; `None` where there is nothing, or the socket is closed.
    fn asker_heard(&self, number: u64) -> Option<Progress> {
        let mut packet = vec![0; LONGEST];
        let askers = self.askers.borrow();
        let message =
            channel::receive(&askers[usize::try_from(number - FIRST).unwrap()], &mut packet).ok()?;
        packet::read(&packet[..message.length])
    }

    fn waiting(&self) -> usize {
        self.server.questions.sources().count()
    }
}

fn asked() -> Asked {
    Asked {
        question: 7,
        digest: "d".into(),
        rule: Some("git.reset".into()),
        class: Some("git".into()),
        reason: "r".into(),
        argv: vec!["git".into()],
        from_inside: false,
    }
}

fn answerable(program: &str) -> Ask {
    let mut ask = command(program);
    if let Ask::Exec { answers, .. } = &mut ask {
        *answers = true;
    }
    ask
}

fn call() -> Ask {
    Ask::Call { name: "add".into(), input: Value::Null }
}

#[test]
fn a_question_is_shown_to_its_client_and_to_those_who_watch_and_to_none_inside() {
    let mut stage = Stage::that_asks();
    let (client, own) = stage.server.clients.connect(Side::Outside);
    let (watcher, watches) = stage.server.clients.connect(Side::Outside);
    let (_, other) = stage.server.clients.connect(Side::Outside);
    let (_, inside) = stage.server.clients.connect(Side::Inside);
    stage.ask(watcher, Ask::Watch {});
    assert_eq!(told(&watches), Some(Answer::Done {}));
    stage.ask(client, answerable("git"));
    assert_eq!((stage.waiting(), stage.errand()), (1, None), "nothing starts before the answer");
    stage.asker_says(FIRST, &Progress::Asked(asked()));
    for shown in [&own, &watches] {
        assert_eq!(told(shown), Some(Answer::Question(asked())));
    }
    assert_eq!((told(&other), told(&inside)), (None, None));
    // One who watches from now on sees it as well, and no one sees it twice.
    let (late, latecomer) = stage.server.clients.connect(Side::Outside);
    stage.ask(late, Ask::Watch {});
    assert_eq!(
        (told(&latecomer), told(&latecomer)),
        (Some(Answer::Done {}), Some(Answer::Question(asked())))
    );
    assert_eq!((told(&own), told(&watches)), (None, None));
}

#[test]
fn a_yes_goes_to_the_process_that_asks_and_the_command_starts_only_on_its_word() {
    let mut stage = Stage::that_asks();
    let (client, own) = stage.server.clients.connect(Side::Outside);
    stage.ask(client, answerable("git"));
    stage.asker_says(FIRST, &Progress::Asked(asked()));
    assert_eq!(told(&own), Some(Answer::Question(asked())));
    stage.ask(client, Ask::Decide { question: 7, allow: true, reach: Reach::Once });
    assert_eq!(told(&own), Some(Answer::Done {}));
    assert_eq!(stage.asker_heard(FIRST), Some(Progress::Decided { allow: true, reach: Reach::Once }));
    assert_eq!((stage.errand(), stage.waiting()), (None, 1), "it is not recorded yet");
    stage.asker_says(FIRST, &Progress::Go { gate: went_on() });
    assert!(matches!(stage.errand(), Some(Errand::Start { .. })));
    assert_eq!((told(&own), stage.waiting()), (Some(Answer::Settled { question: 7 }), 0));
}

#[test]
fn an_answer_to_a_question_that_does_not_wait_is_refused() {
    let mut stage = Stage::that_asks();
    let (client, own) = stage.server.clients.connect(Side::Outside);
    stage.ask(client, answerable("git"));
    // It waits, but its question is not known yet.
    for question in [7, 8] {
        stage.ask(client, Ask::Decide { question, allow: true, reach: Reach::Once });
        assert!(is_refused(told(&own), "no such question waits"));
    }
    assert_eq!(stage.asker_heard(FIRST), None);
}

#[test]
fn a_client_inside_can_neither_watch_nor_answer() {
    let mut stage = Stage::that_asks();
    let (client, _own) = stage.server.clients.connect(Side::Outside);
    let (inside, theirs) = stage.server.clients.connect(Side::Inside);
    stage.ask(client, answerable("git"));
    stage.asker_says(FIRST, &Progress::Asked(asked()));
    for ask in [Ask::Watch {}, Ask::Decide { question: 7, allow: true, reach: Reach::Once }] {
        stage.ask(inside, ask);
        assert!(is_refused(told(&theirs), "not permitted from inside a cage"));
    }
    assert_eq!(stage.asker_heard(FIRST), None);
}

#[test]
fn a_no_and_the_end_of_the_process_that_asks_both_deny() {
    let mut stage = Stage::that_asks();
    let (client, own) = stage.server.clients.connect(Side::Outside);
    stage.ask(client, command("git"));
    let rule = Some("git.reset".to_owned());
    let no =
        Progress::Refuse { fact: "denied: no".into(), remedy: "x".into(), rule: rule.clone(), retry: true };
    stage.asker_says(FIRST, &no);
    assert_eq!(told(&own), Some(Answer::denied("denied: no", "x", rule, true)));
    stage.ask(client, command("git"));
    stage.askers.borrow_mut().clear();
    stage.server.hear_gate(FIRST + 1);
    assert!(is_refused(told(&own), "the process that asks about this command is gone"));
    assert_eq!((stage.errand(), stage.waiting()), (None, 0));
}

#[test]
fn a_client_that_leaves_withdraws_its_question_and_its_voice() {
    let mut stage = Stage::that_asks();
    let (client, own) = stage.server.clients.connect(Side::Outside);
    let (watcher, watches) = stage.server.clients.connect(Side::Outside);
    stage.ask(watcher, Ask::Watch {});
    assert_eq!(told(&watches), Some(Answer::Done {}));
    stage.ask(client, command("git"));
    stage.asker_says(FIRST, &Progress::Asked(asked()));
    assert_eq!(told(&watches), Some(Answer::Question(asked())));
    // The only one that could answer leaves: the process that asks hears it, and goes on waiting for others.
    drop(watches);
    stage.server.serve_client(watcher);
    assert_eq!((stage.asker_heard(FIRST), stage.waiting()), (Some(Progress::Left {}), 1));
    drop(own);
    stage.server.serve_client(client);
    assert_eq!(stage.waiting(), 0);
    let mut packet = vec![0; LONGEST];
    let closed = channel::receive(&stage.askers.borrow()[0], &mut packet).map(|message| message.length);
    assert!(!matches!(closed, Ok(1..)), "the process that asks is not waited for any more");
}

#[test]
fn if_no_client_is_left_to_be_shown_a_question_the_process_that_asks_hears_it() {
    let mut stage = Stage::that_asks();
    let (client, own) = stage.server.clients.connect(Side::Outside);
    stage.ask(client, command("git"));
    stage.asker_says(FIRST, &Progress::Asked(asked()));
    assert_eq!((stage.asker_heard(FIRST), told(&own)), (Some(Progress::Left {}), None));
}

#[test]
fn questions_from_inside_cannot_take_the_places_of_those_from_outside() {
    let mut stage = Stage::that_asks();
    let (provider, _offers) = stage.server.clients.connect(Side::Outside);
    stage.ask(provider, Ask::Offer { names: vec!["add".into()], judged: Default::default(), named: false });
    let (inside, theirs) = stage.server.clients.connect(Side::Inside);
    for _ in 0..8 {
        stage.ask(inside, call());
        assert_eq!(told(&theirs), None);
    }
    stage.ask(inside, call());
    assert!(is_refused(told(&theirs), "crowded"));
    let (outside, own) = stage.server.clients.connect(Side::Outside);
    for _ in 8..32 {
        stage.ask(outside, command("git"));
        assert_eq!(told(&own), None);
    }
    stage.ask(outside, command("git"));
    assert!(is_refused(told(&own), "crowded"));
    assert_eq!(stage.waiting(), 32);
}
