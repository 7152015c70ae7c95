//! Phantoms and the values that take their place.

use crate::origin::Origin;
use crate::support::{Cage, PHANTOM, Proxy, Setup, VALUE, binding};
use keyward_policy::net::{Binding, Places, Reason, Scheme};
use keyward_protocol::proxy::{Report, Value};

const HOST: &str = "api.example.test";

fn start_with(bindings: Vec<Binding>, protocols: &[&str]) -> (Origin, Proxy) {
    let origin = Origin::start(HOST, protocols);
    let proxy = Proxy::start(Setup {
        upstreams: vec![origin.upstream(HOST, 0), origin.upstream("other.example.test", 0)],
        roots: vec![origin.root.clone()],
        bindings,
        ..Setup::default()
    });
    (origin, proxy)
}

fn start() -> (Origin, Proxy, Cage) {
    let (origin, proxy) = start_with(vec![binding("example", PHANTOM, &[HOST])], &["h2", "http/1.1"]);
    proxy.give("example", VALUE);
    let cage = Cage::start(&proxy, 1, &[HOST, "other.example.test/*"], &["example"]);
    (origin, proxy, cage)
}

fn url(path: &str) -> String {
    format!("https://{HOST}{path}")
}

#[test]
fn the_value_takes_the_place_of_its_phantom_in_any_header() {
    let (_origin, proxy, cage) = start();
    for version in ["--http2", "--http1.1"] {
        let bearer = format!("Authorization: Bearer {PHANTOM}");
        let told = cage.curl(&proxy.ca, &[version, "-H", &bearer, "-H", "accept-encoding: gzip", &url("/a")]);
        assert_eq!(told.status, 200, "{told:?}");
        // The host echoes what it was sent, and so the phantom stands there again.
        assert_eq!(told.json()["headers"]["authorization"], format!("Bearer {PHANTOM}"));
        assert_eq!(told.json()["headers"]["accept-encoding"], "identity");
    }
    let swapped = proxy.until(|report| match report {
        Report::Swapped { secret, .. } => Some(secret.clone()),
        _ => None,
    });
    assert_eq!(swapped, "example");
    let echoed = proxy.until(|report| match report {
        Report::Echoed { secret, .. } => Some(secret.clone()),
        _ => None,
    });
    assert_eq!(echoed, "example", "a notice");
    // Inside Basic credentials an echo is not found, which shows that the host really got the value.
    let told = cage.curl(&proxy.ca, &["-u", &format!("user:{PHANTOM}"), &url("/a")]);
    let sent = told.json()["headers"]["authorization"].as_str().unwrap().to_owned();
    use base64::Engine;
    let decoded =
        base64::engine::general_purpose::STANDARD.decode(sent.trim_start_matches("Basic ")).unwrap();
    assert_eq!(String::from_utf8(decoded).unwrap(), format!("user:{VALUE}"), "the host got the value");
}

#[test]
fn a_phantom_that_cannot_be_replaced_is_refused_and_told() {
    let (origin, proxy, cage) = start();
    let bearer = format!("Authorization: Bearer {PHANTOM}");
    // Another host that is allowed and read.
    let told = cage.curl(&proxy.ca, &["-H", &bearer, "https://other.example.test/x"]);
    assert_eq!(told.status, 403, "{told:?}");
    assert_eq!(
        proxy.until(|report| match report {
            Report::Denied { denial, .. } => Some(denial.reason),
            _ => None,
        }),
        Reason::Phantom
    );
    // A cage that was not granted it.
    let stranger = Cage::start(&proxy, 2, &[HOST], &[]);
    assert_eq!(stranger.curl(&proxy.ca, &["-H", &bearer, &url("/x")]).status, 403);
    // Places that the binding does not name.
    for arguments in [
        vec![url(&format!("/x?key={PHANTOM}"))],
        vec![url(&format!("/{PHANTOM}/x"))],
        vec![url(&format!("/x?key={}", PHANTOM.replace('-', "%2d")))],
        vec!["-d".into(), format!("key={PHANTOM}"), url("/x")],
        vec!["-d".into(), format!("key={PHANTOM}"), "https://other.example.test/x".into()],
    ] {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let told = cage.curl(&proxy.ca, &arguments);
        assert_eq!(told.status, 403, "{arguments:?} {told:?}");
        assert!(told.body.contains("\"reason\":\"phantom\""), "{told:?}");
    }
    // Without encryption.
    let plain = Cage::start(&proxy, 3, &["plain.example.test"], &["example"]);
    let told = plain.curl(&proxy.ca, &["-H", &bearer, "http://plain.example.test/"]);
    assert_eq!(told.status, 403, "{told:?}");
    assert!(origin.lines().iter().all(|line| !line.contains("phantom")), "{:?}", origin.lines());
    // A model is told what a program printed: the phantom may stand in the body beside the head it was replaced in, and does not leave.
    let told = cage.curl(&proxy.ca, &["-H", &bearer, "-d", &format!("printed: {PHANTOM}"), &url("/x")]);
    assert_eq!(told.status, 200, "{told:?}");
    assert_eq!(told.json()["body"], format!("printed: {}", "*".repeat(PHANTOM.len())));
    assert_eq!(masked(&proxy), "example", "and it is recorded");
}

/// The secret of the next phantom that was taken out of a body.
fn masked(proxy: &Proxy) -> String {
    proxy.until(|report| match report {
        Report::Masked { secret, .. } => Some(secret.clone()),
        _ => None,
    })
}

/// What may begin a phantom or a value is held back until more is known, also at the very end.
#[test]
fn a_body_that_ends_as_a_credential_begins_arrives_whole() {
    let (_origin, proxy, cage) = start();
    let bearer = format!("Authorization: Bearer {PHANTOM}");
    for version in ["--http2", "--http1.1"] {
        let data = format!("{version} ends with {}", &PHANTOM[..7]);
        let told = cage.curl(&proxy.ca, &[version, "-H", &bearer, "-d", &data, &url("/x")]);
        assert_eq!(told.json()["body"], data, "{told:?}");
        // The answer is as its host wrote it.
        let ends = format!("/ends/{}", &VALUE[..7]);
        let told = cage.curl(&proxy.ca, &[version, "-H", &bearer, &url(&ends)]);
        assert_eq!(told.body, &VALUE[..7], "{told:?}");
    }
}

#[test]
fn no_other_credential_passes_to_a_bound_host() {
    let (origin, proxy, cage) = start();
    for arguments in [
        &["-H", "Authorization: Bearer attacker"][..],
        &["-H", "x-api-key: attacker"],
        &["-u", "attacker:password"],
        &["-G", "-d", "access_token=attacker"],
    ] {
        let told = cage.curl(&proxy.ca, &[arguments, &[&url("/upload")]].concat());
        assert_eq!(told.status, 403, "{told:?}");
        assert!(told.body.contains("other-credential"), "{told:?}");
    }
    let both = format!("Authorization: Bearer {PHANTOM}");
    assert_eq!(
        cage.curl(&proxy.ca, &["-H", &both, "-H", "x-api-key: attacker", &url("/upload")]).status,
        403
    );
    assert_eq!(origin.lines(), [] as [String; 0]);
    assert_eq!(cage.curl(&proxy.ca, &[&url("/public")]).status, 200, "without any credential");
    // The same to a host without a binding.
    let told = cage.curl(&proxy.ca, &["-H", "Authorization: Bearer own", "https://other.example.test/x"]);
    assert_eq!(told.status, 200, "{told:?}");
}

#[test]
fn calls_that_answer_with_credentials_are_refused() {
    let (origin, proxy, cage) = start();
    let bearer = format!("Authorization: Bearer {PHANTOM}");
    for path in ["/oauth/token", "/OAuth//token", "/oauth%2ftoken"] {
        let told = cage.curl(&proxy.ca, &["-X", "POST", "-H", &bearer, &url(path)]);
        assert_eq!(told.status, 403, "{path} {told:?}");
        assert!(told.body.contains("minting"), "{told:?}");
    }
    assert_eq!(origin.lines(), [] as [String; 0]);
}

#[test]
fn query_path_and_body_are_replaced_where_the_binding_says_so() {
    let places = Places { query: true, path: true, body: true };
    let own = Binding { places, ..binding("example", PHANTOM, &[HOST]) };
    let (origin, proxy) = start_with(vec![own], &["http/1.1"]);
    // A value of another length than its phantom.
    proxy.give("example", "sk-short");
    let cage = Cage::start(&proxy, 1, &[HOST], &["example"]);
    let told = cage.curl(&proxy.ca, &[&url(&format!("/bot{PHANTOM}/send?key={PHANTOM}&x=y"))]);
    assert_eq!(told.status, 200, "{told:?}");
    assert_eq!(origin.lines(), ["GET /botsk-short/send?key=sk-short&x=y"]);
    let data = format!("{{\"api_key\":\"{PHANTOM}\"}}");
    let told = cage.curl(&proxy.ca, &["-d", &data, &url("/x")]);
    // The host tells the length that it got, and its echo carries the phantom again.
    assert_eq!(told.json()["length"], "{\"api_key\":\"sk-short\"}".len(), "{told:?}");
    assert_eq!(told.json()["body"], data, "{told:?}");
    assert_eq!(told.json()["headers"]["accept-encoding"], "identity");
    let reported: Vec<Report> = proxy.heard();
    let is_echoed = |report: &Report| matches!(report, Report::Echoed { secret, .. } if secret == "example");
    assert!(reported.iter().any(is_echoed), "{reported:?}");
}

#[test]
fn a_secret_that_stands_in_a_body_alone_is_recorded_and_revoked_as_any_other() {
    let places = Places { body: true, ..Places::default() };
    let own = Binding { places, ..binding("example", PHANTOM, &[HOST]) };
    let (_origin, proxy) = start_with(vec![own], &["h2", "http/1.1"]);
    proxy.give("example", VALUE);
    let cage = Cage::start(&proxy, 1, &[HOST], &["example"]);
    assert_eq!(cage.curl(&proxy.ca, &["-d", "no phantom", &url("/x")]).status, 200);
    assert_eq!(cage.curl(&proxy.ca, &["-d", PHANTOM, &url("/x")]).json()["length"], VALUE.len());
    let swapped = proxy.heard().iter().filter(|report| matches!(report, Report::Swapped { .. })).count();
    assert_eq!(swapped, 1);
    proxy.tell_value(Value::Revoked { secret: "example" });
    assert_eq!(cage.curl(&proxy.ca, &["-d", PHANTOM, &url("/x")]).status, 502);
}

#[test]
fn a_request_waits_for_the_value_and_a_revoked_one_is_gone() {
    let (origin, proxy) = start_with(vec![binding("example", PHANTOM, &[HOST])], &["h2", "http/1.1"]);
    let cage = Cage::start(&proxy, 1, &[HOST], &["example"]);
    let bearer = format!("Authorization: Bearer {PHANTOM}");
    let ca = &proxy.ca;
    let told = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| cage.curl(ca, &["-H", &bearer, &url("/x")]));
        std::thread::sleep(std::time::Duration::from_millis(50));
        proxy.give("example", VALUE);
        waiting.join().unwrap()
    });
    assert_eq!(told.status, 200, "{told:?}");
    proxy.tell_value(Value::Revoked { secret: "example" });
    let told = cage.curl(&proxy.ca, &["-H", &bearer, &url("/x")]);
    assert_eq!(told.status, 502, "{told:?}");
    assert!(told.body.contains("revoked"), "{told:?}");
    assert_eq!(origin.lines().len(), 1);
    proxy.tell_value(Value::Failed { secret: "example", fact: "the keyring is locked" });
    let told = cage.curl(&proxy.ca, &["-H", &bearer, &url("/x")]);
    assert!(told.body.contains("the keyring is locked"), "{told:?}");
}

#[test]
fn an_open_websocket_ends_with_the_secret_that_it_began_with() {
    let (_origin, proxy, cage) = start();
    let bearer = format!("Authorization: Bearer {PHANTOM}\r\n");
    let mut socket = crate::requests::Socket::open(&cage, &bearer);
    let mut other = crate::requests::Socket::open(&cage, "");
    assert_eq!(socket.echo("before\n"), "before\n");
    proxy.tell_value(Value::Revoked { secret: "example" });
    assert_eq!(socket.line(), "", "it has ended");
    assert_eq!(other.echo("after\n"), "after\n", "one without the secret stays");
}

#[test]
fn a_signed_request_is_signed_anew_for_its_service_and_region_only() {
    let phantom = "AKIAPHANTOM012345678:phantomphantomphantomphantomphantomphan";
    let scheme = Scheme::AwsV4 { service: "execute-api".into(), region: "eu-west-1".into() };
    let own = Binding { scheme, ..binding("aws", phantom, &[HOST]) };
    let (origin, proxy) = start_with(vec![own], &["h2", "http/1.1"]);
    proxy.give("aws", "AKIAREAL:realrealrealrealrealrealrealrealrealreal");
    let cage = Cage::start(&proxy, 1, &[HOST, "other.example.test/*"], &["aws"]);
    let signed = |scope: &str, more: &[&str]| {
        let scope = format!("aws:amz:{scope}");
        cage.curl(&proxy.ca, &[&["--aws-sigv4", &scope, "--user", phantom], more].concat())
    };
    for version in ["--http2", "--http1.1"] {
        let told = signed("eu-west-1:execute-api", &[version, "-d", "some body", &url("/x?a=1&b=2")]);
        assert_eq!(told.status, 200, "{told:?}");
        let sent = told.json();
        let authorization = sent["headers"]["authorization"].as_str().unwrap();
        // The host got the number of the real key; its echo has as many asterisks.
        assert!(authorization.contains("Credential=********/"), "{authorization}");
        assert!(authorization.contains("/eu-west-1/execute-api/aws4_request"), "{authorization}");
        assert_eq!(sent["body"], "some body");
    }
    let count = origin.lines().len();
    for (scope, to, reason) in [
        ("us-east-1:execute-api", url("/x"), "signature"),
        ("eu-west-1:s3", url("/x"), "signature"),
        ("eu-west-1:execute-api", "https://other.example.test/x".into(), "phantom"),
        ("eu-west-1:execute-api", url("/AKIAPHANTOM012345678"), "phantom"),
        ("eu-west-1:execute-api", url("/x?a=phantomphantomphantomphantomphantomphan"), "phantom"),
        ("eu-west-1:execute-api", url("/x?X%2DAmz-Credential=AKIAOTHER%2F1"), "other-credential"),
    ] {
        let told = signed(scope, &[&to]);
        assert_eq!(told.status, 403, "{scope} {to} {told:?}");
        assert!(told.body.contains(&format!("\"reason\":\"{reason}\"")), "{told:?}");
    }
    let forged = ["--aws-sigv4", "aws:amz:eu-west-1:execute-api", "--user", "AKIAPHANTOM012345678:guess"];
    let told = cage.curl(&proxy.ca, &[&forged[..], &[&url("/x")]].concat());
    assert!(told.status == 403 && told.body.contains("does not fit the request"), "{told:?}");
    let chunks = "x-amz-content-sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD";
    let told = signed("eu-west-1:execute-api", &["-H", chunks, "-d", "5;chunk-signature=0", &url("/x")]);
    assert!(told.status == 403 && told.body.contains("each chunk of the upload is signed"), "{told:?}");
    let other = cage.curl(
        &proxy.ca,
        &["--aws-sigv4", "aws:amz:eu-west-1:execute-api", "--user", "AKIAOTHER:other", &url("/x")],
    );
    assert!(other.body.contains("other-credential"), "{other:?}");
    let leaked = cage.curl(&proxy.ca, &["-d", phantom, "https://other.example.test/x"]);
    assert_eq!(leaked.status, 403, "{leaked:?}");
    assert_eq!(origin.lines().len(), count);
}

/// Made by botocore; `aws.rs` says how.
#[test]
fn what_a_client_signed_in_any_way_arrives_as_if_it_had_the_real_key() {
    let cases: Vec<serde_json::Value> = serde_json::from_str(include_str!("../data/aws.json")).unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    for case in cases {
        let (sent, expected) = (&case["sent"], &case["expected"]);
        let host = text(&sent["headers"]["host"]);
        let scheme = Scheme::AwsV4 { service: text(&case["service"]), region: text(&case["region"]) };
        let phantom = "AKIAPHANTOMPHANTOM22:phantomphantomphantomphantomphantomphant";
        let origin = Origin::start(&host, &["h2", "http/1.1"]);
        let proxy = Proxy::start(Setup {
            upstreams: vec![origin.upstream(&host, 0)],
            roots: vec![origin.root.clone()],
            bindings: vec![Binding { scheme, ..binding("aws", phantom, &[&host]) }],
            ..Setup::default()
        });
        proxy.give("aws", &text(&case["real"]));
        let cage = Cage::start(&proxy, 1, &[&host], &["aws"]);
        let mut arguments = vec!["-X".to_owned(), text(&case["method"]), "--path-as-is".into()];
        for (name, value) in sent["headers"].as_object().unwrap().iter().filter(|(name, _)| *name != "host") {
            arguments.extend(["-H".to_owned(), format!("{name}: {}", text(value))]);
        }
        if case["body"] != "" {
            arguments.extend(["--data-binary".to_owned(), text(&case["body"])]);
        }
        let query = text(&sent["query"]);
        let mark = if query.is_empty() { "" } else { "?" };
        arguments.push(format!("https://{host}{}{mark}{query}", text(&sent["path"])));
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let told = cage.curl(&proxy.ca, &arguments);
        assert_eq!(told.status, 200, "{} {told:?}", case["name"]);
        let signature = |text: &str| {
            let at = text.find("Signature=").unwrap_or_else(|| panic!("{text}")) + "Signature=".len();
            text[at..].chars().take_while(char::is_ascii_hexdigit).collect::<String>()
        };
        let expected = match expected["headers"]["authorization"].as_str() {
            Some(header) => (signature(header), told.json()["headers"]["authorization"].to_string()),
            None => (signature(&text(&expected["query"])), origin.lines().concat()),
        };
        assert_eq!(expected.0, signature(&expected.1), "{}", case["name"]);
        let secret = text(&case["real"]).split(':').nth(1).unwrap().to_owned();
        assert!(!told.body.contains(&secret) && !told.body.contains("AKIAREAL"), "{told:?}");
    }
}

#[test]
fn a_phantom_in_the_body_or_in_trailers_does_not_leave() {
    let other = "sk-other-0000000000000000000000000000000000000000";
    let places = Places { query: false, path: false, body: true };
    let bindings = vec![
        Binding { places, ..binding("example", PHANTOM, &[HOST]) },
        binding("other", other, &["other.example.test"]),
    ];
    let (_origin, proxy) = start_with(bindings, &["h2", "http/1.1"]);
    proxy.give("example", VALUE);
    proxy.give("other", "the value of the other");
    let cage = Cage::start(&proxy, 1, &[HOST, "other.example.test/*"], &["example", "other"]);
    // Beside a phantom that is replaced in the body, one of another host is masked and recorded.
    let told = cage.curl(&proxy.ca, &["-d", &format!("{PHANTOM} {other}"), &url("/a")]);
    let body = told.json()["body"].as_str().unwrap().to_owned();
    assert!(!body.contains(other) && body.ends_with(&"*".repeat(other.len())), "{body}");
    assert_eq!(masked(&proxy), "other");
    // Trailers, where nothing is replaced.
    let (_origin, proxy) =
        start_with(vec![binding("example", PHANTOM, &["other.example.test"])], &["http/1.1"]);
    proxy.give("example", VALUE);
    let cage = Cage::start(&proxy, 1, &["api.example.test/*"], &["example"]);
    let at = cage.place(HOST, 443);
    let request = format!(
        "POST /a HTTP/1.1\r\nHost: {HOST}\r\nTransfer-Encoding: chunked\r\nTrailer: x-note\r\n\r\n1\r\na\r\n0\r\nx-note: {PHANTOM}\r\n\r\n"
    );
    let mut client = std::process::Command::new("openssl")
        .env_clear()
        .args(["s_client", "-quiet", "-connect", &at.to_string(), "-servername", HOST])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    use std::io::Write;
    let mut input = client.stdin.take().unwrap();
    input.write_all(request.as_bytes()).unwrap();
    let denied = proxy.until(|report| match report {
        Report::Denied { denial, .. } => denial.detail.clone(),
        _ => None,
    });
    assert!(denied.contains("it stands in the body"), "{denied}");
    drop(input);
    let _ = client.kill();
    let _ = client.wait();
}
