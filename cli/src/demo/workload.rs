//! The workload of the demo: operations, sizes, numbers of messages, contents.

/// The operations of the demo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Send,
    Write,
    Read,
}

impl Operation {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Write => "write",
            Self::Read => "read",
        }
    }
}

/// Messages of one operation and size. Half of them go each way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    pub(crate) operation: Operation,
    pub(crate) size: u32,
    pub(crate) messages: u32,
}

pub(crate) fn rounds() -> impl Iterator<Item = Round> {
    [Operation::Send, Operation::Write, Operation::Read].into_iter().flat_map(|operation| {
        SIZES.into_iter().map(move |(size, messages)| Round { operation, size, messages })
    })
}

pub(crate) fn total_messages() -> u64 {
    rounds().map(|round| u64::from(round.messages)).sum()
}

/// Fills `octets` with contents that differ between messages and between places of a message.
pub(crate) fn fill(octets: &mut [u8], message: u64) {
    let mut state = message.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    for chunk in octets.chunks_mut(8) {
        // The step of a xorshift generator: cheap, and no two places of a message look alike.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        chunk.copy_from_slice(&state.to_le_bytes()[..chunk.len()]);
    }
}

/// The largest message.
pub(crate) const MAX_SIZE: u32 = 1 << 20;

const SIZES: [(u32, u32); 8] = [
    (1, 200),
    (64, 200),
    (1024, 200),
    (4096, 200),
    (16 << 10, 100),
    (64 << 10, 100),
    (256 << 10, 40),
    (MAX_SIZE, 20),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_differ() {
        let mut one = [0; 100];
        let mut two = [0; 100];
        fill(&mut one, 1);
        fill(&mut two, 2);
        assert_ne!(one, two);
        assert_ne!(one[..8], one[8..16]);
        assert!(one[92..].iter().any(|&octet| octet != 0));
    }
}
