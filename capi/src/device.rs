//! The attributes of the device.

use core::ffi::c_char;
use std::hash::{DefaultHasher, Hash, Hasher};

use rustix::io::Errno;
use weft_rnic::Config;
use weft_verbs::{MAX_CQ_ENTRIES, MAX_SGE};

use crate::abi;
use crate::personality::Personality;

/// How many objects of each kind there may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    qps: usize,
    cqs: usize,
    mrs: usize,
    srqs: usize,
    mws: usize,
    reads: u16,
    mtu: usize,
}

impl Limits {
    pub(crate) const fn of(config: &Config) -> Self {
        let &Config { max_qps: qps, max_cqs: cqs, max_mrs: mrs, max_srqs: srqs, max_mws: mws, .. } = config;
        Self { qps, cqs, mrs, srqs, mws, reads: config.max_reads, mtu: config.stack.mtu }
    }

    pub(crate) const fn max_qps(&self) -> usize {
        self.qps
    }

    pub(crate) fn attributes(&self) -> abi::DeviceAttr {
        let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
        abi::DeviceAttr {
            fw_ver: text(env!("CARGO_PKG_VERSION")),
            node_guid: guid().to_be(),
            sys_image_guid: guid().to_be(),
            max_mr_size: u64::MAX >> 1,
            // Memory is copied, so that pages of any size will do.
            page_size_cap: !0xFFF,
            vendor_id: VENDOR,
            vendor_part_id: 1,
            hw_ver: 1,
            max_qp: number(self.qps),
            max_qp_wr: MAX_WR,
            device_cap_flags: CAPABILITIES,
            max_sge: number(MAX_SGE),
            max_sge_rd: number(MAX_SGE),
            max_cq: number(self.cqs),
            max_cqe: i32::try_from(MAX_CQ_ENTRIES).unwrap_or(i32::MAX),
            max_mr: number(self.mrs),
            max_pd: i32::MAX,
            max_qp_rd_atom: self.reads.into(),
            max_ee_rd_atom: 0,
            max_res_rd_atom: i32::from(self.reads).saturating_mul(number(self.qps)),
            max_qp_init_rd_atom: self.reads.into(),
            max_ee_init_rd_atom: 0,
            // The CPU's own instructions make them atomic for all. UCX accepts only the level that InfiniBand adapters
            // report.
            atomic_cap: match Personality::of_process() {
                Personality::Iwarp => abi::ATOMIC_GLOB,
                Personality::Roce => abi::ATOMIC_HCA,
            },
            max_ee: 0,
            max_rdd: 0,
            max_mw: number(self.mws),
            max_raw_ipv6_qp: 0,
            max_raw_ethy_qp: 0,
            max_mcast_grp: 0,
            max_mcast_qp_attach: 0,
            max_total_mcast_qp_attach: 0,
            max_ah: 0,
            max_fmr: 0,
            max_map_per_fmr: 0,
            max_srq: number(self.srqs),
            max_srq_wr: MAX_WR,
            max_srq_sge: number(MAX_SGE),
            max_pkeys: 1,
            local_ca_ack_delay: 0,
            phys_port_cnt: 1,
        }
    }

    pub(crate) fn extended_attributes(&self) -> abi::DeviceAttrEx {
        abi::DeviceAttrEx {
            orig_attr: self.attributes(),
            comp_mask: 0,
            odp_caps: [0; 3],
            completion_timestamp_mask: u64::MAX,
            // In kHz: completions are stamped in microseconds.
            hca_core_clock: 1000,
            device_cap_flags_ex: CAPABILITIES.into(),
            tso_caps: [0; 2],
            rss_caps: [0; 4],
            max_wq_type_rq: 0,
            packet_pacing_caps: [0; 3],
            raw_packet_caps: 0,
            tm_caps: [0; 5],
            max_cq_count: u16::MAX,
            max_cq_period: u16::MAX,
            max_dm_size: 0,
            pci_atomic_caps: [0; 3],
            xrc_odp_caps: 0,
            phys_port_cnt_ex: 1,
        }
    }

    /// # Errors
    /// `EINVAL` for a port other than 1.
    pub(crate) fn port(&self, port: u32, gids: usize) -> Result<abi::PortAttr, Errno> {
        check_port(port)?;
        // The enumeration has powers of two only. This is the largest that fits.
        let mtu = self.mtu.clamp(256, 4096).ilog2() - 8 + abi::MTU_256;
        Ok(abi::PortAttr {
            state: abi::PORT_ACTIVE,
            max_mtu: mtu,
            active_mtu: mtu,
            gid_tbl_len: i32::try_from(gids).unwrap_or(i32::MAX),
            port_cap_flags: 0,
            max_msg_sz: 1 << 31,
            bad_pkey_cntr: 0,
            qkey_viol_cntr: 0,
            pkey_tbl_len: 1,
            lid: 0,
            sm_lid: 0,
            lmc: 0,
            max_vl_num: 0,
            sm_sl: 0,
            subnet_timeout: 0,
            init_type_reply: 0,
            active_width: WIDTH_4X,
            active_speed: SPEED_QDR,
            phys_state: LINK_UP,
            link_layer: abi::LINK_LAYER_ETHERNET,
            flags: 0,
            port_cap_flags2: 0,
        })
    }
}

/// # Errors
/// `EINVAL` for a port other than 1.
pub(crate) const fn check_port(port: u32) -> Result<(), Errno> {
    if port == 1 { Ok(()) } else { Err(Errno::INVAL) }
}

/// Returns an EUI-64 with the bit for local ones. It is the same for all processes of a host.
pub(crate) fn guid() -> u64 {
    let mut hasher = DefaultHasher::new();
    std::fs::read("/etc/machine-id").unwrap_or_default().hash(&mut hasher);
    std::fs::read("/proc/sys/kernel/hostname").unwrap_or_default().hash(&mut hasher);
    let [_, b, c, _, _, d, e, f] = hasher.finish().to_be_bytes();
    u64::from_be_bytes([0x02, b, c, 0xFF, 0xFE, d, e, f])
}

/// Returns a string as an array of C.
pub(crate) fn text<const N: usize>(text: &str) -> [c_char; N] {
    let mut array = [0; N];
    // The last place stays 0.
    for (place, octet) in array.iter_mut().take(N - 1).zip(text.bytes()) {
        *place = c_char::from_ne_bytes([octet]);
    }
    array
}

pub(crate) const NAME: &str = "weft0";
/// The octets say "WEF". No vendor has this number.
const VENDOR: u32 = 0x57_45_46;
const CAPABILITIES: u32 = abi::DEVICE_SRQ_RESIZE
    | abi::DEVICE_MEM_WINDOW
    | abi::DEVICE_MEM_MGT_EXTENSIONS
    | abi::DEVICE_MEM_WINDOW_TYPE_2B;
const MAX_WR: i32 = 1 << 16;
const WIDTH_4X: u8 = 2;
const SPEED_QDR: u8 = 4;
const LINK_UP: u8 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_too_long_is_cut_in_front_of_its_end() {
        assert_eq!(text::<4>("weft").map(c_char::to_ne_bytes).concat(), b"wef\0");
        assert_eq!(text::<8>("weft").map(c_char::to_ne_bytes).concat(), b"weft\0\0\0\0");
    }

    #[test]
    fn the_mtu_is_the_largest_power_of_two_that_fits() {
        for (mtu, number) in [(576, 2), (1500, 3), (4096, 5), (65_535, 5)] {
            let mut config = Config::new("10.0.0.1/24".parse().unwrap(), 1);
            config.stack.mtu = mtu;
            assert_eq!(Limits::of(&config).port(1, 1).unwrap().active_mtu, number, "{mtu}");
            assert!(Limits::of(&config).port(2, 1).is_err());
        }
    }
}
