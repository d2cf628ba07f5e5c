//! Connections: their beginning, their events, and the ends that their applications cause.

use weft_netif::{Duration, Instant};
use weft_rnic::{CmEvent, ConnParam, ConnectRequest, DisconnectReason};

use super::lane::{Lane, Reason, State};
use super::model::ensure;
use super::plan::{Fate, Moment};
use super::world::{PORT, World};

impl World {
    /// Connects a lane when its time has come.
    pub(crate) fn connect_if_due(&mut self, lane: usize, now: Instant) -> Result<(), String> {
        let host = self.lanes[lane].ends[0].plan.host;
        if self.lanes[lane].connect_at.is_none_or(|at| at > now)
            || self.hosts[host].stalled_until(now).is_some()
        {
            return Ok(());
        }
        let lane = &mut self.lanes[lane];
        lane.connect_at = None;
        let remote = self.hosts[lane.ends[1].plan.host].device.address(PORT);
        let (name, private_data) = (lane.name(0), lane.private_data(0));
        let end = &mut lane.ends[0];
        let Some(qp) = &end.qp else { return Ok(()) };
        let param = ConnParam {
            private_data: &private_data,
            ird: Some(end.plan.ird),
            ord: Some(end.plan.ord),
            peer_to_peer: Some(lane.terms.peer_to_peer),
            ..ConnParam::default()
        };
        let host = &self.hosts[host];
        host.device.connect(&host.events, qp, remote, param).map_err(|error| format!("{name}: {error}"))?;
        end.state = State::Connecting;
        lane.moved = now;
        Ok(())
    }

    /// Handles the events of connections.
    pub(crate) fn handle_events(&mut self, host: usize, now: Instant) -> Result<(), String> {
        while let Some(event) = self.hosts[host].events.next() {
            for event in self.saboteur.event(event) {
                self.trace.note(now, format_args!("host {host} hears {event:?}"));
                match event {
                    CmEvent::ConnectRequest(request) => self.answer(host, &request, now)?,
                    CmEvent::Established { qp_num, .. }
                    | CmEvent::Rejected { qp_num, .. }
                    | CmEvent::ConnectError { qp_num, .. }
                    | CmEvent::Disconnected { qp_num, .. } => {
                        let (lane, side) = self.find(host, qp_num)?;
                        self.lanes[lane].moved = now;
                        self.handle_event(lane, side, &event, now).map_err(|error| {
                            format!("{}: {event:?}: {error}", self.lanes[lane].name(side))
                        })?;
                    }
                    other => return Err(format!("host {host}: no end waits for {other:?}")),
                }
            }
        }
        Ok(())
    }

    /// Carries out the planned fate of an end when it is due.
    pub(crate) fn meet_fate(&mut self, lane: usize, side: usize, now: Instant) -> Result<(), String> {
        let is_forged = self.forges && self.network.forged(lane) > 0;
        let this = &mut self.lanes[lane];
        if this.ends[side].state != State::Established {
            return Ok(());
        }
        if is_forged && now >= this.moved + PATIENCE {
            // MPA has missed octets, so that both sides may wait for each other for ever.
            return self.disconnect(lane, side, now);
        }
        if !this.fired[side] && this.due[side].is_none() {
            this.due[side] = this.moment(side, self.random.below(50)).map(|delay| now + delay);
        }
        if this.due[side].is_none_or(|due| due > now) {
            return Ok(());
        }
        this.due[side] = None;
        this.fired[side] = true;
        self.trace.note(now, format_args!("{} meets its fate", self.lanes[lane].name(side)));
        match self.lanes[lane].terms.fate {
            Fate::Destroy { .. } => self.destroy(lane, side, now),
            Fate::Deregister { by, region, .. } if by == side && !self.lanes[lane].deregistered => {
                let lane = &mut self.lanes[lane];
                // Arrived octets must be checked while the memory is registered.
                lane.audit(side)?;
                lane.ends[side].memory.deregister(region);
                lane.deregistered = true;
                lane.fired[side] = false;
                Ok(())
            }
            _ => self.disconnect(lane, side, now),
        }
    }

    fn disconnect(&mut self, lane: usize, side: usize, now: Instant) -> Result<(), String> {
        let this = &mut self.lanes[lane];
        let end = &mut this.ends[side];
        let Some(qp) = end.qp.as_ref().filter(|_| !end.disconnected) else { return Ok(()) };
        this.moved = now;
        if qp.disconnect().is_err() {
            // The connection has ended meanwhile, and the application is about to get the event.
            return Ok(());
        }
        end.disconnected = true;
        this.freeze(side)
    }

    fn destroy(&mut self, lane: usize, side: usize, now: Instant) -> Result<(), String> {
        let end = &self.lanes[lane].ends[side];
        let host = end.plan.host;
        for cq in end.plan.cqs.map(|cq| self.hosts[host].cqs[cq].clone()) {
            self.drain(&cq, now)?;
        }
        let this = &mut self.lanes[lane];
        this.ends[side].qp = None;
        this.ends[side].state = State::Destroyed;
        this.freeze(side)
    }

    /// Accepts or rejects, as planned.
    fn answer(&mut self, host: usize, request: &ConnectRequest, now: Instant) -> Result<(), String> {
        let index = usize::from(request.private_data.first().copied().unwrap_or(u8::MAX));
        let lane = self.lanes.get_mut(index).filter(|lane| lane.ends[1].plan.host == host);
        let lane = lane.ok_or_else(|| format!("host {host}: no end connects with {request:?}"))?;
        lane.moved = now;
        let [initiator, responder] = &mut lane.ends;
        let depths = self.enhanced.then_some((initiator.plan.ird, initiator.plan.ord));
        ensure((request.ird.zip(request.ord)) == depths, "other depths than the initiator's")?;
        let expected = with_name(index, lane.attempts, &lane.terms.private_data[0]);
        ensure(request.private_data == expected, "other private data than the initiator's")?;
        let device = &self.hosts[host].device;
        let private_data = with_name(index, lane.attempts, &lane.terms.private_data[1]);
        let answered = if lane.attempts < lane.terms.rejections {
            device.reject(request.id, &private_data)
        } else {
            let Some(qp) = &responder.qp else { return Ok(()) };
            let (ird, ord) = (Some(responder.plan.ird), Some(responder.plan.ord));
            let param = ConnParam { private_data: &private_data, ird, ord, ..ConnParam::default() };
            self.network.open(index, (initiator.plan.host, request.peer.port()), host);
            responder.state = State::Connecting;
            device.accept(request.id, qp, param)
        };
        if answered.is_err() && lane.is_doomed {
            responder.state = State::Unconnected;
            return Ok(());
        }
        answered.map_err(|error| format!("{}: {error}", lane.name(1)))
    }

    /// Returns the end that an event is about.
    fn find(&self, host: usize, qp_num: u32) -> Result<(usize, usize), String> {
        let is_this =
            |lane: &Lane, side: usize| lane.ends[side].plan.host == host && lane.ends[side].number == qp_num;
        let mut all = self.lanes.iter().flat_map(|lane| [(lane, 0), (lane, 1)]);
        let found = all.find(|&(lane, side)| is_this(lane, side)).map(|(lane, side)| (lane.index, side));
        found.ok_or_else(|| format!("host {host}: an event of an unknown queue pair {qp_num}"))
    }

    fn handle_event(
        &mut self,
        lane: usize,
        side: usize,
        event: &CmEvent,
        now: Instant,
    ) -> Result<(), String> {
        let this = &mut self.lanes[lane];
        match event {
            CmEvent::Established { private_data, ird, ord, peer_depths, .. } => {
                ensure(this.ends[side].state == State::Connecting, "the end is not connecting")?;
                let answer = if side == 0 { this.private_data(1) } else { Vec::new() };
                ensure(private_data[..] == answer[..], "other private data than the peer's")?;
                let [own, peer] = [side, 1 - side].map(|side| this.depths(side));
                let agreed = (own.0, own.1.min(peer.0));
                ensure((*ird, *ord) == agreed, format!("IRD and ORD should be {agreed:?}"))?;
                ensure(
                    peer_depths.is_some() == self.enhanced,
                    "depths of the peer without RFC 6581, or no depths with it",
                )?;
                this.ends[side].state = State::Established;
                if this.has_crc && this.ends.iter().all(|end| end.state == State::Established) {
                    self.network.guard(lane);
                }
            }
            CmEvent::Rejected { private_data, .. } => {
                ensure(this.ends[side].state == State::Connecting && side == 0, "the end is not connecting")?;
                ensure(this.attempts < this.terms.rejections, "the responder has not said no")?;
                ensure(private_data[..] == this.private_data(1)[..], "other private data than the peer's")?;
                this.attempts += 1;
                this.ends[0].state = State::Idle;
                this.connect_at = Some(now);
                self.tally.end("rejected, tried again");
            }
            CmEvent::ConnectError { .. } => {
                // If a queue pair is destroyed at once, its reset may overtake the Reply.
                let is_possible = this.is_doomed || this.ends[1 - side].state == State::Destroyed;
                ensure(this.ends[side].state == State::Connecting && is_possible, "the link is good")?;
                this.ends[side].state = State::Unconnected;
            }
            CmEvent::Disconnected { reason, .. } => {
                ensure(this.ends[side].state == State::Established, "the end is not established")?;
                this.ends[side].state = State::Over(Reason::of(reason));
                self.check_local(lane, side, reason)?;
                self.lanes[lane].freeze(side)?;
            }
            _ => return Err("no end waits for this event".into()),
        }
        Ok(())
    }

    /// Checks that an end gets the reason `Local` only if its application has asked for the end.
    fn check_local(&self, lane: usize, side: usize, reason: &DisconnectReason) -> Result<(), String> {
        let asked = self.lanes[lane].ends[side].disconnected;
        ensure(asked || *reason != DisconnectReason::Local, "the application has not asked for the end")
    }
}

impl Lane {
    /// Returns how long to wait with a fate once its moment has come.
    fn moment(&self, side: usize, pause: usize) -> Option<Duration> {
        let when = |moment: Moment| {
            (self.ends[side].sends.posted >= moment.posted.min(self.ends[side].planned))
                .then_some(moment.delay)
        };
        let pause = Duration::from_micros(pause as u64);
        match self.terms.fate {
            Fate::Orderly { by } => (by == side && self.is_done()).then_some(pause),
            Fate::Disconnect { by, at } | Fate::Destroy { by, at } => when(at).filter(|_| by == side),
            Fate::Both { first, second } => when(if side == 0 { first } else { second }),
            Fate::Deregister { by, at, .. } => {
                let memory = when(at).filter(|_| by == side && !self.deregistered && !self.is_done());
                memory.or_else(|| (side == 0 && self.is_done()).then_some(pause))
            }
            Fate::Bad { .. } => None,
        }
    }

    /// Returns the private data in an end's startup frame.
    fn private_data(&self, side: usize) -> Vec<u8> {
        with_name(self.index, self.attempts, &self.terms.private_data[side])
    }

    /// Returns IRD and ORD of an end. A Read may open a peer-to-peer stream, and there must be room for it.
    fn depths(&self, side: usize) -> (u16, u16) {
        (self.ends[side].plan.ird, self.ends[side].plan.ord)
    }
}

/// Returns private data that begins with the number of a lane and of the attempt.
fn with_name(lane: usize, attempt: usize, octets: &[u8]) -> Vec<u8> {
    let mut named = octets.to_vec();
    for (octet, number) in named.iter_mut().zip([lane, attempt]) {
        *octet = u8::try_from(number).unwrap_or(u8::MAX);
    }
    named
}

/// How long an application waits on a connection whose octets were forged.
pub(crate) const PATIENCE: Duration = Duration::from_secs(300);
