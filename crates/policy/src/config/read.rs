//! Reading one file: the walk through its tables, along the table of keys.

use super::checks;
use super::keys::{Direction, Found, Id, KEYS, Key, Kind, find};
use super::mistake::{Mistake, Unfit, listed, quoted};
use super::nearest::nearest;
use super::source::{Report, Source};
use super::value::{At, Value, Values};
use super::{Document, Role, typed};
use crate::env;
use toml_edit::{Item, TableLike};

/// What one file says.
pub struct File<'a> {
    pub source: Source<'a>,
    pub values: Values,
    /// Only in the user's file.
    pub profiles: Vec<(String, Values)>,
}

impl<'a> File<'a> {
    /// Reads a file in its role. All its mistakes, or all its values.
    pub fn read(document: &Document<'a>, role: Role) -> Result<Self, Vec<Mistake>> {
        let source = Source::new(document.name, document.text).map_err(|mistake| vec![mistake])?;
        let toml = source.parse().map_err(|mistake| vec![mistake])?;
        let mut reader = Reader { report: Report::new(&source), role, profiles: Vec::new() };
        let mut values = Values::default();
        reader.walk(toml.as_table(), &Scope::ROOT, &mut values);
        if !toml.is_empty() && !toml.contains_key("version") {
            reader.report.add(0, Unfit::new("the file has no version", "begin it with `version = 1`"));
        }
        reader.check_set(&values, None, "");
        let profiles = std::mem::take(&mut reader.profiles);
        for (name, profile) in &profiles {
            reader.check_set(profile, Some(&values), &format!("profiles.{name}."));
        }
        let mistakes = reader.report.into_mistakes();
        if mistakes.is_empty() { Ok(File { source, values, profiles }) } else { Err(mistakes) }
    }
}

/// Reads a table of policy keys that stands in another file: `[policy]` of an agent's profile. Mistakes go to the report.
pub fn policy_table<'s, 'a>(
    report: Report<'s, 'a>,
    table: &dyn TableLike,
    prefix: &str,
) -> (Report<'s, 'a>, Values) {
    let mut reader = Reader { report, role: Role::User, profiles: Vec::new() };
    let mut values = Values::default();
    reader.walk(table, &Scope { group: None, prefix: prefix.to_owned() }, &mut values);
    reader.check_set(&values, None, prefix);
    (reader.report, values)
}

/// The position of the walk through the file.
struct Scope {
    /// The group of keys, such as `env`.
    group: Option<&'static str>,
    /// What stands before the key's path in the file, such as `profiles.claude.`.
    prefix: String,
}

impl Scope {
    const ROOT: Scope = Scope { group: None, prefix: String::new() };

    fn in_profile(&self) -> bool {
        !self.prefix.is_empty()
    }
}

struct Reader<'s, 'a> {
    report: Report<'s, 'a>,
    role: Role,
    profiles: Vec<(String, Values)>,
}

impl Reader<'_, '_> {
    fn walk(&mut self, table: &dyn TableLike, scope: &Scope, values: &mut Values) {
        for (name, item) in table.iter() {
            if self.report.is_full() {
                return;
            }
            let offset = offset_of(table, name, item);
            let path = match scope.group {
                Some(group) => format!("{group}.{name}"),
                None => name.to_owned(),
            };
            // A quoted key may hold a dot, and would then pass for a path.
            let found = if name.contains('.') { Found::Nothing } else { find(&path) };
            match found {
                Found::Key(key) => self.key(key, item, offset, scope, values),
                Found::Group => match (
                    item.as_table_like(),
                    KEYS.iter().find_map(|key| key.group().filter(|g| *g == path)),
                ) {
                    (Some(inner), Some(group)) => {
                        self.walk(inner, &Scope { group: Some(group), prefix: scope.prefix.clone() }, values);
                    }
                    _ => self.report.add(
                        offset,
                        Unfit::new(
                            format!("{}{path} wants a table, found {}", scope.prefix, typed::kind_of(item)),
                            format!("write its keys below `[{}{path}]`", scope.prefix),
                        ),
                    ),
                },
                Found::Nothing => self.report.add(offset, unknown(name, &path, scope)),
            }
        }
    }

    fn key(&mut self, key: &'static Key, item: &Item, offset: usize, scope: &Scope, values: &mut Values) {
        if let Err(unfit) = belongs(key, self.role, scope) {
            return self.report.add(offset, unfit);
        }
        if key.kind == Kind::Profiles {
            return self.profiles(item, offset);
        }
        let shown = format!("{}{}", scope.prefix, key.path);
        if let Some(value) = typed::read(key, &shown, item, offset, self.role, &mut self.report) {
            values.put(key.id, value);
        }
    }

    fn profiles(&mut self, item: &Item, offset: usize) {
        let Some(table) = item.as_table_like() else {
            let fact = format!("profiles wants a table, found {}", typed::kind_of(item));
            return self.report.add(offset, Unfit::new(fact, "write each below `[profiles.NAME]`"));
        };
        for (name, item) in table.iter() {
            if self.report.is_full() {
                return;
            }
            let offset = offset_of(table, name, item);
            if let Err(unfit) = checks::profile_name(name) {
                self.report.add(offset, unfit);
                continue;
            }
            let Some(inner) = item.as_table_like() else {
                let fact = format!("profiles.{name} wants a table, found {}", typed::kind_of(item));
                self.report
                    .add(offset, Unfit::new(fact, format!("write its keys below `[profiles.{name}]`")));
                continue;
            };
            let mut values = Values::default();
            self.walk(inner, &Scope { group: None, prefix: format!("profiles.{name}.") }, &mut values);
            self.profiles.push((name.to_owned(), values));
        }
    }

    /// Variables that we set are neither credentials nor loader variables, unless the same file says so by name.
    fn check_set(&mut self, values: &Values, root: Option<&Values>, prefix: &str) {
        let Some(Value::Map(map)) = values.get(Id::EnvSet) else { return };
        let said = |id: Id, name: &str| {
            let mut lists = [Some(values), root].into_iter().flatten();
            lists.any(|values| values.names(id).iter().any(|entry| entry.value == name))
        };
        for At { value: (name, value), offset, .. } in &map.value {
            if self.report.is_full() {
                return;
            }
            if checks::is_credential(name, value) && !said(Id::EnvNotSecret, name) {
                let remedy = match self.role {
                    Role::User => {
                        "a policy holds no secrets: let it be inherited by name, or clear a false hit in env.not_secret"
                    }
                    Role::Ceiling | Role::Project => "a policy holds no secrets: remove it",
                };
                let fact = format!("{prefix}env.set.{name} looks like a credential");
                self.report.add(*offset, Unfit::new(fact, remedy));
            }
            if env::is_loader(name.as_bytes()) && !said(Id::EnvDangerousLoaderEnv, name) {
                let fact = format!("{prefix}env.set.{name} makes programs load code");
                let remedy =
                    format!("if that is meant, also write `env.dangerous_loader_env = [\"{name}\"]`");
                self.report.add(*offset, Unfit::new(fact, remedy));
            }
        }
    }
}

/// Whether a key may stand in this file and table at all.
fn belongs(key: &Key, role: Role, scope: &Scope) -> Result<(), Unfit> {
    let path = key.path;
    if scope.in_profile() && key.is_header() {
        let fact = format!("{path} does not belong in a profile");
        return Err(Unfit::new(fact, "write it once, at the top of the file"));
    }
    if key.id == Id::HomePath && role == Role::User && !scope.in_profile() {
        let fact = format!("{path} belongs in a profile");
        return Err(Unfit::new(fact, "a HOME is one profile's: write it as `profiles.NAME.home.path`"));
    }
    let unfit = match (role, key.direction) {
        (Role::Project, Direction::Grant | Direction::OwnGrant | Direction::OwnSetting | Direction::Set) => {
            let remedy = match key.flag {
                Some(flag) => format!("write it in your own policy file, or use {flag}"),
                None => "write it in your own policy file".to_owned(),
            };
            Unfit::new(format!("the project file may only narrow; {path} does not belong in it"), remedy)
        }
        (Role::Project, Direction::Header) if key.kind == Kind::Profiles => Unfit::new(
            "the project file may only narrow; profiles does not belong in it",
            "write it in your own policy file",
        ),
        (Role::Ceiling, Direction::OwnGrant | Direction::OwnSetting) => {
            Unfit::new(format!("{path} does not belong in the ceiling"), "only a user's own file may say it")
        }
        (Role::Ceiling, Direction::Header) if key.kind == Kind::Profiles => Unfit::new(
            "the ceiling has no profiles",
            "write its values at the top; users choose profiles in their own files",
        ),
        _ => return Ok(()),
    };
    Err(unfit)
}

/// A key that does not exist, and the one that was probably meant.
fn unknown(name: &str, path: &str, scope: &Scope) -> Unfit {
    let fact = format!("there is no key {}", quoted(&format!("{}{path}", scope.prefix)));
    if name.contains('.') && !matches!(find(path), Found::Nothing) {
        return Unfit::new(fact, "write it without quotes: in quotes a dot is part of the name");
    }
    let fitting = || KEYS.iter().filter(|key| !(scope.in_profile() && key.is_header()));
    let groups = fitting().filter_map(Key::group);
    let meant = fitting()
        .find(|key| key.leaf() == name)
        .map(|key| key.path)
        .or_else(|| nearest(path, fitting().map(|key| key.path).chain(groups)));
    if let Some(meant) = meant {
        return Unfit::new(fact, format!("did you mean {}", quoted(&format!("{}{meant}", scope.prefix))));
    }
    let mut here: Vec<&str> = fitting().filter(|key| key.group() == scope.group).map(Key::leaf).collect();
    if scope.group.is_none() {
        here.extend(fitting().filter_map(Key::group));
    }
    here.dedup();
    Unfit::new(fact, format!("known here: {}", listed(&here)))
}

/// Where a key stands in the text.
pub fn offset_of(table: &dyn TableLike, name: &str, item: &Item) -> usize {
    let key = table.key(name).and_then(toml_edit::Key::span);
    key.or_else(|| item.span()).map_or(0, |span| span.start)
}
