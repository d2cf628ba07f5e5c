//! Gather and scatter: many elements, odd sizes, several regions; inline data.

use weft_netif::Duration;
use weft_rnic::{
    CompletionOpcode, CreateError, Data, Errno, Mr, PostError, QpCapacity, QpInit, RecvWr, SendWr, Sge,
    Status,
};
use weft_tests::{Pair, Side};

use crate::world::{
    GUARD, READ_REQUEST, Random, WR, connected_with, contents, drain, guarded, len32, memory_of, pattern,
    post_recv, read_from, write_to,
};

const REGION: usize = 24_000;
const WIDE: QpCapacity = QpCapacity { send_wr: 8, recv_wr: 8, send_sge: 32, recv_sge: 32, inline: 256 };

/// Three regions of guard octets, and lists of elements in them that do not overlap.
struct Lists {
    regions: [Mr; 3],
    random: Random,
    /// The next octet of each region that is in no list yet.
    next: [usize; 3],
}

impl Lists {
    fn new(side: &Side, seed: u64) -> Self {
        let regions = core::array::from_fn(|_| guarded(side, REGION));
        Self { regions, random: Random(seed), next: [0; 3] }
    }

    /// `count` elements with `total` octets, between guards: region, offset and length of each.
    fn list(&mut self, count: usize, total: usize) -> Vec<(usize, usize, usize)> {
        let mut cuts: Vec<usize> = (1..count).map(|_| self.random.below(total + 1)).collect();
        // A cut that occurs twice makes an element without octets.
        if count > 2 {
            cuts[0] = cuts[1];
        }
        cuts.extend([0, total]);
        cuts.sort_unstable();
        let places = cuts.windows(2).map(|cut| {
            let (region, len) = (self.random.below(3), cut[1] - cut[0]);
            let offset = self.next[region] + 1 + self.random.below(7);
            self.next[region] = offset + len;
            (region, offset, len)
        });
        places.collect()
    }

    fn sges(&self, list: &[(usize, usize, usize)]) -> Vec<Sge> {
        list.iter().map(|&(region, offset, len)| self.regions[region].sge(offset, len32(len))).collect()
    }

    fn fill(&self, list: &[(usize, usize, usize)], octets: &[u8]) {
        let mut rest = octets;
        for &(region, offset, len) in list {
            self.regions[region].write(offset, &rest[..len]).unwrap();
            rest = &rest[len..];
        }
    }

    /// Returns the octets of the list. All others have to be guards.
    fn take(&self, list: &[(usize, usize, usize)]) -> Vec<u8> {
        let mut all = self.regions.each_ref().map(contents);
        let mut octets = Vec::new();
        for &(region, offset, len) in list {
            let range = &mut all[region][offset..offset + len];
            octets.extend_from_slice(range);
            range.fill(GUARD);
        }
        assert!(all.iter().flatten().all(|&octet| octet == GUARD), "octets outside of the list were touched");
        octets
    }
}

fn complete(pair: &mut Pair, opcode: CompletionOpcode, byte_len: usize) {
    let done = pair.completion_of_a();
    assert_eq!((done.status, done.opcode, done.byte_len), (Status::Success, opcode, len32(byte_len)));
}

#[test]
fn sends_of_1_to_32_elements_into_32_to_1() {
    let mut pair = connected_with(WIDE);
    for count in 1..=32 {
        let total = [0, 1, 31, 1440, 1459, 2881, 4096, 10_007][count % 8];
        let (mut from, mut into) =
            (Lists::new(&pair.a, count as u64), Lists::new(&pair.b, 100 + count as u64));
        let (gather, scatter) = (from.list(count, total), into.list(33 - count, total));
        let octets = pattern(total, count as u64);
        from.fill(&gather, &octets);
        post_recv(&pair.b.qp, 1, &into.sges(&scatter));
        let sges = from.sges(&gather);
        pair.a.qp.post_send(&SendWr { data: Data::Sges(&sges), ..WR }).unwrap();
        complete(&mut pair, CompletionOpcode::Send, 0);
        let received = pair.completion_of_b();
        assert_eq!((received.status, received.byte_len), (Status::Success, len32(total)));
        assert!(into.take(&scatter) == octets, "{count} elements, {total} octets");
        assert!(from.take(&gather) == octets, "the source of a Send has changed");
    }
}

#[test]
fn a_message_may_be_shorter_than_its_receive() {
    let mut pair = connected_with(WIDE);
    let mut into = Lists::new(&pair.b, 1);
    let scatter = into.list(7, 5000);
    for len in [0, 1, 2500, 4999] {
        post_recv(&pair.b.qp, 1, &into.sges(&scatter));
        let octets = pattern(len, len as u64);
        into.fill(&scatter, &[GUARD; 5000]);
        let memory = memory_of(&pair.a, &octets);
        pair.a.qp.post_send(&SendWr { data: Data::Sges(&[memory.sge(0, len32(len))]), ..WR }).unwrap();
        assert_eq!(pair.completion_of_b().byte_len, len32(len));
        let received = into.take(&scatter);
        assert!(received[..len] == octets && received[len..].iter().all(|&octet| octet == GUARD));
    }
}

#[test]
fn writes_of_1_to_32_elements() {
    let mut pair = connected_with(WIDE);
    for count in 1..=32 {
        let total = [10_007, 0, 1, 1441, 1458, 2880, 31, 5000][count % 8];
        let mut from = Lists::new(&pair.a, count as u64);
        let target = guarded(&pair.b, total + 13);
        let gather = from.list(count, total);
        let octets = pattern(total, count as u64);
        from.fill(&gather, &octets);
        let sges = from.sges(&gather);
        pair.a.qp.post_send(&SendWr { opcode: write_to(&target, 6), data: Data::Sges(&sges), ..WR }).unwrap();
        complete(&mut pair, CompletionOpcode::Write, 0);
        pair.settle(Duration::from_millis(500));
        let written = contents(&target);
        assert!(written[6..6 + total] == octets, "{count} elements, {total} octets");
        assert!(written[..6].iter().chain(&written[6 + total..]).all(|&octet| octet == GUARD));
    }
}

#[test]
fn a_read_of_n_elements_is_n_read_requests_and_one_completion() {
    let mut pair = connected_with(WIDE);
    for count in 1..=32 {
        let total = [31, 10_007, 0, 1, 1441, 1459, 2881, 5000][count % 8];
        let octets = pattern(total, count as u64);
        let source = memory_of(&pair.b, &octets);
        let mut into = Lists::new(&pair.a, count as u64);
        let scatter = into.list(count, total);
        let sges = into.sges(&scatter);
        let before = pair.a.device.counters().sent.by_opcode[READ_REQUEST];
        let read = SendWr { opcode: read_from(&source, 0), data: Data::Sges(&sges), ..WR };
        pair.a.qp.post_send(&read).unwrap();
        complete(&mut pair, CompletionOpcode::Read, total);
        assert_eq!(pair.a.device.counters().sent.by_opcode[READ_REQUEST] - before, count as u64);
        assert!(into.take(&scatter) == octets, "{count} elements, {total} octets");
        pair.settle(Duration::from_millis(500));
        assert_eq!(drain(&pair.a.cq), []);
    }
}

#[test]
fn a_read_without_elements_is_one_empty_read_request() {
    let mut pair = connected_with(WIDE);
    let source = pair.b.memory(1);
    let before = pair.a.device.counters().sent.by_opcode[READ_REQUEST];
    pair.a.qp.post_send(&SendWr { opcode: read_from(&source, 0), ..WR }).unwrap();
    complete(&mut pair, CompletionOpcode::Read, 0);
    assert_eq!(pair.a.device.counters().sent.by_opcode[READ_REQUEST] - before, 1);
}

#[test]
fn inline_data_may_be_changed_after_the_call() {
    let mut pair = connected_with(WIDE);
    for len in [0, 1, 7, 8, 9, 63, 255, 256] {
        let octets = pattern(len, len as u64);
        let (target, sink) = (guarded(&pair.b, 300), guarded(&pair.b, 300));
        post_recv(&pair.b.qp, 1, &[sink.sge(0, 300)]);
        let mut buffer = octets.clone();
        let opcode = write_to(&target, 1);
        pair.a.qp.post_send(&SendWr { opcode, data: Data::Inline(&buffer), ..WR }).unwrap();
        pair.a.qp.post_send(&SendWr { data: Data::Inline(&buffer), ..WR }).unwrap();
        buffer.fill(0xFF);
        drop(buffer);
        complete(&mut pair, CompletionOpcode::Write, 0);
        complete(&mut pair, CompletionOpcode::Send, 0);
        assert_eq!(pair.completion_of_b().byte_len, len32(len));
        let (written, received) = (contents(&target), contents(&sink));
        assert!(written[1..=len] == octets && received[..len] == octets, "{len} octets inline");
        assert!(written[1 + len..].iter().chain(&received[len..]).all(|&octet| octet == GUARD));
    }
}

/// The largest queue pairs have 32 elements and 1024 inline octets. More is refused.
#[test]
fn the_limits_of_a_queue_pair_can_be_reached_and_not_exceeded() {
    let mut pair = connected_with(QpCapacity { inline: 1024, ..WIDE });
    let granted = pair.a.qp.query().unwrap().capacity;
    assert_eq!((granted.send_sge, granted.recv_sge, granted.inline), (32, 32, 1024));
    let octets = pattern(1024, 9);
    let sink = guarded(&pair.b, 1024);
    post_recv(&pair.b.qp, 1, &[sink.sge(0, 1024)]);
    pair.a.qp.post_send(&SendWr { data: Data::Inline(&octets), ..WR }).unwrap();
    assert_eq!((pair.completion_of_b().byte_len, contents(&sink)), (1024, octets));
    let refused = pair.a.qp.post_send(&SendWr { data: Data::Inline(&[0; 1025]), ..WR });
    assert_eq!(refused, Err(PostError::InlineTooLong));
    let sges = vec![sink.sge(0, 1); 33];
    assert_eq!(pair.a.qp.post_send(&SendWr { data: Data::Sges(&sges), ..WR }), Err(PostError::TooManySges));
    assert_eq!(pair.b.qp.post_recv(&RecvWr { wr_id: 1, sges: &sges }), Err(PostError::TooManySges));
    for too_much in [
        QpCapacity { send_sge: 33, ..WIDE },
        QpCapacity { recv_sge: 33, ..WIDE },
        QpCapacity { inline: 1025, ..WIDE },
        QpCapacity { send_wr: 1 << 17, ..WIDE },
    ] {
        let init = QpInit { capacity: too_much, ..QpInit::new(&pair.a.cq, &pair.a.cq) };
        let error = pair.a.device.create_qp(&pair.a.pd, &init).unwrap_err();
        assert!(matches!(error, CreateError::TooLarge { .. }), "{error}");
        assert_eq!(error.errno(), Errno::Inval);
    }
}

/// Elements of every small length on both sides end at every octet of the surrounding FPDUs.
#[test]
fn elements_end_at_every_octet_of_an_fpdu() {
    let mut pair = connected_with(WIDE);
    let total = 3000;
    let octets = pattern(total, 11);
    let (source, target) = (memory_of(&pair.a, &octets), guarded(&pair.b, total));
    let cut = |memory: &Mr, at: usize| {
        [memory.sge(0, len32(at)), memory.sge(at, 0), memory.sge(at, len32(total - at))]
    };
    for at in (1380..1480).chain(2820..2920) {
        target.write(0, &vec![GUARD; total]).unwrap();
        post_recv(&pair.b.qp, 1, &cut(&target, total - at));
        pair.a.qp.post_send(&SendWr { data: Data::Sges(&cut(&source, at)), ..WR }).unwrap();
        assert_eq!(pair.completion_of_b().status, Status::Success);
        assert!(contents(&target) == octets, "cut at {at}");
        assert_eq!(pair.completion_of_a().status, Status::Success);
    }
}

#[test]
fn registered_data_is_read_when_the_request_starts() {
    let mut pair = connected_with(WIDE);
    let (source, target) = (memory_of(&pair.a, b"before"), pair.b.memory(6));
    let sges = [source.sge(0, 6)];
    pair.a.qp.post_send(&SendWr { opcode: write_to(&target, 0), data: Data::Sges(&sges), ..WR }).unwrap();
    // The engine has not run yet: the octets are those of the start, not of the post.
    source.write(0, b"after!").unwrap();
    complete(&mut pair, CompletionOpcode::Write, 0);
    pair.settle(Duration::from_millis(500));
    assert_eq!(contents(&target), b"after!");
}
