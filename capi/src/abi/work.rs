//! Work requests and completions.

use super::{Mr, Mw};

/// `struct ibv_sge`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Sge {
    pub(crate) addr: u64,
    pub(crate) length: u32,
    pub(crate) lkey: u32,
}

/// `struct ibv_data_buf`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct DataBuf {
    pub(crate) addr: *mut u8,
    pub(crate) length: usize,
}

/// `struct ibv_send_wr`. Its first union is `imm_data`, in network order. The second one, `wr`, has the fields of
/// `atomic`; `rdma` shares the first two, except for the rkey ([`Self::rdma_rkey`]).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct SendWr {
    pub(crate) wr_id: u64,
    pub(crate) next: *mut Self,
    pub(crate) sg_list: *mut Sge,
    pub(crate) num_sge: i32,
    pub(crate) opcode: u32,
    pub(crate) send_flags: u32,
    pub(crate) imm_data: u32,
    pub(crate) remote_addr: u64,
    pub(crate) compare_add: u64,
    pub(crate) swap: u64,
    pub(crate) atomic_rkey: u32,
    pub(crate) wr_end: u32,
    pub(crate) remote_srqn: u32,
    pub(crate) bind_mw: BindMw,
}

impl SendWr {
    /// `wr.rdma.rkey`, which lies where `wr.atomic.compare_add` begins.
    pub(crate) const fn rdma_rkey(&self) -> u32 {
        let [a, b, c, d, ..] = self.compare_add.to_ne_bytes();
        u32::from_ne_bytes([a, b, c, d])
    }
}

/// The member `bind_mw` of `struct ibv_send_wr`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct BindMw {
    pub(crate) mw: *mut Mw,
    pub(crate) rkey: u32,
    pub(crate) bind_info: MwBindInfo,
}

/// `struct ibv_mw_bind_info`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct MwBindInfo {
    pub(crate) mr: *mut Mr,
    pub(crate) addr: u64,
    pub(crate) length: u64,
    pub(crate) mw_access_flags: u32,
}

/// `struct ibv_mw_bind`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct MwBind {
    pub(crate) wr_id: u64,
    pub(crate) send_flags: u32,
    pub(crate) bind_info: MwBindInfo,
}

/// `struct ibv_recv_wr`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct RecvWr {
    pub(crate) wr_id: u64,
    pub(crate) next: *mut Self,
    pub(crate) sg_list: *mut Sge,
    pub(crate) num_sge: i32,
}

/// `struct ibv_wc`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Wc {
    pub(crate) wr_id: u64,
    pub(crate) status: u32,
    pub(crate) opcode: u32,
    pub(crate) vendor_err: u32,
    pub(crate) byte_len: u32,
    pub(crate) imm_data: u32,
    pub(crate) qp_num: u32,
    pub(crate) src_qp: u32,
    pub(crate) wc_flags: u32,
    pub(crate) pkey_index: u16,
    pub(crate) slid: u16,
    pub(crate) sl: u8,
    pub(crate) dlid_path_bits: u8,
}
