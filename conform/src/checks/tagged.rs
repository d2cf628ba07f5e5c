//! Faults of tagged segments (RFC 5041 section 7.1), and tagged segments without a fault.

use crate::check::Check;
use crate::fault::Fault;
use crate::finding::Stop;
use crate::octets::{Place, digits, pattern, tagged, write};
use crate::ping::{Advertisement, Client};
use crate::stream::Stream;
use crate::trial::Trial;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "write-unknown-stag",
        title: "Writes to STags that do not exist are refused as such, and the connection ends",
        ids: &[
            "5041-4.2-6",
            "5041-7.1-11",
            "5041-7.1-12",
            "5041-7.1-17",
            "5041-8.1-1",
            "5041-7.2-1",
            "5040-4.8-3",
            "5040-3.2-6",
            "5040-7.2-1",
            "5042-6.1.1-5",
        ],
        run: unknown_stag,
    },
    Check {
        name: "write-out-of-bounds",
        title: "Writes outside of the buffer that the target's go-ahead names are refused as such",
        ids: &[
            "5041-7.1-11",
            "5041-7.1-14",
            "5041-7.1-15",
            "5041-7.1-17",
            "5041-8.1-1",
            "5041-8.3.1-4",
            "5040-8.1.1-4",
            "5042-6.2.1-1",
            "5041-7.2-1",
            "5040-4.8-3",
        ],
        run: bounds,
    },
    Check {
        name: "write-wrap",
        title: "a Write beyond the last of all offsets is refused as such",
        ids: &["5041-7.1-11", "5041-7.1-16", "5041-7.1-17", "5041-7.2-1", "5040-4.8-3"],
        run: wrap,
    },
    Check {
        name: "write-placed",
        title: "the target writes back the octets that were written into its buffer, up to both edges",
        ids: &["5041-4.1-1", "5041-4.2-1", "5041-5.2-4", "5041-7.1-15"],
        run: placed,
    },
    Check {
        name: "write-zero-length",
        title: "zero-length Writes are taken whatever their STag and offset",
        ids: &["5041-5.2-10", "5041-4.4-1"],
        run: zero_length,
    },
    Check {
        name: "tagged-version",
        title: "tagged segments of other DDP versions are refused as such",
        ids: &["5041-4.1-11", "5041-7.2-1", "5040-4.8-3", "5040-7.2-1"],
        run: version,
    },
    Check {
        name: "tagged-runt",
        title: "a tagged segment that is shorter than its header is not taken",
        ids: &["5041-4.4-1"],
        run: runt,
    },
];

fn unknown_stag(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let fault = Fault {
        what: "the STag does not exist",
        guards: &["5041-4.2-6", VALIDATED, "5041-7.1-12", CEASED, BEFORE, "5040-3.2-6", "5040-7.2-1"],
        codes: &["1100", "1102"],
        near: &["0100"],
    };
    for stag in [0xDEAD_BEEF, 0, 1, 0x100, u32::MAX] {
        let mut stream = trial.open()?;
        stream.send_ulpdu(&write(stag, 0x1000, &pattern(8)));
        trial.expect_refusal_on(&fault, &mut stream);
        trial.expect_close(&["5042-6.1.1-5"], &mut stream);
    }
    Ok(())
}

/// One connection for each Write. The first half of a ping shows where the buffer is. If only a Read shows the
/// buffer, it may be part of a larger one.
fn bounds(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let cases: [(i64, usize, &'static str); 9] = [
        (FAR, 8, "5041-7.1-14"),
        (-FAR, 8, "5041-7.1-14"),
        (FAR / 2, 1000, "5041-7.1-14"),
        (-1, 1, "5041-7.1-14"),
        (-1, 2, "5041-7.1-14"),
        (SIZE, 1, "5041-7.1-14"),
        (SIZE + 4096, 8, "5041-7.1-14"),
        (SIZE - 1, 2, "5041-7.1-15"),
        (0, 65, "5041-7.1-15"),
    ];
    for (offset, len, id) in cases {
        let (mut stream, buffer, is_exact) = learn(trial)?;
        if offset.abs() < FAR / 2 && !is_exact {
            return Err(Stop::Unsuited("the target does not say how large its buffer is".to_owned()));
        }
        let guards = [VALIDATED, id, CEASED, BEFORE, "5041-8.3.1-4", "5040-8.1.1-4", "5042-6.2.1-1"];
        let what = format!("{len} octets at offset {offset} of a buffer of {SIZE}");
        let near = &["1100", "0101", "0100", "1000"];
        let fault = Fault { what: &what, guards: &guards, codes: &["1101"], near };
        let place = buffer.place(offset.cast_unsigned());
        stream.send_ulpdu(&write(place.0, place.1, &pattern(len)));
        trial.expect_refusal_on(&fault, &mut stream);
    }
    Ok(())
}

/// A Write that wraps is outside of every buffer too.
fn wrap(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let fault = Fault {
        what: "the offset wraps",
        guards: &[VALIDATED, "5041-7.1-16", CEASED],
        codes: &["1103", "1101"],
        near: &["0104", "1100", "0100", "1000"],
    };
    let (mut stream, buffer, _) = learn(trial)?;
    // These 8 octets go beyond the last offset.
    let to = u64::MAX - 3;
    stream.send_ulpdu(&write(buffer.stag, to, &pattern(8)));
    trial.expect_refusal_on(&fault, &mut stream);
    Ok(())
}

/// The second half of the ping writes the buffer's content back.
fn placed(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut stream = trial.open()?;
    let mut client = Client::new(64);
    let buffer = client.learn_buffer(trial, &mut stream)?;
    // All octets in two segments, then single octets at both edges and inside. The last octet is a zero: rdma-core's
    // rping writes the text before it.
    let octets: Vec<u8> = pattern(64).iter().map(|octet| octet ^ 0x5A).collect();
    let part = |head: &str, offset: usize, octets: &[u8]| {
        let Place(stag, to) = buffer.place(offset as u64);
        tagged(head, stag, to, octets)
    };
    stream.send_ulpdu(&part("8140", 0, &octets[..40]));
    stream.send_ulpdu(&part("C140", 40, &octets[40..]));
    client.content = octets;
    for (offset, octet) in [(0, 0xA1), (63, 0), (31, 0xA3)] {
        stream.send_ulpdu(&part("C140", offset, &[octet]));
        client.content[offset] = octet;
    }
    let ids = ["5041-4.1-1", "5041-4.2-1", "5041-5.2-4", "5041-7.1-15"];
    client.advertise(&mut stream, client.sink);
    let content = client.take_writes(trial, &mut stream).ok().and_then(|written| written.content);
    let is_right = content.as_ref() == Some(&client.content);
    let observed = content.map_or_else(|| "something else".to_owned(), |octets| digits(&octets, 64));
    trial.judge(&ids, &stream, is_right, ("what was written, written back", observed));
    Ok(())
}

fn zero_length(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut stream = trial.open()?;
    for place in [Place(0, 0), Place(u32::MAX, u64::MAX), Place(0xDEAD_BEEF, 1), Place(1, u64::MAX - 1)] {
        stream.send_ulpdu(&write(place.0, place.1, &[]));
    }
    trial.expect_alive(&["5041-5.2-10", "5041-4.4-1"], &mut stream, 1)
}

/// The segment has no payload, so that the STag does not matter.
fn version(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let fault = Fault {
        what: "the stream has DDP version 1",
        guards: &["5041-4.1-11", "5040-7.2-1"],
        codes: &["1104"],
        near: &["1206"],
    };
    for control in ["C0", "C2", "C3"] {
        trial.expect_refusal_of(&fault, &[tagged(&format!("{control}40"), 1, 0, &[])])?;
    }
    Ok(())
}

/// No code exists for this fault.
fn runt(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let guards = &["5041-4.4-1"];
    let fault = Fault { what: "the segment is shorter than its header", guards, codes: &[], near: &[] };
    for len in [1, 2, 6, 13] {
        trial.expect_refusal_of(&fault, &[write(0, 0, &[])[..len].to_vec()])?;
    }
    Ok(())
}

/// Returns the target's buffer, and whether the target itself says where it begins and ends.
fn learn(trial: &mut Trial<'_>) -> Result<(Stream, Advertisement, bool), Stop> {
    let mut stream = trial.open()?;
    let mut client = Client::new(64);
    let (_, go_ahead) = client.until_go_ahead(trial, &mut stream)?;
    if let Some(buffer) = go_ahead.buffer
        && i64::from(buffer.size) == SIZE
    {
        return Ok((stream, buffer, true));
    }
    let mut stream = trial.open()?;
    let buffer = Client::new(64).learn_buffer(trial, &mut stream)?;
    Ok((stream, buffer, false))
}

/// The target has to validate before it places.
const VALIDATED: &str = "5041-7.1-11";
/// The rest of the segment is not placed.
const CEASED: &str = "5041-7.1-17";
const BEFORE: &str = "5041-8.1-1";
/// The size of the buffer in the ping.
const SIZE: i64 = 64;
/// Beyond any buffer.
const FAR: i64 = 1 << 34;
