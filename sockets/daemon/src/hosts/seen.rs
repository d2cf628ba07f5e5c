//! What a daemon has seen at its last look at a channel, so that it passes by channels without news.

use weft_sockets::layout::Direction;
use weft_sockets::sync::Ordering;

use crate::link::Link;

/// The words of a process by which it tells its daemon something, and how often an end of its link was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    sender: [u64; 2],
    reader: [u64; 2],
    rare: [u32; 9],
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
                ours.legs.present.load(Ordering::Acquire),
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

#[cfg(test)]
mod tests {
    use weft_sockets::layout::ATTACHED;

    use super::*;

    /// Each of these words alone is news: a daemon that passed by would not tell them.
    #[test]
    fn what_a_process_tells_makes_the_next_look_differ() {
        let link = Link::create(1, [1, 2], [0, 0]).expect("a link");
        let [ours, theirs] = &link.memory.channel(0).expect("a channel").directions;
        let look = || Seen::new(ours, theirs, &link);
        let tells: [(&str, &dyn Fn()); 5] = [
            ("present", &|| ours.legs.present.store(1, Ordering::Relaxed)),
            ("a tail", &|| ours.producer.tail.store(7, Ordering::Relaxed)),
            ("a head", &|| theirs.consumer.head.store(7, Ordering::Relaxed)),
            ("attached", &|| theirs.reader.attached.store(ATTACHED, Ordering::Relaxed)),
            ("a question", &|| theirs.reader.please.store(1, Ordering::Relaxed)),
        ];
        for (what, tell) in tells {
            let before = look();
            assert_eq!(before, look());
            tell();
            assert_ne!(before, look(), "{what}");
        }
    }
}
