//! Receiving: frames from the wire on their way to connections.

use core::net::IpAddr;

use smoltcp::socket::tcp::State;
use smoltcp::time::Instant;

use super::Sockets;
use super::connection::Connection;
use super::egress::MAX_LOOPED;
use super::own::OwnSegment;
use super::tally::Tally;
use crate::demux::{Peek, Segment};
use crate::table::ConnectionId;

impl Sockets {
    pub(crate) fn ingress(&mut self, now: Instant) -> usize {
        while self.looped.len() < MAX_LOOPED
            && let Some(frame) = self.wire.take_turned()
        {
            self.looped.push_back(frame);
        }
        let mut taken = 0;
        while taken < self.config.ingress_burst && self.handle_next_frame(now) {
            taken += 1;
            if self.looped.is_empty() && self.wire.is_drained() {
                break;
            }
        }
        self.counters.frames_in += taken as u64;
        taken
    }

    fn handle_next_frame(&mut self, now: Instant) -> bool {
        // Frames to the own address and frames from the wire take turns, so that neither can starve the other.
        self.is_loops_turn = !self.is_loops_turn && !self.looped.is_empty();
        let looped = self.is_loops_turn || !self.wire.take(now, &mut self.slot.incoming);
        if looped {
            // A wire that has lost its peer has no frame at that moment.
            if core::mem::replace(&mut self.losses, self.wire.losses()) != self.losses {
                self.lose_peers();
            }
            let Some(mut frame) = self.looped.pop_front() else { return false };
            std::mem::swap(&mut self.slot.incoming, &mut frame);
            self.slot.recycle(frame);
        }
        match self.demux.peek(&self.slot.incoming, looped) {
            Peek::Refused => self.counters.refused += 1,
            _ if !self.slot.incoming.is_good() => self.counters.damaged += 1,
            Peek::Tcp(segment) => self.handle_segment(now, &segment, looped),
            Peek::Neighbor(told) => {
                self.handle_for_nobody(now);
                self.wake_waiting(told);
            }
            Peek::Other => self.handle_for_nobody(now),
        }
        true
    }

    fn handle_segment(&mut self, now: Instant, segment: &Segment, looped: bool) {
        let known = self.table.find_next(&segment.tuple);
        let Some(id) = known.or_else(|| self.find_other(now, segment, looped)) else { return };
        let Some(connection) = self.table.get_mut(id) else { return };
        if !connection.takes_segments() {
            self.counters.refused += 1;
            return;
        }
        let before = connection.appearance();
        self.counters.socket_polls += 1;
        self.slot.load();
        if connection.refuses(segment, &mut self.slot.incoming) {
            self.tcp.acknowledged_unsent += 1;
        } else {
            connection.mark.note_window(segment.window);
            connection.drop_late_fin(segment, &mut self.slot.incoming);
        }
        self.iface.poll_ingress_single(now, &mut self.slot, &mut connection.set);
        for frame in &mut self.slot.outgoing {
            if let Some(mut own) = OwnSegment::of(frame) {
                connection.mark.stamp(frame, &mut own);
            }
        }
        connection.observe(now, Some(segment));
        self.tcp.segments_received += 1;
        let (after, is_passive) = (connection.appearance(), connection.listener.is_some());
        connection.tally.count_change([before, after], is_passive, &mut self.tcp);
        if connection.is_removed {
            discard_received(connection);
        }
        let is_short = (after.received.saturating_sub(before.received)) * SHORT < connection.emss();
        let is_quiet = is_short && connection.is_quiet() && before.is_established() && !connection.is_removed;
        connection.is_urgent |= !is_quiet;
        if !core::mem::replace(&mut connection.is_dirty, true) {
            self.dirty.push_back(id);
        }
        let is_users = !is_passive && !connection.is_removed;
        if after != before && is_users && !core::mem::replace(&mut connection.is_ready, true) {
            self.ready.push_back(id);
        }
        let is_settled = is_users && !connection.is_over();
        if !self.slot.outgoing.is_empty() {
            self.send_answer(now, id);
        }
        if !is_settled {
            self.settle(id);
        }
    }

    /// Finds the connection for a segment of no known one. It may be a new connection, or one of another stack.
    fn find_other(&mut self, now: Instant, segment: &Segment, looped: bool) -> Option<ConnectionId> {
        if segment.is_first_syn() && self.ports.listens(segment.tuple.local.port()) {
            return self.open_passive(now, segment);
        }
        // The connection may have moved to another stack since the frame was sent here.
        if !self.wire.hand_over(&self.slot.incoming, looped) {
            self.handle_for_nobody(now);
        }
        None
    }

    /// Sends smoltcp's immediate answer to a segment.
    fn send_answer(&mut self, now: Instant, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        let flow = connection.flow();
        connection.tally.count_sent(&self.slot.outgoing, flow.as_ref(), &mut self.tcp);
        self.send_outgoing(now);
    }

    /// Makes a connection in the LISTEN state for a SYN. Returns `None` if too many are half-open or not taken.
    fn open_passive(&mut self, now: Instant, segment: &Segment) -> Option<ConnectionId> {
        let port = segment.tuple.local.port();
        if !self.ports.take_place(port) {
            // Without a RST the peer tries again, and there may be room then.
            self.counters.backlog_drops += 1;
            return None;
        }
        let mut connection = Connection::new(segment.tuple, &self.config, self.config.mtu, now);
        connection.socket_mut().listen(segment.tuple.local).ok()?;
        connection.observe(now, None);
        connection.listener = Some(port);
        connection.give_up_at = Some(now + self.config.half_open_timeout);
        Some(self.table.insert(connection))
    }

    /// Acts on a connection's new state: announces the connection, frees its 4-tuple, or frees all of it.
    pub(super) fn settle(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        if connection.is_over() {
            let nobody_has_it = connection.is_removed || connection.listener.is_some();
            if nobody_has_it {
                self.release(id);
            } else {
                self.unmap(id);
            }
        } else if connection.listener.is_some() && !connection.is_announced && connection.is_established() {
            connection.is_announced = true;
            connection.give_up_at = None;
            self.accepted.push_back(id);
        }
    }

    fn handle_for_nobody(&mut self, now: Instant) {
        self.slot.load();
        self.iface.poll_ingress_single(now, &mut self.slot, &mut self.nobody);
        Tally::default().count_sent(&self.slot.outgoing, None, &mut self.tcp);
        self.send_outgoing(now);
    }

    /// Wakes the connections that wait for these two neighbors, which the cache may know now. The other waiting
    /// connections stay asleep. They would ask again without letting others go first.
    fn wake_waiting(&mut self, told: [IpAddr; 2]) {
        for id in std::mem::take(&mut self.waiting) {
            if self.next_hop(id).is_some_and(|hop| !told.contains(&hop)) {
                self.waiting.push(id);
            } else if let Some(connection) = self.table.get_mut(id) {
                connection.note_neighbor();
                self.mark_dirty(id);
            }
        }
    }
}

/// A segment with less than this fraction of the largest one is short. Short segments are no bulk data, for whose
/// acknowledgements a peer would wait.
const SHORT: usize = 4;

/// Discards what a removed connection receives. If it filled the buffer, the peer's FIN could never come.
fn discard_received(connection: &mut Connection) {
    let socket = connection.socket_mut();
    while socket.can_recv() && socket.state() != State::Closed {
        if socket.recv(|octets| (octets.len(), ())).is_err() {
            break;
        }
    }
}
