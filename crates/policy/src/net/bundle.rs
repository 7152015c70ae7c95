//! The files in which programs look for certificates of authorities. Where the proxy reads requests, a cage's are the host's with one more:
//! that of the proxy's own authority, which lives as long as the run.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha1::{Digest, Sha1};
use std::path::{Path, PathBuf};

/// How a file holds certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Pem,
    /// A keystore of Java's, version 2.
    Java,
}

/// A file of the host, and what the cage has in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// With all links followed.
    pub path: PathBuf,
    pub form: Form,
}

/// Where systems keep them. The first that is there is what variables name.
pub const PLACES: &[(&str, Form)] = &[
    ("/etc/ssl/certs/ca-certificates.crt", Form::Pem),
    ("/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", Form::Pem),
    ("/etc/pki/tls/certs/ca-bundle.crt", Form::Pem),
    ("/etc/ssl/ca-bundle.pem", Form::Pem),
    ("/etc/ssl/cert.pem", Form::Pem),
    ("/etc/ssl/certs/java/cacerts", Form::Java),
    ("/etc/pki/ca-trust/extracted/java/cacerts", Form::Java),
];

/// Variables of programs that do not look at the system's files, or not at all of them.
pub const VARIABLES: &[&str] = &[
    "SSL_CERT_FILE",
    "CURL_CA_BUNDLE",
    "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS",
    "PIP_CERT",
    "CARGO_HTTP_CAINFO",
    "GIT_SSL_CAINFO",
    "AWS_CA_BUNDLE",
    "DENO_CERT",
    "NIX_SSL_CERT_FILE",
    "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
    // gRPC brings its roots along, in every language but Go and Java.
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
];

impl Bundle {
    /// The host's file with one certificate more; `None` for a file or certificate that is not understood.
    pub fn with(&self, host: &[u8], ca: &str) -> Option<Vec<u8>> {
        match self.form {
            Form::Pem => Some([host, b"\n", ca.as_bytes()].concat()),
            Form::Java => java(host, &der(ca)?),
        }
    }
}

/// The file that variables name.
pub fn for_variables(bundles: &[Bundle]) -> Option<&Path> {
    bundles.iter().find(|bundle| bundle.form == Form::Pem).map(|bundle| bundle.path.as_path())
}

/// The bytes of a certificate in PEM.
fn der(pem: &str) -> Option<Vec<u8>> {
    let body = pem.split_once("-----BEGIN CERTIFICATE-----")?.1.split_once("-----END CERTIFICATE-----")?.0;
    let body: String = body.split_whitespace().collect();
    BASE64_STANDARD.decode(body).ok()
}

/// Adds a trusted certificate to a keystore. Its digest proves nothing, because the password is Java's own and public.
fn java(keystore: &[u8], certificate: &[u8]) -> Option<Vec<u8>> {
    const MAGIC: &[u8] = &[0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2];
    const DIGEST: usize = 20;
    let entries = keystore.strip_prefix(MAGIC)?;
    let (count, entries) = entries.split_first_chunk::<4>()?;
    let entries = entries.get(..entries.len().checked_sub(DIGEST)?)?;
    let count = u32::from_be_bytes(*count).checked_add(1)?;
    let mut out = [MAGIC, &count.to_be_bytes(), entries].concat();
    let text = |text: &str| [&(text.len() as u16).to_be_bytes(), text.as_bytes()].concat();
    out.extend(2_u32.to_be_bytes());
    out.extend(text("keyward-session"));
    // The time at which it was added says nothing.
    out.extend([0; 8]);
    out.extend(text("X.509"));
    out.extend(u32::try_from(certificate.len()).ok()?.to_be_bytes());
    out.extend(certificate);
    let mut digest = Sha1::new();
    digest.update("changeit".encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<u8>>());
    digest.update(b"Mighty Aphrodite");
    digest.update(&out);
    out.extend(digest.finalize());
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CA: &str = "-----BEGIN CERTIFICATE-----\nAQID\nBAU=\n-----END CERTIFICATE-----\n";

    #[test]
    fn a_certificate_is_added_behind_the_hosts() {
        let bundle = Bundle { path: "/x".into(), form: Form::Pem };
        assert_eq!(bundle.with(b"host", CA), Some(format!("host\n{CA}").into_bytes()));
    }

    #[test]
    fn a_keystore_gets_one_entry_more() {
        let bundle = Bundle { path: "/x".into(), form: Form::Java };
        let empty = [&[0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2, 0, 0, 0, 0][..], &[7; 20]].concat();
        let one = bundle.with(&empty, CA).unwrap();
        assert_eq!(one[..12], [0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2, 0, 0, 0, 1]);
        assert_eq!(one[12..16], [0, 0, 0, 2]);
        let end = one.len() - 20;
        assert_eq!(one[end - 9..end], [0, 0, 0, 5, 1, 2, 3, 4, 5]);
        assert_eq!(bundle.with(&one, CA).unwrap()[8..12], [0, 0, 0, 2]);
    }

    #[test]
    fn what_is_not_understood_is_left_alone() {
        let bundle = Bundle { path: "/x".into(), form: Form::Java };
        for keystore in [&b""[..], b"0\x82", &[0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2, 0, 0, 0, 0]] {
            assert_eq!(bundle.with(keystore, CA), None);
        }
        assert_eq!(bundle.with(&[0xfe; 40], "not a certificate"), None);
    }
}
