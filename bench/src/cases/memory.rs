//! The cost of a copy from registered memory with CRC32c, against a copy alone and against two passes.

use std::hint::black_box;

use weft_rnic::CLOCK_SCALE;
use weft_verbs::{Region, crc};

use crate::case::{Case, Effort, Quantity, Reference, Sample, Side, Sides, Trouble};
use crate::octets::{compare, pattern};
use crate::watch::Watch;

pub(super) static CASES: [Case; 12] = [
    sums::<64>("memory/crc/64"),
    sums::<256>("memory/crc/256"),
    sums::<1448>("memory/crc/1448"),
    sums::<4096>("memory/crc/4096"),
    sums::<65_536>("memory/crc/65536"),
    sums::<1_048_576>("memory/crc/1048576"),
    copies::<64>("memory/copy-crc/64"),
    copies::<256>("memory/copy-crc/256"),
    copies::<1448>("memory/copy-crc/1448"),
    copies::<4096>("memory/copy-crc/4096"),
    copies::<65_536>("memory/copy-crc/65536"),
    copies::<1_048_576>("memory/copy-crc/1048576"),
];

const fn sums<const LEN: usize>(name: &'static str) -> Case {
    Case {
        name,
        quantity: Quantity::Throughput,
        references: &SUM_REFERENCES,
        clock_scale: CLOCK_SCALE,
        open: |_, _| {
            let ours = Sums { sum: crc::append, ..Sums::new(LEN) };
            Ok(Sides { ours: Box::new(ours), references: vec![Box::new(Sums::new(LEN))] })
        },
    }
}

const fn copies<const LEN: usize>(name: &'static str) -> Case {
    Case {
        name,
        quantity: Quantity::Throughput,
        references: &COPY_REFERENCES,
        clock_scale: CLOCK_SCALE,
        open: |_, _| {
            let side = |how| Copies::new(LEN, how).map(|side| Box::new(side) as Box<dyn Side>);
            Ok(Sides { ours: side(How::Fused)?, references: vec![side(How::Alone)?, side(How::Twice)?] })
        },
    }
}

/// The CRC of octets that are in a cache.
struct Sums {
    octets: Vec<u8>,
    sum: fn(u32, &[u8]) -> u32,
}

impl Sums {
    fn new(len: usize) -> Self {
        Self { octets: pattern(len), sum: crc32c::crc32c_append }
    }
}

impl Side for Sums {
    fn turn(&mut self, effort: &Effort) -> Result<Sample, Trouble> {
        let mut watch = Watch::new(effort);
        let (len, expected) = (self.octets.len(), crc32c::crc32c(&self.octets));
        let calls = calls(len);
        while watch.goes_on() {
            let good: u64 = watch.time(|| {
                (0..calls).map(|_| u64::from((self.sum)(0, black_box(&self.octets)) == expected)).sum()
            });
            watch.count(calls, calls * len as u64, good);
        }
        Ok(watch.finish())
    }
}

/// Copies from a region into a buffer.
struct Copies {
    region: Region,
    sent: Vec<u8>,
    out: Vec<u8>,
    how: How,
}

#[derive(Clone, Copy)]
enum How {
    Fused,
    Alone,
    Twice,
}

impl Copies {
    fn new(len: usize, how: How) -> Result<Self, Trouble> {
        let (sent, out) = (pattern(len), vec![0; len]);
        let region = Region::owned(len).ok_or_else(|| Trouble::failed("no memory"))?;
        if region.copy_in(0, &sent) { Ok(Self { region, sent, out, how }) } else { Err(out_of_bounds()) }
    }

    fn copy(&mut self) -> Option<u32> {
        match self.how {
            How::Fused => self.region.copy_out_with_crc(0, black_box(&mut self.out), 0),
            How::Alone => self.region.copy_out(0, black_box(&mut self.out)).then_some(0),
            How::Twice => {
                let copied = self.region.copy_out(0, black_box(&mut self.out));
                copied.then(|| crc32c::crc32c(black_box(&self.out)))
            }
        }
    }
}

impl Side for Copies {
    fn turn(&mut self, effort: &Effort) -> Result<Sample, Trouble> {
        let mut watch = Watch::new(effort);
        let len = self.sent.len();
        let calls = calls(len);
        let expected = match self.how {
            How::Alone => 0,
            How::Fused | How::Twice => crc32c::crc32c(&self.sent),
        };
        while watch.goes_on() {
            let good: u64 = watch.time(|| (0..calls).map(|_| u64::from(self.copy() == Some(expected))).sum());
            compare(&self.out, &self.sent)?;
            self.out.fill(0);
            watch.count(calls, calls * len as u64, good);
        }
        Ok(watch.finish())
    }
}

fn out_of_bounds() -> Trouble {
    Trouble::failed("the region is too small")
}

static SUM_REFERENCES: [Reference; 1] = [Reference::shown("the crc32c crate")];
static COPY_REFERENCES: [Reference; 2] =
    [Reference::shown("memcpy"), Reference::shown("memcpy, then the crc32c crate")];

/// Calls of one round: enough for the clock's resolution.
const fn calls(len: usize) -> u64 {
    (ROUND / len) as u64
}

const ROUND: usize = 4 << 20;
