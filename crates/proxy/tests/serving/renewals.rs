//! Tokens of logins that are renewed. The test takes the part of the vault, which renews one login at a time.

use crate::origin::{OTHER, Origin};
use crate::support::{Cage, Proxy, Setup, binding};
use keyward_policy::login::Role;
use keyward_policy::net::{Binding, Places, Renewal};
use keyward_protocol::renewal::{Ask, ROOM, Tokens, Told};
use keyward_sys::channel;
use rustix::fd::OwnedFd;
use std::sync::{Arc, Mutex};
use zeroize::Zeroizing;

const HOST: &str = "api.example.test";
const HOSTS: [&str; 2] = [HOST, OTHER];

fn refresh(host: &str) -> String {
    format!("refresh-of-{host}-1")
}

fn phantom(host: &str) -> String {
    format!("phantom-refresh-of-{host}")
}

/// Both logins: each has a token that is used and one that renews.
fn bindings() -> Vec<Binding> {
    let of = |(login, host): (usize, &&str)| {
        let own = |role, kind: &str, phantom: String, scope: String| Binding {
            renewal: Some(Renewal { login, role, file: format!("/home/ann/{login}.json") }),
            places: Places { body: role == Role::Refresh, ..Places::default() },
            ..binding(&format!("{kind}-{login}"), &phantom, &[&scope])
        };
        [
            own(Role::Access, "access", format!("phantom-access-of-{host}"), format!("{host}/v1/*")),
            own(Role::Refresh, "refresh", phantom(host), format!("POST {host}/oauth/token")),
        ]
    };
    HOSTS.iter().enumerate().flat_map(of).collect()
}

/// Answers as the vault does. What it was told, with the login.
fn vault(socket: OwnedFd) -> Arc<Mutex<Vec<(u16, String)>>> {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let own = Arc::clone(&heard);
    std::thread::spawn(move || {
        let (mut begun, mut packet) = (None, vec![0; ROOM]);
        while let Ok(message) = channel::receive(&socket, &mut packet) {
            let Some(ask) = Ask::decode(&packet[..message.length]) else { return };
            let (login, what, told) = match ask {
                Ask::Begin { login } if begun.is_some_and(|begun| begun != login) => {
                    (login, "refused".to_owned(), Told::Failed("another login is being renewed".into()))
                }
                Ask::Begin { login } => {
                    begun = Some(login);
                    let refresh = Some(Zeroizing::new(refresh(HOSTS[usize::from(login)])));
                    (login, "begin".to_owned(), Told::Tokens(Tokens { refresh, ..Tokens::default() }))
                }
                Ask::Renewed { login, tokens } => {
                    begun = None;
                    (login, tokens.refresh.unwrap().to_string(), Told::Done)
                }
                Ask::Leave { login } => {
                    begun = None;
                    (login, "leave".to_owned(), Told::Done)
                }
            };
            own.lock().unwrap().push((login, what));
            channel::send(&socket, &told.encode(), &[]).unwrap();
        }
    });
    heard
}

type Heard = Arc<Mutex<Vec<(u16, String)>>>;

fn start() -> (Origin, Proxy, Cage, Heard) {
    let origin = Origin::start(HOST, &["h2", "http/1.1"]);
    let proxy = Proxy::start(Setup {
        upstreams: HOSTS.iter().map(|host| origin.upstream(host, 0)).collect(),
        roots: vec![origin.root.clone()],
        bindings: bindings(),
        ..Setup::default()
    });
    for (login, host) in HOSTS.iter().enumerate() {
        proxy.give(&format!("access-{login}"), &format!("access-of-{host}-1"));
        proxy.give(&format!("refresh-{login}"), &refresh(host));
    }
    let granted = ["access-0", "refresh-0", "access-1", "refresh-1"];
    let cage = Cage::start(&proxy, 1, &HOSTS, &granted);
    let heard = vault(proxy.renewals.try_clone().unwrap());
    (origin, proxy, cage, heard)
}

fn ask(phantom: &str, more: &str) -> String {
    format!("{{\"grant_type\":\"refresh_token\",\"refresh_token\":\"{phantom}\"{more}}}")
}

fn renew(ca: &str, cage: &Cage, host: &str, target: &str, body: &str) -> crate::support::Curled {
    let url = format!("https://{host}{target}");
    cage.curl(ca, &["-H", "content-type: application/json", "-d", body, &url])
}

#[test]
fn logins_that_are_renewed_at_once_do_not_get_each_others_tokens() {
    let (_origin, proxy, cage, heard) = start();
    let (ca, cage) = (&proxy.ca, &cage);
    let told: Vec<crate::support::Curled> = std::thread::scope(|scope| {
        let all: Vec<_> = HOSTS
            .iter()
            .map(|host| scope.spawn(|| renew(ca, cage, host, "/oauth/token", &ask(&phantom(host), ""))))
            .collect();
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    for told in &told {
        assert_eq!(told.status, 200, "{told:?} {:?}", heard.lock().unwrap());
        assert!(
            !told.body.contains("-of-api.example.test-2") && !told.body.contains("-of-other.example.test-2")
        );
    }
    let mut heard = heard.lock().unwrap().clone();
    heard.sort();
    let renewed = |login: u16| (login, format!("refresh-of-{}-2", HOSTS[usize::from(login)]));
    assert_eq!(heard, [(0, "begin".into()), renewed(0), (1, "begin".into()), renewed(1)]);
}

#[test]
fn a_request_for_tokens_that_is_not_a_plain_one_brings_none() {
    let (origin, proxy, cage, heard) = start();
    let own = phantom(HOST);
    let encoded = own.replace('-', "%2D");
    for (target, body) in [
        // As it would be passed on: its answer would hold tokens.
        ("/oauth/token?x=1", ask(&own, "")),
        ("/oauth//token", ask(&own, "")),
        ("/oauth/token/", ask(&own, "")),
        // The phantom once more, and that of another login.
        ("/oauth/token", ask(&own, &format!(",\"x\":\"{own}\""))),
        ("/oauth/token", ask(&own, &format!(",\"x\":\"{encoded}\""))),
        ("/oauth/token", ask(&own, &format!(",\"x\":[\"{}\"]", phantom(OTHER)))),
        ("/oauth/token", ask(&own, &format!(",\"x\":\"phantom\\u002daccess-of-{HOST}\""))),
        ("/oauth/token", ask("refresh-of-an-attacker", "")),
        ("/oauth/token", "not JSON".to_owned()),
    ] {
        let told = renew(&proxy.ca, &cage, HOST, target, &body);
        assert_eq!(told.status, 403, "{target} {body} {told:?}");
    }
    assert_eq!(origin.lines(), [] as [String; 0]);
    assert_eq!(heard.lock().unwrap().len(), 0);
    assert_eq!(renew(&proxy.ca, &cage, HOST, "/oauth/token", &ask(&own, "")).status, 200, "the control");
}

#[test]
fn what_a_host_says_when_it_does_not_renew_holds_no_token() {
    let (_origin, proxy, cage, _heard) = start();
    // The host knows another one, and repeats what it was sent.
    proxy.give("refresh-0", "an-old-refresh-token");
    let phantom = phantom(HOST);
    let told = renew(&proxy.ca, &cage, HOST, "/oauth/token", &ask(&phantom, ""));
    // What stands in the file is newer, and is used.
    assert_eq!(told.status, 200, "{told:?}");
    let told = renew(&proxy.ca, &cage, OTHER, "/oauth/token", &ask(&self::phantom(OTHER), ",\"data\":1"));
    assert_eq!(told.status, 200, "{told:?}");
    // Both are spent now.
    let (_origin, proxy, cage, _heard) = start_spent();
    let told = renew(&proxy.ca, &cage, HOST, "/oauth/token", &ask(&phantom, ""));
    assert_eq!((told.status, told.json()["was"].as_str()), (400, Some(phantom.as_str())), "{told:?}");
    let told =
        renew(&proxy.ca, &cage, HOST, "/oauth/token", &ask(&phantom, ",\"data\":{\"id_token\":\"x\"}"));
    assert_eq!((told.status, told.body.as_str()), (400, ""), "{told:?}");
}

/// The same with tokens that the hosts do not take, in the files as well.
fn start_spent() -> (Origin, Proxy, Cage, Heard) {
    let origin = Origin::start(HOST, &["http/1.1"]);
    let spent = "spent.example.test";
    let proxy = Proxy::start(Setup {
        upstreams: vec![origin.upstream(HOST, 0)],
        roots: vec![origin.root.clone()],
        bindings: bindings(),
        ..Setup::default()
    });
    for login in 0..2 {
        proxy.give(&format!("access-{login}"), "access-token");
        proxy.give(&format!("refresh-{login}"), &refresh(spent));
    }
    let cage = Cage::start(&proxy, 1, &HOSTS, &["access-0", "refresh-0"]);
    let socket = proxy.renewals.try_clone().unwrap();
    let heard: Heard = Arc::default();
    std::thread::spawn(move || {
        let mut packet = vec![0; ROOM];
        while let Ok(message) = channel::receive(&socket, &mut packet) {
            let told = match Ask::decode(&packet[..message.length]) {
                Some(Ask::Begin { .. }) => {
                    let refresh = Some(Zeroizing::new(refresh(spent)));
                    Told::Tokens(Tokens { refresh, ..Tokens::default() })
                }
                Some(_) => Told::Done,
                None => return,
            };
            channel::send(&socket, &told.encode(), &[]).unwrap();
        }
    });
    (origin, proxy, cage, heard)
}
