//! Peers that mean harm, devices that are full, and windows of 1 GiB.

use crate::Reason;
use crate::send::tests::direct::{Direct, Gone, SMSS};

fn reasons(gone: &[Gone]) -> std::vec::Vec<Reason> {
    gone.iter().map(|(_, reason)| *reason).collect()
}

/// RFC 8985 section 7.2: an ACK sets the probe's timer anew.
// Covers 8985-7.2-2.
#[test]
fn a_probe_that_a_full_device_held_back_is_void_when_its_tail_has_arrived() {
    let mut direct = Direct::new(true);
    direct.offer(4);
    direct.now = direct.sender.next_timeout().unwrap();
    direct.sender.expire(direct.now);
    assert_eq!(direct.ack(4, &[]), []);
    assert_eq!(reasons(&direct.offer(2)), [Reason::Window; 2]);
}

/// Each ACK costs little, although a peer SACKs what was lost and closes its window for the rest: the search for what is
/// lost begins at a lost record, as `check` sees to.
#[test]
fn a_peer_that_sacks_what_was_lost_makes_no_work() {
    let mut direct = Direct::new(true);
    let una = direct.settle(100);
    direct.offer(200);
    direct.wait(10);
    let (half, all) = (una + 60, direct.sender.nxt().0 / SMSS);
    direct.window = SMSS;
    direct.ack(una, &[(half, all)]);
    for end in una + 2..half - 1 {
        direct.ack(una, &[(una + 1, end), (half, all)]);
    }
    assert!(direct.sender.board.totals().lost > 0);
}
