//! A server of the host's, with a certificate that only the user's policy trusts.
#![allow(dead_code)]

use crate::support::{Beside, Stage, Who, stderr};
use std::path::Path;
use std::process::Command;

/// A program in Python that ends with the value. Its first argument is its folder, with `server.pem` and `server.key`; it writes `port` there.
pub struct Upstream {
    _server: Beside,
    pub port: String,
    pub folder: tempfile::TempDir,
    hosts: Vec<String>,
}

impl Upstream {
    pub fn new(program: &str, hosts: &[&str]) -> Self {
        Upstream::prepared(program, hosts, |_| ())
    }

    /// The same, with something that has to be in the folder before the server starts.
    pub fn prepared(program: &str, hosts: &[&str], prepare: impl FnOnce(&Path)) -> Self {
        Upstream::by("/usr/bin/python3", program, hosts, prepare)
    }

    /// The same by another Python.
    pub fn by(python: &str, program: &str, hosts: &[&str], prepare: impl FnOnce(&Path)) -> Self {
        let folder = tempfile::Builder::new().prefix("keyward upstream").tempdir_in("/srv").unwrap();
        let at = folder.path().to_str().unwrap().to_owned();
        std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let certificate = |name: &str, more: &[&str]| {
            let made = Command::new("openssl")
                .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"])
                .args(["-days", "30", "-subj", &format!("/CN={name}")])
                .args(["-keyout", &format!("{at}/{name}.key"), "-out", &format!("{at}/{name}.pem")])
                .args(more)
                .output()
                .unwrap();
            assert!(made.status.success(), "{}", stderr(&made));
        };
        certificate("authority", &[]);
        let (ca, key) = (format!("{at}/authority.pem"), format!("{at}/authority.key"));
        let names: Vec<String> = hosts.iter().map(|host| format!("DNS:{host}")).collect();
        let names = format!("subjectAltName={}", names.join(","));
        let own = ["-addext", "basicConstraints=critical,CA:FALSE", "-addext", &names];
        certificate("server", &[&["-CA", &ca, "-CAkey", &key][..], &own].concat());
        prepare(folder.path());
        std::fs::write(folder.path().join("server.py"), program).unwrap();
        let stage = Stage::new(Who::User);
        let server = stage
            .beside_and_ready(Command::new(python).arg(folder.path().join("server.py")).arg(folder.path()));
        let port = std::fs::read_to_string(folder.path().join("port")).unwrap();
        Upstream { _server: server, port, folder, hosts: hosts.iter().map(|&host| host.to_owned()).collect() }
    }

    /// A user whose policy leads the hosts to the server.
    pub fn stage(&self) -> Stage {
        let stage = Stage::new(Who::User);
        stage.home_file(".config/keyward/policy.toml", &format!("version = 1\n{}", self.hosts()));
        stage
    }

    /// The part of a policy that leads the hosts to the server.
    pub fn hosts(&self) -> String {
        let (port, ca) = (&self.port, self.folder.path().join("authority.pem"));
        let host = |host: &String| {
            format!("[net.upstream.\"{host}\"]\naddress = \"127.0.0.1:{port}\"\nca = \"{}\"\n", ca.display())
        };
        self.hosts.iter().map(host).collect()
    }

    /// What the server has left in a file of its folder.
    pub fn said(&self, file: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(file)).unwrap_or_default()
    }
}
