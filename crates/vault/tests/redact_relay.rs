//! The relay with real pipes: prompts, ends, readers that stop and readers that go.
#![allow(clippy::unwrap_used)]

use keyward_vault::redact::{Encoding, Found, Patterns, Stream, relay};
use rustix::event::{PollFlags, Timespec};
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::os::fd::AsFd;

const SECRET: &str = "Zq8#k2-Jw9-Lm4";

fn patterns() -> Patterns {
    Patterns::new([("it", SECRET.as_bytes())]).0
}

/// Runs `talk` with the child's end and the reader's end while the stream is relayed.
fn relayed(talk: impl FnOnce(PipeWriter, PipeReader) + Send) -> Vec<Found> {
    let patterns = patterns();
    let (from_child, child) = pipe().unwrap();
    let (reader, to_reader) = pipe().unwrap();
    std::thread::scope(|scope| {
        let talk = scope.spawn(move || talk(child, reader));
        let found = relay(from_child.as_fd(), to_reader.as_fd(), &patterns).unwrap();
        drop((from_child, to_reader));
        talk.join().unwrap();
        found
    })
}

fn next(reader: &mut PipeReader, length: usize) -> String {
    let mut text = vec![0; length];
    reader.read_exact(&mut text).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn a_secret_in_two_writes_is_taken_out_and_told() {
    let found = relayed(|mut child, mut reader| {
        child.write_all(b"key: Zq8#k2-J").unwrap();
        assert_eq!(next(&mut reader, 5), "key: ");
        child.write_all(b"w9-Lm4\nbye").unwrap();
        drop(child);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "[keyward:it]\nbye");
    });
    assert_eq!(found, [Found { name: "it".into(), encoding: Encoding::Plain, offset: 5 }]);
}

#[test]
fn a_prompt_arrives_although_nothing_follows_it() {
    relayed(|mut child, mut reader| {
        child.write_all(b"Continue? [y/n] ").unwrap();
        assert_eq!(next(&mut reader, 16), "Continue? [y/n] ");
        // The last letter could begin the secret.
        child.write_all(b"Name of Z").unwrap();
        assert_eq!(next(&mut reader, 9), "Name of Z");
        child.write_all(b"\xff\x00\n").unwrap();
        let mut bytes = [0; 3];
        reader.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, [0xff, 0, b'\n']);
    });
}

#[test]
fn what_is_kept_back_at_the_end_is_shown() {
    relayed(|mut child, mut reader| {
        child.write_all(b"Zq8#k2-Jw9-Lm").unwrap();
        drop(child);
        let mut rest = String::new();
        reader.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "Zq8#k2-Jw9-Lm");
    });
}

#[test]
fn when_the_reader_goes_the_writer_learns_it() {
    relayed(|mut child, reader| {
        drop(reader);
        // The relay ends without having had anything to write, and then the pipe is closed.
        let text = [b'.'; 4096];
        while child.write_all(&text).is_ok() {}
    });
}

#[test]
fn megabytes_pass_unchanged_beside_the_secret() {
    let block: Vec<u8> =
        (0..100_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let sent = [&block[..], SECRET.as_bytes()].concat().repeat(40);
    let expected = [&block[..], b"[keyward:it]"].concat().repeat(40);
    let found = relayed(|mut child, mut reader| {
        std::thread::scope(|scope| {
            scope.spawn(move || child.write_all(&sent).unwrap());
            let mut got = Vec::new();
            reader.read_to_end(&mut got).unwrap();
            assert!(got == expected);
        });
    });
    assert_eq!(found.len(), 40);
}

#[test]
fn a_reader_that_stopped_holds_up_its_own_stream_only() {
    let patterns = patterns();
    let (stuck_from, mut stuck_child) = pipe().unwrap();
    let (mut stuck_reader, stuck_to) = pipe().unwrap();
    let (free_from, mut free_child) = pipe().unwrap();
    let (mut free_reader, free_to) = pipe().unwrap();
    let mut streams = [
        Stream::new(stuck_from.as_fd(), stuck_to.as_fd(), &patterns),
        Stream::new(free_from.as_fd(), free_to.as_fd(), &patterns),
    ];
    // One thread for both, as the vault has it. Nobody reads the first.
    let turn = |streams: &mut [Stream; 2]| {
        for (stream, from, to) in
            [(0, stuck_from.as_fd(), stuck_to.as_fd()), (1, free_from.as_fd(), free_to.as_fd())]
        {
            let now = |fd, flags| {
                let mut polled = [rustix::event::PollFd::from_borrowed_fd(fd, flags)];
                rustix::event::poll(&mut polled, Some(&Timespec::default())).unwrap();
                polled[0].revents()
            };
            let (input, output) = (now(from, PollFlags::IN), now(to, PollFlags::OUT));
            streams[stream].work(input, output).unwrap();
        }
    };
    // More than a pipe holds, so that the first stream has something it cannot write.
    for _ in 0..4 {
        stuck_child.write_all(&[b'.'; 50_000]).unwrap();
        for _ in 0..4 {
            turn(&mut streams);
        }
        if streams[0].wants().write {
            break;
        }
    }
    assert!(streams[0].wants().write && !streams[0].wants().read);
    for round in 0..100 {
        free_child.write_all(format!("{round:03} {SECRET}\n").as_bytes()).unwrap();
        turn(&mut streams);
        assert_eq!(next(&mut free_reader, 17), format!("{round:03} [keyward:it]\n"));
    }
    assert_eq!(streams[1].take_found().len(), 100);
    // Once it reads again, nothing is missing.
    drop((stuck_child, free_child));
    let mut got = 0;
    let mut buffer = vec![0; 65536];
    while !streams[0].is_done() || !streams[1].is_done() {
        turn(&mut streams);
        let mut polled = [rustix::event::PollFd::new(&stuck_reader, PollFlags::IN)];
        if rustix::event::poll(&mut polled, Some(&Timespec::default())).unwrap() > 0 {
            got += stuck_reader.read(&mut buffer).unwrap();
        }
    }
    drop(streams);
    drop(stuck_to);
    got += stuck_reader.read_to_end(&mut Vec::new()).unwrap();
    assert_eq!(got % 50_000, 0);
    assert!(got >= 100_000);
}

#[test]
fn a_terminal_gets_everything_little_by_little() {
    // Output that knows no "do not wait": little by little, after asking.
    let patterns = patterns();
    let (from_child, mut child) = pipe().unwrap();
    let main =
        rustix::pty::openpt(rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY).unwrap();
    rustix::pty::unlockpt(&main).unwrap();
    let name = rustix::pty::ptsname(&main, Vec::new()).unwrap();
    let screen = rustix::fs::open(
        &name,
        rustix::fs::OFlags::RDWR | rustix::fs::OFlags::NOCTTY,
        rustix::fs::Mode::empty(),
    )
    .unwrap();
    let mut settings = rustix::termios::tcgetattr(&screen).unwrap();
    settings.make_raw();
    rustix::termios::tcsetattr(&screen, rustix::termios::OptionalActions::Now, &settings).unwrap();
    child.write_all(format!("{}{SECRET}!", "x".repeat(20_000)).as_bytes()).unwrap();
    drop(child);
    let found = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut got = Vec::new();
            let mut buffer = [0; 1000];
            while !got.ends_with(b"!") {
                let length = rustix::io::read(&main, &mut buffer).unwrap();
                got.extend_from_slice(&buffer[..length]);
            }
            got
        });
        let found = relay(from_child.as_fd(), screen.as_fd(), &patterns).unwrap();
        let got = reader.join().unwrap();
        assert_eq!(got, format!("{}[keyward:it]!", "x".repeat(20_000)).into_bytes());
        found
    });
    assert_eq!(found.len(), 1);
}

#[test]
fn a_file_is_written_as_a_whole() {
    let patterns = patterns();
    let (from_child, mut child) = pipe().unwrap();
    let file = rustix::fs::memfd_create("out", rustix::fs::MemfdFlags::empty()).unwrap();
    child.write_all(format!("a {SECRET} b").as_bytes()).unwrap();
    drop(child);
    relay(from_child.as_fd(), file.as_fd(), &patterns).unwrap();
    let mut text = [0; 64];
    let length = rustix::io::pread(&file, &mut text, 0).unwrap();
    assert_eq!(&text[..length], b"a [keyward:it] b");
}
