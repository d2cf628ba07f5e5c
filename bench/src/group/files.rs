//! Where replicas have their files.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::statfs;

use crate::case::{Case, Reference};
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

/// Returns a case that tells by its name if its files are in memory only. Then its figures say nothing of disks, and it
/// has no target.
pub(super) fn told(case: &'static Case) -> &'static Case {
    told_below(case, parent())
}

fn told_below(case: &'static Case, parent: &Path) -> &'static Case {
    let is_in_memory = statfs(parent).is_ok_and(|system| system.f_type == libc::TMPFS_MAGIC);
    if !is_in_memory || !case.name.contains(MARK) {
        return case;
    }
    let &Case { quantity, references, clock_scale, open, .. } = case;
    let name = Box::leak(format!("{} on tmpfs", case.name).into_boxed_str());
    let shown = |&Reference { name, is_optional, .. }: &_| Reference { name, target: None, is_optional };
    let references = Vec::leak(references.iter().map(shown).collect());
    Box::leak(Box::new(Case { name, quantity, references, clock_scale, open }))
}

/// Returns the folder for the files of all replicas.
pub(super) fn parent() -> &'static Path {
    PARENT.get_or_init(std::env::temp_dir)
}

static PARENT: OnceLock<PathBuf> = OnceLock::new();
/// Cases whose replicas have files have this in their names.
const MARK: &str = "file";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::cases::CASES;

    #[test]
    fn only_rows_of_files_in_memory_say_so_and_have_no_target() {
        let find = |name: &str| CASES.iter().find(|case| case.name == name).unwrap();
        let (on_files, volatile) = (find("group/file-flush-1k"), find("group/flush"));
        let memory = Path::new("/dev/shm");
        if !statfs(memory).is_ok_and(|system| system.f_type == libc::TMPFS_MAGIC) {
            println!("skipped: only_rows_of_files_in_memory_say_so_and_have_no_target: no tmpfs at /dev/shm");
            return;
        }
        let told = told_below(on_files, memory);
        assert_eq!(told.name, "group/file-flush-1k on tmpfs");
        assert_eq!(told.references.len(), on_files.references.len());
        assert!(on_files.references[0].target.is_some());
        assert!(told.references.iter().all(|reference| reference.target.is_none()));
        assert_eq!(told_below(volatile, memory).name, volatile.name);
        assert_eq!(told_below(on_files, Path::new("/proc")).name, on_files.name);
    }
}
