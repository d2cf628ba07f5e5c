//! The program of a slot: the requests that a replica posts once, and the places where a message rewrites them.
//!
//! ```text
//! SELF 4k    WAIT inbox, strict               OUT 4k    WAIT inbox, strict
//!      4k+1  COPY: NOP or Read                    4k+1  DATA: NOP or Write to the next replica
//!      4k+2  SWAP: NOP or CompareSwap             4k+2  WAIT done, strict
//!      4k+3  SYNC: NOP or SYNC                    4k+3  SEND of what is left of the message
//! ```
//! SELF is connected to itself, and OUT to the next replica. Receive k of IN scatters message k over the entries of slot k
//! and the place for what goes on. Its completion in `inbox` is what the WAITs wait for, and is made when the whole message
//! has been placed. The device reads an entry when it starts it, which is behind the WAIT. So what stood there before, the
//! operation of the last lap, is simply written over.
//!
//! **The scatter list is the capability.** No STag, no lkey, no flag, no number of elements and no WAIT is in reach of a
//! message.

use weft_rnic::{Data, SendOpcode, SendQueueLayout, SendWr, Sge, Stag};

use crate::message::{BLOCK, message_len};

/// Requests of each send queue for a slot.
pub const STEPS: u64 = 4;
/// Elements of the scatter list of a slot.
pub const ELEMENTS: usize = 15;

/// Registered memory: its STag, and the tagged offset of its first octet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The STag.
    pub stag: Stag,
    /// The tagged offset.
    pub addr: u64,
}

/// What the program of a replica is made of.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    /// The number of the replica in its chain, and how many there are.
    pub index: usize,
    /// How many replicas the chain has.
    pub replicas: usize,
    /// The numbers of the completion queues of IN's receives and of SELF.
    pub inbox: u32,
    /// The completion queue of SELF.
    pub done: u32,
    /// The range of the session in the memory of this replica.
    pub own: Stag,
    /// The same in the memory of the next replica; `None` at the tail.
    pub next: Option<Stag>,
    /// The places for what goes on, one for each slot.
    pub stage: Place,
    /// The entries of SELF and of OUT, as memory.
    pub entries: [Place; 2],
    /// How the entries of both lie.
    pub layout: SendQueueLayout,
}

impl Parts {
    /// Returns the octets of a slot in the stage: what goes on, and at the tail scrap for the octets of DATA.
    pub const fn stage_len(index: usize, replicas: usize) -> usize {
        (message_len(index + 1, replicas) + SCRAP).next_multiple_of(8)
    }

    /// Returns the requests of SELF for slot `slot`, with the elements that they take.
    pub fn own_requests(&self, slot: u64, mut post: impl FnMut(&SendWr<'_>)) {
        let none = [Sge { addr: 0, length: 0, lkey: self.own }];
        let cell = [Sge { addr: self.cell(slot), length: 8, lkey: self.stage.stag }];
        let (stag, to) = (self.own, 0);
        let swap = SendOpcode::CompareSwap { stag, to, swap: 0, swap_mask: 0, compare: 0, compare_mask: 0 };
        post(&SendWr::new(wait(self.inbox)));
        post(&SendWr { data: Data::Sges(&none), ..SendWr::new(SendOpcode::Read { stag, to }) });
        post(&SendWr { data: Data::Sges(&cell), ..SendWr::new(swap) });
        // It stands for all three, since SELF does one request after the other.
        post(&SendWr { data: Data::Sges(&none), signaled: true, ..SendWr::new(SendOpcode::Nop) });
    }

    /// Returns the requests of OUT for slot `slot`.
    pub fn out_requests(&self, slot: u64, mut post: impl FnMut(&SendWr<'_>)) {
        let none = [Sge { addr: 0, length: 0, lkey: self.own }];
        let length = u32::try_from(message_len(self.index + 1, self.replicas)).unwrap_or(u32::MAX);
        let rest = [Sge { addr: self.slot(slot), length, lkey: self.stage.stag }];
        let data = self.next.map_or(SendOpcode::Nop, |stag| SendOpcode::Write { stag, to: 0 });
        post(&SendWr::new(wait(self.inbox)));
        post(&SendWr { data: Data::Sges(&none), ..SendWr::new(data) });
        post(&SendWr::new(wait(self.done)));
        post(&SendWr { data: Data::Sges(&rest), ..SendWr::new(SendOpcode::Send) });
    }

    /// Returns where the octets of message `slot` go, in their order.
    pub fn scatter(&self, slot: u64) -> [Sge; ELEMENTS] {
        let [own, out] = self.entries;
        let entry = |place: Place, step: u64, at: u64, length: u32| {
            let offset = self.layout.offset(slot * STEPS + step) as u64;
            Sge { addr: place.addr + offset + at, length, lkey: place.stag }
        };
        let is_tail = self.next.is_none();
        // At the tail nothing of DATA is rewritten. Its octets go behind what is sent.
        let scrap = self.slot(slot) + message_len(self.index + 1, self.replicas) as u64;
        let data = |at: u64, length: u32| match is_tail {
            true => Sge { addr: scrap, length, lkey: self.stage.stag },
            false => entry(out, DATA, at, length),
        };
        let rest = u32::try_from(message_len(self.index, self.replicas) - BLOCK).unwrap_or(u32::MAX);
        [
            entry(own, COPY, OPCODE, 1),
            entry(own, SWAP, OPCODE, 1),
            entry(own, SYNC, OPCODE, 1),
            data(OPCODE, 1),
            entry(own, COPY, LENGTH, 4),
            entry(own, COPY, REMOTE, 8),
            entry(own, COPY, LOCAL, 8),
            entry(own, SWAP, REMOTE, 8),
            entry(own, SWAP, OPERANDS, 32),
            entry(own, SYNC, LOCAL, 8),
            entry(own, SYNC, LENGTH, 4),
            data(LENGTH, 4),
            data(LOCAL, 8),
            data(REMOTE, 8),
            Sge { addr: self.slot(slot), length: rest, lkey: self.stage.stag },
        ]
    }

    /// Returns where slot `slot` lies in the stage.
    fn slot(&self, slot: u64) -> u64 {
        self.stage.addr + slot * Self::stage_len(self.index, self.replicas) as u64
    }

    /// Returns the result cell of this replica in slot `slot`.
    fn cell(&self, slot: u64) -> u64 {
        let cells = message_len(self.index + 1, self.replicas) - self.replicas * crate::message::CELL;
        self.slot(slot) + (cells + self.index * crate::message::CELL) as u64
    }
}

const fn wait(cq: u32) -> SendOpcode {
    SendOpcode::Wait { cq, count: 1, strict: true }
}

/// Steps of the program.
const COPY: u64 = 1;
const SWAP: u64 = 2;
const SYNC: u64 = 3;
const DATA: u64 = 1;
/// Fields of an entry (docs/queues.md).
const OPCODE: u64 = 8;
const REMOTE: u64 = 16;
const LOCAL: u64 = 32;
const LENGTH: u64 = 44;
const OPERANDS: u64 = 48;
/// Octets of the longest field of DATA.
const SCRAP: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: SendQueueLayout = SendQueueLayout { entries: 8, stride: 128, max_sge: 1, max_inline: 0 };

    fn parts(index: usize, replicas: usize) -> Parts {
        let place = |number: u32| Place { stag: Stag(number), addr: u64::from(number) << 32 };
        Parts {
            index,
            replicas,
            inbox: 1,
            done: 2,
            own: Stag(3),
            next: (index + 1 < replicas).then_some(Stag(4)),
            stage: place(5),
            entries: [place(6), place(7)],
            layout: LAYOUT,
        }
    }

    /// The list takes exactly the octets of a message, and none of them goes to a STag, an lkey, flags, a number of elements
    /// or a WAIT.
    #[test]
    fn a_message_reaches_operands_only() {
        for (index, replicas) in [(0, 3), (1, 3), (2, 3), (0, 1), (15, 16)] {
            let parts = parts(index, replicas);
            for slot in 0..2 {
                let list = parts.scatter(slot);
                let len: u32 = list.iter().map(|sge| sge.length).sum();
                assert_eq!(len as usize, message_len(index, replicas));
                for sge in list.iter().filter(|sge| [6, 7].contains(&sge.lkey.0)) {
                    let offset = sge.addr - (u64::from(sge.lkey.0) << 32);
                    let (step, at) = (offset / 128 % STEPS, offset % 128);
                    assert_eq!(offset / 128 / STEPS, slot);
                    let is_in_reach = match (sge.lkey.0, step) {
                        (6, COPY) | (7, DATA) => {
                            [(8, 1), (16, 8), (32, 8), (44, 4)].contains(&(at, sge.length))
                        }
                        (6, SWAP) => [(8, 1), (16, 8), (48, 32)].contains(&(at, sge.length)),
                        (6, SYNC) => [(8, 1), (32, 8), (44, 4)].contains(&(at, sge.length)),
                        _ => false,
                    };
                    assert!(is_in_reach, "{sge:?}");
                }
                let is_out = list.iter().any(|sge| sge.lkey.0 == 7);
                assert_eq!(is_out, index + 1 < replicas, "the tail rewrites nothing of OUT");
            }
        }
    }

    /// What goes on ends with the result cells, and the swap of a replica writes its own.
    #[test]
    fn the_stage_holds_what_goes_on() {
        for (index, replicas) in [(0, 3), (1, 3), (2, 3)] {
            let parts = parts(index, replicas);
            let (mut sent, mut cell) = (None, None);
            parts.out_requests(1, |wr| {
                if let (SendOpcode::Send, Data::Sges([sge])) = (wr.opcode, wr.data) {
                    sent = Some(*sge);
                }
            });
            parts.own_requests(1, |wr| {
                if let (SendOpcode::CompareSwap { .. }, Data::Sges([sge])) = (wr.opcode, wr.data) {
                    cell = Some(*sge);
                }
            });
            let (sent, cell, kept) = (sent.unwrap(), cell.unwrap(), parts.scatter(1)[ELEMENTS - 1]);
            assert_eq!((sent.addr, sent.length, sent.lkey), (kept.addr, kept.length, kept.lkey));
            let end = sent.addr + u64::from(sent.length);
            assert_eq!((cell.addr, cell.length), (end - 8 * (replicas - index) as u64, 8));
            assert!(cell.addr.is_multiple_of(8), "an Atomic wants it so");
            let next = parts.slot(2);
            assert!(
                parts
                    .scatter(1)
                    .iter()
                    .filter(|sge| sge.lkey == sent.lkey)
                    .all(|sge| { sge.addr >= sent.addr && sge.addr + u64::from(sge.length) <= next })
            );
        }
    }

    #[test]
    fn requests_in_their_order() {
        let (mut own, mut out) = (Vec::new(), Vec::new());
        parts(0, 2).own_requests(0, |wr| own.push((wr.opcode, wr.signaled)));
        parts(0, 2).out_requests(0, |wr| out.push((wr.opcode, wr.signaled)));
        let wait = |cq| (SendOpcode::Wait { cq, count: 1, strict: true }, false);
        assert_eq!((own[0], own[3]), (wait(1), (SendOpcode::Nop, true)));
        assert!(matches!(own[1].0, SendOpcode::Read { stag: Stag(3), .. }));
        assert_eq!((out[0], out[2]), (wait(1), wait(2)));
        assert_eq!((out[1].0, out[3].0), (SendOpcode::Write { stag: Stag(4), to: 0 }, SendOpcode::Send));
        let mut tail = Vec::new();
        parts(1, 2).out_requests(0, |wr| tail.push(wr.opcode));
        assert_eq!(tail[1], SendOpcode::Nop);
    }
}
