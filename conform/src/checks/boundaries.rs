//! How the target finds FPDUs in what it receives: padding, and TCP segments that end anywhere (RFC 5044 sections 4.1,
//! 5 and 6).

use std::time::Duration;

use crate::check::Check;
use crate::finding::Stop;
use crate::octets::{number, tagged, write};
use crate::ping::{Client, text, turn};
use crate::probe::{is_zero_response, shown, zero_read};
use crate::stream::{Missing, Stream};
use crate::survey::{Reaction, fed_ping, reaction, resealed};
use crate::trial::Trial;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "padding-taken",
        title: "Read Responses whose pad octets are not zero",
        ids: &["5044-4.1-5", "5044-4.4-14", "5044-4.4-18"],
        run: padding_taken,
    },
    Check {
        name: "fpdu-in-two-segments",
        title: "an FPDU cut in two at each of its octets, and one sent octet by octet",
        ids: ALIGNMENT,
        run: in_two_segments,
    },
    Check {
        name: "fpdus-in-one-segment",
        title: "ten FPDUs in one TCP segment, and in segments that end anywhere",
        ids: &["5044-5.1-5", "5044-5.2-1", "5044-6-2", "5044-A.4-1"],
        run: in_one_segment,
    },
    Check {
        name: "boundaries-kept",
        title: "a Read Response of many small FPDUs, all at once and octet by octet",
        ids: &[
            "5044-3-7",
            "5044-4.3-14",
            "5044-4.3-15",
            "5044-4.4-18",
            "5044-5.1-5",
            "5044-5.2-1",
            "5044-6-2",
            "5044-A.4-1",
        ],
        run: boundaries_kept,
    },
    Check {
        name: "largest-ulpdu",
        title: "a Read Response in one FPDU with the largest ULPDU, 64768 octets",
        ids: &["5044-3-7", "5044-4.1-2", "5044-5.2-1", "5044-6-5"],
        run: largest_ulpdu,
    },
    Check {
        name: "fpdu-not-whole",
        title: "FPDUs without their last octets, which come later",
        ids: &["5044-5.1-5", "5044-6-1", "5044-6-5", "5044-A.4-1"],
        run: not_whole,
    },
    Check {
        name: "fin-in-fpdu",
        title: "FIN in the middle of an FPDU",
        ids: &["5044-6-5", "5044-8-1"],
        run: fin_in_fpdu,
    },
    Check {
        name: "fin-after-fpdu",
        title: "FIN behind a whole FPDU",
        ids: &["5044-7.2-1"],
        run: fin_after_fpdu,
    },
    Check {
        name: "short-ulpdu",
        title: "ULPDUs that are too short for a DDP header, and an FPDU behind them",
        ids: &["5044-5.2-1"],
        run: short_ulpdu,
    },
];

/// The CRC covers the pad octets, whatever their values are.
fn padding_taken(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let ignored = &["5044-4.1-5", "5044-4.4-14", "5044-4.4-18"];
    let mut stream = trial.open()?;
    let mut client = Client::new(64);
    client.ping(trial, &mut stream)?;
    for chunk in [21, 22, 23] {
        client.chunk = chunk;
        let fill = |stream: &mut Stream, fpdus: Vec<Vec<u8>>| {
            let all: usize = fpdus.iter().map(Vec::len).sum();
            let mut start = stream.outgoing.position.map(|end| end - all);
            for fpdu in fpdus {
                let len = fpdu.len();
                stream.send(&with_padding(fpdu, start));
                start = start.map(|start| start + len);
            }
        };
        fed_ping(&mut client, trial, &mut stream, ignored, fill)?;
    }
    if stream.outgoing.position.is_some() {
        return Ok(());
    }
    let summed = &["5044-4.1-5", "5044-4.4-14", "5044-4.4-18"];
    client.advertise(&mut stream, client.source);
    let request = client.take_request(trial, &mut stream)?;
    let mut octets = stream.outgoing.fpdu(&client.response(&request.fields)[0]);
    let at = octets.len() - 5;
    octets[at] = 0xFF;
    stream.send(&octets);
    super::crc::expect_crc_error(trial, &mut stream, summed).map(drop)
}

const ALIGNMENT: &[&str] = &["5044-5.1-5", "5044-A.4-1"];

fn in_two_segments(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut stream = trial.open()?;
    trial.expect_alive(&[], &mut stream, 1)?;
    for msn in 2.. {
        let octets = stream.outgoing.fpdu(&zero_read(msn));
        let cut = msn as usize - 1;
        if cut >= octets.len() {
            octets.iter().for_each(|octet| stream.send(&[*octet]));
            return trial.expect_answer(ALIGNMENT, &mut stream);
        }
        stream.send(&octets[..cut]);
        stream.send(&octets[cut..]);
        trial.expect_answer(ALIGNMENT, &mut stream)?;
    }
    Ok(())
}

/// Zero-length Writes need no memory of the target, and no answer.
fn in_one_segment(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut stream = trial.open()?;
    trial.expect_alive(&[], &mut stream, 1)?;
    stream.send_ulpdu(&write(1, 0, &[]));
    trial.expect_alive(&[], &mut stream, 2)?;
    for (msn, len) in (3..).zip([usize::MAX, 5, 19, 20, 21, 33, 64, 150]) {
        let mut octets = Vec::new();
        for to in 0..9 {
            octets.extend(stream.outgoing.fpdu(&write(1, to, &[])));
        }
        octets.extend(stream.outgoing.fpdu(&zero_read(msn)));
        octets.chunks(len).for_each(|part| stream.send(part));
        let found: &[&str] = if len == usize::MAX { &["5044-5.2-1", "5044-6-2"] } else { ALIGNMENT };
        trial.expect_answer(found, &mut stream)?;
    }
    Ok(())
}

const BOUNDARIES: &[&str] =
    &["5044-3-7", "5044-4.3-14", "5044-4.3-15", "5044-4.4-18", "5044-5.2-1", "5044-6-2"];

/// The octets that the target writes back show how it put the segments together.
fn boundaries_kept(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut stream = trial.open()?;
    let mut client = Client::new(64);
    client.ping(trial, &mut stream)?;
    let at_once = |stream: &mut Stream, fpdus: Vec<Vec<u8>>| stream.send(&fpdus.concat());
    let in_octets = |stream: &mut Stream, fpdus: Vec<Vec<u8>>| {
        fpdus.concat().iter().for_each(|octet| stream.send(&[*octet]));
    };
    // In these cases all FPDUs fit one TCP segment, and the target's Write needs no padding.
    for (chunk, size) in [(1, 40), (2, 64), (3, 64), (7, 60), (64, 64)] {
        client.chunk = chunk;
        client.content = text(size);
        (0..chunk).for_each(|_| turn(&mut client.content));
        fed_ping(&mut client, trial, &mut stream, BOUNDARIES, at_once)?;
    }
    client.chunk = 5;
    client.content = text(60);
    fed_ping(&mut client, trial, &mut stream, ALIGNMENT, in_octets).map(drop)
}

fn largest_ulpdu(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let ids = &["5044-3-7", "5044-4.1-2", "5044-5.2-1", "5044-6-5"];
    let mut stream = trial.open()?;
    let mut client = Client::new(LARGEST - TAGGED_HEADER);
    client.ping(trial, &mut stream)?;
    client.chunk = client.content.len();
    turn(&mut client.content);
    let at_once = |stream: &mut Stream, fpdus: Vec<Vec<u8>>| stream.send(&fpdus.concat());
    fed_ping(&mut client, trial, &mut stream, ids, at_once).map(drop)
}

fn not_whole(trial: &mut Trial<'_>) -> Result<(), Stop> {
    for (left, ids) in [(8, &["5044-6-5"][..]), (1, ALIGNMENT)] {
        let mut stream = trial.open()?;
        trial.expect_alive(&[], &mut stream, 1)?;
        let octets = stream.outgoing.fpdu(&zero_read(2));
        let (most, last) = octets.split_at(octets.len() - left);
        stream.send(most);
        let (early, end) = stream.listen(QUIET);
        if early.is_empty() && end != Missing::Silence {
            return Err(Stop::Unsuited(format!("{end} while an FPDU was on its way")));
        }
        let observed = format!("{} octets", early.len());
        let whole = &["5044-6-1", "5044-6-5"];
        trial.judge(whole, &stream, early.is_empty(), ("silence until the FPDU is whole", observed));
        stream.send(last);
        trial.expect_answer(ids, &mut stream)?;
    }
    Ok(())
}

/// A target may send something before it ends the connection. It must not answer an FPDU that was never whole.
fn fin_in_fpdu(trial: &mut Trial<'_>) -> Result<(), Stop> {
    for left in [51, 50, 20, 4, 1] {
        let mut stream = trial.open()?;
        trial.expect_alive(&[], &mut stream, 1)?;
        let octets = stream.outgoing.fpdu(&zero_read(2));
        stream.send(&octets[..octets.len() - left]);
        stream.finish();
        let lost = &["5044-8-1"];
        let expected = "the end of the connection, as it was closed within an FPDU";
        let reaction = reaction(trial, lost, &mut stream, expected)?;
        let is_right = !matches!(reaction, Reaction::Fpdu(_));
        let words = (expected, "an answer to an FPDU that was never whole");
        trial.judge(&["5044-6-5", "5044-8-1"], &stream, is_right, words);
        let (_, end) = stream.read_to_end();
        trial.note(end);
        trial.judge(lost, &stream, end != Missing::Silence, (expected, end));
    }
    Ok(())
}

/// A target may leave its own direction open. If it closes it, it must not do so inside of an FPDU.
fn fin_after_fpdu(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut stream = trial.open()?;
    trial.expect_alive(&[], &mut stream, 1)?;
    stream.finish();
    let (octets, end) = stream.read_to_end();
    if end == Missing::Silence {
        trial.note(end);
        return Err(Stop::Unsuited("the target leaves its half of the connection open".to_owned()));
    }
    let observed = format!("{} octets and {end}", octets.len());
    let words = ("the end of the connection behind a whole FPDU", observed);
    trial.judge(&["5044-7.2-1"], &stream, is_whole(&octets), words);
    Ok(())
}

/// No RFC says which error that is, or whether it is one. But the next FPDU begins where ULPDU_Length says. A target
/// that reads a whole DDP header regardless waits for octets that never come.
fn short_ulpdu(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let whole = tagged("C140", 1, 0, &[]);
    let send = crate::octets::send(1, &[]);
    for ulpdu in [&[][..], &whole[..1], &whole[..2], &whole[..13], &send[..2], &send[..14], &send[..17]] {
        let mut stream = trial.open()?;
        trial.expect_alive(&[], &mut stream, 1)?;
        let octets = [stream.outgoing.fpdu(ulpdu), stream.outgoing.fpdu(&zero_read(2))].concat();
        stream.send(&octets);
        let found = &["5044-5.2-1"];
        let expected = "an error, or the answer to the FPDU behind the short one";
        match reaction(trial, found, &mut stream, expected)? {
            Reaction::Fpdu(fpdu) => {
                trial.judge(found, &stream, is_zero_response(&fpdu), (expected, shown(&fpdu)));
            }
            Reaction::Terminate(_) | Reaction::End => trial.judge(found, &stream, true, ("", "")),
        }
    }
    Ok(())
}

/// Returns the FPDU with other pad octets, and a CRC that covers them. `start` is its offset in a stream with
/// Markers.
fn with_padding(fpdu: Vec<u8>, start: Option<usize>) -> Vec<u8> {
    let is_marked = |at: usize| start.is_some_and(|start| (start + at).is_multiple_of(512));
    let (lead, tail) = (is_marked(0), is_marked(fpdu.len() - 8));
    resealed(fpdu, |covered| {
        let len = number(&covered[if lead { 4 } else { 0 }..]);
        let end = covered.len() - if tail { 4 } else { 0 };
        let pad = (2 + len).next_multiple_of(4) - 2 - len;
        covered[end - pad..end].fill(0xFF);
    })
}

/// Returns true if the octets are whole FPDUs without Markers, or no octets.
fn is_whole(mut octets: &[u8]) -> bool {
    while let Some((head, rest)) = octets.split_at_checked(2) {
        let len = (2 + number(head)).next_multiple_of(4) + 2;
        let Some(behind) = rest.get(len..) else { return false };
        octets = behind;
    }
    octets.is_empty()
}

const QUIET: Duration = Duration::from_millis(100);
/// Octets of the largest ULPDU (RFC 5044 section 3).
const LARGEST: usize = 64_768;
const TAGGED_HEADER: usize = 14;
