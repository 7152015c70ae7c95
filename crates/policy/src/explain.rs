//! `keyward explain`: the plan as a table that a person can read. It prints the very value that a run consumes.

use crate::env::{Dropped, Var};
use crate::event::arguments;
use crate::gate::GatePlan;
use crate::linux::acts::{self, Act};
use crate::linux::cage::{Cage, Identity};
use crate::net::Scheme;
use crate::net::corporate::Corporate;
use crate::net::narrow::LeftOut;
use crate::plan::{Keeper, Limit, LimitKind, Plan};
use crate::promise::Held;
use crate::secret::{Delivery, Led, Whereabouts};
use crate::text::{typed_words, visible};
use crate::view::{Entry, FOOTHOLD, Mend, SECRET_FILE, Shown, Withheld};
use crate::words::{NetMode, Origin, Protect, Redact};
use std::fmt::Write;

/// The whole plan. With `everything`, also each place of the view and each variable that was not asked for.
pub fn explain(plan: &Plan, everything: bool) -> String {
    let mut text = String::new();
    head(&mut text, plan);
    gate(&mut text, plan);
    promises(&mut text, plan);
    environment(&mut text, plan, everything);
    secrets(&mut text, plan);
    phantoms(&mut text, plan);
    home(&mut text, plan);
    files(&mut text, plan, everything);
    project(&mut text, plan);
    outlets(&mut text, plan);
    network(&mut text, plan);
    for port in &plan.publish {
        let _ =
            writeln!(text, "publish    127.0.0.1:{port} of this machine leads to the same port of the cage");
    }
    limits(&mut text, plan);
    for note in &plan.view.notes {
        let _ = writeln!(text, "note: {note}");
    }
    text
}

/// What is reached, host by host, and who said so.
fn network(text: &mut String, plan: &Plan) {
    let Some(network) = &plan.network else { return };
    for entry in &network.rules.0 {
        let _ = writeln!(text, "network    {}  ({})", entry.rule, entry.origin);
    }
    for left in &network.left_out {
        let LeftOut { rule, origin, by } = left;
        let _ =
            writeln!(text, "network    {rule}  ({origin}) only as far as the project file names it ({by})");
    }
    if network.rules.0.is_empty() {
        let _ = writeln!(text, "network    no host is allowed");
    }
    if network.asks {
        let _ = writeln!(text, "network    every other host is asked about (net.ask)");
    }
    for upstream in &network.upstreams {
        let _ = writeln!(text, "network    {upstream} is where the host is reached");
    }
    let tls = if network.corporate.plain.is_some() { "TLS" } else { "everything" };
    for (what, proxy) in [(tls, &network.corporate.tls), ("requests without TLS", &network.corporate.plain)] {
        let Some(Corporate { host, port, variable, login, .. }) = proxy else { continue };
        let login = if *login { ", with the login in it, which the cage does not have" } else { "" };
        let _ = writeln!(text, "network    {what} through the proxy {host}:{port} ({variable}{login})");
    }
    for bundle in &network.bundles {
        let path = visible(bundle.path.as_os_str());
        let _ = writeln!(text, "network    {path} holds the proxy's certificate as well");
    }
}

/// What a run would do to build the cage, one step a line.
pub fn steps(acts: &[Act]) -> String {
    let lines = acts.iter().enumerate().map(|(number, act)| format!("{:>4}  {act}\n", number + 1));
    lines.collect()
}

/// Everything outside that the cage can talk to.
fn outlets(text: &mut String, plan: &Plan) {
    for outlet in acts::outlets(plan) {
        let _ = writeln!(text, "outlet     {outlet}");
    }
}

fn head(text: &mut String, plan: &Plan) {
    let command = arguments(&plan.argv);
    let cage = match plan.cage {
        Cage::Full => "namespaces, mounts, Landlock, seccomp",
        Cage::SharedProc => "namespaces and mounts with the host's /proc, Landlock, seccomp",
        Cage::Landlock => "Landlock, seccomp and a guardian; no namespaces",
    };
    let identity = match plan.identity {
        Identity::Caller => "you, without capabilities".into(),
        Identity::MappedRoot { outside } => format!("root inside, unprivileged user {outside} outside"),
        Identity::BareRoot => "uid 0 without capabilities (owners cannot be mapped here)".into(),
    };
    let profile = plan.profile.as_deref().unwrap_or("none");
    let rows = [
        ("command", typed_words(&command)),
        ("directory", visible(plan.view.cwd.as_os_str())),
        ("trust", format!("{} ({})", plan.trust.value, plan.trust.origin)),
        ("profile", profile.into()),
        ("floor", format!("{} ({})", plan.floor.value, plan.floor.origin)),
        ("cage", cage.into()),
        ("runs as", identity),
    ];
    for (name, value) in rows {
        let _ = writeln!(text, "{name:<10} {value}");
    }
}

/// What the gate says of the command, before anybody is asked.
fn gate(text: &mut String, plan: &Plan) {
    let GatePlan { mode, judged, scripts } = &plan.gate;
    let _ = writeln!(text, "{:<10} {} ({})", "gate", mode.value, mode.origin);
    let Some(judged) = judged else { return };
    let _ = writeln!(text, "{:<10} {}", "", judged.sentence());
    for script in scripts {
        let kept = if script.pinned { "runs as it was judged" } else { "was judged with it" };
        let _ = writeln!(text, "{:<10} {} {kept}", "", visible(script.real.as_os_str()));
    }
}

fn promises(text: &mut String, plan: &Plan) {
    let _ = writeln!(text, "\npromises");
    for kept in &plan.promises {
        let (mark, how) = mark(&kept.held);
        let _ = writeln!(text, "  {mark}  {:<15} {}", kept.promise.name(), kept.promise.text());
        let _ = writeln!(text, "        {:<15} {how}", "");
    }
}

fn mark(held: &Held) -> (&'static str, &str) {
    match held {
        Held::Wall { by } => ("wall", by),
        Held::Notice { by } => ("note", by),
        Held::Waived { by } => ("OPEN", by),
        Held::Gone { because } => ("gone", because),
    }
}

/// What held, one short line per promise, for `keyward run -v`.
pub fn promise_lines(plan: &Plan) -> impl Iterator<Item = String> {
    plan.promises.iter().map(|kept| {
        let (mark, how) = mark(&kept.held);
        format!("{mark}  {:<15} {how}", kept.promise.name())
    })
}

fn environment(text: &mut String, plan: &Plan, everything: bool) {
    let _ = writeln!(text, "\nenvironment: {} variables", plan.environment.vars.len());
    let from = |variable: &Var| match &variable.origin {
        Origin::Builtin => String::new(),
        origin => format!(" ({origin})"),
    };
    let width = name_width(plan, everything);
    for variable in &plan.environment.vars {
        let _ = writeln!(text, "  pass  {:<width$} {}{}", variable.name, variable.rule, from(variable));
    }
    let mut unlisted = 0;
    for dropped in &plan.environment.dropped {
        if everything || dropped.rule != crate::env::Rule::NotListed {
            let _ = writeln!(text, "  drop  {:<width$} {}", dropped.name, dropped.rule);
        } else {
            unlisted += 1;
        }
    }
    if unlisted > 0 {
        let _ = writeln!(text, "  drop  {unlisted} more that no rule passes (-v names them)");
    }
    for missing in &plan.environment.missing {
        let _ =
            writeln!(text, "  none  {:<width$} not in your environment ({})", missing.value, missing.origin);
    }
}

/// The width of the column with names of variables.
fn name_width(plan: &Plan, everything: bool) -> usize {
    /// A longer name, which a person rarely has, breaks its own line alone.
    const WIDEST: usize = 40;
    let is_listed = |dropped: &&Dropped| everything || dropped.rule != crate::env::Rule::NotListed;
    let environment = &plan.environment;
    let passed = environment.vars.iter().map(|variable| variable.name.as_ref());
    let dropped = environment.dropped.iter().filter(is_listed).map(|dropped| dropped.name.as_ref());
    let missing = environment.missing.iter().map(|missing| missing.value.as_ref());
    let lengths = passed.chain(dropped).chain(missing).map(|name: &str| name.chars().count());
    lengths.filter(|length| *length <= WIDEST).fold(22, usize::max)
}

/// Lists the secrets that the vault delivers; no process on the way sees their values.
fn secrets(text: &mut String, plan: &Plan) {
    if plan.secrets.is_empty() {
        return;
    }
    let _ = writeln!(text, "\nsecrets: {} of the vault", plan.secrets.len());
    for given in &plan.secrets {
        let how = match (&given.place, given.delivery) {
            (Whereabouts::Descriptor(number), Delivery::Token) => {
                format!("a token in descriptor {number}, to be swapped once")
            }
            (Whereabouts::Descriptor(number), _) => format!("descriptor {number}"),
            (Whereabouts::File(path), _) => format!("the file {}", visible(path.as_os_str())),
            (Whereabouts::Variable, _) => "DANGEROUS: in the environment".to_owned(),
        };
        let _ = writeln!(
            text,
            "  give  {:<22} {how}, {} says where ({} from {})",
            given.name.as_str(),
            given.variable,
            given.origin,
            given.from,
        );
    }
    let _ = match plan.redact.value {
        Redact::On => {
            writeln!(text, "  notice  what the command prints goes without them ({})", plan.redact.origin)
        }
        Redact::Off => {
            writeln!(text, "  OPEN    what the command prints is shown as it is ({})", plan.redact.origin)
        }
    };
}

/// Lists the phantoms that the command holds, and where each is worth something.
fn phantoms(text: &mut String, plan: &Plan) {
    if plan.phantoms.is_empty() {
        return;
    }
    let _ = writeln!(text, "\nphantoms: {} credentials that the command does not hold", plan.phantoms.len());
    for bound in &plan.phantoms {
        let how = match &bound.scheme {
            Scheme::Replace => "replaced".to_owned(),
            Scheme::AwsV4 { service, region } => format!("signed anew for {service} in {region}"),
        };
        let places =
            [(bound.places.query, "query"), (bound.places.path, "path"), (bound.places.body, "body")];
        let places = places.iter().filter(|(is, _)| *is).map(|(_, word)| format!(", {word}"));
        let _ = writeln!(
            text,
            "  wall  {:<22} {}: {how} by the proxy for {} (header, basic{}; {} from {})",
            bound.name.as_str(),
            match &bound.login {
                Some(login) => login.field.clone(),
                None => bound.variables.join(", "),
            },
            bound.hosts(),
            places.collect::<String>(),
            bound.origin,
            bound.from,
        );
        if let Some(led) = &bound.base_url {
            let Led { variable, host, port, .. } = led;
            let url = led.url();
            let _ = writeln!(
                text,
                "        {:<22} {variable} = {url} leads to the proxy without TLS, and from there with TLS to {host}:{port}",
                ""
            );
        }
    }
}

/// Which HOME it is, and whose logins are in it.
fn home(text: &mut String, plan: &Plan) {
    let home = &plan.view.home;
    let which = match &home.kept {
        Some(kept) => format!("kept in {}", visible(kept.as_os_str())),
        None if plan.view.entries.iter().any(|entry| entry.rule == "home" && entry.shows_in_place()) => {
            "your own".into()
        }
        None => "empty, and gone with the cage".into(),
    };
    let _ = writeln!(text, "\nhome: {} ({which})", visible(home.at.as_os_str()));
    for login in &home.logins {
        let found = match (login.found, login.shared) {
            (false, _) => "nothing of it is there",
            (true, false) => "its login",
            (true, true) => "its login, sessions and settings",
        };
        // A login that was not requested and does not exist is not worth a line.
        if login.found || login.origin != Origin::Builtin {
            let _ = writeln!(text, "  show  {:<22} {found} ({})", login.tool, login.origin);
        }
        if login.found && plan.net.value != NetMode::Rules && crate::login::has_fields(login.tool) {
            let _ = writeln!(
                text,
                "  OPEN  {:<22} the real login is shown: with `net.mode = \"{}\"` no proxy replaces phantoms in it",
                login.tool, plan.net.value
            );
        }
    }
    for Withheld { tool, why, origin } in &home.withheld {
        let _ = writeln!(text, "  none  {tool:<22} {why} ({origin})");
    }
    if let Some(keyring) = &home.keyring {
        let _ = writeln!(text, "  show  {:<22} only items named {}", "the keyring", keyring.items.join(", "));
    }
    for mend in &home.mends {
        let _ = match mend {
            Mend::DropLink { at } => {
                writeln!(text, "  fix   {:<22} a link that leads nowhere is removed", visible(at.as_os_str()))
            }
            Mend::Link { at, to } => {
                writeln!(
                    text,
                    "  fix   {:<22} becomes a link to {}",
                    visible(at.as_os_str()),
                    visible(to.as_os_str())
                )
            }
        };
    }
}

fn files(text: &mut String, plan: &Plan, everything: bool) {
    let _ = writeln!(text, "\nfiles: nothing but this");
    let mut more = 0;
    let mut blank = 0;
    for entry in &plan.view.entries {
        // Of very many hidden files the first ones are enough.
        if matches!(entry.shown, Shown::Hidden { reads_as: Some(_), .. }) && entry.rule == SECRET_FILE {
            blank += 1;
            if blank > FEW && !everything {
                more += 1;
                continue;
            }
        }
        let detail =
            matches!(entry.shown, Shown::Link { .. } | Shown::Device | Shown::Terminals | Shown::Queues);
        if everything || !detail {
            let _ = writeln!(
                text,
                "  {:<10} {:<32} {}",
                access(entry),
                visible(entry.target.as_os_str()),
                reason(entry)
            );
        }
    }
    if more > 0 {
        let _ = writeln!(text, "  hidden     {more} more that look secret (-v names them)");
    }
    for warning in &plan.view.warnings {
        let _ = writeln!(text, "  {}\n             {}", warning.fact, warning.remedy);
    }
}

/// So many hidden files are named.
const FEW: usize = 20;

/// What becomes of footholds: names that make programs outside run or obey what stands there.
fn project(text: &mut String, plan: &Plan) {
    if plan.writable_project().is_none() {
        return;
    }
    let there = plan.view.entries.iter().filter(|entry| entry.rule == FOOTHOLD).count();
    let there = match (plan.protects_footholds(), there) {
        (false, _) => "notice  those that are there are not protected; a change is named at the end".into(),
        (true, 0) => "wall    none is there that has to be protected".into(),
        (true, count) => format!("wall    {count} that are there cannot be changed or moved"),
    };
    let lines = [
        "\nfootholds (.envrc, .vscode, .claude and their like)",
        &format!("  {there}"),
        match plan.protect.value {
            Protect::Strict => "  wall    a new one cannot be made",
            Protect::Notice => {
                "  notice  a new one is taken out of the project: when it is noticed, and at the end"
            }
        },
        "  notice  instructions and workflows (AGENTS.md …) that were changed are named at the end",
        match plan.protect.value {
            Protect::Strict => {
                "  wall    no program can be added to a directory of the search path, such as .venv/bin"
            }
            Protect::Notice => {
                "  notice  programs that were added to a directory of the search path are named at the end"
            }
        },
    ];
    for line in lines {
        let _ = writeln!(text, "{line}");
    }
}

fn access(entry: &Entry) -> &'static str {
    match &entry.shown {
        Shown::ReadOnly(_) | Shown::FreshProc | Shown::SharedProc => "read",
        Shown::Writable(_) => "write",
        Shown::Private { .. } => "private",
        Shown::Cache { .. } => "cache",
        Shown::Layer(_) => "layer",
        Shown::Copied { .. } => "copy",
        Shown::Login { .. } => "phantom",
        Shown::Text { .. } => "text",
        Shown::Repository { .. } => "repository",
        Shown::Link { .. } => "link",
        Shown::Device => "device",
        Shown::Terminals | Shown::Queues => "own",
        Shown::Hidden { reads_as: Some(text), directory: false } if !text.is_empty() => "names",
        Shown::Hidden { reads_as: Some(_), .. } => "empty",
        Shown::Hidden { reads_as: None, .. } => "hidden",
    }
}

fn reason(entry: &Entry) -> String {
    match (&entry.shown, &entry.origin) {
        (Shown::Link { to }, _) => format!("-> {}", visible(to.as_os_str())),
        (_, Origin::Builtin) => entry.rule.into(),
        (_, origin) => format!("{} ({origin})", entry.rule),
    }
}

fn limits(text: &mut String, plan: &Plan) {
    if plan.limits.is_empty() {
        let _ = writeln!(text, "\nlimits: none");
        return;
    }
    let _ = writeln!(text, "\nlimits");
    for line in limit_lines(plan) {
        let _ = writeln!(text, "  {:<11} {:<10} {} ({})", line.name, line.value, line.keeper, line.origin);
    }
}

/// The limits that this host does not keep, one line each, for `keyward run -v`.
pub fn missing_limit_lines(plan: &Plan) -> impl Iterator<Item = String> {
    let lines = limit_lines(plan).into_iter().filter(|line| line.keeper.starts_with("not enforced"));
    lines.map(|line| format!("gone  {:<15} the limit of {} is {}", line.name, line.value, line.keeper))
}

/// The limits that a policy sets and that the kernel keeps without telling us, in words.
pub fn silent_limits(limits: &[Limit]) -> Vec<String> {
    let is_silent = |limit: &&Limit| {
        let is_counted =
            matches!(limit.what, LimitKind::Memory(_) | LimitKind::Pids(_) | LimitKind::OpenFiles(_));
        let is_quiet = matches!(
            limit.keeper,
            Keeper::RlimitOfCage | Keeper::RlimitOfUser | Keeper::RlimitPerProcess | Keeper::RlimitOfEach
        );
        is_counted && is_quiet && limit.origin != Origin::Builtin
    };
    let worded = limits.iter().filter(is_silent).map(limit_line);
    worded.map(|line| format!("{} = {} ({})", line.name, line.value, line.origin)).collect()
}

/// A limit in words.
pub struct LimitLine<'a> {
    pub name: &'static str,
    pub value: String,
    pub keeper: &'static str,
    pub origin: &'a Origin,
}

/// The limits in words.
pub fn limit_lines(plan: &Plan) -> Vec<LimitLine<'_>> {
    plan.limits.iter().map(limit_line).collect()
}

fn limit_line(limit: &Limit) -> LimitLine<'_> {
    let (name, value) = match limit.what {
        LimitKind::Wall(time) => ("wall", format!("{time:?}")),
        LimitKind::Cpu(time) => ("cpu", format!("{time:?}")),
        LimitKind::Memory(bytes) => ("memory", size(bytes)),
        LimitKind::Pids(count) => ("pids", count.to_string()),
        LimitKind::OpenFiles(count) => ("open_files", count.to_string()),
        LimitKind::Output(bytes) => ("output", size(bytes)),
        LimitKind::Inotify => ("inotify", "half yours".into()),
        LimitKind::Queues => ("queues", "half yours".into()),
    };
    LimitLine { name, value, keeper: limit.keeper.text(), origin: &limit.origin }
}

/// Bytes for people: the largest unit that divides them.
pub fn size(bytes: u64) -> String {
    for (unit, name) in [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        if bytes >= unit && bytes.is_multiple_of(unit) {
            return format!("{} {name}", bytes / unit);
        }
    }
    format!("{bytes} bytes")
}
