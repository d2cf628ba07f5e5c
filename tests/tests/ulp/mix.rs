//! Any mix of messages arrives whole and in order, in both directions and over any TCP.

use std::collections::VecDeque;

use proptest::prelude::*;
use weft_mpa::Config;
use weft_rnic::ulp::{DdpEvent, DdpStream, RdmapEvent, RdmapStream, Source};
use weft_rnic::{Access, Stag, Status};
use weft_verbs::MemoryRegion;

use crate::line::{Both, End, LineConfig, Stream, contents};

/// One message: its target, its length, and whether its octets are in registered memory.
#[derive(Clone, Copy, Debug)]
struct Message {
    target: Target,
    len: usize,
    registered: bool,
}

#[derive(Clone, Copy, Debug)]
enum Target {
    /// The queue; RDMAP has one for its users.
    Untagged(u32),
    /// The offset in the peer's memory.
    Tagged(u64),
    /// The offset in the peer's memory; DDP has no Reads, and writes instead.
    Read(u64),
}

/// The line and the wishes of both ends.
#[derive(Clone, Copy, Debug)]
struct Setting {
    line: LineConfig,
    wishes: [Config; 2],
}

fn settings() -> impl Strategy<Value = Setting> {
    let wish = (any::<bool>(), any::<bool>()).prop_map(|(crc, markers)| Config {
        crc,
        markers,
        ird: 3,
        ord: 3,
        ..Config::default()
    });
    let line =
        (576..3000_usize, 1024..20_000_usize).prop_map(|(mtu, tcp_buffer)| LineConfig { mtu, tcp_buffer });
    (line, [wish.clone(), wish]).prop_map(|(line, wishes)| Setting { line, wishes })
}

fn messages() -> impl Strategy<Value = Vec<Message>> {
    let target = prop_oneof![
        (0..4_u32).prop_map(Target::Untagged),
        (0..8000_u64).prop_map(Target::Tagged),
        (0..8000_u64).prop_map(Target::Read),
    ];
    let len = prop_oneof![Just(0), 1..64_usize, 500..4000_usize];
    let message = (target, len, any::<bool>()).prop_map(|(target, len, registered)| Message {
        target,
        len,
        registered,
    });
    prop::collection::vec(message, 0..12)
}

/// Returns the octets of the message with this number from this end.
fn octets(end: usize, id: u64, len: usize) -> Vec<u8> {
    let seed = end as u64 * 97 + id * 31 + 1;
    (0..len as u64).map(|i| ((seed + i).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32).to_le_bytes()[0]).collect()
}

/// The memory of one end: for the peer's Writes, for its own messages, and for its Reads.
struct Memory {
    target: std::sync::Arc<MemoryRegion>,
    source: std::sync::Arc<MemoryRegion>,
    sink: std::sync::Arc<MemoryRegion>,
}

impl Memory {
    fn new<S: Stream>(end: &mut End<S>) -> Self {
        Self {
            target: end.register(SIZE, 0, Access::ALL),
            source: end.register(SOURCES, 0, Access::LOCAL_READ),
            sink: end.register(SOURCES, 0, Access::LOCAL_WRITE),
        }
    }

    /// Returns the octets of a message, in the wanted place. Each message has its own place.
    fn source(&self, end: usize, id: u64, message: Message) -> Source {
        let octets = octets(end, id, message.len);
        if !message.registered {
            return octets.into();
        }
        let place = usize::try_from(id).expect("few messages") * LONGEST;
        assert!(self.source.region.copy_in(place, &octets));
        let len = u32::try_from(octets.len()).expect("a short message");
        Source::Memory { stag: self.source.stag, to: place as u64, len }
    }
}

const LONGEST: usize = 4000;
const SIZE: usize = 12_000;
const SOURCES: usize = 12 * LONGEST;

/// Returns the memory of an end after its peer's tagged messages have been written one after the other.
fn written(peer: usize, messages: &[Message], reads_write: bool) -> Vec<u8> {
    let mut memory = vec![0; SIZE];
    for (id, message) in (0..).zip(messages) {
        let to = match message.target {
            Target::Tagged(to) => to,
            Target::Read(to) if reads_write => to,
            _ => continue,
        };
        let start = usize::try_from(to).expect("an offset in memory");
        memory[start..start + message.len].copy_from_slice(&octets(peer, id, message.len));
    }
    memory
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    // Covers 5041-5.2-3, 5041-5.2-4, 5041-5.3-1, 5041-3-4.
    #[test]
    fn on_ddp(setting in settings(), plans in [messages(), messages()]) {
        let wishes = setting.wishes.map(|wish| Config { enhanced: false, ..wish });
        let mut both = Both::<DdpStream>::new(setting.line, wishes);
        // A responder may send after an FPDU has come.
        both.ends[0].stream.send_tagged(u64::MAX, (Stag(1), 0), 0, b"").unwrap();
        let memories = both.ends.each_mut().map(Memory::new);
        for (end, messages) in plans.iter().enumerate() {
            let peer = memories[1 - end].target.stag;
            for (id, message) in (0..).zip(messages) {
                let source = memories[end].source(end, id, *message);
                match message.target {
                    Target::Untagged(queue) => {
                        both.ends[1 - end].stream.post_buffer(queue, id, vec![0; LONGEST]).unwrap();
                        both.ends[end].stream.send_untagged(id, queue, [3; 5], source).unwrap();
                    }
                    Target::Tagged(to) | Target::Read(to) => {
                        both.ends[end].stream.send_tagged(id, (peer, to), 4, source).unwrap();
                    }
                }
            }
        }
        both.settle();
        for (end, messages) in plans.iter().enumerate() {
            let sender = both.ends[end].take();
            let (sent, heard): (Vec<DdpEvent>, Vec<DdpEvent>) =
                sender.into_iter().partition(|event| matches!(event, DdpEvent::Sent { .. }));
            let first = (end == 0).then_some(DdpEvent::Sent { id: u64::MAX });
            let ids = (0..).zip(messages).map(|(id, _)| DdpEvent::Sent { id });
            prop_assert_eq!(sent, first.into_iter().chain(ids).collect::<Vec<_>>());
            prop_assert_eq!(heard, expected_of_ddp(1 - end, &plans[1 - end], memories[end].target.stag));
            let memory = contents(&memories[end].target);
            prop_assert!(memory == written(1 - end, &plans[1 - end], true));
        }
    }

    // Covers 5040-5.5-10, 5041-5.3-1.
    #[test]
    fn on_rdmap(setting in settings(), plans in [messages(), messages()]) {
        let wishes = setting.wishes.map(|wish| Config { peer_to_peer: true, ..wish });
        let mut both = Both::<RdmapStream>::new(setting.line, wishes);
        let memories = both.ends.each_mut().map(Memory::new);
        for (end, messages) in plans.iter().enumerate() {
            let peer = memories[1 - end].target.stag;
            for (id, message) in (0..).zip(messages) {
                let source = memories[end].source(end, id, *message);
                let sender = &mut both.ends[end].stream;
                match message.target {
                    Target::Untagged(_) => {
                        sender.send(id, source, false, None).unwrap();
                        both.ends[1 - end].stream.post_buffer(id, vec![0; LONGEST]).unwrap();
                    }
                    Target::Tagged(to) => sender.write(id, (peer, to), source).unwrap(),
                    Target::Read(to) => {
                        let sink = (memories[end].sink.stag, id * LONGEST as u64);
                        let len = u32::try_from(message.len).unwrap();
                        sender.read(id, sink, (peer, to), len).unwrap();
                    }
                }
            }
        }
        both.settle();
        for (end, messages) in plans.iter().enumerate() {
            let (mut done, mut heard) = (Vec::new(), VecDeque::new());
            for event in both.ends[end].take() {
                match event {
                    RdmapEvent::Completed { id, status: Status::Success, original: None } => done.push(id),
                    RdmapEvent::Received { id, buffer, .. } => heard.push_back((id, buffer)),
                    other => prop_assert!(false, "{:?}", other),
                }
            }
            prop_assert_eq!(done, (0..messages.len() as u64).collect::<Vec<_>>());
            for (id, message) in (0..).zip(&plans[1 - end]) {
                if matches!(message.target, Target::Untagged(_)) {
                    prop_assert_eq!(heard.pop_front(), Some((id, octets(1 - end, id, message.len))));
                }
            }
            prop_assert_eq!(heard.pop_front(), None);
            prop_assert!(contents(&memories[end].target) == written(1 - end, &plans[1 - end], false));
            let fetched = read_back(messages, &plans[end], end);
            let sink = contents(&memories[end].sink);
            for (id, octets) in fetched {
                prop_assert!(sink[id * LONGEST..id * LONGEST + octets.len()] == octets, "Read {}", id);
            }
        }
    }
}

/// Returns the events of an end for the messages of its peer.
fn expected_of_ddp(peer: usize, messages: &[Message], stag: Stag) -> Vec<DdpEvent> {
    let first = (peer == 0).then_some(DdpEvent::Tagged { stag: Stag(1), to: 0..0, rsvd: 0 });
    let mut next = [0_u32; 4];
    let rest = (0..).zip(messages).map(|(id, message)| match message.target {
        Target::Untagged(queue) => {
            let msn = &mut next[queue as usize];
            *msn += 1;
            let buffer = octets(peer, id, message.len);
            DdpEvent::Untagged { id, queue, msn: *msn, rsvd: [3; 5], buffer }
        }
        Target::Tagged(to) | Target::Read(to) => {
            DdpEvent::Tagged { stag, to: to..to + message.len as u64, rsvd: 4 }
        }
    });
    first.into_iter().chain(rest).collect()
}

/// Returns the octets that the Reads of an end fetch. A Read sees earlier Writes of the same stream (RFC 5040 section
/// 5.5).
fn read_back(messages: &[Message], plan: &[Message], end: usize) -> Vec<(usize, Vec<u8>)> {
    let at = |count: usize| written(end, &plan[..count], false);
    let reads = messages.iter().enumerate().filter_map(|(id, message)| match message.target {
        // If a place is written after the Read was posted, the Read may fetch the old or the new octets, and is not
        // compared.
        Target::Read(to) => {
            let start = usize::try_from(to).expect("an offset in memory");
            let range = start..start + message.len;
            let (before, after) = (at(id), at(plan.len()));
            (before[range.clone()] == after[range.clone()]).then(|| (id, before[range].to_vec()))
        }
        _ => None,
    });
    reads.collect()
}
