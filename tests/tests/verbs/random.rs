//! Random work of all kinds on four connections over a bad wire, checked against a model of memory and completions.
//!
//! Each round posts requests that touch no octet twice, waits for everything, and compares all memory. The last request
//! of each queue pair in a round is a Read, behind which all its Writes have been placed (RFC 5040 section 5.5).

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use weft_netif::{Duration, ImpairmentConfig};
use weft_rnic::{Access, Completion, CompletionOpcode, Data, Mr, Qp, SendOpcode, SendWr, Sge, Status};
use weft_tests::{Pair, PairConfig, Side};

use crate::world::{
    Random, WR, contents, drain, len32, link_simply, memory_of, pattern, post_recv, qp_on, read_from,
    write_to,
};

const SLOT: usize = 6000;
const SLOTS: usize = 16;
const MOST_REQUESTS: usize = 6;

/// One end of a connection, its memory, and what both should be.
struct End {
    qp: Qp,
    memory: Mr,
    model: Vec<u8>,
    /// Slots that no request of this round uses.
    free: Vec<usize>,
    sends: Vec<Expected>,
    recvs: Vec<Expected>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Expected {
    wr_id: u64,
    opcode: CompletionOpcode,
    byte_len: u32,
    solicited: bool,
    invalidated: Option<u32>,
}

impl Expected {
    const fn new(wr_id: u64, opcode: CompletionOpcode, byte_len: u32) -> Self {
        Self { wr_id, opcode, byte_len, solicited: false, invalidated: None }
    }

    fn of(completion: &Completion) -> Self {
        let Completion { wr_id, opcode, byte_len, solicited, invalidated, .. } = *completion;
        assert_eq!(completion.status, Status::Success, "{completion:?}");
        Self { wr_id, opcode, byte_len, solicited, invalidated }
    }
}

impl End {
    fn new(side: &Side, seed: u64) -> Self {
        let qp = qp_on(side, &side.cq);
        let model = pattern(SLOT * SLOTS, seed);
        let memory = memory_of(side, &model);
        Self { qp, memory, model, free: Vec::new(), sends: Vec::new(), recvs: Vec::new() }
    }

    /// The octets of a slot, in one to four elements.
    fn sges(&self, random: &mut Random, slot: usize, len: usize) -> Vec<Sge> {
        let mut cuts: Vec<usize> = (0..random.below(4)).map(|_| random.below(len + 1)).collect();
        cuts.extend([0, len]);
        cuts.sort_unstable();
        let start = slot * SLOT;
        cuts.windows(2).map(|cut| self.memory.sge(start + cut[0], len32(cut[1] - cut[0]))).collect()
    }

    fn take_slot(&mut self, random: &mut Random) -> usize {
        let index = random.below(self.free.len());
        self.free.swap_remove(index)
    }
}

struct World {
    pair: Pair,
    random: Random,
    ends: Vec<[End; 2]>,
    /// Memory that Sends have invalidated.
    windows: Vec<Mr>,
    next_wr_id: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let mut chance = |percent: usize| random.below(1000 * percent + 1) as f64 / 1e5;
        let faults = ImpairmentConfig {
            loss: chance(5),
            duplicate: chance(3),
            reorder: chance(10),
            corrupt: chance(2),
            ..ImpairmentConfig::default()
        };
        let delay = Duration::from_micros(random.next() % 2000);
        let faults = ImpairmentConfig { delay, jitter: Duration::from_micros(random.next() % 500), ..faults };
        let mpa = weft_mpa::Config {
            markers: random.below(3) == 0,
            crc: random.below(4) > 0,
            ird: 1 + u16::try_from(random.below(8)).expect("small"),
            ord: 1 + u16::try_from(random.below(8)).expect("small"),
            ..weft_mpa::Config::default()
        };
        let mtu = [576, 1500, 1500, 9000][random.below(4)];
        let mut pair = Pair::new(&PairConfig { mtu, seed, mpa, faults, ..PairConfig::default() });
        let ends = (0..4).map(|lane| {
            let ends = [End::new(&pair.a, seed + 100 + lane), End::new(&pair.b, seed + 200 + lane)];
            link_simply(&mut pair, &ends[0].qp, &ends[1].qp);
            ends
        });
        let ends = ends.collect();
        Self { pair, random, ends, windows: Vec::new(), next_wr_id: 0 }
    }

    fn round(&mut self) {
        for end in self.ends.iter_mut().flatten() {
            end.free = (0..SLOTS).collect();
        }
        let counts: Vec<usize> = (0..8).map(|_| self.random.below(MOST_REQUESTS)).collect();
        for step in 0..=MOST_REQUESTS {
            for (index, &count) in counts.iter().enumerate() {
                if step < count {
                    self.post(index / 2, index % 2);
                } else if step == count {
                    self.post_last(index / 2, index % 2);
                }
                for _ in 0..self.random.below(8) {
                    self.pair.lockstep.step();
                }
            }
        }
        self.complete();
        for (lane, ends) in self.ends.iter().enumerate() {
            for (side, end) in ends.iter().enumerate() {
                let seen = contents(&end.memory);
                let wrong = seen.iter().zip(&end.model).position(|(seen, model)| seen != model);
                assert_eq!(wrong, None, "memory of lane {lane}, side {side}");
            }
        }
    }

    /// Posts one request from side `from` of a lane, and does to the model what it should do to memory.
    fn post(&mut self, lane: usize, from: usize) {
        let (random, [left, right]) = (&mut self.random, &mut self.ends[lane]);
        let (own, peer) = if from == 0 { (left, right) } else { (right, left) };
        let peer_side = if from == 0 { &self.pair.b } else { &self.pair.a };
        let (slot, target) = (own.take_slot(random), peer.take_slot(random));
        let len = [0, 1, random.below(64), random.below(257), random.below(SLOT), SLOT][random.below(6)];
        let (kind, wr_id) = (random.below(4), self.next_wr_id);
        self.next_wr_id += 1;
        let (at, there) = (slot * SLOT, target * SLOT);
        let sges = own.sges(random, slot, len);
        let octets = own.model[at..at + len].to_vec();
        let inline = len <= 256 && random.below(2) == 0;
        let data = if inline { Data::Inline(&octets) } else { Data::Sges(&sges) };
        let (signaled, fence) = (random.below(3) > 0, random.below(8) == 0);
        let mut wr = SendWr { wr_id, data, signaled, fence, ..WR };
        let opcode = match kind {
            0 => {
                wr = SendWr { opcode: read_from(&peer.memory, there), data: Data::Sges(&sges), ..wr };
                own.model[at..at + len].copy_from_slice(&peer.model[there..there + len]);
                CompletionOpcode::Read
            }
            1 => {
                wr.opcode = write_to(&peer.memory, there);
                peer.model[there..there + len].copy_from_slice(&octets);
                CompletionOpcode::Write
            }
            _ => {
                wr.solicited = random.below(2) == 0;
                let mut expected = Expected::new(wr_id, CompletionOpcode::Recv, len32(len));
                expected.solicited = wr.solicited;
                if kind == 3 {
                    let window = peer_side.pd.register_for(&peer.qp, 8, Access::ALL).unwrap();
                    wr.opcode = SendOpcode::SendInvalidate { stag: window.rkey() };
                    expected.invalidated = Some(window.rkey().0);
                    self.windows.push(window);
                }
                let room = (len + random.below(50)).min(SLOT);
                post_recv(&peer.qp, wr_id, &peer.sges(random, target, room));
                peer.recvs.push(expected);
                peer.model[there..there + len].copy_from_slice(&octets);
                CompletionOpcode::Send
            }
        };
        own.qp.post_send(&wr).expect("room in the send queue");
        let byte_len = if opcode == CompletionOpcode::Read { len32(len) } else { 0 };
        own.sends.extend(signaled.then_some(Expected::new(wr_id, opcode, byte_len)));
    }

    /// Posts an empty Read, which ends the round of this queue pair.
    fn post_last(&mut self, lane: usize, from: usize) {
        let wr_id = self.next_wr_id;
        self.next_wr_id += 1;
        let opcode = read_from(&self.ends[lane][1 - from].memory, 0);
        let own = &mut self.ends[lane][from];
        own.qp.post_send(&SendWr { wr_id, opcode, ..WR }).expect("room in the send queue");
        own.sends.push(Expected::new(wr_id, CompletionOpcode::Read, 0));
    }

    /// Waits for all completions, which have to be exactly those expected, each queue's in order.
    fn complete(&mut self) {
        let total: usize = self.ends.iter().flatten().map(|end| end.sends.len() + end.recvs.len()).sum();
        let (a, b) = (self.pair.a.cq.clone(), self.pair.b.cq.clone());
        let mut seen = [Vec::new(), Vec::new()];
        let done = self.pair.wait(|| {
            seen[0].extend(drain(&a));
            seen[1].extend(drain(&b));
            (seen[0].len() + seen[1].len() >= total).then_some(())
        });
        assert!(done.is_some(), "{} of {total} completions", seen[0].len() + seen[1].len());
        for ends in &mut self.ends {
            for (end, seen) in ends.iter_mut().zip(&seen) {
                let own = seen.iter().filter(|completion| completion.qp_num == end.qp.number());
                let (recvs, sends): (Vec<_>, Vec<_>) =
                    own.map(Expected::of).partition(|it| it.opcode == CompletionOpcode::Recv);
                assert_eq!(sends, core::mem::take(&mut end.sends));
                assert_eq!(recvs, core::mem::take(&mut end.recvs));
            }
        }
        assert!(self.windows.drain(..).all(|window| window.is_invalidated()));
    }
}

/// Works off one seed, and answers how many frames the wire has taken and not given, both ways together.
fn run(seed: u64) -> u64 {
    let mut world = World::new(seed);
    for _ in 0..ROUNDS {
        world.round();
    }
    world.pair.settle(Duration::from_secs(30));
    assert_eq!([drain(&world.pair.a.cq), drain(&world.pair.b.cq)], [vec![], vec![]], "more completions");
    assert_eq!([world.pair.a.events.next(), world.pair.b.events.next()], [None, None], "a connection ended");
    for ends in &world.ends {
        ends[0].qp.disconnect().expect("a connection");
    }
    world.pair.settle(Duration::from_secs(100));
    let (a, b) = (&world.pair.a.device, &world.pair.b.device);
    assert_eq!([a.counters().terminates, b.counters().terminates], [0, 0]);
    let (a, b) = (a.stack_counters(), b.stack_counters());
    a.frames_out.abs_diff(b.frames_in) + b.frames_out.abs_diff(a.frames_in)
}

#[test]
fn random_work_over_a_bad_wire() {
    let mut differences = 0;
    for seed in 1..=20 {
        match catch_unwind(AssertUnwindSafe(|| run(seed))) {
            Ok(difference) => differences += difference,
            Err(panic) => {
                eprintln!("random work failed with seed {seed}");
                resume_unwind(panic);
            }
        }
    }
    // Else the wire was a good one, and nothing has been tried.
    assert!(differences > 300, "{differences}");
}

const ROUNDS: usize = 8;
