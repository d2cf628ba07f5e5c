//! Shared receive queues: the order of requests, limits and sizes, and the rights to use and destroy them.

use weft_netif::Duration;
use weft_rnic::{
    AsyncEvent, CreateError, Data, DestroyError, Errno, ModifyError, Pd, PostError, Qp, QpInit, QpState,
    RecvWr, SendWr, Sge, Srq, SrqAttributes, SrqInit, SrqModify, Status,
};
use weft_tests::{Pair, PairConfig, Side};

use crate::world::{
    CAPACITY, WR, contents, drain, guarded, len32, link_simply, memory_of, outcomes, pattern, qp_on,
};

const INIT: SrqInit = SrqInit { max_wr: 64, max_sge: 4, limit: 0 };

fn qp_with(side: &Side, srq: &Srq) -> Qp {
    let init = QpInit { capacity: CAPACITY, srq: Some(srq), ..QpInit::new(&side.cq, &side.cq) };
    side.device.create_qp(&side.pd, &init).unwrap()
}

fn post(srq: &Srq, wr_id: u64, sges: &[Sge]) {
    srq.post_recv(&RecvWr { wr_id, sges }).unwrap();
}

/// `count` queue pairs of `a`, each connected to one of `b` with the shared receive queue.
fn linked(pair: &mut Pair, srq: &Srq, count: usize) -> Vec<(Qp, Qp)> {
    (0..count)
        .map(|_| {
            let (a, b) = (qp_on(&pair.a, &pair.a.cq), qp_with(&pair.b, srq));
            link_simply(pair, &a, &b);
            (a, b)
        })
        .collect()
}

fn send(qp: &Qp, wr_id: u64, octets: &[u8]) {
    qp.post_send(&SendWr { wr_id, data: Data::Inline(octets), ..WR }).unwrap();
}

/// The events of `b` so far.
fn events(pair: &Pair) -> Vec<AsyncEvent> {
    let channel = pair.b.device.async_channel();
    let all = core::iter::from_fn(|| channel.next());
    all.filter(|event| !matches!(event, AsyncEvent::CommEstablished { .. })).collect()
}

#[test]
fn a_hundred_queue_pairs_share_one_queue() {
    const QPS: usize = 100;
    let mut pair = Pair::new(&PairConfig::default());
    let srq = pair.b.pd.create_srq(&SrqInit { max_wr: 256, ..INIT }).unwrap();
    let qps = linked(&mut pair, &srq, QPS);
    let memory = guarded(&pair.b, 256 * 16);
    for slot in 0..256_usize {
        post(&srq, slot as u64, &[memory.sge(slot * 16, 16)]);
    }
    assert_eq!(srq.post_recv(&RecvWr { wr_id: 0, sges: &[] }), Err(PostError::QueueFull));
    for round in 0..2_u64 {
        for (index, (a, _)) in (0_u64..).zip(&qps) {
            send(a, index, &(index << 8 | round).to_be_bytes());
        }
        pair.settle(Duration::from_millis(10));
    }
    let received = drain(&pair.b.cq);
    assert_eq!(received.len(), 2 * QPS);
    // The requests were taken in order. Each message names its sender, and so does the completion.
    let octets = contents(&memory);
    let mut rounds = [0; QPS];
    for (order, completion) in received.iter().enumerate() {
        assert_eq!((completion.wr_id, completion.status), (order as u64, Status::Success));
        let text: [u8; 8] = octets[order * 16..order * 16 + 8].try_into().unwrap();
        let index = usize::from(text[6]);
        let round = u64::from(text[7]);
        assert_eq!((completion.qp_num, rounds[index]), (qps[index].1.number(), round));
        rounds[index] += 1;
    }
    let expected = SrqAttributes { max_wr: 256, max_sge: 4, limit: 0, posted: 56, users: QPS };
    assert_eq!(srq.query(), expected);
}

#[test]
fn requests_end_in_another_order_than_they_were_taken_in() {
    let mut pair = Pair::new(&PairConfig::default());
    let srq = pair.b.pd.create_srq(&SrqInit { max_wr: 4, ..INIT }).unwrap();
    let qps = linked(&mut pair, &srq, 2);
    let text = pattern(1 << 20, 3);
    let (source, sink) = (memory_of(&pair.a, &text), guarded(&pair.b, text.len()));
    let small = guarded(&pair.b, 64);
    post(&srq, 1, &[sink.sge(0, len32(text.len()))]);
    qps[0].0.post_send(&SendWr { data: Data::Sges(&[source.sge(0, 1 << 20)]), ..WR }).unwrap();
    let device = pair.b.device.clone();
    pair.wait(|| (device.counters().received.by_opcode[crate::world::SEND] > 4).then_some(())).unwrap();
    assert_eq!(drain(&pair.b.cq), [], "the long message is on its way");
    // The long message has the fourth place until its completion is polled.
    for (wr_id, offset) in [(2, 0), (3, 32), (4, 0)] {
        post(&srq, wr_id, &[small.sge(offset, 32)]);
    }
    let fifth = || srq.post_recv(&RecvWr { wr_id: 5, sges: &[] });
    assert_eq!(fifth(), Err(PostError::QueueFull));
    send(&qps[1].0, 0, b"overtakes");
    assert_eq!(pair.completion_of_b().wr_id, 2);
    assert_eq!([fifth(), fifth()], [Ok(()), Err(PostError::QueueFull)]);
    send(&qps[1].0, 0, b"again");
    let rest = [pair.completion_of_b(), pair.completion_of_b()];
    assert_eq!(outcomes(&rest), [(3, Status::Success), (1, Status::Success)]);
    assert_eq!([rest[0].qp_num, rest[1].qp_num], [qps[1].1.number(), qps[0].1.number()]);
    assert!(contents(&sink) == text && &contents(&small)[..9] == b"overtakes");
}

#[test]
fn the_limit_makes_one_event_each_time_it_is_asked_for() {
    let mut pair = Pair::new(&PairConfig::default());
    let srq = pair.b.pd.create_srq(&INIT).unwrap();
    let qps = linked(&mut pair, &srq, 2);
    let arm = |limit| srq.modify(&SrqModify { limit: Some(limit), max_wr: None });
    let turn = |pair: &mut Pair, sender: usize| {
        send(&qps[sender].0, 0, b"x");
        pair.settle(Duration::from_millis(1));
        events(pair)
    };
    let memory = pair.b.memory(16);
    let refill = || (0..4).for_each(|wr_id| post(&srq, wr_id, &[memory.sge(0, 16)]));
    refill();
    let event = AsyncEvent::SrqLimitReached { srq: srq.id() };
    assert_eq!(turn(&mut pair, 0), [], "no limit is set");
    assert_eq!((arm(2), srq.query().limit), (Ok(()), 2));
    assert_eq!(turn(&mut pair, 1), [], "two are left");
    assert_eq!(turn(&mut pair, 0), [event]);
    assert_eq!(srq.query().limit, 0, "it is asked for anew each time");
    refill();
    assert_eq!(turn(&mut pair, 1), []);
    assert_eq!(arm(4), Ok(()));
    assert_eq!(turn(&mut pair, 0), [event]);
    assert_eq!((arm(4), arm(0)), (Ok(()), Ok(())));
    assert_eq!(turn(&mut pair, 0), [], "the wish was taken back");
    assert_eq!(arm(65), Err(ModifyError::TooLarge { what: "requests for a limit", max: 64 }));
}

#[test]
fn the_size_changes_during_use() {
    let mut pair = Pair::new(&PairConfig::default());
    let srq = pair.b.pd.create_srq(&SrqInit { max_wr: 4, ..INIT }).unwrap();
    let qps = linked(&mut pair, &srq, 2);
    let resize = |max_wr| srq.modify(&SrqModify { max_wr: Some(max_wr), limit: None });
    let memory = pair.b.memory(16);
    (0..4).for_each(|wr_id| post(&srq, wr_id, &[memory.sge(0, 16)]));
    send(&qps[0].0, 0, b"x");
    assert_eq!(pair.completion_of_b().wr_id, 0);
    assert_eq!(resize(2), Err(ModifyError::TooSmall));
    assert_eq!((resize(8), srq.query().max_wr), (Ok(()), 8));
    (4..9).for_each(|wr_id| post(&srq, wr_id, &[memory.sge(0, 16)]));
    assert_eq!(srq.post_recv(&RecvWr { wr_id: 9, sges: &[] }), Err(PostError::QueueFull));
    for (wr_id, (sender, _)) in (1..9).zip(qps.iter().cycle()) {
        send(sender, 0, b"x");
        assert_eq!(pair.completion_of_b().wr_id, wr_id);
    }
    assert_eq!((resize(1), srq.query().max_wr), (Ok(()), 1));
    let too_large = ModifyError::TooLarge { what: "receive requests", max: 1 << 16 };
    assert_eq!((resize(1 << 17), too_large.errno()), (Err(too_large), Errno::Inval));
    // Both at once: the limit is checked against the new size, and a refusal changes nothing.
    let both = |max_wr, limit| srq.modify(&SrqModify { max_wr: Some(max_wr), limit: Some(limit) });
    assert!(both(4, 5).is_err());
    assert_eq!((srq.query().max_wr, both(4, 4)), (1, Ok(())));
    assert_eq!((srq.query().max_wr, srq.query().limit), (4, 4));
}

#[test]
fn an_end_flushes_only_what_the_queue_pair_has_taken() {
    let mut pair = Pair::new(&PairConfig::default());
    let srq = pair.b.pd.create_srq(&INIT).unwrap();
    let qps = linked(&mut pair, &srq, 2);
    let (source, sink) = (pair.a.memory(1 << 20), pair.b.memory(1 << 20));
    for wr_id in 1..4 {
        post(&srq, wr_id, &[sink.sge(0, 1 << 20)]);
    }
    qps[0].0.post_send(&SendWr { data: Data::Sges(&[source.sge(0, 1 << 20)]), ..WR }).unwrap();
    let device = pair.b.device.clone();
    pair.wait(|| (device.counters().received.by_opcode[crate::world::SEND] > 4).then_some(())).unwrap();
    let number = qps[0].1.number();
    qps[0].1.disconnect().unwrap();
    assert_eq!(outcomes(&drain(&pair.b.cq)), [(1, Status::WorkRequestFlushed)]);
    assert_eq!(events(&pair), [AsyncEvent::LastWqeReached { qp_num: number }]);
    pair.settle(Duration::from_secs(60));
    assert_eq!((qps[0].1.state(), events(&pair)), (QpState::Error, vec![]), "told once");
    assert_eq!(srq.query().posted, 2);
    send(&qps[1].0, 0, b"goes on");
    assert_eq!(pair.completion_of_b().wr_id, 2);
}

#[test]
fn without_a_request_the_stream_ends() {
    let mut pair = Pair::new(&PairConfig::default());
    let srq = pair.b.pd.create_srq(&SrqInit { limit: 1, ..INIT }).unwrap();
    let qps = linked(&mut pair, &srq, 2);
    let qp_num = qps[0].1.number();
    send(&qps[0].0, 0, b"too early");
    pair.settle(Duration::from_secs(1));
    let expected = [
        AsyncEvent::QpRequestError { qp_num },
        AsyncEvent::LastWqeReached { qp_num },
        AsyncEvent::SrqLimitReached { srq: srq.id() },
    ];
    assert_eq!(events(&pair), expected);
    assert_eq!((qps[0].1.state(), qps[1].1.state()), (QpState::Error, QpState::Rts));
}

#[test]
fn rights_to_use_and_destroy_a_shared_queue() {
    let pair = Pair::new(&PairConfig::default());
    let (a, b) = (&pair.a, &pair.b);
    let srq = b.pd.create_srq(&INIT).unwrap();
    let init = QpInit { srq: Some(&srq), ..QpInit::new(&b.cq, &b.cq) };
    let create = |pd: &Pd| b.device.create_qp(pd, &init).err();
    assert_eq!(create(&b.device.alloc_pd()), Some(CreateError::WrongPd));
    assert_eq!(create(&a.pd), Some(CreateError::ForeignObject));
    let foreign = QpInit { srq: Some(&srq), ..QpInit::new(&a.cq, &a.cq) };
    assert_eq!(a.device.create_qp(&a.pd, &foreign).err(), Some(CreateError::ForeignObject));

    let qp = b.device.create_qp(&b.pd, &init).unwrap();
    let refused = qp.post_recv(&RecvWr { wr_id: 0, sges: &[] }).unwrap_err();
    assert_eq!((refused, refused.errno()), (PostError::SharedQueue, Errno::Inval));
    let sge = b.memory(1).sge(0, 1);
    let post = |sges: &[Sge]| srq.post_recv(&RecvWr { wr_id: 0, sges });
    assert_eq!(post(&[sge; 5]), Err(PostError::TooManySges));
    assert_eq!(post(&[Sge { length: u32::MAX, ..sge }; 2]), Err(PostError::TooLong));

    let (srq, error) = srq.destroy().unwrap_err();
    assert_eq!((error, error.errno()), (DestroyError::Busy, Errno::Busy));
    drop(qp);
    assert!(srq.destroy().is_ok());
}

#[test]
fn a_handle_that_is_dropped_leaves_the_queue_to_its_queue_pairs() {
    let mut pair = Pair::new(&PairConfig::default());
    let srq = pair.b.pd.create_srq(&INIT).unwrap();
    let qps = linked(&mut pair, &srq, 1);
    let memory = pair.b.memory(16);
    post(&srq, 1, &[memory.sge(0, 16)]);
    drop(srq);
    send(&qps[0].0, 0, b"still there");
    assert_eq!(outcomes(&[pair.completion_of_b()]), [(1, Status::Success)]);
}

#[test]
fn the_settings_limit_the_number_of_shared_queues() {
    let (wire, _peer) = weft_netif::pair(1500);
    let mut config = weft_rnic::Config::new("10.0.0.1/24".parse().unwrap(), 1);
    config.max_srqs = 2;
    let pd = weft_rnic::Device::open(wire, config).unwrap().alloc_pd();
    let first = pd.create_srq(&INIT).unwrap();
    let _second = pd.create_srq(&INIT).unwrap();
    let error = pd.create_srq(&INIT).unwrap_err();
    assert_eq!((error, error.errno()), (CreateError::TooManySrqs, Errno::NoMem));
    first.destroy().unwrap();
    assert!(pd.create_srq(&INIT).is_ok());
    for init in
        [SrqInit { max_wr: 1 << 17, ..INIT }, SrqInit { max_sge: 33, ..INIT }, SrqInit { limit: 65, ..INIT }]
    {
        assert!(matches!(pd.create_srq(&init), Err(CreateError::TooLarge { .. })), "{init:?}");
    }
}
