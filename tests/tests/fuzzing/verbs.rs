//! The verbs target.

use std::collections::BTreeSet;

use weft_tests::fuzzing::verbs_ops;

/// Returns octets of SplitMix64.
fn octets(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed;
    let mut octets = Vec::new();
    while octets.len() < len {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        octets.extend_from_slice(&(word ^ (word >> 31)).to_be_bytes());
    }
    octets
}

/// Returns long random inputs, since octets for `Arbitrary` cannot be written by hand.
pub(crate) fn seeds() -> Vec<(String, Vec<u8>)> {
    (0..12).map(|seed| (format!("chance-{seed}"), octets(seed, 700))).collect()
}

#[test]
fn random_calls_do_what_the_model_says() {
    let mut seen = BTreeSet::new();
    for seed in 0..8000 {
        println!("seed {seed}");
        seen.extend(verbs_ops(&octets(seed, 700)));
    }
    let missing: Vec<_> = WANTED.into_iter().filter(|&name| !seen.contains(name)).collect();
    assert!(missing.is_empty(), "no seed has {missing:?}");
}

/// Completions, refusals and ends that a model without real checks would never reach.
const WANTED: [&str; 44] = [
    "(Send, Success)",
    "(Send, LocalProtection)",
    "(Send, WorkRequestFlushed)",
    "(Write, Success)",
    "(Write, LocalProtection)",
    "(Read, Success)",
    "(Read, LocalProtection)",
    "(Read, RemoteAccess)",
    "(Recv, Success)",
    "(Recv, LocalLength)",
    "(Recv, LocalProtection)",
    "(Recv, WorkRequestFlushed)",
    "(Immediate, Success)",
    "(Nop, Success)",
    "(Wait, LocalQpOperation)",
    "(FetchAdd, Success)",
    "(FetchAdd, RemoteAccess)",
    "(CompareSwap, Success)",
    "(CompareSwap, RemoteOperation)",
    "(BindWindow, Success)",
    "(BindWindow, MemoryWindowBind)",
    "(FastRegister, Success)",
    "(FastRegister, MemoryWindowBind)",
    "Busy",
    "WrongWindow",
    "ReadThroughWindow",
    "WrittenThroughWindow",
    "(LocalInvalidate, Success)",
    "(LocalInvalidate, MemoryWindowBind)",
    "BadData",
    "BadFlags",
    "InlineTooLong",
    "InvalidState",
    "QueueFull",
    "TooLong",
    "TooManySges",
    "ForeignObject",
    "ForeignQp",
    "PrivateDataTooLong",
    "QpBusy",
    "RequestGone",
    "Local",
    "Lost",
    "PeerTerminate",
];
