//! Packets at the door of a session and from the spawner in its cage: any bytes are a message or none.
#![no_main]

use keyward_policy::door::{Ask, Errand, News, read, write};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|packet: &[u8]| {
    // What is a message is one again when it is written and read.
    if let Some(ask) = read::<Ask>(packet) {
        assert_eq!(read::<Ask>(&write(&ask)), Some(ask));
    }
    if let Some(news) = read::<News>(packet) {
        assert_eq!(read::<News>(&write(&news)), Some(news));
    }
    let _ = read::<Errand>(packet);
});
