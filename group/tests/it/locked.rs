//! Sessions that share what a lock guards.

use core::num::NonZeroU16;

use weft_group::{Limits, Lock, Op, Owner, Replicas, Session, Step, Swap, Topology, backoff};

use crate::hosts::{Group, eventually, options};
use crate::memory::Random;

fn lock(session: &Session, nonce: u16) -> Lock {
    let terms = session.terms();
    let own = Owner::new(terms.epoch, terms.session, NonZeroU16::new(nonce).unwrap());
    Lock::new(0, session.replicas(), own)
}

fn get(lock: &mut Lock, session: &mut Session, random: &mut Random) {
    let mut attempt = 0;
    eventually("the lock", || {
        let got = lock.try_acquire(session, 1000).unwrap();
        std::thread::sleep(if got == Step::Owned {
            core::time::Duration::ZERO
        } else {
            backoff(random.next(), attempt)
        });
        attempt += 1;
        got == Step::Owned
    });
}

/// Three sessions count in the same word, which they read, add to and write. Without the lock they would lose counts.
#[test]
fn sessions_take_turns() {
    for topology in [Topology::Chain, Topology::Fan] {
        let group = Group::new(3, &Limits::default());
        let sessions: Vec<Session> = (0..3).map(|_| group.open(&options(topology)).unwrap()).collect();
        std::thread::scope(|scope| {
            for (session, nonce) in sessions.into_iter().zip(1..) {
                scope.spawn(move || {
                    let (mut session, mut random) = (session, Random(nonce.into()));
                    let mut lock = lock(&session, nonce);
                    for _ in 0..40 {
                        get(&mut lock, &mut session, &mut random);
                        let mut count = [0; 8];
                        weft_group::Group::read(&mut session, 8, &mut count).unwrap();
                        let count = u64::from_le_bytes(count) + 1;
                        let id = session.write(8, &count.to_le_bytes()).unwrap();
                        session.wait(id).unwrap();
                        assert_eq!(lock.give_back(&mut session), Ok(true));
                    }
                });
            }
        });
        for host in &group.hosts {
            assert_eq!(host.contents()[..16], [[0; 8], 120_u64.to_le_bytes()].concat(), "{topology:?}");
        }
    }
}

/// A session that is gone has left its word at some replicas. Others do not wait for ever, and leave nothing behind; those
/// of the next epoch take it.
#[test]
fn a_word_of_a_session_that_is_gone_is_taken_in_the_next_epoch() {
    let group = Group::new(2, &Limits::default());
    let mut session = group.open(&options(Topology::Chain)).unwrap();
    let gone = Owner::new(0, 12345, NonZeroU16::MIN);
    let swap = Swap { at: 0, compare: 0, swap: gone.word(), on: Replicas(0b10) };
    let id = session.submit(&Op { swap: Some(swap), ..Op::default() }, &[]).unwrap();
    session.wait(id).unwrap();
    let mut before = lock(&session, 7);
    assert_eq!(before.try_acquire(&mut session, 5), Ok(Step::Busy(gone)));
    assert!(group.hosts[0].contents()[..8] == [0; 8], "it has given back the word of replica 0");
    let own = Owner::new(1, session.terms().session, NonZeroU16::MIN);
    let mut behind = Lock::new(0, 2, own);
    assert_eq!(behind.try_acquire(&mut session, 5), Ok(Step::Owned));
    assert!(group.hosts.iter().all(|host| host.contents()[..8] == own.word().to_le_bytes()));
    assert_eq!(before.try_acquire(&mut session, 5), Ok(Step::Busy(own)));
    assert_eq!(before.give_back(&mut session), Ok(false), "it has none");
    assert_eq!(behind.give_back(&mut session), Ok(true));
    assert!(group.hosts.iter().all(|host| host.contents()[..8] == [0; 8]));
}
