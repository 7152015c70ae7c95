//! The certificate authority of one proxy: made at its start, its key only in this memory. Certificates for hosts are made at their first use.

use keyward_policy::net::Host;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType, SerialNumber, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// For how long a certificate is valid: clients refuse those of more than a year, and a session may last for weeks.
const DAYS: u64 = 90;
/// The most hosts whose certificates are kept.
const MOST_KEPT: usize = 2048;

/// Why there is no certificate.
#[derive(Debug)]
pub struct Unmade;

impl<T: std::error::Error> From<T> for Unmade {
    fn from(_: T) -> Self {
        Unmade
    }
}

/// The authority.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
    certificate: CertificateDer<'static>,
    /// One key serves all hosts.
    leaf: KeyPair,
    today: u64,
    kept: RefCell<HashMap<(Host, bool), Arc<ServerConfig>>>,
}

impl Authority {
    /// Makes a new one.
    pub fn new() -> Result<Authority, Unmade> {
        let today = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs() / 86400;
        let mut params = params(today, "Keyward session CA")?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        let (pem, der) = (certificate.pem(), certificate.der().clone());
        let issuer = Issuer::new(params, key);
        let leaf = KeyPair::generate()?;
        Ok(Authority { issuer, pem, certificate: der, leaf, today, kept: RefCell::default() })
    }

    /// The certificate that clients trust.
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// What serves TLS for a host.
    pub fn config(&self, host: &Host, with_http2: bool) -> Result<Arc<ServerConfig>, Unmade> {
        let key = (host.clone(), with_http2);
        if let Some(config) = self.kept.borrow().get(&key) {
            return Ok(Arc::clone(config));
        }
        let chain = vec![self.mint(host)?, self.certificate.clone()];
        let leaf = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.leaf.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, leaf)?;
        config.alpn_protocols =
            if with_http2 { vec![b"h2".to_vec(), b"http/1.1".to_vec()] } else { vec![b"http/1.1".to_vec()] };
        config.session_storage = rustls::server::ServerSessionMemoryCache::new(256);
        let config = Arc::new(config);
        let mut kept = self.kept.borrow_mut();
        if kept.len() >= MOST_KEPT {
            kept.clear();
        }
        kept.insert(key, Arc::clone(&config));
        Ok(config)
    }

    fn mint(&self, host: &Host) -> Result<CertificateDer<'static>, Unmade> {
        // A common name has at most 64 characters; clients read the alternative name.
        let shown = host.to_string();
        let mut params = params(self.today, if shown.len() <= 64 { &shown } else { "Keyward" })?;
        params.subject_alt_names = vec![match host {
            Host::Name(name) => SanType::DnsName(name.as_str().try_into()?),
            Host::Address(address) => SanType::IpAddress(*address),
        }];
        params.is_ca = IsCa::ExplicitNoCa;
        params.use_authority_key_identifier_extension = true;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        Ok(params.signed_by(&self.leaf, &self.issuer)?.der().clone())
    }
}

fn params(today: u64, name: &str) -> Result<CertificateParams, Unmade> {
    let mut params = CertificateParams::default();
    let mut serial = [0; 16];
    keyward_sys::random::fill(&mut serial)?;
    serial[0] &= 0x7f;
    params.serial_number = Some(SerialNumber::from_slice(&serial));
    let mut subject = DistinguishedName::new();
    subject.push(DnType::CommonName, name);
    params.distinguished_name = subject;
    let ((y, m, d), (to_y, to_m, to_d)) = (date(today.saturating_sub(1)), date(today + DAYS));
    params.not_before = date_time_ymd(y, m, d);
    params.not_after = date_time_ymd(to_y, to_m, to_d);
    Ok(params)
}

/// The date of a day since 1970.
fn date(days: u64) -> (i32, u8, u8) {
    let (mut year, mut left) = (1970, days);
    let is_leap = |year: i32| year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    loop {
        let length = if is_leap(year) { 366 } else { 365 };
        if left < length {
            break;
        }
        left -= length;
        year += 1;
    }
    let february = if is_leap(year) { 29 } else { 28 };
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if left < length {
            break;
        }
        left -= length;
        month += 1;
    }
    (year, month, u8::try_from(left).unwrap_or(0) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_day_has_its_date() {
        for (days, expected) in [
            (0, (1970, 1, 1)),
            (58, (1970, 2, 28)),
            (59, (1970, 3, 1)),
            (11016, (2000, 2, 29)),
            (20774, (2026, 11, 17)),
        ] {
            assert_eq!(date(days), expected);
        }
    }

    #[test]
    fn a_host_gets_one_certificate() {
        let authority = Authority::new().unwrap();
        let host = Host::parse("api.example.com").unwrap();
        let first = authority.config(&host, true).unwrap();
        assert!(Arc::ptr_eq(&first, &authority.config(&host, true).unwrap()));
        assert!(!Arc::ptr_eq(&first, &authority.config(&host, false).unwrap()));
        assert!(authority.config(&Host::parse("192.0.2.1").unwrap(), true).is_ok());
        assert!(authority.config(&Host::parse(&["abcdefgh"; 20].join(".")).unwrap(), true).is_ok());
    }
}
