//! The structs of `infiniband/verbs.h` and `rdma/rdma_cma.h` and their numbers, octet for octet.
//!
//! A C program reads and writes these directly, and its inline functions call their function pointers. Names are C's
//! without `ibv_` and `rdma_`; fields have C's names. The sizes are those of rdma-core 44, and `tests` compares the
//! offset of every field with the installed headers. Structs of newer versions only grow at the end, or in front of
//! [`VerbsContext`], and then tell their size.

mod attribute;
mod cm;
mod exs;
mod number;
mod object;
#[cfg(test)]
mod tests;
mod work;

pub(crate) use attribute::*;
pub(crate) use cm::*;
pub(crate) use exs::*;
pub(crate) use number::*;
pub(crate) use object::*;
pub(crate) use work::*;
