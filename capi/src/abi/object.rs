//! Objects to which a program holds pointers.

use core::ffi::{c_char, c_int, c_void};

use super::{
    CqInitAttrEx, DeviceAttrEx, ModifyCqAttr, MwBind, MwBindInfo, PortAttr, QpInitAttrEx, RecvWr, SendWr,
    Sge, Wc, work::DataBuf,
};

/// A place for a function that this library lacks. C checks it for null, or never reads it.
pub(crate) type Slot = Option<unsafe extern "C" fn()>;

/// `struct ibv_device`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Device {
    pub(crate) ops: [Slot; 2],
    pub(crate) node_type: i32,
    pub(crate) transport_type: i32,
    pub(crate) name: [c_char; 64],
    pub(crate) dev_name: [c_char; 64],
    pub(crate) dev_path: [c_char; 256],
    pub(crate) ibdev_path: [c_char; 256],
}

/// `struct ibv_context_ops`: the functions that inline functions call. The others are exported symbols.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct ContextOps {
    pub(crate) compat_a: [Slot; 7],
    pub(crate) alloc_mw: Option<unsafe extern "C" fn(*mut Pd, u32) -> *mut Mw>,
    pub(crate) bind_mw: Option<unsafe extern "C" fn(*mut Qp, *mut Mw, *mut MwBind) -> c_int>,
    pub(crate) dealloc_mw: Option<unsafe extern "C" fn(*mut Mw) -> c_int>,
    pub(crate) compat_create_cq: Slot,
    pub(crate) poll_cq: Option<unsafe extern "C" fn(*mut Cq, c_int, *mut Wc) -> c_int>,
    pub(crate) req_notify_cq: Option<unsafe extern "C" fn(*mut Cq, c_int) -> c_int>,
    pub(crate) compat_b: [Slot; 7],
    pub(crate) post_srq_recv: Option<unsafe extern "C" fn(*mut Srq, *mut RecvWr, *mut *mut RecvWr) -> c_int>,
    pub(crate) compat_c: [Slot; 4],
    pub(crate) post_send: Option<unsafe extern "C" fn(*mut Qp, *mut SendWr, *mut *mut SendWr) -> c_int>,
    pub(crate) post_recv: Option<unsafe extern "C" fn(*mut Qp, *mut RecvWr, *mut *mut RecvWr) -> c_int>,
    pub(crate) compat_d: [Slot; 5],
}

/// `struct ibv_context`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Context {
    pub(crate) device: *mut Device,
    pub(crate) ops: ContextOps,
    pub(crate) cmd_fd: c_int,
    pub(crate) async_fd: c_int,
    pub(crate) num_comp_vectors: c_int,
    pub(crate) mutex: libc::pthread_mutex_t,
    pub(crate) abi_compat: usize,
}

/// `struct verbs_context` of rdma-core 44. The program's `struct ibv_context` lies at its end. For a null pointer the
/// headers' inline functions answer EOPNOTSUPP.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct VerbsContext {
    pub(crate) query_port: Option<unsafe extern "C" fn(*mut Context, u8, *mut PortAttr, usize) -> c_int>,
    /// `advise_mr` to `dealloc_td` and `alloc_td`.
    pub(crate) unsupported_a: [Slot; 16],
    pub(crate) modify_cq: Option<unsafe extern "C" fn(*mut Cq, *mut ModifyCqAttr) -> c_int>,
    /// `post_srq_ops` to `query_rt_values`.
    pub(crate) unsupported_b: [Slot; 7],
    pub(crate) create_cq_ex: Option<unsafe extern "C" fn(*mut Context, *mut CqInitAttrEx) -> *mut CqEx>,
    pub(crate) priv_: *mut c_void,
    pub(crate) query_device_ex:
        Option<unsafe extern "C" fn(*mut Context, *const c_void, *mut DeviceAttrEx, usize) -> c_int>,
    /// `ibv_destroy_flow` to `open_qp`.
    pub(crate) unsupported_c: [Slot; 5],
    pub(crate) create_qp_ex: Option<unsafe extern "C" fn(*mut Context, *mut QpInitAttrEx) -> *mut Qp>,
    /// `get_srq_num` to `close_xrcd`.
    pub(crate) unsupported_d: [Slot; 4],
    pub(crate) placeholder: u64,
    pub(crate) sz: usize,
    pub(crate) context: Context,
}

/// `struct ibv_pd`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Pd {
    pub(crate) context: *mut Context,
    pub(crate) handle: u32,
}

/// `struct ibv_mr`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Mr {
    pub(crate) context: *mut Context,
    pub(crate) pd: *mut Pd,
    pub(crate) addr: *mut c_void,
    pub(crate) length: usize,
    pub(crate) handle: u32,
    pub(crate) lkey: u32,
    pub(crate) rkey: u32,
}

/// `struct ibv_mw`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct Mw {
    pub(crate) context: *mut Context,
    pub(crate) pd: *mut Pd,
    pub(crate) rkey: u32,
    pub(crate) handle: u32,
    pub(crate) kind: u32,
}

/// `struct ibv_comp_channel`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct CompChannel {
    pub(crate) context: *mut Context,
    pub(crate) fd: c_int,
    pub(crate) refcnt: c_int,
}

/// `struct ibv_cq`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Cq {
    pub(crate) context: *mut Context,
    pub(crate) channel: *mut CompChannel,
    pub(crate) cq_context: *mut c_void,
    pub(crate) handle: u32,
    pub(crate) cqe: c_int,
    pub(crate) mutex: libc::pthread_mutex_t,
    pub(crate) cond: libc::pthread_cond_t,
    pub(crate) comp_events_completed: u32,
    pub(crate) async_events_completed: u32,
}

/// `struct ibv_cq_ex`. It begins like [`Cq`].
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct CqEx {
    pub(crate) base: Cq,
    pub(crate) comp_mask: u32,
    pub(crate) status: u32,
    pub(crate) wr_id: u64,
    pub(crate) start_poll: Option<unsafe extern "C" fn(*mut Self, *mut u32) -> c_int>,
    pub(crate) next_poll: Option<unsafe extern "C" fn(*mut Self) -> c_int>,
    pub(crate) end_poll: Option<unsafe extern "C" fn(*mut Self)>,
    pub(crate) read_opcode: Option<unsafe extern "C" fn(*mut Self) -> u32>,
    pub(crate) read_vendor_err: Option<unsafe extern "C" fn(*mut Self) -> u32>,
    pub(crate) read_byte_len: Option<unsafe extern "C" fn(*mut Self) -> u32>,
    pub(crate) read_imm_data: Option<unsafe extern "C" fn(*mut Self) -> u32>,
    pub(crate) read_qp_num: Option<unsafe extern "C" fn(*mut Self) -> u32>,
    pub(crate) read_src_qp: Option<unsafe extern "C" fn(*mut Self) -> u32>,
    pub(crate) read_wc_flags: Option<unsafe extern "C" fn(*mut Self) -> u32>,
    pub(crate) read_slid: Option<unsafe extern "C" fn(*mut Self) -> u32>,
    pub(crate) read_sl: Option<unsafe extern "C" fn(*mut Self) -> u8>,
    pub(crate) read_dlid_path_bits: Option<unsafe extern "C" fn(*mut Self) -> u8>,
    pub(crate) read_completion_ts: Option<unsafe extern "C" fn(*mut Self) -> u64>,
    /// `read_cvlan` to `read_completion_wallclock_ns`. No queue can be made with them.
    pub(crate) unsupported: [Slot; 4],
}

/// `struct ibv_srq`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Srq {
    pub(crate) context: *mut Context,
    pub(crate) srq_context: *mut c_void,
    pub(crate) pd: *mut Pd,
    pub(crate) handle: u32,
    pub(crate) mutex: libc::pthread_mutex_t,
    pub(crate) cond: libc::pthread_cond_t,
    pub(crate) events_completed: u32,
}

/// `struct ibv_qp`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Qp {
    pub(crate) context: *mut Context,
    pub(crate) qp_context: *mut c_void,
    pub(crate) pd: *mut Pd,
    pub(crate) send_cq: *mut Cq,
    pub(crate) recv_cq: *mut Cq,
    pub(crate) srq: *mut Srq,
    pub(crate) handle: u32,
    pub(crate) qp_num: u32,
    pub(crate) state: u32,
    pub(crate) qp_type: u32,
    pub(crate) mutex: libc::pthread_mutex_t,
    pub(crate) cond: libc::pthread_cond_t,
    pub(crate) events_completed: u32,
}

/// `struct ibv_qp_ex`. It begins like [`Qp`].
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct QpEx {
    pub(crate) base: Qp,
    pub(crate) comp_mask: u64,
    pub(crate) wr_id: u64,
    pub(crate) wr_flags: u32,
    pub(crate) wr_atomic_cmp_swp: Option<unsafe extern "C" fn(*mut Self, u32, u64, u64, u64)>,
    pub(crate) wr_atomic_fetch_add: Option<unsafe extern "C" fn(*mut Self, u32, u64, u64)>,
    pub(crate) wr_bind_mw: Option<unsafe extern "C" fn(*mut Self, *mut Mw, u32, *const MwBindInfo)>,
    pub(crate) wr_local_inv: Option<unsafe extern "C" fn(*mut Self, u32)>,
    pub(crate) wr_rdma_read: Option<unsafe extern "C" fn(*mut Self, u32, u64)>,
    pub(crate) wr_rdma_write: Option<unsafe extern "C" fn(*mut Self, u32, u64)>,
    pub(crate) wr_rdma_write_imm: Option<unsafe extern "C" fn(*mut Self, u32, u64, u32)>,
    pub(crate) wr_send: Option<unsafe extern "C" fn(*mut Self)>,
    pub(crate) wr_send_imm: Option<unsafe extern "C" fn(*mut Self, u32)>,
    pub(crate) wr_send_inv: Option<unsafe extern "C" fn(*mut Self, u32)>,
    /// `wr_send_tso`, `wr_set_ud_addr` and `wr_set_xrc_srqn`.
    pub(crate) unsupported: [Slot; 3],
    pub(crate) wr_set_inline_data: Option<unsafe extern "C" fn(*mut Self, *mut c_void, usize)>,
    pub(crate) wr_set_inline_data_list: Option<unsafe extern "C" fn(*mut Self, usize, *const DataBuf)>,
    pub(crate) wr_set_sge: Option<unsafe extern "C" fn(*mut Self, u32, u64, u32)>,
    pub(crate) wr_set_sge_list: Option<unsafe extern "C" fn(*mut Self, usize, *const Sge)>,
    pub(crate) wr_start: Option<unsafe extern "C" fn(*mut Self)>,
    pub(crate) wr_complete: Option<unsafe extern "C" fn(*mut Self) -> c_int>,
    pub(crate) wr_abort: Option<unsafe extern "C" fn(*mut Self)>,
    pub(crate) wr_atomic_write: Slot,
}
