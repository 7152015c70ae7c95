//! `keyward`: reads the arguments, and hands each command to its own file. `run.rs` holds the main story.
#![forbid(unsafe_code)]

mod approvals;
mod args;
mod bare;
mod check;
mod checkup;
mod decide;
mod doctor;
mod environment;
mod explain;
mod files;
mod here;
mod home;
mod hooked;
mod log;
mod mcp;
mod missing;
mod names;
mod network;
mod phantom_logins;
mod policy_command;
mod quarantine;
mod question;
mod read;
mod redact;
mod redeem;
mod rewrite;
mod run;
mod say;
mod secret;
mod services;
mod session;
mod shell_help;
mod shim;
mod supply;
mod told;
mod vault;
mod why;
mod witness;

use args::Command;
use keyward_protocol::services::Room;
use keyward_sys::environ::Block;

fn main() {
    // Before anything else: no process of the same user may read our memory, and the caller's environment stays where it is, uncopied.
    let _ = keyward_sys::confine::become_opaque();
    say::streams::remember();
    let mut block = Block::take();
    if let Some(program) = shim::stands_for() {
        std::process::exit(shim::run(program, &block));
    }
    let exit = match args::parse() {
        Ok(command) => dispatch(command, &mut block),
        // Help and the version are answers.
        Err(answer) if !answer.use_stderr() => {
            let _ = answer.print();
            0
        }
        Err(mistake) => args::mistake::tell(&mistake),
    };
    block.wipe();
    std::process::exit(say::settle(exit));
}

fn dispatch(command: Command, block: &mut Block) -> i32 {
    match command {
        Command::Run(args) => run::run(args, block),
        Command::Bare(typed) => bare::bare(typed, block),
        Command::Explain(args) => explain::explain(args, block),
        Command::Why(args) => why::why(args, block),
        Command::Mcp(args) => mcp::mcp(*args, block),
        Command::McpServer(_) => {
            // Parsed, so that a mistake is told here; the room hands the same words to each run.
            services::become_room(Room::Mcp, false, std::env::args_os().skip(2).collect())
        }
        Command::Env(args) => environment::env(&args, block),
        Command::Read(args) => read::read(args, block),
        Command::Doctor(args) if args.attack => {
            services::become_room(Room::Attack, args.json, args.only.map(Into::into).into_iter().collect())
        }
        Command::Doctor(args) if args.inside => doctor::agents::look_inside(block),
        Command::Doctor(args) if args.agents => doctor::agents::agents(&args, block),
        Command::Scan(args) => services::become_room(Room::Scan, args.json, args.words()),
        Command::Doctor(args) if args.profile.is_some() => checkup::checkup(&args, block),
        Command::Doctor(args) => doctor::doctor(args, block),
        Command::Policy(args) => policy_command::policy(args, block),
        Command::Profiles(args) => policy_command::profiles(&args, block),
        Command::Home(args) => home::home(args, block),
        Command::Shell(args) => run::shell(args, block),
        Command::Session(args) => session::session(args, block),
        Command::Exec(args) => session::exec(args, block),
        Command::Ps(args) => session::ps(&args, block),
        Command::Attach(args) => session::attach(&args, block),
        Command::Logs(args) => session::logs(&args, block),
        Command::Interrupt(args) => session::interrupt(&args, block),
        Command::Call(args) => session::call(&args, block),
        Command::Kill(args) => session::kill(&args, block),
        Command::Quarantine(args) => quarantine::quarantine(args, block),
        Command::Secret(args) => secret::secret(args, block),
        Command::Check(args) => check::check(&args, block),
        Command::Approvals(args) => approvals::approvals(args, block),
        Command::Grants(args) => approvals::grants(args, block),
        Command::Grant(args) => session::grant(&args, block),
        Command::Init(args) => hooked::init::init(&args, block),
        Command::Hook(args) => hooked::hook::hook(args.agent, block),
        Command::AgentShell(args) => hooked::shell::shell(args, block),
        Command::ClaudeShell(args) => hooked::shell::claude(args, block),
        Command::Redact(args) => redact::redact(&args, block),
        Command::Log(args) => log::log(&args, block),
        Command::Redeem(args) => redeem::redeem(&args),
        Command::Completions(args) => shell_help::completions(args),
        Command::Names(words) => names::complete(&words, block),
        Command::Man(args) => shell_help::man(args),
        Command::Help(args) => shell_help::help(&args),
        Command::Version(args) => shell_help::version(&args),
    }
}
