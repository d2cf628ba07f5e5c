//! The form of weft-capi that `weft run` preloads: one file with libibverbs and librdmacm, one engine, symbols without versions, and a
//! SONAME of its own, so that the libraries of the system stay loaded for those who use their private parts.

#![forbid(unsafe_code)]

// The C functions are exported because they are linked in.
extern crate weft_capi as _;
