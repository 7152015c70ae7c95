//! The whole table of decisions: the one in `docs/gate.md` is made here, and is compared with it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests look at files")]

use keyward_policy::gate::{Answer, Because, Opinion, Situation, Step, decide};
use keyward_policy::words::{GateMode, Verdict};

/// What comes of asking, in each of the places where somebody can be asked, or nobody.
const ANSWERS: &[(&str, Option<Answer>)] = &[
    ("yes", Some(Answer::Yes)),
    ("no", Some(Answer::No)),
    ("no answer in time", Some(Answer::Timeout)),
    ("gone, crashed", Some(Answer::Lost)),
    ("too many questions are open", Some(Answer::Crowded)),
];

/// Where something is asked: what the gate says there, and whether somebody can answer.
const PLACES: &[(&str, Verdict, bool)] = &[
    ("isolated cage, where it reaches nothing", Verdict::Allow, true),
    ("headless", Verdict::Ask, false),
    ("cron", Verdict::Ask, false),
    ("terminal", Verdict::Ask, true),
    ("`keyward approvals`, webhook", Verdict::Ask, true),
    ("callback at the door", Verdict::Ask, true),
    ("a rule denies it", Verdict::Deny, true),
    ("forbidden", Verdict::Forbid, true),
];

/// Goes through everything that has to be asked on the way, as a run does.
fn outcome(mut situation: Situation, opinion: Opinion, answer: Answer) -> (bool, Because) {
    for _ in 0..4 {
        match decide(&situation) {
            Step::Go(because) => return (true, because),
            Step::Refuse(because) => return (false, because),
            Step::AskJudge => situation.opinion = Some(opinion),
            Step::AskOperator => situation.answer = Some(answer),
        }
    }
    panic!("a decision without an end: {situation:?}");
}

fn situation(mode: GateMode, verdict: Verdict, attended: bool) -> Situation {
    Situation { mode, verdict, denied_before: false, granted: false, attended, opinion: None, answer: None }
}

fn cell((goes, because): (bool, Because)) -> String {
    match goes {
        true if because == Because::Harmless => "runs".into(),
        true => format!("runs ({})", because.as_str()),
        false => format!("**no** ({})", because.as_str()),
    }
}

fn table() -> String {
    let mut text = String::from(
        "| where | history | answer | auto, ask | deny | judge: allow | judge: deny | judge: ask, fails | yolo |\n|---|---|---|---|---|---|---|---|---|\n",
    );
    for &(place, verdict, attended) in PLACES {
        let histories = if verdict == Verdict::Ask {
            &[("none", false, false), ("denied before", true, false), ("granted", false, true)][..]
        } else {
            &[("any", true, true)][..]
        };
        for &(history, denied_before, granted) in histories {
            let asked = verdict == Verdict::Ask && attended && history == "none";
            let answers = if asked { ANSWERS } else { &[("not asked", None)][..] };
            for &(said, answer) in answers {
                let answer = answer.unwrap_or(Answer::Yes);
                let one = |mode, opinion| {
                    let situation =
                        Situation { denied_before, granted, ..situation(mode, verdict, attended) };
                    cell(outcome(situation, opinion, answer))
                };
                let auto = one(GateMode::Auto, Opinion::Ask);
                assert_eq!(auto, one(GateMode::Ask, Opinion::Ask));
                let row = [
                    place.to_owned(),
                    history.to_owned(),
                    said.to_owned(),
                    auto,
                    one(GateMode::Deny, Opinion::Ask),
                    one(GateMode::Judge, Opinion::Allow),
                    one(GateMode::Judge, Opinion::Deny),
                    one(GateMode::Judge, Opinion::Ask),
                    one(GateMode::Yolo, Opinion::Ask),
                ];
                text.push_str(&format!("| {} |\n", row.join(" | ")));
            }
        }
    }
    text
}

#[test]
fn the_table_of_the_documents_is_the_decision() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/gate.md")).unwrap();
    let table = table();
    assert!(page.contains(&table), "docs/gate.md does not hold this table:\n{table}");
}

/// Every combination there is, against the rules in words.
#[test]
fn nothing_runs_without_a_reason_and_nothing_lifts_the_floor() {
    let mut seen = 0;
    for &mode in GateMode::ALL {
        for &verdict in Verdict::ALL {
            for bits in 0..8 {
                let (denied_before, granted, attended) = (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
                for opinion in [Opinion::Allow, Opinion::Ask, Opinion::Deny] {
                    for answer in [Answer::Yes, Answer::No, Answer::Timeout, Answer::Lost, Answer::Crowded] {
                        let start =
                            Situation { denied_before, granted, ..situation(mode, verdict, attended) };
                        let (goes, because) = outcome(start, opinion, answer);
                        seen += 1;
                        let expected = match (verdict, mode) {
                            (Verdict::Forbid, _) => false,
                            (Verdict::Allow, _) | (_, GateMode::Yolo) => true,
                            (Verdict::Deny, _) | (_, GateMode::Deny) => false,
                            _ if granted => true,
                            _ if denied_before => false,
                            (_, GateMode::Judge) if opinion == Opinion::Allow => true,
                            (_, GateMode::Judge) if opinion == Opinion::Deny => false,
                            _ => attended && answer == Answer::Yes,
                        };
                        assert_eq!(goes, expected, "{start:?} {opinion:?} {answer:?} {because:?}");
                    }
                }
            }
        }
    }
    assert_eq!(seen, 5 * 4 * 8 * 3 * 5);
}

#[test]
fn nobody_is_asked_who_is_not_needed() {
    let attended = situation(GateMode::Auto, Verdict::Ask, true);
    assert_eq!(decide(&attended), Step::AskOperator);
    assert_eq!(decide(&Situation { attended: false, ..attended }), Step::Refuse(Because::Unattended));
    assert_eq!(decide(&Situation { granted: true, ..attended }), Step::Go(Because::Grant));
    assert_eq!(decide(&Situation { denied_before: true, ..attended }), Step::Refuse(Because::DeniedBefore));
    let judged = Situation { mode: GateMode::Judge, attended: false, ..attended };
    assert_eq!(decide(&judged), Step::AskJudge);
    assert_eq!(
        decide(&Situation { opinion: Some(Opinion::Ask), ..judged }),
        Step::Refuse(Because::Unattended)
    );
}
