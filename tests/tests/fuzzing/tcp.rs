//! Seeds for the targets of TCP: options, SYNs, and lives of a connection.

use std::collections::BTreeSet;

/// Names and octets of the seeds.
pub(crate) fn all(target: &str) -> Vec<(String, Vec<u8>)> {
    let made = match target {
        "tcp_options" => options().map(|(name, octets)| (name, octets.to_vec())).to_vec(),
        "tcp_cookie" => {
            // The time in milliseconds, the number of the SYN, the bit that a forger changes, and seconds.
            let syn = [0x80, 0x01, 0xFF, 0xFF, 0xFF, 0xFF, 28, 5];
            options().map(|(name, octets)| (name, [&syn, octets].concat())).to_vec()
        }
        _ => lives(),
    };
    made.into_iter().map(|(name, octets)| (name.to_owned(), octets)).collect()
}

fn options() -> [(&'static str, &'static [u8]); 7] {
    [
        ("syn-of-linux", &[2, 4, 5, 0xB4, 4, 2, 8, 10, 0, 0, 1, 0, 0, 0, 0, 0, 1, 3, 3, 7]),
        ("syn-of-windows", &[2, 4, 5, 0xB4, 1, 3, 3, 8, 1, 1, 4, 2]),
        ("timestamps", &[1, 1, 8, 10, 0xFF, 0xFF, 0xFF, 0xFF, 0, 0, 0, 9]),
        (
            "sack-of-three",
            &[
                1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 9, 1, 1, 5, 26, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 5, 0, 0,
                0, 6, 0, 0, 0, 8, 0, 0, 0, 9,
            ],
        ),
        (
            "sack-of-four",
            &[
                1, 1, 5, 34, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0, 8, 0, 0, 0, 9, 0, 0, 1,
                0, 0, 0, 2, 0,
            ],
        ),
        ("length-of-zero", &[2, 4, 5, 0xB4, 8, 0, 1, 1]),
        ("unknown-and-end", &[30, 3, 1, 34, 2, 2, 4, 2, 0, 0, 3, 3, 14, 0]),
    ]
}

/// Lives as `weft_tcp::fuzzing::segment` reads them.
fn lives() -> Vec<(&'static str, Vec<u8>)> {
    let (active, passive) = (0x0E, 0x0F);
    // Flags, number, ACK, length, window, options.
    let (syn_ack, ack, fin) = ([0, 0, 1, 0, 0, 250, 0], [0, 1, 0, 0, 0, 250, 0], [0, 0, 0, 0, 0, 250, 0]);
    // It does not acknowledge the FIN of this side.
    let fin_alone = [0, 0, 0, 0x80, 0, 250, 0];
    let syn = [0, 0x30, 0, 0, 0, 250, 0];
    let data = |gap: u8| [0, 1, if gap == 0 { 0 } else { 0x80 | gap }, 0, 0x80 | 20, 250, 0];
    // The second segment is acknowledged selectively.
    let sack = [0, 1, 0, 0x80, 0, 250, 0x20, 0x9F, 0xFF];
    // Everything but the first segment, and an ACK of that with no window.
    let (sack_all, closes) = ([0, 1, 0, 0x80, 0, 250, 0x20, 0x80, 0x40], [0, 1, 0, 0xC0, 0, 0, 0]);
    let (write, timer, read, close, abort) = ([4, 120], [7], [5, 7], [5, 0], [5, 1]);
    let (freeze, thaw, renege, full, later) = ([5, 2], [5, 3], [5, 4], [5, 6], [3 | 0xF8, 0xFF]);
    let days = [3 | 0xF8, 0xFF, 0xFF];
    // An odd length lies far away where windows are vast.
    let far = |gap: u8| [0, 1, 0x80 | gap, 0, 0x80 | 21, 250, 0];
    let life = |mode: u8, steps: &[&[u8]]| [&[mode], &steps.concat()[..]].concat();
    vec![
        ("this-side-closes", life(active, &[&syn_ack, &write, &ack, &close, &ack, &fin, &timer])),
        ("the-peer-closes", life(passive, &[&data(0), &fin, &write, &ack, &close, &ack, &timer])),
        ("both-close", life(passive, &[&close, &fin_alone, &ack, &timer])),
        ("no-answer", life(active, &[&timer, &timer, &data(0), &later])),
        ("both-open", life(active, &[&syn, &ack, &data(0), &write, &abort])),
        (
            "gaps",
            life(passive, &[&data(40), &data(80), &data(20), &data(0), &read, &data(10), &renege, &data(0)]),
        ),
        (
            "losses",
            life(passive, &[&write, &write, &sack, &timer, &sack, &timer, &timer, &ack, &later, &ack]),
        ),
        (
            "no-memory",
            life(passive | 0x40, &[&data(40), &freeze, &data(0), &read, &thaw, &data(0), &read, &write]),
        ),
        (
            "a-full-device",
            life(passive, &[&full, &write, &data(0), &timer, &timer, &full, &ack, &close, &ack]),
        ),
        (
            "a-silent-peer",
            life(passive | 0x20, &[&later, &timer, &timer, &timer, &write, &later, &later, &timer]),
        ),
        (
            "a-window-closes-over-sacks",
            life(passive, &[&write, &sack_all, &closes, &timer, &timer, &sack_all, &timer, &sack_all, &ack]),
        ),
        (
            "days-of-rest",
            life(passive | 0x80, &[&write, &ack, &days, &data(0), &days, &write, &timer, &ack, &days, &ack]),
        ),
        (
            "a-window-of-1-gib",
            life(
                passive | 0x80,
                &[&far(60), &far(40), &data(0), &renege, &far(60), &read, &sack, &close, &ack],
            ),
        ),
    ]
}

#[test]
fn the_lives_reach_each_state() {
    let mut reached = BTreeSet::new();
    for (_, life) in lives() {
        let states = weft_tcp::fuzzing::segment(&life).into_iter().enumerate();
        reached.extend(states.filter(|(_, is_reached)| *is_reached).map(|(state, _)| state));
    }
    assert_eq!(reached, (0..10).collect());
}
