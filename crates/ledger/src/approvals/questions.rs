//! Questions: asked, answered once, taken once.

use super::{Failure, NewGrant, Record, Trouble, asker, grants, signed, unsigned};
use keyward_policy::event::{By, What, bounded};
use keyward_policy::gate::{Question, Reach, Text};
use keyward_policy::trouble::Code;
use rusqlite::{OptionalExtension, Row, Transaction, params};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// How long, and how many, questions are kept that are no longer pending.
const KEPT_SECONDS: u64 = 30 * 86_400;
const KEPT_NUMBER: i64 = 1000;
/// Of one session, so that none pushes out what others have asked.
const KEPT_OF_A_SESSION: i64 = 200;
/// More pending questions would tire the approver, and could fill the disk.
const WAITING_OF_A_SESSION: i64 = 16;
const WAITING: i64 = 128;
/// Limits requesters that ask and go away again.
const IN_A_MINUTE_FROM_INSIDE: i64 = 60;
/// Of a command line so many characters are kept.
const KEPT_WORDS: usize = 16 * 1024;

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// A living process waits for the answer.
    Waiting,
    /// A yes that the asker has not taken yet.
    Allowed {
        by: By,
    },
    Denied {
        by: By,
    },
    /// The yes was taken.
    Used,
    /// No longer pending, and not answered: the time is over, the requester is gone, or no approver was asked.
    Over,
}

impl State {
    pub const fn as_str(self) -> &'static str {
        match self {
            State::Waiting => "waiting",
            State::Allowed { .. } => "allowed",
            State::Denied { .. } => "denied",
            State::Used => "used",
            State::Over => "over",
        }
    }
}

/// Whether an answer has counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Answered {
    Now,
    /// It did not wait any more: this had become of it before.
    Before(State),
    /// There is no such question.
    Unknown,
}

/// Which questions are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    Waiting,
    All,
}

/// A question and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub id: u64,
    pub state: State,
    /// Seconds since 1970.
    pub asked: u64,
    pub until: u64,
    /// Why it is over: `timeout`, `lost`, `unattended` …
    pub because: Option<String>,
    /// Its texts are there only while it waits, and only where one question is asked for.
    pub question: Question,
    /// The names and lengths of its texts.
    pub sizes: Vec<Size>,
}

/// How long a text is, in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    pub name: String,
    pub bytes: usize,
}

/// What is kept of a question after its end.
#[derive(Serialize, Deserialize)]
struct About {
    question: Question,
    sizes: Vec<Size>,
}

impl About {
    fn of(question: &Question) -> Self {
        let sizes =
            question.texts.iter().map(|text| Size { name: text.name.clone(), bytes: text.text.len() });
        let sizes = sizes.collect();
        let argv = bounded(&question.argv, KEPT_WORDS);
        About { question: Question { argv, texts: Vec::new(), ..without_texts(question) }, sizes }
    }
}

/// A copy that does not copy what may be long.
fn without_texts(question: &Question) -> Question {
    Question {
        digest: question.digest.clone(),
        run: question.run.clone(),
        session: question.session.clone(),
        profile: question.profile.clone(),
        scope: question.scope.clone(),
        project: question.project.clone(),
        cwd: question.cwd.clone(),
        argv: Vec::new(),
        rule: question.rule.clone(),
        class: question.class.clone(),
        reason: question.reason.clone(),
        span: question.span,
        texts: Vec::new(),
        from_inside: question.from_inside,
        given: question.given.clone(),
    }
}

/// Who waits for how long, in the columns of a new row.
struct Waits<'a> {
    state: &'static str,
    until: u64,
    token: Option<&'a [u8]>,
    because: Option<&'a str>,
}

pub(super) fn ask(
    change: &Transaction<'_>,
    now: u64,
    question: &Question,
    until: u64,
    token: Option<[u8; 32]>,
) -> Result<u64, Failure> {
    tidy(change, now, question)?;
    if !has_room(change, now, question)? {
        return Err(Trouble::new(
            Code::ApprovalsUnusable,
            "too many questions are open",
            "`keyward approvals` shows them; try again when they are answered",
        )
        .into());
    }
    let waits =
        Waits { state: "waiting", until, token: token.as_ref().map(<[u8; 32]>::as_slice), because: None };
    insert(change, now, question, &waits)
}

/// Whether there is room for one more question. Questions from a cage count also when they are no longer pending.
pub(super) fn has_room(look: &Transaction<'_>, now: u64, question: &Question) -> Result<bool, Failure> {
    let count = |filter: &str, of: &[&dyn rusqlite::ToSql]| {
        let sql = format!("SELECT count(*) FROM question WHERE {filter}");
        look.query_row(&sql, of, |row| row.get::<_, i64>(0))
    };
    let session = &question.session;
    let minute = signed(now.saturating_sub(60));
    Ok(count("state = 'waiting'", &[])? < WAITING
        && count("state = 'waiting' AND session = ?1", &[session])? < WAITING_OF_A_SESSION
        && (!question.from_inside
            || count("session = ?1 AND asked > ?2", &[session, &minute])? < IN_A_MINUTE_FROM_INSIDE))
}

pub(super) fn refused(
    change: &Transaction<'_>,
    now: u64,
    question: &Question,
    because: &str,
) -> Result<u64, Failure> {
    tidy(change, now, question)?;
    // A requester that repeats the same request does not fill the list.
    let again = change
        .query_row(
            "UPDATE question SET asked = ?1, until = ?1, because = ?2
             WHERE id = (SELECT max(id) FROM question WHERE digest = ?3 AND session IS ?4 AND state = 'over')
             RETURNING id",
            params![signed(now), because, question.digest, question.session],
            |row| row.get(0),
        )
        .optional()?;
    if let Some(id) = again {
        return Ok(unsigned(id));
    }
    insert(change, now, question, &Waits { state: "over", until: now, token: None, because: Some(because) })
}

fn insert(
    change: &Transaction<'_>,
    now: u64,
    question: &Question,
    waits: &Waits<'_>,
) -> Result<u64, Failure> {
    let texts = (waits.state == "waiting").then(|| written(&question.texts)).transpose()?;
    change.execute(
        "INSERT INTO question (state, digest, session, about, texts, asker, asked, until, token, because)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        params![
            waits.state,
            question.digest,
            question.session,
            written(&About::of(question))?,
            texts,
            asker::own(),
            signed(now),
            signed(waits.until),
            waits.token,
            waits.because,
        ],
    )?;
    Ok(unsigned(change.last_insert_rowid()))
}

fn written(value: &impl Serialize) -> Result<String, Failure> {
    serde_json::to_string(value).map_err(|error| {
        Trouble::new(
            Code::Internal,
            format!("cannot write a question: {error}"),
            "this is a fault in keyward; please report it",
        )
        .into()
    })
}

/// Ends questions that are no longer pending, and removes old ones.
fn tidy(change: &Transaction<'_>, now: u64, question: &Question) -> Result<(), Failure> {
    sweep(change, now)?;
    let oldest = signed(now.saturating_sub(KEPT_SECONDS));
    change
        .execute("DELETE FROM question WHERE state NOT IN ('waiting', 'allowed') AND asked < ?1", [oldest])?;
    change.execute(
        "DELETE FROM question WHERE state NOT IN ('waiting', 'allowed') AND id NOT IN
         (SELECT id FROM question ORDER BY id DESC LIMIT ?1)",
        [KEPT_NUMBER],
    )?;
    change.execute(
        "DELETE FROM question WHERE session = ?1 AND state NOT IN ('waiting', 'allowed') AND id NOT IN
         (SELECT id FROM question WHERE session = ?1 ORDER BY id DESC LIMIT ?2)",
        params![question.session, KEPT_OF_A_SESSION],
    )?;
    grants::tidy(change, now)
}

/// Why a question is no longer pending, if so. A clock that was set back makes no question wait longer.
fn ended(row: &Row<'_>, now: u64) -> rusqlite::Result<Option<&'static str>> {
    let (asked, until): (i64, i64) = (row.get("asked")?, row.get("until")?);
    let waits = match row.get::<_, String>("state")?.as_str() {
        "waiting" => true,
        "allowed" => false,
        _ => return Ok(None),
    };
    Ok(if !asker::is_alive(&row.get::<_, String>("asker")?) {
        Some("lost")
    } else if waits && !(asked..until).contains(&signed(now)) {
        Some("timeout")
    } else {
        None
    })
}

/// Writes down what is over, and drops its texts.
fn sweep(change: &Transaction<'_>, now: u64) -> Result<(), Failure> {
    let mut open = change.prepare(
        "SELECT id, asker, asked, until, state FROM question WHERE state IN ('waiting', 'allowed')",
    )?;
    let mut rows = open.query([])?;
    let mut over: Vec<(i64, &str)> = Vec::new();
    while let Some(row) = rows.next()? {
        if let Some(because) = ended(row, now)? {
            over.push((row.get(0)?, because));
        }
    }
    for (id, because) in over {
        end(change, id, because)?;
    }
    Ok(())
}

fn end(change: &Transaction<'_>, id: i64, because: &str) -> Result<(), Failure> {
    change.execute(
        "UPDATE question SET state = 'over', because = ?2, texts = NULL, token = NULL WHERE id = ?1",
        params![id, because],
    )?;
    Ok(())
}

pub(super) fn state(look: &Transaction<'_>, now: u64, id: u64) -> Result<State, Failure> {
    let query = "SELECT state, by, asker, asked, until FROM question WHERE id = ?1";
    let found = look.query_row(query, [signed(id)], |row| Ok(read_state(row, now)?.0)).optional()?;
    // What is not there any more is long over.
    Ok(found.unwrap_or(State::Over))
}

pub(super) fn answer(
    change: &Transaction<'_>,
    now: u64,
    id: u64,
    (allow, reach): (bool, Reach),
    by: By,
    record: Record<'_>,
) -> Result<Answered, Failure> {
    sweep(change, now)?;
    let Some(entry) = get(change, now, id)? else { return Ok(Answered::Unknown) };
    if entry.state != State::Waiting {
        return Ok(Answered::Before(entry.state));
    }
    let question = &entry.question;
    record(What::Answered {
        question: id,
        digest: question.digest.clone(),
        session: question.session.clone(),
        allow,
        by,
    })?;
    change.execute(
        "UPDATE question SET state = ?2, by = ?3, texts = NULL, token = NULL WHERE id = ?1",
        params![signed(id), if allow { "allowed" } else { "denied" }, word(by)],
    )?;
    match NewGrant::reaching(reach, question) {
        _ if !allow => grants::deny(change, now, question, reach)?,
        Some(grant) => drop(grants::grant(change, now, &grant, record)?),
        None => {}
    }
    Ok(Answered::Now)
}

/// The question of a token. All of them are compared, each in the same time.
pub(super) fn by_token(change: &Transaction<'_>, token: &[u8]) -> Result<Option<u64>, Failure> {
    let digest = Sha256::digest(token);
    let mut open =
        change.prepare("SELECT id, token FROM question WHERE state = 'waiting' AND token IS NOT NULL")?;
    let mut rows = open.query([])?;
    let mut found = None;
    while let Some(row) = rows.next()? {
        let known: Vec<u8> = row.get(1)?;
        if is_same(&known, &digest) {
            found = Some(unsigned(row.get(0)?));
        }
    }
    Ok(found)
}

fn is_same(one: &[u8], other: &[u8]) -> bool {
    let differs = one.iter().zip(other).fold(0, |differs, (a, b)| differs | (a ^ b));
    one.len() == other.len() && std::hint::black_box(differs) == 0
}

pub(super) fn take(change: &Transaction<'_>, id: u64, digest: &str) -> Result<bool, Failure> {
    let taken = change.execute(
        "UPDATE question SET state = 'used' WHERE id = ?1 AND state = 'allowed' AND digest = ?2 AND asker = ?3",
        params![signed(id), digest, asker::own()],
    )?;
    Ok(taken == 1)
}

pub(super) fn over(change: &Transaction<'_>, now: u64, id: u64, by: By) -> Result<(), Failure> {
    let because = match by {
        By::Timeout => "timeout",
        By::Lost => "lost",
        By::Terminal | By::Approvals | By::Webhook | By::Door => "withdrawn",
    };
    let own = change
        .query_row(
            "SELECT id FROM question WHERE id = ?1 AND asker = ?2 AND state IN ('waiting', 'allowed')",
            params![signed(id), asker::own()],
            |row| row.get(0),
        )
        .optional()?;
    if let Some(id) = own {
        end(change, id, because)?;
    }
    sweep(change, now)
}

const COLUMNS: &str = "id, state, by, asker, asked, until, because, about";

pub(super) fn list(look: &Transaction<'_>, now: u64, which: Which) -> Result<Vec<Entry>, Failure> {
    let filter = match which {
        Which::Waiting => "WHERE state = 'waiting'",
        Which::All => "",
    };
    let mut query = look.prepare(&format!("SELECT {COLUMNS} FROM question {filter} ORDER BY id"))?;
    let entries = query.query_map([], |row| read_entry(row, now))?.collect::<Result<Vec<_>, _>>()?;
    let wanted = |entry: &Entry| which == Which::All || entry.state == State::Waiting;
    Ok(entries.into_iter().filter(wanted).collect())
}

pub(super) fn get(look: &Transaction<'_>, now: u64, id: u64) -> Result<Option<Entry>, Failure> {
    let read = |row: &Row<'_>| {
        let mut entry = read_entry(row, now)?;
        let texts: Option<String> = row.get("texts")?;
        if let (State::Waiting, Some(texts)) = (entry.state, texts) {
            entry.question.texts = parsed::<Vec<Text>>(&texts)?;
        }
        Ok(entry)
    };
    let query = format!("SELECT {COLUMNS}, texts FROM question WHERE id = ?1");
    Ok(look.query_row(&query, [signed(id)], read).optional()?)
}

fn read_entry(row: &Row<'_>, now: u64) -> rusqlite::Result<Entry> {
    let About { question, sizes } = parsed(&row.get::<_, String>("about")?)?;
    let (state, ended) = read_state(row, now)?;
    let because: Option<String> = row.get("because")?;
    Ok(Entry {
        id: unsigned(row.get("id")?),
        state,
        asked: unsigned(row.get("asked")?),
        until: unsigned(row.get("until")?),
        because: ended.map(str::to_owned).or(because),
        question,
        sizes,
    })
}

/// What became of it, and why if that is not written down yet.
fn read_state(row: &Row<'_>, now: u64) -> rusqlite::Result<(State, Option<&'static str>)> {
    let ended = ended(row, now)?;
    let by = || parsed(&format!("\"{}\"", row.get::<_, String>("by")?));
    let state = match row.get::<_, String>("state")?.as_str() {
        _ if ended.is_some() => State::Over,
        "waiting" => State::Waiting,
        "allowed" => State::Allowed { by: by()? },
        "denied" => State::Denied { by: by()? },
        "used" => State::Used,
        _ => State::Over,
    };
    Ok((state, ended))
}

fn parsed<T: for<'a> Deserialize<'a>>(text: &str) -> rusqlite::Result<T> {
    serde_json::from_str(text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, Box::new(error))
    })
}

/// Who has answered, as the record spells it.
fn word(by: By) -> &'static str {
    match by {
        By::Terminal => "terminal",
        By::Approvals => "approvals",
        By::Webhook => "webhook",
        By::Door => "door",
        By::Timeout => "timeout",
        By::Lost => "lost",
    }
}
