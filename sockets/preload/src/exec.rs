//! Where the program that replaces this one is found.

use core::ffi::CStr;

/// The paths that `execvp` tries, one after the other. Nothing is allocated: a child of vfork may search.
#[derive(Debug)]
pub(crate) struct Search<'a> {
    name: &'a CStr,
    /// What is left of `PATH`. `None` behind its end.
    folders: Option<&'a [u8]>,
    path: [u8; LONGEST],
    result: isize,
    is_denied: bool,
}

impl<'a> Search<'a> {
    /// Begins to search for a program in the folders of `PATH`. A name with a slash is the path itself.
    pub(crate) fn new(name: &'a CStr, folders: Option<&'a CStr>) -> Self {
        let folders = folders.map_or(&b"/bin:/usr/bin"[..], CStr::to_bytes);
        let is_empty = name.is_empty();
        Self {
            name,
            folders: (!is_empty).then_some(folders),
            path: [0; LONGEST],
            result: -(libc::ENOENT as isize),
            is_denied: false,
        }
    }

    /// Returns the next path to be tried.
    pub(crate) fn next_path(&mut self) -> Option<&CStr> {
        if self.name.to_bytes().contains(&b'/') {
            return self.folders.take().map(|_| self.name);
        }
        let len = loop {
            let folders = self.folders?;
            let folder = folders.split(|octet| *octet == b':').next().unwrap_or_default();
            self.folders = folders.get(folder.len() + 1..);
            if let Some(len) = join(&mut self.path, folder, self.name) {
                break len;
            }
        };
        CStr::from_bytes_with_nul(self.path.get(..len)?).ok()
    }

    /// The kernel did not execute the path. Goes on to the next one, unless the reason would be the same there.
    pub(crate) fn refused(&mut self, result: isize) {
        self.result = result;
        match i32::try_from(-result) {
            Ok(libc::EACCES) => self.is_denied = true,
            Ok(libc::ENOENT | libc::ESTALE | libc::ENOTDIR | libc::ENODEV | libc::ETIMEDOUT) => {}
            _ => {
                self.folders = None;
                self.is_denied = false;
            }
        }
    }

    /// Returns why no path was executed: the kernel's answer. A program that must not be executed counts most.
    pub(crate) const fn result(&self) -> isize {
        if self.is_denied { -(libc::EACCES as isize) } else { self.result }
    }
}

/// Joins a folder and a name, with a zero behind them. Returns how many octets that are, or `None` if they are too many.
fn join(path: &mut [u8; LONGEST], folder: &[u8], name: &CStr) -> Option<usize> {
    let slash: &[u8] = if folder.is_empty() { b"" } else { b"/" };
    let mut len = 0;
    for part in [folder, slash, name.to_bytes_with_nul()] {
        path.get_mut(len..len + part.len())?.copy_from_slice(part);
        len += part.len();
    }
    Some(len)
}

/// `PATH_MAX`
const LONGEST: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    /// The paths of a search in which the kernel answers with these errors.
    fn tried(name: &CStr, folders: Option<&CStr>, errors: &[i32]) -> (Vec<String>, isize) {
        let mut search = Search::new(name, folders);
        let mut paths = Vec::new();
        while let Some(path) = search.next_path() {
            paths.push(path.to_string_lossy().into_owned());
            let error = errors.get(paths.len() - 1).copied().unwrap_or(libc::ENOENT);
            search.refused(-(error as isize));
        }
        (paths, search.result())
    }

    #[test]
    fn each_folder_is_searched_in_order() {
        let expected = ["/a/sh", "sh", "/b/c/sh", "sh"].map(String::from).to_vec();
        assert_eq!(tried(c"sh", Some(c"/a::/b/c:"), &[]), (expected, -(libc::ENOENT as isize)));
        assert_eq!(tried(c"sh", None, &[]).0, ["/bin/sh", "/usr/bin/sh"]);
        let long = std::ffi::CString::new(format!("{}:/a", "x".repeat(LONGEST))).expect("a text");
        assert_eq!(tried(c"sh", Some(&long), &[]).0, ["/a/sh"]);
    }

    #[test]
    fn a_path_is_tried_as_it_is() {
        assert_eq!(
            tried(c"./sh", Some(c"/a:/b"), &[libc::EACCES]),
            (vec!["./sh".into()], -(libc::EACCES as isize))
        );
        assert_eq!(tried(c"", Some(c"/a"), &[]), (Vec::new(), -(libc::ENOENT as isize)));
    }

    #[test]
    fn a_denied_program_is_told_and_other_errors_end_the_search() {
        let folders = Some(c"/a:/b:/c");
        let (paths, result) = tried(c"sh", folders, &[libc::ENOTDIR, libc::EACCES, libc::ENOENT]);
        assert_eq!((paths.len(), result), (3, -(libc::EACCES as isize)));
        let (paths, result) = tried(c"sh", folders, &[libc::EACCES, libc::E2BIG]);
        assert_eq!((paths.len(), result), (2, -(libc::E2BIG as isize)));
    }
}
