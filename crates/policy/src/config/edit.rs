//! Changes that a command makes to the user's policy file: which tools a HOME shows. Pure: a text comes in, a text goes out.
//!
//! A file with mistakes is not touched, and what comes out has been read as a policy again.

use super::checks;
use super::keys::Id;
use super::mistake::{PolicyError, Unfit, listed, quoted};
use super::read::File;
use super::splice;
use super::value::{Value, Values};
use super::{Document, Layers, Role, resolve};
use crate::settings::Policy;
use crate::words::{Origin, TrustClass};

/// What is done with tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Their logins are shown.
    Add,
    /// They are shared as a whole.
    Share,
    /// Neither.
    Remove,
}

/// One change of the file.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    pub change: Change,
    pub tools: &'a [String],
    /// How the file is called in what is said.
    pub file: &'a str,
    /// The profile that it is about; without one, the top of the file.
    pub profile: Option<&'a str>,
}

/// The file after the change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edited {
    /// `None` if nothing had to be changed.
    pub text: Option<String>,
    /// What was written, one line each.
    pub done: Vec<String>,
    /// What is worth knowing besides.
    pub notes: Vec<String>,
}

/// Why there is no change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotEdited {
    /// The file has mistakes, or would ask for more than the ceiling allows.
    Policy(PolicyError),
    /// What was asked for does not fit: the fact, and what to do.
    Unfit { fact: String, remedy: String },
}

impl From<Unfit> for NotEdited {
    fn from(Unfit { fact, remedy }: Unfit) -> Self {
        NotEdited::Unfit { fact, remedy }
    }
}

impl From<PolicyError> for NotEdited {
    fn from(error: PolicyError) -> Self {
        NotEdited::Policy(error)
    }
}

/// Makes the change. `text` is that of the user's file, if there is one; `name` is shown in messages.
pub fn edit(
    name: &str,
    text: Option<&[u8]>,
    ceiling: Option<Document<'_>>,
    wish: &Wish<'_>,
) -> Result<Edited, NotEdited> {
    const MARK: &str = "\u{feff}";
    let bytes = text.unwrap_or_default();
    let file = read(name, bytes)?;
    if let Some(profile) = wish.profile {
        checks::profile_name(profile)?;
    }
    // Reading has found that it is UTF-8.
    let text = std::str::from_utf8(bytes).unwrap_or_default();
    let (mark, text) = text.strip_prefix(MARK).map_or(("", text), |text| (MARK, text));
    let (after, done, mut notes) = match wish.change {
        Change::Add => granted(wish, Id::HomeTools, &file, text)?,
        Change::Share => granted(wish, Id::HomeShare, &file, text)?,
        Change::Remove => removed(wish, &file, name, text)?,
    };
    let after = format!("{mark}{after}");
    // Report mistakes of the file as it is on the disk, because the reader looks for them there.
    holds(wish, &read(name, after.as_bytes()).map_err(|_| by_hand(wish))?)?;
    let document = |bytes| Some(Document { name, text: bytes });
    let is = resolve(&Layers {
        user: document(after.as_bytes()),
        profile: wish.profile,
        // What is taken away is not beyond anything.
        ceiling: ceiling.filter(|_| wish.change != Change::Remove),
        ..Layers::default()
    })?;
    let known = wish.profile.filter(|wanted| file.profiles.iter().any(|(known, _)| known == wanted));
    let was = resolve(&Layers { user: document(bytes), profile: known, ..Layers::default() })?;
    notes.extend(note(wish, &was, &is));
    Ok(Edited { text: (after.as_bytes() != bytes).then_some(after), done, notes })
}

fn read<'a>(name: &'a str, text: &'a [u8]) -> Result<File<'a>, PolicyError> {
    File::read(&Document { name, text }, Role::User).map_err(PolicyError::Mistakes)
}

/// What a file says where the change is made.
fn scope<'a>(wish: &Wish<'_>, file: &'a File<'_>) -> Option<&'a Values> {
    match wish.profile {
        None => Some(&file.values),
        Some(wanted) => file.profiles.iter().find(|(name, _)| name == wanted).map(|(_, values)| values),
    }
}

fn has(values: Option<&Values>, id: Id, tool: &str) -> bool {
    values.is_some_and(|values| values.names(id).iter().any(|entry| entry.value == tool))
}

/// The way to a key in the file.
fn way<'a>(wish: &Wish<'a>, keys: &[&'a str]) -> Vec<&'a str> {
    wish.profile.iter().flat_map(|name| ["profiles", *name]).chain(keys.iter().copied()).collect()
}

/// How a place is called.
fn of_profile(wish: &Wish<'_>) -> String {
    wish.profile.map(|name| format!(" of the profile {name}")).unwrap_or_default()
}

type Changed = (String, Vec<String>, Vec<String>);

/// Adds the tools to a list.
fn granted(wish: &Wish<'_>, id: Id, file: &File<'_>, text: &str) -> Result<Changed, NotEdited> {
    let key = id.key();
    for tool in wish.tools {
        checks::tool(key.path, tool)?;
    }
    let values = scope(wish, file);
    let (mut new, mut notes) = (Vec::<&str>::new(), Vec::new());
    for tool in wish.tools {
        let there = [Id::HomeShare, id].into_iter().find(|id| has(values, *id, tool));
        match there {
            Some(id) => notes.push(format!("{tool} is in {}{} already", id.key().path, of_profile(wish))),
            None if !new.contains(&tool.as_str()) => new.push(tool),
            None => {}
        }
    }
    if new.is_empty() {
        return Ok((text.to_owned(), Vec::new(), notes));
    }
    let mut done =
        vec![format!("added {} to {}{} in {}", new.join(", "), key.path, of_profile(wish), wish.file)];
    let mut after = Some(text.to_owned());
    if file.source.is_empty() {
        after = after.and_then(|text| splice::put(&text, &["version"], "1"));
    }
    if let Some(profile) = wish.profile {
        after = after.and_then(|text| splice::with_profile(&text, profile));
        if needs_trust(file, values) {
            after = after.and_then(|text| splice::put(&text, &way(wish, &["trust"]), "\"executor\""));
            let mut line = format!(
                "wrote trust = \"executor\" into the profile {profile}, because other classes see no login"
            );
            if values.is_some() {
                line += "; its runs have the HOME of that class from now on";
            }
            done.push(line);
        }
    }
    for tool in &new {
        after = after.and_then(|text| splice::push(&text, &way(wish, &["home", key.leaf()]), tool));
    }
    Ok((after.ok_or_else(|| by_hand(wish))?, done, notes))
}

/// Whether a profile says nothing about its class, and the top of the file gives it one that is shown no login.
fn needs_trust(file: &File<'_>, profile: Option<&Values>) -> bool {
    let class = |values: &Values| match values.get(Id::Trust) {
        Some(Value::Choice(rank)) => TrustClass::ALL.get(rank.value).copied(),
        _ => None,
    };
    profile.and_then(class).is_none() && !class(&file.values).is_some_and(TrustClass::may_have_logins)
}

/// Takes the tools out of both lists.
fn removed(wish: &Wish<'_>, file: &File<'_>, name: &str, text: &str) -> Result<Changed, NotEdited> {
    // A profile that is not there is told as everywhere.
    let document = Document { name, text: text.as_bytes() };
    let known = (!file.source.is_empty()).then_some(document);
    resolve(&Layers { user: known, profile: wish.profile, ..Layers::default() })?;
    let values = scope(wish, file);
    let (mut after, mut done) = (Some(text.to_owned()), Vec::new());
    for tool in wish.tools {
        let lists = [Id::HomeTools, Id::HomeShare].map(|id| has(values, id, tool).then(|| id.key()));
        let lists: Vec<_> = lists.into_iter().flatten().collect();
        if lists.is_empty() {
            return Err(not_there(wish, file, tool));
        }
        for key in &lists {
            after = after.and_then(|text| splice::pull(&text, &way(wish, &["home", key.leaf()]), tool));
        }
        let paths: Vec<&str> = lists.iter().map(|key| key.path).collect();
        done.push(format!("took {tool} out of {}{} in {}", paths.join(" and "), of_profile(wish), wish.file));
    }
    if let Some(profile) = wish.profile {
        after = after.and_then(|text| splice::with_profile(&text, profile));
    }
    Ok((after.ok_or_else(|| by_hand(wish))?, done, Vec::new()))
}

fn not_there(wish: &Wish<'_>, file: &File<'_>, tool: &str) -> NotEdited {
    let both = [Id::HomeTools, Id::HomeShare];
    let fact = format!("{} is not in home.tools or home.share{}", quoted(tool), of_profile(wish));
    let elsewhere =
        file.profiles.iter().find(|(_, values)| both.iter().any(|id| has(Some(values), *id, tool)));
    let mut there: Vec<&str> = scope(wish, file)
        .into_iter()
        .flat_map(|values| both.iter().flat_map(|id| values.names(*id)))
        .map(|entry| entry.value.as_str())
        .collect();
    there.dedup();
    let remedy = match elsewhere {
        _ if wish.profile.is_some() && both.iter().any(|id| has(Some(&file.values), *id, tool)) => {
            "it is at the top of the file, for all profiles: leave out `-p`".to_owned()
        }
        Some((name, _)) => format!("it is in the profile {name}: name it with `-p {name}`"),
        None if there.is_empty() => "no tool is named there, so that nothing has to be removed".to_owned(),
        None => format!("named there: {}", listed(&there)),
    };
    NotEdited::Unfit { fact, remedy }
}

/// Whether the file now says what was asked for.
fn holds(wish: &Wish<'_>, file: &File<'_>) -> Result<(), NotEdited> {
    let values = scope(wish, file);
    let fine = wish.tools.iter().all(|tool| {
        let (shown, shared) = (has(values, Id::HomeTools, tool), has(values, Id::HomeShare, tool));
        match wish.change {
            Change::Add => shown || shared,
            Change::Share => shared,
            Change::Remove => !shown && !shared,
        }
    });
    if fine { Ok(()) } else { Err(by_hand(wish)) }
}

/// The file is written in a way that we do not know how to change.
fn by_hand(wish: &Wish<'_>) -> NotEdited {
    let key = if wish.change == Change::Share { "home.share" } else { "home.tools" };
    NotEdited::Unfit {
        fact: format!("cannot change {key}{} in its place", of_profile(wish)),
        remedy: "nothing was written; change the line by hand".to_owned(),
    }
}

/// What the change means for the runs it is about.
fn note(wish: &Wish<'_>, was: &Policy, is: &Policy) -> Option<String> {
    let class = is.trust.value;
    let still = |name: &&String| {
        let mut all = is.home.tools.iter().chain(&is.home.share);
        all.any(|tool| tool.value.name == name.as_str() && tool.origin != Origin::Builtin)
    };
    if let Some(tool) = wish.tools.iter().find(still).filter(|_| wish.change == Change::Remove) {
        return Some(format!(
            "{tool} is also at the top of the file, for all profiles; `keyward home remove {tool}` removes it there"
        ));
    }
    if class == TrustClass::Internal {
        let named = |policy: &Policy| {
            let mut all = policy.home.tools.iter().chain(&policy.home.share);
            policy.trust.value == class && all.any(|tool| tool.origin != Origin::Builtin)
        };
        return match (named(was), named(is)) {
            (false, true) if was.trust.value == class => Some(
                "the class internal is shown every login as long as none is named: from now on only these"
                    .into(),
            ),
            (true, false) => {
                Some("no tool is named any more, and the class internal is shown every login then".into())
            }
            _ => None,
        };
    }
    if wish.change == Change::Remove || class.may_have_logins() {
        return None;
    }
    Some(match (wish.profile, &is.trust.origin) {
        (Some(name), Origin::Builtin) => format!(
            "the profile {name} is of the class {class}, which is shown no login; `trust = \"executor\"` in it changes that"
        ),
        (Some(name), origin) => format!(
            "the profile {name} is of the class {class} ({origin}), which is shown no login; `trust = \"executor\"` there changes that"
        ),
        (None, _) => "this login is exposed only to the trust classes `executor` and `internal`: use `--trust executor`, or set `trust` in a profile"
            .into(),
    })
}
