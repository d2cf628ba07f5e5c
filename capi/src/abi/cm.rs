//! The structs of `rdma/rdma_cma.h`.

use core::ffi::{c_char, c_int, c_void};

use super::{CompChannel, Context, Cq, Pd, Qp, Srq};

/// `struct rdma_event_channel`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct EventChannel {
    pub(crate) fd: c_int,
}

/// `struct sockaddr_storage`.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(crate) struct Storage(pub(crate) [u8; 128]);

/// `struct rdma_cm_id`, whose `route` is laid out here.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct CmId {
    pub(crate) verbs: *mut Context,
    pub(crate) channel: *mut EventChannel,
    pub(crate) context: *mut c_void,
    pub(crate) qp: *mut Qp,
    pub(crate) src_addr: Storage,
    pub(crate) dst_addr: Storage,
    /// `struct rdma_ib_addr`. It means nothing on iWARP.
    pub(crate) ibaddr: [u64; 5],
    pub(crate) path_rec: *mut c_void,
    pub(crate) num_paths: c_int,
    pub(crate) route_end: u32,
    pub(crate) ps: u32,
    pub(crate) port_num: u8,
    pub(crate) event: *mut CmEvent,
    pub(crate) send_cq_channel: *mut CompChannel,
    pub(crate) send_cq: *mut Cq,
    pub(crate) recv_cq_channel: *mut CompChannel,
    pub(crate) recv_cq: *mut Cq,
    pub(crate) srq: *mut Srq,
    pub(crate) pd: *mut Pd,
    pub(crate) qp_type: u32,
}

/// `struct rdma_conn_param`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct ConnParam {
    pub(crate) private_data: *const c_void,
    pub(crate) private_data_len: u8,
    pub(crate) responder_resources: u8,
    pub(crate) initiator_depth: u8,
    pub(crate) flow_control: u8,
    pub(crate) retry_count: u8,
    pub(crate) rnr_retry_count: u8,
    pub(crate) srq: u8,
    pub(crate) qp_num: u32,
}

/// `struct rdma_cm_event`, whose union is as long as its member for datagrams.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct CmEvent {
    pub(crate) id: *mut CmId,
    pub(crate) listen_id: *mut CmId,
    pub(crate) event: u32,
    pub(crate) status: c_int,
    pub(crate) conn: ConnParam,
    pub(crate) ud_rest: [u64; 4],
}

/// `struct rdma_addrinfo`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct AddrInfo {
    pub(crate) ai_flags: c_int,
    pub(crate) ai_family: c_int,
    pub(crate) ai_qp_type: c_int,
    pub(crate) ai_port_space: c_int,
    pub(crate) ai_src_len: u32,
    pub(crate) ai_dst_len: u32,
    pub(crate) ai_src_addr: *mut libc::sockaddr,
    pub(crate) ai_dst_addr: *mut libc::sockaddr,
    pub(crate) ai_src_canonname: *mut c_char,
    pub(crate) ai_dst_canonname: *mut c_char,
    pub(crate) ai_route_len: usize,
    pub(crate) ai_route: *mut c_void,
    pub(crate) ai_connect_len: usize,
    pub(crate) ai_connect: *mut c_void,
    pub(crate) ai_next: *mut Self,
}
