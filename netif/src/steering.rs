//! The choice of a queue, and so of a stack, for a connection by its ports.

/// Returns the queue of a connection between two ports, the same at either end. A device that can be told this
/// (`packet` with several sockets) puts the connection's frames there.
///
/// The bits of the ports are mixed, since ports follow each other or are all even.
#[must_use]
pub fn queue_of(ports: [u16; 2], queues: usize) -> usize {
    let mixed = u32::from(ports[0] ^ ports[1]).wrapping_mul(MULTIPLIER) >> 16;
    mixed as usize % queues.max(1)
}

/// 2^32 divided by the golden ratio, made odd.
pub(crate) const MULTIPLIER: u32 = 0x9E37_79B1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_as_kernels_choose_them_are_spread() {
        for queues in 1..9 {
            for step in 1..5 {
                let mut counts = vec![0; queues];
                for index in 0..1024 {
                    let ports = [4791, 32_768 + index * step];
                    let queue = queue_of(ports, queues);
                    assert_eq!(queue_of([ports[1], ports[0]], queues), queue);
                    counts[queue] += 1;
                }
                let fair = 1024 / queues;
                assert!(counts.iter().all(|&count| count > fair / 2 && count < fair * 2), "{counts:?}");
            }
        }
    }
}
