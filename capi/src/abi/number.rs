//! Numbers of the two headers.

pub(crate) const NODE_CA: i32 = 1;
pub(crate) const NODE_RNIC: i32 = 4;
pub(crate) const TRANSPORT_IB: i32 = 0;
pub(crate) const TRANSPORT_IWARP: i32 = 1;
pub(crate) const GID_TYPE_IB: u32 = 0;
pub(crate) const GID_TYPE_ROCE_V2: u32 = 2;

pub(crate) const DEVICE_SRQ_RESIZE: u32 = 1 << 13;
pub(crate) const DEVICE_MEM_WINDOW: u32 = 1 << 17;
/// Local Invalidate and Send with Invalidate.
pub(crate) const DEVICE_MEM_MGT_EXTENSIONS: u32 = 1 << 21;
pub(crate) const DEVICE_MEM_WINDOW_TYPE_2B: u32 = 1 << 24;
pub(crate) const ATOMIC_HCA: u32 = 1;
pub(crate) const ATOMIC_GLOB: u32 = 2;
pub(crate) const MTU_256: u32 = 1;
pub(crate) const MTU_4096: u32 = 5;
pub(crate) const PORT_ACTIVE: u32 = 4;
pub(crate) const LINK_LAYER_ETHERNET: u8 = 2;
pub(crate) const FORK_UNNEEDED: u32 = 2;

pub(crate) const ACCESS_KNOWN: u32 = 0xFF;
pub(crate) const ACCESS_ON_DEMAND: u32 = 1 << 6;
pub(crate) const ACCESS_HUGETLB: u32 = 1 << 7;
/// Flags that a device may ignore.
pub(crate) const ACCESS_OPTIONAL_RANGE: u32 = 0x3FF0_0000;

pub(crate) const MW_TYPE_1: u32 = 1;
pub(crate) const MW_TYPE_2: u32 = 2;

pub(crate) const REREG_TRANSLATION: i32 = 1;
pub(crate) const REREG_PD: i32 = 2;
pub(crate) const REREG_ACCESS: i32 = 4;

pub(crate) const QPT_RC: u32 = 2;
pub(crate) const QPS_RESET: u32 = 0;
pub(crate) const QPS_INIT: u32 = 1;
pub(crate) const QPS_RTR: u32 = 2;
pub(crate) const QPS_RTS: u32 = 3;
pub(crate) const QPS_SQD: u32 = 4;
pub(crate) const QPS_ERR: u32 = 6;

pub(crate) const QP_STATE: u32 = 1;
pub(crate) const QP_CUR_STATE: u32 = 1 << 1;
pub(crate) const QP_ACCESS_FLAGS: u32 = 1 << 3;
pub(crate) const QP_PKEY_INDEX: u32 = 1 << 4;
pub(crate) const QP_PORT: u32 = 1 << 5;
pub(crate) const QP_QKEY: u32 = 1 << 6;
pub(crate) const QP_AV: u32 = 1 << 7;
pub(crate) const QP_PATH_MTU: u32 = 1 << 8;
pub(crate) const QP_TIMEOUT: u32 = 1 << 9;
pub(crate) const QP_RETRY_CNT: u32 = 1 << 10;
pub(crate) const QP_RNR_RETRY: u32 = 1 << 11;
pub(crate) const QP_RQ_PSN: u32 = 1 << 12;
pub(crate) const QP_MAX_QP_RD_ATOMIC: u32 = 1 << 13;
pub(crate) const QP_MIN_RNR_TIMER: u32 = 1 << 15;
pub(crate) const QP_SQ_PSN: u32 = 1 << 16;
pub(crate) const QP_MAX_DEST_RD_ATOMIC: u32 = 1 << 17;
pub(crate) const QP_CAP: u32 = 1 << 19;
pub(crate) const QP_DEST_QPN: u32 = 1 << 20;
pub(crate) const QP_RATE_LIMIT: u32 = 1 << 25;
/// Everything up to `IBV_QP_DEST_QPN`.
pub(crate) const QP_KNOWN: u32 = (1 << 21) - 1;

pub(crate) const QP_INIT_ATTR_PD: u32 = 1;
pub(crate) const QP_INIT_ATTR_CREATE_FLAGS: u32 = 1 << 2;
pub(crate) const QP_INIT_ATTR_SEND_OPS_FLAGS: u32 = 1 << 6;

pub(crate) const WITH_RDMA_WRITE: u64 = 1;
pub(crate) const WITH_RDMA_WRITE_IMM: u64 = 1 << 1;
pub(crate) const WITH_SEND: u64 = 1 << 2;
pub(crate) const WITH_RDMA_READ: u64 = 1 << 4;
pub(crate) const WITH_CMP_SWP: u64 = 1 << 5;
pub(crate) const WITH_FETCH_ADD: u64 = 1 << 6;
pub(crate) const WITH_LOCAL_INV: u64 = 1 << 7;
pub(crate) const WITH_BIND_MW: u64 = 1 << 8;
pub(crate) const WITH_SEND_INV: u64 = 1 << 9;
/// The operations of `ibv_qp_ex` that iWARP has.
pub(crate) const WITH_KNOWN: u64 = WITH_RDMA_WRITE
    | WITH_RDMA_WRITE_IMM
    | WITH_SEND
    | WITH_RDMA_READ
    | WITH_CMP_SWP
    | WITH_FETCH_ADD
    | WITH_LOCAL_INV
    | WITH_BIND_MW
    | WITH_SEND_INV;

pub(crate) const WR_RDMA_WRITE: u32 = 0;
pub(crate) const WR_RDMA_WRITE_WITH_IMM: u32 = 1;
pub(crate) const WR_SEND: u32 = 2;
pub(crate) const WR_RDMA_READ: u32 = 4;
pub(crate) const WR_ATOMIC_CMP_AND_SWP: u32 = 5;
pub(crate) const WR_ATOMIC_FETCH_AND_ADD: u32 = 6;
pub(crate) const WR_LOCAL_INV: u32 = 7;
pub(crate) const WR_BIND_MW: u32 = 8;
pub(crate) const WR_SEND_WITH_INV: u32 = 9;

pub(crate) const SEND_FENCE: u32 = 1;
pub(crate) const SEND_SIGNALED: u32 = 1 << 1;
pub(crate) const SEND_SOLICITED: u32 = 1 << 2;
pub(crate) const SEND_INLINE: u32 = 1 << 3;

pub(crate) const WC_RDMA_WRITE: u32 = 1;
pub(crate) const WC_RDMA_READ: u32 = 2;
pub(crate) const WC_COMP_SWAP: u32 = 3;
pub(crate) const WC_FETCH_ADD: u32 = 4;
pub(crate) const WC_BIND_MW: u32 = 5;
pub(crate) const WC_LOCAL_INV: u32 = 6;
pub(crate) const WC_RECV: u32 = 128;
pub(crate) const WC_RECV_RDMA_WITH_IMM: u32 = 129;
pub(crate) const WC_WITH_IMM: u32 = 1 << 1;
pub(crate) const WC_WITH_INV: u32 = 1 << 3;

pub(crate) const SRQ_MAX_WR: i32 = 1;
pub(crate) const SRQ_LIMIT: i32 = 2;
pub(crate) const SRQ_INIT_ATTR_TYPE: u32 = 1;
pub(crate) const SRQ_INIT_ATTR_PD: u32 = 2;
pub(crate) const SRQT_BASIC: u32 = 0;

pub(crate) const CQ_INIT_ATTR_FLAGS: u32 = 1;
pub(crate) const CQ_ATTR_SINGLE_THREADED: u32 = 1;
pub(crate) const CQ_ATTR_IGNORE_OVERRUN: u32 = 2;
/// The fields of a completion that iWARP has: the standard ones and the time.
pub(crate) const WC_EX_KNOWN: u64 = 0xFF;
pub(crate) const CQ_ATTR_MODERATE: u32 = 1;

pub(crate) const EVENT_CQ_ERR: u32 = 0;
pub(crate) const EVENT_QP_FATAL: u32 = 1;
pub(crate) const EVENT_QP_REQ_ERR: u32 = 2;
pub(crate) const EVENT_QP_ACCESS_ERR: u32 = 3;
pub(crate) const EVENT_COMM_EST: u32 = 4;
pub(crate) const EVENT_SQ_DRAINED: u32 = 5;
pub(crate) const EVENT_DEVICE_FATAL: u32 = 8;
pub(crate) const EVENT_PORT_ACTIVE: u32 = 9;
pub(crate) const EVENT_PORT_ERR: u32 = 10;
pub(crate) const EVENT_SRQ_ERR: u32 = 14;
pub(crate) const EVENT_SRQ_LIMIT_REACHED: u32 = 15;
pub(crate) const EVENT_QP_LAST_WQE_REACHED: u32 = 16;

pub(crate) const PS_TCP: u32 = 0x0106;
pub(crate) const PS_IB: u32 = 0x013F;
/// As a depth of Reads: as many as the device has.
pub(crate) const MAX_DEPTH: u8 = 0xFF;
pub(crate) const RAI_PASSIVE: i32 = 1;
pub(crate) const RAI_NUMERICHOST: i32 = 2;
pub(crate) const RAI_FAMILY: i32 = 8;
pub(crate) const OPTION_ID: i32 = 0;
pub(crate) const OPTION_ID_REUSEADDR: i32 = 1;
