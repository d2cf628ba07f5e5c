use core::net::IpAddr;

use smoltcp::socket::tcp::State;
use smoltcp::time::Instant;

use super::Stack;
use crate::connection::Connection;
use crate::demux::{Peek, Segment};
use crate::table::ConnectionId;

impl Stack {
    /// Takes frames off the wire, at most as many as configured, and gives each to the connection it is for.
    /// Returns how many there were.
    pub fn ingress(&mut self, now: Instant) -> usize {
        let taken = (0..self.config.ingress_burst).take_while(|_| self.handle_next_frame(now)).count();
        self.counters.frames_in += taken as u64;
        taken
    }

    fn handle_next_frame(&mut self, now: Instant) -> bool {
        // Frames turned round and frames from the wire take turns, so that neither can starve the other.
        self.is_loops_turn = !self.is_loops_turn && !self.looped.is_empty();
        let looped = if self.is_loops_turn || !self.wire.receive(now, &mut self.slot.incoming) {
            let Some(mut frame) = self.looped.pop_front() else { return false };
            std::mem::swap(&mut self.slot.incoming, &mut frame);
            self.slot.recycle(frame);
            true
        } else {
            false
        };
        match self.demux.peek(&self.slot.incoming, looped) {
            Peek::Tcp(segment) => self.handle_segment(now, &segment),
            Peek::Neighbor(told) => {
                self.handle_for_nobody(now);
                self.wake_waiting(told);
            }
            Peek::Other => self.handle_for_nobody(now),
            Peek::Refused => self.counters.refused += 1,
        }
        true
    }

    fn handle_segment(&mut self, now: Instant, segment: &Segment) {
        let known = self.table.find(&segment.tuple);
        let listens = segment.is_first_syn() && self.listeners.contains_key(&segment.tuple.local.port());
        let id = match known {
            Some(id) => id,
            None if listens => match self.open_passive(now, segment) {
                Some(id) => id,
                None => return,
            },
            None => return self.handle_for_nobody(now),
        };
        let Some(connection) = self.table.get_mut(id) else { return };
        if !connection.takes_segments() {
            self.counters.refused += 1;
            return;
        }
        let before = connection.appearance();
        self.counters.socket_polls += 1;
        self.slot.load();
        connection.mark.note_window(segment.window);
        self.iface.poll_ingress_single(now, &mut self.slot, &mut connection.set);
        self.slot.outgoing.iter_mut().for_each(|frame| connection.mark.stamp(frame));
        connection.observe(now, Some(segment));
        if connection.is_removed {
            discard_received(connection);
        }
        let changed = connection.appearance() != before;
        self.send_outgoing(now);
        self.mark_dirty(id);
        if changed {
            self.mark_ready(id);
        }
        self.settle(id);
    }

    /// A connection in the LISTEN state for the SYN at hand; none when too many are half-open or not taken.
    fn open_passive(&mut self, now: Instant, segment: &Segment) -> Option<ConnectionId> {
        let port = segment.tuple.local.port();
        let count = self.listeners.get_mut(&port)?;
        if *count >= self.config.backlog {
            // No RST: the peer tries again, and there may be room then.
            self.counters.backlog_drops += 1;
            return None;
        }
        let mut connection = Connection::new(segment.tuple, &self.config, self.config.mtu, now);
        connection.socket_mut().listen(segment.tuple.local).ok()?;
        connection.observe(now, None);
        connection.listener = Some(port);
        connection.give_up_at = Some(now + self.config.half_open_timeout);
        *count += 1;
        Some(self.table.insert(connection))
    }

    /// Draws the consequences of a connection's new state: announces it, frees its 4-tuple, or frees it
    /// whole.
    pub(super) fn settle(&mut self, id: ConnectionId) {
        let Some(connection) = self.table.get_mut(id) else { return };
        if connection.is_over() {
            let nobody_has_it = connection.is_removed || connection.listener.is_some();
            if nobody_has_it {
                self.release(id);
            } else {
                self.table.unmap(id);
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
        self.send_outgoing(now);
    }

    /// The neighbor cache may know these two now: what waited for them may be able to send. What waits for others goes on
    /// waiting, or it would ask again without having let others go first.
    fn wake_waiting(&mut self, told: [IpAddr; 2]) {
        for id in std::mem::take(&mut self.waiting) {
            if self.next_hop(id).is_some_and(|hop| !told.contains(&hop)) {
                self.waiting.push(id);
            } else if let Some(connection) = self.table.get_mut(id) {
                connection.is_waiting = false;
                self.mark_dirty(id);
            }
        }
    }
}

/// Nobody reads what a removed connection receives; if it filled the buffer, the peer's FIN could never come.
fn discard_received(connection: &mut Connection) {
    let socket = connection.socket_mut();
    while socket.can_recv() && socket.state() != State::Closed {
        if socket.recv(|octets| (octets.len(), ())).is_err() {
            break;
        }
    }
}
