//! The peer: a TCP connection on which fuzz input speaks, and the octets of both directions.

use std::collections::VecDeque;

use weft_ddp::{Header, Queue, Receiver, Segment, Stag};
use weft_mpa::{Crc32c, Deframer, FrameKind, Framer, STAGING_LEN, StartupFrame};
use weft_netif::Duration;
use weft_rdmap::{AtomicRequest, Opcode, ReadRequest, Terminate};
use weft_rnic::Access;

use super::ledger::{Ledger, Queue as Completing};
use super::reached::Milestone;
use crate::{RawHost, RawPeer};

/// One connection of the device, seen from its other end.
#[derive(Debug)]
pub(super) struct Opponent {
    host: RawHost,
    peer: RawPeer,
    /// The peer sends the Request.
    is_initiator: bool,
    /// Startup octets, until both frames are whole.
    sent: Vec<u8>,
    received: Vec<u8>,
    operation: Option<Operation>,
    /// The octets in a TCP segment; 0 for as many as TCP takes.
    pub(super) cut: usize,
    /// Whether the device gets time to react after each piece.
    pub(super) is_hasty: bool,
    /// The device's Reads and Atomics that wait for an answer, oldest first.
    pub(super) asked: VecDeque<Asked>,
    /// The DDP header of the device's last segment.
    pub(super) last_header: Vec<u8>,
}

/// A request of the device.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asked {
    Read { stag: Stag, to: u64, size: u32 },
    Atomic { id: u32 },
}

/// Full Operation.
#[derive(Debug)]
struct Operation {
    framer: Framer,
    has_crc: bool,
    markers: [bool; 2],
    /// Reads the octets sent from this side, as the device should read them. `None` after the first error.
    shadow: Option<Deframer<Vec<u8>>>,
    /// The next sequence number and offset of this side's untagged messages.
    next: [(u32, u32); 4],
    /// The device may send.
    is_begun: bool,
    deframer: Deframer<Vec<u8>>,
    receiver: Receiver,
    /// The device has sent its Terminate, behind which nothing may come.
    is_terminated: bool,
}

impl Opponent {
    pub(super) fn new(host: &RawHost, peer: RawPeer, is_initiator: bool) -> Self {
        Self {
            host: host.clone(),
            peer,
            is_initiator,
            sent: Vec::new(),
            received: Vec::new(),
            operation: None,
            cut: 0,
            is_hasty: false,
            asked: VecDeque::new(),
            last_header: Vec::new(),
        }
    }

    /// Sends octets as they are, as far as the device takes them.
    pub(super) fn send(&mut self, octets: &[u8], ledger: &mut Ledger) {
        let size = if self.cut == 0 { octets.len().max(1) } else { self.cut };
        for mut piece in octets.chunks(size) {
            while !piece.is_empty() {
                let taken = self.peer.offer(piece);
                if taken == 0 {
                    return;
                }
                // The ledger gets the device's new rights before the device reads the octets.
                self.note_sent(&piece[..taken], ledger);
                piece = &piece[taken..];
                if !self.is_hasty || !piece.is_empty() {
                    self.host.settle(MOMENT);
                }
            }
        }
    }

    /// Frames `ulpdu` as an FPDU, by the agreed settings, or by the default ones.
    pub(super) fn frame(&mut self, ulpdu: &[u8]) -> Vec<u8> {
        let mut default = Framer::new(Some(Crc32c::default()), false);
        let framer = self.operation.as_mut().map_or(&mut default, |operation| &mut operation.framer);
        let mut out = vec![0; framer.fpdu_len(ulpdu.len())];
        framer.ulpdu_mut(&mut out, ulpdu.len()).copy_from_slice(ulpdu);
        framer.seal(&mut out, ulpdu.len());
        out
    }

    /// Notes that the next FPDU is damaged. With a CRC, neither it nor any octet behind it may count. The checks must
    /// not depend on the stack's own CRC for this.
    pub(super) fn announce_damage(&mut self) {
        if let Some(operation) = &mut self.operation
            && operation.has_crc
            && operation.shadow.as_ref().is_some_and(Deframer::is_aligned)
        {
            operation.shadow = None;
        }
    }

    /// Returns the sequence number and offset that the device expects next on a queue.
    pub(super) fn next(&self, queue: usize) -> (u32, u32) {
        self.operation.as_ref().map_or((1, 0), |operation| operation.next[queue % 4])
    }

    /// Returns the device's startup frame, as far as it has come.
    pub(super) fn device_frame(&self) -> &[u8] {
        &self.received
    }

    /// Returns true if both sides are in Full Operation.
    pub(super) const fn is_operating(&self) -> bool {
        self.operation.is_some()
    }

    /// Reads and checks the octets that the device has sent.
    pub(super) fn absorb(&mut self, ledger: &mut Ledger) {
        let octets = self.peer.take();
        if octets.is_empty() {
            return;
        }
        if self.operation.is_none() {
            self.received.extend_from_slice(&octets);
            self.begin(ledger);
        } else {
            self.read(&octets, ledger);
        }
    }

    pub(super) fn close(&self) {
        self.peer.close();
    }

    pub(super) fn abort(&self) {
        self.peer.abort();
    }

    pub(super) fn set_reading(&self, reading: bool) {
        self.peer.set_reading(reading);
    }

    fn note_sent(&mut self, octets: &[u8], ledger: &mut Ledger) {
        match &mut self.operation {
            Some(operation) => operation.note_sent(octets, ledger),
            None => {
                self.sent.extend_from_slice(octets);
                self.begin(ledger);
            }
        }
    }

    /// Begins Full Operation when both frames are whole and accepting.
    fn begin(&mut self, ledger: &mut Ledger) {
        let kinds = [FrameKind::Request, FrameKind::Reply];
        let [my_kind, their_kind] = if self.is_initiator { kinds } else { [kinds[1], kinds[0]] };
        let (Ok(Some((mine, mine_len))), Ok(Some((theirs, theirs_len)))) =
            (StartupFrame::parse(my_kind, &self.sent), StartupFrame::parse(their_kind, &self.received))
        else {
            return;
        };
        if if self.is_initiator { theirs.reject } else { mine.reject } {
            return;
        }
        let has_crc = mine.crc || theirs.crc;
        let crc = has_crc.then(Crc32c::default);
        let deframer = |markers| Deframer::new(crc, markers, vec![0; STAGING_LEN]);
        let mut operation = Operation {
            framer: Framer::new(crc, theirs.markers),
            has_crc,
            markers: [theirs.markers, mine.markers],
            shadow: Some(deframer(theirs.markers)),
            next: [(1, 0); 4],
            // The sender of the Request may send at once. A responder has to wait for the first FPDU.
            is_begun: !self.is_initiator,
            deframer: deframer(mine.markers),
            receiver: Receiver::new(4),
            is_terminated: false,
        };
        operation.note_sent(&self.sent[mine_len..], ledger);
        let rest = self.received.split_off(theirs_len);
        self.operation = Some(operation);
        self.read(&rest, ledger);
    }

    fn read(&mut self, mut octets: &[u8], ledger: &mut Ledger) {
        let Some(operation) = &mut self.operation else { return };
        while let Some(ulpdu) = operation.deframer.next(&mut octets).expect("the device frames correctly") {
            assert!(operation.is_begun, "a responder sends nothing before the first FPDU of the initiator");
            assert!(!operation.is_terminated, "nothing follows a Terminate");
            let segment = operation.receiver.accept(ulpdu).expect("the device keeps DDP's order");
            let opcode = Opcode::of(&segment.header).expect("the device sends defined opcodes only");
            let header = &ulpdu[..segment.header.len()];
            self.last_header.clear();
            self.last_header.extend_from_slice(header);
            if operation.markers[1] {
                ledger.reached.add(Milestone::MarkersFromDevice);
            }
            match opcode {
                Opcode::ReadRequest => {
                    let ReadRequest { sink_stag, sink_to, size, .. } =
                        ReadRequest::parse(segment.payload).expect("a Read Request");
                    self.asked.push_back(Asked::Read { stag: sink_stag, to: sink_to, size });
                }
                Opcode::AtomicRequest => {
                    let request = AtomicRequest::parse(segment.payload).expect("an Atomic Request");
                    self.asked.push_back(Asked::Atomic { id: request.id });
                }
                Opcode::ReadResponse => {
                    assert!(
                        !ledger.is_secret(segment.payload),
                        "memory without the right to be read was read"
                    );
                    if !segment.payload.is_empty() {
                        ledger.reached.add(Milestone::ReadAnswered);
                    }
                }
                Opcode::AtomicResponse => ledger.reached.add(Milestone::AtomicAnswered),
                Opcode::Terminate => {
                    let terminate = Terminate::parse(segment.payload).expect("a Terminate");
                    ledger.reached.add(Milestone::TerminateSent(terminate.layer));
                    operation.is_terminated = true;
                }
                _ => {}
            }
        }
    }
}

impl Operation {
    /// Reads this side's own octets, and notes the rights that they give the device.
    fn note_sent(&mut self, mut octets: &[u8], ledger: &mut Ledger) {
        let Some(shadow) = &mut self.shadow else { return };
        loop {
            let segment = match shadow.next(&mut octets) {
                Ok(None) => return,
                Ok(Some(ulpdu)) => {
                    self.is_begun = true;
                    Segment::parse(ulpdu)
                }
                Err(_) => break,
            };
            let Ok(Segment { header, payload }) = segment else { break };
            match header {
                Header::Tagged { last, stag, to, control } => {
                    if last && Opcode::parse(control) == Ok(Opcode::ReadResponse) {
                        ledger.note_message(Completing::Send);
                    }
                    ledger.allow_peer(stag, to, payload.len(), Access::REMOTE_WRITE);
                }
                Header::Untagged { last, word, queue, msn, mo, control } => {
                    let next = usize::try_from(queue).ok().and_then(|queue| self.next.get_mut(queue));
                    let Some(next) = next.filter(|next| **next == (msn, mo)) else { break };
                    let end = mo.saturating_add(u32::try_from(payload.len()).unwrap_or(u32::MAX));
                    *next = if last { (msn.wrapping_add(1), 0) } else { (msn, end) };
                    let opcode = Opcode::parse(control);
                    match opcode.ok().and_then(Opcode::queue) {
                        Some(Queue::Send) if last => ledger.note_message(Completing::Recv),
                        Some(Queue::AtomicResponse) => ledger.note_message(Completing::Send),
                        _ => {}
                    }
                    match opcode {
                        Ok(Opcode::SendInvalidate | Opcode::SendSolicitedInvalidate) if last => {
                            ledger.invalidate(Stag(word));
                        }
                        Ok(Opcode::AtomicRequest) => {
                            if let Ok(request) = AtomicRequest::parse(payload) {
                                ledger.allow_peer(request.stag, request.to, 8, Access::REMOTE_ATOMIC);
                            }
                        }
                        _ => {}
                    }
                }
            }
            if self.markers[0] {
                ledger.reached.add(Milestone::MarkersToDevice);
            }
            if !self.has_crc {
                ledger.reached.add(Milestone::CrcOff);
            }
        }
        // The device ends the stream here, and later octets do not count.
        self.shadow = None;
    }
}

/// Longer than the delay of an acknowledgement.
pub(super) const MOMENT: Duration = Duration::from_millis(50);
