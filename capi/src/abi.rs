//! The structs of `infiniband/verbs.h`, `rdma/rdma_cma.h` and their numbers, octet for octet.
//!
//! A C program reads and writes these directly, and its inline functions call what stands in their function pointers. Names are
//! C's without `ibv_` and `rdma_`; fields have C's names. The sizes are those of rdma-core 44, and `tests` compares every
//! field's offset with the headers that are installed. Structs of newer versions only grow at the end, or in front of
//! [`VerbsContext`], and tell their size when they do.

mod attribute;
mod cm;
mod number;
mod object;
#[cfg(test)]
mod tests;
mod work;

pub(crate) use attribute::*;
pub(crate) use cm::*;
pub(crate) use number::*;
pub(crate) use object::*;
pub(crate) use work::*;
