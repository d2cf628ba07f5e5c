//! Sending: turns of connections, and their timers.

use smoltcp::time::Instant;
use weft_tcp::{Flags, Micros, Outgoing, Reason, Segment, State, Transmit};

use super::Own;
use super::connection::Connection;
use super::line::Line;
use super::pool::Pool;
use super::timers::micros;
use crate::counters::TcpCounters;
use crate::frame::Frame;
use crate::llp::state::CloseCause;
use crate::table::ConnectionId;

/// Why a connection sends no more at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TurnEnd {
    /// It has nothing that may go now.
    Exhausted,
    /// Other connections have their turn.
    Burst,
    /// The device takes no more frames.
    Refused,
    /// The neighbor's MAC address is not known.
    Blocked,
}

impl Own {
    pub(crate) fn egress(&mut self, now: Instant) -> usize {
        self.now = micros(now);
        let before = self.line.frames_out;
        while let Some(index) = self.timers.pop_due(self.now) {
            if let Some(id) = self.table.at(index) {
                self.mark_dirty(id);
            }
        }
        self.expire_records(now);
        let is_alone = self.dirty.len() == 1;
        let burst = if is_alone { self.config.lone_burst() } else { self.config.egress_burst };
        // A connection that becomes dirty during this call has its turn at the next call.
        for _ in 0..self.dirty.len() {
            let Some(id) = self.dirty.pop_front() else { break };
            let Some(connection) = self.table.get_mut(id) else { continue };
            if core::mem::replace(&mut connection.is_urgent, true) {
                self.egress_connection(now, id, burst);
            } else {
                self.dirty.push_back(id);
            }
        }
        usize::try_from(self.line.frames_out - before).unwrap_or(usize::MAX)
    }

    fn egress_connection(&mut self, now: Instant, id: ConnectionId, burst: usize) {
        let Some(connection) = self.table.get_mut(id) else { return };
        (connection.is_dirty, connection.is_urgent) = (false, false);
        let before = connection.appearance();
        let effects = connection.tcp.expire(self.now);
        connection.note(&effects, self.longest, &mut self.pool, &mut self.tcp);
        if connection.is_removed && connection.give_up_at.is_none() {
            let linger = Micros(self.config.linger_timeout.total_micros());
            connection.give_up_at = Some(self.now + linger);
        }
        if connection.give_up_at.is_some_and(|at| at <= self.now) && connection.end.is_none() {
            connection.abort(CloseCause::TimedOut, &mut self.pool, self.now);
            self.tcp.timeouts += 1;
        }
        let consumed = core::mem::take(&mut connection.consumed);
        if consumed > 0 {
            connection.tcp.consume(consumed, self.now);
        }
        let end = self.send_burst(now, id, burst);
        let Some(connection) = self.table.get(id) else { return };
        let is_settled = connection.is_over() || connection.tcp.state() == State::TimeWait;
        if connection.appearance() != before {
            self.mark_ready(id);
        }
        self.schedule(id, end);
        if is_settled {
            self.settle(id);
        }
    }

    /// Sends until the connection has nothing more to send, or its turn is over.
    fn send_burst(&mut self, now: Instant, id: ConnectionId, burst: usize) -> TurnEnd {
        let Some(connection) = self.table.get_mut(id) else { return TurnEnd::Exhausted };
        connection.offer(self.now);
        for _ in 0..burst {
            let Some(connection) = self.table.get_mut(id) else { return TurnEnd::Exhausted };
            let Some(outgoing) = connection.tcp.poll_transmit(self.now) else { return TurnEnd::Exhausted };
            let (remote, mut place) = (connection.remote(), connection.neighbor);
            let mac = self.way(now, remote, &mut place);
            let Some(connection) = self.table.get_mut(id) else { return TurnEnd::Exhausted };
            connection.neighbor = place;
            let Some(mac) = mac else {
                self.block(now, id, &outgoing);
                return TurnEnd::Blocked;
            };
            connection.template.set_next_hop(mac);
            let mut sending = Sending {
                line: &mut self.line,
                pool: &mut self.pool,
                counters: &mut self.tcp,
                longest: self.longest,
                now,
            };
            if !sending.send(connection, outgoing, self.now) {
                return TurnEnd::Refused;
            }
        }
        TurnEnd::Burst
    }

    /// Has a connection wait for a neighbor. A RST does not keep the connection waiting.
    fn block(&mut self, now: Instant, id: ConnectionId, outgoing: &Outgoing) {
        let Some(connection) = self.table.get_mut(id) else { return };
        if outgoing.segment.flags.has(Flags::RST) {
            let tuple = connection.tuple;
            connection.tcp.sent(outgoing, None, self.now);
            self.answer(now, &tuple, &outgoing.segment);
        } else if !core::mem::replace(&mut connection.is_blocked, true) {
            self.blocked.push(id);
        }
    }

    /// Has a later egress look at the connection in time.
    fn schedule(&mut self, id: ConnectionId, end: TurnEnd) {
        let Some(connection) = self.table.get(id) else { return };
        if end == TurnEnd::Burst {
            return self.mark_dirty(id);
        }
        // What the protocol would do at once it has done, but for what holds it up.
        let pause = match end {
            TurnEnd::Exhausted | TurnEnd::Burst => SOON,
            TurnEnd::Refused => REFUSED,
            TurnEnd::Blocked => BLOCKED,
        };
        let at = connection.tcp.next_timeout().map(|at| at.max(self.now + pause));
        let give_up_at = connection.give_up_at.filter(|_| connection.end.is_none());
        match [at, give_up_at].into_iter().flatten().min() {
            Some(at) => self.timers.arm_by(id.index(), at, self.now),
            None => self.timers.cancel(id.index()),
        }
    }
}

impl Connection {
    /// Tells the protocol what waits to be sent.
    fn offer(&mut self, now: Micros) {
        let unsent = self.outbox.unsent(usize::from(self.tcp.emss()));
        self.tcp.offer(unsent, now);
        if unsent.octets > 0 || self.tcp.state() != State::Established {
            self.lend_records();
        }
    }
}

/// What it takes to send a segment.
struct Sending<'a> {
    line: &'a mut Line,
    pool: &'a mut Pool,
    counters: &'a mut TcpCounters,
    longest: Option<usize>,
    now: Instant,
}

impl Sending<'_> {
    /// Sends a segment, or several in one frame. Returns false if the device has no room for it. Segments without data
    /// are lost then, as on any wire.
    fn send(&mut self, connection: &mut Connection, outgoing: Outgoing, now: Micros) -> bool {
        match outgoing.transmit {
            Some(Transmit::New { room, cwr, reason, .. }) => {
                let most = if cwr || reason != Reason::Window { None } else { self.longest };
                return self.send_new(connection, outgoing, (room as usize, most), now);
            }
            Some(Transmit::Again { token, offset, len, .. }) => {
                let (start, len) = (usize::from(offset), usize::from(len));
                let payload = connection.outbox.payload(token, start..start + len);
                let mut frame = self.pool.frame();
                compose(&mut frame, &connection.template, &outgoing.segment, payload);
                if !self.put(&mut frame) {
                    self.pool.recycle(frame);
                    return false;
                }
                self.pool.recycle(frame);
                self.counters.octets_sent += len as u64;
                self.counters.octets_retransmitted += len as u64;
                self.counters.segments_retransmitted += 1;
                self.counters.segments_sent += 1;
            }
            Some(Transmit::Fin { .. }) | None => {
                self.count_control(connection, &outgoing);
                let mut frame = self.pool.frame();
                compose(&mut frame, &connection.template, &outgoing.segment, &[]);
                self.put(&mut frame);
                self.pool.recycle(frame);
            }
        }
        connection.tcp.sent(&outgoing, None, now);
        true
    }

    /// Sends octets for the first time: all that wait in the first frame, if they may go in one piece, and otherwise a
    /// copy of what may. `most` is the length of the longest frame, if the device may cut it.
    fn send_new(
        &mut self,
        connection: &mut Connection,
        mut outgoing: Outgoing,
        (room, most): (usize, Option<usize>),
        now: Micros,
    ) -> bool {
        let emss = usize::from(connection.tcp.emss()).max(1);
        let Connection { outbox, template, .. } = connection;
        let unsent = outbox.unsent(emss).octets;
        let Some((token, built)) = outbox.next() else { return false };
        let (left, offset) = (built.len() - built.sent, built.sent);
        let cuts = most.is_some() && built.segment == emss;
        let len = match left.min(room) {
            len if len <= emss => len,
            len if cuts && len == left => len,
            len if cuts => len - len % emss,
            _ => emss,
        };
        outgoing.segment.len = u32::try_from(len).unwrap_or(0);
        if u32::try_from(len).is_ok_and(|len| len >= unsent) {
            outgoing.segment.flags |= Flags::PSH;
        }
        let number = |octets: usize| u16::try_from(octets).unwrap_or(u16::MAX);
        let segment = number(len.min(emss));
        let is_whole = len == built.len();
        let headers = template.len(&outgoing.segment.options);
        let mut frame = if is_whole {
            let Some(buffer) = built.take_out(headers, self.pool) else { return false };
            Frame::in_buffer(buffer, headers + len)
        } else {
            self.pool.frame()
        };
        if is_whole {
            template.write(&outgoing.segment, &mut frame);
        } else {
            compose(&mut frame, template, &outgoing.segment, outbox.payload(token, offset..offset + len));
        }
        frame.segment = if len > emss { segment } else { 0 };
        let is_taken = self.put(&mut frame);
        match outbox.next().filter(|_| is_whole) {
            Some((_, built)) => built.put_back(frame.take_buffer()),
            None => self.pool.recycle(frame),
        }
        if !is_taken {
            return false;
        }
        let ends = outbox.next().is_some_and(|(_, built)| offset + len == built.len());
        outbox.note_sent(len);
        self.counters.octets_sent += len as u64;
        self.counters.segments_sent += len.div_ceil(emss) as u64;
        let frame = weft_tcp::Frame { token, offset: number(offset), len: number(len), segment, ends };
        connection.tcp.sent(&outgoing, Some(&frame), now);
        connection.offer(now);
        true
    }

    fn count_control(&mut self, connection: &Connection, outgoing: &Outgoing) {
        let segment = &outgoing.segment;
        self.counters.segments_sent += 1;
        self.counters.resets_sent += u64::from(segment.flags.has(Flags::RST));
        let is_fin_again = matches!(outgoing.transmit, Some(Transmit::Fin { seq, .. })
            if seq.is_before(connection.tcp.sender().nxt()));
        let is_syn_again = segment.flags.has(Flags::SYN) && connection.tcp.has_sent_syn();
        self.counters.segments_retransmitted += u64::from(is_fin_again || is_syn_again);
    }

    fn put(&mut self, frame: &mut Frame) -> bool {
        self.line.send(self.now, frame)
    }
}

/// Writes a segment into a frame with a buffer of its own.
fn compose(frame: &mut Frame, template: &weft_tcp::Template, segment: &Segment, payload: &[u8]) {
    let headers = template.len(&segment.options);
    frame.reset(headers + payload.len());
    template.write(segment, frame);
    frame[headers..].copy_from_slice(payload);
    frame.is_trusted = true;
}

/// The shortest time until a connection that has nothing to send gets another turn.
const SOON: Micros = Micros(50);
/// How long a device that has refused a frame is left alone, if nothing else happens.
const REFUSED: Micros = Micros::from_millis(1);
/// The time between two questions for a neighbor.
const BLOCKED: Micros = Micros::from_secs(1);
