//! What is taken out of use on one engine, no engine copies from or to any more.

use std::sync::atomic::{AtomicBool, Ordering};

use weft_netif::Duration;
use weft_verbs::{Access, Bind, FastRegister, SendOpcode, SendWr, Status, WindowType};

use crate::{
    Clock, CmEvent, Completion, Config, ConnParam, Cq, Data, Device, Lockstep, Pd, Progress, Qp, QpInit,
};

/// A device of two engines, and a queue pair of the first one that is connected to one of the second.
struct World {
    device: Device,
    pd: Pd,
    cq: Cq,
    qp: Qp,
    _peer: Qp,
}

impl World {
    fn new() -> Self {
        let clock = Clock::virtual_time();
        let config = Config::new("10.0.0.1/24".parse().unwrap(), 7);
        let config = Config { engines: 2, progress: Progress::External, clock: clock.clone(), ..config };
        let device = Device::open(weft_netif::pair(1500).0, config).unwrap();
        let pd = device.alloc_pd();
        let [cq, other] = [0, 1].map(|vector| device.create_cq_on(vector, 16, None).unwrap());
        let [qp, peer] = [&cq, &other].map(|cq| device.create_qp(&pd, &QpInit::new(cq, cq)).unwrap());
        let events = device.create_event_channel().unwrap();
        let listener = device.listen(&events, 0).unwrap();
        let next = || {
            let deadline = clock.now() + Duration::from_secs(10);
            Lockstep::new(clock.clone(), &[&device]).run_until(deadline, || events.next())
        };
        let param = ConnParam { peer_to_peer: Some(true), ..ConnParam::default() };
        device.connect(&events, &qp, listener.local_addr(), param).unwrap();
        let Some(CmEvent::ConnectRequest(request)) = next() else { panic!("a request") };
        device.accept(request.id, &peer, ConnParam::default()).unwrap();
        for _ in 0..2 {
            assert!(matches!(next(), Some(CmEvent::Established { .. })));
        }
        Self { device, pd, cq, qp, _peer: peer }
    }

    fn post(&self, opcode: SendOpcode) {
        let wr = SendWr {
            wr_id: 9,
            opcode,
            data: Data::Inline(&[]),
            signaled: true,
            fence: false,
            solicited: false,
        };
        self.qp.post_send(&wr).unwrap();
    }

    /// Carries a request out while nobody else does anything.
    fn carry_out(&self, opcode: SendOpcode) {
        self.post(opcode);
        let done = loop {
            self.device.advance();
            if let Some(done) = self.cq.poll_one() {
                break done;
            }
        };
        assert_eq!((done.wr_id, done.status), (9, Status::Success));
    }

    /// Carries a request out while another engine is in the middle of a turn, which reads the table. Answers what
    /// completed before the request's engine waited for that turn, or else before the end.
    fn carry_out_during_a_turn(&self, opcode: SendOpcode) -> [Option<Completion>; 2] {
        let table = self.device.engines.shared_memory().unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let turn = table.read().unwrap();
            self.post(opcode);
            scope.spawn(|| {
                while !is_over.load(Ordering::Acquire) {
                    self.device.advance();
                }
            });
            // Nobody gets to read a table any more that somebody waits to have for itself.
            let early = loop {
                let early = self.cq.poll_one();
                if early.is_some() || table.try_read().is_err() {
                    break early.or_else(|| self.cq.poll_one());
                }
            };
            drop(turn);
            let late = loop {
                let late = self.cq.poll_one();
                if late.is_some() || early.is_some() {
                    break late;
                }
            };
            is_over.store(true, Ordering::Release);
            [early, late]
        })
    }
}

fn assert_waited([early, late]: [Option<Completion>; 2]) {
    assert_eq!(early, None, "another engine may still be copying");
    assert_eq!(late.map(|done| (done.wr_id, done.status)), Some((9, Status::Success)));
}

fn assert_at_once([early, late]: [Option<Completion>; 2]) {
    assert_eq!((early.map(|done| done.status), late), (Some(Status::Success), None));
}

// Covers 5042-6.2.2-2.
#[test]
fn what_all_streams_share_is_revoked_when_no_engine_copies_any_more() {
    let world = World::new();
    let memory = world.pd.alloc_fast_mr(100).unwrap();
    let stag = memory.stag(1);
    let register = FastRegister {
        stag,
        offset: 0,
        iova: 0,
        length: 100,
        access: Access::REMOTE_WRITE | Access::LOCAL_WRITE,
    };
    world.carry_out(SendOpcode::FastRegister(register));
    assert_waited(world.carry_out_during_a_turn(SendOpcode::LocalInvalidate { stag }));
    // It is invalid already: there is nothing to wait for.
    assert_at_once(world.carry_out_during_a_turn(SendOpcode::LocalInvalidate { stag }));
}

// Covers 5042-6.2.2-2.
#[test]
fn a_window_for_all_streams_is_bound_anew_when_no_engine_copies_any_more() {
    let world = World::new();
    let memory = world.pd.register(100, Access::LOCAL_WRITE | Access::MW_BIND).unwrap();
    let window = world.pd.alloc_mw(WindowType::Type1).unwrap();
    let bind = |key, length| {
        let (region, addr, access) = (memory.rkey(), memory.addr(), Access::REMOTE_WRITE);
        SendOpcode::BindWindow(Bind { window: window.stag(key), region, addr, length, access })
    };
    assert_at_once(world.carry_out_during_a_turn(bind(1, 100)));
    assert_waited(world.carry_out_during_a_turn(bind(2, 50)));
    assert_waited(world.carry_out_during_a_turn(bind(3, 0)));
}

#[test]
fn what_is_for_one_stream_waits_for_nobody() {
    let world = World::new();
    let memory = world.pd.register_for(&world.qp, 100, Access::ALL).unwrap();
    let stag = memory.rkey();
    assert_at_once(world.carry_out_during_a_turn(SendOpcode::LocalInvalidate { stag }));
    assert!(memory.is_invalidated());
}

// Covers 5042-6.2.2-2.
#[test]
fn a_window_is_revoked_when_no_engine_copies_any_more() {
    let world = World::new();
    let memory = world.pd.register(100, Access::LOCAL_WRITE | Access::MW_BIND).unwrap();
    let window = world.pd.alloc_mw(WindowType::Type2B).unwrap();
    let (table, is_over) = (world.device.engines.shared_memory().unwrap(), AtomicBool::new(false));
    for key in 1..=3 {
        let (region, addr, access) = (memory.rkey(), memory.addr(), Access::REMOTE_WRITE);
        let bind = Bind { window: window.stag(key), region, addr, length: 100, access };
        world.carry_out(SendOpcode::BindWindow(bind));
        is_over.store(false, Ordering::Release);
        std::thread::scope(|scope| {
            let turn = table.read().unwrap();
            scope.spawn(|| {
                window.revoke(&world.qp);
                is_over.store(true, Ordering::Release);
            });
            // No thread gets to read a table any more that another one waits to have for itself.
            while table.try_read().is_ok() {
                assert!(!is_over.load(Ordering::Acquire), "another engine may still be copying");
            }
            assert!(!is_over.load(Ordering::Acquire) && window.is_bound());
            drop(turn);
        });
        assert!(!window.is_bound());
    }
}
