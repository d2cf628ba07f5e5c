//! WAIT, HOLD and entries that a peer has written.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use proptest::prelude::*;

use super::tests::{CAPACITY, IDLE, READ, WR, WRITE, World, established};
use super::*;
use crate::access::Access;
use crate::completion::CompletionOpcode;
use crate::doorbell::Doorbells;
use crate::layout::SendQueueLayout;
use crate::memory::{MemoryRegion, Registration};
use crate::payload::Payload;
use crate::region::Region;
use crate::work::{Data, PostError, SendOpcode, SendWr};

const HOLD: SendOpcode = SendOpcode::Hold;

fn push(cq: &CompletionQueue, count: usize) {
    for _ in 0..count {
        let (status, opcode) = (Status::Success, CompletionOpcode::Recv);
        let out = Completion { status, opcode, ..Completion::EMPTY };
        cq.push(&out, Frees::default());
    }
}

/// Returns a queue pair whose receives complete to a queue with number 5, and that queue.
fn waiting() -> (World, Arc<CompletionQueue>) {
    let world = World::with_recv_cq(CompletionQueue::numbered(5, 64, true));
    let cq = Arc::clone(&world.qp.recv_cq);
    (world, cq)
}

fn wait(count: u32) -> SendOpcode {
    SendOpcode::Wait { cq: 5, count, strict: false }
}

fn ready(cq: &CompletionQueue) -> Vec<u32> {
    let mut all = Vec::new();
    cq.take_ready(|number| all.push(number));
    all
}

#[test]
fn a_wait_uses_up_what_there_was() {
    let (mut world, cq) = waiting();
    push(&cq, 3);
    for (wr_id, count) in [(1, 2), (2, 2), (3, 1)] {
        world.post(wr_id, wait(count), 0).unwrap();
    }
    world.post(4, WRITE, 0).unwrap();
    assert_eq!(world.next(IDLE), None);
    assert_eq!(world.sent(), [(1, Status::Success)], "two of three that came before");
    assert_eq!(ready(&cq), []);
    push(&cq, 1);
    assert_eq!(ready(&cq), [2], "the number of the queue pair");
    assert_eq!(world.next(IDLE), None);
    assert_eq!(world.sent(), [(2, Status::Success)]);
    // A poll takes nothing away from a WAIT.
    cq.poll(&mut [world.qp.recv_completion(0, Status::Success); 8]);
    push(&cq, 1);
    assert_eq!(world.start(), Token(3));
    assert_eq!(world.sent(), [(3, Status::Success)]);
}

#[test]
fn nothing_behind_a_wait_starts_and_the_end_ends_it() {
    let (mut world, cq) = waiting();
    world.post(1, wait(1), 0).unwrap();
    world.post(2, WRITE, 0).unwrap();
    assert_eq!((world.next(IDLE), world.next(IDLE)), (None, None));
    world.qp.handle_event(QpEvent::Terminated);
    assert_eq!(world.sent(), [1, 2].map(|wr_id| (wr_id, Status::WorkRequestFlushed)));
    push(&cq, 1);
    assert_eq!(ready(&cq), [], "no queue pair waits any more");
}

fn strict(count: u32) -> SendOpcode {
    SendOpcode::Wait { cq: 5, count, strict: true }
}

fn fail(cq: &CompletionQueue) {
    let (status, opcode) = (Status::WorkRequestFlushed, CompletionOpcode::Recv);
    cq.push(&Completion { status, opcode, ..Completion::EMPTY }, Frees::default());
}

/// Good completions, then failed ones, then good ones again. A strict WAIT passes with the first ones only, whether it
/// is there before them or after them.
#[test]
fn a_strict_wait_passes_only_with_good_completions() {
    for is_early in [false, true] {
        for needed in 1..=6 {
            let (mut world, cq) = waiting();
            world.post(1, strict(needed), 0).unwrap();
            world.post(2, WRITE, 0).unwrap();
            if is_early {
                assert_eq!(world.next(IDLE), None);
            }
            push(&cq, 3);
            fail(&cq);
            fail(&cq);
            push(&cq, 1);
            let is_good = needed <= 3;
            assert_eq!(cq.good(), 3);
            if is_early {
                assert_eq!(ready(&cq), [2], "it hears of the failure, whatever it needs");
            }
            let next = world.qp.next_message(IDLE, &world.memory);
            if is_good {
                assert_eq!(next.unwrap().map(|message| message.token), Some(Token(1)));
                assert_eq!(world.sent(), [(1, Status::Success)]);
            } else {
                assert_eq!(next, Err(LocalFault(Status::WorkRequestFlushed)));
                world.qp.handle_event(QpEvent::Terminated);
                assert_eq!(world.sent(), [1, 2].map(|wr_id| (wr_id, Status::WorkRequestFlushed)));
            }
        }
    }
}

#[test]
fn a_wait_that_is_not_strict_counts_failed_completions() {
    let (mut world, cq) = waiting();
    world.post(1, wait(2), 0).unwrap();
    world.post(2, WRITE, 0).unwrap();
    push(&cq, 1);
    fail(&cq);
    assert_eq!(world.start(), Token(1));
}

/// What a queue lost is no good completion either.
#[test]
fn a_strict_wait_ends_when_its_queue_overruns() {
    let mut world = World::with_recv_cq(CompletionQueue::numbered(5, 2, false));
    let cq = Arc::clone(&world.qp.recv_cq);
    world.post(1, strict(3), 0).unwrap();
    assert_eq!(world.next(IDLE), None);
    push(&cq, 3);
    assert!(cq.is_overrun());
    assert_eq!((ready(&cq), cq.good()), (vec![2], 2));
    assert_eq!(world.qp.next_message(IDLE, &world.memory), Err(LocalFault(Status::WorkRequestFlushed)));
}

#[test]
fn only_a_wait_can_be_strict() {
    let mut world = established();
    let (memory, _doorbells) = entries(&mut world);
    let layout = world.qp.queues().send.layout();
    world.post(1, strict(1), 0).unwrap();
    let control = layout.offset(0) + SendQueueLayout::CONTROL;
    let mut octets = [0; 8];
    assert!(memory.region.copy_out(control, &mut octets));
    assert_eq!(octets[..2], [0x11, 0x11], "WAIT; signaled and strict");
    assert!(memory.region.copy_in(control, &[0x10]));
    assert_eq!(world.qp.next_message(IDLE, &world.memory), Err(LocalFault(Status::LocalQpOperation)));
}

#[test]
fn a_wait_for_what_is_not_there_is_a_bad_request() {
    for (cq, opcode) in [(5, SendOpcode::Wait { cq: 6, count: 1, strict: false }), (9, wait(1))] {
        let mut world = World::with_recv_cq(CompletionQueue::numbered(cq, 64, true));
        world.post(1, opcode, 0).unwrap();
        let fault = world.qp.next_message(IDLE, &world.memory);
        assert_eq!(fault, Err(LocalFault(Status::LocalQpOperation)));
    }
    let (world, _cq) = waiting();
    assert_eq!(world.post(1, wait(0), 0), Err(PostError::BadData));
    assert_eq!(world.post(1, wait(1), 1), Err(PostError::BadData));
}

/// Returns the region of the send queue's entries, and the doorbells it rings.
fn entries(world: &mut World) -> (Arc<MemoryRegion>, Arc<Doorbells>) {
    let doorbells = Arc::new(Doorbells::new(8));
    let region = Region::send_queue(Arc::clone(world.qp.queues()), Arc::clone(&doorbells), 3);
    let iova = region.address();
    let registration = Registration { pd: PdId(1), stream: None, access: Access::ALL, iova, region };
    (world.memory.register(registration).unwrap(), doorbells)
}

fn rings(doorbells: &Doorbells) -> Vec<usize> {
    let mut all = Vec::new();
    doorbells.take(|slot| all.push(slot));
    all
}

/// Writes a request into entry `index` as a peer does: what is behind the control word, then the word.
fn rewrite(memory: &MemoryRegion, layout: &SendQueueLayout, index: u64, wr: &SendWr<'_>) {
    let octets = layout.encode(wr).unwrap();
    let (start, rest) = (layout.offset(index), SendQueueLayout::REST);
    assert!(memory.region.copy_in(start + rest, &octets[rest..]));
    let control = &octets[SendQueueLayout::CONTROL..rest];
    assert!(memory.region.copy_in(start + SendQueueLayout::CONTROL, control));
}

#[test]
fn a_held_entry_starts_when_it_is_rewritten() {
    let mut world = established();
    let (memory, doorbells) = entries(&mut world);
    let layout = world.qp.queues().send.layout();
    world.post(1, HOLD, 2).unwrap();
    world.post(2, WRITE, 0).unwrap();
    assert_eq!((world.next(IDLE), world.next(IDLE)), (None, None));
    assert_eq!((world.outcomes(), rings(&doorbells)), (vec![], vec![]));
    rewrite(&memory, &layout, 0, &SendWr { opcode: READ, data: Data::Sges(&[Sge::default()]), ..WR });
    assert_eq!(rings(&doorbells), [3]);
    let read = world.next(IDLE).unwrap();
    assert!(matches!(read.kind, weft_rdmap::Kind::Read { source_to: 5000, .. }));
    world.qp.finish(read.token);
    assert_eq!(world.outcomes(), [(1, Status::Success)], "the identifier is the owner's still");
    assert_eq!(world.start(), Token(1));
}

/// A message that is scattered over the entries of two send queues rings both, though the list goes to and fro. A message
/// that does not fit rings for what has been placed.
#[test]
fn a_scattered_message_rings_each_send_queue_that_it_changes() {
    let mut world = established();
    let (first, doorbells) = entries(&mut world);
    let mut register = |region: Region| {
        let iova = region.address();
        let registration = Registration { pd: PdId(1), stream: None, access: Access::ALL, iova, region };
        world.memory.register(registration).unwrap()
    };
    let queues = QpQueues::new(9, &CAPACITY);
    let second = register(Region::send_queue(Arc::new(queues), Arc::clone(&doorbells), 4));
    let plain = register(Region::owned(8).unwrap());
    let sge = |memory: &MemoryRegion, offset: u64| Sge {
        addr: memory.region.address() + offset,
        length: 2,
        lkey: memory.stag,
    };
    let list = [sge(&first, 8), sge(&second, 8), sge(&plain, 0), sge(&first, 16), sge(&second, 16)];
    let scatter = |list: &[Sge], payload: &[u8]| {
        let pieces = crate::pieces::pieces(list, 0, payload.len());
        world.qp.reach(&world.memory).scatter(pieces, payload)
    };
    let read = |memory: &MemoryRegion, offset| {
        let mut octets = [0; 2];
        assert!(memory.region.copy_out(offset, &mut octets));
        octets
    };
    scatter(&list, b"aabbccddee").unwrap();
    assert_eq!(rings(&doorbells), [3, 4]);
    let placed = [read(&first, 8), read(&second, 8), read(&plain, 0), read(&first, 16), read(&second, 16)];
    assert_eq!(placed.concat(), b"aabbccddee");
    let nowhere = Sge { lkey: Sge::default().lkey, ..list[1] };
    assert!(scatter(&[list[0], nowhere, list[1]], b"ffgghh").is_err());
    assert_eq!((rings(&doorbells), read(&first, 8), read(&second, 8)), (vec![3], *b"ff", *b"bb"));
    scatter(&[list[2]], b"ii").unwrap();
    assert_eq!(rings(&doorbells), Vec::<usize>::new(), "nothing has changed there");
}

/// A compare-and-swap of the opcode alone releases the entry; the owner has prepared the rest.
#[test]
fn one_word_releases_a_held_entry() {
    let mut world = established();
    let (memory, doorbells) = entries(&mut world);
    let layout = world.qp.queues().send.layout();
    for wr_id in 0..2 {
        world
            .post_wr(SendWr { wr_id, opcode: HOLD, solicited: true, data: Data::Inline(b"abc"), ..WR })
            .unwrap();
    }
    for (index, opcode) in [(0, 0x10), (1, 0x01_u64)] {
        assert_eq!(world.next(IDLE), None);
        let place = layout.offset(index) + SendQueueLayout::CONTROL;
        let swapped = memory
            .region
            .update(place, |word| if word & 0xFF == 0x12 { word & !0xFF | opcode } else { word });
        assert_eq!(swapped.map(|word| word & 0xFF), Some(0x12));
        assert_eq!(rings(&doorbells), [3]);
    }
    let message = world.next(IDLE).unwrap();
    assert_eq!((message.token, message.len), (Token(1), 3));
    assert_eq!(message.kind, weft_rdmap::Kind::Send { solicited: true, invalidate: None });
    assert_eq!(world.outcomes(), [(0, Status::Success)]);
}

#[test]
fn held_entries_are_flushed_with_the_rest() {
    let mut world = established();
    world.post(1, HOLD, 0).unwrap();
    world.post(2, HOLD, 0).unwrap();
    assert_eq!(world.next(IDLE), None);
    world.qp.handle_event(QpEvent::LlpClosed);
    assert_eq!(world.outcomes(), [1, 2].map(|wr_id| (wr_id, Status::WorkRequestFlushed)));
}

#[test]
fn an_extension_is_a_bad_request_where_none_are_known() {
    let mut world = World::without_extensions();
    let (memory, _doorbells) = entries(&mut world);
    let layout = world.qp.queues().send.layout();
    world.post(1, HOLD, 0).unwrap();
    rewrite(&memory, &layout, 0, &SendWr { opcode: SendOpcode::Immediate { data: [0; 8] }, ..WR });
    let fault = world.qp.next_message(IDLE, &world.memory);
    assert_eq!(fault, Err(LocalFault(Status::LocalQpOperation)));
}

/// Ends the other thread, also where an assertion fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Another thread writes into registered entries while the engine works on them. Memory of another domain is neither
/// sent nor changed, and another queue pair goes on.
#[test]
fn entries_may_change_while_the_engine_reads_them() {
    const SECRET: [u8; 64] = *b"secret--secret--secret--secret--secret--secret--secret--secret--";
    for seed in 0..40_u64 {
        let (mut world, mut other) = (established(), established());
        let (memory, _doorbells) = entries(&mut world);
        let foreign = Region::owned(SECRET.len()).unwrap();
        assert!(foreign.copy_in(0, &SECRET));
        let foreign =
            Registration { pd: PdId(9), stream: None, access: Access::ALL, iova: 0, region: foreign };
        let foreign = world.memory.register(foreign).unwrap();
        let (done, written) = (AtomicBool::new(false), AtomicU64::new(0));
        let stride = world.qp.queues().send.layout().stride;
        std::thread::scope(|scope| {
            let (memory, done, written) = (&memory, &done, &written);
            let stag = u64::from(foreign.stag.0);
            scope.spawn(move || {
                let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
                while !done.load(Ordering::Relaxed) {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    let offset = usize::try_from(random % (memory.region.len() as u64 / 8)).unwrap() * 8;
                    let entry = offset - offset % stride;
                    // Half of them are control words, of small numbers; others name the memory of the other domain.
                    let (offset, word) = match random >> 60 {
                        0..8 => (entry + SendQueueLayout::CONTROL, random >> 20 & 0x0000_01FF_0003_0F1F),
                        8..14 => (offset, stag | (random & 63) << 32),
                        _ => (offset, random),
                    };
                    assert!(memory.region.copy_in(offset, &word.to_le_bytes()));
                    written.fetch_add(1, Ordering::Relaxed);
                }
            });
            let stop = Stop(done);
            for wr_id in 0..30 {
                _ = world.post(wr_id, HOLD, 0);
                // Some entries are changed before each look at them, however the threads take turns.
                let before = written.load(Ordering::Relaxed);
                while written.load(Ordering::Relaxed) < before + 10 {
                    std::thread::yield_now();
                }
                let mut out = [0; 128];
                if let Some(short) = world.qp.put_short(&world.memory, &mut out) {
                    world.qp.finish_short(&short);
                } else if let Ok(Some(message)) = world.qp.next_message(IDLE, &world.memory) {
                    let body = weft_rdmap::Body::Message { token: message.token, offset: 0 };
                    let len = out.len().min(message.len as usize);
                    let fetches = world.qp.work.opcode.fetches();
                    if !fetches {
                        _ = world.qp.fill(&body, &world.memory, &mut Payload::new(&mut out[..len]));
                    }
                    world.qp.finish(message.token);
                }
                assert!(!out.windows(8).any(|octets| octets == &SECRET[..8]), "seed {seed}");
                world.outcomes();
            }
            world.qp.handle_event(QpEvent::Failed);
            drop(stop);
        });
        assert_eq!(world.qp.retired, world.qp.queues().send.posted(), "seed {seed}");
        let mut octets = [0; SECRET.len()];
        assert!(foreign.region.copy_out(0, &mut octets) && octets == SECRET, "seed {seed}");
        other.post(1, WRITE, 0).unwrap();
        assert_eq!(other.start(), Token(0));
    }
}

proptest! {
    /// For any content of an entry the queue pair starts it, waits, holds, or says that it is bad. And it completes
    /// all that was posted when it ends.
    #[test]
    fn entries_of_any_content_are_checked(
        words in proptest::collection::vec((0_usize..16, any::<u64>()), 0..12),
        control in (0_u8..0x14, any::<u8>(), 0_u16..8, 0_u32..100),
    ) {
        let (mut world, cq) = waiting();
        let (memory, doorbells) = entries(&mut world);
        push(&cq, 2);
        world.post(1, HOLD, 0).unwrap();
        world.post(2, WRITE, 0).unwrap();
        for (index, word) in words {
            let _beyond = memory.region.copy_in(index * 8, &word.to_le_bytes());
        }
        let (opcode, flags, sges, octets) = control;
        let word = u64::from(opcode) | u64::from(flags) << 8 | u64::from(sges) << 16 | u64::from(octets) << 32;
        prop_assert!(memory.region.copy_in(8, &word.to_le_bytes()));
        prop_assert_eq!(rings(&doorbells), [3]);
        for _ in 0..4 {
            match world.qp.next_message(IDLE, &world.memory) {
                Ok(Some(message)) => world.qp.finish(message.token),
                Ok(None) => break,
                Err(_) => {
                    world.qp.handle_event(QpEvent::Terminated);
                    break;
                }
            }
        }
        world.qp.handle_event(QpEvent::Failed);
        let identifiers: Vec<_> = world.sent().into_iter().map(|(wr_id, _)| wr_id).collect();
        prop_assert!(identifiers.len() <= 2 && identifiers.iter().all(|&wr_id| wr_id != 1 || identifiers[0] == 1));
        prop_assert_eq!(world.qp.retired, 2);
    }
}
