//! The files in which programs look for certificates of authorities. Where the proxy reads requests, a cage's are the host's with one more:
//! that of the proxy's own authority, which lives as long as the run.

use crate::request::Request;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha1::{Digest, Sha1};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// How a file holds certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Pem,
    /// A keystore of Java's: its own format, or PKCS #12 without a password, as Java has it since version 18.
    Java,
}

/// A file of the host, and what the cage has in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    /// With all links followed.
    pub path: PathBuf,
    pub form: Form,
}

/// Where these files are looked for: `PLACES`, and in the Java that `JAVA_HOME` names.
pub fn places(request: &Request<'_>) -> Vec<(PathBuf, Form)> {
    let system = PLACES.iter().map(|&(path, form)| (PathBuf::from(path), form));
    let java = request.variable("JAVA_HOME").map(|home| Path::new(OsStr::from_bytes(home)));
    let java = java.filter(|home| home.is_absolute()).into_iter();
    let own = java.flat_map(|home| JAVA_PLACES.iter().map(|place| (home.join(place), Form::Java)));
    system.chain(own).collect()
}

/// Below a Java; the second before version 9.
const JAVA_PLACES: [&str; 2] = ["lib/security/cacerts", "jre/lib/security/cacerts"];

/// Where systems keep them. The first that is there is what variables name.
const PLACES: &[(&str, Form)] = &[
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

/// Adds a trusted certificate to a keystore. The result has Java's own format, which every Java reads in the place of the other one. Its digest
/// proves nothing, because the password is Java's own and public.
fn java(keystore: &[u8], certificate: &[u8]) -> Option<Vec<u8>> {
    const MAGIC: &[u8] = &[0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2];
    const DIGEST: usize = 20;
    let (count, entries) = match keystore.strip_prefix(MAGIC) {
        Some(rest) => {
            let (count, entries) = rest.split_first_chunk::<4>()?;
            let entries = entries.get(..entries.len().checked_sub(DIGEST)?)?;
            (u32::from_be_bytes(*count), entries.to_vec())
        }
        None => {
            let all = pkcs12::certificates(keystore)?;
            let entries: Option<Vec<Vec<u8>>> =
                all.iter().enumerate().map(|(at, own)| entry(&format!("host-{at}"), own)).collect();
            (u32::try_from(all.len()).ok()?, entries?.concat())
        }
    };
    let mut out = [MAGIC, &count.checked_add(1)?.to_be_bytes(), &entries].concat();
    out.extend(entry("keyward-session", certificate)?);
    let mut digest = Sha1::new();
    digest.update("changeit".encode_utf16().flat_map(u16::to_be_bytes).collect::<Vec<u8>>());
    digest.update(b"Mighty Aphrodite");
    digest.update(&out);
    out.extend(digest.finalize());
    Some(out)
}

/// A trusted certificate, as an entry of a keystore.
fn entry(name: &str, certificate: &[u8]) -> Option<Vec<u8>> {
    let text = |text: &str| [&(text.len() as u16).to_be_bytes(), text.as_bytes()].concat();
    let mut out = 2_u32.to_be_bytes().to_vec();
    out.extend(text(name));
    // The time at which it was added says nothing.
    out.extend([0; 8]);
    out.extend(text("X.509"));
    out.extend(u32::try_from(certificate.len()).ok()?.to_be_bytes());
    out.extend(certificate);
    Some(out)
}

/// Certificates of a keystore in the format PKCS #12 (RFC 7292).
mod pkcs12 {
    const INTEGER: u8 = 0x02;
    const OCTETS: u8 = 0x04;
    const OBJECT: u8 = 0x06;
    const SEQUENCE: u8 = 0x30;
    const TAGGED: u8 = 0xa0;
    /// `pkcs7-data`, `certBag`, `x509Certificate`.
    const DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x01];
    const CERTIFICATE_BAG: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x0a, 0x01, 0x03];
    const X509: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x16, 0x01];

    /// All of them; `None` if one is encrypted, or anything else is in it.
    pub fn certificates(keystore: &[u8]) -> Option<Vec<&[u8]>> {
        let (whole, _) = next(keystore, SEQUENCE)?;
        let (_version, rest) = next(whole, INTEGER)?;
        let (mut safes, _) = next(data(next(rest, SEQUENCE)?.0)?, SEQUENCE)?;
        let mut all = Vec::new();
        while !safes.is_empty() {
            let (safe, rest) = next(safes, SEQUENCE)?;
            safes = rest;
            let (mut bags, _) = next(data(safe)?, SEQUENCE)?;
            while !bags.is_empty() {
                let (bag, rest) = next(bags, SEQUENCE)?;
                bags = rest;
                let (own, _) = next(of_kind(bag, CERTIFICATE_BAG)?, SEQUENCE)?;
                all.push(next(of_kind(own, X509)?, OCTETS)?.0);
            }
        }
        Some(all)
    }

    fn data(info: &[u8]) -> Option<&[u8]> {
        Some(next(of_kind(info, DATA)?, OCTETS)?.0)
    }

    /// What stands behind the name of its kind.
    fn of_kind<'b>(bytes: &'b [u8], kind: &[u8]) -> Option<&'b [u8]> {
        let (own, rest) = next(bytes, OBJECT)?;
        if own == kind { Some(next(rest, TAGGED)?.0) } else { None }
    }

    /// The content of the next element, which has this tag, and what follows it.
    fn next(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
        let rest = bytes.strip_prefix(&[tag])?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            0x81..=0x84 => {
                let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                (digits.iter().fold(0, |length, &digit| length << 8 | usize::from(digit)), rest)
            }
            _ => return None,
        };
        rest.split_at_checked(length)
    }
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

    /// Two certificates, in the format of a Java since version 18.
    fn pkcs12(inner: &[u8]) -> Vec<u8> {
        let element = |tag: u8, content: &[u8]| {
            let length = u16::try_from(content.len()).unwrap().to_be_bytes();
            [&[tag, 0x82][..], &length, content].concat()
        };
        let object = |last: &[u8]| {
            let name = [&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01][..], last].concat();
            [&[0x06, name.len() as u8][..], &name].concat()
        };
        let tagged = |kind: Vec<u8>, content: &[u8]| element(0x30, &[kind, element(0xa0, content)].concat());
        let bag = |certificate: &[u8]| {
            let own = tagged(object(&[9, 0x16, 1]), &element(0x04, certificate));
            tagged(object(&[0x0c, 0x0a, 1, 3]), &own)
        };
        let bags = element(0x30, &[bag(b"first"), bag(inner)].concat());
        let safe = tagged(object(&[7, 1]), &element(0x04, &bags));
        let all = tagged(object(&[7, 1]), &element(0x04, &element(0x30, &safe)));
        element(0x30, &[&[0x02, 1, 3][..], &all].concat())
    }

    #[test]
    fn a_keystore_of_a_newer_java_becomes_one_that_every_java_reads() {
        let bundle = Bundle { path: "/x".into(), form: Form::Java };
        let one = bundle.with(&pkcs12(b"second"), CA).unwrap();
        assert_eq!(one[..12], [0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2, 0, 0, 0, 3]);
        let text = String::from_utf8_lossy(&one).into_owned();
        assert!(text.contains("\0\0\0\u{5}first") && text.contains("\0\0\0\u{6}second"), "{text:?}");
        // Cut anywhere, and with a kind that is not known.
        let whole = pkcs12(b"second");
        assert!((0..whole.len()).all(|end| bundle.with(&whole[..end], CA).is_none()));
        let at = whole.windows(5).position(|five| five == b"\x0d\x01\x0c\x0a\x01").unwrap();
        let mut other = whole;
        other[at + 2] = 0x0b;
        assert_eq!(bundle.with(&other, CA), None);
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
