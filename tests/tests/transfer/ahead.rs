//! Payload that is placed ahead of its turn, where Markers tell where FPDUs begin (RFC 5044 section 6).

use weft_netif::{Duration, ImpairmentConfig, Tcp};
use weft_rnic::{CompletionOpcode, Data, RecvWr, SendOpcode, SendWr, Status};
use weft_tests::{Pair, PairConfig};

const LEN: u32 = 100_000;

/// Octets of which none is 0.
fn letter() -> Vec<u8> {
    (1..=251).cycle().take(LEN as usize).collect()
}

/// Two devices on a wire that loses frames and takes a millisecond.
fn lossy(markers: bool, seed: u64) -> Pair {
    let mpa = weft_mpa::Config { markers, ..weft_mpa::Config::default() };
    let delay = Duration::from_millis(1);
    let faults = ImpairmentConfig { loss: 0.1, delay, ..ImpairmentConfig::default() };
    Pair::connected(&PairConfig { tcp: Tcp::Own, mpa, faults, seed, ..PairConfig::default() })
}

/// Returns how far octets were written behind octets that were missing, at most.
fn holes(memory: &[u8]) -> usize {
    let written = memory.iter().rposition(|octet| *octet != 0).map_or(0, |last| last + 1);
    written - memory.iter().position(|octet| *octet == 0).unwrap_or(memory.len()).min(written)
}

/// Writes into the memory of `b`, and then sends. Returns how far octets were written ahead of missing ones.
fn write(markers: bool, seed: u64) -> usize {
    let mut pair = lossy(markers, seed);
    let (from, to) = (pair.a.memory(LEN as usize), pair.b.memory(LEN as usize));
    let letter = letter();
    from.write(0, &letter).unwrap();
    pair.b.qp.post_recv(&RecvWr { wr_id: 7, sges: &[] }).unwrap();
    let sge = [from.sge(0, LEN)];
    let opcode = SendOpcode::Write { stag: to.rkey(), to: to.addr() };
    pair.a.qp.post_send(&SendWr { data: Data::Sges(&sge), signaled: false, ..SendWr::new(opcode) }).unwrap();
    pair.a.qp.post_send(&SendWr { signaled: false, ..SendWr::new(SendOpcode::Send) }).unwrap();
    let (mut seen, mut memory) = (0, vec![0; LEN as usize]);
    let cq = pair.b.cq.clone();
    let done = loop {
        to.read(0, &mut memory).unwrap();
        seen = seen.max(holes(&memory));
        if let Some(done) = cq.poll_one() {
            break done;
        }
        pair.settle(Duration::from_micros(200));
    };
    assert_eq!((done.wr_id, done.opcode, done.status), (7, CompletionOpcode::Recv, Status::Success));
    assert!(memory == letter, "the octets that were written when the Send came");
    pair.settle(Duration::from_millis(10));
    assert!(cq.poll_one().is_none(), "each message is delivered once");
    seen
}

// Covers 5041-3-5, 5041-5.3-4, 5041-5.3-6, 5044-6-4.
#[test]
fn memory_changes_before_a_gap_is_closed() {
    let seen: Vec<usize> = (1..=8).map(|seed| write(true, seed)).collect();
    assert!(seen.iter().filter(|seen| **seen > 1000).count() >= 4, "octets ahead of a gap: {seen:?}");
}

#[test]
fn without_markers_memory_changes_in_order() {
    let seen: Vec<usize> = (1..=8).map(|seed| write(false, seed)).collect();
    assert_eq!(seen, [0; 8]);
}

// Covers 5040-5.5-6, 5040-5.5-11.
#[test]
fn a_read_is_answered_ahead_of_a_gap_and_completes_in_order() {
    let mut ahead = 0;
    for seed in 1..=8 {
        let mut pair = lossy(true, seed);
        let (from, to) = (pair.b.memory(LEN as usize), pair.a.memory(LEN as usize));
        let letter = letter();
        from.write(0, &letter).unwrap();
        // Two Reads, so that the answer of the second one may come first.
        for (id, at) in [(1, 0), (2, LEN / 2)] {
            let sge = [to.sge(at as usize, LEN / 2)];
            let opcode = SendOpcode::Read { stag: from.rkey(), to: from.addr() + u64::from(at) };
            let read = SendWr { wr_id: id, data: Data::Sges(&sge), signaled: true, ..SendWr::new(opcode) };
            pair.a.qp.post_send(&read).unwrap();
        }
        let (cq, mut memory) = (pair.a.cq.clone(), vec![0; LEN as usize]);
        for (id, end) in [(1, LEN / 2), (2, LEN)] {
            let done = loop {
                to.read(0, &mut memory).unwrap();
                ahead = ahead.max(holes(&memory));
                if let Some(done) = cq.poll_one() {
                    break done;
                }
                pair.settle(Duration::from_micros(200));
            };
            assert_eq!((done.wr_id, done.status), (id, Status::Success));
            let end = end as usize;
            assert!(memory[..end] == letter[..end], "Read {id}");
        }
    }
    assert!(ahead > 1000, "{ahead} octets ahead of a gap");
}
