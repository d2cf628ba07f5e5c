//! Seeds for the ends of connections in shared memory.

/// Names and octets of a target's seeds.
pub(crate) fn all(target: &str) -> Vec<(String, Vec<u8>)> {
    let scripts = if target == "sockets_link" { links() } else { Vec::new() };
    let named = scripts.into_iter().map(|(name, octets)| (name.to_owned(), octets));
    let chance = (1..=8).map(|seed| (format!("chance-{seed}"), chance(seed)));
    named.chain(chance).collect()
}

/// Steps of an end and of its hostile party: call, size, rest, delay, word, kind of value, value.
fn links() -> Vec<(&'static str, Vec<u8>)> {
    const TAIL: u8 = 16;
    const HEAD: u8 = 5;
    const LEG: u8 = 16 | 3;
    const START: u8 = 16 | 2;
    const PLEASE: u8 = 8;
    const NOTHING: [u8; 4] = [13, 3, 0, 0];
    let step =
        |call, len, delay, [at, kind, first, second]: [u8; 4]| [call, len, 0, delay, at, kind, first, second];
    let (write, read, obey, resend, prepare) = (0, 16, 12, 14, 255);
    // The other party sends 100 octets, then 60, and takes what comes.
    let stream = [
        step(prepare, 0, 0, [TAIL, 0, 100, 0]),
        step(read, 255, 0, NOTHING),
        step(write, 30, 0, [TAIL, 0, 60, 0]),
        step(read, 40, 0, [HEAD, 0, 30, 0]),
        step(write, 120, 0, NOTHING),
        step(read, 40, 0, [HEAD, 0, 120, 0]),
        step(write, 100, 0, NOTHING),
    ];
    // A tail that moves while it is looked at, in each way.
    let torn = (0..24_u8).map(|delay| step(read, 255, delay, [TAIL, 0, 90 + delay * 7, 0]));
    // Another ring begins among octets that were seen.
    let shrunk = [
        step(prepare, 0, 0, [LEG, 2, 2, 1]),
        step(24, 0, 0, [TAIL, 0, 127, 0]),
        step(read, 3, 0, [TAIL, 0, 127, 0]),
        step(prepare, 0, 0, [START, 0, 3, 0]),
        step(read, 255, 0, [LEG, 2, 3, 0]),
        step(read, 255, 0, NOTHING),
    ];
    let asked_back = [
        step(write, 90, 0, NOTHING),
        step(prepare, 0, 0, [HEAD, 0, 20, 0]),
        step(obey, 0, 0, [PLEASE, 0, 1, 0]),
        step(obey, 0, 3, [HEAD, 0, 5, 0]),
        step(resend, 30, 0, NOTHING),
        step(resend, 255, 0, NOTHING),
        step(15, 50, 0, NOTHING),
    ];
    let joined = |steps: &[[u8; 8]]| [&[1][..], &steps.concat()].concat();
    vec![
        ("stream", joined(&stream)),
        ("torn", joined(&torn.collect::<Vec<_>>())),
        ("shrunk", joined(&shrunk)),
        ("asked-back", joined(&asked_back)),
    ]
}

/// Octets that look like chance: without a fuzzer's guidance, inputs grow from those that are there.
pub(crate) fn chance(seed: u64) -> Vec<u8> {
    let mut state = seed;
    let octets = core::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state.to_le_bytes()[6]
    });
    octets.take(2001).collect()
}

/// More of these than anybody wants to keep as files.
#[test]
fn chance_keeps_the_rules_of_shared_memory() {
    for seed in 100..100 + CHANCES {
        weft_tests::fuzzing::sockets_link(&chance(seed));
        weft_tests::fuzzing::sockets_calls(&chance(seed));
        weft_tests::fuzzing::sockets_far(&chance(seed));
    }
}

const CHANCES: u64 = 2000;
