//! Tests of gather and placement: which octets move, and which accesses are refused.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use weft_ddp::{Error as Ddp, Stag};
use weft_rdmap::{Error, Kind, Message, Opcode, ReadRequest, Readiness, Token};

use super::*;
use crate::completion::CompletionOpcode;
use crate::cq::CompletionQueue;
use crate::ids::PdId;
use crate::lending::Left;
use crate::memory::{MemoryRegion, Registration};
use crate::qp::QpInit;
use crate::queues::{QpCapacity, QpQueues};
use crate::refusal::LocalFault;
use crate::region::Region;
use crate::state::QpEvent;
use crate::work::{Data, RecvWr, SendOpcode, SendWr, Sge};

pub(super) const PD: PdId = PdId(1);
pub(super) const GUARD: u8 = 0xEE;
pub(super) const IDLE: Readiness =
    Readiness { idle: true, requests_outstanding: 0, requests_free: 4, requests_to_answer: 0 };

/// A queue pair in RTS, and the memory of its device.
pub(super) struct World {
    pub(super) memory: MemoryTable,
    pub(super) qp: QueuePair,
    pub(super) cq: Arc<CompletionQueue>,
}

impl World {
    fn new() -> Self {
        Self::with_signals(true)
    }

    /// Makes one whose requests all make completions, or only those that ask for one.
    pub(super) fn with_signals(signal_all: bool) -> Self {
        let capacity = QpCapacity { send_wr: 8, recv_wr: 8, send_sge: 8, recv_sge: 8, inline: 64 };
        let cq = Arc::new(CompletionQueue::new(16));
        let mut qp = QueuePair::new(QpInit {
            queues: Arc::new(QpQueues::new(2, &capacity)),
            pd: PD,
            send_cq: Arc::clone(&cq),
            recv_cq: Arc::clone(&cq),
            signal_all,
            srq: None,
            rnr_wait: false,
            cq_table: Arc::default(),
        });
        qp.handle_event(QpEvent::Established);
        Self { memory: MemoryTable::new(1), qp, cq }
    }

    pub(super) fn register(&mut self, pd: PdId, access: Access, octets: &[u8]) -> Arc<MemoryRegion> {
        let region = Region::owned(octets.len()).unwrap();
        assert!(region.copy_in(0, octets));
        self.memory.register(Registration { pd, stream: None, access, iova: 1000, region }).unwrap()
    }

    /// Returns memory for the queue pair's own stream.
    fn bound(&mut self, access: Access) -> Arc<MemoryRegion> {
        let (region, stream) = (Region::owned(8).unwrap(), Some(self.qp.queues().stream));
        assert!(region.copy_in(0, &[GUARD; 8]));
        self.memory.register(Registration { pd: PD, stream, access, iova: 1000, region }).unwrap()
    }

    pub(super) fn guarded(&mut self, len: usize) -> Arc<MemoryRegion> {
        self.register(PD, Access::ALL, &vec![GUARD; len])
    }

    fn apply(&mut self, inbound: Inbound<'_>) -> Result<(), Refusal> {
        self.qp.apply(inbound, &self.memory)
    }

    fn receive(&mut self, offset: u32, payload: &[u8], last: Option<SendEnd>) -> Result<(), Refusal> {
        self.apply(Inbound::Send { offset, payload, last })
    }

    fn post_recv(&self, wr_id: u64, sges: &[Sge]) {
        self.qp.queues().post_recv(&RecvWr { wr_id, sges }).unwrap();
    }

    /// Posts a request, and starts it.
    fn start(&mut self, opcode: SendOpcode, data: Data<'_>) -> Message {
        let wr = SendWr { wr_id: 5, opcode, data, signaled: true, fence: false, solicited: false };
        self.qp.queues().post_send(&wr).unwrap();
        self.qp.next_message(IDLE, &self.memory).unwrap().unwrap()
    }

    fn outcomes(&self) -> Vec<(u64, Status)> {
        let mut out = [self.qp.recv_completion(0, Status::General); 16];
        let count = self.cq.poll(&mut out);
        out[..count].iter().map(|completion| (completion.wr_id, completion.status)).collect()
    }
}

fn sge(memory: &MemoryRegion, offset: u64, length: u32) -> Sge {
    Sge { addr: memory.iova + offset, length, lkey: memory.stag }
}

fn contents(memory: &MemoryRegion) -> Vec<u8> {
    let mut octets = vec![0; memory.region.len()];
    assert!(memory.region.copy_out(0, &mut octets));
    octets
}

const fn end(len: u32) -> Option<SendEnd> {
    Some(SendEnd { len, opcode: Opcode::Send, invalidate: None })
}

/// Returns elements of these lengths in one region, three octets between them, and the offsets of all their octets.
fn laid_out(lengths: &[u32]) -> (Vec<(u64, u32)>, Vec<usize>) {
    let mut next = 3_u64;
    let mut places = Vec::new();
    let mut offsets = Vec::new();
    for &length in lengths {
        places.push((next, length));
        let start = usize::try_from(next).unwrap();
        offsets.extend(start..start + length as usize);
        next += u64::from(length) + 3;
    }
    (places, offsets)
}

proptest! {
    /// Each octet comes to its place, for any cut of a message into segments and of its buffer into elements.
    #[test]
    fn scatter(lengths in vec(0_u32..40, 1..8), cuts in vec(any::<prop::sample::Index>(), 0..6), spare in 0_u32..30) {
        let mut world = World::new();
        let (places, offsets) = laid_out(&lengths);
        let memory = world.guarded(400);
        let sges: Vec<Sge> = places.iter().map(|&(offset, length)| sge(&memory, offset, length)).collect();
        world.post_recv(7, &sges);
        let len = offsets.len() - (spare as usize).min(offsets.len());
        let message: Vec<u8> = (0..len).map(|i| u8::try_from(i % 200).unwrap()).collect();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(len + 1)).collect();
        cuts.push(0);
        cuts.sort_unstable();
        for (i, &start) in cuts.iter().enumerate() {
            let stop = cuts.get(i + 1).copied().unwrap_or(len);
            let last = if i + 1 == cuts.len() { end(u32::try_from(len).unwrap()) } else { None };
            world.receive(u32::try_from(start).unwrap(), &message[start..stop], last).unwrap();
        }
        let mut expected = vec![GUARD; 400];
        for (&offset, &octet) in offsets.iter().zip(&message) {
            expected[offset] = octet;
        }
        prop_assert_eq!(contents(&memory), expected);
        prop_assert_eq!(world.outcomes(), [(7, Status::Success)]);
    }

    #[test]
    fn gather(lengths in vec(0_u32..40, 1..8), from: prop::sample::Index, to: prop::sample::Index) {
        let mut world = World::new();
        let (places, offsets) = laid_out(&lengths);
        let octets: Vec<u8> = (0..400_usize).map(|i| u8::try_from(i % 251).unwrap()).collect();
        let memory = world.register(PD, Access::LOCAL_READ, &octets);
        let sges: Vec<Sge> = places.iter().map(|&(offset, length)| sge(&memory, offset, length)).collect();
        let message = world.start(SendOpcode::Send, Data::Sges(&sges));
        prop_assert_eq!(message.len as usize, offsets.len());
        let (from, to) = (from.index(offsets.len() + 1), to.index(offsets.len() + 1));
        let range = from.min(to)..from.max(to);
        let mut out = vec![0; range.len()];
        let offset = u32::try_from(range.start).unwrap();
        world.qp.fill(&Body::Message { token: message.token, offset }, &world.memory, &mut Payload::new(&mut out)).unwrap();
        let expected: Vec<u8> = offsets[range].iter().map(|&offset| octets[offset]).collect();
        prop_assert_eq!(out, expected);
    }
}

#[test]
fn inline_octets_are_cut_like_others() {
    let mut world = World::new();
    let message = world.start(SendOpcode::Send, Data::Inline(b"0123456789"));
    let mut out = [0; 4];
    let body = Body::Message { token: message.token, offset: 3 };
    world.qp.fill(&body, &world.memory, &mut Payload::new(&mut out)).unwrap();
    assert_eq!(&out, b"3456");
}

#[test]
fn octets_outside_of_the_elements_are_never_sent() {
    let mut world = World::new();
    let memory = world.guarded(8);
    let message = world.start(SendOpcode::Send, Data::Sges(&[sge(&memory, 0, 8)]));
    let body = Body::Message { token: message.token, offset: 5 };
    let filled = world.qp.fill(&body, &world.memory, &mut Payload::new(&mut [0; 4]));
    assert_eq!(filled, Err(Refusal::Local(Status::LocalProtection)));
    assert_eq!(world.outcomes(), [(5, Status::LocalProtection)]);
}

/// The second element of a message is gone. Nothing of its FPDU stays in the plan, where it would be sent without a
/// header. The FPDU before it stays.
#[test]
fn an_fpdu_that_cannot_be_lent_leaves_the_plan_as_it_was() {
    const HALF: u32 = 4096;
    let mut world = World::new();
    let [kept, gone] = [b'k', b'g'].map(|octet| world.register(PD, Access::ALL, &[octet; HALF as usize]));
    let elements = [sge(&kept, 0, HALF), sge(&kept, 0, HALF), sge(&gone, 0, HALF)];
    let message = world.start(SendOpcode::Send, Data::Sges(&elements));
    let body = |offset| Body::Message { token: message.token, offset };
    world.memory.deregister(gone.stag).unwrap();
    let mut lending = Lending::new();
    lending.begin(0);
    assert_eq!(world.qp.lend(&body(0), HALF as usize, &world.memory, &mut lending), Ok(true));
    lending.place_head(3);
    lending.begin(3);
    let lent = world.qp.lend(&body(HALF), 2 * HALF as usize, &world.memory, &mut lending);
    assert_eq!(lent, Err(Refusal::Local(Status::LocalProtection)));
    lending.place_head(3);
    assert_eq!(lending.len(), HALF as usize);
    let mut planned = Vec::new();
    lending.each_behind(0, b"one", |left| match left {
        Left::Built(octets) => planned.extend_from_slice(octets),
        Left::Memory(span, len) => {
            let mut octets = vec![0; len];
            span.copy_out(&mut octets).unwrap();
            planned.extend_from_slice(&octets);
        }
    });
    assert_eq!(planned, [&b"one"[..], &[b'k'; HALF as usize]].concat());
}

#[test]
fn without_a_receive_there_is_no_buffer() {
    let mut world = World::new();
    assert_eq!(world.receive(0, b"", end(0)), Err(Refusal::Peer(Error::Ddp(Ddp::NoBuffer))));
    assert_eq!(world.outcomes(), []);
}

#[test]
fn a_message_that_is_too_long_ends_where_it_is_too_long() {
    let mut world = World::new();
    let memory = world.guarded(8);
    world.post_recv(1, &[sge(&memory, 0, 3), sge(&memory, 4, 2)]);
    world.receive(0, b"1234", None).unwrap();
    assert_eq!(world.receive(4, b"56", None), Err(Refusal::Peer(Error::Ddp(Ddp::TooLong))));
    assert_eq!(world.outcomes(), [(1, Status::LocalLength)]);
    assert_eq!(contents(&memory), b"123\xEE4\xEE\xEE\xEE");
}

#[test]
fn receives_are_used_in_the_order_of_posting() {
    let mut world = World::new();
    let memory = world.guarded(8);
    for wr_id in 0..4 {
        world.post_recv(wr_id, &[sge(&memory, 2 * wr_id, 2)]);
    }
    for octets in [b"ab", b"cd", b"ef"] {
        world.receive(0, &octets[..1], None).unwrap();
        world.receive(1, &octets[1..], end(2)).unwrap();
    }
    assert_eq!(contents(&memory), b"abcdef\xEE\xEE");
    assert_eq!(world.outcomes(), [0, 1, 2].map(|wr_id| (wr_id, Status::Success)));
    world.receive(0, b"g", None).unwrap();
    world.qp.handle_event(QpEvent::Failed);
    assert_eq!(world.outcomes(), [(3, Status::WorkRequestFlushed)], "also the one in progress");
}

/// Returns memory that an operation may not touch, and the errors for a tagged segment and for a Read Request.
fn violations(world: &mut World, right: Access) -> Vec<(Stag, u64, Error, Error)> {
    let good = world.guarded(16);
    let foreign = world.register(PdId(2), Access::ALL, &[0; 16]);
    let others = if right == Access::REMOTE_READ { Access::REMOTE_WRITE } else { Access::REMOTE_READ };
    let without = world.register(PD, Access::LOCAL_WRITE | others, &[0; 16]);
    let gone = world.guarded(16).stag;
    world.memory.deregister(gone);
    vec![
        (gone, 1000, Error::Ddp(Ddp::InvalidStag), Error::InvalidStag),
        (Stag(0), 1000, Error::Ddp(Ddp::InvalidStag), Error::InvalidStag),
        (good.stag, 1013, Error::Ddp(Ddp::BaseOrBounds), Error::BaseOrBounds),
        (good.stag, 999, Error::Ddp(Ddp::BaseOrBounds), Error::BaseOrBounds),
        (good.stag, u64::MAX - 2, Error::Ddp(Ddp::ToWrap), Error::ToWrap),
        (foreign.stag, 1000, Error::Ddp(Ddp::WrongStream), Error::WrongStream),
        (without.stag, 1000, Error::AccessRights, Error::AccessRights),
    ]
}

#[test]
fn writes_to_the_wrong_place() {
    let mut world = World::new();
    for (stag, to, error, _) in violations(&mut world, Access::REMOTE_WRITE) {
        let refused = world.apply(Inbound::Write { stag, to, payload: b"1234", last: false });
        assert_eq!(refused, Err(Refusal::Peer(error)));
        // Without an octet nothing is checked (RFC 5041 section 5.2).
        assert_eq!(world.apply(Inbound::Write { stag, to, payload: b"", last: true }), Ok(()));
    }
    assert_eq!(world.outcomes(), []);
}

#[test]
fn read_requests_for_the_wrong_place() {
    let mut world = World::new();
    for (source_stag, source_to, _, error) in violations(&mut world, Access::REMOTE_READ) {
        let request = ReadRequest { sink_stag: Stag(9), sink_to: 0, size: 4, source_stag, source_to };
        assert_eq!(world.apply(Inbound::ReadRequest(request)), Err(Refusal::Peer(error)));
        assert_eq!(world.apply(Inbound::ReadRequest(ReadRequest { size: 0, ..request })), Ok(()));
        // Also when the memory has changed between the request and the answer.
        let body = Body::ReadResponse { stag: source_stag, to: source_to };
        assert_eq!(
            world.qp.fill(&body, &world.memory, &mut Payload::new(&mut [0; 4])),
            Err(Refusal::Peer(error))
        );
        assert_eq!(world.qp.fill(&body, &world.memory, &mut Payload::new(&mut [])), Ok(()));
    }
}

#[test]
fn a_write_lies_where_it_should_and_nowhere_else() {
    let mut world = World::new();
    let memory = world.guarded(8);
    let write = Inbound::Write { stag: memory.stag, to: 1002, payload: b"abc", last: true };
    world.apply(write).unwrap();
    assert_eq!(contents(&memory), b"\xEE\xEEabc\xEE\xEE\xEE");
    let mut out = [0; 5];
    world
        .qp
        .fill(&Body::ReadResponse { stag: memory.stag, to: 1001 }, &world.memory, &mut Payload::new(&mut out))
        .unwrap();
    assert_eq!(&out, b"\xEEabc\xEE");
}

#[test]
fn a_sink_that_is_gone_is_the_readers_own_fault() {
    let mut world = World::new();
    let memory = world.guarded(8);
    let read = SendOpcode::Read { stag: Stag(77), to: 1 << 40 };
    let message = world.start(read, Data::Sges(&[sge(&memory, 1, 6)]));
    let kind =
        Kind::Read { sink_stag: memory.stag, sink_to: 1001, source_stag: Stag(77), source_to: 1 << 40 };
    assert_eq!((message.len, message.kind), (6, kind));
    let response = |payload, to, finished| Inbound::ReadResponse {
        token: message.token,
        stag: memory.stag,
        to,
        payload,
        finished,
    };
    world.apply(response(b"abc", 1001, false)).unwrap();
    world.memory.deregister(memory.stag);
    let refused = world.apply(response(b"def", 1004, true));
    assert_eq!(refused, Err(Refusal::Peer(Error::Ddp(Ddp::InvalidStag))));
    assert_eq!(world.outcomes(), [(5, Status::LocalProtection)]);
    assert_eq!(contents(&memory), b"\xEEabc\xEE\xEE\xEE\xEE");
}

#[test]
fn a_read_needs_a_sink_that_may_be_written() {
    let mut world = World::new();
    let memory = world.register(PD, Access::LOCAL_READ, &[0; 8]);
    let read = SendOpcode::Read { stag: Stag(77), to: 0 };
    let (data, signaled) = ([sge(&memory, 0, 8)], false);
    let wr =
        SendWr { wr_id: 5, opcode: read, data: Data::Sges(&data), signaled, fence: false, solicited: false };
    world.qp.queues().post_send(&wr).unwrap();
    let fault = world.qp.next_message(IDLE, &world.memory);
    assert_eq!(fault, Err(LocalFault(Status::LocalProtection)));
    assert_eq!(world.outcomes(), [(5, Status::LocalProtection)]);
    // The same memory is good enough to send from.
    let message = world.start(SendOpcode::Send, Data::Sges(&data));
    assert_eq!(
        message,
        Message { token: Token(1), len: 8, kind: Kind::Send { solicited: false, invalidate: None } }
    );
}

#[test]
fn invalidation_comes_last() {
    let mut world = World::new();
    let memory = world.bound(Access::ALL);
    world.post_recv(1, &[sge(&memory, 0, 8)]);
    let opcode = Opcode::SendSolicitedInvalidate;
    let invalidate = |stag| Some(SendEnd { len: 4, opcode, invalidate: Some(stag) });
    world.receive(0, b"ab", None).unwrap();
    assert!(!memory.is_invalidated());
    world.receive(2, b"cd", invalidate(memory.stag)).unwrap();
    assert!(memory.is_invalidated());
    assert_eq!(contents(&memory), b"abcd\xEE\xEE\xEE\xEE");
    let mut out = [world.qp.recv_completion(0, Status::General); 2];
    assert_eq!(world.cq.poll(&mut out), 1);
    let expected = Completion {
        byte_len: 4,
        invalidated: Some(memory.stag.0),
        solicited: true,
        ..world.qp.recv_completion(1, Status::Success)
    };
    assert_eq!((out[0], out[0].opcode), (expected, CompletionOpcode::Recv));
}

#[test]
fn an_stag_that_cannot_be_invalidated_stops_the_whole_segment() {
    let mut world = World::new();
    let memory = world.guarded(8);
    let foreign = world.register(PdId(2), Access::ALL, &[0; 8]);
    let local = world.bound(Access::LOCAL_WRITE);
    for stag in [Stag(0), foreign.stag, local.stag, memory.stag] {
        world.post_recv(1, &[sge(&memory, 0, 8)]);
        let last = Some(SendEnd { len: 4, opcode: Opcode::SendInvalidate, invalidate: Some(stag) });
        let refused = world.receive(0, b"abcd", last);
        assert_eq!(refused, Err(Refusal::Peer(Error::CannotInvalidate)));
    }
    assert_eq!(contents(&memory), [GUARD; 8]);
    assert!(!foreign.is_invalidated() && !local.is_invalidated() && !memory.is_invalidated());
    assert_eq!(world.outcomes(), [], "nothing has been received");
}

#[test]
fn a_receive_into_memory_that_is_not_there_is_not_the_peers_fault() {
    let mut world = World::new();
    let memory = world.guarded(8);
    world.post_recv(1, &[sge(&memory, 0, 4), Sge { addr: 0, length: 4, lkey: Stag(5) }]);
    world.receive(0, b"abcd", None).unwrap();
    assert_eq!(world.receive(4, b"e", end(5)), Err(Refusal::Local(Status::LocalProtection)));
    assert_eq!(world.outcomes(), [(1, Status::LocalProtection)]);
}
