//! Corrections of sequence numbers that smoltcp gets wrong.

use super::own::OwnSegment;

/// Keeps the sequence numbers of acknowledgements at the highest number sent, as RFC 9293 (3.10.7.4) wants it.
///
/// After a retransmission timeout smoltcp sets its SND.NXT back, and stamps pure acknowledgements with it. A peer
/// that has received more drops them as old, and the acknowledgement with them. When octets flow both ways and some
/// get lost, both sides can time out together. Then neither ever hears the other again. So the stack follows the
/// highest number and corrects the frames on their way out.
///
/// It also knows how much of the send buffer has not been sent, which smoltcp does not tell.
#[derive(Debug, Default)]
pub(crate) struct SendMark {
    highest: Option<u32>,
    /// The number that smoltcp takes for SND.NXT: the end of the last segment, new or repeated.
    next: Option<u32>,
    /// The number of the first octet behind all queued octets.
    queue_end: Option<u32>,
    /// The number behind the octets that have filled the send buffer to its end.
    seam: Option<u32>,
    peer_window_is_zero: bool,
    /// The acknowledgement and the window that the peer was told last.
    told: Option<(u32, u16)>,
    /// A segment went out that the peer has to answer.
    has_asked: bool,
}

impl SendMark {
    /// Notes the peer's window from its last segment.
    pub(crate) const fn note_window(&mut self, window: u16) {
        self.peer_window_is_zero = window == 0;
    }

    /// Notes octets that were put into the send buffer.
    pub(crate) fn note_queued(&mut self, octets: usize) {
        if let Some(end) = &mut self.queue_end {
            *end = end.wrapping_add(u32::try_from(octets).unwrap_or(0));
        }
    }

    /// Notes that the octets noted last end where the send buffer does.
    pub(crate) const fn note_seam(&mut self) {
        self.seam = self.queue_end;
    }

    /// Returns the number at which the send buffer ended last, if whole units of its user end there.
    pub(crate) const fn seam(&self) -> Option<u32> {
        self.seam
    }

    /// Returns the octets in the send buffer that wait to be sent, or to be sent again after a timeout.
    pub(crate) fn unsent(&self) -> usize {
        let (Some(next), Some(end)) = (self.next, self.queue_end) else { return 0 };
        if is_before(next, end) { usize::try_from(end.wrapping_sub(next)).unwrap_or(0) } else { 0 }
    }

    /// Returns the number behind all queued octets, or `None` before the SYN.
    pub(crate) const fn queue_end(&self) -> Option<u32> {
        self.queue_end
    }

    /// Returns true if the peer's window was zero in its last segment.
    pub(crate) const fn is_window_closed(&self) -> bool {
        self.peer_window_is_zero
    }

    /// Returns the number behind the window that the peer was told last. `shift` is the window scale.
    pub(crate) fn window_end(&self, shift: u8) -> Option<u32> {
        self.told.map(|(acknowledged, window)| acknowledged.wrapping_add(u32::from(window) << shift))
    }

    /// Returns true if a segment that the peer has to answer went out since the last call.
    pub(crate) const fn take_asked(&mut self) -> bool {
        core::mem::replace(&mut self.has_asked, false)
    }

    /// Notes a frame that the connection's socket sends, and corrects it if needed.
    pub(crate) fn stamp(&mut self, frame: &mut [u8], own: &mut OwnSegment) {
        let [a, b, c, d, high, low] = own.news;
        self.told = Some((u32::from_be_bytes([a, b, c, d]), u16::from_be_bytes([high, low])));
        let highest = self.highest.unwrap_or(own.sequence);
        if own.is_pure() && is_before(own.sequence, highest) {
            own.sequence = highest;
            frame[own.tcp + 4..own.tcp + 8].copy_from_slice(&highest.to_be_bytes());
            return;
        }
        // The peer most likely does not take the octet of a zero window probe, and will ask for it again.
        let is_probe = own.len == 1 && self.peer_window_is_zero;
        let octets = if is_probe { 0 } else { own.octets() };
        let end = own.sequence.wrapping_add(octets).wrapping_add(own.control());
        if own.has_syn() {
            self.queue_end.get_or_insert(end);
        }
        if !own.is_pure() {
            self.next = Some(end);
            self.has_asked = true;
        }
        self.highest = Some(if is_before(highest, end) { end } else { highest });
    }
}

/// Makes the segment at `tcp` of a received frame acknowledge octets that are not even queued.
///
/// smoltcp takes an acknowledgement of anything that is queued, sent or not. So it would drop octets that the peer has
/// never seen, or take a FIN that was never sent for acknowledged. It treats an acknowledgement beyond the queue as RFC
/// 9293 (3.10.7.4) wants it: it drops the segment and answers, once a second at most (RFC 5961 section 7). The
/// checksum has been verified before. `reached` is the number behind all sent octets.
pub(crate) fn put_out_of_reach(frame: &mut [u8], tcp: usize, reached: u32) {
    let Some(header) = frame.get_mut(tcp..).and_then(|segment| segment.first_chunk_mut::<20>()) else {
        return;
    };
    let new = reached.wrapping_add(OUT_OF_REACH);
    header[8..12].copy_from_slice(&new.to_be_bytes());
}

/// Takes the FIN off the segment at `tcp` of a received frame if it comes behind octets beyond `window_end`.
///
/// smoltcp drops the octets beyond the window (RFC 9293 section 3.10.7.4), but it takes the FIN for the end of the octets
/// that are left. The stream would end too early. smoltcp itself sends such a segment when it repeats one without a
/// timeout. The peer sends octets and FIN again. The checksum has been verified before.
pub(crate) fn drop_late_fin(frame: &mut [u8], tcp: usize, window_end: u32) {
    let end = match (frame.get(12..14), frame.get(16..20)) {
        (Some([0x08, 0x00]), Some(&[high, low, ..])) => 14 + usize::from(u16::from_be_bytes([high, low])),
        (Some([0x86, 0xDD]), Some(&[.., high, low])) => 54 + usize::from(u16::from_be_bytes([high, low])),
        _ => return,
    };
    let Some(header) = frame.get_mut(tcp..).and_then(|segment| segment.first_chunk_mut::<20>()) else {
        return;
    };
    let begin = tcp + usize::from(header[12] >> 4) * 4;
    let octets = u32::try_from(end.saturating_sub(begin)).unwrap_or(0);
    let sequence = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
    if is_before(window_end, sequence.wrapping_add(octets)) {
        header[13] &= !FIN;
    }
}

/// Returns the offset of the TCP header in a frame of our own, which has neither IP options nor extension headers.
pub(crate) fn find_tcp(frame: &[u8]) -> Option<usize> {
    match (frame.get(12..14)?, frame.get(20)?, frame.get(23)?) {
        ([0x08, 0x00], _, &TCP) => Some(34),
        ([0x86, 0xDD], &TCP, _) => Some(54),
        _ => None,
    }
    .filter(|&offset| offset <= frame.len())
}

/// Returns true if `left` is before `right` in the circular order of sequence numbers (RFC 9293 section 3.4).
pub(crate) const fn is_before(left: u32, right: u32) -> bool {
    let distance = right.wrapping_sub(left);
    distance != 0 && distance < 1 << 31
}

/// More than any send buffer holds (a window has at most 1 GiB), and less than half of all sequence numbers.
const OUT_OF_REACH: u32 = (1 << 30) + 2;

const TCP: u8 = 0x06;
const FIN: u8 = 0x01;

#[cfg(test)]
mod tests {
    use smoltcp::wire::{TcpPacket, TcpSeqNumber};

    use super::*;

    const SYN: u8 = 0x02;
    const ACK: u8 = 0x10;

    fn stamp(mark: &mut SendMark, frame: &mut [u8]) {
        if let Some(mut own) = OwnSegment::of(frame) {
            mark.stamp(frame, &mut own);
        }
    }

    fn frame(sequence: u32, flags: u8, payload: usize) -> Vec<u8> {
        let mut frame = vec![0; 54 + payload];
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        frame[23] = TCP;
        frame[38..42].copy_from_slice(&sequence.to_be_bytes());
        frame[46] = 0x50;
        frame[47] = flags;
        frame
    }

    /// Returns the sequence number that goes out.
    fn stamped(mark: &mut SendMark, sequence: u32, flags: u8, payload: usize) -> u32 {
        let mut frame = frame(sequence, flags, payload);
        stamp(mark, &mut frame);
        let packet = TcpPacket::new_checked(&frame[34..]).unwrap();
        let TcpSeqNumber(number) = packet.seq_number();
        u32::from_be_bytes(number.to_be_bytes())
    }

    #[test]
    fn pure_acknowledgements_never_go_back_and_data_may() {
        for start in [0, 1000, 0x0000_FFF0, 0x7FFF_FF00, 0xFFFF_FFF0] {
            let at = |offset: u32| u32::wrapping_add(start, offset);
            let mut mark = SendMark::default();
            assert_eq!(stamped(&mut mark, at(0), SYN, 0), at(0));
            assert_eq!(stamped(&mut mark, at(1), ACK, 0), at(1));
            assert_eq!(stamped(&mut mark, at(1), ACK, 500), at(1));
            assert_eq!(stamped(&mut mark, at(501), ACK, 500), at(501));
            assert_eq!(stamped(&mut mark, at(1), ACK, 500), at(1), "a retransmission");
            assert_eq!(stamped(&mut mark, at(501), ACK, 0), at(1001), "set back and corrected");
            assert_eq!(stamped(&mut mark, at(501), ACK | 0x04, 0), at(1001), "so is a RST");
            assert_eq!(stamped(&mut mark, at(1001), ACK | FIN, 0), at(1001));
            assert_eq!(stamped(&mut mark, at(1001), ACK, 0), at(1002));
        }
    }

    #[test]
    fn the_octet_of_a_window_probe_does_not_count() {
        let mut mark = SendMark::default();
        stamped(&mut mark, 1, ACK, 100);
        mark.note_window(0);
        stamped(&mut mark, 101, ACK, 1);
        assert_eq!(stamped(&mut mark, 101, ACK, 0), 101);
        mark.note_window(1);
        stamped(&mut mark, 101, ACK, 1);
        assert_eq!(stamped(&mut mark, 101, ACK, 0), 102);
    }

    #[test]
    fn an_acknowledgement_is_put_out_of_reach_of_every_queue() {
        for reached in [0, 7, 0x1234_5678, 0xBFFF_FFFE, 0xFFFF_0000, 0xFFFF_FFFF] {
            let mut frame = frame(1, ACK, 6);
            put_out_of_reach(&mut frame, 34, reached);
            let number = u32::from_be_bytes(frame[42..46].try_into().unwrap());
            assert!(is_before(reached.wrapping_add(1 << 30), number), "{number:#x} {reached:#x}");
        }
        let mut runt = [1; 53];
        put_out_of_reach(&mut runt, 34, 5);
        put_out_of_reach(&mut runt, 99, 5);
        assert_eq!(runt, [1; 53]);
    }

    #[test]
    fn other_frames_and_runts_are_left_alone() {
        let mut mark = SendMark { highest: Some(5000), ..SendMark::default() };
        for len in 0..60 {
            let mut short = frame(1, ACK, 6);
            short.truncate(len.min(53));
            let before = short.clone();
            stamp(&mut mark, &mut short);
            assert_eq!(short, before);
        }
        let mut udp = frame(1, ACK, 0);
        udp[23] = 17;
        let before = udp.clone();
        stamp(&mut mark, &mut udp);
        assert_eq!(udp, before);
    }
}
