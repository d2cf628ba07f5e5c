//! Objects of one device do not work with those of another.

use weft_rnic::{CmError, ConnParam, CreateError, QpCapacity, QpInit};
use weft_tests::{PORT, Pair, PairConfig};

#[test]
fn handles_of_another_device_are_refused() {
    let pair = Pair::new(&PairConfig::default());
    let (a, b) = (&pair.a, &pair.b);
    let remote = pair.address_of_b();
    let connect = |events, qp| a.device.connect(events, qp, remote, ConnParam::default());
    assert_eq!(connect(&a.events, &b.qp), Err(CmError::ForeignObject));
    assert_eq!(connect(&b.events, &a.qp), Err(CmError::ForeignObject));
    assert_eq!(a.device.listen(&b.events, PORT).err(), Some(CmError::ForeignObject));

    let create = |pd, send_cq, recv_cq| {
        let init = QpInit::new(send_cq, recv_cq);
        a.device.create_qp(pd, &init).err()
    };
    assert_eq!(create(&a.pd, &a.cq, &a.cq), None);
    assert_eq!(create(&b.pd, &a.cq, &a.cq), Some(CreateError::ForeignObject));
    assert_eq!(create(&a.pd, &b.cq, &a.cq), Some(CreateError::ForeignObject));
    assert_eq!(create(&a.pd, &a.cq, &b.cq), Some(CreateError::ForeignObject));
    let channel = b.device.create_comp_channel().unwrap();
    assert_eq!(a.device.create_cq(1, Some(&channel)).err(), Some(CreateError::ForeignObject));
}

#[test]
fn queues_beyond_reason_are_refused() {
    let pair = Pair::new(&PairConfig::default());
    let a = &pair.a;
    let create = |capacity| {
        let init = QpInit { capacity, ..QpInit::new(&a.cq, &a.cq) };
        a.device.create_qp(&a.pd, &init).err()
    };
    let good = QpCapacity::default();
    let too_large = |what, wanted, max| Some(CreateError::TooLarge { what, wanted, max });
    assert_eq!(create(QpCapacity { send_wr: 65_537, ..good }), too_large("send requests", 65_537, 65_536));
    assert_eq!(
        create(QpCapacity { recv_wr: u32::MAX, ..good }),
        too_large("receive requests", 4_294_967_295, 65_536)
    );
    assert_eq!(create(QpCapacity { recv_sge: 33, ..good }), too_large("scatter-gather elements", 33, 32));
    assert_eq!(create(QpCapacity { inline: 1025, ..good }), too_large("inline octets", 1025, 1024));
    let most = QpCapacity { send_wr: 16, recv_wr: 16, send_sge: 32, recv_sge: 32, inline: 1024 };
    assert_eq!(create(most), None);
    assert!(a.device.create_cq(u32::MAX, None).is_err());
}
