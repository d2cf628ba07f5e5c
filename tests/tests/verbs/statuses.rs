//! Every status of a completion, caused between two devices, and its effect on the other side's application. A bad
//! response needs a peer that breaks rules: see `rdmap_reads` of the conformance tests.

use weft_netif::Duration;
use weft_rnic::{Completion, CompletionOpcode, ConnParam, Data, SendOpcode, SendWr, Sge, Stag, Status};
use weft_tests::{Pair, PairConfig};

use crate::world::{
    CAPACITY, WR, connected, drain, len32, link, memory_of, outcomes, post_recv, qp_on, read_from, write_to,
};

const LONG: usize = 1 << 20;

/// Posts `wr` and one more request at `a`. Returns how the first ends; the second is always flushed.
fn end_of(pair: &mut Pair, wr: &SendWr<'_>) -> Completion {
    pair.a.qp.post_sends(&[SendWr { wr_id: 1, ..*wr }, SendWr { wr_id: 2, ..WR }]).unwrap();
    let ends = [pair.completion_of_a(), pair.completion_of_a()];
    assert_eq!(ends.map(|end| end.wr_id), [1, 2]);
    assert_eq!((ends[1].status, ends[1].vendor_err), (Status::WorkRequestFlushed, 0));
    ends[0]
}

#[test]
fn statuses_of_local_faults() {
    let gone = |pair: &Pair| pair.a.memory(8).sge(0, 8);
    let mut pair = connected();
    let sge = [gone(&pair)];
    let end = end_of(&mut pair, &SendWr { data: Data::Sges(&sge), ..WR });
    assert_eq!((end.status, end.vendor_err), (Status::LocalProtection, 0));

    // Outside of the bounds, and without the right to write.
    let mut pair = connected();
    let (source, target) = (memory_of(&pair.a, b"octets"), pair.b.memory(8));
    let sge = [source.sge(0, 7)];
    let end = end_of(&mut pair, &SendWr { opcode: write_to(&target, 0), data: Data::Sges(&sge), ..WR });
    assert_eq!(end.status, Status::LocalProtection);
    let mut pair = connected();
    let (sink, source) = (pair.a.pd.register(8, weft_rnic::Access::LOCAL_READ).unwrap(), pair.b.memory(8));
    let sge = [sink.sge(0, 8)];
    let end = end_of(&mut pair, &SendWr { opcode: read_from(&source, 0), data: Data::Sges(&sge), ..WR });
    assert_eq!(end.status, Status::LocalProtection);

    // A Local Invalidate of an unknown STag.
    let mut pair = connected();
    let opcode = SendOpcode::LocalInvalidate { stag: Stag(0xDEAD_0000) };
    let end = end_of(&mut pair, &SendWr { opcode, ..WR });
    assert_eq!(end.status, Status::MemoryWindowBind);
}

/// A Read on a connection whose peer takes none can never be sent.
#[test]
fn a_read_that_the_peer_cannot_take() {
    let mut pair = Pair::new(&PairConfig { capacity: CAPACITY, ..PairConfig::default() });
    let (a, b) = (qp_on(&pair.a, &pair.a.cq), qp_on(&pair.b, &pair.b.cq));
    let no_reads = ConnParam { ird: Some(0), ord: Some(0), ..ConnParam::default() };
    assert_eq!(link(&mut pair, &a, &b, [no_reads; 2]), [(0, 0); 2]);
    let (sink, source) = (pair.a.memory(8), pair.b.memory(8));
    let sge = [sink.sge(0, 8)];
    a.post_send(&SendWr { wr_id: 1, opcode: read_from(&source, 0), data: Data::Sges(&sge), ..WR }).unwrap();
    assert_eq!(outcomes(&[pair.completion_of_a()]), [(1, Status::LocalQpOperation)]);
}

#[test]
fn statuses_of_bad_receives() {
    let cases: [(usize, bool, Status); 2] =
        [(4, false, Status::LocalLength), (8, true, Status::LocalProtection)];
    for (len, is_gone, status) in cases {
        let mut pair = connected();
        let inbox = pair.b.memory(8);
        let sge = inbox.sge(0, len32(len));
        let kept = (!is_gone).then_some(inbox);
        post_recv(&pair.b.qp, 7, &[sge]);
        post_recv(&pair.b.qp, 8, &[]);
        pair.a.qp.post_send(&SendWr { data: Data::Inline(b"8 octets"), ..WR }).unwrap();
        let ends = [pair.completion_of_b(), pair.completion_of_b()];
        assert_eq!(outcomes(&ends), [(7, status), (8, Status::WorkRequestFlushed)]);
        assert_eq!(ends.map(|end| (end.opcode, end.vendor_err)), [(CompletionOpcode::Recv, 0); 2]);
        drop(kept);
    }
}

/// The peer's Terminate names the refused message. A Send is done when TCP has its octets, so that only one in
/// progress can still fail.
#[test]
fn statuses_of_requests_that_the_peer_refuses() {
    let source = |pair: &Pair| memory_of(&pair.a, &vec![7; LONG]);
    let whole = |memory: &weft_rnic::Mr| [memory.sge(0, len32(LONG))];

    let mut pair = connected();
    let memory = source(&pair);
    let sge = whole(&memory);
    let end = end_of(&mut pair, &SendWr { data: Data::Sges(&sge), ..WR });
    assert_eq!((end.status, end.vendor_err), (Status::RnrRetryExceeded, 0x01_02_02));

    let mut pair = connected();
    let (memory, inbox) = (source(&pair), pair.b.memory(5000));
    post_recv(&pair.b.qp, 3, &[inbox.sge(0, 5000)]);
    let sge = whole(&memory);
    let end = end_of(&mut pair, &SendWr { data: Data::Sges(&sge), ..WR });
    assert_eq!((end.status, end.vendor_err), (Status::RemoteInvalidRequest, 0x01_02_05));

    let mut pair = connected();
    let (memory, target) = (source(&pair), pair.b.memory(5000));
    let sge = whole(&memory);
    let end = end_of(&mut pair, &SendWr { opcode: write_to(&target, 0), data: Data::Sges(&sge), ..WR });
    assert_eq!((end.status, end.vendor_err), (Status::RemoteAccess, 0x01_01_01));

    let mut pair = connected();
    let (sink, source) = (pair.a.memory(8), pair.b.memory(8));
    let sge = [sink.sge(0, 8)];
    let end = end_of(&mut pair, &SendWr { opcode: read_from(&source, 1), data: Data::Sges(&sge), ..WR });
    assert_eq!((end.status, end.vendor_err), (Status::RemoteAccess, 0x01_01));

    let mut pair = connected();
    let (sink, target) = (pair.a.memory(8), pair.b.memory(16));
    let sge: [Sge; 1] = [sink.sge(0, 8)];
    let opcode = SendOpcode::FetchAdd { stag: target.rkey(), to: target.addr() + 1, add: 1, mask: 0 };
    let end = end_of(&mut pair, &SendWr { opcode, data: Data::Sges(&sge), ..WR });
    assert_eq!((end.status, end.vendor_err), (Status::RemoteOperation, 0x02_07));
}

/// A peer without Immediate Data refuses the opcode. The sender's message is already done, and all other requests are
/// flushed.
#[test]
fn requests_done_before_a_refusal_stay_successful() {
    let mut pair = connected();
    pair.a.qp.post_send(&SendWr { wr_id: 1, data: Data::Inline(b"no receive"), ..WR }).unwrap();
    assert_eq!(outcomes(&[pair.completion_of_a()]), [(1, Status::Success)]);
    post_recv(&pair.a.qp, 2, &[]);
    pair.settle(Duration::from_secs(1));
    assert_eq!(outcomes(&drain(&pair.a.cq)), [(2, Status::WorkRequestFlushed)]);
}
