//! What keeps the library out of a program.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::process::{getegid, geteuid};

/// Returns why the dynamic loader will not load the library into a program, in one line, or `None` if nothing is known
/// that keeps it out. A script is judged by its interpreter.
pub(super) fn obstacle(program: &OsStr) -> Option<String> {
    let path = find(program)?;
    judge(&path, SCRIPTS)
}

fn judge(path: &Path, scripts: u32) -> Option<String> {
    let file = File::open(path).ok()?;
    let mut start = [0; START];
    let len = read(&file, &mut start, 0)?;
    let start = &start[..len];
    if let Some(line) = start.strip_prefix(b"#!") {
        let line = line.split(|octet| *octet == b'\n').next()?.trim_ascii();
        let interpreter = line.split(u8::is_ascii_whitespace).next()?;
        return judge(Path::new(OsStr::from_bytes(interpreter)), scripts.checked_sub(1)?);
    }
    let kind = if is_secure(path, &file.metadata().ok()?) {
        Some("takes rights of another user from its file")
    } else {
        image(&file, start)
    };
    kind.map(|kind| format!("{} {kind}: it stays on TCP", path.display()))
}

/// Returns true if the loader ignores `LD_PRELOAD`, since the file gives the program other rights.
fn is_secure(path: &Path, metadata: &Metadata) -> bool {
    let mode = metadata.permissions().mode();
    let has_capabilities = || {
        !geteuid().is_root() && rustix::fs::getxattr(path, "security.capability", &mut [0; 64][..]).is_ok()
    };
    mode & 0o4000 != 0 && metadata.uid() != geteuid().as_raw()
        || mode & 0o2000 != 0 && metadata.gid() != getegid().as_raw()
        || has_capabilities()
}

/// Returns what is wrong with a program's ELF image.
fn image(file: &File, start: &[u8]) -> Option<&'static str> {
    if !start.starts_with(b"\x7fELF") {
        return None;
    }
    if start.get(4) != Some(&ELF_64) {
        return Some("is a 32-bit program");
    }
    let word = |at: usize| {
        start.get(at..at + 8).map(|octets| u64::from_le_bytes(octets.try_into().expect("8 octets")))
    };
    let half = |at: usize| start.get(at..at + 2).map(|octets| u16::from_le_bytes([octets[0], octets[1]]));
    let (at, size, number) = (word(32)?, half(54)?, half(56)?);
    for index in 0..number {
        let mut header = [0; 40];
        let place = at.checked_add(u64::from(index) * u64::from(size))?;
        read(file, &mut header, place).filter(|len| *len == header.len())?;
        if header[..4] == INTERPRETER {
            let mut name = [0; 256];
            let place = u64::from_le_bytes(header[8..16].try_into().expect("8 octets"));
            let len = read(file, &mut name, place)?;
            let name = name[..len].split(|octet| *octet == 0).next()?;
            let is_musl = name.windows(4).any(|word| word == b"musl");
            return is_musl.then_some("is built for the C library musl");
        }
    }
    Some("is statically linked")
}

/// Reads up to the end of the buffer or of the file.
fn read(file: &File, buffer: &mut [u8], at: u64) -> Option<usize> {
    let mut len = 0;
    while len < buffer.len() {
        match file.read_at(&mut buffer[len..], at.checked_add(len as u64)?) {
            Ok(0) => break,
            Ok(more) => len += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    Some(len)
}

/// Returns the file that exec will find.
fn find(program: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(program.into());
    }
    let is_executable = |path: &PathBuf| {
        path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(program)).find(is_executable)
}

/// Octets that hold an ELF header, or the first line of a script.
const START: usize = 256;
/// Scripts whose interpreters are scripts. The kernel allows as many.
const SCRIPTS: u32 = 4;
const ELF_64: u8 = 2;
/// `PT_INTERP`
const INTERPRETER: [u8; 4] = [3, 0, 0, 0];

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF header with one program header of this kind, whose segment is `text`.
    fn elf(class: u8, kind: u8, text: &str) -> Vec<u8> {
        let mut image = vec![0; 64 + 56];
        image[..4].copy_from_slice(b"\x7fELF");
        image[4] = class;
        (image[32], image[54], image[56]) = (64, 56, 1);
        (image[64], image[64 + 8]) = (kind, 120);
        image.extend(text.as_bytes());
        image
    }

    #[test]
    fn programs_that_cannot_be_hooked_are_named() {
        let folder = std::env::temp_dir().join(format!("weft-program-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let path = folder.join("x");
        let said = |octets: &[u8]| {
            std::fs::write(&path, octets).unwrap();
            obstacle(path.as_os_str()).map(|line| line.replace(&format!("{} ", path.display()), ""))
        };
        assert_eq!(said(&elf(2, 3, "/lib64/ld-linux-x86-64.so.2\0")), None);
        assert_eq!(said(&elf(2, 1, "")), Some("is statically linked: it stays on TCP".into()));
        assert_eq!(
            said(&elf(1, 3, "/lib/ld-linux.so.2\0")),
            Some("is a 32-bit program: it stays on TCP".into())
        );
        let musl = said(&elf(2, 3, "/lib/ld-musl-x86_64.so.1\0")).unwrap();
        assert!(musl.contains("musl"), "{musl}");
        // What is no program at all is for exec to refuse.
        assert_eq!(said(b"\x7fELF"), Some("is a 32-bit program: it stays on TCP".into()));
        assert_eq!((said(b""), said(b"#!"), said(&elf(2, 3, "")[..60])), (None, None, None));
        let other = folder.join("y");
        std::fs::write(&other, elf(2, 1, "")).unwrap();
        let script = format!("#! {} -x\n", other.display());
        assert_eq!(
            said(script.as_bytes()),
            Some(format!("{} is statically linked: it stays on TCP", other.display()))
        );
        let itself = format!("#!{}\n", path.display());
        assert_eq!(said(itself.as_bytes()), None, "a script that interprets itself");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn a_program_is_found_by_the_search_path() {
        assert!(find("sh".as_ref()).is_some_and(|path| path.is_absolute()));
        assert_eq!(obstacle("sh".as_ref()), None);
        assert_eq!(obstacle("no-such-program-anywhere".as_ref()), None);
    }
}
