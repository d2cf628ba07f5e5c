//! What a daemon has seen at its last look at a channel, so that it passes by channels without news.

use weft_sockets::layout::Direction;
use weft_sockets::sync::Ordering;

use crate::link::Link;

/// The words of a process by which it tells its daemon something, and how often an end of its link was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    sender: [u64; 2],
    reader: [u64; 2],
    rare: [u32; 8],
    closed: u64,
}

impl Seen {
    /// Looks at the words of what a process sends, and of what it reads. What it tells behind this look makes the next one
    /// differ.
    pub(crate) fn new(ours: &Direction, theirs: &Direction, link: &Link) -> Self {
        let (producer, wishes) = (&ours.producer, &theirs.reader);
        Self {
            sender: [producer.tail.load(Ordering::Acquire), ours.legs.leg.load(Ordering::Acquire)],
            reader: [
                theirs.consumer.head.load(Ordering::Acquire),
                theirs.consumer.adopted.load(Ordering::Acquire),
            ],
            rare: [
                u32::from(producer.flags.load(Ordering::Acquire)),
                ours.reader.attached.load(Ordering::Acquire),
                ours.reader.please.load(Ordering::Acquire),
                wishes.attached.load(Ordering::Acquire),
                wishes.please.load(Ordering::Acquire),
                wishes.wide.load(Ordering::Acquire),
                wishes.left.load(Ordering::Acquire),
                wishes.why.load(Ordering::Acquire),
            ],
            closed: link.closed,
        }
    }
}
