//! Receiving: frames from the wire on their way to connections.

use smoltcp::time::Instant;
use weft_tcp::{Effects, Flags};

use super::Own;
use super::arrived::Arrived;
use super::connection::Connection;
use super::held::Piece;
use super::icmp::Report;
use super::line::Taken;
use super::timers::micros;
use crate::demux::Peek;
use crate::frame::Frame;
use crate::table::ConnectionId;

impl Own {
    pub(crate) fn ingress(&mut self, now: Instant) -> usize {
        self.now = micros(now);
        self.line.gather();
        let mut taken = 0;
        while taken < self.config.ingress_burst && self.handle_next_frame(now) {
            taken += 1;
            if self.line.is_drained() {
                break;
            }
        }
        self.counters.frames_in += taken as u64;
        taken
    }

    fn handle_next_frame(&mut self, now: Instant) -> bool {
        let taken = self.line.take(now, &mut self.incoming);
        if taken != Taken::Arrived && self.line.has_lost_peer() {
            self.lose_peers();
        }
        let looped = match taken {
            Taken::Nothing => return false,
            Taken::Arrived => false,
            Taken::Looped => true,
        };
        match self.line.demux.peek(&self.incoming, looped) {
            Peek::Refused => self.counters.refused += 1,
            _ if !self.incoming.is_good() => self.counters.damaged += 1,
            Peek::Tcp(peeked) => match Arrived::read(&self.incoming, peeked.tuple, peeked.len) {
                Some(arrived) => self.handle_segment(now, &arrived, looped),
                None => self.counters.refused += 1,
            },
            Peek::Neighbor(_) => {
                self.learn(now);
                self.handle_for_nobody(now);
            }
            Peek::Other => {
                self.report();
                self.handle_for_nobody(now);
            }
        }
        true
    }

    fn handle_segment(&mut self, now: Instant, arrived: &Arrived, looped: bool) {
        let Some(id) = self.table.find_next(&arrived.tuple) else {
            return self.handle_stray(now, arrived, looped);
        };
        self.handle_known(now, id, arrived);
    }

    /// Gives a segment to its connection.
    pub(super) fn handle_known(&mut self, now: Instant, id: ConnectionId, arrived: &Arrived) {
        let Self { table, pool, incoming, tcp: counters, longest, .. } = self;
        let Some(connection) = table.get_mut(id) else { return };
        let Arrived { segment, .. } = arrived;
        let before = connection.appearance();
        self.counters.socket_polls += 1;
        counters.segments_received += 1;
        let was_open = connection.tcp.state().is_synchronized();
        let is_ahead = segment.ack.is_some_and(|ack| connection.tcp.sender().nxt().is_before(ack));
        if is_ahead && was_open && !segment.flags.has(Flags::RST) {
            counters.acknowledged_unsent += 1;
        }
        connection.lend_intervals(segment);
        let effects = connection.tcp.handle(segment, self.now);
        connection.note(&effects, *longest, pool, counters);
        hold(connection, arrived, &effects, incoming, pool);
        counters.octets_received += u64::from(effects.received.ready);
        if effects.acked > 0 || effects.received.ready > 0 {
            let hop = self.config.ip.next_hop(connection.remote());
            hop.into_iter().for_each(|hop| self.neighbors.confirm(hop, connection.neighbor, self.now));
        }
        let emss = connection.emss();
        let is_short = usize::try_from(effects.received.ready).is_ok_and(|ready| ready * SHORT < emss);
        connection.is_urgent |= !(is_short && was_open && connection.is_quiet(emss));
        if !core::mem::replace(&mut connection.is_dirty, true) {
            self.dirty.push_back(id);
        }
        let (is_over, is_changed) = (connection.is_over(), connection.appearance() != before);
        if is_changed {
            self.mark_ready(id);
        }
        if let Some(reply) = &effects.reply {
            self.answer(now, &arrived.tuple, reply);
        }
        if is_over {
            self.settle(id);
        }
    }

    /// Lets smoltcp's interface answer a frame.
    fn handle_for_nobody(&mut self, now: Instant) {
        core::mem::swap(&mut self.slot.incoming, &mut self.incoming);
        self.slot.load();
        self.iface.poll_ingress_single(now, &mut self.slot, &mut self.nobody);
        while let Some(mut frame) = self.slot.outgoing.pop() {
            self.line.send(now, &mut frame);
            self.slot.recycle(frame);
        }
    }

    /// Reads a frame about neighbors, and lets what has waited for its sender go.
    fn learn(&mut self, now: Instant) {
        let Some(ip) = self.neighbors.learn(&self.incoming, self.now) else { return };
        for mut frame in self.neighbors.take_waiting(ip) {
            self.line.send(now, &mut frame);
            self.pool.recycle(frame);
        }
        for id in core::mem::take(&mut self.blocked) {
            let Some(connection) = self.table.get_mut(id) else { continue };
            if self.config.ip.next_hop(connection.remote()) == Some(ip) {
                connection.is_blocked = false;
                self.mark_dirty(id);
            } else {
                self.blocked.push(id);
            }
        }
    }

    /// Takes an error of ICMP about a segment.
    fn report(&mut self) {
        let Some(report) = Report::read(&self.incoming, self.config.ip.address) else { return };
        let Some(id) = self.table.find(&report.tuple) else { return };
        let Some(connection) = self.table.get_mut(id) else { return };
        let before = connection.appearance();
        let effects = connection.tcp.icmp(report.seq, report.what, self.now);
        connection.note(&effects, self.longest, &mut self.pool, &mut self.tcp);
        connection.set_form(self.longest);
        if connection.appearance() != before {
            self.mark_ready(id);
        }
        self.mark_dirty(id);
    }
}

/// Keeps the octets of a segment that were taken, or throws them away if nobody reads them any more.
fn hold(
    connection: &mut Connection,
    arrived: &Arrived,
    effects: &Effects,
    incoming: &mut Frame,
    pool: &mut super::pool::Pool,
) {
    let number = |octets: u32| usize::try_from(octets).unwrap_or(usize::MAX);
    let received = &effects.received;
    let (offset, len, ready) = (number(received.offset), number(received.len), number(received.ready));
    let piece = (len > 0).then(|| Piece::of(incoming, arrived.payload.start + offset, len, pool));
    if ready > 0 {
        connection.held.append(piece, ready, pool);
    } else if let Some(piece) = piece {
        connection.held.insert(arrived.segment.data() + received.offset, piece);
    }
    if connection.is_removed {
        connection.discard(pool);
    }
}

/// A segment with less than this fraction of the largest one is short. Short segments are no bulk data, for whose
/// acknowledgements a peer would wait.
const SHORT: usize = 4;
