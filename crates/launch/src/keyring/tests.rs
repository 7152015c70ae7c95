//! The relay between real programs, a real bus and a real gnome-keyring. Every attack has its control: the same act without the relay.
//!
//! The relay is this very test program, started again as `the_relay_of_the_other_tests`.

use super::serve;
use keyward_policy::untrusted::keyring::message::{Head, Kind, Order, Writer};
use keyward_policy::untrusted::keyring::{BusAddress, Message};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const BUS: &str = "org.freedesktop.DBus";
const BUS_PATH: &str = "/org/freedesktop/DBus";
const SECRETS: &str = "org.freedesktop.secrets";
const ROOT: &str = "/org/freedesktop/secrets";
const LOGIN: &str = "/org/freedesktop/secrets/collection/login";
const SERVICE: &str = "org.freedesktop.Secret.Service";
const COLLECTION: &str = "org.freedesktop.Secret.Collection";
const ITEM: &str = "org.freedesktop.Secret.Item";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
const DENIED: &str = "org.freedesktop.DBus.Error.AccessDenied";

const OWN_SECRET: &str = "token-of-the-program";
const OTHER_SECRET: &str = "password-of-the-bank";

/// Where the relay listens, where its bus is, and the patterns, each on a line of its own.
const LISTEN: &str = "KEYWARD_TEST_LISTEN";
const ADDRESS: &str = "KEYWARD_TEST_BUS";
const ITEMS: &str = "KEYWARD_TEST_ITEMS";

/// A bus that starts nothing by itself.
const BUS_SETTINGS: &str = r#"<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN" "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>session</type><listen>unix:path=SOCKET</listen><auth>EXTERNAL</auth>
<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy>
</busconfig>"#;

#[test]
#[ignore = "not a test: the relay that the tests start"]
fn the_relay_of_the_other_tests() {
    let (Some(path), Ok(address), Ok(items)) =
        (std::env::var_os(LISTEN), std::env::var(ADDRESS), std::env::var(ITEMS))
    else {
        return;
    };
    let listener = UnixListener::bind(path).unwrap();
    let bus = BusAddress::parse(address.as_bytes()).unwrap();
    serve(listener.into(), bus, items.lines().map(str::to_owned).collect())
}

/// Ends with the value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A bus with a keyring that holds an item of the program and one of somebody else, and a relay before it.
struct Stage {
    folder: tempfile::TempDir,
    _bus: Running,
    keyring: Option<Running>,
    relay: Option<Running>,
}

/// Through which door a program goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Door {
    /// The bus itself: the control.
    Bus,
    Relay,
}

fn eventually(mut holds: impl FnMut() -> bool) -> bool {
    (0..600).any(|_| {
        let held = holds();
        if !held {
            std::thread::sleep(Duration::from_millis(50));
        }
        held
    })
}

impl Stage {
    fn without_keyring() -> Stage {
        let folder = tempfile::Builder::new().prefix("keyring").tempdir().unwrap();
        fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o700)).unwrap();
        let settings = folder.path().join("bus.conf");
        let socket = folder.path().join("bus");
        fs::write(&settings, BUS_SETTINGS.replace("SOCKET", socket.to_str().unwrap())).unwrap();
        let mut command = Command::new("dbus-daemon");
        command.arg("--nofork").arg(format!("--config-file={}", settings.display()));
        let bus = start(&mut command, folder.path());
        let mut stage = Stage { folder, _bus: bus, keyring: None, relay: None };
        assert!(eventually(|| UnixStream::connect(&socket).is_ok()), "dbus-daemon did not start");
        stage.relay = Some(stage.start_relay("gh:*"));
        stage
    }

    fn new() -> Stage {
        let mut stage = Stage::without_keyring();
        stage.start_keyring();
        stage.plant("gh:github.com", OWN_SECRET);
        stage.plant("bank", OTHER_SECRET);
        stage
    }

    fn start_keyring(&mut self) {
        let mut command = Command::new("gnome-keyring-daemon");
        command.args(["--foreground", "--unlock", "--components=secrets"]).stdin(Stdio::piped());
        command.env("DBUS_SESSION_BUS_ADDRESS", self.address(Door::Bus));
        let mut keyring = start(&mut command, self.folder.path());
        keyring.0.stdin.take().unwrap().write_all(b"password of the keyring").unwrap();
        self.keyring = Some(keyring);
        let mut client = Client::new(self, Door::Bus);
        let is_there =
            || client.call(Call { body: string(SECRETS), ..Call::bus("GetNameOwner", "s") }).is_return();
        assert!(eventually(is_there), "gnome-keyring-daemon did not start");
    }

    fn start_relay(&self, items: &str) -> Running {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "keyring::tests::the_relay_of_the_other_tests", "--ignored"]);
        command.env(LISTEN, self.socket(Door::Relay)).env(ITEMS, items);
        command.env(ADDRESS, self.address(Door::Bus));
        let relay = start(&mut command, self.folder.path());
        assert!(
            eventually(|| UnixStream::connect(self.socket(Door::Relay)).is_ok()),
            "the relay did not start"
        );
        relay
    }

    fn socket(&self, door: Door) -> PathBuf {
        self.folder.path().join(if door == Door::Bus { "bus" } else { "relay" })
    }

    fn address(&self, door: Door) -> String {
        format!("unix:path={}", self.socket(door).display())
    }

    /// A real program that takes one of the two for its session bus.
    fn command(&self, door: Door, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.folder.path());
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.folder.path()).env("XDG_RUNTIME_DIR", self.folder.path());
        command.env("DBUS_SESSION_BUS_ADDRESS", self.address(door)).stdin(Stdio::null());
        command
    }

    fn run(&self, door: Door, program: &str, arguments: &[&str]) -> Output {
        let output = self.command(door, program, arguments).output();
        output
            .unwrap_or_else(|error| panic!("{program} is needed here: {error}; see tools/install-test-tools"))
    }

    fn plant(&self, service: &str, secret: &str) {
        let arguments = ["store", "--label=planted", "service", service, "username", "ann"];
        let mut command = self.command(Door::Bus, "secret-tool", &arguments);
        let mut child = command.stdin(Stdio::piped()).spawn().expect("secret-tool is needed here");
        child.stdin.take().unwrap().write_all(secret.as_bytes()).unwrap();
        assert!(child.wait().unwrap().success());
    }

    fn path_of(&self, service: &str) -> String {
        Client::new(self, Door::Bus).find(service).found()
    }
}

fn start(command: &mut Command, home: &Path) -> Running {
    command.env("HOME", home).env("XDG_RUNTIME_DIR", home).env("XDG_DATA_HOME", home.join("data"));
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let program = command.get_program().to_owned();
    Running(command.spawn().unwrap_or_else(|error| {
        panic!("{} is needed here: {error}; see tools/install-test-tools", program.display())
    }))
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A client written by hand, which says what real ones would not.
struct Client {
    stream: UnixStream,
    serial: u32,
}

#[derive(Clone)]
struct Call<'a> {
    destination: &'a str,
    path: &'a str,
    interface: &'a str,
    member: &'a str,
    signature: &'a str,
    body: Vec<u8>,
}

impl<'a> Call<'a> {
    fn bus(member: &'a str, signature: &'a str) -> Call<'a> {
        Call { destination: BUS, path: BUS_PATH, interface: BUS, member, signature, body: Vec::new() }
    }

    fn keyring(
        path: &'a str,
        interface: &'a str,
        member: &'a str,
        signature: &'a str,
        body: Vec<u8>,
    ) -> Self {
        Call { destination: SECRETS, path, interface, member, signature, body }
    }
}

fn string(text: &str) -> Vec<u8> {
    Writer::default().string(text).finish()
}

/// An array of paths.
fn list(paths: &[&str]) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.array(4, |writer| {
        for path in paths {
            writer.string(path);
        }
    });
    writer.finish()
}

/// Our own user, as the handshake wants it.
fn own_user() -> String {
    rustix::process::geteuid().as_raw().to_string().bytes().map(|digit| format!("{digit:02x}")).collect()
}

/// An answer, as its bytes.
struct Reply(Vec<u8>);

impl Reply {
    fn message(&self) -> Message<'_> {
        Message::read(&self.0).unwrap()
    }

    fn is_return(&self) -> bool {
        self.message().head.kind == Kind::Return
    }

    fn error(&self) -> &str {
        Message::read(&self.0).unwrap().head.error_name
    }

    fn holds(&self, text: &str) -> bool {
        self.0.windows(text.len()).any(|part| part == text.as_bytes())
    }

    /// The one item that a search found.
    fn found(&self) -> String {
        let message = self.message();
        let mut body = message.body("aoao").unwrap_or_else(|_| panic!("no items: {}", self.error()));
        let items = body.each(4, 10, |body| body.path()).unwrap();
        assert_eq!(items.len(), 1);
        items[0].to_owned()
    }
}

impl Client {
    fn new(stage: &Stage, door: Door) -> Client {
        let mut client = Client::connected(stage, door);
        client.begin();
        client
    }

    fn connected(stage: &Stage, door: Door) -> Client {
        let stream = UnixStream::connect(stage.socket(door)).unwrap();
        // So that a hang is a failure and not a test that never ends.
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        stream.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
        Client { stream, serial: 0 }
    }

    fn begin(&mut self) {
        self.stream.write_all(b"\0").unwrap();
        assert!(self.say(&format!("AUTH EXTERNAL {}", own_user())).starts_with("OK "));
        self.stream.write_all(b"BEGIN\r\n").unwrap();
        assert!(self.call(Call::bus("Hello", "")).is_return());
    }

    /// Says a line before messages begin, and gives the line that comes back.
    fn say(&mut self, line: &str) -> String {
        write!(self.stream, "{line}\r\n").unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n") {
            let mut byte = [0];
            self.stream.read_exact(&mut byte).unwrap();
            answer.push(byte[0]);
        }
        String::from_utf8(answer).unwrap().trim_end().to_owned()
    }

    fn send(&mut self, call: &Call<'_>, order: Order) {
        self.serial += 1;
        let head = Head {
            serial: self.serial,
            path: call.path,
            interface: call.interface,
            member: call.member,
            destination: call.destination,
            signature: call.signature,
            ..Head::default()
        };
        self.stream.write_all(&head.write(order, &call.body)).unwrap();
    }

    /// The next message of any kind; `None` when the connection has ended.
    fn next(&mut self) -> Option<Reply> {
        let mut bytes = vec![0; 16];
        self.stream.read_exact(&mut bytes).ok()?;
        let length = Message::length(&bytes).unwrap().unwrap();
        bytes.resize(length, 0);
        self.stream.read_exact(&mut bytes[16..]).unwrap();
        Some(Reply(bytes))
    }

    fn reply(&mut self) -> Reply {
        loop {
            let reply = self.next().expect("an answer, and no end");
            if reply.message().head.reply_serial == self.serial {
                return reply;
            }
        }
    }

    fn call(&mut self, call: Call<'_>) -> Reply {
        self.send(&call, Order::Little);
        self.reply()
    }

    fn find(&mut self, service: &str) -> Reply {
        self.find_in(Order::Little, service)
    }

    fn find_in(&mut self, order: Order, service: &str) -> Reply {
        let mut writer = Writer::new(order);
        writer.array(8, |writer| {
            writer.align(8).string("service").string(service);
        });
        self.send(&Call::keyring(ROOT, SERVICE, "SearchItems", "a{ss}", writer.finish()), order);
        self.reply()
    }

    fn open_session(&mut self) -> String {
        let body = Writer::default().string("plain").signature("s").string("").finish();
        let reply = self.call(Call::keyring(ROOT, SERVICE, "OpenSession", "sv", body));
        let mut body = reply.message().body("vo").unwrap();
        assert_eq!((body.signature(), body.string()), (Ok("s"), Ok("")));
        body.path().unwrap().to_owned()
    }

    fn get_secret(&mut self, session: &str, item: &str) -> Reply {
        self.call(Call::keyring(item, ITEM, "GetSecret", "o", string(session)))
    }

    fn get_secrets(&mut self, session: &str, items: &[&str]) -> Reply {
        let mut writer = Writer::default();
        writer.array(4, |writer| {
            for item in items {
                writer.string(item);
            }
        });
        let body = writer.string(session).finish();
        self.call(Call::keyring(ROOT, SERVICE, "GetSecrets", "aoo", body))
    }
}

#[test]
fn secret_tool_finds_the_programs_own_item_and_no_other() {
    let stage = Stage::new();
    let lookup =
        |door, service| stage.run(door, "secret-tool", &["lookup", "service", service, "username", "ann"]);
    for door in [Door::Bus, Door::Relay] {
        let output = lookup(door, "gh:github.com");
        assert_eq!(String::from_utf8_lossy(&output.stdout), OWN_SECRET, "{door:?}: {}", text(&output));
    }
    assert_eq!(String::from_utf8_lossy(&lookup(Door::Bus, "bank").stdout), OTHER_SECRET, "the control");
    let output = lookup(Door::Relay, "bank");
    assert!(!output.status.success() && output.stdout.is_empty(), "{}", text(&output));
    // Everything at once, and by what both have in common.
    for search in [["username", "ann"], ["service", ""]] {
        let output = stage.run(Door::Relay, "secret-tool", &["search", "--all", search[0], search[1]]);
        assert!(
            !text(&output).contains(OTHER_SECRET) && !text(&output).contains("bank"),
            "{}",
            text(&output)
        );
    }
    let output = stage.run(Door::Bus, "secret-tool", &["search", "--all", "username", "ann"]);
    assert!(text(&output).contains(OTHER_SECRET), "the control: {}", text(&output));
    let output = stage.run(Door::Relay, "secret-tool", &["search", "--all", "service", "gh:github.com"]);
    assert!(text(&output).contains(OWN_SECRET), "{}", text(&output));
}

#[test]
fn pythons_keyring_reads_its_own_item_and_no_other() {
    let stage = Stage::new();
    stage.plant("gh:python", "token-of-python");
    let get = |door, service: &str| {
        let script = format!("import keyring; print(keyring.get_password({service:?}, 'ann'))");
        stage.run(door, "/usr/bin/python3", &["-c", &script])
    };
    for door in [Door::Bus, Door::Relay] {
        let output = get(door, "gh:python");
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "token-of-python", "{}", text(&output));
    }
    assert!(text(&get(Door::Bus, "bank")).contains(OTHER_SECRET), "the control");
    let output = get(Door::Relay, "bank");
    assert!(!output.status.success() && !text(&output).contains(OTHER_SECRET), "{}", text(&output));
    assert!(text(&output).contains("AccessDenied"), "{}", text(&output));
}

/// The calls of zalando/go-keyring over godbus, in their order: this is how gh asks (from version 2.26 on).
#[test]
fn a_client_that_asks_as_gh_does_gets_its_token() {
    let stage = Stage::new();
    for door in [Door::Bus, Door::Relay] {
        let mut client = Client::connected(&stage, door);
        client.stream.write_all(b"\0").unwrap();
        assert!(client.say("AUTH").starts_with("REJECTED EXTERNAL"), "{door:?}");
        assert!(client.say(&format!("AUTH EXTERNAL {}", own_user())).starts_with("OK "), "{door:?}");
        assert_eq!(client.say("NEGOTIATE_UNIX_FD") == "AGREE_UNIX_FD", door == Door::Bus);
        client.stream.write_all(b"BEGIN\r\n").unwrap();
        assert!(client.call(Call::bus("Hello", "")).is_return());
        let session = client.open_session();
        let body = Writer::default().string(SERVICE).string("Collections").finish();
        assert!(client.call(Call::keyring(ROOT, PROPERTIES, "Get", "ss", body)).holds(LOGIN));
        assert!(client.call(Call::keyring(ROOT, SERVICE, "Unlock", "ao", list(&[LOGIN]))).is_return());
        let mut writer = Writer::default();
        writer.array(8, |writer| {
            writer.align(8).string("username").string("ann");
            writer.align(8).string("service").string("gh:github.com");
        });
        let reply = client.call(Call::keyring(LOGIN, COLLECTION, "SearchItems", "a{ss}", writer.finish()));
        let found = reply.message().body("ao").unwrap().each(4, 10, |body| body.path()).unwrap();
        assert!(client.get_secret(&session, found[0]).holds(OWN_SECRET), "{door:?}");
        let close = Call::keyring(&session, "org.freedesktop.Secret.Session", "Close", "", Vec::new());
        assert!(client.call(close).is_return(), "{door:?}");
    }
}

#[test]
fn the_item_of_another_is_not_read_by_its_path() {
    let stage = Stage::new();
    let (own, other) = (stage.path_of("gh:github.com"), stage.path_of("bank"));

    let mut control = Client::new(&stage, Door::Bus);
    let session = control.open_session();
    assert!(control.get_secret(&session, &other).holds(OTHER_SECRET), "the control");
    assert!(control.get_secrets(&session, &[&own, &other]).holds(OTHER_SECRET), "the control");

    let mut client = Client::new(&stage, Door::Relay);
    let session = client.open_session();
    assert_eq!(
        client.get_secret(&session, &own).error(),
        DENIED,
        "it was not searched for on this connection"
    );
    assert_eq!(client.find("gh:github.com").found(), own);
    assert!(client.get_secret(&session, &own).holds(OWN_SECRET));
    assert!(client.get_secrets(&session, &[&own]).holds(OWN_SECRET));
    assert_eq!(client.get_secret(&session, &other).error(), DENIED);
    assert_eq!(client.get_secrets(&session, &[&own, &other]).error(), DENIED);
    let label = Writer::default().string(ITEM).string("Attributes").finish();
    assert_eq!(client.call(Call::keyring(&other, PROPERTIES, "Get", "ss", label)).error(), DENIED);
    // What is allowed to one connection is not allowed to the next one.
    let mut next = Client::new(&stage, Door::Relay);
    let session = next.open_session();
    assert_eq!(next.get_secret(&session, &own).error(), DENIED);
}

#[test]
fn a_client_with_the_other_byte_order_reads_the_same_and_no_more() {
    let stage = Stage::new();
    let mut client = Client::new(&stage, Door::Relay);
    let reply = client.find_in(Order::Big, "gh:github.com");
    assert_eq!(reply.found(), stage.path_of("gh:github.com"));
    assert_eq!(client.find_in(Order::Big, "bank").error(), DENIED);
    let mut control = Client::new(&stage, Door::Bus);
    assert_eq!(control.find_in(Order::Big, "bank").found(), stage.path_of("bank"), "the control");
}

#[test]
fn the_keyring_is_not_listed_and_not_written() {
    let stage = Stage::new();
    let own = stage.path_of("gh:github.com");
    let property = |name: &str| Writer::default().string(COLLECTION).string(name).finish();
    let calls = [
        Call::keyring(LOGIN, PROPERTIES, "Get", "ss", property("Items")),
        Call::keyring(LOGIN, PROPERTIES, "GetAll", "s", string(COLLECTION)),
        Call::keyring(LOGIN, "org.freedesktop.DBus.Introspectable", "Introspect", "", Vec::new()),
        Call::keyring(&own, ITEM, "Delete", "", Vec::new()),
        Call::keyring(ROOT, SERVICE, "Lock", "ao", list(&[LOGIN])),
    ];
    let mut client = Client::new(&stage, Door::Relay);
    assert_eq!(client.find("gh:github.com").found(), own);
    for call in &calls {
        assert_eq!(client.call(call.clone()).error(), DENIED, "{}", call.member);
    }
    assert!(client.call(Call::keyring(LOGIN, PROPERTIES, "Get", "ss", property("Label"))).is_return());
    let mut control = Client::new(&stage, Door::Bus);
    for call in &calls {
        let reply = control.call(call.clone());
        assert!(reply.is_return(), "the control: {} {}", call.member, reply.error());
    }
}

#[test]
fn nothing_else_of_the_bus_is_reached() {
    let stage = Stage::new();
    let mut control = Client::new(&stage, Door::Bus);
    let ask = |member| Call { body: string("org.gnome.keyring"), ..Call::bus(member, "s") };
    let calls = [
        Call::bus("ListNames", ""),
        Call::bus("ListActivatableNames", ""),
        ask("NameHasOwner"),
        ask("GetConnectionUnixProcessID"),
        Call {
            destination: "org.gnome.keyring",
            path: "/org/gnome/keyring/daemon",
            interface: "org.freedesktop.DBus.Peer",
            ..Call::bus("Ping", "")
        },
    ];
    let mut client = Client::new(&stage, Door::Relay);
    for call in calls {
        let reply = control.call(call.clone());
        assert!(reply.is_return(), "the control: {} {}", call.member, reply.error());
        assert_eq!(client.call(call.clone()).error(), DENIED, "{}", call.member);
    }
    let list = ["call", "--session", "-d", BUS, "-o", BUS_PATH, "-m", "org.freedesktop.DBus.ListNames"];
    assert!(text(&stage.run(Door::Bus, "gdbus", &list)).contains("org.gnome.keyring"), "the control");
    let output = stage.run(Door::Relay, "gdbus", &list);
    assert!(!output.status.success() && text(&output).contains("AccessDenied"), "{}", text(&output));
}

#[test]
fn an_item_that_was_deleted_is_no_longer_the_programs_own() {
    let stage = Stage::new();
    let own = stage.path_of("gh:github.com");
    let mut client = Client::new(&stage, Door::Relay);
    let session = client.open_session();
    assert_eq!(client.find("gh:github.com").found(), own);
    assert!(client.get_secret(&session, &own).holds(OWN_SECRET));
    let output = stage.run(Door::Bus, "secret-tool", &["clear", "service", "gh:github.com"]);
    assert!(output.status.success(), "{}", text(&output));
    // Whatever the keyring says after a deletion comes behind the news of it.
    assert!(client.find("gh:github.com").is_return());
    // The keyring itself would say that there is no such object; that it is refused shows that the relay has heard the news.
    assert_eq!(client.get_secret(&session, &own).error(), DENIED);
    let mut control = Client::new(&stage, Door::Bus);
    let session = control.open_session();
    assert_ne!(control.get_secret(&session, &own).error(), DENIED, "the control");
}

#[test]
fn when_the_keyring_starts_again_everything_is_searched_anew() {
    let mut stage = Stage::new();
    let own = stage.path_of("gh:github.com");
    let mut client = Client::new(&stage, Door::Relay);
    let session = client.open_session();
    assert_eq!(client.find("gh:github.com").found(), own);
    assert!(client.get_secret(&session, &own).holds(OWN_SECRET));
    stage.keyring = None;
    stage.start_keyring();
    let session = client.open_session();
    assert_eq!(client.get_secret(&session, &own).error(), DENIED);
    assert_eq!(client.find("gh:github.com").found(), own);
    assert!(client.get_secret(&session, &own).holds(OWN_SECRET));
}

#[test]
fn a_locked_keyring_is_asked_to_open_and_the_end_of_that_is_heard() {
    let stage = Stage::new();
    let mut control = Client::new(&stage, Door::Bus);
    assert!(control.call(Call::keyring(ROOT, SERVICE, "Lock", "ao", list(&[LOGIN]))).is_return());
    // There is nobody here who could show the question, so it ends without an answer; but it ends.
    let output = stage.run(Door::Relay, "secret-tool", &["lookup", "service", "gh:github.com"]);
    assert!(!output.status.success() && !text(&output).contains("AccessDenied"), "{}", text(&output));
}

#[test]
fn a_keyring_that_is_not_there_is_a_plain_error() {
    let stage = Stage::without_keyring();
    for door in [Door::Bus, Door::Relay] {
        let mut client = Client::new(&stage, door);
        assert_eq!(
            client.find("gh:github.com").error(),
            "org.freedesktop.DBus.Error.ServiceUnknown",
            "{door:?}"
        );
        let output = stage.run(door, "secret-tool", &["lookup", "service", "gh:github.com"]);
        assert!(
            !output.status.success() && text(&output).contains("org.freedesktop.secrets"),
            "{}",
            text(&output)
        );
    }
}

#[test]
fn without_a_bus_a_connection_ends_and_the_relay_stays() {
    let mut stage = Stage::without_keyring();
    stage.relay = None;
    fs::remove_file(stage.socket(Door::Relay)).unwrap();
    let socket = stage.socket(Door::Bus);
    let aside = stage.folder.path().join("aside");
    fs::rename(&socket, &aside).unwrap();
    stage.relay = Some(stage.start_relay("gh:*"));
    let mut client = Client::connected(&stage, Door::Relay);
    assert_eq!(client.stream.read(&mut [0; 8]).unwrap_or(0), 0);
    fs::rename(&aside, &socket).unwrap();
    Client::new(&stage, Door::Relay);
}

#[test]
fn a_client_that_sends_garbage_loses_its_connection_and_nothing_else() {
    let stage = Stage::new();
    let mut other = Client::new(&stage, Door::Relay);
    let ends = |mut client: Client, bytes: &[u8]| {
        // The relay may close before it has taken all of it.
        let _ = client.stream.write_all(bytes);
        while client.stream.read(&mut [0; 4096]).is_ok_and(|length| length > 0) {}
    };
    ends(Client::connected(&stage, Door::Relay), b"no zero");
    ends(Client::connected(&stage, Door::Relay), b"\0BEGIN\r\n");
    ends(Client::connected(&stage, Door::Relay), &[&[0], vec![b'x'; 100_000].as_slice()].concat());
    ends(Client::new(&stage, Door::Relay), &[0xff; 64]);
    ends(Client::new(&stage, Door::Relay), b"l\x01\x00\x01\xff\xff\xff\x7f\x05\0\0\0\x08\0\0\0");
    let hello = Head { serial: 5, path: "/a", member: "M", ..Head::default() }.write(Order::Little, &[]);
    let mut twice = hello.clone();
    twice[16] = 3;
    ends(Client::new(&stage, Door::Relay), &twice);
    assert_eq!(other.find("gh:github.com").found(), stage.path_of("gh:github.com"));
}

#[test]
fn a_client_that_does_not_read_holds_up_nobody_else_and_loses_nothing() {
    let stage = Stage::new();
    let mut lazy = Client::new(&stage, Door::Relay);
    lazy.stream.set_nonblocking(true).unwrap();
    // Calls that pass and calls that are refused, until nobody takes any more.
    let start = lazy.serial;
    let mut rest: Vec<u8> = Vec::new();
    let mut in_vain = 0;
    while in_vain < 50 && lazy.serial < start + 200_000 {
        if rest.is_empty() {
            let member = if lazy.serial.is_multiple_of(2) { "ListNames" } else { "GetId" };
            lazy.serial += 1;
            let base = Head { serial: lazy.serial, path: BUS_PATH, interface: BUS, ..Head::default() };
            rest = Head { member, destination: BUS, ..base }.write(Order::Little, &[]);
        }
        match lazy.stream.write(&rest) {
            Ok(written) => {
                rest.drain(..written);
                in_vain = 0;
            }
            Err(_) => {
                std::thread::sleep(Duration::from_millis(20));
                in_vain += 1;
            }
        }
    }
    assert!(lazy.serial < start + 200_000, "it was never told to wait");
    let mut other = Client::new(&stage, Door::Relay);
    assert_eq!(other.find("gh:github.com").found(), stage.path_of("gh:github.com"));
    // Now it reads, and every call has its answer.
    lazy.stream.set_nonblocking(false).unwrap();
    let mut writing = lazy.stream.try_clone().unwrap();
    let writer = std::thread::spawn(move || writing.write_all(&rest).unwrap());
    let mut answers = 0;
    while answers < lazy.serial - start {
        answers += u32::from(lazy.next().unwrap().message().head.reply_serial > start);
    }
    writer.join().unwrap();
}

#[test]
fn more_clients_than_there_is_room_for_come_one_after_the_other() {
    let stage = Stage::without_keyring();
    let mut inside: Vec<Client> = (0..8).map(|_| Client::new(&stage, Door::Relay)).collect();
    for _ in 0..8 {
        let mut waiting = Client::connected(&stage, Door::Relay);
        drop(inside.remove(0));
        waiting.begin();
        inside.push(waiting);
    }
    for client in &mut inside {
        assert!(client.call(Call::bus("GetId", "")).is_return());
    }
}
