//! The bodies of the fuzz targets over seeded input, so that `cargo test` alone finds inputs that break them.

use weft_mpa::fuzzing;

/// xorshift64*, which makes the same input from the same seed everywhere.
struct Random(u64);

impl Random {
    fn octet(&mut self) -> u8 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D).to_be_bytes()[0]
    }

    fn octets(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.octet()).collect()
    }
}

#[test]
fn startup_holds_on_seeded_input() {
    for seed in 1..=600 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let key: &[u8] = if seed % 2 == 0 { b"MPA ID Req Frame" } else { b"MPA ID Rep Frame" };
        let len = random.octet();
        let mut data = key.to_vec();
        // Most frames pass the first checks: they have a known revision, and a length that the octets can fill.
        data.extend([random.octet(), 1 + random.octet() % 2, 0, len % 64]);
        data.extend(random.octets(usize::from(len)));
        if seed % 5 == 0 {
            let at = usize::from(random.octet()) % data.len();
            data[at] ^= 1 << (random.octet() % 8);
        }
        fuzzing::startup(&data);
        fuzzing::startup(&data[..usize::from(random.octet()) % data.len()]);
    }
}

#[test]
fn deframe_holds_on_seeded_input() {
    for seed in 1..=400 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let mut data = vec![random.octet(), random.octet()];
        // Some octets are short length fields, so that a random stream is more than one endless FPDU.
        for _ in 0..random.octet() % 24 {
            let len = random.octet();
            data.extend([0, len]);
            data.extend(random.octets(usize::from(len)));
        }
        fuzzing::deframe(&data);
    }
}

#[test]
fn locate_holds_on_seeded_input() {
    for seed in 1..=400 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let len = usize::from(random.octet()) * 16 + 5;
        fuzzing::locate(&random.octets(len));
    }
}

#[test]
fn tiny_inputs_do_not_panic() {
    for len in 0..40 {
        for fill in [0x00, 0x01, 0x4D, 0xFF] {
            fuzzing::startup(&vec![fill; len]);
            fuzzing::deframe(&vec![fill; len]);
            fuzzing::locate(&vec![fill; len]);
        }
    }
}
