//! A subreaper, as the vault is one, also ends the orphans of a command that hangs. Alone in its process, because it ends all new children.
#![allow(clippy::unwrap_used, clippy::panic)]

mod support;

use support::{Stage, eventually, long_time, processes_with};

#[test]
fn who_forked_twice_and_left_the_session_ends_as_well() {
    keyward_sys::confine::become_subreaper().unwrap();
    let stage = Stage::new().hurried();
    let (time, others) = (long_time(), long_time());
    let mut other = support::Beside(std::process::Command::new("sleep").arg(&others).spawn().unwrap());
    stage.program("bin/hang", &format!("#!/bin/sh\n(setsid sh -c 'sleep {time}; :' &)\nsleep {time}\n"));
    let were_there = std::thread::scope(|scope| {
        let looks = scope.spawn(|| eventually(|| processes_with(&time).len() >= 2));
        assert!(stage.error("cmd://~/bin/hang").contains("gave no answer"));
        looks.join().unwrap()
    });
    assert!(were_there, "the control: they were there");
    assert!(eventually(|| processes_with(&time).is_empty()), "{:?}", processes_with(&time));
    assert!(other.0.try_wait().unwrap().is_none(), "a child that was there before is left alone");
}
