//! Arbitrary octets: no panic, and no more output than input.

use weft_cli::fuzzing;

use crate::trace::{CRC, MARKERS, Trace, data, vector};

/// A linear congruential generator: the same numbers everywhere, forever.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % limit as u64).unwrap()
    }

    fn octet(&mut self) -> u8 {
        u8::try_from(self.below(256)).unwrap()
    }
}

#[test]
fn mutated_captures() {
    let mut trace = Trace::with_startup([u32::MAX - 600, 7], [CRC, MARKERS]);
    trace.send(0, &vector("m-between"));
    trace.send(1, &vector("term-ddp-stag"));
    trace.send(0, &vector("m-1400"));
    let seeds = [trace.octets, std::fs::read(data("siw-crc-p2p-rping.pcap")).unwrap()];
    for seed in 0..400 {
        let mut random = Random(seed);
        let mut octets = seeds[random.below(2)].clone();
        for _ in 0..=random.below(40) {
            let at = 24 + random.below(octets.len() - 24);
            match random.below(4) {
                0 => octets[at] = random.octet(),
                1 => octets[at] ^= 1 << random.below(8),
                2 => drop(octets.drain(at..(at + random.below(100)).min(octets.len()))),
                _ => {
                    let from = random.below(octets.len());
                    let part = octets[from..(from + random.below(200)).min(octets.len())].to_vec();
                    octets.splice(at..at, part);
                }
            }
            if octets.len() < 100 {
                break;
            }
        }
        println!("seed {seed}");
        fuzzing::capture(&octets);
    }
}

#[test]
fn plain_noise_and_plausible_packets() {
    let mut records = 0;
    for seed in 0..300 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let mut octets = Vec::new();
        // Both ends begin with startup frames, so that the FPDU reader is reached.
        for (from, name) in [(0, "mpa-req1"), (1, "mpa-rep1")] {
            octets.extend([from, 0, 20, 0]);
            octets.extend(vector(name));
        }
        for _ in 0..random.below(30) {
            let fpdu =
                vector(["send5", "write8", "rreq", "atomic-cas", "term-rdmap-bounds"][random.below(5)]);
            let cut = if random.below(3) == 0 { random.below(fpdu.len()) } else { fpdu.len() };
            octets.extend([random.octet() & 0x0d, random.octet(), u8::try_from(cut).unwrap(), 0]);
            octets.extend(&fpdu[..cut]);
            if random.below(4) == 0 {
                octets.extend((0..random.below(50)).map(|_| 0xff));
            }
        }
        records += fuzzing::capture(&octets);
    }
    assert!(records > 1000, "only {records} records: the decoder was hardly reached");
}
