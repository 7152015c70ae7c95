//! The one table of secret files: which of them a command in a cage must not read, which the read guard does not show, and which names in
//! HOME lead to one.
//!
//! What is secret to one of them is secret to all.

use super::rows::{self, Rows};
use std::borrow::Cow;
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
    /// What its content has to say.
    pub content: Content,
}

/// How the content of a file with a secret name is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Not at all: the file is secret as a whole.
    Whole,
    /// Names and values, one on a line: the names may be seen.
    Dotenv,
    /// Settings, one on a line, of which some hold a credential. Without such a line the file is harmless.
    Settings,
    /// Certificates and keys. Without a private key the file is harmless.
    Pem,
    /// One of these words, in any case, makes the file secret as a whole. Without any it is harmless.
    Saying(&'static [&'static str]),
    /// The same for settings, of which the harmless lines may be seen.
    SettingsSaying(&'static [&'static str]),
    /// Scripts and settings that set variables. Lines that set a credential go, and the rest stays.
    Variables,
    /// XML. One of these words makes the file secret as a whole; in comments it makes the comments secret.
    Xml(&'static [&'static str]),
    /// Settings in JSON, of which everything but credentials is seen. Without one the file is harmless.
    Json,
    /// Settings of git. Without a credential the file is harmless.
    Git,
    /// The same, if the content says that it is git's.
    MaybeGit,
}

impl Secret {
    /// Whether only the name says that it is a private key: in a published package that is test data.
    pub fn is_key_by_name(&self) -> bool {
        self.place == Place::Name && self.holds == PRIVATE_KEY
    }
}

const fn row(place: Place, pattern: &'static str, holds: &'static str) -> Secret {
    Secret { pattern, place, except: &[], holds, content: Content::Whole }
}

const fn name(pattern: &'static str, holds: &'static str) -> Secret {
    // The other half of a key pair is made to be shown.
    Secret { pattern, place: Place::Name, except: &["*.pub"], holds, content: Content::Whole }
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

/// Settings of the system that hold a credential on some hosts only.
const fn system_settings(pattern: &'static str) -> Secret {
    Secret { content: Content::Variables, ..system(pattern, ENVIRONMENT) }
}

/// A file of settings, of which single lines are secret.
const fn settings(place: Place, pattern: &'static str) -> Secret {
    Secret { content: Content::Settings, ..row(place, pattern, REGISTRY) }
}

/// A name that many harmless files have: the content decides.
const fn saying(pattern: &'static str, words: &'static [&'static str], holds: &'static str) -> Secret {
    Secret { content: Content::Saying(words), ..name(pattern, holds) }
}

/// The same for settings.
const fn settings_saying(pattern: &'static str) -> Secret {
    Secret { content: Content::SettingsSaying(LOGIN_WORDS), ..name(pattern, ENVIRONMENT) }
}

/// Settings in JSON that name servers with their variables.
const fn json(place: Place, pattern: &'static str) -> Secret {
    Secret { content: Content::Json, ..row(place, pattern, "the credential of a server") }
}

/// Names and values, one on a line, in a place that is known for them.
const fn environment(pattern: &'static str) -> Secret {
    Secret { content: Content::Dotenv, ..row(Place::Anywhere, pattern, ENVIRONMENT) }
}

/// Git's settings are not in the table: a command in a cage needs them, and has a copy without credentials.
const fn git(content: Content) -> Secret {
    Secret { content, ..row(Place::Anywhere, ".git/config", "a login among settings of git") }
}

static GIT: Secret = git(Content::Git);
static MAYBE_GIT: Secret = git(Content::MaybeGit);

/// The row of a file that git reads its settings from, or may: a repository without `.git` is known by its content only, and so is a
/// file with further names. `names` is how many it has.
pub fn git_settings(path: &Path, names: u64) -> Option<&'static Secret> {
    let path = folded(path.as_os_str());
    let mut parts = path.rsplit('/');
    let name = parts.next()?;
    let name = name.strip_suffix(".lock").unwrap_or(name);
    let name = LEFT_OVERS.iter().find_map(|tail| name.strip_suffix(tail)).unwrap_or(name);
    let is_config = matches!(name, "config" | "config.worktree");
    let above: Vec<&str> = parts.collect();
    let is_branch = above.iter().any(|part| matches!(*part, "refs" | "logs"));
    let is_of_git = above.first() == Some(&"git") || above.contains(&".git") && !is_branch;
    if matches!(name, ".gitconfig" | "gitconfig" | ".gitmodules") || is_config && is_of_git {
        Some(&GIT)
    } else {
        (is_config || names > 1).then_some(&MAYBE_GIT)
    }
}

const fn dotenv(pattern: &'static str, except: &'static [&'static str]) -> Secret {
    Secret { pattern, place: Place::Name, except, holds: ENVIRONMENT, content: Content::Dotenv }
}

/// What Python and its tools put into a virtual environment.
const OF_ENVIRONMENTS: &[&str] = &["pyvenv.cfg", ".gitignore", "cachedir.tag", ".lock"];
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

/// What a private key says in its first line.
const KEY_WORDS: &[&str] = &["private key", "age-secret-key-"];
/// Names of values that are credentials, as they stand in settings.
const LOGIN_WORDS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "pwd=",
    "secret",
    "token",
    "api_key",
    "apikey",
    "api-key",
    "access_key",
    "accesskey",
    "access-key",
    "private_key",
    "privatekey",
    "credential",
];
/// A key of a cloud's account for programs.
const KEYS_OF_CLOUDS: &[&str] =
    &["private_key", "client_secret", "refresh_token", "secretaccesskey", "secret_access_key"];
/// What gives access to a cluster.
const KEYS_OF_CLUSTERS: &[&str] = &["client-key", "token", "password", "exec:", "auth-provider", "\"exec\""];
/// Logins in files of JSON: those of composer, and of programs that keep what they got from a login.
const LOGINS_IN_JSON: &[&str] = &[
    "http-basic",
    "-oauth",
    "gitlab-token",
    "\"bearer\"",
    "refresh_token",
    "refreshtoken",
    "access_token",
    "accesstoken",
    "api_key",
    "apikey",
    "\"auths\"",
    "\"key\"",
    "\"token\"",
];
/// Source files and texts, which only have a secret's name.
const SOURCES: &[&str] = &[
    "*.c",
    "*.cc",
    "*.cpp",
    "*.cs",
    "*.css",
    "*.ex",
    "*.go",
    "*.h",
    "*.html",
    "*.java",
    "*.js",
    "*.jsx",
    "*.kt",
    "*.lua",
    "*.md",
    "*.mjs",
    "*.php",
    "*.pl",
    "*.pub",
    "*.py",
    "*.pyc",
    "*.rb",
    "*.rs",
    "*.rst",
    "*.scala",
    "*.sh",
    "*.swift",
    "*.tf",
    "*.tmpl",
    "*.tpl",
    "*.ts",
    "*.tsx",
    "*.vue",
    "*.example",
    "*.sample",
    "*.template",
    "*.enc",
];
/// Settings that are encrypted, or show how they look.
const NO_SETTINGS: &[&str] = &[
    "*.enc.yaml",
    "*.enc.yml",
    "*.enc.json",
    "*.example.yaml",
    "*.example.yml",
    "*.example.json",
    "*.sample.yaml",
    "*.sample.yml",
    "*.schema.json",
    "*.template.yaml",
    "*.template.yml",
];

const AGENT: &str = "the login of an agent";
const BROWSER: &str = "logins and cookies of a browser";
const CLOUD: &str = "credentials of a cloud";
const ENVIRONMENT: &str = "settings with secrets";
const HISTORY: &str = "what was typed before, passwords included";
const HOST: &str = "secrets of this host";
const KEYRING: &str = "a keyring";
pub(crate) const LOGIN: &str = "a login";
/// What Keyward's own state is.
pub const OWN_RECORD: &str = "keyward's own record";
const PRIVATE_KEY: &str = "a private key";
const REGISTRY: &str = "the login of a package registry";

/// The table. Adding a kind is one line; a test wants an example for each.
pub const SECRETS: &[Secret] = &[
    // Names that are secret wherever they lie. The environment files of a project come first.
    dotenv(".env", &[]),
    dotenv(".env.*", EXAMPLES),
    dotenv(".env-*", &["*-example", "*-sample"]),
    dotenv(".env_*", &["*_example", "*_sample"]),
    dotenv("*.env", EXAMPLE_NAMES),
    dotenv("*.env.local", &[]),
    dotenv("*.env.production", &[]),
    dotenv("*.env.prod", &[]),
    dotenv("*.env.development", &[]),
    dotenv("*.env.staging", &[]),
    dotenv(".flaskenv", &[]),
    dotenv(".envrc.*", EXAMPLES),
    dotenv(".envrc", &[]),
    Secret {
        pattern: "*.pem",
        place: Place::Name,
        except: AUTHORITIES,
        holds: PRIVATE_KEY,
        content: Content::Pem,
    },
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
    settings(Place::Name, ".npmrc"),
    // The one of an installation of node, in `etc` below its prefix.
    settings(Place::Name, "npmrc"),
    settings(Place::Name, ".yarnrc.yml"),
    // The one of an installation of Python or of a virtual environment, directly below its prefix.
    settings(Place::Name, "pip.conf"),
    settings(Place::Name, ".condarc"),
    settings(Place::Name, "condarc"),
    name(".vault-token", LOGIN),
    name(".dockercfg", REGISTRY),
    name(".dockerconfigjson", REGISTRY),
    name(".terraformrc", LOGIN),
    name("terraform.rc", LOGIN),
    name("*.auto.tfvars", ENVIRONMENT),
    name("terraform.tfvars", ENVIRONMENT),
    name("kubeconfig", "the login of a cluster"),
    name("*.kubeconfig", "the login of a cluster"),
    name("kubeconfig.y*ml", "the login of a cluster"),
    name(".dev.vars", ENVIRONMENT),
    name(".dev.vars.*", ENVIRONMENT),
    name("local.settings.json", ENVIRONMENT),
    name("appsettings.secrets.json", ENVIRONMENT),
    name("wallet.dat", PRIVATE_KEY),
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
    // Names that are secret wherever they lie, of single tools and in forms that people give them.
    dotenv("env.local", &[]),
    dotenv("env.production", &[]),
    dotenv("env.prod", &[]),
    dotenv("env.staging", &[]),
    dotenv(".secrets", &[]),
    dotenv("secrets.properties", &[]),
    dotenv("secrets.ini", &[]),
    dotenv("secrets.conf", &[]),
    Secret { except: NO_SETTINGS, ..name("secrets.*.yaml", ENVIRONMENT) },
    Secret { except: NO_SETTINGS, ..name("secrets.*.yml", ENVIRONMENT) },
    Secret { except: NO_SETTINGS, ..name("secrets.*.json", ENVIRONMENT) },
    name(".secrets.toml", ENVIRONMENT),
    name(".secrets.yaml", ENVIRONMENT),
    name(".secrets.yml", ENVIRONMENT),
    name(".secrets.json", ENVIRONMENT),
    name(".secret", ENVIRONMENT),
    saying("secret.yaml", LOGIN_WORDS, ENVIRONMENT),
    saying("secret.yml", LOGIN_WORDS, ENVIRONMENT),
    saying("secret.json", LOGIN_WORDS, ENVIRONMENT),
    saying("secret.toml", LOGIN_WORDS, ENVIRONMENT),
    name("credentials", LOGIN),
    name(".credentials", LOGIN),
    name(".credentials.json", LOGIN),
    name("credentials.yml", LOGIN),
    name("credentials.yaml", LOGIN),
    name("credentials.toml", LOGIN),
    name("credentials.ini", LOGIN),
    name("credentials.xml", LOGIN),
    name("credentials.properties", LOGIN),
    name("*credentials.csv", CLOUD),
    name("*accesskeys.csv", CLOUD),
    name("rootkey*.csv", CLOUD),
    saying("*-credentials.json", KEYS_OF_CLOUDS, CLOUD),
    saying("*_credentials.json", KEYS_OF_CLOUDS, CLOUD),
    saying("*key.json", KEYS_OF_CLOUDS, CLOUD),
    saying("*firebase*.json", KEYS_OF_CLOUDS, CLOUD),
    saying("*serviceaccount*.json", KEYS_OF_CLOUDS, CLOUD),
    saying("*service-account*.json", KEYS_OF_CLOUDS, CLOUD),
    saying("*service_account*.json", KEYS_OF_CLOUDS, CLOUD),
    name("terraform.tfstate.*", "the state of terraform, secrets in the clear"),
    saying("*.tfvars", LOGIN_WORDS, ENVIRONMENT),
    saying("*.tfvars.json", LOGIN_WORDS, ENVIRONMENT),
    name(".tofurc", LOGIN),
    Secret { except: SOURCES, ..saying("*kubeconfig*", KEYS_OF_CLUSTERS, "the login of a cluster") },
    Secret { except: SOURCES, ..saying("*kube_config*", KEYS_OF_CLUSTERS, "the login of a cluster") },
    Secret { except: SOURCES, ..saying("*kube-config*", KEYS_OF_CLUSTERS, "the login of a cluster") },
    saying("admin.conf", KEYS_OF_CLUSTERS, "the login of a cluster"),
    saying("k3s.yaml", KEYS_OF_CLUSTERS, "the login of a cluster"),
    Secret { except: SOURCES, ..name(".vault-pass*", "a password") },
    Secret { except: SOURCES, ..name("vault_pass*", "a password") },
    Secret { except: SOURCES, ..name("vault-pass*", "a password") },
    Secret { except: SOURCES, ..name(".*vault_pass*", "a password") },
    Secret { except: SOURCES, ..name("*restic-pass*", "a password") },
    name("*password.txt", "a password"),
    name("pgpass.conf", LOGIN),
    name(".*-token", LOGIN),
    name(".*_token", LOGIN),
    name(".*_api_key", LOGIN),
    name(".*-api-key", LOGIN),
    name(".token", LOGIN),
    name("*.jceks", PRIVATE_KEY),
    name("*.bcfks", PRIVATE_KEY),
    name("*.bks", PRIVATE_KEY),
    name("*.pkcs12", PRIVATE_KEY),
    name("*.pkcs8", PRIVATE_KEY),
    name("*.pk8", PRIVATE_KEY),
    name("*.agekey", PRIVATE_KEY),
    name("id_xmss*", PRIVATE_KEY),
    name("secring.gpg", PRIVATE_KEY),
    name("private*.gpg", PRIVATE_KEY),
    name("secret*.gpg", PRIVATE_KEY),
    name("*private*.der", PRIVATE_KEY),
    name("*key.der", PRIVATE_KEY),
    name("*.psafe3", "a password database"),
    name("*.kdb", "a password database"),
    saying("*.asc", KEY_WORDS, PRIVATE_KEY),
    saying("*_key", KEY_WORDS, PRIVATE_KEY),
    saying("*-key", KEY_WORDS, PRIVATE_KEY),
    saying("*key.txt", KEY_WORDS, PRIVATE_KEY),
    saying("*keys.txt", KEY_WORDS, PRIVATE_KEY),
    saying("*_rsa", KEY_WORDS, PRIVATE_KEY),
    saying("*_dsa", KEY_WORDS, PRIVATE_KEY),
    saying("*_ecdsa", KEY_WORDS, PRIVATE_KEY),
    saying("*_ed25519", KEY_WORDS, PRIVATE_KEY),
    saying("identity", KEY_WORDS, PRIVATE_KEY),
    settings(Place::Name, ".npmrc.*"),
    settings(Place::Name, "pip.ini"),
    settings(Place::Name, ".mambarc"),
    name("pypirc", REGISTRY),
    saying(".yarnrc", &["_auth", "password", "token"], REGISTRY),
    saying("auth.json", LOGINS_IN_JSON, REGISTRY),
    saying("nuget.config", &["password", "apikeys"], REGISTRY),
    Secret {
        content: Content::Xml(&["<password", "<passphrase", "<privatekey"]),
        ..name("settings.xml", REGISTRY)
    },
    name("settings-security.xml", REGISTRY),
    settings_saying("gradle.properties"),
    settings_saying("local.properties"),
    settings_saying("keystore.properties"),
    settings_saying("key.properties"),
    settings_saying("signing.properties"),
    settings_saying("application-local.properties"),
    settings_saying("application-prod.properties"),
    settings_saying("my.cnf"),
    saying("application-local.yml", LOGIN_WORDS, ENVIRONMENT),
    saying("application-local.yaml", LOGIN_WORDS, ENVIRONMENT),
    saying("application-prod.yml", LOGIN_WORDS, ENVIRONMENT),
    saying("application-prod.yaml", LOGIN_WORDS, ENVIRONMENT),
    saying("appsettings.*.json", LOGIN_WORDS, ENVIRONMENT),
    saying("wp-config.php", LOGIN_WORDS, ENVIRONMENT),
    saying("localsettings.php", LOGIN_WORDS, ENVIRONMENT),
    saying("configuration.php", LOGIN_WORDS, ENVIRONMENT),
    saying("config.inc.php", LOGIN_WORDS, ENVIRONMENT),
    saying("settings.local.php", LOGIN_WORDS, ENVIRONMENT),
    saying("sftp-config.json", LOGIN_WORDS, LOGIN),
    saying("sftp.json", LOGIN_WORDS, LOGIN),
    saying("ngrok.yml", &["authtoken", "api_key"], LOGIN),
    saying("rclone.conf", &["token", "pass", "secret", "key"], CLOUD),
    name(".ftpconfig", LOGIN),
    name(".remote-sync.json", LOGIN),
    name("sitemanager.xml", LOGIN),
    name("recentservers.xml", LOGIN),
    name(".s3cfg", CLOUD),
    name(".boto", CLOUD),
    name(".msmtprc", LOGIN),
    name(".mbsyncrc", LOGIN),
    name(".offlineimaprc", LOGIN),
    name(".fetchmailrc", LOGIN),
    name(".authinfo*", LOGIN),
    name(".smbcredentials", LOGIN),
    name(".claude.json", AGENT),
    // Claude Code keeps the last ones, with the time behind the name.
    name(".claude.json.backup.*", AGENT),
    name(".claude.json.corrupted.*", AGENT),
    name(".aider.input.history", HISTORY),
    name("htpasswd", "password hashes"),
    name(".sentryclirc", LOGIN),
    name(".databrickscfg", LOGIN),
    name(".erlang.cookie", LOGIN),
    name(".clearml.conf", LOGIN),
    name("clearml.conf", LOGIN),
    name(".comet.config", LOGIN),
    name(".modal.toml", LOGIN),
    name(".dput.cf", LOGIN),
    name(".oscrc", LOGIN),
    name(".pause", LOGIN),
    name(".redisclirc", LOGIN),
    name(".lftprc", LOGIN),
    name(".cifs-credentials", LOGIN),
    name(".netrc.gpg", LOGIN),
    name(".dbshell", HISTORY),
    name(".lesshst", HISTORY),
    name(".viminfo", HISTORY),
    name("cert9.db", BROWSER),
    name("cookies", BROWSER),
    name("web data", BROWSER),
    // Stores of programs.
    Secret { except: SSH_PUBLIC, ..anywhere(".ssh/**", "keys of ssh") },
    anywhere(".gnupg/**", "keys of gpg"),
    anywhere(".password-store/**", "passwords"),
    anywhere(".aws/credentials*", CLOUD),
    anywhere(".aws/sso/**", CLOUD),
    anywhere(".aws/cli/cache/**", CLOUD),
    anywhere(".aws/login/**", CLOUD),
    Secret { except: &["config"], ..home(".aws/**", CLOUD) },
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
    settings(Place::Anywhere, ".gradle/gradle.properties"),
    anywhere(".composer/auth.json", REGISTRY),
    anywhere(".config/composer/auth.json", REGISTRY),
    anywhere(".config/pnpm/**", REGISTRY),
    anywhere("library/preferences/pnpm/**", REGISTRY),
    settings(Place::Anywhere, ".config/pip/pip.conf"),
    settings(Place::Anywhere, ".pip/pip.conf"),
    settings(Place::Anywhere, "library/application support/pip/pip.conf"),
    settings(Place::Anywhere, ".config/uv/uv.toml"),
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
    anywhere(".local/state/keyward/**", OWN_RECORD),
    anywhere(".local/share/keyrings/**", KEYRING),
    anywhere(".local/share/kwalletd/**", KEYRING),
    anywhere("library/keychains/**", KEYRING),
    anywhere(".huggingface/token", LOGIN),
    anywhere(".cache/huggingface/token", LOGIN),
    anywhere(".cache/huggingface/stored_tokens", LOGIN),
    anywhere(".kaggle/kaggle.json", LOGIN),
    // Servers that agents and editors start, with keys among their settings.
    json(Place::Name, ".mcp.json"),
    json(Place::Name, "mcp.json"),
    json(Place::Name, "mcp_config.json"),
    json(Place::Name, "mcp_settings.json"),
    json(Place::Name, "cline_mcp_settings.json"),
    json(Place::Name, "claude_desktop_config.json"),
    json(Place::Name, "opencode.json"),
    json(Place::Name, "opencode.jsonc"),
    json(Place::Anywhere, ".claude/settings.json"),
    json(Place::Anywhere, ".claude/settings.local.json"),
    json(Place::Anywhere, ".gemini/settings.json"),
    json(Place::Anywhere, ".zed/settings.json"),
    environment(".envs/**"),
    // A directory of such files, one for each place; virtual environments of Python have the name as well.
    Secret { except: OF_ENVIRONMENTS, ..environment(".env/*") },
    Secret { except: EXAMPLES, ..environment(".env.*/*") },
    environment(".env.d/**"),
    environment(".kamal/secrets*"),
    anywhere(".secrets/**", ENVIRONMENT),
    anywhere(".secret/**", ENVIRONMENT),
    anywhere(".age/**", PRIVATE_KEY),
    anywhere(".sops/**", PRIVATE_KEY),
    anywhere("sops/age/**", PRIVATE_KEY),
    anywhere("git-crypt/keys/**", PRIVATE_KEY),
    anywhere("annex/creds/**", LOGIN),
    anywhere(".passage/**", PRIVATE_KEY),
    anywhere(".gopass/**", "passwords"),
    anywhere(".config/gopass/**", "passwords"),
    anywhere(".local/share/gopass/**", "passwords"),
    anywhere(".lastpass/**", "the login of a password manager"),
    anywhere(".local/share/lpass/**", "the login of a password manager"),
    anywhere(".config/keepassxc/**", "the login of a password manager"),
    anywhere(".git-credential-cache/**", LOGIN),
    anywhere(".cache/git/credential/**", LOGIN),
    anywhere(".subversion/auth/**", LOGIN),
    anywhere(".config/subversion/auth/**", LOGIN),
    anywhere(".config/tea/**", LOGIN),
    anywhere(".config/wrangler/**", CLOUD),
    anywhere(".config/.wrangler/**", CLOUD),
    anywhere(".wrangler/config/**", CLOUD),
    anywhere(".local/share/com.vercel.cli/**", CLOUD),
    anywhere(".vercel/auth.json", CLOUD),
    anywhere(".config/netlify/**", CLOUD),
    anywhere(".netlify/config.json", CLOUD),
    anywhere(".config/heroku/**", CLOUD),
    anywhere(".supabase/*token*", CLOUD),
    anywhere(".config/supabase/**", CLOUD),
    anywhere(".config/scw/**", CLOUD),
    anywhere(".config/argocd/**", "the login of a cluster"),
    anywhere(".argocd/config", "the login of a cluster"),
    anywhere(".railway/**", CLOUD),
    anywhere(".config/railway/**", CLOUD),
    anywhere(".render/**", CLOUD),
    anywhere(".config/configstore/**", LOGIN),
    anywhere(".config/snyk/**", LOGIN),
    anywhere(".config/ngrok/**", LOGIN),
    anywhere(".ngrok2/**", LOGIN),
    anywhere(".cloudflared/**", CLOUD),
    anywhere(".pulumi/credentials.json", CLOUD),
    anywhere(".config/opentofu/**", LOGIN),
    anywhere(".mc/config.json", CLOUD),
    anywhere(".config/mc/**", CLOUD),
    anywhere(".minio/**", CLOUD),
    anywhere(".config/restic/**", "a password"),
    anywhere(".config/borg/**", PRIVATE_KEY),
    anywhere(".config/syncthing/**", PRIVATE_KEY),
    anywhere(".chef/**", PRIVATE_KEY),
    anywhere(".circleci/cli.yml", LOGIN),
    anywhere(".travis/config.yml", LOGIN),
    anywhere(".dbt/profiles.yml", LOGIN),
    anywhere(".snowflake/**", LOGIN),
    anywhere(".snowsql/**", LOGIN),
    anywhere(".cassandra/**", LOGIN),
    anywhere(".rubygems/credentials", REGISTRY),
    anywhere(".gem/*/credentials", REGISTRY),
    anywhere(".local/share/gem/credentials", REGISTRY),
    Secret { content: Content::Settings, ..anywhere(".bundle/config", REGISTRY) },
    anywhere(".hex/hex.config", REGISTRY),
    anywhere(".config/hex/**", REGISTRY),
    anywhere(".ivy2/.credentials", REGISTRY),
    anywhere(".sbt/.credentials", REGISTRY),
    anywhere(".sbt/1.0/credentials.sbt", REGISTRY),
    anywhere(".coursier/credentials.properties", REGISTRY),
    anywhere(".config/coursier/credentials.properties", REGISTRY),
    anywhere(".lein/credentials.clj*", REGISTRY),
    anywhere(".pub-cache/credentials.json", REGISTRY),
    anywhere(".config/dart/pub-*.json", REGISTRY),
    anywhere(".conan2/credentials.json", REGISTRY),
    anywhere(".conan/.conan.db", REGISTRY),
    anywhere(".luarocks/upload_config.lua", REGISTRY),
    anywhere(".config/osc/**", REGISTRY),
    anywhere(".config/copr", REGISTRY),
    anywhere(".continuum/**", REGISTRY),
    anywhere(".config/cachix/**", REGISTRY),
    anywhere(".config/attic/**", REGISTRY),
    anywhere(".config/nix/netrc", REGISTRY),
    anywhere(".dvc/config.local", CLOUD),
    anywhere(".streamlit/secrets.toml", ENVIRONMENT),
    anywhere(".local/share/jupyter/runtime/**", LOGIN),
    anywhere(".mlflow/credentials", LOGIN),
    anywhere(".config/wandb/**", LOGIN),
    anywhere(".config/vastai/**", LOGIN),
    anywhere(".runpod/**", LOGIN),
    anywhere(".config/io.datasette.llm/keys.json", LOGIN),
    anywhere(".llm/keys.json", LOGIN),
    anywhere(".config/msmtp/**", LOGIN),
    anywhere(".config/neomutt/**", LOGIN),
    anywhere(".mutt/**", LOGIN),
    anywhere(".config/weechat/**", LOGIN),
    anywhere(".irssi/config", LOGIN),
    anywhere(".purple/accounts.xml", LOGIN),
    anywhere(".config/filezilla/**", LOGIN),
    anywhere(".config/lftp/**", LOGIN),
    anywhere(".lftp/**", LOGIN),
    anywhere(".config/signal/**", LOGIN),
    anywhere(".config/slack/**", LOGIN),
    anywhere(".config/discord/**", LOGIN),
    anywhere(".electrum/**", PRIVATE_KEY),
    anywhere(".bitcoin/**", PRIVATE_KEY),
    anywhere(".ethereum/keystore/**", PRIVATE_KEY),
    anywhere(".foundry/keystores/**", PRIVATE_KEY),
    anywhere(".config/solana/**", PRIVATE_KEY),
    anywhere(".near-credentials/**", PRIVATE_KEY),
    anywhere(".sui/**", PRIVATE_KEY),
    anywhere(".aptos/**", PRIVATE_KEY),
    anywhere(".config/atuin/**", HISTORY),
    anywhere(".local/share/atuin/**", HISTORY),
    anywhere(".local/share/mcfly/**", HISTORY),
    anywhere(".local/share/nushell/history*", HISTORY),
    anywhere(".config/nushell/history*", HISTORY),
    anywhere(".local/state/bash/**", HISTORY),
    anywhere(".ipython/profile_default/history.sqlite", HISTORY),
    anywhere(".config/code*/user/globalstorage/state.vscdb*", LOGIN),
    anywhere(".config/cursor/user/globalstorage/state.vscdb*", AGENT),
    anywhere(".config/vscodium/user/globalstorage/state.vscdb*", LOGIN),
    anywhere(".config/windsurf/user/globalstorage/state.vscdb*", AGENT),
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
    anywhere(".qwen/oauth_creds.json", AGENT),
    anywhere(".iflow/oauth_creds.json", AGENT),
    anywhere(".config/cursor/auth.json", AGENT),
    anywhere(".codeium/config.json", AGENT),
    anywhere(".codeium/windsurf/mcp_config.json", AGENT),
    anywhere(".aider/oauth-keys.env", AGENT),
    anywhere(".cline/data/secrets.json", AGENT),
    anywhere(".copilot/config.json", AGENT),
    anywhere(".factory/auth.*", AGENT),
    anywhere(".augment/session.json", AGENT),
    anywhere(".grok/user-settings.json", AGENT),
    anywhere(".kimi/credentials/**", AGENT),
    anywhere(".kimi/config.toml", AGENT),
    anywhere(".pi/agent/auth.json", AGENT),
    anywhere(".openclaw/**", AGENT),
    anywhere(".clawdbot/**", AGENT),
    anywhere(".openai/**", AGENT),
    anywhere(".anthropic/**", AGENT),
    anywhere(".config/anthropic/**", AGENT),
    anywhere(".config/openai/**", AGENT),
    anywhere(".config/claude/claude_desktop_config.json", AGENT),
    anywhere(".config/modal.toml", LOGIN),
    anywhere(".local/share/amp/secrets.json", AGENT),
    anywhere(".local/share/amazon-q/**", AGENT),
    anywhere(".local/share/crush/crush.json", AGENT),
    anywhere(".local/share/zed/credentials", AGENT),
    anywhere(".config/zed/development_credentials", AGENT),
    // Browsers.
    anywhere(".mozilla/**", BROWSER),
    anywhere(".thunderbird/**", "mail and its logins"),
    anywhere(".config/google-chrome*/**", BROWSER),
    anywhere(".config/chromium*/**", BROWSER),
    anywhere(".config/bravesoftware/**", BROWSER),
    anywhere(".zen/**", BROWSER),
    anywhere(".librewolf/**", BROWSER),
    anywhere(".config/thorium/**", BROWSER),
    anywhere(".config/arc/**", BROWSER),
    anywhere("snap/chromium/common/chromium/**", BROWSER),
    anywhere(".pki/nssdb/**", BROWSER),
    anywhere(".config/microsoft-edge*/**", BROWSER),
    anywhere(".config/vivaldi*/**", BROWSER),
    anywhere(".config/opera*/**", BROWSER),
    anywhere("library/application support/google/chrome/**", BROWSER),
    anywhere("library/application support/firefox/**", BROWSER),
    anywhere("library/cookies/**", BROWSER),
    // What is secret in a HOME, and part of many projects.
    home(".bash_sessions/**", HISTORY),
    home(".zsh_sessions/**", HISTORY),
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
    // Where administrators set variables for all users and services.
    system_settings("/etc/environment"),
    system_settings("/etc/environment.d/*"),
    system_settings("/etc/profile.d/*"),
    system_settings("/etc/default/*"),
    system_settings("/etc/sysconfig/*"),
    system_settings("/etc/systemd/**"),
    system_settings("/etc/cron.d/*"),
    system_settings("/etc/crontab"),
    system("/run/secrets/**", "secrets given to this container"),
    system("/var/run/secrets/**", "secrets given to this container"),
    system("/run/credentials/**", "credentials of a service"),
    system("/var/lib/kubelet/**", "secrets given to containers"),
    system("/var/lib/systemd/credential.secret", HOST),
    system("/var/lib/systemd/coredump/**", "memory of other programs"),
    system("/var/crash/**", "memory of other programs"),
];

/// Where certificates of authorities lie under names that would otherwise be those of keys.
pub(super) const PUBLIC_CERTIFICATES: &[&str] = &[
    "/etc/ssl/certs",
    "/etc/ca-certificates",
    "/etc/pki/ca-trust",
    "/usr/share/ca-certificates",
    "/usr/lib/ssl",
];

/// What editors and people put behind a name when they keep the old file.
pub(crate) const LEFT_OVERS: &[&str] = &[
    "~", ".bak", ".old", ".orig", ".save", ".swp", ".swo", ".swn", ".tmp", ".backup", ".copy", " (copy)",
    ".1", ".2",
];

/// Whose folders count as a HOME beside the caller's own.
const HOMES: &[&str] = &["/home/*", "/root", "/users/*", "/var/home/*"];

/// Whether the file at this path is a secret one; gives the pattern. `real` is absolute and leads through no links.
pub fn is_secret_file(real: &Path, home: &Path) -> Option<&'static str> {
    secret_file(real, &[home]).map(|secret| secret.pattern)
}

/// The same for a user with several HOMEs; gives the whole row.
pub fn secret_file(real: &Path, homes: &[&Path]) -> Option<&'static Secret> {
    let path = folded(real.as_os_str());
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let last = parts.last()?;
    let by_place = |parts: &[&str]| {
        let in_home = rest_in_home(parts, homes);
        let system = first_below(Place::System, parts);
        let home = in_home.iter().filter_map(|rest| first_below(Place::Home, rest));
        let anywhere = (0..parts.len()).filter_map(|start| first_below(Place::Anywhere, &parts[start..]));
        home.chain(anywhere).chain(system).min()
    };
    let kept = || by_place(&[&parts[..parts.len() - 1], &[kept_of(last)?]].concat());
    if let Some(row) = by_place(&parts).or_else(kept) {
        return SECRETS.get(row);
    }
    let public = PUBLIC_CERTIFICATES.iter().any(|tree| real.starts_with(tree));
    named(last).filter(|secret| !(public && secret.pattern == "*.pem"))
}

/// Whether a name directly in a HOME is secret.
pub fn is_secret_in_home(name: &OsStr) -> bool {
    let name = folded(name);
    let in_home = |secret: &&Secret| secret.place == Place::Home && !secret.pattern.contains('/');
    named(&name).is_some() || SECRETS.iter().filter(in_home).any(|secret| matches(secret.pattern, &name))
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

/// Lower case in the sense of file systems that do not tell cases apart: these also leave out signs that cannot be seen. Dots and spaces
/// at the end of a name mean nothing to some of them.
pub(crate) fn folded(text: &OsStr) -> Cow<'_, str> {
    let text = text.to_string_lossy();
    if text.bytes().all(|byte| byte.is_ascii() && byte != 0) && !has_loose_end(&text) {
        return match text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            true => text.to_ascii_lowercase().into(),
            false => text,
        };
    }
    let seen = text.chars().filter(|&c| !is_ignored(c)).flat_map(char::to_uppercase);
    let lower: String = seen.flat_map(char::to_lowercase).collect();
    let tight = |part: &str| match part {
        "." | ".." => part.to_owned(),
        _ => part.trim_end_matches(['.', ' ']).to_owned(),
    };
    lower.split('/').map(tight).collect::<Vec<_>>().join("/").into()
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

/// The patterns of names, ready to be looked up: a search looks up many names, and most are in none.
struct Names {
    exact: Rows<512, { SECRETS.len() }>,
    /// Those with a star: by the first byte of what stands before the star, those with nothing before it by the last byte of what stands
    /// behind, and those that have stars at both ends.
    by_first: Rows<64, { SECRETS.len() }>,
    by_last: Rows<64, { SECRETS.len() }>,
    between: Rows<1, { SECRETS.len() }>,
}

static NAMES: Names = {
    let mut names =
        Names { exact: Rows::new(), by_first: Rows::new(), by_last: Rows::new(), between: Rows::new() };
    let mut row = SECRETS.len();
    while row > 0 {
        row -= 1;
        let pattern = SECRETS[row].pattern.as_bytes();
        if !matches!(SECRETS[row].place, Place::Name) {
            continue;
        }
        match (pattern.first(), pattern.last()) {
            _ if !rows::contains(pattern, b'*') => names.exact.put(row, pattern),
            (Some(&first), _) if first != b'*' => names.by_first.put(row, &[first]),
            (_, Some(&last)) if last != b'*' => names.by_last.put(row, &[last]),
            _ => names.between.put(row, b""),
        }
    }
    names
};

/// A name in lower case, also as what an editor left of it.
pub(crate) fn named(name: &str) -> Option<&'static Secret> {
    let by_name = |name: &str| {
        let is_this = |row: &usize| SECRETS[*row].pattern == name;
        let exact = NAMES.exact.of(name.as_bytes()).find(is_this).map(|row| &SECRETS[row]);
        let exact = exact.filter(|secret| !is_excepted(secret, name));
        let fits = |row: &usize| {
            let secret = &SECRETS[*row];
            matches(secret.pattern, name) && !is_excepted(secret, name)
        };
        let starred = || {
            let (first, last) = (name.as_bytes().first_chunk::<1>()?, name.as_bytes().last_chunk::<1>()?);
            let begun = NAMES.by_first.of(first).chain(NAMES.by_last.of(last));
            begun.chain(NAMES.between.of(b"")).filter(fits).min()
        };
        exact.or_else(|| starred().and_then(|row| SECRETS.get(row)))
    };
    by_name(name).or_else(|| {
        let kept = kept_of(name)?;
        // Editors also put a dot in front of the name.
        by_name(kept).or_else(|| by_name(kept.strip_prefix('.')?))
    })
}

/// The name of the file of which an editor or a person has kept this one.
pub(crate) fn kept_of(name: &str) -> Option<&str> {
    let automatic = name.strip_prefix('#').and_then(|name| name.strip_suffix('#'));
    automatic.or_else(|| LEFT_OVERS.iter().find_map(|tail| name.strip_suffix(tail)))
}

pub(super) fn is_excepted(secret: &Secret, name: &str) -> bool {
    secret.except.iter().any(|except| matches(except, name))
}

/// What is left of a path below each HOME that it lies in.
pub(super) fn rest_in_home<'a, 'b>(parts: &'a [&'b str], homes: &[&Path]) -> Vec<&'a [&'b str]> {
    let own = homes.iter().map(|home| folded(home.as_os_str()));
    let known = HOMES.iter().map(|home| Cow::Borrowed(*home));
    own.chain(known)
        .filter_map(|home| {
            let home: Vec<&str> = home.split('/').filter(|part| !part.is_empty()).collect();
            let (above, rest) = parts.split_at_checked(home.len())?;
            home.iter().zip(above).all(|(pattern, part)| matches(pattern, part)).then_some(rest)
        })
        .collect()
}

/// The rows that begin with a part of a path, ready to be looked up: a search asks at every part of many paths, and most begin none.
struct Rooted {
    by_first: Rows<512, { SECRETS.len() }>,
    /// Those whose first part has a star.
    starred: Rows<1, { SECRETS.len() }>,
}

static ROOTED: Rooted = {
    let mut rooted = Rooted { by_first: Rows::new(), starred: Rows::new() };
    let mut row = SECRETS.len();
    while row > 0 {
        row -= 1;
        if matches!(SECRETS[row].place, Place::Name) {
            continue;
        }
        let first = first_part(SECRETS[row].pattern.as_bytes());
        match rows::contains(first, b'*') {
            false => rooted.by_first.put(row, first),
            true => rooted.starred.put(row, b""),
        }
    }
    rooted
};

/// The first name of a path.
const fn first_part(path: &[u8]) -> &[u8] {
    match path {
        [b'/', rest @ ..] => first_part(rest),
        path => rows::before(path, b'/'),
    }
}

/// The rows whose first part is this name.
fn rows_that_begin(name: &str) -> impl Iterator<Item = usize> + '_ {
    let begins = |row: &usize| first_part(SECRETS[*row].pattern.as_bytes()) == name.as_bytes();
    ROOTED.by_first.of(name.as_bytes()).filter(begins)
}

/// Whether a store of programs begins with a directory of this name.
pub(super) fn begins_store(name: &str) -> bool {
    let is_store = |row: usize| {
        let secret = &SECRETS[row];
        matches!(secret.place, Place::Anywhere | Place::Home) && secret.pattern.contains('/')
    };
    rows_that_begin(name).any(is_store)
}

/// The first row of a place whose pattern is all of these parts.
fn first_below(place: Place, parts: &[&str]) -> Option<usize> {
    let fits = |row: &usize| SECRETS[*row].place == place && below(&SECRETS[*row], parts);
    rows_that_begin(parts.first()?).chain(ROOTED.starred.of(b"")).filter(fits).min()
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
pub(crate) fn matches(pattern: &str, text: &str) -> bool {
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

/// Where the stores lie for these HOMEs, with the depth of each.
pub fn stores_of<'a>(homes: &'a [&Path]) -> impl Iterator<Item = (PathBuf, usize)> + 'a {
    homes.iter().flat_map(|home| stores().map(|store| (home.join(store.path), store.depth)))
}
