//! What an engine has sent and received, by kind of segment.

use weft_rdmap::Opcode;

/// Counts of one direction. A segment counts once, when MPA takes or yields it; what TCP repeats is not seen here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentCounters {
    /// MPA Request Frames.
    pub mpa_requests: u64,
    /// MPA Reply Frames.
    pub mpa_replies: u64,
    /// DDP segments by RDMAP opcode (the index).
    pub by_opcode: [u64; 16],
}

impl SegmentCounters {
    /// The names of all kinds and their counts, in the order of the opcodes.
    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let frames = [("mpa-request", self.mpa_requests), ("mpa-reply", self.mpa_replies)];
        let segments = (0_u8..).zip(self.by_opcode).filter_map(|(opcode, count)| {
            // Version 1 in the upper bits makes a control octet of it; those without a name are never counted.
            let opcode = Opcode::parse(CONTROL_VERSION | opcode).ok()?;
            Some((opcode.name(), count))
        });
        frames.into_iter().chain(segments)
    }

    /// Adds the counts of another engine or direction.
    pub fn add(&mut self, other: &Self) {
        self.mpa_requests += other.mpa_requests;
        self.mpa_replies += other.mpa_replies;
        for (mine, theirs) in self.by_opcode.iter_mut().zip(other.by_opcode) {
            *mine += theirs;
        }
    }

    pub(crate) fn count(&mut self, control: u8) {
        if let Ok(opcode) = Opcode::parse(control) {
            self.by_opcode[opcode as usize] += 1;
        }
    }
}

/// Everything that an engine counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Segments sent.
    pub sent: SegmentCounters,
    /// Segments received, with good CRC.
    pub received: SegmentCounters,
    /// Connections that failed in MPA startup: bad frames, time-outs, early closes.
    pub startup_failures: u64,
    /// Terminate messages for which this side is the cause.
    pub terminates: u64,
}

/// RDMAP version 1 in a control octet (RFC 5040 section 4.1).
const CONTROL_VERSION: u8 = 0x40;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_follow_the_opcodes() {
        let mut counters = SegmentCounters { mpa_requests: 1, ..SegmentCounters::default() };
        counters.count(Opcode::SendInvalidate.control());
        counters.count(Opcode::AtomicResponse.control());
        counters.count(0xFF);
        let mut sum = counters;
        sum.add(&counters);
        let seen: Vec<_> = sum.kinds().filter(|&(_, count)| count > 0).collect();
        assert_eq!(seen, [("mpa-request", 2), ("send-inv", 2), ("atomic-response", 2)]);
    }
}
