//! Terminates by cause.

use weft_rdmap::Terminate;

/// Terminate messages by layer, error type and error code (RFC 5040 section 4.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TerminateCounters {
    by_cause: [u64; CAUSES.len()],
    /// Those whose codes no RFC has.
    pub other: u64,
}

impl TerminateCounters {
    /// How many said this. 0 also for codes that no RFC has, which [`Self::other`] counts together.
    pub fn of(&self, layer: u8, etype: u8, code: u8) -> u64 {
        place((layer, etype, code)).map_or(0, |place| self.by_cause[place])
    }

    /// Adds the counts of another engine.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.by_cause.iter_mut().zip(other.by_cause) {
            *mine += theirs;
        }
        self.other += other.other;
    }

    pub(crate) fn count(&mut self, terminate: &Terminate) {
        match place((terminate.layer, terminate.etype, terminate.code)) {
            Some(place) => self.by_cause[place] += 1,
            None => self.other += 1,
        }
    }

    pub(super) fn list(&self, direction: &str, list: &mut Vec<(String, u64)>) {
        let name = |cause: &str| format!("rdmap.terminates_{direction}.{cause}");
        for ((layer, etype, code), count) in CAUSES.into_iter().zip(self.by_cause) {
            list.push((name(&format!("{layer:x}/{etype:x}/{code:02x}")), count));
        }
        list.push((name("other"), self.other));
    }
}

impl Default for TerminateCounters {
    fn default() -> Self {
        Self { by_cause: [0; CAUSES.len()], other: 0 }
    }
}

/// A local catastrophic error of RDMAP has no codes of its own.
fn place((layer, etype, code): (u8, u8, u8)) -> Option<usize> {
    let code = if (layer, etype) == (0x0, 0x0) { 0x00 } else { code };
    CAUSES.iter().position(|&cause| cause == (layer, etype, code))
}

/// The codes of RFC 5040 section 4.8, RFC 5041 section 8.2, RFC 5044 section 8, RFC 6581 section 8 and RFC 7306
/// section 8.2.
const CAUSES: [(u8, u8, u8); 33] = [
    (0x0, 0x0, 0x00),
    (0x0, 0x1, 0x00),
    (0x0, 0x1, 0x01),
    (0x0, 0x1, 0x02),
    (0x0, 0x1, 0x03),
    (0x0, 0x1, 0x04),
    (0x0, 0x1, 0x09),
    (0x0, 0x1, 0xFF),
    (0x0, 0x2, 0x05),
    (0x0, 0x2, 0x06),
    (0x0, 0x2, 0x07),
    (0x0, 0x2, 0x08),
    (0x0, 0x2, 0x09),
    (0x0, 0x2, 0xFF),
    (0x1, 0x0, 0x00),
    (0x1, 0x1, 0x00),
    (0x1, 0x1, 0x01),
    (0x1, 0x1, 0x02),
    (0x1, 0x1, 0x03),
    (0x1, 0x1, 0x04),
    (0x1, 0x2, 0x01),
    (0x1, 0x2, 0x02),
    (0x1, 0x2, 0x03),
    (0x1, 0x2, 0x04),
    (0x1, 0x2, 0x05),
    (0x1, 0x2, 0x06),
    (0x2, 0x0, 0x01),
    (0x2, 0x0, 0x02),
    (0x2, 0x0, 0x03),
    (0x2, 0x0, 0x04),
    (0x2, 0x0, 0x05),
    (0x2, 0x0, 0x06),
    (0x2, 0x0, 0x07),
];

#[cfg(test)]
mod tests {
    use super::*;

    /// The table has what the layer that knows the words has, and nothing else.
    #[test]
    fn every_registered_cause_has_its_place() {
        let mut counters = TerminateCounters::default();
        for layer in 0..16 {
            for etype in 0..16 {
                for code in 0..=255 {
                    let terminate = Terminate::new(layer, etype, code);
                    // The lower layer's errors inside DDP's have no codes.
                    let is_known = !terminate.describe().contains("unknown") && (layer, etype) != (1, 3);
                    assert_eq!(place((layer, etype, code)).is_some(), is_known, "{layer}/{etype}/{code}");
                    counters.count(&terminate);
                }
            }
        }
        assert_eq!(counters.of(0x0, 0x0, 0x77), 256);
        assert_eq!(counters.of(0x2, 0x0, 0x02), 1);
        assert_eq!(counters.other, 65_536 - 256 - (CAUSES.len() as u64 - 1));
        let mut list = Vec::new();
        counters.list("received", &mut list);
        assert_eq!(list[6], ("rdmap.terminates_received.0/1/09".to_owned(), 1));
    }
}
