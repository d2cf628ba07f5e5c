//! A second connection of a device after an arbitrary first one.

use weft_rnic::{
    Access, CmEvent, ConnParam, Cq, Data, Device, EventChannel, Pd, Qp, QpCapacity, QpInit, RecvWr,
    SendOpcode, SendWr, Status,
};

use super::ledger::Ledger;
use super::opponent::{MOMENT, Opponent};
use super::startup;
use super::ulpdu::{patch, untagged};
use crate::{PORT, RawHost};

/// Establishes a connection from `host` and exchanges a Send in each direction.
///
/// # Panics
/// If that fails.
pub(super) fn serve_another(device: &Device, host: &RawHost, events: &EventChannel) {
    let pd = device.alloc_pd();
    let cq = device.create_cq(8, None).expect("a completion queue");
    let qp = create_qp(device, &pd, &cq, true);
    let mut ledger = Ledger::new(&pd, &pd, &qp);
    let memory = pd.register(16, Access::LOCAL_WRITE).expect("memory");
    qp.post_recv(&RecvWr { wr_id: 1, sges: &[memory.sge(4, 8)] }).expect("an empty queue");

    let mut opponent = Opponent::new(host, host.connect(device.address(PORT)), true);
    // The device may be configured without RFC 6581.
    let config = weft_mpa::Config { enhanced: false, ..weft_mpa::Config::default() };
    opponent.send(&startup::request(&config), &mut ledger);
    let request = core::iter::from_fn(|| events.next()).find_map(|event| match event {
        CmEvent::ConnectRequest(request) => Some(request),
        _ => None,
    });
    let request = request.expect("a connect request");
    device.accept(request.id, &qp, ConnParam::default()).expect("a fresh queue pair");
    host.settle(MOMENT);
    opponent.absorb(&mut ledger);
    assert!(opponent.is_operating(), "no second connection is established");

    let mut ulpdu = untagged(true, 0x3, 0, 0, b"ping");
    patch(&mut ulpdu, &opponent, &ledger);
    let fpdu = opponent.frame(&ulpdu);
    opponent.send(&fpdu, &mut ledger);
    let completion = cq.poll_one().expect("the Send was delivered");
    assert_eq!((completion.wr_id, completion.status, completion.byte_len), (1, Status::Success, 4));
    let mut octets = [0; 16];
    memory.read(0, &mut octets).expect("inside the region");
    assert_eq!(octets, *b"\0\0\0\0ping\0\0\0\0\0\0\0\0");

    let opcode = SendOpcode::Send;
    let data = Data::Inline(b"pong");
    qp.post_send(&SendWr { wr_id: 2, opcode, data, signaled: true, fence: false, solicited: false })
        .expect("an empty queue");
    host.settle(MOMENT);
    opponent.absorb(&mut ledger);
    let completion = cq.poll_one().expect("the Send went out");
    assert_eq!((completion.wr_id, completion.status), (2, Status::Success));
}

pub(super) fn create_qp(device: &Device, pd: &Pd, cq: &Cq, signal_all: bool) -> Qp {
    let capacity = QpCapacity { send_wr: 16, recv_wr: 16, send_sge: 4, recv_sge: 4, inline: 64 };
    let init = QpInit { capacity, signal_all, ..QpInit::new(cq, cq) };
    device.create_qp(pd, &init).expect("a queue pair")
}
