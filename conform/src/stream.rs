//! One connection to the target, with a record of all octets in both directions.

use std::fmt;
use std::time::Duration;

use crate::arrival::Arrival;
use crate::host::Connection;
use crate::octets::{Framing, crc32c};
use crate::time::Deadline;

/// The tester's end of a connection.
#[derive(Debug)]
pub(crate) struct Stream {
    connection: Connection,
    patience: Duration,
    /// How FPDUs of this side are framed.
    pub(crate) outgoing: Framing,
    /// How FPDUs of the target have to be framed.
    pub(crate) incoming: Framing,
    inbox: Vec<u8>,
    end: Option<Missing>,
    sent: Vec<u8>,
    received: Vec<u8>,
}

/// Why the awaited octets did not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Missing {
    /// Nothing came in time, and the connection is open.
    Silence,
    /// The target closed the connection.
    Fin,
    /// The target reset the connection.
    Reset,
}

/// An FPDU of the target: its octets and its fields.
#[derive(Clone, Debug)]
pub(crate) struct Fpdu {
    pub(crate) ulpdu: Vec<u8>,
    /// All octets, Markers and CRC included.
    pub(crate) raw: Vec<u8>,
    pub(crate) pad: Vec<u8>,
    pub(crate) markers: Vec<Marker>,
    /// The CRC field, as a number.
    pub(crate) crc: u32,
}

/// A Marker of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marker {
    /// Octets from the FPDU's length field to the Marker; zero for one that stands before it.
    pub(crate) distance: usize,
    pub(crate) reserved: u16,
    pub(crate) pointer: u16,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Silence => "silence",
            Self::Fin => "FIN",
            Self::Reset => "RST",
        })
    }
}

impl Fpdu {
    /// Returns the CRC of the octets.
    pub(crate) fn computed_crc(&self) -> u32 {
        crc32c(&self.raw[..self.raw.len() - 4])
    }
}

impl Stream {
    pub(crate) fn new(connection: Connection, patience: Duration) -> Self {
        Self {
            connection,
            patience,
            outgoing: Framing::new(true, false),
            incoming: Framing::new(true, false),
            inbox: Vec::new(),
            end: None,
            sent: Vec::new(),
            received: Vec::new(),
        }
    }

    /// Sends octets unchanged. If the target no longer takes octets, later reads show it.
    pub(crate) fn send(&mut self, octets: &[u8]) {
        self.sent.extend_from_slice(octets);
        let _taken = self.connection.send(octets, &Deadline::after(self.patience));
    }

    /// Sends an FPDU around `ulpdu`.
    pub(crate) fn send_ulpdu(&mut self, ulpdu: &[u8]) {
        let fpdu = self.outgoing.fpdu(ulpdu);
        self.send(&fpdu);
    }

    /// Waits for `len` octets.
    pub(crate) fn read(&mut self, len: usize) -> Result<Vec<u8>, Missing> {
        let deadline = Deadline::after(self.patience);
        while self.inbox.len() < len {
            self.receive(&deadline)?;
        }
        Ok(self.inbox.drain(..len).collect())
    }

    /// Waits for an FPDU, and takes it apart. The caller judges whether it is right.
    pub(crate) fn read_fpdu(&mut self) -> Result<Fpdu, Missing> {
        let mut reader =
            FpduReader { raw: Vec::new(), markers: Vec::new(), start: 0, position: self.incoming.position };
        reader.marker(self)?;
        reader.start = reader.raw.len();
        let head = reader.octets(self, 2)?;
        let len = usize::from(u16::from_be_bytes([head[0], head[1]]));
        let ulpdu = reader.octets(self, len)?;
        let pad = reader.octets(self, (2 + len).next_multiple_of(4) - 2 - len)?;
        // A Marker between padding and CRC belongs to this FPDU.
        let crc = reader.octets(self, 4)?;
        self.incoming.position = reader.position;
        let crc = u32::from_le_bytes([crc[0], crc[1], crc[2], crc[3]]);
        Ok(Fpdu { ulpdu, raw: reader.raw, pad, markers: reader.markers, crc })
    }

    /// Returns the octets that come within `time` or until the end.
    pub(crate) fn listen(&mut self, time: Duration) -> (Vec<u8>, Missing) {
        let deadline = Deadline::after(time);
        loop {
            if let Err(missing) = self.receive(&deadline) {
                return (std::mem::take(&mut self.inbox), missing);
            }
        }
    }

    /// Waits for the end of the connection. Returns the octets before it.
    pub(crate) fn read_to_end(&mut self) -> (Vec<u8>, Missing) {
        self.listen(self.patience)
    }

    /// Sends FIN.
    pub(crate) fn finish(&self) {
        self.connection.finish();
    }

    /// Sends RST, when the stream is dropped at the latest.
    pub(crate) fn abort(&self) {
        self.connection.abort();
    }

    /// Returns all sent and all received octets.
    pub(crate) fn record(&self) -> (&[u8], &[u8]) {
        (&self.sent, &self.received)
    }

    /// Returns the octets of payload in the largest TCP segment, if that is known.
    pub(crate) fn emss(&self) -> Option<usize> {
        self.connection.emss()
    }

    /// Returns how the connection ended, if that is known.
    pub(crate) const fn end(&self) -> Option<Missing> {
        self.end
    }

    fn receive(&mut self, deadline: &Deadline) -> Result<(), Missing> {
        if let Some(end) = self.end {
            return Err(end);
        }
        match self.connection.receive(deadline) {
            Arrival::Octets(octets) => {
                self.received.extend_from_slice(&octets);
                self.inbox.extend_from_slice(&octets);
                return Ok(());
            }
            Arrival::Nothing => return Err(Missing::Silence),
            Arrival::Fin => self.end = Some(Missing::Fin),
            Arrival::Reset => self.end = Some(Missing::Reset),
        }
        self.end.map_or(Ok(()), Err)
    }
}

/// Reads the octets of an FPDU and takes the Markers out.
struct FpduReader {
    raw: Vec<u8>,
    markers: Vec<Marker>,
    start: usize,
    position: Option<usize>,
}

impl FpduReader {
    fn octets(&mut self, stream: &mut Stream, len: usize) -> Result<Vec<u8>, Missing> {
        let mut out = Vec::with_capacity(len);
        while out.len() < len {
            self.marker(stream)?;
            let until = self.position.map_or(usize::MAX, |position| 512 - position % 512);
            let part = stream.read(until.min(len - out.len()))?;
            self.take(&part);
            out.extend_from_slice(&part);
        }
        Ok(out)
    }

    /// Takes a Marker if one is due and has not been taken yet.
    fn marker(&mut self, stream: &mut Stream) -> Result<(), Missing> {
        if self.position.is_none_or(|position| position % 512 != 0) {
            return Ok(());
        }
        let octets = stream.read(4)?;
        let distance = self.raw.len() - self.start;
        self.take(&octets);
        let half = |at: usize| u16::from_be_bytes([octets[at], octets[at + 1]]);
        self.markers.push(Marker { distance, reserved: half(0), pointer: half(2) });
        Ok(())
    }

    fn take(&mut self, octets: &[u8]) {
        self.raw.extend_from_slice(octets);
        if let Some(position) = &mut self.position {
            *position += octets.len();
        }
    }
}
