//! The flags that say for one run what a policy file can say.

use super::values;
use clap::Args;
use keyward_policy::config::Flags;
use keyward_policy::words::{Allowance, Floor, GateMode, HomeMode, NetMode, Protect, Redact, TrustClass};
use std::path::PathBuf;
use std::time::Duration;

/// What a policy file can say, said for one run.
#[derive(Args, Default, Clone, PartialEq, Eq)]
pub struct PolicyFlags {
    /// Use a profile of your policy file
    #[arg(short, long, value_name = "PROFILE")]
    pub profile: Option<String>,
    /// How far you trust the child: internal, executor, tool or unknown
    #[arg(long, value_name = "CLASS", value_parser = values::TRUST, hide_possible_values = true)]
    pub trust: Option<TrustClass>,
    /// The promises that must hold: full or landlock
    #[arg(long, value_name = "FLOOR", value_parser = values::FLOOR, hide_possible_values = true)]
    pub floor: Option<Floor>,
    /// Open a part of the kernel surface: ptrace (debuggers) or gpu
    #[arg(long, value_name = "WHAT", value_parser = values::ALLOW, hide_possible_values = true)]
    pub allow: Vec<Allowance>,
    /// The same as --allow gpu
    #[arg(long)]
    pub gpu: bool,
    #[arg(long, hide = true)]
    pub display: bool,
    /// Pass a variable on, unless it looks like a credential
    #[arg(long, value_name = "NAME")]
    pub pass: Vec<String>,
    /// Set a variable of the command; not for credentials
    #[arg(long, value_name = "NAME=VALUE")]
    pub env: Vec<String>,
    /// Hand over credentials by name (classes internal and executor only)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub inherit_credentials: Vec<String>,
    /// Give a phantom of a secret, or the secret itself with =fd, =file, =token or =dangerous-env
    #[arg(long = "secret", value_name = "NAME[=HOW]")]
    pub secrets: Vec<String>,
    /// Secrets in what the command prints: on (taken out) or off
    #[arg(long, value_name = "HOW", value_parser = values::REDACT, hide_possible_values = true)]
    pub redact: Option<Redact>,
    /// Show a file or directory, read-only
    #[arg(long, value_name = "PATH")]
    pub read: Vec<PathBuf>,
    /// Show a file or directory, writable
    #[arg(long, value_name = "PATH")]
    pub write: Vec<PathBuf>,
    /// Hide a file or directory that would be shown
    #[arg(long, value_name = "PATH")]
    pub hide: Vec<PathBuf>,
    /// Show a file or directory of the project that looks secret and is not
    #[arg(long, value_name = "PATH")]
    pub show: Vec<PathBuf>,
    /// New footholds in the project, such as .envrc: notice or strict
    #[arg(long, value_name = "HOW", value_parser = values::PROTECT, hide_possible_values = true)]
    pub protect: Option<Protect>,
    /// Which HOME the command has: real, profile or empty
    #[arg(long, value_name = "MODE", value_parser = values::HOME, hide_possible_values = true)]
    pub home: Option<HomeMode>,
    /// Show the login of a tool, such as gh
    #[arg(long = "tool", value_name = "NAME")]
    pub tools: Vec<String>,
    /// For an agent: run the shells and interpreters that it starts in a narrower cage
    #[arg(long)]
    pub shims: bool,
    /// The network: none, rules or open
    #[arg(long, value_name = "MODE", value_parser = values::NET, hide_possible_values = true)]
    pub net: Option<NetMode>,
    /// Allow a host, such as api.github.com, 'GET host/path/*', tcp://db:5432, or a preset such as npm
    #[arg(long = "allow-net", value_name = "RULE")]
    pub allow_net: Vec<String>,
    /// Let the command reach a port of this machine's loopback, such as 11434
    #[arg(long, value_name = "PORT")]
    pub reach: Vec<u16>,
    /// Let this machine reach a port of the cage's loopback, such as 3000
    #[arg(long, value_name = "PORT")]
    pub publish: Vec<u16>,
    /// What the gate does about risky commands: ask, deny, auto, judge or yolo
    #[arg(long, value_name = "MODE", value_parser = values::GATE, hide_possible_values = true)]
    pub gate: Option<GateMode>,
    /// Run in this directory
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// End the command after this time, such as 30s or 10m
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub timeout: Option<Duration>,
    /// Limit memory, such as 512M or 2G
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    pub memory: Option<u64>,
    /// Limit processes and threads
    #[arg(long, value_name = "COUNT")]
    pub pids: Option<u64>,
}

/// `keyward env`.
#[derive(Args)]
pub struct EnvArgs {
    #[command(flatten)]
    pub policy: PolicyFlags,
    /// Print the decision as JSON
    #[arg(long)]
    pub json: bool,
}

impl PolicyFlags {
    /// Whether nothing was said.
    pub fn is_empty(&self) -> bool {
        *self == PolicyFlags::default()
    }

    /// As a layer of policy. Paths are made absolute against the directory the user typed them in.
    pub fn layer(&self, typed_in: &std::path::Path) -> Flags {
        let absolute =
            |paths: &[PathBuf]| paths.iter().map(|path| crate::here::absolute(typed_in, path)).collect();
        // A pattern of names stays one; a file whose name holds such a sign is meant as it is.
        let hide = self.hide.iter().map(|path| {
            let is_pattern = keyward_policy::view::is_pattern(path) && !typed_in.join(path).exists();
            if is_pattern { path.clone() } else { crate::here::absolute(typed_in, path) }
        });
        let gpu = self.gpu.then_some(Allowance::Gpu);
        Flags {
            allow: self.allow.iter().copied().chain(gpu).collect(),
            display: self.display,
            trust: self.trust,
            floor: self.floor,
            pass: self.pass.clone(),
            env: self.env.clone(),
            inherit_credentials: self.inherit_credentials.clone(),
            secrets: self.secrets.clone(),
            redact: self.redact,
            read: absolute(&self.read),
            write: absolute(&self.write),
            hide: hide.collect(),
            show: absolute(&self.show),
            protect: self.protect,
            home: self.home,
            tools: self.tools.clone(),
            shims: self.shims,
            net: self.net,
            allow_net: self.allow_net.clone(),
            reach: self.reach.clone(),
            publish: self.publish.clone(),
            gate: self.gate,
            wall: self.timeout,
            memory: self.memory,
            pids: self.pids,
        }
    }
}
