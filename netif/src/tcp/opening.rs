//! Segments of no connection: those that open one, those that come after its end, and those of nobody.

use smoltcp::time::Instant;
use weft_tcp::{Flags, HalfOpen, Listened, Micros, Opening, Segment, Seq, Template, Waited, listen};

use super::arrived::Arrived;
use super::connection::Tcp;
use super::records::Half;
use super::timers::micros;
use super::{Own, ends};
use crate::demux::Tuple;

impl Own {
    /// Handles a segment of no connection in the table.
    pub(super) fn handle_stray(&mut self, now: Instant, arrived: &Arrived, looped: bool) {
        let Arrived { tuple, segment, .. } = arrived;
        if self.halves.contains(tuple) {
            return self.handle_half(now, arrived);
        }
        let mut least = None;
        if let Some(waiting) = self.waits.get_mut(tuple) {
            self.tcp.segments_received += 1;
            match waiting.record.handle(segment, self.now) {
                Waited::Dropped => return,
                Waited::Reply(reply) => return self.answer(now, tuple, &reply),
                Waited::Reopened(iss) if self.ports.listens(tuple.local.port()) => least = Some(iss),
                Waited::Reopened(_) => {}
            }
            self.end_wait(tuple);
        }
        let is_listening = self.ports.listens(tuple.local.port());
        if is_listening && matches!(listen(segment), Listened::Syn) {
            return self.handle_syn(now, arrived, least);
        }
        // The connection may have moved to another stack since the frame was sent here.
        if self.line.wire.hand_over(&self.incoming, looped) {
            return;
        }
        let key = (&self.secret, &ends(tuple));
        if is_listening && let Some(half) = self.cookies.check(&self.settings, key, segment, self.now) {
            // Without a place the segment is dropped. The peer sends its octets again.
            if self.ports.take_place(tuple.local.port()) {
                self.tcp.segments_received += 1;
                self.accept(now, &half, arrived);
            }
        } else if let Some(reset) = segment.reset() {
            self.answer(now, tuple, &reset);
        }
    }

    /// Makes a half-open connection for a SYN, or answers it by a cookie if there are too many.
    fn handle_syn(&mut self, now: Instant, arrived: &Arrived, least: Option<Seq>) {
        let Arrived { tuple, segment, .. } = arrived;
        let (ends, port) = (ends(tuple), tuple.local.port());
        self.tcp.segments_received += 1;
        if !self.ports.take_place(port) {
            self.counters.backlog_drops += 1;
            let key = (&self.secret, &ends);
            if let Some(answer) = self.cookies.answer(&self.settings, key, segment, self.now) {
                self.answer(now, tuple, &answer);
            }
            return;
        }
        let drawn = self.secret.isn(&ends, self.now);
        let iss = least.filter(|least| drawn.is_before(*least)).unwrap_or(drawn);
        let offset = self.secret.timestamp_offset(&ends);
        let mut record = HalfOpen::new(&self.settings, segment, iss, offset, self.now);
        let answer = record.syn_ack(&self.settings, self.now);
        self.answer(now, tuple, &answer);
        record.sent(self.now);
        let give_up_at = self.now + Micros(self.config.half_open_timeout.total_micros());
        let due = record.next_timeout().min(give_up_at);
        self.halves.insert(*tuple, Half { record, port, give_up_at }, due);
    }

    fn handle_half(&mut self, now: Instant, arrived: &Arrived) {
        let Arrived { tuple, segment, .. } = arrived;
        self.tcp.segments_received += 1;
        let Some(half) = self.halves.get_mut(tuple) else { return };
        match half.record.handle(&self.settings, segment, self.now) {
            Opening::Dropped => {}
            Opening::Reply(reply) => {
                // A repeated SYN/ACK measures no time, and offers no ECN.
                if reply.flags.has(Flags::SYN) {
                    half.record.sent(self.now);
                }
                self.answer(now, tuple, &reply);
            }
            Opening::Ended => {
                self.tcp.resets_received += u64::from(segment.flags.has(Flags::RST));
                self.give_half_up(tuple);
            }
            Opening::Opened => {
                if let Some(half) = self.halves.remove(tuple) {
                    self.accept(now, &half.record, arrived);
                }
            }
        }
    }

    /// Makes a connection of a half-open one. The caller has taken a place for it.
    fn accept(&mut self, now: Instant, half: &HalfOpen, arrived: &Arrived) {
        let Arrived { tuple, segment, .. } = arrived;
        let tcp = Tcp::accept(&self.settings, half, segment, (Vec::new(), Vec::new()), self.now);
        let Some(mut connection) = self.connection(*tuple, tcp) else { return };
        connection.listener = Some(tuple.local.port());
        let opened = weft_tcp::Effects { opened: true, ..weft_tcp::Effects::default() };
        connection.note(&opened, self.longest, &mut self.pool, &mut self.tcp);
        let id = self.table.insert(connection);
        self.accepted.push_back(id);
        // This counts the segment once more.
        self.tcp.segments_received -= 1;
        self.handle_known(now, id, arrived);
    }

    fn give_half_up(&mut self, tuple: &Tuple) {
        if let Some(half) = self.halves.remove(tuple) {
            self.ports.release_place(half.port);
            self.tcp.failed += 1;
        }
    }

    /// Forgets the half-open connections across the wire.
    pub(super) fn lose_halves(&mut self) {
        let own = self.config.ip.address;
        for half in self.halves.take_all(|tuple, _| tuple.remote.ip() != own) {
            self.ports.release_place(half.port);
            self.tcp.failed += 1;
        }
    }

    /// Forgets a connection in TIME-WAIT.
    pub(super) fn end_wait(&mut self, tuple: &Tuple) {
        if self.waits.remove(tuple).is_some_and(|waiting| waiting.is_moved) {
            self.line.wire.forget_connection(tuple);
        }
    }

    /// Sends SYN/ACKs again, and forgets records whose time is over.
    pub(super) fn expire_records(&mut self, now: Instant) {
        while let Some(tuple) = self.halves.pop_due(micros(now)) {
            let Some(half) = self.halves.get_mut(&tuple) else { continue };
            if half.give_up_at <= self.now {
                self.give_half_up(&tuple);
                continue;
            }
            let is_due = half.record.next_timeout() <= self.now;
            let answer = half.record.syn_ack(&self.settings, self.now);
            if is_due {
                half.record.sent(self.now);
            }
            let due = half.record.next_timeout().min(half.give_up_at);
            self.halves.arm(tuple, due);
            if is_due {
                self.tcp.segments_retransmitted += 1;
                self.answer(now, &tuple, &answer);
            }
        }
        while let Some(tuple) = self.waits.pop_due(micros(now)) {
            let until = self.waits.get_mut(&tuple).map(|waiting| waiting.record.next_timeout());
            match until.filter(|until| *until > self.now) {
                Some(until) => self.waits.arm(tuple, until),
                None => self.end_wait(&tuple),
            }
        }
    }

    /// Sends a segment of no connection. If the peer's MAC address is not known, it waits for that.
    pub(super) fn answer(&mut self, now: Instant, tuple: &Tuple, segment: &Segment) {
        self.tcp.segments_sent += 1;
        self.tcp.resets_sent += u64::from(segment.flags.has(Flags::RST));
        let Some(mut template) = Template::new((self.config.mac, [0; 6]), &ends(tuple)) else { return };
        let (mut place, remote) = (0, tuple.remote.ip());
        let mac = self.way(now, remote, &mut place);
        mac.into_iter().for_each(|mac| template.set_next_hop(mac));
        let mut frame = self.pool.frame();
        frame.reset(template.len(&segment.options));
        let is_written = template.write(segment, &mut frame).is_some();
        frame.is_trusted = true;
        if mac.is_some() && is_written {
            self.line.send(now, &mut frame);
            self.pool.recycle(frame);
        } else if let Some(hop) = self.config.ip.next_hop(remote).filter(|_| is_written) {
            self.neighbors.wait(hop, place, frame);
        }
    }

    /// Returns the MAC address for frames to a station. If it is not known, asks for it.
    pub(super) fn way(
        &mut self,
        now: Instant,
        remote: core::net::IpAddr,
        place: &mut usize,
    ) -> Option<[u8; 6]> {
        if remote == self.config.ip.address {
            return Some(self.config.mac);
        }
        let hop = self.config.ip.next_hop(remote)?;
        let way = self.neighbors.way(hop, place, self.now);
        if way.asks {
            let frame = self.pool.frame();
            if let Some(mut question) = self.neighbors.question(hop, frame) {
                self.line.send(now, &mut question);
                self.pool.recycle(question);
            }
        }
        way.mac
    }
}
