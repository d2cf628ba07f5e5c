//! Functions of the two libraries that mean nothing on iWARP, or are not offered. Each refuses in the way of its
//! family. Without them the system's libraries would get our handles.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_void};

use rustix::io::Errno;

use super::trace::args;

/// Functions that return the number of an error.
macro_rules! statuses {
    ($($name:ident($($argument:ty),*);)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name($(_: $argument),*) -> c_int {
            args![].status(|| Err(Errno::OPNOTSUPP))
        })*
    };
}

/// Functions that return -1 and `errno`.
macro_rules! minus_ones {
    ($($name:ident($($argument:ty),*);)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name($(_: $argument),*) -> c_int {
            args![].number(|| Err(Errno::OPNOTSUPP))
        })*
    };
}

/// Functions that return null and `errno`.
macro_rules! nulls {
    ($($name:ident($($argument:ty),*);)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name($(_: $argument),*) -> *mut c_void {
            args![].pointer(|| Err(Errno::OPNOTSUPP))
        })*
    };
}

/// Functions that return nothing, for objects that no program can have.
macro_rules! nothings {
    ($($name:ident($($argument:ty),*);)*) => {
        $(#[unsafe(no_mangle)]
        extern "C" fn $name($(_: $argument),*) {})*
    };
}

type Pointer = *mut c_void;

// Address handles and multicast need datagrams. ECE is part of InfiniBand's handshake.
statuses! {
    ibv_destroy_ah(Pointer);
    ibv_attach_mcast(Pointer, Pointer, u16);
    ibv_detach_mcast(Pointer, Pointer, u16);
    ibv_query_ece(Pointer, Pointer);
    ibv_set_ece(Pointer, Pointer);
}

minus_ones! {
    ibv_init_ah_from_wc(Pointer, u8, Pointer, Pointer, Pointer);
    ibv_resolve_eth_l2_from_gid(Pointer, Pointer, Pointer, Pointer);
    rdma_join_multicast(Pointer, Pointer, Pointer);
    rdma_join_multicast_ex(Pointer, Pointer, Pointer);
    rdma_leave_multicast(Pointer, Pointer);
    rdma_reject_ece(Pointer, Pointer, u8);
    rdma_set_local_ece(Pointer, Pointer);
    rdma_get_remote_ece(Pointer, Pointer);
}

/// No memory is pinned, so that a fork may share any.
#[unsafe(no_mangle)]
extern "C" fn ibv_dontfork_range(_base: Pointer, _size: usize) -> c_int {
    0
}

#[unsafe(no_mangle)]
extern "C" fn ibv_dofork_range(_base: Pointer, _size: usize) -> c_int {
    0
}

// Descriptors of the kernel, device memory, and memory of other devices.
nulls! {
    ibv_create_ah(Pointer, Pointer);
    ibv_create_ah_from_wc(Pointer, Pointer, Pointer, u8);
    ibv_import_device(c_int);
    ibv_import_pd(Pointer, u32);
    ibv_import_mr(Pointer, u32);
    ibv_import_dm(Pointer, u32);
    ibv_reg_dmabuf_mr(Pointer, u64, usize, u64, c_int, c_int);
}

// Copies between the kernel's structs and librdmacm's. No program has a struct of the kernel here.
nothings! {
    ibv_copy_ah_attr_from_kern(Pointer, Pointer);
    ibv_copy_path_rec_from_kern(Pointer, Pointer);
    ibv_copy_path_rec_to_kern(Pointer, Pointer);
    ibv_copy_qp_attr_from_kern(Pointer, Pointer);
}

nothings! {
    ibv_unimport_pd(Pointer);
    ibv_unimport_mr(Pointer);
    ibv_unimport_dm(Pointer);
}
