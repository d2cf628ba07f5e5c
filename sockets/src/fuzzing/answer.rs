//! What a daemon tells a process or a command.

use crate::layout::{ATTACHED, End, LINK_LEN, RINGS_AT};
use crate::sync::Ordering;
use crate::{Answer, Carrier, Inbound, Link, Outbound, RingPlace, Slab, ToProcess};

/// Reads `data` as messages, each with its length before it: answers to a command, and what a process is told. What is
/// read has to be written as the same octets. The process takes each channel and each ring that it is offered, and
/// sends by it. Whatever the numbers, it writes into that ring alone.
///
/// # Panics
/// If a message is written otherwise, is both kinds at once, or has the process write elsewhere.
pub fn answers(data: &[u8]) {
    let mut process = None;
    let mut rest = data;
    while let Some((len, behind)) = rest.split_first() {
        let octets = behind.get(..usize::from(*len)).unwrap_or(behind);
        rest = behind.get(usize::from(*len)..).unwrap_or_default();
        let (answer, message) = (Answer::decode(octets), ToProcess::decode(octets));
        assert!(answer.is_none() || message.is_none(), "an answer that is a message of processes, too");
        if let Some(answer) = answer {
            assert_eq!(&*answer.encode(), octets);
        }
        if let Some(message) = message {
            assert_eq!(&*message.encode(), octets);
            process.get_or_insert_with(Process::new).hear(message);
        }
    }
}

/// A process with one link. Its own slab says what it has been offered.
struct Process {
    link: Link,
    slab: Slab,
}

impl Process {
    fn new() -> Self {
        let link = Link::map(Link::create().expect("memory")).expect("a link");
        let slab = Slab::map(Slab::create().expect("memory")).expect("a slab");
        Self { link, slab }
    }

    fn hear(&self, message: ToProcess) {
        match message {
            ToProcess::Offer { slot, channel, party, ring, .. } => {
                check_place(ring);
                if let Some(end) = self.slab.end(slot) {
                    self.take(end, channel, party.into(), ring);
                }
            }
            ToProcess::RingMade { channel, party, ring, .. } => {
                check_place(ring);
                if let Some(end) = self.slab.end(0) {
                    self.take(end, channel, party.into(), ring);
                }
            }
            _ => {}
        }
    }

    /// Uses a channel as an end does whose reader has attached.
    fn take(&self, end: &End, channel: u32, party: u32, ring: RingPlace) {
        let outbound = Outbound::new(&end.outbound, &self.link, channel, party);
        let inbound = Inbound::new(&end.inbound, &self.link, channel, party);
        assert_eq!(outbound.is_some(), inbound.is_some(), "half a channel");
        assert_eq!(outbound.is_some(), self.link.channel(channel).is_some());
        let (Some(outbound), Some(inbound)) = (outbound, inbound) else { return };
        outbound.shared.reader.attached.store(ATTACHED, Ordering::Relaxed);
        let begun = if outbound.commit() { outbound.begin_leg(Carrier::Ring(ring)) } else { Ok(false) };
        if begun == Ok(true) {
            assert_eq!(outbound.own.leg().carrier, Carrier::Ring(ring));
            self.send(&outbound, ring);
        }
        // Offers may give the process both ends of a channel. Then it reads what it has sent itself.
        let mut found = [0; 16];
        if let Ok(len) = inbound.read(&mut found) {
            assert_eq!(found[..len], PIECE[..len], "octets of nobody");
        }
    }

    /// Sends as much as the ring takes. All of it is in the ring then.
    fn send(&self, outbound: &Outbound<'_>, ring: RingPlace) {
        let start = outbound.own.written.load(Ordering::Relaxed);
        let mut sent = 0;
        while let Ok(len @ 1..) = outbound.write(&PIECE) {
            let at = usize::try_from((start + sent) % ring.len()).expect("a place in a ring");
            let before = len.min(usize::try_from(ring.len()).expect("a length") - at);
            for (at, len) in [(at, before), (0, len - before)] {
                let mut found = vec![0; len];
                assert!(self.link.ring(ring).read(at, &mut found));
                assert_eq!(found, PIECE[..len], "octets elsewhere than in the ring");
            }
            sent += len as u64;
            assert!(sent <= ring.len(), "more than the ring holds");
        }
        assert_eq!(sent, ring.len());
    }
}

/// The ring lies where rings may lie.
fn check_place(ring: RingPlace) {
    let end = ring.offset().checked_add(ring.len());
    assert!(
        ring.offset() >= RINGS_AT && end.is_some_and(|end| end <= LINK_LEN),
        "a ring elsewhere: {ring:?}"
    );
}

/// What the process sends.
static PIECE: [u8; 50_000] = [0xa7; 50_000];
