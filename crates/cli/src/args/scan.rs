//! The arguments of `keyward scan`. The room of the second executable reads them again: here they are known to help and completion.

use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(Args)]
pub struct ScanArgs {
    /// Files and directories; without one, this directory
    pub paths: Vec<PathBuf>,
    /// Print the findings as JSON
    #[arg(long, conflicts_with_all = ["sarif", "table"])]
    pub json: bool,
    /// Print the findings as SARIF 2.1.0
    #[arg(long, conflicts_with = "table")]
    pub sarif: bool,
    /// Print the whole table, also if it is long
    #[arg(long)]
    pub table: bool,
    /// Findings that this file has are known: they do not count
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// Write a baseline of what is found
    #[arg(long, value_name = "FILE")]
    pub write_baseline: Option<PathBuf>,
    /// End with 1 if a site has this environment, or one that is worse
    #[arg(long, value_name = "ENVIRONMENT", value_enum)]
    pub deny: Option<Deny>,
    /// Make the changes that are certain
    #[arg(long)]
    pub fix: bool,
    /// Show the changes of --fix, and make none
    #[arg(long, requires = "fix", conflicts_with_all = ["json", "sarif", "table"])]
    pub diff: bool,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Deny {
    Inherits,
    Filtered,
    Explicit,
}

impl ScanArgs {
    /// The words that the room reads.
    pub fn words(self) -> Vec<OsString> {
        let deny = self.deny.map(|deny| match deny {
            Deny::Inherits => "inherits",
            Deny::Filtered => "filtered",
            Deny::Explicit => "explicit",
        });
        let flags =
            [("--sarif", self.sarif), ("--table", self.table), ("--fix", self.fix), ("--diff", self.diff)];
        let flags = flags.into_iter().filter(|(_, set)| *set).map(|(flag, _)| OsString::from(flag));
        let values = [
            ("--baseline", self.baseline.map(OsString::from)),
            ("--write-baseline", self.write_baseline.map(OsString::from)),
            ("--deny", deny.map(OsString::from)),
        ];
        let values =
            values.into_iter().filter_map(|(flag, value)| Some([OsString::from(flag), value?])).flatten();
        flags.chain(values).chain(["--".into()]).chain(self.paths.into_iter().map(OsString::from)).collect()
    }
}
