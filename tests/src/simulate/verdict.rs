//! The state that everything must have when a run is over.

use weft_rnic::{QpState, Status};

use super::lane::{Lane, Reason, State};
use super::model::{ensure, window_of};
use super::plan::Fate;
use super::request::Bad;
use super::world::World;

impl World {
    /// Judges the whole run.
    pub(crate) fn judge(&mut self) -> Result<(), String> {
        for index in 0..self.lanes.len() {
            let forged = self.network.forged(index) > 0;
            let lane = &mut self.lanes[index];
            lane.judge(forged)
                .map_err(|error| format!("lane {index} ({}): {error}", lane.terms.fate.name()))?;
            self.count_ends(index);
        }
        for (index, host) in self.hosts.iter().enumerate() {
            ensure(host.events.next().is_none(), format!("host {index} has an event left"))?;
            ensure(host.cqs.iter().all(|cq| cq.poll_one().is_none()), "a completion is left")?;
            let counters = host.device.stack_counters();
            ensure(
                counters.connections == 0,
                format!("host {index} still has {} connections", counters.connections),
            )?;
        }
        Ok(())
    }

    fn count_ends(&mut self, index: usize) {
        let lane = &self.lanes[index];
        for end in &lane.ends {
            self.tally.end(&match end.state {
                State::Over(reason) => reason.name(),
                State::Destroyed => "queue pair destroyed".into(),
                _ => "never connected".into(),
            });
        }
        if let Fate::Bad { by, request } = lane.terms.fate
            && let Some(request) = lane.ends[by].plan.requests.get(request)
            && let Some(bad) = request.bad
            && lane.ends.iter().any(|end| matches!(end.state, State::Over(Reason::Sent(_))))
        {
            let kind = match request.name() {
                name if name.starts_with("send") => "send",
                name if name.starts_with("immediate") => "immediate",
                name => name,
            };
            self.tally.bad(&format!("{kind}: {}", bad.name()));
        }
    }
}

impl Lane {
    fn judge(&mut self, forged: bool) -> Result<(), String> {
        let is_sure = !forged && !self.is_doomed;
        for side in 0..2 {
            self.judge_state(side, forged)?;
            self.judge_queues(side).map_err(|error| format!("{}: {error}", self.name(side)))?;
            self.judge_blame(side, is_sure).map_err(|error| format!("{}: {error}", self.name(side)))?;
            self.judge_windows(side)?;
        }
        if is_sure {
            self.judge_delivery()?;
        }
        for side in 0..2 {
            self.audit(side)?;
        }
        Ok(())
    }

    fn judge_state(&self, side: usize, forged: bool) -> Result<(), String> {
        let end = &self.ends[side];
        let is_allowed = match end.state {
            State::Over(reason) => self.allows(side, reason, forged),
            State::Destroyed => matches!(self.terms.fate, Fate::Destroy { by, .. } if by == side),
            State::Unconnected | State::Idle => {
                self.is_doomed || self.ends[1 - side].state == State::Destroyed
            }
            State::Connecting | State::Established => false,
        };
        ensure(is_allowed, format!("{} is in the end {:?}", self.name(side), end.state))?;
        let is_error = end.qp.as_ref().is_none_or(|qp| qp.state() == QpState::Error);
        ensure(is_error || !matches!(end.state, State::Over(_)), "the queue pair is not in Error")
    }

    /// Returns true if an end may get this reason.
    fn allows(&self, side: usize, reason: Reason, forged: bool) -> bool {
        if self.is_doomed && matches!(reason, Reason::Lost | Reason::Local | Reason::Peer) {
            return true;
        }
        // Octets that MPA finds changed, or that it misses.
        let damage = matches!(
            reason,
            Reason::Sent((2, 0, 2 | 3 | 5))
                | Reason::Got((2, 0, 2 | 3 | 5))
                | Reason::Lost
                | Reason::Local
                | Reason::Peer
        );
        if forged && damage {
            return true;
        }
        let graceful = |by: usize| if by == side { Reason::Local } else { Reason::Peer };
        match self.terms.fate {
            Fate::Orderly { by } | Fate::Disconnect { by, .. } => reason == graceful(by),
            Fate::Both { .. } => matches!(reason, Reason::Local | Reason::Peer),
            Fate::Destroy { .. } => reason == Reason::Lost,
            Fate::Deregister { by, .. } => {
                let is_code = |code| matches!(code, (1, 1, 0) | (0, 1, 0) | (0, 0, 0));
                match reason {
                    Reason::Sent(code) => by == side && is_code(code),
                    Reason::Got(code) => by != side && is_code(code),
                    Reason::Peer if by != side => true,
                    other => other == graceful(0),
                }
            }
            Fate::Bad { by, request } => {
                let Some(request) = self.ends[by].plan.requests.get(request) else { return false };
                let Some(bad) = request.bad else { return false };
                let code = bad.code(request.opcode());
                let finder = if bad.is_local() { by } else { 1 - by };
                match reason {
                    Reason::Sent(sent) => finder == side && sent == code,
                    Reason::Got(got) => finder != side && got == code,
                    // A responder that has not received any FPDU may not send a Terminate either.
                    Reason::Peer => finder == 1 && side == 0 && bad.is_local(),
                    _ => false,
                }
            }
        }
    }

    /// Checks that each posted request has completed exactly once. An unsignaled success has no completion.
    fn judge_queues(&self, side: usize) -> Result<(), String> {
        let end = &self.ends[side];
        if !matches!(end.state, State::Over(_)) {
            return Ok(());
        }
        let (sends, recvs) = (&end.sends, &end.recvs);
        let left = sends.done..sends.posted;
        let is_silent = sends.failed.is_none() && left.clone().all(|index| !end.is_signaled(index));
        ensure(left.is_empty() || is_silent, format!("requests {left:?} have never completed"))?;
        ensure(
            recvs.done == recvs.posted,
            format!("receives {:?} have never completed", recvs.done..recvs.posted),
        )
    }

    /// Checks that exactly the bad requests have completed with a status that tells a fault.
    fn judge_blame(&self, side: usize, is_sure: bool) -> Result<(), String> {
        let end = &self.ends[side];
        // A peer that TCP has lost is not blamed here.
        let is_lost =
            |blame: &(usize, Status, u32)| self.is_doomed && (blame.1, blame.2) == (Status::RetryExceeded, 0);
        let sent: Vec<_> = end.sends.blamed.iter().copied().filter(|blame| !is_lost(blame)).collect();
        let (sends, recvs) = match self.terms.fate {
            Fate::Bad { by, request } => self.expected_blame(side, (by, request)),
            Fate::Deregister { by, .. } => {
                return deregistered_blame(sent.iter().chain(&end.recvs.blamed), by == side);
            }
            _ => (None, None),
        };
        for (what, expected, blamed) in [("requests", sends, &sent), ("receives", recvs, &end.recvs.blamed)] {
            let must = expected.filter(|(_, must)| *must && is_sure).is_some();
            let fits = match blamed[..] {
                [] => !must,
                [only] => expected.is_some_and(|(blame, _)| blame == only),
                _ => false,
            };
            let wanted = expected.map(|(blame, _)| blame);
            ensure(fits, format!("of the {what} these are to blame: {blamed:?}, expected: {wanted:?}"))?;
        }
        Ok(())
    }

    /// Returns the request and the receive of an end that a bad request makes fail, and whether they must.
    fn expected_blame(
        &self,
        side: usize,
        (by, index): (usize, usize),
    ) -> (Option<Expected>, Option<Expected>) {
        let Some(request) = self.ends[by].plan.requests.get(index) else { return (None, None) };
        let Some(bad) = request.bad else { return (None, None) };
        if side != by {
            let receive = bad.receive_status().zip(request.receive());
            return (None, receive.map(|(status, receive)| ((receive, status, 0), true)));
        }
        let (layer, etype, code) = bad.code(request.opcode());
        let vendor_err = if bad.is_local() { 0 } else { u32::from_be_bytes([0, layer, etype, code]) };
        if bad == Bad::ReceiveStag {
            // The peer does not tell the message that it complains about.
            return (None, None);
        }
        let must = bad.is_local() || request.fetches();
        (Some(((index, bad.status(request.opcode()), vendor_err), must)), None)
    }

    /// Checks that a window is invalid exactly if the Send that invalidates it has arrived.
    fn judge_windows(&self, side: usize) -> Result<(), String> {
        let (own, peer) = (&self.ends[side], &self.ends[1 - side]);
        for (index, request) in peer.plan.requests.iter().enumerate() {
            let Some(window) = window_of(request).and_then(|window| own.window(window)) else { continue };
            let (least, most) = (index < peer.delivered, index < peer.sends.posted && request.bad.is_none());
            let is_invalid = window.is_invalidated();
            ensure(most || !is_invalid, format!("request {index} has not invalidated anything"))?;
            ensure(!least || is_invalid, format!("request {index} should have invalidated its STag"))?;
        }
        Ok(())
    }

    /// Checks that after a graceful end everything has arrived that the closing side had sent.
    fn judge_delivery(&mut self) -> Result<(), String> {
        let senders: &[usize] = match self.terms.fate {
            Fate::Orderly { .. } => &[0, 1],
            Fate::Disconnect { by: 0, .. } => &[0],
            Fate::Disconnect { .. } => &[1],
            _ => &[],
        };
        for &side in senders {
            let upto = self.ends[side].sends.failed.unwrap_or(self.ends[side].sends.done);
            let upto = upto.min(self.ends[side].planned);
            self.deliver(side, upto)?;
            let peer = &self.ends[1 - side];
            let messages = self.ends[side].senders.iter().filter(|sender| **sender < upto).count();
            let received = peer.recvs.failed.unwrap_or(peer.recvs.done);
            ensure(received >= messages, format!("{messages} messages were sent and {received} received"))?;
            let is_orderly = matches!(self.terms.fate, Fate::Orderly { .. });
            ensure(!is_orderly || upto == self.ends[side].planned, "not everything planned was done")?;
        }
        Ok(())
    }
}

/// Request, status and Terminate code, and whether they must be so.
type Expected = ((usize, Status, u32), bool);

/// Memory that is deregistered during the work makes at most one request fail.
fn deregistered_blame<'a>(
    blamed: impl Iterator<Item = &'a (usize, Status, u32)>,
    is_own: bool,
) -> Result<(), String> {
    let statuses = blamed.map(|(_, status, _)| *status);
    let wanted = if is_own { Status::LocalProtection } else { Status::RemoteAccess };
    let statuses: Vec<Status> = statuses.collect();
    ensure(
        statuses.len() <= 1 && statuses.iter().all(|status| *status == wanted),
        format!("to blame: {statuses:?}"),
    )
}
