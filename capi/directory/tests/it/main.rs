//! The libraries for `LD_LIBRARY_PATH`: compares their symbols with the system's libraries, and runs C programs on
//! them.

#![allow(clippy::unwrap_used, reason = "a test that fails here has failed")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError, Weak};

#[path = "../../../preload/tests/it/program.rs"]
mod program;
#[path = "../../../../cli/tests/support/skip.rs"]
mod skip;

use program::Program;
use skip::skip;

/// A folder with the libraries. The end of a test removes it.
struct Folder(PathBuf);

impl Folder {
    /// Returns None, and prints why, if the libraries cannot be linked here.
    fn link() -> Option<Arc<Self>> {
        let mut linked = LINKED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = linked.upgrade() {
            return Some(known);
        }
        if ["cc", "nm"].iter().any(|tool| Command::new(tool).arg("--version").output().is_err()) {
            skip("no C compiler for the libraries of LD_LIBRARY_PATH");
            return None;
        }
        let folder =
            Arc::new(Self(std::env::temp_dir().join(format!("weft-directory-{}", std::process::id()))));
        let link = Path::new(env!("CARGO_MANIFEST_DIR")).join("link");
        let output = Command::new(link).args([&archive(), &folder.0]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        *linked = Arc::downgrade(&folder);
        Some(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

/// Returns the archive that cargo has built for these tests. Its name has a hash, and older builds lie beside it.
fn archive() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let files = std::fs::read_dir(test.parent().unwrap()).unwrap().map(|entry| entry.unwrap());
    let archives = files.filter(|file| {
        let name = file.file_name().into_string().unwrap_or_default();
        name.starts_with("libweft_directory") && name.ends_with(".a")
    });
    let newest = archives.max_by_key(|file| file.metadata().unwrap().modified().unwrap());
    newest.expect("cargo builds the library before its tests").path()
}

static LINKED: Mutex<Weak<Folder>> = Mutex::new(Weak::new());

/// Returns the variable that makes the loader take Weft for the system's libraries.
fn form() -> String {
    let folder = LINKED.lock().unwrap_or_else(PoisonError::into_inner).upgrade().unwrap();
    format!("LD_LIBRARY_PATH={}", folder.0.display())
}

/// Returns the versioned symbols of a library to which programs are linked today, and the versions themselves.
fn symbols(library: &Path) -> BTreeSet<String> {
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output().unwrap();
    assert!(output.status.success(), "{}", library.display());
    let text = String::from_utf8(output.stdout).unwrap();
    // Symbols with one @ are for programs older than 2007.
    let names = text.lines().filter_map(|line| line.split(' ').nth(2));
    names.filter(|name| name.contains("@@") || !name.contains('@')).map(ToOwned::to_owned).collect()
}

/// A program that is linked with the system's libraries finds the same symbols here, with the same versions.
#[test]
fn symbols_have_the_versions_of_the_systems_libraries() {
    let Some(folder) = Folder::link() else { return };
    for name in ["libibverbs.so.1", "librdmacm.so.1"] {
        let ours = symbols(&folder.0.join(name));
        let cache = Command::new("/sbin/ldconfig").arg("-p").output().unwrap();
        let cache = String::from_utf8(cache.stdout).unwrap();
        let installed = cache.lines().find(|line| line.trim_start().starts_with(name));
        let Some((_, installed)) = installed.and_then(|line| line.split_once("=> ")) else {
            skip("the system's libibverbs and librdmacm are not installed");
            continue;
        };
        let system = symbols(Path::new(installed));
        assert!(system.len() > 50, "{name}: {system:?}");
        let missing: Vec<_> = system.difference(&ours).collect();
        assert!(missing.is_empty(), "{name} lacks {missing:?}");
        assert!(!ours.iter().any(|symbol| symbol.contains("rust")), "{name} has more than the maps say");
    }
}

/// dlopen and dlvsym find them. The two libraries have one device, and the system's providers load beside them.
#[test]
fn symbols_are_found_by_their_version() {
    let Some(_folder) = Folder::link() else { return };
    if let Some(program) = Program::compile("dlopen") {
        program.assert_ok(&[]);
    }
}

/// Runs programs of the other form.
#[test]
fn programs_run_as_with_the_library_that_is_preloaded() {
    let Some(_folder) = Folder::link() else { return };
    for name in ["misuse", "transfer", "events", "fork"] {
        let Some(program) = Program::compile(name) else { return };
        program.assert_ok(&[]);
    }
}
