//! The call of C that a thread is in, and the place of the program that made it. Known while calls are traced.
#![allow(unsafe_code)]

use core::cell::Cell;
use core::ffi::{c_int, c_void};
use core::ptr::null;
use std::ffi::CStr;
use std::path::Path;

/// The origin of an object.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    call: &'static str,
    /// An address in the program, behind the call.
    site: usize,
}

impl Origin {
    /// Notes that this thread is in `call`, named by the type of a closure in it. Returns false inside of another call,
    /// which the program made.
    pub(crate) fn enter(call: &'static str) -> bool {
        let is_first = CALL.get().is_none();
        if is_first {
            CALL.set(Some(call));
        }
        is_first
    }

    /// Notes that this thread has left its call.
    pub(crate) fn leave() {
        CALL.set(None);
    }

    /// Returns the origin of an object that this thread makes now; None while calls are not traced.
    pub(crate) fn here() -> Option<Self> {
        CALL.get().map(|call| Self { call, site: site() })
    }
}

impl core::fmt::Display for Origin {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let call = called(self.call);
        match place(self.site) {
            Some((file, base)) => write!(f, "by {call}, for {file}+{:#x}", self.site - base),
            None => write!(f, "by {call}"),
        }
    }
}

/// Returns the name of a C function, from the type of a closure in it.
pub(crate) fn called(type_name: &str) -> String {
    let path = type_name.split("::{{closure}}").next().unwrap_or(type_name);
    let mut parts = path.rsplit("::");
    let name = parts.next().unwrap_or(path).trim_start_matches('_');
    let is_whole = ["ibv_", "rdma_"].iter().any(|family| name.starts_with(family));
    match parts.next() {
        _ if is_whole => name.to_owned(),
        Some("cq") if name.starts_with("read_") => format!("ibv_wc_{name}"),
        Some("post" | "cq" | "qp" | "qp_ex" | "context" | "memory" | "window" | "windows") => {
            format!("ibv_{name}")
        }
        _ => name.to_owned(),
    }
}

/// Returns the place in the program, or a library of its, from which this thread's call came; 0 if it is unknown.
fn site() -> usize {
    let mut frames = [null::<c_void>().cast_mut(); 48];
    // SAFETY: it stores at most as many addresses as there is room for.
    let count = unsafe { libc::backtrace(frames.as_mut_ptr(), FRAMES) };
    let Some((_, own)) = place(site as *const () as usize) else { return 0 };
    let frames = &frames[..usize::try_from(count).unwrap_or(0)];
    let outside = frames
        .iter()
        .map(|frame| frame.addr())
        .find(|&frame| place(frame).is_some_and(|(_, base)| base != own));
    outside.unwrap_or(0)
}

/// Returns the file of an address, and the address at which it is loaded.
fn place(address: usize) -> Option<(String, usize)> {
    let mut info = core::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: any address may be asked for, and the struct is this function's own; of zeros it is a value.
    let info = unsafe {
        if libc::dladdr(core::ptr::without_provenance(address), info.as_mut_ptr()) == 0 {
            return None;
        }
        info.assume_init()
    };
    // SAFETY: a name that the loader keeps as long as the file is loaded, which a caller's is.
    let file = (!info.dli_fname.is_null()).then(|| unsafe { CStr::from_ptr(info.dli_fname) })?;
    let file = file.to_string_lossy();
    let name = Path::new(&*file).file_name().map_or_else(|| file.clone(), |name| name.to_string_lossy());
    Some((name.into_owned(), info.dli_fbase.addr()))
}

thread_local! {
    static CALL: Cell<Option<&'static str>> = const { Cell::new(None) };
}
const FRAMES: c_int = 48;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_have_their_names_in_c() {
        for (inside, name) in [
            ("weft_capi::c::memory::ibv_alloc_pd::{{closure}}", "ibv_alloc_pd"),
            ("weft_capi::c::post::poll_cq::{{closure}}::{{closure}}", "ibv_poll_cq"),
            ("weft_capi::c::cq::read_opcode::{{closure}}", "ibv_wc_read_opcode"),
            ("weft_capi::c::context::_ibv_query_gid_ex::{{closure}}", "ibv_query_gid_ex"),
            ("weft_capi::c::rsocket::rconnect::{{closure}}", "rconnect"),
        ] {
            assert_eq!(called(inside), name);
        }
    }

    #[test]
    fn an_address_has_a_place() {
        let (_, base) = place(an_address_has_a_place as *const () as usize).unwrap();
        assert!(base != 0 && place(1).is_none());
    }
}
