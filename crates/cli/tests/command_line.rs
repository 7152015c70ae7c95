//! The words a person sees: one case per message. `TRYCMD=overwrite cargo test --test command_line` writes them anew.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[test]
fn every_message_reads_as_written() {
    trycmd::TestCases::new()
        .case("tests/cmd/*.trycmd")
        .env("HOME", "/var/tmp/keyward-trycmd/home")
        .env("TERM", "xterm")
        .env("XDG_STATE_HOME", "/var/tmp/keyward-trycmd/state")
        .run();
}
