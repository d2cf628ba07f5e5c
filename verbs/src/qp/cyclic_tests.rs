//! Cyclic queues, and queue pairs that are connected to themselves.

use weft_rdmap::{Inbound, Opcode, SendEnd};

use super::tests::{IDLE, WRITE, World, established};
use super::*;
use crate::access::Access;
use crate::doorbell::Doorbells;
use crate::memory::{KeyedKind, Registration, WindowType};
use crate::region::Region;
use crate::work::{Bind, PostError, RecvWr, SendOpcode};

const WAIT: SendOpcode = SendOpcode::Wait { cq: 5, count: 1, strict: true };
const ENTRIES: u64 = 8;

/// Returns a queue pair in RTS whose send queue is full of `program`, again and again, and cyclic.
fn cyclic(program: &[SendOpcode]) -> World {
    cycling(World::unpolled(Some(QpEvent::Established)), program)
}

fn cycling(mut world: World, program: &[SendOpcode]) -> World {
    for (wr_id, opcode) in (0..ENTRIES).zip(program.iter().cycle()) {
        world.post(wr_id, *opcode, 0).unwrap();
    }
    world.qp.cycle_sends().unwrap();
    world
}

/// A message has come.
fn tick(world: &World, count: usize) {
    for _ in 0..count {
        let completion = world.qp.recv_completion(0, Status::Success);
        world.qp.recv_cq.push(&completion, Frees::default());
    }
}

/// Starts and ends the next message, and returns the number of its request.
fn step(world: &mut World) -> Option<u64> {
    let message = world.next(IDLE)?;
    world.qp.finish(message.token);
    Some(message.token.0)
}

#[test]
fn requests_come_again_and_nobody_posts() {
    let mut world = cyclic(&[WAIT, WRITE]);
    assert_eq!(step(&mut world), None);
    for number in 0..100 {
        tick(&world, 1);
        assert_eq!((step(&mut world), step(&mut world)), (Some(2 * number + 1), None));
        let again = 2 * number + 1;
        assert_eq!(world.sent(), [2 * number, again].map(|index| (index % ENTRIES, Status::Success)));
    }
    let queues = Arc::clone(world.qp.queues());
    assert_eq!(
        (queues.send.posted(), queues.send.len(), queues.send.doorbells()),
        (200 + ENTRIES, ENTRIES, ENTRIES)
    );
    assert_eq!(world.post(9, WRITE, 0), Err(PostError::Cyclic));
}

/// What stands in an entry when it comes to its turn is what is done.
#[test]
fn a_lap_does_what_stands_in_the_entries_then() {
    let mut world = cyclic(&[WAIT, SendOpcode::Nop]);
    let layout = world.qp.queues().send.layout();
    let entries = Region::send_queue(Arc::clone(world.qp.queues()), Arc::new(Doorbells::new(1)), 0);
    assert_eq!(world.next(IDLE), None);
    for (lap, opcode) in [(0, 0x10), (1, 0x03_u8), (2, 0x10), (3, 0x03)] {
        assert!(entries.copy_in(layout.offset(1) + 8, &[opcode]));
        tick(&world, 4);
        let expected = if opcode == 0x03 { Some(lap * ENTRIES + 1) } else { None };
        assert_eq!(step(&mut world), expected, "lap {lap}");
        assert_eq!(step(&mut world), None);
    }
}

/// A bind is there again in the next lap. It is not taken out when its window is revoked.
#[test]
fn binds_of_a_cyclic_queue_stay() {
    let mut world = World::unpolled(Some(QpEvent::Established));
    let (pd, window) = (world.qp.pd(), KeyedKind::Window(WindowType::Type1));
    let window = world.memory.alloc(pd, None, window).unwrap();
    let (region, access) = (Region::owned(8).unwrap(), Access::LOCAL_WRITE | Access::MW_BIND);
    let region = world.memory.register(Registration { pd, stream: None, access, iova: 0, region }).unwrap();
    let (addr, length, access) = (0, 8, Access::REMOTE_WRITE);
    let bind = Bind { window: window.stag(1), region: region.stag, addr, length, access };
    let mut world = cycling(world, &[WAIT, SendOpcode::BindWindow(bind)]);
    for round in 0..3 * ENTRIES {
        tick(&world, 1);
        assert_eq!((step(&mut world), window.is_valid()), (None, true), "{round}");
        world.qp.forget_binds(&window);
        world.memory.revoke(&window);
        assert!(!window.is_valid());
    }
}

/// The counts go on for ever. Here they pass 2^33, which is more than 32 bits and a multiple of the entries.
#[test]
fn counts_pass_32_bits() {
    let mut world = World::unpolled(Some(QpEvent::Established));
    let first = (1 << 33) - 3;
    let queues = Arc::clone(world.qp.queues());
    queues.send.ring().publish(first);
    queues.send.release(first);
    (world.qp.started, world.qp.retired) = (first, first);
    for wr_id in 0..ENTRIES {
        world.post(wr_id, if wr_id % 2 == 0 { WAIT } else { WRITE }, 0).unwrap();
    }
    world.qp.cycle_sends().unwrap();
    for number in 0..20 {
        tick(&world, 1);
        assert_eq!(step(&mut world), Some(first + 2 * number + 1));
        assert_eq!(world.sent(), [0, 1].map(|odd| ((2 * number + odd) % ENTRIES, Status::Success)));
    }
}

/// Whichever entry is at hand when the stream ends, each is flushed once, in its order.
#[test]
fn every_entry_is_flushed_once() {
    for done in 0..3 * ENTRIES {
        for is_lost in [false, true] {
            let mut world = cyclic(&[WAIT, WRITE]);
            tick(&world, usize::try_from(done / 2).unwrap());
            while step(&mut world).is_some() {}
            if done % 2 == 1 {
                // The WAIT is done, and the Write is at hand.
                tick(&world, 1);
                world.next(IDLE).unwrap();
            }
            world.sent();
            if is_lost {
                world.qp.fail_oldest(Status::RetryExceeded);
            }
            world.qp.handle_event(QpEvent::Terminated);
            let expected: Vec<_> = (done..done + ENTRIES)
                .map(|index| {
                    let is_oldest = is_lost && index == done;
                    (
                        index % ENTRIES,
                        if is_oldest { Status::RetryExceeded } else { Status::WorkRequestFlushed },
                    )
                })
                .collect();
            assert_eq!(world.sent(), expected, "{done} {is_lost}");
            world.qp.flush_if_ended();
            assert_eq!(world.sent(), []);
            assert!(!world.qp.queues().send.is_cyclic() && world.qp.queues().send.is_empty());
        }
    }
}

/// A request that fails is not posted again, and neither are those behind it.
#[test]
fn a_failure_ends_the_cycle() {
    let mut world = cyclic(&[WAIT, WRITE]);
    let failed = world.qp.recv_completion(0, Status::WorkRequestFlushed);
    tick(&world, 1);
    world.qp.recv_cq.push(&failed, Frees::default());
    assert_eq!(step(&mut world), Some(1));
    world.sent();
    let fault = world.qp.next_message(IDLE, &world.memory);
    assert_eq!(fault, Err(LocalFault(Status::WorkRequestFlushed)));
    assert_eq!(world.sent(), [(2, Status::WorkRequestFlushed)]);
    world.qp.handle_event(QpEvent::Terminated);
    let rest = [3, 4, 5, 6, 7, 0, 1].map(|wr_id| (wr_id, Status::WorkRequestFlushed));
    assert_eq!(world.sent(), rest);
}

/// A request that was not begun is none that a lost peer could have had.
#[test]
fn a_loss_fails_no_entry_that_was_not_begun() {
    let mut world = cyclic(&[SendOpcode::Nop, WAIT]);
    world.qp.fail_oldest(Status::RetryExceeded);
    assert_eq!(world.sent(), []);
}

/// A drain does what was begun, and stops before the next WAIT, even if that could go on.
#[test]
fn a_drain_ends_at_the_next_wait() {
    for begun in 0..4 {
        let mut world = cyclic(&[WAIT, WRITE, SendOpcode::Nop, WRITE]);
        world.qp.drain();
        assert!(world.qp.is_drained(), "nothing was begun");
        let mut world = cyclic(&[WAIT, WRITE, SendOpcode::Nop, WRITE]);
        tick(&world, 1);
        for _ in 0..begun {
            step(&mut world);
        }
        world.qp.drain();
        tick(&world, 9);
        let rest: Vec<_> = core::iter::from_fn(|| step(&mut world)).collect();
        let expected: &[u64] = match begun {
            0 => &[],
            1 => &[3],
            _ => &[],
        };
        assert_eq!(rest, expected);
        assert!(world.qp.is_drained(), "{begun}");
    }
}

/// A lap of requests without a message ends a turn. The next turn goes on, and no doorbell would tell it to.
#[test]
fn a_lap_without_a_message_asks_for_another_turn() {
    let mut world = cyclic(&[SendOpcode::Nop, SendOpcode::Nop, SendOpcode::Nop, WAIT]);
    assert_eq!((world.next(IDLE), world.qp.take_goes_on()), (None, false), "it waits");
    tick(&world, 3);
    assert_eq!((world.next(IDLE), world.qp.take_goes_on()), (None, true), "a lap has ended");
    assert_eq!(world.qp.queues().send.posted() - world.qp.started, ENTRIES);
    assert_eq!((world.next(IDLE), world.qp.take_goes_on()), (None, false), "it waits again");
}

#[test]
fn a_queue_that_cannot_be_cyclic_stays_as_it_is() {
    let mut world = established();
    assert_eq!(world.qp.cycle_sends(), Err(CycleError::Polled));
    assert_eq!(world.qp.cycle_recvs(), Err(CycleError::Polled));
    let mut world = World::unpolled(Some(QpEvent::Established));
    world.post(0, WAIT, 0).unwrap();
    assert_eq!(world.qp.cycle_sends(), Err(CycleError::NotFull));
    assert_eq!(world.qp.cycle_recvs(), Err(CycleError::NotFull));
    let mut world = World::unpolled(Some(QpEvent::Established));
    for wr_id in 0..ENTRIES {
        world.post(wr_id, WRITE, 0).unwrap();
    }
    assert_eq!(world.qp.cycle_sends(), Err(CycleError::NoWait));
    let mut world = World::unpolled(None);
    world.qp.queues().set_as_infiniband(true);
    for wr_id in 0..ENTRIES {
        world.post(wr_id, WAIT, 0).unwrap();
    }
    assert_eq!(world.qp.cycle_sends(), Err(CycleError::AsInfiniband));
    assert_eq!(world.post(9, WAIT, 0), Err(PostError::QueueFull));
}

#[test]
fn receives_come_again_until_the_stream_ends() {
    let mut world = World::unpolled(Some(QpEvent::Established));
    for wr_id in 0..ENTRIES {
        world.qp.queues().post_recv(&RecvWr { wr_id, sges: &[] }).unwrap();
    }
    world.qp.cycle_recvs().unwrap();
    let end = SendEnd { opcode: Opcode::Send, len: 0, invalidate: None };
    let received = |world: &World| {
        let mut out = [Completion::EMPTY; 64];
        let count = world.qp.recv_cq.poll(&mut out);
        out[..count].iter().map(|done| (done.wr_id, done.status)).collect::<Vec<_>>()
    };
    for number in 0..50 {
        world.qp.apply(Inbound::Send { offset: 0, payload: &[], last: Some(end) }, &world.memory).unwrap();
        assert_eq!(received(&world), [(number % ENTRIES, Status::Success)]);
    }
    assert_eq!(world.qp.queues().post_recv(&RecvWr { wr_id: 9, sges: &[] }), Err(PostError::Cyclic));
    world.qp.handle_event(QpEvent::LlpClosed);
    let flushed: Vec<_> = (50..50 + ENTRIES).map(|n| (n % ENTRIES, Status::WorkRequestFlushed)).collect();
    assert_eq!(received(&world), flushed);
    assert!(!world.qp.queues().recv.is_cyclic());
}
