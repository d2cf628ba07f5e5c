//! The verbs against a model of them: two devices on a good wire and on virtual time, and any sequence of calls.
//!
//! After each call both worlds come to rest, so that the model knows exactly what has happened: the error of a call,
//! the completions with their status, and the content of all memory. Only requests that are posted in a row to one
//! queue pair may be held back, and then run together.

mod apply;
mod memory;
mod ops;
mod post;
mod queues;
mod register;
mod run;
mod windows;
mod world;

use std::collections::BTreeSet;

use arbitrary::{Arbitrary, Unstructured};

use self::ops::{BindChoice, DataChoice, Flags, Kind, Offset, Op, Place, QpChoice, SendChoice, SgeChoice};
use self::world::World;

/// Runs the calls that `data` encodes. Returns the names of the errors, completions and ends that occurred.
///
/// # Panics
/// If a call returns another result than the model, or memory differs, or an event does not come. If a completion is
/// missing, doubled, wrong or out of order.
pub fn verbs_ops(data: &[u8]) -> BTreeSet<String> {
    let mut input = Unstructured::new(data);
    let mut world = World::new();
    // Most inputs begin with two queue pairs in Full Operation.
    if u8::arbitrary(&mut input).is_ok_and(|octet| octet != 0) {
        prepare(&mut world);
    }
    let mut held = None;
    for _ in 0..MAX_OPS {
        if input.is_empty() {
            break;
        }
        let Ok(op) = Op::arbitrary(&mut input) else { break };
        let next = target(&world, &op);
        if held.is_some() && held != next {
            world.settle();
        }
        world.apply(&op);
        held = next.filter(|_| may_be_held(&op));
        if held.is_none() {
            world.settle();
        }
    }
    world.finish();
    world.seen
}

/// Makes a connected queue pair on each side, with memory and receives.
fn prepare(world: &mut World) {
    let choice = QpChoice {
        pd: false,
        send_cq: 0,
        recv_cq: 0,
        send_wr: 8,
        recv_wr: 8,
        send_sge: 4,
        recv_sge: 4,
        inline: 100,
        signal_all: false,
        foreign: false,
    };
    for side in [false, true] {
        world.apply(&Op::CreateCq { side });
        world.apply(&Op::CreateQp { side, choice: choice.clone() });
        for (len, access, place) in
            [(200, 0x1F, Place::Address), (64, 0x0F, Place::For(0)), (128, 0x01, Place::Address)]
        {
            world.apply(&Op::Register { side, pd: false, len, access, place });
        }
        let octets = *b"some data";
        world.apply(&Op::Touch { side, region: 0, offset: 8, octets });
        for offset in [0, 32, 64] {
            let sge = SgeChoice { region: 2, offset, length: 32, twist: u8::MAX };
            world.apply(&Op::PostRecv { side, qp: 0, sges: vec![sge] });
        }
    }
    world.apply(&Op::Connect { side: false, qp: 0, private_len: 2, wrong_port: false });
    world.settle();
    world.apply(&Op::Accept { side: true, request: 0, qp: 0, private_len: 0 });
    world.settle();
    for side in [false, true] {
        bind(world, side);
    }
}

/// Makes a window of each type over the first region, and a fast registration, all of them valid.
fn bind(world: &mut World, side: bool) {
    for is_first in [true, false] {
        world.apply(&Op::AllocMw { side, pd: false, is_first });
    }
    world.apply(&Op::AllocFast { side, pd: false, len: 100, only: Some(0) });
    let window = BindChoice { window: 0, key: 1, region: 0, offset: 16, length: 48, access: 0x0E };
    world.apply(&Op::BindMw { side, qp: 0, bind: window });
    let second = Kind::Bind(BindChoice { window: 1, ..window });
    let fast =
        Kind::FastRegister { region: 3, key: 1, offset: 10, length: 80, access: 0x0F, iova: Offset::Odd };
    for kind in [second, fast] {
        let request = SendChoice { kind, data: DataChoice::Inline(0) };
        let flags = Flags { signaled: true, fence: false, solicited: false, hold: false };
        world.apply(&Op::PostSend { side, qp: 0, request, flags });
    }
    world.settle();
}

/// Returns the queue pair that a request is posted to.
fn target(world: &World, op: &Op) -> Option<memory::End> {
    match op {
        Op::PostSend { side, qp, .. } => world.end_by(*side, *qp),
        _ => None,
    }
}

/// Returns true if the engine may wait. A request that fetches is the last one that runs with the others.
fn may_be_held(op: &Op) -> bool {
    match op {
        Op::PostSend { request, flags, .. } => {
            let fetches =
                matches!(request.kind, Kind::Read { .. } | Kind::FetchAdd { .. } | Kind::CompareSwap { .. });
            flags.hold && !fetches
        }
        _ => false,
    }
}

const MAX_OPS: usize = 100;
