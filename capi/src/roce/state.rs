//! The attributes and the state of a queue pair of the second personality.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::Errno;

use super::hello::End;
use super::numbers::Numbers;
use crate::abi;

/// The part of a queue pair that only the second personality has.
#[derive(Debug)]
pub(crate) struct Manner {
    pub(crate) number: u32,
    /// The state that the program asked for last, by C's number.
    state: AtomicU32,
    /// The attributes that the program has set.
    attr: Mutex<abi::QpAttr>,
    /// Held during a change.
    changing: Mutex<()>,
    numbers: Arc<Numbers>,
}

/// The consequence of a change for the queue pair below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    None,
    /// The meeting with the peer begins.
    Meet(Address),
    /// All posted requests are flushed.
    End,
    /// The queue pair begins again.
    Renew,
}

/// A peer, as `ibv_modify_qp` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) peer: End,
    /// The index of the own GID.
    pub(crate) own_gid: u32,
    pub(crate) to: std::net::SocketAddr,
}

impl Manner {
    /// A queue pair in RESET, without a peer.
    ///
    /// # Errors
    /// `ENOMEM` if there is no number left.
    pub(crate) fn new(numbers: &Arc<Numbers>) -> Result<Self, Errno> {
        let numbers = Arc::clone(numbers);
        let number = numbers.take()?;
        Ok(Self {
            number,
            state: AtomicU32::new(abi::QPS_RESET),
            attr: Mutex::new(abi::QpAttr::default()),
            changing: Mutex::default(),
            numbers,
        })
    }

    /// Returns the consequence of a change by `attr` and `mask` from the state `actual`. Changes nothing yet.
    ///
    /// # Errors
    /// `EINVAL` for a change that the state does not allow, and for an impossible peer.
    pub(crate) fn step(&self, actual: u32, attr: &abi::QpAttr, mask: u32) -> Result<Step, Errno> {
        let has = |bits| mask & bits == bits;
        // A peer may have come and gone before the program has moved the queue pair to RTS.
        let from = if self.state() == abi::QPS_RTR { abi::QPS_RTR } else { actual };
        if has(abi::QP_PORT) && attr.port_num != 1 || has(abi::QP_PKEY_INDEX) && attr.pkey_index != 0 {
            return Err(Errno::INVAL);
        }
        if has(abi::QP_PATH_MTU) && !(abi::MTU_256..=abi::MTU_4096).contains(&attr.path_mtu) {
            return Err(Errno::INVAL);
        }
        if !has(abi::QP_STATE) {
            return Ok(Step::None);
        }
        match (from, attr.qp_state) {
            (_, abi::QPS_RESET) => Ok(Step::Renew),
            (_, abi::QPS_ERR) => Ok(Step::End),
            (abi::QPS_RESET | abi::QPS_INIT, abi::QPS_INIT) => Ok(Step::None),
            (abi::QPS_INIT, abi::QPS_RTR) if has(abi::QP_AV | abi::QP_DEST_QPN) => {
                Ok(Step::Meet(address(attr)?))
            }
            (abi::QPS_RTR | abi::QPS_RTS, abi::QPS_RTS) => Ok(Step::None),
            _ => Err(Errno::INVAL),
        }
    }

    /// Stores the attributes that the mask names.
    pub(crate) fn note(&self, attr: &abi::QpAttr, mask: u32) {
        let mut kept = self.attr();
        macro_rules! keep {
            ($($bit:ident: $field:ident),*) => {
                $(if mask & abi::$bit != 0 { kept.$field = attr.$field; })*
            };
        }
        keep!(
            QP_PKEY_INDEX: pkey_index, QP_PORT: port_num, QP_QKEY: qkey, QP_AV: ah_attr, QP_PATH_MTU: path_mtu,
            QP_TIMEOUT: timeout, QP_RETRY_CNT: retry_cnt, QP_RNR_RETRY: rnr_retry, QP_RQ_PSN: rq_psn,
            QP_MAX_QP_RD_ATOMIC: max_rd_atomic, QP_MIN_RNR_TIMER: min_rnr_timer, QP_SQ_PSN: sq_psn,
            QP_MAX_DEST_RD_ATOMIC: max_dest_rd_atomic, QP_DEST_QPN: dest_qp_num
        );
        if mask & abi::QP_STATE != 0 {
            self.set_state(attr.qp_state);
        }
    }

    pub(crate) fn state(&self) -> u32 {
        self.state.load(Ordering::Acquire)
    }

    pub(crate) fn set_state(&self, state: u32) {
        self.state.store(state, Ordering::Release);
    }

    /// Has completions of `below` name this queue pair.
    pub(crate) fn name(&self, below: &weft_rnic::Qp) {
        self.numbers.name(below.number(), self.number);
    }

    /// Takes back all attributes.
    pub(crate) fn reset(&self) {
        *self.attr() = abi::QpAttr::default();
        self.set_state(abi::QPS_RESET);
    }

    /// Locks out other changes.
    pub(crate) fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the attributes that the program has set.
    pub(crate) fn attr(&self) -> MutexGuard<'_, abi::QpAttr> {
        self.attr.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how long a request waits for a peer that does not come; None is endless. It is the product of `timeout`
    /// and `retry_cnt`, within bounds that leave a peer time to start.
    pub(crate) fn patience(attr: &abi::QpAttr) -> Option<Duration> {
        // InfiniBand counts in powers of two of 4.096 microseconds.
        let once = Duration::from_nanos(4096 << attr.timeout.min(31));
        (attr.timeout != 0)
            .then(|| (once * (u32::from(attr.retry_cnt) + 1)).clamp(SHORTEST_PATIENCE, LONGEST_PATIENCE))
    }
}

impl Drop for Manner {
    fn drop(&mut self) {
        self.numbers.give_back(self.number);
    }
}

/// # Errors
/// `EINVAL` for a GID that is no host's address, and a number that names no port.
fn address(attr: &abi::QpAttr) -> Result<Address, Errno> {
    let octets: Vec<u8> = attr.ah_attr.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let (gid, rest) = octets.split_first_chunk::<16>().ok_or(Errno::INVAL)?;
    // Behind the GID lie the flow label, the index of the own GID, the hop limit, the traffic class, the LID, the
    // service level, the path, the rate, `is_global` and the port.
    let (own_gid, is_global, port) = (rest[4], rest[13], rest[14]);
    let ip = crate::gid::address_of(*gid).ok_or(Errno::INVAL)?;
    let to = super::numbers::port_of(attr.dest_qp_num).ok_or(Errno::INVAL)?;
    if is_global == 0 || port != 1 {
        return Err(Errno::INVAL);
    }
    let peer = End { number: attr.dest_qp_num, gid: *gid };
    Ok(Address { peer, own_gid: own_gid.into(), to: (ip, to).into() })
}

const SHORTEST_PATIENCE: Duration = Duration::from_secs(2);
const LONGEST_PATIENCE: Duration = Duration::from_mins(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_follows_timeout_and_retries_within_bounds() {
        let patience = |timeout, retry_cnt| {
            Manner::patience(&abi::QpAttr { timeout, retry_cnt, ..abi::QpAttr::default() })
        };
        assert_eq!(patience(0, 7), None);
        assert_eq!(patience(14, 7), Some(SHORTEST_PATIENCE));
        assert_eq!(patience(18, 7), Some(Duration::from_nanos((4096 << 18) * 8)));
        assert_eq!(patience(31, 7), Some(LONGEST_PATIENCE));
        assert_eq!(patience(255, 255), Some(LONGEST_PATIENCE));
    }

    #[test]
    fn a_peer_is_an_address_of_a_host_and_a_number_with_a_port() {
        let mut octets = [0; 32];
        octets[..16].copy_from_slice(&std::net::Ipv4Addr::LOCALHOST.to_ipv6_mapped().octets());
        (octets[20], octets[29], octets[30]) = (2, 1, 1);
        let attr = |octets: [u8; 32], dest_qp_num| {
            let mut ah_attr = [0; 4];
            for (word, octets) in ah_attr.iter_mut().zip(octets.as_chunks::<8>().0) {
                *word = u64::from_ne_bytes(*octets);
            }
            abi::QpAttr { ah_attr, dest_qp_num, ..abi::QpAttr::default() }
        };
        let found = address(&attr(octets, 0x12_3456)).unwrap();
        assert_eq!((found.to, found.own_gid), ("127.0.0.1:4660".parse().unwrap(), 2));
        for nobody in [0, 1, 0xFF, 0x100_0000, u32::MAX] {
            assert_eq!(address(&attr(octets, nobody)), Err(Errno::INVAL), "{nobody}");
        }
        for place in [29, 30, 12] {
            let mut wrong = octets;
            wrong[place] = 0;
            if place == 12 {
                wrong[..16].fill(0);
            }
            assert_eq!(address(&attr(wrong, 0x12_3456)), Err(Errno::INVAL), "octet {place}");
        }
    }
}
