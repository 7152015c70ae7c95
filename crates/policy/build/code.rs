//! The sum of everything that decides about the content of files, so that what an earlier version of the program thought of a file is not
//! taken for this one's.

use std::path::{Path, PathBuf};

/// All sources and tables of the crate.
const PLACES: &[&str] = &["src", "data"];

pub fn generate() -> Result<String, String> {
    let mut files = Vec::new();
    for place in PLACES {
        find(Path::new(place), &mut files).map_err(|e| format!("{place}: {e}"))?;
    }
    files.sort();
    let mut sum: u64 = 0xcbf2_9ce4_8422_2325;
    for file in files {
        let text = std::fs::read(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        for byte in file.to_string_lossy().bytes().chain(text) {
            sum = (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    Ok(format!(
        "/// The sum of the sources and tables of this crate.\npub(crate) const CODE: u64 = {sum:#x};\n"
    ))
}

fn find(directory: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        match path.is_dir() {
            true => find(&path, files)?,
            false => files.push(path),
        }
    }
    Ok(())
}
