//! `keyward doctor -p PROFILE`: does each login that the profile shows really work? Each tool is asked by its own command, in the cage.

use crate::args::{DoctorArgs, PolicyFlags};
use crate::explain::{NoPlan, plan_for};
use crate::here::{self, Here};
use crate::{decide, say};
use keyward_policy::checkup::{Asked, Exposed, Findings, Verdict, judge, remedy};
use keyward_policy::plan::Plan;
use keyward_policy::request::Purpose;
use keyward_policy::tools::{self, Platform, Service, Status, Tool};
use keyward_policy::view::place_outside;
use keyward_policy::words::NetMode;
use keyward_sys::environ::Block;
use serde::Serialize;
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A tool that says nothing by then does not answer.
const PATIENCE: Duration = Duration::from_secs(15);
/// No answer is longer.
const MOST: u64 = 1 << 20;
/// A login that was asked for does not work.
const TROUBLE: i32 = 1;

#[derive(Serialize)]
struct Report<'a> {
    v: u32,
    profile: Option<&'a str>,
    class: &'a str,
    home: String,
    tools: &'a [Row],
    notes: &'a [String],
}

/// One tool.
#[derive(Serialize)]
struct Row {
    tool: &'static str,
    asked_for: bool,
    verdict: Verdict,
    #[serde(skip_serializing_if = "Option::is_none")]
    because: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

pub fn checkup(args: &DoctorArgs, block: &Block) -> i32 {
    let flags = PolicyFlags { profile: args.profile.clone(), ..PolicyFlags::default() };
    let plan = match plan_for(&flags, Vec::new(), Purpose::Command, block) {
        Ok(plan) => plan,
        Err(no_plan) => return no_plan.tell(args.json),
    };
    let environment = block.entries();
    let here = match here::look(&environment, None) {
        Ok(here) => here,
        Err(refusal) => return NoPlan::Refused(refusal).tell(args.json),
    };
    let request = decide::request(vec!["true".into()], &here, &environment);
    let mut rows = Vec::new();
    for tool in tools::all() {
        let there = tool
            .on(Platform::HERE)
            .login
            .iter()
            .filter(|exposure| exposure.secret)
            .any(|exposure| place_outside(exposure, &request).symlink_metadata().is_ok());
        // Several tools read the same file; one that is not there misses nothing.
        let asked_for = plan.view.home.logins.iter().any(|login| login.tool == tool.name);
        if asked_for || is_installed(tool, &here) {
            rows.extend(row(tool, &plan, there, &here, &environment));
        }
    }
    // What the plan has to say about HOME itself: a keychain that is not there, a file of its own.
    let notes: Vec<String> = plan.view.notes.clone();
    if args.json {
        say::answer_json(&Report {
            v: 1,
            profile: plan.profile.as_deref(),
            class: plan.trust.value.as_str(),
            home: keyward_policy::text::visible(plan.view.home.at.as_os_str()),
            tools: &rows,
            notes: &notes,
        });
    } else {
        say::answer(&table(&plan, &rows, &notes));
    }
    let trouble = rows.iter().any(|row| row.asked_for && row.verdict.is_trouble());
    if trouble { TROUBLE } else { 0 }
}

fn is_installed(tool: &Tool, here: &Here) -> bool {
    tool.programs.iter().any(|program| is_found(program, here))
}

fn is_found(program: &str, here: &Here) -> bool {
    std::env::split_paths(&here.search).any(|folder| folder.join(program).is_file())
}

fn row(tool: &'static Tool, plan: &Plan, there: bool, here: &Here, environment: &[&[u8]]) -> Option<Row> {
    let home = &plan.view.home;
    let login = home.logins.iter().find(|login| login.tool == tool.name);
    let withheld = home.withheld.iter().find(|withheld| withheld.tool == tool.name);
    // The agent's own workers are shown all; only those that are there are worth a line.
    let by_name = login.is_some_and(|login| login.origin != keyward_policy::words::Origin::Builtin);
    let exposed = match (login, withheld) {
        (Some(_), _) => Exposed::Shown,
        (None, Some(_)) => Exposed::Withheld,
        (None, None) => Exposed::NotAskedFor,
    };
    if exposed == Exposed::Shown && !by_name && !there {
        return None;
    }
    let part = tool.on(Platform::HERE);
    let ask_inside = || match &part.status {
        None => Asked::NoQuestion,
        Some(status) if status.network && plan.net.value == NetMode::None => Asked::NoNetwork,
        Some(status) => match ask(status, plan.profile.as_deref(), true, environment) {
            Asked::NotInstalled if is_found(status.run[0], here) => Asked::NotInCage,
            asked => asked,
        },
    };
    let inside = if exposed == Exposed::Shown { ask_inside() } else { Asked::NotAsked };
    let unsure = matches!(inside, Asked::Answered(login) if login != tools::Login::In);
    let outside = match &part.status {
        // Some tools make files where there are none.
        Some(status) if unsure && there => ask(status, None, false, environment),
        _ => Asked::NotAsked,
    };
    let has_login = part.status.is_some()
        || !part.services.is_empty()
        || part.login.iter().any(|exposure| exposure.secret);
    let verdict = judge(Findings { exposed, has_login, there, inside, outside })?;
    // Also those that are asked for and not shown: a line that leaves them out would take them away.
    let withheld_too = home.withheld.iter().map(|withheld| withheld.tool);
    let mut already: Vec<&str> = home.logins.iter().map(|login| login.tool).chain(withheld_too).collect();
    already.dedup();
    let keyring = part.services.contains(&Service::SecretService);
    let because = match (verdict, inside) {
        (Verdict::Shown, Asked::NoNetwork) => {
            Some("its login check needs the network, and this profile has none".to_owned())
        }
        (Verdict::Shown, _) if !has_login => Some("it has no login".into()),
        (Verdict::Shown, _) => Some("its files exist; the tool has no command that checks a login".into()),
        (Verdict::LoginNotExposed, _) if exposed == Exposed::Withheld => {
            withheld.map(|withheld| withheld.why.clone())
        }
        (Verdict::ExposedButNotFound, _) if keyring && home.keyring.is_none() => {
            Some("it may keep its login in the keyring, which is not reachable here".into())
        }
        _ => None,
    };
    Some(Row {
        tool: tool.name,
        asked_for: exposed != Exposed::NotAskedFor,
        verdict,
        because,
        remedy: remedy(verdict, tool.name, plan.profile.as_deref(), exposed, &already),
    })
}

/// Asks a tool by its own command: in the cage of a profile, or outside.
fn ask(status: &Status, profile: Option<&str>, inside: bool, environment: &[&[u8]]) -> Asked {
    let mut command = match (inside, std::env::current_exe()) {
        (true, Ok(own)) => {
            let mut command = Command::new(own);
            command.args(["run", "--timeout", "15s"]);
            command.args(profile.iter().flat_map(|profile| ["-p", profile]));
            command.arg("--").args(status.run);
            command
        }
        (true, Err(_)) => return Asked::NotAsked,
        (false, _) => {
            // Not in the project: tools obey what lies there, and a command may have put it.
            let mut command = Command::new(status.run[0]);
            command.args(&status.run[1..]).current_dir("/");
            command
        }
    };
    command.env_clear().stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for entry in environment {
        if let Some(place) = entry.iter().position(|&byte| byte == b'=') {
            command.env(OsStr::from_bytes(&entry[..place]), OsStr::from_bytes(&entry[place + 1..]));
        }
    }
    let Ok(child) = command.spawn() else { return Asked::NotInstalled };
    match answer(child) {
        None => Asked::TimedOut,
        Some((Some(124), ..)) if inside => Asked::TimedOut,
        Some((Some(127), ..)) => Asked::NotInstalled,
        Some((code, stdout, stderr)) => Asked::Answered(status.read(code, &stdout, &stderr)),
    }
}

type Answer = (Option<i32>, String, String);

/// What a program said, if it ended in time. What it prints is read meanwhile, and never shown: it may hold a secret.
fn answer(mut child: Child) -> Option<Answer> {
    let listen = |stream: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut text = Vec::new();
            if let Some(stream) = stream {
                let _ = stream.take(MOST).read_to_end(&mut text);
            }
            String::from_utf8_lossy(&text).into_owned()
        })
    };
    let stdout = listen(child.stdout.take().map(|stream| Box::new(stream) as Box<dyn Read + Send>));
    let stderr = listen(child.stderr.take().map(|stream| Box::new(stream) as Box<dyn Read + Send>));
    let until = Instant::now() + PATIENCE + Duration::from_secs(5);
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(20)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    };
    Some((status.code(), stdout.join().unwrap_or_default(), stderr.join().unwrap_or_default()))
}

fn table(plan: &Plan, rows: &[Row], notes: &[String]) -> String {
    let profile = plan.profile.as_deref().map_or("no profile".into(), |name| format!("profile {name}"));
    let mut lines = vec![format!(
        "{profile}, class {}, HOME {}",
        plan.trust.value,
        keyward_policy::text::visible(plan.view.home.at.as_os_str())
    )];
    let (asked, others): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.asked_for);
    if asked.is_empty() {
        lines.push("  no login is shown".into());
    }
    let mut tell = |rows: &[&Row]| {
        for row in rows {
            let because = row.because.as_deref().map(|why| format!("  ({why})")).unwrap_or_default();
            lines.push(format!("  {:<10} {}{because}", row.tool, row.verdict.words()));
            lines.extend(row.remedy.iter().map(|remedy| format!("  {:<10}   {remedy}", "")));
        }
    };
    tell(&asked);
    if !others.is_empty() {
        let names: Vec<&str> = others.iter().map(|row| row.tool).collect();
        lines.push(format!("login not exposed: {}", names.join(", ")));
        let line = others.last().and_then(|row| row.remedy.as_deref()).unwrap_or_default();
        lines.push(format!("  to show one: {line}"));
    }
    lines.extend(notes.iter().map(|note| format!("note: {note}")));
    lines.join("\n")
}
