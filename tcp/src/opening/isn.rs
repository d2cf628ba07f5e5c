//! Numbers that nobody may guess.

use core::hash::Hasher;
use core::net::{IpAddr, SocketAddr};

use siphasher::sip::SipHasher24;

use crate::{Micros, Seq};

/// Makes initial sequence numbers (RFC 6528), the offsets of timestamps (RFC 7323 section 5.4) and what SYN cookies need,
/// from a key of the stack.
#[derive(Clone)]
pub struct Secret {
    key: [u8; 16],
}

/// The two ends of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuple {
    /// This end.
    pub local: SocketAddr,
    /// The peer.
    pub remote: SocketAddr,
}

impl Secret {
    /// Takes 128 random bits. They have to come from the system's generator if strangers are on the wire.
    pub const fn new(key: [u8; 16]) -> Self {
        Self { key }
    }

    /// Returns the initial sequence number of a connection: a clock of 4 us and a hash of its ends (RFC 6528 section 3).
    #[expect(clippy::cast_possible_truncation, reason = "sequence numbers wrap around")]
    pub fn isn(&self, tuple: &Tuple, now: Micros) -> Seq {
        Seq((now.0 / 4) as u32) + self.hash(Use::Isn, tuple, &[])
    }

    /// Returns what a connection adds to its timestamps. It depends on the ends alone, so that timestamps go on rising
    /// when the same ends connect again (RFC 6191).
    pub fn timestamp_offset(&self, tuple: &Tuple) -> u32 {
        self.hash(Use::Timestamp, tuple, &[])
    }

    /// Returns the octets that authenticate a SYN cookie with this content.
    pub(crate) fn cookie(&self, tuple: &Tuple, content: &[u8]) -> u32 {
        self.hash(Use::Cookie, tuple, content)
    }

    #[expect(clippy::cast_possible_truncation, reason = "half of the hash is used")]
    fn hash(&self, what: Use, tuple: &Tuple, content: &[u8]) -> u32 {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        hasher.write_u8(what as u8);
        for end in [tuple.local, tuple.remote] {
            match end.ip() {
                IpAddr::V4(ip) => hasher.write(&ip.octets()),
                IpAddr::V6(ip) => hasher.write(&ip.octets()),
            }
            hasher.write(&end.port().to_be_bytes());
        }
        hasher.write(content);
        hasher.finish() as u32
    }
}

impl core::fmt::Debug for Secret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Secret")
    }
}

#[derive(Clone, Copy)]
enum Use {
    Isn,
    Timestamp,
    Cookie,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuple(port: u16) -> Tuple {
        Tuple { local: ([10, 0, 0, 1], port).into(), remote: ([10, 0, 0, 2], 80).into() }
    }

    /// RFC 6528 section 3: one connection's numbers rise with the clock; another one's have nothing to do with them.
    // Covers 6528-3-1, 9293-MUST-8, 9293-SHLD-1.
    #[test]
    fn numbers_rise_by_the_clock_and_differ_by_ends_and_key() {
        let secret = Secret::new([7; 16]);
        let first = secret.isn(&tuple(1), Micros(1000));
        assert_eq!(secret.isn(&tuple(1), Micros(1400)), first + 100);
        assert_eq!(
            secret.isn(&tuple(1), Micros(1000) + Micros(4 << 32)),
            first,
            "the clock wraps after 4.8 hours"
        );
        assert_ne!(secret.isn(&tuple(2), Micros(1000)), first);
        assert_ne!(Secret::new([8; 16]).isn(&tuple(1), Micros(1000)), first);
        let Tuple { local, remote } = tuple(1);
        assert_ne!(secret.isn(&Tuple { local: remote, remote: local }, Micros(1000)), first);
        assert_eq!(secret.timestamp_offset(&tuple(1)), secret.timestamp_offset(&tuple(1)));
        assert_ne!(secret.timestamp_offset(&tuple(1)), secret.timestamp_offset(&tuple(2)));
        assert_ne!(secret.cookie(&tuple(1), &[1]), secret.cookie(&tuple(1), &[2]));
    }

    /// RFC 6528 section 3: the numbers of own connections tell a stranger nothing of others.
    // Covers 6528-3-2, 9293-MUST-9.
    #[test]
    fn without_the_key_no_number_tells_another() {
        let numbers = |key: u8, ports: core::ops::Range<u16>| {
            let secret = Secret::new([key; 16]);
            ports.map(|port| secret.isn(&tuple(port), Micros(0)).0).collect::<std::vec::Vec<_>>()
        };
        let (ours, theirs) = (numbers(7, 1..200), numbers(8, 1..200));
        let differences = |numbers: &[u32]| {
            let steps = numbers.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]));
            steps.collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(differences(&ours).len(), 198, "no two ports lie as far apart as two others");
        assert!(differences(&ours).is_disjoint(&differences(&theirs)), "another key, other differences");
    }
}
