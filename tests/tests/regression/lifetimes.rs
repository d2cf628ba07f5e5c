//! Objects that lived too long, or came back too soon.

use std::time::Duration as RealDuration;

use weft_netif::Duration;
use weft_rnic::{
    CmEvent, Config, ConnParam, Data, Device, DisconnectReason, QpInit, SendOpcode, SendWr, Stag, Status,
};
use weft_tests::{Pair, PairConfig};

/// A peer that connects, sends a Request and leaves must not fill the event channel of a listener that reads no
/// events.
#[test]
fn requests_of_peers_that_have_left_are_dropped() {
    let mut pair = Pair::new(&PairConfig::default());
    let param = ConnParam { private_data: &[7; 508], ..ConnParam::default() };
    for _ in 0..200 {
        let init = QpInit::new(&pair.a.cq, &pair.a.cq);
        let qp = pair.a.device.create_qp(&pair.a.pd, &init).unwrap();
        pair.a.device.connect(&pair.a.events, &qp, pair.address_of_b(), param).unwrap();
        pair.settle(Duration::from_millis(50));
        drop(qp);
        pair.settle(Duration::from_millis(50));
    }
    assert_eq!(pair.b.events.next(), None);
}

/// An application drops its queue pair when it learns of the end. The Terminate still has to arrive.
#[test]
fn a_terminate_outlives_the_queue_pair() {
    let mut pair = Pair::connected(&PairConfig::default());
    let memory = pair.a.memory(8);
    let write = SendWr {
        wr_id: 1,
        opcode: SendOpcode::Write { stag: Stag(0xDEAD_BEEF), to: 0 },
        data: Data::Sges(&[memory.sge(0, 8)]),
        signaled: true,
        fence: false,
        solicited: false,
    };
    pair.a.qp.post_send(&write).unwrap();
    assert_eq!(pair.completion_of_a().status, Status::Success);
    let events = pair.b.events.clone();
    let reason = pair.wait(|| match events.next() {
        Some(CmEvent::Disconnected { reason, .. }) => Some(reason),
        _ => None,
    });
    assert!(matches!(reason, Some(DisconnectReason::LocalTerminate(_))), "{reason:?}");
    let init = QpInit::new(&pair.b.cq, &pair.b.cq);
    let other = pair.b.device.create_qp(&pair.b.pd, &init).unwrap();
    drop(core::mem::replace(&mut pair.b.qp, other));
    let CmEvent::Disconnected { reason, .. } = pair.event_of_a() else { panic!("no end at the peer") };
    assert!(matches!(reason, DisconnectReason::PeerTerminate { code: (0x1, 0x1, 0x00), .. }), "{reason:?}");
}

/// A completion or event that comes late must not look like one of the next queue pair.
#[test]
fn numbers_of_queue_pairs_rest_before_they_are_used_again() {
    let pair = Pair::new(&PairConfig::default());
    let a = &pair.a;
    let init = QpInit::new(&a.cq, &a.cq);
    let mut last = 0;
    for _ in 0..200 {
        let number = a.device.create_qp(&a.pd, &init).unwrap().number();
        assert_ne!(number, last);
        last = number;
    }
    assert!(last < 100, "slots are used again: {last}");
}

/// The longest possible time means for ever, and causes no panic.
#[test]
fn a_wait_may_have_the_longest_duration() {
    let (wire, _peer) = weft_netif::pair(1500);
    let device = Device::open(wire, Config::new("10.0.0.1/24".parse().unwrap(), 1)).unwrap();
    let cq = device.create_cq(4, None).unwrap();
    let init = QpInit::new(&cq, &cq);
    let qp = device.create_qp(&device.alloc_pd(), &init).unwrap();
    let events = device.create_event_channel().unwrap();
    // No program listens on the device's own address. The device finds that out without a wire.
    device.connect(&events, &qp, device.address(1), ConnParam::default()).unwrap();
    let event = events.wait(Some(RealDuration::MAX));
    assert!(matches!(event, Some(CmEvent::ConnectError { .. })), "{event:?}");
}
