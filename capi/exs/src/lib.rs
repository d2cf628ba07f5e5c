//! The form of weft-capi for programs of Extended Sockets: `libexs.so.1`, with the functions of `exs.h` alone.
//!
//! rustc gives a cdylib a version script of its own, beside which another one has no effect. So this is a staticlib,
//! from which the script `link` has the C compiler make the library.

#![forbid(unsafe_code)]

// The C functions are exported because they are linked in.
extern crate weft_capi as _;
