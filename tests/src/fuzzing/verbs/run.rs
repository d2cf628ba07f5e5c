//! The effects of posted requests, by the model: a second implementation of RFC 5040 and the verbs.

use weft_rnic::{Access, Completion, CompletionOpcode, QpState, SendOpcode, Stag, Status};

use super::memory::{Asker, End, Refused};
use super::queues::{Link, Octets, Pair, Recv, Send};
use super::world::{EndKind, Event, World};

/// The result of a message at the peer.
enum Verdict {
    Good,
    /// The peer ends the stream. The status is that of a request that waits for an answer.
    Bad(Status),
}

impl World {
    /// Runs all requests that were posted on `end`, in two steps: first the device sends them together, then the peer
    /// takes them.
    pub(super) fn run(&mut self, end: End) {
        let state = self.pair(end).state;
        if state == QpState::Error {
            return self.flush(end);
        }
        let Link::Up(peer) = self.pair(end).link else { return };
        let mut sent = Vec::new();
        let mut fault = false;
        // A held request is not changed, so that it stays until the end.
        while let Some(send) = self.pair(end).sends.front().cloned() {
            if send.opcode == SendOpcode::Hold {
                break;
            }
            self.pair_mut(end).sends.pop_front();
            if send.opcode.is_local() {
                let done = self.carry_out(end, &send);
                let status = match (done, send.opcode) {
                    (Ok(()), _) => Status::Success,
                    (Err(_), SendOpcode::Wait { .. }) => Status::LocalQpOperation,
                    (Err(_), _) => Status::MemoryWindowBind,
                };
                self.complete_send(end, &send, status, 0);
                if done.is_ok() {
                    continue;
                }
                fault = true;
                break;
            }
            match self.gather(end, &send) {
                Ok(octets) => {
                    // A request that waits for an answer completes with the answer.
                    if !send.opcode.fetches() {
                        self.complete_send(end, &send, Status::Success, 0);
                    }
                    sent.push((send, octets));
                }
                Err(_) => {
                    self.complete_send(end, &send, Status::LocalProtection, 0);
                    fault = true;
                    break;
                }
            }
        }
        let mut bad = false;
        let mut waiting = Vec::new();
        for (send, octets) in sent {
            let verdict = if bad {
                Verdict::Bad(Status::WorkRequestFlushed)
            } else {
                self.arrive(end, peer, &send, &octets)
            };
            let status = match verdict {
                Verdict::Good => Status::Success,
                Verdict::Bad(status) => {
                    bad = true;
                    status
                }
            };
            if send.opcode.fetches() {
                waiting.push((send, status));
            }
        }
        for (send, status) in waiting {
            let len = if status == Status::Success { length(&send) } else { 0 };
            self.complete_send(end, &send, status, len);
        }
        if fault || bad {
            let mine = if fault { EndKind::LocalTerminate } else { EndKind::PeerTerminate };
            let theirs = if bad { EndKind::LocalTerminate } else { EndKind::PeerTerminate };
            self.end(end, mine);
            self.end(peer, theirs);
        }
    }

    /// Ends the connection of a queue pair.
    pub(super) fn end(&mut self, end: End, kind: EndKind) {
        let pair = self.pair_mut(end);
        pair.link = Link::None;
        pair.state = QpState::Error;
        let number = pair.number;
        self.sides[end.0].expected.push(Event::Disconnected(number, kind));
        self.flush(end);
    }

    /// Returns the octets that go out, if the local part of a request is valid.
    fn gather(&self, end: End, send: &Send) -> Result<Vec<u8>, Refused> {
        let asker = self.pair(end).asker();
        let memories = &self.sides[end.0].memories;
        match &send.data {
            Octets::Inline(octets) => Ok(octets.clone()),
            Octets::Sges(sges) if send.opcode.fetches() => {
                for sge in sges.iter().filter(|sge| sge.length > 0) {
                    memories.check(asker, sge.lkey, Access::LOCAL_WRITE, (sge.addr, sge.length as usize))?;
                }
                Ok(Vec::new())
            }
            Octets::Sges(sges) => memories.gather(asker, sges),
        }
    }

    /// Carries out a request that makes no message.
    fn carry_out(&mut self, end: End, send: &Send) -> Result<(), Refused> {
        let asker = self.pair(end).asker();
        let memories = &mut self.sides[end.0].memories;
        match send.opcode {
            SendOpcode::Nop => Ok(()),
            SendOpcode::LocalInvalidate { stag } => {
                let victim = memories.own(asker, stag)?;
                memories.invalidate(victim);
                Ok(())
            }
            SendOpcode::BindWindow(bind) => memories.bind(asker, bind),
            SendOpcode::FastRegister(request) => memories.fast_register(asker, request),
            _ => Err(Refused),
        }
    }

    /// Delivers a message of `from` to `to`.
    fn arrive(&mut self, from: End, to: End, send: &Send, octets: &[u8]) -> Verdict {
        let asker = self.pair(to).asker();
        let is_write = matches!(
            send.opcode,
            SendOpcode::Write { .. } | SendOpcode::WriteImmediate { .. } | SendOpcode::Immediate { .. }
        );
        if !is_write {
            self.pair_mut(to).written = 0;
        }
        match send.opcode {
            SendOpcode::Send => self.deliver(to, send, octets, None),
            SendOpcode::SendInvalidate { stag } => self.deliver(to, send, octets, Some(stag)),
            SendOpcode::Immediate { data } => self.hand_over(to, send, data),
            // These were carried out without a message.
            SendOpcode::BindWindow(_)
            | SendOpcode::FastRegister(_)
            | SendOpcode::LocalInvalidate { .. }
            | SendOpcode::Nop
            | SendOpcode::Wait { .. }
            | SendOpcode::Sync
            | SendOpcode::SyncLater
            | SendOpcode::Hold => Verdict::Good,
            SendOpcode::Write { stag, to: offset } => self.write(to, (stag, offset), octets),
            SendOpcode::WriteImmediate { stag, to: offset, immediate: [a, b, c, d] } => {
                match self.write(to, (stag, offset), octets) {
                    Verdict::Good => self.hand_over(to, send, [a, b, c, d, 0, 0, 0, 0]),
                    bad @ Verdict::Bad(_) => bad,
                }
            }
            SendOpcode::Read { stag, to: offset } => self.read(from, asker, send, (stag, offset)),
            SendOpcode::FetchAdd { add, mask, .. } => {
                self.change(from, asker, send, |old| add_in_fields(old, add, mask))
            }
            SendOpcode::CompareSwap { swap, swap_mask, compare, compare_mask, .. } => {
                self.change(from, asker, send, |old| {
                    let is_equal = old & compare_mask == compare & compare_mask;
                    if is_equal { (old & !swap_mask) | (swap & swap_mask) } else { old }
                })
            }
        }
    }

    /// Delivers Immediate Data to the first receive in line.
    fn hand_over(&mut self, to: End, send: &Send, data: [u8; 8]) -> Verdict {
        let written = core::mem::take(&mut self.pair_mut(to).written);
        let Some(recv) = self.pair_mut(to).recvs.pop_front() else { return REFUSED };
        self.complete_recv(to, &recv, Status::Success, |completion| {
            completion.opcode = CompletionOpcode::RecvWithImmediate;
            completion.immediate = Some(data);
            completion.byte_len = u32::try_from(written).expect("short messages");
            completion.solicited = send.solicited;
        });
        Verdict::Good
    }

    fn write(&mut self, to: End, (stag, offset): (Stag, u64), octets: &[u8]) -> Verdict {
        let asker = self.pair(to).asker();
        self.pair_mut(to).written += octets.len();
        if octets.is_empty() {
            return Verdict::Good;
        }
        let memories = &mut self.sides[to.0].memories;
        match memories.check(asker, stag, Access::REMOTE_WRITE, (offset, octets.len())) {
            Ok((index, at)) => {
                memories.put(index, at, octets);
                if memories.list[index].stag != stag {
                    self.note(format_args!("WrittenThroughWindow"));
                }
                Verdict::Good
            }
            Err(_) => REFUSED,
        }
    }

    /// Delivers a Send to the first receive in line. The stream ends if there is none.
    fn deliver(&mut self, to: End, send: &Send, octets: &[u8], invalidate: Option<Stag>) -> Verdict {
        let asker = self.pair(to).asker();
        let Some(recv) = self.pair_mut(to).recvs.pop_front() else { return REFUSED };
        let capacity: u64 = recv.sges.iter().map(|sge| u64::from(sge.length)).sum();
        if octets.len() as u64 > capacity {
            self.complete_recv(to, &recv, Status::LocalLength, |_| {});
            return REFUSED;
        }
        let memories = &mut self.sides[to.0].memories;
        let region = invalidate.map(|stag| memories.invalidatable(asker, stag));
        if region == Some(None) {
            self.complete_recv(to, &recv, Status::WorkRequestFlushed, |_| {});
            return REFUSED;
        }
        if memories.scatter(asker, &recv.sges, octets).is_err() {
            self.complete_recv(to, &recv, Status::LocalProtection, |_| {});
            return REFUSED;
        }
        if let Some(Some(region)) = region {
            memories.invalidate(region);
        }
        let len = u32::try_from(octets.len()).expect("a short message");
        self.complete_recv(to, &recv, Status::Success, |completion| {
            completion.byte_len = len;
            completion.invalidated = invalidate.map(|stag| stag.0);
            completion.solicited = send.solicited;
        });
        Verdict::Good
    }

    /// Carries out a Read, which makes one request for each element.
    fn read(&mut self, from: End, source: Asker, send: &Send, (stag, to): (Stag, u64)) -> Verdict {
        let Octets::Sges(sges) = &send.data else { return Verdict::Good };
        let sink = self.pair(from).asker();
        let mut placed = Vec::new();
        let mut to = to;
        for sge in sges {
            let len = sge.length as usize;
            if len > 0 {
                let memories = &self.sides[source.end.0].memories;
                let Ok((index, at)) = memories.check(source, stag, Access::REMOTE_READ, (to, len)) else {
                    // The earlier parts may or may not have been answered when this one came.
                    self.sides[from.0].memories.maybe.extend(placed);
                    return Verdict::Bad(Status::RemoteAccess);
                };
                let octets = memories.list[index].content[at..at + len].to_vec();
                if memories.list[index].stag != stag {
                    self.note(format_args!("ReadThroughWindow"));
                }
                let memories = &self.sides[from.0].memories;
                let place = memories.check(sink, sge.lkey, Access::LOCAL_WRITE, (sge.addr, len));
                let (index, at) = place.expect("it was checked when it started");
                placed.push((index, at, octets));
            }
            to = to.wrapping_add(u64::from(sge.length));
        }
        for (index, at, octets) in placed {
            self.sides[from.0].memories.put(index, at, &octets);
        }
        Verdict::Good
    }

    /// Carries out an Atomic.
    fn change(&mut self, from: End, target: Asker, send: &Send, new: impl Fn(u64) -> u64) -> Verdict {
        let (SendOpcode::FetchAdd { stag, to, .. } | SendOpcode::CompareSwap { stag, to, .. }) = send.opcode
        else {
            return Verdict::Good;
        };
        let memories = &mut self.sides[target.end.0].memories;
        let Ok((index, at)) = memories.check(target, stag, Access::REMOTE_ATOMIC, (to, 8)) else {
            return Verdict::Bad(Status::RemoteAccess);
        };
        // Memory that the stack allocates begins at an aligned address.
        if at % 8 != 0 {
            return Verdict::Bad(Status::RemoteOperation);
        }
        let old = memories.list[index].content[at..at + 8].try_into().expect("eight octets");
        memories.put(index, at, &new(u64::from_ne_bytes(old)).to_ne_bytes());
        let sink = self.pair(from).asker();
        if let Octets::Sges(sges) = &send.data {
            let placed = self.sides[from.0].memories.scatter(sink, sges, &old);
            placed.expect("it was checked when it started");
        }
        Verdict::Good
    }

    fn complete_send(&mut self, end: End, send: &Send, status: Status, byte_len: u32) {
        self.pair_mut(end).done[0].push_back(send.wr_id);
        let pair = self.pair(end);
        if status == Status::Success && !send.signaled && !pair.signal_all {
            return;
        }
        let completion = pair.completion(send.wr_id, send.opcode.completion(), status);
        let cq = pair.cqs[0];
        self.sides[end.0].cqs[cq].expect(end, 0, Completion { byte_len, ..completion });
    }

    fn complete_recv(
        &mut self,
        end: End,
        recv: &Recv,
        status: Status,
        particulars: impl FnOnce(&mut Completion),
    ) {
        self.pair_mut(end).done[1].push_back(recv.wr_id);
        let pair = self.pair(end);
        let mut completion = pair.completion(recv.wr_id, CompletionOpcode::Recv, status);
        particulars(&mut completion);
        let cq = pair.cqs[1];
        self.sides[end.0].cqs[cq].expect(end, 1, completion);
    }

    fn flush(&mut self, end: End) {
        while let Some(send) = self.pair_mut(end).sends.pop_front() {
            self.complete_send(end, &send, Status::WorkRequestFlushed, 0);
        }
        while let Some(recv) = self.pair_mut(end).recvs.pop_front() {
            self.complete_recv(end, &recv, Status::WorkRequestFlushed, |_| {});
        }
    }

    pub(super) fn pair(&self, (side, index): End) -> &Pair {
        &self.sides[side].pairs[index]
    }

    pub(super) fn pair_mut(&mut self, (side, index): End) -> &mut Pair {
        &mut self.sides[side].pairs[index]
    }
}

fn length(send: &Send) -> u32 {
    match &send.data {
        Octets::Sges(sges) => sges.iter().map(|sge| sge.length).sum(),
        Octets::Inline(_) => 0,
    }
}

/// Adds bit by bit, with no carry out of the top bit of a field.
fn add_in_fields(old: u64, add: u64, mask: u64) -> u64 {
    let mut carry = 0;
    let mut sum = 0;
    for bit in 0..u64::BITS {
        let digits = ((old >> bit) & 1) + ((add >> bit) & 1) + carry;
        sum |= (digits & 1) << bit;
        carry = if (mask >> bit) & 1 == 1 { 0 } else { digits >> 1 };
    }
    sum
}

/// The peer refuses a message for which no request waits.
const REFUSED: Verdict = Verdict::Bad(Status::WorkRequestFlushed);
