use smoltcp::wire::{Ipv4Packet, Ipv6Packet, TcpPacket};

use crate::sequence::{find_tcp, is_before};

/// Keeps TCP segments whole where a window of odd length ends.
///
/// smoltcp sends as much as the congestion window and the peer's window let it, and so cuts the last segment of what is
/// queued when they end within it. The beginning is kept here until smoltcp sends the rest, and both go out as one: TCP
/// segments keep to the FPDUs (RFC 5044 section 5), and some peers depend on it. Nothing waits for this but what would have
/// to wait for the rest anyhow: something older is under way, its acknowledgement opens the window, and when nothing older is
/// left the beginning goes out alone.
///
/// What the kept frame says besides, an acknowledgement or a window, does not wait: it goes out at once in a frame without
/// payload. Else two sides that both keep a beginning would wait for each other's acknowledgement.
#[derive(Debug, Default)]
pub(crate) struct Keeper {
    beginning: Option<Vec<u8>>,
    /// Acknowledgement and window of the last frame that went out.
    told: Option<[u8; 6]>,
}

/// Where a connection's sending stands.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flow {
    /// Octets of payload in the largest segment.
    pub(crate) emss: usize,
    /// The first number that the peer has not acknowledged.
    pub(crate) unacknowledged: u32,
    /// The number behind everything that was queued.
    pub(crate) queue_end: u32,
    /// The peer takes nothing but probes.
    pub(crate) is_closed: bool,
}

impl Keeper {
    /// Takes the beginnings of segments out of `frames`, and puts segments in that have become whole.
    pub(crate) fn pass(&mut self, frames: &mut Vec<Vec<u8>>, flow: &Flow) {
        let mut index = 0;
        while index < frames.len() {
            self.pass_one(frames, index, flow);
            self.told = news(&frames[index]).or(self.told);
            index += 1;
        }
        frames.retain(|frame| !frame.is_empty());
    }

    /// The beginning, when nothing older is under way.
    pub(crate) fn release(&mut self, flow: &Flow) -> Option<Vec<u8>> {
        let kept = Data::of(self.beginning.as_ref()?)?;
        if is_before(flow.unacknowledged, kept.sequence) { None } else { self.beginning.take() }
    }

    fn pass_one(&mut self, frames: &mut Vec<Vec<u8>>, index: usize, flow: &Flow) {
        let Some(data) = Data::of(&frames[index]) else { return self.step_back(&mut frames[index]) };
        let Some(beginning) = self.beginning.take() else { return self.keep_if_cut(frames, index, flow) };
        let Some(kept) = Data::of(&beginning) else { return };
        if is_before(data.sequence, kept.sequence) && !is_before(kept.sequence, data.end) {
            // What is repeated here is older.
            self.beginning = Some(beginning);
        } else if data.sequence == kept.end && kept.len + data.len <= flow.emss {
            join(&beginning, &kept, &mut frames[index], &data);
            self.keep_if_cut(frames, index, flow);
        } else if data.sequence == kept.end {
            // The two are a whole segment and a new rest, which comes next in the loop.
            let rest = cut(&mut frames[index], &data, flow.emss - kept.len);
            if let Some(data) = Data::of(&frames[index]) {
                join(&beginning, &kept, &mut frames[index], &data);
            }
            frames.insert(index + 1, rest);
        } else {
            // It repeats what is kept, and maybe more.
            self.keep_if_cut(frames, index, flow);
        }
    }

    /// Gives an acknowledgement or a reset the number of what is kept. smoltcp takes that for sent, and a number behind it
    /// would tell the peer of a loss, or make it refuse the reset (RFC 5961 section 3.2).
    fn step_back(&self, frame: &mut [u8]) {
        let Some(kept) = self.beginning.as_deref().and_then(Data::of) else { return };
        let Some(tcp) = find_tcp(frame) else { return };
        let Some(Ok(number)) = frame.get(tcp + 4..tcp + 8).map(TryInto::try_into) else { return };
        if is_before(kept.sequence, u32::from_be_bytes(number)) {
            frame[tcp + 4..tcp + 8].copy_from_slice(&kept.sequence.to_be_bytes());
            fill_checksums(frame, tcp);
        }
    }

    fn keep_if_cut(&mut self, frames: &mut [Vec<u8>], index: usize, flow: &Flow) {
        let Some(data) = Data::of(&frames[index]) else { return };
        let is_cut = data.len < flow.emss && is_before(data.end, flow.queue_end) && !flow.is_closed;
        if is_cut && !data.is_last && is_before(flow.unacknowledged, data.sequence) {
            let beginning = std::mem::take(&mut frames[index]);
            if news(&beginning) != self.told {
                frames[index] = without_payload(&beginning, &data);
            }
            self.beginning = Some(beginning);
        }
    }
}

/// A frame with TCP payload in it.
struct Data {
    tcp: usize,
    /// Octets of the TCP header.
    header: usize,
    sequence: u32,
    len: usize,
    end: u32,
    /// With FIN, SYN or RST.
    is_last: bool,
}

impl Data {
    fn of(frame: &[u8]) -> Option<Self> {
        let tcp = find_tcp(frame)?;
        let packet = TcpPacket::new_checked(frame.get(tcp..)?).ok()?;
        let len = packet.payload().len();
        let sequence = u32::from_be_bytes(frame.get(tcp + 4..tcp + 8)?.try_into().ok()?);
        let end = sequence.wrapping_add(u32::try_from(len).ok()?);
        let is_last = packet.fin() || packet.syn() || packet.rst();
        let header = usize::from(packet.header_len());
        (len > 0 || packet.fin()).then_some(Self { tcp, header, sequence, len, end, is_last })
    }
}

/// Puts the payload of `beginning` in front of that of `frame`, whose header is the newer one.
fn join(beginning: &[u8], kept: &Data, frame: &mut Vec<u8>, data: &Data) {
    let at = data.tcp + data.header;
    let payload = &beginning[kept.tcp + kept.header..];
    frame.splice(at..at, payload.iter().copied());
    frame[data.tcp + 4..data.tcp + 8].copy_from_slice(&kept.sequence.to_be_bytes());
    fill_checksums(frame, data.tcp);
}

/// Leaves the first `len` octets of payload in `frame`, and answers the rest, with FIN if there is one.
fn cut(frame: &mut Vec<u8>, data: &Data, len: usize) -> Vec<u8> {
    let payload = data.tcp + data.header;
    let mut rest = frame[..payload].to_vec();
    rest.extend_from_slice(&frame[payload + len..]);
    let sequence = data.sequence.wrapping_add(u32::try_from(len).unwrap_or(0));
    rest[data.tcp + 4..data.tcp + 8].copy_from_slice(&sequence.to_be_bytes());
    fill_checksums(&mut rest, data.tcp);
    frame.truncate(payload + len);
    TcpPacket::new_unchecked(&mut frame[data.tcp..]).set_fin(false);
    rest
}

/// Acknowledgement and window of a TCP frame.
fn news(frame: &[u8]) -> Option<[u8; 6]> {
    let header = frame.get(find_tcp(frame)?..)?.first_chunk::<20>()?;
    let [_, _, _, _, _, _, _, _, a, b, c, d, _, _, e, f, ..] = *header;
    Some([a, b, c, d, e, f])
}

/// What a frame says besides its payload.
fn without_payload(frame: &[u8], data: &Data) -> Vec<u8> {
    let mut rest = frame[..data.tcp + data.header].to_vec();
    TcpPacket::new_unchecked(&mut rest[data.tcp..]).set_psh(false);
    fill_checksums(&mut rest, data.tcp);
    rest
}

/// Makes lengths and checksums fit after a change of a frame's payload or header.
fn fill_checksums(frame: &mut [u8], tcp: usize) {
    let len = u16::try_from(frame.len() - IP).unwrap_or(u16::MAX);
    let (source, destination) = if tcp == TCP_BEHIND_IPV4 {
        let mut ip = Ipv4Packet::new_unchecked(&mut frame[IP..]);
        ip.set_total_len(len);
        ip.fill_checksum();
        (ip.src_addr().into(), ip.dst_addr().into())
    } else {
        let mut ip = Ipv6Packet::new_unchecked(&mut frame[IP..]);
        ip.set_payload_len(len.saturating_sub(IPV6_HEADER));
        (ip.src_addr().into(), ip.dst_addr().into())
    };
    TcpPacket::new_unchecked(&mut frame[tcp..]).fill_checksum(&source, &destination);
}

const IP: usize = 14;
const TCP_BEHIND_IPV4: usize = 34;
const IPV6_HEADER: u16 = 40;
