//! `data/providers.toml` and the `[provider.NAME]` tables of `profiles/*.toml` as the table that `provider` offers.

use crate::described::provider::{self, Mint, Provider};
use crate::described::shape::Piece;
use crate::reader::strings;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use toml_edit::{DocumentMut, Item};

pub fn generate(text: &str, profiles: &[(String, DocumentMut)]) -> Result<String, String> {
    let doc: DocumentMut = text.parse().map_err(|e: toml_edit::TomlError| e.to_string())?;
    let told = |wrong| crate::told(&wrong);
    let shared = strings(doc.as_table(), "the file", "shared_domains")?;
    for domain in &shared {
        provider::host(domain, None).map_err(told)?;
    }
    let general = provider::mints(doc.as_table(), "the file").map_err(told)?;
    let is_provider = |(name, _): &(&str, &Item)| !["shared_domains", "mints"].contains(name);
    let mut all: Vec<(&str, &Item)> = doc.iter().filter(is_provider).collect();
    for (name, profile) in profiles {
        let Some(item) = profile.get("provider") else { continue };
        let table = item.as_table_like().ok_or(format!("{name}: `provider` must be a table"))?;
        all.extend(table.iter());
    }
    let (mut rows, mut names) = (String::new(), BTreeSet::new());
    for (name, item) in all {
        let row = item.as_table_like().ok_or(format!("[{name}]: expected a table"))?;
        let provider =
            provider::read(name, row).map_err(|wrong| format!("[{name}]: {}", crate::told(&wrong)))?;
        for name in provider.aliases.iter().chain([&provider.name]) {
            if !names.insert(name.clone()) {
                return Err(format!("[{name}] is already there"));
            }
        }
        let _ = writeln!(rows, "    {},", one(&provider));
    }
    Ok(format!(
        "pub(super) static PROVIDERS: &[Provider] = &[\n{rows}];\n\
         pub(super) static SHARED: &[&str] = &{shared:?};\n\
         pub(super) static MINTS: &[Mint] = &[{}];\n",
        mints(&general)
    ))
}

fn one(provider: &Provider) -> String {
    let Provider { name, aliases, variables, hosts, headers, base_url, base_path, reason, .. } = provider;
    let places: String =
        provider.places.iter().map(|place| format!("Place::{}, ", crate::tools::variant(place))).collect();
    let git = match &provider.git {
        Some((host, user)) => format!("Some(Forge {{ host: {host:?}, user: {user:?} }})"),
        None => "None".to_owned(),
    };
    format!(
        "Provider {{ name: {name:?}, aliases: &{aliases:?}, variables: &{variables:?}, hosts: &{hosts:?}, \
         headers: &{headers:?}, places: &[{places}], shape: Shape(&[{}]), base_url: {base_url:?}, base_path: {base_path:?}, \
         git: {git}, mints: &[{}], reason: {reason:?} }}",
        pieces(&provider.shape),
        mints(&provider.mints)
    )
}

fn mints(mints: &[Mint]) -> String {
    let one = |Mint { method, host, path }: &Mint| {
        format!("Mint {{ method: {method:?}, host: {host:?}, path: {path:?} }}, ")
    };
    mints.iter().map(one).collect()
}

/// The parts of a shape.
pub fn pieces(pieces: &[Piece]) -> String {
    let one = |piece: &Piece| match piece {
        Piece::Text(text) => format!("Part::Text({text:?}), "),
        Piece::Random(alphabet, length) => {
            let alphabet = if *alphabet == "base64url" {
                "Base64Url".to_owned()
            } else {
                crate::tools::variant(alphabet)
            };
            format!("Part::Random(Alphabet::{alphabet}, {length}), ")
        }
        Piece::Uuid => "Part::Uuid, ".to_owned(),
        Piece::Crc32 => "Part::Crc32, ".to_owned(),
        Piece::Jwt => "Part::Jwt, ".to_owned(),
    };
    pieces.iter().map(one).collect()
}
