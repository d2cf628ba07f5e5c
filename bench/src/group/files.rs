//! Where replicas have their files.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::statfs;

use crate::case::Case;
use crate::process::{Folder, Outcome};

/// Sets the folder for the files of all replicas.
///
/// # Errors
/// If it is no folder.
pub(super) fn set_parent(folder: Option<&Path>) -> io::Result<()> {
    let folder = folder.map_or_else(std::env::temp_dir, Path::to_path_buf);
    if !folder.is_dir() {
        let text = format!("--dir: there is no folder {}", folder.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    PARENT.get_or_init(|| folder);
    Ok(())
}

/// Makes a folder for the files of a group.
pub(super) fn folder() -> Outcome<Folder> {
    Folder::below(parent())
}

/// Returns a case by a name that tells if its files are in memory only. Then its figures say nothing of disks.
pub(super) fn told(case: &'static Case) -> &'static Case {
    let is_in_memory = statfs(parent()).is_ok_and(|system| system.f_type == libc::TMPFS_MAGIC);
    if !is_in_memory || !case.name.contains(MARK) {
        return case;
    }
    let &Case { quantity, references, clock_scale, open, .. } = case;
    let name = Box::leak(format!("{} on tmpfs", case.name).into_boxed_str());
    Box::leak(Box::new(Case { name, quantity, references, clock_scale, open }))
}

fn parent() -> &'static Path {
    PARENT.get_or_init(std::env::temp_dir)
}

static PARENT: OnceLock<PathBuf> = OnceLock::new();
/// Cases whose replicas have files have this in their names.
const MARK: &str = "file";
