use smoltcp::iface::PollResult;
use smoltcp::time::{Duration, Instant};

use super::Stack;
use super::asking::PAUSE;
use crate::connection::CloseCause;
use crate::demux::asks_for_neighbor;
use crate::table::ConnectionId;

impl Stack {
    /// Lets the connections with work send, each at most as many frames as configured, and sets their
    /// deadlines. Returns how many frames were sent.
    pub fn egress(&mut self, now: Instant) -> usize {
        let before = self.counters.frames_out;
        while let Some(index) = self.wheel.pop_due(now) {
            if let Some(id) = self.table.at(index) {
                self.mark_dirty(id);
            }
        }
        // Those that get dirty by this turn have theirs at the next call.
        for _ in 0..self.dirty.len() {
            let Some(id) = self.dirty.pop_front() else { break };
            self.egress_connection(now, id);
        }
        usize::try_from(self.counters.frames_out - before).unwrap_or(usize::MAX)
    }

    /// Gives what smoltcp wants to send to the wire, or back to this stack.
    pub(super) fn send_outgoing(&mut self, now: Instant) {
        let mut outgoing = std::mem::take(&mut self.slot.outgoing);
        for frame in outgoing.drain(..) {
            self.counters.frames_out += 1;
            if !self.demux.turns_round(&frame) {
                self.wire.send(now, &frame);
                self.slot.recycle(frame);
            } else if self.looped.len() < MAX_LOOPED {
                self.counters.looped += 1;
                self.looped.push_back(frame);
            } else {
                self.counters.loop_overflows += 1;
                self.slot.recycle(frame);
            }
        }
        self.slot.outgoing = outgoing;
    }

    fn egress_connection(&mut self, now: Instant, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        connection.is_dirty = false;
        if connection.is_over() || connection.holds_unread(now) {
            self.wheel.cancel(id.index());
            return self.settle(id);
        }
        let before = connection.appearance();
        connection.observe(now, None);
        if connection.is_removed && connection.give_up_at.is_none() {
            connection.give_up_at = Some(now + self.config.linger_timeout);
        }
        if connection.give_up_at.is_some_and(|at| at <= now) && self.give_up(id) {
            return;
        }
        self.time_out(now, id);
        let is_exhausted = self.send_burst(now, id);
        let Some(connection) = self.table.get_mut(id) else { return };
        connection.observe(now, None);
        connection.drop_unsendable_reset(now);
        let changed = connection.appearance() != before;
        if changed {
            self.mark_ready(id);
        }
        if is_exhausted {
            self.arm(now, id);
        } else {
            self.mark_dirty(id);
        }
        self.settle(id);
    }

    /// Ends a connection whose time is over; true if it is gone at once. A half-open one goes without a word,
    /// since its peer may never have been there.
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

    /// Sends until the connection has nothing more to send, or its turn is over: false for the latter.
    fn send_burst(&mut self, now: Instant, id: ConnectionId) -> bool {
        if self.yields(now, id) {
            return true;
        }
        for _ in 0..self.config.egress_burst {
            let Some(connection) = self.table.get_mut(id) else { return true };
            let offered = self.slot.offered;
            connection.hold_back_fragments();
            self.counters.socket_polls += 1;
            let result = self.iface.poll_egress(now, &mut self.slot, &mut connection.set);
            self.slot.outgoing.iter_mut().for_each(|frame| connection.mark.stamp(frame));
            let wanted_to_send = self.slot.offered != offered;
            let asked = self.slot.outgoing.first().is_some_and(|frame| asks_for_neighbor(frame));
            let is_blocked = wanted_to_send && (asked || self.slot.outgoing.is_empty());
            connection.has_sent |= wanted_to_send && !is_blocked;
            if is_blocked && !connection.is_waiting {
                connection.is_waiting = true;
                self.waiting.push(id);
            }
            if is_blocked {
                self.note_question(id, asked);
            }
            self.keep_whole(id, result == PollResult::None);
            self.send_outgoing(now);
            if result == PollResult::None {
                return true;
            }
        }
        false
    }

    /// Holds the beginnings of segments back until the rest follows, or nothing else is left that it could wait for.
    fn keep_whole(&mut self, id: ConnectionId, is_last: bool) {
        let Some(connection) = self.table.get_mut(id) else { return };
        let Some(flow) = connection.flow() else { return };
        connection.keeper.pass(&mut self.slot.outgoing, &flow);
        if is_last {
            self.slot.outgoing.extend(connection.keeper.release(&flow));
        }
    }

    fn arm(&mut self, now: Instant, id: ConnectionId) {
        let pause = if self.yields(now, id) { PAUSE } else { TICK };
        let Some(connection) = self.table.get_mut(id) else { return };
        if connection.is_over() {
            return self.wheel.cancel(id.index());
        }
        // smoltcp says "now" as a time long past. It has just had its turn, so it can't mean that before the
        // next tick.
        let socket = self.iface.poll_at(now, &connection.set).map(|at| at.max(now + pause));
        let own = [connection.times_out_at(), connection.give_up_at];
        match own.into_iter().flatten().chain(socket).min() {
            Some(at) => self.wheel.arm(id.index(), at),
            None => self.wheel.cancel(id.index()),
        }
    }
}

/// Frames turned round that may wait.
const MAX_LOOPED: usize = 512;
const TICK: Duration = Duration::from_millis(1);
