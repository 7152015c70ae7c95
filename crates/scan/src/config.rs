//! Configuration that starts processes: MCP servers, settings of agents, workflows, containers, units, scripts of packages. Pure.

use crate::finding::{Environment, Trust};
use crate::tree::{Tree, What};
use crate::words;

/// What a file of configuration is, by its name and place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Json,
    PackageJson,
    Toml,
    Workflow,
    Compose,
    Dockerfile,
    Unit,
    Variables,
    Notebook,
}

#[derive(Debug)]
pub struct ConfigSite {
    pub row: usize,
    pub column: usize,
    pub call: String,
    pub environment: Environment,
    pub program: Option<String>,
    pub trust: Trust,
    pub shell: bool,
    pub built: bool,
    pub secret_in_argv: Option<String>,
    pub text: String,
}

/// A name with a literal value, which may be a secret.
#[derive(Debug)]
pub struct Variable {
    pub name: String,
    pub value: String,
    pub row: usize,
}

#[derive(Default, Debug)]
pub struct Configured {
    pub sites: Vec<ConfigSite>,
    pub variables: Vec<Variable>,
}

pub fn format(path: &str) -> Option<Format> {
    let name = words::base(path);
    let lower = name.to_ascii_lowercase();
    let below = |directory: &str| path.starts_with(&directory[1..]) || path.contains(directory);
    Some(match lower.as_str() {
        "package.json" => Format::PackageJson,
        _ if lower.ends_with(".ipynb") => Format::Notebook,
        _ if lower == "dockerfile"
            || lower == "containerfile"
            || lower.starts_with("dockerfile.")
            || lower.ends_with(".dockerfile") =>
        {
            Format::Dockerfile
        }
        _ if (lower.ends_with(".yml") || lower.ends_with(".yaml"))
            && (below("/.github/workflows/")
                || below("/.forgejo/workflows/")
                || below("/.gitea/workflows/")
                || matches!(lower.as_str(), "action.yml" | "action.yaml")) =>
        {
            Format::Workflow
        }
        _ if (lower.ends_with(".yml") || lower.ends_with(".yaml")) && (lower.contains("compose")) => {
            Format::Compose
        }
        _ if [".service", ".socket", ".timer"].iter().any(|end| lower.ends_with(end)) => Format::Unit,
        _ if lower == ".env"
            || lower.starts_with(".env.")
                && !["example", "sample", "template", "dist"].iter().any(|word| lower.contains(word)) =>
        {
            Format::Variables
        }
        _ if lower.ends_with(".toml") && (below("/.codex/") || lower == "codex.toml") => Format::Toml,
        _ if (lower.ends_with(".json") || lower.ends_with(".jsonc"))
            && (lower.contains("mcp")
                || below("/.claude/")
                || below("/.codex/")
                || below("/.cursor/")
                || below("/.vscode/")
                || below("/.gemini/")
                || lower.contains("claude")
                || lower == "opencode.json") =>
        {
            Format::Json
        }
        _ => return None,
    })
}

/// MCP servers, hooks and helpers in settings of agents; also Codex's TOML.
pub fn settings(tree: &Tree) -> Configured {
    let mut found = Configured::default();
    for key in ["mcpServers", "mcp_servers", "servers", "context_servers"] {
        servers(tree.get(key), key, &mut found);
        servers(tree.get("mcp").and_then(|mcp| mcp.get(key)), key, &mut found);
    }
    for (_, project) in tree.get("projects").map(Tree::entries).unwrap_or_default() {
        servers(project.get("mcpServers"), "mcpServers", &mut found);
    }
    for (event, matchers) in tree.get("hooks").map(Tree::entries).unwrap_or_default() {
        for matcher in matchers.items() {
            for hook in matcher.get("hooks").map(Tree::items).unwrap_or_default() {
                if let Some(command) = hook.get("command") {
                    found.sites.push(line(command, format!("hooks.{event}"), Environment::Inherits));
                }
            }
        }
    }
    for key in
        ["apiKeyHelper", "awsAuthRefresh", "awsCredentialExport", "otelHeadersHelper", "gcpAuthRefresh"]
    {
        if let Some(command) = tree.get(key).filter(|command| command.text().is_some()) {
            found.sites.push(line(command, key.into(), Environment::Inherits));
        }
    }
    if let Some(command) = tree.get("statusLine").and_then(|line| line.get("command")) {
        found.sites.push(line(command, "statusLine".into(), Environment::Inherits));
    }
    if let Some(notify) = tree.get("notify").filter(|notify| !notify.words().is_empty()) {
        found.sites.push(argv(notify, &notify.words(), "notify".into(), Environment::Inherits, Trust::Tool));
    }
    // What the shell of Codex gets.
    if let Some(policy) = tree.get("shell_environment_policy") {
        let inherit = policy.get("inherit").and_then(Tree::text).unwrap_or("all");
        let excludes = policy.get("exclude").is_some() || policy.get("include_only").is_some();
        let environment = match inherit {
            "none" => Environment::Explicit,
            "core" => Environment::Filtered,
            _ if excludes => Environment::Filtered,
            _ => Environment::Inherits,
        };
        found.sites.push(ConfigSite {
            program: None,
            ..argv(policy, &[], "shell_environment_policy".into(), environment, Trust::Unknown)
        });
    }
    variables(tree.get("env"), &mut found);
    found
}

fn servers(servers: Option<&Tree>, key: &str, found: &mut Configured) {
    for (name, server) in servers.map(Tree::entries).unwrap_or_default() {
        let command = server.get("command");
        if let Some(command) = command.filter(|command| !command.words().is_empty()) {
            let mut words = command.words();
            let args = server.get("args").map(Tree::words).unwrap_or_default();
            words.extend(args);
            found.sites.push(argv(
                command,
                &words,
                format!("{key}.{name}"),
                Environment::Inherits,
                Trust::Tool,
            ));
        }
        variables(server.get("env"), found);
        variables(server.get("headers"), found);
    }
}

fn variables(map: Option<&Tree>, found: &mut Configured) {
    let Some(map) = map else { return };
    for (name, value) in map.entries() {
        if let Some(text) = value.text() {
            found.variables.push(Variable { name: name.clone(), value: text.to_owned(), row: value.row });
        }
    }
    for item in map.items() {
        if let Some((name, value)) = item.text().and_then(|text| text.split_once('=')) {
            found.variables.push(Variable { name: name.to_owned(), value: value.to_owned(), row: item.row });
        }
    }
}

pub fn package_json(tree: &Tree) -> Configured {
    let mut found = Configured::default();
    for (name, script) in tree.get("scripts").map(Tree::entries).unwrap_or_default() {
        if script.text().is_some_and(|text| !text.is_empty()) {
            found.sites.push(line(script, format!("scripts.{name}"), Environment::Inherits));
        }
    }
    found
}

/// A workflow of GitHub, or an action made of steps.
pub fn workflow(tree: &Tree) -> Configured {
    let mut found = Configured::default();
    let outer = has_secrets(tree.get("env"));
    variables(tree.get("env"), &mut found);
    let jobs = tree
        .get("jobs")
        .map(Tree::entries)
        .unwrap_or_default()
        .iter()
        .map(|(name, job)| (name.as_str(), job));
    let runs = tree.get("runs").map(|runs| ("runs", runs));
    for (name, job) in jobs.chain(runs) {
        let in_job = outer || has_secrets(job.get("env"));
        variables(job.get("env"), &mut found);
        for step in job.get("steps").map(Tree::items).unwrap_or_default() {
            variables(step.get("env"), &mut found);
            variables(step.get("with"), &mut found);
            if let Some(run) = step.get("run") {
                let text = run.text().unwrap_or_default();
                let inserted = text.split("${{").skip(1).any(|rest| {
                    let expression = rest.split("}}").next().unwrap_or("");
                    ["github.event", "github.head_ref", "inputs.", "github.ref_name"]
                        .iter()
                        .any(|from| expression.contains(from))
                });
                let secret = text.split("${{").skip(1).find_map(|rest| {
                    let expression = rest.split("}}").next().unwrap_or("").trim();
                    expression.strip_prefix("secrets.").map(|name| name.trim().to_owned())
                });
                let mut site = line(run, format!("jobs.{name}.run"), Environment::Inherits);
                site.built = inserted;
                site.shell = true;
                site.secret_in_argv = secret.or(site.secret_in_argv);
                if inserted {
                    site.trust = Trust::Unknown;
                }
                found.sites.push(site);
            } else if let Some(uses) = step.get("uses") {
                let action = uses.text().unwrap_or_default();
                // An action of others runs with what the job has in its environment.
                if !action.starts_with("./") && (in_job || has_secrets(step.get("env"))) {
                    let environment = if in_job { Environment::Inherits } else { Environment::Explicit };
                    found.sites.push(argv(
                        uses,
                        &[action],
                        format!("jobs.{name}.uses"),
                        environment,
                        Trust::Tool,
                    ));
                }
            }
        }
    }
    found
}

fn has_secrets(env: Option<&Tree>) -> bool {
    env.is_some_and(|env| {
        env.entries().iter().any(|(_, value)| value.text().is_some_and(|text| text.contains("secrets.")))
    })
}

pub fn compose(tree: &Tree) -> Configured {
    let mut found = Configured::default();
    for (name, service) in tree.get("services").map(Tree::entries).unwrap_or_default() {
        if !matches!(service.what, What::Map(_)) {
            continue;
        }
        variables(service.get("environment"), &mut found);
        variables(service.get("build").and_then(|build| build.get("args")), &mut found);
        let command = service.get("command").or_else(|| service.get("entrypoint"));
        let image = service.get("image");
        let place = command.or(image).or_else(|| service.get("build")).unwrap_or(service);
        let words = command.map(Tree::words).unwrap_or_default();
        let mut site = argv(place, &words, format!("services.{name}"), Environment::Explicit, Trust::Tool);
        if words.is_empty() {
            site.program = image.and_then(Tree::text).map(str::to_owned);
        }
        found.sites.push(site);
    }
    found
}

fn line(tree: &Tree, call: String, environment: Environment) -> ConfigSite {
    let text = tree.text().unwrap_or_default();
    let mut site = argv(tree, &[text], call, environment, Trust::Tool);
    site.shell = true;
    site
}

fn argv(tree: &Tree, words: &[&str], call: String, environment: Environment, otherwise: Trust) -> ConfigSite {
    let whole = words.join(" ");
    let program = whole.split_whitespace().find(|word| !word.contains('=')).map(str::to_owned);
    let keyward = program.as_deref().is_some_and(|program| words::base(program) == "keyward");
    let trust = match words::trust(program.as_deref(), false, false) {
        Trust::Executor => Trust::Executor,
        _ => otherwise,
    };
    let secret_in_argv = words.iter().find_map(|word| words::secret_in_text(word));
    ConfigSite {
        row: tree.row,
        column: tree.column,
        call,
        environment: if keyward { Environment::Keyward } else { environment },
        program,
        trust,
        shell: false,
        built: false,
        secret_in_argv,
        text: whole,
    }
}

pub fn dockerfile(source: &str) -> Configured {
    let mut found = Configured::default();
    let mut lines = source.lines().enumerate().peekable();
    while let Some((row, first)) = lines.next() {
        let column = first.len() - first.trim_start().len();
        let mut whole = first.trim().to_owned();
        if whole.starts_with('#') {
            continue;
        }
        while whole.ends_with('\\') {
            whole.pop();
            match lines.next() {
                Some((_, next)) if next.trim_start().starts_with('#') => whole.push('\\'),
                Some((_, next)) => {
                    whole.push(' ');
                    whole.push_str(next.trim());
                }
                None => break,
            }
        }
        let Some((word, rest)) = whole.split_once(char::is_whitespace) else { continue };
        let rest = rest.trim();
        let word = word.to_ascii_uppercase();
        match word.as_str() {
            "RUN" | "CMD" | "ENTRYPOINT" | "HEALTHCHECK" if rest != "NONE" => {
                // A here-document is the rest of the instruction.
                if let Some(tag) = rest.split("<<").nth(1).map(|tag| {
                    tag.trim_start_matches('-')
                        .split_whitespace()
                        .next()
                        .unwrap_or("")
                        .trim_matches(['"', '\''])
                }) {
                    while let Some((_, next)) = lines.peek() {
                        let ends = !tag.is_empty() && next.trim() == tag;
                        lines.next();
                        if ends {
                            break;
                        }
                    }
                }
                let command = rest
                    .split_whitespace()
                    .skip_while(|word| word.starts_with("--") || *word == "CMD")
                    .collect::<Vec<_>>()
                    .join(" ");
                let listed: Option<Vec<String>> = serde_json::from_str(&command).ok();
                let shell = listed.is_none();
                let command = listed.map_or(command, |words| words.join(" "));
                let tree = Tree { what: What::Text(command.clone()), row, column };
                let mut site = line(&tree, word, Environment::Explicit);
                site.shell = shell;
                found.sites.push(site);
            }
            "ENV" | "ARG" => {
                for (name, value) in assignments(rest) {
                    found.variables.push(Variable { name, value, row });
                }
            }
            _ => {}
        }
    }
    found
}

/// `A=b C="d e"`, or the older `A b`.
fn assignments(text: &str) -> Vec<(String, String)> {
    if !text.contains('=') {
        return text
            .split_once(char::is_whitespace)
            .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
            .into_iter()
            .collect();
    }
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some((name, more)) = rest.split_once('=') {
        let (value, after) = match more.chars().next() {
            Some(quote @ ('"' | '\'')) => more[1..].split_once(quote).unwrap_or((&more[1..], "")),
            _ => more.split_once(char::is_whitespace).unwrap_or((more, "")),
        };
        found.push((name.trim().to_owned(), value.to_owned()));
        rest = after.trim_start();
    }
    found
}

pub fn unit(source: &str) -> Configured {
    let mut found = Configured::default();
    let mut passes = false;
    let mut lines = source.lines().enumerate();
    while let Some((row, first)) = lines.next() {
        let mut whole = first.trim().to_owned();
        if whole.starts_with(['#', ';']) {
            continue;
        }
        while whole.ends_with('\\') {
            whole.pop();
            let Some((_, next)) = lines.next() else { break };
            whole.push_str(next.trim());
        }
        let Some((key, value)) = whole.split_once('=') else { continue };
        let (key, value) = (key.trim(), value.trim());
        if key.starts_with("Exec") && !value.is_empty() {
            let command = value.trim_start_matches(['-', '@', '+', '!', ':']);
            let tree = Tree { what: What::Text(command.to_owned()), row, column: 0 };
            let mut site = line(&tree, key.to_owned(), Environment::Explicit);
            site.shell = site.program.as_deref().is_some_and(words::is_shell);
            found.sites.push(site);
        } else if key == "PassEnvironment" && !value.is_empty() {
            passes = true;
        } else if key == "Environment" {
            let whole = value.trim_matches('"');
            for (name, value) in assignments(whole) {
                found.variables.push(Variable { name: name.trim_matches('"').to_owned(), value, row });
            }
        }
    }
    if passes {
        for site in found.sites.iter_mut().filter(|site| site.environment == Environment::Explicit) {
            site.environment = Environment::Filtered;
        }
    }
    found
}

/// `NAME=value` lines.
pub fn variables_of(source: &str) -> Vec<Variable> {
    source
        .lines()
        .enumerate()
        .filter_map(|(row, line)| {
            let line = line.trim().trim_start_matches("export ");
            if line.starts_with('#') {
                return None;
            }
            let (name, value) = line.split_once('=')?;
            let name = name.trim();
            let is_name =
                !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            is_name.then(|| Variable {
                name: name.to_owned(),
                value: value.trim().trim_matches(['"', '\'']).to_owned(),
                row,
            })
        })
        .collect()
}

/// A variable that holds a secret: its kind.
pub fn secret_kind(variable: &Variable) -> Option<String> {
    if words::is_placeholder(&variable.value) {
        return None;
    }
    if let Some(kind) = words::secret_in_text(&variable.value) {
        return Some(kind);
    }
    (words::is_credential_variable(&variable.name)
        && variable.value.len() >= 6
        && !variable.value.contains(' ')
        && !variable.value.starts_with(['/', '.', '~']))
    .then(|| "credential by its name".to_owned())
}
