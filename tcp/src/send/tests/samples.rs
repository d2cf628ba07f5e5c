//! What is measured of the round trip.

use crate::send::tests::direct::{Direct, SMSS};
use crate::{Micros, Reason};

/// RFC 6298 section 3: Karn's algorithm.
// Covers 6298-3-1, 9293-MUST-18.
#[test]
fn what_went_again_measures_nothing() {
    let mut direct = Direct::new(false);
    direct.offer(1);
    direct.wait(300);
    assert_eq!(direct.sender.counters().timeouts, 2);
    let rto = direct.sender.rtt.rto();
    direct.ack(1, &[]);
    assert_eq!(direct.sender.srtt(), Some(Micros::from_millis(10)));
    assert_eq!(direct.sender.rtt.rto(), rto, "the doubled timeout holds until there is a sample");
    direct.offer(1);
    direct.wait(20);
    direct.ack(2, &[]);
    assert_eq!(direct.sender.srtt(), Some(Micros(11_250)));
    assert!(direct.sender.rtt.rto() < rto);
}

/// RFC 6298 section 3: each flight gives one at least.
// Covers 6298-3-2.
#[test]
fn each_flight_is_measured() {
    let mut direct = Direct::new(true);
    let mut last = Micros::from_millis(10);
    for _ in 0..10 {
        direct.offer(10);
        direct.wait(15);
        direct.ack(direct.sender.nxt().0 / SMSS, &[]);
        let srtt = direct.sender.srtt().unwrap();
        assert!(last < srtt && srtt < Micros::from_millis(15), "{srtt:?}");
        last = srtt;
    }
}

/// RFC 8985 section 6.2 step 2: it says nothing of when the retransmission went, and so nothing before that is lost.
// Covers 8985-6.2-1.
#[test]
fn an_ack_that_comes_too_soon_is_that_of_the_original() {
    let mut direct = Direct::new(true);
    direct.offer(10);
    direct.wait(10);
    let gone = direct.ack(0, &[(1, 4)]);
    assert_eq!(gone.first(), Some(&(0.0, Reason::Loss)));
    direct.wait(1);
    direct.ack(4, &[]);
    assert_eq!(direct.sender.board.totals().lost, 0);
}
