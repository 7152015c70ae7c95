//! The three tools: how they are described to a model, how their arguments become words of the launcher, and how its answer becomes theirs.

use super::call::{Answered, Caller, Ended, NotEnded, Running, without_outcome};
use super::messages::Failure;
use super::output::Output;
use serde_json::{Map, Value, json};
use std::ffi::OsString;
use std::time::Duration;

pub const INSTRUCTIONS: &str = "Commands run in a cage: credentials, other programs and most files outside the project are not there. A denial names its rule and a remedy; approvals are given by a person, outside of these tools.";

/// A call that names no time has this much, and none has more than the second.
const SECONDS: u64 = 600;
const MOST_SECONDS: u64 = 86_400;
/// The time of the tools that only look.
const LOOKING: Duration = Duration::from_secs(60);
/// Bytes of a file that are shown: as many as are kept of what a launcher prints.
const MOST_OF_A_FILE: usize = super::output::MOST;

/// What `tools/list` shows.
pub fn list() -> Value {
    let denial = json!({
        "outcome": { "type": "string", "description": "exited, signalled, limit or timeout if it ran; denied, refused or fault if not" },
        "code": { "type": "string" }, "rule": { "type": ["string", "null"] }, "reason": { "type": "string" },
        "remedy": { "type": "string" }, "retryable": { "type": "boolean" },
    });
    let with = |more: Value| {
        let mut all = denial.clone();
        if let (Value::Object(all), Value::Object(more)) = (&mut all, more) {
            all.extend(more);
        }
        json!({ "type": "object", "properties": all, "required": ["outcome"] })
    };
    json!([
        {
            "name": "run",
            "title": "Run a command in a cage",
            "description": "Runs a command in the project, in a cage without the user's credentials. Give either argv or command. Long output is shown in part: its beginning and its end.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "argv": { "type": "array", "items": { "type": "string" }, "minItems": 1, "description": "The program and its arguments, without a shell" },
                    "command": { "type": "string", "description": "A line for sh" },
                    "stdin": { "type": "string", "description": "What the command reads; without it its input is empty" },
                    "timeout_seconds": { "type": "number", "exclusiveMinimum": 0, "maximum": MOST_SECONDS, "default": SECONDS },
                },
                "additionalProperties": false,
            },
            "outputSchema": with(json!({
                "exit": { "type": "integer" }, "signal": { "type": "integer" }, "limit": { "type": "string" },
                "stdout": { "type": "string" }, "stderr": { "type": "string" },
                "left_out_bytes": { "type": "integer", "description": "What was printed and is not shown" },
            })),
            "annotations": { "readOnlyHint": false, "destructiveHint": true, "idempotentHint": false, "openWorldHint": true },
        },
        {
            "name": "read",
            "title": "Read a file",
            "description": "Reads a file of the host, unless it holds a credential. A relative path begins where the server was started.",
            "inputSchema": {
                "type": "object",
                "properties": { "path": { "type": "string", "minLength": 1 } },
                "required": ["path"],
                "additionalProperties": false,
            },
            "outputSchema": with(json!({
                "text": { "type": "string" }, "bytes": { "type": "integer" },
                "cut": { "type": "boolean", "description": "Whether the file has more than is shown" },
            })),
            "annotations": { "readOnlyHint": true, "openWorldHint": false },
        },
        {
            "name": "why",
            "title": "Show which rule decides",
            "description": "Says whether a command may use a variable, or read, write or execute a path, and which rule decides that. It changes nothing.",
            "inputSchema": {
                "type": "object",
                "properties": {
                    "subject": { "type": "string", "enum": ["env", "read", "write", "exec"] },
                    "object": { "type": "string", "minLength": 1, "description": "The name of the variable, or the path" },
                },
                "required": ["subject", "object"],
                "additionalProperties": false,
            },
            "outputSchema": with(json!({ "decision": { "type": "object" } })),
            "annotations": { "readOnlyHint": true, "openWorldHint": false },
        },
    ])
}

/// Does what `tools/call` asks for.
pub fn call(caller: &Caller, params: &Value, running: &Running) -> Result<Answered, Failure> {
    let empty = Map::new();
    let arguments = match params.get("arguments") {
        Some(Value::Object(arguments)) => Ok(arguments),
        None | Some(Value::Null) => Ok(&empty),
        Some(_) => Err("arguments is not an object".to_owned()),
    };
    let name = params.get("name").and_then(Value::as_str).unwrap_or_default();
    let answered = match name {
        "run" => arguments.and_then(Wish::read).map(|wish| run(caller, wish, running)),
        "read" => arguments.and_then(|given| {
            known(given, &["path"])?;
            let path = text(given, "path")?.ok_or("path is missing")?;
            Ok(read(caller, path, running))
        }),
        "why" => arguments.and_then(|given| {
            known(given, &["subject", "object"])?;
            let subject = text(given, "subject")?.ok_or("subject is missing")?;
            let object = text(given, "object")?.ok_or("object is missing")?;
            match ["env", "read", "write", "exec"].contains(&subject.as_str()) {
                true => Ok(why(caller, &subject, object, running)),
                false => Err("subject is one of env, read, write and exec".to_owned()),
            }
        }),
        other => return Err(Failure::UnknownTool(other.into())),
    };
    // A model can correct its arguments only if it is told as a result.
    Ok(answered.unwrap_or_else(|reason| {
        not_done(&Denial {
            outcome: "refused",
            code: "usage",
            rule: None,
            reason: &reason,
            remedy: "call the tool again with arguments of its input schema",
            retryable: false,
        })
    }))
}

/// A call that did nothing, for a program and for a model.
struct Denial<'a> {
    outcome: &'a str,
    code: &'a str,
    rule: Option<&'a str>,
    reason: &'a str,
    remedy: &'a str,
    retryable: bool,
}

fn not_done(denial: &Denial<'_>) -> Answered {
    let Denial { outcome, code, rule, reason, remedy, retryable } = denial;
    let by = rule.map(|rule| format!(" (rule {rule})")).unwrap_or_default();
    let again = if *retryable { "\nthe same call may succeed later" } else { "" };
    let text = format!("{outcome}: {reason}{by}\n{remedy}{again}");
    Answered::Result(json!({
        "content": [{ "type": "text", "text": text }],
        "structuredContent": { "outcome": outcome, "code": code, "rule": rule, "reason": reason, "remedy": remedy, "retryable": retryable },
        "isError": true,
    }))
}

fn not_ended(why: &NotEnded) -> Answered {
    match why {
        NotEnded::Cancelled => Answered::Cancelled,
        NotEnded::NotStarted(fact) => fault(fact),
    }
}

fn fault(fact: &str) -> Answered {
    let remedy = "nothing was run; `keyward doctor` shows what this host can do";
    not_done(&Denial {
        outcome: "fault",
        code: "services-unusable",
        rule: None,
        reason: fact,
        remedy,
        retryable: false,
    })
}

/// What the launcher wrote where a call did nothing.
fn denied_by(told: &Value, outcome: &str) -> Answered {
    let of = |name: &str| told.get(name).and_then(Value::as_str);
    let fact = of("fact").unwrap_or("the command did not run");
    not_done(&Denial {
        outcome,
        code: of("code").unwrap_or("fault"),
        rule: of("rule"),
        reason: fact.strip_prefix("denied: ").unwrap_or(fact),
        remedy: of("remedy").unwrap_or_default(),
        retryable: told.get("retry").and_then(Value::as_bool).unwrap_or(false),
    })
}

/// What a model wants to have run.
struct Wish {
    argv: Vec<String>,
    stdin: Option<String>,
    time: Duration,
}

impl Wish {
    fn read(given: &Map<String, Value>) -> Result<Wish, String> {
        known(given, &["argv", "command", "stdin", "timeout_seconds"])?;
        let argv = match (given.get("argv"), text(given, "command")?) {
            (None, Some(line)) => vec!["sh".into(), "-c".into(), line],
            (Some(Value::Array(words)), None) if !words.is_empty() => {
                let words: Option<Vec<String>> =
                    words.iter().map(|word| Some(word.as_str()?.to_owned())).collect();
                words.ok_or("argv is a list of strings")?
            }
            (Some(_), None) => return Err("argv is a list of strings, with at least one".into()),
            _ => return Err("give either argv or command".into()),
        };
        if argv.iter().any(|word| word.contains('\0')) {
            return Err("a word holds a NUL byte".into());
        }
        let seconds = match given.get("timeout_seconds") {
            None => SECONDS as f64,
            Some(value) => value.as_f64().unwrap_or_default(),
        };
        if !(seconds > 0.0 && seconds <= MOST_SECONDS as f64) {
            return Err(format!("timeout_seconds is a number above 0, and at most {MOST_SECONDS}"));
        }
        Ok(Wish { argv, stdin: text(given, "stdin")?, time: Duration::from_secs_f64(seconds) })
    }
}

fn known(given: &Map<String, Value>, names: &[&str]) -> Result<(), String> {
    match given.keys().all(|name| names.contains(&name.as_str())) {
        true => Ok(()),
        false => Err(format!("the arguments of this tool are {}", names.join(", "))),
    }
}

fn text(given: &Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    match given.get(name) {
        None => Ok(None),
        Some(Value::String(text)) if name == "stdin" || (!text.is_empty() && !text.contains('\0')) => {
            Ok(Some(text.clone()))
        }
        Some(_) => Err(format!("{name} is a string that is not empty")),
    }
}

fn run(caller: &Caller, wish: Wish, running: &Running) -> Answered {
    let Wish { argv, stdin, time } = wish;
    let words = |outcome: &str| {
        let mut words: Vec<OsString> = vec!["run".into()];
        words.extend(caller.flags.iter().cloned());
        words.extend(["--quiet", "--outcome-fd", outcome, "--"].map(OsString::from));
        words.extend(argv.into_iter().map(OsString::from));
        words
    };
    let ended = match caller.launch(running, words, stdin.map(String::into_bytes), time) {
        Ok(ended) => ended,
        Err(why) => return not_ended(&why),
    };
    let Ended { status, stdout, stderr, outcome, is_late } = ended;
    let became = match outcome.get("outcome").and_then(Value::as_str) {
        Some("exited" | "signalled" | "limit") | None if is_late => "timeout",
        Some(became @ ("exited" | "signalled" | "limit")) => became,
        Some(became) => return denied_by(&outcome, became),
        None => return fault(&without_outcome(status)),
    };
    ran(became, &outcome, stdout, stderr, time)
}

fn ran(became: &str, outcome: &Value, stdout: Output, stderr: Output, time: Duration) -> Answered {
    let left_out = stdout.left_out() + stderr.left_out();
    let (stdout, stderr) = (stdout.text(), stderr.text());
    let how = match became {
        "timeout" => format!("ended after {} s", time.as_secs_f64()),
        "limit" => format!(
            "ended by the limit {}",
            outcome.get("limit").and_then(Value::as_str).unwrap_or("of the policy")
        ),
        "signalled" => format!("ended by signal {}", outcome.get("signal").unwrap_or(&Value::Null)),
        _ => format!("exit {}", outcome.get("exit").unwrap_or(&Value::Null)),
    };
    let mut shown = stdout.clone();
    for part in [(!stderr.is_empty()).then(|| format!("[stderr]\n{stderr}")), Some(format!("[{how}]"))]
        .into_iter()
        .flatten()
    {
        if !shown.is_empty() && !shown.ends_with('\n') {
            shown.push('\n');
        }
        shown.push_str(&part);
    }
    let mut structured =
        json!({ "outcome": became, "stdout": stdout, "stderr": stderr, "left_out_bytes": left_out });
    for name in ["exit", "signal", "limit"] {
        if let (Some(value), Value::Object(fields)) =
            (outcome.get(name).filter(|value| !value.is_null()), &mut structured)
        {
            fields.insert(name.into(), value.clone());
        }
    }
    Answered::Result(json!({
        "content": [{ "type": "text", "text": shown }],
        "structuredContent": structured,
        "isError": became == "timeout",
    }))
}

fn read(caller: &Caller, path: String, running: &Running) -> Answered {
    let most = MOST_OF_A_FILE.to_string();
    let words = |_: &str| ["read", "--json", "--max", &most, "--", &path].map(OsString::from).to_vec();
    let ended = match caller.launch(running, words, None, LOOKING) {
        Ok(ended) => ended,
        Err(why) => return not_ended(&why),
    };
    let told = last_line(ended.stderr);
    if told.get("read").and_then(Value::as_bool) != Some(true) {
        return match told.is_object() {
            true => denied_by(&told, "refused"),
            false => fault(&without_outcome(ended.status)),
        };
    }
    let (text, bytes) = (ended.stdout.text(), told.get("bytes").and_then(Value::as_u64).unwrap_or_default());
    let cut = told.get("cut").and_then(Value::as_bool).unwrap_or(false);
    Answered::Result(json!({
        "content": [{ "type": "text", "text": text }],
        "structuredContent": { "outcome": "read", "text": text, "bytes": bytes, "cut": cut },
        "isError": false,
    }))
}

fn why(caller: &Caller, subject: &str, object: String, running: &Running) -> Answered {
    let words = |_: &str| {
        let mut words: Vec<OsString> = vec!["why".into()];
        words.extend(caller.flags.iter().cloned());
        words.extend(["--json", subject, &object].map(OsString::from));
        words
    };
    if object.starts_with('-') {
        let reason = "object begins with a dash";
        let remedy = "write a path as ./-name";
        return not_done(&Denial {
            outcome: "refused",
            code: "usage",
            rule: None,
            reason,
            remedy,
            retryable: false,
        });
    }
    let ended = match caller.launch(running, words, None, LOOKING) {
        Ok(ended) => ended,
        Err(why) => return not_ended(&why),
    };
    let decision: Option<Value> = serde_json::from_str(&ended.stdout.text()).ok().filter(Value::is_object);
    let Some(decision) = decision else {
        let told = last_line(ended.stderr);
        return match told.is_object() {
            true => denied_by(&told, "refused"),
            false => fault(&without_outcome(ended.status)),
        };
    };
    Answered::Result(json!({
        "content": [{ "type": "text", "text": decision.to_string() }],
        "structuredContent": { "outcome": "answered", "decision": decision },
        "isError": false,
    }))
}

fn last_line(stderr: Output) -> Value {
    stderr.text().lines().last().and_then(|line| serde_json::from_str(line).ok()).unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(given: Value) -> Result<Vec<String>, String> {
        Wish::read(given.as_object().unwrap()).map(|wish| wish.argv)
    }

    #[test]
    fn a_command_is_a_list_of_words_or_a_line_for_sh_and_never_both() {
        assert_eq!(wish(json!({ "argv": ["ls", ""] })).unwrap(), ["ls", ""]);
        assert_eq!(wish(json!({ "command": "ls | wc" })).unwrap(), ["sh", "-c", "ls | wc"]);
        for wrong in [
            json!({}),
            json!({ "argv": [] }),
            json!({ "argv": "ls" }),
            json!({ "argv": [1] }),
            json!({ "argv": ["a\u{0}b"] }),
            json!({ "argv": ["ls"], "command": "ls" }),
            json!({ "argv": ["ls"], "cwd": "/" }),
            json!({ "argv": ["ls"], "timeout_seconds": 0 }),
            json!({ "argv": ["ls"], "timeout_seconds": "5" }),
        ] {
            assert!(wish(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_denial_has_its_rule_its_reason_and_a_remedy() {
        let told = json!({ "fact": "denied: it pushes by force", "remedy": "ask", "code": "denied", "rule": "force-push", "retry": true });
        let Answered::Result(result) = denied_by(&told, "denied") else { panic!() };
        let expected = json!({ "outcome": "denied", "code": "denied", "rule": "force-push", "reason": "it pushes by force", "remedy": "ask", "retryable": true });
        assert_eq!((&result["structuredContent"], &result["isError"]), (&expected, &json!(true)));
    }
}
