//! `keyward redeem`: inside a cage, swaps a token for the secret that it is worth.

use crate::args::RedeemArgs;
use crate::say;
use keyward_policy::trouble::{Code, Trouble};
use keyward_protocol::vault::{REDEMPTION, ROOM_FOR_REDEEMED, Redeemed};
use keyward_sys::{Errno, channel, confine, memory};
use keyward_vault::token;
use rustix::fd::{AsFd, OwnedFd};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use zeroize::Zeroizing;

/// More than a key and a sealed token have.
const MOST: usize = 4096;

pub fn redeem(args: &RedeemArgs) -> i32 {
    let (fact, remedy) = match swap(args.fd) {
        Ok(value) if args.command.is_empty() => return print(&value),
        Ok(value) => return run(args, &value),
        Err(why) => why,
    };
    say::failure(&Trouble::new(Code::TokenUsed, fact, remedy))
}

type Why = (&'static str, &'static str);

const NO_TOKEN: Why = (
    "there is no token in this descriptor",
    "`keyward run --secret NAME=token -- CMD` puts one into the cage; its number is in NAME_TOKEN_FD",
);
const WORTHLESS: Why = (
    "this token is invalid",
    "a token works once, within a minute, in the cage it was made for; run the command again",
);

fn swap(number: i32) -> Result<OwnedFd, Why> {
    let file = keyward_sys::own(number).map_err(|_| NO_TOKEN)?;
    let mut bytes = Zeroizing::new([0; MOST]);
    // Read from its beginning, even if another process has read it before.
    let length = std::fs::File::from(file).read_at(&mut *bytes, 0).map_err(|_| NO_TOKEN)?;
    let text = std::str::from_utf8(&bytes[..length]).ok().filter(|text| !text.is_empty());
    let token = token::open(text.ok_or(NO_TOKEN)?).ok_or(WORTHLESS)?;
    offer(&token)
        .map_err(|_| {
            ("there is no vault to swap a token at", "this cage was not started with `--secret NAME=token`")
        })?
        .ok_or(WORTHLESS)
}

fn offer(token: &[u8]) -> Result<Option<OwnedFd>, Errno> {
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    rustix::net::connect(&socket, &SocketAddrUnix::new(REDEMPTION)?)?;
    channel::send(&socket, token, &[])?;
    let mut word = [0; ROOM_FOR_REDEEMED];
    let answer = channel::receive(&socket, &mut word)?;
    let taken = word.get(..answer.length).and_then(Redeemed::decode) == Some(Redeemed::Taken);
    Ok(answer.descriptors.into_iter().next().filter(|_| taken))
}

fn print(value: &OwnedFd) -> i32 {
    let out = rustix::stdio::stdout();
    if rustix::termios::isatty(out) {
        return say::failure(&Trouble::new(
            Code::Usage,
            "a secret is not printed on a terminal",
            "pass it on: `keyward redeem --fd N | program`, or `keyward redeem --fd N -- program`",
        ));
    }
    match memory::copy(value, out) {
        Ok(_) => 0,
        Err(errno) => {
            let fact = format!("the secret could not be passed on: {}", keyward_sys::file::reason(errno));
            say::failure(&Trouble::new(Code::TokenUsed, fact, "its token is used up; run the command again"))
        }
    }
}

/// Runs a program that has the secret where the token was, and is told so.
fn run(args: &RedeemArgs, value: &OwnedFd) -> i32 {
    let mut command = Command::new(&args.command[0]);
    command.args(&args.command[1..]);
    for (name, number) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if let (Some(base), true) =
            (name.strip_suffix("_TOKEN_FD"), number.to_str() == Some(&args.fd.to_string()))
        {
            command.env_remove(&*name).env(format!("{base}_FD"), &number);
        }
    }
    if confine::place(args.fd, &[value.as_fd()]).is_err() {
        return say::failure(&Trouble::new(
            Code::TokenUsed,
            "the secret could not be put into its descriptor",
            "its token is used up; run the command again",
        ));
    }
    let error = command.exec();
    let program = keyward_policy::text::visible(&args.command[0]);
    say::trouble(
        &format!("cannot run {program}: {}", say::cause(&error)),
        "its token is used up; check the spelling",
    );
    if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 }
}
