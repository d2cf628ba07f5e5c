//! Bodies of the fuzz targets. Plain tests run them too.

mod answer;
mod record;
mod session;

use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::collections::HashMap;

pub use self::answer::answers;
pub use self::record::record;
pub use self::session::session;
use crate::{Claim, Claimant, Claims, Digests, Hello, Outcome, Prefixes, ToDaemon, ToProcess, Tuple};

/// Reads `data` as a message in both directions. What is read has to be written as the same octets.
pub fn message(data: &[u8]) {
    if let Some(message) = ToDaemon::decode(data) {
        assert_eq!(&*message.encode(), data);
    }
    if let Some(message) = ToProcess::decode(data) {
        assert_eq!(&*message.encode(), data);
    }
}

/// Reads `data` as the private data of a lane. What is read has to be written as the same octets.
pub fn hello(data: &[u8]) {
    if let Some(hello) = Hello::decode(data) {
        assert_eq!(hello.encode(), data);
        assert!(data.len() <= Hello::MAX_LEN);
        let own = (hello.oldest <= hello.newest).then_some(hello.newest);
        assert_eq!(hello.common_version(&hello), own);
    }
}

/// Reads `data` as steps of five octets: claims, withdrawals, ends of processes, and time. Each claim has to come to one
/// end: it matches the claim of the other end, expires, is replaced, or is taken back. A match has to fit.
pub fn claims(data: &[u8]) {
    let mut claims = Claims::default();
    let mut waiting: HashMap<Claimant, (Claim, Duration)> = HashMap::new();
    let mut now = Duration::ZERO;
    for step in data.chunks_exact(5) {
        let &[kind, who, tuple, counts, time] = step else { return };
        now += Duration::from_millis(u64::from(time) * 20);
        let process = u64::from(who % 4);
        let claimant = Claimant { process, slot: u32::from(who / 4 % 8), generation: u32::from(who / 32) };
        match kind % 8 {
            0 => assert_eq!(claims.withdraw(claimant), waiting.remove(&claimant).is_some()),
            1 => {
                claims.forget(process);
                waiting.retain(|claimant, _| claimant.process != process);
            }
            2 => {
                while let Some(expired) = claims.poll_expired(now) {
                    let (_, since) = waiting.remove(&expired).expect("it waited");
                    assert!(now >= since + Duration::from_secs(5));
                }
                assert!(waiting.values().all(|(_, since)| now < *since + Duration::from_secs(5)));
            }
            _ => {
                let claim = Claim { digests: digests(tuple, kind), ..claim(tuple, counts) };
                waiting.remove(&claimant);
                match claims.handle_claim(now, claimant, claim) {
                    Outcome::Matched(other) => {
                        let (earlier, _) = waiting.remove(&other).expect("it waited");
                        assert!(earlier.fits(&claim) && earlier.consumed <= claim.written);
                        assert_eq!(earlier.tuple.mirrored(), claim.tuple);
                    }
                    Outcome::Waits { replaced } => {
                        if let Some(replaced) = replaced {
                            let (old, _) = waiting.remove(&replaced).expect("it waited");
                            assert_eq!(old.tuple, claim.tuple);
                        }
                        waiting.insert(claimant, (claim, now));
                    }
                }
            }
        }
        assert_eq!(claims.len(), waiting.len());
        assert_eq!(claims.deadline().is_some(), !waiting.is_empty());
    }
}

/// A claim whose addresses, window scales and counts come from two octets.
fn claim(tuple: u8, counts: u8) -> Claim {
    let address = |host: u8, port: u8| {
        let ip = Ipv4Addr::new(10, 0, 0, host);
        let mapped = tuple & 0x80 != 0;
        let ip = if mapped { ip.to_ipv6_mapped().into() } else { ip.into() };
        SocketAddr::new(ip, 80 + u16::from(port))
    };
    let (one, other) = (address(1, 0), address(2, tuple >> 1 & 7));
    let (local, peer) = if tuple & 1 == 0 { (one, other) } else { (other, one) };
    Claim {
        tuple: Tuple::new(u64::from(tuple >> 4 & 1), local, peer),
        window_scales: if tuple & 1 == 0 { (counts & 1, 7) } else { (7, counts & 1) },
        options: 7 ^ tuple >> 5 & 1,
        written: u64::from(counts >> 4),
        consumed: u64::from(counts >> 1 & 7),
        digests: Digests::default(),
        is_far: false,
    }
}

/// Digests of what one of two connections has said, as one of its ends has seen it.
fn digests(tuple: u8, kind: u8) -> Digests {
    let begin =
        |bit: u8| if kind >> bit & 1 == 0 { Prefixes::default() } else { Prefixes::of(&[kind >> 7; 20]) };
    let digests = Digests { written: begin(5), received: begin(6) };
    if tuple & 1 == 0 { digests } else { digests.mirrored() }
}
