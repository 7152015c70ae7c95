//! The places that the view knows by name: what is shown of every system, what is secret in it, what is no project.

/// System directories that appear read-only.
pub(super) const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/opt",
    "/nix/store",
    "/gnu/store",
    "/snap",
    // Parts of packages that Debian keeps here, with links to them below /usr: of GHC, of TeX, of SGML and XML.
    "/var/lib/ghc",
    "/var/lib/texmf",
    "/var/lib/sgml-base",
    "/var/lib/xml-core",
    // What programs count processors by.
    "/sys/devices/system/cpu",
];

/// Those of them in which people and installers put files of their own, with secrets among them. The rest belongs to packages.
pub(super) const SYSTEM_SEARCHED: &[&str] = &["/etc", "/opt", "/usr/local"];

/// Programs that make their caller another user, which no process in a cage can become.
pub(super) const OTHER_USERS: &[&str] = &["/usr/bin/sudo", "/usr/bin/doas", "/usr/bin/pkexec"];

/// What is secret in there. Hidden when the caller could read it.
pub(super) const SYSTEM_SECRETS: &[&str] = &[
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/security/opasswd",
    "/etc/ssh/ssh_host_rsa_key",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/ssh/ssh_host_dsa_key",
    "/etc/ssl/private",
    "/etc/pki/tls/private",
    "/etc/letsencrypt",
    "/etc/krb5.keytab",
    "/etc/wireguard",
    "/etc/openvpn",
    "/etc/ipsec.secrets",
    "/etc/ppp/chap-secrets",
    "/etc/NetworkManager/system-connections",
    "/etc/wpa_supplicant",
    "/etc/kubernetes",
    "/etc/rancher",
    "/etc/docker",
    "/etc/containerd",
    "/etc/credstore",
    "/etc/credstore.encrypted",
    "/etc/keyward",
    "/etc/boto.cfg",
    "/etc/aws",
    "/etc/vault.d",
    "/etc/msmtprc",
    "/etc/fetchmailrc",
    "/etc/mysql/debian.cnf",
    "/etc/apt/auth.conf",
    "/etc/apt/auth.conf.d",
];

/// Devices that every program expects.
pub(super) const DEVICES: &[&str] =
    &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

pub(super) const DEVICE_LINKS: &[(&str, &str)] = &[
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
    ("/dev/ptmx", "pts/ptmx"),
];

/// What marks a project's root. It is pinned: moving it away would make a larger folder the project of the next run.
pub const PINNED: &[&str] = &[".git", ".hg", ".jj"];

/// The project's own policy, which may only narrow.
pub const PROJECT_FILE: &str = ".keyward.toml";

/// What the kernel tells about keys of the caller, by name.
pub(super) const KEYS_FILE: &str = "/proc/keys";

/// Folders that many share: standing in one of them does not make it a project.
pub(super) const SHARED_PLACES: &[&str] = &[
    "/",
    "/tmp",
    "/var",
    "/var/tmp",
    "/dev/shm",
    "/run",
    "/home",
    "/root",
    "/usr",
    "/usr/local",
    "/opt",
    "/srv",
    "/mnt",
    "/media",
];

/// Below these nothing is ever a project.
pub(super) const NEVER_PROJECTS: &[&str] =
    &["/etc", "/proc", "/sys", "/dev", "/boot", "/bin", "/sbin", "/lib", "/lib64", "/usr/bin", "/usr/lib"];

/// Folders of a HOME that hold credentials and nothing to work on.
pub(crate) const STORES: &[&str] = &[
    ".ssh",
    ".aws",
    ".gnupg",
    ".kube",
    ".docker",
    ".azure",
    ".password-store",
    ".mozilla",
    ".config/gcloud",
    ".config/gh",
    ".config/op",
    ".config/google-chrome",
    ".config/chromium",
    ".local/share/keyrings",
];
