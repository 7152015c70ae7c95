//! `data/registry.toml` as the sorted tables that `registry` searches.

use crate::reader::{check, only, strings, table};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use toml_edit::{DocumentMut, Item, TableLike, Value};

/// What must follow a prefix that is given as a plain string.
const THEN: i64 = 10;

pub fn generate(text: &str) -> Result<String, String> {
    let doc: DocumentMut = text.parse().map_err(|e: toml_edit::TomlError| e.to_string())?;
    let known_sections = ["providers", "authority", "shapes", "values", "operational", "loader", "platforms"];
    if let Some((odd, _)) = doc.iter().find(|(section, _)| !known_sections.contains(section)) {
        return Err(format!("[{odd}] is not a section of the registry"));
    }
    let mut out = Out::default();
    let mut prefixes = Vec::new();
    let mut names = BTreeMap::new();
    for (section, kind) in [("providers", "Credential"), ("authority", "Authority")] {
        for (provider, item) in table(&doc, section)?.iter() {
            let at = format!("[{section}] {provider}");
            check(provider, &at, |c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')?;
            let entry = item.as_table_like().ok_or(format!("{at}: expected {{ names = [...] }}"))?;
            only(entry, &at, &["names", "prefixes"])?;
            let row = format!("({}, Kind::{kind})", out.text(provider));
            for name in strings(entry, &at, "names")? {
                add_name(&mut names, &name.to_ascii_uppercase(), &row, &at)?;
            }
            for value in entry.get("prefixes").and_then(Item::as_array).into_iter().flatten() {
                prefixes.push(Pattern::read(value, &at, Some(format!("{provider} token")))?);
            }
        }
    }
    out.names("KNOWN", "(Text, Kind)", &names);

    let loader = table(&doc, "loader")?;
    only(loader, "[loader]", &["names", "except"])?;
    let except = name_set(loader, "[loader]", "except", str::to_ascii_uppercase)?;
    let loader = name_set(loader, "[loader]", "names", str::to_ascii_uppercase)?;
    let operational = table(&doc, "operational")?;
    only(operational, "[operational]", &["names"])?;
    let operational = name_set(operational, "[operational]", "names", str::to_owned)?;
    for (section, set) in [("[loader]", &loader), ("[operational]", &operational)] {
        if let Some(twice) = set.keys().find(|name| names.contains_key(*name)) {
            return Err(format!("{section}: {twice} is already a credential or an authority"));
        }
    }
    if let Some(twice) = operational.keys().find(|name| loader.contains_key(*name)) {
        return Err(format!("[operational]: {twice} is already in [loader]"));
    }
    // Only the SDKs use these, by the registry that `tests/published.rs` makes; a mistake in them is found here all the same.
    let platforms = table(&doc, "platforms")?;
    only(platforms, "[platforms]", &["macos", "windows"])?;
    for platform in ["macos", "windows"] {
        let further = name_set(platforms, "[platforms]", platform, str::to_ascii_uppercase)?;
        if let Some(twice) =
            further.keys().find(|name| names.contains_key(*name) || loader.contains_key(*name))
        {
            return Err(format!(
                "[platforms] {platform}: {twice} is already a credential, an authority or a loader"
            ));
        }
    }
    out.names("LOADER", "Text", &loader);
    out.names("LOADER_EXCEPT", "Text", &except);
    out.names("OPERATIONAL", "Text", &operational);

    let shapes = table(&doc, "shapes")?;
    only(shapes, "[shapes]", &["substrings", "words"])?;
    for (list, table) in [("substrings", "SHAPES"), ("words", "SHAPE_WORDS")] {
        let mut rows = BTreeMap::new();
        for text in strings(shapes, "[shapes]", list)? {
            add_name(&mut rows, &text, "", "[shapes]")?;
        }
        out.pairs(table, rows.keys().map(String::as_str))?;
        let rows = rows.keys().map(|text| (first(text), out.text(text))).collect();
        out.table(table, "Text", rows);
    }

    let values = table(&doc, "values")?;
    only(values, "[values]", &["prefixes", "literals", "assignments"])?;
    for value in values.get("prefixes").and_then(Item::as_array).into_iter().flatten() {
        prefixes.push(Pattern::read(value, "[values] prefixes", None)?);
    }
    let mut literals = Vec::new();
    for value in values.get("literals").and_then(Item::as_array).into_iter().flatten() {
        let pattern = Pattern::read(value, "[values] literals", None)?;
        if pattern.text.chars().any(|c| c.is_ascii_uppercase()) {
            return Err(format!("[values] literals: {:?} must be lower case", pattern.text));
        }
        literals.push(pattern);
    }
    out.patterns("PREFIXES", prefixes)?;
    out.patterns("LITERALS", literals)?;
    let mut assignments = Vec::new();
    for word in strings(values, "[values]", "assignments")? {
        check(&word, "[values] assignments", |c| c.is_ascii_lowercase() || "_-".contains(c))?;
        // Found from their end, as the `=` behind them is.
        assignments.push((word.bytes().last().unwrap_or(0), out.text(&word)));
    }
    out.table("ASSIGNMENTS", "Text", assignments);
    Ok(format!("pub(super) const TEXT: &str = {:?};\n\n{}", out.text, out.tables))
}

/// How a value begins that is a credential.
struct Pattern {
    label: String,
    text: String,
    then: i64,
    weak: bool,
}

impl Pattern {
    fn read(value: &Value, at: &str, label: Option<String>) -> Result<Pattern, String> {
        let (label, text, then, weak) = match (value, value.as_inline_table()) {
            (Value::String(text), _) => (label, Some(text.value().as_str()), Some(THEN), Some(false)),
            (_, Some(entry)) => {
                only(entry, at, &["label", "text", "then", "weak"])?;
                (
                    label.or_else(|| entry.get("label").and_then(Value::as_str).map(str::to_owned)),
                    entry.get("text").and_then(Value::as_str),
                    entry.get("then").map_or(Some(THEN), Value::as_integer),
                    entry.get("weak").map_or(Some(false), Value::as_bool),
                )
            }
            _ => return Err(format!("{at}: a prefix is a string or a table, not {value:?}")),
        };
        let text = text.ok_or(format!("{at}: a prefix lacks its text"))?;
        check(text, at, |c| c.is_ascii_graphic() || c == ' ')?;
        match (label, then, weak) {
            (Some(label), Some(then @ 0..=255), Some(weak)) if !label.is_empty() => {
                Ok(Pattern { label, text: text.to_owned(), then, weak })
            }
            _ => Err(format!("{at}: {text:?} needs a label, a `then` of 0 to 255 and a boolean `weak`")),
        }
    }
}

/// What is written: the tables, and one text that holds the texts of all rows. A row says where its own begins instead of pointing to it,
/// because every pointer in a table would have to be relocated whenever the program starts.
#[derive(Default)]
struct Out {
    text: String,
    tables: String,
}

impl Out {
    /// The text as a row has it. Where it is too long or too far back for `Text`, the compiler refuses the number.
    fn text(&mut self, text: &str) -> String {
        let start = self.text.find(text).unwrap_or(self.text.len());
        if start == self.text.len() {
            self.text += text;
        }
        format!("Text {{ start: {start}, length: {} }}", text.len())
    }

    /// Rows are grouped by first byte, the longest first, so that `sk-ant-` is tried before `sk-`.
    fn patterns(&mut self, table: &str, mut patterns: Vec<Pattern>) -> Result<(), String> {
        patterns.sort_by(|a, b| b.text.len().cmp(&a.text.len()).then_with(|| a.text.cmp(&b.text)));
        if let Some(twice) = patterns.windows(2).find(|pair| pair[0].text == pair[1].text) {
            return Err(format!("the prefix {:?} of {} is already there", twice[0].text, twice[0].label));
        }
        self.pairs(table, patterns.iter().map(|pattern| pattern.text.as_str()))?;
        let row = |Pattern { label, text, then, weak }: &Pattern| {
            let (group, label, text) = (first(text), self.text(label), self.text(text));
            (group, format!("Pattern {{ label: {label}, text: {text}, then: {then}, weak: {weak} }}"))
        };
        let rows = patterns.iter().map(row).collect();
        self.table(table, "Pattern", rows);
        Ok(())
    }

    /// Splits names into exact ones, grouped by [`spread`], and patterns with a star, grouped by first byte; a leading star is group 0.
    fn names(&mut self, table: &str, kind: &str, names: &BTreeMap<String, String>) {
        let mut exact = Vec::new();
        let mut starred = Vec::new();
        for (name, row) in names {
            let row = if kind == "Text" { self.text(name) } else { row.clone() };
            match name.split_once('*') {
                Some((head, tail)) => {
                    starred.push((first(head), format!("({}, {}, {row})", self.text(head), self.text(tail))));
                }
                None => exact.push((spread(name.as_bytes()), format!("({}, {row})", self.text(name)))),
            }
        }
        self.table(table, &format!("(Text, {kind})"), exact);
        self.table(&format!("{table}_STARRED"), &format!("(Text, Text, {kind})"), starred);
    }

    fn table(&mut self, table: &str, kind: &str, mut rows: Vec<(u8, String)>) {
        rows.sort_by_key(|(byte, _)| *byte); // stable: the order within a group is the caller's
        let start: Vec<usize> =
            (0..=256).map(|byte| rows.partition_point(|(b, _)| usize::from(*b) < byte)).collect();
        let count = rows.len();
        let rows: String = rows.iter().fold(String::new(), |text, (_, row)| text + "    " + row + ",\n");
        // Writing to a string does not fail.
        let _ = writeln!(
            self.tables,
            "pub(super) static {table}: Grouped<{kind}, {count}> = Grouped {{ start: {start:?}, rows: [\n{rows}] }};\n"
        );
    }

    /// With which pairs of bytes the texts begin: a quick no for almost every place in a name or value.
    fn pairs<'a>(&mut self, table: &str, texts: impl Iterator<Item = &'a str>) -> Result<(), String> {
        let mut pairs = [0_u32; 32];
        for text in texts {
            let [one, two, ..] = text.as_bytes() else {
                return Err(format!("{text:?} is too short to tell anything"));
            };
            pairs[usize::from(one & 31)] |= 1 << (two & 31);
        }
        let _ = writeln!(self.tables, "pub(super) static {table}_PAIRS: Pairs = Pairs({pairs:?});\n");
        Ok(())
    }
}

include!("../src/detect/registry/spread.rs");

fn first(text: &str) -> u8 {
    text.bytes().next().unwrap_or(0)
}

fn name_set(
    entry: &dyn TableLike,
    at: &str,
    key: &str,
    case: fn(&str) -> String,
) -> Result<BTreeMap<String, String>, String> {
    let mut names = BTreeMap::new();
    for name in strings(entry, at, key)? {
        add_name(&mut names, &case(&name), "", at)?;
    }
    Ok(names)
}

fn add_name(names: &mut BTreeMap<String, String>, name: &str, row: &str, at: &str) -> Result<(), String> {
    check(name, at, |c| c.is_ascii_alphanumeric() || c == '_' || c == '*')?;
    if name.matches('*').count() > 1 || name == "*" {
        return Err(format!("{at}: {name} may hold one `*`, and something besides it"));
    }
    match names.insert(name.to_owned(), row.to_owned()) {
        Some(_) => Err(format!("{at}: {name} is already there")),
        None => Ok(()),
    }
}
