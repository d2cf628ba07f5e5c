//! The operations in the stream target's input: an octet that names one, and its operands.

use weft_netif::Duration;
use weft_rnic::{Data, SendOpcode, SendWr};

use super::input::Input;
use super::ledger::Queue;
use super::opponent::Asked;
use super::stream::Bench;
use super::ulpdu::{atomic_request, patch, pattern, read_request, tagged, terminate, untagged};

/// The operation that the first octet selects, modulo [`Op::COUNT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Op {
    /// Octets without any framing: length (2), octets.
    Raw,
    /// An FPDU around an unchanged ULPDU: length (2), octets.
    Frame,
    /// An FPDU around a ULPDU that gets valid STags, offsets and sequence numbers: length (2), octets.
    Patched,
    /// The same, damaged after its CRC was made: place (2), changed bits (1), length (2), octets.
    Damaged,
    /// A Send: opcode (1), area to invalidate (1), octets (2), octets of each segment in units of 16 (1).
    Send,
    /// A Write: area (1), offset (2), octets (2), octets of each segment in units of 16 (1).
    Write,
    /// A Read Request: area (1), offset (2), size (4).
    ReadRequest,
    /// The answer to the oldest Read of the device: octets to leave out (1), octets of each segment in units of 16 (1).
    ReadResponse,
    /// A Terminate: layer and type (1), code (1), header bits (1).
    Terminate,
    /// An Atomic Request: operation (1), area (1), offset (2), operand (8), mask (8).
    AtomicRequest,
    /// The answer to the oldest Atomic of the device: value (8).
    AtomicResponse,
    /// FIN.
    Fin,
    /// RST.
    Reset,
    /// Time: 2^n microseconds (1).
    Pause,
    /// From now on TCP segments of so many octets; 0 means any number (1).
    Cut,
    /// From now on the peer reads (0x01), and gives the device time after each operation (0x02) (1).
    Mood,
    /// The application posts to the send queue: kind (1), flags (1), area (1), offset (2), octets (2), remote area (1),
    /// remote offset (2).
    PostSend,
    /// The application posts to the receive queue: area (1), offset (2), octets (2).
    PostRecv,
    /// The application polls its queues and events.
    Poll,
    /// The application disconnects.
    Disconnect,
    /// The application deregisters an area (1).
    Deregister,
    /// The application registers an area anew (1).
    Register,
    /// The application destroys its queue pair.
    Destroy,
}

impl Op {
    /// The number of operations.
    pub const COUNT: u8 = Self::Destroy as u8 + 1;

    const ALL: [Self; Self::COUNT as usize] = [
        Self::Raw,
        Self::Frame,
        Self::Patched,
        Self::Damaged,
        Self::Send,
        Self::Write,
        Self::ReadRequest,
        Self::ReadResponse,
        Self::Terminate,
        Self::AtomicRequest,
        Self::AtomicResponse,
        Self::Fin,
        Self::Reset,
        Self::Pause,
        Self::Cut,
        Self::Mood,
        Self::PostSend,
        Self::PostRecv,
        Self::Poll,
        Self::Disconnect,
        Self::Deregister,
        Self::Register,
        Self::Destroy,
    ];
}

impl Bench {
    /// Does the next operation of the input.
    pub(super) fn act(&mut self, input: &mut Input<'_>) {
        let op = Op::ALL[usize::from(input.octet() % Op::COUNT)];
        if op as u8 >= Op::PostSend as u8 {
            self.act_locally(op, input);
        } else {
            self.act_as_peer(op, input);
        }
        self.settle();
        if !self.settings.is_lazy {
            self.serve();
            self.settle();
        }
    }

    fn act_as_peer(&mut self, op: Op, input: &mut Input<'_>) {
        match op {
            Op::Raw => self.opponent.send(input.run(), &mut self.ledger),
            Op::Frame => self.send_ulpdu(limited(input.run())),
            Op::Patched => {
                let mut ulpdu = limited(input.run()).to_vec();
                self.send_patched(&mut ulpdu);
            }
            Op::Damaged => self.send_damaged(input),
            Op::Send => self.send_message(input),
            Op::Write => self.write(input),
            Op::ReadRequest => {
                let (area, offset, size) = (input.octet(), input.word(), input.double());
                let mut ulpdu = untagged(true, 0x1, 1, 0, &read_request(area, offset, size));
                self.send_patched(&mut ulpdu);
            }
            Op::ReadResponse => self.answer_read(input),
            Op::Terminate => {
                let [kind, code, bits] = core::array::from_fn(|_| input.octet());
                let payload = terminate(kind, code, bits, &self.opponent.last_header);
                self.send_patched(&mut untagged(true, 0x7, 2, 0, &payload));
            }
            Op::AtomicRequest => {
                let (operation, area, offset) = (input.octet(), input.octet(), input.word());
                let (operand, mask) = (input.quad(), input.quad());
                // A compare mask of zero compares no bits, so that the swap is done.
                let payload = atomic_request(operation, area, offset, [operand, mask, 0, !mask]);
                self.send_patched(&mut untagged(true, 0xA, 1, 0, &payload));
            }
            Op::AtomicResponse => {
                let value = input.quad().to_be_bytes();
                let payload = [&[0; 4], &value[..]].concat();
                self.send_patched(&mut untagged(true, 0xB, 3, 0, &payload));
                if let Some(Asked::Atomic { .. }) = self.opponent.asked.front() {
                    self.opponent.asked.pop_front();
                }
            }
            Op::Fin => self.opponent.close(),
            Op::Reset => self.opponent.abort(),
            Op::Pause => self.host.settle(Duration::from_micros(1 << (input.octet() % 30))),
            Op::Cut => self.opponent.cut = usize::from(input.octet()),
            _ => {
                let mood = input.octet();
                // The checks know the device's rights only after its startup frame.
                self.opponent.set_reading(mood & 0x01 != 0 || !self.opponent.is_operating());
                self.opponent.is_hasty = mood & 0x02 != 0;
            }
        }
    }

    fn act_locally(&mut self, op: Op, input: &mut Input<'_>) {
        match op {
            Op::PostSend => self.post_send(input),
            Op::PostRecv => {
                let (area, offset, length) = (input.octet(), input.word(), input.word());
                self.post_recv(area, offset, length);
            }
            Op::Poll => self.serve(),
            Op::Disconnect => {
                if let Some(qp) = &self.qp {
                    let _not_connected = qp.disconnect();
                }
            }
            Op::Deregister => self.ledger.deregister(input.octet()),
            Op::Register => self.ledger.register(input.octet(), &self.pd, self.qp.as_ref()),
            _ => {
                self.qp = None;
                self.ledger.lossy = true;
            }
        }
    }

    fn send_patched(&mut self, ulpdu: &mut [u8]) {
        patch(ulpdu, &self.opponent, &self.ledger);
        self.send_ulpdu(ulpdu);
    }

    fn send_damaged(&mut self, input: &mut Input<'_>) {
        let (at, by) = (usize::from(input.word()), input.octet());
        let mut ulpdu = limited(input.run()).to_vec();
        patch(&mut ulpdu, &self.opponent, &self.ledger);
        let mut fpdu = self.opponent.frame(&ulpdu);
        let at = at % fpdu.len();
        fpdu[at] ^= by;
        if by != 0 {
            self.opponent.announce_damage();
        }
        self.opponent.send(&fpdu, &mut self.ledger);
    }

    fn send_message(&mut self, input: &mut Input<'_>) {
        let (opcode, area, len) = (input.octet() & 0x0F, input.octet(), input.word());
        let payload = pattern(usize::from(len) % MAX_MESSAGE);
        for (is_last, _, piece) in segments(&payload, input.octet()) {
            self.send_patched(&mut untagged(is_last, opcode, 0, area, piece));
        }
    }

    fn write(&mut self, input: &mut Input<'_>) {
        let (area, offset, len) = (input.octet(), input.word(), input.word());
        let payload = pattern(usize::from(len) % MAX_MESSAGE);
        for (is_last, at, piece) in segments(&payload, input.octet()) {
            self.send_patched(&mut tagged(is_last, 0x0, area, offset.wrapping_add(at), piece));
        }
    }

    fn answer_read(&mut self, input: &mut Input<'_>) {
        let (missing, cut) = (input.octet(), input.octet());
        let Some(&Asked::Read { stag, to, size }) = self.opponent.asked.front() else {
            return self.send_patched(&mut tagged(true, 0x2, 0, 0, &pattern(8)));
        };
        let len = usize::try_from(size).unwrap_or(0).min(MAX_MESSAGE).saturating_sub(usize::from(missing));
        for (is_last, at, piece) in segments(&pattern(len), cut) {
            let mut ulpdu = tagged(is_last, 0x2, 0, 0, piece);
            ulpdu[2..6].copy_from_slice(&stag.0.to_be_bytes());
            ulpdu[6..14].copy_from_slice(&to.wrapping_add(u64::from(at)).to_be_bytes());
            self.send_ulpdu(&ulpdu);
        }
        self.opponent.asked.pop_front();
    }

    fn post_send(&mut self, input: &mut Input<'_>) {
        let (kind, flags, area, offset) = (input.octet(), input.octet(), input.octet(), input.word());
        let (length, remote, to) = (input.word(), input.octet(), input.word());
        let Some(qp) = self.qp.as_ref().filter(|_| !self.ledger.is_full()) else { return };
        // The peer has no memory of its own, so that these values need no meaning.
        let (stag, to) = (weft_rnic::Stag(u32::from(remote) << 8), u64::from(to));
        let opcode = match kind % KINDS {
            0 => SendOpcode::Send,
            1 => SendOpcode::SendInvalidate { stag },
            2 => SendOpcode::Write { stag, to },
            3 => SendOpcode::Read { stag, to },
            4 => SendOpcode::Immediate { data: (to << 8).to_be_bytes() },
            5 => SendOpcode::FetchAdd { stag, to, add: 1, mask: 0 },
            6 => SendOpcode::CompareSwap { stag, to, swap: 1, swap_mask: 1, compare: 0, compare_mask: 0 },
            7 => SendOpcode::WriteImmediate { stag, to, immediate: [remote; 4] },
            8 => SendOpcode::Nop,
            9 => SendOpcode::Wait {
                cq: self.cq.number() + u32::from(remote >> 7),
                count: u32::from(length % 8),
                strict: remote & 0x40 != 0,
            },
            _ => SendOpcode::Hold,
        };
        let sge = self.ledger.area(area).sge(offset, length);
        let octets = pattern(usize::from(length % 80));
        let data = if flags & 0x08 == 0 { Data::Sges(&[sge]) } else { Data::Inline(&octets) };
        let signaled = flags & 0x01 == 0;
        let wr = SendWr {
            wr_id: self.ledger.next_id(),
            opcode,
            data,
            signaled,
            fence: flags & 0x02 != 0,
            solicited: flags & 0x04 != 0,
        };
        if qp.post_send(&wr).is_ok() {
            self.ledger.post(Queue::Send, signaled || self.settings.signals_all, sge.length);
            if opcode.fetches() {
                self.ledger.lend(sge);
            }
        }
    }
}

/// Cuts a message into pieces: whether a piece is the last, its offset, and its octets. An empty message has one
/// empty piece.
fn segments(payload: &[u8], cut: u8) -> impl Iterator<Item = (bool, u16, &[u8])> {
    let size = if cut == 0 { MAX_SEGMENT } else { usize::from(cut) * 16 }.min(MAX_SEGMENT);
    (0..payload.len().div_ceil(size).max(1)).map(move |index| {
        let start = index * size;
        let end = (start + size).min(payload.len());
        (end == payload.len(), u16::try_from(start).unwrap_or(u16::MAX), &payload[start..end])
    })
}

/// Returns as many octets as a ULPDU may hold.
fn limited(octets: &[u8]) -> &[u8] {
    &octets[..octets.len().min(weft_mpa::MAX_ULPDU)]
}

const KINDS: u8 = 11;
const MAX_MESSAGE: usize = 4096;
const MAX_SEGMENT: usize = 1400;
