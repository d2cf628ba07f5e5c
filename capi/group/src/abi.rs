//! The structs and numbers of `weft_group.h`. In each struct a field of 0 stands for what older programs have.

use core::ffi::{c_char, c_void};

use weft_group::MAX_REPLICAS;

/// `struct weft_group`: a name that C sees as an address. Nothing is there.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Group {
    _nothing: [u8; 0],
}

/// `struct weft_group_options`
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Options {
    pub(crate) struct_size: u64,
    pub(crate) members: *const c_char,
    pub(crate) topology: u64,
    pub(crate) window: u64,
    pub(crate) piece: u64,
    pub(crate) timeout_ms: u64,
    pub(crate) key_file: *const c_char,
    pub(crate) register_name: *const c_char,
    pub(crate) range_at: u64,
    pub(crate) range_len: u64,
    pub(crate) durability: u64,
}

/// `struct weft_group_terms`
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Terms {
    pub(crate) struct_size: u64,
    pub(crate) replicas: u64,
    pub(crate) len: u64,
    pub(crate) window: u64,
    pub(crate) piece: u64,
    pub(crate) epoch: u64,
}

/// `struct weft_group_op`
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Op {
    pub(crate) struct_size: u64,
    pub(crate) id: u64,
    pub(crate) parts: u64,
    pub(crate) write_at: u64,
    pub(crate) write_octets: *const c_void,
    pub(crate) write_len: u64,
    pub(crate) copy_from: u64,
    pub(crate) copy_to: u64,
    pub(crate) copy_len: u64,
    pub(crate) swap_at: u64,
    pub(crate) swap_compare: u64,
    pub(crate) swap_value: u64,
    pub(crate) swap_on: u64,
    pub(crate) flush_at: u64,
    pub(crate) flush_len: u64,
}

/// `struct weft_group_done`
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct Done {
    pub(crate) struct_size: u64,
    pub(crate) id: u64,
    pub(crate) originals: [u64; MAX_REPLICAS],
}

/// The first fields of each struct, without which it has no meaning.
pub(crate) const LEAST_OPTIONS: usize = core::mem::offset_of!(Options, topology);
pub(crate) const LEAST_TERMS: usize = core::mem::offset_of!(Terms, replicas);
pub(crate) const LEAST_OP: usize = core::mem::offset_of!(Op, write_at);
pub(crate) const LEAST_DONE: usize = core::mem::offset_of!(Done, originals);

pub(crate) const CHAIN: u64 = 0;
pub(crate) const FAN: u64 = 1;

pub(crate) const FILE: u64 = 0;
pub(crate) const VOLATILE: u64 = 1;

pub(crate) const WRITE: u64 = 1;
pub(crate) const COPY: u64 = 2;
pub(crate) const SWAP: u64 = 4;
pub(crate) const FLUSH: u64 = 8;

/// The execute map of all replicas.
pub(crate) const ALL: u64 = u64::MAX;

pub(crate) const CONFIRMED: i32 = 0;
pub(crate) const MAYBE: i32 = 1;
