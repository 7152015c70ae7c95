//! The arguments of `keyward home`.

use super::{PolicyFlags, values};
use clap::{Args, Subcommand};
use keyward_policy::words::TrustClass;

#[derive(Args)]
pub struct HomeArgs {
    #[command(subcommand)]
    pub command: HomeCommand,
}

#[derive(Subcommand)]
pub enum HomeCommand {
    /// Show the HOMEs that are kept
    List {
        /// Print them as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print where the HOME of a run with these flags is
    Path {
        #[command(flatten)]
        policy: Box<PolicyFlags>,
    },
    /// Show what the HOME of a run with these flags is, and what of each tool is in it
    Show {
        #[command(flatten)]
        policy: Box<PolicyFlags>,
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
    /// List the tools that are known, and what the login of each needs
    Tools {
        /// Print them as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the logins of tools: writes home.tools in your policy file
    Add(ToolArgs),
    /// Share tools as a whole, with sessions and settings: writes home.share in your policy file
    Share(ToolArgs),
    /// Show and share tools no longer: takes them out of home.tools and home.share
    Remove(ToolArgs),
    /// Empty Keyward's own caches for cages
    Clean {
        /// The caches of all classes
        #[arg(long)]
        caches: bool,
        /// Only those of this class: internal, executor, tool or unknown
        #[arg(long, value_name = "CLASS", value_parser = values::TRUST, hide_possible_values = true)]
        class: Option<TrustClass>,
        /// Print the result as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Args)]
pub struct ToolArgs {
    /// Tools, such as gh; `keyward home tools` lists them
    #[arg(required = true, value_name = "TOOL")]
    pub tools: Vec<String>,
    /// For this profile only, which is made if there is none
    #[arg(short, long, value_name = "PROFILE")]
    pub profile: Option<String>,
}
