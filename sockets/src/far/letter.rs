//! What daemons tell each other seldom: an RDMA Send each. The codec is that of the messages between a process and its
//! daemon.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};

use crate::digest::Digests;
use crate::leg::RingPlace;
use crate::message::{Encoded, Field, messages};

messages! {
    /// A message between two daemons.
    Letter:
    /// A process of the sending host would like to share memory with the other end of this connection.
    Claim = 1, 0 descriptors {
        /// The sending daemon's name for the claim.
        id: u64,
        /// The own address of the end.
        local: SocketAddr,
        /// The address of the other end, at the receiving host.
        peer: SocketAddr,
        /// The window scale of the end.
        own_scale: u8,
        /// The window scale of the other end.
        peer_scale: u8,
        /// See [`Claim::options`](crate::Claim::options).
        options: u8,
        /// See [`Claim::written`](crate::Claim::written).
        written: u64,
        /// See [`Claim::consumed`](crate::Claim::consumed).
        consumed: u64,
        /// Digests of the first octets.
        digests: Digests,
    }
    /// Takes a claim back.
    Withdraw = 2, 0 descriptors {
        /// The name of the claim.
        id: u64,
    }
    /// The claim fits one of the sending host. From now on the connection has a channel there.
    Open = 3, 0 descriptors {
        /// The name of the claim.
        id: u64,
        /// The sending daemon's number for the channel, which notices to it name.
        channel: u32,
        /// The STag of the memory in which the rings of the sending host lie. A tagged offset is the place in the link.
        stag: u32,
        /// The ring for what the receiving host's end sends.
        ring: RingPlace,
        /// What [records](crate::Record) of the channel begin with.
        secret: [u64; 2],
    }
    /// The answer to [`Letter::Open`].
    Opened = 4, 0 descriptors {
        /// The receiving daemon's number for the channel.
        channel: u32,
        /// The sending daemon's number.
        own: u32,
        /// As in [`Letter::Open`].
        stag: u32,
        /// As in [`Letter::Open`].
        ring: RingPlace,
    }
    /// The other answer: the claim is withdrawn, or there is no room.
    Refused = 5, 0 descriptors {
        /// The receiving daemon's number for the channel.
        channel: u32,
    }
    /// The sender of a direction begins a leg by a ring. It announces a leg by TCP with a [record](crate::Record) in the
    /// kernel's stream.
    Leg = 6, 0 descriptors {
        /// The receiving daemon's number for the channel.
        channel: u32,
        /// The number of the leg.
        number: u16,
        /// The ring, in the link of the receiving host.
        ring: RingPlace,
        /// The position of its first octet.
        start: u64,
    }
    /// The stream of a direction ends.
    Final = 7, 0 descriptors {
        /// The receiving daemon's number for the channel.
        channel: u32,
        /// The position behind its last octet.
        end: u64,
    }
    /// A sender would like to have a larger ring. No answer comes if there is no room.
    WantRing = 8, 0 descriptors {
        /// The receiving daemon's number for the channel.
        channel: u32,
        /// The logarithm of the wanted number of octets.
        log2: u8,
    }
    /// There is one.
    RingMade = 9, 0 descriptors {
        /// The receiving daemon's number for the channel.
        channel: u32,
        /// The ring, in the link of the sending host.
        ring: RingPlace,
    }
    /// A sender has left a ring, and its reader has read it to its end.
    ReturnRing = 10, 0 descriptors {
        /// The receiving daemon's number for the channel.
        channel: u32,
        /// The ring, in the link of the receiving host.
        ring: RingPlace,
    }
    /// A reader of the sending host has asked for TCP before it came to a ring, and the session that carried its question
    /// has ended.
    Ask = 11, 0 descriptors {
        /// The secret of the channel that both ends have had.
        secret: [u64; 2],
    }
    /// The answer to [`Letter::Ask`]: the sender stays on TCP, and no [record](crate::Record) comes. If one comes, it is the
    /// answer, and no letter is sent.
    Stays = 12, 0 descriptors {
        /// As in [`Letter::Ask`].
        secret: [u64; 2],
    }
}

impl Field for SocketAddr {
    fn put(&self, encoded: &mut Encoded) {
        let ip = match self.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        encoded.put(&ip.octets());
        self.port().put(encoded);
    }

    fn take(rest: &mut &[u8]) -> Option<Self> {
        let (octets, behind) = rest.split_first_chunk::<16>()?;
        *rest = behind;
        Some(Self::new(Ipv6Addr::from(*octets).to_canonical(), u16::take(rest)?))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::MESSAGE_LEN;

    proptest! {
        #[test]
        fn letters_are_read_back(kind: usize, octets in proptest::collection::vec(any::<u8>(), MESSAGE_LEN)) {
            if let Some(letter) = Letter::arbitrary(kind, &octets) {
                prop_assert_eq!(Letter::decode(&letter.encode()), Some(letter));
            }
        }

        #[test]
        fn what_is_read_is_what_is_written(octets in proptest::collection::vec(any::<u8>(), 0..=MESSAGE_LEN + 1)) {
            if let Some(letter) = Letter::decode(&octets) {
                prop_assert_eq!(&*letter.encode(), &octets[..]);
            }
        }
    }

    #[test]
    fn a_claim_of_either_family_fits_into_a_letter() {
        let digests = Digests {
            written: crate::digest::Prefixes::of(&[1; 300]),
            received: crate::digest::Prefixes::of(&[2; 300]),
        };
        for (local, peer) in [("10.0.0.1:80", "10.0.0.2:5000"), ("[fd00::1]:80", "[fd00::2]:5000")] {
            let (local, peer) = (local.parse().expect("an address"), peer.parse().expect("an address"));
            let (own_scale, peer_scale, options) = (7, 9, 7);
            let claim = Letter::Claim {
                id: 1,
                local,
                peer,
                own_scale,
                peer_scale,
                options,
                written: 2,
                consumed: 3,
                digests,
            };
            assert_eq!(Letter::decode(&claim.encode()), Some(claim));
        }
    }
}
