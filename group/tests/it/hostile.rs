//! A client that sends what no session sends.

use std::sync::Arc;
use std::time::Duration;

use weft_group::{Copy, Name, Op, Replica, Replicas, Shape, Swap, encode, message_len};
use weft_rnic::{
    Access, Cq, CqInit, Data, Mr, Pd, Qp, QpCapacity, QpInit, RecvWr, Region, SendOpcode, SendWr, Status,
};

use crate::chain::{Host, LEN, WINDOW};

const REPLICAS: usize = 2;
/// Octets before and behind the range of the session.
const GUARD: usize = 64;

/// The client's objects, and those of the replicas.
struct Raw {
    replicas: Vec<Replica>,
    head: Qp,
    tail: Qp,
    sent: Cq,
    acknowledged: Cq,
    message: Mr,
    answer: Mr,
    _pd: Pd,
}

impl Raw {
    fn new(hosts: &[Host], memories: &[Arc<Region>]) -> Self {
        let made: Vec<_> = (0..REPLICAS)
            .map(|index| {
                let range = GUARD..GUARD + LEN;
                let shape = Shape { index, replicas: REPLICAS, window: WINDOW, range };
                Replica::new(&hosts[index].device, &memories[index], shape).unwrap()
            })
            .collect();
        let client = &hosts[REPLICAS];
        let pd = client.device.alloc_pd();
        let cq = || client.device.create_cq_with(&CqInit::new(64)).unwrap();
        let (sent, acknowledged) = (cq(), cq());
        let capacity = QpCapacity { send_wr: 8, recv_wr: 32, send_sge: 1, recv_sge: 1, inline: 0 };
        let create = || {
            let init = QpInit { capacity, ..QpInit::new(&sent, &acknowledged) };
            client.device.create_qp(&pd, &init).unwrap()
        };
        let (head, tail) = (create(), create());
        let answer = pd.register(1024, Access::LOCAL_WRITE).unwrap();
        client.connect(&tail, &hosts[1], made[1].outward());
        made[1].begin(None).unwrap();
        hosts[0].connect(made[0].outward(), &hosts[1], made[1].inward());
        made[0].begin(Some(made[1].data_in())).unwrap();
        client.connect(&head, &hosts[0], made[0].inward());
        let message = pd.register(1024, Access::LOCAL_WRITE).unwrap();
        let raw = Self { replicas: made, head, tail, sent, acknowledged, message, answer, _pd: pd };
        (0..32).for_each(|_| raw.await_acknowledgement());
        raw
    }

    fn await_acknowledgement(&self) {
        // It cannot be posted once the connection has ended.
        let _posted = self.tail.post_recv(&RecvWr { wr_id: 0, sges: &[self.answer.sge(0, 1024)] });
    }

    /// Sends a message, and returns whether it was acknowledged. `None`: nothing at all has come of it after so many looks.
    fn send(&self, octets: &[u8], looks: usize) -> Option<bool> {
        self.message.write(0, octets).unwrap();
        let sges = [self.message.sge(0, u32::try_from(octets.len()).unwrap())];
        let send = SendWr { data: Data::Sges(&sges), signaled: true, ..SendWr::new(SendOpcode::Send) };
        if self.head.post_send(&send).is_err() {
            return Some(false);
        }
        for _ in 0..looks {
            if let Some(done) = self.acknowledged.poll_one() {
                self.await_acknowledgement();
                return Some(done.status == Status::Success);
            }
            if self.sent.poll_one().is_some_and(|done| done.status != Status::Success) {
                return Some(false);
            }
            std::thread::sleep(Duration::from_micros(50));
        }
        None
    }
}

fn message() -> Vec<u8> {
    let op = Op {
        write: Some(0..100),
        copy: Some(Copy { from: 200, to: 400, len: 100 }),
        swap: Some(Swap { at: 800, compare: 0, swap: 1, on: Replicas::ALL }),
        flush: Some(0..100),
        ..Op::default()
    };
    let mut octets = vec![0; message_len(0, REPLICAS)];
    encode(&op, &Name { number: 1, epoch: 2, session: 3 }, REPLICAS, &mut octets).unwrap();
    octets
}

/// All values for opcodes, and values at the ends of their range for all others.
fn values(at: usize, good: u8) -> Vec<u8> {
    let is_opcode = at < 2 * 96 && at % 96 < 4;
    let values: Vec<u8> = match is_opcode {
        true => (0..0x16).chain([0x7F, 0x80, 0xFF]).collect(),
        false => vec![0, 1, 0x3F, 0x80, 0xFF],
    };
    values.into_iter().filter(|value| *value != good).collect()
}

/// Every octet of a message, with several values. Whatever it asks for, no octet outside of the session's range changes, and
/// the devices come to rest and serve the next session.
#[test]
fn no_octet_of_a_message_reaches_beyond_the_range() {
    let hosts: Vec<Host> = (0..=REPLICAS as u64).map(Host::new).collect();
    let memories: Vec<_> =
        (0..REPLICAS).map(|_| Arc::new(Region::owned(GUARD + LEN + GUARD).unwrap())).collect();
    for memory in &memories {
        assert!(memory.copy_in(0, &[0xEE; GUARD]) && memory.copy_in(GUARD + LEN, &[0xEE; GUARD]));
    }
    let good = message();
    let mut session = Raw::new(&hosts, &memories);
    let (mut taken, mut refused, mut silent) = (0, 0, 0);
    for at in 0..good.len() {
        for value in values(at, good[at]) {
            let mut octets = good.clone();
            octets[at] = value;
            let looks = if value == HOLD && at != SCRAP { BRIEF } else { LONG };
            match session.send(&octets, looks) {
                Some(true) => taken += 1,
                ended => {
                    refused += usize::from(ended.is_some());
                    silent += usize::from(ended.is_none());
                    session = Raw::new(&hosts, &memories);
                }
            }
            for memory in &memories {
                let mut guards = [[0; GUARD]; 2];
                let [before, behind] = &mut guards;
                assert!(memory.copy_out(0, before) && memory.copy_out(GUARD + LEN, behind));
                assert_eq!(guards, [[0xEE; GUARD]; 2], "octet {at} = {value:#x}");
            }
        }
    }
    assert!(taken > 300 && refused > 100, "{taken} {refused} {silent}");
    // Only HOLD stops a session without an end. The tail has nothing to write, and ignores that opcode.
    assert!(silent == 7, "{taken} {refused} {silent}");
    let session = Raw::new(&hosts, &memories);
    assert_eq!(session.send(&good, LONG), Some(true));
    drop(session.replicas);
    for host in &hosts {
        let work = || host.device.counters().engine.doorbells;
        let is_at_rest = (0..1000).any(|_| {
            let before = work();
            std::thread::sleep(Duration::from_millis(10));
            work() == before
        });
        assert!(is_at_rest);
    }
}

const HOLD: u8 = 0x12;
/// The opcode for the Write of the tail.
const SCRAP: usize = 96 + 3;
const BRIEF: usize = 500;
const LONG: usize = 300_000;
