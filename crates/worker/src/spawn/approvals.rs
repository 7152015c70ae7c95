//! Questions of the gate, and the function that answers them. No answer, a late one and a broken one are a no.

use super::session::{Notices, Place};
use keyward_client::Client;
use keyward_policy::gate::Reach;
use keyward_protocol::session::{Answer, Ask, Asked, Value};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

/// The longest question that is read.
const LONGEST: usize = 16 << 20;

/// What an approver is asked. The texts are the agent's: show them as text.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Question {
    /// The whole command, or the name and the input of a call.
    pub argv: Vec<String>,
    /// Why an approval is needed.
    pub reason: String,
    /// The rule that says so.
    pub rule: Option<String>,
    /// The class of the rule, such as `git`.
    pub class: Option<String>,
    /// Whether it was asked for from inside a cage.
    pub from_inside: bool,
    /// The digest of what would run.
    pub digest: String,
    /// Everything, as `question.json` of the protocol describes it.
    pub document: Value,
}

pub(super) type Approver = Arc<dyn Fn(&Question) -> bool + Send + Sync>;

/// Answers questions on threads of its own, as long as the session lives.
pub(super) fn answer_questions(
    mut client: Client<Notices>,
    place: Place,
    approver: Approver,
    patience: Duration,
) -> std::io::Result<()> {
    let listen = move || {
        while let Ok((answer, descriptors)) = client.next_answer() {
            if let Answer::Question(asked) = answer {
                let document = descriptors.into_iter().next().and_then(read);
                let (place, approver) = (place.clone(), approver.clone());
                // A question that no thread answers is left to other approvers, or to its end.
                let answer = move || decide(&place, asked, document, approver, patience);
                let _ = std::thread::Builder::new().name("keyward-question".into()).spawn(answer);
            }
        }
    };
    std::thread::Builder::new().name("keyward-approvals".into()).spawn(listen).map(drop)
}

fn decide(place: &Place, asked: Asked, document: Option<Value>, approver: Approver, patience: Duration) {
    let question = asked.question;
    let allow = document.is_some_and(|document| is_allowed(asked, document, approver, patience));
    // The first answer counts; if another approver was faster, this one is refused.
    if let Ok(mut client) = place.connect() {
        let _ = client.request(&Ask::Decide { question, allow, reach: Reach::Once });
    }
}

/// Asks on a thread of its own: one that panics has said nothing, and one that hangs is not waited for.
fn is_allowed(asked: Asked, document: Value, approver: Approver, patience: Duration) -> bool {
    let argv = document.get("argv").and_then(Value::as_array);
    let argv = argv
        .map(|words| words.iter().map(|word| word.as_str().map_or_else(|| word.to_string(), str::to_owned)));
    let question = Question {
        argv: argv.map_or(asked.argv, Iterator::collect),
        reason: asked.reason,
        rule: asked.rule,
        class: asked.class,
        from_inside: asked.from_inside,
        digest: asked.digest,
        document,
    };
    let (answer, answered) = mpsc::channel();
    let ask = move || {
        let _ = answer.send(approver(&question));
    };
    let asking = std::thread::Builder::new().name("keyward-approver".into()).spawn(ask);
    asking.is_ok() && answered.recv_timeout(patience) == Ok(true)
}

fn read(document: OwnedFd) -> Option<Value> {
    let file = File::from(document);
    let length = usize::try_from(file.metadata().ok()?.len()).ok().filter(|length| *length <= LONGEST)?;
    let mut text = vec![0; length];
    // Several clients may have the file: its place is shared.
    file.read_exact_at(&mut text, 0).ok()?;
    serde_json::from_slice::<Value>(&text).ok().filter(Value::is_object)
}
