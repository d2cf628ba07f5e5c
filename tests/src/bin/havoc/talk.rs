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
    /// The addresses of both ends.
    pub(crate) addresses: String,
    /// Its thread has ended, or another process receives.
    pub(crate) is_over: AtomicBool,
    /// Milliseconds of the longest rest between two messages.
    rest: u64,
}

/// How far both directions are when a child begins to share them.
pub(crate) struct Share {
    out: Direction,
    inward: Direction,
    chance: u64,
    rest: u64,
}

/// A direction of a connection: its octets follow from its number and their positions.
struct Direction {
    number: u64,
    position: u64,
}

impl Talk {
    pub(crate) fn new(id: u64, stream: &TcpStream, rest: u64) -> Self {
        let address = |address: io::Result<std::net::SocketAddr>| {
            address.map_or_else(|_| "none".into(), |it| it.to_string())
        };
        let addresses = format!("{} {}", address(stream.peer_addr()), address(stream.local_addr()));
        Self { id, verified: AtomicU64::new(0), addresses, is_over: AtomicBool::new(false), rest }
    }

    /// Asks and reads answers, until `is_last` says that this round is the last one. Then it waits for the end.
    pub(crate) fn ask(&self, stream: &TcpStream, is_last: impl Fn() -> bool) -> io::Result<()> {
        let mut share = self.begin(stream, 0)?;
        loop {
            let is_last = is_last();
            let len = share.send(stream, is_last)?;
            self.verify(stream, &mut share.inward, len)?;
            if is_last {
                stream.shutdown(std::net::Shutdown::Write)?;
                return end(stream);
            }
            share.rest();
        }
    }

    /// Sends the number of this conversation, and asks for so many rounds.
    pub(crate) fn begin(&self, mut stream: &TcpStream, rounds: u32) -> io::Result<Share> {
        stream.write_all(&self.id.to_le_bytes())?;
        let (out, inward) = (Direction::new(self.id, 0), Direction::new(self.id, 1));
        let mut share = Share { out, inward, chance: self.id, rest: self.rest };
        for _ in 0..rounds {
            let len = share.send(stream, false)?;
            self.verify(stream, &mut share.inward, len)?;
        }
        Ok(share)
    }

    /// Asks without reading answers, until `is_last` says that this is the last one. `look` follows each.
    pub(crate) fn pour(
        mut stream: impl Write,
        share: &mut Share,
        is_last: impl Fn() -> bool,
        look: impl Fn(),
    ) -> io::Result<()> {
        loop {
            let is_last = is_last();
            share.send(&mut stream, is_last)?;
            if is_last {
                return Ok(());
            }
            look();
            share.rest();
        }
    }

    /// Reads answers up to the end of the stream. `look` follows each read.
    pub(crate) fn drain(&self, mut stream: impl Read, share: &mut Share, look: impl Fn()) -> io::Result<()> {
        let mut buffer = vec![0; 50_000];
        loop {
            let got = stream.read(&mut buffer)?;
            if got == 0 {
                return Ok(());
            }
            self.compare(&mut share.inward, &buffer[..got])?;
            look();
        }
    }

    /// The watch is to look at this connection no more: another process receives.
    pub(crate) fn leave_watch(&self) {
        self.is_over.store(true, Ordering::Relaxed);
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
            self.compare(direction, &buffer[..got])?;
            left -= got;
        }
        Ok(())
    }

    fn compare(&self, direction: &mut Direction, octets: &[u8]) -> io::Result<()> {
        let position = direction.position;
        if direction.octets(u32::try_from(octets.len()).unwrap_or(u32::MAX)) != octets {
            let reason = format!("wrong octets from {position} on");
            return Err(Error::new(ErrorKind::InvalidData, reason));
        }
        self.verified.fetch_add(octets.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

impl Share {
    /// Sends the next message. Returns its length.
    fn send(&mut self, mut stream: impl Write, is_last: bool) -> io::Result<u32> {
        let len = length(&mut self.chance);
        let header = [len.to_le_bytes(), u32::from(is_last).to_le_bytes()].concat();
        stream.write_all(&header)?;
        stream.write_all(&self.out.octets(len))?;
        Ok(len)
    }

    /// Rests behind most messages.
    fn rest(&self) {
        if !self.chance.is_multiple_of(4) {
            std::thread::sleep(Duration::from_millis(self.chance % (self.rest + 1)));
        }
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
