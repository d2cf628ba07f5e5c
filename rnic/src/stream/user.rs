//! The user of a stream: the part above RDMAP, which owns requests and memory.

use weft_ddp::Header;
use weft_rdmap::{Body, Inbound, Message, Place, Readiness, Token};
use weft_verbs::{Lending, LocalFault, MemoryTable, Payload, QpNotice, QueuePair, Refusal, Short, Status};

use crate::counters::Counters;

/// The user of an RDMAP stream. Its methods are called by [`Stream`](crate::stream::Stream), in the order of the way
/// of the data.
pub(crate) trait User {
    /// Whether nothing is to be received or sent for now. Octets that arrive stay in TCP.
    fn is_sated(&self) -> bool {
        false
    }

    /// Whether a message that takes a receive request has to wait for one.
    fn lacks_receive(&mut self) -> bool {
        false
    }

    /// Notes that the first FPDU has come to a responder, which may send from now on.
    fn note_established(&mut self) {}

    /// Carries out requests that need no message, while nothing may be sent yet.
    fn carry_out_local(&mut self) -> Result<(), LocalFault> {
        Ok(())
    }

    /// Whether there is something that [`Self::next_message`] or [`Self::carry_out_local`] could begin, or go on with.
    fn has_request(&self) -> bool {
        true
    }

    /// Puts the payload of the next message behind its header's place in `ulpdu`, if that is a short one that may go
    /// out at once. It counts only with [`Self::finish_short`].
    fn put_short(&self, _ulpdu: &mut [u8]) -> Option<Short> {
        None
    }

    /// Notes that the short message that was put last is in TCP.
    fn finish_short(&mut self, _: &Short) {}

    /// The next message to send, if there is one that may start.
    fn next_message(&mut self, readiness: Readiness) -> Result<Option<Message>, LocalFault>;

    /// Fills `payload` with the payload of a segment.
    fn fill(&mut self, body: &Body, payload: &mut Payload<'_>) -> Result<(), Refusal>;

    /// Lends what a segment carries behind its header, `len` octets, instead of filling it in; `false` when it does
    /// not.
    fn lend(&mut self, _body: &Body, _len: usize) -> Result<bool, Refusal> {
        Ok(false)
    }

    /// Notes that the lent payload goes out behind `head` octets of its FPDU.
    fn send_lent_behind(&mut self, _head: usize) {}

    /// Notes that the last octet of a message is in TCP.
    fn finish(&mut self, token: Token);

    /// Places the payload of a whole Send and completes it, if nothing about that is out of the ordinary. If not,
    /// nothing has happened, and [`Self::apply`] decides.
    fn place_whole(&mut self, _payload: &[u8], _solicited: bool) -> bool {
        false
    }

    /// Places the payload of a segment, and completes the requests that it finishes. A Terminate does neither.
    fn apply(&mut self, inbound: Inbound<'_>) -> Result<(), Refusal>;

    /// Whether a payload of `len` octets may be placed as it comes.
    fn lands(&mut self, _place: &Place, _len: usize) -> bool {
        false
    }

    /// Places octets of a payload of `len` octets of which `done` are there, and says how many were missing and are
    /// placed.
    fn land(&mut self, _: &Place, _len: usize, _done: usize, _octets: &[u8]) -> Result<usize, Refusal> {
        Err(Refusal::Local(Status::General))
    }

    /// All of a payload of `len` octets was placed as it came; what it answers in full is done.
    fn landed(&mut self, _: &Place, _len: usize, _finished: Option<Token>) {}

    /// Places a payload of `len` octets ahead of its turn, if it may be placed. Answers the generation of its memory.
    fn place_ahead<'o>(
        &self,
        _place: &Place,
        _len: usize,
        _pieces: impl Iterator<Item = &'o [u8]>,
    ) -> Option<u64> {
        None
    }

    /// Checks in its turn a payload that was placed ahead of it.
    fn check_ahead(&mut self, _: &Place, _len: usize, _generation: u64) -> Result<(), Refusal> {
        Err(Refusal::Local(Status::General))
    }

    /// A segment with `payload` octets behind its header is in TCP, `fpdu` octets in all.
    fn count_sent(&mut self, header: &Header, payload: usize, fpdu: usize);

    /// Counts an FPDU with good CRC.
    fn count_fpdu(&mut self);

    /// DDP has taken a segment with this header and `payload` octets behind it.
    fn count_received(&mut self, header: &Header, payload: usize);
}

/// The user of verbs: a queue pair, and what it works with besides its stream.
#[derive(Debug)]
pub(crate) struct Surroundings<'a> {
    pub(crate) qp: &'a mut QueuePair,
    pub(crate) memory: &'a MemoryTable,
    pub(crate) counters: &'a mut Counters,
    /// The payload of the FPDU that was built last, where it may be sent from the memory that it lies in.
    pub(crate) lending: Option<Lending<'a>>,
    /// Payload may be placed as it comes.
    pub(crate) lands: bool,
}

impl User for Surroundings<'_> {
    #[inline]
    fn lacks_receive(&mut self) -> bool {
        self.qp.lacks_receive()
    }

    fn note_established(&mut self) {
        self.qp.note(QpNotice::CommEstablished);
    }

    fn carry_out_local(&mut self) -> Result<(), LocalFault> {
        self.qp.carry_out_local(self.memory)
    }

    #[inline]
    fn has_request(&self) -> bool {
        self.qp.has_request()
    }

    #[inline]
    fn put_short(&self, ulpdu: &mut [u8]) -> Option<Short> {
        self.qp.put_short(self.memory, ulpdu)
    }

    #[inline]
    fn finish_short(&mut self, short: &Short) {
        self.qp.finish_short(short);
    }

    #[inline]
    fn next_message(&mut self, readiness: Readiness) -> Result<Option<Message>, LocalFault> {
        self.qp.next_message(readiness, self.memory)
    }

    #[inline]
    fn fill(&mut self, body: &Body, payload: &mut Payload<'_>) -> Result<(), Refusal> {
        self.qp.fill(body, self.memory, payload)
    }

    fn lend(&mut self, body: &Body, len: usize) -> Result<bool, Refusal> {
        match &mut self.lending {
            Some(lending) => self.qp.lend(body, len, self.memory, lending),
            None => Ok(false),
        }
    }

    fn send_lent_behind(&mut self, head: usize) {
        if let Some(lending) = &mut self.lending {
            lending.place_head(head);
        }
    }

    #[inline]
    fn finish(&mut self, token: Token) {
        match &mut self.lending {
            // The application gets its memory back only when the octets are in TCP.
            Some(lending) if !lending.is_empty() => lending.finish(token),
            _ => self.qp.finish(token),
        }
    }

    #[inline]
    fn place_whole(&mut self, payload: &[u8], solicited: bool) -> bool {
        self.qp.place_whole(payload, solicited, self.memory)
    }

    #[inline]
    fn apply(&mut self, inbound: Inbound<'_>) -> Result<(), Refusal> {
        self.qp.apply(inbound, self.memory)
    }

    #[inline]
    fn count_sent(&mut self, header: &Header, payload: usize, fpdu: usize) {
        self.counters.mpa.fpdus_sent += 1;
        self.counters.mpa.octets_sent += fpdu as u64;
        self.counters.sent.count(header.control(), payload);
        self.qp.count_sent(payload, header.is_last());
    }

    fn lands(&mut self, place: &Place, len: usize) -> bool {
        // A fault shows with the whole segment, and is reported then.
        self.lands && self.qp.may_land(place, len, self.memory)
    }

    fn land(&mut self, place: &Place, len: usize, done: usize, octets: &[u8]) -> Result<usize, Refusal> {
        let landing = self.qp.land(place, len, done, self.memory)?;
        landing.place(octets).map_err(|_gone| self.qp.landing_gone(place))
    }

    fn landed(&mut self, place: &Place, len: usize, finished: Option<Token>) {
        self.qp.landed(place, len, finished);
    }

    fn place_ahead<'o>(
        &self,
        place: &Place,
        len: usize,
        pieces: impl Iterator<Item = &'o [u8]>,
    ) -> Option<u64> {
        self.qp.place_ahead(place, len, pieces, self.memory)
    }

    fn check_ahead(&mut self, place: &Place, len: usize, generation: u64) -> Result<(), Refusal> {
        self.qp.check_ahead(place, len, generation, self.memory)
    }

    #[inline]
    fn count_fpdu(&mut self) {
        self.counters.mpa.fpdus_received += 1;
    }

    #[inline]
    fn count_received(&mut self, header: &Header, payload: usize) {
        self.counters.received.count(header.control(), payload);
        self.qp.count_received(payload, header.is_last());
    }
}

/// A user without requests and memory. Only RDMAP's own message goes out, a Terminate.
#[derive(Debug)]
pub(crate) struct Nobody;

impl User for Nobody {
    fn next_message(&mut self, _: Readiness) -> Result<Option<Message>, LocalFault> {
        Ok(None)
    }

    fn fill(&mut self, body: &Body, payload: &mut Payload<'_>) -> Result<(), Refusal> {
        let Body::Inline(octets) = body else { return Err(Refusal::Local(Status::General)) };
        payload.put(octets).map_err(|_| Refusal::Local(Status::General))
    }

    fn finish(&mut self, _: Token) {}

    fn apply(&mut self, _: Inbound<'_>) -> Result<(), Refusal> {
        Err(Refusal::Local(Status::General))
    }

    fn count_sent(&mut self, _: &Header, _: usize, _: usize) {}

    fn count_fpdu(&mut self) {}

    fn count_received(&mut self, _: &Header, _: usize) {}
}
