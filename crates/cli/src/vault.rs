//! Starts the vault for a run, and tells what it said.

use crate::here::Here;
use crate::say;
use keyward_launch::prepare::Prepared;
use keyward_launch::secrets::Vault;
use keyward_launch::{display, standard};
use keyward_policy::event::What;
use keyward_policy::outcome::SecretNews;
use keyward_policy::plan::{LimitKind, Plan};
use keyward_policy::secret::{Entry, Reference};
use keyward_policy::settings::Policy;
use keyward_policy::trouble::{Code, Trouble};
use keyward_protocol::packet;
use keyward_protocol::vault::Said;
use keyward_sys::environ::Block;
use keyward_sys::fork::{self, End, Forked};
use keyward_sys::{Errno, channel, confine};
use keyward_vault::process::{self, Errand, Printed, Variables};
use keyward_vault::source::{Limits, Surroundings};
use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

/// The positions of the variables that the vault of this plan needs.
pub fn needs(plan: &Plan, environment: &[&[u8]]) -> Vec<usize> {
    let of_proxy: Vec<Reference> = proxy_logins(plan).into_iter().map(Reference::ProxyLogin).collect();
    let sources = || {
        let given = plan.secrets.iter().map(|given| &given.from);
        given.chain(plan.phantoms.iter().map(|bound| &bound.from)).chain(&of_proxy)
    };
    if sources().next().is_none() {
        return Vec::new();
    }
    match process::variables(sources()) {
        Variables::All => (0..environment.len()).collect(),
        Variables::These(names) => positions(&names, environment),
    }
}

/// The variables with logins of the company's proxy that the plan uses.
pub fn proxy_logins(plan: &Plan) -> Vec<String> {
    let logins = plan.network.iter().flat_map(|network| network.corporate.logins());
    logins.map(str::to_owned).collect()
}

fn positions(names: &[String], environment: &[&[u8]]) -> Vec<usize> {
    let is_wanted = |entry: &[u8]| {
        names
            .iter()
            .any(|name| entry.strip_prefix(name.as_bytes()).is_some_and(|rest| rest.starts_with(b"=")))
    };
    environment.iter().enumerate().filter(|(_, entry)| is_wanted(entry)).map(|(place, _)| place).collect()
}

/// Whether a value of the caller's environment is a secret of the plan: then there is one attempt only, as it is gone with the first.
pub fn takes_from_environment(policy: &Policy) -> bool {
    let granted = |entry: &Entry| policy.secrets.iter().any(|grant| grant.value.name == entry.name);
    policy.known_secrets.iter().any(|entry| matches!(entry.from, Reference::Env(_)) && granted(entry))
}

/// Forks the vault; none where the plan gives no secret. What the command prints goes through it, where secrets are taken out of that.
pub fn start(
    plan: &Plan,
    here: &Here,
    block: &mut Block,
    prepared: &mut Prepared,
) -> Result<Option<Vault>, Errno> {
    if plan.secrets.is_empty() {
        return Ok(None);
    }
    let (in_cage, in_vault) = channel::pair()?;
    let (reports, to_reports) = channel::pair()?;
    let mut ways = if plan.redacts() { ways(plan)? } else { Ways::default() };
    match fork::fork()? {
        Forked::Parent(process) => {
            let mut vault = Vault::new(process, in_cage, reports);
            vault.shows_terminal = ways.terminal.is_some();
            vault.to_count = std::mem::take(&mut ways.to_count);
            for (place, way) in ways.pipes.iter_mut().enumerate() {
                prepared.counted[place] = way.as_mut().and_then(|way| way.command.take());
            }
            if let Some(second) = ways.second.take() {
                prepared.counted[1] = Some(second);
            }
            Ok(Some(vault))
        }
        Forked::Child => {
            let tied = confine::die_with_parent();
            drop((in_cage, reports));
            if tied.is_err() || channel::peer_is_gone(&to_reports) {
                fork::exit_now(125);
            }
            // The command's ends are its own; only then do we see its end.
            for way in ways.pipes.iter_mut().flatten() {
                way.command = None;
            }
            ways.to_count = [None, None, None];
            ways.second = None;
            prepared.let_go();
            let Ways { pipes: [stdout, stderr], terminal, .. } = &ways;
            let printed = [stdout, stderr].into_iter().flatten().map(|way| Printed {
                stream: u8::try_from(way.number).unwrap_or(u8::MAX),
                from: way.from.as_fd(),
                to: way.to.as_ref().map_or_else(|| standard(way.number), AsFd::as_fd),
            });
            become_vault(block, &process::variables(plan.secrets.iter().map(|given| &given.from)));
            with_surroundings(here, block, |surroundings| {
                let errand = Errand {
                    given: &plan.secrets,
                    surroundings,
                    redacts: plan.redacts(),
                    printed: printed.collect(),
                    terminal: terminal
                        .as_ref()
                        .map(|to| to.as_ref().map_or_else(|| standard(display(plan.terminal)), AsFd::as_fd)),
                };
                fork::exit_now(process::serve(&in_vault, &to_reports, &errand))
            })
        }
    }
}

/// A stream of the command's on its way through the vault.
struct Way {
    number: usize,
    /// The command's end, in the launcher.
    command: Option<OwnedFd>,
    from: OwnedFd,
    /// Where it goes on, if not to where it would have gone.
    to: Option<OwnedFd>,
}

#[derive(Default)]
struct Ways {
    pipes: [Option<Way>; 2],
    /// The command's other end of the first one, where both go to the same place.
    second: Option<OwnedFd>,
    /// The destination of the cage terminal's output, if it is not the user's terminal.
    terminal: Option<Option<OwnedFd>>,
    /// What the launcher counts.
    to_count: [Option<OwnedFd>; 3],
}

fn ways(plan: &Plan) -> Result<Ways, Errno> {
    let pipe = || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC);
    let counts = plan.limits.iter().any(|limit| matches!(limit.what, LimitKind::Output(_)));
    let mut ways = Ways::default();
    let onward = |place: usize, ways: &mut Ways| -> Result<Option<OwnedFd>, Errno> {
        if !counts {
            return Ok(None);
        }
        let (count, to) = pipe()?;
        ways.to_count[place] = Some(count);
        Ok(Some(to))
    };
    let file = |number: usize| rustix::fs::fstat(standard(number)).map(|stat| (stat.st_dev, stat.st_ino));
    let is_one = !plan.terminal[1] && !plan.terminal[2] && file(1).is_ok() && file(1) == file(2);
    for (place, number) in [(0, 1), (1, 2)] {
        if number == 2 && is_one {
            // One stream for both, so that what was printed first comes first.
            let command = ways.pipes[0].as_ref().and_then(|way| way.command.as_ref());
            ways.second = command.map(|command| rustix::io::fcntl_dupfd_cloexec(command, 3)).transpose()?;
        } else if !plan.terminal[number] {
            let (from, command) = pipe()?;
            let to = onward(place, &mut ways)?;
            ways.pipes[place] = Some(Way { number, command: Some(command), from, to });
        }
    }
    if plan.terminal.contains(&true) {
        ways.terminal = Some(onward(2, &mut ways)?);
    }
    Ok(ways)
}

/// Closes the process that was just forked, and leaves it the variables that it needs.
pub fn become_vault(block: &mut Block, variables: &Variables) {
    if process::harden().is_err() {
        fork::exit_now(125);
    }
    if let Variables::These(names) = variables {
        let kept = positions(names, &block.entries());
        block.wipe_values(&kept);
    }
}

pub fn with_surroundings<T>(here: &Here, block: &Block, act: impl FnOnce(Surroundings<'_>) -> T) -> T {
    let entries = block.entries();
    let variable = |name: &str| -> Option<&OsStr> {
        let value =
            entries.iter().find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
        Some(OsStr::from_bytes(value))
    };
    act(Surroundings {
        home: &here.caller.home,
        store: &here.store,
        variable: &variable,
        terminal: terminal(here.caller.terminals),
        limits: Limits::default(),
    })
}

/// Has a vault do something with values, and gives what it said meanwhile.
pub fn ask(
    here: &Here,
    block: &mut Block,
    variables: &Variables,
    act: impl FnOnce(&Surroundings<'_>, &dyn Fn(&Said)) -> Result<(), Trouble>,
) -> Result<Vec<Said>, Trouble> {
    let broken = |errno: Errno| {
        let fact = format!("the vault cannot be started: {}", keyward_sys::file::reason(errno));
        Trouble::new(Code::NoSecret, fact, "`keyward doctor` shows what this host can do")
    };
    let (reports, to_reports) = channel::pair().map_err(broken)?;
    match fork::fork().map_err(broken)? {
        Forked::Child => {
            let tied = confine::die_with_parent();
            drop(reports);
            if tied.is_err() || channel::peer_is_gone(&to_reports) {
                fork::exit_now(125);
            }
            become_vault(block, variables);
            let tell = |said: &Said| {
                let _ = channel::send(&to_reports, &packet::write(said), &[]);
            };
            let done = with_surroundings(here, block, |surroundings| act(&surroundings, &tell));
            if let Err(trouble) = &done {
                tell(&Said::Failed(trouble.clone()));
            }
            fork::exit_now(i32::from(done.is_err()))
        }
        Forked::Parent(process) => {
            drop(to_reports);
            let mut said = Vec::new();
            let mut packet = vec![0; packet::LONGEST];
            while let Ok(message) = channel::receive(&reports, &mut packet) {
                match packet.get(..message.length).and_then(packet::read::<Said>) {
                    Some(Said::Failed(trouble)) => return Err(trouble),
                    Some(one) => said.push(one),
                    None => break,
                }
            }
            match process.wait() {
                Ok(End::Exited(0)) => Ok(said),
                _ => Err(Trouble::new(
                    Code::NoSecret,
                    "the vault ended before it was done",
                    "do it again; what was kept before is as it was",
                )),
            }
        }
    }
}

/// The terminal on which a person can be asked.
fn terminal(which: [bool; 3]) -> Option<BorrowedFd<'static>> {
    let [stdin, stdout, stderr] = which;
    match (stdin, stderr, stdout) {
        (true, ..) => Some(rustix::stdio::stdin()),
        (_, true, _) => Some(rustix::stdio::stderr()),
        (_, _, true) => Some(rustix::stdio::stdout()),
        _ => None,
    }
}

/// Why the vault could not give a secret.
pub fn failure(vault: &Vault) -> Option<&Trouble> {
    vault.said.iter().find_map(|said| match said {
        Said::Failed(trouble) => Some(trouble),
        _ => None,
    })
}

/// What the vault did, for the record.
pub fn events(vault: &Vault, plan: &Plan) -> Vec<What> {
    let given = |secret: usize, microseconds: u64| {
        let given = plan.secrets.get(secret)?;
        Some(What::Secret { name: given.name.to_string(), delivery: given.delivery, microseconds })
    };
    let mut all = Vec::new();
    for said in &vault.said {
        all.extend(match said {
            Said::Delivered { secret, microseconds } | Said::Redeemed { secret, microseconds } => {
                given(*secret, *microseconds)
            }
            Said::Refused => Some(What::TokenRefused {}),
            Said::Found { name, encoding, stream, offset } => Some(What::Printed {
                name: name.clone(),
                encoding: encoding.clone(),
                stream: *stream,
                offset: *offset,
            }),
            Said::Forgotten { microseconds } => Some(What::Forgotten { microseconds: *microseconds }),
            _ => None,
        });
    }
    all
}

/// What a person is told of it: what was found, and with `verbose` how long each value was in the vault.
pub fn tell(vault: &Vault, plan: &Plan, verbose: bool) {
    let mut printed: Vec<(&str, u64)> = Vec::new();
    let (mut refused, mut unredeemed) = (0, false);
    for said in &vault.said {
        match said {
            Said::Printed { name, times } => printed.push((name, *times)),
            Said::Unwritten { .. } => say::trouble(
                "the output of the command could not be written to its destination",
                "check whether the disk is full, or the program that reads the output has ended",
            ),
            Said::Note { fact, remedy } => say::trouble(fact, remedy),
            Said::Refused => refused += 1,
            Said::NotRedeemed { fact, remedy, .. } if !unredeemed => {
                unredeemed = true;
                say::trouble(fact, remedy);
            }
            Said::Failed(Trouble { fact, remedy, .. }) => say::trouble(fact, remedy),
            Said::Delivered { secret, microseconds } | Said::Redeemed { secret, microseconds } if verbose => {
                if let Some(given) = plan.secrets.get(*secret) {
                    say::note(&format!(
                        "{} was in the vault for {microseconds} µs ({})",
                        given.name, given.delivery
                    ));
                }
            }
            Said::Forgotten { microseconds } if verbose => {
                say::note(&format!("the vault looked for secrets in what was printed for {microseconds} µs"));
            }
            _ => {}
        }
    }
    let times = |times: u64| if times == 1 { "once".into() } else { format!("{times} times") };
    if refused > 0 {
        say::trouble(
            &format!(
                "the vault rejected an invalid or already used secret token ({refused} {})",
                if refused == 1 { "attempt" } else { "attempts" }
            ),
            "if the command did not retry a token itself, check what ran in the cage",
        );
    }
    for (name, count) in printed {
        let times = times(count);
        say::trouble(
            &format!("the command printed the secret {name} {times}; Keyward removed it from the output"),
            &format!(
                "`keyward log --secret {name}` shows where; if the command had no reason to print it, treat the secret as compromised and rotate it"
            ),
        );
    }
}

/// Summarises what happened to each secret, for the JSON outcome.
pub fn news(vault: &Vault, plan: &Plan) -> Vec<SecretNews> {
    let of = |index: usize| SecretNews {
        name: plan.secrets[index].name.to_string(),
        delivery: plan.secrets[index].delivery,
        microseconds: vault.said.iter().find_map(|said| match said {
            Said::Delivered { secret, microseconds } | Said::Redeemed { secret, microseconds } => {
                (*secret == index).then_some(*microseconds)
            }
            _ => None,
        }),
        printed: vault
            .said
            .iter()
            .find_map(|said| match said {
                Said::Printed { name, times } => {
                    (*name == plan.secrets[index].name.as_str()).then_some(*times)
                }
                _ => None,
            })
            .unwrap_or(0),
    };
    (0..plan.secrets.len()).map(of).collect()
}
