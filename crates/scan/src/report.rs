//! What is told: the table for people, JSON and SARIF for programs, and the threshold. Pure.

use crate::finding::{Environment, Finding, NotRead, Secret, Trust};
use crate::project::Scanned;
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};

#[derive(Serialize)]
pub struct Report {
    pub v: u32,
    pub findings: Vec<Finding>,
    pub summary: Summary,
}

#[derive(Serialize)]
pub struct Summary {
    pub sites: usize,
    pub inherits: usize,
    pub filtered: usize,
    pub explicit: usize,
    /// Sites whose environment cannot be followed.
    pub unknown: usize,
    pub keyward: usize,
    pub shell_built: usize,
    pub secrets_in_argv: usize,
    pub suppressed: usize,
    /// Sites that the baseline has.
    pub known: usize,
    /// Sites above the threshold: not suppressed, and not in the baseline.
    pub denied: usize,
    pub fixable: usize,
    pub files: usize,
    pub lines: usize,
    pub secrets: Vec<Secret>,
    pub not_read: Vec<NotRead>,
}

/// What is known, by fingerprint: the environment that each site had.
pub type Baseline = HashMap<String, Environment>;

/// From which environment on a site is denied.
pub type Deny = Option<Environment>;

pub fn report(scanned: Scanned, baseline: &Baseline, deny: Deny) -> Report {
    let Scanned { mut findings, mut secrets, not_read, files, lines } = scanned;
    fingerprints(&mut findings);
    for finding in &mut findings {
        // The environment can be made elsewhere: a site that has become worse since is not known.
        finding.known =
            baseline.get(&finding.fingerprint).is_some_and(|before| finding.environment <= *before);
    }
    secrets.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    // The worst first.
    findings.sort_by(|a, b| {
        rank(b).cmp(&rank(a)).then_with(|| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)))
    });
    let open = || findings.iter().filter(|finding| finding.suppressed.is_none());
    let of = |environment: Environment| open().filter(|finding| finding.environment == environment).count();
    let summary = Summary {
        sites: findings.len(),
        inherits: of(Environment::Inherits),
        filtered: of(Environment::Filtered),
        explicit: of(Environment::Explicit),
        unknown: of(Environment::Unknown),
        keyward: of(Environment::Keyward),
        shell_built: open().filter(|finding| finding.built).count(),
        secrets_in_argv: open().filter(|finding| finding.secret_in_argv.is_some()).count(),
        suppressed: findings.len() - open().count(),
        known: open().filter(|finding| finding.known).count(),
        denied: open()
            .filter(|finding| !finding.known && deny.is_some_and(|deny| is_denied(finding, deny)))
            .count(),
        fixable: open().filter(|finding| finding.edit.is_some()).count(),
        files,
        lines,
        secrets,
        not_read,
    };
    Report { v: 1, findings, summary }
}

/// What cannot be followed may inherit, so every threshold denies it. So does one for `filtered` that was told from a name alone.
fn is_denied(finding: &Finding, deny: Environment) -> bool {
    let guessed = finding.environment == Environment::Filtered && !finding.certain;
    finding.environment >= deny || finding.environment == Environment::Unknown || guessed
}

fn rank(finding: &Finding) -> (bool, Environment, bool, bool, bool) {
    let loose = finding.trust == Trust::Unknown;
    (
        finding.suppressed.is_none(),
        finding.environment,
        finding.secret_in_argv.is_some(),
        finding.built,
        loose,
    )
}

/// A digest of the file, the function, the call and its text without spaces, and of the number among equal ones.
fn fingerprints(findings: &mut [Finding]) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for finding in findings {
        let text: String = finding.text.split_whitespace().collect();
        let mut digest = Sha256::new();
        for part in [&finding.file, &finding.call, finding.function.as_deref().unwrap_or(""), &text] {
            digest.update(part.as_bytes());
            digest.update([0]);
        }
        let whole: String = digest.finalize().iter().take(12).map(|byte| format!("{byte:02x}")).collect();
        let count = seen.entry(whole.clone()).or_default();
        finding.fingerprint = format!("{whole}-{count}");
        *count += 1;
    }
}

/// The sites in a baseline: one that this command wrote, or a report of `--json`.
pub fn baseline(text: &str) -> Option<Baseline> {
    let value: Value = serde_json::from_str(text).ok()?;
    let environment = |value: Option<&Value>| value.and_then(Value::as_str).and_then(Environment::named);
    if let Some(sites) = value.get("sites").and_then(Value::as_object) {
        return sites.iter().map(|(site, word)| Some((site.clone(), environment(Some(word))?))).collect();
    }
    // Before environments were kept, a baseline was a list.
    if let Some(listed) = value.get("fingerprints").and_then(Value::as_array) {
        let listed = listed.iter().filter_map(Value::as_str);
        return Some(listed.map(|site| (site.to_owned(), Environment::Inherits)).collect());
    }
    let findings = value.get("findings")?.as_array()?;
    findings
        .iter()
        .map(|finding| {
            Some((finding.get("fingerprint")?.as_str()?.to_owned(), environment(finding.get("environment"))?))
        })
        .collect()
}

/// A baseline of these findings.
pub fn new_baseline(report: &Report) -> String {
    let sites: BTreeMap<&str, &str> = report
        .findings
        .iter()
        .filter(|finding| finding.suppressed.is_none())
        .map(|finding| (finding.fingerprint.as_str(), finding.environment.word()))
        .collect();
    let value = json!({ "v": 1, "sites": sites });
    serde_json::to_string_pretty(&value).unwrap_or_default() + "\n"
}

/// At most this many sites are shown one by one, and so many diffs.
const ROWS: usize = 200;
const DIFFS: usize = 3;

pub fn table(report: &Report, all: bool) -> String {
    let Summary {
        sites,
        inherits,
        filtered,
        explicit,
        unknown,
        keyward,
        shell_built,
        secrets_in_argv,
        suppressed,
        known,
        denied,
        fixable,
        files,
        lines,
        secrets,
        not_read,
    } = &report.summary;
    let mut out = vec![format!(
        "{} in {} ({}): {inherits} inherit, {unknown} unknown, {filtered} filtered, {explicit} explicit, {keyward} by keyward",
        noun(*sites, "spawn site"),
        noun(*files, "file"),
        noun(*lines, "line")
    )];
    let mut notes = Vec::new();
    for (count, what) in [
        (shell_built, "put a shell command together"),
        (secrets_in_argv, "have a secret among their arguments"),
        (suppressed, "are allowed by a comment"),
        (known, "are in the baseline"),
        (fixable, "can be fixed with --fix"),
        (denied, "are above the threshold"),
    ] {
        if *count > 0 {
            notes.push(format!("{count} {what}"));
        }
    }
    if !notes.is_empty() {
        out.push(notes.join("; "));
    }
    let shown: Vec<&Finding> =
        report.findings.iter().filter(|finding| finding.suppressed.is_none()).collect();
    if !shown.is_empty() {
        out.push(String::new());
        out.push(format!("{:<9} {:<9} {:<44} call", "env", "trust", "place"));
    }
    let limit = if all { usize::MAX } else { ROWS };
    for finding in shown.iter().take(limit) {
        out.push(row(finding));
    }
    if shown.len() > limit {
        out.push(format!("… and {} more; --json and --table show all", shown.len() - limit));
    }
    let allowed: Vec<&Finding> =
        report.findings.iter().filter(|finding| finding.suppressed.is_some()).collect();
    if !allowed.is_empty() {
        out.push(String::new());
        out.push("allowed by a comment".into());
        for finding in allowed {
            let reason = finding.suppressed.as_deref().unwrap_or_default();
            out.push(format!("  {}:{} {}: {reason}", finding.file, finding.line, finding.call));
        }
    }
    if !secrets.is_empty() {
        out.push(String::new());
        out.push("secrets in files".into());
        for secret in secrets {
            let name = secret.name.as_deref().map(|name| format!(" {name}")).unwrap_or_default();
            out.push(format!(
                "  {}:{}{name} ({}): `{}`",
                secret.file, secret.line, secret.kind, secret.command
            ));
        }
    }
    if !not_read.is_empty() {
        out.push(String::new());
        out.push("not read".into());
        for file in not_read {
            out.push(format!("  {}: {}", file.file, file.why));
        }
    }
    let diffs: Vec<&str> = shown.iter().filter_map(|finding| finding.diff.as_deref()).take(DIFFS).collect();
    if !diffs.is_empty() {
        out.push(String::new());
        out.push("suggested change, worst first (`--fix --diff` shows all)".into());
        for diff in diffs {
            out.push(diff.trim_end().to_owned());
        }
    } else if let Some(first) = shown.iter().find(|finding| finding.environment == Environment::Inherits) {
        out.push(String::new());
        out.push(format!("suggested change: {}", first.suggestion));
    }
    out.join("\n")
}

fn noun(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn row(finding: &Finding) -> String {
    let place = format!("{}:{}:{}", finding.file, finding.line, finding.column);
    let mut notes = Vec::new();
    if finding.built {
        notes.push("built shell command".to_owned());
    }
    if let Some(secret) = &finding.secret_in_argv {
        notes.push(format!("secret in argv: {secret}"));
    }
    if !finding.certain {
        notes.push("not followed to its end".to_owned());
    }
    match (&finding.function, finding.callers.len()) {
        (Some(function), 1) => notes.push(format!("{function} has 1 caller")),
        (Some(function), count @ 2..) => notes.push(format!("{function} has {count} callers")),
        _ => {}
    }
    if finding.known {
        notes.push("known".to_owned());
    }
    let program = finding.program.as_deref().map(|program| format!(" {program}")).unwrap_or_default();
    let notes = if notes.is_empty() { String::new() } else { format!("  ({})", notes.join(", ")) };
    let trust = serde_json::to_value(finding.trust)
        .ok()
        .and_then(|trust| trust.as_str().map(str::to_owned))
        .unwrap_or_default();
    format!("{:<9} {trust:<9} {place:<44} {}{program}{notes}", finding.environment.word(), finding.call)
}

/// SARIF 2.1.0: one rule for each environment, and one for secrets.
pub fn sarif(report: &Report, version: &str) -> Value {
    const RULES: &[(&str, &str, &str, &str)] = &[
        (
            "spawn-inherits",
            "The child inherits every variable of its parent",
            "error",
            "Pass an environment that is built up, or start the child with Keyward.",
        ),
        (
            "spawn-filtered",
            "The child gets its parent's variables without some",
            "warning",
            "A list of what is left out misses the next credential. Build the environment up instead.",
        ),
        (
            "spawn-unknown",
            "The child's environment cannot be followed to where it is made",
            "warning",
            "Build the environment up where the child is started, or allow the site with a comment that has a reason.",
        ),
        ("spawn-explicit", "The child gets an environment that is built up", "note", "Nothing to do."),
        ("spawn-keyward", "The child is started with Keyward", "none", "Nothing to do."),
        ("secret-in-file", "A secret stands in a file", "error", "Move it into the vault, and rotate it."),
    ];
    let rules: Vec<Value> = RULES
        .iter()
        .map(|(id, short, level, help)| {
            json!({ "id": id, "shortDescription": { "text": short }, "help": { "text": help }, "defaultConfiguration": { "level": level } })
        })
        .collect();
    let escaped = |file: &str| {
        file.replace('\\', "/")
            .replace('%', "%25")
            .replace(' ', "%20")
            .replace('#', "%23")
            .replace('?', "%3F")
            .replace('[', "%5B")
            .replace(']', "%5D")
    };
    let uri = |file: &str| {
        let escaped = escaped(file);
        if escaped.starts_with('/') { format!("file://{escaped}") } else { escaped }
    };
    let place = |file: &str, region: Value| json!([{ "physicalLocation": { "artifactLocation": { "uri": uri(file) }, "region": region } }]);
    let mut results: Vec<Value> = Vec::new();
    for finding in &report.findings {
        let index = match finding.environment {
            Environment::Inherits => 0,
            Environment::Filtered => 1,
            Environment::Unknown => 2,
            Environment::Explicit => 3,
            Environment::Keyward => 4,
        };
        let mut text =
            format!("{} starts a process: environment {}", finding.call, finding.environment.word());
        if let Some(secret) = &finding.secret_in_argv {
            text.push_str(&format!("; a secret is among its arguments ({secret})"));
        }
        if finding.built {
            text.push_str("; the shell command is put together from other values");
        }
        text.push_str(&format!(". {}", finding.suggestion));
        let region = json!({ "startLine": finding.line, "startColumn": finding.column });
        let mut result = json!({
            "ruleId": RULES[index].0,
            "ruleIndex": index,
            "level": RULES[index].2,
            "message": { "text": text },
            "locations": place(&finding.file, region),
            "partialFingerprints": { "keywardSpawn/v1": finding.fingerprint },
        });
        if finding.environment == Environment::Keyward || finding.environment == Environment::Explicit {
            result["kind"] = json!(if index == 4 { "pass" } else { "fail" });
        }
        if let Some(reason) = &finding.suppressed {
            result["suppressions"] = json!([{ "kind": "inSource", "justification": reason }]);
        }
        result["baselineState"] = json!(if finding.known { "unchanged" } else { "new" });
        results.push(result);
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for secret in &report.summary.secrets {
        let key = format!("{}:{}:{}", secret.file, secret.kind, secret.name.as_deref().unwrap_or(""));
        let count = counts.entry(key.clone()).or_default();
        let digest: String = Sha256::digest(format!("{key}:{count}").as_bytes())
            .iter()
            .take(12)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        *count += 1;
        results.push(json!({
            "ruleId": RULES[5].0,
            "ruleIndex": 5,
            "level": "error",
            "message": { "text": format!("A secret stands here ({}). Run `{}`, and rotate it.", secret.kind, secret.command) },
            "locations": place(&secret.file, json!({ "startLine": secret.line })),
            "partialFingerprints": { "keywardSecret/v1": digest },
        }));
    }
    let notes: Vec<Value> = report
        .summary
        .not_read
        .iter()
        .map(|file| json!({ "level": "warning", "message": { "text": format!("not read: {}", file.why) }, "locations": [{ "physicalLocation": { "artifactLocation": { "uri": uri(&file.file) } } }] }))
        .collect();
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": { "name": "keyward", "version": version, "rules": rules } },
            "columnKind": "utf16CodeUnits",
            "invocations": [{ "executionSuccessful": true, "toolExecutionNotifications": notes }],
            "results": results,
        }],
    })
}
