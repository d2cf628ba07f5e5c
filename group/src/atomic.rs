//! Replaces a file as a whole.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Replaces the file at a path, or makes it. A power loss leaves the old octets or the new ones. The caller sees to it
/// that nobody else does the same for this path at the same time.
pub(crate) fn replace(path: &Path, octets: &[u8]) -> io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let mut file = File::create(&new)?;
    file.write_all(octets)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()
}
