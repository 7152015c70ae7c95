//! Grants, used up one by one; and denials, which stick.

use super::{Failure, Record, Trouble, signed, unsigned};
use keyward_policy::event::What;
use keyward_policy::gate::{Question, Reach};
use keyward_policy::trouble::Code;
use rusqlite::{OptionalExtension, Row, Transaction, params};

/// A grant that has ended is kept for so long, a denial longer than a session lives.
const KEPT_SECONDS: u64 = 30 * 86_400;
const DENIALS_KEPT_SECONDS: u64 = 365 * 86_400;
/// What one grant can allow at most.
const MOST_USES: u32 = 1000;
const LONGEST_SECONDS: u64 = 30 * 86_400;

/// What is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum For {
    /// Everything of a class of the gate's.
    Class(String),
    /// The very same bytes.
    Digest(String),
}

/// A grant to be made. It holds in its scope (project, profile and trust class) alone; with a session, only there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewGrant {
    pub what: For,
    pub scope: String,
    pub session: Option<String>,
    pub uses: u32,
    pub seconds: u64,
}

const HOUR: u64 = 3600;

impl NewGrant {
    /// What a yes of this reach grants besides: the very same bytes, and no more.
    pub fn reaching(reach: Reach, question: &Question) -> Option<Self> {
        let (session, seconds) = match (reach, &question.session) {
            (Reach::Once, _) | (Reach::Session, None) => return None,
            (Reach::Session, Some(session)) => (Some(session.clone()), LONGEST_SECONDS),
            (Reach::Project, _) => (None, HOUR),
        };
        let what = For::Digest(question.digest.clone());
        Some(NewGrant { what, scope: question.scope.clone(), session, uses: MOST_USES, seconds })
    }
}

/// A grant that is worth something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub id: u64,
    pub what: For,
    pub scope: String,
    pub session: Option<String>,
    pub uses: u32,
    pub uses_left: u32,
    /// Seconds since 1970.
    pub made: u64,
    pub until: u64,
}

/// One use of a grant. It is gone, whether the command starts or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct TakenGrant {
    pub id: u64,
    pub uses_left: u32,
}

pub(super) fn grant(
    change: &Transaction<'_>,
    now: u64,
    new: &NewGrant,
    record: Record<'_>,
) -> Result<u64, Failure> {
    if !(1..=MOST_USES).contains(&new.uses) || !(1..=LONGEST_SECONDS).contains(&new.seconds) {
        return Err(Trouble::new(
            Code::Usage,
            "a grant is for 1 to 1000 uses, within 30 days",
            "make it smaller, and a new one when it is used up",
        )
        .into());
    }
    let (class, digest) = match &new.what {
        For::Class(class) => (Some(class), None),
        For::Digest(digest) => (None, Some(digest)),
    };
    change.execute(
        "INSERT INTO granted (class, digest, scope, session, made, seconds, uses, uses_left)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7)",
        params![class, digest, new.scope, new.session, signed(now), signed(new.seconds), new.uses],
    )?;
    let id = unsigned(change.last_insert_rowid());
    // A user who grants something has changed their mind about an earlier denial.
    change.execute(
        "DELETE FROM denied WHERE scope = ?1 AND (class = ?2 OR digest = ?3) AND (?4 IS NULL OR session = ?4)",
        params![new.scope, class, digest, new.session],
    )?;
    record(What::Granted {
        grant: id,
        class: class.cloned(),
        digest: digest.cloned(),
        session: new.session.clone(),
        uses: new.uses,
        until: crate::time_of(now.saturating_add(new.seconds)),
    })?;
    Ok(id)
}

/// A clock that was set back extends nothing: before it was made, a grant is worth nothing.
const IS_WORTH: &str = "uses_left > 0 AND made <= ?1 AND ?1 < made + seconds";

pub(super) fn take(
    change: &Transaction<'_>,
    now: u64,
    question: &Question,
) -> Result<Option<TakenGrant>, Failure> {
    // The narrowest first, and of equals the one that ends first.
    let query = format!(
        "UPDATE granted SET uses_left = uses_left - 1 WHERE id =
         (SELECT id FROM granted WHERE {IS_WORTH} AND scope = ?2 AND (digest = ?3 OR class = ?4)
          AND (session IS NULL OR session = ?5)
          ORDER BY digest IS NULL, made + seconds, id LIMIT 1)
         RETURNING id, uses_left"
    );
    let fits = params![signed(now), question.scope, question.digest, question.class, question.session];
    let taken = change
        .query_row(&query, fits, |row| Ok(TakenGrant { id: unsigned(row.get(0)?), uses_left: row.get(1)? }));
    Ok(taken.optional()?)
}

pub(super) fn list(change: &Transaction<'_>, now: u64) -> Result<Vec<Grant>, Failure> {
    let query = format!(
        "SELECT id, class, digest, scope, session, uses, uses_left, made, made + seconds FROM granted
         WHERE {IS_WORTH} ORDER BY id"
    );
    let mut query = change.prepare(&query)?;
    let grants = query.query_map([signed(now)], read)?.collect::<Result<_, _>>()?;
    Ok(grants)
}

fn read(row: &Row<'_>) -> rusqlite::Result<Grant> {
    let what = match row.get::<_, Option<String>>(1)? {
        Some(class) => For::Class(class),
        None => For::Digest(row.get(2)?),
    };
    Ok(Grant {
        id: unsigned(row.get(0)?),
        what,
        scope: row.get(3)?,
        session: row.get(4)?,
        uses: row.get(5)?,
        uses_left: row.get(6)?,
        made: unsigned(row.get(7)?),
        until: unsigned(row.get(8)?),
    })
}

pub(super) fn revoke(
    change: &Transaction<'_>,
    now: u64,
    id: u64,
    record: Record<'_>,
) -> Result<bool, Failure> {
    let query = format!("UPDATE granted SET uses_left = 0 WHERE id = ?2 AND {IS_WORTH}");
    let revoked = change.execute(&query, params![signed(now), signed(id)])? == 1;
    if revoked {
        record(What::Revoked { grant: id })?;
    }
    Ok(revoked)
}

/// What a denial is about: the rule, so that other words for the same do not help.
fn what(question: &Question) -> String {
    match &question.rule {
        Some(rule) => format!("rule {rule}"),
        None => format!("digest {}", question.digest),
    }
}

/// Stands for all sessions of a scope, and for commands without one. No session has such a name.
fn every_session(question: &Question) -> String {
    format!("#{}", question.scope)
}

pub(super) fn deny(
    change: &Transaction<'_>,
    now: u64,
    question: &Question,
    reach: Reach,
) -> Result<(), Failure> {
    let always = (reach == Reach::Project).then(|| every_session(question));
    for session in question.session.iter().chain(&always) {
        change.execute(
            "INSERT OR REPLACE INTO denied (session, what, class, digest, scope, at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![session, what(question), question.class, question.digest, question.scope, signed(now)],
        )?;
    }
    Ok(())
}

/// Takes a no back that sticks. How many there were.
pub(super) fn forget(change: &Transaction<'_>, question: &Question) -> Result<usize, Failure> {
    let forgotten = change.execute(
        "DELETE FROM denied WHERE scope = ?1 AND what = ?2",
        params![question.scope, what(question)],
    )?;
    Ok(forgotten)
}

pub(super) fn denied_before(change: &Transaction<'_>, question: &Question) -> Result<bool, Failure> {
    let found = change.query_row(
        "SELECT EXISTS (SELECT 1 FROM denied WHERE (session = ?1 OR session = ?2) AND what = ?3)",
        params![question.session, every_session(question), what(question)],
        |row| row.get(0),
    )?;
    Ok(found)
}

pub(super) fn tidy(change: &Transaction<'_>, now: u64) -> Result<(), Failure> {
    let ended = signed(now.saturating_sub(KEPT_SECONDS));
    change.execute("DELETE FROM granted WHERE made + seconds < ?1", [ended])?;
    let old = signed(now.saturating_sub(DENIALS_KEPT_SECONDS));
    change.execute("DELETE FROM denied WHERE at < ?1", [old])?;
    Ok(())
}
