//! Descriptors come and go.
#![allow(unsafe_code)]

use core::ffi::c_int;

use crate::boundary::answer_int;
use crate::real::point;
use crate::table::{self, Entry};

hooks! {
    fn close(descriptor: c_int) -> c_int {
        table::replace(descriptor, Entry::Unknown);
        // SAFETY: the program's own call.
        answer_int(unsafe { point!(SYS_close, descriptor) })
    }
}
