//! The arguments, turned into their final types at the door.

mod home;
pub mod mistake;
mod policy_flags;
mod scan;
#[cfg(test)]
mod told;
mod values;

use crate::here::Here;
use crate::names::NAMES_COMMAND;
use crate::say;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
pub use home::{HomeArgs, HomeCommand, ToolArgs};
use keyward_gate::Language;
use keyward_ledger::Kept;
use keyward_policy::config::nearest;
use keyward_policy::hook::Agent;
pub use policy_flags::{EnvArgs, PolicyFlags};
use rustix::fd::OwnedFd;
pub use scan::ScanArgs;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::Duration;

/// Runs whatever an AI agent spawns without handing over your keys.
#[derive(Parser)]
#[command(name = "keyward", version, disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

/// `keyward run` on its own: what is started often does not describe all the other commands to the parser first.
#[derive(Parser)]
#[command(name = "run", bin_name = "keyward run", about = "Run one command in a cage")]
struct RunAlone {
    #[command(flatten)]
    args: RunArgs,
}

/// `keyward mcp` on its own: a client waits for it.
#[derive(Parser)]
#[command(name = "mcp", bin_name = "keyward mcp", about = MCP)]
struct McpAlone {
    #[command(flatten)]
    args: McpArgs,
}

const MCP: &str = "Run an MCP server in a cage of its own; its client speaks to it on stdin and stdout";

/// The command, from the process's own arguments.
pub fn parse() -> Result<Command, clap::Error> {
    parse_from(std::env::args_os())
}

fn parse_from(mut arguments: impl Iterator<Item = OsString>) -> Result<Command, clap::Error> {
    let program = arguments.next();
    let mut rest = arguments.collect::<Vec<_>>().into_iter().peekable();
    if rest.peek().is_some_and(|first| first == "run") {
        return RunAlone::try_parse_from(rest).map(|run| Command::Run(run.args));
    }
    if let Some(hooked) = for_agent(rest.clone().collect::<Vec<_>>().as_slice()) {
        return Ok(hooked);
    }
    if rest.peek().is_some_and(|first| first == "mcp") {
        return McpAlone::try_parse_from(rest).map(|mcp| Command::Mcp(mcp.args.into()));
    }
    if rest.next_if(|first| first == NAMES_COMMAND).is_some() {
        return Ok(Command::Names(rest.collect()));
    }
    if rest.next_if(|first| first == "--").is_some() && rest.peek().is_some() {
        return Ok(Command::Bare(Bare { command: rest.collect(), behind_dashes: true }));
    }
    let mut cli = Cli::command();
    if let Some(first) = rest.peek() {
        let is_subcommand = first.to_str().is_some_and(|name| cli.find_subcommand(name).is_some());
        if !is_subcommand && !first.as_bytes().starts_with(b"-") && !first.is_empty() {
            return Ok(Command::Bare(Bare { command: rest.collect(), behind_dashes: false }));
        }
        if let Some(flag) = flag_of_run(first) {
            let message = format!("'{flag}' belongs after a subcommand; type 'keyward run {flag} ...'");
            return Err(cli.error(ErrorKind::UnknownArgument, message));
        }
    }
    let mut matches =
        cli.try_get_matches_from_mut(program.into_iter().chain(rest)).map_err(near_names_only)?;
    if answers_in_json(&matches) {
        say::failures_as_json();
    }
    Cli::from_arg_matches_mut(&mut matches).map(|cli| cli.command)
}

/// What agents start for each call of a tool, read without describing all the other commands to the parser first.
fn for_agent(words: &[OsString]) -> Option<Command> {
    let agent = |word: &OsString| word.to_str().and_then(Agent::of_word);
    match words {
        [hook, word] if hook == "hook" => Some(Command::Hook(HookArgs { agent: agent(word)? })),
        [shell, word, session, dashes, line] if shell == "agent-shell" && dashes == "--" => {
            let session = session.to_str()?.to_owned();
            let (allowed, directory_file) = (false, None);
            let (agent, line) = (agent(word)?, line.clone());
            Some(Command::AgentShell(AgentShellArgs { agent, session, allowed, directory_file, line }))
        }
        [shell, dashes, line] if shell == "claude-shell" && dashes == "--" => {
            Some(Command::ClaudeShell(ClaudeShellArgs { line: line.clone() }))
        }
        _ => None,
    }
}

/// Whether the subcommand was given `--json`.
fn answers_in_json(matches: &ArgMatches) -> bool {
    match matches.subcommand() {
        Some((_, below)) => answers_in_json(below),
        None => matches.try_get_one::<bool>("json").ok().flatten().copied().unwrap_or(false),
    }
}

/// Takes suggestions out of an error that have little in common with what was typed.
fn near_names_only(mut error: clap::Error) -> clap::Error {
    let typed = error.get(ContextKind::InvalidSubcommand).map(ToString::to_string).unwrap_or_default();
    if let Some(ContextValue::Strings(names)) = error.remove(ContextKind::SuggestedSubcommand) {
        let near: Vec<String> =
            names.into_iter().filter(|name| nearest(&typed, [name.as_str()]).is_some()).collect();
        if !near.is_empty() {
            error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(near));
        }
    }
    error
}

/// A flag that belongs to `run`, without its value.
fn flag_of_run(word: &OsStr) -> Option<String> {
    let word = word.to_str()?;
    let flag = word.split_once('=').map_or(word, |(flag, _)| flag);
    let run = RunAlone::command();
    let has_flag = |arg: &clap::Arg| match flag.strip_prefix("--") {
        Some(long) => arg.get_long() == Some(long),
        None => flag
            .strip_prefix('-')
            .is_some_and(|short| arg.get_short().map(String::from) == Some(short.into())),
    };
    run.get_arguments().any(has_flag).then(|| flag.to_owned())
}

#[derive(Subcommand)]
pub enum Command {
    /// Run one command in a cage
    Run(RunArgs),
    /// Show what a run would do, promise by promise; runs nothing
    Explain(ExplainArgs),
    /// Show which rule decides about a variable or a path
    Why(WhyArgs),
    /// Show which variables a child may have that you spawn yourself
    Env(EnvArgs),
    /// Print a file, unless it holds a credential; for the file tools of an agent
    Read(ReadArgs),
    /// Test what this host can do, and show how to fix what is missing
    Doctor(DoctorArgs),
    /// Find every place of a code base that starts a process, and what environment the child gets
    Scan(ScanArgs),
    /// Check, show or describe policy files
    Policy(PolicyArgs),
    /// List the profiles: yours, and the built-in ones of agents
    Profiles(PsArgs),
    /// The HOMEs of profiles, and the logins of tools that they show
    Home(HomeArgs),
    /// An interactive shell in a cage
    Shell(ShellArgs),
    /// Start or stop a session: a cage that stays, for many commands
    Session(SessionArgs),
    /// Run a command in a session
    Exec(ExecArgs),
    /// Show the sessions and their jobs
    Ps(PsArgs),
    /// Take over the terminal of a job; Ctrl-] leaves it
    Attach(AttachArgs),
    /// Show the output that is kept of a background job
    Logs(LogsArgs),
    /// Interrupt a job, as Ctrl-C does
    Interrupt(TargetArgs),
    /// End a job with everything it has started
    Kill(TargetArgs),
    /// Call a function that the program around this session offers
    Call(CallArgs),
    /// Look at what was taken out of projects; put it back, or remove it
    Quarantine(QuarantineArgs),
    /// Secrets: where their values come from, and the store that keeps some of them
    Secret(SecretArgs),
    /// Judge a command or a script by its text; starts nothing
    Check(CheckArgs),
    /// Show the questions that commands wait for, and allow or deny them
    Approvals(ApprovalsArgs),
    /// Show or revoke what you have allowed in advance
    Grants(GrantsArgs),
    /// Allow a running session more, for a time
    Grant(GrantArgs),
    /// Copy a stream, without the secrets in it
    Redact(RedactArgs),
    /// Show what is recorded
    Log(LogArgs),
    /// In a cage: swap a token for its secret
    Redeem(RedeemArgs),
    /// Send the tool calls of an agent that you start yourself into a session: writes its settings, after showing the change
    Init(InitArgs),
    /// Answer an agent that asks before it uses a tool; `keyward init` names this in the agent's settings
    Hook(HookArgs),
    /// Run one line of an agent's shell in its session; for what `keyward hook` answers
    #[command(hide = true)]
    AgentShell(AgentShellArgs),
    /// Run what Claude Code starts; `keyward init claude-code` has it put this before each line
    #[command(hide = true)]
    ClaudeShell(ClaudeShellArgs),
    #[command(about = MCP)]
    Mcp(Box<McpArgs>),
    /// Serve the tools run, read and why to an agent, by the Model Context Protocol on stdin and stdout
    McpServer(Box<McpServerArgs>),
    /// Print the completions for a shell
    Completions(CompletionsArgs),
    /// Write the man pages into a directory
    Man(ManArgs),
    /// Print help, also of a subcommand
    Help(HelpArgs),
    /// Print the version
    Version(PsArgs),
    /// The words that a shell wants to complete
    #[command(skip)]
    Names(Vec<OsString>),
    /// A program of PATH, or the command after `--`
    #[command(skip)]
    Bare(Bare),
}

#[derive(Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub policy: PolicyFlags,
    /// Write the outcome as one line of JSON, the last of stderr
    #[arg(long, conflicts_with = "outcome_fd")]
    pub json: bool,
    /// Write the outcome as JSON to this descriptor
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(3..))]
    pub outcome_fd: Option<i32>,
    /// Report what was withheld and which promises held
    #[arg(short, long)]
    pub verbose: bool,
    /// Print nothing unless something was refused or lost
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
    /// Whether it is a server that a program speaks to: it asks nothing at a terminal, and has none.
    #[arg(skip)]
    pub serves: bool,
}

impl RunArgs {
    /// A run that nothing was said about but its profile.
    pub fn plain(profile: Option<String>, command: Vec<OsString>) -> Self {
        let policy = PolicyFlags { profile, ..PolicyFlags::default() };
        RunArgs {
            policy,
            json: false,
            outcome_fd: None,
            verbose: false,
            quiet: false,
            command,
            serves: false,
        }
    }

    /// Whether notices are for a reader who wants them.
    pub fn tells(&self, here: &Here) -> bool {
        !self.json && (self.verbose || (here.caller.terminals[2] && !self.quiet))
    }
}

/// A command without the word `run` before it.
pub struct Bare {
    pub command: Vec<OsString>,
    /// Whether `--` says that it is a command, whatever its name.
    pub behind_dashes: bool,
}

#[derive(Args)]
pub struct ShellArgs {
    #[command(flatten)]
    pub policy: PolicyFlags,
}

#[derive(Args)]
pub struct McpArgs {
    #[command(flatten)]
    pub policy: PolicyFlags,
    /// Report on stderr what was withheld and which promises held
    #[arg(short, long)]
    pub verbose: bool,
    /// The server and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

#[derive(Args)]
pub struct McpServerArgs {
    #[command(flatten)]
    pub policy: PolicyFlags,
}

#[derive(Args)]
pub struct SessionArgs {
    #[command(subcommand)]
    pub command: SessionCommand,
}

#[derive(Subcommand)]
pub enum SessionCommand {
    /// Start a session and print its name
    Start(Box<SessionStartArgs>),
    /// Show the sessions and their jobs, as `keyward ps` does
    #[command(alias = "ls")]
    List(PsArgs),
    /// End a session with everything in it
    Stop {
        name: String,
        /// Print the result as JSON: on stdout, or as the last line of stderr if it failed
        #[arg(long)]
        json: bool,
    },
    /// Carry the messages of the session socket as lines, for SDKs of languages without descriptors
    #[command(hide = true)]
    Bridge {
        name: String,
        /// Stop the session when the input ends
        #[arg(long)]
        stop: bool,
    },
}

#[derive(Args)]
pub struct SessionStartArgs {
    /// The name of the session; without one, Keyward chooses it
    #[arg(long)]
    pub name: Option<String>,
    /// Run commands as lines of one shell that keeps its directory, variables, functions and options
    #[arg(long)]
    pub shell: bool,
    /// Print the name as JSON
    #[arg(long)]
    pub json: bool,
    /// End the session unless a client owns it within this time; for SDKs
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub owned_within: Option<Duration>,
    /// The process that the session ends with. A session that has one was not started by a person, and its name is not printed.
    #[arg(skip)]
    pub ends_with: Option<OwnedFd>,
    /// Whether only what was refused or lost is told.
    #[arg(skip)]
    pub quiet: bool,
    #[command(flatten)]
    pub policy: PolicyFlags,
}

#[derive(Args)]
pub struct ExecArgs {
    /// The session
    pub session: String,
    /// Run it on a terminal of the cage's own
    #[arg(long)]
    pub pty: bool,
    /// Run it in the background; its output is kept
    #[arg(long)]
    pub background: bool,
    /// Interrupt, then end the command after this time, such as 30s or 10m
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub timeout: Option<Duration>,
    /// Run it in a cage of its own, under the same policy
    #[arg(long)]
    pub fresh: bool,
    /// Run in this directory
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,
    /// Write the outcome as JSON to the last line of stderr
    #[arg(long, conflicts_with = "outcome_fd")]
    pub json: bool,
    /// Write the outcome as JSON to this descriptor
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(3..))]
    pub outcome_fd: Option<i32>,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

#[derive(Args)]
pub struct InitArgs {
    /// The agent: claude-code, codex, gemini, hermes or opencode; or mcp, for the MCP servers of all agents
    #[arg(value_parser = values::INIT, hide_possible_values = true, value_name = "AGENT")]
    pub what: InitWhat,
    /// Change the settings of this project
    #[arg(long)]
    pub project: bool,
    /// Show the change and make none
    #[arg(long)]
    pub dry_run: bool,
    /// Take the change back
    #[arg(long)]
    pub undo: bool,
    /// Make the change without asking
    #[arg(short, long)]
    pub yes: bool,
}

/// What `keyward init` is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitWhat {
    Agent(Agent),
    /// The MCP servers of all agents.
    Mcp,
}

impl InitWhat {
    fn of_word(word: &str) -> Option<Self> {
        match word {
            "mcp" => Some(InitWhat::Mcp),
            _ => Agent::of_word(word).map(InitWhat::Agent),
        }
    }
}

#[derive(Args)]
pub struct HookArgs {
    /// The agent that asks
    #[arg(value_parser = values::AGENT, hide_possible_values = true)]
    pub agent: Agent,
}

#[derive(Args)]
pub struct AgentShellArgs {
    #[arg(value_parser = values::AGENT)]
    pub agent: Agent,
    /// The agent's own name for its session
    pub session: String,
    /// The agent's user was asked about this very line, and has said yes
    #[arg(long)]
    pub allowed: bool,
    /// Where to tell the directory that the line ends in
    #[arg(long)]
    pub directory_file: Option<PathBuf>,
    #[arg(last = true, required = true)]
    pub line: OsString,
}

#[derive(Args)]
pub struct ClaudeShellArgs {
    #[arg(last = true, required = true)]
    pub line: OsString,
}

#[derive(Args)]
pub struct CallArgs {
    /// The session; not needed inside the cage of one
    #[arg(long, value_name = "NAME")]
    pub session: Option<String>,
    /// The function
    pub name: String,
    /// The input of the function, as JSON
    #[arg(default_value = "null")]
    pub input: String,
}

#[derive(Args)]
pub struct PsArgs {
    /// Print them as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct AttachArgs {
    /// SESSION/JOB
    pub target: String,
}

#[derive(Args)]
pub struct LogsArgs {
    /// SESSION/JOB
    pub target: String,
    /// Follow the output until the job has ended
    #[arg(short, long)]
    pub follow: bool,
}

#[derive(Args)]
pub struct TargetArgs {
    /// SESSION/JOB
    pub target: String,
}

#[derive(Args)]
pub struct ExplainArgs {
    #[command(flatten)]
    pub policy: PolicyFlags,
    /// Print the plan as JSON
    #[arg(long)]
    pub json: bool,
    /// Also name every variable and every place
    #[arg(short, long)]
    pub verbose: bool,
    /// Print what a run would do to build the cage, step by step
    #[arg(long, conflicts_with = "verbose")]
    pub steps: bool,
    /// Explain the cage of a session, which its commands share
    #[arg(long)]
    pub session: bool,
    /// Explain the cage of an MCP server, as `keyward mcp` makes it
    #[arg(long, conflicts_with = "session")]
    pub mcp: bool,
    /// The command and its arguments
    #[arg(trailing_var_arg = true, required_unless_present = "session", value_name = "CMD")]
    pub command: Vec<OsString>,
}

#[derive(Clone, Copy, ValueEnum)]
pub enum Subject {
    Env,
    Read,
    Write,
    Exec,
    Net,
}

#[derive(Args)]
pub struct WhyArgs {
    /// What the question is about
    pub subject: Subject,
    /// The variable's name, the path, or the host as HOST[:PORT][/PATH]
    pub object: OsString,
    #[command(flatten)]
    pub policy: PolicyFlags,
    /// Print the decision as JSON
    #[arg(long)]
    pub json: bool,
    /// Ask about the cage of a session, which its commands share
    #[arg(long)]
    pub session: bool,
    /// The command this is about
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

#[derive(Args)]
pub struct ReadArgs {
    /// The file
    pub path: PathBuf,
    /// Print no more than this, such as 64K or 10M
    #[arg(long, value_name = "SIZE", value_parser = values::size, default_value = "10M")]
    pub max: u64,
    /// Write the result as one line of JSON, the last of stderr
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct DoctorArgs {
    /// Ask each tool whose login this profile shows whether it is logged in, in the cage
    #[arg(short, long, conflicts_with_all = ["fix", "attack"])]
    pub profile: Option<String>,
    /// Print the findings as JSON
    #[arg(long)]
    pub json: bool,
    /// Show the fix for this host; with --apply, do it
    #[arg(long)]
    pub fix: bool,
    /// Do what --fix shows
    #[arg(long, requires = "fix")]
    pub apply: bool,
    /// Attack the cage of this host: everything is tried outside and inside, on a stage that is thrown away
    #[arg(long, conflicts_with = "fix")]
    pub attack: bool,
    /// Try only the attack of this name
    #[arg(long, value_name = "NAME", requires = "attack")]
    pub only: Option<String>,
    /// Show how each installed agent is protected and what is still exposed; tried in the cage of its profile
    #[arg(long, conflicts_with_all = ["profile", "fix", "attack"])]
    pub agents: bool,
    /// In the cage: look for what standard input names
    #[arg(long, requires = "agents", hide = true)]
    pub inside: bool,
}

#[derive(Args)]
pub struct PolicyArgs {
    #[command(subcommand)]
    pub command: PolicyCommand,
}

#[derive(Subcommand)]
pub enum PolicyCommand {
    /// Check a policy file; without one, your own
    Check {
        file: Option<PathBuf>,
        /// Print the mistakes as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the effective policy, and where each value comes from
    Show {
        #[command(flatten)]
        policy: Box<PolicyFlags>,
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the JSON Schema of policy files
    Schema,
}

#[derive(Args)]
pub struct SecretArgs {
    #[command(subcommand)]
    pub command: SecretCommand,
}

#[derive(Subcommand)]
pub enum SecretCommand {
    /// Add or change a secret; its value is typed, or read from standard input, and never an argument
    Set(SecretSetArgs),
    /// Show which secrets there are
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what is known of a secret
    Show {
        #[arg(value_name = "NAME")]
        name: String,
        /// Show the value as well: on a terminal, when you say so again; it is recorded
        #[arg(long)]
        reveal: bool,
        /// Print JSON
        #[arg(long, conflicts_with = "reveal")]
        json: bool,
    },
    /// Remove a secret, and its value from the store
    Rm {
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Import the credentials of a .env file into the store
    Import {
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Replace the values in the file by references
        #[arg(long)]
        blank: bool,
    },
}

#[derive(Args)]
pub struct SecretSetArgs {
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Where the value comes from, such as pass://work/github; without it, the store keeps it
    #[arg(long, value_name = "REF")]
    pub from: Option<String>,
    /// A host that it is for, with a path or a method if it is for those only; a provider's name needs none
    #[arg(long, value_name = "HOST[/PATH]")]
    pub to: Vec<String>,
    /// The parts of a request in which its phantom is replaced: header, basic, query, path, body
    #[arg(long = "in", value_name = "PLACE", value_delimiter = ',')]
    pub places: Vec<String>,
    /// The service and region that requests to AWS are signed for, if the host does not say it
    #[arg(long, value_name = "SERVICE/REGION")]
    pub aws: Option<String>,
    /// The variable that programs expect it in
    #[arg(long = "as", value_name = "VAR")]
    pub variable: Option<String>,
    /// Where the key of a new store lies: keyring, passphrase, file, or the identity file of an age plugin
    #[arg(long, value_name = "WHERE", conflicts_with = "from")]
    pub identity: Option<String>,
}

#[derive(Args)]
pub struct CheckArgs {
    #[command(flatten)]
    pub policy: PolicyFlags,
    /// Print one line of JSON
    #[arg(long)]
    pub json: bool,
    /// What the text is written in: sh, python or js; without it, words behind `--` are a program and its arguments
    #[arg(long, value_name = "LANG", value_parser = values::LANGUAGE, hide_possible_values = true)]
    pub lang: Option<Language>,
    /// The command; without one, a script is read from standard input
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ApprovalsArgs {
    #[command(subcommand)]
    pub command: Option<ApprovalsCommand>,
    /// Wait for questions, and answer them on this terminal
    #[arg(short, long, conflicts_with_all = ["all", "json"])]
    pub follow: bool,
    #[command(flatten)]
    pub list: ApprovalsListArgs,
}

#[derive(Args)]
pub struct ApprovalsListArgs {
    /// Also questions that are no longer pending
    #[arg(long)]
    pub all: bool,
    /// Print them as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Subcommand)]
pub enum ApprovalsCommand {
    /// Show the questions that wait for an answer
    List(ApprovalsListArgs),
    /// Show everything that is known of a question
    Show {
        /// The number of the question
        #[arg(value_name = "ID")]
        id: u64,
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Allow a pending question, or allow a refused one in advance
    Allow(AllowArgs),
    /// Deny a question; in a session the answer counts for everything of the same rule
    Deny {
        /// The number of the question
        #[arg(value_name = "ID")]
        id: u64,
    },
    /// Revoke a `never`, or a no that counts for a session: the rule of this question is asked about again
    Forget {
        /// The number of the question
        #[arg(value_name = "ID")]
        id: u64,
    },
}

#[derive(Args)]
pub struct AllowArgs {
    /// The number of the question
    #[arg(value_name = "ID")]
    pub id: u64,
    /// Also allow it again within this time, such as 10m, 1h or 7d (30d at most)
    #[arg(long = "for", value_name = "TIME", value_parser = values::grant_time)]
    pub time: Option<Duration>,
    /// Also allow it again so many times (1000 at most)
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub uses: Option<u32>,
    /// Not only these very bytes, but everything of this class, which must be that of the question
    #[arg(long, value_name = "CLASS")]
    pub class: Option<String>,
}

#[derive(Args)]
pub struct GrantArgs {
    #[command(subcommand)]
    pub command: GrantCommand,
}

#[derive(Subcommand)]
pub enum GrantCommand {
    /// Allow hosts, such as api.linear.app or a preset such as npm
    Net {
        /// Rules and presets, as behind --allow-net
        #[arg(value_name = "RULE", required = true)]
        rules: Vec<String>,
        /// For so long, such as 10m or 1h (30d at most)
        #[arg(long = "for", value_name = "TIME", value_parser = values::grant_time)]
        time: Duration,
        /// The session; without it, the only one that runs
        #[arg(long, value_name = "NAME")]
        session: Option<String>,
    },
}

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct GrantsArgs {
    #[command(subcommand)]
    pub command: Option<GrantsCommand>,
    /// Print them as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Subcommand)]
pub enum GrantsCommand {
    /// Show the grants that are still valid
    List {
        /// Print them as JSON
        #[arg(long)]
        json: bool,
    },
    /// Take a grant back
    Revoke {
        /// The number of the grant
        #[arg(value_name = "ID", required_unless_present = "all", conflicts_with = "all")]
        id: Option<u64>,
        /// Revoke all grants
        #[arg(long)]
        all: bool,
    },
}

#[derive(Args)]
pub struct RedactArgs {
    /// The secret to look for; without one, all of them
    #[arg(long = "secret", value_name = "NAME")]
    pub secrets: Vec<String>,
}

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct LogArgs {
    #[command(subcommand)]
    pub command: Option<LogCommand>,
    #[command(flatten)]
    pub filter: LogFilter,
    /// Print the events as they are recorded, one JSON object a line
    #[arg(long)]
    pub json: bool,
    /// Only the last N events; on a terminal the last 100, elsewhere all
    #[arg(short = 'n', long, value_name = "N")]
    pub lines: Option<usize>,
    /// Follow what is recorded from now on
    #[arg(short, long)]
    pub follow: bool,
    /// Print the lines of policy that would have allowed what was denied
    #[arg(long, requires = "denied", conflicts_with_all = ["json", "follow", "lines"])]
    pub suggest: bool,
}

#[derive(Subcommand)]
pub enum LogCommand {
    /// Find any change, cut, insertion or other order in the record
    Verify(LogVerifyArgs),
    /// Print the number and the digest of the last event, to be kept elsewhere
    Head,
    /// Print events for another program
    Export(LogExportArgs),
}

/// Which events; each word narrows further.
#[derive(Args)]
pub struct LogFilter {
    /// Only what was refused or denied
    #[arg(long)]
    pub denied: bool,
    /// Only the network: what was denied, what was reached, which secrets were used there
    #[arg(long)]
    pub net: bool,
    /// Only what happened in this session
    #[arg(long, value_name = "NAME")]
    pub session: Option<String>,
    /// Only events that say who could read this secret, when, and how
    #[arg(long, value_name = "NAME")]
    pub secret: Option<String>,
    /// Only events since then: 1h, 2026-01-31, or 2026-01-31T12:00:00Z
    #[arg(long, value_name = "WHEN", value_parser = values::since)]
    pub since: Option<u64>,
}

#[derive(Args)]
pub struct LogVerifyArgs {
    /// A digest that `keyward log head` has printed, and that has to be in the chain
    #[arg(long, value_name = "DIGEST", value_parser = values::head)]
    pub head: Vec<Kept>,
    /// A file with lines of `keyward log head`, or of a witness
    #[arg(long, value_name = "FILE")]
    pub head_file: Option<PathBuf>,
    /// Print what was found as JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
pub struct LogExportArgs {
    /// One JSON object a line
    #[arg(long, required_unless_present = "csv", conflicts_with = "csv")]
    pub jsonl: bool,
    /// A table for spreadsheets
    #[arg(long)]
    pub csv: bool,
    #[command(flatten)]
    pub filter: LogFilter,
}

#[derive(Args)]
pub struct RedeemArgs {
    /// The descriptor with the token, as NAME_TOKEN_FD says
    #[arg(long, value_name = "N")]
    pub fd: i32,
    /// A program that gets the secret in the same descriptor; without one, the secret goes to standard output
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Args)]
pub struct QuarantineArgs {
    #[command(subcommand)]
    pub command: QuarantineCommand,
}

#[derive(Subcommand)]
pub enum QuarantineCommand {
    /// Show each entry: where it was, which program would run it, which command made it
    List {
        /// Print the entries as JSON
        #[arg(long)]
        json: bool,
    },
    /// Put an entry back where it was
    Restore {
        id: String,
        /// Replace what is there now; that is kept in the quarantine
        #[arg(long)]
        force: bool,
    },
    /// Remove an entry for good
    Drop {
        #[arg(required_unless_present = "all", conflicts_with = "all")]
        id: Option<String>,
        /// Remove all entries
        #[arg(long)]
        all: bool,
    },
}

#[derive(Args)]
pub struct CompletionsArgs {
    pub shell: clap_complete::Shell,
}

#[derive(Args)]
pub struct HelpArgs {
    /// The subcommand, such as run or session start
    #[arg(value_name = "SUBCOMMAND")]
    pub path: Vec<String>,
}

#[derive(Args)]
pub struct ManArgs {
    /// The directory to write to
    pub folder: PathBuf,
}
