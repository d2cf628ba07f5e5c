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
/// The ULP posts buffers for untagged messages on queues numbered from 0, registers memory for tagged messages, and
/// sends messages of both kinds. [`poll`](Self::poll) does the work and returns the events.
///
/// Messages are sent in the order of the calls. The completion of a message means that its octets are in TCP, not that
/// the peer has them (RFC 5041 section 5.4). The stream ends only when the ULP calls [`shutdown`](Self::shutdown) or
/// [`abort`](Self::abort), or when TCP ends. After an error of the peer the stream receives no more messages, but the
/// ULP may still send a last message about the error.
#[derive(Debug)]
pub struct DdpStream {
    segments: Segments<Box<[Expected]>>,
    sender: Sender<Box<[u32]>>,
    sink: Sink,
    sends: VecDeque<Send>,
    /// The progress of the first of `sends`.
    cutter: Option<Cutter>,
    association: Association,
    inbound: Direction,
    outbound: Direction,
    /// A responder sends nothing before it has validated an FPDU of the initiator (RFC 5044 section 7.1.2).
    may_send: bool,
    /// Whether transmit went first in the last call of `poll`.
    transmits: bool,
    /// Whether the ULP has got [`DdpEvent::Closed`].
    is_over: bool,
    scratch: Vec<u8>,
}

/// A message that waits or is being sent.
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

/// The state of one direction of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Open,
    /// The ULP can post no more messages. The posted messages are still sent.
    Closing,
    Closed,
}

impl DdpStream {
    /// Makes a stream with `queues` queues in each direction, on the LLP whose startup returned `agreement`. The two
    /// ULPs know the number of queues from their own protocol.
    ///
    /// # Errors
    /// [`weft_mpa::Error::NoRtr`] if startup has agreed on an RTR message (RFC 6581 section 9), which is a message of
    /// RDMAP.
    pub fn new(
        agreement: &Agreement,
        association: Association,
        queues: u16,
    ) -> Result<Self, weft_mpa::Error> {
        Self::with_msn(agreement, association, queues, 1)
    }

    /// Makes a stream whose first message on every queue has `msn`. It is for tests of the wrap from 0xFFFFFFFF to 0.
    ///
    /// # Errors
    /// Those of [`Self::new`].
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

    /// Posts a buffer for the next untagged message of a queue. A longer message is the peer's error. The event with
    /// the buffer has `id`, too.
    ///
    /// # Errors
    /// [`PostError::UnknownQueue`], or [`PostError::Closed`] if no message can arrive any more.
    pub fn post_buffer(&mut self, queue: u32, id: u64, buffer: Vec<u8>) -> Result<(), PostError> {
        let buffers = self.sink.queue_mut(queue).ok_or(PostError::UnknownQueue)?;
        if self.inbound != Direction::Open {
            return Err(PostError::Closed);
        }
        buffers.post(id, buffer);
        Ok(())
    }

    /// Sends an untagged message to the next buffer of the peer's queue. `rsvd` is RsvdULP, five octets of the ULPs.
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

    /// Sends a tagged message to offset `to` of the peer's buffer `stag`. `rsvd` is RsvdULP, an octet of the ULPs.
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

    /// Closes the sending direction: the peer gets all posted messages, then FIN. The stream still receives messages
    /// of the peer (RFC 5041 section 6.2.1).
    pub fn shutdown(&mut self) {
        if self.outbound == Direction::Open {
            self.outbound = Direction::Closing;
        }
    }

    /// Ends the stream at once, in both directions: the peer's end sees its connection lost (RFC 5041 section 6.2.2).
    /// Octets that were not sent yet may be lost.
    pub fn abort(&mut self, llp: &mut Llp<'_>) {
        llp.abort();
        (self.inbound, self.outbound) = (Direction::Closed, Direction::Closed);
    }

    /// Receives and sends as much as possible, up to one event. Returns `None` if there is no more work until the LLP
    /// has news or the ULP makes another call.
    pub fn poll(&mut self, llp: &mut Llp<'_>, memory: &MemoryTable) -> Option<DdpEvent> {
        let reach = self.association.reach(memory);
        // The directions take turns to go first, so that a peer that always sends cannot stop this end from sending.
        self.transmits = !self.transmits;
        let mut event = self.flush();
        for transmits in [self.transmits, !self.transmits] {
            event = event
                .or_else(|| if transmits { self.transmit(llp, reach) } else { self.receive(llp, reach) });
        }
        event.or_else(|| self.watch(llp))
    }

    /// Returns the longest untagged message that fits into one segment now, in octets. It depends on TCP's segment size
    /// and on Markers.
    #[must_use]
    pub fn max_untagged(&self, llp: &Llp<'_>) -> usize {
        pump::mulpdu(llp, self.segments.sends_markers()) - Header::UNTAGGED_LEN
    }

    /// Returns the longest tagged message that fits into one segment now, in octets.
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

    /// Takes segments until a message is complete.
    fn receive(&mut self, llp: &mut Llp<'_>, reach: Reach<'_>) -> Option<DdpEvent> {
        if self.inbound != Direction::Open {
            // After an error, DDP drops all further segments silently (RFC 5041 section 7.1).
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
            // If the peer has closed, no FPDU can arrive that allows this end to begin.
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
                // The rest of a begun message cannot be sent, so no other message may follow it.
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

    /// Handles the end of TCP's connection, in one direction or in both.
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

    /// Returns the next buffer or message that was posted for a direction that is closed now.
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

/// Begins a message. This takes the message's sequence number.
fn cutter(sender: &mut Sender<Box<[u32]>>, send: &Send) -> Option<Cutter> {
    match send.target {
        Target::Tagged { stag, to, rsvd } => Some(sender.tagged(rsvd, stag, to, send.len)),
        Target::Untagged { queue, rsvd: [control, a, b, c, d] } => {
            sender.untagged_on(control, u32::from_be_bytes([a, b, c, d]), queue, send.len)
        }
    }
}

/// Makes room for an FPDU outside of the send buffer.
pub(super) fn grow(scratch: &mut Vec<u8>, len: usize) {
    if scratch.len() < len {
        scratch.resize(len, 0);
    }
}
