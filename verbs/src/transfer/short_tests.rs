//! The short ways do what the general ways do, or nothing.

use std::sync::Arc;

use proptest::collection::vec;
use proptest::prelude::*;
use weft_ddp::Stag;
use weft_rdmap::{Kind, Message, Opcode};

use super::tests::{GUARD, IDLE, PD, World};
use super::*;
use crate::qp::Short;
use crate::state::{QpEvent, QpState};
use crate::work::{Data, RecvWr, SendOpcode, SendWr, Sge};

fn opcode() -> impl Strategy<Value = SendOpcode> {
    let (stag, to) = (Stag(7), 5000);
    prop_oneof![
        4 => Just(SendOpcode::Send),
        3 => Just(SendOpcode::Write { stag, to }),
        1 => Just(SendOpcode::SendInvalidate { stag }),
        1 => Just(SendOpcode::WriteImmediate { stag, to, immediate: [1; 4] }),
        1 => Just(SendOpcode::Read { stag, to }),
        1 => Just(SendOpcode::Nop),
        1 => Just(SendOpcode::Hold),
    ]
}

/// Inline octets, or lengths of SGEs and whether the memory they name is there.
fn data() -> impl Strategy<Value = Result<Vec<u8>, Vec<(u32, bool)>>> {
    let lengths = prop_oneof![0_u32..70, 0_u32..1030];
    prop_oneof![
        vec(any::<u8>(), 0..=64).prop_map(Ok),
        vec((lengths, proptest::bool::weighted(0.9)), 0..3).prop_map(Err),
    ]
}

/// Returns the octets that one message carries, and the message, by the general way.
fn generally(world: &mut World) -> Option<(Message, Vec<u8>)> {
    let message = world.qp.next_message(IDLE, &world.memory).ok()??;
    let mut octets = vec![0; message.len as usize];
    let body = Body::Message { token: message.token, offset: 0 };
    world.qp.fill(&body, &world.memory, &mut Payload::new(&mut octets)).ok()?;
    world.qp.finish(message.token);
    Some((message, octets))
}

fn shortly(world: &mut World, room: usize) -> Option<(Message, Vec<u8>)> {
    let mut ulpdu = vec![GUARD; room];
    let short = world.qp.put_short(&world.memory, &mut ulpdu)?;
    world.qp.finish_short(&short);
    let head = if matches!(short.message.kind, Kind::Send { .. }) { 18 } else { 14 };
    Some((short.message, ulpdu[head..head + short.message.len as usize].to_vec()))
}

fn completions(world: &World) -> Vec<Completion> {
    let mut out = [Completion::EMPTY; 4];
    let count = world.cq.poll(&mut out);
    out[..count].to_vec()
}

proptest! {
    #[test]
    fn a_short_message_is_the_same_by_both_ways(
        opcode in opcode(), data in data(), flags in any::<[bool; 2]>(), solicited: bool,
        room in prop_oneof![0..100_usize, Just(Short::MAX_ULPDU)],
    ) {
        let mut worlds = [World::with_signals(false), World::with_signals(false)];
        let [one, other] = &mut worlds;
        for world in [&mut *one, &mut *other] {
            let region = world.register(PD, Access::ALL, &(0..=255).cycle().take(1033).collect::<Vec<u8>>());
            let sges: Vec<Sge> = data.as_ref().err().into_iter().flatten().map(|&(length, is_there)| {
                Sge { addr: 1003, length, lkey: if is_there { region.stag } else { Stag(region.stag.0 ^ 1) } }
            }).collect();
            let data = data.as_ref().map_or(Data::Sges(&sges), |octets| Data::Inline(octets));
            let [signaled, fence] = flags;
            let wr = SendWr { wr_id: 5, opcode, data, signaled, fence, solicited };
            prop_assume!(world.qp.queues().post_send(&wr).is_ok());
        }
        match shortly(one, room) {
            Some(sent) => {
                prop_assert!(sent.1.len() <= Short::MAX_LEN && sent.1.len() + 14 <= room);
                prop_assert_eq!(Some(sent), generally(other));
            }
            // A refused request is left as it was.
            None => prop_assert_eq!(generally(one), generally(other)),
        }
        prop_assert_eq!(completions(one), completions(other));
        prop_assert_eq!(one.qp.counters(), other.qp.counters());
        prop_assert_eq!(one.qp.queues().send.len(), other.qp.queues().send.len());
    }

    #[test]
    fn a_whole_send_is_placed_the_same_by_both_ways(
        payload in vec(any::<u8>(), 0..40), lengths in vec((0_u32..40, proptest::bool::weighted(0.9)), 0..3),
        is_posted: bool, solicited: bool,
    ) {
        let mut worlds = [World::with_signals(false), World::with_signals(false)];
        let mut seen = Vec::new();
        for (index, world) in worlds.iter_mut().enumerate() {
            let region = world.guarded(80);
            let sges: Vec<Sge> = lengths.iter().map(|&(length, is_there)| {
                Sge { addr: 1003, length, lkey: if is_there { region.stag } else { Stag(region.stag.0 ^ 1) } }
            }).collect();
            if is_posted {
                world.qp.queues().post_recv(&RecvWr { wr_id: 5, sges: &sges }).unwrap();
            }
            let len = u32::try_from(payload.len()).unwrap();
            let opcode = if solicited { Opcode::SendSolicited } else { Opcode::Send };
            let last = Some(SendEnd { len, opcode, invalidate: None });
            let inbound = Inbound::Send { offset: 0, payload: &payload, last };
            let is_placed = index == 0 && world.qp.place_whole(&payload, solicited, &world.memory);
            let outcome = if is_placed { Ok(()) } else { world.qp.apply(inbound, &world.memory) };
            let mut octets = vec![0; 80];
            assert!(region.region.copy_out(0, &mut octets));
            seen.push((outcome, octets, completions(world), world.qp.counters()));
        }
        prop_assert_eq!(&seen[0], &seen[1]);
    }
}

#[test]
fn a_short_message_does_not_overtake() {
    let mut world = World::with_signals(true);
    let mut ulpdu = [0; Short::MAX_ULPDU];
    let send = SendWr::new(SendOpcode::Send);
    let read = SendWr::new(SendOpcode::Read { stag: Stag(7), to: 0 });
    let queues = Arc::clone(world.qp.queues());
    assert!(world.qp.put_short(&world.memory, &mut ulpdu).is_none(), "nothing is posted");
    let post = |data| queues.post_send(&SendWr { data, ..send }).unwrap();
    queues.post_send(&read).unwrap();
    post(Data::Inline(b"12345678"));
    let token = world.qp.next_message(IDLE, &world.memory).unwrap().unwrap().token;
    assert!(world.qp.put_short(&world.memory, &mut ulpdu).is_none(), "the Read is to complete first");
    world.qp.finish(token);
    assert!(world.qp.put_short(&world.memory, &mut ulpdu[..25]).is_none(), "there is no room");
    let short = world.qp.put_short(&world.memory, &mut ulpdu).unwrap();
    assert_eq!((short.message.len, &ulpdu[18..26]), (8, &b"12345678"[..]));
    world.qp.finish_short(&short);
    post(Data::Inline(b""));
    world.qp.drain();
    post(Data::Inline(b"1"));
    let short = world.qp.put_short(&world.memory, &mut ulpdu).unwrap();
    world.qp.finish_short(&short);
    assert!(world.qp.put_short(&world.memory, &mut ulpdu).is_none(), "posted behind the drain");
    world.qp.handle_event(QpEvent::Terminated);
    assert_eq!(queues.state(), QpState::Terminate);
    post(Data::Inline(b"2"));
    assert!(world.qp.put_short(&world.memory, &mut ulpdu).is_none());
}
