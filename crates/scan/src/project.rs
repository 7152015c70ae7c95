//! The whole project: which files there are, what each says, and what they say about each other. Reads files, and nothing else.

use crate::code::Language;
use crate::file::{Facts, Open, Reading, read};
use crate::finding::{Environment, Finding, NotRead, Place, Secret};
use crate::hints::{HERE, Hints, digest, is_whole};
use crate::judge::{Export, Exports, Given};
use aho_corasick::AhoCorasick;
use ignore::WalkBuilder;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::Read;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Larger files are named and not read: they are generated.
pub const LARGEST: u64 = 2 << 20;
/// A line of this length on average is the work of a minifier.
const MINIFIED: usize = 400;
/// Re-exports are followed through so many files.
const ROUNDS: usize = 4;

pub struct Entry {
    path: PathBuf,
    name: String,
    reading: Reading,
}

#[derive(Default)]
pub struct Scanned {
    pub findings: Vec<Finding>,
    pub secrets: Vec<Secret>,
    pub not_read: Vec<NotRead>,
    pub files: usize,
    pub lines: usize,
}

/// Is told how many files of how many are done.
pub type Progress<'p> = &'p (dyn Fn(usize, usize) + Sync);

pub fn scan(roots: &[PathBuf], progress: Progress<'_>) -> Result<Scanned, (PathBuf, std::io::Error)> {
    let mut not_read = Vec::new();
    let mut entries = list(roots, &mut not_read)?;
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    entries.dedup_by(|a, b| a.name == b.name);
    let mut project = Project::new(entries);
    let not_read = Mutex::new(not_read);
    let all: Vec<usize> = (0..project.entries.len()).collect();
    let done = AtomicUsize::new(0);
    let total = all.len();
    let read_first = each(&all, |index| {
        let facts = project.read(index, true, &not_read);
        progress(done.fetch_add(1, Ordering::Relaxed) + 1, total);
        facts
    });
    for (index, facts) in read_first {
        project.facts[index] = facts;
    }
    // What other files offer changes what a file says, so those that import it are read again.
    let mut changed: BTreeSet<usize> = (0..total).filter(|index| project.offers(*index)).collect();
    for _ in 0..ROUNDS {
        let mut wanted: BTreeSet<usize> = project.importing(&changed).into_iter().collect();
        wanted.extend(project.environments(&wanted));
        if wanted.is_empty() {
            break;
        }
        let wanted: Vec<usize> = wanted.into_iter().collect();
        let again = each(&wanted, |index| project.read(index, false, &not_read));
        changed.clear();
        for (index, facts) in again {
            let Some(facts) = facts else { continue };
            let differs = project.facts[index]
                .as_ref()
                .is_none_or(|before| before.exports != facts.exports || before.stars != facts.stars);
            if differs {
                changed.insert(index);
            }
            project.facts[index] = Some(facts);
        }
    }
    let mut scanned = project.settle();
    scanned.not_read = not_read.into_inner().unwrap_or_default();
    scanned.not_read.sort();
    scanned.not_read.dedup();
    Ok(scanned)
}

/// Every file that can be read as something, and those that cannot be read at all.
fn list(roots: &[PathBuf], not_read: &mut Vec<NotRead>) -> Result<Vec<Entry>, (PathBuf, std::io::Error)> {
    let mut entries = Vec::new();
    for root in roots {
        std::fs::symlink_metadata(root).map_err(|error| (root.clone(), error))?;
        let mut walk = WalkBuilder::new(root);
        // Hidden files count (`.github`, `.envrc`); links are not followed, so that no circle is walked; ignore files count without git too.
        walk.hidden(false).follow_links(false).require_git(false).git_global(false).parents(true);
        walk.filter_entry(|entry| {
            !matches!(
                entry.file_name().to_str(),
                Some(".git" | "node_modules" | ".venv" | "__pycache__" | ".hg" | ".svn")
            ) || entry.depth() == 0
        });
        for found in walk.build() {
            let found = match found {
                Ok(found) => found,
                Err(error) => {
                    not_read.push(NotRead { file: place_of(&error), why: cause(&error) });
                    continue;
                }
            };
            let path = found.path();
            let name = name_of(path);
            let Some(kind) = found.file_type() else { continue };
            if kind.is_dir() || kind.is_symlink() && found.depth() > 0 {
                continue;
            }
            if kind.is_fifo() || kind.is_socket() || kind.is_block_device() || kind.is_char_device() {
                if Reading::of(&name, b"").is_some() {
                    not_read.push(NotRead { file: name, why: "not a regular file".into() });
                }
                continue;
            }
            let reading = match Reading::of(&name, b"") {
                Some(reading) => Some(reading),
                // Only a file without an ending, or one that can be executed, may say by its first line what it is.
                None if path.extension().is_none() || is_executable(&found) => {
                    first_line(path).and_then(|line| Reading::of(&name, &line))
                }
                None => None,
            };
            if let Some(reading) = reading {
                entries.push(Entry { path: path.to_owned(), name, reading });
            }
        }
    }
    Ok(entries)
}

fn is_executable(entry: &ignore::DirEntry) -> bool {
    use std::os::unix::fs::PermissionsExt;
    entry.metadata().is_ok_and(|data| data.permissions().mode() & 0o111 != 0)
}

fn first_line(path: &Path) -> Option<Vec<u8>> {
    let mut line = vec![0; 128];
    let mut file = open(path).ok()?;
    let length = file.read(&mut line).ok()?;
    line.truncate(length);
    Some(line)
}

/// Without waiting for a writer, should the file have become a FIFO meanwhile.
fn open(path: &Path) -> std::io::Result<std::fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    const NONBLOCK: i32 = 0o4000;
    let file = std::fs::OpenOptions::new().read(true).custom_flags(NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("not a regular file"));
    }
    Ok(file)
}

fn name_of(path: &Path) -> String {
    let name = path.to_string_lossy();
    let name = name.strip_prefix("./").unwrap_or(&name);
    name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn place_of(error: &ignore::Error) -> String {
    match error {
        ignore::Error::WithPath { path, .. } => name_of(path),
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => place_of(err),
        ignore::Error::Loop { child, .. } => name_of(child),
        _ => "(a directory)".into(),
    }
}

fn cause(error: &ignore::Error) -> String {
    error.io_error().map_or_else(|| "cannot be listed".to_owned(), |error| error.kind().to_string())
}

/// Runs something for each, on as many threads as there are processors.
fn each<T: Send>(items: &[usize], work: impl Fn(usize) -> T + Sync) -> Vec<(usize, T)> {
    let next = AtomicUsize::new(0);
    let results = Mutex::new(Vec::with_capacity(items.len()));
    let threads = std::thread::available_parallelism().map_or(2, usize::from).min(items.len().max(1)).min(8);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            // Deep trees are walked by recursion, up to a depth that this holds.
            let built = std::thread::Builder::new().stack_size(64 << 20);
            let _ = built.spawn_scoped(scope, || {
                let mut own = Vec::new();
                while let Some(&item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    own.push((item, work(item)));
                }
                if let Ok(mut results) = results.lock() {
                    results.extend(own);
                }
            });
        }
    });
    results.into_inner().unwrap_or_default()
}

/// Where a function is called from, and with what.
type Calls = Vec<(Place, Vec<Given>)>;

struct Project {
    entries: Vec<Entry>,
    facts: Vec<Option<Facts>>,
    by_name: HashMap<String, usize>,
    /// Files by the last part of their module's name.
    by_stem: HashMap<String, Vec<usize>>,
    hints: Hints,
}

/// What a file offers to those that import it.
struct Offer {
    file: usize,
    language: Language,
    /// A digest of the name of its module.
    stem: u64,
    /// It stands for its directory.
    is_directory: bool,
    directory: String,
    names: AhoCorasick,
}

impl Project {
    fn new(entries: Vec<Entry>) -> Self {
        let mut by_name = HashMap::new();
        let mut by_stem: HashMap<String, Vec<usize>> = HashMap::new();
        for (index, entry) in entries.iter().enumerate() {
            by_name.insert(entry.name.clone(), index);
            by_stem.entry(stem(&entry.name).to_owned()).or_default().push(index);
        }
        let facts = entries.iter().map(|_| None).collect();
        Project { entries, facts, by_name, by_stem, hints: Hints::new() }
    }

    fn text(&self, index: usize) -> Result<String, String> {
        let entry = &self.entries[index];
        let says = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::Other => error.to_string(),
            kind => kind.to_string(),
        };
        let mut file = open(&entry.path).map_err(says)?;
        let size = file.metadata().map_err(says)?.len();
        if size > LARGEST {
            return Err(format!("larger than {} MiB", LARGEST >> 20));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0) + 1);
        Read::by_ref(&mut file).take(LARGEST).read_to_end(&mut bytes).map_err(says)?;
        if bytes.iter().take(8_000).any(|byte| *byte == 0) {
            return Err("binary".into());
        }
        let lines = bytes.iter().filter(|byte| **byte == b'\n').count() + 1;
        if entry.reading.language() == Language::JavaScript
            && bytes.len() > 20_000
            && bytes.len() / lines > MINIFIED
        {
            return Err("minified".into());
        }
        // What is not UTF-8 is read as far as it is.
        Ok(String::from_utf8(bytes)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
    }

    /// Reads a file; the first time only if a word in it says that it may matter.
    fn read(&self, index: usize, first: bool, not_read: &Mutex<Vec<NotRead>>) -> Option<Facts> {
        let entry = &self.entries[index];
        let refuse = |why: String| {
            if let (true, Ok(mut not_read)) = (first, not_read.lock()) {
                not_read.push(NotRead { file: entry.name.clone(), why });
            }
        };
        let text = match self.text(index) {
            Ok(text) => text,
            Err(why) => {
                refuse(why);
                return None;
            }
        };
        let hint = self.hints.of(entry.reading.language(), &text);
        if first && !hint.spawns {
            let facts = crate::file::secrets_only(&entry.name, &text);
            return Some(Facts { imports: hint.imports, waits: hint.environment, ..facts });
        }
        let view = View { project: self, file: index };
        match read(&entry.name, entry.reading, &text, &view, index) {
            Ok(facts) => Some(Facts { imports: hint.imports, is_parsed: true, ..facts }),
            Err(_) => {
                refuse("takes too long to parse".into());
                None
            }
        }
    }

    fn offers(&self, index: usize) -> bool {
        self.facts[index].as_ref().is_some_and(|facts| !facts.exports.is_empty() || !facts.stars.is_empty())
    }

    /// The names that a file offers, also those of modules that it takes over as a whole.
    fn offer(&self, index: usize) -> Option<Offer> {
        let facts = self.facts[index].as_ref()?;
        let view = View { project: self, file: index };
        let handed_on =
            facts.stars.iter().filter_map(|module| view.resolve(module)).filter(|next| *next != index);
        let handed_on =
            handed_on.filter_map(|next| self.facts[next].as_ref()).flat_map(|facts| &facts.exports);
        let mut names: Vec<&str> = Vec::new();
        for (name, export) in facts.exports.iter().chain(handed_on) {
            // Modules are seldom handed on: only by a line that names both.
            let is_module = matches!(export, Export::Alias(path) if matches!(path.as_str(), "os" | "os.environ" | "process.env"));
            if !is_module && name.len() >= 2 {
                names.push(name.rsplit('.').next().unwrap_or(name));
            }
        }
        let entry = &self.entries[index];
        let stem = stem(&entry.name);
        if names.is_empty() || stem.is_empty() {
            return None;
        }
        Some(Offer {
            file: index,
            language: entry.reading.language(),
            stem: digest(stem),
            is_directory: is_directory(&entry.name),
            directory: directory(&entry.name).to_owned(),
            names: AhoCorasick::new(names).ok()?,
        })
    }

    /// Files that import something of these, and name it.
    fn importing(&self, changed: &BTreeSet<usize>) -> Vec<usize> {
        let offers: Vec<Offer> = changed.iter().filter_map(|index| self.offer(*index)).collect();
        if offers.is_empty() {
            return Vec::new();
        }
        let here = digest(HERE);
        let all: Vec<usize> = (0..self.entries.len()).collect();
        let found = each(&all, |index| {
            let Some(facts) = &self.facts[index] else { return false };
            let entry = &self.entries[index];
            let imports = |word: u64| facts.imports.binary_search(&word).is_ok();
            let mut near = offers
                .iter()
                .filter(|offer| {
                    let beside = offer.language == Language::Go && offer.directory == directory(&entry.name);
                    offer.file != index
                        && offer.language == entry.reading.language()
                        && (imports(offer.stem) || beside || offer.is_directory && imports(here))
                })
                .peekable();
            if near.peek().is_none() {
                return false;
            }
            let Ok(text) = self.text(index) else { return false };
            let hands_on = text.contains("import *") || text.contains("export *") || text.contains("::*");
            near.any(|offer| {
                hands_on
                    || offer
                        .names
                        .find_overlapping_iter(&text)
                        .any(|hit| is_whole(&text, hit.start(), hit.end()))
            })
        });
        found.into_iter().filter(|(_, wanted)| *wanted).map(|(index, _)| index).collect()
    }

    /// Files that were not parsed, may make an environment, and are imported by those that are, or by files that those import.
    fn environments(&self, wanted: &BTreeSet<usize>) -> Vec<usize> {
        let is_parsed = |index: usize| {
            wanted.contains(&index) || self.facts[index].as_ref().is_some_and(|facts| facts.is_parsed)
        };
        let mut reached: Vec<bool> = (0..self.entries.len()).map(is_parsed).collect();
        let mut last: Vec<usize> = (0..self.entries.len()).filter(|index| reached[*index]).collect();
        for _ in 0..2 {
            let words: HashSet<u64> = last
                .iter()
                .filter_map(|index| self.facts[*index].as_ref())
                .flat_map(|facts| facts.imports.iter().copied())
                .collect();
            last = (0..self.entries.len())
                .filter(|index| !reached[*index] && words.contains(&digest(stem(&self.entries[*index].name))))
                .collect();
            for index in &last {
                reached[*index] = true;
            }
        }
        let waits =
            |index: &usize| self.facts[*index].as_ref().is_some_and(|facts| facts.waits && !facts.is_parsed);
        (0..self.entries.len()).filter(|index| reached[*index]).filter(waits).collect()
    }

    fn settle(self) -> Scanned {
        let Project { entries, mut facts, .. } = self;
        let mut scanned = Scanned::default();
        // Calls of functions of other files.
        let mut foreign: HashMap<(usize, String), Calls> = HashMap::new();
        for (index, found) in facts.iter_mut().enumerate() {
            let Some(found) = found else { continue };
            for call in found.foreign.drain(..) {
                let place = Place { file: entries[index].name.clone(), line: call.row + 1 };
                foreign.entry((call.file, call.name)).or_default().push((place, call.given));
            }
        }
        for (index, found) in facts.into_iter().enumerate() {
            let Some(mut found) = found else { continue };
            scanned.files += 1;
            scanned.lines += found.lines;
            let open: Vec<Open> = std::mem::take(&mut found.open);
            for (at, finding) in found.findings.iter_mut().enumerate() {
                let Some(function) = &finding.function else { continue };
                let Some(calls) = foreign.get(&(index, function.clone())) else { continue };
                finding.callers.extend(calls.iter().map(|(place, _)| place.clone()));
                finding.callers.sort();
                finding.callers.dedup();
                if let Some(open) = open.iter().find(|open| open.finding == at) {
                    let worst = calls
                        .iter()
                        .map(|(_, given)| {
                            given.iter().find(|given| given.param == open.param).map_or(
                                open.otherwise,
                                |given| {
                                    if open.options { given.in_options } else { given.env }
                                },
                            )
                        })
                        .max();
                    if let Some(worst) = worst {
                        let local = finding.callers.iter().any(|caller| caller.file == finding.file);
                        let worst = if open.filtered && worst == Environment::Inherits {
                            Environment::Filtered
                        } else {
                            worst
                        };
                        finding.environment = if local { worst.max(finding.environment) } else { worst };
                    }
                }
            }
            scanned.findings.append(&mut found.findings);
            scanned.secrets.append(&mut found.secrets);
        }
        scanned
    }
}

/// The last part of a module's name.
fn stem(name: &str) -> &str {
    let (directory, file) = name.rsplit_once('/').unwrap_or(("", name));
    let stem = file.split('.').next().unwrap_or(file);
    let of_directory = is_directory(name) || file.ends_with(".go");
    if of_directory { directory.rsplit('/').next().unwrap_or("") } else { stem }
}

/// Whether a file stands for its directory.
fn is_directory(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    matches!(file.split('.').next(), Some("__init__" | "index")) || file == "mod.rs"
}

fn directory(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(directory, _)| directory)
}

/// The project as one file sees it.
struct View<'p> {
    project: &'p Project,
    file: usize,
}

impl View<'_> {
    fn resolve(&self, module: &str) -> Option<usize> {
        let this = &self.project.entries[self.file];
        let directory = directory(&this.name);
        match this.reading.language() {
            Language::Python => self.python(module, directory),
            Language::JavaScript => self.javascript(module, directory),
            Language::Rust => self.rust(module, &this.name),
            _ => None,
        }
    }

    fn known(&self, path: &str) -> Option<usize> {
        self.project
            .by_name
            .get(path.trim_start_matches('/'))
            .or_else(|| self.project.by_name.get(path))
            .copied()
    }

    fn python(&self, module: &str, directory: &str) -> Option<usize> {
        let dots = module.bytes().take_while(|byte| *byte == b'.').count();
        let rest = module[dots..].replace('.', "/");
        if dots > 0 {
            let mut base = directory;
            for _ in 1..dots {
                base = base.rsplit_once('/').map_or("", |(above, _)| above);
            }
            let whole = if rest.is_empty() { base.to_owned() } else { join(base, &rest) };
            return self
                .known(&format!("{whole}.py"))
                .or_else(|| self.known(&format!("{whole}/__init__.py")));
        }
        let last = module.rsplit('.').next()?;
        let candidates = self.project.by_stem.get(last)?;
        candidates.iter().copied().find(|index| {
            let name = &self.project.entries[*index].name;
            let Some(without) = name.strip_suffix("/__init__.py").or_else(|| name.strip_suffix(".py")) else {
                return false;
            };
            let Some(root) = without.strip_suffix(rest.as_str()) else { return false };
            // What lies in a package is not a module of its own name.
            (root.is_empty() || root.ends_with('/')) && self.known(&format!("{root}__init__.py")).is_none()
        })
    }

    fn javascript(&self, module: &str, directory: &str) -> Option<usize> {
        let whole = if module.starts_with('.') {
            let mut parts: Vec<&str> = directory.split('/').filter(|part| !part.is_empty()).collect();
            for part in module.split('/') {
                match part {
                    "." | "" => {}
                    ".." => {
                        parts.pop();
                    }
                    part => parts.push(part),
                }
            }
            let rooted = if directory.starts_with('/') { "/" } else { "" };
            format!("{rooted}{}", parts.join("/"))
        } else {
            // `@/lib/run` and `~/lib/run`, as bundlers have it.
            let rest = module
                .strip_prefix("@/")
                .or_else(|| module.strip_prefix("~/"))
                .or_else(|| module.strip_prefix("src/"))?;
            let bare = rest.rsplit('/').next()?.split('.').next()?;
            let candidates = self.project.by_stem.get(bare)?;
            return candidates.iter().copied().find(|index| {
                let name = &self.project.entries[*index].name;
                name.rsplit_once('.').is_some_and(|(without, _)| {
                    without.ends_with(rest) || without.ends_with(&format!("{rest}/index"))
                })
            });
        };
        let bare = whole
            .strip_suffix(".js")
            .or_else(|| whole.strip_suffix(".mjs"))
            .or_else(|| whole.strip_suffix(".cjs"))
            .unwrap_or(&whole);
        if let Some(known) = self.known(&whole) {
            return Some(known);
        }
        ["ts", "tsx", "js", "jsx", "mjs", "cjs", "mts", "cts"].iter().find_map(|end| {
            self.known(&format!("{bare}.{end}")).or_else(|| self.known(&format!("{bare}/index.{end}")))
        })
    }

    /// `crate.a.b`, `super.a`, `self.a`, or a crate of the same workspace.
    fn rust(&self, module: &str, name: &str) -> Option<usize> {
        let mut parts = module.split('.').peekable();
        let file = name.rsplit('/').next().unwrap_or(name);
        let is_root = matches!(file, "lib.rs" | "main.rs" | "mod.rs");
        // Where the modules below this file lie.
        let own = if is_root { directory(name).to_owned() } else { name.trim_end_matches(".rs").to_owned() };
        let first = parts.next()?;
        let mut base = match first {
            "self" => own,
            "crate" => self.crate_of(name)?,
            "super" => {
                let mut base = directory(&own).to_owned();
                while parts.next_if_eq(&"super").is_some() {
                    base = directory(&base).to_owned();
                }
                base
            }
            other => self.member(other)?,
        };
        for part in parts {
            base = join(&base, part);
        }
        [".rs", "/mod.rs", "/lib.rs", "/main.rs"].iter().find_map(|end| {
            let path =
                if base.is_empty() { end.trim_start_matches('/').to_owned() } else { format!("{base}{end}") };
            self.known(&path)
        })
    }

    /// The directory of the crate's root.
    fn crate_of(&self, name: &str) -> Option<String> {
        let mut at = directory(name);
        loop {
            if ["lib.rs", "main.rs"].iter().any(|root| self.known(&join(at, root)).is_some()) {
                return Some(at.to_owned());
            }
            if at.is_empty() {
                return None;
            }
            at = directory(at);
        }
    }

    /// The sources of a crate of this workspace: `crates/sys/src` for `keyward_sys` and for `sys`.
    fn member(&self, name: &str) -> Option<String> {
        let roots = self.project.by_stem.get("lib")?;
        roots.iter().find_map(|index| {
            let sources = directory(&self.project.entries[*index].name);
            let package = directory(sources).rsplit('/').next()?.replace('-', "_");
            let fits = !package.is_empty()
                && (name == package || name.strip_suffix(&package).is_some_and(|rest| rest.ends_with('_')));
            (sources.ends_with("src") && fits).then(|| sources.to_owned())
        })
    }

    /// Go: a package is a directory, and its files see each other.
    fn package(&self, module: &str, name: &str) -> Option<Export> {
        let this = directory(&self.project.entries[self.file].name);
        let last = if module.is_empty() { this.rsplit('/').next()? } else { module.rsplit('.').next()? };
        let above = |path: &str| path.rsplit(['/', '.']).nth(1).map(str::to_owned);
        let listed = self.project.by_stem.get(last)?;
        let places: HashSet<&str> =
            listed.iter().map(|index| directory(&self.project.entries[*index].name)).collect();
        listed.iter().find_map(|index| {
            let entry = &self.project.entries[*index];
            let place = directory(&entry.name);
            let fits = match module {
                "" => place == this,
                _ => place != this && (places.len() == 1 || above(place) == above(module)),
            };
            let is_other = *index != self.file && entry.reading.language() == Language::Go;
            (fits && is_other).then(|| self.offered(*index, name, 0))?
        })
    }

    fn offered(&self, index: usize, name: &str, depth: usize) -> Option<Export> {
        let facts = self.project.facts.get(index)?.as_ref()?;
        if let Some(export) = facts.exports.get(name) {
            return Some(export.clone());
        }
        if depth > 4 {
            return None;
        }
        let view = View { project: self.project, file: index };
        facts.stars.iter().find_map(|module| {
            view.resolve(module)
                .filter(|next| *next != index)
                .and_then(|next| view.offered(next, name, depth + 1))
        })
    }
}

fn join(base: &str, rest: &str) -> String {
    if base.is_empty() { rest.to_owned() } else { format!("{base}/{rest}") }
}

impl Exports for View<'_> {
    fn export(&self, module: &str, name: &str) -> Option<Export> {
        match self.project.entries[self.file].reading.language() {
            Language::Go => self.package(module, name),
            Language::Rust => {
                if let Some(index) = self.resolve(module) {
                    return (index != self.file).then(|| self.offered(index, name, 0))?;
                }
                // `Type::function`.
                let (of, class) = module.rsplit_once('.')?;
                let index = self.resolve(of).filter(|index| *index != self.file)?;
                self.offered(index, &format!("{class}.{name}"), 0)
            }
            _ => {
                let index = self.resolve(module).filter(|index| *index != self.file)?;
                self.offered(index, name, 0)
            }
        }
    }

    fn is_module(&self, module: &str) -> bool {
        self.resolve(module).is_some()
    }

    fn is_package(&self, library: &str) -> bool {
        self.resolve(library).is_some_and(|index| is_directory(&self.project.entries[index].name))
    }
}
