//! What a fetch from the store costs with an identity in a file: `cargo run --release -p keyward-vault --example store_speed`.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

use keyward_policy::secret::{Reference, SecretName};
use keyward_vault::secret::Secret;
use keyward_vault::source::{Limits, Surroundings, fetch};
use keyward_vault::store::{Start, Store};
use std::time::Instant;

fn main() {
    let folder = std::env::temp_dir().join(format!("keyward-store-speed-{}", std::process::id()));
    let store = folder.join("store");
    let variable = |_: &str| None;
    let surroundings = Surroundings {
        home: &folder,
        store: &store,
        variable: &variable,
        terminal: None,
        limits: Limits::default(),
    };
    let kept = Store::new(&surroundings);
    kept.init(Start::File).unwrap();
    let name = SecretName::parse("a").unwrap();
    let value = Secret::read(b"0123456789abcdef0123456789abcdef".as_slice()).ok().unwrap();
    let times = |what: &str, act: &dyn Fn()| {
        let mut all: Vec<u128> = (0..500)
            .map(|_| {
                let start = Instant::now();
                act();
                start.elapsed().as_nanos() / 1000
            })
            .collect();
        all.sort_unstable();
        println!("{what}: least {} µs, median {} µs, 95 % {} µs", all[0], all[250], all[475]);
    };
    times("set", &|| kept.set(&name, &value).unwrap());
    let reference = Reference::Store(name.clone());
    times("get", &|| assert!(fetch(&reference, &surroundings).is_ok()));
    std::fs::remove_dir_all(folder).unwrap();
}
