//! `keyward-services`, the second executable. It is built here so that one `cargo install` installs both; what it does is in the crate of
//! its name.
#![forbid(unsafe_code)]

/// Overwrites what is freed, in the rooms that handle credentials and ask for it.
#[global_allocator]
static ALLOCATOR: keyward_sys::wiping::Wiping = keyward_sys::wiping::Wiping;

fn main() {
    std::process::exit(keyward_services::main());
}
