//! Which certificates of hosts outside are trusted: the system's, those that the user added, and for some hosts their own. The files are read
//! before the process is confined, and understood at the first use.

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use std::cell::OnceCell;
use std::sync::Arc;

/// Where systems keep their roots in one file.
const SYSTEM: &[&str] = &[
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// Which protocols are offered to a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Offer {
    Both,
    /// For an upgrade, which HTTP/2 does not have.
    Http1,
}

type Configs = OnceCell<[Arc<ClientConfig>; 2]>;

/// What is trusted.
pub struct Trust {
    /// The system's, and those that the user added.
    usual: Vec<Vec<u8>>,
    configs: Configs,
    own: Vec<(Vec<u8>, Configs)>,
}

impl Trust {
    /// `certificates` are files in PEM; `trusted` says which of them count everywhere.
    pub fn new(certificates: Vec<Vec<u8>>, trusted: &[usize]) -> Trust {
        let system = SYSTEM.iter().find_map(|path| std::fs::read(path).ok());
        let added = trusted.iter().filter_map(|&at| certificates.get(at).cloned());
        let usual = system.into_iter().chain(added).collect();
        let own = certificates.into_iter().map(|file| (file, Configs::new())).collect();
        Trust { usual, configs: Configs::new(), own }
    }

    /// What speaks TLS to a host; `own` says which file is trusted for it instead of the usual.
    pub fn config(&self, own: Option<usize>, offer: Offer) -> Option<Arc<ClientConfig>> {
        let configs = match own {
            None => self.configs.get_or_init(|| configs(&self.usual)),
            Some(at) => {
                let (file, configs_) = self.own.get(at)?;
                configs_.get_or_init(|| configs(std::slice::from_ref(file)))
            }
        };
        let [both, http1] = configs;
        Some(Arc::clone(if offer == Offer::Both { both } else { http1 }))
    }
}

fn configs(files: &[Vec<u8>]) -> [Arc<ClientConfig>; 2] {
    let mut roots = RootCertStore::empty();
    for file in files {
        roots.add_parsable_certificates(CertificateDer::pem_slice_iter(file).filter_map(Result::ok));
    }
    let roots = Arc::new(roots);
    let config = |protocols: &[&[u8]]| {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
        // These versions are those that the provider has.
        let builder = builder.with_safe_default_protocol_versions().unwrap_or_else(|_| std::process::abort());
        let mut config = builder.with_root_certificates(Arc::clone(&roots)).with_no_client_auth();
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Arc::new(config)
    };
    [config(&[b"h2", b"http/1.1"]), config(&[b"http/1.1"])]
}
