//! The child: the attacker. It runs one probe in the project and tells what it got, on standard output.

use crate::canary;
use crate::probe::named;
use crate::target::{FILE, Target};
use serde::{Deserialize, Serialize};
use std::io::{self, Write};

/// One line of what the child tells.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Told {
    /// It runs. A cage that did not start is not taken for one that held.
    Started,
    /// The act was done; what looks like a canary in what it brought home.
    Got(Vec<String>),
    /// The act was refused.
    Refused(String),
}

pub fn play(name: &str, agent: &str, environment: &[&[u8]]) -> i32 {
    match live(name, agent, environment) {
        Ok(()) => 0,
        Err(_) => 1,
    }
}

fn live(name: &str, agent: &str, environment: &[&[u8]]) -> io::Result<()> {
    let probe = named(name).ok_or_else(|| io::Error::other("no such probe"))?;
    let mut target: Target = serde_json::from_slice(&std::fs::read(FILE)?)?;
    target.agent = agent.parse().map_err(io::Error::other)?;
    target.environment = environment.iter().map(|entry| entry.to_vec()).collect();
    tell(&Told::Started)?;
    tell(&match (probe.act)(&target) {
        Ok(bytes) => Told::Got(canary::found_in(&bytes)),
        Err(error) => Told::Refused(reason(&error)),
    })
}

fn tell(told: &Told) -> io::Result<()> {
    let mut stdout = io::stdout();
    writeln!(stdout, "{}", serde_json::to_string(told)?)?;
    stdout.flush()
}

/// What the kernel says, in lower case and without its number.
fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}
