//! The form of weft-capi that `weft run` preloads: libibverbs and librdmacm in one file, with one engine.
//!
//! Its symbols have no versions. It has a SONAME of its own, so that the system's libraries stay loaded for programs that use
//! their private parts.

#![forbid(unsafe_code)]

// The C functions are exported because they are linked in.
extern crate weft_capi as _;
