//! Sessions that are opened over the control plane.

use std::collections::VecDeque;
use std::time::Duration;

use proptest::collection::vec;
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::{Config as Runs, TestRunner};
use weft_group::{
    Done, Fresh, Limits, OpError, OpId, Options, Replicas, Session, SessionError, Topology, UNTOUCHED, status,
};
use weft_rnic::Progress;

use crate::hosts::{Group, LEN, device, eventually, options};
use crate::model::{Model, octets, op};

/// Hundreds of operations, many under way at a time, on a range that begins in the middle of the memory.
#[test]
fn chains_and_fans_do_what_a_model_does() {
    let mut runner = TestRunner::new(Runs { failure_persistence: None, ..Runs::default() });
    let (start, len) = (LEN as u64 / 2, 4096);
    for topology in [Topology::Chain, Topology::Fan] {
        let group = Group::new(3, &Limits::default());
        let mut options = options(topology);
        options.range = Some(start..start + len);
        let mut session = group.open(&options).unwrap();
        let mut model = Model(vec![vec![0; 4096]; 3]);
        let mut expected = VecDeque::new();
        let ops = vec(op(len, 600), 400).new_tree(&mut runner).unwrap().current();
        let mut begun = 0;
        for (number, op) in ops.iter().enumerate() {
            let octets = octets(op, number);
            let id = loop {
                match session.submit(op, &octets) {
                    Err(SessionError::Op(OpError::Full | OpError::Conflict)) => {
                        let (id, originals) = expected.pop_front().unwrap();
                        assert_eq!(session.wait(id), Ok(originals), "{topology:?}");
                    }
                    other => break other,
                }
            };
            if let Ok(id) = id {
                expected.push_back((id, model.apply(op, &octets)));
                begun += 1;
            }
        }
        // The last ones are taken out of order.
        while let Some((id, originals)) = expected.pop_back() {
            assert_eq!(session.wait(id), Ok(originals), "{topology:?}");
        }
        assert!(begun > 100, "{begun} of 400 made sense");
        for (index, host) in group.hosts.iter().enumerate() {
            let contents = host.contents();
            let (from, to) = (LEN / 2, LEN / 2 + 4096);
            assert!(contents[from..to] == model.0[index], "replica {index}, {topology:?}");
            assert!(contents[..from].iter().chain(&contents[to..]).all(|octet| *octet == 0));
        }
        for fresh in [Fresh::Maybe, Fresh::Confirmed] {
            let mut read = vec![0; 4096];
            session.read(0, &mut read, fresh).unwrap();
            let tail = if topology == Topology::Chain { 2 } else { 0 };
            assert!(read == model.0[tail], "{topology:?}, {fresh:?}");
            assert_eq!(session.read(4090, &mut read[..7], fresh), Err(OpError::Bounds.into()));
        }
    }
}

/// A confirmed read waits for all replicas, and leaves what is done for the caller.
#[test]
fn a_confirmed_read_is_an_operation_behind_the_read() {
    let group = Group::new(2, &Limits::default());
    let mut session = group.open(&options(Topology::Chain)).unwrap();
    let ids: Vec<OpId> = (0..8).map(|word| session.write(word * 8, &word.to_le_bytes()).unwrap()).collect();
    let mut read = [0; 64];
    session.read(0, &mut read, Fresh::Confirmed).unwrap();
    let mut done = [Done { id: OpId(0), originals: [0; 16] }; 20];
    let taken = session.poll(&mut done).unwrap();
    let handed: Vec<OpId> = done[..taken].iter().map(|done| done.id).collect();
    assert_eq!(handed, ids, "the eight writes, and not the ninth operation");
    assert_eq!(read[56], 7);
    assert_eq!(session.wait(ids[0]), Err(OpError::Unknown.into()), "it was handed out");
    assert_eq!(session.write(0, b"next"), Ok(OpId(9)), "the read was confirmed by an operation");
    session.read(4, &mut read, Fresh::Maybe).unwrap();
    assert_eq!(session.write(8, b"next"), Ok(OpId(10)), "a bare read is no operation");
}

/// The descriptor wakes a program for what is done, and for the end.
#[test]
fn a_program_sleeps_on_the_descriptor() {
    let mut group = Group::new(2, &Limits::default());
    let mut session = group.open(&options(Topology::Chain)).unwrap();
    let readable = |session: &Session, patience: i64| {
        let fds = &mut [rustix::event::PollFd::new(session, rustix::event::PollFlags::IN)];
        let patience = rustix::time::Timespec { tv_sec: patience, tv_nsec: 0 };
        rustix::event::poll(fds, Some(&patience)).unwrap() == 1
    };
    let mut done = [Done { id: OpId(0), originals: [0; 16] }; 4];
    for turn in 0..20 {
        session.arm();
        assert_eq!(session.poll(&mut done), Ok(0));
        assert!(!readable(&session, 0), "turn {turn}");
        let id = session.compare_swap(8, turn, turn + 1, Replicas(0b10)).unwrap();
        assert!(readable(&session, 30), "turn {turn}");
        while session.poll(&mut done).unwrap() == 0 {}
        assert_eq!((done[0].id, done[0].originals[..3].to_vec()), (id, vec![UNTOUCHED, turn, UNTOUCHED]));
    }
    session.arm();
    assert_eq!(session.poll(&mut done), Ok(0));
    drop(group.hosts.pop());
    assert!(readable(&session, 30));
    assert!(matches!(session.poll(&mut done), Err(SessionError::Lost(_))));
}

/// Programs may poll without a driver thread of their device.
#[test]
fn a_client_may_drive_its_device_itself() {
    let group = Group::new(3, &Limits::default());
    let device = device(7, Progress::Manual);
    let mut session = Session::open(&device, &group.members(), &options(Topology::Chain)).unwrap();
    for turn in 0..50 {
        let id = session.compare_swap(0, turn, turn + 1, Replicas::ALL).unwrap();
        assert_eq!(session.wait(id).unwrap()[..3], [turn; 3]);
    }
}

/// Each replica in turn goes away with operations under way. The client hears which, and the other replicas have no session
/// left, so that another one can be opened with them.
#[test]
fn a_lost_replica_is_named_and_leaves_nothing_behind() {
    for topology in [Topology::Chain, Topology::Fan] {
        for lost in 0..3 {
            let mut group = Group::new(3, &Limits { sessions: 1, ..Limits::default() });
            let mut session = group.open(&options(topology)).unwrap();
            let id = session.write(0, b"before").unwrap();
            session.wait(id).unwrap();
            drop(group.hosts.remove(lost));
            let end = loop {
                let begun = session.write(8, b"behind");
                if let Err(error) = begun.and_then(|id| session.wait(id)) {
                    break error;
                }
            };
            // The client may find its connection lost before the reason has come; then the next call tells it.
            let mut told = end;
            eventually("the lost replica is named", || {
                if told == SessionError::Lost(None) {
                    told = session.write(8, b"more").unwrap_err();
                }
                assert!(
                    [None, Some(lost)].map(SessionError::Lost).contains(&told),
                    "{told}, {lost}, {topology:?}"
                );
                told == SessionError::Lost(Some(lost))
            });
            let mut read = [0; 8];
            assert_eq!(session.read(0, &mut read, Fresh::Maybe), Err(SessionError::Lost(Some(lost))));
            // In a fan the client alone knows of the others. In a chain the replicas end the session by themselves.
            let session = (topology == Topology::Chain).then_some(session);
            let rest = group.members();
            eventually("the other replicas take a session", || {
                Session::open(&group.client, &rest, &options(topology)).is_ok()
            });
            assert!(group.hosts.iter().all(|host| host.contents()[..6] == *b"before"));
            drop(session);
        }
    }
}

/// A client goes away with operations under way: all replicas are free again, and what was acknowledged stays.
#[test]
fn a_client_that_vanishes_leaves_nothing_behind() {
    let group = Group::new(3, &Limits { sessions: 1, ..Limits::default() });
    for turn in 0..5_u64 {
        let mut opened = None;
        eventually("the session of the last turn is gone", || {
            opened = group.open(&options(Topology::Chain)).ok();
            opened.is_some()
        });
        let mut session = opened.unwrap();
        let id = session.write(turn * 8, &turn.to_le_bytes()).unwrap();
        session.wait(id).unwrap();
        for word in 100..107 {
            session.write(word * 8, b"vanishes").unwrap();
        }
        drop(session);
    }
    let plain = Options::default();
    for (index, host) in group.hosts.iter().enumerate() {
        eventually("no session", || {
            status(&group.client, host.server.address(), &plain).unwrap().sessions.is_empty()
        });
        let contents = host.contents();
        assert!((0..5).all(|turn| contents[turn * 8] == turn.to_le_bytes()[0]), "replica {index}");
    }
}

/// A replica answers nothing: its program is stopped in this test, and its device drops what comes.
#[test]
fn a_silent_replica_is_a_timeout() {
    let group = Group::new(1, &Limits::default());
    // Nobody answers there: the socket listens and never takes a connection.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut members = group.members();
    members.push(silent.local_addr().unwrap().into());
    let options = Options { timeout: Duration::from_millis(300), ..options(Topology::Chain) };
    let error = Session::open(&group.client, &members, &options).unwrap_err();
    assert_eq!(error, SessionError::TimedOut);
    eventually("the first replica has dropped the session", || {
        status(&group.client, members[0].address, &Options::default()).unwrap().sessions.is_empty()
    });
}
