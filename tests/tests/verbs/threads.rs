//! Real threads and real time: the driver thread, blocking waits, and objects that several threads use at once.
//!
//! No test here sleeps or measures. Time limits only make a failure out of a hang.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::Duration;

use weft_rnic::{
    Access, CmEvent, CompChannel, Completion, CompletionOpcode, Config, ConnParam, Cq, CqInit, Data, Device,
    EventChannel, Listener, Pd, PostError, Progress, Qp, QpCapacity, QpInit, QpState, RecvWr, SendWr, Status,
};
use weft_tests::PORT;

use crate::events::is_readable;
use crate::world::{CAPACITY, WR, drain, outcomes, pattern, post_recv, read_from, write_to};

/// One device with its objects; all completions are announced on `channel`.
pub(crate) struct End {
    pub(crate) channel: CompChannel,
    pub(crate) cq: Cq,
    pub(crate) events: EventChannel,
    pub(crate) pd: Pd,
    pub(crate) device: Device,
}

pub(crate) struct Ends {
    pub(crate) a: End,
    pub(crate) b: End,
    _listener: Listener,
}

impl End {
    fn new(wire: weft_netif::Wire, address: &str, progress: Progress) -> Self {
        let mut config = Config { progress, ..Config::new(address.parse().expect("an address"), 7) };
        // So an idle connection has no deadline, and threads sleep until something happens.
        config.stack.keep_alive = None;
        let device = Device::open(wire, config).expect("a device on memory");
        let channel = device.create_comp_channel().expect("an eventfd");
        let cq = device.create_cq(8192, Some(&channel)).expect("a completion queue");
        let events = device.create_event_channel().expect("an eventfd");
        Self { channel, cq, events, pd: device.alloc_pd(), device }
    }

    fn qp(&self) -> Qp {
        let init = QpInit { capacity: CAPACITY, ..QpInit::new(&self.cq, &self.cq) };
        self.device.create_qp(&self.pd, &init).expect("room for a queue pair")
    }

    /// Does the same as [`Self::qp`] with Sends whose completions need no poll.
    fn qp_with_quiet_sends(&self) -> Qp {
        let quiet = CqInit { ignore_overrun: true, ..CqInit::new(1) };
        let quiet = self.device.create_cq_with(&quiet).expect("a completion queue");
        let init = QpInit { capacity: CAPACITY, ..QpInit::new(&quiet, &self.cq) };
        self.device.create_qp(&self.pd, &init).expect("room for a queue pair")
    }

    /// Sleeps for the next completion: arms, polls once more, and only then waits.
    pub(crate) fn completion(&self) -> Completion {
        loop {
            if let Some(completion) = self.cq.poll_one() {
                return completion;
            }
            self.cq.request_notification(false);
            if let Some(completion) = self.cq.poll_one() {
                return completion;
            }
            let id = self.channel.wait(Some(PATIENCE)).expect("an event for a completion");
            assert_eq!(id, self.cq.id());
        }
    }
}

impl Ends {
    pub(crate) fn new(a: Progress, b: Progress) -> Self {
        let (left, right) = weft_netif::pair(1500);
        let (a, b) = (End::new(left, "10.0.0.1/24", a), End::new(right, "10.0.0.2/24", b));
        let listener = b.device.listen(&b.events, PORT).expect("a free port");
        Self { a, b, _listener: listener }
    }

    /// A connected pair of queue pairs.
    pub(crate) fn link(&self) -> (Qp, Qp) {
        let qb = self.b.qp();
        (self.link_to(&qb), qb)
    }

    /// Makes a queue pair that is connected to `qb`. Drives both devices in turn, so that this works with any
    /// progress.
    pub(crate) fn link_to(&self, qb: &Qp) -> Qp {
        let qa = self.a.qp();
        self.join(&qa, qb);
        qa
    }

    fn join(&self, qa: &Qp, qb: &Qp) {
        let param = ConnParam { peer_to_peer: Some(true), ..ConnParam::default() };
        self.a.device.connect(&self.a.events, qa, self.b.device.address(PORT), param).expect("a free one");
        let (guard, mut established) = (Guard::new(), 0);
        while established < 2 {
            guard.check("a connection");
            for end in [&self.a, &self.b] {
                match end.events.next() {
                    None => {}
                    Some(CmEvent::ConnectRequest(it)) => {
                        end.device.accept(it.id, qb, ConnParam::default()).expect("a free one");
                    }
                    Some(CmEvent::Established { .. }) => established += 1,
                    // An earlier connection whose queue pairs are gone has only ended now.
                    Some(CmEvent::Disconnected { qp_num, .. }) if qp_num != qa.number() => {}
                    Some(other) => panic!("{other:?}"),
                }
            }
        }
    }
}

/// Turns a loop that never ends into a failure.
pub(crate) struct Guard(std::time::Instant);

impl Guard {
    #[expect(clippy::disallowed_methods, reason = "only so that a failing test ends")]
    pub(crate) fn new() -> Self {
        Self(std::time::Instant::now())
    }

    pub(crate) fn check(&self, what: &str) {
        assert!(self.0.elapsed() < PATIENCE, "{what} takes for ever");
        std::thread::yield_now();
    }
}

/// Posts as soon as there is room.
fn post(qp: &Qp, wr: &SendWr<'_>) {
    let guard = Guard::new();
    while let Err(error) = qp.post_send(wr) {
        assert_eq!(error, PostError::QueueFull);
        guard.check("a full queue");
    }
}

#[test]
fn two_threads_that_sleep_until_they_are_answered() {
    let ends = Ends::new(Progress::Thread, Progress::Thread);
    let (qa, qb) = (ends.a.qp_with_quiet_sends(), ends.b.qp_with_quiet_sends());
    ends.join(&qa, &qb);
    let (ma, mb) =
        (ends.a.pd.register(9000, Access::ALL).unwrap(), ends.b.pd.register(9000, Access::ALL).unwrap());
    post_recv(&qb, 0, &[mb.sge(0, 9000)]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..ROUNDS {
                let received = ends.b.completion();
                assert_eq!((received.status, received.opcode), (Status::Success, CompletionOpcode::Recv));
                post_recv(&qb, round + 1, &[mb.sge(0, 9000)]);
                let sges = [mb.sge(0, received.byte_len)];
                qb.post_send(&SendWr { signaled: false, data: Data::Sges(&sges), ..WR }).unwrap();
            }
        });
        for round in 0..ROUNDS {
            let len = 1 + usize::try_from(round * 37 % 4000).unwrap();
            let octets = pattern(len, round);
            ma.write(0, &octets).unwrap();
            post_recv(&qa, round, &[ma.sge(4500, 4000)]);
            let sges = [ma.sge(0, u32::try_from(len).unwrap())];
            qa.post_send(&SendWr { signaled: false, data: Data::Sges(&sges), ..WR }).unwrap();
            let received = ends.a.completion();
            assert_eq!((received.wr_id, received.status), (round, Status::Success));
            let mut back = vec![0; len];
            ma.read(4500, &mut back).unwrap();
            assert!(back == octets, "round {round}");
        }
    });
    qa.disconnect().unwrap();
    for end in [&ends.a, &ends.b] {
        assert!(matches!(end.events.wait(Some(PATIENCE)), Some(CmEvent::Disconnected { .. })));
    }
}

#[test]
fn a_wait_ends_with_its_time() {
    for progress in [Progress::Thread, Progress::Manual] {
        let ends = Ends::new(progress, progress);
        for timeout in [Duration::ZERO, Duration::from_micros(1), Duration::from_millis(2)] {
            assert_eq!(ends.a.events.wait(Some(timeout)), None);
            assert_eq!(ends.a.channel.wait(Some(timeout)), None);
        }
    }
}

#[test]
fn a_descriptor_wakes_poll_on_a_driven_device() {
    let ends = Ends::new(Progress::Thread, Progress::Thread);
    let (qa, qb) = ends.link();
    ends.b.cq.request_notification(true);
    for wr_id in 0..3 {
        post_recv(&qb, wr_id, &[]);
        qa.post_send(&SendWr { wr_id, solicited: wr_id == 2, ..WR }).unwrap();
    }
    let mut fds = [rustix::event::PollFd::new(&ends.b.channel, rustix::event::PollFlags::IN)];
    let patience = rustix::event::Timespec { tv_sec: 60, tv_nsec: 0 };
    assert_eq!(rustix::event::poll(&mut fds, Some(&patience)), Ok(1));
    assert_eq!(ends.b.channel.next(), Some(ends.b.cq.id()));
    assert!(!is_readable(&ends.b.channel));
    let received = drain(&ends.b.cq);
    assert_eq!(outcomes(&received), [0, 1, 2].map(|wr_id| (wr_id, Status::Success)));
}

#[test]
fn one_thread_drives_both_devices_by_polling() {
    let ends = Ends::new(Progress::Manual, Progress::Manual);
    let ((qa, _qb), guard) = (ends.link(), Guard::new());
    let octets = pattern(100_000, 4);
    let (ma, mb) = (
        ends.a.pd.register(200_000, Access::ALL).unwrap(),
        ends.b.pd.register(100_000, Access::ALL).unwrap(),
    );
    ma.write(0, &octets).unwrap();
    let (from, into) = ([ma.sge(0, 100_000)], [ma.sge(100_000, 100_000)]);
    let write = SendWr { wr_id: 1, opcode: write_to(&mb, 0), data: Data::Sges(&from), ..WR };
    let read = SendWr { wr_id: 2, opcode: read_from(&mb, 0), data: Data::Sges(&into), ..WR };
    qa.post_sends(&[write, read]).unwrap();
    let mut done = Vec::new();
    while done.len() < 2 {
        guard.check("the transfer");
        done.extend(ends.a.cq.poll_one());
        // The responder expects no completion, but its poll drives it.
        assert_eq!(ends.b.cq.poll_one(), None);
    }
    assert_eq!(outcomes(&done), [(1, Status::Success), (2, Status::Success)]);
    let mut back = vec![0; 100_000];
    ma.read(100_000, &mut back).unwrap();
    assert!(back == octets);
}

#[test]
fn two_threads_that_wait_drive_a_manual_device_each() {
    let ends = Ends::new(Progress::Manual, Progress::Manual);
    let (qa, qb) = (ends.a.qp_with_quiet_sends(), ends.b.qp_with_quiet_sends());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let Some(CmEvent::ConnectRequest(it)) = ends.b.events.wait(Some(PATIENCE)) else { panic!() };
            post_recv(&qb, 0, &[]);
            ends.b.device.accept(it.id, &qb, ConnParam::default()).unwrap();
            assert!(matches!(ends.b.events.wait(Some(PATIENCE)), Some(CmEvent::Established { .. })));
            for round in 0..ROUNDS {
                assert_eq!(ends.b.completion().status, Status::Success);
                post_recv(&qb, round + 1, &[]);
                qb.post_send(&SendWr { signaled: false, ..WR }).unwrap();
            }
            assert!(matches!(ends.b.events.wait(Some(PATIENCE)), Some(CmEvent::Disconnected { .. })));
        });
        let remote = ends.b.device.address(PORT);
        ends.a.device.connect(&ends.a.events, &qa, remote, ConnParam::default()).unwrap();
        assert!(matches!(ends.a.events.wait(Some(PATIENCE)), Some(CmEvent::Established { .. })));
        for round in 0..ROUNDS {
            post_recv(&qa, round, &[]);
            qa.post_send(&SendWr { signaled: false, ..WR }).unwrap();
            let received = ends.a.completion();
            assert_eq!((received.wr_id, received.status), (round, Status::Success));
        }
        qa.disconnect().unwrap();
        assert!(matches!(ends.a.events.wait(Some(PATIENCE)), Some(CmEvent::Disconnected { .. })));
    });
}

/// Receives `count` messages on `qp`. Returns thread and number of each. `room` counts the receives posted so far.
fn receive_all(end: &End, qp: &Qp, count: usize, room: &AtomicUsize) -> Vec<(u64, u64)> {
    let memory = end.pd.register(16 * 128, Access::LOCAL_WRITE).expect("memory");
    let slot = |wr_id: u64| usize::try_from(wr_id % 128).expect("a slot") * 16;
    for wr_id in 0..128 {
        post_recv(qp, wr_id, &[memory.sge(slot(wr_id), 16)]);
    }
    room.store(128, Ordering::SeqCst);
    let mut messages = Vec::new();
    while messages.len() < count {
        let received = end.completion();
        assert_eq!((received.status, received.byte_len), (Status::Success, 16));
        assert_eq!(received.wr_id, messages.len() as u64, "receives complete in the order of posting");
        let mut octets = [0; 16];
        memory.read(slot(received.wr_id), &mut octets).expect("a slot");
        let (thread, number) = octets.split_at(8);
        let word = |half: &[u8]| u64::from_le_bytes(half.try_into().expect("eight octets"));
        messages.push((word(thread), word(number)));
        let next = received.wr_id + 128;
        qp.post_recv(&RecvWr { wr_id: next, sges: &[memory.sge(slot(next), 16)] }).expect("a free place");
        room.fetch_add(1, Ordering::SeqCst);
    }
    messages
}

fn message(thread: u64, number: u64) -> [u8; 16] {
    let mut octets = [0; 16];
    octets[..8].copy_from_slice(&thread.to_le_bytes());
    octets[8..].copy_from_slice(&number.to_le_bytes());
    octets
}

#[test]
fn several_threads_post_to_one_queue_pair() {
    let ends = Ends::new(Progress::Thread, Progress::Thread);
    let (qa, qb) = ends.link();
    let (room, begun) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let mut sent = Vec::new();
    let messages = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| receive_all(&ends.b, &qb, 4 * EACH, &room));
        for thread in 0..4 {
            let (qa, room, begun) = (&qa, &room, &begun);
            scope.spawn(move || {
                let guard = Guard::new();
                for number in 0..EACH as u64 {
                    // A Send without a receive would end the stream.
                    let own = begun.fetch_add(1, Ordering::SeqCst);
                    while own >= room.load(Ordering::SeqCst) {
                        guard.check("room at the receiver");
                    }
                    // Signaled, so that every one of them is counted at the sender too.
                    let octets = message(thread, number);
                    post(qa, &SendWr { wr_id: thread << 32 | number, data: Data::Inline(&octets), ..WR });
                }
            });
        }
        while sent.len() < 4 * EACH {
            let completion = ends.a.completion();
            assert_eq!(completion.status, Status::Success);
            sent.push(completion.wr_id);
        }
        receiver.join().unwrap()
    });
    let mut expected: Vec<u64> = (0..4).flat_map(|t| (0..EACH as u64).map(move |n| t << 32 | n)).collect();
    for thread in 0..4 {
        let numbers = messages.iter().filter(|(from, _)| *from == thread).map(|(_, number)| *number);
        assert!(numbers.eq(0..EACH as u64), "what one thread posts stays in order");
    }
    let order: Vec<u64> = messages.iter().map(|(thread, number)| thread << 32 | number).collect();
    assert!(sent == order, "completions come in the order of posting, which is that of arrival");
    sent.sort_unstable();
    expected.sort_unstable();
    assert!(sent == expected);
}

#[test]
fn several_threads_post_to_queue_pairs_of_their_own() {
    let ends = Ends::new(Progress::Thread, Progress::Thread);
    let links: Vec<_> = (0..4).map(|_| ends.link()).collect();
    let target = ends.b.pd.register(4 * 64, Access::ALL).unwrap();
    std::thread::scope(|scope| {
        for (thread, (qp, _)) in links.iter().enumerate() {
            let target = &target;
            scope.spawn(move || {
                for number in 0..EACH as u64 {
                    let octets = message(thread as u64, number);
                    let opcode = write_to(target, thread * 64 + 16);
                    post(qp, &SendWr { wr_id: number, opcode, data: Data::Inline(&octets), ..WR });
                }
            });
        }
        let mut next = [0; 4];
        for _ in 0..4 * EACH {
            let done = ends.a.completion();
            let thread = links.iter().position(|(qp, _)| qp.number() == done.qp_num).unwrap();
            assert_eq!((done.wr_id, done.status), (next[thread], Status::Success));
            next[thread] += 1;
        }
    });
    // A Read behind the last Write of each shows that the Write is placed.
    let back = ends.a.pd.register(4 * 64, Access::ALL).unwrap();
    for (thread, (qp, _)) in links.iter().enumerate() {
        let sges = [back.sge(thread * 64, 64)];
        qp.post_send(&SendWr { opcode: read_from(&target, thread * 64), data: Data::Sges(&sges), ..WR })
            .unwrap();
        assert_eq!(ends.a.completion().status, Status::Success);
        let mut octets = [0xFF; 64];
        back.read(thread * 64, &mut octets).unwrap();
        let written = message(thread as u64, EACH as u64 - 1);
        assert_eq!(octets, *[&[0; 16][..], &written, &[0; 32]].concat());
    }
}

/// Four threads poll one queue of side `a`, which is half full at the start. A fifth posts to two queue pairs
/// meanwhile. Returns the completions of each polling thread.
fn poll_together(ends: &Ends, links: &[(Qp, Qp)], total: usize) -> Vec<Vec<Completion>> {
    let target = ends.b.pd.register(8, Access::ALL).expect("memory");
    let post = |number: usize| {
        let (guard, wr_id) = (Guard::new(), number as u64);
        let write = SendWr { wr_id, opcode: write_to(&target, 0), data: Data::Inline(b"x"), ..WR };
        while links[number % 2].0.post_send(&write).is_err() {
            // A manual device is driven here, as no thread may be polling yet.
            ends.a.device.progress();
            guard.check("a full queue");
        }
    };
    (0..total / 2).for_each(post);
    let (taken, seen) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let start = Barrier::new(5);
    std::thread::scope(|scope| {
        for poller in 0..4 {
            let (cq, taken, seen, start) = (&ends.a.cq, &taken, &seen, &start);
            scope.spawn(move || {
                let (guard, mut own) = (Guard::new(), Vec::new());
                let mut out = [Completion::EMPTY; 2];
                start.wait();
                while taken.load(Ordering::SeqCst) < total {
                    let count = cq.poll(&mut out[..1 + poller % 2]);
                    own.extend_from_slice(&out[..count]);
                    if count == 0 {
                        guard.check("polling");
                    }
                    taken.fetch_add(count, Ordering::SeqCst);
                }
                seen.lock().expect("no poller has failed").push(own);
            });
        }
        start.wait();
        (total / 2..total).for_each(post);
    });
    seen.into_inner().expect("no poller has failed")
}

/// Threads post whenever there is room, and two poll. A completion queue as large as the send queues is never full.
#[test]
fn several_threads_post_as_fast_as_the_queues_take_it() {
    const COUNT: u64 = 3000;
    let ends = Ends::new(Progress::Thread, Progress::Thread);
    let cq = ends.a.device.create_cq(256, None).unwrap();
    let capacity = QpCapacity { send_wr: 64, ..CAPACITY };
    let target = ends.b.pd.register(8, Access::ALL).unwrap();
    let links: Vec<_> = (0..4)
        .map(|_| {
            let init = QpInit { capacity, ..QpInit::new(&cq, &cq) };
            let (qa, qb) = (ends.a.device.create_qp(&ends.a.pd, &init).unwrap(), ends.b.qp());
            ends.join(&qa, &qb);
            (qa, qb)
        })
        .collect();
    let polled = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for (qa, _) in &links {
            let wr = SendWr { opcode: write_to(&target, 0), data: Data::Inline(b"8 octets"), ..WR };
            scope.spawn(move || (0..COUNT).for_each(|wr_id| post(qa, &SendWr { wr_id, ..wr })));
        }
        for _ in 0..2 {
            scope.spawn(|| {
                let (guard, mut out) = (Guard::new(), [Completion::EMPTY; 16]);
                while polled.load(Ordering::Relaxed) < links.len() * usize::try_from(COUNT).unwrap() {
                    let count = cq.poll(&mut out);
                    assert!(out[..count].iter().all(|completion| completion.status == Status::Success));
                    polled.fetch_add(count, Ordering::Relaxed);
                    guard.check("a completion");
                }
            });
        }
    });
    assert!(!cq.is_overrun());
}

#[test]
fn several_threads_poll_one_queue() {
    for progress in [Progress::Thread, Progress::Manual] {
        // On a manual device the polling threads also drive it in turns.
        let ends = Ends::new(progress, Progress::Thread);
        let links = [(); 2].map(|()| {
            let capacity = QpCapacity { send_wr: 2048, ..CAPACITY };
            let init = QpInit { capacity, ..QpInit::new(&ends.a.cq, &ends.a.cq) };
            let (qa, qb) = (ends.a.device.create_qp(&ends.a.pd, &init).unwrap(), ends.b.qp());
            ends.join(&qa, &qb);
            (qa, qb)
        });
        let seen = poll_together(&ends, &links, POLLED);
        for own in &seen {
            for (qp, _) in &links {
                let of_qp = own.iter().filter(|c| c.qp_num == qp.number());
                assert!(of_qp.is_sorted_by_key(|c| c.wr_id), "each thread sees them in order");
            }
        }
        assert!(seen.iter().flatten().all(|c| c.status == Status::Success));
        let mut all: Vec<u64> = seen.iter().flatten().map(|c| c.wr_id).collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..POLLED as u64), "a completion was lost or doubled");
    }
}

#[test]
fn memory_is_dropped_while_a_thread_transfers_it() {
    let ends = Ends::new(Progress::Thread, Progress::Thread);
    for local in [true, false] {
        let (qa, qb) = ends.link();
        let (ma, mb) = (
            ends.a.pd.register(1 << 16, Access::ALL).unwrap(),
            ends.b.pd.register(1 << 16, Access::ALL).unwrap(),
        );
        let sges = [ma.sge(0, 1 << 16)];
        let read = SendWr { opcode: read_from(&mb, 0), data: Data::Sges(&sges), ..WR };
        let write = SendWr { opcode: write_to(&mb, 0), ..read };
        let (begun, mut victim) = (AtomicBool::new(false), Some(if local { ma } else { mb }));
        let failed = std::thread::scope(|scope| {
            let transfer = scope.spawn(|| {
                loop {
                    let wr = if local { &write } else { &read };
                    if qa.post_send(wr).is_ok() {
                        let done = ends.a.completion();
                        if done.status != Status::Success {
                            return done;
                        }
                        begun.store(true, Ordering::SeqCst);
                    }
                }
            });
            let guard = Guard::new();
            while !begun.load(Ordering::SeqCst) {
                guard.check("the first transfer");
            }
            drop(victim.take());
            transfer.join().unwrap()
        });
        let expected = if local { Status::LocalProtection } else { Status::RemoteAccess };
        assert_eq!(failed.status, expected);
        for end in [&ends.a, &ends.b] {
            assert!(matches!(end.events.wait(Some(PATIENCE)), Some(CmEvent::Disconnected { .. })));
        }
        assert_ne!([qa.state(), qb.state()], [QpState::Rts; 2]);
    }
}

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const ROUNDS: u64 = 200;
const EACH: usize = 500;
/// So many completions fit, so that a slow thread causes no overrun.
const POLLED: usize = 6000;
