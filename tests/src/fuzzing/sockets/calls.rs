//! Both ends of a connection against a model: over TCP, rings, larger rings and back, with the daemon's messages.

use std::rc::Rc;

use super::daemon::Daemon;
use super::party::Party;
use super::shared::Shared;

/// Reads `data` as steps of three octets: which end does what, and how much. No call waits: what has to wait is a later
/// step.
///
/// # Panics
/// If octets come out of order, twice or not at all, if the counts of an end are not those of the kernel, or if an end
/// takes the other one for broken.
pub fn sockets_calls(data: &[u8]) {
    let shared = Rc::new(Shared::new());
    let mut parties = [0, 1].map(|number| Party::new(number, Rc::clone(&shared)));
    let mut daemon = Daemon::default();
    for step in data.chunks_exact(3) {
        let &[call, first, second] = step else { return };
        let party = &mut parties[usize::from(call & 1)];
        match call >> 1 & 31 {
            0 => daemon.handle(&shared, party.number),
            1 => {
                for message in daemon.mail[party.number].drain(..) {
                    party.hear(&message);
                }
            }
            2 => party.claim(&mut daemon),
            number => party.call(number, len(first), second, &mut daemon),
        }
        if shared.is_reset.get() {
            return;
        }
        parties.iter().for_each(Party::check);
    }
    finish(&shared, &mut parties);
}

/// All octets arrive, whatever is under way.
fn finish(shared: &Shared, parties: &mut [Party; 2]) {
    parties.iter_mut().for_each(Party::end_kernel_calls);
    // Each round empties one carrier at least. The longest way is a question, its answer, the backlog, and TCP.
    for _ in 0..ROUNDS {
        for party in parties.iter() {
            party.obey();
            party.send(0, false);
            party.look_for_answer();
            while party.receive(LARGE) > 0 {}
        }
    }
    if shared.is_reset.get() {
        return;
    }
    parties.iter().for_each(Party::shut);
    for party in parties.iter() {
        while party.receive(LARGE) > 0 {}
        party.check();
        party.check_end();
    }
}

/// Sizes around the octets beside the tail and around rings.
fn len(octet: u8) -> usize {
    if octet < 160 { usize::from(octet) } else { usize::from(octet - 150) * 30 }
}

const ROUNDS: usize = 200;
const LARGE: usize = 10_000;
