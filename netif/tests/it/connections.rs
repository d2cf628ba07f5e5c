//! The beginning and the end of connections.

use std::net::SocketAddr;

use weft_netif::{CloseCause, ConnectError, Duration, ListenError, LlpState};

use crate::bench::{Bench, PORT, Talker, V4, V6, options};

#[test]
fn a_port_without_listener_refuses_by_reset() {
    for addresses in [V4, V6] {
        let mut bench = Bench::new(addresses);
        let remote = (bench.stacks[1].ip().address, PORT).into();
        let id = bench.stacks[0].connect(remote, None, bench.now).unwrap();
        assert_eq!(bench.stacks[0].llp(id).unwrap().state(), LlpState::Connecting);
        bench.drive(|stacks| stacks[0].llp(id).unwrap().state() == LlpState::Reset);
        assert_eq!(bench.stacks[0].next_ready(), Some(id));
        assert_eq!(bench.stacks[0].llp(id).unwrap().cause(), Some(CloseCause::Refused));
        bench.stacks[0].remove(id);
        bench.pass(Duration::from_secs(1));
        assert_eq!(bench.stacks[0].counters().connections, 0);
    }
}

#[test]
fn abort_resets_the_peer_which_can_still_read() {
    let mut bench = Bench::new(V4);
    let ids = bench.connect();
    bench.stacks[0].llp(ids[0]).unwrap().send_slice(b"before");
    bench.drive(|stacks| !stacks[1].llp(ids[1]).unwrap().readable().is_empty());
    bench.stacks[0].llp(ids[0]).unwrap().abort();
    assert_eq!(bench.stacks[0].llp(ids[0]).unwrap().state(), LlpState::Reset);
    bench.drive(|stacks| stacks[1].llp(ids[1]).unwrap().state() == LlpState::Reset);
    assert_eq!(bench.stacks[0].llp(ids[0]).unwrap().cause(), Some(CloseCause::Aborted));
    let mut llp = bench.stacks[1].llp(ids[1]).unwrap();
    assert_eq!((llp.cause(), llp.readable()), (Some(CloseCause::Reset), &b"before"[..]));
    assert!(!llp.is_drained(), "no FIN came");
    assert_eq!(llp.send_slice(b"x"), 0);
}

#[test]
fn a_stack_connects_to_its_own_address_without_the_wire() {
    for addresses in [V4, V6] {
        let mut bench = Bench::new(addresses);
        let stack = &mut bench.stacks[0];
        stack.listen(PORT).unwrap();
        let own = (stack.ip().address, PORT).into();
        let id = stack.connect(own, None, bench.now).unwrap();
        let mut accepted = None;
        bench.drive(|stacks| {
            accepted = accepted.or_else(|| stacks[0].next_accepted());
            accepted.is_some()
        });
        let peer = accepted.unwrap().0;
        assert_eq!(bench.stacks[0].peer_addr(peer), bench.stacks[0].local_addr(id));
        let mut talkers = Talker::pair(1 << 20);
        bench.drive(|stacks| {
            let done = [talkers[0].talk(&mut stacks[0], id), talkers[1].talk(&mut stacks[0], peer)];
            done == [true, true]
        });
        bench.stacks[0].llp(id).unwrap().shutdown();
        bench.stacks[0].llp(peer).unwrap().shutdown();
        bench.drive(|stacks| {
            [id, peer].iter().all(|&id| stacks[0].llp(id).unwrap().state() == LlpState::Closed)
        });
        assert_eq!(bench.stacks[0].wire().counters().sent, 0, "nothing was on the wire");
        assert!(bench.stacks[0].counters().looped > 1000);
    }
}

#[test]
fn own_connections_take_no_port_that_would_be_their_own_peer() {
    let mut bench = Bench::new(V4);
    let own = |port| (bench.stacks[0].ip().address, port).into();
    let (seven, eight) = (own(7), own(8));
    let stack = &mut bench.stacks[0];
    assert_eq!(stack.connect(seven, Some(seven), bench.now), Err(ConnectError::AddrInUse));
    stack.connect(seven, Some(eight), bench.now).unwrap();
    assert_eq!(stack.connect(eight, Some(seven), bench.now), Err(ConnectError::AddrInUse));
}

#[test]
fn mss_is_learned_from_the_syn_and_bounded_by_the_own_mtu() {
    let table =
        [(V4, [1500, 9000], 1460), (V4, [576, 1500], 536), (V6, [1280, 1500], 1220), (V6, [9000; 2], 8940)];
    for (addresses, mtus, emss) in table {
        for swapped in [false, true] {
            let mtu = move |side: usize| mtus[if swapped { 1 - side } else { side }];
            let mut bench =
                Bench::with(addresses, 1, move |side, config| config.mtu = mtu(side), |_, wire| wire);
            let ids = bench.connect();
            bench.drive(|stacks| stacks[0].llp(ids[0]).unwrap().state() == LlpState::Established);
            let emss = emss - options(&bench.stacks[0]);
            for (stack, id) in bench.stacks.iter_mut().zip(ids) {
                assert_eq!(stack.llp(id).unwrap().emss(), emss, "{mtus:?} {swapped}");
            }
        }
    }
}

#[test]
fn before_the_syn_is_answered_the_default_mss_counts() {
    for (addresses, emss) in [(V4, 536), (V6, 1220)] {
        let mut bench = Bench::new(addresses);
        let remote = (bench.stacks[1].ip().address, PORT).into();
        let id = bench.stacks[0].connect(remote, None, bench.now).unwrap();
        assert_eq!(bench.stacks[0].llp(id).unwrap().emss(), emss);
    }
}

#[test]
fn commands_that_make_no_sense_are_refused_at_once() {
    let mut bench = Bench::new(V4);
    let now = bench.now;
    let stack = &mut bench.stacks[0];
    let local = |port| Some(SocketAddr::from(([10, 0, 0, 1], port)));
    let nine = local(9).unwrap();
    assert_eq!(stack.listen(9), Ok(nine));
    assert_eq!(stack.listen(9), Err(ListenError::AddrInUse));
    assert_eq!(stack.listen(nine), Err(ListenError::AddrInUse));
    let foreign: SocketAddr = "10.0.0.3:10".parse().unwrap();
    assert_eq!(stack.listen(foreign), Err(ListenError::AddrNotAvailable));
    let table = [
        ("10.0.0.2:0", None, ConnectError::Unaddressable),
        ("10.0.0.2:7", Some(foreign), ConnectError::AddrNotAvailable),
        ("0.0.0.0:7", None, ConnectError::Unaddressable),
        ("224.0.0.1:7", None, ConnectError::Unaddressable),
        ("255.255.255.255:7", None, ConnectError::Unaddressable),
        ("127.0.0.1:7", None, ConnectError::Unaddressable),
        ("10.0.1.2:7", None, ConnectError::Unroutable),
        ("[fd00::2]:7", None, ConnectError::FamilyMismatch),
        ("10.0.0.2:7", local(9), ConnectError::AddrInUse),
    ];
    for (remote, port, error) in table {
        assert_eq!(stack.connect(remote.parse().unwrap(), port, now), Err(error), "{remote}");
    }
    stack.connect("10.0.0.2:7".parse().unwrap(), local(1000), now).unwrap();
    let again = stack.connect("10.0.0.2:7".parse().unwrap(), local(1000), now);
    assert_eq!(again, Err(ConnectError::AddrInUse));
    assert_eq!(stack.connect("10.0.0.2:8".parse().unwrap(), local(1000), now).map(|_| ()), Ok(()));
    stack.unlisten(foreign);
    assert_eq!(stack.listen(9), Err(ListenError::AddrInUse));
    stack.unlisten(nine);
    assert_eq!(stack.listen(9), Ok(nine));
}

/// A bound port cannot be bound again, and is not chosen as a free one. A caller that names it can use it.
#[test]
fn a_bound_port_is_kept() {
    let mut bench = Bench::new(V4);
    let now = bench.now;
    let stack = &mut bench.stacks[0];
    let local = |port| SocketAddr::from(([10, 0, 0, 1], port));
    assert_eq!(stack.bind("0.0.0.0:9".parse().unwrap()), Ok(local(9)));
    assert_eq!(stack.bind(local(9)), Err(ListenError::AddrInUse));
    assert_eq!(stack.bind("10.0.0.3:0".parse().unwrap()), Err(ListenError::AddrNotAvailable));
    assert_eq!(stack.listen(9), Ok(local(9)));
    stack.unlisten(local(9));
    stack.connect("10.0.0.2:7".parse().unwrap(), Some(local(9)), now).unwrap();
    // All ephemeral ports but one are bound. A connection takes that one, and then none is left.
    let bound: Vec<_> = (0..16_383).map(|_| stack.bind(local(0)).unwrap()).collect();
    let id = stack.connect("10.0.0.2:7".parse().unwrap(), None, now).unwrap();
    let left = stack.local_addr(id).unwrap();
    assert!(left.port() >= 49_152 && !bound.contains(&left), "{left}");
    assert_eq!(stack.bind(local(0)), Err(ListenError::NoPortFree));
    assert_eq!(stack.listen(0), Err(ListenError::NoPortFree));
    stack.unbind(bound[7]);
    assert_eq!(stack.bind(local(0)), Ok(bound[7]));
    stack.unbind(local(9));
    assert_eq!(stack.bind(local(9)), Ok(local(9)));
}

#[test]
fn a_silent_peer_times_out_but_an_idle_one_does_not() {
    let mut bench = Bench::new(V4);
    let ids = bench.connect();
    bench.pass(Duration::from_secs(500));
    for (stack, id) in bench.stacks.iter_mut().zip(ids) {
        assert_eq!(stack.llp(id).unwrap().state(), LlpState::Established, "idle is no fault");
    }
    // The silence before a close does not count.
    bench.stacks[0].llp(ids[0]).unwrap().send_slice(b"hello");
    bench.drive(|stacks| stacks[1].llp(ids[1]).unwrap().readable() == b"hello");
    bench.pass(Duration::from_secs(1));

    // From here on the right stack gets no turn.
    let start = bench.now;
    bench.stacks[0].llp(ids[0]).unwrap().send_slice(b"anybody?");
    let stack = &mut bench.stacks[0];
    while stack.llp(ids[0]).unwrap().state() == LlpState::Established {
        stack.egress(bench.now);
        stack.ingress(bench.now);
        bench.now = stack.poll_at(bench.now).unwrap_or(bench.now);
        assert!(bench.now < start + Duration::from_secs(40));
    }
    assert_eq!(stack.llp(ids[0]).unwrap().cause(), Some(CloseCause::TimedOut));
    assert!(bench.now >= start + Duration::from_secs(30));
}

/// A sender whose peer does not read probes the closed window at growing intervals, up to a minute. The timeout of 30
/// s counts from a probe on, since it is for a peer that does not answer.
#[test]
fn a_closed_window_is_no_silence_but_a_dead_peer_behind_it_is() {
    let mut bench = Bench::new(V4);
    let ids = bench.connect();
    let sent = bench.stacks[0].llp(ids[0]).unwrap().send_slice(&[7; 256 * 1024]);
    bench.pass(Duration::from_secs(1));
    let more = bench.stacks[0].llp(ids[0]).unwrap().send_slice(&[7; 256 * 1024]);
    assert!(sent + more > 256 * 1024, "more than the peer has room for");
    bench.pass(Duration::from_secs(1000));
    // Data from the peer makes no difference.
    bench.stacks[1].llp(ids[1]).unwrap().send_slice(b"busy");
    bench.pass(Duration::from_secs(1000));
    assert_eq!(bench.stacks[0].llp(ids[0]).unwrap().state(), LlpState::Established);
    assert_eq!(bench.stacks[0].llp(ids[0]).unwrap().readable(), b"busy");
    let start = bench.now;
    let stack = &mut bench.stacks[0];
    while stack.llp(ids[0]).unwrap().state() == LlpState::Established {
        stack.egress(bench.now);
        stack.ingress(bench.now);
        bench.now = stack.poll_at(bench.now).unwrap_or(bench.now);
        assert!(bench.now < start + Duration::from_secs(100), "it never ends");
    }
    assert_eq!(stack.llp(ids[0]).unwrap().cause(), Some(CloseCause::TimedOut));
}

/// Either end finds that the other one is gone. If it only receives, this takes silence and timeout together; if it
/// sends, the timeout.
#[test]
fn keep_alive_finds_out_that_a_peer_is_gone() {
    for (addresses, survivor, sends) in [(V6, 0, false), (V6, 1, false), (V4, 0, true), (V4, 1, true)] {
        let mut bench = Bench::with(addresses, 1, keep_alive, |_, wire| wire);
        let ids = bench.connect();
        // Probes go every 10 s. The last one is answered.
        bench.pass(Duration::from_secs(505));
        let id = ids[survivor];
        let state = bench.stacks[survivor].llp(id).unwrap().state();
        assert_eq!(state, LlpState::Established, "probes are answered");
        let start = bench.now;
        let stack = &mut bench.stacks[survivor];
        while stack.llp(id).unwrap().state() == LlpState::Established {
            if sends {
                stack.llp(id).unwrap().send_slice(b"more");
            }
            stack.egress(bench.now);
            stack.ingress(bench.now);
            bench.now = stack.poll_at(bench.now).unwrap_or(bench.now);
            assert!(bench.now <= start + SILENCE + TIMEOUT + Duration::from_secs(1));
        }
        assert_eq!(stack.llp(id).unwrap().cause(), Some(CloseCause::TimedOut));
        let least = if sends { TIMEOUT } else { TIMEOUT + Duration::from_secs(1) };
        assert!(bench.now >= start + least, "{} after {start}", bench.now);
    }
}

/// A stack that was not polled for long, as in a stopped process, asks its peer before it gives it up.
#[test]
fn a_stack_that_slept_asks_before_it_gives_its_peer_up() {
    let mut bench = Bench::with(
        V4,
        1,
        |side, config| {
            if side == 0 {
                keep_alive(side, config)
            }
        },
        |_, wire| wire,
    );
    let ids = bench.connect();
    bench.pass(Duration::from_secs(5));
    bench.now += (SILENCE + TIMEOUT) * 3;
    bench.pass(Duration::from_secs(503));
    assert_eq!(bench.stacks[0].llp(ids[0]).unwrap().state(), LlpState::Established);
    bench.now += (SILENCE + TIMEOUT) * 3;
    let (start, stack) = (bench.now, &mut bench.stacks[0]);
    while stack.llp(ids[0]).unwrap().state() == LlpState::Established {
        stack.egress(bench.now);
        stack.ingress(bench.now);
        bench.now = stack.poll_at(bench.now).unwrap_or(bench.now);
        assert!(bench.now < start + TIMEOUT + Duration::from_secs(1), "the peer is silent now");
    }
    assert!(bench.now >= start + TIMEOUT);
}

fn keep_alive(_: usize, config: &mut weft_netif::StackConfig) {
    (config.keep_alive, config.timeout) = (Some(SILENCE), Some(TIMEOUT));
}

const SILENCE: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_secs(30);
