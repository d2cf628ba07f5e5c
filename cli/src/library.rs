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
        if self.build_folder() == Some("debug") { "" } else { " --release" }
    }

    /// Returns the name of the folder of this program if cargo has built it there.
    fn build_folder(&self) -> Option<&'static str> {
        let beside = self.0.first()?;
        ["debug", "release"].into_iter().find(|name| beside.ends_with(name))
    }

    /// Returns the path of a library.
    pub(crate) fn find(&self, library: &str, made_by: &str) -> Result<PathBuf, Failure> {
        let found = self.0.iter().map(|folder| folder.join(library)).find(|path| path.is_file());
        let path = found.ok_or_else(|| {
            let folders: Vec<_> = self.0.iter().map(|folder| folder.display().to_string()).collect();
            let folders = folders.join(" nor in ");
            let advice = self.advice(library, made_by);
            Failure::usage(format!("there is no {library} in {folders}: {advice}"))
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

    /// Says how the library comes into one of the folders.
    fn advice(&self, library: &str, made_by: &str) -> String {
        let other = self.build_folder().map(|name| if name == "debug" { "release" } else { "debug" });
        let other = other.and_then(|name| Some(self.0.first()?.parent()?.join(name)));
        match (other.filter(|folder| folder.join(library).is_file()), self.build_folder()) {
            (Some(folder), _) => {
                format!("{made_by} makes it; {} has one, for the weft beside it", folder.display())
            }
            (None, Some(_)) => format!("{made_by} makes it"),
            (None, None) => {
                format!("{made_by} makes it in target/release of Weft's sources; copy it into one of these")
            }
        }
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
        assert!(message(folder.join("debug")).ends_with("cargo build -p x makes it"));
        assert!(message(folder.join("release")).ends_with("cargo build --release -p x makes it"));
        // The folder of an installed program is not cargo's.
        assert!(message(folder.clone()).contains("cargo build --release -p x makes it in target/release"));
        let release = folder.join("release");
        std::fs::create_dir_all(&release).unwrap();
        std::fs::write(release.join("libx.so"), "").unwrap();
        let line = message(folder.join("debug"));
        assert!(line.ends_with(&format!("{} has one, for the weft beside it", release.display())), "{line}");
        std::fs::write(folder.join("libx.so"), "").unwrap();
        assert!(message(folder.clone()).contains("a space or a colon"));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
