//! The right content of each completion: an independent statement of RDMAP's rules for queues and ordering.

use weft_rnic::{Completion, CompletionOpcode, Status};

use super::lane::Lane;
use super::request::{Op, Request};
use super::tally::Tally;

/// The request of a completion, by its wr_id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    pub(crate) lane: usize,
    pub(crate) side: usize,
    pub(crate) is_recv: bool,
    pub(crate) index: usize,
}

impl Name {
    pub(crate) const fn wr_id(self) -> u64 {
        (self.is_recv as u64) << 63 | (self.lane as u64) << 40 | (self.side as u64) << 32 | self.index as u64
    }

    pub(crate) fn of(wr_id: u64) -> Self {
        let part = |shift: u32, bits: u32| usize::try_from(wr_id >> shift & ((1 << bits) - 1)).unwrap_or(0);
        Self { lane: part(40, 20), side: part(32, 1), is_recv: wr_id >> 63 == 1, index: part(0, 32) }
    }
}

impl Lane {
    /// Checks a completion against everything that is known, and updates the model.
    pub(crate) fn complete(
        &mut self,
        name: Name,
        completion: &Completion,
        tally: &mut Tally,
    ) -> Result<(), String> {
        let checked = self.check_frame(name, completion).and_then(|()| {
            if name.is_recv {
                self.complete_recv(name, completion)
            } else {
                self.complete_send(name, completion, tally)
            }
        });
        checked.map_err(|error| format!("{}: {completion:?}: {error}", self.name(name.side)))
    }

    /// Checks the rules for all completions of both queues.
    fn check_frame(&mut self, name: Name, completion: &Completion) -> Result<(), String> {
        let end = &mut self.ends[name.side];
        ensure(completion.qp_num == end.number, "another queue pair's number")?;
        ensure(end.qp.is_some(), "the queue pair is destroyed")?;
        let is_good = completion.status == Status::Success;
        let may_flush = end.may_flush();
        let queue = if name.is_recv { &mut end.recvs } else { &mut end.sends };
        ensure(name.index < queue.posted, "a request that was never posted")?;
        ensure(name.index >= queue.done, "a request that was completed already")?;
        ensure(completion.timestamp >= queue.stamp, "time goes backwards")?;
        queue.stamp = completion.timestamp;
        if is_good {
            ensure(queue.failed.is_none(), "success behind a failure")?;
            return ensure(completion.vendor_err == 0, "success with the code of a failure");
        }
        ensure(may_flush, "a failure, but the connection has not ended")?;
        if completion.status != Status::WorkRequestFlushed {
            queue.blamed.push((name.index, completion.status, completion.vendor_err));
        }
        Ok(())
    }

    fn complete_send(
        &mut self,
        name: Name,
        completion: &Completion,
        tally: &mut Tally,
    ) -> Result<(), String> {
        let end = &self.ends[name.side];
        let silent = || end.sends.done..name.index;
        let is_good = completion.status == Status::Success;
        if end.sends.failed.is_some() {
            ensure(silent().is_empty(), "a request before it was neither completed nor flushed")?;
        }
        if let Some(index) = silent().find(|&index| end.is_signaled(index)) {
            return Err(format!("request {index} before it has no completion"));
        }
        self.finish(name.side, name.index, tally)?;
        let end = &mut self.ends[name.side];
        if !is_good {
            end.sends.failed.get_or_insert(name.index);
            end.sends.done = name.index + 1;
            return Ok(());
        }
        ensure(name.index < end.planned, "success of a request that was posted after the end")?;
        let request = &end.plan.requests[name.index];
        ensure(end.is_signaled(name.index), "the request asked for no completion")?;
        ensure(completion.opcode == request.opcode(), "another opcode")?;
        let len = if request.fetches() { request.data.len() } else { 0 };
        ensure(completion.byte_len as usize == len, format!("byte_len should be {len}"))?;
        ensure(
            completion.invalidated.is_none() && completion.immediate.is_none(),
            "what only receives have",
        )?;
        ensure(!completion.solicited, "solicited")?;
        self.finish(name.side, name.index + 1, tally)
    }

    /// Notes that all requests before `upto` are done, and have succeeded.
    fn finish(&mut self, side: usize, upto: usize, tally: &mut Tally) -> Result<(), String> {
        for index in self.ends[side].sends.done..upto {
            let request = &self.ends[side].plan.requests[index];
            ensure(
                request.bad.is_none_or(|bad| !bad.is_local() && !request.fetches()),
                format!("request {index} is bad and has succeeded"),
            )?;
            tally.operation(request.name(), request.data.len());
            if request.fetches() {
                // Its answer was made behind all messages sent before it (RFC 5040 section 5.5).
                self.deliver(side, index)?;
                let end = &mut self.ends[side];
                let request = &end.plan.requests[index];
                end.memory.land(&request.local, &request.data)?;
            }
            let end = &mut self.ends[side];
            end.sends.done = index + 1;
            scribble(end, index)?;
        }
        Ok(())
    }

    /// Notes that all requests of an end before `upto` have been placed at the peer, in order.
    pub(crate) fn deliver(&mut self, side: usize, upto: usize) -> Result<(), String> {
        let [a, b] = &mut self.ends;
        let (own, peer) = if side == 0 { (a, b) } else { (b, a) };
        while own.delivered < upto {
            let request = &own.plan.requests[own.delivered];
            ensure(
                request.bad.is_none(),
                format!("something arrived behind the bad request {}", own.delivered),
            )?;
            let landed = match request.op {
                Op::Write { to } => peer.memory.land(&[to], &request.data),
                Op::Send { receive, .. } => match peer.plan.receives.get(receive) {
                    Some(receive) => peer.memory.land(&receive.places, &request.data),
                    None => Err("there is no such receive".into()),
                },
                _ => Ok(()),
            };
            landed.map_err(|error| format!("request {} of the peer: {error}", own.delivered))?;
            own.delivered += 1;
        }
        Ok(())
    }

    fn complete_recv(&mut self, name: Name, completion: &Completion) -> Result<(), String> {
        let Name { side, index, .. } = name;
        let end = &mut self.ends[side];
        ensure(index == end.recvs.done, "a receive before it has not completed")?;
        end.recvs.done += 1;
        if completion.status != Status::Success {
            end.recvs.failed.get_or_insert(index);
            return Ok(());
        }
        let (own, peer) = (&self.ends[side], &self.ends[1 - side]);
        let sender = *peer.senders.get(index).ok_or("the peer has nothing to send to it")?;
        ensure(sender < peer.sends.posted, "the peer has not sent that yet")?;
        let request = &peer.plan.requests[sender];
        let immediate = matches!(request.op, Op::Immediate { .. });
        let opcode = if immediate { CompletionOpcode::RecvWithImmediate } else { CompletionOpcode::Recv };
        ensure(completion.opcode == opcode, "another opcode")?;
        let len = if immediate { written_before(&peer.plan.requests[..sender]) } else { request.data.len() };
        ensure(completion.byte_len as usize == len, format!("byte_len should be {len}"))?;
        let octets = completion.immediate.map(|octets| octets.to_vec());
        ensure(octets == immediate.then(|| request.data.clone()), "other immediate data")?;
        ensure(completion.solicited == request.solicited, "the solicited event is wrong")?;
        let window = window_of(request).and_then(|region| own.window(region));
        ensure(completion.invalidated == window.map(|mr| mr.rkey().0), "another invalidated STag")?;
        ensure(window.is_none_or(weft_rnic::Mr::is_invalidated), "the STag is still valid")?;
        self.deliver(1 - side, sender + 1)
    }
}

/// Overwrites the source of a finished request at once, as an application may.
fn scribble(end: &mut super::lane::End, index: usize) -> Result<(), String> {
    let request = &end.plan.requests[index];
    if request.scribble && request.bad.is_none() {
        for place in &request.local {
            let junk: Vec<u8> = (0..place.len).map(|at| at.to_le_bytes()[0] ^ 0x5A).collect();
            end.memory.write(place, &junk)?;
        }
    }
    Ok(())
}

/// Returns the octets of the Writes behind the last message of another kind.
fn written_before(requests: &[Request]) -> usize {
    let writes = requests.iter().rev().take_while(|request| matches!(request.op, Op::Write { .. }));
    writes.map(|request| request.data.len()).sum()
}

/// Returns the peer's region that a Send invalidates.
pub(crate) const fn window_of(request: &Request) -> Option<usize> {
    match request.op {
        Op::Send { invalidate, .. } => invalidate,
        _ => None,
    }
}

/// Returns `Ok` if `holds`, else the error `wrong`.
pub(crate) fn ensure(holds: bool, wrong: impl Into<String>) -> Result<(), String> {
    if holds { Ok(()) } else { Err(wrong.into()) }
}
