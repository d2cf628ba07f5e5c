//! Several engines of one device: their queue pairs, the memory that all of them share, and connections that move.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::world::{CAPACITY, WR, WRITE, contents, drain, write_to};
use weft_rnic::{
    Access, Clock, CmError, CmEvent, Config, ConnParam, Cq, CreateError, Data, Device, EventChannel, Ground,
    Listener, Lockstep, Mr, Pd, Progress, Qp, QpInit, QpState, RecvWr, SendWr, SrqInit, Status,
    StreamRequest,
};

const ENGINES: usize = 3;

/// A device with a completion queue on each engine.
struct End {
    cqs: Vec<Cq>,
    events: EventChannel,
    pd: Pd,
    device: Device,
}

struct Ends {
    a: End,
    b: End,
    clock: Clock,
    listener: Listener,
}

impl End {
    fn new(ground: impl Into<Ground>, config: Config) -> Self {
        let engines = config.engines;
        let device = Device::open(ground, config).unwrap();
        assert_eq!(device.num_comp_vectors(), engines);
        let cqs = (0..engines).map(|vector| device.create_cq_on(vector, 4096, None).unwrap()).collect();
        let events = device.create_event_channel().unwrap();
        Self { cqs, events, pd: device.alloc_pd(), device }
    }

    fn qp(&self, vector: usize) -> Qp {
        let init = QpInit { capacity: CAPACITY, ..QpInit::new(&self.cqs[vector], &self.cqs[vector]) };
        self.device.create_qp(&self.pd, &init).unwrap()
    }

    /// Segments of Writes that an engine has sent and received.
    fn writes(&self, vector: usize) -> [u64; 2] {
        let counters = self.device.engine_counters(vector).unwrap();
        [counters.sent.by_opcode[WRITE], counters.received.by_opcode[WRITE]]
    }
}

impl Ends {
    fn new(engines: [usize; 2], progress: Progress) -> Self {
        let clock = match progress {
            Progress::External => Clock::virtual_time(),
            _ => Clock::real_time(4),
        };
        let (left, right) = weft_netif::pair(1500);
        let config = |address: &str, engines| {
            let config = Config::new(address.parse().unwrap(), 7);
            Config { engines, progress, clock: clock.clone(), ..config }
        };
        let a = End::new(left, config("10.0.0.1/24", engines[0]));
        let b = End::new(right, config("10.0.0.2/24", engines[1]));
        Self::listening(a, b, clock)
    }

    /// On the sockets of the kernel.
    fn on_the_host(engines: [usize; 2]) -> Self {
        let end = |engines| {
            let config = Config::host([127, 0, 0, 1].into(), 7);
            End::new(Ground::Host, Config { engines, progress: Progress::Thread, ..config })
        };
        Self::listening(end(engines[0]), end(engines[1]), Clock::real_time(1))
    }

    fn listening(a: End, b: End, clock: Clock) -> Self {
        let listener = b.device.listen(&b.events, 0).unwrap();
        Self { a, b, clock, listener }
    }

    fn target(&self) -> SocketAddr {
        self.listener.local_addr()
    }

    /// Runs until `look` returns a value, and returns that.
    fn run<T>(&self, mut look: impl FnMut() -> Option<T>) -> T {
        if self.clock.set(self.clock.now()) {
            let mut lockstep = Lockstep::new(self.clock.clone(), &[&self.a.device, &self.b.device]);
            let deadline = self.clock.now() + weft_netif::Duration::from_secs(60);
            return lockstep.run_until(deadline, look).expect("it happens within a minute");
        }
        loop {
            if let Some(found) = look() {
                return found;
            }
            std::thread::yield_now();
        }
    }

    /// Returns the next event that is `wanted`. Skips events of earlier connections, and late ones.
    fn event(&self, events: &EventChannel, wanted: impl Fn(&CmEvent) -> bool) -> CmEvent {
        self.run(|| events.next().filter(&wanted))
    }

    fn link(&self, qa: &Qp, qb: &Qp, local: Option<u16>) {
        let local = local.map(|port| ([0; 4], port).into());
        let param = ConnParam { peer_to_peer: Some(true), local, ..ConnParam::default() };
        self.a.device.connect(&self.a.events, qa, self.target(), param).unwrap();
        let request = self.event(&self.b.events, |event| matches!(event, CmEvent::ConnectRequest(_)));
        let CmEvent::ConnectRequest(request) = request else { panic!("{request:?}") };
        self.b.device.accept(request.id, qb, ConnParam::default()).unwrap();
        for events in [&self.a.events, &self.b.events] {
            self.event(events, |event| matches!(event, CmEvent::Established { .. }));
        }
    }

    /// Writes `octets` through `qp`, whose completions come out of `cq`, and waits for the completion.
    fn write(&self, (qp, cq): (&Qp, &Cq), from: &Mr, to: &Mr) {
        let sges = [from.sge(0, u32::try_from(from.len()).unwrap())];
        let wr = SendWr { signaled: true, data: Data::Sges(&sges), opcode: write_to(to, 0), ..WR };
        qp.post_send(&wr).unwrap();
        let completion = self.run(|| cq.poll_one());
        assert_eq!(completion.status, Status::Success);
    }
}

fn memory(end: &End, octets: &[u8]) -> Mr {
    let memory = end.pd.register(octets.len(), Access::ALL).unwrap();
    memory.write(0, octets).unwrap();
    memory
}

/// Every pairing of engines works, and each engine does the work of its own queue pairs.
#[test]
fn each_engine_serves_its_queue_pairs() {
    let ends = Ends::new([ENGINES, 2], Progress::External);
    let mut numbers = Vec::new();
    for (from, to) in (0..ENGINES).flat_map(|from| [(from, 0), (from, 1)]) {
        let (qa, qb) = (ends.a.qp(from), ends.b.qp(to));
        numbers.push(qa.number());
        ends.link(&qa, &qb, None);
        let before = [ends.a.writes(from), ends.b.writes(to)];
        let (source, sink) = (memory(&ends.a, b"from a to b"), memory(&ends.b, &[0; 11]));
        ends.write((&qa, &ends.a.cqs[from]), &source, &sink);
        ends.run(|| (contents(&sink) == b"from a to b").then_some(()));
        let (source, sink) = (memory(&ends.b, b"from b to a"), memory(&ends.a, &[0; 11]));
        ends.write((&qb, &ends.b.cqs[to]), &source, &sink);
        ends.run(|| (contents(&sink) == b"from b to a").then_some(()));
        let after = [ends.a.writes(from), ends.b.writes(to)];
        assert_eq!(after, before.map(|[sent, received]| [sent + 1, received + 1]), "{from} {to}");
        qa.disconnect().unwrap();
        for events in [&ends.a.events, &ends.b.events] {
            ends.event(events, |event| matches!(event, CmEvent::Disconnected { .. }));
        }
    }
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 2 * ENGINES, "no two queue pairs have the same number");
    assert_eq!(ends.a.device.counters().startup_failures, 0);
}

/// The ports choose another engine for the frames of a connection than that of its queue pair.
#[test]
fn a_local_port_chosen_by_the_application_may_belong_to_any_engine() {
    let ends = Ends::new([ENGINES, ENGINES], Progress::External);
    for port in 3000..3012 {
        let vector = usize::from(port) % ENGINES;
        let (qa, qb) = (ends.a.qp(vector), ends.b.qp((vector + 1) % ENGINES));
        ends.link(&qa, &qb, Some(port));
        let (source, sink) = (memory(&ends.a, &[7; 5000]), memory(&ends.b, &[0; 5000]));
        ends.write((&qa, &ends.a.cqs[vector]), &source, &sink);
        ends.run(|| (contents(&sink) == [7; 5000]).then_some(()));
        let again = ConnParam { local: Some(([0; 4], port).into()), ..ConnParam::default() };
        let other = ends.a.qp((vector + 1) % ENGINES);
        let refused = ends.a.device.connect(&ends.a.events, &other, ends.target(), again);
        assert!(matches!(refused, Err(CmError::Connect(_))), "{port}: {refused:?}");
    }
}

/// A device can be its own peer, with the ends of a connection in any two of its engines.
#[test]
fn engines_of_one_device_connect_to_each_other() {
    let ends = Ends::new([1, ENGINES], Progress::External);
    let end = &ends.b;
    for (from, to) in (0..ENGINES).flat_map(|from| (0..ENGINES).map(move |to| (from, to))) {
        let (qa, qb) = (end.qp(from), end.qp(to));
        let param = ConnParam { peer_to_peer: Some(true), ..ConnParam::default() };
        end.device.connect(&end.events, &qa, ends.target(), param).unwrap();
        let CmEvent::ConnectRequest(request) = ends.run(|| end.events.next()) else { panic!("a request") };
        end.device.accept(request.id, &qb, ConnParam::default()).unwrap();
        for _ in 0..2 {
            assert!(matches!(ends.run(|| end.events.next()), CmEvent::Established { .. }));
        }
        let (source, sink) = (memory(end, &[9; 3000]), memory(end, &[0; 3000]));
        ends.write((&qa, &end.cqs[from]), &source, &sink);
        ends.run(|| (contents(&sink) == [9; 3000]).then_some(()));
    }
}

#[test]
fn objects_of_different_engines_do_not_go_together() {
    let ends = Ends::new([2, 1], Progress::External);
    let End { device, cqs, pd, .. } = &ends.a;
    let refused = device.create_cq_on(2, 16, None).map(|_| ());
    assert_eq!(refused, Err(CreateError::NoSuchEngine { comp_vector: 2, engines: 2 }));
    let init = QpInit { capacity: CAPACITY, ..QpInit::new(&cqs[0], &cqs[1]) };
    assert_eq!(device.create_qp(pd, &init).map(|_| ()), Err(CreateError::DifferentEngines));
    for engines in [0, 257] {
        let config = Config { engines, ..Config::new("10.0.0.1/24".parse().unwrap(), 1) };
        let error = Device::open(weft_netif::pair(1500).0, config).unwrap_err();
        assert_eq!(error.to_string(), format!("{engines} engines: there are 1 to 256"));
    }
}

/// Queue pairs that wait for a request of a shared receive queue are woken in the engine of both.
#[test]
fn a_shared_receive_queue_serves_the_queue_pairs_of_its_engine() {
    let ends = Ends::new([1, ENGINES], Progress::External);
    let vector = ENGINES - 1;
    let srq = ends.b.pd.create_srq_on(vector, &SrqInit { max_wr: 4, max_sge: 1, limit: 0 }).unwrap();
    let init = |vector: usize| QpInit {
        capacity: CAPACITY,
        srq: Some(&srq),
        rnr_wait: true,
        ..QpInit::new(&ends.b.cqs[vector], &ends.b.cqs[vector])
    };
    let refused = ends.b.device.create_qp(&ends.b.pd, &init(0)).map(|_| ());
    assert_eq!(refused, Err(CreateError::DifferentEngines));
    let refused = ends.b.pd.create_srq_on(ENGINES, &SrqInit { max_wr: 4, max_sge: 1, limit: 0 }).map(|_| ());
    assert_eq!(refused, Err(CreateError::NoSuchEngine { comp_vector: ENGINES, engines: ENGINES }));
    let inbox = memory(&ends.b, &[0; 100]);
    for _ in 0..3 {
        let (qa, qb) = (ends.a.qp(0), ends.b.device.create_qp(&ends.b.pd, &init(vector)).unwrap());
        ends.link(&qa, &qb, None);
        qa.post_send(&SendWr { data: Data::Inline(b"hello"), ..WR }).unwrap();
        // This runs until no more events happen, and then the message has come.
        Lockstep::new(ends.clock.clone(), &[&ends.a.device, &ends.b.device])
            .run_until(ends.clock.now() + weft_netif::Duration::from_millis(50), || None::<()>);
        assert!(drain(&ends.b.cqs[vector]).is_empty());
        srq.post_recv(&RecvWr { wr_id: 5, sges: &[inbox.sge(0, 100)] }).unwrap();
        let completion = ends.run(|| ends.b.cqs[vector].poll_one());
        assert_eq!(
            (completion.status, completion.byte_len, completion.qp_num),
            (Status::Success, 5, qb.number())
        );
    }
}

/// A connection in streaming mode moves to the engine of the queue pair, also after rejections.
#[test]
fn streaming_mode_ends_in_the_engine_of_the_queue_pair() {
    let ends = Ends::new([ENGINES, ENGINES], Progress::External);
    let _listener = ends.b.device.listen_streaming(&ends.b.events, 7).unwrap();
    for vector in 0..ENGINES {
        let stream = ends.a.device.open_stream(&ends.a.events, ends.b.device.address(7)).unwrap();
        let event = ends.event(&ends.b.events, |event| matches!(event, CmEvent::StreamRequest(_)));
        let CmEvent::StreamRequest(StreamRequest { id, .. }) = event else { panic!("{event:?}") };
        let accepted = ends.b.device.accept_stream(id).unwrap();
        ends.event(&ends.a.events, |event| matches!(event, CmEvent::StreamReady { .. }));
        assert_eq!(stream.send(b"hello").unwrap(), 5);
        let mut hello = [0; 5];
        ends.run(|| (accepted.receive(&mut hello).unwrap() == 5).then_some(()));
        let (qa, qb) = (ends.a.qp(vector), ends.b.qp((vector + 1) % ENGINES));
        for round in 0..2 {
            accepted.start_responder(b"").unwrap();
            stream.start_initiator(&qa, ConnParam::default()).unwrap();
            let event = ends.event(&ends.b.events, |event| matches!(event, CmEvent::ConnectRequest(_)));
            let CmEvent::ConnectRequest(request) = event else { panic!("{event:?}") };
            if round == 0 {
                ends.b.device.reject(request.id, b"later").unwrap();
                ends.event(&ends.a.events, |event| matches!(event, CmEvent::Rejected { .. }));
                continue;
            }
            ends.b.device.accept(request.id, &qb, ConnParam::default()).unwrap();
            for events in [&ends.a.events, &ends.b.events] {
                ends.event(events, |event| matches!(event, CmEvent::Established { .. }));
            }
        }
        let (source, sink) = (memory(&ends.a, &[3; 100]), memory(&ends.b, &[0; 100]));
        ends.write((&qa, &ends.a.cqs[vector]), &source, &sink);
        ends.run(|| (contents(&sink) == [3; 100]).then_some(()));
    }
}

#[test]
fn threads_serve_two_connections_while_memory_comes_and_goes() {
    two_connections_at_once(&Ends::new([2, 2], Progress::Thread));
}

#[test]
fn engines_on_the_sockets_of_the_kernel() {
    two_connections_at_once(&Ends::on_the_host([2, 2]));
}

/// Two driver threads on each side and the application's threads work at the same time.
fn two_connections_at_once(ends: &Ends) {
    let links: Vec<_> = (0..2).map(|vector| (ends.a.qp(vector), ends.b.qp(1 - vector))).collect();
    for (qa, qb) in &links {
        ends.link(qa, qb, None);
    }
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = links
            .iter()
            .enumerate()
            .map(|(vector, (qa, _))| {
                scope.spawn(move || {
                    let source = memory(&ends.a, &[5; 20_000]);
                    let sink = memory(&ends.b, &[0; 20_000]);
                    for _ in 0..ROUNDS {
                        ends.write((qa, &ends.a.cqs[vector]), &source, &sink);
                    }
                    // A Write completes before the peer has it, and the last one still needs the memory.
                    ends.run(|| (ends.b.writes(1 - vector)[1] >= ROUNDS).then_some(()));
                    assert_eq!(contents(&sink), [5; 20_000]);
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                let transient = memory(&ends.b, &[1; 4096]);
                transient.invalidate();
                drop(transient);
                drop(ends.a.qp(0));
            }
        });
        let results: Vec<_> = writers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Release);
        assert!(results.iter().all(Result::is_ok));
    });
    for vector in 0..2 {
        assert!(ends.a.writes(vector)[0] >= ROUNDS && ends.b.writes(vector)[1] >= ROUNDS);
    }
}

/// After an STag is revoked no octet changes, whichever engine was placing octets.
#[test]
fn revoked_memory_stays_as_it_is_while_another_engine_writes() {
    let ends = Ends::new([2, 2], Progress::Thread);
    for round in 0..8 {
        let (qa, qb) = (ends.a.qp(1), ends.b.qp(round % 2));
        ends.link(&qa, &qb, None);
        let source = memory(&ends.a, &[0xAA; 60_000]);
        let mut storage = vec![0_u8; 60_000];
        let sink = ends.b.pd.register(storage.len(), Access::ALL).unwrap();
        let sges = [source.sge(0, 60_000)];
        for index in 1..=16 {
            let wr = SendWr { data: Data::Sges(&sges), signaled: index == 16, ..WR };
            qa.post_send(&SendWr { opcode: write_to(&sink, 0), ..wr }).unwrap();
        }
        ends.run(|| (contents(&sink)[0] == 0xAA).then_some(()));
        sink.invalidate();
        sink.write(0, &storage).unwrap();
        // All Writes are in TCP, or the peer refused one and its stream has ended.
        ends.run(|| (qb.state() != QpState::Rts || !drain(&ends.a.cqs[1]).is_empty()).then_some(()));
        sink.read(0, &mut storage).unwrap();
        assert!(storage.iter().all(|&octet| octet == 0));
    }
}

const ROUNDS: u64 = 200;
