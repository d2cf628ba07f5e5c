//! Query and modify of queue pairs.

use weft_netif::Duration;
use weft_rnic::{
    AsyncEvent, Cause, CmEvent, ConnParam, Data, DisconnectReason, Errno, ModifyError, PostError, QpCapacity,
    QpInit, QpModify, QpState, SendWr, SrqInit, Status,
};
use weft_tests::{Pair, PairConfig, Side};

use crate::world::{
    WR, connected, contents, drain, end_of_a, end_of_b, guarded, len32, memory_of, outcomes, pattern,
    post_recv, read_from, terminate_code,
};

const TO_ERROR: QpModify = QpModify { state: Some(QpState::Error), rnr_wait: None, ird: None, ord: None };
const TO_CLOSING: QpModify = QpModify { state: Some(QpState::Closing), ..TO_ERROR };
const TO_TERMINATE: QpModify = QpModify { state: Some(QpState::Terminate), ..TO_ERROR };

fn events(side: &Side) -> Vec<AsyncEvent> {
    let channel = side.device.async_channel();
    let all = core::iter::from_fn(|| channel.next());
    all.filter(|event| !matches!(event, AsyncEvent::CommEstablished { .. })).collect()
}

#[test]
fn a_fresh_queue_pair_says_what_it_was_made_with() {
    let pair = Pair::new(&PairConfig::default());
    let b = &pair.b;
    let other = b.device.create_cq(16, None).unwrap();
    let capacity = QpCapacity { send_wr: 100, recv_wr: 3, send_sge: 17, recv_sge: 32, inline: 300 };
    let init = QpInit { capacity, signal_all: true, rnr_wait: true, ..QpInit::new(&b.cq, &other) };
    let qp = b.device.create_qp(&b.pd, &init).unwrap();
    let seen = qp.query().unwrap();
    assert_eq!((seen.qp_num, seen.state, seen.is_draining), (qp.number(), QpState::Idle, false));
    assert_eq!((seen.send_cq, seen.recv_cq, seen.srq), (b.cq.id(), other.id(), None));
    assert_eq!((seen.signal_all, seen.rnr_wait, seen.connection), (true, true, None));
    // The rings have powers of two.
    assert_eq!(seen.capacity, QpCapacity { send_wr: 128, recv_wr: 4, ..capacity });
    let first = pair.b.qp.query().unwrap();
    assert_eq!((seen.pd, first.signal_all, first.rnr_wait), (first.pd, false, false));

    let srq = b.pd.create_srq(&SrqInit { max_wr: 4, max_sge: 1, limit: 0 }).unwrap();
    let init = QpInit { srq: Some(&srq), ..QpInit::new(&b.cq, &b.cq) };
    let seen = b.device.create_qp(&b.device.alloc_pd(), &init).err();
    assert!(seen.is_some());
    let seen = b.device.create_qp(&b.pd, &init).unwrap().query().unwrap();
    assert_eq!((seen.srq, seen.capacity.recv_wr, seen.capacity.recv_sge), (Some(srq.id()), 0, 0));
}

#[test]
fn a_connected_one_says_what_startup_agreed_on() {
    let mpa = weft_mpa::Config { markers: true, ird: 7, ord: 5, ..weft_mpa::Config::default() };
    let mut pair = Pair::new(&PairConfig { mpa, mtu: 9000, ..PairConfig::default() });
    pair.connect(true);
    pair.settle(Duration::from_millis(1));
    let [a, b] = [&pair.a, &pair.b].map(|side| side.qp.query().unwrap());
    let [one, other] = [a, b].map(|seen| seen.connection.unwrap());
    assert_eq!([a.state, b.state], [QpState::Rts; 2]);
    assert_eq!((one.local, one.peer), (Some(other.peer), pair.address_of_b()));
    assert_eq!((one.ird, one.ord, other.ird, other.ord), (7, 5, 7, 5));
    assert_eq!([one.crc, one.send_markers, one.receive_markers], [true; 3]);
    // The MTU of 9000 less the headers of IP and TCP. Of that go a Marker each 512 octets, length and CRC (RFC 5044
    // section 5.1).
    assert_eq!((one.emss, one.mulpdu), (8960, 8960 - (6 + 4 * (8960 / 512 + 1))));
    post_recv(&pair.b.qp, 1, &[]);
    pair.a.qp.post_send(&WR).unwrap();
    pair.settle(Duration::from_millis(1));
    assert_eq!(pair.a.qp.query().unwrap().counters.sends_started, 1);
    assert_eq!(pair.b.qp.query().unwrap().counters.receives_started, 1);
    pair.a.qp.disconnect().unwrap();
    end_of_b(&mut pair);
    pair.settle(Duration::from_secs(60));
    let gone = pair.a.qp.query().unwrap();
    assert_eq!((gone.state, gone.connection), (QpState::Error, None));
}

/// Every pair of a state and a wanted state, listed by hand.
#[test]
fn each_state_allows_its_transitions() {
    use QpState::{Closing, Error, Idle, Rts, Terminate};
    let all = [Idle, Rts, Closing, Terminate, Error];
    let allowed = |from: QpState, to: QpState| {
        from == to || to == Error || from == Rts && matches!(to, Closing | Terminate)
    };
    for from in all {
        for to in all {
            let mut pair = Pair::new(&PairConfig::default());
            if from != Idle {
                pair.connect(true);
            }
            match from {
                Idle | Rts => {}
                Closing => pair.a.qp.disconnect().unwrap(),
                Terminate => pair.a.qp.modify(&TO_TERMINATE).unwrap(),
                Error => pair.a.qp.modify(&TO_ERROR).unwrap(),
            }
            assert_eq!(pair.a.qp.state(), from);
            let wanted = if allowed(from, to) { Ok(()) } else { Err(ModifyError::InvalidState) };
            let outcome = pair.a.qp.modify(&QpModify { state: Some(to), ..QpModify::default() });
            assert_eq!((outcome, pair.a.qp.state()), (wanted, if wanted.is_ok() { to } else { from }));
            if let Err(error) = outcome {
                assert_eq!(error.errno(), Errno::Inval);
            }
        }
    }
}

#[test]
fn to_error_flushes_and_resets() {
    let mut pair = connected();
    let (sink, source) = (pair.a.memory(8), pair.b.memory(8));
    let sge = [sink.sge(0, 8)];
    let read = SendWr { wr_id: 1, opcode: read_from(&source, 0), data: Data::Sges(&sge), ..WR };
    pair.a.qp.post_sends(&[read, SendWr { wr_id: 2, signaled: false, ..WR }]).unwrap();
    post_recv(&pair.a.qp, 3, &[]);
    pair.a.qp.modify(&TO_ERROR).unwrap();
    let flushed = [1, 2, 3].map(|wr_id| (wr_id, Status::WorkRequestFlushed));
    assert_eq!((outcomes(&drain(&pair.a.cq)), pair.a.qp.state()), (flushed.to_vec(), QpState::Error));
    assert_eq!([end_of_a(&mut pair), end_of_b(&mut pair)], [DisconnectReason::Local, DisconnectReason::Lost]);
    assert_eq!(events(&pair.a), [], "the application asked for it");
    assert_eq!(events(&pair.b), [AsyncEvent::QpFatal { qp_num: pair.b.qp.number() }]);

    // Without a connection, and while one is established.
    let pair = Pair::new(&PairConfig::default());
    post_recv(&pair.a.qp, 4, &[]);
    pair.a.qp.modify(&TO_ERROR).unwrap();
    assert_eq!(outcomes(&drain(&pair.a.cq)), [(4, Status::WorkRequestFlushed)]);
    pair.b
        .device
        .connect(&pair.b.events, &pair.b.qp, "10.0.0.1:9".parse().unwrap(), ConnParam::default())
        .unwrap();
    pair.b.qp.modify(&TO_ERROR).unwrap();
    assert_eq!((pair.b.qp.state(), pair.b.qp.post_send(&WR)), (QpState::Error, Ok(())));
}

#[test]
fn to_terminate_tells_the_peer() {
    let mut pair = connected();
    post_recv(&pair.a.qp, 1, &[]);
    pair.a.qp.modify(&TO_TERMINATE).unwrap();
    assert_eq!(pair.a.qp.state(), QpState::Terminate);
    assert_eq!(outcomes(&drain(&pair.a.cq)), [(1, Status::WorkRequestFlushed)]);
    assert_eq!(end_of_a(&mut pair), DisconnectReason::LocalTerminate(Cause::Requested));
    assert_eq!((terminate_code(&end_of_b(&mut pair)), events(&pair.a)), ((0, 0, 0), vec![]));
}

#[test]
fn to_closing_finishes_posted_requests_and_closes() {
    const LEN: usize = 300_000;
    let mut pair = connected();
    let text = pattern(LEN, 4);
    let (source, inbox, sink) = (memory_of(&pair.a, &text), guarded(&pair.b, LEN), guarded(&pair.a, 8));
    let far = memory_of(&pair.b, b"far away");
    post_recv(&pair.b.qp, 9, &[inbox.sge(0, len32(LEN))]);
    let (long, short) = ([source.sge(0, len32(LEN))], [sink.sge(0, 8)]);
    let send = SendWr { wr_id: 1, data: Data::Sges(&long), ..WR };
    let read = SendWr { wr_id: 2, opcode: read_from(&far, 0), data: Data::Sges(&short), ..WR };
    pair.a.qp.post_sends(&[send, read]).unwrap();
    pair.a.qp.modify(&TO_CLOSING).unwrap();
    assert_eq!((pair.a.qp.state(), pair.a.qp.query().unwrap().is_draining), (QpState::Rts, true));
    pair.a.qp.post_send(&SendWr { wr_id: 3, ..WR }).unwrap();
    assert_eq!([end_of_a(&mut pair), end_of_b(&mut pair)], [DisconnectReason::Local, DisconnectReason::Peer]);
    let ends = [(1, Status::Success), (2, Status::Success), (3, Status::WorkRequestFlushed)];
    assert_eq!(outcomes(&drain(&pair.a.cq)), ends);
    assert_eq!(outcomes(&drain(&pair.b.cq)), [(9, Status::Success)]);
    assert!(contents(&inbox) == text && contents(&sink) == b"far away");
    assert_eq!(events(&pair.a), [AsyncEvent::SqDrained { qp_num: pair.a.qp.number() }]);
    assert!(!pair.a.qp.query().unwrap().is_draining);

    // With nothing to do it closes at once.
    let mut pair = connected();
    pair.b.qp.modify(&TO_CLOSING).unwrap();
    assert_eq!(pair.b.qp.state(), QpState::Closing);
    assert_eq!(end_of_a(&mut pair), DisconnectReason::Peer);
}

#[test]
fn depths_are_those_of_the_queue_pair() {
    let mut pair = Pair::new(&PairConfig::default());
    let depths = |ird, ord| QpModify { ird: Some(ird), ord: Some(ord), ..QpModify::default() };
    assert_eq!(pair.a.qp.modify(&depths(3, 200)), Err(ModifyError::TooLarge { what: "Reads", max: 128 }));
    pair.a.qp.modify(&depths(3, 2)).unwrap();
    pair.b.qp.modify(&depths(9, 9)).unwrap();
    pair.connect(true);
    let [a, b] = [&pair.a, &pair.b].map(|side| side.qp.query().unwrap().connection.unwrap());
    assert_eq!(((a.ird, a.ord), (b.ird, b.ord)), ((3, 2), (9, 3)), "no ORD is larger than the other's IRD");
    assert_eq!(pair.a.qp.modify(&depths(1, 1)), Err(ModifyError::InvalidState));
    // The depths of the connect call have precedence.
    let mut pair = Pair::new(&PairConfig::default());
    pair.a.qp.modify(&depths(3, 2)).unwrap();
    let param = ConnParam { ird: Some(4), ..ConnParam::default() };
    pair.a.device.connect(&pair.a.events, &pair.a.qp, pair.address_of_b(), param).unwrap();
    assert_eq!(pair.a.qp.modify(&depths(1, 1)), Err(ModifyError::InvalidState), "the Request may be sent");
    let CmEvent::ConnectRequest(request) = pair.event_of_b() else { panic!("no request") };
    assert_eq!((request.ird, request.ord), (Some(4), Some(2)));
}

#[test]
fn waiting_for_receives_can_be_changed_while_a_message_waits() {
    let mut pair = connected();
    let wait = |wait| QpModify { rnr_wait: Some(wait), ..QpModify::default() };
    pair.b.qp.modify(&wait(true)).unwrap();
    pair.a.qp.post_send(&SendWr { wr_id: 1, data: Data::Inline(b"early"), ..WR }).unwrap();
    pair.settle(Duration::from_secs(60));
    assert_eq!(
        ([pair.a.qp.state(), pair.b.qp.state()], pair.b.qp.query().unwrap().rnr_wait),
        ([QpState::Rts; 2], true)
    );
    pair.b.qp.modify(&wait(false)).unwrap();
    let no_buffer = Cause::Peer(weft_ddp::Error::NoBuffer.into());
    assert_eq!(end_of_b(&mut pair), DisconnectReason::LocalTerminate(no_buffer));
}

/// The errors of posting have the numbers of `ibv_post_send`.
#[test]
fn numbers_of_errors() {
    let numbers =
        [PostError::QueueFull, PostError::TooManySges, PostError::Unsupported].map(PostError::errno);
    assert_eq!(numbers, [Errno::NoMem, Errno::Inval, Errno::OpNotSupp]);
    assert_eq!(numbers.map(Errno::code), [12, 22, 95]);
}
