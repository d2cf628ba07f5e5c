//! What two daemons have to agree on before there is a lane.

use core::net::IpAddr;

use weft_sockets::{Hello, LaneKind, NONCE_LEN, Proof, VERSION};

use crate::hosts::why::Why;
use crate::key::{Key, Opening, Party, Role};

/// What a daemon answers to one that asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// There may be a lane. With a key this daemon gives its proof.
    Accept(Proof),
    /// The other daemon has to ask again, with a proof over a nonce of this daemon's.
    Challenge,
    /// There is no lane.
    Refuse,
}

/// The addresses of a lane's TCP connection: of the daemon that has connected, and of the one that answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addresses {
    pub(crate) initiator: IpAddr,
    pub(crate) responder: IpAddr,
}

/// Decides about a daemon that asks. `challenge` is the nonce that it was given before.
pub(crate) fn answer(
    key: Option<&Key>,
    theirs: &Hello,
    addresses: Addresses,
    challenge: Option<[u8; NONCE_LEN]>,
) -> Answer {
    match (key, theirs.proof) {
        _ if !is_known(theirs) || !theirs.knows(addresses.initiator, addresses.responder) => Answer::Refuse,
        (None, Proof::Without) => Answer::Accept(Proof::Without),
        (Some(_), Proof::Wanted) => Answer::Challenge,
        (Some(key), Proof::Given(proof)) => {
            let Some(nonce) = challenge else { return Answer::Challenge };
            let opening = opening(addresses, theirs.nonce, nonce);
            if key.accepts(&proof, Role::Initiator, &opening) {
                Answer::Accept(Proof::Given(key.prove(Role::Responder, &opening)))
            } else {
                Answer::Refuse
            }
        }
        (None, Proof::Wanted | Proof::Given(_)) | (Some(_), Proof::Without) => Answer::Refuse,
    }
}

/// The proof of a daemon that asks: over the nonce of the other one, if it has given one.
pub(crate) fn ask(
    key: Option<&Key>,
    addresses: Addresses,
    nonce: [u8; NONCE_LEN],
    challenge: Option<[u8; NONCE_LEN]>,
) -> Proof {
    match (key, challenge) {
        (None, _) => Proof::Without,
        (Some(_), None) => Proof::Wanted,
        (Some(key), Some(challenge)) => {
            Proof::Given(key.prove(Role::Initiator, &opening(addresses, nonce, challenge)))
        }
    }
}

/// True if the answer to [`ask`] is that of a daemon with the same key, or without one if this daemon has none.
pub(crate) fn is_answer(
    key: Option<&Key>,
    theirs: &Hello,
    addresses: Addresses,
    nonce: [u8; NONCE_LEN],
    challenge: Option<[u8; NONCE_LEN]>,
) -> bool {
    is_known(theirs)
        && theirs.knows(addresses.responder, addresses.initiator)
        && match (key, theirs.proof, challenge) {
            (None, Proof::Without, None) => true,
            (Some(key), Proof::Given(proof), Some(challenge)) => {
                key.accepts(&proof, Role::Responder, &opening(addresses, nonce, challenge))
            }
            _ => false,
        }
}

/// Returns why a daemon with this hello and this one have no lane. A refusal without a hello tells nothing. This daemon
/// knows both hosts by the addresses `local` and `remote`.
pub(crate) fn why(theirs: Option<&Hello>, (local, remote): (IpAddr, IpAddr)) -> Why {
    match theirs {
        None => Why::Refused,
        Some(theirs) if !is_known(theirs) => Why::Version,
        Some(theirs) if !theirs.knows(remote, local) => Why::Addresses,
        Some(_) => Why::Key,
    }
}

pub(crate) fn is_known(theirs: &Hello) -> bool {
    (theirs.oldest..=theirs.newest).contains(&VERSION) && theirs.kind == LaneKind::Interactive
}

const fn opening(addresses: Addresses, initiator: [u8; NONCE_LEN], responder: [u8; NONCE_LEN]) -> Opening {
    Opening {
        kind: LaneKind::Interactive,
        initiator: Party { nonce: initiator, address: addresses.initiator },
        responder: Party { nonce: responder, address: addresses.responder },
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const ADDRESSES: Addresses = Addresses {
        initiator: IpAddr::V4(core::net::Ipv4Addr::new(10, 0, 0, 1)),
        responder: IpAddr::V4(core::net::Ipv4Addr::new(10, 0, 0, 2)),
    };

    /// The hello of a daemon that has connected, without a session or a wire.
    pub(crate) fn hello(proof: Proof, nonce: u8) -> Hello {
        Hello {
            oldest: VERSION,
            newest: VERSION,
            kind: LaneKind::Interactive,
            epoch: 1,
            boot_id: [0; 16],
            namespace: 1,
            session: 0,
            received: 0,
            wire: None,
            local: ADDRESSES.initiator,
            remote: ADDRESSES.responder,
            nonce: [nonce; NONCE_LEN],
            proof,
        }
    }

    /// The hello of the daemon that answers.
    fn reply(proof: Proof, nonce: u8) -> Hello {
        Hello { local: ADDRESSES.responder, remote: ADDRESSES.initiator, ..hello(proof, nonce) }
    }

    fn key(octet: u8) -> Key {
        Key::new(&[octet; 16]).expect("a key")
    }

    #[test]
    fn daemons_with_one_key_find_each_other_at_the_second_try() {
        let key = key(b'k');
        let (own, other) = ([1; NONCE_LEN], [2; NONCE_LEN]);
        let first = ask(Some(&key), ADDRESSES, own, None);
        assert_eq!(first, Proof::Wanted);
        assert_eq!(answer(Some(&key), &hello(first, 1), ADDRESSES, None), Answer::Challenge);
        let second = ask(Some(&key), ADDRESSES, own, Some(other));
        let Answer::Accept(proof) = answer(Some(&key), &hello(second, 1), ADDRESSES, Some(other)) else {
            panic!("refused");
        };
        assert!(is_answer(Some(&key), &reply(proof, 2), ADDRESSES, own, Some(other)));
        assert!(!is_answer(Some(&key), &reply(second, 2), ADDRESSES, own, Some(other)), "its own proof");
        assert!(!is_answer(None, &reply(proof, 2), ADDRESSES, own, Some(other)));
        // A proof over an older nonce, or one that was never given.
        let again = answer(Some(&key), &hello(second, 1), ADDRESSES, Some([3; NONCE_LEN]));
        assert_eq!(again, Answer::Refuse);
        assert_eq!(answer(Some(&key), &hello(second, 1), ADDRESSES, None), Answer::Challenge);
        let elsewhere = Addresses { initiator: ADDRESSES.responder, ..ADDRESSES };
        assert_eq!(answer(Some(&key), &hello(second, 1), elsewhere, Some(other)), Answer::Refuse);
    }

    #[test]
    fn daemons_with_different_keys_have_no_lane() {
        let other = [2; NONCE_LEN];
        let proof = ask(Some(&key(b'a')), ADDRESSES, [1; NONCE_LEN], Some(other));
        let answer_to = |key: Option<&Key>, proof| answer(key, &hello(proof, 1), ADDRESSES, Some(other));
        assert_eq!(answer_to(Some(&key(b'b')), proof), Answer::Refuse);
        assert_eq!(answer_to(None, proof), Answer::Refuse);
        assert_eq!(answer_to(None, Proof::Wanted), Answer::Refuse);
        assert_eq!(answer_to(Some(&key(b'a')), Proof::Without), Answer::Refuse);
        assert_eq!(answer_to(None, Proof::Without), Answer::Accept(Proof::Without));
        let is_answer = |key: Option<&Key>, proof, challenge| {
            is_answer(key, &reply(proof, 2), ADDRESSES, [1; NONCE_LEN], challenge)
        };
        assert!(is_answer(None, Proof::Without, None));
        assert!(!is_answer(Some(&key(b'a')), Proof::Without, None), "no proof where one is wanted");
        assert!(!is_answer(Some(&key(b'a')), Proof::Without, Some(other)));
        assert!(!is_answer(Some(&key(b'a')), proof, Some(other)), "the proof of the other role");
    }

    #[test]
    fn another_version_or_kind_is_refused() {
        let (own, answered) = (hello(Proof::Without, 1), reply(Proof::Without, 1));
        assert_eq!(answer(None, &own, ADDRESSES, None), Answer::Accept(Proof::Without));
        assert!(is_answer(None, &answered, ADDRESSES, own.nonce, None));
        let changes: [fn(Hello) -> Hello; 4] = [
            |theirs| Hello { oldest: VERSION + 1, newest: VERSION + 1, ..theirs },
            |theirs| Hello { oldest: VERSION + 1, ..theirs },
            |theirs| Hello { newest: VERSION - 1, oldest: 0, ..theirs },
            |theirs| Hello { kind: LaneKind::Bulk, ..theirs },
        ];
        for change in changes {
            assert_eq!(answer(None, &change(own), ADDRESSES, None), Answer::Refuse);
            assert!(!is_answer(None, &change(answered), ADDRESSES, own.nonce, None));
            assert_eq!(why(Some(&change(own)), (ADDRESSES.responder, ADDRESSES.initiator)), Why::Version);
        }
        assert!(matches!(
            answer(None, &Hello { newest: VERSION + 1, ..own }, ADDRESSES, None),
            Answer::Accept(_)
        ));
    }

    /// A router between both has changed an address.
    #[test]
    fn a_daemon_that_knows_other_addresses_is_refused() {
        let key = key(b'k');
        let elsewhere = IpAddr::from([192, 168, 0, 2]);
        let own = hello(Proof::Without, 1);
        for theirs in [Hello { local: elsewhere, ..own }, Hello { remote: elsewhere, ..own }] {
            assert_eq!(answer(None, &theirs, ADDRESSES, None), Answer::Refuse);
            let wanted = Hello { proof: Proof::Wanted, ..theirs };
            assert_eq!(answer(Some(&key), &wanted, ADDRESSES, None), Answer::Refuse);
            let told = why(Some(&theirs), (ADDRESSES.responder, ADDRESSES.initiator));
            assert_eq!(told, Why::Addresses);
        }
        let answered = reply(Proof::Without, 2);
        for theirs in [Hello { local: elsewhere, ..answered }, Hello { remote: elsewhere, ..answered }] {
            assert!(!is_answer(None, &theirs, ADDRESSES, own.nonce, None));
        }
        let mapped = IpAddr::from(core::net::Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped());
        assert!(Hello { local: mapped, ..own }.knows(ADDRESSES.initiator, ADDRESSES.responder));
    }
}
