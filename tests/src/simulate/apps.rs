//! The applications: they poll completions, post planned requests, and do nothing while they stall.

use weft_netif::Instant;
use weft_rnic::{Cq, Data, RecvWr, SendOpcode, SendWr, Sge, Stag};

use super::lane::{End, Lane, State};
use super::layout::{Place, Role};
use super::model::{Name, window_of};
use super::request::{Bad, Change, Op, Receive, Request};
use super::world::World;

impl World {
    /// Lets all applications act now.
    pub(crate) fn act(&mut self) -> Result<(), String> {
        let now = self.now();
        for host in 0..self.hosts.len() {
            if self.hosts[host].stalled_until(now).is_none() {
                self.handle_events(host, now)?;
                self.poll_completions(host, now)?;
            }
        }
        for lane in 0..self.lanes.len() {
            self.connect_if_due(lane, now)?;
            for side in 0..2 {
                let host = self.lanes[lane].ends[side].plan.host;
                if self.hosts[host].stalled_until(now).is_none() {
                    self.work(lane, side, now)?;
                    self.meet_fate(lane, side, now)?;
                }
            }
        }
        Ok(())
    }

    /// Returns the time at which an application wants to act next by itself.
    pub(crate) fn next_act(&self, now: Instant) -> Option<Instant> {
        let stalls = self.hosts.iter().filter_map(|host| host.stalled_until(now));
        let lanes = self.lanes.iter().filter(|lane| !lane.is_over()).flat_map(|lane| {
            let thinks =
                lane.ends.iter().filter(|end| end.state == State::Established).map(|end| end.next_at);
            let patience = self.forges.then(|| lane.moved + super::fates::PATIENCE);
            thinks.chain(lane.connect_at).chain(lane.due.into_iter().flatten()).chain(patience)
        });
        stalls.chain(lanes).filter(|at| *at > now).min()
    }

    pub(crate) fn poll_completions(&mut self, host: usize, now: Instant) -> Result<(), String> {
        let cqs: Vec<Cq> = if self.hosts[host].plan.notified {
            let mut announced = Vec::new();
            while let Some(id) = self.hosts[host].channel.next() {
                announced.extend(self.hosts[host].cqs.iter().find(|cq| cq.id() == id).cloned());
            }
            announced
        } else {
            self.hosts[host].cqs.clone()
        };
        for cq in cqs {
            if self.hosts[host].plan.notified {
                cq.request_notification(false);
            }
            self.drain(&cq, now)?;
        }
        Ok(())
    }

    /// Takes all completions of a queue.
    pub(crate) fn drain(&mut self, cq: &Cq, now: Instant) -> Result<(), String> {
        while let Some(completion) = cq.poll_one() {
            if completion.status != weft_rnic::Status::Success {
                self.tally.status(&completion.status.to_string());
            }
            for completion in self.saboteur.completion(completion, &self.lanes) {
                let name = Name::of(completion.wr_id);
                self.trace.note(now, format_args!("completed {name:?} {completion:?}"));
                let lane = self.lanes.get_mut(name.lane).ok_or("a completion whose lane does not exist")?;
                lane.moved = now;
                lane.complete(name, &completion, &mut self.tally)?;
            }
        }
        if cq.is_overrun() { Err("a completion queue is overrun".into()) } else { Ok(()) }
    }

    /// Posts a burst, if it is due.
    fn work(&mut self, lane: usize, side: usize, now: Instant) -> Result<(), String> {
        let Self { lanes, trace, random, .. } = self;
        let lane = &mut lanes[lane];
        let end = &mut lane.ends[side];
        if matches!(end.state, State::Over(_)) && !end.posted_after_end {
            return post_after_end(lane, side);
        }
        if end.is_ended() || end.disconnected || now < end.next_at {
            return Ok(());
        }
        let mut posted = 0;
        while posted < lane.ends[side].plan.burst && post_recv(lane, side)? {
            posted += 1;
        }
        while posted < lane.ends[side].plan.burst && post_send(lane, side)? {
            trace.note(
                now,
                format_args!("{} posts request {}", lane.name(side), lane.ends[side].sends.posted - 1),
            );
            posted += 1;
        }
        if posted > 0 {
            lane.moved = now;
            let think = random.below(lane.ends[side].plan.think + 1) as u64;
            lane.ends[side].next_at = now + weft_netif::Duration::from_micros(think);
        }
        Ok(())
    }
}

/// Posts the next receive, if there is one and room for it.
fn post_recv(lane: &mut Lane, side: usize) -> Result<bool, String> {
    let (index, end) = (lane.index, &mut lane.ends[side]);
    let progress = &end.recvs;
    let Some(receive) = end.plan.receives.get(progress.posted) else { return Ok(false) };
    if progress.posted - progress.done >= end.plan.quota[1] {
        return Ok(false);
    }
    let mut sges: Vec<Sge> = receive.places.iter().map(|place| sge(end, place)).collect();
    if receive.bad {
        sges.push(Sge { addr: 0, length: 1 << 20, lkey: unknown(end.memory.stag(0)) });
    }
    let name = Name { lane: index, side, is_recv: true, index: progress.posted };
    let Some(qp) = &end.qp else { return Ok(false) };
    qp.post_recv(&RecvWr { wr_id: name.wr_id(), sges: &sges })
        .map_err(|error| format!("{name:?}: {error}"))?;
    end.recvs.posted += 1;
    Ok(true)
}

/// Posts the next request, if there is one, room for it, and the receive of the peer that it may need.
fn post_send(lane: &mut Lane, side: usize) -> Result<bool, String> {
    let (end, peer) = (&lane.ends[side], &lane.ends[1 - side]);
    let progress = &end.sends;
    let Some(request) = end.plan.requests.get(progress.posted) else { return Ok(false) };
    let is_ready = end.state == State::Established && progress.posted - progress.done < end.plan.quota[0];
    let waits = request.bad != Some(Bad::NoReceive)
        && request.receive().is_some_and(|receive| receive >= peer.recvs.posted);
    if !is_ready || waits {
        return Ok(false);
    }
    let index = progress.posted;
    let mut sges: Vec<Sge> = request.local.iter().map(|place| sge(end, place)).collect();
    if let Some(bad) = request.bad.filter(|bad| bad.is_local()) {
        spoil_sge(end, &mut sges, bad);
    }
    let data = if request.inline { Data::Inline(&request.data) } else { Data::Sges(&sges) };
    let name = Name { lane: lane.index, side, is_recv: false, index };
    let wr = SendWr {
        wr_id: name.wr_id(),
        opcode: opcode(end, peer, request)?,
        data,
        signaled: request.signaled,
        fence: request.fence,
        solicited: request.solicited,
    };
    let Some(qp) = &end.qp else { return Ok(false) };
    qp.post_send(&wr).map_err(|error| format!("{name:?}: {error}"))?;
    lane.ends[side].sends.posted += 1;
    Ok(true)
}

/// Posts a request after the end, which has to be flushed at once.
fn post_after_end(lane: &mut Lane, side: usize) -> Result<(), String> {
    let (index, end) = (lane.index, &mut lane.ends[side]);
    end.posted_after_end = true;
    let has_room = |posted: usize, done: usize, quota: usize| posted - done < quota;
    if has_room(end.recvs.posted, end.recvs.done, end.plan.quota[1]) {
        end.plan.receives.truncate(end.recvs.posted);
        end.plan.receives.push(Receive::default());
        post_recv(lane, side)?;
    }
    let end = &mut lane.ends[side];
    if has_room(end.sends.posted, end.sends.done, end.plan.quota[0])
        && let Some(qp) = &end.qp
    {
        end.plan.requests.truncate(end.sends.posted);
        end.planned = end.sends.posted;
        end.senders.retain(|sender| *sender < end.planned);
        end.plan.requests.push(Request::empty());
        let name = Name { lane: index, side, is_recv: false, index: end.sends.posted };
        let wr = SendWr {
            wr_id: name.wr_id(),
            opcode: SendOpcode::Send,
            data: Data::Sges(&[]),
            signaled: false,
            fence: false,
            solicited: false,
        };
        qp.post_send(&wr).map_err(|error| format!("{name:?}: {error}"))?;
        end.sends.posted += 1;
    }
    Ok(())
}

/// Returns the operation for the verbs, with the planned fault in it.
fn opcode(end: &End, peer: &End, request: &Request) -> Result<SendOpcode, String> {
    let bad = request.bad;
    Ok(match request.op {
        Op::Send { .. } => match window_of(request).map(|window| peer.memory.stag(window)) {
            Some(stag) if bad == Some(Bad::CannotInvalidate) => SendOpcode::SendInvalidate {
                stag: match request.data.len() % 4 {
                    0 => unknown(stag),
                    1 => peer.memory.stag(Role::Exposed as usize),
                    2 => peer.memory.stag(Role::Foreign as usize),
                    _ => peer.memory.stag(Role::Bound as usize),
                },
            },
            Some(stag) => SendOpcode::SendInvalidate { stag },
            None => SendOpcode::Send,
        },
        Op::Immediate { .. } => {
            let data = request.data.as_slice().try_into().map_err(|_| "immediate data has 8 octets")?;
            SendOpcode::Immediate { data }
        }
        Op::Write { to } => {
            let (stag, to) = target(end, peer, request, &to);
            SendOpcode::Write { stag, to }
        }
        Op::Read { from } => {
            let (stag, to) = target(end, peer, request, &from);
            SendOpcode::Read { stag, to }
        }
        Op::Atomic { word, change, .. } => {
            let (stag, to) = target(end, peer, request, &peer.plan.words[word].0);
            match change {
                Change::FetchAdd { add, mask } => SendOpcode::FetchAdd { stag, to, add, mask },
                Change::CompareSwap { swap, swap_mask, compare, compare_mask } => {
                    SendOpcode::CompareSwap { stag, to, swap, swap_mask, compare, compare_mask }
                }
            }
        }
    })
}

/// Returns STag and tagged offset of a place at the peer, with the planned fault in them.
fn target(end: &End, peer: &End, request: &Request, place: &Place) -> (Stag, u64) {
    let memory = &peer.memory;
    let (stag, iova) = (memory.stag(place.region), memory.iova(place.region));
    let to = iova.wrapping_add(place.offset as u64);
    let len = request.data.len();
    let elsewhere = |region: usize| (memory.stag(region), memory.iova(region));
    match request.bad {
        Some(Bad::Stag) => (unknown(stag), to),
        Some(Bad::Invalidated) => {
            let mut windows = end.plan.requests[..end.sends.posted].iter().filter_map(window_of);
            windows.next_back().map_or_else(|| (unknown(stag), to), |window| (memory.stag(window), to))
        }
        Some(Bad::Bounds | Bad::Before) => {
            let size = memory.size(place.region);
            // Few octets are before the end, so that the first segment has the fault; octets that fit would be
            // placed.
            let beyond = iova.wrapping_add(size.saturating_sub((len - 1).min(7)) as u64);
            // An access that begins before the region must not begin before zero. One that ends behind it must not
            // wrap.
            let wraps = beyond.checked_add(len as u64).is_none();
            let begin =
                if wraps || (request.bad == Some(Bad::Before) && iova > 0) { iova - 1 } else { beyond };
            (stag, begin)
        }
        Some(Bad::Wrap) => (stag, u64::MAX - (len as u64 / 2).min(4)),
        Some(bad @ Bad::Rights) => elsewhere(bad.region(&request.op) as usize),
        // The offset of such a region is its address, which differs in each run. The check of the stream comes first.
        Some(Bad::Stream) => (memory.stag(Role::Bound as usize), to),
        Some(Bad::Domain) => elsewhere(Role::Foreign as usize),
        Some(Bad::Unaligned) => (stag, to + 1 + iova % 7),
        _ => (stag, to),
    }
}

/// Makes the first element that is not empty wrong.
fn spoil_sge(end: &End, sges: &mut [Sge], bad: Bad) {
    let Some(sge) = sges.iter_mut().find(|sge| sge.length > 0) else { return };
    let elsewhere = |role: Role| (end.memory.iova(role as usize), end.memory.stag(role as usize));
    (sge.addr, sge.lkey) = match bad {
        Bad::LocalStag => (sge.addr, unknown(sge.lkey)),
        Bad::LocalRights => elsewhere(Role::Readable),
        Bad::LocalDomain => elsewhere(Role::Foreign),
        _ => {
            let role = Role::Source as usize;
            let size = end.memory.size(role) as u64;
            (
                end.memory.iova(role).wrapping_add((size + 1).saturating_sub(u64::from(sge.length))),
                end.memory.stag(role),
            )
        }
    };
}

fn sge(end: &End, place: &Place) -> Sge {
    Sge {
        addr: end.memory.iova(place.region).wrapping_add(place.offset as u64),
        length: u32::try_from(place.len).unwrap_or(u32::MAX),
        lkey: end.memory.stag(place.region),
    }
}

/// Returns an STag that differs from a good one only in its key octet, which was never in use.
fn unknown(stag: Stag) -> Stag {
    Stag(stag.0 ^ 0x80)
}
