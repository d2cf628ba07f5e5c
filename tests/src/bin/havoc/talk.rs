//! What two workers say to each other over a connection.

use std::io::{self, Error, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// A connection's state, which the watch looks at.
#[derive(Debug)]
pub(crate) struct Talk {
    pub(crate) id: u64,
    /// Octets that were verified.
    pub(crate) verified: AtomicU64,
    /// Its thread has ended.
    pub(crate) is_over: AtomicBool,
}

/// A direction of a connection: its octets follow from its number and their positions.
struct Direction {
    number: u64,
    position: u64,
}

impl Talk {
    pub(crate) fn new(id: u64) -> Self {
        Self { id, verified: AtomicU64::new(0), is_over: AtomicBool::new(false) }
    }

    /// Asks and reads answers, until `is_last` says that this round is the last one. Then it waits for the end.
    pub(crate) fn ask(&self, mut stream: &TcpStream, is_last: impl Fn() -> bool) -> io::Result<()> {
        stream.write_all(&self.id.to_le_bytes())?;
        let (mut out, mut inward) = (Direction::new(self.id, 0), Direction::new(self.id, 1));
        let mut chance = self.id;
        loop {
            let is_last = is_last();
            let len = length(&mut chance);
            let header = [len.to_le_bytes(), u32::from(is_last).to_le_bytes()].concat();
            stream.write_all(&header)?;
            stream.write_all(&out.octets(len))?;
            self.verify(stream, &mut inward, len)?;
            if is_last {
                stream.shutdown(std::net::Shutdown::Write)?;
                return end(stream);
            }
            if !chance.is_multiple_of(4) {
                std::thread::sleep(Duration::from_millis(chance % 64));
            }
        }
    }

    /// Answers until the other side says that a round was the last one.
    pub(crate) fn answer(&self, mut stream: &TcpStream) -> io::Result<()> {
        let (mut inward, mut out) = (Direction::new(self.id, 0), Direction::new(self.id, 1));
        loop {
            let mut header = [0; 8];
            stream.read_exact(&mut header)?;
            let len = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
            if len > LONGEST || header[4] > 1 {
                return Err(Error::new(ErrorKind::InvalidData, format!("a header of {header:?}")));
            }
            self.verify(stream, &mut inward, len)?;
            stream.write_all(&out.octets(len))?;
            if header[4] == 1 {
                end(stream)?;
                return stream.shutdown(std::net::Shutdown::Write);
            }
        }
    }

    fn verify(&self, mut stream: &TcpStream, direction: &mut Direction, len: u32) -> io::Result<()> {
        let mut left = len as usize;
        let mut buffer = vec![0; left.min(50_000)];
        while left > 0 {
            let limit = buffer.len().min(left);
            let got = stream.read(&mut buffer[..limit])?;
            if got == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            let position = direction.position;
            if direction.octets(u32::try_from(got).unwrap_or(u32::MAX)) != buffer[..got] {
                let reason = format!("wrong octets from {position} on");
                return Err(Error::new(ErrorKind::InvalidData, reason));
            }
            left -= got;
            self.verified.fetch_add(got as u64, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Direction {
    fn new(id: u64, direction: u64) -> Self {
        Self { number: id * 2 + direction, position: 0 }
    }

    /// Returns the next octets.
    fn octets(&mut self, len: u32) -> Vec<u8> {
        let start = self.position;
        self.position += u64::from(len);
        let octet = |position: u64| {
            (position + (self.number << 40)).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[0]
        };
        (start..self.position).map(octet).collect()
    }
}

/// Waits for the end of the other side's octets.
fn end(mut stream: &TcpStream) -> io::Result<()> {
    match stream.read(&mut [0; 16])? {
        0 => Ok(()),
        more => Err(Error::new(ErrorKind::InvalidData, format!("{more} octets behind the last ones"))),
    }
}

/// Returns the length of a message: most are short, and some longer than all buffers.
fn length(chance: &mut u64) -> u32 {
    *chance =
        chance.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f) ^ (*chance >> 31);
    let limits = [8, 40, 41, 700, 5000, 20_000, 70_000, LONGEST];
    let limit = u64::from(limits[(*chance >> 40) as usize % limits.len()]);
    u32::try_from(1 + (*chance >> 20) % limit).unwrap_or(1)
}

const LONGEST: u32 = 300_000;
