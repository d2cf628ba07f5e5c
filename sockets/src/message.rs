//! The messages between a process and its daemon: one datagram each, some with descriptors beside it.
//!
//! A message is an octet that names its kind and the fields of that kind, little-endian, without gaps. Both sides read
//! messages of strangers, so that [`ToDaemon::decode`] and [`ToProcess::decode`] take exactly what `encode` writes.

use crate::digest::{Digests, Prefixes};
use crate::leg::RingPlace;
use crate::reason::Reason;
use crate::waiter::WaiterName;

/// The octets of a message, at most [`MESSAGE_LEN`].
#[derive(Clone, Copy, Debug)]
pub struct Encoded {
    octets: [u8; MESSAGE_LEN],
    len: usize,
}

impl Encoded {
    pub(crate) const fn new() -> Self {
        Self { octets: [0; MESSAGE_LEN], len: 0 }
    }

    pub(crate) fn put(&mut self, octets: &[u8]) {
        let end = self.len + octets.len();
        if let Some(place) = self.octets.get_mut(self.len..end) {
            place.copy_from_slice(octets);
            self.len = end;
        }
    }
}

impl core::ops::Deref for Encoded {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.octets.get(..self.len).unwrap_or_default()
    }
}

/// Declares the messages of one direction: kind, name, number of descriptors, fields.
macro_rules! messages {
    ($(#[$doc:meta])* $name:ident:
     $($(#[$variant_doc:meta])* $variant:ident = $kind:literal, $descriptors:literal descriptors
       { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })+) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$variant_doc])* $variant { $($(#[$field_doc])* $field: $type,)* },)+ }

        impl $name {
            /// Returns the octets to be sent.
            #[must_use]
            pub fn encode(&self) -> Encoded {
                let mut encoded = Encoded::new();
                match self {
                    $(Self::$variant { $($field,)* } => {
                        encoded.put(&[$kind]);
                        $($field.put(&mut encoded);)*
                    })+
                }
                encoded
            }

            /// Returns the message in these octets, or `None` if there is none or something follows it.
            #[must_use]
            pub fn decode(octets: &[u8]) -> Option<Self> {
                let (kind, mut rest) = octets.split_first()?;
                let message = match kind {
                    $($kind => Self::$variant { $($field: <$type as Field>::take(&mut rest)?,)* },)+
                    _ => return None,
                };
                rest.is_empty().then_some(message)
            }

            /// Returns how many descriptors come with the message.
            #[must_use]
            pub const fn descriptors(&self) -> usize {
                match self { $(Self::$variant { .. } => $descriptors,)+ }
            }
        }

        #[cfg(test)]
        impl $name {
            /// Any message whose fields these octets fill.
            fn arbitrary(kind: usize, octets: &[u8]) -> Option<Self> {
                let kinds = [$($kind,)+];
                let kind = kinds[kind % kinds.len()];
                let mut message = vec![kind];
                message.extend(octets);
                (1..=message.len()).find_map(|len| Self::decode(&message[..len]))
            }
        }
    };
}

pub(crate) use messages;

messages! {
    /// What a process tells its daemon.
    ToDaemon:
    /// The first message. With it come a pidfd of the process, its status page, and the slab of its family.
    Register = 1, 3 descriptors {
        /// The oldest version of these messages that the process knows.
        oldest: u16,
        /// The newest.
        newest: u16,
        /// The place of the process among the members of its slab.
        member: u16,
    }
    /// With it comes the eventfd by which the waiter on this line of the status page is woken.
    Bell = 2, 1 descriptors {
        /// The line of the status page.
        line: u8,
    }
    /// The process would like to share memory with the other end of a connection. With it comes the socket.
    Claim = 3, 1 descriptors {
        /// The end in the slab.
        slot: u32,
        /// The generation in the end's state.
        generation: u32,
        /// Digests of the first octets, as far as the process has seen all of those.
        digests: Digests,
    }
    /// Takes a claim back.
    Withdraw = 4, 0 descriptors {
        /// The end in the slab.
        slot: u32,
        /// The generation in the end's state.
        generation: u32,
    }
    /// Asks for a larger ring for what a party sends. No answer comes if there is no room.
    WantRing = 5, 0 descriptors {
        /// The link's name.
        link: u64,
        /// The channel in the link.
        channel: u32,
        /// The asking end's party of the link.
        party: u8,
        /// The logarithm of the wanted number of octets.
        log2: u8,
    }
    /// Gives back a ring that has been read to its end.
    ReturnRing = 6, 0 descriptors {
        /// The link's name.
        link: u64,
        /// The channel in the link.
        channel: u32,
        /// The party that sent by the ring.
        party: u8,
        /// The ring.
        ring: RingPlace,
    }
    /// An end is closed: the party uses the channel no more. If the channel is another end's by now, nothing happens.
    Closed = 7, 0 descriptors {
        /// The end in the slab.
        slot: u32,
        /// The generation in the end's state.
        generation: u32,
        /// The link's name.
        link: u64,
        /// The channel in the link.
        channel: u32,
        /// The party whose end is closed.
        party: u8,
    }
    /// Asks the daemon to wake sleepers at the other end of a link.
    Ring = 8, 0 descriptors {
        /// The link's name.
        link: u64,
        /// The asking end's party of the link. The other party sleeps.
        party: u8,
        /// The sleeper, or `None` for all of that family.
        sleeper: Option<WaiterName>,
    }
    /// The family has a link that an earlier daemon made. With it comes its memory.
    ShowLink = 9, 1 descriptors {
        /// The link's name.
        link: u64,
        /// The family's party of the link.
        party: u8,
    }
    /// With it comes a new UDP socket of the process's network namespace, which the process leaves alone. By such sockets
    /// the daemon finds out which namespaces reach each other.
    Network = 10, 1 descriptors {}
    /// The reader of a far end has asked for TCP before it came to a ring, and has no answer. With it comes the socket. The
    /// daemon asks the other host, unless a session of its own carries the question already.
    Ask = 11, 1 descriptors {
        /// The end in the slab.
        slot: u32,
        /// The generation in the end's state.
        generation: u32,
    }
}

messages! {
    /// What a daemon tells a process.
    ToProcess:
    /// The answer to [`ToDaemon::Register`].
    Welcome = 1, 0 descriptors {
        /// The version that both use from now on.
        version: u16,
        /// The daemon's name for the family of the slab.
        family: u64,
        /// The daemon's name for itself. Another daemon has another one.
        epoch: u64,
    }
    /// The other answer. The port is of no use.
    Refused = 2, 0 descriptors {
        /// Why.
        reason: Reason,
    }
    /// The family has a link. With it comes its memory. It may be told again, with another name of the peer.
    LinkMade = 3, 1 descriptors {
        /// The link's name.
        link: u64,
        /// The family that has the other end. It may be the own.
        peer: u64,
        /// Not 0 if that family stands for another host: the other party is the daemon, which carries all to that host.
        far: u8,
    }
    /// Nobody uses this link any more, and the other family is gone.
    LinkGone = 4, 0 descriptors {
        /// The link's name.
        link: u64,
    }
    /// With it comes the status page of a process at the other end of a link.
    PeerStatus = 5, 1 descriptors {
        /// The family of that process.
        family: u64,
        /// Its place among the members.
        member: u16,
    }
    /// With it comes the eventfd that wakes one waiter of a process whose status page came before.
    PeerBell = 6, 1 descriptors {
        /// The family of that process.
        family: u64,
        /// The waiter.
        waiter: WaiterName,
    }
    /// That process has ended.
    PeerGone = 7, 0 descriptors {
        /// The family of that process.
        family: u64,
        /// Its place among the members.
        member: u16,
    }
    /// Both ends of a connection were claimed: here is a channel for it. Its words are zero, unless a relative of the
    /// process has had this offer before.
    Offer = 8, 0 descriptors {
        /// The claimed end in the slab.
        slot: u32,
        /// The generation in the claim.
        generation: u32,
        /// The link's name.
        link: u64,
        /// The channel in the link.
        channel: u32,
        /// The end's party of the link: 0 or 1.
        party: u8,
        /// The first ring for what this end sends.
        ring: RingPlace,
        /// What [records](crate::Record) of this channel begin with. 0: the other end is on this host.
        secret: [u64; 2],
    }
    /// The answer to [`ToDaemon::WantRing`].
    RingMade = 9, 0 descriptors {
        /// The link's name.
        link: u64,
        /// The channel in the link.
        channel: u32,
        /// The party that sends by the ring.
        party: u8,
        /// The ring.
        ring: RingPlace,
    }
    /// A claim came to nothing.
    Dropped = 10, 0 descriptors {
        /// The claimed end in the slab.
        slot: u32,
        /// The generation in the claim.
        generation: u32,
        /// Why.
        reason: Reason,
    }
}

/// Something in a message.
pub(crate) trait Field: Sized {
    fn put(&self, encoded: &mut Encoded);
    fn take(rest: &mut &[u8]) -> Option<Self>;
}

macro_rules! numbers {
    ($($type:ty)+) => {$(
        impl Field for $type {
            fn put(&self, encoded: &mut Encoded) {
                encoded.put(&self.to_le_bytes());
            }

            fn take(rest: &mut &[u8]) -> Option<Self> {
                let (octets, behind) = rest.split_first_chunk()?;
                *rest = behind;
                Some(Self::from_le_bytes(*octets))
            }
        }
    )+};
}

numbers! { u8 u16 u32 u64 }

impl Field for [u64; 2] {
    fn put(&self, encoded: &mut Encoded) {
        self.iter().for_each(|word| word.put(encoded));
    }

    fn take(rest: &mut &[u8]) -> Option<Self> {
        Some([u64::take(rest)?, u64::take(rest)?])
    }
}

impl Field for RingPlace {
    fn put(&self, encoded: &mut Encoded) {
        self.unit.put(encoded);
        self.log2.put(encoded);
    }

    fn take(rest: &mut &[u8]) -> Option<Self> {
        Self::new(u32::take(rest)?, u8::take(rest)?)
    }
}

impl Field for Reason {
    fn put(&self, encoded: &mut Encoded) {
        encoded.put(&[*self as u8]);
    }

    fn take(rest: &mut &[u8]) -> Option<Self> {
        Self::from_number(u8::take(rest)?)
    }
}

impl Field for Prefixes {
    fn put(&self, encoded: &mut Encoded) {
        encoded.put(&[u8::try_from(self.digests().len()).unwrap_or(0)]);
        self.digests().iter().for_each(|digest| digest.put(encoded));
    }

    fn take(rest: &mut &[u8]) -> Option<Self> {
        let count = u8::take(rest)?;
        Self::from_digests((0..count).map(|_| u64::take(rest)))
    }
}

impl Field for Digests {
    fn put(&self, encoded: &mut Encoded) {
        self.written.put(encoded);
        self.received.put(encoded);
    }

    fn take(rest: &mut &[u8]) -> Option<Self> {
        Some(Self { written: Prefixes::take(rest)?, received: Prefixes::take(rest)? })
    }
}

impl Field for WaiterName {
    fn put(&self, encoded: &mut Encoded) {
        self.to_word().put(encoded);
    }

    fn take(rest: &mut &[u8]) -> Option<Self> {
        Self::from_word(u32::take(rest)?)
    }
}

impl Field for Option<WaiterName> {
    fn put(&self, encoded: &mut Encoded) {
        self.map_or(0, WaiterName::to_word).put(encoded);
    }

    fn take(rest: &mut &[u8]) -> Option<Self> {
        match u32::take(rest)? {
            0 => Some(None),
            word => WaiterName::from_word(word).map(Some),
        }
    }
}

/// The version of these messages, and of what the memory holds that they bring.
pub const VERSION: u16 = 6;
/// No message is longer.
pub const MESSAGE_LEN: usize = 128;
/// No message has more descriptors.
pub const MESSAGE_DESCRIPTORS: usize = 3;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn messages_are_read_back(kind: usize, octets in proptest::collection::vec(any::<u8>(), MESSAGE_LEN)) {
            if let Some(message) = ToDaemon::arbitrary(kind, &octets) {
                prop_assert_eq!(ToDaemon::decode(&message.encode()), Some(message));
                prop_assert!(message.descriptors() <= MESSAGE_DESCRIPTORS);
            }
            if let Some(message) = ToProcess::arbitrary(kind, &octets) {
                prop_assert_eq!(ToProcess::decode(&message.encode()), Some(message));
                prop_assert!(message.descriptors() <= MESSAGE_DESCRIPTORS);
            }
        }

        #[test]
        fn what_is_read_is_what_is_written(octets in proptest::collection::vec(any::<u8>(), 0..=MESSAGE_LEN + 1)) {
            if let Some(message) = ToDaemon::decode(&octets) {
                prop_assert_eq!(&*message.encode(), &octets[..]);
            }
            if let Some(message) = ToProcess::decode(&octets) {
                prop_assert_eq!(&*message.encode(), &octets[..]);
            }
        }
    }

    #[test]
    fn a_message_that_is_cut_or_longer_is_refused() {
        let ring = RingPlace::new(64, 16).expect("a place");
        let offer = ToProcess::Offer {
            slot: 7,
            generation: 8,
            link: 9,
            channel: 10,
            party: 1,
            ring,
            secret: [11, 12],
        };
        let octets = offer.encode();
        assert_eq!(ToProcess::decode(&octets), Some(offer));
        assert!((0..octets.len()).all(|len| ToProcess::decode(&octets[..len]).is_none()));
        let longer: Vec<u8> = octets.iter().copied().chain([0]).collect();
        assert_eq!(ToProcess::decode(&longer), None);
    }

    #[test]
    fn a_claim_has_all_digests_of_both_directions() {
        let [written, received] = [1, 2].map(|octet| Prefixes::of(&[octet; 256]));
        let claim = ToDaemon::Claim { slot: 7, generation: 8, digests: Digests { written, received } };
        let octets = claim.encode();
        assert_eq!((ToDaemon::decode(&octets), octets.len()), (Some(claim), 9 + 2 * 25));
        let none = ToDaemon::Claim { slot: 7, generation: 8, digests: Digests::default() }.encode();
        let mut more = none.to_vec();
        more[9] = 4;
        more.splice(10..10, [0; 32]);
        assert_eq!(ToDaemon::decode(&more), None, "there are three prefixes");
    }

    #[test]
    fn fields_that_name_nothing_are_refused() {
        let mut no_ring = ToDaemon::ReturnRing {
            link: 1,
            channel: 2,
            party: 0,
            ring: RingPlace::new(64, 16).expect("a place"),
        }
        .encode()
        .to_vec();
        if let Some(log2) = no_ring.last_mut() {
            *log2 = 40;
        }
        assert_eq!(ToDaemon::decode(&no_ring), None);
        assert_eq!(ToProcess::decode(&[2, 0]), None, "no reason has the number 0");
        assert_eq!(ToDaemon::decode(&[99]), None);
        assert_eq!(ToDaemon::decode(&[]), None);
    }
}
