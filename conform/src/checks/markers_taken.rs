//! Markers in what the target receives (RFC 5044 sections 4.2, 4.3 and 8), if it wants them: its Reply says so by M=1.

use crate::check::Check;
use crate::finding::Stop;
use crate::octets::crc32c;
use crate::ping::Client;
use crate::probe::{is_zero_response, shown, zero_read};
use crate::startup::{M, Request};
use crate::stream::Stream;
use crate::survey::{Reaction, fed_ping, reaction, resealed};
use crate::trial::Trial;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "markers-taken",
        title: "130 FPDUs with Markers before, in and between them, cut in two",
        ids: TAKEN,
        run: taken,
    },
    Check {
        name: "markers-taken-in-large-fpdus",
        title: "a Read Response of 4096 octets in FPDUs with several Markers",
        ids: &["5044-4.3-1", "5044-4.3-14", "5044-4.3-15", "5044-4.4-18"],
        run: taken_in_large,
    },
    Check {
        name: "marker-reserved-bits",
        title: "Markers with other values in the reserved bits",
        ids: &["5044-4.2-3", "5044-4.2-6", "5044-4.3-13"],
        run: reserved_bits,
    },
    Check {
        name: "marker-outside-crc",
        title: "CRCs that leave out a Marker before, in or behind the FPDU",
        ids: &["5044-4.2-3", "5044-4.3-1", "5044-4.3-8", "5044-4.4-15", "5044-4.4-16"],
        run: outside_crc,
    },
    Check {
        name: "marker-points-elsewhere",
        title: "a Marker that does not point to the length field, in an FPDU with a good CRC",
        ids: &["5044-8-3", "5044-8-6", "5044-8-7"],
        run: points_elsewhere,
    },
];

const TAKEN: &[&str] = &[
    "5044-4.3-1",
    "5044-4.3-8",
    "5044-4.3-10",
    "5044-4.4-14",
    "5044-4.4-15",
    "5044-4.4-16",
    "5044-4.4-18",
    "5044-7.1.1-7",
];

/// FPDUs of 52 octets. Before the last of them a Marker has stood at every possible place. The private data makes the
/// stream begin at an odd offset.
fn taken(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut stream = begin(trial, 0)?;
    for msn in 1..=ENOUGH {
        let octets = stream.outgoing.fpdu(&zero_read(msn));
        let cut = msn as usize % octets.len();
        stream.send(&octets[..cut]);
        stream.send(&octets[cut..]);
        trial.expect_answer(TAKEN, &mut stream)?;
    }
    Ok(())
}

fn taken_in_large(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut stream = begin(trial, M).or_else(|_| begin(trial, 0))?;
    let ids = &["5044-4.3-1", "5044-4.3-14", "5044-4.3-15", "5044-4.4-18"];
    let mut client = Client::new(4096);
    client.chunk = 64;
    client.ping(trial, &mut stream)?;
    for chunk in [3, 487, 488, 1400, 4096] {
        client.chunk = chunk;
        let at_once = |stream: &mut Stream, fpdus: Vec<Vec<u8>>| stream.send(&fpdus.concat());
        fed_ping(&mut client, trial, &mut stream, ids, at_once)?;
    }
    Ok(())
}

fn reserved_bits(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut stream = begin(trial, 0)?;
    for msn in 1..=ENOUGH {
        let start = stream.outgoing.position.unwrap_or_default();
        let low_bits = |pointer: u16| pointer | u16::try_from(msn % 4).unwrap_or_default();
        let octets = stream.outgoing.fpdu_with_markers(&zero_read(msn), low_bits);
        let place = place_of_marker(start);
        let has_marker = place < octets.len() - 4;
        let octets = resealed(octets, |covered| {
            if has_marker {
                covered[place..place + 2].fill(0xFF);
            }
        });
        stream.send(&octets);
        trial.expect_answer(&["5044-4.2-3", "5044-4.2-6", "5044-4.3-13"], &mut stream)?;
    }
    Ok(())
}

/// A sender that forgets the Marker computes the CRC over all other octets.
fn outside_crc(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let kinds: [(&[&str], usize); 3] = [
        (&["5044-4.2-3", "5044-4.3-1", "5044-4.3-8", "5044-4.4-16"], 0),
        (&["5044-4.2-3", "5044-4.3-1"], 20),
        (&["5044-4.2-3", "5044-4.3-1", "5044-4.4-15"], 48),
    ];
    for (ids, place) in kinds {
        let mut stream = begin(trial, 0)?;
        let msn = go_to(trial, &mut stream, place)?;
        let mut octets = stream.outgoing.fpdu(&zero_read(msn));
        let end = octets.len() - 4;
        let others = [&octets[..place], &octets[place + 4..end]].concat();
        octets[end..].copy_from_slice(&crc32c(&others).to_le_bytes());
        stream.send(&octets);
        super::crc::expect_crc_error(trial, &mut stream, ids)?;
    }
    Ok(())
}

/// A check of every Marker is optional in a stream that comes in order (RFC 5044 section 8), so that a target may go
/// on. A target that checks Markers has to report this error and no other.
fn points_elsewhere(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let ids = &["5044-8-3", "5044-8-6", "5044-8-7"];
    for place in [0, 20] {
        let mut stream = begin(trial, 0)?;
        let msn = go_to(trial, &mut stream, place)?;
        let octets = stream.outgoing.fpdu_with_markers(&zero_read(msn), |pointer| pointer ^ 0x0008);
        stream.send(&octets);
        let expected = "a Terminate 20 03 00 00, or an answer from a target that does not look at the Marker";
        match reaction(trial, ids, &mut stream, expected)? {
            Reaction::Terminate(terminate) => {
                let is_right = matches!(terminate.code(), [0x20 | 0x02, 0x03]);
                trial.judge(ids, &stream, is_right, (expected, terminate));
            }
            Reaction::Fpdu(fpdu) if is_zero_response(&fpdu) => {
                trial.leave(ids, "the target does not check Markers of a stream that comes in order");
            }
            Reaction::Fpdu(fpdu) => trial.judge(ids, &stream, false, (expected, shown(&fpdu))),
            Reaction::End => trial.leave(ids, "the target ends the connection without a Terminate"),
        }
    }
    Ok(())
}

/// Opens a stream on which the target wants Markers. The first Marker is at an odd octet of the TCP connection.
fn begin(trial: &mut Trial<'_>, flags: u8) -> Result<Stream, Stop> {
    let best = trial.best_request();
    let request = Request { flags: best.flags | flags, ..best }.with_private_data(b"odd");
    let (stream, reply) = trial.open_with(&request)?;
    if reply.has(M) {
        return Ok(stream);
    }
    let reason = "the target wants no Markers in what it receives (weft rping --markers does)";
    Err(Stop::Unsuited(reason.to_owned()))
}

/// Sends FPDUs until the next one of 52 octets has a Marker at `place`. Returns the MSN of the next Read.
fn go_to(trial: &mut Trial<'_>, stream: &mut Stream, place: usize) -> Result<u32, Stop> {
    for msn in 1..ENOUGH {
        // The first Marker of the stream is before an FPDU too. It does not count: a target that omits Markers may
        // only have begun too late there.
        let is_first = stream.outgoing.position == Some(0);
        if !is_first && place_of_marker(stream.outgoing.position.unwrap_or_default()) == place {
            return Ok(msn);
        }
        trial.expect_alive(&[], stream, msn)?;
    }
    Err(Stop::Unsuited(format!("no FPDU has a Marker at octet {place}")))
}

/// Returns the place of the first Marker in an FPDU that starts at `position`. It may be behind the FPDU's end.
const fn place_of_marker(position: usize) -> usize {
    (512 - position % 512) % 512
}

/// 127 FPDUs of 52 octets fill thirteen intervals of 508: a Marker stands between this one and the next.
const ENOUGH: u32 = 130;
