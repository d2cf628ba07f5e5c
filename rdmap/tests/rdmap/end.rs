//! One end of a stream with memory, and the wire to the other.

use std::collections::VecDeque;

use weft_ddp::{Header, Receiver, Stag};
use weft_rdmap::{
    AtomicRequest, AtomicResponse, Body, Endpoint, Error, Immediate, Inbound, Kind, Message, Outbound,
    OutstandingRequest, PendingRequest, Terminate, Token,
};

/// Every end registers its memory with this STag, from this offset on.
pub(crate) const MEMORY: Stag = Stag(0x0000_0100);
pub(crate) const BASE: u64 = 0x1000;

pub(crate) const SEND: Kind = Kind::Send { solicited: false, invalidate: None };

/// The results of arrived Sends and of our own messages, in order.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) sends: Vec<Vec<u8>>,
    pub(crate) finished: Vec<Token>,
    pub(crate) terminates: Vec<Terminate>,
    pub(crate) immediates: Vec<(Immediate, bool)>,
    pub(crate) atomics: Vec<AtomicRequest>,
    /// The values that our own Atomics have fetched.
    pub(crate) originals: Vec<u64>,
}

#[derive(Debug)]
pub(crate) struct End {
    pub(crate) endpoint: Endpoint<Vec<OutstandingRequest>, Vec<PendingRequest>>,
    pub(crate) receiver: Receiver,
    pub(crate) memory: Vec<u8>,
    pub(crate) log: Log,
    /// ULPDUs on their way to the other end.
    pub(crate) wire: VecDeque<Vec<u8>>,
    to_send: VecDeque<(Message, Vec<u8>)>,
    in_progress: Vec<u8>,
    arriving: Vec<u8>,
}

impl End {
    pub(crate) fn new(ord: usize, ird: usize) -> Self {
        Self {
            endpoint: Endpoint::new(
                vec![OutstandingRequest::default(); ord],
                vec![PendingRequest::default(); ird],
            ),
            receiver: Receiver::new(4),
            memory: Vec::new(),
            log: Log::default(),
            wire: VecDeque::new(),
            to_send: VecDeque::new(),
            in_progress: Vec::new(),
            arriving: Vec::new(),
        }
    }

    /// Queues a message. The octets are those of a Send or Write; for a Read only their number counts.
    pub(crate) fn post(&mut self, token: u64, kind: Kind, octets: Vec<u8>) {
        let message = Message { token: Token(token), len: u32::try_from(octets.len()).unwrap(), kind };
        self.to_send.push_back((message, octets));
    }

    /// Starts the next message if possible, and builds a segment. Every other message of one segment goes without a
    /// start.
    pub(crate) fn poll(&mut self, max_ulpdu: usize) -> Option<Outbound> {
        let whole = match self.to_send.front() {
            Some((message, _)) if message.token.0.is_multiple_of(2) => {
                self.endpoint.whole_message(message, max_ulpdu)
            }
            _ => None,
        };
        if let Some(outbound) = whole {
            assert!(self.endpoint.readiness().idle && outbound.finished.is_some());
            self.in_progress = self.to_send.pop_front().map(|(_, octets)| octets).unwrap_or_default();
            return Some(self.send(outbound, max_ulpdu));
        }
        if let Some((message, octets)) = self.to_send.pop_front() {
            match self.endpoint.start(message) {
                Ok(()) => self.in_progress = octets,
                Err(_) => self.to_send.push_front((message, octets)),
            }
        }
        let left = self.endpoint.left() as usize;
        let outbound = self.endpoint.poll_segment(max_ulpdu)?;
        let (Header::Tagged { last, .. } | Header::Untagged { last, .. }) = outbound.header;
        match outbound.body {
            Body::Message { .. } | Body::ReadResponse { .. } => {
                assert!(
                    if last { left == outbound.len } else { left > outbound.len },
                    "{left}: {outbound:?}"
                );
            }
            _ => assert_eq!(left, 0, "{outbound:?}"),
        }
        Some(self.send(outbound, max_ulpdu))
    }

    fn send(&mut self, outbound: Outbound, max_ulpdu: usize) -> Outbound {
        assert!(outbound.ulpdu_len() <= max_ulpdu);
        let ulpdu = self.build(&outbound);
        self.wire.push_back(ulpdu);
        self.log.finished.extend(outbound.finished);
        outbound
    }

    pub(crate) fn take(&mut self, ulpdu: &[u8]) -> Result<(), Error> {
        let segment = self.receiver.accept(ulpdu)?;
        match self.endpoint.accept(segment)? {
            Inbound::Send { offset, payload, last } => {
                assert_eq!(usize::try_from(offset).unwrap(), self.arriving.len());
                self.arriving.extend_from_slice(payload);
                if let Some(end) = last {
                    assert_eq!(usize::try_from(end.len).unwrap(), self.arriving.len());
                    self.log.sends.push(std::mem::take(&mut self.arriving));
                }
            }
            Inbound::Write { stag, to, payload, .. } => self.place(stag, to, payload),
            Inbound::ReadResponse { token, stag, to, payload, finished } => {
                self.place(stag, to, payload);
                self.log.finished.extend(finished.then_some(token));
            }
            Inbound::ReadRequest(_) => {}
            Inbound::Immediate { data, solicited } => self.log.immediates.push((data, solicited)),
            Inbound::AtomicRequest(request) => self.log.atomics.push(request),
            Inbound::AtomicResponse { token, original } => {
                self.log.originals.push(original);
                self.log.finished.push(token);
            }
            Inbound::Terminate(terminate) => self.log.terminates.push(terminate),
        }
        Ok(())
    }

    /// Returns true if there is nothing left to start, to send or to be answered.
    pub(crate) fn is_done(&self) -> bool {
        let readiness = self.endpoint.readiness();
        self.to_send.is_empty() && !self.endpoint.has_output() && readiness.requests_outstanding == 0
    }

    fn build(&mut self, outbound: &Outbound) -> Vec<u8> {
        let mut ulpdu = vec![0; outbound.header.len()];
        outbound.header.emit(&mut ulpdu);
        match &outbound.body {
            Body::Message { offset, .. } => {
                let start = usize::try_from(*offset).unwrap();
                ulpdu.extend_from_slice(&self.in_progress[start..start + outbound.len]);
            }
            Body::ReadResponse { .. } if outbound.len == 0 => {}
            Body::ReadResponse { stag, to } => {
                assert_eq!(*stag, MEMORY);
                let start = usize::try_from(to - BASE).unwrap();
                ulpdu.extend_from_slice(&self.memory[start..start + outbound.len]);
            }
            Body::AtomicResponse(request) => {
                assert_eq!(request.stag, MEMORY);
                let start = usize::try_from(request.to - BASE).unwrap();
                let word = &mut self.memory[start..start + 8];
                let original = u64::from_be_bytes(word.try_into().unwrap());
                word.copy_from_slice(&request.op.apply(original).to_be_bytes());
                ulpdu.extend_from_slice(&AtomicResponse { id: request.id, original }.emit());
            }
            Body::Inline(octets) => ulpdu.extend_from_slice(octets),
        }
        assert_eq!(ulpdu.len(), outbound.ulpdu_len());
        ulpdu
    }

    fn place(&mut self, stag: Stag, to: u64, payload: &[u8]) {
        if payload.is_empty() {
            return;
        }
        assert_eq!(stag, MEMORY);
        let start = usize::try_from(to - BASE).unwrap();
        self.memory[start..start + payload.len()].copy_from_slice(payload);
    }
}
