//! The form of weft-capi for `LD_LIBRARY_PATH`: `libibverbs.so.1` and `librdmacm.so.1` in place of the system's, with
//! rdma-core's versions of symbols.
//!
//! rustc gives a cdylib a version script of its own, beside which another one has no effect. So this is a staticlib, from
//! which the script `link` has the C compiler make the libraries.

#![forbid(unsafe_code)]

// The C functions are exported because they are linked in.
extern crate weft_capi as _;
