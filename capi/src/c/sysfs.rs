//! Reads files below the path of a device. The library answers the device's own files; all others are read.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_int};
use std::ffi::{CString, OsStr};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::OnceLock;

use rustix::io::Errno;

use super::boundary::{Outcome, string};
use super::fork::process;
use super::trace::args;
use crate::gid::Gids;
use crate::personality::Personality;
use crate::sysfs;

#[unsafe(no_mangle)]
extern "C" fn ibv_get_sysfs_path() -> *const c_char {
    static ROOT: OnceLock<CString> = OnceLock::new();
    args![].always(c"/sys".as_ptr(), || {
        let root = ROOT.get_or_init(|| {
            let wanted = std::env::var_os("SYSFS_PATH").filter(|path| !path.is_empty());
            let root = wanted.unwrap_or_else(|| sysfs::root().into());
            // A variable contains no 0.
            CString::new(root.as_bytes()).unwrap_or_default()
        });
        root.as_ptr()
    })
}

/// Returns the length of the stored text, without the newline at the end, or -1.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_read_sysfs_file(
    folder: *const c_char,
    file: *const c_char,
    buffer: *mut c_char,
    size: usize,
) -> c_int {
    args![folder, file, buffer, size].number(|| {
        // SAFETY: strings of the program's.
        let [folder, file] = unsafe { [string(folder), string(file)] };
        let (Some(folder), Some(file)) = (folder, file) else { return Err(Errno::INVAL) };
        let text = content(folder, file)?;
        let text = text.strip_suffix(b"\n").unwrap_or(&text);
        if buffer.is_null() || size == 0 {
            return Err(Errno::INVAL);
        }
        let len = text.len().min(size - 1);
        // SAFETY: the program's buffer, of which it says how long it is.
        unsafe {
            buffer.copy_from_nonoverlapping(text.as_ptr().cast(), len);
            buffer.add(len).write(0);
        }
        c_int::try_from(len).map_err(|_| Errno::OVERFLOW)
    })
}

fn content(folder: &CStr, file: &CStr) -> Outcome<Vec<u8>> {
    let [folder, file] = [folder, file].map(|part| Path::new(OsStr::from_bytes(part.to_bytes())));
    let path = folder.join(file);
    let content = sysfs::content(&path, gids).map(|content| content.map(String::into_bytes));
    let content = content.unwrap_or_else(|| std::fs::read(&path));
    content.map_err(|error| match error.kind() {
        ErrorKind::NotFound => Errno::NOENT,
        _ => error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error),
    })
}

/// Returns the GIDs. In the second personality opening the device finds them.
fn gids() -> Gids {
    match Personality::of_process() {
        Personality::Iwarp => Gids::iwarp(),
        Personality::Roce => process().gids().cloned().unwrap_or_default(),
    }
}
