//! Words for numbers.
#![allow(unsafe_code)]

use core::ffi::{CStr, c_char, c_int};

#[unsafe(no_mangle)]
extern "C" fn ibv_node_type_str(kind: c_int) -> *const c_char {
    word(
        usize::try_from(kind).ok(),
        &[
            UNKNOWN,
            c"InfiniBand channel adapter",
            c"InfiniBand switch",
            c"InfiniBand router",
            c"iWARP NIC",
            c"usNIC",
            c"usNIC UDP",
            c"unspecified",
        ],
    )
}

#[unsafe(no_mangle)]
extern "C" fn ibv_port_state_str(state: u32) -> *const c_char {
    word(
        usize::try_from(state).ok(),
        &[
            c"no state change (NOP)",
            c"PORT_DOWN",
            c"PORT_INIT",
            c"PORT_ARMED",
            c"PORT_ACTIVE",
            c"PORT_ACTIVE_DEFER",
        ],
    )
}

#[unsafe(no_mangle)]
extern "C" fn ibv_event_type_str(event: u32) -> *const c_char {
    word(
        usize::try_from(event).ok(),
        &[
            c"CQ error",
            c"local work queue catastrophic error",
            c"invalid request local work queue error",
            c"local access violation work queue error",
            c"communication established",
            c"send queue drained",
            c"path migrated",
            c"path migration request error",
            c"local catastrophic error",
            c"port active",
            c"port error",
            c"LID change",
            c"P_Key change",
            c"SM change",
            c"SRQ catastrophic error",
            c"SRQ limit reached",
            c"last WQE reached",
            c"client reregistration",
            c"GID table change",
            c"WQ fatal",
        ],
    )
}

#[unsafe(no_mangle)]
extern "C" fn ibv_wc_status_str(status: u32) -> *const c_char {
    wc_status(status).as_ptr()
}

/// Returns the text of `ibv_wc_status_str`.
pub(super) fn wc_status(status: u32) -> &'static CStr {
    let names = [
        c"success",
        c"local length error",
        c"local QP operation error",
        c"local EE context operation error",
        c"local protection error",
        c"work request flushed",
        c"memory management operation error",
        c"bad response error",
        c"local access error",
        c"remote invalid request error",
        c"remote access error",
        c"remote operation error",
        c"transport retry counter exceeded",
        c"RNR retry counter exceeded",
        c"local RDD violation",
        c"remote invalid RD request",
        c"remote aborted",
        c"invalid EE context number",
        c"invalid EE context state",
        c"fatal error",
        c"response timeout",
        c"general error",
        c"tag matching error",
        c"tag matching rendezvous incomplete",
    ];
    usize::try_from(status).ok().and_then(|status| names.get(status).copied()).unwrap_or(UNKNOWN)
}

/// Returns the text of `rdma_event_str`.
pub(super) fn cm_event(event: u32) -> &'static CStr {
    let names = [
        c"RDMA_CM_EVENT_ADDR_RESOLVED",
        c"RDMA_CM_EVENT_ADDR_ERROR",
        c"RDMA_CM_EVENT_ROUTE_RESOLVED",
        c"RDMA_CM_EVENT_ROUTE_ERROR",
        c"RDMA_CM_EVENT_CONNECT_REQUEST",
        c"RDMA_CM_EVENT_CONNECT_RESPONSE",
        c"RDMA_CM_EVENT_CONNECT_ERROR",
        c"RDMA_CM_EVENT_UNREACHABLE",
        c"RDMA_CM_EVENT_REJECTED",
        c"RDMA_CM_EVENT_ESTABLISHED",
        c"RDMA_CM_EVENT_DISCONNECTED",
        c"RDMA_CM_EVENT_DEVICE_REMOVAL",
        c"RDMA_CM_EVENT_MULTICAST_JOIN",
        c"RDMA_CM_EVENT_MULTICAST_ERROR",
        c"RDMA_CM_EVENT_ADDR_CHANGE",
        c"RDMA_CM_EVENT_TIMEWAIT_EXIT",
    ];
    usize::try_from(event).ok().and_then(|event| names.get(event).copied()).unwrap_or(c"UNKNOWN EVENT")
}

/// For each `enum ibv_rate`: the multiple of 2.5 Gbit/s (0 if it is none), and Mbit/s.
const RATES: [(u32, c_int, c_int); 24] = [
    (2, 1, 2_500),
    (5, 2, 5_000),
    (3, 4, 10_000),
    (6, 8, 20_000),
    (4, 12, 30_000),
    (7, 16, 40_000),
    (8, 24, 60_000),
    (9, 32, 80_000),
    (10, 48, 120_000),
    (11, 0, 14_062),
    (12, 0, 56_250),
    (13, 0, 112_500),
    (14, 0, 168_750),
    (15, 0, 25_781),
    (16, 0, 103_125),
    (17, 0, 206_250),
    (18, 0, 309_375),
    (19, 0, 28_125),
    (20, 0, 53_125),
    (21, 0, 425_000),
    (22, 0, 637_500),
    (23, 0, 850_000),
    (24, 0, 1_275_000),
    (0, 0, 0),
];

#[unsafe(no_mangle)]
extern "C" fn ibv_rate_to_mult(rate: u32) -> c_int {
    RATES.iter().find(|known| known.0 == rate && known.1 > 0).map_or(-1, |known| known.1)
}

#[unsafe(no_mangle)]
extern "C" fn mult_to_ibv_rate(mult: c_int) -> u32 {
    RATES.iter().find(|known| known.1 == mult && mult > 0).map_or(0, |known| known.0)
}

#[unsafe(no_mangle)]
extern "C" fn ibv_rate_to_mbps(rate: u32) -> c_int {
    RATES.iter().find(|known| known.0 == rate && rate > 0).map_or(-1, |known| known.2)
}

#[unsafe(no_mangle)]
extern "C" fn mbps_to_ibv_rate(mbps: c_int) -> u32 {
    RATES.iter().find(|known| known.2 == mbps).map_or(0, |known| known.0)
}

fn word(number: Option<usize>, words: &[&'static CStr]) -> *const c_char {
    number.and_then(|number| words.get(number).copied()).unwrap_or(UNKNOWN).as_ptr()
}

const UNKNOWN: &CStr = c"unknown";

#[cfg(test)]
mod tests {
    use weft_rnic::Status;

    use super::*;

    #[test]
    fn a_status_has_the_same_words_in_c_and_in_rust() {
        for &status in Status::ALL {
            let number = status as u32;
            assert_eq!(wc_status(number).to_str(), Ok(status.to_string().as_str()), "{number}");
        }
    }

    /// `IBV_RATE_120_GBPS`, `IBV_RATE_14_GBPS` and `IBV_RATE_MAX`; the last two are no multiple.
    #[test]
    fn rates_are_those_of_libibverbs() {
        for (rate, mult, mbps) in [(10, 48, 120_000), (11, -1, 14_062), (0, -1, -1), (99, -1, -1)] {
            assert_eq!((ibv_rate_to_mult(rate), ibv_rate_to_mbps(rate)), (mult, mbps), "{rate}");
        }
        for (mult, rate) in [(48, 10), (1, 2), (0, 0), (-1, 0), (3, 0)] {
            assert_eq!(mult_to_ibv_rate(mult), rate, "{mult}");
        }
        for (mbps, rate) in [(120_000, 10), (14_062, 11), (0, 0), (1, 0)] {
            assert_eq!(mbps_to_ibv_rate(mbps), rate, "{mbps}");
        }
    }
}
