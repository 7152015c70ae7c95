//! What goes and what stays, by example and by property.

use super::*;
use proptest::prelude::*;

fn shown(text: &str) -> String {
    String::from_utf8(without_credentials(text.as_bytes())).unwrap()
}

/// What git gives as an example of most of its settings, as a tool or a person writes it.
const ORDINARY: &str = "\u{feff}[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n  askPass = /usr/bin/ksshaskpass\n\
    \tsshCommand = ssh -i ~/.ssh/id_work -o IdentitiesOnly=yes\n\teditor = \"code --wait\"\n\
    [remote \"origin\"]\n\turl = git@github.com:keyward/keyward.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n\
    [remote \"work\"]\n\turl = ssh://git@git.example.test:2222/team/work.git\n\tpushurl = https://example.test:8443/a@b/c.git\n\
    [branch \"feature/token-refresh\"]\n\tremote = origin\n\tmerge = refs/heads/feature/token-refresh\n\trebase\n\
    [url \"git@github.com:\"]\n\tinsteadOf = https://github.com/\n\
    [url \"ssh://git@github.com/\"]\n\tpushInsteadOf = https://github.com/\n\
    [http]\n\tproxy = http://proxy.example.test:3128\n\tsslCertPasswordProtected = true\n\tcookieFile = ~/.gitcookies\n\
    [http \"https://example.test/\"]\n\tsslVerify = false\n\
    [credential]\n\thelper = cache --timeout=3600\n\thelper = \"!/usr/bin/gh auth git-credential\"\n\tusername = ada\n\
    \tuseHttpPath = true\n[user]\n\tname = Ada \\\"L\\\" Lovelace\r\n\temail = ada@example.test\n\
    \tsigningKey = ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIB3nX8vJ1yq5WjTQxV0k6gkOd0f9yq1m5Zr4lYQb2c7a ada\n\
    [alias]\n\tlg = log --graph --pretty=format:'%h -%d %s (%cr) <%an>'\n\tx = \"!f() { git push -u origin \\\"$1\\\"; }; f\"\n\
    [sendemail]\n\tsmtpServer = smtp.example.test\n\tsmtpUser = ada\n[fetch]\n\tbundleCreationToken = 1700000000\n[diff]\n\ttool = a \\\n b\n\
    [submodule \"lib\"]\n\turl = https://github.com/x/lib\n\tactive = true\n[lfs \"https://example.test/a.git/info/lfs\"]\n\taccess = basic\n";

#[test]
fn a_file_without_credentials_stays_as_it_is() {
    assert_eq!(shown(ORDINARY), ORDINARY);
    assert!(!holds_credentials(ORDINARY.as_bytes()));
    assert_eq!(shown(""), "");
}

#[test]
fn what_names_a_user_or_a_password_goes_from_addresses() {
    for (value, left) in [
        ("https://token@host/x", "https://host/x"),
        ("https://ada:pw@host/x", "https://host/x"),
        ("HTTPS://ada:pw@host/x", "HTTPS://host/x"),
        ("https://a@b:c@host/x", "https://host/x"),
        ("https://ada:p w\\\"@host/x", "https://host/x"),
        ("https:///token@host/x", "https:///host/x"),
        ("https://a@https://b@host", "https://https://host"),
        ("ftp://ada:pw@host/x", "ftp://host/x"),
        ("http://token@host", "http://host"),
        ("ssh://git:pw@host/x", "ssh://git@host/x"),
        ("ssh://git@host/x", "ssh://git@host/x"),
        ("socks5://ada:pw@host:1", "socks5://host:1"),
        ("git@host:x", "git@host:x"),
        ("https://host/@scope/x", "https://host/@scope/x"),
    ] {
        let file = |value: &str| {
            format!("[core]\n\tbare = false\n[remote \"a\"]\n\turl = {value}\n\tprune = true\n")
        };
        assert_eq!(shown(&file(value)), file(left));
    }
    let text = "[alias]\n\tx = \"!curl https://ada:pw@host/a https://t@host/b\" # c\n\ty = z\n";
    assert_eq!(shown(text), "[alias]\n\tx = \"!curl https://host/a https://host/b\"\n\ty = z\n");
    let text = "[http]\nproxy=ada:pw@proxy:3128\n[remote \"a\"]\nproxy=ada@proxy\n";
    assert_eq!(shown(text), "[http]\nproxy=proxy:3128\n[remote \"a\"]\nproxy=proxy\n");
}

#[test]
fn of_a_setting_with_countless_addresses_nothing_stays() {
    let value = "https://t@h ".repeat(20_000);
    assert_eq!(shown(&format!("[a]\n\tb = \"{value}\"\n")), "[a]\n\tb = \"\"\n");
}

#[test]
fn a_section_named_by_such_an_address_goes_as_a_whole() {
    let text = "[core]\n\tbare = false\n[url \"https://token@github.com/\"]\n\tinsteadOf = https://github.com/\n\
        [http \"https://u:p@h/\"]\n\tsslVerify = false\n\n[user]\n\tname = Ada\n\
        [includeIf \"hasconfig:remote.*.url:https://t@h/**\"]\n\tpath = x\n[url \"https://x@h/\"]\n";
    assert_eq!(shown(text), "[core]\n\tbare = false\n[user]\n\tname = Ada\n");
}

#[test]
fn entries_that_are_credentials_go() {
    for entry in [
        "[http]\n\textraHeader = AUTHORIZATION: basic eDp5\n",
        "[http \"https://github.com/\"]\n\textraheader = anything\n",
        "[sendemail]\n\tsmtpPass = hunter2\n",
        "[sendemail \"work\"]\n\tsmtppass = hunter2\n",
        "[imap]\n\tpass = hunter2\n",
        "[github]\n\ttoken = hunter2\n",
        "[hub]\n\toauthToken = hunter2\n",
        "[x]\n\tclient-secret = hunter2\n",
        "[x]\n\tapiKey = hunter2\n",
        "[x]\n\tdbPassword = hunter2\n",
        "[credential]\n\thelper = \"!f() { echo username=x; echo password=hunter2; }; f\"\n",
        "[credential \"https://h/\"]\n\thelper = \"!/bin/give 8f7d6c5b4a39281706f5e4d3\"\n",
        "[alias]\n\tx = !curl --password hunter2 x\n",
        "[remote \"a\"]\n\turl = https://host/ghp_0123456789abcdefghijABCDEFGHIJ012345/x\n",
        "[remote \"a\"]\n\turl = https://u:p/w@host/x\n",
        "[remote \"a\"]\n\turl = https://host/x?private_token=glpat-0123456789abcdefghij\n",
    ] {
        let whole = format!("[core]\n\tbare = false\n{entry}[user]\n\tname = Ada\n");
        let heading = entry.split_inclusive('\n').next().unwrap();
        assert_eq!(shown(&whole), format!("[core]\n\tbare = false\n{heading}[user]\n\tname = Ada\n"));
        assert!(holds_credentials(whole.as_bytes()), "{entry}");
    }
    assert_eq!(shown("[http] extraHeader = x\n\tproxy = y\n"), "[http]\tproxy = y\n");
    assert_eq!(
        shown("[x]\n\ttoken\n\tpassword = \n\tpass = false\n"),
        "[x]\n\ttoken\n\tpassword = \n\tpass = false\n"
    );
}

#[test]
fn comments_go_and_what_stands_beside_them_stays() {
    let text = "# first\n[core] ; one\n\tbare = false # two\n  ; three\n\tx = \"a # b\" ; four\n\ty =#five\r\n# last";
    assert_eq!(shown(text), "[core]\n\tbare = false\n\tx = \"a # b\"\n\ty =\r\n");
    // For a reader of the file they count only if they look like a credential.
    assert!(!holds_credentials(text.as_bytes()));
    for comment in
        ["url = https://t@h/x", "password = hunter2", "8f7d6c5b4a39281706f5e4d3", "extraHeader = x"]
    {
        for text in
            [format!("# {comment}\n[a]\n"), format!("[a]\nb = c ; {comment}\n"), format!("[a] #{comment}")]
        {
            assert!(holds_credentials(text.as_bytes()), "{text}");
        }
    }
}

#[test]
fn what_git_could_not_read_is_empty() {
    for text in ["x = 1\n", "[a\nx=1\n", "[a]\nx = \"1\n", "[a \"b]\n", "\0"] {
        assert_eq!(shown(text), "");
        assert!(!holds_credentials(text.as_bytes()));
    }
    assert!(holds_credentials(b"[a\nurl = https://token@host/x\n"));
    assert!(holds_credentials(b"[a\npassword = hunter2\n"));
}

#[test]
fn a_file_of_git_is_known_by_what_it_says() {
    for text in [ORDINARY, "[core]\nrepositoryFormatVersion=0\n", "[remote \"a\"]\nurl = x\n"] {
        assert!(is_git_config(text.as_bytes()), "{text}");
    }
    for text in [
        "",
        "[default]\nregion = x\n",
        "Host x\n\tUser y\n",
        "# [remote \"a\"]\nurl = x\n",
        "[remote \"a\"\n",
    ] {
        assert!(!is_git_config(text.as_bytes()), "{text}");
    }
}

/// What a person or a tool may write into a value.
fn plain() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{1,8}",
        "[a-z]{1,6} [a-z]{1,6}",
        Just("git@example.test:a/b.git".to_owned()),
        Just("ssh://git@example.test/a".to_owned()),
        Just("https://example.test/a".to_owned()),
        Just("+refs/heads/*:refs/remotes/origin/*".to_owned()),
        Just("\"quoted ; # \\\" \\\\ \\t\"".to_owned()),
        Just("a \\\n b".to_owned()),
    ]
}

fn heading() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{2,8}".prop_map(|name| format!("[{name}]")),
        ("[a-z]{2,8}", "[a-z/]{1,8}").prop_map(|(name, sub)| format!("[{name} \"{sub}\"]")),
        "[a-z]{2,5}\\.[a-z]{2,5}".prop_map(|name| format!("[{name}]")),
    ]
}

fn file(value: impl Strategy<Value = String>) -> impl Strategy<Value = String> {
    let blank = prop_oneof![Just(""), Just("\n"), Just("\r\n"), Just(" \t")];
    let line =
        ("[ \t]{0,2}", "[a-z]{2,8}x", " ?= ?", value).prop_map(|(a, b, c, d)| format!("{a}{b}{c}{d}\n"));
    let section = (heading(), blank, proptest::collection::vec(line, 0..4))
        .prop_map(|(heading, blank, lines)| format!("{heading}{blank}{}", lines.concat()));
    proptest::collection::vec(section, 0..4).prop_map(|sections| sections.concat())
}

const PLANTED: &str = "plantedtoken";

/// A line that holds the planted token where a credential may stand.
fn planted() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(format!("url = https://{PLANTED}@example.test/x")),
        Just(format!("url = \"https://ada:{PLANTED}@example.test/x\" # c")),
        Just(format!("url = https://ada:{PLANTED} \\\n @example.test/x")),
        Just(format!("url = ssh://git:{PLANTED}@example.test/x")),
        Just(format!("cmd = \"!curl ftp://{PLANTED}@h https://x@h\"")),
        Just(format!("proxy = {PLANTED}@example.test")),
        Just(format!("smtpPass = {PLANTED}")),
        Just(format!("api-key={PLANTED}")),
        Just(format!("# {PLANTED}")),
        Just(format!("a = b ; {PLANTED}")),
        Just(format!("[url \"https://{PLANTED}@h/\"]\n\tinsteadOf = https://h/")),
        Just(format!("[http]\n\textraHeader = \"x: {PLANTED}\"")),
        Just(format!("[http \"https://h/\"] extraHeader = {PLANTED}")),
        Just(format!("[a \"ssh://u:{PLANTED}@h\"] ; {PLANTED}")),
    ]
}

proptest! {
    #[test]
    fn a_file_without_credentials_stays_byte_for_byte(text in file(plain())) {
        prop_assert_eq!(shown(&text), text.clone());
        prop_assert!(!holds_credentials(text.as_bytes()));
    }

    #[test]
    fn no_planted_token_is_left_and_the_rest_is(before in file(plain()), line in planted(), after in file(plain())) {
        let text = format!("{before}\n[remote \"x\"]\n{line}\n{after}");
        let left = without_credentials(text.as_bytes());
        prop_assert!(!String::from_utf8_lossy(&left).contains(PLANTED), "{}", String::from_utf8_lossy(&left));
        prop_assert!(left.starts_with(before.as_bytes()) && left.ends_with(after.as_bytes()));
        prop_assert!(Config::read(&left).is_ok());
        prop_assert_eq!(without_credentials(&left), left.clone());
        prop_assert!(!holds_credentials(&left));
        // Comments alone are judged by how they look.
        prop_assert!(holds_credentials(text.as_bytes()) || line.contains(['#', ';']));
    }

    #[test]
    fn anything_can_be_given(text in proptest::collection::vec(any::<u8>(), 0..200)) {
        let left = without_credentials(&text);
        prop_assert!(Config::read(&left).is_ok());
        prop_assert_eq!(without_credentials(&left), left);
        let _ = (holds_credentials(&text), is_git_config(&text));
    }

    #[test]
    fn anything_that_looks_like_settings_can_be_given(text in "(\\[a[ \"\\\\b\\]]{0,6}|url|=|https?://|@|:|/|#|;|\"|\\\\|\n|\r| |t){0,40}") {
        let left = without_credentials(text.as_bytes());
        prop_assert!(Config::read(&left).is_ok());
        prop_assert_eq!(without_credentials(&left), left.clone());
        if let (Ok(before), Ok(after)) = (Config::read(text.as_bytes()), Config::read(&left)) {
            // An entry that stays has its value, or that value without what named a user.
            let mut all = before.entries.iter();
            for entry in &after.entries {
                let fits = |other: &Entry| other.name == entry.name
                    && (other.value == entry.value || matches!(fate(other), Fate::Becomes(new) if Some(&new) == entry.value.as_ref()));
                prop_assert!(all.any(fits), "{text:?} {entry:?}");
            }
        }
    }
}

#[test]
fn logs_lose_logins_and_nothing_else() {
    let line = |message: &str| format!("0123 4567 Ada <ada@example.test> 1767323045 +0000\t{message}\n");
    for (was, is) in [
        ("commit: fix http://a/b, see me@example.test", "commit: fix http://a/b, see me@example.test"),
        (
            "pull -q https://oauth2:glpat-x@git.example/x.git main: Fast-forward",
            "pull -q https://git.example/x.git main: Fast-forward",
        ),
        ("clone: from ssh://git:pw@git.example/x.git", "clone: from ssh://git@git.example/x.git"),
    ] {
        let two = line(was) + &line("commit: next");
        let clean = log_without_credentials(two.into_bytes());
        assert_eq!(String::from_utf8(clean).unwrap(), line(is) + &line("commit: next"));
    }
    assert_eq!(log_without_credentials(b"no end https://a:b@c/d".to_vec()), b"no end https://c/d");
    assert_eq!(log_without_credentials(Vec::new()), b"");
}

#[test]
fn a_password_in_the_words_of_a_command_goes() {
    for value in [
        "tool --password hunter2",
        "tool --password=hunter2",
        "openssl enc -pass pass:hunter2 -aes256",
        "openssl enc -passin pass:hunter2",
        "sshpass -p hunter2 ssh",
        "/usr/bin/sshpass -phunter2 ssh",
        "GITHUB_TOKEN=hunter2 gh auth",
        "!f() { echo username=me; echo password=hunter2; }; f",
        "curl -u me:hunter2 https://example.test",
        "gpg --batch --passphrase hunter2 -d",
    ] {
        let text = format!("[filter \"x\"]\n\tclean = \"{value}\"\n\tname = x\n");
        let left = String::from_utf8(without_credentials(text.as_bytes())).unwrap();
        assert!(!left.contains("hunter2") && left.contains("name = x"), "{value}: {left}");
        assert!(holds_credentials(text.as_bytes()), "{value}");
    }
}

#[test]
fn a_command_without_a_password_stays() {
    for value in [
        "git-lfs clean -- %f",
        "openssl enc -pass env:KEY -aes256",
        "openssl enc -pass file:/etc/key",
        "sshpass -p $PASSWORD ssh",
        "sshpass -e ssh",
        "ssh -p 2222 -i ~/.ssh/id",
        "!aws codecommit credential-helper $@",
        "!gh auth git-credential",
        "curl -u $LOGIN https://example.test",
        "docker run -u 1000:1000 tool",
        "tool --token $TOKEN",
        "cache --timeout=3600",
    ] {
        let text = format!("[filter \"x\"]\n\tclean = \"{value}\"\n");
        assert_eq!(String::from_utf8(without_credentials(text.as_bytes())).unwrap(), text, "{value}");
    }
}
