//! The life of `keyward:webhook`: fetches the key, signs, lets curl ask, listens, and forgets the key with its end.
//!
//! curl gets its orders on standard input and the question as a sealed file in memory, so that neither address nor token nor signature
//! is on a command line. It follows no redirect, has no variable of the caller's, and trusts the host's authorities or the one that the user has named.
//! Once it runs, this process opens no file any more.

use super::listener::{Came, Listener};
use super::wire;
use super::{Heard, Webhook};
use crate::aside::{self, Desk};
use keyward_policy::gate::Question;
use keyward_protocol::webhook as protocol;
use keyward_sys::landlock::{self, Below, Scopes};
use keyward_sys::{Errno, memory};
use keyward_vault::secret::Secret;
use keyward_vault::source::program::{Answer, Call, Exchange};
use keyward_vault::source::{Limits, Surroundings, Why};
use rustix::fd::{AsRawFd, OwnedFd};
use std::ffi::OsStr;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use zeroize::Zeroizing;

/// Where curl is looked for. Not in the caller's PATH, which may lead into a project.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/run/current-system/sw/bin";

/// Whether there is one.
pub fn curl_is_there() -> bool {
    PATH.split(':').any(|folder| std::path::Path::new(folder).join("curl").is_file())
}
/// A shorter key could be guessed from one signature.
const SHORTEST_KEY: usize = 16;
/// The most bytes of a question.
const LONGEST_QUESTION: usize = 4 * 1024 * 1024;
/// The most refused requests to the listener that are reported.
const MOST_TOLD: u32 = 10;
/// The Landlock ABI that has scopes.
const ABI_WITH_SCOPES: i32 = 6;

pub(super) struct Asked<'a> {
    pub(super) question: &'a Question,
    pub(super) id: u64,
    pub(super) token: &'a [u8; 32],
    pub(super) until: SystemTime,
}

pub(super) fn serve(
    desk: &Desk,
    webhook: &Webhook,
    asked: &Asked<'_>,
    fetch: impl FnOnce() -> Result<Secret, String>,
) {
    // Where that is too much, values lock their own pages.
    memory::lock_all();
    if let Err(failed) = attend(desk, webhook, asked, fetch) {
        desk.tell(&Heard::Failed(failed));
    }
}

/// The fact, and what can be done.
fn lines(fact: impl std::fmt::Display, remedy: &str) -> String {
    format!("{fact}\n{remedy}")
}

const DOCTOR: &str = "`keyward doctor` shows what this host can do";

fn attend(
    desk: &Desk,
    webhook: &Webhook,
    asked: &Asked<'_>,
    fetch: impl FnOnce() -> Result<Secret, String>,
) -> Result<(), String> {
    let key = fetch()?;
    if key.length() < SHORTEST_KEY {
        let fact =
            format!("the key of the webhook, {}, is shorter than {SHORTEST_KEY} bytes", webhook.key_name);
        return Err(lines(fact, "make one: openssl rand -hex 32 | keyward secret set NAME"));
    }
    if desk.outlive_the_launcher_to_clean_up().is_err() {
        return Ok(());
    }
    let left = asked.until.duration_since(SystemTime::now()).unwrap_or_default();
    let end = Instant::now().checked_add(left).ok_or_else(|| lines("the question has no end", DOCTOR))?;
    let broken = |errno: Errno| lines(format!("the webhook cannot be asked: {errno}"), DOCTOR);
    let mut listener = match webhook.listen.map(Listener::new).transpose() {
        Ok(listener) => listener,
        Err(error) => {
            let fact = format!("the webhook cannot be answered at its address here: {}", error.kind());
            return Err(lines(fact, "choose another port for `gate.webhook_listen`"));
        }
    };
    // Kept until curl has ended, which opens it by its number.
    let body = body(asked)?;
    let time = now();
    let signature =
        wire::sign(key.expose(), time, &body).ok_or_else(|| lines("the key cannot sign", DOCTOR))?;
    let file = memory::sealed(c"keyward-question", &[&body]).map_err(broken)?;
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).map_err(broken)?;
    drop(body);
    let mut curl = Some(curl(webhook, &file, &signature, left)?);
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::CLOEXEC).map_err(broken)?;
    close_files().map_err(|fact| lines(fact, DOCTOR))?;

    let mut told = 0;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(lines(
                "the webhook gave no answer in time",
                "answer sooner, or give questions more time",
            ));
        }
        {
            let mut polled = Vec::new();
            desk.ask(&mut polled);
            if let Some(curl) = &curl {
                curl.ask(&mut polled);
            }
            if let Some(listener) = &listener {
                listener.ask(&mut polled);
            }
            let due = listener.as_ref().and_then(Listener::due);
            aside::wait(&mut polled, due.map_or(left, |due| due.min(left))).map_err(broken)?;
        }
        if desk.is_over() {
            return Ok(());
        }
        if let Some(mut running) = curl.take() {
            match running.work() {
                Ok(false) => curl = Some(running),
                Ok(true) => {
                    let answer = running.end().map_err(|why| unasked(webhook, &why))?;
                    hear_response(desk, webhook, &key, asked.token, &answer)?;
                }
                Err(why) => return Err(unasked(webhook, &why)),
            }
        }
        let came = listener.as_mut().map(|listener| listener.work(&key, now())).unwrap_or_default();
        for came in came {
            match came {
                Came::Answer(answer) => {
                    desk.tell(&Heard::Answer { token: answer.token, allow: answer.allow })
                }
                Came::Refused(why) if told < MOST_TOLD => {
                    told += 1;
                    desk.tell(&Heard::Refused(format!(
                        "what came to the webhook's listener was refused: {why}"
                    )));
                }
                Came::Refused(_) => {}
            }
        }
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn body(asked: &Asked<'_>) -> Result<Zeroizing<Vec<u8>>, String> {
    let name = rustix::system::uname();
    let token = Zeroizing::new(wire::token_text(asked.token));
    let body = protocol::Asked {
        v: protocol::VERSION,
        question: asked.id,
        token: &token,
        until: asked.until.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs(),
        host: &name.nodename().to_string_lossy(),
        asked: asked.question,
    };
    let bytes = serde_json::to_vec(&body).map(Zeroizing::new).unwrap_or_default();
    if bytes.is_empty() || bytes.len() > LONGEST_QUESTION {
        return Err(lines(
            "the question is too long for the webhook",
            "let a person at a terminal answer it",
        ));
    }
    Ok(bytes)
}

/// curl, with its orders. Values are of characters that need no quotes of their own.
fn curl(
    webhook: &Webhook,
    body: &OwnedFd,
    signature: &str,
    left: Duration,
) -> Result<Exchange<'static>, String> {
    let protocol = if webhook.encrypted { "https" } else { "http" };
    let seconds = left.as_secs().max(1);
    let mut orders = format!(
        "url = \"{}\"\ngloboff\nsilent\ninclude\nhttp1.1\nproto = \"={protocol}\"\nmax-redirs = 0\nnoproxy = \"*\"\n\
         connect-timeout = 10\nmax-time = {seconds}\nuser-agent = \"keyward\"\nheader = \"Expect:\"\n\
         header = \"Content-Type: application/json\"\nheader = \"{}: {signature}\"\ndata-binary = \"@/dev/fd/{}\"\n",
        webhook.url,
        wire::SIGNATURE,
        body.as_raw_fd(),
    );
    if let Some(ca) = &webhook.ca {
        orders += &format!("cacert = \"{}\"\n", ca.display());
    }
    let surroundings = Surroundings {
        home: Path::new("/"),
        store: Path::new("/"),
        variable: &variable,
        terminal: None,
        limits: Limits::default(),
    };
    let call = Call::new(OsStr::new("curl"), &surroundings).and_then(|call| {
        // `-q` first: a file of the user's with other orders is not read.
        let call = call
            .arguments(["-q", "--config", "-"])
            .set("PATH", PATH)
            .limited(left.max(Duration::from_secs(1)));
        call.begin(Some(orders.into_bytes()))
    });
    call.map_err(|why| unasked(webhook, &why))
}

fn variable(name: &str) -> Option<&'static OsStr> {
    (name == "PATH").then_some(OsStr::new(PATH))
}

/// From here on nothing is opened but what tells about processes, to end them.
fn close_files() -> Result<(), &'static str> {
    let abi = landlock::abi();
    if abi <= 0 {
        return Ok(());
    }
    let scopes = Scopes { signals: false, abstract_sockets: abi >= ABI_WITH_SCOPES };
    let rules = [(Path::new("/proc"), Below::Read)].into_iter();
    let closed = landlock::prepare(abi, rules, scopes).and_then(landlock::Domain::enter);
    closed.map_err(|_| "the process that asks the webhook cannot be closed to files")
}

fn unasked(webhook: &Webhook, why: &Why) -> String {
    let host = &webhook.host;
    match why {
        Why::NotInstalled(_) => lines("the webhook cannot be asked: curl is not installed", "install curl"),
        Why::TooLarge => lines(format!("the webhook at {host} sent too much"), "it may answer with 64 KiB"),
        Why::TimedOut(_) => lines(format!("the webhook at {host} gave no answer in time"), "answer sooner"),
        _ => lines("curl cannot be run for the webhook", DOCTOR),
    }
}

/// Hears what the service has said at once, or at the end of a long wait.
fn hear_response(
    desk: &Desk,
    webhook: &Webhook,
    key: &Secret,
    token: &[u8; 32],
    answer: &Answer,
) -> Result<(), String> {
    let host = &webhook.host;
    if !answer.succeeded() {
        let look = "check whether the address is right and the service is up";
        return Err(match answer.code() {
            Some(5 | 6) => lines(format!("the webhook's host {host} cannot be found"), look),
            Some(7) => lines(format!("the webhook at {host} cannot be reached"), look),
            Some(28) => lines(format!("the webhook at {host} gave no answer in time"), look),
            Some(35 | 51 | 53..=54 | 58..=60 | 66 | 77 | 80 | 82 | 83 | 90 | 91) => lines(
                format!("the webhook at {host} does not prove who it is"),
                "its certificate has to be of an authority that this host knows, or of `gate.webhook_ca`",
            ),
            Some(code) => lines(format!("curl could not ask the webhook at {host}: code {code}"), look),
            None => lines(format!("curl was killed while it asked the webhook at {host}"), "try again"),
        });
    }
    let says = |what: &str| {
        lines(format!("the webhook at {host} {what}"), "docs/webhook.md says what a service has to answer")
    };
    let response = wire::response(answer.out()).ok_or_else(|| says("does not speak HTTP"))?;
    match response.status {
        200..=299 => {}
        300..=399 => return Err(says("redirected the request, and Keyward does not follow redirects")),
        status => return Err(says(&format!("answered with status {status}"))),
    }
    if response.body.is_empty() {
        // It has taken the question, and will come back.
        return if webhook.listen.is_some() { Ok(()) } else { Err(says("gave no answer")) };
    }
    wire::verify(key.expose(), now(), response.signature, response.body)
        .map_err(|unsigned| says(&format!("gave an invalid answer: {}", unsigned.as_str())))?;
    let heard =
        wire::answer(response.body).ok_or_else(|| says("answered with something other than an answer"))?;
    let differs = heard.token.iter().zip(token).fold(0, |differs, (a, b)| differs | (a ^ b));
    if differs != 0 {
        return Err(says("answered another question"));
    }
    desk.tell(&Heard::Answer { token: heard.token, allow: heard.allow });
    Ok(())
}
