//! TCP segments stay whole although a window closes.

use smoltcp::wire::{Ipv4Packet, Ipv6Packet, TcpPacket};

use super::own::OwnSegment;
use super::sequence::{find_tcp, is_before};
use crate::frame::Frame;

/// Keeps TCP segments whole where a window of odd length ends.
///
/// smoltcp sends as much as the congestion window and the peer's window allow. So it cuts the last segment of the
/// queue when they end within it. This keeps the beginning until smoltcp sends the rest, and both go out as one
/// segment. So TCP segments keep to the FPDUs (RFC 5044 section 5), on which some peers depend.
///
/// This delays only octets that would have to wait for the rest in any case. Older octets are under way, and their
/// acknowledgement opens the window. When no older octets are left, the beginning goes out alone.
///
/// If the device cuts segments, the frames are whole multiples of the largest segment, and the rest at their end is
/// kept.
///
/// An acknowledgement or a window in the kept frame does not wait. It goes out at once in a frame without payload.
/// Else two sides that both keep a beginning would wait for each other's acknowledgement.
/// without payload. Else two sides that both keep a beginning would wait for each other's acknowledgement.
#[derive(Debug, Default)]
pub(crate) struct Keeper {
    beginning: Option<Frame>,
    /// The acknowledgement and the window of the last frame that went out.
    told: Option<[u8; 6]>,
}

/// The state of a connection's sending direction.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flow {
    /// The octets of payload in the largest segment.
    pub(crate) emss: usize,
    /// The first number that the peer has not acknowledged.
    pub(crate) unacknowledged: u32,
    /// The number behind all queued octets.
    pub(crate) queue_end: u32,
    /// The peer takes only probes.
    pub(crate) is_closed: bool,
    /// The number behind the octets that filled the send buffer to its end. TCP cuts a segment there, and may do so.
    pub(crate) seam: Option<u32>,
}

impl Keeper {
    /// Returns true if the beginning of a segment is held back.
    pub(crate) const fn is_holding(&self) -> bool {
        self.beginning.is_some()
    }

    /// Returns the octets that are held back.
    pub(crate) fn held(&self) -> usize {
        self.beginning.as_deref().and_then(Data::of).map_or(0, |data| data.len)
    }

    /// Returns true if a frame goes out unchanged, as nearly all do, and tells its device how to cut it. For other
    /// frames the caller calls [`Self::pass`].
    #[inline]
    pub(crate) fn passes(&mut self, frame: &mut Frame, own: &OwnSegment, flow: &Flow) -> bool {
        let data = Data::in_own(own);
        if self.beginning.is_some() || data.as_ref().is_some_and(|data| flow.cuts(data)) {
            return false;
        }
        frame.segment = data.map_or(0, |data| flow.segment_of(&data));
        self.told = Some(own.news);
        true
    }

    /// Takes the beginnings of segments out of `frames`, puts in segments that have become whole, and has the device
    /// cut frames that are longer than a segment.
    pub(crate) fn pass(&mut self, frames: &mut Vec<Frame>, flow: &Flow) {
        let mut index = 0;
        while index < frames.len() {
            self.pass_one(frames, index, flow);
            self.told = news(&frames[index]).or(self.told);
            let data = Data::of(&frames[index]);
            frames[index].segment = data.map_or(0, |data| flow.segment_of(&data));
            index += 1;
        }
        frames.retain(|frame| !frame.is_empty());
    }

    /// Returns the kept beginning when no older octets are under way.
    pub(crate) fn release(&mut self, flow: &Flow) -> Option<Frame> {
        let kept = Data::of(self.beginning.as_ref()?)?;
        if is_before(flow.unacknowledged, kept.sequence) { None } else { self.beginning.take() }
    }

    fn pass_one(&mut self, frames: &mut Vec<Frame>, index: usize, flow: &Flow) {
        let Some(data) = Data::of(&frames[index]) else { return self.step_back(&mut frames[index]) };
        let Some(beginning) = self.beginning.take() else { return self.keep_if_cut(frames, index, flow) };
        let Some(kept) = Data::of(&beginning) else { return };
        if is_before(data.sequence, kept.sequence) && !is_before(kept.sequence, data.end) {
            // The octets repeated here are older.
            self.beginning = Some(beginning);
        } else if data.sequence == kept.end && kept.len + data.len <= data.len.max(flow.emss) {
            join(&beginning, &kept, &mut frames[index], &data);
            self.keep_if_cut(frames, index, flow);
        } else if data.sequence == kept.end {
            // The two together are whole segments, as many as before, and a new rest, which comes next in the loop.
            let whole = data.len.max(flow.emss) / flow.emss * flow.emss;
            let rest = cut(&mut frames[index], &data, whole - kept.len);
            if let Some(data) = Data::of(&frames[index]) {
                join(&beginning, &kept, &mut frames[index], &data);
            }
            frames.insert(index + 1, rest);
        } else {
            // The frame repeats the kept octets, and maybe more.
            self.keep_if_cut(frames, index, flow);
        }
    }

    /// Gives an acknowledgement or a reset the number of the kept octets. smoltcp takes these for sent. A number
    /// behind them would tell the peer of a loss, or make it refuse the reset (RFC 5961 section 3.2).
    fn step_back(&self, frame: &mut [u8]) {
        let Some(kept) = self.beginning.as_deref().and_then(Data::of) else { return };
        let Some(tcp) = find_tcp(frame) else { return };
        let Some(Ok(number)) = frame.get(tcp + 4..tcp + 8).map(TryInto::try_into) else { return };
        if is_before(kept.sequence, u32::from_be_bytes(number)) {
            frame[tcp + 4..tcp + 8].copy_from_slice(&kept.sequence.to_be_bytes());
        }
    }

    fn keep_if_cut(&mut self, frames: &mut [Frame], index: usize, flow: &Flow) {
        let Some(data) = Data::of(&frames[index]) else { return };
        let is_cut = flow.cuts(&data);
        if is_cut && data.len > flow.emss {
            // The frame has whole segments in front, and their acknowledgement opens the window.
            let rest = data.len % flow.emss;
            self.beginning = Some(cut(&mut frames[index], &data, data.len - rest));
        } else if is_cut && is_before(flow.unacknowledged, data.sequence) {
            let beginning = std::mem::take(&mut frames[index]);
            if news(&beginning) != self.told {
                frames[index] = without_payload(&beginning, &data);
            }
            self.beginning = Some(beginning);
        }
    }
}

impl Flow {
    /// Returns true if a segment ends within the queued octets, and not where whole segments end.
    const fn cuts(&self, data: &Data) -> bool {
        let is_odd = data.len < self.emss || !data.len.is_multiple_of(self.emss);
        let is_seam = matches!(self.seam, Some(seam) if seam == data.end);
        is_odd && !data.is_last && !self.is_closed && !is_seam && is_before(data.end, self.queue_end)
    }

    /// Returns [`Frame::segment`] for the frame.
    fn segment_of(&self, data: &Data) -> u16 {
        if data.len > self.emss { u16::try_from(self.emss).unwrap_or(0) } else { 0 }
    }
}

/// A frame with TCP payload in it.
struct Data {
    tcp: usize,
    /// The octets of the TCP header.
    header: usize,
    sequence: u32,
    len: usize,
    end: u32,
    /// The frame has FIN, SYN or RST.
    is_last: bool,
}

impl Data {
    fn of(frame: &[u8]) -> Option<Self> {
        Self::in_own(&OwnSegment::of(frame)?)
    }

    fn in_own(own: &OwnSegment) -> Option<Self> {
        let &OwnSegment { tcp, header, sequence, len, .. } = own;
        let end = sequence.wrapping_add(own.octets());
        let is_last = own.has_fin() || own.has_syn() || own.has_rst();
        (len > 0 || own.has_fin()).then_some(Self { tcp, header, sequence, len, end, is_last })
    }
}

/// Puts the payload of `beginning` in front of that of `frame`, whose header is the newer one.
fn join(beginning: &[u8], kept: &Data, frame: &mut Frame, data: &Data) {
    frame.insert(data.tcp + data.header, &beginning[kept.tcp + kept.header..]);
    frame[data.tcp + 4..data.tcp + 8].copy_from_slice(&kept.sequence.to_be_bytes());
    set_lengths(frame, data.tcp);
}

/// Leaves the first `len` octets of payload in `frame`, and returns the rest, with FIN if there is one.
fn cut(frame: &mut Frame, data: &Data, len: usize) -> Frame {
    let payload = data.tcp + data.header;
    let mut rest = Frame::copy_of(&frame[..payload]);
    rest.is_trusted = frame.is_trusted;
    rest.insert(payload, &frame[payload + len..]);
    let sequence = data.sequence.wrapping_add(u32::try_from(len).unwrap_or(0));
    rest[data.tcp + 4..data.tcp + 8].copy_from_slice(&sequence.to_be_bytes());
    set_lengths(&mut rest, data.tcp);
    frame.truncate(payload + len);
    TcpPacket::new_unchecked(&mut frame[data.tcp..]).set_fin(false);
    set_lengths(frame, data.tcp);
    rest
}

/// Returns the acknowledgement and the window of a TCP frame.
fn news(frame: &[u8]) -> Option<[u8; 6]> {
    OwnSegment::of(frame).map(|own| own.news)
}

/// Returns the frame without its payload.
fn without_payload(frame: &Frame, data: &Data) -> Frame {
    let mut rest = Frame::copy_of(&frame[..data.tcp + data.header]);
    rest.is_trusted = frame.is_trusted;
    TcpPacket::new_unchecked(&mut rest[data.tcp..]).set_psh(false);
    set_lengths(&mut rest, data.tcp);
    rest
}

/// Corrects the lengths in the IP header after a change of a frame's payload.
fn set_lengths(frame: &mut Frame, tcp: usize) {
    let len = u16::try_from(frame.len() - IP).unwrap_or(u16::MAX);
    if tcp == TCP_BEHIND_IPV4 {
        Ipv4Packet::new_unchecked(&mut frame[IP..]).set_total_len(len);
    } else {
        Ipv6Packet::new_unchecked(&mut frame[IP..]).set_payload_len(len.saturating_sub(IPV6_HEADER));
    }
}

const IP: usize = 14;
const TCP_BEHIND_IPV4: usize = 34;
const IPV6_HEADER: u16 = 40;

#[cfg(test)]
mod tests {
    use smoltcp::wire::TcpSeqNumber;

    use super::*;

    const EMSS: usize = 100;

    /// Returns an IPv4 frame with the octets of the stream at this place.
    fn frame(sequence: u32, len: usize, is_last: bool) -> Frame {
        let mut octets = vec![0; 54];
        octets[12..14].copy_from_slice(&[0x08, 0x00]);
        octets[14] = 0x45;
        octets[23] = 6;
        let mut tcp = TcpPacket::new_unchecked(&mut octets[34..]);
        tcp.set_header_len(20);
        tcp.set_seq_number(TcpSeqNumber(i32::from_ne_bytes(sequence.to_ne_bytes())));
        tcp.set_ack(true);
        tcp.set_fin(is_last);
        octets.extend((0..len).map(|at| octet(sequence, at)));
        let mut frame = Frame::copy_of(&octets);
        set_lengths(&mut frame, 34);
        frame
    }

    fn octet(sequence: u32, at: usize) -> u8 {
        sequence.wrapping_add(u32::try_from(at).unwrap()).to_ne_bytes()[0]
    }

    /// Returns the start of each frame, its length and its segments' length. Checks the octets and lengths.
    fn seen(frames: &[Frame]) -> Vec<(u32, usize, u16)> {
        let each = |frame: &Frame| {
            let (sequence, len) = Data::of(frame).map_or((0, 0), |data| (data.sequence, data.len));
            assert_eq!(usize::from(u16::from_be_bytes([frame[16], frame[17]])), frame.len() - IP);
            assert!(frame[54..].iter().enumerate().all(|(at, &value)| value == octet(sequence, at)));
            (sequence, len, frame.segment)
        };
        frames.iter().map(each).collect()
    }

    fn pass(keeper: &mut Keeper, frames: Vec<Frame>, flow: &Flow) -> Vec<(u32, usize, u16)> {
        let mut frames = frames;
        keeper.pass(&mut frames, flow);
        seen(&frames)
    }

    fn flow(queue_end: u32) -> Flow {
        Flow { emss: EMSS, unacknowledged: 1000, queue_end, is_closed: false, seam: None }
    }

    // Covers 5044-5.1-3.
    #[test]
    fn the_device_cuts_whole_segments_while_more_is_queued() {
        let mut keeper = Keeper::default();
        let flow = flow(5000);
        // The window ends within the third segment, and the next frame begins there.
        assert_eq!(pass(&mut keeper, vec![frame(1000, 250, false)], &flow), [(1000, 200, 100)]);
        assert!(keeper.release(&flow).is_none(), "the first two are under way");
        let frames = pass(&mut keeper, vec![frame(1250, 330, false)], &flow);
        assert_eq!(frames, [(1200, 300, 100)]);
        assert_eq!(pass(&mut keeper, vec![frame(1580, 20, false)], &flow), [(1500, 100, 0)]);
        // The end of the queue does not wait, and takes the kept octets along.
        let flow = Flow { queue_end: 1830, ..flow };
        assert_eq!(pass(&mut keeper, vec![frame(1600, 150, false)], &flow), [(1600, 100, 0)]);
        let frames = pass(&mut keeper, vec![frame(1750, 80, true)], &flow);
        assert_eq!(frames, [(1700, 100, 0), (1800, 30, 0)]);
    }

    #[test]
    fn a_segment_may_end_where_the_send_buffer_does() {
        let mut keeper = Keeper::default();
        let flow = Flow { seam: Some(1250), ..flow(5000) };
        assert_eq!(pass(&mut keeper, vec![frame(1000, 250, false)], &flow), [(1000, 250, 100)]);
        assert_eq!(pass(&mut keeper, vec![frame(1250, 100, false)], &flow), [(1250, 100, 0)]);
    }
}
