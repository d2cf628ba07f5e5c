//! The dialogue of rping, from the client's side. It is the only way to make a target read, write and send.
//!
//! The client advertises a buffer. The server reads it and says "go ahead". The client advertises another buffer. The
//! server writes the octets there and sends once more. Each step can be taken alone; [`Client::ping`] takes them all.

use std::fmt::Display;

use crate::finding::Stop;
use crate::octets::{Place, read_request, send, tagged, write};
use crate::probe::shown;
use crate::segment::{Header, ReadFields, Segment, long, opcode, word};
use crate::stream::{Fpdu, Missing, Stream};
use crate::trial::Trial;

/// A client of rping. All its fields may be changed between two steps.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    /// The buffer that the target is to read.
    pub(crate) source: Place,
    /// The buffer that the target is to write.
    pub(crate) sink: Place,
    /// The octets of the source; their number is advertised.
    pub(crate) content: Vec<u8>,
    /// The octets of payload in each Read Response segment.
    pub(crate) chunk: usize,
    /// The MSN of the next Send.
    pub(crate) msn: u32,
    /// The requirements that a target breaks if it does not play on. Empty: the target is then no rping.
    judged: Vec<&'static str>,
}

/// A buffer as the two sides advertise it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Advertisement {
    pub(crate) to: u64,
    pub(crate) stag: u32,
    pub(crate) size: u32,
}

/// A Read Request of the target.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    pub(crate) fpdu: Fpdu,
    pub(crate) segment: Segment,
    pub(crate) fields: ReadFields,
}

/// The Send after the target's Read.
#[derive(Clone, Debug)]
pub(crate) struct GoAhead {
    pub(crate) fpdu: Fpdu,
    /// The target's own buffer, if the target says where that is.
    pub(crate) buffer: Option<Advertisement>,
}

/// What the target did with the second buffer.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    /// The segments of its Writes.
    pub(crate) writes: Vec<Fpdu>,
    /// The Send behind them.
    pub(crate) send: Fpdu,
    /// The octets of the sink. `None` unless the Writes wrote each octet exactly once.
    pub(crate) content: Option<Vec<u8>>,
}

/// All messages that the target sends during one ping.
#[derive(Clone, Debug)]
pub(crate) struct Ping {
    pub(crate) request: Request,
    pub(crate) go_ahead: GoAhead,
    pub(crate) written: Written,
}

impl Client {
    /// A client with buffers of `size` octets, for a stream on which nothing was sent yet. Every rping supports 64
    /// octets.
    pub(crate) fn new(size: usize) -> Self {
        Self {
            source: Place(0x5057_0001, 0x0000_0001_0000_2001),
            sink: Place(0x5057_0002, 0x0000_0002_0000_3003),
            content: text(size),
            chunk: 1024,
            msn: 1,
            judged: Vec::new(),
        }
    }

    /// Plays a whole ping and returns all that the target sent.
    pub(crate) fn ping(&mut self, trial: &mut Trial<'_>, stream: &mut Stream) -> Result<Ping, Stop> {
        let (request, go_ahead) = self.until_go_ahead(trial, stream)?;
        self.advertise(stream, self.sink);
        let written = self.take_writes(trial, stream)?;
        Ok(Ping { request, go_ahead, written })
    }

    /// Plays a whole ping. A target that has played before has to play again. Judges `ids` by this and by the octets
    /// that come back.
    pub(crate) fn expect_ping(
        &mut self,
        ids: &[&'static str],
        trial: &mut Trial<'_>,
        stream: &mut Stream,
    ) -> Result<Ping, Stop> {
        self.judged = ids.to_vec();
        let ping = self.ping(trial, stream);
        self.judged.clear();
        let ping = ping?;
        let is_right = ping.written.content.as_ref() == Some(&self.content);
        trial.judge(ids, stream, is_right, ("the octets that were read, written back", "other octets"));
        Ok(ping)
    }

    /// Plays the first half of a ping, up to the target's go-ahead.
    pub(crate) fn until_go_ahead(
        &mut self,
        trial: &mut Trial<'_>,
        stream: &mut Stream,
    ) -> Result<(Request, GoAhead), Stop> {
        self.advertise(stream, self.source);
        let request = self.take_request(trial, stream)?;
        self.respond(stream, &request.fields);
        let go_ahead = self.take_go_ahead(trial, stream)?;
        Ok((request, go_ahead))
    }

    /// Plays the first half of a ping and returns the target's own buffer. That is the buffer in its go-ahead, or
    /// else the sink of its Read, if that may be read and written. A target with neither is not suited. Uses no MSN
    /// of queue 1.
    pub(crate) fn learn_buffer(
        &mut self,
        trial: &mut Trial<'_>,
        stream: &mut Stream,
    ) -> Result<Advertisement, Stop> {
        let (request, go_ahead) = self.until_go_ahead(trial, stream)?;
        let fits =
            |buffer: &Advertisement| (self.content.len()..=LARGEST_BUFFER).contains(&(buffer.size as usize));
        if let Some(buffer) = go_ahead.buffer.filter(fits) {
            return Ok(buffer);
        }
        let sink = request.sink();
        if fits(&sink) && trial.has_lasting_sink() {
            return Ok(sink);
        }
        Err(Stop::Unsuited("the target does not say where its own buffer is".to_owned()))
    }

    /// Sends the advertisement of the buffer at `place`.
    pub(crate) fn advertise(&mut self, stream: &mut Stream, place: Place) {
        let size = u32::try_from(self.content.len()).unwrap_or(u32::MAX);
        let octets = Advertisement { to: place.1, stag: place.0, size }.emit();
        stream.send_ulpdu(&send(self.msn, &octets));
        self.msn = self.msn.wrapping_add(1);
    }

    /// Waits for the Read Request that the first advertisement asks for.
    pub(crate) fn take_request(&self, trial: &mut Trial<'_>, stream: &mut Stream) -> Result<Request, Stop> {
        let what = "the Read Request for the advertised buffer";
        let fpdu = stream.read_fpdu().map_err(|missing| self.missed(trial, stream, what, missing))?;
        let request = Segment::parse(&fpdu.ulpdu).and_then(|segment| {
            let fields = ReadFields::parse(fpdu.ulpdu.get(UNTAGGED_LEN..)?)?;
            let is_request = segment.opcode() == opcode::READ_REQUEST;
            is_request.then(|| Request { fpdu: fpdu.clone(), segment, fields })
        });
        request.ok_or_else(|| self.differs(trial, stream, what, &fpdu))
    }

    /// Returns the Read Response to `fields`, as ULPDUs.
    pub(crate) fn response(&self, fields: &ReadFields) -> Vec<Vec<u8>> {
        let content = &self.content[..self.content.len().min(fields.size as usize)];
        if content.is_empty() {
            return vec![tagged("C142", fields.sink.0, fields.sink.1, &[])];
        }
        let count = content.len().div_ceil(self.chunk);
        let segment = |(index, part): (usize, &[u8])| {
            let head = if index + 1 == count { "C142" } else { "8142" };
            let to = fields.sink.1.wrapping_add((index * self.chunk) as u64);
            tagged(head, fields.sink.0, to, part)
        };
        content.chunks(self.chunk).enumerate().map(segment).collect()
    }

    /// Answers a Read Request.
    pub(crate) fn respond(&self, stream: &mut Stream, fields: &ReadFields) {
        for ulpdu in self.response(fields) {
            stream.send_ulpdu(&ulpdu);
        }
    }

    /// Waits for the Send that follows the target's Read.
    pub(crate) fn take_go_ahead(&self, trial: &mut Trial<'_>, stream: &mut Stream) -> Result<GoAhead, Stop> {
        let what = "the Send that follows the Read";
        let fpdu = stream.read_fpdu().map_err(|missing| self.missed(trial, stream, what, missing))?;
        match Segment::parse(&fpdu.ulpdu) {
            Some(segment) if is_send(&segment) => {
                Ok(GoAhead { fpdu, buffer: Advertisement::parse(&segment.payload) })
            }
            _ => Err(self.differs(trial, stream, what, &fpdu)),
        }
    }

    /// Waits for the Writes into the second buffer, and the Send behind them.
    pub(crate) fn take_writes(&self, trial: &mut Trial<'_>, stream: &mut Stream) -> Result<Written, Stop> {
        let what = "Writes into the advertised buffer, and a Send";
        let mut writes = Vec::new();
        let mut content = vec![None; self.content.len()];
        let mut is_right = true;
        loop {
            let fpdu = stream.read_fpdu().map_err(|missing| self.missed(trial, stream, what, missing))?;
            match Segment::parse(&fpdu.ulpdu) {
                Some(segment) if is_send(&segment) => {
                    let content: Option<Vec<u8>> = content.into_iter().collect();
                    return Ok(Written { writes, send: fpdu, content: content.filter(|_| is_right) });
                }
                Some(segment) if segment.opcode() == opcode::WRITE => {
                    is_right &= place(&segment, self.sink, &mut content);
                    writes.push(fpdu);
                }
                _ => return Err(self.differs(trial, stream, what, &fpdu)),
            }
        }
    }

    /// Records that the target sent another message than `what`.
    fn differs(&self, trial: &mut Trial<'_>, stream: &Stream, what: &str, fpdu: &Fpdu) -> Stop {
        self.odd(trial, stream, what, shown(fpdu))
    }

    fn missed(&self, trial: &mut Trial<'_>, stream: &Stream, what: &str, missing: Missing) -> Stop {
        trial.note(missing);
        self.odd(trial, stream, what, missing)
    }

    fn odd(&self, trial: &mut Trial<'_>, stream: &Stream, what: &str, observed: impl Display) -> Stop {
        if self.judged.is_empty() {
            return Stop::Unsuited(format!(
                "the target does not answer an rping advertisement as rping does: {observed} instead of {what}"
            ));
        }
        trial.judge(&self.judged, stream, false, (what, observed));
        Stop::Judged
    }
}

impl Request {
    const fn sink(&self) -> Advertisement {
        let Place(stag, to) = self.fields.sink;
        Advertisement { to, stag, size: self.fields.size }
    }
}

impl Trial<'_> {
    /// Returns true if the sink of a Read is memory that the peer may use after the Read. A target need not allow
    /// that. rdma-core's rping does, as it registers its sink with all rights. One connection finds out for all
    /// checks.
    fn has_lasting_sink(&mut self) -> bool {
        let target = self.target();
        if target.lasting_sink.get().is_none() {
            // A target that serves one connection at a time does not answer this one, which does no harm.
            target.lasting_sink.set(Some(self.try_sink().unwrap_or(false)));
        }
        target.lasting_sink.get() == Some(true)
    }

    fn try_sink(&mut self) -> Result<bool, Stop> {
        let mut stream = self.open()?;
        let mut client = Client::new(8);
        let (request, _) = client.until_go_ahead(self, &mut stream)?;
        let Place(stag, to) = request.fields.sink;
        stream.send_ulpdu(&write(stag, to, b"Z"));
        client.content[0] = b'Z';
        stream.send_ulpdu(&read_request(1, Place(1, 0), 8, Place(stag, to)));
        Ok(stream.read_fpdu().is_ok_and(|fpdu| fpdu.ulpdu.get(14..) == Some(&client.content[..])))
    }
}

impl Advertisement {
    pub(crate) fn emit(&self) -> Vec<u8> {
        [&self.to.to_be_bytes()[..], &self.stag.to_be_bytes(), &self.size.to_be_bytes()].concat()
    }

    /// Returns the advertisement in the payload of a Send, or `None` if it advertises nothing.
    pub(crate) fn parse(payload: &[u8]) -> Option<Self> {
        let is_one = payload.len() == ADVERTISEMENT_LEN && payload.iter().any(|&octet| octet != 0);
        is_one.then(|| Self { to: long(payload, 0), stag: word(payload, 8), size: word(payload, 12) })
    }

    /// Returns the place of the octet at `offset`.
    pub(crate) const fn place(&self, offset: u64) -> Place {
        Place(self.stag, self.to.wrapping_add(offset))
    }
}

/// Returns true for any of the four Sends. Looks at the opcode only; the caller judges the rest.
pub(crate) fn is_send(segment: &Segment) -> bool {
    (opcode::SEND..=opcode::SEND_SE_INVALIDATE).contains(&segment.opcode())
}

/// Writes the segment into a buffer at `at`. Returns false if it does not fit or hits an octet again.
fn place(segment: &Segment, at: Place, buffer: &mut [Option<u8>]) -> bool {
    let Header::Tagged { stag, to } = segment.header else { return false };
    let start = usize::try_from(to.wrapping_sub(at.1)).unwrap_or(usize::MAX);
    let end = start.saturating_add(segment.payload.len());
    let Some(part) = buffer.get_mut(start..end) else { return false };
    let is_new = part.iter().all(Option::is_none);
    for (slot, octet) in part.iter_mut().zip(&segment.payload) {
        *slot = Some(*octet);
    }
    stag == at.0 && is_new
}

/// Returns letters with a zero at the end, since servers print what they read. The period is no power of two, so that
/// octets in wrong places show.
pub(crate) fn text(len: usize) -> Vec<u8> {
    let letters = (0..len).map(|at| b'A' + (at % 53 % 26).to_le_bytes()[0] + (at / 53 % 7).to_le_bytes()[0]);
    let mut octets: Vec<u8> = letters.collect();
    if let Some(last) = octets.last_mut() {
        *last = 0;
    }
    octets
}

/// Changes the content from that of the last ping. It still ends with a zero.
pub(crate) fn turn(content: &mut [u8]) {
    if let Some((_zero, letters)) = content.split_last_mut() {
        letters.rotate_left(1);
    }
}

const UNTAGGED_LEN: usize = 18;
const ADVERTISEMENT_LEN: usize = 16;
/// The largest buffer of a target that is believed.
const LARGEST_BUFFER: usize = 1 << 24;
