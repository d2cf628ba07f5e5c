//! Memory that its owner revokes while a driver thread places octets of the peer into it.

use std::sync::atomic::{AtomicBool, Ordering};

use weft_rnic::{Access, Bind, CmEvent, Data, Mr, Progress, Qp, SendOpcode, SendWr, Status, WindowType};

use crate::threads::{End, Ends, Guard, PATIENCE};
use crate::world::{WR, write_to};

/// The length of one segment, so that a check of all of it takes no longer than its placement.
const LEN: usize = 1400;
const ROUNDS: usize = 100;

fn content(memory: &Mr) -> [u8; LEN] {
    let mut octets = [0; LEN];
    memory.read(0, &mut octets).unwrap();
    octets
}

/// Writes the two sources to one place in turns, as fast as possible, until the peer has ended the stream.
fn write_until_refused(end: &End, qp: &Qp, sources: &[Mr; 2], opcode: SendOpcode) {
    let guard = Guard::new();
    for source in sources.iter().cycle() {
        let sges = [source.sge(0, u32::try_from(LEN).unwrap())];
        let wr = SendWr { opcode, data: Data::Sges(&sges), ..WR };
        // A full queue does no harm, since any Write will do.
        let _is_posted = qp.post_send(&wr).is_ok();
        while let Some(done) = end.cq.poll_one() {
            if done.qp_num == qp.number() && done.status != Status::Success {
                return;
            }
        }
        guard.check("the end of a stream");
    }
}

/// Many Writes arrive while the call returns. From then on no octet changes, also none of a segment that was being
/// placed.
// Covers 5042-6.2.2-2, 5040-8.1.1-7.
#[test]
fn memory_is_revoked_while_a_thread_places_into_it() {
    let ends = Ends::new(Progress::Thread, Progress::Thread);
    let sources = [0x11, 0x22].map(|octet| {
        let source = ends.a.pd.register(LEN, Access::ALL).unwrap();
        source.write(0, &[octet; LEN]).unwrap();
        source
    });
    for round in 0..ROUNDS {
        let (qa, _qb) = ends.link();
        let target = ends.b.pd.register(LEN, Access::ALL).unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                write_until_refused(&ends.a, &qa, &sources, write_to(&target, 0));
                is_over.store(true, Ordering::SeqCst);
            });
            let guard = Guard::new();
            while content(&target) == [0; LEN] {
                guard.check("the first Write");
            }
            target.invalidate();
            let before = content(&target);
            while !is_over.load(Ordering::SeqCst) {
                guard.check("the refusal");
            }
            assert!(content(&target) == before, "round {round}");
        });
        for end in [&ends.a, &ends.b] {
            assert!(matches!(end.events.wait(Some(PATIENCE)), Some(CmEvent::Disconnected { .. })));
        }
    }
}

/// The same with a window: after its Local Invalidate has completed, or it was revoked, the memory below does not
/// change.
// Covers 5042-6.2.2-2, 5040-8.1.1-7.
#[test]
fn a_window_is_invalidated_while_a_thread_places_through_it() {
    let ends = Ends::new(Progress::Thread, Progress::Thread);
    let sources = [0x11, 0x22].map(|octet| {
        let source = ends.a.pd.register(LEN, Access::ALL).unwrap();
        source.write(0, &[octet; LEN]).unwrap();
        source
    });
    let target = ends.b.pd.register(LEN, Access::LOCAL_WRITE | Access::MW_BIND).unwrap();
    let window = ends.b.pd.alloc_mw(WindowType::Type2B).unwrap();
    for round in 0..ROUNDS {
        let (qa, qb) = ends.link();
        let guard = Guard::new();
        let carry_out = |opcode| {
            qb.post_send(&SendWr { wr_id: 77, opcode, ..WR }).unwrap();
            let done = loop {
                match ends.b.cq.poll_one().filter(|done| done.qp_num == qb.number()) {
                    Some(done) => break done,
                    None => guard.check("a request without a message"),
                }
            };
            assert_eq!((done.wr_id, done.status), (77, Status::Success));
        };
        target.write(0, &[0; LEN]).unwrap();
        let stag = window.stag(u8::try_from(round).unwrap());
        let (addr, access) = (target.addr(), Access::REMOTE_WRITE);
        let bind = Bind { window: stag, region: target.rkey(), addr, length: LEN as u64, access };
        carry_out(SendOpcode::BindWindow(bind));
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                write_until_refused(&ends.a, &qa, &sources, SendOpcode::Write { stag, to: addr });
                is_over.store(true, Ordering::SeqCst);
            });
            while content(&target) == [0; LEN] {
                guard.check("the first Write");
            }
            if round % 2 == 0 {
                carry_out(SendOpcode::LocalInvalidate { stag });
            } else {
                window.revoke(&qb);
            }
            let before = content(&target);
            while !is_over.load(Ordering::SeqCst) {
                guard.check("the refusal");
            }
            assert!(content(&target) == before, "round {round}");
        });
        for end in [&ends.a, &ends.b] {
            assert!(matches!(end.events.wait(Some(PATIENCE)), Some(CmEvent::Disconnected { .. })));
        }
    }
}
