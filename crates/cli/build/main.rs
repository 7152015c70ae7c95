//! How the programs are linked. `tools/build-release` uses it to put the launcher's functions in the order of their first use.

#![allow(clippy::print_stdout)]

use std::env::var_os;

fn main() {
    println!("cargo::rerun-if-changed=build/main.rs");
    for name in ["KEYWARD_SYMBOLS", "KEYWARD_FUNCTION_ORDER"] {
        println!("cargo::rerun-if-env-changed={name}");
    }
    // Not by the profile: the names of functions would then differ between the build that lists them and the one that orders them.
    if var_os("PROFILE").is_some_and(|profile| profile == "release") && var_os("KEYWARD_SYMBOLS").is_none() {
        println!("cargo::rustc-link-arg-bins=-Wl,--strip-all");
    }
    if let Some(order) = var_os("KEYWARD_FUNCTION_ORDER") {
        let order = order.display();
        println!("cargo::rerun-if-changed={order}");
        println!(
            "cargo::rustc-link-arg-bin=keyward=-Wl,--no-warn-symbol-ordering,--symbol-ordering-file={order}"
        );
    }
}
