//! What two daemons tell each other when one of them opens a lane: the private data of the MPA Request and of the MPA
//! Reply (RFC 5044 section 7.1, RFC 6581).
//!
//! A hello is big-endian and without gaps. Later versions keep its layout, since it is read before a version is chosen.
//!
//! | octets | field |
//! |---|---|
//! | 8 | `weft-soc` |
//! | 2, 2 | the oldest and the newest version of a lane that the daemon knows |
//! | 1 | the kind of the lane: 1 interactive, 2 bulk |
//! | 1 | the key: 0 the daemon has none, 1 it has one, 2 it has one and a proof follows the nonce |
//! | 8 | the epoch of the daemon |
//! | 16 | the boot id of its kernel |
//! | 8 | the cookie of its network namespace |
//! | 8 | the name of the session that the daemon has with the other one, 0 if there is none |
//! | 8 | how many messages of that session it has received |
//! | 1 | the wire: 0 the daemon has none for this lane, 4 or 6 the version of its address there |
//! | 16, 2 | the address of the daemon on its wire, and the port. The octets behind an IPv4 address are 0 |
//! | 16, 16 | the addresses of the daemon's host and of the other one, as the daemon knows them. IPv4 as IPv6 maps it |
//! | 16 | a nonce |
//! | 32 | the proof, if there is one |
//!
//! The proof of one daemon covers the nonces of both. The daemon that connects knows the other nonce only after the
//! Reply, so that its own proof is in no hello.
//!
//! Two daemons greet each other by the TCP of their hosts, because the addresses of that connection say which hosts they
//! are. If both hellos name a wire, the lane itself is opened there by the daemon that has connected. Each daemon shows
//! there that it has heard the other one's greeting: the nonce of its hello on the wire is the other one's.
//!
//! Each daemon tells the addresses by which it knows both hosts. If a router between them changes addresses, the two
//! differ. Then the ends of a connection know it by different addresses as well, and a lane would carry none.

use core::net::{IpAddr, SocketAddr};

/// The private data of a lane's MPA Request or MPA Reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The oldest version of a lane that the daemon knows.
    pub oldest: u16,
    /// The newest.
    pub newest: u16,
    /// What the lane is for.
    pub kind: LaneKind,
    /// The daemon's name for itself. Another daemon has another one.
    pub epoch: u64,
    /// The boot id of the kernel below the daemon.
    pub boot_id: [u8; 16],
    /// The cookie of the daemon's network namespace.
    pub namespace: u64,
    /// The name of the session that the daemon has with the other one. 0: it has none. The daemon that answers takes the
    /// name of the other one's, or gives a new one.
    pub session: u64,
    /// How many messages of that session the daemon has received.
    pub received: u64,
    /// Where the lane of the daemon ends: at this address on its wire. `None`: at the host's TCP.
    pub wire: Option<SocketAddr>,
    /// The address of the daemon's own host, as the daemon knows it.
    pub local: IpAddr,
    /// The address of the other host, as the daemon knows it.
    pub remote: IpAddr,
    /// Random octets, new in each greeting.
    pub nonce: [u8; NONCE_LEN],
    /// What the daemon says of its key.
    pub proof: Proof,
}

/// What a lane is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum LaneKind {
    /// Few octets at a time, whose delay counts, and the messages of the daemons.
    Interactive = 1,
    /// Many octets at a time.
    Bulk = 2,
}

/// What a daemon says of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The daemon has no key.
    Without,
    /// The daemon has a key. It wants a proof from the other one, and has yet to give its own.
    Wanted,
    /// The daemon has a key. It wants a proof from the other one, and this is its own.
    Given([u8; PROOF_LEN]),
}

impl Hello {
    /// The octets by which the private data of a lane is known.
    pub const MAGIC: [u8; 8] = *b"weft-soc";
    /// No hello is longer. An MPA frame has room for 512 octets.
    pub const MAX_LEN: usize = 129 + PROOF_LEN;

    /// Returns the octets to be sent.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut octets = Vec::with_capacity(Self::MAX_LEN);
        octets.extend(Self::MAGIC);
        octets.extend(self.oldest.to_be_bytes());
        octets.extend(self.newest.to_be_bytes());
        octets.extend([self.kind as u8, self.proof.number()]);
        octets.extend(self.epoch.to_be_bytes());
        octets.extend(self.boot_id);
        for number in [self.namespace, self.session, self.received] {
            octets.extend(number.to_be_bytes());
        }
        octets.extend(encode_wire(self.wire));
        octets.extend([self.local, self.remote].map(encode_ip).as_flattened());
        octets.extend(self.nonce);
        if let Proof::Given(proof) = self.proof {
            octets.extend(proof);
        }
        octets
    }

    /// Returns the hello in these octets, or `None` if there is none or something follows it.
    #[must_use]
    pub fn decode(octets: &[u8]) -> Option<Self> {
        let mut rest = octets.strip_prefix(&Self::MAGIC)?;
        let oldest = u16::from_be_bytes(take(&mut rest)?);
        let newest = u16::from_be_bytes(take(&mut rest)?);
        let kind = LaneKind::from_number(u8::from_be_bytes(take(&mut rest)?))?;
        let key = u8::from_be_bytes(take(&mut rest)?);
        let epoch = u64::from_be_bytes(take(&mut rest)?);
        let boot_id = take(&mut rest)?;
        let namespace = u64::from_be_bytes(take(&mut rest)?);
        let session = u64::from_be_bytes(take(&mut rest)?);
        let received = u64::from_be_bytes(take(&mut rest)?);
        let wire = decode_wire(take(&mut rest)?)?;
        let [local, remote] = [take(&mut rest)?, take(&mut rest)?].map(decode_ip);
        let nonce = take(&mut rest)?;
        let proof = match key {
            0 => Proof::Without,
            1 => Proof::Wanted,
            2 => Proof::Given(take(&mut rest)?),
            _ => return None,
        };
        let hello = Self {
            oldest,
            newest,
            kind,
            epoch,
            boot_id,
            namespace,
            session,
            received,
            wire,
            local,
            remote,
            nonce,
            proof,
        };
        rest.is_empty().then_some(hello)
    }

    /// True if the daemon knows its own host and the other one by these addresses.
    #[must_use]
    pub fn knows(&self, local: IpAddr, remote: IpAddr) -> bool {
        [self.local, self.remote].map(|ip| ip.to_canonical()) == [local, remote].map(|ip| ip.to_canonical())
    }

    /// Returns the highest version that both daemons know, or `None` if there is none.
    ///
    /// A hello whose oldest version is higher than its newest one has no version in common with any other.
    #[must_use]
    pub fn common_version(&self, other: &Self) -> Option<u16> {
        let newest = self.newest.min(other.newest);
        (newest >= self.oldest.max(other.oldest)).then_some(newest)
    }
}

impl LaneKind {
    /// Returns the kind with this number.
    #[must_use]
    pub const fn from_number(number: u8) -> Option<Self> {
        match number {
            1 => Some(Self::Interactive),
            2 => Some(Self::Bulk),
            _ => None,
        }
    }
}

impl Proof {
    const fn number(self) -> u8 {
        match self {
            Self::Without => 0,
            Self::Wanted => 1,
            Self::Given(_) => 2,
        }
    }
}

fn encode_wire(wire: Option<SocketAddr>) -> [u8; WIRE_LEN] {
    let mut octets = [0; WIRE_LEN];
    let Some(wire) = wire else { return octets };
    let (version, address) = octets.split_at_mut(1);
    let (address, port) = address.split_at_mut(16);
    match wire.ip() {
        IpAddr::V4(ip) => {
            version.copy_from_slice(&[4]);
            address.get_mut(..4).unwrap_or_default().copy_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            version.copy_from_slice(&[6]);
            address.copy_from_slice(&ip.octets());
        }
    }
    port.copy_from_slice(&wire.port().to_be_bytes());
    octets
}

/// Returns the wire, which may be none, or `None` if the octets say neither.
fn decode_wire(octets: [u8; WIRE_LEN]) -> Option<Option<SocketAddr>> {
    let [version, rest @ ..] = octets;
    let mut rest = rest.as_slice();
    let address: [u8; 16] = take(&mut rest)?;
    let port = u16::from_be_bytes(take(&mut rest)?);
    let ip: IpAddr = match (version, address) {
        (0, _) => return (octets == [0; WIRE_LEN]).then_some(None),
        (4, [a, b, c, d, rest @ ..]) if rest == [0; 12] => [a, b, c, d].into(),
        (6, octets) => octets.into(),
        _ => return None,
    };
    Some(Some(SocketAddr::new(ip, port)))
}

fn encode_ip(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped().octets(),
        IpAddr::V6(ip) => ip.octets(),
    }
}

fn decode_ip(octets: [u8; 16]) -> IpAddr {
    IpAddr::from(octets).to_canonical()
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (octets, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(*octets)
}

/// Octets of a wire.
const WIRE_LEN: usize = 19;
/// Octets of a nonce.
pub const NONCE_LEN: usize = 16;
/// Octets of a proof.
pub const PROOF_LEN: usize = 32;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_hello_is_read_back(hello in any_hello()) {
            let octets = hello.encode();
            prop_assert_eq!(Hello::decode(&octets), Some(hello));
            prop_assert!(octets.len() <= Hello::MAX_LEN);
        }

        #[test]
        fn a_hello_that_is_cut_or_longer_is_refused(
            hello in any_hello(),
            more in proptest::collection::vec(any::<u8>(), 1..40),
        ) {
            let octets = hello.encode();
            prop_assert!((0..octets.len()).all(|len| Hello::decode(&octets[..len]).is_none()));
            prop_assert_eq!(Hello::decode(&[octets, more].concat()), None);
        }

        #[test]
        fn what_is_read_is_what_is_written(
            hello in any_hello(),
            place in 0..Hello::MAX_LEN,
            octet: u8,
            len in 0..=Hello::MAX_LEN,
        ) {
            let mut octets = hello.encode();
            if let Some(changed) = octets.get_mut(place) {
                *changed = octet;
            }
            octets.resize(if len % 2 == 0 { octets.len() } else { len }, octet);
            if let Some(hello) = Hello::decode(&octets) {
                prop_assert_eq!(hello.encode(), octets);
            }
        }

        #[test]
        fn the_highest_version_of_both_is_taken(hello in any_hello(), ranges: [u8; 4]) {
            let [one_oldest, one_newest, other_oldest, other_newest] = ranges.map(u16::from);
            let one = Hello { oldest: one_oldest, newest: one_newest, ..hello };
            let other = Hello { oldest: other_oldest, newest: other_newest, ..hello };
            let is_known = |hello: &Hello, version| (hello.oldest..=hello.newest).contains(&version);
            let highest = (0..=255).rev().find(|&version| is_known(&one, version) && is_known(&other, version));
            prop_assert_eq!(one.common_version(&other), highest);
            prop_assert_eq!(other.common_version(&one), highest);
        }
    }

    fn any_hello() -> impl Strategy<Value = Hello> {
        let kind = prop_oneof![Just(LaneKind::Interactive), Just(LaneKind::Bulk)];
        let wire = any::<Option<(IpAddr, u16)>>();
        let given = any::<[u8; PROOF_LEN]>().prop_map(Proof::Given);
        let proof = prop_oneof![Just(Proof::Without), Just(Proof::Wanted), given];
        let ip = any::<IpAddr>().prop_map(|ip| ip.to_canonical());
        let addresses = (ip.clone(), ip);
        let (versions, names) = (any::<(u16, u16)>(), any::<(u64, u64, u64, u64)>());
        (versions, names, any::<([u8; 16], [u8; NONCE_LEN])>(), kind, (wire, addresses, proof)).prop_map(
            |((oldest, newest), (epoch, namespace, session, received), (boot_id, nonce), kind, rest)| {
                let (wire, (local, remote), proof) = (rest.0.map(SocketAddr::from), rest.1, rest.2);
                Hello {
                    oldest,
                    newest,
                    kind,
                    epoch,
                    boot_id,
                    namespace,
                    session,
                    received,
                    wire,
                    local,
                    remote,
                    nonce,
                    proof,
                }
            },
        )
    }

    /// The layout is for all versions.
    #[test]
    fn the_octets_are_those_of_the_table() {
        let hello = Hello {
            oldest: 1,
            newest: 0x0203,
            kind: LaneKind::Bulk,
            epoch: 0x0405_0607_0809_0a0b,
            boot_id: [0xb0; 16],
            namespace: 0x1112_1314_1516_1718,
            session: 0x191a_1b1c_1d1e_1f20,
            received: 0x2122_2324_2526_2728,
            wire: Some(SocketAddr::from(([10, 9, 8, 7], 0x2930))),
            local: [10, 9, 8, 6].into(),
            remote: [0x99; 16].into(),
            nonce: [0xcc; NONCE_LEN],
            proof: Proof::Given([0xdd; PROOF_LEN]),
        };
        let parts: [&[u8]; 12] = [
            b"weft-soc\x00\x01\x02\x03\x02\x02",
            b"\x04\x05\x06\x07\x08\x09\x0a\x0b",
            &[0xb0; 16],
            b"\x11\x12\x13\x14\x15\x16\x17\x18\x19\x1a\x1b\x1c\x1d\x1e\x1f\x20\x21\x22\x23\x24\x25\x26\x27\x28",
            &[4, 10, 9, 8, 7],
            &[0; 12],
            &[0x29, 0x30],
            &[0; 10],
            &[0xff, 0xff, 10, 9, 8, 6],
            &[0x99; 16],
            &[0xcc; 16],
            &[0xdd; 32],
        ];
        assert_eq!(hello.encode(), parts.concat());
        assert_eq!(hello.encode().len(), Hello::MAX_LEN);
        let v6 = Hello { wire: Some(SocketAddr::from(([0xee; 16], 7))), ..hello }.encode();
        assert_eq!(v6[62..81], [&[6][..], &[0xee; 16], &[0, 7]].concat());
        assert_eq!(Hello { wire: None, ..hello }.encode()[62..81], [0; 19]);
        for (proof, number) in [(Proof::Without, 0), (Proof::Wanted, 1)] {
            let octets = Hello { kind: LaneKind::Interactive, proof, ..hello }.encode();
            assert_eq!((octets.len(), &octets[12..14]), (129, &[1, number][..]));
        }
    }

    #[test]
    fn numbers_that_name_nothing_are_refused() {
        let hello = Hello {
            oldest: 1,
            newest: 1,
            kind: LaneKind::Interactive,
            epoch: 1,
            boot_id: [0; 16],
            namespace: 1,
            session: 0,
            received: 0,
            wire: None,
            local: [10, 0, 0, 1].into(),
            remote: [10, 0, 0, 2].into(),
            nonce: [0; NONCE_LEN],
            proof: Proof::Wanted,
        };
        let wires = [(62, 1), (62, 5), (68, 1), (80, 1)];
        for (place, octet) in [(0, b'W'), (12, 0), (12, 3), (13, 3)].into_iter().chain(wires) {
            let mut octets = hello.encode();
            assert_eq!(Hello::decode(&octets), Some(hello));
            octets[place] = octet;
            assert_eq!(Hello::decode(&octets), None, "octet {place}");
        }
    }
}
