//! One file: its text is parsed, lowered and judged. Pure apart from the parsers of this thread.

use crate::code::Language;
use crate::config::{self, Format};
use crate::finding::{Environment, Finding, Secret, Trust};
use crate::judge::{Base, Export, Exports, ForeignCall, advice, judge};
use crate::lower::{self, rust::Lowered};
use crate::{shell, tree, words};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use tree_sitter::{ParseOptions, Parser, Range, Tree};

/// What a file is read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reading {
    Python,
    JavaScript,
    TypeScript,
    Tsx,
    Rust,
    Go,
    Shell,
    Config(FormatWord),
}

/// A format that can be hashed.
pub type FormatWord = u8;

/// Parsing takes at most this long: some texts are made to be slow.
const PATIENCE: Duration = Duration::from_secs(10);

impl Reading {
    pub fn of(path: &str, first_line: &[u8]) -> Option<Reading> {
        if let Some(format) = config::format(path) {
            return Some(Reading::Config(format as u8));
        }
        let name = words::base(path);
        if name == ".envrc" {
            return Some(Reading::Shell);
        }
        match name.rsplit_once('.').map(|(_, end)| end) {
            Some("py" | "pyw" | "pyi") => (!name.ends_with(".pyi")).then_some(Reading::Python),
            Some("js" | "jsx" | "mjs" | "cjs") => Some(Reading::JavaScript),
            Some("ts" | "mts" | "cts") => (!name.ends_with(".d.ts")).then_some(Reading::TypeScript),
            Some("tsx") => Some(Reading::Tsx),
            Some("rs") => Some(Reading::Rust),
            Some("go") => Some(Reading::Go),
            Some("sh" | "bash" | "zsh" | "ksh" | "bats") => Some(Reading::Shell),
            _ => Reading::of_first_line(first_line),
        }
    }

    fn of_first_line(line: &[u8]) -> Option<Reading> {
        let line =
            std::str::from_utf8(line.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?).ok()?;
        let program =
            line.split_whitespace().map(words::base).find(|word| *word != "env" && !word.starts_with('-'))?;
        match program {
            "node" | "zx" | "bun" | "nodejs" => Some(Reading::JavaScript),
            "deno" | "tsx" | "ts-node" => Some(Reading::TypeScript),
            _ if program.starts_with("python") => Some(Reading::Python),
            _ if words::is_shell(program) => Some(Reading::Shell),
            _ => None,
        }
    }

    pub fn language(self) -> Language {
        match self {
            Reading::Python => Language::Python,
            Reading::JavaScript | Reading::TypeScript | Reading::Tsx => Language::JavaScript,
            Reading::Rust => Language::Rust,
            Reading::Go => Language::Go,
            Reading::Shell => Language::Shell,
            Reading::Config(_) => Language::Config,
        }
    }
}

/// A site whose environment comes from callers in other files.
#[derive(Debug, Clone)]
pub struct Open {
    pub finding: usize,
    pub param: String,
    pub filtered: bool,
    pub otherwise: Environment,
    pub options: bool,
}

#[derive(Debug, Default)]
pub struct Facts {
    pub findings: Vec<Finding>,
    pub secrets: Vec<Secret>,
    pub exports: HashMap<String, Export>,
    pub stars: Vec<String>,
    pub foreign: Vec<ForeignCall>,
    pub open: Vec<Open>,
    pub lines: usize,
    /// Digests of the words in its imports, sorted.
    pub imports: Vec<u64>,
    pub is_parsed: bool,
    /// It may make an environment, and is parsed once a file that starts processes needs it.
    pub waits: bool,
}

pub struct Slow;

thread_local! {
    static PARSERS: RefCell<HashMap<u8, Parser>> = RefCell::new(HashMap::new());
}

/// Parses a text with one of the grammars, or only a part of it.
pub fn parse(reading: Reading, text: &str, part: Option<Range>) -> Result<Tree, Slow> {
    let (key, language) = match reading {
        Reading::Python => (0, tree_sitter_python::LANGUAGE),
        Reading::JavaScript | Reading::Config(_) => (1, tree_sitter_javascript::LANGUAGE),
        Reading::TypeScript => (2, tree_sitter_typescript::LANGUAGE_TYPESCRIPT),
        Reading::Tsx => (3, tree_sitter_typescript::LANGUAGE_TSX),
        Reading::Rust => (4, tree_sitter_rust::LANGUAGE),
        Reading::Go => (5, tree_sitter_go::LANGUAGE),
        Reading::Shell => (6, tree_sitter_bash::LANGUAGE),
    };
    PARSERS.with_borrow_mut(|parsers| {
        let parser = parsers.entry(key).or_insert_with(Parser::new);
        if parser.language().is_none() {
            parser.set_language(&language.into()).map_err(|_| Slow)?;
        }
        let ranges: Vec<Range> = part.into_iter().collect();
        parser.set_included_ranges(&ranges).map_err(|_| Slow)?;
        let until = Instant::now() + PATIENCE;
        let mut patience = |_: &tree_sitter::ParseState| {
            if Instant::now() > until { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let bytes = text.as_bytes();
        let options = ParseOptions::new().progress_callback(&mut patience);
        let tree =
            parser.parse_with_options(&mut |at, _| bytes.get(at..).unwrap_or_default(), None, Some(options));
        if tree.is_none() {
            parser.reset();
        }
        tree.ok_or(Slow)
    })
}

/// Reads one file. `this` is its number in the project.
pub fn read(
    path: &str,
    reading: Reading,
    text: &str,
    exports: &dyn Exports,
    this: usize,
) -> Result<Facts, Slow> {
    let mut facts = Facts { lines: text.lines().count(), ..Facts::default() };
    match reading {
        Reading::Config(format) => configuration(path, format, text, exports, &mut facts)?,
        Reading::Shell => shell_script(path, text, &mut facts)?,
        _ => code(path, reading, text, exports, this, &mut facts, &|row| row)?,
    }
    secrets_by_value(path, text, &mut facts);
    let count = facts.secrets.len();
    for finding in &mut facts.findings {
        finding.secrets_in_file = count;
        if let Some(secret) = &finding.secret_in_argv {
            let name = name_in_vault(secret);
            finding.suggestion = format!(
                "other programs can read arguments: `keyward secret set {name}`, and hand it over otherwise; {}",
                finding.suggestion
            );
        }
    }
    if !text.is_ascii() {
        count_columns(text, &mut facts.findings);
    }
    if facts.findings.iter().any(|finding| finding.suppressed.is_none()) {
        suppress(text, &mut facts.findings);
    }
    Ok(facts)
}

/// Columns of a grammar count bytes; editors and SARIF count UTF-16.
fn count_columns(text: &str, findings: &mut [Finding]) {
    let lines: Vec<&str> = text.lines().collect();
    for finding in findings {
        let before = lines.get(finding.line - 1).and_then(|line| line.get(..finding.column - 1));
        if let Some(before) = before {
            finding.column = before.encode_utf16().count() + 1;
        }
    }
}

/// A file that starts nothing can still hold secrets.
pub fn secrets_only(path: &str, text: &str) -> Facts {
    let mut facts = Facts { lines: text.lines().count(), ..Facts::default() };
    secrets_by_value(path, text, &mut facts);
    facts
}

fn code(
    path: &str,
    reading: Reading,
    text: &str,
    exports: &dyn Exports,
    this: usize,
    facts: &mut Facts,
    row_of: &dyn Fn(usize) -> usize,
) -> Result<(), Slow> {
    let tree = parse(reading, text, None)?;
    let root = tree.root_node();
    let lowered = match reading {
        Reading::Python => lower::python::lower(text, root),
        Reading::Go => lower::go::lower(text, root),
        Reading::Rust => {
            let mut lowered = lower::rust::lower(text, root);
            // Macros in macros, so deep and no deeper.
            for depth in 1..4 {
                for inside in std::mem::take(&mut lowered.inside) {
                    let tree = parse(reading, text, Some(inside.range))?;
                    lowered.add(tree.root_node(), inside.scope, depth);
                }
            }
            let Lowered { code, .. } = lowered;
            code
        }
        _ => lower::javascript::lower(text, root),
    };
    drop(tree);
    let judged = judge(&lowered, exports, this);
    facts.stars = lowered.stars.iter().map(|module| module.to_string()).collect();
    facts.exports = judged.exports;
    facts.foreign = judged.foreign;
    for site in judged.sites {
        let expr = lowered.expr(site.id);
        let callers = site
            .function
            .and_then(|function| judged.callers.get(&function))
            .map(Vec::as_slice)
            .unwrap_or_default();
        let function = site.function.map(|function| lowered.functions[function].name.to_owned());
        if let Base::Param { function, index, otherwise, options } = site.env.base {
            let param = lowered.functions[function].params[index].name.to_owned();
            facts.open.push(Open {
                finding: facts.findings.len(),
                param,
                filtered: site.env.filtered,
                options,
                otherwise,
            });
        }
        let mut callers: Vec<usize> = callers.to_vec();
        callers.sort_unstable();
        callers.dedup();
        facts.findings.push(Finding {
            file: path.to_owned(),
            line: row_of(expr.row) + 1,
            column: expr.column + 1,
            call: site.call,
            environment: site.env.class(),
            certain: site.env.certain,
            language: lowered.language.word(),
            program: site.program.map(|program| shown(&program)),
            trust: site.trust,
            shell: site.shell,
            built: site.built,
            secret_in_argv: site.secret_in_argv,
            secrets_in_file: 0,
            function: function.filter(|name| !name.is_empty()),
            callers: callers
                .into_iter()
                .map(|row| crate::finding::Place { file: path.to_owned(), line: row_of(row) + 1 })
                .collect(),
            suggestion: site.suggestion.to_owned(),
            diff: None,
            fingerprint: String::new(),
            suppressed: None,
            known: false,
            edit: site.edit,
            text: lowered.text_of(site.id).to_owned(),
        });
    }
    Ok(())
}

/// A program as it is shown: never a secret.
fn shown(program: &str) -> String {
    if words::secret_in_text(program).is_some() {
        "(a secret)".to_owned()
    } else {
        program.chars().take(80).collect()
    }
}

fn shell_script(path: &str, text: &str, facts: &mut Facts) -> Result<(), Slow> {
    let tree = parse(Reading::Shell, text, None)?;
    for site in shell::sites(text, tree.root_node()) {
        let finding = plain(
            path,
            "shell",
            site.row,
            site.column,
            site.call,
            site.environment,
            site.program,
            site.trust,
        );
        facts.findings.push(Finding {
            shell: site.shell,
            built: site.built,
            secret_in_argv: site.secret_in_argv,
            text: site.text,
            suggestion: advice(Language::Shell).into(),
            ..finding
        });
    }
    let name = words::base(path);
    for variable in config::variables_of(text) {
        if let Some(kind) = config::secret_kind(&variable).filter(|kind| {
            kind != "credential by its name" || name == ".envrc" || !variable.value.contains('$')
        }) {
            facts.secrets.push(secret(path, variable.row, Some(&variable.name), kind));
        }
    }
    if name == ".envrc" {
        for (row, line) in text.lines().enumerate() {
            let mut words = line.split_whitespace();
            if let Some(word @ ("dotenv" | "dotenv_if_exists" | "source_env" | "source_up")) = words.next() {
                let finding =
                    plain(path, "shell", row, 0, word.into(), Environment::Inherits, None, Trust::Unknown);
                facts.findings.push(Finding {
                    text: line.to_owned(),
                    suggestion:
                        "keep credentials in the vault: every process in this directory gets what it loads"
                            .into(),
                    ..finding
                });
            }
        }
    }
    Ok(())
}

#[allow(clippy::too_many_arguments, reason = "the fields of a finding")]
fn plain(
    path: &str,
    language: &'static str,
    row: usize,
    column: usize,
    call: String,
    environment: Environment,
    program: Option<String>,
    trust: Trust,
) -> Finding {
    Finding {
        file: path.to_owned(),
        line: row + 1,
        column: column + 1,
        call,
        environment,
        certain: true,
        language,
        program: program.map(|program| shown(&program)),
        trust,
        shell: false,
        built: false,
        secret_in_argv: None,
        secrets_in_file: 0,
        function: None,
        callers: Vec::new(),
        suggestion: advice(Language::Config).to_owned(),
        diff: None,
        fingerprint: String::new(),
        suppressed: None,
        known: false,
        edit: None,
        text: String::new(),
    }
}

fn configuration(
    path: &str,
    format: FormatWord,
    text: &str,
    exports: &dyn Exports,
    facts: &mut Facts,
) -> Result<(), Slow> {
    let is = |other: Format| format == other as u8;
    if is(Format::Notebook) {
        return notebook(path, text, exports, facts);
    }
    let json = || -> Result<Option<tree::Tree>, Slow> {
        let wrapped = format!("({text})");
        let parsed = parse(Reading::JavaScript, &wrapped, None)?;
        Ok(tree::json(&wrapped, parsed.root_node()))
    };
    let configured = if is(Format::Json) {
        json()?.map(|tree| config::settings(&tree))
    } else if is(Format::PackageJson) {
        json()?.map(|tree| config::package_json(&tree))
    } else if is(Format::Toml) {
        tree::toml(text).map(|tree| config::settings(&tree))
    } else if is(Format::Workflow) {
        tree::yaml(text).first().map(config::workflow)
    } else if is(Format::Compose) {
        tree::yaml(text).first().map(config::compose)
    } else if is(Format::Dockerfile) {
        Some(config::dockerfile(text))
    } else if is(Format::Unit) {
        Some(config::unit(text))
    } else {
        Some(config::Configured { sites: Vec::new(), variables: config::variables_of(text) })
    };
    let configured = configured.unwrap_or_default();
    for site in configured.sites {
        let finding = plain(
            path,
            "configuration",
            site.row,
            site.column,
            site.call,
            site.environment,
            site.program,
            site.trust,
        );
        facts.findings.push(Finding {
            shell: site.shell,
            built: site.built,
            secret_in_argv: site.secret_in_argv,
            text: site.text,
            ..finding
        });
    }
    for variable in configured.variables {
        if let Some(kind) = config::secret_kind(&variable) {
            facts.secrets.push(secret(path, variable.row, Some(&variable.name), kind));
        }
    }
    Ok(())
}

/// The cells of a notebook as one Python file. Lines with `!` are commands for a shell.
fn notebook(path: &str, text: &str, exports: &dyn Exports, facts: &mut Facts) -> Result<(), Slow> {
    let wrapped = format!("({text})");
    let parsed = parse(Reading::JavaScript, &wrapped, None)?;
    let Some(whole) = tree::json(&wrapped, parsed.root_node()) else { return Ok(()) };
    let (mut source, mut rows) = (String::new(), Vec::new());
    for cell in whole.get("cells").map(tree::Tree::items).unwrap_or_default() {
        if cell.get("cell_type").and_then(tree::Tree::text) != Some("code") {
            continue;
        }
        let Some(lines) = cell.get("source") else { continue };
        let parts: Vec<(&str, usize)> = match &lines.what {
            tree::What::Text(text) => text.lines().map(|line| (line, lines.row)).collect(),
            _ => lines
                .items()
                .iter()
                .filter_map(|line| Some((line.text()?.trim_end_matches('\n'), line.row)))
                .collect(),
        };
        for (line, row) in parts {
            let trimmed = line.trim_start();
            let command =
                trimmed.strip_prefix('!').or_else(|| trimmed.split_once("= !").map(|(_, command)| command));
            if let Some(command) = command {
                let program = command.split_whitespace().next().map(str::to_owned);
                let built = command.contains('{') || command.contains('$');
                let trust = words::trust(program.as_deref(), built, false);
                let finding =
                    plain(path, "python", row, 0, "!".into(), Environment::Inherits, program, trust);
                facts.findings.push(Finding {
                    shell: true,
                    built,
                    secret_in_argv: words::secret_in_text(command),
                    text: line.to_owned(),
                    ..finding
                });
                source.push('\n');
            } else if trimmed.starts_with('%') {
                source.push('\n');
            } else {
                source.push_str(line);
                source.push('\n');
            }
            rows.push(row);
        }
    }
    let row_of = |row: usize| rows.get(row).copied().unwrap_or(0);
    let mut inner = Facts::default();
    code(path, Reading::Python, &source, exports, usize::MAX, &mut inner, &row_of)?;
    for finding in &mut inner.findings {
        // The text of a cell is not the text of the file.
        finding.edit = None;
    }
    facts.findings.extend(inner.findings);
    Ok(())
}

pub fn secret(path: &str, row: usize, name: Option<&str>, kind: String) -> Secret {
    // A file of variables is imported as a whole; everything else is moved by its name.
    let command = match config::format(path) {
        Some(Format::Variables) => format!("keyward secret import {} --blank", quoted(path)),
        _ => format!("keyward secret set {}", name_in_vault(name.unwrap_or(&kind))),
    };
    Secret { file: path.to_owned(), line: row + 1, name: name.map(str::to_owned), kind, command }
}

/// A name that the vault takes.
fn name_in_vault(usual: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = usual.chars().map(plain).take(64).collect();
    let name = name.trim_matches('-');
    if name.is_empty() { "secret".to_owned() } else { name.to_owned() }
}

/// A path as a shell takes it for one word.
fn quoted(path: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./-".contains(c);
    let path = if path.starts_with('-') { format!("./{path}") } else { path.to_owned() };
    if path.chars().all(is_plain) { path } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

/// Tokens that are known by their shape, and private keys.
fn secrets_by_value(path: &str, text: &str, facts: &mut Facts) {
    for (row, line) in text.lines().enumerate() {
        let found = words::secret_in_line(line);
        if let Some(kind) = found
            && !facts.secrets.iter().any(|known| known.line == row + 1)
        {
            facts.secrets.push(secret(path, row, None, kind));
        }
    }
}

/// A comment that allows a site, with its reason, on the line of the site, in it, or on the line before.
fn suppress(text: &str, findings: &mut [Finding]) {
    const MARK: &str = "keyward: allow-spawn";
    if !text.contains(MARK) {
        return;
    }
    let lines: Vec<&str> = text.lines().collect();
    for finding in findings {
        let first = finding.line.saturating_sub(2);
        let last = (finding.line - 1 + finding.text.lines().count().saturating_sub(1))
            .min(lines.len().saturating_sub(1));
        for (row, line) in lines.iter().enumerate().take(last + 1).skip(first) {
            let Some(at) = line.find(MARK) else { continue };
            let before = line[..at].trim_end();
            let alone = before.trim_start().len() <= 4;
            let is_comment = ["#", "//", "/*", "*", "<!--", ";"].iter().any(|sign| before.ends_with(sign));
            // A comment behind other code belongs to that code.
            if !is_comment || row + 1 < finding.line && !alone {
                continue;
            }
            let reason = line[at + MARK.len()..]
                .trim_start_matches(':')
                .trim()
                .trim_end_matches("*/")
                .trim_end_matches("-->")
                .trim();
            if !reason.is_empty() {
                finding.suppressed = Some(reason.to_owned());
            }
        }
    }
}
