//! Arguments for making objects, and attributes of objects.

use core::ffi::c_char;

use super::{CompChannel, Cq, Pd, Qp, Srq};

/// `union ibv_gid`.
pub(crate) type Gid = [u8; 16];

/// `struct ibv_gid_entry`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct GidEntry {
    /// Aligned to 8, as the union in C is.
    pub(crate) gid: [u64; 2],
    pub(crate) gid_index: u32,
    pub(crate) port_num: u32,
    pub(crate) gid_type: u32,
    pub(crate) ndev_ifindex: u32,
}

/// `struct ibv_device_attr`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct DeviceAttr {
    pub(crate) fw_ver: [c_char; 64],
    pub(crate) node_guid: u64,
    pub(crate) sys_image_guid: u64,
    pub(crate) max_mr_size: u64,
    pub(crate) page_size_cap: u64,
    pub(crate) vendor_id: u32,
    pub(crate) vendor_part_id: u32,
    pub(crate) hw_ver: u32,
    pub(crate) max_qp: i32,
    pub(crate) max_qp_wr: i32,
    pub(crate) device_cap_flags: u32,
    pub(crate) max_sge: i32,
    pub(crate) max_sge_rd: i32,
    pub(crate) max_cq: i32,
    pub(crate) max_cqe: i32,
    pub(crate) max_mr: i32,
    pub(crate) max_pd: i32,
    pub(crate) max_qp_rd_atom: i32,
    pub(crate) max_ee_rd_atom: i32,
    pub(crate) max_res_rd_atom: i32,
    pub(crate) max_qp_init_rd_atom: i32,
    pub(crate) max_ee_init_rd_atom: i32,
    pub(crate) atomic_cap: u32,
    pub(crate) max_ee: i32,
    pub(crate) max_rdd: i32,
    pub(crate) max_mw: i32,
    pub(crate) max_raw_ipv6_qp: i32,
    pub(crate) max_raw_ethy_qp: i32,
    pub(crate) max_mcast_grp: i32,
    pub(crate) max_mcast_qp_attach: i32,
    pub(crate) max_total_mcast_qp_attach: i32,
    pub(crate) max_ah: i32,
    pub(crate) max_fmr: i32,
    pub(crate) max_map_per_fmr: i32,
    pub(crate) max_srq: i32,
    pub(crate) max_srq_wr: i32,
    pub(crate) max_srq_sge: i32,
    pub(crate) max_pkeys: u16,
    pub(crate) local_ca_ack_delay: u8,
    pub(crate) phys_port_cnt: u8,
}

/// `struct ibv_device_attr_ex`. From `odp_caps` on most fields say nothing about iWARP, and are words of 0.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct DeviceAttrEx {
    pub(crate) orig_attr: DeviceAttr,
    pub(crate) comp_mask: u32,
    pub(crate) odp_caps: [u64; 3],
    pub(crate) completion_timestamp_mask: u64,
    pub(crate) hca_core_clock: u64,
    pub(crate) device_cap_flags_ex: u64,
    pub(crate) tso_caps: [u32; 2],
    pub(crate) rss_caps: [u64; 4],
    pub(crate) max_wq_type_rq: u32,
    pub(crate) packet_pacing_caps: [u32; 3],
    pub(crate) raw_packet_caps: u32,
    pub(crate) tm_caps: [u32; 5],
    pub(crate) max_cq_count: u16,
    pub(crate) max_cq_period: u16,
    pub(crate) max_dm_size: u64,
    pub(crate) pci_atomic_caps: [u16; 3],
    pub(crate) xrc_odp_caps: u32,
    pub(crate) phys_port_cnt_ex: u32,
}

/// `struct ibv_port_attr`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct PortAttr {
    pub(crate) state: u32,
    pub(crate) max_mtu: u32,
    pub(crate) active_mtu: u32,
    pub(crate) gid_tbl_len: i32,
    pub(crate) port_cap_flags: u32,
    pub(crate) max_msg_sz: u32,
    pub(crate) bad_pkey_cntr: u32,
    pub(crate) qkey_viol_cntr: u32,
    pub(crate) pkey_tbl_len: u16,
    pub(crate) lid: u16,
    pub(crate) sm_lid: u16,
    pub(crate) lmc: u8,
    pub(crate) max_vl_num: u8,
    pub(crate) sm_sl: u8,
    pub(crate) subnet_timeout: u8,
    pub(crate) init_type_reply: u8,
    pub(crate) active_width: u8,
    pub(crate) active_speed: u8,
    pub(crate) phys_state: u8,
    pub(crate) link_layer: u8,
    pub(crate) flags: u8,
    pub(crate) port_cap_flags2: u16,
}

/// `struct ibv_qp_cap`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct QpCap {
    pub(crate) max_send_wr: u32,
    pub(crate) max_recv_wr: u32,
    pub(crate) max_send_sge: u32,
    pub(crate) max_recv_sge: u32,
    pub(crate) max_inline_data: u32,
}

/// `struct ibv_qp_init_attr`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct QpInitAttr {
    pub(crate) qp_context: *mut u8,
    pub(crate) send_cq: *mut Cq,
    pub(crate) recv_cq: *mut Cq,
    pub(crate) srq: *mut Srq,
    pub(crate) cap: QpCap,
    pub(crate) qp_type: u32,
    pub(crate) sq_sig_all: i32,
}

/// `struct ibv_qp_init_attr_ex`. It begins like [`QpInitAttr`]; `comp_mask` lies in the padding at the end of that.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct QpInitAttrEx {
    pub(crate) qp_context: *mut u8,
    pub(crate) send_cq: *mut Cq,
    pub(crate) recv_cq: *mut Cq,
    pub(crate) srq: *mut Srq,
    pub(crate) cap: QpCap,
    pub(crate) qp_type: u32,
    pub(crate) sq_sig_all: i32,
    pub(crate) comp_mask: u32,
    pub(crate) pd: *mut Pd,
    pub(crate) xrcd: *mut u8,
    pub(crate) create_flags: u32,
    pub(crate) max_tso_header: u16,
    pub(crate) rwq_ind_tbl: *mut u8,
    pub(crate) rx_hash_conf: [u64; 3],
    pub(crate) source_qpn: u32,
    pub(crate) send_ops_flags: u64,
}

impl QpInitAttrEx {
    /// Returns the part that both structs have.
    pub(crate) const fn base(&self) -> QpInitAttr {
        QpInitAttr {
            qp_context: self.qp_context,
            send_cq: self.send_cq,
            recv_cq: self.recv_cq,
            srq: self.srq,
            cap: self.cap,
            qp_type: self.qp_type,
            sq_sig_all: self.sq_sig_all,
        }
    }
}

/// `struct ibv_ah_attr`. It means nothing on iWARP; `roce` reads it.
pub(crate) type AhAttr = [u64; 4];

/// `struct ibv_qp_attr`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub(crate) struct QpAttr {
    pub(crate) qp_state: u32,
    pub(crate) cur_qp_state: u32,
    pub(crate) path_mtu: u32,
    pub(crate) path_mig_state: u32,
    pub(crate) qkey: u32,
    pub(crate) rq_psn: u32,
    pub(crate) sq_psn: u32,
    pub(crate) dest_qp_num: u32,
    pub(crate) qp_access_flags: u32,
    pub(crate) cap: QpCap,
    pub(crate) ah_attr: AhAttr,
    pub(crate) alt_ah_attr: AhAttr,
    pub(crate) pkey_index: u16,
    pub(crate) alt_pkey_index: u16,
    pub(crate) en_sqd_async_notify: u8,
    pub(crate) sq_draining: u8,
    pub(crate) max_rd_atomic: u8,
    pub(crate) max_dest_rd_atomic: u8,
    pub(crate) min_rnr_timer: u8,
    pub(crate) port_num: u8,
    pub(crate) timeout: u8,
    pub(crate) retry_cnt: u8,
    pub(crate) rnr_retry: u8,
    pub(crate) alt_port_num: u8,
    pub(crate) alt_timeout: u8,
    pub(crate) rate_limit: u32,
}

/// `struct ibv_srq_attr`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct SrqAttr {
    pub(crate) max_wr: u32,
    pub(crate) max_sge: u32,
    pub(crate) srq_limit: u32,
}

/// `struct ibv_srq_init_attr`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct SrqInitAttr {
    pub(crate) srq_context: *mut u8,
    pub(crate) attr: SrqAttr,
}

/// `struct ibv_srq_init_attr_ex`. Fields for XRC and tags are plain numbers.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct SrqInitAttrEx {
    pub(crate) srq_context: *mut u8,
    pub(crate) attr: SrqAttr,
    pub(crate) comp_mask: u32,
    pub(crate) srq_type: u32,
    pub(crate) pd: *mut Pd,
    pub(crate) xrcd: usize,
    pub(crate) cq: *mut Cq,
    pub(crate) tm_cap: [u32; 2],
}

/// `struct ibv_cq_init_attr_ex`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct CqInitAttrEx {
    pub(crate) cqe: u32,
    pub(crate) cq_context: *mut u8,
    pub(crate) channel: *mut CompChannel,
    pub(crate) comp_vector: u32,
    pub(crate) wc_flags: u64,
    pub(crate) comp_mask: u32,
    pub(crate) flags: u32,
    pub(crate) parent_domain: *mut Pd,
}

/// `struct ibv_modify_cq_attr`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct ModifyCqAttr {
    pub(crate) attr_mask: u32,
    pub(crate) cq_count: u16,
    pub(crate) cq_period: u16,
}

/// `struct ibv_async_event`. Its union is a pointer or, in the first octets, the number of a port.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(crate) struct AsyncEvent {
    pub(crate) element: *mut Qp,
    pub(crate) event_type: u32,
}
