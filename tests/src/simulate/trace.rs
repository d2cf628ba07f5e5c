//! The events of a run, as a hash and, if a user wants to read them, as lines.

use std::any::Any;
use std::fmt::{self, Write};

use weft_netif::Instant;

/// Notes events. Two runs had the same events if their hashes are the same.
#[derive(Debug)]
pub(crate) struct Trace {
    hash: u64,
    lines: Option<Vec<String>>,
}

impl Trace {
    pub(crate) fn new(keep: bool) -> Self {
        Self { hash: OFFSET, lines: keep.then(Vec::new) }
    }

    pub(crate) fn note(&mut self, now: Instant, what: fmt::Arguments<'_>) {
        self.number(now.total_micros().unsigned_abs());
        if let Some(lines) = &mut self.lines {
            let line = format!("{:>12} us  {what}", now.total_micros());
            self.hash = fold(self.hash, line.as_bytes().get(17..).unwrap_or_default());
            lines.push(line);
        } else {
            // A write to the hash never fails.
            let _hashed = Hasher(&mut self.hash).write_fmt(what);
        }
    }

    /// Notes a frame on the wire: its length and some of its octets.
    pub(crate) fn frame(&mut self, now: Instant, from: usize, frame: &[u8]) {
        self.number(now.total_micros().unsigned_abs());
        self.number((from as u64) << 32 | frame.len() as u64);
        self.hash = fold(self.hash, &frame[frame.len().min(14)..frame.len().min(62)]);
        self.hash = fold(self.hash, &frame[frame.len().saturating_sub(8)..]);
    }

    pub(crate) const fn hash(&self) -> u64 {
        self.hash
    }

    pub(crate) fn into_lines(self) -> Vec<String> {
        self.lines.unwrap_or_default()
    }

    fn number(&mut self, number: u64) {
        self.hash = fold(self.hash, &number.to_le_bytes());
    }
}

/// Returns the message of a panic.
pub(crate) fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a text")
}

struct Hasher<'a>(&'a mut u64);

impl Write for Hasher<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        *self.0 = fold(*self.0, text.as_bytes());
        Ok(())
    }
}

/// FNV-1a.
fn fold(hash: u64, octets: &[u8]) -> u64 {
    octets.iter().fold(hash, |hash, &octet| (hash ^ u64::from(octet)).wrapping_mul(PRIME))
}

const OFFSET: u64 = 0xCBF2_9CE4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01B3;
