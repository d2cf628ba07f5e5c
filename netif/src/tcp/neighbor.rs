//! The MAC addresses of neighbors.

use core::net::{IpAddr, Ipv6Addr};

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr,
    Icmpv6Packet, Icmpv6Repr, IpProtocol, Ipv6Packet, Ipv6Repr, NdiscNeighborFlags, NdiscRepr,
    RawHardwareAddress,
};
use weft_tcp::Micros;

use crate::frame::Frame;

/// The neighbors of a station, and the questions for them: ARP (RFC 826) and neighbor discovery (RFC 4861).
///
/// An address is learned from an answer to an own question, or from a neighbor that asks for this station. smoltcp's
/// interface answers the questions of others, and has a table of its own for that.
#[derive(Debug)]
pub(crate) struct Neighbors {
    mac: [u8; 6],
    address: IpAddr,
    entries: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    ip: IpAddr,
    mac: Option<[u8; 6]>,
    /// The last time at which the neighbor was surely there.
    confirmed_at: Micros,
    /// Questions since then without an answer, and the time of the last one.
    questions: u8,
    asked_at: Micros,
    used_at: Micros,
    /// Frames that wait for the address.
    waiting: Vec<Frame>,
}

/// What is known of a neighbor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Way {
    /// Its MAC address.
    pub(crate) mac: Option<[u8; 6]>,
    /// The caller has to send [`Neighbors::question`].
    pub(crate) asks: bool,
}

impl Neighbors {
    pub(crate) const fn new(mac: [u8; 6], address: IpAddr) -> Self {
        Self { mac, address, entries: Vec::new() }
    }

    /// Returns what is known of a neighbor to which something is to be sent. `place` is where it was found last.
    ///
    /// An unknown neighbor is asked for once a second, as long as this is called. A known one is asked for again after
    /// 30 s without a sign of life, and forgotten after three questions.
    pub(crate) fn way(&mut self, ip: IpAddr, place: &mut usize, now: Micros) -> Way {
        *place = self.find(ip, *place).unwrap_or_else(|| self.insert(ip, now));
        let Some(entry) = self.entries.get_mut(*place) else { return Way { mac: None, asks: false } };
        entry.used_at = now;
        if entry.mac.is_some() && now.since(entry.confirmed_at) < REACHABLE {
            return Way { mac: entry.mac, asks: false };
        }
        let asks = entry.questions == 0 || now.since(entry.asked_at) >= PAUSE;
        if asks && entry.mac.is_some() && entry.questions >= QUESTIONS {
            (entry.mac, entry.questions) = (None, 0);
        }
        if asks {
            entry.questions = entry.questions.saturating_add(1);
            entry.asked_at = now;
        }
        Way { mac: entry.mac, asks }
    }

    /// Notes that a neighbor has answered by TCP. `place` is where it was found last.
    pub(crate) fn confirm(&mut self, ip: IpAddr, place: usize, now: Micros) {
        if let Some(entry) = self.entries.get_mut(place).filter(|entry| entry.ip == ip) {
            (entry.confirmed_at, entry.questions) = (now, 0);
        }
    }

    /// Has a frame wait for a neighbor's address. The oldest one gives way.
    pub(crate) fn wait(&mut self, ip: IpAddr, place: usize, frame: Frame) {
        if let Some(entry) = self.entries.get_mut(place).filter(|entry| entry.ip == ip) {
            if entry.waiting.len() >= WAITING {
                entry.waiting.remove(0);
            }
            entry.waiting.push(frame);
        }
    }

    /// Takes the frames that have waited for a neighbor, with its address.
    pub(crate) fn take_waiting(&mut self, ip: IpAddr) -> Vec<Frame> {
        let entry = self.entries.iter_mut().find(|entry| entry.ip == ip);
        let Some((entry, mac)) = entry.and_then(|entry| entry.mac.map(|mac| (entry, mac))) else {
            return Vec::new();
        };
        let mut frames = core::mem::take(&mut entry.waiting);
        for frame in &mut frames {
            frame[..6].copy_from_slice(&mac);
        }
        frames
    }

    /// Reads a frame of ARP or neighbor discovery. Returns the neighbor whose address was learned.
    pub(crate) fn learn(&mut self, frame: &[u8], now: Micros) -> Option<IpAddr> {
        let ethernet = EthernetFrame::new_checked(frame).ok()?;
        let (ip, mac, is_answer) = match ethernet.ethertype() {
            EthernetProtocol::Arp => self.read_arp(ethernet.payload())?,
            EthernetProtocol::Ipv6 => self.read_discovery(ethernet.payload())?,
            _ => return None,
        };
        if !EthernetAddress(mac).is_unicast() || mac == self.mac || ip == self.address {
            return None;
        }
        let place = match self.find(ip, 0) {
            // Nobody has asked for it, or it is known.
            Some(place) if is_answer && self.entries[place].questions == 0 => return None,
            None if is_answer => return None,
            Some(place) => place,
            None => self.insert(ip, now),
        };
        let entry = self.entries.get_mut(place)?;
        (entry.mac, entry.confirmed_at, entry.questions) = (Some(mac), now, 0);
        Some(ip)
    }

    /// Returns the question for a neighbor.
    pub(crate) fn question(&self, ip: IpAddr, mut frame: Frame) -> Option<Frame> {
        match (self.address, ip) {
            (IpAddr::V4(own), IpAddr::V4(target)) => {
                let arp = ArpRepr::EthernetIpv4 {
                    operation: ArpOperation::Request,
                    source_hardware_addr: EthernetAddress(self.mac),
                    source_protocol_addr: own,
                    target_hardware_addr: EthernetAddress::BROADCAST,
                    target_protocol_addr: target,
                };
                frame.reset(ETHERNET + arp.buffer_len());
                self.ethernet(EthernetAddress::BROADCAST, EthernetProtocol::Arp, &mut frame);
                arp.emit(&mut ArpPacket::new_unchecked(&mut frame[ETHERNET..]));
            }
            (IpAddr::V6(own), IpAddr::V6(target)) => {
                let icmp = Icmpv6Repr::Ndisc(NdiscRepr::NeighborSolicit {
                    target_addr: target,
                    lladdr: Some(RawHardwareAddress::from_bytes(&self.mac)),
                });
                let group = solicited_node(target);
                let [.., a, b, c, d] = group.octets();
                let ip = Ipv6Repr {
                    src_addr: own,
                    dst_addr: group,
                    next_header: IpProtocol::Icmpv6,
                    payload_len: icmp.buffer_len(),
                    hop_limit: HOP_LIMIT,
                };
                frame.reset(ETHERNET + ip.buffer_len() + icmp.buffer_len());
                let to = EthernetAddress([0x33, 0x33, a, b, c, d]);
                self.ethernet(to, EthernetProtocol::Ipv6, &mut frame);
                ip.emit(&mut Ipv6Packet::new_unchecked(&mut frame[ETHERNET..]));
                let mut packet = Icmpv6Packet::new_unchecked(&mut frame[ETHERNET + ip.buffer_len()..]);
                icmp.emit(&own, &group, &mut packet, &ChecksumCapabilities::default());
            }
            _ => return None,
        }
        Some(frame)
    }

    fn ethernet(&self, to: EthernetAddress, ethertype: EthernetProtocol, frame: &mut Frame) {
        let header = EthernetRepr { src_addr: EthernetAddress(self.mac), dst_addr: to, ethertype };
        header.emit(&mut EthernetFrame::new_unchecked(&mut frame[..]));
    }

    /// Returns whose address an ARP packet tells, and whether it answers a question.
    fn read_arp(&self, packet: &[u8]) -> Option<(IpAddr, [u8; 6], bool)> {
        let arp = ArpRepr::parse(&ArpPacket::new_checked(packet).ok()?).ok()?;
        let ArpRepr::EthernetIpv4 {
            operation,
            source_hardware_addr,
            source_protocol_addr,
            target_protocol_addr,
            ..
        } = arp
        else {
            return None;
        };
        let is_for_us = IpAddr::from(target_protocol_addr) == self.address;
        is_for_us
            .then(|| (source_protocol_addr.into(), source_hardware_addr.0, operation == ArpOperation::Reply))
    }

    /// Returns whose address a packet of neighbor discovery tells, and whether it answers a question.
    fn read_discovery(&self, packet: &[u8]) -> Option<(IpAddr, [u8; 6], bool)> {
        let ip = Ipv6Packet::new_checked(packet).ok()?;
        if ip.next_header() != IpProtocol::Icmpv6 || ip.hop_limit() != HOP_LIMIT {
            return None;
        }
        let icmp = Icmpv6Packet::new_checked(ip.payload()).ok()?;
        let repr = Icmpv6Repr::parse(&ip.src_addr(), &ip.dst_addr(), &icmp, &ChecksumCapabilities::default());
        let (neighbor, address, is_answer) = match repr.ok()? {
            Icmpv6Repr::Ndisc(NdiscRepr::NeighborSolicit { target_addr, lladdr }) => {
                let is_for_us = IpAddr::from(target_addr) == self.address && !ip.src_addr().is_unspecified();
                (ip.src_addr(), lladdr.filter(|_| is_for_us)?, false)
            }
            Icmpv6Repr::Ndisc(NdiscRepr::NeighborAdvert { flags, target_addr, lladdr }) => {
                let is_known = self.find(target_addr.into(), 0).is_some_and(|place| self.is_known(place));
                let may_change = !is_known || flags.contains(NdiscNeighborFlags::OVERRIDE);
                (target_addr, lladdr.filter(|_| may_change)?, true)
            }
            _ => return None,
        };
        let mac = address.as_bytes().first_chunk()?;
        Some((neighbor.into(), *mac, is_answer))
    }

    fn is_known(&self, place: usize) -> bool {
        self.entries.get(place).is_some_and(|entry| entry.mac.is_some())
    }

    fn find(&self, ip: IpAddr, place: usize) -> Option<usize> {
        if self.entries.get(place).is_some_and(|entry| entry.ip == ip) {
            return Some(place);
        }
        self.entries.iter().position(|entry| entry.ip == ip)
    }

    /// Makes an entry. If there are too many, that which was not used for longest gives way.
    fn insert(&mut self, ip: IpAddr, now: Micros) -> usize {
        let entry = Entry {
            ip,
            mac: None,
            confirmed_at: now,
            questions: 0,
            asked_at: now,
            used_at: now,
            waiting: Vec::new(),
        };
        if self.entries.len() < MOST {
            self.entries.push(entry);
            return self.entries.len() - 1;
        }
        let oldest = self.entries.iter().enumerate().min_by_key(|(_, entry)| entry.used_at);
        let place = oldest.map_or(0, |(place, _)| place);
        self.entries[place] = entry;
        place
    }
}

/// Returns the group of the stations that may have an address (RFC 4291 section 2.7.1).
fn solicited_node(address: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = address.octets();
    let [high, low] = [u16::from_be_bytes([0xFF, a]), u16::from_be_bytes([b, c])];
    Ipv6Addr::new(0xFF02, 0, 0, 0, 0, 1, high, low)
}

const ETHERNET: usize = 14;
/// RFC 4861 section 7.1: a packet with another one has passed a router.
const HOP_LIMIT: u8 = 255;
/// RFC 4861 section 10: REACHABLE_TIME, RETRANS_TIMER, MAX_UNICAST_SOLICIT.
const REACHABLE: Micros = Micros::from_secs(30);
const PAUSE: Micros = Micros::from_secs(1);
const QUESTIONS: u8 = 3;
/// Frames that wait for one neighbor.
const WAITING: usize = 2;
/// Neighbors that are known or asked for.
const MOST: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    const OWN_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

    fn both(is_v6: bool) -> ([IpAddr; 2], Neighbors, Neighbors) {
        let text = if is_v6 { ["fd00::1", "fd00::2"] } else { ["10.0.0.1", "10.0.0.2"] };
        let [own, other] = text.map(|ip| ip.parse().unwrap());
        ([own, other], Neighbors::new(OWN_MAC, own), Neighbors::new(MAC, other))
    }

    /// The answer of 10.0.0.2 to a question of 10.0.0.1.
    fn answer() -> Frame {
        let ([own, _], _, other) = both(false);
        let mut frame = other.question(own, Frame::default()).unwrap();
        frame[21] = 2;
        frame
    }

    const fn way(mac: Option<[u8; 6]>, asks: bool) -> Way {
        Way { mac, asks }
    }

    #[test]
    fn a_neighbor_that_asks_is_known() {
        for is_v6 in [false, true] {
            let ([own, other], mut table, peer) = both(is_v6);
            let question = peer.question(own, Frame::default()).unwrap();
            assert_eq!(table.learn(&question, Micros(5)), Some(other));
            assert_eq!(table.way(other, &mut 0, Micros(5)), way(Some(MAC), false));
            let question =
                peer.question(if is_v6 { "fd00::9" } else { "10.0.0.9" }.parse().unwrap(), question);
            let mut elsewhere = both(is_v6).1;
            assert_eq!(elsewhere.learn(&question.unwrap(), Micros(5)), None, "it asks for another one");
        }
    }

    #[test]
    fn only_an_answer_to_an_own_question_counts() {
        let ([_, other], mut table, _) = both(false);
        assert_eq!(table.learn(&answer(), Micros(1)), None);
        assert_eq!(table.way(other, &mut 0, Micros(2)), way(None, true));
        assert_eq!(table.way(other, &mut 0, Micros(3)), way(None, false), "once a second");
        assert_eq!(table.way(other, &mut 0, Micros::from_secs(2)), way(None, true));
        for number in 1..=3 {
            let mut frame = Frame::default();
            frame.copy_from(&[number; 60]);
            table.wait(other, 0, frame);
        }
        let mut group = answer();
        group[22] = 1;
        assert_eq!(table.learn(&group, Micros(4)), None, "no station has the address of a group");
        assert_eq!(table.learn(&answer(), Micros::from_secs(2)), Some(other));
        let frames = table.take_waiting(other);
        assert_eq!(
            frames.iter().map(|frame| (&frame[..6], frame[6])).collect::<Vec<_>>(),
            [(&MAC[..], 2), (&MAC, 3)]
        );
        let mut other_mac = answer();
        other_mac[22..28].copy_from_slice(&[2, 9, 9, 9, 9, 9]);
        assert_eq!(table.learn(&other_mac, Micros::from_secs(3)), None, "it was not asked again");
    }

    #[test]
    fn a_silent_neighbor_is_asked_for_three_times_and_forgotten() {
        let ([own, other], mut table, peer) = both(false);
        let question = peer.question(own, Frame::default()).unwrap();
        table.learn(&question, Micros(0));
        let mut place = 7;
        let mut at =
            |table: &mut Neighbors, seconds| table.way(other, &mut place, Micros::from_secs(seconds));
        assert_eq!(at(&mut table, 29), way(Some(MAC), false));
        table.confirm(other, 0, Micros::from_secs(29));
        assert_eq!(at(&mut table, 58), way(Some(MAC), false), "TCP has heard of it");
        let asked = [59, 60, 61].map(|seconds| at(&mut table, seconds));
        assert_eq!(asked, [way(Some(MAC), true); 3]);
        assert_eq!(at(&mut table, 62), way(None, true));
    }

    #[test]
    fn the_neighbor_that_was_not_used_for_longest_gives_way() {
        let (_, mut table, _) = both(false);
        let ip = |number: u16| IpAddr::from([10, 0, number.to_be_bytes()[0], number.to_be_bytes()[1]]);
        for number in 0..300 {
            table.way(ip(number + 10), &mut 0, Micros(number.into()));
            table.way(ip(10), &mut 0, Micros(number.into()));
        }
        assert_eq!(table.entries.len(), MOST);
        assert!(table.find(ip(10), 0).is_some() && table.find(ip(11), 0).is_none());
    }
}
