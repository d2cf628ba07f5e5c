//! Memory windows: bound, used by the peer, and unbound.

use weft_netif::Duration;
use weft_rnic::{
    Access, Bind, CompletionOpcode, Config, Data, Device, Mr, Mw, MwBind, PostError, QpState, RegisterError,
    SendOpcode, SendWr, Stag, Status, WindowType,
};
use weft_tests::{Pair, Side};

use crate::world::{
    GUARD, WR, connected, contents, drain, end_of_a, end_of_b, outcomes, post_recv, qp_on, terminate_code,
};

const REGION: usize = 64;

/// Returns a region for windows, which no peer can use by its own STag.
fn bindable(side: &Side) -> Mr {
    let memory = side.pd.register(REGION, Access::LOCAL_WRITE | Access::MW_BIND).unwrap();
    memory.write(0, &[GUARD; REGION]).unwrap();
    memory
}

/// Returns a binding for eight octets from octet 16 on.
fn part(window: Stag, region: &Mr) -> Bind {
    let access = Access::REMOTE_WRITE | Access::REMOTE_READ;
    Bind { window, region: region.rkey(), addr: region.addr() + 16, length: 8, access }
}

fn bind_now(pair: &mut Pair, bind: Bind) -> Status {
    pair.b.qp.post_send(&SendWr { opcode: SendOpcode::BindWindow(bind), ..WR }).unwrap();
    let done = pair.completion_of_b();
    if done.status == Status::Success {
        assert_eq!((done.opcode, done.byte_len), (CompletionOpcode::BindWindow, 0));
    }
    done.status
}

fn type_1<'a>(region: &'a Mr, offset: u64, length: u64) -> MwBind<'a> {
    let access = Access::REMOTE_WRITE;
    MwBind { wr_id: 1, region, addr: region.addr() + offset, length, access, signaled: true, fence: false }
}

/// `a` writes eight octets to this place of `b`.
fn write(pair: &mut Pair, stag: Stag, to: u64) {
    let opcode = SendOpcode::Write { stag, to };
    pair.a.qp.post_send(&SendWr { wr_id: 5, opcode, data: Data::Inline(b"windowed"), ..WR }).unwrap();
    assert_eq!(outcomes(&[pair.completion_of_a()]), [(5, Status::Success)]);
    pair.settle(Duration::from_millis(10));
}

/// `b` has refused the last Write of `a`, since its STag names nothing.
fn expect_refused(pair: &mut Pair) {
    assert_eq!(terminate_code(&end_of_a(pair)), (0x1, 0x1, 0x00));
    end_of_b(pair);
}

fn expect_window_written(region: &Mr, at: usize) {
    let mut expected = vec![GUARD; REGION];
    expected[at..at + 8].copy_from_slice(b"windowed");
    assert_eq!(contents(region), expected);
    region.write(0, &[GUARD; REGION]).unwrap();
}

#[test]
fn a_window_of_type_1_moves_and_changes_its_name() {
    let mut pair = connected();
    let (region, window) = (bindable(&pair.b), pair.b.pd.alloc_mw(WindowType::Type1).unwrap());
    assert!(!window.is_bound());
    let mut stags = vec![window.rkey()];
    for offset in [0, 16, 56] {
        let stag = pair.b.qp.bind_mw(&window, &type_1(&region, offset, 8)).unwrap();
        let done = pair.completion_of_b();
        assert_eq!((done.opcode, done.status), (CompletionOpcode::BindWindow, Status::Success));
        assert_eq!((window.rkey(), window.is_bound()), (stag, true));
        assert!(!stags.contains(&stag));
        stags.push(stag);
        write(&mut pair, stag, region.addr() + offset);
        expect_window_written(&region, usize::try_from(offset).unwrap());
    }
    let stag = pair.b.qp.bind_mw(&window, &type_1(&region, 0, 0)).unwrap();
    pair.settle(Duration::from_millis(1));
    assert!(!window.is_bound() && !stags.contains(&stag));
    // None of its former STags is valid any more.
    write(&mut pair, stags[3], region.addr() + 56);
    expect_refused(&mut pair);
    assert_eq!(contents(&region), [GUARD; REGION]);
}

#[test]
fn another_queue_pair_of_the_domain_uses_a_window_of_type_1() {
    let mut pair = connected();
    let (region, window) = (bindable(&pair.b), pair.b.pd.alloc_mw(WindowType::Type1).unwrap());
    let (qa, qb) = (qp_on(&pair.a, &pair.a.cq), qp_on(&pair.b, &pair.b.cq));
    crate::world::link_simply(&mut pair, &qa, &qb);
    let stag = qb.bind_mw(&window, &type_1(&region, 16, 8)).unwrap();
    pair.settle(Duration::from_millis(1));
    drop(qb);
    // The queue pair that bound it is gone, and it stays bound.
    assert!(window.is_bound());
    write(&mut pair, stag, region.addr() + 16);
    expect_window_written(&region, 16);
}

/// The advertisement is behind the binding in the queue, so that the peer can use it as soon as it has come.
#[test]
fn a_window_is_bound_before_the_send_behind_it() {
    let mut pair = connected();
    let (region, window) = (bindable(&pair.b), pair.b.pd.alloc_mw(WindowType::Type2B).unwrap());
    let heard = pair.a.memory(4);
    post_recv(&pair.a.qp, 7, &[heard.sge(0, 4)]);
    let bind = part(window.stag(0x5A), &region);
    let advert = bind.window.0.to_be_bytes();
    let wrs = [
        SendWr { wr_id: 1, opcode: SendOpcode::BindWindow(bind), ..WR },
        SendWr { wr_id: 2, data: Data::Inline(&advert), ..WR },
    ];
    pair.b.qp.post_sends(&wrs).unwrap();
    assert_eq!(outcomes(&[pair.completion_of_a()]), [(7, Status::Success)]);
    let stag = Stag(u32::from_be_bytes(contents(&heard).try_into().unwrap()));
    assert_eq!((stag, stag.0 & 0xFF), (window.rkey(), 0x5A));
    write(&mut pair, stag, bind.addr);
    expect_window_written(&region, 16);
    assert_eq!(outcomes(&drain(&pair.b.cq)), [(1, Status::Success), (2, Status::Success)]);
}

/// The owner and the peer end a binding. The next one has another key, and the old STag stays invalid.
// Covers 5041-8.3-2, 5040-8.1.1-5, 5040-5.3-15.
#[test]
fn a_window_of_type_2_is_bound_again_after_either_side_has_invalidated_it() {
    for by_peer in [false, true] {
        let mut pair = connected();
        let (region, window) = (bindable(&pair.b), pair.b.pd.alloc_mw(WindowType::Type2B).unwrap());
        post_recv(&pair.b.qp, 7, &[]);
        for key in 0..3 {
            let bind = part(window.stag(key), &region);
            assert_eq!(bind_now(&mut pair, bind), Status::Success);
            write(&mut pair, bind.window, bind.addr);
            expect_window_written(&region, 16);
            let stag = bind.window;
            if by_peer {
                pair.a.qp.post_send(&SendWr { opcode: SendOpcode::SendInvalidate { stag }, ..WR }).unwrap();
                let done = pair.completion_of_b();
                assert_eq!((done.status, done.invalidated), (Status::Success, Some(stag.0)));
                post_recv(&pair.b.qp, 7, &[]);
                pair.completion_of_a();
            } else {
                pair.b.qp.post_send(&SendWr { opcode: SendOpcode::LocalInvalidate { stag }, ..WR }).unwrap();
                let done = pair.completion_of_b();
                assert_eq!((done.opcode, done.status), (CompletionOpcode::LocalInvalidate, Status::Success));
            }
            assert!(!window.is_bound());
        }
        let bind = part(window.stag(3), &region);
        assert_eq!(bind_now(&mut pair, bind), Status::Success);
        write(&mut pair, window.stag(2), bind.addr);
        expect_refused(&mut pair);
        assert_eq!(contents(&region), [GUARD; REGION]);
    }
}

/// A responder sends no message before the initiator. Requests without a message are still carried out, in order.
#[test]
fn a_responder_binds_before_the_first_message_has_come() {
    let mut pair = Pair::connected(&weft_tests::PairConfig::default());
    let (region, window) = (bindable(&pair.b), pair.b.pd.alloc_mw(WindowType::Type2B).unwrap());
    let heard = pair.a.memory(4);
    post_recv(&pair.a.qp, 7, &[heard.sge(0, 4)]);
    let bind = part(window.stag(1), &region);
    assert_eq!(bind_now(&mut pair, bind), Status::Success);
    assert!(window.is_bound());
    // Behind a message that has to wait, they wait too.
    let advert = bind.window.0.to_be_bytes();
    let wrs = [
        SendWr { wr_id: 1, data: Data::Inline(&advert), ..WR },
        SendWr { wr_id: 2, opcode: SendOpcode::LocalInvalidate { stag: bind.window }, ..WR },
    ];
    pair.b.qp.post_sends(&wrs).unwrap();
    pair.settle(Duration::from_secs(1));
    assert_eq!((outcomes(&drain(&pair.b.cq)), window.is_bound()), (vec![], true));
    write(&mut pair, bind.window, bind.addr);
    expect_window_written(&region, 16);
    assert_eq!(outcomes(&drain(&pair.a.cq)), [(7, Status::Success)]);
    assert_eq!(outcomes(&drain(&pair.b.cq)), [(1, Status::Success), (2, Status::Success)]);
    assert!(!window.is_bound());
}

#[test]
fn an_invalid_bind_ends_the_stream_without_blame() {
    for case in 0..6 {
        let mut pair = connected();
        let (region, window) = (bindable(&pair.b), pair.b.pd.alloc_mw(WindowType::Type2B).unwrap());
        let other = pair.b.device.alloc_pd();
        let foreign = other.alloc_mw(WindowType::Type2B).unwrap();
        let unbindable = pair.b.pd.register(REGION, Access::ALL).unwrap();
        let good = part(window.stag(1), &region);
        let bind = match case {
            0 => Bind { length: 49, ..good },
            1 => Bind { region: unbindable.rkey(), addr: unbindable.addr(), ..good },
            2 => Bind { window: foreign.stag(1), ..good },
            3 => Bind { window: Stag(good.window.0 ^ 0x100), ..good },
            4 => Bind { length: 0, ..good },
            _ => {
                assert_eq!(bind_now(&mut pair, good), Status::Success);
                Bind { window: window.stag(2), ..good }
            }
        };
        post_recv(&pair.a.qp, 7, &[]);
        assert_eq!(bind_now(&mut pair, bind), Status::MemoryWindowBind, "{case}");
        assert_eq!(terminate_code(&end_of_a(&mut pair)), (0x0, 0x0, 0x00));
        end_of_b(&mut pair);
        pair.settle(Duration::from_secs(60));
        assert_eq!([pair.a.qp.state(), pair.b.qp.state()], [QpState::Error; 2]);
        assert_eq!((window.is_bound(), foreign.is_bound()), (case == 5, false));
    }
}

#[test]
fn binds_that_the_call_refuses() {
    let pair = connected();
    let (region, window) = (bindable(&pair.b), pair.b.pd.alloc_mw(WindowType::Type1).unwrap());
    let other_pd = pair.b.device.alloc_pd().alloc_mw(WindowType::Type1).unwrap();
    let elsewhere = pair.a.pd.alloc_mw(WindowType::Type1).unwrap();
    let second = pair.b.pd.alloc_mw(WindowType::Type2B).unwrap();
    let bind = type_1(&region, 0, 8);
    let before = window.rkey();
    let refused = |window: &Mw, bind: &MwBind<'_>| pair.b.qp.bind_mw(window, bind).unwrap_err();
    assert_eq!(refused(&second, &bind), PostError::WrongWindow);
    assert_eq!(refused(&other_pd, &bind), PostError::ForeignObject);
    assert_eq!(refused(&elsewhere, &bind), PostError::ForeignObject);
    assert_eq!(refused(&window, &MwBind { access: Access::LOCAL_WRITE, ..bind }), PostError::BadFlags);
    let idle = qp_on(&pair.b, &pair.b.cq);
    assert_eq!(idle.bind_mw(&window, &bind), Err(PostError::InvalidState));
    let room = (0..=256).find(|_| pair.b.qp.bind_mw(&window, &bind).is_err());
    assert!(room.is_some_and(|posted| posted >= 128));
    assert_eq!(refused(&window, &bind), PostError::QueueFull);
    assert_eq!((window.rkey(), window.is_bound()), (before, false), "nothing is carried out yet");
}

#[test]
fn a_region_with_a_window_is_busy() {
    let mut pair = connected();
    let (region, window) = (bindable(&pair.b), pair.b.pd.alloc_mw(WindowType::Type2B).unwrap());
    let bind = part(window.stag(1), &region);
    assert_eq!(bind_now(&mut pair, bind), Status::Success);
    let (region, error) = region.deregister().unwrap_err();
    assert_eq!(error, RegisterError::Busy);
    write(&mut pair, bind.window, bind.addr);
    expect_window_written(&region, 16);
    let opcode = SendOpcode::LocalInvalidate { stag: bind.window };
    pair.b.qp.post_send(&SendWr { opcode, ..WR }).unwrap();
    pair.completion_of_b();
    assert!(region.deregister().is_ok());
}

#[test]
fn a_window_ends_with_its_region_its_queue_pair_or_itself() {
    for case in 0..3 {
        let mut pair = connected();
        let (region, window) = (bindable(&pair.b), pair.b.pd.alloc_mw(WindowType::Type2B).unwrap());
        let bind = part(window.stag(1), &region);
        assert_eq!(bind_now(&mut pair, bind), Status::Success);
        match case {
            0 => {
                drop(region);
                assert!(!window.is_bound());
                write(&mut pair, bind.window, bind.addr);
                expect_refused(&mut pair);
            }
            1 => {
                drop(window);
                write(&mut pair, bind.window, bind.addr);
                expect_refused(&mut pair);
                assert_eq!(contents(&region), [GUARD; REGION]);
                assert!(region.deregister().is_ok());
            }
            _ => {
                let cq = pair.b.cq.clone();
                let gone = qp_on(&pair.b, &cq);
                drop(core::mem::replace(&mut pair.b.qp, gone));
                assert!(!window.is_bound());
                assert!(region.deregister().is_ok());
            }
        }
    }
}

#[test]
fn the_settings_limit_the_number_of_windows() {
    let (wire, _peer) = weft_netif::pair(1500);
    let config = Config { max_mws: 2, ..Config::new("10.0.0.1/24".parse().unwrap(), 1) };
    let pd = Device::open(wire, config).unwrap().alloc_pd();
    let first = pd.alloc_mw(WindowType::Type1).unwrap();
    let _second = pd.alloc_mw(WindowType::Type2B).unwrap();
    assert_eq!(pd.alloc_mw(WindowType::Type1).map(|_| ()), Err(RegisterError::TableFull));
    drop(first);
    assert!(pd.alloc_mw(WindowType::Type1).is_ok());
}
