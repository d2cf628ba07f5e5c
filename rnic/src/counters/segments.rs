//! Segments by kind.

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
    /// Octets behind the DDP headers of these segments, by RDMAP opcode.
    pub octets_by_opcode: [u64; 16],
}

impl SegmentCounters {
    /// The names of all kinds and their counts, in the order of the opcodes.
    pub fn kinds(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let frames = [("mpa-request", self.mpa_requests), ("mpa-reply", self.mpa_replies)];
        frames.into_iter().chain(opcodes().map(|(name, index)| (name, self.by_opcode[index])))
    }

    /// Adds the counts of another engine or direction.
    pub fn add(&mut self, other: &Self) {
        self.mpa_requests += other.mpa_requests;
        self.mpa_replies += other.mpa_replies;
        for (mine, theirs) in self.by_opcode.iter_mut().zip(other.by_opcode) {
            *mine += theirs;
        }
        for (mine, theirs) in self.octets_by_opcode.iter_mut().zip(other.octets_by_opcode) {
            *mine += theirs;
        }
    }

    pub(crate) fn count(&mut self, control: u8, octets: usize) {
        if let Ok(opcode) = Opcode::parse(control) {
            self.by_opcode[opcode as usize] += 1;
            self.octets_by_opcode[opcode as usize] += octets as u64;
        }
    }

    pub(super) fn list(&self, direction: &str, list: &mut Vec<(String, u64)>) {
        for (name, index) in opcodes() {
            let counts = [("segments", self.by_opcode[index]), ("octets", self.octets_by_opcode[index])];
            list.extend(counts.map(|(unit, count)| (format!("rdmap.{name}.{unit}_{direction}"), count)));
        }
    }
}

/// The names of the opcodes, and their numbers; others are never counted.
fn opcodes() -> impl Iterator<Item = (&'static str, usize)> {
    Opcode::ALL.iter().map(|&opcode| (opcode.name(), opcode as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_follow_the_opcodes() {
        let mut counters = SegmentCounters { mpa_requests: 1, ..SegmentCounters::default() };
        counters.count(Opcode::SendInvalidate.control(), 100);
        counters.count(Opcode::AtomicResponse.control(), 12);
        counters.count(0xFF, 1000);
        let mut sum = counters;
        sum.add(&counters);
        let seen: Vec<_> = sum.kinds().filter(|&(_, count)| count > 0).collect();
        assert_eq!(seen, [("mpa-request", 2), ("send-inv", 2), ("atomic-response", 2)]);
        let mut list = Vec::new();
        sum.list("sent", &mut list);
        list.retain(|&(_, count)| count > 0);
        let named = |name: &str, count| (format!("rdmap.{name}_sent"), count);
        let expected = [
            named("send-inv.segments", 2),
            named("send-inv.octets", 200),
            named("atomic-response.segments", 2),
            named("atomic-response.octets", 24),
        ];
        assert_eq!(list, expected);
    }
}
