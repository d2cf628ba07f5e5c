//! The part of one connection in the counters.

use smoltcp::socket::tcp::State;

use super::own::OwnSegment;
use super::sequence::is_before;
use super::whole::Flow;
use crate::counters::TcpCounters;
use crate::demux::Segment;
use crate::frame::Frame;
use crate::llp::state::CloseCause;

/// The user's view of a connection. The connection is ready when this has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Appearance {
    pub(crate) state: State,
    pub(crate) end: Option<CloseCause>,
    pub(crate) received: usize,
    pub(crate) queued: usize,
}

impl Appearance {
    /// Returns true if the connection is, or was, established.
    pub(crate) fn is_established(&self) -> bool {
        is_established(self.state)
    }
}

/// The part of one connection in the [`TcpCounters`], and its progress. Segments count when they go out, after any
/// wait for their rest.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// The sequence number behind all octets sent so far.
    sent_to: Option<u32>,
    /// The same number with the octets of probes, which the peer may accept.
    reached: Option<u32>,
    was_established: bool,
}

impl Tally {
    /// Counts frames that go out.
    pub(crate) fn count_sent(&mut self, frames: &[Frame], flow: Option<&Flow>, counters: &mut TcpCounters) {
        for frame in frames {
            if let Some(own) = OwnSegment::of(frame) {
                self.count_one(&own, frame.segment, flow, counters);
            }
        }
    }

    /// Counts a frame that goes out. If `segment` is not 0, the device cuts it into segments of that many octets.
    #[inline]
    pub(crate) fn count_one(
        &mut self,
        own: &OwnSegment,
        segment: u16,
        flow: Option<&Flow>,
        counters: &mut TcpCounters,
    ) {
        counters.segments_sent +=
            if segment == 0 { 1 } else { own.len.div_ceil(usize::from(segment)) as u64 };
        if own.has_rst() {
            counters.resets_sent += 1;
        }
        // A probe of a closed window or of an idle peer carries one octet, only to get an answer.
        let is_probe = own.len == 1
            && flow.is_some_and(|flow| flow.is_closed || is_before(own.sequence, flow.unacknowledged));
        let (len, sequence) = (own.octets(), own.sequence);
        let end = sequence.wrapping_add(len + own.control());
        self.reached = Some(self.reached.filter(|reached| !is_before(*reached, end)).unwrap_or(end));
        if is_probe || len + own.control() == 0 {
            return;
        }
        counters.octets_sent += own.len as u64;
        let sent_to = self.sent_to.unwrap_or(sequence);
        if is_before(sequence, sent_to) {
            counters.segments_retransmitted += 1;
            counters.octets_retransmitted += u64::from(sent_to.wrapping_sub(sequence).min(len));
        }
        self.sent_to = Some(if is_before(sent_to, end) { end } else { sent_to });
    }

    /// Returns true if a segment acknowledges octets that were never sent (RFC 9293 section 3.10.7.4). Resets are
    /// left to smoltcp.
    pub(crate) fn is_ahead(&self, segment: &Segment) -> bool {
        match (segment.acknowledged, self.reached) {
            (Some(number), Some(reached)) => !segment.is_reset() && is_before(reached, number),
            _ => false,
        }
    }

    /// Returns the sequence number behind all octets sent so far, with probes, or `None` before the SYN.
    pub(crate) const fn reached(&self) -> Option<u32> {
        self.reached
    }

    /// Counts how a segment or the time has changed the connection. `is_passive` is true if the peer opened it.
    pub(crate) fn count_change(
        &mut self,
        [before, after]: [Appearance; 2],
        is_passive: bool,
        counters: &mut TcpCounters,
    ) {
        counters.octets_received += after.received.saturating_sub(before.received) as u64;
        if before.end.is_none() {
            match after.end {
                Some(CloseCause::TimedOut) => counters.timeouts += 1,
                Some(CloseCause::Refused | CloseCause::Reset) => counters.resets_received += 1,
                Some(CloseCause::Graceful | CloseCause::Aborted | CloseCause::Unreachable) | None => {}
            }
        }
        if !self.was_established && after.is_established() {
            self.was_established = true;
            if is_passive {
                counters.accepted += 1;
            } else {
                counters.opened += 1;
            }
        }
    }

    /// Counts the end of the connection.
    pub(crate) const fn count_end(&self, counters: &mut TcpCounters) {
        if !self.was_established {
            counters.failed += 1;
        }
    }
}

/// Returns true if a connection in this state is, or was, established.
pub(crate) fn is_established(state: State) -> bool {
    !matches!(state, State::Closed | State::Listen | State::SynSent | State::SynReceived)
}

#[cfg(test)]
mod tests {
    use smoltcp::wire::{TcpPacket, TcpSeqNumber};

    use super::*;

    /// An IPv4 frame with a TCP segment.
    fn frame(sequence: u32, payload: usize, set: impl FnOnce(&mut TcpPacket<&mut [u8]>)) -> Vec<u8> {
        let mut frame = vec![0; 54 + payload];
        frame[12] = 0x08;
        frame[23] = 6;
        let mut tcp = TcpPacket::new_unchecked(&mut frame[34..]);
        tcp.set_header_len(20);
        tcp.set_seq_number(TcpSeqNumber(i32::from_ne_bytes(sequence.to_ne_bytes())));
        tcp.set_ack(true);
        tcp.set_src_port(1);
        tcp.set_dst_port(2);
        set(&mut tcp);
        frame
    }

    fn count(frames: &[Vec<u8>], flow: Option<&Flow>) -> TcpCounters {
        let frames: Vec<Frame> = frames.iter().map(|octets| Frame::copy_of(octets)).collect();
        let mut counters = TcpCounters::default();
        Tally::default().count_sent(&frames, flow, &mut counters);
        counters
    }

    #[test]
    fn octets_sent_again_are_retransmissions_across_the_wrap() {
        let start = u32::MAX - 100;
        let frames = [
            frame(start, 0, |tcp| tcp.set_syn(true)),
            frame(start, 0, |tcp| tcp.set_syn(true)),
            frame(start.wrapping_add(1), 1000, |_| {}),
            frame(start.wrapping_add(1001), 0, |_| {}),
            frame(start.wrapping_add(501), 700, |_| {}),
            frame(start.wrapping_add(1201), 0, |tcp| tcp.set_fin(true)),
            frame(start.wrapping_add(1202), 0, |tcp| tcp.set_rst(true)),
            vec![0; 60],
        ];
        let expected = TcpCounters {
            segments_sent: 7,
            octets_sent: 1700,
            segments_retransmitted: 2,
            octets_retransmitted: 500,
            resets_sent: 1,
            ..TcpCounters::default()
        };
        assert_eq!(count(&frames, None), expected);
    }

    #[test]
    fn probes_are_neither_octets_nor_retransmissions() {
        let flow = Flow { emss: 1000, unacknowledged: 11, queue_end: 11, is_closed: false, seam: None };
        let frames = [frame(1, 10, |_| {}), frame(10, 1, |_| {}), frame(10, 1, |_| {})];
        let counters = count(&frames, Some(&flow));
        let seen = (counters.segments_sent, counters.octets_sent, counters.segments_retransmitted);
        assert_eq!(seen, (3, 10, 0), "keep-alives stand before what is acknowledged");
        let flow = Flow { unacknowledged: 1, is_closed: true, ..flow };
        let frames = [frame(1, 1, |_| {}), frame(1, 1, |_| {})];
        assert_eq!(count(&frames, Some(&flow)).octets_sent, 0, "nobody took it");
    }
}
