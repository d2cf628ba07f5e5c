//! Ready flags: how a reader of many channels finds those that have octets.

use crate::layout::{LINE_OCTETS, READY_LINES, ReadyFlags};
use crate::sync::Ordering;

impl ReadyFlags {
    /// Sets the flag of a channel, behind the store of its tail. Always, and by release stores: a flag that is stored
    /// only if it is not set yet could be taken between the look and the store of the tail.
    #[inline]
    pub(crate) fn raise(&self, channel: u32) {
        let (line, octet) = place(channel);
        if let (Some(flags), Some(summary)) = (self.lines.get(line), self.summary.0.get(line))
            && let Some(flag) = flags.0.get(octet)
        {
            flag.store(1, Ordering::Release);
            summary.store(1, Ordering::Release);
        }
    }

    /// Takes all flags and calls `each` with every channel that has one. `each` looks at the channel's tail: what is
    /// published later sets the flag again. A peer may set flags of channels that do not exist or have no octets.
    #[inline]
    pub fn collect(&self, mut each: impl FnMut(u32)) {
        for (line, (flags, summary)) in self.lines.iter().zip(&self.summary.0).enumerate() {
            // The exchange only if it takes something: it costs more than a look.
            if summary.load(Ordering::Relaxed) == 0 || summary.swap(0, Ordering::Acquire) == 0 {
                continue;
            }
            for (octet, flag) in flags.0.iter().enumerate() {
                if flag.load(Ordering::Relaxed) != 0 && flag.swap(0, Ordering::Acquire) != 0 {
                    each(u32::try_from(octet * READY_LINES + line).unwrap_or(0));
                }
            }
        }
    }
}

/// The line, below the summary, and the octet in it that belong to a channel. Neighbours share no line while there are
/// few.
const fn place(channel: u32) -> (usize, usize) {
    let channel = channel as usize;
    (channel % READY_LINES, channel / READY_LINES % LINE_OCTETS)
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use crate::layout::CHANNELS;
    use crate::memory::Link;

    #[test]
    fn each_channel_has_a_flag_that_is_taken_once() {
        let link = Link::map(Link::create().unwrap()).unwrap();
        let flags = link.ready(1);
        let collect = || {
            let mut channels = vec![];
            flags.collect(|channel| channels.push(channel));
            channels.sort_unstable();
            channels
        };
        assert_eq!(collect(), []);
        let some = [0, 1, 62, 63, 64, 4000, CHANNELS - 1];
        some.iter().for_each(|channel| flags.raise(*channel));
        flags.raise(63);
        assert_eq!(collect(), some);
        assert_eq!(collect(), []);
        (0..CHANNELS).for_each(|channel| flags.raise(channel));
        assert_eq!(collect(), (0..CHANNELS).collect::<Vec<_>>());
        flags.raise(u32::MAX);
        assert!(collect().iter().all(|channel| *channel < CHANNELS));
    }
}
