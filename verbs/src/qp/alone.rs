//! A queue pair that is connected to itself. It copies, swaps and waits on the memory of its own host, without TCP.
//!
//! It carries out one request at a time, and the next one when that is done. So no request needs a fence, and the
//! completion of a Write says that the octets are there.

use weft_rdmap::{AtomicRequest, Kind, Token};

use super::QueuePair;
use crate::access::Access;
use crate::completion::Status;
use crate::memory::MemoryTable;
use crate::pieces::pieces;
use crate::refusal::LocalFault;
use crate::state::{QpEvent, QpState};
use crate::work::SendOpcode;

impl QueuePair {
    /// Connects the queue pair to itself: it is ready to send at once. Returns `false` if it is not Idle, or behaves as
    /// InfiniBand's; nothing has changed then.
    pub fn connect_self(&mut self) -> bool {
        if self.queues.state() != QpState::Idle || self.queues.as_infiniband() {
            return false;
        }
        self.alone = Some(0);
        self.handle_event(QpEvent::Established);
        true
    }

    /// Returns whether it is connected to itself.
    pub const fn is_alone(&self) -> bool {
        self.alone.is_some()
    }

    /// Carries out the requests of a queue pair that is connected to itself, as far as a turn goes:
    /// [`Self::TURN_ALONE`] octets. If there is more to do, [`Self::take_goes_on`] says so.
    ///
    /// # Errors
    /// [`LocalFault`] when a request fails, which has completed with that status. It is the end of the queue pair.
    pub fn run_alone(&mut self, memory: &MemoryTable) -> Result<(), LocalFault> {
        if !self.is_alone() || self.queues.state() != QpState::Rts {
            return Ok(());
        }
        let end = self.drain_until.unwrap_or_else(|| self.sends_posted());
        let mut room = Self::TURN_ALONE;
        loop {
            if self.started == end {
                self.goes_on = self.drain_until.is_none() && self.queues.send.is_cyclic();
                return Ok(());
            }
            if !self.active {
                self.alone = Some(0);
                if !self.load(memory)? {
                    return Ok(());
                }
            }
            if self.work.opcode.is_local() {
                if !self.carry_out(memory)? {
                    return Ok(());
                }
            } else if room == 0 {
                self.goes_on = true;
                return Ok(());
            } else {
                self.move_on_alone(memory, &mut room)?;
            }
        }
    }

    /// Goes on with the request at hand, which moves octets, and completes it if it is done.
    fn move_on_alone(&mut self, memory: &MemoryTable, room: &mut usize) -> Result<(), LocalFault> {
        let done = match self.work.opcode {
            SendOpcode::Write { .. } | SendOpcode::Read { .. } => self.copy_alone(memory, room),
            SendOpcode::FetchAdd { .. } | SendOpcode::CompareSwap { .. } => {
                // It is short, and takes a part of the turn as a copy does, so that no run of them lasts for ever.
                *room = room.saturating_sub(PIECE);
                self.update_alone(memory)
            }
            // There is no receive that could take the message.
            _ => Err(Status::LocalQpOperation),
        };
        match done {
            Ok(true) => {
                self.current.parts = 1;
                self.finish(Token(self.started));
                Ok(())
            }
            Ok(false) => Ok(()),
            Err(status) => Err(self.fault(status)),
        }
    }

    /// Copies the next octets of a Write or Read, and returns whether all of them have been copied. Both sides are
    /// checked anew for each piece, as each segment of a message is.
    fn copy_alone(&mut self, memory: &MemoryTable, room: &mut usize) -> Result<bool, Status> {
        let (stag, to, fetches) = match self.work.opcode {
            SendOpcode::Write { stag, to } => (stag, to, false),
            SendOpcode::Read { stag, to } => (stag, to, true),
            _ => return Err(Status::General),
        };
        let (len, mut moved) = (self.work.len as usize, self.alone.unwrap_or(0));
        let (remote, local) = if fetches {
            (Access::REMOTE_READ, Access::LOCAL_WRITE)
        } else {
            (Access::REMOTE_WRITE, Access::LOCAL_READ)
        };
        let remote = self.claim(stag, remote);
        if moved == 0 && len > 0 {
            // A request that the memory does not allow as a whole changes nothing.
            memory.check(remote, to, len).map_err(|_violation| Status::RemoteAccess)?;
        }
        let mut octets = [0; PIECE];
        while moved < len && *room > 0 {
            let octets = &mut octets[..PIECE.min(len - moved).min(*room)];
            let there = memory.check(remote, to.wrapping_add(moved as u64), octets.len());
            let there = there.map_err(|_violation| Status::RemoteAccess)?;
            if fetches {
                there.copy_out(octets).map_err(|_violation| Status::RemoteAccess)?;
            }
            if self.work.inline.is_empty() {
                for piece in pieces(&self.work.sges, moved, octets.len()) {
                    let here = memory.check(self.claim(piece.sge.lkey, local), piece.to, piece.range.len());
                    let octets = &mut octets[piece.range];
                    here.and_then(|here| if fetches { here.copy_in(octets) } else { here.copy_out(octets) })
                        .map_err(|_violation| Status::LocalProtection)?;
                }
            } else {
                octets.copy_from_slice(&self.work.inline[moved..moved + octets.len()]);
            }
            if !fetches {
                there.copy_in(octets).map_err(|_violation| Status::RemoteAccess)?;
            }
            moved += octets.len();
            *room -= octets.len();
        }
        self.alone = Some(moved);
        Ok(moved == len)
    }

    /// Does an Atomic on memory of the own host.
    fn update_alone(&self, memory: &MemoryTable) -> Result<bool, Status> {
        let Some(Kind::Atomic { op, stag, to }) = self.work.opcode.kind(false) else {
            return Err(Status::General);
        };
        let sink = self.current.sink;
        let reach = self.reach(memory);
        let response = reach.answer_atomic(&AtomicRequest { op, id: 0, stag, to });
        let original = response.map_err(|_error| Status::RemoteAccess)?.original;
        let delivered = reach.deliver(sink.lkey, sink.addr, &original.to_ne_bytes());
        delivered.map(|()| true).map_err(|_violation| Status::LocalProtection)
    }

    /// Octets that one turn of a queue pair copies which is connected to itself.
    pub const TURN_ALONE: usize = 64 * 1024;
}

/// Octets that are copied at a time. They stay in the cache between the two halves of the copy.
const PIECE: usize = 4096;
