//! Memory windows that their owner takes out of use at once, whatever their connections are doing.

use weft_netif::Duration;
use weft_rnic::{
    Access, Bind, Cause, CompletionOpcode, Data, DisconnectReason, Mr, Mw, MwBind, SendOpcode, SendWr, Stag,
    Status, WindowType,
};
use weft_tests::{Pair, Side};

use crate::world::{
    GUARD, READ_REQUEST, READ_RESPONSE, WR, connected, contents, drain, end_of_a, end_of_b, guarded, len32,
    outcomes, pattern, post_recv, read_from, terminate_code, write_to,
};

/// The length of a transfer that takes many turns.
const LONG: usize = 1 << 20;
/// What the owner writes into its memory behind a revocation.
const SECRET: u8 = 0xDD;

/// Returns a region for windows with `octets`, which no peer can use by its own STag.
fn bindable(side: &Side, octets: &[u8]) -> Mr {
    let memory = side.pd.register(octets.len(), Access::LOCAL_WRITE | Access::MW_BIND).unwrap();
    memory.write(0, octets).unwrap();
    memory
}

/// Returns a binding to all of `region`.
fn whole(window: Stag, region: &Mr) -> SendOpcode {
    let access = Access::REMOTE_WRITE | Access::REMOTE_READ;
    let (addr, length) = (region.addr(), region.len() as u64);
    SendOpcode::BindWindow(Bind { window, region: region.rkey(), addr, length, access })
}

/// Returns a window of `b` that is bound to all of `region` with this key.
fn bound(pair: &mut Pair, region: &Mr, key: u8) -> Mw {
    let window = pair.b.pd.alloc_mw(WindowType::Type2B).unwrap();
    bind(pair, whole(window.stag(key), region));
    window
}

fn bind(pair: &mut Pair, opcode: SendOpcode) {
    pair.b.qp.post_send(&SendWr { opcode, ..WR }).unwrap();
    let done = pair.completion_of_b();
    assert_eq!((done.opcode, done.status), (CompletionOpcode::BindWindow, Status::Success));
}

fn through(stag: Stag, region: &Mr) -> SendOpcode {
    SendOpcode::Write { stag, to: region.addr() }
}

/// `a` writes through a window of `b`, which takes it.
fn write(pair: &mut Pair, stag: Stag, region: &Mr, octets: &[u8; 8]) {
    let opcode = through(stag, region);
    pair.a.qp.post_send(&SendWr { opcode, data: Data::Inline(octets), ..WR }).unwrap();
    assert_eq!(pair.completion_of_a().status, Status::Success);
    pair.settle(Duration::from_millis(10));
    assert_eq!(contents(region)[..8], *octets);
}

/// `b` refuses a Write of `a`: its STag names nothing.
fn expect_refused(pair: &mut Pair, stag: Stag, region: &Mr) {
    let before = contents(region);
    let opcode = through(stag, region);
    pair.a.qp.post_send(&SendWr { opcode, data: Data::Inline(b"too late"), ..WR }).unwrap();
    assert_eq!(terminate_code(&end_of_a(pair)), (0x1, 0x1, 0x00));
    let cause = Cause::Peer(weft_rdmap::Error::Ddp(weft_ddp::Error::InvalidStag));
    assert_eq!(end_of_b(pair), DisconnectReason::LocalTerminate(cause));
    assert_eq!(contents(region), before);
}

// Covers 5042-6.2.2-2, 5040-8.1.1-5.
#[test]
fn a_write_behind_it_is_refused() {
    let mut pair = connected();
    let region = bindable(&pair.b, &[GUARD; 64]);
    let window = bound(&mut pair, &region, 1);
    write(&mut pair, window.rkey(), &region, b"in time.");
    window.revoke(&pair.b.qp);
    assert!(!window.is_bound());
    expect_refused(&mut pair, window.rkey(), &region);
    assert!(region.deregister().is_ok(), "no window is bound to it");
}

// Covers 5042-6.2.2-2.
#[test]
fn a_read_behind_it_is_refused() {
    let mut pair = connected();
    let (region, sink) = (bindable(&pair.b, &[SECRET; 64]), guarded(&pair.a, 64));
    let window = bound(&mut pair, &region, 1);
    window.revoke(&pair.b.qp);
    let (sges, read) = ([sink.sge(0, 64)], SendOpcode::Read { stag: window.rkey(), to: region.addr() });
    pair.a.qp.post_send(&SendWr { opcode: read, data: Data::Sges(&sges), ..WR }).unwrap();
    assert_eq!(terminate_code(&end_of_a(&mut pair)), (0x0, 0x1, 0x00));
    assert_eq!(outcomes(&drain(&pair.a.cq)), [(0, Status::RemoteAccess)]);
    assert_eq!(contents(&sink), [GUARD; 64]);
}

#[test]
fn a_window_of_either_type_is_bound_again_with_another_key() {
    for kind in [WindowType::Type1, WindowType::Type2B] {
        let mut pair = connected();
        let [first, second] = [(); 2].map(|()| bindable(&pair.b, &[GUARD; 64]));
        let window = pair.b.pd.alloc_mw(kind).unwrap();
        let mut stags = Vec::new();
        for (key, region) in (1..).zip([&first, &second, &first]) {
            if kind == WindowType::Type1 {
                let (addr, length, access) = (region.addr(), 64, Access::REMOTE_WRITE);
                let bind = MwBind { wr_id: 0, region, addr, length, access, signaled: true, fence: false };
                stags.push(pair.b.qp.bind_mw(&window, &bind).unwrap());
                assert_eq!(pair.completion_of_b().status, Status::Success);
            } else {
                stags.push(window.stag(key));
                bind(&mut pair, whole(window.stag(key), region));
            }
            assert_eq!((window.is_bound(), window.rkey()), (true, stags[stags.len() - 1]));
            write(&mut pair, window.rkey(), region, &[key; 8]);
            window.revoke(&pair.b.qp);
            window.revoke(&pair.b.qp);
            assert!(!window.is_bound());
        }
        bind(&mut pair, whole(window.stag(0xAB), &second));
        write(&mut pair, window.rkey(), &second, b"the last");
        expect_refused(&mut pair, stags[2], &first);
    }
}

/// Requests of the send queue wait behind a long Write when their window is revoked. The bind among them binds nothing,
/// and one that is posted afterwards binds.
#[test]
fn a_bind_that_waits_in_the_send_queue_becomes_a_nop() {
    let mut pair = connected();
    let (region, other) = (bindable(&pair.b, &[GUARD; 64]), bindable(&pair.b, &[GUARD; 64]));
    let (source, target) = (pair.b.memory(LONG), pair.a.memory(LONG));
    let [window, bystander] = [(); 2].map(|()| pair.b.pd.alloc_mw(WindowType::Type2B).unwrap());
    let sges = [source.sge(0, len32(LONG))];
    let post = |wr_id, opcode, data| pair.b.qp.post_send(&SendWr { wr_id, opcode, data, ..WR }).unwrap();
    let none = Data::Sges(&[]);
    post(1, write_to(&target, 0), Data::Sges(&sges));
    post(2, whole(window.stag(1), &region), none);
    post(3, whole(bystander.stag(1), &other), none);
    post_recv(&pair.a.qp, 9, &[]);
    post(4, SendOpcode::Send, none);
    window.revoke(&pair.b.qp);
    post(5, whole(window.stag(2), &other), none);
    assert_eq!(pair.completion_of_a().wr_id, 9);
    pair.settle(Duration::from_millis(10));
    let done = drain(&pair.b.cq);
    assert_eq!(outcomes(&done), [1, 2, 3, 4, 5].map(|wr_id| (wr_id, Status::Success)));
    assert_eq!([done[1].opcode, done[2].opcode], [CompletionOpcode::Nop, CompletionOpcode::BindWindow]);
    assert_eq!((window.is_bound(), window.rkey()), (true, window.stag(2)));
    write(&mut pair, bystander.stag(1), &other, b"bystande");
    write(&mut pair, window.stag(2), &other, b"the next");
    expect_refused(&mut pair, window.stag(1), &region);
}

/// A bind with a fence was read from the send queue already, and waits for a Read.
#[test]
fn a_bind_that_waits_at_a_fence_becomes_a_nop() {
    let mut pair = connected();
    let region = bindable(&pair.b, &[GUARD; 64]);
    let window = pair.b.pd.alloc_mw(WindowType::Type2B).unwrap();
    let (source, sink) = (pair.a.memory(LONG), pair.b.memory(LONG));
    let sges = [sink.sge(0, len32(LONG))];
    let read = SendWr { wr_id: 1, opcode: read_from(&source, 0), data: Data::Sges(&sges), ..WR };
    let fenced = SendWr { wr_id: 2, opcode: whole(window.stag(1), &region), fence: true, ..WR };
    pair.b.qp.post_sends(&[read, fenced]).unwrap();
    let b = pair.b.device.clone();
    pair.wait(|| (b.counters().received.by_opcode[READ_RESPONSE] > 10).then_some(())).unwrap();
    assert_eq!(b.counters().sent.by_opcode[READ_REQUEST], 1);
    window.revoke(&pair.b.qp);
    pair.settle(Duration::from_secs(1));
    let done = drain(&pair.b.cq);
    assert_eq!(outcomes(&done), [1, 2].map(|wr_id| (wr_id, Status::Success)));
    assert_eq!((done[1].opcode, window.is_bound()), (CompletionOpcode::Nop, false));
}

/// A Read of `a` that `b` answers through a window, when a part of the answer has come.
struct Answering {
    pair: Pair,
    region: Mr,
    window: Mw,
    sink: Mr,
}

impl Answering {
    fn new() -> Self {
        let mut pair = connected();
        let (region, sink) = (bindable(&pair.b, &pattern(LONG, 3)), guarded(&pair.a, LONG));
        let window = bound(&mut pair, &region, 1);
        let sges = [sink.sge(0, len32(LONG))];
        let read = SendOpcode::Read { stag: window.rkey(), to: region.addr() };
        pair.a.qp.post_send(&SendWr { opcode: read, data: Data::Sges(&sges), ..WR }).unwrap();
        let a = pair.a.device.clone();
        pair.wait(|| (a.counters().received.by_opcode[READ_RESPONSE] > 10).then_some(())).unwrap();
        Self { pair, region, window, sink }
    }

    /// Segments of the answer that `b` has sent.
    fn answered(&self) -> u64 {
        self.pair.b.device.counters().sent.by_opcode[READ_RESPONSE]
    }

    fn revoke(&self) {
        self.window.revoke(&self.pair.b.qp);
        self.region.write(0, &vec![SECRET; LONG]).unwrap();
    }

    /// Checks that `a` has a part of what was there before the revocation, and nothing else.
    fn expect_beginning(&self) {
        let sink = contents(&self.sink);
        let octets = pattern(LONG, 3);
        let got = sink.iter().zip(&octets).position(|(got, sent)| got != sent).expect("not all of it");
        assert!(got > 0 && sink[got..].iter().all(|&octet| octet == GUARD), "{got} octets");
    }
}

// Covers 5042-6.2.2-2.
#[test]
fn a_read_that_is_answered_ends_with_a_terminate() {
    let mut it = Answering::new();
    let before = it.answered();
    it.revoke();
    assert_eq!(terminate_code(&end_of_a(&mut it.pair)), (0x0, 0x1, 0x00));
    let cause = Cause::Peer(weft_rdmap::Error::InvalidStag);
    assert_eq!(end_of_b(&mut it.pair), DisconnectReason::LocalTerminate(cause));
    assert_eq!(outcomes(&drain(&it.pair.a.cq)), [(0, Status::RemoteAccess)]);
    assert_eq!(it.answered(), before);
    it.expect_beginning();
}

/// A connection whose peer has closed its direction still answers Reads, and no further than to the revocation.
#[test]
fn a_connection_that_ends_answers_no_more_through_a_revoked_window() {
    for revokes in [false, true] {
        let mut it = Answering::new();
        it.pair.a.qp.disconnect().unwrap();
        assert_eq!(end_of_b(&mut it.pair), DisconnectReason::Peer);
        let before = it.answered();
        if revokes {
            it.revoke();
        }
        it.pair.settle(Duration::from_secs(60));
        assert_eq!(it.answered() == before, revokes, "{before}, then {}", it.answered());
        assert_eq!(end_of_a(&mut it.pair), DisconnectReason::Local);
        assert_eq!(it.pair.b.device.stack_counters().connections, 0, "both sides have closed");
        it.expect_beginning();
        // Its connection is gone, and the window is bound no longer than that.
        it.window.revoke(&it.pair.b.qp);
        assert!(!it.window.is_bound() && it.region.deregister().is_ok());
    }
}
