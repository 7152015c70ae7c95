//! Puts judged objects into the host's store: as links, so that each appears whole under its final name or not at all.

use super::Refused;
use rustix::fs::{AtFlags, CWD, RenameFlags};
use rustix::io::Errno;
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// What was put into the store.
#[derive(Default)]
pub(super) struct Linked {
    pub objects: u64,
    /// Marks that keep packs from `gc`, made by us.
    pub keeps: Vec<PathBuf>,
}

/// A pack's files, its index last: with it the pack begins to count.
const PACK: [&str; 4] = ["keep", "pack", "rev", "idx"];

/// Links everything below `from` into `to`. Names that are there already stay as they are.
///
/// On an error the marks that were made are in `linked`.
pub(super) fn link_all(from: &Path, to: &Path, id_length: usize, linked: &mut Linked) -> Result<(), Refused> {
    link_below(from, to, id_length, linked)
        .map_err(|error| Refused::error("put objects into the store", &error))
}

fn link_below(from: &Path, to: &Path, id_length: usize, linked: &mut Linked) -> std::io::Result<()> {
    for first in names(from)?.iter().filter(|name| name.len() == 2 && is_hex(name)) {
        let rest = names(&from.join(first))?;
        let objects: Vec<_> =
            rest.iter().filter(|rest| rest.len() == 2 * id_length - 2 && is_hex(rest)).collect();
        if objects.is_empty() {
            continue;
        }
        make_directory(&to.join(first), to)?;
        for rest in objects {
            let new = link(&from.join(first).join(rest), &to.join(first).join(rest))?;
            linked.objects += u64::from(new);
        }
    }
    let packs = from.join("pack");
    if packs.try_exists()? {
        link_packs(&packs, to, linked)?;
    }
    Ok(())
}

fn link_packs(from: &Path, objects: &Path, linked: &mut Linked) -> std::io::Result<()> {
    let to = objects.join("pack");
    for name in names(from)?.iter().filter(|name| name.starts_with("pack-") && name.ends_with(".pack")) {
        let count = object_count(&from.join(name))?;
        // Everything was there already.
        if count == 0 {
            continue;
        }
        make_directory(&to, objects)?;
        let is_new = !to.join(name).with_extension("idx").try_exists()?;
        for ending in PACK {
            let file = Path::new(name).with_extension(ending);
            if !from.join(&file).try_exists()? {
                continue;
            }
            let new = link(&from.join(&file), &to.join(&file))?;
            if new && ending == "keep" {
                linked.keeps.push(to.join(&file));
            }
        }
        linked.objects += if is_new { count } else { 0 };
    }
    Ok(())
}

fn is_hex(name: &str) -> bool {
    name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn names(directory: &Path) -> std::io::Result<Vec<String>> {
    std::fs::read_dir(directory)?
        .map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()))
        .collect()
}

/// How many objects a pack has that git has just written.
fn object_count(pack: &Path) -> std::io::Result<u64> {
    let mut head = [0; 12];
    std::fs::File::open(pack)?.read_exact(&mut head)?;
    let [.., a, b, c, d] = head;
    Ok(u64::from(u32::from_be_bytes([a, b, c, d])))
}

/// Makes a directory with the rights that the one above it gives, as git does for a store that several users share.
fn make_directory(path: &Path, above: &Path) -> std::io::Result<()> {
    match std::fs::DirBuilder::new().mode(0o777).create(path) {
        Ok(()) => {
            let mode = std::fs::metadata(above)?.mode() & 0o7777;
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Gives a file its second name. False if the name is taken.
fn link(from: &Path, to: &Path) -> Result<bool, Errno> {
    match rustix::fs::linkat(CWD, from, CWD, to, AtFlags::empty()) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        // A file system without links.
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::MLINK | Errno::NOSYS) => {
            match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
                Ok(()) => Ok(true),
                Err(Errno::EXIST) => Ok(false),
                Err(errno) => Err(errno),
            }
        }
        Err(errno) => Err(errno),
    }
}
