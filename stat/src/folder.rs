//! The folder for the sockets of `weft stat`. Only its user can look into it.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::process::{Pid, geteuid, test_kill_process};

/// Returns the default folder in which processes of this user serve `weft stat`. That is `weft` in
/// `$XDG_RUNTIME_DIR`, or `/tmp/weft-UID` without that variable.
pub fn stat_folder() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|path| path.is_absolute());
    runtime.map_or_else(
        || PathBuf::from(format!("/tmp/weft-{}", geteuid().as_raw())),
        |runtime| runtime.join("weft"),
    )
}

/// Returns the folder that the environment variable `WEFT_STAT` names. Returns `None` if it is not set, empty or 0,
/// and [`stat_folder`] if it is 1.
pub fn stat_folder_from_env() -> Option<PathBuf> {
    let value = std::env::var_os("WEFT_STAT")?;
    match value.to_str() {
        Some("" | "0") => None,
        Some("1") => Some(stat_folder()),
        _ => Some(PathBuf::from(value)),
    }
}

/// Makes the folder for a [`Server`](crate::Server), or makes sure that no other user can reach into it.
///
/// # Errors
/// As of [`Server::start`](crate::Server::start), for the folder.
pub fn prepare_stat_folder(folder: &Path) -> io::Result<()> {
    prepare(folder).map_err(|error| tell(folder, &error))
}

/// The socket of one server. Its drop removes the file.
#[derive(Debug)]
pub(crate) struct Socket {
    path: PathBuf,
    index: u32,
}

impl Socket {
    /// Makes the folder if it is missing, and in it a socket named after this process.
    pub(crate) fn bind(folder: &Path) -> io::Result<(UnixListener, Self)> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        prepare_stat_folder(folder)?;
        remove_stale(folder).map_err(|error| tell(folder, &error))?;
        loop {
            let index = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = folder.join(format!("{}-{index}.sock", std::process::id()));
            match UnixListener::bind(&path) {
                Ok(listener) => return Ok((listener, Self { path, index })),
                // An ended process had the same number and has left its socket.
                Err(error) if error.kind() == ErrorKind::AddrInUse => {}
                Err(error) => return Err(tell(&path, &error)),
            }
        }
    }

    /// Returns the number of the server within the process.
    pub(crate) const fn index(&self) -> u32 {
        self.index
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // The file, perhaps with its folder, may be gone already, which is as good.
        let _gone = fs::remove_file(&self.path);
    }
}

fn tell(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("statistics cannot be served at {}: {error}", path.display()))
}

fn prepare(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        made => return made,
    }
    // A link is refused, since its owner could point it elsewhere.
    let found = fs::symlink_metadata(folder)?;
    if !found.is_dir() {
        return Err(io::Error::new(ErrorKind::NotADirectory, "the path is no folder"));
    }
    if found.uid() != geteuid().as_raw() || found.mode() & 0o077 != 0 {
        let text = "the folder must belong to this user, with mode 0700";
        return Err(io::Error::new(ErrorKind::PermissionDenied, text));
    }
    Ok(())
}

/// Removes the sockets of processes that are gone. A socket that answers is alive, whatever namespace its number is
/// from.
fn remove_stale(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_dead =
            path.file_name().and_then(process).is_some_and(|pid| test_kill_process(pid) == Err(Errno::SRCH));
        if is_dead
            && UnixStream::connect(&path).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
        {
            match fs::remove_file(&path) {
                // Another device may remove sockets at the same time.
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Returns the process in the name of a socket.
fn process(name: &OsStr) -> Option<Pid> {
    let (pid, index) = name.to_str()?.strip_suffix(".sock")?.split_once('-')?;
    index.parse::<u32>().ok()?;
    Pid::from_raw(pid.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("weft-stat-{}-{name}", std::process::id()));
        let _not_there = fs::remove_dir_all(&path);
        path
    }

    #[test]
    fn stale_sockets_go_and_living_ones_stay() {
        let folder = folder("stale");
        prepare(&folder).unwrap();
        // No process has this number: the kernel's largest is 4194304.
        let stale = folder.join("2000000000-0.sock");
        drop(UnixListener::bind(&stale).unwrap());
        let foreign = folder.join("2000000000-1.sock");
        let _answers = UnixListener::bind(&foreign).unwrap();
        let other = folder.join("notes");
        fs::write(&other, "kept").unwrap();
        let (_listener, socket) = Socket::bind(&folder).unwrap();
        assert!(!stale.exists() && foreign.exists() && other.exists() && socket.path.exists());
        let (_second, next) = Socket::bind(&folder).unwrap();
        assert!(socket.path.exists() && next.index > socket.index);
        let path = socket.path.clone();
        drop(socket);
        assert!(!path.exists() && next.path.exists());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_folder_that_others_reach_is_refused() {
        let folder = folder("open");
        fs::create_dir(&folder).unwrap();
        for mode in [0o755, 0o770, 0o701] {
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
            let error = Socket::bind(&folder).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
        }
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        drop(Socket::bind(&folder).unwrap());
        let link = folder.join("link");
        symlink(&folder, &link).unwrap();
        assert_eq!(Socket::bind(&link).unwrap_err().kind(), ErrorKind::NotADirectory);
        let missing = folder.join("a/b");
        assert_eq!(Socket::bind(&missing).unwrap_err().kind(), ErrorKind::NotFound);
        fs::remove_dir_all(&folder).unwrap();
    }
}
