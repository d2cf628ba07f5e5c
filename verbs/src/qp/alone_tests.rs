//! Queue pairs that are connected to themselves.

use proptest::prelude::*;
use weft_ddp::Stag;

use super::tests::{WR, World, established};
use super::*;
use crate::access::Access;
use crate::memory::{MemoryRegion, Registration};
use crate::region::Region;
use crate::work::{Data, SendOpcode, SendWr};

const LEN: usize = 200_000;

fn memory(world: &mut World, pd: u64, access: Access, len: usize) -> Arc<MemoryRegion> {
    let region = Region::owned(len).unwrap();
    let octets: Vec<u8> = (0..len).map(|at| at.to_le_bytes()[0] ^ (at >> 8).to_le_bytes()[0]).collect();
    assert!(region.copy_in(0, &octets));
    world.memory.register(Registration { pd: PdId(pd), stream: None, access, iova: 0, region }).unwrap()
}

fn contents(memory: &MemoryRegion) -> Vec<u8> {
    let mut octets = vec![0; memory.region.len()];
    assert!(memory.region.copy_out(0, &mut octets));
    octets
}

fn alone() -> World {
    let mut world = World::unpolled(None);
    assert!(world.qp.connect_self());
    world
}

/// Runs turns until there is nothing more to do, and returns their number.
fn run(world: &mut World) -> Result<usize, LocalFault> {
    for turn in 1.. {
        world.qp.run_alone(&world.memory)?;
        if !world.qp.take_goes_on() {
            return Ok(turn);
        }
    }
    Ok(0)
}

const fn sge(memory: &MemoryRegion, addr: u64, length: u32) -> Sge {
    Sge { addr, length, lkey: memory.stag }
}

proptest! {
    /// Writes and Reads of any pieces do what a copy does. They keep their order though some take several turns.
    #[test]
    fn copies_are_as_slices_would_have_it(
        requests in prop::collection::vec((any::<bool>(), 0..LEN / 2, 0..LEN / 2, 0..90_000_u32, 0..3_u32), 1..6)
    ) {
        let mut world = alone();
        let (here, there) = (memory(&mut world, 1, Access::ALL, LEN), memory(&mut world, 1, Access::ALL, LEN));
        prop_assert!(there.region.copy_in(0, &vec![7; LEN]));
        let (mut model_here, mut model_there) = (contents(&here), contents(&there));
        for (number, &(is_read, to, addr, len, cuts)) in requests.iter().enumerate() {
            let first = if cuts == 0 { len } else { len / (cuts + 1) };
            let sges = [sge(&here, addr as u64, first), sge(&here, addr as u64 + u64::from(first), len - first)];
            let opcode = match is_read {
                true => SendOpcode::Read { stag: there.stag, to: to as u64 },
                false => SendOpcode::Write { stag: there.stag, to: to as u64 },
            };
            let wr_id = number as u64;
            world.post_wr(SendWr { wr_id, opcode, data: Data::Sges(&sges), ..WR }).unwrap();
            let len = len as usize;
            if is_read {
                model_here[addr..addr + len].copy_from_slice(&model_there[to..to + len]);
            } else {
                model_there[to..to + len].copy_from_slice(&model_here[addr..addr + len]);
            }
        }
        prop_assert!(run(&mut world).is_ok());
        prop_assert!(contents(&here) == model_here && contents(&there) == model_there);
        let done: Vec<_> = (0..requests.len() as u64).map(|number| (number, Status::Success)).collect();
        prop_assert_eq!(world.sent(), done);
    }
}

#[test]
fn a_turn_copies_so_many_octets_and_no_more() {
    let mut world = alone();
    let (here, there) = (memory(&mut world, 1, Access::ALL, LEN), memory(&mut world, 1, Access::ALL, LEN));
    let sges = [sge(&here, 0, 150_000)];
    let opcode = SendOpcode::Write { stag: there.stag, to: 0 };
    world.post_wr(SendWr { wr_id: 1, opcode, data: Data::Sges(&sges), ..WR }).unwrap();
    world.post(2, SendOpcode::Nop, 0).unwrap();
    world.qp.run_alone(&world.memory).unwrap();
    assert_eq!((world.sent(), world.qp.take_goes_on()), (vec![], true), "the NOP waits for its turn");
    assert_eq!(run(&mut world), Ok(2));
    assert_eq!(world.sent(), [(1, Status::Success), (2, Status::Success)]);
}

#[test]
fn inline_octets_and_atomics() {
    let mut world = alone();
    let (here, there) = (memory(&mut world, 1, Access::ALL, 64), memory(&mut world, 1, Access::ALL, 64));
    let (stag, to) = (there.stag, 8);
    let octets = 41_u64.to_ne_bytes();
    world
        .post_wr(SendWr {
            wr_id: 1,
            opcode: SendOpcode::Write { stag, to },
            data: Data::Inline(&octets),
            ..WR
        })
        .unwrap();
    let sges = [sge(&here, 16, 8)];
    let add = SendOpcode::FetchAdd { stag, to, add: 1, mask: 0 };
    let swap = SendOpcode::CompareSwap {
        stag,
        to,
        swap: 9,
        swap_mask: u64::MAX,
        compare: 42,
        compare_mask: u64::MAX,
    };
    for (wr_id, opcode, expected) in [(2, add, (41, 42)), (3, swap, (42, 9)), (4, swap, (9, 9))] {
        world.post_wr(SendWr { wr_id, opcode, data: Data::Sges(&sges), ..WR }).unwrap();
        run(&mut world).unwrap();
        let word = |octets: &[u8]| u64::from_ne_bytes(octets.try_into().unwrap());
        assert_eq!((word(&contents(&here)[16..24]), word(&contents(&there)[8..16])), expected);
    }
    assert_eq!(world.sent(), [1, 2, 3, 4].map(|wr_id| (wr_id, Status::Success)));
}

/// The right that a peer would need, at the one side, and the local right at the other; and the domain.
#[test]
fn rights_are_those_between_two_hosts() {
    let all = Access::ALL;
    let read = |stag| SendOpcode::Read { stag, to: 0 };
    let write = |stag| SendOpcode::Write { stag, to: 0 };
    let add = |stag| SendOpcode::FetchAdd { stag, to: 0, add: 1, mask: 0 };
    let remote_access = Some(Status::RemoteAccess);
    let local = Some(Status::LocalProtection);
    type Make = fn(Stag) -> SendOpcode;
    let makes: [Make; 3] = [read, write, add];
    let cases = [
        (makes[0], Access::REMOTE_READ, all, 1, None),
        (makes[0], Access::LOCAL_WRITE | Access::REMOTE_WRITE, all, 1, remote_access),
        (makes[0], all, Access::REMOTE_READ, 1, local),
        (makes[1], Access::LOCAL_WRITE | Access::REMOTE_WRITE, Access::REMOTE_READ, 1, None),
        (makes[1], Access::LOCAL_WRITE | Access::REMOTE_READ, all, 1, remote_access),
        (makes[2], Access::LOCAL_WRITE | Access::REMOTE_ATOMIC, all, 1, None),
        (makes[2], Access::LOCAL_WRITE | Access::REMOTE_WRITE, all, 1, remote_access),
        (makes[0], all, all, 2, remote_access),
        (makes[1], all, all, 2, remote_access),
    ];
    for (number, (make, there_access, here_access, pd, fault)) in cases.into_iter().enumerate() {
        let mut world = alone();
        let there = memory(&mut world, pd, there_access, 64);
        let here = memory(&mut world, 1, here_access, 64);
        let before = (contents(&here), contents(&there));
        world
            .post_wr(SendWr {
                wr_id: 1,
                opcode: make(there.stag),
                data: Data::Sges(&[sge(&here, 32, 8)]),
                ..WR
            })
            .unwrap();
        let result = run(&mut world);
        let status = fault.unwrap_or(Status::Success);
        assert_eq!(result.err(), fault.map(LocalFault), "case {number}");
        assert_eq!(world.sent(), [(1, status)], "case {number}");
        assert_eq!((contents(&here), contents(&there)) == before, fault.is_some(), "case {number}");
    }
}

/// Bounds are checked before the first octet is copied, also for a request of several turns.
#[test]
fn what_reaches_beyond_the_memory_changes_nothing() {
    let mut world = alone();
    let (here, there) = (memory(&mut world, 1, Access::ALL, LEN), memory(&mut world, 1, Access::ALL, LEN));
    assert!(there.region.copy_in(0, &vec![7; LEN]));
    let sges = [sge(&here, 0, 150_000)];
    let opcode = SendOpcode::Write { stag: there.stag, to: LEN as u64 - 149_999 };
    world.post_wr(SendWr { wr_id: 1, opcode, data: Data::Sges(&sges), ..WR }).unwrap();
    assert_eq!(run(&mut world), Err(LocalFault(Status::RemoteAccess)));
    assert!(contents(&there).iter().all(|octet| *octet == 7));
}

#[test]
fn what_takes_a_receive_fails_and_the_end_flushes_the_rest() {
    let kinds = [
        SendOpcode::Send,
        SendOpcode::SendInvalidate { stag: Stag(1) },
        SendOpcode::Immediate { data: [0; 8] },
        SendOpcode::WriteImmediate { stag: Stag(1), to: 0, immediate: [0; 4] },
    ];
    for opcode in kinds {
        let mut world = alone();
        world.post(1, opcode, 0).unwrap();
        world.post(2, SendOpcode::Nop, 0).unwrap();
        assert_eq!(run(&mut world), Err(LocalFault(Status::LocalQpOperation)));
        world.qp.handle_event(QpEvent::Failed);
        assert_eq!(world.sent(), [(1, Status::LocalQpOperation), (2, Status::WorkRequestFlushed)]);
    }
}

#[test]
fn only_an_idle_one_is_connected_to_itself() {
    let mut world = established();
    assert!(!world.qp.connect_self());
    let mut world = World::unpolled(None);
    world.qp.queues().set_as_infiniband(true);
    assert!(!world.qp.connect_self() && !world.qp.is_alone());
}
