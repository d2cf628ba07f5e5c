//! The libraries that the dynamic loader puts in front of a program's own: where they are, and how it is told.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::failure::Failure;

/// The folders where the libraries may be.
#[derive(Debug)]
pub(crate) struct Libraries(pub(crate) Vec<PathBuf>);

impl Libraries {
    /// Returns the folders beside this program: as cargo builds it, and as packages install it.
    pub(crate) fn new() -> Self {
        let program = std::env::current_exe().and_then(std::fs::canonicalize).unwrap_or_default();
        let Some(beside) = program.parent() else { return Self(Vec::new()) };
        let installed = beside.parent().map(|prefix| prefix.join("lib/weft"));
        Self([Some(beside.to_path_buf()), installed].into_iter().flatten().collect())
    }

    /// Returns `LD_PRELOAD` with a library in front of its present value. `package` is the crate that makes the library.
    pub(crate) fn preload(&self, library: &str, package: &str) -> Result<(&'static str, OsString), Failure> {
        let made_by = format!("cargo build{} -p {package}", self.release());
        let library = self.find(library, &made_by)?;
        Ok(("LD_PRELOAD", in_front("LD_PRELOAD", library.into_os_string())))
    }

    /// Returns cargo's option for the folder of this program, into which the library has to come.
    pub(crate) fn release(&self) -> &'static str {
        if self.0.first().is_some_and(|folder| folder.ends_with("release")) { " --release" } else { "" }
    }

    /// Returns the path of a library.
    pub(crate) fn find(&self, library: &str, made_by: &str) -> Result<PathBuf, Failure> {
        let found = self.0.iter().map(|folder| folder.join(library)).find(|path| path.is_file());
        let path = found.ok_or_else(|| {
            let folders: Vec<_> = self.0.iter().map(|folder| folder.display().to_string()).collect();
            let folders = folders.join(" nor in ");
            Failure::usage(format!("there is no {library} in {folders}: {made_by} makes it"))
        })?;
        // The dynamic loader takes both for separators, and reports no error.
        if path.as_os_str().as_encoded_bytes().iter().any(|octet| b" :".contains(octet)) {
            let path = path.display();
            return Err(Failure::usage(format!(
                "{path} cannot be loaded: there is a space or a colon in it"
            )));
        }
        Ok(path)
    }
}

/// Returns the value of a variable of the dynamic loader, with `first` in front of its present value.
pub(crate) fn in_front(variable: &str, mut first: OsString) -> OsString {
    if let Some(others) = std::env::var_os(variable).filter(|others| !others.is_empty()) {
        first.push(":");
        first.push(others);
    }
    first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_missing_or_cannot_be_preloaded_is_reported() {
        let folder = std::env::temp_dir().join(format!("weft library {}", std::process::id()));
        let message = |folder: PathBuf| match Libraries(vec![folder]).preload("libx.so", "x") {
            Err(Failure::Usage(line)) => line,
            other => panic!("{other:?}"),
        };
        assert!(message(folder.clone()).contains("cargo build -p x"));
        assert!(message(folder.join("release")).contains("cargo build --release -p x"));
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("libx.so"), "").unwrap();
        assert!(message(folder.clone()).contains("a space or a colon"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
