//! What `ibv_modify_qp` does to a queue pair of the second personality.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::Errno;

use super::hello::End;
use super::numbers::Numbers;
use crate::abi;

/// What a queue pair of the second personality has besides.
#[derive(Debug)]
pub(crate) struct Manner {
    pub(crate) number: u32,
    /// What the program has asked for last, as C numbers it.
    state: AtomicU32,
    /// What it has set.
    attr: Mutex<abi::QpAttr>,
    /// Held while something is changed.
    changing: Mutex<()>,
    numbers: Arc<Numbers>,
}

/// What a change means for the queue pair below.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    None,
    /// The peer is known.
    Meet(Address),
    /// Everything posted is flushed.
    End,
    /// It begins anew.
    Renew,
}

/// A peer as `ibv_modify_qp` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) peer: End,
    /// The place of the own GID.
    pub(crate) own_gid: u32,
    pub(crate) to: std::net::SocketAddr,
}

impl Manner {
    /// One without a peer, in RESET.
    ///
    /// # Errors
    /// `ENOMEM` when there is no number left.
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

    /// What `attr` changes by `mask` from the state `actual`. Nothing has changed yet.
    ///
    /// # Errors
    /// `EINVAL` for what the state does not allow, and for a peer that there cannot be.
    pub(crate) fn step(&self, actual: u32, attr: &abi::QpAttr, mask: u32) -> Result<Step, Errno> {
        let has = |bits| mask & bits == bits;
        // A peer may have come and gone before the program is through.
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

    /// Notes what has changed.
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

    /// Completions of `below` are this one's from now on.
    pub(crate) fn name(&self, below: &weft_rnic::Qp) {
        self.numbers.name(below.number(), self.number);
    }

    /// It has nothing set any more.
    pub(crate) fn reset(&self) {
        *self.attr() = abi::QpAttr::default();
        self.set_state(abi::QPS_RESET);
    }

    /// One change at a time.
    pub(crate) fn change(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the program has set, to be completed by what there is.
    pub(crate) fn attr(&self) -> MutexGuard<'_, abi::QpAttr> {
        self.attr.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long a request waits for a peer that does not come: as often and as long as the program has said, within bounds that leave
    /// time for a peer to start; none where that is endless.
    pub(crate) fn patience(attr: &abi::QpAttr) -> Option<Duration> {
        // In InfiniBand's units of 4.096 microseconds times a power of two.
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
/// `EINVAL` for GIDs that are no address of a host, and numbers that name no port.
fn address(attr: &abi::QpAttr) -> Result<Address, Errno> {
    let octets: Vec<u8> = attr.ah_attr.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let (gid, rest) = octets.split_first_chunk::<16>().ok_or(Errno::INVAL)?;
    // Behind the GID: flow label, place of the own GID, hop limit, traffic class; LID, service level, path, rate, and this.
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
    fn patience_is_what_timeout_and_retries_say_within_bounds() {
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
