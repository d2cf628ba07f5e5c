//! The daemon of a model: it matches the claims of two ends and gives out rings, by the real messages.

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use weft_sockets::{Claim, Claimant, Claims, Digests, Outcome, Tuple};
use weft_sockets_stepped::{Encoded, RingPlace, ToDaemon, ToProcess};

use super::shared::Shared;

/// The daemon, and the messages that are on their way.
#[derive(Debug, Default)]
pub(super) struct Daemon {
    claims: Claims,
    pub(super) orders: [VecDeque<Encoded>; 2],
    pub(super) mail: [Vec<Encoded>; 2],
    /// The rings that are given out, by their units, and the parties that send by them.
    rings: BTreeMap<u32, (usize, RingPlace)>,
    /// Both ends have a channel.
    is_joined: bool,
}

/// The channel of the connection.
pub(super) const CHANNEL: u32 = 7;
const LINK: u64 = 9;
/// Places of rings: a ring of the largest size fits at each.
const UNITS: core::ops::Range<u32> = 64..76;

impl Daemon {
    /// Sends a message to the daemon.
    pub(super) fn tell(&mut self, party: usize, message: &ToDaemon) {
        self.orders[party].push_back(message.encode());
    }

    /// Takes the next message of a party.
    pub(super) fn handle(&mut self, shared: &Shared, party: usize) {
        let Some(order) = self.orders[party].pop_front() else { return };
        match ToDaemon::decode(&order).expect("a message") {
            ToDaemon::Claim { slot, generation, .. } => self.claim(shared, party, slot, generation),
            ToDaemon::WantRing { link, channel, party: of, log2 } => {
                assert_eq!((link, channel, usize::from(of)), (LINK, CHANNEL, party));
                let Some(ring) = self.give(party, log2) else { return };
                self.post(party, &ToProcess::RingMade { link, channel, party: of, ring });
            }
            ToDaemon::ReturnRing { ring, .. } => {
                assert_eq!(self.rings.remove(&ring.unit), Some((party, ring)), "a ring that was given out");
                // A party that still reads there reads this.
                let octets = vec![0xff; usize::try_from(ring.len()).expect("a size")];
                assert!(shared.link.ring(ring).write(0, &octets));
            }
            other => panic!("nobody sends {other:?}"),
        }
    }

    fn claim(&mut self, shared: &Shared, party: usize, slot: u32, generation: u32) {
        if self.is_joined {
            return;
        }
        let address = |port: u16| ([127, 0, 0, 1], port).into();
        let ports = if party == 0 { (1, 2) } else { (2, 1) };
        let (written, consumed) = shared.kernel(party);
        let claim = Claim {
            tuple: Tuple::new(1, address(ports.0), address(ports.1)),
            window_scales: (7, 7),
            options: 7,
            written,
            consumed,
            digests: Digests::default(),
            is_far: false,
        };
        let process = u64::try_from(party).expect("a number");
        match self.claims.handle_claim(Duration::ZERO, Claimant { process, slot, generation }, claim) {
            Outcome::Matched(other) => {
                self.is_joined = true;
                for claimant in [other, Claimant { process, slot, generation }] {
                    self.offer(claimant);
                }
            }
            Outcome::Waits { .. } => {}
        }
    }

    fn offer(&mut self, claimant: Claimant) {
        let to = usize::try_from(claimant.process).expect("a number");
        let ring = self.give(to, weft_sockets_stepped::MIN_LOG2).expect("a first ring");
        let Claimant { slot, generation, .. } = claimant;
        let party = u8::try_from(to).expect("a number");
        let offer =
            ToProcess::Offer { slot, generation, link: LINK, channel: CHANNEL, party, ring, secret: [0; 2] };
        self.post(to, &offer);
    }

    fn give(&mut self, party: usize, log2: u8) -> Option<RingPlace> {
        let unit = UNITS.into_iter().find(|unit| !self.rings.contains_key(unit))?;
        let ring = RingPlace::new(unit, log2)?;
        self.rings.insert(unit, (party, ring));
        Some(ring)
    }

    fn post(&mut self, party: usize, message: &ToProcess) {
        self.mail[party].push(message.encode());
    }
}

/// Returns the message by which a party asks for a larger ring.
pub(super) fn wish(party: usize, log2: u8) -> ToDaemon {
    ToDaemon::WantRing { link: LINK, channel: CHANNEL, party: u8::try_from(party).expect("a number"), log2 }
}

/// Returns the message by which a party gives a ring back.
pub(super) fn gift(party: usize, ring: RingPlace) -> ToDaemon {
    ToDaemon::ReturnRing { link: LINK, channel: CHANNEL, party: u8::try_from(party).expect("a number"), ring }
}
