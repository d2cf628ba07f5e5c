//! A DDP stream for a ULP that needs no RDMAP (RFC 5041).

use std::collections::VecDeque;

use weft_ddp::{Cut, Cutter, Expected, Header, Receiver, Sender, Stag};
use weft_mpa::{STAGING_LEN, Start};
use weft_netif::Llp;
use weft_verbs::{MemoryTable, Payload, Reach};

use super::sink::Sink;
use super::{Agreement, Association, DdpCause, DdpError, DdpEvent, PostError, Source};
use crate::stream::ending::Peer;
use crate::stream::pump;
use crate::stream::segments::Segments;

/// One end of a DDP stream on MPA and TCP.
///
/// The ULP posts buffers for untagged messages on queues numbered from 0, registers memory for tagged ones, and sends
/// messages of both kinds. [`poll`](Self::poll) does the work and tells what has become of it.
///
/// Messages are sent in the order of the calls. The completion of one says that its octets are in TCP, not that the
/// peer has them (RFC 5041 section 5.4). The stream ends only when the ULP says so, by [`shutdown`](Self::shutdown)
/// or [`abort`](Self::abort), or when TCP does: after an error of the peer's it takes nothing more in, but still
/// sends what the ULP has to say about it.
#[derive(Debug)]
pub struct DdpStream {
    segments: Segments<Box<[Expected]>>,
    sender: Sender<Box<[u32]>>,
    sink: Sink,
    sends: VecDeque<Send>,
    /// How far the first of `sends` has got.
    cutter: Option<Cutter>,
    association: Association,
    inbound: Direction,
    outbound: Direction,
    /// A responder sends nothing before it has validated an FPDU of the initiator (RFC 5044 section 7.1.2).
    may_send: bool,
    /// Whose turn it is.
    transmits: bool,
    /// [`DdpEvent::Closed`] was told.
    is_over: bool,
    scratch: Vec<u8>,
}

/// A message that waits or is on its way.
#[derive(Debug)]
struct Send {
    id: u64,
    target: Target,
    len: u32,
    source: Source,
}

#[derive(Clone, Copy, Debug)]
enum Target {
    Untagged { queue: u32, rsvd: [u8; 5] },
    Tagged { stag: Stag, to: u64, rsvd: u8 },
}

/// How far one direction of the stream has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Open,
    /// Nothing is posted any more; what was posted is still sent.
    Closing,
    Closed,
}

impl DdpStream {
    /// A stream with `queues` queues in each direction, on the LLP whose startup has led to `agreement`. The two ULPs
    /// know the number of queues from their own protocol.
    ///
    /// # Errors
    /// [`weft_mpa::Error::NoRtr`] when startup has agreed on an RTR message (RFC 6581 section 9), which is one of
    /// RDMAP's.
    pub fn new(
        agreement: &Agreement,
        association: Association,
        queues: u16,
    ) -> Result<Self, weft_mpa::Error> {
        Self::with_msn(agreement, association, queues, 1)
    }

    /// A stream whose first message on every queue has `msn`; for tests of the wrap from 0xFFFFFFFF to 0.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn with_msn(
        agreement: &Agreement,
        association: Association,
        queues: u16,
        msn: u32,
    ) -> Result<Self, weft_mpa::Error> {
        if agreement.negotiated.start != Start::ClientServer {
            return Err(weft_mpa::Error::NoRtr);
        }
        let queues = usize::from(queues);
        let expected = vec![Expected::new(msn); queues].into_boxed_slice();
        let mut segments = Segments::new(&agreement.negotiated, Receiver::with_queues(expected));
        if let Some(staging) = segments.staging_mut() {
            *staging = vec![0; STAGING_LEN].into_boxed_slice();
        }
        Ok(Self {
            segments,
            sender: Sender::with_queues(vec![msn; queues].into_boxed_slice()),
            sink: Sink::new(queues),
            sends: VecDeque::new(),
            cutter: None,
            association,
            inbound: Direction::Open,
            outbound: Direction::Open,
            may_send: agreement.initiator,
            transmits: false,
            is_over: false,
            scratch: Vec::new(),
        })
    }

    /// Posts a buffer for the next untagged message of a queue; a longer message is the peer's error. `id` comes back
    /// with it.
    ///
    /// # Errors
    /// [`PostError::UnknownQueue`], or [`PostError::Closed`] when nothing will come any more.
    pub fn post_buffer(&mut self, queue: u32, id: u64, buffer: Vec<u8>) -> Result<(), PostError> {
        let buffers = self.sink.queue_mut(queue).ok_or(PostError::UnknownQueue)?;
        if self.inbound != Direction::Open {
            return Err(PostError::Closed);
        }
        buffers.post(id, buffer);
        Ok(())
    }

    /// Sends an untagged message to the next buffer of the peer's queue, with the five octets that are the ULPs' own.
    ///
    /// # Errors
    /// [`PostError::UnknownQueue`], [`PostError::TooLong`] or [`PostError::Closed`].
    pub fn send_untagged(
        &mut self,
        id: u64,
        queue: u32,
        rsvd: [u8; 5],
        source: impl Into<Source>,
    ) -> Result<(), PostError> {
        if self.sink.queue_mut(queue).is_none() {
            return Err(PostError::UnknownQueue);
        }
        self.send(id, Target::Untagged { queue, rsvd }, source.into())
    }

    /// Sends a tagged message to offset `to` of the peer's buffer `stag`, with the octet that is the ULPs' own.
    ///
    /// # Errors
    /// [`PostError::TooLong`] or [`PostError::Closed`].
    pub fn send_tagged(
        &mut self,
        id: u64,
        (stag, to): (Stag, u64),
        rsvd: u8,
        source: impl Into<Source>,
    ) -> Result<(), PostError> {
        self.send(id, Target::Tagged { stag, to, rsvd }, source.into())
    }

    /// Closes the sending direction behind what was posted: the peer gets all of it, then FIN. What the peer sends is
    /// still taken (RFC 5041 section 6.2.1).
    pub fn shutdown(&mut self) {
        if self.outbound == Direction::Open {
            self.outbound = Direction::Closing;
        }
    }

    /// Ends the stream at once, in both directions: the peer's end sees its connection lost (RFC 5041 section 6.2.2).
    /// What was not sent yet may be lost.
    pub fn abort(&mut self, llp: &mut Llp<'_>) {
        llp.abort();
        (self.inbound, self.outbound) = (Direction::Closed, Direction::Closed);
    }

    /// Receives and sends what can be, up to one event. `None` means that there is nothing more to do until the LLP
    /// has news or the ULP asks for something.
    pub fn poll(&mut self, llp: &mut Llp<'_>, memory: &MemoryTable) -> Option<DdpEvent> {
        let reach = self.association.reach(memory);
        // Each direction goes first every other time, so that a peer that always sends does not keep us from it.
        self.transmits = !self.transmits;
        let mut event = self.flush();
        for transmits in [self.transmits, !self.transmits] {
            event = event
                .or_else(|| if transmits { self.transmit(llp, reach) } else { self.receive(llp, reach) });
        }
        event.or_else(|| self.watch(llp))
    }

    /// The longest untagged message that fits one segment now, in octets: it depends on TCP's segment size and on
    /// Markers.
    #[must_use]
    pub fn max_untagged(&self, llp: &Llp<'_>) -> usize {
        pump::mulpdu(llp, self.segments.sends_markers()) - Header::UNTAGGED_LEN
    }

    /// The longest tagged message that fits one segment now, in octets.
    #[must_use]
    pub fn max_tagged(&self, llp: &Llp<'_>) -> usize {
        pump::mulpdu(llp, self.segments.sends_markers()) - Header::TAGGED_LEN
    }

    fn send(&mut self, id: u64, target: Target, source: Source) -> Result<(), PostError> {
        let len = source.message_len()?;
        if self.outbound != Direction::Open {
            return Err(PostError::Closed);
        }
        self.sends.push_back(Send { id, target, len, source });
        Ok(())
    }

    /// Takes segments until a message is whole.
    fn receive(&mut self, llp: &mut Llp<'_>, reach: Reach<'_>) -> Option<DdpEvent> {
        if self.inbound != Direction::Open {
            // Dropped without a word (RFC 5041 section 7.1).
            pump::discard(llp);
            return None;
        }
        let received = pump::receive(llp, |octets| {
            while let Some(arrived) = self.segments.next(octets).map_err(DdpCause::Mpa)? {
                self.may_send = true;
                let ulpdu = arrived.ulpdu;
                let placed = arrived.segment().and_then(|segment| self.sink.accept(&segment, reach));
                if let Some(event) = placed.map_err(|error| DdpError::segment(error, ulpdu))? {
                    return Ok(Some(event));
                }
            }
            Ok(None)
        });
        received.unwrap_or_else(|error| Some(self.fail(error)))
    }

    /// Sends segments until a message is done, or TCP is full.
    fn transmit(&mut self, llp: &mut Llp<'_>, reach: Reach<'_>) -> Option<DdpEvent> {
        if self.outbound == Direction::Closed {
            return None;
        }
        if !self.may_send && !self.sends.is_empty() {
            // From a peer that has closed no FPDU comes any more that would let us begin.
            let is_hopeless = self.inbound == Direction::Closed;
            let send = if is_hopeless { self.sends.pop_front() } else { None };
            return send.map(|send| DdpEvent::Unsent { id: send.id });
        }
        let mulpdu = pump::mulpdu(llp, self.segments.sends_markers());
        while let Some(send) = self.sends.front() {
            if self.cutter.is_none() {
                if send.source.check(reach).is_err() {
                    return self.sends.pop_front().map(|send| DdpEvent::Unsent { id: send.id });
                }
                self.cutter = cutter(&mut self.sender, send);
            }
            let cutter = self.cutter.as_mut()?;
            let segments = &mut self.segments;
            let needed = segments.fpdu_len(mulpdu);
            grow(&mut self.scratch, needed);
            let built = pump::transmit(llp, &mut self.scratch, [needed, needed], |out| {
                let Some(Cut { header, offset, len }) = cutter.next(mulpdu.min(segments.room(out.len())))
                else {
                    return (0, Ok(0));
                };
                let fill = |payload: &mut Payload<'_>| send.source.fill(reach, offset, payload);
                let built = segments.build(out, &header, len, fill);
                (built.as_ref().map_or(0, |&octets| octets), built)
            });
            match built {
                Ok(0) => return None,
                Ok(_) if cutter.is_done() => {
                    self.cutter = None;
                    return self.sends.pop_front().map(|send| DdpEvent::Sent { id: send.id });
                }
                Ok(_) => {}
                // The rest of a message that has begun cannot be sent, so that no other may follow it.
                Err(_gone) => {
                    self.outbound = Direction::Closed;
                    return Some(self.fail(DdpCause::Ddp(weft_ddp::Error::LocalCatastrophic).into()));
                }
            }
        }
        if self.outbound == Direction::Closing {
            llp.shutdown();
            self.outbound = Direction::Closed;
        }
        None
    }

    /// Sees to the ends that TCP's connection comes to.
    fn watch(&mut self, llp: &Llp<'_>) -> Option<DdpEvent> {
        match Peer::of(llp) {
            Peer::Open => return None,
            Peer::Finished | Peer::Closed if self.inbound == Direction::Open => {
                if !self.segments.is_aligned() {
                    return Some(self.fail(DdpCause::Mpa(weft_mpa::Error::Closed).into()));
                }
                self.inbound = Direction::Closed;
                return Some(DdpEvent::PeerClosed);
            }
            Peer::Finished => return None,
            Peer::Lost if self.inbound == Direction::Open => {
                self.outbound = Direction::Closed;
                return Some(self.fail(DdpCause::Lost(llp.cause()).into()));
            }
            Peer::Closed | Peer::Lost => {}
        }
        self.outbound = Direction::Closed;
        let event = self.flush();
        if event.is_none() && !self.is_over {
            self.is_over = true;
            return Some(DdpEvent::Closed);
        }
        event
    }

    /// What was posted for a direction that is closed comes back.
    fn flush(&mut self) -> Option<DdpEvent> {
        let returned = if self.inbound == Direction::Open { None } else { self.sink.give_back() };
        if returned.is_some() || self.outbound != Direction::Closed {
            return returned;
        }
        self.sends.pop_front().map(|send| DdpEvent::Unsent { id: send.id })
    }

    const fn fail(&mut self, error: DdpError) -> DdpEvent {
        self.inbound = Direction::Closed;
        DdpEvent::Failed(error)
    }
}

/// Begins a message, which takes its sequence number.
fn cutter(sender: &mut Sender<Box<[u32]>>, send: &Send) -> Option<Cutter> {
    match send.target {
        Target::Tagged { stag, to, rsvd } => Some(sender.tagged(rsvd, stag, to, send.len)),
        Target::Untagged { queue, rsvd: [control, a, b, c, d] } => {
            sender.untagged_on(control, u32::from_be_bytes([a, b, c, d]), queue, send.len)
        }
    }
}

/// Makes room for an FPDU beside the send buffer.
pub(super) fn grow(scratch: &mut Vec<u8>, len: usize) {
    if scratch.len() < len {
        scratch.resize(len, 0);
    }
}
