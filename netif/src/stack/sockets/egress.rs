//! Sending: turns of connections, their timers, and frames on their way to the wire.

use smoltcp::iface::PollResult;
use smoltcp::time::{Duration, Instant};

use super::Sockets;
use super::asking::PAUSE;
use super::connection::Connection;
use crate::demux::asks_for_neighbor;
use crate::frame::Frame;
use crate::llp::state::CloseCause;
use crate::table::ConnectionId;

impl Sockets {
    pub(crate) fn egress(&mut self, now: Instant) -> usize {
        let before = self.counters.frames_out;
        while let Some(index) = self.wheel.pop_due(now) {
            if let Some(id) = self.table.at(index) {
                self.mark_dirty(id);
            }
        }
        let is_alone = self.dirty.len() == 1;
        self.burst = if is_alone { self.config.lone_burst() } else { self.config.egress_burst };
        // A connection that becomes dirty during this call has its turn at the next call.
        for _ in 0..self.dirty.len() {
            let Some(id) = self.dirty.pop_front() else { break };
            let Some(connection) = self.table.get_mut(id) else { continue };
            if core::mem::replace(&mut connection.is_urgent, true) {
                self.egress_connection(now, id);
            } else {
                self.dirty.push_back(id);
            }
        }
        usize::try_from(self.counters.frames_out - before).unwrap_or(usize::MAX)
    }

    /// Gives smoltcp's frames to the wire, or back to this stack.
    pub(super) fn send_outgoing(&mut self, now: Instant) {
        if self.slot.outgoing.len() == 1 {
            // This is the frequent case.
            if let Some(frame) = self.slot.outgoing.pop() {
                self.send_frame(now, frame);
            }
            return;
        }
        let mut outgoing = std::mem::take(&mut self.slot.outgoing);
        outgoing.drain(..).for_each(|frame| self.send_frame(now, frame));
        self.slot.outgoing = outgoing;
    }

    fn send_frame(&mut self, now: Instant, mut frame: Frame) {
        self.counters.frames_out += 1;
        if !self.demux.turns_round(&frame) {
            self.wire.transmit(now, &mut frame);
            self.slot.recycle(frame);
        } else if self.wire.hand_over(&frame, true) {
            self.counters.looped += 1;
            self.slot.recycle(frame);
        } else if self.looped.len() < MAX_LOOPED {
            self.counters.looped += 1;
            self.looped.push_back(frame);
        } else {
            self.counters.loop_overflows += 1;
            self.slot.recycle(frame);
        }
    }

    fn egress_connection(&mut self, now: Instant, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        (connection.is_dirty, connection.is_urgent) = (false, false);
        let before = connection.appearance();
        let was_calm = connection.is_calm() && connection.times_out_at().is_none_or(|at| at > now);
        if was_calm {
            connection.observe(now, None);
        } else if !self.see_to_change(now, id) {
            return;
        }
        let end = self.send_rest(now, id);
        if was_calm && self.table.get(id).is_some_and(Connection::is_calm) {
            return self.schedule(now, id, end);
        }
        let Some(connection) = self.table.get_mut(id) else { return };
        connection.observe(now, None);
        connection.drop_unsendable_reset(now);
        let after = connection.appearance();
        connection.tally.count_change([before, after], false, &mut self.tcp);
        if after != before {
            self.mark_ready(id);
        }
        self.schedule(now, id, end);
        self.settle(id);
    }

    /// Handles a connection that begins, ends or waits for a neighbor. Returns true if it may send.
    fn see_to_change(&mut self, now: Instant, id: ConnectionId) -> bool {
        let Some(connection) = self.table.get_mut(id) else { return false };
        if connection.is_over() || connection.holds_unread(now) {
            self.wheel.cancel(id.index());
            self.settle(id);
            return false;
        }
        connection.observe(now, None);
        if connection.is_removed && connection.give_up_at.is_none() {
            connection.give_up_at = Some(now + self.config.linger_timeout);
        }
        if connection.give_up_at.is_some_and(|at| at <= now) && self.give_up(id) {
            return false;
        }
        self.time_out(now, id);
        true
    }

    /// Sends if there may be something to send.
    fn send_rest(&mut self, now: Instant, id: ConnectionId) -> BurstEnd {
        let has_data = self.table.get(id).is_some_and(|connection| connection.mark.unsent() > 0);
        if !has_data && let Some(rest) = self.rest(now, id) {
            return BurstEnd::Rest(rest);
        }
        self.send_burst(now, id)
    }

    /// Has a later egress look at the connection in time.
    fn schedule(&mut self, now: Instant, id: ConnectionId, end: BurstEnd) {
        match end {
            BurstEnd::Rest(rest) => self.set_deadline(id, rest),
            BurstEnd::Exhausted => self.arm(now, id),
            BurstEnd::Turn => self.mark_dirty(id),
        }
    }

    /// Ends a connection whose time is over. Returns true if it is gone at once. A half-open one sends no RST, since
    /// its peer may be absent.
    fn give_up(&mut self, id: ConnectionId) -> bool {
        let Some(connection) = self.table.get_mut(id) else { return true };
        connection.give_up_at = None;
        if connection.listener.is_some() {
            self.release(id);
            return true;
        }
        connection.abort(CloseCause::TimedOut);
        false
    }

    fn time_out(&mut self, now: Instant, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        if connection.times_out_at().is_some_and(|at| at <= now) {
            connection.abort(CloseCause::TimedOut);
        }
    }

    /// Returns the time of smoltcp's next work for a connection with nothing to send at present, as after most
    /// received segments. This question costs less than a call that sends nothing.
    fn rest(&mut self, now: Instant, id: ConnectionId) -> Option<Rest> {
        let connection = self.table.get_mut(id)?;
        if connection.is_waiting || connection.keeper.is_holding() || connection.end.is_some() {
            return None;
        }
        connection.hold_back_fragments();
        let at = self.timer_of_smoltcp(now, id);
        at.is_none_or(|at| at > now).then(|| Rest(at.map(|at| at.max(now + TICK))))
    }

    /// Sends until the connection has nothing more to send, or its turn is over.
    fn send_burst(&mut self, now: Instant, id: ConnectionId) -> BurstEnd {
        if self.yields(now, id) {
            return BurstEnd::Exhausted;
        }
        for _ in 0..self.burst {
            let Some(connection) = self.table.get_mut(id) else { return BurstEnd::Exhausted };
            let offered = self.slot.offered;
            let had_more = connection.mark.unsent() > 0;
            connection.hold_back_fragments();
            self.counters.socket_polls += 1;
            let result = self.iface.poll_egress(now, &mut self.slot, &mut connection.set);
            let has_passed = match &mut self.slot.outgoing[..] {
                [frame] => connection.passes(now, frame, &mut self.tcp),
                _ => false,
            };
            let has_more = connection.mark.unsent() > 0;
            let has_sent_all = had_more && !has_more && connection.is_calm();
            if !has_passed {
                self.see_to_sent(now, id, self.slot.offered != offered);
                self.keep_whole(id, result == PollResult::None);
            }
            self.send_outgoing(now);
            if result == PollResult::None {
                return BurstEnd::Exhausted;
            }
            if has_passed && has_sent_all {
                // The acknowledgement went with the data, so that no work is due before the shortest retransmission
                // timeout.
                return BurstEnd::Rest(Rest(Some(now + SHORTEST_TIMEOUT)));
            }
            if !has_more && let Some(rest) = self.rest(now, id) {
                return BurstEnd::Rest(rest);
            }
        }
        BurstEnd::Turn
    }

    /// Handles an egress that sent a question for a neighbor, or nothing, or a segment for [`Self::keep_whole`].
    fn see_to_sent(&mut self, now: Instant, id: ConnectionId, wanted_to_send: bool) {
        let Some(connection) = self.table.get_mut(id) else { return };
        let asked = self.slot.outgoing.first().is_some_and(|frame| asks_for_neighbor(frame));
        let is_blocked = wanted_to_send && (asked || self.slot.outgoing.is_empty());
        connection.note_sent(now, is_blocked);
        if is_blocked && !connection.is_waiting {
            connection.is_waiting = true;
            self.waiting.push(id);
        }
        if is_blocked {
            self.note_question(id, asked);
        }
    }

    /// Holds the beginning of a segment back until the rest follows, or no older data is under way. Counts the frames
    /// that go out.
    fn keep_whole(&mut self, id: ConnectionId, is_last: bool) {
        let Some(connection) = self.table.get_mut(id) else { return };
        let flow = connection.flow();
        if let Some(flow) = &flow {
            connection.keeper.pass(&mut self.slot.outgoing, flow);
            if is_last {
                self.slot.outgoing.extend(connection.keeper.release(flow));
            }
        }
        connection.tally.count_sent(&self.slot.outgoing, flow.as_ref(), &mut self.tcp);
    }

    fn arm(&mut self, now: Instant, id: ConnectionId) {
        let pause = if self.yields(now, id) { PAUSE } else { TICK };
        let Some(connection) = self.table.get_mut(id) else { return };
        if connection.is_over() {
            return self.wheel.cancel(id.index());
        }
        // smoltcp expresses "now" by a time long past. It has just had its turn, so that the next tick is soon
        // enough.
        let socket = self.timer_of_smoltcp(now, id).map(|at| at.max(now + pause));
        self.set_deadline(id, Rest(socket));
    }

    /// Returns the time at which smoltcp wants to be polled for a connection. A connection that has lost its timer
    /// under a closed window asks its peer again.
    fn timer_of_smoltcp(&mut self, now: Instant, id: ConnectionId) -> Option<Instant> {
        let connection = self.table.get_mut(id)?;
        let at = self.iface.poll_at(now, &connection.set);
        if at.is_some() || !connection.ask_again() {
            return at;
        }
        self.iface.poll_at(now, &connection.set)
    }

    /// Sets the deadline of a connection: that of smoltcp, or one of the stack's own before it.
    fn set_deadline(&mut self, id: ConnectionId, Rest(socket): Rest) {
        let Some(connection) = self.table.get_mut(id) else { return };
        let earlier = |left: Option<Instant>, right: Option<Instant>| match (left, right) {
            (Some(left), Some(right)) => Some(left.min(right)),
            (left, right) => left.or(right),
        };
        match earlier(earlier(connection.times_out_at(), connection.give_up_at), socket) {
            Some(at) => self.wheel.arm_by(id.index(), at),
            None => self.wheel.cancel(id.index()),
        }
    }
}

/// The time of smoltcp's next work, if no segment comes.
struct Rest(Option<Instant>);

/// The reason why a connection sends no more at present.
enum BurstEnd {
    /// It has nothing to send until this time.
    Rest(Rest),
    /// It has nothing that it may send now.
    Exhausted,
    /// Other connections have their turn.
    Turn,
}

/// The most frames to the own address that wait.
pub(super) const MAX_LOOPED: usize = 512;
const TICK: Duration = Duration::from_millis(1);
/// smoltcp's shortest retransmission timeout, from the sending of a segment on.
const SHORTEST_TIMEOUT: Duration = Duration::from_secs(1);
