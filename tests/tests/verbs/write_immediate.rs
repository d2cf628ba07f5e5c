//! Write with Immediate between two devices.

use weft_rnic::{CompletionOpcode, Data, SendOpcode, SendWr, Status};

use crate::world::{
    WR, connected, contents, drain, guarded, len32, memory_of, outcomes, pattern, post_recv, read_from,
};

/// Write with Immediate of every length, with Reads in both directions among them. Each is one completion at each
/// side, in order, and the receive tells how much was written.
#[test]
fn every_length_among_reads() {
    let mut pair = connected();
    let octets = pattern(20_000, 3);
    let (source, sink) = (memory_of(&pair.a, &octets), guarded(&pair.b, 20_000));
    let fetched = [guarded(&pair.a, 5000), guarded(&pair.b, 5000)];
    for (index, len) in [0, 1, 7, 1400, 1500, 20_000].into_iter().enumerate() {
        let id = index as u64 * 10;
        post_recv(&pair.b.qp, id, &[]);
        let immediate = len32(len).to_be_bytes();
        let sges = [source.sge(0, len32(len))];
        let opcode = SendOpcode::WriteImmediate { stag: sink.rkey(), to: sink.addr(), immediate };
        let write = SendWr { wr_id: id + 1, opcode, data: Data::Sges(&sges), ..WR };
        let sges = fetched.each_ref().map(|memory| [memory.sge(0, 5000)]);
        let read = SendWr { wr_id: id, opcode: read_from(&sink, 0), data: Data::Sges(&sges[0]), ..WR };
        pair.b
            .qp
            .post_send(&SendWr { opcode: read_from(&source, 0), data: Data::Sges(&sges[1]), ..read })
            .unwrap();
        pair.a.qp.post_sends(&[read, write, SendWr { wr_id: id + 2, ..read }]).unwrap();
        let mut seen = Vec::new();
        let (a, b) = (pair.a.cq.clone(), pair.b.cq.clone());
        let mut at_b = Vec::new();
        pair.wait(|| {
            seen.extend(drain(&a));
            at_b.extend(drain(&b));
            (seen.len() == 3 && at_b.len() == 2).then_some(())
        })
        .unwrap();
        assert_eq!(outcomes(&seen), [id, id + 1, id + 2].map(|wr_id| (wr_id, Status::Success)));
        assert_eq!(seen[1].opcode, CompletionOpcode::Write);
        let received = at_b.iter().find(|done| done.opcode == CompletionOpcode::RecvWithImmediate).unwrap();
        let [a, b, c, d] = immediate;
        assert_eq!((received.wr_id, received.byte_len), (id, len32(len)));
        assert_eq!(received.immediate, Some([a, b, c, d, 0, 0, 0, 0]));
        assert_eq!(contents(&sink)[..len], octets[..len]);
        assert_eq!(contents(&fetched[0]), contents(&sink)[..5000]);
    }
}
