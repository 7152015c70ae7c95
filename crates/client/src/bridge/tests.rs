//! A bridge between a hostile client and a session that the test plays.

use super::*;
use crate::find::address;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;

/// A running bridge, with both of its sides.
struct Stage {
    _folder: tempfile::TempDir,
    session: OwnedFd,
    input: Option<File>,
    output: BufReader<File>,
    bridge: Option<JoinHandle<Result<(), Error>>>,
    socket: PathBuf,
    token: String,
}

fn accept(listener: &OwnedFd) -> OwnedFd {
    rustix::net::accept(listener).unwrap()
}

fn heard(socket: &OwnedFd) -> (Value, Vec<OwnedFd>) {
    let mut bytes = vec![0; LONGEST];
    let message = channel::receive(socket, &mut bytes).unwrap();
    assert!(message.length > 0, "the bridge has closed the connection");
    (serde_json::from_slice(&bytes[..message.length]).unwrap(), message.descriptors)
}

fn answer(socket: &OwnedFd, answer: &Answer, descriptors: &[BorrowedFd<'_>]) {
    channel::send(socket, &packet::write(answer), descriptors).unwrap();
}

impl Stage {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let runtime = Runtime { by_variable: None, by_state: place.path().to_owned() };
        let folder = runtime.folder("work");
        std::fs::create_dir_all(&folder).unwrap();
        let session =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .unwrap();
        rustix::net::bind(&session, &address(&open_folder(&folder).unwrap()).unwrap()).unwrap();
        rustix::net::listen(&session, 64).unwrap();
        let (from_client, input) = rustix::pipe::pipe().unwrap();
        let (output, to_client) = rustix::pipe::pipe().unwrap();
        let bridge = std::thread::spawn(move || {
            bridge(&runtime, "work", (from_client.as_fd(), to_client.as_fd()), AtEnd::Stop)
        });
        let first = accept(&session);
        assert_eq!(heard(&first).0["do"], "hello");
        answer(&first, &Answer::hello(), &[]);
        // Its later request to stop is answered by the end of the connection.
        std::thread::spawn(move || {
            let asked = heard(&first).0;
            assert_eq!(asked["do"], "stop");
            answer(&first, &Answer::Done {}, &[]);
        });
        let mut stage = Stage {
            _folder: place,
            session,
            input: Some(input.into()),
            output: BufReader::new(output.into()),
            bridge: Some(bridge),
            socket: PathBuf::new(),
            token: String::new(),
        };
        let ready = stage.told();
        assert_eq!((&ready["v"], &ready["is"]), (&1.into(), &"bridge".into()));
        stage.socket = ready["socket"].as_str().unwrap().into();
        stage.token = ready["token"].as_str().unwrap().into();
        stage
    }

    fn send(&mut self, line: &str) {
        let mut input = self.input.as_ref().unwrap();
        input.write_all(format!("{line}\n").as_bytes()).unwrap();
    }

    fn told(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|_| panic!("not a line of a bridge: {line:?}"))
    }

    fn connect(&self, says: &str) -> UnixStream {
        let mut socket = UnixStream::connect(&self.socket).unwrap();
        socket.write_all(says.as_bytes()).unwrap();
        socket
    }

    fn stream(&self, number: u64) -> UnixStream {
        self.connect(&format!("{} {number}\n", self.token))
    }

    /// Ends the input, and waits for the end of the bridge.
    fn end(mut self) -> PathBuf {
        self.input.take();
        self.bridge.take().unwrap().join().unwrap().unwrap();
        self.socket.clone()
    }
}

fn is_closed(socket: &mut UnixStream) -> bool {
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    matches!(socket.read(&mut [0; 8]), Ok(0) | Err(_))
}

#[test]
fn streams_reach_the_session_as_descriptors_and_messages_pass_as_they_are() {
    let mut stage = Stage::new();
    // What follows the announcement is for the command, however early it comes.
    let mut stdin = stage.connect(&format!("{} 1\nearly", stage.token));
    let mut stdout = stage.stream(2);
    stage.send(r#"{"channel":9,"streams":[1,2,null],"message":{"v":1,"do":"exec","argv":["cat"]}}"#);
    let channel = accept(&stage.session);
    let (asked, descriptors) = heard(&channel);
    assert_eq!(asked, serde_json::json!({ "v": 1, "do": "exec", "argv": ["cat"] }));
    let [input, output, nothing] = <[OwnedFd; 3]>::try_from(descriptors).unwrap();
    stdin.write_all(b" and late").unwrap();
    stdin.shutdown(std::net::Shutdown::Write).unwrap();
    let mut text = String::new();
    File::from(input).read_to_string(&mut text).unwrap();
    assert_eq!(text, "early and late");
    File::from(output).write_all(b"printed").unwrap();
    text.clear();
    stdout.read_to_string(&mut text).unwrap();
    assert_eq!(text, "printed", "the bridge keeps no copy open");
    assert_eq!(File::from(nothing).read(&mut [0; 8]).unwrap(), 0);
    answer(&channel, &Answer::Started { job: 4 }, &[]);
    assert_eq!(
        stage.told(),
        serde_json::json!({ "channel": 9, "message": { "v": 1, "is": "started", "job": 4 } })
    );
    drop(channel);
    assert_eq!(stage.told(), serde_json::json!({ "channel": 9, "closed": true }));
    let socket = stage.end();
    assert!(!socket.exists() && !socket.parent().unwrap().exists());
}

#[test]
fn a_question_comes_with_its_document() {
    let mut stage = Stage::new();
    stage.send(r#"{"channel":1,"message":{"v":1,"do":"watch"}}"#);
    let channel = accept(&stage.session);
    heard(&channel);
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(br#"{"argv":["git","push"]}"#).unwrap();
    let asked = keyward_protocol::session::Asked {
        question: 7,
        digest: "d".into(),
        rule: None,
        class: None,
        reason: "r".into(),
        argv: Vec::new(),
        from_inside: false,
    };
    answer(&channel, &Answer::Question(asked), &[file.as_fd()]);
    let told = stage.told();
    assert_eq!((&told["message"]["question"], &told["document"]["argv"][1]), (&7.into(), &"push".into()));
    // Another descriptor is closed and not passed on.
    answer(&channel, &Answer::Log { job: 1, ended: true }, &[file.as_fd()]);
    assert!(stage.told().get("document").is_none());
    stage.end();
}

#[test]
fn a_wrong_token_is_closed_and_is_no_stream() {
    let mut stage = Stage::new();
    let wrong = "0".repeat(TOKEN);
    for says in [format!("{wrong} 1\n"), "1\n".into(), format!("{} x\n", stage.token), "x".repeat(4096)] {
        assert!(is_closed(&mut stage.connect(&says)), "{says}");
    }
    stage.send(r#"{"channel":1,"streams":[1,null,null],"message":{"v":1,"do":"exec","argv":["true"]}}"#);
    let told = stage.told();
    assert_eq!(told["message"]["is"], "refused", "{told}");
    assert_eq!(told["message"]["fact"], "there is no stream 1");
    stage.end();
}

#[test]
fn connections_that_say_nothing_do_not_keep_others_out() {
    let mut stage = Stage::new();
    let silent: Vec<UnixStream> = (0..MOST_WAITING - 1).map(|_| stage.connect("")).collect();
    let mut halves = stage.connect(&stage.token[..9]);
    drop(silent);
    let _stdin = stage.stream(5);
    halves.write_all(&stage.token.as_bytes()[9..]).unwrap();
    halves.write_all(b" 6\n").unwrap();
    stage.send(r#"{"channel":1,"streams":[5,6,null],"message":{"v":1,"do":"exec","argv":["true"]}}"#);
    let channel = accept(&stage.session);
    assert_eq!(heard(&channel).1.len(), 3);
    stage.end();
}

#[test]
fn a_stream_is_used_once_and_the_first_who_announces_it_has_it() {
    let mut stage = Stage::new();
    let mut first = stage.stream(1);
    let line = r#"{"channel":1,"streams":[null,1,null],"message":{"v":1,"do":"exec","argv":["true"]}}"#;
    // Both are waiting before the message comes.
    let mut second = stage.stream(1);
    assert!(is_closed(&mut second));
    stage.send(line);
    let channel = accept(&stage.session);
    let descriptors = heard(&channel).1;
    stage.send(line);
    assert_eq!(stage.told()["message"]["fact"], "there is no stream 1");
    drop(descriptors);
    assert!(is_closed(&mut first));
    stage.end();
}

#[test]
fn a_stream_that_is_for_no_command_is_closed() {
    let mut stage = Stage::new();
    let mut first = stage.stream(1);
    stage.send(r#"{"drop":[1,99]}"#);
    assert!(is_closed(&mut first));
    // So is one whose message is refused.
    let mut second = stage.stream(2);
    let long = "x".repeat(LONGEST);
    stage.send(&format!(r#"{{"channel":1,"streams":[2,null,null],"message":{{"v":"{long}"}}}}"#));
    assert_eq!(stage.told()["message"]["is"], "refused");
    assert!(is_closed(&mut second));
    stage.end();
}

#[test]
fn a_line_that_is_not_one_of_the_protocol_or_never_ends_ends_the_bridge() {
    for line in ["garbage\n".to_owned(), "{}\n".to_owned(), "x".repeat(LONGEST_LINE + (32 << 10))] {
        let mut stage = Stage::new();
        // The bridge may be gone before it has taken everything.
        let _ = stage.input.as_mut().unwrap().write_all(line.as_bytes());
        stage.bridge.take().unwrap().join().unwrap().unwrap();
    }
}

#[test]
fn a_message_longer_than_a_packet_is_refused_and_the_connection_stays() {
    let mut stage = Stage::new();
    stage.send(&format!(r#"{{"channel":1,"message":{{"v":"{}"}}}}"#, "x".repeat(LONGEST)));
    assert_eq!(stage.told()["message"]["is"], "refused");
    stage.send(r#"{"channel":1,"message":{"v":1,"do":"jobs"}}"#);
    assert_eq!(heard(&accept(&stage.session)).0["do"], "jobs");
    stage.end();
}

#[test]
fn channels_are_bounded_and_a_session_that_is_gone_is_told() {
    let mut stage = Stage::new();
    let mut open = Vec::new();
    for number in 0..MOST_CHANNELS {
        stage.send(&format!(r#"{{"channel":{number},"message":{{"v":1,"do":"jobs"}}}}"#));
        open.push(accept(&stage.session));
    }
    stage.send(r#"{"channel":1000,"message":{"v":1,"do":"jobs"}}"#);
    assert_eq!(stage.told()["message"]["code"], "session-full");
    drop(open.pop());
    assert_eq!(stage.told()["closed"], true);
    stage.session = rustix::fs::open(c"/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).unwrap();
    stage.send(r#"{"channel":1000,"message":{"v":1,"do":"jobs"}}"#);
    assert_eq!(stage.told(), serde_json::json!({ "channel": 1000, "closed": true }));
    stage.end();
}

#[test]
fn a_client_that_does_not_read_is_not_waited_for_and_nothing_piles_up() {
    let mut stage = Stage::new();
    stage.send(r#"{"channel":1,"message":{"v":1,"do":"jobs"}}"#);
    let channel = accept(&stage.session);
    heard(&channel);
    rustix::fs::fcntl_setfl(&channel, OFlags::NONBLOCK).unwrap();
    let long = packet::write(&Answer::Said { text: "x".repeat(100 << 10) });
    let mut sent = 0;
    for _ in 0..1000 {
        if channel::send(&channel, &long, &[]).is_ok() {
            sent += 1;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!((1..100).contains(&sent), "{sent} messages of 100 KiB were taken from the session");
    stage.end();
}

#[test]
fn a_connection_that_ends_before_it_has_said_anything_is_let_go() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut waiting = Waiting { socket: ours.into(), said: Vec::new(), until: Instant::now() };
    assert!(matches!(hear(&mut waiting, b"0123456789abcdef0123456789abcdef"), Heard::More));
    drop(theirs);
    assert!(matches!(hear(&mut waiting, b"0123456789abcdef0123456789abcdef"), Heard::Wrong));
}
