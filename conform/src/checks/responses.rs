//! Read Responses to the target (RFC 5040 sections 5.2.2, 5.5 and 7.2).

use crate::check::Check;
use crate::fault::Fault;
use crate::finding::Stop;
use crate::octets::{pattern, tagged, write};
use crate::ping::{Client, Request, turn};
use crate::probe::shown;
use crate::segment::opcode;
use crate::stream::Stream;
use crate::trial::Trial;

pub(super) const CHECKS: &[Check] = &[
    Check {
        name: "response-segments",
        title: "a Read Response in segments, one octet each among them, is placed whole",
        ids: &["5040-5.2.2-3", "5040-5.2.2-5", "5041-4.1-1", "5041-5.2-4"],
        run: response_segments,
    },
    Check {
        name: "response-interleaved",
        title: "a Write between two segments of a Read Response is taken, and the Response is placed whole",
        ids: &["5041-5.2-4"],
        run: response_interleaved,
    },
    Check {
        name: "response-withheld",
        title: "a Read ends with the last segment of its Response: not before, and without anything more",
        ids: &["5040-5.5-15", "5040-5.5-18", "5041-4.1-7", "5041-5.4-1"],
        run: response_withheld,
    },
    Check {
        name: "response-unrequested",
        title: "a Read Response without a Read Request ends the stream",
        ids: &["5040-5.2.2-4", "5040-7.1-3"],
        run: response_unrequested,
    },
    Check {
        name: "response-bad-stag",
        title: "a Read Response to an STag that does not exist ends the stream",
        ids: &["5040-5.2.2-4", "5041-7.1-11", "5041-7.1-12", "5040-7.1-3"],
        run: response_bad_stag,
    },
    Check {
        name: "response-out-of-bounds",
        title: "a Read Response far outside of the sink ends the stream",
        ids: &["5040-5.2.2-4", "5040-8.1.1-4", "5041-7.1-14", "5042-6.2.1-1"],
        run: response_out_of_bounds,
    },
    Check {
        name: "response-wraps",
        title: "a Read Response whose TO wraps ends the stream",
        ids: &["5040-5.2.2-4", "5041-7.1-16"],
        run: response_wraps,
    },
];

fn response_segments(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut stream = trial.open()?;
    let mut client = Client::new(64);
    client.ping(trial, &mut stream)?;
    for chunk in [16, 23, 1] {
        client.chunk = chunk;
        turn(&mut client.content);
        let ids = &["5040-5.2.2-3", "5040-5.2.2-5", "5041-4.1-1", "5041-5.2-4"];
        client.expect_ping(ids, trial, &mut stream)?;
    }
    Ok(())
}

/// Opens a stream with a Read under way. Returns the two segments of its Response too.
fn in_two_segments(trial: &mut Trial<'_>) -> Result<(Stream, Client, Vec<Vec<u8>>), Stop> {
    let mut stream = trial.open()?;
    let mut client = Client::new(64);
    client.chunk = 40;
    client.ping(trial, &mut stream)?;
    client.advertise(&mut stream, client.source);
    let request = client.take_request(trial, &mut stream)?;
    let segments = client.response(&request.fields);
    Ok((stream, client, segments))
}

fn response_interleaved(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let (mut stream, mut client, segments) = in_two_segments(trial)?;
    // The rules for placing a segment (RFC 5041 sections 5 and 7.1) do not depend on the segments before it.
    for ulpdu in [&segments[0], &write(0, 0, &[]), &segments[1]] {
        stream.send_ulpdu(ulpdu);
    }
    let ids = &["5041-5.2-4"];
    let fpdu = trial.expect_fpdu(ids, &mut stream, "the Send that follows the Read")?;
    let is_send = fpdu.ulpdu.get(1).is_some_and(|octet| octet & 0x0F == opcode::SEND);
    trial.need(ids, &stream, is_send, ("the Send that follows the Read", shown(&fpdu)))?;
    client.advertise(&mut stream, client.sink);
    let written = client.take_writes(trial, &mut stream)?;
    let is_right = written.content.as_ref() == Some(&client.content);
    trial.judge(ids, &stream, is_right, ("the octets of both segments, written back", "other octets"));
    Ok(())
}

fn response_withheld(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let (mut stream, _, mut segments) = in_two_segments(trial)?;
    let last = segments.pop().unwrap_or_default();
    for ulpdu in &segments {
        stream.send_ulpdu(ulpdu);
    }
    trial.expect_quiet(&["5040-5.5-15", "5041-4.1-7", "5041-5.4-1"], &mut stream);
    if stream.end().is_some() {
        return Err(Stop::Judged);
    }
    stream.send_ulpdu(&last);
    let fpdu = trial.expect_fpdu(&["5040-5.5-18"], &mut stream, "the Send that follows the Read")?;
    let is_send = fpdu.ulpdu.get(1).is_some_and(|octet| octet & 0x0F == 3);
    let observed = crate::octets::digits(&fpdu.ulpdu, 40);
    trial.judge(&["5040-5.5-18"], &stream, is_send, ("the Send that follows the Read", observed));
    Ok(())
}

fn response_unrequested(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let mut stream = trial.open_alive()?;
    let ulpdu = tagged("C142", 0x0BAD_0001, 0x1000, &pattern(8));
    let what = "no Read is outstanding";
    let fault = Fault { what, guards: &["5040-5.2.2-4"], codes: &[], near: &[] };
    let refusal = trial.provoke(&fault, &mut stream, &ulpdu)?;
    trial.judge_returned(&["5040-7.1-3"], &stream, &refusal, (&ulpdu, false));
    Ok(())
}

/// Plays up to the target's Read Request. The caller sends a wrong answer.
fn requested(trial: &mut Trial<'_>) -> Result<(Stream, Request), Stop> {
    let mut stream = trial.open()?;
    let mut client = Client::new(64);
    client.advertise(&mut stream, client.source);
    let request = client.take_request(trial, &mut stream)?;
    Ok((stream, request))
}

fn response_bad_stag(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let (mut stream, request) = requested(trial)?;
    let sink = request.fields.sink;
    let ulpdu = tagged("C142", sink.0 ^ 0x5A5A_5A00, sink.1, &pattern(64));
    let what = "the STag is not the sink's";
    let guards = &["5040-5.2.2-4", "5041-7.1-11", "5041-7.1-12"];
    let fault = Fault { what, guards, codes: &[], near: &[] };
    let refusal = trial.provoke(&fault, &mut stream, &ulpdu)?;
    trial.judge_returned(&["5040-7.1-3"], &stream, &refusal, (&ulpdu, false));
    Ok(())
}

fn response_out_of_bounds(trial: &mut Trial<'_>) -> Result<(), Stop> {
    // The memory behind the STag may be larger than the Read's sink, but hardly by this much.
    for distance in [1_u64 << 40, (1_u64 << 40).wrapping_neg()] {
        let (mut stream, request) = requested(trial)?;
        let sink = request.fields.sink;
        let ulpdu = tagged("C142", sink.0, sink.1.wrapping_add(distance), &pattern(64));
        let guards = &["5040-5.2.2-4", "5040-8.1.1-4", "5041-7.1-14", "5042-6.2.1-1"];
        let fault = Fault { what: "the TO is far from the sink", guards, codes: &[], near: &[] };
        trial.provoke(&fault, &mut stream, &ulpdu)?;
    }
    Ok(())
}

fn response_wraps(trial: &mut Trial<'_>) -> Result<(), Stop> {
    let (mut stream, request) = requested(trial)?;
    let ulpdu = tagged("C142", request.fields.sink.0, u64::MAX - 3, &pattern(64));
    let guards = &["5040-5.2.2-4", "5041-7.1-16"];
    trial.provoke(&Fault { what: "the TO wraps", guards, codes: &[], near: &[] }, &mut stream, &ulpdu)?;
    Ok(())
}
