/// Keeps the sequence numbers of acknowledgements where RFC 9293 (3.10.7.4) wants them: at the highest number
/// sent.
///
/// After a retransmission timeout smoltcp sets its SND.NXT back, and stamps pure acknowledgements with it. A
/// peer that has received more drops them as old, acknowledgement and all. When both sides time out together,
/// as they do when octets flow both ways and some get lost, neither ever hears the other again. So the stack
/// follows the highest number and corrects the frames on their way out.
///
/// It also knows how much of the send buffer has not been sent, which smoltcp keeps to itself.
#[derive(Debug, Default)]
pub(crate) struct SendMark {
    highest: Option<u32>,
    /// What smoltcp takes for SND.NXT: where the last segment ended, be it a new or a repeated one.
    next: Option<u32>,
    /// The number of the first octet behind everything that was queued.
    queue_end: Option<u32>,
    peer_window_is_zero: bool,
}

impl SendMark {
    /// Takes note of the peer's window as its last segment told it.
    pub(crate) const fn note_window(&mut self, window: u16) {
        self.peer_window_is_zero = window == 0;
    }

    /// Takes note of octets that were put into the send buffer.
    pub(crate) fn note_queued(&mut self, octets: usize) {
        if let Some(end) = &mut self.queue_end {
            *end = end.wrapping_add(u32::try_from(octets).unwrap_or(0));
        }
    }

    /// Octets that wait in the send buffer to be sent, or to be sent again after a timeout.
    pub(crate) fn unsent(&self) -> usize {
        let (Some(next), Some(end)) = (self.next, self.queue_end) else { return 0 };
        if is_before(next, end) { usize::try_from(end.wrapping_sub(next)).unwrap_or(0) } else { 0 }
    }

    /// The number behind everything that was queued, once a SYN is out.
    pub(crate) const fn queue_end(&self) -> Option<u32> {
        self.queue_end
    }

    /// Whether the peer's window was zero when it was told last.
    pub(crate) const fn is_window_closed(&self) -> bool {
        self.peer_window_is_zero
    }

    /// Takes note of, or corrects, a frame that the connection's socket sends; others are left as they are.
    pub(crate) fn stamp(&mut self, frame: &mut [u8]) {
        let Some(tcp) = find_tcp(frame) else { return };
        let Some((header, rest)) = frame[tcp..].split_first_chunk_mut::<20>() else { return };
        let payload = (rest.len() + 20).saturating_sub(usize::from(header[12] >> 4) * 4);
        let sequence = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
        let flags = header[13];
        let is_pure = payload == 0 && flags & (SYN | FIN) == 0 && flags & ACK != 0;
        let highest = self.highest.unwrap_or(sequence);
        if is_pure && is_before(sequence, highest) {
            let checksum = u16::from_be_bytes([header[16], header[17]]);
            let checksum = adjust(adjust(checksum, sequence >> 16, highest >> 16), sequence, highest);
            header[4..8].copy_from_slice(&highest.to_be_bytes());
            header[16..18].copy_from_slice(&checksum.to_be_bytes());
            return;
        }
        // The octet of a zero window probe is most likely not taken; the peer will ask for it again.
        let is_probe = payload == 1 && self.peer_window_is_zero;
        let octets = if is_probe { 0 } else { u32::try_from(payload).unwrap_or(0) };
        let control = u32::from(flags & SYN != 0) + u32::from(flags & FIN != 0);
        let end = sequence.wrapping_add(octets).wrapping_add(control);
        if flags & SYN != 0 {
            self.queue_end.get_or_insert(end);
        }
        if !is_pure {
            self.next = Some(end);
        }
        self.highest = Some(if is_before(highest, end) { end } else { highest });
    }
}

/// Where the TCP header is in a frame of our own, which has neither IP options nor extension headers.
pub(crate) fn find_tcp(frame: &[u8]) -> Option<usize> {
    match (frame.get(12..14)?, frame.get(20)?, frame.get(23)?) {
        ([0x08, 0x00], _, &TCP) => Some(34),
        ([0x86, 0xDD], &TCP, _) => Some(54),
        _ => None,
    }
    .filter(|&offset| offset <= frame.len())
}

/// In the circular order of sequence numbers (RFC 9293 section 3.4).
pub(crate) const fn is_before(left: u32, right: u32) -> bool {
    let distance = right.wrapping_sub(left);
    distance != 0 && distance < 1 << 31
}

/// The checksum after the low 16 bits of `old` became those of `new` (RFC 1624 equation 3).
fn adjust(checksum: u16, old: u32, new: u32) -> u16 {
    let sum = (u32::from(checksum) ^ 0xFFFF) + ((old & 0xFFFF) ^ 0xFFFF) + (new & 0xFFFF);
    let folded = (sum & 0xFFFF) + (sum >> 16);
    let folded = (folded & 0xFFFF) + (folded >> 16);
    !u16::try_from(folded & 0xFFFF).unwrap_or(0)
}

const TCP: u8 = 0x06;
const FIN: u8 = 0x01;
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

#[cfg(test)]
mod tests {
    use smoltcp::wire::{IpAddress, TcpPacket, TcpSeqNumber};

    use super::*;

    const OWN: IpAddress = IpAddress::v4(10, 0, 0, 1);
    const PEER: IpAddress = IpAddress::v4(10, 0, 0, 2);

    fn frame(sequence: u32, flags: u8, payload: usize) -> Vec<u8> {
        let mut frame = vec![0; 54 + payload];
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        frame[23] = TCP;
        frame[38..42].copy_from_slice(&sequence.to_be_bytes());
        frame[46] = 0x50;
        frame[47] = flags;
        TcpPacket::new_unchecked(&mut frame[34..]).fill_checksum(&OWN, &PEER);
        frame
    }

    /// The sequence number that goes out; the checksum must be good.
    fn stamped(mark: &mut SendMark, sequence: u32, flags: u8, payload: usize) -> u32 {
        let mut frame = frame(sequence, flags, payload);
        mark.stamp(&mut frame);
        let packet = TcpPacket::new_checked(&frame[34..]).unwrap();
        assert!(packet.verify_checksum(&OWN, &PEER));
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
    fn other_frames_and_runts_are_left_alone() {
        let mut mark = SendMark { highest: Some(5000), ..SendMark::default() };
        for len in 0..60 {
            let mut short = frame(1, ACK, 6);
            short.truncate(len.min(53));
            let before = short.clone();
            mark.stamp(&mut short);
            assert_eq!(short, before);
        }
        let mut udp = frame(1, ACK, 0);
        udp[23] = 17;
        let before = udp.clone();
        mark.stamp(&mut udp);
        assert_eq!(udp, before);
    }
}
