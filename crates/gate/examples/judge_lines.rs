//! Judges texts from standard input, which end with NUL bytes, for several cages. `tools/judge-gate` reads the answers.
//!
//! Prints for each text one line: the verdict and the rule in each cage, in the order of [`CAGES`], with tabs between them.
#![allow(clippy::print_stdout)]

use keyward_gate::{Cage, Language, Rules, judge};
use std::io::Read;

/// What each cage reaches, by the name that the tool prints.
const CAGES: &[(&str, Cage)] = &[
    ("open", Cage::OPEN),
    ("network", Cage { network: true, project: true, machine: false, guarded: true }),
    ("credential", Cage { network: false, project: true, machine: true, guarded: true }),
    ("nothing", Cage { network: false, project: true, machine: false, guarded: true }),
];

#[allow(clippy::disallowed_methods, reason = "an example that is a program")]
fn main() -> std::io::Result<()> {
    let mut all = Vec::new();
    std::io::stdin().read_to_end(&mut all)?;
    let names: Vec<&str> = CAGES.iter().map(|(name, _)| *name).collect();
    println!("{}", names.join("\t"));
    let rules: Vec<Rules> = CAGES.iter().map(|(_, cage)| Rules::builtin().within(*cage)).collect();
    for text in all.split(|byte| *byte == 0).filter(|text| !text.is_empty()) {
        let answers = rules.iter().map(|rules| {
            let found = judge(rules, Language::Shell, text);
            format!("{} {}", found.verdict, found.rule.as_deref().unwrap_or("-"))
        });
        println!("{}", answers.collect::<Vec<_>>().join("\t"));
    }
    Ok(())
}
