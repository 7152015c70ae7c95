//! `keyward-services`, the second executable. It is built here so that one `cargo install` installs both; what it does is in the crate of
//! its name.
#![forbid(unsafe_code)]

fn main() {
    std::process::exit(keyward_services::main());
}
