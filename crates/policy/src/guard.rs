//! The read guard's decision: which file an agent's own tools may show, judged by what was opened and not by the name that was typed.
//!
//! Pure, as all of this crate: what the kernel says about the opened file arrives as [`Opened`]. The one table of secret files,
//! [`SECRETS`], is for everybody who has to know one.

use crate::plan::Refusal;
use crate::text::visible;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Where a pattern is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The name of a file, wherever it lies.
    Name,
    /// The end of a path: the store of a program, below any HOME and in any copy of one.
    Anywhere,
    /// Directly in a HOME. In a project a file of this name is often harmless.
    Home,
    /// From the root.
    System,
}

/// One kind of secret file.
#[derive(Debug, PartialEq, Eq)]
pub struct Secret {
    /// In lower case. `*` stands for anything in one name, `**` at the end for everything below.
    pub pattern: &'static str,
    pub place: Place,
    /// Last names to which it does not apply.
    pub except: &'static [&'static str],
    /// What is in there, to follow "it holds".
    pub holds: &'static str,
}

const fn row(place: Place, pattern: &'static str, holds: &'static str) -> Secret {
    Secret { pattern, place, except: &[], holds }
}

const fn name(pattern: &'static str, holds: &'static str) -> Secret {
    // The other half of a key pair is made to be shown.
    Secret { pattern, place: Place::Name, except: &["*.pub"], holds }
}

const fn anywhere(pattern: &'static str, holds: &'static str) -> Secret {
    row(Place::Anywhere, pattern, holds)
}

const fn home(pattern: &'static str, holds: &'static str) -> Secret {
    row(Place::Home, pattern, holds)
}

const fn system(pattern: &'static str, holds: &'static str) -> Secret {
    row(Place::System, pattern, holds)
}

/// Files that show how a `.env` looks, without its values.
const EXAMPLES: &[&str] =
    &["*.example", "*.sample", "*.template", "*.tmpl", "*.dist", "*.defaults", "*.schema"];
/// The same, as whole names.
const EXAMPLE_NAMES: &[&str] = &[
    "example.env",
    "sample.env",
    "template.env",
    "dist.env",
    "defaults.env",
    "*.example.env",
    "*.sample.env",
];
/// Certificates of authorities that everybody has. Programs cannot speak TLS without them.
const AUTHORITIES: &[&str] = &["cacert.pem", "ca-bundle.pem", "ca-certificates.pem", "tls-ca-bundle.pem"];
/// What is public in `.ssh`.
const SSH_PUBLIC: &[&str] = &["*.pub", "known_hosts", "known_hosts.old", "config"];

const AGENT: &str = "the login of an agent";
const BROWSER: &str = "logins and cookies of a browser";
const CLOUD: &str = "credentials of a cloud";
const ENVIRONMENT: &str = "settings with secrets";
const HISTORY: &str = "what was typed before, passwords included";
const HOST: &str = "secrets of this host";
const KEYRING: &str = "a keyring";
const LOGIN: &str = "a login";
const PRIVATE_KEY: &str = "a private key";
const REGISTRY: &str = "the login of a package registry";

/// The table. Adding a kind is one line; a test wants an example for each.
pub const SECRETS: &[Secret] = &[
    // Names that are secret wherever they lie. The environment files of a project come first.
    Secret { pattern: ".env", place: Place::Name, except: &[], holds: ENVIRONMENT },
    Secret { pattern: ".env.*", place: Place::Name, except: EXAMPLES, holds: ENVIRONMENT },
    Secret { pattern: ".env-*", place: Place::Name, except: &["*-example", "*-sample"], holds: ENVIRONMENT },
    Secret { pattern: ".env_*", place: Place::Name, except: &["*_example", "*_sample"], holds: ENVIRONMENT },
    Secret { pattern: "*.env", place: Place::Name, except: EXAMPLE_NAMES, holds: ENVIRONMENT },
    Secret { pattern: ".envrc", place: Place::Name, except: &[], holds: ENVIRONMENT },
    Secret { pattern: "*.pem", place: Place::Name, except: AUTHORITIES, holds: PRIVATE_KEY },
    name("*.key", PRIVATE_KEY),
    name("*.p12", PRIVATE_KEY),
    name("*.pfx", PRIVATE_KEY),
    name("*.p8", PRIVATE_KEY),
    name("*.ppk", PRIVATE_KEY),
    name("*.jks", PRIVATE_KEY),
    name("*.keystore", PRIVATE_KEY),
    name("*.keytab", PRIVATE_KEY),
    name("*.kdbx", "a password database"),
    name("*.ovpn", PRIVATE_KEY),
    name("id_rsa*", PRIVATE_KEY),
    name("id_dsa*", PRIVATE_KEY),
    name("id_ecdsa*", PRIVATE_KEY),
    name("id_ed25519*", PRIVATE_KEY),
    name("ssh_host_*_key", PRIVATE_KEY),
    name("*.tfstate", "the state of terraform, secrets in the clear"),
    name("*.tfstate.backup", "the state of terraform, secrets in the clear"),
    name(".htpasswd", "password hashes"),
    name(".vault_pass*", "a password"),
    name("secrets.yml", ENVIRONMENT),
    name("secrets.yaml", ENVIRONMENT),
    name("secrets.json", ENVIRONMENT),
    name("secrets.toml", ENVIRONMENT),
    name("credentials.json", CLOUD),
    name("client_secret*.json", CLOUD),
    name("service-account*.json", CLOUD),
    name("service_account*.json", CLOUD),
    name("application_default_credentials.json", CLOUD),
    name(".git-credentials", LOGIN),
    name(".netrc", LOGIN),
    name("_netrc", LOGIN),
    name(".pgpass", LOGIN),
    name(".pg_service.conf", LOGIN),
    name(".my.cnf", LOGIN),
    name(".mylogin.cnf", LOGIN),
    name(".pypirc", REGISTRY),
    name(".vault-token", LOGIN),
    name(".*_history", HISTORY),
    name("fish_history", HISTORY),
    name(".histfile", HISTORY),
    name(".zhistory", HISTORY),
    name("key3.db", BROWSER),
    name("key4.db", BROWSER),
    name("logins.json", BROWSER),
    name("signons.sqlite", BROWSER),
    name("cookies.sqlite", BROWSER),
    name("login data", BROWSER),
    name("login data for account", BROWSER),
    name("*.keychain", KEYRING),
    name("*.keychain-db", KEYRING),
    // Stores of programs.
    Secret { pattern: ".ssh/**", place: Place::Anywhere, except: SSH_PUBLIC, holds: "keys of ssh" },
    anywhere(".gnupg/**", "keys of gpg"),
    anywhere(".password-store/**", "passwords"),
    anywhere(".aws/credentials*", CLOUD),
    anywhere(".aws/sso/**", CLOUD),
    anywhere(".aws/cli/cache/**", CLOUD),
    anywhere(".aws/login/**", CLOUD),
    Secret { pattern: ".aws/**", place: Place::Home, except: &["config"], holds: CLOUD },
    anywhere(".config/gcloud/**", CLOUD),
    anywhere(".azure/**", CLOUD),
    anywhere(".oci/**", CLOUD),
    anywhere(".config/doctl/**", CLOUD),
    anywhere(".config/hcloud/**", CLOUD),
    anywhere(".config/linode-cli", CLOUD),
    anywhere(".fly/config.yml", CLOUD),
    anywhere(".config/rclone/**", CLOUD),
    anywhere(".config/stripe/**", LOGIN),
    anywhere(".kube/config*", "the login of a cluster"),
    anywhere(".kube/cache/oidc-login/**", "the login of a cluster"),
    anywhere(".docker/config.json", REGISTRY),
    anywhere(".docker/contexts/tls/**", PRIVATE_KEY),
    home(".docker/**", REGISTRY),
    anywhere(".config/containers/auth.json", REGISTRY),
    anywhere("containers/auth.json", REGISTRY),
    anywhere(".local/share/containers/podman/machine/machine", PRIVATE_KEY),
    anywhere(".config/helm/**", REGISTRY),
    anywhere("library/preferences/helm/**", REGISTRY),
    anywhere(".config/gh/**", LOGIN),
    anywhere(".config/hub", LOGIN),
    anywhere(".config/glab-cli/**", LOGIN),
    anywhere("library/application support/glab-cli/**", LOGIN),
    anywhere(".config/git/credentials", LOGIN),
    anywhere(".cargo/credentials*", REGISTRY),
    anywhere(".gem/credentials", REGISTRY),
    anywhere(".nuget/nuget/nuget.config", REGISTRY),
    anywhere(".m2/settings*.xml", REGISTRY),
    anywhere(".gradle/gradle.properties", REGISTRY),
    anywhere(".composer/auth.json", REGISTRY),
    anywhere(".config/composer/auth.json", REGISTRY),
    anywhere(".config/pnpm/**", REGISTRY),
    anywhere("library/preferences/pnpm/**", REGISTRY),
    anywhere(".config/pip/pip.conf", REGISTRY),
    anywhere(".pip/pip.conf", REGISTRY),
    anywhere("library/application support/pip/pip.conf", REGISTRY),
    anywhere(".config/uv/uv.toml", REGISTRY),
    anywhere(".local/share/uv/credentials/**", REGISTRY),
    anywhere(".config/pypoetry/auth.toml", REGISTRY),
    anywhere("library/application support/pypoetry/auth.toml", REGISTRY),
    anywhere(".terraform.d/credentials.tfrc.json", LOGIN),
    anywhere(".postgresql/**", PRIVATE_KEY),
    anywhere(".config/op/**", "the login of a password manager"),
    anywhere(".config/1password/**", "the login of a password manager"),
    anywhere(".config/bitwarden*/**", "the login of a password manager"),
    anywhere("library/application support/bitwarden cli/**", "the login of a password manager"),
    anywhere(".config/sops/**", PRIVATE_KEY),
    anywhere(".config/age/**", PRIVATE_KEY),
    anywhere(".config/keyward/**", "keyward's own rules"),
    anywhere(".local/state/keyward/**", "keyward's own record"),
    anywhere(".local/share/keyrings/**", KEYRING),
    anywhere(".local/share/kwalletd/**", KEYRING),
    anywhere("library/keychains/**", KEYRING),
    anywhere(".huggingface/token", LOGIN),
    anywhere(".cache/huggingface/token", LOGIN),
    anywhere(".cache/huggingface/stored_tokens", LOGIN),
    anywhere(".kaggle/kaggle.json", LOGIN),
    // Agents.
    anywhere(".hermes/.env", AGENT),
    anywhere(".hermes/auth.json", AGENT),
    anywhere(".claude/.credentials.json", AGENT),
    anywhere(".codex/auth.json", AGENT),
    anywhere(".gemini/oauth_creds.json", AGENT),
    anywhere(".gemini/gemini-credentials.json", AGENT),
    anywhere(".gemini/mcp-oauth-tokens*.json", AGENT),
    anywhere(".config/github-copilot/**", AGENT),
    anywhere(".local/share/opencode/auth.json", AGENT),
    anywhere(".local/share/opencode/mcp-auth.json", AGENT),
    anywhere(".config/goose/secrets.yaml", AGENT),
    // Browsers.
    anywhere(".mozilla/**", BROWSER),
    anywhere(".thunderbird/**", "mail and its logins"),
    anywhere(".config/google-chrome*/**", BROWSER),
    anywhere(".config/chromium*/**", BROWSER),
    anywhere(".config/bravesoftware/**", BROWSER),
    anywhere(".config/microsoft-edge*/**", BROWSER),
    anywhere(".config/vivaldi*/**", BROWSER),
    anywhere(".config/opera*/**", BROWSER),
    anywhere("library/application support/google/chrome/**", BROWSER),
    anywhere("library/application support/firefox/**", BROWSER),
    anywhere("library/cookies/**", BROWSER),
    // What is secret in a HOME, and part of many projects.
    home(".npmrc", REGISTRY),
    home(".yarnrc.yml", REGISTRY),
    home(".s3cfg", CLOUD),
    home(".boto", CLOUD),
    home(".dockercfg", REGISTRY),
    home(".terraformrc", LOGIN),
    home(".claude.json", AGENT),
    home(".bash_sessions/**", HISTORY),
    home(".zsh_sessions/**", HISTORY),
    home(".msmtprc", LOGIN),
    home(".fetchmailrc", LOGIN),
    home(".authinfo*", LOGIN),
    home(".smbcredentials", LOGIN),
    home(".xauthority", "the key of the display"),
    home(".iceauthority", "the key of the display"),
    // The system's own.
    system("/etc/shadow*", "password hashes"),
    system("/etc/gshadow*", "password hashes"),
    system("/etc/security/opasswd", "password hashes"),
    system("/etc/sudoers", HOST),
    system("/etc/sudoers.d/**", HOST),
    system("/etc/ssl/private/**", PRIVATE_KEY),
    system("/etc/pki/tls/private/**", PRIVATE_KEY),
    system("/etc/letsencrypt/**", PRIVATE_KEY),
    system("/etc/wireguard/**", PRIVATE_KEY),
    system("/etc/openvpn/**", PRIVATE_KEY),
    system("/etc/ipsec.secrets", PRIVATE_KEY),
    system("/etc/ppp/chap-secrets", LOGIN),
    system("/etc/networkmanager/system-connections/**", "passwords of networks"),
    system("/etc/wpa_supplicant/**", "passwords of networks"),
    system("/etc/kubernetes/**", "the login of a cluster"),
    system("/etc/rancher/**", "the login of a cluster"),
    system("/etc/credstore*/**", HOST),
    system("/etc/keyward/**", "keyward's own rules"),
    system("/etc/boto.cfg", CLOUD),
    system("/etc/vault.d/**", HOST),
    system("/etc/msmtprc", LOGIN),
    system("/etc/fetchmailrc", LOGIN),
    system("/etc/mysql/debian.cnf", LOGIN),
    system("/etc/apt/auth.conf", REGISTRY),
    system("/etc/apt/auth.conf.d/**", REGISTRY),
    system("/run/secrets/**", "secrets given to this container"),
    system("/var/run/secrets/**", "secrets given to this container"),
    system("/run/credentials/**", "credentials of a service"),
    system("/var/lib/kubelet/**", "secrets given to containers"),
    system("/var/lib/systemd/credential.secret", HOST),
    system("/var/lib/systemd/coredump/**", "memory of other programs"),
    system("/var/crash/**", "memory of other programs"),
];

/// Where certificates of authorities lie under names that would otherwise be those of keys.
const PUBLIC_CERTIFICATES: &[&str] = &[
    "/etc/ssl/certs",
    "/etc/ca-certificates",
    "/etc/pki/ca-trust",
    "/usr/share/ca-certificates",
    "/usr/lib/ssl",
];

/// What editors and people put behind a name when they keep the old file.
const LEFT_OVERS: &[&str] = &["~", ".bak", ".old", ".orig", ".save", ".swp", ".swo", ".backup", ".copy"];

/// Whose folders count as a HOME beside the caller's own.
const HOMES: &[&str] = &["/home/*", "/root", "/users/*", "/var/home/*"];

/// Whether the name alone marks a secret file; gives the pattern.
pub fn secret_name(file_name: &OsStr) -> Option<&'static str> {
    named(&folded(file_name)).map(|secret| secret.pattern)
}

/// Whether the file at this path is a secret one; gives the pattern. `real` is absolute and leads through no links.
pub fn is_secret_file(real: &Path, home: &Path) -> Option<&'static str> {
    secret_file(real, &[home]).map(|secret| secret.pattern)
}

/// The same for somebody with several HOMEs; gives the whole rule.
pub fn secret_file(real: &Path, homes: &[&Path]) -> Option<&'static Secret> {
    let path = folded(real.as_os_str());
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let last = parts.last()?;
    let in_home = rest_in_home(&parts, homes);
    let rooted = |secret: &Secret| match secret.place {
        Place::Name => false,
        Place::System => below(secret, &parts),
        Place::Home => in_home.iter().any(|rest| below(secret, rest)),
        Place::Anywhere => (0..parts.len()).any(|start| below(secret, &parts[start..])),
    };
    if let Some(secret) = SECRETS.iter().find(|secret| rooted(secret)) {
        return Some(secret);
    }
    let public = PUBLIC_CERTIFICATES.iter().any(|tree| real.starts_with(tree));
    named(last).filter(|secret| !(public && secret.pattern == "*.pem"))
}

/// A place below HOME where a store of the table may lie, for those who look for other names of the same file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Store {
    /// Relative to HOME, in lower case; empty for HOME itself.
    pub path: &'static str,
    /// How many levels below it belong to it; 0 for a file.
    pub depth: usize,
}

/// All of them.
pub fn stores() -> impl Iterator<Item = Store> {
    let below_home = SECRETS.iter().filter(|secret| secret.place != Place::System);
    let named = below_home.filter_map(|secret| {
        let Some(star) = secret.pattern.find('*') else {
            return Some(Store { path: secret.pattern, depth: 0 });
        };
        let folder = secret.pattern[..star].rfind('/').map(|slash| &secret.pattern[..slash])?;
        let depth = if secret.pattern.ends_with("**") { TREE_DEPTH } else { 1 };
        // All of `.config` would be too much to look through for the few folders with a star in their own name.
        (folder != ".config").then_some(Store { path: folder, depth })
    });
    named.chain([Store { path: "", depth: 1 }])
}

/// Deep enough for `.config/gcloud/legacy_credentials/ACCOUNT/adc.json`; a browser's many small files lie deeper.
const TREE_DEPTH: usize = 3;

/// Lower case in the sense of file systems that do not tell cases apart: these also leave out signs that nobody sees. Dots and spaces
/// at the end of a name mean nothing to some of them.
fn folded(text: &OsStr) -> String {
    let text = text.to_string_lossy();
    if text.bytes().all(|byte| byte.is_ascii() && byte != 0) && !has_loose_end(&text) {
        return text.to_ascii_lowercase();
    }
    let seen = text.chars().filter(|&c| !is_ignored(c)).flat_map(char::to_uppercase);
    let lower: String = seen.flat_map(char::to_lowercase).collect();
    let tight = |part: &str| match part {
        "." | ".." => part.to_owned(),
        _ => part.trim_end_matches(['.', ' ']).to_owned(),
    };
    lower.split('/').map(tight).collect::<Vec<_>>().join("/")
}

fn has_loose_end(text: &str) -> bool {
    text.split('/').any(|part| part.ends_with(['.', ' ']))
}

fn is_ignored(c: char) -> bool {
    matches!(c,
        '\0' | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// A name in lower case, also as what an editor left of it.
fn named(name: &str) -> Option<&'static Secret> {
    let by_name = |name: &str| {
        SECRETS.iter().find(|secret| {
            secret.place == Place::Name && matches(secret.pattern, name) && !is_excepted(secret, name)
        })
    };
    by_name(name).or_else(|| {
        let kept = LEFT_OVERS.iter().find_map(|tail| name.strip_suffix(tail))?;
        // Editors also put a dot in front of the name.
        by_name(kept).or_else(|| by_name(kept.strip_prefix('.')?))
    })
}

fn is_excepted(secret: &Secret, name: &str) -> bool {
    secret.except.iter().any(|except| matches(except, name))
}

/// What is left of a path below each HOME that it lies in.
fn rest_in_home<'a, 'b>(parts: &'a [&'b str], homes: &[&Path]) -> Vec<&'a [&'b str]> {
    let own = homes.iter().map(|home| folded(home.as_os_str()));
    let known = HOMES.iter().map(|home| (*home).to_owned());
    own.chain(known)
        .filter_map(|home| {
            let home: Vec<&str> = home.split('/').filter(|part| !part.is_empty()).collect();
            let (above, rest) = parts.split_at_checked(home.len())?;
            home.iter().zip(above).all(|(pattern, part)| matches(pattern, part)).then_some(rest)
        })
        .collect()
}

/// Whether a rule's pattern is all of these parts of a path.
fn below(secret: &Secret, parts: &[&str]) -> bool {
    let mut rest = parts;
    for pattern in secret.pattern.split('/').filter(|part| !part.is_empty()) {
        if pattern == "**" {
            // What is public in a store lies directly in it.
            return match rest {
                [] => false,
                [only] => !is_excepted(secret, only),
                _ => true,
            };
        }
        match rest.split_first() {
            Some((part, after)) if matches(pattern, part) => rest = after,
            _ => return false,
        }
    }
    rest.is_empty()
}

/// `*` stands for any text. Works from star to star and never goes back further than one.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let mut pieces = rest.split('*').peekable();
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() {
            return text.ends_with(piece);
        }
        match text.find(piece) {
            Some(at) => text = &text[at + piece.len()..],
            None => return false,
        }
    }
    true
}

/// What kind of thing was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Directory,
    /// A device, with its numbers.
    Device {
        block: bool,
        major: u32,
        minor: u32,
    },
    Pipe,
    Socket,
    Other,
}

/// What the kernel says about the file that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened<'a> {
    pub kind: Kind,
    /// The number by which the kernel knows the file system's type.
    pub file_system: u64,
    /// Where the kernel says that it lies.
    pub real: &'a Path,
    /// How many names it has.
    pub names: u64,
}

/// The type of procfs.
pub const PROC: u64 = 0x9fa0;

/// Files of the kernel's that tell about the machine and about no process. `/proc/mounts` and `/proc/net` are not among them: they
/// are links to those of a process. `/proc/cmdline` is not either: people put passwords there.
const OPEN_IN_PROC: &[&str] = &[
    "/proc/buddyinfo",
    "/proc/cgroups",
    "/proc/cpuinfo",
    "/proc/crypto",
    "/proc/devices",
    "/proc/diskstats",
    "/proc/filesystems",
    "/proc/interrupts",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/misc",
    "/proc/modules",
    "/proc/partitions",
    "/proc/softirqs",
    "/proc/stat",
    "/proc/swaps",
    "/proc/uptime",
    "/proc/version",
    "/proc/vmstat",
    "/proc/zoneinfo",
    "/proc/pressure/cpu",
    "/proc/pressure/io",
    "/proc/pressure/memory",
    "/proc/sys/fs/file-max",
    "/proc/sys/fs/inotify/max_user_watches",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/ostype",
    "/proc/sys/kernel/pid_max",
    "/proc/sys/kernel/threads-max",
    "/proc/sys/vm/max_map_count",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/swappiness",
];

/// What programs count processors by.
const OPEN_IN_SYS: &str = "/sys/devices/system/cpu";

/// File systems that hold no files but talk to the kernel, to a service or to a process.
const NO_FILES: &[(u64, &str)] = &[
    (0x6265_6572, "sysfs"),
    (0x6462_6720, "debugfs"),
    (0x7472_6163, "tracefs"),
    (0xcafe_4a11, "bpf"),
    (0x0027_e0eb, "cgroup"),
    (0x6367_7270, "cgroup2"),
    (0x7363_6673, "securityfs"),
    (0x5a3c_69f0, "apparmorfs"),
    (0xf97c_ff8c, "selinuxfs"),
    (0x4341_5d53, "smackfs"),
    (0xde5e_81e4, "efivarfs"),
    (0x6265_6570, "configfs"),
    (0x6165_676c, "pstore"),
    (0x4249_4e4d, "binfmt_misc"),
    (0x1980_0202, "mqueue"),
    (0x0000_1cd1, "devpts"),
    (0x6573_5543, "fusectl"),
    (0x6759_6969, "rpc_pipefs"),
    (0x6e66_7364, "nfsd"),
    (0xabba_1974, "xenfs"),
    (0x0765_5821, "resctrl"),
    (0x6c6f_6f70, "binderfs"),
    (0x0000_9fa1, "openpromfs"),
    (0x0000_9fa2, "usbdevfs"),
    (0x6e73_6673, "nsfs"),
    (0x5049_4446, "pidfs"),
    (0x5345_434d, "secretmem"),
    (0x0904_1934, "anon_inodefs"),
    (0x5049_5045, "pipefs"),
    (0x534f_434b, "sockfs"),
    (0x444d_4142, "dmabuf"),
];

/// `/dev/null`, by its numbers: empty whatever its name is.
const NULL: Kind = Kind::Device { block: false, major: 1, minor: 3 };

/// What the kernel adds to the path of a file that has lost its name.
const DELETED: &str = " (deleted)";

/// Decides about an opened file. `asked` is the path as it was typed; it can only make the answer stricter.
pub fn judge(asked: &Path, opened: &Opened<'_>, homes: &[&Path]) -> Result<(), Refusal> {
    let shown = visible(asked.as_os_str());
    let kind = match opened.kind {
        NULL => return Ok(()),
        Kind::File => None,
        Kind::Directory => {
            return Err(Refusal::usage(
                format!("cannot read {shown}: it is a directory"),
                "name a file in it",
            ));
        }
        Kind::Device { .. } => Some("a device"),
        Kind::Pipe => Some("a pipe"),
        Kind::Socket => Some("a socket"),
        Kind::Other => Some("no file"),
    };
    if let Some(kind) = kind {
        return Err(Refusal::policy(
            "kind",
            format!("{shown} is not read: it is {kind}"),
            "only regular files are read; name one",
        ));
    }
    kernel_files(&shown, opened)?;
    if !opened.real.is_absolute() || opened.names == 0 || ends_deleted(opened.real) {
        return Err(changed(asked));
    }
    let asked_name = asked.file_name().and_then(|name| named(&folded(name)));
    match secret_file(opened.real, homes).or(asked_name) {
        Some(secret) => Err(is_secret(asked, opened.real, secret)),
        None => Ok(()),
    }
}

/// The file is another name of one of the stores.
pub fn another_name(asked: &Path, store: &Path, homes: &[&Path]) -> Refusal {
    let holds = secret_file(store, homes).map_or(LOGIN, |secret| secret.holds);
    let rule = secret_file(store, homes).map_or("store", |secret| secret.pattern);
    Refusal::policy(
        rule,
        format!(
            "{} is not read: it is another name of {}, and holds {holds}",
            visible(asked.as_os_str()),
            visible(store.as_os_str())
        ),
        SECRET_REMEDY,
    )
}

/// There are more stores than can be looked through, and the file has more than one name.
pub fn too_many_names(asked: &Path) -> Refusal {
    Refusal::policy(
        "hard link",
        format!(
            "{} is not read: it has several names, and HOME holds too many secret files to compare it with",
            visible(asked.as_os_str())
        ),
        "make a copy of it under a name of its own, and read that",
    )
}

/// The file was replaced or removed while it was looked at, so that nothing sure can be said about it.
pub fn changed(asked: &Path) -> Refusal {
    Refusal::policy(
        "changed",
        format!("{} is not read: it was moved or replaced at this moment", visible(asked.as_os_str())),
        "try again",
    )
}

/// The path leads through a link that only the kernel can follow, or in a circle.
pub fn magic_link(asked: &Path) -> Refusal {
    Refusal::policy(
        "magic link",
        format!(
            "{} is not read: it leads through a descriptor or folder of a process, or in a circle",
            visible(asked.as_os_str())
        ),
        "name the file by its own path",
    )
}

/// This kernel, or a filter around us, lacks the call that makes the guard sure.
pub fn no_safe_open(asked: &Path) -> Refusal {
    Refusal::policy(
        "openat2",
        format!("{} is not read: openat2 is not there (Linux 5.6 brings it)", visible(asked.as_os_str())),
        "in a cage the guard is not needed: what must not be read is not there, so open the file as usual",
    )
}

/// The file cannot be opened at all.
pub fn cannot_open(asked: &Path, reason: &str) -> Refusal {
    Refusal::usage(
        format!("cannot read {}: {reason}", visible(asked.as_os_str())),
        "name a file that exists and that you may read",
    )
}

const SECRET_REMEDY: &str =
    "a tool has no need to show it; open it yourself, or let the program that needs it read it";

fn is_secret(asked: &Path, real: &Path, secret: &'static Secret) -> Refusal {
    let shown = visible(asked.as_os_str());
    let lies = if asked == real || !asked.is_absolute() && real.ends_with(asked) {
        "it".to_owned()
    } else {
        format!("it is {}, and", visible(real.as_os_str()))
    };
    Refusal::policy(
        secret.pattern,
        format!("{shown} is not read: {lies} holds {}", secret.holds),
        SECRET_REMEDY,
    )
}

fn ends_deleted(path: &Path) -> bool {
    path.as_os_str().as_encoded_bytes().ends_with(DELETED.as_bytes())
}

/// procfs and its like are closed but for a few files. What is mounted over such a file is taken for it.
fn kernel_files(shown: &str, opened: &Opened<'_>) -> Result<(), Refusal> {
    let real = opened.real;
    if opened.file_system == PROC || real.starts_with("/proc") {
        if OPEN_IN_PROC.iter().any(|open| real == Path::new(open)) {
            return Ok(());
        }
        return Err(Refusal::policy(
            "procfs",
            format!(
                "{shown} is not read: it is {}, which can tell the secrets of a process",
                visible(real.as_os_str())
            ),
            "files about the machine are open, such as /proc/cpuinfo and /proc/meminfo",
        ));
    }
    let pseudo = NO_FILES.iter().find(|(number, _)| *number == opened.file_system).map(|(_, name)| *name);
    if pseudo.is_none() && !real.starts_with("/sys") || real.starts_with(OPEN_IN_SYS) {
        return Ok(());
    }
    let name = pseudo.unwrap_or("sysfs");
    Err(Refusal::policy(
        name,
        format!("{shown} is not read: it is no file but a part of {name}"),
        "of these only what lies below /sys/devices/system/cpu is open",
    ))
}

/// Where the stores lie for these HOMEs, with the depth of each.
pub fn stores_of<'a>(homes: &'a [&Path]) -> impl Iterator<Item = (PathBuf, usize)> + 'a {
    homes.iter().flat_map(|home| stores().map(|store| (home.join(store.path), store.depth)))
}

#[cfg(test)]
mod tests;
