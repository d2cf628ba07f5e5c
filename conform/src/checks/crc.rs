//! CRC32c: which side checks it, when, and what follows (RFC 5044 sections 4.4, 6 and 8).

use crate::check::Check;
use crate::finding::Stop;
use crate::octets::{Place, join, read_request, send, tagged, write};
use crate::ping::Client;
use crate::probe::{is_zero_response, shown, spoilt, zero_read};
use crate::startup::{C, Request};
use crate::stream::Stream;
use crate::survey::{Reaction, Survey, reaction};
use crate::terminate::Terminate;
use crate::trial::Trial;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "crc-wrong",
        title: "FPDUs with one wrong bit, in the length field, the ULPDU or the CRC",
        ids: CRC_WRONG,
        run: crc_wrong,
    },
    Check {
        name: "crc-before-headers",
        title: "DDP and RDMAP headers that are wrong, in FPDUs whose CRC is wrong too",
        ids: &["5044-6-1", "5044-6-3"],
        run: before_headers,
    },
    Check {
        name: "crc-order-of-octets",
        title: "CRC fields with the right number in other octet orders",
        ids: &["5044-4.4-18", "5044-4.4-19"],
        run: order_of_octets,
    },
    Check {
        name: "nothing-after-crc-error",
        title: "right FPDUs behind one with a wrong CRC",
        ids: &["5044-8-11", "5044-8-12"],
        run: nothing_after,
    },
    Check {
        name: "no-ping-after-crc-error",
        title: "an advertisement whose CRC is wrong, and a right one behind it",
        ids: &["5044-8-11"],
        run: no_ping_after,
    },
    Check {
        name: "crc-to-the-end",
        title: "64 answers with CRCs, and then a wrong CRC",
        ids: &["5044-4.4-1", "5044-4.4-6", "5044-4.4-9", "5044-4.4-17"],
        run: to_the_end,
    },
    Check {
        name: "crc-wanted-by-target",
        title: "a Request without C to a target that wants CRCs",
        ids: &["5044-4.4-6"],
        run: wanted_by_target,
    },
    Check {
        name: "crc-off",
        title: "any CRC field from the first FPDU on, if neither side uses CRCs",
        ids: &["5044-4.1-6", "5044-4.1-7", "5044-4.4-10", "5044-4.4-12"],
        run: off,
    },
];

const CRC_WRONG: &[&str] = &[
    "5040-4.8-2",
    "5040-4.8-3",
    "5040-4.8-4",
    "5040-4.8-5",
    "5040-4.8-6",
    "5041-3-7",
    "5044-4.4-1",
    "5044-4.4-19",
    "5044-6-1",
    "5044-6-3",
    "5044-8-2",
];

/// The Read Request has 52 octets. Each changed bit leaves a valid Request: only the CRC shows the error.
fn crc_wrong(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let noticed = &["5041-3-7", "5044-4.4-1", "5044-4.4-19", "5044-6-1", "5044-6-3"];
    // A reserved bit, the sink's STag and offset, the source of a Read of no octets, both ends of the CRC field.
    for (at, bit) in
        [(2, 0x20), (3, 0x10), (20, 0x80), (31, 0x01), (36, 0x04), (47, 0x01), (48, 0x80), (51, 0x01)]
    {
        let mut stream = trial.open()?;
        trial.expect_alive(&[], &mut stream, 1)?;
        let at = at + lead(&stream);
        let mut octets = stream.outgoing.fpdu(&zero_read(2));
        octets[at] ^= bit;
        stream.send(&octets);
        if let Some(terminate) = expect_crc_error(trial, &mut stream, noticed)? {
            let [.., bits, _] = terminate.control;
            trial.judge(&["5044-8-2"], &stream, is_crc_error(&terminate), (CRC_ERROR, &terminate));
            let is_right = terminate.code() == [0x20, 0x02];
            trial.judge(&["5040-4.8-2", "5040-4.8-3"], &stream, is_right, (CRC_ERROR, &terminate));
            let ids = &["5040-4.8-4", "5040-4.8-5", "5040-4.8-6"];
            trial.judge(
                ids,
                &stream,
                bits & 0xE0 == 0,
                ("M, D and R of zero, as MPA returns no header", &terminate),
            );
        }
    }
    // With these values of ULPDU_Length the FPDU has the same length.
    for bits in [0x03, 0x02] {
        let mut stream = trial.open()?;
        trial.expect_alive(&[], &mut stream, 1)?;
        let at = 1 + lead(&stream);
        let mut octets = stream.outgoing.fpdu(&zero_read(2));
        octets[at] ^= bits;
        stream.send(&octets);
        expect_crc_error(trial, &mut stream, &["5044-4.4-19"])?;
    }
    Ok(())
}

/// A target that checks headers before the CRC finds another error.
fn before_headers(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let first = &["5044-6-1", "5044-6-3"];
    let mut old = zero_read(2);
    old[0] &= !0x03;
    let wrong = [
        ("an unknown STag", write(0xDEAD_BEEF, 0, b"12345678")),
        ("an unknown queue", join("4143 00000000 00000005 00000001 00000000", &[b"12345678"])),
        ("an unknown opcode", join("414F 00000000 00000000 00000001 00000000", &[b"12345678"])),
        ("an MSN out of order", send(7, b"12345678")),
        ("a Read of an unknown STag", read_request(2, Place(1, 0), 8, Place(0xDEAD_BEEF, 0))),
        ("a Read Response without a Read Request", tagged("C142", 0xDEAD_BEEF, 0, b"12345678")),
        ("DDP version 0", old),
    ];
    for (what, ulpdu) in wrong {
        let mut stream = trial.open()?;
        trial.expect_alive(&[], &mut stream, 1)?;
        let octets = spoilt(stream.outgoing.fpdu(&ulpdu));
        stream.send(&octets);
        let expected = format!("a Terminate for the CRC (layer 2), not for {what}");
        match reaction(trial, first, &mut stream, &expected)? {
            Reaction::Terminate(terminate) => {
                trial.judge(first, &stream, is_of_mpa(&terminate), (expected, terminate));
            }
            Reaction::Fpdu(fpdu) => trial.judge(first, &stream, false, (expected, shown(&fpdu))),
            Reaction::End => trial.leave(first, "the target ends the connection without a Terminate"),
        }
    }
    Ok(())
}

/// The number is right and its octets are in the wrong order. Only a comparison of all four octets finds this
/// mistake.
fn order_of_octets(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let ids = &["5044-4.4-18", "5044-4.4-19"];
    let changes: [fn(&mut [u8; 4]); 4] = [
        |field| field.reverse(),
        |field| field.iter_mut().for_each(|octet| *octet = !*octet),
        |field| *field = [0; 4],
        |field| field.swap(0, 1),
    ];
    for change in changes {
        let mut stream = trial.open()?;
        trial.expect_alive(&[], &mut stream, 1)?;
        let mut octets = stream.outgoing.fpdu(&zero_read(2));
        if let Some(field) = octets.last_chunk_mut() {
            change(field);
        }
        stream.send(&octets);
        expect_crc_error(trial, &mut stream, ids)?;
    }
    Ok(())
}

fn nothing_after(trial: &mut Trial<'_>) -> Result<(), Stop> {
    // A target that drops the bad FPDU takes Read 2 when it comes again. A target that counts the bad FPDU takes Read
    // 3.
    for next in [2, 3] {
        let mut stream = trial.open()?;
        trial.expect_alive(&[], &mut stream, 1)?;
        let bad = spoilt(stream.outgoing.fpdu(&zero_read(2)));
        let good = stream.outgoing.fpdu(&zero_read(next));
        stream.send(&[bad, good].concat());
        let silent = &["5044-8-11"];
        let expected = "one Terminate, and then the end of the connection";
        let reaction = reaction(trial, silent, &mut stream, expected)?;
        let is_right = !matches!(reaction, Reaction::Fpdu(_));
        trial.judge(silent, &stream, is_right, (expected, "an answer to an FPDU"));
        if is_right {
            let words = (expected, "the end of the connection, without a Terminate");
            trial.judge(&["5044-8-12"], &stream, !matches!(reaction, Reaction::End), words);
            trial.expect_close(&["5044-8-11"], &mut stream);
        }
    }
    Ok(())
}

fn no_ping_after(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut first = trial.open()?;
    let mut client = Client::new(64);
    client.ping(trial, &mut first)?;
    drop(first);
    let ids = &["5044-8-11"];
    let mut stream = trial.open()?;
    let advertisement =
        [&client.source.1.to_be_bytes()[..], &client.source.0.to_be_bytes(), &[0, 0, 0, 64]].concat();
    let bad = spoilt(stream.outgoing.fpdu(&send(1, &advertisement)));
    let good = [1, 2].map(|msn| stream.outgoing.fpdu(&send(msn, &advertisement))).concat();
    stream.send(&[bad, good].concat());
    let expected = "a Terminate or the end of the connection, and no Read Request";
    let is_right = !matches!(reaction(trial, ids, &mut stream, expected)?, Reaction::Fpdu(_));
    trial.judge(ids, &stream, is_right, (expected, "an FPDU of another kind"));
    if is_right {
        trial.expect_close(&["5044-8-11"], &mut stream);
    }
    Ok(())
}

fn to_the_end(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let ids: &[&str] = &["5044-4.4-1", "5044-4.4-6", "5044-4.4-9", "5044-4.4-17"];
    let mut stream = trial.open()?;
    let mut survey = Survey::default();
    for msn in 1..=64 {
        stream.send_ulpdu(&zero_read(msn));
        let fpdu = trial.expect_fpdu(ids, &mut stream, "the answer to a zero-length RDMA Read")?;
        if !is_zero_response(&fpdu) {
            return Err(Stop::Unsuited(format!("the target does not answer Read {msn}: {}", shown(&fpdu))));
        }
        survey.note_crc(ids, &fpdu);
    }
    survey.judge(trial, &stream, ids);
    let bad = spoilt(stream.outgoing.fpdu(&zero_read(65)));
    stream.send(&bad);
    expect_crc_error(trial, &mut stream, &["5044-4.4-1", "5044-4.4-6", "5044-4.4-9"]).map(drop)
}

fn wanted_by_target(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let ids = &["5044-4.4-6"];
    let (mut stream, reply) = trial.open_with(&without_crc(trial))?;
    if !reply.has(C) {
        return Err(Stop::Unsuited("the target does not ask for CRCs".to_owned()));
    }
    let mut survey = Survey::default();
    stream.send_ulpdu(&zero_read(1));
    let fpdu = trial.expect_fpdu(&[], &mut stream, "the answer to a zero-length RDMA Read")?;
    survey.note_crc(ids, &fpdu);
    survey.judge(trial, &stream, ids);
    let bad = spoilt(stream.outgoing.fpdu(&zero_read(2)));
    stream.send(&bad);
    expect_crc_error(trial, &mut stream, ids).map(drop)
}

/// The content of the target's CRC fields is not judged here.
fn off(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let request = without_crc(trial);
    for field in [0, u32::MAX, 0xDEAD_BEEF] {
        let (mut stream, reply) = trial.open_with(&request)?;
        if reply.has(C) {
            let reason = "the target asks for CRCs, as is its right (weft rping --no-crc does not)";
            return Err(Stop::Unsuited(reason.to_owned()));
        }
        let taken: &[&str] = &["5044-4.1-7", "5044-4.4-10"];
        let framed = &["5044-4.1-6", "5044-4.4-12"];
        for msn in 1..=3 {
            let mut octets = stream.outgoing.fpdu(&zero_read(msn));
            if let Some(end) = octets.last_chunk_mut::<4>() {
                *end = u32::to_le_bytes(field);
            }
            stream.send(&octets);
            let what = "the answer to a zero-length Read, and a CRC field of any content";
            let before = stream.record().1.len();
            let answer = stream.read_fpdu();
            // Each answer begins behind the CRC field of the one before.
            let is_cut = answer.is_err() && stream.record().1.len() > before;
            let ids = if msn == 1 && !is_cut { taken } else { framed };
            let fpdu = answer.map_err(|missing| trial.fail(ids, &stream, what, missing))?;
            trial.judge(ids, &stream, is_zero_response(&fpdu), (what, shown(&fpdu)));
            if !is_zero_response(&fpdu) {
                return Err(Stop::Judged);
            }
        }
    }
    Ok(())
}

/// Waits for the reaction to an FPDU with a wrong CRC. A target that does not notice breaks `ids`. Returns its
/// Terminate, if it sends one.
pub(super) fn expect_crc_error(
    trial: &mut Trial<'_>,
    stream: &mut Stream,
    ids: &[&'static str],
) -> Result<Option<Terminate>, Stop> {
    match reaction(trial, ids, stream, CRC_ERROR)? {
        Reaction::Terminate(terminate) => {
            trial.judge(ids, stream, true, (CRC_ERROR, &terminate));
            return Ok(Some(terminate));
        }
        Reaction::Fpdu(fpdu) => trial.judge(ids, stream, false, (CRC_ERROR, shown(&fpdu))),
        Reaction::End => trial.judge(ids, stream, true, ("", "")),
    }
    Ok(None)
}

/// Returns the best Request, with C=0.
fn without_crc(trial: &Trial<'_>) -> Request {
    let best = trial.best_request();
    Request { flags: best.flags & !C, ..best }
}

/// Returns true for MPA's error 2. A target that exchanges the two halves of an octet has noticed the error too.
const fn is_crc_error(terminate: &Terminate) -> bool {
    is_of_mpa(terminate) && terminate.code()[1] == 0x02
}

/// Returns true for layer 2 and type 0, in either order.
const fn is_of_mpa(terminate: &Terminate) -> bool {
    matches!(terminate.code()[0], 0x20 | 0x02)
}

/// Returns the number of Marker octets before the next FPDU.
fn lead(stream: &Stream) -> usize {
    if stream.outgoing.position.is_some_and(|position| position % 512 == 0) { 4 } else { 0 }
}

const CRC_ERROR: &str = "a Terminate 20 02 00 00, as the CRC is wrong";
