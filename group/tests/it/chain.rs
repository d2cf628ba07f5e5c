//! The data path: a client sends one message for an operation, and the devices of the replicas do the rest.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config as Runs, TestRunner};
use weft_group::{
    Copy, MAX_MESSAGE, Name, Op, OpError, Originals, Replica, Replicas, Shape, Swap, UNTOUCHED, Window,
    decode_acknowledgement, encode, message_len,
};
use weft_rnic::{
    Access, CmEvent, Config, ConnParam, Cq, CqInit, Data, Device, EventChannel, Ground, Listener, Mr,
    Progress, Qp, QpCapacity, QpInit, RecvWr, Region, SendOpcode, SendWr, Status,
};

const LEN: usize = 4096;
const WINDOW: u32 = 8;
const PATIENCE: Duration = Duration::from_secs(30);

/// A device of its own, with its port.
struct Host {
    device: Device,
    events: EventChannel,
    listener: Listener,
}

impl Host {
    fn new(seed: u64) -> Self {
        let config = Config { progress: Progress::Thread, ..Config::host(Ipv4Addr::LOCALHOST.into(), seed) };
        let device = Device::open(Ground::Host, config).unwrap();
        let events = device.create_event_channel().unwrap();
        let listener = device.listen(&events, 0).unwrap();
        Self { device, events, listener }
    }

    fn event(&self) -> CmEvent {
        self.events.wait(Some(PATIENCE)).expect("an event")
    }

    /// Connects a queue pair of this host to one of another host.
    fn connect(&self, qp: &Qp, other: &Self, to: &Qp) {
        let param = ConnParam { peer_to_peer: Some(true), ..ConnParam::default() };
        self.device.connect(&self.events, qp, other.listener.local_addr(), param).unwrap();
        let CmEvent::ConnectRequest(request) = other.event() else { panic!("no request") };
        other.device.accept(request.id, to, ConnParam::default()).unwrap();
        for host in [self, other] {
            let event = host.event();
            assert!(matches!(event, CmEvent::Established { .. }), "{event:?}");
        }
    }
}

/// A chain, and its client.
struct Chain {
    memories: Vec<Arc<Region>>,
    replicas: Vec<Replica>,
    head: Qp,
    tail: Qp,
    acknowledged: Cq,
    /// Octets to be written, and messages: a slot of each for each operation under way.
    staging: Mr,
    messages: Mr,
    /// Where acknowledgements go.
    answers: Mr,
    window: Window,
    _hosts: Vec<Host>,
}

impl Chain {
    fn new(replicas: usize) -> Self {
        let hosts: Vec<Host> = (0..=replicas as u64).map(Host::new).collect();
        let client = &hosts[replicas];
        let memories: Vec<_> = (0..replicas).map(|_| Arc::new(Region::owned(LEN + 64).unwrap())).collect();
        let made: Vec<_> = (0..replicas)
            .map(|index| {
                let shape = Shape { index, replicas, window: WINDOW, range: 64..64 + LEN };
                Replica::new(&hosts[index].device, &memories[index], shape).unwrap()
            })
            .collect();
        let pd = client.device.alloc_pd();
        let quiet = CqInit { ignore_overrun: true, ..CqInit::new(WINDOW) };
        let quiet = client.device.create_cq_with(&quiet).unwrap();
        let acknowledged = client.device.create_cq(WINDOW, None).unwrap();
        let capacity = QpCapacity { send_wr: 4 * WINDOW, recv_wr: WINDOW, ..QpCapacity::default() };
        let create = || {
            client.device.create_qp(&pd, &QpInit { capacity, ..QpInit::new(&quiet, &acknowledged) }).unwrap()
        };
        let (head, tail) = (create(), create());
        let memory = |len: usize| pd.register(len * WINDOW as usize, Access::LOCAL_WRITE).unwrap();
        let (staging, messages, answers) = (memory(LEN), memory(MAX_MESSAGE), memory(MAX_MESSAGE));
        let chain = Self {
            memories,
            replicas: made,
            head,
            tail,
            acknowledged,
            staging,
            messages,
            answers,
            window: Window::new(WINDOW),
            _hosts: Vec::new(),
        };
        for slot in 0..WINDOW.into() {
            chain.await_acknowledgement(slot);
        }
        // From the tail on: nothing reaches a replica before its program is posted.
        client.connect(&chain.tail, &hosts[replicas - 1], chain.replicas[replicas - 1].outward());
        for index in (0..replicas).rev() {
            let next = chain.replicas.get(index + 1);
            if let Some(next) = next {
                hosts[index].connect(chain.replicas[index].outward(), &hosts[index + 1], next.inward());
            }
            chain.replicas[index].begin(next.map(Replica::data_in)).unwrap();
        }
        client.connect(&chain.head, &hosts[0], chain.replicas[0].inward());
        Self { _hosts: hosts, ..chain }
    }

    fn place(slot: u64, len: usize) -> usize {
        usize::try_from(slot % u64::from(WINDOW)).unwrap() * len
    }

    fn await_acknowledgement(&self, slot: u64) {
        let len = u32::try_from(message_len(0, 0) + 8 * self.replicas.len()).unwrap();
        let sges = [self.answers.sge(Self::place(slot, MAX_MESSAGE), len)];
        self.tail.post_recv(&RecvWr { wr_id: slot, sges: &sges }).unwrap();
    }

    /// Begins an operation; `octets` are those that it writes.
    fn begin(&mut self, op: &Op, octets: &[u8]) -> Result<u64, OpError> {
        op.check(LEN as u64, u32::try_from(LEN).unwrap())?;
        let number = self.window.begin(op)?;
        if let Some(write) = op.write.as_ref().filter(|write| !write.is_empty()) {
            let at = Self::place(number, LEN);
            self.staging.write(at, octets).unwrap();
            let sges = [self.staging.sge(at, u32::try_from(octets.len()).unwrap())];
            let opcode = SendOpcode::Write { stag: self.replicas[0].data_in(), to: write.start };
            self.head.post_send(&SendWr { data: Data::Sges(&sges), ..SendWr::new(opcode) }).unwrap();
        }
        let mut message = [0; MAX_MESSAGE];
        let len =
            encode(op, &Name { number, epoch: 3, session: 4 }, self.replicas.len(), &mut message).unwrap();
        let at = Self::place(number, MAX_MESSAGE);
        self.messages.write(at, &message[..len]).unwrap();
        let sges = [self.messages.sge(at, u32::try_from(len).unwrap())];
        self.head.post_send(&SendWr { data: Data::Sges(&sges), ..SendWr::new(SendOpcode::Send) }).unwrap();
        Ok(number)
    }

    /// Waits for the acknowledgement of the oldest operation, and returns what the replicas found.
    fn end(&mut self) -> Originals {
        let mut looks = 0_u32;
        let done = loop {
            if let Some(done) = self.acknowledged.poll_one() {
                break done;
            }
            looks += 1;
            assert!(looks < 30_000, "no acknowledgement of {}", self.window.oldest());
            std::thread::sleep(Duration::from_micros(if looks < 100 { 50 } else { 1000 }));
        };
        assert_eq!(
            (done.status, Some(done.wr_id)),
            (Status::Success, self.window.end().map(|it| it % u64::from(WINDOW)))
        );
        let mut octets = vec![0; message_len(0, 0) + 8 * self.replicas.len()];
        assert_eq!(done.byte_len as usize, octets.len());
        self.answers.read(Self::place(done.wr_id, MAX_MESSAGE), &mut octets).unwrap();
        let (name, originals) = decode_acknowledgement(&octets, self.replicas.len()).unwrap();
        assert_eq!((name.epoch, name.session, name.number + 1), (3, 4, self.window.oldest()));
        self.await_acknowledgement(done.wr_id);
        originals
    }

    fn contents(&self, replica: usize) -> Vec<u8> {
        let mut octets = vec![0; LEN];
        assert!(self.memories[replica].copy_out(64, &mut octets));
        octets
    }
}

/// What the operations do, on memory of the test's own.
struct Model(Vec<Vec<u8>>);

impl Model {
    fn apply(&mut self, op: &Op, octets: &[u8]) -> Originals {
        let mut originals = [UNTOUCHED; 16];
        let at = |offset: u64| usize::try_from(offset).unwrap();
        for (index, memory) in self.0.iter_mut().enumerate() {
            if let Some(write) = &op.write {
                memory[at(write.start)..at(write.end)].copy_from_slice(octets);
            }
            if let Some(copy) = op.copy {
                memory.copy_within(at(copy.from)..at(copy.from) + copy.len as usize, at(copy.to));
            }
            if let Some(swap) = op.swap.filter(|swap| swap.on.contains(index)) {
                let word: &mut [u8; 8] = memory[at(swap.at)..].first_chunk_mut().unwrap();
                originals[index] = u64::from_ne_bytes(*word);
                if originals[index] == swap.compare {
                    *word = swap.swap.to_ne_bytes();
                }
            }
        }
        originals
    }
}

fn op() -> impl Strategy<Value = Op> {
    let len = LEN as u64;
    let write = prop::option::of((0..len, 0..600_u64).prop_map(move |(at, size)| at..(at + size).min(len)));
    let copy = prop::option::of((0..len, 0..len, 0..600_u32));
    let swap = prop::option::of((0..len / 8, 0..3_u64, any::<u16>()));
    (write, copy, swap).prop_map(|(write, copy, swap)| Op {
        write,
        copy: copy.map(|(from, to, len)| Copy { from, to, len }),
        swap: swap.map(|(word, compare, on)| Swap {
            at: word * 8,
            compare,
            swap: compare + 1,
            on: Replicas(on),
        }),
        flush: None,
    })
}

/// Thousands of operations, many under way at a time, in chains of one to five replicas. Every octet of all replicas and all
/// that they found in words is compared with a second implementation.
#[test]
fn all_replicas_do_what_a_model_does() {
    let mut runner = TestRunner::new(Runs { failure_persistence: None, ..Runs::default() });
    let strategy = prop::collection::vec(op(), 600);
    for replicas in [1, 2, 3, 5] {
        let ops = strategy.new_tree(&mut runner).unwrap().current();
        let mut chain = Chain::new(replicas);
        let mut model = Model(vec![vec![0; LEN]; replicas]);
        let mut expected = std::collections::VecDeque::new();
        let mut done = 0;
        for (number, op) in ops.iter().enumerate() {
            let len = op.write.as_ref().map_or(0, |write| usize::try_from(write.end - write.start).unwrap());
            let octets: Vec<u8> = (0..len).map(|at| (at * 7 + number * 13).to_le_bytes()[0]).collect();
            let mut begun = chain.begin(op, &octets);
            while let Err(OpError::Full | OpError::Conflict) = begun {
                assert_eq!(Some(chain.end()), expected.pop_front());
                begun = chain.begin(op, &octets);
            }
            if begun.is_ok() {
                expected.push_back(model.apply(op, &octets));
                done += 1;
            }
        }
        while let Some(originals) = expected.pop_front() {
            assert_eq!(chain.end(), originals);
        }
        assert!(done > 200, "{done} of 600 made sense");
        for replica in 0..replicas {
            assert!(chain.contents(replica) == model.0[replica], "replica {replica} of {replicas}");
        }
    }
}

/// The octets around the range stay as they are, and so do those of all other sessions.
#[test]
fn nothing_outside_of_the_range_is_reached() {
    let mut chain = Chain::new(2);
    for memory in &chain.memories {
        assert!(memory.copy_in(0, &[0xEE; 64]));
    }
    let mut message = [0; MAX_MESSAGE];
    let len = encode(&Op::default(), &Name { number: 0, epoch: 3, session: 4 }, 2, &mut message).unwrap();
    // A copy from before the range: the operation ends the chain.
    message[0] = 0x04;
    message[4..8].copy_from_slice(&64_u32.to_le_bytes());
    message[8..16].copy_from_slice(&0_u64.wrapping_sub(64).to_le_bytes());
    chain.messages.write(0, &message[..len]).unwrap();
    let sges = [chain.messages.sge(0, u32::try_from(len).unwrap())];
    chain.head.post_send(&SendWr { data: Data::Sges(&sges), ..SendWr::new(SendOpcode::Send) }).unwrap();
    let mut looks = 0;
    while chain.replicas[0].own().state() == weft_rnic::QpState::Rts {
        looks += 1;
        assert!(looks < 30_000, "SELF goes on");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(
        chain.window.is_empty()
            && chain.acknowledged.poll_one().is_none_or(|done| done.status != Status::Success)
    );
    for replica in [0, 1] {
        assert!(chain.contents(replica).iter().all(|octet| *octet == 0));
        let mut before = [0; 64];
        assert!(chain.memories[replica].copy_out(0, &mut before));
        assert_eq!(before, [0xEE; 64]);
    }
    let _unused = &mut chain;
}
